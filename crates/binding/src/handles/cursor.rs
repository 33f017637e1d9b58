//! `rocksdb_iterator_t`: a cursor, and what is needed to begin it again.
//!
//! It owns all it needs, so that options, column family handles and the database's handle may go
//! before it.
//!
//! Thread safety: one task at a time.

use std::cmp::Ordering;

use pumice::{
    ColumnFamily, Cursor as _, DbIterator, Error, ReadOptions, Result, Snapshot, TtlIterator,
};

use super::database::Database;

/// A cursor of any kind of database.
pub enum Cursor {
    /// Of a plain database.
    Plain(DbIterator),
    /// Of one whose values expire.
    Ttl(TtlIterator),
    /// Over a batch or a transaction and the database below.
    Over(Box<dyn pumice::Cursor>),
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cursor")
    }
}

/// Calls the method of the cursor, whichever it is.
macro_rules! each {
    ($cursor:expr, $on:ident => $call:expr) => {
        match $cursor {
            Cursor::Plain($on) => $call,
            Cursor::Ttl($on) => $call,
            Cursor::Over($on) => $call,
        }
    };
}

/// What is needed to begin again.
#[derive(Debug)]
struct Source {
    database: Database,
    options: ReadOptions,
    family: ColumnFamily,
}

/// An iterator.
#[derive(Debug)]
pub struct Iterator {
    cursor: Option<Cursor>,
    refused: Option<Error>,
    source: Option<Source>,
}

impl Iterator {
    /// The timestamp of the entry; empty at no entry, and where keys have none.
    pub fn timestamp(&self) -> &[u8] {
        match &self.cursor {
            Some(Cursor::Plain(cursor)) => cursor.timestamp().unwrap_or_default(),
            _ => &[],
        }
    }

    /// An iterator. If it cannot be made it is at no entry and its status says why, as RocksDB's.
    pub fn new(database: &Database, mut options: ReadOptions, family: &ColumnFamily) -> Iterator {
        let (cursor, refused) = match database.cursor(&options, family) {
            Ok(cursor) => (Some(cursor), None),
            Err(error) => (None, Some(error)),
        };
        // Its owner may release it now; what begins again sees the latest state.
        options.snapshot = None;
        let source = Source { database: database.clone(), options, family: family.clone() };
        Iterator { cursor, refused, source: Some(source) }
    }

    /// An iterator that only has this status.
    pub fn refused(error: Error) -> Iterator {
        Iterator { cursor: None, refused: Some(error), source: None }
    }

    /// An iterator over a batch or a transaction and the database below.
    pub fn over(cursor: impl pumice::Cursor + 'static) -> Iterator {
        Iterator { cursor: Some(Cursor::Over(Box::new(cursor))), refused: None, source: None }
    }

    /// Sees the latest state from now on, or that of `snapshot`, and is at no entry.
    ///
    /// # Errors
    /// As a new iterator's; NotSupported for one over a batch or a transaction.
    pub fn refresh(&mut self, snapshot: Option<&Snapshot>) -> Result<()> {
        let Some(Source { database, options, family }) = &self.source else {
            return Err(Error::not_supported("Refresh() is not supported"));
        };
        // Also of an iterator that was made with a snapshot, as in RocksDB.
        let options = ReadOptions { snapshot: snapshot.cloned(), ..options.clone() };
        self.cursor = Some(database.cursor(&options, family)?);
        Ok(())
    }

    /// The cursor is at an entry.
    pub fn valid(&self) -> bool {
        self.cursor.as_ref().is_some_and(|cursor| each!(cursor, it => it.key().is_some()))
    }

    /// Moves to the first entry.
    pub fn seek_to_first(&mut self) {
        if let Some(cursor) = &mut self.cursor {
            each!(cursor, it => it.seek_to_first());
        }
    }

    /// Moves to the last entry.
    pub fn seek_to_last(&mut self) {
        if let Some(cursor) = &mut self.cursor {
            each!(cursor, it => it.seek_to_last());
        }
    }

    /// Moves to the first entry at or behind `key`.
    pub fn seek(&mut self, key: &[u8]) {
        if let Some(cursor) = &mut self.cursor {
            each!(cursor, it => it.seek(key));
        }
    }

    /// Moves to the last entry at or before `key`.
    pub fn seek_for_prev(&mut self, key: &[u8]) {
        if let Some(cursor) = &mut self.cursor {
            each!(cursor, it => it.seek_for_prev(key));
        }
    }

    /// Moves to the next entry.
    pub fn next(&mut self) {
        if let Some(cursor) = &mut self.cursor {
            each!(cursor, it => it.next());
        }
    }

    /// Moves to the entry before.
    pub fn prev(&mut self) {
        if let Some(cursor) = &mut self.cursor {
            each!(cursor, it => it.prev());
        }
    }

    /// The key; empty at no entry.
    pub fn key(&self) -> &[u8] {
        match &self.cursor {
            Some(cursor) => each!(cursor, it => it.key()).unwrap_or_default(),
            None => &[],
        }
    }

    /// The value; empty at no entry.
    pub fn value(&self) -> &[u8] {
        match &self.cursor {
            Some(Cursor::Plain(cursor)) => cursor.value().unwrap_or_default(),
            Some(Cursor::Ttl(cursor)) => cursor.value().unwrap_or_default(),
            Some(Cursor::Over(cursor)) => cursor.value().and_then(Result::ok).unwrap_or_default(),
            None => &[],
        }
    }

    /// What stopped it.
    ///
    /// # Errors
    /// The cursor's own error.
    pub fn status(&self) -> Result<()> {
        match (&self.refused, &self.cursor) {
            (Some(error), _) => Err(error.clone()),
            (None, Some(cursor)) => each!(cursor, it => it.status()),
            (None, None) => Ok(()),
        }
    }
}

/// As the base of a cursor over a batch.
impl pumice::Cursor for Iterator {
    fn seek_to_first(&mut self) {
        Iterator::seek_to_first(self);
    }
    fn seek_to_last(&mut self) {
        Iterator::seek_to_last(self);
    }
    fn seek(&mut self, target: &[u8]) {
        Iterator::seek(self, target);
    }
    fn seek_for_prev(&mut self, target: &[u8]) {
        Iterator::seek_for_prev(self, target);
    }
    fn next(&mut self) {
        Iterator::next(self);
    }
    fn prev(&mut self) {
        Iterator::prev(self);
    }
    fn key(&self) -> Option<&[u8]> {
        self.valid().then(|| Iterator::key(self))
    }
    fn value(&self) -> Option<Result<&[u8]>> {
        self.valid().then(|| Ok(Iterator::value(self)))
    }
    fn status(&self) -> Result<()> {
        Iterator::status(self)
    }
    fn order(&self, left: &[u8], right: &[u8]) -> Ordering {
        match &self.cursor {
            Some(cursor) => each!(cursor, it => it.order(left, right)),
            None => left.cmp(right),
        }
    }
}
