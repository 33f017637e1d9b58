//! `--example NAME`: own programs on engines that keep their state in RocksDB. Each has two parts:
//! the first leaves state in a folder, the second goes on with it. Both are run with every mix of
//! RocksDB's library and ours, so that state is handed over in the middle, both ways, and print the
//! same lines; the last is a digest of all results.
//!
//! Thread safety: one caller.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::harness::{self, Way};
use super::{execute, suites};
use crate::suite::target;

/// A program in `crates/jni/tests/java/examples`.
struct Example {
    name: &'static str,
    /// Its class.
    class: &'static str,
    /// The list of its jars in `crates/jni/tests/suites`.
    jars: &'static str,
}

const ALL: [Example; 3] = [
    // Windows, joins and versioned stores.
    Example { name: "streams", class: "Streams", jars: "kafka" },
    // State with a time to live, incremental checkpoints, a failure, another parallelism.
    Example { name: "flink", class: "Flink", jars: "flink" },
    // Aggregates and a stream joined with another, with changelog checkpoints.
    Example { name: "spark", class: "Spark", jars: "spark" },
];
/// Who runs the first part, and who the second. The first mix is what the others have to print.
const MIXES: [[Way; 2]; 4] = [
    [Way::Theirs, Way::Theirs],
    [Way::Property, Way::Property],
    [Way::Theirs, Way::Property],
    [Way::Property, Way::Theirs],
];
/// Names, for the usage.
pub const NAMES: &str = "streams | flink | spark";

/// Runs the program of that name.
pub fn run(root: &Path, name: &str) -> Result<(), String> {
    let example = ALL.iter().find(|example| example.name == name);
    let example = example.ok_or_else(|| format!("no example {name}: {NAMES}"))?;
    let folder = target(root).join("jni").join(example.jars);
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    harness::compile(root)?;
    let jars = suites::class_path(root, example.jars, &folder)?;
    let mut path: Vec<PathBuf> = std::env::split_paths(&jars).collect();
    path.insert(0, compile(root, example, &path)?);
    for way in [Way::Theirs, Way::Property] {
        harness::check_library(root, way, &path, None)?;
    }
    let mut expected = None;
    for mix in MIXES {
        let printed = parts(root, example, &path, mix)?;
        let expected = expected.get_or_insert_with(|| printed.clone());
        let digest = printed.last().filter(|line| line.starts_with("digest "));
        let digest = digest.ok_or_else(|| format!("{mix:?}: no digest in {printed:#?}"))?;
        println!("jni: {name}: {mix:?}: {} lines, {digest}", printed.len());
        if printed != *expected {
            return Err(format!("{mix:?} prints {printed:#?}, RocksDB's library {expected:#?}"));
        }
    }
    Ok(())
}

fn compile(root: &Path, example: &Example, jars: &[PathBuf]) -> Result<PathBuf, String> {
    let classes = target(root).join("jni/examples").join(example.name);
    fs::create_dir_all(&classes).map_err(|e| format!("{}: {e}", classes.display()))?;
    let source = format!("crates/jni/tests/java/examples/{}.java", example.class);
    let mut command = Command::new("javac");
    command.args(["-nowarn", "-Xlint:none", "-d"]).arg(&classes).arg("-cp");
    command.arg(std::env::join_paths(jars).map_err(|e| e.to_string())?).arg(root.join(source));
    execute(&mut command)?;
    Ok(classes)
}

/// Both parts, in a folder of their own; what they print.
fn parts(
    root: &Path,
    example: &Example,
    path: &[PathBuf],
    mix: [Way; 2],
) -> Result<Vec<String>, String> {
    let work = harness::work(root, &format!("example-{}", example.name))?;
    let mut lines = Vec::new();
    for (part, way) in mix.into_iter().enumerate() {
        let part = (part + 1).to_string();
        let log = work.join(format!("part{part}.txt"));
        let errors = fs::File::create(&log).map_err(|e| format!("{}: {e}", log.display()))?;
        let mut command = way.java(root, path)?;
        command.args(way.checks()).args(["-Xmx2g", "-Dlog4j2.level=WARN"]).args(harness::opened());
        command.arg(format!("-Djava.io.tmpdir={}", work.display()));
        command.arg(example.class).arg(&part).arg(work.join("state"));
        command.stdin(Stdio::null()).stderr(errors).current_dir(&work);
        let done = command.output().map_err(|e| format!("java: {e}"))?;
        if !done.status.success() {
            return Err(format!("{way:?}, part {part}: {}: {}", done.status, log.display()));
        }
        let printed = String::from_utf8_lossy(&done.stdout).into_owned();
        if let Some(line) = harness::warnings(&printed).next() {
            return Err(format!("the virtual machine warns: {line}"));
        }
        let own = printed.lines().filter_map(|line| line.strip_prefix("= "));
        lines.extend(own.map(String::from));
    }
    Ok(lines)
}
