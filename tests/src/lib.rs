//! What the integration tests and the simulation share.
//!
//! | module | holds |
//! |---|---|
//! | `stores` | Pumice and RocksDB behind the testkit's interface, and the settings of databases |
//! | `sim` | the simulation suites: random lives, crash points, faults, transactions, the ring |
//! | `transactions` | transactions by seed, and the judge of what they did |
//!
//! Reading order for `sim`: `verdict` (what can be wrong), `world` and `session` (a database with
//! its judge), then the suites. docs/testing.md says what they show.
#![forbid(unsafe_code)]

pub mod sim;
pub mod stores;
pub mod transactions;
