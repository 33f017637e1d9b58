//! The calls of a database whose values expire: what is written gets a time, what is read loses it.
//!
//! Thread safety: as the database. Operations without a value are the plain database's. RocksDB's
//! `DBWithTTL` leaves the times at the end of the merge operands that it returns and passes to the
//! callback; this handle never does.

use std::sync::Arc;

use pumice_base::{Error, ValueType};

use super::{DbWithTtl, TtlIterator, now, split, stripped, stripped_value, with_time};
use crate::commit::batch::BatchRecord;
use crate::db::forms::*;
use crate::options::DbOptions;

store_forms!(DbWithTtl);

impl Store for DbWithTtl {
    type Cursor = TtlIterator;

    fn default_column_family(&self) -> &ColumnFamily {
        self.db.default_column_family()
    }
    fn options(&self) -> Arc<DbOptions> {
        self.db.options()
    }

    fn get(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: &[u8],
    ) -> Result<Option<PinnedSlice>> {
        stripped(Store::get(&self.db, options, cf, key)?)
    }
    fn multi_get(
        &self,
        options: &ReadOptions,
        keys: &[(&ColumnFamily, &[u8])],
    ) -> Vec<Result<Option<PinnedSlice>>> {
        let found = Store::multi_get(&self.db, options, keys);
        found.into_iter().map(|answer| answer.and_then(stripped)).collect()
    }
    fn get_entity(
        &self,
        _options: &ReadOptions,
        _cf: &ColumnFamily,
        _key: &[u8],
    ) -> Result<Option<PinnedColumns>> {
        Err(no_entities())
    }
    fn multi_get_entity(
        &self,
        _options: &ReadOptions,
        keys: &[(&ColumnFamily, &[u8])],
    ) -> Vec<Result<Option<PinnedColumns>>> {
        keys.iter().map(|_| Err(no_entities())).collect()
    }
    fn get_merge_operands(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: &[u8],
        how: &GetMergeOperandsOptions<'_>,
        number_of_operands: &mut usize,
    ) -> Result<Vec<PinnedSlice>> {
        let shown = |stored: &[u8]| match (how.continue_cb, split(stored)) {
            (Some(continue_cb), Ok((operand, _))) => continue_cb(operand),
            (None, Ok(_)) => true,
            // This becomes the error of the call.
            (_, Err(_)) => false,
        };
        let how = GetMergeOperandsOptions { continue_cb: Some(&shown), ..*how };
        let db = &self.db;
        let found = Store::get_merge_operands(db, options, cf, key, &how, number_of_operands)?;
        found.into_iter().map(stripped_value).collect()
    }
    fn cursor(&self, options: &ReadOptions, cf: &ColumnFamily) -> Result<TtlIterator> {
        Ok(TtlIterator(Store::cursor(&self.db, options, cf)?))
    }

    fn put(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        Store::put(&self.db, options, cf, key, &with_time(value, now()))
    }
    fn put_encoded_entity(
        &self,
        _options: &WriteOptions,
        _cf: &ColumnFamily,
        _key: &[u8],
        _entity: &[u8],
    ) -> Result<()> {
        Err(no_entities())
    }
    fn delete(&self, options: &WriteOptions, cf: &ColumnFamily, key: &[u8]) -> Result<()> {
        Store::delete(&self.db, options, cf, key)
    }
    fn single_delete(&self, options: &WriteOptions, cf: &ColumnFamily, key: &[u8]) -> Result<()> {
        Store::single_delete(&self.db, options, cf, key)
    }
    fn merge(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        key: &[u8],
        operand: &[u8],
    ) -> Result<()> {
        Store::merge(&self.db, options, cf, key, &with_time(operand, now()))
    }
    fn delete_range(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        begin: &[u8],
        end: &[u8],
    ) -> Result<()> {
        Store::delete_range(&self.db, options, cf, begin, end)
    }
    /// The batch is not changed: a copy of it is written, in which all values have one time.
    fn write(&self, options: &WriteOptions, updates: &mut WriteBatch) -> Result<()> {
        updates.status()?;
        updates.check_owner(&**self.db.inner())?;
        Store::write(&self.db, options, &mut timed_batch(updates)?)
    }
}

#[cold]
fn no_entities() -> Error {
    Error::not_supported("wide columns in a database with TTL")
}

/// The updates, with the present time at the end of each value.
fn timed_batch(updates: &WriteBatch) -> Result<WriteBatch> {
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
    Ok(batch)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use super::super::TtlEntries;
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
        db.write(&mut batch).unwrap();
        db.delete_range("d", "e").unwrap();
        db.delete_range_opt(w, "f", "g").unwrap();
        db.delete_range_cf(cf, "e", "f").unwrap();
        db.delete_range_cf_opt(w, cf, "g", "h").unwrap();
        db.db().flush_all_opt(&FlushOptions::default()).unwrap();
        assert_eq!(values(db.iter().unwrap()), "e=5 g=5");
        assert_eq!(values(db.iter_cf(cf).unwrap()), "d=6 f=6");
        db.write_opt(w, &mut batch).unwrap();
        assert_eq!(values(db.iter().unwrap()), "d=5 e=5 f=5 g=5");
    }
}
