//! `cargo xtask python`: the wheel of `crates/python`, installed and tested in a fresh environment.
//!
//! maturin and pytest come from PyPI into `target/python`. `--wheel` makes the wheel alone,
//! `--quick` tests one that is not optimised, which is built in a fifth of the time. Needs Python
//! 3.11 or later with `venv`.
//!
//! Thread safety: one caller, one process.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::suite::target;

/// Runs it with the words after `python`.
pub fn run(root: &Path, words: &[&str]) -> ExitCode {
    let done = match words {
        [] => wheel(root, true).and_then(|wheel| test(root, &wheel)),
        ["--quick"] => wheel(root, false).and_then(|wheel| test(root, &wheel)),
        ["--wheel"] => wheel(root, true).map(|wheel| println!("python: {}", wheel.display())),
        _ => Err("usage: cargo xtask python [--wheel | --quick]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("cargo xtask python: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run_command(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|error| format!("{name}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name}: {status}")) }
}

/// An environment with these packages from PyPI; what is there already stays.
fn environment(folder: &Path, packages: &[&str]) -> Result<(), String> {
    let python = folder.join("bin/python");
    if !python.exists() {
        run_command(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
    }
    let mut install = Command::new(python);
    run_command(install.args(["-m", "pip", "install", "--quiet"]).args(packages))
}

/// Makes the wheel, and returns where it is.
fn wheel(root: &Path, optimised: bool) -> Result<PathBuf, String> {
    let folder = target(root).join("python");
    let tools = folder.join("tools");
    environment(&tools, &["maturin>=1.9,<2"])?;
    let wheels = folder.join("wheels");
    // Only one version is there.
    if wheels.exists() {
        std::fs::remove_dir_all(&wheels).map_err(|error| error.to_string())?;
    }
    let mut build = Command::new(tools.join("bin/maturin"));
    build.current_dir(root.join("crates/python")).args(["build", "--locked"]);
    if optimised {
        build.arg("--release");
    }
    build.arg("--out").arg(&wheels).env("CARGO_TARGET_DIR", folder.join("build"));
    run_command(&mut build)?;
    let entries = std::fs::read_dir(&wheels).map_err(|error| error.to_string())?;
    let mut paths = entries.flatten().map(|entry| entry.path());
    let wheel = paths.find(|path| path.extension().is_some_and(|end| end == "whl"));
    wheel.ok_or_else(|| "maturin made no wheel".to_string())
}

/// Installs the wheel into an environment of its own and runs the tests there.
fn test(root: &Path, wheel: &Path) -> Result<(), String> {
    let folder = target(root).join("python/fresh");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(|error| error.to_string())?;
    }
    environment(&folder, &["pytest", &wheel.display().to_string()])?;
    let mut pytest = Command::new(folder.join("bin/python"));
    // Its cache would lie in the tree.
    pytest.args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]);
    run_command(pytest.current_dir(root.join("crates/python")).env("PYTHONDONTWRITEBYTECODE", "1"))
}
