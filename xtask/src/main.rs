//! `cargo xtask`: the project's chores, with nothing but the standard library.
//!
//! | command | does |
//! |---|---|
//! | `peers` | brings the RocksDB programs and library that tests compare with |
//! | `peers --native` | builds RocksDB for this processor; `--configure` does not compile |
//! | `tidy`  | checks the rules of the house that rustfmt and clippy cannot |
//! | `test`  | peers, fmt, clippy, tidy, every test on every backend; the last line counts them |
//! | `test --quick` | fmt, clippy, tidy, the libraries' tests and a few suites on threads |
//! | `sim`   | the simulation suites; see tests/src/bin/sim.rs for its arguments |
//! | `transactions` | the long forms of the suites of transactions; names of parts run these |
//! | `clients` | the Redis clients of other languages against the server |
//! | `clients NAME` | `c_test`, `rust-rocksdb`, `grocksdb`, `balboa` on the C library; `all` |
//! | `examples` | the programs in `crates/pumice/examples`: each runs and prints what it must |
//! | `capi` | the C library, its header and pkg-config file; `--install PREFIX`, `--soname NAME` |
//! | `jni` | the library that RocksDB's Java classes load, and its tests; see `jni/mod.rs` |
//! | `deb` | a Debian package in `target/deb`; `--try` installs, upgrades and removes it |
//! | `notices` | THIRD-PARTY.md: what is compiled into the program, and its licences |
//! | `api-lines` | the table of docs/api-comparison.md, which tidy compares |
//! | `python` | the wheel of crates/python, installed and tested; `--wheel` makes it alone |
//! | `publish` | whether the crates could be published; it publishes none |
//! | `loom`  | the models of port's primitives alone |
//!
//! Not here: builds of the product and benchmarks, which are plain `cargo` commands.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // A tool, not the engine.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

mod capi;
mod clients;
mod deb;
mod examples;
mod jni;
mod native;
mod notices;
mod peers;
mod publish;
mod python;
mod sim;
mod suite;
mod tidy;
mod transactions;

const USAGE: &str = "usage: cargo xtask (peers [--native [--configure]] | tidy | test | \
    clients | capi | jni | deb | examples | notices | api-lines | loom | publish | python | \
    transactions [parts] | sim [arguments])";

/// The workspace root: the folder above this package.
fn repo_root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().expect("the package lies inside the workspace").to_path_buf()
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let root = repo_root();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["peers"] => match peers::install(&root) {
            Ok(peers) => {
                println!("ldb      {}", peers.ldb.display());
                println!("rocksdb  {}", peers.rocksdb_so.display());
                ExitCode::SUCCESS
            }
            Err(message) => {
                eprintln!("cargo xtask peers: {message}");
                ExitCode::FAILURE
            }
        },
        ["peers", "--native", rest @ ..] if matches!(rest, [] | ["--configure"]) => {
            match native::install(&root, !rest.is_empty()) {
                Ok(made) => {
                    println!("native   {}", made.display());
                    ExitCode::SUCCESS
                }
                Err(message) => {
                    eprintln!("cargo xtask peers --native: {message}");
                    ExitCode::FAILURE
                }
            }
        }
        ["tidy"] => match tidy::run(&root) {
            0 => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        },
        ["test", rest @ ..] => suite::run(&root, rest),
        ["clients", rest @ ..] => clients::run(&root, rest),
        ["capi", rest @ ..] => capi::run(&root, rest),
        ["jni", rest @ ..] => jni::run(&root, rest),
        ["deb", rest @ ..] => deb::run(&root, rest),
        ["notices"] => notices::run(&root),
        ["examples"] => examples::run(&root),
        ["api-lines"] => match tidy::api_lines::table(&root) {
            Ok(table) => {
                print!("{table}");
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("cargo xtask api-lines: {error}");
                ExitCode::FAILURE
            }
        },
        ["python", rest @ ..] => python::run(&root, rest),
        ["publish", rest @ ..] => publish::run(&root, rest),
        ["sim", rest @ ..] => sim::run(&root, rest),
        ["transactions", rest @ ..] => transactions::run(&root, rest),
        ["loom"] => suite::run(&root, &["--only", "loom"]),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}
