//! The library as C sees it: its names, defaults, properties, errors, and what programs in C print
//! with it and with RocksDB 11.8.1.
//!
//! Plain tests: programs are processes, and calls come from threads of C.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // Not part of the engine.

mod boundary;
mod c_test;
mod costs;
mod misuse;
mod names;
mod ownership;
mod planted;
mod programs;
mod properties;
mod threads;

use std::path::PathBuf;

/// What the build script wrote.
fn out_dir() -> PathBuf {
    PathBuf::from(env!("OUT_DIR"))
}

/// The shared library, which cargo builds next to this program.
fn shared_library() -> PathBuf {
    let own = std::env::current_exe().expect("a program has a path");
    let folder = own.parent().expect("a program lies in a folder");
    let library = folder.join("librocksdb.so");
    assert!(library.is_file(), "{} is not there", library.display());
    library
}
