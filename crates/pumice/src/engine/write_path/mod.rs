//! The path of a write: queue, stall, log, memtable, publish.
//!
//! The leader does everything for its group: it assigns sequence numbers, appends one WAL record
//! with one write call, inserts into the memtables, helped by members if the group is large
//! (`write_insert`), and publishes the last sequence.
//!
//! Thread safety: `DbInner::write` from anywhere; functions that run as leader take [`Leadership`].
//! May wait for other writers, for a stall and for the log device, and so suspend.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pumice_base::key::LAST_SEQUENCE_MAX;
use pumice_base::planted::{self, Bug};
use pumice_base::{Error, Result, Severity};
use pumice_env::perf::{self, PerfMetric};
use pumice_env::{IoKind, IoPriority};
use pumice_port::{fiber, thread};

use crate::commit::batch::points::LogEnd;
use crate::commit::batch::protection::Sums;
use crate::commit::batch::{self, WriteBatch};
use crate::commit::queue::{Follower, Joined, Leadership, QueuedBatch};
use crate::commit::two_phase::{Taken, unmarked};
use crate::cost;
use crate::engine::DbInner;
use crate::engine::expiry_task::note_range_deletion;
use crate::engine::write_content::{Content, Own, Put, verify_group};
use crate::engine::write_refusals;
use crate::options::requests::WriteOptions;
use crate::state::CfMap;
use crate::state::batch_check::check_batch;
use crate::state::errors::Reason;
use crate::stats::{HistogramKind, Record};
use crate::trace::query::Call;

/// Largest buffer for single updates that is kept: a larger one is freed after its write.
const SCRATCH_BYTES_KEPT: usize = 64 << 10;

/// A leader's turn. If a panic ends it (of a comparator, say), leadership must not be lost: queued
/// writers get an error, and since part of the group may be in memory, nothing more is written.
struct Turn<'a> {
    db: &'a DbInner,
    leader: Leadership,
    /// `end` takes them, to which every turn comes: to drop them as well costs each write a call.
    followers: ManuallyDrop<Vec<Follower>>,
    ended: bool,
}

impl Turn<'_> {
    #[cold]
    fn lost(&mut self) {
        let error = Error::aborted("A write panicked").with_severity(Severity::Unrecoverable);
        self.db.faults().poison(&error);
        self.end(&Err(error));
    }

    #[inline(always)]
    fn end(&mut self, result: &Result<()>) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        if self.followers.is_empty() {
            self.db.writes.queue.leave(&mut self.leader);
        } else {
            let followers = std::mem::take(&mut *self.followers);
            self.db.writes.queue.finish(&mut self.leader, followers, result);
        }
    }
}

impl Drop for Turn<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.ended {
            self.lost();
        }
    }
}

/// What the leader of a batch that is written alone asks before it writes.
pub(super) type Check<'a> = &'a dyn Fn() -> Result<()>;

/// A batch whose bytes have been moved out. After a panic they are gone and the batch is empty.
struct Emptied<'a>(&'a mut WriteBatch);

impl Drop for Emptied<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.0.is_taken() {
            self.0.clear();
        }
    }
}

impl DbInner {
    /// Applies `updates` atomically.
    ///
    /// # Errors
    /// InvalidArgument for an impossible batch or option; Incomplete for `no_slowdown`; the
    /// background error while there is one; I/O errors of the log. Suspends.
    pub(crate) fn write(&self, options: &WriteOptions, updates: &mut WriteBatch) -> Result<()> {
        let timer = self.reports.statistics.timer();
        let written = self.write_batch(options, updates, None);
        timer.stop(&self.reports.statistics, HistogramKind::DbWrite);
        written
    }

    /// As `write`, alone and only if `check` allows it. `check` runs once all writes before this
    /// one are published, and no other is until this one is: what it reads is the state to which
    /// the batch is applied. It may read the database and must not write. It runs after a stall, so
    /// that it holds up no writer longer than it takes.
    ///
    /// # Errors
    /// That of `check`, or Aborted if it panics: no other write fails, and the batch takes no
    /// sequence number. Those of `write`.
    pub(crate) fn write_checked(
        &self,
        options: &WriteOptions,
        updates: &mut WriteBatch,
        check: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let timer = self.reports.statistics.timer();
        let written = self.write_batch(options, updates, Some(check));
        timer.stop(&self.reports.statistics, HistogramKind::DbWrite);
        written
    }

    #[inline(always)]
    fn write_batch(
        &self,
        options: &WriteOptions,
        updates: &mut WriteBatch,
        check: Option<Check<'_>>,
    ) -> Result<()> {
        let cost = updates.count().saturating_mul(cost::UPDATE);
        fiber::spend(cost::WRITE.saturating_add(cost).min(fiber::QUANTUM));
        self.check_write(options)?;
        if options.low_pri {
            self.yield_low_priority(options, updates.data_bytes() as u64)?;
        }
        updates.status()?;
        let protected;
        let options = match options.protection_bytes_per_key == 0 && updates.sums().is_none() {
            true => options,
            false => {
                protected = updates.protect_for(options)?;
                &protected
            }
        };
        let key_space = self.cfs.load();
        let found = check_batch(&key_space, updates, options.ignore_missing_column_families)
            .map_err(|error| updates.verify_checksum().err().unwrap_or(error))?;
        let result = if found.missing {
            self.write_known(options, updates, &key_space, check)
        } else if let Some(end) = updates.log_end().filter(|_| !options.disable_wal) {
            let sums = updates.sums().cloned();
            self.write_partly_logged(options, (updates.data().to_vec(), sums), end, check)
        } else {
            let emptied = Emptied(updates);
            let (rep, sums) = (emptied.0.take_rep(), emptied.0.sums().cloned());
            let (rep, result) = self.write_rep(options, (rep, sums), check);
            emptied.0.restore(rep);
            result
        };
        if found.range_deletions && result.is_ok() {
            note_range_deletion(self);
        }
        result
    }

    /// Applies those of `updates` whose column families exist. The others must not get into the
    /// log: a family created later may have the same id, and recovery would apply them to it.
    #[cold]
    fn write_known(
        &self,
        options: &WriteOptions,
        updates: &WriteBatch,
        key_space: &CfMap,
        check: Option<Check<'_>>,
    ) -> Result<()> {
        let is_known = |id| key_space.by_id(id).is_some();
        let known = updates.filtered(is_known)?;
        updates.verify_checksum()?;
        let sums = updates.sums().map(|_| Sums::of(&known).map(Arc::new)).transpose()?;
        let Some(end) = updates.log_end().filter(|_| !options.disable_wal) else {
            return self.write_rep(options, (known, sums), check).1;
        };
        let logged = updates.logged_part(end).filtered(is_known)?;
        let end = LogEnd { bytes: logged.len(), count: batch::count(&logged) };
        self.write_partly_logged(options, (known, sums), end, check)
    }

    /// Applies a batch of which only what is before `end` is logged. Alone: what follows it in one
    /// log record would get its sequence numbers.
    #[cold]
    fn write_partly_logged(
        &self,
        options: &WriteOptions,
        (rep, sums): Content,
        end: LogEnd,
        check: Option<Check<'_>>,
    ) -> Result<()> {
        let (logged, updates) = (batch::HEADER_LEN..end.bytes, end.count);
        let taken = Taken { logged, updates, ..Taken::plain(&rep) };
        let batch = QueuedBatch { rep, taken, sums, options: *options, exclusive: true };
        self.write_exclusive(batch, check.unwrap_or(&|| Ok(())), &|_| ())
    }

    /// Writes `batch`, which is exclusive, only if `check` allows it; `written` runs as leader once
    /// it is.
    pub(super) fn write_exclusive(
        &self,
        batch: QueuedBatch,
        check: Check<'_>,
        written: &dyn Fn(&Leadership),
    ) -> Result<()> {
        match self.writes.queue.join(batch, || self.life.may_wait_for_stall(), |_| ()) {
            Joined::Done(_, result) => result.and(Err(Error::aborted("written with others"))),
            Joined::Leader(mut batch, leader) => {
                let options = batch.options;
                let own = Own::queued(&mut batch);
                let result = self.lead_alone(leader, &options, own, check, written);
                self.with_errors_reported(result)
            }
        }
    }

    /// Sets `key` to `value`.
    pub(crate) fn put(
        &self,
        options: &WriteOptions,
        cf: u32,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        if options.low_pri || options.protection_bytes_per_key != 0 {
            return self.write_one(options, |batch| batch.put_cf(cf, key, value));
        }
        let timer = self.reports.statistics.timer();
        let written = self.put_directly(options, cf, key, value);
        timer.stop(&self.reports.statistics, HistogramKind::DbWrite);
        written
    }

    #[inline(always)]
    fn put_directly(
        &self,
        options: &WriteOptions,
        cf: u32,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        fiber::spend(cost::WRITE);
        self.check_write(options)?;
        if let Some(leader) = self.writes.queue.try_lead() {
            let put = Some(Put { column_family: cf, key, value });
            return self.lead_one(leader, options, |b| b.put_cf_header(cf, key, value), put);
        }
        let own = self.settings.one_update(options, |b| b.put_cf(cf, key, value))?;
        self.write_own(options, own)
    }

    /// Applies one update built by `fill`, without an allocation when there is no other writer.
    pub(crate) fn write_one(
        &self,
        options: &WriteOptions,
        fill: impl FnOnce(&mut WriteBatch),
    ) -> Result<()> {
        let timer = self.reports.statistics.timer();
        let written = self.write_update(options, fill);
        timer.stop(&self.reports.statistics, HistogramKind::DbWrite);
        written
    }

    #[inline(always)]
    fn write_update(
        &self,
        options: &WriteOptions,
        fill: impl FnOnce(&mut WriteBatch),
    ) -> Result<()> {
        fiber::spend(cost::WRITE);
        self.check_write(options)?;
        if !options.low_pri
            && options.protection_bytes_per_key == 0
            && let Some(leader) = self.writes.queue.try_lead()
        {
            return self.lead_one(leader, options, fill, None);
        }
        self.write_own(options, self.settings.one_update(options, fill)?)
    }

    /// Writes a batch with one update.
    fn write_own(&self, options: &WriteOptions, mut own: WriteBatch) -> Result<()> {
        if options.low_pri {
            self.yield_low_priority(options, own.data_bytes() as u64)?;
        }
        let sums = own.sums().cloned();
        self.write_rep(options, (own.take_rep(), sums), None).1
    }

    /// Writes, as leader, the one update that `fill` builds, which lacks its value if it is `put`.
    #[inline]
    fn lead_one(
        &self,
        mut leader: Leadership,
        options: &WriteOptions,
        fill: impl FnOnce(&mut WriteBatch),
        put: Option<Put<'_>>,
    ) -> Result<()> {
        let mut scratch = self.writes.scratch.lock();
        scratch.clear();
        fill(&mut scratch);
        if let Err(refused) = scratch.status() {
            self.writes.queue.leave(&mut leader);
            return Err(refused);
        }
        let mut rep = scratch.take_rep();
        let own = Own { taken: Taken::plain(&rep), rep: &mut rep, sums: None, put };
        let result = self.lead(leader, options, own);
        if rep.capacity() > SCRATCH_BYTES_KEPT {
            rep = Vec::new();
        }
        scratch.restore(rep);
        drop(scratch);
        self.with_errors_reported(result)
    }

    pub(super) fn check_write(&self, options: &WriteOptions) -> Result<()> {
        if options.disable_wal && (options.sync || self.logs.recycles) {
            return Err(write_refusals::needs_wal(options));
        }
        self.dir.check_writable()?;
        self.life.check_caller()?;
        match options.rate_limiter_priority {
            None => Ok(()),
            Some(priority) => write_refusals::check_pace(&self.settings, options, priority),
        }
    }

    /// What few writes need before they are logged: the rate limiter's leave, and that protected
    /// updates are what they were. Suspends.
    #[cold]
    fn before_logging(
        &self,
        options: &WriteOptions,
        bytes: usize,
        own: &Own<'_>,
        followers: &[Follower],
    ) -> Result<()> {
        if let Some(priority) = options.rate_limiter_priority {
            self.wait_for_pace(bytes, priority)?;
        }
        verify_group(own, followers, Sums::verify)
    }

    /// Waits until the rate limiter allows `bytes` to be logged, unless the write can no longer
    /// succeed. Suspends.
    #[cold]
    fn wait_for_pace(&self, bytes: usize, priority: IoPriority) -> Result<()> {
        let options = self.options();
        let Some(limiter) = &options.rate_limiter else { return Ok(()) };
        let events = options.rate_events();
        let mut left = bytes as u64;
        while left > 0 {
            self.check_waiting()?;
            left -= limiter.request_token(left, 0, priority, IoKind::Write, events.as_deref());
        }
        Ok(())
    }

    /// Delays a low-priority write while compaction lags. Suspends.
    fn yield_low_priority(&self, options: &WriteOptions, bytes: u64) -> Result<()> {
        if !self.background.compaction_behind.load(Ordering::Acquire) {
            return Ok(());
        }
        if options.no_slowdown {
            return Err(Error::incomplete("Low priority write stall"));
        }
        self.sleep_slowed(self.writes.controller.low_priority_micros(bytes))
    }

    fn write_rep(
        &self,
        options: &WriteOptions,
        (rep, sums): Content,
        check: Option<Check<'_>>,
    ) -> (Vec<u8>, Result<()>) {
        let mut batch = QueuedBatch::plain(rep, *options);
        (batch.sums, batch.exclusive) = (sums, check.is_some());
        let wait = perf::time(PerfMetric::WriteThreadWaitNanos);
        let queue = &self.writes.queue;
        let joined =
            queue.join(batch, || self.life.may_wait_for_stall(), |shared| self.help_insert(shared));
        drop(wait);
        match joined {
            Joined::Done(rep, result) => (rep, result),
            Joined::Leader(mut batch, leader) => {
                let own = Own::queued(&mut batch);
                let result = match check {
                    None => self.lead(leader, options, own),
                    Some(check) => self.lead_alone(leader, options, own, check, &|_| ()),
                };
                (batch.rep, self.with_errors_reported(result))
            }
        }
    }

    /// Writes as leader, together with the batches queued since, and gives up leadership.
    fn lead(&self, leader: Leadership, options: &WriteOptions, own: Own<'_>) -> Result<()> {
        let mut turn = Turn { db: self, leader, followers: ManuallyDrop::default(), ended: false };
        let result = self.prepare_write(&turn.leader, options, own.bytes()).and_then(|()| {
            if !options.disable_wal && fiber::is_fiber() {
                // Fibers of this loop that are about to write could not queue while this one ran.
                // Let them run, so that one log write serves them all.
                thread::yield_now();
            }
            let Turn { leader, followers, .. } = &mut turn;
            self.writes.queue.take_followers(leader, own.bytes(), options, followers);
            self.write_group(leader, options, own, followers)
        });
        if planted::is(Bug::ErrorKeepsLeadership) && result.is_err() {
            turn.ended = true;
        }
        turn.end(&result);
        result
    }

    /// Writes as leader without any other batch, once `check` has allowed it, calls `written`, and
    /// gives up leadership.
    #[cold]
    fn lead_alone(
        &self,
        leader: Leadership,
        options: &WriteOptions,
        own: Own<'_>,
        check: Check<'_>,
        written: &dyn Fn(&Leadership),
    ) -> Result<()> {
        let mut turn = Turn { db: self, leader, followers: ManuallyDrop::default(), ended: false };
        let result = self
            .prepare_write(&turn.leader, options, own.bytes())
            .and_then(|()| run_check(check))
            .and_then(|()| self.write_group(&turn.leader, options, own, &mut []))
            .map(|()| written(&turn.leader));
        turn.end(&result);
        result
    }

    // In `lead`, which most writes go through: apart it costs each of them 70 instructions.
    #[inline(always)]
    fn write_group(
        &self,
        leader: &Leadership,
        options: &WriteOptions,
        mut own: Own<'_>,
        followers: &mut [Follower],
    ) -> Result<()> {
        let observed = perf::is_any();
        let mut clock = perf::phases(observed, PerfMetric::WritePreAndPostProcessTime);
        if observed {
            self.trace_group(&own, followers);
        }
        let (mut updates, mut taken) = (own.taken.updates, own.taken.sequences);
        let mut bytes = own.bytes();
        for Follower { batch: other, .. } in &*followers {
            updates += other.taken.updates;
            taken += other.taken.sequences;
            bytes += other.taken.logged.len();
        }
        if bytes > own.bytes() {
            self.writes.controller.owe(leader, (bytes - own.bytes()) as u64);
        }
        let last = self.last_sequence.load(Ordering::Relaxed);
        if taken > LAST_SEQUENCE_MAX - last {
            return Err(no_sequence());
        }
        let (first, last) = (last + 1, last + taken);
        if planted::is(Bug::PublishedBeforeInsert) {
            self.last_sequence.store(last, Ordering::Release);
        }
        // One way out for both: another one costs every write 30 instructions.
        if options.rate_limiter_priority.is_some() || own.sums.is_some() {
            self.before_logging(options, bytes, &own, followers)?;
        }
        if !options.disable_wal {
            let header = batch::header(first, updates);
            clock.turn_to(PerfMetric::WriteWalTime);
            let logged = self.log_group(options.sync, bytes, header, &mut own, followers);
            if planted::is(Bug::GroupPartlyInserted) && logged.is_err() {
                self.insert_group(leader, first..first + own.taken.sequences, &own, &mut [])?;
            }
            logged?;
        } else {
            self.writes.last_unlogged.store(last, Ordering::Relaxed);
        }
        #[cfg(test)]
        tests::protected::change_what_is_logged(own.rep);
        clock.turn_to(PerfMetric::WriteMemtableTime);
        let mut inserted = Ok(());
        if own.sums.is_some() && !options.disable_wal {
            inserted = verify_group(&own, followers, Sums::compare);
        }
        // A prepared section takes no numbers: its updates are not part of the database yet.
        if taken > 0 && inserted.is_ok() {
            inserted = self.insert_group(leader, first..last + 1, &own, followers);
        }
        clock.turn_to(PerfMetric::WritePreAndPostProcessTime);
        if let Err(error) = inserted {
            // The group is logged but only partly in memory: the memory state no longer is what
            // recovery would build, so nothing more may be written until it is reopened.
            self.faults().poison(&error);
            return Err(error);
        }
        self.last_sequence.store(last, Ordering::Release);
        self.reports.count_writes(options, 1 + followers.len() as u64, taken, bytes as u64);
        Ok(())
    }

    /// Notes the batches of a group, in its order, if there is a trace of queries.
    #[cold]
    fn trace_group(&self, own: &Own<'_>, followers: &[Follower]) {
        let trace = &self.reports.traces.queries;
        if !trace.is_on() {
            return;
        }
        // A prepared section takes no numbers, and is noted when it is committed.
        if own.put.is_some() {
            trace.note(&Call::Write([&own.rep[..own.taken.logged.end], own.value()]));
        } else if own.taken.sequences > 0 {
            trace.note(&Call::Write([&unmarked(own.rep).unwrap_or_default(), &[]]));
        }
        for Follower { batch, .. } in followers.iter().filter(|it| it.batch.taken.sequences > 0) {
            trace.note(&Call::Write([&unmarked(&batch.rep).unwrap_or_default(), &[]]));
        }
    }

    /// Logs a group of `bytes` as one record with `header`.
    #[inline(always)] // As `write_group`.
    fn log_group(
        &self,
        sync: bool,
        bytes: usize,
        header: [u8; batch::HEADER_LEN],
        own: &mut Own<'_>,
        followers: &[Follower],
    ) -> Result<()> {
        let times = self.background.regulator.times_log();
        let started = if sync || times { pumice_port::time::now_micros() } else { 0 };
        let mut wal = if sync { self.logs.at_rest() } else { self.logs.wal.lock() };
        let appended = if followers.is_empty() {
            own.rep[..batch::HEADER_LEN].copy_from_slice(&header);
            let parts = [&own.rep[..own.taken.logged.end], own.value()];
            wal.append(if own.put.is_some() { &parts } else { &parts[..1] }, sync)
        } else {
            // The batch of the leader may be written again: its own header stays.
            let mut parts: Vec<&[u8]> = Vec::with_capacity(3 + followers.len());
            parts.extend([&header[..], &own.rep[own.taken.logged.clone()], own.value()]);
            let theirs = followers.iter().map(|Follower { batch, .. }| batch);
            parts.extend(theirs.map(|batch| &batch.rep[batch.taken.logged.clone()]));
            wal.append(&parts, sync)
        };
        let total = wal.total_bytes();
        drop(wal);
        if times {
            self.background.regulator.log_took(pumice_port::time::now_micros() - started);
        }
        match appended {
            Ok(logged) => {
                self.logs.bytes.store(total, Ordering::Relaxed);
                self.reports.count_logged(bytes as u64, logged, sync.then_some(started));
                Ok(())
            }
            Err(error) => {
                self.faults().background_error_of_leader(&error, Reason::WriteCallback);
                Err(error)
            }
        }
    }
}

/// A panic of `check` has changed nothing, so it ends only this write.
fn run_check(check: Check<'_>) -> Result<()> {
    let checked = thread::contain("The check of a write", check);
    checked.map_err(|panic| panic.with_severity(Severity::None))?
}

/// Only a recovered database may be near the end of its sequence numbers: writing never gets there.
#[cold]
pub(crate) fn no_sequence() -> Error {
    Error::aborted("sequence numbers are exhausted")
}

#[cfg(test)]
mod tests;
