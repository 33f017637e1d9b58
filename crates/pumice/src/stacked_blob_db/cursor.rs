//! Cursors over the values of a `BlobDb`.
//!
//! Thread safety: one task at a time.

use std::cmp::Ordering;
use std::sync::Arc;

use pumice_base::Result;

use super::files::{Files, Shown};
use crate::options::index_owner::INDEX_COLUMN;
use crate::read::entries::{Cursor, Entries};
use crate::read::iterator::DbIterator;

/// A cursor: values come from blob files, and those that have expired are passed over.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// use pumice::{BlobDb, BlobDbEntries, BlobDbIterator, BlobDbOptions, Options};
/// # let mut options = Options::default();
/// # options.db.create_if_missing = true;
/// # options.db.file_system = pumice::MemFs::new(1).shared();
/// let db = BlobDb::open(&options, &BlobDbOptions::default(), "/db")?;
/// db.put("a", "1")?;
/// db.put_with_ttl("b", "2", 3600)?;
/// db.put_with_ttl("c", "3", 0)?;
/// let entries: BlobDbEntries = db.iter()?;
/// assert_eq!(entries.count(), 2);
/// let mut cursor: BlobDbIterator = db.cursor()?;
/// cursor.seek("b");
/// assert_eq!(cursor.value(), Some(&b"2"[..]));
/// # drop(cursor);
/// # db.close()
/// # }
/// ```
pub struct BlobDbIterator {
    entries: DbIterator,
    files: Arc<Files>,
    shown: Shown,
    /// The value here if the entry is an index.
    blob: Option<Vec<u8>>,
    status: Result<()>,
}

impl std::fmt::Debug for BlobDbIterator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlobDbIterator").field("entries", &self.entries).finish_non_exhaustive()
    }
}

impl BlobDbIterator {
    /// A cursor over what `open` gives.
    pub(super) fn new(files: &Arc<Files>, open: impl Fn() -> Result<DbIterator>) -> Result<Self> {
        loop {
            let shown = files.shown();
            let entries = open()?;
            // Then all files that the entries refer to are shown.
            if Arc::ptr_eq(&shown, &files.shown()) {
                let files = Arc::clone(files);
                return Ok(BlobDbIterator { entries, files, shown, blob: None, status: Ok(()) });
            }
        }
    }

    /// It is on an entry.
    pub fn valid(&self) -> bool {
        self.status.is_ok() && self.entries.valid()
    }
    /// The key here; None without a position.
    pub fn key(&self) -> Option<&[u8]> {
        self.status.is_ok().then(|| self.entries.key())?
    }
    /// The value here; None without a position.
    pub fn value(&self) -> Option<&[u8]> {
        match &self.blob {
            _ if self.status.is_err() => None,
            Some(blob) => Some(blob),
            None => self.entries.value(),
        }
    }
    /// Key and value here; None without a position.
    pub fn item(&self) -> Option<(&[u8], &[u8])> {
        Some((self.key()?, self.value()?))
    }
    /// Moves to the first entry.
    pub fn seek_to_first(&mut self) {
        self.entries.seek_to_first();
        self.settle(true);
    }
    /// Moves to the last entry.
    pub fn seek_to_last(&mut self) {
        self.entries.seek_to_last();
        self.settle(false);
    }
    /// Moves to the first entry at or after `target`.
    pub fn seek(&mut self, target: impl AsRef<[u8]>) {
        self.entries.seek(target);
        self.settle(true);
    }
    /// Moves to the last entry at or before `target`.
    pub fn seek_for_prev(&mut self, target: impl AsRef<[u8]>) {
        self.entries.seek_for_prev(target);
        self.settle(false);
    }
    /// Moves to the entry after this one.
    pub fn next(&mut self) {
        self.entries.next();
        self.settle(true);
    }
    /// Moves to the entry before this one.
    pub fn prev(&mut self) {
        self.entries.prev();
        self.settle(false);
    }
    /// Why there is no position, if that is not the end.
    ///
    /// # Errors
    /// Corruption and I/O of tables and blob files.
    pub fn status(&self) -> Result<()> {
        self.status.clone().and_then(|()| self.entries.status())
    }

    /// Reads the value here, or goes on to the next one that is alive.
    fn settle(&mut self, forward: bool) {
        (self.blob, self.status) = (None, Ok(()));
        loop {
            let Some(columns) = self.entries.columns() else { return };
            let index = columns.iter().find(|column| column.name == INDEX_COLUMN);
            let (Some(index), Some(key)) = (index, self.entries.key()) else { return };
            match self.files.value(&self.shown, key, index.value) {
                Ok(Some((value, _))) => {
                    self.blob = Some(value);
                    return;
                }
                Ok(None) if forward => self.entries.next(),
                Ok(None) => self.entries.prev(),
                Err(error) => {
                    self.status = Err(error);
                    return;
                }
            }
        }
    }
}

impl Cursor for BlobDbIterator {
    fn seek_to_first(&mut self) {
        BlobDbIterator::seek_to_first(self);
    }
    fn seek_to_last(&mut self) {
        BlobDbIterator::seek_to_last(self);
    }
    fn seek(&mut self, target: &[u8]) {
        BlobDbIterator::seek(self, target);
    }
    fn seek_for_prev(&mut self, target: &[u8]) {
        BlobDbIterator::seek_for_prev(self, target);
    }
    fn next(&mut self) {
        BlobDbIterator::next(self);
    }
    fn prev(&mut self) {
        BlobDbIterator::prev(self);
    }
    fn key(&self) -> Option<&[u8]> {
        BlobDbIterator::key(self)
    }
    fn value(&self) -> Option<Result<&[u8]>> {
        BlobDbIterator::value(self).map(Ok)
    }
    fn status(&self) -> Result<()> {
        BlobDbIterator::status(self)
    }
    fn order(&self, left: &[u8], right: &[u8]) -> Ordering {
        self.entries.order(left, right)
    }
}

/// Keys and values as [`Entries`], without those that have expired.
///
/// Example: that of [`BlobDbIterator`](crate::BlobDbIterator).
pub type BlobDbEntries = Entries<BlobDbIterator>;
