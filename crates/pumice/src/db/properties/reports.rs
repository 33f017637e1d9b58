//! Properties that are texts, laid out as RocksDB lays them out.

use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

use pumice_manifest::file_meta::debug_key;
use pumice_port::time;
use pumice_table::{BlockCache, BlockKind, TableProperties};

use crate::db::DbInner;
use crate::db::column_family::CfData;
use crate::read::super_version::SuperVersion;
use crate::stats::cf_stats::{self, BlockCacheView, CfView, LevelView};

impl DbInner {
    /// `rocksdb.dbstats`; ends its interval.
    pub(super) fn db_report(&self) -> String {
        self.stats.report(time::now_micros())
    }

    /// `rocksdb.cfstats`.
    pub(crate) fn cf_report(&self, cf: &CfData) -> String {
        self.with_view(cf, |view| cf.stats.lock().report(view))
    }

    /// `rocksdb.cfstats-no-file-histogram`.
    pub(super) fn cf_report_without_latencies(&self, cf: &CfData) -> String {
        self.with_view(cf, |view| cf.stats.lock().report_without_latencies(view))
    }

    /// `rocksdb.cf-file-histogram`. Reads are not timed by level, so that it has no histograms.
    pub(super) fn latency_report(&self, cf: &CfData) -> String {
        self.with_view(cf, cf_stats::read_latency_report)
    }

    /// `rocksdb.levelstats`.
    pub(super) fn level_report(&self, cf: &CfData) -> String {
        cf_stats::level_report(&self.level_views(cf))
    }

    fn with_view(&self, cf: &CfData, report: impl FnOnce(&CfView<'_>) -> String) -> String {
        let levels = self.level_views(cf);
        let pending = {
            let state = self.state.lock();
            state.cfs.get(&cf.id).map_or(0, |cf| cf.plan.estimated_pending_bytes())
        };
        let cache = cf.table_options().block_cache.as_ref().map(|cache| cache_view(cf, cache));
        report(&CfView {
            cf_name: &cf.name,
            now_micros: time::now_micros(),
            levels: &levels,
            estimated_pending_compaction_bytes: pending,
            block_cache: cache.as_ref(),
            read_latencies: &[],
        })
    }

    fn level_views(&self, cf: &CfData) -> Vec<LevelView> {
        let version = Arc::clone(&cf.super_version.load().version);
        let state = self.state.lock();
        let plan = state.cfs.get(&cf.id).map(|cf| &cf.plan);
        let view = |level: usize| LevelView {
            files: version.num_level_files(level),
            being_compacted: version.files(level).iter().filter(|f| f.is_being_compacted()).count(),
            bytes: version.level_bytes(level),
            score: plan.map_or(0.0, |plan| plan.score(level)),
        };
        (0..version.num_levels()).map(view).collect()
    }
}

/// `rocksdb.block-cache-entry-stats`; None without a block cache.
pub(super) fn block_cache_report(cf: &CfData) -> Option<String> {
    let options = cf.table_options();
    Some(cf_stats::block_cache_report(&cache_view(cf, options.block_cache.as_ref()?)))
}

/// Walks the whole cache.
fn cache_view(cf: &CfData, cache: &Arc<BlockCache>) -> BlockCacheView {
    let started = time::now_micros();
    let mut roles: Vec<(&'static str, u64, u64)> =
        ["DataBlock", "FilterBlock", "FilterMetaBlock", "IndexBlock", "OtherBlock"]
            .map(|role| (role, 0, 0))
            .into();
    cache.for_each(|_, charge, block| {
        let role = match block.kind() {
            BlockKind::Data => 0,
            BlockKind::Filter => 1,
            BlockKind::FilterIndex => 2,
            BlockKind::Index => 3,
            _ => 4,
        };
        roles[role].1 += 1;
        roles[role].2 += charge as u64;
    });
    roles.retain(|(_, entries, _)| *entries > 0);
    // In a simulation what a seed gives must not show where the memory lies.
    let address = if pumice_port::sim::is_running() { 0 } else { Arc::as_ptr(cache).addr() };
    BlockCacheView {
        identity: format!("HyperClockCache@{address:#x}#{}", pumice_port::os::pid()),
        capacity: cache.capacity() as u64,
        usage: cache.usage() as u64,
        table_size: cache.table_len() as u64,
        occupancy: cache.occupancy() as u64,
        collections: cf.stats.next_cache_scan(),
        last_secs: (time::now_micros() - started) as f64 / 1e6,
        secs_since: 0,
        roles,
    }
}

/// `rocksdb.sstables`: every file with its bytes, sequence numbers and bounds.
pub(super) fn files_report(cf: &CfData, view: &SuperVersion) -> String {
    let mut out = String::new();
    let number = cf.super_version_number();
    for level in view.version.levels() {
        push(&mut out, format_args!("--- level {} --- version# {number} ---\n", level.number()));
        for file in level.files() {
            push(
                &mut out,
                format_args!(
                    " {}:{}[{} .. {}][{} .. {}](0)\n",
                    file.number,
                    file.file_size,
                    file.smallest_seq,
                    file.largest_seq,
                    debug_key(&file.smallest, true),
                    debug_key(&file.largest, true)
                ),
            );
        }
    }
    out
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to a String cannot fail");
}

/// `rocksdb.aggregated-table-properties` of these levels; None if a table cannot be read.
pub(super) fn aggregated_properties(
    cf: &CfData,
    view: &SuperVersion,
    levels: Range<usize>,
) -> Option<String> {
    let mut sum = TableProperties::default();
    for file in levels.flat_map(|level| view.version.files(level)) {
        let tables = cf.tables();
        let table = tables.table(file).ok()?;
        add_properties(&mut sum, table.properties());
    }
    Some(properties_text(&sum))
}

fn add_properties(sum: &mut TableProperties, table: &TableProperties) {
    for (mine, theirs) in [
        (&mut sum.num_data_blocks, table.num_data_blocks),
        (&mut sum.num_entries, table.num_entries),
        (&mut sum.num_deletions, table.num_deletions),
        (&mut sum.num_merge_operands, table.num_merge_operands),
        (&mut sum.num_range_deletions, table.num_range_deletions),
        (&mut sum.raw_key_size, table.raw_key_size),
        (&mut sum.raw_value_size, table.raw_value_size),
        (&mut sum.data_size, table.data_size),
        (&mut sum.index_size, table.index_size),
        (&mut sum.index_partitions, table.index_partitions),
        (&mut sum.top_level_index_size, table.top_level_index_size),
        (&mut sum.filter_size, table.filter_size),
        (&mut sum.num_filter_entries, table.num_filter_entries),
    ] {
        *mine = mine.saturating_add(theirs);
    }
    sum.index_key_is_user_key |= table.index_key_is_user_key;
    sum.index_value_is_delta_encoded |= table.index_value_is_delta_encoded;
}

/// What sums up over tables, in RocksDB's words and order. What belongs to one table (names,
/// times, ids) has no place in a sum and is left out.
fn properties_text(p: &TableProperties) -> String {
    let mut out = String::new();
    let average = |total: u64| total as f64 / p.num_entries.max(1) as f64;
    let index = format!(
        "index block size (user-key? {}, delta-value? {})",
        p.index_key_is_user_key, p.index_value_is_delta_encoded
    );
    let table_size = p.data_size + p.index_size + p.filter_size;
    push(&mut out, format_args!("# data blocks={}; ", p.num_data_blocks));
    push(&mut out, format_args!("# entries={}; ", p.num_entries));
    push(&mut out, format_args!("# deletions={}; ", p.num_deletions));
    push(&mut out, format_args!("# merge operands={}; ", p.num_merge_operands));
    push(&mut out, format_args!("# range deletions={}; ", p.num_range_deletions));
    push(&mut out, format_args!("raw key size={}; ", p.raw_key_size));
    push(&mut out, format_args!("raw average key size={:.6}; ", average(p.raw_key_size)));
    push(&mut out, format_args!("raw value size={}; ", p.raw_value_size));
    push(&mut out, format_args!("raw average value size={:.6}; ", average(p.raw_value_size)));
    push(&mut out, format_args!("data block size={}; ", p.data_size));
    push(&mut out, format_args!("{index}={}; ", p.index_size));
    if p.index_partitions > 0 {
        push(&mut out, format_args!("# index partitions={}; ", p.index_partitions));
        push(&mut out, format_args!("top-level index size={}; ", p.top_level_index_size));
    }
    push(&mut out, format_args!("filter block size={}; ", p.filter_size));
    push(&mut out, format_args!("# entries for filter={}; ", p.num_filter_entries));
    push(&mut out, format_args!("(estimated) table size={table_size}; "));
    out
}
