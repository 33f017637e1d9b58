//! Jobs run, in order, on as many threads as allowed, with the priority wished for.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::os;
use crate::sync::{Event, Mutex, Semaphore};
use crate::thread;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn jobs_run_in_order_on_one_thread() {
    let pools = ThreadPools::new();
    let order = Arc::new(Mutex::new(Vec::new()));
    for i in 0..100 {
        let order = Arc::clone(&order);
        pools.schedule(Priority::Low, "number", Box::new(move || order.lock().push(i)));
    }
    pools.wait_idle();
    assert_eq!(*order.lock(), (0..100).collect::<Vec<_>>());
    assert_eq!(pools.thread_ids(Priority::Low).len(), 1);
    assert!(pools.thread_ids(Priority::High).is_empty(), "no job, no thread");
}

/// Blocks `count` jobs of a pool until the semaphore gives a permit to each.
fn occupy(
    pools: &ThreadPools,
    priority: Priority,
    count: usize,
) -> (Arc<Semaphore>, Arc<Semaphore>) {
    let (started, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    for _ in 0..count {
        let (started, gate) = (Arc::clone(&started), Arc::clone(&gate));
        let job = move || {
            started.release(1);
            gate.acquire(1);
        };
        pools.schedule(priority, "occupy", Box::new(job));
    }
    (started, gate)
}

#[test]
fn the_number_of_threads_grows_and_shrinks() {
    let pools = ThreadPools::new();
    pools.set_background_threads(3, Priority::Low);
    let (started, gate) = occupy(&pools, Priority::Low, 5);
    started.acquire(3);
    assert_eq!((pools.running(Priority::Low), pools.queue_len(Priority::Low)), (3, 2));
    pools.increase_background_threads(2, Priority::Low);
    assert_eq!(pools.background_threads(Priority::Low), 3);
    pools.increase_background_threads(5, Priority::Low);
    started.acquire(2);
    assert_eq!((pools.running(Priority::Low), pools.queue_len(Priority::Low)), (5, 0));
    pools.set_background_threads(1, Priority::Low);
    gate.release(5);
    pools.wait_idle();
    while pools.thread_ids(Priority::Low).len() > 1 {
        thread::yield_now();
    }
    let (started, gate) = occupy(&pools, Priority::Low, 2);
    started.acquire(1);
    assert_eq!((pools.running(Priority::Low), pools.queue_len(Priority::Low)), (1, 1));
    gate.release(2);
    pools.wait_idle();
}

#[test]
fn queued_jobs_can_be_taken_back() {
    let pools = ThreadPools::new();
    let (started, gate) = occupy(&pools, Priority::High, 1);
    started.acquire(1);
    let ran = Arc::new(AtomicUsize::new(0));
    for tag in [1, 2, 1, 3] {
        let ran = Arc::clone(&ran);
        let job = Box::new(move || {
            ran.fetch_add(tag as usize, Ordering::SeqCst);
        });
        pools.schedule_tagged(Priority::High, "tagged", tag, job);
    }
    assert_eq!(pools.unschedule(Priority::High, 1), 2);
    assert_eq!(pools.unschedule(Priority::High, 9), 0);
    gate.release(1);
    pools.wait_idle();
    assert_eq!(ran.load(Ordering::SeqCst), 5);
}

#[test]
fn a_panicking_job_does_not_end_its_thread() {
    let pools = ThreadPools::new();
    pools.schedule(Priority::Bottom, "bad job", Box::new(|| panic!("on purpose")));
    pools.wait_idle();
    let before = pools.thread_ids(Priority::Bottom);
    let done = Arc::new(Event::new());
    let job_done = Arc::clone(&done);
    pools.schedule(Priority::Bottom, "good job", Box::new(move || job_done.set()));
    done.wait();
    assert_eq!(pools.panicked_jobs(), 1);
    assert_eq!(pools.thread_ids(Priority::Bottom), before);
}

/// Runs a job and gives the thread's nice value during it.
fn nice_in_job(pools: &ThreadPools, priority: Priority) -> i32 {
    let nice = Arc::new(Mutex::new(0));
    let seen = Arc::clone(&nice);
    let job = move || *seen.lock() = os::nice_of(os::thread_id()).unwrap();
    pools.schedule(priority, "look", Box::new(job));
    pools.wait_idle();
    *nice.lock()
}

#[test]
fn threads_take_the_lower_priority_before_their_next_job() {
    let pools = ThreadPools::new();
    let normal = nice_in_job(&pools, Priority::Low);
    pools.lower_cpu_priority(Priority::Low, CpuPriority::High);
    assert_eq!(nice_in_job(&pools, Priority::Low), normal, "never raised");
    pools.lower_cpu_priority(Priority::Low, CpuPriority::Low);
    pools.lower_io_priority(Priority::Low);
    let thread = pools.thread_ids(Priority::Low)[0];
    assert_eq!(os::nice_of(thread).unwrap(), normal, "not before a job");
    assert_eq!(nice_in_job(&pools, Priority::Low), 19);
    assert_eq!(os::nice_of(thread).unwrap(), 19, "the same thread, seen from outside");
    assert_eq!(nice_in_job(&pools, Priority::High), normal, "other pools are not touched");
    pools.lower_cpu_priority(Priority::Low, CpuPriority::Normal);
    assert_eq!(nice_in_job(&pools, Priority::Low), 19, "never raised");
}

#[test]
fn joining_finishes_or_drops_what_is_queued() {
    for finish in [true, false] {
        let pools = ThreadPools::new();
        let (started, gate) = occupy(&pools, Priority::User, 1);
        started.acquire(1);
        let ran = Arc::new(AtomicUsize::new(0));
        for _ in 0..10 {
            let ran = Arc::clone(&ran);
            let job = Box::new(move || {
                ran.fetch_add(1, Ordering::SeqCst);
            });
            pools.schedule(Priority::User, "count", job);
        }
        thread::scope(|scope| {
            scope.spawn(|| pools.join_all(finish));
            while !finish && pools.queue_len(Priority::User) > 0 {
                thread::yield_now();
            }
            gate.release(1);
        });
        assert_eq!(ran.load(Ordering::SeqCst), if finish { 10 } else { 0 });
        assert!(pools.thread_ids(Priority::User).is_empty());
        // The pools can be used again.
        nice_in_job(&pools, Priority::User);
    }
}

#[test]
fn the_last_owner_may_be_a_job() {
    let pools = Arc::new(ThreadPools::new());
    let done = Arc::new(Event::new());
    let (owner, job_done, handed_over) =
        (Arc::clone(&pools), Arc::clone(&done), Arc::new(Event::new()));
    let wait = Arc::clone(&handed_over);
    let job = move || {
        wait.wait();
        drop(owner);
        job_done.set();
    };
    pools.schedule(Priority::Low, "last owner", Box::new(job));
    drop(pools);
    handed_over.set();
    done.wait();
}
