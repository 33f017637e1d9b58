//! The engine on fibers: two loops, a real directory on a disk.
#![allow(clippy::disallowed_methods)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use pumice::{
    Db, ErrorKind, FlushOptions, IoMode, Options, ReadOptions, Runtime, Statistics, Ticker,
    WriteOptions,
};
use pumice_port::thread;

/// A folder on a disk: the build directory, since `/tmp` may be in memory.
fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("pumice-{name}-{}", std::process::id()))
}

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.statistics = Some(Arc::new(Statistics::new()));
    options
}

fn runtime(loops: usize, io: IoMode) -> Runtime {
    Runtime::builder().loops(loops).io(io).build().unwrap()
}

fn key(n: usize) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

fn value(n: usize) -> Vec<u8> {
    format!("value of {n} ").repeat(8).into_bytes()
}

/// Keys `0..keys` in table files, past the page cache and without a block cache: every read waits
/// for the device.
fn cold_database(dir: &Path, keys: usize) -> (Options, Db) {
    let mut options = options();
    options.db.use_direct_reads = true;
    options.cf.write_buffer_size = 256 << 10;
    options.cf.table_factory.no_block_cache = true;
    let db = Db::open(&options, dir).unwrap();
    for n in 0..keys {
        db.put_opt(&WriteOptions::default(), &key(n), &value(n)).unwrap();
    }
    db.flush_opt(&FlushOptions::default()).unwrap();
    (options, db)
}

/// A sync does not stop the loop: while the leader waits for it the others queue, and one sync
/// serves them all.
#[pumice_test_macros::test]
fn a_thousand_synced_writers_share_their_syncs() {
    const WRITERS: usize = 1000;
    const EACH: usize = 4;
    for io in [IoMode::Auto, IoMode::Threads] {
        let dir = folder("fiber-writers");
        let options = options();
        let db = Db::open(&options, &dir).unwrap();
        let runtime = runtime(2, io);
        let sync = WriteOptions { sync: true, ..WriteOptions::default() };
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let db = db.clone();
                runtime.spawn("writer", move || {
                    for n in 0..EACH {
                        let n = writer * EACH + n;
                        db.put_opt(&sync, &key(n), &value(n)).unwrap();
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        let syncs = options.db.statistics.as_ref().unwrap().ticker(Ticker::WalFileSynced);
        let writes = (WRITERS * EACH) as u64;
        println!("{io:?}: {writes} writes, {syncs} syncs");
        println!("{}", db.property("pumice.write-group-size").unwrap());
        assert!(syncs * 8 < writes, "{io:?}: {syncs} syncs for {writes} writes");
        assert_eq!(db.property_int("pumice.wal-syncs"), Some(syncs));
        drop(runtime);
        db.close().unwrap();
        let db = Db::open(&options, &dir).unwrap();
        for n in 0..WRITERS * EACH {
            let found = db.get_opt(&ReadOptions::default(), &key(n)).unwrap();
            assert_eq!(found.as_deref(), Some(&value(n)[..]), "key {n}");
        }
        db.close().unwrap();
        Db::destroy(&options, &dir).unwrap();
    }
}

/// While a fiber waits for a block, others of its loop run.
#[pumice_test_macros::test]
fn a_read_that_misses_gives_the_loop_to_others() {
    const KEYS: usize = 3000;
    for io in [IoMode::Auto, IoMode::Threads] {
        let dir = folder("fiber-reads");
        let (options, db) = cold_database(&dir, KEYS);
        let runtime = runtime(1, io);
        let turns = Arc::new(AtomicU64::new(0));
        let over = Arc::new(AtomicBool::new(false));
        let other = {
            let (turns, over) = (Arc::clone(&turns), Arc::clone(&over));
            runtime.spawn("other", move || {
                while !over.load(SeqCst) {
                    turns.fetch_add(1, SeqCst);
                    thread::yield_now();
                }
            })
        };
        let reader = db.clone();
        let seen = Arc::clone(&turns);
        let reader = runtime.spawn("reader", move || {
            let during = (0..200).map(|n| {
                let n = n * 13 % KEYS;
                let before = seen.load(SeqCst);
                let found = reader.get_opt(&ReadOptions::default(), &key(n)).unwrap();
                assert_eq!(found.as_deref(), Some(&value(n)[..]));
                seen.load(SeqCst) - before
            });
            during.filter(|turns| *turns > 0).count()
        });
        let with_turns = reader.join().unwrap();
        over.store(true, SeqCst);
        other.join().unwrap();
        // One loop: each turn of the other fiber is one that the waiting reader gave it.
        assert_eq!(with_turns, 200, "{io:?}: reads during which the other fiber ran");
        drop(runtime);
        db.close().unwrap();
        Db::destroy(&options, &dir).unwrap();
    }
}

/// Point reads, multi-gets and iterators of many fibers and threads during writes.
#[pumice_test_macros::test]
fn everything_at_once_on_fibers_and_threads() {
    const KEYS: usize = 4000;
    let dir = folder("fiber-mix");
    let (options, db) = cold_database(&dir, KEYS);
    let runtime = runtime(2, IoMode::Auto);
    let work = move |db: &Db, worker: usize| {
        let read = ReadOptions { readahead_size: (worker % 3) << 14, ..ReadOptions::default() };
        let from = worker * 397 % (KEYS - 200);
        let keys: Vec<_> = (0..16).map(|n| key((from + n * 211) % KEYS)).collect();
        for (n, found) in db.multi_get_opt(&read, &keys).into_iter().enumerate() {
            assert_eq!(found.unwrap().as_deref(), Some(&value((from + n * 211) % KEYS)[..]));
        }
        db.put_opt(&WriteOptions::default(), format!("own{worker}").as_bytes(), b"x").unwrap();
        let mut iter = db.cursor_opt(&read).unwrap();
        iter.seek(&key(from));
        for n in from..from + 150 {
            assert_eq!((iter.key().unwrap(), iter.value().unwrap()), (&key(n)[..], &value(n)[..]));
            iter.next();
        }
        for n in (from + 100..from + 150).rev() {
            iter.prev();
            assert_eq!(iter.key().unwrap(), key(n));
        }
        iter.status().unwrap();
        assert!(db.get_opt(&read, format!("own{worker}").as_bytes()).unwrap().is_some());
    };
    let fibers: Vec<_> = (0..60)
        .map(|worker| {
            let db = db.clone();
            runtime.spawn("worker", move || work(&db, worker))
        })
        .collect();
    let threads: Vec<_> = (60..64)
        .map(|worker| {
            let db = db.clone();
            thread::spawn_os("worker", move || work(&db, worker)).unwrap()
        })
        .collect();
    for fiber in fibers {
        fiber.join().unwrap();
    }
    for thread in threads {
        thread.join().unwrap();
    }
    drop(runtime);
    db.close().unwrap();
    Db::destroy(&options, &dir).unwrap();
}

/// A close wakes fibers that wait in a stall, in the write queue and for a flush.
#[pumice_test_macros::test]
fn close_ends_what_fibers_wait_for() {
    let dir = folder("fiber-close");
    let mut options = options();
    options.cf.write_buffer_size = 64 << 10;
    options.cf.max_write_buffer_number = 2;
    let db = Db::open(&options, &dir).unwrap();
    let runtime = runtime(2, IoMode::Auto);
    db.pause_background_work();
    let done = Arc::new(AtomicU64::new(0));
    let writers: Vec<_> = (0..50usize)
        .map(|writer| {
            let (db, done) = (db.clone(), Arc::clone(&done));
            runtime.spawn("writer", move || {
                for n in 0.. {
                    let key = format!("{writer}:{n}");
                    match db.put_opt(&WriteOptions::default(), key.as_bytes(), &[7; 1000]) {
                        Ok(()) => done.fetch_add(1, SeqCst),
                        Err(error) => return error.kind(),
                    };
                }
                unreachable!("writes end with an error")
            })
        })
        .collect();
    let flusher = {
        let db = db.clone();
        let wait = FlushOptions { allow_write_stall: true, wait: true, ..FlushOptions::default() };
        runtime.spawn("flusher", move || db.flush_opt(&wait).map_err(|error| error.kind()))
    };
    // Writes have stopped when two memtables are full; then nothing moves any more.
    while db.property_int("rocksdb.is-write-stopped") != Some(1) {
        thread::sleep(std::time::Duration::from_millis(1));
    }
    let impatient = WriteOptions { no_slowdown: true, ..WriteOptions::default() };
    let closer = {
        let db = db.clone();
        runtime.spawn("closer", move || {
            let refused = db.put_opt(&impatient, b"k", b"v").unwrap_err();
            (refused.kind(), db.close().map_err(|error| error.kind()))
        })
    };
    assert_eq!(closer.join().unwrap(), (ErrorKind::Incomplete, Ok(())));
    for writer in writers {
        assert_eq!(writer.join().unwrap(), ErrorKind::ShutdownInProgress);
    }
    assert_eq!(flusher.join().unwrap(), Err(ErrorKind::ShutdownInProgress));
    drop((runtime, db));
    let db = Db::open(&options, &dir).unwrap();
    let written = done.load(SeqCst);
    let mut iter = db.cursor_opt(&ReadOptions::default()).unwrap();
    iter.seek_to_first();
    let mut found = 0;
    while iter.valid() {
        found += 1;
        iter.next();
    }
    assert_eq!(found, written, "what was acknowledged is there, and nothing else");
    drop(iter);
    db.close().unwrap();
    Db::destroy(&options, &dir).unwrap();
}
