//! Entries cost the table builder no allocation; data blocks cost less than half of one.
//!
//! Alone in its process: the allocator counts for all threads.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "support/prefixed.rs"]
mod prefixed;
#[path = "support/recorded_file.rs"]
mod recorded_file;
mod support;

use std::sync::Arc;

use prefixed::{LAYOUTS, context, with_options};
use pumice_base::ValueType;
use pumice_base::key::internal_key;
use pumice_compress::CompressionType;
use pumice_filter::FilterPolicy;
use pumice_table::{TableBuildContext, TableBuilder};
use pumice_testkit::alloc::WatchingAllocator;
use recorded_file::RecordedFile;

#[global_allocator]
static ALLOCATOR: WatchingAllocator = WatchingAllocator::new();

const ENTRIES: u64 = 40_000;

/// Allocations and data blocks of the second half of a table.
fn second_half(context: TableBuildContext, keys: &[Vec<u8>]) -> (usize, u64) {
    let mut builder = TableBuilder::new(context, RecordedFile::forgetting()).unwrap();
    let value = [b'v'; 100];
    let (first, second) = keys.split_at(keys.len() / 2);
    first.iter().for_each(|key| builder.add(key, &value).unwrap());
    let before = ALLOCATOR.requests();
    second.iter().for_each(|key| builder.add(key, &value).unwrap());
    let requests = ALLOCATOR.requests() - before;
    builder.finish().unwrap();
    (requests, builder.properties().num_data_blocks / 2)
}

// Plain #[test]: a fiber runtime has other threads that allocate.
#[test]
fn entries_cost_no_allocation() {
    let key = |i: u64| internal_key(format!("key{i:08}").as_bytes(), 7, ValueType::Value);
    let keys: Vec<Vec<u8>> = (0..ENTRIES).map(key).collect();
    for layout in LAYOUTS {
        for compression in [CompressionType::None, CompressionType::Lz4, CompressionType::Zstd] {
            for filtered in [false, true] {
                let mut context =
                    with_options(context(layout, true, "rocksdb.FixedPrefix.6"), |options| {
                        options.block_size = 4096;
                        options.metadata_block_size = 4096;
                        options.filter_policy = filtered.then(|| FilterPolicy::bloom(10.0));
                    });
                context.compression = compression;
                let what = format!("{layout:?} {compression:?} filtered {filtered}");
                let (requests, blocks) = second_half(context, &keys);
                println!("{what}: {requests} allocations, {blocks} blocks");
                // Blocks have 36 entries.
                assert!(requests as u64 <= blocks / 2, "{what}: {requests} for {blocks} blocks");
            }
        }
    }
    // The measurement works: one vector per entry is detected.
    let before = ALLOCATOR.requests();
    let copies: Vec<Vec<u8>> = keys.clone();
    assert!(ALLOCATOR.requests() - before >= copies.len());
    drop(Arc::new(copies));
}
