//! Compaction: merging table files down the levels.
//!
//! | part | is |
//! |---|---|
//! | `picker` | what to compact: pure, from versions and scores |
//! | `plan` | a column family's scores, targets and running compactions |
//! | `cut` | where one output file ends and the next begins |
//! | `subcompaction` | one key range of a job: merge, filter, write |
//! | `outlet`, `placement` | where the entries that are kept go |
//! | `service` | messages about compactions that another process does |
//! | `timed_filter` | how long the user's filter takes |
//! | `compaction_env` | what it asks of its database |
//!
//! The job that picks, runs and installs is `engine::compaction_job`.

pub(crate) mod compaction_env;
pub(crate) mod cut;
mod outlet;
pub(crate) mod picker;
pub(crate) mod placement;
pub(crate) mod plan;
pub(crate) mod service;
pub(crate) mod subcompaction;
mod timed_filter;
