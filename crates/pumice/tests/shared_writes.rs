//! Members of a large write group insert beside its leader: what a group shows, when and in which
//! order, is what one inserter would have shown.
//!
//! Every batch gives the same keys of two column families the same new value, after a deletion of
//! their range or over a first value of its own, and leaves its name as a merge operand. So a
//! snapshot in which two keys differ has seen a batch too early, or two in another order than that
//! of their sequence numbers; and what the log gives after a reopen must be what was in memory.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{DIR, contents, options};
use pumice::{
    ColumnFamily, ColumnFamilyDescriptor, Db, FileSystem, MemFs, Options, ReadOptions, WriteBatch,
    WriteOptions,
};
use pumice_base::random::Rng;
use pumice_port::{sim, thread};

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

/// Every family shows the same one batch.
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
    assert_eq!(db.get_opt(&read, key(0)).unwrap().as_deref(), expected.as_deref());
}

/// Writers and a reader; what the property says of helpers in the end.
fn life(fs: &MemFs, seed: u64, batches: usize, change: impl Fn(&mut Options)) -> String {
    let (db, other) = open(&fs.shared(), &change);
    let left = AtomicUsize::new(WRITERS);
    let logged = !seed.is_multiple_of(4);
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (db, other, left) = (&db, &other, &left);
            scope.spawn(move || {
                let mut rng = Rng::new(seed ^ writer as u64);
                for n in 0..batches {
                    let write = WriteOptions { disable_wal: !logged, ..WriteOptions::default() };
                    db.write_opt(&write, &mut batch(other, writer, n)).unwrap();
                    if rng.one_in(4) {
                        check(db, other);
                    }
                }
                left.fetch_sub(1, Ordering::Relaxed);
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

/// Whether any member has inserted, by the property.
fn helped(property: &str) -> bool {
    !property.contains(" Max: 0\n")
}

fn simulated(seed: u64, change: impl Fn(&mut Options)) -> String {
    let mut helpers = String::new();
    let options = sim::Options::new(seed);
    let (report, outcome) = sim::run(&options, || {
        helpers = life(&MemFs::new(seed), seed, 8, &change);
    });
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
    let seeds = std::env::var("PUMICE_SHARED_WRITES").map_or(60, |n| n.parse().unwrap());
    let seen = (100..100 + seeds).filter(|seed| helped(&simulated(*seed, |_| ()))).count();
    println!("members inserted in {seen} of {seeds} lives");
    assert!(seen > 0);
}

#[pumice_test_macros::test]
fn a_group_is_seen_whole_and_in_order_by_tasks_that_run_at_once() {
    for seed in 0..3 {
        let helpers = life(&MemFs::new(seed), seed, 60, |_| ());
        println!("{}", helpers.lines().take(2).collect::<Vec<_>>().join(" "));
    }
}
