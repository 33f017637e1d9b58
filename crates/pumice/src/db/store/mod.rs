//! `Store`: what every handle through which keys and values are read and written can do.
//!
//! Some fifteen calls, each with its options and its column family. The forms in which programs
//! make them (`get`, `get_cf`, `get_opt`, `get_cf_opt`, `get_async`, and so on) are written once,
//! in `forms`, for every handle: [`Db`](crate::Db), [`DbWithTtl`](crate::DbWithTtl), and those to
//! come. Code that serves several kinds of handles is generic over this trait; programs use the
//! forms, which need no import.
//!
//! Thread safety: from any thread. Every call that reads or writes may suspend. Not here: what is
//! not about keys and values (flushes, compactions, options, files), which is [`Db`](crate::Db)'s.

use std::sync::Arc;

use pumice_base::Result;

use crate::commit::batch::WriteBatch;
use crate::options::DbOptions;
use crate::options::requests::{GetMergeOperandsOptions, ReadOptions, WriteOptions};
use crate::read::columns::PinnedColumns;
use crate::read::entries::Cursor;
use crate::read::pinned::PinnedSlice;
use crate::version::family::ColumnFamily;

/// Options of reads that name none.
pub(crate) static READ_DEFAULT: ReadOptions = ReadOptions::DEFAULT;
/// Options of writes that name none.
pub(crate) static WRITE_DEFAULT: WriteOptions = WriteOptions {
    sync: false,
    disable_wal: false,
    no_slowdown: false,
    low_pri: false,
    ignore_missing_column_families: false,
    rate_limiter_priority: None,
    protection_bytes_per_key: 0,
};

/// A handle through which keys and values are read and written.
///
/// The handle's own methods, such as [`Db::get`](crate::Db::get), are these calls in shorter forms
/// and say what each does and which errors it returns. The trait is for code that takes any handle:
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// use pumice::{Db, ReadOptions, Result, Store, WriteOptions};
///
/// fn rename(store: &impl Store, from: &[u8], to: &[u8]) -> Result<bool> {
///     let family = store.default_column_family();
///     let Some(value) = store.get(&ReadOptions::DEFAULT, family, from)? else { return Ok(false) };
///     store.put(&WriteOptions::default(), family, to, &value)?;
///     store.delete(&WriteOptions::default(), family, from)?;
///     Ok(true)
/// }
///
/// # let dir = std::env::temp_dir().join(format!("pumice-store-{}", std::process::id()));
/// let db = Db::builder(&dir).create(true).open()?;
/// db.put("old", "value")?;
/// assert!(rename(&db, b"old", b"new")?);
/// assert_eq!(db.get("new")?.as_deref(), Some(&b"value"[..]));
/// # db.close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
pub trait Store: Clone + Send + Sync + 'static {
    /// What moves over its entries.
    type Cursor: Cursor;

    /// The column family that calls without one use. Never suspends.
    fn default_column_family(&self) -> &ColumnFamily;
    /// The options of the database as they are now. Never suspends.
    fn options(&self) -> Arc<DbOptions>;

    /// The value of `key`, or None.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get).
    fn get(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: &[u8],
    ) -> Result<Option<PinnedSlice>>;
    /// The values of `keys`, all as of one moment, in their order. If a handle is of another
    /// database nothing is read, and that error is the answer for each key.
    fn multi_get(
        &self,
        options: &ReadOptions,
        keys: &[(&ColumnFamily, &[u8])],
    ) -> Vec<Result<Option<PinnedSlice>>>;
    /// The columns of `key`, or None.
    ///
    /// # Errors
    /// As [`Db::get_entity`](crate::Db::get_entity).
    fn get_entity(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: &[u8],
    ) -> Result<Option<PinnedColumns>>;
    /// The columns of `keys`, as in [`Store::multi_get`].
    fn multi_get_entity(
        &self,
        options: &ReadOptions,
        keys: &[(&ColumnFamily, &[u8])],
    ) -> Vec<Result<Option<PinnedColumns>>>;
    /// What the value of `key` is to be merged from, and in `number_of_operands` how many these
    /// are.
    ///
    /// # Errors
    /// As [`Db::get_merge_operands`](crate::Db::get_merge_operands).
    fn get_merge_operands(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: &[u8],
        how: &GetMergeOperandsOptions<'_>,
        number_of_operands: &mut usize,
    ) -> Result<Vec<PinnedSlice>>;
    /// A cursor, not yet positioned.
    ///
    /// # Errors
    /// As [`Db::cursor`](crate::Db::cursor).
    fn cursor(&self, options: &ReadOptions, cf: &ColumnFamily) -> Result<Self::Cursor>;

    /// Sets `key` to `value`.
    ///
    /// # Errors
    /// As [`Db::write`](crate::Db::write), and so for the writes below.
    fn put(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        key: &[u8],
        value: &[u8],
    ) -> Result<()>;
    /// Sets `key` to an entity in its stored form.
    ///
    /// # Errors
    /// As [`Db::put_entity`](crate::Db::put_entity).
    fn put_encoded_entity(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        key: &[u8],
        entity: &[u8],
    ) -> Result<()>;
    /// Deletes `key`.
    ///
    /// # Errors
    /// As [`Db::write`](crate::Db::write).
    fn delete(&self, options: &WriteOptions, cf: &ColumnFamily, key: &[u8]) -> Result<()>;
    /// Deletes `key`, which was put once and not merged since it was last deleted.
    ///
    /// # Errors
    /// As [`Db::write`](crate::Db::write).
    fn single_delete(&self, options: &WriteOptions, cf: &ColumnFamily, key: &[u8]) -> Result<()>;
    /// Adds a merge operand to `key`.
    ///
    /// # Errors
    /// As [`Db::merge`](crate::Db::merge).
    fn merge(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        key: &[u8],
        operand: &[u8],
    ) -> Result<()>;
    /// Deletes every key in `[begin, end)`.
    ///
    /// # Errors
    /// As [`Db::delete_range`](crate::Db::delete_range).
    fn delete_range(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        begin: &[u8],
        end: &[u8],
    ) -> Result<()>;
    /// Applies a batch atomically.
    ///
    /// # Errors
    /// As [`Db::write`](crate::Db::write).
    fn write(&self, options: &WriteOptions, updates: &mut WriteBatch) -> Result<()>;
}

#[cfg(test)]
mod tests;
