//! An allocator of objects in huge pages, for which no thread ever waits.
//!
//! Taking needs the slab's lock, which is only ever tried: where it is held, the caller goes
//! elsewhere, so that a thread of low priority, descheduled while it holds the lock, keeps no
//! reader waiting. Giving back pushes the object onto a list; the next takers put the members of
//! that list back into their spans, a few each.
//!
//! Spans without objects in use go to any class, chunks without them back to the kernel, but for
//! one.
//!
//! Thread safety: all methods from any thread; none blocks. Invariants:
//! 1. `inner` is used only by the thread that set `locked`, until it clears it.
//! 2. `freed` and `pending` link objects that were taken from this slab and that nothing refers to.
//! 3. A chunk of a region has its bit in `Region::free_chunks` exactly if it has no header.

use std::cell::UnsafeCell;
use std::ptr::{self, NonNull};
use std::sync::atomic::{
    AtomicBool, AtomicPtr,
    Ordering::{Acquire, Relaxed, Release},
};

use crossbeam_utils::CachePadded;
use pumice_port::os::HugeRegion;

use super::size_class::CLASSES_MAX;
use super::span::{CHUNK_BYTES, Chunk, FreeObject, Span, push_front, unlink};

/// Chunks of a region. It is only address space; a chunk's part of it is used when it is needed.
const REGION_CHUNKS: usize = 16;
/// Objects given back that one taker puts into their spans: more than were given back per object
/// taken in the long run, few enough that no reader pays for an erased cache.
const COLLECT_STEP: usize = 16;

/// See the head.
pub(super) struct Slab {
    locked: AtomicBool,
    inner: UnsafeCell<Inner>,
    freed: CachePadded<AtomicPtr<FreeObject>>,
}

// SAFETY: `inner` is behind the lock (invariant 1), and what it points to is plain memory.
unsafe impl Send for Slab {}
// SAFETY: as above.
unsafe impl Sync for Slab {}

struct Region {
    memory: HugeRegion,
    /// A bit for every chunk that is not in use.
    free_chunks: u32,
}

struct Inner {
    /// Taken from `freed`, not yet in their spans.
    pending: *mut FreeObject,
    /// By class: spans that are not full.
    with_room: [*mut Span; CLASSES_MAX],
    /// Chunks with spans without a class, and others with one.
    chunks: *mut Chunk,
    /// A chunk without a divided span, in no list.
    spare: *mut Chunk,
    /// By number. A region that is gone leaves its number to a new one.
    regions: Vec<Option<Region>>,
}

impl Slab {
    /// A slab without memory.
    pub const fn new() -> Self {
        let inner = Inner {
            pending: ptr::null_mut(),
            with_room: [ptr::null_mut(); CLASSES_MAX],
            chunks: ptr::null_mut(),
            spare: ptr::null_mut(),
            regions: Vec::new(),
        };
        Slab {
            locked: AtomicBool::new(false),
            inner: UnsafeCell::new(inner),
            freed: CachePadded::new(AtomicPtr::new(ptr::null_mut())),
        }
    }

    /// Calls `f` unless another thread is inside.
    fn try_with<R>(&self, f: impl FnOnce(&mut Inner) -> R) -> Option<R> {
        if self.locked.load(Relaxed) || self.locked.swap(true, Acquire) {
            return None;
        }
        // SAFETY: invariant 1.
        let result = f(unsafe { &mut *self.inner.get() });
        self.locked.store(false, Release);
        Some(result)
    }

    /// An object of that class; `None` if another thread is taking one, or there is no room without
    /// another chunk and `may_grow` forbids one or none is left.
    pub fn try_take(&self, class: usize, may_grow: bool) -> Option<NonNull<u8>> {
        self.try_with(|inner| {
            self.collect(inner, COLLECT_STEP);
            if inner.with_room[class].is_null() {
                if may_grow {
                    inner.grow(self)?;
                }
                inner.add_span(class)?;
            }
            Some(inner.take(class))
        })?
    }

    /// Takes back an object.
    ///
    /// # Safety
    /// `object` came from `try_take` of this slab, and nothing refers to it.
    pub unsafe fn give_back(&self, object: NonNull<u8>) {
        let object = object.as_ptr().cast::<FreeObject>();
        let mut first = self.freed.load(Relaxed);
        loop {
            // SAFETY: the caller's word; an object has room for a link (`span`).
            unsafe { object.write(FreeObject { next: first }) };
            match self.freed.compare_exchange_weak(first, object, Release, Relaxed) {
                Ok(_) => return,
                Err(seen) => first = seen,
            }
        }
    }

    /// Returns memory without objects to the kernel, and says whether that is all of it; does
    /// nothing while another thread is taking an object.
    pub fn trim(&self) -> bool {
        let trimmed = self.try_with(|inner| {
            self.collect(inner, usize::MAX);
            let spare = std::mem::replace(&mut inner.spare, ptr::null_mut());
            if !spare.is_null() {
                inner.discard(spare);
            }
            inner.regions.iter().all(Option::is_none)
        });
        trimmed.unwrap_or(false)
    }

    /// Puts up to `most` objects that were given back into their spans.
    fn collect(&self, inner: &mut Inner, most: usize) {
        for _ in 0..most {
            if inner.pending.is_null() {
                if self.freed.load(Relaxed).is_null() {
                    return;
                }
                inner.pending = self.freed.swap(ptr::null_mut(), Acquire);
            }
            let object = inner.pending;
            // SAFETY: invariant 2.
            unsafe {
                inner.pending = (*object).next;
                inner.put(object);
            }
        }
    }

    /// Chunks that have a header.
    #[cfg(test)]
    pub fn chunks_in_use(&self) -> usize {
        self.try_with(|inner| {
            let free = |region: &Region| region.free_chunks.count_ones() as usize;
            inner.regions.iter().flatten().map(|region| REGION_CHUNKS - free(region)).sum()
        })
        .expect("no other thread")
    }
}

impl Inner {
    /// An object of a class that has a span with room.
    fn take(&mut self, class: usize) -> NonNull<u8> {
        let span = self.with_room[class];
        // SAFETY: spans in the list are valid, of this class and not full (invariants of `span`).
        unsafe {
            let object = Span::take(span);
            if (*span).is_full() {
                unlink(&mut self.with_room[class], span);
            }
            object
        }
    }

    /// Gives the class another span; `None` if no chunk has one.
    fn add_span(&mut self, class: usize) -> Option<()> {
        if self.chunks.is_null() {
            let spare = std::mem::replace(&mut self.spare, ptr::null_mut());
            NonNull::new(spare)?;
            // SAFETY: a spare chunk is in no list.
            unsafe { push_front(&mut self.chunks, spare) };
        }
        let chunk = self.chunks;
        // SAFETY: chunks in the list are valid and have a span without a class; that span is in no
        // list.
        unsafe {
            let span = Chunk::divide(chunk, class);
            push_front(&mut self.with_room[class], span);
            if !(*chunk).has_free_span() {
                unlink(&mut self.chunks, chunk);
            }
        }
        Some(())
    }

    /// Makes sure that a chunk has a span without a class; `None` if the kernel has no memory left.
    fn grow(&mut self, slab: *const Slab) -> Option<()> {
        if self.chunks.is_null() && self.spare.is_null() {
            self.spare = self.new_chunk(slab)?;
        }
        Some(())
    }

    /// Puts an object back into its span.
    ///
    /// # Safety
    /// Nothing refers to `object`, which was taken from this slab.
    unsafe fn put(&mut self, object: *mut FreeObject) {
        // SAFETY: the caller's word, and the invariants of `span`: the object's span has a class,
        // and is in its list unless it was full.
        unsafe {
            let span = Chunk::span_of(object.cast());
            let list = &mut self.with_room[usize::from((*span).class)];
            if (*span).is_full() {
                push_front(list, span);
            }
            (*span).give_back(object);
            if (*span).is_unused() {
                unlink(list, span);
                self.free_span(span);
            }
        }
    }

    /// A span that has no object in use and is in no list may have another class.
    ///
    /// # Safety
    /// `span` is such a span, of this slab.
    unsafe fn free_span(&mut self, span: *mut Span) {
        let chunk = Chunk::of(span.cast());
        // SAFETY: the caller's word; a chunk is in the list if it has a span without a class
        // (invariant 3 of `span`).
        unsafe {
            if !(*chunk).has_free_span() {
                push_front(&mut self.chunks, chunk);
            }
            Chunk::undivide(chunk, span);
            if !(*chunk).is_unused() {
                return;
            }
            unlink(&mut self.chunks, chunk);
        }
        if self.spare.is_null() {
            self.spare = chunk;
        } else {
            self.discard(chunk);
        }
    }

    /// A chunk that was not in use; `None` if the kernel has no memory left.
    fn new_chunk(&mut self, slab: *const Slab) -> Option<*mut Chunk> {
        let has_room =
            |region: &Option<Region>| region.as_ref().is_some_and(|r| r.free_chunks != 0);
        let number = match self.regions.iter().rposition(has_room) {
            Some(number) => number,
            None => self.new_region()?,
        };
        let region = self.regions[number].as_mut()?;
        let at = region.free_chunks.trailing_zeros() as usize;
        region.free_chunks &= region.free_chunks - 1;
        // SAFETY: the chunk is inside the region, which is aligned, and not in use (invariant 3).
        unsafe {
            let start = region.memory.start().add(at * CHUNK_BYTES);
            Some(Chunk::create(start, slab, number as u32))
        }
    }

    /// Maps another region and returns its number.
    fn new_region(&mut self) -> Option<usize> {
        let memory = HugeRegion::new(REGION_CHUNKS * CHUNK_BYTES)?;
        let region = Some(Region { memory, free_chunks: (1 << REGION_CHUNKS) - 1 });
        if let Some(number) = self.regions.iter().position(Option::is_none) {
            self.regions[number] = region;
            return Some(number);
        }
        self.regions.push(region);
        Some(self.regions.len() - 1)
    }

    /// Returns the memory of a chunk, which is unused and in no list, to the kernel.
    fn discard(&mut self, chunk: *mut Chunk) {
        // SAFETY: the chunk has its header until the memory is discarded below.
        let number = unsafe { (*chunk).region } as usize;
        let Some(region) = self.regions[number].as_mut() else { return };
        let at = (chunk.addr() - region.memory.start().as_ptr().addr()) / CHUNK_BYTES;
        region.free_chunks |= 1 << at;
        if region.free_chunks == (1 << REGION_CHUNKS) - 1 {
            self.regions[number] = None;
        } else {
            // SAFETY: nothing refers to the chunk any more.
            unsafe { region.memory.discard(at) };
        }
    }
}
