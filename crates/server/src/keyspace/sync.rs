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
        // Those who arrive meanwhile have written before this point are covered, too.
        let upto = written();
        let result = sync();
        let mut state = self.state.lock();
        state.is_running = false;
        match &result {
            Ok(()) => state.covered = state.covered.max(upto),
            Err(error) => state.failed = Some((upto, error.clone())),
        }
        drop(state);
        self.ended.notify_all();
        Ok(result?)
    }
}
