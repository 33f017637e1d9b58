//! Random operations against the model, on Pumice here and on RocksDB 10.10.1 in a child.
//!
//! Both engines run the same operations by seed, each answer is compared with the model's, and
//! the digests of all answers must be equal at the end. One million operations and more on each.

use std::path::Path;

use pumice_testkit::differential::{self, Plan};
use pumice_testkit::{Shape, seed};

use crate::child;
use crate::stores::pumice::Pumice;
use crate::stores::rocksdb::{self, RocksDb};
use crate::stores::{Settings, temp_folder};

const FAMILIES: usize = 3;
const SEEDS: u64 = 4;
const OPS_PER_SEED: u64 = 260_000;

fn plan(seed: u64) -> Plan {
    let shape = Shape {
        families: FAMILIES,
        prefix: String::new(),
        keys: [300, 1000, 3000, 5000][(seed % 4) as usize],
        value_bytes_max: [20, 100, 400, 60][(seed % 4) as usize],
        batch_ops_max: 12,
        range_deletions_per_mille: [20, 5, 1, 2][(seed % 4) as usize],
    };
    Plan { seed, ops: seed::share(OPS_PER_SEED), shape }
}

fn settings() -> Settings {
    let mut settings = Settings::small(FAMILIES);
    settings.families[1].1 = "kLZ4Compression";
    settings.families[2].1 = "kZSTD";
    settings
}

/// The child job: runs the plan of seed `argument` on RocksDB and leaves its report.
pub fn run_rocksdb(folder: &Path, argument: &str) -> Result<(), String> {
    let seed: u64 = argument.parse().map_err(|_| format!("{argument} is not a number"))?;
    let mut store = RocksDb::open(&rocksdb::load()?, &folder.join("rocksdb"), &settings())?;
    let report = differential::run(&mut store, &plan(seed))?;
    std::fs::write(folder.join("report"), format!("{report:?}")).map_err(|e| e.to_string())
}

/// A share is one of the operations, not of the seeds: each has its own shape.
fn seeds() -> std::ops::Range<u64> {
    seed::wanted().map_or(0..SEEDS, |seed| seed..seed + 1)
}

fn run_pumice(folder: &Path, seed: u64) -> String {
    let mut store = Pumice::open(&folder.join("pumice"), &settings()).unwrap();
    match differential::run(&mut store, &plan(seed)) {
        Ok(report) => {
            assert!(report.ops() >= seed::share(OPS_PER_SEED));
            format!("{report:?}")
        }
        Err(error) => panic!("{error}\n{}", seed::replay_hint("differential", seed)),
    }
}

fn agree(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let folder = temp_folder();
        let pumice = run_pumice(folder.path(), seed);
        child::run("rocksdb-differential", folder.path(), &seed.to_string()).unwrap();
        let rocksdb = std::fs::read_to_string(folder.path().join("report")).unwrap();
        assert_eq!(pumice, rocksdb, "{}", seed::replay_hint("differential", seed));
        println!("DIFF seed={seed} {pumice} rocksdb=equal");
    }
}

#[pumice_test_macros::test]
fn half_a_million_operations_give_what_rocksdb_gives() {
    let seeds = seeds();
    agree(seeds.start..seeds.end.min(seeds.start + SEEDS / 2));
}

#[pumice_test_macros::test]
fn another_half_million_operations_give_what_rocksdb_gives() {
    let seeds = seeds();
    agree((seeds.start + SEEDS / 2).min(seeds.end)..seeds.end);
}
