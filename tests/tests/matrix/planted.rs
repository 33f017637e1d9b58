//! The sample of the matrix against the bugs that are planted in tables.
//!
//! Turns on one bug after the other and runs the sample until a variant fails. What it cannot meet
//! is listed with the reason; a named test sees each of those (`crates/table/tests/mutation.rs`).
//! Needs `--cfg pumice_planted`; minutes long, so on demand and not in CI.

use pumice_base::planted::{self, Bug};

use super::{run_batch, sample};

/// Bugs that the sample does not meet, and why.
const NOT_MET: &[(Bug, &str)] = &[
    (Bug::SharedCutForgetsHash, "a key that is the prefix of the next must not have one itself"),
    (Bug::ForeignPrefixAsked, "both engines read with the extractor they write with"),
    (Bug::LegacyLinesOffByOne, "formats below 5 are not in the matrix"),
    (Bug::LastFilterPartitionMissed, "iterators of databases ask no filter on their way back"),
    (Bug::GlobalSeqnoNotCompared, "nothing is ingested"),
];

/// How many variants pass before one fails, and how.
fn hunt(bug: Bug) -> Option<(usize, String)> {
    planted::activate(Some(bug));
    let variants = sample::usual();
    let mut runs = variants.iter().enumerate();
    let found = runs.find_map(|(at, variant)| {
        // A panic of the engine is found, too.
        let run = std::panic::AssertUnwindSafe(|| run_batch(std::slice::from_ref(variant)));
        let result = std::panic::catch_unwind(run).unwrap_or_else(|_| Err("panic".to_string()));
        Some((at, result.err()?))
    });
    planted::activate(None);
    found
}

// Plain #[test]: there is one switch for the process; run alone.
#[test]
fn the_sample_finds_planted_bugs() {
    let others = [Bug::IndexSeekOffByOne, Bug::BlockSeekOffByOne];
    let mut wrong = Vec::new();
    for bug in Bug::IN_TABLES.iter().chain(&others) {
        let reason = NOT_MET.iter().find(|(known, _)| known == bug).map(|(_, reason)| *reason);
        match (hunt(*bug), reason) {
            (Some((at, error)), None) => {
                let told = error.split("panicked at").last().unwrap_or("");
                let told: Vec<&str> = told.lines().take(3).map(str::trim).collect();
                println!("{}: variant {}: {}", bug.name(), at + 1, told.join(" / "));
            }
            (None, Some(reason)) => println!("{}: not met, {reason}", bug.name()),
            (Some(_), Some(_)) => wrong.push(format!("{} is met", bug.name())),
            (None, None) => wrong.push(format!("{} is not found", bug.name())),
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}
