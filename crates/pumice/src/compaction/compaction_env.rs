//! What a compaction asks of the database it works for, beyond what any writer of tables does.
//!
//! Thread safety: an environment is shared by all jobs of a database.

use std::path::Path;

use pumice_base::Result;
use pumice_port::lane::Lane;

use crate::callbacks::Entered;
use crate::compaction::subcompaction::{JobContext, SubcompactionResult};
use crate::options::requests::CancelFlag;
use crate::stats::listener::SubcompactionJobInfo;
use crate::table_output::env::OutputEnv;

/// Which lane a job computes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaneKind {
    Normal,
    Deferred,
}

/// A part of a job: its number, and the user keys that it lies between.
pub(crate) type Part<'a> = (usize, &'a Option<Vec<u8>>, &'a Option<Vec<u8>>);

/// See the module head.
pub(crate) trait CompactionEnv: OutputEnv {
    /// Where a job of that kind computes.
    fn lane(&self, kind: LaneKind) -> &Lane;
    /// Marks the task as one that the database waits for.
    fn enter_job(&self) -> Entered;
    /// # Errors
    /// Aborted when the database closes, Incomplete while compactions are aborted.
    fn check_open(&self) -> Result<()>;
    /// # Errors
    /// Incomplete when the manual compaction with that switch was paused, cancelled or aborted.
    fn check_manual(&self, canceled: Option<&CancelFlag>) -> Result<()>;
    /// Tells the listeners that a part of a job begins, or that it `ended`.
    fn note_part(&self, part: &SubcompactionJobInfo, ended: bool);
    /// The result of a part of `job` that another process does; None if it is to be done here.
    fn run_elsewhere(
        &self,
        job: &JobContext,
        part: Part<'_>,
    ) -> Option<Result<SubcompactionResult>>;
    /// The table at `path` is complete and has `bytes` bytes.
    ///
    /// # Errors
    /// IoError if the database must not grow that much.
    fn end_output(&self, path: &Path, bytes: u64) -> Result<()>;
}
