//! Which memory besides blocks counts in the block cache.
//!
//! Plain data. Charged are the bytes that are held, where
//! RocksDB charges dummy entries of 256 KiB; a text for the user says which role did not fit.

use pumice_base::{Error, SubCode};
use pumice_cache::ChargedRole;

/// Whether memory of a role is charged to the block cache (`CacheEntryRoleOptions::Decision` of
/// RocksDB).
///
/// Example: that of [`CacheUsageOptions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Charged {
    /// It is, and there must be a block cache.
    Enabled,
    /// It is not.
    Disabled,
    /// As [`CacheUsageOptions`] says for the role.
    #[default]
    Fallback,
}

/// Memory outside of the block cache that is charged to it: it counts in the cache's usage, and
/// blocks are evicted for it.
///
/// RocksDB has a map from roles, and a decision for all roles that are not in it. It refuses
/// decisions about any other role than these, and so any decision for all.
///
/// ```
/// # use pumice_table::{CacheUsageOptions, Charged};
/// // For `cache_usage_options` of `options.tables()`: one limit for blocks, open tables and what
/// // is known of each file.
/// let usage = CacheUsageOptions {
///     block_based_table_reader: Charged::Enabled,
///     file_metadata: Charged::Enabled,
///     ..CacheUsageOptions::default()
/// };
/// assert_eq!(usage.filter_construction, Charged::Fallback);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CacheUsageOptions {
    /// Data blocks that wait for the dictionary of their table; `Fallback` charges them. If they do
    /// not fit into a strict cache, the dictionary is made of those that there are.
    pub compression_dictionary_building_buffer: Charged,
    /// Hashes of keys and filters while a table is built, in formats from 5 on and Ribbon filters;
    /// `Fallback` does not charge them. If the equations of a Ribbon filter do not fit into a
    /// strict cache, a Bloom filter is made; hashes and filters that do not fit are held uncharged.
    pub filter_construction: Charged,
    /// Open tables with their properties, and indexes, filters and dictionaries that are not in the
    /// cache; `Fallback` does not charge them. A table that does not fit into a strict cache is not
    /// opened.
    pub block_based_table_reader: Charged,
    /// What is known of each table file of the present versions; `Fallback` does not charge it. If
    /// that of a new file does not fit into a strict cache, the version is not made.
    pub file_metadata: Charged,
    /// What the blob cache holds, as of the last value that went into it; `Fallback` does not
    /// charge it. What does not fit into a strict cache stays uncharged.
    pub blob_cache: Charged,
}

impl CacheUsageOptions {
    /// The defaults.
    pub const FALLBACK: Self = CacheUsageOptions {
        compression_dictionary_building_buffer: Charged::Fallback,
        filter_construction: Charged::Fallback,
        block_based_table_reader: Charged::Fallback,
        file_metadata: Charged::Fallback,
        blob_cache: Charged::Fallback,
    };

    /// The decision for each role that can be charged, in RocksDB's order.
    pub fn decisions(&self) -> [(ChargedRole, Charged); 5] {
        [
            (
                ChargedRole::CompressionDictionaryBuildingBuffer,
                self.compression_dictionary_building_buffer,
            ),
            (ChargedRole::FilterConstruction, self.filter_construction),
            (ChargedRole::BlockBasedTableReader, self.block_based_table_reader),
            (ChargedRole::FileMetadata, self.file_metadata),
            (ChargedRole::BlobCache, self.blob_cache),
        ]
    }

    pub(crate) fn charges(&self, role: ChargedRole) -> bool {
        let decision = self.decisions().into_iter().find(|(of, _)| *of == role);
        match decision.map_or(Charged::Disabled, |(_, decision)| decision) {
            Charged::Enabled => true,
            Charged::Disabled => false,
            Charged::Fallback => role == ChargedRole::CompressionDictionaryBuildingBuffer,
        }
    }
}

/// Memory of `role` does not fit into a strict cache; `why` continues RocksDB's text.
pub fn over_memory_limit(role: ChargedRole, why: &str) -> Error {
    Error::aborted(format!("Can't allocate {} due to {why}", role.name()))
        .with_subcode(SubCode::MemoryLimit)
}
