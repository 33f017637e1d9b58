//! Locks of keys: a writer holds those of all keys it may change while it reads, decides and
//! writes.
//!
//! Keys share a fixed number of locks. Several are taken in the order of their numbers, each once,
//! so two writers cannot wait for each other. Readers take none: one read of the engine is atomic,
//! and who needs several has a snapshot.
//!
//! Thread safety: may be shared. Locking suspends.

use pumice_port::sync::{Mutex, MutexGuard};

/// Locks that all keys share; a power of two.
const LOCKS: usize = 4096;

/// See the module's head.
pub struct KeyLocks(Vec<Mutex<()>>);

/// Locks that are held until it is dropped.
#[must_use = "dropping it unlocks"]
pub struct Held<'a> {
    #[expect(dead_code, reason = "kept for its destructor")]
    first: Option<MutexGuard<'a, ()>>,
    #[expect(dead_code, reason = "kept for its destructor")]
    rest: Vec<MutexGuard<'a, ()>>,
}

impl Default for KeyLocks {
    /// All free.
    fn default() -> KeyLocks {
        KeyLocks((0..LOCKS).map(|_| Mutex::new(())).collect())
    }
}

impl KeyLocks {
    /// Locks one key.
    pub fn one(&self, key: &[u8]) -> Held<'_> {
        Held { first: Some(self.0[number(key)].lock()), rest: Vec::new() }
    }

    /// Locks these keys.
    pub fn many<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> Held<'_> {
        let mut numbers: Vec<usize> = keys.map(number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        Held { first: None, rest: numbers.into_iter().map(|n| self.0[n].lock()).collect() }
    }

    /// Locks every key.
    pub fn all(&self) -> Held<'_> {
        Held { first: None, rest: self.0.iter().map(Mutex::lock).collect() }
    }
}

/// Which lock a key has, in whichever database.
fn number(key: &[u8]) -> usize {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for chunk in key.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^= hash >> 32;
    }
    (hash as usize) & (LOCKS - 1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use pumice_port::thread;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[pumice_test_macros::test]
    fn holders_of_common_keys_take_turns() {
        let locks = Arc::new(KeyLocks::default());
        let sum = Arc::new(AtomicU64::new(0));
        let work = |seed: u64| {
            let (locks, sum) = (Arc::clone(&locks), Arc::clone(&sum));
            thread::spawn("w", move || {
                for i in 0..300_u64 {
                    let names = [(seed * i) % 7, (seed + i) % 7, 1_000].map(|n| n.to_string());
                    let held = locks.many(names.iter().map(|name| name.as_bytes()));
                    let now = sum.load(Ordering::Relaxed);
                    if i % 16 == 0 {
                        thread::yield_now();
                    }
                    sum.store(now + 1, Ordering::Relaxed);
                    drop(held);
                }
            })
        };
        let workers: Vec<_> = (1..=4).map(work).collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        assert_eq!(sum.load(Ordering::Relaxed), 1200);
        drop(locks.all());
        drop(locks.one(b"x"));
    }
}
