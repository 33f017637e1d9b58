//! A queue of keys: each round puts one at the back, seeks the first and deletes it.
//!
//! `cargo bench -p pumice-tests --bench queue -- DIRECTORY ROUNDS [rocksdb]` prints the mean time
//! of a round at growing numbers of rounds, with the database closed and opened between, for this
//! engine or for RocksDB's library. Keys have 8 bytes and values 50; the queue holds 100.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use std::path::Path;

use pumice_port::time::now_micros;
use pumice_testkit::store::{CursorSpec, Step};
use pumice_testkit::{Engine, Op};
use pumice_tests::stores::Settings;
use pumice_tests::stores::pumice::Pumice;
use pumice_tests::stores::rocksdb::{self, RocksDb};

/// Keys in the queue.
const LEN: u64 = 100;

fn open(path: &Path, in_rocksdb: bool) -> Box<dyn Engine> {
    let settings = Settings::of("create_if_missing=true", "");
    match in_rocksdb {
        true => Box::new(RocksDb::open(&rocksdb::load().unwrap(), path, &settings).unwrap()),
        false => Box::new(Pumice::open(path, &settings).unwrap()),
    }
}

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| !arg.starts_with("--"));
    let Some(dir) = args.next() else { return println!("queue: no directory is named") };
    let rounds: u64 = args.next().map_or(10_000, |text| text.parse().unwrap());
    let rocksdb = args.next().is_some();
    let dir = Path::new(&dir);
    let mut engine = open(dir, rocksdb);
    (0..LEN).for_each(|n| engine.put(&n.to_be_bytes(), &[7; 50]).unwrap());
    let (mut done, mut until) = (0, 1000);
    while done < rounds {
        let (started, first) = (now_micros(), done);
        while done < until.min(rounds) {
            engine.put(&(done + LEN).to_be_bytes(), &[7; 50]).unwrap();
            let (front, _) = engine.walk(&CursorSpec::default(), &[Step::First]).unwrap().unwrap();
            assert_eq!(front, done.to_be_bytes());
            engine.write(&[Op::Delete { cf: 0, key: front }]).unwrap();
            done += 1;
        }
        let micros = (now_micros() - started) as f64 / (done - first) as f64;
        println!("rounds {first} to {done}: {micros:.2} us each");
        until *= 2;
        drop(engine);
        engine = open(dir, rocksdb);
    }
}
