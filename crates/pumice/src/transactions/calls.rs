//! The calls of a [`Store`](crate::Store) that both kinds of databases with transactions pass on to
//! the plain database below.
//!
//! Thread safety: as the database. Not here: batches, which each kind treats in its own way.

/// Writes the calls for a handle with the field `db`: reads go straight to the plain database, the
/// write of a key through `$around`, which takes the handle, the family, the key and what writes.
/// Ranges cannot be deleted, as in RocksDB.
macro_rules! calls_of_db {
    ($around:path) => {
        type Cursor = $crate::read::iterator::DbIterator;

        fn default_column_family(&self) -> &ColumnFamily {
            self.db.default_column_family()
        }
        fn options(&self) -> std::sync::Arc<$crate::options::DbOptions> {
            self.db.options()
        }
        fn get(
            &self,
            options: &ReadOptions,
            cf: &ColumnFamily,
            key: &[u8],
        ) -> Result<Option<PinnedSlice>> {
            Store::get(&self.db, options, cf, key)
        }
        fn multi_get(
            &self,
            options: &ReadOptions,
            keys: &[(&ColumnFamily, &[u8])],
        ) -> Vec<Result<Option<PinnedSlice>>> {
            Store::multi_get(&self.db, options, keys)
        }
        fn get_entity(
            &self,
            options: &ReadOptions,
            cf: &ColumnFamily,
            key: &[u8],
        ) -> Result<Option<PinnedColumns>> {
            Store::get_entity(&self.db, options, cf, key)
        }
        fn multi_get_entity(
            &self,
            options: &ReadOptions,
            keys: &[(&ColumnFamily, &[u8])],
        ) -> Vec<Result<Option<PinnedColumns>>> {
            Store::multi_get_entity(&self.db, options, keys)
        }
        fn get_merge_operands(
            &self,
            options: &ReadOptions,
            cf: &ColumnFamily,
            key: &[u8],
            how: &GetMergeOperandsOptions<'_>,
            found: &mut usize,
        ) -> Result<Vec<PinnedSlice>> {
            Store::get_merge_operands(&self.db, options, cf, key, how, found)
        }
        fn cursor(&self, options: &ReadOptions, cf: &ColumnFamily) -> Result<Self::Cursor> {
            Store::cursor(&self.db, options, cf)
        }
        fn put(
            &self,
            options: &WriteOptions,
            cf: &ColumnFamily,
            key: &[u8],
            value: &[u8],
        ) -> Result<()> {
            $around(self, cf, key, || Store::put(&self.db, options, cf, key, value))
        }
        fn put_encoded_entity(
            &self,
            options: &WriteOptions,
            cf: &ColumnFamily,
            key: &[u8],
            entity: &[u8],
        ) -> Result<()> {
            let write = || Store::put_encoded_entity(&self.db, options, cf, key, entity);
            $around(self, cf, key, write)
        }
        fn delete(&self, options: &WriteOptions, cf: &ColumnFamily, key: &[u8]) -> Result<()> {
            $around(self, cf, key, || Store::delete(&self.db, options, cf, key))
        }
        fn single_delete(
            &self,
            options: &WriteOptions,
            cf: &ColumnFamily,
            key: &[u8],
        ) -> Result<()> {
            $around(self, cf, key, || Store::single_delete(&self.db, options, cf, key))
        }
        fn merge(
            &self,
            options: &WriteOptions,
            cf: &ColumnFamily,
            key: &[u8],
            operand: &[u8],
        ) -> Result<()> {
            $around(self, cf, key, || Store::merge(&self.db, options, cf, key, operand))
        }
        fn delete_range(
            &self,
            _: &WriteOptions,
            _: &ColumnFamily,
            _: &[u8],
            _: &[u8],
        ) -> Result<()> {
            Err(Error::not_supported(""))
        }
    };
}
pub(super) use calls_of_db;
