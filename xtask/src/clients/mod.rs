//! Programs that others wrote, against the server and the C library.
//!
//! | command | program | against |
//! |---|---|---|
//! | `clients` | redis-py, ioredis, node-redis, go-redis, Jedis | `pumice serve` |
//! | `clients c_test` | RocksDB's test of its C interface | `target/capi` |
//! | `clients rust-rocksdb` | the tests of the crate `rocksdb` | `target/capi` |
//! | `clients grocksdb` | the tests of the Go package | `target/capi` |
//! | `clients balboa` | Debian's store for passive DNS, built for RocksDB 7.8 | `target/capi` |
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
    [c_test [--valgrind] | rust-rocksdb [--library DIR] | grocksdb [--library DIR] | balboa]";

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
    let library = || library::find(root, library);
    let result = match name {
        "c_test" => c_test::run(root, words.len() > 1),
        "rust-rocksdb" => library().and_then(|library| rust_rocksdb::run(root, &library)),
        "grocksdb" => library().and_then(|library| grocksdb::run(root, &library)),
        "balboa" => library().and_then(|library| balboa::run(root, &library)),
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

fn wrong_usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}
