//! The bytes of a block: those of a `Vec`, or packed for a long stay in a cache.
//!
//! Packed bytes have what is needed to search them in front, in one piece of memory. For a large
//! cache, from the first MiB on, such memory comes from huge pages of its own (`slab`), which all
//! caches of the process share: blocks are read at random, and with small pages most reads would
//! miss the TLB (docs/decisions/0042). The program's allocator is not asked for huge pages, which
//! would make memory resident that it never uses.
//!
//! Thread safety: plain owned memory; may be dropped on any thread, which blocks nowhere.
//!
//! Invariants cited by unsafe blocks:
//! 1. `words` words, 8-aligned if there are any, end where `len` bytes begin, at `data`; all are
//!    initialised, and nothing but this value frees them.
//! 2. `origin` says how: as a `Vec` of `capacity` bytes that begins at `data` (no words then), or
//!    as a piece of `capacity` bytes that begins with the words, of the allocator or of a slab.

mod size_class;
mod slab;
mod span;
#[cfg(all(test, not(miri)))]
mod tests;

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use pumice_port::thread;

use slab::Slab;
use span::Chunk;

/// Slabs, of which [`SLABS_PER_PROCESSOR`] are used: a taker who finds one busy tries the others.
static SLABS: [Slab; 16] = [const { Slab::new() }; 16];
/// Enough that one is free even while a descheduled thread holds another: blocks that go to the
/// allocator's memory meanwhile are freed by other threads and leave pages with holes.
const SLABS_PER_PROCESSOR: usize = 2;
/// How many are used; 0: not known yet.
static SLABS_USED: AtomicUsize = AtomicUsize::new(0);
/// Packed bytes that are in the allocator's memory though a slab could have them.
static OUTSIDE: AtomicUsize = AtomicUsize::new(0);
/// This many bytes may be there before the slabs are used: a large cache with little in it takes no
/// huge pages.
const OUTSIDE_MAX: usize = 1 << 20;
/// The slabs are used, and stay so until a `trim` finds them empty: blocks that come and go in the
/// allocator's memory leave pages with holes there.
static SLABS_HAVE_BLOCKS: AtomicBool = AtomicBool::new(false);

/// This many words are worth copying many bytes.
const WORDS_MIN: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Vec,
    Allocator,
    Slab,
}

/// See the head.
pub struct BlockBytes {
    data: NonNull<u8>,
    len: usize,
    capacity: usize,
    words: u32,
    origin: Origin,
}

// SAFETY: plain memory with one owner.
unsafe impl Send for BlockBytes {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for BlockBytes {}

impl BlockBytes {
    /// A copy of `data` with `words` in front; `for_large` as [`Cache::is_large`] says of the cache
    /// that it will be in.
    ///
    /// [`Cache::is_large`]: crate::Cache::is_large
    ///
    /// # Panics
    /// If there are 2^32 words.
    pub fn packed(words: &[u64], data: &[u8], for_large: bool) -> Self {
        let head = size_of_val(words);
        let bytes = (head + data.len()).max(1);
        let (start, origin) = allocate(bytes, for_large);
        // SAFETY: `bytes` bytes begin at `start`, which is aligned for words, and nothing else
        // refers to them.
        let at = unsafe {
            ptr::copy_nonoverlapping(words.as_ptr().cast(), start.as_ptr(), head);
            ptr::copy_nonoverlapping(data.as_ptr(), start.as_ptr().add(head), data.len());
            start.add(head)
        };
        let words = u32::try_from(words.len()).expect("fewer entries than bytes");
        BlockBytes { data: at, len: data.len(), capacity: bytes, words, origin }
    }

    /// Whether a copy with that many words in front is better than these: a large buffer that
    /// wastes no memory is not worth copying for few words.
    pub fn is_worth_packing(&self, words: usize) -> bool {
        let bytes = self.len + size_of::<u64>() * words;
        bytes <= size_class::LARGEST || words >= WORDS_MIN || self.memory_bytes() > bytes
    }

    /// What stands in front.
    #[inline]
    pub fn words(&self) -> &[u64] {
        if self.words == 0 {
            // Bytes of a `Vec` are not aligned for words.
            return &[];
        }
        let words = self.words as usize;
        // SAFETY: invariant 1.
        unsafe { slice::from_raw_parts(self.data.as_ptr().cast::<u64>().sub(words), words) }
    }

    /// The buffer, if they are those of a `Vec`.
    pub fn into_vec(self) -> Option<Vec<u8>> {
        if self.origin != Origin::Vec {
            return None;
        }
        let this = ManuallyDrop::new(self);
        // SAFETY: invariant 2; `this` is not dropped.
        Some(unsafe { Vec::from_raw_parts(this.data.as_ptr(), this.len, this.capacity) })
    }

    /// Bytes that they take: the same wherever packed bytes are.
    pub fn memory_bytes(&self) -> usize {
        match self.origin {
            Origin::Vec => self.capacity,
            Origin::Allocator | Origin::Slab => size_class::rounded(self.capacity),
        }
    }
}

impl Deref for BlockBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: invariant 1.
        unsafe { slice::from_raw_parts(self.data.as_ptr(), self.len) }
    }
}

impl From<Vec<u8>> for BlockBytes {
    fn from(bytes: Vec<u8>) -> Self {
        let mut bytes = ManuallyDrop::new(bytes);
        // SAFETY: the pointer of a `Vec` is never null.
        let data = unsafe { NonNull::new_unchecked(bytes.as_mut_ptr()) };
        let (len, capacity) = (bytes.len(), bytes.capacity());
        BlockBytes { data, len, capacity, words: 0, origin: Origin::Vec }
    }
}

impl Default for BlockBytes {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl fmt::Debug for BlockBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockBytes").field("len", &self.len).finish_non_exhaustive()
    }
}

impl Drop for BlockBytes {
    fn drop(&mut self) {
        // SAFETY: invariant 2; a slab's object leads to its chunk, whose header says which slab it
        // is of while the object is in use (`span`).
        unsafe {
            let start = self.data.sub(8 * self.words as usize);
            match self.origin {
                Origin::Vec => drop(Vec::from_raw_parts(self.data.as_ptr(), 0, self.capacity)),
                Origin::Allocator => {
                    if self.capacity <= size_class::LARGEST {
                        OUTSIDE.fetch_sub(self.capacity, Relaxed);
                    }
                    dealloc(start.as_ptr(), layout(self.capacity));
                }
                Origin::Slab => {
                    let chunk = Chunk::of(start.as_ptr());
                    (*(*chunk).slab).give_back(start);
                }
            }
        }
    }
}

/// Returns memory without packed bytes to the kernel, from the slabs that no thread is using.
pub(crate) fn trim() {
    let used = &SLABS[..SLABS_USED.load(Relaxed)];
    let kept = used.iter().filter(|slab| !slab.trim()).count();
    if kept == 0 {
        SLABS_HAVE_BLOCKS.store(false, Relaxed);
    }
}

/// Memory for `bytes` bytes, at least one, aligned for words.
fn allocate(bytes: usize, for_large: bool) -> (NonNull<u8>, Origin) {
    if let Some(class) = size_class::class_of(bytes) {
        if for_large
            && SLABS_HAVE_BLOCKS.load(Relaxed)
            && let Some(object) = take_from_slabs(class)
        {
            return (object, Origin::Slab);
        }
        if OUTSIDE.fetch_add(bytes, Relaxed) >= OUTSIDE_MAX {
            SLABS_HAVE_BLOCKS.store(true, Relaxed);
        }
    }
    let layout = layout(bytes);
    // SAFETY: `bytes` is not zero.
    let start = NonNull::new(unsafe { alloc(layout) });
    (start.unwrap_or_else(|| handle_alloc_error(layout)), Origin::Allocator)
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, size_class::ALIGN).expect("blocks are below 8 EiB")
}

/// An object of the slabs in use.
fn take_from_slabs(class: usize) -> Option<NonNull<u8>> {
    let used = match SLABS_USED.load(Relaxed) {
        0 => {
            let wanted = SLABS_PER_PROCESSOR * thread::available_parallelism();
            let used = wanted.next_power_of_two().min(SLABS.len());
            SLABS_USED.store(used, Relaxed);
            used
        }
        used => used,
    };
    // Threads and fibers are told apart by where their stacks are.
    let here = 0u8;
    let stack = (&raw const here) as u64 >> 16;
    let usual = (stack.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize;
    take_from(&SLABS[..used], usual, class)
}

/// An object of slab number `usual`, modulo how many there are, else of another one. Any slab with
/// room is preferred to a new chunk, so that a load that moves from slab to slab leaves no memory
/// behind.
fn take_from(slabs: &[Slab], usual: usize, class: usize) -> Option<NonNull<u8>> {
    let slabs = || (0..slabs.len()).map(|i| &slabs[(usual + i) % slabs.len()]);
    let with_room = slabs().find_map(|slab| slab.try_take(class, false));
    with_room.or_else(|| slabs().find_map(|slab| slab.try_take(class, true)))
}
