//! The block cache: an open-addressing table of slots with clock eviction.
//!
//! Shape of RocksDB's HyperClockCache. A hit costs one atomic read-modify-write to pin the entry
//! and one to unpin it; there is no lock, no list and no shared counter on that path, so two
//! threads that hit different entries never write the same cache line.
//!
//! Layers: `slot` (one entry and its life cycle) < `slot_array` (the memory of slots) <
//! `hash_table` (probing, eviction, accounting) with `growth` (how many slots are in use) and
//! `moves` (entries that go to new ones) < `handle` (pins as Rust values) < [`Cache`]. `memory` has
//! the bytes of cached blocks, `charge` what is held elsewhere and charged to a cache,
//! `simulation` the keys of a cache of another capacity, `secondary` what a cache evicted,
//! compressed, `tiered` a budget for both.
//!
//! Costs: the largest number of slots is fixed by `capacity / estimated_entry_charge`, so much
//! smaller entries than estimated are evicted for lack of slots before the capacity is used. Slots
//! come into use as entries need them; while entries move to new ones a lookup may miss one that
//! is there, and `for_each` may meet one twice or not at all. There is no
//! order between entries of one priority beyond the clock's countdown.
//!
//! Thread safety: everything is `Send + Sync`. Nothing blocks, except `Cache::entry_stats` and
//! [`UsageCharge`]; with a secondary cache an insertion may wait for a moment.
#![deny(unsafe_op_in_unsafe_fn)]

mod admission;
mod cache;
mod growth;
mod handle;
mod hash_table;
mod key;
mod memory;
mod moves;
mod slot;
mod slot_array;

pub use cache::{
    Cache, CacheOptions, ChargedRole, CompressedSecondaryCache, CompressedSecondaryCacheOptions,
    EntryStats, MemoryAccount, Reservation, RoleSum, SecondaryLookup, Simulation, Spill, StatsAge,
    TieredAdmissionPolicy, TieredCacheOptions, UsageCharge,
};
pub use handle::{Handle, Ref};
pub use key::{CacheKey, Priority};
pub use memory::BlockBytes;

#[cfg(test)]
mod tests;
