//! `rocksdb_writebatch_t`: a batch with a limit of bytes, and the walks over its records that
//! RocksDB's handlers make.
//!
//! Thread safety: one task at a time.

use std::cmp::Ordering;
use std::sync::Arc;

use pumice::{BatchRecord, ColumnFamily, Comparator, CustomComparator, Result, WriteBatch};
use pumice_base::key::ValueType;

/// A batch.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The updates.
    pub updates: WriteBatch,
    /// Most bytes of all updates; 0 for no limit.
    bytes_max: usize,
    /// The order of the default family's keys, if they have timestamps.
    default_order: Option<Comparator>,
}

/// One update that a walk meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update<'a> {
    /// A value.
    Put(&'a [u8], &'a [u8]),
    /// A deletion.
    Delete(&'a [u8]),
    /// A merge operand.
    Merge(&'a [u8], &'a [u8]),
    /// An annotation.
    LogData(&'a [u8]),
}

impl Batch {
    /// An empty batch with room for `reserved` bytes that takes at most `bytes_max`; 0 for no
    /// limit.
    pub fn with_limit(reserved: usize, bytes_max: usize) -> Batch {
        // A caller's mistake must not become an allocation that fails.
        let reserved = reserved.min(64 << 20);
        Batch { updates: WriteBatch::with_capacity(reserved), bytes_max, default_order: None }
    }

    /// Keys of the default family get so many zeros for a timestamp, unless that is 0.
    #[must_use]
    pub fn with_default_timestamps(self, size: usize) -> Batch {
        Batch { default_order: (size > 0).then(|| sized(size)), ..self }
    }

    /// Updates get checksums of so many bytes, which are 8 unless that is 0.
    #[must_use]
    pub fn with_protection(mut self, bytes: usize) -> Batch {
        if bytes > 0 {
            self.updates.protect();
        }
        self
    }

    /// A batch with these bytes. If they are none it has no updates, and its write is the error.
    pub fn from_data(data: &[u8]) -> Batch {
        let updates = WriteBatch::from_data(data).unwrap_or_else(WriteBatch::refusing);
        Batch { updates, ..Batch::default() }
    }

    /// The batch of a log's record, to be read: with records of transactions it cannot be written.
    ///
    /// # Errors
    /// Corruption if the bytes are none.
    pub fn from_log(record: &[u8]) -> Result<Batch> {
        Ok(Batch { updates: WriteBatch::from_log(record.to_vec())?, ..Batch::default() })
    }

    /// Takes at most so many bytes from now on; 0 for no limit.
    pub fn set_max_bytes(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
    }

    /// Adds updates, unless the batch would then be larger than its limit; whether it did.
    pub fn add(&mut self, add: impl FnOnce(&mut WriteBatch)) -> bool {
        if self.bytes_max == 0 {
            add(&mut self.updates);
            return true;
        }
        self.updates.set_save_point();
        add(&mut self.updates);
        let fits = self.updates.data_bytes() <= self.bytes_max;
        // Both find the save point that was just set.
        let outcome = match fits {
            false => self.updates.rollback_to_save_point(),
            true => self.updates.pop_save_point(),
        };
        debug_assert!(outcome.is_ok());
        fits
    }

    /// Adds the updates of one column family, or of the default one, as [`Self::add`].
    pub fn add_to(
        &mut self,
        cf: Option<&ColumnFamily>,
        add: impl FnOnce(&mut WriteBatch, Family),
    ) -> bool {
        match cf {
            Some(cf) => self.add(|updates| add(updates, Family::Handle(cf))),
            None => {
                let order = self.default_order.clone();
                self.add(|updates| add(updates, Family::Default(order.as_ref())))
            }
        }
    }

    /// Walks over the records as a handler of RocksDB's does that knows puts, deletions and, if
    /// `families`, column families and merges: it ends at the first record that it has no function
    /// for. `see` gets the column family's id.
    pub fn walk(&self, families: bool, see: impl FnMut(u32, Update<'_>)) {
        walk(&self.updates, families, see);
    }
}

/// [`Batch::walk`] over the records of `updates`.
pub fn walk(updates: &WriteBatch, families: bool, mut see: impl FnMut(u32, Update<'_>)) {
    for record in updates.iter() {
        let Ok(record) = record else { return };
        let (cf, value_type, key, value) = match record {
            BatchRecord::LogData(blob) => {
                see(0, Update::LogData(blob));
                continue;
            }
            BatchRecord::Marker(..) => continue,
            BatchRecord::Entry { column_family, value_type, key, value } => {
                (column_family, value_type, key, value)
            }
        };
        match value_type {
            _ if !families && cf != 0 => return,
            ValueType::Value => see(cf, Update::Put(key, value)),
            ValueType::Deletion => see(cf, Update::Delete(key)),
            ValueType::Merge if families => see(cf, Update::Merge(key, value)),
            // The functions that RocksDB's handlers have for these do nothing.
            ValueType::Merge => {}
            ValueType::SingleDeletion if cf == 0 => {}
            _ => return,
        }
    }
}

/// The column family of an update in a batch. The batch keeps its number alone, as RocksDB's do: it
/// can be written to any database that has such a family, for example to one that was opened again.
#[derive(Clone, Copy, Debug)]
pub enum Family<'a> {
    /// The default one, and the order of its keys if that is known.
    Default(Option<&'a Comparator>),
    /// That of a handle.
    Handle(&'a ColumnFamily),
}

impl pumice::UpdateFamily for Family<'_> {
    fn family_id(&self) -> u32 {
        match self {
            Family::Default(_) => 0,
            Family::Handle(cf) => cf.id(),
        }
    }
    fn order(&self) -> Option<&Comparator> {
        match self {
            Family::Default(order) => *order,
            Family::Handle(cf) => pumice::UpdateFamily::order(*cf),
        }
    }
}

/// An order of keys with timestamps of that size, of which nothing else is asked.
struct Sized(usize);

impl CustomComparator for Sized {
    fn name(&self) -> &str {
        "timestamps"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }
    fn timestamp_size(&self) -> usize {
        self.0
    }
}

fn sized(size: usize) -> Comparator {
    Comparator::Custom(Arc::new(Sized(size)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(batch: &Batch, families: bool) -> Vec<String> {
        let mut seen = Vec::new();
        batch.walk(families, |cf, update| seen.push(format!("{cf} {update:?}")));
        seen
    }

    #[test]
    fn a_limit_leaves_updates_out_whole() {
        let mut batch = Batch::with_limit(0, 100);
        batch.add(|updates| updates.put("a", [b'x'; 20]));
        batch.add(|updates| updates.put("b", [b'x'; 200]));
        batch.add(|updates| updates.put("c", [b'x'; 20]));
        assert_eq!(batch.updates.count(), 2);
    }

    #[test]
    fn a_walk_ends_where_a_handler_of_rocksdb_does() {
        let mut batch = Batch::default();
        batch.add(|updates| {
            updates.put("a", "1");
            updates.delete("b");
            updates.merge("m", "2");
            updates.put_log_data(b"note");
            updates.delete_range("a", "z");
            updates.put("never", "seen");
        });
        assert_eq!(seen(&batch, false).len(), 3);
        assert_eq!(seen(&batch, true).len(), 4);
    }

    /// The end of a prepared section follows the update.
    #[test]
    fn records_of_transactions_can_be_read_and_not_written() {
        let mut put = WriteBatch::new();
        put.put(b"k", b"v");
        let mut record = put.data().to_vec();
        record.extend([ValueType::EndPrepareXid as u8, 1, b'x']);
        let read = Batch::from_log(&record).expect("a batch of ours");
        assert_eq!(read.updates.count(), 1);
        assert!(read.updates.status().is_err());
        assert_eq!(Batch::from_data(&record).updates.count(), 0);
        assert!(Batch::from_log(&record[..record.len() - 1]).is_err());
    }
}
