//! Fibers run, wait, end and are counted, on their own loops and across them.
#![allow(clippy::unwrap_used)]

mod borrowed;
mod cpu;
mod futures;
mod idle_waiters;
mod kernels;
mod limits;
mod refused;
mod stacks;
mod waiting;

use super::*;
use crate::sync::{Event, Mutex};
use crate::task::{self, WaitReason};
use crate::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn runtime(loops: usize) -> Runtime {
    Runtime::builder().loops(loops).build().unwrap()
}

#[test]
fn fibers_return_values_and_panics() {
    let rt = runtime(2);
    let handles: Vec<_> = (0..100).map(|i| rt.spawn("square", move || i * i)).collect();
    for (i, handle) in handles.into_iter().enumerate() {
        assert_eq!(handle.join().unwrap(), i * i);
    }
    let doomed = rt.spawn::<()>("doomed", || panic!("because"));
    let e = doomed.join().unwrap_err();
    assert!(e.to_string().contains("doomed panicked: because"), "{e}");
    let mut borrowed = 1;
    assert_eq!(
        rt.run("borrows", || {
            borrowed += 1;
            borrowed
        }),
        2
    );
    assert!(!is_fiber() && rt.run("asks", is_fiber));
}

#[test]
fn fibers_of_one_loop_alternate() {
    let rt = runtime(1);
    let order = Arc::new(Mutex::new(Vec::new()));
    let own = Arc::clone(&order);
    rt.run("parent", move || {
        scope_here(|scope| {
            for name in ["a", "b"] {
                let order = &own;
                scope.spawn(name, move || {
                    for i in 0..3 {
                        order.lock().push((name, i));
                        thread::yield_now();
                    }
                });
            }
        });
    });
    let expected = [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2), ("b", 2)];
    assert_eq!(*order.lock(), expected);
}

#[test]
fn a_scope_on_a_plain_thread_runs_its_children_there() {
    let here = std::thread::current().id();
    for _ in 0..3 {
        let mut values = [0; 10];
        let sum = scope_here(|scope| {
            let handles: Vec<_> = values
                .iter_mut()
                .enumerate()
                .map(|(i, value)| {
                    scope.spawn("child", move || {
                        assert!(is_fiber() && std::thread::current().id() == here);
                        thread::sleep(Duration::from_micros(10 - i as u64));
                        *value = i;
                        i
                    })
                })
                .collect();
            handles.into_iter().map(|h| h.join().unwrap()).sum::<usize>()
        });
        assert_eq!(sum, 45);
        assert_eq!(values, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }
}

#[test]
fn joining_works_across_kinds() {
    let rt = Arc::new(runtime(2));
    let own = Arc::clone(&rt);
    let sum = rt.run("parent", move || {
        let other = own.spawn_on(1, "other loop", || 1);
        let same = spawn_here("same loop", || 2);
        let os = thread::spawn("thread", || i32::from(!is_fiber()) * 4);
        other.join().unwrap() + same.join().unwrap() + os.join().unwrap()
    });
    assert_eq!(sum, 7);
    let fibers = Runtime::builder().loops(2).spawn_as_fibers(true).build().unwrap();
    assert!(fibers.run("parent", || thread::spawn("child", is_fiber).join().unwrap()));
    let os = fibers.run("parent", || thread::spawn_os("child", is_fiber).unwrap().join().unwrap());
    assert!(!os);
}

static PING: WaitReason = WaitReason("ping");

#[test]
fn ten_thousand_ping_pongs_across_loops_lose_no_wake_up() {
    const ROUNDS: usize = 10_000;
    let rt = runtime(2);
    let turn = Arc::new(AtomicUsize::new(0));
    let tasks = Arc::new(Mutex::new([None; 2]));
    let ready = Arc::new(Event::new());
    let players = [0, 1].map(|me| {
        let (turn, tasks, ready) = (Arc::clone(&turn), Arc::clone(&tasks), Arc::clone(&ready));
        rt.spawn_on(me, "player", move || {
            tasks.lock()[me] = Some(task::current());
            if tasks.lock().iter().all(Option::is_some) {
                ready.set();
            }
            while !ready.is_set() {
                thread::yield_now();
            }
            let other = tasks.lock()[1 - me].unwrap();
            for _ in 0..ROUNDS {
                while turn.load(Ordering::Acquire) % 2 != me {
                    task::park(&PING);
                }
                turn.fetch_add(1, Ordering::AcqRel);
                other.unpark();
            }
        })
    });
    players.into_iter().for_each(|player| player.join().unwrap());
    assert_eq!(turn.load(Ordering::Acquire), 2 * ROUNDS);
}

#[test]
fn a_runtime_on_the_calling_thread_returns_what_cannot_be_sent() {
    let builder = Runtime::builder().loops(2).spawn_as_fibers(true);
    let value = builder.run_here("main", || {
        let children: Vec<_> = (0..10).map(|i| thread::spawn("child", move || i)).collect();
        let sum: i32 = children.into_iter().map(|c| c.join().unwrap()).sum();
        std::rc::Rc::new(sum)
    });
    assert_eq!(*value.unwrap(), 45);
}

#[test]
fn offloaded_calls_run_elsewhere() {
    let rt = runtime(1);
    let here = std::thread::current().id();
    assert_eq!(offload(|| std::thread::current().id()), here);
    let (own, other) =
        rt.run("caller", || (std::thread::current().id(), offload(|| std::thread::current().id())));
    assert_ne!(own, other);
}

#[test]
fn scopes_of_fibers_borrow_join_and_report_panics() {
    let rt = Runtime::builder().loops(2).spawn_as_fibers(true).build().unwrap();
    rt.run("parent", || {
        let mut sums = [0u64; 8];
        thread::scope(|scope| {
            for (i, sum) in sums.iter_mut().enumerate() {
                scope.spawn(move || {
                    assert!(is_fiber());
                    *sum = i as u64 + 1;
                });
            }
        });
        assert_eq!(sums.iter().sum::<u64>(), 36);
        let joined = thread::scope(|scope| scope.spawn::<()>(|| panic!("joined")).join());
        assert_eq!(thread::panic_message(joined.unwrap_err().as_ref()), "joined");
    });
    for (kind, unjoined) in [
        ("thread::scope", rt.spawn("a", || thread::scope(|s| drop(s.spawn(|| panic!("lost")))))),
        ("scope_here", rt.spawn("b", || scope_here(|s| drop(s.spawn("c", || panic!("lost")))))),
    ] {
        let e = unjoined.join().unwrap_err().to_string();
        assert!(e.contains("scoped") && e.contains("panicked"), "{kind}: {e}");
    }
}

#[test]
fn panics_reach_whoever_waits() {
    let rt = runtime(1);
    let run = std::panic::AssertUnwindSafe(|| rt.run("doomed", || panic!("through run")));
    let panic = std::panic::catch_unwind(run).unwrap_err();
    assert_eq!(thread::panic_message(panic.as_ref()), "through run");
    let e = rt.spawn("caller", || offload(|| panic!("through offload"))).join();
    assert!(e.unwrap_err().to_string().contains("through offload"));
    let here = std::panic::catch_unwind(|| scope_here(|s| s.spawn("x", || panic!("here")).join()));
    assert_eq!(thread::panic_message(here.unwrap().unwrap_err().as_ref()), "here");
    // The loop has survived all of it.
    assert_eq!(rt.run("last", || 5), 5);
}

#[test]
fn dropping_a_runtime_waits_for_its_fibers() {
    let done = Arc::new(AtomicUsize::new(0));
    let rt = runtime(2);
    for i in 0..100u64 {
        let done = Arc::clone(&done);
        drop(rt.spawn("late", move || {
            thread::sleep(Duration::from_micros(i * 20));
            // A child that is not joined is waited for as well.
            let own = Arc::clone(&done);
            drop(spawn_here("child", move || {
                thread::sleep(Duration::from_micros(50));
                own.fetch_add(1, Ordering::Relaxed);
            }));
            done.fetch_add(1, Ordering::Relaxed);
        }));
    }
    drop(rt);
    assert_eq!(done.load(Ordering::Relaxed), 200);
}

crate::task_local! {
    static NUMBER: std::cell::Cell<usize> = const { std::cell::Cell::new(7) };
}
crate::task_local! {
    static OWNED: std::cell::RefCell<Vec<Counted>> = std::cell::RefCell::default();
}

/// Counts its drops.
struct Counted(Arc<AtomicUsize>);
impl Drop for Counted {
    fn drop(&mut self) {
        // Destructors of locals run on the fiber, which may still wait.
        thread::yield_now();
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn task_locals_follow_the_fiber() {
    let rt = runtime(1);
    let dropped = Arc::new(AtomicUsize::new(0));
    let handles: Vec<_> = (0..50)
        .map(|i| {
            let dropped = Arc::clone(&dropped);
            rt.spawn("local", move || {
                assert_eq!(NUMBER.get(), 7);
                NUMBER.set(i);
                OWNED.with(|owned| owned.borrow_mut().push(Counted(dropped)));
                for _ in 0..5 {
                    // A borrow may live over a switch.
                    NUMBER.with(|number| {
                        thread::yield_now();
                        assert_eq!(number.get(), i);
                    });
                }
                thread::current_id()
            })
        })
        .collect();
    let mut ids: Vec<_> = handles.into_iter().map(|h| h.join().unwrap()).collect();
    assert_eq!(dropped.load(Ordering::Relaxed), 50, "dropped before the joiners go on");
    ids.push(thread::current_id());
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 51, "every fiber has a number of its own");
    assert_eq!(NUMBER.get(), 7);
}
