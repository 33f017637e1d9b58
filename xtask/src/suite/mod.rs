//! `cargo xtask test`: everything that must hold before a change lands, in one command.
//!
//! All stages run, whatever fails, so that one run shows everything that needs fixing: peers, fmt,
//! tidy, clippy; every test of the workspace on threads, then the tests of the packages that can
//! wait on fibers over io_uring and on fibers without it (the same programs, another environment);
//! the server's tests of TLS, in a build that has it; the models of port's primitives under loom;
//! the crate built without a C compiler; a share of the simulation and the searches for planted
//! bugs; the examples of the crate; then the released binary, called as a user would call it.
//! Builds and programs come from one queue, a few at a time.
//!
//! | part | holds |
//! |---|---|
//! | `plan` | which stages, passes, suites and calls there are, and the command line |
//! | `stages` | the jobs of each stage |
//! | `build` | how test programs are built and found |
//! | `parts` | large programs cut into parts |
//! | `plain` | which tests the passes on fibers leave out |
//! | `program` | one program with its output and its limit of time |
//! | `queue` | the jobs and who runs them |
//! | `tally` | tests counted |
//!
//! A simulation and a call count as one test each, other stages without tests as one failed test
//! when they fail. A program that takes more than 15 minutes is killed and counts as failed. The
//! last line is `N passed, N failed`; a run that executed no test fails, and so does a stage of
//! tests that ran none.
//!
//! `--quick` is for use between edits: fmt, tidy, clippy, the tests in the libraries and a few
//! suites, on threads. It installs nothing: a test that compares with a peer passes over it where
//! there is none, and says so. `--only STAGE` and `-p PACKAGE` choose; with `-p` there are no doc
//! tests. None of these replaces the full run.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

mod build;
mod parts;
mod plain;
mod plan;
mod program;
mod queue;
mod stages;
mod tally;

pub use build::{cargo, target};
use plan::{Choice, STAGES};
use queue::Ended;
use tally::Tally;

/// How many of the slowest programs the report names.
const SLOWEST: usize = 12;

/// Runs what `words` choose; the exit code is success only when tests ran and nothing failed.
pub fn run(root: &Path, words: &[&str]) -> ExitCode {
    match Choice::parse(words) {
        Ok(choice) => run_chosen(root, choice),
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

fn run_chosen(root: &Path, choice: Choice) -> ExitCode {
    let started = Instant::now();
    let context = stages::Context::new(root, choice.clone());
    let ended = queue::run(stages::first_jobs(&context), lanes());
    let stages = sum_up(&choice, &ended);
    let failures = ended.iter().filter(|job| !job.failures.is_empty());
    for (index, job) in failures.enumerate() {
        if index == 0 {
            println!("== failures");
        }
        println!("in {}", job.stage);
        job.failures.iter().for_each(|line| println!("{line}"));
    }
    print_timings(&stages, &ended, started.elapsed().as_secs_f64());
    let mut all = Tally::default();
    stages.iter().for_each(|stage| all += stage.tally);
    println!("{} passed, {} failed", all.passed, all.failed);
    if all.failed == 0 && all.passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Jobs that run at once; a program also has its own threads.
fn lanes() -> usize {
    std::thread::available_parallelism().map_or(2, |cores| cores.get().clamp(2, 4))
}

struct Stage {
    name: &'static str,
    tally: Tally,
    /// The sum over its jobs.
    seconds: f64,
}

/// Adds up the jobs by stage. A stage of tests that ran none gets a failure.
fn sum_up(choice: &Choice, ended: &[Ended]) -> Vec<Stage> {
    let mut stages = Vec::new();
    for (name, needs_tests) in STAGES.iter().filter(|(name, _)| choice.has(name)) {
        let mut stage = Stage { name, tally: Tally::default(), seconds: 0.0 };
        for job in ended.iter().filter(|job| job.stage == *name) {
            stage.tally += job.tally;
            stage.seconds += job.seconds;
        }
        if *needs_tests && stage.tally == Tally::default() {
            println!("== {name}: FAILED, it ran no test");
            stage.tally.failed = 1;
        }
        stages.push(stage);
    }
    stages
}

fn print_timings(stages: &[Stage], ended: &[Ended], wall: f64) {
    println!("== slowest");
    let mut slowest: Vec<&Ended> = ended.iter().collect();
    slowest.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    for job in slowest.iter().take(SLOWEST) {
        println!("{:7.1} s  {}: {}", job.seconds, job.stage, job.name);
    }
    println!("== timings (seconds of all jobs of a stage, several at a time)");
    for stage in stages {
        let Tally { passed, failed } = stage.tally;
        let mark = if failed == 0 { "" } else { "  FAILED" };
        println!(
            "{:<8} {:7.1} s  {passed} passed, {failed} failed{mark}",
            stage.name, stage.seconds
        );
    }
    println!("{:<8} {wall:7.1} s", "all");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(stage: &'static str, passed: u64, failed: u64) -> Ended {
        let tally = Tally { passed, failed };
        Ended { stage, name: String::new(), seconds: 1.0, tally, failures: Vec::new() }
    }

    fn tallies(words: &[&str], jobs: &[Ended]) -> Vec<(&'static str, u64, u64)> {
        let choice = Choice::parse(words).expect("known words");
        let stages = sum_up(&choice, jobs);
        stages.iter().map(|s| (s.name, s.tally.passed, s.tally.failed)).collect()
    }

    #[test]
    fn a_stage_that_ran_no_test_fails() {
        let jobs = [ended("loom", 0, 0), ended("sim", 1, 0)];
        assert_eq!(tallies(&["--only", "loom"], &jobs), [("loom", 0, 1)]);
        assert_eq!(tallies(&["--only", "fmt"], &[ended("fmt", 0, 0)]), [("fmt", 0, 0)]);
    }

    #[test]
    fn jobs_are_added_up_by_stage() {
        let jobs = [ended("threads", 3, 0), ended("build", 0, 0), ended("threads", 2, 1)];
        let wanted = [("peers", 0, 0), ("build", 0, 0), ("threads", 5, 1)];
        assert_eq!(tallies(&["--only", "threads"], &jobs), wanted);
    }
}
