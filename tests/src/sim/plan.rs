//! What databases of the suites look like: random options that make much happen with little work.

use pumice_base::random::Rng;
use pumice_testkit::oracle::Logging;

use super::world::Plan;
use crate::stores::Settings;

/// The longest value where a few dozen batches are to fill a memtable.
pub const LARGE_VALUE_BYTES: u64 = 3000;

/// A database of any kind.
pub fn random(rng: &mut Rng) -> Plan {
    let families = 1 + rng.uniform(3) as usize;
    let logging = match rng.uniform(6) {
        // From a copy, as the kinds of tables below.
        0 if rng.clone().one_in(2) => Logging::AtomicFlush,
        0 => Logging::Off,
        1 => Logging::ManualFlush,
        _ => Logging::Wal,
    };
    let mut plan = small(families, logging);
    plan.order_family = rng.uniform(families as u64) as usize;
    plan.keys = 5 + rng.uniform(60);
    plan.value_bytes_max = if rng.one_in(4) { LARGE_VALUE_BYTES } else { 60 };
    plan.info_log = rng.one_in(8);
    let settings = &mut plan.settings;
    let mut maybe = |one_in: u64, name: &'static str, value: &str| {
        if rng.one_in(one_in) {
            *settings = settings.clone().with(name, value);
        }
    };
    maybe(3, "max_total_wal_size", "20000");
    maybe(4, "avoid_flush_during_recovery", "true");
    maybe(4, "max_manifest_file_size", "500");
    maybe(4, "max_background_jobs", "4");
    maybe(5, "max_subcompactions", "3");
    maybe(5, "write_buffer_size", "200000");
    maybe(6, "max_write_buffer_number", "4");
    maybe(8, "use_fsync", "true");
    maybe(8, "max_open_files", "20");
    maybe(8, "level_compaction_dynamic_level_bytes", "false");
    draw_tables(&mut rng.clone(), &mut plan.settings);
    draw_logs_and_memory(&mut rng.clone(), &mut plan);
    draw_blobs(&mut rng.clone(), &mut plan.settings);
    if rng.fork().fork().fork().fork().one_in(4) {
        // All is young: a simulated life is short.
        plan.settings = plan.settings.clone().with("preclude_last_level_data_seconds", "100000");
    }
    if !rng.one_in(4) {
        // Every life opens several times, and most of that would be the making of block caches.
        plan.settings.table.push_str(";no_block_cache=true");
    }
    plan
}

/// Draws the settings of logs and memtables that are rarely changed, from a copy as well.
fn draw_logs_and_memory(rng: &mut Rng, plan: &mut Plan) {
    const RARE: [(&str, &str); 14] = [
        // Faults are for files under /db*.
        ("wal_dir", "/db-logs"),
        ("WAL_ttl_seconds", "3600"),
        ("wal_bytes_per_sync", "1000"),
        ("bytes_per_sync", "1000"),
        ("use_direct_io_for_flush_and_compaction", "true"),
        ("use_direct_reads", "true"),
        ("compaction_readahead_size", "1000"),
        ("allow_concurrent_memtable_write", "false"),
        ("max_write_batch_group_size_bytes", "500"),
        ("memtable_max_range_deletions", "3"),
        ("memtable_prefix_bloom_size_ratio", "0.1"),
        ("max_successive_merges", "3"),
        ("db_write_buffer_size", "100000"),
        ("background_policy", "static"),
    ];
    let mut rng = rng.fork().fork();
    if rng.one_in(4) {
        plan.pile_up_logs();
    }
    if rng.one_in(2) {
        for (name, value) in RARE {
            if rng.one_in(4) {
                plan.settings = plan.settings.clone().with(name, value);
            }
        }
    }
    let mut rng = rng.fork();
    if plan.logging.has_wal() && rng.one_in(3) {
        let files = if rng.one_in(2) { "1" } else { "3" };
        plan.settings = plan.settings.clone().with("recycle_log_file_num", files);
    }
}

/// Draws the settings of tables and of how they are built from a copy of the life's generator, so
/// that they do not change the rest of the life.
fn draw_tables(rng: &mut Rng, settings: &mut Settings) {
    // Not the numbers that the life itself continues with.
    let mut rng = rng.fork();
    let mut draw = |values: &[&'static str]| values[rng.uniform(values.len() as u64) as usize];
    for family in &mut settings.families {
        family.1 = draw(&["kNoCompression", "kLZ4Compression", "kZSTD", "kZSTD"]);
    }
    let threads = draw(&["1", "1", "2", "3", "4", "5", "8", "9", "16"]);
    let dictionary = draw(&["0", "0", "1024", "4096"]);
    let buffered = draw(&["0", "3000"]);
    let codec = format!(
        "{{parallel_threads={threads};max_dict_bytes={dictionary};\
         max_dict_buffer_bytes={buffered};}}"
    );
    let mut changed = settings.clone().with("compression_opts", &codec);
    // FIFO with a limit that is never reached merges files and deletes none.
    let fifo = draw(&["level", "level", "level", "level", "level", "fifo"]) == "fifo";
    if fifo {
        let merges = draw(&["true", "false"]);
        let limit = format!("{{max_table_files_size=1T;allow_compaction={merges};}}");
        changed = changed
            .with("compaction_style", "kCompactionStyleFIFO")
            .with("compaction_options_fifo", &limit);
    }
    let prefix = draw(&["nullptr", "nullptr", "fixed:1", "fixed:3", "capped:2"]);
    changed = changed.with("prefix_extractor", prefix);
    let index = match draw(&["plain", "plain", "two", "two", "first", "hash"]) {
        "two" => "kTwoLevelIndexSearch",
        "first" => "kBinarySearchWithFirstKey",
        "hash" if prefix != "nullptr" => "kHashSearch",
        _ => "kBinarySearch",
    };
    let partitioned = draw(&["true", "false"]);
    let decoupled = draw(&["false", "true", "true"]);
    let whole = draw(&["true", "true", "false"]);
    changed.table.push_str(&format!(
        ";index_type={index};partition_filters={partitioned};metadata_block_size=256\
         ;decouple_partitioned_filters={decoupled};whole_key_filtering={whole}"
    ));
    if !fifo && draw(&["level", "level", "universal"]) == "universal" {
        changed = universal(changed, &mut draw);
    }
    *settings = changed;
}

/// Draws whether there are blob files, and which values go to them, from a copy as well.
fn draw_blobs(rng: &mut Rng, settings: &mut Settings) {
    let mut rng = rng.fork().fork().fork();
    if !rng.one_in(3) {
        return;
    }
    let mut draw = |values: &[&'static str]| values[rng.uniform(values.len() as u64) as usize];
    *settings = settings
        .clone()
        .with("enable_blob_files", "true")
        .with("min_blob_size", draw(&["0", "20", "40"]))
        .with("blob_file_size", draw(&["300", "3000", "268435456"]))
        .with("blob_compression_type", draw(&["kNoCompression", "kLZ4Compression"]))
        .with("blob_file_starting_level", draw(&["0", "0", "1"]))
        .with("blob_compaction_readahead_size", draw(&["0", "1000"]))
        .with("enable_blob_garbage_collection", draw(&["true", "true", "false"]))
        .with("blob_garbage_collection_age_cutoff", draw(&["0.25", "0.5", "1.0"]))
        .with("blob_garbage_collection_force_threshold", draw(&["1.0", "0.5"]));
}

/// Universal compaction of any kind; compaction by age has tests of its own.
fn universal(
    settings: Settings,
    draw: &mut impl FnMut(&[&'static str]) -> &'static str,
) -> Settings {
    let ratio = draw(&["0", "1", "100", "1000"]);
    let widths = draw(&["", "min_merge_width=3;", "max_merge_width=3;"]);
    let amplification = draw(&["0", "25", "200", "100000"]);
    let compressed = draw(&["-1", "-1", "50"]);
    let runs = draw(&["-1", "-1", "0", "6"]);
    let style = draw(&["kCompactionStopStyleTotalSize", "kCompactionStopStyleSimilarSize"]);
    let (moves, pieces) = (draw(&["false", "true"]), draw(&["false", "true"]));
    let options = format!(
        "{{size_ratio={ratio};{widths}max_size_amplification_percent={amplification};\
         compression_size_percent={compressed};max_read_amp={runs};stop_style={style};\
         allow_trivial_move={moves};incremental={pieces};}}"
    );
    settings
        .with("compaction_style", "kCompactionStyleUniversal")
        .with("compaction_options_universal", &options)
        .with("periodic_compaction_seconds", "0")
        .with("num_levels", draw(&["1", "2", "4", "7"]))
        .with("max_compaction_bytes", draw(&["0", "20000"]))
        .with("target_file_size_base", draw(&["3000", "64M"]))
}

/// A plain small database. Its memtables are the smallest that there are, 64 KiB.
pub fn small(families: usize, logging: Logging) -> Plan {
    let mut settings = Settings::small(families)
        .with("arena_block_size", "4096")
        .with("level0_file_num_compaction_trigger", "2")
        // The task that waits for the age of files has tests of its own.
        .with("ttl", "0");
    if logging == Logging::ManualFlush {
        settings = settings.with("manual_wal_flush", "true");
    }
    settings.disable_wal = !logging.has_wal();
    if logging == Logging::AtomicFlush {
        settings = settings.with("atomic_flush", "true");
    }
    Plan {
        families,
        logging,
        order_family: 0,
        keys: 20,
        key_prefix: String::new(),
        value_bytes_max: 60,
        settings,
        info_log: false,
        behind: false,
        one_sync_in: 6,
    }
}

/// Gives a plan keys of several hundred bytes.
pub fn lengthen_keys(plan: &mut Plan) {
    plan.key_prefix = "x".repeat(600);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pumice::MemFs;

    use super::*;
    use crate::sim::script;
    use crate::stores::pumice::options;

    /// The options of `plan` that the engine replaces: name, the value set, the value used.
    fn replaced(plan: &Plan) -> Vec<(&'static str, String, String)> {
        let (base, _) = options(&plan.settings, MemFs::new(1).shared()).expect("known options");
        let db = base.db.sanitized().expect("options that can be used");
        let cf = base.cf.sanitized().expect("options that can be used");
        let value = |name| match base.db.get(name) {
            Ok(set) => Ok((name, set, db.get(name)?)),
            Err(_) => Ok((name, base.cf.get(name)?, cf.get(name)?)),
        };
        let names = plan.settings.options.iter().map(|(name, _)| *name);
        let values: pumice::Result<Vec<_>> = names.map(value).collect();
        // This zero stands for the value that is derived.
        let derived = |name, set: &str| (name, set) == ("max_compaction_bytes", "0");
        let values = values.expect("known names").into_iter();
        values.filter(|(name, set, used)| set != used && !derived(*name, set)).collect()
    }

    /// A value that the engine replaces has no effect, whatever was meant by drawing it.
    #[test] // Opens nothing.
    fn plans_set_no_option_that_the_engine_replaces() {
        let mut all = BTreeMap::new();
        let random = (0..2000).map(|seed| random(&mut Rng::new(seed)));
        let workloads = (0..script::WORKLOADS).map(|number| script::workload(number).plan);
        let scenarios = (0..script::SCENARIO_COUNT).map(|number| script::scenario(number).1.plan);
        for plan in random.chain(workloads).chain(scenarios) {
            all.extend(replaced(&plan).into_iter().map(|(name, set, used)| (name, (set, used))));
        }
        assert!(all.is_empty(), "{all:?}");
    }
}
