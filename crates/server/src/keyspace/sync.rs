//! Making writes durable for many callers with one sync.
//!
//! | state | a caller whose writes are not covered |
//! |---|---|
//! | no sync runs | syncs; what was written when it began is covered |
//! | a sync runs | waits for its end, then looks again |
//!
//! A failed sync fails for its leader and for the waiters that it would have covered. Later
//! callers try again: the engine remembers the failure and fails those too, until it has recovered;
//! then everything that can be read is durable, also what the failed sync would have covered.
//!
//! Before it syncs, a caller lets others run that are about to write, since every write that comes
//! after the sync has begun must wait for the next one. On a fiber this pause ends when its loop
//! has nothing else to do, or after [`SYNC_DELAY_NANOS_MAX`].
//!
//! A covered caller continues without the lock: a sync of a thousand writes wakes a thousand tasks,
//! and each would have to hand the lock to the next.
//!
//! Invariant: `covered` and `ended` change under the lock only, and the tasks in `waiting` are
//! woken after `ended` has grown.
//!
//! Thread safety: may be shared. Suspends.

use std::sync::atomic::{AtomicU64, Ordering};

use pumice_port::fiber;
use pumice_port::sync::Mutex;
use pumice_port::task::{self, TaskRef, WaitReason};

use super::Outcome;

/// A busy loop may never become idle.
const SYNC_DELAY_NANOS_MAX: u64 = 4_000_000;

static SYNC: WaitReason = WaitReason("sync of the log");

#[derive(Default)]
struct State {
    is_running: bool,
    /// The last failure.
    failed: Option<Failed>,
    /// The tasks that wait for the running sync.
    waiting: Vec<TaskRef>,
}

/// A sync that failed.
struct Failed {
    /// How many had ended before.
    number: u64,
    /// The last write it would have covered.
    upto: u64,
    error: pumice::Error,
}

/// See the module's head.
#[derive(Default)]
pub struct Syncs {
    state: Mutex<State>,
    /// All writes up to this one are durable.
    covered: AtomicU64,
    /// Syncs that are over.
    ended: AtomicU64,
}

impl Syncs {
    /// Returns once every write up to `mine`, as `written` counts them, is durable.
    ///
    /// # Errors
    /// The errors of `sync`.
    pub fn run(
        &self,
        mine: u64,
        written: impl Fn() -> u64,
        sync: impl FnOnce() -> pumice::Result<()>,
    ) -> Outcome<()> {
        while !self.is_covered(mine) {
            let mut state = self.state.lock();
            if self.is_covered(mine) {
                break;
            }
            if !state.is_running {
                state.is_running = true;
                drop(state);
                return self.lead(written, sync);
            }
            let before = self.ended.load(Ordering::Relaxed);
            state.waiting.push(task::current());
            drop(state);
            while self.ended.load(Ordering::Acquire) == before {
                task::park(&SYNC);
            }
            if !self.is_covered(mine) {
                self.check_waited_for(before, mine)?;
            }
        }
        Ok(())
    }

    /// The failure of the sync with this number, if it would have covered this write.
    fn check_waited_for(&self, number: u64, mine: u64) -> Outcome<()> {
        match &self.state.lock().failed {
            Some(failed) if failed.number == number && failed.upto >= mine => {
                Err(failed.error.clone().into())
            }
            _ => Ok(()),
        }
    }

    #[inline]
    fn is_covered(&self, write: u64) -> bool {
        self.covered.load(Ordering::Acquire) >= write
    }

    /// Syncs for all that has been written; no other sync runs.
    fn lead(
        &self,
        written: impl Fn() -> u64,
        sync: impl FnOnce() -> pumice::Result<()>,
    ) -> Outcome<()> {
        let running = Running(self);
        fiber::wait_until_idle(SYNC_DELAY_NANOS_MAX);
        // Tasks that have arrived meanwhile and written before this point are covered too.
        let upto = written();
        let result = sync();
        let mut state = self.state.lock();
        match &result {
            Ok(()) => {
                self.covered.fetch_max(upto, Ordering::Release);
            }
            Err(error) => {
                let number = self.ended.load(Ordering::Relaxed);
                state.failed = Some(Failed { number, upto, error: error.clone() });
            }
        }
        drop(state);
        drop(running);
        Ok(result?)
    }
}

/// A sync that runs, until it ends or panics.
struct Running<'s>(&'s Syncs);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.is_running = false;
        self.0.ended.fetch_add(1, Ordering::Release);
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        task::unpark_all(waiting);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[pumice_test_macros::test]
    fn a_sync_that_panics_holds_nobody_up() {
        let syncs = Syncs::default();
        let panics = || syncs.run(1, || 1, || std::panic::panic_any("planted"));
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert!(!syncs.state.lock().is_running);
        syncs.run(1, || 1, || Ok(())).unwrap();
        assert!(syncs.is_covered(1));
    }
}
