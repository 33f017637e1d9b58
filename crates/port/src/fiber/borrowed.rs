//! Loops that plain threads borrow: for a scope of fibers, or for a batch of reads.
//!
//! The whole process shares at most [`LOOPS_MAX`], made when they are needed and kept: descriptors,
//! buffers and stacks do not grow with the number of threads. A thread that finds all of them taken
//! does without: its reads are plain system calls, and its children, if they are independent of one
//! another, run in the calls that start them. Other children need a loop: one is made for them and
//! closed when it comes back.
//!
//! Invariant: a loop lies in `LOOPS` only while no fiber of it is alive and none of its operations
//! in flight: a borrower that has started fibers on it calls [`Borrowed::finish`] before returning
//! it. Its ring is of the kind that is not tied to a thread.
//!
//! Thread safety: any thread borrows; the borrowed loop stays on it ([`Rc`]).

use super::event_loop::Loop;
use super::is_fiber;
use super::overflow;
use super::runtime::Group;
use super::slot::Body;
use super::stack::{BORROWED_STACKS, DEFAULT_STACK_BYTES};
use crate::io::Reactor;
use crate::task::{Scheduler, TaskRef};
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// This many threads can have reads in flight together; the others read one block after the other.
/// Each loop costs three descriptors, and 512 KiB once it has done direct reads.
const LOOPS_MAX: usize = 16;

/// The shared loops.
struct Shared {
    idle: Vec<ThreadLoop>,
    made: usize,
}

static LOOPS: Mutex<Shared> = Mutex::new(Shared { idle: Vec::new(), made: 0 });

fn loops() -> MutexGuard<'static, Shared> {
    LOOPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An open loop that waits on a borrowed ring.
struct ThreadLoop {
    own: &'static Loop,
    group: Arc<Group>,
}

impl ThreadLoop {
    /// Closes and releases the loop, which is at rest.
    fn close(self) {
        self.own.close();
        self.own.release();
    }

    /// Whether no fiber of it is alive and none of its operations in flight.
    fn is_at_rest(&self) -> bool {
        self.group.is_empty() && self.own.reactor().inflight() == 0
    }

    /// None when the operating system has no descriptor or memory left.
    fn open() -> Option<ThreadLoop> {
        let reactor = Reactor::borrowed().ok()?;
        let own = Loop::claim();
        let group = Arc::new(Group::new(vec![own], DEFAULT_STACK_BYTES, false));
        match own.open(Arc::clone(&group), 0, reactor) {
            Ok(()) => Some(ThreadLoop { own, group }),
            Err(_) => {
                own.release();
                None
            }
        }
    }
}

/// Which loops will do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Loops {
    /// One of the shared loops.
    Shared,
    /// Includes a loop made for the borrower when the shared ones are taken.
    Any,
}

/// A borrowed loop; dropping this returns it.
pub(super) struct Borrowed {
    /// Until it is dropped.
    own: Option<ThreadLoop>,
    is_shared: bool,
}

thread_local! {
    /// What the thread has borrowed, so that a scope in a scope shares it.
    static HELD: RefCell<Weak<Borrowed>> = const { RefCell::new(Weak::new()) };
}

/// A loop for the calling thread, which is not a fiber: the one it has borrowed, or one of `loops`.
pub(super) fn borrow(loops: Loops) -> Option<Rc<Borrowed>> {
    let held = HELD.try_with(|held| {
        let mut held = held.borrow_mut();
        if let Some(borrowed) = held.upgrade() {
            return Some(borrowed);
        }
        let borrowed = Rc::new(Borrowed::find(loops)?);
        *held = Rc::downgrade(&borrowed);
        Some(borrowed)
    });
    // While thread-locals are being destroyed there is none.
    held.ok().flatten()
}

/// Runs the loop that the calling thread has borrowed, if it is that of `fiber`, until `done`.
pub(crate) fn run_for(fiber: TaskRef, done: &dyn Fn() -> bool) {
    if is_fiber() {
        return;
    }
    if let Some(borrowed) = held(fiber) {
        borrowed.drive(done);
    }
}

/// Whether the calling thread has borrowed the loop of `fiber`.
pub(super) fn is_borrowed(fiber: TaskRef) -> bool {
    held(fiber).is_some()
}

/// The loop that the calling thread has borrowed, if it is that of `fiber`.
fn held(fiber: TaskRef) -> Option<Rc<Borrowed>> {
    let held = HELD.try_with(|held| held.borrow().upgrade()).ok().flatten();
    held.filter(|borrowed| borrowed.has(fiber))
}

/// How many stacks each shared loop that is not borrowed keeps.
#[cfg(test)]
pub(super) fn kept_stacks() -> Vec<usize> {
    loops().idle.iter().map(|idle| idle.own.kept_stacks()).collect()
}

/// Closes the loops that are not borrowed.
pub(crate) fn close_idle() {
    let idle = std::mem::take(&mut loops().idle);
    let count = idle.len();
    idle.into_iter().for_each(ThreadLoop::close);
    loops().made -= count;
}

impl Borrowed {
    fn find(wanted: Loops) -> Option<Borrowed> {
        let mut shared = loops();
        if let Some(idle) = shared.idle.pop() {
            drop(shared);
            overflow::prepare();
            return Some(Borrowed { own: Some(idle), is_shared: true });
        }
        let is_shared = shared.made < LOOPS_MAX;
        if !is_shared && wanted == Loops::Shared {
            return None;
        }
        shared.made += usize::from(is_shared);
        drop(shared);
        let new = ThreadLoop::open();
        if new.is_none() && is_shared {
            loops().made -= 1;
        }
        new.map(|new| Borrowed { own: Some(new), is_shared })
    }

    fn inner(&self) -> &ThreadLoop {
        self.own.as_ref().expect("it is there until it is dropped")
    }

    /// Starts a fiber, which runs while the thread drives the loop.
    pub(super) fn start(&self, name: &str, body: Body) -> TaskRef {
        self.inner().group.spawn_on(0, name, body)
    }

    /// Runs fibers until `done` says so.
    pub(super) fn drive(&self, done: &dyn Fn() -> bool) {
        self.inner().own.drive(done);
    }

    /// Runs fibers until none is left, if this is the last handle of the loop.
    pub(super) fn finish(self: &Rc<Self>) {
        if Rc::strong_count(self) == 1 {
            self.drive(&|| self.inner().is_at_rest());
        }
    }

    /// Whether it is the loop of this fiber.
    fn has(&self, fiber: TaskRef) -> bool {
        let own: &dyn Scheduler = self.inner().own;
        fiber.0.scheduler().is_some_and(|other| std::ptr::addr_eq(own, other))
    }

    /// What the loop waits on.
    pub(super) fn reactor(&self) -> Rc<Reactor> {
        self.inner().own.reactor()
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        let Some(back) = self.own.take() else { return };
        let is_at_rest = back.is_at_rest();
        if is_at_rest && self.is_shared {
            // While the loop is not borrowed, nothing trims its stacks.
            back.own.keep_stacks(BORROWED_STACKS);
            loops().idle.push(back);
            return;
        }
        loops().made -= usize::from(self.is_shared);
        if is_at_rest {
            back.close();
        } else {
            // A bug of ours. The live fibers must not run on another thread, so the loop is never
            // used again.
            let what = "a borrowed loop is returned with live fibers or operations";
            assert!(std::thread::panicking(), "{what}");
        }
    }
}
