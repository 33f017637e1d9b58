//! The secondary cache against a model of its rules, within its capacity, with damaged bytes, by
//! several tasks, and behind a cache.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use pumice_base::random::Rng;
use pumice_port::thread;

use super::*;

/// Miri runs no C.
const CODECS: &[CompressionType] = if cfg!(miri) {
    &[CompressionType::None, CompressionType::Snappy]
} else {
    &[CompressionType::None, CompressionType::Snappy, CompressionType::Lz4, CompressionType::Zstd]
};

fn secondary(capacity: usize, codec: CompressionType) -> CompressedSecondaryCache {
    let options = CompressedSecondaryCacheOptions {
        compression_type: codec,
        ..CompressedSecondaryCacheOptions::new(capacity)
    };
    CompressedSecondaryCache::new(&options).unwrap()
}

fn key(n: u64) -> CacheKey {
    CacheKey(n / 5, n % 5 * 4096)
}

/// Contents of up to 3,000 bytes, in one of two cases of random ones.
fn contents(rng: &mut Rng) -> Vec<u8> {
    let len = rng.uniform(3000) as usize;
    let byte = rng.next_u64() as u8;
    match rng.one_in(2) {
        true => (0..len).map(|_| rng.next_u64() as u8).collect(),
        false => vec![byte; len],
    }
}

/// What the rules say is under a key: a dummy, or contents of a kind.
type Model = BTreeMap<u64, Option<(u8, Vec<u8>)>>;

/// While everything fits, each answer is the one that the rules give.
#[pumice_test_macros::test]
fn follows_the_rules_of_admission() {
    for seed in 0..if cfg!(miri) { 2 } else { 24u64 } {
        let mut rng = Rng::new(seed);
        let cache = secondary(64 << 20, CODECS[seed as usize % CODECS.len()]);
        let mut model = Model::new();
        for step in 0..if cfg!(miri) { 100 } else { 3000 } {
            let n = rng.uniform(200);
            let what = format!("PUMICE_SEED={seed} step {step} key {n}");
            match rng.uniform(8) {
                0..4 => {
                    // An eviction.
                    let first = cache.is_first(&key(n));
                    assert_eq!(first, !model.contains_key(&n), "{what}");
                    if first {
                        model.insert(n, None);
                        continue;
                    }
                    let (kind, bytes) = (rng.uniform(3) as u8, contents(&mut rng));
                    let compress = !rng.one_in(4);
                    let tried = cache.insert(&key(n), kind, &bytes, compress).unwrap();
                    let expected = compress && cache.options.compression_type != CODECS[0];
                    assert_eq!(tried.is_some(), expected, "{what}");
                    assert!(tried.is_none_or(|after| after <= bytes.len()), "{what}");
                    model.insert(n, Some((kind, bytes)));
                }
                4 => {
                    cache.erase(&key(n));
                    model.remove(&n);
                }
                _ => {
                    let (kind, advise_erase) = (rng.uniform(3) as u8, rng.one_in(2));
                    let expected = match model.get(&n) {
                        None => SecondaryLookup::Missing,
                        Some(None) => SecondaryLookup::Dummy,
                        Some(Some((of, bytes))) if *of == kind => {
                            let found = SecondaryLookup::Found(bytes.clone());
                            if advise_erase {
                                model.insert(n, None);
                            }
                            found
                        }
                        // Another kind of block under the key: it is of no use to anyone.
                        Some(Some(_)) => {
                            model.remove(&n);
                            SecondaryLookup::Missing
                        }
                    };
                    assert_eq!(cache.lookup(&key(n), kind, advise_erase), expected, "{what}");
                }
            }
            assert_eq!(cache.occupancy(), model.len(), "{what}");
        }
    }
}

/// Whatever is offered, the charge stays within the capacity, also after it is lowered; and what is
/// found is what was last kept.
#[pumice_test_macros::test]
fn stays_within_its_capacity() {
    for seed in 0..if cfg!(miri) { 1 } else { 10u64 } {
        let mut rng = Rng::new(seed);
        let codec = CODECS[seed as usize % CODECS.len()];
        let mut capacity = 1000 + rng.uniform(100_000) as usize;
        let cache = secondary(capacity, codec);
        let mut last: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        let mut found = 0;
        for step in 0..if cfg!(miri) { 100 } else { 4000 } {
            let n = rng.uniform(120);
            if rng.one_in(500) {
                capacity = rng.uniform(100_000) as usize;
                cache.set_capacity(capacity);
            }
            if rng.one_in(2) {
                if !cache.is_first(&key(n)) {
                    let bytes = contents(&mut rng);
                    cache.insert(&key(n), 0, &bytes, true).unwrap();
                    last.insert(n, bytes);
                }
            } else if let SecondaryLookup::Found(bytes) = cache.lookup(&key(n), 0, false) {
                assert_eq!(Some(&bytes), last.get(&n), "PUMICE_SEED={seed} step {step}");
                found += 1;
            }
            assert!(cache.usage() <= capacity, "PUMICE_SEED={seed} step {step}");
        }
        assert!(cfg!(miri) || found > 20, "PUMICE_SEED={seed}: {found}");
        cache.set_capacity(0);
        assert_eq!((cache.usage(), cache.occupancy()), (0, 0));
        assert!(cache.is_first(&key(1)) && cache.is_first(&key(1)));
    }
}

/// Every bit of what is kept, and every length of it: a changed entry is a missing one.
#[pumice_test_macros::test]
fn changed_bytes_are_a_miss() {
    for codec in CODECS {
        let cache = secondary(1 << 20, *codec);
        let bytes: Vec<u8> = (0..200u32).map(|n| (n / 7) as u8).collect();
        cache.insert(&key(1), 4, &bytes, true).unwrap();
        let kept = cache.entries.lookup(&key(1)).unwrap().0.clone().unwrap();
        let answer = |changed: &[u8]| {
            cache.put(&key(1), Saved(Some(changed.into())), SLOT_BYTES + changed.len());
            let answer = cache.lookup(&key(1), 4, false);
            // What is of no use is gone.
            assert_eq!(cache.entries.lookup(&key(1)).is_some(), changed == &*kept);
            answer
        };
        assert_eq!(answer(&kept), SecondaryLookup::Found(bytes.clone()));
        for bit in 0..8 * kept.len() {
            let mut changed = kept.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(answer(&changed), SecondaryLookup::Missing, "{codec:?} bit {bit}");
        }
        for len in 0..kept.len() {
            assert_eq!(answer(&kept[..len]), SecondaryLookup::Missing, "{codec:?} {len} bytes");
        }
        // The same bytes under another key.
        cache.put(&key(2), Saved(Some(kept.clone())), SLOT_BYTES + kept.len());
        assert_eq!(cache.lookup(&key(2), 4, false), SecondaryLookup::Missing);
    }
}

/// The contents that a key always has.
fn fixed(n: u64) -> Vec<u8> {
    let mut rng = Rng::new(n);
    contents(&mut rng)
}

#[pumice_test_macros::test]
fn several_tasks_share_it() {
    let cache = Arc::new(secondary(60_000, CODECS[CODECS.len() - 1]));
    let found = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..4u64)
        .map(|task| {
            let (cache, found) = (Arc::clone(&cache), Arc::clone(&found));
            thread::spawn("secondary", move || {
                let mut rng = Rng::new(task);
                for _ in 0..if cfg!(miri) { 50 } else { 2000 } {
                    let n = rng.uniform(60);
                    if rng.one_in(2) {
                        if !cache.is_first(&key(n)) {
                            cache.insert(&key(n), 0, &fixed(n), true).unwrap();
                        }
                    } else if let SecondaryLookup::Found(bytes) =
                        cache.lookup(&key(n), 0, rng.one_in(3))
                    {
                        assert_eq!(bytes, fixed(n));
                        found.fetch_add(1, Relaxed);
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.join().unwrap();
    }
    assert!(cache.usage() <= 60_000);
    assert!(cfg!(miri) || found.load(Relaxed) > 100);
    assert!(cache.idle.lock().len() <= 4, "a codec for each task at most");
}

/// A value that is spilled as it is, and counts what it is offered.
struct Offered(u64, Arc<AtomicUsize>);

impl Spill for Offered {
    fn spill(&self, key: &CacheKey, secondary: &CompressedSecondaryCache, at_once: bool) {
        assert!(*key == self::key(self.0) && !at_once);
        self.1.fetch_add(1, Relaxed);
        if !secondary.is_first(key) {
            secondary.insert(key, 0, &fixed(self.0), true).unwrap();
        }
    }
}

/// What the clock evicts is offered, once; what is erased, replaced or dropped with the cache is
/// not; and a cache that has somewhere to put what it evicts takes everything.
#[pumice_test_macros::test]
fn evictions_and_nothing_else_are_offered() {
    let offered = Arc::new(AtomicUsize::new(0));
    let value = |n| Offered(n, Arc::clone(&offered));
    let options = CompressedSecondaryCacheOptions {
        compression_type: CODECS[1],
        ..CompressedSecondaryCacheOptions::new(1 << 20)
    };
    let cache = Cache::with_secondary(CacheOptions::new(10_000), &options).unwrap();
    let second = cache.secondary_cache().unwrap();
    let mut inserted = 0;
    for round in 0..3 {
        for n in 0..50 {
            assert!(cache.admits(&key(n), 1000, Priority::Low));
            let found = second.lookup(&key(n), 0, false);
            match round {
                0 => assert_eq!(found, SecondaryLookup::Missing),
                1 => assert!(!matches!(found, SecondaryLookup::Found(_)), "{n}"),
                _ => match cache.lookup(&key(n)) {
                    Some(_) => {}
                    None => assert_eq!(found, SecondaryLookup::Found(fixed(n))),
                },
            }
            if cache.lookup(&key(n)).is_none() {
                drop(cache.insert(key(n), value(n), 1000, Priority::Low).unwrap());
                inserted += 1;
            }
            assert_eq!(offered.load(Relaxed) + cache.occupancy(), inserted);
        }
    }
    let before = offered.load(Relaxed);
    // Erased, also under a pin; replaced; too large for a cache that is full.
    let pinned = cache.insert(key(49), value(49), 10, Priority::Low).unwrap();
    assert!(cache.erase(&key(49)));
    drop(pinned);
    let before = {
        // The insertion above may have had to make room.
        let now = offered.load(Relaxed);
        assert!(now - before <= 1);
        now
    };
    assert!(cache.erase(&key(48)));
    drop(cache.insert(key(47), value(47), 900, Priority::Low).unwrap());
    assert_eq!(offered.load(Relaxed), before);
    let standalone = cache.insert_standalone(key(100), value(100), 100).ok().unwrap();
    assert!(standalone.is_standalone() && cache.lookup(&key(100)).is_none());
    drop(standalone);
    drop(cache);
    assert_eq!(offered.load(Relaxed), before);
}
