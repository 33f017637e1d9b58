//! Reads and writes of values that expire, each in the four forms of decision 0029.
//!
//! Thread safety: as the database. Operations without a value go to the plain database unchanged.

use std::ops::RangeBounds;

use pumice_base::{Error, Result, ValueType};

use super::{DbWithTtl, TtlEntries, TtlIterator, now, stripped, with_time};
use crate::commit::batch::{BatchRecord, WriteBatch};
use crate::options::requests::{ReadOptions, WriteOptions};
use crate::read::pinned::PinnedSlice;
use crate::version::family::ColumnFamily;

/// Reads.
impl DbWithTtl {
    /// As [`Db::get`](crate::Db::get). A value that is too old is returned until a compaction drops
    /// it.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get); Corruption for a value without a valid time.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<PinnedSlice>> {
        stripped(self.db.get(key)?)
    }
    /// [`Self::get`] in `cf`.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn get_cf(&self, cf: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<Option<PinnedSlice>> {
        stripped(self.db.get_cf(cf, key)?)
    }
    /// [`Self::get`] with options.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn get_opt(
        &self,
        options: &ReadOptions,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<PinnedSlice>> {
        stripped(self.db.get_opt(options, key)?)
    }
    /// [`Self::get`] in `cf` with options.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn get_cf_opt(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<PinnedSlice>> {
        stripped(self.db.get_cf_opt(options, cf, key)?)
    }
    /// As [`Db::multi_get`](crate::Db::multi_get), with values as from [`Self::get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<Option<PinnedSlice>>> {
        all_stripped(self.db.multi_get(keys))
    }
    /// [`Self::multi_get`] in column families.
    pub fn multi_get_cf<K: AsRef<[u8]>>(
        &self,
        keys: &[(&ColumnFamily, K)],
    ) -> Vec<Result<Option<PinnedSlice>>> {
        all_stripped(self.db.multi_get_cf(keys))
    }
    /// [`Self::multi_get`] with options.
    pub fn multi_get_opt<K: AsRef<[u8]>>(
        &self,
        options: &ReadOptions,
        keys: &[K],
    ) -> Vec<Result<Option<PinnedSlice>>> {
        all_stripped(self.db.multi_get_opt(options, keys))
    }
    /// [`Self::multi_get`] in column families with options.
    pub fn multi_get_cf_opt<K: AsRef<[u8]>>(
        &self,
        options: &ReadOptions,
        keys: &[(&ColumnFamily, K)],
    ) -> Vec<Result<Option<PinnedSlice>>> {
        all_stripped(self.db.multi_get_cf_opt(options, keys))
    }

    /// As [`Db::cursor`](crate::Db::cursor).
    ///
    /// # Errors
    /// As [`Db::cursor`](crate::Db::cursor).
    pub fn cursor(&self) -> Result<TtlIterator> {
        Ok(TtlIterator(self.db.cursor()?))
    }
    /// [`Self::cursor`] in `cf`.
    ///
    /// # Errors
    /// As [`Self::cursor`].
    pub fn cursor_cf(&self, cf: &ColumnFamily) -> Result<TtlIterator> {
        Ok(TtlIterator(self.db.cursor_cf(cf)?))
    }
    /// [`Self::cursor`] with options.
    ///
    /// # Errors
    /// As [`Self::cursor`].
    pub fn cursor_opt(&self, options: &ReadOptions) -> Result<TtlIterator> {
        Ok(TtlIterator(self.db.cursor_opt(options)?))
    }
    /// [`Self::cursor`] in `cf` with options.
    ///
    /// # Errors
    /// As [`Self::cursor`].
    pub fn cursor_cf_opt(&self, options: &ReadOptions, cf: &ColumnFamily) -> Result<TtlIterator> {
        Ok(TtlIterator(self.db.cursor_cf_opt(options, cf)?))
    }
    /// As [`Db::iter`](crate::Db::iter).
    ///
    /// # Errors
    /// As [`Db::iter`](crate::Db::iter); an item is Corruption as in [`Self::get`].
    pub fn iter(&self) -> Result<TtlEntries> {
        Ok(TtlEntries(self.db.iter()?))
    }
    /// [`Self::iter`] in `cf`.
    ///
    /// # Errors
    /// As [`Self::iter`].
    pub fn iter_cf(&self, cf: &ColumnFamily) -> Result<TtlEntries> {
        Ok(TtlEntries(self.db.iter_cf(cf)?))
    }
    /// [`Self::iter`] with options.
    ///
    /// # Errors
    /// As [`Self::iter`].
    pub fn iter_opt(&self, options: &ReadOptions) -> Result<TtlEntries> {
        Ok(TtlEntries(self.db.iter_opt(options)?))
    }
    /// [`Self::iter`] in `cf` with options.
    ///
    /// # Errors
    /// As [`Self::iter`].
    pub fn iter_cf_opt(&self, options: &ReadOptions, cf: &ColumnFamily) -> Result<TtlEntries> {
        Ok(TtlEntries(self.db.iter_cf_opt(options, cf)?))
    }
    /// As [`Db::range`](crate::Db::range).
    ///
    /// # Errors
    /// As [`Self::iter`].
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<TtlEntries> {
        Ok(TtlEntries(self.db.range(range)?))
    }
    /// [`Self::range`] in `cf`.
    ///
    /// # Errors
    /// As [`Self::range`].
    pub fn range_cf<K: AsRef<[u8]>>(
        &self,
        cf: &ColumnFamily,
        range: impl RangeBounds<K>,
    ) -> Result<TtlEntries> {
        Ok(TtlEntries(self.db.range_cf(cf, range)?))
    }
    /// [`Self::range`] with options.
    ///
    /// # Errors
    /// As [`Self::range`].
    pub fn range_opt<K: AsRef<[u8]>>(
        &self,
        options: &ReadOptions,
        range: impl RangeBounds<K>,
    ) -> Result<TtlEntries> {
        Ok(TtlEntries(self.db.range_opt(options, range)?))
    }
    /// [`Self::range`] in `cf` with options.
    ///
    /// # Errors
    /// As [`Self::range`].
    pub fn range_cf_opt<K: AsRef<[u8]>>(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        range: impl RangeBounds<K>,
    ) -> Result<TtlEntries> {
        Ok(TtlEntries(self.db.range_cf_opt(options, cf, range)?))
    }
    /// As [`Db::prefix`](crate::Db::prefix).
    ///
    /// # Errors
    /// As [`Self::iter`].
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<TtlEntries> {
        Ok(TtlEntries(self.db.prefix(prefix)?))
    }
    /// [`Self::prefix`] in `cf`.
    ///
    /// # Errors
    /// As [`Self::prefix`].
    pub fn prefix_cf(&self, cf: &ColumnFamily, prefix: impl AsRef<[u8]>) -> Result<TtlEntries> {
        Ok(TtlEntries(self.db.prefix_cf(cf, prefix)?))
    }
    /// [`Self::prefix`] with options.
    ///
    /// # Errors
    /// As [`Self::prefix`].
    pub fn prefix_opt(
        &self,
        options: &ReadOptions,
        prefix: impl AsRef<[u8]>,
    ) -> Result<TtlEntries> {
        Ok(TtlEntries(self.db.prefix_opt(options, prefix)?))
    }
    /// [`Self::prefix`] in `cf` with options.
    ///
    /// # Errors
    /// As [`Self::prefix`].
    pub fn prefix_cf_opt(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        prefix: impl AsRef<[u8]>,
    ) -> Result<TtlEntries> {
        Ok(TtlEntries(self.db.prefix_cf_opt(options, cf, prefix)?))
    }
}

fn all_stripped(found: Vec<Result<Option<PinnedSlice>>>) -> Vec<Result<Option<PinnedSlice>>> {
    found.into_iter().map(|answer| answer.and_then(stripped)).collect()
}

/// Writes.
impl DbWithTtl {
    /// As [`Db::put`](crate::Db::put).
    ///
    /// # Errors
    /// As [`Db::write`](crate::Db::write).
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.db.put(key, with_time(value.as_ref(), now()))
    }
    /// [`Self::put`] in `cf`.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn put_cf(
        &self,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.db.put_cf(cf, key, with_time(value.as_ref(), now()))
    }
    /// [`Self::put`] with options.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn put_opt(
        &self,
        options: &WriteOptions,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.db.put_opt(options, key, with_time(value.as_ref(), now()))
    }
    /// [`Self::put`] in `cf` with options.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn put_cf_opt(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.db.put_cf_opt(options, cf, key, with_time(value.as_ref(), now()))
    }
    /// As [`Db::merge`](crate::Db::merge).
    ///
    /// # Errors
    /// As [`Db::write`](crate::Db::write).
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.db.merge(key, with_time(operand.as_ref(), now()))
    }
    /// [`Self::merge`] in `cf`.
    ///
    /// # Errors
    /// As [`Self::merge`].
    pub fn merge_cf(
        &self,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.db.merge_cf(cf, key, with_time(operand.as_ref(), now()))
    }
    /// [`Self::merge`] with options.
    ///
    /// # Errors
    /// As [`Self::merge`].
    pub fn merge_opt(
        &self,
        options: &WriteOptions,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.db.merge_opt(options, key, with_time(operand.as_ref(), now()))
    }
    /// [`Self::merge`] in `cf` with options.
    ///
    /// # Errors
    /// As [`Self::merge`].
    pub fn merge_cf_opt(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.db.merge_cf_opt(options, cf, key, with_time(operand.as_ref(), now()))
    }
    /// As [`Db::delete`](crate::Db::delete).
    ///
    /// # Errors
    /// As [`Db::write`](crate::Db::write).
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.db.delete(key)
    }
    /// [`Self::delete`] in `cf`.
    ///
    /// # Errors
    /// As [`Self::delete`].
    pub fn delete_cf(&self, cf: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<()> {
        self.db.delete_cf(cf, key)
    }
    /// [`Self::delete`] with options.
    ///
    /// # Errors
    /// As [`Self::delete`].
    pub fn delete_opt(&self, options: &WriteOptions, key: impl AsRef<[u8]>) -> Result<()> {
        self.db.delete_opt(options, key)
    }
    /// [`Self::delete`] in `cf` with options.
    ///
    /// # Errors
    /// As [`Self::delete`].
    pub fn delete_cf_opt(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.db.delete_cf_opt(options, cf, key)
    }
    /// As [`Db::single_delete`](crate::Db::single_delete).
    ///
    /// # Errors
    /// As [`Db::write`](crate::Db::write).
    pub fn single_delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.db.single_delete(key)
    }
    /// [`Self::single_delete`] in `cf`.
    ///
    /// # Errors
    /// As [`Self::single_delete`].
    pub fn single_delete_cf(&self, cf: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<()> {
        self.db.single_delete_cf(cf, key)
    }
    /// [`Self::single_delete`] with options.
    ///
    /// # Errors
    /// As [`Self::single_delete`].
    pub fn single_delete_opt(&self, options: &WriteOptions, key: impl AsRef<[u8]>) -> Result<()> {
        self.db.single_delete_opt(options, key)
    }
    /// [`Self::single_delete`] in `cf` with options.
    ///
    /// # Errors
    /// As [`Self::single_delete`].
    pub fn single_delete_cf_opt(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.db.single_delete_cf_opt(options, cf, key)
    }
    /// As [`Db::delete_range`](crate::Db::delete_range).
    ///
    /// # Errors
    /// As [`Db::write`](crate::Db::write).
    pub fn delete_range(&self, begin: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        self.db.delete_range(begin, end)
    }
    /// [`Self::delete_range`] in `cf`.
    ///
    /// # Errors
    /// As [`Self::delete_range`].
    pub fn delete_range_cf(
        &self,
        cf: &ColumnFamily,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.db.delete_range_cf(cf, begin, end)
    }
    /// [`Self::delete_range`] with options.
    ///
    /// # Errors
    /// As [`Self::delete_range`].
    pub fn delete_range_opt(
        &self,
        options: &WriteOptions,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.db.delete_range_opt(options, begin, end)
    }
    /// [`Self::delete_range`] in `cf` with options.
    ///
    /// # Errors
    /// As [`Self::delete_range`].
    pub fn delete_range_cf_opt(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.db.delete_range_cf_opt(options, cf, begin, end)
    }
    /// As [`Db::write`](crate::Db::write), with a batch that is not changed: all its values have
    /// one time.
    ///
    /// # Errors
    /// As [`Db::write`](crate::Db::write); NotSupported for wide columns, blobs and transactions.
    pub fn write(&self, updates: &WriteBatch) -> Result<()> {
        self.write_opt(&WriteOptions::default(), updates)
    }
    /// [`Self::write`] with options.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn write_opt(&self, options: &WriteOptions, updates: &WriteBatch) -> Result<()> {
        updates.status()?;
        updates.check_owner(&**self.db.inner())?;
        let (mut batch, time) = (WriteBatch::new(), now());
        for record in updates.iter() {
            let (id, value_type, key, value) = match record? {
                BatchRecord::Entry { column_family, value_type, key, value } => {
                    (column_family, value_type, key, value)
                }
                BatchRecord::LogData(blob) => {
                    batch.put_log_data(blob);
                    continue;
                }
                BatchRecord::Marker(..) => {
                    return Err(Error::not_supported("transactions in a database with TTL"));
                }
            };
            match value_type {
                ValueType::Value => batch.put_cf(id, key, with_time(value, time)),
                ValueType::Merge => batch.merge_cf(id, key, with_time(value, time)),
                ValueType::Deletion => batch.delete_cf(id, key),
                ValueType::SingleDeletion => batch.single_delete_cf(id, key),
                ValueType::RangeDeletion => batch.delete_range_cf(id, key, value),
                other => {
                    let text = format!("{other:?} in a database with TTL");
                    return Err(Error::not_supported(text));
                }
            }
        }
        self.db.write_opt(options, &mut batch)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use super::*;
    use crate::options::requests::FlushOptions;
    use crate::options::{ColumnFamilyOptions, Options};
    use pumice_env::MemFs;

    fn values(entries: TtlEntries) -> String {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let pairs = entries.map(|entry| entry.map(|(k, v)| text(k) + "=" + &text(v)).unwrap());
        pairs.collect::<Vec<_>>().join(" ")
    }

    fn opened() -> (DbWithTtl, ColumnFamily) {
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.file_system = Arc::new(MemFs::new(11));
        let joined = |_: &[u8], old: Option<&[u8]>, operands: &[&[u8]]| {
            Some(old.into_iter().chain(operands.iter().copied()).flatten().copied().collect())
        };
        options.cf.set_merge_operator("joined", joined);
        let db = DbWithTtl::open(&options, "/db", 1000).unwrap();
        let mut cf_options = ColumnFamilyOptions::default();
        cf_options.set_merge_operator("joined", joined);
        let cf = db.create_column_family(&cf_options, "cf", 1000).unwrap();
        (db, cf)
    }

    /// Each form writes to and reads from its own family, and no time shows in the values.
    #[pumice_test_macros::test]
    fn every_form_is_of_its_family() {
        let (db, cf) = opened();
        let cf = &cf;
        let (w, r) = (&WriteOptions::default(), &ReadOptions::default());
        db.put("a", "1").unwrap();
        db.put_opt(w, "b", "2").unwrap();
        db.put_cf(cf, "a", "3").unwrap();
        db.put_cf_opt(w, cf, "c", "4").unwrap();
        db.merge("a", "x").unwrap();
        db.merge_opt(w, "m", "y").unwrap();
        db.merge_cf(cf, "a", "z").unwrap();
        db.merge_cf_opt(w, cf, "n", "w").unwrap();
        assert_eq!(values(db.iter().unwrap()), "a=1x b=2 m=y");
        assert_eq!(values(db.iter_opt(r).unwrap()), "a=1x b=2 m=y");
        assert_eq!(values(db.iter_cf(cf).unwrap()), "a=3z c=4 n=w");
        assert_eq!(values(db.range("b"..).unwrap()), "b=2 m=y");
        assert_eq!(values(db.range_opt(r, .."b").unwrap()), "a=1x");
        assert_eq!(values(db.range_cf(cf, "b"..="c").unwrap()), "c=4");
        assert_eq!(values(db.range_cf_opt(r, cf, "b"..="c").unwrap()), "c=4");
        assert_eq!(values(db.prefix("m").unwrap()), "m=y");
        assert_eq!(values(db.prefix_opt(r, "a").unwrap()), "a=1x");
        assert_eq!(values(db.prefix_cf(cf, "n").unwrap()), "n=w");
        assert_eq!(values(db.prefix_cf_opt(r, cf, "m").unwrap()), "");
        let is =
            |found: Option<PinnedSlice>, value: &str| found.as_deref() == Some(value.as_bytes());
        assert!(is(db.get("a").unwrap(), "1x") && is(db.get_opt(r, "b").unwrap(), "2"));
        assert!(
            is(db.get_cf(cf, "a").unwrap(), "3z") && is(db.get_cf_opt(r, cf, "c").unwrap(), "4")
        );
        for found in [db.multi_get(&["a", "q"]), db.multi_get_opt(r, &["a", "q"])] {
            let [a, q] = <[_; 2]>::try_from(found).unwrap();
            assert!(is(a.unwrap(), "1x") && q.unwrap().is_none());
        }
        for found in [db.multi_get_cf(&[(cf, "c")]), db.multi_get_cf_opt(r, &[(cf, "c")])] {
            assert!(is(found.into_iter().next().unwrap().unwrap(), "4"));
        }
        for mut cursor in [db.cursor_cf(cf).unwrap(), db.cursor_cf_opt(r, cf).unwrap()] {
            cursor.seek("b");
            assert_eq!(cursor.item(), Some((&b"c"[..], &b"4"[..])));
        }
        for mut cursor in [db.cursor().unwrap(), db.cursor_opt(r).unwrap()] {
            cursor.seek("b");
            assert_eq!(cursor.item(), Some((&b"b"[..], &b"2"[..])));
        }
        deletions(&db, cf);
    }

    fn deletions(db: &DbWithTtl, cf: &ColumnFamily) {
        let (w, r) = (&WriteOptions::default(), &ReadOptions::default());
        db.delete("a").unwrap();
        db.delete_opt(w, "m").unwrap();
        db.delete_cf(cf, "a").unwrap();
        db.delete_cf_opt(w, cf, "n").unwrap();
        db.single_delete("b").unwrap();
        db.single_delete_opt(w, "nosuch").unwrap();
        db.single_delete_cf(cf, "c").unwrap();
        db.single_delete_cf_opt(w, cf, "nosuch").unwrap();
        assert_eq!(values(db.iter().unwrap()) + &values(db.iter_cf_opt(r, cf).unwrap()), "");
        let mut batch = WriteBatch::new();
        for key in ["d", "e", "f", "g"] {
            batch.put(key, "5");
            batch.put_cf(cf, key, "6");
        }
        db.write(&batch).unwrap();
        db.delete_range("d", "e").unwrap();
        db.delete_range_opt(w, "f", "g").unwrap();
        db.delete_range_cf(cf, "e", "f").unwrap();
        db.delete_range_cf_opt(w, cf, "g", "h").unwrap();
        db.db().flush_all_opt(&FlushOptions::default()).unwrap();
        assert_eq!(values(db.iter().unwrap()), "e=5 g=5");
        assert_eq!(values(db.iter_cf(cf).unwrap()), "d=6 f=6");
        db.write_opt(w, &batch).unwrap();
        assert_eq!(values(db.iter().unwrap()), "d=5 e=5 f=5 g=5");
    }
}
