//! Seeds: which ones a suite runs, how much of a suite runs, and how a failure is replayed.
//!
//! A suite runs the seeds `0..count` of its own name; `PUMICE_SEED=N` in the environment makes it
//! run only that one, and `PUMICE_SEEDS=N` another number of them (`cargo xtask transactions`).
//! `PUMICE_TEST_SHARE=1/N` makes heavy suites run about an N-th of their cases: for runs on a
//! further backend, after a full one. A failure message carries [`replay_hint`].

/// Names the one seed to run.
pub const SEED_VARIABLE: &str = "PUMICE_SEED";
/// The number of seeds to run.
pub const COUNT_VARIABLE: &str = "PUMICE_SEEDS";
/// The variable with the share to run, as `1/8`.
pub const SHARE_VARIABLE: &str = "PUMICE_TEST_SHARE";
/// The variable with the runtime of the tests; `pumice_port::testing` reads it.
pub const RUNTIME_VARIABLE: &str = "PUMICE_RUNTIME";

/// The seed requested by the environment; None runs them all.
///
/// # Panics
/// The variable is not a number.
pub fn wanted() -> Option<u64> {
    number(SEED_VARIABLE)
}

/// One in this many cases is run; 1 runs them all.
///
/// # Panics
/// The variable is not a share.
pub fn one_in() -> u64 {
    let Ok(text) = std::env::var(SHARE_VARIABLE) else { return 1 };
    parse_share(&text).unwrap_or_else(|| panic!("{SHARE_VARIABLE}={text} is not like 1/8"))
}

fn parse_share(text: &str) -> Option<u64> {
    text.strip_prefix("1/")?.parse().ok().filter(|n| *n > 0)
}

/// The wanted share of `count`, rounded up.
pub fn share(count: u64) -> u64 {
    count.div_ceil(one_in())
}

/// The seeds that a suite of `count` runs: the wanted share of them, the wanted number or the
/// wanted one.
pub fn range(count: u64) -> std::ops::Range<u64> {
    match wanted() {
        Some(seed) => seed..seed + 1,
        None => 0..number(COUNT_VARIABLE).unwrap_or_else(|| share(count)),
    }
}

/// The number that the environment has under `name`.
///
/// # Panics
/// It is not a number.
pub fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

/// The command that repeats a failure.
pub fn replay_hint(test: &str, seed: u64) -> String {
    let mut command = format!("replay: {SEED_VARIABLE}={seed}");
    for name in [SHARE_VARIABLE, RUNTIME_VARIABLE] {
        if let Ok(value) = std::env::var(name) {
            command += &format!(" {name}={value}");
        }
    }
    format!("{command} cargo test -p pumice-tests {test}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_one_in_so_many() {
        assert_eq!((parse_share("1/8"), parse_share("1/1")), (Some(8), Some(1)));
        for wrong in ["1/0", "2/8", "8", "1/x", ""] {
            assert_eq!(parse_share(wrong), None, "{wrong}");
        }
        assert_eq!(share(17), 17u64.div_ceil(one_in()));
    }
}
