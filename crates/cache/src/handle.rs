//! Pins as Rust values: [`Ref`] borrows the cache, [`Handle`] owns its pin.
//!
//! Thread safety: both may be sent and shared. Invariants: (1) a `Ref` or `Handle` holds exactly
//! one pin on its slot from construction to drop; (2) the pin keeps the entry, and the entry keeps
//! the table (head of `hash_table`), so a handle may outlive the cache.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;

use crate::hash_table::HashTable;
use crate::key::CacheKey;
use crate::slot::Slot;

/// A pinned entry, found by [`crate::Cache::lookup`]. Dropping it unpins.
pub struct Ref<'a, V: Send + Sync + 'static> {
    table: NonNull<HashTable<V>>,
    slot: &'a Slot<V>,
}

// SAFETY: a shared pin on a value that is Send and Sync, behind atomics.
unsafe impl<V: Send + Sync + 'static> Send for Ref<'_, V> {}
// SAFETY: as above.
unsafe impl<V: Send + Sync + 'static> Sync for Ref<'_, V> {}

impl<'a, V: Send + Sync + 'static> Ref<'a, V> {
    /// Takes over the caller's pin on `slot` of `table`, both borrowed from the cache.
    #[inline]
    pub(crate) fn new(table: NonNull<HashTable<V>>, slot: &'a Slot<V>) -> Self {
        Ref { table, slot }
    }

    /// The entry's key.
    pub fn key(&self) -> CacheKey {
        self.slot.key()
    }
    /// What the entry is charged.
    pub fn charge(&self) -> usize {
        self.slot.charge()
    }

    /// The same pin, no longer bound to the borrow of the cache. Costs nothing.
    #[inline]
    pub fn into_handle(self) -> Handle<V> {
        let this = ManuallyDrop::new(self);
        Handle { table: this.table, slot: NonNull::from(this.slot), _value: PhantomData }
    }
}

impl<V: Send + Sync + 'static> Deref for Ref<'_, V> {
    type Target = V;
    #[inline]
    fn deref(&self) -> &V {
        // SAFETY: pinned by self (invariant 1).
        unsafe { self.slot.value() }
    }
}

impl<V: Send + Sync + 'static> Drop for Ref<'_, V> {
    #[inline]
    fn drop(&mut self) {
        if self.slot.unpin_borrowed() {
            // SAFETY: the cache, which keeps the table, is borrowed.
            unsafe { self.table.as_ref() }.remove(self.slot);
        }
    }
}

/// A pinned entry that may outlive the cache. Cloning pins once more, dropping unpins.
pub struct Handle<V: Send + Sync + 'static> {
    table: NonNull<HashTable<V>>,
    slot: NonNull<Slot<V>>,
    _value: PhantomData<V>,
}

// SAFETY: a shared pin on a value that is Send and Sync, behind atomics.
unsafe impl<V: Send + Sync + 'static> Send for Handle<V> {}
// SAFETY: as above.
unsafe impl<V: Send + Sync + 'static> Sync for Handle<V> {}

impl<V: Send + Sync + 'static> Handle<V> {
    /// Takes over the caller's pin on `slot`, an entry counted in `table`.
    #[inline]
    pub(crate) fn new(table: NonNull<HashTable<V>>, slot: NonNull<Slot<V>>) -> Self {
        Handle { table, slot, _value: PhantomData }
    }

    #[inline]
    fn slot(&self) -> &Slot<V> {
        // SAFETY: the pin keeps it (invariant 2).
        unsafe { self.slot.as_ref() }
    }
    /// The entry's key.
    pub fn key(&self) -> CacheKey {
        self.slot().key()
    }
    /// What the entry is charged.
    pub fn charge(&self) -> usize {
        self.slot().charge()
    }
    /// The entry is not in the table: lookups do not find it.
    pub fn is_standalone(&self) -> bool {
        self.slot().is_standalone()
    }
}

impl<V: Send + Sync + 'static> Clone for Handle<V> {
    #[inline]
    fn clone(&self) -> Self {
        self.slot().pin_again();
        Handle { table: self.table, slot: self.slot, _value: PhantomData }
    }
}

impl<V: Send + Sync + 'static> Deref for Handle<V> {
    type Target = V;
    #[inline]
    fn deref(&self) -> &V {
        // SAFETY: pinned by self (invariant 1).
        unsafe { self.slot().value() }
    }
}

impl<V: Send + Sync + 'static> Drop for Handle<V> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: self's pin is given up here (invariant 1).
        unsafe { HashTable::unpin(self.table, self.slot) };
    }
}
