//! Counts the work of an iterator for the statistics and the perf context of its task.
//!
//! Steps are reported to statistics when the iterator ends, as in RocksDB, and seeks at once; to
//! perf contexts after each move. An iterator without an observer notices at its next seek that its
//! task's level was raised.
//!
//! Thread safety: the iterator's.

use std::sync::Arc;

use pumice_base::{Error, InternalIterator};
use pumice_env::perf::{self, PerfMetric};
use pumice_env::{IoActivity, activity};

use super::{DbIterator, Direction, Place};
use crate::options::requests::ReadOptions;
use crate::read::source::Source;
use crate::stats::{HistogramKind, Record, Statistics, Ticker};
use crate::trace::query::Call;

/// The kind of a seek.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SeekKind<'t> {
    /// The first or the last key, which RocksDB does not time; a bound that there is becomes the
    /// target of what it traces.
    ToFirst,
    ToLast,
    /// That key or one after it.
    ToTarget(&'t [u8]),
    /// That key or one before it.
    ForPrev(&'t [u8]),
}

/// The error of a move that skips more than its reader allows.
#[cold]
pub(super) fn too_many_skipped() -> Error {
    Error::incomplete("Too many internal keys skipped.")
}

/// Counts of one iterator that are not reported yet.
#[derive(Default)]
pub(super) struct Observer {
    /// Entries that a move may pass over; 0 for no limit.
    skips_max: u64,
    /// Entries met in the present move but for those that a range deletion hides, which RocksDB
    /// does not count.
    counted: u64,
    statistics: Option<Arc<Statistics>>,
    /// Entries examined in the present move.
    pub met: u64,
    /// Seeks made in the present move instead of many steps.
    pub reseeks: u64,
    /// Entries stepped over in the present move: older versions of a key, deleted ones, and
    /// versions newer than the iterator shows.
    pub older: u64,
    pub deleted: u64,
    pub newer: u64,
    /// Entries examined but not shown.
    skipped: u64,
    nexts: u64,
    nexts_found: u64,
    prevs: u64,
    prevs_found: u64,
    /// Bytes of keys and values found by steps.
    bytes: u64,
}

impl Observer {
    /// The observer of a new iterator; None if nothing is counted.
    pub fn new(statistics: Option<&Arc<Statistics>>) -> Option<Box<Self>> {
        if statistics.is_none() && !perf::is_any() {
            return None;
        }
        let statistics = statistics.cloned();
        statistics.tick(Ticker::NoIteratorCreated);
        Some(Box::new(Observer { statistics, ..Observer::default() }))
    }

    /// A deleted key is passed, which a range deletion hides if `hidden`.
    pub fn pass(&mut self, hidden: bool) {
        self.deleted += u64::from(!hidden);
        if hidden {
            self.uncount();
        }
    }

    /// The entry that was met last is hidden by a range deletion.
    pub fn uncount(&mut self) {
        self.counted = self.counted.saturating_sub(1);
    }

    /// A move has ended, on a key if `found`.
    fn end_move(&mut self, found: bool) {
        perf::count(PerfMetric::InternalKeySkippedCount, std::mem::take(&mut self.older));
        perf::count(PerfMetric::InternalDeleteSkippedCount, std::mem::take(&mut self.deleted));
        perf::count(PerfMetric::InternalRecentSkippedCount, std::mem::take(&mut self.newer));
        let met = std::mem::take(&mut self.met);
        self.counted = 0;
        self.skipped += met.saturating_sub(u64::from(found));
        let reseeks = std::mem::take(&mut self.reseeks);
        if reseeks > 0 {
            self.statistics.tick_by(Ticker::NumberOfReseeksInIteration, reseeks);
        }
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        let Some(statistics) = &self.statistics else { return };
        statistics.tally(|tally| {
            tally.tick(Ticker::NoIteratorDeleted, 1);
            tally.tick(Ticker::NumberDbNext, self.nexts);
            tally.tick(Ticker::NumberDbNextFound, self.nexts_found);
            tally.tick(Ticker::NumberDbPrev, self.prevs);
            tally.tick(Ticker::NumberDbPrevFound, self.prevs_found);
            tally.tick(Ticker::IterBytesRead, self.bytes);
            tally.tick(Ticker::NumberIterSkip, self.skipped);
        });
    }
}

/// Applies `count` to the observer of an iterator, if there is one and the search is `OBSERVED`.
#[inline(always)]
pub(super) fn note<const OBSERVED: bool>(
    observer: &mut Option<Box<Observer>>,
    count: impl FnOnce(&mut Observer),
) {
    if OBSERVED && let Some(observer) = observer {
        count(observer);
    }
}

/// Counts an entry that is met; true if there were more before it than may be skipped, as RocksDB's
/// `TooManyInternalKeysSkipped` finds.
#[inline(always)]
pub(super) fn meets_too_many(observer: &mut Option<Box<Observer>>) -> bool {
    let Some(seen) = observer else { return false };
    seen.met += 1;
    seen.counted += 1;
    seen.skips_max > 0 && seen.counted > seen.skips_max.saturating_add(1)
}

impl DbIterator {
    /// Sets what the options say of how it moves.
    pub(crate) fn limit(&mut self, options: &ReadOptions) {
        self.limits.sees_ranges_deleted = options.ignore_range_deletions;
        if options.max_skippable_internal_keys > 0 {
            // The observer counts what a move meets.
            let observer = self.observer.get_or_insert_default();
            observer.skips_max = options.max_skippable_internal_keys;
            self.at.shown = Place::Observed;
        }
    }

    /// Whether the present move, which has found nothing yet, has met more entries than may be
    /// skipped.
    #[inline]
    pub(super) fn skips_too_many(&self) -> bool {
        self.observer
            .as_ref()
            .is_some_and(|seen| seen.skips_max > 0 && seen.counted > seen.skips_max)
    }

    /// Ends such a move.
    #[cold]
    pub(super) fn give_up(&mut self) {
        self.at.place = Place::Nowhere;
        self.status = Err(too_many_skipped());
    }

    /// Bytes of the key and the value shown; None if there are none.
    fn shown_bytes(&self) -> Option<u64> {
        let value = if self.at.place == self.at.shown {
            self.inner.value()
        } else {
            &self.buffers.saved_value
        };
        self.key().map(|key| (key.len() + value.len()) as u64)
    }

    /// Runs `seek`, and counts it if counting is on.
    #[inline]
    pub(super) fn observe_seek(&mut self, kind: SeekKind<'_>, seek: impl FnOnce(&mut Self)) {
        if self.observer.is_none() {
            if !perf::is_any() {
                return seek(self);
            }
            self.observer = Observer::new(None);
            self.at.shown = Place::Observed;
        }
        self.trace_seek(kind);
        let statistics = self.observer.as_ref().and_then(|observer| observer.statistics.clone());
        let timer = statistics.timer();
        perf::count(PerfMetric::IterSeekCount, 1);
        let cpu = perf::time(PerfMetric::IterSeekCpuNanos);
        activity::during(IoActivity::DbIterator, || seek(self));
        drop(cpu);
        let micros =
            timer.micros().filter(|_| !matches!(kind, SeekKind::ToFirst | SeekKind::ToLast));
        let bytes = self.shown_bytes();
        if let Some(observer) = &mut self.observer {
            observer.end_move(bytes.is_some());
        }
        perf::count(PerfMetric::IterReadBytes, bytes.unwrap_or(0));
        let Some(statistics) = statistics else { return };
        statistics.tally(|tally| {
            tally.tick(Ticker::NumberDbSeek, 1);
            tally.tick(Ticker::NumberDbSeekFound, u64::from(bytes.is_some()));
            tally.tick(Ticker::IterBytesRead, bytes.unwrap_or(0));
            if let Some(micros) = micros {
                tally.measure(HistogramKind::DbSeek, micros);
            }
        });
    }

    /// Notes a seek, if there is a trace of queries.
    fn trace_seek(&self, kind: SeekKind<'_>) {
        let tables = self.cf.tables();
        let trace = &tables.traces().queries;
        if !trace.is_on() {
            return;
        }
        // Timestamps are no part of what the caller gave.
        let stamp = self.limits.look.as_ref().map_or(0, |_| self.cf.timestamp_size);
        let bare = |key: &Option<Vec<u8>>| {
            key.as_ref()
                .map_or_else(Vec::new, |key| key[..key.len().saturating_sub(stamp)].to_vec())
        };
        let (lower, upper) = (bare(&self.limits.lower_bound), bare(&self.limits.upper_bound));
        let (key, for_prev) = match kind {
            SeekKind::ToTarget(key) => (key, false),
            SeekKind::ForPrev(key) => (key, true),
            SeekKind::ToFirst if !lower.is_empty() => (&lower[..], false),
            SeekKind::ToLast if !upper.is_empty() => (&upper[..], true),
            SeekKind::ToFirst | SeekKind::ToLast => return,
        };
        let (family, bounds) = (self.cf.id, [&lower[..], &upper[..]]);
        trace.note(&Call::Seek { family, key, bounds, for_prev });
    }

    /// Takes a `step`, and counts it if counting is on.
    #[inline]
    pub(super) fn observe_step(&mut self, heading: Direction, step: impl FnOnce(&mut Self)) {
        if self.observer.is_none() {
            return step(self);
        }
        let (count, cpu) = match heading {
            Direction::Forward => (PerfMetric::IterNextCount, PerfMetric::IterNextCpuNanos),
            Direction::Backward => (PerfMetric::IterPrevCount, PerfMetric::IterPrevCpuNanos),
        };
        perf::count(count, 1);
        let cpu = perf::time(cpu);
        activity::during(IoActivity::DbIterator, || step(self));
        drop(cpu);
        self.count_step(heading);
    }

    /// `inner` is about to move by one entry: counts that if it is in a memtable.
    #[inline]
    pub(super) fn note_memtable_step(&self, metric: PerfMetric) {
        if perf::is_any() && self.inner.current_source().is_some_and(Source::is_memtable) {
            perf::count(metric, 1);
        }
    }

    fn count_step(&mut self, heading: Direction) {
        let bytes = self.shown_bytes();
        perf::count(PerfMetric::IterReadBytes, bytes.unwrap_or(0));
        let Some(observer) = &mut self.observer else { return };
        observer.end_move(bytes.is_some());
        observer.bytes += bytes.unwrap_or(0);
        let found = u64::from(bytes.is_some());
        match heading {
            Direction::Forward => {
                observer.nexts += 1;
                observer.nexts_found += found;
            }
            Direction::Backward => {
                observer.prevs += 1;
                observer.prevs_found += found;
            }
        }
    }
}
