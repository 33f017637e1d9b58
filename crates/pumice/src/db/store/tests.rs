//! A handle made in this file: a tenant, all of whose keys begin with its name. It has every form
//! of every call, and none of them is written here.
// A handle has all forms, and few are called here.
#![allow(clippy::unwrap_used, dead_code)]

use std::cmp::Ordering;
use std::sync::Arc;

use pumice_base::Error;
use pumice_env::MemFs;

use crate::db::api::Db;
use crate::db::forms::*;
use crate::options::{DbOptions, Options};
use crate::read::entries::Cursor;
use crate::read::iterator::DbIterator;

#[derive(Clone)]
struct Tenant {
    db: Db,
    name: Vec<u8>,
}

struct TenantCursor {
    inner: DbIterator,
    name: Vec<u8>,
}

store_forms!(Tenant);

impl Tenant {
    fn key(&self, key: &[u8]) -> Vec<u8> {
        [&self.name, key].concat()
    }
    fn keys<'a>(&self, keys: &[(&'a ColumnFamily, &[u8])]) -> Vec<(&'a ColumnFamily, Vec<u8>)> {
        keys.iter().map(|(cf, key)| (*cf, self.key(key))).collect()
    }
}

impl Store for Tenant {
    type Cursor = TenantCursor;

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
        self.db.get_cf_opt(options, cf, self.key(key))
    }
    fn multi_get(
        &self,
        options: &ReadOptions,
        keys: &[(&ColumnFamily, &[u8])],
    ) -> Vec<Result<Option<PinnedSlice>>> {
        self.db.multi_get_cf_opt(options, &self.keys(keys))
    }
    fn get_entity(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: &[u8],
    ) -> Result<Option<PinnedColumns>> {
        self.db.get_entity_cf_opt(options, cf, self.key(key))
    }
    fn multi_get_entity(
        &self,
        options: &ReadOptions,
        keys: &[(&ColumnFamily, &[u8])],
    ) -> Vec<Result<Option<PinnedColumns>>> {
        self.db.multi_get_entity_cf_opt(options, &self.keys(keys))
    }
    fn get_merge_operands(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: &[u8],
        how: &GetMergeOperandsOptions<'_>,
        found: &mut usize,
    ) -> Result<Vec<PinnedSlice>> {
        self.db.get_merge_operands_cf_opt(options, cf, self.key(key), how, found)
    }
    fn cursor(&self, options: &ReadOptions, cf: &ColumnFamily) -> Result<TenantCursor> {
        let bound = |key: &Option<Vec<u8>>| key.as_ref().map(|key| self.key(key));
        let mut bounded = options.clone();
        bounded.iterate_lower_bound =
            bound(&options.iterate_lower_bound).or_else(|| Some(self.name.clone()));
        bounded.iterate_upper_bound =
            bound(&options.iterate_upper_bound).or_else(|| Some(self.key(b"\xff")));
        let inner = self.db.cursor_cf_opt(&bounded, cf)?;
        Ok(TenantCursor { inner, name: self.name.clone() })
    }
    fn put(&self, options: &WriteOptions, cf: &ColumnFamily, key: &[u8], v: &[u8]) -> Result<()> {
        self.db.put_cf_opt(options, cf, self.key(key), v)
    }
    fn put_encoded_entity(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        key: &[u8],
        entity: &[u8],
    ) -> Result<()> {
        Store::put_encoded_entity(&self.db, options, cf, &self.key(key), entity)
    }
    fn delete(&self, options: &WriteOptions, cf: &ColumnFamily, key: &[u8]) -> Result<()> {
        self.db.delete_cf_opt(options, cf, self.key(key))
    }
    fn single_delete(&self, options: &WriteOptions, cf: &ColumnFamily, key: &[u8]) -> Result<()> {
        self.db.single_delete_cf_opt(options, cf, self.key(key))
    }
    fn merge(&self, options: &WriteOptions, cf: &ColumnFamily, key: &[u8], v: &[u8]) -> Result<()> {
        self.db.merge_cf_opt(options, cf, self.key(key), v)
    }
    fn delete_range(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        begin: &[u8],
        end: &[u8],
    ) -> Result<()> {
        self.db.delete_range_cf_opt(options, cf, self.key(begin), self.key(end))
    }
    fn write(&self, _options: &WriteOptions, _updates: &mut WriteBatch) -> Result<()> {
        Err(Error::not_supported("batches of a tenant"))
    }
}

impl Cursor for TenantCursor {
    fn seek_to_first(&mut self) {
        self.inner.seek_to_first();
    }
    fn seek_to_last(&mut self) {
        self.inner.seek_to_last();
    }
    fn seek(&mut self, target: &[u8]) {
        self.inner.seek([&self.name, target].concat());
    }
    fn seek_for_prev(&mut self, target: &[u8]) {
        self.inner.seek_for_prev([&self.name, target].concat());
    }
    fn next(&mut self) {
        self.inner.next();
    }
    fn prev(&mut self) {
        self.inner.prev();
    }
    fn key(&self) -> Option<&[u8]> {
        self.inner.key()?.strip_prefix(&self.name[..])
    }
    fn value(&self) -> Option<Result<&[u8]>> {
        self.inner.value().map(Ok)
    }
    fn status(&self) -> Result<()> {
        self.inner.status()
    }
    fn order(&self, left: &[u8], right: &[u8]) -> Ordering {
        self.inner.order(left, right)
    }
}

fn entries<C: Cursor>(entries: Entries<C>) -> String {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let pairs = entries.map(|entry| entry.map(|(k, v)| text(k) + "=" + &text(v)).unwrap());
    pairs.collect::<Vec<_>>().join(" ")
}

/// Copies through the trait, whatever the handles are.
fn copy(from: &impl Store, to: &impl Store, key: &str) -> Result<()> {
    let (here, there) = (from.default_column_family(), to.default_column_family());
    let value = from.get(&READ_DEFAULT, here, key.as_bytes())?.unwrap();
    to.put(&WRITE_DEFAULT, there, key.as_bytes(), &value)
}

#[pumice_test_macros::test]
fn a_new_handle_has_every_form() {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.file_system = Arc::new(MemFs::new(3));
    let db = Db::open(&options, "/db").unwrap();
    let [ada, bob] = ["ada/", "bob/"].map(|name| Tenant { db: db.clone(), name: name.into() });
    ada.put("k", "1").unwrap();
    ada.put_opt(&WRITE_DEFAULT, "l", "2").unwrap();
    copy(&ada, &bob, "l").unwrap();
    bob.put_entity("m", [("", "3"), ("c", "4")]).unwrap();
    assert_eq!(entries(db.iter().unwrap()), "ada/k=1 ada/l=2 bob/l=2 bob/m=3");
    assert_eq!(entries(ada.iter().unwrap()), "k=1 l=2");
    assert_eq!(entries(bob.range("m"..).unwrap()), "m=3");
    assert_eq!(entries(bob.prefix("l").unwrap()), "l=2");
    assert!(bob.iter().unwrap().rev().map(|e| e.unwrap().0).eq([b"m", b"l"]));
    assert!(ada.key_may_exist("k").unwrap() && !bob.key_may_exist("k").unwrap());
    assert_eq!(bob.get_entity("m").unwrap().unwrap().get("c"), Some(&b"4"[..]));
    let found = ada.multi_get(&["k", "q"]).into_iter().map(|v| v.unwrap().is_some());
    assert!(found.eq([true, false]));
    ada.delete_range("k", "l").unwrap();
    assert_eq!(entries(ada.iter_cf(db.default_column_family()).unwrap()), "l=2");
    assert!(bob.write(&mut WriteBatch::new()).is_err());
}
