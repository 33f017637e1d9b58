//! How much background work is done, and when: policies.
//!
//! A policy is a function of plain data: no clock, no lock, no file. The engine reports events to
//! it and does what it says; nothing here names the engine's rooms.
//!
//! | part | is |
//! |---|---|
//! | `level0_cost` | processor time of compactions out of L0: whether they are lowered |
//! | `policy` | input and output of a policy's tick |
//! | `adaptive` | the policy under which a lasting peak slows writes and never stops them |
//! | `drain_rule` | whether automatic compaction makes way for flushes, by who drains the limiter |
//! | `read_watch` | whether users' reads meet their latency target |
//! | `tuner` | `drain_rule` under a lock, fed by requests to the rate limiter |
//!
//! Thread safety: as each part says.

pub(crate) mod adaptive;
pub(crate) mod drain_rule;
pub(crate) mod level0_cost;
pub(crate) mod policy;
pub(crate) mod read_watch;
pub(crate) mod tuner;
