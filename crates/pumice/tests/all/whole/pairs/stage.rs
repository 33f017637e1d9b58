//! The database that a pair of operations works on, and what must hold afterwards.
//!
//! Thread safety: two tasks, told apart by a number, and the judge after them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use pumice::options::{FileRules, load_latest_options};
use pumice::{
    BottommostLevelCompaction, ColumnFamily, ColumnFamilyDescriptor, ColumnFamilyOptions,
    CompactRangeOptions, Db, DbIterator, FileSystem, FlushOptions, MemFs, Options, ReadOptions,
    SstFileWriter, WriteOptions,
};
use pumice_port::sync::Mutex;
use pumice_port::thread;

use super::operations::{Operation, excused};

pub const DIR: &str = "/db";
/// Keys that are there from the start, in every family.
pub const KEYS: u32 = 40;
/// The families besides the default one.
pub const FAMILIES: [&str; 4] = ["other", "doomed", "behind", "replaced"];
/// What the keys have before anything else happens.
pub const OLD: &str = "old";

/// What may be read of a key: None for nothing.
type Allowed = BTreeSet<Option<Vec<u8>>>;

/// See the module head.
pub struct Stage {
    /// Each task's own handle, so that either may drop it.
    handles: [Mutex<Option<Db>>; 2],
    pub families: Vec<ColumnFamily>,
    pub fs: MemFs,
    pub options: Options,
    /// Reads on without a handle.
    pub cursors: [Mutex<Option<DbIterator>>; 2],
    /// Allowed values by family and key; keys that are not listed have the old value.
    allowed: Mutex<BTreeMap<(String, Vec<u8>), Allowed>>,
    /// Families that are there for certain, or for certain are not.
    present: Mutex<BTreeMap<String, bool>>,
    checkpoints: Mutex<Vec<PathBuf>>,
    /// Last values of database options that only one task changes.
    set: Mutex<BTreeMap<String, String>>,
    notes: Mutex<Vec<(usize, &'static Operation, pumice::Result<()>)>>,
}

pub fn key(n: u32) -> Vec<u8> {
    format!("k{n:03}").into_bytes()
}

fn options(fs: &MemFs) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.create_missing_column_families = true;
    options.db.file_system = fs.shared();
    options.db.max_background_jobs = 4;
    options.db.bgerror_resume_retry_interval = 100_000;
    options.cf.write_buffer_size = 32 << 10;
    options.cf.arena_block_size = 4 << 10;
    options.cf.level0_file_num_compaction_trigger = 3;
    options.cf.level_compaction_dynamic_level_bytes = false;
    options.cf.target_file_size_base = 8 << 10;
    options.cf.ttl = 0;
    options.cf.table_factory.no_block_cache = true;
    options
}

fn descriptors(options: &Options, fs: &MemFs) -> Vec<ColumnFamilyDescriptor> {
    let mut names: Vec<String> = vec!["default".into()];
    names.extend(match fs.exists(format!("{DIR}/CURRENT").as_ref()).unwrap() {
        true => Db::list_column_families(&options.db, DIR).unwrap().split_off(1),
        false => FAMILIES.map(String::from).to_vec(),
    });
    let of = |name: String| {
        let behind = name == "behind";
        let cf = ColumnFamilyOptions { cf_allow_ingest_behind: behind, ..options.cf.clone() };
        ColumnFamilyDescriptor::new(name, cf)
    };
    names.into_iter().map(of).collect()
}

pub fn force() -> CompactRangeOptions {
    CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    }
}

impl Stage {
    /// A database with files in two levels and entries in memory.
    pub fn set(fs: &MemFs) -> Stage {
        let options = options(fs);
        let (db, families) = Db::open_cf(&options.db, DIR, &descriptors(&options, fs)).unwrap();
        fs.create_dir_all("/in".as_ref()).unwrap();
        let write = WriteOptions::default();
        for family in &families {
            for n in 0..KEYS {
                db.put_cf_opt(&write, family, &key(n), OLD.as_bytes()).unwrap();
            }
        }
        db.flush_all_opt(&FlushOptions::default()).unwrap();
        db.compact_range(&force(), None, None).unwrap();
        for family in &families {
            for n in KEYS / 2..KEYS {
                db.put_cf_opt(&write, family, &key(n), OLD.as_bytes()).unwrap();
            }
        }
        db.flush_all_opt(&FlushOptions::default()).unwrap();
        db.put_opt(&write, b"memory", OLD.as_bytes()).unwrap();
        let cursor = || Mutex::new(Some(db.cursor_opt(&ReadOptions::default()).unwrap()));
        let stage = Stage {
            cursors: [cursor(), cursor()],
            handles: [Mutex::new(Some(db.clone())), Mutex::new(Some(db))],
            families,
            fs: fs.clone(),
            options,
            allowed: Mutex::default(),
            present: Mutex::default(),
            checkpoints: Mutex::default(),
            set: Mutex::default(),
            notes: Mutex::default(),
        };
        for name in FAMILIES {
            stage.present.lock().insert(name.into(), true);
        }
        stage.allow("default", b"memory", Some(OLD));
        stage
    }

    /// The handle of a task.
    pub fn db(&self, who: usize) -> Db {
        self.handles[who].lock().clone().unwrap()
    }

    /// Drops a task's handle, and its cursor.
    pub fn forget(&self, who: usize) {
        let handle = self.handles[who].lock().take();
        drop(handle);
        self.cursors[who].lock().take();
    }

    pub fn family(&self, name: &str) -> &ColumnFamily {
        self.families.iter().find(|family| family.name() == name).unwrap()
    }

    /// From now on this may be read too.
    pub fn may_become(&self, family: &str, key: &[u8], value: Option<&str>) {
        let at = (family.to_string(), key.to_vec());
        let mut allowed = self.allowed.lock();
        let old = || [key.starts_with(b"k").then(|| OLD.into())].into();
        allowed.entry(at).or_insert_with(old).insert(value.map(|value| value.as_bytes().to_vec()));
    }

    /// This was acknowledged: the earlier value must not be read any more.
    pub fn became(&self, family: &str, key: &[u8], value: Option<&str>, replaces: &str) {
        let value = value.map(|value| value.as_bytes().to_vec());
        let at = (family.to_string(), key.to_vec());
        if let Some(allowed) = self.allowed.lock().get_mut(&at)
            && allowed.contains(&value)
        {
            allowed.retain(|held| *held == value || held.as_deref() != Some(replaces.as_bytes()));
            if !key.starts_with(b"k") {
                allowed.remove(&None);
            }
        }
    }

    /// The value of this key is unknown; it does not count as an initial key.
    pub fn forget_old(&self, family: &str, key: &[u8]) {
        self.allow(family, key, None);
    }

    /// Only this may be read from now on.
    pub fn settle(&self, family: &str, key: &[u8], value: &str) {
        self.allow(family, key, Some(value));
    }

    fn allow(&self, family: &str, key: &[u8], value: Option<&str>) {
        let value = value.map(|value| value.as_bytes().to_vec());
        self.allowed.lock().insert((family.into(), key.to_vec()), [value].into());
    }

    /// Whether a family exists from now on; None: unknown.
    pub fn set_present(&self, family: &str, present: Option<bool>) {
        let mut all = self.present.lock();
        match present {
            Some(present) => all.insert(family.into(), present),
            None => all.remove(family),
        };
    }

    pub fn has_checkpoint(&self, path: PathBuf) {
        self.checkpoints.lock().push(path);
    }

    /// An option has this value from now on.
    pub fn is_set(&self, option: &str, value: &str) {
        self.set.lock().insert(option.into(), value.into());
    }

    /// A table of keys, all with one value.
    pub fn table(&self, name: &str, keys: std::ops::Range<u32>, value: &str) -> PathBuf {
        let path = PathBuf::from("/in").join(name);
        let mut writer = SstFileWriter::new(&self.options).unwrap();
        writer.open(&path).unwrap();
        keys.for_each(|n| writer.put(&key(n), value.as_bytes()).unwrap());
        writer.finish().unwrap();
        path
    }

    /// How an operation went.
    pub fn note(&self, who: usize, operation: &'static Operation, done: pumice::Result<()>) {
        self.notes.lock().push((who, operation, done));
    }

    /// A write right after the operation: errors that were not reported show here.
    pub fn probe(&self, who: usize) {
        let Some(db) = self.handles[who].lock().take() else { return };
        let name = format!("probe{who}");
        self.may_become("default", name.as_bytes(), None);
        self.may_become("default", name.as_bytes(), Some("p"));
        let mut last = Ok(());
        for _ in 0..100 {
            last = db.put_opt(&WriteOptions::default(), name.as_bytes(), b"p");
            match &last {
                Ok(()) => break,
                Err(error) if error.kind() == pumice::ErrorKind::ShutdownInProgress => break,
                // A failed log may need a resume.
                Err(_) => drop(db.resume()),
            }
            thread::sleep(std::time::Duration::from_millis(20));
        }
        if last.is_ok() {
            self.became("default", name.as_bytes(), Some("p"), "");
        }
        self.cursors[who].lock().take();
        drop(db);
        self.note(who, &super::operations::PROBE, last);
    }

    /// Judges the result of the two, after all handles are dropped.
    pub fn judge(&self, fs: &MemFs, pair: [&'static Operation; 2]) {
        for (who, operation, done) in self.notes.lock().drain(..) {
            if let Err(error) = done {
                let why = excused(operation, pair, &error);
                assert!(why, "{} of task {who}: {error}", operation.name);
            }
        }
        fs.clear_faults();
        self.check_options();
        self.open_and_check(false);
        self.open_and_check(true);
        for path in &*self.checkpoints.lock() {
            self.check_copy(path);
        }
    }

    /// What was set is in the OPTIONS file.
    fn check_options(&self) {
        let loaded = load_latest_options(&self.fs, DIR.as_ref(), FileRules::default());
        let options = loaded.unwrap().unwrap().db;
        for (option, value) in &*self.set.lock() {
            assert_eq!(options.get(option).unwrap(), *value, "{option}");
        }
    }

    fn open_and_check(&self, again: bool) {
        let options = &self.options;
        let (db, families) =
            Db::open_cf(&options.db, DIR, &descriptors(options, &self.fs)).unwrap();
        let names: BTreeSet<&str> = families.iter().map(ColumnFamily::name).collect();
        for (name, present) in &*self.present.lock() {
            assert_eq!(names.contains(name.as_str()), *present, "family {name}");
        }
        for family in &families {
            self.check_family(&db, family);
        }
        db.verify_checksum().unwrap();
        db.put_opt(&WriteOptions::default(), b"last", b"").unwrap();
        for family in families.iter().filter(|_| again) {
            db.compact_range_cf(&force(), family, None, None).unwrap();
            self.check_family(&db, family);
        }
        db.delete_opt(&WriteOptions::default(), b"last").unwrap();
        db.close().unwrap();
    }

    fn check_family(&self, db: &Db, family: &ColumnFamily) {
        let scanned = scan(db, family);
        let allowed = self.allowed.lock();
        let name = family.name();
        let look = |key: &[u8]| scanned.get(key).cloned();
        for ((_, key), allowed) in allowed.iter().filter(|((family, _), _)| family == name) {
            let text = String::from_utf8_lossy(key);
            let found = look(key);
            assert!(allowed.contains(&found), "{name} {text}: {found:?} of {allowed:?}");
            let got = db.get_cf_opt(&ReadOptions::default(), family, key).unwrap();
            assert_eq!(got.as_deref(), found.as_deref(), "{name} {text}: a get differs");
        }
        if FAMILIES.contains(&name) || name == "default" {
            for n in 0..KEYS {
                if !allowed.contains_key(&(name.to_string(), key(n))) {
                    assert_eq!(look(&key(n)).as_deref(), Some(OLD.as_bytes()), "{name} {n}");
                }
            }
        }
    }

    /// A checkpoint is a state of some moment: nothing in it that was never there.
    fn check_copy(&self, path: &std::path::Path) {
        let names = Db::list_column_families(&self.options.db, path).unwrap();
        let behind = |name: &str| ColumnFamilyOptions {
            cf_allow_ingest_behind: name == "behind",
            ..self.options.cf.clone()
        };
        let all: Vec<_> =
            names.iter().map(|name| ColumnFamilyDescriptor::new(name, behind(name))).collect();
        let (copy, families) = Db::open_cf(&self.options.db, path, &all).unwrap();
        for family in families.iter().filter(|family| FAMILIES.contains(&family.name())) {
            let found = scan(&copy, family);
            let allowed = self.allowed.lock();
            let may_be_gone = |key: Vec<u8>| {
                let held = allowed.get(&(family.name().to_string(), key));
                held.is_some_and(|held| held.contains(&None))
            };
            let old =
                (0..KEYS).filter(|n| found.contains_key(&key(*n)) || may_be_gone(key(*n))).count();
            assert!(old >= KEYS as usize / 2, "a checkpoint lacks keys of {}", family.name());
        }
        copy.verify_checksum().unwrap();
        copy.close().unwrap();
    }
}

/// All of a family, forwards and backwards.
pub fn scan(db: &Db, family: &ColumnFamily) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut cursor = db.cursor_cf_opt(&ReadOptions::default(), family).unwrap();
    let mut found = Vec::new();
    cursor.seek_to_first();
    while cursor.valid() {
        found.push((cursor.key().unwrap().to_vec(), cursor.value().unwrap().to_vec()));
        cursor.next();
    }
    cursor.status().unwrap();
    let mut backwards = Vec::new();
    cursor.seek_to_last();
    while cursor.valid() {
        backwards.push((cursor.key().unwrap().to_vec(), cursor.value().unwrap().to_vec()));
        cursor.prev();
    }
    cursor.status().unwrap();
    backwards.reverse();
    assert!(found == backwards, "{}: a scan and a backward scan differ", family.name());
    found.into_iter().collect()
}
