//! The summary of all tables: a line for each, above the sections.
//!
//! Only arms of Pumice with a counterpart of RocksDB count; means of ratios are geometric. Thread
//! safety: pure functions.

use super::data::Data;
use super::plan::{Column, Plan, Section, Table};
use super::words::{self, Against};

/// A table in one line.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The table's section.
    pub section: Section,
    /// The table's title.
    pub title: String,
    /// What its first ratio is of.
    pub measure: &'static str,
    /// The name of that value in the data.
    pub value: &'static str,
    /// That ratio.
    pub first: Means,
    /// The ratio of the CPU, where the table has it.
    pub cpu: Option<Means>,
}

/// Ratios of one value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Means {
    /// How many.
    pub count: usize,
    /// The geometric mean of the ratios.
    pub mean: f64,
    /// How many are losses.
    pub losses: usize,
}

impl Means {
    fn of(found: &[Against], value: &str) -> Option<Means> {
        let beside = || found.iter().filter(|one| one.peer.contains("RocksDB"));
        let count = beside().count();
        let logs: f64 = beside().map(|one| one.ratio.median.ln()).sum();
        let losses = beside().filter(|one| words::is_loss(value, one.ratio.median)).count();
        (count > 0).then(|| Means { count, mean: (logs / count as f64).exp(), losses })
    }
}

/// The lines of all tables that were run against RocksDB.
pub fn of(plan: &Plan, data: &Data) -> Vec<Line> {
    let line = |table: &Table| {
        let means = |column: &Column| {
            Means::of(&words::against(table, data, "", column.value), column.value)
        };
        let (measure, rest) = table.ratios.split_first()?;
        Some(Line {
            section: table.section,
            title: table.title.clone(),
            measure: measure.title,
            value: measure.value,
            first: means(measure)?,
            cpu: rest.iter().find(|column| column.value.contains("cpu")).and_then(means),
        })
    };
    plan.tables.iter().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::report::data::Summary;

    // Plain #[test]: nothing here can wait.
    #[test]
    fn means_are_geometric_and_of_rocksdb_alone() {
        let found = |peer: &str, ratio| Against {
            row: "row".into(),
            arm: "Pumice".into(),
            peer: peer.into(),
            ratio: Summary::of(&[ratio]).unwrap(),
        };
        let all = [
            found("RocksDB", 4.0),
            found("RocksDB, 4 threads", 0.25),
            found("redis-server", 100.0),
        ];
        let means = Means::of(&all, "ops_per_sec").unwrap();
        assert_eq!((means.count, means.losses), (2, 1));
        assert!((means.mean - 1.0).abs() < 1e-9, "{means:?}");
        assert_eq!(Means::of(&all, "process_cpu_s").unwrap().losses, 1);
        assert_eq!(Means::of(&all[2..], "ops_per_sec"), None);
    }
}
