//! Cuts an index into partitions and writes them with their top level.
//!
//! Every partition is an index block of its own; the top level has one entry per partition, with
//! the partition's last separator and its handle, in the same form.
//!
//! Partitions are cut by `finish`, when the form of the entries and so their true size is known:
//! each holds as much as fits `metadata_block_size`, with the tolerance of `block_size_deviation`,
//! and the last two share their entries evenly, so that no file ends in a partition of one entry.
//! Coupled partitions instead end where the entries say, because a filter partition ends there.
//!
//! [`CutRule`] decides where coupled partitions end, from entries alone, so that the thread that
//! prepares the entries can do it.
//!
//! One owner each. Invariant: `cuts` ascends.

use std::ops::Range;

use pumice_base::Result;

use crate::build::index_builder::entries::{Entries, Form};
use crate::build::index_builder::{IndexEntry, IndexResult, WriteBlock};
use crate::options::{IndexType, TableOptions};

/// Bytes of a block besides its entries: the word after the restart points.
const BLOCK_OVERHEAD: usize = 4;
/// Approximate bytes of an entry besides its key: lengths, handle, restart point.
const ENTRY_OVERHEAD: usize = 12;

/// Where the partitions of an index end.
#[derive(Debug)]
pub(super) struct Partitions {
    target: usize,
    /// Fill above which a partition may end early.
    almost_full: usize,
    coupled: bool,
    pushed: usize,
    /// Coupled: number of the entry after each partition that ended.
    cuts: Vec<usize>,
}

/// Where coupled partitions end.
#[derive(Debug)]
pub(crate) struct CutRule {
    sizes: Partitions,
    /// Approximate bytes of the current partition.
    current_bytes: usize,
}

impl CutRule {
    /// The rule; `None` unless index and filter partitions are cut together.
    pub fn new(options: &TableOptions) -> Option<Self> {
        let sizes = Partitions::new(options);
        let applies = sizes.coupled && options.index_type == IndexType::TwoLevel;
        applies.then_some(CutRule { sizes, current_bytes: BLOCK_OVERHEAD })
    }

    /// Decides whether the partition ends after `next`: it has its target size, or one more entry
    /// like `next` would exceed it and it is nearly full, or the filter's partition is full.
    pub fn decide(&mut self, next: &mut IndexEntry, filter_is_full: bool) {
        let one = entry_bytes(next);
        self.current_bytes += one;
        let now = self.current_bytes;
        next.cut_after = filter_is_full || self.sizes.is_full(now, now + one);
        if next.cut_after {
            self.current_bytes = BLOCK_OVERHEAD;
        }
    }
}

impl Partitions {
    /// Partitions of the size configured in `options`.
    pub fn new(options: &TableOptions) -> Self {
        let target = options.metadata_block_size.max(1);
        let kept = 100 - options.block_size_deviation.min(100) as usize;
        Partitions {
            target,
            almost_full: target.saturating_mul(kept).div_ceil(100),
            coupled: options.partition_filters && !options.decouple_partitioned_filters,
            pushed: 0,
            cuts: Vec::new(),
        }
    }

    /// Notes an entry.
    pub fn push(&mut self, entry: &IndexEntry) {
        self.pushed += 1;
        if self.coupled && entry.cut_after {
            self.cuts.push(self.pushed);
        }
    }

    fn is_full(&self, now: usize, after: usize) -> bool {
        let may_end_early = self.almost_full > 0 && now > self.almost_full;
        now >= self.target || (may_end_early && after > self.target)
    }

    /// The entries of each partition.
    fn plan(&self, entries: &Entries, form: Form) -> Vec<Range<usize>> {
        let mut ends = if self.coupled { self.cuts.clone() } else { self.ends(entries, form) };
        if entries.len() > 0 && ends.last() != Some(&entries.len()) {
            ends.push(entries.len());
        }
        let starts = std::iter::once(0).chain(ends.iter().copied());
        starts.zip(ends.iter().copied()).map(|(start, end)| start..end).collect()
    }

    /// Where partitions end by size, without the last one.
    fn ends(&self, entries: &Entries, form: Form) -> Vec<usize> {
        let mut ends = Vec::new();
        let (mut start, mut bytes) = (0, BLOCK_OVERHEAD);
        for i in 0..entries.len() {
            let after = bytes + entries.encoded_len(i, i - start, form);
            if i > start && self.is_full(bytes, after) {
                ends.push(i);
                start = i;
                bytes = BLOCK_OVERHEAD + entries.encoded_len(i, 0, form);
            } else {
                bytes = after;
            }
        }
        if ends.pop().is_some() {
            let from = ends.last().copied().unwrap_or(0);
            ends.push(even_split(entries, form, from..entries.len()));
        }
        ends
    }

    /// Writes the partitions of `entries` and their top level, and records them in `result`.
    ///
    /// # Errors
    /// The errors of `write`; NotSupported if it exceeds a block.
    pub fn write(
        &self,
        entries: &Entries,
        form: Form,
        write: &mut WriteBlock<'_>,
        result: &mut IndexResult,
    ) -> Result<()> {
        let mut top = Entries::default();
        let mut block = Vec::new();
        for range in self.plan(entries, form) {
            let last = range.end - 1;
            result.even_blocks += u64::from(entries.encode(range, form, &mut block)?);
            result.size += block.len() as u64;
            result.partitions += 1;
            top.push(entries.separator(last), write(&mut block)?);
        }
        // RocksDB marks partitions only.
        let form = Form { even_below: -1.0, ..form };
        top.encode(0..top.len(), form, &mut block)?;
        result.top_level_size = block.len() as u64;
        result.size += result.top_level_size;
        result.handle = write(&mut block)?;
        Ok(())
    }
}

/// Approximate bytes of an entry with an internal key.
fn entry_bytes(entry: &IndexEntry) -> usize {
    entry.separator.len() + ENTRY_OVERHEAD
}

/// Where to cut `range`, of at least two entries, so that its halves have about equal size.
fn even_split(entries: &Entries, form: Form, range: Range<usize>) -> usize {
    let len = |i: usize| entries.encoded_len(i, i - range.start, form);
    let total: usize = range.clone().map(len).sum();
    let mut bytes = 0;
    for i in range.clone() {
        if i > range.start && bytes + len(i) / 2 >= total / 2 {
            return i;
        }
        bytes += len(i);
    }
    range.end - 1
}
