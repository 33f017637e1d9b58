//! Filter blocks of a table: one for the whole table, or partitions and an index over them
//! (docs/format/filter.md#contents).
//!
//! Fed once per data block with its keys, so that hashing is done in a batch. Hashes are kept, keys
//! are not, except one user key per data block where partitions are cut. `rule` says which parts of
//! a key go into a filter, `partitioned` cuts, `top_level` encodes the index over the partitions.
//!
//! One owner. The output depends only on the keys and the settings, except for sizes that are
//! balanced with those of other tables (`TableBuildContext::filter_balance`).
//!
//! Not here: the algorithms (`pumice_filter`), and where blocks go in the file (the caller writes).

mod partitioned;
mod rule;
#[cfg(test)]
mod tests;
mod top_level;

use std::sync::Arc;

use pumice_base::Result;
use pumice_cache::{ChargedRole, Reservation};
use pumice_filter::{FilterBuildSettings, FilterBuilder};

use crate::build::block_keys::BlockKeys;
use crate::build::context::TableBuildContext;
use crate::build::filter_block::partitioned::PartitionedFilterBlock;
use crate::build::filter_block::rule::KeyRule;
use crate::handle::BlockHandle;
use crate::options::{IndexType, TableOptions};
use crate::read::cached_block::CachedBlock;

/// Appends a block, which is not to be compressed, to the file.
pub(crate) type WriteBlock<'a> = &'a mut dyn FnMut(&mut Vec<u8>) -> Result<BlockHandle>;

/// Where the filter of a table is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FilterResult {
    /// The filter, or the index of its partitions.
    pub handle: BlockHandle,
    /// The block is the index of partitions.
    pub partitioned: bool,
    /// Bytes of all its blocks, without their trailers (property `filter.size`).
    pub size: u64,
}

/// Builds the filter of one table.
pub(crate) enum FilterBlockBuilder {
    /// One filter for all keys.
    Full(FullFilterBlock),
    /// Partitions.
    Partitioned(Box<PartitionedFilterBlock>),
}

impl FilterBlockBuilder {
    /// A builder as configured; `None` without a filter.
    pub fn new(context: &TableBuildContext) -> Option<Self> {
        let rule = KeyRule::new(context)?;
        let mut builder = match context.filter_policy.or(context.table.filter_policy) {
            Some(policy) if !context.skip_filters => policy.builder(&settings(context))?,
            _ => return None,
        };
        if let Some(balance) = &context.filter_balance {
            builder.share_balance(Arc::clone(balance));
        }
        let two_level = context.table.index_type == IndexType::TwoLevel;
        Some(if context.table.partition_filters && two_level {
            let partitioned = PartitionedFilterBlock::new(context, rule, builder);
            FilterBlockBuilder::Partitioned(Box::new(partitioned))
        } else {
            let charge = ConstructionCharge::new(&context.table, &builder);
            FilterBlockBuilder::Full(FullFilterBlock { builder, rule, entries: 0, charge })
        })
    }

    /// Adds the keys of a data block. Call [`FilterBlockBuilder::block_ends`] after each.
    pub fn add_block(&mut self, keys: &mut BlockKeys) {
        match self {
            FilterBlockBuilder::Full(full) => full.add_block(keys),
            FilterBlockBuilder::Partitioned(partitioned) => partitioned.add_block(keys),
        }
    }

    /// The data block ends, and with it, if `index_cut`, a partition of the index. Internal key
    /// `next_key` begins the next block, `None` at the end of the table.
    pub fn block_ends(&mut self, index_cut: bool, next_key: Option<&[u8]>) {
        if let (FilterBlockBuilder::Partitioned(partitioned), Some(next)) = (self, next_key) {
            partitioned.block_ends(index_cut, next);
        }
    }

    /// The filter partition is full and the index should be cut where this data block ends. Never
    /// true for decoupled partitions.
    pub fn wants_cut(&self) -> bool {
        match self {
            FilterBlockBuilder::Full(_) => false,
            FilterBlockBuilder::Partitioned(partitioned) => partitioned.wants_cut(),
        }
    }

    /// Approximate bytes of the blocks in the file if they were finished now.
    pub fn estimated_bytes(&self) -> usize {
        match self {
            FilterBlockBuilder::Full(full) => full.builder.space(full.builder.len()),
            FilterBlockBuilder::Partitioned(partitioned) => partitioned.estimated_bytes(),
        }
    }

    /// Entries of all filters (property `num.filter_entries`); complete after `finish`.
    pub fn num_entries(&self) -> u64 {
        match self {
            FilterBlockBuilder::Full(full) => full.entries + full.builder.len() as u64,
            FilterBlockBuilder::Partitioned(partitioned) => partitioned.num_entries(),
        }
    }

    /// Partitions are decoupled: not cut where the index is cut.
    pub fn is_decoupled(&self) -> bool {
        match self {
            FilterBlockBuilder::Full(_) => false,
            FilterBlockBuilder::Partitioned(partitioned) => partitioned.is_decoupled(),
        }
    }

    /// Writes the filter; `None` if no key has an entry. The arguments give the encoding of the
    /// table's index, which the index of the partitions shares.
    ///
    /// # Errors
    /// The errors of `write`; `Corruption` if a filter does not hold what was added to it
    /// (`detect_filter_construct_corruption`).
    pub fn finish(
        &mut self,
        index_stores_user_keys: bool,
        delta_handles: bool,
        write: WriteBlock<'_>,
    ) -> Result<Option<FilterResult>> {
        match self {
            FilterBlockBuilder::Full(full) => full.finish(write),
            FilterBlockBuilder::Partitioned(partitioned) => {
                partitioned.finish(index_stores_user_keys, delta_handles, write)
            }
        }
    }
}

/// Builds one filter for a whole table.
pub(crate) struct FullFilterBlock {
    builder: FilterBuilder,
    rule: KeyRule,
    /// Entries of the filter, once it is finished.
    entries: u64,
    charge: ConstructionCharge,
}

impl FullFilterBlock {
    fn add_block(&mut self, keys: &BlockKeys) {
        self.rule.add(keys, &mut self.builder);
        self.charge.hold(self.builder.memory_bytes());
    }

    fn finish(&mut self, write: WriteBlock<'_>) -> Result<Option<FilterResult>> {
        if self.builder.is_empty() {
            return Ok(None);
        }
        self.entries = self.builder.len() as u64;
        let mut contents = self.charge.finish(&mut self.builder, 0)?;
        let size = contents.len() as u64;
        let handle = write(&mut contents)?;
        drop(contents);
        self.charge.hold(self.builder.memory_bytes());
        Ok(Some(FilterResult { handle, partitioned: false, size }))
    }
}

/// The hashes of the keys of a filter and what is made of them, charged to the block cache if the
/// settings of the table ask for it. What does not fit into a strict cache is held uncharged.
pub(crate) struct ConstructionCharge(Option<Reservation<CachedBlock>>);

impl ConstructionCharge {
    /// Nothing yet. Filters of formats up to 4 are never charged, as in RocksDB.
    fn new(options: &TableOptions, builder: &FilterBuilder) -> Self {
        let charged = !matches!(builder, FilterBuilder::Legacy(_));
        let reservation = || options.reservation(ChargedRole::FilterConstruction);
        ConstructionCharge(charged.then(reservation).flatten())
    }

    /// So many bytes are held now. False if they do not fit.
    fn hold(&mut self, bytes: usize) -> bool {
        self.0.as_mut().is_none_or(|charge| charge.try_set(bytes).is_ok())
    }

    /// The filter of what `builder` was given, while `beside` bytes are held besides.
    ///
    /// # Errors
    /// Of the builder.
    fn finish(&mut self, builder: &mut FilterBuilder, beside: usize) -> Result<Vec<u8>> {
        let held = beside + builder.memory_bytes();
        let filter = builder.finish_within(&mut |more| self.hold(held + more))?;
        self.hold(held + filter.len());
        Ok(filter)
    }
}

/// What a filter is built for.
fn settings(context: &TableBuildContext) -> FilterBuildSettings {
    FilterBuildSettings {
        format_version: context.table.format_version,
        level: context.filter_level(),
        optimize_for_memory: context.table.optimize_filters_for_memory,
        detect_corruption: context.table.detect_filter_construct_corruption,
    }
}
