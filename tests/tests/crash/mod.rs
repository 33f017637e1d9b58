//! Crashes at random instants of random work, judged by the testkit's oracle.
//!
//! One seed is one life of a database on the in-memory file system: it is opened, written to,
//! flushed, compacted, closed and opened again, and crashes several times: after a random number
//! of changes to files and names, in the middle of whatever runs then, recovery included. After
//! each crash the file system shows one of the states that the failure model allows, and the
//! recovered database must hold a state that the write options allow, read forward, backward and
//! key by key.
//!
//! The choices follow from the seed; the interleaving with background threads does not, so a
//! failing seed may need several tries. The suite runs in a child process: a hang fails it.

mod life;
mod writers;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use pumice_port::thread::scope;
use pumice_testkit::seed;

use crate::child;
use crate::stores::temp_folder;
use life::Tally;

const SEEDS: u64 = 10_000;
const THREADS: u64 = 2;
/// One seed in this many has several writers and one crash.
const WRITERS_EVERY: u64 = 8;
const FAILURES_SHOWN: usize = 5;

#[pumice_test_macros::test]
fn ten_thousand_lives_keep_the_promises() {
    let folder = temp_folder();
    child::run("crash", folder.path(), "").unwrap();
    let report = std::fs::read_to_string(folder.path().join("report")).unwrap();
    println!("{report}");
}

/// The child job.
pub fn run(folder: &Path, _argument: &str) -> Result<(), String> {
    let seeds = seed::range(SEEDS);
    let (next, total) = (AtomicU64::new(seeds.start), Mutex::new(Tally::default()));
    let failures = Mutex::new(Vec::new());
    scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || failures.lock().unwrap().len() >= FAILURES_SHOWN {
                        return;
                    }
                    match live(seed) {
                        Ok(tally) => total.lock().unwrap().add(&tally),
                        Err(error) => failures.lock().unwrap().push(error),
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    if !failures.is_empty() {
        return Err(failures.join("\n\n"));
    }
    let total = total.into_inner().unwrap();
    let (alone, lives) = (seed::wanted().is_some(), seed::share(SEEDS));
    if !alone && (total.crashes < lives * 2 || total.in_recovery < lives / 10) {
        return Err(format!("too little happened: {total:?}"));
    }
    let line = format!("CRASH seeds={} {total:?} lost=0 torn=0", seeds.end - seeds.start);
    std::fs::write(folder.join("report"), line).map_err(|e| e.to_string())
}

/// One seed; a panic of the engine is a failure like others.
fn live(seed: u64) -> Result<Tally, String> {
    let hint = || seed::replay_hint("crash", seed);
    let run = if seed.is_multiple_of(WRITERS_EVERY) { writers::run } else { life::run };
    match std::panic::catch_unwind(|| run(seed)) {
        Ok(Ok(tally)) => Ok(tally),
        Ok(Err(error)) => Err(format!("seed {seed}: {error}\n{}", hint())),
        Err(_) => Err(format!("seed {seed}: panicked (see above)\n{}", hint())),
    }
}
