//! Bad input gets the right words, with the path and the reason, and damages nothing.
//!
//! The texts are those of RocksDB 10.10.1 for the same mistake, as observed; where we say more, the
//! path comes first. After each refusal the files of the database are unchanged, byte by byte
//! (except the info log), and the database opens as before.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pumice::{ColumnFamilyDescriptor, ColumnFamilyOptions, Db, DbOptions, Options, WriteOptions};
use pumice_testkit::{Op, Store};
use tempfile::TempDir;

use crate::child;
use crate::stores::pumice::Pumice;
use crate::stores::rocksdb::{self, RocksDb};
use crate::stores::{Settings, temp_folder};

/// A database with two column families, tables and an unflushed WAL.
struct Fixture {
    _folder: TempDir,
    path: PathBuf,
    settings: Settings,
}

impl Fixture {
    fn new() -> Self {
        let folder = temp_folder();
        let (path, settings) = (folder.path().join("db"), Settings::small(2));
        let mut store = Pumice::open(&path, &settings).unwrap();
        for n in 0..3 {
            let put = |cf| Op::Put { cf, key: vec![b'k', n], value: vec![b'v', n] };
            store.write(&[put(0), put(1)]).unwrap();
            if n == 1 {
                store.flush(0).unwrap();
                store.flush(1).unwrap();
            }
        }
        store.close().unwrap();
        Fixture { _folder: folder, path, settings }
    }

    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = std::fs::read_dir(&self.path).unwrap().map(Result::unwrap);
        let read = |entry: std::fs::DirEntry| {
            let name = entry.file_name().into_string().unwrap();
            (!name.starts_with("LOG")).then(|| (name, std::fs::read(entry.path()).unwrap()))
        };
        entries.filter_map(read).collect()
    }

    fn file(&self, ending: &str) -> PathBuf {
        let names = self.files();
        let name = names.keys().find(|name| name.ends_with(ending) || name.starts_with(ending));
        self.path.join(name.unwrap())
    }

    /// Opening with `settings` fails with `expected` (`$DIR` stands for the database's path,
    /// `$MANIFEST` for the MANIFEST's name), changes no file, and the right settings still open.
    fn refuses(&self, settings: &Settings, expected: &str) {
        let before = self.files();
        let error = Pumice::open(&self.path, settings).err().expect("the open must be refused");
        let manifest = before.keys().find(|name| name.starts_with("MANIFEST-")).unwrap();
        let error = error.replace(&self.path.display().to_string(), "$DIR");
        assert_eq!(error.replace(manifest.as_str(), "$MANIFEST"), expected);
        assert!(before == self.files(), "the refused open changed files: {expected}");
        self.opens();
    }

    /// Like `refuses` for a database that is damaged for good.
    fn refuses_damage(&self, contains: &[&str]) {
        let before = self.files();
        let opened = Pumice::open(&self.path, &self.settings);
        let error = opened.err().unwrap_or_else(|| panic!("not refused: {contains:?}"));
        for text in contains {
            assert!(error.contains(text), "{error} lacks {text}");
        }
        assert!(before == self.files(), "the refused open changed files: {error}");
    }

    fn opens(&self) {
        let mut store = Pumice::open(&self.path, &self.settings).unwrap();
        for (cf, n) in [(0, 0), (1, 0), (0, 2), (1, 2)] {
            assert_eq!(store.get(cf, &[b'k', n], None).unwrap(), Some(vec![b'v', n]));
        }
        store.close().unwrap();
    }
}

#[pumice_test_macros::test]
fn a_missing_database_is_not_created_unasked() {
    let folder = temp_folder();
    let path = folder.path().join("no");
    let settings = Settings::small(1).with("create_if_missing", "false");
    let error = Pumice::open(&path, &settings).err().unwrap();
    let expected =
        format!("{}/CURRENT: does not exist (create_if_missing is false)", path.display());
    assert_eq!(error, format!("Invalid argument: {expected}"));
    assert!(!path.exists(), "the refused open made a folder");
    let only = [ColumnFamilyDescriptor::new("default", ColumnFamilyOptions::default())];
    let read_only = Db::open_read_only(&DbOptions::default(), &path, &only, false);
    let error = read_only.err().unwrap().to_string();
    assert!(error.starts_with("IO error: No such file or directory: "), "{error}");
    assert!(error.contains(&format!("{}/CURRENT", path.display())), "{error}");
    assert!(!path.exists(), "the refused open made a folder");
}

#[pumice_test_macros::test]
fn wrong_options_are_refused_by_name() {
    let fixture = Fixture::new();
    let good = || fixture.settings.clone();
    fixture.refuses(
        &good().with("error_if_exists", "true"),
        "Invalid argument: $DIR: exists (error_if_exists is true)",
    );
    fixture.refuses(
        &good().with("comparator", "rocksdb.ReverseBytewiseComparator"),
        "Invalid argument: $DIR/$MANIFEST: rocksdb.ReverseBytewiseComparator: does not match \
         existing comparator leveldb.BytewiseComparator",
    );
    let mut fewer = good();
    fewer.families.truncate(1);
    fixture.refuses(&fewer, "Invalid argument: Column families not opened: family1");
    let mut more = good().with("create_missing_column_families", "false");
    more.families.push(("extra".into(), "kNoCompression"));
    fixture.refuses(&more, "Invalid argument: Column family not found: extra");
    let mut no_default = good();
    no_default.families.remove(0);
    fixture.refuses(&no_default, "Invalid argument: Default column family not specified");
}

#[pumice_test_macros::test]
fn options_that_do_not_exist_or_are_not_built_are_named() {
    let mut options = Options::default();
    let error = |result: pumice_base::Result<()>| result.unwrap_err().to_string();
    let unknown = error(options.set("no_such_option", "1"));
    assert!(unknown.starts_with("Invalid argument: ") && unknown.contains("no_such_option"));
    let unbuilt = error(options.set("compaction_style", "kCompactionStyleNone"));
    assert!(unbuilt.starts_with("Not implemented: ") && unbuilt.contains("compaction_style"));
    let bad = error(options.set("write_buffer_size", "many"));
    assert!(bad.starts_with("Invalid argument: ") && bad.contains("write_buffer_size"), "{bad}");
}

#[pumice_test_macros::test]
fn requests_that_contradict_themselves_are_refused() {
    let fixture = Fixture::new();
    let store = Pumice::open(&fixture.path, &fixture.settings).unwrap();
    let (db, family) = (store.db(), &store.families()[1]);
    let sync_unlogged = WriteOptions { sync: true, disable_wal: true, ..Default::default() };
    let error = db.put_opt(&sync_unlogged, b"k", b"v").unwrap_err().to_string();
    assert_eq!(error, "Invalid argument: Sync writes has to enable WAL.");
    let error = db.delete_range_opt(&WriteOptions::default(), b"b", b"a").unwrap_err().to_string();
    assert_eq!(error, "Invalid argument: end key comes before start key");
    let again = db.create_column_family(&Default::default(), "family1").err().unwrap();
    assert_eq!(again.to_string(), "Invalid argument: Column family already exists");
    let dropped = db.drop_column_family(db.default_column_family()).unwrap_err().to_string();
    assert_eq!(dropped, "Invalid argument: Can't drop default column family");
    let error = db.set_options_cf(family, &[("nope", "1")]).unwrap_err().to_string();
    assert_eq!(error, "Invalid argument: Extra option not recognized: nope");
    let error = db.set_options_cf(family, &[("num_levels", "3")]).unwrap_err().to_string();
    assert_eq!(error, "Invalid argument: Option not changeable: num_levels");
    let error = db.checkpoint(&fixture.path).unwrap_err().to_string();
    assert_eq!(error, "Invalid argument: Directory exists");
    store.close().unwrap();
    fixture.opens();
}

#[pumice_test_macros::test]
fn damage_is_reported_with_the_file() {
    let fixture = Fixture::new();
    let current = fixture.path.join("CURRENT");
    let manifest = std::fs::read(&current).unwrap();
    for (damage, text) in [
        (&b""[..], "Corruption: CURRENT file does not end with newline"),
        (b"MANIFEST-000001", "Corruption: CURRENT file does not end with newline"),
        (b"garbage\n", "Corruption: CURRENT file corrupted"),
        (b"MANIFEST-999999\n", "MANIFEST-999999"),
    ] {
        std::fs::write(&current, damage).unwrap();
        fixture.refuses_damage(&[text]);
    }
    std::fs::write(&current, manifest).unwrap();

    let table = fixture.file(".sst");
    let (name, bytes) = (table.display().to_string(), std::fs::read(&table).unwrap());
    let mut newer = bytes.clone();
    let at = newer.len() - 12;
    newer[at] = 9; // format_version in the footer.
    std::fs::write(&table, newer).unwrap();
    let result = Pumice::open(&fixture.path, &fixture.settings);
    let error = match result {
        Err(error) => error,
        // Tables are opened when they are first read.
        Ok(mut store) => (0..2).find_map(|cf| store.get(cf, b"k\0", None).err()).unwrap(),
    };
    assert!(error.starts_with("Corruption: ") && error.contains(&name), "{error}");
    assert!(error.contains("format_version") && error.contains('9'), "{error}");
    std::fs::write(&table, &bytes[..bytes.len() - 1]).unwrap();
    fixture.refuses_damage(&["Corruption: ", "ile size mismatch", &name]);
    std::fs::remove_file(&table).unwrap();
    fixture.refuses_damage(&["No such file or directory", &name]);
    std::fs::write(&table, bytes).unwrap();
    fixture.opens();
}

const REFUSAL: &str = "refusal";

/// Child job: opens the parent's database with Pumice or RocksDB and leaves the refusal.
pub fn run_open(folder: &Path, engine: &str) -> Result<(), String> {
    let (path, settings) = (folder.join("db"), Settings::small(2));
    let refusal = match engine {
        "pumice" => Pumice::open(&path, &settings).err(),
        _ => RocksDb::open(&rocksdb::load()?, &path, &settings).err(),
    };
    let refusal = refusal.ok_or("the open of a locked database went through")?;
    std::fs::write(folder.join(REFUSAL), refusal).map_err(|e| e.to_string())
}

#[pumice_test_macros::test]
fn a_second_opener_is_refused() {
    let fixture = Fixture::new();
    let mut store = Pumice::open(&fixture.path, &fixture.settings).unwrap();
    let lock = fixture.path.join("LOCK").display().to_string();
    let folder = fixture.path.parent().unwrap();
    for engine in ["pumice", "rocksdb"] {
        child::run("open", folder, engine).unwrap();
        let error = std::fs::read_to_string(folder.join(REFUSAL)).unwrap();
        assert_eq!(
            error,
            format!("IO error: While lock file: {lock}: {}", "Resource temporarily unavailable"),
            "{engine}"
        );
    }
    let error = Pumice::open(&fixture.path, &fixture.settings).err().unwrap();
    assert!(error.starts_with("IO error: ") && error.contains(&lock), "{error}");
    assert_eq!(store.get(0, &[b'k', 0], None).unwrap(), Some(vec![b'v', 0]));
    store.close().unwrap();
    fixture.opens();
}
