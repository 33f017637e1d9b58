//! `read_amp_bytes_per_bit`: both engines count the same bytes as read and as used.

use std::path::Path;
use std::sync::Arc;

use pumice::Ticker;
use pumice_base::random::Rng;
use pumice_peer::{
    Db as PeerDb, DbIterator as PeerIterator, Options as PeerOptions, Peer, ReadOptions,
    ReadSettings, WriteOptions, WriteSettings,
};

use crate::peer;

const BASE: &str = "create_if_missing=true;allow_fallocate=false;compression=kNoCompression";
const KEYS: u64 = 5000;

fn key(i: u64) -> Vec<u8> {
    format!("key{i:07}").into_bytes()
}

fn value(i: u64) -> Vec<u8> {
    Rng::new(i).bytes(20 + (i % 100) as usize)
}

/// A database of either engine, as far as this test needs one.
trait Engine {
    /// Useful and total bytes so far.
    fn counted(&self) -> [u64; 2];
    fn get(&self, key: &[u8]) -> bool;
    /// Seeks, and reads `count` values forward or backward; returns how many there were.
    fn walk(&self, from: &[u8], count: usize, forward: bool) -> usize;
}

struct Ours(pumice::Db, Arc<pumice::Statistics>);

impl Ours {
    fn open(path: &Path, table: &str) -> Self {
        let mut options = pumice::Options::default();
        options.set_from_text(BASE).unwrap();
        options.set("block_based_table_factory", &format!("{{{table}}}")).unwrap();
        let statistics = Arc::new(pumice::Statistics::new());
        options.db.statistics = Some(Arc::clone(&statistics));
        let db = pumice::Db::open(&options, path).unwrap();
        for i in 0..KEYS {
            db.put_opt(&pumice::WriteOptions::default(), &key(i), &value(i)).unwrap();
        }
        db.flush_opt(&pumice::FlushOptions::default()).unwrap();
        Ours(db, statistics)
    }
}

impl Engine for Ours {
    fn counted(&self) -> [u64; 2] {
        [Ticker::ReadAmpEstimateUsefulBytes, Ticker::ReadAmpTotalReadBytes]
            .map(|t| self.1.ticker(t))
    }
    fn get(&self, key: &[u8]) -> bool {
        self.0.get_opt(&pumice::ReadOptions::default(), key).unwrap().is_some()
    }
    fn walk(&self, from: &[u8], count: usize, forward: bool) -> usize {
        let mut iter = self.0.cursor_opt(&pumice::ReadOptions::default()).unwrap();
        if forward {
            iter.seek(from)
        } else {
            iter.seek_for_prev(from)
        }
        let (mut bytes, mut taken) = (0, 0);
        while iter.valid() && taken < count {
            bytes += iter.value().unwrap().len();
            taken += 1;
            // RocksDB counts an entry as soon as the iterator is on it.
            if taken < count {
                if forward { iter.next() } else { iter.prev() }
            }
        }
        assert!(bytes >= 20 * taken);
        taken
    }
}

struct Theirs(PeerDb, PeerOptions, ReadOptions);

impl Theirs {
    fn open(peer: &Peer, path: &Path, table: &str) -> Self {
        let mut options = PeerOptions::new(peer);
        options.set_many(BASE).unwrap();
        options.set_table(table).unwrap();
        options.enable_statistics();
        let db = PeerDb::open(&options, path).unwrap();
        let (wo, cf) =
            (WriteOptions::new(peer, &WriteSettings::default()), db.default_column_family());
        for i in 0..KEYS {
            db.put(&wo, cf, &key(i), &value(i)).unwrap();
        }
        db.flush(cf).unwrap();
        let ro = ReadOptions::new(peer, &ReadSettings::default());
        Theirs(db, options, ro)
    }
}

impl Engine for Theirs {
    fn counted(&self) -> [u64; 2] {
        ["rocksdb.read.amp.estimate.useful.bytes", "rocksdb.read.amp.total.read.bytes"]
            .map(|name| self.1.ticker(name).unwrap())
    }
    fn get(&self, key: &[u8]) -> bool {
        let mut out = Vec::new();
        self.0.get(&self.2, self.0.default_column_family(), key, &mut out).unwrap()
    }
    fn walk(&self, from: &[u8], count: usize, forward: bool) -> usize {
        let mut iter: PeerIterator = self.0.iter(&self.2, self.0.default_column_family());
        if forward {
            iter.seek(from)
        } else {
            iter.seek_for_prev(from)
        }
        let mut taken = 0;
        while iter.valid() && taken < count {
            assert!(iter.value().len() >= 20);
            taken += 1;
            if taken < count {
                if forward { iter.next() } else { iter.prev() }
            }
        }
        taken
    }
}

/// What each step counts.
fn steps(engine: &dyn Engine) -> Vec<[u64; 2]> {
    let mut all = Vec::new();
    let mut last = engine.counted();
    let mut step = |work: &mut dyn FnMut()| {
        work();
        let now = engine.counted();
        all.push([now[0] - last[0], now[1] - last[1]]);
        last = now;
    };
    step(&mut || assert!(engine.get(&key(17))));
    step(&mut || assert!(engine.get(&key(17))));
    step(&mut || (0..KEYS).step_by(50).for_each(|i| assert!(engine.get(&key(i)))));
    step(&mut || assert_eq!(engine.walk(&key(1001), 1, true), 1));
    step(&mut || assert_eq!(engine.walk(&key(2000), 100, true), 100));
    step(&mut || assert_eq!(engine.walk(&key(0), usize::MAX, true) as u64, KEYS));
    step(&mut || assert_eq!(engine.walk(&key(0), usize::MAX, true) as u64, KEYS));
    all
}

#[pumice_test_macros::test]
fn bytes_read_and_used_are_those_of_rocksdb() {
    let Some(peer) = peer() else { return };
    for (bytes_per_bit, exact) in [(0, true), (1, true), (8, false), (32, false)] {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let table = format!("format_version=5;read_amp_bytes_per_bit={bytes_per_bit}");
        let ours = steps(&Ours::open(&dir.path().join("ours"), &table));
        let theirs = steps(&Theirs::open(&peer, &dir.path().join("theirs"), &table));
        println!("{bytes_per_bit}: {ours:?} {theirs:?}");
        for (number, (mine, other)) in ours.iter().zip(&theirs).enumerate() {
            assert_eq!(mine[1], other[1], "total of step {number}, {bytes_per_bit}");
            // The place of a block's first bit is drawn at random.
            let near = mine[0].abs_diff(other[0]) <= other[0] / 20 + 8 * bytes_per_bit;
            assert!(mine[0] == other[0] || (!exact && near), "{number}: {ours:?} {theirs:?}");
        }
        let used: u64 = ours.iter().map(|step| step[0]).sum();
        let read: u64 = ours.iter().map(|step| step[1]).sum();
        assert_eq!(read > 0, bytes_per_bit > 0);
        assert!(used.abs_diff(read) * 100 <= read, "{used} of {read}");
    }
}
