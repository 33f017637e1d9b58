//! What becomes of entries whose keys have timestamps.
//!
//! Versions at or above the low of the family's history (`full_history_ts_low`) are all kept: each
//! timestamp is a key of its own. Of those below it only the newest is read, at whatever time: they
//! are versions of one key, of which the usual rules keep what snapshots see. Without a low all is
//! kept but what was written again at the same timestamp.
//!
//! | entry | kept unless |
//! |---|---|
//! | Deletion at or above the low | a newer one has its timestamp |
//! | Deletion below it | as a Deletion, but also kept while there is any snapshot |
//! | SingleDeletion at or above the low | never dropped, nor is the version below it |
//! | Merge | its operands are combined with those of the same timestamp only |
//! | what a range tombstone covers | as without timestamps, if the tombstone is below the low |
//!
//! At the bottommost level entries below the low get sequence 0 and timestamp 0, if there is no
//! snapshot. RocksDB also does the last two where an older snapshot does not see the entry; then
//! entries whose timestamps did not grow with time would be out of order, or show again.
//!
//! Thread safety: one owner.

use std::sync::Arc;

use pumice_base::key::{self, InternalKey};
use pumice_base::range_tombstone::FragmentedTombstones;
use pumice_base::{Comparator, InternalIterator, SequenceNumber, UserKey, ValueType};

use super::{CompactionIterator, NO_STRIPE, Out};
use crate::callbacks::key_forms::KeyForms;

/// What keys have timestamps, and what may be dropped of them.
#[derive(Clone, Default)]
pub(crate) struct TimeBounds {
    /// What user code is given of the keys.
    pub keys: KeyForms,
    /// Only the newest version below it is needed; None: all are.
    pub low: Option<Arc<[u8]>>,
    /// Versions above it are dropped; None: none are.
    pub trim_above: Option<Arc<[u8]>>,
    /// Entries with newer sequence numbers keep them, by which it is known when they were written;
    /// None: none does for that.
    pub zeroed_to: Option<SequenceNumber>,
}

impl TimeBounds {
    /// What has this timestamp is below the low.
    pub fn is_history_time(&self, order: &Comparator, time: &[u8]) -> bool {
        self.low.as_ref().is_some_and(|low| order.compare_timestamp(time, low).is_lt())
    }

    /// What has this timestamp is dropped for it.
    pub fn trims_time(&self, order: &Comparator, time: &[u8]) -> bool {
        self.trim_above.as_ref().is_some_and(|last| order.compare_timestamp(time, last).is_gt())
    }

    fn is_history(&self, order: &Comparator, key: UserKey<'_>) -> bool {
        self.is_history_time(order, order.timestamp_of(key))
    }

    fn trims(&self, order: &Comparator, key: UserKey<'_>) -> bool {
        self.trims_time(order, order.timestamp_of(key))
    }
}

impl<I: InternalIterator> CompactionIterator<I> {
    /// `ikey` is of the key in progress. Once that is below the low, its older timestamps are too.
    pub(super) fn is_current_timed(&self, ikey: InternalKey<'_>) -> bool {
        let (order, current) = (&self.settings.comparator.user, UserKey::new(&self.current));
        match self.is_history {
            true => order.same_user_key(ikey.user_key(), current),
            false => order.same_entry_key(ikey.user_key(), current),
        }
    }

    /// The input is on the next entry, `first` of its key or not: what is written of it has its own
    /// timestamp.
    pub(super) fn take_timestamp(&mut self, first: bool) {
        let key = self.input.key().user_key();
        if first {
            self.is_history = self.settings.times.is_history(&self.settings.comparator.user, key);
        } else {
            self.current.clear();
            self.current.extend_from_slice(key.as_bytes());
        }
    }

    /// The input is on an entry that is dropped for its timestamp.
    pub(super) fn is_trimmed(&self) -> bool {
        let key = self.input.key().user_key();
        self.settings.times.trims(&self.settings.comparator.user, key)
    }

    /// The newest sequence up to `newest` of a range tombstone over the current key that every
    /// reader sees; 0 if there is none.
    #[cold]
    pub(super) fn covered_below(
        &self,
        list: &FragmentedTombstones,
        newest: SequenceNumber,
    ) -> SequenceNumber {
        let (order, times) = (&self.settings.comparator.user, &self.settings.times);
        list.max_covering_seq_of(order, UserKey::new(&self.current), newest, |time| {
            times.is_history_time(order, time) && !times.trims_time(order, time)
        })
    }

    pub(super) fn decide_timed_deletion(&mut self) -> bool {
        if self.is_history && self.settings.snapshots.is_empty() && self.nothing_below() {
            self.count_obsolete();
            self.input.next();
            return false;
        }
        self.out = Out::Input;
        true
    }

    /// A single deletion that a reader at its time needs, and with it the version that it cancels.
    pub(super) fn keep_single_deletion(&mut self) {
        self.last_stripe = NO_STRIPE;
        self.out = Out::Input;
    }

    /// Entries get sequence 0 here, and timestamp 0. Not those over which an older range tombstone
    /// stays that readers at its time see: it would hide them.
    pub(super) fn forgets_time(&self, sequence: SequenceNumber) -> bool {
        self.settings.bottommost
            && sequence <= self.zeroed_to
            && self.is_history
            && self.settings.snapshots.is_empty()
            && !self.is_above_younger_time()
    }

    /// An older range tombstone over the current key has a timestamp at or above the low.
    fn is_above_younger_time(&self) -> bool {
        let Some(list) = &self.settings.tombstones else { return false };
        let (order, times) = (&self.settings.comparator.user, &self.settings.times);
        let key = UserKey::new(&self.current);
        let stays = |time: &[u8]| !times.is_history_time(order, time);
        list.max_covering_seq_of(order, key, key::MAX_SEQUENCE, stays) > 0
    }

    /// Writes the input's entry as if it were from the beginning of time.
    pub(super) fn emit_timeless(&mut self, sequence: SequenceNumber, tag: u8) {
        let order = &self.settings.comparator.user;
        let bare = order.without_timestamp(UserKey::new(&self.current)).as_bytes();
        self.key.clear();
        key::append_internal_key(&mut self.key, &order.at_oldest(bare), sequence, tag);
        self.out = Out::Rekeyed;
    }

    /// The input is below the operands of one timestamp: versions at older timestamps follow, which
    /// these do not hide.
    pub(super) fn meets_older_time(&mut self) -> bool {
        let ikey = self.input.key();
        let (order, current) = (&self.settings.comparator.user, UserKey::new(&self.current));
        let older = order.same_user_key(ikey.user_key(), current)
            && !order.same_entry_key(ikey.user_key(), current);
        // They are a key of their own.
        self.has_current &= !older;
        older
    }

    /// The type of a deletion that takes the place of an entry.
    pub(super) fn deletion(&self) -> ValueType {
        if self.timed { ValueType::DeletionWithTimestamp } else { ValueType::Deletion }
    }
}
