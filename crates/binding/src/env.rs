//! `rocksdb_env_t`: a file system, and the pools of background threads that all databases share.
//!
//! Thread safety: handles are shared freely.

use std::fmt;
use std::sync::Arc;

use pumice::{FileSystem, MemFs, PoolPriority, PosixFs, ThreadPools};

/// An environment.
#[derive(Clone)]
pub struct Env {
    file_system: Arc<dyn FileSystem>,
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Env")
    }
}

impl Default for Env {
    fn default() -> Self {
        Env { file_system: PosixFs::shared() }
    }
}

impl Env {
    /// Files in memory, which are gone with the last handle and database.
    pub fn in_memory() -> Env {
        Env { file_system: MemFs::new(0).shared() }
    }

    /// The files.
    pub fn file_system(&self) -> &Arc<dyn FileSystem> {
        &self.file_system
    }

    /// Sets the number of threads of a pool.
    pub fn set_background_threads(&self, priority: PoolPriority, threads: i64) {
        let threads = usize::try_from(threads).unwrap_or(0);
        ThreadPools::shared().set_background_threads(threads, priority);
    }

    /// How many jobs of a pool wait for a thread.
    pub fn queue_len(&self, priority: PoolPriority) -> usize {
        ThreadPools::shared().queue_len(priority)
    }

    /// The number of threads of a pool.
    pub fn background_threads(&self, priority: PoolPriority) -> usize {
        ThreadPools::shared().background_threads(priority)
    }
}
