//! The engine's integration tests, in one program: it links once.
//!
//! A folder is a subject, a file in it a suite. `cargo xtask test` runs each folder in its own
//! process, plain `cargo test` all of them in one: a suite may not depend on, or change for others,
//! what belongs to the process (environment, limits, signals, the allocator, the priorities of the
//! thread pools, forks, `planted`). Suites that must are programs of their own, next to this
//! folder, or run their tests in child processes of this one (`common::test_name`).
#![allow(clippy::unwrap_used)]

mod api;
mod blobs;
mod code;
#[path = "../common/mod.rs"]
mod common;
mod compaction;
mod extensions;
mod files;
mod read;
mod recovery;
mod stats;
mod tasks;
mod timestamps;
mod traces;
mod whole;
mod write;
