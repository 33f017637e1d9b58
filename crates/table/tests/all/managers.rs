//! Compression managers and `auto_skip`: the same bytes whichever threads build the table, names
//! as RocksDB's in its properties, and blocks that any reader understands.

use std::sync::Arc;

use crate::builds::{
    Entries, Told, build_to, check_contents, compressions, entries, small_blocks, with_threads,
};
use crate::recorded_file::RecordedFile;
use pumice_base::Comparator;
use pumice_base::random::Rng;
use pumice_compress::{CompressionManager, CompressionOptions, CompressionType};
use pumice_port::helpers::HelperPool;
use pumice_table::TableBuildContext;

const MANAGERS: [Option<CompressionManager>; 4] = [
    Some(CompressionManager::BuiltinV2),
    Some(CompressionManager::RoundRobin),
    Some(CompressionManager::CostAware),
    Some(CompressionManager::AutoSkip),
];

fn built(context: TableBuildContext, list: &Entries) -> (Vec<u8>, Told) {
    let (writer, record) = RecordedFile::writer(None);
    let told = build_to(context, writer, list).unwrap();
    let bytes = record.lock().bytes.clone();
    (bytes, told)
}

/// Settings with one of the managers, or none and `auto_skip`.
fn managed(
    manager: Option<CompressionManager>,
    kind: CompressionType,
    mut options: CompressionOptions,
) -> TableBuildContext {
    options.auto_skip = manager.is_none();
    options.auto_skip_min_sample_every = 3;
    let mut context = small_blocks(kind, options);
    context.compression_manager = manager;
    context
}

/// Values of blocks that compress, and of long runs of blocks that do not.
fn in_runs(seed: u64) -> Entries {
    let mut rng = Rng::new(seed);
    let mut list = entries(&mut rng, &Comparator::Bytewise, 3000);
    for (number, (_, value)) in list.iter_mut().enumerate() {
        let noise = rng.bytes(150);
        *value = if number / 900 % 2 == 0 { noise } else { vec![b'v'; 150] };
    }
    list
}

#[pumice_test_macros::test]
fn bytes_do_not_depend_on_threads_or_helpers() {
    let pool = HelperPool::new(3);
    let mut helped = 0;
    let codecs = compressions();
    for (at, manager) in MANAGERS.into_iter().chain([None]).enumerate() {
        for (kind, options) in [&codecs[2], &codecs[4], &codecs[5]] {
            let list = in_runs(at as u64);
            let context = managed(manager, *kind, options.clone());
            let (want, serial) = built(with_threads(&context, 1, None), &list);
            check_contents(&context, &want, &list);
            for threads in [2, 9] {
                let (bytes, told) = built(with_threads(&context, threads, Some(&pool)), &list);
                assert!(bytes == want, "{manager:?} {kind:?} threads {threads}: other bytes");
                assert_eq!(told.estimates, serial.estimates);
                assert_eq!(told.stats.blocks_bypassed, serial.stats.blocks_bypassed);
                helped += told.stats.ring.helper_compressed;
            }
            let passed = serial.stats.blocks_bypassed;
            let skips = matches!(manager, None | Some(CompressionManager::AutoSkip));
            assert_eq!(passed > 100, skips, "{manager:?} {kind:?}: {passed} not tried");
        }
    }
    assert!(helped > 0, "no helper ever came");
}

#[pumice_test_macros::test]
fn properties_have_rocksdbs_names() {
    let list = entries(&mut Rng::new(3), &Comparator::Bytewise, 1500);
    let plain = CompressionOptions::default();
    let dictionary = CompressionOptions { max_dict_bytes: 2000, ..plain.clone() };
    let [v2, rotating, cost, skipping] = MANAGERS;
    let (lz4, zstd, none) = (CompressionType::Lz4, CompressionType::Zstd, CompressionType::None);
    let (all, builtin) = ("BuiltinV2;010203040507;", "BuiltinCompressionManagerV2");
    let (own, turns, skips) =
        ("RoundRobinManager", "RoundRobinCompressor", "AutoSkipCompressorWrapper");
    for (manager, kind, options, version, name, own, compressor) in [
        (v2, lz4, &plain, 7, "BuiltinV2;04;", builtin, "BuiltinLZ4CompressorV2"),
        (v2, none, &plain, 7, ";;", builtin, ""),
        (rotating, lz4, &plain, 7, all, own, turns),
        (rotating, none, &plain, 7, all, own, turns),
        (rotating, lz4, &plain, 5, "ZSTD", own, turns),
        (rotating, lz4, &dictionary, 5, "ZSTD", own, "BuiltinZSTDCompressorV2"),
        (cost, lz4, &plain, 7, "BuiltinV2;07;", builtin, "CostAwareCompressor"),
        (skipping, zstd, &plain, 7, "BuiltinV2;07;", builtin, skips),
        (skipping, lz4, &plain, 5, "LZ4", builtin, skips),
    ] {
        let mut context = managed(manager, kind, options.clone());
        context.compression_opts.auto_skip = false;
        Arc::make_mut(&mut context.table).format_version = version;
        let (bytes, told) = built(context.clone(), &list);
        check_contents(&context, &bytes, &list);
        let properties = told.properties;
        assert_eq!(properties.compression, name, "{manager:?} {kind:?} {version}");
        let number = kind as u8;
        assert_eq!(
            properties.compression_options,
            format!(
                "{}_type={number}; _compression_manager={own}; _compressor={compressor}; ",
                options.property_text()
            )
        );
    }
}
