//! Databases to damage, and the checks afterwards.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pumice::options::merge_operator_by_name;
use pumice::{
    BottommostLevelCompaction, ColumnFamily, ColumnFamilyDescriptor, CompactRangeOptions,
    Comparator, Db, FileFate, FileSystem, MemFs, Options, ReadOptions, RepairReport,
};
use pumice_base::random::Rng;
use pumice_env::mem::CrashMode;

use crate::common::{DIR, SYNC, contents, flush, key, memory, names, options};

pub const FAMILIES: [&str; 3] = ["default", "other", "empty"];

pub type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// A closed database, and the contents of each of its column families.
pub struct Made {
    pub fs: MemFs,
    pub shared: Arc<dyn FileSystem>,
    pub options: Options,
    pub held: Vec<Contents>,
}

pub fn descriptors(options: &Options) -> Vec<ColumnFamilyDescriptor> {
    let descriptor = |name: &&str| ColumnFamilyDescriptor::new(*name, options.cf.clone());
    FAMILIES.iter().map(descriptor).collect()
}

/// What is in a column family.
pub fn read(db: &Db, cf: &ColumnFamily) -> Contents {
    let mut cursor = db.cursor_cf_opt(&ReadOptions::default(), cf).unwrap();
    let mut all = Contents::new();
    cursor.seek_to_first();
    while cursor.valid() {
        all.insert(cursor.key().unwrap().to_vec(), cursor.value().unwrap().to_vec());
        cursor.next();
    }
    cursor.status().unwrap();
    // A point lookup must find the same versions.
    for (key, value) in &all {
        let found = db.get_cf_opt(&ReadOptions::default(), cf, key).unwrap();
        assert_eq!(found.as_deref(), Some(value.as_slice()));
    }
    all
}

pub fn small_options(fs: &Arc<dyn FileSystem>) -> Options {
    let mut options = options(fs);
    options.db.create_missing_column_families = true;
    options.cf.merge_operator = merge_operator_by_name("stringappend");
    options.cf.target_file_size_base = 8 << 10;
    options.cf.max_bytes_for_level_base = 32 << 10;
    options.cf.level0_file_num_compaction_trigger = 3;
    options.cf.table_factory.set("block_size", "512").unwrap();
    options
}

/// Writes, deletions of all kinds, merges, flushes and compactions. The order of keys is drawn.
pub fn make(seed: u64) -> Made {
    let (fs, shared) = memory();
    let mut options = small_options(&shared);
    let backward = seed % 2 == 1;
    if backward {
        options.cf.comparator = Comparator::ReverseBytewise;
    }
    let mut rng = Rng::new(seed);
    let (db, cfs) = Db::open_cf(&options.db, DIR, &descriptors(&options)).unwrap();
    let gone = db.create_column_family(&options.cf, "gone").unwrap();
    for round in 0..6 {
        for _ in 0..150 {
            let cf = &cfs[rng.uniform(2) as usize];
            let key = key(rng.uniform(200) as usize);
            let value = format!("{round}-{:030}", rng.next_u64());
            match rng.uniform(12) {
                0 | 1 => db.delete_cf_opt(&SYNC, cf, &key).unwrap(),
                2 => db.merge_cf_opt(&SYNC, cf, &key, value.as_bytes()).unwrap(),
                3 if rng.one_in(4) => {
                    let (low, high) = (&key[..key.len() - 1], [key.as_slice(), b"~"].concat());
                    let (begin, end) = if backward { (&high[..], low) } else { (low, &high[..]) };
                    db.delete_range_cf_opt(&SYNC, cf, begin, end).unwrap();
                }
                _ => db.put_cf_opt(&SYNC, cf, &key, value.as_bytes()).unwrap(),
            }
            if round < 4 && rng.one_in(9) {
                db.put_cf_opt(&SYNC, &gone, &key, b"gone").unwrap();
            }
        }
        if round < 5 {
            db.flush_all().unwrap();
        }
        if round == 2 {
            for cf in &cfs {
                db.compact_range_cf(&CompactRangeOptions::default(), cf, None, None).unwrap();
            }
        }
        if round == 3 {
            db.drop_column_family(&gone).unwrap();
            db.wait_for_compact(&Default::default()).unwrap();
        }
    }
    let held = cfs.iter().map(|cf| read(&db, cf)).collect();
    drop(gone);
    db.close().unwrap();
    drop((db, cfs));
    Made { fs, shared, options, held }
}

impl Made {
    /// The same database on a separate disk.
    pub fn copy(&self) -> Made {
        self.crashed(0, CrashMode::PROCESS)
    }

    pub fn crashed(&self, seed: u64, mode: CrashMode) -> Made {
        let fs = self.fs.crashed_copy(seed, mode);
        let shared = fs.shared();
        let mut options = self.options.clone();
        options.db.file_system = Arc::clone(&shared);
        Made { fs, shared, options, held: self.held.clone() }
    }

    pub fn repair(&self) -> pumice::Result<RepairReport> {
        pumice::repair(&self.options, DIR)
    }

    /// Opens the database with all column families that it has.
    pub fn contents(&self) -> BTreeMap<String, Contents> {
        let names = Db::list_column_families(&self.options.db, DIR).unwrap();
        let mut options = self.options.clone();
        options.db.create_if_missing = false;
        let descriptor = |name: &String| ColumnFamilyDescriptor::new(name, options.cf.clone());
        let descriptors: Vec<_> = names.iter().map(descriptor).collect();
        let (db, cfs) = Db::open_cf(&options.db, DIR, &descriptors).unwrap();
        db.verify_checksum().unwrap();
        let read = |cf: &ColumnFamily| (cf.name().to_string(), read(&db, cf));
        let all = cfs.iter().map(read).collect();
        db.close().unwrap();
        all
    }

    /// Everything is there; column families without anything may be gone.
    pub fn holds_all(&self) {
        let found = self.contents();
        for (name, held) in FAMILIES.iter().zip(&self.held) {
            let empty = Contents::new();
            let found = found.get(*name).unwrap_or(&empty);
            let other = |(key, _): &(&Vec<u8>, &Vec<u8>)| found.get(*key) != held.get(*key);
            let wrong = held.iter().chain(found).find(other).map(|(key, _)| key);
            assert_eq!(wrong.map(|key| String::from_utf8_lossy(key)), None, "{name}");
        }
        // Of a column family whose drop is cut off nothing but the name may come back.
        assert!(found.get("gone").is_none_or(Contents::is_empty));
    }

    pub fn path(&self, name: &str) -> PathBuf {
        Path::new(DIR).join(name)
    }

    pub fn names(&self, end: &str) -> Vec<String> {
        let mut names = names(&self.shared, DIR);
        names.retain(|name| name.ends_with(end));
        names.sort();
        names
    }

    pub fn manifest(&self) -> PathBuf {
        let current = self.shared.read_file(&self.path("CURRENT")).unwrap();
        self.path(String::from_utf8(current).unwrap().trim_end())
    }

    /// Every file that there was is still there with the same bytes, or in `lost`.
    pub fn has_all_of(&self, before: &BTreeMap<String, Vec<u8>>) {
        let (now, lost) = (self.files(DIR), self.files(&format!("{DIR}/lost")));
        for (name, bytes) in before {
            let kept = now.get(name) == Some(bytes);
            let moved = |(new, found): (&String, &Vec<u8>)| {
                new.starts_with(name.as_str()) && found == bytes
            };
            let exempt = name == "CURRENT" || name.starts_with("LO"); // LOCK and LOG
            assert!(kept || exempt || lost.iter().any(moved), "{name} is gone");
        }
    }

    pub fn files(&self, dir: &str) -> BTreeMap<String, Vec<u8>> {
        let list = self.shared.list(Path::new(dir)).unwrap_or_default();
        let read = |name: String| {
            let bytes = self.shared.read_file(&Path::new(dir).join(&name)).ok()?;
            Some((name, bytes))
        };
        list.into_iter().filter_map(read).collect()
    }
}

pub fn fates(report: &RepairReport, fate: FileFate) -> Vec<&str> {
    let files = report.files.iter().filter(|file| file.fate == fate);
    files.map(|file| file.name.as_str()).collect()
}

/// One table with one entry for each key, so that every entry shows.
pub fn plain() -> Made {
    let (fs, shared) = memory();
    let options = small_options(&shared);
    let db = Db::open(&options, DIR).unwrap();
    for n in 0..400 {
        db.put_opt(&SYNC, &key(n), format!("value{n}").as_bytes()).unwrap();
    }
    flush(&db);
    db.put_opt(&SYNC, b"unflushed", b"value").unwrap();
    let held = vec![contents(&db).into_iter().collect()];
    db.close().unwrap();
    drop(db);
    Made { fs, shared, options, held }
}

/// A database whose obsolete tables are still there: in them the keys are not deleted.
pub fn with_obsolete_tables() -> Made {
    let (fs, shared) = memory();
    let options = small_options(&shared);
    let db = Db::open(&options, DIR).unwrap();
    db.disable_file_deletions();
    for n in 0..100 {
        db.put_opt(&SYNC, &key(n), b"old").unwrap();
    }
    flush(&db);
    for n in 0..100 {
        if n % 3 > 0 {
            db.delete_opt(&SYNC, &key(n)).unwrap();
        }
    }
    flush(&db);
    let bottommost_level_compaction = BottommostLevelCompaction::Force;
    let compact = CompactRangeOptions { bottommost_level_compaction, ..Default::default() };
    db.compact_range(&compact, None, None).unwrap();
    let held = vec![contents(&db).into_iter().collect()];
    let copied = fs.crashed_copy(0, CrashMode::PROCESS);
    drop(db);
    let shared = copied.shared();
    let mut options = options.clone();
    options.db.file_system = Arc::clone(&shared);
    Made { fs: copied, shared, options, held }
}

/// Damages that lead to the different kinds of repair.
pub fn damaged(kind: usize) -> Made {
    let made = make(4);
    match kind {
        0 => made.shared.remove(&made.manifest()).unwrap(),
        1 => {
            let table = made.names(".sst").remove(0);
            made.fs.damage(&made.path(&table), |bytes| bytes[50] ^= 1).unwrap();
        }
        2 => {
            let log = made.names(".log").pop().unwrap();
            made.fs.damage(&made.path(&log), |bytes| bytes[60] ^= 1).unwrap();
        }
        _ => made.shared.remove(&made.path("CURRENT")).unwrap(),
    }
    made
}
