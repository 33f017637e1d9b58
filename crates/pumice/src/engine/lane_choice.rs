//! At which priority background jobs compute: the lanes of a database.
//!
//! | job | lane |
//! |---|---|
//! | flushes | normal |
//! | compactions out of L0 while the family is under pressure ([`URGENT_PRESSURE`]) | normal |
//! | automatic ones out of L0 that need little processor time (`level0_cost`) | normal |
//! | all jobs that start while writes wait (`Scheduler::writes_wait`) | normal |
//! | all other compactions | deferred |
//!
//! The deferred lane has `background_cpu_priority` and `background_io_priority`, the normal one
//! that of its pool. Only computing runs there (`port::lane`): a job picks, installs and reports on
//! a thread that is never lowered, and steps that take a lock of readers or writers are handed to
//! it.
//!
//! Thread safety: everything from anywhere.

use crate::compaction::compaction_env::LaneKind;
use crate::engine::DbInner;
use crate::state::DbState;
use crate::state::lanes::{Lanes, URGENT_PRESSURE, wanted};
use crate::state::parts::Background;
use crate::state::work::CompactionWork;

impl DbInner {
    /// The options may have changed: running jobs follow. Suspends; not under the state lock.
    pub(crate) fn refresh_lanes(&self) {
        let refused = self.background.lanes.deferred.set_priority(wanted(&self.options()));
        if refused > 0 {
            self.reports.info(format_args!(
                "{refused} running compactions keep their priority, which takes a privilege to \
                 raise; the next ones have the new one"
            ));
        }
    }
}

impl Lanes {
    /// A compaction with files of L0 ended; `cpu_micros` are of all its threads.
    pub fn count_level0(&self, work: &CompactionWork, cpu_micros: u64) {
        // Without another level, merging is all that happens to a byte.
        if work.pick.output_level == 0 && work.version.num_levels() > 1 {
            return self.level0_merged(cpu_micros);
        }
        let level0 = work.pick.input_files().filter(|(level, _)| *level == 0);
        self.level0_compacted(level0.map(|(_, file)| file.file_size).sum(), cpu_micros);
    }
}

impl Background {
    /// The lane of a compaction that starts now; `writes_wait`: writes wait for background work.
    pub fn lane_of(&self, state: &DbState, work: &CompactionWork, writes_wait: bool) -> LaneKind {
        let pressed = || {
            let family = state.cfs.get(&work.cf.id);
            family.is_some_and(|cf| cf.pressure() > URGENT_PRESSURE)
        };
        let cheap = || work.manual.is_none() && !self.lanes.level0_compaction_is_costly();
        match writes_wait || (work.pick.start_level == 0 && (pressed() || cheap())) {
            true => LaneKind::Normal,
            false => LaneKind::Deferred,
        }
    }
}
