//! Two tasks open one directory at once, in a simulation: one gets the database, the other an
//! error, and a later open finds what the first one wrote.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{DIR, get, key, options};
use pumice::{Db, ErrorKind, MemFs, Options, WriteOptions};
use pumice_port::{sim, thread};

const SEEDS: u64 = 200;

/// Opens when the other lets it, puts a key with sync, and closes.
fn put_one(options: &Options, n: usize) {
    let db = loop {
        match Db::open(options, DIR) {
            Ok(db) => break db,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::IoError, "{error}");
                assert!(error.to_string().contains("lock"), "{error}");
                thread::sleep(Duration::from_millis(1));
            }
        }
    };
    let sync = WriteOptions { sync: true, ..WriteOptions::default() };
    db.put_opt(&sync, &key(n), b"kept").unwrap();
    db.close().unwrap();
}

// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn the_second_creator_finds_what_the_first_one_wrote() {
    for seed in 0..SEEDS {
        let (report, outcome) = sim::run(&sim::Options::new(seed), move || {
            let options = Arc::new(options(&MemFs::new(seed).shared()));
            thread::scope(|scope| {
                for n in 0..2 {
                    let options = Arc::clone(&options);
                    scope.spawn(move || put_one(&options, n));
                }
            });
            let db = Db::open(&options, DIR).unwrap();
            for n in 0..2 {
                assert_eq!(get(&db, &key(n)).as_deref(), Some(&b"kept"[..]), "key {n}");
            }
            db.close().unwrap();
        });
        let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
        assert!(outcome.is_ok(), "seed {seed}: {outcome:?}\n{stuck}");
    }
}

// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn error_if_exists_holds_against_a_creator_beside() {
    for seed in 0..SEEDS {
        let (report, outcome) = sim::run(&sim::Options::new(seed), move || {
            let mut fresh = options(&MemFs::new(seed).shared());
            fresh.db.error_if_exists = true;
            let fresh = Arc::new(fresh);
            let made: usize = thread::scope(|scope| {
                let creators: Vec<_> = (0..2)
                    .map(|_| {
                        let options = Arc::clone(&fresh);
                        scope.spawn(move || match Db::open(&options, DIR) {
                            Ok(db) => {
                                db.close().unwrap();
                                1
                            }
                            Err(_) => 0,
                        })
                    })
                    .collect();
                creators.into_iter().map(|creator| creator.join().unwrap()).sum()
            });
            assert_eq!(made, 1, "one of them made it");
        });
        let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
        assert!(outcome.is_ok(), "seed {seed}: {outcome:?}\n{stuck}");
    }
}
