//! The clock of deadlines. Under loom there is no time: every deadline has passed.

/// Monotonic nanoseconds, virtual in a simulation: what deadlines are counted in.
#[cfg(not(loom))]
#[inline]
pub(crate) fn now_nanos() -> u64 {
    crate::time::now_nanos()
}

/// The machine's own monotonic nanoseconds, by which a thread sleeps.
#[cfg(not(loom))]
#[inline]
pub(crate) fn monotonic_nanos() -> u64 {
    crate::time::monotonic_nanos()
}

#[cfg(loom)]
pub(crate) use loom_clock::{monotonic_nanos, now_nanos};

#[cfg(loom)]
mod loom_clock {
    pub(crate) fn now_nanos() -> u64 {
        u64::MAX
    }
    pub(crate) fn monotonic_nanos() -> u64 {
        u64::MAX
    }
}

/// The deadline `limit` from now; the end of time when that is out of range.
pub(crate) fn deadline(limit: std::time::Duration) -> u64 {
    let nanos = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
    now_nanos().saturating_add(nanos)
}
