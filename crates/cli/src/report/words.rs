//! Sentences that describe a plot, computed from the data, even if Pumice loses.
//!
//! Thread safety: pure functions.

use super::data::{Data, Summary};
use super::plan::{Column, Engine, Row, Table};

/// More of it is better; of everything else less is.
pub fn more_is_better(value: &str) -> bool {
    matches!(value, "ops_per_sec" | "jobs_per_sec" | "mb_per_sec" | "worst")
}

/// A ratio to the peer is a loss.
pub fn is_loss(value: &str, ratio: f64) -> bool {
    // Rounded as it is shown: 1.00 is not a loss.
    let shown = (ratio * 100.0).round();
    if more_is_better(value) { shown < 100.0 } else { shown > 100.0 }
}

/// One ratio of an arm of ours to its peer.
#[derive(Clone, Debug, PartialEq)]
pub struct Against {
    /// The row.
    pub row: String,
    /// Our arm.
    pub arm: String,
    /// The other arm.
    pub peer: String,
    /// Ours over the other's.
    pub ratio: Summary,
}

/// All ratios of a value in rows whose names begin with `prefix`.
pub fn against(table: &Table, data: &Data, prefix: &str, value: &str) -> Vec<Against> {
    let rows = table.rows.iter().filter(|row| row.name.starts_with(prefix));
    rows.flat_map(|row| row_against(table, data, row, value)).collect()
}

/// The ratios of one arm to another that is not its peer.
pub fn between(
    table: &Table,
    data: &Data,
    prefix: &str,
    (arm, other): (&str, &str),
    value: &str,
) -> Vec<Against> {
    let rows = table.rows.iter().filter(|row| row.name.starts_with(prefix));
    let of = |row: &Row| {
        let id =
            |name: &str| row.arms.iter().find(|arm| arm.name == name).map(|arm| table.id(row, arm));
        let ratio = data.ratio(&id(arm)?, &id(other)?, value)?;
        Some(Against {
            row: row.name.clone(),
            arm: arm.to_string(),
            peer: other.to_string(),
            ratio,
        })
    };
    rows.filter_map(of).collect()
}

fn row_against(table: &Table, data: &Data, row: &Row, value: &str) -> Vec<Against> {
    let ours = row.arms.iter().filter(|arm| arm.work.engine() == Engine::Pumice);
    let of = |arm: &super::plan::Arm| {
        let peer = row.arms.iter().find(|other| Some(&other.name) == arm.peer.as_ref())?;
        let ratio = data.ratio(&table.id(row, arm), &table.id(row, peer), value)?;
        Some(Against {
            row: row.name.clone(),
            arm: arm.name.clone(),
            peer: peer.name.clone(),
            ratio,
        })
    };
    ours.filter_map(of).collect()
}

/// `1.3`, or `1.3 to 2.4`.
fn span(least: f64, most: f64) -> String {
    let (least, most) = (format!("{least:.2}"), format!("{most:.2}"));
    if least == most { least } else { format!("{least} to {most}") }
}

/// Describes the ratios of one value, arm by arm.
pub fn compare(found: &[Against], column: &Column) -> Option<String> {
    let mut arms: Vec<&str> = Vec::new();
    for one in found {
        if !arms.contains(&one.arm.as_str()) {
            arms.push(&one.arm);
        }
    }
    // What the ratio compares is stated where it changes.
    let mut peer = "";
    let mut sentences = Vec::new();
    for arm in arms {
        let of: Vec<&Against> = found.iter().filter(|one| one.arm == arm).collect();
        let whose = match of[0].peer.as_str() {
            same if same == peer => String::new(),
            other => format!(" the {} of {other}", column.title),
        };
        peer = &of[0].peer;
        sentences.push(compare_arm(&of, column.value, &whose));
    }
    if sentences.is_empty() { None } else { Some(format!("{}.", sentences.join("; "))) }
}

fn compare_arm(found: &[&Against], value: &str, whose: &str) -> String {
    let ratios = found.iter().map(|one| one.ratio.median);
    let (least, most) = ratios.fold((f64::MAX, f64::MIN), |(l, m), r| (l.min(r), m.max(r)));
    let mut losses: Vec<&&Against> =
        found.iter().filter(|one| is_loss(value, one.ratio.median)).collect();
    let head = format!("{}: {} times{whose}", found[0].arm, span(least, most));
    if losses.is_empty() {
        return head;
    }
    let gap = |one: &Against| one.ratio.median.ln().abs();
    losses.sort_by(|a, b| gap(b).total_cmp(&gap(a)));
    let named = losses.iter().take(3).map(|one| format!("{}: {:.2}", one.row, one.ratio.median));
    let named: Vec<String> = named.collect();
    let more = if losses.len() > 3 { ", .." } else { "" };
    format!("{head}, LOSES in {} of {} ({}{more})", losses.len(), found.len(), named.join(", "))
}

/// How an arm's value changes from the first row that begins with `prefix` to the others.
pub fn scaling(table: &Table, data: &Data, prefix: &str, arms: &[&str]) -> Option<String> {
    let rows: Vec<&Row> = table.rows.iter().filter(|row| row.name.starts_with(prefix)).collect();
    let first = rows.first()?;
    let base = first.arms.iter().find(|arm| arm.name == "Pumice")?;
    let last = rows.last()?;
    let one = |name: &&str| {
        let arm = last.arms.iter().find(|arm| arm.name == *name)?;
        let start = first.arms.iter().find(|other| other.name == *name).unwrap_or(base);
        let ratio = |value: &str| data.ratio(&table.id(last, arm), &table.id(first, start), value);
        let (rate, cpu) = (ratio("ops_per_sec")?, ratio("process_cpu_s")?);
        Some(format!(
            "{name} {:.2} times the throughput for {:.2} times the CPU",
            rate.median, cpu.median
        ))
    };
    let sentences: Vec<String> = arms.iter().filter_map(one).collect();
    let threads = last.x;
    (!sentences.is_empty())
        .then(|| format!("From 1 to {threads} threads: {}.", sentences.join("; ")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::report::plan::{CPU, RATE};

    fn found(arm: &str, row: &str, ratio: f64) -> Against {
        Against {
            row: row.into(),
            arm: arm.into(),
            peer: "RocksDB".into(),
            ratio: Summary::of(&[ratio]).unwrap(),
        }
    }

    // Plain #[test]: nothing in these tests can wait.
    #[test]
    fn a_win_and_a_loss_are_both_named() {
        let all = [found("Pumice", "a", 1.5), found("Pumice", "b", 2.0)];
        let text = compare(&all, &RATE).unwrap();
        assert_eq!(text, "Pumice: 1.50 to 2.00 times the ops/s of RocksDB.");
        let all = [found("Pumice", "a", 1.5), found("Pumice", "b", 0.8), found("fibers", "a", 0.5)];
        assert_eq!(
            compare(&all, &RATE).unwrap(),
            "Pumice: 0.80 to 1.50 times the ops/s of RocksDB, LOSES in 1 of 2 (b: 0.80); fibers: \
             0.50 times, LOSES in 1 of 1 (a: 0.50)."
        );
        // Of CPU less is better.
        assert!(!compare(&[found("Pumice", "a", 0.5)], &CPU).unwrap().contains("LOSES"));
        assert!(compare(&[found("Pumice", "a", 1.2)], &CPU).unwrap().contains("LOSES"));
        assert_eq!(compare(&[], &CPU), None);
    }
}
