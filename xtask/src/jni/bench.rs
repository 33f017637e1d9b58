//! `--bench`, `--bench stores` and `--bench crossing`: what calls cost through the classes, with
//! RocksDB's library and with ours, in turns. It reports and does not judge.
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

/// Megabytes of the store that `--bench stores` puts back.
pub const RESTORE_MB: u64 = 2048;
/// Small stores of `--bench stores`.
const STORES: &str = "100";

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

/// `--bench`: the classes alone, Kafka Streams' store, Flink's states.
pub fn run(root: &Path) -> Result<(), String> {
    println!(
        "jni: bench: medians of {ROUNDS}, in turns: RocksDB's library, ours, ratio (of each turn)"
    );
    let path = [jars::find(root, jars::NEWEST)?, harness::compile(root)?];
    print(&turns(root, &path, "Bench")?);
    for (suite, program) in [("kafka", "StoreBench"), ("flink", "StateBench")] {
        let path = program_path(root, suite, &[program])?;
        print(&turns(root, &path, program)?);
    }
    Ok(())
}

/// The class path of programs in the folder of a suite, which are compiled.
fn program_path(root: &Path, suite: &str, programs: &[&str]) -> Result<Vec<PathBuf>, String> {
    let harness = harness::compile(root)?;
    let folder = target(root).join("jni").join(suite);
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let others = suites::class_path(root, suite, &folder)?;
    let mut path: Vec<PathBuf> = std::env::split_paths(&others).collect();
    path.insert(0, harness.clone());
    let mut compile = Command::new("javac");
    compile.args(["-nowarn", "-Xlint:none", "-d"]).arg(&harness).arg("-cp");
    compile.arg(std::env::join_paths(&path).map_err(|e| e.to_string())?);
    for program in programs {
        compile.arg(root.join(format!("crates/jni/tests/java/{suite}/{program}.java")));
    }
    execute(&mut compile)?;
    Ok(path)
}

/// `--bench stores`: the memory of many small stores of Kafka Streams, and how fast one of so many
/// megabytes is put back.
pub fn stores(root: &Path, megabytes: u64) -> Result<(), String> {
    let path = program_path(root, "kafka", &["StoresBench"])?;
    println!(
        "jni: bench: {STORES} stores, and a restore of {megabytes} MB: RocksDB's, ours, ratio"
    );
    let mut found: BTreeMap<String, [Vec<u64>; 2]> = BTreeMap::new();
    for _ in 0..ROUNDS {
        for (side, way) in [Way::Theirs, Way::Property].into_iter().enumerate() {
            let work = harness::work(root, "bench")?;
            let mut command = way.optimised(root, &path)?;
            command.args(["-Xmx1g", "StoresBench"]).arg(&work);
            let printed = output(command.args([STORES, &megabytes.to_string()]))?;
            fs::remove_dir_all(&work).map_err(|e| format!("{}: {e}", work.display()))?;
            for line in printed.lines() {
                let numbers =
                    line.split_once(' ').and_then(|(name, n)| Some((name, n.parse().ok()?)));
                let (name, number) = numbers.ok_or_else(|| format!("no figure: {line}"))?;
                found.entry(name.to_string()).or_default()[side].push(number);
            }
        }
    }
    for (name, [theirs, ours]) in &mut found {
        let spread = spread(theirs.iter().copied().zip(ours.iter().copied()));
        theirs.sort_unstable();
        ours.sort_unstable();
        let (a, b) = (theirs[theirs.len() / 2], ours[ours.len() / 2]);
        let unit = if name == "restore" { "KiB/s" } else { "KiB" };
        println!("{name:14} {a:>9} {unit} {b:>9} {unit} {:5.2} times {spread}", ratio(b, a));
    }
    Ok(())
}

fn ratio(a: u64, b: u64) -> f64 {
    a as f64 / b.max(1) as f64
}

/// The least and the greatest ratio of a turn: RocksDB's figure, ours.
fn spread(turns: impl Iterator<Item = (u64, u64)>) -> String {
    let mut ratios: Vec<f64> = turns.map(|(theirs, own)| ratio(own, theirs)).collect();
    ratios.sort_by(f64::total_cmp);
    match (ratios.first(), ratios.last()) {
        (Some(least), Some(most)) => format!("({least:.2} to {most:.2})"),
        _ => String::new(),
    }
}

fn print([theirs, ours]: &[Table; 2]) {
    for (name, runs) in theirs {
        let Some(own) = ours.get(name) else { continue };
        let (rate, own_rate) = (median(runs, 0), median(own, 0));
        let (cpu, own_cpu) = (median(runs, 1), median(own, 1));
        let column =
            |at: usize| spread(runs.iter().zip(own).map(move |(run, own)| (run[at], own[at])));
        print!("{name:16} {rate:>9}/s {own_rate:>9}/s {:5.2} times ", ratio(own_rate, rate));
        print!("{}; CPU {cpu:>7} {own_cpu:>7} ns ", column(0));
        println!("{:5.2} {}", ratio(own_cpu, cpu), column(1));
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
        assert_eq!(spread([(10, 20), (10, 5)].into_iter()), "(0.50 to 2.00)");
    }
}
