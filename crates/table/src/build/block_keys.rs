//! The internal keys of the data block under construction, back to back.
//!
//! Work per key that does not have to be done key by key (hashing for filters and hash indexes,
//! counting) is done once per block over these, where the iterations overlap. The arena also holds
//! the last key, with which the next one is compared, so keeping the keys costs no copy.
//!
//! ```text
//! | (length, 4 bytes ‖ key) of each key | room |
//! 0                                     used   bytes.len()
//! ```
//!
//! One owner. Invariants: (1) the lengths up to `used` are those of the keys; (2) every key has at
//! least its trailer; (3) the last key has the `last_len` bytes before `used`, 0 when there is no
//! key; (4) the room is initialised, so that a key is copied into a slice of known length; (5)
//! `ends` has an element per key that there was at the last `index`.

use std::ops::Range;

use pumice_base::key::{InternalKey, TRAILER_LEN};
use pumice_base::narrow::len_u32;

use crate::build::pipeline::worker::release_large;
use crate::prefix::copy_key;

/// Bytes of a key's length.
const LEN: usize = 4;
/// From this many bytes on the room is not doubled for one more key.
const LARGE: usize = 1 << 20;

/// How much room is made when the first `end` bytes are needed. Never more than positions can
/// count: while there is room, [`BlockKeys::is_full`] need not be checked.
fn room_for(end: usize) -> usize {
    let room = if end < LARGE { (2 * end).max(1024) } else { end + end / 2 };
    room.min(u32::MAX as usize)
}

/// Internal keys in the order they were added.
#[derive(Debug, Default)]
pub(crate) struct BlockKeys {
    bytes: Vec<u8>,
    used: usize,
    last_len: usize,
    /// Number of keys. Its type differs from the others': otherwise the compiler merged two into
    /// one vector.
    len: u32,
    ends: Vec<u32>,
    /// Bytes of the timestamp at the end of each user key.
    timestamp: usize,
}

/// Room for one more key.
pub(crate) struct NextKey<'a> {
    /// The last key, empty if there is none.
    pub last: &'a [u8],
    to: &'a mut [u8],
    used: &'a mut usize,
    last_len: &'a mut usize,
    len: &'a mut u32,
}

impl NextKey<'_> {
    /// The key, of the requested length, becomes the next one.
    ///
    /// # Panics
    /// If it is of another length.
    #[inline(always)]
    pub fn push(self, ikey: &[u8]) {
        *self.last_len = ikey.len();
        *self.used += self.to.len();
        *self.len += 1;
        put_key(self.to, ikey);
    }
}

/// Fills `to` with the key and its length.
#[inline(always)]
fn put_key(to: &mut [u8], ikey: &[u8]) {
    let (len_to, key_to) = to.split_at_mut(LEN);
    len_to.copy_from_slice(&len_u32(ikey.len()).to_le_bytes());
    copy_key(key_to, ikey);
}

/// The user key without its timestamp of that many bytes.
pub(crate) fn without_timestamp(ikey: &[u8], timestamp: usize) -> &[u8] {
    let key = InternalKey::new(ikey).user_key().as_bytes();
    &key[..key.len().saturating_sub(timestamp)]
}

/// Keys with their lengths, one after another.
struct Keys<'a>(&'a [u8]);

impl<'a> Iterator for Keys<'a> {
    type Item = &'a [u8];

    #[inline(always)]
    fn next(&mut self) -> Option<&'a [u8]> {
        let (len, rest) = self.0.split_first_chunk()?;
        let (key, rest) = rest.split_at(u32::from_le_bytes(*len) as usize);
        self.0 = rest;
        Some(key)
    }
}

impl BlockKeys {
    /// No keys yet, of which `user_keys` leaves out timestamps of that many bytes.
    pub fn with_timestamps(timestamp: usize) -> Self {
        BlockKeys { timestamp, ..BlockKeys::default() }
    }

    /// Room for one more key of `bytes` bytes, if there is some left: each bound is checked here,
    /// once.
    #[inline(always)]
    pub fn next_usual(&mut self, bytes: usize) -> Option<NextKey<'_>> {
        let BlockKeys { bytes: all, used, last_len, len, .. } = self;
        let (before, room) = all.split_at_mut_checked(*used)?;
        let last = &before[before.len().checked_sub(*last_len)?..];
        Some(NextKey { last, to: room.get_mut(..LEN + bytes)?, used, last_len, len })
    }

    /// Appends a key.
    pub fn push(&mut self, ikey: &[u8]) {
        debug_assert!(ikey.len() >= TRAILER_LEN, "internal key shorter than its trailer");
        let (start, end) = (self.used, self.used + LEN + ikey.len());
        if end > self.bytes.len() {
            self.bytes.resize(room_for(end), 0);
        }
        put_key(&mut self.bytes[start..end], ikey);
        self.len += 1;
        (self.last_len, self.used) = (ikey.len(), end);
    }

    /// Whether a key of `bytes` bytes would take all of them beyond what their positions can count.
    /// Only a block of gibibytes, or of very long keys that share nearly everything, gets there.
    #[inline]
    pub fn is_full(&self, bytes: usize) -> bool {
        self.used + LEN + bytes > u32::MAX as usize
    }

    /// Number of keys.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Bytes of all keys.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.used - LEN * self.len()
    }

    /// No key.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn all(&self) -> Keys<'_> {
        Keys(&self.bytes[..self.used])
    }

    /// The first key; empty if there is none.
    pub fn first(&self) -> &[u8] {
        self.all().next().unwrap_or_default()
    }

    /// The last key; empty if there is none.
    #[inline]
    pub fn last(&self) -> &[u8] {
        &self.bytes[self.used - self.last_len..self.used]
    }

    /// The user keys, in order; versions of a key repeat it.
    pub fn user_keys(&self) -> impl Iterator<Item = &[u8]> {
        self.all().map(|key| without_timestamp(key, self.timestamp))
    }

    /// Indexes the keys so far, for access to one in the middle.
    pub fn index(&mut self) {
        let mut end = 0;
        self.ends.clear();
        for key in Keys(&self.bytes[..self.used]) {
            end += LEN + key.len();
            self.ends.push(len_u32(end));
        }
    }

    /// Key number `i`. Requires `index`.
    ///
    /// # Panics
    /// If there is no such key.
    #[inline]
    pub fn get(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] as usize };
        &self.bytes[start + LEN..self.ends[i] as usize]
    }

    /// The user keys of a range, in order. Requires `index` unless it begins with the first one.
    ///
    /// # Panics
    /// If it begins after the last one.
    #[inline]
    pub fn user_keys_in(&self, range: Range<usize>) -> impl Iterator<Item = &[u8]> {
        let start = if range.start == 0 { 0 } else { self.ends[range.start - 1] as usize };
        Keys(&self.bytes[start..self.used])
            .take(range.len())
            .map(|key| without_timestamp(key, self.timestamp))
    }

    /// Forgets the keys and keeps their memory.
    pub fn clear(&mut self) {
        self.used = 0;
        self.last_len = 0;
        self.len = 0;
        release_large(&mut self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys are added without checking `is_full` while there is room.
    #[pumice_test_macros::test]
    fn there_is_no_room_that_positions_cannot_count() {
        let most = u32::MAX as usize;
        for end in [1, 600, LARGE - 1, LARGE, 400 << 20, 3 << 30, most - 1, most] {
            assert!((end..=most).contains(&room_for(end)), "{end}: {}", room_for(end));
        }
    }

    #[pumice_test_macros::test]
    fn keys_come_back_in_order() {
        let mut keys = BlockKeys::default();
        assert!(keys.is_empty() && keys.last().is_empty());
        let list: Vec<Vec<u8>> = (0..40u8).map(|n| vec![n; 8 + usize::from(n)]).collect();
        for round in 0..2 {
            for (i, key) in list.iter().enumerate() {
                match keys.next_usual(key.len()) {
                    Some(next) => next.push(key),
                    None => keys.push(key),
                }
                assert_eq!(keys.last(), key, "round {round}");
                assert_eq!(keys.len(), i + 1);
            }
            keys.index();
            assert_eq!(keys.first(), list[0]);
            assert!(list.iter().enumerate().all(|(i, key)| keys.get(i) == key));
            assert_eq!(keys.bytes(), list.iter().map(Vec::len).sum::<usize>());
            assert!(keys.user_keys().eq(list.iter().map(|key| without_timestamp(key, 0))));
            for from in 0..=list.len() {
                let part = list[from..].iter().map(|key| without_timestamp(key, 0));
                assert!(keys.user_keys_in(from..list.len()).eq(part));
            }
            assert_eq!(keys.len(), list.len());
            keys.clear();
            assert!(keys.is_empty() && keys.last().is_empty());
        }
    }
}
