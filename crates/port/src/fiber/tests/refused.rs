//! Fibers that get no stack: the waiter gets an error, the captures are dropped on a fiber, and the
//! loop continues.

use super::*;
use crate::future;
use crate::sync::Semaphore;
use crate::testing::{block_on, refuse_stacks};
use crate::thread::NotStarted;
use pumice_base::{Error, ErrorKind, SubCode};
use std::sync::atomic::AtomicBool;

/// A runtime of one loop whose fibers from number `after` on are refused, `count` of them.
fn refusing(after: u32, count: u32) -> Runtime {
    let rt = runtime(1);
    rt.run("refuse", move || refuse_stacks(after, count));
    rt
}

/// Checks that everything that was to be refused has been.
fn check_used(rt: &Runtime) {
    assert_eq!(rt.run("check", || refuse_stacks(0, 0)), 0, "refusals were left");
}

fn check_error(error: &Error) {
    assert_eq!((error.kind(), error.subcode()), (ErrorKind::Aborted, SubCode::MemoryLimit));
    assert!(error.to_string().contains("no memory for the stack of a fiber"), "{error}");
}

/// A value whose destructor waits, so that others come first, and then notes its name.
struct Witness(Arc<Mutex<Vec<&'static str>>>, &'static str);

impl Drop for Witness {
    fn drop(&mut self) {
        assert!(is_fiber());
        thread::sleep(Duration::from_micros(100));
        self.0.lock().push(self.1);
    }
}

#[test]
fn a_future_resolves_to_an_error() {
    let rt = refusing(1, 2);
    let start = |n: u64| future::spawn(&rt, "number", move || Ok(n), Err::<u64, Error>);
    let tasks: Vec<_> = (0..4).map(start).collect();
    let answers: Vec<_> = tasks.into_iter().map(block_on).collect();
    let good: Vec<_> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(good, [true, false, false, true]);
    answers.iter().filter_map(|answer| answer.as_ref().err()).for_each(check_error);
    check_used(&rt);
}

#[test]
fn joining_and_running_tell_of_it() {
    let rt = refusing(0, 1);
    check_error(&rt.spawn("refused", || 1).join().unwrap_err());
    rt.run("refuse", || refuse_stacks(0, 1));
    let mut borrowed = 0;
    let run = std::panic::AssertUnwindSafe(|| rt.run("refused", || borrowed += 1));
    let panic = std::panic::catch_unwind(run).unwrap_err();
    assert!(panic.is::<NotStarted>());
    assert_eq!(borrowed, 0);
    check_used(&rt);
    assert_eq!(rt.run("after", || 5), 5);
    refuse_stacks(0, 1);
    let here = Runtime::builder().loops(1).run_here("refused", || borrowed += 1);
    assert_eq!(here.unwrap_err().kind(), std::io::ErrorKind::OutOfMemory);
    assert_eq!((refuse_stacks(0, 0), borrowed), (0, 0));
}

/// A body that panics with the `NotStarted` of another fiber has itself run.
#[test]
fn a_panic_that_came_through_is_no_refusal() {
    let rt = runtime(1);
    let through = || std::panic::resume_unwind(Box::new(NotStarted));
    let e = rt.spawn("outer", through).join().unwrap_err();
    assert_eq!((e.kind(), e.subcode()), (ErrorKind::Aborted, SubCode::None), "{e}");
    assert!(e.to_string().contains("outer panicked: no memory for the stack"), "{e}");
    let here = std::panic::AssertUnwindSafe(|| Runtime::builder().loops(1).run_here("o", through));
    let panic = std::panic::catch_unwind(here).expect_err("it ran");
    assert!(panic.is::<NotStarted>());
}

/// On a plain thread, on a fiber, and with `thread::scope` where it starts fibers.
#[test]
fn a_scope_ends_when_children_did_not_begin() {
    let here = || {
        refuse_stacks(3, 4);
        let ran = AtomicUsize::new(0);
        let refused = scope_here(|scope| {
            let children: Vec<_> = (0..10)
                .map(|n| {
                    let ran = &ran;
                    scope.spawn("child", move || ran.fetch_add(n, Ordering::Relaxed))
                })
                .collect();
            let ended = children.into_iter().map(|child| child.join());
            ended.filter(|end| end.as_ref().is_err_and(|e| e.is::<NotStarted>())).count()
        });
        assert_eq!((refused, ran.into_inner()), (4, 1 + 2 + 7 + 8 + 9));
        assert_eq!(refuse_stacks(0, 0), 0);
    };
    here();
    let rt = Runtime::builder().loops(1).spawn_as_fibers(true).build().unwrap();
    rt.run("parent", here);
    rt.run("parent", || {
        refuse_stacks(1, 1);
        let refused = thread::scope(|scope| {
            let children: Vec<_> = (0..3).map(|_| scope.spawn(|| ())).collect();
            children.into_iter().map(|child| child.join().is_err()).collect::<Vec<_>>()
        });
        assert_eq!(refused, [false, true, false]);
    });
    // The child is not joined: the scope itself panics.
    let lost = rt.spawn("parent", || {
        refuse_stacks(0, 1);
        scope_here(|scope| drop(scope.spawn("child", || ())));
    });
    assert!(lost.join().unwrap_err().to_string().contains("did not start"));
}

/// What the bodies hold is dropped on fibers, which may wait, one after the other on the one stack
/// that is there; other fibers run meanwhile.
#[test]
fn destructors_of_the_refused_wait_like_any_fiber() {
    let rt = refusing(1, 100);
    let order = Arc::new(Mutex::new(Vec::new()));
    let (gate, stop) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicBool::new(false)));
    let (own, end) = (Arc::clone(&gate), Arc::clone(&stop));
    let neighbour = rt.spawn("neighbour", move || {
        let mut turns = 0u64;
        own.release(1);
        while !end.load(Ordering::Relaxed) {
            turns += 1;
            thread::yield_now();
        }
        turns
    });
    gate.acquire(1);
    let names = ["a", "b", "c", "d"];
    let refused: Vec<_> = names
        .map(|name| {
            let witness = Witness(Arc::clone(&order), name);
            rt.spawn(name, move || drop(witness))
        })
        .into();
    refused.into_iter().for_each(|handle| check_error(&handle.join().unwrap_err()));
    assert_eq!(*order.lock(), names);
    stop.store(true, Ordering::Relaxed);
    assert!(neighbour.join().unwrap() > 0);
    drop(rt);
}

/// The runtime is dropped while the refused are still on their way.
#[test]
fn a_runtime_ends_with_its_refused_fibers() {
    for after in 0..6 {
        let rt = refusing(after, 3);
        let order = Arc::new(Mutex::new(Vec::new()));
        for _ in 0..6 {
            let witness = Witness(Arc::clone(&order), "held");
            drop(rt.spawn("held", move || drop(witness)));
        }
        drop(rt);
        assert_eq!(order.lock().len(), 6);
    }
}
