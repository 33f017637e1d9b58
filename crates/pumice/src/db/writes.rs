//! The handle's writes: the everyday form, in a column family, and with options.
//!
//! Each write has four forms: `put`, `put_cf`, `put_opt`, `put_cf_opt`. Keys and values are
//! `AsRef<[u8]>`; the generic calls only pass slices to one that is not generic.
//!
//! Thread safety: from any thread. Every call may suspend.

use pumice_base::wide_columns::encode_pairs;
use pumice_base::{Error, Result};

use crate::commit::batch::WriteBatch;
use crate::db::api::Db;
use crate::engine::expiry::note_range_deletion;
use crate::engine::write_path::check_range;
use crate::options::requests::WriteOptions;
use crate::version::family::ColumnFamily;

/// Options of writes without their own.
static EVERYDAY: WriteOptions = WriteOptions {
    sync: false,
    disable_wal: false,
    no_slowdown: false,
    low_pri: false,
    ignore_missing_column_families: false,
    rate_limiter_priority: None,
};

impl Db {
    /// Sets `key` to `value`. See [`Db::write`] for errors.
    #[inline]
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_opt(&EVERYDAY, key, value)
    }
    /// [`Db::put`] in `cf`.
    #[inline]
    pub fn put_cf(
        &self,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.put_cf_opt(&EVERYDAY, cf, key, value)
    }
    /// [`Db::put`] with options.
    #[inline]
    pub fn put_opt(
        &self,
        options: &WriteOptions,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.inner().put(options, 0, key.as_ref(), value.as_ref())
    }
    /// [`Db::put`] in `cf` with options.
    #[inline]
    pub fn put_cf_opt(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.inner().put(options, self.live(cf)?.id, key.as_ref(), value.as_ref())
    }
    /// Sets `key` to the entity with these `columns`, names and values in any order. The column
    /// with the empty name is the default one, which [`Db::get`] returns; see [`Db::get_entity`].
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("pumice-doc-entity-{}", std::process::id()));
    /// # let db = pumice::Db::builder(&dir).create(true).open()?;
    /// db.put_entity("ada", [("", "A. Lovelace"), ("born", "1815"), ("town", "London")])?;
    /// assert_eq!(db.get("ada")?.as_deref(), Some(&b"A. Lovelace"[..]));
    /// let ada = db.get_entity("ada")?.expect("it was just put");
    /// assert_eq!(ada.get("born"), Some(&b"1815"[..]));
    /// # db.close()?;
    /// # pumice::Db::destroy(&Default::default(), &dir)?;
    /// # Ok::<(), pumice::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::write`]; Corruption, as in RocksDB, if two columns have one name.
    pub fn put_entity<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        columns: impl IntoIterator<Item = (N, V)>,
    ) -> Result<()> {
        self.put_entity_opt(&EVERYDAY, key, columns)
    }
    /// [`Db::put_entity`] in `cf`.
    ///
    /// # Errors
    /// As [`Db::put_entity`].
    pub fn put_entity_cf<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
        columns: impl IntoIterator<Item = (N, V)>,
    ) -> Result<()> {
        self.put_entity_cf_opt(&EVERYDAY, cf, key, columns)
    }
    /// [`Db::put_entity`] with options.
    ///
    /// # Errors
    /// As [`Db::put_entity`].
    pub fn put_entity_opt<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        options: &WriteOptions,
        key: impl AsRef<[u8]>,
        columns: impl IntoIterator<Item = (N, V)>,
    ) -> Result<()> {
        self.put_encoded(options, 0, key.as_ref(), &encode_pairs(columns)?)
    }
    /// [`Db::put_entity`] in `cf` with options.
    ///
    /// # Errors
    /// As [`Db::put_entity`].
    pub fn put_entity_cf_opt<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
        columns: impl IntoIterator<Item = (N, V)>,
    ) -> Result<()> {
        self.put_encoded(options, self.live(cf)?.id, key.as_ref(), &encode_pairs(columns)?)
    }
    /// Deletes `key`; it need not exist. See [`Db::write`] for errors.
    #[inline]
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_opt(&EVERYDAY, key)
    }
    /// [`Db::delete`] in `cf`.
    #[inline]
    pub fn delete_cf(&self, cf: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_cf_opt(&EVERYDAY, cf, key)
    }
    /// [`Db::delete`] with options.
    #[inline]
    pub fn delete_opt(&self, options: &WriteOptions, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_id(options, 0, key.as_ref())
    }
    /// [`Db::delete`] in `cf` with options.
    #[inline]
    pub fn delete_cf_opt(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.delete_id(options, self.live(cf)?.id, key.as_ref())
    }
    /// Deletes `key`, which was put once and not merged since it was last deleted.
    /// See [`Db::write`] for errors.
    #[inline]
    pub fn single_delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.single_delete_opt(&EVERYDAY, key)
    }
    /// [`Db::single_delete`] in `cf`.
    #[inline]
    pub fn single_delete_cf(&self, cf: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<()> {
        self.single_delete_cf_opt(&EVERYDAY, cf, key)
    }
    /// [`Db::single_delete`] with options.
    #[inline]
    pub fn single_delete_opt(&self, options: &WriteOptions, key: impl AsRef<[u8]>) -> Result<()> {
        self.single_delete_id(options, 0, key.as_ref())
    }
    /// [`Db::single_delete`] in `cf` with options.
    #[inline]
    pub fn single_delete_cf_opt(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.single_delete_id(options, self.live(cf)?.id, key.as_ref())
    }
    /// Adds a merge operand to `key`; NotSupported without a merge operator.
    /// See [`Db::write`] for errors.
    #[inline]
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.merge_opt(&EVERYDAY, key, operand)
    }
    /// [`Db::merge`] in `cf`.
    #[inline]
    pub fn merge_cf(
        &self,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.merge_cf_opt(&EVERYDAY, cf, key, operand)
    }
    /// [`Db::merge`] with options.
    #[inline]
    pub fn merge_opt(
        &self,
        options: &WriteOptions,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.merge_in(options, self.default_column_family(), key.as_ref(), operand.as_ref())
    }
    /// [`Db::merge`] in `cf` with options.
    #[inline]
    pub fn merge_cf_opt(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.merge_in(options, cf, key.as_ref(), operand.as_ref())
    }
    /// Deletes every key in `[begin, end)`; InvalidArgument if `end` sorts before `begin`.
    /// See [`Db::write`] for errors.
    #[inline]
    pub fn delete_range(&self, begin: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        self.delete_range_opt(&EVERYDAY, begin, end)
    }
    /// [`Db::delete_range`] in `cf`.
    #[inline]
    pub fn delete_range_cf(
        &self,
        cf: &ColumnFamily,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.delete_range_cf_opt(&EVERYDAY, cf, begin, end)
    }
    /// [`Db::delete_range`] with options.
    #[inline]
    pub fn delete_range_opt(
        &self,
        options: &WriteOptions,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.delete_range_in(options, self.default_column_family(), begin.as_ref(), end.as_ref())
    }
    /// [`Db::delete_range`] in `cf` with options.
    #[inline]
    pub fn delete_range_cf_opt(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.delete_range_in(options, cf, begin.as_ref(), end.as_ref())
    }

    /// Applies a batch atomically.
    ///
    /// # Errors
    /// InvalidArgument for an invalid batch, including one with updates for handles of another
    /// database; Incomplete if `no_slowdown` and writes are stalled; IoError of the log, after
    /// which writes fail until [`Db::resume`]; ShutdownInProgress while closing. On error the batch
    /// is not applied at all, unless the log device failed while syncing: then a reopen decides.
    pub fn write(&self, updates: &mut WriteBatch) -> Result<()> {
        self.write_opt(&EVERYDAY, updates)
    }
    /// [`Db::write`] with options.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn write_opt(&self, options: &WriteOptions, updates: &mut WriteBatch) -> Result<()> {
        updates.check_owner(&**self.inner())?;
        self.inner().write(options, updates)
    }

    fn put_encoded(
        &self,
        options: &WriteOptions,
        id: u32,
        key: &[u8],
        entity: &[u8],
    ) -> Result<()> {
        self.inner().write_one(options, |batch| batch.put_encoded(id, key, entity))
    }
    fn delete_id(&self, options: &WriteOptions, id: u32, key: &[u8]) -> Result<()> {
        self.inner().write_one(options, |batch| batch.delete_cf(id, key))
    }
    fn single_delete_id(&self, options: &WriteOptions, id: u32, key: &[u8]) -> Result<()> {
        self.inner().write_one(options, |batch| batch.single_delete_cf(id, key))
    }
    fn merge_in(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        key: &[u8],
        operand: &[u8],
    ) -> Result<()> {
        let data = self.live(cf)?;
        if data.merge_operator().is_none() {
            return Err(Error::not_supported("Provide a merge_operator when opening DB"));
        }
        let id = data.id;
        self.inner().write_one(options, |batch| batch.merge_cf(id, key, operand))
    }
    fn delete_range_in(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        begin: &[u8],
        end: &[u8],
    ) -> Result<()> {
        let data = self.live(cf)?;
        check_range(data.comparator(), begin, end)?;
        let id = data.id;
        self.inner().write_one(options, |batch| batch.delete_range_cf(id, begin, end))?;
        note_range_deletion(self.inner());
        Ok(())
    }
}
