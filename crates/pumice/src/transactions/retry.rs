//! A transaction that is repeated as a whole when others were in its way.
//!
//! Thread safety: from any task; it sleeps between attempts, and so suspends.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pumice_base::random::Rng;
use pumice_base::{Error, Result};
use pumice_port::thread;

use crate::transactions::options::RetryOptions;
use crate::transactions::transaction::Transaction;

/// The whole may succeed if it is repeated.
fn is_worth_repeating(error: &Error) -> bool {
    error.is_busy() || error.is_try_again() || error.is_deadlock()
}

/// Runs `body` in a transaction of `begin` and commits it; again if that helps. `runs` counts the
/// runs of the database, so that two that were in each other's way do not wait equally long.
pub(super) fn run<T>(
    retry: &RetryOptions,
    runs: &AtomicU64,
    begin: impl Fn() -> Transaction,
    mut body: impl FnMut(&Transaction) -> Result<T>,
) -> Result<T> {
    let mut random: Option<Rng> = None;
    let mut most = retry.first_delay_micros;
    let mut attempt = 1;
    loop {
        let transaction = begin();
        let result = body(&transaction).and_then(|answer| {
            transaction.commit()?;
            Ok(answer)
        });
        // Its locks are released before the pause.
        drop(transaction);
        match result {
            Err(error) if is_worth_repeating(&error) && attempt < retry.attempts_max => {}
            result => return result,
        }
        let random = random.get_or_insert_with(|| Rng::new(runs.fetch_add(1, Ordering::Relaxed)));
        let pause = random.uniform(most.min(retry.delay_micros_max).saturating_add(1));
        thread::sleep(Duration::from_micros(pause));
        most = most.saturating_mul(2).min(retry.delay_micros_max);
        attempt += 1;
    }
}
