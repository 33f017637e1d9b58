//! Builds Ribbon filters, or Bloom filters where those are smaller or nothing else works.

use std::sync::Arc;

use pumice_base::Result;
use pumice_base::planted::{self, Bug};

use super::banding::Banding;
use super::{Layout, MARKER, ROWS, WORD, sizing, solve};
use crate::bloom::{self, BloomBuilder};
use crate::dedup::KeyHashes;
use crate::settings::FilterBuildSettings;
use crate::size_class::RateBalance;
use crate::{Hold, METADATA_LEN, rates};

/// Filters with fewer slots may be larger than Bloom filters.
const SMALL_SLOTS: usize = 1024;

/// Builds one filter after another from key hashes (`pumice_base::hash::hash64`).
///
/// RocksDB's choices: a Bloom filter is written instead for more than 950 million entries, where
/// it is smaller (only below 1024 slots), if no seed of 256 makes the equations solvable, and if
/// there is no memory for them ([`crate::FilterBuilder::finish_within`]).
///
/// Thread safety: one owner. While a filter is built it takes 20 bytes a slot besides the hashes.
#[derive(Clone, Debug)]
pub struct RibbonBuilder {
    one_in_rate: f64,
    /// The builder used where no Ribbon filter is built; holds the entries.
    bloom: BloomBuilder,
}

impl RibbonBuilder {
    /// Filters as precise as Bloom filters of `millibits_per_key / 1000` bits a key.
    pub fn new(millibits_per_key: u32, settings: &FilterBuildSettings) -> Self {
        let bits = f64::from(millibits_per_key) / 1000.0;
        let rate = rates::cache_local(bits, bloom::num_probes(millibits_per_key));
        RibbonBuilder {
            one_in_rate: 1.0 / rate,
            bloom: BloomBuilder::new(millibits_per_key, settings),
        }
    }

    /// As [`BloomBuilder::share_balance`].
    pub fn share_balance(&mut self, balance: Arc<RateBalance>) {
        self.bloom.share_balance(balance);
    }

    /// The entries added since the last filter, to add more.
    #[inline]
    pub fn hashes_mut(&mut self) -> &mut KeyHashes<u64> {
        self.bloom.hashes_mut()
    }
    /// The entries added since the last filter.
    #[inline]
    pub fn hashes(&self) -> &KeyHashes<u64> {
        self.bloom.hashes()
    }

    /// Size of a filter of `entries` entries, before a size class is chosen.
    pub fn space(&self, entries: usize) -> usize {
        match self.shape(entries) {
            _ if entries == 0 => 0,
            Some((_, data_len)) => data_len + METADATA_LEN,
            None => self.bloom.space(entries),
        }
    }

    /// How many entries a filter of at most `bytes` bytes serves.
    pub fn approximate_entries(&self, bytes: usize) -> usize {
        let data = bytes.saturating_sub(METADATA_LEN);
        let (slots, entries) = sizing::approximate_entries(data, self.one_in_rate);
        if slots < SMALL_SLOTS {
            entries.max(self.bloom.approximate_entries(bytes))
        } else {
            entries
        }
    }

    /// Slots and data bytes for `entries` entries, `None` for a Bloom filter.
    fn shape(&self, entries: usize) -> Option<(usize, usize)> {
        if entries == 0 || entries > sizing::MAX_ENTRIES {
            return None;
        }
        let slots = sizing::slots_for(entries);
        // Rounding goes up or down by a hash, so that the average over filters is right.
        let bias = self.hashes().first().map_or(0, |hash| (hash >> 32) as u32);
        let data_len = sizing::data_len(slots, self.one_in_rate, bias);
        let bloom_is_smaller =
            slots < SMALL_SLOTS && self.bloom.space(entries) < data_len + METADATA_LEN;
        (!bloom_is_smaller).then_some((slots, data_len))
    }

    /// The filter of the entries added since the last call; empty if there are none.
    ///
    /// # Errors
    /// As [`BloomBuilder::finish`].
    pub fn finish(&mut self) -> Result<Vec<u8>> {
        self.finish_within(&mut |_| true)
    }

    /// As [`crate::FilterBuilder::finish_within`]: a Bloom filter is built where the equations may
    /// not be held.
    pub(crate) fn finish_within(&mut self, hold: Hold<'_>) -> Result<Vec<u8>> {
        let hashes = self.hashes();
        let (Some(first), Some((slots, data_len))) = (hashes.first(), self.shape(hashes.len()))
        else {
            return self.bloom.finish_within(hold);
        };
        let equations = Banding::bytes(hashes, slots);
        if !hold(equations) {
            return self.bloom.finish_within(hold);
        }
        let Some((seed, banding)) = Banding::solvable(hashes, slots, first as u8) else {
            return self.bloom.finish_within(hold);
        };
        let blocks = slots / ROWS;
        let data_len = if self.bloom.optimizes_for_memory() {
            self.bloom.choose_len(data_len, WORD, |len| Layout::new(blocks, len / WORD).rate())
        } else {
            data_len
        };
        hold(equations + data_len + METADATA_LEN);
        let mut filter = vec![0; data_len + METADATA_LEN];
        let layout = Layout::new(blocks, data_len / WORD);
        solve::back_substitute(&banding, &layout, &mut filter[..data_len]);
        filter[data_len] = MARKER;
        filter[data_len + 1] = if planted::is(Bug::RibbonFirstSeed) { first as u8 } else { seed };
        filter[data_len + 2..].copy_from_slice(&(blocks as u32).to_le_bytes()[..3]);
        let checked = self.bloom.check(&filter);
        self.hashes_mut().clear();
        checked.map(|()| filter)
    }
}
