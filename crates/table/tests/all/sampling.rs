//! `sample_for_compression`: two properties and nothing else, the same whichever threads build the
//! table.

use crate::support;
use std::sync::Arc;

use crate::builds::{self, build_to, compressions, entries, small_blocks, with_threads};
use crate::recorded_file::RecordedFile;
use pumice_base::Comparator;
use pumice_base::random::Rng;
use pumice_compress::{CompressionOptions, CompressionType};
use pumice_port::helpers::HelperPool;
use pumice_table::{DataBlockIndexType, TableBuildContext, TableProperties};

fn built(context: TableBuildContext, list: &builds::Entries) -> (Vec<u8>, TableProperties) {
    let (writer, record) = RecordedFile::writer(None);
    let told = build_to(context, writer, list).unwrap();
    let bytes = record.lock().bytes.clone();
    (bytes, told.properties)
}

/// Helpers, dictionaries and the kind of block do not affect the choice.
#[pumice_test_macros::test]
fn samples_do_not_depend_on_helpers() {
    let pool = HelperPool::new(2);
    let list = entries(&mut Rng::new(5), &Comparator::Bytewise, 900);
    let codecs = compressions().into_iter().map(|(kind, options)| (kind, options, true));
    let raw = (CompressionType::None, CompressionOptions::default(), false);
    for (kind, options, helped) in codecs.chain([raw]) {
        let mut context = small_blocks(kind, options);
        Arc::make_mut(&mut context.table).data_block_index_type = DataBlockIndexType::BinaryAndHash;
        let (plain, without) = built(with_threads(&context, 1, None), &list);
        assert_eq!((without.fast_compression_size, without.slow_compression_size), (0, 0));
        for every in [1, 3, 7] {
            context.sample_for_compression = every;
            let (serial, with) = built(with_threads(&context, 1, None), &list);
            let (fast, slow) = (with.fast_compression_size, with.slow_compression_size);
            assert!(0 < slow && slow < fast, "{kind:?} every {every}: {fast} {slow}");
            let blocks = with.data_size as usize;
            assert!(serial[..blocks] == plain[..blocks], "samples changed the data blocks");
            if helped {
                let (parallel, _) = built(with_threads(&context, 3, Some(&pool)), &list);
                assert!(parallel == serial, "{kind:?} every {every}: other bytes");
            }
            let reader = support::open(support::read_context(&context), &serial).unwrap();
            assert_eq!(reader.properties().fast_compression_size, fast);
            assert_eq!(reader.properties().slow_compression_size, slow);
        }
    }
}

/// With every block sampled the estimate is the size of the table with that codec.
#[pumice_test_macros::test]
fn all_blocks_sampled_give_the_true_size() {
    let list = entries(&mut Rng::new(6), &Comparator::Bytewise, 900);
    let options =
        CompressionOptions { max_compressed_bytes_per_kb: 1024, ..CompressionOptions::default() };
    let with = |kind| {
        let mut context = small_blocks(kind, options.clone());
        context.sample_for_compression = 1;
        built(context, &list).1
    };
    let (lz4, zstd) = (with(CompressionType::Lz4), with(CompressionType::Zstd));
    assert_eq!(lz4.data_size, lz4.fast_compression_size);
    assert_eq!(zstd.data_size, zstd.slow_compression_size);
    assert_eq!(zstd.fast_compression_size, lz4.fast_compression_size);
    let raw = with(CompressionType::None);
    assert_eq!(raw.fast_compression_size, lz4.data_size);
    assert!(raw.data_size > raw.fast_compression_size);
}
