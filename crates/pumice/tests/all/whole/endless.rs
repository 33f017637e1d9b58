//! Faults that never end: for each kind of file and each kind of operation one that always fails.
//!
//! Writers, readers, flushes, compactions, ingestions, checkpoints, families created and dropped:
//! each call returns within a bound of virtual time, and so does the close. Nothing is corrupt.
//! Afterwards, in half of the cases without reopening, the fault ends: the database takes writes
//! again, and all that was acknowledged is there.
//!
//! Small memtables and triggers lead writers into every kind of stall. Plain #[test]: a simulation
//! is a runtime of its own.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pumice::{
    ColumnFamily, ColumnFamilyDescriptor, CompactRangeOptions, Db, FileSystem, FlushOptions,
    IngestExternalFileOptions, MemFs, Options, ReadOptions, SstFileWriter, WaitForCompactOptions,
    WriteBatch, WriteBufferManager, WriteOptions,
};
use pumice_env::mem::{Fault, FaultOp, FaultRule, FsyncFailure};
use pumice_port::sync::Mutex;
use pumice_port::{sim, thread, time};

const DIR: &str = "/db";
const SECOND: u64 = 1_000_000_000;
/// A call takes at most this long while the fault lasts.
const CALL_MAX: u64 = 60 * SECOND;
/// Two flushes and a compaction of a healthy family take less.
const WELL_MAX: u64 = SECOND / 20;
/// When the fault is over, the database takes writes again within this many attempts, 0.1 s apart.
const TRIES: u32 = 100;

const FILES: [&str; 8] = [
    "/db/*.log",
    "/db/*.sst",
    "/db/MANIFEST-*",
    "/db/CURRENT*",
    "/db/*.dbtmp",
    "/db/OPTIONS-*",
    "/db",
    "/db*",
];

const FAULTS: [(FaultOp, Fault); 13] = [
    (FaultOp::Create, Fault::Eio),
    (FaultOp::Create, Fault::Emfile),
    (FaultOp::Create, Fault::Enospc),
    (FaultOp::Open, Fault::Eio),
    (FaultOp::Open, Fault::Emfile),
    (FaultOp::Read, Fault::Eio),
    (FaultOp::Write, Fault::Eio),
    (FaultOp::Write, Fault::Enospc),
    (FaultOp::Sync, Fault::Fsync(FsyncFailure::ReadableThenLost)),
    (FaultOp::SyncDir, Fault::Eio),
    (FaultOp::Rename, Fault::Eio),
    (FaultOp::Remove, Fault::Eio),
    (FaultOp::Close, Fault::Eio),
];

/// How a database is opened: by stalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Writers wait for few memtables and few files of level 0.
    Impatient,
    /// Writers that wait for a write-buffer manager.
    Buffered,
}

fn options(fs: &MemFs, kind: Kind) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.file_system = fs.shared();
    options.db.max_background_jobs = 4;
    options.db.max_open_files = 4;
    options.db.max_manifest_file_size = 2000;
    options.db.bgerror_resume_retry_interval = 200_000;
    options.cf.write_buffer_size = 8 << 10;
    options.cf.arena_block_size = 4 << 10;
    options.cf.max_write_buffer_number = 2;
    options.cf.level0_file_num_compaction_trigger = 2;
    options.cf.level0_slowdown_writes_trigger = 4;
    options.cf.level0_stop_writes_trigger = 4;
    options.cf.ttl = 0;
    // This is about how long jobs wait for each other, not about how writes are admitted.
    options.db.background_policy = pumice::options::BackgroundPolicy::Static;
    options.cf.table_factory.no_block_cache = true;
    if kind == Kind::Buffered {
        options.db.write_buffer_manager = Some(WriteBufferManager::new(24 << 10, None, true));
        options.cf.max_write_buffer_number = 8;
    }
    options
}

/// One caller: does something again and again.
type Call = fn(&Case, u32) -> pumice::Result<()>;

const CALLS: [(&str, Call); 13] = [
    ("put", |case, n| case.put(&format!("a{}", n % 5), false)),
    ("synced put", |case, n| case.put(&format!("b{}", n % 5), true)),
    ("get", |case, _| case.db.get_opt(&ReadOptions::default(), b"a1").map(drop)),
    ("iterate", |case, _| {
        let mut cursor = case.db.cursor_opt(&ReadOptions::default())?;
        cursor.seek_to_first();
        while cursor.valid() {
            cursor.next();
        }
        cursor.status()
    }),
    ("flush", |case, _| case.db.flush_opt(&FlushOptions::default())),
    ("sync_wal", |case, _| case.db.sync_wal()),
    ("compact_range", |case, n| {
        let (change_level, target_level) = (n % 2 == 1, 2 + (n % 3) as i32);
        let how = CompactRangeOptions { change_level, target_level, ..Default::default() };
        case.db.compact_range(&how, None, None)
    }),
    ("wait_for_compact", |case, _| {
        case.db.wait_for_compact(&WaitForCompactOptions { flush: true, ..Default::default() })
    }),
    ("ingest", |case, n| case.ingest(n)),
    ("checkpoint", |case, n| case.db.checkpoint(format!("/copy{n}"))),
    ("families", |case, n| {
        let family = case.db.create_column_family(&case.options.cf, &format!("f{n}"))?;
        case.db.put_cf_opt(&WriteOptions::default(), &family, b"k", b"v")?;
        case.db.drop_column_family(&family)
    }),
    ("options", |case, n| {
        let default = case.db.default_column_family();
        case.db.set_options_cf(default, &[("ttl", if n % 2 == 0 { "0" } else { "100000" })])?;
        case.db.set_db_options(&[("max_background_jobs", if n % 2 == 0 { "3" } else { "4" })])
    }),
    ("verify_checksum", |case, _| case.db.verify_checksum()),
];

struct Case {
    db: Db,
    fs: MemFs,
    options: Options,
    /// What was written: acknowledged, and in all.
    written: Mutex<BTreeMap<String, (u32, u32)>>,
}

impl Case {
    fn put(&self, key: &str, sync: bool) -> pumice::Result<()> {
        let number = {
            let mut written = self.written.lock();
            let entry = written.entry(key.to_string()).or_default();
            entry.1 += 1;
            entry.1
        };
        let mut value = number.to_string().into_bytes();
        value.resize(1000, b' ');
        let options = WriteOptions { sync, ..WriteOptions::default() };
        self.db.put_opt(&options, key.as_bytes(), &value)?;
        self.written.lock().get_mut(key).unwrap().0 = number;
        Ok(())
    }

    fn ingest(&self, n: u32) -> pumice::Result<()> {
        let path = PathBuf::from(format!("/in/{n}.sst"));
        let mut writer = SstFileWriter::new(&self.options)?;
        writer.open(&path)?;
        writer.put(format!("i{n}").as_bytes(), b"v")?;
        writer.finish()?;
        self.db.ingest_external_file(&IngestExternalFileOptions::default(), &[path])
    }

    fn check(&self, db: &Db) {
        for (key, (acknowledged, issued)) in &*self.written.lock() {
            let found = db.get_opt(&ReadOptions::default(), key.as_bytes()).unwrap();
            let number: u32 = found
                .map_or(0, |value| std::str::from_utf8(&value).unwrap().trim().parse().unwrap());
            assert!((acknowledged..=issued).contains(&&number), "{key}: {number}");
        }
        db.verify_checksum().unwrap();
    }
}

/// Calls one function for a while; each call ends in time, and no error is corruption.
fn call(case: &Case, name: &str, call: Call) {
    for n in 0..12 {
        let started = time::now_nanos();
        let done = call(case, n);
        let took = time::now_nanos() - started;
        assert!(took < CALL_MAX, "{name}: {took} ns");
        if let Err(error) = done {
            assert!(!error.is_corruption(), "{name}: {error}");
            thread::sleep(Duration::from_millis(1 + sim::random_below(400)));
        }
    }
}

/// Writes until that works again.
fn heal(case: &Case) {
    let mut last = None;
    for _ in 0..TRIES {
        match case.put("healed", true) {
            Ok(()) => return,
            Err(error) => last = Some(error),
        }
        drop(case.db.resume());
        thread::sleep(Duration::from_millis(100));
    }
    panic!("no write after the fault was over: {last:?}");
}

/// With families whose creation or drop was not acknowledged.
fn open_all(options: &Options) -> Db {
    let names = Db::list_column_families(&options.db, DIR).unwrap();
    let families: Vec<_> =
        names.iter().map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone())).collect();
    Db::open_cf(&options.db, DIR, &families).unwrap().0
}

fn life(fs: &MemFs, kind: Kind, file: &str, (op, fault): (FaultOp, Fault)) {
    let options = options(fs, kind);
    fs.create_dir_all("/in".as_ref()).unwrap();
    let db = Db::open(&options, DIR).unwrap();
    let case = Case { db, fs: fs.clone(), options: options.clone(), written: Mutex::default() };
    let case = Arc::new(case);
    for n in 0..12 {
        case.put(&format!("a{}", n % 5), n == 11).unwrap();
    }
    case.db.flush_opt(&FlushOptions::default()).unwrap();
    case.put("a0", true).unwrap();
    // From here on, or from some later operation.
    let skip = if sim::random_below(2) == 0 { 0 } else { sim::random_below(12) };
    let path_glob = file.to_string();
    fs.add_fault(FaultRule { op: Some(op), path_glob, skip, count: u64::MAX, fault });
    let callers: Vec<_> = CALLS
        .into_iter()
        .map(|(name, function)| {
            let case = Arc::clone(&case);
            thread::spawn(name, move || call(&case, name, function))
        })
        .collect();
    callers.into_iter().for_each(|caller| caller.join().unwrap());
    let reopen = sim::random_below(2) == 0;
    if !reopen {
        case.fs.clear_faults();
        heal(&case);
    }
    let started = time::now_nanos();
    let closed = case.db.close();
    assert!(time::now_nanos() - started < CALL_MAX, "close");
    if !reopen {
        closed.unwrap();
    }
    case.fs.clear_faults();
    let case = Arc::into_inner(case).unwrap();
    let db = open_all(&options);
    case.check(&db);
    db.close().unwrap();
    let db = open_all(&options);
    case.check(&db);
    db.put_opt(&WriteOptions::default(), b"last", b"").unwrap();
    db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
    db.close().unwrap();
}

/// A healthy family keeps working while another has an unreadable table, and while families are
/// dropped during their compactions.
fn beside_the_sick(fs: &MemFs, (op, fault): (FaultOp, Fault)) {
    let mut options = options(fs, Kind::Impatient);
    options.cf.write_buffer_size = 1 << 20;
    let mut db = Db::open(&options, DIR).unwrap();
    let fill = |db: &Db, family: &ColumnFamily, keys: u32| {
        let mut batch = WriteBatch::new();
        (0..keys).for_each(|n| batch.put_cf(family.id(), &n.to_be_bytes(), b"v"));
        db.write_opt(&WriteOptions::default(), &mut batch).unwrap();
        db.flush_cfs_opt(&FlushOptions::default(), &[family]).unwrap();
        let files = db.live_files_metadata().into_iter();
        let newest = files.filter(|file| file.column_family_name == family.name());
        format!("*{}", newest.map(|file| file.name).max().unwrap())
    };
    let sick = db.create_column_family(&options.cf, "sick").unwrap();
    let path_glob = fill(&db, &sick, 2);
    // A job leaves its tables open.
    db.close().unwrap();
    let descriptors =
        ["default", "sick"].map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
    let families;
    (db, families) = Db::open_cf(&options.db, DIR, &descriptors).unwrap();
    let [well, sick] = &families[..] else { panic!("two families") };
    fs.add_fault(FaultRule { op: Some(op), path_glob, skip: 0, count: u64::MAX, fault });
    fill(&db, sick, 2);
    thread::sleep(Duration::from_millis(50));
    assert!(!fs.fault_log().is_empty(), "the fault was not met");
    for round in 0..4 {
        let doomed = db.create_column_family(&options.cf, &format!("doomed{round}")).unwrap();
        // Enough keys that a compaction checks for cancellation, and slow to read.
        let path_glob = fill(&db, &doomed, 3000);
        let fault = Fault::Stall(SECOND / 100);
        fs.add_fault(FaultRule { op: Some(FaultOp::Read), path_glob, skip: 0, count: 9, fault });
        fill(&db, &doomed, 3000);
        thread::sleep(Duration::from_micros(sim::random_below(15_000)));
        db.drop_column_family(&doomed).unwrap();
        // What waits for a disk is done.
        thread::sleep(Duration::from_millis(100));
        let started = time::now_nanos();
        fill(&db, well, 2);
        fill(&db, well, 2);
        let level0 = || db.property_cf(well, "rocksdb.num-files-at-level0").unwrap();
        while level0() != "0" {
            let waited = time::now_nanos() - started;
            assert!(waited < WELL_MAX, "{waited} ns for a compaction of round {round}");
            thread::sleep(Duration::from_millis(1));
        }
    }
    fs.clear_faults();
    db.close().unwrap();
}

#[test]
fn what_is_well_goes_on() {
    let faults =
        [(FaultOp::Open, Fault::Eio), (FaultOp::Open, Fault::Emfile), (FaultOp::Read, Fault::Eio)];
    for (seed, fault) in faults.into_iter().cycle().take(18).enumerate() {
        let seed = seed as u64;
        let mut options = sim::Options::new(seed);
        options.max_virtual_nanos = 600 * SECOND;
        let (report, outcome) = sim::run(&options, || beside_the_sick(&MemFs::new(seed), fault));
        let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
        assert!(
            outcome.is_ok() && stuck.is_empty(),
            "{fault:?}, seed {seed}: {outcome:?}\n{stuck}"
        );
    }
}

#[test]
fn nobody_waits_for_ever() {
    let seeds: u64 = std::env::var("PUMICE_ENDLESS_SEEDS").map_or(1, |n| n.parse().unwrap());
    let (mut runs, mut failures) = (0u64, Vec::new());
    for kind in [Kind::Impatient, Kind::Buffered] {
        for file in FILES {
            for (n, fault) in FAULTS.into_iter().enumerate() {
                for seed in 0..seeds {
                    let seed = (seed * 16 + n as u64) * 2 + u64::from(kind == Kind::Buffered);
                    let mut options = sim::Options::new(seed);
                    options.max_virtual_nanos = 3600 * SECOND;
                    let body = || life(&MemFs::new(seed), kind, file, fault);
                    let (report, outcome) = sim::run(&options, body);
                    runs += 1;
                    let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
                    if outcome.is_err() || !stuck.is_empty() {
                        let what = format!("{kind:?} {file} {fault:?}, seed {seed}");
                        failures.push(format!("{what}: {outcome:?}\n{stuck}"));
                    }
                }
            }
        }
    }
    println!("{runs} runs");
    assert!(failures.is_empty(), "{} of {runs}:\n{}", failures.len(), failures.join("\n"));
}
