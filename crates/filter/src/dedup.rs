//! Collects key hashes and drops adjacent duplicates.
//!
//! Keys arrive sorted, so versions of a key and keys of a prefix are neighbours, and comparing
//! with the last few hashes finds them all; keys themselves are not kept. Invariant 1: the last
//! hash is that of the last key added, since an alternative goes before its key.

/// Distinct neighbouring hashes in the order they were added.
#[derive(Clone, Debug)]
pub struct KeyHashes<H> {
    hashes: Vec<H>,
    previous_alt: Option<H>,
}

impl<H> Default for KeyHashes<H> {
    fn default() -> Self {
        KeyHashes { hashes: Vec::new(), previous_alt: None }
    }
}

impl<H: Copy + Eq> KeyHashes<H> {
    /// Adds the hash of a key unless it is the last one.
    #[inline]
    pub fn add(&mut self, key: H) {
        if self.hashes.last() != Some(&key) {
            self.hashes.push(key);
        }
    }

    /// Adds a key together with an alternative, its prefix. To add a prefix alone, [`add`] may be
    /// used for a filter's first entry and `add_with_alt(p, p)` for its last.
    ///
    /// [`add`]: KeyHashes::add
    #[inline]
    pub fn add_with_alt(&mut self, key: H, alt: H) {
        let last = self.hashes.last().copied();
        // Remembered even if the alternative is not added: the first key may be its own prefix.
        let previous_alt = self.previous_alt.replace(alt);
        if alt != key && Some(alt) != last && Some(alt) != previous_alt {
            self.hashes.push(alt);
        }
        if Some(key) != last && Some(key) != previous_alt {
            self.hashes.push(key);
        }
    }

    /// The hashes added so far.
    pub fn as_slice(&self) -> &[H] {
        &self.hashes
    }
    /// Number of hashes.
    pub fn len(&self) -> usize {
        self.hashes.len()
    }
    /// Nothing was added.
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }
    /// Heap bytes held, for accounting.
    pub fn memory_bytes(&self) -> usize {
        self.hashes.capacity() * size_of::<H>()
    }
    /// Forgets the hashes and keeps their memory.
    pub fn clear(&mut self) {
        self.hashes.clear();
        self.previous_alt = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_base::hash::hash64;

    /// RocksDB's published sequence of additions and counts (feature spec section 3.4).
    #[test]
    fn published_sequence() {
        let mut hashes = KeyHashes::default();
        let steps: [(&str, Option<&str>, usize); 12] = [
            ("abc", None, 1),
            ("abc1", Some("abc"), 2),
            ("bcd", Some("bcd"), 3),
            ("cde-1", Some("cde"), 5),
            ("cde", Some("cde"), 5),
            ("cde1", Some("cde"), 6),
            ("def-1", Some("def"), 8),
            ("def", Some("def"), 8),
            ("def$$", None, 9),
            ("def$$", None, 9),
            ("efg42", Some("efg"), 11),
            ("efg", Some("efg"), 11),
        ];
        for (key, alt, count) in steps {
            let key_hash = hash64(key.as_bytes());
            match alt {
                Some(alt) => hashes.add_with_alt(key_hash, hash64(alt.as_bytes())),
                None => hashes.add(key_hash),
            }
            assert_eq!(hashes.len(), count, "after {key} {alt:?}");
        }
        hashes.clear();
        assert!(hashes.is_empty());
        hashes.add_with_alt(hash64(b"efg42"), hash64(b"efg"));
        assert_eq!(hashes.as_slice(), [hash64(b"efg"), hash64(b"efg42")]);
    }

    /// A first key that equals its prefix keeps the prefix from being added again.
    #[test]
    fn first_key_is_its_own_prefix() {
        let mut hashes = KeyHashes::default();
        for key in [1u32, 2, 3, 3, 3, 4] {
            hashes.add_with_alt(key, 1);
        }
        assert_eq!(hashes.as_slice(), [1, 2, 3, 4]);
    }

    /// Versions of one key and a prefix shared by many keys count once each.
    #[test]
    fn counts_are_keys_plus_prefixes() {
        let (mut whole, mut both) = (KeyHashes::default(), KeyHashes::default());
        for prefix in 0..2u64 {
            for key in 0..5u64 {
                for _version in 0..3 {
                    whole.add(prefix * 100 + key + 10);
                    both.add_with_alt(prefix * 100 + key + 10, prefix * 100);
                }
            }
        }
        assert_eq!((whole.len(), both.len()), (10, 12));
    }
}
