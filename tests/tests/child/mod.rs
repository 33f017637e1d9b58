//! Jobs in a child process: this test binary, run again for one ignored test.
//!
//! A process loads at most one RocksDB, since two copies of its C++ statics would merge. Jobs take
//! a folder and a text, and return results as files in the folder. A job that runs too long is
//! killed, so a hang fails.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const JOB: &str = "PUMICE_CHILD_JOB";
const FOLDER: &str = "PUMICE_CHILD_FOLDER";
const ARGUMENT: &str = "PUMICE_CHILD_ARGUMENT";
const SECONDS_MAX: u64 = 600;

type Job = fn(&Path, &str) -> Result<(), String>;

const JOBS: &[(&str, Job)] = &[
    ("rocksdb-differential", crate::differential::run_rocksdb),
    ("rocksdb-continue", crate::compat::run_continue),
    ("rocksdb-write", crate::compat::run_write),
    ("rocksdb-recycled", crate::compat::run_recycled),
    ("rocksdb-torn", crate::compat::run_torn),
    ("rocksdb-trash", crate::compat::run_trash),
    ("rocksdb-own-options", crate::compat::run_own_options),
    ("rocksdb-options-round-trip", crate::compat::run_options_round_trip),
    ("rocksdb-beside", crate::beside::run),
    ("open", crate::errors::run_open),
    ("faults", crate::faults::run),
    ("crash", crate::crash::run),
    ("corruption", crate::corruption::run),
    ("matrix", crate::matrix::run),
    ("rates", crate::matrix::run_rates),
];

/// Runs a job in a child process and waits for it.
///
/// # Errors
/// What the child printed, when it failed or hung.
pub fn run(job: &str, folder: &Path, argument: &str) -> Result<(), String> {
    assert!(JOBS.iter().any(|(name, _)| *name == job), "no job is called {job}");
    let output = folder.join(format!("{job}.out"));
    let file = std::fs::File::create(&output).map_err(|e| e.to_string())?;
    let mut child = Command::new(std::env::current_exe().map_err(|e| e.to_string())?)
        .args(["--exact", "child::entry", "--ignored", "--nocapture"])
        .envs([(JOB, job), (ARGUMENT, argument)])
        .env(FOLDER, folder)
        .stdin(Stdio::null())
        .stderr(file.try_clone().map_err(|e| e.to_string())?)
        .stdout(file)
        .spawn()
        .map_err(|e| e.to_string())?;
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|e| e.to_string())? {
            break status;
        }
        if started.elapsed() > Duration::from_secs(SECONDS_MAX) {
            child.kill().and_then(|()| child.wait()).map_err(|e| e.to_string())?;
            return Err(format!("child job {job} hung for {SECONDS_MAX} s\n{}", read(&output)));
        }
        pumice_port::thread::sleep(Duration::from_millis(5));
    };
    if status.success() {
        return Ok(());
    }
    Err(format!("child job {job}: {status}\n{}", read(&output)))
}

fn read(path: &PathBuf) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| e.to_string())
}

/// Entry point of a child job; not a test.
#[pumice_test_macros::test]
#[ignore = "runs only as a child of other tests"]
fn entry() {
    let variable = |name| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    let name = variable(JOB);
    let (_, job) = JOBS.iter().find(|(job, _)| *job == name).expect("the parent checked the name");
    if let Err(message) = job(Path::new(&variable(FOLDER)), &variable(ARGUMENT)) {
        panic!("{message}");
    }
}

#[pumice_test_macros::test]
fn a_failing_job_is_reported() {
    let folder = crate::stores::temp_folder();
    let error = run("rocksdb-differential", folder.path(), "no number").unwrap_err();
    assert!(error.contains("no number"), "{error}");
}
