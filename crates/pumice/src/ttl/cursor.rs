//! Cursors and iterators over values that expire: those of the database, without the times.
//!
//! Thread safety: as those of the database.

use std::ops::{Deref, DerefMut};

use pumice_base::Result;

use super::{TIME_BYTES, split};
use crate::read::entries::Entries;
use crate::read::iterator::DbIterator;

/// A cursor: moved through the [`DbIterator`] that it dereferences to; `value` is without its time.
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

/// Keys and values as [`Entries`], without their times.
#[derive(Debug)]
#[must_use = "nothing is read before it is iterated over"]
pub struct TtlEntries(pub(super) Entries);

fn entry(item: Result<(Vec<u8>, Vec<u8>)>) -> Result<(Vec<u8>, Vec<u8>)> {
    let (key, mut value) = item?;
    let bytes = split(&value)?.0.len();
    value.truncate(bytes);
    Ok((key, value))
}

impl Iterator for TtlEntries {
    type Item = Result<(Vec<u8>, Vec<u8>)>;
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(entry)
    }
}

impl DoubleEndedIterator for TtlEntries {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(entry)
    }
}
