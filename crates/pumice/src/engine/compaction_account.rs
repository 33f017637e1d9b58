//! How soon writers wait for a compaction, and the account of what it writes.
//!
//! Thread safety: `account` requires the state lock.

use pumice_env::IoClass;

use crate::engine::compaction_job::CompactionWork;
use crate::engine::{DbInner, DbState};
use crate::options::CompactionStyle;

impl CompactionWork {
    /// How soon writers wait for it.
    pub(crate) fn io_class(&self) -> IoClass {
        match (self.pick.start_level, self.pick.output_level) {
            (0, 0) => IoClass::Merge,
            (0, _) => IoClass::Level0,
            _ => IoClass::Deep,
        }
    }

    /// It is none that compactions out of L0 wait for: those of the level below L0 cannot run
    /// beside them.
    pub(crate) fn is_deep(&self) -> bool {
        let leveled = self.cf.options().compaction_style == CompactionStyle::Level;
        let start = self.pick.start_level;
        start != 0 && !(leveled && start == self.base_level)
    }
}

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
            Self::level0_begins(cf, io, taken - put.min(taken), pick.input_entries());
        }
    }
}
