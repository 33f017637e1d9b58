//! Checksums of a batch's updates (`protection_bytes_per_key`): those that change in the batch's
//! memory are found before they get into the log or a memtable.
//!
//! Each update has one of 64 bits, over its column family, kind, key and value: made of what the
//! caller adds, or of what the batch has when it becomes protected. The leader of a write compares
//! them before its group is logged and, since that may take long, again before the group enters
//! the memtables. Annotations and markers of transactions have none, as in RocksDB.
//!
//! Thread safety: plain data, which a batch and the write queue share. Invariant: a protected batch
//! has as many checksums as updates, in their order. Not here: the copy in the memtable, which
//! `memtable_protection_bytes_per_key` protects.

use std::sync::Arc;

use pumice_base::{Error, Result, ValueType};
use pumice_memtable::entry_checksum;

use super::{BatchRecord, WriteBatch, count, records};
use crate::options::requests::WriteOptions;

/// The checksums of a batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums(Vec<u64>);

fn sum((family, kind): (u32, ValueType), key: &[u8], value: &[u8]) -> u64 {
    entry_checksum(key, u64::from(family) << 8 | u64::from(kind as u8), value)
}

impl Sums {
    /// Of the updates in wire form `rep`.
    ///
    /// # Errors
    /// Corruption of a record.
    pub fn of(rep: &[u8]) -> Result<Self> {
        let mut sums = Sums::default();
        for record in records(rep) {
            if let BatchRecord::Entry { column_family, value_type, key, value } = record? {
                sums.push((column_family, value_type), key, value);
            }
        }
        Ok(sums)
    }

    fn push(&mut self, kind: (u32, ValueType), key: &[u8], value: &[u8]) {
        self.0.push(sum(kind, key, value));
    }

    /// Compares the updates in wire form `rep` with their checksums.
    ///
    /// # Errors
    /// Corruption, with RocksDB's texts.
    pub fn verify(&self, rep: &[u8]) -> Result<()> {
        if count(rep) as usize != self.0.len() {
            return Err(Error::corruption("WriteBatch has wrong count"));
        }
        self.compare(rep)
    }

    /// As [`Sums::verify`] of a batch that was logged: its header may be that of the log record.
    pub fn compare(&self, rep: &[u8]) -> Result<()> {
        match Sums::of(rep)?.0 == self.0 {
            true => Ok(()),
            false => Err(Error::corruption("ProtectionInfo mismatch")),
        }
    }
}

impl WriteBatch {
    /// Gives each update a checksum: those that are there one of what they are now, later ones when
    /// they are added. A write compares them, and fails rather than write something else. The
    /// batch stays protected when it is cleared. [`WriteBatch::status`] says if it is malformed.
    pub fn protect(&mut self) {
        if self.sums.is_none() {
            let sums = Sums::of(&self.rep).unwrap_or_else(|error| {
                self.refuse(error);
                Sums::default()
            });
            self.sums = Some(Arc::new(sums));
        }
    }

    /// Bytes of the checksum of each update: 8, or 0 for none.
    pub fn protection_bytes_per_key(&self) -> usize {
        if self.sums.is_some() { 8 } else { 0 }
    }

    /// Compares the updates with their checksums, if they have some.
    ///
    /// # Errors
    /// Corruption.
    pub fn verify_checksum(&self) -> Result<()> {
        self.sums.as_ref().map_or(Ok(()), |sums| sums.verify(&self.rep))
    }

    /// The checksums of the updates, if they have some.
    #[inline]
    pub(crate) fn sums(&self) -> Option<&Arc<Sums>> {
        self.sums.as_ref()
    }

    /// Readies the batch for a write with these options, and returns them with its protection.
    ///
    /// # Errors
    /// NotSupported, with RocksDB's text; Corruption.
    #[cold]
    pub(crate) fn protect_for(&mut self, options: &WriteOptions) -> Result<WriteOptions> {
        if !matches!(options.protection_bytes_per_key, 0 | 8) {
            let text = "WriteBatch protection info must be zero or eight bytes/key";
            return Err(Error::not_supported(text));
        }
        self.protect();
        self.status()?;
        Ok(WriteOptions { protection_bytes_per_key: 8, ..*options })
    }

    /// An update of a protected batch was added.
    #[cold]
    pub(super) fn add_sum(&mut self, kind: (u32, ValueType), key: &[u8], value: &[u8]) {
        if let Some(sums) = &mut self.sums {
            Arc::make_mut(sums).push(kind, key, value);
        }
    }

    /// Forgets the checksums of all updates but the first `left`.
    #[cold]
    pub(super) fn truncate_sums(&mut self, left: u32) {
        if let Some(sums) = &mut self.sums {
            Arc::make_mut(sums).0.truncate(left as usize);
        }
    }

    /// The updates of `other` are about to be appended: the batch is protected if either is.
    #[cold]
    pub(super) fn append_sums(&mut self, other: &WriteBatch) -> Result<()> {
        self.protect();
        let more = match &other.sums {
            Some(sums) => Arc::clone(sums),
            None => Arc::new(Sums::of(&other.rep)?),
        };
        if let Some(sums) = &mut self.sums {
            Arc::make_mut(sums).0.extend_from_slice(&more.0);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use pumice_base::random::Rng;

    use super::*;

    fn drawn(rng: &mut Rng, len_max: u64) -> Vec<u8> {
        let len = rng.uniform(len_max + 1) as usize;
        rng.bytes(len)
    }

    fn add_drawn(batch: &mut WriteBatch, rng: &mut Rng) {
        let (cf, key, value) = (rng.uniform(3) as u32 * 100, drawn(rng, 9), drawn(rng, 40));
        match rng.uniform(7) {
            0 | 1 => batch.put_cf(cf, key, value),
            2 => batch.delete_cf(cf, key),
            3 => batch.single_delete_cf(cf, key),
            4 => batch.merge_cf(cf, key, value),
            5 => batch.delete_range_cf(cf, key, value),
            _ => batch.put_entity_cf(cf, key, [("", &value), ("column", &value)]),
        }
    }

    /// Whatever becomes of a batch, each of its updates has its checksum: in the order of the
    /// updates, and made when it was added.
    #[pumice_test_macros::test]
    fn every_update_has_its_checksum() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let mut batch = WriteBatch::new();
            // Sooner or later, the first updates being there or not.
            let protected_from = rng.uniform(6);
            for step in 0..30 {
                if step == protected_from {
                    batch.protect();
                }
                match rng.uniform(12) {
                    0 => batch.set_save_point(),
                    1 => drop(batch.rollback_to_save_point()),
                    2 => drop(batch.pop_save_point()),
                    3 if rng.uniform(4) == 0 => batch.clear(),
                    3 => batch.put_log_data(&drawn(&mut rng, 9)),
                    4 => {
                        let mut other = WriteBatch::new();
                        if rng.uniform(2) == 0 {
                            other.protect();
                        }
                        (0..rng.uniform(3)).for_each(|_| add_drawn(&mut other, &mut rng));
                        let protects = other.sums.is_some() || batch.sums.is_some();
                        batch.append(&other);
                        assert_eq!(batch.protection_bytes_per_key(), 8 * usize::from(protects));
                    }
                    _ => add_drawn(&mut batch, &mut rng),
                }
                let right = Sums::of(&batch.rep).unwrap();
                if let Some(sums) = &batch.sums {
                    assert_eq!(sums.0, right.0, "seed {seed}, step {step}");
                    assert_eq!(sums.0.len(), batch.count() as usize);
                }
                batch.verify_checksum().unwrap();
            }
            assert_eq!(batch.protection_bytes_per_key(), 8);
        }
    }

    /// Every bit of count, kind, family, lengths, keys and values counts; without checksums most
    /// changes of keys and values go unnoticed.
    #[pumice_test_macros::test]
    fn a_flipped_bit_is_found_wherever_it_is() {
        let (mut flips, mut unnoticed) = (0, 0);
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let (mut batch, mut plain) = (WriteBatch::new(), WriteBatch::new());
            batch.protect();
            (0..=rng.uniform(5)).for_each(|_| add_drawn(&mut batch, &mut rng));
            plain.rep = batch.rep.clone();
            for bit in 8 * 8..8 * batch.rep.len() {
                for batch in [&mut batch, &mut plain] {
                    batch.rep[bit / 8] ^= 1 << (bit % 8);
                }
                let found = batch.verify_checksum();
                assert!(found.is_err_and(|error| error.is_corruption()), "seed {seed}, bit {bit}");
                flips += 1;
                let still_whole = WriteBatch::from_data(&plain.rep).is_ok();
                unnoticed += usize::from(still_whole && plain.verify_checksum().is_ok());
                for batch in [&mut batch, &mut plain] {
                    batch.rep[bit / 8] ^= 1 << (bit % 8);
                }
            }
            batch.verify_checksum().unwrap();
        }
        assert!(unnoticed > flips / 2, "{unnoticed} of {flips}");
    }

    /// Timestamps that are set later change the checksums of their keys; a change that came before
    /// is not taken over.
    #[pumice_test_macros::test]
    fn timestamps_are_part_of_keys() {
        let mut batch = WriteBatch::new();
        batch.protect();
        let kind = (ValueType::Value, ValueType::ColumnFamilyValue);
        batch.add_unset((1, 8), b"key", Some(b"value"), kind);
        batch.add_unset_range((1, 8), b"a", b"b");
        batch.put("plain", "value");
        let mut changed = batch.clone();
        let size = |family| Some(if family == 1 { 8 } else { 0 });
        batch.update_timestamps(&[7; 8], size).unwrap();
        batch.verify_checksum().unwrap();
        let at = changed.rep.len() - 1;
        changed.rep[at] ^= 1;
        let refused = changed.update_timestamps(&[7; 8], size).unwrap_err();
        assert_eq!(refused.to_string(), "Corruption: ProtectionInfo mismatch");
    }
}
