//! Failures of calls that lead or hold locks: the listener has been told of one when the call
//! returns, and no lock is held while it is told, so that it may call the database.

use std::path::Path;
use std::sync::Arc;

use pumice::stats::listener::BackgroundErrorReason;
use pumice::{
    Db, Error, EventListener, FlushOptions, IngestExternalFileOptions, MemFs, Options, ReadOptions,
    Result, SstFileWriter, WriteOptions,
};
use pumice_env::mem::{Fault, FaultOp, FaultRule};
use pumice_port::sync::Mutex;
use pumice_port::thread;

use super::simulate;
use crate::common::{DIR, SYNC, key, options};

const SEEDS: u64 = 5;

/// Calls the database from each event, itself and through another thread that it waits for.
#[derive(Default)]
struct Hears {
    db: Mutex<Option<Db>>,
    reasons: Mutex<Vec<BackgroundErrorReason>>,
}

fn call(db: &Db) {
    let found = db.get_opt(&ReadOptions::default(), &key(1)).unwrap();
    assert_eq!(found.as_deref(), Some(&b"kept"[..]));
    drop(db.snapshot());
    db.property("rocksdb.stats").unwrap();
    db.disable_file_deletions();
    db.enable_file_deletions();
    db.put_opt(&WriteOptions::default(), b"from the listener", b"1").unwrap_err();
    db.flush_opt(&FlushOptions::default()).unwrap_err();
}

impl EventListener for Hears {
    fn on_background_error(&self, reason: BackgroundErrorReason, _: &Error) {
        let first = self.reasons.lock().is_empty();
        self.reasons.lock().push(reason);
        let db = self.db.lock().clone();
        let Some(db) = db.filter(|_| first) else { return };
        call(&db);
        thread::spawn("beside the listener", move || call(&db)).join().unwrap();
    }
}

fn ingest(db: &Db, options: &Options) -> Result<()> {
    let path = Path::new("/outside.sst");
    let mut writer = SstFileWriter::new(options)?;
    writer.open(path)?;
    writer.put(b"outside", b"1")?;
    writer.finish()?;
    db.ingest_external_file(&IngestExternalFileOptions::default(), &[path])
}

type Call = fn(&Db, &Options) -> Result<()>;

/// What fails, and where.
static CALLS: [(&str, FaultOp, &str, Call); 9] = [
    ("put", FaultOp::Sync, "*.log", |db, _| db.put_opt(&SYNC, b"a", b"1")),
    ("large put", FaultOp::Write, "*.log", |db, _| db.put_opt(&SYNC, b"a", &[b'l'; 5000])),
    ("write", FaultOp::Sync, "*.log", |db, _| {
        let mut batch = pumice::WriteBatch::new();
        batch.put(b"a", b"1");
        db.write_opt(&SYNC, &mut batch)
    }),
    ("sync_wal", FaultOp::Sync, "*.log", |db, _| db.sync_wal()),
    ("flush that needs a log", FaultOp::Create, "*.log", |db, _| {
        db.flush_opt(&FlushOptions::default())
    }),
    ("create_column_family", FaultOp::Sync, "*MANIFEST-*", |db, options| {
        db.create_column_family(&options.cf, "new").map(drop)
    }),
    ("drop_column_family", FaultOp::Sync, "*MANIFEST-*", |db, _| {
        db.drop_column_family(&db.column_family("old").unwrap())
    }),
    ("ingestion", FaultOp::Sync, "*MANIFEST-*", ingest),
    ("ingestion that syncs the log", FaultOp::Sync, "*.log", ingest),
];

fn told_of(seed: u64, call: usize) {
    let (what, op, path, call) = CALLS[call];
    let fs = MemFs::new(seed);
    let listener = Arc::new(Hears::default());
    let mut options = options(&fs.shared());
    options.db.listeners.push(Arc::clone(&listener) as _);
    options.db.max_bgerror_resume_count = 0;
    let db = Db::open(&options, DIR).unwrap();
    db.create_column_family(&options.cf, "old").unwrap();
    db.put_opt(&WriteOptions::default(), &key(1), b"kept").unwrap();
    *listener.db.lock() = Some(db.clone());
    fs.add_fault(FaultRule::once(op, path, 0, Fault::Eio));
    let error = call(&db, &options).unwrap_err();
    let reasons = listener.reasons.lock().clone();
    assert!(!reasons.is_empty(), "{what}: {error} is not reported");
    *listener.db.lock() = None;
    db.resume().unwrap();
    db.put_opt(&SYNC, b"after", b"1").unwrap();
    db.close().unwrap();
}

// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn listeners_hear_of_a_failure_before_the_caller() {
    for (index, (what, ..)) in CALLS.iter().enumerate() {
        for seed in 0..SEEDS {
            simulate(seed, what, move || told_of(seed, index));
        }
    }
}

/// Takes back what it hears of.
#[derive(Default)]
struct Forgets(Mutex<Vec<BackgroundErrorReason>>);

impl EventListener for Forgets {
    fn on_job_error(&self, reason: BackgroundErrorReason, _: &Error) -> bool {
        self.0.lock().push(reason);
        true
    }
}

/// The flush is tried again, and nothing else has noticed.
#[pumice_test_macros::test]
fn an_error_that_a_listener_takes_back_stops_nothing() {
    let fs = MemFs::new(1);
    let mut options = options(&fs.shared());
    let listener = Arc::new(Forgets::default());
    options.db.listeners.push(listener.clone());
    options.db.bgerror_resume_retry_interval = 1000;
    options.db.max_bgerror_resume_count = 0;
    let db = Db::open(&options, DIR).unwrap();
    db.put("a", "1").unwrap();
    fs.add_fault(FaultRule::once(FaultOp::Create, "*.sst", 0, Fault::Eio));
    db.flush().unwrap();
    assert_eq!(*listener.0.lock(), [BackgroundErrorReason::Flush]);
    assert_eq!(db.background_error(), None);
    db.put("b", "2").unwrap();
    db.flush().unwrap();
    assert_eq!(db.live_files_metadata().len(), 2);
}

/// No listener can take back an error of the MANIFEST, and none is asked to.
#[pumice_test_macros::test]
fn an_error_of_the_manifest_is_not_taken_back() {
    struct Both(Forgets, Mutex<Vec<BackgroundErrorReason>>);
    impl EventListener for Both {
        fn on_job_error(&self, reason: BackgroundErrorReason, error: &Error) -> bool {
            self.0.on_job_error(reason, error)
        }
        fn on_background_error(&self, reason: BackgroundErrorReason, _: &Error) {
            self.1.lock().push(reason);
        }
    }
    let fs = MemFs::new(1);
    let mut options = options(&fs.shared());
    let listener = Arc::new(Both(Forgets::default(), Mutex::default()));
    options.db.listeners.push(listener.clone());
    options.db.max_bgerror_resume_count = 0;
    let db = Db::open(&options, DIR).unwrap();
    db.put("a", "1").unwrap();
    fs.add_fault(FaultRule::once(FaultOp::Sync, "*MANIFEST*", 0, Fault::Eio));
    db.flush().unwrap_err();
    assert!(listener.0.0.lock().is_empty());
    assert_eq!(*listener.1.lock(), [BackgroundErrorReason::ManifestWrite]);
    assert!(db.background_error().is_some());
}
