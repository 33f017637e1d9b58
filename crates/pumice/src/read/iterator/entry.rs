//! The entry under a cursor, if there is one, and the status.
//!
//! Thread safety: as the cursor. Nothing here moves it. Only `write_time` reads files and suspends.
//! Invariant: key and value are of one entry, and are lent until the cursor moves.

use std::cmp::Ordering;

use pumice_base::{Error, InternalIterator, Result, UserKey, WideColumn, wide_columns};

use super::{DbIterator, Place};
use crate::callbacks::check_not_forked;
use crate::read::source::Source;
use crate::read::write_time::write_time;

impl DbIterator {
    /// The cursor is on a key.
    #[inline]
    pub fn valid(&self) -> bool {
        self.at.place != Place::Nowhere
    }

    /// The user key under the cursor; None if it is not `valid`.
    #[inline]
    pub fn key(&self) -> Option<&[u8]> {
        match self.at.place {
            Place::Inner | Place::Observed => Some(self.inner.key().user_key().as_bytes()),
            Place::Saved => Some(&self.buffers.saved_key),
            Place::Nowhere => None,
        }
    }

    /// The value under the cursor; None if it is not `valid`.
    #[inline]
    pub fn value(&self) -> Option<&[u8]> {
        match self.at.place {
            Place::Inner => Some(self.inner.value()),
            Place::Observed => Some(self.used_value()),
            Place::Saved => Some(&self.buffers.saved_value),
            Place::Nowhere => None,
        }
    }

    /// The columns under the cursor by name ascending: those of an entity, or one, with the empty
    /// name, of a plain value. None if it is not `valid`. They are decoded in each call.
    pub fn columns(&self) -> Option<Vec<WideColumn<'_>>> {
        if self.at.place == Place::Saved && !self.buffers.entity.is_empty() {
            // It was already decoded when it was saved; an error would have ended the cursor then.
            return wide_columns::decode(&self.buffers.entity).ok();
        }
        Some(vec![WideColumn::of_plain(self.value()?)])
    }

    /// The key and the value under the cursor; None if it is not `valid`.
    #[inline]
    pub fn item(&self) -> Option<(&[u8], &[u8])> {
        Some((self.key()?, self.value()?))
    }

    /// The timestamp of the entry under the cursor: empty if keys have none, None if it is not
    /// `valid`.
    pub fn timestamp(&self) -> Option<&[u8]> {
        let Some(look) = &self.limits.look else { return self.valid().then_some(&[]) };
        match self.at.place {
            Place::Nowhere => None,
            _ if look.shows_versions() => self.key().map(|key| look.timestamp_of_version(key)),
            Place::Saved => Some(&self.buffers.saved_timestamp),
            Place::Inner | Place::Observed => self.inner.current_source().map(Source::timestamp),
        }
    }

    /// The latest time, seconds since 1970, that is known to be no later than when the value under
    /// the cursor was written; of a merged value, when the record was that it begins with. It is
    /// known of entries that were written with `preserve_internal_time_seconds`, and as exactly as
    /// RocksDB's property `rocksdb.iterator.write-time`: 0 for older ones than any sample, and for
    /// those that have lost their sequence number; None if nothing is known, or the cursor is not
    /// `valid`. Looks the key up again: may read files and suspend.
    ///
    /// # Errors
    /// I/O errors and Corruption of tables.
    pub fn write_time(&self) -> Result<Option<u64>> {
        check_not_forked()?;
        let Some(key) = self.key() else { return Ok(None) };
        let stored = self
            .limits
            .look
            .as_ref()
            .map(|look| look.stored_key(key, self.timestamp().unwrap_or_default(), false));
        let key = UserKey::new(stored.as_deref().unwrap_or(key));
        write_time(&self.cf, &self.super_version, key, self.limits.sequence)
    }

    /// Keeps the timestamp of the entry that `inner` is on: the cursor will show its value.
    #[inline]
    pub(super) fn save_timestamp(&mut self) {
        if self.limits.look.is_some()
            && let Some(source) = self.inner.current_source()
        {
            self.buffers.saved_timestamp.clear();
            self.buffers.saved_timestamp.extend_from_slice(source.timestamp());
        }
    }

    /// The same of an operand.
    ///
    /// # Errors
    /// NotSupported if versions are shown.
    pub(super) fn save_timestamp_of_operand(&mut self) -> Result<()> {
        if self.limits.look.as_ref().is_some_and(|look| look.shows_versions()) {
            let text = "merge operands in a read with iter_start_ts";
            return Err(Error::not_supported(text));
        }
        self.save_timestamp();
        Ok(())
    }

    /// The same; the value, which merges may change, may have to be fetched.
    #[inline]
    pub(super) fn save_timestamp_of_base(&mut self) {
        if self.limits.look.is_some() {
            self.save_timestamp();
            self.note_blob_time();
        }
    }

    /// Keeps the timestamp of the entry that `inner` is on: its value may have to be fetched.
    pub(super) fn note_blob_time(&mut self) {
        if self.limits.look.is_some()
            && let Some(source) = self.inner.current_source()
        {
            self.buffers.blob_timestamp.clear();
            self.buffers.blob_timestamp.extend_from_slice(source.timestamp());
        }
    }

    /// Compares `left` and `right` by the column family's order.
    pub(crate) fn order(&self, left: &[u8], right: &[u8]) -> Ordering {
        self.comparator.compare(UserKey::new(left), UserKey::new(right))
    }

    /// The first error since the last seek; the end of the data is not an error.
    ///
    /// # Errors
    /// Corruption or an I/O error of a file that was read.
    pub fn status(&self) -> Result<()> {
        self.status.clone()?;
        self.inner.status()
    }

    pub(super) fn used_value(&self) -> &[u8] {
        self.note_used();
        self.inner.value()
    }

    /// `inner` is on an operand of the key.
    pub(super) fn keep_operand(&mut self) {
        self.note_used();
        self.buffers.operands.push(self.inner.value());
    }

    /// The value of `inner` is returned or used for the returned one.
    pub(super) fn note_used(&self) {
        if self.measured {
            self.inner.note_use();
        }
    }
}

impl std::fmt::Debug for DbIterator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("DbIterator");
        shown.field("column_family", &self.cf.name).field("key", &self.key());
        shown.field("status", &self.status).finish_non_exhaustive()
    }
}
