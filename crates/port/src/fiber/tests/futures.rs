//! Futures resolved by fibers, polled by a minimal executor.

use super::*;
use crate::future;
use crate::testing::block_on;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, Wake, Waker};

#[test]
fn any_executor_polls_them() {
    let rt = runtime(2);
    let all = block_on(async {
        let futures: Vec<_> = (0..100u64)
            .map(|i| {
                let f = move || {
                    thread::sleep(Duration::from_micros(i % 7 * 30));
                    i
                };
                future::spawn(&rt, "async", f, |e| panic!("{e}"))
            })
            .collect();
        let mut sum = 0;
        for future in futures {
            sum += future.await;
        }
        sum
    });
    assert_eq!(all, 4950);
}

#[test]
fn a_future_dropped_early_leaves_its_fiber_alone() {
    let rt = runtime(1);
    let (gate, done) = (Arc::new(Event::new()), Arc::new(AtomicUsize::new(0)));
    for i in 0..100 {
        let (gate, done) = (Arc::clone(&gate), Arc::clone(&done));
        let f = move || {
            gate.wait();
            done.fetch_add(1, Ordering::Relaxed);
        };
        let mut task = future::spawn(&rt, "alone", f, |e| panic!("{e}"));
        if i % 2 == 0 {
            let poll = pin!(&mut task).poll(&mut Context::from_waker(Waker::noop()));
            assert!(poll.is_pending());
        }
        drop(task);
    }
    gate.set();
    drop(rt);
    assert_eq!(done.load(Ordering::Relaxed), 100);
}

#[test]
fn the_latest_waker_is_woken_and_panics_come_through() {
    struct Flag(AtomicBool);
    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Release);
        }
    }
    let rt = runtime(1);
    let gate = Arc::new(Event::new());
    let own = Arc::clone(&gate);
    let f = move || {
        own.wait();
        panic!("seen by the poller");
    };
    let mut task = pin!(future::spawn(&rt, "doomed", f, |e| panic!("{e}")));
    let flags = [0, 1].map(|_| Arc::new(Flag(AtomicBool::new(false))));
    for flag in &flags {
        let waker = Waker::from(Arc::clone(flag));
        assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    gate.set();
    while !flags[1].0.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    assert!(!flags[0].0.load(Ordering::Acquire), "replaced by the later one");
    let poll = std::panic::AssertUnwindSafe(|| {
        let polled = task.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        matches!(polled, Poll::Ready(()))
    });
    let panic = std::panic::catch_unwind(poll).unwrap_err();
    assert_eq!(thread::panic_message(panic.as_ref()), "seen by the poller");
}

#[test]
fn a_future_is_polled_until_it_is_ready_and_no_more() {
    let rt = runtime(1);
    let mut task = future::spawn(&rt, "once", || 5, |e| panic!("{e}"));
    assert_eq!(block_on(&mut task), 5);
    let again = std::panic::AssertUnwindSafe(|| {
        pin!(&mut task).poll(&mut Context::from_waker(Waker::noop())).is_pending()
    });
    let panic = std::panic::catch_unwind(again).expect_err("it panics");
    assert!(thread::panic_message(panic.as_ref()).contains("polled"));
}
