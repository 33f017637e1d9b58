//! The effect of unusual settings of tables: both engines are opened with each, fill a table and
//! compact it. They refuse the same with the same words, or write tables alike.
//!
//! Skipped with a message where the library is missing.

use std::path::{Path, PathBuf};

use pumice::options::{FileRules, parse_options_file};
use pumice_base::Comparator;
use pumice_filter::FilterPolicy;
use pumice_peer as theirs;
use pumice_peer::Peer;

use super::{context, peer, support};

const KEYS: u64 = 300;

/// Settings of the column family and of its tables.
const SETTINGS: [(&str, &str); 38] = [
    ("", "filter_policy=bloomfilter:10"),
    ("", "filter_policy=bloomfilter:10:true"),
    ("", "filter_policy=bloomfilter:0"),
    ("", "filter_policy=bloomfilter:0.4"),
    ("", "filter_policy=bloomfilter:.5"),
    ("", "filter_policy=bloomfilter:-1"),
    ("", "filter_policy=bloomfilter:9.8765:false"),
    ("", "filter_policy=ribbonfilter:10:7"),
    ("", "filter_policy=ribbonfilter:10:2147483647"),
    ("compaction_style=kCompactionStyleFIFO", "filter_policy=ribbonfilter:10:2147483647"),
    ("", "filter_policy=rocksdb.BloomFilter:10"),
    ("", "filter_policy=rocksdb.BloomFilter:10:false"),
    ("", "filter_policy=rocksdb.RibbonFilter:10:1"),
    ("", "filter_policy={id=bloomfilter:10:false}"),
    ("", "filter_policy={id=ribbonfilter:10;bloom_before_level=3}"),
    ("", "filter_policy={id=ribbonfilter:10:0;bloom_before_level=-1}"),
    ("", "filter_policy=bloomfilter:9.5;format_version=2"),
    ("", "filter_policy=ribbonfilter:10:-1;format_version=4"),
    ("prefix_extractor=fixed:0", "filter_policy=bloomfilter:10;whole_key_filtering=false"),
    ("prefix_extractor=fixed:100", "filter_policy=bloomfilter:10;whole_key_filtering=false"),
    ("optimize_filters_for_hits=true", "filter_policy=bloomfilter:10"),
    ("", "block_size_deviation=0"),
    ("", "block_size_deviation=100"),
    ("compression=kNoCompression", "block_align=true;block_size=1024"),
    ("compression=kNoCompression", "block_align=true;block_size_deviation=0"),
    ("compression=kNoCompression", "block_align=true;block_size_deviation=100"),
    ("compression=kNoCompression", "block_align=true;block_size=5000"),
    ("compression=kSnappyCompression", "block_align=true"),
    ("compression=kNoCompression;bottommost_compression=kSnappyCompression", "block_align=true"),
    (
        "compression=kNoCompression;compression_per_level=kNoCompression:kNoCompression:kZSTD",
        "block_align=true",
    ),
    ("compression=kZSTD;compression_opts={max_compressed_bytes_per_kb=0}", ""),
    ("compression=kZSTD;compression_opts={max_compressed_bytes_per_kb=-5}", ""),
    ("compression=kZlibCompression;compression_opts={level=12}", ""),
    ("compression=kZlibCompression;compression_opts={level=-2}", ""),
    ("compression=kZlibCompression;compression_opts={strategy=1}", ""),
    ("compression=kZlibCompression;compression_opts={window_bits=-15}", ""),
    ("compression=kZlibCompression;compression_opts={window_bits=-8}", ""),
    ("compression=kZlibCompression;compression_opts={window_bits=0}", ""),
];

fn key(n: u64) -> Vec<u8> {
    format!("key{n:05}").into_bytes()
}

fn value(n: u64) -> Vec<u8> {
    format!("value {n} ").repeat(10).into_bytes()
}

/// What is compared of each table, flushed and compacted, or the error.
type Outcome = Result<Vec<String>, String>;

fn describe(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap();
    let table = support::open(context(Comparator::Bytewise), &bytes).unwrap();
    let p = table.properties();
    // Sizes of data differ by a few bytes, those that another Snappy makes of it.
    format!(
        "{} {} filter {} of {} blocks {} index {}",
        p.compression,
        p.filter_policy,
        p.filter_size,
        p.num_filter_entries,
        p.num_data_blocks,
        p.index_size
    )
}

fn tables(dir: &Path) -> Vec<String> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "sst"));
    paths.sort();
    paths.iter().map(|path| describe(path)).collect()
}

fn by_theirs(peer: &Peer, path: &Path, family: &str, table: &str) -> Outcome {
    let mut options = theirs::Options::new(peer);
    let told = |e: theirs::Error| e.message().to_string();
    options
        .set_many("create_if_missing=true;allow_fallocate=false;disable_auto_compactions=true")
        .map_err(told)?;
    options.set_many(family).map_err(told)?;
    options.set_table(table).map_err(told)?;
    let db = theirs::Db::open(&options, path).map_err(told)?;
    let cf = db.default_column_family().clone();
    let wo = theirs::WriteOptions::new(peer, &theirs::WriteSettings::default());
    for n in 0..KEYS {
        db.put(&wo, &cf, &key(n), &value(n)).map_err(told)?;
    }
    db.flush(&cf).map_err(told)?;
    let mut all = tables(path);
    let force = theirs::CompactRangeSettings { bottommost_level: 2, ..Default::default() };
    db.compact_range(&cf, None, None, &force);
    drop(db);
    // The newest: a close may leave what was compacted to the next open, which deletes it.
    all.extend(tables(path).pop());
    Ok(all)
}

fn by_us(path: &Path, family: &str, table: &str) -> Outcome {
    let mut options = pumice::Options::default();
    options.db.create_if_missing = true;
    options.cf.disable_auto_compactions = true;
    let told = |e: pumice::Error| e.to_string();
    options.set_from_text(family).map_err(told)?;
    options.set("table_factory", &format!("{{{table}}}")).map_err(told)?;
    let db = pumice::Db::open(&options, path).map_err(told)?;
    let wo = pumice::WriteOptions::default();
    for n in 0..KEYS {
        db.put_opt(&wo, &key(n), &value(n)).map_err(told)?;
    }
    db.flush_opt(&pumice::FlushOptions::default()).map_err(told)?;
    let mut all = tables(path);
    let force = pumice::CompactRangeOptions {
        bottommost_level_compaction: pumice::BottommostLevelCompaction::Force,
        ..Default::default()
    };
    db.compact_range(&force, None, None).map_err(told)?;
    db.close().map_err(told)?;
    all.extend(tables(path).pop());
    Ok(all)
}

#[pumice_test_macros::test]
fn unusual_settings_come_to_the_same() {
    let Some(peer) = peer() else { return };
    let mut refused = 0;
    for (family, table) in SETTINGS {
        let dir = crate::scratch();
        // Sizes that follow an allocator are not the same in any two engines.
        let table = format!("optimize_filters_for_memory=false;{table}");
        let theirs = by_theirs(&peer, &dir.path().join("theirs"), family, &table);
        let ours = by_us(&dir.path().join("ours"), family, &table);
        assert_eq!(ours, theirs, "ours and theirs: {family} {table}");
        refused += usize::from(ours.is_err());
    }
    assert_eq!(refused, 4, "block_align with a codec, thrice, and with an odd size");
}

/// RocksDB writes a Ribbon policy as an object with a member.
#[pumice_test_macros::test]
fn options_files_with_ribbon_filters_are_read() {
    let Some(peer) = peer() else { return };
    let dir = crate::scratch();
    let path = dir.path().join("theirs");
    by_theirs(&peer, &path, "", "filter_policy=ribbonfilter:9.5:3").unwrap();
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.to_string_lossy().contains("OPTIONS-"));
    let text = std::fs::read_to_string(files.iter().max().unwrap()).unwrap();
    assert!(text.contains("filter_policy={id=ribbonfilter:9.5:3;bloom_before_level=3;}"), "{text}");
    let read = parse_options_file(&text, FileRules::default()).unwrap();
    let policy = read.column_families[0].options.table_factory.filter_policy;
    assert_eq!(policy, Some(FilterPolicy::ribbon(9.5, 3)));
}

/// Kinds of tables that have nothing but range tombstones: no data block, so an empty index.
const KINDS: [(&str, &str); 7] = [
    ("", ""),
    ("", "format_version=5;filter_policy=bloomfilter:10"),
    ("", "index_type=kBinarySearchWithFirstKey;filter_policy=ribbonfilter:10:-1"),
    ("", "index_type=kTwoLevelIndexSearch;cache_index_and_filter_blocks=true"),
    ("", "index_type=kTwoLevelIndexSearch;partition_filters=true;filter_policy=bloomfilter:10"),
    ("prefix_extractor=fixed:3", "index_type=kHashSearch;filter_policy=bloomfilter:10"),
    (
        "compression=kZSTD;compression_opts={max_dict_bytes=4096;parallel_threads=3}",
        "data_block_index_type=kDataBlockBinaryAndHash;format_version=7",
    ),
];

/// The keys that are left when the first half is deleted.
fn left() -> Vec<Vec<u8>> {
    (KEYS / 2..KEYS).map(key).collect()
}

/// One engine writes keys into the last level and a table of one range tombstone above; the other
/// one reads the rest, and compacts it.
#[pumice_test_macros::test]
fn tables_of_range_tombstones_alone_go_both_ways() {
    let Some(peer) = peer() else { return };
    for (family, table) in KINDS {
        let folder = crate::scratch();
        let (first, second) = (folder.path().join("first"), folder.path().join("second"));
        let what = format!("{family} {table}");

        let mut mine = pumice::Options::default();
        mine.db.create_if_missing = true;
        mine.cf.disable_auto_compactions = true;
        mine.set_from_text(family).unwrap();
        mine.set("table_factory", &format!("{{{table}}}")).unwrap();
        let mut options = theirs::Options::new(&peer);
        options
            .set_many("create_if_missing=true;allow_fallocate=false;disable_auto_compactions=true")
            .unwrap();
        options.set_many(family).unwrap();
        options.set_table(table).unwrap();

        let db = pumice::Db::open(&mine, &first).unwrap();
        let wo = pumice::WriteOptions::default();
        (0..KEYS).for_each(|n| db.put_opt(&wo, &key(n), &value(n)).unwrap());
        db.compact_range(&Default::default(), None, None).unwrap();
        db.delete_range_opt(&wo, &key(0), &key(KEYS / 2)).unwrap();
        db.flush_opt(&pumice::FlushOptions::default()).unwrap();
        db.close().unwrap();
        drop(db);
        assert_eq!(read_by_theirs(&peer, &options, &first), left(), "{what}");

        let db = theirs::Db::open(&options, &second).unwrap();
        let cf = db.default_column_family().clone();
        let wo = theirs::WriteOptions::new(&peer, &theirs::WriteSettings::default());
        (0..KEYS).for_each(|n| db.put(&wo, &cf, &key(n), &value(n)).unwrap());
        db.flush(&cf).unwrap();
        db.compact_range(&cf, None, None, &theirs::CompactRangeSettings::default());
        db.delete_range(&wo, &cf, &key(0), &key(KEYS / 2)).unwrap();
        db.flush(&cf).unwrap();
        drop((cf, db));
        assert_eq!(read_by_us(&mine, &second), left(), "{what}");
    }
}

fn read_by_theirs(peer: &Peer, options: &theirs::Options, path: &Path) -> Vec<Vec<u8>> {
    let db = theirs::Db::open(options, path).unwrap();
    let cf = db.default_column_family().clone();
    let ro = theirs::ReadOptions::new(peer, &theirs::ReadSettings::default());
    let keys = || {
        let mut iter = db.iter(&ro, &cf);
        let mut keys = Vec::new();
        iter.seek_to_first();
        while iter.valid() {
            keys.push(iter.key().to_vec());
            iter.next();
        }
        iter.status().unwrap();
        keys
    };
    let before = keys();
    db.compact_range(&cf, None, None, &theirs::CompactRangeSettings::default());
    assert_eq!(keys(), before);
    before
}

fn read_by_us(options: &pumice::Options, path: &Path) -> Vec<Vec<u8>> {
    let db = pumice::Db::open(options, path).unwrap();
    let keys = || {
        let mut iter = db.cursor_opt(&pumice::ReadOptions::default()).unwrap();
        let mut keys = Vec::new();
        iter.seek_to_first();
        while iter.valid() {
            keys.push(iter.key().unwrap().to_vec());
            iter.next();
        }
        iter.status().unwrap();
        keys
    };
    let before = keys();
    for n in 0..KEYS {
        let found = db.get_opt(&pumice::ReadOptions::default(), &key(n)).unwrap();
        assert_eq!(found.is_some(), n >= KEYS / 2);
    }
    db.verify_checksum().unwrap();
    db.compact_range(&Default::default(), None, None).unwrap();
    assert_eq!(keys(), before);
    db.close().unwrap();
    before
}
