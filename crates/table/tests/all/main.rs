//! The integration tests of tables, in one program: it links once.
//!
//! Separate programs outside this folder: `allocations` and `hostile` count what the process
//! allocates, `mutation` turns on planted bugs of the process.
#![allow(clippy::unwrap_used, missing_docs)]

mod aligned;
#[path = "../support/builds.rs"]
mod builds;
mod charges;
mod damage;
mod embedded;
mod filters;
mod identical;
mod index_kinds;
mod managers;
mod model;
mod other_formats;
mod parallel;
mod passing;
mod persistent;
mod prefix;
#[path = "../support/prefixed.rs"]
mod prefixed;
mod prepopulate;
#[path = "../support/recorded_file.rs"]
mod recorded_file;
mod sampling;
mod secondary;
mod sst_dump;
#[path = "../support/mod.rs"]
mod support;
mod too_large;
mod uncache;
mod verify;
