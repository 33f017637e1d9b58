//! A key range that is replaced by the files of an ingestion.

use pumice::{
    CompactRangeOptions, Db, ErrorKind, IngestExternalFileArg, IngestExternalFileOptions, Options,
    RangeOpt, WriteOptions,
};

use super::support::{
    DIR, Record, assert_no_litter, contents, files, flush, fresh, get, ingest, put, table_of,
    write_table,
};

const WRITE: WriteOptions = WriteOptions {
    sync: false,
    disable_wal: false,
    no_slowdown: false,
    rate_limiter_priority: None,
    protection_bytes_per_key: 0,
    low_pri: false,
    ignore_missing_column_families: false,
};

fn how() -> IngestExternalFileOptions {
    IngestExternalFileOptions { snapshot_consistency: false, ..Default::default() }
}

fn range(start: &str, limit: &str) -> RangeOpt {
    RangeOpt { start: Some(start.into()), limit: Some(limit.into()) }
}

fn replace(
    db: &Db,
    range: RangeOpt,
    files: &[&std::path::PathBuf],
    options: &IngestExternalFileOptions,
) -> pumice::Result<()> {
    let files = files.iter().map(|&file| file.clone()).collect();
    let mut arg = IngestExternalFileArg::new(db.default_column_family(), files, options);
    arg.atomic_replace_range = Some(range);
    db.ingest_external_files(&[arg])
}

/// One file of those keys.
fn add(db: &Db, keys: &[&str]) {
    for key in keys {
        db.put_opt(&WRITE, key.as_bytes(), b"old").unwrap();
    }
    flush(db);
}

fn text(db: &Db) -> String {
    let pair = |(k, v): &(Vec<u8>, Vec<u8>)| {
        format!("{}={}", String::from_utf8_lossy(k), String::from_utf8_lossy(v))
    };
    contents(db).iter().map(pair).collect::<Vec<_>>().join(" ")
}

fn compact(db: &Db) {
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
}

/// Files on two levels and a memtable in the range, and files outside it.
fn filled() -> (Options, Db) {
    let (_fs, options, db) = fresh();
    for keys in [["a", "b"], ["d", "f"], ["x", "z"]] {
        let name = format!("/in/{}.sst", keys[0]);
        let records = keys.map(|key| put(key, "old"));
        ingest(&db, &[&write_table(&options, &name, &records).unwrap()]).unwrap();
    }
    add(&db, &["e", "g"]);
    db.put_opt(&WRITE, b"c", b"old").unwrap();
    assert_eq!(text(&db), "a=old b=old c=old d=old e=old f=old g=old x=old z=old");
    (options, db)
}

#[pumice_test_macros::test]
fn everything_in_the_range_is_the_files() {
    let (options, db) = filled();
    let before = db.cursor_opt(&Default::default()).unwrap();
    let one = table_of(&options, "/in/1.sst", &["c", "d"], "new");
    let two = table_of(&options, "/in/2.sst", &["h"], "new");
    replace(&db, range("c", "x"), &[&one, &two], &how()).unwrap();
    let expected = "a=old b=old c=new d=new h=new x=old z=old";
    assert_eq!(text(&db), expected);
    // Nothing is left of the old ones, no tombstone is there either: all on the last level.
    let levels: Vec<usize> = files(&db).iter().map(|file| file.level).collect();
    assert_eq!(levels, [6, 6, 6, 6]);
    assert!(files(&db).iter().all(|file| file.num_deletions == 0 && file.largest_seq == 0));
    let mut before = before;
    before.seek_to_first();
    let mut seen = 0;
    while before.valid() {
        assert_eq!(before.value().unwrap(), b"old", "an older iterator");
        seen += 1;
        before.next();
    }
    assert_eq!(seen, 9);
    drop(before);
    db.put_opt(&WRITE, b"d", b"newer").unwrap();
    let expected = expected.replace("d=new", "d=newer");
    assert_eq!(text(&db), expected);
    db.close().unwrap();
    drop(db);
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!(text(&db), expected);
    compact(&db);
    assert_eq!(text(&db), expected);
    db.verify_checksum().unwrap();
    db.close().unwrap();
    let db = Db::open(&options, DIR).unwrap();
    assert_no_litter(&options.db.file_system, &db);
}

#[pumice_test_macros::test]
fn without_bounds_everything_goes() {
    let (options, db) = filled();
    db.delete_range_opt(&WRITE, b"m", b"zz").unwrap();
    let one = table_of(&options, "/in/1.sst", &["c", "y"], "1");
    let two = table_of(&options, "/in/2.sst", &["c", "k"], "2");
    replace(&db, RangeOpt::default(), &[&one, &two], &how()).unwrap();
    assert_eq!(text(&db), "c=2 k=2 y=1");
    assert_eq!(files(&db).len(), 2);
    db.close().unwrap();
    drop(db);
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!(text(&db), "c=2 k=2 y=1");
    assert_no_litter(&options.db.file_system, &db);
}

/// An order in which the empty key is the last one.
#[pumice_test_macros::test]
fn without_bounds_in_reverse_order() {
    let (_fs, mut options, db) = fresh();
    drop(db);
    options.cf.comparator = pumice::Comparator::ReverseBytewise;
    let db = Db::open(&options, "/reverse").unwrap();
    db.put_opt(&WRITE, b"m", b"memory").unwrap();
    let one = table_of(&options, "/in/1.sst", &["c", "b"], "1");
    replace(&db, RangeOpt::default(), &[&one], &how()).unwrap();
    assert_eq!(text(&db), "c=1 b=1");
    replace(&db, range("d", "b"), &[&one], &how()).unwrap_err();
    let one = table_of(&options, "/in/1.sst", &["c"], "2");
    replace(&db, range("d", "a"), &[&one], &how()).unwrap();
    assert_eq!(text(&db), "c=2");
}

/// The limit is not part of the range, and so may end a file's range deletion.
#[pumice_test_macros::test]
fn where_the_range_ends() {
    let (_fs, options, db) = fresh();
    let records = [put("b", "old"), Record::DeleteRange(b"c".to_vec(), b"f".to_vec())];
    ingest(&db, &[&write_table(&options, "/in/1.sst", &records).unwrap()]).unwrap();
    let one = table_of(&options, "/in/2.sst", &["b"], "new");
    let error = replace(&db, range("a", "e"), &[&one], &how()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    replace(&db, range("b", "f"), &[&one], &how()).unwrap();
    assert_eq!((text(&db), files(&db).len()), ("b=new".to_string(), 1));
    let error = replace(&db, range("a", "b"), &[&one], &how()).unwrap_err();
    assert!(error.message().contains("does not contain all files"), "{error}");
    // Files outside the range stay, also those next to its ends.
    add(&db, &["c"]);
    let one = table_of(&options, "/in/3.sst", &["bb"], "new");
    replace(&db, range("ba", "c"), &[&one], &how()).unwrap();
    assert_eq!(text(&db), "b=new bb=new c=old");
}

#[pumice_test_macros::test]
fn what_is_refused() {
    let (options, db) = filled();
    let path = table_of(&options, "/in/1.sst", &["d", "e"], "new");
    let before = text(&db);
    let refused = |range: RangeOpt, how: &IngestExternalFileOptions, kind, words: &str| {
        let error = replace(&db, range, &[&path], how).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains(words), "{error}");
        assert_eq!(text(&db), before);
        assert_no_litter(&options.db.file_system, &db);
    };
    let (invalid, unsupported) = (ErrorKind::InvalidArgument, ErrorKind::NotSupported);
    let all = || range("c", "x");
    let consistent = IngestExternalFileOptions::default();
    let words = "atomic_replace_range not yet supported with snapshot_consistency.";
    refused(all(), &consistent, unsupported, words);
    let half = RangeOpt { start: Some(b"c".to_vec()), limit: None };
    let words = "Only one of atomic_replace_range.{start,limit}.has_value() is not supported.";
    refused(half, &how(), unsupported, words);
    let words = "Atomic replace range does not contain all files";
    refused(range("c", "e"), &how(), invalid, words);
    refused(range("e", "x"), &how(), invalid, words);
    refused(range("x", "c"), &how(), invalid, words);
    let words = "Atomic replace range partially overlaps with existing file";
    refused(range("c", "f"), &how(), invalid, words);
    refused(range("b", "x"), &how(), invalid, words);
    refused(range("c", "y"), &how(), invalid, words);
    // The whole memtable has been flushed for that.
    db.put_opt(&WRITE, b"e", b"old").unwrap();
    let no_flush = IngestExternalFileOptions { allow_blocking_flush: false, ..how() };
    refused(all(), &no_flush, invalid, "External file requires flush");
    replace(&db, all(), &[&path], &how()).unwrap();
    assert_eq!(text(&db), "a=old b=old d=new e=new x=old z=old");
}

/// With files that keep their sequence numbers: the data they overlap is deleted, so there is no
/// conflict.
#[pumice_test_macros::test]
fn by_files_of_a_database() {
    let (_fs, options, db) = fresh();
    add(&db, &["a", "b"]);
    let source = Db::open(&options, "/source").unwrap();
    source.put_opt(&WRITE, b"b", b"theirs").unwrap();
    flush(&source);
    let file = files(&source).pop().unwrap();
    let path = file.directory.join(file.name.trim_start_matches('/'));
    let own = IngestExternalFileOptions { allow_db_generated_files: true, ..how() };
    replace(&db, range("a", "c"), &[&path], &own).unwrap();
    assert_eq!(text(&db), "b=theirs");
    db.put_opt(&WRITE, b"b", b"ours").unwrap();
    assert_eq!(get(&db, b"b").as_deref(), Some(&b"ours"[..]));
}
