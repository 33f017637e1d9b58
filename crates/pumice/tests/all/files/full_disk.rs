//! A disk that is full, or refuses the MANIFEST: files that failed recoveries leave are deleted at
//! once, and dropping a column family frees space.
//!
//! Plain #[test]: a simulation is a runtime of its own.

use std::path::Path;
use std::time::Duration;

use pumice::{
    ColumnFamily, ColumnFamilyOptions, Db, FileSystem, FlushOptions, MemFs, Options, ReadOptions,
    WriteOptions,
};
use pumice_base::random::Rng;
use pumice_env::mem::{CrashMode, Fault, FaultOp, FaultRule};
use pumice_port::{sim, thread};

const DIR: &str = "/db";
const KEYS: u32 = 40;

fn options(fs: &MemFs) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.file_system = fs.shared();
    options
}

/// Runs `body` under a few schedules.
fn simulate(body: impl Fn(&MemFs)) {
    for seed in 0..5 {
        let limits =
            sim::Options { max_virtual_nanos: 3600 * 1_000_000_000, ..sim::Options::new(seed) };
        let (report, outcome) = sim::run(&limits, || body(&MemFs::new(seed)));
        let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
        assert!(outcome.is_ok() && stuck.is_empty(), "seed {seed}: {outcome:?}\n{stuck}");
    }
}

/// 10 KB under each of some keys.
fn fill(db: &Db, cf: &ColumnFamily) {
    let mut rng = Rng::new(1);
    for n in 0..KEYS {
        let value = rng.bytes(10 << 10);
        db.put_cf_opt(&WriteOptions::default(), cf, &n.to_be_bytes(), &value).unwrap();
    }
}

fn count(fs: &MemFs, part: &str) -> usize {
    fs.list(Path::new(DIR)).unwrap().iter().filter(|name| name.contains(part)).count()
}

/// Fills the disk up: the next write fails.
fn exhaust(fs: &MemFs, db: &Db) {
    fs.set_quota(Some(fs.used_bytes() + 5000));
    let put = db.put_opt(&WriteOptions::default(), b"refused", &[b'x'; 10_000]);
    assert!(put.unwrap_err().is_no_space());
}

/// Waits for the next automatic recovery.
fn assert_resumes(db: &Db) {
    for _ in 0..100 {
        if db.put_opt(&WriteOptions::default(), b"after", b"1").is_ok() {
            return;
        }
        thread::sleep(Duration::from_secs(1));
    }
    panic!("nothing is written though there is room");
}

/// Space is freed in portions that are too small for the flush: they add up.
#[test]
fn a_failed_recovery_does_not_eat_the_space_that_is_freed() {
    const PORTION: u64 = 100 << 10;
    simulate(|fs| {
        let db = Db::open(&options(fs), DIR).unwrap();
        let other = db.create_column_family(&ColumnFamilyOptions::default(), "other").unwrap();
        let families = [db.default_column_family(), &other];
        families.iter().for_each(|cf| fill(&db, cf));
        exhaust(fs, &db);
        let full = fs.used_bytes();
        let tables = 2 * u64::from(KEYS) * (10 << 10);
        for portion in 1.. {
            fs.set_quota(Some(full + portion * PORTION));
            thread::sleep(Duration::from_secs(5));
            if db.put_opt(&WriteOptions::default(), b"after", b"1").is_ok() {
                break;
            }
            let eaten = fs.used_bytes() - full;
            assert!(eaten < PORTION, "{eaten} bytes, {} tables", count(fs, ".sst"));
            assert!(portion * PORTION < tables + 2 * PORTION, "no recovery");
        }
        for cf in families {
            let found = db.get_cf_opt(&ReadOptions::default(), cf, &0u32.to_be_bytes()).unwrap();
            assert!(found.is_some());
        }
        db.close().unwrap();
    });
}

/// Each try would flush the same memtable to another table that nothing names.
#[test]
fn recoveries_that_cannot_write_the_manifest_leave_no_tables() {
    for (op, glob) in [(FaultOp::Write, "*MANIFEST-*"), (FaultOp::Create, "*.dbtmp")] {
        simulate(|fs| {
            let mut options = options(fs);
            options.db.max_manifest_file_size = 1;
            let db = Db::open(&options, DIR).unwrap();
            fill(&db, db.default_column_family());
            fs.add_fault(FaultRule::always(op, glob, Fault::Eio));
            db.flush_opt(&FlushOptions::default()).unwrap_err();
            thread::sleep(Duration::from_secs(60));
            assert!(count(fs, ".sst") <= 1, "{} tables, {glob}", count(fs, ".sst"));
            if op == FaultOp::Write {
                assert_eq!(count(fs, "MANIFEST"), 1);
            }
            fs.clear_faults();
            assert_resumes(&db);
            db.wait_for_compact(&Default::default()).unwrap();
            thread::sleep(Duration::from_secs(1));
            assert_eq!(count(fs, ".sst"), db.live_files_metadata().len());
            assert_eq!(count(fs, "MANIFEST"), 1);
            db.close().unwrap();
        });
    }
}

/// The outputs of a compaction whose MANIFEST write failed are deleted once another write is
/// durable.
#[test]
fn a_compaction_that_the_manifest_does_not_take_leaves_no_tables() {
    simulate(|fs| {
        let mut options = options(fs);
        options.cf.disable_auto_compactions = true;
        let db = Db::open(&options, DIR).unwrap();
        for _ in 0..2 {
            fill(&db, db.default_column_family());
            db.flush_opt(&FlushOptions::default()).unwrap();
        }
        fs.add_fault(FaultRule::once(FaultOp::Write, "*MANIFEST-*", 0, Fault::Eio));
        db.compact_range(&Default::default(), None, None).unwrap_err();
        thread::sleep(Duration::from_secs(5));
        assert_resumes(&db);
        assert_eq!(count(fs, ".sst"), db.live_files_metadata().len());
        db.close().unwrap();
    });
}

#[test]
fn dropping_a_family_is_a_way_out_of_a_full_disk() {
    // Before the first recovery is tried, and after some.
    for tried in [false, true] {
        simulate(|fs| {
            let mut options = options(fs);
            options.db.bgerror_resume_retry_interval = 5_000_000;
            let db = Db::open(&options, DIR).unwrap();
            let big = db.create_column_family(&ColumnFamilyOptions::default(), "big").unwrap();
            fill(&db, &big);
            db.flush_cfs_opt(&FlushOptions::default(), &[&big]).unwrap();
            let value = Rng::new(2).bytes(50_000);
            db.put_opt(&WriteOptions::default(), b"a", &value).unwrap();
            thread::sleep(Duration::from_secs(1)); // The log of the flushed data is deleted.
            exhaust(fs, &db);
            // Room for a MANIFEST record and the attempts' lines in LOG, no more.
            let room = if tried { 20_000 } else { 1000 };
            fs.set_quota(Some(fs.used_bytes() + room));
            thread::sleep(Duration::from_secs(if tried { 18 } else { 1 }));
            let full = fs.used_bytes();
            db.drop_column_family(&big).unwrap();
            let copy = fs.crashed_copy(1, CrashMode::UNSYNCED);
            copy.set_quota(None);
            let names = Db::list_column_families(&self::options(&copy).db, DIR).unwrap();
            assert_eq!(names, ["default"]);
            Db::open(&self::options(&copy), DIR).unwrap().close().unwrap();
            drop(big);
            thread::sleep(Duration::from_secs(1));
            let freed = full - fs.used_bytes();
            assert!(freed > 300_000, "{freed} bytes");
            assert_resumes(&db);
            thread::sleep(Duration::from_secs(1));
            assert_eq!(newest_options(fs).matches("[CFOptions").count(), 1, "big is not listed");
            db.close().unwrap();
            let db = Db::open(&options, DIR).unwrap();
            let found = db.get_opt(&ReadOptions::default(), b"a").unwrap();
            assert_eq!(found.as_deref(), Some(&value[..]));
            assert!(db.get_opt(&ReadOptions::default(), b"after").unwrap().is_some());
        });
    }
}

fn newest_options(fs: &MemFs) -> String {
    let names = fs.list(Path::new(DIR)).unwrap();
    let listed = |name: &&String| name.starts_with("OPTIONS") && !name.ends_with(".dbtmp");
    let newest = names.iter().filter(listed).max().unwrap();
    String::from_utf8(fs.read_file(&Path::new(DIR).join(newest)).unwrap()).unwrap()
}
