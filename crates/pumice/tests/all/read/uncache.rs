//! `uncache_aggressiveness`: with a file that is not needed any more its blocks leave the block
//! cache. What a database has deleted is certain only after its close, so blocks are counted then.

use std::sync::Arc;

use crate::common::{self, DIR, contents, fill, flush, memory};
use pumice::{BlockCache, ColumnFamilyOptions, CompactRangeOptions, Db, Options, WriteOptions};
use pumice_table::BlockKind;

/// Entries of one file, each in its own block.
const ENTRIES: usize = 20;

fn options(uncache_aggressiveness: u32, max_open_files: i32) -> (Options, Arc<BlockCache>) {
    let (_fs, shared) = memory();
    let mut options = common::options(&shared);
    options.db.max_open_files = max_open_files;
    options.cf.disable_auto_compactions = true;
    options.cf.uncache_aggressiveness = uncache_aggressiveness;
    let cache = BlockCache::new(pumice::CacheOptions::new(32 << 20));
    let table = &mut options.cf.table_factory;
    table.block_cache = Some(Arc::clone(&cache));
    table.cache_index_and_filter_blocks = true;
    table.block_size = 100;
    (options, cache)
}

/// Data blocks in the cache.
fn data_blocks(cache: &BlockCache) -> usize {
    let mut count = 0;
    cache.for_each(|_, _, block| count += usize::from(block.kind() == BlockKind::Data));
    count
}

fn value(n: usize) -> String {
    format!("{n:0200}")
}

/// Two files with the same keys, whose blocks are all in the cache.
fn filled(options: &Options, cache: &BlockCache) -> Db {
    let db = Db::open(options, DIR).unwrap();
    for n in 0..2 {
        fill(&db, 0..ENTRIES, &value(n));
        flush(&db);
    }
    assert_eq!(contents(&db).len(), ENTRIES);
    assert_eq!(data_blocks(cache), 2 * ENTRIES);
    db
}

#[pumice_test_macros::test]
fn blocks_of_compacted_files_go() {
    for max_open_files in [-1, 20] {
        for (uncache_aggressiveness, left) in [(0, 2 * ENTRIES), (1, 0), (300, 0), (u32::MAX, 0)] {
            let (options, cache) = options(uncache_aggressiveness, max_open_files);
            let db = filled(&options, &cache);
            db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
            assert_eq!(db.live_files_metadata().len(), 1);
            db.close().unwrap();
            drop(db);
            assert_eq!(data_blocks(&cache), left, "{uncache_aggressiveness} {max_open_files}");
            // The blocks of files that stay are there after a close, and for the next open.
            let db = Db::open(&options, DIR).unwrap();
            assert_eq!(contents(&db).len(), ENTRIES);
            assert_eq!(data_blocks(&cache), left + ENTRIES);
            db.close().unwrap();
            drop(db);
            let db = Db::open(&options, DIR).unwrap();
            assert_eq!(contents(&db).len(), ENTRIES);
            assert_eq!(data_blocks(&cache), left + ENTRIES, "all were found");
        }
    }
}

#[pumice_test_macros::test]
fn a_moved_file_keeps_its_blocks() {
    let (options, cache) = options(300, -1);
    let db = Db::open(&options, DIR).unwrap();
    fill(&db, 0..ENTRIES, &value(0));
    flush(&db);
    assert_eq!(contents(&db).len(), ENTRIES);
    let before = db.live_files_metadata();
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    let after = db.live_files_metadata();
    assert_eq!(before[0].file_number, after[0].file_number);
    assert_ne!(before[0].level, after[0].level);
    db.close().unwrap();
    assert_eq!(data_blocks(&cache), ENTRIES);
}

#[pumice_test_macros::test]
fn an_iterator_keeps_them_until_it_ends() {
    let (options, cache) = options(300, -1);
    let db = filled(&options, &cache);
    let mut iter = db.cursor_opt(&Default::default()).unwrap();
    iter.seek_to_first();
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    assert_eq!(data_blocks(&cache), 2 * ENTRIES);
    drop(iter);
    db.close().unwrap();
    assert_eq!(data_blocks(&cache), 0);
}

/// The option can change, and applies to the column family of the file.
#[pumice_test_macros::test]
fn each_family_has_its_own() {
    let (options, cache) = options(0, -1);
    let db = filled(&options, &cache);
    let family = ColumnFamilyOptions { uncache_aggressiveness: 300, ..options.cf.clone() };
    let cf = db.create_column_family(&family, "other").unwrap();
    db.put_cf_opt(&WriteOptions::default(), &cf, b"k", value(0).as_bytes()).unwrap();
    db.flush_cfs_opt(&Default::default(), &[&cf]).unwrap();
    assert!(db.get_cf_opt(&Default::default(), &cf, b"k").unwrap().is_some());
    assert_eq!(data_blocks(&cache), 2 * ENTRIES + 1);
    db.drop_column_family(&cf).unwrap();
    drop(cf);
    db.set_options(&[("uncache_aggressiveness", "7")]).unwrap();
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    db.close().unwrap();
    assert_eq!(data_blocks(&cache), 0);
}
