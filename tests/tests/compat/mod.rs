//! Pumice and RocksDB on one database: what either writes, both must read.
//!
//! Each database here holds at least 200,000 keys (or the share of them that the environment wants)
//! in seven column families, one for each codec, with overwrites, deletes, single deletes, merges
//! and range deletions, on several levels, the latest writes in the WAL only. Contents are compared
//! key by key, forward and backward.
//!
//! | case | writer | reader |
//! |---|---|---|
//! | `debian` | Pumice, format_version 5 | ldb and sst_dump 7.8.3 |
//! | `debian` | db_bench 7.8.3 | Pumice |
//! | `peer` | Pumice, 5 to 7 | RocksDB 10.10.1, which writes and compacts; then Pumice |
//! | `peer` | RocksDB 10.10.1, 5 to 7 | Pumice |
//! | `myrocks` | MariaDB's RocksDB, killed | Pumice; then MariaDB |
//! | `recycled` | Pumice, as a kill leaves it | RocksDB 7.8.3 to 11.8.1, a small database |
//! | `torn` | Pumice, then a crash or damage | both, a small database |
//! | `own_options` | Pumice with options of its own | 7.8.3 and 10.10.1, by its OPTIONS |
//! | `options_round_trip` | Pumice, options newer than 7.8 | 7.8.3, 9.8.4, 10.10.1; Pumice |
//! | `trash` | both, with a paced deletion that a close ends | the other one |

mod debian;
mod myrocks;
mod options_round_trip;
mod own_options;
mod peer;
mod recycled;
mod torn;
mod trash;

use pumice_testkit::Model;
use pumice_testkit::contents::{self, Contents};
use pumice_testkit::seed::share;
use pumice_testkit::workload::Workload;

use crate::stores::Settings;

pub use options_round_trip::run as run_options_round_trip;
pub use own_options::run as run_own_options;
pub use peer::{run_continue, run_write};
pub use recycled::run as run_recycled;
pub use torn::run as run_torn;
pub use trash::run as run_trash;

/// Values of `compression`, one column family each.
const CODECS: [&str; 7] = [
    "kNoCompression",
    "kSnappyCompression",
    "kZlibCompression",
    "kBZip2Compression",
    "kLZ4Compression",
    "kLZ4HCCompression",
    "kZSTD",
];
const KEYS_MIN: u64 = 200_000;

fn settings(format_version: u32) -> Settings {
    let mut settings = Settings::small(CODECS.len())
        .with("write_buffer_size", "524288")
        .with("target_file_size_base", "131072")
        .with("max_bytes_for_level_base", "524288");
    for (family, codec) in settings.families.iter_mut().zip(CODECS) {
        family.1 = codec;
    }
    settings.table = format!(
        "format_version={format_version};block_size=4096;filter_policy=bloomfilter:10:false"
    );
    settings
}

fn workload(seed: u64) -> Workload {
    Workload { seed, families: CODECS.len(), keys: share(36_000), batches: share(5_000) }
}

/// What the model holds, as a reader should find it.
fn expected(model: &Model) -> Contents {
    (0..model.families()).map(|cf| model.entries(cf)).collect()
}

fn assert_same(what: &str, expected: &Contents, found: &Contents) {
    assert_eq!(expected.len(), found.len(), "{what}: column families");
    for (cf, (expected, found)) in expected.iter().zip(found).enumerate() {
        if let Err(error) = contents::same(expected, found) {
            panic!("{what}, column family {cf}: {error}");
        }
    }
}

fn assert_large(model: &Model) {
    let keys: usize = (0..model.families()).map(|cf| model.family(cf).len()).sum();
    assert!(keys as u64 >= share(KEYS_MIN), "only {keys} keys");
}
