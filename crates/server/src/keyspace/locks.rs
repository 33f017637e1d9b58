//! Locks of keys: a writer holds those of all keys it may change while it reads, decides and writes
//! them.
//!
//! Keys share a fixed number of locks. Several are taken in the order of their numbers, each once,
//! so two writers cannot wait for each other. Readers take none: one read of the engine is atomic,
//! and several use a snapshot.
//!
//! A lock is an index into the table, so that a leader that writes for others can release theirs.
//!
//! Thread safety: may be shared. Locking suspends.

use pumice_port::sync::Semaphore;

/// Locks that all keys share, as a power of two: 1.5 MiB. A writer holds its lock while its group
/// is logged, and a writer that finds it held waits for another group; of a thousand concurrent
/// writers one in sixty-five does.
const LOCK_BITS: u32 = 16;

/// See the module's head.
pub struct KeyLocks(Vec<Semaphore>);

/// Locks that are held until it is dropped.
#[must_use = "dropping it unlocks"]
pub struct Held<'a> {
    locks: &'a KeyLocks,
    first: Option<usize>,
    rest: Vec<usize>,
}

impl Default for KeyLocks {
    /// All free.
    fn default() -> KeyLocks {
        KeyLocks((0..1 << LOCK_BITS).map(|_| Semaphore::new(1)).collect())
    }
}

impl KeyLocks {
    /// Locks one key.
    pub fn one(&self, key: &[u8]) -> Held<'_> {
        let number = number(key);
        self.0[number].acquire(1);
        Held { locks: self, first: Some(number), rest: Vec::new() }
    }

    /// Locks these keys.
    pub fn many<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> Held<'_> {
        let mut numbers: Vec<usize> = keys.map(number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        self.take(numbers)
    }

    /// Locks every key.
    pub fn all(&self) -> Held<'_> {
        self.take((0..self.0.len()).collect())
    }

    /// Locks as many of these keys, from the first on, as are not locked, each by a lock of its
    /// own, and says how many. Never waits, so the caller may hold other locks.
    pub fn free_ones<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> (Held<'_>, usize) {
        let free = |number: &usize| self.0[*number].try_acquire(1);
        let rest: Vec<usize> = keys.map(number).take_while(free).collect();
        let count = rest.len();
        (Held { locks: self, first: None, rest }, count)
    }

    fn take(&self, rest: Vec<usize>) -> Held<'_> {
        rest.iter().for_each(|&number| self.0[number].acquire(1));
        Held { locks: self, first: None, rest }
    }

    /// Releases a lock that [`Held::into_numbers`] has returned.
    pub(super) fn release(&self, number: usize) {
        self.0[number].release(1);
    }
}

impl Held<'_> {
    /// It is the lock of one key.
    pub fn is_one(&self) -> bool {
        self.first.is_some()
    }

    /// The numbers of the locks, which stay locked until [`KeyLocks::release`].
    pub(super) fn into_numbers(mut self) -> impl Iterator<Item = usize> {
        self.first.take().into_iter().chain(std::mem::take(&mut self.rest))
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.first.iter().chain(&self.rest).for_each(|&number| self.locks.release(number));
    }
}

/// Which lock a key has, in whichever database.
fn number(key: &[u8]) -> usize {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for chunk in key.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        // Both halves of the product: the lower one alone does not depend on a word's last bytes,
        // in which sequential keys differ.
        let word = u128::from(hash ^ u64::from_le_bytes(word));
        let product = word * u128::from(0x9e37_79b9_7f4a_7c15_u64);
        hash = product as u64 ^ (product >> 64) as u64;
    }
    (hash >> (u64::BITS - LOCK_BITS)) as usize
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

    #[pumice_test_macros::test]
    fn what_is_locked_is_not_waited_for() {
        let locks = KeyLocks::default();
        let names = ["a", "b", "a", "c"];
        let keys = || names.iter().map(|name| name.as_bytes());
        let (held, count) = locks.free_ones(keys());
        assert_eq!(count, 2, "the second a has the lock of the first");
        assert_eq!(locks.free_ones([&b"b"[..]].into_iter()).1, 0);
        drop(held);
        let held = locks.one(b"b");
        assert_eq!(locks.free_ones(keys()).1, 1);
        drop(held);
        drop(locks.many(keys()));
    }

    /// Whichever part of the keys is sequential, writers of different keys seldom share a lock.
    #[pumice_test_macros::test]
    fn keys_that_are_counted_have_locks_of_their_own() {
        const KEYS: usize = 1 << LOCK_BITS;
        let shapes: [fn(usize) -> String; 6] = [
            |n| format!("key:{n:012}"),
            |n| format!("{n}"),
            |n| format!("user:{n}:name"),
            |n| format!("{n:08}:a longer tail that is always the same"),
            |n| format!("session:{:016x}", n << 20),
            |n| format!("{{tag}}{n:09}"),
        ];
        for shape in shapes {
            let mut holders = vec![0_usize; KEYS];
            (0..KEYS).for_each(|n| holders[number(shape(n).as_bytes())] += 1);
            let used = holders.iter().filter(|count| **count > 0).count();
            // Random choice uses 63 of 100, and the fullest lock has some ten keys.
            assert!(used > KEYS * 60 / 100, "{}: {used} locks", shape(0));
            assert!(holders.iter().all(|count| *count < 20), "{}", shape(0));
        }
    }
}
