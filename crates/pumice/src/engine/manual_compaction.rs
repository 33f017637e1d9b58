//! `CompactRange`: compacting a key range level by level on request.
//!
//! The caller's thread walks the levels; each piece of a level is queued, picked by a background
//! job when nothing conflicts, and reported back here. Moving the result to another level is
//! `change_level`.
//!
//! Thread safety: from any thread; the queue is `state::manual_queue`, under the state lock.
//! Suspends.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pumice_base::narrow::to_usize;
use pumice_base::{Error, Result};
use pumice_env::filename::TableDirs;
use pumice_manifest::{UserRange, Version};

use crate::compaction::picker::FilesRequest;
use crate::compaction::subcompaction::Asked;
use crate::engine::DbInner;
use crate::ingest::place::{level_overlaps, memtables_overlap};
use crate::options::CompactionStyle;
use crate::options::requests::{
    BottommostLevelCompaction, CompactFilesOptions, CompactRangeOptions, FlushOptions,
};
use crate::state::DbState;
use crate::state::manual_queue::{CallerSettings, Request, Written};
use crate::stats::listener::FlushReason;
use crate::version::family::CfData;

const POLL: Duration = Duration::from_millis(200);

impl DbInner {
    /// Compacts `[begin, end]` of a column family.
    pub(crate) fn compact_range(
        self: &Arc<Self>,
        options: &CompactRangeOptions,
        cf: &Arc<CfData>,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<()> {
        self.check_writable()?;
        self.life.mark.check_may_wait()?;
        self.check_range_request(options, cf)?;
        if let Some(low) = &options.full_history_ts_low {
            self.increase_full_history_ts_low(cf, low)?;
        }
        let (begin, end) = whole_range(cf, begin, end);
        let (begin, end) = (begin.as_deref(), end.as_deref());
        let first_new_file = self.new_file_number();
        if needs_flush(cf, begin, end) {
            let allow_write_stall = options.allow_write_stall;
            let flush = FlushOptions { allow_write_stall, ..FlushOptions::default() };
            self.flush_families(&flush, &BTreeSet::from([cf.id]), FlushReason::ManualCompaction)?;
        }
        if cf.options().compaction_style == CompactionStyle::Universal {
            return self.compact_all(options, cf);
        }
        if cf.options().compaction_style == CompactionStyle::Fifo {
            // Nothing changes level: what is due by size or age is done, whatever the range.
            return self
                .compact_level(options, cf, (0, None), (begin, end), u64::MAX, false)
                .map(drop);
        }
        let version = self.state.lock().cfs.get(&cf.id).map(|family| Arc::clone(&family.version));
        let overlapped = version.and_then(|version| overlapped_levels(cf, &version, begin, end));
        let Some((first, deepest)) = overlapped else { return Ok(()) };
        let has_filter = cf.options().has_filter();
        let (rewrite, optimized) = match options.bottommost_level_compaction {
            BottommostLevelCompaction::Skip => (false, false),
            BottommostLevelCompaction::IfHaveCompactionFilter => (has_filter, false),
            BottommostLevelCompaction::Force => (true, false),
            BottommostLevelCompaction::ForceOptimized => (true, true),
        };
        let mut level = first;
        let mut final_level = deepest;
        while level <= deepest {
            let last = level == deepest;
            if last && level > 0 {
                if rewrite {
                    let ignore = if optimized { first_new_file } else { u64::MAX };
                    let here = (level, Some(level));
                    self.compact_level(options, cf, here, (begin, end), ignore, true)?;
                }
                break;
            }
            let output = if level == 0 { None } else { Some(level + 1) };
            let (levels, range) = ((level, output), (begin, end));
            // Data that is only in L0 moves down in one step, which then has to be the one that
            // rewrites.
            let wrote =
                self.compact_level(options, cf, levels, range, u64::MAX, last && rewrite)?;
            let next = wrote.unwrap_or_else(|| self.state.lock().next_level(cf.id, level));
            final_level = final_level.max(next);
            if last {
                break;
            }
            level = next.max(level + 1);
        }
        if options.change_level {
            self.change_level(cf, final_level, options.target_level)?;
        }
        Ok(())
    }

    fn check_range_request(&self, options: &CompactRangeOptions, cf: &CfData) -> Result<()> {
        self.life.check_manual(options.canceled.as_ref())?;
        if to_usize(options.target_path_id.into()) >= cf.dirs.all().len() {
            return Err(Error::invalid_argument("Invalid target path ID"));
        }
        if options.change_level && cf.options().compaction_style == CompactionStyle::Fifo {
            return Err(Error::not_supported("FIFO compaction does not support change_level."));
        }
        Ok(())
    }

    /// Universal compaction: everything goes to the last level, whatever the range.
    fn compact_all(
        self: &Arc<Self>,
        options: &CompactRangeOptions,
        cf: &Arc<CfData>,
    ) -> Result<()> {
        let wrote = self.compact_level(options, cf, (0, None), (None, None), u64::MAX, true)?;
        match wrote {
            Some(level) if options.change_level => {
                self.change_level(cf, level, options.target_level)
            }
            _ => Ok(()),
        }
    }

    /// Compacts one level of the range; returns the level written to, if anything was. With
    /// `rewrite` no file changes level as it is.
    fn compact_level(
        self: &Arc<Self>,
        options: &CompactRangeOptions,
        cf: &CfData,
        levels: (usize, Option<usize>),
        range: (Option<&[u8]>, Option<&[u8]>),
        ignore_from_file: u64,
        rewrite: bool,
    ) -> Result<Option<usize>> {
        let family_options = cf.options();
        let request = Request {
            id: 0,
            family: cf.id,
            input_level: levels.0,
            output_level: levels.1,
            begin: range.0.map(<[u8]>::to_vec),
            end: range.1.map(<[u8]>::to_vec),
            ignore_from_file,
            forbid_move: rewrite || family_options.has_filter(),
            path_id: options.target_path_id,
            files: None,
            caller: CallerSettings {
                exclusive: options.exclusive_manual_compaction,
                max_subcompactions: options.max_subcompactions as usize,
                asked: Asked::of(options),
            },
            running: false,
            wrote_to: None,
            outputs: Written::default(),
            done: None,
        };
        Ok(self.await_request(request)?.wrote_to)
    }

    /// Compacts the files of `files`; returns the job and the numbers of the new files.
    ///
    /// # Errors
    /// As `CompactionPlan::pick_files` and of the compaction; ShutdownInProgress; Incomplete while
    /// background work is paused.
    pub(crate) fn compact_files(
        self: &Arc<Self>,
        cf: &CfData,
        files: FilesRequest,
        options: &CompactFilesOptions,
    ) -> Result<Written> {
        self.check_writable()?;
        self.life.mark.check_may_wait()?;
        let request = Request {
            id: 0,
            family: cf.id,
            input_level: 0,
            output_level: None,
            begin: None,
            end: None,
            ignore_from_file: u64::MAX,
            forbid_move: true,
            path_id: TableDirs::OWN,
            files: Some(files),
            caller: CallerSettings {
                exclusive: false,
                max_subcompactions: options.max_subcompactions as usize,
                asked: Asked { canceled: options.canceled.clone(), ..Asked::default() },
            },
            running: false,
            wrote_to: None,
            outputs: Written::default(),
            done: None,
        };
        Ok(self.await_request(request)?.outputs)
    }

    /// From now on manual compactions are Incomplete, until [`Self::enable_manual_compaction`] was
    /// called as many times. Waits until none runs.
    pub(crate) fn disable_manual_compaction(&self) {
        self.life.manual_pauses.fetch_add(1, Ordering::AcqRel);
        let mut state = self.state.lock();
        self.changed.notify_all();
        // A job of its own would wait for itself.
        while state.manual.any_running() && !self.life.mark.is_inside() {
            state = self.changed.wait_timeout(state, POLL).0;
        }
    }

    /// See [`Self::disable_manual_compaction`].
    pub(crate) fn enable_manual_compaction(&self) {
        self.life.manual_pauses.fetch_sub(1, Ordering::AcqRel);
    }

    /// From now on no compaction runs, until [`Self::resume_all_compactions`] was called as many
    /// times; running ones end early. Waits until none is left.
    pub(crate) fn abort_all_compactions(&self) {
        self.life.mark.assert_may_lock();
        let mut state = self.state.lock();
        self.life.compaction_aborts.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_all();
        let busy = |state: &DbState| {
            let running = state.jobs.running_compactions + state.jobs.bottom_compactions;
            running > 0 || !state.manual.requests.is_empty()
        };
        // A job of its own would wait for itself.
        while busy(&state) && !self.life.mark.is_inside() {
            state = self.changed.wait_timeout(state, POLL).0;
        }
    }

    /// See [`Self::abort_all_compactions`]. A call too many does nothing.
    pub(crate) fn resume_all_compactions(&self) {
        self.life.mark.assert_may_lock();
        let mut state = self.state.lock();
        match self.life.compaction_aborts.load(Ordering::Acquire) {
            0 => self.reports.warn(format_args!("No compactions were aborted that could resume")),
            aborts => {
                self.life.compaction_aborts.store(aborts - 1, Ordering::Release);
                self.scheduler().schedule_background(&mut state);
            }
        }
    }

    /// Queues a request and waits until it is done.
    fn await_request(self: &Arc<Self>, request: Request) -> Result<Request> {
        let mut state = self.state.lock();
        if let Some(files) = &request.files {
            // What cannot be done is refused now, not when a job reaches it.
            let dropped = || Error::column_family_dropped("manual compaction");
            let cf = state.cfs.get(&request.family).ok_or_else(dropped)?;
            cf.plan.pick_files(&cf.version, files)?;
        }
        let id = state.manual.next_id;
        state.manual.next_id += 1;
        state.manual.requests.push_back(Request { id, ..request });
        self.scheduler().schedule_background(&mut state);
        let lost = || Error::aborted("the manual compaction request was lost");
        loop {
            let at = state.manual.requests.iter().position(|r| r.id == id);
            let Some(at) = at else { return Err(lost()) };
            if let Some(result) = state.manual.requests[at].done.clone() {
                let request = state.manual.requests.remove(at);
                result?;
                return request.ok_or_else(lost);
            }
            if let Err(error) = self.life.check_alive(&state)
                && !state.manual.requests[at].running
            {
                state.manual.requests.remove(at);
                self.scheduler().schedule_background(&mut state);
                return Err(error);
            }
            let request = &state.manual.requests[at];
            let allowed = self.life.check_manual(request.caller.asked.canceled.as_ref());
            if let Err(error) = allowed
                && !request.running
            {
                state.manual.requests.remove(at);
                self.scheduler().schedule_background(&mut state);
                self.changed.notify_all(); // Who aborts compactions waits for it.
                return Err(error);
            }
            if state.jobs.paused > 0 && !state.manual.requests[at].running {
                state.manual.requests.remove(at);
                self.scheduler().schedule_background(&mut state);
                return Err(Error::incomplete("Manual compaction paused")
                    .with_subcode(pumice_base::SubCode::ManualCompactionPaused));
            }
            // Not at every wake-up: a job that finds only conflicts wakes this task, and the two
            // would keep each other busy until the conflict is over.
            let (next, timed_out) = self.changed.wait_timeout(state, POLL);
            state = next;
            if timed_out {
                self.scheduler().schedule_background(&mut state);
            }
        }
    }
}

/// The ends of a range as stored keys; None is open.
pub(crate) type WholeRange = (Option<Vec<u8>>, Option<Vec<u8>>);

/// The range, as tables have its keys, with all versions of its first and of its last key, at
/// whatever timestamps.
pub(crate) fn whole_range(cf: &CfData, begin: Option<&[u8]>, end: Option<&[u8]>) -> WholeRange {
    let order = cf.table_order();
    (begin.map(|key| order.at_newest(key)), end.map(|key| order.at_oldest(key)))
}

/// Whether a memtable has entries in the range. As in RocksDB, an open end flushes any content.
fn needs_flush(cf: &CfData, begin: Option<&[u8]>, end: Option<&[u8]>) -> bool {
    let closed = begin.is_some() && end.is_some();
    !closed || memtables_overlap(cf, &cf.super_version.load_full(), &UserRange::closed(begin, end))
}

/// The first and the last level with something in the range. As in RocksDB, for a range with both
/// ends the tables are searched: their bounds may overlap it without any key inside. With an open
/// end, or if a table cannot be read, the bounds of the files decide.
fn overlapped_levels(
    cf: &CfData,
    version: &Version,
    begin: Option<&[u8]>,
    end: Option<&[u8]>,
) -> Option<(usize, usize)> {
    let range = UserRange::closed(begin, end);
    let reserved = usize::from(cf.options().cf_allow_ingest_behind);
    let closed = begin.is_some() && end.is_some();
    let mut levels = (0..version.num_levels() - reserved).filter(|level| {
        let by_bounds = version.range_overlaps(*level, &range);
        by_bounds && (!closed || level_overlaps(cf, version, *level, &range).unwrap_or(true))
    });
    let first = levels.next();
    first.map(|first| (first, levels.next_back().unwrap_or(first)))
}
