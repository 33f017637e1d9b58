//! How much a task collects.
//!
//! Thread safety: values.

/// How much a task collects; each level adds to the one before.
///
/// Example: that of [`PerfContext`](super::PerfContext).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum PerfLevel {
    /// RocksDB's `kUninitialized`; as `Disable`.
    Uninitialized = 0,
    /// Nothing.
    #[default]
    Disable = 1,
    /// Counts and bytes.
    EnableCount = 2,
    /// Also how long writes waited for the engine.
    EnableWait = 3,
    /// Also other times, without those below.
    EnableTimeExceptForMutex = 4,
    /// Also times of the processor.
    EnableTimeAndCpuTimeExceptForMutex = 5,
    /// Also the time spent waiting for mutexes.
    EnableTime = 6,
}

impl PerfLevel {
    /// The level with RocksDB's number, 0 to 6.
    pub fn from_number(number: u8) -> Option<Self> {
        use PerfLevel::*;
        let levels = [
            Uninitialized,
            Disable,
            EnableCount,
            EnableWait,
            EnableTimeExceptForMutex,
            EnableTimeAndCpuTimeExceptForMutex,
            EnableTime,
        ];
        levels.get(usize::from(number)).copied()
    }
}
