//! Waiting until the loop has nothing else to do.

use super::*;
use std::sync::atomic::AtomicBool;

static TEST: WaitReason = WaitReason("test");
/// Longer than any test takes.
const LONG: u64 = 3_600_000_000_000;

#[test]
fn who_lingers_goes_on_when_nobody_else_can() {
    let rt = runtime(1);
    let order = rt.run("parent", || {
        let order = Mutex::new(Vec::new());
        let note = |word: &'static str| order.lock().push(word);
        scope_here(|scope| {
            scope.spawn("first", || {
                wait_until_idle(LONG);
                note("first");
            });
            scope.spawn("second", || {
                wait_until_idle(LONG);
                note("second");
            });
            scope.spawn("worker", || {
                for _ in 0..200 {
                    thread::yield_now();
                }
                note("worker");
            });
        });
        order.into_inner()
    });
    assert_eq!(order, ["worker", "first", "second"]);
}

#[test]
fn those_run_first_whose_requests_are_answered() {
    let rt = runtime(1);
    let order = rt.run("parent", || {
        let order = Mutex::new(Vec::new());
        let pipe = crate::net::Stream::pair().unwrap();
        scope_here(|scope| {
            let (order, pipe) = (&order, &pipe);
            scope.spawn("receiver", move || {
                pipe.1.receive(&mut [0; 8]).unwrap();
                order.lock().push("received");
            });
            scope.spawn("sender", move || {
                // The receiver waits for it by now, or finds it there.
                thread::yield_now();
                pipe.0.send_all(b"x").unwrap();
                wait_until_idle(LONG);
                order.lock().push("waited");
            });
        });
        order.into_inner()
    });
    assert_eq!(order, ["received", "waited"]);
}

#[test]
fn a_loop_that_is_never_idle_lets_who_lingers_go_on_in_time() {
    let rt = runtime(1);
    rt.run("parent", || {
        let (is_over, began) = (AtomicBool::new(false), crate::time::now_nanos());
        scope_here(|scope| {
            scope.spawn("busy", || {
                while !is_over.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
            });
            scope.spawn("waits", || {
                wait_until_idle(1_000_000);
                is_over.store(true, Ordering::Relaxed);
            });
        });
        assert!(crate::time::now_nanos() >= began + 1_000_000, "the busy one was never idle");
    });
}

#[test]
fn a_wake_up_while_lingering_is_not_lost() {
    let rt = runtime(1);
    rt.run("parent", || {
        let me = task::current();
        let waker = spawn_here("waker", move || me.unpark());
        wait_until_idle(LONG);
        assert!(waker.is_finished());
        task::park(&TEST);
    });
    // On a thread there is nothing to wait for.
    wait_until_idle(LONG);
}
