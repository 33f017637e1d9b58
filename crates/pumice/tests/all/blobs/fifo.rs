//! FIFO compaction with blob files in the limit: RocksDB 11.8.1 drops as many of the same
//! files, and merges the rest into as many.

use std::path::Path;

use crate::blobs::theirs::{Theirs, copy_dir, peer};
use crate::common::{Scratch, contents};
use pumice::{Db, Options, WaitForCompactOptions};
use pumice_base::random::Rng;
use pumice_testkit::seed;

const KEYS: u64 = 100;

/// Drawn settings, and how many rounds of keys are written.
struct Case {
    rounds: u64,
    limit: u64,
    trigger: u64,
    max_compaction_bytes: u64,
    value_bytes: u64,
    tiers: bool,
}

impl Case {
    fn draw(rng: &mut Rng) -> Self {
        Case {
            rounds: 5 + rng.uniform(40),
            limit: 60_000 << rng.uniform(5),
            trigger: 2 + rng.uniform(6),
            max_compaction_bytes: [0, 0, 9_000, 40_000][rng.uniform(4) as usize],
            value_bytes: 20 + rng.uniform(150),
            tiers: !rng.one_in(4),
        }
    }

    fn text(&self, compacts: bool) -> String {
        format!(
            "compression=kNoCompression;compaction_style=kCompactionStyleFIFO;num_levels=1;\
             compaction_options_fifo={{max_table_files_size=1;allow_compaction={};\
             max_data_files_size={};use_kv_ratio_compaction={}}};\
             level0_file_num_compaction_trigger={};max_compaction_bytes={};\
             enable_blob_files=true;min_blob_size=60;disable_auto_compactions={}",
            self.tiers, self.limit, self.tiers, self.trigger, self.max_compaction_bytes, !compacts
        )
    }

    /// Of four values one stays in the table.
    fn value(&self, rng: &mut Rng, n: u64) -> Vec<u8> {
        let large = 60 + rng.uniform(self.value_bytes) as usize;
        vec![b'a' + (n % 23) as u8; if n.is_multiple_of(4) { 20 } else { large }]
    }
}

fn key(round: u64, n: u64) -> Vec<u8> {
    format!("key{:07}", round * KEYS + n).into_bytes()
}

/// The rounds of which all keys are in `found`, and the number of tables.
type State = (Vec<u64>, usize);

fn state(found: impl Iterator<Item = Vec<u8>>, tables: usize) -> State {
    let mut rounds = Vec::new();
    for key in found {
        let n: u64 = std::str::from_utf8(&key[3..]).unwrap().parse().unwrap();
        rounds.push(n / KEYS);
    }
    let whole = rounds.chunk_by(|a, b| a == b).all(|round| round.len() as u64 == KEYS);
    assert!(whole, "{rounds:?}");
    rounds.dedup();
    (rounds, tables)
}

fn by_us(path: &Path, text: &str) -> State {
    let mut options = Options::new();
    options.set("merge_operator", "stringappend").unwrap();
    options.set_from_text(text).unwrap();
    options.cf.table_factory.format_version = 5;
    let db = Db::open(&options, path).unwrap();
    db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
    let tables = db.live_files_metadata().len();
    let state = state(contents(&db).into_iter().map(|(key, _)| key), tables);
    db.close().unwrap();
    state
}

fn of_theirs(db: &Theirs<'_>) -> State {
    db.db.wait_for_compact(true).unwrap();
    state(db.contents().into_iter().map(|(key, _)| key), db.db.live_files().len())
}

// Plain #[test]: RocksDB blocks its thread.
#[test]
fn files_are_dropped_and_merged_as_rocksdb_does_it() {
    let Some(peer) = peer() else { return };
    let (mut dropped, mut merged) = (0, 0);
    for seed in seed::range(25) {
        let mut rng = Rng::new(seed);
        let case = Case::draw(&mut rng);
        let scratch = Scratch::new("fifo-blobs");
        std::fs::create_dir_all(&scratch.0).unwrap();
        let (written, copy) = (scratch.0.join("written"), scratch.0.join("copy"));
        let theirs = Theirs::open(&peer, &written, &case.text(false));
        for round in 0..case.rounds {
            (0..KEYS).for_each(|n| theirs.put(&key(round, n), &case.value(&mut rng, n)));
            theirs.flush();
        }
        drop(theirs);
        copy_dir(&written, &copy);
        let text = case.text(true);
        let theirs = Theirs::open(&peer, &written, &text);
        let expected = of_theirs(&theirs);
        drop(theirs);
        let hint = seed::replay_hint("files_are_dropped_and_merged_as_rocksdb_does_it", seed);
        assert_eq!(by_us(&copy, &text), expected, "{text}\n{hint}");
        dropped += u64::from(expected.0.len() < case.rounds as usize);
        merged += u64::from(expected.1 < expected.0.len());
        // Each finds nothing to do in what the other left.
        assert_eq!(by_us(&written, &text), expected, "{text}\n{hint}");
        let theirs = Theirs::open(&peer, &copy, &text);
        assert_eq!(of_theirs(&theirs), expected, "{text}\n{hint}");
    }
    eprintln!("dropped {dropped}, merged {merged}");
    assert!(seed::wanted().is_some() || (dropped > 4 && merged > 4), "{dropped} {merged}");
}
