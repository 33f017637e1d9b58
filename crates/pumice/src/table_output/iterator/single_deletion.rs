//! What becomes of a SingleDeletion: it goes with the one version below it.
//!
//! RocksDB's contract is that a key is put once between two single deletions and never deleted in
//! another way. A Deletion right below is reported, as in RocksDB, unless
//! `enforce_single_del_contracts` is off; two single deletions in a row are one.
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

impl<I: InternalIterator> CompactionIterator<I> {
    /// The input is on a single deletion; `hidden` if a newer version of its stripe was kept.
    pub(super) fn decide_single_deletion(
        &mut self,
        sequence: SequenceNumber,
        stripe: SequenceNumber,
        hidden: bool,
    ) -> bool {
        self.input.next();
        match self.next_in_stripe(stripe) {
            Some(ValueType::Value | ValueType::WideColumnEntity) => {
                // The pair annihilates. Still older versions stay hidden by the stripe, but a
                // tombstone right below is now its newest and may hide versions of lower levels.
                self.counts.entries_in += 1;
                self.counts.dropped_obsolete += 2;
                self.input.next();
                let below = self.next_in_stripe(stripe);
                if !hidden && matches!(below, Some(ValueType::Deletion | ValueType::SingleDeletion))
                {
                    self.last_stripe = NO_STRIPE;
                }
                return false;
            }
            Some(ValueType::Deletion) if self.settings.enforce_single_del_contracts => {
                self.status = Err(Error::corruption(MISUSE));
                return false;
            }
            Some(ValueType::Deletion | ValueType::SingleDeletion) => {
                // The older tombstone says the same and is at least as strong.
                self.counts.dropped_hidden += 1;
                if !hidden {
                    self.last_stripe = NO_STRIPE;
                }
                return false;
            }
            _ => {}
        }
        if sequence <= self.earliest_snapshot && self.nothing_below() {
            self.counts.dropped_obsolete += 1;
            return false;
        }
        let key = dbformat::internal_key(&self.current, sequence, ValueType::SingleDeletion);
        self.queue.push_back((key, Vec::new()));
        self.out = Out::Queued;
        true
    }
}
