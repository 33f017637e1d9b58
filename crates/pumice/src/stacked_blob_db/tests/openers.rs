//! Two tasks that open one directory again and again, in a simulation: as a standby does that waits
//! until the one before it is gone. What either has put stays.
//!
//! One disk, one open at a time.

use std::sync::Arc;
use std::time::Duration;

use super::{Bench, SYNC};
use pumice_port::{sim, thread};

const SEEDS: u64 = 100;
const OPENS: u8 = 3;

/// Opens when the other lets it, puts a key, and closes.
fn put_one(bench: &Bench, key: [u8; 2]) {
    let db = loop {
        match bench.open() {
            Ok(db) => break db,
            Err(error) => {
                assert!(error.to_string().contains("lock"), "{error}");
                thread::sleep(Duration::from_millis(1));
            }
        }
    };
    db.put_opt(&SYNC, key, "kept").unwrap();
    db.close().unwrap();
}

// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn an_open_finds_the_blobs_of_the_one_before() {
    for seed in 0..SEEDS {
        let (report, outcome) = sim::run(&sim::Options::new(seed), move || {
            let bench = Arc::new(Bench::new(seed));
            thread::scope(|scope| {
                for opener in 0..2 {
                    let bench = Arc::clone(&bench);
                    scope.spawn(move || (0..OPENS).for_each(|n| put_one(&bench, [opener, n])));
                }
            });
            let db = bench.open().unwrap();
            for key in (0..2).flat_map(|opener| (0..OPENS).map(move |n| [opener, n])) {
                let found = db.get(key).unwrap();
                assert_eq!(found.as_deref(), Some(&b"kept"[..]), "key {key:?}");
            }
            db.close().unwrap();
        });
        let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
        assert!(outcome.is_ok(), "seed {seed}: {outcome:?}\n{stuck}");
    }
}
