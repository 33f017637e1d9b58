//! The trace of the block cache.

use pumice::trace::{
    BlockCacheTraceOptions, BlockTraceReader, BlockTraceRecord, BlockType, TableReaderCaller,
};
use pumice::{BlockCache, CacheOptions, CompactRangeOptions, Db, ErrorKind, FilterPolicy};
use std::path::Path;
use std::sync::Arc;

use super::{TRACE, reader, writer};
use crate::common::{DIR, memory, options};

/// Of a trace's file.
pub fn uses(fs: &Arc<dyn pumice::FileSystem>, path: impl AsRef<Path>) -> Vec<BlockTraceRecord> {
    let mut reader = BlockTraceReader::new(reader(fs, path)).unwrap();
    assert!(reader.began_micros() > 0);
    std::iter::from_fn(|| reader.next().unwrap()).collect()
}

#[pumice_test_macros::test]
fn uses_of_blocks_are_noted() {
    let (_, fs) = memory();
    let mut options = options(&fs);
    let table = &mut options.cf.table_factory;
    table.block_cache = Some(BlockCache::new(CacheOptions::new(8 << 20)));
    table.cache_index_and_filter_blocks = true;
    table.filter_policy = Some(FilterPolicy::bloom(10.0));
    let db = Db::open(&options, DIR).unwrap();
    (0..1000u32).for_each(|n| db.put(n.to_be_bytes(), [n as u8; 100]).unwrap());
    db.flush().unwrap();
    let trace = BlockCacheTraceOptions::default();
    db.start_block_cache_trace(&trace, writer(&fs)).unwrap();
    let error = db.start_block_cache_trace(&trace, writer(&fs)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    let key = 77u32.to_be_bytes();
    db.get(key).unwrap();
    db.get(key).unwrap();
    db.get([0, 0, 0, 77, 1]).unwrap();
    drop(db.multi_get(&[key]));
    let mut cursor = db.cursor().unwrap();
    cursor.seek(key);
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    db.end_block_cache_trace().unwrap();
    db.get(key).unwrap();
    db.close().unwrap();

    let found = uses(&fs, TRACE);
    let by = |caller, kind| {
        let all = found.iter().filter(move |r| r.caller == caller && r.block_type == kind);
        all.collect::<Vec<_>>()
    };
    let several = by(TableReaderCaller::UserMultiGet, BlockType::Data);
    // RocksDB's analyzer cuts eight bytes off.
    assert!(!several.is_empty() && several.iter().all(|r| r.lookup.referenced_key.len() >= 8));
    let data = by(TableReaderCaller::UserGet, BlockType::Data);
    assert_eq!(data.len(), 2, "{found:#?}");
    assert!(!data[0].is_cache_hit && data[1].is_cache_hit);
    for used in &data {
        assert_eq!((&used.cf_name[..], used.cf_id, used.level), ("default", 0, 0));
        assert_eq!(used.lookup.referenced_key[..4], key);
        assert!(
            used.lookup.referenced_key_exist_in_block && used.lookup.referenced_data_size > 100
        );
        assert!((20..60).contains(&used.lookup.num_keys_in_block), "{used:?}");
        assert!(used.lookup.get_id > 0 && !used.lookup.get_from_user_specified_snapshot);
        assert_eq!(used.block_key, data[0].block_key);
    }
    assert_ne!(data[0].lookup.get_id, data[1].lookup.get_id);
    for kind in [BlockType::Index, BlockType::Filter] {
        let used = by(TableReaderCaller::UserGet, kind);
        assert!(
            used.len() >= 2 && used.iter().all(|r| r.lookup.num_keys_in_block == 0),
            "{kind:?}"
        );
    }
    assert_eq!(by(TableReaderCaller::UserMultiGet, BlockType::Data).len(), 1);
    assert!(!by(TableReaderCaller::UserIterator, BlockType::Data).is_empty());
    assert!(found.iter().all(|used| used.sst_fd_number > 0));
}

/// A sample has all uses of a block or none.
#[pumice_test_macros::test]
fn samples_are_of_blocks() {
    let (_, fs) = memory();
    let db = Db::open(&options(&fs), DIR).unwrap();
    (0..5000u32).for_each(|n| db.put(n.to_be_bytes(), [n as u8; 100]).unwrap());
    db.flush().unwrap();
    let run = |sampling_frequency| {
        let options = BlockCacheTraceOptions { sampling_frequency, ..Default::default() };
        db.start_block_cache_trace(&options, writer(&fs)).unwrap();
        (0..5000u32).for_each(|n| drop(db.get(n.to_be_bytes()).unwrap()));
        db.end_block_cache_trace().unwrap();
        uses(&fs, TRACE)
    };
    let (all, some) = (run(1), run(4));
    assert!(!some.is_empty() && some.len() < all.len());
    for used in &some {
        let count = |list: &[BlockTraceRecord]| {
            list.iter().filter(|other| other.block_key == used.block_key).count()
        };
        assert_eq!(count(&some), count(&all));
    }
    db.close().unwrap();
}
