//! Priorities of lanes read back from the kernel, work that is handed back, and violations that
//! locks detect.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::fiber::aside;
use crate::helpers::{Assist, HelperPool, Urgency};
use crate::sync::Event;
use crate::{sim, thread};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicUsize;

const LOW: LanePriority = LanePriority { cpu: CpuPriority::Low, io: IoPriority::Low };
const IDLE: LanePriority = LanePriority { cpu: CpuPriority::Idle, io: IoPriority::Idle };
const NORMAL: LanePriority = LanePriority { cpu: CpuPriority::Normal, io: IoPriority::Normal };

/// (thread id, scheduling) of the calling thread.
fn me() -> (u64, ThreadPriority) {
    (os::thread_id(), os::thread_priority())
}

#[test] // Priorities are those of operating-system threads.
fn computing_is_lowered_and_what_is_handed_back_is_not() {
    let (own, normal) = me();
    let lane = Lane::movable(LOW);
    let ((there, low), back, after) =
        lane.run(&Floor::default(), || (me(), at_normal_priority(me), me()));
    assert_ne!(there, own);
    assert_eq!(
        (low.nice(), low.io_name().as_str(), low.is_idle_policy()),
        (19, "best-effort/7", false)
    );
    assert_eq!(back, (own, normal), "on the job's own thread");
    assert_eq!(after, (there, low));
    let lane = Lane::movable(IDLE);
    let ((_, idle), back) = lane.run(&Floor::default(), || (me(), at_normal_priority(me)));
    assert!(idle.is_idle_policy() && idle.is_idle_io());
    assert_eq!(back, (own, normal));
    let lane = Lane::movable(NORMAL);
    let ((there, same), back) = lane.run(&Floor::default(), || (me(), at_normal_priority(me)));
    assert_eq!((same, back), (normal, (there, normal)), "nothing to hand back");
    assert_ne!(there, own, "it may be lowered");
    assert_eq!(Lane::fixed().run(&Floor::default(), me), (own, normal));
    let report = lane.report();
    assert_eq!((report.jobs, report.refused, report.last), (1, 0, Some(normal)));
}

#[test] // Priorities are those of operating-system threads.
fn nobody_is_lowered_while_it_does_what_must_not_be() {
    let (_, normal) = me();
    let lane = Arc::new(Lane::movable(NORMAL));
    let (began, gate) = (Arc::new(Event::new()), Arc::new(Event::new()));
    let (own, started, wait) = (Arc::clone(&lane), Arc::clone(&began), Arc::clone(&gate));
    let job = thread::spawn("job", move || {
        own.run(&Floor::default(), || {
            let inside = at_normal_priority(|| {
                started.set();
                wait.wait();
                os::thread_priority()
            });
            (inside, os::thread_priority())
        })
    });
    began.wait();
    assert_eq!(lane.set_priority(LOW), 0);
    assert_eq!(lane.report().threads[0].priority, normal);
    gate.set();
    let (inside, after) = job.join().unwrap();
    assert_eq!((inside, after.nice()), (normal, 19));
}

#[test] // Priorities are those of operating-system threads.
fn urgent_jobs_begin_at_normal_priority() {
    let (_, normal) = me();
    let lane = Lane::movable(LOW);
    lane.set_urgent(true);
    assert_eq!(lane.run(&Floor::default(), os::thread_priority), normal);
    lane.set_urgent(false);
    assert_eq!(lane.run(&Floor::default(), os::thread_priority).nice(), 19);
}

/// A planted violation: the debug build's locks detect it at any priority of the lane.
#[cfg(debug_assertions)]
#[test] // Panics cross to the job's own thread, which is one of the operating system.
fn a_lock_of_the_foreground_on_a_lanes_thread_is_found() {
    watch_locks();
    let lock = Mutex::foreground(0);
    let found = |f: &(dyn Fn() + Sync)| {
        [NORMAL, LOW].map(|priority| {
            let lane = Lane::movable(priority);
            catch_unwind(AssertUnwindSafe(|| lane.run(&Floor::default(), f))).is_err()
        })
    };
    assert_eq!(found(&|| drop(lock.lock())), [true, true]);
    assert_eq!(found(&|| drop(lock.try_lock())), [true, true]);
    assert_eq!(found(&|| at_normal_priority(|| *lock.lock() += 1)), [false, false]);
    assert_eq!(
        found(&|| at_normal_priority(|| at_normal_priority(|| *lock.lock() += 1))),
        [false, false]
    );
    let twice = || {
        at_normal_priority(|| ());
        drop(lock.lock());
    };
    assert_eq!(found(&twice), [true, true], "after it, too");
    Lane::fixed().run(&Floor::default(), || *lock.lock() += 1);
    assert_eq!(*lock.lock(), 5, "and the lock was left free");
}

#[test] // Panics cross to the job's own thread, which is one of the operating system.
fn panics_go_on_where_the_work_is_waited_for() {
    for priority in [NORMAL, LOW] {
        let lane = Lane::movable(priority);
        let run = |f: &(dyn Fn() + Sync)| {
            let result = catch_unwind(AssertUnwindSafe(|| lane.run(&Floor::default(), f)));
            thread::panic_message(result.unwrap_err().as_ref()).to_string()
        };
        assert_eq!(run(&|| panic!("computing")), "computing");
        assert_eq!(run(&|| at_normal_priority(|| panic!("handed back"))), "handed back");
        assert!(lane.report().threads.is_empty());
        lane.run(&Floor::default(), || at_normal_priority(|| ()));
    }
}

/// Records a helper's scheduling, and the thread that does what it hands back.
struct Look {
    done: AtomicBool,
    seen: Mutex<Option<(u64, ThreadPriority, u64)>>,
    came: Event,
}

impl Assist for Look {
    fn assist(&self) {
        if !self.done.swap(true, Ordering::SeqCst) {
            let (thread, priority) = me();
            *self.seen.lock() = Some((thread, priority, at_normal_priority(os::thread_id)));
            self.came.set();
        }
    }
}

#[test] // Priorities are those of operating-system threads.
fn helpers_carry_the_lane_of_their_job_and_hand_back_to_it() {
    let (own, normal) = me();
    let helpers = HelperPool::new(4);
    let help = |lane: &Lane, change: Option<LanePriority>| {
        lane.run(&Floor::default(), || {
            let came = Event::new();
            let look =
                Arc::new(Look { done: AtomicBool::new(false), seen: Mutex::new(None), came });
            let offer = helpers.offer(Urgency::Low, 1, Arc::clone(&look) as Arc<dyn Assist>);
            if let Some(priority) = change {
                at_normal_priority(|| lane_of(lane, priority));
            }
            while !look.done.load(Ordering::SeqCst) {
                offer.call();
                thread::yield_now();
            }
            look.came.wait();
            look.seen.lock().take().unwrap()
        })
    };
    fn lane_of(lane: &Lane, priority: LanePriority) {
        assert_eq!(lane.set_priority(priority), 0);
    }
    let (_, priority, handed_to) = help(&Lane::movable(LOW), None);
    assert_eq!((priority.nice(), priority.io_name().as_str()), (19, "best-effort/7"));
    assert_eq!(handed_to, own);
    let (helper, priority, handed_to) = help(&Lane::movable(NORMAL), None);
    assert_eq!((priority, handed_to), (normal, helper));
    let (_, priority, handed_to) = help(&Lane::movable(LOW), Some(IDLE));
    assert!(priority.is_idle_policy() && priority.is_idle_io(), "changed after the offer");
    assert_eq!(handed_to, own);
}

#[test] // Priorities are those of operating-system threads.
fn threads_are_used_again_at_their_priority_only() {
    let low = Lane::movable(LOW);
    let first = low.run(&Floor::default(), os::thread_id);
    // A worker becomes idle some moments after its job has continued; each round may start another.
    let again = (0..10_000).any(|_| low.run(&Floor::default(), os::thread_id) == first);
    assert!(again, "no thread came twice");
    let lane = Lane::movable(IDLE);
    for _ in 0..50 {
        assert!(lane.run(&Floor::default(), os::thread_priority).is_idle_policy());
        assert_eq!(low.run(&Floor::default(), os::thread_priority).nice(), 19);
    }
}

/// Jobs, parts, hand-backs and changes of priority in seeded orders: everything ends, and counts
/// agree.
#[test] // The simulation runs it on tasks of its own.
fn everything_ends_in_any_order() {
    for seed in 0..60 {
        let (report, outcome) = sim::run(&sim::Options::new(seed), || {
            let lane = Lane::movable(NORMAL);
            let (sum, ran) = (Mutex::foreground(0), AtomicUsize::new(0));
            thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        for _ in 0..4 {
                            lane.run(&Floor::default(), || {
                                for _ in 0..3 {
                                    at_normal_priority(|| *sum.lock() += 1);
                                    thread::yield_now();
                                }
                                ran.fetch_add(1, Ordering::Relaxed);
                            });
                        }
                    });
                }
                scope.spawn(|| {
                    for round in 0..6 {
                        assert_eq!(lane.set_priority([LOW, NORMAL, IDLE][round % 3]), 0);
                        lane.set_urgent(round % 2 == 0);
                        thread::yield_now();
                        lane.report();
                    }
                });
            });
            assert_eq!((*sum.lock(), ran.load(Ordering::Relaxed)), (36, 12));
            assert_eq!(lane.report().jobs, 12);
        });
        assert!(outcome.is_ok(), "seed {seed}: {outcome:?} {:?}", report.stuck);
    }
}

/// Without a thread for the lane the job still runs, on its own thread.
#[test] // The simulation runs it on tasks of its own.
fn a_refused_thread_costs_the_lane_and_not_the_job() {
    let (report, outcome) = sim::run(&sim::Options::new(1), || {
        let (lane, lock) = (Lane::movable(LOW), Mutex::foreground(0));
        sim::refuse_tasks("pumice:lane", 1);
        for _ in 0..2 {
            lane.run(&Floor::default(), || at_normal_priority(|| *lock.lock() += 1));
        }
        let report = lane.report();
        assert_eq!((*lock.lock(), report.jobs, report.refused), (2, 2, 1));
        assert!(report.threads.is_empty());
    });
    assert!(outcome.is_ok(), "{outcome:?} {:?}", report.stuck);
}

#[test] // Priorities are those of operating-system threads.
fn a_lowered_thread_leaves_nothing_aside() {
    let (_, normal) = me();
    let from = |priority: LanePriority| {
        Lane::movable(priority).run(&Floor::default(), || {
            let found = Arc::new(Mutex::new(None));
            let (own, done) = (Arc::clone(&found), Arc::new(Event::new()));
            let ended = Arc::clone(&done);
            let begun = aside("aside", move || {
                *own.lock() = Some(os::thread_priority());
                ended.set();
            });
            if begun {
                done.wait();
            }
            let found = found.lock().take();
            (begun, found)
        })
    };
    // The pool's first threads would be lowered for good.
    assert_eq!(from(LOW), (false, None));
    assert_eq!(from(NORMAL), (true, Some(normal)));
    assert_eq!(from(IDLE), (false, None));
}
