//! Collects key hashes and drops adjacent duplicates.
//!
//! Keys arrive sorted, so versions of a key and keys of a prefix are neighbours, and comparing
//! with the last few hashes finds them all; keys themselves are not kept. Invariants: (1) the last
//! hash is that of the last key added, since an alternative goes before its key; (2) `checksum` is
//! the exclusive or of all hashes as they were added, so [`KeyHashes::is_intact`] finds one that
//! memory has changed since.
//!
//! Thread safety: one owner. It does not hash: the kinds of filter do, each its own way.

use std::ops::BitXorAssign;

/// Hashes of a chunk: enough for the cost of taking one to vanish, few enough for the last one
/// to be a small part of a large filter's.
const CHUNK: usize = 8192;

/// Distinct neighbouring hashes in the order they were added.
#[derive(Clone, Debug)]
pub struct KeyHashes<H> {
    /// Chunks of `CHUNK` hashes each, so that a table of a million keys copies none of them to
    /// make room, and holds no room that it does not use.
    full: Vec<Vec<H>>,
    /// The hashes after `pending`; not empty unless all is.
    last: Vec<H>,
    previous_alt: Option<H>,
    checksum: H,
}

impl<H: Default> Default for KeyHashes<H> {
    fn default() -> Self {
        let (full, last) = (Vec::new(), Vec::new());
        KeyHashes { full, last, previous_alt: None, checksum: H::default() }
    }
}

impl<H: Copy + Eq + Default + BitXorAssign> KeyHashes<H> {
    #[inline(always)]
    fn push(&mut self, hash: H) {
        self.checksum ^= hash;
        if self.last.len() == self.last.capacity() {
            self.make_room();
        }
        self.last.push(hash);
    }

    /// Room for a hash at least.
    #[cold]
    fn make_room(&mut self) {
        if self.last.len() >= CHUNK {
            self.full.push(std::mem::replace(&mut self.last, Vec::with_capacity(CHUNK)));
        } else {
            let capacity = (self.last.len() * 2).clamp(64, CHUNK);
            self.last.reserve_exact(capacity - self.last.len());
        }
    }

    /// Adds the hash of a key unless it is the last one.
    #[inline]
    pub fn add(&mut self, key: H) {
        if self.last.last() != Some(&key) {
            self.push(key);
        }
    }

    /// Adds a key together with an alternative, its prefix. To add a prefix alone, [`add`] may be
    /// used for a filter's first entry and `add_with_alt(p, p)` for its last.
    ///
    /// [`add`]: KeyHashes::add
    #[inline]
    pub fn add_with_alt(&mut self, key: H, alt: H) {
        let last = self.last.last().copied();
        // Remembered even if the alternative is not added: the first key may be its own prefix.
        let previous_alt = self.previous_alt.replace(alt);
        if alt != key && Some(alt) != last && Some(alt) != previous_alt {
            self.push(alt);
        }
        if Some(key) != last && Some(key) != previous_alt {
            self.push(key);
        }
    }

    /// As [`KeyHashes::add`] for each. The loop holds nothing but hashing, a comparison and a
    /// store, so the processor works on several keys at once by itself; computing groups of hashes
    /// first gained nothing without prefixes and lost a quarter with them, when measured.
    #[inline]
    pub fn add_all(&mut self, keys: impl Iterator<Item = H>) {
        keys.for_each(|key| self.add(key));
    }

    /// As [`KeyHashes::add_with_alt`] for each pair with an alternative and [`KeyHashes::add`] for
    /// each without.
    #[inline]
    pub fn add_all_with_alts(&mut self, pairs: impl Iterator<Item = (H, Option<H>)>) {
        pairs.for_each(|(key, alt)| match alt {
            Some(alt) => self.add_with_alt(key, alt),
            None => self.add(key),
        });
    }

    /// The hashes added so far, in pieces.
    pub fn chunks(&self) -> impl Iterator<Item = &[H]> {
        self.full.iter().chain([&self.last]).map(Vec::as_slice)
    }
    /// The hashes added so far.
    pub fn iter(&self) -> impl Iterator<Item = H> {
        self.chunks().flatten().copied()
    }
    /// The hash that was added first.
    pub fn first(&self) -> Option<H> {
        self.full.first().unwrap_or(&self.last).first().copied()
    }
    /// The hash that was added last.
    pub fn last(&self) -> Option<H> {
        self.last.last().copied()
    }
    /// Number of hashes.
    #[inline]
    pub fn len(&self) -> usize {
        self.full.len() * CHUNK + self.last.len()
    }
    /// Nothing was added.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.last.is_empty()
    }
    /// Heap bytes held, for accounting.
    pub fn memory_bytes(&self) -> usize {
        (self.full.len() * CHUNK + self.last.capacity()) * size_of::<H>()
    }
    /// The hashes are those that were added; see invariant 2.
    pub fn is_intact(&self) -> bool {
        let mut checksum = H::default();
        self.iter().for_each(|hash| checksum ^= hash);
        checksum == self.checksum
    }
    /// Forgets the hashes and keeps the memory of a chunk.
    pub fn clear(&mut self) {
        self.full.clear();
        self.last.clear();
        self.previous_alt = None;
        self.checksum = H::default();
    }

    /// Changes a hash without updating the checksum, as a memory fault would. For tests.
    pub(crate) fn damage(&mut self, at: usize, with: H) {
        let mut hashes = self.full.iter_mut().flatten().chain(&mut self.last);
        if let Some(hash) = hashes.nth(at) {
            *hash ^= with;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_base::hash::hash64;

    /// A sequence of additions and the counts that RocksDB has after them.
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
        assert!(hashes.iter().eq([hash64(b"efg"), hash64(b"efg42")]));
    }

    /// A first key that equals its prefix keeps the prefix from being added again.
    #[test]
    fn first_key_is_its_own_prefix() {
        let mut hashes = KeyHashes::default();
        for key in [1u32, 2, 3, 3, 3, 4] {
            hashes.add_with_alt(key, 1);
        }
        assert!(hashes.iter().eq([1, 2, 3, 4]));
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

    /// Batches equal single additions, wherever the groups end.
    #[test]
    fn batches_equal_single_additions() {
        let mut rng = pumice_base::random::Rng::new(0xded);
        for round in 0..200 {
            let n = rng.uniform(100);
            let keys: Vec<u64> = (0..n).map(|_| rng.uniform(3)).collect();
            let alts: Vec<_> =
                keys.iter().map(|&key| (rng.uniform(4) > 0).then_some(key / 2)).collect();
            let (mut one, mut batch) = (KeyHashes::default(), KeyHashes::default());
            if round % 2 == 0 {
                keys.iter().for_each(|&key| one.add(key));
                let (head, tail) = keys.split_at(keys.len() / 3);
                batch.add_all(head.iter().copied());
                batch.add_all(tail.iter().copied());
            } else {
                for (&key, &alt) in keys.iter().zip(&alts) {
                    match alt {
                        Some(alt) => one.add_with_alt(key, alt),
                        None => one.add(key),
                    }
                }
                batch.add_all_with_alts(keys.iter().copied().zip(alts));
            }
            assert!(one.iter().eq(batch.iter()));
            assert!(one.is_intact() && batch.is_intact());
        }
    }

    /// Chunks hold all hashes in their order, and take at most one chunk of memory more than they
    /// need.
    #[test]
    fn chunks_hold_all() {
        let mut hashes = KeyHashes::default();
        for number in 0..3 * CHUNK as u64 + 5 {
            assert_eq!(hashes.len() as u64, number);
            hashes.add(number);
            assert_eq!((hashes.first(), hashes.last()), (Some(0), Some(number)));
            // The first of a chunk may repeat the last of the chunk before.
            hashes.add(number);
            let bound = (hashes.len() + CHUNK) * size_of::<u64>();
            assert!(hashes.memory_bytes() <= bound, "{number}");
        }
        assert!(hashes.iter().eq(0..3 * CHUNK as u64 + 5));
        assert_eq!(hashes.chunks().map(<[u64]>::len).collect::<Vec<_>>(), [CHUNK, CHUNK, CHUNK, 5]);
        assert!(hashes.is_intact());
        hashes.damage(CHUNK + 1, 1);
        assert!(!hashes.is_intact());
        hashes.clear();
        assert!(hashes.is_empty() && hashes.first().is_none());
    }

    #[test]
    fn a_changed_hash_shows() {
        let mut hashes = KeyHashes::default();
        hashes.add_all(0..100u64);
        assert!(hashes.is_intact());
        hashes.damage(7, 1 << 40);
        assert!(!hashes.is_intact());
        hashes.clear();
        assert!(hashes.is_intact());
    }
}
