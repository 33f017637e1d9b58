//! Stacks of fibers: guarded memory, kept for the next fiber when one ends.
//!
//! | memory | goes back to the kernel |
//! |---|---|
//! | of a kept stack, deeper than [`KEPT_STACK_BYTES`] | when its fiber ends |
//! | of ended fibers beyond [`KEPT_STACKS`] | when they end |
//! | of a loop that plain threads share, beyond [`BORROWED_STACKS`] | once it is not borrowed |
//! | of stacks unused for [`LOOK_NANOS`], beyond [`ALWAYS_KEPT`] | a few at a time |
//!
//! Only the kernel knows how deep a fiber has been, and asking costs more than the life of a small
//! fiber. So the last page that is kept is painted: if the paint is disturbed, a fiber went deeper.
//! A frame that steps over the paint is caught by trimming every few stacks unconditionally.
//!
//! A stack is one private mapping whose lowest [`GUARD_BYTES`] fault on any access. The guard is
//! installed without splitting the mapping (`MADV_GUARD_INSTALL`, Linux 6.13); where the kernel
//! does not support that, with `mprotect`, which costs two kernel mappings per stack, of which a
//! process has 65,530. Stacks begin at different distances from the end of their mapping
//! ("colours"), or the hot words of a thousand fibers would share a few cache sets.
//!
//! Invariants cited by unsafe blocks:
//! 1. `low .. low + len` is a mapping of this stack's own, made in `new` and removed in `drop`.
//! 2. A stack in the pool is not in use, and no reference to its memory outlives the statement that
//!    made it.
//!
//! Thread safety: a stack may move between threads while no fiber is on it; the pool has no locks
//! and belongs to one loop.

use crate::machine::{self, Resource};
use corosensei::stack::{Stack as CoroutineStack, StackPointer};
use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Stack bytes of a fiber unless its runtime was built with another size.
pub(crate) const DEFAULT_STACK_BYTES: usize = 256 << 10;
/// The same for the runtime of the process, which runs calls that threads hand over: they may run
/// user code that was written for a thread's stack.
pub(crate) const SHARED_STACK_BYTES: usize = 2 << 20;
/// A C function may step over a single page without touching it; no function here has frames of
/// this size.
pub(crate) const GUARD_BYTES: usize = 32 << 10;
/// How much of a pooled stack may stay resident.
pub(crate) const KEPT_STACK_BYTES: usize = 32 << 10;
/// The paint: this many words each, at every [`PAINT_STEP`] of the last page that is kept.
const PAINT_WORDS: usize = 8;
const PAINT_STEP: usize = 1 << 10;
const PAINT: u64 = 0x5041_494e_5445_4421;
/// One in this many stacks is trimmed to its kept size regardless of the paint.
pub(crate) const TRIMMED_EVERY: u32 = 64;
const PAGE: usize = 4096;
/// Pages that a measure looks at in one system call: 4 MiB.
const LOOK_PAGES: usize = 1024;
/// A measure ends where this much in a row was never touched. Code touches its stack page by page,
/// except for C functions with large frames.
const LOOK_BYTES: usize = 64 << 20;
/// How far the tops of stacks are spread, in steps of a cache line.
const COLOURS: usize = 32;
const LINE: usize = 64;
const MADV_GUARD_INSTALL: libc::c_int = 102;

static NEXT_COLOUR: AtomicUsize = AtomicUsize::new(0);

/// See the head of this file.
pub(crate) struct Stack {
    low: usize,
    len: usize,
    /// Bytes left free above the first frame.
    colour: usize,
    painted: bool,
}

impl Stack {
    /// A new stack of at least `bytes`, guard not counted.
    ///
    /// # Errors
    /// ENOMEM when no memory or no mapping is left.
    pub(crate) fn new(bytes: usize) -> io::Result<Stack> {
        let whole = bytes.max(4 * PAGE).checked_next_multiple_of(PAGE);
        let len = whole.and_then(|bytes| bytes.checked_add(GUARD_BYTES));
        let len = len.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        machine::ask(Resource::AddressSpace)?;
        // SAFETY: a new mapping touches nothing that exists.
        let low = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0) };
        if low == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let colour = NEXT_COLOUR.fetch_add(1, Ordering::Relaxed) % COLOURS * LINE;
        let stack = Stack { low: low as usize, len, colour, painted: false };
        // SAFETY: invariant 1; nothing is on the stack yet.
        let guarded = unsafe {
            libc::madvise(low, GUARD_BYTES, MADV_GUARD_INSTALL) == 0
                || libc::mprotect(low, GUARD_BYTES, libc::PROT_NONE) == 0
        };
        if guarded { Ok(stack) } else { Err(io::Error::last_os_error()) }
    }

    /// The lowest address, where the guard begins.
    pub(crate) fn low(&self) -> usize {
        self.low
    }

    /// How deep the stack has been, in bytes, rounded to a page: the resident part of the mapping.
    /// What an earlier fiber touched of [`KEPT_STACK_BYTES`] counts too. One system call for 4 MiB.
    pub(crate) fn depth(&self) -> usize {
        depth(self.low, self.usable())
    }

    /// Gives memory deeper than [`KEPT_STACK_BYTES`] back to the kernel: if the paint says that
    /// there is any, or unconditionally if `certain`. Nothing is on the stack.
    pub(crate) fn cut(&mut self, certain: bool) {
        let Some(deep) = (self.len - GUARD_BYTES).checked_sub(KEPT_STACK_BYTES) else { return };
        if deep == 0 || (self.painted && !certain && self.is_paint_whole()) {
            return;
        }
        // SAFETY: invariants 1 and 2; the guard is left alone.
        unsafe {
            let start = (self.low + GUARD_BYTES) as *mut libc::c_void;
            libc::madvise(start, deep, libc::MADV_DONTNEED);
        }
        self.paint().into_iter().for_each(|words| *words = [PAINT; PAINT_WORDS]);
        self.painted = true;
    }

    fn is_paint_whole(&mut self) -> bool {
        self.paint().into_iter().all(|words| *words == [PAINT; PAINT_WORDS])
    }

    /// The place of the paint, on a stack of more than [`KEPT_STACK_BYTES`].
    fn paint(&mut self) -> [&mut [u64; PAINT_WORDS]; PAGE / PAINT_STEP] {
        let edge = self.low + self.len - KEPT_STACK_BYTES;
        // SAFETY: invariants 1 and 2: pages of this stack above the guard; disjoint and aligned.
        std::array::from_fn(|n| unsafe {
            &mut *((edge + n * PAINT_STEP) as *mut [u64; PAINT_WORDS])
        })
    }

    /// Bytes a fiber can use.
    pub(crate) fn usable(&self) -> usize {
        self.len - GUARD_BYTES - self.colour
    }
}

/// How much of the stack with `usable` bytes above the guard at `low` is resident, from the top.
pub(crate) fn depth(low: usize, usable: usize) -> usize {
    look_down(low, usable).0
}

/// As [`depth`], and how many bytes were looked at. A fiber uses its stack from the top down, so
/// this looks from there, and ends [`LOOK_BYTES`] below what it found: it costs what was used of a
/// stack, not what the stack could hold.
pub(crate) fn look_down(low: usize, usable: usize) -> (usize, usize) {
    let bottom = low + GUARD_BYTES;
    let top = bottom + usable.next_multiple_of(PAGE);
    let mut pages = [0u8; LOOK_PAGES];
    let (mut at, mut deepest) = (top, top);
    while at > bottom && deepest - at < LOOK_BYTES {
        let from = bottom.max(at.saturating_sub(LOOK_PAGES * PAGE));
        // SAFETY: the kernel writes a byte per page to the array; it reads nothing of the stack.
        let code = unsafe {
            libc::mincore(from as *mut libc::c_void, at - from, pages.as_mut_ptr().cast())
        };
        if code != 0 {
            break;
        }
        let resident = pages[..(at - from) / PAGE].iter().position(|page| page & 1 != 0);
        if let Some(first) = resident {
            deepest = from + first * PAGE;
        }
        at = from;
    }
    (top - deepest, top - at)
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: invariant 1.
        let code = unsafe { libc::munmap(self.low as *mut libc::c_void, self.len) };
        debug_assert_eq!(code, 0, "a stack is unmapped");
    }
}

// SAFETY: the mapping is guarded below and has at least four pages.
unsafe impl CoroutineStack for Stack {
    #[inline]
    fn base(&self) -> StackPointer {
        StackPointer::new(self.low + self.len - self.colour).expect("a mapping is not at zero")
    }
    #[inline]
    fn limit(&self) -> StackPointer {
        StackPointer::new(self.low).expect("a mapping is not at zero")
    }
}

thread_local! {
    /// For tests: how many more stacks are given out on this thread, and how many are refused after
    /// them.
    static REFUSALS: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

/// See `testing::refuse_stacks`.
pub(crate) fn refuse(after: u32, count: u32) -> u32 {
    REFUSALS.replace((after, count)).1
}

/// Whether a test wants this stack to be refused.
fn is_refused() -> bool {
    match REFUSALS.get() {
        (_, 0) => false,
        (0, count) => {
            REFUSALS.set((0, count - 1));
            true
        }
        (after, count) => {
            REFUSALS.set((after - 1, count));
            false
        }
    }
}

/// Stacks a loop keeps for its next fibers, all of one size.
pub(crate) struct StackPool {
    bytes: usize,
    /// The most recently used one is last.
    free: Vec<Stack>,
    /// For a fiber that gets no other stack: it only drops what it would have run.
    reserve: Option<Stack>,
    /// A fiber is on the reserve.
    lent: bool,
    /// Stacks that were put back.
    puts: u32,
    /// The fewest that were free since the last look: that many were not needed.
    fewest: usize,
    /// Of those, how many are still to be given back.
    surplus: usize,
    /// When to look again, in nanoseconds; 0 before the first look.
    look_at: u64,
}

/// What a fiber gets to run on.
pub(crate) enum Given {
    /// A stack of its own.
    Whole(Stack),
    /// The reserve of the loop, since there is no memory for another stack.
    Reserve(Stack),
    /// None: another fiber is on the reserve.
    Nothing,
}

/// Stacks kept by a loop; the rest is unmapped at once.
pub(crate) const KEPT_STACKS: usize = 1024;
/// Stacks that a shared loop keeps while it is not borrowed.
pub(crate) const BORROWED_STACKS: usize = 64;
/// Stacks kept however long they are unused.
pub(crate) const ALWAYS_KEPT: usize = 16;
/// How long a stack must be unused before it is given back.
pub(crate) const LOOK_NANOS: u64 = 1_000_000_000;
/// How many are unmapped at a time, which takes about 100 microseconds, and the pause in between:
const AT_ONCE: usize = 16;
const PAUSE_NANOS: u64 = 10_000_000;

impl StackPool {
    pub(crate) fn new() -> Self {
        StackPool {
            bytes: DEFAULT_STACK_BYTES,
            free: Vec::new(),
            reserve: None,
            lent: false,
            puts: 0,
            fewest: 0,
            surplus: 0,
            look_at: 0,
        }
    }

    /// Gets ready for fibers on stacks of `bytes`.
    ///
    /// # Errors
    /// No memory for the reserve.
    pub(crate) fn open(&mut self, bytes: usize) -> io::Result<()> {
        self.close();
        self.bytes = bytes;
        self.reserve = Some(Stack::new(bytes)?);
        Ok(())
    }

    /// Frees all stacks.
    pub(crate) fn close(&mut self) {
        debug_assert!(!self.lent, "no fiber is alive");
        *self = StackPool::new();
    }

    /// A stack, the one used last if there is one.
    pub(crate) fn take(&mut self) -> Given {
        let made = if is_refused() {
            None
        } else {
            self.free.pop().or_else(|| Stack::new(self.bytes).ok())
        };
        self.fewest = self.fewest.min(self.free.len());
        if let Some(stack) = made {
            return Given::Whole(stack);
        }
        match self.reserve.take() {
            Some(stack) => {
                self.lent = true;
                Given::Reserve(stack)
            }
            None => Given::Nothing,
        }
    }

    /// Takes back a stack whose fiber has ended.
    pub(crate) fn put(&mut self, mut stack: Stack) {
        let keep = self.lent || self.free.len() < KEPT_STACKS;
        if !keep {
            return;
        }
        self.puts = self.puts.wrapping_add(1);
        stack.cut(self.puts.is_multiple_of(TRIMMED_EVERY));
        if self.lent {
            // Any stack will do.
            (self.reserve, self.lent) = (Some(stack), false);
        } else {
            self.free.push(stack);
        }
    }

    /// Frees all but `count` of the free stacks; those used last stay.
    pub(crate) fn keep(&mut self, count: usize) {
        self.free.drain(..self.free.len().saturating_sub(count));
        self.fewest = self.fewest.min(self.free.len());
    }

    /// When to call [`StackPool::look`], monotonic nanoseconds; `None`: there is nothing to give
    /// back.
    #[inline]
    pub(crate) fn look_at(&self) -> Option<u64> {
        (self.free.len() > ALWAYS_KEPT).then_some(self.look_at)
    }

    /// Gives back some of the stacks that were not needed since the last look, if it is time.
    #[cold]
    pub(crate) fn look(&mut self, now: u64) {
        if now < self.look_at {
            return;
        }
        if self.surplus == 0 {
            // A period of observation ends here. Before the first look there was none.
            let rested = if self.look_at == 0 { 0 } else { self.fewest };
            self.surplus = rested.saturating_sub(ALWAYS_KEPT);
        }
        let spare = self.free.len().saturating_sub(ALWAYS_KEPT);
        let count = self.surplus.min(AT_ONCE).min(spare);
        // The least recently used ones.
        self.free.drain(..count);
        self.surplus = if spare > count { self.surplus - count } else { 0 };
        if self.surplus == 0 {
            self.fewest = self.free.len();
        }
        self.look_at = now + if self.surplus == 0 { LOOK_NANOS } else { PAUSE_NANOS };
    }

    /// Stacks that are free.
    #[cfg(test)]
    pub(crate) fn free(&self) -> &[Stack] {
        &self.free
    }
}
