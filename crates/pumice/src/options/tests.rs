//! Options by name, by file, and against files that RocksDB wrote.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use pumice_base::{Comparator, ErrorKind};
use pumice_compress::CompressionType;
use pumice_filter::FilterPolicy;
use pumice_table::{
    DataBlockIndexType, IndexShortening, IndexType, PinningTier, PrepopulateBlockCache,
};

use super::row::{RowKind, Saved, check_all};
use super::sanitize::check_column_family;
use super::*;

/// Written by Debian's db_bench 7.8.3: two column families and many flags off their defaults.
const ROCKSDB_7_8: &str = include_str!("testdata/rocksdb-7.8.3.ini");
/// Written by the RocksDB 10.10.1 library with default options; column families `default` and
/// `two: #x`.
const ROCKSDB_10_10: &str = include_str!("testdata/rocksdb-10.10.1.ini");

fn load(text: &str) -> LoadedOptions {
    parse_options_file(text, FileRules::default()).unwrap()
}

/// `(section title, name, value)` of every assignment of the first column family.
fn assignments(text: &str) -> Vec<(String, String, String)> {
    let mut section = String::new();
    let mut out = Vec::new();
    for line in text.lines() {
        let line = str::from_utf8(text::trim_comment(line.as_bytes())).unwrap();
        if let Some(title) = line.strip_prefix('[') {
            section = title.trim_end_matches(']').to_string();
        } else if let Some((name, value)) = line.split_once('=') {
            out.push((section.clone(), name.to_string(), value.to_string()));
        }
    }
    out
}

fn message(result: Result<()>) -> String {
    result.unwrap_err().to_string()
}

fn table_is_sound<S: OptionSet>() {
    let defaults = S::default();
    check_all(&defaults).unwrap();
    let mut names = BTreeSet::new();
    for row in S::rows() {
        assert!(names.insert(row.name), "{} twice", row.name);
        assert!(row.doc.trim().len() > 5, "{} has no documentation", row.name);
        let text = row.get(&defaults);
        let mut again = defaults.clone();
        row.set(&mut again, &text).unwrap_or_else(|e| panic!("default of {}: {e}", row.name));
        assert_eq!(row.get(&again), text, "{}", row.name);
        assert!(again.hints().is_empty(), "{}: the default is not canonical", row.name);
    }
    for (alias, target) in S::aliases() {
        assert!(!names.contains(alias) && names.contains(target), "{alias}");
    }
}

#[pumice_test_macros::test]
fn tables_are_sound() {
    table_is_sound::<DbOptions>();
    table_is_sound::<ColumnFamilyOptions>();
    table_is_sound::<BlockBasedTableOptions>();
    table_is_sound::<PlainTableOptions>();
    table_is_sound::<CuckooTableOptions>();
    for row in DbOptions::rows() {
        assert!(ColumnFamilyOptions::row(row.name).is_none(), "{} is in two tables", row.name);
    }
}

#[pumice_test_macros::test]
fn rocksdb_files_load_completely() {
    for text in [ROCKSDB_7_8, ROCKSDB_10_10] {
        let loaded = load(text);
        assert!(loaded.ignored.is_empty());
        assert_eq!(loaded.column_families.len(), 2);
    }
}

#[pumice_test_macros::test]
fn values_of_a_7_8_file_arrive() {
    let loaded = load(ROCKSDB_7_8);
    assert_eq!(loaded.rocksdb_version, "7.8.3");
    assert_eq!(loaded.db.max_background_jobs, 7);
    assert!(loaded.db.wal_dir.ends_with("/w78"));
    assert_eq!(loaded.db.get("enable_pipelined_write").unwrap(), "true");
    let cf = &loaded.column_families[0].options;
    assert_eq!(cf.compression, CompressionType::Zstd);
    assert_eq!(cf.merge_operator.as_ref().unwrap().name(), "StringAppendOperator");
    assert_eq!(cf.prefix_extractor.as_ref().unwrap().name(), "rocksdb.FixedPrefix.8");
    assert_eq!(cf.memtable_factory, MemtableFactory::Vector { reserve: 0 });
    assert!(cf.table_factory.cache_index_and_filter_blocks);
    assert_eq!(cf.table_factory.format_version, 4);
    assert!(cf.table_factory.filter_policy.is_some());
}

/// Differences between a default 10.10.1 database's file and our defaults: values that RocksDB
/// derives at open and writes back.
#[pumice_test_macros::test]
fn defaults_are_those_of_10_10() {
    let mut derived = BTreeSet::from(["delayed_write_rate", "arena_block_size", "ttl"]);
    derived.extend(["max_compaction_bytes", "periodic_compaction_seconds", "create_if_missing"]);
    derived.insert("compaction_options_fifo");
    let (db, cf) = (DbOptions::default(), ColumnFamilyOptions::default());
    for (section, name, theirs) in assignments(ROCKSDB_10_10) {
        let ours = match section.as_str() {
            "DBOptions" => db.get(&name).unwrap(),
            "CFOptions \"default\"" if name == "table_factory" => "BlockBasedTable".to_string(),
            "CFOptions \"default\"" => cf.get(&name).unwrap(),
            "TableOptions/BlockBasedTable \"default\"" => cf.table_factory.get(&name).unwrap(),
            _ => continue,
        };
        if derived.remove(name.as_str()) {
            continue;
        }
        let sorted = |text: &str| {
            let mut members: Vec<_> = text.trim_matches(['{', '}']).split(';').collect();
            members.sort_unstable();
            members.join(";")
        };
        assert_eq!(sorted(&ours), sorted(&theirs), "{name}");
    }
    assert!(derived.is_empty(), "{derived:?} no longer differ");
    let sanitized = cf.sanitized().unwrap();
    assert_eq!(sanitized.max_compaction_bytes, 1_677_721_600);
    assert_eq!(sanitized.get("ttl").unwrap(), "2592000");
    assert_eq!(cf.compaction_options_fifo.max_table_files_size, 1_073_741_824);
    assert!(!cf.compaction_options_fifo.allow_compaction);
    assert_eq!(sanitized.arena_block_size, 1 << 20);
    assert_eq!(db.sanitized().unwrap().delayed_write_rate, 16 << 20);
}

#[pumice_test_macros::test]
fn own_files_round_trip() {
    for original in [ROCKSDB_7_8, ROCKSDB_10_10] {
        let loaded = load(original);
        let families: Vec<_> =
            loaded.column_families.iter().map(|cf| (cf.name.as_str(), &cf.options)).collect();
        let text = format_options_file(&loaded.db, &families);
        let again = load(&text);
        for row in DbOptions::rows().iter().filter(|row| row.saved != Saved::Never) {
            assert_eq!(row.get(&again.db), row.get(&loaded.db), "{}", row.name);
        }
        assert_eq!(again.column_families.len(), families.len());
        for (a, b) in again.column_families.iter().zip(&loaded.column_families) {
            assert_eq!(a.name, b.name);
            for row in ColumnFamilyOptions::rows().iter().filter(|row| row.saved != Saved::Never) {
                assert_eq!(row.get(&a.options), row.get(&b.options), "{}", row.name);
            }
        }
    }
}

#[pumice_test_macros::test]
fn written_names_are_known_to_7_8() {
    let known: BTreeSet<_> = assignments(ROCKSDB_7_8)
        .into_iter()
        .map(|(section, name, _)| (section.split(' ').next().unwrap().to_string(), name))
        .collect();
    // RocksDB writes these only when they are set.
    let silent = ["db_log_dir", "wal_dir", "compression_per_level"];
    let (db, cf) = (DbOptions::default(), ColumnFamilyOptions::default());
    for (section, name, _) in assignments(&format_options_file(&db, &[("default", &cf)])) {
        let section = section.split(' ').next().unwrap().to_string();
        let ok = silent.contains(&name.as_str()) || known.contains(&(section, name.clone()));
        assert!(ok, "{name} is unknown to RocksDB 7.8");
    }
}

#[pumice_test_macros::test]
fn column_family_names_are_escaped() {
    let name = "a:b \"c\" #d\\";
    let cf = ColumnFamilyOptions::default();
    let text = format_options_file(&DbOptions::default(), &[("default", &cf), (name, &cf)]);
    assert_eq!(load(&text).column_families[1].name, name);
    assert_eq!(load(ROCKSDB_10_10).column_families[1].name, "two: #x");
}

#[pumice_test_macros::test]
fn values_parse_as_in_rocksdb() {
    let mut o = Options::new();
    o.set("write_buffer_size", "64MB").unwrap();
    assert_eq!(o.cf.write_buffer_size, 64 << 20);
    o.set("write_buffer_size", "1K").unwrap();
    assert_eq!(o.cf.write_buffer_size, 1 << 10);
    o.set("level0_file_num_compaction_trigger", "4k").unwrap();
    assert_eq!(o.cf.level0_file_num_compaction_trigger, 4096);
    o.set("max_open_files", "-1").unwrap();
    o.set("compression", "kLZ4Compression").unwrap();
    o.set("compression_opts", "4:5:6").unwrap();
    let opts = &o.cf.compression_opts;
    assert_eq!((opts.window_bits, opts.level, opts.strategy), (4, 5, 6));
    o.set("compression_opts", "{level=9}").unwrap();
    o.set("compression_opts.strategy", "1").unwrap();
    let opts = &o.cf.compression_opts;
    assert_eq!((opts.window_bits, opts.level, opts.strategy), (4, 9, 1));
    o.set("block_based_table_factory", "{block_size=8K;filter_policy=bloomfilter:10:false}")
        .unwrap();
    o.set("table_factory.whole_key_filtering", "false").unwrap();
    assert_eq!(o.cf.table_factory.block_size, 8192);
    assert!(o.cf.table_factory.filter_policy.is_some());
    assert!(!o.cf.table_factory.whole_key_filtering);
    o.set("compression_per_level", "kNoCompression:kZSTD").unwrap();
    assert_eq!(o.get("compression_per_level").unwrap(), "kNoCompression:kZSTD");
    o.set("memtable", "vector:1024").unwrap();
    assert_eq!(o.cf.memtable_factory, MemtableFactory::Vector { reserve: 1024 });
    let text = o.get("memtable_factory").unwrap();
    o.set("memtable_factory", "skip_list").unwrap();
    o.set("memtable_factory", &text).unwrap();
    assert_eq!(o.cf.memtable_factory, MemtableFactory::Vector { reserve: 1024 });
    o.set("merge_operator", "{id=StringAppendOperator;delimiter=|}").unwrap();
    let op = o.cf.merge_operator.clone().unwrap();
    assert_eq!(op.full_merge(b"", Some(b"a"), &[b"b"]).unwrap(), b"a|b");
    o.set("comparator", "rocksdb.ReverseBytewiseComparator").unwrap();
    assert!(matches!(o.cf.comparator, Comparator::ReverseBytewise));
    o.set("prefix_extractor", "capped:3").unwrap();
    assert_eq!(o.get("prefix_extractor").unwrap(), "rocksdb.CappedPrefix.3");
    o.set("prefix_extractor", "noop").unwrap();
    assert_eq!(o.get("prefix_extractor").unwrap(), "rocksdb.Noop");
}

#[pumice_test_macros::test]
fn options_of_tables_reach_the_table_layer() {
    let mut o = ColumnFamilyOptions::default();
    let quiet = o.table_factory.to_table_options().unwrap();
    assert!(quiet.optimize_filters_for_memory && quiet.decouple_partitioned_filters);
    assert!(quiet.pin_top_level_index_and_filter && !quiet.partition_filters);
    assert_eq!((quiet.metadata_block_size, quiet.format_version), (4096, 6));
    o.set(
        "table_factory",
        "{decouple_partitioned_filters=false;metadata_block_size=8K;\
         optimize_filters_for_memory=false;detect_filter_construct_corruption=true;\
         pin_top_level_index_and_filter=false;data_block_hash_table_util_ratio=0.5;\
         metadata_cache_options={partition_pinning=kAll;top_level_index_pinning=kNone;};\
         index_shortening=kNoShortening;filter_policy=ribbonfilter:9.5:2;format_version=7;\
         prepopulate_block_cache=kFlushOnly}",
    )
    .unwrap();
    o.set("table_factory.metadata_cache_options", "{unpartitioned_pinning=kFlushedAndSimilar}")
        .unwrap();
    let t = o.table_factory.to_table_options().unwrap();
    assert!(!t.decouple_partitioned_filters && !t.optimize_filters_for_memory);
    assert!(t.detect_filter_construct_corruption && !t.pin_top_level_index_and_filter);
    assert_eq!((t.metadata_block_size, t.data_block_hash_table_util_ratio), (8192, 0.5));
    assert_eq!(t.metadata_pinning.partition, PinningTier::All);
    assert_eq!(t.metadata_pinning.top_level_index, PinningTier::None);
    assert_eq!(t.metadata_pinning.unpartitioned, PinningTier::FlushedAndSimilar);
    assert_eq!(t.index_shortening, IndexShortening::None);
    assert_eq!(t.prepopulate_block_cache, PrepopulateBlockCache::FlushOnly);
    assert_eq!(t.filter_policy, Some(FilterPolicy::ribbon(9.5, 2)));
    assert_eq!(o.table_factory.get("filter_policy").unwrap(), "ribbonfilter:9.5:2");
    o.set("compression_opts", "{max_dict_bytes=16K;zstd_max_train_bytes=1M;parallel_threads=4}")
        .unwrap();
    o.set("bottommost_compression_opts", "{max_dict_buffer_bytes=2M;use_zstd_dict_trainer=0}")
        .unwrap();
    let (opts, bottom) = (&o.compression_opts, &o.bottommost_compression_opts);
    assert_eq!((opts.max_dict_bytes, opts.zstd_max_train_bytes), (16 << 10, 1 << 20));
    assert_eq!((opts.parallel_threads, bottom.max_dict_buffer_bytes), (4, 2 << 20));
    assert!(!bottom.use_zstd_dict_trainer && bottom.max_compressed_bytes_per_kb == 896);
    for (name, text, kind) in [
        ("index_type", "kTwoLevelIndexSearch", IndexType::TwoLevel as u32),
        ("index_type", "kHashSearch", IndexType::HashSearch as u32),
        ("index_type", "kBinarySearchWithFirstKey", IndexType::BinarySearchWithFirstKey as u32),
    ] {
        o.table_factory.set(name, text).unwrap();
        assert_eq!(o.table_factory.index_type as u32, kind);
        assert_eq!(o.table_factory.get(name).unwrap(), text);
    }
    o.table_factory.set("data_block_index_type", "kDataBlockBinaryAndHash").unwrap();
    assert_eq!(o.table_factory.data_block_index_type, DataBlockIndexType::BinaryAndHash);
}

#[pumice_test_macros::test]
fn contradictions_of_table_options_are_refused_in_rocksdb_words() {
    let refused = |text: &str| {
        let mut cf = ColumnFamilyOptions::default();
        cf.table_factory.set_from_text(text).unwrap();
        message(check_column_family(&cf))
    };
    assert_eq!(
        refused("index_type=kHashSearch"),
        "Invalid argument: Hash index is specified for block-based table, but prefix_extractor is \
         not given"
    );
    assert_eq!(
        refused("no_block_cache=true;cache_index_and_filter_blocks=true"),
        "Invalid argument: Enable cache_index_and_filter_blocks, , but block cache is disabled"
    );
    assert_eq!(
        refused("no_block_cache=true;pin_l0_filter_and_index_blocks_in_cache=true"),
        "Invalid argument: Enable pin_l0_filter_and_index_blocks_in_cache, , but block cache is \
         disabled"
    );
    assert_eq!(
        refused("block_align=true"),
        "Invalid argument: Enable block_align, but compression enabled"
    );
    assert_eq!(
        refused("data_block_index_type=kDataBlockBinaryAndHash;data_block_hash_table_util_ratio=0"),
        "Invalid argument: data_block_hash_table_util_ratio should be greater than 0 when \
         data_block_index_type is set to kDataBlockBinaryAndHash"
    );
    // What RocksDB's table factory turns off by itself.
    let mut cf = ColumnFamilyOptions::default();
    cf.table_factory.partition_filters = true;
    assert!(!cf.sanitized().unwrap().table_factory.partition_filters);
}

#[pumice_test_macros::test]
fn maps_apply_all_or_nothing() {
    let mut o = Options::new();
    o.set_from_text("write_buffer_size=10M;max_open_files=50;compression_opts={level=3;};")
        .unwrap();
    assert_eq!((o.cf.write_buffer_size, o.db.max_open_files), (10 << 20, 50));
    let err = message(o.set_from_text("write_buffer_size=1M;nonesuch=1"));
    assert_eq!(err, "Invalid argument: Extra option not recognized: nonesuch");
    assert_eq!(o.cf.write_buffer_size, 10 << 20);
}

#[pumice_test_macros::test]
fn refusals_name_the_option() {
    let mut o = Options::new();
    let cases = [
        ("nonesuch", "1", ErrorKind::InvalidArgument),
        ("write_buffer_size", "abc", ErrorKind::InvalidArgument),
        ("write_buffer_size", "-1", ErrorKind::InvalidArgument),
        ("write_buffer_size", "64Q", ErrorKind::InvalidArgument),
        ("write_buffer_size", "99999999999999999999", ErrorKind::InvalidArgument),
        ("write_buffer_size", "99999999999999T", ErrorKind::InvalidArgument),
        ("disable_auto_compactions", "yes", ErrorKind::InvalidArgument),
        ("num_levels", "65", ErrorKind::InvalidArgument),
        ("max_background_jobs", "0", ErrorKind::InvalidArgument),
        ("max_bytes_for_level_multiplier", "x", ErrorKind::InvalidArgument),
        ("max_bytes_for_level_multiplier", "inf", ErrorKind::InvalidArgument),
        ("compression", "kFoo", ErrorKind::InvalidArgument),
        ("compression", "kXpressCompression", ErrorKind::NotSupported),
        ("compression_opts", "{level=3;nope=1}", ErrorKind::InvalidArgument),
        ("compression_opts", "{max_dict_bytes=-1}", ErrorKind::InvalidArgument),
        ("compaction_style", "kCompactionStyleNone", ErrorKind::NotSupported),
        ("compaction_options_universal", "{nope=1}", ErrorKind::InvalidArgument),
        ("compaction_options_universal", "{size_ratio=x}", ErrorKind::InvalidArgument),
        ("compaction_options_universal", "{stop_style=x}", ErrorKind::InvalidArgument),
        ("compaction_options_universal", "{min_merge_width=-1}", ErrorKind::InvalidArgument),
        ("compaction_options_universal", "5", ErrorKind::InvalidArgument),
        ("compaction_options_fifo", "{nope=1}", ErrorKind::InvalidArgument),
        (
            "compaction_options_fifo",
            "{file_temperature_age_thresholds={{temperature=kLukewarm;age=5}}}",
            ErrorKind::InvalidArgument,
        ),
        (
            "compaction_options_fifo",
            "{file_temperature_age_thresholds={{heat=1;age=5}}}",
            ErrorKind::InvalidArgument,
        ),
        ("last_level_temperature", "kLukewarm", ErrorKind::InvalidArgument),
        ("compaction_options_fifo", "{ttl=60}", ErrorKind::NotSupported),
        ("compaction_options_fifo", "{max_table_files_size=x}", ErrorKind::InvalidArgument),
        ("wal_recovery_mode", "foo", ErrorKind::InvalidArgument),
        ("merge_operator", "foo", ErrorKind::NotSupported),
        ("comparator", "foo", ErrorKind::NotSupported),
        ("table_factory", "AdaptiveTable", ErrorKind::NotSupported),
        ("table_factory", "{id=CuckooTable;user_key_len=8}", ErrorKind::InvalidArgument),
        ("table_factory", "{user_key_len=8}", ErrorKind::InvalidArgument),
        ("table_factory", "{nope=1}", ErrorKind::InvalidArgument),
        ("table_factory", "{format_version=8}", ErrorKind::InvalidArgument),
        ("table_factory", "{index_type=kThreeLevel}", ErrorKind::InvalidArgument),
        ("table_factory", "{prepopulate_block_cache=kAlways}", ErrorKind::InvalidArgument),
        ("table_factory", "{metadata_cache_options={nope=kAll}}", ErrorKind::InvalidArgument),
        ("table_factory", "{filter_policy=ribbonfilter:10:x}", ErrorKind::InvalidArgument),
        ("table_factory", "{filter_policy=bloomfilter}", ErrorKind::InvalidArgument),
        ("table_factory", "{cache_usage_options={BlobCache=kMaybe}}", ErrorKind::InvalidArgument),
        ("wal_filter", "x", ErrorKind::NotSupported),
        ("unordered_write", "maybe", ErrorKind::InvalidArgument),
    ];
    let before = format_options_file(&o.db, &[("default", &o.cf)]);
    for (name, value, kind) in cases {
        let err = o.set(name, value).unwrap_err();
        assert_eq!(err.kind(), kind, "{name}={value}: {err}");
        assert!(err.message().contains(name), "{name}={value}: {err}");
    }
    assert_eq!(format_options_file(&o.db, &[("default", &o.cf)]), before);
    assert_eq!(
        message(o.set("wal_filter", "x")),
        "Not implemented: wal_filter=x is not supported by this build; only nullptr is"
    );
}

#[pumice_test_macros::test]
fn run_time_changes_spare_fixed_options() {
    let cf = ColumnFamilyOptions::default();
    let changed =
        cf.with_changes(&[("write_buffer_size", "1M"), ("table_factory.block_size", "8K")]);
    assert_eq!(changed.unwrap().table_factory.block_size, 8192);
    let err = cf.with_changes(&[("write_buffer_size", "1M"), ("num_levels", "5")]).err().unwrap();
    assert_eq!(err.to_string(), "Invalid argument: Option not changeable: num_levels");
    let err = cf.with_changes(&[("max_background_jobs", "5")]).err().unwrap();
    assert!(err.message().contains("max_background_jobs"));
    let db = DbOptions::default();
    assert_eq!(db.with_changes(&[("max_background_jobs", "5")]).unwrap().max_background_jobs, 5);
    assert!(db.with_changes(&[("create_if_missing", "true")]).is_err());
}

#[pumice_test_macros::test]
fn damaged_files_are_refused_with_the_line() {
    let rules = FileRules::default();
    let err = |text: &str| parse_options_file(text, rules).err().unwrap().to_string();
    assert!(err("").contains("DBOptions section is missing"));
    assert!(err("[DBOptions]\n").contains("CFOptions section is missing"));
    assert!(err("[DBOptions]\n[CFOptions \"x\"]").contains("line 2: Default column family"));
    assert!(err("[DBOptions]\n[DBOptions]").contains("More than one DBOptions"));
    assert!(err("[DBOptions]\nnonesuch=1").contains("line 2: Extra option not recognized"));
    assert!(err("[DBOptions]\nmax_open_files").contains("must have a '='"));
    assert!(err("a=1").contains("before any section"));
    assert!(err("[DBOptions").contains("malformed"));
    assert!(err("[Version]\noptions_file_version=0").contains("at least 1"));
    assert!(
        err("[DBOptions]\n[CFOptions \"default\"]\n[TableOptions/BlockBasedTable \"x\"]")
            .contains("must follow")
    );
    assert!(err("[DBOptions]\nwal_filter=x").contains("wal_filter"));
}

#[pumice_test_macros::test]
fn rules_turn_errors_into_notes() {
    let text = "[DBOptions]\nnonesuch=1\nwal_filter=x\n[CFOptions \"default\"]\n";
    let rules = FileRules {
        ignore_unknown_options: true,
        ignore_unsupported_options: true,
        ..FileRules::default()
    };
    let loaded = parse_options_file(text, rules).unwrap();
    assert_eq!(loaded.ignored, ["nonesuch=1", "wal_filter=x"]);
    let only_unknown = FileRules { ignore_unknown_options: true, ..FileRules::default() };
    assert!(parse_options_file(text, only_unknown).is_err());
}

#[pumice_test_macros::test]
fn contradictions_are_brought_into_order() {
    let mut cf = ColumnFamilyOptions {
        write_buffer_size: 1,
        max_write_buffer_number: 1,
        min_write_buffer_number_to_merge: 9,
        level0_slowdown_writes_trigger: 1,
        level0_stop_writes_trigger: 0,
        soft_pending_compaction_bytes_limit: 0,
        max_bytes_for_level_multiplier: -1.0,
        memtable_prefix_bloom_size_ratio: 0.3,
        num_levels: 12,
        ..ColumnFamilyOptions::default()
    };
    let s = cf.sanitized().unwrap();
    assert_eq!(s.write_buffer_size, 64 << 10);
    assert_eq!(s.arena_block_size, 8 << 10);
    assert_eq!((s.max_write_buffer_number, s.min_write_buffer_number_to_merge), (2, 1));
    assert_eq!((s.level0_slowdown_writes_trigger, s.level0_stop_writes_trigger), (4, 4));
    assert_eq!(s.memtable_prefix_bloom_size_ratio, 0.25);
    cf.memtable_prefix_bloom_size_ratio = -1.0;
    assert_eq!(cf.sanitized().unwrap().memtable_prefix_bloom_size_ratio, 0.0);
    assert_eq!(s.soft_pending_compaction_bytes_limit, s.hard_pending_compaction_bytes_limit);
    // Without a hard limit writes are slowed and never stopped.
    cf.soft_pending_compaction_bytes_limit = 77;
    cf.hard_pending_compaction_bytes_limit = 0;
    let unstopped = cf.sanitized().unwrap();
    assert_eq!(unstopped.soft_pending_compaction_bytes_limit, 77);
    assert_eq!(unstopped.hard_pending_compaction_bytes_limit, 0);
    cf.hard_pending_compaction_bytes_limit = 76;
    assert_eq!(cf.sanitized().unwrap().soft_pending_compaction_bytes_limit, 76);
    assert_eq!(s.max_bytes_for_level_multiplier, 1.0);
    assert_eq!(s.max_bytes_for_level_multiplier_additional.len(), 12);
    cf.num_levels = 0;
    assert!(cf.sanitized().err().unwrap().message().contains("num_levels"));
}

#[pumice_test_macros::test]
fn background_jobs_split_as_in_rocksdb() {
    let mut db = DbOptions::default();
    assert_eq!(db.background_limits(), (1, 1));
    db.max_background_jobs = 8;
    assert_eq!(db.background_limits(), (2, 6));
    db.max_background_flushes = 3;
    assert_eq!(db.background_limits(), (3, 1));
}

#[pumice_test_macros::test]
fn a_users_object_survives_its_own_name() {
    struct Mine;
    impl pumice_base::extension::MergeOperator for Mine {
        fn name(&self) -> &str {
            "mine"
        }
        fn full_merge(&self, _: &[u8], _: Option<&[u8]>, _: &[&[u8]]) -> Option<Vec<u8>> {
            None
        }
    }
    let mut o = Options::new();
    o.cf.merge_operator = Some(std::sync::Arc::new(Mine));
    o.set("merge_operator", "mine").unwrap();
    assert_eq!(o.get("merge_operator").unwrap(), "mine");
    o.set("merge_operator", "nullptr").unwrap();
    assert!(o.cf.merge_operator.is_none());
}

#[pumice_test_macros::test]
fn the_reference_page_has_every_row() {
    let page = docs::reference_page();
    for row in DbOptions::rows() {
        assert!(page.contains(row.name), "{}", row.name);
        if let RowKind::Field { .. } = row.kind {
            assert!(page.contains(&format!("| {} |", row.name)));
        }
    }
}

/// `docs/options.md` is made from the rows; `REWRITE=1` rewrites it.
#[pumice_test_macros::test]
fn the_committed_page_is_current() {
    use pumice_env::{FileSystem, PosixFs, write_file};
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/options.md");
    let page = docs::reference_page();
    if std::env::var_os("REWRITE").is_some() {
        write_file(&PosixFs, &path, page.as_bytes(), false).unwrap();
    }
    let committed = PosixFs.read_file(&path).unwrap();
    assert!(committed == page.as_bytes(), "docs/options.md is stale: run this test with REWRITE=1");
}

#[pumice_test_macros::test]
fn info_log_lines_name_values() {
    let mut o = Options::new();
    o.set("write_buffer_size", "1M").unwrap();
    let lines: Vec<String> = docs::info_log_lines(&o.cf).collect();
    assert!(lines.iter().any(|l| l.trim_start() == "Options.write_buffer_size: 1048576"));
}

/// RocksDB 10 writes a Ribbon policy into OPTIONS files as an object with a member, which it can
/// also change alone.
#[pumice_test_macros::test]
fn ribbon_policies_are_read_as_rocksdb_writes_them() {
    let mut o = ColumnFamilyOptions::default();
    let mut after = |text: &str| {
        o.set("table_factory", &format!("{{filter_policy={text}}}")).map(|()| {
            o.table_factory.filter_policy.map_or("none".to_string(), |policy| policy.to_string())
        })
    };
    for (text, policy) in [
        ("{id=ribbonfilter:10:3;bloom_before_level=3;}", "ribbonfilter:10:3"),
        ("{id=ribbonfilter:9.5:0;bloom_before_level=-1;}", "ribbonfilter:9.5:-1"),
        ("{bloom_before_level=5}", "ribbonfilter:9.5:5"),
        ("{id=bloomfilter:9.9:false;}", "bloomfilter:9.9:false"),
        ("rocksdb.RibbonFilter:8", "ribbonfilter:8:0"),
        ("nullptr", "none"),
    ] {
        assert_eq!(after(text).unwrap(), policy, "{text}");
    }
    for text in [
        "{id=bloomfilter:10;bloom_before_level=3;}",
        "{id=ribbonfilter:10;bits=3;}",
        "{id=ribbonfilter:10;bloom_before_level=x;}",
        "{bloom_before_level=5}",
    ] {
        assert!(after(text).is_err(), "{text}");
        assert_eq!(after("nullptr").unwrap(), "none");
    }
}
