//! `cargo xtask test`: everything that must hold before a change lands, in one command.
//!
//! Stages run in order and all of them run, whatever fails, so that one run shows all there is to
//! mend: peers, fmt, clippy, tidy, every test of the workspace in one profile, then the released
//! binary called as a stranger would call it. Each such call counts as one test; any other stage
//! counts as one failed test when it fails and as nothing when it passes. The last line is
//! `N passed, N failed`; a run that executed no test fails.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use crate::{peers, tidy};

/// Tests that passed and failed.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Tally {
    passed: u64,
    failed: u64,
}

struct Suite<'a> {
    root: &'a Path,
    tally: Tally,
    /// (stage, seconds, passed)
    timings: Vec<(&'static str, f64, bool)>,
}

/// Calls of the released binary: name, arguments, what the output must have.
const CALLS: &[(&str, &[&str], &[&str])] = &[
    ("kills", &["stress", "--kills=200"], &["lost=0", "wrong=0"]),
    (
        "db_bench",
        &["db_bench", "--num=200000", "--benchmarks=fillrandom,overwrite,readrandom,readseq"],
        &["fillrandom", "overwrite", "readrandom", "readseq", "ops/sec"],
    ),
];

/// Runs all stages; the exit code is success only when tests ran and nothing failed.
pub fn run(root: &Path) -> ExitCode {
    let mut suite = Suite { root, tally: Tally::default(), timings: Vec::new() };
    let mut library = None;
    suite.stage("peers", |root| match peers::install(root) {
        Ok(peers) => {
            library = Some(peers.rocksdb_so);
            true
        }
        Err(message) => {
            eprintln!("peers: {message}");
            false
        }
    });
    suite.stage("fmt", |root| cargo(root, &["fmt", "--all", "--check"]));
    suite.stage("clippy", |root| {
        let flags = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
        cargo(root, &flags)
    });
    suite.stage("tidy", |root| tidy::run(root) == 0);
    let mut tally = Tally::default();
    suite.stage("tests", |root| {
        let (counted, ok) = run_tests(root, library.as_deref());
        tally = counted;
        // Failed tests are counted one by one; a failed build has none of them.
        ok || counted.failed > 0
    });
    suite.tally.passed += tally.passed;
    suite.tally.failed += tally.failed;
    suite
        .stage("build", |root| cargo(root, &["build", "--release", "--quiet", "-p", "pumice-cli"]));
    for (name, args, wanted) in CALLS {
        let before = suite.tally.failed;
        suite.stage(name, |root| call(root, args, wanted));
        if suite.tally.failed == before {
            suite.tally.passed += 1;
        }
    }
    suite.finish()
}

impl Suite<'_> {
    fn stage(&mut self, name: &'static str, body: impl FnOnce(&Path) -> bool) {
        println!("== {name}");
        let started = Instant::now();
        let ok = body(self.root);
        if !ok {
            self.tally.failed += 1;
            println!("== {name}: FAILED");
        }
        self.timings.push((name, started.elapsed().as_secs_f64(), ok));
    }

    fn finish(self) -> ExitCode {
        println!("== timings");
        for (name, seconds, ok) in &self.timings {
            println!("{name:<8} {seconds:7.1} s{}", if *ok { "" } else { "  FAILED" });
        }
        let Tally { passed, failed } = self.tally;
        println!("{passed} passed, {failed} failed");
        if failed == 0 && passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

fn cargo_command(root: &Path, args: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(args).current_dir(root).stdin(Stdio::null());
    command
}

fn cargo(root: &Path, args: &[&str]) -> bool {
    match cargo_command(root, args).status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("cargo {}: {error}", args.join(" "));
            false
        }
    }
}

/// Runs every test, passing its output through, and adds up the `test result:` lines.
fn run_tests(root: &Path, library: Option<&Path>) -> (Tally, bool) {
    let mut command = cargo_command(root, &["test", "--workspace", "--no-fail-fast"]);
    command.stdout(Stdio::piped());
    if let Some(library) = library {
        command.env(peers::LIBRARY_VARIABLE, library);
    }
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            eprintln!("cargo test: {error}");
            return (Tally::default(), false);
        }
    };
    let stdout = child.stdout.take().expect("stdout was set to a pipe");
    let mut tally = Tally::default();
    let mut out = std::io::stdout();
    for line in BufReader::new(stdout).split(b'\n') {
        let Ok(line) = line else { break };
        let line = String::from_utf8_lossy(&line);
        if let Some(result) = parse_result(&line) {
            tally.passed += result.passed;
            tally.failed += result.failed;
        }
        // A closed pipe downstream must not end the run: the exit code still counts.
        if writeln!(out, "{line}").is_err() {
            continue;
        }
    }
    let ok = child.wait().is_ok_and(|status| status.success());
    (tally, ok)
}

/// Runs the released binary on a database of its own; true when it succeeds and prints `wanted`.
fn call(root: &Path, args: &[&str], wanted: &[&str]) -> bool {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    let folder = parent.join(format!("pumice-xtask-{}", std::process::id()));
    let database = format!("--db={}", folder.join("db").display());
    let output = std::fs::create_dir_all(&folder).and_then(|()| {
        let mut command = Command::new(target.join("release/pumice"));
        command.args(args).arg(database).stdin(Stdio::null()).stderr(Stdio::inherit()).output()
    });
    let removed = std::fs::remove_dir_all(&folder);
    match (output, removed) {
        (Ok(output), Ok(())) => {
            let text = String::from_utf8_lossy(&output.stdout);
            print!("{text}");
            output.status.success() && wanted.iter().all(|word| text.contains(word))
        }
        (output, removed) => {
            eprintln!("{args:?}: {:?} {removed:?}", output.err());
            false
        }
    }
}

/// Reads `test result: ok. 12 passed; 0 failed; 1 ignored; ...`.
fn parse_result(line: &str) -> Option<Tally> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let mut tally = Tally::default();
    for part in counts.split("; ") {
        let (number, what) = part.split_once(' ')?;
        match what {
            "passed" => tally.passed = number.parse().ok()?,
            "failed" => tally.failed = number.parse().ok()?,
            _ => break,
        }
    }
    Some(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_are_read_and_other_lines_are_not() {
        let line = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out";
        assert_eq!(parse_result(line), Some(Tally { passed: 12, failed: 0 }));
        let line = "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured";
        assert_eq!(parse_result(line), Some(Tally { passed: 3, failed: 2 }));
        assert_eq!(parse_result("test wal::replay ... ok"), None);
        assert_eq!(parse_result("running 3 tests"), None);
    }
}
