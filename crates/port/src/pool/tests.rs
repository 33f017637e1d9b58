//! Jobs run, in order, on as many threads as allowed, with the requested priority.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::lane::{Floor, Lane, LanePriority, at_normal_priority};
use crate::os::{self, ThreadPriority};
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
    assert_eq!(pools.background_threads(Priority::Bottom), 0);
    pools.set_background_threads(1, Priority::Bottom);
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

/// Runs a job and returns the thread's priority during it, and the thread's id.
fn seen_in_job(pools: &ThreadPools, priority: Priority) -> (ThreadPriority, u64) {
    let seen = Arc::new(Mutex::new(None));
    let found = Arc::clone(&seen);
    let job = move || *found.lock() = Some((os::thread_priority(), os::thread_id()));
    pools.schedule(priority, "look", Box::new(job));
    pools.wait_idle();
    let seen = seen.lock().take();
    seen.expect("the job has run")
}

fn of(thread: u64) -> ThreadPriority {
    os::thread_priority_of(thread).unwrap()
}

#[test]
fn threads_take_the_lower_priority_before_their_next_job() {
    let pools = ThreadPools::new();
    let (normal, thread) = seen_in_job(&pools, Priority::Low);
    assert!(!normal.is_idle_policy() && !normal.is_idle_io());
    for level in [CpuPriority::Normal, CpuPriority::High] {
        pools.lower_thread_pool_cpu_priority(Priority::Low, level).unwrap();
        assert_eq!(seen_in_job(&pools, Priority::Low), (normal, thread), "never raised");
    }
    pools.lower_thread_pool_cpu_priority(Priority::Low, CpuPriority::Low).unwrap();
    assert_eq!(of(thread), normal, "not before a job");
    let (low, _) = seen_in_job(&pools, Priority::Low);
    assert_eq!((low.nice(), low.is_idle_policy(), low.is_idle_io()), (19, false, false));
    assert_eq!(of(thread), low, "the same thread, seen from outside");
    pools.lower_thread_pool_io_priority(Priority::Low).unwrap();
    assert!(seen_in_job(&pools, Priority::Low).0.is_idle_io());
    pools.lower_thread_pool_cpu_priority(Priority::Low, CpuPriority::Idle).unwrap();
    assert!(seen_in_job(&pools, Priority::Low).0.is_idle_policy());
    pools.set_background_threads(1, Priority::Bottom);
    for priority in [Priority::Bottom, Priority::High, Priority::User] {
        assert_eq!(seen_in_job(&pools, priority).0, normal, "other pools are not touched");
    }
    pools.lower_thread_pool_cpu_priority(Priority::Low, CpuPriority::Normal).unwrap();
    let (last, same) = seen_in_job(&pools, Priority::Low);
    assert!(last.is_idle_policy() && last.is_idle_io(), "never raised");
    assert_eq!(same, thread);
    pools.lower_thread_pool_cpu_priority(Priority::High, CpuPriority::Idle).unwrap();
    assert!(seen_in_job(&pools, Priority::High).0.is_idle_policy(), "from normal to idle");
    assert_eq!(os::thread_priority(), normal, "the caller is not touched");
}

/// A new thread inherits its starter's priority: a lowered one must not start another pool's first
/// thread.
#[test]
fn a_lowered_job_starts_no_lowered_thread_of_another_pool() {
    let pools = Arc::new(ThreadPools::new());
    pools.lower_thread_pool_cpu_priority(Priority::Low, CpuPriority::Low).unwrap();
    pools.lower_thread_pool_io_priority(Priority::Low).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (inner, found) = (Arc::clone(&pools), Arc::clone(&seen));
    let job = move || {
        found.lock().push(os::thread_priority());
        let look = Arc::clone(&found);
        let job = move || look.lock().push(os::thread_priority());
        inner.schedule(Priority::High, "inner", Box::new(job));
    };
    pools.schedule(Priority::Low, "outer", Box::new(job));
    pools.wait_idle();
    let seen = seen.lock();
    assert_eq!((seen[0].nice(), seen[0].is_idle_io()), (19, true));
    assert_eq!(seen[1], os::thread_priority());
}

/// Includes a thread that starts later, and those that were busy when the request came.
#[test]
fn every_thread_of_a_pool_is_lowered() {
    let pools = ThreadPools::new();
    let own = of(os::thread_id()).nice();
    pools.set_background_threads(3, Priority::Low);
    let (started, gate) = occupy(&pools, Priority::Low, 2);
    started.acquire(2);
    pools.lower_thread_pool_cpu_priority(Priority::Low, CpuPriority::Low).unwrap();
    let nices = || -> Vec<i32> {
        pools.thread_ids(Priority::Low).into_iter().map(|id| of(id).nice()).collect()
    };
    assert_eq!(nices(), [own, own], "running jobs are not touched");
    gate.release(2);
    pools.wait_idle();
    let (started, gate) = occupy(&pools, Priority::Low, 3);
    started.acquire(3);
    assert_eq!(nices(), [19, 19, 19]);
    gate.release(3);
    pools.wait_idle();
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
        seen_in_job(&pools, Priority::User);
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

/// Also on a pool that was lowered, whose parted jobs run on a thread other than the pool's.
#[test] // Priorities are those of operating-system threads.
fn the_last_owner_may_be_a_parted_job_of_a_lowered_pool() {
    for parted in [true, false] {
        let pools = Arc::new(ThreadPools::new());
        pools.lower_thread_pool_cpu_priority(Priority::Low, CpuPriority::Low).unwrap();
        let (done, handed_over) = (Arc::new(Event::new()), Arc::new(Event::new()));
        let (owner, ended, wait) =
            (Arc::clone(&pools), Arc::clone(&done), Arc::clone(&handed_over));
        let job = Box::new(move || {
            wait.wait();
            drop(owner);
            ended.set();
        });
        if parted {
            pools.schedule_parted(Priority::Low, "last owner", 0, job);
        } else {
            pools.schedule(Priority::Low, "last owner", job);
        }
        drop(pools);
        handed_over.set();
        assert!(done.wait_timeout(std::time::Duration::from_secs(20)), "parted: {parted}");
    }
}

/// A parted job computes on the pool's thread, and otherwise runs on one that was not lowered.
#[test] // Priorities are those of operating-system threads.
fn only_the_computing_of_a_parted_job_is_lowered() {
    let pools = Arc::new(ThreadPools::new());
    let normal = os::thread_priority();
    let lanes = Arc::new([Lane::fixed(), Lane::movable(LanePriority::default())]);
    let look = |lane: usize| {
        let (seen, found) = (Arc::new(Mutex::new(None)), Arc::clone(&lanes));
        let (note, me) = (Arc::clone(&seen), || (os::thread_id(), os::thread_priority()));
        let job = move || {
            let inside = || (me(), at_normal_priority(me));
            let parts = found[lane].run(&Floor::of_caller(), inside);
            *note.lock() = Some((me(), parts));
        };
        pools.schedule_parted(Priority::Low, "look", 0, Box::new(job));
        pools.wait_idle();
        let (own, (computed, handed_back)) = seen.lock().take().unwrap();
        assert_eq!(own.1, normal);
        (own, computed, handed_back)
    };
    let (own, computed, handed_back) = look(0);
    assert_eq!((computed, handed_back), (own, own), "all on one thread");
    pools.lower_thread_pool_cpu_priority(Priority::Low, CpuPriority::Low).unwrap();
    for lane in [0, 1, 0] {
        let (own, computed, handed_back) = look(lane);
        assert_eq!(pools.thread_ids(Priority::Low), [computed.0], "lane {lane}");
        assert_eq!((computed.1.nice(), handed_back), (19, own));
    }
    pools.lower_thread_pool_cpu_priority(Priority::Low, CpuPriority::Idle).unwrap();
    let (_, computed, _) = look(1);
    assert!(computed.1.is_idle_policy());
    assert_eq!(pools.thread_ids(Priority::Low), [computed.0]);
    assert!(seen_in_job(&pools, Priority::Low).0.is_idle_policy(), "and other jobs are");
    let panic = Box::new(|| panic!("a parted job"));
    pools.schedule_parted(Priority::Low, "panic", 0, panic);
    pools.wait_idle();
    assert_eq!(pools.panicked_jobs(), 1);
    pools.set_background_threads(0, Priority::Low);
    pools.join_all(true);
}

/// Each tag has a job done before any has a second one; those without a tag have turns of their
/// own; jobs of one tag keep their order.
#[test]
fn tags_take_turns() {
    let pools = ThreadPools::new();
    let (started, gate) = occupy(&pools, Priority::Low, 1);
    started.acquire(1);
    let order = Arc::new(Mutex::new(Vec::new()));
    for (tag, number) in [(7, 1), (7, 2), (7, 3), (0, 4), (8, 5), (0, 6), (8, 7), (9, 8), (7, 9)] {
        let order = Arc::clone(&order);
        let job = Box::new(move || order.lock().push(number));
        pools.schedule_parted(Priority::Low, "turn", tag, job);
    }
    assert_eq!(pools.queue_len(Priority::Low), 9);
    assert_eq!(pools.unschedule(Priority::Low, 9), 1);
    gate.release(1);
    pools.wait_idle();
    assert_eq!(*order.lock(), [1, 4, 5, 6, 2, 7, 3, 9]);
}
