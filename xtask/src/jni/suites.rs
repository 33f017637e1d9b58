//! `--suite NAME`: tests that others wrote, unmodified, from their jars on Maven Central, on
//! RocksDB's library and on ours. Ours may fail what RocksDB's fails, and nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::execute;
use crate::suite::target;

/// The tests of Kafka Streams' state stores and of its test driver.
pub fn kafka(root: &Path, library: &Path) -> Result<(), String> {
    let folder = target(root).join("jni/kafka");
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let path = class_path(root, "kafka", &folder)?;
    let select = [
        "--select-package=org.apache.kafka.streams.state",
        "--select-class=org.apache.kafka.streams.TopologyTestDriverTest",
        "--include-classname=.*Test",
    ];
    let theirs = junit(&folder, "theirs", &path, &select, None)?;
    let ours = junit(&folder, "ours", &path, &select, Some(library))?;
    println!("jni: kafka: RocksDB's library: {} run, {} fail", theirs.run, theirs.failed.len());
    println!("jni: kafka: this library:      {} run, {} fail", ours.run, ours.failed.len());
    let more: Vec<&String> = ours.failed.difference(&theirs.failed).collect();
    if ours.run == 0 || ours.run != theirs.run || !more.is_empty() {
        return Err(format!("fail here alone: {more:#?}"));
    }
    Ok(())
}

/// The class path that Maven finds for a list in `crates/jni/tests/suites`.
fn class_path(root: &Path, name: &str, folder: &Path) -> Result<String, String> {
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

/// What a run of JUnit says.
struct Outcome {
    run: usize,
    failed: BTreeSet<String>,
}

fn junit(
    folder: &Path,
    name: &str,
    path: &str,
    select: &[&str],
    library: Option<&Path>,
) -> Result<Outcome, String> {
    let reports = folder.join(name);
    if reports.exists() {
        fs::remove_dir_all(&reports).map_err(|e| format!("{}: {e}", reports.display()))?;
    }
    fs::create_dir_all(&reports).map_err(|e| format!("{}: {e}", reports.display()))?;
    let log = reports.join("output.txt");
    let file = fs::File::create(&log).map_err(|e| format!("{}: {e}", log.display()))?;
    let errors = file.try_clone().map_err(|e| e.to_string())?;
    let mut command = Command::new("java");
    command.args(["-Xmx2g", "-Dlog4j2.level=INFO"]);
    if let Some(library) = library {
        let folder = library.parent().unwrap_or(Path::new("."));
        command.arg("-Xcheck:jni").arg(format!("-Djava.library.path={}", folder.display()));
    }
    command.arg("-cp").arg(path).arg("org.junit.platform.console.ConsoleLauncher");
    command.arg("execute").args(select).arg("--details=none");
    command.arg(format!("--reports-dir={}", reports.display()));
    // Its exit code says that some failed, which the reports say better.
    let status = command.stdin(Stdio::null()).stdout(file).stderr(errors).status();
    status.map_err(|e| format!("java: {e}"))?;
    let outcome = read(&reports)?;
    if outcome.run == 0 {
        return Err(format!("no test ran: {}", log.display()));
    }
    Ok(outcome)
}

/// The reports that JUnit writes: a `testcase` for each test, with a `failure` or an `error` in it.
fn read(folder: &Path) -> Result<Outcome, String> {
    let mut outcome = Outcome { run: 0, failed: BTreeSet::new() };
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
