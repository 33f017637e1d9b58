//! `--bench` and `--bench crossing`: what calls cost through the classes, with RocksDB's library
//! and with ours, in turns. It reports and does not judge.
//!
//! Thread safety: one caller, one process at a time. Figures are worth what the machine is quiet.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::harness::{self, Way};
use super::{execute, jars, output, suites};
use crate::suite::target;

/// Runs of each library; the median is told.
const ROUNDS: usize = 3;
/// Keys of a database, and calls that are measured.
const SIZES: [&str; 2] = ["200000", "200000"];

/// Calls per second, CPU nanoseconds and bytes of the Java heap per call.
type Figures = [u64; 3];
/// By the name of a measurement.
type Table = BTreeMap<String, Vec<Figures>>;

fn add(table: &mut Table, text: &str) -> Result<(), String> {
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let numbers: Vec<u64> = words.iter().skip(1).filter_map(|word| word.parse().ok()).collect();
        let figures = Figures::try_from(numbers).map_err(|_| format!("no figures: {line}"))?;
        table.entry(words[0].to_string()).or_default().push(figures);
    }
    Ok(())
}

fn median(runs: &[Figures], column: usize) -> u64 {
    let mut numbers: Vec<u64> = runs.iter().map(|run| run[column]).collect();
    numbers.sort_unstable();
    numbers.get(numbers.len() / 2).copied().unwrap_or(0)
}

/// Runs a program in turns with both libraries.
fn turns(root: &Path, path: &[PathBuf], class: &str) -> Result<[Table; 2], String> {
    let mut tables = [Table::new(), Table::new()];
    for _ in 0..ROUNDS {
        for (table, way) in tables.iter_mut().zip([Way::Theirs, Way::Property]) {
            let work = harness::work(root, "bench")?;
            let mut command = way.optimised(root, path)?;
            add(table, &output(command.args(["-Xmx1g", class]).arg(&work).args(SIZES))?)?;
        }
    }
    Ok(tables)
}

/// `--bench`: the classes alone, and Kafka Streams' store.
pub fn run(root: &Path) -> Result<(), String> {
    let harness = harness::compile(root)?;
    let path = [jars::find(root, jars::NEWEST)?, harness.clone()];
    println!("jni: bench: median of {ROUNDS}, in turns: RocksDB's library, ours, ratio");
    print(&turns(root, &path, "Bench")?);
    let folder = target(root).join("jni/kafka");
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let kafka = suites::class_path(root, "kafka", &folder)?;
    let mut path: Vec<PathBuf> = std::env::split_paths(&kafka).collect();
    path.insert(0, harness.clone());
    let mut compile = Command::new("javac");
    compile.args(["-nowarn", "-Xlint:none", "-d"]).arg(&harness).arg("-cp");
    compile.arg(std::env::join_paths(&path).map_err(|e| e.to_string())?);
    execute(compile.arg(root.join("crates/jni/tests/java/kafka/StoreBench.java")))?;
    print(&turns(root, &path, "StoreBench")?);
    Ok(())
}

fn print([theirs, ours]: &[Table; 2]) {
    for (name, runs) in theirs {
        let Some(own) = ours.get(name) else { continue };
        let (rate, own_rate) = (median(runs, 0), median(own, 0));
        let (cpu, own_cpu) = (median(runs, 1), median(own, 1));
        let ratio = |a: u64, b: u64| a as f64 / b.max(1) as f64;
        let (times, share) = (ratio(own_rate, rate), ratio(own_cpu, cpu));
        print!("{name:14} {rate:>9}/s {own_rate:>9}/s {times:5.2} times; ");
        println!("CPU {cpu:>7} {own_cpu:>7} ns {share:5.2}");
    }
}

/// `--bench crossing`: a call that does nothing, and a get, with what it takes of the Java heap: a
/// value of 100 bytes is one array of 120.
pub fn crossing(root: &Path) -> Result<(), String> {
    let path = [jars::find(root, jars::NEWEST)?, harness::compile(root)?];
    let [theirs, ours] = turns(root, &path, "Bench")?;
    for (name, what) in [("crossing", "isValid, one crossing"), ("get", "get, one crossing")] {
        for (whose, table) in [("RocksDB's", &theirs), ("ours", &ours)] {
            let Some(runs) = table.get(name) else { continue };
            let (cpu, heap) = (median(runs, 1), median(runs, 2));
            println!("jni: {what}: {whose}: {cpu} ns of CPU, {heap} bytes of the Java heap");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_each_measurement_is_told() {
        let mut table = Table::new();
        for line in ["get 10 1 0", "get 30 3 0\nput 7 7 7", "get 20 2 0"] {
            add(&mut table, line).expect("figures");
        }
        assert_eq!([0, 1].map(|column| median(&table["get"], column)), [20, 2]);
        assert!(add(&mut table, "get fast").is_err());
    }
}
