//! What the test suites share: operations by seed, a model to compare with, a crash oracle.
//!
//! | module | holds |
//! |---|---|
//! | `seed` | which seeds a run covers; `PUMICE_SEED` |
//! | `op`, `generator` | operations, and their seeded generator |
//! | `store` | the interface under which engines and the model are compared |
//! | `model` | the expected state: sorted maps with cheap snapshots |
//! | `differential` | random work on a store, each answer checked against the model |
//! | `workload` | fixed work that leaves a database of a wanted shape |
//! | `contents` | what a database holds, as a value and as a file |
//! | `oracle` | which states a crash may leave, one writer |
//! | `history` | which answers and recovered states several writers allow |
//! | `serial` | which isolation level a history of transactions could have come from |
//! | `alloc` | an allocator that remembers the largest request |
//!
//! Everything here is deterministic by its seed: no clock, no thread, no file except those that
//! `contents` encodes. It does not depend on an engine: the suites implement `store::Engine` for
//! each.
#![deny(unsafe_code)]

pub mod alloc;
pub mod contents;
pub mod differential;
pub mod generator;
pub mod history;
pub mod model;
pub mod op;
pub mod oracle;
pub mod seed;
pub mod serial;
pub mod store;
pub mod workload;

pub use generator::{OpGenerator, Shape};
pub use history::History;
pub use model::Model;
pub use op::Op;
pub use store::{Engine, Store};

/// What a key of a store holds.
pub type Entry = (Vec<u8>, Vec<u8>);
