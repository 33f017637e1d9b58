//! The Bloom filter of a memtable: of user keys, of their prefixes, or of both.
//!
//! It is one array of bits, cut into lines of 64 bytes. A key has six bits in one line, two in each
//! of three words, so an addition and a query touch one cache line. The array has its final size
//! when it is made; the system gives it zeroed pages as they are touched.
//!
//! Thread safety: queries from anywhere at any time; additions are exclusive (`add`) or concurrent
//! (`add_concurrent`), as those of the memtable. All accesses are relaxed: a reader that may see an
//! entry has learnt of its sequence number or its node by an acquiring load, and the bits were set
//! before either was released.
//!
//! Invariants: (1) bits are set and never cleared; (2) a key is added before its entry can be
//! found, so that the filter never denies an existing entry; (3) a line is eight atomic integers.
//!
//! Keys are distinguished by their bytes: under a custom comparator for which different bytes can
//! be the same key it may deny one of them, as the filters of tables do.

use pumice_base::narrow::{len_u32, low_u32};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use pumice_base::extractor::Extractor;
use pumice_base::hash::{fast_range32, hash64};

/// Words of a key, two of its bits in each.
const WORDS_PER_KEY: u32 = 3;
/// Spreads a hash over all bits of a product, whose upper ones say which bits a key has.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// What a memtable's filter holds.
#[derive(Clone, Default)]
pub struct BloomOptions {
    /// Size, bytes; rounded up to lines of 64. 0: no filter.
    pub bytes: usize,
    /// Prefixes of the keys that have one.
    pub prefix: Option<Extractor>,
    /// The keys themselves.
    pub whole_keys: bool,
}

/// A cache line of bits.
#[repr(C, align(64))]
struct Line([AtomicU64; 8]);

/// See the head.
pub(crate) struct Bloom {
    lines: Box<[Line]>,
    prefix: Option<Extractor>,
    whole_keys: bool,
}

/// Where the bits of a hash are.
#[derive(Clone, Copy)]
struct Probe {
    line: usize,
    pattern: u64,
}

impl Probe {
    #[inline]
    fn new(hash: u64, lines: usize) -> Self {
        let line = fast_range32(low_u32(hash >> 32), len_u32(lines)) as usize;
        Probe { line, pattern: hash.wrapping_mul(SPREAD) }
    }

    /// The place of word `n` in the line, and the two bits there. Uses the upper 39 bits.
    #[inline]
    fn word(self, n: u32) -> (usize, u64) {
        let start = (self.pattern >> 61) as usize;
        let first = self.pattern >> (55 - 12 * n) & 63;
        let second = self.pattern >> (49 - 12 * n) & 63;
        ((start + n as usize) & 7, 1 << first | 1 << second)
    }
}

impl Bloom {
    /// An empty filter; none if it would have no room or no content.
    pub(crate) fn new(options: BloomOptions) -> Option<Box<Self>> {
        let BloomOptions { bytes, prefix, whole_keys } = options;
        if bytes == 0 || prefix.is_none() && !whole_keys {
            return None;
        }
        let count = bytes.div_ceil(size_of::<Line>()).min(u32::MAX as usize);
        // SAFETY: a line is integers and nothing else, for which zero is a value (invariant 3).
        let lines = unsafe { Box::new_zeroed_slice(count).assume_init() };
        Some(Box::new(Bloom { lines, prefix, whole_keys }))
    }

    /// Memory held.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.lines)
    }

    /// Adds a key. Must not overlap another addition.
    #[inline]
    pub(crate) fn add(&self, user_key: &[u8]) {
        self.each_hash(user_key, |hash| {
            self.each_word(hash, |word, bits| word.store(word.load(Relaxed) | bits, Relaxed));
        });
    }

    /// As `add`, from any number of threads at once.
    pub(crate) fn add_concurrent(&self, user_key: &[u8]) {
        self.each_hash(user_key, |hash| {
            self.each_word(hash, |word, bits| {
                // Most bits of a prefix are set already: then the line need not be taken from other
                // CPUs.
                if word.load(Relaxed) & bits != bits {
                    word.fetch_or(bits, Relaxed);
                }
            });
        });
    }

    #[inline]
    fn each_hash(&self, user_key: &[u8], mut add: impl FnMut(u64)) {
        if let Some(extractor) = &self.prefix
            && let Some(prefix) = extractor.prefix(user_key)
        {
            add(hash64(prefix));
        }
        if self.whole_keys {
            add(hash64(user_key));
        }
    }

    #[inline]
    fn each_word(&self, hash: u64, mut set: impl FnMut(&AtomicU64, u64)) {
        let probe = Probe::new(hash, self.lines.len());
        let Line(words) = &self.lines[probe.line];
        for n in 0..WORDS_PER_KEY {
            let (at, bits) = probe.word(n);
            set(&words[at], bits);
        }
    }

    /// False only if no entry has user key `user_key`.
    #[inline]
    pub(crate) fn may_hold(&self, user_key: &[u8]) -> bool {
        if self.whole_keys {
            return self.has(hash64(user_key));
        }
        self.may_hold_prefix(user_key)
    }

    /// False only if no entry has the prefix of `user_key`. True if it has none.
    #[inline]
    pub(crate) fn may_hold_prefix(&self, user_key: &[u8]) -> bool {
        match self.prefix.as_ref().and_then(|extractor| extractor.prefix(user_key)) {
            Some(prefix) => self.has(hash64(prefix)),
            None => true,
        }
    }

    #[inline]
    fn has(&self, hash: u64) -> bool {
        let probe = Probe::new(hash, self.lines.len());
        let Line(words) = &self.lines[probe.line];
        // All words are in one cache line: checking all is cheaper than stopping early.
        let missing = (0..WORDS_PER_KEY).fold(0, |missing, n| {
            let (at, bits) = probe.word(n);
            missing | (bits & !words[at].load(Relaxed))
        });
        missing == 0
    }

    /// The prefixes in it are those of `extractor`.
    pub(crate) fn has_prefixes_of(&self, extractor: &Extractor) -> bool {
        self.prefix.as_ref().is_some_and(|own| own.is_same(extractor))
    }
}

#[cfg(test)]
mod tests;
