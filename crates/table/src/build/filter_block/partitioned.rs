//! A filter cut into partitions.
//!
//! *Decoupled* partitions are cut by their own size, before the key that would exceed it; *coupled*
//! ones where partitions of the index are cut, at the end of a data block. Coupled ones are those
//! of RocksDB, which requests a cut until it has seen one, and so once too often: a full partition
//! is followed by one of a single data block.
//!
//! A key is looked for in the first partition whose separator is not below it. A prefix seek may
//! land in one partition and find its match in a neighbour, so a partition also holds
//! 1. the prefix of the first key after it: a seek that lands between its last key and its
//!    separator finds that key;
//! 2. the prefix of the last key before it: a backward seek that lands before its first key finds
//!    that one.
//!
//! The last partition filled is held back until the next one is full: at the end of the table the
//! two share their keys, if the last one would be undersized, at the end of a data block. For this
//! the count of entries, the last user key and its prefix are noted for each data block in it.
//!
//! Invariants: (1) versions of a user key are in one partition; (2) `last_key` is the user key
//! added last; (3) each partition that is cut has entries of its own.

use std::ops::RangeBounds;

use pumice_base::hash::hash64;
use pumice_base::key::{InternalKey, UserKey, append_internal_key};
use pumice_base::planted::{self, Bug};
use pumice_base::{Error, InternalKeyComparator, Result};
use pumice_filter::{ALWAYS_TRUE, FilterBuilder, KeyHashes, LegacyBloomBuilder};

use crate::build::block_keys::{BlockKeys, without_timestamp};
use crate::build::context::TableBuildContext;
use crate::build::filter_block::rule::KeyRule;
use crate::build::filter_block::top_level::{Form, Separators};
use crate::build::filter_block::{ConstructionCharge, FilterResult, WriteBlock};
use crate::handle::{BLOCK_TRAILER_LEN, BlockHandle};
use crate::options::IndexShortening;

/// Sequence number and type byte of a separator: after every version of its user key.
const SEPARATOR: (u64, u8) = (0, 0);
/// Partitions larger than this are not tried when a filter cannot be as small as requested.
const MAX_TRIAL_BYTES: usize = 100_000;

/// Builds the partitions of one table's filter.
pub(crate) struct PartitionedFilterBlock {
    builder: FilterBuilder,
    charge: ConstructionCharge,
    rule: KeyRule,
    comparator: InternalKeyComparator,
    /// Bytes of the timestamps of user keys, which filters leave out.
    timestamp: usize,
    coupled: bool,
    shortening: IndexShortening,
    restart_interval: u32,
    /// The limit for a block.
    bytes_max: usize,
    keys_per_partition: usize,
    /// Coupled: the partition before was full.
    asks_again: bool,
    /// Cut, but its filter is not made yet.
    held: Option<Partition>,
    current: Partition,
    /// Filters made, in order, and where they end.
    filters: Vec<Vec<u8>>,
    separators: Separators,
    filter_bytes: usize,
    /// Entries of the filters made.
    entries: u64,
    last_key: Vec<u8>,
    has_last_key: bool,
    detect_corruption: bool,
    failed: Option<Error>,
}

/// Hashes of a partition.
#[derive(Debug, Default)]
struct Partition {
    hashes: KeyHashes<u64>,
    /// Hash of the last prefix seen.
    last_prefix: Option<u64>,
    /// Ends of data blocks in it.
    ends: Vec<BlockEnd>,
    /// The last user keys of those data blocks.
    end_keys: Vec<u8>,
    /// Prefix of the first key after it, rule 1; set when it is cut.
    closing: Option<u64>,
    /// The internal key at which it ends; set when it is cut.
    separator: Vec<u8>,
}

/// The end of a data block inside a partition.
#[derive(Clone, Copy, Debug)]
struct BlockEnd {
    entries: usize,
    key_end: usize,
    last_prefix: Option<u64>,
    next_prefix: Option<u64>,
}

impl Partition {
    fn clear(&mut self) {
        self.hashes.clear();
        self.last_prefix = None;
        self.ends.clear();
        self.end_keys.clear();
        self.closing = None;
        self.separator.clear();
    }

    fn end_key(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1].key_end };
        &self.end_keys[start..self.ends[i].key_end]
    }
}

impl PartitionedFilterBlock {
    /// An empty filter.
    pub fn new(context: &TableBuildContext, rule: KeyRule, builder: FilterBuilder) -> Self {
        let options = &context.table;
        let keys = keys_per_partition(
            &builder,
            options.metadata_block_size,
            options.block_size_deviation,
            rule.has_prefixes(),
        );
        PartitionedFilterBlock {
            charge: ConstructionCharge::new(options, &builder),
            builder,
            rule,
            comparator: context.comparator.clone(),
            timestamp: context.comparator.user.timestamp_size(),
            coupled: !options.decouple_partitioned_filters,
            shortening: options.index_shortening,
            restart_interval: options.index_block_restart_interval,
            bytes_max: context.limits.block_bytes(),
            keys_per_partition: keys,
            asks_again: false,
            held: None,
            current: Partition::default(),
            filters: Vec::new(),
            separators: Separators::default(),
            filter_bytes: 0,
            entries: 0,
            last_key: Vec::new(),
            has_last_key: false,
            detect_corruption: options.detect_filter_construct_corruption,
            failed: None,
        }
    }

    /// See [`super::FilterBlockBuilder::is_decoupled`].
    pub fn is_decoupled(&self) -> bool {
        !self.coupled
    }

    /// See [`super::FilterBlockBuilder::wants_cut`].
    pub fn wants_cut(&self) -> bool {
        self.coupled && (self.is_full() || self.asks_again)
    }

    fn is_full(&self) -> bool {
        self.current.hashes.len() >= self.keys_per_partition
    }

    /// Adds the keys of a data block.
    pub fn add_block(&mut self, keys: &mut BlockKeys) {
        let most = self.current.hashes.len() + self.rule.entries_per_key() * keys.len();
        if self.rule.has_prefixes() || most > self.keys_per_partition {
            keys.index();
        }
        let mut at = 0;
        while !self.coupled && at < keys.len() {
            if self.is_full() {
                at = self.skip_versions(keys, at);
                if at == keys.len() {
                    break;
                }
                self.cut_before(keys, at);
            }
            // This many keys fit whatever each of them adds.
            let room = self.keys_per_partition - self.current.hashes.len();
            let sure = room.div_ceil(self.rule.entries_per_key());
            let end = keys.len().min(at + sure);
            self.feed(keys, at, end);
            at = end;
        }
        if self.coupled {
            self.feed(keys, 0, keys.len());
        }
        if !keys.is_empty() {
            self.last_key.clear();
            self.last_key.extend_from_slice(InternalKey::new(keys.last()).user_key().as_bytes());
            self.has_last_key = true;
        }
        self.charge.hold(self.builder.memory_bytes() + self.memory_beside_builder());
    }

    /// Bytes of hashes that the builder does not have, and of finished filters.
    fn memory_beside_builder(&self) -> usize {
        let held = self.held.as_ref().map_or(0, |held| held.hashes.memory_bytes());
        held + self.current.hashes.memory_bytes() + self.filter_bytes
    }

    fn feed(&mut self, keys: &BlockKeys, from: usize, to: usize) {
        let hashes = &mut self.current.hashes;
        match &self.builder {
            FilterBuilder::Legacy(_) => {
                let hash = |key: &[u8]| u64::from(LegacyBloomBuilder::hash(key));
                self.rule.collect(keys, from..to, hash, hashes);
            }
            FilterBuilder::Bloom(_) | FilterBuilder::Ribbon(_) => {
                self.rule.collect(keys, from..to, hash64, hashes);
            }
        }
        if !self.rule.has_prefixes() {
            return;
        }
        let bare = |i| without_timestamp(keys.get(i), self.timestamp);
        let mut prefixes = (from..to).rev().filter_map(|i| self.rule.prefix(bare(i)));
        if let Some(prefix) = prefixes.next() {
            self.current.last_prefix = Some(self.builder.hash(prefix));
        }
    }

    /// The first key from `at` on whose user key differs from the one before it (invariant 1).
    fn skip_versions(&self, keys: &BlockKeys, mut at: usize) -> usize {
        while at < keys.len() && self.is_version(keys, at) {
            at += 1;
        }
        at
    }

    fn is_version(&self, keys: &BlockKeys, at: usize) -> bool {
        let key = without_timestamp(keys.get(at), self.timestamp);
        match at {
            0 => self.has_last_key && self.bare(&self.last_key) == key,
            _ => without_timestamp(keys.get(at - 1), self.timestamp) == key,
        }
    }

    /// Cuts between two keys, the second of which has number `at`.
    fn cut_before(&mut self, keys: &BlockKeys, at: usize) {
        let next = InternalKey::new(keys.get(at)).user_key().as_bytes();
        if at > 0 {
            self.last_key.clear();
            let early = usize::from(at > 1 && planted::is(Bug::FilterCutOffByOne));
            self.last_key.extend_from_slice(
                InternalKey::new(keys.get(at - 1 - early)).user_key().as_bytes(),
            );
        }
        self.cut(next, None);
    }

    /// The data block ends and another one follows.
    pub fn block_ends(&mut self, index_cut: bool, next_key: &[u8]) {
        let next = InternalKey::new(next_key).user_key().as_bytes();
        if self.coupled {
            if index_cut && !self.current.hashes.is_empty() {
                self.asks_again = self.is_full();
                self.cut(next, Some(next_key));
            }
            return;
        }
        let next_prefix = self.prefix_hash(next);
        self.current.end_keys.extend_from_slice(&self.last_key);
        self.current.ends.push(BlockEnd {
            entries: self.current.hashes.len(),
            key_end: self.current.end_keys.len(),
            last_prefix: self.current.last_prefix,
            next_prefix,
        });
    }

    /// A user key without its timestamp.
    fn bare<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        &key[..key.len().saturating_sub(self.timestamp)]
    }

    fn prefix_hash(&self, key: &[u8]) -> Option<u64> {
        self.rule.prefix(self.bare(key)).map(|prefix| self.builder.hash(prefix))
    }

    /// Ends the current partition between `last_key` and user key `next`. The separator is the one
    /// of the index if the internal key `limit` that follows is given.
    fn cut(&mut self, next: &[u8], limit: Option<&[u8]>) {
        let before = self.prefix_hash(&self.last_key);
        let after = self.prefix_hash(next);
        self.current.closing = closing(before, after);
        self.set_separator(limit);
        let mut fresh = match self.held.take() {
            Some(mut held) => {
                self.make(&mut held);
                held
            }
            None => Partition::default(),
        };
        fresh.clear();
        if let Some(hash) = before.filter(|_| !planted::is(Bug::OpeningPrefixDropped)) {
            fresh.hashes.add(hash);
        }
        self.held = Some(std::mem::replace(&mut self.current, fresh));
    }

    fn set_separator(&mut self, limit: Option<&[u8]>) {
        let separator = &mut self.current.separator;
        separator.clear();
        append_internal_key(separator, &self.last_key, SEPARATOR.0, SEPARATOR.1);
        if let Some(limit) = limit
            && self.shortening != IndexShortening::None
            // Readers ask for the newest version that a key could have.
            && self.timestamp == 0
            && !self
                .comparator
                .user
                .same_user_key(UserKey::new(&self.last_key), InternalKey::new(limit).user_key())
        {
            self.comparator.find_shortest_separator(separator, InternalKey::new(limit));
        }
    }

    /// Builds the filter of a partition, consuming its hashes.
    fn make(&mut self, partition: &mut Partition) {
        let hashes = &mut partition.hashes;
        match &mut self.builder {
            FilterBuilder::Bloom(builder) => std::mem::swap(builder.hashes_mut(), hashes),
            FilterBuilder::Ribbon(builder) => std::mem::swap(builder.hashes_mut(), hashes),
            FilterBuilder::Legacy(_) => self.copy(hashes, ..),
        }
        let beside = partition.hashes.memory_bytes();
        self.finish_filter(partition.closing, &partition.separator, beside);
    }

    /// Gives some of the hashes to the builder.
    fn copy(&mut self, hashes: &KeyHashes<u64>, part: impl RangeBounds<usize>) {
        if self.detect_corruption && !hashes.is_intact() {
            let error = Error::corruption("Filter's hash entries checksum mismatched");
            self.failed.get_or_insert(error);
        }
        let numbered = hashes.iter().enumerate().filter(|(at, _)| part.contains(at));
        numbered.for_each(|(_, hash)| self.builder.add_hash(hash));
    }

    /// The filter of what the builder was given, and of the prefix after it, while the caller has
    /// `beside` bytes of hashes.
    fn finish_filter(&mut self, closing: Option<u64>, separator: &[u8], beside: usize) {
        if let Some(prefix) = closing {
            self.builder.add_hash_and_alt(prefix, prefix);
        }
        self.entries += self.builder.len() as u64;
        let beside = beside + self.memory_beside_builder();
        let filter = match self.charge.finish(&mut self.builder, beside) {
            Ok(filter) => filter,
            Err(error) => {
                self.failed.get_or_insert(error);
                ALWAYS_TRUE.to_vec()
            }
        };
        self.filter_bytes += filter.len();
        self.filters.push(filter);
        self.separators.push(separator);
    }

    /// Approximate bytes of all blocks if they were finished now.
    pub fn estimated_bytes(&self) -> usize {
        let open = |partition: &Partition| match partition.hashes.len() {
            0 => 0,
            entries => self.builder.space(entries) + BLOCK_TRAILER_LEN,
        };
        let partitions = self.filters.len() + 2;
        let separators = self.separators.bytes() + 2 * self.last_key.len();
        self.filter_bytes
            + BLOCK_TRAILER_LEN * self.filters.len()
            + self.held.as_ref().map_or(0, open)
            + open(&self.current)
            + separators
            + (2 * 4 + BLOCK_TRAILER_LEN) * partitions
    }

    /// Entries of all partitions.
    pub fn num_entries(&self) -> u64 {
        let held = self
            .held
            .as_ref()
            .map_or(0, |held| held.hashes.len() + usize::from(held.closing.is_some()));
        self.entries + (held + self.current.hashes.len()) as u64
    }

    /// Writes partitions and their index.
    pub fn finish(
        &mut self,
        index_stores_user_keys: bool,
        delta_handles: bool,
        write: WriteBlock<'_>,
    ) -> Result<Option<FilterResult>> {
        self.make_last();
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if self.filters.is_empty() {
            return Ok(None);
        }
        let mut handles: Vec<BlockHandle> = Vec::with_capacity(self.filters.len());
        for filter in &mut self.filters {
            handles.push(write(filter)?);
        }
        self.filters = Vec::new();
        let form = Form {
            restart_interval: self.restart_interval,
            user_keys: index_stores_user_keys,
            delta_handles,
            bytes_max: self.bytes_max,
        };
        let mut top = self.separators.encode(&handles, form)?;
        let size = (std::mem::take(&mut self.filter_bytes) + top.len()) as u64;
        self.charge.hold(self.builder.memory_bytes());
        let handle = write(&mut top)?;
        Ok(Some(FilterResult { handle, partitioned: true, size }))
    }

    /// Makes the filters of the last two partitions.
    fn make_last(&mut self) {
        self.set_separator(None);
        let mut last = std::mem::take(&mut self.current);
        if let Some(mut held) = self.held.take() {
            if let Some(end) = self.even_split(&held, &last) {
                return self.make_shared(&held, &last, end);
            }
            self.make(&mut held);
        }
        if !last.hashes.is_empty() {
            self.make(&mut last);
        }
    }

    /// The data block after which the last two partitions should be cut instead, if the last one is
    /// less than half full and a cut there makes the smaller one larger.
    fn even_split(&self, held: &Partition, last: &Partition) -> Option<usize> {
        let (held_len, last_len) = (held.hashes.len(), last.hashes.len());
        if last_len >= self.keys_per_partition / 2 {
            return None;
        }
        let total = held_len + last_len;
        let smaller = |end: &BlockEnd| end.entries.min(total - end.entries);
        let (at, end) = held.ends.iter().enumerate().max_by_key(|(_, end)| smaller(end))?;
        (smaller(end) > last_len).then_some(at)
    }

    /// Changes a bit of an entry of the current partition, as a memory fault would.
    #[cfg(test)]
    pub fn damage_entry(&mut self, at: usize) {
        let FilterBuilder::Bloom(bloom) = &mut self.builder else { return };
        std::mem::swap(bloom.hashes_mut(), &mut self.current.hashes);
        self.builder.damage_entry(at);
        let FilterBuilder::Bloom(bloom) = &mut self.builder else { return };
        std::mem::swap(bloom.hashes_mut(), &mut self.current.hashes);
    }

    /// Builds the last two filters with the cut after data block `at` of `held`.
    fn make_shared(&mut self, held: &Partition, last: &Partition, at: usize) {
        let end = held.ends[at];
        let mut separator = Vec::new();
        append_internal_key(&mut separator, held.end_key(at), SEPARATOR.0, SEPARATOR.1);
        self.copy(&held.hashes, ..end.entries);
        let beside = held.hashes.memory_bytes() + last.hashes.memory_bytes();
        self.finish_filter(closing(end.last_prefix, end.next_prefix), &separator, beside);
        if self.rule.has_prefixes() && !planted::is(Bug::OpeningPrefixDropped) {
            // Rule 2; and everything that was not added after the cut because it had been added
            // before it.
            let last_hash = held.hashes.iter().take(end.entries).last();
            let last_hash = last_hash.filter(|_| !planted::is(Bug::SharedCutForgetsHash));
            let carried = [end.last_prefix, last_hash].into_iter().flatten();
            carried.for_each(|hash| self.builder.add_hash(hash));
        }
        self.copy(&held.hashes, end.entries..);
        self.copy(&last.hashes, ..);
        self.finish_filter(None, &last.separator, beside);
    }
}

/// Rule 1: the prefix of the key after a cut, unless the key before it has the same.
fn closing(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    after.filter(|_| after != before && !planted::is(Bug::ClosingPrefixDropped))
}

/// How many entries a partition of at most `bytes` less `deviation` percent has.
fn keys_per_partition(
    builder: &FilterBuilder,
    bytes: usize,
    deviation: u32,
    has_prefixes: bool,
) -> usize {
    let percent = 100 - deviation.min(100) as usize;
    let bytes = (bytes.saturating_mul(percent).div_ceil(100)).max(1);
    let mut keys = builder.approximate_entries(bytes);
    let mut trial = bytes.saturating_add(4).max(16);
    while keys == 0 {
        if trial > MAX_TRIAL_BYTES {
            // This filter needs more than any size tried; assume a byte per key.
            keys = bytes;
            break;
        }
        keys = builder.approximate_entries(trial);
        trial += trial / 4;
    }
    // Room for the prefix of a neighbour.
    if keys > 1 && has_prefixes { keys - 1 } else { keys }
}
