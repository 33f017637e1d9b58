//! Numbers that no engine ever wrote, in the MANIFEST, in logs, in CURRENT and in names of files:
//! each ends in Corruption, before anything is changed, and those just below the bounds work.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::{self, DIR, SYNC, contents, fill, flush, memory, options};
use pumice::{
    ColumnFamilyDescriptor, ColumnFamilyOptions, CompactRangeOptions, Db, Error, ErrorKind,
    FileSystem, MemFs, Options, ReadOptions, WriteBatch, WriteOptions,
};
use pumice_base::key::{COLUMN_FAMILY_ID_MAX, LAST_SEQUENCE_MAX};
use pumice_env::{BufferedWriter, FileOptions, WriterOptions, filename, write_file};
use pumice_manifest::{FileMetaData, VersionEdit};
use pumice_wal::{LogReader, LogReaderOptions, LogWriter, WalRecoveryMode};

const LARGEST: u64 = u64::MAX;
const SEQUENCES: [u64; 6] =
    [(1 << 56) - 2, (1 << 56) - 1, 1 << 56, (1 << 56) + 1, 1 << 63, u64::MAX];

/// A database with two families, tables and a log, closed.
fn made() -> (MemFs, Arc<dyn FileSystem>, Options) {
    let (fs, shared) = memory();
    let options = options(&shared);
    let db = Db::open(&options, DIR).unwrap();
    db.create_column_family(&ColumnFamilyOptions::default(), "other").unwrap();
    fill(&db, 0..50, "value");
    flush(&db);
    db.close().unwrap();
    (fs, shared, options)
}

fn open(options: &Options) -> Result<Db, Error> {
    let families = Db::list_column_families(&options.db, DIR)?;
    let families: Vec<_> = families
        .iter()
        .map(|name| ColumnFamilyDescriptor::new(name.clone(), options.cf.clone()))
        .collect();
    Db::open_cf(&options.db, DIR, &families).map(|(db, _)| db)
}

/// The current MANIFEST, and its edits.
fn manifest(fs: &Arc<dyn FileSystem>) -> (PathBuf, Vec<VersionEdit>) {
    let current = fs.read_file(&Path::new(DIR).join("CURRENT")).unwrap();
    let path = Path::new(DIR).join(String::from_utf8(current).unwrap().trim_end());
    let file = fs.open_sequential(&path).unwrap();
    let mut reader = LogReader::new(file, LogReaderOptions::manifest(), None);
    let (mut edits, mut record) = (Vec::new(), Vec::new());
    while reader.read_record(&mut record).unwrap().is_some() {
        edits.push(VersionEdit::decode(&record).unwrap());
    }
    (path, edits)
}

fn write_records(fs: &Arc<dyn FileSystem>, path: &Path, records: &[Vec<u8>]) {
    let file = fs.create(path, &FileOptions::default()).unwrap();
    let writer = BufferedWriter::new(file, WriterOptions::new(1 << 20));
    let mut log = LogWriter::new(writer, 0, false, false);
    records.iter().for_each(|record| log.add_record(record).unwrap());
    log.close().unwrap();
}

/// The MANIFEST gets `more` edits at its end.
fn append_edits(fs: &Arc<dyn FileSystem>, more: &[VersionEdit]) {
    let (path, mut edits) = manifest(fs);
    edits.extend(more.iter().cloned());
    let records: Vec<Vec<u8>> = edits.iter().map(VersionEdit::encode).collect();
    write_records(fs, &path, &records);
}

#[track_caller]
fn refused(options: &Options, what: &str) {
    match open(options) {
        Ok(_) => panic!("{what}: opened"),
        Err(error) => assert!(error.is_corruption(), "{what}: {error}"),
    }
}

#[pumice_test_macros::test]
fn numbers_of_an_edit() {
    let edit = VersionEdit::default;
    let group = |remaining| VersionEdit { atomic_group_remaining: Some(remaining), ..edit() };
    let file = |file: FileMetaData| VersionEdit { new_files: vec![(1, Arc::new(file))], ..edit() };
    let key = || pumice_base::key::internal_key(b"k", 1, pumice_base::ValueType::Value);
    let meta = || FileMetaData { number: 9, smallest: key(), largest: key(), ..Default::default() };
    let mut cases: Vec<(String, Vec<VersionEdit>)> = Vec::new();
    for sequence in SEQUENCES {
        let crafted = VersionEdit { last_sequence: Some(sequence), ..edit() };
        cases.push((format!("last sequence {sequence}"), vec![crafted]));
    }
    for number in [1 << 62, (1 << 62) - 1, LARGEST - 1, LARGEST] {
        let crafted = [
            VersionEdit { next_file_number: Some(number), ..edit() },
            VersionEdit { log_number: Some(number), ..edit() },
            VersionEdit { prev_log_number: Some(number), ..edit() },
            file(FileMetaData { number, ..meta() }),
        ];
        for (field, crafted) in crafted.into_iter().enumerate() {
            cases.push((format!("field {field}: file {number}"), vec![crafted]));
        }
    }
    for (smallest_seq, largest_seq) in [(1 << 56, 1 << 56), (0, LARGEST), (LARGEST, LARGEST)] {
        let crafted = file(FileMetaData { smallest_seq, largest_seq, ..meta() });
        cases.push((format!("sequences {smallest_seq}..{largest_seq} of a file"), vec![crafted]));
    }
    let crafted = file(FileMetaData { epoch_number: LARGEST, ..meta() });
    cases.push(("epoch".to_string(), vec![crafted]));
    let family = VersionEdit { column_family: u32::MAX, ..edit() };
    let named = VersionEdit { add_column_family: Some("last".to_string()), ..family.clone() };
    let dropped = VersionEdit { drop_column_family: true, ..family.clone() };
    let largest = VersionEdit { max_column_family: Some(u32::MAX), ..edit() };
    for (what, crafted) in [("family", named), ("drop", dropped), ("largest family", largest)] {
        cases.push((what.to_string(), vec![crafted]));
    }
    cases.push(("a group that goes on".to_string(), vec![group(u32::MAX), group(u32::MAX)]));
    cases
        .push(("a group that starts again".to_string(), vec![group(0), group(3), group(u32::MAX)]));
    let whole = vec![group(1), group(u32::MAX), group(0)];
    cases.push(("a group that counts to its end".to_string(), whole));
    let (fs, shared, options) = made();
    let (path, _) = manifest(&shared);
    let sound = shared.read_file(&path).unwrap();
    for (what, crafted) in cases {
        append_edits(&shared, &crafted);
        refused(&options, &what);
        write_file(&*shared, &path, &sound, true).unwrap();
    }
    drop(fs);
    let db = open(&options).unwrap();
    assert_eq!(contents(&db).len(), 50, "nothing was harmed");
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn sequences_of_a_log() {
    let (_, shared, options) = made();
    let mut batch = WriteBatch::new();
    batch.put(b"x", b"1");
    batch.put_cf(u32::MAX, b"of no family", b"2");
    for sequence in SEQUENCES {
        let mut record = batch.data().to_vec();
        record[..8].copy_from_slice(&sequence.to_le_bytes());
        let log = filename::log_file(Path::new(DIR), 1000);
        write_records(&shared, &log, &[record]);
        for mode in [
            WalRecoveryMode::TolerateCorruptedTail,
            WalRecoveryMode::AbsoluteConsistency,
            WalRecoveryMode::PointInTime,
        ] {
            let mut options = options.clone();
            options.db.wal_recovery_mode = mode;
            refused(&options, &format!("{sequence} {mode:?}"));
            let only = [ColumnFamilyDescriptor::new("default", options.cf.clone())];
            let read_only = Db::open_read_only(&options.db, DIR, &only, false);
            assert!(read_only.is_err_and(|error| error.is_corruption()));
        }
        shared.remove(&log).unwrap();
    }
    let db = open(&options).unwrap();
    assert_eq!(contents(&db).len(), 50, "nothing was harmed");
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn numbers_in_names() {
    let (_, shared, options) = made();
    let dir = Path::new(DIR);
    let before = common::names(&shared, DIR);
    for number in [LARGEST, LARGEST - 1, 1 << 62, (1 << 62) - 1] {
        for path in [
            filename::log_file(dir, number),
            filename::TableDirs::of(dir).table(0, number),
            filename::blob_file(dir, number),
            filename::manifest_file(dir, number),
            filename::options_file(dir, number),
            filename::temp_file(dir, number),
        ] {
            write_file(&*shared, &path, b"", true).unwrap();
            refused(&options, &path.display().to_string());
            assert!(shared.exists(&path).unwrap(), "not ours to delete");
            shared.remove(&path).unwrap();
        }
        let log = filename::log_file(dir, number);
        write_file(&*shared, &log, b"", true).unwrap();
        let only = [ColumnFamilyDescriptor::new("default", options.cf.clone())];
        let read_only = Db::open_read_only(&options.db, DIR, &only, false);
        assert!(read_only.is_err_and(|error| error.is_corruption()));
        shared.remove(&log).unwrap();
    }
    let current = filename::current_file(dir);
    let sound = shared.read_file(&current).unwrap();
    for number in ["18446744073709551615", "18446744073709551616", "9223372036854775807", "", "-1"]
    {
        let text = format!("MANIFEST-{number}\n");
        write_file(&*shared, &current, text.as_bytes(), true).unwrap();
        refused(&options, &text);
    }
    write_file(&*shared, &current, &sound, true).unwrap();
    let left = common::names(&shared, DIR);
    let ours = |name: &&String| !name.starts_with("LOG");
    assert!(left.iter().filter(ours).eq(before.iter().filter(ours)), "{left:?}");
    let db = open(&options).unwrap();
    assert_eq!(contents(&db).len(), 50, "nothing was harmed");
    db.close().unwrap();
}

/// Just below the bound everything works, and at it a write is refused; nothing is lost.
#[pumice_test_macros::test]
fn the_last_sequence_numbers_are_used_up() {
    let (_, shared, options) = made();
    let near = VersionEdit { last_sequence: Some(LAST_SEQUENCE_MAX - 2), ..Default::default() };
    append_edits(&shared, &[near]);
    let db = open(&options).unwrap();
    db.put_opt(&SYNC, b"a", b"1").unwrap();
    let mut two = WriteBatch::new();
    two.put(b"c", b"3");
    two.put(b"d", b"4");
    let error = db.write_opt(&SYNC, &mut two).unwrap_err();
    let text = "sequence numbers are exhausted";
    assert_eq!((error.kind(), error.message()), (ErrorKind::Aborted, text));
    db.put_opt(&SYNC, b"b", b"2").unwrap();
    assert!(db.put_opt(&SYNC, b"e", b"5").is_err());
    assert_eq!(contents(&db).len(), 52);
    db.close().unwrap();
    drop(db);
    let db = open(&options).unwrap();
    assert_eq!(contents(&db).len(), 52);
    flush(&db);
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    let snapshot = db.snapshot();
    let read = ReadOptions { snapshot: Some(snapshot), ..ReadOptions::default() };
    assert_eq!(db.get_opt(&read, b"b").unwrap().as_deref(), Some(&b"2"[..]));
    assert!(db.put_opt(&WriteOptions::default(), b"e", b"5").is_err());
    db.close().unwrap();
    drop(read);
    drop(db);
    let db = open(&options).unwrap();
    assert_eq!(contents(&db).len(), 52);
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn the_last_family_id_is_used_up() {
    let (_, shared, options) = made();
    let near =
        VersionEdit { max_column_family: Some(COLUMN_FAMILY_ID_MAX - 1), ..VersionEdit::default() };
    append_edits(&shared, &[near]);
    let db = open(&options).unwrap();
    let last = db.create_column_family(&ColumnFamilyOptions::default(), "last").unwrap();
    assert_eq!(last.id(), COLUMN_FAMILY_ID_MAX);
    db.put_cf_opt(&SYNC, &last, b"k", b"v").unwrap();
    let error = db.create_column_family(&ColumnFamilyOptions::default(), "none").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Aborted, "{error}");
    drop(last);
    db.close().unwrap();
    drop(db);
    let db = open(&options).unwrap();
    let last = db.column_family("last").unwrap();
    assert!(db.get_cf_opt(&ReadOptions::default(), &last, b"k").unwrap().is_some());
    db.close().unwrap();
}

/// A MANIFEST whose next file number is smaller than one in use: no number is given twice.
#[pumice_test_macros::test]
fn a_next_number_that_is_too_small() {
    let (_, shared, options) = made();
    let small = VersionEdit { next_file_number: Some(2), ..VersionEdit::default() };
    append_edits(&shared, &[small]);
    // The logs are gone, so only the edits show which numbers were used.
    let db = open(&options).unwrap();
    fill(&db, 50..80, "more");
    flush(&db);
    assert_eq!(contents(&db).len(), 80);
    db.close().unwrap();
    drop(db);
    let db = open(&options).unwrap();
    assert_eq!(contents(&db).len(), 80);
    db.close().unwrap();
}

/// A MANIFEST whose last sequence number is below that of a table: what is written then is newer
/// than the table all the same.
#[pumice_test_macros::test]
fn a_last_sequence_number_that_is_too_small() {
    let (_, shared, options) = made();
    let db = open(&options).unwrap();
    flush(&db);
    db.close().unwrap();
    drop(db);
    let (path, edits) = manifest(&shared);
    let records = edits.into_iter().map(|mut edit| {
        edit.last_sequence = edit.last_sequence.map(|sequence| sequence.min(3));
        edit.encode()
    });
    write_records(&shared, &path, &records.collect::<Vec<_>>());
    let db = open(&options).unwrap();
    let before = contents(&db);
    assert_eq!(before.len(), 50);
    for (key, _) in &before {
        db.put_opt(&SYNC, key, b"newer").unwrap();
    }
    for _ in 0..2 {
        assert!(contents(&db).iter().all(|(_, value)| value == b"newer"));
        flush(&db);
        db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    }
    db.close().unwrap();
}
