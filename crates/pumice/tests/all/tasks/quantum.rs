//! A fiber whose calls never wait lets the other fibers of its loop run all the same.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::common::{self, fill, flush, key, memory, options};
use pumice::{
    Db, DbIterator, Options, ReadOptions, Runtime, SstFileWriter, WriteBatch, WriteOptions,
};
use pumice_port::thread;

const KEYS: usize = 3000;

/// The most calls between two turns of another fiber of the loop while `work` makes `calls`.
fn longest_run(runtime: &Runtime, calls: u64, work: impl FnOnce(&dyn Fn()) + Send) -> u64 {
    let made = Arc::new(AtomicU64::new(0));
    let over = Arc::new(AtomicBool::new(false));
    let other = {
        let (made, over) = (Arc::clone(&made), Arc::clone(&over));
        runtime.spawn("other", move || {
            let (mut seen, mut longest) = (0, 0);
            loop {
                let now = made.load(Relaxed);
                longest = longest.max(now - seen);
                seen = now;
                if over.load(Relaxed) {
                    return longest;
                }
                thread::yield_now();
            }
        })
    };
    runtime.run("busy", || {
        work(&|| {
            made.fetch_add(1, Relaxed);
        });
        over.store(true, Relaxed);
    });
    let longest = other.join().unwrap();
    assert_eq!(made.load(Relaxed), calls);
    longest
}

/// All in memory: in a memtable, or in cached blocks.
fn database(flushed: bool) -> (Options, Db) {
    let (_, fs) = memory();
    let mut options = options(&fs);
    options.cf.write_buffer_size = 64 << 20;
    // Steps over versions are what is counted.
    options.cf.max_sequential_skip_in_iterations = u64::MAX;
    let db = Db::open(&options, common::DIR).unwrap();
    fill(&db, 0..KEYS, "some value of some length");
    if flushed {
        flush(&db);
    }
    for n in 0..KEYS {
        assert!(common::get(&db, &key(n)).is_some());
    }
    (options, db)
}

fn walk(db: &Db, calls: u64, call: &dyn Fn(), step: impl Fn(&mut DbIterator, usize)) {
    let mut iter = db.cursor_opt(&ReadOptions::default()).unwrap();
    iter.seek(&key(KEYS / 2));
    for n in 0..calls {
        step(&mut iter, n as usize);
        if !iter.valid() {
            iter.seek(&key(KEYS / 2));
        }
        call();
    }
}

#[pumice_test_macros::test]
fn reads_from_memory_give_way() {
    const CALLS: u64 = 20_000;
    for flushed in [false, true] {
        let (_, db) = database(flushed);
        let runtime = Runtime::builder().loops(1).build().unwrap();
        let read = ReadOptions::default();
        let gets = longest_run(&runtime, CALLS, |call| {
            for n in 0..CALLS as usize {
                // Every other key is not there.
                db.get_opt(&read, &key(n % (2 * KEYS))).unwrap();
                call();
            }
        });
        let multi_gets = longest_run(&runtime, CALLS, |call| {
            let keys: Vec<_> = (0..10).map(|n| key(n * 7)).collect();
            for _ in 0..CALLS {
                db.multi_get_opt(&read, &keys);
                call();
            }
        });
        let nexts = longest_run(&runtime, CALLS, |call| {
            walk(&db, CALLS, call, |iter, _| iter.next());
        });
        let prevs = longest_run(&runtime, CALLS, |call| {
            walk(&db, CALLS, call, |iter, _| iter.prev());
        });
        let seeks = longest_run(&runtime, CALLS, |call| {
            walk(&db, CALLS, call, |iter, n| iter.seek(&key(n % KEYS)));
        });
        let iterators = longest_run(&runtime, CALLS, |call| {
            for _ in 0..CALLS {
                drop(db.cursor_opt(&read).unwrap());
                call();
            }
        });
        let all = [gets, multi_gets, nexts, prevs, seeks, iterators];
        println!("flushed {flushed}: {all:?} calls at most");
        for (most, bound) in all.into_iter().zip([100, 10, 1100, 1100, 100, 100]) {
            assert!(most <= bound, "flushed {flushed}: {all:?}");
        }
        drop(runtime);
        db.close().unwrap();
    }
}

/// One `next` that skips very many entries.
#[pumice_test_macros::test]
fn a_single_long_step_gives_way() {
    const VERSIONS: u64 = 50_000;
    let (_, db) = database(false);
    let before = db.snapshot();
    for n in 0..VERSIONS {
        db.put_opt(&WriteOptions::default(), &key(0), &n.to_le_bytes()).unwrap();
    }
    for n in 1..KEYS {
        db.delete_opt(&WriteOptions::default(), &key(n)).unwrap();
    }
    let runtime = Runtime::builder().loops(1).build().unwrap();
    let turns = Arc::new(AtomicU64::new(0));
    let count = |call: &(dyn Fn() + Sync)| {
        let (own, over) = (Arc::clone(&turns), Arc::new(AtomicBool::new(false)));
        let end = Arc::clone(&over);
        let other = runtime.spawn("other", move || {
            while !end.load(Relaxed) {
                own.fetch_add(1, Relaxed);
                thread::yield_now();
            }
        });
        let before = turns.load(Relaxed);
        runtime.run("busy", call);
        over.store(true, Relaxed);
        other.join().unwrap();
        turns.load(Relaxed) - before
    };
    let hidden = count(&|| {
        let mut iter = db.cursor_opt(&ReadOptions::default()).unwrap();
        iter.seek(&key(1));
        assert!(!iter.valid());
    });
    let versions = count(&|| {
        let mut iter = db.cursor_opt(&ReadOptions::default()).unwrap();
        iter.seek_to_last();
        assert!(iter.valid());
    });
    drop(before);
    assert!(hidden >= 2 && versions >= 50, "{hidden} and {versions} turns");
    drop(runtime);
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn writes_that_do_not_wait_give_way() {
    const CALLS: u64 = 5000;
    let (options, db) = database(false);
    let runtime = Runtime::builder().loops(1).build().unwrap();
    // The leader of a logged write yields before its quantum is spent, so that others can join it.
    let [puts, unlogged] = [false, true].map(|disable_wal| {
        let write = WriteOptions { disable_wal, ..WriteOptions::default() };
        longest_run(&runtime, CALLS, |call| {
            for n in 0..CALLS as usize {
                db.put_opt(&write, &key(n), b"v").unwrap();
                call();
            }
        })
    });
    let unlogged_batches = WriteOptions { disable_wal: true, ..WriteOptions::default() };
    let batches = longest_run(&runtime, CALLS, |call| {
        for n in 0..CALLS as usize {
            let mut batch = WriteBatch::new();
            (0..10).for_each(|i| batch.put(&key(n + i), b"v"));
            db.write_opt(&unlogged_batches, &mut batch).unwrap();
            call();
        }
    });
    let entries = longest_run(&runtime, CALLS, |call| {
        let mut writer = SstFileWriter::new(&options).unwrap();
        writer.open(Path::new("/made.sst")).unwrap();
        for n in 0..CALLS as usize {
            writer.put(&key(n), b"v").unwrap();
            call();
        }
        writer.finish().unwrap();
    });
    let most = [puts, unlogged, batches, entries];
    println!("puts, unlogged ones, batches, entries at most: {most:?}");
    assert!(most.iter().zip([100, 100, 20, 200]).all(|(calls, most)| *calls <= most), "{most:?}");
    drop(runtime);
    db.close().unwrap();
}
