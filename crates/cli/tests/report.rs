//! `pumice report` at a tiny size: the page, the raw data, resuming after a kill, one section, both
//! engines.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A stopped child is gone as soon as it is killed; no other step waits that long.
const PATIENCE: Duration = Duration::from_secs(60);

fn command(dir: &Path, words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pumice"));
    command.arg("report").arg(format!("--out={}", dir.join("out").display()));
    fs::create_dir_all(dir.join("memory")).unwrap();
    command.arg(format!("--memory={}", dir.join("memory").display()));
    command.arg(format!("--disk={}", dir.display())).args(words.split_whitespace());
    command
}

fn report(dir: &Path, words: &str) -> Output {
    let output = command(dir, words).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn text(dir: &Path, name: &str) -> String {
    fs::read_to_string(dir.join("out").join(name)).unwrap()
}

/// The text between the two words, in each line of the journal.
fn ids(journal: &str) -> Vec<String> {
    let id = |line: &str| line.split("\"id\":\"").nth(1)?.split('"').next().map(str::to_string);
    journal.lines().filter_map(id).collect()
}

fn names(dir: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    entries.map(|name| name.to_str().unwrap().to_string()).collect()
}

// Plain #[test]: the report runs in processes of its own.
#[test]
fn pumice_alone_gets_a_page_with_raw_data() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path();
    let output = report(dir, "--time=1s --engine=none --only=compression");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.contains("Left out: RocksDB: there is no library"), "{printed}");
    let page = text(dir, "index.html");
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    for what in [
        "<h2 id=\"compression\">",
        "As published: fillseq of 10 M keys",
        "1,239,379",
        "prefers-color-scheme:dark",
        "Not run: --only core runs it.",
        "--compression_helpers=4",
        "Left out: RocksDB",
        "<svg ",
    ] {
        assert!(page.contains(what), "{what}");
    }
    // Everything is in the page.
    for outside in ["<script", "<link", "src=", "@import"] {
        assert!(!page.contains(outside), "{outside}");
    }
    let journal = text(dir, "runs.jsonl");
    let found = ids(&journal);
    assert!(
        found.contains(&"compression/fill/zstd 8, 4 threads/Pumice, explicit helpers".to_string())
    );
    assert!(found.contains(&"compression/jobs/8 processes/Pumice, 8".to_string()));
    let json = text(dir, "report.json");
    assert!(json.contains("\"machine\":{\"cpus\":") && json.contains("\"peer\":null"));
    assert_eq!(json.matches("\"id\":").count(), found.len());
    let csv = text(dir, "report.csv");
    assert!(csv.starts_with("id,round,value,number,command\n"));
    let rates = csv.lines().filter(|line| line.contains(",ops_per_sec,")).count();
    assert_eq!(rates, found.len());
    let picture = text(dir, "plots/compression-fill-1.svg");
    assert!(picture.starts_with("<svg ") && picture.contains("<style>"));
    // Databases are gone.
    assert_eq!(names(&dir.join("memory")).len(), 0);
    assert_eq!(names(dir), ["memory", "out"].map(str::to_string).into());
}

// Plain #[test]: see above.
#[test]
fn both_engines_are_compared() {
    let library = pumice_peer::installed_library().expect("`cargo xtask peers` installs it");
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path();
    report(dir, &format!("--time 1s --only priorities --engine {}", library.display()));
    report(dir, &format!("--time 1s --only control --engine {}", library.display()));
    let page = text(dir, "index.html");
    // What one section found stays when another is run.
    for what in
        ["RocksDB, lowered", "Pumice, lanes", "Lowering multiplies RocksDB's p50 by", "(RMSE)"]
    {
        assert!(page.contains(what), "{what}");
    }
    assert!(page.contains("<h2 id=\"overview\">"));
    assert!(page.contains("<td class=\"good\">") || page.contains("<td class=\"bad\">"));
    let json = text(dir, "report.json");
    let version = json.split("\"peer\":{\"version\":\"").nth(1).unwrap();
    assert!(version.starts_with(|letter: char| letter.is_ascii_digit()), "{version:.20}");
    assert!(json.contains("\"crc32c\":\"Not supported") == page.contains("CRC32C in software"));
    assert!(json.contains("\"asserts\":false"));
    assert!(json.contains("--engine=LIBRARY") && json.contains("\"columns\":[\"seconds\""));
}

// Plain #[test]: see above.
#[test]
fn a_killed_report_goes_on() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path();
    let words = "--time=2s --engine=none --only=core";
    let mut child =
        command(dir, words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let lines =
        || fs::read_to_string(dir.join("out/runs.jsonl")).unwrap_or_default().lines().count();
    while lines() < 3 {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it was killed");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let before = text(dir, "runs.jsonl");
    let output = report(dir, words);
    let printed = String::from_utf8_lossy(&output.stdout);
    let there =
        printed.split(" runs are there already").next().unwrap().rsplit(' ').next().unwrap();
    // A run may have been written after the journal was read.
    assert!(there.parse::<usize>().unwrap() >= 3, "{printed}");
    let after = text(dir, "runs.jsonl");
    assert!(after.starts_with(before.rsplit_once('\n').unwrap().0));
    let found = ids(&after);
    let unique: BTreeSet<&String> = found.iter().collect();
    assert_eq!(unique.len(), found.len(), "nothing is run twice");
    assert!(found.iter().all(|id| id.starts_with("core/")));
    // Once more: nothing is left to do.
    let output = report(dir, words);
    let all = format!("{} runs are there already", found.len());
    assert!(String::from_utf8_lossy(&output.stdout).contains(&all));
    assert_eq!(text(dir, "runs.jsonl"), after);
    // Rows are compared with the measured abilities of the machine.
    let page = text(dir, "index.html");
    assert!(after.contains("\"miss_us\":") && after.contains("\"device_sync_us\":"));
    assert!(page.contains("Distance to the limit"));
    assert!(page.contains("Pumice is farthest from the limit in "));
    // The databases of the killed one are gone, too.
    assert_eq!(names(&dir.join("memory")).len(), 0);
}

/// Status lines of a process; empty when it is gone.
fn status(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default()
}

/// The process has ended: it is gone, or a zombie.
fn has_ended(pid: u32) -> bool {
    let text = status(pid);
    text.is_empty() || text.contains("\nState:\tZ")
}

fn child_of(parent: u32) -> Option<u32> {
    let line = format!("\nPPid:\t{parent}\n");
    let numbers = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse::<u32>().ok());
    numbers.into_iter().find(|pid| status(*pid).contains(&line) && !has_ended(*pid))
}

fn command_line(pid: u32) -> Vec<u8> {
    fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()
}

fn signal(name: &str, pid: &str) -> bool {
    Command::new("kill").args([name, "--", pid]).status().unwrap().success()
}

/// Kills the program once it has a child; the child is stopped first so that it cannot end by
/// itself.
fn dies_with_its_child(mut command: Command) {
    let mut parent = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let child = loop {
        // The child may end before it is stopped. It must not be stopped before it has asked to be
        // killed with its parent, which it does before `exec`.
        if let Some(child) = child_of(parent.id())
            && command_line(child) != command_line(parent.id())
            && signal("-STOP", &child.to_string())
            && !has_ended(child)
        {
            break child;
        }
        assert!(parent.try_wait().unwrap().is_none(), "it ended without a child");
        std::thread::sleep(Duration::from_millis(1));
    };
    parent.kill().unwrap();
    parent.wait().unwrap();
    let start = Instant::now();
    while !has_ended(child) && start.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(5));
    }
    let ended = has_ended(child);
    if !ended {
        signal("-KILL", &child.to_string());
    }
    assert!(ended, "its child goes on without it");
}

// Plain #[test]: see above.
#[test]
fn a_killed_report_takes_its_children_with_it() {
    let scratch = tempfile::tempdir().unwrap();
    dies_with_its_child(command(scratch.path(), "--time=1h --engine=none --only=compression"));
}

// Plain #[test]: see above.
#[test]
fn a_killed_db_bench_takes_the_engine_with_it() {
    let library = pumice_peer::installed_library().expect("`cargo xtask peers` installs it");
    let scratch = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pumice"));
    command.arg("db_bench").arg(format!("--engine={}", library.display()));
    command.arg(format!("--db={}", scratch.path().display()));
    command.args(["--benchmarks=fillrandom", "--num=100000000"]);
    dies_with_its_child(command);
}

// Plain #[test]: see above.
#[test]
fn an_interrupt_ends_it_in_good_order_and_it_goes_on() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path();
    let words = "--time=4s --engine=none --only=compression";
    let mut first = command(dir, words);
    // As a terminal does it: the signal goes to the children, too.
    first.process_group(0).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = first.spawn().unwrap();
    while fs::read_to_string(dir.join("out/runs.jsonl")).unwrap_or_default().is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    // Another into the same folder is refused meanwhile.
    let other = command(dir, words).output().unwrap();
    let printed = String::from_utf8_lossy(&other.stderr);
    assert!(!other.status.success() && printed.contains("another report is running"), "{printed}");
    assert!(signal("-INT", &format!("-{}", child.id())));
    let output = child.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{printed}");
    assert!(printed.contains("the same command resumes from here"), "{printed}");
    assert_eq!(names(&dir.join("memory")).len(), 0);
    let before = text(dir, "runs.jsonl");
    let output = report(dir, words);
    let done = format!("{} runs are there already", before.lines().count());
    assert!(String::from_utf8_lossy(&output.stdout).contains(&done));
    let after = text(dir, "runs.jsonl");
    assert!(after.starts_with(&before) && after.len() > before.len());
    let found = ids(&after);
    assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), found.len(), "nothing is run twice");
}

// Plain #[test]: see above.
#[test]
fn folders_that_are_missing_are_made_or_named() {
    let scratch = tempfile::tempdir().unwrap();
    let (dir, file) = (scratch.path(), scratch.path().join("file"));
    fs::write(&file, "").unwrap();
    let at = |flag: &str, path: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pumice"));
        command.args(["report", "--plan", "--engine=none"]);
        for (name, folder) in [("out", "a/out"), ("memory", "b/memory"), ("disk", "c/disk")] {
            let folder = if name == flag { path.to_path_buf() } else { dir.join(folder) };
            command.arg(format!("--{name}={}", folder.display()));
        }
        command.output().unwrap()
    };
    let output = at("", Path::new(""));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(["a/out", "b/memory", "c/disk"].iter().all(|made| dir.join(made).is_dir()));
    for flag in ["out", "memory", "disk"] {
        let output = at(flag, &file.join("x"));
        let printed = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            printed.trim_end(),
            format!("pumice report: --{flag}={}/x: Not a directory (os error 20)", file.display())
        );
        assert!(!output.status.success());
    }
}

// Plain #[test]: see above.
#[test]
fn other_engines_have_their_table_where_they_are_built() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path();
    report(dir, "--time=1s --engine=none --only=engines");
    let (page, journal) = (text(dir, "index.html"), text(dir, "runs.jsonl"));
    let are_built = cfg!(feature = "other-engines");
    for engine in ["fjall", "redb"] {
        let id = format!("engines/rows/readrandom/{engine}");
        assert_eq!(ids(&journal).contains(&id), are_built);
        assert_eq!(page.contains(&format!("Pumice over {engine}")), are_built);
    }
    assert_eq!(page.contains("built without its cargo feature other-engines"), !are_built);
    assert!(ids(&journal).contains(&"engines/rows/readseq/Pumice".to_string()));
}

// Plain #[test]: see above.
#[test]
fn a_plan_is_printed_and_nothing_is_run() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path();
    let output = report(dir, "--plan --time full --engine none");
    let printed = String::from_utf8_lossy(&output.stdout);
    for what in ["It takes about ", "pumice serve --dir serve/db", "--num=1000000 "] {
        assert!(printed.contains(what), "{what}: {printed}");
    }
    // A small disk has no room for the largest size, which is reported.
    assert_ne!(
        printed.contains("--num=64000000"),
        printed.contains("Growth leaves out"),
        "{printed}"
    );
    assert_eq!(text(dir, "runs.jsonl"), "");
    let output = command(dir, "--only=all").output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(
        printed.contains("--only: 'all' is none of compression, control, filters"),
        "{printed}"
    );
}

// Plain #[test]: see above.
#[test]
fn a_report_that_cannot_begin_leaves_no_folders() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path();
    let output = command(dir, "--engine=/no/such/library.so --plan").output().unwrap();
    assert!(!output.status.success());
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(printed.contains("/no/such/library.so"), "{printed}");
    assert_eq!(names(&dir.join("memory")).len(), 0);
    assert!(names(dir).iter().all(|name| name == "memory" || name == "out"), "{:?}", names(dir));
}
