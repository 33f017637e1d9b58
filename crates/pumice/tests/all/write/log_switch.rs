//! The state after a power loss between two logs, the result of each recovery mode, and when a
//! complete log is synced.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{DIR, SYNC, contents, flush, get, memory, options};
use pumice::options::{WalFilter, WalProcessing, WalRecoveryMode};
use pumice::{ColumnFamilyOptions, Db, FlushOptions, MemFs, Options, WriteOptions};
use pumice_env::FileSystem;
use pumice_env::filename::{self, FileType};
use pumice_env::mem::{CrashMode, Fault, FaultOp, FaultRule, FsyncFailure};

fn small(fs: &MemFs) -> Options {
    let mut options = options(&fs.shared());
    options.cf.disable_auto_compactions = true;
    options.cf.max_write_buffer_number = 8;
    options.db.max_bgerror_resume_count = 0;
    options
}

/// The present logs, ascending.
fn logs(fs: &MemFs) -> Vec<u64> {
    let names = fs.list(DIR.as_ref()).unwrap();
    let logs = names.iter().filter_map(|name| match filename::parse(name) {
        Some((number, FileType::Wal)) => Some(number),
        _ => None,
    });
    let mut logs: Vec<u64> = logs.collect();
    logs.sort();
    logs
}

/// Starts a new log and leaves the memtable unflushed: background work is paused.
fn next_log(db: &Db) {
    db.flush_opt(&FlushOptions { wait: false, allow_write_stall: true, ..FlushOptions::default() })
        .unwrap();
}

/// Three logs with a key each, nothing flushed; the process has died.
fn three_logs() -> MemFs {
    let (fs, _) = memory();
    let db = Db::open(&small(&fs), DIR).unwrap();
    db.pause_background_work();
    for key in [b"a", b"b", b"c"] {
        if key != b"a" {
            next_log(&db);
        }
        db.put_opt(&WriteOptions::default(), key, b"1").unwrap();
        db.put_opt(&WriteOptions::default(), key, b"2").unwrap();
    }
    let left = fs.crashed_copy(1, CrashMode::PROCESS);
    db.continue_background_work().unwrap();
    assert_eq!(logs(&left).len(), 3);
    left
}

/// Takes the last `bytes` bytes of log `number`.
fn cut(fs: &MemFs, number: u64, bytes: usize) {
    let path = filename::log_file(DIR.as_ref(), number);
    let content = fs.read_file(&path).unwrap();
    let content = &content[..content.len() - bytes.min(content.len())];
    pumice_env::write_file(&fs.clone(), &path, content, true).unwrap();
}

fn reopened(fs: &MemFs, mode: WalRecoveryMode) -> pumice::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut options = small(fs);
    options.db.wal_recovery_mode = mode;
    let db = Db::open(&options, DIR)?;
    let found = contents(&db).into_iter().collect();
    db.close()?;
    Ok(found)
}

const MODES: [WalRecoveryMode; 4] = [
    WalRecoveryMode::TolerateCorruptedTail,
    WalRecoveryMode::AbsoluteConsistency,
    WalRecoveryMode::PointInTime,
    WalRecoveryMode::SkipAnyCorrupted,
];

#[pumice_test_macros::test]
fn whole_logs_are_replayed_in_every_mode() {
    for mode in MODES {
        let fs = three_logs();
        assert_eq!(reopened(&fs, mode).unwrap().len(), 3, "{mode:?}");
    }
}

/// The first log lost its last record exactly at the record's boundary, which no reader can detect.
#[pumice_test_macros::test]
fn a_lost_end_ends_the_history() {
    for mode in MODES {
        let fs = three_logs();
        let oldest = logs(&fs)[0];
        let path = filename::log_file(DIR.as_ref(), oldest);
        let bytes = fs.file_size(&path).unwrap() as usize;
        cut(&fs, oldest, bytes / 2);
        let found = reopened(&fs, mode);
        match mode {
            WalRecoveryMode::AbsoluteConsistency => {
                let error = found.unwrap_err().to_string();
                assert!(error.contains("the end of log #"), "{error}");
            }
            WalRecoveryMode::SkipAnyCorrupted => assert_eq!(found.unwrap().len(), 3),
            _ => {
                assert_eq!(found.unwrap(), [(b"a".to_vec(), b"1".to_vec())], "{mode:?}");
                // Skipped records do not reappear.
                assert_eq!(reopened(&fs, mode).unwrap().len(), 1, "{mode:?}");
            }
        }
    }
}

/// The name of the log was not durable.
#[pumice_test_macros::test]
fn a_lost_log_ends_the_history() {
    for which in 0..3 {
        let fs = three_logs();
        fs.remove(&filename::log_file(DIR.as_ref(), logs(&fs)[which])).unwrap();
        let found = reopened(&fs, WalRecoveryMode::PointInTime).unwrap();
        assert_eq!(found.len(), which, "log {which} of three is lost");
    }
}

/// Says that the second record of all is damaged.
#[derive(Default)]
struct SecondIsDamaged(AtomicUsize);

impl WalFilter for SecondIsDamaged {
    fn name(&self) -> &str {
        "SecondIsDamaged"
    }
    fn log_record_found(&self, _: u64, _: &Path, _: &[u8]) -> WalProcessing {
        match self.0.fetch_add(1, Ordering::Relaxed) {
            1 => WalProcessing::CorruptedRecord,
            _ => WalProcessing::ContinueProcessing,
        }
    }
}

/// A record with a good checksum is damaged in a log that is there to its end: that the next log
/// finds all of it does not fill the hole.
#[pumice_test_macros::test]
fn a_damaged_record_in_a_whole_log_ends_the_history() {
    let fs = three_logs();
    let mut options = small(&fs);
    options.db.wal_recovery_mode = WalRecoveryMode::PointInTime;
    options.db.wal_filter = Some(Arc::new(SecondIsDamaged::default()));
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!(contents(&db), [(b"a".to_vec(), b"1".to_vec())]);
    db.close().unwrap();
    // Skipped records do not reappear.
    assert_eq!(reopened(&fs, WalRecoveryMode::PointInTime).unwrap().len(), 1);
}

/// A log that a flush made obsolete is not missed.
#[pumice_test_macros::test]
fn a_flushed_log_is_not_missed() {
    let (fs, _) = memory();
    let db = Db::open(&small(&fs), DIR).unwrap();
    for round in 0..4 {
        db.put_opt(&WriteOptions::default(), format!("key{round}").as_bytes(), b"1").unwrap();
        flush(&db);
        db.put_opt(&WriteOptions::default(), b"unflushed", &[round]).unwrap();
        let copy = fs.crashed_copy(1, CrashMode::PROCESS);
        let found = reopened(&copy, WalRecoveryMode::AbsoluteConsistency).unwrap();
        assert_eq!(found.len(), 2 + usize::from(round));
    }
}

/// How often logs are synced while a single family fills memtables and flushes them: not at all.
#[pumice_test_macros::test]
fn a_flushed_log_is_never_synced() {
    let (fs, _) = memory();
    let db = Db::open(&small(&fs), DIR).unwrap();
    // Would fail the first sync of a log.
    fs.add_fault(FaultRule::once(FaultOp::Sync, "*.log", 0, Fault::Fsync(FsyncFailure::Durable)));
    for round in 0..5 {
        db.put_opt(&WriteOptions::default(), &[round], b"1").unwrap();
        flush(&db);
    }
    db.put_opt(&SYNC, b"k", b"1").unwrap_err();
}

/// A sync that cannot make an earlier log durable acknowledges nothing, and a resume loses nothing.
#[pumice_test_macros::test]
fn a_failed_sync_of_an_earlier_log_is_an_error() {
    for by_sync_wal in [false, true] {
        let (fs, _) = memory();
        let db = Db::open(&small(&fs), DIR).unwrap();
        db.pause_background_work();
        db.put_opt(&WriteOptions::default(), b"first", b"1").unwrap();
        let first = *logs(&fs).last().unwrap();
        next_log(&db);
        db.put_opt(&WriteOptions::default(), b"second", b"1").unwrap();
        let fault = Fault::Fsync(FsyncFailure::ReadableThenLost);
        fs.add_fault(FaultRule::once(FaultOp::Sync, &format!("*{first:06}.log"), 0, fault));
        if by_sync_wal {
            db.sync_wal().unwrap_err();
        } else {
            db.put_opt(&SYNC, b"third", b"1").unwrap_err();
        }
        db.put_opt(&WriteOptions::default(), b"fourth", b"1").unwrap_err();
        db.continue_background_work().unwrap();
        db.resume().unwrap();
        db.put_opt(&SYNC, b"fifth", b"1").unwrap();
        let copy = fs.crashed_copy(1, CrashMode::UNSYNCED);
        let copy = Db::open(&small(&copy), DIR).unwrap();
        for key in [&b"first"[..], b"second", b"fifth"] {
            assert!(get(&copy, key).is_some(), "{}", String::from_utf8_lossy(key));
        }
    }
}

/// With a second column family a flush must not be durable before other families' earlier writes in
/// logs: complete logs are synced before a flush.
#[pumice_test_macros::test]
fn a_second_family_waits_for_complete_logs() {
    let (fs, _) = memory();
    let db = Db::open(&small(&fs), DIR).unwrap();
    db.pause_background_work();
    db.put_opt(&WriteOptions::default(), b"first", b"1").unwrap();
    next_log(&db);
    db.put_opt(&WriteOptions::default(), b"second", b"1").unwrap();
    db.create_column_family(&ColumnFamilyOptions::default(), "other").unwrap();
    let copy = fs.crashed_copy(1, CrashMode::UNSYNCED);
    db.continue_background_work().unwrap();
    let mut options = small(&copy);
    options.db.create_missing_column_families = true;
    let families = ["default", "other"]
        .map(|name| pumice::ColumnFamilyDescriptor::new(name, ColumnFamilyOptions::default()));
    let (copy, _) = Db::open_cf(&options.db, DIR, &families).unwrap();
    assert!(get(&copy, b"first").is_some() && get(&copy, b"second").is_some());
}
