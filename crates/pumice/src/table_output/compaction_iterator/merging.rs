//! Combines merge operands: into a value if their base is known, otherwise into fewer operands if
//! the operator can.
//!
//! Thread safety: one owner.

use pumice_base::extension::OpFailureScope;
use pumice_base::key::MAX_SEQUENCE;
use pumice_base::{
    Error, InternalIterator, Result, SequenceNumber, SubCode, UserKey, ValueType, key,
};

use super::{CompactionIterator, Out};
use crate::read::elsewhere::Fetched;
use crate::read::merge::full_merge;
use crate::read::value::{plain, stored_merge};
use crate::table_output::value::InputKind;

impl<I: InternalIterator> CompactionIterator<I> {
    /// The input is on the newest operand of a stripe: combines what can be combined.
    pub(super) fn merge(&mut self, newest: SequenceNumber, stripe: SequenceNumber) -> bool {
        // (sequence, operand), newest first.
        let mut operands = Vec::new();
        self.take_operand(newest, stripe, &mut operands);
        let base = match self.collect_operands(stripe, &mut operands) {
            Ok(base) => base,
            Err(error) => {
                self.status = Err(error);
                return false;
            }
        };
        if let Err(error) = self.input.status() {
            self.status = Err(error);
            return false;
        }
        match base {
            _ if operands.is_empty() => {
                // The filter removed them all, and they hide nothing: what follows is processed as
                // if they had never existed, including by the filter.
                self.has_current = false;
                false
            }
            Base::Stored(base) => self.emit_merged(Some(base), operands),
            Base::Absent => self.emit_merged(None, operands),
            Base::Unknown => {
                self.emit_operands(operands);
                true
            }
        }
    }

    /// Adds the operand that the input is on, unless the filter removes it, and steps past it. As
    /// in RocksDB (`MergeHelper::MergeUntil`) the filter is asked about each operand that no
    /// snapshot sees, the newest first, before anything is combined.
    fn take_operand(
        &mut self,
        sequence: SequenceNumber,
        stripe: SequenceNumber,
        operands: &mut Vec<(SequenceNumber, Vec<u8>)>,
    ) {
        let removed = match &self.settings.compaction_filter {
            Some(filter) if stripe == MAX_SEQUENCE => {
                let operand = self.input.value();
                let key = self.settings.times.keys.whole(&self.current);
                filter.filter_merge_operand(self.settings.level, &key, operand)
            }
            _ => false,
        };
        if !removed {
            operands.push((sequence, self.input.value().to_vec()));
        }
        self.input.next();
    }

    /// Collects older operands of the stripe; returns the base below them. If no operand is
    /// collected the input stays on it.
    fn collect_operands(
        &mut self,
        stripe: SequenceNumber,
        operands: &mut Vec<(SequenceNumber, Vec<u8>)>,
    ) -> Result<Base> {
        while self.input.valid() {
            let ikey = self.input.key();
            let (sequence, tag) = ikey.sequence_and_type();
            if self.timed && self.meets_older_time() {
                return Ok(Base::Unknown);
            }
            let ikey = self.input.key();
            if !self.is_current(ikey) {
                break;
            }
            if self.stripe(sequence) != stripe {
                return Ok(Base::Unknown);
            }
            if tag != ValueType::Merge as u8 && operands.is_empty() {
                return Ok(Base::Unknown);
            }
            self.counts.entries_in += 1;
            if self.range_deleted(sequence, stripe) {
                self.counts.dropped_range_deleted += 1;
                self.input.next();
                if tag != ValueType::Merge as u8 {
                    return Ok(Base::Absent);
                }
                continue;
            }
            let base = match InputKind::of_tag(tag) {
                InputKind::Operand => {
                    self.take_operand(sequence, stripe, operands);
                    continue;
                }
                _ => Base::Stored(Stored { sequence, tag, value: self.input.value().to_vec() }),
            };
            self.counts.dropped_hidden += 1;
            self.input.next();
            return Ok(base);
        }
        // The history in the input ends here; there may be more of it in deeper levels.
        let oldest_stripe = stripe == self.earliest_snapshot || self.settings.snapshots.is_empty();
        if oldest_stripe && self.settings.bottommost {
            return Ok(Base::Absent);
        }
        Ok(Base::Unknown)
    }

    /// Writes the value that `operands`, at least one, make of `base`.
    fn emit_merged(
        &mut self,
        base: Option<Stored>,
        operands: Vec<(SequenceNumber, Vec<u8>)>,
    ) -> bool {
        let newest = operands[0].0;
        let (sequences, oldest_first): (Vec<_>, Vec<_>) = operands.into_iter().rev().unzip();
        let merged = match self.merged(base.as_ref(), &oldest_first) {
            Ok(merged) => Some(merged),
            Err(error) if self.keeps_operands(&error) => None,
            Err(error) => {
                self.status = Err(with_way_on(error));
                return false;
            }
        };
        // No block could hold a larger one. A reader still merges the operands.
        let fits = |value: &[u8]| self.settings.limits.check_entry(&self.current, value).is_ok();
        if let Some((value_type, value)) = merged.filter(|(_, value)| fits(value)) {
            let at = self.value_sequence(newest);
            let key = key::internal_key(&self.current, at, value_type);
            self.queue.push_back((key, value));
        } else {
            self.push_operands(sequences.into_iter().zip(oldest_first).rev());
            if let Some(Stored { sequence, tag, value }) = base {
                let mut key = Vec::new();
                key::append_internal_key(&mut key, &self.current, sequence, tag);
                self.queue.push_back((key, value));
            }
        }
        self.out = Out::Queued;
        true
    }

    fn merged(
        &self,
        base: Option<&Stored>,
        oldest_first: &[Vec<u8>],
    ) -> Result<(ValueType, Vec<u8>)> {
        use ValueType::{Deletion, DeletionWithTimestamp, SingleDeletion};
        let deletions = [Deletion, SingleDeletion, DeletionWithTimestamp].map(|tag| tag as u8);
        let base = base.map(|base| (base.tag, base.value.as_slice()));
        let base = base.filter(|(tag, _)| !deletions.contains(tag));
        let key = UserKey::new(&self.current);
        let fetch = |(tag, stored)| self.settings.values.fetch(key, tag, stored);
        let fetched = base.map(fetch).transpose()?.flatten();
        let base = fetched.as_ref().map(Fetched::stored).or(base);
        let value = base.map(|(tag, stored)| plain(tag, stored)).transpose()?;
        let operator = self.settings.merge_operator.as_deref();
        let key = self.settings.times.keys.timeless(&self.current);
        let operands: Vec<&[u8]> = oldest_first.iter().map(Vec::as_slice).collect();
        stored_merge(base, full_merge(operator, &key, value, &operands)?)
    }

    /// The operands of the current key, which could not be merged, stay as they are.
    fn keeps_operands(&self, error: &Error) -> bool {
        let own = match &self.settings.merge_operator {
            Some(operator) if error.subcode() == SubCode::MergeOperatorFailed => {
                operator.op_failure_scope(&self.settings.times.keys.timeless(&self.current))
            }
            Some(_) => return false,
            None => OpFailureScope::Default,
        };
        let scope = match own {
            OpFailureScope::Default => self.settings.merge_failure_scope,
            own => own,
        };
        scope == OpFailureScope::MustMerge
    }

    /// Writes operands without their base: as one if the operator can combine them all.
    fn emit_operands(&mut self, operands: Vec<(SequenceNumber, Vec<u8>)>) {
        let combined = self.combine(&operands);
        let combined =
            combined.filter(|one| self.settings.limits.check_entry(&self.current, one).is_ok());
        self.push_operands(match combined {
            Some(one) => vec![(operands[0].0, one)],
            None => operands,
        });
        self.out = Out::Queued;
    }

    /// Queues operands, which come newest first.
    fn push_operands(&mut self, operands: impl IntoIterator<Item = (SequenceNumber, Vec<u8>)>) {
        for (sequence, operand) in operands {
            let key = key::internal_key(&self.current, sequence, ValueType::Merge);
            self.queue.push_back((key, operand));
        }
    }

    fn combine(&self, operands: &[(SequenceNumber, Vec<u8>)]) -> Option<Vec<u8>> {
        let operator = self.settings.merge_operator.as_ref()?;
        if operands.len() < 2 {
            return None;
        }
        let oldest_first: Vec<_> = operands.iter().rev().map(|(_, operand)| &operand[..]).collect();
        operator
            .partial_merge_multi(&self.settings.times.keys.timeless(&self.current), &oldest_first)
    }
}

/// The error that ends a job, with what an operator can do about it.
fn with_way_on(error: Error) -> Error {
    if error.subcode() != SubCode::MergeOperatorFailed {
        return error;
    }
    let way = "merge_operator_failure_scope=kMustMerge keeps such operands as they are";
    Error::corruption(format!("{}; {way}", error.message())).with_subcode(error.subcode())
}

/// What is below a run of merge operands.
enum Base {
    /// A value, or a deletion.
    Stored(Stored),
    Absent,
    /// In another stripe or another file.
    Unknown,
}

/// An entry as it was stored.
struct Stored {
    sequence: SequenceNumber,
    tag: u8,
    value: Vec<u8>,
}
