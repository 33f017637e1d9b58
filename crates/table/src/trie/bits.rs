//! The bit vectors of a trie block (docs/format/trie_index.md#bit-vectors).
//!
//! ```text
//! bits: u64 ‖ ones: u64 ‖ words ‖ ranks ‖ hints of ones ‖ hints of zeros
//! ```
//!
//! Only the words say anything; the rest is for searches in the stored form. It is written as
//! RocksDB wants it, and must be right in what is read, but is not kept. Plain data.

use pumice_base::coding::{Decoder, put_fixed32, put_fixed64};
use pumice_base::narrow::len_u32;

use crate::trie::{get_padded, pad};

/// Bits per entry of the ranks, and ones or zeros per hint.
const SAMPLE_BITS: usize = 256;
const SAMPLE_WORDS: usize = SAMPLE_BITS / 64;

/// A vector of bits.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Bits {
    words: Vec<u64>,
    len: usize,
}

impl Bits {
    pub fn push(&mut self, bit: bool) {
        if self.len.is_multiple_of(64) {
            self.words.push(0);
        }
        if let Some(last) = self.words.last_mut() {
            *last |= u64::from(bit) << (self.len % 64);
        }
        self.len += 1;
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Requires `at < len`.
    #[inline]
    pub fn get(&self, at: usize) -> bool {
        self.words[at / 64] >> (at % 64) & 1 != 0
    }

    pub fn iter(&self) -> impl Iterator<Item = bool> + '_ {
        (0..self.len).map(|at| self.get(at))
    }

    pub fn ones(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// All bits of `others` after those of `self`.
    pub fn append(&mut self, others: &Bits) {
        others.iter().for_each(|bit| self.push(bit));
    }

    pub fn encode_to(&self, out: &mut Vec<u8>) {
        let ones = self.ones();
        put_fixed64(out, self.len as u64);
        put_fixed64(out, ones as u64);
        self.words.iter().for_each(|word| put_fixed64(out, *word));
        // Ones before each sample.
        let mut ranks = Vec::with_capacity(self.len / SAMPLE_BITS + 1);
        let mut rank = 0;
        for sample in 0..=self.len / SAMPLE_BITS {
            ranks.push(rank);
            let words = self.words.iter().skip(sample * SAMPLE_WORDS).take(SAMPLE_WORDS);
            rank += words.map(|word| word.count_ones() as usize).sum::<usize>();
        }
        ranks.iter().for_each(|rank| put_fixed32(out, len_u32(*rank)));
        pad(out);
        let zeros: Vec<_> = ranks.iter().enumerate().map(|(i, n)| i * SAMPLE_BITS - n).collect();
        put_hints(out, &ranks, ones);
        put_hints(out, &zeros, self.len - ones);
    }

    /// Takes a vector off `src`.
    pub fn decode(src: &mut Decoder<'_>) -> Result<Bits, &'static str> {
        let encoded = src.rest();
        let header = || "Bitvector: insufficient data for header";
        let bits = src.fixed64().ok_or_else(header)?;
        src.fixed64().ok_or_else(header)?;
        let len = u32::try_from(bits)
            .map_err(|_| "Bitvector: num_bits exceeds uint32_t range for rank LUT")?
            as usize;
        let words = src.bytes(len.div_ceil(64) * 8);
        let words = words.ok_or("Bitvector: insufficient data for words")?.as_chunks().0;
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        if !len.is_multiple_of(64) && words.last().is_some_and(|last| last >> (len % 64) != 0) {
            return Err("Bitvector: bits after the last");
        }
        let bits = Bits { words, len };
        let mut right = Vec::new();
        bits.encode_to(&mut right);
        if !encoded.starts_with(&right) {
            return Err("Bitvector: counts, rank LUT or select hints are wrong");
        }
        *src = Decoder::new(&encoded[right.len()..]);
        Ok(bits)
    }
}

/// For every 256th of `total` bits of a kind the sample in which it is; `before[i]` of them are
/// before sample `i`.
fn put_hints(out: &mut Vec<u8>, before: &[usize], total: usize) {
    for nth in (0..total).step_by(SAMPLE_BITS) {
        let sample = before.partition_point(|n| *n <= nth).saturating_sub(1);
        put_fixed32(out, len_u32(sample));
    }
    pad(out);
}

/// Bits that tell how many ones are before a place.
pub(super) struct Ranked {
    /// 64 bits, and the number of ones before them.
    words: Box<[(u64, u32)]>,
}

impl Ranked {
    pub fn new(bits: &Bits) -> Ranked {
        let mut ones = 0;
        let word = |word: &u64| {
            let before = ones;
            ones += word.count_ones();
            (*word, before)
        };
        Ranked { words: bits.words.iter().map(word).collect() }
    }

    /// The number of ones before `at` if the bit there is set. Requires `at < len`.
    #[inline]
    pub fn rank_of(&self, at: usize) -> Option<usize> {
        let (word, before) = self.words[at / 64];
        let bit = 1 << (at % 64);
        (word & bit != 0).then(|| before as usize + (word & (bit - 1)).count_ones() as usize)
    }

    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.words)
    }
}

/// `n` integers of 32 bits, and the padding after them.
pub(super) fn get_words(src: &mut Decoder<'_>, n: usize) -> Option<Vec<u32>> {
    let bytes = get_padded(src, n.checked_mul(4)?)?;
    Some(bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
}
