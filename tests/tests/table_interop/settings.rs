//! What unusual settings of tables come to: both engines are opened with each, fill a table and
//! compact it. They refuse the same with the same words, or write tables alike.
//!
//! Skipped aloud where the library is missing.

use std::path::{Path, PathBuf};

use pumice::options::{FileRules, parse_options_file};
use pumice_base::Comparator;
use pumice_filter::FilterPolicy;
use pumice_peer as theirs;
use pumice_peer::Peer;

use super::{context, peer, support};

const KEYS: u64 = 300;

/// Settings of the column family and of its tables.
const SETTINGS: [(&str, &str); 36] = [
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
    options.set_many("create_if_missing=true;disable_auto_compactions=true").map_err(told)?;
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
    all.extend(tables(path));
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
        db.put(&wo, &key(n), &value(n)).map_err(told)?;
    }
    db.flush(&pumice::FlushOptions::default()).map_err(told)?;
    let mut all = tables(path);
    let force = pumice::CompactRangeOptions {
        bottommost_level_compaction: pumice::BottommostLevelCompaction::Force,
        ..Default::default()
    };
    db.compact_range(&force, None, None).map_err(told)?;
    db.close().map_err(told)?;
    all.extend(tables(path));
    Ok(all)
}

#[pumice_test_macros::test]
fn unusual_settings_come_to_the_same() {
    let Some(peer) = peer() else { return };
    let mut refused = 0;
    for (family, table) in SETTINGS {
        let dir = tempfile::tempdir().unwrap();
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
    let dir = tempfile::tempdir().unwrap();
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
