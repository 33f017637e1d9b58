//! Waking many tasks at once: one hand-off per scheduler instead of one per task.
//!
//! Fibers are collected in a chain per scheduler (through `Task::next`, which belongs to the waker
//! by invariant 3 of the module `task`), so that waking a thousand fibers of two loops costs two
//! hand-offs and at most two kicks. Threads are woken one by one: each sleeps on its own word.
//!
//! Thread safety: from any thread. A batch belongs to its caller.

use super::{Scheduler, Task, TaskRef};
use crate::atomic::Ordering;

/// Schedulers for which a batch keeps chains at one time; further ones displace the first.
const CHAINS: usize = 4;

/// Tasks of one scheduler, in the order in which they were notified.
#[derive(Clone, Copy)]
struct Chain {
    scheduler: &'static dyn Scheduler,
    first: &'static Task,
    last: &'static Task,
}

/// Notified fibers not yet handed to their schedulers; dropping this hands them over.
#[derive(Default)]
pub(crate) struct Batch {
    chains: [Option<Chain>; CHAINS],
}

impl Batch {
    /// Notifies `task`.
    #[inline]
    pub(crate) fn unpark(&mut self, task: TaskRef) {
        if let Some(scheduler) = task.notify() {
            self.add(scheduler, task.0);
        }
    }

    fn add(&mut self, scheduler: &'static dyn Scheduler, task: &'static Task) {
        task.next.store(std::ptr::null_mut(), Ordering::Relaxed);
        for chain in &mut self.chains {
            match chain {
                None => {
                    *chain = Some(Chain { scheduler, first: task, last: task });
                    return;
                }
                Some(chain) if std::ptr::addr_eq(chain.scheduler, scheduler) => {
                    let pointer = std::ptr::from_ref(task).cast_mut();
                    chain.last.next.store(pointer, Ordering::Relaxed);
                    chain.last = task;
                    return;
                }
                Some(_) => {}
            }
        }
        let chain = Chain { scheduler, first: task, last: task };
        hand_over(self.chains[0].replace(chain));
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        for chain in &mut self.chains {
            hand_over(chain.take());
        }
    }
}

fn hand_over(chain: Option<Chain>) {
    let Some(Chain { scheduler, first, last }) = chain else { return };
    let mut at = Some(first);
    let mut tasks = std::iter::from_fn(|| {
        let task = at?;
        // Before the scheduler takes over the task, and with it `next`.
        let next = task.next.load(Ordering::Relaxed);
        // SAFETY: invariant 4 of the module `task`.
        at = if std::ptr::eq(task, last) { None } else { unsafe { next.as_ref() } };
        Some(task)
    });
    scheduler.wake_many(&mut tasks);
}

/// Wakes every task of `tasks`, as [`TaskRef::unpark`] does one; fibers run in this order on each
/// loop, and each loop is kicked at most once. Never suspends, except at the beginning in a
/// simulation.
pub fn unpark_all(tasks: impl IntoIterator<Item = TaskRef>) {
    crate::sim::point();
    let mut batch = Batch::default();
    for task in tasks {
        batch.unpark(task);
    }
}
