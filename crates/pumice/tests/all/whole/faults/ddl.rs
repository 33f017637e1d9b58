//! Fails the i-th file operation of a life of column families, options, ingestions and checkpoints,
//! for every i: the call that failed is repeated after a resume, and then all of it holds, after a
//! power cut too.

use std::sync::Arc;

use pumice::options::{FileRules, load_latest_options};
use pumice::{
    ColumnFamily, ColumnFamilyDescriptor, CompactRangeOptions, Db, FileSystem, FlushOptions,
    IngestExternalFileOptions, MemFs, Options, Result, SstFileWriter,
};
use pumice_env::mem::{CrashMode, Fault, FaultOp, FaultRule, FsyncFailure};

use super::support::{DIR, options_on};
use crate::common::SYNC;

const MADE: &str = "/made.sst";
const COPY: &str = "/copy";

struct Life {
    fs: MemFs,
    options: Options,
    db: Db,
    /// Keys of the default family that were acknowledged.
    acknowledged: Vec<&'static str>,
    doomed: ColumnFamily,
}

impl Life {
    fn new(seed: u64) -> Life {
        let fs = MemFs::new(seed);
        let mut options = options_on(&fs);
        options.db.max_bgerror_resume_count = 0;
        let mut writer = SstFileWriter::new(&options).unwrap();
        writer.open(MADE).unwrap();
        writer.put("ingested", "v").unwrap();
        writer.finish().unwrap();
        let db = Db::open(&options, DIR).unwrap();
        let doomed = db.create_column_family(&options.cf, "doomed").unwrap();
        for key in ["a", "b"] {
            db.put_opt(&SYNC, key, "v").unwrap();
            db.put_cf_opt(&SYNC, &doomed, key, "v").unwrap();
            db.flush_all_opt(&FlushOptions::default()).unwrap();
        }
        Life { fs, options, db, acknowledged: vec!["a", "b"], doomed }
    }

    /// A step, repeated if it fails; `already` says that an error of the second time means that the
    /// first had its effect.
    fn step(
        &mut self,
        what: &str,
        run: impl Fn(&Life) -> Result<()>,
        already: impl Fn(&Life, &pumice::Error) -> bool,
    ) {
        let Err(error) = run(self) else { return };
        for mode in [CrashMode::UNSYNCED, CrashMode::PROCESS] {
            self.check_on(&self.fs.crashed_copy(7, mode), false, &format!("{what}: {error}"));
        }
        self.db.resume().unwrap_or_else(|e| panic!("{what}: {error}: resume: {e}"));
        if let Err(again) = run(self) {
            let log = self.fs.fault_log().join("\n");
            assert!(already(self, &again), "{what}: {error}\nagain: {again}\n{log}");
        }
    }

    fn put(&mut self, key: &'static str) {
        self.step("put", |life| life.db.put_opt(&SYNC, key, "v"), |_, _| false);
        self.acknowledged.push(key);
    }

    fn run(&mut self) {
        let never = |_: &Life, _: &pumice::Error| false;
        self.step(
            "create",
            |life| life.db.create_column_family(&life.options.cf, "new").map(drop),
            |life, error| {
                error.to_string().contains("already exists")
                    && life.db.column_family("new").is_some()
            },
        );
        self.put("c");
        let in_new = |life: &Life| {
            let new = life.db.column_family("new").unwrap();
            life.db.put_cf_opt(&SYNC, &new, "n", "v")
        };
        self.step("put into the new", in_new, never);
        let set = |life: &Life| life.db.set_options(&[("write_buffer_size", "123456")]);
        self.step("set_options", set, never);
        let set = |life: &Life| life.db.set_db_options(&[("max_background_jobs", "3")]);
        self.step("set_db_options", set, never);
        let ingest = |life: &Life| {
            life.db.ingest_external_file(&IngestExternalFileOptions::default(), &[MADE])
        };
        self.step("ingest", ingest, never);
        self.acknowledged.push("ingested");
        self.put("d");
        let drop_it = |life: &Life| life.db.drop_column_family(&life.doomed);
        self.step("drop", drop_it, |_, error| error.to_string().contains("already dropped"));
        let flush = |life: &Life| life.db.flush_all_opt(&FlushOptions::default());
        self.step("flush", flush, never);
        let compact =
            |life: &Life| life.db.compact_range(&CompactRangeOptions::default(), None, None);
        self.step("compact", compact, never);
        self.step("checkpoint", |life| life.db.checkpoint(COPY), never);
        self.put("e");
    }

    /// What is on `fs` holds what was acknowledged; if all steps are done, exactly that.
    fn check_on(&self, fs: &MemFs, done: bool, what: &str) {
        let mut options = self.options.clone();
        options.db.file_system = fs.shared();
        let names = Db::list_column_families(&options.db, DIR)
            .unwrap_or_else(|e| panic!("{what}: {e}\n{}", self.fs.fault_log().join("\n")));
        let all: Vec<_> = names
            .iter()
            .map(|name| ColumnFamilyDescriptor::new(name.as_str(), options.cf.clone()))
            .collect();
        let (db, _) = Db::open_cf(&options.db, DIR, &all)
            .unwrap_or_else(|e| panic!("{what}: {e}\n{}", self.fs.fault_log().join("\n")));
        for key in &self.acknowledged {
            assert!(db.get(key).unwrap().is_some(), "{what}: {key} is lost");
        }
        if done {
            assert_eq!(names, ["default", "new"], "{what}");
            let new = db.column_family("new").unwrap();
            assert!(db.get_cf(&new, "n").unwrap().is_some(), "{what}: n is lost");
            let found = db.iter().unwrap().count();
            assert_eq!(found, self.acknowledged.len(), "{what}");
        }
        db.verify_checksum().unwrap();
        db.close().unwrap();
    }

    fn check_options(&self, fs: &MemFs, what: &str) {
        let shared: Arc<dyn FileSystem> = fs.shared();
        let latest = load_latest_options(&*shared, DIR.as_ref(), FileRules::default());
        let latest = latest.unwrap_or_else(|e| panic!("{what}: {e}")).unwrap();
        let names: Vec<_> = latest.column_families.iter().map(|cf| cf.name.as_str()).collect();
        assert_eq!(names, ["default", "new"], "{what}");
        assert_eq!(latest.column_families[0].options.write_buffer_size, 123_456, "{what}");
        assert_eq!(latest.db.max_background_jobs, 3, "{what}");
    }
}

/// False when the life had fewer operations.
fn happen(i: u64, op: Option<FaultOp>, fault: Fault) -> bool {
    let what = format!("operation {i}, {fault:?}");
    let mut life = Life::new(i);
    life.fs.add_fault(FaultRule { op, path_glob: "*".into(), skip: i, count: 1, fault });
    life.run();
    let happened = !life.fs.fault_log().is_empty();
    life.fs.clear_faults();
    for mode in [CrashMode::UNSYNCED, CrashMode::MIXED] {
        let copy = life.fs.crashed_copy(i, mode);
        life.check_options(&copy, &what);
        life.check_on(&copy, true, &what);
    }
    life.db.close().unwrap();
    life.check_options(&life.fs, &what);
    life.check_on(&life.fs, true, &what);
    happened
}

fn happen_everywhere(op: Option<FaultOp>, fault: Fault) {
    let mut i = 0;
    while happen(i, op, fault) {
        i += pumice_testkit::seed::one_in();
        assert!(i < 2000, "the life never ends");
    }
    assert!(i > 10, "only {i} operations: the life does too little");
}

#[pumice_test_macros::test]
fn what_failed_once_works_the_next_time() {
    happen_everywhere(None, Fault::Eio);
}

#[pumice_test_macros::test]
fn what_a_full_disk_refused_works_the_next_time() {
    happen_everywhere(None, Fault::Enospc);
}

#[pumice_test_macros::test]
fn what_a_failed_sync_refused_works_the_next_time() {
    for failure in [FsyncFailure::ReadableThenLost, FsyncFailure::OldData, FsyncFailure::Durable] {
        happen_everywhere(Some(FaultOp::Sync), Fault::Fsync(failure));
    }
}

/// An OPTIONS file that could not be written is written by the close.
#[pumice_test_macros::test]
fn a_close_makes_up_for_an_options_file() {
    for (op, path) in [
        (FaultOp::Create, "*OPTIONS*"),
        (FaultOp::Sync, "*OPTIONS*"),
        (FaultOp::Rename, "*OPTIONS*"),
    ] {
        let what = format!("{op:?}");
        let mut life = Life::new(1);
        life.run();
        let fail = || life.fs.add_fault(FaultRule::once(op, path, 0, Fault::Eio));
        life.db.set_options(&[("write_buffer_size", "100000")]).unwrap();
        fail();
        life.db.set_options(&[("write_buffer_size", "123456")]).unwrap_err();
        life.db.close().unwrap();
        life.check_options(&life.fs, &what);
        life.check_on(&life.fs, true, &what);
    }
}
