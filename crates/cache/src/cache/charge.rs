//! Memory held elsewhere that is charged to a cache: reservations, which belong to one owner, and
//! accounts, which are shared.
//!
//! What is charged cannot be evicted. RocksDB charges in dummy entries of 256 KiB; here a charge
//! has the bytes that its owner states.
//!
//! Thread safety: any thread; a reservation has one owner. Invariant: the bytes of a role are the
//! sum of its reservations and accounts, and a part of the cache's usage. Nothing suspends, but
//! [`UsageCharge::refresh`] has a lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use pumice_base::Result;
use pumice_port::sync::Mutex;

use super::entry_stats::RoleSum;
use super::{Cache, full};

/// What memory that is charged to a cache is for (`CacheEntryRole` of RocksDB).
///
/// ```
/// # use pumice_cache::{Cache, CacheOptions, ChargedRole};
/// // How much of the block cache is taken by open tables.
/// let cache = Cache::<Vec<u8>>::new(CacheOptions::new(64 << 20));
/// assert_eq!(cache.charged_bytes(ChargedRole::BlockBasedTableReader), 0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChargedRole {
    /// Memtables, by an account.
    WriteBuffer,
    /// Data blocks that wait for the dictionary of their table.
    CompressionDictionaryBuildingBuffer,
    /// Filters under construction.
    FilterConstruction,
    /// Open tables.
    BlockBasedTableReader,
    /// Metadata of table files.
    FileMetadata,
    /// The contents of another cache.
    BlobCache,
}

impl ChargedRole {
    /// All roles, in the order of their numbers.
    pub const ALL: [ChargedRole; 6] = [
        ChargedRole::WriteBuffer,
        ChargedRole::CompressionDictionaryBuildingBuffer,
        ChargedRole::FilterConstruction,
        ChargedRole::BlockBasedTableReader,
        ChargedRole::FileMetadata,
        ChargedRole::BlobCache,
    ];

    /// RocksDB's name.
    pub const fn name(self) -> &'static str {
        match self {
            ChargedRole::WriteBuffer => "WriteBuffer",
            ChargedRole::CompressionDictionaryBuildingBuffer => {
                "CompressionDictionaryBuildingBuffer"
            }
            ChargedRole::FilterConstruction => "FilterConstruction",
            ChargedRole::BlockBasedTableReader => "BlockBasedTableReader",
            ChargedRole::FileMetadata => "FileMetadata",
            ChargedRole::BlobCache => "BlobCache",
        }
    }
}

/// What is charged, by role.
#[derive(Default)]
pub(crate) struct Charges([Charge; ChargedRole::ALL.len()]);

#[derive(Default)]
struct Charge {
    reservations: AtomicUsize,
    bytes: AtomicUsize,
}

impl Charges {
    fn of(&self, role: ChargedRole) -> &Charge {
        &self.0[role as usize]
    }

    /// Sums by role. The accounts of a role count as one entry.
    pub fn sums(&self) -> [RoleSum; ChargedRole::ALL.len()] {
        ChargedRole::ALL.map(|role| {
            let bytes = self.of(role).bytes.load(Relaxed) as u64;
            let reservations = self.of(role).reservations.load(Relaxed) as u64;
            RoleSum { entries: reservations.max(u64::from(bytes > 0)), bytes }
        })
    }
}

impl<V: Send + Sync + 'static> Cache<V> {
    /// Bytes of memory of that role charged to the cache.
    pub fn charged_bytes(&self, role: ChargedRole) -> usize {
        self.charges.of(role).bytes.load(Relaxed)
    }

    /// Charges `charge` bytes of memory held elsewhere until the result is dropped. 0 bytes always
    /// fit.
    ///
    /// # Errors
    /// As [`Reservation::try_set`].
    pub fn try_reserve(
        self: &Arc<Self>,
        role: ChargedRole,
        charge: usize,
    ) -> Result<Reservation<V>> {
        let mut reservation = self.reservation(role);
        reservation.try_set(charge)?;
        Ok(reservation)
    }

    /// A reservation of nothing yet.
    pub fn reservation(self: &Arc<Self>, role: ChargedRole) -> Reservation<V> {
        Reservation { cache: Arc::clone(self), role, charge: 0 }
    }

    /// Charges the usage of this cache to `cache`, once however often it is asked for; see
    /// [`UsageCharge`].
    pub fn charge_usage_to(self: &Arc<Self>, cache: &Arc<Cache<V>>) -> Arc<UsageCharge<V>> {
        let mut all = self.charged_to.lock();
        all.retain(|charge| charge.strong_count() > 0);
        let is_it = |charge: &Arc<UsageCharge<V>>| Arc::ptr_eq(&charge.to, cache);
        let charge = all.iter().filter_map(|charge| charge.upgrade()).find(is_it);
        let charge = charge.unwrap_or_else(|| {
            let new = Arc::new(UsageCharge {
                of: Arc::clone(self),
                to: Arc::clone(cache),
                charged: Mutex::foreground(cache.reservation(ChargedRole::BlobCache)),
            });
            all.push(Arc::downgrade(&new));
            new
        });
        drop(all);
        charge.refresh();
        charge
    }
}

/// Bytes charged to a cache for memory held elsewhere. Dropping it ends the charge.
pub struct Reservation<V: Send + Sync + 'static> {
    cache: Arc<Cache<V>>,
    role: ChargedRole,
    charge: usize,
}

impl<V: Send + Sync + 'static> Reservation<V> {
    /// The bytes.
    pub fn charge(&self) -> usize {
        self.charge
    }

    /// Changes the bytes.
    ///
    /// # Errors
    /// With `strict_capacity_limit`: `Aborted` with subcode `MemoryLimit` if they do not fit; the
    /// charge is as it was.
    pub fn try_set(&mut self, charge: usize) -> Result<()> {
        let (before, sum) = (self.charge, self.cache.charges.of(self.role));
        if charge == before {
            return Ok(());
        }
        if charge > before {
            if !self.cache.reserve(charge - before, self.cache.strict) {
                return Err(full());
            }
            sum.bytes.fetch_add(charge - before, Relaxed);
        } else {
            sum.bytes.fetch_sub(before - charge, Relaxed);
            self.cache.unreserve(before - charge);
        }
        if before == 0 {
            sum.reservations.fetch_add(1, Relaxed);
        } else if charge == 0 {
            sum.reservations.fetch_sub(1, Relaxed);
        }
        self.charge = charge;
        Ok(())
    }
}

impl<V: Send + Sync + 'static> Drop for Reservation<V> {
    fn drop(&mut self) {
        // Less always fits.
        self.try_set(0).ok();
    }
}

/// The usage of one cache charged to another, as of the last `refresh`: who adds to the cache calls
/// it, as RocksDB's `ChargedCache` does. Entries that were evicted since still count.
pub struct UsageCharge<V: Send + Sync + 'static> {
    of: Arc<Cache<V>>,
    to: Arc<Cache<V>>,
    charged: Mutex<Reservation<V>>,
}

impl<V: Send + Sync + 'static> UsageCharge<V> {
    /// Brings the charge in line with the usage. If that does not fit into a strict cache, the
    /// charge stays as it was.
    pub fn refresh(&self) {
        let mut charged = self.charged.lock();
        // Two caches may be charged to each other.
        let foreign = self.of.charged_bytes(ChargedRole::BlobCache);
        charged.try_set(self.of.usage().saturating_sub(foreign)).ok();
    }
}

/// Something that the memory of memtables can be charged to: a cache of any type.
pub trait MemoryAccount: Send + Sync {
    /// Charges `bytes`, whether or not they fit.
    fn charge(&self, bytes: usize);
    /// Takes back `bytes` charged before.
    fn discharge(&self, bytes: usize);
}

impl<V: Send + Sync + 'static> MemoryAccount for Cache<V> {
    fn charge(&self, bytes: usize) {
        let granted = self.reserve(bytes, false);
        debug_assert!(granted, "only a strict charge can fail");
        self.charges.of(ChargedRole::WriteBuffer).bytes.fetch_add(bytes, Relaxed);
    }
    fn discharge(&self, bytes: usize) {
        self.charges.of(ChargedRole::WriteBuffer).bytes.fetch_sub(bytes, Relaxed);
        self.unreserve(bytes);
    }
}
