//! The simulation suites: one seed, one run, judged.
//!
//! | suite | module | a seed |
//! |---|---|---|
//! | T1 | `life` | a random life with several tasks, faults and crashes |
//! | T2 | `boundaries` | boundaries of one of 320 short workloads, each with several crash images |
//! | T3 | `failures` | some operations of one of 16 scenarios fail in one of the ways |
//! | T-txn | `txn` | a random life with transactions, crashes in the middle of commits |
//! | T-ring | `ring` | a model of the io_uring reactor under a seeded kernel |
//!
//! Which suite a seed belongs to follows from the seed, so a seed alone repeats a run.

pub mod boundaries;
pub mod driver;
pub mod external;
pub mod failures;
pub mod host;
mod ingest_behind;
pub mod life;
pub mod operate;
pub mod plan;
pub mod reads;
pub mod ring;
pub mod run;
pub mod script;
pub mod session;
pub mod side;
pub mod txn;
pub mod verdict;
pub mod visits;
pub mod weather;
pub mod world;
