//! `block_align` in tables with a codec: RocksDB writes them too, where a database does not refuse
//! the combination.

use std::sync::Arc;

use crate::builds::{compressions, entries};
use crate::support;
use pumice_base::Comparator;
use pumice_base::random::Rng;
use pumice_port::helpers::HelperPool;
use pumice_table::{TableBuildContext, TableOptions, TableReadOptions};

/// Blocks begin at multiples of the alignment, whichever thread compresses them, and are read back.
#[pumice_test_macros::test]
fn compressed_blocks_are_aligned() {
    let list = entries(&mut Rng::new(5), &Comparator::Bytewise, 2000);
    let pool = HelperPool::new(2);
    for (compression, compression_opts) in compressions() {
        for format_version in [3, 6] {
            let table = TableOptions {
                block_align: true,
                block_size: 1024,
                format_version,
                ..TableOptions::default()
            };
            let mut context = TableBuildContext {
                table: Arc::new(table),
                compression,
                compression_opts: compression_opts.clone(),
                ..TableBuildContext::default()
            };
            let pairs = || list.iter().map(|(key, value)| (&key[..], &value[..]));
            let alone = support::build(context.clone(), pairs());
            let data = alone.properties.data_size;
            assert!(data.is_multiple_of(1024) && data / 1024 >= alone.properties.num_data_blocks);
            context.compression_opts.parallel_threads = 3;
            context.helpers = Some(pool.clone());
            let helped = support::build(context.clone(), pairs());
            assert!(helped.bytes == alone.bytes, "{compression:?} {format_version}");
            let table = support::open(support::read_context(&context), &alone.bytes).unwrap();
            table.verify_checksums().unwrap();
            let mut iter = table.iter(&TableReadOptions::default());
            iter.seek_to_first();
            for (key, value) in pairs() {
                assert_eq!((iter.key().as_bytes(), iter.value()), (key, value));
                iter.next();
            }
            assert!(!iter.valid());
            iter.status().unwrap();
        }
    }
}
