//! Encoding and decoding of edits: by hand, by seed, and with damaged bytes.

use std::sync::Arc;

use pumice_base::key::{
    COLUMN_FAMILY_ID_MAX, FILE_NUMBER_MAX, LAST_SEQUENCE_MAX, MAX_SEQUENCE, ValueType, internal_key,
};
use pumice_manifest::edit::{BlobFileAddition, BlobFileGarbage, WalAddition};
use pumice_manifest::{FileMetaData, VersionEdit};

use crate::search::Rng;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let pair = |p: &[u8]| u8::from_str_radix(std::str::from_utf8(p).unwrap(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}

fn random_file(rng: &mut Rng) -> FileMetaData {
    let key = |rng: &mut Rng| {
        let user: Vec<u8> = (0..rng.below(20)).map(|_| rng.next() as u8).collect();
        internal_key(&user, rng.next() & MAX_SEQUENCE, ValueType::Merge)
    };
    let maybe = |rng: &mut Rng| if rng.below(2) == 0 { 0 } else { rng.next() >> rng.below(60) };
    let checksum = rng.below(2) == 0;
    FileMetaData {
        number: rng.next() & FILE_NUMBER_MAX,
        path_id: rng.below(4) as u32,
        file_size: rng.next(),
        smallest: key(rng),
        largest: key(rng),
        smallest_seq: rng.next() & MAX_SEQUENCE,
        largest_seq: rng.next() & MAX_SEQUENCE,
        epoch_number: maybe(rng) >> 2,
        oldest_ancester_time: maybe(rng),
        file_creation_time: maybe(rng),
        oldest_blob_file_number: maybe(rng),
        temperature: [0, 4, 8, 12][rng.below(4) as usize],
        unique_id: [maybe(rng), maybe(rng)],
        tail_size: maybe(rng),
        marked_for_compaction: rng.below(2) == 0,
        file_checksum: if checksum { vec![1, 2, 3, rng.next() as u8] } else { Vec::new() },
        file_checksum_func_name: if checksum { "FileChecksumCrc32c".into() } else { "".into() },
        compensated_range_deletion_size: maybe(rng) >> 8,
        min_timestamp: vec![7; rng.below(3) as usize],
        max_timestamp: vec![8; rng.below(3) as usize],
        timestamps_stripped: rng.below(2) == 0,
        ..Default::default()
    }
}

fn random_edit(rng: &mut Rng) -> VersionEdit {
    let maybe = |rng: &mut Rng| (rng.below(2) == 0).then(|| rng.next() >> rng.below(64));
    let mut edit = VersionEdit {
        db_id: maybe(rng).map(|n| format!("id-{n}")),
        comparator: maybe(rng).map(|n| format!("cmp-{n}")),
        persist_user_defined_timestamps: maybe(rng).map(|n| n % 2 == 0),
        log_number: maybe(rng).map(|n| n & FILE_NUMBER_MAX),
        prev_log_number: maybe(rng).map(|n| n & FILE_NUMBER_MAX),
        next_file_number: maybe(rng).map(|n| n & FILE_NUMBER_MAX),
        last_sequence: maybe(rng).map(|n| n.min(LAST_SEQUENCE_MAX)),
        min_log_number_to_keep: maybe(rng).map(|n| n & FILE_NUMBER_MAX),
        max_column_family: maybe(rng).map(|n| (n as u32).min(COLUMN_FAMILY_ID_MAX)),
        wal_deletion: maybe(rng),
        column_family: rng.below(3) as u32,
        add_column_family: maybe(rng).map(|n| format!("cf-{n}")),
        drop_column_family: rng.below(2) == 0,
        atomic_group_remaining: maybe(rng).map(|n| n as u32),
        full_history_ts_low: maybe(rng).map(|n| n.to_le_bytes().to_vec()),
        last_compacted_manifest_size: maybe(rng),
        ..Default::default()
    };
    for _ in 0..rng.below(4) {
        edit.add_file(rng.below(7) as usize, Arc::new(random_file(rng)));
        edit.delete_file(rng.below(7) as usize, rng.next() & FILE_NUMBER_MAX);
        let cursor = internal_key(b"cursor", rng.below(9), ValueType::Value);
        edit.compact_cursors.push((rng.below(7) as usize, cursor));
        edit.blob_additions.push(BlobFileAddition {
            number: rng.next() & FILE_NUMBER_MAX,
            blob_count: rng.below(100),
            blob_bytes: rng.next(),
            checksum_method: "SHA1".into(),
            checksum_value: vec![1, 2, 3],
        });
        edit.blob_garbage.push(BlobFileGarbage {
            number: rng.next() & FILE_NUMBER_MAX,
            garbage_count: rng.below(100),
            garbage_bytes: rng.next(),
        });
        let number = rng.next() & FILE_NUMBER_MAX;
        edit.wal_additions.push(WalAddition { number, synced_size: maybe(rng) });
    }
    edit
}

/// Every persisted field of every file, since `FileMetaData` has no equality.
fn same(a: &VersionEdit, b: &VersionEdit) -> bool {
    let files = |e: &VersionEdit| {
        let show = |(level, f): &(usize, Arc<FileMetaData>)| {
            format!(
                "{level} {f:?} {:?} {:?} {} {} {:?} {} {:?} {:?}",
                f.smallest,
                f.largest,
                f.path_id,
                f.marked_for_compaction,
                (f.oldest_ancester_time, f.file_creation_time, f.oldest_blob_file_number),
                f.temperature,
                (f.unique_id, f.tail_size, &f.file_checksum, &f.file_checksum_func_name),
                (
                    f.compensated_range_deletion_size,
                    &f.min_timestamp,
                    &f.max_timestamp,
                    f.timestamps_stripped
                )
            )
        };
        e.new_files.iter().map(show).collect::<Vec<_>>()
    };
    let rest = |e: &VersionEdit| format!("{:?}", VersionEdit { new_files: vec![], ..e.clone() });
    files(a) == files(b) && rest(a) == rest(b)
}

/// Numbers from which the counters of a database could not continue are rejected; the largest valid
/// ones are accepted.
#[test]
fn numbers_have_bounds() {
    let edit = VersionEdit::default;
    let file = |file: FileMetaData| {
        let key = internal_key(b"k", 1, ValueType::Value);
        let file = FileMetaData { smallest: key.clone(), largest: key, ..file };
        VersionEdit { new_files: vec![(0, Arc::new(file))], ..edit() }
    };
    let meta = FileMetaData::default;
    let at = |n: u64| {
        [
            (FILE_NUMBER_MAX, VersionEdit { log_number: Some(n), ..edit() }),
            (FILE_NUMBER_MAX, VersionEdit { prev_log_number: Some(n), ..edit() }),
            (FILE_NUMBER_MAX, VersionEdit { next_file_number: Some(n), ..edit() }),
            (FILE_NUMBER_MAX, VersionEdit { min_log_number_to_keep: Some(n), ..edit() }),
            (FILE_NUMBER_MAX, VersionEdit { deleted_files: vec![(0, n)], ..edit() }),
            (FILE_NUMBER_MAX, file(FileMetaData { number: n, ..meta() })),
            (LAST_SEQUENCE_MAX, VersionEdit { last_sequence: Some(n), ..edit() }),
            (MAX_SEQUENCE, file(FileMetaData { smallest_seq: n, ..meta() })),
            (MAX_SEQUENCE, file(FileMetaData { largest_seq: n, ..meta() })),
            (1 << 62, file(FileMetaData { epoch_number: n, ..meta() })),
            (1 << 56, file(FileMetaData { compensated_range_deletion_size: n, ..meta() })),
        ]
    };
    let mut bounds = vec![0, 1, u64::MAX - 1, u64::MAX];
    bounds.extend([FILE_NUMBER_MAX, LAST_SEQUENCE_MAX, MAX_SEQUENCE, 1 << 62].map(|n| n + 1));
    bounds.extend([FILE_NUMBER_MAX, LAST_SEQUENCE_MAX, MAX_SEQUENCE, 1 << 62]);
    bounds.extend([1 << 56, (1 << 56) + 1]);
    for n in bounds {
        for (field, (most, edit)) in at(n).into_iter().enumerate() {
            let decoded = VersionEdit::decode(&edit.encode());
            assert_eq!(decoded.is_ok(), n <= most, "field {field}: {n}");
        }
    }
    for id in [COLUMN_FAMILY_ID_MAX, u32::MAX] {
        let good = id == COLUMN_FAMILY_ID_MAX;
        let largest = VersionEdit { max_column_family: Some(id), ..edit() };
        let of = VersionEdit { column_family: id, ..edit() };
        assert_eq!(VersionEdit::decode(&largest.encode()).is_ok(), good);
        assert_eq!(VersionEdit::decode(&of.encode()).is_ok(), good);
    }
}

#[test]
fn decode_returns_what_was_encoded() {
    for seed in 0..2000 {
        let edit = random_edit(&mut Rng(seed));
        let bytes = edit.encode();
        let back = VersionEdit::decode(&bytes).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert!(same(&edit, &back), "seed {seed}\n{edit:?}\n{back:?}");
        assert_eq!(back.encode(), bytes, "seed {seed}");
    }
}

#[test]
fn damaged_records_never_panic() {
    for seed in 0..300 {
        let mut rng = Rng(seed);
        let good = random_edit(&mut rng).encode();
        for _ in 0..200 {
            let mut bad = good.clone();
            match rng.below(3) {
                0 => bad.truncate(rng.below(good.len() as u64 + 1) as usize),
                1 if !bad.is_empty() => {
                    let at = rng.below(bad.len() as u64) as usize;
                    bad[at] ^= 1 << rng.below(8);
                }
                _ => {
                    let at = rng.below(bad.len() as u64 + 1) as usize;
                    bad.splice(at..at, (0..rng.below(9)).map(|_| rng.next() as u8));
                }
            }
            if let Ok(edit) = VersionEdit::decode(&bad) {
                // An accepted edit must survive a round trip, and print.
                let again = VersionEdit::decode(&edit.encode()).unwrap();
                assert_eq!(again.encode(), edit.encode(), "seed {seed}");
                assert!(edit.debug_string(true).starts_with("VersionEdit {"));
            }
        }
        let garbage: Vec<u8> = (0..rng.below(300)).map(|_| rng.next() as u8).collect();
        if let Ok(edit) = VersionEdit::decode(&garbage) {
            assert!(edit.encode().len() <= 4 * garbage.len() + 64);
        }
    }
}

#[test]
fn every_truncation_inside_a_file_is_refused() {
    let mut edit = VersionEdit::default();
    edit.add_file(3, Arc::new(random_file(&mut Rng(1))));
    let bytes = edit.encode();
    for n in 1..bytes.len() {
        let error = VersionEdit::decode(&bytes[..n]).unwrap_err();
        assert!(error.is_corruption() && error.message().starts_with("VersionEdit: "), "{error}");
    }
}

/// The flush edit of RocksDB 7.8 in docs/format/manifest.md#edits.
#[test]
fn reads_a_flush_edit() {
    let bytes = hex("0208 0900 030a 04c801 67 00 09 c418
         11 6b6579303030303030 01 01000000000000 11 6b6579303030313939 01 c8000000000000
         01 c801 0505cfc887d806 0605cfc887d806 0700 0807 556e6b6e6f776e
         0c10 000102030405060708090a0b0c0d0e0f 01");
    let edit = VersionEdit::decode(&bytes).unwrap();
    assert_eq!(
        (edit.log_number, edit.prev_log_number, edit.next_file_number, edit.last_sequence),
        (Some(8), Some(0), Some(10), Some(200))
    );
    let (level, file) = &edit.new_files[0];
    assert_eq!((*level, file.number, file.file_size), (0, 9, 3140));
    assert_eq!(file.smallest, internal_key(b"key000000", 1, ValueType::Value));
    assert_eq!((file.smallest_seq, file.largest_seq), (1, 200));
    assert_eq!(file.unique_id, [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]);
    assert_eq!(file.file_checksum_func_name, "Unknown");
}

#[test]
fn reads_column_family_group_and_wal_edits() {
    let edit =
        VersionEdit::decode(&hex("011a 6c6576656c64622e4279746577697365436f6d70617261746f72
         0204 0308 0400 c80101 c90103 74776f"))
        .unwrap();
    assert_eq!(edit.add_column_family.as_deref(), Some("two"));
    assert_eq!((edit.column_family, edit.log_number), (1, Some(4)));

    let edit = VersionEdit::decode(&hex("0310 cb0102 0400 c80102 ca01 ac0202")).unwrap();
    assert!(edit.drop_column_family);
    assert_eq!((edit.column_family, edit.max_column_family), (2, Some(2)));
    assert_eq!(edit.atomic_group_remaining, Some(2));

    let edit = VersionEdit::decode(&hex("0900 030b 0400 874004 04023101")).unwrap();
    assert_eq!(edit.wal_additions, [WalAddition { number: 4, synced_size: Some(49) }]);
    // The deprecated forms have no length.
    let edit = VersionEdit::decode(&hex("8440 04 02 31 01 8540 09")).unwrap();
    assert_eq!(edit.wal_additions, [WalAddition { number: 4, synced_size: Some(49) }]);
    assert_eq!(edit.wal_deletion, Some(9));
}

#[test]
fn reads_old_file_forms() {
    let keys = "09 61 0105000000000000 09 62 0104000000000000";
    for (head, tail, path) in
        [("07 02 09 64", "", 0), ("64 02 09 64", "04 05", 0), ("66 02 09 01 64", "04 05", 1)]
    {
        let edit = VersionEdit::decode(&hex(&format!("{head} {keys} {tail}"))).unwrap();
        let (level, file) = &edit.new_files[0];
        assert_eq!((*level, file.number, file.file_size, file.path_id), (2, 9, 100, path));
        assert_eq!(file.largest, internal_key(b"b", 4, ValueType::Value));
        assert_eq!(file.largest_seq, if tail.is_empty() { 0 } else { 5 });
    }
}

#[test]
fn skips_or_refuses_unknown_fields() {
    // 8192 + 500, then a log number.
    let edit = VersionEdit::decode(&hex("f443 03 aabbcc 0207")).unwrap();
    assert_eq!((edit.unknown_skipped, edit.log_number), (1, Some(7)));
    let message = |bytes: &str| VersionEdit::decode(&hex(bytes)).unwrap_err().to_string();
    assert_eq!(message("0b 01"), "Corruption: VersionEdit: unknown tag");
    assert_eq!(message("80"), "Corruption: VersionEdit: invalid tag");
    let file = "67 00 09 64 09 61 0105000000000000 09 62 0104000000000000 04 05";
    assert!(VersionEdit::decode(&hex(&format!("{file} 20 02 ffff 01"))).is_ok());
    assert_eq!(
        message(&format!("{file} 42 02 ffff 01")),
        "Corruption: VersionEdit: new-file4 custom field not supported"
    );
    // The legacy minimum log number inside a file counts for the database.
    let edit = VersionEdit::decode(&hex(&format!("{file} 03 08 0700000000000000 01"))).unwrap();
    assert_eq!(edit.min_log_number_to_keep, Some(7));
    assert_eq!(message("06 8002 01"), "Corruption: VersionEdit: deleted file");
    assert_eq!(message("05 00 03 616263"), "Corruption: VersionEdit: compaction cursor");
    assert!(VersionEdit::decode(b"").unwrap().new_files.is_empty());
}

#[test]
fn first_file_repeats_the_minimum_log_number() {
    let mut edit = VersionEdit { min_log_number_to_keep: Some(7), ..Default::default() };
    for number in [1, 2] {
        edit.add_file(0, Arc::new(FileMetaData { number, ..random_file(&mut Rng(3)) }));
    }
    let bytes = edit.encode();
    let hack = hex("03 08 0700000000000000");
    assert_eq!(bytes.windows(hack.len()).filter(|w| *w == hack).count(), 1);
}
