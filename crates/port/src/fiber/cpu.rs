//! CPU time of fibers: their thread's, without what it used while they were away.
//!
//! A fiber stays on one thread, so it is enough to note how far that thread's CPU clock advances
//! between the switch away and the switch back. The clock is a system call: it is read only while a
//! [`CpuWatch`] exists.
//!
//! Thread safety: watches from anywhere; the rest concerns the calling fiber.

use super::scope;
use super::slot::Slot;
use crate::{task, time};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Watches that are alive.
static WATCHES: AtomicUsize = AtomicUsize::new(0);

/// While one is alive, [`task_cpu_nanos`](time::task_cpu_nanos) leaves out what other fibers use.
#[derive(Debug)]
pub struct CpuWatch(());

/// A watch. Does not suspend.
pub fn watch_cpu() -> CpuWatch {
    WATCHES.fetch_add(1, Relaxed);
    CpuWatch(())
}

impl Drop for CpuWatch {
    fn drop(&mut self) {
        WATCHES.fetch_sub(1, Relaxed);
    }
}

/// Runs `switch`, which returns when the fiber is resumed, and adds the CPU time in between to
/// `away`.
#[inline]
pub(super) fn switch(away: &Cell<u64>, switch: impl FnOnce()) {
    if WATCHES.load(Relaxed) == 0 {
        return switch();
    }
    let left = time::thread_cpu_nanos();
    switch();
    away.set(away.get() + time::thread_cpu_nanos().saturating_sub(left));
}

/// What the calling thread used while the calling fiber was away; 0 on a thread.
pub(crate) fn away_nanos() -> u64 {
    match (task::current_fiber(), scope::current_loop()) {
        (Some((task, _)), Some(_)) => Slot::of(task).cpu_away.get(),
        _ => 0,
    }
}
