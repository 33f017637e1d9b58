//! `DbIterator`: the user's view of a column family at one sequence number.
//!
//! It merges memtables, L0 tables and levels, and folds the versions of each user key into one
//! answer: newest visible version, tombstones hidden, merges applied, bounds and prefix respected.
//!
//! Thread safety: `Send`; one owner at a time. It owns everything it reads (super version, tables,
//! cached blocks), so it may outlive any other handle. Invariants: (1) moving forward with
//! `at.place` being `at.shown`, `inner` is on the entry shown; (2) otherwise the entry shown is
//! `buffers.saved_key`/`saved_value` and `inner` is beyond it in the direction of travel; (3) an
//! error makes it invalid and stays in `status` until the next seek. Any move may read files and so
//! may suspend.

use std::cmp::Ordering;
use std::sync::Arc;

use pumice_base::{Comparator, InternalIterator, Result, SequenceNumber, UserKey};
use pumice_env::perf::{self, PerfMetric};
use pumice_port::fiber;
use pumice_port::os::is_forked;
use pumice_table::Extractor;

mod ahead;
mod backward;
mod buffers;
mod dead_run;
mod entry;
mod observer;
mod prefix;
pub(crate) mod view;

use crate::cost;
use crate::read::elsewhere::{BlobReads, Fetched};
use crate::read::iterator::buffers::{Buffers, Fetch};
use crate::read::iterator::dead_run::DeadRun;
use crate::read::iterator::observer::{Observer, SeekKind, meets_too_many, note};
use crate::read::iterator::view::{Renewal, View};
use crate::read::merge::merge_for_read;
use crate::read::merging_iterator::MergingIterator;
use crate::read::range_del::RangeDels;
use crate::read::source::Source;
use crate::read::timed::Look;
use crate::read::value::{EntryKind, is_entity, plain, stored_merge, unsupported_type};
use crate::snapshot::Snapshot;
use crate::stats::Statistics;
use crate::version::family::CfData;
use crate::version::super_version::SuperVersion;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Nowhere,
    Inner,
    /// As `Inner`, for an iterator that is observed or reports to tables which values are used.
    Observed,
    Saved,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Direction {
    Forward,
    Backward,
}

/// Bounds and limits of an iterator, taken from `ReadOptions`.
pub(super) struct IteratorLimits {
    pub sequence: SequenceNumber,
    pub lower_bound: Option<Vec<u8>>,
    pub upper_bound: Option<Vec<u8>>,
    /// After a seek for a target that has a prefix, only keys with that prefix are shown.
    pub prefix: Option<Extractor>,
    /// How values in blob files are read.
    pub blob_reads: BlobReads,
    /// What deletions of ranges deleted is shown.
    pub sees_ranges_deleted: bool,
    /// What is seen of keys with timestamps.
    pub look: Option<Box<Look>>,
}

/// Where it is, and in which direction it moves.
pub(super) struct Position {
    pub place: Place,
    /// The value of `place` on an entry of `inner`: `Inner` or `Observed`.
    shown: Place,
    pub direction: Direction,
    /// `Buffers::start_prefix` holds one.
    pub has_start_prefix: bool,
    /// Seeks of `inner` may leave out keys with another prefix than their target.
    pub scoped: bool,
}

/// A cursor over the keys of a column family, both ways.
///
/// It sees the state in which it was made. It has no position at first and after the last entry;
/// [`DbIterator::status`] then says whether that is the end or an error. Keys and values are lent
/// until the next move. [`Db::iter`](crate::Db::iter) is the same as a Rust iterator.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// use pumice::Db;
/// # let dir = std::env::temp_dir().join(format!("pumice-cursor-{}", std::process::id()));
/// let db = Db::builder(&dir).create(true).open()?;
/// db.put("a", "1")?;
/// let mut cursor = db.cursor()?;
/// cursor.seek_for_prev(b"b");
/// assert_eq!((cursor.key(), cursor.value()), (Some(&b"a"[..]), Some(&b"1"[..])));
/// # db.close()
/// # }
/// ```
pub struct DbIterator {
    pub(super) inner: MergingIterator<Source>,
    comparator: Comparator,
    pub(super) cf: Arc<CfData>,
    pub(super) limits: IteratorLimits,
    /// Versions of one key stepped over before a seek replaces further steps.
    skips_max: u64,
    pub(super) range_dels: RangeDels,
    pub(super) at: Position,
    /// Whether tables track which values are used.
    measured: bool,
    /// Counts its operations, if enabled.
    observer: Option<Box<Observer>>,
    buffers: Buffers,
    /// The deleted keys that the present move has met.
    dead: DeadRun,
    pub(super) status: Result<()>,
    /// Keeps the files and memtables that it reads.
    pub(super) super_version: Arc<SuperVersion>,
    /// Set for a tailing iterator.
    pub(super) renewal: Option<Renewal>,
    _snapshot: Option<Snapshot>,
}

impl DbIterator {
    /// A cursor over `view` between the bounds, the lower one first.
    pub(crate) fn new(
        view: View,
        cf: Arc<CfData>,
        (lower_bound, upper_bound): (Option<&Vec<u8>>, Option<&Vec<u8>>),
        look: Option<Box<Look>>,
        snapshot: Option<Snapshot>,
        statistics: Option<&Arc<Statistics>>,
    ) -> Self {
        let View { inner, sequence, prefix, range_dels, super_version, blob_reads } = view;
        let bound = |key: &Vec<u8>| look.as_ref().map_or_else(|| key.clone(), |l| l.bound(key));
        let limits = IteratorLimits {
            sequence,
            lower_bound: lower_bound.map(bound),
            upper_bound: upper_bound.map(bound),
            prefix,
            blob_reads,
            sees_ranges_deleted: false,
            look,
        };
        let look = limits.look.as_ref();
        let comparator = look.map_or_else(|| cf.comparator().clone(), |look| look.order());
        let options = cf.options();
        let measured = options.table_factory.read_amp_bytes_per_bit > 0;
        let observer = Observer::new(statistics);
        DbIterator {
            inner,
            comparator,
            skips_max: options.max_sequential_skip_in_iterations,
            cf,
            limits,
            range_dels,
            at: Position {
                place: Place::Nowhere,
                shown: if measured || observer.is_some() { Place::Observed } else { Place::Inner },
                direction: Direction::Forward,
                has_start_prefix: false,
                scoped: false,
            },
            measured,
            observer,
            buffers: Buffers::default(),
            dead: DeadRun::default(),
            status: Ok(()),
            super_version,
            renewal: None,
            _snapshot: snapshot,
        }
    }

    /// Moves to the first key (at or after the lower bound).
    pub fn seek_to_first(&mut self) {
        self.observe_seek(SeekKind::ToFirst, Self::go_to_first);
    }

    fn go_to_first(&mut self) {
        let Ok(()) = self.start() else { return };
        if let Some(lower) = self.limits.lower_bound.take() {
            self.seek_forward(&lower);
            self.limits.lower_bound = Some(lower);
        } else {
            self.set_scope(false);
            self.inner.seek_to_first();
            self.find_next(false);
        }
        self.remember_prefix();
    }

    /// Moves to the last key (before the upper bound).
    pub fn seek_to_last(&mut self) {
        self.observe_seek(SeekKind::ToLast, Self::go_to_last);
    }

    fn go_to_last(&mut self) {
        let Ok(()) = self.start() else { return };
        self.at.direction = Direction::Backward;
        if let Some(upper) = self.limits.upper_bound.take() {
            self.seek_before(&upper);
            self.limits.upper_bound = Some(upper);
        } else {
            self.set_scope(false);
            self.inner.seek_to_last();
        }
        self.find_prev();
        self.remember_prefix();
    }

    /// Moves to the first key at or after `target`.
    pub fn seek(&mut self, target: impl AsRef<[u8]>) {
        self.seek_to(target.as_ref());
    }

    fn seek_to(&mut self, target: &[u8]) {
        if self.limits.look.is_some() {
            return self.seek_to_timed(target);
        }
        self.observe_seek(SeekKind::ToTarget(target), |iter| iter.go_to(target));
    }

    #[inline(never)]
    fn seek_to_timed(&mut self, target: &[u8]) {
        let bound = self.place_before(target.to_vec());
        self.observe_seek(SeekKind::ToTarget(target), |iter| iter.go_to(&bound));
    }

    /// See [`Cursor::place_before`](crate::Cursor::place_before).
    pub(crate) fn place_before(&self, key: Vec<u8>) -> Vec<u8> {
        self.limits.look.as_ref().map_or_else(|| key.clone(), |look| look.bound(&key))
    }

    /// See [`Cursor::last_place`](crate::Cursor::last_place).
    pub(crate) fn last_place(&self, key: Vec<u8>) -> Vec<u8> {
        self.limits.look.as_ref().map_or_else(|| key.clone(), |look| look.end_of(&key))
    }

    /// Moves to the first entry at or after a place.
    pub(crate) fn seek_place(&mut self, place: &[u8]) {
        self.observe_seek(SeekKind::ToTarget(place), |iter| iter.go_to(place));
    }

    /// Moves to the last entry at or before a place.
    pub(crate) fn seek_place_for_prev(&mut self, place: &[u8]) {
        self.observe_seek(SeekKind::ForPrev(place), |iter| iter.go_before(place));
    }

    fn go_to(&mut self, target: &[u8]) {
        let Ok(()) = self.start() else { return };
        self.set_start_prefix(target);
        match self.limits.lower_bound.take() {
            Some(lower)
                if self.comparator.compare(UserKey::new(target), UserKey::new(&lower))
                    == Ordering::Less =>
            {
                self.seek_forward(&lower);
                self.limits.lower_bound = Some(lower);
            }
            other => {
                self.limits.lower_bound = other;
                self.seek_forward(target);
            }
        }
    }

    /// Moves to the last key at or before `target`.
    pub fn seek_for_prev(&mut self, target: impl AsRef<[u8]>) {
        self.seek_to_prev(target.as_ref());
    }

    fn seek_to_prev(&mut self, target: &[u8]) {
        if let Some(look) = &self.limits.look {
            let end = look.end_of(target);
            return self.observe_seek(SeekKind::ForPrev(target), |iter| iter.go_before(&end));
        }
        self.observe_seek(SeekKind::ForPrev(target), |iter| iter.go_before(target));
    }

    fn go_before(&mut self, target: &[u8]) {
        let Ok(()) = self.start() else { return };
        self.set_start_prefix(target);
        self.at.direction = Direction::Backward;
        match self.limits.upper_bound.take() {
            Some(upper)
                if self.comparator.compare(UserKey::new(target), UserKey::new(&upper))
                    != Ordering::Less =>
            {
                self.seek_before(&upper);
                self.limits.upper_bound = Some(upper);
            }
            other => {
                self.limits.upper_bound = other;
                self.scope_seek();
                self.buffers.aim_after(UserKey::new(target));
                self.inner.seek_for_prev(self.buffers.target());
            }
        }
        self.find_prev();
    }

    /// Moves to the next key. Requires `valid`.
    #[inline]
    pub fn next(&mut self) {
        if is_forked() && self.at.place != Place::Nowhere {
            self.refuse();
        } else if self.at.place == Place::Inner {
            self.save_key();
            self.inner.next();
            self.find_next_counted::<false, false>(true);
        } else if self.valid() {
            self.observe_step(Direction::Forward, Self::step_forward);
        }
    }

    fn step_in_view(&mut self) {
        if self.at.place == self.at.shown {
            self.save_key();
            self.advance::<true>();
            note::<true>(&mut self.observer, |seen| seen.older += 1);
        } else if self.at.direction == Direction::Backward {
            self.at.direction = Direction::Forward;
            self.buffers.aim_after_saved();
            self.inner.seek(self.buffers.target());
        }
        // Otherwise a merge result: `inner` is already beyond the operands it used.
        self.find_next(true);
    }

    /// The next entry of any type.
    #[inline]
    fn advance<const OBSERVED: bool>(&mut self) {
        if OBSERVED {
            self.note_memtable_step(PerfMetric::NextOnMemtableCount);
        }
        self.inner.next();
    }

    #[inline]
    fn save_key(&mut self) {
        self.buffers.saved_key.clear();
        self.buffers.saved_key.extend_from_slice(self.inner.key().user_key().as_bytes());
    }

    /// Moves to the previous key. Requires `valid`.
    pub fn prev(&mut self) {
        if is_forked() && self.at.place != Place::Nowhere {
            self.refuse();
        } else if self.valid() {
            self.observe_step(Direction::Backward, Self::step_backward);
        }
    }

    fn seek_forward(&mut self, target: &[u8]) {
        self.scope_seek();
        self.buffers.aim_at(UserKey::new(target), self.limits.sequence);
        let time = perf::time(PerfMetric::SeekInternalSeekTime);
        self.inner.seek(self.buffers.target());
        drop(time);
        self.find_next(false);
    }

    /// Puts `inner` on the last entry of any user key before `key`.
    fn seek_before(&mut self, key: &[u8]) {
        self.scope_seek();
        self.buffers.aim_before(UserKey::new(key));
        let _time = perf::time(PerfMetric::SeekInternalSeekTime);
        self.inner.seek_for_prev(self.buffers.target());
    }

    /// Shows the first visible key from the position of `inner`; with `skipping`, versions of
    /// `saved_key` are skipped. Always inlined: it only chooses between two functions.
    #[inline(always)]
    fn find_next(&mut self, skipping: bool) {
        match self.observer {
            None => self.find_next_counted::<false, false>(skipping),
            Some(_) => self.find_next_counted::<true, false>(skipping),
        }
    }

    /// [`DbIterator::find_next`]; if `OBSERVED`, it reports each entry to the observer. `DEAD`: the
    /// last key met, `saved_key`, is deleted, and the run of such keys is counted.
    fn find_next_counted<const OBSERVED: bool, const DEAD: bool>(&mut self, mut skipping: bool) {
        let _time = OBSERVED.then(|| perf::time(PerfMetric::FindNextUserEntryTime));
        self.at.place = Place::Nowhere;
        let mut skips = 0;
        while self.inner.valid() {
            fiber::spend(cost::STEP);
            let ikey = self.inner.key();
            let key = ikey.user_key();
            let (sequence, tag) = ikey.sequence_and_type();
            if let Some(upper) = &self.limits.upper_bound
                && self.comparator.compare(key, UserKey::new(upper)) != Ordering::Less
            {
                return;
            }
            if self.leaves_prefix(key) {
                return;
            }
            if OBSERVED && meets_too_many(&mut self.observer) {
                return self.give_up();
            }
            if skipping && self.comparator.same_user_key(key, self.buffers.saved_key()) {
                self.skip_older::<OBSERVED>(&mut skips);
                continue;
            }
            if sequence > self.limits.sequence {
                self.skip_invisible::<OBSERVED>(&mut skips);
                continue;
            }
            skips = 0;
            let hidden = match self.range_dels.covers(&self.comparator, key, sequence) {
                Ok(hidden) => hidden,
                Err(error) => return self.status = Err(error),
            };
            match EntryKind::of_tag(tag) {
                EntryKind::Plain if !hidden => {
                    self.at.place = self.at.shown;
                    return;
                }
                EntryKind::Operand if !hidden => {
                    self.buffers.saved_key.clear();
                    self.buffers.saved_key.extend_from_slice(key.as_bytes());
                    self.merge_forward();
                    return;
                }
                EntryKind::Converted if !hidden => {
                    self.buffers.saved_key.clear();
                    self.buffers.saved_key.extend_from_slice(key.as_bytes());
                    self.show_converted(tag);
                    return;
                }
                EntryKind::Plain
                | EntryKind::Converted
                | EntryKind::Operand
                | EntryKind::Tombstone => {
                    self.buffers.saved_key.clear();
                    self.buffers.saved_key.extend_from_slice(key.as_bytes());
                    skipping = true;
                    note::<OBSERVED>(&mut self.observer, |seen| seen.pass(hidden));
                    if !DEAD {
                        return self.pass_dead::<OBSERVED>(!hidden);
                    }
                    self.meet_dead::<OBSERVED>(!hidden);
                }
                EntryKind::Unreadable => {
                    self.status = Err(unsupported_type(tag, key.as_bytes()));
                    return;
                }
            }
        }
    }

    /// Skips an older version of `saved_key`, by a seek once there were many.
    #[inline]
    fn skip_older<const OBSERVED: bool>(&mut self, skips: &mut u64) {
        *skips += 1;
        note::<OBSERVED>(&mut self.observer, |seen| seen.older += 1);
        // Only once: the seek may land on a version of this key too.
        if *skips != self.skips_max.saturating_add(1) {
            return self.advance::<OBSERVED>();
        }
        note::<OBSERVED>(&mut self.observer, |seen| seen.reseeks += 1);
        self.buffers.aim_after_saved();
        self.inner.seek(self.buffers.target());
    }

    /// Skips a version newer than the snapshot, by a seek once there were many.
    fn skip_invisible<const OBSERVED: bool>(&mut self, skips: &mut u64) {
        *skips += 1;
        note::<OBSERVED>(&mut self.observer, |seen| seen.newer += 1);
        if *skips <= self.skips_max {
            return self.advance::<OBSERVED>();
        }
        *skips = 0;
        note::<OBSERVED>(&mut self.observer, |seen| seen.reseeks += 1);
        self.buffers.aim_at(self.inner.key().user_key(), self.limits.sequence);
        self.inner.seek(self.buffers.target());
    }

    /// Shows an entry whose stored value is not the user's value.
    fn show_converted(&mut self, tag: u8) {
        self.save_timestamp_of_base();
        self.note_used();
        let ikey = self.inner.key();
        let fetch = Fetch::of(&self.cf, &self.super_version, &self.limits);
        match self.buffers.save(fetch, ikey.user_key(), tag, self.inner.value()) {
            Ok(()) => {
                self.at.place = Place::Saved;
                self.inner.next();
            }
            Err(error) => self.status = Err(error),
        }
    }

    /// `inner` is on the newest operand of `saved_key`: collects operands down to a base.
    fn merge_forward(&mut self) {
        if let Err(error) = self.save_timestamp_of_operand() {
            return self.status = Err(error);
        }
        self.buffers.operands.clear();
        self.keep_operand();
        self.inner.next();
        let mut base: Option<(u8, Vec<u8>)> = None;
        while self.inner.valid() {
            fiber::spend(cost::STEP);
            let ikey = self.inner.key();
            let key = ikey.user_key();
            if !self.comparator.same_user_key(key, self.buffers.saved_key()) {
                break;
            }
            let (sequence, tag) = ikey.sequence_and_type();
            match self.range_dels.covers(&self.comparator, key, sequence) {
                Ok(false) => {}
                Ok(true) => break,
                Err(error) => return self.status = Err(error),
            }
            match EntryKind::of_tag(tag) {
                EntryKind::Operand => {
                    self.keep_operand();
                    self.inner.next();
                }
                EntryKind::Tombstone => break,
                _ => {
                    self.note_blob_time();
                    base = Some((tag, self.used_value().to_vec()));
                    break;
                }
            }
        }
        if let Err(error) = self.inner.status() {
            self.status = Err(error);
            return;
        }
        // Operands are newest first here; full_merge wants the oldest first.
        self.buffers.operands.reverse();
        let base = base.as_ref().map(|(tag, stored)| (*tag, stored.as_slice()));
        self.finish_merge(base);
    }

    /// Merges `operands`, oldest first, over `base`, given by type and stored bytes, into the entry
    /// shown.
    fn finish_merge(&mut self, base: Option<(u8, &[u8])>) {
        perf::count(PerfMetric::InternalMergeCount, self.buffers.operands.len() as u64);
        match self.merged(base) {
            Ok(()) => self.at.place = Place::Saved,
            Err(error) => self.status = Err(error),
        }
    }

    fn merged(&mut self, base: Option<(u8, &[u8])>) -> Result<()> {
        let Buffers { saved_key, operands, blob_timestamp, .. } = &self.buffers;
        let of = Fetch::of(&self.cf, &self.super_version, &self.limits);
        let fetch = |(tag, stored)| of.fetch(UserKey::new(saved_key), blob_timestamp, tag, stored);
        let fetched = base.map(fetch).transpose()?.flatten();
        let base = fetched.as_ref().map(Fetched::stored).or(base);
        let plain = base.map(|(tag, stored)| plain(tag, stored)).transpose()?;
        let value = {
            let key = self.cf.key_forms().timeless_of_bare(saved_key);
            merge_for_read(&self.cf, &key, plain, &operands.slices())?
        };
        match base {
            Some((tag, _)) if is_entity(tag) => {
                let (tag, entity) = stored_merge(base, value)?;
                self.buffers.save_stored(tag as u8, &entity)
            }
            _ => {
                self.buffers.saved_value = value;
                self.buffers.entity.clear();
                Ok(())
            }
        }
    }
}
