//! The builder for a policy, a table format and a level.
//!
//! Keys are better added a data block at a time ([`FilterBuilder::add_keys`]): the kind of filter
//! is looked up once for all of them, and the hashes of neighbouring keys overlap in the processor.
//!
//! Thread safety: one owner.

use std::sync::Arc;

use pumice_base::Result;
use pumice_base::hash::hash64;

use crate::Hold;
use crate::bloom::BloomBuilder;
use crate::legacy::LegacyBloomBuilder;
use crate::ribbon::RibbonBuilder;
use crate::size_class::RateBalance;

/// Builds filters of any kind from keys.
#[derive(Clone, Debug)]
pub enum FilterBuilder {
    /// Bloom filters of format 5 and later.
    Bloom(BloomBuilder),
    /// Bloom filters of formats up to 4.
    Legacy(LegacyBloomBuilder),
    /// Ribbon filters, of any format.
    Ribbon(RibbonBuilder),
}

/// The same expression for each kind.
macro_rules! each {
    ($self:expr, $builder:ident => $value:expr) => {
        match $self {
            FilterBuilder::Bloom($builder) => $value,
            FilterBuilder::Legacy($builder) => $value,
            FilterBuilder::Ribbon($builder) => $value,
        }
    };
}

impl FilterBuilder {
    /// Adds a user key, unless it repeats the last one.
    #[inline]
    pub fn add_key(&mut self, key: &[u8]) {
        self.add_hash(self.hash(key));
    }
    /// Adds a user key and its prefix; see [`crate::KeyHashes::add_with_alt`].
    #[inline]
    pub fn add_key_and_alt(&mut self, key: &[u8], alt: &[u8]) {
        self.add_hash_and_alt(self.hash(key), self.hash(alt));
    }

    /// [`FilterBuilder::add_key`] for each.
    #[inline]
    pub fn add_keys<'a>(&mut self, keys: impl Iterator<Item = &'a [u8]>) {
        match self {
            FilterBuilder::Bloom(builder) => builder.hashes_mut().add_all(keys.map(hash64)),
            FilterBuilder::Ribbon(builder) => builder.hashes_mut().add_all(keys.map(hash64)),
            FilterBuilder::Legacy(builder) => {
                builder.hashes_mut().add_all(keys.map(LegacyBloomBuilder::hash));
            }
        }
    }
    /// [`FilterBuilder::add_key_and_alt`] for each key with a prefix and
    /// [`FilterBuilder::add_key`] for each without.
    #[inline]
    pub fn add_keys_and_alts<'a>(
        &mut self,
        pairs: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    ) {
        match self {
            FilterBuilder::Bloom(builder) => {
                builder.hashes_mut().add_all_with_alts(pairs.map(hash64_pair));
            }
            FilterBuilder::Ribbon(builder) => {
                builder.hashes_mut().add_all_with_alts(pairs.map(hash64_pair));
            }
            FilterBuilder::Legacy(builder) => {
                let hash = LegacyBloomBuilder::hash;
                let pairs = pairs.map(|(key, alt)| (hash(key), alt.map(hash)));
                builder.hashes_mut().add_all_with_alts(pairs);
            }
        }
    }

    /// The hash of a key in this kind of filter, for [`FilterBuilder::add_hash`].
    #[inline]
    pub fn hash(&self, key: &[u8]) -> u64 {
        match self {
            FilterBuilder::Legacy(_) => u64::from(LegacyBloomBuilder::hash(key)),
            FilterBuilder::Bloom(_) | FilterBuilder::Ribbon(_) => hash64(key),
        }
    }
    /// [`FilterBuilder::add_key`] by the key's [`FilterBuilder::hash`].
    #[inline]
    pub fn add_hash(&mut self, hash: u64) {
        match self {
            FilterBuilder::Bloom(builder) => builder.hashes_mut().add(hash),
            FilterBuilder::Ribbon(builder) => builder.hashes_mut().add(hash),
            FilterBuilder::Legacy(builder) => builder.hashes_mut().add(hash as u32),
        }
    }
    /// [`FilterBuilder::add_key_and_alt`] by the [`FilterBuilder::hash`] of both.
    #[inline]
    pub fn add_hash_and_alt(&mut self, hash: u64, alt: u64) {
        match self {
            FilterBuilder::Bloom(builder) => builder.hashes_mut().add_with_alt(hash, alt),
            FilterBuilder::Ribbon(builder) => builder.hashes_mut().add_with_alt(hash, alt),
            FilterBuilder::Legacy(builder) => {
                builder.hashes_mut().add_with_alt(hash as u32, alt as u32);
            }
        }
    }

    /// Number of distinct entries added since the last filter.
    #[inline]
    pub fn len(&self) -> usize {
        each!(self, builder => builder.hashes().len())
    }
    /// Nothing was added since the last filter.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Size of a filter of `entries` entries, before a size class is chosen for it.
    pub fn space(&self, entries: usize) -> usize {
        each!(self, builder => builder.space(entries))
    }
    /// How many entries a filter of at most `bytes` bytes serves.
    pub fn approximate_entries(&self, bytes: usize) -> usize {
        each!(self, builder => builder.approximate_entries(bytes))
    }
    /// Heap bytes held between calls, for accounting.
    pub fn memory_bytes(&self) -> usize {
        each!(self, builder => builder.hashes().memory_bytes())
    }

    /// The filter of the entries added since the last call; empty if there are none, which matches
    /// nothing.
    ///
    /// # Errors
    /// `Corruption` if memory has changed since an entry was added and
    /// [`crate::FilterBuildSettings::detect_corruption`] is set. The entries are gone then too, and
    /// [`crate::ALWAYS_TRUE`] is the filter that stays right.
    pub fn finish(&mut self) -> Result<Vec<u8>> {
        each!(self, builder => builder.finish())
    }

    /// As [`FilterBuilder::finish`], for a caller that accounts for memory: `hold` is told how many
    /// bytes are about to be held besides those of [`FilterBuilder::memory_bytes`], and answers
    /// whether they may be. Only what a Ribbon filter takes more than a Bloom filter is given up,
    /// and a Bloom filter is built. Not called for filters of formats up to 4.
    ///
    /// # Errors
    /// As [`FilterBuilder::finish`].
    pub fn finish_within(&mut self, hold: Hold<'_>) -> Result<Vec<u8>> {
        match self {
            FilterBuilder::Bloom(builder) => builder.finish_within(hold),
            FilterBuilder::Ribbon(builder) => builder.finish_within(hold),
            FilterBuilder::Legacy(builder) => builder.finish(),
        }
    }

    /// From now on sizes are balanced with those of all builders that use `balance`
    /// (`optimize_filters_for_memory`). Without this the filters of this builder are balanced by
    /// themselves, and are a function of their entries and the settings.
    pub fn share_balance(&mut self, balance: Arc<RateBalance>) {
        match self {
            FilterBuilder::Bloom(builder) => builder.share_balance(balance),
            FilterBuilder::Ribbon(builder) => builder.share_balance(balance),
            // These have the size that the format prescribes.
            FilterBuilder::Legacy(_) => {}
        }
    }

    /// Forgets the entries added since the last filter and keeps their memory.
    pub fn forget_entries(&mut self) {
        each!(self, builder => builder.hashes_mut().clear());
    }

    /// Changes one bit of entry `at`, as a memory fault would: for tests of the detection.
    #[doc(hidden)]
    pub fn damage_entry(&mut self, at: usize) {
        match self {
            FilterBuilder::Bloom(builder) => builder.hashes_mut().damage(at, 1 << 33),
            FilterBuilder::Ribbon(builder) => builder.hashes_mut().damage(at, 1 << 33),
            FilterBuilder::Legacy(builder) => builder.hashes_mut().damage(at, 1 << 13),
        }
    }
}

#[inline]
fn hash64_pair((key, alt): (&[u8], Option<&[u8]>)) -> (u64, Option<u64>) {
    (hash64(key), alt.map(hash64))
}
