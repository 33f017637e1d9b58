//! Options of databases that are presets, lists of numbers, or parts of others.

use pumice_binding::store::Fields;

use crate::ffi::macros::c_api;
use crate::ffi::types::Options;

type EngineOptions = pumice::Options;

/// Applies one of the engine's presets.
fn preset(options: &mut Options, change: impl FnOnce(EngineOptions) -> EngineOptions) {
    // The values of the options go in and out, so that what the preset does not set stays. What is
    // refused is refused at the open.
    let Ok(engine) = options.values.to_engine() else { return };
    let given = options.values.engine.db.skipped_options.clone();
    let mut engine = change(engine);
    engine.db.skipped_options = given;
    options.values.take_engine(engine);
}

/// The codecs with these numbers; numbers that are none give no compression.
fn codecs(numbers: &[i32]) -> Vec<pumice::CompressionType> {
    let codec = |number: &i32| {
        let number = u8::try_from(*number).ok();
        number.and_then(pumice::CompressionType::from_u8).unwrap_or(pumice::CompressionType::None)
    };
    numbers.iter().map(codec).collect()
}

fn has_bit(bits: u64, number: i32) -> bool {
    u32::try_from(number).is_ok_and(|number| bits.checked_shr(number).is_some_and(|b| b & 1 == 1))
}

fn bit(number: i32) -> u64 {
    u32::try_from(number).ok().and_then(|number| 1u64.checked_shl(number)).unwrap_or(0)
}

fn unsigned(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

c_api! {
    fn rocksdb_options_increase_parallelism(options: &mut Options, total_threads: i32) {
        let threads = usize::try_from(total_threads).unwrap_or(1).max(1);
        preset(options, |engine| engine.increase_parallelism(threads));
    }

    fn rocksdb_options_optimize_for_point_lookup(options: &mut Options, block_cache_size_mb: u64) {
        let mib = usize::try_from(block_cache_size_mb).unwrap_or(usize::MAX);
        preset(options, |engine| engine.for_point_lookups(mib));
    }

    fn rocksdb_options_optimize_level_style_compaction(
        options: &mut Options, memtable_memory_budget: u64
    ) {
        preset(options, |engine| engine.optimize_leveled(memtable_memory_budget));
    }

    fn rocksdb_options_optimize_universal_style_compaction(
        options: &mut Options, memtable_memory_budget: u64
    ) {
        preset(options, |engine| engine.optimize_universal(memtable_memory_budget));
    }

    fn rocksdb_options_prepare_for_bulk_load(options: &mut Options) {
        preset(options, EngineOptions::for_bulk_load);
    }

    fn rocksdb_options_compaction_readahead_size(options: &mut Options, bytes: usize) {
        options.store_mut().put("compaction_readahead_size", bytes as u64);
    }

    fn rocksdb_options_set_compression_per_level(options: &mut Options, levels: Ints) {
        options.values.engine.cf.compression_per_level = codecs(levels);
    }

    fn rocksdb_options_set_min_level_to_compress(options: &mut Options, level: i32) {
        let Ok(level) = usize::try_from(level) else { return };
        let number = i32::try_from(options.store().int("compression")).unwrap_or(0);
        let levels = usize::try_from(options.store().int("num_levels")).unwrap_or(0).min(100);
        let per_level: Vec<i32> =
            (0..levels).map(|at| if at < level { 0 } else { number }).collect();
        options.values.engine.cf.compression_per_level = codecs(&per_level);
    }

    fn rocksdb_options_set_max_bytes_for_level_multiplier_additional(
        options: &mut Options, multipliers: IntsMut
    ) {
        options.values.engine.cf.max_bytes_for_level_multiplier_additional = multipliers.to_vec();
    }

    fn rocksdb_options_set_compression_options(
        options: &mut Options, window_bits: i32, level: i32, strategy: i32, max_dict_bytes: i32
    ) {
        let target = &mut options.values.engine.cf.compression_opts;
        (target.window_bits, target.level, target.strategy) = (window_bits, level, strategy);
        target.max_dict_bytes = unsigned(max_dict_bytes);
    }

    fn rocksdb_options_set_bottommost_compression_options(
        options: &mut Options, window_bits: i32, level: i32, strategy: i32, max_dict_bytes: i32,
        enabled: bool
    ) {
        let target = &mut options.values.engine.cf.bottommost_compression_opts;
        (target.window_bits, target.level, target.strategy) = (window_bits, level, strategy);
        target.max_dict_bytes = unsigned(max_dict_bytes);
        target.enabled = enabled;
    }

    fn rocksdb_options_set_bottommost_compression_options_zstd_max_train_bytes(
        options: &mut Options, bytes: i32, enabled: bool
    ) {
        let target = &mut options.values.engine.cf.bottommost_compression_opts;
        (target.zstd_max_train_bytes, target.enabled) = (unsigned(bytes), enabled);
    }

    fn rocksdb_options_set_bottommost_compression_options_use_zstd_dict_trainer(
        options: &mut Options, trainer: bool, enabled: bool
    ) {
        options.values.engine.cf.bottommost_compression_opts.enabled = enabled;
        let name = "bottommost_compression_options_use_zstd_dict_trainer";
        options.store_mut().put(name, u64::from(trainer));
    }

    fn rocksdb_options_set_bottommost_compression_options_max_dict_buffer_bytes(
        options: &mut Options, bytes: u64, enabled: bool
    ) {
        let target = &mut options.values.engine.cf.bottommost_compression_opts;
        (target.max_dict_buffer_bytes, target.enabled) = (bytes, enabled);
    }

    fn rocksdb_options_checksum_handoff_file_types_clear(options: &mut Options) {
        options.values.checksum_handoff_file_types = 0;
    }

    fn rocksdb_options_checksum_handoff_file_types_add(options: &mut Options, file_type: i32) {
        options.values.checksum_handoff_file_types |= bit(file_type);
    }

    fn rocksdb_options_checksum_handoff_file_types_remove(options: &mut Options, file_type: i32) {
        options.values.checksum_handoff_file_types &= !bit(file_type);
    }

    fn rocksdb_options_checksum_handoff_file_types_contains(
        options: &Options, file_type: i32
    ) -> bool {
        has_bit(options.values.checksum_handoff_file_types, file_type)
    }

    fn rocksdb_options_checksum_handoff_file_types_count(options: &Options) -> usize {
        options.values.checksum_handoff_file_types.count_ones() as usize
    }

    fn rocksdb_options_calculate_sst_write_lifetime_hint_set_clear(options: &mut Options) {
        options.values.write_lifetime_hint_styles = 0;
    }

    fn rocksdb_options_calculate_sst_write_lifetime_hint_set_add(
        options: &mut Options, style: i32
    ) {
        options.values.write_lifetime_hint_styles |= bit(style);
    }

    fn rocksdb_options_calculate_sst_write_lifetime_hint_set_remove(
        options: &mut Options, style: i32
    ) {
        options.values.write_lifetime_hint_styles &= !bit(style);
    }

    fn rocksdb_options_calculate_sst_write_lifetime_hint_set_contains(
        options: &Options, style: i32
    ) -> bool {
        has_bit(options.values.write_lifetime_hint_styles, style)
    }

    fn rocksdb_options_calculate_sst_write_lifetime_hint_set_count(options: &Options) -> usize {
        options.values.write_lifetime_hint_styles.count_ones() as usize
    }
}
