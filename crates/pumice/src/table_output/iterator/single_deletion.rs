//! What becomes of a SingleDeletion: it goes with the one version below it.
//!
//! RocksDB's contract is that a key is put once between two single deletions and never deleted or
//! merged in another way. What breaks it is undefined there, but has to end here as it ends there
//! (`CompactionIterator::NextFromInput` of 10.10): a file that one engine compacts and the other
//! calls Corruption could not be shared. So the decisions are RocksDB's, entry by entry:
//!
//! | below, in the stripe | the single deletion |
//! |---|---|
//! | SingleDeletion | goes; the older one is decided about |
//! | Deletion | Corruption; if `enforce_single_del_contracts` is off it goes, the Deletion stays |
//! | anything else | both go, and what is still older in the stripe is hidden |
//! | nothing | stays, unless no version of the key can exist below |
//!
//! A key whose newest version got sequence 0 has no history any more: a single deletion below it
//! goes with the next version, whatever that is, and nothing is reported. A range tombstone above
//! a single deletion does not hide it.
//!
//! Thread safety: one owner.

use pumice_base::{Error, InternalIterator, SequenceNumber, ValueType, dbformat};

use super::{CompactionIterator, NO_STRIPE, Out};

/// As RocksDB says it, number of the type included.
const MISUSE: &str = "Found SD and type: 0 on the same key, violating the contract of \
    SingleDelete. Check your application to make sure the application does not mix SingleDelete \
    and Delete for the same key. If you are using write-prepared/write-unprepared transactions, \
    and use SingleDelete to delete certain keys, then make sure \
    TransactionDBOptions::rollback_deletion_type_callback is configured properly. Mixing SD and \
    DEL can lead to undefined behaviors";

/// What the input has after a single deletion.
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
                let key = dbformat::internal_key(&self.current, sequence, kind);
                self.queue.push_back((key, Vec::new()));
                self.out = Out::Queued;
                return true;
            }
        }
        false
    }

    /// The single deletion, which the input has left, goes with the entry that the input is on.
    fn drop_pair(&mut self) {
        self.counts.entries_in += 1;
        self.counts.dropped_hidden += 1;
        self.counts.dropped_obsolete += 1;
        self.input.next();
    }

    /// The Deletion that the input is on is decided about as if nothing had been above it: versions
    /// of lower levels would show without it.
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
        if !self.settings.comparator.user.equal(dbformat::user_key(ikey), &self.current) {
            return Below::Nothing;
        }
        let (sequence, tag) = dbformat::sequence_and_type(ikey);
        if self.stripe(sequence) != stripe {
            return Below::OtherStripe;
        }
        Below::SameStripe(ValueType::from_u8(tag))
    }
}
