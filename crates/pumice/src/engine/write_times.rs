//! When entries were written: samples are taken, and compactions find those of their input.
//!
//! A sample is the newest published sequence number and the time, taken by the task of
//! `expiry_task` and at once when options begin to ask for it; writes do nothing for it. A
//! compaction keeps the sequence numbers of entries that are younger than the option says, by what
//! its inputs know: RocksDB's `CompactionJob::Prepare` of 11.8.
//!
//! Thread safety: functions that take a `DbState` run under the state lock and do not wait. Looking
//! at inputs may open tables, and so suspend.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pumice_base::SequenceNumber;
use pumice_port::time::wall_seconds;
use pumice_table::SeqnoToTimeMapping;

use crate::compaction::placement::Placement;
use crate::compaction::subcompaction::InputTimes;
use crate::engine::DbInner;
use crate::state::DbState;
use crate::state::work::{CompactionWork, oldest_time};
use crate::state::write_times::{self, SAMPLES_MAX};
use crate::table_output::output_file::EntryTimes;

impl DbInner {
    /// The database is open for writing, and new unless it `exists`.
    pub(super) fn begin_write_times(&self, exists: bool) {
        let mut state = self.state.lock();
        keep(&mut state);
        if !exists && state.times.next_sample().is_some() {
            state.times.begin(self.last_sequence.load(Ordering::Acquire), wall_seconds());
        }
        self.refresh_write_times(&mut state);
    }

    /// Families or their options have changed. What is written from now on to one that keeps times
    /// is newer than some sample.
    pub(super) fn refresh_write_times(&self, state: &mut DbState) {
        let changed = keep(state);
        if state.times.next_sample().is_none() {
            return write_times::publish(state, false);
        }
        let now = wall_seconds();
        match changed || state.times.is_due(now) {
            true => self.sample_write_time(state, now),
            false => write_times::publish(state, false),
        }
        self.background.expiry_changed.notify_all();
    }

    /// Takes a sample.
    pub(super) fn sample_write_time(&self, state: &mut DbState, now: u64) {
        state.times.sample(self.last_sequence.load(Ordering::Acquire), now);
        write_times::publish(state, true);
    }

    /// When entries of the input were written.
    pub(super) fn input_times(
        &self,
        work: &CompactionWork,
        oldest_snapshot: SequenceNumber,
    ) -> InputTimes {
        let (oldest_ancestor, newest) = (oldest_time(work), work.pick.newest_key_time());
        let entries = EntryTimes { oldest_ancestor, newest, samples: None };
        let options = work.cf.options();
        let (kept, precluded) = (options.kept_times(), options.preclude_last_level_data_seconds);
        if kept == 0 {
            return InputTimes { entries, zeroed_to: None, placement: None };
        }
        let tables = work.cf.tables();
        let mut known = Vec::new();
        for (level, file) in work.pick.input_files() {
            let table = tables.table_at(file, level);
            match table.and_then(|t| SeqnoToTimeMapping::decode(&t.properties().seqno_time_map)) {
                Ok(times) => known.push(times),
                Err(error) => self.reports.warn(format_args!(
                    "Problem reading or processing seqno-to-time mapping: {error}"
                )),
            }
        }
        let mut times = SeqnoToTimeMapping::merged(known.iter());
        let now = wall_seconds();
        let proximal = work.pick.outputs.proximal.as_ref().filter(|_| precluded > 0);
        let placement = proximal.map(|output| {
            // The database may know more of what was just written than its tables do.
            let own = work.cf.super_version.load().times.clone();
            let times = SeqnoToTimeMapping::merged([&times].into_iter().chain(own.as_deref()));
            Placement::new(output, &times, (now.saturating_sub(precluded), now), oldest_snapshot)
        });
        let since = now.saturating_sub(kept);
        times.forget_before(since);
        let zeroed_to = Some(times.newest_at(since));
        times.thin_out(SAMPLES_MAX);
        let samples = Some(Arc::new(times));
        InputTimes { entries: EntryTimes { samples, ..entries }, zeroed_to, placement }
    }
}

fn keep(state: &mut DbState) -> bool {
    let live = state.cfs.values().filter(|cf| !cf.data.is_dropped());
    state.times.keep(live.map(|cf| cf.data.options().kept_times()))
}
