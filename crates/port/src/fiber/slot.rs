//! The record of one fiber of a loop: its task, its stack and its name.
//!
//! Records live forever and are reused by their loop (see `task`).
//!
//! Invariants cited by unsafe blocks:
//! 1. `task.data` of a loop's task points to the leaked slot that contains it.
//! 2. The cells are touched by the loop's thread, and by a spawner before it has published the slot
//!    through the inbox; never by both at once.
//!
//! Thread safety: by invariant 2; the name is made of atomics because reports read it from
//! anywhere.

use super::coroutine::{ExitCell, Fiber};
use super::cpu;
use super::event_loop::Loop;
use super::timers::NO_TIMER;
use crate::task::{Home, Task};
use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What a fiber runs; it does not unwind.
pub(crate) type Body = Box<dyn FnOnce() + Send>;

/// See the head of this file. What every switch touches comes first.
#[repr(C, align(64))]
pub(crate) struct Slot {
    pub(crate) task: Task,
    /// The way back; the fiber uses it while the loop has `fiber` borrowed.
    pub(crate) exit: ExitCell,
    /// Where the loop's timers have this slot.
    pub(crate) timer: Cell<u32>,
    /// Where on its stack the fiber suspended last, 0 before.
    pub(crate) stack_at: Cell<usize>,
    /// CPU time used by others while the fiber was away, counted only while a watch existed.
    pub(crate) cpu_away: Cell<u64>,
    /// From the first resume to the end.
    pub(crate) fiber: UnsafeCell<Option<Fiber>>,
    /// What to run, until the first resume.
    pub(crate) body: Cell<Option<Body>>,
    pub(crate) name: Name,
    /// The lowest address of the stack's mapping, 0 without one; for reports.
    pub(crate) stack_low: AtomicUsize,
    /// Bytes of the stack a fiber can use; for reports.
    pub(crate) stack_usable: AtomicUsize,
}

// SAFETY: invariant 2.
unsafe impl Sync for Slot {}

impl Slot {
    /// A new record of `owner`, which lives forever.
    pub(crate) fn leak(owner: &'static Loop) -> &'static Slot {
        let slot: &'static Slot = Box::leak(Box::new(Slot {
            task: Task::new(Home::Fiber(owner)),
            name: Name::default(),
            stack_low: AtomicUsize::new(0),
            stack_usable: AtomicUsize::new(0),
            timer: Cell::new(NO_TIMER),
            stack_at: Cell::new(0),
            cpu_away: Cell::new(0),
            body: Cell::new(None),
            fiber: UnsafeCell::new(None),
            exit: ExitCell::default(),
        }));
        slot.task.set_data(std::ptr::from_ref(slot).cast());
        slot
    }

    /// Suspends the fiber, as [`ExitCell::suspend`].
    #[inline]
    pub(crate) fn suspend(&self) {
        let here = 0u8;
        self.stack_at.set(std::ptr::from_ref(&here).addr());
        cpu::switch(&self.cpu_away, || self.exit.suspend());
    }

    /// The slot of a loop's task.
    #[inline]
    pub(crate) fn of(task: &'static Task) -> &'static Slot {
        // SAFETY: invariant 1; the callers are loops, all of whose tasks are slots.
        unsafe { &*task.data().cast::<Slot>() }
    }
}

const NAME_WORDS: usize = 5;

/// A fiber's name, at most 40 bytes of it, readable from anywhere at any time. A read that races
/// with a write may return a mixture of both names.
#[derive(Default)]
pub(crate) struct Name([AtomicU64; NAME_WORDS]);

impl Name {
    pub(crate) fn set(&self, name: &str) {
        let mut bytes = [0u8; NAME_WORDS * 8];
        let len = name.len().min(bytes.len());
        bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
        for (word, chunk) in self.0.iter().zip(bytes.chunks_exact(8)) {
            let mut eight = [0; 8];
            eight.copy_from_slice(chunk);
            word.store(u64::from_le_bytes(eight), Ordering::Relaxed);
        }
    }

    /// Takes over another name.
    pub(crate) fn copy(&self, other: &Name) {
        for (to, from) in self.0.iter().zip(&other.0) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// The bytes, padded with zeros. Allocates nothing.
    pub(crate) fn bytes(&self) -> [u8; NAME_WORDS * 8] {
        let mut bytes = [0u8; NAME_WORDS * 8];
        for (word, chunk) in self.0.iter().zip(bytes.chunks_exact_mut(8)) {
            chunk.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        bytes
    }

    pub(crate) fn text(&self) -> String {
        let bytes = self.bytes();
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }
}
