//! `cargo xtask sim`: builds the simulation program and runs it with the arguments given.
//!
//! The profile `sim` optimises and keeps assertions. With `--planted` the build contains the
//! planted bugs and has its own target folder, so that the two builds do not invalidate each other.

use std::path::Path;
use std::process::{Command, ExitCode};

/// The compiler's flag that plants the bugs.
pub const PLANTED: &str = "--cfg pumice_planted";

/// Builds and runs; returns the program's own exit code.
pub fn run(root: &Path, arguments: &[&str]) -> ExitCode {
    match command(root, arguments).status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("sim: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The command that builds the program and runs it.
pub fn command(root: &Path, arguments: &[&str]) -> Command {
    let planted = arguments.iter().any(|word| word.starts_with("--planted"));
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root).args(["run", "--quiet", "--profile", "sim"]);
    command.args(["-p", "pumice-tests", "--bin", "sim"]);
    if planted {
        let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".into());
        command.env("RUSTFLAGS", PLANTED).args(["--target-dir", &format!("{target}/planted")]);
    }
    command.arg("--").args(arguments);
    command
}
