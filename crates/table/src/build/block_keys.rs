//! The internal keys of the data block under construction, back to back.
//!
//! Work per key that does not have to be done key by key (hashing for filters and hash indexes) is
//! done once per block over these, where the iterations overlap. The arena also is where the last
//! key lives that the next one is compared with, so keeping the keys costs no copy.
//!
//! One owner. Invariants: (1) `ends` ascends and its last element is `bytes.len()`; (2) every key
//! has at least its trailer.

use pumice_base::dbformat::{TRAILER_LEN, user_key};

/// Internal keys in the order they were added.
#[derive(Debug, Default)]
pub(crate) struct BlockKeys {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl BlockKeys {
    /// Appends a key.
    #[inline]
    pub fn push(&mut self, ikey: &[u8]) {
        debug_assert!(ikey.len() >= TRAILER_LEN, "internal key shorter than its trailer");
        self.bytes.extend_from_slice(ikey);
        self.ends.push(self.bytes.len() as u32);
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
        match self.ends.len() {
            0 => &[],
            n => self.get(n - 1),
        }
    }

    /// The user keys, in order; versions of a key repeat it.
    pub fn user_keys(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|i| user_key(self.get(i)))
    }

    /// Forgets the keys and keeps their memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}
