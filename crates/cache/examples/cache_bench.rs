//! Times cache hits, misses and inserts. CPU time of the calling thread, best of the rounds.
//! `cargo run --release -p pumice-cache --example cache_bench [rounds]`

use std::sync::Arc;

use pumice_base::random::Rng;
use pumice_cache::{Cache, CacheKey, CacheOptions, Priority};
use pumice_port::{thread, time};

const ENTRIES: u64 = 8192;
const CHARGE: usize = 4096;
const OPERATIONS: usize = 2_000_000;

fn timed(operations: usize, f: impl FnOnce()) -> f64 {
    let start = time::thread_cpu_nanos();
    f();
    (time::thread_cpu_nanos() - start) as f64 / operations as f64
}

fn hits(cache: &Cache<u64>, keys: &[CacheKey]) -> u64 {
    let mut sum = 0u64;
    for key in keys {
        sum = sum.wrapping_add(*cache.lookup(key).expect("all keys fit"));
    }
    sum
}

fn on_two(f: impl Fn(u64) -> f64 + Send + Sync + 'static) -> f64 {
    let f = Arc::new(f);
    let threads: Vec<_> = (0..2)
        .map(|t| {
            let f = Arc::clone(&f);
            thread::spawn("bench", move || f(t))
        })
        .collect();
    threads.into_iter().map(|t| t.join().expect("no panic")).fold(0.0, f64::max)
}

fn random_keys(seed: u64, entries: u64) -> Vec<CacheKey> {
    let mut rng = Rng::new(seed);
    (0..OPERATIONS).map(|_| CacheKey(77, rng.uniform(entries) * 4096)).collect()
}

fn main() {
    let rounds = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(5);
    let mut best: Vec<(&str, f64)> = Vec::new();
    let mut report = |name, ns: f64| match best.iter_mut().find(|(known, _)| *known == name) {
        Some((_, least)) => *least = least.min(ns),
        None => best.push((name, ns)),
    };
    let mut hash = 0;
    for _ in 0..rounds {
        let capacity = 2 * ENTRIES as usize * CHARGE;
        let cache = Cache::new(CacheOptions::new(capacity));
        for n in 0..ENTRIES {
            let key = CacheKey(77, n * 4096);
            drop(cache.insert(key, n, CHARGE, Priority::Low).expect("not strict"));
        }
        let keys = random_keys(1, ENTRIES);
        report("hit", timed(OPERATIONS, || hash ^= hits(&cache, &keys)));
        let one = vec![CacheKey(77, 4096); OPERATIONS];
        report("hit, one key", timed(OPERATIONS, || hash ^= hits(&cache, &one)));
        report(
            "hit, owned handle",
            timed(OPERATIONS, || {
                for key in &keys {
                    hash ^= *cache.lookup_owned(key).expect("all keys fit");
                }
            }),
        );
        report(
            "miss",
            timed(OPERATIONS, || {
                for key in &keys {
                    assert!(cache.lookup(&CacheKey(78, key.1)).is_none());
                }
            }),
        );
        let shared = Arc::clone(&cache);
        let two = on_two(move |t| {
            let keys = random_keys(t, ENTRIES);
            timed(OPERATIONS, || assert_ne!(hits(&shared, &keys), 0))
        });
        report("hit, 2 threads, each", two);
        let shared = Arc::clone(&cache);
        let two = on_two(move |_| {
            let keys = vec![CacheKey(77, 4096); OPERATIONS];
            timed(OPERATIONS, || assert_ne!(hits(&shared, &keys), 0))
        });
        report("hit, 2 threads on one key, each", two);
        let keys = random_keys(3, 64 * ENTRIES);
        report(
            "insert with eviction",
            timed(OPERATIONS, || {
                for (n, key) in keys.iter().enumerate() {
                    drop(cache.insert(*key, n as u64, CHARGE, Priority::Low).expect("not strict"));
                }
            }),
        );
    }
    for (name, ns) in best {
        println!("{name:36} {ns:8.1} ns");
    }
    println!("hash {hash:016x}");
}
