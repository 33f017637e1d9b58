//! Processes a SingleDeletion: it is dropped together with the one version below it.
//!
//! RocksDB's contract is that a key is put once between two single deletions and never deleted or
//! merged in another way. Breaking the contract is undefined there, but must have the same result
//! here (`CompactionIterator::NextFromInput` of 10.10): a file that one engine compacts and the
//! other calls Corruption could not be shared. So the decisions are RocksDB's, entry by entry:
//!
//! | below, in the stripe | the single deletion |
//! |---|---|
//! | SingleDeletion | is dropped; the older one is processed |
//! | Deletion | Corruption; without `enforce_single_del_contracts` the Deletion alone stays |
//! | anything else | both are dropped, and still older versions in the stripe are hidden |
//! | nothing | stays, unless no version of the key can exist below |
//!
//! While a transaction has an older snapshot by which it checks whether keys have changed, a pair
//! that is newer stays, the lower entry without its value: RocksDB's write-conflict boundary.
//!
//! A key whose newest version got sequence 0 has no history any more: a single deletion below it is
//! dropped with the next version, whatever that is, and nothing is reported. A range tombstone
//! above a single deletion does not hide it.
//!
//! Thread safety: one owner.

use pumice_base::{Error, InternalIterator, SequenceNumber, ValueType, key};

use super::{CompactionIterator, NO_STRIPE, Out};

/// RocksDB's text, including the number of the type.
const MISUSE: &str = "Found SD and type: 0 on the same key, violating the contract of \
    SingleDelete. Check your application to make sure the application does not mix SingleDelete \
    and Delete for the same key. If you are using write-prepared/write-unprepared transactions, \
    and use SingleDelete to delete certain keys, then make sure \
    TransactionDBOptions::rollback_deletion_type_callback is configured properly. Mixing SD and \
    DEL can lead to undefined behaviors";

/// What follows a single deletion in the input.
enum Below {
    /// Another key, or nothing.
    Nothing,
    /// A version that an older snapshot sees.
    OtherStripe,
    SameStripe(Option<ValueType>),
}

impl<I: InternalIterator> CompactionIterator<I> {
    /// The input is on a single deletion; `hidden` if a newer version of its stripe was seen.
    pub(super) fn decide_single_deletion(
        &mut self,
        sequence: SequenceNumber,
        stripe: SequenceNumber,
        hidden: bool,
    ) -> bool {
        self.input.next();
        match self.below(stripe) {
            Below::SameStripe(_) | Below::OtherStripe if self.zeroed => self.drop_pair(),
            Below::SameStripe(kind)
                if kind != Some(ValueType::SingleDeletion)
                    && kind != Some(ValueType::Deletion)
                    && self.is_watched(sequence) =>
            {
                self.keep_pair(sequence);
                return true;
            }
            Below::SameStripe(Some(ValueType::SingleDeletion)) => {
                self.counts.dropped_obsolete += 1;
                return false;
            }
            Below::SameStripe(Some(ValueType::Deletion)) => {
                if self.settings.enforce_single_del_contracts {
                    self.status = Err(Error::corruption(MISUSE));
                    return false;
                }
                self.counts.dropped_obsolete += 1;
                self.uncover(hidden);
                return false;
            }
            Below::SameStripe(_) => {
                self.drop_pair();
                if !self.settings.enforce_single_del_contracts
                    && let Below::SameStripe(Some(ValueType::Deletion)) = self.below(stripe)
                {
                    self.uncover(hidden);
                }
            }
            Below::Nothing
                if self.zeroed || (sequence <= self.earliest_snapshot && self.nothing_below()) =>
            {
                self.count_obsolete();
            }
            Below::Nothing | Below::OtherStripe => {
                let kind = ValueType::SingleDeletion;
                let key = key::internal_key(&self.current, sequence, kind);
                self.queue.push_back((key, Vec::new()));
                self.out = Out::Queued;
                return true;
            }
        }
        false
    }

    /// Drops the single deletion, which the input has passed, with the entry that the input is on.
    fn drop_pair(&mut self) {
        self.counts.entries_in += 1;
        self.counts.dropped_hidden += 1;
        self.counts.dropped_obsolete += 1;
        self.input.next();
    }

    /// Whether a transaction may ask whether the key was written since a snapshot that is older
    /// than `sequence`: then something must be left that says so.
    fn is_watched(&self, sequence: SequenceNumber) -> bool {
        let boundary = self.settings.earliest_write_conflict_snapshot;
        sequence > boundary
            && !(self.earliest_snapshot < boundary && sequence <= self.earliest_snapshot)
    }

    /// Writes the single deletion and, without its value, the entry below it that the input is on.
    fn keep_pair(&mut self, sequence: SequenceNumber) {
        let below = self.input.key();
        let single = key::internal_key(&self.current, sequence, ValueType::SingleDeletion);
        let lower = key::internal_key(below.user_key(), below.sequence(), ValueType::Value);
        self.queue.extend([(single, Vec::new()), (lower, Vec::new())]);
        self.counts.entries_in += 1;
        self.input.next();
        self.out = Out::Queued;
    }

    /// Processes the Deletion that the input is on as if nothing had been above it: without it
    /// versions of lower levels would become visible.
    fn uncover(&mut self, hidden: bool) {
        if !hidden {
            self.last_stripe = NO_STRIPE;
        }
    }

    fn below(&self, stripe: SequenceNumber) -> Below {
        if !self.input.valid() {
            return Below::Nothing;
        }
        let ikey = self.input.key();
        if !self.is_current(ikey) {
            return Below::Nothing;
        }
        let (sequence, tag) = ikey.sequence_and_type();
        if self.stripe(sequence) != stripe {
            return Below::OtherStripe;
        }
        Below::SameStripe(match ValueType::from_u8(tag) {
            Some(ValueType::DeletionWithTimestamp) => Some(ValueType::Deletion),
            other => other,
        })
    }
}
