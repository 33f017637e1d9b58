//! Tasks that are operating-system threads: they wait on a futex.
//!
//! A record is claimed at a thread's first need and given back when the thread ends. Invariant
//! cited by unsafe blocks: 1. a futex word is a live `AtomicU32`, and the kernel only compares it.

use super::{Home, Task};
use crate::atomic::{AtomicU32, Ordering};
use crate::time;
use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

/// Records of threads that have ended.
static FREE: Mutex<Vec<&'static Task>> = Mutex::new(Vec::new());

/// Gives the record back when the thread ends.
struct Claim(Cell<Option<&'static Task>>);

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            super::CURRENT.set(None);
            release(task);
        }
    }
}

thread_local! {
    static CLAIM: Claim = const { Claim(Cell::new(None)) };
}

/// A record for the calling thread.
pub(super) fn claim() -> &'static Task {
    let task = reserve();
    keep(task);
    task
}

/// A record for a thread that is about to be started and will [`adopt`] it.
pub(crate) fn reserve() -> &'static Task {
    let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let task = free.unwrap_or_else(|| Box::leak(Box::new(Task::new(Home::Thread))));
    task.reset();
    task
}

/// Makes `task` the record of the calling thread, which has none yet.
pub(crate) fn adopt(task: &'static Task) {
    super::CURRENT.set(Some(task));
    keep(task);
}

/// Gives back a record whose thread could not be started.
pub(crate) fn release(task: &'static Task) {
    FREE.lock().unwrap_or_else(PoisonError::into_inner).push(task);
}

/// Sees to it that the record is given back.
fn keep(task: &'static Task) {
    // While thread-locals are being destroyed the record cannot be noted; it is then lost, once.
    CLAIM.try_with(|claim| claim.0.set(Some(task))).unwrap_or(());
}

/// Waits while the word is `waiting` and the deadline has not come; then the word is another.
pub(super) fn wait(state: &AtomicU32, waiting: u32, deadline_nanos: Option<u64>) {
    while state.load(Ordering::Acquire) == waiting {
        let mut limit = None;
        if let Some(deadline) = deadline_nanos {
            let now = time::monotonic_nanos();
            if now >= deadline {
                // Lost against an unpark: the caller consumes that.
                let _expired = state.compare_exchange(
                    waiting,
                    super::EMPTY,
                    Ordering::AcqRel,
                    Ordering::Acquire,
                );
                return;
            }
            limit = Some(deadline - now);
        }
        futex_wait(state, waiting, limit);
    }
}

/// Wakes the thread that waits on `state`.
pub(super) fn wake(state: &AtomicU32) {
    // SAFETY: invariant 1.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            state.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            1,
        );
    }
}

/// Sleeps if `word` is `expected`, until it is woken, `nanos` have passed, or for no reason.
fn futex_wait(word: &AtomicU32, expected: u32, nanos: Option<u64>) {
    let timeout = nanos.map(|n| libc::timespec {
        tv_sec: (n / 1_000_000_000) as libc::time_t,
        tv_nsec: (n % 1_000_000_000) as libc::c_long,
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: invariant 1; the timeout is null or a live local.
    unsafe {
        let op = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        libc::syscall(libc::SYS_futex, word.as_ptr(), op, expected, timeout);
    }
}
