//! Opening with the builder: column families all at once, options from the file, for reading, for
//! reading as of a sequence number; presets, closures, and what options have in common.

use std::sync::Arc;

use crate::common::{self, DIR, contents, memory, options};
use pumice::options::{CompactionStyle, DataBlockIndexType, IndexType};
use pumice::{
    ColumnFamilyOptions, CompactRangeOptions, Comparator, Db, DbBuilder, ErrorKind, FileSystem,
    FilterDecision, Options, RateLimiter, RateLimiterOptions, Statistics, WriteBatch,
};

fn builder(fs: &Arc<dyn FileSystem>) -> DbBuilder {
    Db::builder(DIR).options(options(fs))
}

fn value(db: &Db, family: &str, key: &str) -> Option<String> {
    let family = db.column_family(family).unwrap();
    db.get_cf(&family, key).unwrap().map(|value| String::from_utf8(value.into_vec()).unwrap())
}

#[pumice_test_macros::test]
fn all_column_families_open_at_once() {
    let (_, fs) = memory();
    let own = ColumnFamilyOptions { num_levels: 3, ..Default::default() };
    let open = |builder: DbBuilder| builder.column_family("b", own.clone()).open();
    let refused = open(builder(&fs).create(false)).map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    let db = open(builder(&fs).create(true).column_families(["a"]).set("num_levels", "5")).unwrap();
    for name in ["default", "a", "b"] {
        db.put_cf(&db.column_family(name).unwrap(), "key", name).unwrap();
        let options = db.column_family_options(&db.column_family(name).unwrap()).unwrap();
        assert_eq!(options.num_levels, 5, "set comes after everything else");
    }
    let refused = db.create_column_family(&own, "").map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    db.close().unwrap();
    drop(db);

    let missing = open(builder(&fs)).map(drop).unwrap_err();
    assert_eq!(missing.message(), "Column families not opened: a");
    let nameless = builder(&fs).create(true).column_families(["a", "b", ""]).open().map(drop);
    assert_eq!(nameless.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let db = open(builder(&fs).all_column_families()).unwrap();
    assert_eq!(value(&db, "a", "key").as_deref(), Some("a"));
    assert_eq!(value(&db, "b", "key").as_deref(), Some("b"));
    let options = db.column_family_options(&db.column_family("b").unwrap()).unwrap();
    assert_eq!(options.num_levels, 3);
    db.close().unwrap();
    let wrong = builder(&fs).set("no_such_option", "1").open().map(drop).unwrap_err();
    assert!(wrong.message().contains("no_such_option"), "{wrong}");
}

/// RocksDB's family of statistics is nobody's to name.
#[pumice_test_macros::test]
fn the_family_of_persisted_statistics_is_opened_unasked() {
    const HIDDEN: &str = "___rocksdb_stats_history___";
    let (_, fs) = memory();
    let db = builder(&fs).create(true).column_families([HIDDEN]).open().unwrap();
    db.put_cf(&db.column_family(HIDDEN).unwrap(), "time", "counts").unwrap();
    db.close().unwrap();
    drop(db);
    for round in ["1", "2"] {
        let db = builder(&fs).create(false).open().unwrap();
        db.put("round", round).unwrap();
        db.flush().unwrap();
        db.close().unwrap();
    }
    let db = builder(&fs).all_column_families().open().unwrap();
    assert_eq!(value(&db, HIDDEN, "time").as_deref(), Some("counts"));
    assert_eq!(value(&db, "default", "round").as_deref(), Some("2"));
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn the_latest_options_come_from_the_file_and_objects_stay() {
    let (_, fs) = memory();
    let none = builder(&fs).create(false).open_latest().map(drop).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::InvalidArgument);
    let mut own = Options::default();
    own.db.file_system = Arc::clone(&fs);
    own.db.max_background_jobs = 7;
    own.cf.write_buffer_size = 3 << 20;
    own.cf.memtable_max_range_deletions = 9; // Newer than RocksDB 7.8: saved if set.
    own.cf.set_merge_operator_associative("joined", joined);
    own.cf.set_comparator("backwards", |a, b| b.cmp(a));
    let db = Db::builder(DIR).options(own.clone()).create(true).column_families(["a"]).open();
    let db = db.unwrap();
    let a = db.column_family("a").unwrap();
    db.merge_cf(&a, "key", "1").unwrap();
    db.set_options_cf(&a, &[("write_buffer_size", "5MB")]).unwrap();
    drop(a);
    db.close().unwrap();
    drop(db);

    // Objects that cannot be made from text must be given; the error names them.
    let error = builder(&fs).open_latest().map(drop).unwrap_err();
    assert!(error.message().contains("backwards"), "{error}");
    let mut given = options(&fs); // Its settings do not count.
    given.cf.set_merge_operator_associative("joined", joined);
    given.cf.set_comparator("backwards", |a, b| b.cmp(a));
    given.cf.memtable_max_range_deletions = 4;
    given.db.statistics = Some(Arc::new(Statistics::new()));
    let db = Db::builder(DIR).options(given.clone()).open_latest().unwrap();
    assert_eq!(db.options().max_background_jobs, 7);
    assert!(db.options().statistics.is_some());
    let a = db.column_family("a").unwrap();
    let loaded = db.column_family_options(&a).unwrap();
    assert_eq!((loaded.write_buffer_size, loaded.memtable_max_range_deletions), (5 << 20, 9));
    let default = db.column_family_options(db.default_column_family()).unwrap();
    assert_eq!(default.write_buffer_size, 3 << 20);
    db.merge_cf(&a, "key", "2").unwrap();
    db.merge_cf(&a, "kez", "3").unwrap();
    assert_eq!(value(&db, "a", "key").as_deref(), Some("1+2"));
    let first = db.iter_cf(&a).unwrap().next().unwrap().unwrap();
    assert_eq!(first.0, b"kez", "in the order of the closure");
    drop((a, loaded));
    db.close().unwrap();
    drop(db);

    // Changes on top; for reading; and where there is nothing yet.
    let db = Db::builder(DIR).options(given).read_only().set("ttl", "5").open_latest().unwrap();
    assert_eq!(db.column_family_options(db.default_column_family()).unwrap().ttl, 5);
    assert_eq!(db.put("k", "v").unwrap_err().kind(), ErrorKind::NotSupported);
    let new = Db::builder("/new").options(options(&fs)).create(true).open_latest().unwrap();
    new.put("k", "v").unwrap();
    new.close().unwrap();
    for name in common::names(&fs, "/new").iter().filter(|name| name.starts_with("OPTIONS")) {
        fs.remove(format!("/new/{name}").as_ref()).unwrap();
    }
    let none = Db::builder("/new").options(options(&fs)).open_latest().map(drop).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::NotFound);
}

fn joined(_key: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
    Some(existing.into_iter().chain(operands.iter().copied()).collect::<Vec<_>>().join(&b'+'))
}

/// Each write has its moment; a batch belongs to its last one.
#[pumice_test_macros::test]
fn logs_show_earlier_moments() {
    let (_, fs) = memory();
    let db = builder(&fs).create(true).column_families(["a"]).open().unwrap();
    db.put("flushed", "1").unwrap();
    db.flush().unwrap();
    let flushed = db.latest_sequence_number();
    let mut wanted = vec![(flushed, contents(&db))];
    for n in 0..5u8 {
        let mut batch = WriteBatch::new();
        batch.put([n], "1");
        batch.put([n], "2");
        batch.put_cf(&db.column_family("a").unwrap(), [n], "a");
        if n == 3 {
            batch.delete_range([0], [2]);
        }
        db.write(&mut batch).unwrap();
        wanted.push((db.latest_sequence_number(), contents(&db)));
    }
    db.close().unwrap();
    drop(db);
    for pair in wanted.windows(2) {
        let ((from, contents_then), (to, _)) = (&pair[0], &pair[1]);
        for sequence in *from..*to {
            let db = builder(&fs).at_sequence(sequence).open().unwrap();
            assert_eq!(db.latest_sequence_number(), *from);
            assert_eq!(&contents(&db), contents_then, "at {sequence}");
        }
    }
    let (last, all) = wanted.last().unwrap();
    let db = builder(&fs).all_column_families().at_sequence(last + 10).open().unwrap();
    assert_eq!((&db.latest_sequence_number(), &contents(&db)), (last, all));
    assert_eq!(db.iter_cf(&db.column_family("a").unwrap()).unwrap().count(), 5);
    // Tables at a later moment may lack earlier data.
    let error = builder(&fs).at_sequence(flushed - 1).open().map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains(&flushed.to_string()), "{error}");
    let logs = builder(&fs).error_if_wal_exists().open().map(drop).unwrap_err();
    assert_eq!(logs.kind(), ErrorKind::Corruption);
}

#[pumice_test_macros::test]
fn closures_filter() {
    let (_, fs) = memory();
    let filtered = |options: &mut Options| {
        options.cf.set_compaction_filter("drop_a", |_level, key, value| match (key, value) {
            (b"a", _) => FilterDecision::Remove,
            (_, b"old") => FilterDecision::ChangeValue(b"new".to_vec()),
            _ => FilterDecision::Keep,
        });
    };
    let db = builder(&fs).configure(filtered).open().unwrap();
    for (key, value) in [("a", "1"), ("b", "old"), ("c", "3")] {
        db.put(key, value).unwrap();
    }
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    let want = [(b"b".to_vec(), b"new".to_vec()), (b"c".to_vec(), b"3".to_vec())];
    assert_eq!(contents(&db), want);
    db.close().unwrap();
}

/// The values of RocksDB 11.9's functions.
#[pumice_test_macros::test]
fn presets_have_rocksdbs_values() {
    let base = Options::new;
    let points = base().for_point_lookups(64);
    let table = &points.cf.table_factory;
    assert_eq!(table.data_block_index_type, DataBlockIndexType::BinaryAndHash);
    assert_eq!(table.data_block_hash_table_util_ratio, 0.75);
    assert_eq!(points.get("table_factory").unwrap().matches("bloomfilter:10").count(), 1);
    assert_eq!(table.block_cache.as_ref().unwrap().capacity(), 64 << 20);
    assert_eq!(points.cf.memtable_prefix_bloom_size_ratio, 0.02);
    assert!(points.cf.memtable_whole_key_filtering);

    let bulk = base().for_bulk_load();
    let cf = &bulk.cf;
    let triggers = [
        cf.level0_file_num_compaction_trigger,
        cf.level0_slowdown_writes_trigger,
        cf.level0_stop_writes_trigger,
    ];
    assert_eq!(triggers, [1 << 30; 3]);
    let limits = (cf.soft_pending_compaction_bytes_limit, cf.hard_pending_compaction_bytes_limit);
    assert_eq!(limits, (0, 0));
    assert!(cf.disable_auto_compactions);
    assert_eq!((cf.max_compaction_bytes, cf.target_file_size_base), (1 << 60, 256 << 20));
    let buffers = (cf.max_write_buffer_number, cf.min_write_buffer_number_to_merge);
    assert_eq!((cf.num_levels, buffers), (2, (6, 1)));
    let jobs = (bulk.db.max_background_flushes, bulk.db.max_background_compactions);
    assert_eq!(jobs, (4, 2));

    let small = base().for_small_db();
    let cf = &small.cf;
    assert_eq!((cf.write_buffer_size, cf.target_file_size_base), (2 << 20, 2 << 20));
    assert_eq!(cf.max_bytes_for_level_base, 10 << 20);
    let limits = (cf.soft_pending_compaction_bytes_limit, cf.hard_pending_compaction_bytes_limit);
    assert_eq!(limits, (256 << 20, 1 << 30));
    assert!(cf.table_factory.cache_index_and_filter_blocks);
    assert_eq!(cf.table_factory.index_type, IndexType::TwoLevel);
    assert_eq!(cf.table_factory.block_cache.as_ref().unwrap().capacity(), 16 << 20);
    assert_eq!(small.db.max_open_files, 5000);
    let manager = small.db.write_buffer_manager.as_ref().unwrap();
    assert!(!manager.enabled() && manager.cost_to_cache());

    assert_eq!(base().increase_parallelism(16).db.max_background_jobs, 16);
    let universal = base().optimize_universal(512 << 20).cf;
    assert_eq!(universal.compaction_style, CompactionStyle::Universal);
    assert_eq!(universal.compaction_options_universal.compression_size_percent, 80);
    for cf in [&universal, &base().optimize_leveled(512 << 20).cf] {
        assert_eq!(cf.write_buffer_size, 128 << 20);
        assert_eq!((cf.min_write_buffer_number_to_merge, cf.max_write_buffer_number), (2, 6));
    }
    let leveled = base().optimize_leveled(512 << 20);
    let cf = &leveled.cf;
    assert_eq!(cf.level0_file_num_compaction_trigger, 2);
    assert_eq!((cf.target_file_size_base, cf.max_bytes_for_level_base), (64 << 20, 512 << 20));
    let codecs = leveled.get("compression_per_level").unwrap();
    assert!(codecs.starts_with("kNoCompression:kNoCompression:kLZ4Compression"), "{codecs}");
    assert_eq!(codecs.split(':').count(), 7);

    // Each of them opens and works.
    let presets = [points, bulk, small, base().optimize_universal(64 << 20), leveled];
    for (n, mut options) in presets.into_iter().enumerate() {
        let (_, fs) = memory();
        options.db.file_system = fs;
        let db = Db::builder(DIR).options(options).create(true).open().unwrap();
        db.put("key", "value").unwrap();
        db.flush().unwrap();
        db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
        assert_eq!(common::get(&db, b"key").as_deref(), Some(&b"value"[..]), "preset {n}");
        db.close().unwrap();
    }
}

#[pumice_test_macros::test]
fn options_are_compared_and_shown() {
    let same = Options::default();
    assert_eq!(Options::default(), same);
    for (name, value) in [
        ("max_open_files", "77"),
        ("max_bytes_for_level_multiplier", "10.0000001"),
        ("compression_opts.level", "3"),
        ("table_factory.block_size", "8192"),
        ("merge_operator", "put"),
        ("comparator", "rocksdb.ReverseBytewiseComparator"),
        ("blob_file_size", "5"),
        ("rate_limiter_bytes_per_sec", "1MB"),
    ] {
        let mut other = Options::default();
        other.set(name, value).unwrap();
        assert_ne!(other, same, "{name}");
        assert_eq!(other.clone(), other, "{name}");
        let shows = !name.ends_with("multiplier"); // Text has six places.
        assert_eq!(format!("{other:?}") != format!("{same:?}"), shows, "{name}");
    }
    // By name if that is their text, by identity else.
    let merging = |name: &str| {
        let mut options = Options::default();
        options.cf.set_merge_operator(name, |_, _, _| None);
        options
    };
    assert_eq!(merging("one"), merging("one"));
    assert_ne!(merging("one"), merging("two"));
    let mut limited = Options::default();
    let limiter = || Arc::new(RateLimiter::new(&RateLimiterOptions::new(1 << 20)).unwrap());
    limited.db.rate_limiter = Some(limiter());
    let mut other = limited.clone();
    assert_eq!(other, limited);
    other.db.rate_limiter = Some(limiter());
    assert_ne!(other, limited);
    let mut counted = Options::default();
    counted.db.statistics = Some(Arc::new(Statistics::new()));
    assert_ne!(counted, same);
    let mut ordered = Options::default();
    ordered.cf.set_comparator("mine", |a, b| b.cmp(a));
    assert!(matches!(ordered.cf.comparator, Comparator::Custom(_)));
    let shown = format!("{ordered:?}");
    for text in ["create_if_missing: false", "comparator: mine", "statistics: None"] {
        assert!(shown.contains(text), "{text} in {shown}");
    }
}
