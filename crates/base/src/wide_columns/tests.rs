//! Known bytes, hostile bytes, and round trips.

#![allow(clippy::unwrap_used)]
use super::*;
use crate::ErrorKind;
use proptest::prelude::*;

/// As RocksDB 7.8 wrote it.
const V1: &[u8] = b"\x01\x03\x00\x02\x02n1\x02\x02n2\x03dvv1v22";
/// As RocksDB 11.9 lays it out, all columns inline.
const V2: &[u8] = b"\x02\x03\x03\x03\x04\x01\x01\x01\x00\x02\x02\x02\x02\x03n1n2dvv1v22";
/// As RocksDB 11.9 wrote it: the column `big` is in a blob file.
const V2_BLOB: &[u8] = b"\x02\x03\x03\x03\x05\x01\x11\x01\x00\x03\x02\x04\x05\x01bigsm\
    dflt\x01\x0a\x40\x28\x00s";

fn columns() -> [WideColumn<'static>; 3] {
    [WideColumn::new(b"", b"dv"), WideColumn::new(b"n1", b"v1"), WideColumn::new(b"n2", b"v22")]
}

fn refusal(entity: &[u8]) -> (ErrorKind, String) {
    let error = decode(entity).unwrap_err();
    (error.kind(), error.to_string())
}

#[test]
fn known_bytes() {
    let mut mixed = columns();
    mixed.reverse();
    assert_eq!(encode(&mut mixed).unwrap(), V1);
    assert_eq!(decode(V1).unwrap(), columns());
    assert_eq!(decode(V2).unwrap(), columns());
    assert_eq!(encode(&mut []).unwrap(), b"\x01\x00");
    assert_eq!(decode(b"\x01\x00").unwrap(), []);
    assert_eq!(decode(b"\x02\x00\x00\x00\x00").unwrap(), []);
}

#[test]
fn the_default_column_stands_for_the_entity() {
    assert_eq!(default_column(V1).unwrap(), b"dv");
    assert_eq!(default_column(V2).unwrap(), b"dv");
    assert_eq!(default_column(b"\x01\x01\x01a\x01b").unwrap(), b"");
    assert_eq!(default_column(b"\x01\x00").unwrap(), b"");
    let changed = with_default(V2, b"other").unwrap();
    assert_eq!(changed, b"\x01\x03\x00\x05\x02n1\x02\x02n2\x03otherv1v22");
    assert_eq!(with_default(b"\x01\x01\x01a\x01b", b"x").unwrap(), b"\x01\x02\x00\x01\x01a\x01xb");
}

#[test]
fn columns_in_blob_files_are_carried() {
    let stored = decode_stored(V2_BLOB).unwrap();
    assert_eq!(encode_stored(&stored).unwrap(), V2_BLOB);
    assert!(has_blobs(V2_BLOB) && !has_blobs(V2) && !has_blobs(V1) && !has_blobs(b""));
    let stored: Vec<_> = decode_stored(V2).unwrap();
    assert!(stored.iter().all(|stored| !stored.in_blob_file));
    assert_eq!(encode_stored(&stored).unwrap(), V1);
}

#[test]
fn what_is_wrong_is_said() {
    let corruption = |text: &str| (ErrorKind::Corruption, format!("Corruption: {text}"));
    let (kind, text) = refusal(V2_BLOB);
    assert!(kind == ErrorKind::NotSupported && text.contains("blob files"), "{text}");
    let (kind, text) = refusal(b"\x03\x00");
    assert_eq!(kind, ErrorKind::NotSupported);
    assert!(text.contains("Unsupported wide column version: 3"), "{text}");
    assert_eq!(refusal(b""), corruption("Error decoding wide column version"));
    assert_eq!(refusal(b"\x00\x00"), corruption("Error decoding wide column version"));
    assert_eq!(refusal(b"\x01"), corruption("Error decoding number of wide columns"));
    assert_eq!(refusal(b"\x01\x02\x01b\x00\x01a\x00"), corruption("Wide columns out of order"));
    assert_eq!(refusal(b"\x01\x02\x01a\x00\x01a\x00"), corruption("Wide columns out of order"));
    assert_eq!(
        refusal(b"\x01\x01\x01a\x02x"),
        corruption("Error decoding wide column value payload")
    );
    let twice = &mut [WideColumn::new(b"a", b"1"), WideColumn::new(b"a", b"2")];
    assert_eq!(encode(twice).unwrap_err().to_string(), "Corruption: Wide columns out of order");
    for entity in [V1, V2] {
        let longer = [entity, b"x"].concat();
        assert_eq!(refusal(&longer), corruption("Unexpected bytes after a wide-column entity"));
    }
}

#[test]
fn no_part_is_read_as_a_whole() {
    for entity in [V1, V2] {
        for cut in 0..entity.len() {
            assert_eq!(refusal(&entity[..cut]).0, ErrorKind::Corruption, "cut {cut}");
        }
    }
}

/// Counts and sizes that would not fit in memory, or overflow when they are added.
#[test]
fn huge_numbers_allocate_nothing() {
    let huge = b"\xff\xff\xff\xff\x0f";
    for entity in [
        [&b"\x01"[..], huge, b"\x00\x00"].concat(),
        [&b"\x01\x01"[..], huge, b"\x00\x00"].concat(),
        [&b"\x01\x02\x00"[..], huge, b"\x01a", huge, b"xyz"].concat(),
        [&b"\x02"[..], huge, huge, huge, huge].concat(),
        [&b"\x02\x01"[..], huge, huge, huge, b"\x01\x00\x00"].concat(),
        [&b"\x02\x01\x05\x05\x00\x01"[..], huge, huge].concat(),
    ] {
        assert_eq!(refusal(&entity).0, ErrorKind::Corruption, "{entity:?}");
    }
}

fn bytes(fewer_than: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..fewer_than)
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        columns in prop::collection::btree_map(bytes(4), bytes(200), 0..9),
        turned in any::<bool>(),
    ) {
        let sorted: Vec<_> = columns.iter().map(|(n, v)| WideColumn::new(n, v)).collect();
        let mut given = sorted.clone();
        if turned {
            given.reverse();
        }
        let entity = encode(&mut given).unwrap();
        prop_assert_eq!(decode(&entity).unwrap(), sorted);
    }

    #[test]
    fn hostile_bytes_do_not_panic(
        version in 0u8..4, bytes in prop::collection::vec(0u8..20, 0..40), at in any::<usize>(),
        byte in any::<u8>(),
    ) {
        drop(decode(&[&[version], &bytes[..]].concat()));
        for known in [V1, V2, V2_BLOB] {
            let mut changed = known.to_vec();
            changed[at % known.len()] = byte;
            let read = default_column(&changed);
            prop_assert!(read.is_err() || decode(&changed).is_ok());
        }
    }
}
