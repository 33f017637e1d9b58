//! An open database as commands see it: plain, or one whose values expire (`--ttl`).
//!
//! Thread safety: as the database. Values are shown without their times.

use std::ops::{Deref, DerefMut};

use super::Failure;
use super::open::text as failure;
use crate::text::{show, show_columns};
use pumice::{
    ColumnFamily, Db, DbIterator, DbWithTtl, PinnedSlice, ReadOptions, TtlIterator, WideColumn,
    WriteBatch, WriteOptions,
};

/// An open database and the column family that the command is about.
pub struct Opened {
    /// The database. Through it values of a database with `--ttl` have their times.
    pub db: Db,
    /// The column family that `--column_family` names.
    pub cf: ColumnFamily,
    /// With `--ttl`.
    pub expiring: Option<DbWithTtl>,
}

impl Opened {
    /// Writes `batch`.
    pub fn write(&self, batch: &mut WriteBatch) -> Result<(), Failure> {
        let options = WriteOptions::default();
        let written = match &self.expiring {
            Some(db) => db.write_opt(&options, batch),
            None => self.db.write_opt(&options, batch),
        };
        written.map_err(failure)
    }

    /// The value of `key`.
    pub fn get(&self, key: &[u8]) -> Result<Option<PinnedSlice>, Failure> {
        let options = ReadOptions::default();
        let found = match &self.expiring {
            Some(db) => db.get_cf_opt(&options, &self.cf, key),
            None => self.db.get_cf_opt(&options, &self.cf, key),
        };
        found.map_err(failure)
    }

    /// A cursor at the first entry.
    pub fn first(&self, options: &ReadOptions) -> Result<Cursor, Failure> {
        let mut cursor = match &self.expiring {
            Some(db) => Cursor::Expiring(db.cursor_cf_opt(options, &self.cf).map_err(failure)?),
            None => Cursor::Plain(self.db.cursor_cf_opt(options, &self.cf).map_err(failure)?),
        };
        cursor.seek_to_first();
        Ok(cursor)
    }
}

/// A cursor over entries.
pub enum Cursor {
    /// Of a plain database.
    Plain(DbIterator),
    /// Of one whose values expire.
    Expiring(TtlIterator),
}

/// Key, value without its time, and the time: seconds since 1970, only with `--ttl`.
pub type Entry<'a> = (&'a [u8], &'a [u8], Option<i32>);

impl Cursor {
    /// What the cursor is on.
    pub fn entry(&self) -> Result<Entry<'_>, Failure> {
        let key = self.key().unwrap_or_default();
        match self {
            Cursor::Plain(cursor) => Ok((key, cursor.value().unwrap_or_default(), None)),
            Cursor::Expiring(cursor) => match (cursor.value(), cursor.written_at()) {
                (Some(value), Some(time)) => Ok((key, value, Some(time))),
                _ => Err("Corruption: Error: value's length less than timestamp's".into()),
            },
        }
    }
}

impl Cursor {
    /// The `value` that the cursor is on, or the columns of an entity that has more than a default
    /// one, as RocksDB 11.9 prints them; 7.8 prints the default one only.
    pub fn shown(&self, value: &[u8], hex: bool) -> Vec<u8> {
        let columns = match self {
            Cursor::Plain(cursor) => cursor.columns().unwrap_or_default(),
            Cursor::Expiring(_) => Vec::new(),
        };
        match columns.iter().all(WideColumn::is_default) {
            true => show(value, hex),
            false => show_columns(columns, hex),
        }
    }
}

impl Deref for Cursor {
    type Target = DbIterator;
    fn deref(&self) -> &DbIterator {
        match self {
            Cursor::Plain(cursor) => cursor,
            Cursor::Expiring(cursor) => cursor,
        }
    }
}

impl DerefMut for Cursor {
    fn deref_mut(&mut self) -> &mut DbIterator {
        match self {
            Cursor::Plain(cursor) => cursor,
            Cursor::Expiring(cursor) => cursor,
        }
    }
}
