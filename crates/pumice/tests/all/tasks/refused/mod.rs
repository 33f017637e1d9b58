//! Every resource refused: descriptors, threads, address space, and the three calls of io_uring.
//!
//! What is refused is refused to the whole process, so each test runs in a child process, where it
//! is alone and nothing of the process (pools, shared loops, the shared runtime) was made before.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod everything;
mod futures;

use std::path::{Path, PathBuf};

/// Set in a child process.
const CHILD: &str = "PUMICE_TEST_CHILD";

/// Whether this is the child process; runs it, and demands its success, if not.
fn is_child(test: &str) -> bool {
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    print!("{}", child(test, "", ""));
    false
}

/// What the test prints in a child process with `PUMICE_IO=io` and `PUMICE_REFUSED_RUN=run`.
fn child(test: &str, io: &str, run: &str) -> String {
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, "1");
    let output = child.env("PUMICE_IO", io).env("PUMICE_REFUSED_RUN", run).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{test} {run}: {}: {text}", output.status);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(printed.contains("running 1 test\n"), "there is a test {test}: {printed}");
    printed
}

/// An empty folder on a disk.
fn folder(name: &str) -> PathBuf {
    let name = format!("pumice-refused-{name}-{}", std::process::id());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _absent = std::fs::remove_dir_all(&folder);
    folder
}
