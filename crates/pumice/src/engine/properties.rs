//! Properties: what `Db::property` answers, by RocksDB's names.
//!
//! | part | is |
//! |---|---|
//! | this file | names, and the properties that are numbers |
//! | `reports` | the ones that are texts |
//!
//! RocksDB's names start with `rocksdb.`, our own with `pumice.` (`write-group-size`: a histogram
//! of batches per write group; `wal-syncs`; `table-builds`: codecs and helpers). A name without
//! either, an unknown one, and one that has no value here give None, as does a property that needs
//! state which a dropped column family no longer has.
//! `estimate-oldest-key-time` never has a value: RocksDB knows it for FIFO compaction only.
//!
//! Thread safety: from any thread. Numbers are read one by one and need not fit together. May open
//! table files and so suspend.

mod reports;

use std::collections::BTreeMap;
use std::sync::Arc;

use pumice_base::Comparator;
use pumice_cache::StatsAge;
use pumice_manifest::{FileMetaData, Version};
use pumice_memtable::MemTable;

use crate::engine::family_state::CfState;
use crate::engine::{DbInner, DbState};
use crate::version::family::CfData;
use crate::version::super_version::SuperVersion;

/// Start of RocksDB's names.
const PREFIX: &str = "rocksdb.";
/// Start of names that RocksDB does not have.
const OWN_PREFIX: &str = "pumice.";

impl DbInner {
    /// The property `name` of `cf`, or of the database.
    pub(crate) fn property(&self, cf: &Arc<CfData>, name: &str) -> Option<String> {
        self.check_caller().ok()?;
        if let Some(name) = name.strip_prefix(OWN_PREFIX) {
            return self.own_property(name);
        }
        let name = name.strip_prefix(PREFIX)?;
        let view = cf.super_version.load_full();
        self.text_property(cf, &view, name).or_else(|| {
            memtable_number(&view, name)
                .or_else(|| file_number(cf, &view, name))
                .or_else(|| cache_number(cf, name))
                .or_else(|| self.state_number(cf, name))
                .map(|number| number.to_string())
        })
    }

    /// The property `name` of `cf` as names and values; None if it has no such form.
    pub(crate) fn property_map(
        &self,
        cf: &Arc<CfData>,
        name: &str,
    ) -> Option<BTreeMap<String, String>> {
        self.check_caller().ok()?;
        match name.strip_prefix(PREFIX)? {
            "block-cache-entry-stats" => reports::block_cache_map(cf, StatsAge::ASKED),
            "fast-block-cache-entry-stats" => reports::block_cache_map(cf, StatsAge::ASIDE),
            "background-lanes" => Some(self.lanes_map()),
            _ => None,
        }
    }

    fn own_property(&self, name: &str) -> Option<String> {
        match name {
            "write-group-size" => Some(self.reports.stats.group_sizes().to_string()),
            "wal-syncs" => Some(self.reports.stats.wal_syncs().to_string()),
            "table-builds" => Some(self.reports.table_builds.to_string()),
            _ => None,
        }
    }

    /// Numbers that the state lock guards, or that are the whole database's.
    fn state_number(&self, cf: &CfData, name: &str) -> Option<u64> {
        let number = match name {
            "num-snapshots" => self.snapshots.len() as u64,
            "oldest-snapshot-time" => self.snapshots.oldest_seconds(),
            "oldest-snapshot-sequence" => self.snapshots.sequences().first().copied().unwrap_or(0),
            "background-errors" => self.reports.events.background_errors(),
            "actual-delayed-write-rate" => self.writes.controller.delayed_rate(),
            "is-write-stopped" => u64::from(self.writes.controller.is_stopped()),
            _ => {
                let state = self.state.lock();
                let of_database = database_number(&state, name);
                let of_family = || family_number(state.cfs.get(&cf.id)?, name);
                return of_database.or_else(of_family);
            }
        };
        Some(number)
    }

    /// Estimate of the keys in memtables and table files, overwrites and deletions considered.
    fn estimate_num_keys(&self, cf: &CfData, view: &SuperVersion) -> u64 {
        let entries = all_memtables(view, MemTable::num_entries);
        let deletions = all_memtables(view, MemTable::num_deletes);
        let (mut kept, mut sampled) = (0i128, 0u64);
        for (_, file) in view.version.all_files() {
            // Opening a table fills in the counts.
            if file.stats.get().is_none() && cf.tables().table(file).is_err() {
                continue;
            }
            let stats = file.stats();
            // A deletion counts as an entry and hides another.
            kept += i128::from(stats.num_entries) - 2 * i128::from(stats.num_deletions);
            sampled += 1;
        }
        let files = view.version.num_files() as i128;
        let in_files = kept.max(0) * files / i128::from(sampled.max(1));
        let keys = in_files + i128::from(entries) - 2 * i128::from(deletions);
        u64::try_from(keys.max(0)).unwrap_or(u64::MAX)
    }

    fn text_property(&self, cf: &Arc<CfData>, view: &SuperVersion, name: &str) -> Option<String> {
        let text = match name {
            "stats" => self.cf_report(cf) + &self.db_report(),
            "cfstats" => self.cf_report(cf),
            "cfstats-no-file-histogram" => self.cf_report_without_latencies(cf),
            "cf-file-histogram" => self.latency_report(cf),
            "cf-write-stall-stats" => cf.stats.lock().stalls.report(),
            "dbstats" => self.db_report(),
            "bg-controller" => self.regulator_report(),
            "background-lanes" => self.lanes_report(),
            "levelstats" => self.level_report(cf),
            "block-cache-entry-stats" => reports::block_cache_report(cf, StatsAge::ASKED)?,
            "fast-block-cache-entry-stats" => reports::block_cache_report(cf, StatsAge::ASIDE)?,
            "sstables" => reports::files_report(cf, view),
            "aggregated-table-properties" => {
                let levels = 0..view.version.num_levels();
                reports::aggregated_properties(cf, view, levels)?
            }
            "options-statistics" => self.reports.statistics.as_ref()?.to_string(),
            "estimate-num-keys" => self.estimate_num_keys(cf, view).to_string(),
            _ => return level_property(cf, view, name),
        };
        Some(text)
    }
}

/// Properties with a level at the end of their names.
fn level_property(cf: &CfData, view: &SuperVersion, name: &str) -> Option<String> {
    let (what, level) = name.split_once("-at-level").or_else(|| {
        let level = name.strip_prefix("num-files-at-level")?;
        Some(("num-files", level))
    })?;
    let digits = !level.is_empty() && level.bytes().all(|b| b.is_ascii_digit());
    let level: usize = if digits { level.parse().ok()? } else { return None };
    if level >= view.version.num_levels() {
        return None;
    }
    match what {
        "num-files" => Some(view.version.num_level_files(level).to_string()),
        "compression-ratio" => Some(format!("{:.6}", compression_ratio(cf, view, level))),
        "aggregated-table-properties" => reports::aggregated_properties(cf, view, level..level + 1),
        _ => None,
    }
}

/// Bytes of keys and values per byte of file; -1 for an empty level.
fn compression_ratio(cf: &CfData, view: &SuperVersion, level: usize) -> f64 {
    let (mut raw, mut stored) = (0u64, 0u64);
    for file in view.version.files(level) {
        if file.stats.get().is_some() || cf.tables().table(file).is_ok() {
            raw += file.stats().raw_key_size + file.stats().raw_value_size;
            stored += file.file_size;
        }
    }
    if stored == 0 { -1.0 } else { raw as f64 / stored as f64 }
}

fn immutable_memtables(view: &SuperVersion, of: fn(&MemTable) -> u64) -> u64 {
    view.imm.iter().map(|mem| of(mem)).sum()
}

fn all_memtables(view: &SuperVersion, of: fn(&MemTable) -> u64) -> u64 {
    of(&view.mem) + immutable_memtables(view, of)
}

fn memtable_number(view: &SuperVersion, name: &str) -> Option<u64> {
    let memory: fn(&MemTable) -> u64 = |mem| mem.memory_bytes() as u64;
    let number = match name {
        "num-immutable-mem-table" => view.imm.len() as u64,
        // Nothing keeps memtables after their flush.
        "num-immutable-mem-table-flushed" => 0,
        "cur-size-active-mem-table" => memory(&view.mem),
        "cur-size-all-mem-tables" | "size-all-mem-tables" => all_memtables(view, memory),
        "num-entries-active-mem-table" => view.mem.num_entries(),
        "num-entries-imm-mem-tables" => immutable_memtables(view, MemTable::num_entries),
        "num-deletes-active-mem-table" => view.mem.num_deletes(),
        "num-deletes-imm-mem-tables" => immutable_memtables(view, MemTable::num_deletes),
        _ => return None,
    };
    Some(number)
}

fn file_number(cf: &CfData, view: &SuperVersion, name: &str) -> Option<u64> {
    let version = &view.version;
    let number = match name {
        "num-live-versions" => cf.live_versions().len() as u64,
        "current-super-version-number" => cf.super_version_number(),
        "live-sst-files-size" => version.total_bytes(),
        "total-sst-files-size" => bytes_of_live_versions(cf),
        "estimate-live-data-size" => live_data_bytes(version, cf.comparator()),
        "estimate-table-readers-mem" => {
            let tables = cf.tables();
            version.all_files().map(|(_, file)| tables.memory(file) as u64).sum()
        }
        // Values are never stored apart from their keys.
        "num-blob-files"
        | "total-blob-file-size"
        | "live-blob-file-size"
        | "live-blob-file-garbage-size" => 0,
        _ => return None,
    };
    Some(number)
}

/// Bytes of all files of all versions that somebody reads, each file once.
fn bytes_of_live_versions(cf: &CfData) -> u64 {
    let versions = cf.live_versions();
    let files = versions.iter().flat_map(|v| v.all_files());
    let mut sizes: Vec<(u64, u64)> = files.map(|(_, f)| (f.number, f.file_size)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes.iter().map(|(_, bytes)| bytes).sum()
}

/// Bytes of a largest set of files, taken from the last level upwards, that do not overlap: what
/// would remain if everything were compacted, roughly.
fn live_data_bytes(version: &Version, comparator: &Comparator) -> u64 {
    // Kept files, disjoint and ordered by their keys.
    let mut kept: Vec<&FileMetaData> = Vec::new();
    let mut bytes = 0;
    for level in version.levels().iter().rev() {
        for file in level.files() {
            let at = kept.partition_point(|k| {
                comparator.compare(k.largest_user_key(), file.smallest_user_key()).is_lt()
            });
            let free = kept.get(at).is_none_or(|k| {
                comparator.compare(file.largest_user_key(), k.smallest_user_key()).is_lt()
            });
            if free {
                kept.insert(at, file);
                bytes += file.file_size;
            }
        }
    }
    bytes
}

fn cache_number(cf: &CfData, name: &str) -> Option<u64> {
    let number: fn(&pumice_table::BlockCache) -> usize = match name {
        "block-cache-capacity" => |cache| cache.capacity(),
        "block-cache-usage" => |cache| cache.usage(),
        "block-cache-pinned-usage" => |cache| cache.pinned_usage(),
        _ => return None,
    };
    let options = cf.table_options();
    Some(number(options.block_cache.as_ref()?) as u64)
}

fn database_number(state: &DbState, name: &str) -> Option<u64> {
    let number = match name {
        "is-file-deletions-enabled" => u64::from(state.files.deletions_disabled == 0),
        "min-log-number-to-keep" => state.files.min_log_to_keep,
        "min-obsolete-sst-number-to-keep" => {
            state.files.pending_outputs.first().copied().unwrap_or(u64::MAX)
        }
        "num-running-flushes" => state.jobs.running_flushes as u64,
        "num-running-compactions" => {
            (state.jobs.running_compactions + state.jobs.bottom_compactions) as u64
        }
        _ => return None,
    };
    Some(number)
}

fn family_number(cf: &CfState, name: &str) -> Option<u64> {
    let number = match name {
        "mem-table-flush-pending" => u64::from(cf.wants_flush()),
        "compaction-pending" => u64::from(cf.plan.needs_compaction()),
        "base-level" => cf.plan.base_level() as u64,
        "estimate-pending-compaction-bytes" => cf.plan.estimated_pending_bytes(),
        _ => return None,
    };
    Some(number)
}
