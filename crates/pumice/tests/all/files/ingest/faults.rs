//! Fails the i-th file operation of an ingestion, for every i, or cuts the power there: either all
//! files of the call are there or none, acknowledged data stays, later writes win, and no
//! unreferenced file survives the next open.

use pumice::{
    ColumnFamily, ColumnFamilyDescriptor, ColumnFamilyOptions, Db, IngestExternalFileArg,
    IngestExternalFileOptions, MemFs, Options, RangeOpt,
};
use pumice_env::mem::{CrashMode, Fault, FaultRule, FsyncFailure};
use pumice_testkit::seed;

use super::support::{DIR, assert_no_litter, table_of};
use crate::common::SYNC;

/// Tries of a write while the database recovers.
const TRIES: u32 = 2000;

#[derive(Clone, Copy, Debug)]
enum Mishap {
    /// The operation fails; the process continues and then reopens.
    Fails(Fault),
    /// The operation fails; the process continues, then the power is cut.
    FailsThenCrash(Fault, CrashMode),
    /// The power is cut. Counts only operations that change something.
    Crash(CrashMode),
}

struct NoLog;

impl pumice::Logger for NoLog {
    fn log(&self, _: pumice::options::InfoLogLevel, _: std::fmt::Arguments<'_>) {}
    fn level(&self) -> pumice::options::InfoLogLevel {
        pumice::options::InfoLogLevel::Fatal
    }
    fn is_plain(&self) -> bool {
        true
    }
}

fn options_on(fs: &MemFs) -> Options {
    let mut options = crate::common::options(&fs.shared());
    options.db.info_log = Some(std::sync::Arc::new(NoLog));
    options.db.create_missing_column_families = true;
    options.db.bgerror_resume_retry_interval = 2_000;
    options.cf.disable_auto_compactions = true;
    options
}

struct Life {
    options: Options,
    move_files: bool,
    /// The files replace everything from `a` to `e`.
    replace: bool,
}

impl Life {
    fn open(&self) -> (Db, Vec<ColumnFamily>) {
        let family = ColumnFamilyOptions { disable_auto_compactions: true, ..Default::default() };
        let all = ["default", "other"].map(|n| ColumnFamilyDescriptor::new(n, family.clone()));
        Db::open_cf(&self.options.db, DIR, &all).unwrap_or_else(|e| panic!("open: {e}"))
    }

    /// A database with old values in a table, in a memtable, and outside the range; two files per
    /// family.
    fn prepare(&self) -> (Db, Vec<ColumnFamily>) {
        let (db, families) = self.open();
        let fs = &*self.options.db.file_system;
        fs.create_dir_all("/in".as_ref()).unwrap();
        for (n, cf) in families.iter().enumerate() {
            if self.replace {
                // In a file of its own: one that is partly in the range cannot be replaced.
                db.put_cf_opt(&SYNC, cf, b"z", b"beside").unwrap();
                db.flush_cfs_opt(&Default::default(), &[cf]).unwrap();
            }
            for key in ["a", "aa", "c"] {
                db.put_cf_opt(&SYNC, cf, key.as_bytes(), b"old").unwrap();
            }
            db.flush_cfs_opt(&Default::default(), &[cf]).unwrap();
            db.put_cf_opt(&SYNC, cf, b"b", b"old").unwrap();
            if !self.replace {
                db.put_cf_opt(&SYNC, cf, b"z", b"beside").unwrap();
            }
            table_of(&self.options, &format!("/in/{n}-1.sst"), &["a", "b"], "new");
            table_of(&self.options, &format!("/in/{n}-2.sst"), &["b", "c", "d"], "newer");
        }
        fs.sync_dir("/in".as_ref()).unwrap();
        fs.sync_dir("/".as_ref()).unwrap();
        (db, families)
    }

    fn ingest(&self, db: &Db, families: &[ColumnFamily]) -> pumice::Result<()> {
        let args: Vec<_> = families
            .iter()
            .enumerate()
            .map(|(n, cf)| {
                let files = (1..3).map(|f| format!("/in/{n}-{f}.sst").into()).collect();
                let how = IngestExternalFileOptions {
                    move_files: self.move_files,
                    snapshot_consistency: !self.replace,
                    ..Default::default()
                };
                let range = RangeOpt { start: Some(b"a".into()), limit: Some(b"e".into()) };
                let mut arg = IngestExternalFileArg::new(cf, files, &how);
                arg.atomic_replace_range = self.replace.then_some(range);
                arg
            })
            .collect();
        db.ingest_external_files(&args)
    }

    /// Whether the files are there (all or none must be). `later` is the value written to `b`
    /// since.
    fn check(&self, what: &str, later: Option<&[u8]>) -> bool {
        let (db, families) = self.open();
        let get = |cf, key: &[u8]| db.get_cf_opt(&Default::default(), cf, key).unwrap();
        let there = get(&families[0], b"d").is_some();
        for (n, cf) in families.iter().enumerate() {
            let value = |key: &str| get(cf, key.as_bytes()).map(|v| v.to_vec());
            let (a, c, d) = match there {
                true => (&b"new"[..], &b"newer"[..], Some(b"newer".to_vec())),
                false => (&b"old"[..], &b"old"[..], None),
            };
            assert_eq!(value("a").as_deref(), Some(a), "{what}: family {n}");
            let gone = there && self.replace;
            assert_eq!(value("aa").is_none(), gone, "{what}: family {n}");
            assert_eq!(value("c").as_deref(), Some(c), "{what}: family {n}");
            assert_eq!(value("d"), d, "{what}: family {n}");
            assert_eq!(value("b").as_deref(), Some(later.unwrap_or(c)), "{what}: family {n}");
            assert_eq!(value("z").as_deref(), Some(&b"beside"[..]), "{what}: family {n}");
            for file in 1..3 {
                let path = format!("/in/{n}-{file}.sst");
                let kept = self.options.db.file_system.exists(path.as_ref()).unwrap();
                assert!(kept || (there && self.move_files), "{what}: {path} is lost");
            }
        }
        db.verify_checksum().unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_no_litter(&self.options.db.file_system, &db);
        db.close().unwrap();
        there
    }
}

/// Lets `mishap` happen at operation `i`. False when the ingestion ended before that.
fn happen(i: u64, mishap: Mishap, move_files: bool, replace: bool) -> bool {
    let what = format!("operation {i}, {mishap:?}, move {move_files}, replace {replace}");
    let fs = MemFs::new(i);
    let life = Life { options: options_on(&fs), move_files, replace };
    let (db, families) = life.prepare();
    let before = fs.change_count();
    match mishap {
        Mishap::Fails(fault) | Mishap::FailsThenCrash(fault, _) => {
            fs.add_fault(FaultRule { op: None, path_glob: "*".into(), skip: i, count: 1, fault });
        }
        Mishap::Crash(_) => fs.halt_after(i),
    }
    let result = life.ingest(&db, &families);
    let happened = match mishap {
        Mishap::Crash(_) => result.is_err() || fs.change_count() > before + i,
        _ => !fs.fault_log().is_empty(),
    };
    assert!(happened || result.is_ok(), "{what}: an error out of nowhere: {result:?}");
    if let Mishap::Crash(mode) = mishap {
        fs.crash(i, mode);
        drop((db, families));
        let there = life.check(&what, None);
        assert!(there || result.is_err(), "{what}: acknowledged, and gone");
        assert_eq!(life.check(&what, None), there);
        return happened;
    }
    fs.clear_faults();
    // A failed ingestion may be there after a reopen, but later writes win.
    for cf in &families {
        let put = || db.put_cf_opt(&SYNC, cf, b"b", b"later").is_ok();
        let mut tries = 0;
        while !put() {
            tries += 1;
            assert!(tries < TRIES, "{what}: never writable again");
            // A failed log does not recover by itself.
            drop(db.resume());
            pumice_port::thread::sleep(std::time::Duration::from_millis(1));
        }
        let read = db.get_cf_opt(&Default::default(), cf, b"b").unwrap();
        assert_eq!(read.as_deref(), Some(&b"later"[..]), "{what}");
    }
    match mishap {
        Mishap::FailsThenCrash(_, mode) => fs.crash(i, mode),
        _ => db.close().unwrap(),
    }
    drop((db, families));
    let there = life.check(&what, Some(b"later"));
    assert!(there || result.is_err(), "{what}: acknowledged, and gone");
    happened
}

fn happen_everywhere(mishap: Mishap) {
    for (move_files, replace) in [(false, false), (true, false), (false, true)] {
        let mut i = 0;
        while happen(i, mishap, move_files, replace) {
            i += seed::one_in();
            assert!(i < 1000, "the ingestion never ends");
        }
        assert!(i > 15, "only {i} operations: the ingestion does too little");
    }
}

#[pumice_test_macros::test]
fn eio_everywhere() {
    happen_everywhere(Mishap::Fails(Fault::Eio));
}

#[pumice_test_macros::test]
fn short_writes_everywhere() {
    happen_everywhere(Mishap::Fails(Fault::ShortWrite));
}

#[pumice_test_macros::test]
fn eio_and_then_a_crash() {
    for mode in [CrashMode::UNSYNCED, CrashMode::MIXED, CrashMode::PROCESS] {
        happen_everywhere(Mishap::FailsThenCrash(Fault::Eio, mode));
    }
}

#[pumice_test_macros::test]
fn failed_syncs_and_then_a_crash() {
    for failure in [FsyncFailure::ReadableThenLost, FsyncFailure::Durable, FsyncFailure::OldData] {
        happen_everywhere(Mishap::FailsThenCrash(Fault::Fsync(failure), CrashMode::UNSYNCED));
    }
}

#[pumice_test_macros::test]
fn a_power_cut_at_every_change() {
    for mode in [CrashMode::UNSYNCED, CrashMode::MIXED, CrashMode::PROCESS] {
        happen_everywhere(Mishap::Crash(mode));
    }
}
