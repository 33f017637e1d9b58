//! Properties compared with the known contents, and with figures of RocksDB 10.10.1 for the same
//! steps where they do not depend on time or block sizes.

use crate::common::{self, DIR, fill, flush, key, memory, options};
use pumice::{
    BottommostLevelCompaction, ColumnFamilyOptions, CompactRangeOptions, Db, Options, ReadOptions,
    Statistics, WaitForCompactOptions, WriteOptions,
};

fn text(db: &Db, name: &str) -> String {
    db.property(&format!("rocksdb.{name}")).unwrap_or_else(|| panic!("no property {name}"))
}

fn number(db: &Db, name: &str) -> u64 {
    let text = text(db, name);
    text.parse().unwrap_or_else(|_| panic!("{name} is {text}"))
}

fn compact_all(db: &Db) {
    let force = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    db.compact_range(&force, None, None).unwrap();
}

fn new_db(change: impl FnOnce(&mut Options)) -> Db {
    let (_, fs) = memory();
    let mut options = options(&fs);
    options.cf.disable_auto_compactions = true;
    change(&mut options);
    Db::open(&options, DIR).unwrap()
}

/// 1000 keys in a file; 100 deletions and 200 more keys in the memtable. The oracle ran the same.
fn filled() -> Db {
    // By RocksDB's rules: under the adaptive policy a cap ends a little after the flush.
    let db = new_db(|options| {
        options.db.background_policy = pumice::options::BackgroundPolicy::Static;
    });
    fill(&db, 0..1000, &"v".repeat(100));
    flush(&db);
    // The flush job ends a little after the flush: numbers of running jobs must not show it.
    db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
    for n in (0..1000).step_by(10) {
        db.delete_opt(&WriteOptions::default(), &key(n)).unwrap();
    }
    fill(&db, 1000..1200, &"w".repeat(50));
    db
}

#[pumice_test_macros::test]
fn names_need_their_prefix_and_must_be_known() {
    let db = filled();
    for name in [
        "stats",
        "rocksdb.",
        "rocksdb.nonsense",
        "rocksdb.num-files-at-level",
        "rocksdb.num-files-at-level7",
        "rocksdb.num-files-at-level+1",
        "rocksdb.compression-ratio-at-level7",
        "rocksdb.nonsense-at-level0",
        "rocksdb.estimate-oldest-key-time",
        "rocksdb.options-statistics",
    ] {
        assert_eq!(db.property(name), None, "{name}");
    }
}

#[pumice_test_macros::test]
fn numbers_are_those_of_rocksdb() {
    let db = filled();
    for (name, expected) in [
        ("num-files-at-level0", 1),
        ("num-files-at-level6", 0),
        ("num-immutable-mem-table", 0),
        ("num-immutable-mem-table-flushed", 0),
        ("mem-table-flush-pending", 0),
        ("compaction-pending", 0),
        ("background-errors", 0),
        ("num-entries-active-mem-table", 300),
        ("num-entries-imm-mem-tables", 0),
        ("num-deletes-active-mem-table", 100),
        ("num-deletes-imm-mem-tables", 0),
        ("estimate-num-keys", 1100),
        ("is-file-deletions-enabled", 1),
        ("num-snapshots", 0),
        ("oldest-snapshot-time", 0),
        ("oldest-snapshot-sequence", 0),
        ("num-live-versions", 1),
        ("min-obsolete-sst-number-to-keep", u64::MAX),
        ("base-level", 6),
        ("estimate-pending-compaction-bytes", 0),
        ("num-running-flushes", 0),
        ("num-running-compactions", 0),
        ("actual-delayed-write-rate", 0),
        ("is-write-stopped", 0),
        ("block-cache-capacity", 32 << 20),
        ("num-blob-files", 0),
        ("live-blob-file-size", 0),
    ] {
        assert_eq!(number(&db, name), expected, "{name}");
    }
    let size = db.live_files_metadata()[0].size;
    for name in ["total-sst-files-size", "live-sst-files-size", "estimate-live-data-size"] {
        assert_eq!(number(&db, name), size, "{name}");
    }
    assert!(number(&db, "cur-size-active-mem-table") > 0);
    assert_eq!(text(&db, "size-all-mem-tables"), text(&db, "cur-size-all-mem-tables"));
    assert!(number(&db, "min-log-number-to-keep") > 0);
    let ratio: f64 = text(&db, "compression-ratio-at-level0").parse().unwrap();
    // 16-byte internal keys would be (9 + 8); the keys here have one digit more than the oracle's.
    let expected = (1000 * (9 + 8) + 1000 * 100) as f64 / size as f64;
    assert!((ratio - expected).abs() < 1e-4, "{ratio} {expected}");
    assert_eq!(text(&db, "compression-ratio-at-level1"), "-1.000000");
}

#[pumice_test_macros::test]
fn snapshots_and_disabled_deletions_show() {
    let db = filled();
    let snapshot = db.snapshot();
    db.disable_file_deletions();
    assert_eq!(number(&db, "is-file-deletions-enabled"), 0);
    assert_eq!(number(&db, "num-snapshots"), 1);
    assert_eq!(number(&db, "oldest-snapshot-sequence"), 1300);
    assert!(number(&db, "oldest-snapshot-time") > 1_600_000_000);
    drop(snapshot);
    db.enable_file_deletions();
    assert_eq!(number(&db, "num-snapshots"), 0);
    assert_eq!(number(&db, "is-file-deletions-enabled"), 1);
}

#[pumice_test_macros::test]
fn old_versions_count_while_an_iterator_reads_them() {
    let db = filled();
    flush(&db);
    // A job has its version until it ends, a little after what it was for.
    let wait = WaitForCompactOptions::default();
    db.wait_for_compact(&wait).unwrap();
    let before = number(&db, "live-sst-files-size");
    let super_version = number(&db, "current-super-version-number");
    let mut iter = db.cursor_opt(&ReadOptions::default()).unwrap();
    iter.seek_to_first();
    compact_all(&db);
    db.wait_for_compact(&wait).unwrap();
    assert_eq!(number(&db, "num-live-versions"), 2);
    let after = number(&db, "live-sst-files-size");
    assert_eq!(number(&db, "total-sst-files-size"), before + after);
    assert!(number(&db, "current-super-version-number") > super_version);
    drop(iter);
    assert_eq!(number(&db, "num-live-versions"), 1);
    assert_eq!(number(&db, "total-sst-files-size"), after);
    assert_eq!(number(&db, "estimate-num-keys"), 1100);
}

#[pumice_test_macros::test]
fn key_estimates_survive_reopening() {
    let (_, fs) = memory();
    let options = options(&fs);
    let db = Db::open(&options, DIR).unwrap();
    fill(&db, 0..1000, "v");
    flush(&db);
    db.close().unwrap();
    drop(db);
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!(number(&db, "estimate-num-keys"), 1000);
    assert!(number(&db, "estimate-table-readers-mem") > 0);
    assert!(text(&db, "compression-ratio-at-level0").parse::<f64>().unwrap() > 1.0);
}

#[pumice_test_macros::test]
fn overlapping_files_are_not_live_data_twice() {
    let db = new_db(|_| ());
    for _ in 0..3 {
        fill(&db, 0..100, "v");
        flush(&db);
    }
    fill(&db, 200..300, "v");
    flush(&db);
    let sizes: Vec<u64> = db.live_files_metadata().iter().map(|f| f.size).collect();
    assert_eq!(sizes.len(), 4);
    let live = number(&db, "estimate-live-data-size");
    assert_eq!(live, sizes[0] + sizes[1]);
    assert_eq!(number(&db, "live-sst-files-size"), sizes.iter().sum::<u64>());
}

#[pumice_test_macros::test]
fn reports_have_rocksdb_layout() {
    let db = filled();
    let stats = text(&db, "stats");
    assert!(
        stats.starts_with("\n** Compaction Stats [default] **\nLevel    Files   Size     Score")
    );
    assert!(stats.contains("\n  L0      1/0 "), "{stats}");
    assert!(stats.contains("Flush(GB): cumulative 0.000, interval 0.000\n"));
    assert!(stats.contains("\nBlock cache HyperClockCache@0x"));
    assert!(stats.contains(" capacity: 32.00 MB "));
    assert!(stats.contains("\n** DB Stats **\n"));
    assert!(stats.contains("Cumulative writes: 1300 writes, 1300 keys, 1300 commit groups"));
    let cf = text(&db, "cfstats");
    assert!(cf.ends_with("\n** File Read Latency Histogram By Level [default] **\n"), "{cf}");
    assert!(!text(&db, "cfstats-no-file-histogram").contains("Latency"));
    let histogram = "\n** File Read Latency Histogram By Level [default] **\n";
    assert_eq!(text(&db, "cf-file-histogram"), histogram);
    assert!(text(&db, "dbstats").starts_with("\n** DB Stats **\nUptime(secs): "));
    let levels = text(&db, "levelstats");
    assert!(
        levels.starts_with("Level Files Size(MB)\n--------------------\n  0        1        0\n")
    );
    assert_eq!(levels.lines().count(), 9);
    let stalls = text(&db, "cf-write-stall-stats");
    assert!(stalls.starts_with("Write Stall (count): cf-l0-file-count-limit-delays-with"));
    assert!(stalls.ends_with("total-delays: 0, total-stops: 0\n"));
}

#[pumice_test_macros::test]
fn files_and_table_properties_are_listed() {
    let db = filled();
    let file = &db.live_files_metadata()[0];
    let list = text(&db, "sstables");
    let lines: Vec<&str> = list.lines().collect();
    assert_eq!(lines.len(), 8);
    assert!(lines[0].starts_with("--- level 0 --- version# "));
    let expected = format!(
        " {}:{}[1 .. 1000]['6B6579303030303030' seq:1, type:1 .. '6B6579303030393939' seq:1000, \
         type:1](0)",
        file.file_number, file.size
    );
    assert_eq!(lines[1], expected);
    let all = text(&db, "aggregated-table-properties");
    assert_eq!(all, text(&db, "aggregated-table-properties-at-level0"));
    assert!(all.contains("; # entries=1000; # deletions=0; # merge operands=0; "), "{all}");
    assert!(all.contains("raw key size=17000; raw average key size=17.000000; "), "{all}");
    assert!(all.contains("raw value size=100000; raw average value size=100.000000; "));
    let none = text(&db, "aggregated-table-properties-at-level5");
    assert!(none.starts_with("# data blocks=0; # entries=0; "), "{none}");
}

#[pumice_test_macros::test]
fn cache_and_statistics_show_reads() {
    let db = new_db(|o| o.db.statistics = Some(std::sync::Arc::new(Statistics::new())));
    fill(&db, 0..1000, &"v".repeat(100));
    flush(&db);
    let before = number(&db, "block-cache-usage");
    for n in 0..1000 {
        common::get(&db, &key(n)).unwrap();
    }
    assert!(number(&db, "block-cache-usage") > before);
    let first = text(&db, "block-cache-entry-stats");
    assert!(first.contains(" DataBlock(") && first.contains(" last_copies: 0 "), "{first}");
    // The result of a walk is used for ten seconds, by every column family with this cache.
    let again = text(&db, "fast-block-cache-entry-stats");
    assert!(again.contains(" collections: 1 last_copies: 1 "), "{again}");
    assert!(text(&db, "stats").contains(" collections: 1 last_copies: 2 "));
    let map = db.property_map("rocksdb.block-cache-entry-stats").unwrap();
    assert_eq!(map["capacity"], (32u64 << 20).to_string());
    let blocks: u64 = map["count.data-block"].parse().unwrap();
    assert!(blocks > 10 && first.contains(&format!(" DataBlock({blocks},")), "{map:?}\n{first}");
    assert!(map["bytes.data-block"].parse::<u64>().unwrap() > 100_000);
    assert_eq!(
        (map["count.index-block"].as_str(), map["percent.index-block"].as_str()),
        ("0", "0.000000")
    );
    assert!(first.contains(map["id"].as_str()) && map.contains_key("secs_since_last_collection"));
    // Every role of RocksDB is there, with the names of its `BlockCacheEntryStatsMapKeys`.
    for role in [
        "data-block",
        "filter-block",
        "filter-meta-block",
        "deprecated-filter-block",
        "index-block",
        "other-block",
        "write-buffer",
        "compression-dictionary-building-buffer",
        "filter-construction",
        "block-based-table-reader",
        "file-metadata",
        "blob-value",
        "blob-cache",
        "misc",
    ] {
        for what in ["count", "bytes", "percent"] {
            assert!(map.contains_key(&format!("{what}.{role}")), "{what}.{role}");
        }
    }
    assert_eq!(map.len(), 4 + 3 * 14);
    let map = |name: &str| db.property_map(&format!("rocksdb.{name}"));
    assert!(map("num-snapshots").is_none());
    assert_eq!(map("dbstats").unwrap()["db.user_keys_written"], "1000");
    let figures = map("cfstats").unwrap();
    assert_eq!(figures["compaction.L0.NumFiles"], figures["compaction.Sum.NumFiles"]);
    assert_eq!((figures["total-stops"].as_str(), figures.len()), ("0", 2 * 22 + 2 * 10));
    let sum = map("aggregated-table-properties").unwrap();
    assert_eq!((sum["num_entries"].as_str(), sum.len()), ("1000", 15));
    assert_eq!(map("aggregated-table-properties-at-level0"), Some(sum));
    assert_eq!(map("aggregated-table-properties-at-level1").unwrap()["num_entries"], "0");
    assert!(map("aggregated-table-properties-at-level9").is_none());
    assert!(map("aggregated-table-properties-").is_none());
    assert!(text(&db, "options-statistics").contains("rocksdb.number.keys.read COUNT : 1000\n"));
}

#[pumice_test_macros::test]
fn a_dropped_column_family_answers_what_it_still_has() {
    let db = new_db(|_| ());
    let cf = db.create_column_family(&ColumnFamilyOptions::default(), "other").unwrap();
    db.put_cf_opt(&WriteOptions::default(), &cf, b"k", b"v").unwrap();
    assert_eq!(db.property_int_cf(&cf, "rocksdb.estimate-num-keys"), Some(1));
    assert_eq!(db.property_int("rocksdb.estimate-num-keys"), Some(0));
    db.drop_column_family(&cf).unwrap();
    assert_eq!(db.property_int_cf(&cf, "rocksdb.num-entries-active-mem-table"), Some(1));
    assert_eq!(db.property_int_cf(&cf, "rocksdb.base-level"), None);
    assert!(db.property_cf(&cf, "rocksdb.stats").is_some());
}

#[pumice_test_macros::test]
fn live_files_and_sizes_describe_the_tree() {
    let db = new_db(|_| ());
    fill(&db, 0..5000, &"v".repeat(100));
    flush(&db);
    compact_all(&db);
    fill(&db, 5000..6000, "w");
    flush(&db);
    let files = db.live_files_metadata();
    assert_eq!(files.len(), 2);
    let (new, old) = (&files[0], &files[1]);
    assert_eq!((new.level, old.level), (0, 6));
    assert_eq!(new.name, format!("/{:06}.sst", new.file_number));
    assert_eq!((&new.smallest_key, &new.largest_key), (&key(5000), &key(5999)));
    assert_eq!((new.num_entries, new.num_deletions), (1000, 0));
    assert_eq!((new.smallest_seq, new.largest_seq), (5001, 6000));
    assert_eq!(new.column_family_name, "default");
    assert!(!new.being_compacted);
    db.verify_checksum().unwrap();
    let (zero, low, high, end) = (key(0), key(1000), key(4000), key(9999));
    let sizes =
        db.approximate_sizes(&[(&zero, &end), (&low, &high), (&high, &low), (&end, b"z")]).unwrap();
    assert_eq!(sizes[0], old.size + new.size);
    let share = sizes[1] as f64 / old.size as f64;
    assert!((0.5..0.7).contains(&share), "{share}");
    assert_eq!(sizes[2..], [0, 0]);
}

#[pumice_test_macros::test]
fn verify_checksum_finds_a_flipped_bit() {
    let (mem, fs) = memory();
    let db = Db::open(&options(&fs), DIR).unwrap();
    fill(&db, 0..1000, &"v".repeat(100));
    flush(&db);
    let file = db.live_files_metadata().remove(0);
    let path = file.directory.join(&file.name[1..]);
    mem.damage(&path, |bytes| bytes[100] ^= 1).unwrap();
    let error = db.verify_checksum().unwrap_err();
    assert!(error.is_corruption(), "{error}");
    assert!(error.to_string().contains(&file.name[1..]), "{error}");
}
