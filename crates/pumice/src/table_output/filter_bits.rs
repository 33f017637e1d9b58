//! How many bits of filter a key of a new table gets, with `filter_bits_by_level`.
//!
//! A get asks the filter of every sorted run that may hold its key, so that false positives add up
//! over the runs, and the bytes of filters over the keys. For `n` keys a filter of `b` bits a key
//! has a false-positive rate of about `exp(-b ln²2)`. With the sum of `n * b` given, the sum of
//! the rates is least where each is in proportion to the run's keys (Dayan, Athanassoulis, Idreos:
//! Monkey, SIGMOD 2017): a run of a tenth of the keys gets 4.8 bits more a key, and the largest
//! pays half a bit for all others.
//!
//! Bytes of tables stand for keys, which no file's metadata counts before the file was opened.
//!
//! Thread safety: functions of their arguments. It does not say which policy writes the filter.

use std::collections::BTreeSet;
use std::f64::consts::LN_2;

use pumice_base::FileNumber;
use pumice_filter::FilterPolicy;
use pumice_manifest::Version;

use crate::version::family::CfData;

/// Fewer bits than these make a filter that is asked in vain, more save nothing that shows.
const BITS_MIN: f64 = 2.0;
const BITS_MAX: f64 = 30.0;

/// The policy of a new table of `cf`, one of `runs`; None for that of the table options.
pub(crate) fn policy(cf: &CfData, runs: impl FnOnce() -> Runs) -> Option<FilterPolicy> {
    let settings = cf.settings();
    let policy = settings.table.filter_policy.filter(|_| settings.options.filter_bits_by_level)?;
    match policy.millibits_per_key() {
        0 => None,
        millibits => Some(policy.with_bits(runs().bits(f64::from(millibits) / 1000.0))),
    }
}

/// Sorted runs of a tree.
pub(crate) struct Runs {
    /// Bytes of the run that a new table belongs to.
    pub own: u64,
    /// Bytes of the others.
    pub others: Vec<u64>,
}

impl Runs {
    /// The runs once `inputs` of `version` have become `bytes` in `level`. Each file of L0 is a
    /// run, and each other level.
    pub fn after(
        version: &Version,
        inputs: &BTreeSet<FileNumber>,
        level: usize,
        bytes: u64,
    ) -> Self {
        let stays = |number: &FileNumber| !inputs.contains(number);
        let mut runs = Runs { own: bytes, others: Vec::new() };
        for of in 0..version.num_levels() {
            let files = version.files(of).iter().filter(|file| stays(&file.number));
            match of {
                0 => runs.others.extend(files.map(|file| file.file_size)),
                _ if of == level => runs.own += files.map(|file| file.file_size).sum::<u64>(),
                _ => runs.others.push(files.map(|file| file.file_size).sum()),
            }
        }
        runs
    }

    /// Bits a key where all runs together have `average`.
    fn bits(&self, average: f64) -> f64 {
        let weighed = |bytes: u64| {
            let bytes = bytes as f64;
            (bytes, bytes * bytes.max(1.0).ln())
        };
        let all = self.others.iter().chain([&self.own]).map(|bytes| weighed(*bytes));
        let (total, sum) = all.fold((0.0, 0.0), |(a, b), (x, y)| (a + x, b + y));
        if self.own == 0 {
            return average;
        }
        let more = (sum / total - (self.own as f64).ln()) / (LN_2 * LN_2);
        (average + more).clamp(average.min(BITS_MIN), average.max(BITS_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(own: u64, others: &[u64], average: f64) -> f64 {
        Runs { own, others: others.to_vec() }.bits(average)
    }

    /// Sum over the runs of false-positive rates, and bits of all keys.
    fn cost(runs: &[u64], of: impl Fn(usize) -> f64) -> (f64, f64) {
        let rate = |bits: f64| (-bits * LN_2 * LN_2).exp();
        let rates = (0..runs.len()).map(|i| rate(of(i))).sum();
        (rates, runs.iter().enumerate().map(|(i, n)| *n as f64 * of(i)).sum())
    }

    #[pumice_test_macros::test]
    fn one_run_and_equal_runs_get_the_average() {
        assert!((bits(1 << 30, &[], 10.0) - 10.0).abs() < 1e-9);
        assert!((bits(1 << 20, &[1 << 20, 1 << 20], 10.0) - 10.0).abs() < 1e-9);
        assert!((bits(1 << 30, &[0, 0], 10.0) - 10.0).abs() < 1e-9, "empty levels are no runs");
        assert!((bits(0, &[1 << 20], 10.0) - 10.0).abs() < 1e-9, "nothing is known of it");
    }

    #[pumice_test_macros::test]
    fn a_tree_of_four_levels_has_the_same_bytes_and_half_the_false_positives() {
        let runs = [64_u64 << 20, 640 << 20, 6400 << 20, 64000 << 20];
        let of = |i: usize| {
            let others: Vec<u64> = (0..4).filter(|j| *j != i).map(|j| runs[j]).collect();
            bits(runs[i], &others, 10.0)
        };
        assert!((of(2) - of(3) - 10f64.ln() / (LN_2 * LN_2)).abs() < 1e-9, "4.8 bits a level");
        let (even, even_bytes) = cost(&runs, |_| 10.0);
        let (by_level, bytes) = cost(&runs, of);
        assert!((bytes / even_bytes - 1.0).abs() < 1e-9, "{bytes} and {even_bytes}");
        assert!(by_level < 0.4 * even, "{by_level} and {even}");
        // Any other split of the same bytes is worse.
        for (from, to) in [(0, 3), (3, 0), (2, 3), (3, 2), (1, 2)] {
            let moved = |i: usize| {
                let share = runs[3] as f64 * 0.001 / runs[i] as f64;
                of(i)
                    + if i == to {
                        share
                    } else if i == from {
                        -share
                    } else {
                        0.0
                    }
            };
            let (rates, same) = cost(&runs, moved);
            assert!((same / bytes - 1.0).abs() < 1e-9 && rates > by_level, "{from} to {to}");
        }
    }

    #[pumice_test_macros::test]
    fn bits_stay_between_bounds_and_never_leave_the_average_there() {
        assert!((bits(1 << 10, &[1 << 50], 10.0) - BITS_MAX).abs() < 1e-9);
        let small = bits(1 << 40, &vec![1 << 39; 64], 2.5);
        assert!((small - BITS_MIN).abs() < 1e-9, "{small}");
        assert!((bits(1 << 40, &vec![1 << 39; 64], 1.0) - 1.0).abs() < 1e-9);
        assert!((bits(1 << 10, &[1 << 50], 50.0) - 50.0).abs() < 1e-9);
    }
}
