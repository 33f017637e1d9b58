//! Listeners that drop the last handle, and that call while files are deleted.

use std::sync::Arc;
use std::time::Duration;

use pumice::stats::listener::{
    CompactionJobInfo, FlushJobInfo, MemTableInfo, TableFileCreationInfo, TableFileDeletionInfo,
};
use pumice::{CompactRangeOptions, Db, EventListener, FlushOptions, MemFs, Options, WriteOptions};
use pumice_port::sync::{Condvar, Mutex};
use pumice_port::thread;

use super::simulate;
use crate::common::{DIR, SYNC, get, key, options};

const SEEDS: u64 = 12;
const KEYS: usize = 30;

/// Holds a handle, and does something with it at one event.
struct Acts {
    event: &'static str,
    act: fn(Option<Db>),
    db: Mutex<Option<Db>>,
    /// The event waits until the handle is there.
    given: Condvar,
    happened: Mutex<bool>,
}

impl Acts {
    fn at(event: &'static str, act: fn(Option<Db>)) -> Arc<Self> {
        Arc::new(Acts {
            event,
            act,
            db: Mutex::new(None),
            given: Condvar::new(),
            happened: Mutex::new(false),
        })
    }

    fn give(&self, db: Db) {
        *self.db.lock() = Some(db);
        self.given.notify_all();
    }

    fn has_happened(&self) -> bool {
        *self.happened.lock()
    }

    fn step(&self, event: &str) {
        if event != self.event || std::mem::replace(&mut *self.happened.lock(), true) {
            return;
        }
        let mut db = self.db.lock();
        while db.is_none() {
            db = self.given.wait(db);
        }
        let taken = db.take();
        drop(db);
        (self.act)(taken);
    }
}

macro_rules! events {
    ($($event:ident($info:ty)),* $(,)?) => {
        impl EventListener for Acts {
            $(fn $event(&self, _info: &$info) {
                self.step(stringify!($event));
            })*
        }
    };
}

events! {
    on_flush_begin(FlushJobInfo),
    on_flush_completed(FlushJobInfo),
    on_compaction_begin(CompactionJobInfo),
    on_compaction_completed(CompactionJobInfo),
    on_table_file_created(TableFileCreationInfo),
    on_table_file_deleted(TableFileDeletionInfo),
    on_memtable_sealed(MemTableInfo),
}

fn with(listener: &Arc<Acts>, fs: &MemFs) -> Options {
    let mut options = options(&fs.shared());
    options.db.listeners.push(Arc::clone(listener) as _);
    options.cf.level0_file_num_compaction_trigger = 2;
    options
}

/// Opens once the holder of the directory releases it.
fn open_at_last(options: &Options) -> Db {
    loop {
        match Db::open(options, DIR) {
            Ok(db) => return db,
            Err(error) => assert!(error.to_string().contains("lock"), "{error}"),
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn check(db: &Db) {
    for n in 0..KEYS {
        assert_eq!(get(db, &key(n)).as_deref(), Some(&b"kept"[..]), "key {n}");
    }
}

/// The listener has the last handle when the event comes.
fn dropped_at(seed: u64, event: &'static str) {
    let fs = MemFs::new(seed);
    let listener = Acts::at(event, drop);
    let db = Db::open(&with(&listener, &fs), DIR).unwrap();
    for n in 0..3 * KEYS {
        db.put_opt(&SYNC, &key(n % KEYS), b"kept").unwrap();
        if n % KEYS == KEYS - 1 && !listener.has_happened() {
            let unwaited =
                FlushOptions { wait: false, allow_write_stall: true, ..FlushOptions::default() };
            db.flush_opt(&unwaited).unwrap();
            thread::sleep(Duration::from_millis(5));
        }
    }
    db.put_opt(&WriteOptions { disable_wal: true, ..SYNC_OFF }, &key(KEYS), b"unlogged").unwrap();
    assert!(listener.has_happened(), "{event} has not happened");
    listener.give(db);
    let db = open_at_last(&options(&fs.shared()));
    check(&db);
    assert_eq!(get(&db, &key(KEYS)).as_deref(), Some(&b"unlogged"[..]));
    db.close().unwrap();
}

const SYNC_OFF: WriteOptions = WriteOptions { sync: false, ..SYNC };

// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn the_last_handle_goes_in_a_listener() {
    for event in [
        "on_flush_begin",
        "on_flush_completed",
        "on_compaction_begin",
        "on_compaction_completed",
        "on_table_file_created",
        "on_table_file_deleted",
        "on_memtable_sealed",
    ] {
        for seed in 0..SEEDS {
            simulate(seed, event, move || dropped_at(seed, event));
        }
    }
}

/// Calls that a program makes when a file was deleted.
fn calls_back(db: Option<Db>) {
    let db = db.unwrap();
    let put = db.put_opt(&WriteOptions::default(), b"from the listener", b"1");
    if let Err(error) = put {
        assert_eq!(error.kind(), pumice::ErrorKind::ShutdownInProgress, "{error}");
    }
    db.disable_file_deletions();
    db.enable_file_deletions();
    db.property("rocksdb.stats").unwrap();
    check(&db);
}

/// Files that only the close deletes: the listener hears of them while the close is under way.
fn deleted_by_close(seed: u64) {
    let fs = MemFs::new(seed);
    let listener = Acts::at("on_table_file_deleted", calls_back);
    let db = Db::open(&with(&listener, &fs), DIR).unwrap();
    db.disable_file_deletions();
    for n in 0..3 * KEYS {
        db.put_opt(&SYNC, &key(n % KEYS), b"kept").unwrap();
        if n % KEYS == KEYS - 1 {
            db.flush_opt(&FlushOptions::default()).unwrap();
        }
    }
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    let iter = db.cursor_opt(&Default::default()).unwrap();
    listener.give(db.clone());
    if seed.is_multiple_of(2) {
        drop(iter);
        db.enable_file_deletions();
        assert!(listener.has_happened());
    } else {
        db.enable_file_deletions();
        drop(iter); // A job deletes them now, or the close does.
    }
    db.close().unwrap();
    drop(db);
    let db = open_at_last(&options(&fs.shared()));
    check(&db);
    db.close().unwrap();
}

// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn a_listener_calls_while_files_are_deleted() {
    for seed in 0..SEEDS {
        simulate(seed, "deleted", move || deleted_by_close(seed));
    }
}
