//! Builds the index of a table (docs/format/table.md#index), in all four forms.
//!
//! There are two sides. The thread that makes data blocks prepares an [`IndexEntry`] per block
//! ([`Separators`]); the thread that writes the block pushes the entry with the block's handle into
//! the [`IndexBuilder`], in block order. Entries are kept unencoded, separators as internal keys in
//! one arena, and encoded by `finish`, because only then is it known whether user keys suffice
//! (they do if no user key spans two blocks anywhere in the file) and how large partitions are.
//!
//! | kind | blocks | built by |
//! |--|--|--|
//! | binary search | one | `entries` |
//! | hash search | one, and two meta blocks about prefixes | `entries`, `hash` |
//! | two-level | partitions and a top level | `two_level` |
//! | binary search with first key | one, with the first internal key of each block | `entries` |
//!
//! Thread safety: each side has one owner at a time. Invariants: (1) entries are pushed in block
//! order; (2) what is written depends on entries and options only.

mod entries;
mod evenness;
#[cfg(test)]
mod golden;
mod hash;
mod separators;
#[cfg(test)]
mod tests;
mod two_level;

use pumice_base::narrow::len_u32;
use pumice_base::{Error, Result};

use crate::build::context::TableBuildContext;
use crate::handle::BlockHandle;
use crate::metaindex;
use crate::options::IndexType;
use crate::trie::TrieEntries;

use self::entries::{Entries, Form};
use self::hash::PrefixBlocks;
use self::two_level::Partitions;

pub(crate) use self::separators::{IndexEntry, Separators};
pub(crate) use self::two_level::CutRule;

/// Writes one block and returns its handle; may change the block.
pub(crate) type WriteBlock<'a> = dyn FnMut(&mut Vec<u8>) -> Result<BlockHandle> + 'a;

/// Collects index entries in block order and writes the index.
pub(crate) struct IndexBuilder {
    kind: IndexType,
    restart_interval: u32,
    delta_handles: bool,
    aligned: bool,
    even_below: f64,
    user_key_allowed: bool,
    needs_sequences: bool,
    bytes_max: usize,
    entries: Entries,
    prefixes: PrefixBlocks,
    partitions: Partitions,
    /// The separators of a trie index.
    pub trie: Option<Box<TrieEntries>>,
}

/// What was written.
pub(crate) struct IndexResult {
    /// The index block, or its top level.
    pub handle: BlockHandle,
    /// Bytes of all index blocks, `meta_blocks` included, before compression, without trailers.
    pub size: u64,
    /// Number of partitions, 0 for an index of one block.
    pub partitions: u64,
    /// Blocks marked as having keys at even distances.
    pub even_blocks: u64,
    /// Bytes of the top level of a partitioned index before compression, else 0.
    pub top_level_size: u64,
    /// Separators are user keys, not internal keys.
    pub stores_user_keys: bool,
    /// Handles are delta-encoded.
    pub delta_handles: bool,
    /// Meta blocks that the caller writes (compressed as data blocks are) and lists by name.
    pub meta_blocks: Vec<(&'static str, Vec<u8>)>,
}

impl IndexBuilder {
    /// An empty index of the configured kind.
    ///
    /// # Errors
    /// `InvalidArgument` for a hash index without prefix extractor.
    pub fn new(context: &TableBuildContext) -> Result<Self> {
        let options = &context.table;
        let kind = options.index_type;
        if kind == IndexType::HashSearch && context.prefix_extractor.is_none() {
            return Err(Error::invalid_argument(
                "Hash index is specified for block-based table, but prefix_extractor is not given",
            ));
        }
        // RocksDB addresses a hash index by restart points, so each entry is one.
        let restart_interval = match kind {
            IndexType::HashSearch => 1,
            _ => options.index_block_restart_interval.max(1),
        };
        Ok(IndexBuilder {
            kind,
            restart_interval,
            delta_handles: options.format_version >= 4 && !options.block_align,
            aligned: options.block_align,
            even_below: options.uniform_cv_threshold,
            user_key_allowed: options.format_version >= 3,
            needs_sequences: false,
            bytes_max: context.limits.block_bytes(),
            entries: Entries::default(),
            prefixes: PrefixBlocks::default(),
            partitions: Partitions::new(options),
            trie: options.user_defined_index_factory.map(|_| Box::default()),
        })
    }

    /// Adds the entry of the block at `handle`.
    pub fn push(&mut self, entry: &IndexEntry, handle: BlockHandle) {
        let block = len_u32(self.entries.len());
        self.needs_sequences |= entry.needs_sequences;
        if let Some(trie) = &mut self.trie {
            trie.push(&entry.trie, handle);
        }
        match self.kind {
            IndexType::BinarySearch => self.entries.push(&entry.separator, handle),
            IndexType::HashSearch => {
                self.prefixes.push(&entry.prefixes, block);
                self.entries.push(&entry.separator, handle);
            }
            IndexType::TwoLevel => {
                self.partitions.push(entry);
                self.entries.push(&entry.separator, handle);
            }
            IndexType::BinarySearchWithFirstKey => {
                self.entries.push_with_first_key(&entry.separator, handle, &entry.first_key);
            }
        }
    }

    /// The index will hold user keys, not internal keys. Final after the last `push`.
    pub fn stores_user_keys(&self) -> bool {
        self.user_key_allowed && !self.needs_sequences
    }

    /// Handles are delta-encoded; the top level of a partitioned filter has the same form.
    pub fn delta_handles(&self) -> bool {
        self.delta_handles
    }

    fn form(&self) -> Form {
        Form {
            restart_interval: self.restart_interval as usize,
            delta_handles: self.delta_handles,
            aligned: self.aligned,
            user_keys: self.stores_user_keys(),
            first_keys: self.kind == IndexType::BinarySearchWithFirstKey,
            even_below: self.even_below,
            bytes_max: self.bytes_max,
        }
    }

    /// Writes the index through `write`: partitions in order, then the top level; or the block.
    ///
    /// # Errors
    /// The errors of `write`; NotSupported if the index exceeds a block.
    pub fn finish(&mut self, write: &mut WriteBlock<'_>) -> Result<IndexResult> {
        let form = self.form();
        let mut result = IndexResult {
            handle: BlockHandle::default(),
            size: 0,
            partitions: 0,
            even_blocks: 0,
            top_level_size: 0,
            stores_user_keys: form.user_keys,
            delta_handles: form.delta_handles,
            meta_blocks: Vec::new(),
        };
        if self.kind == IndexType::TwoLevel {
            self.partitions.write(&self.entries, form, write, &mut result)?;
            return Ok(result);
        }
        let mut block = Vec::new();
        let even = self.entries.encode(0..self.entries.len(), form, &mut block)?;
        result.even_blocks = u64::from(even);
        result.size = block.len() as u64;
        result.handle = write(&mut block)?;
        if let Some((prefixes, metadata)) = self.prefixes.finish() {
            result.size += (prefixes.len() + metadata.len()) as u64;
            result.meta_blocks.push((metaindex::HASH_INDEX_PREFIXES, prefixes));
            result.meta_blocks.push((metaindex::HASH_INDEX_METADATA, metadata));
        }
        Ok(result)
    }
}
