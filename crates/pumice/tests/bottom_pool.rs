//! Compactions of the last level in a separate pool, with its own priority.
//!
//! One test only: the pools are the process's.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::probe::Probe;
use common::{DIR, fill, flush, get, key, memory, options};
use pumice::stats::listener::CompactionJobInfo;
use pumice::{
    CompactRangeOptions, CompactionFilter, CpuPriority, Db, EventListener, PoolPriority,
    ThreadPools,
};
use pumice_port::sync::{Mutex, Semaphore};
use pumice_port::{os, thread, time};

/// A compaction: its thread, the one that computes, and the nice value of that.
#[derive(Clone, Debug)]
struct Job {
    output_level: i32,
    thread: u64,
    computing: u64,
    nice: i32,
}

struct Seen(Arc<Probe>, Mutex<Vec<Job>>);

impl EventListener for Seen {
    fn on_compaction_begin(&self, _: &CompactionJobInfo) {
        self.0.forget();
    }
    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        let (computing, priority) = self.0.seen();
        let (output_level, thread) = (info.output_level, os::thread_id());
        self.1.lock().push(Job { output_level, thread, computing, nice: priority.nice() });
    }
}

// Plain #[test]: priorities are those of operating-system threads.
#[test]
fn the_last_level_is_compacted_by_the_bottom_pool() {
    let (_fs, fs) = memory();
    let mut options = options(&fs);
    options.cf.num_levels = 3;
    options.cf.level_compaction_dynamic_level_bytes = false;
    let probe = Probe::of(&mut options);
    options.cf.compaction_filter = Some(Arc::clone(&probe) as Arc<dyn CompactionFilter>);
    let seen = Arc::new(Seen(Arc::clone(&probe), Mutex::default()));
    options.db.listeners = vec![Arc::clone(&seen) as Arc<dyn EventListener>];
    let db = Db::open(&options, DIR).unwrap();
    let compact = || {
        // Two overlapping files, so that nothing moves as it is.
        for value in ["value", "other"] {
            fill(&db, 0..1000, value);
            flush(&db);
        }
        seen.1.lock().clear();
        db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
        assert_eq!(get(&db, &key(500)).unwrap(), b"other");
        seen.1.lock().clone()
    };
    compact();
    // From now on there is something below, and each level is rewritten.
    let down = CompactRangeOptions { change_level: true, target_level: 2, ..Default::default() };
    db.compact_range(&down, None, None).unwrap();
    let pools = ThreadPools::shared();
    assert_eq!(pools.background_threads(PoolPriority::Bottom), 0, "as in RocksDB");
    let last = |jobs: &[Job]| jobs.iter().rfind(|job| job.output_level == 2).unwrap().clone();
    assert!(pools.thread_ids(PoolPriority::Low).contains(&last(&compact()).thread));
    pools.set_background_threads(1, PoolPriority::Bottom);
    pools.lower_thread_pool_cpu_priority(PoolPriority::Bottom, CpuPriority::Low).unwrap();
    let jobs = compact();
    let job = last(&jobs);
    assert_eq!((pools.thread_ids(PoolPriority::Bottom), job.nice), (vec![job.computing], 19));
    let upper: Vec<_> = jobs.iter().filter(|job| job.output_level == 1).collect();
    let own = os::thread_priority().nice();
    assert!(!upper.is_empty() && upper.iter().all(|job| job.nice == own), "{jobs:?}");
    db.close().unwrap();

    // The only thread is busy for good: what waits for it does not keep a database open.
    let (busy, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (started, wait) = (Arc::clone(&busy), Arc::clone(&gate));
    let job = move || {
        started.release(1);
        wait.acquire(1);
    };
    pools.schedule(PoolPriority::Bottom, "busy", Box::new(job));
    busy.acquire(1);
    let db = Db::open(&options, DIR).unwrap();
    for value in ["value", "other"] {
        fill(&db, 0..1000, value);
        flush(&db);
    }
    let handle = db.clone();
    let compacting = thread::spawn("compact", move || {
        handle.compact_range(&CompactRangeOptions::default(), None, None)
    });
    let until = time::now_micros() + 120_000_000;
    while pools.queue_len(PoolPriority::Bottom) == 0 {
        assert!(time::now_micros() < until, "nothing waits for the thread");
        thread::sleep(Duration::from_millis(1));
    }
    db.close().unwrap();
    assert!(compacting.join().unwrap().is_err(), "it was not done");
    gate.release(1);
    pools.wait_idle();
}
