//! Programs that others wrote, against the server and the C library.
//!
//! | command | program | against |
//! |---|---|---|
//! | `clients` | redis-py, ioredis, node-redis, go-redis, Jedis | `pumice serve` |
//! | `clients c_test` | RocksDB's test of its C interface | `target/capi` |
//! | `clients rust-rocksdb` | the tests of the crate `rocksdb` | `target/capi` |
//! | `clients grocksdb` | the tests of the Go package | `target/capi` |
//! | `clients balboa` | Debian's store for passive DNS, built for RocksDB 7.8 | `target/capi` |
//! | `clients all` | those on the C library, one after the other | `target/capi` |
//!
//! `--library DIR` runs the tests of a binding on another library, for example RocksDB's own:
//! `DIR/lib/librocksdb.so` with its header in `DIR/include`. All sources come from registries, are
//! pinned, and are never committed.
//!
//! Thread safety: one command at a time in a folder of build output.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

mod balboa;
mod c_test;
mod expected;
mod grocksdb;
pub mod library;
mod redis;
mod rust_rocksdb;

const USAGE: &str = "usage: cargo xtask clients \
    [all | c_test [--valgrind] | rust-rocksdb [--library DIR] | grocksdb [--library DIR] | balboa]";

/// `cargo xtask clients WORDS`.
pub fn run(root: &Path, words: &[&str]) -> ExitCode {
    let (name, library) = match words {
        [] => return redis::run(root),
        [name] | [name @ "c_test", "--valgrind"] => (*name, None),
        [name @ ("rust-rocksdb" | "grocksdb"), "--library", folder] => {
            (*name, Some(PathBuf::from(folder)))
        }
        _ => return wrong_usage(),
    };
    let result = match name {
        "all" => all(root),
        name if ON_C_LIBRARY.contains(&name) => one(root, name, library, words.len() > 1),
        _ => return wrong_usage(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("cargo xtask clients {name}: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Programs on the C library.
const ON_C_LIBRARY: [&str; 4] = ["c_test", "rust-rocksdb", "grocksdb", "balboa"];

fn one(root: &Path, name: &str, library: Option<PathBuf>, valgrind: bool) -> Result<(), String> {
    let library = || library::find(root, library);
    match name {
        "c_test" => c_test::run(root, valgrind),
        "rust-rocksdb" => rust_rocksdb::run(root, &library()?),
        "grocksdb" => grocksdb::run(root, &library()?),
        _ => balboa::run(root, &library()?),
    }
}

/// All of them, also after one has failed.
fn all(root: &Path) -> Result<(), String> {
    let results = ON_C_LIBRARY.map(|name| (name, one(root, name, None, false)));
    for (name, result) in &results {
        let words = result.as_ref().map_or_else(|why| format!("FAIL: {why}"), |()| "PASS".into());
        println!("clients: {name}: {words}");
    }
    match results.iter().filter(|(_, result)| result.is_err()).count() {
        0 => Ok(()),
        failed => Err(format!("{failed} of {} fail", ON_C_LIBRARY.len())),
    }
}

fn wrong_usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}
