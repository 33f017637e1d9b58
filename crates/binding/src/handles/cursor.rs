//! `rocksdb_iterator_t`: a cursor, and what is needed to begin it again.
//!
//! It owns all it needs, so that options, column family handles and the database's handle may go
//! before it.
//!
//! Thread safety: one task at a time.

use pumice::{ColumnFamily, DbIterator, Error, ReadOptions, Result, TtlIterator};

use super::database::Database;

/// A cursor of either kind of database.
#[derive(Debug)]
pub enum Cursor {
    /// Of a plain database.
    Plain(DbIterator),
    /// Of one whose values expire.
    Ttl(TtlIterator),
}

/// An iterator.
#[derive(Debug)]
pub struct Iterator {
    cursor: Option<Cursor>,
    refused: Option<Error>,
    database: Database,
    options: ReadOptions,
    family: ColumnFamily,
}

impl Iterator {
    /// An iterator. If it cannot be made it is at no entry and its status says why, as RocksDB's.
    pub fn new(database: &Database, options: ReadOptions, family: &ColumnFamily) -> Iterator {
        let mut iterator = Iterator {
            cursor: None,
            refused: None,
            database: database.clone(),
            options,
            family: family.clone(),
        };
        iterator.begin();
        iterator
    }

    /// An iterator that only has this status.
    pub fn refused(database: &Database, error: Error) -> Iterator {
        Iterator {
            cursor: None,
            refused: Some(error),
            database: database.clone(),
            options: ReadOptions::default(),
            family: database.default_family().clone(),
        }
    }

    fn begin(&mut self) {
        match self.database.cursor(&self.options, &self.family) {
            Ok(cursor) => self.cursor = Some(cursor),
            Err(error) => self.refused = Some(error),
        }
    }

    /// Sees the latest state from now on, and is at no entry.
    ///
    /// # Errors
    /// As a new iterator's.
    pub fn refresh(&mut self) -> Result<()> {
        let cursor = self.database.cursor(&self.options, &self.family)?;
        self.cursor = Some(cursor);
        Ok(())
    }

    fn moves(&mut self) -> Option<&mut DbIterator> {
        match self.cursor.as_mut()? {
            Cursor::Plain(cursor) => Some(cursor),
            Cursor::Ttl(cursor) => Some(cursor),
        }
    }

    fn reads(&self) -> Option<&DbIterator> {
        match self.cursor.as_ref()? {
            Cursor::Plain(cursor) => Some(cursor),
            Cursor::Ttl(cursor) => Some(cursor),
        }
    }

    /// The cursor is at an entry.
    pub fn valid(&self) -> bool {
        self.reads().is_some_and(DbIterator::valid)
    }

    /// Moves to the first entry.
    pub fn seek_to_first(&mut self) {
        if let Some(cursor) = self.moves() {
            cursor.seek_to_first();
        }
    }

    /// Moves to the last entry.
    pub fn seek_to_last(&mut self) {
        if let Some(cursor) = self.moves() {
            cursor.seek_to_last();
        }
    }

    /// Moves to the first entry at or behind `key`.
    pub fn seek(&mut self, key: &[u8]) {
        if let Some(cursor) = self.moves() {
            cursor.seek(key);
        }
    }

    /// Moves to the last entry at or before `key`.
    pub fn seek_for_prev(&mut self, key: &[u8]) {
        if let Some(cursor) = self.moves() {
            cursor.seek_for_prev(key);
        }
    }

    /// Moves to the next entry.
    pub fn next(&mut self) {
        if let Some(cursor) = self.moves() {
            cursor.next();
        }
    }

    /// Moves to the entry before.
    pub fn prev(&mut self) {
        if let Some(cursor) = self.moves() {
            cursor.prev();
        }
    }

    /// The key; empty at no entry.
    pub fn key(&self) -> &[u8] {
        self.reads().and_then(DbIterator::key).unwrap_or_default()
    }

    /// The value; empty at no entry.
    pub fn value(&self) -> &[u8] {
        match &self.cursor {
            Some(Cursor::Plain(cursor)) => cursor.value().unwrap_or_default(),
            Some(Cursor::Ttl(cursor)) => cursor.value().unwrap_or_default(),
            None => &[],
        }
    }

    /// What stopped it.
    ///
    /// # Errors
    /// The cursor's own error.
    pub fn status(&self) -> Result<()> {
        match &self.refused {
            Some(error) => Err(error.clone()),
            None => self.reads().map_or(Ok(()), DbIterator::status),
        }
    }
}
