//! An open database as commands see it: plain, or one whose values expire (`--ttl`).
//!
//! Commands that know `--ttl` are generic over [`Handle`], and the table of commands chooses the
//! handle, once, from the flag. Values are shown without their times.
//!
//! Thread safety: as the database.

use std::path::Path;

use super::Failure;
use super::open::{Found, text as failure};
use crate::text::{show, show_columns};
use pumice::{
    ColumnFamily, Cursor as _, Db, DbIterator, DbWithTtl, Error, PinnedSlice, ReadOptions, Store,
    TtlIterator, WideColumn, WriteBatch, WriteOptions,
};

/// What an open returns: the handle, and the column families in the order of the options.
pub type Opening<H> = pumice::Result<(H, Vec<ColumnFamily>)>;

/// Key, value without its time, and the time: seconds since 1970, only with `--ttl`.
pub type Entry<'a> = (&'a [u8], &'a [u8], Option<i32>);

/// A handle that commands open.
pub trait Handle: Store {
    /// Why there are no secondary instances; None if there are.
    const NO_SECONDARY: Option<&'static str>;

    /// Opens for writing.
    fn open(found: &Found, path: &Path) -> Opening<Self>;
    /// Opens for reading.
    fn open_read_only(found: &Found, path: &Path) -> Opening<Self>;
    /// Opens as a secondary instance with its info log in `beside`.
    fn open_as_secondary(found: &Found, path: &Path, beside: &Path) -> Opening<Self>;
    /// The database. Through it values of a database with `--ttl` have their times.
    fn db(&self) -> &Db;
    /// What `cursor` is on.
    fn entry(cursor: &Self::Cursor) -> Result<Entry<'_>, Failure>;
    /// The columns that `cursor` is on, where the handle shows entities.
    fn columns(cursor: &Self::Cursor) -> Vec<WideColumn<'_>>;
}

impl Handle for Db {
    const NO_SECONDARY: Option<&'static str> = None;

    fn open(found: &Found, path: &Path) -> Opening<Db> {
        Db::open_cf(&found.db, path, &found.families)
    }
    fn open_read_only(found: &Found, path: &Path) -> Opening<Db> {
        Db::open_read_only(&found.db, path, &found.families, false)
    }
    fn open_as_secondary(found: &Found, path: &Path, beside: &Path) -> Opening<Db> {
        Db::open_as_secondary(&found.db, path, beside, &found.families)
    }
    fn db(&self) -> &Db {
        self
    }
    fn entry(cursor: &DbIterator) -> Result<Entry<'_>, Failure> {
        Ok((cursor.key().unwrap_or_default(), cursor.value().unwrap_or_default(), None))
    }
    fn columns(cursor: &DbIterator) -> Vec<WideColumn<'_>> {
        cursor.columns().unwrap_or_default()
    }
}

const TTL_SECONDARY: &str = "Open as secondary is not supported for TTL DB yet.";

impl Handle for DbWithTtl {
    const NO_SECONDARY: Option<&'static str> = Some(TTL_SECONDARY);

    /// Values live forever, as in RocksDB's ldb.
    fn open(found: &Found, path: &Path) -> Opening<DbWithTtl> {
        let families: Vec<_> = found.families.iter().map(|family| (family.clone(), 0)).collect();
        DbWithTtl::open_cf(&found.db, path, &families)
    }
    fn open_read_only(found: &Found, path: &Path) -> Opening<DbWithTtl> {
        DbWithTtl::open_read_only(&found.db, path, &found.families, false)
    }
    fn open_as_secondary(_: &Found, _: &Path, _: &Path) -> Opening<DbWithTtl> {
        Err(Error::not_supported(TTL_SECONDARY))
    }
    fn db(&self) -> &Db {
        DbWithTtl::db(self)
    }
    fn entry(cursor: &TtlIterator) -> Result<Entry<'_>, Failure> {
        match (cursor.value(), cursor.written_at()) {
            (Some(value), Some(time)) => Ok((cursor.key().unwrap_or_default(), value, Some(time))),
            _ => Err("Corruption: Error: value's length less than timestamp's".into()),
        }
    }
    fn columns(_: &TtlIterator) -> Vec<WideColumn<'_>> {
        Vec::new()
    }
}

/// An open database and the column family that the command is about.
pub struct Opened<H> {
    /// The handle.
    pub store: H,
    /// The handle's database.
    pub db: Db,
    /// The column family that `--column_family` names.
    pub cf: ColumnFamily,
}

impl<H: Handle> Opened<H> {
    /// Writes `batch`.
    pub fn write(&self, batch: &mut WriteBatch) -> Result<(), Failure> {
        Store::write(&self.store, &WriteOptions::default(), batch).map_err(failure)
    }

    /// The value of `key`.
    pub fn get(&self, key: &[u8]) -> Result<Option<PinnedSlice>, Failure> {
        Store::get(&self.store, &ReadOptions::DEFAULT, &self.cf, key).map_err(failure)
    }

    /// A cursor at the first entry.
    pub fn first(&self, options: &ReadOptions) -> Result<H::Cursor, Failure> {
        let mut cursor = Store::cursor(&self.store, options, &self.cf).map_err(failure)?;
        cursor.seek_to_first();
        Ok(cursor)
    }

    /// The `value` that `cursor` is on, or the columns of an entity that has more than a default
    /// one, as RocksDB 11.9 prints them; 7.8 prints the default one only.
    pub fn shown(&self, cursor: &H::Cursor, value: &[u8], hex: bool) -> Vec<u8> {
        let columns = H::columns(cursor);
        match columns.iter().all(WideColumn::is_default) {
            true => show(value, hex),
            false => show_columns(columns, hex),
        }
    }
}
