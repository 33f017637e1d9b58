//! Locks, waiting, and that a panic does not affect them.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::fiber::Runtime;
use crate::{sim, task, thread};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

#[test]
fn a_panic_under_a_lock_does_not_poison() {
    let mutex = Mutex::new(1);
    let lock = RwLock::new(1);
    catch_unwind(AssertUnwindSafe(|| {
        let (mut a, mut b) = (mutex.lock(), lock.write());
        (*a, *b) = (2, 2);
        panic!("on purpose");
    }))
    .unwrap_err();
    assert_eq!(*mutex.lock(), 2);
    assert!(mutex.try_lock().is_some_and(|value| *value == 2));
    assert_eq!(*lock.read(), 2);
    assert!(lock.try_write().is_some_and(|value| *value == 2));
    assert_eq!((mutex.into_inner(), lock.into_inner()), (2, 2));
}

#[test]
fn mutexes_exclude() {
    let counter = Arc::new(Mutex::new(0u64));
    let add = || {
        let counter = Arc::clone(&counter);
        thread::spawn("adder", move || (0..20_000).for_each(|_| *counter.lock() += 1))
    };
    for handle in [add(), add(), add(), add()] {
        handle.join().unwrap();
    }
    assert_eq!(*counter.lock(), 80_000);
    let held = counter.lock();
    assert!(counter.try_lock().is_none());
    assert_eq!(format!("{counter:?}"), "Mutex(<locked>)");
    drop(held);
    assert_eq!(format!("{counter:?}"), "Mutex(80000)");
}

#[test]
fn readers_share_and_writers_do_not() {
    let lock = RwLock::new(0);
    let reader = lock.read();
    assert!(lock.try_read().is_some());
    assert!(lock.try_write().is_none());
    drop(reader);
    *lock.write() += 1;
    let writer = lock.write();
    assert!(lock.try_read().is_none());
    assert_eq!(*writer, 1);
}

#[test]
fn condvars_wake_and_time_out() {
    let turn = Arc::new((Mutex::new(0), Condvar::new()));
    let other = Arc::clone(&turn);
    let handle = thread::spawn("ponger", move || {
        for expected in [1, 3, 5] {
            let guard = other.1.wait_while(other.0.lock(), |turn| *turn != expected);
            let mut guard = guard;
            *guard += 1;
            other.1.notify_all();
        }
    });
    for expected in [0, 2, 4] {
        let mut guard = turn.1.wait_while(turn.0.lock(), |turn| *turn != expected);
        *guard += 1;
        turn.1.notify_all();
    }
    handle.join().unwrap();
    let (guard, timed_out) = turn.1.wait_timeout(turn.0.lock(), Duration::from_millis(1));
    assert_eq!(*guard, 6);
    assert!(timed_out);
}

#[test]
fn semaphores_bound_how_many_are_inside() {
    let semaphore = Semaphore::new(2);
    let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for _ in 0..200 {
                    semaphore.acquire(1);
                    let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(now, Ordering::SeqCst);
                    inside.fetch_sub(1, Ordering::SeqCst);
                    semaphore.release(1);
                }
            });
        }
    });
    assert!(most.load(Ordering::SeqCst) <= 2);
    assert_eq!(semaphore.available(), 2);
    assert!(!semaphore.try_acquire(3));
    assert!(semaphore.try_acquire(2) && !semaphore.try_acquire(1));
}

#[test]
fn events_happen_once_for_everybody() {
    let event = Event::new();
    assert!(!event.is_set() && !event.wait_timeout(Duration::from_millis(1)));
    let seen = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                event.wait();
                seen.fetch_add(1, Ordering::SeqCst);
            });
        }
        event.set();
    });
    assert_eq!(seen.load(Ordering::SeqCst), 4);
    event.wait();
    assert!(event.wait_timeout(Duration::ZERO));
}

/// Tasks that are threads.
struct Threads;

impl conformance::Start for Threads {
    fn run(&self, bodies: Vec<conformance::Body>) {
        thread::scope(|scope| bodies.into_iter().for_each(|body| drop(scope.spawn(body))));
    }
}

#[test]
fn every_promise_holds_on_threads() {
    conformance::check_all(&Threads);
}

/// Tasks that are fibers of a runtime, and every n-th one a thread.
struct Fibers {
    runtime: Runtime,
    thread_every: usize,
}

impl Fibers {
    fn new(loops: usize, thread_every: usize) -> Self {
        let builder = Runtime::builder().loops(loops).name("conformance");
        Fibers { runtime: builder.build().unwrap(), thread_every }
    }
}

impl conformance::Start for Fibers {
    fn run(&self, bodies: Vec<conformance::Body>) {
        let mut handles = Vec::new();
        for (index, body) in bodies.into_iter().enumerate() {
            handles.push(match (index + 1) % self.thread_every {
                0 => thread::spawn("conformance", body),
                _ => self.runtime.spawn("conformance", body),
            });
        }
        handles.into_iter().for_each(|handle| handle.join().unwrap());
    }
}

#[test]
fn every_promise_holds_on_fibers_of_one_loop() {
    conformance::check_all(&Fibers::new(1, usize::MAX));
}

#[test]
fn every_promise_holds_on_fibers_of_two_loops() {
    conformance::check_all(&Fibers::new(2, usize::MAX));
}

#[test]
fn every_promise_holds_on_fibers_beside_threads() {
    conformance::check_all(&Fibers::new(2, 2));
    conformance::check_all(&Fibers::new(1, 3));
}

/// Tasks of a simulation: `run` is called by its first fiber.
struct Simulated;

impl conformance::Start for Simulated {
    fn run(&self, bodies: Vec<conformance::Body>) {
        let start = |body| thread::spawn("conformance", body);
        let handles: Vec<_> = bodies.into_iter().map(start).collect();
        handles.into_iter().for_each(|handle| handle.join().unwrap());
    }
    fn load(&self) -> usize {
        2
    }
}

#[test]
fn every_promise_holds_in_simulations() {
    for seed in 0..30 {
        let depth = 3 + (seed % 5) as u32;
        for schedule in [sim::Schedule::Uniform, sim::Schedule::PriorityChange { depth }] {
            let options = sim::Options { schedule, ..sim::Options::new(seed) };
            let (report, result) = sim::run(&options, || conformance::check_all(&Simulated));
            if let Err(failure) = result {
                panic!("seed {seed}, {schedule:?}: {failure:?}, stuck {:?}", report.stuck);
            }
        }
    }
}

#[test]
fn a_batch_of_a_thousand_fibers_kicks_each_loop_once() {
    static TEST: task::WaitReason = task::WaitReason("test");
    let runtime = Runtime::builder().loops(2).name("batch").build().unwrap();
    let shared = Arc::new((Mutex::new(Vec::new()), Event::new()));
    let start = |_| {
        let shared = Arc::clone(&shared);
        runtime.spawn("waiter", move || {
            shared.0.lock().push(task::current());
            while !shared.1.is_set() {
                task::park(&TEST);
            }
        })
    };
    let waiters: Vec<_> = (0..1000).map(start).collect();
    while shared.0.lock().len() < 1000 {
        thread::yield_now();
    }
    let tasks = std::mem::take(&mut *shared.0.lock());
    shared.1.set();
    let before = runtime.stats().kicks;
    task::unpark_all(tasks);
    let kicks = runtime.stats().kicks - before;
    waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    assert!(kicks <= 2, "{kicks} kicks");
}

#[cfg(debug_assertions)]
mod order {
    use super::*;

    static FIRST: LockRank = LockRank::background(1, "first");
    static SECOND: LockRank = LockRank::background(2, "second");

    /// The text of the panic of `f`.
    fn panic_of(f: impl FnOnce()) -> String {
        let panic = catch_unwind(AssertUnwindSafe(f)).unwrap_err();
        panic.downcast_ref::<String>().unwrap().clone()
    }

    #[test]
    fn a_lock_is_not_waited_for_under_a_later_one() {
        let (first, second) = (Mutex::ranked(&FIRST, 1), Mutex::ranked(&SECOND, 2));
        drop((first.lock(), second.lock()));
        let held = second.lock();
        let text = panic_of(|| drop(first.lock()));
        assert!(
            text.contains("`first` (place 1)") && text.contains("`second` (place 2)"),
            "{text}"
        );
        assert!(first.try_lock().is_some(), "an attempt does not wait");
        let other = Mutex::ranked(&SECOND, 2);
        panic_of(|| drop(other.lock()));
        drop(held);
        drop(first.lock());
        // Released in another order than taken.
        let (one, two) = (first.lock(), second.lock());
        drop(one);
        panic_of(|| drop(first.lock()));
        drop(two);
        drop((first.lock(), second.lock()));
    }

    #[test]
    fn what_is_no_mutex_has_a_place_too() {
        let first = Mutex::ranked(&FIRST, 1);
        let held = SECOND.enter();
        panic_of(|| drop(first.lock()));
        panic_of(|| drop(SECOND.enter()));
        drop(SECOND.enter_untested());
        static BESIDE: LockRank = LockRank::background(1, "beside").under_all_before(3);
        drop(BESIDE.enter());
        drop(held);
        drop(first.lock());
    }

    #[test]
    fn a_wait_releases_its_lock_and_no_other() {
        let (first, second) = (Mutex::ranked(&FIRST, 1), Mutex::ranked(&SECOND, 2));
        let (changed, soon) = (Condvar::new(), Duration::from_millis(1));
        let (one, two) = (first.lock(), second.lock());
        let (two, _) = changed.wait_timeout(two, soon);
        panic_of(|| drop(Mutex::ranked(&SECOND, 2).lock()));
        panic_of(|| drop(changed.wait_timeout(one, soon)));
        drop(two);
        drop((first.lock(), second.lock()));
    }

    /// Each has what it holds, on one thread too.
    #[test]
    fn fibers_hold_locks_of_their_own() {
        let (report, outcome) = sim::run(&sim::Options::new(1), || {
            let both = Arc::new((Mutex::ranked(&FIRST, 1), Mutex::ranked(&SECOND, 2)));
            let held = both.1.lock();
            let other = Arc::clone(&both);
            thread::spawn("other", move || drop(other.0.lock())).join().unwrap();
            drop(held);
        });
        assert!(outcome.is_ok(), "{outcome:?} {:?}", report.stuck);
    }
}
