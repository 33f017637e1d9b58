//! Manual compactions that are paused or cancelled, and the end of all background work.

use std::sync::Arc;

use crate::common::{DIR, contents, fill, flush, get, key, memory, options};
use pumice::{
    CancelFlag, CompactFilesOptions, CompactRangeOptions, CompactionFilter, Db, Error, ErrorKind,
    FilterDecision, SubCode, WriteOptions,
};

fn is_paused(error: &Error) -> bool {
    error.kind() == ErrorKind::Incomplete && error.subcode() == SubCode::ManualCompactionPaused
}

fn two_files(options: &pumice::Options) -> Db {
    let db = Db::open(options, DIR).unwrap();
    for value in ["old", "new"] {
        fill(&db, 0..3000, value);
        flush(&db);
    }
    db
}

fn names(db: &Db) -> Vec<String> {
    db.live_files_metadata().into_iter().map(|file| file.name).collect()
}

#[pumice_test_macros::test]
fn manual_compactions_wait_for_as_many_calls() {
    let (_, fs) = memory();
    let mut options = options(&fs);
    options.cf.disable_auto_compactions = true;
    let db = two_files(&options);
    let compact = || db.compact_range(&CompactRangeOptions::default(), None, None);
    // As in RocksDB a call before counts.
    db.enable_manual_compaction();
    db.disable_manual_compaction();
    db.disable_manual_compaction();
    assert!(is_paused(&compact().unwrap_err()));
    let names = names(&db);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let files = || db.compact_files(&CompactFilesOptions::default(), &names, 6);
    assert!(is_paused(&files().unwrap_err()));
    assert_eq!(db.background_error(), None);
    db.enable_manual_compaction();
    files().unwrap();
    compact().unwrap();
}

/// Cancels the compaction that asks it.
struct Cancels(CancelFlag);

impl CompactionFilter for Cancels {
    fn name(&self) -> &str {
        "Cancels"
    }
    fn filter(&self, _level: i32, _key: &[u8], _value: &[u8]) -> FilterDecision {
        self.0.set(true);
        FilterDecision::Keep
    }
}

/// A cancelled compaction ends while it runs, changes nothing, and is no error of the database.
#[pumice_test_macros::test]
fn a_running_compaction_is_cancelled() {
    let (_, fs) = memory();
    let flag = CancelFlag::default();
    let mut options = options(&fs);
    options.cf.disable_auto_compactions = true;
    options.cf.compaction_filter = Some(Arc::new(Cancels(flag.clone())));
    let db = two_files(&options);
    let before = names(&db);
    let named: Vec<&str> = before.iter().map(String::as_str).collect();
    let how = CompactFilesOptions { canceled: Some(flag.clone()), ..Default::default() };
    assert!(is_paused(&db.compact_files(&how, &named, 6).unwrap_err()));
    assert_eq!(names(&db), before);
    assert_eq!(db.background_error(), None);
    // Set before, it does not even begin.
    assert!(is_paused(&db.compact_files(&how, &named, 6).unwrap_err()));
    let how = CompactFilesOptions::default();
    db.compact_files(&how, &named, 6).unwrap();
    assert_eq!(contents(&db).len(), 3000);
}

#[pumice_test_macros::test]
fn without_background_work_reads_and_logged_writes_go_on() {
    for wait in [false, true] {
        let (_, fs) = memory();
        let options = options(&fs);
        let db = Db::open(&options, DIR).unwrap();
        let unlogged = WriteOptions { disable_wal: true, ..WriteOptions::default() };
        db.put_opt(&unlogged, key(0), "unlogged").unwrap();
        db.cancel_all_background_work(wait).unwrap();
        db.put(key(1), "logged").unwrap();
        assert_eq!(get(&db, &key(0)).unwrap(), b"unlogged");
        assert_eq!(db.flush().unwrap_err().kind(), ErrorKind::ShutdownInProgress);
        let compact = db.compact_range(&CompactRangeOptions::default(), None, None);
        assert_eq!(compact.unwrap_err().kind(), ErrorKind::ShutdownInProgress);
        db.cancel_all_background_work(wait).unwrap();
        db.close().unwrap();
        let db = Db::open(&options, DIR).unwrap();
        assert_eq!(get(&db, &key(0)).unwrap(), b"unlogged");
        assert_eq!(get(&db, &key(1)).unwrap(), b"logged");
    }
}

/// A writer that would wait for a flush is told that none comes.
#[pumice_test_macros::test]
fn writes_end_when_memtables_are_full() {
    let (_, fs) = memory();
    let mut options = options(&fs);
    options.cf.write_buffer_size = 64 << 10;
    let db = Db::open(&options, DIR).unwrap();
    db.cancel_all_background_work(true).unwrap();
    let full = (0..100_000).find_map(|n| db.put(key(n), vec![b'v'; 1000]).err());
    assert_eq!(full.unwrap().kind(), ErrorKind::ShutdownInProgress);
    db.close().unwrap();
}
