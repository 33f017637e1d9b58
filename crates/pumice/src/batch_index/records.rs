//! A cursor over the entries of a batch with index, without a database.
//!
//! It shows every entry: with `overwrite_key` the newest record of a key and merges, otherwise all
//! records; of one key the newest first.
//!
//! Thread safety: as the batch, which it borrows.

use pumice_base::{Error, Result, ValueType};

use crate::batch_index::WriteBatchWithIndex;
use crate::batch_index::index::{Family, Spot};
use crate::commit::batch::{BatchRecord, record_at};
use crate::commit::update_family::UpdateFamily;

/// The kind of an update. Numbers are RocksDB's `WriteType`.
///
/// Example: that of [`WriteBatchIndexIterator`](crate::WriteBatchIndexIterator).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u8)]
pub enum WriteType {
    /// Sets a value.
    Put = 0,
    /// Adds a merge operand.
    Merge = 1,
    /// Deletes a key.
    Delete = 2,
    /// Deletes a key that was put once.
    SingleDelete = 3,
    /// Sets an entity.
    PutEntity = 7,
}

/// An update of a batch.
///
/// Example: that of [`WriteBatchIndexIterator`](crate::WriteBatchIndexIterator).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBatchEntry<'b> {
    /// What it does.
    pub write_type: WriteType,
    /// The key.
    pub key: &'b [u8],
    /// Value, operand or stored entity; empty for deletions.
    pub value: &'b [u8],
}

/// A cursor over the entries of one column family of a batch, without a database: with
/// `overwrite_key` the newest record of a key and merges, otherwise all, of one key the newest
/// first.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// use pumice::{WriteBatchEntry, WriteBatchWithIndex, WriteType};
/// let mut batch = WriteBatchWithIndex::new();
/// batch.put("b", "2")?;
/// batch.delete("a")?;
/// let mut records = batch.records(0); // Of the default column family.
/// records.seek_to_first();
/// let first: WriteBatchEntry<'_> = records.entry().transpose()?.expect("there are two");
/// assert_eq!((first.write_type, first.key), (WriteType::Delete, &b"a"[..]));
/// records.seek("b");
/// assert_eq!(records.entry().transpose()?.map(|entry| entry.value), Some(&b"2"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct WriteBatchIndexIterator<'b> {
    batch: &'b WriteBatchWithIndex,
    family: Option<&'b Family>,
    spot: Option<Spot>,
}

impl std::fmt::Debug for WriteBatchIndexIterator<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteBatchIndexIterator").field("at", &self.spot).finish_non_exhaustive()
    }
}

impl WriteBatchWithIndex {
    /// The entries of `cf`, not yet positioned.
    pub fn records(&self, cf: impl UpdateFamily) -> WriteBatchIndexIterator<'_> {
        let family = self.index.family(cf.family_id());
        WriteBatchIndexIterator { batch: self, family, spot: None }
    }
}

impl<'b> WriteBatchIndexIterator<'b> {
    /// Moves to the first entry.
    pub fn seek_to_first(&mut self) {
        self.spot = self.family.map(Family::first);
    }
    /// Moves to the last entry.
    pub fn seek_to_last(&mut self) {
        self.spot = self.family.and_then(|family| family.before(family.end()));
    }
    /// Moves to the first entry at or after `key`.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) {
        let rep = self.batch.data();
        self.spot = self.family.map(|family| family.at_or_after(rep, key.as_ref()));
    }
    /// Moves to the last entry at or before `key`.
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) {
        let rep = self.batch.data();
        self.spot = self.family.and_then(|family| family.before(family.after(rep, key.as_ref())));
    }
    /// Moves to the entry after this one; nothing without a position.
    pub fn next(&mut self) {
        if let Some((family, spot)) = self.position() {
            self.spot = Some(family.next(spot));
        }
    }
    /// Moves to the entry before this one; nothing without a position.
    pub fn prev(&mut self) {
        if let Some((family, spot)) = self.position() {
            self.spot = family.before(spot);
        }
    }

    fn position(&self) -> Option<(&'b Family, Spot)> {
        let (family, spot) = (self.family?, self.spot?);
        family.get(spot).map(|_| (family, spot))
    }

    /// The entry; None without a position.
    ///
    /// # Errors
    /// Corruption if the batch was changed without its index.
    pub fn entry(&self) -> Option<Result<WriteBatchEntry<'b>>> {
        let (family, spot) = self.position()?;
        let (entry, rep) = (family.get(spot)?, self.batch.data());
        Some(record_at(rep, entry.record as usize).and_then(|record| match record {
            BatchRecord::Entry { value_type, value, .. } => {
                let key = entry.key(rep);
                Ok(WriteBatchEntry { write_type: write_type(value_type)?, key, value })
            }
            BatchRecord::LogData(_) | BatchRecord::Marker(..) => Err(wrong_entry()),
        }))
    }
}

fn write_type(value_type: ValueType) -> Result<WriteType> {
    Ok(match value_type {
        ValueType::Value => WriteType::Put,
        ValueType::Merge => WriteType::Merge,
        ValueType::Deletion => WriteType::Delete,
        ValueType::SingleDeletion => WriteType::SingleDelete,
        ValueType::WideColumnEntity => WriteType::PutEntity,
        _ => return Err(wrong_entry()),
    })
}

fn wrong_entry() -> Error {
    Error::corruption("the index of a WriteBatch has a wrong entry")
}
