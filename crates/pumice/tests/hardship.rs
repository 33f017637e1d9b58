//! What must still work when things go badly: a slowed writer whose database closes, an error for
//! whose recovery there is no thread, a compaction whose parts get no threads.
//!
//! Plain #[test]: a simulation is a runtime of its own, in which time and refusals are exact.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use pumice::{CompactRangeOptions, Db, FlushOptions, MemFs, Options, ReadOptions, WriteOptions};
use pumice_env::mem::{Fault, FaultOp, FaultRule};
use pumice_port::{sim, thread, time};

const DIR: &str = "/db";
const SECOND: u64 = 1_000_000_000;

fn options(fs: &MemFs) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.file_system = fs.shared();
    options
}

fn put(db: &Db, key: &str, value: &[u8]) -> pumice::Result<()> {
    db.put(&WriteOptions::default(), key.as_bytes(), value)
}

fn flush(db: &Db) {
    db.flush(&FlushOptions::default()).unwrap();
}

/// Runs `body` under a few schedules.
fn simulate(body: impl Fn(&MemFs)) {
    for seed in 0..10 {
        let (report, outcome) = sim::run(&sim::Options::new(seed), || body(&MemFs::new(seed)));
        let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
        assert!(outcome.is_ok() && stuck.is_empty(), "seed {seed}: {outcome:?}\n{stuck}");
    }
}

#[test]
fn a_slowed_writer_does_not_outwait_a_close() {
    simulate(|fs| {
        let mut options = options(fs);
        options.cf.level0_file_num_compaction_trigger = 4;
        options.cf.level0_slowdown_writes_trigger = 4;
        options.db.delayed_write_rate = 1000;
        let db = Arc::new(Db::open(&options, DIR).unwrap());
        for n in 0..4 {
            if n == 3 {
                // The last flush makes one table; the compaction after it is at its first for long.
                let stall = Fault::Stall(1000 * SECOND);
                let (op, path_glob) = (Some(FaultOp::Create), "*.sst".to_string());
                fs.add_fault(FaultRule { op, path_glob, skip: 1, count: 1, fault: stall });
            }
            put(&db, "a", format!("{n}").as_bytes()).unwrap();
            flush(&db);
        }
        let slowed = Arc::clone(&db);
        let writer = thread::spawn("writer", move || {
            let written = put(&slowed, "b", &[b'x'; 200_000]);
            (written, time::now_nanos())
        });
        thread::sleep(Duration::from_secs(2));
        let closed_at = time::now_nanos();
        let closing = Arc::clone(&db);
        let close = thread::spawn("close", move || closing.close());
        let (written, ended_at) = writer.join().unwrap();
        assert!(ended_at > closed_at, "the writer was not slowed");
        assert!(ended_at - closed_at < SECOND, "{} ns after the close", ended_at - closed_at);
        assert!(written.unwrap_err().to_string().contains("closing"));
        drop(close.join());
    });
}

#[test]
fn an_error_that_found_no_thread_is_recovered_from_after_the_next() {
    simulate(|fs| {
        let mut options = options(fs);
        options.db.bgerror_resume_retry_interval = 1_000_000;
        let db = Db::open(&options, DIR).unwrap();
        put(&db, "a", b"1").unwrap();
        sim::refuse_tasks("pumice:resume", 1);
        fs.set_quota(Some(fs.used_bytes()));
        assert!(db.flush_wal(true).and_then(|()| put(&db, "a", b"2")).unwrap_err().is_no_space());
        assert_eq!(sim::refused_tasks(), 1);
        fs.set_quota(None);
        // There is room, but nobody who finds out.
        thread::sleep(Duration::from_secs(20));
        put(&db, "a", b"2").unwrap_err();
        // The log says again that it failed, and this time somebody takes care of it.
        db.flush_wal(true).unwrap_err();
        let mut tries = 0;
        while let Err(error) = put(&db, "a", b"3") {
            tries += 1;
            assert!(tries < 20, "nobody recovers: {error}");
            thread::sleep(Duration::from_secs(1));
        }
        let found = db.get(&ReadOptions::default(), b"a").unwrap();
        assert_eq!(found.as_deref(), Some(&b"3"[..]));
        db.close().unwrap();
    });
}

#[test]
fn a_compaction_loses_nothing_when_its_parts_get_no_threads() {
    const FILES: usize = 4;
    const KEYS: usize = 60;
    for times in [1, 2, u64::MAX] {
        simulate(|fs| {
            let mut options = options(fs);
            options.db.max_subcompactions = FILES as u32;
            options.cf.disable_auto_compactions = true;
            options.cf.target_file_size_base = 4 << 10;
            let db = Db::open(&options, DIR).unwrap();
            for file in 0..FILES {
                for n in 0..KEYS {
                    let key = format!("{:04}", file * KEYS / 2 + n);
                    put(&db, &key, format!("{file}-{n}-{:0100}", n).as_bytes()).unwrap();
                }
                flush(&db);
            }
            let read = |db: &Db| {
                let mut all = Vec::new();
                let mut cursor = db.iter(&ReadOptions::default()).unwrap();
                cursor.seek_to_first();
                while cursor.valid() {
                    all.push((cursor.key().to_vec(), cursor.value().to_vec()));
                    cursor.next();
                }
                cursor.status().unwrap();
                all
            };
            let before = read(&db);
            sim::refuse_tasks("pumice:sub", times);
            db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
            assert!(sim::refused_tasks() >= times.min(2), "{} parts", sim::refused_tasks());
            assert_eq!(before.len(), KEYS / 2 * (FILES + 1));
            assert!(read(&db) == before, "keys were lost");
            db.close().unwrap();
        });
    }
}
