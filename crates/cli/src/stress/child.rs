//! The process that is killed: opens, verifies, then works until the end.
//!
//! Work goes in rounds; between two rounds the database is closed and opened again with other
//! options. A thread works on its own keys only, so it knows at every moment what each must hold.

use super::expected::{Counter, Expected, FAMILIES, Place};
use super::sets::Setting;
use super::store::{self, Store};
use super::values::{COUNTERS, id_of, key, value};
use super::verify::{Verdict, verify};
use pumice::{
    CompactRangeOptions, FlushOptions, ReadOptions, WaitForCompactOptions, WriteBatch, WriteOptions,
};
use pumice_base::ErrorKind;
use pumice_base::random::Rng;
use pumice_port::fiber::Runtime;
use pumice_port::thread::scope;
use std::path::PathBuf;

/// How a child ends when the data is not as expected.
pub const EXIT_BAD_DATA: u8 = 3;
/// How it ends when the engine refuses its options: those of a set need not go together.
pub const EXIT_REFUSED: u8 = 4;

/// What a child is to do.
#[derive(Clone)]
pub struct Orders {
    /// The database.
    pub path: PathBuf,
    /// The file with the expected state.
    pub expected: PathBuf,
    /// Of its random choices.
    pub seed: u64,
    /// Rounds until it ends by itself; 0 only verifies.
    pub rounds: u64,
    /// The set of options of this life.
    pub options: Vec<Setting>,
}

/// Loops under the fibers.
const LOOPS: usize = 2;

/// Operations of a thread between two reopenings, at most.
const ROUND_OPERATIONS: u64 = 4000;

/// Runs `rounds` rounds on a fiber; the workers are fibers of the same loops.
///
/// # Errors
/// As [`run`]; the loops cannot be started.
pub fn run_on_fibers(orders: &Orders) -> Result<u8, String> {
    let built = Runtime::builder().loops(LOOPS).spawn_as_fibers(true).name("stress").build();
    let runtime = built.map_err(|error| format!("starting loops: {error}"))?;
    let orders = orders.clone();
    let main = runtime.spawn("stress", move || run(&orders));
    main.join().map_err(|error| error.to_string())?
}

/// Runs `rounds` rounds (0 only verifies). The exit code for the parent.
///
/// # Errors
/// An operation that must not fail has failed.
pub fn run(orders: &Orders) -> Result<u8, String> {
    let (rounds, options) = (orders.rounds, &orders.options);
    let expected =
        Expected::open(&orders.expected).map_err(|error| format!("expected state: {error}"))?;
    let mut rng = Rng::new(orders.seed);
    for round in 0..=rounds {
        let store = match store::open(&orders.path, &mut rng, options) {
            Err(error) if is_refusal(&error) => {
                eprintln!("refused: {error}");
                return Ok(EXIT_REFUSED);
            }
            opened => opened.map_err(|error| format!("open: {error}"))?,
        };
        let noted = expected.add(Counter::Opens, 1);
        noted.map_err(|error| format!("expected state: {error}"))?;
        let verdict = verify(&store, &expected)
            .map_err(|error| format!("expected state: {error}"))?
            .map_err(|error| format!("verification: {error}"))?;
        if note(&expected, verdict)? {
            return Ok(EXIT_BAD_DATA);
        }
        if round < rounds {
            let verdict = work(&store, &expected, &mut rng)?;
            if note(&expected, verdict)? {
                return Ok(EXIT_BAD_DATA);
            }
        }
        store.db.close().map_err(|error| format!("close: {error}"))?;
    }
    Ok(0)
}

/// The options do not go together, or not with what the database is.
fn is_refusal(error: &pumice::Error) -> bool {
    matches!(error.kind(), ErrorKind::InvalidArgument | ErrorKind::NotSupported)
}

/// Adds a verdict to the file; true when something is bad.
fn note(expected: &Expected, verdict: Verdict) -> Result<bool, String> {
    for (counter, amount) in [(Counter::Lost, verdict.lost), (Counter::Wrong, verdict.wrong)] {
        if amount > 0 {
            expected.add(counter, amount).map_err(|error| format!("expected state: {error}"))?;
        }
    }
    Ok(verdict != Verdict::default())
}

/// One round of all threads.
fn work(store: &Store, expected: &Expected, rng: &mut Rng) -> Result<Verdict, String> {
    let operations = 1 + rng.uniform(ROUND_OPERATIONS);
    let results: Vec<Result<u64, String>> = scope(|scope| {
        let threads: Vec<_> = (0..expected.threads)
            .map(|thread| {
                let rng = rng.fork();
                scope.spawn(move || {
                    let mut worker = Worker::new(store, expected, thread, rng)?;
                    for _ in 0..operations {
                        worker.step()?;
                    }
                    Ok(worker.wrong)
                })
            })
            .collect();
        let joined = threads.into_iter().map(|thread| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect()
    });
    let mut verdict = Verdict::default();
    for result in results {
        verdict.wrong += result?;
    }
    Ok(verdict)
}

/// One thread with its share of the keys.
struct Worker<'a> {
    store: &'a Store,
    expected: &'a Expected,
    thread: usize,
    rng: Rng,
    /// What each key holds, by family.
    ids: [Vec<u64>; FAMILIES],
    next_id: u64,
    acked: u64,
    wrong: u64,
    batch: WriteBatch,
    bytes: Vec<u8>,
    scratch: Vec<u8>,
}

impl<'a> Worker<'a> {
    fn new(
        store: &'a Store,
        expected: &'a Expected,
        thread: usize,
        rng: Rng,
    ) -> Result<Self, String> {
        let load = |family| -> Result<Vec<u64>, String> {
            let records = expected.records(family, thread).map_err(state_error)?;
            Ok(records.into_iter().map(|record| record.committed).collect())
        };
        let mut ids = [const { Vec::new() }; FAMILIES];
        for (family, ids) in ids.iter_mut().enumerate() {
            *ids = load(family)?;
        }
        let greatest = ids.iter().flatten().max().copied().unwrap_or(0);
        Ok(Worker {
            store,
            expected,
            thread,
            rng,
            ids,
            // A gap, so that no id of an operation that was under way at a kill is used again.
            next_id: greatest + 1000,
            acked: expected.acked(thread).map_err(state_error)?,
            wrong: 0,
            batch: WriteBatch::new(),
            bytes: Vec::new(),
            scratch: Vec::new(),
        })
    }

    /// One operation, chosen at random.
    fn step(&mut self) -> Result<(), String> {
        match self.rng.uniform(1000) {
            0..=599 => self.write(1),
            600..=799 => {
                let updates = 2 + self.rng.uniform(12);
                self.write(updates)
            }
            800..=819 => self.delete_range(),
            820..=939 => self.check_key(),
            940..=979 => self.check_prefix(),
            980..=991 => self.check_range(),
            992..=996 => {
                let family = self.rng.uniform(FAMILIES as u64) as usize;
                let handle = &self.store.families[family];
                let wait = self.rng.one_in(2);
                let options = FlushOptions { wait, ..FlushOptions::default() };
                self.store.db.flush_cfs_opt(&options, &[handle]).map_err(|e| format!("flush: {e}"))
            }
            997 => self.compact(),
            998 => {
                let sync = self.rng.one_in(2);
                self.store.db.flush_wal(sync).map_err(|e| format!("flush_wal: {e}"))
            }
            _ => {
                let options = WaitForCompactOptions::default();
                let waited = self.store.db.wait_for_compact(&options);
                waited.map_err(|e| format!("wait_for_compact: {e}"))
            }
        }
    }

    fn place(&mut self) -> Place {
        let family = self.rng.uniform(FAMILIES as u64) as usize;
        Place { family, thread: self.thread, key: self.rng.uniform(self.expected.keys) }
    }

    /// A batch of `updates` puts, merges and deletions of different keys.
    fn write(&mut self, updates: u64) -> Result<(), String> {
        self.batch.clear();
        let mut changes: Vec<(Place, u64)> = Vec::new();
        for _ in 0..updates {
            let place = self.place();
            if changes.iter().any(|(other, _)| *other == place) {
                continue;
            }
            let cf = self.store.families[place.family].id();
            let current = self.ids[place.family][place.key as usize];
            let choice = self.rng.uniform(10);
            let id = if choice == 0 && current != 0 { 0 } else { self.new_id() };
            if id == 0 {
                self.batch.delete_cf(cf, &key(place));
            } else if choice < 4 {
                // A counter's operand is the difference to the new id; a blob's is the new value.
                let operand = if place.family == COUNTERS { id - current } else { id };
                value(place.family, operand, &mut self.bytes);
                self.batch.merge_cf(cf, &key(place), &self.bytes);
            } else {
                value(place.family, id, &mut self.bytes);
                self.batch.put_cf(cf, &key(place), &self.bytes);
            }
            changes.push((place, id));
        }
        self.apply(&changes)
    }

    /// Ids grow over all keys of the thread.
    fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn delete_range(&mut self) -> Result<(), String> {
        let first = self.place();
        let count = (1 + self.rng.uniform(40)).min(self.expected.keys - first.key);
        let end = Place { key: first.key + count, ..first };
        self.batch.clear();
        let cf = self.store.families[first.family].id();
        self.batch.delete_range_cf(cf, &key(first), &key(end));
        let changes: Vec<(Place, u64)> =
            (first.key..end.key).map(|key| (Place { key, ..first }, 0)).collect();
        self.apply(&changes)
    }

    /// Announces the changes, writes the batch, notes the acknowledgement.
    fn apply(&mut self, changes: &[(Place, u64)]) -> Result<(), String> {
        for (place, id) in changes {
            self.expected.begin(*place, *id).map_err(state_error)?;
        }
        let options = WriteOptions { sync: self.rng.one_in(100), ..WriteOptions::default() };
        let written = self.store.db.write_opt(&options, &mut self.batch);
        written.map_err(|error| format!("write: {error}"))?;
        for (place, id) in changes {
            self.expected.commit(*place, *id).map_err(state_error)?;
            self.ids[place.family][place.key as usize] = *id;
        }
        self.acked += 1;
        self.expected.set_acked(self.thread, self.acked).map_err(state_error)
    }

    fn check_key(&mut self) -> Result<(), String> {
        let place = self.place();
        let handle = &self.store.families[place.family];
        let got = self.store.db.get_cf_opt(&ReadOptions::default(), handle, &key(place));
        let got = got.map_err(|error| format!("get: {error}"))?;
        self.compare(place, got.as_deref());
        Ok(())
    }

    /// Iterates over a stretch of the thread's keys, forward or backward.
    fn check_range(&mut self) -> Result<(), String> {
        let first = self.place();
        let count = (1 + self.rng.uniform(100)).min(self.expected.keys - first.key);
        let end = Place { key: first.key + count, ..first };
        let options = ReadOptions {
            iterate_lower_bound: Some(key(first).to_vec()),
            iterate_upper_bound: Some(key(end).to_vec()),
            // The stretch may have many prefixes.
            total_order_seek: true,
            ..ReadOptions::default()
        };
        let backward = self.rng.one_in(2);
        let handle = &self.store.families[first.family];
        let cursor = self.store.db.cursor_cf_opt(&options, handle);
        let mut cursor = cursor.map_err(|error| format!("iterator: {error}"))?;
        if backward {
            cursor.seek_to_last();
        } else {
            cursor.seek_to_first();
        }
        for step in 0..count {
            let index = if backward { end.key - 1 - step } else { first.key + step };
            let place = Place { key: index, ..first };
            if cursor.valid() && cursor.key().unwrap_or_default() == key(place) {
                let bytes = cursor.value().unwrap_or_default().to_vec();
                self.compare(place, Some(&bytes));
                if backward {
                    cursor.prev();
                } else {
                    cursor.next();
                }
            } else {
                self.compare(place, None);
            }
        }
        cursor.status().map_err(|error| format!("iterator: {error}"))
    }

    /// Seeks to a key under the current options, possibly by its prefix: it is found if it is
    /// there.
    fn check_prefix(&mut self) -> Result<(), String> {
        let place = self.place();
        let options =
            ReadOptions { prefix_same_as_start: self.rng.one_in(2), ..ReadOptions::default() };
        let cursor = self.store.db.cursor_cf_opt(&options, &self.store.families[place.family]);
        let mut cursor = cursor.map_err(|error| format!("iterator: {error}"))?;
        cursor.seek(&key(place));
        let found = cursor.valid() && cursor.key().unwrap_or_default() == key(place);
        let bytes = found.then(|| cursor.value().unwrap_or_default().to_vec());
        cursor.status().map_err(|error| format!("iterator: {error}"))?;
        self.compare(place, bytes.as_deref());
        Ok(())
    }

    fn compare(&mut self, place: Place, bytes: Option<&[u8]>) {
        let expected = self.ids[place.family][place.key as usize];
        let found = id_of(place.family, bytes, &mut self.scratch);
        if found != Ok(expected) {
            eprintln!("WRONG VALUE while running: {place:?}: expected {expected}, found {found:?}");
            self.wrong += 1;
        }
    }

    fn compact(&mut self) -> Result<(), String> {
        let first = self.place();
        let end = Place { key: first.key + self.rng.uniform(self.expected.keys), ..first };
        let handle = &self.store.families[first.family];
        let (begin, end) = (key(first), key(end));
        let options = CompactRangeOptions {
            exclusive_manual_compaction: self.rng.one_in(2),
            ..CompactRangeOptions::default()
        };
        let db = &self.store.db;
        let compacted = db.compact_range_cf(&options, handle, Some(&begin), Some(&end));
        compacted.map_err(|error| format!("compact_range: {error}"))
    }
}

fn state_error(error: std::io::Error) -> String {
    format!("expected state: {error}")
}
