//! The Bloom filter of format 5 and later: all bits of a key in one 64-byte line.
//!
//! ```text
//! line = low32(hash) scaled to the lines; x = high32(hash)
//! each probe: bit (x >> 23) of the line; x *= GOLDEN
//! metadata: ff 00 probes 00 00
//! ```
//!
//! Persisted: the bytes equal those of RocksDB with `optimize_filters_for_memory` off.

use pumice_base::hash::fast_range32;

use crate::METADATA_LEN;
use crate::dedup::KeyHashes;

pub(crate) const LINE: usize = 64;
pub(crate) const MAX_PROBES: u8 = 30;
/// First metadata byte.
pub(crate) const MARKER: u8 = 0xff;
const GOLDEN: u32 = 0x9e37_79b9;
/// The largest data length; line numbers are 32-bit.
const MAX_DATA: u64 = 0xffff_ffc0;

/// Builds one filter after another from key hashes (`pumice_base::hash::hash64`).
#[derive(Clone, Debug)]
pub struct BloomBuilder {
    millibits_per_key: u32,
    hashes: KeyHashes<u64>,
}

impl BloomBuilder {
    /// A builder that spends `millibits_per_key / 1000` bits on a key; at least one bit.
    pub fn new(millibits_per_key: u32) -> Self {
        BloomBuilder {
            millibits_per_key: millibits_per_key.max(1000),
            hashes: KeyHashes::default(),
        }
    }

    /// Adds a key by its hash, unless it repeats the last one.
    #[inline]
    pub fn add_hash(&mut self, hash: u64) {
        self.hashes.add(hash);
    }
    /// Adds a key and its prefix; see [`KeyHashes::add_with_alt`].
    #[inline]
    pub fn add_hash_and_alt(&mut self, hash: u64, alt: u64) {
        self.hashes.add_with_alt(hash, alt);
    }
    /// Number of distinct entries added since the last filter.
    pub fn len(&self) -> usize {
        self.hashes.len()
    }
    /// Nothing was added since the last filter.
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }
    /// Heap bytes held, for accounting.
    pub fn memory_bytes(&self) -> usize {
        self.hashes.memory_bytes()
    }

    /// Size of a filter of `entries` entries.
    pub fn space(&self, entries: usize) -> usize {
        self.data_len(entries) + METADATA_LEN
    }

    /// How many entries a filter of at most `bytes` bytes serves.
    pub fn approximate_entries(&self, bytes: usize) -> usize {
        let data = bytes.saturating_sub(METADATA_LEN) / LINE * LINE;
        (data as u64 * 8000 / u64::from(self.millibits_per_key)) as usize
    }

    fn data_len(&self, entries: usize) -> usize {
        let bits = (entries as u64).saturating_mul(u64::from(self.millibits_per_key));
        let bytes = (bits.saturating_add(7999) / 8000).min(MAX_DATA);
        bytes.next_multiple_of(LINE as u64) as usize
    }

    /// The filter of the entries added since the last call; empty if there are none.
    pub fn finish(&mut self) -> Vec<u8> {
        if self.hashes.is_empty() {
            return Vec::new();
        }
        let data_len = self.data_len(self.hashes.len());
        // Below the configured bits only where the length hit its maximum.
        let actual = (data_len as u64 * 8000 / self.hashes.len() as u64).min(u64::from(u32::MAX));
        let probes = num_probes(self.millibits_per_key.min(actual as u32));
        let mut filter = vec![0; data_len + METADATA_LEN];
        let (lines, metadata) = filter.as_chunks_mut::<LINE>();
        set_all(lines, self.hashes.as_slice(), probes);
        metadata.copy_from_slice(&[MARKER, 0, probes, 0, 0]);
        self.hashes.clear();
        filter
    }
}

/// The number of probes with the lowest false-positive rate at that many bits a key.
pub(crate) fn num_probes(millibits_per_key: u32) -> u8 {
    const LIMITS: [u32; 12] =
        [2080, 3580, 5100, 6640, 8300, 10070, 11720, 14001, 16050, 18300, 22001, 25501];
    match LIMITS.iter().position(|&limit| millibits_per_key <= limit) {
        Some(at) => at as u8 + 1,
        None if millibits_per_key > 50_000 => 24,
        None => ((millibits_per_key - 1) / 2000 - 1) as u8,
    }
}

/// Sets the bits of all hashes. The iterations are independent, so the processor overlaps the
/// misses on the lines; the usual numbers of probes get unrolled loops.
fn set_all(lines: &mut [[u8; LINE]], hashes: &[u64], probes: u8) {
    match probes {
        5 => set_with(lines, hashes, 5),
        6 => set_with(lines, hashes, 6),
        7 => set_with(lines, hashes, 7),
        _ => set_with(lines, hashes, probes),
    }
}

#[inline(always)]
fn set_with(lines: &mut [[u8; LINE]], hashes: &[u64], probes: u8) {
    let count = lines.len() as u32;
    for &hash in hashes {
        let line = &mut lines[fast_range32(hash as u32, count) as usize];
        let mut x = (hash >> 32) as u32;
        for _ in 0..probes {
            let bit = x >> 23;
            line[(bit >> 3) as usize] |= 1 << (bit & 7);
            x = x.wrapping_mul(GOLDEN);
        }
    }
}

/// The line of a hash among `lines`.
#[inline(always)]
pub(crate) fn line_of(hash: u64, lines: u32) -> usize {
    fast_range32(hash as u32, lines) as usize
}

/// All bits of `hash` are set in its line. One branch at the end: which probe fails is random, so
/// leaving early would cost a misprediction, more than the remaining probes of a loaded line.
#[inline(always)]
pub(crate) fn line_matches(line: &[u8; LINE], hash: u64, probes: u8) -> bool {
    match probes {
        6 => probe(line, hash, 6),
        _ => probe(line, hash, probes),
    }
}

#[inline(always)]
fn probe(line: &[u8; LINE], hash: u64, probes: u8) -> bool {
    let mut x = (hash >> 32) as u32;
    let mut all = 1u8;
    for _ in 0..probes {
        let bit = x >> 23;
        all &= line[(bit >> 3) as usize] >> (bit & 7);
        x = x.wrapping_mul(GOLDEN);
    }
    all & 1 != 0
}
