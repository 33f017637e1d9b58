//! Buffers for direct I/O, which must begin on a block boundary.
//!
//! Invariants cited by unsafe blocks:
//! 1. `start` is an allocation of `capacity` bytes with the layout of [`layout`], all initialised,
//!    owned by the buffer.
//!
//! Thread safety: a buffer has one owner. The pool is the calling thread's own; a buffer goes back
//! to the pool of the thread that drops it. No borrow of the pool spans a suspension.

use crate::fiber;
use crate::io::{PINNED_BYTES, PinnedBuffer, Reactor};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Positions, lengths and addresses of direct I/O are multiples of this, which suits every device.
pub const DIRECT_ALIGNMENT: usize = 4096;
/// The pool of a thread keeps this many buffers, none larger than `POOLED_BYTES_MAX`.
const POOLED_MAX: usize = 64;
const POOLED_BYTES_MAX: usize = 64 << 10;

/// Bytes on the heap that begin on a block boundary.
#[derive(Debug)]
pub struct AlignedBuffer {
    start: NonNull<u8>,
    capacity: usize,
}

// SAFETY: invariant 1: it owns its bytes as a `Vec<u8>` does.
unsafe impl Send for AlignedBuffer {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for AlignedBuffer {}

fn layout(capacity: usize) -> Layout {
    Layout::from_size_align(capacity, DIRECT_ALIGNMENT).expect("a buffer fits the address space")
}

impl AlignedBuffer {
    /// At least `bytes` bytes, rounded up to whole blocks, all zero.
    ///
    /// # Panics
    /// When memory is exhausted, as any allocation.
    pub fn new(bytes: usize) -> Self {
        let capacity = bytes.max(1).next_multiple_of(DIRECT_ALIGNMENT);
        let layout = layout(capacity);
        // SAFETY: the size is not 0.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) });
        AlignedBuffer { start: start.unwrap_or_else(|| handle_alloc_error(layout)), capacity }
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        // SAFETY: invariant 1.
        unsafe { dealloc(self.start.as_ptr(), layout(self.capacity)) };
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: invariant 1.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.capacity) }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: invariant 1.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.capacity) }
    }
}

thread_local! {
    static POOL: RefCell<Vec<AlignedBuffer>> = const { RefCell::new(Vec::new()) };
}

/// A temporary buffer with arbitrary contents: on a fiber one that is registered with its loop's
/// ring, if it is large enough and one is free; otherwise one of the calling thread's pool. Goes
/// back when dropped.
#[derive(Debug)]
pub struct PooledBuffer(Kind);

#[derive(Debug)]
enum Kind {
    Pinned(PinnedBuffer),
    Own(AlignedBuffer),
    /// Only while it is dropped.
    Gone,
}

impl PooledBuffer {
    /// At least `bytes` bytes.
    pub fn take(bytes: usize) -> Self {
        if bytes <= PINNED_BYTES
            && let Some(buffer) = fiber::with_reactor(Reactor::take_buffer).flatten()
        {
            return PooledBuffer(Kind::Pinned(buffer));
        }
        let pooled = if bytes <= POOLED_BYTES_MAX {
            POOL.try_with(|pool| {
                let mut pool = pool.borrow_mut();
                let fits = pool.iter().rposition(|buffer| buffer.len() >= bytes)?;
                Some(pool.swap_remove(fits))
            })
        } else {
            Ok(None)
        };
        let own = pooled.ok().flatten().unwrap_or_else(|| AlignedBuffer::new(bytes));
        PooledBuffer(Kind::Own(own))
    }
}

#[cfg(test)]
impl PooledBuffer {
    /// Whether a ring knows it.
    pub(crate) fn is_pinned(&self) -> bool {
        matches!(self.0, Kind::Pinned(_))
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        let Kind::Own(buffer) = std::mem::replace(&mut self.0, Kind::Gone) else { return };
        if buffer.len() > POOLED_BYTES_MAX {
            return;
        }
        // While the thread ends the pool is gone, and the buffer is freed.
        POOL.try_with(|pool| {
            let mut pool = pool.borrow_mut();
            if pool.len() < POOLED_MAX {
                pool.push(buffer);
            }
        })
        .unwrap_or(());
    }
}

impl Deref for PooledBuffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Kind::Pinned(buffer) => buffer,
            Kind::Own(buffer) => buffer,
            Kind::Gone => &[],
        }
    }
}

impl DerefMut for PooledBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Kind::Pinned(buffer) => buffer,
            Kind::Own(buffer) => buffer,
            Kind::Gone => &mut [],
        }
    }
}
