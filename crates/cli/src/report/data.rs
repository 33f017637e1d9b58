//! Runs, and statistics over them: medians, spreads, intervals, ratios, noise.
//!
//! A [`Run`] is one execution of one arm of a row in one round. Runs of a round were made one after
//! the other, so ratios are taken round by round. No run is left out, and the best of several is
//! never used.
//!
//! Thread safety: plain data.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A spread (most minus least, over the median) above which a figure is marked as noisy.
pub const NOISE: f64 = 0.25;

/// One execution.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Which arm of which row of which table: `core/fillseq/RocksDB`.
    pub id: String,
    /// The round, from 0.
    pub round: u32,
    /// The command, with `MEMORY`, `DISK` and `LIBRARY` for folders and the library.
    pub command: String,
    /// What the program and, in RocksDB's rows, the library were.
    pub build: String,
    /// When it ended, in seconds since 1970.
    pub at: u64,
    /// What was measured, by name; all are numbers, as JSON knows them.
    pub values: BTreeMap<String, f64>,
    /// What was measured over time: names of columns, and rows.
    #[serde(default, skip_serializing_if = "Series::is_empty")]
    pub series: Series,
}

/// Columns over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Names.
    pub columns: Vec<String>,
    /// A row each.
    pub rows: Vec<Vec<f64>>,
}

impl Series {
    fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The places of two columns, as points.
    pub fn points(&self, x: &str, y: &str) -> Vec<(f64, f64)> {
        let place = |name: &str| self.columns.iter().position(|column| column == name);
        let (Some(x), Some(y)) = (place(x), place(y)) else { return Vec::new() };
        self.rows.iter().filter_map(|row| Some((*row.get(x)?, *row.get(y)?))).collect()
    }

    /// A CSV text of numbers below a line of names; what is not a number becomes 0.
    pub fn of_csv(text: &str) -> Series {
        let mut lines = text.lines();
        let columns = lines.next().unwrap_or_default().split(',').map(str::to_string).collect();
        let row = |line: &str| line.split(',').map(|cell| cell.parse().unwrap_or(0.0)).collect();
        Series { columns, rows: lines.map(row).collect() }
    }
}

impl Run {
    /// Drops values that are not finite, which JSON cannot hold; in the series they become 0.
    pub fn keep_numbers(&mut self) {
        self.values.retain(|_, value| value.is_finite());
        for cell in self.series.rows.iter_mut().flatten().filter(|cell| !cell.is_finite()) {
            *cell = 0.0;
        }
    }
}

/// A number of several runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// How many.
    pub count: usize,
    /// The median.
    pub median: f64,
    /// The least.
    pub low: f64,
    /// The most.
    pub high: f64,
    /// Half of the 95 % confidence interval of the mean, by Student's t; 0 for a single run.
    pub half_interval: f64,
}

impl Summary {
    /// Of these values; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Summary> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        let (low, high) = (*sorted.first()?, *sorted.last()?);
        let median = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2.0;
        let mean = sorted.iter().sum::<f64>() / count as f64;
        let half_interval = match count {
            1 => 0.0,
            _ => {
                let squares: f64 = sorted.iter().map(|v| (v - mean) * (v - mean)).sum();
                let error = (squares / (count - 1) as f64 / count as f64).sqrt();
                student(count - 1) * error
            }
        };
        Some(Summary { count, median, low, high, half_interval })
    }

    /// The runs differ too much for a single figure.
    pub fn is_noisy(&self) -> bool {
        self.count > 1 && self.high - self.low > NOISE * self.median.abs()
    }
}

/// Student's t for 95 %, two-sided, by degrees of freedom.
fn student(freedom: usize) -> f64 {
    const T: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    T.get(freedom.saturating_sub(1)).copied().unwrap_or(2.0)
}

/// All runs of a report.
#[derive(Clone, Debug, Default)]
pub struct Data {
    runs: BTreeMap<String, BTreeMap<u32, Run>>,
}

impl Data {
    /// Adds a run; one of the same arm and round is replaced.
    pub fn add(&mut self, run: Run) {
        self.runs.entry(run.id.clone()).or_default().insert(run.round, run);
    }

    /// That run.
    pub fn run(&self, id: &str, round: u32) -> Option<&Run> {
        self.runs.get(id)?.get(&round)
    }

    /// Runs of an arm, by round.
    pub fn runs(&self, id: &str) -> impl Iterator<Item = &Run> {
        self.runs.get(id).into_iter().flat_map(BTreeMap::values)
    }

    /// All runs.
    pub fn all(&self) -> impl Iterator<Item = &Run> {
        self.runs.values().flat_map(BTreeMap::values)
    }

    /// A value of an arm over its rounds.
    pub fn summary(&self, id: &str, value: &str) -> Option<Summary> {
        let values: Vec<f64> =
            self.runs(id).filter_map(|run| run.values.get(value).copied()).collect();
        Summary::of(&values)
    }

    /// A value of one arm over that of another, round by round.
    pub fn ratio(&self, id: &str, other: &str, value: &str) -> Option<Summary> {
        let ratio = |run: &Run| {
            let below = self.run(other, run.round)?.values.get(value)?;
            (*below > 0.0).then_some(run.values.get(value)? / below)
        };
        Summary::of(&self.runs(id).filter_map(ratio).collect::<Vec<f64>>())
    }

    /// A line for each value of each run.
    pub fn csv(&self) -> String {
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let mut out = String::from("id,round,value,number,command\n");
        for run in self.all() {
            for (name, number) in &run.values {
                let (id, command) = (quoted(&run.id), quoted(&run.command));
                out.push_str(&format!("{id},{},{name},{number},{command}\n", run.round));
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn run(id: &str, round: u32, rate: f64) -> Run {
        let values = BTreeMap::from([("rate".to_string(), rate)]);
        Run { id: id.into(), round, command: "a \"b\"".into(), values, ..Run::default() }
    }

    // Plain #[test]: nothing in these tests can wait.
    #[test]
    fn a_summary_is_the_median_with_its_spread() {
        let summary = Summary::of(&[3.0, 1.0, 2.0, 10.0]).unwrap();
        assert_eq!((summary.count, summary.median, summary.low, summary.high), (4, 2.5, 1.0, 10.0));
        // Mean 4, standard deviation 4.0825, error 2.0412, t 3.182.
        assert!((summary.half_interval - 6.495).abs() < 0.01, "{summary:?}");
        assert!(summary.is_noisy());
        assert!(!Summary::of(&[100.0, 110.0]).unwrap().is_noisy());
        assert!(!Summary::of(&[1.0]).unwrap().is_noisy());
        assert_eq!(Summary::of(&[f64::NAN]), None);
    }

    // Plain #[test]: see above.
    #[test]
    fn ratios_are_taken_round_by_round() {
        let mut data = Data::default();
        for (round, ours, theirs) in [(0, 20.0, 10.0), (1, 60.0, 20.0), (2, 9.0, 0.0)] {
            data.add(run("x/Pumice", round, ours));
            data.add(run("x/RocksDB", round, theirs));
        }
        let ratio = data.ratio("x/Pumice", "x/RocksDB", "rate").unwrap();
        assert_eq!((ratio.count, ratio.low, ratio.high, ratio.median), (2, 2.0, 3.0, 2.5));
        assert_eq!(data.ratio("x/Pumice", "y", "rate"), None);
        assert_eq!(data.summary("x/Pumice", "rate").unwrap().median, 20.0);
        let csv = data.csv();
        assert_eq!(csv.lines().count(), 7);
        assert!(csv.contains("\"x/Pumice\",1,rate,60,\"a \"\"b\"\"\"\n"), "{csv}");
    }

    // Plain #[test]: see above.
    #[test]
    fn a_run_comes_back_from_the_journal() {
        let mut one = run("a/b", 2, 1.5);
        one.series = Series::of_csv("seconds,l0\n0.5,3\n1.0,x\n");
        assert_eq!(one.series.points("seconds", "l0"), [(0.5, 3.0), (1.0, 0.0)]);
        one.values.insert("wild".to_string(), f64::NAN);
        one.series.rows[0][1] = f64::INFINITY;
        one.keep_numbers();
        assert_eq!((one.values.len(), one.series.rows[0][1]), (1, 0.0));
        let line = serde_json::to_string(&one).unwrap();
        assert_eq!(serde_json::from_str::<Run>(&line).unwrap(), one);
        for end in 0..line.len() {
            assert!(serde_json::from_str::<Run>(&line[..end]).is_err());
        }
    }
}
