//! Lowered background threads of the process: who runs lowered, and who does not.
//!
//! One test only: the pools are the process's, and nothing lowered is raised again.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{DIR, fill, flush, memory, options};
use pumice::stats::listener::{CompactionJobInfo, FlushJobInfo};
use pumice::{CompactRangeOptions, CpuPriority, Db, EventListener, PoolPriority, ThreadPools};
use pumice_port::os::{self, ThreadPriority};
use pumice_port::sync::Mutex;

/// The priorities of the threads that ran jobs.
#[derive(Default)]
struct Seen {
    flushes: Mutex<Vec<ThreadPriority>>,
    compactions: Mutex<Vec<ThreadPriority>>,
}

impl EventListener for Seen {
    fn on_flush_begin(&self, _: &FlushJobInfo) {
        self.flushes.lock().push(os::thread_priority());
    }
    fn on_compaction_begin(&self, _: &CompactionJobInfo) {
        self.compactions.lock().push(os::thread_priority());
    }
}

impl Seen {
    /// A flush and a compaction later: what they ran at.
    fn after_work(&self, db: &Db) -> (ThreadPriority, ThreadPriority) {
        fill(db, 0..1000, "value");
        flush(db);
        fill(db, 0..1000, "other");
        db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
        let flush = *self.flushes.lock().last().unwrap();
        (flush, *self.compactions.lock().last().unwrap())
    }
}

// Plain #[test]: priorities are those of operating-system threads.
#[test]
fn lowered_pools_run_lowered_jobs() {
    let normal = os::thread_priority();
    let (_fs, fs) = memory();
    let mut options = options(&fs);
    let seen = Arc::new(Seen::default());
    options.db.listeners = vec![Arc::clone(&seen) as Arc<dyn EventListener>];
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!(seen.after_work(&db), (normal, normal));
    let pools = ThreadPools::shared();
    pools.lower_thread_pool_cpu_priority(PoolPriority::Low, CpuPriority::Low).unwrap();
    let (flush, compaction) = seen.after_work(&db);
    assert_eq!((flush, compaction.nice(), compaction.is_idle_io()), (normal, 19, false));
    pools.lower_thread_pool_io_priority(PoolPriority::Low).unwrap();
    let (flush, compaction) = seen.after_work(&db);
    assert_eq!((flush, compaction.nice(), compaction.is_idle_io()), (normal, 19, true));
    pools.lower_thread_pool_cpu_priority(PoolPriority::High, CpuPriority::Idle).unwrap();
    let (flush, compaction) = seen.after_work(&db);
    assert!(flush.is_idle_policy() && !flush.is_idle_io());
    assert_eq!(compaction.nice(), 19);
    for (pool, expected) in [(PoolPriority::Low, 19), (PoolPriority::High, normal.nice())] {
        for thread in pools.thread_ids(pool) {
            assert_eq!(os::thread_priority_of(thread).unwrap().nice(), expected, "{pool:?}");
        }
    }
    assert_eq!(os::thread_priority(), normal);
    db.close().unwrap();
}
