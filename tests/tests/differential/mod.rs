//! Random operations against the model, on Pumice here and on RocksDB 10.10.1 in a child.
//!
//! Both engines run the same operations by seed and each answer is compared with the model's; the
//! digests of all answers must be equal at the end. With one million operations on each.

use std::path::Path;

use pumice_testkit::differential::{self, Plan, Report};
use pumice_testkit::{Shape, seed};

use crate::child;
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
    Plan { seed, ops: OPS_PER_SEED, shape }
}

fn settings() -> Settings {
    let mut settings = Settings::small(FAMILIES);
    settings.families[1].1 = "kLZ4Compression";
    settings.families[2].1 = "kZSTD";
    settings
}

/// The child job: runs the plan of seed `argument` on RocksDB and leaves its report.
pub fn run_rocksdb(folder: &Path, argument: &str) -> Result<(), String> {
    let seed: u64 = argument.parse().map_err(|_| format!("{argument} is no seed"))?;
    let mut store = RocksDb::open(&rocksdb::load()?, &folder.join("rocksdb"), &settings())?;
    let report = differential::run(&mut store, &plan(seed))?;
    std::fs::write(folder.join("report"), format!("{report:?}")).map_err(|e| e.to_string())
}

#[test]
fn a_million_operations_agree_with_rocksdb() {
    for seed in seed::range(SEEDS) {
        let folder = temp_folder();
        child::run("rocksdb-differential", folder.path(), &seed.to_string()).unwrap();
    }
}
