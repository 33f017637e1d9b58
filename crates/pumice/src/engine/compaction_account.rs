//! How soon writers wait for a compaction, and the account of what it writes.
//!
//! Thread safety: `account` requires the state lock.

use crate::engine::DbInner;
use crate::state::DbState;
use crate::state::work::CompactionWork;

impl DbInner {
    /// Opens the account of a compaction's writes, if it writes and somebody goes by it.
    pub(crate) fn account(&self, state: &mut DbState, work: &mut CompactionWork) {
        let pick = &work.pick;
        if pick.is_trivial_move || pick.is_deletion {
            return;
        }
        let level0 = pick.start_level == 0;
        work.io = self.job_io(work.io_class());
        let family = state.cfs.get_mut(&work.cf.id);
        if let (true, Some(io), Some(cf)) = (level0, &work.io, family) {
            let taken = pick.input_files().filter(|(level, _)| *level == 0).count();
            let put = usize::from(pick.output_level == 0);
            cf.level0_begins(io, taken - put.min(taken), pick.input_entries());
        }
    }
}
