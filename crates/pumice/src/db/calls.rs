//! The calls of the plain database: [`Store`] for [`Db`], which adds nothing to the engine but the
//! check that column families are its own.
//!
//! Thread safety: from any thread. Every call but `warm` may suspend.

use std::sync::Arc;

use pumice_base::{Error, ErrorKind, SubCode};

use crate::db::api::Db;
use crate::db::forms::*;
use crate::engine::expiry_task::note_range_deletion;
use crate::engine::read_api;
use crate::options::DbOptions;
use crate::read::answer::PointAnswer;
use crate::read::iterator::DbIterator;
use crate::read::timed::wrong_method;
use crate::state::batch_check::check_range;
use crate::version::family::CfData;

store_forms!(Db);

impl Store for Db {
    type Cursor = DbIterator;

    fn default_column_family(&self) -> &ColumnFamily {
        Db::default_column_family(self)
    }
    fn options(&self) -> Arc<DbOptions> {
        Db::options(self)
    }

    fn get(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: &[u8],
    ) -> Result<Option<PinnedSlice>> {
        self.inner().get(options, self.data(cf)?, key)
    }
    fn multi_get(
        &self,
        options: &ReadOptions,
        keys: &[(&ColumnFamily, &[u8])],
    ) -> Vec<Result<Option<PinnedSlice>>> {
        self.all_of(options, keys)
    }
    fn get_entity(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: &[u8],
    ) -> Result<Option<PinnedColumns>> {
        self.inner().get(options, self.data(cf)?, key)
    }
    fn multi_get_entity(
        &self,
        options: &ReadOptions,
        keys: &[(&ColumnFamily, &[u8])],
    ) -> Vec<Result<Option<PinnedColumns>>> {
        self.all_of(options, keys)
    }
    fn get_merge_operands(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: &[u8],
        how: &GetMergeOperandsOptions<'_>,
        number_of_operands: &mut usize,
    ) -> Result<Vec<PinnedSlice>> {
        *number_of_operands = 0;
        let go_on = how.continue_cb.unwrap_or(&|_| true);
        let found = read_api::get_operands(self.inner(), options, self.data(cf)?, key, go_on)?;
        *number_of_operands = found.len();
        if found.len() > how.expected_max_number_of_operands {
            let error = Error::new(ErrorKind::Incomplete, "");
            return Err(error.with_subcode(SubCode::MergeOperandsInsufficientCapacity));
        }
        Ok(found)
    }
    fn cursor(&self, options: &ReadOptions, cf: &ColumnFamily) -> Result<DbIterator> {
        self.inner().iterator(options, self.data(cf)?)
    }

    fn put(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        self.inner().put(options, self.plain(cf)?.id, key, value)
    }
    fn put_encoded_entity(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        key: &[u8],
        entity: &[u8],
    ) -> Result<()> {
        let id = self.plain(cf)?.id;
        self.inner().write_one(options, |batch| batch.put_encoded(id, key, entity))
    }
    fn delete(&self, options: &WriteOptions, cf: &ColumnFamily, key: &[u8]) -> Result<()> {
        let id = self.plain(cf)?.id;
        self.inner().write_one(options, |batch| batch.delete_cf(id, key))
    }
    fn single_delete(&self, options: &WriteOptions, cf: &ColumnFamily, key: &[u8]) -> Result<()> {
        let id = self.plain(cf)?.id;
        self.inner().write_one(options, |batch| batch.single_delete_cf(id, key))
    }
    fn merge(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        key: &[u8],
        operand: &[u8],
    ) -> Result<()> {
        let data = self.plain(cf)?;
        if data.merge_operator().is_none() {
            return Err(Error::not_supported("Provide a merge_operator when opening DB"));
        }
        let id = data.id;
        self.inner().write_one(options, |batch| batch.merge_cf(id, key, operand))
    }
    fn delete_range(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        begin: &[u8],
        end: &[u8],
    ) -> Result<()> {
        let data = self.plain(cf)?;
        check_range(data, begin, end)?;
        let id = data.id;
        self.inner().write_one(options, |batch| batch.delete_range_cf(id, begin, end))?;
        note_range_deletion(self.inner());
        Ok(())
    }
    fn write(&self, options: &WriteOptions, updates: &mut WriteBatch) -> Result<()> {
        updates.check_owner(&**self.inner())?;
        self.inner().write(options, updates)
    }
}

impl Db {
    /// The data of `cf`, which takes writes without timestamps.
    #[inline]
    fn plain<'a>(&self, cf: &'a ColumnFamily) -> Result<&'a Arc<CfData>> {
        let data = self.live(cf)?;
        if data.timestamp_size > 0 {
            return Err(wrong_method(data));
        }
        Ok(data)
    }

    /// Starts loading the parts of the default column family's memtable that reads and writes of
    /// `keys` need into the CPU's caches. For keys that are read or written one by one right after,
    /// a few dozen at most: their cache misses overlap. [`Db::multi_get`] and batches do it
    /// themselves. Reads no file; never suspends.
    pub fn warm<K: AsRef<[u8]>>(&self, keys: &[K]) {
        let timed = self.default_column_family().data.timestamp_size > 0;
        if self.inner().life.check_caller().is_ok() && !timed {
            self.default_column_family().data.warm(keys.iter().map(AsRef::as_ref));
        }
    }

    fn all_of<W: PointAnswer>(
        &self,
        options: &ReadOptions,
        keys: &[(&ColumnFamily, &[u8])],
    ) -> Vec<Result<Option<W>>> {
        match keys.iter().try_for_each(|(cf, _)| self.data(cf).map(drop)) {
            Ok(()) => self.inner().multi_get(options, keys),
            Err(error) => keys.iter().map(|_| Err(error.clone())).collect(),
        }
    }
}
