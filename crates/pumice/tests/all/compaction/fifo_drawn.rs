//! Random operations with FIFO and `ttl` on a simulated clock, compared with a model of which keys
//! exist at each moment. Time passes in leaps, the options change, the database is closed for a
//! while.
//!
//! Plain #[test]: a simulation is a runtime of its own. Its clock is virtual.

use std::time::Duration;

use crate::common::{DIR, fill, flush, get, key, memory, options};
use pumice::options::{CompactionStyle, FifoOptions};
use pumice::{Db, Options};
use pumice_base::random::Rng;
use pumice_port::sim;
use pumice_port::thread::sleep;
use pumice_port::time::wall_seconds;
use pumice_testkit::seed;

const STEPS: u64 = 120;
/// How late the database may delete what is due, in seconds.
const SLACK: u64 = 5;
/// A file's bytes, roughly.
const FILE: usize = 10 * 10_000;

/// A file that was flushed: its keys, and when.
struct File {
    number: usize,
    at: u64,
}

struct Life {
    rng: Rng,
    options: Options,
    ttl: u64,
    most: u64,
    files: Vec<File>,
    next: usize,
    expired: usize,
    pushed_out: usize,
}

impl Life {
    fn draw_limits(&mut self) {
        self.ttl = [0, 100, 1000, 10_000][self.rng.uniform(4) as usize];
        self.most = [3, 8, 1000][self.rng.uniform(3) as usize];
    }

    /// Limit in bytes for a number of files: half a file more, since sizes are not exact.
    fn bytes(&self) -> u64 {
        self.most * FILE as u64 + FILE as u64 / 2
    }

    fn change(&mut self, db: &Db) {
        self.draw_limits();
        let fifo = format!("{{max_table_files_size={};allow_compaction=false}}", self.bytes());
        let ttl = self.ttl.to_string();
        let changes = [("ttl", ttl.as_str()), ("compaction_options_fifo", fifo.as_str())];
        db.set_options(&changes).unwrap();
    }

    fn write(&mut self, db: &Db) {
        let first = self.next * 10;
        fill(db, first..first + 10, &"v".repeat(FILE / 10));
        flush(db);
        self.files.push(File { number: self.next, at: wall_seconds() });
        self.next += 1;
    }

    /// Removes from the model what must be gone by now; then the database must equal the model,
    /// except for files that expire at this very moment.
    fn check(&mut self, db: &Db, step: u64) {
        sleep(Duration::from_secs(SLACK));
        let now = wall_seconds();
        let before = self.files.len();
        if self.ttl > 0 {
            let ttl = self.ttl;
            // The file is as old as its oldest entry, which is written at that second or before.
            self.files.retain(|file| file.at + ttl + SLACK >= now);
            self.expired += before - self.files.len();
        }
        let surplus = self.files.len().saturating_sub(self.most as usize);
        self.files.drain(..surplus);
        self.pushed_out += surplus;
        let ttl = self.ttl;
        let doubtful = |at: u64| ttl > 0 && at + ttl <= now + SLACK;
        for number in 0..self.next {
            let there = get(db, &key(number * 10)).is_some();
            let file = self.files.iter().find(|file| file.number == number);
            match file {
                Some(file) if doubtful(file.at) => {}
                _ => assert_eq!(there, file.is_some(), "step {step}: file {number} at {now}"),
            }
        }
        let doubt = self.files.iter().filter(|file| doubtful(file.at)).count();
        let found = db.live_files_metadata().len();
        assert!((self.files.len() - doubt..=self.files.len()).contains(&found), "step {step}");
        // What was in doubt is out of it.
        self.files.retain(|file| !doubtful(file.at) || get(db, &key(file.number * 10)).is_some());
    }
}

fn live(seed: u64) -> (usize, usize) {
    let (_, fs) = memory();
    let mut life = Life {
        rng: Rng::new(seed),
        options: options(&fs),
        ttl: 0,
        most: 0,
        files: Vec::new(),
        next: 0,
        expired: 0,
        pushed_out: 0,
    };
    life.draw_limits();
    life.options.cf.compaction_style = CompactionStyle::Fifo;
    life.options.cf.compression = pumice::CompressionType::None;
    let mut db = open(&mut life);
    for step in 0..STEPS {
        match life.rng.uniform(10) {
            0..5 => life.write(&db),
            5..8 => {
                let most = [20, 300, 4000][life.rng.uniform(3) as usize];
                sleep(Duration::from_secs(1 + life.rng.uniform(most)));
            }
            8 => life.change(&db),
            _ => {
                db.close().unwrap();
                drop(db);
                sleep(Duration::from_secs(life.rng.uniform(2000)));
                db = open(&mut life);
            }
        }
        life.check(&db, step);
    }
    db.close().unwrap();
    (life.expired, life.pushed_out)
}

fn open(life: &mut Life) -> Db {
    life.options.cf.ttl = life.ttl;
    life.options.cf.compaction_options_fifo =
        FifoOptions { max_table_files_size: life.bytes(), ..FifoOptions::default() };
    Db::open(&life.options, DIR).unwrap()
}

#[test]
fn files_go_by_age_and_by_size() {
    let seeds = seed::wanted().map_or(0..seed::share(20), |seed| seed..seed + 1);
    let (mut expired, mut pushed_out) = (0, 0);
    for seed in seeds {
        let counts = pumice_port::sync::Mutex::new((0, 0));
        let counts = std::sync::Arc::new(counts);
        let shared = std::sync::Arc::clone(&counts);
        let (report, outcome) = sim::run(&sim::Options::new(seed), move || {
            *shared.lock() = live(seed);
        });
        let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
        let hint = seed::replay_hint("files_go_by_age_and_by_size", seed);
        assert!(outcome.is_ok(), "{outcome:?}\n{stuck}\n{hint}");
        let (aged, surplus) = *counts.lock();
        expired += aged;
        pushed_out += surplus;
    }
    eprintln!("{expired} files too old, {pushed_out} too many");
    assert!(expired > 0 && pushed_out > 0);
}
