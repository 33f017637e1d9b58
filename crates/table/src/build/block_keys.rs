//! The internal keys of the data block under construction, back to back.
//!
//! Work per key that does not have to be done key by key (hashing for filters and hash indexes,
//! counting) is done once per block over these, where the iterations overlap. The arena also is
//! where the last key lives that the next one is compared with, so keeping the keys costs no copy.
//!
//! One owner. Invariants: (1) `ends` ascends and its last element is `len`, or `len` is 0; (2)
//! every key has at least its trailer; (3) the last key begins at `last_start`, which is 0 when
//! there is none; (4) `bytes` has room behind `len`, already initialised, so that a key is
//! copied into a slice of known length.

use pumice_base::dbformat::{TRAILER_LEN, user_key};

use crate::prefix::copy_short;

/// Internal keys in the order they were added.
#[derive(Debug, Default)]
pub(crate) struct BlockKeys {
    bytes: Vec<u8>,
    len: usize,
    ends: Vec<u32>,
    last_start: usize,
}

impl BlockKeys {
    /// Appends a key.
    #[inline]
    pub fn push(&mut self, ikey: &[u8]) {
        debug_assert!(ikey.len() >= TRAILER_LEN, "internal key shorter than its trailer");
        let (start, end) = (self.len, self.len + ikey.len());
        if end > self.bytes.len() {
            self.grow(end);
        }
        copy_short(&mut self.bytes[start..end], ikey);
        (self.last_start, self.len) = (start, end);
        self.ends.push(end as u32);
    }

    /// Makes room for `end` bytes.
    #[cold]
    fn grow(&mut self, end: usize) {
        self.bytes.resize((2 * end).max(1024), 0);
    }

    /// Number of keys.
    #[inline]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// No key.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all keys together.
    #[inline]
    pub fn total_bytes(&self) -> usize {
        self.len
    }

    /// Key number `i`.
    ///
    /// # Panics
    /// If there is no such key.
    #[inline]
    pub fn get(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] as usize };
        &self.bytes[start..self.ends[i] as usize]
    }

    /// The last key; empty if there is none.
    #[inline]
    pub fn last(&self) -> &[u8] {
        // There always is such a range; `get` spares the panic.
        self.bytes.get(self.last_start..self.len).unwrap_or(&[])
    }

    /// The keys, in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let key = &self.bytes[start..end as usize];
            start = end as usize;
            key
        })
    }

    /// The user keys, in order; versions of a key repeat it.
    pub fn user_keys(&self) -> impl Iterator<Item = &[u8]> {
        self.iter().map(user_key)
    }

    /// Forgets the keys and keeps their memory.
    pub fn clear(&mut self) {
        self.len = 0;
        self.ends.clear();
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
                keys.push(key);
                assert_eq!(keys.last(), key, "round {round}");
                assert_eq!(keys.get(i), key);
            }
            assert!(keys.iter().eq(list.iter().map(Vec::as_slice)));
            assert!(keys.user_keys().eq(list.iter().map(|key| user_key(key))));
            assert_eq!(keys.len(), list.len());
            assert_eq!(keys.total_bytes(), list.iter().map(Vec::len).sum::<usize>());
            keys.clear();
            assert!(keys.is_empty() && keys.last().is_empty() && keys.total_bytes() == 0);
        }
    }
}
