//! RocksDB's counters of the calling thread's operations.
//!
//! Thread safety: the counters are the thread's own, so a [`PerfContext`] stays on the thread that
//! made it. Invariants: the crate's.

use std::marker::PhantomData;

use crate::Peer;
use crate::api::Object;

/// RocksDB's levels: nothing is counted, events are counted and nothing is timed.
const LEVEL_OFF: i32 = 1;
const LEVEL_COUNTS: i32 = 2;

/// Counts events on this thread while it exists.
pub struct PerfContext {
    peer: Peer,
    raw: Object,
    _of_this_thread: PhantomData<*const ()>,
}

impl PerfContext {
    /// Starts counting at zero.
    pub fn new(peer: &Peer) -> Self {
        // SAFETY: plain constructor; the level is the thread's own.
        let raw = unsafe {
            (peer.api.set_perf_level)(LEVEL_COUNTS);
            (peer.api.perfcontext_create)()
        };
        let context = PerfContext { peer: peer.clone(), raw, _of_this_thread: PhantomData };
        context.reset();
        context
    }

    /// Starts again at zero.
    pub fn reset(&self) {
        // SAFETY: live object, on its thread.
        unsafe { (self.peer.api.perfcontext_reset)(self.raw) }
    }

    /// All counters, `name = value` with commas between them.
    pub fn report(&self, exclude_zero: bool) -> String {
        // SAFETY: live object, on its thread; the text is handed over to us.
        let text = unsafe { (self.peer.api.perfcontext_report)(self.raw, exclude_zero.into()) };
        self.peer.take_string(text)
    }

    /// How often the event `name` happened, for example `user_key_comparison_count`; `None` if
    /// RocksDB has no such counter.
    pub fn count(&self, name: &str) -> Option<u64> {
        let text = self.report(false);
        let mut pairs = text.split(", ").filter_map(|pair| pair.split_once(" = "));
        pairs.find(|(found, _)| *found == name).and_then(|(_, count)| count.trim().parse().ok())
    }
}

impl Drop for PerfContext {
    fn drop(&mut self) {
        // SAFETY: crate invariant 1; the level is the thread's own.
        unsafe {
            (self.peer.api.perfcontext_destroy)(self.raw);
            (self.peer.api.set_perf_level)(LEVEL_OFF);
        }
    }
}
