//! Searches an index block in its encoded form, for a lookup that is not expected to be followed by
//! another: decoding the block would cost more than it saves.
//!
//! Restart points are searched by bisection, then the entries of one interval one after another;
//! nothing is allocated unless entries share key bytes.
//!
//! Detected: damage of the entries on the path, restart points that are out of order or between
//! entries where the search ends. Entries skipped there are before the target and the final one is
//! not, so the keys on both sides are in order too.
//!
//! Not detected: disorder of other keys, and overlapping blocks, which decoding reports. So the
//! caller has verified the block's checksum. If that was computed over unordered keys, a lookup may
//! miss a key where an iterator reports Corruption.
//!
//! Thread safety: borrows the block, immutable. Invariant: every length is checked against the
//! block before anything is taken from it, so that damage yields an error or a wrong position,
//! never a panic.

use std::cmp::Ordering;

use pumice_base::InternalKeyComparator;
use pumice_base::coding::Decoder;
use pumice_base::key::{InternalKey, UserKey};

use super::IndexEncoding;
use super::decode::{Decoded, Parsed, entries_end, parse_plain, take_entry};
use crate::handle::BlockHandle;

/// An index block that is not decoded.
#[derive(Clone, Copy)]
pub(crate) struct RawIndex<'a> {
    data: &'a [u8],
    /// Where the entries end and the restart points begin.
    end: usize,
    encoding: IndexEncoding,
}

/// An entry of a raw index block, or the end after the last one.
pub(crate) struct RawPosition<'a> {
    index: RawIndex<'a>,
    /// The entry if `at` is before the end.
    entry: Parsed,
    at: usize,
    next: usize,
    /// The entry's key if `copied`; otherwise it is contiguous in the block.
    key: Vec<u8>,
    copied: bool,
}

impl<'a> RawIndex<'a> {
    /// The index in an uncompressed block.
    ///
    /// # Errors
    /// What is wrong with the layout.
    pub(crate) fn new(data: &'a [u8], encoding: IndexEncoding) -> Decoded<Self> {
        if u32::try_from(data.len()).is_err() {
            return Err("index block too large");
        }
        let end = entries_end(data).ok_or("restart array too large")?;
        Ok(RawIndex { data, end, encoding })
    }

    /// The first entry whose separator is at or after internal key `target`.
    ///
    /// # Errors
    /// What is wrong with an entry on the path.
    pub(crate) fn seek(
        self,
        cmp: &InternalKeyComparator,
        target: InternalKey<'_>,
    ) -> Decoded<RawPosition<'a>> {
        let restarts = self.data[self.end..self.data.len() - 4].as_chunks::<4>().0;
        let mut found = RawPosition {
            index: self,
            entry: Parsed::default(),
            at: self.end,
            next: 0,
            key: Vec::new(),
            copied: false,
        };
        if self.end == 0 {
            return Ok(found);
        }
        let (mut lo, mut hi) = (0, restarts.len());
        while lo < hi {
            let mid = lo + (hi - lo) / 2;
            found.restart(u32::from_le_bytes(restarts[mid]) as usize)?;
            if found.compare(cmp, target).is_lt() { lo = mid + 1 } else { hi = mid }
        }
        // Entries after restart point `lo` are not before the target, those up to the one before it
        // are.
        let before = lo.checked_sub(1).map(|i| restarts[i]);
        let end = restarts.get(lo).map_or(self.end, |at| u32::from_le_bytes(*at) as usize);
        found.restart(before.map_or(0, |at| u32::from_le_bytes(at) as usize))?;
        if before.is_some() {
            found.advance()?;
        }
        while found.at < end {
            if found.compare(cmp, target).is_ge() {
                return Ok(found);
            }
            found.advance()?;
        }
        if found.at == end { Ok(found) } else { Err("restart points out of order") }
    }
}

impl<'a> RawPosition<'a> {
    /// The handle here; `None` at the end.
    #[inline]
    pub(crate) fn handle(&self) -> Option<BlockHandle> {
        (self.at < self.index.end).then_some(self.entry.handle)
    }

    /// As [`super::IndexBlock::begins_above`], for the entry here.
    ///
    /// # Errors
    /// What is wrong with the first key.
    #[inline]
    pub(crate) fn begins_above(
        &self,
        cmp: &InternalKeyComparator,
        user_key: UserKey<'_>,
    ) -> Decoded<bool> {
        if !self.index.encoding.first_keys {
            return Ok(false);
        }
        let first = self.entry.first_user_key(self.index.data)?;
        Ok(cmp.user.compare_without_timestamp(UserKey::new(first), user_key).is_gt())
    }

    /// Goes to the next entry.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn advance(&mut self) -> Decoded<()> {
        let RawIndex { data, end, encoding } = self.index;
        self.at = self.next;
        if self.at >= end {
            return Ok(());
        }
        let IndexEncoding { user_keys, delta_handles, first_keys } = encoding;
        if user_keys
            && delta_handles
            && !first_keys
            && let Some((entry, next)) = parse_plain(data, self.at, end)
        {
            (self.entry, self.next, self.copied) = (entry, next, false);
            return Ok(());
        }
        let mut src = Decoder::new(&data[self.at..end]);
        let (shared, suffix, entry) = take_entry(&mut src, end, encoding, &self.entry)?;
        if shared > 0 {
            if !self.copied {
                self.key.clear();
                self.key.extend_from_slice(self.entry.key(data));
            }
            self.key.truncate(shared);
            self.key.extend_from_slice(suffix);
        }
        self.copied = shared > 0;
        self.entry = entry;
        self.next = end - src.rest().len();
        Ok(())
    }

    /// Goes to the restart point at `at`.
    #[inline]
    fn restart(&mut self, at: usize) -> Decoded<()> {
        if at >= self.index.end {
            return Err("restart point outside the index block");
        }
        // No entry before it whose key it could share.
        self.entry = Parsed::default();
        self.next = at;
        self.advance()
    }

    /// Compares the separator here with an internal key.
    #[inline]
    fn compare(&self, cmp: &InternalKeyComparator, target: InternalKey<'_>) -> Ordering {
        let key = if self.copied { self.key.as_slice() } else { self.entry.key(self.index.data) };
        if self.index.encoding.user_keys {
            cmp.user.compare(UserKey::new(key), target.user_key())
        } else {
            cmp.compare(InternalKey::new(key), target)
        }
    }
}
