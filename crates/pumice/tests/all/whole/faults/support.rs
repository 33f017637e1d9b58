//! A database on a failing file system, with a model of what it must hold.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use pumice::options::InfoLogLevel;
use pumice::{Db, Logger, MemFs, Options, ReadOptions, WriteOptions};
use pumice_env::FileSystem;
use pumice_env::filename::{self, FileType};
use pumice_env::mem::CrashMode;

pub const DIR: &str = "/db";

struct NoLog;

impl Logger for NoLog {
    fn log(&self, _level: InfoLogLevel, message: std::fmt::Arguments<'_>) {
        if std::env::var_os("PUMICE_TEST_LOG").is_some() {
            eprintln!("{message}");
        }
    }
    fn level(&self) -> InfoLogLevel {
        InfoLogLevel::Info
    }
    fn is_plain(&self) -> bool {
        true
    }
}

pub fn key(n: u64) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

/// Options for a small database on `fs`, without an info log so that operations can be counted.
pub fn options_on(fs: &MemFs) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.file_system = fs.shared();
    options.db.info_log = Some(Arc::new(NoLog));
    options.db.bgerror_resume_retry_interval = 50_000;
    options.cf.disable_auto_compactions = true;
    options
}

/// Asserts that the database holds `model`, and no more than entries of `may_have` in addition.
pub fn check_against(
    db: &Db,
    model: &BTreeMap<Vec<u8>, Vec<u8>>,
    may_have: &BTreeSet<(Vec<u8>, Vec<u8>)>,
) {
    let mut found = BTreeMap::new();
    let mut iter = db.cursor_opt(&ReadOptions::default()).unwrap();
    iter.seek_to_first();
    while iter.valid() {
        found.insert(iter.key().unwrap().to_vec(), iter.value().unwrap().to_vec());
        iter.next();
    }
    iter.status().unwrap();
    for (key, value) in model {
        let name = String::from_utf8_lossy(key);
        let fits = |v: &Vec<u8>| v == value || may_have.contains(&(key.clone(), v.clone()));
        assert!(found.get(key).is_some_and(fits), "{name}: found {:?}", found.get(key));
    }
    for (key, value) in &found {
        let name = String::from_utf8_lossy(key);
        let known = model.contains_key(key) || may_have.contains(&(key.clone(), value.clone()));
        assert!(known, "{name} came from nowhere");
    }
}

pub struct Fixture {
    pub fs: MemFs,
    db: Option<Db>,
    /// What was acknowledged.
    pub model: BTreeMap<Vec<u8>, Vec<u8>>,
    /// What was not acknowledged but may be there after a reopen.
    pub may_have: BTreeSet<(Vec<u8>, Vec<u8>)>,
}

impl Fixture {
    pub fn new() -> Self {
        let fs = MemFs::new(1);
        let db = Db::open(&options_on(&fs), DIR).unwrap();
        Fixture { fs, db: Some(db), model: BTreeMap::new(), may_have: BTreeSet::new() }
    }
    pub fn options(&self) -> Options {
        options_on(&self.fs)
    }
    pub fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }
    pub fn put(&mut self, options: &WriteOptions, n: u64) {
        let value = format!("value {n} of {}", self.model.len()).into_bytes();
        self.db().put_opt(options, &key(n), &value).unwrap();
        self.model.insert(key(n), value);
    }
    pub fn fill(&mut self, range: Range<u64>) {
        for n in range {
            self.put(&WriteOptions::default(), n);
        }
    }
    pub fn check(&self) {
        check_against(self.db(), &self.model, &self.may_have);
    }
    /// Closes, opens again and checks; leaves no file that nothing refers to.
    pub fn reopen(&mut self) {
        self.fs.clear_faults();
        // A failed close has its own test.
        drop(self.db().close());
        self.db = None;
        self.open();
        self.check();
        let mut live: Vec<u64> =
            self.db().live_files_metadata().iter().map(|f| f.file_number).collect();
        live.sort_unstable();
        assert_eq!(self.tables_on_disk(), live, "files that nothing refers to");
    }
    /// Closes and opens with changed options.
    pub fn reopen_with(&mut self, change: impl FnOnce(&mut Options)) {
        self.db().close().unwrap();
        self.db = None;
        let mut options = self.options();
        change(&mut options);
        self.db = Some(Db::open(&options, DIR).unwrap());
    }
    /// A copy of the disk after a power cut must hold all that was synced, and nothing invented;
    /// here nothing was synced since the last flush, so only damage and inventions count.
    pub fn check_copy(&self, what: &str, mode: CrashMode) {
        self.open_copy(what, mode, &BTreeMap::new());
    }
    /// As `check_copy`, after a sync of the log: everything must be there.
    pub fn check_copy_synced(&self, what: &str, mode: CrashMode) {
        self.db().sync_wal().unwrap();
        self.open_copy(what, mode, &self.model);
    }
    fn open_copy(&self, what: &str, mode: CrashMode, must_have: &BTreeMap<Vec<u8>, Vec<u8>>) {
        let copy = self.fs.crashed_copy(5, mode);
        let db =
            Db::open(&options_on(&copy), DIR).unwrap_or_else(|e| panic!("{what}, {mode:?}: {e}"));
        let mut may_have = self.may_have.clone();
        may_have.extend(self.model.clone());
        check_against(&db, must_have, &may_have);
        db.close().unwrap();
    }
    /// Cuts the power and opens again.
    pub fn crash(&mut self, seed: u64, mode: CrashMode) {
        self.fs.crash(seed, mode);
        drop(self.db().close());
        self.db = None;
        self.open();
    }
    fn open(&mut self) {
        let opened = Db::open(&self.options(), DIR);
        let log = self.fs.fault_log().join("\n");
        self.db = Some(opened.unwrap_or_else(|e| panic!("open: {e}\n{log}")));
    }
    pub fn files(&self) -> Vec<String> {
        self.fs.list(Path::new(DIR)).unwrap()
    }
    pub fn tables_on_disk(&self) -> Vec<u64> {
        let table = |name: &String| match filename::parse(name) {
            Some((number, FileType::Table)) => Some(number),
            _ => None,
        };
        self.sorted(self.files().iter().filter_map(table).collect())
    }
    pub fn sorted(&self, mut numbers: Vec<u64>) -> Vec<u64> {
        numbers.sort_unstable();
        numbers
    }
}
