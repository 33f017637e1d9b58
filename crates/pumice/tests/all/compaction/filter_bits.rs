//! `filter_bits_by_level`: bits of filters by the size of the sorted run, at the same memory.

use std::sync::Arc;

use crate::common::{DIR, flush, get, key, memory, options};
use pumice::{CompactFilesOptions, Db, FileSystem, FilterPolicy, Options, Statistics, Ticker};

/// Keys of level 6, 5, 4 and L0, whose numbers leave a gap after each.
const RUNS: [(usize, usize); 4] = [(6, 40_000), (5, 4_000), (4, 400), (0, 100)];

fn tree(fs: &Arc<dyn FileSystem>, by_level: bool) -> (Options, Arc<Statistics>) {
    let statistics = Arc::new(Statistics::new());
    let mut options = options(fs);
    options.db.statistics = Some(Arc::clone(&statistics));
    options.cf.disable_auto_compactions = true;
    options.cf.write_buffer_size = 64 << 20;
    options.cf.target_file_size_base = 64 << 20;
    options.cf.filter_bits_by_level = by_level;
    options.cf.table_factory.filter_policy = Some(FilterPolicy::bloom(10.0));
    (options, statistics)
}

fn fill(db: &Db) {
    for (level, keys) in RUNS {
        let apart = 2 * (RUNS[0].1 / keys);
        for n in 0..keys {
            db.put(key(n * apart), "value").unwrap();
        }
        flush(db);
        if level > 0 {
            let files = db.live_files_metadata();
            let new = files.iter().filter(|file| file.level == 0).map(|file| &file.name[..]);
            let new: Vec<_> = new.collect();
            db.compact_files(&CompactFilesOptions::default(), &new, level as i32).unwrap();
        }
    }
}

/// Bits of filter a key of the level, and bytes of its filters.
fn bits(db: &Db, level: usize) -> (f64, f64) {
    let map = db.property_map(&format!("rocksdb.aggregated-table-properties-at-level{level}"));
    let map = map.unwrap();
    let number = |name: &str| map[name].parse::<f64>().unwrap();
    let bytes = number("filter_size");
    (bytes * 8.0 / number("num_entries"), bytes)
}

/// Of 40,000 keys that are not there, how often a filter says that one may be.
fn false_positives(db: &Db, statistics: &Statistics) -> u64 {
    let before = statistics.ticker(Ticker::BloomFilterFullPositive);
    for n in 0..40_000 {
        assert_eq!(get(db, &key(2 * n + 1)), None);
    }
    statistics.ticker(Ticker::BloomFilterFullPositive) - before
}

#[pumice_test_macros::test]
fn levels_get_bits_by_their_size() {
    let [even, by_level] = [false, true].map(|by_level| {
        let (_, fs) = memory();
        let (options, statistics) = tree(&fs, by_level);
        let db = Db::open(&options, DIR).unwrap();
        fill(&db);
        let bits = RUNS.map(|(level, _)| bits(&db, level));
        let wrong = false_positives(&db, &statistics);
        db.close().unwrap();
        (bits, wrong)
    });
    let sum = |bits: &[(f64, f64)]| bits.iter().map(|(_, bytes)| bytes).sum::<f64>();
    println!("even {even:?}, by level {by_level:?}");
    let ratio = sum(&by_level.0) / sum(&even.0);
    assert!((0.95..1.05).contains(&ratio), "the same bytes of filters: {ratio}");
    let bits = by_level.0.map(|(bits, _)| bits);
    assert!(bits[0] > 9.0 && bits[0] < 10.0, "{bits:?}");
    assert!(bits.windows(2).all(|pair| pair[0] + 2.0 < pair[1]), "{bits:?}");
    assert!(by_level.1 * 10 < even.1 * 6, "false positives: {} and {}", by_level.1, even.1);
}
