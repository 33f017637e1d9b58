//! Compaction: merging table files down the levels.
//!
//! | part | is |
//! |---|---|
//! | `picker` | what to compact: pure, from versions and scores |
//! | `plan` | a column family's scores, targets and running compactions |
//! | `cut` | where one output file ends and the next begins |
//! | `subcompaction` | one key range of a job: merge, filter, write |

pub(crate) mod cut;
pub(crate) mod picker;
pub(crate) mod plan;
pub(crate) mod subcompaction;
