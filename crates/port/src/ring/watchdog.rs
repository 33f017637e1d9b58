//! Watches a waiting emitter, in debug builds: an emitter that will never be woken is a bug of the
//! protocol, and panics instead of hanging.
//!
//! Because the word records who holds a step, the verdict is exact for a ring with no helper left;
//! RocksDB's watchdog can only guess from the time. A step that takes very long is only reported: a
//! disk may be that slow. In a simulation there is no watchdog, since a run that is stuck ends by
//! itself there, and a timer would hide it; nor under loom. Thread safety: the emitter's own.

use super::state::State;

/// How often it looks.
const PERIOD_NANOS: u64 = 1_000_000_000;
/// Checks of an unchanged ring after which it reports that.
const TELL_EVERY: u32 = 70;

pub(super) struct Watchdog {
    last: State,
    unchanged: u32,
}

impl Watchdog {
    pub(super) fn new(state: State) -> Self {
        Watchdog { last: state, unchanged: 0 }
    }

    /// Until when the emitter may sleep before it calls `check`.
    #[cfg(not(loom))]
    pub(super) fn deadline(&self) -> Option<u64> {
        let on = cfg!(debug_assertions) && !crate::sim::is_running();
        on.then(|| crate::time::now_nanos() + PERIOD_NANOS)
    }
    #[cfg(loom)]
    pub(super) fn deadline(&self) -> Option<u64> {
        None
    }

    /// The emitter's wait timed out, and the ring is in `state`.
    ///
    /// # Panics
    /// When it waits and no helper holds a step: the last helper to leave should have woken it, in
    /// the same change of the word.
    pub(super) fn check(&mut self, state: State, slots: usize) {
        if !state.is_waiting() {
            return;
        }
        assert!(!state.should_wake(slots), "the emitter waits and was forgotten: {state}");
        self.unchanged = if state == self.last { self.unchanged + 1 } else { 0 };
        self.last = state;
        if self.unchanged > 0 && self.unchanged.is_multiple_of(TELL_EVERY) {
            let seconds = u64::from(self.unchanged) * PERIOD_NANOS / 1_000_000_000;
            eprintln!("pumice: a helper's step has not ended for {seconds} s: {state}");
        }
    }
}
