//! Tests of the manifest crate through its public interface.
#![allow(clippy::unwrap_used, missing_docs)]

mod builder;
mod edit;
mod real;
mod scores;
mod search;
mod text;
