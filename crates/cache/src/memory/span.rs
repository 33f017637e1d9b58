//! Chunks of a huge page, and the spans in them that hold objects of one class.
//!
//! ```text
//! chunk (2 MiB, so aligned):  header | span 0 | span 1 | .. | span 15
//! span (128 KiB):             object | object | ..        all of one class
//! ```
//!
//! An object leads to its chunk, and that to the object's span, by its address alone. An object
//! that is not in use holds the link to the next such object of its span.
//!
//! Thread safety: none of its own. Everything here is used by the one thread that holds the slab's
//! lock (`slab`), except `Chunk::slab`, which never changes while the chunk has objects in use.
//!
//! Invariants:
//! 1. A chunk's header is initialised before anything points to it, and stays in place until
//!    nothing does.
//! 2. Objects of a span are disjoint, inside of it and 16-aligned; the first `fresh` have been
//!    handed out at least once, and those of them that are not in use are linked from `free`.
//! 3. A span is in the list of its class exactly if it has a class and an object not in use; a
//!    chunk is in the slab's list exactly if it has a span without a class and one with a class.

use std::ptr::{self, NonNull};

use pumice_port::os::HUGE_PAGE_BYTES;

use super::size_class::{ALIGN, objects_in, size_of_class};
use super::slab::Slab;

/// Bytes of a chunk: one huge page, which its address is a multiple of.
pub(super) const CHUNK_BYTES: usize = HUGE_PAGE_BYTES;
/// Bytes of a span.
pub(super) const SPAN_BYTES: usize = 128 << 10;
const SPANS: usize = CHUNK_BYTES / SPAN_BYTES;
/// What the header takes from the first span.
pub(super) const HEADER_BYTES: usize = size_of::<Chunk>().next_multiple_of(64);
const ALL_SPANS: u32 = (1 << SPANS) - 1;

/// A member of a doubly linked list whose links are inside the members.
pub(super) struct Links<T> {
    previous: *mut T,
    next: *mut T,
}

impl<T> Links<T> {
    const NONE: Self = Links { previous: ptr::null_mut(), next: ptr::null_mut() };
}

/// What has links. Reached by pointers only: other threads may read other fields of a chunk.
pub(super) trait Linked: Sized {
    /// # Safety
    /// `member` is valid.
    unsafe fn links(member: *mut Self) -> *mut Links<Self>;
}

/// Puts `member`, which is in no list, in front.
///
/// # Safety
/// All members of the list and `member` are valid, and the slab's lock is held.
pub(super) unsafe fn push_front<T: Linked>(list: &mut *mut T, member: *mut T) {
    // SAFETY: the caller's word.
    unsafe {
        T::links(member).write(Links { previous: ptr::null_mut(), next: *list });
        if !list.is_null() {
            (*T::links(*list)).previous = member;
        }
    }
    *list = member;
}

/// Takes `member` out of the list that it is in.
///
/// # Safety
/// As `push_front`, and `member` is in `list`.
pub(super) unsafe fn unlink<T: Linked>(list: &mut *mut T, member: *mut T) {
    // SAFETY: the caller's word.
    unsafe {
        let Links { previous, next } = T::links(member).replace(Links::NONE);
        if previous.is_null() {
            *list = next;
        } else {
            (*T::links(previous)).next = next;
        }
        if !next.is_null() {
            (*T::links(next)).previous = previous;
        }
    }
}

/// The front of an object that is not in use.
pub(super) struct FreeObject {
    pub next: *mut FreeObject,
}

/// What is known of a span.
pub(super) struct Span {
    links: Links<Span>,
    /// First of the linked objects not in use.
    free: *mut FreeObject,
    /// Objects handed out at least once; those after them have never been touched.
    fresh: u32,
    used: u32,
    objects: u32,
    pub class: u8,
}

impl Linked for Span {
    unsafe fn links(member: *mut Self) -> *mut Links<Self> {
        // SAFETY: the caller's word.
        unsafe { &raw mut (*member).links }
    }
}

impl Span {
    const NONE: Self =
        Span { links: Links::NONE, free: ptr::null_mut(), fresh: 0, used: 0, objects: 0, class: 0 };

    pub fn is_full(&self) -> bool {
        self.used == self.objects
    }

    pub fn is_unused(&self) -> bool {
        self.used == 0
    }

    /// Takes an object.
    ///
    /// # Safety
    /// `span` is a span of a chunk (invariant 1), has a class and is not full; the slab's lock is
    /// held.
    pub unsafe fn take(span: *mut Span) -> NonNull<u8> {
        // SAFETY: the caller's word; `free` links objects of this span (invariant 2).
        unsafe {
            let this = &mut *span;
            this.used += 1;
            let object = if let Some(first) = this.free.as_mut() {
                this.free = first.next;
                ptr::from_mut(first).cast()
            } else {
                let offset = this.fresh as usize * size_of_class(usize::from(this.class));
                this.fresh += 1;
                Chunk::start_of(span).add(offset)
            };
            NonNull::new_unchecked(object)
        }
    }

    /// Takes an object back.
    ///
    /// # Safety
    /// `object` came from `take` of this span, and nothing refers to it; the slab's lock is held.
    pub unsafe fn give_back(&mut self, object: *mut FreeObject) {
        // SAFETY: an object has room for a link and is aligned for it (invariant 2).
        unsafe { object.write(FreeObject { next: self.free }) };
        self.free = object;
        self.used -= 1;
    }
}

/// The header of a chunk.
pub(super) struct Chunk {
    links: Links<Chunk>,
    /// The slab that has the chunk, and does not move while it has.
    pub slab: *const Slab,
    /// Number of the region that it is part of.
    pub region: u32,
    /// A bit for every span without a class.
    free_spans: u32,
    spans: [Span; SPANS],
}

impl Linked for Chunk {
    unsafe fn links(member: *mut Self) -> *mut Links<Self> {
        // SAFETY: the caller's word.
        unsafe { &raw mut (*member).links }
    }
}

const _: () = assert!(HEADER_BYTES < SPAN_BYTES / 64 && SPANS < 32);
const _: () = assert!(size_of::<FreeObject>() <= ALIGN && align_of::<FreeObject>() <= ALIGN);

impl Chunk {
    /// Makes the memory at `start` a chunk without objects.
    ///
    /// # Safety
    /// `CHUNK_BYTES` of memory that nothing else uses begin at `start`, a multiple of that.
    pub unsafe fn create(start: NonNull<u8>, slab: *const Slab, region: u32) -> *mut Chunk {
        let spans = [const { Span::NONE }; SPANS];
        let header = Chunk { links: Links::NONE, slab, region, free_spans: ALL_SPANS, spans };
        let chunk = start.as_ptr().cast::<Chunk>();
        // SAFETY: the caller's word.
        unsafe { chunk.write(header) };
        chunk
    }

    /// The chunk that an address is in.
    pub fn of(address: *mut u8) -> *mut Chunk {
        address.map_addr(|address| address & !(CHUNK_BYTES - 1)).cast()
    }

    /// The span of this chunk that an object is in.
    ///
    /// # Safety
    /// `object` is one of a chunk (invariant 1); the slab's lock is held.
    pub unsafe fn span_of(object: *mut u8) -> *mut Span {
        let number = (object.addr() & (CHUNK_BYTES - 1)) / SPAN_BYTES;
        // SAFETY: the caller's word; `number` is below `SPANS`.
        unsafe { &raw mut (*Chunk::of(object)).spans[number] }
    }

    /// Where the objects of a span begin.
    ///
    /// # Safety
    /// `span` is one of a chunk.
    unsafe fn start_of(span: *mut Span) -> *mut u8 {
        let chunk = Chunk::of(span.cast());
        // SAFETY: the caller's word; the result is inside the chunk.
        unsafe {
            let number = span.offset_from_unsigned((&raw mut (*chunk).spans).cast::<Span>());
            let start = (number * SPAN_BYTES).max(HEADER_BYTES);
            chunk.cast::<u8>().add(start)
        }
    }

    pub fn has_free_span(&self) -> bool {
        self.free_spans != 0
    }

    pub fn is_unused(&self) -> bool {
        self.free_spans == ALL_SPANS
    }

    /// Gives a span without a class the class `class`.
    ///
    /// # Safety
    /// `chunk` is a chunk (invariant 1) with such a span; the slab's lock is held.
    pub unsafe fn divide(chunk: *mut Chunk, class: usize) -> *mut Span {
        // SAFETY: the caller's word. The pointer that is returned leads to the whole chunk.
        unsafe {
            let number = (*chunk).free_spans.trailing_zeros() as usize;
            (*chunk).free_spans &= (*chunk).free_spans - 1;
            let span = &raw mut (*chunk).spans[number];
            let objects = objects_in(class, number == 0);
            span.write(Span { objects, class: class as u8, ..Span::NONE });
            span
        }
    }

    /// The span, which has no object in use, no longer has a class.
    ///
    /// # Safety
    /// `span` is one of this chunk.
    pub unsafe fn undivide(chunk: *mut Chunk, span: *mut Span) {
        // SAFETY: the caller's word.
        unsafe {
            let number = span.offset_from_unsigned((&raw mut (*chunk).spans).cast::<Span>());
            (*chunk).free_spans |= 1 << number;
        }
    }
}
