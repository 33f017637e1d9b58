//! Cursors over values that expire: those of the database, without the times.
//!
//! Thread safety: as those of the database.

use std::cmp::Ordering;
use std::ops::{Deref, DerefMut};

use pumice_base::Result;

use super::{TIME_BYTES, split};
use crate::read::entries::{Cursor, Entries};
use crate::read::iterator::DbIterator;

/// A cursor: moved through the [`DbIterator`] that it dereferences to; `value` is without its time.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-ttlcursor-{}", std::process::id()));
/// use pumice::{ColumnFamilyDescriptor, DbWithTtl, Options, TtlDescriptor, TtlEntries};
/// let mut options = Options::default();
/// options.db.create_if_missing = true;
/// // An hour.
/// let family: TtlDescriptor = (ColumnFamilyDescriptor::new("default", options.cf.clone()), 3600);
/// let (sessions, _) = DbWithTtl::open_cf(&options.db, &dir, &[family])?;
/// sessions.put("session", "Ada")?;
/// let entries: TtlEntries = sessions.iter()?;
/// assert_eq!(entries.count(), 1);
/// let mut cursor = sessions.cursor()?;
/// cursor.seek_to_first();
/// assert_eq!(cursor.value(), Some(&b"Ada"[..]));
/// # drop(cursor);
/// # sessions.db().close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TtlIterator(pub(super) DbIterator);

impl TtlIterator {
    /// The value under the cursor; None if it is not valid, or for a value too short to have a
    /// time.
    pub fn value(&self) -> Option<&[u8]> {
        Some(self.0.value()?.split_last_chunk::<TIME_BYTES>()?.0)
    }
    /// Key and value under the cursor; None if one of them is None.
    pub fn item(&self) -> Option<(&[u8], &[u8])> {
        Some((self.key()?, self.value()?))
    }
    /// When it was written, in seconds since 1970.
    pub fn written_at(&self) -> Option<i32> {
        Some(i32::from_le_bytes(*self.0.value()?.last_chunk()?))
    }
}

impl Deref for TtlIterator {
    type Target = DbIterator;
    fn deref(&self) -> &DbIterator {
        &self.0
    }
}

impl DerefMut for TtlIterator {
    fn deref_mut(&mut self) -> &mut DbIterator {
        &mut self.0
    }
}

impl Cursor for TtlIterator {
    fn seek_to_first(&mut self) {
        self.0.seek_to_first();
    }
    fn seek_to_last(&mut self) {
        self.0.seek_to_last();
    }
    fn seek(&mut self, target: &[u8]) {
        self.0.seek(target);
    }
    fn seek_for_prev(&mut self, target: &[u8]) {
        self.0.seek_for_prev(target);
    }
    fn next(&mut self) {
        self.0.next();
    }
    fn prev(&mut self) {
        self.0.prev();
    }
    fn key(&self) -> Option<&[u8]> {
        self.0.key()
    }
    /// A value without a valid time is an error here.
    fn value(&self) -> Option<Result<&[u8]>> {
        Some(split(self.0.value()?).map(|(value, _)| value))
    }
    fn status(&self) -> Result<()> {
        self.0.status()
    }
    fn order(&self, left: &[u8], right: &[u8]) -> Ordering {
        self.0.order(left, right)
    }
}

/// Keys and values as [`Entries`], without their times.
///
/// Example: that of [`TtlIterator`](crate::TtlIterator).
pub type TtlEntries = Entries<TtlIterator>;
