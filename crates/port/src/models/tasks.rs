//! Models of parking: permits, deadlines, and fibers sharing a primitive with threads.

use super::{holds, holds_with_hand_off, rejects};
use crate::sync::{Condvar, Event, Mutex, Semaphore};
use crate::task::{self, TaskRef, WaitReason, model, unpark_all};
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use std::sync::Arc;
use std::time::Duration;

static TEST: WaitReason = WaitReason("test");

/// Runs `f` as a thread's task or as a fiber.
fn run_as(fiber: bool, f: impl FnOnce()) {
    if fiber { model::as_fiber(f) } else { f() }
}

/// A task waits for a flag that another raises before it unparks.
fn flag_and_unpark(fiber: bool, timed: bool) -> impl Fn() + Sync + Send {
    move || {
        run_as(fiber, || {
            let raised = Arc::new(AtomicBool::new(false));
            let (task, flag) = (task::current(), Arc::clone(&raised));
            let raiser = thread::spawn(move || {
                flag.store(true, Ordering::Release);
                task.unpark();
            });
            if timed {
                // A deadline, then a wait without one: the permit is there, or comes.
                task::park_until(&TEST, Some(1));
            }
            while !raised.load(Ordering::Acquire) {
                task::park(&TEST);
            }
            raiser.join().unwrap();
        });
    }
}

#[test]
fn an_unpark_is_never_lost() {
    for fiber in [false, true] {
        holds(3, flag_and_unpark(fiber, false));
        holds(3, flag_and_unpark(fiber, true));
    }
}

#[test]
fn two_unparks_make_a_fiber_runnable_once() {
    holds(3, || {
        model::as_fiber(|| {
            let raised = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
            let task = task::current();
            let raise = |which: usize| {
                let raised = Arc::clone(&raised);
                thread::spawn(move || {
                    raised[which].store(true, Ordering::Release);
                    task.unpark();
                })
            };
            let raisers = [raise(0), raise(1)];
            while !raised.iter().all(|raised| raised.load(Ordering::Acquire)) {
                task::park(&TEST);
            }
            raisers.into_iter().for_each(|raiser| raiser.join().unwrap());
        });
    });
}

#[test]
fn an_unpark_before_the_flag_is_caught() {
    let message = rejects(3, || {
        let raised = Arc::new(AtomicBool::new(false));
        let (task, flag) = (task::current(), Arc::clone(&raised));
        let raiser = thread::spawn(move || {
            task.unpark();
            flag.store(true, Ordering::Release);
        });
        while !raised.load(Ordering::Acquire) {
            task::park(&TEST);
        }
        raiser.join().unwrap();
    });
    assert!(message.unwrap().contains("deadlock"));
}

#[test]
fn a_batch_wakes_fibers_and_threads() {
    holds(2, || {
        let shared = Arc::new((AtomicBool::new(false), loom::sync::Mutex::new(Vec::new())));
        let wait = |fiber: bool| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                run_as(fiber, || {
                    shared.1.lock().unwrap().push(task::current());
                    while !shared.0.load(Ordering::Acquire) {
                        task::park(&TEST);
                    }
                });
            })
        };
        let waiters = [wait(true), wait(false)];
        shared.0.store(true, Ordering::Release);
        let tasks: Vec<TaskRef> = shared.1.lock().unwrap().clone();
        unpark_all(tasks);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
}

/// A fiber, another loop's fiber and a thread at one mutex.
fn mixed_mutex() {
    let mutex = Arc::new(Mutex::new(0));
    let add = || {
        let mutex = Arc::clone(&mutex);
        thread::spawn(move || model::as_fiber(|| *mutex.lock() += 1))
    };
    let others = [add(), add()];
    *mutex.lock() += 1;
    others.into_iter().for_each(|other| other.join().unwrap());
    assert_eq!(*mutex.lock(), 3);
}

#[test]
fn fibers_and_a_thread_share_a_mutex() {
    holds(3, mixed_mutex);
    holds_with_hand_off(3, mixed_mutex);
}

#[test]
fn a_fiber_and_a_thread_wait_on_a_condvar() {
    holds(3, || {
        let shared = Arc::new((Mutex::new(0), Condvar::new()));
        let wait = |fiber: bool| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                run_as(fiber, || {
                    *shared.1.wait_while(shared.0.lock(), |left| *left == 0) -= 1;
                });
            })
        };
        let waiters = [wait(true), wait(false)];
        *shared.0.lock() = 2;
        shared.1.notify_all();
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        assert_eq!(*shared.0.lock(), 0);
    });
}

#[test]
fn a_fiber_s_deadline_races_with_the_event() {
    holds(3, || {
        let event = Arc::new(Event::new());
        let setter = Arc::clone(&event);
        let setter = thread::spawn(move || setter.set());
        model::as_fiber(|| {
            if !event.wait_timeout(Duration::from_secs(1)) {
                event.wait();
            }
        });
        setter.join().unwrap();
    });
}

#[test]
fn permits_go_from_a_thread_to_fibers() {
    holds(3, || {
        let semaphore = Arc::new(Semaphore::new(0));
        let take = || {
            let semaphore = Arc::clone(&semaphore);
            thread::spawn(move || model::as_fiber(|| semaphore.acquire(1)))
        };
        let takers = [take(), take()];
        semaphore.release(2);
        takers.into_iter().for_each(|taker| taker.join().unwrap());
        assert_eq!(semaphore.available(), 0);
    });
}
