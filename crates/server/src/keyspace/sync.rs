//! Making writes durable for many callers with one sync.
//!
//! | state | a caller whose writes are not covered |
//! |---|---|
//! | nobody syncs | syncs; what was written when it began is covered |
//! | somebody syncs | waits for its end, then looks again |
//!
//! A failed sync is the failure of everybody it would have covered; the engine remembers it, and
//! the next sync fails, too.
//!
//! Thread safety: may be shared. Suspends.

use pumice_port::sync::{Condvar, Mutex};

use super::Outcome;

#[derive(Default)]
struct State {
    is_running: bool,
    /// Up to which write everything is durable.
    covered: u64,
    /// The last failure: up to which write, and what it was.
    failed: Option<(u64, pumice::Error)>,
}

/// See the module's head.
#[derive(Default)]
pub struct Syncs {
    state: Mutex<State>,
    ended: Condvar,
}

impl Syncs {
    /// Returns when everything is durable that `written` counts now.
    ///
    /// # Errors
    /// Of `sync`.
    pub fn run(
        &self,
        written: impl Fn() -> u64,
        sync: impl FnOnce() -> pumice::Result<()>,
    ) -> Outcome<()> {
        let mine = written();
        let mut state = self.state.lock();
        loop {
            if state.covered >= mine {
                return Ok(());
            }
            if let Some((upto, error)) = &state.failed
                && *upto >= mine
            {
                return Err(error.clone().into());
            }
            if !state.is_running {
                break;
            }
            state = self.ended.wait(state);
        }
        state.is_running = true;
        drop(state);
        let running = Running(self);
        // Those who arrive meanwhile have written before this point are covered, too.
        let upto = written();
        let result = sync();
        let mut state = self.state.lock();
        match &result {
            Ok(()) => state.covered = state.covered.max(upto),
            Err(error) => state.failed = Some((upto, error.clone())),
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
        self.0.state.lock().is_running = false;
        self.0.ended.notify_all();
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
        let panics = || syncs.run(|| 1, || std::panic::panic_any("planted"));
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert!(!syncs.state.lock().is_running);
        syncs.run(|| 1, || Ok(())).unwrap();
        assert_eq!(syncs.state.lock().covered, 1);
    }
}
