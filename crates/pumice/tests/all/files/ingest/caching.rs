//! What an ingestion leaves in the block cache, and how it reads files to verify them.

use std::sync::Arc;

use pumice::{
    BlockCache, ColumnFamilyOptions, Db, ErrorKind, IngestExternalFileArg,
    IngestExternalFileOptions, Options, WriteOptions,
};

use super::support::{DIR, fresh, get, table_of};

fn cached() -> (Options, Db, Arc<BlockCache>) {
    let (_fs, mut options, db) = fresh();
    drop(db);
    let cache = BlockCache::new(pumice::CacheOptions::new(32 << 20));
    options.cf.table_factory.block_cache = Some(Arc::clone(&cache));
    options.cf.table_factory.cache_index_and_filter_blocks = true;
    let db = Db::open(&options, DIR).unwrap();
    (options, db, cache)
}

fn how(fill_cache: bool) -> IngestExternalFileOptions {
    IngestExternalFileOptions { fill_cache, ..Default::default() }
}

#[pumice_test_macros::test]
fn reads_may_fill_the_cache_or_not() {
    let (options, db, cache) = cached();
    for (key, verify_checksums_before_ingest) in [("a", false), ("b", true)] {
        let path = table_of(&options, "/in/1.sst", &[key], "1");
        let how = IngestExternalFileOptions { verify_checksums_before_ingest, ..how(false) };
        db.ingest_external_file(&how, &[&path]).unwrap();
        assert_eq!(cache.occupancy(), 0);
    }
    // One data block and the index.
    let path = table_of(&options, "/in/2.sst", &["x", "y"], "1");
    db.ingest_external_file(&how(true), &[&path]).unwrap();
    assert_eq!(cache.occupancy(), 2);
    assert_eq!(get(&db, b"x").as_deref(), Some(&b"1"[..]));
    assert_eq!(cache.occupancy(), 2, "they are what a read looks for");
}

/// To find a level, the ingestion reads files of the database.
#[pumice_test_macros::test]
fn looking_for_a_place_obeys() {
    let (options, db, cache) = cached();
    for key in [b"a", b"z"] {
        db.put_opt(&WriteOptions::default(), key, b"old").unwrap();
    }
    super::support::flush(&db);
    let path = table_of(&options, "/in/1.sst", &["m"], "1");
    // The table is opened, which loads its index; a read of its data would add a block.
    assert_eq!(get(&db, b"b"), None);
    cache.erase_all();
    db.ingest_external_file(&how(false), &[&path]).unwrap();
    assert_eq!(cache.occupancy(), 0);
    let path = table_of(&options, "/in/2.sst", &["n"], "1");
    db.ingest_external_file(&how(true), &[&path]).unwrap();
    assert!(cache.occupancy() > 2, "{}", cache.occupancy());
}

/// Blocks that come into the cache before the file has its sequence number.
#[pumice_test_macros::test]
fn cached_blocks_get_the_sequence_number() {
    let (options, db, _cache) = cached();
    db.put_opt(&WriteOptions::default(), b"a", b"old").unwrap();
    super::support::flush(&db);
    let snapshot = db.snapshot();
    let path = table_of(&options, "/in/1.sst", &["a", "b"], "new");
    db.ingest_external_file(&how(true), &[&path]).unwrap();
    assert_eq!(get(&db, b"a").as_deref(), Some(&b"new"[..]));
    let read = pumice::ReadOptions { snapshot: Some(snapshot.clone()), ..Default::default() };
    assert_eq!(db.get_opt(&read, b"a").unwrap().as_deref(), Some(&b"old"[..]));
    assert!(db.get_opt(&read, b"b").unwrap().is_none());
    // The same blocks in another place of the order.
    db.ingest_external_file(&how(true), &[&path]).unwrap();
    assert_eq!(db.get_opt(&read, b"a").unwrap().as_deref(), Some(&b"old"[..]));
}

#[pumice_test_macros::test]
fn one_call_is_of_one_mind() {
    let (options, db, _cache) = cached();
    let other = db.create_column_family(&ColumnFamilyOptions::default(), "other").unwrap();
    let path = table_of(&options, "/in/1.sst", &["a"], "1");
    let arg = |cf, fill| IngestExternalFileArg::new(cf, vec![path.clone()], &how(fill));
    let args = [arg(db.default_column_family(), true), arg(&other, false)];
    let error = db.ingest_external_files(&args).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let text = "fill_cache should be the same across ingestion options.";
    assert!(error.message().contains(text), "{error}");
}
