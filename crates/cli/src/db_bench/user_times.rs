//! `--user_timestamp_size`: the timestamps of what db_bench writes and reads, counted from 0 in
//! each process, as RocksDB's db_bench does.
//!
//! Thread safety: shared by all workers; a worker has its own [`ReadTimes`].

use super::flags::Flags;
use pumice::Comparator;
use pumice_base::random::Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// RocksDB's name of the order.
const ORDER: &str = "leveldb.BytewiseComparator.u64ts";

/// The times of one process.
#[derive(Debug)]
pub struct UserTimes {
    next: AtomicU64,
    latest: bool,
    readers: AtomicU64,
}

impl UserTimes {
    /// The times that the flags ask for, and the order of keys that have them.
    ///
    /// # Errors
    /// Another size than 0 and 8.
    pub fn wanted(flags: &Flags) -> Result<Option<(Arc<UserTimes>, Comparator)>, String> {
        match flags.user_timestamp_size {
            size if size <= 0 => return Ok(None),
            8 => {}
            _ => return Err("Only 64 bits timestamps are supported.".into()),
        }
        let latest = flags.read_with_latest_user_timestamp;
        let times = UserTimes { next: AtomicU64::new(0), latest, readers: AtomicU64::new(0) };
        let order = Comparator::builtin(ORDER).ok_or("there is no order with timestamps")?;
        Ok(Some((Arc::new(times), order)))
    }

    /// The timestamp of the next write.
    pub fn of_write(&self) -> [u8; 8] {
        self.next.fetch_add(1, Ordering::Relaxed).to_le_bytes()
    }
}

/// The times at which one worker reads.
#[derive(Debug)]
pub struct ReadTimes {
    times: Arc<UserTimes>,
    rng: Rng,
}

impl ReadTimes {
    /// Those of another worker.
    pub fn new(times: &Arc<UserTimes>) -> Self {
        let rng = Rng::new(times.readers.fetch_add(1, Ordering::Relaxed));
        ReadTimes { times: Arc::clone(times), rng }
    }

    /// The timestamp of the next read.
    pub fn next(&mut self) -> [u8; 8] {
        if self.times.latest {
            return self.times.of_write();
        }
        let now = self.times.next.load(Ordering::Relaxed).max(1);
        self.rng.uniform(now).to_le_bytes()
    }
}
