//! Typed tables: a column family whose keys and values are Rust types.
//!
//! A [`Table`] encodes and decodes what a program puts into a column family and gets from it, and
//! does nothing else: the bytes are documented ([`Key`]), other handles and RocksDB read them. It
//! needs the bytewise comparator, in whose order encoded keys are in the order of their types.
//!
//! Thread safety: as [`Db`], which a table is a handle of. Calls suspend. Bytes that are not what
//! the type's encoding writes are Corruption, which names the column family.

mod codec;

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use pumice_base::{Error, Result};

pub use codec::{Key, Value};

use crate::commit::batch::WriteBatch;
use crate::db::api::Db;
use crate::options::ColumnFamilyOptions;
use crate::options::requests::ReadOptions;
use crate::read::entries::Entries;
use crate::version::family::ColumnFamily;

/// A column family with keys of type `K` and values of type `V`, made by [`Db::table`].
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// use pumice::{Db, WriteBatch};
/// # let dir = std::env::temp_dir().join(format!("pumice-table-{}", std::process::id()));
/// let db = Db::builder(&dir).create(true).open()?;
/// // Orders by customer and day.
/// let orders = db.table::<(String, u32), u64>("orders")?;
/// orders.put(&("ada".to_string(), 3), &250)?;
/// orders.put(&("ada".to_string(), 20), &99)?;
/// orders.put(&("bob".to_string(), 1), &1)?;
/// assert_eq!(orders.get(&("ada".to_string(), 3))?, Some(250));
///
/// // In the order of the keys: 3 comes before 20.
/// let ada = ("ada".to_string(), 0)..=("ada".to_string(), u32::MAX);
/// let mut cents = Vec::new();
/// for entry in orders.range(ada)? {
///     let ((_, _day), price) = entry?;
///     cents.push(price);
/// }
/// assert_eq!(cents, [250, 99]);
///
/// // Several tables in one batch.
/// let totals = db.table::<String, u64>("totals")?;
/// let mut batch = WriteBatch::new();
/// orders.put_in(&mut batch, &("bob".to_string(), 2), &5);
/// totals.put_in(&mut batch, &"bob".to_string(), &6);
/// db.write(&mut batch)?;
/// assert_eq!(totals.get(&"bob".to_string())?, Some(6));
/// # db.close()?;
/// # Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
pub struct Table<K, V> {
    db: Db,
    cf: ColumnFamily,
    types: PhantomData<fn(K) -> V>,
}

impl<K, V> Clone for Table<K, V> {
    fn clone(&self) -> Self {
        Table { db: self.db.clone(), cf: self.cf.clone(), types: PhantomData }
    }
}

impl<K, V> fmt::Debug for Table<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("name", &self.cf.name()).finish_non_exhaustive()
    }
}

impl Db {
    /// The column family `name` as a typed table. It is made, with default options, if there is
    /// none.
    ///
    /// # Errors
    /// InvalidArgument if the column family has another comparator than the bytewise one; those of
    /// [`Db::create_column_family`].
    pub fn table<K: Key, V: Value>(&self, name: &str) -> Result<Table<K, V>> {
        let cf = match self.column_family(name) {
            Some(cf) => cf,
            None => self.create_column_family(&ColumnFamilyOptions::default(), name)?,
        };
        let comparator = self.column_family_options(&cf)?.comparator.clone();
        if !comparator.is_bytewise() {
            let order = comparator.name().to_string();
            let text = format!(
                "column family {name} is in the order of {order}; encoded keys need bytes'"
            );
            return Err(Error::invalid_argument(text));
        }
        Ok(Table { db: self.clone(), cf, types: PhantomData })
    }
}

/// The bytes of a key.
fn bytes_of<K: Key>(key: &K) -> Vec<u8> {
    let mut bytes = Vec::new();
    key.encode(&mut bytes, true);
    bytes
}

impl<K: Key, V: Value> Table<K, V> {
    /// The column family below.
    pub fn column_family(&self) -> &ColumnFamily {
        &self.cf
    }

    /// The value of `key`, or None.
    ///
    /// # Errors
    /// Those of [`Db::get`]; Corruption for a value that is no `V`.
    pub fn get(&self, key: &K) -> Result<Option<V>> {
        self.get_opt(&ReadOptions::DEFAULT, key)
    }

    /// [`Self::get`] with options, such as a snapshot.
    ///
    /// # Errors
    /// As there.
    pub fn get_opt(&self, options: &ReadOptions, key: &K) -> Result<Option<V>> {
        let found = self.db.get_cf_opt(options, &self.cf, bytes_of(key))?;
        found.map(|bytes| self.value_of(&bytes)).transpose()
    }

    /// There is an entry.
    ///
    /// # Errors
    /// Those of [`Db::get`].
    pub fn contains(&self, key: &K) -> Result<bool> {
        Ok(self.db.get_cf(&self.cf, bytes_of(key))?.is_some())
    }

    /// Writes an entry.
    ///
    /// # Errors
    /// Those of [`Db::write`].
    pub fn put(&self, key: &K, value: &V) -> Result<()> {
        self.db.put_cf(&self.cf, bytes_of(key), value_bytes(value))
    }

    /// Deletes `key`; it need not be there.
    ///
    /// # Errors
    /// Those of [`Db::write`].
    pub fn delete(&self, key: &K) -> Result<()> {
        self.db.delete_cf(&self.cf, bytes_of(key))
    }

    /// [`Self::put`] as a part of `batch`.
    pub fn put_in(&self, batch: &mut WriteBatch, key: &K, value: &V) {
        batch.put_cf(&self.cf, bytes_of(key), value_bytes(value));
    }

    /// [`Self::delete`] as a part of `batch`.
    pub fn delete_in(&self, batch: &mut WriteBatch, key: &K) {
        batch.delete_cf(&self.cf, bytes_of(key));
    }

    /// All entries in the order of their keys, from both ends. An item may be an error.
    ///
    /// # Errors
    /// Those of [`Db::iter`].
    pub fn iter(&self) -> Result<TableEntries<K, V>> {
        self.entries(self.db.iter_cf(&self.cf)?)
    }

    /// [`Self::iter`] of the keys in `range`.
    ///
    /// # Errors
    /// Those of [`Db::range`].
    pub fn range(&self, range: impl RangeBounds<K>) -> Result<TableEntries<K, V>> {
        self.range_opt(&ReadOptions::DEFAULT, range)
    }

    /// [`Self::range`] with options, such as a snapshot.
    ///
    /// # Errors
    /// As there.
    pub fn range_opt(
        &self,
        options: &ReadOptions,
        range: impl RangeBounds<K>,
    ) -> Result<TableEntries<K, V>> {
        let bound = |bound: Bound<&K>| bound.map(bytes_of);
        let range = (bound(range.start_bound()), bound(range.end_bound()));
        self.entries(self.db.range_cf_opt::<Vec<u8>>(options, &self.cf, range)?)
    }

    fn entries(&self, entries: Entries) -> Result<TableEntries<K, V>> {
        Ok(TableEntries { entries, table: self.clone() })
    }

    fn value_of(&self, bytes: &[u8]) -> Result<V> {
        V::decode_value(bytes).ok_or_else(|| self.corrupt("value", bytes))
    }

    fn key_of(&self, mut bytes: &[u8]) -> Result<K> {
        let all = bytes;
        let key = K::decode(&mut bytes, true).filter(|_| bytes.is_empty());
        key.ok_or_else(|| self.corrupt("key", all))
    }

    #[cold]
    fn corrupt(&self, what: &str, bytes: &[u8]) -> Error {
        let start = &bytes[..bytes.len().min(16)];
        let kind =
            if what == "key" { std::any::type_name::<K>() } else { std::any::type_name::<V>() };
        Error::corruption(format!(
            "column family {}: a {what} of {} bytes is no {kind}: {start:02x?}",
            self.cf.name(),
            bytes.len()
        ))
    }
}

fn value_bytes<V: Value>(value: &V) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.encode_value(&mut bytes);
    bytes
}

/// Entries of a [`Table`], made by [`Table::iter`] and [`Table::range`].
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-tableentries-{}", std::process::id()));
/// # let db = pumice::Db::builder(&dir).create(true).open()?;
/// use pumice::TableEntries;
/// let days = db.table::<u32, String>("days")?;
/// days.put(&2, &"Tuesday".to_string())?;
/// days.put(&10, &"another".to_string())?;
/// let entries: TableEntries<u32, String> = days.iter()?;
/// let names: Result<Vec<_>, _> = entries.map(|entry| entry.map(|(day, _)| day)).collect();
/// assert_eq!(names?, [2, 10]);
/// # drop(days);
/// # db.close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TableEntries<K, V> {
    entries: Entries,
    table: Table<K, V>,
}

impl<K: Key, V: Value> TableEntries<K, V> {
    fn decoded(&self, entry: Result<(Vec<u8>, Vec<u8>)>) -> Result<(K, V)> {
        let (key, value) = entry?;
        Ok((self.table.key_of(&key)?, self.table.value_of(&value)?))
    }
}

impl<K: Key, V: Value> Iterator for TableEntries<K, V> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.entries.next()?;
        Some(self.decoded(entry))
    }
}

impl<K: Key, V: Value> DoubleEndedIterator for TableEntries<K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let entry = self.entries.next_back()?;
        Some(self.decoded(entry))
    }
}
