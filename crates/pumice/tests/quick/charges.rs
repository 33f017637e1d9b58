//! Memory of a database that is charged to its block cache (`cache_usage_options`).

use std::sync::Arc;

use crate::common::{eventually, fill, key, let_files_go, memory};
use pumice::options::{CacheUsageOptions, Charged};
use pumice::{
    BlockCache, CacheOptions, ChargedRole, CompactRangeOptions, Db, Error, ErrorKind, MemFs,
    Options, SubCode,
};

const METADATA: ChargedRole = ChargedRole::FileMetadata;
const READER: ChargedRole = ChargedRole::BlockBasedTableReader;

fn strict(capacity: usize) -> Arc<BlockCache> {
    let strict_capacity_limit = true;
    BlockCache::new(CacheOptions { strict_capacity_limit, ..CacheOptions::new(capacity) })
}

/// No compaction, a block cache, and these charges to it.
fn options(cache: &Arc<BlockCache>, usage: CacheUsageOptions) -> (Options, MemFs) {
    let (fs, shared) = memory();
    let mut options = crate::common::options(&shared);
    options.cf.disable_auto_compactions = true;
    options.cf.table_factory.block_cache = Some(Arc::clone(cache));
    options.cf.table_factory.cache_usage_options = usage;
    (options, fs)
}

fn only(role: ChargedRole, charged: Charged) -> CacheUsageOptions {
    let mut usage = CacheUsageOptions::default();
    match role {
        ChargedRole::FileMetadata => usage.file_metadata = charged,
        ChargedRole::BlobCache => usage.blob_cache = charged,
        _ => usage.block_based_table_reader = charged,
    }
    usage
}

fn is_over_limit(error: &Error, role: &str) {
    assert_eq!((error.kind(), error.subcode()), (ErrorKind::Aborted, SubCode::MemoryLimit));
    assert!(error.message().contains(&format!("Can't allocate {role} due to ")), "{error}");
    assert!(error.message().contains("memory limit based on cache capacity"), "{error}");
}

/// Each file has keys of the same length, so that what is known of each takes as much.
#[pumice_test_macros::test]
fn metadata_of_files_is_charged() {
    let cache = BlockCache::new(CacheOptions::new(1 << 20));
    let charged = || cache.charged_bytes(METADATA);
    let (options, _fs) = options(&cache, only(METADATA, Charged::Enabled));
    let db = Db::open(&options, "/db").unwrap();
    assert_eq!(charged(), 0);
    let mut one = 0;
    for files in 1..=8 {
        fill(&db, 0..2, "value");
        db.flush().unwrap();
        one = if files == 1 { charged() } else { one };
        assert_eq!(charged(), files * one);
    }
    assert!(one > 100, "{one}");
    let map = db.property_map("rocksdb.block-cache-entry-stats").unwrap();
    assert_eq!(map["count.file-metadata"], "8");
    assert_eq!(map["bytes.file-metadata"], (8 * one).to_string());
    let text = db.property("rocksdb.block-cache-entry-stats").unwrap();
    assert!(text.contains(" FileMetadata(8,"), "{text}");

    // A version that somebody reads has its files.
    let snapshot = db.iter().unwrap();
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    assert_eq!(charged(), 9 * one);
    drop(snapshot);
    let_files_go(&db);
    eventually("the old files are forgotten", || charged() == one);
    db.close().unwrap();
    drop(db);
    eventually("the files are forgotten", || charged() == 0);
    let db = Db::open(&options, "/db").unwrap();
    assert_eq!(charged(), one);
    db.close().unwrap();
    drop(db);

    eventually("the files are forgotten", || charged() == 0);
    let mut off = options;
    off.cf.table_factory.cache_usage_options = only(METADATA, Charged::Disabled);
    let db = Db::open(&off, "/db").unwrap();
    fill(&db, 0..2, "value");
    db.flush().unwrap();
    assert_eq!(charged(), 0);
    // From now on, and for all files of the next version.
    let enable = "{cache_usage_options={FileMetadata=kEnabled}}";
    db.set_options(&[("table_factory", enable)]).unwrap();
    fill(&db, 0..2, "value");
    db.flush().unwrap();
    assert_eq!(charged(), 3 * one);
    db.close().unwrap();
}

/// A flush whose file has no room fails and changes nothing; with room it succeeds. A database
/// whose files have none does not open.
#[pumice_test_macros::test]
fn files_without_room_for_their_metadata_are_refused() {
    let cache = strict(1 << 20);
    let (mut options, _fs) = options(&cache, only(METADATA, Charged::Enabled));
    let db = Db::open(&options, "/db").unwrap();
    fill(&db, 0..2, "value");
    db.flush().unwrap();
    let one = cache.charged_bytes(METADATA);
    cache.set_capacity(2 * one - 1);
    fill(&db, 2..4, "value");
    is_over_limit(&db.flush().unwrap_err(), "FileMetadata");
    assert_eq!(cache.charged_bytes(METADATA), one);
    cache.set_capacity(1 << 20);
    db.resume().unwrap();
    db.flush().unwrap();
    assert_eq!(db.get(key(3)).unwrap().as_deref(), Some(&b"value"[..]));
    let files = cache.charged_bytes(METADATA);
    assert!(files >= 2 * one, "{files}");
    db.close().unwrap();
    drop(db);

    let small = strict(files - 1);
    options.cf.table_factory.block_cache = Some(Arc::clone(&small));
    is_over_limit(&Db::open(&options, "/db").err().unwrap(), "FileMetadata");
    assert_eq!(small.usage(), 0);
    options.cf.table_factory.block_cache = Some(strict(files));
    Db::open(&options, "/db").unwrap().close().unwrap();
}

#[pumice_test_macros::test]
fn open_tables_are_charged() {
    let cache = BlockCache::new(CacheOptions::new(1 << 20));
    let (mut options, _fs) = options(&cache, only(READER, Charged::Enabled));
    let db = Db::open(&options, "/db").unwrap();
    for _ in 0..3 {
        fill(&db, 0..1000, "value");
        db.flush().unwrap();
    }
    assert!(db.get(key(7)).unwrap().is_some());
    let sum = |db: &Db| -> usize {
        db.property("rocksdb.estimate-table-readers-mem").unwrap().parse().unwrap()
    };
    // The property opens what is not open yet.
    let (all, charged) = (sum(&db), cache.charged_bytes(READER));
    assert!(all > 3000 && charged == all, "{all} {charged}");
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    let_files_go(&db);
    eventually("the old tables are closed", || cache.charged_bytes(READER) == sum(&db));
    db.close().unwrap();
    drop(db);
    eventually("the tables are closed", || cache.charged_bytes(READER) == 0);

    options.cf.table_factory.block_cache = Some(strict(100));
    options.db.max_open_files = 100;
    let db = Db::open(&options, "/db");
    let error = db.and_then(|db| db.get(key(7)).map(|_| ())).unwrap_err();
    is_over_limit(&error, "BlockBasedTableReader");
}

/// The block cache is charged for all that the blob cache holds after a value went into it, once
/// for both column families.
#[pumice_test_macros::test]
fn blob_caches_are_charged() {
    let cache = BlockCache::new(CacheOptions::new(1 << 20));
    let blobs = BlockCache::new(CacheOptions::new(64 << 10));
    let charged = || cache.charged_bytes(ChargedRole::BlobCache);
    let (mut options, _fs) = options(&cache, only(ChargedRole::BlobCache, Charged::Enabled));
    options.cf.enable_blob_files = true;
    options.cf.blob_cache = Some(Arc::clone(&blobs));
    let db = Db::open(&options, "/db").unwrap();
    let other = db.create_column_family(&options.cf, "other").unwrap();
    for n in 0..20 {
        db.put(key(n), [b'v'; 1000]).unwrap();
        db.put_cf(&other, key(n), [b'o'; 1000]).unwrap();
    }
    db.flush().unwrap();
    db.flush_cfs(&[&other]).unwrap();
    assert_eq!((blobs.usage(), charged()), (0, 0));
    for n in 0..20 {
        drop(db.get(key(n)).unwrap().unwrap());
        assert_eq!(charged(), blobs.usage());
        drop(db.get_cf(&other, key(n)).unwrap().unwrap());
        assert_eq!(charged(), blobs.usage());
    }
    assert!(charged() > 40_000, "{}", charged());
    let map = db.property_map("rocksdb.block-cache-entry-stats").unwrap();
    assert_eq!(map["bytes.blob-cache"], charged().to_string());

    // Values that go are noted with the next one.
    blobs.erase_all();
    assert_eq!(blobs.usage(), 0);
    db.set_options(&[("prepopulate_blob_cache", "kFlushOnly")]).unwrap();
    db.put(key(99), [b'v'; 1000]).unwrap();
    db.flush().unwrap();
    assert!(blobs.usage() > 1000 && charged() == blobs.usage(), "{}", charged());
    db.drop_column_family(&other).unwrap();
    drop(other);
    db.close().unwrap();
    drop(db);
    assert!(blobs.usage() > 0);
    assert_eq!(charged(), 0);

    // What does not fit stays in the blob cache, uncharged.
    let full = strict(64 << 10);
    options.cf.table_factory.block_cache = Some(Arc::clone(&full));
    options.cf.table_factory.cache_usage_options.compression_dictionary_building_buffer =
        Charged::Disabled;
    let db = Db::open(&options, "/db").unwrap();
    let charged = || full.charged_bytes(ChargedRole::BlobCache);
    assert_eq!(charged(), blobs.usage());
    full.set_capacity(2000);
    for n in 0..20 {
        drop(db.get(key(n)).unwrap().unwrap());
    }
    assert!(blobs.usage() > 20_000 && charged() <= 2000, "{}", charged());
    db.close().unwrap();
    drop(db);

    options.cf.table_factory.cache_usage_options = CacheUsageOptions::default();
    options.cf.table_factory.block_cache = Some(Arc::clone(&cache));
    let db = Db::open(&options, "/db").unwrap();
    drop(db.get(key(1)).unwrap().unwrap());
    assert_eq!(cache.charged_bytes(ChargedRole::BlobCache), 0);
    db.close().unwrap();
}

/// What cannot be charged is refused with RocksDB's words.
#[pumice_test_macros::test]
fn charges_without_a_cache_are_refused() {
    let cache = BlockCache::new(CacheOptions::new(1 << 20));
    let refused = |options: &Options| {
        let error = Db::open(options, "/db").err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        error.message().to_string()
    };
    let of = |role: &str, why: &str| {
        format!("Enable CacheEntryRoleOptions::charged for CacheEntryRole {role} but {why}")
    };
    let (mut options, _fs) = options(&cache, only(METADATA, Charged::Enabled));
    options.cf.table_factory.no_block_cache = true;
    options.cf.table_factory.block_cache = None;
    assert!(refused(&options).contains(&of("FileMetadata", "block cache is disabled")));
    options.cf.table_factory.cache_usage_options = only(ChargedRole::BlobCache, Charged::Enabled);
    assert!(refused(&options).contains(&of("BlobCache", "block cache is disabled")));
    options.cf.table_factory.no_block_cache = false;
    assert!(refused(&options).contains(&of("BlobCache", "blob cache is not configured")));
    let why = "blob cache is the same as block cache";
    options.cf.table_factory.block_cache = Some(Arc::clone(&cache));
    options.cf.blob_cache = Some(Arc::clone(&cache));
    assert!(refused(&options).contains(&of("BlobCache", why)));
    let why = "blob cache capacity is larger than block cache capacity";
    options.cf.blob_cache = Some(BlockCache::new(CacheOptions::new((1 << 20) + 1)));
    assert!(refused(&options).contains(&of("BlobCache", why)));
    options.cf.blob_cache = Some(BlockCache::new(CacheOptions::new(1 << 20)));
    Db::open(&options, "/db").unwrap().close().unwrap();

    // By text too.
    let table = &mut options.cf.table_factory;
    table.set("cache_usage_options", "{FilterConstruction=kEnabled;BlobCache=kDisabled}").unwrap();
    let usage = table.cache_usage_options;
    assert_eq!(
        (usage.filter_construction, usage.blob_cache),
        (Charged::Enabled, Charged::Disabled)
    );
    assert!(table.set("cache_usage_options", "{DataBlock=kEnabled}").is_err());
}
