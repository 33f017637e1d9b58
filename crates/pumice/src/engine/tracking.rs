//! What a job says of itself while it runs, with `enable_thread_tracking` (`stats::thread_status`).
//!
//! Thread safety: on the thread that runs the job.

use std::sync::Arc;

use pumice_memtable::MemTable;

use crate::engine::DbInner;
use crate::state::work::CompactionWork;
use crate::stats::thread_status::{ThreadOperation, ThreadStage, Tracked};
use crate::version::family::CfData;

impl DbInner {
    /// Lists a compaction, which has no number yet.
    pub(super) fn track_compaction(&self, work: &CompactionWork) -> Tracked {
        if !self.options().enable_thread_tracking {
            return Tracked::default();
        }
        let pick = &work.pick;
        let levels = ((pick.start_level as u64) << 32) | pick.output_level as u64;
        // In the bits where they are looked for.
        let kinds = [work.manual.is_some(), pick.is_deletion, pick.is_trivial_move];
        let kinds = kinds.iter().zip(1..).map(|(is, bit)| u64::from(*is) << bit).sum();
        let properties = [0, levels, kinds, pick.input_bytes(), 0, 0];
        let (operation, stage) = (ThreadOperation::Compaction, ThreadStage::CompactionPrepare);
        Tracked::new(&self.dir.path, &work.cf.name, operation, stage, properties)
    }

    /// Lists the flush `job` of `mems`.
    pub(super) fn track_flush(&self, cf: &CfData, mems: &[Arc<MemTable>], job: u64) -> Tracked {
        if !self.options().enable_thread_tracking {
            return Tracked::default();
        }
        let bytes = mems.iter().map(|mem| mem.memory_bytes() as u64).sum();
        let properties = [job, bytes, 0, 0, 0, 0];
        let (operation, stage) = (ThreadOperation::Flush, ThreadStage::FlushRun);
        Tracked::new(&self.dir.path, &cf.name, operation, stage, properties)
    }
}
