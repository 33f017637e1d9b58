//! Files that a database wrote, ingested into another one with their sequence numbers.

use std::path::PathBuf;

use pumice::{
    ColumnFamilyOptions, CompactRangeOptions, Db, ErrorKind, IngestExternalFileArg,
    IngestExternalFileOptions, MemFs, Options, PosixFs, WriteOptions,
};

use super::support::{DIR, assert_no_litter, contents, files, flush, fresh, get};

const WRITE: WriteOptions = WriteOptions {
    sync: false,
    disable_wal: false,
    no_slowdown: false,
    rate_limiter_priority: None,
    protection_bytes_per_key: 0,
    low_pri: false,
    ignore_missing_column_families: false,
};

fn own() -> IngestExternalFileOptions {
    IngestExternalFileOptions { allow_db_generated_files: true, ..Default::default() }
}

/// An empty database, and another one next to it, the source.
fn two() -> (MemFs, Options, Db, Db) {
    let (fs, options, db) = fresh();
    let source = Db::open(&options, "/source").unwrap();
    (fs, options, db, source)
}

fn path_of(file: &pumice::LiveFile) -> PathBuf {
    file.directory.join(file.name.trim_start_matches('/'))
}

/// Paths of the tables, deepest level first, older before newer.
fn tables(db: &Db) -> Vec<PathBuf> {
    let mut files = files(db);
    files.sort_by_key(|file| (std::cmp::Reverse(file.level), file.epoch_number));
    files.iter().map(path_of).collect()
}

#[pumice_test_macros::test]
fn entries_keep_their_sequence_numbers() {
    for verify_checksums_before_ingest in [false, true] {
        let (_fs, options, db, source) = two();
        source.put_opt(&WRITE, b"a", b"1").unwrap();
        source.put_opt(&WRITE, b"b", b"first").unwrap();
        let snapshot = source.snapshot();
        source.put_opt(&WRITE, b"b", b"second").unwrap();
        source.delete_range_opt(&WRITE, b"c", b"e").unwrap();
        flush(&source);
        drop(snapshot);
        let theirs = files(&source).pop().unwrap();
        assert_eq!((theirs.smallest_seq, theirs.largest_seq), (1, 4));
        let how = IngestExternalFileOptions { verify_checksums_before_ingest, ..own() };
        db.ingest_external_file(&how, &[path_of(&theirs)]).unwrap();
        let ours = files(&db).pop().unwrap();
        assert_eq!((ours.level, ours.smallest_seq, ours.largest_seq), (6, 1, 4));
        assert_eq!((ours.smallest_key, ours.largest_key), (b"a".to_vec(), b"e".to_vec()));
        assert_eq!(db.latest_sequence_number(), 4);
        assert_eq!(contents(&db), contents(&source));
        db.put_opt(&WRITE, b"b", b"third").unwrap();
        assert_eq!(get(&db, b"b").as_deref(), Some(&b"third"[..]));
        db.close().unwrap();
        let db = Db::open(&options, DIR).unwrap();
        assert_eq!(get(&db, b"a").as_deref(), Some(&b"1"[..]));
        assert_eq!(get(&db, b"b").as_deref(), Some(&b"third"[..]));
        db.verify_checksum().unwrap();
        db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
        assert_eq!(get(&db, b"b").as_deref(), Some(&b"third"[..]));
    }
}

/// A whole tree: the last level, and two files of L0 above it.
#[pumice_test_macros::test]
fn overlapping_files_come_oldest_first() {
    let (_fs, options, db, source) = two();
    for key in ["a", "c", "e"] {
        source.put_opt(&WRITE, key.as_bytes(), b"bottom").unwrap();
    }
    source.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    source.put_opt(&WRITE, b"c", b"middle").unwrap();
    source.put_opt(&WRITE, b"d", b"middle").unwrap();
    flush(&source);
    source.delete_opt(&WRITE, b"c").unwrap();
    source.put_opt(&WRITE, b"e", b"top").unwrap();
    flush(&source);
    assert_eq!(files(&source).len(), 3);
    db.ingest_external_file(&own(), &tables(&source)).unwrap();
    let levels: Vec<usize> = files(&db).iter().map(|file| file.level).collect();
    assert_eq!(levels, [6, 0, 0]);
    assert_eq!(contents(&db), contents(&source));
    assert_eq!(contents(&db).len(), 3);
    assert_eq!(db.latest_sequence_number(), source.latest_sequence_number());
    db.close().unwrap();
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!(contents(&db), contents(&source));
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    assert_eq!(contents(&db), contents(&source));
}

/// Another column family's number is in the file.
#[pumice_test_macros::test]
fn any_column_family_takes_them() {
    let (_fs, _options, db, source) = two();
    let cf = source.create_column_family(&ColumnFamilyOptions::default(), "other").unwrap();
    source.put_cf_opt(&WRITE, &cf, b"k", b"v").unwrap();
    source.flush_cfs_opt(&Default::default(), &[&cf]).unwrap();
    db.ingest_external_file(&own(), &tables(&source)).unwrap();
    assert_eq!(get(&db, b"k").as_deref(), Some(&b"v"[..]));
}

#[pumice_test_macros::test]
fn what_is_refused() {
    let (_fs, options, db, source) = two();
    source.put_opt(&WRITE, b"k", b"theirs").unwrap();
    flush(&source);
    let path = tables(&source).pop().unwrap();
    let refused = |how: &IngestExternalFileOptions, kind, text: &str| {
        let error = db.ingest_external_file(how, &[&path]).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains(text), "{error}");
        assert_no_litter(&options.db.file_system, &db);
    };
    refused(&Default::default(), ErrorKind::Corruption, "External file version not found");
    let stored = IngestExternalFileOptions { write_global_seqno: true, ..own() };
    let text = "write_global_seqno is deprecated and does not work with allow_db_generated_files.";
    refused(&stored, ErrorKind::NotSupported, text);
    // It would need a new sequence number: for a snapshot, or to be above existing data.
    let text = "which is not allowed when 'allow_db_generated_files' is enabled.";
    let snapshot = db.snapshot();
    refused(&own(), ErrorKind::InvalidArgument, text);
    drop(snapshot);
    db.put_opt(&WRITE, b"k", b"ours").unwrap();
    refused(&own(), ErrorKind::InvalidArgument, text);
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    refused(&own(), ErrorKind::InvalidArgument, text);
    let last = IngestExternalFileOptions { fail_if_not_bottommost_level: true, ..own() };
    refused(&last, ErrorKind::TryAgain, "Files cannot be ingested to Lmax.");
    assert_eq!(contents(&db), [(b"k".to_vec(), b"ours".to_vec())]);
}

/// Data in deep levels that only a later file of the call overlaps is found although that file goes
/// to L0.
#[pumice_test_macros::test]
fn every_level_is_looked_at() {
    let (_fs, _options, db, source) = two();
    db.put_opt(&WRITE, b"m", b"ours").unwrap();
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    for key in ["a", "b", "b"] {
        source.put_opt(&WRITE, key.as_bytes(), b"theirs").unwrap();
        flush(&source);
    }
    source.put_opt(&WRITE, b"b", b"theirs").unwrap();
    source.put_opt(&WRITE, b"m", b"theirs").unwrap();
    flush(&source);
    let paths = tables(&source);
    assert_eq!(paths.len(), 4);
    let error = db.ingest_external_file(&own(), &paths).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!(contents(&db).len(), 1);
    db.ingest_external_file(&own(), &paths[..3]).unwrap();
    assert_eq!(contents(&db).len(), 3);
}

/// The two kinds of files in two column families of one call.
#[pumice_test_macros::test]
fn beside_files_of_a_writer() {
    let (_fs, options, db, source) = two();
    let other = db.create_column_family(&ColumnFamilyOptions::default(), "other").unwrap();
    for n in 0..5 {
        source.put_opt(&WRITE, b"k", &[n]).unwrap();
    }
    flush(&source);
    let made = super::support::table_of(&options, "/in/1.sst", &["k"], "made");
    db.put_cf_opt(&WRITE, &other, b"k", b"before").unwrap();
    let cf = db.default_column_family();
    db.ingest_external_files(&[
        IngestExternalFileArg::new(cf, tables(&source), &own()),
        IngestExternalFileArg::new(&other, vec![made], &Default::default()),
    ])
    .unwrap();
    assert_eq!(get(&db, b"k").as_deref(), Some(&[4][..]));
    let found = db.get_cf_opt(&Default::default(), &other, b"k").unwrap();
    assert_eq!(found.as_deref(), Some(&b"made"[..]));
    assert_eq!(db.latest_sequence_number(), 5, "the newest of what came in");
}

/// A table of one family can be linked into another, and not moved there: the first would lose it.
#[pumice_test_macros::test]
fn a_live_table_is_not_moved_from_under_its_family() {
    let (_fs, options, db) = fresh();
    let other = db.create_column_family(&options.cf, "other").unwrap();
    db.put_opt(&WRITE, b"a", b"1").unwrap();
    flush(&db);
    let path = path_of(&files(&db).pop().unwrap());
    let moved = IngestExternalFileOptions { move_files: true, ..own() };
    let error = db.ingest_external_file_cf(&moved, &other, &[&path]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.to_string().contains("cannot be moved"), "{error}");
    let linked = IngestExternalFileOptions { link_files: true, ..own() };
    db.ingest_external_file_cf(&linked, &other, &[&path]).unwrap();
    drop(other);
    db.close().unwrap();
    let all = ["default", "other"]
        .map(|name| pumice::ColumnFamilyDescriptor::new(name, options.cf.clone()));
    let (db, families) = Db::open_cf(&options.db, DIR, &all).unwrap();
    for family in &families {
        assert_eq!(db.get_cf(family, b"a").unwrap().as_deref(), Some(&b"1"[..]));
    }
    db.close().unwrap();
}

/// Nor by another path to it, which only the kernel can tell: a link to the directory, or dots.
#[pumice_test_macros::test]
fn nor_by_another_path() {
    let name = format!("pumice-own-table-{}", std::process::id());
    let (dir, link) =
        (std::env::temp_dir().join(&name), std::env::temp_dir().join(name.clone() + "-link"));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    let db = Db::open(&options, &dir).unwrap();
    std::os::unix::fs::symlink(&dir, &link).unwrap();
    let other = db.create_column_family(&options.cf, "other").unwrap();
    db.put_opt(&WRITE, b"a", b"1").unwrap();
    flush(&db);
    let table = path_of(&files(&db).pop().unwrap()).file_name().unwrap().to_owned();
    let moved = IngestExternalFileOptions { move_files: true, ..own() };
    for way in [link.clone(), dir.join("..").join(&name)] {
        let error = db.ingest_external_file_cf(&moved, &other, &[&way.join(&table)]).unwrap_err();
        assert!(error.to_string().contains("cannot be moved"), "{way:?}: {error}");
        assert!(dir.join(&table).exists(), "{way:?}");
    }
    drop(other);
    db.close().unwrap();
    PosixFs::shared().remove(&link).unwrap();
    Db::destroy(&options, &dir).unwrap();
}
