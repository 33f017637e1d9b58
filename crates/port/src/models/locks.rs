//! Models of Mutex, Condvar, RwLock, Semaphore, Event and of the queue's own lock.

use super::{holds, holds_with_hand_off, is_caught};
use crate::sync::planted::Planted;
use crate::sync::{Condvar, Event, Mutex, RawLock, RwLock, Semaphore};
use loom::cell::UnsafeCell;
use loom::thread;
use std::sync::Arc;
use std::time::Duration;

/// How loom names a lost wake-up.
const DEADLOCK: &str = "deadlock";
/// How loom names two unordered accesses to one place.
const RACE: &str = "Causality violation";
const LIMIT: Duration = Duration::from_secs(1);

/// A number that loom checks: concurrent access by two tasks fails the model.
pub(crate) struct Watched(UnsafeCell<u32>);

// SAFETY: the models check that it is not accessed concurrently, and loom reports it if it is.
unsafe impl Send for Watched {}
// SAFETY: as above.
unsafe impl Sync for Watched {}

impl Watched {
    pub(crate) fn new() -> Self {
        Watched(UnsafeCell::new(0))
    }
    pub(crate) fn add(&self) {
        // SAFETY: loom checks that the access is exclusive.
        self.0.with_mut(|value| unsafe { *value += 1 });
    }
    pub(crate) fn get(&self) -> u32 {
        // SAFETY: loom checks that no one writes.
        self.0.with(|value| unsafe { *value })
    }
}

fn mutex_counts(threads: u32) -> impl Fn() + Sync + Send {
    move || {
        let mutex = Arc::new(Mutex::new(Watched::new()));
        let add = |mutex: &Arc<Mutex<Watched>>| {
            let mutex = Arc::clone(mutex);
            thread::spawn(move || mutex.lock().add())
        };
        let others: Vec<_> = (1..threads).map(|_| add(&mutex)).collect();
        mutex.lock().add();
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(mutex.lock().get(), threads);
    }
}

#[test]
fn mutex_of_two() {
    holds(4, mutex_counts(2));
}

#[test]
fn mutex_of_three() {
    holds(3, mutex_counts(3));
}

#[test]
fn mutex_hands_off() {
    holds_with_hand_off(2, || {
        let mutex = Arc::new(Mutex::new(Watched::new()));
        let add = |times: usize| {
            let mutex = Arc::clone(&mutex);
            thread::spawn(move || (0..times).for_each(|_| mutex.lock().add()))
        };
        let other = add(2);
        let third = add(1);
        mutex.lock().add();
        other.join().unwrap();
        third.join().unwrap();
        assert_eq!(mutex.lock().get(), 4);
    });
}

#[test]
fn mutex_try_lock_excludes() {
    holds(3, || {
        let mutex = Arc::new(Mutex::new(Watched::new()));
        let other = Arc::clone(&mutex);
        let other = thread::spawn(move || other.lock().add());
        if let Some(value) = mutex.try_lock() {
            value.add();
        }
        other.join().unwrap();
        assert!(mutex.lock().get() >= 1);
    });
}

#[test]
fn mutex_that_queues_unmarked_is_caught() {
    is_caught(Planted::MutexQueuesUnmarked, DEADLOCK, 3, mutex_counts(2));
}

#[test]
fn raw_lock_excludes() {
    holds(3, || {
        let pair = Arc::new((RawLock::new(), Watched::new()));
        let enter = |pair: &(RawLock, Watched)| {
            pair.0.lock();
            pair.1.add();
            pair.0.unlock();
        };
        let other = |pair: &Arc<(RawLock, Watched)>| {
            let pair = Arc::clone(pair);
            thread::spawn(move || enter(&pair))
        };
        let others = [other(&pair), other(&pair)];
        enter(&pair);
        others.into_iter().for_each(|other| other.join().unwrap());
        pair.0.lock();
        assert_eq!(pair.1.get(), 3);
        pair.0.unlock();
    });
}

/// `waiters` tasks each wait for a number above 0 and take one from it; the caller sets it to their
/// count.
fn condvar_wakes(waiters: usize, all: bool) -> impl Fn() + Sync + Send {
    move || {
        let shared = Arc::new((Mutex::new(0u32), Condvar::new(), Watched::new()));
        let wait = |shared: &Arc<(Mutex<u32>, Condvar, Watched)>| {
            let shared = Arc::clone(shared);
            thread::spawn(move || {
                let mut left = shared.1.wait_while(shared.0.lock(), |left| *left == 0);
                *left -= 1;
                shared.2.add();
            })
        };
        let waiters: Vec<_> = (0..waiters).map(|_| wait(&shared)).collect();
        *shared.0.lock() = waiters.len() as u32;
        if all {
            shared.1.notify_all();
        } else {
            waiters.iter().for_each(|_| shared.1.notify_one());
        }
        let count = waiters.len() as u32;
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        assert_eq!((*shared.0.lock(), shared.2.get()), (0, count));
    }
}

#[test]
fn condvar_notify_one() {
    holds(3, condvar_wakes(1, false));
    holds(2, condvar_wakes(2, false));
}

#[test]
fn condvar_notify_all() {
    holds(3, condvar_wakes(2, true));
}

/// As above with the lock held during the notification: the waiters go to the mutex's queue.
fn condvar_requeues() {
    let shared = Arc::new((Mutex::new((false, Watched::new())), Condvar::new()));
    let wait = |shared: &Arc<(Mutex<(bool, Watched)>, Condvar)>| {
        let shared = Arc::clone(shared);
        thread::spawn(move || shared.1.wait_while(shared.0.lock(), |(set, _)| !*set).1.add())
    };
    let waiters = [wait(&shared), wait(&shared)];
    let mut value = shared.0.lock();
    value.0 = true;
    value.1.add();
    shared.1.notify_all();
    drop(value);
    waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    assert_eq!(shared.0.lock().1.get(), 3);
}

#[test]
fn condvar_requeues_under_the_lock() {
    holds(3, condvar_requeues);
    holds_with_hand_off(2, condvar_requeues);
}

/// A notification goes to a waiter that times out or to one that does not, never to neither.
fn condvar_times_out() {
    let shared = Arc::new((Mutex::new(false), Condvar::new()));
    let patient = Arc::clone(&shared);
    let patient = thread::spawn(move || {
        drop(patient.1.wait_while(patient.0.lock(), |set| !*set));
    });
    let hasty = Arc::clone(&shared);
    let hasty = thread::spawn(move || {
        let (guard, timed_out) = hasty.1.wait_timeout(hasty.0.lock(), LIMIT);
        drop(guard);
        if !timed_out {
            // The one notification was ours: pass it on.
            hasty.1.notify_one();
        }
    });
    *shared.0.lock() = true;
    shared.1.notify_one();
    patient.join().unwrap();
    hasty.join().unwrap();
}

#[test]
fn condvar_deadline_against_notify() {
    holds(3, condvar_times_out);
}

#[test]
fn condvar_that_unlocks_first_is_caught() {
    is_caught(Planted::CondvarUnlocksFirst, DEADLOCK, 2, condvar_wakes(1, false));
}

#[test]
fn condvar_that_unlinks_twice_is_caught() {
    is_caught(Planted::CondvarTimeoutUnlinksTwice, RACE, 2, condvar_times_out);
}

/// Writers and readers at one number; readers must see it whole and unchanged.
fn rwlock_keeps(writers: usize, readers: usize) -> impl Fn() + Sync + Send {
    move || {
        let lock = Arc::new(RwLock::new(Watched::new()));
        let write = |lock: &Arc<RwLock<Watched>>| {
            let lock = Arc::clone(lock);
            thread::spawn(move || lock.write().add())
        };
        let read = |lock: &Arc<RwLock<Watched>>| {
            let lock = Arc::clone(lock);
            thread::spawn(move || assert!(lock.read().get() <= 2))
        };
        let mut others: Vec<_> = (0..writers).map(|_| write(&lock)).collect();
        others.extend((0..readers).map(|_| read(&lock)));
        lock.write().add();
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(lock.read().get(), writers as u32 + 1);
    }
}

#[test]
fn rwlock_of_two() {
    holds(3, rwlock_keeps(0, 1));
    holds(3, rwlock_keeps(1, 0));
}

#[test]
fn rwlock_of_three() {
    holds(3, rwlock_keeps(1, 1));
    holds(3, rwlock_keeps(0, 2));
}

#[test]
fn rwlock_hands_off() {
    holds_with_hand_off(2, rwlock_keeps(1, 1));
    holds_with_hand_off(2, rwlock_keeps(0, 2));
}

#[test]
fn rwlock_reader_that_leaves_quietly_is_caught() {
    is_caught(Planted::RwLockReaderLeavesQuietly, DEADLOCK, 3, rwlock_keeps(0, 1));
}

/// One permit, then two at once, against a task that has them all.
fn semaphore_grants() {
    let shared = Arc::new((Semaphore::new(2), Watched::new()));
    let take = |n: usize, shared: &Arc<(Semaphore, Watched)>| {
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            shared.0.acquire(n);
            if n == 2 {
                shared.1.add();
            }
            shared.0.release(n);
        })
    };
    let others = [take(2, &shared), take(1, &shared)];
    shared.0.acquire(2);
    shared.1.add();
    shared.0.release(2);
    others.into_iter().for_each(|other| other.join().unwrap());
    assert_eq!((shared.0.available(), shared.1.get()), (2, 2));
}

#[test]
fn semaphore_of_three() {
    holds(3, semaphore_grants);
}

/// A release in two halves: the waiter needs both, from two tasks.
#[test]
fn semaphore_collects_permits() {
    holds(2, || {
        let shared = Arc::new((Semaphore::new(0), Watched::new()));
        let other = Arc::clone(&shared);
        let other = thread::spawn(move || other.0.release(1));
        let waiter = Arc::clone(&shared);
        let waiter = thread::spawn(move || {
            waiter.0.acquire(2);
            waiter.1.add();
        });
        shared.0.release(1);
        waiter.join().unwrap();
        other.join().unwrap();
        assert_eq!((shared.0.available(), shared.1.get()), (0, 1));
    });
}

#[test]
fn semaphore_that_queues_unmarked_is_caught() {
    is_caught(Planted::SemaphoreQueuesUnmarked, DEADLOCK, 3, semaphore_grants);
}

/// What was written before the event is visible after it.
fn event_publishes(timed: bool) -> impl Fn() + Sync + Send {
    move || {
        let shared = Arc::new((Event::new(), Watched::new()));
        let wait = |timed: bool, shared: &Arc<(Event, Watched)>| {
            let shared = Arc::clone(shared);
            thread::spawn(move || {
                let seen = if timed { shared.0.wait_timeout(LIMIT) } else { shared.0.wait() == () };
                assert_eq!(seen, seen && shared.0.is_set());
                if seen {
                    assert_eq!(shared.1.get(), 1);
                }
            })
        };
        let waiters = [wait(false, &shared), wait(timed, &shared)];
        shared.1.add();
        shared.0.set();
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    }
}

#[test]
fn event_wakes_everybody() {
    holds(3, event_publishes(false));
}

#[test]
fn event_deadline_against_set() {
    holds(3, event_publishes(true));
}

#[test]
fn event_without_a_second_look_is_caught() {
    is_caught(Planted::EventNoRecheck, DEADLOCK, 3, event_publishes(false));
}

#[test]
fn event_that_does_not_publish_is_caught() {
    is_caught(Planted::EventRelaxed, RACE, 3, event_publishes(false));
}

/// A sole waiter drops the event when its wait returns, also after a wait that timed out.
fn event_ends_with_its_waiter() {
    let event = Box::into_raw(Box::new(Event::new()));
    let address = event as usize;
    // SAFETY: the box lives until the waiter has seen the flag.
    let setter = thread::spawn(move || unsafe { &*(address as *const Event) }.set());
    // SAFETY: as above; what this model checks is that the setter is done with it then.
    unsafe {
        if !(*event).wait_timeout(LIMIT) {
            (*event).wait();
        }
        drop(Box::from_raw(event));
    }
    setter.join().unwrap();
}

#[test]
fn event_may_end_with_its_only_waiter() {
    holds(3, event_ends_with_its_waiter);
}

#[test]
fn event_that_is_touched_too_late_is_caught() {
    is_caught(Planted::EventWakesUnderLock, RACE, 3, event_ends_with_its_waiter);
}
