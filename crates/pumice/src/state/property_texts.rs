//! Properties that are texts, laid out as RocksDB lays them out.
//!
//! Thread safety: from any thread. May open table files and so suspend.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

use pumice_cache::{ChargedRole, RoleSum, StatsAge};
use pumice_manifest::Version;
use pumice_manifest::file_meta::debug_key;
use pumice_port::time;
use pumice_table::{BlockCache, BlockKind, CachedBlock, TableProperties};

use crate::state::DbState;
use crate::stats::cf_stats::{self, BlobView, BlockCacheView, CfView, LevelView};
use crate::version::family::CfData;
use crate::version::super_version::SuperVersion;

/// Roles of entries, in RocksDB's order, each with its name in texts and in maps. Those from
/// `WriteBuffer` on, but for `BlobValue`, are memory charged to the cache, whose entries are its
/// owners. Maps name all.
pub(crate) const ROLES: [(&str, &str); 14] = [
    ("DataBlock", "data-block"),
    ("FilterBlock", "filter-block"),
    ("FilterMetaBlock", "filter-meta-block"),
    ("DeprecatedFilterBlock", "deprecated-filter-block"),
    ("IndexBlock", "index-block"),
    ("OtherBlock", "other-block"),
    ("WriteBuffer", "write-buffer"),
    ("CompressionDictionaryBuildingBuffer", "compression-dictionary-building-buffer"),
    ("FilterConstruction", "filter-construction"),
    ("BlockBasedTableReader", "block-based-table-reader"),
    ("FileMetadata", "file-metadata"),
    ("BlobValue", "blob-value"),
    ("BlobCache", "blob-cache"),
    ("Misc", "misc"),
];

/// Number of the role in `ROLES`.
pub(crate) fn role_of(block: &CachedBlock) -> usize {
    match block.kind() {
        BlockKind::Data => 0,
        BlockKind::Filter => 1,
        BlockKind::FilterIndex => 2,
        BlockKind::Index => 4,
        BlockKind::Blob => 11,
        BlockKind::Dummy => ROLES.len() - 1,
        _ => 5,
    }
}

/// Number in `ROLES` of memory charged to the cache.
fn charged_role(role: ChargedRole) -> usize {
    match role {
        ChargedRole::WriteBuffer => 6,
        ChargedRole::CompressionDictionaryBuildingBuffer => 7,
        ChargedRole::FilterConstruction => 8,
        ChargedRole::BlockBasedTableReader => 9,
        ChargedRole::FileMetadata => 10,
        ChargedRole::BlobCache => 12,
    }
}

/// The figures of a column family's tree for its reports.
pub(crate) struct FamilyFigures {
    levels: Vec<LevelView>,
    pending_bytes: u64,
}

impl DbState {
    /// The figures of `cf`; once it is dropped, without scores and debt.
    pub fn figures(&self, cf: &CfData) -> FamilyFigures {
        let version = Arc::clone(&cf.super_version.load().version);
        let plan = self.cfs.get(&cf.id).map(|cf| &cf.plan);
        let view = |level: usize| LevelView {
            files: version.num_level_files(level),
            being_compacted: version.files(level).iter().filter(|f| f.is_being_compacted()).count(),
            bytes: version.level_bytes(level),
            score: plan.map_or(0.0, |plan| plan.score(level)),
        };
        FamilyFigures {
            levels: (0..version.num_levels()).map(view).collect(),
            pending_bytes: plan.map_or(0, |plan| plan.estimated_pending_bytes()),
        }
    }
}

impl FamilyFigures {
    /// `rocksdb.cfstats`.
    pub fn report(&self, cf: &CfData) -> String {
        self.with_view(cf, |view| cf.stats.lock().report(view))
    }

    /// `rocksdb.cfstats` as a map.
    pub fn map(&self, cf: &CfData) -> BTreeMap<String, String> {
        cf.stats.lock().map(&self.levels)
    }

    /// `rocksdb.cfstats-no-file-histogram`.
    pub fn report_without_latencies(&self, cf: &CfData) -> String {
        self.with_view(cf, |view| cf.stats.lock().report_without_latencies(view))
    }

    /// `rocksdb.cf-file-histogram`. Reads are not timed by level, so it has no histograms.
    pub fn latency_report(&self, cf: &CfData) -> String {
        self.with_view(cf, cf_stats::read_latency_report)
    }

    /// `rocksdb.levelstats`.
    pub fn level_report(&self) -> String {
        cf_stats::level_report(&self.levels)
    }

    fn with_view(&self, cf: &CfData, report: impl FnOnce(&CfView<'_>) -> String) -> String {
        let cache =
            cf.table_options().block_cache.as_ref().map(|cache| cache_view(cache, StatsAge::ASIDE));
        report(&CfView {
            cf_name: &cf.name,
            now_micros: time::now_micros(),
            levels: &self.levels,
            estimated_pending_compaction_bytes: self.pending_bytes,
            block_cache: cache.as_ref(),
            blobs: blob_view(&cf.super_version.load().version),
            read_latencies: &[],
        })
    }
}

/// The blob files of a version.
pub(crate) fn blob_view(version: &Version) -> BlobView {
    let mut view = BlobView::default();
    for blob in version.blob_files().values() {
        view.files += 1;
        view.bytes = view.bytes.saturating_add(blob.shared.file_size());
        view.garbage_bytes = view.garbage_bytes.saturating_add(blob.garbage_bytes);
    }
    view
}

/// `rocksdb.block-cache-entry-stats`; None without a block cache.
pub(crate) fn block_cache_report(cf: &CfData, age: StatsAge) -> Option<String> {
    let options = cf.table_options();
    Some(cf_stats::block_cache_report(&cache_view(options.block_cache.as_ref()?, age)))
}

/// The same as names and values, RocksDB's `BlockCacheEntryStatsMapKeys`.
pub(crate) fn block_cache_map(cf: &CfData, age: StatsAge) -> Option<BTreeMap<String, String>> {
    let options = cf.table_options();
    let view = cache_view(options.block_cache.as_ref()?, age);
    let mut map = BTreeMap::from([
        ("id".to_string(), view.identity),
        ("capacity".to_string(), view.capacity.to_string()),
        ("secs_for_last_collection".to_string(), format!("{:.6}", view.last_secs)),
        ("secs_since_last_collection".to_string(), view.secs_since.to_string()),
    ]);
    for ((_, name), (_, entries, bytes)) in ROLES.iter().zip(&view.roles) {
        let percent = *bytes as f64 * 100.0 / view.capacity.max(1) as f64;
        map.insert(format!("count.{name}"), entries.to_string());
        map.insert(format!("bytes.{name}"), bytes.to_string());
        map.insert(format!("percent.{name}"), format!("{percent:.6}"));
    }
    Some(map)
}

/// The contents of the cache; scans all of it unless it was scanned recently.
pub(crate) fn cache_view(cache: &Arc<BlockCache>, age: StatsAge) -> BlockCacheView {
    let mut stats = cache.entry_stats(age, ROLES.len(), role_of);
    for (role, sum) in ChargedRole::ALL.into_iter().zip(stats.charges) {
        stats.roles[charged_role(role)] = sum;
    }
    let role = |(names, sum): (&(&'static str, &str), &RoleSum)| (names.0, sum.entries, sum.bytes);
    // In a simulation the results of a seed must not depend on addresses.
    let address = if pumice_port::sim::is_running() { 0 } else { Arc::as_ptr(cache).addr() };
    BlockCacheView {
        identity: format!("HyperClockCache@{address:#x}#{}", pumice_port::os::pid()),
        capacity: stats.capacity,
        usage: stats.usage,
        table_size: stats.table_len,
        occupancy: stats.occupancy,
        collections: stats.collections,
        last_copies: stats.copies,
        last_secs: stats.duration_micros as f64 / 1e6,
        secs_since: time::now_micros().saturating_sub(stats.ended_micros) / 1_000_000,
        roles: ROLES.iter().zip(&stats.roles).map(role).collect(),
    }
}

/// `rocksdb.sstables`: every file with its bytes, sequence numbers and bounds.
pub(crate) fn files_report(cf: &CfData, view: &SuperVersion) -> String {
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

pub(crate) fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to a String cannot fail");
}

/// The sum of the properties of the tables on these levels; None if a table cannot be read.
pub(crate) fn aggregated_properties(
    cf: &CfData,
    view: &SuperVersion,
    levels: Range<usize>,
) -> Option<TableProperties> {
    let mut sum = TableProperties::default();
    for file in levels.flat_map(|level| view.version.files(level)) {
        let tables = cf.tables();
        let table = tables.table(file).ok()?;
        add_properties(&mut sum, table.properties());
    }
    Some(sum)
}

/// The sum as names and values.
pub(crate) fn properties_map(p: &TableProperties) -> BTreeMap<String, String> {
    let values = [
        ("num_data_blocks", p.num_data_blocks),
        ("num_entries", p.num_entries),
        ("num_deletions", p.num_deletions),
        ("num_merge_operands", p.num_merge_operands),
        ("num_range_deletions", p.num_range_deletions),
        ("raw_key_size", p.raw_key_size),
        ("raw_value_size", p.raw_value_size),
        ("data_size", p.data_size),
        ("index_size", p.index_size),
        ("index_partitions", p.index_partitions),
        ("top_level_index_size", p.top_level_index_size),
        ("filter_size", p.filter_size),
        ("num_filter_entries", p.num_filter_entries),
        ("slow_compression_estimated_data_size", p.slow_compression_size),
        ("fast_compression_estimated_data_size", p.fast_compression_size),
    ];
    values.map(|(name, value)| (name.to_string(), value.to_string())).into()
}

pub(crate) fn add_properties(sum: &mut TableProperties, table: &TableProperties) {
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
        (&mut sum.slow_compression_size, table.slow_compression_size),
        (&mut sum.fast_compression_size, table.fast_compression_size),
    ] {
        *mine = mine.saturating_add(theirs);
    }
    sum.index_key_is_user_key |= table.index_key_is_user_key;
    sum.index_value_is_delta_encoded |= table.index_value_is_delta_encoded;
}

/// Properties that can be summed over tables, in RocksDB's words and order. Those of a single table
/// (names, times, ids) are left out.
pub(crate) fn properties_text(p: &TableProperties) -> String {
    let mut out = String::new();
    let average = |total: u64| total as f64 / p.num_entries.max(1) as f64;
    let index = format!(
        "index block size (user-key? {}, delta-value? {})",
        p.index_key_is_user_key, p.index_value_is_delta_encoded
    );
    let table_size = p.data_size.saturating_add(p.index_size).saturating_add(p.filter_size);
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
    let (slow, fast) = (p.slow_compression_size, p.fast_compression_size);
    push(&mut out, format_args!("slow compression estimated data size={slow}; "));
    push(&mut out, format_args!("fast compression estimated data size={fast}; "));
    out
}
