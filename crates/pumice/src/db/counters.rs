//! Counts that the database always keeps, for `rocksdb.stats` and its relatives.
//!
//! Unlike `Statistics` they cannot be turned off and cost a few relaxed atomic additions a write
//! group or a job, never a key.
//!
//! Thread safety: atomics; a reader may see a group half counted.

use std::sync::atomic::{AtomicU64, Ordering};

use pumice_port::sync::Mutex;

/// Counts of a database since it was opened.
#[derive(Default)]
pub(crate) struct DbCounters {
    pub started_micros: AtomicU64,
    pub batches: AtomicU64,
    pub groups: AtomicU64,
    pub keys: AtomicU64,
    pub bytes: AtomicU64,
    pub logged_batches: AtomicU64,
    pub wal_bytes: AtomicU64,
    pub wal_syncs: AtomicU64,
    pub stall_micros: AtomicU64,
}

impl DbCounters {
    /// All zero, started now.
    pub fn new() -> Self {
        let counters = DbCounters::default();
        counters.started_micros.store(pumice_port::time::now_micros(), Ordering::Relaxed);
        counters
    }

    /// A group of `batches` was written.
    #[inline]
    pub fn written(&self, batches: u64, keys: u64, bytes: u64, logged: bool) {
        self.groups.fetch_add(1, Ordering::Relaxed);
        self.batches.fetch_add(batches, Ordering::Relaxed);
        self.keys.fetch_add(keys, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if logged {
            self.logged_batches.fetch_add(batches, Ordering::Relaxed);
        }
    }

    /// The log grew.
    #[inline]
    pub fn wal_written(&self, bytes: u64, synced: bool) {
        self.wal_bytes.fetch_add(bytes, Ordering::Relaxed);
        if synced {
            self.wal_syncs.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A writer waited.
    pub fn stalled(&self, micros: u64) {
        self.stall_micros.fetch_add(micros, Ordering::Relaxed);
    }
}

/// What flushes and compactions into one level did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LevelCounters {
    pub jobs: u64,
    pub micros: u64,
    pub cpu_micros: u64,
    pub bytes_read_start_level: u64,
    pub bytes_read_output_level: u64,
    pub bytes_written: u64,
    pub bytes_moved: u64,
    pub entries_in: u64,
    pub entries_dropped: u64,
    pub files_written: u64,
}

/// Why writes to a column family were held, and how often.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StallCounters {
    pub memtable_delays: u64,
    pub l0_delays: u64,
    pub pending_delays: u64,
    pub memtable_stops: u64,
    pub l0_stops: u64,
    pub pending_stops: u64,
}

/// Counts of a column family since the database was opened.
pub(crate) struct CfCounters {
    pub levels: Mutex<Vec<LevelCounters>>,
    pub stalls: Mutex<StallCounters>,
    pub flushed_bytes: AtomicU64,
}

impl CfCounters {
    /// All zero, for `levels` levels.
    pub fn new(levels: usize) -> Self {
        CfCounters {
            levels: Mutex::new(vec![LevelCounters::default(); levels]),
            stalls: Mutex::new(StallCounters::default()),
            flushed_bytes: AtomicU64::new(0),
        }
    }

    /// Adds a job's counts to the level it wrote to.
    pub fn add(&self, level: usize, job: &LevelCounters) {
        let mut levels = self.levels.lock();
        if let Some(sum) = levels.get_mut(level) {
            sum.jobs += job.jobs;
            sum.micros += job.micros;
            sum.cpu_micros += job.cpu_micros;
            sum.bytes_read_start_level += job.bytes_read_start_level;
            sum.bytes_read_output_level += job.bytes_read_output_level;
            sum.bytes_written += job.bytes_written;
            sum.bytes_moved += job.bytes_moved;
            sum.entries_in += job.entries_in;
            sum.entries_dropped += job.entries_dropped;
            sum.files_written += job.files_written;
        }
    }
}
