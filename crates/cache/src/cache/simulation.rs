//! A simulated cache: keys without values, which tells how many hits a cache of another capacity
//! would have had (`SimCache` of RocksDB).
//!
//! It is a cache of the same kind, with the same policies and the charges of the real one. It takes
//! what the real one is given, admitted or not, and what is found there and not here. A block that
//! the real one does not admit has the charge that was assumed for it. With the capacity of the
//! real one it has the same hits; a key that only the simulation has counts as looked up twice when
//! the real cache is given its entry again.
//!
//! Costs: the slots and keys of a cache of that capacity, and a second lookup each time.
//!
//! Thread safety: any thread; two counters that every lookup writes. Nothing suspends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{Cache, CacheOptions};
use crate::key::{CacheKey, Priority};

/// See the head of the module. Belongs to a cache: [`Cache::simulation`].
///
/// ```
/// # use pumice_cache::{Cache, CacheKey, CacheOptions, Priority};
/// // Would 64 MiB be better than 1 MiB?
/// let cache = Cache::<u64>::simulating(CacheOptions::new(1 << 20), 64 << 20);
/// let larger = cache.simulation().unwrap();
/// assert!(!larger.look_up(&CacheKey(1, 2), None));
/// cache.insert(CacheKey(1, 2), 7, 2 << 20, Priority::Low).map(drop).unwrap();
/// assert!(larger.look_up(&CacheKey(1, 2), None));
/// assert_eq!((larger.hits(), larger.misses()), (1, 1));
/// ```
pub struct Simulation {
    keys: Arc<Cache<()>>,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl Simulation {
    /// Of a cache with these options.
    pub(crate) fn new(options: CacheOptions) -> Self {
        let (hits, misses) = Default::default();
        Simulation { keys: Cache::new(options), hits, misses }
    }

    /// The real cache is asked for `key`, and has the entry with a charge and a priority if
    /// `cached` says so: whether this one has it too, which counts.
    pub fn look_up(&self, key: &CacheKey, cached: Option<(usize, Priority)>) -> bool {
        let hit = self.keys.lookup(key).is_some();
        let count = if hit { &self.hits } else { &self.misses };
        count.fetch_add(1, Relaxed);
        if let Some((charge, priority)) = cached.filter(|_| !hit) {
            self.add(*key, charge, priority);
        }
        hit
    }

    /// The real cache is given an entry.
    pub(crate) fn add(&self, key: CacheKey, charge: usize, priority: Priority) {
        if self.keys.lookup(&key).is_none() && self.keys.admits(&key, charge, priority) {
            // Only a strict cache refuses.
            self.keys.insert(key, (), charge, priority).ok();
        }
    }

    pub(crate) fn erase(&self, key: &CacheKey) {
        self.keys.erase(key);
    }
    pub(crate) fn erase_all(&self) {
        self.keys.erase_all();
    }

    /// Lookups that found their key.
    pub fn hits(&self) -> u64 {
        self.hits.load(Relaxed)
    }
    /// Lookups that did not.
    pub fn misses(&self) -> u64 {
        self.misses.load(Relaxed)
    }
    /// Both counters start again at 0.
    pub fn reset_counters(&self) {
        self.hits.store(0, Relaxed);
        self.misses.store(0, Relaxed);
    }
    /// The limit of `usage`, bytes.
    pub fn capacity(&self) -> usize {
        self.keys.capacity()
    }
    /// Changes the limit.
    pub fn set_capacity(&self, capacity: usize) {
        self.keys.set_capacity(capacity);
    }
    /// Sum of the charges of the simulated entries, bytes.
    pub fn usage(&self) -> usize {
        self.keys.usage()
    }
}

/// RocksDB's lines.
impl std::fmt::Display for Simulation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (hits, misses) = (self.hits(), self.misses());
        let percent = hits as f64 * 100.0 / (hits + misses).max(1) as f64;
        writeln!(f, "SimCache MISSes:  {misses}")?;
        writeln!(f, "SimCache HITs:    {hits}")?;
        writeln!(f, "SimCache HITRATE: {percent:.2}")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use pumice_base::random::Rng;

    fn options(capacity: usize) -> CacheOptions {
        CacheOptions { estimated_entry_charge: 10, ..CacheOptions::new(capacity) }
    }

    /// Reads random keys through `cache` as a table does; returns its hits.
    fn read(cache: &Cache<u64>, reads: u64, keys: u64) -> u64 {
        let mut rng = Rng::new(5);
        let mut hits = 0;
        for _ in 0..reads {
            // Some keys are read more often than others.
            let n = rng.uniform(keys).min(rng.uniform(keys));
            let key = CacheKey(n / 7, n % 7 * 4096);
            let found = cache.lookup(&key).map(|entry| (entry.charge(), Priority::Low));
            cache.simulation().unwrap().look_up(&key, found);
            if found.is_some() {
                hits += 1;
            } else if cache.admits(&key, 10, Priority::Low) {
                drop(cache.insert(key, n, 10, Priority::Low).unwrap());
            }
        }
        hits
    }

    /// One of the same capacity has the hits of the real cache, one of another capacity about those
    /// that a real one of that capacity has.
    #[pumice_test_macros::test]
    fn a_simulation_has_the_hits_of_a_cache_of_its_capacity() {
        const READS: u64 = 20_000;
        let hits = |capacity: usize, simulated: usize| {
            let cache = Cache::<u64>::simulating(options(capacity), simulated);
            let hits = read(&cache, READS, 2000);
            let simulation = cache.simulation().unwrap();
            assert_eq!(simulation.hits() + simulation.misses(), READS);
            assert_eq!(simulation.capacity(), simulated);
            assert!(simulation.usage() <= simulated.max(10), "{}", simulation.usage());
            (hits, simulation.hits())
        };
        let real: Vec<u64> = [3000, 9000, 30_000].map(|bytes| hits(bytes, bytes).0).to_vec();
        assert!(real[0] * 2 < real[1] && real[1] < real[2], "{real:?}");
        for (at, bytes) in [3000, 9000, 30_000].into_iter().enumerate() {
            for other in [0, 3000, 9000, 30_000] {
                let (_, simulated) = hits(other, bytes);
                let most_apart = if other == bytes { 0 } else { READS / 50 };
                let apart = simulated.abs_diff(real[at]);
                assert!(apart <= most_apart, "{bytes} beside {other}: {simulated}, {real:?}");
            }
        }
        assert_eq!(hits(30_000, 0).1, 0);
    }

    #[pumice_test_macros::test]
    fn erased_keys_are_gone_and_counters_start_again() {
        let cache = Cache::<u64>::simulating(options(0), 1000);
        let simulation = cache.simulation().unwrap();
        let key = |n| CacheKey(n, n);
        for n in 0..3 {
            cache.insert(key(n), n, 10, Priority::Low).map(drop).unwrap();
        }
        cache.erase(&key(1));
        assert_eq!([0, 1, 2].map(|n| simulation.look_up(&key(n), None)), [true, false, true]);
        let lines = "SimCache MISSes:  1\nSimCache HITs:    2\nSimCache HITRATE: 66.67\n";
        assert_eq!(simulation.to_string(), lines);
        cache.erase_all();
        assert_eq!((simulation.usage(), simulation.look_up(&key(0), None)), (0, false));
        simulation.reset_counters();
        assert!(simulation.to_string().ends_with("SimCache HITRATE: 0.00\n"));
        assert!(Cache::<u64>::new(options(0)).simulation().is_none());
    }
}
