//! The L0 files of a replay.
//!
//! Where everything becomes tables in the end, nobody reads the memtables of a replay but the
//! flush: in the built-in orders they are vectors, which a replay fills without a search, and which
//! are sorted once. A full one is written by another thread while the replay fills the next; the
//! memtables that are left at the end are written by as many threads as the machine has cores.
//! Where data may stay in memory the memtables are those of the options, which are written before
//! the replay goes on.
//!
//! Thread safety: belongs to the replay. Suspends on I/O and while a table is waited for.
//! Invariants: (1) beside the memtables that are filled at most one is being written, until all
//! logs are read, and none where the options allow a family one memtable or the write-buffer
//! manager's limit is reached; (2) the edits list a family's files in the order of its memtables;
//! (3) no thread writes when a replay is over, however it ends.

use std::collections::VecDeque;
use std::sync::Arc;

use pumice_base::{FileNumber, Result};
use pumice_env::activity;
use pumice_manifest::Version;
use pumice_memtable::MemTable;
use pumice_port::fiber::is_fiber;
use pumice_port::sync::Mutex;
use pumice_port::thread::{self, JoinHandle};
use pumice_table::TableReason;

use crate::engine::DbInner;
use crate::engine::recovery::{Replay, unknown_family};
use crate::flush::{FlushOutput, Flushed, stripping, write_level0};
use crate::lock_order;
use crate::stats::thread_status::JobNote;
use crate::version::family::{CfData, new_memtable, unread_memtable};

/// The threads that write tables beside the replay.
pub(super) struct TableJobs {
    db: Arc<DbInner>,
    running: VecDeque<(u32, JoinHandle<Result<Option<Flushed>>>)>,
}

impl TableJobs {
    /// False if the machine has no thread for it.
    fn start(&mut self, id: u32, table: Table) -> bool {
        let (db, activity) = (Arc::clone(&self.db), activity::current());
        let write = move || activity::during(activity, || table.write(&db));
        let job = thread::spawn_os("recovery", write);
        job.map(|job| self.running.push_back((id, job))).is_ok()
    }
}

impl Drop for TableJobs {
    fn drop(&mut self) {
        while let Some((_, job)) = self.running.pop_front() {
            // The replay has failed already, by an earlier error.
            drop(job.join());
        }
    }
}

/// A memtable that becomes a table.
#[derive(Clone)]
struct Table {
    cf: Arc<CfData>,
    mem: Arc<MemTable>,
    number: FileNumber,
    epoch: u64,
    older: Option<Arc<Version>>,
}

impl Table {
    fn write(self, db: &DbInner) -> Result<Option<Flushed>> {
        let Table { cf, mem, number, epoch, older } = self;
        let blob_files = &Mutex::ranked(&lock_order::JOB_OUTPUTS, Vec::new());
        let reason = TableReason::Recovery;
        let note = JobNote::default();
        let output = FlushOutput { number, epoch, reason, older, times: None, blob_files, note };
        write_level0(db, &cf, &[mem], &output, None)
    }
}

impl Replay<'_> {
    /// From now on tables are written beside the replay, out of memtables that nobody reads.
    pub(super) fn write_tables_beside(&mut self, db: &Arc<DbInner>) {
        self.jobs = Some(TableJobs { db: Arc::clone(db), running: VecDeque::new() });
        let manager = &db.resources.write_buffer_manager;
        let state = db.state.lock();
        for (id, mem) in &mut self.mems {
            if let Some(cf) = state.cfs.get(id) {
                let (options, icmp) = (cf.data.options(), &cf.data.icmp);
                *mem = unread_memtable(&options, icmp, mem.id(), manager.clone());
            }
        }
    }

    /// Writes the memtables that are full.
    pub(super) fn flush_full(&mut self) -> Result<()> {
        if self.full.is_empty() || self.db.dir.read_only {
            return Ok(());
        }
        std::mem::take(&mut self.full).into_iter().try_for_each(|id| {
            self.flush_one(id, 1)?;
            self.replace_memtable(id)
        })
    }

    /// Writes what is left once all logs are read.
    pub(super) fn flush_rest(&mut self) -> Result<()> {
        let cores = thread::available_parallelism();
        let left = self.mems.iter().filter(|(_, mem)| !mem.is_empty()).map(|(id, _)| *id);
        let left: Vec<u32> = left.collect();
        left.into_iter().try_for_each(|id| self.flush_one(id, cores))?;
        self.wait_until_fewer(1)?;
        self.jobs = None;
        // Writes go on after what the tables have.
        let written: Vec<u32> = self.found.edits.keys().copied().collect();
        written.into_iter().try_for_each(|id| self.replace_memtable(id))
    }

    /// Writes a memtable to L0 and takes it away; fewer than `most` others are being written then.
    fn flush_one(&mut self, id: u32, most: usize) -> Result<()> {
        let mem = self.mems.remove(&id).ok_or_else(|| unknown_family(id))?;
        mem.mark_immutable();
        if !is_fiber() && self.jobs.as_ref().is_some_and(|jobs| jobs.running.len() >= most) {
            // There is time for it: the threads are busy.
            mem.sort();
        }
        self.wait_until_fewer(most)?;
        // Files that this recovery has written are in no version yet.
        let is_first = self.found.edits.get(&id).is_none_or(|edit| edit.new_files.is_empty())
            && !self.is_being_written(id);
        let (cf, epoch, older, low) = {
            let mut state = self.db.state.lock();
            let cf = state.cfs.get_mut(&id).ok_or_else(|| unknown_family(id))?;
            cf.next.epoch += 1;
            let older = is_first.then(|| Arc::clone(&cf.version));
            let known = cf.version.full_history_ts_low().map(|low| &**low);
            let low = stripping::low_after(&cf.data.options(), std::iter::once(&mem), known);
            (Arc::clone(&cf.data), cf.next.epoch - 1, older, low)
        };
        let edit = self.found.edits.entry(id).or_default();
        // As numbers of 64 bits, which all of them are, the newest one counts.
        let number = |low: &Vec<u8>| low.first_chunk().map_or(0, |low| u64::from_le_bytes(*low));
        if let Some(low) = low
            && edit.full_history_ts_low.as_ref().is_none_or(|known| number(known) < number(&low))
        {
            edit.full_history_ts_low = Some(low);
        }
        let number = self.db.new_file_number();
        // If the open fails, it is deleted (`undo_open`).
        self.db.state.lock().files.pending_outputs.insert(number);
        let table = Table { cf: Arc::clone(&cf), mem, number, epoch, older };
        let started = self.jobs.as_mut().is_some_and(|jobs| jobs.start(id, table.clone()));
        if !started {
            self.wait_until_fewer(1)?;
            let written = table.write(self.db)?;
            self.note_written(id, written);
        }
        if most == 1 && !self.may_go_on_beside(&cf) {
            self.wait_until_fewer(1)?;
        }
        Ok(())
    }

    /// There is room for what is read while the family's full memtable is written.
    fn may_go_on_beside(&self, cf: &CfData) -> bool {
        let manager = &self.db.resources.write_buffer_manager;
        let options = cf.options();
        options.max_write_buffer_number > 1
            && manager.as_ref().is_none_or(|manager| {
                let next = manager.memory_usage().saturating_add(options.write_buffer_size);
                !manager.enabled() || next <= manager.buffer_bytes()
            })
    }

    fn is_being_written(&self, id: u32) -> bool {
        let running = self.jobs.iter().flat_map(|jobs| &jobs.running);
        running.into_iter().any(|(of, _)| *of == id)
    }

    /// Waits for tables, the oldest first, until fewer than `most` are being written.
    fn wait_until_fewer(&mut self, most: usize) -> Result<()> {
        while let Some(jobs) = self.jobs.as_mut().filter(|jobs| jobs.running.len() >= most) {
            let Some((id, job)) = jobs.running.pop_front() else { return Ok(()) };
            let written = job.join()??;
            self.note_written(id, written);
        }
        Ok(())
    }

    fn note_written(&mut self, id: u32, written: Option<Flushed>) {
        let edit = self.found.edits.entry(id).or_default();
        edit.column_family = id;
        if let Some(Flushed { file, blob_files }) = written {
            edit.new_files.push((0, file.meta));
            edit.blob_additions.extend(blob_files);
        }
    }

    fn replace_memtable(&mut self, id: u32) -> Result<()> {
        let mut state = self.db.state.lock();
        let family = state.cfs.get_mut(&id).ok_or_else(|| unknown_family(id))?;
        let (options, icmp) = (family.data.options(), family.data.icmp.clone());
        let manager = self.db.resources.write_buffer_manager.clone();
        let number = family.next.memtable;
        family.next.memtable += 1;
        let fresh = if self.jobs.is_some() {
            unread_memtable(&options, &icmp, number, manager)
        } else {
            let earliest = self.order.next.unwrap_or(0);
            let fresh = new_memtable(&options, &icmp, number, earliest, manager);
            family.mem = Arc::clone(&fresh);
            family.publish();
            fresh
        };
        self.mems.insert(id, fresh);
        Ok(())
    }
}
