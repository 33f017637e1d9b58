//! The handle's reads: they choose a sequence number and a super version; `read` does the rest.

mod cursors;
mod requests;
mod sources;
mod traced;

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arc_swap::Guard;
use pumice_base::{Error, Result, SequenceNumber};
use pumice_env::IoActivity;
use pumice_env::activity;
use pumice_env::perf::{self, PerfMetric};
use pumice_port::fiber;
use pumice_table::TableReadOptions;

use crate::cost;
use crate::engine::DbInner;
use crate::options::requests::{ContinueCallback, ReadOptions};
use crate::read::answer::PointAnswer;
use crate::read::get::timed::FoundTimes;
use crate::read::get::{self, Hits, operands};
use crate::read::multi_get::{Family, MultiGet};
use crate::read::newest::{Newer, newer_than};
use crate::read::pinned::PinnedSlice;
use crate::read::sampling::Sampled;
use crate::read::timed::{TimedValue, check_history, read_time, stamped, wrong_method};
use crate::snapshot::{Purpose, Snapshot};
use crate::stats::{HistogramKind, Record, Statistics, Tally, Ticker, Timer};
use crate::version::family::{CfData, ColumnFamily};
use crate::version::super_version::{SuperVersion, keep_views, kept_view};

pub(crate) use cursors::ReadState;
pub(crate) use requests::{point_options, table_options};

fn count_hits(tally: &Tally<'_>, hits: &Hits) {
    tally.tick(Ticker::MemtableHit, hits.memtable);
    tally.tick(Ticker::MemtableMiss, hits.memtable_misses);
    let [l0, l1, below] = hits.levels;
    tally.tick(Ticker::GetHitL0, l0);
    tally.tick(Ticker::GetHitL1, l1);
    tally.tick(Ticker::GetHitL2AndUp, below);
}

fn count_multi_get<W: PointAnswer>(
    statistics: &Statistics,
    hits: &Hits,
    answers: &[Result<Option<W>>],
    timer: Timer,
) {
    let micros = timer.micros();
    let found = answers.iter().filter_map(|answer| answer.as_ref().ok()?.as_ref());
    let (keys, bytes) = found.fold((0, 0), |(n, bytes), value| (n + 1, bytes + value.bytes()));
    statistics.tally(|tally| {
        count_hits(tally, hits);
        tally.tick(Ticker::NumberMultigetCalls, 1);
        tally.tick(Ticker::NumberMultigetKeysRead, answers.len() as u64);
        tally.tick(Ticker::NumberMultigetKeysFound, keys);
        tally.tick(Ticker::NumberMultigetBytesRead, bytes);
        tally.measure(HistogramKind::BytesPerMultiget, bytes);
        if let Some(micros) = micros {
            tally.measure(HistogramKind::DbMultiget, micros);
        }
    });
}

#[cold]
fn foreign_snapshot() -> Error {
    Error::invalid_argument("snapshot of another database")
}

/// Several column families at one moment, on a secondary: its tables keep no versions for snapshots
/// of its own.
fn views<'a>(db: &DbInner, cfs: &[&'a Arc<CfData>]) -> (Vec<Family<'a>>, SequenceNumber) {
    loop {
        let views: Vec<_> = cfs.iter().map(|cf| cf.super_version.load_full()).collect();
        let sequence = db.last_sequence.load(Ordering::Acquire);
        // As in `sequence_for`.
        if cfs.iter().zip(&views).all(|(cf, view)| cf.ingestions() == view.ingestions) {
            let families = cfs.iter().zip(views).map(|(cf, view)| Family::at(cf, view));
            return (families.collect(), sequence);
        }
        db.await_ingestion();
    }
}

/// Keys with the index of their column family.
type NumberedKeys<'k> = Vec<(usize, &'k [u8])>;

/// The column families of `keys`, each once, and the keys with the index of theirs.
fn by_family<'a, 'k>(
    keys: &[(&'a ColumnFamily, &'k [u8])],
) -> (Vec<&'a Arc<CfData>>, NumberedKeys<'k>) {
    let mut cfs: Vec<&Arc<CfData>> = Vec::with_capacity(1);
    let numbered = keys.iter().map(|&(cf, key)| {
        let cf = &cf.data;
        let known = cfs.iter().position(|known| Arc::ptr_eq(known, cf));
        let number = known.unwrap_or_else(|| {
            cfs.push(cf);
            cfs.len() - 1
        });
        (number, key)
    });
    let numbered = numbered.collect();
    (cfs, numbered)
}

/// What the values of `key` are to be merged from, unmerged: see `read::get::operands`.
pub(crate) fn get_operands(
    db: &DbInner,
    options: &ReadOptions,
    cf: &CfData,
    key: &[u8],
    go_on: ContinueCallback<'_>,
) -> Result<Vec<PinnedSlice>> {
    db.check_snapshot(options)?;
    db.life.check_caller()?;
    fiber::spend(cost::GET);
    db.trace_get(cf, key);
    let time = read_time(cf, options)?;
    let timed = time.map(|time| stamped(key, time));
    let key = timed.as_deref().unwrap_or(key);
    let search = |view: &SuperVersion, table: &TableReadOptions, sequence, hits: &mut Hits| {
        if let Some(time) = time {
            check_history(cf, view, time)?;
        }
        operands::get_operands(cf, view, table, (sequence, key), go_on, hits)
    };
    let bytes = |found: &Vec<PinnedSlice>| {
        (!found.is_empty()).then(|| found.iter().map(|operand| operand.len() as u64).sum())
    };
    observed(db, options, (cf, Sampled::Never), search, bytes)
}

/// A point read that is counted and timed; `bytes` of what was found, if anything was.
#[inline(always)]
fn observed<T>(
    db: &DbInner,
    options: &ReadOptions,
    (cf, sampled): (&CfData, Sampled),
    search: impl FnOnce(&SuperVersion, &TableReadOptions, SequenceNumber, &mut Hits) -> Result<T>,
    bytes: impl Fn(&T) -> Option<u64>,
) -> Result<T> {
    let timer = db.reports.statistics.timer();
    let _cpu = perf::time(PerfMetric::GetCpuNanos);
    let began = db.background.regulator.reads.begin();
    let mut hits = Hits { sampled, ..Hits::default() };
    let snapshot = perf::time(PerfMetric::GetSnapshotTime);
    let (view, sequence) = db.view(cf, options);
    drop(snapshot);
    let table = point_options(options);
    let found = activity::during(IoActivity::Get, || search(&view, &table, sequence, &mut hits));
    let _rest = perf::time(PerfMetric::GetPostProcessTime);
    db.background.regulator.reads.end(began);
    if hits.is_due {
        db.note_due(cf.id);
    }
    let bytes = found.as_ref().ok().and_then(bytes);
    if let Some(bytes) = bytes {
        perf::count(PerfMetric::GetReadBytes, bytes);
    }
    if let Some(statistics) = &db.reports.statistics {
        let micros = timer.micros();
        statistics.tally(|tally| {
            count_hits(tally, &hits);
            tally.tick(Ticker::NumberKeysRead, 1);
            tally.tick(Ticker::BytesRead, bytes.unwrap_or(0));
            tally.measure(HistogramKind::BytesPerRead, bytes.unwrap_or(0));
            if let Some(micros) = micros {
                tally.measure(HistogramKind::DbGet, micros);
            }
        });
    }
    found
}

impl DbInner {
    /// The value or columns of `key`, or None. The handle instantiates it once for each kind.
    #[inline(always)]
    pub(crate) fn get<W: PointAnswer>(
        &self,
        options: &ReadOptions,
        cf: &CfData,
        key: &[u8],
    ) -> Result<Option<W>> {
        self.check_snapshot(options)?;
        self.life.check_caller()?;
        fiber::spend(cost::GET);
        if cf.timestamp_size > 0 || options.timestamp.is_some() {
            self.trace_get(cf, key);
            let found = self.get_at(options, cf, key)?;
            return Ok(found.map(|(value, _)| value));
        }
        let is_any = perf::is_any() || self.reports.observes_reads;
        if (is_any || self.background.regulator.reads.is_on())
            && let Some(sampled) = self.observation()
        {
            return self.get_observed(options, cf, key, sampled);
        }
        let (super_version, sequence) = self.view(cf, options);
        get::get(cf, &cf.tables(), &super_version, &point_options(options), sequence, key)
    }

    /// The value or columns of `key` as of the time of `options`, with their timestamp.
    ///
    /// # Errors
    /// Those of `get`; InvalidArgument for a time that is missing, of the wrong length, or before
    /// the history that is kept; for any time in a family without timestamps.
    #[inline(never)]
    pub(crate) fn get_at<W: PointAnswer>(
        &self,
        options: &ReadOptions,
        cf: &CfData,
        key: &[u8],
    ) -> Result<Option<TimedValue<W>>> {
        self.check_snapshot(options)?;
        self.life.check_caller()?;
        let Some(time) = read_time(cf, options)? else {
            return Err(wrong_method(cf));
        };
        let key = stamped(key, time);
        let found_at = RefCell::default();
        let search = |view: &SuperVersion, table: &TableReadOptions, sequence, hits: &mut Hits| {
            check_history(cf, view, time)?;
            get::timed::get_at::<W>(cf, view, table, (sequence, &key), &found_at, hits)
        };
        let sampled = self.background.regulator.reads.sampled();
        let bytes = |found: &Option<W>| found.as_ref().map(W::bytes);
        let found = observed(self, options, (cf, sampled), search, bytes)?;
        Ok(found.map(|value| (value, found_at.into_inner().into_newest())))
    }

    /// [`DbInner::get_at`] of several keys in one state.
    #[cold]
    pub(crate) fn multi_get_at<W: PointAnswer>(
        &self,
        options: &ReadOptions,
        keys: &[(&ColumnFamily, &[u8])],
    ) -> Vec<Result<Option<TimedValue<W>>>> {
        let whole = |(cf, key): &(&ColumnFamily, &[u8])| match read_time(&cf.data, options)? {
            Some(time) => Ok(stamped(key, time)),
            None => Err(wrong_method(&cf.data)),
        };
        let checked = self.check_snapshot(options);
        let whole = match checked.and_then(|()| keys.iter().map(whole).collect::<Result<Vec<_>>>())
        {
            Ok(whole) => whole,
            // As in RocksDB a family that does not fit fails all.
            Err(error) => return keys.iter().map(|_| Err(error.clone())).collect(),
        };
        let keys: Vec<_> = keys.iter().zip(&whole).map(|((cf, _), key)| (*cf, &key[..])).collect();
        let times = vec![RefCell::default(); keys.len()];
        let found = self.multi_get_found::<W>(options, &keys, Some(&times));
        let timed = |(answer, time): (Result<Option<W>>, RefCell<FoundTimes>)| {
            answer.map(|value| value.map(|value| (value, time.into_inner().into_newest())))
        };
        found.into_iter().zip(times).map(timed).collect()
    }

    /// Whether `key` was written after the snapshot of `options`; false without one.
    pub(crate) fn newer_version_present(
        &self,
        options: &ReadOptions,
        cf: &CfData,
        key: &[u8],
    ) -> Result<bool> {
        self.check_snapshot(options)?;
        self.life.check_caller()?;
        let Some(snapshot) = &options.snapshot else { return Ok(false) };
        let timed = (cf.timestamp_size > 0).then(|| cf.comparator().at_newest(key));
        let key = timed.as_deref().unwrap_or(key);
        let (view, table) = (cf.super_version.load(), point_options(options));
        let newer = newer_than(cf, &view, key, snapshot.sequence_number(), Some(&table))?;
        Ok(newer == Newer::Yes)
    }

    /// Whether a read is counted, timed or sampled.
    #[inline(never)]
    fn observation(&self) -> Option<Sampled> {
        let reads = &self.background.regulator.reads;
        let sampled = if reads.sampled().wants() { Sampled::This } else { Sampled::Never };
        let is_counted = perf::is_any() || self.reports.observes_reads || reads.is_timed();
        (is_counted || sampled == Sampled::This).then_some(sampled)
    }

    /// Reads have found no value in a table so often that it is to be compacted. Where this task
    /// may not wait, the next change of files sees it.
    #[cold]
    fn note_due(&self, family: u32) {
        if self.life.mark.check_may_lock().is_err() {
            return;
        }
        let mut state = self.state.lock();
        if let Some(cf) = state.cfs.get_mut(&family) {
            self.scheduler().refresh_scores(cf);
        }
        state.queue_compaction(family);
        self.scheduler().schedule_background(&mut state);
    }

    /// [`DbInner::get`] when it is counted, timed or sampled.
    #[inline(never)]
    fn get_observed<W: PointAnswer>(
        &self,
        options: &ReadOptions,
        cf: &CfData,
        key: &[u8],
        sampled: Sampled,
    ) -> Result<Option<W>> {
        let search = |view: &SuperVersion, table: &TableReadOptions, sequence, hits: &mut Hits| {
            get::get_observed::<W>(cf, &cf.tables(), view, table, (sequence, key), hits)
        };
        self.trace_get(cf, key);
        let at_snapshot = options.snapshot.is_some();
        self.reports.traces.blocks.during(key, at_snapshot, || {
            let bytes = |found: &Option<W>| found.as_ref().map(W::bytes);
            observed(self, options, (cf, sampled), search, bytes)
        })
    }

    /// The values of several keys in one state.
    pub(crate) fn multi_get<W: PointAnswer>(
        &self,
        options: &ReadOptions,
        keys: &[(&ColumnFamily, &[u8])],
    ) -> Vec<Result<Option<W>>> {
        if keys.is_empty() {
            return Vec::new();
        }
        if perf::is_any() {
            self.trace_multi_get(keys);
        }
        if options.timestamp.is_some() || keys.iter().any(|(cf, _)| cf.data.timestamp_size > 0) {
            let found = self.multi_get_at::<W>(options, keys);
            let value = |found: Option<TimedValue<W>>| found.map(|(value, _)| value);
            return found.into_iter().map(|found| found.map(value)).collect();
        }
        self.multi_get_found(options, keys, None)
    }

    /// The values of `keys`, and to `times` the timestamps of their versions, if they have some.
    fn multi_get_found<W: PointAnswer>(
        &self,
        options: &ReadOptions,
        keys: &[(&ColumnFamily, &[u8])],
        times: Option<&[RefCell<FoundTimes>]>,
    ) -> Vec<Result<Option<W>>> {
        if let Err(error) = self.check_snapshot(options).and_then(|()| self.life.check_caller()) {
            return keys.iter().map(|_| Err(error.clone())).collect();
        }
        let timer = self.reports.statistics.timer();
        let began = self.background.regulator.reads.begin();
        // Across column families only a snapshot keeps all versions of one moment readable, and it
        // comes first; within one of them the super version does.
        let own;
        let (cfs, wanted) = by_family(keys);
        let (families, sequence) = match cfs[..] {
            [cf] => {
                let (view, sequence) = self.view(cf, options);
                (vec![Family::at(cf, Guard::into_inner(view))], sequence)
            }
            _ if self.dir.secondary => views(self, &cfs),
            _ => {
                let snapshot = match &options.snapshot {
                    Some(given) => given,
                    None => {
                        own = self.snapshot(Purpose::Reads);
                        &own
                    }
                };
                let families = cfs.iter().map(|cf| Family::under(cf, snapshot)).collect();
                (families, snapshot.sequence_number())
            }
        };
        let kept = |family: &Family<'_>| match &options.timestamp {
            Some(time) => check_history(family.cf, &family.view, time),
            None => Ok(()),
        };
        if let Err(error) = families.iter().try_for_each(kept) {
            self.background.regulator.reads.end(began);
            return keys.iter().map(|_| Err(error.clone())).collect();
        }
        let table = point_options(options);
        let sampled = self.background.regulator.reads.sampled();
        let search = MultiGet::<W>::new(families, wanted, table, sequence);
        let search = search.noting(times).sampling(sampled);
        let answers = activity::during(IoActivity::MultiGet, || search.run());
        let _rest = perf::time(PerfMetric::GetPostProcessTime);
        if perf::is_any() {
            let found = answers.iter().filter_map(|answer| answer.as_ref().ok()?.as_ref());
            perf::count(PerfMetric::MultigetReadBytes, found.map(W::bytes).sum());
        }
        self.background.regulator.reads.end(began);
        if search.hits().is_due {
            cfs.iter().for_each(|cf| self.note_due(cf.id));
        }
        if let Some(statistics) = &self.reports.statistics {
            count_multi_get(statistics, &search.hits(), &answers, timer);
        }
        answers
    }

    /// Refuses a snapshot of another database.
    #[inline]
    pub(crate) fn check_snapshot(&self, options: &ReadOptions) -> Result<()> {
        match &options.snapshot {
            Some(snapshot) if !snapshot.belongs_to(self) => Err(foreign_snapshot()),
            // Tables of the primary keep no versions for it.
            Some(_) if self.dir.secondary => {
                Err(Error::not_supported("snapshot not supported in secondary mode"))
            }
            _ => Ok(()),
        }
    }

    /// The super version of `cf` to read, and the sequence number to read at.
    #[inline]
    fn view(
        &self,
        cf: &CfData,
        options: &ReadOptions,
    ) -> (Guard<Arc<SuperVersion>>, SequenceNumber) {
        if let Some(snapshot) = &options.snapshot
            && let Some(view) = kept_view(snapshot, cf.id)
        {
            return (Guard::from_inner(view), snapshot.sequence_number());
        }
        loop {
            let view = cf.super_version.load();
            if let Some(sequence) = self.sequence_for(cf, &view, options) {
                return (view, sequence);
            }
            self.await_ingestion();
        }
    }

    /// The sequence number to read `view` at, which was loaded before; None if files were ingested
    /// since: a read at that number would see later writes without those files.
    #[inline]
    pub(crate) fn sequence_for(
        &self,
        cf: &CfData,
        view: &SuperVersion,
        options: &ReadOptions,
    ) -> Option<SequenceNumber> {
        let sequence = self.read_sequence(options);
        // A sequence number that covers a write after the files also makes the new count visible.
        (cf.ingestions() == view.ingestions).then_some(sequence)
    }

    /// Waits until the super version with the files is published: an ingestion is counted under the
    /// state lock, which is held until then.
    #[cold]
    fn await_ingestion(&self) {
        drop(self.state.lock());
    }

    #[inline]
    fn read_sequence(&self, options: &ReadOptions) -> u64 {
        match &options.snapshot {
            Some(snapshot) => snapshot.sequence_number(),
            None => self.last_sequence.load(Ordering::Acquire),
        }
    }

    /// A snapshot of the present state.
    pub(crate) fn snapshot(&self, purpose: Purpose) -> Snapshot {
        let me = self.life.me.get().cloned().unwrap_or_default();
        let latest = || self.last_sequence.load(Ordering::Acquire);
        let keep = || keep_views(self.cfs.load().all());
        self.snapshots.acquire(purpose, pumice_port::time::wall_seconds(), me, latest, keep)
    }
}

#[cfg(test)]
mod tests;
