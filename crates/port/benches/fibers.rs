//! What fibers cost: switches, starts, wake-ups on one loop and across loops, compared with std's
//! threads.
//!
//! `cargo bench -p pumice-port --bench fibers [-- WORD]` runs the lines whose name contains WORD.
//! Each line is the median over interleaved rounds; the ratio is that of the yardstick to ours, so
//! above 1 the fiber is cheaper.
#![allow(missing_docs)]
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // std's threads are the yardstick.

use pumice_port::fiber::{self, Runtime};
use pumice_port::task::{self, TaskRef, WaitReason};
use pumice_port::thread;
use std::cell::Cell;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

const ROUNDS: usize = 9;

static BENCH: WaitReason = WaitReason("bench");

/// Nanoseconds per operation of one round.
type Round<'a> = &'a dyn Fn() -> f64;

/// Measures both sides alternately and prints the medians.
fn line(filter: &str, name: &str, ours: Round<'_>, yardstick: Option<(&str, Round<'_>)>) {
    if !name.contains(filter) {
        return;
    }
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        a.push(ours());
        if let Some((_, yardstick)) = yardstick {
            b.push(yardstick());
        }
    }
    let median = |values: &mut Vec<f64>| {
        values.sort_unstable_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let ours = median(&mut a);
    match yardstick {
        None => println!("{name:<34} {ours:>10.1} ns"),
        Some((other, _)) => {
            let theirs = median(&mut b);
            let ratio = theirs / ours;
            println!("{name:<34} {ours:>10.1} ns   {other:<26} {theirs:>10.1} ns   {ratio:>7.2}");
        }
    }
}

/// Nanoseconds per operation of `f`, which does `n` of them.
fn timed(n: u64, f: impl FnOnce()) -> f64 {
    let start = Instant::now();
    f();
    start.elapsed().as_nanos() as f64 / n as f64
}

/// `fibers` on one loop yield in turn; each touches some of its stack at every resume.
fn yields(rt: &Runtime, fibers: u64) -> f64 {
    let each = (400_000 / fibers).max(20);
    rt.run("bench", move || {
        let body = move || {
            for i in 0..each {
                black_box([i; 64]);
                thread::yield_now();
            }
        };
        // Stacks are made before the clock starts.
        fiber::scope_here(|scope| (0..fibers).for_each(|_| drop(scope.spawn("y", || ()))));
        timed(each * fibers, || {
            fiber::scope_here(|scope| (0..fibers).for_each(|_| drop(scope.spawn("y", body))));
        })
    })
}

fn spawn_join(rt: &Runtime) -> f64 {
    const N: u64 = 20_000;
    rt.run("bench", || {
        timed(N, || {
            for i in 0..N {
                let child = fiber::spawn_here("child", move || i);
                black_box(child.join().expect("no panic"));
            }
        })
    })
}

fn thread_spawn_join() -> f64 {
    const N: u64 = 200;
    timed(N, || {
        for i in 0..N {
            black_box(std::thread::spawn(move || i).join().expect("no panic"));
        }
    })
}

/// Two fibers of one loop hand a turn to each other.
fn hand_off(rt: &Runtime) -> f64 {
    const N: u64 = 100_000;
    rt.run("bench", || {
        let turn = Cell::new(0u64);
        let tasks = Cell::new([None::<TaskRef>; 2]);
        timed(2 * N, || {
            fiber::scope_here(|scope| {
                for me in 0..2u64 {
                    let (turn, tasks) = (&turn, &tasks);
                    scope.spawn("player", move || {
                        let mut both = tasks.get();
                        both[me as usize] = Some(task::current());
                        tasks.set(both);
                        for _ in 0..N {
                            while turn.get() % 2 != me {
                                task::park(&BENCH);
                            }
                            turn.set(turn.get() + 1);
                            if let Some(other) = tasks.get()[1 - me as usize] {
                                other.unpark();
                            }
                        }
                    });
                }
            });
        })
    })
}

/// Two std threads do the same by park and unpark (a futex).
fn thread_hand_off() -> f64 {
    const N: u64 = 5_000;
    let turn = AtomicU64::new(0);
    timed(2 * N, || {
        std::thread::scope(|scope| {
            let play = |me: u64, other: std::thread::Thread, turn: &AtomicU64| {
                for _ in 0..N {
                    while turn.load(Ordering::Acquire) % 2 != me {
                        std::thread::park();
                    }
                    turn.fetch_add(1, Ordering::AcqRel);
                    other.unpark();
                }
            };
            let first = std::thread::current();
            let turn = &turn;
            let second = scope.spawn(move || play(1, first, turn));
            play(0, second.thread().clone(), turn);
        });
    })
}

/// Fibers of two loops hand a turn to each other. When they sleep in between each hand-off is a
/// kick; with a third fiber per loop that only yields the loops stay awake.
fn across(rt: &Runtime, awake: bool) -> f64 {
    const N: u64 = 5_000;
    let turn = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let ready = Arc::new(pumice_port::sync::Event::new());
    let spinners: Vec<_> = (0..if awake { 2 } else { 0 })
        .map(|index| {
            let stop = Arc::clone(&stop);
            rt.spawn_on(index, "spinner", move || {
                while !stop.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
            })
        })
        .collect();
    let other = Arc::new(std::sync::OnceLock::<TaskRef>::new());
    let player = |me: u64| {
        let (turn, ready, other) = (Arc::clone(&turn), Arc::clone(&ready), Arc::clone(&other));
        move || {
            ready.wait();
            let start = Instant::now();
            for _ in 0..N {
                while turn.load(Ordering::Acquire) % 2 != me {
                    task::park(&BENCH);
                }
                turn.fetch_add(1, Ordering::AcqRel);
                if me == 0 {
                    // The other player learns its opponent from its first wake-up.
                    other.get().expect("set before ready").unpark();
                } else {
                    FIRST.with_task(|first| first.unpark());
                }
            }
            start.elapsed().as_nanos() as f64 / (2 * N) as f64
        }
    };
    let second = rt.spawn_on(1, "second", player(1));
    other.set(second.task()).expect("set once");
    let first = rt.spawn_on(0, "first", player(0));
    FIRST.set(first.task());
    ready.set();
    let nanos = first.join().expect("no panic");
    second.join().expect("no panic");
    stop.store(true, Ordering::Relaxed);
    spinners.into_iter().for_each(|s| s.join().expect("no panic"));
    nanos
}

/// The task of the player on the first loop.
struct First(std::sync::Mutex<Option<TaskRef>>);
static FIRST: First = First(std::sync::Mutex::new(None));

impl First {
    fn set(&self, task: TaskRef) {
        *self.0.lock().expect("no panic") = Some(task);
    }
    fn with_task(&self, f: impl FnOnce(TaskRef)) {
        let task = *self.0.lock().expect("no panic");
        if let Some(task) = task {
            f(task);
        }
    }
}

/// Starts a fiber on a sleeping loop from a thread and waits for it: a start and two wake-ups.
fn round_trip(rt: &Runtime) -> f64 {
    const N: u64 = 2_000;
    timed(N, || {
        for i in 0..N {
            black_box(rt.run("trip", || i));
        }
    })
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let filter = arguments.first().map_or("", String::as_str);
    let one = Runtime::builder().loops(1).build().expect("a loop starts");
    let two = Runtime::builder().loops(2).build().expect("two loops start");
    println!("{:<34} {:>10}      {:<26} {:>10}      ratio", "fibers", "", "yardstick", "");
    for fibers in [1, 2, 64, 1000, 10_000] {
        line(filter, &format!("yield, {fibers} fibers"), &|| yields(&one, fibers), None);
    }
    let threads: Round<'_> = &thread_spawn_join;
    line(filter, "spawn and join", &|| spawn_join(&one), Some(("std::thread", threads)));
    let threads: Round<'_> = &thread_hand_off;
    line(filter, "hand-off, one loop", &|| hand_off(&one), Some(("std park/unpark", threads)));
    line(
        filter,
        "hand-off, two loops awake",
        &|| across(&two, true),
        Some(("std park/unpark", threads)),
    );
    line(
        filter,
        "hand-off, two loops asleep",
        &|| across(&two, false),
        Some(("std park/unpark", threads)),
    );
    line(filter, "run from a thread", &|| round_trip(&one), Some(("std park/unpark", threads)));
    let stats = two.stats();
    println!("two loops: {} switches, {} kicks", stats.switches, stats.kicks);
}
