//! The suites of `cargo xtask test --quick`: broad and short.
//!
//! Separate from `all` because it builds in a fraction of the time.
#![allow(clippy::unwrap_used)]

mod basic;
mod charges;
#[path = "../common/mod.rs"]
mod common;
mod everyday;
mod multi_get;
mod option_rows;
mod persistent_cache;
mod secondary_cache;
