//! Every public operation at the same time as every other.
//!
//! For each pair one operation is held up at one of its I/O operations, for long, and the
//! other begins then. Afterwards all there is must be what the two promised: no value is older than
//! an acknowledged one, no error without a reason (`operations::excused`), the database takes
//! writes, everything ends, and the next opening finds the same. Each run is a simulation: time is
//! virtual, and the schedule and the place of the hold-up follow from a seed.
//!
//! The suite prints how often each pair really overlapped, and fails for a pair that never did.
//! `PUMICE_PAIRS_SEEDS=N` (1) runs each pair N times, one or the other held up; with
//! `PUMICE_PAIRS=flush,ingest` only pairs of which both are named; `PUMICE_PLANTED=Bug`, built with
//! `--cfg pumice_planted`, with a planted bug, which has to make it fail.
//!
//! Plain #[test]: a simulation is a runtime of its own.

mod operations;
mod stage;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use operations::{OPERATIONS, Operation};
use pumice::MemFs;
use pumice_base::random::Rng;
use pumice_env::mem::{Fault, FaultRule};
use pumice_port::sync::Mutex;
use pumice_port::{sim, thread, time};
use pumice_testkit::seed;
use stage::Stage;

const SECOND: u64 = 1_000_000_000;
/// How long one operation is held up: longer than any other takes alone.
const HOLD_UP: u64 = SECOND / 2;
/// A whole run takes less, unless something hangs.
const RUN_MAX: u64 = 300 * SECOND;
/// Runs of a pair of which one moves files, and of an operation with itself: their conflicts last
/// only for a moment.
const OFTEN: u64 = 8;
/// Runs of a pair at most until it overlaps.
const TRIES: u64 = 20;

/// When an operation began and ended, virtual nanoseconds.
type Span = (u64, u64);

/// The result of one run.
struct Outcome {
    /// The second began while the first was under way.
    overlapped: bool,
    /// I/O operations of the first, when it ran alone.
    operations: u64,
}

/// Runs one operation of the two tasks and notes when.
fn perform(stage: &Arc<Stage>, operation: &'static Operation, who: usize) -> Span {
    let begun = time::now_nanos();
    let done = (operation.run)(stage, who);
    let span = (begun, time::now_nanos());
    stage.note(who, operation, done);
    stage.probe(who);
    span
}

/// Lets `second` begin while `first` is held up at its I/O operation `at`; None: not held up.
fn run(first: &'static Operation, second: &'static Operation, at: Option<u64>) -> Outcome {
    let fs = MemFs::new(sim::random());
    let stage = Arc::new(Stage::set(&fs));
    let (skip, count, nanos) = match at {
        Some(at) => (at, 1, HOLD_UP),
        None => (0, u64::MAX, 1),
    };
    let fault = Fault::Stall(nanos);
    fs.add_fault(FaultRule { op: None, path_glob: "*".into(), skip, count, fault });
    let ended: Arc<Mutex<Option<Span>>> = Arc::default();
    let task = {
        let (stage, ended) = (Arc::clone(&stage), Arc::clone(&ended));
        thread::spawn("first", move || {
            let span = perform(&stage, first, 0);
            *ended.lock() = Some(span);
        })
    };
    if at.is_none() {
        task.join().unwrap();
        let operations = fs.fault_log().len() as u64;
        stage.forget(1);
        stage.judge(&fs, [first, first]);
        return Outcome { overlapped: false, operations };
    }
    while fs.fault_log().is_empty() && ended.lock().is_none() {
        thread::sleep(Duration::from_micros(5));
    }
    let other = {
        let stage = Arc::clone(&stage);
        thread::spawn("second", move || perform(&stage, second, 1))
    };
    task.join().unwrap();
    let second_span = other.join().unwrap();
    let first_span = ended.lock().unwrap();
    fs.clear_faults();
    stage.judge(&fs, [first, second]);
    let overlapped = second_span.0 > first_span.0 && second_span.0 < first_span.1;
    Outcome { overlapped, operations: 0 }
}

fn simulate(
    seed: u64,
    first: &'static Operation,
    second: &'static Operation,
    at: Option<u64>,
) -> Outcome {
    let options = sim::Options {
        preempt_per_mille: [0, 20, 100][(seed % 3) as usize],
        max_virtual_nanos: RUN_MAX,
        ..sim::Options::new(seed)
    };
    let (report, outcome) = sim::run(&options, || run(first, second, at));
    let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
    match outcome {
        Ok(outcome) if stuck.is_empty() => outcome,
        failed => panic!(
            "{} held up at {at:?}, {} beside it, seed {seed}: {:?}\n{stuck}",
            first.name,
            second.name,
            failed.err()
        ),
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|n| n.parse().unwrap())
}

#[test]
fn every_operation_beside_every_other() {
    #[cfg(pumice_planted)]
    pumice_base::planted::activate(
        std::env::var("PUMICE_PLANTED")
            .ok()
            .and_then(|name| pumice_base::planted::Bug::by_name(&name)),
    );
    let only = std::env::var("PUMICE_PAIRS").ok();
    let wanted = |operation: &&Operation| {
        only.as_ref().is_none_or(|names| names.split(',').any(|name| name == operation.name))
    };
    let operations: Vec<&'static Operation> = OPERATIONS.iter().filter(wanted).collect();
    let seeds = number("PUMICE_PAIRS_SEEDS").unwrap_or(1);
    let mut lengths = BTreeMap::new();
    for operation in &operations {
        let alone = simulate(0, operation, operation, None);
        lengths.insert(operation.name, alone.operations.max(1));
    }
    // By unordered pair: either may be the one that is held up.
    let mut overlaps: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    let mut runs = 0u64;
    for (b, one) in operations.iter().enumerate() {
        for (a, other) in operations[..=b].iter().enumerate() {
            // Further passes run a share of the pairs: a simulation is the same in each.
            if !(a as u64 + b as u64).is_multiple_of(seed::one_in()) {
                continue;
            }
            let mut rng = Rng::new((a * OPERATIONS.len() + b) as u64);
            let overlapped = overlaps.entry((a, b)).or_default();
            let moves = one.name == "change_level" || other.name == "change_level";
            let seeds = if moves || a == b { seeds.max(OFTEN) } else { seeds };
            for attempt in 0..TRIES.max(seeds) {
                let seed = rng.next_u64() >> 16;
                let (first, second) =
                    if (seed ^ attempt) & 1 == 0 { (one, other) } else { (other, one) };
                let at = Rng::new(seed).uniform(lengths[first.name]);
                *overlapped += u64::from(simulate(seed, first, second, Some(at)).overlapped);
                runs += 1;
                if *overlapped > 0 && attempt + 1 >= seeds {
                    break;
                }
            }
        }
    }
    let mut never = Vec::new();
    for (b, second) in operations.iter().enumerate() {
        let row: Vec<String> = operations[..=b]
            .iter()
            .enumerate()
            .filter_map(|(a, first)| {
                let times = *overlaps.get(&(a, b))?;
                if times == 0 {
                    never.push(format!("{} and {}", first.name, second.name));
                }
                Some(format!("{} {times}", first.name))
            })
            .collect();
        println!("{} beside {}", second.name, row.join(", "));
    }
    println!("{runs} runs of {} pairs", overlaps.len());
    assert!(never.is_empty(), "never overlapped: {}", never.join("; "));
}
