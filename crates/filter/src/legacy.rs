//! The Bloom filter of table formats up to 4, with a 32-bit hash.
//!
//! ```text
//! line = hash % lines; step = hash rotated right by 17
//! each probe: bit (hash mod line bits) of the line; hash += step
//! metadata: probes, fixed32 lines
//! ```
//!
//! Persisted: the bytes equal those of RocksDB on machines with 64-byte cache lines. Readers
//! accept every power of two as the line's size. `optimize_filters_for_memory` changes nothing
//! here, as in RocksDB; `detect_filter_construct_corruption` does, which RocksDB leaves out.
//!
//! Thread safety: one owner.

use pumice_base::Result;
use pumice_base::hash::hash32;
use pumice_base::planted::{self, Bug};

use crate::dedup::KeyHashes;
use crate::settings::FilterBuildSettings;
use crate::{METADATA_LEN, verify};

const LINE: usize = 64;
const SEED: u32 = 0xbc9f_1d34;
const MAX_BITS: u64 = 0xffff_0000;

/// The hash of a key in these filters.
#[inline]
pub(crate) fn key_hash(key: &[u8]) -> u32 {
    hash32(key, SEED)
}

/// Builds one filter after another from key hashes ([`LegacyBloomBuilder::hash`]).
#[derive(Clone, Debug)]
pub struct LegacyBloomBuilder {
    bits_per_key: u32,
    detect_corruption: bool,
    hashes: KeyHashes<u32>,
}

impl LegacyBloomBuilder {
    /// A builder that spends `bits_per_key` bits on a key.
    pub fn new(bits_per_key: u32, settings: &FilterBuildSettings) -> Self {
        LegacyBloomBuilder {
            bits_per_key: bits_per_key.max(1),
            detect_corruption: settings.detect_corruption,
            hashes: KeyHashes::default(),
        }
    }

    /// The hash of a key in these filters.
    #[inline]
    pub fn hash(key: &[u8]) -> u32 {
        key_hash(key)
    }
    /// The entries added since the last filter, to add more.
    #[inline]
    pub fn hashes_mut(&mut self) -> &mut KeyHashes<u32> {
        &mut self.hashes
    }
    /// The entries added since the last filter.
    #[inline]
    pub fn hashes(&self) -> &KeyHashes<u32> {
        &self.hashes
    }

    /// Size of a filter of `entries` entries.
    pub fn space(&self, entries: usize) -> usize {
        self.lines(entries) as usize * LINE + METADATA_LEN
    }

    /// How many entries a filter of at most `bytes` bytes serves.
    pub fn approximate_entries(&self, bytes: usize) -> usize {
        // No filter is larger.
        let lines = (bytes.saturating_sub(METADATA_LEN) / LINE).min(MAX_BITS as usize / 8 / LINE);
        // The number of lines is odd.
        let lines = if lines.is_multiple_of(2) { lines.saturating_sub(1) } else { lines };
        lines * LINE * 8 / self.bits_per_key as usize
    }

    fn lines(&self, entries: usize) -> u32 {
        let bits = (entries as u64).saturating_mul(u64::from(self.bits_per_key)).min(MAX_BITS);
        // An odd number makes more of the hash's bits count in the remainder.
        bits.div_ceil(8 * LINE as u64) as u32 | 1
    }

    /// The filter of the entries added since the last call; empty if there are none.
    ///
    /// # Errors
    /// As [`crate::BloomBuilder::finish`].
    pub fn finish(&mut self) -> Result<Vec<u8>> {
        if self.hashes.is_empty() {
            return Ok(Vec::new());
        }
        let lines = self.lines(self.hashes.len());
        let probes = (f64::from(self.bits_per_key) * 0.69).clamp(1.0, 30.0) as u8;
        let mut filter = vec![0; lines as usize * LINE + METADATA_LEN];
        let (data, metadata) = filter.as_chunks_mut::<LINE>();
        for hash in self.hashes.iter() {
            let line = &mut data[(hash % lines) as usize];
            for bit in Probes::new(hash, probes, 9) {
                line[bit >> 3] |= 1 << (bit & 7);
            }
        }
        metadata[0] = probes;
        metadata[1..].copy_from_slice(&lines.to_le_bytes());
        let checked = self.check(&filter);
        self.hashes.clear();
        checked.map(|()| filter)
    }

    fn check(&self, filter: &[u8]) -> Result<()> {
        let (Some(metadata), true) = (filter.last_chunk(), self.detect_corruption) else {
            return Ok(());
        };
        let data = &filter[..filter.len() - METADATA_LEN];
        let params = LegacyParams::parse(*metadata, data.len());
        verify::verify(&self.hashes, |hash| params.is_none_or(|p| p.may_match_hash(data, hash)))
    }
}

/// The bits of a hash within its line of `1 << log2_bits` bits.
struct Probes {
    hash: u32,
    left: u8,
    mask: u32,
    step: u32,
}

impl Probes {
    #[inline(always)]
    fn new(hash: u32, probes: u8, log2_bits: u32) -> Self {
        Probes { hash, left: probes, mask: (1 << log2_bits) - 1, step: hash.rotate_right(17) }
    }
}

impl Iterator for Probes {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        let bit = self.hash & self.mask;
        self.hash = self.hash.wrapping_add(self.step);
        Some(bit as usize)
    }
}

/// Parameters of a stored filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LegacyParams {
    lines: u32,
    log2_line: u32,
    probes: u8,
}

impl LegacyParams {
    /// Parses the metadata of a filter with `data_len` data bytes; `None` if they contradict.
    pub(crate) fn parse(metadata: [u8; METADATA_LEN], data_len: usize) -> Option<Self> {
        let [probes, rest @ ..] = metadata;
        let lines = u32::from_le_bytes(rest);
        let line = data_len.checked_div(lines as usize)?;
        let exact = line.is_power_of_two() && line * lines as usize == data_len;
        // A line of 2^28 bytes already has more bits than the hash can tell apart.
        (exact && line < 1 << 28).then(|| LegacyParams { lines, log2_line: line.ilog2(), probes })
    }

    /// All bits of `key` are set.
    pub(crate) fn may_match(&self, data: &[u8], key: &[u8]) -> bool {
        self.may_match_hash(data, key_hash(key))
    }

    fn may_match_hash(&self, data: &[u8], hash: u32) -> bool {
        let missing = u32::from(planted::is(Bug::LegacyLinesOffByOne) && self.lines > 1);
        let start = ((hash % (self.lines - missing)) as usize) << self.log2_line;
        let Some(line) = data.get(start..start + (1 << self.log2_line)) else { return true };
        Probes::new(hash, self.probes, self.log2_line + 3)
            .all(|bit| line[bit >> 3] & (1 << (bit & 7)) != 0)
    }
}
