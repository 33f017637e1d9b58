//! The cache's public interface: options, lookup, insert, and in its files what is charged to a
//! cache, what it counts, and a simulation of another one.
//!
//! Thread safety: all methods from any thread. Invariant: `table` is valid while the cache lives,
//! which owns one count of it (head of `hash_table`).

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use pumice_base::{Error, ErrorKind, Result, SubCode};
use pumice_port::sync::Mutex;

use crate::admission::Admission;
use crate::handle::{Handle, Ref};
use crate::hash_table::{EvictionHandler, HashTable};
use crate::key::{CacheKey, Priority};
use crate::memory;

mod charge;
mod entry_stats;
mod secondary;
mod simulation;
mod tiered;

use charge::Charges;
pub use charge::{ChargedRole, MemoryAccount, Reservation, UsageCharge};
use entry_stats::Collector;
pub use entry_stats::{EntryStats, RoleSum, StatsAge};
use secondary::Spilling;
pub use secondary::{
    CompressedSecondaryCache, CompressedSecondaryCacheOptions, SecondaryLookup, Spill,
};
pub use simulation::Simulation;
use tiered::Budget;
pub use tiered::{TieredAdmissionPolicy, TieredCacheOptions};

/// A cache of this many bytes is a large one.
const LARGE_BYTES: usize = 16 << 20;

/// Charge per entry that sizes the table when none is given: one default data block.
const ESTIMATED_ENTRY_CHARGE: usize = 4096;
/// The same with a secondary cache, for whose blocks there are dummies.
const ESTIMATED_WITH_DUMMIES: usize = 1024;

/// How a cache is made.
///
/// ```
/// # use pumice_cache::CacheOptions;
/// let strict = CacheOptions { strict_capacity_limit: true, ..CacheOptions::new(64 << 20) };
/// assert_eq!(strict.capacity, 64 << 20);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// Limit of the total charge of entries and reservations, bytes.
    pub capacity: usize,
    /// Mean charge of an entry, which limits the number of slots; 0: 4 KiB.
    pub estimated_entry_charge: usize,
    /// Fail inserts that would exceed the capacity instead of exceeding it.
    pub strict_capacity_limit: bool,
}

impl CacheOptions {
    /// A cache of that many bytes, sized for data blocks, that may exceed them.
    pub const fn new(capacity: usize) -> Self {
        CacheOptions { capacity, estimated_entry_charge: 0, strict_capacity_limit: false }
    }
}

/// A concurrent cache of `V`s. See the head of the crate.
///
/// What every lookup needs is first, in one cache line.
#[repr(C)]
pub struct Cache<V: Send + Sync + 'static> {
    table: NonNull<HashTable<V>>,
    simulation: Option<Box<Simulation>>,
    secondary: Option<Arc<CompressedSecondaryCache>>,
    strict: bool,
    next_id: AtomicU64,
    admission: Admission,
    collector: Collector,
    charges: Charges,
    /// Of a tiered cache.
    budget: Option<Budget>,
    /// What charges the usage of this cache to others.
    pub(crate) charged_to: Mutex<Vec<Weak<UsageCharge<V>>>>,
}

// SAFETY: the table is atomics and values that are Send and Sync.
unsafe impl<V: Send + Sync + 'static> Send for Cache<V> {}
// SAFETY: as above.
unsafe impl<V: Send + Sync + 'static> Sync for Cache<V> {}

impl<V: Send + Sync + 'static> std::fmt::Debug for Cache<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("capacity", &self.capacity()).finish_non_exhaustive()
    }
}

impl<V: Send + Sync + 'static> Cache<V> {
    /// An empty cache.
    pub fn new(options: CacheOptions) -> Arc<Self> {
        Self::with(options, None, None, None)
    }

    /// An empty cache that also counts the hits that one of `capacity` bytes would have had.
    pub fn simulating(options: CacheOptions, capacity: usize) -> Arc<Self> {
        let simulated = CacheOptions { capacity, strict_capacity_limit: false, ..options };
        Self::with(options, Some(Box::new(Simulation::new(simulated))), None, None)
    }

    fn with(
        options: CacheOptions,
        simulation: Option<Box<Simulation>>,
        secondary: Option<(Arc<CompressedSecondaryCache>, Box<dyn EvictionHandler<V>>)>,
        budget: Option<Budget>,
    ) -> Arc<Self> {
        let charge = match options.estimated_entry_charge {
            0 if secondary.is_some() => ESTIMATED_WITH_DUMMIES,
            0 => ESTIMATED_ENTRY_CHARGE,
            given => given,
        };
        let (secondary, on_eviction) = secondary.unzip();
        Arc::new(Cache {
            table: HashTable::new(options.capacity, options.capacity / charge, on_eviction),
            simulation,
            secondary,
            strict: options.strict_capacity_limit,
            next_id: AtomicU64::new(1),
            admission: Admission::new(),
            collector: Collector::default(),
            charges: Charges::default(),
            budget,
            charged_to: Mutex::default(),
        })
    }

    /// An empty cache that offers what it evicts to a secondary one of its own. Whoever misses an
    /// entry here looks it up [there](Self::secondary_cache).
    ///
    /// # Errors
    /// As [`CompressedSecondaryCache::new`].
    pub fn with_secondary(
        options: CacheOptions,
        secondary: &CompressedSecondaryCacheOptions,
    ) -> Result<Arc<Self>>
    where
        V: Spill,
    {
        Self::spilling(options, secondary, TieredAdmissionPolicy::Placeholder, None)
    }

    fn spilling(
        options: CacheOptions,
        secondary: &CompressedSecondaryCacheOptions,
        policy: TieredAdmissionPolicy,
        budget: Option<Budget>,
    ) -> Result<Arc<Self>>
    where
        V: Spill,
    {
        let secondary = Arc::new(CompressedSecondaryCache::new(secondary)?);
        let on_eviction = Box::new(Spilling::new(Arc::clone(&secondary), policy));
        Ok(Self::with(options, None, Some((secondary, on_eviction)), budget))
    }

    /// The secondary cache, if there is one.
    #[inline]
    pub fn secondary_cache(&self) -> Option<&CompressedSecondaryCache> {
        self.secondary.as_deref()
    }

    #[inline]
    pub(crate) fn table(&self) -> &HashTable<V> {
        // SAFETY: the head's invariant.
        unsafe { self.table.as_ref() }
    }

    /// The entry under `key`, pinned until the result is dropped.
    #[inline]
    pub fn lookup(&self, key: &CacheKey) -> Option<Ref<'_, V>> {
        self.table().lookup(*key).map(|slot| Ref::new(self.table, slot))
    }

    /// The entry under `key` as an owned pin.
    #[inline]
    pub fn lookup_owned(&self, key: &CacheKey) -> Option<Handle<V>> {
        self.lookup(key).map(Ref::into_handle)
    }

    /// The entry under `key`, which would be charged about `charge` bytes and inserted with this
    /// priority, was missed, and inserting it is optional: true if the caller should. Always true
    /// while there is room; in a full cache the policy in `admission` decides. One larger than the
    /// cache should be inserted only with `strict_capacity_limit`, so that its insertion fails.
    /// Call this once per miss.
    pub fn admits(&self, key: &CacheKey, charge: usize, priority: Priority) -> bool {
        let table = self.table();
        if !table.is_full(charge) {
            return true;
        }
        let admitted = match charge > table.capacity() {
            true => self.strict,
            // The secondary cache has a policy of its own, for what is evicted here.
            false if self.secondary.is_some() => true,
            false => {
                let (hash, share) = (key.hash(), self.admission.of(priority));
                share.decide(hash, || table.note_miss(hash, priority))
            }
        };
        if let Some(simulation) = self.simulation().filter(|_| !admitted) {
            simulation.add(*key, charge, priority);
        }
        admitted
    }

    /// The simulated cache, if there is one. Who looks up entries for readers tells it of each
    /// lookup; insertions and erasures are passed on to it.
    #[inline]
    pub fn simulation(&self) -> Option<&Simulation> {
        self.simulation.as_deref()
    }

    /// Stores `value` under `key`, replacing any existing entry, and pins it.
    ///
    /// When the table has no slot left to free, or everything in it is pinned, the handle is
    /// standalone: charged, but lookups do not find the entry. Two threads that insert one key at
    /// the same moment may both succeed; lookups then find either, `erase` removes both.
    ///
    /// # Errors
    /// With `strict_capacity_limit`: `Aborted` with subcode `MemoryLimit` if the charge does not
    /// fit; the value is dropped.
    pub fn insert(
        &self,
        key: CacheKey,
        value: V,
        charge: usize,
        priority: Priority,
    ) -> Result<Handle<V>> {
        self.insert_or_return(key, value, charge, priority).map_err(|_| full())
    }

    /// As [`Cache::insert`], but gives a value back that does not fit.
    ///
    /// # Errors
    /// The value.
    pub fn insert_or_return(
        &self,
        key: CacheKey,
        value: V,
        charge: usize,
        priority: Priority,
    ) -> std::result::Result<Handle<V>, V> {
        if let Some(simulation) = self.simulation() {
            simulation.add(key, charge, priority);
        }
        let table = self.table();
        if !table.charge(charge, self.strict) {
            return Err(value);
        }
        table.erase(key);
        match table.place(key, value, charge, priority) {
            Ok(slot) => Ok(Handle::new(self.table, NonNull::from(slot))),
            Err(value) if self.strict => {
                table.discharge(charge);
                Err(value)
            }
            Err(value) => Ok(Handle::new(self.table, table.place_standalone(key, value, charge))),
        }
    }

    /// A value that lookups do not find, charged until its pins are dropped.
    ///
    /// # Errors
    /// With `strict_capacity_limit`: the value, if the charge does not fit.
    pub fn insert_standalone(
        &self,
        key: CacheKey,
        value: V,
        charge: usize,
    ) -> std::result::Result<Handle<V>, V> {
        let table = self.table();
        if !table.charge(charge, self.strict) {
            return Err(value);
        }
        Ok(Handle::new(self.table, table.place_standalone(key, value, charge)))
    }

    /// Removes the entry under `key`; existing pins stay valid. True if there was one.
    pub fn erase(&self, key: &CacheKey) -> bool {
        if let Some(simulation) = self.simulation() {
            simulation.erase(key);
        }
        self.table().erase(*key)
    }
    /// Removes every entry that can be found.
    pub fn erase_all(&self) {
        if let Some(simulation) = self.simulation() {
            simulation.erase_all();
        }
        self.table().erase_all();
        memory::trim();
    }

    /// Sum of the charges of all entries and reservations, bytes.
    pub fn usage(&self) -> usize {
        self.table().usage()
    }
    /// The part of `usage` that cannot be evicted now, bytes. Walks the whole table.
    pub fn pinned_usage(&self) -> usize {
        self.table().pinned_usage()
    }
    /// The limit of `usage`, bytes.
    pub fn capacity(&self) -> usize {
        self.table().capacity()
    }
    /// Changes the limit and evicts down to it. The largest number of slots stays as it was made.
    /// That of a tiered cache is the one of both caches together.
    pub fn set_capacity(&self, capacity: usize) {
        match (&self.budget, self.secondary_cache()) {
            (Some(budget), Some(secondary)) => {
                budget.set_capacity(self.table(), secondary, capacity);
            }
            _ => self.table().set_capacity(capacity),
        }
        memory::trim();
    }
    /// Large enough that its blocks are better in huge pages, of which a part is always unused; see
    /// [`BlockBytes::packed`](crate::BlockBytes::packed).
    pub fn is_large(&self) -> bool {
        self.capacity() >= LARGE_BYTES
    }
    /// Inserts fail rather than exceed the capacity.
    pub fn strict_capacity_limit(&self) -> bool {
        self.strict
    }
    /// Number of entries, standalone ones included.
    pub fn occupancy(&self) -> usize {
        self.table().occupancy()
    }
    /// Number of slots in use: as many as the entries needed at their most, up to the number that
    /// the capacity and the estimated charge gave when the cache was made.
    pub fn table_len(&self) -> usize {
        self.table().len()
    }
    /// Calls `f` with key, charge and value of every entry that can be found.
    pub fn for_each(&self, mut f: impl FnMut(&CacheKey, usize, &V)) {
        self.table().for_each(&mut f);
    }

    /// Sums by role, not older than `age` allows. `role_of` numbers the roles, `roles` of them;
    /// every caller must number them alike. Waits for a collection that is under way.
    ///
    /// # Panics
    /// If `role_of` returns a number that is not below `roles`.
    pub fn entry_stats(
        &self,
        age: StatsAge,
        roles: usize,
        role_of: impl Fn(&V) -> usize,
    ) -> EntryStats {
        self.collector.collect(age, || {
            let mut sums = vec![RoleSum::default(); roles];
            self.for_each(|_, charge, value| {
                let sum = &mut sums[role_of(value)];
                sum.entries += 1;
                sum.bytes += charge as u64;
            });
            EntryStats {
                roles: sums,
                charges: self.charges.sums(),
                capacity: self.capacity() as u64,
                usage: self.usage() as u64,
                table_len: self.table_len() as u64,
                occupancy: self.occupancy() as u64,
                ..EntryStats::default()
            }
        })
    }

    /// The last sums of `entry_stats`.
    #[cfg(test)]
    pub(crate) fn collector(&self) -> &Collector {
        &self.collector
    }

    /// Sum of all slots' displacement counts.
    #[cfg(test)]
    pub(crate) fn displacements(&self) -> u64 {
        self.table().displacements()
    }

    /// A number that no other call on this cache returns, for cache keys. Never 0.
    pub fn new_id(&self) -> u64 {
        self.next_id.fetch_add(1, Relaxed)
    }
}

impl<V: Send + Sync + 'static> Drop for Cache<V> {
    fn drop(&mut self) {
        self.table().erase_all();
        memory::trim();
        // SAFETY: the cache's own count; pinned entries keep the table if there are any.
        unsafe { HashTable::release(self.table) };
    }
}

fn full() -> Error {
    // The text users of strict_capacity_limit know from RocksDB.
    Error::new(ErrorKind::Aborted, "Insert failed due to LRU cache being full.")
        .with_subcode(SubCode::MemoryLimit)
}
