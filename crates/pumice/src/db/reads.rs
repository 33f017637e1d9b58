//! The handle's reads: the everyday form, in a column family, and with options.
//!
//! Each read has four forms: `get`, `get_cf`, `get_opt`, `get_cf_opt`. Keys are `AsRef<[u8]>`; the
//! generic calls only pass slices to one that is not generic.
//!
//! Thread safety: from any thread. Every call may suspend.

use std::ops::RangeBounds;
use std::sync::Arc;

use pumice_base::{ErrorKind, Result};

use crate::db::api::Db;
use crate::options::requests::ReadOptions;
use crate::read::columns::PinnedColumns;
use crate::read::entries::{Entries, Limits};
use crate::read::iterator::DbIterator;
use crate::read::pinned::PinnedSlice;
use crate::version::family::{CfData, ColumnFamily};

/// Options of reads without their own.
static EVERYDAY: ReadOptions = ReadOptions::DEFAULT;

impl Db {
    /// The value of `key`, or None.
    ///
    /// # Errors
    /// Corruption and I/O errors of files that were read; Incomplete with `cache_only`;
    /// InvalidArgument for a snapshot or a column family of another database.
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<PinnedSlice>> {
        self.value(&EVERYDAY, self.default_data(), key.as_ref())
    }
    /// [`Db::get`] in `cf`.
    #[inline]
    pub fn get_cf(&self, cf: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<Option<PinnedSlice>> {
        self.value(&EVERYDAY, self.data(cf)?, key.as_ref())
    }
    /// [`Db::get`] with options.
    #[inline]
    pub fn get_opt(
        &self,
        options: &ReadOptions,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<PinnedSlice>> {
        self.value(options, self.default_data(), key.as_ref())
    }
    /// [`Db::get`] in `cf` with options.
    #[inline]
    pub fn get_cf_opt(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<PinnedSlice>> {
        self.value(options, self.data(cf)?, key.as_ref())
    }
    /// Starts loading the parts of the default column family's memtable that reads and writes of
    /// `keys` need into the CPU's caches. For keys that are read or written one by one right after,
    /// a few dozen at most: their cache misses overlap. [`Db::multi_get`] and batches do it
    /// themselves. Reads no file; never suspends.
    pub fn warm<K: AsRef<[u8]>>(&self, keys: &[K]) {
        if self.inner().life.check_caller().is_ok() {
            self.default_data().warm(keys.iter().map(AsRef::as_ref));
        }
    }
    /// The values of `keys`, all as of one moment, in their order. See [`Db::get`] for errors.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<Option<PinnedSlice>>> {
        self.multi_get_opt(&EVERYDAY, keys)
    }
    /// [`Db::multi_get`] over several column families.
    pub fn multi_get_cf<K: AsRef<[u8]>>(
        &self,
        keys: &[(&ColumnFamily, K)],
    ) -> Vec<Result<Option<PinnedSlice>>> {
        self.multi_get_cf_opt(&EVERYDAY, keys)
    }
    /// [`Db::multi_get`] with options.
    pub fn multi_get_opt<K: AsRef<[u8]>>(
        &self,
        options: &ReadOptions,
        keys: &[K],
    ) -> Vec<Result<Option<PinnedSlice>>> {
        let default = self.default_data();
        let keys: Vec<_> = keys.iter().map(|key| (default, key.as_ref())).collect();
        self.values(options, &keys)
    }
    /// [`Db::multi_get_cf`] with options. If a handle is of another database nothing is read, and
    /// that error is the answer for each key.
    pub fn multi_get_cf_opt<K: AsRef<[u8]>>(
        &self,
        options: &ReadOptions,
        keys: &[(&ColumnFamily, K)],
    ) -> Vec<Result<Option<PinnedSlice>>> {
        let found = keys.iter().map(|(cf, key)| Ok((self.data(cf)?, key.as_ref())));
        match found.collect::<Result<Vec<_>>>() {
            Ok(keys) => self.values(options, &keys),
            Err(error) => keys.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    /// The columns of `key`: those of an entity ([`Db::put_entity`]), or one, with the empty name,
    /// of a plain value.
    ///
    /// # Errors
    /// As [`Db::get`]; NotSupported for an entity with columns in blob files.
    pub fn get_entity(&self, key: impl AsRef<[u8]>) -> Result<Option<PinnedColumns>> {
        self.get_entity_opt(&EVERYDAY, key)
    }
    /// [`Db::get_entity`] in `cf`.
    ///
    /// # Errors
    /// As [`Db::get_entity`].
    pub fn get_entity_cf(
        &self,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<PinnedColumns>> {
        self.get_entity_cf_opt(&EVERYDAY, cf, key)
    }
    /// [`Db::get_entity`] with options.
    ///
    /// # Errors
    /// As [`Db::get_entity`].
    pub fn get_entity_opt(
        &self,
        options: &ReadOptions,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<PinnedColumns>> {
        self.columns(options, self.default_data(), key.as_ref())
    }
    /// [`Db::get_entity`] in `cf` with options.
    ///
    /// # Errors
    /// As [`Db::get_entity`].
    pub fn get_entity_cf_opt(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<PinnedColumns>> {
        self.columns(options, self.data(cf)?, key.as_ref())
    }
    /// The columns of `keys`, all as of one moment, in their order. See [`Db::get_entity`] for
    /// errors.
    pub fn multi_get_entity<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
    ) -> Vec<Result<Option<PinnedColumns>>> {
        self.multi_get_entity_opt(&EVERYDAY, keys)
    }
    /// [`Db::multi_get_entity`] over several column families.
    pub fn multi_get_entity_cf<K: AsRef<[u8]>>(
        &self,
        keys: &[(&ColumnFamily, K)],
    ) -> Vec<Result<Option<PinnedColumns>>> {
        self.multi_get_entity_cf_opt(&EVERYDAY, keys)
    }
    /// [`Db::multi_get_entity`] with options.
    pub fn multi_get_entity_opt<K: AsRef<[u8]>>(
        &self,
        options: &ReadOptions,
        keys: &[K],
    ) -> Vec<Result<Option<PinnedColumns>>> {
        let default = self.default_data();
        let keys: Vec<_> = keys.iter().map(|key| (default, key.as_ref())).collect();
        self.columns_of(options, &keys)
    }
    /// [`Db::multi_get_entity_cf`] with options. If a handle is of another database nothing is
    /// read, and that error is the answer for each key.
    pub fn multi_get_entity_cf_opt<K: AsRef<[u8]>>(
        &self,
        options: &ReadOptions,
        keys: &[(&ColumnFamily, K)],
    ) -> Vec<Result<Option<PinnedColumns>>> {
        let found = keys.iter().map(|(cf, key)| Ok((self.data(cf)?, key.as_ref())));
        match found.collect::<Result<Vec<_>>>() {
            Ok(keys) => self.columns_of(options, &keys),
            Err(error) => keys.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    /// False if `key` is certainly not there, as far as memory, filters and cached blocks show: no
    /// file is read. True means that the key may exist.
    ///
    /// # Errors
    /// As [`Db::get`], but for Incomplete, which is true.
    pub fn key_may_exist(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.key_may_exist_value(key)?.0)
    }
    /// [`Db::key_may_exist`] in `cf`.
    ///
    /// # Errors
    /// As [`Db::key_may_exist`].
    pub fn key_may_exist_cf(&self, cf: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.key_may_exist_cf_opt_value(&EVERYDAY, cf, key)?.0)
    }
    /// [`Db::key_may_exist`] with options.
    ///
    /// # Errors
    /// As [`Db::key_may_exist`].
    pub fn key_may_exist_opt(&self, options: &ReadOptions, key: impl AsRef<[u8]>) -> Result<bool> {
        self.key_may_exist_cf_opt(options, self.default_column_family(), key)
    }
    /// [`Db::key_may_exist`] in `cf` with options.
    ///
    /// # Errors
    /// As [`Db::key_may_exist`].
    pub fn key_may_exist_cf_opt(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
    ) -> Result<bool> {
        Ok(self.key_may_exist_cf_opt_value(options, cf, key)?.0)
    }
    /// [`Db::key_may_exist`], and the value if it was found on the way: then the key exists.
    ///
    /// # Errors
    /// As [`Db::key_may_exist`].
    pub fn key_may_exist_value(
        &self,
        key: impl AsRef<[u8]>,
    ) -> Result<(bool, Option<PinnedSlice>)> {
        self.key_may_exist_cf_opt_value(&EVERYDAY, self.default_column_family(), key)
    }
    /// [`Db::key_may_exist_value`] in `cf` with options.
    ///
    /// # Errors
    /// As [`Db::key_may_exist`].
    pub fn key_may_exist_cf_opt_value(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
    ) -> Result<(bool, Option<PinnedSlice>)> {
        let options = ReadOptions { cache_only: true, ..options.clone() };
        match self.get_cf_opt(&options, cf, key) {
            Ok(value) => Ok((value.is_some(), value)),
            Err(error) if error.kind() == ErrorKind::Incomplete => Ok((true, None)),
            Err(error) => Err(error),
        }
    }

    /// A cursor over the default column family, not yet positioned.
    ///
    /// # Errors
    /// I/O errors of opening table files; InvalidArgument for a snapshot or a column family of
    /// another database.
    pub fn cursor(&self) -> Result<DbIterator> {
        self.cursor_opt(&EVERYDAY)
    }
    /// [`Db::cursor`] over `cf`.
    ///
    /// # Errors
    /// As [`Db::cursor`].
    pub fn cursor_cf(&self, cf: &ColumnFamily) -> Result<DbIterator> {
        self.cursor_cf_opt(&EVERYDAY, cf)
    }
    /// [`Db::cursor`] with options.
    ///
    /// # Errors
    /// As [`Db::cursor`].
    pub fn cursor_opt(&self, options: &ReadOptions) -> Result<DbIterator> {
        self.inner().iterator(options, self.default_data())
    }
    /// [`Db::cursor`] over `cf` with options.
    ///
    /// # Errors
    /// As [`Db::cursor`].
    pub fn cursor_cf_opt(&self, options: &ReadOptions, cf: &ColumnFamily) -> Result<DbIterator> {
        self.inner().iterator(options, self.data(cf)?)
    }

    /// The keys and values of the default column family in key order, from both ends. An item may
    /// be an error, see [`Entries`].
    ///
    /// # Errors
    /// As [`Db::cursor`].
    pub fn iter(&self) -> Result<Entries> {
        self.iter_opt(&EVERYDAY)
    }
    /// [`Db::iter`] of `cf`.
    ///
    /// # Errors
    /// As [`Db::cursor`].
    pub fn iter_cf(&self, cf: &ColumnFamily) -> Result<Entries> {
        self.iter_cf_opt(&EVERYDAY, cf)
    }
    /// [`Db::iter`] with options, bounds and a snapshot among them.
    ///
    /// # Errors
    /// As [`Db::cursor`].
    pub fn iter_opt(&self, options: &ReadOptions) -> Result<Entries> {
        self.iter_cf_opt(options, self.default_column_family())
    }
    /// [`Db::iter`] of `cf` with options.
    ///
    /// # Errors
    /// As [`Db::cursor`].
    pub fn iter_cf_opt(&self, options: &ReadOptions, cf: &ColumnFamily) -> Result<Entries> {
        Ok(Entries::new(self.cursor_cf_opt(options, cf)?, Limits::default()))
    }

    /// [`Db::iter`] of the keys in `range`.
    ///
    /// # Errors
    /// As [`Db::cursor`].
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Entries> {
        self.range_cf_opt(&EVERYDAY, self.default_column_family(), range)
    }
    /// [`Db::range`] of `cf`.
    ///
    /// # Errors
    /// As [`Db::cursor`].
    pub fn range_cf<K: AsRef<[u8]>>(
        &self,
        cf: &ColumnFamily,
        range: impl RangeBounds<K>,
    ) -> Result<Entries> {
        self.range_cf_opt(&EVERYDAY, cf, range)
    }
    /// [`Db::range`] with options.
    ///
    /// # Errors
    /// As [`Db::range_cf_opt`].
    pub fn range_opt<K: AsRef<[u8]>>(
        &self,
        options: &ReadOptions,
        range: impl RangeBounds<K>,
    ) -> Result<Entries> {
        self.range_cf_opt(options, self.default_column_family(), range)
    }
    /// [`Db::range`] of `cf` with options.
    ///
    /// # Errors
    /// As [`Db::cursor`]; InvalidArgument if there are bounds in `options`, too.
    pub fn range_cf_opt<K: AsRef<[u8]>>(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        range: impl RangeBounds<K>,
    ) -> Result<Entries> {
        self.limited(options, cf, Limits::of(&range))
    }

    /// [`Db::iter`] of the keys that begin with `prefix`.
    ///
    /// # Errors
    /// As [`Db::cursor`]; NotSupported with a user's comparator, in whose order such keys
    /// may lie anywhere.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Entries> {
        self.prefix_cf_opt(&EVERYDAY, self.default_column_family(), prefix)
    }
    /// [`Db::prefix`] of `cf`.
    ///
    /// # Errors
    /// As [`Db::prefix`].
    pub fn prefix_cf(&self, cf: &ColumnFamily, prefix: impl AsRef<[u8]>) -> Result<Entries> {
        self.prefix_cf_opt(&EVERYDAY, cf, prefix)
    }
    /// [`Db::prefix`] with options.
    ///
    /// # Errors
    /// As [`Db::prefix_cf_opt`].
    pub fn prefix_opt(&self, options: &ReadOptions, prefix: impl AsRef<[u8]>) -> Result<Entries> {
        self.prefix_cf_opt(options, self.default_column_family(), prefix)
    }
    /// [`Db::prefix`] of `cf` with options.
    ///
    /// # Errors
    /// As [`Db::prefix`]; InvalidArgument if there are bounds in `options`, too.
    pub fn prefix_cf_opt(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        prefix: impl AsRef<[u8]>,
    ) -> Result<Entries> {
        let limits = Limits::of_prefix(self.data(cf)?.comparator(), prefix.as_ref())?;
        self.limited(options, cf, limits)
    }

    // Not generic, so that they are compiled here and not where they are called.

    fn value(
        &self,
        options: &ReadOptions,
        cf: &Arc<CfData>,
        key: &[u8],
    ) -> Result<Option<PinnedSlice>> {
        self.inner().get(options, cf, key)
    }
    fn columns(
        &self,
        options: &ReadOptions,
        cf: &Arc<CfData>,
        key: &[u8],
    ) -> Result<Option<PinnedColumns>> {
        self.inner().get(options, cf, key)
    }
    fn values(
        &self,
        options: &ReadOptions,
        keys: &[(&Arc<CfData>, &[u8])],
    ) -> Vec<Result<Option<PinnedSlice>>> {
        self.inner().multi_get(options, keys)
    }
    fn columns_of(
        &self,
        options: &ReadOptions,
        keys: &[(&Arc<CfData>, &[u8])],
    ) -> Vec<Result<Option<PinnedColumns>>> {
        self.inner().multi_get(options, keys)
    }

    fn limited(&self, options: &ReadOptions, cf: &ColumnFamily, limits: Limits) -> Result<Entries> {
        let options = limits.bound(options)?;
        Ok(Entries::new(self.cursor_cf_opt(&options, cf)?, limits))
    }
}
