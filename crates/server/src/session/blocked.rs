//! Clients that wait for an element: BLPOP and its kin.
//!
//! A waiter enters its keys, then looks once more, then sleeps. Whoever changes a key wakes the
//! client that has waited longest for it; that one takes an element and leaves, which wakes the
//! next, or finds nothing (somebody else was quicker) and waits on in its old place.
//!
//! Thread safety: everything may be shared.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use pumice_port::sync::{Condvar, Mutex};

use crate::keyspace::txn::Event;

/// A client that waits.
#[derive(Default)]
pub struct Waiter {
    woken: Mutex<bool>,
    changed: Condvar,
    /// It is to stop waiting, without an element.
    pub is_ended: AtomicBool,
}

impl Waiter {
    /// Wakes it.
    pub fn wake(&self) {
        *self.woken.lock() = true;
        self.changed.notify_all();
    }
    /// Sleeps until woken, at most so many milliseconds; false when they are over. Suspends.
    pub fn sleep(&self, millis: u64) -> bool {
        let mut woken = self.woken.lock();
        if !*woken {
            let limit = std::time::Duration::from_millis(millis.max(1));
            woken = self.changed.wait_timeout(woken, limit).0;
        }
        std::mem::take(&mut *woken)
    }
}

type Key = (u8, Vec<u8>);

/// Who waits for what.
#[derive(Default)]
pub struct Blocked {
    waiting: AtomicUsize,
    tickets: AtomicU64,
    keys: Mutex<BTreeMap<Key, BTreeMap<u64, Arc<Waiter>>>>,
}

impl Blocked {
    /// A place in the queue of each key, until it is left.
    pub fn enter(&self, db: u8, keys: &[Vec<u8>], waiter: &Arc<Waiter>) -> u64 {
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let mut map = self.keys.lock();
        for key in keys {
            map.entry((db, key.clone())).or_default().insert(ticket, Arc::clone(waiter));
        }
        self.waiting.store(map.len(), Ordering::SeqCst);
        ticket
    }

    /// Gives the places up; who waits behind looks again, as there may be something left.
    pub fn leave(&self, db: u8, keys: &[Vec<u8>], ticket: u64) {
        let mut map = self.keys.lock();
        for key in keys {
            let key = (db, key.clone());
            if let Some(waiters) = map.get_mut(&key) {
                waiters.remove(&ticket);
                match waiters.values().next() {
                    Some(next) => next.wake(),
                    None => drop(map.remove(&key)),
                }
            }
        }
        self.waiting.store(map.len(), Ordering::SeqCst);
    }

    /// A key was changed: who has waited for it longest looks again.
    pub fn touched(&self, event: &Event) {
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return;
        }
        let map = self.keys.lock();
        let waiters = map.get(&(event.db, event.key.clone()));
        if let Some(first) = waiters.and_then(|waiters| waiters.values().next()) {
            first.wake();
        }
    }

    /// Keys that are waited for.
    pub fn len(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    /// Nobody waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
