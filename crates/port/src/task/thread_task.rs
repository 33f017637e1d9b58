//! Tasks that are operating-system threads: they wait on a futex.
//!
//! A record is claimed when a thread first needs one and given back when the thread ends. Under
//! loom a record is never used again: loom's objects end with the execution that made them.

use super::{BLOCKED, Home, Task};
use crate::atomic::Ordering;
use crate::task::futex::Futex;

/// Records of threads that have ended.
#[cfg(not(loom))]
static FREE: std::sync::Mutex<Vec<&'static Task>> = std::sync::Mutex::new(Vec::new());

/// Gives the record back when the thread ends.
#[cfg(not(loom))]
struct Claim(std::cell::Cell<Option<&'static Task>>);

#[cfg(not(loom))]
impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            super::set_current(None);
            release(task);
        }
    }
}

#[cfg(not(loom))]
thread_local! {
    static CLAIM: Claim = const { Claim(std::cell::Cell::new(None)) };
}

/// A record for the calling thread.
#[cfg(not(loom))]
pub(super) fn claim() -> &'static Task {
    let task = reserve();
    keep(task);
    task
}

/// A record for a thread that is about to be started and will [`adopt`] it.
#[cfg(not(loom))]
pub(crate) fn reserve() -> &'static Task {
    let free = FREE.lock().unwrap_or_else(std::sync::PoisonError::into_inner).pop();
    let task = free.unwrap_or_else(|| Box::leak(Box::new(Task::new(Home::Thread))));
    task.reset();
    task
}

/// Makes `task` the record of the calling thread, which has none yet.
#[cfg(not(loom))]
pub(crate) fn adopt(task: &'static Task) {
    super::set_current(Some(task));
    keep(task);
}

/// Gives back a record whose thread could not be started.
#[cfg(not(loom))]
pub(crate) fn release(task: &'static Task) {
    FREE.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(task);
}

/// Makes sure that the record is given back.
#[cfg(not(loom))]
fn keep(task: &'static Task) {
    // While thread-locals are being destroyed the record cannot be noted; it then leaks, once.
    CLAIM.try_with(|claim| claim.0.set(Some(task))).unwrap_or(());
}

#[cfg(loom)]
pub(super) fn claim() -> &'static Task {
    Box::leak(Box::new(Task::new(Home::Thread)))
}

/// Waits while the word is BLOCKED and the deadline has not passed; on return it is not BLOCKED.
pub(super) fn wait(state: &Futex, deadline_nanos: Option<u64>) {
    while state.load(Ordering::Acquire) == BLOCKED {
        let mut limit = None;
        if let Some(deadline) = deadline_nanos {
            let now = super::clock::monotonic_nanos();
            if now >= deadline {
                // Lost the race to an unpark: the caller consumes that.
                let (from, to) = (BLOCKED, super::EMPTY);
                let _expired =
                    state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
                return;
            }
            limit = Some(deadline - now);
        }
        state.wait(BLOCKED, limit);
    }
}
