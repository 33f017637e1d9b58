//! What every primitive promises, checked on every kind of task.
//!
//! [`check_all`] runs each promise of docs/port/ over a [`Start`]: threads, fibers of one loop or
//! of several, a mixture, or a simulation. Nothing here asserts on time that has passed: a test
//! either ends or is stuck, and a [`Watch`] says where it is stuck. Work is bounded and drawn from
//! a seed. Thread safety: each check makes its own primitives and waits for its own tasks.

mod order;
mod stress;

use super::{Condvar, Event, Mutex, RwLock, Semaphore};
use crate::thread;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// What one task does.
pub(crate) type Body = Box<dyn FnOnce() + Send>;

/// Starts tasks, and waits until all of them have ended. A panic of a body is passed on.
pub(crate) trait Start: Sync {
    /// Runs the bodies, all at one time.
    fn run(&self, bodies: Vec<Body>);
    /// How much work the checks do, in per cent.
    fn load(&self) -> usize {
        100
    }
}

/// One promise.
type Check = fn(&dyn Start);

/// Every promise with its name.
const CHECKS: &[(&str, Check)] = &[
    ("a mutex excludes", mutex_excludes),
    ("a panic releases what is held", panic_releases),
    ("a waiter is not starved by one that keeps locking", nobody_starves),
    ("a condvar passes turns", condvar_passes_turns),
    ("notify_all reaches everybody", notify_all_reaches_everybody),
    ("waits time out, and only then say so", waits_time_out),
    ("readers are inside together", readers_are_together),
    ("writers are alone", writers_are_alone),
    ("permits bound who is inside", permits_bound),
    ("an event wakes everybody once and for all", event_wakes_everybody),
    ("an unpark before a park is kept", unpark_is_kept),
    ("a batch wakes everybody", batch_wakes_everybody),
    ("notify_one wakes in order of arrival", order::condvar_in_order),
    ("permits go in order of arrival", order::permits_in_order),
    ("a waiting writer keeps new readers out", order::writer_goes_first),
    ("nothing is lost under random load", stress::random_load),
];

/// Checks every promise on tasks of `start`.
pub(crate) fn check_all(start: &dyn Start) {
    for (name, check) in CHECKS {
        let watch = Watch::new(name);
        check(start);
        drop(watch);
    }
}

/// Aborts the process, naming the check, when one has not ended for a very long time: a lost
/// wake-up then gives a message and not a hanging test run.
pub(crate) struct Watch(Arc<AtomicBool>);

impl Watch {
    pub(crate) fn new(name: &'static str) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let own = Arc::clone(&ended);
        std::thread::spawn(move || {
            for _ in 0..1200 {
                std::thread::sleep(Duration::from_millis(100));
                if own.load(Ordering::Acquire) {
                    return;
                }
            }
            // Not `eprintln`: the output of a test that aborts is not shown.
            let text = format!("conformance: stuck in `{name}`: a wake-up was lost\n");
            std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes()).unwrap_or(());
            std::process::abort();
        });
        Watch(ended)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// `count` bodies that share `shared`; each gets its number.
pub(crate) fn bodies<S: Send + Sync + 'static>(
    count: usize,
    shared: &Arc<S>,
    body: impl Fn(usize, &S) + Send + Sync + 'static,
) -> Vec<Body> {
    let body = Arc::new(body);
    let one = |number: usize| -> Body {
        let (shared, body) = (Arc::clone(shared), Arc::clone(&body));
        Box::new(move || body(number, &shared))
    };
    (0..count).map(one).collect()
}

fn share(start: &dyn Start, full: usize) -> usize {
    (full * start.load() / 100).max(1)
}

fn mutex_excludes(start: &dyn Start) {
    let rounds = share(start, 5000);
    let shared = Arc::new((Mutex::new(0usize), AtomicUsize::new(0)));
    start.run(bodies(6, &shared, move |number, (mutex, inside)| {
        for round in 0..rounds {
            let mut value = mutex.lock();
            assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
            // Sometimes yields the thread with the lock held.
            if (round + number) % 16 == 0 {
                thread::yield_now();
            }
            *value += 1;
            inside.fetch_sub(1, Ordering::Relaxed);
            drop(value);
            if let Some(mut value) = mutex.try_lock() {
                *value += 1;
                *value -= 1;
            }
        }
    }));
    assert_eq!(*shared.0.lock(), 6 * rounds);
}

fn panic_releases(start: &dyn Start) {
    let shared = Arc::new((Mutex::new(0), RwLock::new(0), Event::new()));
    start.run(bodies(4, &shared, |number, (mutex, lock, held)| {
        if number == 0 {
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                let (mut a, mut b) = (mutex.lock(), lock.write());
                (*a, *b) = (1, 1);
                held.set();
                std::panic::panic_any("on purpose");
            }));
            assert!(panicked.is_err());
        } else {
            held.wait();
            *mutex.lock() += 1;
            *lock.write() += 1;
        }
    }));
    assert_eq!((*shared.0.lock(), *shared.1.read()), (4, 4));
}

/// One task has the lock nearly always; the other must still get it.
fn nobody_starves(start: &dyn Start) {
    let shared = Arc::new((Mutex::new(false), RwLock::new(false)));
    start.run(bodies(2, &shared, |number, (mutex, lock)| {
        if number == 1 {
            thread::sleep(Duration::from_micros(100));
            *mutex.lock() = true;
            *lock.write() = true;
            return;
        }
        let hold = || thread::sleep(Duration::from_micros(50));
        loop {
            let reached = mutex.lock();
            hold();
            if *reached {
                break;
            }
        }
        loop {
            let reached = lock.write();
            hold();
            if *reached {
                break;
            }
        }
    }));
}

fn condvar_passes_turns(start: &dyn Start) {
    let rounds = share(start, 300);
    let shared = Arc::new((Mutex::new(0usize), Condvar::new()));
    start.run(bodies(3, &shared, move |number, (mutex, changed)| {
        for _ in 0..rounds {
            let mut turn = changed.wait_while(mutex.lock(), |turn| *turn % 3 != number);
            *turn += 1;
            // Under the lock and after it, in turn.
            if *turn % 2 == 0 {
                changed.notify_all();
            } else {
                drop(turn);
                changed.notify_all();
            }
        }
    }));
    assert_eq!(*shared.0.lock(), 3 * rounds);
}

fn notify_all_reaches_everybody(start: &dyn Start) {
    let rounds = share(start, 50);
    let shared = Arc::new((Mutex::new((0usize, 0usize)), Condvar::new()));
    // A barrier made of one condvar: the last to arrive opens the next round.
    start.run(bodies(8, &shared, move |_, (mutex, changed)| {
        for round in 0..rounds {
            let mut state = mutex.lock();
            state.0 += 1;
            if state.0 == 8 {
                *state = (0, round + 1);
                changed.notify_all();
            } else {
                drop(changed.wait_while(state, |(_, opened)| *opened <= round));
            }
        }
    }));
    assert_eq!(shared.0.lock().1, rounds);
}

fn waits_time_out(start: &dyn Start) {
    let shared = Arc::new((Mutex::new(0), Condvar::new(), Event::new()));
    start.run(bodies(2, &shared, |number, (mutex, changed, event)| {
        if number == 0 {
            // No task notifies or sets yet.
            for limit in [0, 1, 50_000] {
                let limit = Duration::from_nanos(limit);
                let mut guard = mutex.lock();
                let mut timed_out = false;
                // A spurious wake-up is allowed, as long as it does not report a timeout.
                while !timed_out {
                    (guard, timed_out) = changed.wait_timeout(guard, limit);
                }
                assert!(!event.wait_timeout(limit) && !event.is_set());
                drop(guard);
            }
            *mutex.lock() = 1;
            changed.notify_all();
        }
        let mut guard = mutex.lock();
        while *guard == 0 {
            guard = changed.wait_timeout(guard, Duration::from_secs(3600)).0;
        }
        drop(guard);
        if number == 1 {
            event.set();
        }
        assert!(event.wait_timeout(Duration::from_secs(3600)));
    }));
}

fn readers_are_together(start: &dyn Start) {
    let shared = Arc::new((RwLock::new(7), Semaphore::new(0), Event::new()));
    start.run(bodies(4, &shared, |number, (lock, arrived, go)| {
        let value = lock.read();
        arrived.release(1);
        if number == 0 {
            // Comes back only if the others are inside while this one is.
            arrived.acquire(4);
            assert!(lock.try_write().is_none());
            go.set();
        }
        go.wait();
        assert_eq!(*value, 7);
    }));
    assert!(shared.0.try_write().is_some());
}

fn writers_are_alone(start: &dyn Start) {
    let rounds = share(start, 2000);
    let shared = Arc::new((RwLock::new((0usize, 0usize)), AtomicUsize::new(0)));
    start.run(bodies(6, &shared, move |number, (lock, inside)| {
        for round in 0..rounds {
            if (number + round) % 3 == 0 {
                let mut pair = lock.write();
                assert_eq!(inside.swap(1, Ordering::Relaxed), 0);
                pair.0 += 1;
                if round % 32 == 0 {
                    thread::yield_now();
                }
                pair.1 += 1;
                inside.store(0, Ordering::Relaxed);
            } else {
                let pair = lock.read();
                assert_eq!((pair.0, inside.load(Ordering::Relaxed)), (pair.1, 0));
                if round % 32 == 1 {
                    thread::yield_now();
                }
            }
        }
    }));
    let pair = *shared.0.read();
    assert_eq!((pair.0, pair.1), (2 * rounds, 2 * rounds));
}

fn permits_bound(start: &dyn Start) {
    let rounds = share(start, 1000);
    let shared = Arc::new((Semaphore::new(3), AtomicUsize::new(0)));
    start.run(bodies(6, &shared, move |number, (semaphore, inside)| {
        let n = 1 + number % 3;
        for round in 0..rounds {
            semaphore.acquire(n);
            assert!(inside.fetch_add(n, Ordering::SeqCst) + n <= 3);
            if round % 16 == 0 {
                thread::yield_now();
            }
            inside.fetch_sub(n, Ordering::SeqCst);
            semaphore.release(n);
        }
    }));
    assert_eq!(shared.0.available(), 3);
    assert!(!shared.0.try_acquire(4) && shared.0.try_acquire(3));
}

fn event_wakes_everybody(start: &dyn Start) {
    let shared = Arc::new((Event::new(), AtomicU64::new(0), AtomicUsize::new(0)));
    start.run(bodies(9, &shared, |number, (event, written, woken)| {
        if number == 8 {
            thread::yield_now();
            written.store(42, Ordering::Relaxed);
            event.set();
            event.set();
        } else if number % 2 == 0 {
            event.wait();
        } else {
            assert!(event.wait_timeout(Duration::from_secs(3600)));
        }
        assert_eq!(written.load(Ordering::Relaxed), 42);
        woken.fetch_add(1, Ordering::Relaxed);
    }));
    assert_eq!(shared.2.load(Ordering::Relaxed), 9);
    shared.0.wait();
}

static REASON: crate::task::WaitReason = crate::task::WaitReason("conformance");

fn unpark_is_kept(start: &dyn Start) {
    let tasks = Arc::new(Mutex::new(Vec::new()));
    start.run(bodies(1, &tasks, |_, _| {
        crate::task::current().unpark();
        crate::task::park(&REASON);
        let past = crate::task::clock::now_nanos();
        while crate::task::park_until(&REASON, Some(past)) {}
    }));
    start.run(bodies(2, &tasks, |number, tasks| {
        // Each wakes the other so often that it must get through.
        let me = crate::task::current();
        tasks.lock().push((number, me));
        let other = loop {
            let found = tasks.lock().iter().find(|(who, _)| *who != number).map(|(_, task)| *task);
            match found {
                Some(task) => break task,
                None => thread::yield_now(),
            }
        };
        for _ in 0..200 {
            other.unpark();
            crate::task::park_until(&REASON, Some(crate::task::clock::now_nanos() + 1000));
        }
    }));
}

fn batch_wakes_everybody(start: &dyn Start) {
    let shared = Arc::new((Mutex::new(Vec::new()), AtomicBool::new(false)));
    start.run(bodies(40, &shared, |number, (tasks, go)| {
        if number < 39 {
            tasks.lock().push(crate::task::current());
            while !go.load(Ordering::Acquire) {
                crate::task::park(&REASON);
            }
            return;
        }
        while tasks.lock().len() < 39 {
            thread::yield_now();
        }
        go.store(true, Ordering::Release);
        crate::task::unpark_all(std::mem::take(&mut *tasks.lock()));
    }));
}
