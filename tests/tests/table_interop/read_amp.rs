//! `read_amp_bytes_per_bit`: both engines count the same bytes as read and as used.

use pumice_base::random::Rng;
use pumice_testkit::Engine;
use pumice_testkit::store::{CursorSpec, Step};
use pumice_tests::stores::Settings;
use pumice_tests::stores::pumice::Pumice;
use pumice_tests::stores::rocksdb::RocksDb;

use crate::peer;

const BASE: &str = "create_if_missing=true;allow_fallocate=false;compression=kNoCompression";
const KEYS: u64 = 5000;

fn key(i: u64) -> Vec<u8> {
    format!("key{i:07}").into_bytes()
}

fn value(i: u64) -> Vec<u8> {
    Rng::new(i).bytes(20 + (i % 100) as usize)
}

fn fill(engine: &mut dyn Engine) {
    (0..KEYS).for_each(|i| engine.put(&key(i), &value(i)).unwrap());
    engine.flush(0).unwrap();
}

/// Useful and total bytes so far.
fn counted(engine: &mut dyn Engine) -> [u64; 2] {
    ["rocksdb.read.amp.estimate.useful.bytes", "rocksdb.read.amp.total.read.bytes"]
        .map(|name| engine.ticker(name).unwrap())
}

fn get(engine: &mut dyn Engine, n: u64) {
    assert!(engine.get(0, &key(n), None).unwrap().is_some());
}

/// Seeks, and reads `count` values; returns how many there were.
fn walk(engine: &mut dyn Engine, from: u64, count: usize) -> usize {
    let found = engine.some(&CursorSpec::default(), &Step::Seek(key(from)), count).unwrap();
    assert!(found.iter().all(|(_, value)| value.len() >= 20));
    found.len()
}

/// What each step counts.
fn steps(engine: &mut dyn Engine) -> Vec<[u64; 2]> {
    fill(engine);
    let mut all = Vec::new();
    let mut last = counted(engine);
    let mut step = |work: &dyn Fn(&mut dyn Engine)| {
        work(engine);
        let now = counted(engine);
        all.push([now[0] - last[0], now[1] - last[1]]);
        last = now;
    };
    step(&|engine| get(engine, 17));
    step(&|engine| get(engine, 17));
    step(&|engine| (0..KEYS).step_by(50).for_each(|i| get(engine, i)));
    step(&|engine| assert_eq!(walk(engine, 1001, 1), 1));
    step(&|engine| assert_eq!(walk(engine, 2000, 100), 100));
    step(&|engine| assert_eq!(walk(engine, 0, usize::MAX) as u64, KEYS));
    step(&|engine| assert_eq!(walk(engine, 0, usize::MAX) as u64, KEYS));
    all
}

#[pumice_test_macros::test]
fn bytes_read_and_used_are_those_of_rocksdb() {
    let Some(peer) = peer() else { return };
    for (bytes_per_bit, exact) in [(0, true), (1, true), (8, false), (32, false)] {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let table = format!("format_version=5;read_amp_bytes_per_bit={bytes_per_bit}");
        let settings = Settings::of(BASE, &table).counted();
        let ours = steps(&mut Pumice::open(&dir.path().join("ours"), &settings).unwrap());
        let theirs = RocksDb::open(&peer, &dir.path().join("theirs"), &settings);
        let theirs = steps(&mut theirs.unwrap());
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
