//! Databases of one engine in the other: RocksDB's 11.8.1 in Pumice and back.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;

use pumice::{PosixFs, WriteBatch};
use pumice_base::random::Rng;

use crate::common::Scratch;

use super::sides::{Ours, Row, Side, Theirs, VersionRow, Walk};

const TIMES: u64 = 40;

/// Writes at times `from..to`, of which some are left in the log.
fn write(side: &mut dyn Side, rng: &mut Rng, times: std::ops::Range<u64>) {
    for time in times {
        let mut batch = WriteBatch::new();
        for _ in 0..10 {
            let key = format!("key{:03}", rng.uniform(120));
            match rng.uniform(20) {
                0 => {
                    let end = format!("key{:03}", rng.uniform(120));
                    let (key, end) = if key < end { (key, end) } else { (end, key) };
                    batch.delete_range_cf_with_ts(0, key, end, time.to_le_bytes());
                }
                1..5 => batch.delete_cf_with_ts(0, key, time.to_le_bytes()),
                _ => batch.put_cf_with_ts(0, key, time.to_le_bytes(), time.to_string()),
            }
        }
        side.write(&batch);
        if rng.one_in(6) {
            side.flush();
        }
    }
}

/// All that can be read from time `low` on.
fn answers(side: &dyn Side, low: u64) -> Vec<(Vec<Row>, Vec<Row>, Vec<VersionRow>)> {
    let backward = Walk { backward: true, ..Walk::default() };
    (low..TIMES + 2)
        .map(|time| {
            let rows = side.walk(time, &Walk::default()).unwrap();
            for (key, at, value) in &rows {
                assert_eq!(side.get(time, key).unwrap(), Some((value.clone(), *at)));
            }
            let back = side.walk(time, &backward).unwrap();
            (rows, back, side.versions(low, time, &Walk::default()).unwrap())
        })
        .collect()
}

/// Blocks and partitions of few keys, so that versions of a key lie in several.
const PARTITIONED: &str = "block_based_table_factory={block_size=64;metadata_block_size=64;\
                           index_type=kTwoLevelIndexSearch;partition_filters=true;\
                           filter_policy=bloomfilter:10:false}";

fn ours(path: &Path, partitioned: bool) -> Ours {
    let mut options = super::timed(&(Arc::new(PosixFs) as _));
    if partitioned {
        super::partition(&mut options.cf.table_factory);
    }
    Ours::open(options, path)
}

// Plain #[test]: RocksDB works on real files and has its own threads.
#[test]
fn a_database_of_either_engine_is_the_same_in_the_other_at_every_time() {
    let Some(library) = pumice_peer::installed_11_8() else { return };
    let peer = pumice_peer::Peer::load(library).unwrap();
    for seed in 0..6 {
        let dir = Scratch::new("timestamps");
        let mut rng = Rng::new(seed);
        let mut low = 0;
        let partitioned = seed % 2 == 1;
        let text = if partitioned { PARTITIONED } else { "" };
        // Each engine goes on where the other stopped, with what that left in its log.
        for round in 0..4 {
            let times = 1 + round * TIMES / 4..1 + (round + 1) * TIMES / 4;
            let ours_writes = (seed + round) % 2 == 0;
            let mut rng = Rng::new(rng.next_u64());
            let next_low = times.start + rng.uniform(5);
            let mut change = |side: &mut dyn Side| {
                write(side, &mut rng, times.clone());
                if round == 2 {
                    side.raise(next_low).unwrap();
                    side.compact(None);
                }
                answers(side, if round == 2 { next_low } else { low })
            };
            let before = match ours_writes {
                true => change(&mut ours(&dir.0, partitioned)),
                false => change(&mut Theirs::open(&peer, &dir.0, text)),
            };
            if round == 2 {
                low = next_low;
            }
            let after = match ours_writes {
                true => answers(&Theirs::open(&peer, &dir.0, text), low),
                false => answers(&ours(&dir.0, partitioned), low),
            };
            for (n, (before, after)) in before.iter().zip(&after).enumerate() {
                let what = format!("seed {seed} round {round} time {}", low + n as u64);
                assert_eq!(before.0, after.0, "{what}");
                assert_eq!(before.1, after.1, "{what} backwards");
                assert_eq!(before.2, after.2, "{what} versions");
            }
        }
    }
}
