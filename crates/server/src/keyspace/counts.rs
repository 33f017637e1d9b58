//! How many keys each stored database has, and how many of them expire. Both include expired keys
//! that are not deleted yet.
//!
//! Writers change them with their batches, each by the difference between the old and the new
//! record. A clean end saves them, see [`Counts::to_bytes`].
//!
//! Thread safety: may be shared.

use std::ops::{AddAssign, Neg, Sub};
use std::sync::atomic::{AtomicI64, Ordering};

use super::DATABASES_MAX;
use super::encoding::Dead;
use super::slot::slot_of;

/// Numbers of keys, or changes of such numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// All.
    pub keys: i64,
    /// Keys that expire.
    pub expiring: i64,
}

impl Tally {
    /// One key that expires then, or never if it is 0.
    pub fn key(expires: u64) -> Tally {
        Tally { keys: 1, expiring: i64::from(expires != 0) }
    }
}

impl Neg for Tally {
    type Output = Tally;
    fn neg(self) -> Tally {
        Tally { keys: -self.keys, expiring: -self.expiring }
    }
}

impl Sub for Tally {
    type Output = Tally;
    fn sub(mut self, other: Tally) -> Tally {
        self += -other;
        self
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.keys += other.keys;
        self.expiring += other.expiring;
    }
}

/// What follows from a write once it is readable.
#[derive(Clone, Default)]
pub struct Changes {
    /// Changes of several databases, each stored one once.
    tallies: Vec<(u8, Tally)>,
    /// Slots in which keys expire, and when.
    pub(super) expiries: Vec<(u16, u64)>,
    /// Generations whose collections are gone.
    pub(super) dead: Vec<Dead>,
}

impl Changes {
    /// A key was written that expires then, unless it is 0.
    pub fn expires(&mut self, key: &[u8], expires: u64) {
        if expires != 0 {
            self.expiries.push((slot_of(key), expires));
        }
    }

    /// A change of a stored database.
    pub fn add(&mut self, stored: u8, change: Tally) {
        match self.tallies.iter_mut().find(|(db, _)| *db == stored) {
            Some((_, sum)) => *sum += change,
            None if change == Tally::default() => {}
            None => self.tallies.push((stored, change)),
        }
    }

    /// The change of a stored database.
    pub fn of(&self, stored: u8) -> Tally {
        let own = self.tallies.iter().find(|(db, _)| *db == stored);
        own.map_or(Tally::default(), |(_, sum)| *sum)
    }

    /// Takes all changes of `others`.
    pub fn append(&mut self, others: &mut Changes) {
        others.tallies.drain(..).for_each(|(stored, change)| self.add(stored, change));
        self.expiries.append(&mut others.expiries);
        self.dead.append(&mut others.dead);
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.tallies.clear();
        self.expiries.clear();
        self.dead.clear();
    }
}

/// See the module's head.
pub struct Counts {
    keys: Vec<AtomicI64>,
    expiring: Vec<AtomicI64>,
}

impl Default for Counts {
    /// No keys.
    fn default() -> Counts {
        let none = || (0..DATABASES_MAX).map(|_| AtomicI64::new(0)).collect();
        Counts { keys: none(), expiring: none() }
    }
}

impl Counts {
    /// The keys of a stored database.
    pub fn of(&self, stored: u8) -> Tally {
        let number = |of: &[AtomicI64]| of[usize::from(stored)].load(Ordering::Relaxed).max(0);
        Tally { keys: number(&self.keys), expiring: number(&self.expiring) }
    }

    /// There are keys that expire.
    pub fn has_expiring(&self) -> bool {
        self.expiring.iter().any(|count| count.load(Ordering::Relaxed) > 0)
    }

    /// Changes the numbers of a stored database.
    pub fn add(&self, stored: u8, change: Tally) {
        let at = usize::from(stored);
        self.keys[at].fetch_add(change.keys, Ordering::Relaxed);
        if change.expiring != 0 {
            self.expiring[at].fetch_add(change.expiring, Ordering::Relaxed);
        }
    }

    /// Changes the numbers of several.
    pub fn apply(&self, changes: &Changes) {
        changes.tallies.iter().for_each(|&(stored, change)| self.add(stored, change));
    }

    /// What a clean end saves: the keys of each stored database, then those that expire.
    pub fn to_bytes(&self) -> Vec<u8> {
        let all = self.keys.iter().chain(&self.expiring);
        all.flat_map(|count| count.load(Ordering::Relaxed).to_be_bytes()).collect()
    }

    /// Takes what [`Counts::to_bytes`] has made. False if it has only the first half, an earlier
    /// form, or is damaged; then nothing has changed.
    pub fn restore(&self, saved: &[u8]) -> bool {
        let (numbers, rest) = saved.as_chunks::<8>();
        if numbers.len() != 2 * DATABASES_MAX || !rest.is_empty() {
            return false;
        }
        for (count, bytes) in self.keys.iter().chain(&self.expiring).zip(numbers) {
            count.store(i64::from_be_bytes(*bytes), Ordering::Relaxed);
        }
        true
    }
}
