//! `cargo xtask transactions`: the long forms of the suites of transactions, of which CI runs a
//! share.
//!
//! | part | what |
//! |---|---|
//! | batches | 1,000 drawn batches with an index against sorted maps |
//! | oracle | such batches and schedules of up to 8 transactions beside RocksDB 11.8.1 |
//! | histories | 100,000 transactions of each kind on threads and on fibers, checked for cycles |
//! | sim | 1,000 simulated lives with crashes |
//!
//! With names of parts it runs these. It stops at the first that fails.

use std::path::Path;
use std::process::{Command, ExitCode};

use crate::sim;

/// What is run: a part's name, the arguments of `cargo test`, the environment.
type Run = (&'static str, &'static [&'static str], &'static [(&'static str, &'static str)]);

const RUNS: &[Run] = &[
    (
        "batches",
        &["-p", "pumice", "--lib", "a_batch_over_a_database_is_the_database_after_it"],
        &[("PUMICE_SEEDS", "1000")],
    ),
    (
        "oracle",
        &["-p", "pumice-capi", "--test", "library", "programs::drawn_transactions"],
        &[("PUMICE_SEEDS", "1000")],
    ),
    (
        "histories",
        &["-p", "pumice-tests", "--test", "all", "transactions::", "--", "--nocapture"],
        &[("PUMICE_TRANSACTIONS", "100000")],
    ),
    (
        "histories",
        &["-p", "pumice-tests", "--test", "all", "transactions::", "--", "--nocapture"],
        &[("PUMICE_TRANSACTIONS", "100000"), ("PUMICE_RUNTIME", "fibers")],
    ),
];

/// Runs the parts named, or all.
pub fn run(root: &Path, parts: &[&str]) -> ExitCode {
    let known = |part: &&str| *part == "sim" || RUNS.iter().any(|(name, ..)| name == part);
    if let Some(unknown) = parts.iter().find(|part| !known(part)) {
        eprintln!("cargo xtask transactions: {unknown} is no part");
        return ExitCode::from(2);
    }
    let wanted = |name: &str| parts.is_empty() || parts.contains(&name);
    for (name, arguments, environment) in RUNS.iter().filter(|(name, ..)| wanted(name)) {
        println!("{name} {environment:?}");
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
        let mut command = Command::new(cargo);
        command.current_dir(root).arg("test").args(*arguments);
        command.envs(environment.iter().copied());
        match command.status() {
            Ok(status) if status.success() => {}
            Ok(_) => return ExitCode::FAILURE,
            Err(error) => {
                eprintln!("cargo xtask transactions: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    match wanted("sim") {
        true => sim::run(root, &["--suite", "T-txn", "--seeds", "1000"]),
        false => ExitCode::SUCCESS,
    }
}
