//! The memory of a table's slots.
//!
//! It comes from the system zeroed and untouched, so slots never used cost no memory as long as
//! those in use are neighbours. The array of a default cache is a mapping of its own: an allocator
//! that has had the memory before would clear all of it at every open. Large arrays ask for huge
//! pages: every lookup touches a slot at random (docs/decisions/0042).
//!
//! Thread safety: that of the slots.
//!
//! Invariants:
//! 1. `len` initialised slots begin at `start`, in the region, in the pages or in a leaked box of
//!    as many, which only this value frees.

use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::slice;

use pumice_port::os::{HugeRegion, Pages};

use crate::slot::Slot;

/// Arrays of at least this many bytes are in pages of their own.
const PAGES_FROM_BYTES: usize = 256 << 10;
/// Arrays of at least this many bytes are in huge pages.
const HUGE_FROM_BYTES: usize = 8 << 20;
/// A cache that is to keep everything, with the largest number as its capacity, leaves room in the
/// address space.
const BYTES_MAX: usize = 1 << 38;

/// All slots of a table.
pub(crate) struct SlotArray<V> {
    start: NonNull<Slot<V>>,
    len: usize,
    /// Where the slots are, if not in the allocator's memory: in one of these.
    region: Option<HugeRegion>,
    pages: Option<Pages>,
}

// SAFETY: as a boxed slice of slots.
unsafe impl<V: Send + Sync> Send for SlotArray<V> {}
// SAFETY: as above.
unsafe impl<V: Send + Sync> Sync for SlotArray<V> {}

impl<V> SlotArray<V> {
    /// `len` empty slots, a power of two; fewer if that is more than [`BYTES_MAX`] or than the
    /// system gives. A cache then ends at its slots before it ends at its capacity.
    pub(crate) fn new(mut len: usize) -> Self {
        loop {
            let bytes = len.saturating_mul(size_of::<Slot<V>>());
            if bytes <= BYTES_MAX
                && let Some(slots) = Self::with(len, bytes)
            {
                return slots;
            }
            len /= 2;
        }
    }

    /// `len` empty slots of `bytes` bytes; None if the system has no room for them.
    fn with(len: usize, bytes: usize) -> Option<Self> {
        let is_large = bytes >= HUGE_FROM_BYTES;
        let region = is_large.then(|| HugeRegion::new(bytes)).flatten();
        let in_pages = region.is_none() && bytes >= PAGES_FROM_BYTES;
        let pages = in_pages.then(|| Pages::new(bytes)).flatten();
        let start = match (&region, &pages) {
            (Some(region), _) => region.start().cast(),
            (_, Some(pages)) => pages.start().cast(),
            (None, None) if is_large => return None,
            (None, None) => {
                let slots = Box::<[Slot<V>]>::new_zeroed_slice(len);
                // SAFETY: an all-zero slot is a valid, empty slot (head of `slot`).
                NonNull::from(Box::leak(unsafe { slots.assume_init() })).cast()
            }
        };
        Some(SlotArray { start, len, region, pages })
    }
}

impl<V> Deref for SlotArray<V> {
    type Target = [Slot<V>];

    #[inline]
    fn deref(&self) -> &[Slot<V>] {
        // SAFETY: invariant 1; regions and pages are zeroed, and aligned for more than a slot.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<V> Drop for SlotArray<V> {
    fn drop(&mut self) {
        if self.region.is_none() && self.pages.is_none() {
            let slots = ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.len);
            // SAFETY: invariant 1.
            drop(unsafe { Box::from_raw(slots) });
        }
    }
}
