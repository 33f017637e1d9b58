//! An open database as commands see it: plain, or one whose values expire (`--ttl`).
//!
//! Commands that know `--ttl` are generic over [`Handle`], and the table of commands chooses the
//! handle, once, from the flag. Values are shown without their times.
//!
//! Thread safety: as the database.

use std::path::Path;

use super::open::{Follows, Found, text as failure};
use super::{Failure, Invocation};
use crate::text::{show, show_columns};
use pumice::{
    ColumnFamily, Comparator, Cursor as _, Db, DbIterator, DbWithTtl, Error, PinnedSlice,
    ReadOptions, Store, TtlIterator, WideColumn, WriteBatch, WriteOptions,
};

/// What an open returns: the handle, and the column families in the order of the options.
pub type Opening<H> = pumice::Result<(H, Vec<ColumnFamily>)>;

/// Key, value without its time, and the time: seconds since 1970, only with `--ttl`.
pub type Entry<'a> = (&'a [u8], &'a [u8], Option<i32>);

/// A handle that commands open.
pub trait Handle: Store {
    /// It can follow what another process writes.
    const CAN_FOLLOW: bool;

    /// Opens for writing.
    fn open(found: &Found, path: &Path) -> Opening<Self>;
    /// Opens for reading.
    fn open_read_only(found: &Found, path: &Path) -> Opening<Self>;
    /// Opens as a secondary instance with its info log in `beside`.
    fn open_as_secondary(found: &Found, path: &Path, beside: &Path) -> Opening<Self>;
    /// Opens as a follower of the database at `leader`.
    fn open_as_follower(found: &Found, path: &Path, leader: &Path) -> Opening<Self>;
    /// The database. Through it values of a database with `--ttl` have their times.
    fn db(&self) -> &Db;
    /// The timestamp of the key that `cursor` is on; empty if there is none.
    fn timestamp(cursor: &Self::Cursor) -> &[u8];
    /// When that entry was written, as far as is known.
    fn write_time(cursor: &Self::Cursor) -> pumice::Result<Option<u64>>;
    /// What `cursor` is on.
    fn entry(cursor: &Self::Cursor) -> Result<Entry<'_>, Failure>;
    /// The columns that `cursor` is on, where the handle shows entities.
    fn columns(cursor: &Self::Cursor) -> Vec<WideColumn<'_>>;
}

impl Handle for Db {
    const CAN_FOLLOW: bool = true;

    fn open(found: &Found, path: &Path) -> Opening<Db> {
        Db::open_cf(&found.db, path, &found.families)
    }
    fn open_read_only(found: &Found, path: &Path) -> Opening<Db> {
        Db::open_read_only(&found.db, path, &found.families, false)
    }
    fn open_as_secondary(found: &Found, path: &Path, beside: &Path) -> Opening<Db> {
        Db::open_as_secondary(&found.db, path, beside, &found.families)
    }
    fn open_as_follower(found: &Found, path: &Path, leader: &Path) -> Opening<Db> {
        Db::open_as_follower(&found.db, path, leader, &found.families)
    }
    fn db(&self) -> &Db {
        self
    }
    fn timestamp(cursor: &DbIterator) -> &[u8] {
        cursor.timestamp().unwrap_or_default()
    }
    fn write_time(cursor: &DbIterator) -> pumice::Result<Option<u64>> {
        cursor.write_time()
    }
    fn entry(cursor: &DbIterator) -> Result<Entry<'_>, Failure> {
        Ok((cursor.key().unwrap_or_default(), cursor.value().unwrap_or_default(), None))
    }
    fn columns(cursor: &DbIterator) -> Vec<WideColumn<'_>> {
        cursor.columns().unwrap_or_default()
    }
}

impl Handle for DbWithTtl {
    const CAN_FOLLOW: bool = false;

    /// Values live forever, as in RocksDB's ldb.
    fn open(found: &Found, path: &Path) -> Opening<DbWithTtl> {
        let families: Vec<_> = found.families.iter().map(|family| (family.clone(), 0)).collect();
        DbWithTtl::open_cf(&found.db, path, &families)
    }
    fn open_read_only(found: &Found, path: &Path) -> Opening<DbWithTtl> {
        DbWithTtl::open_read_only(&found.db, path, &found.families, false)
    }
    fn open_as_secondary(_: &Found, _: &Path, _: &Path) -> Opening<DbWithTtl> {
        Err(Error::not_supported(Follows::TTL_SECONDARY))
    }
    fn open_as_follower(_: &Found, _: &Path, _: &Path) -> Opening<DbWithTtl> {
        Err(Error::not_supported(Follows::TTL_FOLLOWER))
    }
    fn db(&self) -> &Db {
        DbWithTtl::db(self)
    }
    /// Keys of values that expire have none.
    fn timestamp(_: &TtlIterator) -> &[u8] {
        &[]
    }
    fn write_time(_: &TtlIterator) -> pumice::Result<Option<u64>> {
        Err(Error::invalid_argument("Unidentified property."))
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
    /// The order of its keys.
    pub order: Comparator,
}

impl<H: Handle> Opened<H> {
    /// Writes `batch`.
    pub fn write(&self, batch: &mut WriteBatch) -> Result<(), Failure> {
        Store::write(&self.store, &WriteOptions::default(), batch).map_err(failure)
    }

    /// The value of `key`.
    pub fn get(&self, options: &ReadOptions, key: &[u8]) -> Result<Option<PinnedSlice>, Failure> {
        Store::get(&self.store, options, &self.cf, key).map_err(failure)
    }

    /// `options` for reads at `--read_timestamp`, which keys with timestamps need.
    pub fn at_read_time(
        &self,
        it: &Invocation,
        options: ReadOptions,
    ) -> Result<ReadOptions, Failure> {
        let given = it.arguments.bytes("read_timestamp");
        let has_times = self.order.timestamp_size() > 0;
        let refuse = |does: &str, why: &str| {
            Err(format!("Invalid argument: column family {does} while --read_timestamp is {why}."))
        };
        let enables = "enables user-defined timestamp";
        match given {
            None if has_times => refuse(enables, "not provided"),
            Some(b"") if has_times => refuse(enables, "empty"),
            None | Some(b"") => Ok(options),
            Some(_) if !has_times => refuse("does not enable user-defined timestamps", "provided"),
            Some(text) => {
                let number =
                    std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok());
                let Some(time): Option<u64> = number else {
                    let text = "Invalid argument: user provided timestamp is not a valid uint64 \
                                value.";
                    return Err(text.into());
                };
                Ok(ReadOptions { timestamp: Some(time.to_le_bytes().to_vec()), ..options })
            }
        }
    }

    /// `options` for reads of what is newest.
    pub fn at_newest(&self, options: ReadOptions) -> ReadOptions {
        let size = self.order.timestamp_size();
        ReadOptions { timestamp: (size > 0).then(|| vec![0xff; size]), ..options }
    }

    /// The `key` that `cursor` is on, with its timestamp if it has one.
    pub fn shown_key(&self, cursor: &H::Cursor, key: &[u8], hex: bool) -> Vec<u8> {
        let key = show(key, hex);
        match H::timestamp(cursor) {
            b"" => key,
            time => [&key, &b"|timestamp:"[..], self.order.timestamp_to_string(time).as_bytes()]
                .concat(),
        }
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
