//! Random work on one of each primitive; what goes in must come out, and every task must end.

use super::super::{Condvar, Event, Mutex, RwLock, Semaphore};
use super::{Start, bodies, share};
use crate::thread;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

const TASKS: usize = 12;
const ROOM: usize = 4;

/// What the tasks fight over.
struct Ring {
    /// A bounded queue: producers wait for room, consumers for items.
    items: Mutex<VecDeque<u64>>,
    not_empty: Condvar,
    not_full: Condvar,
    /// A pair that must always be equal.
    pair: RwLock<(u64, u64)>,
    permits: Semaphore,
    sums: Mutex<(u64, u64)>,
    begin: Event,
}

/// Producers and consumers in equal number move numbers through a small queue, and read, write and
/// take permits meanwhile; consumers wait with or without deadlines.
pub(super) fn random_load(start: &dyn Start) {
    let seed = 0x5eed_0001_u64;
    println!("random load: seed {seed:#x}");
    let rounds = share(start, 2000);
    let ring = Arc::new(Ring {
        items: Mutex::default(),
        not_empty: Condvar::new(),
        not_full: Condvar::new(),
        pair: RwLock::default(),
        permits: Semaphore::new(3),
        sums: Mutex::default(),
        begin: Event::new(),
    });
    start.run(bodies(TASKS, &ring, move |number, ring| {
        let mut random = Random(seed ^ (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        if number == 0 {
            ring.begin.set();
        }
        ring.begin.wait();
        let mut sum = 0u64;
        for _ in 0..rounds {
            if number % 2 == 0 {
                let item = random.below(1 << 40);
                sum = sum.wrapping_add(item);
                ring.put(item, &mut random);
            } else {
                sum = sum.wrapping_add(ring.take(&mut random));
            }
            ring.meanwhile(&mut random);
        }
        let mut sums = ring.sums.lock();
        let side = if number % 2 == 0 { &mut sums.0 } else { &mut sums.1 };
        *side = side.wrapping_add(sum);
    }));
    let sums = ring.sums.lock();
    assert_eq!(sums.0, sums.1, "items were lost or came twice");
    assert!(ring.items.lock().is_empty());
    assert_eq!(ring.permits.available(), 3);
    let pair = ring.pair.read();
    assert_eq!(pair.0, pair.1);
}

impl Ring {
    fn put(&self, item: u64, random: &mut Random) {
        let mut items = self.not_full.wait_while(self.items.lock(), |items| items.len() >= ROOM);
        items.push_back(item);
        // Under the lock (the waiter moves to the mutex) or after it (it is woken at once).
        if random.below(2) == 0 {
            drop(items);
        }
        self.not_empty.notify_one();
    }

    fn take(&self, random: &mut Random) -> u64 {
        let mut items = self.items.lock();
        loop {
            if let Some(item) = items.pop_front() {
                drop(items);
                self.not_full.notify_one();
                return item;
            }
            if random.below(4) == 0 {
                let limit = Duration::from_nanos(random.below(20_000));
                items = self.not_empty.wait_timeout(items, limit).0;
            } else {
                items = self.not_empty.wait(items);
            }
        }
    }

    fn meanwhile(&self, random: &mut Random) {
        match random.below(8) {
            0 => {
                let mut pair = self.pair.write();
                pair.0 += 1;
                if random.below(4) == 0 {
                    thread::yield_now();
                }
                pair.1 += 1;
            }
            1 | 2 => {
                let pair = self.pair.read();
                assert_eq!(pair.0, pair.1);
                if random.below(8) == 0 {
                    thread::yield_now();
                }
            }
            3 => {
                let n = 1 + random.below(3) as usize;
                self.permits.acquire(n);
                if random.below(4) == 0 {
                    thread::yield_now();
                }
                self.permits.release(n);
            }
            4 => thread::yield_now(),
            _ => {}
        }
    }
}

/// xorshift: good enough to mix the schedules, and the same on every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit.max(1)
    }
}
