//! `pumice db_bench` and RocksDB's: which of its flags, benchmarks and scripts work, counted,
//! and that the benchmarks do what their names say.
//!
//! The lists of names and the commands of the scripts are the text files in this folder.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod benchmarks;
mod blob_db;
mod caches;
mod counts;
mod databases;
mod machine;
mod managers;
mod other_engines;
mod scripts;
mod traces;

use std::path::Path;
use std::process::Command;

/// What a run printed, and whether it succeeded.
struct Run {
    ok: bool,
    out: String,
    err: String,
}

impl Run {
    /// Standard output; the run must have succeeded.
    fn good(self) -> String {
        assert!(self.ok, "{}{}", self.out, self.err);
        self.out
    }

    /// Standard error; the run must have failed in words, not in a panic.
    fn bad(self) -> String {
        assert!(!self.ok && !self.err.contains("panicked"), "{}{}", self.out, self.err);
        self.err
    }
}

/// Runs `pumice db_bench` in `dir`; `words` are split at blanks.
fn db_bench(dir: &Path, words: &str) -> Run {
    db_bench_with(dir, words, &[])
}

/// The same with variables of the environment.
fn db_bench_with(dir: &Path, words: &str, variables: &[(&str, &str)]) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_pumice"))
        .current_dir(dir)
        .envs(variables.iter().copied())
        .env("TEST_TMPDIR", dir)
        .arg("db_bench")
        .args(words.split_whitespace())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Run { ok: output.status.success(), out: text(&output.stdout), err: text(&output.stderr) }
}

/// The lines of a list that are not remarks.
fn lines(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter(|line| !line.starts_with('#') && !line.is_empty())
}

/// The line of benchmark `name`: it ran.
fn result<'a>(output: &'a str, name: &str) -> &'a str {
    let line = output.lines().find(|line| {
        let words: Vec<&str> = line.split_whitespace().take(2).collect();
        words == [name, ":"] && line.contains(" micros/op ")
    });
    line.unwrap_or_else(|| panic!("no result of {name}:\n{output}"))
}
