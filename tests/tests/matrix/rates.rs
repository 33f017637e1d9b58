//! False positives of filters: both engines over the same content, counted by their statistics.
//!
//! The content is tables of different sizes, all of which are queried for each absent key: with
//! `optimize_filters_for_memory` either engine keeps the rate only on the average of filters. Both
//! balance the sizes of filters as they build them, so that a few tables are enough: 40 here.
//!
//! Where our filters are byte-identical to RocksDB's (the size follows from the number of keys,
//! those of the table or of a coupled partition) the counts must be equal. Elsewhere they may
//! differ by 5 % and by three standard deviations of their difference, which is the root of their
//! sum (counts of rare independent events); so may the sums over all configurations of a layout,
//! where three deviations are less than 2 %. `PUMICE_RATES=N` queries N times as often;
//! `PUMICE_SEED` selects other absent keys.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use pumice::{Statistics, Ticker};
use pumice_base::random::Rng;

use crate::child;
use crate::stores::rocksdb;
use crate::stores::temp_folder;

const TABLES: u64 = 40;
const ABSENT: u64 = 15_000;
/// This many suffice where counts must be equal.
const ABSENT_EXACT: u64 = 4_000;
const REPORT: &str = "rates";
const TIMES: &str = "PUMICE_RATES";

/// Filters of either engine.
struct Configuration {
    policy: &'static str,
    layout: &'static str,
    for_memory: bool,
    what: What,
}

/// What is in the filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Keys,
    Prefixes,
    /// Point reads ask for the key.
    Both,
}

impl Configuration {
    fn all() -> Vec<Configuration> {
        let mut all = Vec::new();
        for policy in ["bloomfilter:10:false", "bloomfilter:9.9:false", "ribbonfilter:10:-1"] {
            for layout in ["full", "coupled", "decoupled"] {
                for for_memory in [false, true] {
                    for what in [What::Keys, What::Prefixes, What::Both] {
                        all.push(Configuration { policy, layout, for_memory, what });
                    }
                }
            }
        }
        all
    }

    /// The environment's share of them, of every kind.
    fn wanted() -> Vec<Configuration> {
        /// Has no divisor in common with their number, nor with the number of any dimension.
        const STRIDE: usize = 7;
        let mut all: Vec<Option<Configuration>> = Self::all().into_iter().map(Some).collect();
        let (count, kinds) = (pumice_testkit::seed::share(all.len() as u64) as usize, all.len());
        (0..count).filter_map(|n| all[n * STRIDE % kinds].take()).collect()
    }

    fn name(&self) -> String {
        let Configuration { policy, layout, for_memory, what } = self;
        format!("{policy} {layout} for_memory={for_memory} {what:?}")
    }

    fn extractor(&self) -> &'static str {
        if self.what == What::Keys { "nullptr" } else { "rocksdb.FixedPrefix.8" }
    }

    /// The text of `block_based_table_factory`.
    fn table(&self) -> String {
        let layout = match self.layout {
            "full" => "",
            "coupled" => {
                "index_type=kTwoLevelIndexSearch;partition_filters=true;\
                 decouple_partitioned_filters=false;"
            }
            _ => {
                "index_type=kTwoLevelIndexSearch;partition_filters=true;\
                 decouple_partitioned_filters=true;"
            }
        };
        format!(
            "filter_policy={};{layout}optimize_filters_for_memory={};metadata_block_size=1024;\
             whole_key_filtering={}",
            self.policy,
            self.for_memory,
            self.what != What::Prefixes
        )
    }

    /// The bytes of our filters are RocksDB's.
    fn is_exact(&self) -> bool {
        self.layout != "decoupled" && !self.for_memory
    }

    /// Absent keys, as many as the environment's share says.
    fn absent(&self) -> impl Iterator<Item = [u8; 16]> {
        let count = if self.is_exact() { ABSENT_EXACT } else { ABSENT };
        let times: u64 = std::env::var(TIMES).map_or(1, |n| n.parse().expect("a number"));
        let mut rng = Rng::new(seed());
        (0..pumice_testkit::seed::share(count) * times).map(move |n| {
            let mut key = key(TABLES << 32 | n);
            key[..8].copy_from_slice(&rng.uniform(u64::MAX).to_be_bytes());
            key
        })
    }

    /// Names of two counters: answers that spared a read, and for prefixes the total of answers,
    /// else the other answers.
    fn counters(&self) -> [&'static str; 2] {
        match self.what {
            What::Prefixes => {
                ["rocksdb.bloom.filter.prefix.useful", "rocksdb.bloom.filter.prefix.checked"]
            }
            What::Keys | What::Both => {
                ["rocksdb.bloom.filter.useful", "rocksdb.bloom.filter.full.positive"]
            }
        }
    }

    /// Useful and positive answers from the counters.
    fn answers(&self, counters: [u64; 2]) -> [u64; 2] {
        let [useful, other] = counters;
        if self.what == What::Prefixes { [useful, other - useful] } else { [useful, other] }
    }
}

fn seed() -> u64 {
    pumice_testkit::seed::wanted().unwrap_or(3)
}

const OPTIONS: [(&str, &str); 7] = [
    ("level0_slowdown_writes_trigger", "1000"),
    ("level0_stop_writes_trigger", "1000"),
    ("create_if_missing", "true"),
    // In memory the room for a file is made at once, page by page.
    ("allow_fallocate", "false"),
    ("disable_auto_compactions", "true"),
    // Room for a table's keys and no more, since a log allocates in proportion to it.
    ("write_buffer_size", "4194304"),
    ("compression", "kNoCompression"),
];

/// The first eight bytes alone are unique, too.
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

/// Useful and positive answers of Pumice's filters.
fn pumice_answers(path: &Path, configuration: &Configuration) -> [u64; 2] {
    let mut options = pumice::Options::default();
    for (name, value) in OPTIONS {
        options.set(name, value).unwrap();
    }
    options.set("prefix_extractor", configuration.extractor()).unwrap();
    let table = format!("{{{}}}", configuration.table());
    options.set("block_based_table_factory", &table).unwrap();
    let statistics = Arc::new(Statistics::new());
    options.db.statistics = Some(statistics.clone());
    let families = [pumice::ColumnFamilyDescriptor::new("default", options.cf.clone())];
    let (db, families) = pumice::Db::open_cf(&options.db, path, &families).unwrap();
    for table in 0..TABLES {
        let mut batch = pumice::WriteBatch::new();
        keys_of(table).for_each(|key| batch.put_cf(families[0].id(), &key, b"value"));
        db.write_opt(&pumice::WriteOptions::default(), &mut batch).unwrap();
        db.flush_cfs_opt(&pumice::FlushOptions::default(), &[&families[0]]).unwrap();
    }
    let reads = pumice::ReadOptions::default();
    for key in configuration.absent() {
        assert!(db.get_cf_opt(&reads, &families[0], &key).unwrap().is_none());
    }
    let count = |name| statistics.ticker(Ticker::from_name(name).unwrap());
    let counters = configuration.counters().map(count);
    drop(families);
    db.close().unwrap();
    configuration.answers(counters)
}

/// Child job: the same of RocksDB, for all configurations.
pub fn run(folder: &Path, _argument: &str) -> Result<(), String> {
    use pumice_peer::{Db, Options, ReadOptions, ReadSettings, WriteBatch};
    use pumice_peer::{WriteOptions, WriteSettings};
    let text = |e: pumice_peer::Error| e.to_string();
    let peer = rocksdb::load()?;
    let mut report = String::new();
    for (number, configuration) in Configuration::wanted().iter().enumerate() {
        let mut options = Options::new(&peer);
        for (name, value) in OPTIONS {
            options.set(name, value).map_err(text)?;
        }
        options.set("prefix_extractor", configuration.extractor()).map_err(text)?;
        options.set_table(&configuration.table()).map_err(text)?;
        options.enable_statistics();
        let path = folder.join(format!("rocksdb-{number}"));
        let db = Db::open(&options, &path).map_err(text)?;
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
        for key in configuration.absent() {
            if db.get(&reads, &cf, &key, &mut value).map_err(text)? {
                return Err("a key that was never written is there".to_string());
            }
        }
        let count = |name| options.ticker(name).unwrap_or_else(|| panic!("no counter {name}"));
        let answers = configuration.answers(configuration.counters().map(count));
        report += &format!("{} {}\n", answers[0], answers[1]);
        drop((cf, db));
        std::fs::remove_dir_all(&path).map_err(|e| e.to_string())?;
    }
    std::fs::write(folder.join(REPORT), report).map_err(|e| e.to_string())
}

/// What is wrong if two counts of false positives differ by more than the head allows.
fn difference(what: &str, [ours, theirs]: [u64; 2]) -> Option<String> {
    let (a, b) = (ours as f64, theirs as f64);
    let tolerance = 0.05 * b + 3.0 * (a + b).sqrt();
    let wrong = (a - b).abs() > tolerance;
    wrong.then(|| format!("{what}: {a} false positives, RocksDB has {b}"))
}

#[pumice_test_macros::test]
fn filters_are_as_precise_as_those_of_rocksdb() {
    let folder = temp_folder();
    println!("seed {}", seed());
    child::run("rates", folder.path(), "").unwrap();
    let report = std::fs::read_to_string(folder.path().join(REPORT)).unwrap();
    let all = Configuration::wanted();
    assert_eq!(report.lines().count(), all.len());
    let mut wrong = Vec::new();
    let mut sums: BTreeMap<(&str, bool), [u64; 2]> = BTreeMap::new();
    for (number, (configuration, line)) in all.iter().zip(report.lines()).enumerate() {
        let name = configuration.name();
        let (useful, positive) = line.split_once(' ').unwrap();
        let theirs: [u64; 2] = [useful.parse().unwrap(), positive.parse().unwrap()];
        let ours = pumice_answers(&folder.path().join(format!("pumice-{number}")), configuration);
        let asked = configuration.absent().count() as u64 * TABLES;
        for counts in [theirs, ours] {
            // A few keys lie outside the table's range.
            let sum = counts.iter().sum::<u64>();
            assert!((asked / 100 * 99..=asked).contains(&sum), "{name}: {sum} of {asked}");
        }
        let both = [ours[1], theirs[1]];
        let percent = both.map(|count| 100.0 * count as f64 / asked as f64);
        println!("{name}: {:.3} %, RocksDB {:.3} %", percent[0], percent[1]);
        if configuration.is_exact() && ours != theirs {
            wrong.push(format!("{name}: {ours:?}, RocksDB {theirs:?}"));
        }
        wrong.extend(difference(&name, both));
        assert!(percent[0] > 0.1 && percent[0] < 3.0, "{name}: {} %", percent[0]);
        let sum = sums.entry((configuration.layout, configuration.for_memory)).or_default();
        both.iter().zip(sum).for_each(|(count, sum)| *sum += count);
    }
    for ((layout, for_memory), sum) in sums {
        let ratio = sum[0] as f64 / sum[1] as f64;
        println!("{layout} for_memory={for_memory}: {ratio:.4} of RocksDB's {}", sum[1]);
        wrong.extend(difference(&format!("{layout} for_memory={for_memory}"), sum));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
