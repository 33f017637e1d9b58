//! `cargo xtask test`: everything that must hold before a change lands, in one command.
//!
//! Stages run in order and all of them run, whatever fails, so that one run shows all there is to
//! mend: peers, fmt, clippy, tidy; every test of the workspace on threads, then the tests of the
//! crates that can wait on fibers over io_uring and on fibers without it (same binaries, another
//! environment); the server's tests of TLS, in a build that has it; the models of port's
//! primitives under loom; a share of the simulation and the searches for planted bugs; then the
//! released binary called as a stranger would call it, and the examples. A simulation, such a call
//! and an example count as one test each; any other stage counts as one failed test when it fails
//! and as nothing when it passes. The last line is `N passed, N failed`; a run that executed no
//! test fails, and so does a stage of tests that ran none.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use crate::peers::Peers;
use crate::{clients, examples, peers, sim, tidy};

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
    /// What the tests that failed have printed.
    failures: Vec<String>,
}

/// One pass over the tests.
struct Mode {
    name: &'static str,
    /// What is given to `cargo test` beside `--no-fail-fast`.
    args: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
}

/// Left out of the passes on fibers: crates whose code cannot wait, and `port`, whose suites start
/// every kind of task themselves.
const NOT_ON_FIBERS: [&str; 8] =
    ["base", "compress", "filter", "manifest", "peer", "port", "testkit", "xtask"];

/// Threads see the whole load, the backends that come after it a share of the heavy suites.
const MODES: &[Mode] = &[
    Mode { name: "threads", args: &[], environment: &[] },
    Mode {
        name: "fibers",
        args: &["--lib", "--bins", "--tests"],
        environment: &[("PUMICE_RUNTIME", "fibers"), ("PUMICE_TEST_SHARE", "1/4")],
    },
    Mode {
        name: "no-uring",
        args: &["--lib", "--bins", "--tests"],
        environment: &[("PUMICE_RUNTIME", "fibers-threads"), ("PUMICE_TEST_SHARE", "1/8")],
    },
];

/// The share of the simulation; `cargo xtask sim --seeds 20000` is the whole.
const SIMULATED_SEEDS: &str = "1500";

/// How much of the failures of one test program comes again at the end.
const LINES_OF_FAILURES: usize = 60;

/// Calls of the released binary: name, arguments, what the output must have.
const CALLS: &[(&str, &[&str], &[&str])] = &[
    ("kills", &["stress", "--kills=200"], &["lost=0", "wrong=0"]),
    (
        "db_bench",
        &["db_bench", "--num=200000", "--benchmarks=fillrandom,overwrite,readrandom,readseq"],
        &["fillrandom", "overwrite", "readrandom", "readseq", "ops/sec"],
    ),
    (
        "fibers",
        &[
            "db_bench",
            "--num=20000",
            "--fibers=64",
            "--threads=2",
            "--writes=2000",
            "--reads=2000",
            "--batch_size=4",
            "--benchmarks=fillrandom,overwrite,multireadrandom,readrandom,readwhilewriting",
        ],
        &["fillrandom", "128000 operations", "multireadrandom", "readwhilewriting"],
    ),
    (
        "jobs",
        &[
            "db_bench",
            "--benchmarks=fillrandom,multireadrandomcoroutine,readrandomcoroutine",
            "--coro_jobs_per_thread=10",
            "--num=20000",
            "--value_size=1024",
            "--compression_type=none",
            "--threads=8",
            "--batch_size=16",
            "--reads=3200",
            "--writes=2500",
            "--cache_size=4194304",
            "--statistics",
        ],
        &["multireadrandomcoroutine", "readrandomcoroutine", "25600 operations", "STATISTICS"],
    ),
];

/// Runs all stages; the exit code is success only when tests ran and nothing failed.
pub fn run(root: &Path) -> ExitCode {
    let mut suite =
        Suite { root, tally: Tally::default(), timings: Vec::new(), failures: Vec::new() };
    let mut peers = None;
    suite.stage("peers", |root| match peers::install(root) {
        Ok(installed) => {
            peers = Some(installed);
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
    for mode in MODES {
        let mut command = cargo_command(root, &["test", "--workspace", "--no-fail-fast"]);
        command.args(mode.args).envs(mode.environment.iter().copied());
        if !mode.environment.is_empty() {
            let package = |name: &&str| match *name {
                "xtask" => "--exclude=xtask".to_string(),
                name => format!("--exclude=pumice-{name}"),
            };
            command.args(NOT_ON_FIBERS.iter().map(package));
        }
        suite.tests(mode.name, command, peers.as_ref());
    }
    suite.tests("tls", tls_command(root), peers.as_ref());
    suite.tests("loom", loom_command(root), None);
    suite.counted("sim", |root| simulate(root, &["--seeds", SIMULATED_SEEDS]));
    suite.counted("planted", |root| sim::run(root, &["--planted"]) == ExitCode::SUCCESS);
    suite.tests("mutation", mutation_command(root), peers.as_ref());
    suite
        .stage("build", |root| cargo(root, &["build", "--release", "--quiet", "-p", "pumice-cli"]));
    for (name, args, wanted) in CALLS {
        suite.counted(name, |root| call(root, args, wanted));
    }
    suite.stage("examples", examples::build);
    for (name, run) in examples::all() {
        suite.counted(name, run);
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

    /// A stage that counts as one test.
    fn counted(&mut self, name: &'static str, body: impl FnOnce(&Path) -> bool) {
        let failed = self.tally.failed;
        self.stage(name, body);
        self.tally.passed += u64::from(self.tally.failed == failed);
    }

    /// A stage of tests, counted one by one; a failed build has none of them.
    fn tests(&mut self, name: &'static str, mut command: Command, peers: Option<&Peers>) {
        let mut tally = Tally::default();
        let mut failures = Vec::new();
        self.stage(name, |_| {
            let (counted, ok) = run_tests(&mut command, peers, &mut failures);
            tally = counted;
            println!("== {name}: {} passed, {} failed", counted.passed, counted.failed);
            (ok && counted.passed > 0) || counted.failed > 0
        });
        self.tally.passed += tally.passed;
        self.tally.failed += tally.failed;
        if !failures.is_empty() {
            self.failures.push(format!("in {name}"));
            self.failures.append(&mut failures);
        }
    }

    /// Failures come again at the end, where they are seen without a search.
    fn finish(self) -> ExitCode {
        if !self.failures.is_empty() {
            println!("== failures");
            self.failures.iter().for_each(|line| println!("{line}"));
        }
        println!("== timings");
        for (name, seconds, ok) in &self.timings {
            println!("{name:<16} {seconds:7.1} s{}", if *ok { "" } else { "  FAILED" });
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

pub fn cargo(root: &Path, args: &[&str]) -> bool {
    match cargo_command(root, args).status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("cargo {}: {error}", args.join(" "));
            false
        }
    }
}

/// The tests of TLS, which is a feature: only the server and the binary are built once more. The
/// whole workspace is named so that all other crates have the features that they were built with.
fn tls_command(root: &Path) -> Command {
    let crates = ["test", "--workspace", "--features=pumice-cli/tls"];
    let mut command = cargo_command(root, &crates);
    command.args(["--no-fail-fast", "--test", "all", "--test", "serve", "tls"]);
    command
}

/// `cargo xtask loom`: the models of port's primitives, every interleaving within their bounds.
pub fn run_loom(root: &Path) -> ExitCode {
    let (tally, ok) = run_tests(&mut loom_command(root), None, &mut Vec::new());
    if ok && tally.passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Models are built by themselves, since `--cfg loom` replaces the atomics of the whole crate.
fn loom_command(root: &Path) -> Command {
    let arguments = ["test", "-p", "pumice-port", "--test", "loom", "--release", "--no-fail-fast"];
    let mut command = cargo_command(root, &arguments);
    command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", target(root).join("loom"));
    command
}

/// The planted bugs inside tables, built on what the search for the others has built: the same
/// features of the same crates.
fn mutation_command(root: &Path) -> Command {
    let features = "--features=pumice-base/planted,pumice-env/planted,pumice-port/planted";
    let arguments = ["test", "-p", "pumice-table", "--test", "mutation", "--profile", "sim"];
    let mut command = cargo_command(root, &arguments);
    command.arg(features).arg("--target-dir").arg(target(root).join("planted"));
    command
}

/// Runs the simulation program that `cargo test` has built beside the integration tests: one build
/// less than `cargo xtask sim`, which optimises it more.
fn simulate(root: &Path, arguments: &[&str]) -> bool {
    let program = target(root).join("debug/sim");
    match Command::new(&program).args(arguments).current_dir(root).status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("{}: {error}", program.display());
            false
        }
    }
}

pub fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from)
}

/// Runs the tests of `command`, passing output through, and adds up the `test result:` lines. What
/// failed tests have printed is added to `failures`.
fn run_tests(
    command: &mut Command,
    peers: Option<&Peers>,
    failures: &mut Vec<String>,
) -> (Tally, bool) {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(peers) = peers {
        command.env(peers::LIBRARY_VARIABLE, &peers.rocksdb_so);
        command.env(clients::PYTHON_VARIABLE, &peers.redis_py);
        command.envs(peers.browser.as_ref().map(|browser| (peers::BROWSER_VARIABLE, browser)));
    }
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            eprintln!("cargo test: {error}");
            return (Tally::default(), false);
        }
    };
    let stdout = child.stdout.take().expect("stdout was set to a pipe");
    let stderr = child.stderr.take().expect("stderr was set to a pipe");
    let errors = std::thread::spawn(move || pass_errors(stderr));
    let mut tally = Tally::default();
    let mut out = std::io::stdout();
    let mut reporting = 0;
    for line in BufReader::new(stdout).split(b'\n') {
        let Ok(line) = line else { break };
        let line = String::from_utf8_lossy(&line);
        if let Some(result) = parse_result(&line) {
            tally.passed += result.passed;
            tally.failed += result.failed;
            reporting = 0;
        } else if line == "failures:" {
            reporting = LINES_OF_FAILURES;
        } else if reporting > 0 {
            reporting -= 1;
            failures.push(line.to_string());
        }
        // A closed pipe downstream must not end the run: the exit code still counts.
        if writeln!(out, "{line}").is_err() {
            continue;
        }
    }
    failures.extend(errors.join().unwrap_or_default());
    let ok = child.wait().is_ok_and(|status| status.success());
    (tally, ok)
}

/// Passes on what cargo says; returns which test programs failed, and how one ended that crashed.
fn pass_errors(stderr: impl std::io::Read) -> Vec<String> {
    let mut told = Vec::new();
    for line in BufReader::new(stderr).split(b'\n') {
        let Ok(line) = line else { break };
        let line = String::from_utf8_lossy(&line);
        if line.starts_with("error: test failed") || line.contains("process didn't exit") {
            told.push(line.to_string());
        }
        eprintln!("{line}");
    }
    told
}

/// Runs the released binary on a database of its own; true when it succeeds and prints `wanted`.
fn call(root: &Path, args: &[&str], wanted: &[&str]) -> bool {
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    let folder = parent.join(format!("pumice-xtask-{}", std::process::id()));
    let database = format!("--db={}", folder.join("db").display());
    let output = std::fs::create_dir_all(&folder).and_then(|()| {
        let mut command = Command::new(target(root).join("release/pumice"));
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
