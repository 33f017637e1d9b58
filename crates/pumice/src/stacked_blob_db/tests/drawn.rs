//! Random calls against a model, with the clock, flushes, compactions, readers and reopens between.

use std::collections::BTreeMap;

use super::{Bench, compact, numbers};
use crate::options::requests::ReadOptions;
use crate::snapshot::Snapshot;
use crate::stacked_blob_db::{BlobDb, BlobDbOptions};
use crate::{Cursor, WriteBatch};
use pumice_base::random::Rng;
use pumice_testkit::seed;
use std::sync::atomic::Ordering;

const STEPS: u64 = 400;
const KEYS: u64 = 30;

/// Values, and when they expire.
type Model = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

struct Run {
    bench: Bench,
    db: BlobDb,
    model: Model,
    old: Option<(Snapshot, Model)>,
    rng: Rng,
    count: u64,
}

fn key(number: u64) -> Vec<u8> {
    format!("key{number:02}").into_bytes()
}

impl Run {
    fn now(&self) -> u64 {
        self.bench.clock.load(Ordering::Relaxed)
    }

    fn value(&mut self) -> Vec<u8> {
        self.count += 1;
        let len = self.rng.uniform(60) as usize;
        [format!("{}:", self.count).into_bytes(), vec![b'x'; len]].concat()
    }

    fn step(&mut self) {
        let (name, value) = (key(self.rng.uniform(KEYS)), self.value());
        match self.rng.uniform(20) {
            0..6 => {
                self.db.put(&name, &value).unwrap();
                self.model.insert(name, (value, None));
            }
            6..10 => {
                let ttl = self.rng.uniform(40);
                self.db.put_with_ttl(&name, &value, ttl).unwrap();
                self.model.insert(name, (value, Some(self.now() + ttl)));
            }
            10 => {
                self.db.delete(&name).unwrap();
                self.model.remove(&name);
            }
            11 => {
                let to = key(self.rng.uniform(KEYS)).max(name.clone());
                self.db.delete_range(&name, &to).unwrap();
                self.model.retain(|found, _| *found < name || *found >= to);
            }
            12 => self.batch(),
            13 => self.db.db().flush().unwrap(),
            14 => compact(&self.db),
            15..17 => self.bench.pass(self.rng.uniform(8)),
            17 => self.db.evict_expired(),
            18 => self.old = Some((self.db.db().snapshot(), self.model.clone())),
            _ => self.reopen(),
        }
    }

    fn batch(&mut self) {
        let mut batch = WriteBatch::new();
        for _ in 0..5 {
            let (name, value) = (key(self.rng.uniform(KEYS)), self.value());
            match self.rng.uniform(4) {
                0 => {
                    batch.delete(&name);
                    self.model.remove(&name);
                }
                _ => {
                    batch.put(&name, &value);
                    self.model.insert(name, (value, None));
                }
            }
        }
        self.db.write(&mut batch).unwrap();
    }

    fn reopen(&mut self) {
        self.old = None;
        if self.rng.uniform(2) == 0 {
            self.db.close().unwrap();
        }
        let collects = self.rng.uniform(2) == 0;
        self.bench.blobs =
            BlobDbOptions { enable_garbage_collection: collects, ..self.bench.blobs.clone() };
        let options = self.bench.options.clone();
        // The database must be gone first.
        let spare = BlobDb::open(&options, &self.bench.blobs, "/spare").unwrap();
        drop(std::mem::replace(&mut self.db, spare));
        self.db = self.bench.open().unwrap();
    }

    fn check(&self) {
        self.check_as(&self.model, &ReadOptions::default());
        if let Some((snapshot, model)) = &self.old {
            self.check_as(model, &ReadOptions::at(snapshot));
        }
    }

    fn check_as(&self, model: &Model, options: &ReadOptions) {
        let now = self.now();
        let alive = |entry: &(&Vec<u8>, &(Vec<u8>, Option<u64>))| {
            entry.1.1.is_none_or(|expires| expires > now)
        };
        let expected: Vec<_> = model.iter().filter(alive).collect();
        let mut cursor = self.db.cursor_opt(options).unwrap();
        Cursor::seek_to_first(&mut cursor);
        for (key, (value, _)) in &expected {
            assert_eq!(cursor.item(), Some((&key[..], &value[..])));
            cursor.next();
        }
        assert!(!cursor.valid());
        cursor.status().unwrap();
        cursor.seek_to_last();
        for (key, (value, _)) in expected.iter().rev() {
            assert_eq!(cursor.item(), Some((&key[..], &value[..])));
            cursor.prev();
        }
        assert!(!cursor.valid());
        let names: Vec<_> = (0..KEYS).map(key).collect();
        let all = self.db.multi_get_opt(options, &names);
        for (name, many) in names.iter().zip(all) {
            let one = self.db.get_with_expiration(options, name).unwrap();
            let want = model.get_key_value(name).filter(alive).map(|(_, want)| want.clone());
            assert_eq!(many.unwrap().as_deref(), one.as_ref().map(|(value, _)| &value[..]));
            assert_eq!(one, want);
        }
    }
}

#[pumice_test_macros::test]
fn drawn_calls_agree_with_a_model() {
    for number in seed::range(12) {
        println!("seed {number}");
        let bench = Bench::new(number);
        let db = bench.open().unwrap();
        let rng = Rng::new(number + 1);
        let mut run = Run { bench, db, model: Model::new(), old: None, rng, count: 0 };
        for _ in 0..STEPS {
            run.step();
            if run.rng.uniform(4) == 0 {
                run.check();
            }
        }
        run.check();
        run.db.evict_expired();
        assert_eq!(run.bench.on_disk(), numbers(&run.db));
    }
}
