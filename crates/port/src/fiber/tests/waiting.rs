//! Waiting: time limits, fairness, panics while waiting, kicks, pinning.

use super::*;
use crate::task::unpark_all;
use std::sync::atomic::AtomicBool;

static TEST: WaitReason = WaitReason("test");

#[test]
fn a_panic_under_a_lock_releases_it() {
    let rt = runtime(1);
    let lock = Arc::new(Mutex::new(0));
    let own = Arc::clone(&lock);
    let doomed = rt.spawn::<()>("doomed", move || {
        let mut guard = own.lock();
        thread::yield_now();
        *guard = 1;
        panic!("under the lock");
    });
    let own = Arc::clone(&lock);
    let waiter = rt.spawn("waiter", move || *own.lock());
    assert!(doomed.join().is_err());
    assert_eq!(waiter.join().unwrap(), 1);
}

#[test]
fn a_fiber_that_unwinds_does_not_switch() {
    struct Waits(Arc<AtomicUsize>, Arc<Mutex<()>>, Arc<AtomicBool>);
    impl Drop for Waits {
        fn drop(&mut self) {
            let before = self.0.load(Ordering::Relaxed);
            thread::yield_now();
            thread::sleep(Duration::from_millis(1));
            // The lock is held by a thread, which releases it once it sees that the waiter is here.
            self.2.store(true, Ordering::Release);
            drop(self.1.lock());
            assert_eq!(self.0.load(Ordering::Relaxed), before, "no other fiber has run");
        }
    }
    let rt = runtime(1);
    let (rounds, lock) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(())));
    let (stop, unwinds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (own, end) = (Arc::clone(&rounds), Arc::clone(&stop));
    let neighbour = rt.spawn("neighbour", move || {
        while !end.load(Ordering::Relaxed) {
            own.fetch_add(1, Ordering::Relaxed);
            thread::yield_now();
        }
    });
    let guard = lock.lock();
    let waits = Waits(Arc::clone(&rounds), Arc::clone(&lock), Arc::clone(&unwinds));
    let doomed = rt.spawn::<()>("doomed", move || {
        let _waits = waits;
        panic!("and waits while it unwinds");
    });
    while !unwinds.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_millis(2));
    drop(guard);
    let e = doomed.join().unwrap_err();
    assert!(e.to_string().contains("and waits while it unwinds"), "{e}");
    stop.store(true, Ordering::Relaxed);
    neighbour.join().unwrap();
}

#[test]
fn a_wait_that_ends_early_takes_its_deadline_along() {
    let rt = runtime(1);
    let returns = rt.run("waiter", || {
        let me = task::current();
        let release = Arc::new(AtomicBool::new(false));
        let own = Arc::clone(&release);
        let waker = spawn_here("waker", move || {
            me.unpark();
            thread::sleep(Duration::from_millis(20));
            own.store(true, Ordering::Relaxed);
            me.unpark();
        });
        let deadline = crate::time::now_nanos() + 5_000_000;
        assert!(task::park_until(&TEST, Some(deadline)), "unparked, not timed out");
        let mut returns = 0;
        while !release.load(Ordering::Relaxed) {
            task::park(&TEST);
            returns += 1;
        }
        waker.join().unwrap();
        returns
    });
    assert_eq!(returns, 1, "the old deadline woke nobody");
}

#[test]
fn timed_waits_and_wake_ups_race_without_loss() {
    let rt = runtime(2);
    for with_thread in [false, true] {
        let signals = Arc::new(AtomicUsize::new(0));
        let own = Arc::clone(&signals);
        let waiter = rt.spawn_on(0, "waiter", move || {
            let (mut seen, mut timeouts) = (0, 0usize);
            while seen < 3000 {
                let now = crate::time::now_nanos();
                let limit = 1 + (seen as u64 * 7919) % 3000;
                if !task::park_until(&TEST, Some(now + limit)) {
                    timeouts += 1;
                }
                seen = own.load(Ordering::Acquire);
            }
            timeouts
        });
        let target = waiter.task();
        let signal = move || {
            for _ in 0..3000 {
                signals.fetch_add(1, Ordering::Release);
                target.unpark();
                thread::yield_now();
            }
        };
        if with_thread {
            signal();
        } else {
            rt.spawn_on(1, "signaller", signal).join().unwrap();
        }
        waiter.join().unwrap();
    }
}

#[test]
fn fibers_never_leave_their_thread() {
    let rt = runtime(3);
    let handles: Vec<_> = (0..60)
        .map(|i| {
            rt.spawn_on(i % 3, "pinned", move || {
                let here = std::thread::current().id();
                for round in 0..50 {
                    match round % 3 {
                        0 => thread::yield_now(),
                        1 => thread::sleep(Duration::from_micros(10)),
                        _ => offload(|| ()),
                    }
                    assert_eq!(std::thread::current().id(), here);
                }
                (i % 3, here)
            })
        })
        .collect();
    let mut seen = [None; 3];
    for (index, thread) in handles.into_iter().map(|h| h.join().unwrap()) {
        assert_eq!(*seen[index].get_or_insert(thread), thread, "one thread per loop");
    }
}

#[test]
fn a_long_computation_lets_others_run() {
    let rt = runtime(1);
    let stop = Arc::new(AtomicBool::new(false));
    let own = Arc::clone(&stop);
    let busy = rt.spawn("busy", move || {
        let mut rounds = 0u64;
        while !own.load(Ordering::Relaxed) {
            rounds += 1;
            maybe_yield();
        }
        rounds
    });
    // From a fiber of the same loop that first waits for a deadline, and from a file.
    let sleeper = rt.spawn("sleeper", || {
        thread::sleep(Duration::from_millis(1));
        offload(|| std::fs::metadata("/proc/self/status").is_ok())
    });
    assert!(sleeper.join().unwrap());
    stop.store(true, Ordering::Relaxed);
    assert!(busy.join().unwrap() > 0);
}

#[test]
fn a_spent_quantum_lets_others_run() {
    let rt = runtime(1);
    let order = Arc::new(Mutex::new(String::new()));
    let spender = |name| {
        let order = Arc::clone(&order);
        spawn_here(name, move || {
            for _ in 0..8 {
                order.lock().push_str(name);
                spend(QUANTUM / 3);
            }
        })
    };
    rt.run("parent", || {
        let both = ["a", "b"].map(spender);
        both.into_iter().for_each(|fiber| fiber.join().unwrap());
    });
    // A third of the quantum fits three times; the fourth spend yields.
    assert_eq!(*order.lock(), "aaaabbbbaaaabbbb");
    // On a thread it makes no difference.
    (0..10_000_000).for_each(|_| spend(QUANTUM));
}

/// Deadlines, completions and other threads' wake-ups get their turn even when a fiber never waits.
#[test]
fn a_loop_looks_around_when_quanta_are_spent() {
    let rt = runtime(1);
    let stop = Arc::new(AtomicBool::new(false));
    let own = Arc::clone(&stop);
    let busy = rt.spawn("busy", move || {
        while !own.load(Ordering::Relaxed) {
            spend(1);
        }
    });
    let sleeper = rt.spawn("sleeper", || {
        thread::sleep(Duration::from_millis(1));
        offload(|| std::fs::metadata("/proc/self/status").is_ok())
    });
    assert!(sleeper.join().unwrap());
    stop.store(true, Ordering::Relaxed);
    busy.join().unwrap();
}

#[test]
fn an_awake_loop_is_not_kicked() {
    let rt = runtime(1);
    let (started, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (up, end) = (Arc::clone(&started), Arc::clone(&stop));
    let spinner = rt.spawn("spinner", move || {
        up.store(true, Ordering::Release);
        while !end.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
    });
    while !started.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    let before = rt.stats().kicks;
    let ran: Vec<_> = (0..1000).map(|i| rt.spawn("quick", move || i)).collect();
    stop.store(true, Ordering::Release);
    spinner.join().unwrap();
    assert_eq!(ran.into_iter().map(|h| h.join().unwrap()).sum::<i32>(), 499_500);
    assert!(rt.stats().kicks <= before + 1, "at most the sleep after the last of them");
}

#[test]
fn a_batch_of_wake_ups_kicks_each_loop_once() {
    let rt = runtime(2);
    let woken = Arc::new(AtomicUsize::new(0));
    let go = Arc::new(AtomicBool::new(false));
    let waiters: Vec<_> = (0..1000)
        .map(|i| {
            let (woken, go) = (Arc::clone(&woken), Arc::clone(&go));
            rt.spawn_on(i % 2, "follower", move || {
                while !go.load(Ordering::Acquire) {
                    task::park(&TEST);
                }
                woken.fetch_add(1, Ordering::Relaxed);
            })
        })
        .collect();
    while rt.fibers().iter().filter(|f| f.waits_for == "test").count() < 1000 {
        std::thread::yield_now();
    }
    let before = rt.stats().kicks;
    go.store(true, Ordering::Release);
    unpark_all(waiters.iter().map(|w| w.task()));
    waiters.into_iter().for_each(|w| w.join().unwrap());
    assert_eq!(woken.load(Ordering::Relaxed), 1000);
    assert!(rt.stats().kicks - before <= 2, "{} kicks", rt.stats().kicks - before);
}

#[test]
fn a_loop_that_stands_still_is_reported_once() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let rt = Runtime::builder().loops(2).on_stall(move |stall| sender.send(stall.clone()).unwrap());
    let rt = rt.build().unwrap();
    let reported = Arc::new(AtomicBool::new(false));
    let own = Arc::clone(&reported);
    let blocker = rt.spawn_on(1, "blocker", move || {
        // What the watchdog exists to find: a wait the loop does not know of.
        while !own.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(120));
    });
    let stall = loop {
        let stall = receiver.recv().unwrap();
        // A machine that is short of processors may hold up any loop.
        if stall.loop_index == 1 && stall.fiber == "blocker" {
            break stall;
        }
    };
    assert!(stall.nanos >= 100_000_000);
    reported.store(true, Ordering::Relaxed);
    blocker.join().unwrap();
    drop(rt);
    assert!(receiver.iter().all(|stall| stall.fiber != "blocker"), "one report per incident");
}

/// What goes on aside ends as any fiber does: its panic ends nobody else, and its locals with it.
#[test]
fn what_goes_on_aside_leaves_nothing_behind() {
    crate::task_local! {
        static LEFT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }
    let rt = runtime(1);
    let seen: usize = rt.run("owner", || {
        for panics in [false, true] {
            let done = Arc::new(Event::new());
            let own = Arc::clone(&done);
            assert!(aside("aside", move || {
                LEFT.with(|left| left.set(7));
                own.set();
                assert!(!panics, "nobody hears this");
            }));
            done.wait();
            // Its slot goes to the next one.
            thread::yield_now();
        }
        (0..10).map(|_| spawn_here("next", || LEFT.with(|left| left.get())).join().unwrap()).sum()
    });
    assert_eq!(seen, 0);
    assert!(rt.run("later", is_fiber));
}

/// A thread runs the loop that it has borrowed only while it waits for its children.
#[test]
fn nothing_is_left_aside_on_a_borrowed_loop() {
    let ran = Arc::new(AtomicUsize::new(0));
    let own = Arc::clone(&ran);
    let begun = scope_here(|scope| {
        let work = move || {
            own.fetch_add(1, Ordering::Relaxed);
        };
        scope.spawn("child", move || (is_fiber(), aside("aside", work))).join().unwrap()
    });
    assert_eq!(begun, (true, false));
    assert_eq!((ran.load(Ordering::Relaxed), Arc::strong_count(&ran)), (0, 1));
    // The thread itself has the pool, in a scope too.
    let done = Arc::new(Event::new());
    let own = Arc::clone(&done);
    assert!(scope_here(|scope| {
        scope.spawn("child", || ()).join().unwrap();
        aside("aside", move || own.set())
    }));
    done.wait();
}
