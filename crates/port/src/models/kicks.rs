//! Models of the kick protocol: the real `fiber/kick.rs` over a model of a loop and its eventfd.

use super::{holds, rejects};
use crate::task::model::Kick;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Condvar, Mutex};
use loom::thread;
use std::sync::Arc;

/// A loop that has `work` units to do and sleeps on `bell`, a counter like an eventfd.
struct Loop {
    kick: Kick,
    inbox: AtomicU32,
    bell: Mutex<u32>,
    rung: Condvar,
}

impl Loop {
    fn new() -> Self {
        Loop {
            kick: Kick::new(),
            inbox: AtomicU32::new(0),
            bell: Mutex::new(0),
            rung: Condvar::new(),
        }
    }
    fn publish(&self) {
        self.inbox.fetch_add(1, Ordering::Release);
    }
    fn notify(&self) {
        if self.kick.notify() {
            *self.bell.lock().unwrap() += 1;
            self.rung.notify_one();
        }
    }
    /// Sleeps until the bell is rung; answers it.
    fn sleep(&self) {
        let mut bell = self.bell.lock().unwrap();
        while *bell == 0 {
            bell = self.rung.wait(bell).unwrap();
        }
        *bell -= 1;
    }
    /// Runs until `work` units have come. `begin_sleep` is the protocol's, or a wrong one. Sleeps.
    fn run(&self, work: u32, begin_sleep: impl Fn(&Kick) -> bool) -> u32 {
        let (mut done, mut sleeps) = (0, 0);
        loop {
            done += self.inbox.swap(0, Ordering::Acquire);
            if done == work {
                return sleeps;
            }
            if begin_sleep(&self.kick) {
                self.sleep();
                sleeps += 1;
                assert!(self.kick.end_sleep(), "awake without a kick");
            }
        }
    }
}

/// Two wakers; the loop gets both units, and no more kicks than sleeps.
fn two_wakers(wake: fn(&Loop), begin_sleep: fn(&Kick) -> bool) {
    let looped = Arc::new(Loop::new());
    let waker = |looped: &Arc<Loop>| {
        let looped = Arc::clone(looped);
        thread::spawn(move || wake(&looped))
    };
    let wakers = [waker(&looped), waker(&looped)];
    looped.run(2, begin_sleep);
    wakers.into_iter().for_each(|waker| waker.join().unwrap());
    // At most one kick per sleep: every one that was sent has been answered.
    assert_eq!(*looped.bell.lock().unwrap(), 0, "a kick for a loop that was awake");
}

fn wake(looped: &Loop) {
    looped.publish();
    looped.notify();
}

#[test]
fn no_wake_up_is_lost_and_no_kick_is_wasted() {
    holds(3, || two_wakers(wake, Kick::begin_sleep));
}

/// A timer ends the sleep while a waker may be about to kick: that kick comes, and is answered.
#[test]
fn a_kick_that_races_with_a_timer_is_answered() {
    holds(3, || {
        let looped = Arc::new(Loop::new());
        let waker = Arc::clone(&looped);
        let waker = thread::spawn(move || wake(&waker));
        if looped.kick.begin_sleep() && looped.kick.end_sleep() {
            looped.sleep();
        }
        looped.run(1, Kick::begin_sleep);
        waker.join().unwrap();
        assert_eq!(*looped.bell.lock().unwrap(), 0);
    });
}

#[test]
fn a_waker_that_notifies_first_is_caught() {
    let wrong = |looped: &Loop| {
        looped.notify();
        looped.publish();
    };
    let message = rejects(3, move || two_wakers(wrong, Kick::begin_sleep)).unwrap();
    assert!(message.contains("deadlock"), "{message}");
}

#[test]
fn a_loop_that_sleeps_in_spite_of_a_notification_is_caught() {
    let wrong = |kick: &Kick| {
        kick.begin_sleep();
        true
    };
    let message = rejects(3, move || two_wakers(wake, wrong)).unwrap();
    assert!(message.contains("deadlock"), "{message}");
}
