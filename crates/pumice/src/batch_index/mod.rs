//! `WriteBatchWithIndex`: a write batch whose own updates can be read before it is written.
//!
//! A [`WriteBatch`] and an index over its records: by column family, then by key in the family's
//! order, and of one key the newest record first. The batch keeps every record, also those that
//! later ones overwrite, and is written like any batch.
//!
//! | file | holds |
//! |---|---|
//! | `index` | the ordered entries, which find keys in the batch's bytes |
//! | `lookup` | what the batch says about one key, and the same over the database |
//! | `overlay` | a cursor over batch and database together |
//! | `shared` | a batch that a transaction and its cursors share |
//! | `records` | a cursor over the entries of the batch alone |
//!
//! Behaviour and texts are those of RocksDB's class of the same name. Thread safety: a plain value,
//! `Send + Sync`; mutate through `&mut`. Invariants: (1) the index has an entry for every record
//! that the newest state of a key needs, and no entry beyond the batch's end; (2) a write that
//! fails leaves batch and index as they were; (3) keys of the index have no timestamps, whether or
//! not those in the batch, which end with zeros at first, have got theirs. Not here: range
//! deletions, which are refused, as in RocksDB.

mod index;
pub(crate) mod lookup;
pub(crate) mod overlay;
mod records;
mod shared;

pub use overlay::{BaseDeltaIterator, BatchView};
pub use records::{WriteBatchEntry, WriteBatchIndexIterator, WriteType};
pub use shared::SharedBatch;

use pumice_base::wide_columns::encode_pairs;
use pumice_base::{Comparator, Error, Result, ValueType};

use crate::batch_index::index::Index;
use crate::commit::batch::WriteBatch;
use crate::commit::update_family::UpdateFamily;
use crate::version::family::ColumnFamily;

/// How a [`WriteBatchWithIndex`] is made.
///
/// ```
/// use pumice::{WriteBatchWithIndex, WriteBatchWithIndexOptions};
/// let options = WriteBatchWithIndexOptions { max_bytes: 100, ..Default::default() };
/// let mut batch = WriteBatchWithIndex::with_options(&options);
/// assert!(batch.put("key", [0; 200]).is_err());
/// ```
#[derive(Clone, Debug)]
pub struct WriteBatchWithIndexOptions {
    /// The order of keys in families that updates name by their id alone. Default: bytewise.
    pub backup_comparator: Comparator,
    /// Bytes of the batch that are allocated at once. Default: 0.
    pub reserved_bytes: usize,
    /// One index entry for each key, the newest, but merges are kept. Without it every update has
    /// its own entry, which [`WriteBatchWithIndex::records`] shows. Default: false.
    pub overwrite_key: bool,
    /// Largest bytes of the batch; 0: no limit but the format's. Default: 0.
    pub max_bytes: usize,
}

impl Default for WriteBatchWithIndexOptions {
    fn default() -> Self {
        WriteBatchWithIndexOptions {
            backup_comparator: Comparator::Bytewise,
            reserved_bytes: 0,
            overwrite_key: false,
            max_bytes: 0,
        }
    }
}

/// A write batch that can be read. See the module head.
///
/// An entry of the index takes 16 bytes besides the record, at most 32 with the slack of its
/// blocks.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// use pumice::{Db, ReadOptions, WriteBatchWithIndex};
/// # let dir = std::env::temp_dir().join(format!("pumice-wbwi-{}", std::process::id()));
/// let db = Db::builder(&dir).create(true).open()?;
/// db.put("apple", "green")?;
/// let mut batch = WriteBatchWithIndex::new();
/// batch.put("banana", "yellow")?;
/// batch.delete("apple")?;
/// let family = db.default_column_family();
/// let read = ReadOptions::default();
/// assert!(batch.get_from_batch_and_db(&db, &read, family, "apple")?.is_none());
/// assert!(db.get("apple")?.is_some());
/// db.write(batch.write_batch_mut())?;
/// assert!(db.get("apple")?.is_none());
/// # db.close()?;
/// # Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct WriteBatchWithIndex {
    batch: WriteBatch,
    index: Index,
    max_bytes: usize,
    /// New records get entries.
    indexing: bool,
}

impl std::fmt::Debug for WriteBatchWithIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteBatchWithIndex").field("batch", &self.batch).finish_non_exhaustive()
    }
}

impl Default for WriteBatchWithIndex {
    fn default() -> Self {
        Self::new()
    }
}

impl WriteBatchWithIndex {
    /// An empty batch with the default options.
    pub fn new() -> Self {
        Self::with_options(&WriteBatchWithIndexOptions::default())
    }

    /// An empty batch.
    pub fn with_options(options: &WriteBatchWithIndexOptions) -> Self {
        WriteBatchWithIndex {
            batch: WriteBatch::with_capacity(options.reserved_bytes),
            index: Index::new(options.backup_comparator.clone(), options.overwrite_key),
            max_bytes: options.max_bytes,
            indexing: true,
        }
    }

    /// Largest bytes of the batch from now on; 0: no limit but the format's. What is there already
    /// stays.
    pub fn set_max_bytes(&mut self, max_bytes: usize) {
        self.max_bytes = max_bytes;
    }

    /// Whether later updates can be read back; without it they are only written.
    pub(crate) fn set_indexing(&mut self, indexing: bool) {
        self.indexing = indexing;
    }

    /// The order of keys in families that updates name by their id alone.
    pub fn backup_comparator(&self) -> &Comparator {
        self.index.backup_comparator()
    }

    /// The batch without its index.
    pub fn write_batch(&self) -> &WriteBatch {
        &self.batch
    }

    /// The batch, to write it: `db.write(batch.write_batch_mut())`. Updates that are added to it
    /// directly are not in the index.
    pub fn write_batch_mut(&mut self) -> &mut WriteBatch {
        &mut self.batch
    }

    /// The wire form.
    pub fn data(&self) -> &[u8] {
        self.batch.data()
    }

    /// Updates in the batch, overwritten ones too.
    pub fn count(&self) -> u32 {
        self.batch.count()
    }

    /// No update is in the batch.
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// Bytes of the batch's wire form, without the index.
    pub fn data_bytes(&self) -> usize {
        self.batch.data_bytes()
    }

    /// Removes all updates and save points.
    pub fn clear(&mut self) {
        self.batch.clear();
        self.index.clear();
    }

    /// Sets `key` to `value` in `cf`.
    ///
    /// # Errors
    /// InvalidArgument if the update or the batch is too large, or `cf` is of another database than
    /// earlier updates; Aborted with subcode MemoryLimit beyond `max_bytes`. The batch is then as
    /// it was.
    pub fn put_cf(
        &mut self,
        cf: impl UpdateFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.add(&cf, |batch| batch.put_cf(ById::of(&cf), key, value))
    }
    /// Deletes `key` in `cf`.
    ///
    /// # Errors
    /// As [`WriteBatchWithIndex::put_cf`].
    pub fn delete_cf(&mut self, cf: impl UpdateFamily, key: impl AsRef<[u8]>) -> Result<()> {
        self.add(&cf, |batch| batch.delete_cf(ById::of(&cf), key))
    }
    /// Deletes `key` in `cf`, which was put exactly once since its last deletion.
    ///
    /// # Errors
    /// As [`WriteBatchWithIndex::put_cf`].
    pub fn single_delete_cf(&mut self, cf: impl UpdateFamily, key: impl AsRef<[u8]>) -> Result<()> {
        self.add(&cf, |batch| batch.single_delete_cf(ById::of(&cf), key))
    }
    /// Adds a merge operand to `key` in `cf`.
    ///
    /// # Errors
    /// As [`WriteBatchWithIndex::put_cf`].
    pub fn merge_cf(
        &mut self,
        cf: impl UpdateFamily,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.add(&cf, |batch| batch.merge_cf(ById::of(&cf), key, operand))
    }
    /// Sets `key` in `cf` to the entity with these columns, see [`WriteBatch::put_entity`].
    ///
    /// # Errors
    /// As [`WriteBatchWithIndex::put_cf`]; Corruption if two columns have one name.
    pub fn put_entity_cf<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        cf: impl UpdateFamily,
        key: impl AsRef<[u8]>,
        columns: impl IntoIterator<Item = (N, V)>,
    ) -> Result<()> {
        let entity = encode_pairs(columns)?;
        self.put_encoded_entity(&cf, key.as_ref(), &entity)
    }
    /// Sets `key` in `cf` to an entity in its stored form.
    fn put_encoded_entity(
        &mut self,
        cf: &impl UpdateFamily,
        key: &[u8],
        entity: &[u8],
    ) -> Result<()> {
        self.add(cf, |batch| batch.put_encoded_cf(ById::of(cf), key, entity))
    }
    /// Adds an update of this type.
    pub(crate) fn add_record(
        &mut self,
        cf: impl UpdateFamily,
        value_type: ValueType,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        match value_type {
            ValueType::Value => self.put_cf(cf, key, value),
            ValueType::Deletion => self.delete_cf(cf, key),
            ValueType::SingleDeletion => self.single_delete_cf(cf, key),
            ValueType::Merge => self.merge_cf(cf, key, value),
            ValueType::WideColumnEntity => self.put_encoded_entity(&cf, key, value),
            other => Err(Error::not_supported(format!("{other:?} in a transaction"))),
        }
    }
    /// Refused: reads of the batch could not know what a range hides in the database.
    ///
    /// # Errors
    /// NotSupported, always.
    pub fn delete_range_cf(
        &mut self,
        _cf: impl UpdateFamily,
        _begin: impl AsRef<[u8]>,
        _end: impl AsRef<[u8]>,
    ) -> Result<()> {
        Err(Error::not_supported("DeleteRange unsupported in WriteBatchWithIndex"))
    }

    /// [`WriteBatchWithIndex::put_cf`] in the default family.
    ///
    /// # Errors
    /// As there.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_cf(0, key, value)
    }
    /// [`WriteBatchWithIndex::delete_cf`] in the default family.
    ///
    /// # Errors
    /// As there.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_cf(0, key)
    }
    /// [`WriteBatchWithIndex::single_delete_cf`] in the default family.
    ///
    /// # Errors
    /// As there.
    pub fn single_delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.single_delete_cf(0, key)
    }
    /// [`WriteBatchWithIndex::merge_cf`] in the default family.
    ///
    /// # Errors
    /// As there.
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.merge_cf(0, key, operand)
    }
    /// [`WriteBatchWithIndex::put_entity_cf`] in the default family.
    ///
    /// # Errors
    /// As there.
    pub fn put_entity<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        key: impl AsRef<[u8]>,
        columns: impl IntoIterator<Item = (N, V)>,
    ) -> Result<()> {
        self.put_entity_cf(0, key, columns)
    }
    /// Refused, as [`WriteBatchWithIndex::delete_range_cf`].
    ///
    /// # Errors
    /// NotSupported, always.
    pub fn delete_range(&mut self, begin: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        self.delete_range_cf(0, begin, end)
    }
    /// Adds an annotation to the log only.
    ///
    /// # Errors
    /// As [`WriteBatchWithIndex::put_cf`].
    pub fn put_log_data(&mut self, blob: &[u8]) -> Result<()> {
        self.batch.try_add(self.max_bytes, |batch| batch.put_log_data(blob))
    }

    /// [`WriteBatch::update_timestamps`]. Reads of the batch show keys without timestamps.
    ///
    /// # Errors
    /// As there.
    pub fn update_timestamps(
        &mut self,
        timestamp: &[u8],
        timestamp_size: impl Fn(u32) -> Option<usize>,
    ) -> Result<()> {
        self.batch.update_timestamps(timestamp, timestamp_size)
    }

    /// Remembers the present state, for [`WriteBatchWithIndex::rollback_to_save_point`].
    pub fn set_save_point(&mut self) {
        self.batch.set_save_point();
    }
    /// Removes what was added since the newest save point, and the save point. Takes time in
    /// proportion to all updates that stay: overwritten entries come back.
    ///
    /// # Errors
    /// NotFound if there is none.
    pub fn rollback_to_save_point(&mut self) -> Result<()> {
        self.batch.rollback_to_save_point()?;
        self.index.rebuild(&self.batch)
    }
    /// Forgets the newest save point; what was added since stays.
    ///
    /// # Errors
    /// NotFound if there is none.
    pub fn pop_save_point(&mut self) -> Result<()> {
        self.batch.pop_save_point()
    }

    /// Adds one record, and its entry.
    fn add(&mut self, cf: &impl UpdateFamily, add: impl FnOnce(&mut WriteBatch)) -> Result<()> {
        if let Some(order) = cf.order() {
            self.index.learn_order(cf.family_id(), order, self.batch.data());
        }
        let record = self.batch.data_bytes();
        self.batch.try_add(self.max_bytes, add)?;
        match self.indexing {
            true => self.index.add(self.batch.data(), record),
            false => Ok(()),
        }
    }
}

/// A family of an update, borrowed: what is known of it.
struct ById<'a> {
    id: u32,
    handle: Option<&'a ColumnFamily>,
    order: Option<&'a Comparator>,
}

impl<'a> ById<'a> {
    fn of(family: &'a impl UpdateFamily) -> Self {
        ById { id: family.family_id(), handle: family.handle(), order: family.order() }
    }
}

impl UpdateFamily for ById<'_> {
    fn family_id(&self) -> u32 {
        self.id
    }
    fn handle(&self) -> Option<&ColumnFamily> {
        self.handle
    }
    fn order(&self) -> Option<&Comparator> {
        self.order
    }
}

#[cfg(test)]
mod tests;
