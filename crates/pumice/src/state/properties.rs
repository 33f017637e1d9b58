//! Properties that are numbers or sums over tables, computed from a column family's data or from
//! data under the state lock.
//!
//! Thread safety: from any thread. Numbers are read one by one and may be inconsistent with each
//! other. May open table files and so suspend.

use std::collections::BTreeMap;

use pumice_base::Comparator;
use pumice_manifest::{FileMetaData, Version};
use pumice_memtable::MemTable;
use pumice_table::TableProperties;

use crate::state::family::CfState;
use crate::state::{DbState, property_texts};
use crate::version::family::CfData;
use crate::version::super_version::SuperVersion;

/// Properties with a level at the end of their names.
pub(crate) fn level_property(cf: &CfData, view: &SuperVersion, name: &str) -> Option<String> {
    let (what, level) = name.split_once("-at-level").or_else(|| {
        let level = name.strip_prefix("num-files-at-level")?;
        Some(("num-files", level))
    })?;
    let level = level_number(view, level)?;
    match what {
        "num-files" => Some(view.version.num_level_files(level).to_string()),
        "compression-ratio" => Some(format!("{:.6}", compression_ratio(cf, view, level))),
        _ => None,
    }
}

/// The level that decimal digits name, if there is one.
fn level_number(view: &SuperVersion, digits: &str) -> Option<usize> {
    let decimal = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let level: usize = if decimal { digits.parse().ok()? } else { return None };
    (level < view.version.num_levels()).then_some(level)
}

/// The sum for `aggregated-table-properties`, or for one level with the suffix `-at-levelN`.
pub(crate) fn aggregated(cf: &CfData, view: &SuperVersion, name: &str) -> Option<TableProperties> {
    let levels = match name.strip_prefix("aggregated-table-properties")? {
        "" => 0..view.version.num_levels(),
        one => {
            let level = level_number(view, one.strip_prefix("-at-level")?)?;
            level..level + 1
        }
    };
    property_texts::aggregated_properties(cf, view, levels)
}

/// Bytes of keys and values per byte of file; -1 for an empty level.
pub(crate) fn compression_ratio(cf: &CfData, view: &SuperVersion, level: usize) -> f64 {
    // In 128 bits: the properties of an ingested file may say anything.
    let (mut raw, mut stored) = (0u128, 0u64);
    for file in view.version.files(level) {
        if file.stats.get().is_some() || cf.tables().table(file).is_ok() {
            let stats = file.stats();
            raw += u128::from(stats.raw_key_size) + u128::from(stats.raw_value_size);
            stored += file.file_size;
        }
    }
    if stored == 0 { -1.0 } else { raw as f64 / stored as f64 }
}

pub(crate) fn immutable_memtables(view: &SuperVersion, of: fn(&MemTable) -> u64) -> u64 {
    view.imm.iter().map(|mem| of(mem)).sum()
}

pub(crate) fn all_memtables(view: &SuperVersion, of: fn(&MemTable) -> u64) -> u64 {
    of(&view.mem) + immutable_memtables(view, of)
}

pub(crate) fn memtable_number(view: &SuperVersion, name: &str) -> Option<u64> {
    let memory: fn(&MemTable) -> u64 = |mem| mem.memory_bytes() as u64;
    let number = match name {
        "num-immutable-mem-table" => view.imm.len() as u64,
        // Memtables are not kept after their flush.
        "num-immutable-mem-table-flushed" => view.history.len() as u64,
        "cur-size-active-mem-table" => memory(&view.mem),
        "cur-size-all-mem-tables" => all_memtables(view, memory),
        "size-all-mem-tables" => {
            all_memtables(view, memory) + view.history.iter().map(|mem| memory(mem)).sum::<u64>()
        }
        "num-entries-active-mem-table" => view.mem.num_entries(),
        "num-entries-imm-mem-tables" => immutable_memtables(view, MemTable::num_entries),
        "num-deletes-active-mem-table" => view.mem.num_deletes(),
        "num-deletes-imm-mem-tables" => immutable_memtables(view, MemTable::num_deletes),
        _ => return None,
    };
    Some(number)
}

pub(crate) fn file_number(cf: &CfData, view: &SuperVersion, name: &str) -> Option<u64> {
    let version = &view.version;
    let number = match name {
        "num-live-versions" => cf.live_versions().len() as u64,
        "current-super-version-number" => cf.super_version_number(),
        "live-sst-files-size" => version.total_bytes(),
        "total-sst-files-size" => bytes_of_live_versions(cf),
        "estimate-live-data-size" => live_data_bytes(version, cf.table_order()),
        "estimate-table-readers-mem" => {
            let tables = cf.tables();
            version.all_files().map(|(_, file)| tables.memory(file) as u64).sum()
        }
        "num-blob-files" => version.blob_files().len() as u64,
        "total-blob-file-size" => blob_bytes_of_live_versions(cf),
        "live-blob-file-size" => {
            sum(version.blob_files().values().map(|blob| blob.shared.file_size()))
        }
        "live-blob-file-garbage-size" => {
            sum(version.blob_files().values().map(|blob| blob.garbage_bytes))
        }
        _ => return bytes_at_temperature(version, name),
    };
    Some(number)
}

/// `live-sst-files-size-at-temperatureN`, of RocksDB's number N.
fn bytes_at_temperature(version: &Version, name: &str) -> Option<u64> {
    let number: u64 = name.strip_prefix("live-sst-files-size-at-temperature")?.parse().ok()?;
    let files = version.all_files().filter(|(_, file)| u64::from(file.temperature) == number);
    Some(sum(files.map(|(_, file)| file.file_size)))
}

/// Bytes of all files of all live versions, each file once.
pub(crate) fn bytes_of_live_versions(cf: &CfData) -> u64 {
    let versions = cf.live_versions();
    let files = versions.iter().flat_map(|v| v.all_files());
    let mut sizes: Vec<(u64, u64)> = files.map(|(_, f)| (f.number, f.file_size)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes.iter().map(|(_, bytes)| bytes).sum()
}

/// Bytes of all blob files of all live versions, each file once.
fn blob_bytes_of_live_versions(cf: &CfData) -> u64 {
    let versions = cf.live_versions();
    let blobs = versions.iter().flat_map(|version| version.blob_files());
    let sizes: BTreeMap<u64, u64> =
        blobs.map(|(number, blob)| (*number, blob.shared.file_size())).collect();
    sum(sizes.into_values())
}

/// Numbers from the MANIFEST, which may be damaged: a sum beyond all is the largest.
fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

/// Bytes of a largest set of files, taken from the last level upwards, that do not overlap: what
/// would remain if everything were compacted, roughly.
pub(crate) fn live_data_bytes(version: &Version, comparator: &Comparator) -> u64 {
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

pub(crate) fn cache_number(cf: &CfData, name: &str) -> Option<u64> {
    let number: fn(&pumice_table::BlockCache) -> usize = match name {
        "block-cache-capacity" | "blob-cache-capacity" => |cache| cache.capacity(),
        "block-cache-usage" | "blob-cache-usage" => |cache| cache.usage(),
        "block-cache-pinned-usage" | "blob-cache-pinned-usage" => |cache| cache.pinned_usage(),
        _ => return None,
    };
    let blobs = cf.options().blob_cache.clone();
    let cache = match name.starts_with("blob") {
        true => blobs,
        false => cf.table_options().block_cache.clone(),
    };
    Some(number(&*cache?) as u64)
}

pub(crate) fn database_number(state: &DbState, name: &str) -> Option<u64> {
    let number = match name {
        "is-file-deletions-enabled" => u64::from(!state.files.are_kept()),
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

pub(crate) fn family_number(cf: &CfState, name: &str) -> Option<u64> {
    let number = match name {
        "mem-table-flush-pending" => u64::from(cf.wants_flush()),
        "compaction-pending" => u64::from(cf.plan.needs_compaction()),
        "base-level" => cf.plan.base_level() as u64,
        "estimate-pending-compaction-bytes" => cf.plan.estimated_pending_bytes(),
        _ => return None,
    };
    Some(number)
}

/// Estimate of the keys in memtables and table files, overwrites and deletions considered.
pub(crate) fn estimate_num_keys(cf: &CfData, view: &SuperVersion) -> u64 {
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
