//! Files of logs that are used again (`recycle_log_file_num`): which, what is read of them, and
//! that neither a kill nor a power cut brings an older log's writes back.

use std::path::Path;
use std::sync::Arc;

use crate::common::{
    DIR, SYNC, contents, fill, flush, get, key, let_files_go, memory, names, options,
};
use pumice::options::WalRecoveryMode;
use pumice::{
    CheckpointOptions, ColumnFamilyOptions, Db, ErrorKind, FileSystem, FlushOptions, MemFs,
    Options, WriteOptions,
};
use pumice_base::random::Rng;
use pumice_env::mem::{CrashMode, FileLoss, NameLoss};

const PLAIN: WriteOptions = WriteOptions { sync: false, ..SYNC };

const MODES: [WalRecoveryMode; 4] = [
    WalRecoveryMode::TolerateCorruptedTail,
    WalRecoveryMode::AbsoluteConsistency,
    WalRecoveryMode::PointInTime,
    WalRecoveryMode::SkipAnyCorrupted,
];

/// What a kill leaves: all that is with the operating system.
const KILLED: CrashMode = CrashMode { files: FileLoss::Nothing, names: NameLoss::Nothing };

fn with(fs: &Arc<dyn FileSystem>, files: u64) -> Options {
    let mut options = options(fs);
    options.db.recycle_log_file_num = files;
    options
}

/// Numbers of the logs in the directory, ascending.
fn logs(fs: &Arc<dyn FileSystem>) -> Vec<u64> {
    let all = names(fs, DIR);
    let mut logs: Vec<u64> =
        all.iter().filter_map(|name| name.strip_suffix(".log")?.parse().ok()).collect();
    logs.sort_unstable();
    logs
}

/// Writes about `bytes`, and lets the log that had them become obsolete.
fn one_log(db: &Db, bytes: usize) {
    fill(db, 0..bytes / 1000 + 1, &"v".repeat(1000));
    flush(db);
    let_files_go(db);
}

#[pumice_test_macros::test]
fn files_of_logs_are_used_again() {
    let (_, fs) = memory();
    let db = Db::open(&with(&fs, 2), DIR).unwrap();
    let mut seen = vec![logs(&fs)];
    for bytes in [100_000, 40_000, 150_000, 1, 70_000] {
        one_log(&db, bytes);
        seen.push(logs(&fs));
    }
    // The first two flushes leave a file each; then each new log takes one and leaves one.
    let counts: Vec<usize> = seen.iter().map(Vec::len).collect();
    assert_eq!(counts, [1, 2, 2, 2, 2, 2], "{seen:?}");
    assert_ne!(seen[1], seen[2], "a new log has another's file");
    // An old file has no record, and is no log of the database.
    let current = db.current_wal_file().unwrap();
    fill(&db, 0..10, "value");
    let listed: Vec<u64> = db.wal_files().unwrap().iter().map(|log| log.log_number).collect();
    assert_eq!(listed, [current.log_number]);
    let expected = contents(&db);
    db.close().unwrap();
    assert_eq!(logs(&fs), [current.log_number], "a close keeps no file for later");
    let db = Db::open(&with(&fs, 2), DIR).unwrap();
    assert_eq!(contents(&db), expected);
    one_log(&db, 1);
    assert_eq!(logs(&fs).len(), 2, "the log of the last open is not used again");
    db.close().unwrap();
}

/// As RocksDB, which says so in its options' documentation.
#[pumice_test_macros::test]
fn archives_and_strict_modes_keep_no_files() {
    use WalRecoveryMode::{
        AbsoluteConsistency, PointInTime, SkipAnyCorrupted, TolerateCorruptedTail,
    };
    for (mode, ttl, keeps) in [
        (PointInTime, 0, true),
        (SkipAnyCorrupted, 0, true),
        (TolerateCorruptedTail, 0, false),
        (AbsoluteConsistency, 0, false),
        (PointInTime, 1000, false),
    ] {
        let (_, fs) = memory();
        let mut options = with(&fs, 2);
        options.db.wal_recovery_mode = mode;
        options.db.WAL_ttl_seconds = ttl;
        let db = Db::open(&options, DIR).unwrap();
        one_log(&db, 5000);
        assert_eq!(logs(&fs).len(), 1 + usize::from(keeps), "{mode:?} {ttl}");
        let unlogged = WriteOptions { disable_wal: true, ..Default::default() };
        let written = db.put_opt(&unlogged, "a", "b");
        assert_eq!(
            written.as_ref().err().map(pumice::Error::kind),
            keeps.then_some(ErrorKind::InvalidArgument)
        );
        db.close().unwrap();
    }
}

/// A copy of the database may share a log's file: it is not written over.
#[pumice_test_macros::test]
fn a_file_with_two_names_is_not_used_again() {
    let (_, fs) = memory();
    let db = Db::open(&with(&fs, 2), DIR).unwrap();
    fill(&db, 0..10, "value");
    let log = Path::new(DIR).join(db.current_wal_file().unwrap().path_name.trim_start_matches('/'));
    fs.link(&log, Path::new("/other")).unwrap();
    let bytes = fs.read_file(&log).unwrap();
    flush(&db);
    let_files_go(&db);
    assert_eq!(logs(&fs).len(), 1);
    one_log(&db, 5000);
    assert!(fs.read_file(Path::new("/other")).unwrap() == bytes);
    db.close().unwrap();
}

/// After every write a kill, in any recovery mode: all writes are there, and none of an older log.
#[pumice_test_macros::test]
fn a_kill_loses_nothing_in_any_mode() {
    for seed in 0..4 {
        let mut rng = Rng::new(seed);
        let (memory, fs) = memory();
        let mut options = with(&fs, 1 + seed % 3);
        options.db.manual_wal_flush = false;
        if seed % 2 == 1 {
            options.db.wal_compression = pumice::CompressionType::Zstd;
        }
        let db = Db::open(&options, DIR).unwrap();
        let other = db.create_column_family(&ColumnFamilyOptions::default(), "other");
        let other = (seed % 3 == 0).then(|| other.unwrap());
        let mut kills = 0;
        for n in 0..120u64 {
            let value = vec![n as u8; rng.skewed(16) as usize];
            match &other {
                Some(cf) if rng.one_in(2) => db.put_cf(cf, key(n as usize), &value).unwrap(),
                _ => db.put(key(rng.uniform(40) as usize), &value).unwrap(),
            }
            if rng.one_in(12) {
                flush(&db);
                let_files_go(&db);
            }
            if !rng.one_in(4) {
                continue;
            }
            let expected = contents(&db);
            let mode = MODES[kills % 4];
            kills += 1;
            let copy = memory.crashed_copy(n, KILLED).shared();
            let mut options = options.clone();
            (options.db.file_system, options.db.wal_recovery_mode) = (copy, mode);
            let names = Db::list_column_families(&options.db, DIR).unwrap();
            let families: Vec<_> = names
                .iter()
                .map(|name| pumice::ColumnFamilyDescriptor::new(name, options.cf.clone()))
                .collect();
            let (again, _cfs) = Db::open_cf(&options.db, DIR, &families)
                .unwrap_or_else(|error| panic!("seed {seed}, write {n}, {mode:?}: {error}"));
            assert_eq!(contents(&again), expected, "seed {seed}, write {n}, {mode:?}");
            again.close().unwrap();
        }
        assert!(kills > 20, "{kills}");
        drop(other);
        db.close().unwrap();
    }
}

/// A log that only says that it is compressed has no record: no other follows it, whose records
/// would count on its length.
#[pumice_test_macros::test]
fn nothing_is_lost_after_flushes_of_nothing_with_compressed_logs() {
    let (memory, fs) = memory();
    let mut options = with(&fs, 1);
    options.db.wal_compression = pumice::CompressionType::Zstd;
    let db = Db::open(&options, DIR).unwrap();
    one_log(&db, 100_000);
    one_log(&db, 100_000);
    let log = db.current_wal_file().unwrap();
    let name = log.path_name.trim_start_matches('/');
    let bytes = fs.file_size(&Path::new(DIR).join(name)).unwrap();
    assert!(bytes > log.size_file_bytes, "an old file");
    for _ in 0..2 {
        flush(&db);
        let_files_go(&db);
        assert_eq!(db.current_wal_file().unwrap().log_number, log.log_number);
    }
    db.put_opt(&SYNC, "x", "1").unwrap();
    let expected = contents(&db);
    for mode in [KILLED, CrashMode::UNSYNCED] {
        let mut options = options.clone();
        options.db.file_system = memory.crashed_copy(1, mode).shared();
        let again = Db::open(&options, DIR).unwrap();
        assert_eq!(get(&again, b"x"), Some(b"1".to_vec()));
        assert_eq!(contents(&again), expected);
        again.close().unwrap();
    }
    db.close().unwrap();
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!(contents(&db), expected);
    db.close().unwrap();
}

/// Power cuts at drawn moments: a prefix that has all synced writes, and then the database goes on.
#[pumice_test_macros::test]
fn a_power_cut_leaves_a_prefix() {
    for seed in 0..50 {
        cut_power(seed, false);
    }
}

/// Batches that are logged up to a point leave gaps in the numbers, at the end of a log as well:
/// the next log follows all the same, since a log that has a successor ends with its last record.
#[pumice_test_macros::test]
fn a_power_cut_leaves_a_prefix_of_partly_logged_batches() {
    for seed in 0..50 {
        cut_power(seed, true);
    }
}

fn cut_power(seed: u64, partly: bool) {
    let mut rng = Rng::new(seed);
    let (memory, fs) = memory();
    let mut options = with(&fs, 1 + seed % 3);
    options.cf.max_write_buffer_number = 8;
    let db = Db::open(&options, DIR).unwrap();
    let (mut last, mut synced, mut waiting) = (0, 0, 0);
    for n in 1..=30 + rng.uniform(120) {
        let mut batch = pumice::WriteBatch::new();
        batch.put("last", n.to_le_bytes());
        batch.put(key(n as usize), vec![n as u8; rng.skewed(15) as usize]);
        if partly && rng.one_in(2) {
            batch.mark_wal_termination_point();
            batch.put(key(1000 + n as usize), "unlogged");
        }
        let sync = rng.one_in(15);
        db.write_opt(if sync { &SYNC } else { &PLAIN }, &mut batch).unwrap();
        last = n;
        if sync {
            synced = n;
        }
        if partly && waiting < 4 && rng.one_in(15) {
            // The next log begins, and this one is still needed.
            if waiting == 0 {
                db.pause_background_work();
            }
            waiting += 1;
            let later = FlushOptions { wait: false, ..FlushOptions::default() };
            db.flush_opt(&later).unwrap();
        } else if waiting == 0 && rng.one_in(20) {
            flush(&db);
            let_files_go(&db);
            synced = n;
        }
    }
    let mode = CrashMode { files: FileLoss::Mixed, names: NameLoss::Mixed };
    let copy = memory.cut_power(seed, mode).shared();
    drop(db);
    options.db.file_system = copy;
    let db = Db::open(&options, DIR).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let found = get(&db, b"last").map_or(0, |v| u64::from_le_bytes(v.try_into().unwrap()));
    assert!((synced..=last).contains(&found), "seed {seed}: {synced} {found} {last}");
    for n in 1..=last {
        let there = get(&db, &key(n as usize));
        assert_eq!(there.is_some(), n <= found, "seed {seed}: write {n} of {found}");
        assert!(there.is_none_or(|value| value.iter().all(|byte| *byte == n as u8)));
        let unlogged = get(&db, &key(1000 + n as usize));
        assert!(unlogged.is_none() || n <= found, "seed {seed}: behind the point of {n}");
    }
    one_log(&db, 3000);
    db.close().unwrap();
}

/// An iterator over the logs ends where their writer has got, and a log that it has open may become
/// another one: then it says that there is a gap, and never returns what is in that one.
#[pumice_test_macros::test]
fn updates_of_logs_that_become_others() {
    let (_, fs) = memory();
    let db = Db::open(&with(&fs, 1), DIR).unwrap();
    one_log(&db, 100_000);
    one_log(&db, 100_000);
    let from = db.latest_sequence_number() + 1;
    db.put("first", "1").unwrap();
    let mut updates = db.get_updates_since(from).unwrap();
    for n in 0..200u64 {
        assert_eq!(updates.next().unwrap().unwrap().0, from + n);
        assert!(updates.next().is_none(), "{n}");
        db.put("more", vec![b'm'; (n * 37 % 3000) as usize]).unwrap();
    }
    fill(&db, 0..50, &"w".repeat(900));
    one_log(&db, 100_000);
    fill(&db, 0..100, &"x".repeat(2000));
    let rest: Vec<_> = updates.by_ref().collect();
    let (last, read) = rest.split_last().unwrap();
    assert!(last.is_err(), "{} batches", rest.len());
    for (n, batch) in (from + 200..).zip(read) {
        assert_eq!(batch.as_ref().unwrap().0, n);
    }
    db.close().unwrap();
}

/// A checkpoint and the list of logs have the bytes of the records, not those of the file.
#[pumice_test_macros::test]
fn lengths_are_those_of_the_records() {
    let (_, fs) = memory();
    let db = Db::open(&with(&fs, 1), DIR).unwrap();
    one_log(&db, 100_000);
    one_log(&db, 100_000);
    fill(&db, 0..3, "short");
    let log = db.current_wal_file().unwrap();
    let name = log.path_name.trim_start_matches('/');
    assert!(fs.file_size(&Path::new(DIR).join(name)).unwrap() > 90_000, "an old file");
    assert!(log.size_file_bytes < 1000, "{log:?}");
    assert_eq!(db.wal_files().unwrap()[0].size_file_bytes, log.size_file_bytes);
    let all_logged = CheckpointOptions { log_size_for_flush: u64::MAX };
    db.checkpoint_opt(&all_logged, "/copy").unwrap();
    assert_eq!(fs.file_size(&Path::new("/copy").join(name)).unwrap(), log.size_file_bytes);
    // A log that has a successor is its records.
    fill(&db, 0..70, &"v".repeat(1000));
    let expected = contents(&db);
    let copy = Db::open(&options(&fs), "/copy").unwrap();
    assert_eq!(get(&copy, &key(1)), Some(b"short".to_vec()));
    copy.close().unwrap();
    db.close().unwrap();
    let db = Db::open(&with(&fs, 1), DIR).unwrap();
    assert_eq!(contents(&db), expected);
    db.close().unwrap();
}

/// A failed log is not used again, nor is one from before it; the database goes on.
#[pumice_test_macros::test]
fn a_failed_log_is_not_used_again() {
    use pumice_env::mem::{Fault, FaultOp, FaultRule};
    let (memory, fs): (MemFs, _) = memory();
    let db = Db::open(&with(&fs, 2), DIR).unwrap();
    one_log(&db, 5000);
    fill(&db, 0..10, "value");
    let failed = db.current_wal_file().unwrap().log_number;
    memory.add_fault(FaultRule::once(FaultOp::Write, "*.log", 0, Fault::Eio));
    assert!(db.put("a", "b").is_err());
    memory.clear_faults();
    db.resume().unwrap();
    let_files_go(&db);
    assert!(!logs(&fs).contains(&failed), "{failed} {:?}", logs(&fs));
    for _ in 0..3 {
        one_log(&db, 5000);
    }
    assert_eq!(get(&db, &key(1)).map(|value| value.len()), Some(1000));
    db.close().unwrap();
}
