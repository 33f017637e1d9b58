//! Logs that something besides the memtables needs.
#![allow(clippy::unwrap_used)]

use pumice_env::filename;
use pumice_env::mem::CrashMode;
use pumice_port::thread;

use super::*;
use crate::{Db, MemFs, Options, WaitForCompactOptions};

fn options(fs: &MemFs) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.file_system = fs.shared();
    options.cf.disable_auto_compactions = true;
    options
}

/// Holds the log that is written now, as the leader that prepared a section in it.
fn hold_current(db: &Db) -> FileNumber {
    let leader = db.inner().exclusive();
    let log = db.inner().logs.wal.lock().number();
    db.inner().hold_log(&leader, log, LogHolder::PreparedSection);
    log
}

fn exists(fs: &MemFs, log: FileNumber) -> bool {
    fs.shared().exists(&filename::log_file("/db".as_ref(), log)).unwrap()
}

fn number(db: &Db, property: &str) -> u64 {
    db.property_int(&format!("rocksdb.{property}")).unwrap()
}

/// Writes and flushes a few times, each time to another log.
fn write_and_flush(db: &Db, times: usize) {
    for n in 0..times {
        db.put(format!("key{n}"), "value").unwrap();
        db.flush().unwrap();
    }
}

#[pumice_test_macros::test]
fn a_held_log_and_all_after_it_stay_until_their_last_holder_releases_them() {
    let fs = MemFs::new(1);
    let db = Db::open(&options(&fs), "/db").unwrap();
    let log = hold_current(&db);
    assert_eq!(hold_current(&db), log);
    write_and_flush(&db, 1);
    let next = hold_current(&db);
    assert!(next > log);
    write_and_flush(&db, 2);
    assert_eq!(number(&db, "min-log-number-to-keep"), log);
    let live: Vec<_> = db.inner().logs.wal.lock().live().iter().map(|(log, _)| *log).collect();
    assert!(live.starts_with(&[log, next]) && live.len() == 4, "{live:?}");
    // A crash now: recovery finds the log, and nothing in it twice.
    let left = fs.crashed_copy(1, CrashMode::UNSYNCED);
    assert!(exists(&left, log) && exists(&left, next));
    let reopened = Db::open(&options(&left), "/db").unwrap();
    assert_eq!(reopened.latest_sequence_number(), db.latest_sequence_number());
    reopened.close().unwrap();

    let section = LogHolder::PreparedSection;
    db.inner().release_log(log, section);
    write_and_flush(&db, 1);
    assert_eq!(number(&db, "min-log-number-to-keep"), log, "one of two is over");
    db.inner().release_log(log, section);
    write_and_flush(&db, 1);
    assert_eq!(number(&db, "min-log-number-to-keep"), next);
    db.inner().release_log(next, section);
    write_and_flush(&db, 1);
    assert!(number(&db, "min-log-number-to-keep") > next);
    db.close().unwrap();
    assert!(!exists(&fs, log) && !exists(&fs, next));
}

/// `max_total_wal_size` is far exceeded, and no flush can change that: none is made. Then the
/// section ends, and the next writes have the logs released.
#[pumice_test_macros::test]
fn logs_that_no_flush_releases_cause_no_flush() {
    let fs = MemFs::new(1);
    let mut options = options(&fs);
    options.db.max_total_wal_size = 64 << 10;
    let db = Db::open(&options, "/db").unwrap();
    db.create_column_family(&options.cf, "other").unwrap();
    let log = hold_current(&db);
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    let write = || (0..64).for_each(|n| db.put(format!("key{n}"), vec![0; 4 << 10]).unwrap());
    write();
    assert!(db.inner().logs.bytes.load(Ordering::Relaxed) > 128 << 10);
    assert_eq!(number(&db, "num-files-at-level0"), 1, "the one that was asked for");
    assert_eq!(number(&db, "num-immutable-mem-table"), 0);
    db.inner().release_log(log, LogHolder::PreparedSection);
    db.put("b", "2").unwrap();
    while number(&db, "num-files-at-level0") == 1 {
        thread::yield_now();
    }
    assert!(number(&db, "min-log-number-to-keep") > log);
    assert!(db.inner().logs.bytes.load(Ordering::Relaxed) < 64 << 10);
    db.close().unwrap();
    assert!(!exists(&fs, log));
}

/// The log that is held has data, too: one flush is made, and no other one while it is held.
#[pumice_test_macros::test]
fn a_held_log_with_data_causes_one_flush() {
    let fs = MemFs::new(1);
    let mut options = options(&fs);
    options.db.max_total_wal_size = 64 << 10;
    let db = Db::open(&options, "/db").unwrap();
    // With one family only the limit does not apply.
    db.create_column_family(&options.cf, "other").unwrap();
    let log = hold_current(&db);
    let write = || (0..64).for_each(|n| db.put(format!("key{n}"), vec![0; 4 << 10]).unwrap());
    write();
    while number(&db, "num-files-at-level0") == 0 {
        thread::yield_now();
    }
    write();
    db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
    assert_eq!(number(&db, "num-files-at-level0"), 1);
    assert_eq!(number(&db, "min-log-number-to-keep"), log);
    db.inner().release_log(log, LogHolder::PreparedSection);
    db.put("b", "2").unwrap();
    while number(&db, "min-log-number-to-keep") == log {
        thread::yield_now();
    }
    db.close().unwrap();
    assert!(!exists(&fs, log));
}
