//! Checkpoints: the state of one moment, whole or absent, independent of the database.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::common::{DIR, contents, fill, flush, get, key, memory, names, options};
use pumice::{
    CheckpointOptions, ColumnFamily, ColumnFamilyDescriptor, ColumnFamilyOptions,
    CompactRangeOptions, Db, EventListener, FlushJobInfo, FlushReason, Options, ReadOptions,
    WriteBatch, WriteOptions,
};
use pumice_env::mem::{CrashMode, Fault, FaultOp, FaultRule, FileLoss, NameLoss};
use pumice_port::sync::Mutex;
use pumice_port::thread;

const COPY: &str = "/copy";

fn open_copy(options: &Options) -> Db {
    let mut options = options.clone();
    options.db.create_if_missing = false;
    Db::open(&options, COPY).unwrap()
}

#[pumice_test_macros::test]
fn a_checkpoint_holds_files_and_logs_and_stays_when_the_database_changes() {
    let (_, fs) = memory();
    let options = options(&fs);
    let db = Db::open(&options, DIR).unwrap();
    fill(&db, 0..500, "old");
    flush(&db);
    fill(&db, 500..600, "memtable");
    let before = contents(&db);
    db.checkpoint(COPY).unwrap();
    fill(&db, 0..600, "new");
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    let copy = open_copy(&options);
    assert_eq!(contents(&copy), before);
    copy.verify_checksum().unwrap();
    // The copy can be written to.
    fill(&copy, 0..1, "mine");
    copy.close().unwrap();
    assert_eq!(get(&db, &key(0)).unwrap(), b"new");
    assert!(names(&fs, "/").iter().all(|name| !name.contains(".tmp")));
}

/// Flink keeps what is in a checkpoint file by file, and fails at one without a byte.
#[pumice_test_macros::test]
fn a_log_without_a_byte_is_not_copied() {
    let (_, fs) = memory();
    let options = options(&fs);
    let db = Db::open(&options, DIR).unwrap();
    let unlogged = WriteOptions { disable_wal: true, ..WriteOptions::default() };
    db.put_opt(&unlogged, b"k", b"v").unwrap();
    db.checkpoint(COPY).unwrap();
    let copied = names(&fs, COPY);
    assert!(copied.iter().all(|name| !name.ends_with(".log")), "{copied:?}");
    let copy = open_copy(&options);
    assert_eq!(get(&copy, b"k").unwrap(), b"v");
    copy.put(b"k", b"w").unwrap();
    copy.close().unwrap();
    assert_eq!(get(&open_copy(&options), b"k").unwrap(), b"w");
}

/// The logs are copied instead of a flush while they are shorter than the limit.
#[pumice_test_macros::test]
fn a_checkpoint_flushes_when_its_limit_is_reached() {
    for (log_size_for_flush, flushes) in
        [(0, true), (100, true), (1 << 20, false), (u64::MAX, false)]
    {
        let (_, fs) = memory();
        let options = options(&fs);
        let db = Db::open(&options, DIR).unwrap();
        fill(&db, 0..10, "value");
        let wanted = contents(&db);
        db.checkpoint_opt(&CheckpointOptions { log_size_for_flush }, COPY).unwrap();
        let tables = |db: &Db| db.live_files_metadata().len();
        assert_eq!(tables(&db), usize::from(flushes), "{log_size_for_flush}");
        let mut reading = options.clone();
        reading.db.avoid_flush_during_recovery = true;
        let copy = open_copy(&reading);
        assert_eq!(contents(&copy), wanted);
        assert_eq!(tables(&copy), usize::from(flushes), "{log_size_for_flush}");
    }
}

#[derive(Default)]
struct Reasons(Mutex<Vec<FlushReason>>);

impl EventListener for Reasons {
    fn on_flush_completed(&self, info: &FlushJobInfo) {
        self.0.lock().push(info.flush_reason);
    }
}

/// As in RocksDB the flush's reason is not a manual flush.
#[pumice_test_macros::test]
fn flushes_say_what_they_are_for() {
    let (_, fs) = memory();
    let mut options = options(&fs);
    let reasons = Arc::new(Reasons::default());
    options.db.listeners = vec![Arc::clone(&reasons) as Arc<dyn EventListener>];
    let db = Db::open(&options, DIR).unwrap();
    fill(&db, 0..10, "value");
    db.checkpoint(COPY).unwrap();
    fill(&db, 0..10, "value");
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    fill(&db, 0..10, "value");
    flush(&db);
    let unlogged = WriteOptions { disable_wal: true, ..Default::default() };
    db.put_opt(&unlogged, "key", "value").unwrap();
    db.close().unwrap();
    let reported = reasons.0.lock().clone();
    let wanted = [
        FlushReason::GetLiveFiles,
        FlushReason::ManualCompaction,
        FlushReason::ManualFlush,
        FlushReason::ShutDown,
    ];
    assert_eq!(reported, wanted);
}

#[pumice_test_macros::test]
fn unflushed_writes_of_a_manually_flushed_log_are_in() {
    let (_, fs) = memory();
    let mut options = options(&fs);
    options.db.manual_wal_flush = true;
    let db = Db::open(&options, DIR).unwrap();
    fill(&db, 0..10, "v");
    db.checkpoint(COPY).unwrap();
    assert_eq!(contents(&open_copy(&options)), contents(&db));
}

#[pumice_test_macros::test]
fn an_existing_target_is_refused_and_left_alone() {
    let (_, fs) = memory();
    let options = options(&fs);
    let db = Db::open(&options, DIR).unwrap();
    fs.create_dir_all(Path::new(COPY)).unwrap();
    let error = db.checkpoint(COPY).unwrap_err();
    assert_eq!(error.to_string(), "Invalid argument: Directory exists");
    assert!(names(&fs, COPY).is_empty());
}

#[pumice_test_macros::test]
fn without_hard_links_files_are_copied() {
    let (mem, fs) = memory();
    let options = options(&fs);
    let db = Db::open(&options, DIR).unwrap();
    for round in 0..3 {
        fill(&db, round * 100..round * 100 + 100, "v");
        flush(&db);
    }
    mem.add_fault(FaultRule::always(FaultOp::Link, "*", Fault::Exdev));
    db.checkpoint(COPY).unwrap();
    // One refusal is enough to stop trying.
    assert_eq!(mem.fault_log().len(), 1, "{:?}", mem.fault_log());
    assert_eq!(contents(&open_copy(&options)), contents(&db));
}

#[pumice_test_macros::test]
fn a_failure_leaves_nothing_and_the_next_try_succeeds() {
    let faults = [
        (FaultOp::Link, "*.sst"),
        (FaultOp::Write, "/copy.tmp.*/MANIFEST*"),
        (FaultOp::Sync, "/copy.tmp.*/*"),
        (FaultOp::SyncDir, "/copy.tmp*"),
        (FaultOp::Rename, "/copy.tmp*"),
    ];
    for (op, path) in faults {
        let (mem, fs) = memory();
        let options = options(&fs);
        let db = Db::open(&options, DIR).unwrap();
        fill(&db, 0..100, "v");
        mem.add_fault(FaultRule::once(op, path, 0, Fault::Eio));
        assert!(db.checkpoint(COPY).is_err(), "{op:?}");
        assert!(!fs.exists(Path::new(COPY)).unwrap(), "{op:?}");
        // Files may be deleted again, and the database writes on.
        assert_eq!(db.property("rocksdb.is-file-deletions-enabled").unwrap(), "1");
        fill(&db, 100..200, "v");
        db.checkpoint(COPY).unwrap();
        assert_eq!(contents(&open_copy(&options)).len(), 200, "{op:?}");
    }
}

#[pumice_test_macros::test]
fn a_finished_checkpoint_survives_a_power_cut() {
    for seed in 0..8 {
        let (mem, fs) = memory();
        let options = options(&fs);
        let db = Db::open(&options, DIR).unwrap();
        fill(&db, 0..300, "v");
        flush(&db);
        fill(&db, 300..400, "v");
        db.checkpoint(COPY).unwrap();
        let mode = CrashMode { files: FileLoss::Mixed, names: NameLoss::Mixed };
        let after = mem.crashed_copy(seed, mode);
        let mut options = options.clone();
        options.db.file_system = after.shared();
        assert_eq!(contents(&open_copy(&options)).len(), 400, "seed {seed}");
    }
}

/// Batches write the same number to two column families: a checkpoint at any time must agree with
/// itself, also when one of them is flushed and the other is not.
#[pumice_test_macros::test]
fn column_families_agree_while_writes_go_on() {
    let (_, fs) = memory();
    let mut options = options(&fs);
    options.cf.write_buffer_size = 64 << 10;
    let db = Db::open(&options, DIR).unwrap();
    let other = db.create_column_family(&ColumnFamilyOptions::default(), "other").unwrap();
    let (done, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let writer = {
        let (db, done, written) = (db.clone(), Arc::clone(&done), Arc::clone(&written));
        thread::spawn("writer", move || {
            let mut n = 0;
            while !done.load(Ordering::Relaxed) {
                let mut batch = WriteBatch::new();
                batch.put(&key(n), &[b'v'; 100]);
                batch.put_cf(other.id(), &key(n), b"v");
                db.write_opt(&WriteOptions::default(), &mut batch).unwrap();
                n += 1;
                written.store(n, Ordering::Release);
            }
        })
    };
    for round in 0..5 {
        let before = written.load(Ordering::Acquire);
        while written.load(Ordering::Acquire) < before + 200 {
            thread::yield_now();
        }
        let target = format!("/copy{round}");
        let at_least = written.load(Ordering::Acquire);
        db.checkpoint(&target).unwrap();
        let families =
            ["default", "other"].map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
        let (copy, handles) = Db::open_cf(&options.db, &target, &families).unwrap();
        let (one, two) = (count(&copy, &handles[0]), count(&copy, &handles[1]));
        assert_eq!(one, two, "round {round}");
        assert!(one >= at_least, "{one} < {at_least}");
    }
    done.store(true, Ordering::Relaxed);
    writer.join().unwrap();
}

/// The number of keys, which must be `key(0)`, `key(1)` and so on without a gap.
fn count(db: &Db, cf: &ColumnFamily) -> usize {
    let mut iter = db.cursor_cf_opt(&ReadOptions::default(), cf).unwrap();
    iter.seek_to_first();
    let mut count = 0;
    while iter.valid() {
        assert_eq!(iter.key().unwrap(), key(count));
        count += 1;
        iter.next();
    }
    iter.status().unwrap();
    count
}
