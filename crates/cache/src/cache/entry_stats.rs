//! The contents of a cache, summed up by role.
//!
//! The sums come from walking the whole table, which pins every entry for a moment; so a collection
//! is kept and reused until it is old, in absolute time and relative to its cost.
//!
//! Thread safety: any thread; collections run one at a time; a concurrent caller waits for the
//! running one. Does not suspend otherwise.

use pumice_port::sync::Mutex;
use pumice_port::time;

use super::charge::ChargedRole;

/// How old kept sums may be. The numbers are RocksDB's.
#[derive(Clone, Copy, Debug)]
pub struct StatsAge {
    /// Microseconds for which any collection is valid.
    pub min_micros: u64,
    /// Multiple of the collection's duration for which it is valid, if that is longer.
    pub times_duration: u64,
}

impl StatsAge {
    /// For a direct request for the sums: ten seconds, a tenth of the time spent walking.
    pub const ASKED: StatsAge = StatsAge { min_micros: 10_000_000, times_duration: 10 };
    /// For reports that contain them among other things: three minutes, a five-hundredth.
    pub const ASIDE: StatsAge = StatsAge { min_micros: 180_000_000, times_duration: 500 };
}

/// Entries of one role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoleSum {
    /// How many.
    pub entries: u64,
    /// The sum of the charges of these entries.
    pub bytes: u64,
}

/// The state of a cache when its entries were last summed up.
#[derive(Clone, Debug, Default)]
pub struct EntryStats {
    /// Sums by number of the role.
    pub roles: Vec<RoleSum>,
    /// Memory charged to the cache, by [`ChargedRole`].
    pub charges: [RoleSum; ChargedRole::ALL.len()],
    /// Bytes that entries may be charged.
    pub capacity: u64,
    /// Bytes that are charged.
    pub usage: u64,
    /// Slots.
    pub table_len: u64,
    /// Entries, those outside the table included.
    pub occupancy: u64,
    /// Collections so far, this one included.
    pub collections: u64,
    /// How often this collection was reused.
    pub copies: u64,
    /// Duration of the collection, microseconds.
    pub duration_micros: u64,
    /// When it ended, monotonic microseconds.
    pub ended_micros: u64,
}

/// The last collection, none at first.
#[derive(Default)]
pub(crate) struct Collector(Mutex<EntryStats>);

impl Collector {
    /// The last collection, or if `age` does not allow it a new one: what `sum` returns, which
    /// leaves the fields from `collections` on to this.
    pub(crate) fn collect(&self, age: StatsAge, sum: impl FnOnce() -> EntryStats) -> EntryStats {
        let mut kept = self.0.lock();
        let started = time::now_micros();
        let good_for = age.min_micros.max(kept.duration_micros.saturating_mul(age.times_duration));
        if kept.collections > 0 && started < kept.ended_micros.saturating_add(good_for) {
            kept.copies += 1;
            return kept.clone();
        }
        let sums = sum();
        let ended = time::now_micros();
        *kept = EntryStats {
            collections: kept.collections + 1,
            copies: 0,
            duration_micros: ended - started,
            ended_micros: ended,
            ..sums
        };
        kept.clone()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Cache, CacheKey, CacheOptions, Priority};

    #[pumice_test_macros::test]
    fn sums_are_kept_until_they_are_old() {
        let cache = Cache::<u32>::new(CacheOptions::new(1 << 20));
        for n in 0..30u64 {
            cache
                .insert(CacheKey(n, n), n as u32 % 3, 100 + n as usize % 3, Priority::Low)
                .unwrap();
        }
        let now = StatsAge { min_micros: 0, times_duration: 0 };
        let collect = |age| cache.entry_stats(age, 4, |value| *value as usize);
        let sum = |entries, bytes| RoleSum { entries, bytes };
        let first = collect(StatsAge::ASKED);
        assert_eq!(first.roles, [sum(10, 1000), sum(10, 1010), sum(10, 1020), sum(0, 0)]);
        assert_eq!((first.collections, first.copies, first.occupancy), (1, 0, 30));
        assert_eq!((first.usage, first.capacity), (3030, 1 << 20));

        cache.insert(CacheKey(99, 99), 3, 7, Priority::Low).unwrap();
        let again = collect(StatsAge::ASIDE);
        assert_eq!((again.roles[3], again.copies, again.collections), (sum(0, 0), 1, 1));
        let fresh = collect(now);
        assert_eq!((fresh.roles[3], fresh.copies, fresh.collections), (sum(1, 7), 0, 2));
        // The cost of a walk counts too.
        let mut slow = fresh.clone();
        slow.duration_micros = 1 << 40;
        *cache.collector().0.lock() = slow;
        let costly = StatsAge { min_micros: 0, times_duration: 2 };
        assert_eq!(collect(costly).collections, 2);
        assert_eq!(collect(now).collections, 3);
    }
}
