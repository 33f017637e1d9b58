//! Options that are drawn for a history: every shape of tree, filter and cache that changes the way
//! of a read or of a compaction.

use std::sync::Arc;

use pumice::options::merge_operator_by_name;
use pumice::options::{CompactionPri, CompactionStyle, IndexType, UniversalOptions};
use pumice::{
    CompactionFilter, Comparator, FilterDecision, FilterPolicy, MemFs, Options, RowCache,
};
use pumice_base::random::Rng;

use super::extractor;

pub(super) fn options(rng: &mut Rng, fs: &MemFs, comparator: &Comparator) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.file_system = fs.shared();
    options.db.max_manifest_file_size = if rng.one_in(2) { 2 << 10 } else { 1 << 30 };
    options.db.avoid_flush_during_recovery = rng.one_in(2);
    options.db.max_subcompactions = 1 + rng.uniform(3) as u32;
    options.cf.comparator = comparator.clone();
    options.cf.write_buffer_size = 64 << 10;
    options.cf.target_file_size_base = 2 << 10;
    options.cf.max_bytes_for_level_base = 8 << 10;
    options.cf.max_bytes_for_level_multiplier = 3.0;
    options.cf.level0_file_num_compaction_trigger = 2 + rng.uniform(4) as i32;
    options.cf.disable_auto_compactions = rng.one_in(4);
    options.cf.merge_operator = merge_operator_by_name("stringappend");
    options.cf.prefix_extractor = extractor(rng);
    options.cf.memtable_prefix_bloom_size_ratio = bloom_ratio(rng);
    options.cf.memtable_whole_key_filtering = rng.one_in(2);
    options.cf.max_successive_merges = rng.uniform(4) as usize;
    options.cf.strict_max_successive_merges = rng.one_in(2);
    filters(rng, &mut options);
    limits(rng, &mut options);
    if rng.one_in(3) {
        universal(rng, &mut options);
    }
    options
}

/// Memtables with a filter that is large for their few keys, so that it denies much, or without.
pub(super) fn bloom_ratio(rng: &mut Rng) -> f64 {
    [0.0, 0.05, 0.2][rng.uniform(3) as usize]
}

/// Filters of every layout, with many partitions, or none.
fn filters(rng: &mut Rng, options: &mut Options) {
    let table = &mut options.cf.table_factory;
    table.block_size = 256;
    table.filter_policy =
        [None, Some(FilterPolicy::bloom(16.0)), Some(FilterPolicy::ribbon(16.0, 1))]
            [rng.uniform(3) as usize];
    if rng.one_in(2) {
        table.index_type = IndexType::TwoLevel;
        table.partition_filters = true;
        table.decouple_partitioned_filters = rng.one_in(2);
        table.metadata_block_size = 64;
    }
}

/// Writes every other value again as it is.
struct Rewrite;

impl CompactionFilter for Rewrite {
    fn name(&self) -> &str {
        "Rewrite"
    }
    fn filter(&self, _level: i32, _key: &[u8], value: &[u8]) -> FilterDecision {
        match value.len() % 2 {
            0 => FilterDecision::Keep,
            _ => FilterDecision::ChangeValue(value.to_vec()),
        }
    }
}

/// How much is kept in memory, how many levels there are, and what a compaction takes.
fn limits(rng: &mut Rng, options: &mut Options) {
    if rng.one_in(2) {
        options.db.row_cache = Some(RowCache::new(64 << 10));
    }
    if rng.one_in(3) {
        options.db.max_open_files = 20;
    }
    options.db.max_background_jobs = 1 + rng.uniform(4) as i32;
    options.cf.level_compaction_dynamic_level_bytes = rng.one_in(2);
    options.cf.num_levels = 2 + rng.uniform(6) as i32;
    if rng.one_in(3) {
        options.cf.max_compaction_bytes = 8 << 10;
    }
    options.cf.compaction_pri = [
        CompactionPri::ByCompensatedSize,
        CompactionPri::OldestLargestSeqFirst,
        CompactionPri::OldestSmallestSeqFirst,
        CompactionPri::MinOverlappingRatio,
        CompactionPri::RoundRobin,
    ][rng.uniform(5) as usize];
    options.cf.optimize_filters_for_hits = rng.one_in(3);
    options.cf.target_file_size_is_upper_bound = rng.one_in(2);
    if rng.one_in(2) {
        options.cf.write_buffer_size = 8 << 10;
        options.cf.max_write_buffer_number = 4;
        options.cf.min_write_buffer_number_to_merge = 1 + rng.uniform(3) as i32;
    }
    if rng.one_in(3) {
        options.cf.compaction_filter = Some(Arc::new(Rewrite));
    }
}

fn universal(rng: &mut Rng, options: &mut Options) {
    options.cf.compaction_style = CompactionStyle::Universal;
    options.cf.num_levels = 1 + rng.uniform(7) as i32;
    options.cf.compaction_options_universal = UniversalOptions {
        size_ratio: [1, 50, 200][rng.uniform(3) as usize],
        max_size_amplification_percent: [10, 50, 200, 1000][rng.uniform(4) as usize],
        max_merge_width: [3, u32::MAX][rng.uniform(2) as usize],
        allow_trivial_move: rng.one_in(2),
        incremental: rng.one_in(2),
        ..UniversalOptions::default()
    };
}
