//! The builder that a policy and a table format call for.

use pumice_base::hash::hash64;

use crate::bloom::BloomBuilder;
use crate::legacy::{LegacyBloomBuilder, key_hash};

/// Builds filters from keys in either format.
#[derive(Clone, Debug)]
pub enum FilterBuilder {
    /// Format 5 and later.
    Bloom(BloomBuilder),
    /// Formats up to 4.
    Legacy(LegacyBloomBuilder),
}

impl FilterBuilder {
    /// Adds a user key, unless it repeats the last one.
    #[inline]
    pub fn add_key(&mut self, key: &[u8]) {
        match self {
            FilterBuilder::Bloom(builder) => builder.add_hash(hash64(key)),
            FilterBuilder::Legacy(builder) => builder.add_key(key),
        }
    }
    /// The hash that this filter uses of a key.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> u64 {
        match self {
            FilterBuilder::Bloom(_) => hash64(key),
            FilterBuilder::Legacy(_) => u64::from(key_hash(key)),
        }
    }
    /// Adds a key by its [`FilterBuilder::hash`], unless it repeats the last one.
    #[inline]
    pub fn add_hash(&mut self, hash: u64) {
        match self {
            FilterBuilder::Bloom(builder) => builder.add_hash(hash),
            FilterBuilder::Legacy(builder) => builder.add_hash(hash as u32),
        }
    }
    /// Adds a key and its prefix by their hashes.
    #[inline]
    pub fn add_hash_and_alt(&mut self, hash: u64, alt: u64) {
        match self {
            FilterBuilder::Bloom(builder) => builder.add_hash_and_alt(hash, alt),
            FilterBuilder::Legacy(builder) => builder.add_hash_and_alt(hash as u32, alt as u32),
        }
    }
    /// Adds a user key and its prefix; see [`crate::KeyHashes::add_with_alt`].
    #[inline]
    pub fn add_key_and_alt(&mut self, key: &[u8], alt: &[u8]) {
        match self {
            FilterBuilder::Bloom(builder) => builder.add_hash_and_alt(hash64(key), hash64(alt)),
            FilterBuilder::Legacy(builder) => builder.add_key_and_alt(key, alt),
        }
    }
    /// Number of distinct entries added since the last filter.
    pub fn len(&self) -> usize {
        match self {
            FilterBuilder::Bloom(builder) => builder.len(),
            FilterBuilder::Legacy(builder) => builder.len(),
        }
    }
    /// Nothing was added since the last filter.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Size of a filter of `entries` entries.
    pub fn space(&self, entries: usize) -> usize {
        match self {
            FilterBuilder::Bloom(builder) => builder.space(entries),
            FilterBuilder::Legacy(builder) => builder.space(entries),
        }
    }
    /// How many entries a filter of at most `bytes` bytes serves.
    pub fn approximate_entries(&self, bytes: usize) -> usize {
        match self {
            FilterBuilder::Bloom(builder) => builder.approximate_entries(bytes),
            FilterBuilder::Legacy(builder) => builder.approximate_entries(bytes),
        }
    }
    /// Heap bytes held, for accounting.
    pub fn memory_bytes(&self) -> usize {
        match self {
            FilterBuilder::Bloom(builder) => builder.memory_bytes(),
            FilterBuilder::Legacy(builder) => builder.memory_bytes(),
        }
    }
    /// The filter of the entries added since the last call; empty if there are none.
    pub fn finish(&mut self) -> Vec<u8> {
        match self {
            FilterBuilder::Bloom(builder) => builder.finish(),
            FilterBuilder::Legacy(builder) => builder.finish(),
        }
    }
}
