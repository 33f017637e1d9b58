//! Random operations on a `DbWithTtl` with a simulated clock, compared with a model: a value that
//! is young enough is there, an expired one is dropped by a compaction, and no older version
//! appears in its place. Time passes in leaps, times to live change, the database is closed for a
//! while. Plain #[test]: a simulation is a runtime of its own. Its clock is virtual.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{DIR, memory, options};
use pumice::{CompactRangeOptions, Comparator, DbWithTtl, Options};
use pumice_base::random::Rng;
use pumice_port::sim;
use pumice_port::sync::Mutex;
use pumice_port::thread::sleep;
use pumice_port::time::wall_seconds;
use pumice_testkit::seed;

const STEPS: u64 = 150;
const KEYS: u64 = 25;
/// The clock may advance by this much while a call runs.
const SLACK: u64 = 2;

/// The newest version of a key.
struct Newest {
    value: String,
    at: u64,
    /// The value was too old at some moment: a compaction may have dropped it.
    doomed: bool,
}

struct Life {
    rng: Rng,
    options: Options,
    ttl: i32,
    model: BTreeMap<String, Newest>,
    gone: usize,
    kept: usize,
}

impl Life {
    fn key(&mut self) -> String {
        format!("key{:02}", self.rng.uniform(KEYS))
    }

    fn draw_ttl(&mut self) {
        self.ttl = [0, 50, 500, 5000][self.rng.uniform(4) as usize];
    }

    fn is_old(&self, at: u64, now: u64) -> bool {
        self.ttl > 0 && at + (self.ttl as u64) < now
    }

    /// Notes what a compaction may drop from now on.
    fn note_old(&mut self) {
        let now = wall_seconds() + SLACK;
        let mut model = std::mem::take(&mut self.model);
        for newest in model.values_mut() {
            newest.doomed |= self.is_old(newest.at, now);
        }
        self.model = model;
    }

    /// Compacts everything, which drops what had expired before.
    fn compact_all(&mut self, db: &DbWithTtl) {
        let now = wall_seconds();
        db.db().compact_range(&CompactRangeOptions::default(), None, None).unwrap();
        for (key, newest) in &self.model {
            if self.is_old(newest.at, now) {
                assert!(db.get(key).unwrap().is_none(), "{key} is too old and still there");
            }
        }
    }

    fn step(&mut self, mut db: DbWithTtl, step: u64) -> DbWithTtl {
        let key = self.key();
        match self.rng.uniform(20) {
            0..8 => {
                let value = format!("value {step}");
                db.put(&key, &value).unwrap();
                self.model.insert(key, Newest { value, at: wall_seconds(), doomed: false });
            }
            8 => {
                db.db().delete(&key).unwrap();
                self.model.remove(&key);
            }
            9..13 => db.db().flush().unwrap(),
            13 => self.compact_all(&db),
            14 => {
                let end = self.key();
                let options = CompactRangeOptions::default();
                let range = (Some(key.as_bytes()), Some(end.as_bytes()));
                db.db().compact_range(&options, range.0, range.1).unwrap();
            }
            15..18 => {
                let most = [10, 100, 3000][self.rng.uniform(3) as usize];
                sleep(Duration::from_secs(self.rng.uniform(most)));
            }
            18 => {
                self.draw_ttl();
                db.set_ttl(db.db().default_column_family(), self.ttl).unwrap();
            }
            _ => {
                db.db().close().unwrap();
                drop(db);
                sleep(Duration::from_secs(self.rng.uniform(1000)));
                self.draw_ttl();
                db = DbWithTtl::open(&self.options, DIR, self.ttl).unwrap();
            }
        }
        self.note_old();
        db
    }

    /// Each key has its newest version, or none if that was too old at some moment.
    fn check(&mut self, db: &DbWithTtl, step: u64) {
        let default = db.db().default_column_family();
        let all = db.iter_cf_opt(&Default::default(), default).unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let all: BTreeMap<String, String> =
            all.map(|entry| entry.map(|(k, v)| (text(k), text(v))).unwrap()).collect();
        for n in 0..KEYS {
            let key = format!("key{n:02}");
            let got = db.get(&key).unwrap().map(|value| text(value.to_vec()));
            let newest = self.model.get(&key);
            let place = || format!("step {step}: {key}");
            match &got {
                Some(value) => {
                    assert_eq!(Some(value), newest.map(|newest| &newest.value), "{}", place());
                    self.kept += 1;
                }
                None => assert!(newest.is_none_or(|newest| newest.doomed), "{}", place()),
            }
            // A compaction may drop expired values between the scan and the read.
            let went = newest.filter(|newest| got.is_none() && newest.doomed);
            let scanned = all.get(&key).filter(|&value| went.is_none_or(|n| n.value != *value));
            assert_eq!(scanned, got.as_ref(), "{}", place());
            if got.is_none() && self.model.remove(&key).is_some() {
                self.gone += 1; // For good.
            }
        }
    }
}

fn live(seed: u64) -> (usize, usize) {
    let (_, fs) = memory();
    let mut rng = Rng::new(seed);
    let mut options = options(&fs);
    // Tables of several blocks, in one of two orders.
    options.cf.comparator =
        [Comparator::Bytewise, Comparator::ReverseBytewise][rng.uniform(2) as usize].clone();
    options.cf.table_factory.set("block_size", "64").unwrap();
    let mut life = Life { rng, options, ttl: 0, model: BTreeMap::new(), gone: 0, kept: 0 };
    life.draw_ttl();
    let mut db = DbWithTtl::open(&life.options, DIR, life.ttl).unwrap();
    for step in 0..STEPS {
        db = life.step(db, step);
        life.check(&db, step);
    }
    db.db().close().unwrap();
    (life.gone, life.kept)
}

#[test]
fn old_values_go_and_nothing_older_shows() {
    let seeds = seed::wanted().map_or(0..seed::share(30), |seed| seed..seed + 1);
    let (mut gone, mut kept) = (0, 0);
    for seed in seeds {
        let counts = Arc::new(Mutex::new((0, 0)));
        let shared = Arc::clone(&counts);
        let (report, outcome) = sim::run(&sim::Options::new(seed), move || {
            *shared.lock() = live(seed);
        });
        let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
        let hint = seed::replay_hint("old_values_go_and_nothing_older_shows", seed);
        assert!(outcome.is_ok(), "{outcome:?}\n{stuck}\n{hint}");
        let counts = *counts.lock();
        gone += counts.0;
        kept += counts.1;
    }
    eprintln!("{gone} values too old, {kept} found");
    assert!(gone > 0 && kept > 0);
}
