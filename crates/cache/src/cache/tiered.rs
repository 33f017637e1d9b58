//! A cache and its secondary cache under one budget: RocksDB's tiered cache.
//!
//! The capacity of the cache is the whole budget; the part that is the secondary cache's is
//! reserved in it. Memory that others reserve, that of memtables for instance, is taken from both
//! in the same proportion: of every whole [`CHUNK`] of it the secondary cache's part is reserved
//! there, and given back here.
//!
//! ```text
//! capacity: | held for the secondary cache | blocks | reserved by others |
//! held = (capacity - whole chunks of what others reserved) * ratio
//! ```
//!
//! Thread safety: any thread. Who reserves does not wait: whoever shares out at that moment does
//! so again. Invariant: what is held here and what others reserved there are together the secondary
//! cache's capacity. Not here: a third tier, and so the policy `kAdmPolicyThreeQueue`; RocksDB's
//! `UpdateTieredCache`, except the capacity.

use std::sync::Arc;
use std::sync::atomic::{
    AtomicUsize,
    Ordering::{Relaxed, SeqCst},
    fence,
};

use pumice_base::Result;
use pumice_port::sync::Mutex;

use super::secondary::{CompressedSecondaryCache, CompressedSecondaryCacheOptions, Spill};
use super::{Cache, CacheOptions};
use crate::hash_table::HashTable;

/// Reservations of others are distributed in multiples of this many bytes.
const CHUNK: usize = 1 << 20;

/// Which evicted blocks the secondary cache of a tiered cache takes.
///
/// Example: that of [`TieredCacheOptions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TieredAdmissionPolicy {
    /// As `Placeholder`.
    #[default]
    Auto,
    /// Those that are evicted a second time.
    Placeholder,
    /// Also those that were found in the block cache since they came into it.
    AllowCacheHits,
    /// All.
    AllowAll,
}

impl TieredAdmissionPolicy {
    /// A block need not be evicted a second time.
    pub(super) fn takes_at_once(self, was_hit: bool) -> bool {
        match self {
            TieredAdmissionPolicy::Auto | TieredAdmissionPolicy::Placeholder => false,
            TieredAdmissionPolicy::AllowCacheHits => was_hit,
            TieredAdmissionPolicy::AllowAll => true,
        }
    }
}

/// How the tiers of a cache are made: RocksDB's options of the name.
///
/// ```
/// # use pumice_cache::{TieredAdmissionPolicy, TieredCacheOptions};
/// let tiers = TieredCacheOptions {
///     adm_policy: TieredAdmissionPolicy::AllowAll,
///     ..TieredCacheOptions::new(0.25)
/// };
/// assert_eq!(tiers.compressed_secondary_ratio, 0.25);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TieredCacheOptions {
    /// The part of the capacity that is the secondary cache's, 0 to 1.
    pub compressed_secondary_ratio: f64,
    /// What the secondary cache takes.
    pub adm_policy: TieredAdmissionPolicy,
    /// The secondary cache; its capacity does not matter.
    pub comp_cache_opts: CompressedSecondaryCacheOptions,
}

impl TieredCacheOptions {
    /// A secondary cache that has that part of the capacity.
    pub fn new(compressed_secondary_ratio: f64) -> Self {
        TieredCacheOptions {
            compressed_secondary_ratio,
            adm_policy: TieredAdmissionPolicy::default(),
            comp_cache_opts: CompressedSecondaryCacheOptions::new(0),
        }
    }
}

/// How the budget is shared.
pub(super) struct Budget {
    ratio: f64,
    /// Bytes that others reserved.
    reserved: AtomicUsize,
    shares: Mutex<Shares>,
}

/// Bytes.
#[derive(Default)]
struct Shares {
    /// In the cache, for the secondary one.
    held: usize,
    /// In the secondary cache, for others.
    deflated: usize,
}

impl Budget {
    fn new(ratio: f64) -> Self {
        let reserved = AtomicUsize::new(0);
        Budget { ratio: ratio.clamp(0.0, 1.0), reserved, shares: Mutex::default() }
    }

    /// The secondary cache's part of `bytes`.
    fn part(&self, bytes: usize) -> usize {
        ((bytes as f64 * self.ratio) as usize).min(bytes)
    }

    /// Shares out what others have reserved now.
    fn balance<V>(&self, table: &HashTable<V>, secondary: &CompressedSecondaryCache) {
        let mut shared_out = None;
        loop {
            // Orders the change of `reserved`, or the end of the lock, before what is read below:
            // either this task has the lock, or the one that has it sees the change.
            fence(SeqCst);
            let reserved = self.reserved.load(Relaxed);
            if shared_out == Some(reserved) {
                return;
            }
            let Some(mut shares) = self.shares.try_lock() else { return };
            self.share(&mut shares, reserved, table, secondary);
            shared_out = Some(reserved);
        }
    }

    /// Both caches get their part of `capacity`.
    pub(super) fn set_capacity<V>(
        &self,
        table: &HashTable<V>,
        secondary: &CompressedSecondaryCache,
        capacity: usize,
    ) {
        let mut shares = self.shares.lock();
        let (part, reserved) = (self.part(capacity), self.reserved.load(Relaxed));
        // The one that shrinks goes first, so that both stay within the larger budget.
        if part < secondary.capacity() {
            secondary.set_capacity(part);
            self.share(&mut shares, reserved, table, secondary);
        }
        table.set_capacity(capacity);
        secondary.set_capacity(part);
        self.share(&mut shares, reserved, table, secondary);
        drop(shares);
        self.balance(table, secondary);
    }

    fn share<V>(
        &self,
        shares: &mut Shares,
        reserved: usize,
        table: &HashTable<V>,
        secondary: &CompressedSecondaryCache,
    ) {
        let chunks = reserved.min(table.capacity()) / CHUNK * CHUNK;
        let deflated = self.part(chunks).min(secondary.capacity());
        let held = secondary.capacity() - deflated;
        secondary.reserve(&mut shares.deflated, deflated);
        reserve(table, &mut shares.held, held);
    }
}

/// Reserves `wanted` bytes of `table` in place of `now`.
pub(super) fn reserve<V>(table: &HashTable<V>, now: &mut usize, wanted: usize) {
    if wanted > *now {
        let granted = table.reserve(wanted - *now, false);
        debug_assert!(granted, "only a strict charge can fail");
    } else {
        table.unreserve(*now - wanted);
    }
    *now = wanted;
}

impl<V: Send + Sync + 'static> Cache<V> {
    /// An empty cache with a secondary one, both within the capacity of `options`; see the head of
    /// `tiered`.
    ///
    /// # Errors
    /// As [`CompressedSecondaryCache::new`].
    pub fn tiered(options: CacheOptions, tiers: &TieredCacheOptions) -> Result<Arc<Self>>
    where
        V: Spill,
    {
        let capacity = options.capacity;
        let budget = Budget::new(tiers.compressed_secondary_ratio);
        let mut secondary = tiers.comp_cache_opts.clone();
        secondary.capacity = budget.part(capacity);
        let cache = Self::spilling(options, &secondary, tiers.adm_policy, Some(budget))?;
        // Holds the secondary cache's part.
        cache.set_capacity(capacity);
        Ok(cache)
    }

    /// Others have reserved `change` more bytes here.
    fn note_reserved(&self, change: isize) {
        let (Some(budget), Some(secondary)) = (&self.budget, self.secondary_cache()) else {
            return;
        };
        let before = budget.reserved.fetch_add(change as usize, Relaxed);
        if before / CHUNK != before.wrapping_add_signed(change) / CHUNK {
            budget.balance(self.table(), secondary);
        }
    }

    /// Reserves bytes for others. With `strict`, false if they do not fit.
    pub(super) fn reserve(&self, bytes: usize, strict: bool) -> bool {
        let granted = self.table().reserve(bytes, strict);
        if granted {
            self.note_reserved(bytes as isize);
        }
        granted
    }

    /// Gives back bytes that others had reserved.
    pub(super) fn unreserve(&self, bytes: usize) {
        self.table().unreserve(bytes);
        self.note_reserved(-(bytes as isize));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use pumice_base::random::Rng;
    use pumice_compress::CompressionType;
    use pumice_port::thread;

    use super::*;
    use crate::{CacheKey, ChargedRole, MemoryAccount, Priority};

    /// Notes whether the secondary cache was to take it at once.
    struct Noted(Arc<Mutex<Vec<(u64, bool)>>>);

    impl Spill for Noted {
        fn spill(&self, key: &CacheKey, _: &CompressedSecondaryCache, at_once: bool) {
            self.0.lock().push((key.0, at_once));
        }
    }

    fn tiers(ratio: f64) -> TieredCacheOptions {
        let mut tiers = TieredCacheOptions::new(ratio);
        // Miri runs no C, and not every build has it.
        tiers.comp_cache_opts.compression_type = CompressionType::None;
        tiers
    }

    /// Reservations, accounts and capacities at random: each cache always has its part.
    #[pumice_test_macros::test]
    fn the_budget_is_shared() {
        for seed in 0..if cfg!(miri) { 2 } else { 30 } {
            let mut rng = Rng::new(seed);
            let ratio = rng.uniform(5) as f64 / 4.0;
            let mut total = (1 + rng.uniform(40) as usize) << 20;
            let cache = Cache::<Noted>::tiered(CacheOptions::new(total), &tiers(ratio)).unwrap();
            let second = cache.secondary_cache().unwrap();
            let (mut reserved, mut account) = (Vec::new(), 0);
            for step in 0..if cfg!(miri) { 20 } else { 300 } {
                let bytes = rng.uniform(3 << 20) as usize;
                match rng.uniform(10) {
                    0..4 => {
                        reserved.push(cache.try_reserve(ChargedRole::FileMetadata, bytes).unwrap())
                    }
                    4..7 if !reserved.is_empty() => {
                        drop(reserved.swap_remove(rng.uniform(reserved.len() as u64) as usize));
                    }
                    7 => {
                        cache.charge(bytes);
                        account += bytes;
                    }
                    8 => cache.discharge(std::mem::take(&mut account)),
                    _ => {
                        total = (rng.uniform(40) as usize) << 20;
                        cache.set_capacity(total);
                    }
                }
                let others = account + reserved.iter().map(|one| one.charge()).sum::<usize>();
                let chunks = others.min(total) >> 20 << 20;
                let part = |bytes: usize| (bytes as f64 * ratio) as usize;
                let what = format!("PUMICE_SEED={seed} step {step}");
                assert_eq!((cache.capacity(), second.capacity()), (total, part(total)), "{what}");
                assert_eq!(second.usage(), part(chunks), "{what}");
                assert_eq!(cache.usage(), others + part(total) - part(chunks), "{what}");
            }
            reserved.clear();
            cache.discharge(account);
            cache.set_capacity(0);
            assert_eq!((cache.usage(), second.usage()), (0, 0));
        }
    }

    /// Tasks that reserve at the same time leave the shares exact.
    #[pumice_test_macros::test]
    fn several_tasks_reserve() {
        let cache = Cache::<Noted>::tiered(CacheOptions::new(64 << 20), &tiers(0.25)).unwrap();
        let tasks: Vec<_> = (0..4u64)
            .map(|task| {
                let cache = Arc::clone(&cache);
                thread::spawn("reserving", move || {
                    let mut rng = Rng::new(task);
                    let mut held = Vec::new();
                    for _ in 0..if cfg!(miri) { 20 } else { 2000 } {
                        let bytes = rng.uniform(3 << 20) as usize;
                        held.push(cache.try_reserve(ChargedRole::FileMetadata, bytes).unwrap());
                        held.truncate(rng.uniform(6) as usize);
                    }
                    held
                })
            })
            .collect();
        let held: Vec<_> = tasks.into_iter().flat_map(|task| task.join().unwrap()).collect();
        let second = cache.secondary_cache().unwrap();
        let chunks = |bytes: usize| bytes.min(64 << 20) >> 20 << 20;
        let others = cache.charged_bytes(ChargedRole::FileMetadata);
        assert_eq!(second.usage(), chunks(others) / 4);
        assert_eq!(cache.usage(), others + (16 << 20) - chunks(others) / 4);
        drop(held);
        assert_eq!((cache.usage(), second.usage()), (16 << 20, 0));
    }

    /// Of eight entries every other one is found once or several times before all are evicted.
    #[pumice_test_macros::test]
    fn policies_say_what_is_taken_at_once() {
        use TieredAdmissionPolicy::{AllowAll, AllowCacheHits, Auto, Placeholder};
        for (adm_policy, unhit, hit) in [
            (Auto, false, false),
            (Placeholder, false, false),
            (AllowCacheHits, false, true),
            (AllowAll, true, true),
        ] {
            let noted = Arc::new(Mutex::new(Vec::new()));
            let tiers = TieredCacheOptions { adm_policy, ..tiers(0.5) };
            let cache = Cache::tiered(CacheOptions::new(1 << 20), &tiers).unwrap();
            for n in 0..8 {
                let priority = [Priority::High, Priority::Low, Priority::Bottom][n as usize % 3];
                drop(cache.insert(CacheKey(n, 0), Noted(noted.clone()), 100, priority).unwrap());
                for _ in 0..n % 2 * n {
                    assert!(cache.lookup(&CacheKey(n, 0)).is_some());
                }
            }
            cache.set_capacity(0);
            let mut evicted = std::mem::take(&mut *noted.lock());
            evicted.sort_unstable();
            let expected: Vec<_> =
                (0..8).map(|n| (n, if n % 2 == 1 { hit } else { unhit })).collect();
            assert_eq!(evicted, expected, "{adm_policy:?}");
        }
    }
}
