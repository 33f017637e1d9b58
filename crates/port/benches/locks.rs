//! What locks cost, ours against std's: uncontended on a thread, on a fiber and in a simulation,
//! and the throughput of several threads at one lock.
//!
//! `cargo bench -p pumice-port --bench locks [-- uncontended|contended|callgrind NAME]`. Each line
//! is the median over interleaved rounds, so that noise hits both sides alike. `callgrind NAME`
//! does one operation 100,000 times and nothing else, for counting instructions.
#![allow(missing_docs)]
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // std's locks are the yardstick.

use pumice_port::{fiber, sim, sync};
use std::hint::black_box;
use std::time::Instant;

/// One operation, done `n` times.
struct Case {
    name: &'static str,
    ours: fn(u64),
    std: fn(u64),
}

macro_rules! repeat {
    ($n:expr, $make:expr, |$lock:ident| $body:expr) => {{
        let made = $make;
        let $lock = black_box(&made);
        for _ in 0..$n {
            $body;
        }
    }};
}

const CASES: &[Case] = &[
    Case {
        name: "mutex",
        ours: |n| repeat!(n, sync::Mutex::new(0u64), |lock| *lock.lock() += 1),
        std: |n| repeat!(n, std::sync::Mutex::new(0u64), |lock| *lock.lock().expect("") += 1),
    },
    Case {
        name: "rwlock-read",
        ours: |n| repeat!(n, sync::RwLock::new(0u64), |lock| black_box(*lock.read())),
        std: |n| {
            repeat!(n, std::sync::RwLock::new(0u64), |lock| black_box(*lock.read().expect("")))
        },
    },
    Case {
        name: "rwlock-write",
        ours: |n| repeat!(n, sync::RwLock::new(0u64), |lock| *lock.write() += 1),
        std: |n| repeat!(n, std::sync::RwLock::new(0u64), |lock| *lock.write().expect("") += 1),
    },
    Case {
        name: "condvar-notify",
        ours: |n| repeat!(n, sync::Condvar::new(), |condvar| condvar.notify_one()),
        std: |n| repeat!(n, std::sync::Condvar::new(), |condvar| condvar.notify_one()),
    },
    // std has no semaphore: a mutex around a number and a condvar are what one would write.
    Case {
        name: "semaphore",
        ours: |n| {
            repeat!(n, sync::Semaphore::new(2), |semaphore| {
                semaphore.acquire(1);
                semaphore.release(1);
            });
        },
        std: |n| {
            repeat!(n, (std::sync::Mutex::new(2u64), std::sync::Condvar::new()), |semaphore| {
                *semaphore.0.lock().expect("") -= 1;
                *semaphore.0.lock().expect("") += 1;
            });
        },
    },
];

const BATCH: u64 = 200_000;
const ROUNDS: usize = 41;

/// Nanoseconds per operation.
fn time(work: fn(u64)) -> f64 {
    let start = Instant::now();
    work(BATCH);
    start.elapsed().as_nanos() as f64 / BATCH as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Medians of ours and std's, and of the ratio within each round.
fn interleave(
    mut ours: impl FnMut() -> f64,
    mut std: impl FnMut() -> f64,
    rounds: usize,
) -> [f64; 3] {
    let (mut a, mut b, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let (x, y);
        if round % 2 == 0 {
            x = ours();
            y = std();
        } else {
            y = std();
            x = ours();
        }
        a.push(x);
        b.push(y);
        ratios.push(x / y);
    }
    [median(a), median(b), median(ratios)]
}

fn uncontended(place: &str) {
    for case in CASES {
        time(case.ours);
        time(case.std);
        let [ours, std, ratio] = interleave(|| time(case.ours), || time(case.std), ROUNDS);
        println!(
            "uncontended {place:<10} {:<15} {ours:8.2} ns  std {std:8.2} ns  ratio {ratio:.3}",
            case.name
        );
    }
}

/// A piece of work of about `n` nanoseconds.
fn spend(n: u64) {
    for i in 0..n {
        black_box(i);
    }
}

/// Operations per microsecond of `threads` threads that each do `work` `n` times.
fn throughput(threads: u64, work: &(dyn Fn(u64) + Sync)) -> f64 {
    const TOTAL: u64 = 800_000;
    let each = TOTAL / threads;
    let start = Instant::now();
    std::thread::scope(|scope| {
        for number in 0..threads {
            scope.spawn(move || (0..each).for_each(|i| work(number.wrapping_mul(31) + i)));
        }
    });
    TOTAL as f64 / start.elapsed().as_micros() as f64
}

fn contended() {
    for threads in [2, 8] {
        for outside in [0, 100] {
            let ours = sync::Mutex::new(0u64);
            let std = std::sync::Mutex::new(0u64);
            let mine = |_: u64| {
                *ours.lock() += 1;
                spend(outside);
            };
            let theirs = |_: u64| {
                *std.lock().expect("") += 1;
                spend(outside);
            };
            report("mutex", threads, outside, &mine, &theirs);
        }
        let ours = sync::RwLock::new(0u64);
        let std = std::sync::RwLock::new(0u64);
        let mine = |i: u64| {
            if i.is_multiple_of(10) {
                *ours.write() += 1;
            } else {
                black_box(*ours.read());
            }
            spend(50);
        };
        let theirs = |i: u64| {
            if i.is_multiple_of(10) {
                *std.write().expect("") += 1;
            } else {
                black_box(*std.read().expect(""));
            }
            spend(50);
        };
        report("rwlock 10% write", threads, 50, &mine, &theirs);
    }
}

fn report(
    name: &str,
    threads: u64,
    outside: u64,
    ours: &(dyn Fn(u64) + Sync),
    std: &(dyn Fn(u64) + Sync),
) {
    let [a, b, ratio] = interleave(|| throughput(threads, ours), || throughput(threads, std), 25);
    println!(
        "contended {threads} threads, {outside:3} outside  {name:<17} {a:8.2} op/us  std {b:8.2} \
         op/us  ratio {ratio:.3}"
    );
}

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let what = args.next().unwrap_or_default();
    if what == "callgrind" {
        let name = args.next().unwrap_or_default();
        let (kind, side) = name.rsplit_once('/').unwrap_or((&name, "ours"));
        let case = CASES.iter().find(|case| case.name == kind).expect("a case, as mutex/ours");
        (if side == "std" { case.std } else { case.ours })(100_000);
        return;
    }
    if what != "contended" {
        uncontended("thread");
        let runtime = fiber::Runtime::builder().loops(1).build().expect("a runtime");
        runtime.run("bench", || uncontended("fiber"));
        drop(runtime);
        // Every operation passes points here, each of which calls into the simulation.
        let options =
            sim::Options { max_steps: u64::MAX, preempt_per_mille: 0, ..sim::Options::new(1) };
        let (_, result) = sim::run(&options, || uncontended("simulation"));
        assert!(result.is_ok(), "the simulation failed");
    }
    if what != "uncontended" {
        contended();
    }
}
