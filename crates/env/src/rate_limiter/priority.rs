//! How urgent an operation is to a rate limiter.
//!
//! Thread safety: values.

/// The priority of an operation at a limiter: RocksDB's `Env::IOPriority`.
///
/// Example: that of [`RateLimiter`](crate::RateLimiter).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum IoPriority {
    /// Compaction.
    Low = 0,
    /// Not used by the engine; for users.
    Mid = 1,
    /// Flush.
    High = 2,
    /// A user waits for it; also background work while writes are delayed or stopped.
    User = 3,
}

impl IoPriority {
    /// How many there are.
    pub const COUNT: usize = 4;
    /// All of them, the least urgent first.
    pub const ALL: [IoPriority; 4] = [Self::Low, Self::Mid, Self::High, Self::User];
}
