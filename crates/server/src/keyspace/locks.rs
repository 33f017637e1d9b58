//! Locks of keys: a writer holds those of all keys it may change while it reads, decides and writes
//! them.
//!
//! Keys share a fixed number of locks. Several are taken in the order of their numbers, each once,
//! so two writers cannot wait for each other. Readers take none: one read of the engine is atomic,
//! and several use a snapshot.
//!
//! A lock is an index into the table, so that a leader that writes for others can release theirs.
//! The group of writes that holds a lock may let several clients write under it, one after the
//! other, and then pass it on to the next group of its loop (`chain`); a mark next to the lock says
//! which group had it last, and which string that group writes last under it.
//!
//! Thread safety: may be shared. Locking suspends.

use std::sync::atomic::{AtomicU64, Ordering};

use pumice_port::sync::Semaphore;

/// Locks that all keys share, as a power of two: 2 MiB. A writer holds its lock while its group
/// is logged, and a writer that finds it held waits for another group; of a thousand concurrent
/// writers one in sixty-five does.
const LOCK_BITS: u32 = 16;

/// Strings that a group may have: their numbers must fit a mark, whose other bits suffice for the
/// numbers of all chains' groups, a hundred thousand a second in each, for ten years.
pub(super) const STRINGS_MAX: usize = 1 << STRING_BITS;
const STRING_BITS: u32 = 13;

/// Chains of groups.
pub(super) const CHAINS: usize = 64;

/// See the module's head.
pub struct KeyLocks(Vec<Lock>);

struct Lock {
    permit: Semaphore,
    /// The number of the group that used it last, and that of its last string under it in the low
    /// bits. Changed for a group that holds it, with the chain of that group locked.
    mark: AtomicU64,
}

/// Locks that are held until it is dropped.
#[must_use = "dropping it unlocks"]
pub struct Held<'a> {
    locks: &'a KeyLocks,
    first: Option<usize>,
    rest: Vec<usize>,
    common: Vec<usize>,
    has_twins: bool,
}

/// The groups of a chain that are not over, at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Living {
    /// The chain.
    pub(super) chain: u64,
    /// The last of its groups that is over.
    pub(super) over: u64,
}

/// The number of the group `position` of a chain: positions from 1 on, none of them twice.
pub(super) fn group_number(chain: u64, position: u64) -> u64 {
    debug_assert!(chain < CHAINS as u64);
    position * CHAINS as u64 + chain
}

impl Living {
    /// The group of that number is one of them.
    fn has(self, group: u64) -> bool {
        group % CHAINS as u64 == self.chain && group > self.over
    }
}

impl Default for KeyLocks {
    /// All free.
    fn default() -> KeyLocks {
        let lock = |_| Lock { permit: Semaphore::new(1), mark: AtomicU64::new(0) };
        KeyLocks((0..1 << LOCK_BITS).map(lock).collect())
    }
}

impl KeyLocks {
    /// Locks one key.
    pub fn one(&self, key: &[u8]) -> Held<'_> {
        let number = number(key);
        self.0[number].permit.acquire(1);
        self.held(Some(number), Vec::new())
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

    /// Returns once everybody is done who held a lock when it was called. Locks one key after the
    /// other, so that nobody waits for long.
    pub fn settle(&self) {
        for lock in &self.0 {
            lock.permit.acquire(1);
            lock.permit.release(1);
        }
    }

    /// Locks as many of these keys, from the first on, as are not locked, each by a lock of its
    /// own, and says how many. With `living`, keys whose lock one of those groups has count as free
    /// too, and so do keys of one lock: what is returned then is for a string's
    /// [group](super::Keyspace::set_run) alone. A lock for which a task waits is not shared any
    /// further. Never waits, so the caller may hold other locks.
    pub fn free_ones<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        living: Option<Living>,
    ) -> (Held<'_>, usize) {
        let mut held = self.held(None, Vec::new());
        let mut count = 0;
        for number in keys.map(number) {
            if self.0[number].permit.try_acquire(1) {
                held.rest.push(number);
            } else {
                let Some(living) = living else { break };
                if held.rest.contains(&number) || held.common.contains(&number) {
                    held.has_twins = true;
                } else if self.is_of(number, living) && !self.0[number].permit.is_awaited() {
                    held.common.push(number);
                } else {
                    break;
                }
            }
            count += 1;
        }
        (held, count)
    }

    /// Records that `string` of `group`, which holds the key's lock, is the last one under it, and
    /// returns the one before it.
    pub(super) fn mark(&self, key: &[u8], group: u64, string: usize) -> Option<usize> {
        debug_assert!(string < STRINGS_MAX);
        let mark = &self.0[number(key)].mark;
        let last = mark.load(Ordering::Relaxed);
        mark.store(group << STRING_BITS | string as u64, Ordering::Relaxed);
        (last >> STRING_BITS == group).then_some(last as usize % STRINGS_MAX)
    }

    /// The group that marked a lock last.
    pub(super) fn marked_by(&self, number: usize) -> u64 {
        self.0[number].mark.load(Ordering::Relaxed) >> STRING_BITS
    }

    /// One of these groups holds the lock: a group holds what it has marked until it is over.
    pub(super) fn is_of(&self, number: usize, living: Living) -> bool {
        living.has(self.marked_by(number))
    }

    fn held(&self, first: Option<usize>, rest: Vec<usize>) -> Held<'_> {
        Held { locks: self, first, rest, common: Vec::new(), has_twins: false }
    }

    fn take(&self, rest: Vec<usize>) -> Held<'_> {
        rest.iter().for_each(|&number| self.0[number].permit.acquire(1));
        self.held(None, rest)
    }

    /// Releases a lock that [`Held::into_numbers`] has returned.
    pub(super) fn release(&self, number: usize) {
        self.0[number].permit.release(1);
    }
}

impl Held<'_> {
    /// The lock is that of one key.
    pub fn is_one(&self) -> bool {
        self.first.is_some()
    }

    /// It cannot be used without the groups that have some of the locks, or a group's order.
    pub fn needs_group(&self) -> bool {
        self.has_twins || !self.common.is_empty()
    }

    /// The numbers of locks that groups have.
    pub(super) fn common(&self) -> &[usize] {
        &self.common
    }

    /// The numbers of the locks, which stay locked until [`KeyLocks::release`], and of the
    /// [common](Held::common) ones.
    pub(super) fn into_numbers(mut self) -> (impl Iterator<Item = usize>, Vec<usize>) {
        let common = std::mem::take(&mut self.common);
        (self.first.take().into_iter().chain(std::mem::take(&mut self.rest)), common)
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
        let (held, count) = locks.free_ones(keys(), None);
        assert_eq!(count, 2, "the second a has the lock of the first");
        assert_eq!(locks.free_ones([&b"b"[..]].into_iter(), None).1, 0);
        drop(held);
        let held = locks.one(b"b");
        assert_eq!(locks.free_ones(keys(), None).1, 1);
        drop(held);
        drop(locks.many(keys()));
    }

    #[pumice_test_macros::test]
    fn what_a_living_group_has_marked_is_free_for_its_chain() {
        let locks = KeyLocks::default();
        let names = ["a", "b", "a", "c"];
        let free = |chain: u64, over: u64| {
            let living = Living { chain, over: group_number(chain, over) };
            let (held, count) =
                locks.free_ones(names.iter().map(|name| name.as_bytes()), Some(living));
            (count, held.common().len())
        };
        let own = locks.one(b"b");
        assert_eq!(free(5, 6), (1, 0), "no group has marked it");
        assert_eq!(locks.mark(b"b", group_number(5, 7), 3), None);
        assert_eq!(locks.mark(b"b", group_number(5, 7), 4), Some(3));
        assert_eq!(free(5, 6), (4, 1));
        assert_eq!(free(5, 7), (1, 0), "that group is over");
        assert_eq!(free(4, 6), (1, 0), "another chain");
        assert_eq!(locks.mark(b"b", group_number(5, 8), 0), None);
        assert_eq!(free(5, 7), (4, 1));
        drop(own);
        assert_eq!(free(4, 6), (4, 0));
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
