//! The integration suites, in one binary.
//!
//! | suite | shows |
//! |---|---|
//! | `differential` | a million random operations give what the model gives, as does RocksDB |
//! | `beside` | the same options and calls end alike in both engines |
//! | `compat` | both engines and Debian's tools read each other's databases |
//! | `matrix` | tables of every kind, written by either engine, are read by the other |
//! | `crash` | a crash leaves a state that the write options allow |
//! | `faults` | any single failing I/O operation keeps the promises |
//! | `corruption` | a flipped byte is an error, harmless, or a documented tail drop |
//! | `sim` | a share of the simulation suites: crashes, faults, schedules by seed |
//! | `transactions` | histories have the anomalies that their isolation permits, and no other |
//! | `errors` | bad input is refused with the right words and changes nothing |
//!
//! RocksDB, and anything that watches its allocations, runs in a child process: this binary called
//! again for one job (`child`). More in docs/testing.md.
#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // Above the engine, not in it.

mod beside;
mod child;
mod compat;
mod corruption;
mod crash;
mod differential;
mod errors;
mod faults;
mod matrix;
mod sim;
mod stores;
mod transactions;

#[global_allocator]
static ALLOCATOR: pumice_testkit::alloc::WatchingAllocator =
    pumice_testkit::alloc::WatchingAllocator::new();
