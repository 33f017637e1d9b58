//! The builder of the Bloom filter of format 5 and later (`bloom_line`).
//!
//! Persisted: the bytes equal those of RocksDB with `optimize_filters_for_memory` off. With it on
//! the length is one of `size_class`'s and the probes follow the bits that a key really has.
//!
//! Thread safety: one owner.

use std::sync::Arc;

use pumice_base::Result;

use crate::bloom_line::{GOLDEN, LINE, MARKER, line_of};
use crate::dedup::KeyHashes;
use crate::reader::FilterReader;
use crate::settings::FilterBuildSettings;
use crate::size_class::RateBalance;
use crate::{Hold, METADATA_LEN, parts, rates, size_class, verify};

/// The largest data length; line numbers are 32-bit.
const MAX_DATA: u64 = 0xffff_ffc0;

/// Builds one filter after another from key hashes (`pumice_base::hash::hash64`).
#[derive(Clone, Debug)]
pub struct BloomBuilder {
    millibits_per_key: u32,
    optimize_for_memory: bool,
    detect_corruption: bool,
    hashes: KeyHashes<u64>,
    /// The balance that decides between size classes, and whether others share it.
    balance: (Arc<RateBalance>, Sharing),
}

/// How a balance is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sharing {
    /// Shared with other builders.
    Shared,
    /// Not shared.
    Own,
    /// Not shared, and no filter was built yet.
    Fresh,
}

impl BloomBuilder {
    /// A builder that spends `millibits_per_key / 1000` bits on a key; at least one bit.
    pub fn new(millibits_per_key: u32, settings: &FilterBuildSettings) -> Self {
        BloomBuilder {
            millibits_per_key: millibits_per_key.max(1000),
            optimize_for_memory: settings.optimize_for_memory,
            detect_corruption: settings.detect_corruption,
            hashes: KeyHashes::default(),
            balance: (Arc::default(), Sharing::Fresh),
        }
    }

    /// From now on sizes are balanced with those of all builders that use `balance`.
    pub fn share_balance(&mut self, balance: Arc<RateBalance>) {
        self.balance = (balance, Sharing::Shared);
    }

    /// The length of data, a multiple of `unit`, with a suitable size class, for a target of
    /// `target` bytes. `rate` tells the false-positive rate at a length.
    pub(crate) fn choose_len(
        &mut self,
        target: usize,
        unit: usize,
        rate: impl Fn(usize) -> f64,
    ) -> usize {
        let (balance, sharing) = &mut self.balance;
        let offset = match sharing {
            Sharing::Fresh => size_class::dice(&self.hashes),
            Sharing::Own | Sharing::Shared => 0.0,
        };
        if *sharing == Sharing::Fresh {
            *sharing = Sharing::Own;
        }
        size_class::choose(target, unit, (balance, offset), rate)
    }

    /// The entries added since the last filter, to add more.
    #[inline]
    pub fn hashes_mut(&mut self) -> &mut KeyHashes<u64> {
        &mut self.hashes
    }
    /// The entries added since the last filter.
    #[inline]
    pub fn hashes(&self) -> &KeyHashes<u64> {
        &self.hashes
    }

    /// Size of a filter of `entries` entries, before a size class is chosen.
    pub fn space(&self, entries: usize) -> usize {
        self.data_len(entries) + METADATA_LEN
    }

    /// How many entries a filter of at most `bytes` bytes serves.
    pub fn approximate_entries(&self, bytes: usize) -> usize {
        // No filter is larger, and the product stays below 2^64.
        let data = (bytes.saturating_sub(METADATA_LEN) / LINE * LINE) as u64;
        (data.min(MAX_DATA) * 8000 / u64::from(self.millibits_per_key)) as usize
    }

    fn data_len(&self, entries: usize) -> usize {
        let bits = (entries as u64).saturating_mul(u64::from(self.millibits_per_key));
        let bytes = (bits.saturating_add(7999) / 8000).min(MAX_DATA);
        bytes.next_multiple_of(LINE as u64) as usize
    }

    /// Length of the data and number of probes of the filter to build.
    fn shape(&mut self) -> (usize, u8) {
        let entries = self.hashes.len();
        let target = self.data_len(entries);
        let actual =
            |len: usize| (len as u64 * 8000 / entries as u64).min(u64::from(u32::MAX)) as u32;
        if !self.optimize_for_memory {
            // Below the configured bits only where the length hit its maximum.
            return (target, num_probes(self.millibits_per_key.min(actual(target))));
        }
        let len = self.choose_len(target, LINE, |len| {
            let bits = len as f64 * 8.0 / entries as f64;
            rates::cache_local(bits, num_probes(actual(len)))
        });
        let len = len.min(MAX_DATA as usize);
        (len, num_probes(actual(len)))
    }

    /// The filter of the entries added since the last call; empty if there are none.
    ///
    /// # Errors
    /// `Corruption` if memory has changed since an entry was added and `detect_corruption` is set;
    /// the entries are gone then too.
    pub fn finish(&mut self) -> Result<Vec<u8>> {
        self.finish_within(&mut |_| true)
    }

    /// As [`crate::FilterBuilder::finish_within`]; nothing depends on the answer.
    pub(crate) fn finish_within(&mut self, hold: Hold<'_>) -> Result<Vec<u8>> {
        if self.hashes.is_empty() {
            return Ok(Vec::new());
        }
        let (data_len, probes) = self.shape();
        hold(data_len + METADATA_LEN + sorting_bytes(data_len / LINE, &self.hashes));
        let mut filter = vec![0; data_len + METADATA_LEN];
        let (lines, metadata) = filter.as_chunks_mut::<LINE>();
        set_all(lines, &self.hashes, probes);
        metadata.copy_from_slice(&[MARKER, 0, probes, 0, 0]);
        let checked = self.check(&filter);
        self.hashes.clear();
        checked.map(|()| filter)
    }

    /// The entries are what they were when added, and all of them are in `filter`.
    pub(crate) fn check(&self, filter: &[u8]) -> Result<()> {
        if !self.detect_corruption {
            return Ok(());
        }
        let reader = FilterReader::new(filter);
        verify::verify(&self.hashes, |hash| reader.may_match_hash(filter, hash))
    }
    pub(crate) fn optimizes_for_memory(&self) -> bool {
        self.optimize_for_memory
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

/// Lines of a filter that the second-level cache may be expected to hold: a mebibyte.
const CACHED_LINES: usize = 1 << 14;
/// Lines of a part of a larger filter.
const LOG2_PART_LINES: u32 = 12;

/// How many hashes of a filter of more lines are sorted at once, and into how many parts.
fn sorting(lines: usize, hashes: &KeyHashes<u64>) -> (usize, usize) {
    // Several hashes of each line at once, whatever the size; the copy is a part of the hashes.
    ((hashes.len() / 4).clamp(1 << 18, 1 << 20), lines.div_ceil(1 << LOG2_PART_LINES))
}

/// What sorting takes.
fn sorting_bytes(lines: usize, hashes: &KeyHashes<u64>) -> usize {
    if lines <= CACHED_LINES {
        return 0;
    }
    let (at_once, parts) = sorting(lines, hashes);
    parts::bytes(hashes, at_once, parts)
}

/// Sets the bits of all hashes. The iterations are independent, so the processor overlaps the
/// misses on the lines as long as there are few.
fn set_all(lines: &mut [[u8; LINE]], hashes: &KeyHashes<u64>, probes: u8) {
    if lines.len() <= CACHED_LINES {
        return hashes.chunks().for_each(|hashes| set_each(lines, hashes, probes));
    }
    let count = lines.len() as u32;
    let (at_once, parts) = sorting(lines.len(), hashes);
    let part_of = |hash: u64| line_of(hash, count) >> LOG2_PART_LINES;
    let all = parts::visit_by_part(hashes, at_once, parts, part_of, |sorted| {
        set_each(lines, sorted, probes);
        true
    });
    debug_assert!(all, "no visit refuses");
}

/// Sets the bits of hashes in their order; the usual numbers of probes get unrolled loops.
fn set_each(lines: &mut [[u8; LINE]], hashes: &[u64], probes: u8) {
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
        let (words, _) = lines[line_of(hash, count)].as_chunks_mut::<8>();
        let mut x = (hash >> 32) as u32;
        for _ in 0..probes {
            let bit = x >> 23;
            let word = &mut words[(bit >> 6) as usize];
            *word = (u64::from_le_bytes(*word) | 1 << (bit & 63)).to_le_bytes();
            x = x.wrapping_mul(GOLDEN);
        }
    }
}
