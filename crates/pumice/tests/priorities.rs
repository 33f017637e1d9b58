//! Lowered background threads of the process: which tasks run lowered, and which do not.
//!
//! One test only: the pools are the process's, and nothing lowered is raised again.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::probe::Probe;
use common::{DIR, fill, flush, memory, options};
use pumice::stats::listener::{CompactionJobInfo, FlushJobInfo};
use pumice::{CompactRangeOptions, CpuPriority, Db, EventListener, PoolPriority, ThreadPools};
use pumice_port::os::{self, ThreadPriority};
use pumice_port::sync::Mutex;

/// The priorities of the threads that begin and install jobs.
#[derive(Default)]
struct Seen(Mutex<Vec<ThreadPriority>>);

impl EventListener for Seen {
    fn on_flush_begin(&self, _: &FlushJobInfo) {
        self.0.lock().push(os::thread_priority());
    }
    fn on_flush_completed(&self, _: &FlushJobInfo) {
        self.0.lock().push(os::thread_priority());
    }
    fn on_compaction_begin(&self, _: &CompactionJobInfo) {
        self.0.lock().push(os::thread_priority());
    }
    fn on_compaction_completed(&self, _: &CompactionJobInfo) {
        self.0.lock().push(os::thread_priority());
    }
}

/// A flush and a compaction later: the threads that computed, and their priorities.
fn after_work(probe: &Probe, db: &Db) -> [(u64, ThreadPriority); 2] {
    probe.write(db);
    fill(db, 0..1000, "value");
    flush(db);
    let flushed = probe.seen();
    probe.append(db);
    fill(db, 0..1000, "other");
    flush(db);
    probe.forget();
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    [flushed, probe.seen()]
}

// Plain #[test]: priorities are those of operating-system threads.
#[test]
fn lowered_pools_run_lowered_jobs() {
    pumice_port::lane::watch_locks();
    let normal = os::thread_priority();
    let (_fs, fs) = memory();
    let mut options = options(&fs);
    let seen = Arc::new(Seen::default());
    options.db.listeners = vec![Arc::clone(&seen) as Arc<dyn EventListener>];
    let probe = Probe::of(&mut options);
    let db = Db::open(&options, DIR).unwrap();
    let work = || after_work(&probe, &db).map(|(_, priority)| priority);
    assert_eq!(work(), [normal, normal]);
    let pools = ThreadPools::shared();
    pools.lower_thread_pool_cpu_priority(PoolPriority::Low, CpuPriority::Low).unwrap();
    let [flush, compaction] = work();
    assert_eq!((flush, compaction.nice(), compaction.is_idle_io()), (normal, 19, false));
    pools.lower_thread_pool_io_priority(PoolPriority::Low).unwrap();
    let [flush, compaction] = work();
    assert_eq!((flush, compaction.nice(), compaction.is_idle_io()), (normal, 19, true));
    pools.lower_thread_pool_cpu_priority(PoolPriority::High, CpuPriority::Idle).unwrap();
    let [(flusher, flush), (compactor, compaction)] = after_work(&probe, &db);
    assert!(flush.is_idle_policy() && !flush.is_idle_io());
    assert_eq!(compaction.nice(), 19);
    for (pool, thread, expected) in
        [(PoolPriority::Low, compactor, 19), (PoolPriority::High, flusher, normal.nice())]
    {
        let threads = pools.thread_ids(pool);
        assert!(threads.contains(&thread), "{pool:?}");
        for thread in threads {
            assert_eq!(os::thread_priority_of(thread).unwrap().nice(), expected, "{pool:?}");
        }
    }
    assert_eq!(os::thread_priority(), normal);
    db.close().unwrap();
    let begun = seen.0.lock().clone();
    assert!(begun.len() >= 24 && begun.iter().all(|priority| *priority == normal), "{begun:?}");
}
