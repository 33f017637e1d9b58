//! Buffers registered with a ring, so that the kernel need not look up and pin their pages for each
//! direct read.
//!
//! One allocation of equal buffers with a bit per buffer. The allocation is registered as a whole;
//! the address of a read tells whether it goes there, so a buffer that is used with another ring,
//! or by a plain thread, is an ordinary buffer there.
//!
//! Invariants cited by unsafe blocks:
//! 1. `start` is the beginning of `blocks`, which is neither moved nor freed while the arena lives,
//!    and a [`PinnedBuffer`] keeps its arena alive. All bytes are initialised.
//! 2. The buffer whose bit is clear in `free` belongs to one `PinnedBuffer`; only its drop sets the
//!    bit. Its owner waits for the completion of an operation before going on (`mod`, invariant 1),
//!    so the kernel is done with a buffer whose bit is set.
//!
//! Thread safety: buffers may be taken and dropped on any thread.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const BLOCK_BYTES: usize = 4096;
/// The most buffers of an arena.
pub(crate) const COUNT_MAX: usize = WORDS * 64;
const WORDS: usize = 2;

#[repr(C, align(4096))]
struct Block(UnsafeCell<[u8; BLOCK_BYTES]>);

/// See the head of this file.
pub(crate) struct Arena {
    free: [AtomicU64; WORDS],
    /// The size of each buffer.
    bytes: usize,
    blocks: Box<[Block]>,
}

// SAFETY: invariant 2: each byte has one user.
unsafe impl Sync for Arena {}

impl Arena {
    /// `count` free buffers of `bytes`, which is a power of two, all zero; not more than
    /// [`COUNT_MAX`].
    pub(crate) fn new(count: usize, bytes: usize) -> Arc<Arena> {
        debug_assert!(bytes.is_power_of_two() && count <= COUNT_MAX);
        let block = || Block(UnsafeCell::new([0; BLOCK_BYTES]));
        let blocks = (0..(count * bytes).div_ceil(BLOCK_BYTES)).map(|_| block()).collect();
        let free = std::array::from_fn(|place| {
            let here = count.saturating_sub(place * 64).min(64);
            AtomicU64::new(u64::MAX.checked_shr(64 - here as u32).unwrap_or(0))
        });
        Arc::new(Arena { free, bytes, blocks })
    }

    /// Invariant 1.
    pub(crate) fn start(&self) -> *mut u8 {
        self.blocks.as_ptr().cast_mut().cast()
    }

    /// The size of all buffers together.
    pub(crate) fn len(&self) -> usize {
        self.blocks.len() * BLOCK_BYTES
    }

    /// Whether the range lies in the arena.
    #[inline]
    pub(crate) fn contains(&self, buf: *const u8, bytes: u32) -> bool {
        let from = buf.addr().wrapping_sub(self.start().addr());
        from < self.len() && bytes as usize <= self.len() - from
    }

    /// An unused buffer, with arbitrary contents.
    #[inline]
    pub(crate) fn take(self: &Arc<Self>) -> Option<PinnedBuffer> {
        for (place, word) in self.free.iter().enumerate() {
            let mut bits = word.load(Ordering::Relaxed);
            while bits != 0 {
                let bit = bits & bits.wrapping_neg();
                // Acquire: what the last user did to the buffer happens before this.
                let before = word.fetch_and(!bit, Ordering::Acquire);
                if before & bit != 0 {
                    let index = place as u32 * 64 + bit.trailing_zeros();
                    return Some(PinnedBuffer { arena: Arc::clone(self), index });
                }
                bits = before;
            }
        }
        None
    }

    /// The number of free buffers.
    pub(crate) fn free(&self) -> usize {
        self.free.iter().map(|word| word.load(Ordering::Relaxed).count_ones() as usize).sum()
    }
}

/// A buffer of an arena; free again when dropped.
pub(crate) struct PinnedBuffer {
    arena: Arc<Arena>,
    index: u32,
}

impl std::fmt::Debug for PinnedBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PinnedBuffer({})", self.index)
    }
}

impl PinnedBuffer {
    /// Which buffer of its arena it is.
    pub(crate) fn index(&self) -> usize {
        self.index as usize
    }
    /// Where it begins.
    pub(crate) fn start(&self) -> *mut u8 {
        // SAFETY: invariant 1: the index is below the number of buffers.
        unsafe { self.arena.start().add(self.index() * self.arena.bytes) }
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        let word = &self.arena.free[self.index() / 64];
        let before = word.fetch_or(1 << (self.index() % 64), Ordering::Release);
        debug_assert_eq!(before >> (self.index() % 64) & 1, 0, "a buffer is given back once");
    }
}

impl Deref for PinnedBuffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: invariants 1 and 2.
        unsafe { std::slice::from_raw_parts(self.start(), self.arena.bytes) }
    }
}

impl DerefMut for PinnedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: invariants 1 and 2.
        unsafe { std::slice::from_raw_parts_mut(self.start(), self.arena.bytes) }
    }
}
