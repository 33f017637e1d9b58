//! The engine against a sorted map: random writes of every kind, ingested files, flushes,
//! compactions of every style, snapshots, reopenings and changes of the prefix extractor, read back
//! by `get`, `multi_get` and randomly walking iterators with bounds and prefixes, in both orders.
//! Crashes leave a prefix of the history that has all of what was synced.
//!
//! `PUMICE_MODEL_SEEDS=n` runs more seeds; a failure names its seed.

mod layouts;
mod rare;
mod walk;

use pumice_base::UserKey;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pumice::{
    BottommostLevelCompaction, CompactRangeOptions, Comparator, Db, FlushOptions,
    IngestExternalFileOptions, MemFs, Options, ReadOptions, SliceTransform, Snapshot,
    SstFileWriter, WriteBatch, WriteOptions,
};
use pumice_base::extension::builtin_slice_transform;
use pumice_base::random::Rng;
use pumice_env::mem::CrashMode;
use pumice_testkit::seed::share;

use layouts::{bloom_ratio, options};
use walk::Walk;

type State = BTreeMap<Vec<u8>, Vec<u8>>;

/// The first two bytes; shorter keys have no prefix.
struct FirstTwo;

impl SliceTransform for FirstTwo {
    fn name(&self) -> String {
        "FirstTwo".to_string()
    }
    fn in_domain(&self, key: &[u8]) -> bool {
        key.len() >= 2
    }
    fn transform<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        &key[..2]
    }
}

type Extractor = Option<Arc<dyn SliceTransform>>;

/// Built-in extractors, for which the engine may use prefix filters by itself.
const BUILTIN: [&str; 5] = [
    "rocksdb.FixedPrefix.2",
    "rocksdb.FixedPrefix.2",
    "rocksdb.FixedPrefix.1",
    "rocksdb.CappedPrefix.3",
    "rocksdb.Noop",
];

fn extractor(rng: &mut Rng) -> Extractor {
    match rng.uniform(8) {
        0 => None,
        1 | 2 => Some(Arc::new(FirstTwo)),
        _ => builtin_slice_transform(BUILTIN[rng.uniform(5) as usize]),
    }
}

/// The prefix of a key, None if it has none.
fn prefix_of<'k>(extractor: &Extractor, key: &'k [u8]) -> Option<&'k [u8]> {
    extractor.as_ref().filter(|e| e.in_domain(key)).map(|e| e.transform(key))
}

struct Test {
    rng: Rng,
    seed: u64,
    comparator: Comparator,
    fs: MemFs,
    options: Options,
    db: Db,
    now: State,
    /// The states after each write since the last one that is durable, that one first; kept only
    /// for crashes.
    history: Option<Vec<State>>,
    snapshots: Vec<(Snapshot, State)>,
    /// Single-deleted keys that hold a value.
    once: BTreeSet<Vec<u8>>,
    counter: u64,
}

impl Test {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let comparator =
            if seed % 3 == 2 { Comparator::ReverseBytewise } else { Comparator::Bytewise };
        let fs = MemFs::new(seed);
        let options = options(&mut rng, &fs, &comparator);
        let db = Db::open(&options, "/model").unwrap();
        options.db.file_system.create_dir_all("/in".as_ref()).unwrap();
        Test {
            rng,
            seed,
            comparator,
            fs,
            options,
            db,
            now: State::new(),
            history: None,
            snapshots: Vec::new(),
            once: BTreeSet::new(),
            counter: 0,
        }
    }

    fn key(&mut self) -> Vec<u8> {
        let text = match self.rng.uniform(8) {
            0 => String::new(),
            1 => format!("{}", self.rng.uniform(10)),
            2 | 3 => format!("{:03}", self.rng.uniform(400)),
            _ => format!("{:02}x{}", self.rng.uniform(12), self.rng.uniform(4)),
        };
        text.into_bytes()
    }

    fn value(&mut self) -> Vec<u8> {
        self.counter += 1;
        let mut value = self.counter.to_string().into_bytes();
        value.resize(value.len() + self.rng.uniform(160) as usize, b'.');
        value
    }

    /// One update, to `batch` and to the model.
    fn update(&mut self, batch: &mut WriteBatch) {
        let key = self.key();
        match self.rng.uniform(20) {
            0..=8 => {
                let value = self.value();
                batch.put(&key, &value);
                self.now.insert(key, value);
            }
            9..=11 => {
                batch.delete(&key);
                self.now.remove(&key);
            }
            12..=15 => {
                let mut operand = self.value();
                operand.truncate(12);
                batch.merge(&key, &operand);
                match self.now.get_mut(&key) {
                    Some(value) => {
                        value.push(b',');
                        value.extend(operand);
                    }
                    None => {
                        self.now.insert(key, operand);
                    }
                }
            }
            16 => {
                let (mut begin, mut end) = (key, self.key());
                if self.comparator.compare(UserKey::new(&begin), UserKey::new(&end)).is_gt() {
                    std::mem::swap(&mut begin, &mut end);
                }
                batch.delete_range(&begin, &end);
                let order = &self.comparator;
                self.now.retain(|k, _| {
                    order.compare(UserKey::new(k), UserKey::new(&begin)).is_lt()
                        || order.compare(UserKey::new(k), UserKey::new(&end)).is_ge()
                });
            }
            _ => {
                let key = format!("{:02}once{}", self.rng.uniform(12), self.rng.uniform(2));
                let key = key.into_bytes();
                if self.once.remove(&key) {
                    batch.single_delete(&key);
                    self.now.remove(&key);
                } else {
                    let value = self.value();
                    batch.put(&key, &value);
                    self.now.insert(key.clone(), value);
                    self.once.insert(key);
                }
            }
        }
    }

    fn write(&mut self) {
        let mut batch = WriteBatch::new();
        for _ in 0..1 + self.rng.uniform(4) {
            self.update(&mut batch);
        }
        let sync = self.rng.one_in(8);
        self.db.write_opt(&WriteOptions { sync, ..WriteOptions::default() }, &mut batch).unwrap();
        if let Some(history) = &mut self.history {
            if sync {
                history.clear();
            }
            history.push(self.now.clone());
        }
    }

    /// A file to be ingested, and its effect on the model.
    fn external_file(&mut self, name: &str) {
        let mut writer = SstFileWriter::new(&self.options).unwrap();
        writer.open(name).unwrap();
        let deletions = if self.rng.one_in(3) { 1 + self.rng.uniform(2) } else { 0 };
        for _ in 0..deletions {
            let mut ends = [self.key(), self.key()];
            ends.sort_by(|a, b| self.comparator.compare(UserKey::new(a), UserKey::new(b)));
            writer.delete_range(&ends[0], &ends[1]).unwrap();
            let order = &self.comparator;
            self.now.retain(|k, _| {
                order.compare(UserKey::new(k), UserKey::new(&ends[0])).is_lt()
                    || order.compare(UserKey::new(k), UserKey::new(&ends[1])).is_ge()
            });
        }
        let mut keys: Vec<Vec<u8>> = (0..1 + self.rng.uniform(8)).map(|_| self.key()).collect();
        keys.sort_by(|a, b| self.comparator.compare(UserKey::new(a), UserKey::new(b)));
        keys.dedup();
        for key in keys {
            let mut value = self.value();
            match self.rng.uniform(4) {
                0 => {
                    writer.delete(&key).unwrap();
                    self.now.remove(&key);
                }
                1 => {
                    value.truncate(12);
                    writer.merge(&key, &value).unwrap();
                    let whole = match self.now.remove(&key) {
                        Some(base) => [base, value].join(&b','),
                        None => value,
                    };
                    self.now.insert(key, whole);
                }
                _ => {
                    writer.put(&key, &value).unwrap();
                    self.now.insert(key, value);
                }
            }
        }
        writer.finish().unwrap();
    }

    fn ingest(&mut self) {
        let count = 1 + self.rng.uniform(3);
        let names: Vec<String> = (0..count).map(|n| format!("/in/{n}.sst")).collect();
        names.iter().for_each(|name| self.external_file(name));
        let options = IngestExternalFileOptions {
            move_files: self.rng.one_in(2),
            write_global_seqno: self.rng.one_in(4),
            verify_checksums_before_ingest: self.rng.one_in(4),
            ..IngestExternalFileOptions::default()
        };
        self.db.ingest_external_file(&options, &names).unwrap();
        self.persisted();
    }

    /// All that is written is durable.
    fn persisted(&mut self) {
        if let Some(history) = &mut self.history {
            *history = vec![self.now.clone()];
        }
    }

    /// Opens a state that a crash at this moment could leave.
    fn check_crash(&mut self) {
        let history = self.history.as_ref().unwrap();
        let copy = self.fs.crashed_copy(self.rng.next_u64(), CrashMode::MIXED);
        let mut options = self.options.clone();
        options.db.file_system = copy.shared();
        let mut states = Vec::new();
        // The second opening finds what the first one recovered.
        for _ in 0..2 {
            let db = Db::open(&options, "/model").unwrap();
            let mut cursor = db.cursor_opt(&ReadOptions::default()).unwrap();
            let mut state = State::new();
            cursor.seek_to_first();
            while cursor.valid() {
                state.insert(cursor.key().unwrap().to_vec(), cursor.value().unwrap().to_vec());
                cursor.next();
            }
            cursor.status().unwrap();
            drop(cursor);
            db.close().unwrap();
            states.push(state);
        }
        let at = history.iter().position(|state| *state == states[0]);
        assert!(
            at.is_some(),
            "seed {}: none of {} states since the last sync; differs from the last in {:?}",
            self.seed,
            history.len(),
            differences(&states[0], &history[history.len() - 1])
        );
        assert_eq!(states[0], states[1], "seed {}: lost by reopening", self.seed);
    }

    fn run_with_crashes(&mut self) {
        self.history = Some(vec![State::new()]);
        for _ in 0..150 {
            match self.rng.uniform(23) {
                21 => self.move_files(),
                22 => {
                    self.compact_some_files();
                    self.check_crash();
                }
                0..=13 => self.write(),
                20 => self.ingest(),
                14 => {
                    self.db.flush_opt(&FlushOptions::default()).unwrap();
                    self.persisted();
                }
                15 => {
                    self.db.flush_wal(true).unwrap();
                    self.persisted();
                }
                16 => {
                    let all = CompactRangeOptions::default();
                    self.db.compact_range(&all, None, None).unwrap();
                    self.persisted();
                }
                17 => {
                    self.db.close().unwrap();
                    self.db = Db::open(&self.options, "/model").unwrap();
                }
                18 => {
                    // A crash while jobs run.
                    let options = FlushOptions {
                        wait: false,
                        allow_write_stall: true,
                        ..FlushOptions::default()
                    };
                    self.db.flush_opt(&options).unwrap();
                    self.check_crash();
                }
                _ => self.check_crash(),
            }
        }
        self.db.close().unwrap();
        self.check_crash();
    }

    fn maintain(&mut self) {
        match self.rng.uniform(12) {
            11 => {
                self.options.cf.memtable_prefix_bloom_size_ratio = bloom_ratio(&mut self.rng);
                self.options.cf.max_successive_merges = self.rng.uniform(4) as usize;
                let changes = ["memtable_prefix_bloom_size_ratio", "max_successive_merges"];
                let values = changes.map(|name| self.options.cf.get(name).unwrap());
                let family = self.db.default_column_family();
                let changes = [(changes[0], &values[0][..]), (changes[1], &values[1][..])];
                self.db.set_options_cf(family, &changes).unwrap();
            }
            10 => {
                let name = BUILTIN[self.rng.uniform(5) as usize];
                self.options.cf.prefix_extractor = builtin_slice_transform(name);
                let family = self.db.default_column_family();
                self.db.set_options_cf(family, &[("prefix_extractor", name)]).unwrap();
            }
            0..=5 => self.db.flush_opt(&FlushOptions::default()).unwrap(),
            6 | 7 => {
                let force = self.rng.one_in(2);
                let options = CompactRangeOptions {
                    bottommost_level_compaction: if force {
                        BottommostLevelCompaction::Force
                    } else {
                        BottommostLevelCompaction::IfHaveCompactionFilter
                    },
                    exclusive_manual_compaction: self.rng.one_in(2),
                    ..CompactRangeOptions::default()
                };
                let (mut begin, mut end) = (self.key(), self.key());
                if self.comparator.compare(UserKey::new(&begin), UserKey::new(&end)).is_gt() {
                    std::mem::swap(&mut begin, &mut end);
                }
                let begin = self.rng.one_in(2).then_some(&begin[..]);
                let end = self.rng.one_in(2).then_some(&end[..]);
                self.db.compact_range(&options, begin, end).unwrap();
            }
            8 => {
                self.snapshots.clear();
                self.db.close().unwrap();
                self.db = Db::open(&self.options, "/model").unwrap();
            }
            _ => self.db.wait_for_compact(&Default::default()).unwrap(),
        }
    }

    /// A view to read: now, or one of the snapshots.
    fn view(&mut self) -> (ReadOptions, State) {
        let at = self.rng.uniform(self.snapshots.len() as u64 + 2) as usize;
        match self.snapshots.get(at) {
            Some((snapshot, state)) => {
                let snapshot = Some(snapshot.clone());
                (ReadOptions { snapshot, ..ReadOptions::default() }, state.clone())
            }
            None => (ReadOptions::default(), self.now.clone()),
        }
    }

    fn check_gets(&mut self) {
        let (options, state) = self.view();
        let mut keys: Vec<Vec<u8>> = (0..6).map(|_| self.key()).collect();
        keys.extend(state.keys().take(3).cloned());
        for key in &keys {
            let found = self.db.get_opt(&options, key).unwrap();
            assert_eq!(found.as_deref(), state.get(key).map(|v| &v[..]), "get {key:?}");
        }
        for (key, found) in keys.iter().zip(self.db.multi_get_opt(&options, &keys)) {
            let found = found.unwrap();
            assert_eq!(found.as_deref(), state.get(key).map(|v| &v[..]), "multi_get {key:?}");
        }
    }

    fn check_iterator(&mut self) {
        let (mut options, state) = self.view();
        let mut bounds = [self.key(), self.key()];
        bounds.sort_by(|a, b| self.comparator.compare(UserKey::new(a), UserKey::new(b)));
        let [lower, upper] = bounds;
        options.iterate_lower_bound = self.rng.one_in(3).then_some(lower);
        options.iterate_upper_bound = self.rng.one_in(3).then_some(upper);
        options.prefix_same_as_start = self.rng.one_in(3);
        options.total_order_seek = self.rng.one_in(8);
        let extractor = self.options.cf.prefix_extractor.clone();
        let by_prefix = options.prefix_same_as_start && !options.total_order_seek;
        let extractor = extractor.filter(|_| by_prefix);
        let order = self.comparator.clone();
        let inside = |key: &[u8]| {
            let above = options.iterate_lower_bound.as_ref();
            let below = options.iterate_upper_bound.as_ref();
            above.is_none_or(|b| order.compare(UserKey::new(key), UserKey::new(b)).is_ge())
                && below.is_none_or(|b| order.compare(UserKey::new(key), UserKey::new(b)).is_lt())
        };
        let mut rows: Vec<(Vec<u8>, Vec<u8>)> =
            state.into_iter().filter(|(k, _)| inside(k)).collect();
        rows.sort_by(|a, b| order.compare(UserKey::new(&a.0), UserKey::new(&b.0)));
        let mut cursor = self.db.cursor_opt(&options).unwrap();
        // What happens after its creation must not show.
        for _ in 0..self.rng.uniform(4) {
            self.write();
        }
        if self.rng.one_in(8) {
            self.db.flush_opt(&FlushOptions::default()).unwrap();
        }
        let mut walk = Walk { rows, prefix: None, extractor, order, at: None };
        let mut steps = Vec::new();
        for _ in 0..40 {
            let target = self.key();
            let step = if walk.at.is_none() { self.rng.uniform(4) } else { self.rng.uniform(14) };
            steps.push((step, target.clone()));
            walk.step(step, &target, &mut cursor);
            cursor.status().unwrap();
            let seen = cursor.valid().then(|| (cursor.key().unwrap(), cursor.value().unwrap()));
            let wanted = walk.at.map(|at| (&walk.rows[at].0[..], &walk.rows[at].1[..]));
            assert_eq!(
                seen,
                wanted,
                "seed {} bounds {:?}..{:?} by prefix {by_prefix} {:?} steps {steps:?}",
                self.seed,
                options.iterate_lower_bound,
                options.iterate_upper_bound,
                self.options.cf.prefix_extractor.as_ref().map(|e| e.name())
            );
        }
    }

    fn run(&mut self) {
        for _ in 0..400 {
            match self.rng.uniform(25) {
                21 => self.move_files(),
                22 => self.compact_some_files(),
                23 => self.tail(),
                24 => self.replace_range(),
                0..=10 => self.write(),
                20 => self.ingest(),
                11 | 12 => self.maintain(),
                13 => {
                    if self.snapshots.len() < 4 {
                        self.snapshots.push((self.db.snapshot(), self.now.clone()));
                    }
                }
                14 => {
                    if !self.snapshots.is_empty() {
                        let at = self.rng.uniform(self.snapshots.len() as u64) as usize;
                        self.snapshots.remove(at);
                    }
                }
                15 | 16 => self.check_gets(),
                _ => self.check_iterator(),
            }
        }
        self.db.verify_checksum().unwrap();
        self.snapshots.clear();
        self.db.close().unwrap();
    }
}

/// Keys that only one of the states has, or with another value.
fn differences(a: &State, b: &State) -> Vec<String> {
    let keys: BTreeSet<_> = a.keys().chain(b.keys()).filter(|k| a.get(*k) != b.get(*k)).collect();
    keys.into_iter().map(|k| String::from_utf8_lossy(k).into_owned()).collect()
}

fn seeds(default: u64) -> u64 {
    let wanted = std::env::var("PUMICE_MODEL_SEEDS").ok().and_then(|n| n.parse().ok());
    wanted.unwrap_or_else(|| share(default))
}

#[pumice_test_macros::test]
fn random_histories_read_as_the_model_says() {
    for seed in 0..seeds(60) {
        println!("seed {seed}");
        Test::new(seed).run();
    }
}

#[pumice_test_macros::test]
fn crashes_leave_a_prefix_with_all_that_was_durable() {
    for seed in 0..seeds(25) {
        println!("seed {seed}");
        Test::new(seed).run_with_crashes();
    }
}
