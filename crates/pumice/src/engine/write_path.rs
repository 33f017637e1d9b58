//! The path of a write: queue, stall, log, memtable, publish.
//!
//! The leader does everything for its group: it assigns sequence numbers, appends one WAL record
//! with one write call, inserts into the memtables, helped by members if the group is large
//! (`write_insert`), and publishes the last sequence.
//!
//! Thread safety: `DbInner::write` from anywhere; functions that run as leader take [`Leadership`].
//! Lock order: leadership > manifest > state > wal. May wait for other writers, for a stall and for
//! the log device, and so suspend.

use std::sync::atomic::Ordering;

use pumice_base::dbformat::LAST_SEQUENCE_MAX;
use pumice_base::planted::{self, Bug};
use pumice_base::{Error, Result, Severity, ValueType};
use pumice_env::perf::{self, PerfMetric};
use pumice_env::{IoKind, IoPriority};
use pumice_port::{fiber, thread};

use crate::commit::batch::{self, BatchRecord, WriteBatch};
use crate::commit::queue::{Follower, Joined, Leadership, QueuedBatch};
use crate::cost;
use crate::engine::DbInner;
use crate::engine::expiry::note_range_deletion;
use crate::options::requests::WriteOptions;
use crate::state::CfMap;
use crate::state::errors::Reason;
use crate::state::parts::Settings;
use crate::stats::{HistogramKind, Record};

/// Largest buffer for single updates that is kept: a larger one is freed after its write.
const SCRATCH_BYTES_KEPT: usize = 64 << 10;

/// A leader's turn. If a panic ends it (of a comparator, say), leadership must not be lost: queued
/// writers get an error, and since part of the group may be in memory, nothing more is written.
struct Turn<'a> {
    db: &'a DbInner,
    leader: Leadership,
    followers: Vec<Follower>,
    ended: bool,
}

impl Turn<'_> {
    #[cold]
    fn lost(&mut self) {
        let error = Error::aborted("A write panicked").with_severity(Severity::Unrecoverable);
        self.db.poison(&error);
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
            let followers = std::mem::take(&mut self.followers);
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

/// The leader's own batch.
pub(super) struct Own<'a> {
    pub rep: &'a mut [u8],
    /// The only update, if it is a put whose value is not in `rep`, which ends before it.
    pub put: Option<Put<'a>>,
}

/// A put whose value goes directly from the caller's memory to the log and the memtable.
#[derive(Clone, Copy)]
pub(super) struct Put<'a> {
    pub column_family: u32,
    pub key: &'a [u8],
    pub value: &'a [u8],
}

impl<'a> Own<'a> {
    fn value(&self) -> &'a [u8] {
        self.put.map_or(&[], |put| put.value)
    }
    fn bytes(&self) -> usize {
        self.rep.len() + self.value().len()
    }
}

/// A batch whose bytes have been moved out. After a panic they are gone and the batch is empty.
struct Taken<'a>(&'a mut WriteBatch);

impl Drop for Taken<'_> {
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
        let written = self.write_batch(options, updates);
        timer.stop(&self.reports.statistics, HistogramKind::DbWrite);
        written
    }

    #[inline(always)]
    fn write_batch(&self, options: &WriteOptions, updates: &mut WriteBatch) -> Result<()> {
        let cost = updates.count().saturating_mul(cost::UPDATE);
        fiber::spend(cost::WRITE.saturating_add(cost).min(fiber::QUANTUM));
        self.check_write(options)?;
        if options.low_pri {
            self.yield_low_priority(options, updates.data_bytes() as u64)?;
        }
        updates.status()?;
        let key_space = self.cfs.load();
        let found = check_batch(&key_space, updates, options.ignore_missing_column_families)?;
        let result = if found.missing {
            self.write_known(options, updates, &key_space)
        } else {
            let taken = Taken(updates);
            let rep = taken.0.take_rep();
            let (rep, result) = self.write_rep(options, rep);
            taken.0.restore(rep);
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
    ) -> Result<()> {
        let known = updates.filtered(|id| key_space.by_id(id).is_some())?;
        self.write_rep(options, known).1
    }

    /// Sets `key` to `value`.
    pub(crate) fn put(
        &self,
        options: &WriteOptions,
        cf: u32,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        if options.low_pri {
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
        self.write_rep(options, self.settings.one_update(|b| b.put_cf(cf, key, value))?.take_rep())
            .1
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
        if options.low_pri {
            let mut own = self.settings.one_update(fill)?;
            self.yield_low_priority(options, own.data_bytes() as u64)?;
            return self.write_rep(options, own.take_rep()).1;
        }
        if let Some(leader) = self.writes.queue.try_lead() {
            return self.lead_one(leader, options, fill, None);
        }
        self.write_rep(options, self.settings.one_update(fill)?.take_rep()).1
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
        let result = self.lead(leader, options, Own { rep: &mut rep, put });
        if rep.capacity() > SCRATCH_BYTES_KEPT {
            rep = Vec::new();
        }
        scratch.restore(rep);
        drop(scratch);
        self.with_errors_reported(result)
    }

    fn check_write(&self, options: &WriteOptions) -> Result<()> {
        if options.sync && options.disable_wal {
            return Err(Error::invalid_argument("Sync writes has to enable WAL."));
        }
        self.dir.check_writable()?;
        self.life.check_caller()?;
        match options.rate_limiter_priority {
            None => Ok(()),
            Some(priority) => check_pace(&self.settings, options, priority),
        }
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

    fn write_rep(&self, options: &WriteOptions, rep: Vec<u8>) -> (Vec<u8>, Result<()>) {
        let batch = QueuedBatch { rep, options: *options, exclusive: false };
        let wait = perf::time(PerfMetric::WriteThreadWaitNanos);
        let queue = &self.writes.queue;
        let joined =
            queue.join(batch, || self.life.may_wait_for_stall(), |shared| self.help_insert(shared));
        drop(wait);
        match joined {
            Joined::Done(rep, result) => (rep, result),
            Joined::Leader(mut batch, leader) => {
                let own = Own { rep: &mut batch.rep, put: None };
                let result = self.lead(leader, options, own);
                (batch.rep, self.with_errors_reported(result))
            }
        }
    }

    /// Writes as leader, together with the batches queued since, and gives up leadership.
    fn lead(&self, leader: Leadership, options: &WriteOptions, own: Own<'_>) -> Result<()> {
        let mut turn = Turn { db: self, leader, followers: Vec::new(), ended: false };
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

    fn write_group(
        &self,
        leader: &Leadership,
        options: &WriteOptions,
        own: Own<'_>,
        followers: &mut [Follower],
    ) -> Result<()> {
        let mut clock = perf::phases(PerfMetric::WritePreAndPostProcessTime);
        let mut count = batch::count(own.rep);
        let mut bytes = own.bytes();
        for Follower { batch: other, .. } in &*followers {
            count += batch::count(&other.rep);
            bytes += other.rep.len() - batch::HEADER_LEN;
        }
        if bytes > own.bytes() {
            self.writes.controller.owe(leader, (bytes - own.bytes()) as u64);
        }
        let last = self.last_sequence.load(Ordering::Relaxed);
        if u64::from(count) > LAST_SEQUENCE_MAX - last {
            return Err(no_sequence());
        }
        let first = last + 1;
        if planted::is(Bug::PublishedBeforeInsert) {
            self.last_sequence.store(first + u64::from(count) - 1, Ordering::Release);
        }
        if !options.disable_wal {
            if let Some(priority) = options.rate_limiter_priority {
                self.wait_for_pace(bytes, priority)?;
            }
            own.rep[..batch::HEADER_LEN].copy_from_slice(&batch::header(first, count));
            clock.turn_to(PerfMetric::WriteWalTime);
            let logged = self.log_group(options.sync, bytes, &own, followers);
            if planted::is(Bug::GroupPartlyInserted) && logged.is_err() {
                self.insert_group(leader, (first, batch::count(own.rep)), &own, &mut [])?;
            }
            logged?;
        } else {
            self.writes.last_unlogged.store(first + u64::from(count) - 1, Ordering::Relaxed);
        }
        clock.turn_to(PerfMetric::WriteMemtableTime);
        let inserted = self.insert_group(leader, (first, count), &own, followers);
        clock.turn_to(PerfMetric::WritePreAndPostProcessTime);
        if let Err(error) = inserted {
            // The group is logged but only partly in memory: the memory state no longer is what
            // recovery would build, so nothing more may be written until it is reopened.
            self.poison(&error);
            return Err(error);
        }
        self.last_sequence.store(first + u64::from(count) - 1, Ordering::Release);
        self.reports.count_writes(
            options,
            1 + followers.len() as u64,
            u64::from(count),
            bytes as u64,
        );
        Ok(())
    }

    /// Logs a group of `bytes`.
    fn log_group(
        &self,
        sync: bool,
        bytes: usize,
        own: &Own<'_>,
        followers: &[Follower],
    ) -> Result<()> {
        let times = self.background.regulator.times_log();
        let started = if sync || times { pumice_port::time::now_micros() } else { 0 };
        let mut wal = if sync { self.logs.at_rest() } else { self.logs.wal.lock() };
        let appended = if followers.is_empty() {
            let parts = [&*own.rep, own.value()];
            wal.append(if own.put.is_some() { &parts } else { &parts[..1] }, sync)
        } else {
            let mut parts: Vec<&[u8]> = Vec::with_capacity(2 + followers.len());
            parts.extend([&*own.rep, own.value()]);
            parts.extend(followers.iter().map(|f| &f.batch.rep[batch::HEADER_LEN..]));
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
                self.background_error_of_leader(&error, Reason::WriteCallback);
                Err(error)
            }
        }
    }
}

/// Only a recovered database may be near the end of its sequence numbers: writing never gets there.
#[cold]
pub(crate) fn no_sequence() -> Error {
    Error::aborted("sequence numbers are exhausted")
}

/// What a batch has.
#[derive(Default)]
struct Found {
    /// Records of column families that do not exist, which have to be left out.
    missing: bool,
    range_deletions: bool,
}

/// Refuses a batch that could not be applied completely.
fn check_batch(key_space: &CfMap, updates: &WriteBatch, ignore_missing: bool) -> Result<Found> {
    let mut found = Found::default();
    for record in updates.iter() {
        let BatchRecord::Entry { column_family, value_type, key, value } = record? else {
            continue;
        };
        let Some(cf) = key_space.by_id(column_family) else {
            if ignore_missing {
                found.missing = true;
                continue;
            }
            return Err(Error::invalid_argument("Invalid column family specified in write batch"));
        };
        match value_type {
            ValueType::Value | ValueType::Deletion | ValueType::SingleDeletion => {}
            ValueType::WideColumnEntity => {}
            ValueType::Merge if cf.merge_operator().is_some() => {}
            ValueType::Merge => {
                return Err(Error::not_supported("Provide a merge_operator when opening DB"));
            }
            ValueType::RangeDeletion => {
                check_range(cf.comparator(), key, value)?;
                found.range_deletions = true;
            }
            other => return Err(Error::not_supported(format!("{other:?} in a WriteBatch"))),
        }
    }
    Ok(found)
}

/// A range must not end before it begins.
pub(crate) fn check_range(
    comparator: &pumice_base::Comparator,
    begin: &[u8],
    end: &[u8],
) -> Result<()> {
    if comparator.compare(begin, end) == std::cmp::Ordering::Greater {
        return Err(Error::invalid_argument("end key comes before start key"));
    }
    Ok(())
}

/// RocksDB's rules for `rate_limiter_priority`.
#[cold]
fn check_pace(settings: &Settings, options: &WriteOptions, priority: IoPriority) -> Result<()> {
    if priority != IoPriority::User {
        return Err(Error::invalid_argument(
            "WriteOptions::rate_limiter_priority only allows Env::IO_TOTAL and Env::IO_USER \
             due to implementation constraints",
        ));
    }
    if options.disable_wal || settings.options.load().manual_wal_flush {
        return Err(Error::invalid_argument(
            "WriteOptions::rate_limiter_priority currently only supports rate-limiting \
             automatic WAL flush, which requires `WriteOptions::disableWAL` and \
             `DBOptions::manual_wal_flush` both set to false",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use super::*;
    use crate::{Db, MemFs, Options};

    /// A large update does not keep its memory for as long as the database is open.
    #[pumice_test_macros::test]
    fn the_buffer_of_a_large_update_is_given_back() {
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.file_system = MemFs::new(1).shared();
        let db = Db::open(&options, "/db").unwrap();
        let kept = || {
            let mut scratch = db.inner().writes.scratch.lock();
            let rep = scratch.take_rep();
            let bytes = rep.capacity();
            scratch.restore(rep);
            bytes
        };
        db.delete_opt(&WriteOptions::default(), [1; 1000]).unwrap();
        assert!((1000..4096).contains(&kept()), "the usual one stays: {}", kept());
        db.delete_opt(&WriteOptions::default(), &vec![1; 1 << 20]).unwrap();
        assert!(kept() <= SCRATCH_BYTES_KEPT);
        db.put_opt(&WriteOptions::default(), b"k", b"v").unwrap();
        db.close().unwrap();
    }

    /// A put, whose value is not copied, leaves the log that a batch would.
    #[pumice_test_macros::test]
    fn puts_are_logged_as_batches_are() {
        let log_of = |in_batches: bool| {
            let fs = MemFs::new(1).shared();
            let mut options = Options::default();
            options.db.create_if_missing = true;
            options.db.file_system = Arc::clone(&fs);
            let db = Db::open(&options, "/db").unwrap();
            let cf = db.create_column_family(&options.cf, "other").unwrap();
            let write = WriteOptions::default();
            let sizes = [0, 1, 127, 128, 4096, 32 << 10, 100_000, 3 << 20];
            for (i, bytes) in sizes.into_iter().enumerate() {
                let (key, value) = (format!("key{i}").into_bytes(), vec![i as u8; bytes]);
                let mut batch = WriteBatch::new();
                if in_batches {
                    batch.put(&key, &value);
                    db.write_opt(&write, &mut batch).unwrap();
                    batch.clear();
                    batch.put_cf(cf.id(), &key, &value);
                    db.write_opt(&write, &mut batch).unwrap();
                } else {
                    db.put_opt(&write, &key, &value).unwrap();
                    db.put_cf_opt(&write, &cf, &key, &value).unwrap();
                }
                assert_eq!(
                    db.get_opt(&Default::default(), &key).unwrap().as_deref(),
                    Some(&*value)
                );
                let read = db.get_cf_opt(&Default::default(), &cf, &key).unwrap();
                assert_eq!(read.as_deref(), Some(&*value));
            }
            let names = fs.list("/db".as_ref()).unwrap();
            let log = names.iter().filter(|name| name.ends_with(".log")).max().unwrap().clone();
            let bytes = fs.read_file(format!("/db/{log}").as_ref()).unwrap();
            db.close().unwrap();
            bytes
        };
        let log = log_of(false);
        assert!(log.len() > 6 << 20);
        assert!(log == log_of(true), "the logs differ");
    }
}
