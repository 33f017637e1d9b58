//! `--suite NAME`: tests that others wrote, unmodified, from their jars on Maven Central, on
//! RocksDB's library and on ours. Ours may fail what RocksDB's fails, and nothing else. Spark's run
//! in `scalatest`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::execute;
use super::harness::{self, Way};
use crate::suite::target;

/// Tests that others wrote.
pub struct Suite {
    /// Its name, and that of its list of jars in `crates/jni/tests/suites`.
    name: &'static str,
    /// What of it JUnit's console is to run.
    select: &'static [&'static str],
    /// What the virtual machine is told.
    settings: &'static [&'static str],
}

/// The suites.
pub const ALL: [Suite; 3] = [
    // Kafka Streams' state stores and its test driver.
    Suite {
        name: "kafka",
        select: &[
            "--select-package=org.apache.kafka.streams.state",
            "--select-class=org.apache.kafka.streams.TopologyTestDriverTest",
            "--include-classname=.*Test",
        ],
        settings: &[],
    },
    // Flink's state backend, with TTL, incremental checkpoints and rescaling.
    Suite {
        name: "flink",
        select: &[
            "--select-class=org.apache.flink.state.rocksdb.EmbeddedRocksDBStateBackendTest",
            "--select-class=org.apache.flink.state.rocksdb.RocksDBStateBackendConfigTest",
        ],
        settings: &[],
    },
    // BookKeeper's ledger storage: its indexes, their conversion and rebuild.
    Suite {
        name: "bookkeeper",
        select: &[
            "--select-package=org.apache.bookkeeper.bookie.storage.ldb",
            // Another log, not another store; each of its tests keeps a gigabyte.
            "--exclude-classname=.*DirectEntryLogger.*",
            "--include-classname=.*Test",
        ],
        // As its own build has them: names of bookies have no zone, each storage takes 32 MiB.
        settings: &["-Djava.net.preferIPv4Stack=true", "-XX:MaxDirectMemorySize=6g"],
    },
];

/// Runs the suite of that name.
pub fn run(root: &Path, name: &str) -> Result<(), String> {
    let suite = ALL.iter().find(|suite| suite.name == name);
    let suite = suite.ok_or_else(|| format!("no suite {name}: {}, spark, rheakv", names()))?;
    let folder = target(root).join("jni").join(name);
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    harness::compile(root)?;
    let path = class_path(root, name, &folder)?;
    let path: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut outcomes = Vec::new();
    for (way, whose) in [(Way::Theirs, "RocksDB's"), (Way::Property, "this")] {
        harness::check_library(root, way, &path, None)?;
        let outcome = tests(root, &folder, way, &path, suite)?;
        println!(
            "jni: {name}: {whose} library: {} run, {} fail",
            outcome.run,
            outcome.failed.len()
        );
        outcomes.push(outcome);
    }
    let [theirs, ours] = outcomes.as_slice() else { return Err("two runs".to_string()) };
    let more: Vec<&String> = ours.failed.difference(&theirs.failed).collect();
    if ours.run != theirs.run || !more.is_empty() {
        return Err(format!("fail here alone: {more:#?}"));
    }
    if !ours.warnings.is_empty() {
        return Err(format!("the virtual machine warns: {:#?}", ours.warnings));
    }
    Ok(())
}

fn names() -> String {
    ALL.map(|suite| suite.name).join(", ")
}

/// The class path that Maven finds for a list in `crates/jni/tests/suites`.
pub fn class_path(root: &Path, name: &str, folder: &Path) -> Result<String, String> {
    let list = folder.join("class_path.txt");
    let pom = root.join(format!("crates/jni/tests/suites/{name}.xml"));
    let text = fs::read_to_string(&pom).map_err(|e| format!("{}: {e}", pom.display()))?;
    let kept = folder.join("pom.xml");
    if !(list.is_file() && fs::read_to_string(&kept).is_ok_and(|old| old == text)) {
        fs::write(&kept, text).map_err(|e| format!("{}: {e}", kept.display()))?;
        let mut command = Command::new("mvn");
        command.args(["-q", "-B", "-f"]).arg(&kept).arg("dependency:build-classpath");
        execute(command.arg(format!("-Dmdep.outputFile={}", list.display())))?;
    }
    let path = fs::read_to_string(&list).map_err(|e| format!("{}: {e}", list.display()))?;
    Ok(path.trim().to_string())
}

/// What a run of tests says.
struct Outcome {
    run: usize,
    /// What the virtual machine has to say of calls (`-Xcheck:jni`).
    warnings: Vec<String>,
    failed: BTreeSet<String>,
}

fn tests(
    root: &Path,
    folder: &Path,
    way: Way,
    path: &[PathBuf],
    suite: &Suite,
) -> Result<Outcome, String> {
    let reports = folder.join(format!("{way:?}"));
    if reports.exists() {
        fs::remove_dir_all(&reports).map_err(|e| format!("{}: {e}", reports.display()))?;
    }
    fs::create_dir_all(&reports).map_err(|e| format!("{}: {e}", reports.display()))?;
    let log = reports.join("output.txt");
    let file = fs::File::create(&log).map_err(|e| format!("{}: {e}", log.display()))?;
    let errors = file.try_clone().map_err(|e| e.to_string())?;
    let mut command = way.java(root, path)?;
    let scratch = folder.join("tmp");
    fs::create_dir_all(&scratch).map_err(|e| format!("{}: {e}", scratch.display()))?;
    command.arg(format!("-Djava.io.tmpdir={}", scratch.display()));
    command.args(["-Xmx2g", "-Dlog4j2.level=INFO"]).args(way.checks()).args(suite.settings);
    command.current_dir(&reports);
    command.arg("org.junit.platform.console.ConsoleLauncher").arg("execute");
    command.args(suite.select).arg("--details=none");
    command.arg(format!("--reports-dir={}", reports.display()));
    // Its exit code says that some failed, which the reports say better.
    let status = command.stdin(Stdio::null()).stdout(file).stderr(errors).status();
    status.map_err(|e| format!("java: {e}"))?;
    fs::remove_dir_all(&scratch).map_err(|e| format!("{}: {e}", scratch.display()))?;
    let mut outcome = read(&reports)?;
    let printed = fs::read(&log).map_err(|e| format!("{}: {e}", log.display()))?;
    let printed = String::from_utf8_lossy(&printed);
    outcome.warnings = harness::warnings(&printed).map(String::from).collect();
    if outcome.run == 0 {
        return Err(format!("no test ran: {}", log.display()));
    }
    Ok(outcome)
}

/// The reports, which all write as JUnit does: a `testcase` for each test, with a `failure` or an
/// `error` in it.
fn read(folder: &Path) -> Result<Outcome, String> {
    let mut outcome = Outcome { run: 0, warnings: Vec::new(), failed: BTreeSet::new() };
    let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "xml")) {
        let text = fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
        for case in text.split("<testcase ").skip(1) {
            let value = |name: &str| {
                let begin = case.find(&format!("{name}=\""))? + name.len() + 2;
                case[begin..].split('"').next()
            };
            let body = case.split("</testcase>").next().unwrap_or_default();
            if body.contains("<skipped") {
                continue;
            }
            outcome.run += 1;
            if body.contains("<failure") || body.contains("<error") {
                let class = value("classname").unwrap_or_default();
                outcome.failed.insert(format!("{class}.{}", value("name").unwrap_or_default()));
            }
        }
    }
    Ok(outcome)
}
