//! Seeds: which ones a suite runs, and how a failure is replayed.
//!
//! A suite runs the seeds `0..count` of its own name; `PUMICE_SEED=N` in the environment makes it
//! run that one alone. A failure message carries [`replay_hint`].

/// Names the one seed to run.
pub const SEED_VARIABLE: &str = "PUMICE_SEED";

/// The seed that the environment asks for; None runs them all.
///
/// # Panics
/// The variable is set to something that is no number.
pub fn wanted() -> Option<u64> {
    let text = std::env::var(SEED_VARIABLE).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{SEED_VARIABLE}={text} is no number")))
}

/// The seeds that a suite of `count` runs: all of them, or the wanted one.
pub fn range(count: u64) -> std::ops::Range<u64> {
    match wanted() {
        Some(seed) => seed..seed + 1,
        None => 0..count,
    }
}

/// The command that repeats a failure.
pub fn replay_hint(test: &str, seed: u64) -> String {
    format!("replay: {SEED_VARIABLE}={seed} cargo test -p pumice-tests {test}")
}
