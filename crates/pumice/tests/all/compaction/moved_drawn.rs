//! Files of level 0 that move down as they are, files that are deleted by name, compactions that
//! are aborted and resumed, and batches that are logged up to a point, drawn by seed beside writes,
//! flushes, compactions and closes.
//!
//! No key is written twice, so each entry is in one file alone: a move changes nothing, and a
//! deleted file takes along what is in its range, at most its entries. Snapshots see the same.
//!
//! Plain #[test]: a simulation is a runtime of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::common::{self, DIR, flush, key, let_files_go};
use pumice::{CompactRangeOptions, Db, ErrorKind, MemFs, Options, ReadOptions, Snapshot, SubCode};
use pumice_base::random::Rng;
use pumice_port::sync::Mutex;
use pumice_port::{sim, thread};
use pumice_testkit::seed;

const SEEDS: u64 = 60;
const STEPS: u64 = 100;
/// Keys of a life in which they are not written in order.
const KEYS: usize = 2000;

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// What happened, so that a run in which nothing did is noticed.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    promoted: u64,
    refused: u64,
    deleted: u64,
    kept: u64,
    aborted: u64,
    forgotten: u64,
    seen: u64,
}

struct Life {
    rng: Rng,
    options: Options,
    /// Keys that were not written yet, the next one last.
    unused: Vec<usize>,
    expected: Contents,
    /// Keys behind the point of a batch, in no table yet.
    unlogged: BTreeSet<Vec<u8>>,
    snapshot: Option<(Snapshot, Contents)>,
    /// Entries were deleted: a file may have some that are not there.
    has_deletions: bool,
    aborts: u64,
    counts: Counts,
}

fn contents(db: &Db, snapshot: Option<&Snapshot>) -> Contents {
    let mut all = Contents::new();
    let reads = ReadOptions { snapshot: snapshot.cloned(), ..ReadOptions::default() };
    let mut cursor = db.cursor_opt(&reads).unwrap();
    cursor.seek_to_first();
    while cursor.valid() {
        all.insert(cursor.key().unwrap().to_vec(), cursor.value().unwrap().to_vec());
        cursor.next();
    }
    cursor.status().unwrap();
    all
}

impl Life {
    fn new(seed: u64) -> Life {
        let mut rng = Rng::new(seed);
        let mut options = common::options(&MemFs::new(seed).shared());
        options.cf.level_compaction_dynamic_level_bytes = rng.one_in(2);
        options.cf.disable_auto_compactions = rng.one_in(2);
        options.cf.level0_file_num_compaction_trigger = 3;
        options.cf.level0_stop_writes_trigger = 1000;
        options.cf.level0_slowdown_writes_trigger = 1000;
        options.db.max_subcompactions = 1 + rng.uniform(2) as u32;
        if rng.one_in(3) {
            options.db.recycle_log_file_num = 2;
        }
        let mut unused: Vec<usize> = (0..KEYS).rev().collect();
        if rng.one_in(3) {
            rng.shuffle(&mut unused);
        }
        Life {
            rng,
            options,
            unused,
            expected: Contents::new(),
            unlogged: BTreeSet::new(),
            snapshot: None,
            has_deletions: false,
            aborts: 0,
            counts: Counts::default(),
        }
    }

    fn draw(&mut self, most: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
        let count = 1 + self.rng.uniform(most);
        let keys: Vec<usize> = (0..count).map_while(|_| self.unused.pop()).collect();
        keys.into_iter().map(|n| (key(n), format!("value {n}").into_bytes())).collect()
    }

    /// One batch, half of the time with a point somewhere in it.
    fn write(&mut self, db: &Db) {
        let entries = self.draw(6);
        let logged = match self.rng.one_in(2) {
            true => self.rng.uniform(entries.len() as u64 + 1) as usize,
            false => entries.len(),
        };
        let mut batch = pumice::WriteBatch::new();
        for (at, (key, value)) in entries.iter().enumerate() {
            if at == logged {
                batch.mark_wal_termination_point();
            }
            batch.put(key, value);
        }
        db.write(&mut batch).unwrap();
        self.unlogged.extend(entries[logged..].iter().map(|(key, _)| key.clone()));
        self.expected.extend(entries);
    }

    fn delete_range(&mut self, db: &Db) {
        let begin = key(self.rng.uniform(KEYS as u64) as usize);
        let Some((end, _)) = self.expected.range(begin.clone()..).nth(2) else { return };
        let end = end.clone();
        db.delete_range(&begin, &end).unwrap();
        self.expected.retain(|key, _| !(&begin..&end).contains(&key));
        self.has_deletions = true;
    }

    fn flush(&mut self, db: &Db) {
        flush(db);
        self.unlogged.clear();
    }

    fn compact(&mut self, db: &Db) {
        let compacted = db.compact_range(&CompactRangeOptions::default(), None, None);
        if self.aborts == 0 {
            compacted.unwrap();
            self.unlogged.clear();
            return;
        }
        // It has not even flushed.
        assert_eq!(compacted.unwrap_err().subcode(), SubCode::CompactionAborted);
        self.counts.aborted += 1;
    }

    fn promote(&mut self, db: &Db) {
        let in_level_0 =
            |db: &Db| db.live_files_metadata().iter().filter(|file| file.level == 0).count();
        let before = in_level_0(db);
        let level = 1 + self.rng.uniform(4) as i32;
        match db.promote_l0(db.default_column_family(), level) {
            Ok(()) => {
                assert_eq!(in_level_0(db), 0);
                self.counts.promoted += u64::from(before > 0);
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
                self.counts.refused += 1;
            }
        }
    }

    fn delete_file(&mut self, db: &Db) {
        let files = db.live_files_metadata();
        if files.is_empty() {
            return;
        }
        let file = &files[self.rng.uniform(files.len() as u64) as usize];
        match db.delete_file(&file.name) {
            Ok(()) => {}
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
                self.counts.kept += 1;
                return;
            }
        }
        let found = contents(db, None);
        let is_in = |key: &Vec<u8>| (&file.smallest_key..=&file.largest_key).contains(&key);
        let gone: Vec<Vec<u8>> =
            self.expected.keys().filter(|key| !found.contains_key(*key)).cloned().collect();
        assert!(gone.iter().all(is_in), "{file:?} took {gone:?}");
        if gone.is_empty() && !self.options.cf.disable_auto_compactions {
            // One that is being compacted stays.
            self.counts.kept += 1;
            return;
        }
        let entries = file.num_entries as usize;
        assert!(gone.len() == entries || (self.has_deletions && gone.len() < entries), "{file:?}");
        for key in &gone {
            self.expected.remove(key);
        }
        if let Some((snapshot, expected)) = &mut self.snapshot {
            // What the file had is gone from it, too, and nothing else is.
            let seen = contents(db, Some(snapshot));
            expected.retain(|key, value| !is_in(key) || seen.get(key) == Some(value));
            assert!(gone.iter().all(|key| !expected.contains_key(key)));
        }
        self.counts.deleted += 1;
    }

    /// Closed, and opened again: what was not logged and is in no table is gone.
    fn reopen(&mut self, db: Db) -> Db {
        self.snapshot = None;
        db.close().unwrap();
        drop(db);
        self.counts.forgotten += self.unlogged.len() as u64;
        self.expected.retain(|key, _| !self.unlogged.contains(key));
        self.unlogged.clear();
        self.aborts = 0;
        Db::open(&self.options, DIR).unwrap()
    }

    fn resume(&mut self, db: &Db) {
        db.resume_all_compactions();
        self.aborts = self.aborts.saturating_sub(1);
    }

    fn look(&mut self, db: &Db, step: u64) {
        assert_eq!(contents(db, None), self.expected, "step {step}");
        if let Some((snapshot, expected)) = &self.snapshot {
            assert_eq!(contents(db, Some(snapshot)), *expected, "step {step}, snapshot");
            self.counts.seen += 1;
        }
    }

    fn live(mut self) -> Counts {
        let mut db = Db::open(&self.options, DIR).unwrap();
        for step in 0..STEPS {
            match self.rng.uniform(24) {
                0..7 => self.write(&db),
                7 => self.delete_range(&db),
                8..12 => self.flush(&db),
                12 => self.compact(&db),
                13..16 => self.promote(&db),
                16..19 => self.delete_file(&db),
                19 => {
                    db.abort_all_compactions();
                    self.aborts += 1;
                }
                20 => self.resume(&db),
                21 => self.snapshot = Some((db.snapshot(), self.expected.clone())),
                22 => thread::sleep(Duration::from_micros(1 + self.rng.uniform(5000))),
                _ => db = self.reopen(db),
            }
            self.look(&db, step);
        }
        self.snapshot = None;
        while self.aborts > 0 {
            self.resume(&db);
        }
        self.compact(&db);
        let_files_go(&db);
        self.look(&db, STEPS);
        db = self.reopen(db);
        self.look(&db, STEPS + 1);
        db.close().unwrap();
        self.counts
    }
}

#[test]
fn moves_take_nothing_and_deleted_files_what_they_had() {
    let mut all = Counts::default();
    for seed in seed::range(SEEDS) {
        let counts = Arc::new(Mutex::new(Counts::default()));
        let shared = Arc::clone(&counts);
        let options = sim::Options { preempt_per_mille: 20, ..sim::Options::new(seed) };
        let (report, outcome) = sim::run(&options, move || {
            *shared.lock() = Life::new(seed).live();
        });
        let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
        let hint = seed::replay_hint("moves_take_nothing_and_deleted_files_what_they_had", seed);
        assert!(outcome.is_ok() && stuck.is_empty(), "{outcome:?}\n{stuck}\n{hint}");
        let counts = *counts.lock();
        all.promoted += counts.promoted;
        all.refused += counts.refused;
        all.deleted += counts.deleted;
        all.kept += counts.kept;
        all.aborted += counts.aborted;
        all.forgotten += counts.forgotten;
        all.seen += counts.seen;
    }
    eprintln!("{all:?}");
    let Counts { promoted, refused, deleted, kept, aborted, forgotten, seen } = all;
    let least = [promoted, refused, deleted, kept, aborted, forgotten, seen].into_iter().min();
    assert!(seed::wanted().is_some() || least > Some(0), "something never happened: {all:?}");
}
