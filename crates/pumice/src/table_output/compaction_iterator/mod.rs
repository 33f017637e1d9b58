//! Decides, entry by entry, which part of a flush's or compaction's input is written.
//!
//! The input comes as (user key ascending, sequence descending). Snapshots cut the history of a key
//! into *stripes*: versions between the same two snapshots are in one stripe, and only the newest
//! of a stripe is visible to any reader.
//!
//! | entry | kept unless |
//! |---|---|
//! | any but SingleDeletion | a newer version of the key, or a range tombstone, is in its stripe |
//! | Deletion | no reader can see older versions and none exist below |
//! | SingleDeletion | as Deletion; or the next version is of its stripe: both are dropped |
//! | Merge | removed by the filter; combined with its base, or with other operands of its stripe |
//!
//! A SingleDeletion is kept even below a newer version of its stripe: the Value it cancels may lie
//! in another file, and would show again once that newer version is single-deleted too.
//! At the bottommost level entries that every snapshot sees get sequence 0, unless they are so
//! young that the time at which they were written is kept.
//!
//! Thread safety: one owner. It does no I/O of its own; the input may suspend.

mod filtering;
mod merging;
mod single_deletion;
mod timestamps;

use std::collections::VecDeque;
use std::sync::Arc;

use pumice_base::extension::{CompactionFilter, MergeOperator, OpFailureScope};
use pumice_base::key::{self, InternalKey, MAX_SEQUENCE};
use pumice_base::planted::{self, Bug};
use pumice_base::range_tombstone::FragmentedTombstones;
use pumice_base::{
    Error, InternalIterator, InternalKeyComparator, Result, SequenceNumber, SizeLimits, UserKey,
    ValueType,
};
use pumice_manifest::BeyondCursor;

pub(crate) use self::timestamps::TimeBounds;
use crate::blob::references::may_refer;
use crate::table_output::counts::IterationCounts;
use crate::table_output::value::{InputKind, InputValues};

/// `last_stripe` while no version of the current key was seen.
const NO_STRIPE: SequenceNumber = SequenceNumber::MAX;

/// Everything besides the entries that decides.
pub(crate) struct CompactionSettings {
    pub comparator: InternalKeyComparator,
    /// Live snapshots, ascending.
    pub snapshots: Vec<SequenceNumber>,
    /// The oldest snapshot by which a transaction checks for conflicts: something newer stays of
    /// each key that was written since. MAX_SEQUENCE without one.
    pub earliest_write_conflict_snapshot: SequenceNumber,
    pub merge_operator: Option<Arc<dyn MergeOperator>>,
    /// What it concerns that operands cannot be merged, unless the operator says it.
    pub merge_failure_scope: OpFailureScope,
    pub compaction_filter: Option<Arc<dyn CompactionFilter>>,
    pub level: i32,
    /// Nothing of the key range lies below the output level.
    pub bottommost: bool,
    /// Range tombstones of the input.
    pub tombstones: Option<Arc<FragmentedTombstones>>,
    /// User key at which the input ends, exclusive.
    pub end: Option<Vec<u8>>,
    /// The values of the input.
    pub values: InputValues,
    /// Answers whether a key can exist below the output level of the version of `values`, for keys
    /// in ascending order; None: assume it can.
    pub beyond: Option<BeyondCursor>,
    /// A merged value above them is not written: its operands stay.
    pub limits: SizeLimits,
    /// Of keys with timestamps, and of entries that were just written.
    pub times: TimeBounds,
    /// A SingleDeletion right above a Deletion is Corruption.
    pub enforce_single_del_contracts: bool,
}

enum Out {
    None,
    /// The input's entry as it stands.
    Input,
    /// `key` with the input's value.
    Rekeyed,
    /// The front of `queue`.
    Queued,
}

/// See the module head.
pub(crate) struct CompactionIterator<I> {
    input: I,
    settings: CompactionSettings,
    earliest_snapshot: SequenceNumber,
    /// Up to here sequence numbers may become 0.
    zeroed_to: SequenceNumber,
    out: Out,
    key: Vec<u8>,
    queue: VecDeque<(Vec<u8>, Vec<u8>)>,
    /// User key whose versions are being processed, and the stripe of the last one seen.
    current: Vec<u8>,
    has_current: bool,
    last_stripe: SequenceNumber,
    /// A version of the current key was written with sequence 0.
    zeroed: bool,
    /// Keys have timestamps.
    timed: bool,
    /// The current key's timestamp is below the low of the history.
    is_history: bool,
    status: Result<()>,
    counts: IterationCounts,
}

impl<I: InternalIterator> CompactionIterator<I> {
    /// Filters `input`; position it with a seek before use.
    pub fn new(input: I, settings: CompactionSettings) -> Self {
        let earliest_snapshot = settings.snapshots.first().copied().unwrap_or(MAX_SEQUENCE);
        let zeroed_to = settings.times.zeroed_to.unwrap_or(MAX_SEQUENCE).min(earliest_snapshot);
        let timed = settings.comparator.user.timestamp_size() > 0;
        CompactionIterator {
            input,
            settings,
            earliest_snapshot,
            zeroed_to,
            out: Out::None,
            key: Vec::new(),
            queue: VecDeque::new(),
            current: Vec::new(),
            has_current: false,
            last_stripe: NO_STRIPE,
            zeroed: false,
            timed,
            is_history: false,
            status: Ok(()),
            counts: IterationCounts::default(),
        }
    }

    /// Starts at the first entry.
    pub fn seek_to_first(&mut self) {
        self.input.seek_to_first();
        self.advance();
    }
    /// Starts at user key `start`.
    pub fn seek(&mut self, start: &[u8]) {
        self.input.seek(InternalKey::new(&key::seek_key(start, MAX_SEQUENCE)));
        self.advance();
    }
    /// There is an entry to write.
    #[inline]
    pub fn valid(&self) -> bool {
        !matches!(self.out, Out::None)
    }
    /// The internal key to write. Requires `valid`.
    #[inline]
    pub fn key(&self) -> &[u8] {
        match self.out {
            Out::Input => self.input.key().as_bytes(),
            Out::Rekeyed => &self.key,
            _ => &self.queue.front().expect("key() requires valid()").0,
        }
    }
    /// The value to write. Requires `valid`.
    #[inline]
    pub fn value(&self) -> &[u8] {
        match self.out {
            Out::Input | Out::Rekeyed => self.input.value(),
            _ => &self.queue.front().expect("value() requires valid()").1,
        }
    }
    /// Moves to the next entry to write.
    #[inline]
    pub fn next(&mut self) {
        match self.out {
            Out::None => return,
            Out::Queued => {
                self.queue.pop_front();
                if !self.queue.is_empty() {
                    return;
                }
            }
            Out::Input | Out::Rekeyed => self.input.next(),
        }
        self.advance();
    }
    /// The first error of the input or of a merge.
    pub fn status(&self) -> Result<()> {
        self.status.clone()?;
        self.input.status()
    }
    /// The input, which is at its end or was left.
    pub fn into_input(self) -> I {
        self.input
    }
    /// Counts so far.
    pub fn counts(&self) -> IterationCounts {
        self.counts
    }

    /// The newest sequence of the stripe that `sequence` is in.
    #[inline]
    fn stripe(&self, sequence: SequenceNumber) -> SequenceNumber {
        if sequence > self.settings.snapshots.last().copied().unwrap_or(0) {
            return MAX_SEQUENCE;
        }
        let at = self.settings.snapshots.partition_point(|&s| s < sequence);
        self.settings.snapshots.get(at).copied().unwrap_or(MAX_SEQUENCE)
    }

    /// A range tombstone of the stripe hides the version of the current key.
    #[inline]
    fn range_deleted(&self, sequence: SequenceNumber, stripe: SequenceNumber) -> bool {
        match &self.settings.tombstones {
            None => false,
            Some(list) => {
                let newest = if planted::is(Bug::RangeTombstoneIgnoresSnapshot) {
                    MAX_SEQUENCE
                } else {
                    stripe
                };
                if self.timed {
                    return self.covered_below(list, newest) > sequence;
                }
                let key = UserKey::new(&self.current);
                list.max_covering_seq(&self.settings.comparator.user, key, newest) > sequence
            }
        }
    }

    /// `ikey` is an entry of the current key.
    #[inline]
    fn is_current(&self, ikey: InternalKey<'_>) -> bool {
        if self.timed {
            return self.is_current_timed(ikey);
        }
        let current = UserKey::new(&self.current);
        self.settings.comparator.user.same_entry_key(ikey.user_key(), current)
    }

    /// Finds the next entry to write, from the position of the input.
    fn advance(&mut self) {
        self.out = Out::None;
        while self.input.valid() && self.status.is_ok() {
            let ikey = self.input.key();
            let (sequence, tag) = ikey.sequence_and_type();
            let first = !self.has_current || !self.is_current(ikey);
            if first {
                let user_key = ikey.user_key();
                if let Some(end) = &self.settings.end
                    && self.settings.comparator.user.compare(user_key, UserKey::new(end)).is_ge()
                {
                    return;
                }
                self.current.clear();
                self.current.extend_from_slice(user_key.as_bytes());
                self.has_current = true;
                self.last_stripe = NO_STRIPE;
                self.zeroed = false;
            }
            self.counts.entries_in += 1;
            if self.timed {
                if self.is_trimmed() {
                    self.has_current &= !first;
                    self.counts.dropped_hidden += 1;
                    self.input.next();
                    continue;
                }
                self.take_timestamp(first);
            }
            let stripe = self.stripe(sequence);
            let hidden = stripe == self.last_stripe;
            self.last_stripe = stripe;
            if tag == ValueType::SingleDeletion as u8 {
                if self.timed && !self.is_history {
                    self.keep_single_deletion();
                    return;
                }
                if self.decide_single_deletion(sequence, stripe, hidden) {
                    return;
                }
                continue;
            }
            if hidden {
                self.counts.dropped_hidden += 1;
                self.input.next();
                continue;
            }
            if tag != ValueType::Deletion as u8 && self.range_deleted(sequence, stripe) {
                // Older versions of this stripe are covered as well, or single deletions. Single
                // deletions are still processed, as in RocksDB, where a covered operand is not a
                // version of its key.
                self.has_current = tag != ValueType::Merge as u8;
                self.counts.dropped_range_deleted += 1;
                self.input.next();
                continue;
            }
            if self.decide(sequence, tag, stripe, first) {
                return;
            }
        }
    }

    /// Decides about the newest version of its stripe; true if `out` has an entry to write.
    #[inline]
    fn decide(
        &mut self,
        sequence: SequenceNumber,
        tag: u8,
        stripe: SequenceNumber,
        first: bool,
    ) -> bool {
        match InputKind::of_tag(tag) {
            InputKind::Value => {
                let unseen = stripe == MAX_SEQUENCE;
                if first && unseen && self.settings.compaction_filter.is_some() {
                    return self.filter(sequence, tag);
                }
                self.emit_input(sequence, tag)
            }
            InputKind::TimedDeletion | InputKind::Deletion if self.timed => {
                self.decide_timed_deletion()
            }
            // Keys that have lost their timestamps keep that type.
            InputKind::TimedDeletion | InputKind::Deletion => {
                self.decide_deletion(sequence, stripe)
            }
            InputKind::Operand => self.merge(sequence, stripe),
            InputKind::Untouched => self.emit_input(sequence, tag),
            InputKind::Unknown => {
                self.status = Err(Error::corruption(format!(
                    "unexpected entry type {tag:#x} in the input of a compaction"
                )));
                false
            }
        }
    }

    /// Writes the input's entry, with sequence 0 where that hides nothing.
    #[inline]
    fn emit_input(&mut self, sequence: SequenceNumber, tag: u8) -> bool {
        let at = self.value_sequence(sequence);
        // The record of a blob has its key with its timestamp, which the entry therefore keeps.
        if self.timed && self.zeroed && !may_refer(tag, self.input.value()) {
            self.emit_timeless(at, tag);
        } else if at == sequence {
            self.out = Out::Input;
        } else {
            self.key.clear();
            key::append_internal_key(&mut self.key, &self.current, at, tag);
            self.out = Out::Rekeyed;
        }
        true
    }

    /// No version of the current key can exist below the output level.
    fn nothing_below(&mut self) -> bool {
        if self.settings.bottommost {
            return true;
        }
        match (self.settings.values.version(), &mut self.settings.beyond) {
            (Some(version), Some(cursor)) => {
                version.key_not_exists_beyond(cursor, UserKey::new(&self.current))
            }
            _ => false,
        }
    }

    /// A deletion is dropped because nothing is below the output level.
    fn count_obsolete(&mut self) {
        self.counts.dropped_obsolete += 1;
        self.counts.dropped_early += u64::from(!self.settings.bottommost);
    }

    fn decide_deletion(&mut self, sequence: SequenceNumber, stripe: SequenceNumber) -> bool {
        if sequence <= self.earliest_snapshot
            && (planted::is(Bug::TombstoneDropped) || self.nothing_below())
        {
            self.count_obsolete();
            self.input.next();
            return false;
        }
        if self.settings.bottommost {
            return self.decide_last_deletion(sequence, stripe);
        }
        if self.range_deleted(sequence, stripe) {
            self.counts.dropped_range_deleted += 1;
            self.input.next();
            return false;
        }
        self.out = Out::Input;
        true
    }

    /// A deletion that a snapshot does not see, with nothing below the output: it hides what is in
    /// its stripe, single deletions too, and is needed only above a version of an older stripe.
    fn decide_last_deletion(&mut self, sequence: SequenceNumber, stripe: SequenceNumber) -> bool {
        self.input.next();
        while self.input.valid() && self.input.status().is_ok() {
            let ikey = self.input.key();
            if !self.is_current(ikey) {
                break;
            }
            if self.stripe(ikey.sequence()) != stripe {
                let key = key::internal_key(&self.current, sequence, ValueType::Deletion);
                self.queue.push_back((key, Vec::new()));
                self.out = Out::Queued;
                return true;
            }
            self.counts.entries_in += 1;
            self.counts.dropped_hidden += 1;
            self.input.next();
        }
        self.counts.dropped_obsolete += 1;
        false
    }

    fn push_and_step(&mut self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.queue.push_back((key, value));
        self.input.next();
        self.out = Out::Queued;
        true
    }

    /// The sequence that a value is written with.
    #[inline]
    fn value_sequence(&mut self, sequence: SequenceNumber) -> SequenceNumber {
        self.zeroed = match self.timed {
            false => self.settings.bottommost && sequence <= self.zeroed_to,
            true => self.forgets_time(sequence),
        };
        if self.zeroed { 0 } else { sequence }
    }
}

#[cfg(test)]
mod filter_tests;
#[cfg(test)]
mod tests;
