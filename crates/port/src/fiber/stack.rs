//! Stacks of fibers: guarded memory, kept for the next fiber when one ends.
//!
//! A stack is one private mapping whose lowest [`GUARD_BYTES`] fault on any access. The guard is
//! installed without splitting the mapping (`MADV_GUARD_INSTALL`, Linux 6.13); where the kernel
//! does not know that, by `mprotect`, which costs two kernel mappings per stack, of which a process
//! has 65,530. Stacks begin at different distances from the end of their mapping ("colours"), or
//! the hot words of a thousand fibers would share a few cache sets.
//!
//! Invariants cited by unsafe blocks:
//! 1. `low .. low + len` is a mapping of this stack's own, made in `new` and removed in `drop`.
//! 2. Nobody uses a stack while it is in the pool.
//!
//! Thread safety: a stack may move between threads while no fiber is on it; the pool has no locks
//! and belongs to one loop.

use crate::machine::{self, Resource};
use corosensei::stack::{Stack as CoroutineStack, StackPointer};
use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Stack bytes of a fiber unless its runtime was built with another number.
pub(crate) const DEFAULT_STACK_BYTES: usize = 256 << 10;
/// The same of the runtime of the process, for calls that threads hand over: they may bring code of
/// the user's along that was written for a thread's stack.
pub(crate) const SHARED_STACK_BYTES: usize = 2 << 20;
/// A C function may step over a single page without touching it; no function here has frames of
/// this size.
pub(crate) const GUARD_BYTES: usize = 32 << 10;
/// What a stack in the pool may keep in memory once its depth has been seen.
const KEPT_STACK_BYTES: usize = 32 << 10;
const PAGE: usize = 4096;
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
}

impl Stack {
    /// A new stack of at least `bytes`, guard not counted.
    ///
    /// # Errors
    /// ENOMEM when there is no memory or no mapping left.
    pub(crate) fn new(bytes: usize) -> io::Result<Stack> {
        let len = bytes.max(4 * PAGE).next_multiple_of(PAGE) + GUARD_BYTES;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        machine::ask(Resource::AddressSpace)?;
        // SAFETY: a new mapping touches nothing that exists.
        let low = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0) };
        if low == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let colour = NEXT_COLOUR.fetch_add(1, Ordering::Relaxed) % COLOURS * LINE;
        let stack = Stack { low: low as usize, len, colour };
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

    /// How deep the stack has been, in bytes, to a page: what is in memory of the mapping. Pages
    /// that an earlier fiber touched count too, except those that [`Stack::trim`] gave back.
    /// One system call.
    pub(crate) fn depth(&self) -> usize {
        depth(self.low, self.usable())
    }

    /// Gives pages deeper than [`KEPT_STACK_BYTES`] back to the kernel. Nothing is on the stack.
    pub(crate) fn trim(&self) {
        let bytes = (self.len - GUARD_BYTES).saturating_sub(KEPT_STACK_BYTES);
        // SAFETY: invariants 1 and 2; the guard is left alone.
        unsafe {
            let start = (self.low + GUARD_BYTES) as *mut libc::c_void;
            libc::madvise(start, bytes, libc::MADV_DONTNEED);
        }
    }

    /// Bytes a fiber can use.
    pub(crate) fn usable(&self) -> usize {
        self.len - GUARD_BYTES - self.colour
    }
}

/// How much of the stack with `usable` bytes above the guard at `low` is in memory, from the top.
pub(crate) fn depth(low: usize, usable: usize) -> usize {
    let bytes = usable.next_multiple_of(PAGE);
    let bottom = low + GUARD_BYTES;
    let mut pages = vec![0u8; bytes / PAGE];
    // SAFETY: the kernel writes a byte per page to the vector; of the stack it reads nothing.
    let code =
        unsafe { libc::mincore(bottom as *mut libc::c_void, bytes, pages.as_mut_ptr().cast()) };
    let untouched = pages.iter().position(|page| page & 1 != 0).unwrap_or(pages.len());
    if code == 0 { (pages.len() - untouched) * PAGE } else { 0 }
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
    /// For tests: so many stacks are given out on this thread, then so many are refused.
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
    free: Vec<Stack>,
    /// For a fiber that gets no other: it does nothing but drop what it would have run.
    reserve: Option<Stack>,
    /// Somebody is on the reserve.
    lent: bool,
}

/// What a fiber is given to run on.
pub(crate) enum Given {
    /// A stack of its own.
    Whole(Stack),
    /// The reserve of the loop, since there is no memory for another stack.
    Reserve(Stack),
    /// Nothing: somebody else is on the reserve.
    Nothing,
}

/// Stacks kept by a loop; the rest is unmapped. A kept stack holds the pages its fibers touched.
const KEPT_STACKS: usize = 1024;

impl StackPool {
    pub(crate) fn new() -> Self {
        StackPool { bytes: DEFAULT_STACK_BYTES, free: Vec::new(), reserve: None, lent: false }
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

    /// Lets all stacks go.
    pub(crate) fn close(&mut self) {
        debug_assert!(!self.lent, "no fiber is alive");
        (self.free, self.reserve) = (Vec::new(), None);
    }

    /// A stack, the one used last if there is one.
    pub(crate) fn take(&mut self) -> Given {
        let made = if is_refused() {
            None
        } else {
            self.free.pop().or_else(|| Stack::new(self.bytes).ok())
        };
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
    pub(crate) fn put(&mut self, stack: Stack) {
        if self.lent {
            // Any stack will do.
            (self.reserve, self.lent) = (Some(stack), false);
        } else if self.free.len() < KEPT_STACKS {
            self.free.push(stack);
        }
    }
}
