//! False positives of filters: both engines over the same content, counted by their statistics.
//!
//! The content is many tables of different sizes, all of which are asked for each absent key: with
//! `optimize_filters_for_memory` either engine keeps the rate only on the average of filters.
//!
//! Tolerance: the counts of the two engines may differ by 5 % and by three standard deviations of
//! their difference, which is the root of their sum (counts of rare independent events).

use std::path::Path;
use std::sync::Arc;

use pumice::{Statistics, Ticker};
use pumice_base::random::Rng;

use crate::child;
use crate::stores::rocksdb;
use crate::stores::temp_folder;

const TABLES: u64 = 40;
const ABSENT: u64 = 20_000;
const REPORT: &str = "rates";
const COUNTERS: [&str; 2] = ["rocksdb.bloom.filter.useful", "rocksdb.bloom.filter.full.positive"];

/// Name, `block_based_table_factory` text.
fn configurations() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for policy in ["bloomfilter:10:false", "bloomfilter:9.9:false", "ribbonfilter:10:-1"] {
        for (partitions, extra) in [
            ("full", ""),
            ("partitioned", "index_type=kTwoLevelIndexSearch;partition_filters=true;"),
        ] {
            for memory in ["false", "true"] {
                let table = format!(
                    "filter_policy={policy};{extra}optimize_filters_for_memory={memory};\
                     metadata_block_size=1024"
                );
                all.push((format!("{policy} {partitions} for_memory={memory}"), table));
            }
        }
    }
    all
}

const OPTIONS: [(&str, &str); 6] = [
    ("level0_slowdown_writes_trigger", "1000"),
    ("level0_stop_writes_trigger", "1000"),
    ("create_if_missing", "true"),
    ("disable_auto_compactions", "true"),
    ("write_buffer_size", "67108864"),
    ("compression", "kNoCompression"),
];

fn key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// The keys of a table: 500 to 3600 of them.
fn keys_of(table: u64) -> impl Iterator<Item = [u8; 16]> {
    (0..500 + table * 79).map(move |n| key(table << 32 | n))
}

/// Keys that are not there, as many of them as the share of the environment wants.
fn absent() -> impl Iterator<Item = [u8; 16]> {
    let mut rng = Rng::new(3);
    (0..pumice_testkit::seed::share(ABSENT)).map(move |n| {
        let mut key = key(TABLES << 32 | n);
        key[..8].copy_from_slice(&rng.uniform(u64::MAX).to_be_bytes());
        key
    })
}

/// Useful and positive answers of Pumice's filters.
fn pumice_counts(path: &Path, table: &str) -> [u64; 2] {
    let mut options = pumice::Options::default();
    for (name, value) in OPTIONS {
        options.set(name, value).unwrap();
    }
    options.set("block_based_table_factory", &format!("{{{table}}}")).unwrap();
    let statistics = Arc::new(Statistics::new());
    options.db.statistics = Some(statistics.clone());
    let families = [pumice::ColumnFamilyDescriptor::new("default", options.cf.clone())];
    let (db, families) = pumice::Db::open_cf(&options.db, path, &families).unwrap();
    for table in 0..TABLES {
        let mut batch = pumice::WriteBatch::new();
        keys_of(table).for_each(|key| batch.put_cf(families[0].id(), &key, b"value"));
        db.write(&pumice::WriteOptions::default(), &mut batch).unwrap();
        db.flush_cfs(&pumice::FlushOptions::default(), &[&families[0]]).unwrap();
    }
    let reads = pumice::ReadOptions::default();
    for key in absent() {
        assert!(db.get_cf(&reads, &families[0], &key).unwrap().is_none());
    }
    let counts = COUNTERS.map(|name| statistics.ticker(Ticker::from_name(name).unwrap()));
    drop(families);
    db.close().unwrap();
    counts
}

/// Child job: the same of RocksDB, for all configurations.
pub fn run(folder: &Path, _argument: &str) -> Result<(), String> {
    use pumice_peer::{Db, Options, ReadOptions, ReadSettings, WriteBatch};
    use pumice_peer::{WriteOptions, WriteSettings};
    let text = |e: pumice_peer::Error| e.to_string();
    let peer = rocksdb::load()?;
    let mut report = String::new();
    for (number, (_, table)) in configurations().iter().enumerate() {
        let mut options = Options::new(&peer);
        for (name, value) in OPTIONS {
            options.set(name, value).map_err(text)?;
        }
        options.set_table(table).map_err(text)?;
        options.enable_statistics();
        let db = Db::open(&options, &folder.join(format!("rocksdb-{number}"))).map_err(text)?;
        let cf = db.default_column_family().clone();
        let writes = WriteOptions::new(&peer, &WriteSettings::default());
        for table in 0..TABLES {
            let mut batch = WriteBatch::new(&peer);
            keys_of(table).for_each(|key| batch.put(&cf, &key, b"value"));
            db.write(&writes, &batch).map_err(text)?;
            db.flush(&cf).map_err(text)?;
        }
        let reads = ReadOptions::new(&peer, &ReadSettings::default());
        let mut value = Vec::new();
        for key in absent() {
            if db.get(&reads, &cf, &key, &mut value).map_err(text)? {
                return Err("a key that was never written is there".to_string());
            }
        }
        let statistics = options.statistics_text().ok_or("no statistics")?;
        let counts = COUNTERS.map(|name| count_of(&statistics, name));
        report += &format!("{} {}\n", counts[0], counts[1]);
    }
    std::fs::write(folder.join(REPORT), report).map_err(|e| e.to_string())
}

/// The number after `NAME COUNT : `.
fn count_of(statistics: &str, name: &str) -> u64 {
    let line = statistics.lines().find(|line| line.split(' ').next() == Some(name));
    let number = line.and_then(|line| line.rsplit(' ').next()).and_then(|n| n.parse().ok());
    number.unwrap_or_else(|| panic!("RocksDB's statistics lack {name}"))
}

#[pumice_test_macros::test]
fn filters_are_as_precise_as_those_of_rocksdb() {
    let folder = temp_folder();
    child::run("rates", folder.path(), "").unwrap();
    let report = std::fs::read_to_string(folder.path().join(REPORT)).unwrap();
    let asked = absent().count() as u64 * TABLES;
    for (number, ((name, table), line)) in configurations().iter().zip(report.lines()).enumerate() {
        let theirs: Vec<u64> = line.split(' ').map(|n| n.parse().unwrap()).collect();
        let ours = pumice_counts(&folder.path().join(format!("pumice-{number}")), table);
        for counts in [&theirs[..], &ours[..]] {
            // A few keys lie outside of a table.
            let sum = counts.iter().sum::<u64>();
            assert!((asked / 100 * 99..=asked).contains(&sum), "{name}: {sum} of {asked}");
        }
        let (a, b) = (ours[1] as f64, theirs[1] as f64);
        let percent = |count: f64| 100.0 * count / asked as f64;
        println!("{name}: {:.3} %, RocksDB {:.3} %", percent(a), percent(b));
        let tolerance = 0.05 * b + 3.0 * (a + b).sqrt();
        assert!((a - b).abs() <= tolerance, "{name}: {a} false positives, RocksDB has {b}");
        assert!(percent(a) > 0.1 && percent(a) < 3.0, "{name}: {} %", percent(a));
    }
}
