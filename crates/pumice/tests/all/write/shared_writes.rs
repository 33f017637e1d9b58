//! Members of a large write group insert in parallel with its leader: readers see the same, at the
//! same time and in the same order, as with one inserter.
//!
//! Every batch gives the same keys of two column families the same new value, after a deletion of
//! their range or over a first value of its own, and leaves its name as a merge operand. So a
//! snapshot in which two keys differ has seen a batch too early, or two in another order than that
//! of their sequence numbers; and what the log gives after a reopen must be what was in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{DIR, contents, options};
use pumice::{
    ColumnFamily, ColumnFamilyDescriptor, Db, FileSystem, MemFs, Options, ReadOptions, WriteBatch,
    WriteOptions,
};
use pumice_base::random::Rng;
use pumice_env::mem::CrashMode;
use pumice_port::sync::Mutex;
use pumice_port::{sim, thread};
use pumice_testkit::seed;

const WRITERS: usize = 4;
/// Keys of each family: a batch has more updates than one member inserts alone.
const KEYS: usize = 70;

fn open(fs: &Arc<dyn FileSystem>, change: impl Fn(&mut Options)) -> (Db, ColumnFamily) {
    let mut options = options(fs);
    options.db.create_missing_column_families = true;
    // The memtable is switched again and again.
    options.cf.write_buffer_size = 100 << 10;
    options.cf.set("merge_operator", "stringappend").unwrap();
    change(&mut options);
    let families = ["default", "other"].map(|name| {
        let options = options.cf.clone();
        ColumnFamilyDescriptor { name: name.to_string(), options }
    });
    let (db, mut handles) = Db::open_cf(&options.db, DIR, &families).unwrap();
    (db, handles.remove(1))
}

fn key(n: usize) -> Vec<u8> {
    format!("key{n:03}").into_bytes()
}

/// Batch `n` of `writer`.
fn batch(other: &ColumnFamily, writer: usize, n: usize) -> WriteBatch {
    let name = format!("{writer}:{n}");
    let mut batch = WriteBatch::new();
    if n.is_multiple_of(3) {
        batch.delete_range("key", "kez");
        batch.delete_range_cf(other, "key", "kez");
    } else {
        batch.put(key(n % KEYS), "replaced by a later update of the batch");
        batch.delete_cf(other, key(n % KEYS));
    }
    for i in 0..KEYS {
        batch.put(key(i), &name);
        batch.put_cf(other, key(i), &name);
    }
    batch.merge("names", &name);
    batch
}

/// Every family shows the same one batch, which is the last that left its name.
fn check(db: &Db, other: &ColumnFamily) {
    let snapshot = Some(db.snapshot());
    let read = ReadOptions { snapshot, ..ReadOptions::default() };
    let expected = db.get_opt(&read, key(0)).unwrap().map(|value| value.to_vec());
    for mut iter in [db.cursor_opt(&read).unwrap(), db.cursor_cf_opt(&read, other).unwrap()] {
        iter.seek(b"key");
        let mut count = 0;
        while iter.valid() && iter.key().unwrap().starts_with(b"key") {
            assert_eq!(iter.value().unwrap(), expected.as_deref().unwrap(), "not one batch");
            count += 1;
            iter.next();
        }
        iter.status().unwrap();
        assert_eq!(count, if expected.is_some() { KEYS } else { 0 });
    }
    let names = db.get_opt(&read, "names").unwrap().map(|names| names.to_vec());
    let last = names.as_deref().and_then(|names| names.rsplit(|byte| *byte == b',').next());
    assert_eq!(last, expected.as_deref(), "operands in another order than values");
}

/// Counts a writer out, also when it panics.
struct Leaving<'a>(&'a AtomicUsize);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Writers and a reader; returns the property's counts of helpers.
fn life(fs: &MemFs, seed: u64, batches: usize, change: impl Fn(&mut Options)) -> String {
    let (db, other) = open(&fs.shared(), &change);
    let left = &AtomicUsize::new(WRITERS);
    let logged = !seed.is_multiple_of(4);
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (db, other) = (&db, &other);
            scope.spawn(move || {
                let _gone = Leaving(left);
                let mut rng = Rng::new(seed ^ writer as u64);
                for n in 0..batches {
                    let write = WriteOptions { disable_wal: !logged, ..WriteOptions::default() };
                    db.write_opt(&write, &mut batch(other, writer, n)).unwrap();
                    if rng.one_in(4) {
                        check(db, other);
                    }
                }
            });
        }
        while left.load(Ordering::Relaxed) > 0 {
            check(&db, &other);
            thread::yield_now();
        }
    });
    let helpers = db.property("pumice.write-group-helpers").unwrap();
    let before = contents(&db);
    let names = &before.iter().find(|(key, _)| key == b"names").unwrap().1;
    assert_eq!(names.split(|byte| *byte == b',').count(), WRITERS * batches);
    let written = db.latest_sequence_number();
    db.close().unwrap();
    drop((db, other));
    let (db, other) = open(&fs.shared(), &change);
    check(&db, &other);
    assert!(contents(&db) == before, "the log gives something else than was in memory");
    assert!(db.latest_sequence_number() >= written);
    helpers
}

/// Writers, half of them synced, and crashes at any moment: recovery finds whole batches, including
/// the acknowledged ones. Returns the property's counts of helpers.
fn crashes(fs: &MemFs, seed: u64) -> String {
    let (db, other) = open(&fs.shared(), |_| ());
    let left = &AtomicUsize::new(WRITERS);
    let durable = &Mutex::new(Vec::<String>::new());
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (db, other) = (&db, &other);
            scope.spawn(move || {
                let _gone = Leaving(left);
                let write = WriteOptions { sync: writer % 2 == 0, ..WriteOptions::default() };
                for n in 0..6 {
                    db.write_opt(&write, &mut batch(other, writer, n)).unwrap();
                    if write.sync {
                        durable.lock().push(format!("{writer}:{n}"));
                    }
                }
            });
        }
        let mut rng = Rng::new(seed);
        while left.load(Ordering::Relaxed) > 0 {
            (0..rng.uniform(40)).for_each(|_| thread::yield_now());
            let answered = durable.lock().clone();
            let mode = if rng.one_in(2) { CrashMode::UNSYNCED } else { CrashMode::MIXED };
            let (db, other) = open(&fs.crashed_copy(rng.next_u64(), mode).shared(), |_| ());
            check(&db, &other);
            let found = db.get("names").unwrap().map(|names| names.to_vec()).unwrap_or_default();
            let found = String::from_utf8(found).unwrap();
            let is_there = |name: &String| found.split(',').any(|other| other == name);
            assert!(answered.iter().all(is_there), "{answered:?} not all in {found}");
            db.close().unwrap();
        }
    });
    db.property("pumice.write-group-helpers").unwrap()
}

/// Whether any member has inserted, by the property.
fn helped(property: &str) -> bool {
    !property.contains(" Max: 0\n")
}

fn simulated(seed: u64, change: impl Fn(&mut Options)) -> String {
    simulate(seed, || life(&MemFs::new(seed), seed, 8, &change))
}

fn simulate(seed: u64, test: impl Fn() -> String) -> String {
    let mut helpers = String::new();
    let (report, outcome) = sim::run(&sim::Options::new(seed), || helpers = test());
    assert!(outcome.is_ok(), "seed {seed}: {outcome:?} {:?}", report.stuck);
    helpers
}

// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn the_option_says_whether_members_insert() {
    let with = |allowed: bool| {
        let any = |seed| {
            helped(&simulated(seed, |options| {
                options.db.allow_concurrent_memtable_write = allowed;
            }))
        };
        (0..6).filter(|seed| any(*seed)).count()
    };
    assert!(with(true) > 0, "some group was large enough, and a member came");
    assert_eq!(with(false), 0);
}

// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn memtables_that_run_code_or_keep_order_have_one_inserter() {
    let changes: [(&str, &str); 2] = [("memtable", "vector"), ("max_successive_merges", "2")];
    for (name, value) in changes {
        for seed in 0..3 {
            let helpers = simulated(seed, |options| options.cf.set(name, value).unwrap());
            assert!(!helped(&helpers), "{name}: {helpers}");
        }
    }
}

// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn a_group_is_seen_whole_and_in_order_in_every_schedule() {
    let seeds = std::env::var("PUMICE_SHARED_WRITES")
        .map_or_else(|_| seed::share(20), |n| n.parse().unwrap());
    let seen = (100..100 + seeds).filter(|seed| helped(&simulated(*seed, |_| ()))).count();
    println!("members inserted in {seen} of {seeds} lives");
    assert!(seen > 0);
}

// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn a_crash_leaves_whole_batches_and_all_that_were_answered() {
    let seen =
        (0..20).filter(|seed| helped(&simulate(*seed, || crashes(&MemFs::new(*seed), *seed))));
    assert!(seen.count() > 0, "members inserted in some life");
}

/// A leader whose batch kept the header of its group wrote a record with a wrong count the next
/// time, at which recovery ends.
// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn a_batch_that_led_a_group_can_be_written_again() {
    let write_twice = |db: &Db| {
        thread::scope(|scope| {
            for writer in 0..WRITERS {
                scope.spawn(move || {
                    let mut batch = WriteBatch::new();
                    (0..=writer).for_each(|n| batch.put(format!("{writer}:{n}"), "value"));
                    for _ in 0..2 {
                        db.write(&mut batch).unwrap();
                        assert_eq!(batch.count() as usize, writer + 1);
                    }
                });
            }
        });
    };
    let leads = |seed: &u64| {
        let seed = *seed;
        let sizes = simulate(seed, || {
            let fs = MemFs::new(seed).shared();
            let (db, _) = open(&fs, |_| ());
            write_twice(&db);
            let (written, before) = (db.latest_sequence_number(), contents(&db));
            let sizes = db.property("pumice.write-group-size").unwrap();
            db.close().unwrap();
            let (db, _) = open(&fs, |_| ());
            assert_eq!(db.latest_sequence_number(), written);
            assert!(contents(&db) == before);
            sizes
        });
        !sizes.contains(" Max: 1\n")
    };
    assert!((0..10).filter(leads).count() > 0, "no batch led a group");
}

#[pumice_test_macros::test]
fn a_group_is_seen_whole_and_in_order_by_tasks_that_run_at_once() {
    for seed in 0..3 {
        let helpers = life(&MemFs::new(seed), seed, 60, |_| ());
        println!("{}", helpers.lines().take(2).collect::<Vec<_>>().join(" "));
    }
}
