//! `--test fuzz --seed N`: sequences of calls that a seed draws, on RocksDB's library and on ours,
//! which must print the same (`Fuzz.java`).
//!
//! Thread safety: one caller, one process at a time.

use std::path::Path;

use super::harness::{self, Way};
use super::{jars, output, own};

/// Calls of a sequence.
const CALLS: u64 = 1500;
/// Sequences without a seed, and those that are run with the project's own tests.
pub const SEEDS: std::ops::Range<u64> = 1..41;
pub const QUICK_SEEDS: std::ops::Range<u64> = 1..4;

/// Runs the sequences of these seeds.
pub fn run(root: &Path, seeds: std::ops::Range<u64>) -> Result<(), String> {
    let path = [jars::find(root, jars::NEWEST)?, harness::compile(root)?];
    let mut lines = 0;
    for seed in seeds.clone() {
        let mut printed = Vec::new();
        for way in [Way::Theirs, Way::Property] {
            // The same folder for both: it is in texts of errors.
            let work = harness::work(root, "fuzz")?;
            let mut command = way.java(root, &path)?;
            command
                .args(way.checks())
                .arg("Fuzz")
                .arg(&work)
                .arg(seed.to_string())
                .arg(CALLS.to_string());
            printed.push(output(&mut command).map_err(|e| format!("seed {seed}, {way:?}: {e}"))?);
        }
        if let Some(text) = own::difference(&printed[0], &printed[1]) {
            return Err(format!("--seed {seed}: DIFFERENT\n{text}"));
        }
        lines += printed[0].lines().count();
    }
    println!("jni: fuzz: seeds {seeds:?} of {CALLS} calls: {lines} lines, the same");
    Ok(())
}
