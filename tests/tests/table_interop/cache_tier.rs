//! Reads from memory only (`kBlockCacheTier`): after the same reads, both engines answer the same
//! keys and return Incomplete for the same others.
//!
//! Skipped with a message where the library is missing.

use std::path::Path;

use pumice_peer as theirs;
use pumice_peer::Peer;

use super::peer;

const KEYS: usize = 6000;

fn key(n: usize) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

/// Numbers whose keys are read before; the first of each hundred opens every table.
fn warmed(seed: usize) -> impl Iterator<Item = usize> {
    (0..KEYS).filter(move |n| n % 100 == 0 || (n / 50 * 7 + seed).is_multiple_of(5))
}

fn build(path: &Path) {
    let mut options = pumice::Options::default();
    options.db.create_if_missing = true;
    options.cf.disable_auto_compactions = true;
    options.cf.compression = pumice::CompressionType::None;
    options.cf.target_file_size_base = 50 << 10;
    let db = pumice::Db::open(&options, path).unwrap();
    let wo = pumice::WriteOptions::default();
    for value in [[b'x'; 100], [b'y'; 100]] {
        (0..KEYS).for_each(|n| db.put_opt(&wo, &key(n), &value).unwrap());
        db.flush_opt(&pumice::FlushOptions::default()).unwrap();
    }
    db.compact_range(&pumice::CompactRangeOptions::default(), None, None).unwrap();
    (0..KEYS).step_by(1500).for_each(|n| db.delete_opt(&wo, &key(n)).unwrap());
    db.close().unwrap();
}

/// `+` for a value, `-` for none, `?` for Incomplete, otherwise the error's text.
fn letter(found: Result<bool, String>) -> String {
    match found {
        Ok(true) => "+".into(),
        Ok(false) => "-".into(),
        Err(error) if error.starts_with("Result incomplete") => "?".into(),
        Err(error) => error,
    }
}

/// By `get`, and how far an iterator comes from some keys, forwards and backwards. RocksDB 10.10's
/// `MultiGet` reads files nevertheless.
type Shown = (String, Vec<(usize, String)>);

fn ours(path: &Path, seed: usize) -> Shown {
    let mut options = pumice::Options::default();
    options.cf.disable_auto_compactions = true;
    options.db.avoid_flush_during_recovery = true;
    let db = pumice::Db::open(&options, path).unwrap();
    for n in warmed(seed) {
        db.get_opt(&pumice::ReadOptions::default(), &key(n)).unwrap();
    }
    let only = pumice::ReadOptions { cache_only: true, ..Default::default() };
    let told = |found: pumice::Result<Option<pumice::PinnedSlice>>| {
        letter(found.map(|value| value.is_some()).map_err(|e| e.to_string()))
    };
    let one: String = (0..KEYS).map(|n| told(db.get_opt(&only, &key(n)))).collect();
    let keys: Vec<_> = (0..KEYS).map(key).collect();
    let several: String = db.multi_get_opt(&only, &keys).into_iter().map(told).collect();
    assert_eq!(one, several);
    let mut walks = Vec::new();
    for n in (0..KEYS).step_by(77) {
        for forward in [true, false] {
            let mut iter = db.cursor_opt(&only).unwrap();
            let mut shown = 0;
            if forward {
                iter.seek(&key(n))
            } else {
                iter.seek_for_prev(&key(n))
            }
            while iter.valid() {
                shown += 1;
                if forward { iter.next() } else { iter.prev() }
            }
            let end = iter.status().map(|()| false).map_err(|e| e.to_string());
            walks.push((shown, letter(end)));
        }
    }
    db.close().unwrap();
    (one, walks)
}

fn theirs(peer: &Peer, path: &Path, seed: usize) -> Shown {
    let mut options = theirs::Options::new(peer);
    options.set_many("disable_auto_compactions=true;avoid_flush_during_recovery=true").unwrap();
    options.set_block_cache(&theirs::Cache::lru(peer, 64 << 20));
    let db = theirs::Db::open(&options, path).unwrap();
    let cf = db.default_column_family().clone();
    let usual = theirs::ReadOptions::new(peer, &theirs::ReadSettings::default());
    let mut value = Vec::new();
    for n in warmed(seed) {
        db.get(&usual, &cf, &key(n), &mut value).unwrap();
    }
    let settings = theirs::ReadSettings { cache_only: true, ..Default::default() };
    let only = theirs::ReadOptions::new(peer, &settings);
    let told = |e: theirs::Error| e.message().to_string();
    let mut get = |n| letter(db.get(&only, &cf, &key(n), &mut value).map_err(told));
    let one = (0..KEYS).map(&mut get).collect();
    let mut walks = Vec::new();
    for n in (0..KEYS).step_by(77) {
        for forward in [true, false] {
            let mut iter = db.iter(&only, &cf);
            let mut shown = 0;
            if forward {
                iter.seek(&key(n))
            } else {
                iter.seek_for_prev(&key(n))
            }
            while iter.valid() {
                shown += 1;
                if forward { iter.next() } else { iter.prev() }
            }
            walks.push((shown, letter(iter.status().map(|()| false).map_err(told))));
        }
    }
    (one, walks)
}

#[pumice_test_macros::test]
fn memory_alone_answers_what_it_answers_there() {
    let Some(peer) = peer() else { return };
    let dir = tempfile::tempdir().unwrap();
    build(&dir.path().join("original"));
    for seed in 0..5 {
        let path = dir.path().join("original");
        let (ours, theirs) = (ours(&path, seed), theirs(&peer, &path, seed));
        assert_eq!(ours.0, theirs.0, "get, {seed}");
        assert_eq!(ours.1, theirs.1, "iterators, {seed}");
        let count = |letter| ours.0.matches(letter).count();
        let counts = [count("+"), count("-"), count("?")];
        assert!(counts[0] > 1000 && counts[1] == 4 && counts[2] > 1000, "{counts:?}");
    }
}
