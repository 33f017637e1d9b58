//! The internal keys of the data block under construction, back to back.
//!
//! Work per key that does not have to be done key by key (hashing for filters and hash indexes,
//! counting) is done once per block over these, where the iterations overlap. The arena also is
//! where the last key lives that the next one is compared with, so keeping the keys costs no copy.
//!
//! One owner. Invariants: (1) the first `len` elements of `ends` ascend, and the last of them is
//! `used`; (2) every key has at least its trailer; (3) the last key begins at `last_start`, which
//! is 0 when there is none; (4) `bytes` has room behind `used` and `ends` behind `len`, already
//! initialised, so that a key is copied into a slice of known length.

use std::ops::Range;

use pumice_base::dbformat::{TRAILER_LEN, user_key};

use crate::prefix::copy_key;

/// Internal keys in the order they were added.
#[derive(Debug, Default)]
pub(crate) struct BlockKeys {
    bytes: Vec<u8>,
    used: usize,
    ends: Vec<u32>,
    len: usize,
    last_start: usize,
}

/// Room for one more key.
pub(crate) struct NextKey<'a> {
    /// The last key, empty if there is none.
    pub last: &'a [u8],
    to: &'a mut [u8],
    end_to: &'a mut u32,
    used: &'a mut usize,
    len: &'a mut usize,
    last_start: &'a mut usize,
}

impl<'a> NextKey<'a> {
    /// The key, of the length asked for, is the next one.
    #[inline(always)]
    pub fn push(self) -> UsualKey<'a> {
        *self.last_start = *self.used;
        *self.used += self.to.len();
        *self.len += 1;
        UsualKey { to: self.to, end_to: self.end_to, end: *self.used as u32 }
    }
}

/// A key to be filled in.
pub(crate) struct UsualKey<'a> {
    to: &'a mut [u8],
    end_to: &'a mut u32,
    end: u32,
}

impl UsualKey<'_> {
    /// Fills the key in.
    ///
    /// # Panics
    /// If it is of another length.
    #[inline(always)]
    pub fn fill(self, ikey: &[u8]) {
        *self.end_to = self.end;
        copy_key(self.to, ikey);
    }
}

impl BlockKeys {
    /// Room for one more key of `bytes` bytes, if there is some left: each bound is checked here,
    /// once.
    #[inline(always)]
    pub fn next_usual(&mut self, bytes: usize) -> Option<NextKey<'_>> {
        let BlockKeys { bytes: all, used, ends, len, last_start } = self;
        let (before, room) = all.split_at_mut_checked(*used)?;
        let (last, to) = (before.get(*last_start..)?, room.get_mut(..bytes)?);
        Some(NextKey { last, to, end_to: ends.get_mut(*len)?, used, len, last_start })
    }

    /// Appends a key.
    pub fn push(&mut self, ikey: &[u8]) {
        debug_assert!(ikey.len() >= TRAILER_LEN, "internal key shorter than its trailer");
        let (start, end) = (self.used, self.used + ikey.len());
        if end > self.bytes.len() {
            self.bytes.resize((2 * end).max(1024), 0);
        }
        if self.len == self.ends.len() {
            self.ends.resize((2 * self.len).max(64), 0);
        }
        copy_key(&mut self.bytes[start..end], ikey);
        self.ends[self.len] = end as u32;
        self.len += 1;
        (self.last_start, self.used) = (start, end);
    }

    /// Number of keys.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes of all keys.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.used
    }

    /// No key.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Key number `i`.
    ///
    /// # Panics
    /// If there is no such key.
    #[inline]
    pub fn get(&self, i: usize) -> &[u8] {
        let ends = &self.ends[..self.len];
        let start = if i == 0 { 0 } else { ends[i - 1] as usize };
        &self.bytes[start..ends[i] as usize]
    }

    /// The last key; empty if there is none.
    #[inline]
    pub fn last(&self) -> &[u8] {
        &self.bytes[self.last_start..self.used]
    }

    /// The user keys, in order; versions of a key repeat it.
    pub fn user_keys(&self) -> impl Iterator<Item = &[u8]> {
        self.user_keys_in(0..self.len)
    }

    /// The user keys of a range, in order.
    ///
    /// # Panics
    /// If there are not so many.
    #[inline]
    pub fn user_keys_in(&self, range: Range<usize>) -> impl Iterator<Item = &[u8]> {
        let ends = &self.ends[..self.len];
        let mut start = if range.start == 0 { 0 } else { ends[range.start - 1] as usize };
        ends[range].iter().map(move |&end| {
            let key = &self.bytes[start..end as usize];
            start = end as usize;
            user_key(key)
        })
    }

    /// Forgets the keys and keeps their memory.
    pub fn clear(&mut self) {
        self.used = 0;
        self.len = 0;
        self.last_start = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[pumice_test_macros::test]
    fn keys_come_back_in_order() {
        let mut keys = BlockKeys::default();
        assert!(keys.is_empty() && keys.last().is_empty());
        let list: Vec<Vec<u8>> = (0..40u8).map(|n| vec![n; 8 + usize::from(n)]).collect();
        for round in 0..2 {
            for (i, key) in list.iter().enumerate() {
                match keys.next_usual(key.len()) {
                    Some(next) => next.push().fill(key),
                    None => keys.push(key),
                }
                assert_eq!(keys.last(), key, "round {round}");
                assert_eq!(keys.get(i), key);
            }
            assert!(keys.user_keys().eq(list.iter().map(|key| user_key(key))));
            for from in 0..=list.len() {
                let part = list[from..].iter().map(|key| user_key(key));
                assert!(keys.user_keys_in(from..list.len()).eq(part));
            }
            assert_eq!(keys.len(), list.len());
            keys.clear();
            assert!(keys.is_empty() && keys.last().is_empty());
        }
    }
}
