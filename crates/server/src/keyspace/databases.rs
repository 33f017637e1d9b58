//! Maps the numbers that SELECT takes to stored databases.
//!
//! Keys contain the number of the stored database. SWAPDB changes the mapping and rewrites no key:
//! the map is stored under a system key, and kept here for commands that begin.
//!
//! | state | readers that read several times |
//! |---|---|
//! | no swap since before the snapshot | takes the map from here |
//! | one under way, or just over | reads the map that its snapshot has |
//!
//! A command that reads once takes no lock either: it reads a snapshot if there was a swap
//! meanwhile.
//!
//! Thread safety: everything may be shared. A swap holds the locks of all keys.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use super::DATABASES_MAX;

/// The stored database of each number.
pub type Map = [u8; DATABASES_MAX];

/// See the module's head.
pub struct Databases {
    stored: Vec<AtomicU8>,
    swaps: AtomicU64,
    is_swapping: AtomicBool,
}

/// The identity map.
pub fn plain() -> Map {
    std::array::from_fn(|db| db as u8)
}

/// The map in the value of the system key; None if it is malformed.
pub fn from_bytes(bytes: &[u8]) -> Option<Map> {
    let map: Map = bytes.try_into().ok()?;
    let mut seen = [false; DATABASES_MAX];
    map.iter().for_each(|&stored| seen[usize::from(stored)] = true);
    seen.iter().all(|&seen| seen).then_some(map)
}

impl Databases {
    /// The databases of a keyspace that starts with `map`.
    pub fn new(map: &Map) -> Databases {
        Databases {
            stored: map.iter().map(|&stored| AtomicU8::new(stored)).collect(),
            swaps: AtomicU64::new(0),
            is_swapping: AtomicBool::new(false),
        }
    }

    /// The stored database of a number.
    pub fn stored(&self, db: u8) -> u8 {
        self.stored[usize::from(db)].load(Ordering::Relaxed)
    }

    /// The stored database of each number.
    pub fn map(&self) -> Map {
        std::array::from_fn(|db| self.stored(db as u8))
    }

    /// The number of a stored database.
    pub fn number_of(&self, stored: u8) -> u8 {
        let is = |own: &AtomicU8| own.load(Ordering::Relaxed) == stored;
        self.stored.iter().position(is).map_or(stored, |db| db as u8)
    }

    /// A number that changes with each swap; None while one is under way.
    pub fn version(&self) -> Option<u64> {
        // In this order: a swap that ends in between has already changed the number.
        let is_swapping = self.is_swapping.load(Ordering::SeqCst);
        let version = self.swaps.load(Ordering::SeqCst);
        (!is_swapping).then_some(version)
    }

    /// Writes a new map with `write` and takes it over if that worked. All keys are locked.
    ///
    /// # Errors
    /// The errors of `write`.
    pub fn swap<E>(&self, map: &Map, write: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        self.is_swapping.store(true, Ordering::SeqCst);
        let written = write();
        if written.is_ok() {
            for (own, stored) in self.stored.iter().zip(map) {
                own.store(*stored, Ordering::Relaxed);
            }
            self.swaps.fetch_add(1, Ordering::SeqCst);
        }
        self.is_swapping.store(false, Ordering::SeqCst);
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Plain #[test]: nothing here can suspend.
    #[test]
    fn only_permutations_are_maps() {
        let mut map = plain();
        assert_eq!(from_bytes(&map), Some(map));
        map.swap(0, 255);
        assert_eq!(from_bytes(&map), Some(map));
        map[3] = 4;
        assert_eq!(from_bytes(&map), None);
        assert_eq!(from_bytes(&[0; 16]), None);
    }
}
