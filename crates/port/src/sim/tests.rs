//! What a simulation promises: seeds decide everything, time is virtual, stuck runs are reported.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::task::{self, TaskRef, WaitReason};
use crate::{os, thread, time};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

static TEST: WaitReason = WaitReason("test");

fn options(seed: u64) -> Options {
    Options { preempt_per_mille: 200, ..Options::new(seed) }
}

/// Four fibers that sleep, yield, draw random numbers and note what they did.
fn busy_body() -> Vec<u64> {
    let order = Arc::new(Mutex::new(Vec::new()));
    let handles: Vec<_> = (0..4u64)
        .map(|id| {
            let order = Arc::clone(&order);
            thread::spawn("busy", move || {
                for i in 0..10 {
                    match random_below(4) {
                        0 => thread::yield_now(),
                        1 => thread::sleep(Duration::from_nanos(random_below(10_000))),
                        2 => device_wait(random_below(10_000)),
                        _ => point(),
                    }
                    note(id * 100 + i);
                    order.lock().unwrap().push(id);
                }
            })
        })
        .collect();
    handles.into_iter().for_each(|h| h.join().unwrap());
    let order = order.lock().unwrap();
    order.clone()
}

#[test]
fn a_seed_decides_the_whole_run() {
    for schedule in [Schedule::Uniform, Schedule::PriorityChange { depth: 3 }] {
        let mut hashes = BTreeSet::new();
        for seed in 0..200 {
            let options = Options { schedule, trace: seed == 7, ..options(seed) };
            let (first, order) = run(&options, busy_body);
            let (second, again) = run(&options, busy_body);
            assert_eq!(order.unwrap(), again.unwrap(), "seed {seed}");
            assert_eq!(first.trace_hash, second.trace_hash, "seed {seed}");
            assert_eq!(first.virtual_nanos, second.virtual_nanos, "seed {seed}");
            assert_eq!(first.trace, second.trace, "seed {seed}");
            assert_eq!((first.fibers, seed == 7), (5, !first.trace.is_empty()));
            assert!(first.steps >= first.switches && first.stuck.is_none());
            hashes.insert(first.trace_hash);
        }
        assert_eq!(hashes.len(), 200, "different seeds run differently");
    }
}

#[test]
fn the_machine_is_simulated() {
    let look = || {
        let mut bytes = [0; 16];
        os::read_random_bytes(&mut bytes);
        let start = (time::now_nanos(), time::wall_micros());
        jump_wall_clock(-5_000_000_000);
        thread::sleep(Duration::from_secs(3600));
        let slept = time::now_nanos() - start.0;
        assert!((3_600_000_000_000..3_600_000_010_000).contains(&slept), "{slept}");
        let wall = time::wall_micros() - start.1;
        assert!((3_595_000_000..3_595_000_010).contains(&wall), "{wall}");
        let ids = (os::thread_id(), thread::current_id(), os::current_cpu(), os::pid());
        (bytes, start, ids, os::hostname(), thread::available_parallelism())
    };
    let (_, first) = run(&options(1), look);
    let (_, same) = run(&options(1), look);
    let (_, other) = run(&options(2), look);
    let (first, same, other) = (first.unwrap(), same.unwrap(), other.unwrap());
    assert_eq!(first, same);
    assert_ne!(first.0, other.0);
    assert_eq!(first.2, (1, 1, 1, 1));
    assert!(!is_running() && random() == 0);
}

#[test]
fn a_run_that_cannot_go_on_is_reported_exactly() {
    let (report, outcome) = run(&options(3), || {
        let lost = thread::spawn("forgotten", || {
            thread::sleep(Duration::from_millis(5));
            wait_for_ever();
        });
        lost.join().unwrap();
    });
    assert_eq!(outcome, Err(Failure::Deadlock));
    let stuck = report.stuck.unwrap();
    let names: Vec<_> = stuck.tasks.iter().map(|t| (t.name.as_str(), t.reason)).collect();
    assert_eq!(names, [("main#1", "join"), ("forgotten#2", "test")]);
    assert!(stuck.tasks[1].since_nanos >= 5_000_000, "{stuck}");
    // The next simulation of this thread is not disturbed by leftovers.
    let (report, outcome) = run(&options(3), busy_body);
    assert_eq!((report.fibers, outcome.unwrap().len()), (5, 40));
}

#[test]
fn endless_runs_end() {
    let steps = Options { max_steps: 10_000, ..options(4) };
    let spin = || {
        while time::now_nanos() > 0 {
            time::spin_loop()
        }
    };
    assert_eq!(run(&steps, spin).1, Err(Failure::Steps));
    let pass_points = || {
        while time::now_nanos() > 0 {
            point()
        }
    };
    assert_eq!(run(&steps, pass_points).1, Err(Failure::Steps));
    let time_limit = Options { max_virtual_nanos: 10_000_000_000, ..options(4) };
    let (report, outcome) = run(&time_limit, || {
        loop {
            thread::sleep(Duration::from_secs(1));
        }
    });
    assert_eq!(outcome, Err(Failure::Time));
    assert_eq!(report.stuck.unwrap().tasks[0].name, "main#1");
}

#[test]
fn spinning_for_a_deadline_ends_under_every_schedule() {
    for schedule in [Schedule::Uniform, Schedule::PriorityChange { depth: 2 }] {
        for seed in 0..50 {
            let (_, outcome) = run(&Options { schedule, ..options(seed) }, || {
                let done = Arc::new(AtomicU64::new(0));
                let set = Arc::clone(&done);
                let setter = thread::spawn("set", move || set.store(1, Ordering::SeqCst));
                while done.load(Ordering::SeqCst) == 0 {
                    time::spin_loop();
                }
                setter.join().unwrap();
            });
            assert_eq!(outcome, Ok(()), "seed {seed}");
        }
    }
}

#[test]
fn panics_reach_the_joiner_and_the_report() {
    let (_, outcome) = run(&options(5), || {
        let failing = thread::spawn("failing", || -> () { panic!("on purpose") });
        let error = failing.join().unwrap_err().to_string();
        assert!(error.contains("failing panicked: on purpose"), "{error}");
        panic!("main too");
    });
    assert_eq!(outcome, Err::<(), _>(Failure::Panic("main too".to_string())));
}

/// Joins its fiber when it is dropped, so that unwinding has to wait.
struct JoinOnDrop(Option<thread::JoinHandle<()>>);
impl Drop for JoinOnDrop {
    fn drop(&mut self) {
        self.0.take().unwrap().join().unwrap();
    }
}

fn wait_for_ever() {
    loop {
        task::park(&TEST);
    }
}

#[test]
fn unwinding_may_wait_and_a_stuck_unwinding_does_not_spoil_the_thread() {
    let body = |ends: bool| {
        let child = thread::spawn("child", move || {
            thread::sleep(Duration::from_secs(1));
            if !ends {
                wait_for_ever();
            }
        });
        let _wait = JoinOnDrop(Some(child));
        panic!("unwinds");
    };
    let (report, outcome) = run(&options(6), || -> () { body(true) });
    assert_eq!(outcome, Err(Failure::Panic("unwinds".to_string())));
    assert!(report.stuck.is_none() && report.virtual_nanos > 1_000_000_000);
    // On a thread of its own: that thread counts as panicking from then on.
    let outcomes = std::thread::spawn(move || {
        let first = run(&options(6), || -> () { body(false) }).1;
        (first, run(&options(6), busy_body).1.map(|order| order.len()))
    });
    let (first, second) = outcomes.join().unwrap();
    assert_eq!((first, second), (Err(Failure::Deadlock), Ok(40)));
}

/// A flag checked, then parked on, without a second look: loses a wake-up that comes in between.
#[test]
fn both_schedules_find_a_lost_wake_up() {
    for schedule in [Schedule::Uniform, Schedule::PriorityChange { depth: 2 }] {
        let found = (0..1000).position(|seed| {
            let options = Options { schedule, ..options(seed) };
            let (_, outcome) = run(&options, || {
                let shared = Arc::new(Mutex::new((false, None::<TaskRef>)));
                let other = Arc::clone(&shared);
                let waiter = thread::spawn("waiter", move || {
                    if !other.lock().unwrap().0 {
                        point();
                        other.lock().unwrap().1 = Some(task::current());
                        task::park(&TEST);
                    }
                });
                let sleeper = {
                    let mut shared = shared.lock().unwrap();
                    shared.0 = true;
                    shared.1.take()
                };
                if let Some(sleeper) = sleeper {
                    sleeper.unpark();
                }
                waiter.join().unwrap();
            });
            outcome == Err(Failure::Deadlock)
        });
        println!("{schedule:?}: lost after {found:?} seeds");
        assert!(found.is_some(), "{schedule:?}");
    }
}

#[test]
fn deadlines_and_wake_ups_race_fairly() {
    let (mut woken, mut expired) = (0, 0);
    for seed in 0..200 {
        let (_, outcome) = run(&options(seed), || {
            let me = task::current();
            let waker = thread::spawn("waker", move || {
                device_wait(random_below(2_000));
                me.unpark();
            });
            let deadline = time::now_nanos() + 1_000;
            let unparked = task::park_until(&TEST, Some(deadline));
            if !unparked {
                assert!(time::now_nanos() >= deadline);
            }
            waker.join().unwrap();
            unparked
        });
        if outcome.unwrap() { woken += 1 } else { expired += 1 }
    }
    assert!(woken > 20 && expired > 20, "{woken} {expired}");
}

#[test]
fn each_simulation_has_its_own_statics() {
    static COUNTER: Local<AtomicU64> = Local::new(|| AtomicU64::new(100));
    let count = || COUNTER.get().fetch_add(1, Ordering::SeqCst);
    assert_eq!(run(&options(1), || (count(), count())).1, Ok((100, 101)));
    assert_eq!((count(), count()), (100, 101));
    assert_eq!(run(&options(1), count).1, Ok(100));
}

#[test]
fn values_that_wait_when_dropped_are_dropped_inside() {
    struct Worker(Mutex<Option<thread::JoinHandle<()>>>);
    impl Drop for Worker {
        fn drop(&mut self) {
            assert!(is_running());
            self.0.lock().unwrap().take().unwrap().join().unwrap();
        }
    }
    static WORKER: Local<Worker> = Local::new(|| {
        let task = || thread::sleep(Duration::from_secs(2));
        Worker(Mutex::new(Some(thread::spawn("worker", task))))
    });
    let (report, outcome) = run(&options(1), || drop(WORKER.get()));
    assert_eq!(outcome, Ok(()));
    assert!(report.virtual_nanos >= 2_000_000_000);
}

#[test]
fn the_body_may_borrow_and_need_not_be_send() {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let (_, outcome) = run(&options(1), || {
        seen.borrow_mut().push(os::thread_id());
        Rc::clone(&seen)
    });
    assert_eq!(*outcome.unwrap().borrow(), [1]);
}

#[test]
fn simulations_on_two_threads_do_not_meet() {
    let hash = |seed| run(&options(seed), busy_body).0.trace_hash;
    let alone: Vec<u64> = (0..50).map(hash).collect();
    let both: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let one = || scope.spawn(|| (0..50).map(hash).collect::<Vec<u64>>());
        let threads = [one(), one()];
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert_eq!(both, [alone.clone(), alone]);
}

#[test]
fn nobody_starves_behind_two_that_wake_each_other() {
    for seed in 0..30 {
        let schedule = Schedule::PriorityChange { depth: 1 };
        let (_, outcome) = run(&Options { schedule, max_steps: 200_000, ..options(seed) }, || {
            let done = Arc::new(AtomicU64::new(0));
            let wake = |other: TaskRef, done: Arc<AtomicU64>| {
                while done.load(Ordering::SeqCst) == 0 {
                    other.unpark();
                    task::park(&TEST);
                }
                other.unpark();
            };
            let (me, seen) = (task::current(), Arc::clone(&done));
            let partner = thread::spawn("partner", move || wake(me, seen));
            let set = Arc::clone(&done);
            let starved = thread::spawn("starved", move || set.store(1, Ordering::SeqCst));
            wake(partner.task(), done);
            partner.join().unwrap();
            starved.join().unwrap();
        });
        assert_eq!(outcome, Ok(()), "seed {seed}");
    }
}
