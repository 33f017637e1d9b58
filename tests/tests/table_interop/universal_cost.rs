//! The cost of universal compaction compared with RocksDB's on the same load: bytes written, bytes
//! kept and sorted runs. Each round is flushed and fully compacted before the next, so that picks
//! do not depend on timing.

use std::path::Path;

use pumice::{FlushOptions, Statistics, Ticker, WaitForCompactOptions};
use pumice_base::random::Rng;
use pumice_peer::{Db as PeerDb, Options as PeerOptions, Peer, WriteOptions, WriteSettings};

/// If set: the number of rounds; and all kinds of options are compared.
const LONG: &str = "PUMICE_UNIVERSAL_ROUNDS";
const ROUNDS: u64 = 45;
const ROUND_KEYS: u64 = 300;
const KEYS: u64 = 3000;
const COMMON: &str = "compression=kNoCompression;compaction_style=kCompactionStyleUniversal;\
                      target_file_size_base=50000";

/// Sums over all rounds, at rest.
#[derive(Debug, Default)]
struct Cost {
    /// By flushes and compactions.
    written: u64,
    space: u64,
    runs: u64,
}

impl Cost {
    fn add(&mut self, files: impl Iterator<Item = (usize, u64)>) {
        let mut levels = std::collections::BTreeSet::new();
        for (level, size) in files {
            self.space += size;
            self.runs += u64::from(level == 0 || levels.insert(level));
        }
    }
}

fn rounds() -> u64 {
    std::env::var(LONG).map_or(ROUNDS, |text| text.parse().unwrap())
}

fn writes(rng: &mut Rng) -> Vec<(Vec<u8>, Vec<u8>)> {
    let one = |_| {
        let key = format!("key{:013}", rng.uniform(KEYS)).into_bytes();
        (key, format!("{:0100}", rng.next_u64()).into_bytes())
    };
    (0..ROUND_KEYS).map(one).collect()
}

fn ours(path: &Path, family: &str) -> Cost {
    let mut options = pumice::Options::default();
    options.db.create_if_missing = true;
    let statistics = std::sync::Arc::new(Statistics::new());
    options.db.statistics = Some(std::sync::Arc::clone(&statistics));
    options.set_from_text(family).unwrap();
    let db = pumice::Db::open(&options, path).unwrap();
    let (mut cost, rng) = (Cost::default(), &mut Rng::new(5));
    for _ in 0..rounds() {
        for (key, value) in writes(rng) {
            db.put_opt(&pumice::WriteOptions::default(), &key, &value).unwrap();
        }
        db.flush_opt(&FlushOptions::default()).unwrap();
        db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
        cost.add(db.live_files_metadata().iter().map(|file| (file.level, file.size)));
    }
    cost.written =
        statistics.ticker(Ticker::FlushWriteBytes) + statistics.ticker(Ticker::CompactWriteBytes);
    db.close().unwrap();
    cost
}

fn theirs(peer: &Peer, path: &Path, family: &str) -> Cost {
    let mut options = PeerOptions::new(peer);
    options.set_many(&format!("create_if_missing=true;allow_fallocate=false;{family}")).unwrap();
    options.enable_statistics();
    let db = PeerDb::open(&options, path).unwrap();
    let (mut cost, rng) = (Cost::default(), &mut Rng::new(5));
    let (wo, cf) = (WriteOptions::new(peer, &WriteSettings::default()), db.default_column_family());
    for _ in 0..rounds() {
        for (key, value) in writes(rng) {
            db.put(&wo, cf, &key, &value).unwrap();
        }
        db.flush(cf).unwrap();
        db.wait_for_compact(false).unwrap();
        cost.add(db.live_files().iter().map(|file| (file.level as usize, file.file_size as u64)));
    }
    let ticker = |name: &str| options.ticker(name).unwrap();
    cost.written = ticker("rocksdb.flush.write.bytes") + ticker("rocksdb.compact.write.bytes");
    cost
}

// Plain #[test]: RocksDB blocks its thread.
#[test]
fn universal_compaction_costs_what_it_costs_in_rocksdb() {
    let Some(peer) = super::peer() else { return };
    let kinds = [
        (7, ""),
        (7, "stop_style=kCompactionStopStyleSimilarSize;size_ratio=30"),
        (7, "incremental=true"),
        (1, ""),
        (7, "size_ratio=20;max_size_amplification_percent=50"),
        (7, "max_read_amp=0;size_ratio=50;max_merge_width=4"),
        (7, "min_merge_width=3;max_size_amplification_percent=400"),
    ];
    let some = if std::env::var(LONG).is_ok() { kinds.len() } else { 3 };
    for (num_levels, universal) in kinds.into_iter().take(some) {
        let incremental = if universal.contains("incremental") { 300_000 } else { 0 };
        let family = format!(
            "{COMMON};num_levels={num_levels};max_compaction_bytes={incremental};\
             compaction_options_universal={{{universal}}}"
        );
        let folder = crate::scratch();
        let (a, b) = (
            ours(&folder.path().join("ours"), &family),
            theirs(&peer, &folder.path().join("theirs"), &family),
        );
        println!("{num_levels} levels, {universal}: {a:?} {b:?}");
        for (what, a, b) in [
            ("written", a.written, b.written),
            ("space", a.space, b.space),
            ("runs", a.runs, b.runs),
        ] {
            let ratio = a as f64 / b as f64;
            // The pieces we choose are a little cheaper.
            let least = if incremental > 0 { 0.85 } else { 0.95 };
            assert!((least..=1.05).contains(&ratio), "{universal}: {what} {a} beside {b}");
        }
    }
}
