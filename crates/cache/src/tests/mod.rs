//! The cache against a model, its accounts, and pins under concurrent eviction.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicI64, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use pumice_base::random::Rng;
use pumice_base::{ErrorKind, SubCode};
use pumice_port::thread;

use crate::{
    Cache, CacheKey, CacheOptions, ChargedRole, Handle, MemoryAccount, Priority, StatsAge,
};

mod growth;

/// Counts itself; dead values fail `check`.
struct Canary {
    key: CacheKey,
    alive: AtomicU64,
    live: Arc<AtomicI64>,
}

const ALIVE: u64 = 0x600D_600D_600D_600D;

impl Canary {
    fn new(key: CacheKey, live: &Arc<AtomicI64>) -> Self {
        live.fetch_add(1, Relaxed);
        Canary { key, alive: AtomicU64::new(ALIVE), live: Arc::clone(live) }
    }
    fn check(&self, key: CacheKey) {
        assert_eq!(self.alive.load(Relaxed), ALIVE, "used after it was dropped");
        assert_eq!(self.key, key, "another entry's value");
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        assert_eq!(self.alive.swap(0, Relaxed), ALIVE, "dropped twice");
        self.live.fetch_sub(1, Relaxed);
    }
}

fn new_cache<V: Send + Sync + 'static>(capacity: usize, entry: usize) -> Arc<Cache<V>> {
    Cache::new(CacheOptions { estimated_entry_charge: entry, ..CacheOptions::new(capacity) })
}

fn key(n: u64) -> CacheKey {
    CacheKey(n / 7, n % 7 * 4096)
}

/// While everything fits, the cache is a map.
#[pumice_test_macros::test]
fn is_a_map_while_everything_fits() {
    for seed in 0..if cfg!(miri) { 1 } else { 20 } {
        let mut rng = Rng::new(seed);
        let cache = new_cache::<u64>(100_000, 100);
        let mut model: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
        let mut pins: Vec<(Handle<u64>, u64)> = Vec::new();
        for step in 0..if cfg!(miri) { 300 } else { 20_000u64 } {
            let n = rng.uniform(300);
            match rng.uniform(10) {
                0..3 => {
                    let charge = 1 + rng.uniform(100) as usize;
                    let handle = cache.insert(key(n), step, charge, Priority::Low).unwrap();
                    assert!(!handle.is_standalone() && handle.charge() == charge);
                    model.insert(n, (step, charge));
                    if rng.one_in(4) && pins.len() < 100 {
                        pins.push((handle, step));
                    }
                }
                3 => assert_eq!(cache.erase(&key(n)), model.remove(&n).is_some(), "seed {seed}"),
                4 if !pins.is_empty() => {
                    let (handle, value) = pins.swap_remove(rng.uniform(pins.len() as u64) as usize);
                    assert_eq!(*handle, value, "seed {seed}");
                }
                5 => {
                    let handle = cache.lookup_owned(&key(n));
                    assert_eq!(handle.as_deref().copied(), model.get(&n).map(|e| e.0));
                    pins.extend(handle.filter(|_| pins.len() < 100).map(|h| (h.clone(), *h)));
                }
                _ => {
                    let found = cache.lookup(&key(n)).map(|value| *value);
                    assert_eq!(found, model.get(&n).map(|e| e.0), "seed {seed} step {step}");
                }
            }
        }
        let mut seen = BTreeMap::new();
        cache.for_each(|key, charge, value| {
            seen.insert(key.0 * 7 + key.1 / 4096, (*value, charge));
        });
        assert_eq!(seen, model, "seed {seed}");
        pins.clear();
        assert_eq!(cache.usage(), model.values().map(|e| e.1).sum::<usize>(), "seed {seed}");
        assert_eq!((cache.occupancy(), cache.pinned_usage()), (model.len(), 0), "seed {seed}");
        cache.erase_all();
        assert_eq!((cache.usage(), cache.occupancy()), (0, 0));
    }
}

#[pumice_test_macros::test]
fn stays_within_capacity_and_prefers_hit_and_high_entries() {
    let cache = new_cache::<u64>(1000, 1);
    for n in 0..100 {
        let priority = if n < 50 { Priority::High } else { Priority::Low };
        drop(cache.insert(key(n), n, 1, priority).unwrap());
    }
    for n in 50..75 {
        for _ in 0..3 {
            assert!(cache.lookup(&key(n)).is_some());
        }
    }
    // A scan twice as large as the cache.
    for n in 1000..3000 {
        drop(cache.insert(key(n), n, 1, Priority::Low).unwrap());
        assert!(cache.usage() <= 1000);
    }
    let kept = |range: std::ops::Range<u64>| {
        let present = |n: &u64| cache.lookup(&key(*n)).is_some();
        range.filter(present).count()
    };
    assert_eq!(kept(0..50), 50, "high priority");
    assert_eq!(kept(50..75), 25, "hit before");
    assert_eq!(kept(75..100), 0, "never hit");
}

#[pumice_test_macros::test]
fn strict_capacity_limit_fails_inserts_while_all_is_pinned() {
    let cache = Cache::new(CacheOptions {
        capacity: 10,
        estimated_entry_charge: 1,
        strict_capacity_limit: true,
    });
    let pins: Vec<_> =
        (0..10).map(|n| cache.insert(key(n), n, 1, Priority::Low).unwrap()).collect();
    let error = cache.insert(key(99), 99, 1, Priority::Low).err().unwrap();
    assert_eq!((error.kind(), error.subcode()), (ErrorKind::Aborted, SubCode::MemoryLimit));
    assert!(cache.try_reserve(ChargedRole::FileMetadata, 1).is_err());
    assert_eq!((cache.usage(), cache.pinned_usage()), (10, 10));
    drop(pins);
    drop(cache.insert(key(99), 99, 1, Priority::Low).unwrap());
    assert!(cache.insert(key(100), 100, 11, Priority::Low).is_err(), "larger than the cache");
    assert_eq!(cache.usage(), 10);
    let mut reservation = cache.try_reserve(ChargedRole::FileMetadata, 10).unwrap();
    assert_eq!((cache.occupancy(), reservation.charge()), (0, 10));
    assert!(reservation.try_set(11).is_err());
    assert_eq!((reservation.charge(), cache.usage()), (10, 10), "as it was");
}

#[pumice_test_macros::test]
fn without_the_limit_pinned_entries_exceed_the_capacity() {
    let live = Arc::new(AtomicI64::new(0));
    let cache = new_cache(64, 1);
    let pins: Vec<_> = (0..500)
        .map(|n| cache.insert(key(n), Canary::new(key(n), &live), 1, Priority::Low).unwrap())
        .collect();
    let standalone = pins.iter().filter(|pin| pin.is_standalone()).count();
    assert!(standalone > 0, "the table has {} slots", cache.table_len());
    assert_eq!((cache.usage(), cache.pinned_usage(), cache.occupancy()), (500, 500, 500));
    for (n, pin) in pins.iter().enumerate() {
        pin.check(key(n as u64));
        let found = cache.lookup(&key(n as u64)).is_some();
        assert_eq!(found, !pin.is_standalone(), "a standalone entry cannot be found");
    }
    drop(pins);
    assert_eq!(cache.pinned_usage(), 0);
    drop(cache.insert(key(999), Canary::new(key(999), &live), 1, Priority::Low).unwrap());
    assert!(cache.usage() <= 64, "back within the capacity: {}", cache.usage());
    drop(cache);
    assert_eq!(live.load(Relaxed), 0);
}

#[pumice_test_macros::test]
fn pinned_entries_outlive_erasure_replacement_and_the_cache() {
    let live = Arc::new(AtomicI64::new(0));
    let cache = new_cache(100, 1);
    let insert = |n| cache.insert(key(n), Canary::new(key(n), &live), 1, Priority::Low).unwrap();
    let (erased, replaced, plain) = (insert(1), insert(2), insert(3));
    let borrowed = cache.lookup(&key(3)).unwrap().into_handle();
    assert!(cache.erase(&key(1)) && !cache.erase(&key(1)));
    drop(insert(2));
    assert!(cache.lookup(&key(1)).is_none());
    assert_eq!((cache.usage(), live.load(Relaxed)), (4, 4));
    drop(erased.clone());
    erased.check(key(1));
    drop(erased);
    assert_eq!((cache.usage(), live.load(Relaxed)), (3, 3));
    drop(cache);
    assert_eq!(live.load(Relaxed), 2, "what is not pinned was dropped with the cache");
    replaced.check(key(2));
    drop((replaced, plain));
    assert_eq!(live.load(Relaxed), 1);
    borrowed.check(key(3));
    drop(borrowed);
    assert_eq!(live.load(Relaxed), 0);
}

#[pumice_test_macros::test]
fn reservations_and_capacity_changes_evict() {
    let cache = new_cache::<u64>(100, 1);
    for n in 0..100 {
        drop(cache.insert(key(n), n, 1, Priority::High).unwrap());
    }
    // The clock's hand takes steps of four, so it may evict three more than asked for.
    let about = |usage: usize| assert!((usage - 3..=usage).contains(&cache.usage()), "{usage}");
    let reservation = cache.try_reserve(ChargedRole::FileMetadata, 60).unwrap();
    about(100);
    assert_eq!((cache.usage(), cache.pinned_usage()), (cache.occupancy() + 60, 60));
    cache.set_capacity(70);
    about(70);
    assert_eq!((cache.usage(), cache.capacity()), (cache.occupancy() + 60, 70));
    drop(reservation);
    assert_eq!((cache.usage(), cache.pinned_usage()), (cache.occupancy(), 0));
    let account: Arc<dyn MemoryAccount> = cache.clone();
    account.charge(65);
    about(70);
    account.discharge(65);
    assert_eq!(cache.usage(), cache.occupancy());
    assert_ne!(cache.new_id(), cache.new_id());
}

/// What is charged is in the usage and, by its role, in the statistics; it goes with its owners.
#[pumice_test_macros::test]
fn charges_are_summed_by_role() {
    let cache = new_cache::<u64>(1000, 1);
    let sums = || {
        let now = StatsAge { min_micros: 0, times_duration: 0 };
        let stats = cache.entry_stats(now, 1, |_| 0);
        assert_eq!(stats.usage, stats.charges.iter().map(|sum| sum.bytes).sum::<u64>());
        stats.charges.map(|sum| (sum.entries, sum.bytes))
    };
    let mut filter = cache.try_reserve(ChargedRole::FilterConstruction, 70).unwrap();
    let other = cache.try_reserve(ChargedRole::FilterConstruction, 5).unwrap();
    let idle = cache.reservation(ChargedRole::FileMetadata);
    MemoryAccount::charge(&*cache, 40);
    MemoryAccount::charge(&*cache, 2);
    assert_eq!(sums(), [(1, 42), (0, 0), (2, 75), (0, 0), (0, 0), (0, 0)]);
    filter.try_set(30).unwrap();
    assert_eq!((cache.charged_bytes(ChargedRole::FilterConstruction), cache.usage()), (35, 77));
    filter.try_set(0).unwrap();
    MemoryAccount::discharge(&*cache, 42);
    assert_eq!(sums(), [(0, 0), (0, 0), (1, 5), (0, 0), (0, 0), (0, 0)]);
    drop((filter, other, idle));
    assert_eq!((sums(), cache.pinned_usage()), ([(0, 0); 6], 0));
}

/// The usage of a cache is charged once to each other cache, while somebody asks for it, and two
/// caches that are charged to each other do not count what comes back.
#[pumice_test_macros::test]
fn the_usage_of_a_cache_is_charged_to_others() {
    let [blobs, blocks, others] = [(); 3].map(|()| new_cache::<u64>(1000, 1));
    drop(blobs.insert(key(1), 1, 10, Priority::Low).unwrap());
    let charges = [(); 2].map(|()| blobs.charge_usage_to(&blocks));
    assert!(Arc::ptr_eq(&charges[0], &charges[1]));
    let other = blobs.charge_usage_to(&others);
    drop(blobs.insert(key(2), 2, 30, Priority::Low).unwrap());
    assert_eq!((blocks.usage(), others.usage()), (10, 10));
    charges[1].refresh();
    assert_eq!((blocks.usage(), others.usage()), (40, 10));
    blobs.erase(&key(1));
    other.refresh();
    assert_eq!(others.usage(), 30);
    let back = blocks.charge_usage_to(&blobs);
    assert_eq!((blobs.usage(), blocks.usage()), (30, 40), "nothing of its own");
    drop(blocks.insert(key(3), 3, 7, Priority::Low).unwrap());
    for _ in 0..3 {
        back.refresh();
        charges[0].refresh();
        assert_eq!((blobs.usage(), blocks.usage()), (37, 37));
    }
    drop((charges, other, back));
    assert_eq!([&blobs, &blocks, &others].map(|cache| cache.usage()), [30, 7, 0]);
    assert_eq!(blobs.charged_to.lock().iter().filter(|one| one.strong_count() > 0).count(), 0);
    let again = blobs.charge_usage_to(&blocks);
    assert_eq!((blocks.usage(), blobs.charged_to.lock().len()), (37, 1));
    drop(again);
}

/// Threads look up, insert, erase and evict the same few keys; some pins live longer than others.
#[pumice_test_macros::test]
fn pins_hold_under_concurrent_eviction() {
    const THREADS: u64 = 4;
    let steps = if cfg!(miri) { 150 } else { 200_000u64 };
    let live = Arc::new(AtomicI64::new(0));
    // Room for a quarter of the keys; the smallest table, so that probing collides.
    let cache = new_cache::<Canary>(40, 1);
    let threads: Vec<_> = (0..THREADS)
        .map(|t| {
            let (cache, live) = (Arc::clone(&cache), Arc::clone(&live));
            thread::spawn("stress", move || {
                let mut rng = Rng::new(t);
                let mut pins: Vec<(CacheKey, Handle<Canary>)> = Vec::new();
                for _ in 0..steps {
                    let key = key(rng.uniform(160));
                    match rng.uniform(16) {
                        0 => drop(cache.erase(&key)),
                        1..6 => {
                            let value = Canary::new(key, &live);
                            let priority =
                                if rng.one_in(2) { Priority::High } else { Priority::Bottom };
                            let handle = cache.insert(key, value, 1, priority).unwrap();
                            handle.check(key);
                            pins.push((key, handle));
                        }
                        6 => pins.extend(cache.lookup_owned(&key).map(|handle| (key, handle))),
                        _ => {
                            if let Some(value) = cache.lookup(&key) {
                                value.check(key);
                            }
                        }
                    }
                    if pins.len() > 8 {
                        let (key, handle) =
                            pins.swap_remove(rng.uniform(pins.len() as u64) as usize);
                        handle.check(key);
                    }
                }
                pins.truncate(2);
                pins
            })
        })
        .collect();
    let pins: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    let in_cache = |cache: &Cache<Canary>| (cache.usage() as i64, cache.occupancy() as i64);
    assert_eq!(in_cache(&cache), (live.load(Relaxed), live.load(Relaxed)));
    cache.erase_all();
    assert_eq!(cache.usage(), cache.pinned_usage());
    drop(cache);
    for (key, handle) in &pins {
        handle.check(*key);
    }
    drop(pins);
    assert_eq!(live.load(Relaxed), 0, "every value was dropped once");
}

/// While there is room every entry is admitted. In a full cache one that is missed again soon
/// is, and one that comes back after sweeps is not, once the cache knows that few come back.
#[pumice_test_macros::test]
fn a_full_cache_admits_what_comes_back_in_time() {
    let cache = new_cache::<u64>(1000, 1);
    let mut rng = Rng::new(9);
    for n in 0..900 {
        assert!(cache.admits(&key(n), 1, Priority::High), "{n}");
        drop(cache.insert(key(n), n, 1, Priority::High).unwrap());
    }
    let mut churn = |cache: &Cache<u64>, n: u64| {
        for _ in 0..n {
            let new = key(1_000_000 + rng.uniform(1 << 40));
            drop(cache.insert(new, 0, 1, Priority::High).unwrap());
        }
    };
    // Long enough for the entries to be of all ages.
    churn(&cache, 30_000);
    // Nothing comes back: soon nothing is admitted.
    for n in 0..4000 {
        cache.admits(&key(2000 + n), 1, Priority::High);
    }
    let admitted = (0..1000).filter(|n| cache.admits(&key(10_000 + n), 1, Priority::High)).count();
    assert!(admitted < 50, "{admitted}");
    for (quarters, comes) in [(0, true), (1, true), (4, false), (16, false), (80, false)] {
        let first = cache.admits(&key(20_000 + quarters), 1, Priority::High);
        // An unhit entry of high priority costs the clock four sweeps, so a cacheful of them, too.
        churn(&cache, quarters * 1000 / 16);
        let again = cache.admits(&key(20_000 + quarters), 1, Priority::High);
        assert_eq!((first, again), (false, comes), "{quarters} quarters of a sweep");
    }
    cache.erase_all();
    assert!(cache.admits(&key(30_000), 1, Priority::High), "room again");
}

/// An entry that cannot fit at all: with a strict limit its insertion must report that, whatever
/// its key; without one nothing is evicted for it.
#[pumice_test_macros::test]
fn an_entry_larger_than_the_cache_is_admitted_only_to_be_refused() {
    for strict_capacity_limit in [false, true] {
        let options = CacheOptions { strict_capacity_limit, ..CacheOptions::new(100) };
        let cache = Cache::<u64>::new(options);
        for n in 0..200 {
            assert_eq!(cache.admits(&key(n), 101, Priority::Low), strict_capacity_limit, "{n}");
        }
        assert_eq!(cache.insert(key(1), 1, 101, Priority::Low).is_err(), strict_capacity_limit);
    }
}

/// After any amount of churn no displacement count is left behind: searches stay short.
#[pumice_test_macros::test]
fn churn_leaves_no_displacements() {
    let cache = new_cache::<u64>(40, 1);
    let mut rng = Rng::new(5);
    for step in 0..5000 {
        drop(cache.insert(key(rng.uniform(1000)), step, 1, Priority::Low).unwrap());
    }
    cache.erase_all();
    assert_eq!(cache.displacements(), 0);
}

/// Handles dropped by other threads while the cache goes away: the last one frees the table.
#[pumice_test_macros::test]
fn handles_race_with_the_end_of_the_cache() {
    for round in 0..if cfg!(miri) { 10 } else { 300 } {
        let live = Arc::new(AtomicI64::new(0));
        let cache = new_cache(100, 1);
        let threads: Vec<_> = (0..3u64)
            .map(|t| {
                let handle = cache
                    .insert(key(t % 2), Canary::new(key(t % 2), &live), 1, Priority::Low)
                    .unwrap();
                let cache = Arc::clone(&cache);
                thread::spawn("owner", move || {
                    let other = cache.lookup_owned(&key((t + 1) % 2));
                    drop(cache);
                    handle.check(key(t % 2));
                    drop(other);
                    drop(handle);
                })
            })
            .collect();
        drop(cache);
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(live.load(Relaxed), 0, "round {round}");
    }
}

/// The share of hits in the second half of 400,000 reads of 50,000 keys, the more skewed the higher
/// `power`, through a cache for `room` entries; all keys change after each `moves` reads. With
/// `all` every miss is inserted, otherwise what the cache admits.
fn hits(room: usize, power: i32, moves: u64, all: bool) -> f64 {
    const READS: u64 = 400_000;
    let cache = new_cache::<()>(room, 1);
    let mut rng = Rng::new(5);
    let mut hits = 0;
    for read in 0..READS {
        let place = (rng.uniform(1 << 32) as f64 / (1u64 << 32) as f64).powi(power);
        let key = key((place * 50_000.0) as u64 + read / moves * 1_000_000);
        if cache.lookup(&key).is_some() {
            hits += u64::from(read >= READS / 2);
        } else if all || cache.admits(&key, 1, Priority::Low) {
            drop(cache.insert(key, (), 1, Priority::Low).unwrap());
        }
    }
    hits as f64 / (READS / 2) as f64
}

/// Frequently read entries get into a full cache and stay there: with skewed reads admission gains
/// hits. It loses some where the working set changes completely within a few reads per place in the
/// cache.
#[pumice_test_macros::test]
fn admission_serves_skewed_reads() {
    for (moves, least) in [(u64::MAX, 0.01), (100_000, -0.02), (20_000, -0.13)] {
        for room in [300, 5000] {
            for power in [2, 5, 10] {
                let at_once = hits(room, power, moves, true);
                let admitted = hits(room, power, moves, false);
                println!("move {moves} room {room} power {power}: {at_once:.3} {admitted:.3}");
                assert!(
                    admitted - at_once >= least,
                    "{moves} {room} {power}: {at_once} {admitted}"
                );
            }
        }
    }
}

/// One that is to keep everything: its slots are not more than the system can give.
#[cfg(not(miri))]
#[pumice_test_macros::test]
fn any_capacity_can_be_asked_for() {
    for capacity in [1 << 50, isize::MAX as usize, usize::MAX] {
        let caches = [capacity, capacity].map(|capacity| new_cache::<u64>(capacity, 0));
        for cache in &caches {
            drop(cache.insert(key(1), 1, 100, Priority::Low).unwrap());
            assert_eq!(cache.lookup(&key(1)).map(|found| *found), Some(1));
            assert_eq!((cache.capacity(), cache.usage()), (capacity, 100));
        }
    }
}
