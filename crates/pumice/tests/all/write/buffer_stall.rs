//! Writers that a write-buffer manager stalls (`allow_stall`) always continue: the memory is
//! flushed, whichever database holds it, and memory that cannot be flushed is not waited for.
//!
//! Plain #[test]: a simulation is a runtime of its own, and detects endless waits.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{self, DIR};
use pumice::{
    ColumnFamily, Db, FlushOptions, MemFs, Options, ReadOptions, WriteBatch, WriteBufferManager,
    WriteOptions,
};
use pumice_env::mem::{Fault, FaultOp, FaultRule};
use pumice_port::{sim, thread, time};

const SEEDS: u64 = 20;
const SECOND: u64 = 1_000_000_000;
const LIMIT: usize = 64 << 10;
const WRITE: WriteOptions = WriteOptions {
    rate_limiter_priority: None,
    protection_bytes_per_key: 0,
    sync: false,
    disable_wal: false,
    no_slowdown: false,
    low_pri: false,
    ignore_missing_column_families: false,
};

/// Runs `body` under many schedules; it must not take more than a minute.
fn simulate(body: impl Fn(&MemFs)) {
    for seed in 0..SEEDS {
        let options = sim::Options {
            preempt_per_mille: 50,
            max_virtual_nanos: 60 * SECOND,
            ..sim::Options::new(seed)
        };
        let (report, outcome) = sim::run(&options, || body(&MemFs::new(seed)));
        let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
        assert!(outcome.is_ok() && stuck.is_empty(), "seed {seed}: {outcome:?}\n{stuck}");
    }
}

fn options(fs: &MemFs, manager: &Arc<WriteBufferManager>) -> Options {
    let mut options = common::options(&fs.shared());
    options.db.write_buffer_manager = Some(Arc::clone(manager));
    options.cf.arena_block_size = 4 << 10;
    options.cf.ttl = 0;
    options
}

fn manager() -> Arc<WriteBufferManager> {
    WriteBufferManager::new(LIMIT, None, true)
}

/// A batch of `bytes` in each of the families.
fn batch(families: &[&ColumnFamily], key: u32, bytes: usize) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for family in families {
        batch.put_cf(family.id(), &key.to_be_bytes(), &vec![b'v'; bytes]);
    }
    batch
}

fn write(db: &Db, key: u32, bytes: usize) {
    db.write_opt(&WRITE, &mut batch(&[db.default_column_family()], key, bytes)).unwrap();
}

#[test]
fn a_batch_over_two_families_fills_no_memory_for_good() {
    simulate(|fs| {
        let manager = manager();
        let options = options(fs, &manager);
        let db = Arc::new(Db::open(&options, DIR).unwrap());
        let other = db.create_column_family(&options.cf, "other").unwrap();
        let families = [db.default_column_family(), &other];
        db.write_opt(&WRITE, &mut batch(&families, 0, LIMIT + 1)).unwrap();
        // Each family alone is over the limit. Other tasks flush meanwhile.
        let flusher = {
            let (db, other) = (Arc::clone(&db), other.clone());
            thread::spawn("flusher", move || {
                db.flush_cfs_opt(&FlushOptions::default(), &[&other]).unwrap();
                db.flush_opt(&FlushOptions { allow_write_stall: true, ..Default::default() })
                    .unwrap();
            })
        };
        for key in 1..6 {
            db.write_opt(&WRITE, &mut batch(&families, key, LIMIT + 1)).unwrap();
        }
        flusher.join().unwrap();
        assert!(db.property_int("rocksdb.num-files-at-level0").unwrap() > 0);
        db.close().unwrap();
    });
}

#[test]
fn memtables_that_wait_to_be_merged_are_flushed() {
    simulate(|fs| {
        let manager = manager();
        let mut options = options(fs, &manager);
        options.cf.write_buffer_size = LIMIT / 5 * 2;
        options.cf.min_write_buffer_number_to_merge = 4;
        options.cf.max_write_buffer_number = 8;
        let db = Db::open(&options, DIR).unwrap();
        for key in 0..40 {
            write(&db, key, LIMIT / 20);
        }
        db.close().unwrap();
    });
}

#[test]
fn memory_that_readers_hold_is_not_waited_for() {
    simulate(|fs| {
        let manager = manager();
        let db = Db::open(&options(fs, &manager), DIR).unwrap();
        let mut cursors = Vec::new();
        for key in 0..30 {
            write(&db, key, LIMIT / 4);
            // The reader is also the writer, so nothing could end the wait.
            let mut cursor = db.cursor_opt(&ReadOptions::default()).unwrap();
            cursor.seek_to_first();
            cursors.push(cursor);
        }
        assert!(manager.memory_usage() > 2 * LIMIT, "{}", manager.memory_usage());
        db.flush_opt(&FlushOptions::default()).unwrap();
        for (n, cursor) in cursors.iter_mut().enumerate() {
            cursor.seek_to_last();
            assert_eq!(cursor.key().unwrap(), (n as u32).to_be_bytes());
        }
        drop(cursors);
        db.close().unwrap();
        drop(db);
        assert_eq!(manager.memory_usage(), 0);
    });
}

#[test]
fn memory_of_a_dropped_family_is_not_waited_for() {
    simulate(|fs| {
        let manager = manager();
        let options = options(fs, &manager);
        let db = Db::open(&options, DIR).unwrap();
        let other = db.create_column_family(&options.cf, "other").unwrap();
        db.write_opt(&WRITE, &mut batch(&[&other], 0, LIMIT + 1)).unwrap();
        db.drop_column_family(&other).unwrap();
        for key in 0..4 {
            write(&db, key, LIMIT / 3);
        }
        assert!(db.get_cf_opt(&ReadOptions::default(), &other, &[0; 4]).unwrap().is_some());
        db.close().unwrap();
    });
}

#[test]
fn memory_of_another_database_is_flushed() {
    simulate(|fs| {
        let manager = manager();
        let idle = Db::open(&options(fs, &manager), DIR).unwrap();
        let busy = Db::open(&options(fs, &manager), "/busy").unwrap();
        write(&idle, 0, LIMIT + 1);
        for key in 0..4 {
            write(&busy, key, LIMIT / 3);
        }
        assert_eq!(idle.property_int("rocksdb.num-files-at-level0"), Some(1));
        write(&idle, 1, LIMIT + 1);
        // Nothing would flush what is in memory when a database closes.
        idle.close().unwrap();
        for key in 0..4 {
            write(&busy, key, LIMIT / 3);
        }
        drop(idle);
        busy.close().unwrap();
    });
}

#[test]
fn memory_of_a_reader_is_not_waited_for() {
    simulate(|fs| {
        let manager = manager();
        let mut alone = options(fs, &manager);
        alone.db.write_buffer_manager = None;
        let db = Db::open(&alone, DIR).unwrap();
        write(&db, 0, LIMIT + 1);
        db.close().unwrap();
        let shared = options(fs, &manager);
        let default = pumice::ColumnFamilyDescriptor::new("default", shared.cf.clone());
        let (reader, _) = Db::open_read_only(&shared.db, DIR, &[default], false).unwrap();
        let busy = Db::open(&options(fs, &manager), "/busy").unwrap();
        for key in 0..4 {
            write(&busy, key, LIMIT / 3);
        }
        assert!(reader.get_opt(&ReadOptions::default(), &[0; 4]).unwrap().is_some());
        busy.close().unwrap();
    });
}

#[test]
fn a_limit_below_what_empty_memtables_take_stops_nobody() {
    simulate(|fs| {
        let manager = WriteBufferManager::new(1, None, true);
        let options = options(fs, &manager);
        let db = Db::open(&options, DIR).unwrap();
        let other = db.create_column_family(&options.cf, "other").unwrap();
        for key in 0..4 {
            db.write_opt(&WRITE, &mut batch(&[db.default_column_family(), &other], key, 100))
                .unwrap();
        }
        db.close().unwrap();
    });
}

#[test]
fn a_stalled_writer_waits_for_the_flush_and_no_longer() {
    simulate(|fs| {
        let manager = manager();
        let db = Db::open(&options(fs, &manager), DIR).unwrap();
        fs.add_fault(FaultRule::once(FaultOp::Create, "*.sst", 0, Fault::Stall(5 * SECOND)));
        write(&db, 0, LIMIT + 1);
        let started = time::now_nanos();
        write(&db, 1, 1);
        let waited = time::now_nanos() - started;
        assert!((5 * SECOND..6 * SECOND).contains(&waited), "{waited} ns");
        let refused = WriteOptions { no_slowdown: true, ..WRITE };
        fs.add_fault(FaultRule::once(FaultOp::Create, "*.sst", 0, Fault::Stall(5 * SECOND)));
        write(&db, 2, LIMIT + 1);
        let default = db.default_column_family();
        let error = db.write_opt(&refused, &mut batch(&[default], 3, 1)).unwrap_err();
        assert!(error.to_string().contains("Write stall"), "{error}");
        db.close().unwrap();
    });
}

#[test]
fn a_close_ends_the_stall() {
    simulate(|fs| {
        let manager = manager();
        let db = Arc::new(Db::open(&options(fs, &manager), DIR).unwrap());
        db.pause_background_work();
        write(&db, 0, LIMIT + 1);
        let writer = {
            let db = Arc::clone(&db);
            thread::spawn("writer", move || db.put_opt(&WRITE, b"k", b"v"))
        };
        thread::sleep(Duration::from_secs(3));
        let started = time::now_nanos();
        db.close().unwrap();
        let error = writer.join().unwrap().unwrap_err();
        assert!(error.to_string().contains("closing"), "{error}");
        assert!(time::now_nanos() - started < 2 * SECOND);
    });
}
