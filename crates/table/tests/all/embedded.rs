//! Tables with embedded blobs that RocksDB 11.8.1 wrote (tests/testdata/rocksdb-11.8-embedded):
//! what is stored, indexes that lead nowhere, and every flipped byte.

use std::sync::Arc;

use crate::support;
use pumice_base::key::internal_key;
use pumice_base::{Result, ValueType};
use pumice_compress::CompressionType;
use pumice_table::blob::index::BlobIndex;
use pumice_table::{Table, TableBuildContext, TableReadContext, TableReadOptions};

const TABLES: [(&str, &[u8]); 3] = [
    ("xxh3", include_bytes!("../../../../tests/testdata/rocksdb-11.8-embedded/xxh3.sst")),
    ("crc-lz4", include_bytes!("../../../../tests/testdata/rocksdb-11.8-embedded/crc-lz4.sst")),
    (
        "partitioned",
        include_bytes!("../../../../tests/testdata/rocksdb-11.8-embedded/partitioned.sst"),
    ),
];
const NUMBER: u64 = 77;

fn opened(bytes: &[u8], raw_indexes: bool) -> Result<Arc<Table>> {
    let context =
        TableReadContext { file_number: NUMBER, raw_indexes, ..TableReadContext::default() };
    support::open(context, bytes)
}

/// Every key and value; an index gives the value that it leads to.
fn contents(table: &Arc<Table>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut iter = table.iter(&TableReadOptions::default());
    let mut all = Vec::new();
    iter.seek_to_first();
    while iter.valid() {
        let value = match iter.key().tag() == ValueType::BlobIndex as u8 {
            true => table.embedded_blob(&BlobIndex::decode(iter.value())?, true)?,
            false => iter.value().to_vec(),
        };
        all.push((iter.key().to_vec(), value));
        assert!(all.len() < 1000, "an endless table");
        iter.next();
    }
    iter.status()?;
    Ok(all)
}

#[pumice_test_macros::test]
fn indexes_have_the_number_of_their_table_unless_they_are_raw() {
    for (name, bytes) in TABLES {
        for raw in [false, true] {
            let table = opened(bytes, raw).unwrap();
            assert!(table.has_embedded_blobs(), "{name}");
            table.verify_checksums().unwrap();
            let mut iter = table.iter(&TableReadOptions::default());
            let (mut indexes, mut entities) = (0, 0);
            iter.seek_to_first();
            while iter.valid() {
                let (tag, value) = (iter.key().tag(), iter.value());
                if tag == ValueType::BlobIndex as u8 {
                    indexes += 1;
                    let index = BlobIndex::decode(value).unwrap();
                    assert_eq!((index.in_table, index.file), (true, if raw { 0 } else { NUMBER }));
                    let mut stored = Vec::new();
                    index.encode(&mut stored);
                    assert_eq!(raw, value == stored, "{name}");
                    let blob = table.embedded_blob(&index, true).unwrap();
                    assert_eq!(blob.len() as u64, index.size);
                } else if tag == ValueType::WideColumnEntity as u8 {
                    entities += 1;
                }
                iter.next();
            }
            iter.status().unwrap();
            let sixths = if name == "xxh3" { 10 } else { 5 };
            assert_eq!((indexes, entities), (2 * sixths, sixths), "{name}");
        }
    }
}

#[pumice_test_macros::test]
fn indexes_that_lead_nowhere_are_corruption() {
    let table = opened(TABLES[0].1, false).unwrap();
    let index = |offset, size, compression| BlobIndex {
        file: NUMBER,
        in_table: true,
        offset,
        size,
        compression,
    };
    let len = table.file_size();
    for wrong in [
        index(0, 299, CompressionType::None),
        index(1, 300, CompressionType::None),
        index(0, 300, CompressionType::Lz4),
        index(0, len, CompressionType::None),
        index(len, 0, CompressionType::None),
        index(u64::MAX, 10, CompressionType::None),
        index(10, u64::MAX - 9, CompressionType::None),
    ] {
        let error = table.embedded_blob(&wrong, true).unwrap_err();
        assert!(error.is_corruption(), "{wrong:?}: {error}");
        let place = format!("offset {} of {} bytes in ", wrong.offset, wrong.size);
        assert!(error.message().contains(&place), "{wrong:?}: {error}");
    }
    // A table that does not say that it has such values.
    let key = internal_key(b"k", 1, ValueType::Value);
    let built = support::build(TableBuildContext::default(), [(&key[..], &b"v"[..])]);
    let plain = opened(&built.bytes, false).unwrap();
    let error = plain.embedded_blob(&index(0, 1, CompressionType::None), true).unwrap_err();
    assert!(error.message().contains("without embedded blobs"), "{error}");
}

/// A flipped byte is an error or changes nothing: but for the sequence number of the file, which
/// an ingestion may have written into it, so that its block's checksum is one without it.
#[pumice_test_macros::test]
fn flipped_bytes_are_found() {
    const NUMBER: &[u8] = b"global_seqno";
    for (name, bytes) in TABLES {
        let whole = contents(&opened(bytes, false).unwrap()).unwrap();
        let number = bytes.windows(NUMBER.len()).position(|at| at == NUMBER).unwrap();
        let number = number + NUMBER.len()..number + NUMBER.len() + 8;
        let mut found = 0;
        for at in (0..bytes.len()).step_by(7).filter(|at| !number.contains(at)) {
            let mut changed = bytes.to_vec();
            changed[at] ^= 0x10;
            let read = opened(&changed, false).and_then(|table| {
                let read = contents(&table)?;
                table.verify_checksums()?;
                Ok(read)
            });
            match read {
                Ok(read) => assert!(read == whole, "{name}, byte {at}"),
                Err(error) => {
                    assert!(!error.message().is_empty());
                    found += 1;
                }
            }
        }
        assert!(found > bytes.len() / 7 * 9 / 10, "{name}: {found}");
    }
}
