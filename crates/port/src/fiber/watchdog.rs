//! Finds stalled loops: a fiber computes without yielding or blocks the thread.
//!
//! A thread per runtime that asked for it checks the loops four times per limit. Each loop is
//! reported once per incident; a loop that sleeps because it has nothing to do is not one.
//!
//! Thread safety: the hook is called on the watchdog's thread. It does not interrupt anything.

use super::event_loop::Loop;
use crate::sync::Event;
use crate::time;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A loop that has not turned for the limit.
///
/// Example: that of [`Builder`](super::Builder).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stall {
    /// Which of the runtime's loops.
    pub loop_index: usize,
    /// The fiber that runs there; empty when the loop itself is at work.
    pub fiber: String,
    /// For how long nothing has moved, in nanoseconds.
    pub nanos: u64,
}

/// Receiver of stalls.
#[derive(Clone)]
pub(crate) struct Hook(pub(crate) Arc<dyn Fn(&Stall) + Send + Sync>);

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

/// A loop counts as stalled after this time.
pub(crate) const LIMIT: Duration = Duration::from_millis(100);

/// What was seen of one loop.
#[derive(Clone, Copy, Default)]
struct Seen {
    turns: u64,
    since: u64,
    reported: bool,
}

/// Looks at the loops until `stop` is set.
pub(crate) fn watch(loops: &[&'static Loop], limit: Duration, hook: &Hook, stop: &Event) {
    let mut seen = vec![Seen::default(); loops.len()];
    while !stop.wait_timeout(limit / 4) {
        let now = time::monotonic_nanos();
        for (index, (each, seen)) in loops.iter().zip(&mut seen).enumerate() {
            let turns = each.counters.turns.load(Ordering::Relaxed);
            if each.sleeps() || turns != seen.turns {
                *seen = Seen { turns, since: now, reported: false };
                continue;
            }
            let nanos = now - seen.since;
            if nanos >= limit.as_nanos() as u64 && !seen.reported {
                seen.reported = true;
                let fiber = each.running_slot().map_or(String::new(), |slot| slot.name.text());
                (hook.0)(&Stall { loop_index: index, fiber, nanos });
            }
        }
    }
}
