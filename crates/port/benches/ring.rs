//! What the ring of blocks and the helper pool cost.
//!
//! `cargo bench -p pumice-port --bench ring [-- handoff|wake|build|callgrind NAME]`
//!
//! * `handoff`: the ring without work: ns per block of an emitter alone, of an emitter and a helper
//!   taking turns on one thread (every block changes hands twice), and of two threads.
//! * `wake`: ns that a call costs the caller, when no helper can come and when one sleeps; and ns
//!   until that helper is inside the job.
//! * `build`: blocks of work (spinning) through a plain loop, a ring without helpers and one with
//!   some: time, CPU time, speed-up, and how often a thread slept. Medians of interleaved rounds.
//! * `callgrind NAME`: 100,000 blocks and nothing else, for counting instructions; `alone` or
//!   `turns`, and `none` for what the program needs anyway.
//!
//! Each part checks a sum of what it did, so a part that does nothing fails.
#![allow(missing_docs)]
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // The clock of the machine.

use pumice_port::helpers::{self, Assist, HelperPool, Urgency};
use pumice_port::ring::{Ring, RingStats, Task};
use pumice_port::{thread, time};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

const BLOCKS: u64 = 100_000;
const ROUNDS: usize = 15;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Work of about `n` steps of a dependent multiply chain, which the compiler cannot shorten.
fn spend(n: u64) -> u64 {
    (0..n).fold(1u64, |x, i| black_box(x.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ i))
}

/// Steps of [`spend`] in a microsecond.
fn steps_per_micro() -> f64 {
    let runs = (0..9).map(|_| {
        let start = Instant::now();
        black_box(spend(1_000_000));
        1e6 / start.elapsed().as_nanos() as f64 * 1e3
    });
    median(runs.collect())
}

/// An empty table: a block costs what `spend` takes.
struct Build {
    ring: Ring,
    written: AtomicU64,
    compress: u64,
    write: u64,
    most: usize,
}

impl Build {
    fn new(slots: usize, compress: u64, write: u64, most: usize) -> Arc<Build> {
        let written = AtomicU64::new(0);
        Arc::new(Build { ring: Ring::new(slots), written, compress, write, most })
    }
    fn write(&self) {
        spend(self.write);
        // One thread at a time.
        self.written.store(self.written.load(Relaxed) + 1, Relaxed);
    }
    fn work(&self, task: Task) {
        match task {
            Task::Emit(_) => unreachable!("the emitter's own"),
            Task::Write(_) => self.write(),
            Task::Compress(_) => drop(black_box(spend(self.compress))),
            Task::CompressAndWrite(_) => {
                black_box(spend(self.compress));
                self.write();
            }
        }
    }
    /// The emitter: `emit` steps for each block.
    fn emit(&self, blocks: u64, emit: u64, call: impl Fn()) {
        let mut task = self.ring.start();
        let mut done = 0;
        loop {
            if let Task::Emit(_) = task {
                spend(emit);
                done += 1;
                if done == blocks {
                    break;
                }
            } else {
                self.work(task);
            }
            task = self.ring.emitted(task).expect("nobody aborts");
            if self.ring.wants_helper() {
                call();
            }
        }
        let mut last = Some(task);
        while let Some(task) = self.ring.drain(last) {
            self.work(task);
            last = Some(task);
        }
        assert_eq!(self.written.load(Relaxed), blocks, "blocks are lost");
    }
}

impl Assist for Build {
    fn assist(&self) {
        self.ring.help(self.most, helpers::should_leave, |task| self.work(task));
    }
}

/// The emitter does every step.
fn alone(blocks: u64) {
    Build::new(16, 0, 0, 0).emit(blocks, 0, || {});
}

/// One thread plays emitter and helper in turn, so the helper takes every block.
fn turns(blocks: u64) {
    let ring = Ring::new(16);
    let mut task = ring.start();
    let mut written = 0;
    for _ in 0..blocks {
        task = ring.emitted(task).expect("nobody aborts");
        black_box(ring.wants_helper());
        let mut given = ring.attach(1);
        while let Some(step) = given {
            written += u64::from(matches!(step, Task::CompressAndWrite(_) | Task::Write(_)));
            given = ring.next(step);
        }
    }
    assert_eq!(written, blocks);
    assert_eq!(ring.stats().helper_compressed, blocks);
}

/// An emitter and a helper on two threads, neither with any work.
fn two_threads(blocks: u64) -> RingStats {
    let build = Build::new(16, 0, 0, 1);
    let helper = Arc::clone(&build);
    let helper = std::thread::spawn(move || {
        while helper.written.load(Relaxed) < blocks {
            helper.assist();
        }
    });
    build.emit(blocks, 0, || {});
    helper.join().expect("the helper ends");
    build.ring.stats()
}

fn handoff() {
    let time = |work: fn(u64)| {
        let start = Instant::now();
        work(BLOCKS);
        start.elapsed().as_nanos() as f64 / BLOCKS as f64
    };
    let mut runs = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        runs[0].push(time(alone));
        runs[1].push(time(turns));
        runs[2].push(time(|blocks| assert_eq!(two_threads(blocks).emitted, blocks)));
    }
    let [alone, turns, threads] = runs.map(median);
    println!("handoff alone        {alone:8.1} ns per block (emit, compress and write)");
    println!("handoff turns        {turns:8.1} ns per block (emit, attach, write and leave)");
    println!("handoff two threads  {threads:8.1} ns per block (no work: the worst contention)");
}

/// Says when it was entered.
struct Entered(AtomicU64);

impl Assist for Entered {
    fn assist(&self) {
        self.0.store(time::now_nanos(), Relaxed);
    }
}

fn wake() {
    let none = HelperPool::new(0);
    let job = Arc::new(Entered(AtomicU64::new(0)));
    let offer = none.offer(Urgency::Low, 1, Arc::clone(&job) as Arc<dyn Assist>);
    let start = Instant::now();
    (0..BLOCKS).for_each(|_| black_box(&offer).call());
    let nobody = start.elapsed().as_nanos() as f64 / BLOCKS as f64;
    println!("wake  nobody can come {nobody:8.1} ns per call");
    let pool = HelperPool::new(1);
    let offer = pool.offer(Urgency::Low, 1, Arc::clone(&job) as Arc<dyn Assist>);
    let (mut caller, mut latency) = (Vec::new(), Vec::new());
    for round in 0..400 {
        job.0.store(0, Relaxed);
        thread::sleep(std::time::Duration::from_micros(200));
        let start = time::now_nanos();
        offer.call();
        let called = time::now_nanos();
        while job.0.load(Relaxed) == 0 {
            std::hint::spin_loop();
        }
        // The first call starts the thread.
        if round > 0 {
            caller.push((called - start) as f64);
            latency.push((job.0.load(Relaxed) - start) as f64);
        }
    }
    assert!(pool.stats().woken >= 350 && pool.stats().started == 1, "{:?}", pool.stats());
    let (caller, latency) = (median(caller), median(latency));
    println!("wake  a helper sleeps {caller:8.1} ns per call, {latency:8.1} ns until it is inside");
}

/// Microseconds of emitting, compressing and writing a block.
#[derive(Clone, Copy)]
struct Costs(f64, f64, f64);

/// Elapsed and CPU microseconds per block, and what the ring counted.
fn run(costs: Costs, steps: f64, blocks: u64, way: Option<(usize, usize)>) -> [f64; 6] {
    let of = |micros: f64| (micros * steps) as u64;
    let (emit, compress, write) = (of(costs.0), of(costs.1), of(costs.2));
    let (slots, helpers) = way.unwrap_or((2, 0));
    let pool = HelperPool::new(helpers);
    let build = Build::new(slots, compress, write, helpers);
    let offer = pool.offer(Urgency::Low, helpers, Arc::clone(&build) as Arc<dyn Assist>);
    let (start, cpu) = (Instant::now(), time::process_cpu_micros());
    if way.is_some() {
        build.emit(blocks, emit, || offer.call());
    } else {
        for _ in 0..blocks {
            spend(emit);
            build.work(Task::CompressAndWrite(0));
        }
    }
    let elapsed = start.elapsed().as_nanos() as f64 / 1e3;
    let cpu = (time::process_cpu_micros() - cpu) as f64;
    let stats = build.ring.stats();
    let each = |n: u64| n as f64 * 100.0 / blocks as f64;
    let n = blocks as f64;
    [
        elapsed / n,
        cpu / n,
        each(stats.helper_compressed),
        each(stats.visits),
        each(stats.waits),
        stats.idle_nanos as f64 / 1e3 / n,
    ]
}

fn build() {
    let steps = steps_per_micro();
    println!(
        "build emit+compress+write us   way        us/block  cpu us  speed-up  cpu +%  by helpers \
         %  visits/100  waits/100  waiting us"
    );
    let cases = [
        Costs(4.0, 12.0, 1.0),
        Costs(4.0, 40.0, 1.0),
        Costs(12.0, 12.0, 1.0),
        Costs(12.0, 4.0, 1.0),
        Costs(4.0, 4.0, 12.0),
    ];
    let ways = [(4, 0), (4, 1), (8, 1), (16, 0), (16, 1), (16, 2), (32, 1)];
    for costs in cases {
        let blocks = (200_000.0 / (costs.0 + costs.1 + costs.2)) as u64;
        let mut runs = vec![vec![Vec::new(); 6]; ways.len() + 1];
        for _ in 0..ROUNDS {
            for (number, way) in std::iter::once(None).chain(ways.map(Some)).enumerate() {
                let figures = run(costs, steps, blocks, way);
                figures.iter().enumerate().for_each(|(i, figure)| runs[number][i].push(*figure));
            }
        }
        let figures: Vec<Vec<f64>> =
            runs.into_iter().map(|run| run.into_iter().map(median).collect()).collect();
        for (number, f) in figures.iter().enumerate() {
            let way = match number {
                0 => "loop".to_string(),
                n => format!("{}x{}", ways[n - 1].0, ways[n - 1].1),
            };
            let (fast, more) = (figures[0][0] / f[0], (f[1] / figures[0][1] - 1.0) * 100.0);
            println!(
                "build {:5.0} {:5.0} {:5.0}            {way:<8} {:10.2} {:7.2} {fast:9.2} \
                 {more:7.1} {:13.1} {:11.2} {:10.2} {:11.2}",
                costs.0, costs.1, costs.2, f[0], f[1], f[2], f[3], f[4], f[5]
            );
        }
    }
}

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let what = args.next().unwrap_or_default();
    if what == "callgrind" {
        match args.next().as_deref() {
            Some("alone") => alone(BLOCKS),
            Some("turns") => turns(BLOCKS),
            _ => {}
        }
        return;
    }
    if what.is_empty() || what == "handoff" {
        handoff();
    }
    if what.is_empty() || what == "wake" {
        wake();
    }
    if what.is_empty() || what == "build" {
        build();
    }
}
