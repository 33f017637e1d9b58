//! Promises of order: which waiter is woken first.

use super::super::{Condvar, Event, Mutex, RwLock, Semaphore};
use super::{Start, bodies};
use crate::thread;
use std::sync::Arc;

/// Waiters arrive one after the other and are notified one at a time.
pub(super) fn condvar_in_order(start: &dyn Start) {
    struct State {
        arrived: Vec<usize>,
        woken: Vec<usize>,
        open: usize,
    }
    let state = State { arrived: Vec::new(), woken: Vec::new(), open: 0 };
    let shared = Arc::new((Mutex::new(state), Condvar::new()));
    start.run(bodies(6, &shared, |number, (mutex, changed)| {
        let mut state = mutex.lock();
        if number > 0 {
            state.arrived.push(number);
            let me = state.arrived.len();
            // Queued before the lock is free again, so the order is that of `arrived`.
            state = changed.wait_while(state, |state| state.open < me);
            state.woken.push(number);
            return;
        }
        while state.arrived.len() < 5 {
            drop(state);
            thread::yield_now();
            state = mutex.lock();
        }
        for open in 1..=5 {
            state.open = open;
            changed.notify_one();
            while state.woken.len() < open {
                drop(state);
                thread::yield_now();
                state = mutex.lock();
            }
        }
    }));
    let state = shared.0.lock();
    assert_eq!(state.arrived, state.woken);
}

/// The first wants more than is free; the next one, which wants less, waits its turn.
pub(super) fn permits_in_order(start: &dyn Start) {
    let shared = Arc::new((Semaphore::new(1), Mutex::new(Vec::new()), Event::new()));
    start.run(bodies(3, &shared, |number, (semaphore, order, seen)| {
        // Asking for zero permits fails exactly when a task waits.
        let until_somebody_waits = || {
            while semaphore.try_acquire(0) {
                thread::yield_now();
            }
        };
        match number {
            0 => {
                semaphore.acquire(3);
                order.lock().push("three");
                semaphore.release(3);
            }
            1 => {
                until_somebody_waits();
                assert!(!semaphore.try_acquire(1));
                seen.set();
                semaphore.acquire(1);
                order.lock().push("one");
                semaphore.release(1);
            }
            _ => {
                seen.wait();
                semaphore.release(1);
                thread::yield_now();
                assert!(order.lock().is_empty(), "three of two permits were given out");
                semaphore.release(1);
            }
        }
    }));
    assert_eq!(shared.0.available(), 3);
    // Whether "one" asked before "three" was done or after: it never went first.
    assert_eq!(*shared.1.lock(), ["three", "one"]);
}

/// A reader is inside, a writer waits: a new reader does not get in before it.
pub(super) fn writer_goes_first(start: &dyn Start) {
    let shared = Arc::new((RwLock::new(0), Semaphore::new(0)));
    start.run(bodies(2, &shared, |number, (lock, inside)| {
        if number == 1 {
            inside.acquire(1);
            *lock.write() += 1;
            return;
        }
        let reader = lock.read();
        inside.release(1);
        while lock.try_read().is_some() {
            thread::yield_now();
        }
        assert_eq!(*reader, 0);
        drop(reader);
        // The writer is on its way; this one queues behind it or finds it done.
        while *lock.read() == 0 {
            thread::yield_now();
        }
    }));
    assert_eq!(*shared.0.read(), 1);
}
