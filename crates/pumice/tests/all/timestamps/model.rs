//! A model with (key, time, sequence) against Pumice and against RocksDB: drawn operations, the
//! same for both, and every answer compared with the model's.
//!
//! `PUMICE_TIMESTAMPS=N` runs N operations in place of a few thousand.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use pumice::WriteBatch;
use pumice::options::{IndexType, SstPartitionerFactory};
use pumice_base::random::Rng;
use pumice_testkit::seed;

use crate::common::Scratch;

use super::sides::{Ours, Row, Side, Theirs, VersionRow, Walk};

/// What was written at one time, the newest of the same time last.
#[derive(Clone, Debug)]
enum Change {
    Put(Vec<u8>),
    Delete,
    Merge(Vec<u8>),
    /// Of a range that the key is in: no version, but it hides those that were written before.
    DeleteRange,
}

/// All that was ever written, by key and time in the order of the writes.
#[derive(Default)]
struct Model {
    keys: BTreeMap<Vec<u8>, Vec<(u64, Change)>>,
    low: u64,
}

impl Model {
    /// The value of `key` at `time` and the time of its newest version.
    fn get(&self, key: &[u8], time: u64) -> Option<(Vec<u8>, u64)> {
        let changes = self.keys.get(key)?;
        let seen: Vec<_> = changes.iter().filter(|(at, _)| *at <= time).collect();
        let (newest, _) = seen.last()?;
        let mut value: Option<Vec<u8>> = None;
        for (_, change) in &seen {
            value = match change {
                Change::Put(value) => Some(value.clone()),
                Change::Delete | Change::DeleteRange => None,
                Change::Merge(operand) => Some(match value {
                    Some(old) => [&old, &b","[..], operand].concat(),
                    None => operand.clone(),
                }),
            };
        }
        Some((value?, *newest))
    }

    fn rows(&self, time: u64, walk: &Walk) -> Vec<Row> {
        let mut rows: Vec<_> = self
            .keys
            .keys()
            .filter(|key| inside(key, walk))
            .filter_map(|key| self.get(key, time).map(|(value, at)| (key.clone(), at, value)))
            .collect();
        if walk.backward {
            rows.reverse();
        }
        rows
    }

    /// Versions are what was written last at each time.
    fn versions(&self, from: u64, time: u64, walk: &Walk) -> Vec<VersionRow> {
        let mut rows = Vec::new();
        for (key, changes) in self.keys.iter().filter(|(key, _)| inside(key, walk)) {
            let mut last = BTreeMap::new();
            for (at, change) in changes.iter().filter(|(at, _)| *at <= time) {
                match change {
                    Change::DeleteRange => last.clear(),
                    Change::Put(value) => drop(last.insert(*at, Some(value.clone()))),
                    Change::Delete | Change::Merge(_) => drop(last.insert(*at, None)),
                }
            }
            last.retain(|at, _| *at >= from);
            rows.extend(last.into_iter().rev().map(|(at, value)| (key.clone(), at, value)));
        }
        if walk.backward {
            rows.reverse();
        }
        rows
    }
}

fn inside(key: &[u8], walk: &Walk) -> bool {
    walk.lower.as_ref().is_none_or(|lower| key >= &lower[..])
        && walk.upper.as_ref().is_none_or(|upper| key < &upper[..])
        && walk.seek.as_ref().is_none_or(|seek| match walk.backward {
            false => key >= &seek[..],
            true => key <= &seek[..],
        })
}

/// Times below the low may have become 0.
fn forget(time: u64, low: u64) -> u64 {
    if time < low { 0 } else { time }
}

/// One run: the model, the engines and what is drawn.
struct Run<'s> {
    rng: Rng,
    model: Model,
    sides: Vec<Box<dyn Side + 's>>,
    clock: u64,
    what: String,
    /// Merges are drawn too; versions are then not shown.
    merges: bool,
    /// The low of the history is raised.
    raises: bool,
    /// Ranges are deleted.
    ranges: bool,
    /// Flushes take timestamps off, and raise the low above what they have written.
    unkept: bool,
    /// The newest time in memtables.
    unflushed: Option<u64>,
}

impl Run<'_> {
    fn key(&mut self) -> Vec<u8> {
        // Of different lengths, so that timestamps lie at different places; some are prefixes of
        // others, and bytes of keys may look like those of timestamps.
        let n = self.rng.uniform(60);
        match n % 4 {
            0 => format!("k{n}").into_bytes(),
            1 => format!("key-{n}-{n:08}").into_bytes(),
            2 => [&b"k"[..], &n.to_le_bytes()].concat(),
            _ => vec![n as u8; (n % 11) as usize],
        }
    }

    fn range(&mut self) -> (Vec<u8>, Vec<u8>) {
        let (a, b) = (self.key(), self.key());
        if a < b { (a, b) } else { (b, a) }
    }

    fn time(&mut self) -> u64 {
        let low = self.model.low;
        match self.rng.uniform(8) {
            0 => u64::MAX,
            1 => low,
            _ => low + self.rng.uniform(self.clock + 2 - low.min(self.clock)),
        }
    }

    fn walk(&mut self) -> Walk {
        let bound = |run: &mut Self| run.rng.one_in(3).then(|| run.key());
        let (lower, upper, seek) = (bound(self), bound(self), bound(self));
        let seek = seek.filter(|key| {
            // Beyond the bounds a seek is as one to them.
            lower.as_ref().is_none_or(|lower| key >= lower)
                && upper.as_ref().is_none_or(|upper| key < upper)
        });
        Walk { lower, upper, backward: self.rng.one_in(2), seek }
    }

    fn write(&mut self) {
        let mut batch = WriteBatch::new();
        for _ in 0..1 + self.rng.uniform(4) {
            if !self.rng.one_in(4) {
                self.clock += 1;
            }
            let (key, time) = (self.key(), self.clock.to_le_bytes());
            if self.ranges && self.rng.one_in(12) {
                let (begin, end) = self.range();
                batch.delete_range_cf_with_ts(0, &begin, &end, time);
                for (_, changes) in self.model.keys.range_mut(begin..end) {
                    changes.push((self.clock, Change::DeleteRange));
                }
                continue;
            }
            let value = format!("{}-{}", self.clock, self.rng.uniform(1000)).into_bytes();
            let change = match self.rng.uniform(if self.merges { 9 } else { 6 }) {
                0 | 1 => {
                    batch.delete_cf_with_ts(0, &key, time);
                    Change::Delete
                }
                2..6 => {
                    batch.put_cf_with_ts(0, &key, time, &value);
                    Change::Put(value)
                }
                _ => {
                    batch.merge_cf_with_ts(0, &key, time, &value);
                    Change::Merge(value)
                }
            };
            self.model.keys.entry(key).or_default().push((self.clock, change));
        }
        self.written(&batch);
    }

    /// Something is there to be flushed, so that both have a new version: of a deletion of an empty
    /// range RocksDB keeps nothing.
    fn put(&mut self) {
        let (key, value) = (self.key(), b"flushed".to_vec());
        let mut batch = WriteBatch::new();
        batch.put_cf_with_ts(0, &key, self.clock.to_le_bytes(), &value);
        self.model.keys.entry(key).or_default().push((self.clock, Change::Put(value)));
        self.written(&batch);
    }

    fn written(&mut self, batch: &WriteBatch) {
        self.unflushed = Some(self.clock);
        self.sides.iter_mut().for_each(|side| side.write(batch));
    }

    /// All memtables are in tables now.
    fn flushed(&mut self) {
        if let Some(newest) = self.unflushed.take().filter(|_| self.unkept) {
            self.model.low = self.model.low.max(newest + 1);
        }
    }

    fn check_get(&mut self) {
        let (key, time) = (self.key(), self.time());
        let low = self.model.low;
        let expected = self.model.get(&key, time);
        let expected = expected.map(|(value, at)| (value, forget(at, low)));
        for side in &self.sides {
            let found = side.get(time, &key).unwrap();
            let found = found.map(|(value, at)| (value, forget(at, low)));
            assert_eq!(found, expected, "{} {}: {key:?} at {time}", self.what, side.name());
        }
    }

    fn check_walk(&mut self) {
        let (walk, time) = (self.walk(), self.time());
        let low = self.model.low;
        let timeless = |rows: Vec<Row>| {
            rows.into_iter().map(|(k, at, v)| (k, forget(at, low), v)).collect::<Vec<_>>()
        };
        let expected = timeless(self.model.rows(time, &walk));
        for side in &self.sides {
            let found = timeless(side.walk(time, &walk).unwrap());
            assert_eq!(found, expected, "{} {}: {walk:?} at {time}", self.what, side.name());
        }
    }

    fn check_versions(&mut self) {
        let (walk, time) = (Walk { seek: None, ..self.walk() }, self.time());
        let newest = time.min(self.clock).max(self.model.low);
        let from = self.model.low + self.rng.uniform(1 + newest - self.model.low);
        let expected = self.model.versions(from, time, &walk);
        for side in &self.sides {
            if walk.backward && side.name() == "RocksDB" {
                continue; // It shows the newest version of each key, also one before the start.
            }
            let found = side.versions(from, time, &walk).unwrap();
            let what = (&self.what, side.name());
            assert_eq!(found, expected, "{what:?}: {walk:?} from {from} to {time}");
        }
    }

    /// Raises the low; RocksDB refuses earlier times from the next flush on, Pumice at once.
    fn raise(&mut self) {
        let newest = self.clock.max(self.model.low);
        let low = self.model.low + self.rng.uniform(1 + newest - self.model.low);
        self.model.low = low;
        for side in &self.sides {
            side.raise(low).unwrap();
            if low > 0 {
                side.raise(low - 1).unwrap_err();
            }
        }
        self.flush();
        let low = self.model.low;
        if low > 0 {
            for side in &self.sides {
                let what = (&self.what, side.name(), low);
                let found = side.get(low - 1, b"k");
                assert!(found.is_err(), "{what:?}: {found:?} is read below the low");
                let found = side.walk(low - 1, &Walk::default());
                assert!(found.is_err(), "{what:?}: {found:?} is read below the low");
            }
        }
    }

    fn flush(&mut self) {
        self.write();
        self.put();
        self.sides.iter().for_each(|side| side.flush());
        self.flushed();
    }

    fn step(&mut self) {
        match self.rng.uniform(100) {
            0..50 => self.write(),
            50..75 => self.check_get(),
            75..85 => self.check_walk(),
            85..92 if !self.merges => self.check_versions(),
            85..92 => self.check_walk(),
            92..95 => self.flush(),
            95..97 => {
                let (begin, end) = self.range();
                // A compaction of a range may flush or not.
                let some = self.rng.one_in(2) && !self.unkept;
                let range = some.then_some((&begin[..], &end[..]));
                self.sides.iter().for_each(|side| side.compact(range));
                self.flushed();
            }
            97 if self.raises => self.raise(),
            _ => {
                self.sides.iter_mut().for_each(|side| side.reopen());
                self.flushed();
            }
        }
    }
}

/// Operations of a run.
const STEPS: u64 = 400;

// Plain #[test]: the engines work on real files, and RocksDB has its own threads.
#[test]
fn both_engines_answer_as_the_model_at_every_time() {
    let asked = std::env::var("PUMICE_TIMESTAMPS").ok().and_then(|text| text.parse().ok());
    let runs = asked.unwrap_or(seed::share(8 * STEPS)).div_ceil(STEPS);
    let peer =
        pumice_peer::installed_11_8().map(|library| pumice_peer::Peer::load(library).unwrap());
    for run in seed::wanted().map_or(0..runs, |one| one..one + 1) {
        let dir = Scratch::new("timestamps");
        std::fs::create_dir_all(&dir.0).unwrap();
        let files = std::sync::Arc::new(pumice::PosixFs) as _;
        let unkept = run % 8 > 4;
        let mut options = if unkept { super::unkept(&files) } else { super::timed(&files) };
        options.cf.write_buffer_size = 64 << 10;
        options.cf.target_file_size_base = 8 << 10;
        options.cf.level0_file_num_compaction_trigger = 2;
        // So that the versions of a key lie in several blocks.
        options.cf.table_factory.block_size = [4096, 64, 1][run as usize % 3];
        if run % 5 > 2 {
            options.cf.table_factory.index_type = IndexType::BinarySearchWithFirstKey;
        }
        if run % 7 > 3 {
            super::partition(&mut options.cf.table_factory);
            options.cf.table_factory.decouple_partitioned_filters = run % 2 == 0;
        }
        if run % 3 == 1 {
            options.cf.max_successive_merges = if unkept { 0 } else { 3 };
            options.cf.sst_partitioner_factory = SstPartitionerFactory::FixedPrefix(2);
        }
        if run % 5 > 1 {
            // RocksDB's values stay in its tables: it does not read all blobs that it writes.
            super::blobs::separate(&mut options.cf, 6, run % 2 == 0);
        }
        if run % 4 == 3 {
            options.cf.compaction_style = pumice::options::CompactionStyle::Universal;
        }
        let ours = Ours::open(options, &dir.0.join("ours"));
        let mut sides: Vec<Box<dyn Side + '_>> = vec![Box::new(ours)];
        // RocksDB 11.8.1 shows deleted operands again once their history goes, and its compactions
        // drop operands under a deletion of a range that is newer than some readers.
        let (merges, raises, ranges) = (run % 2 == 1, run % 4 != 1, run % 3 > 0);
        if let Some(peer) = &peer
            && !(merges && (raises || ranges))
        {
            let text = "write_buffer_size=65536;target_file_size_base=8192;\
                        level0_file_num_compaction_trigger=2";
            let unkept_too = match unkept {
                true => ";persist_user_defined_timestamps=false;allow_concurrent_memtable_write=0",
                false => "",
            };
            let text = format!("{text}{unkept_too}");
            sides.push(Box::new(Theirs::open(peer, &dir.0.join("theirs"), &text)));
        }
        let what = format!("{}; run {run}", seed::replay_hint("timestamps", run));
        let mut run = Run {
            rng: Rng::new(run),
            model: Model::default(),
            sides,
            clock: 1,
            what,
            merges,
            raises,
            ranges,
            unkept,
            unflushed: None,
        };
        (0..STEPS).for_each(|_| run.step());
        run.sides.iter().for_each(|side| side.check_files());
        drop(run);
        std::fs::remove_dir_all(&dir.0).unwrap();
    }
}
