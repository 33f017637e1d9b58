//! Databases that RocksDB 11.9 wrote, with their OPTIONS files, read by the library and by ldb.
//!
//! `tests/testdata/rocksdb-11.9/README.md` says what each archive holds. A readable database must
//! give exactly `scan.txt`, with a warning that lists the options unknown here; a feature that
//! cannot be read is refused by name.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pumice::options::{FileRules, LoadedOptions, UserDefinedIndex, load_latest_options};
use pumice::{
    ColumnFamily, ColumnFamilyDescriptor, CompactRangeOptions, Db, ReadOptions, WriteOptions,
};
use pumice_env::PosixFs;

/// Names that 11.9 writes and the option tables lack.
const UNKNOWN: [&str; 4] = [
    "fast_sst_open",
    "read_io_executor_threads",
    "blob_compression_opts",
    "index_block_search_type",
];

/// An unpacked archive; it disappears with the test.
struct Unpacked(PathBuf);

impl Unpacked {
    fn new(name: &str, test: &str) -> Self {
        let process = std::process::id();
        let path = std::env::temp_dir().join(format!("pumice-11-{process}-{test}-{name}"));
        std::fs::create_dir_all(&path).unwrap();
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/testdata/rocksdb-11.9");
        let archive = data.join(format!("{name}.tar.gz"));
        let tar = Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(&path).status();
        assert!(tar.unwrap().success());
        Unpacked(path.join(name))
    }
    fn db(&self) -> PathBuf {
        self.0.join("db")
    }
    fn scan(&self) -> String {
        std::fs::read_to_string(self.0.join("scan.txt")).unwrap()
    }
    fn ldb(&self, words: &[&str]) -> (bool, String, String) {
        let program = env!("CARGO_BIN_EXE_pumice");
        let db = format!("--db={}", self.db().display());
        let Output { status, stdout, stderr } =
            Command::new(program).arg("ldb").arg(db).args(words).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        (status.success(), text(stdout), text(stderr))
    }
    fn load(&self, rules: FileRules) -> pumice::Result<LoadedOptions> {
        load_latest_options(&PosixFs, &self.db(), rules).map(|loaded| loaded.unwrap())
    }
}

impl Drop for Unpacked {
    fn drop(&mut self) {
        std::fs::remove_dir_all(self.0.parent().unwrap()).unwrap();
    }
}

fn reading() -> FileRules {
    FileRules { for_reading: true, ..FileRules::default() }
}

fn descriptors(loaded: &LoadedOptions) -> Vec<ColumnFamilyDescriptor> {
    let families = loaded.column_families.iter();
    families.map(|cf| ColumnFamilyDescriptor::new(&cf.name, cf.options.clone())).collect()
}

/// The lines of a scan, as `ldb scan --hex` prints them.
fn scan(db: (Db, Vec<ColumnFamily>)) -> String {
    scan_with(db, &ReadOptions::default())
}

fn scan_with((db, handles): (Db, Vec<ColumnFamily>), options: &ReadOptions) -> String {
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|b| format!("{b:02X}")).collect() };
    let mut lines = String::new();
    let mut entries = db.cursor_cf_opt(options, &handles[0]).unwrap();
    entries.seek_to_first();
    while entries.valid() {
        lines.push_str(&format!(
            "0x{} : 0x{}\n",
            hex(entries.key().unwrap()),
            hex(entries.value().unwrap())
        ));
        entries.next();
    }
    entries.status().unwrap();
    lines
}

#[pumice_test_macros::test]
fn the_library_reads_them_with_their_options() {
    for name in ["default", "separated", "trie-index", "wal-zstd", "universal", "blob-lz4"] {
        let it = Unpacked::new(name, "library");
        let loaded = it.load(reading()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(loaded.rocksdb_version, "11.9.0");
        for unknown in UNKNOWN {
            let noted = |note: &String| note.starts_with(&format!("{unknown}="));
            assert_eq!(loaded.ignored.iter().filter(|n| noted(n)).count(), 1, "{name}: {unknown}");
        }
        assert_eq!(
            loaded.column_families[0].options.compaction_options_fifo.max_table_files_size,
            0
        );
        let opened = Db::open_read_only(&loaded.db, it.db(), &descriptors(&loaded), false);
        assert_eq!(scan(opened.unwrap()), it.scan(), "{name}");
    }
}

/// What a writer would do to them without the option that was set is refused with its name.
#[pumice_test_macros::test]
fn what_decides_how_files_are_written_is_refused_to_writers() {
    let option = "user_defined_index_factory=another_index";
    let it = Unpacked::new("trie-index", "writers");
    let path = it.db().join("OPTIONS-000007");
    let text = std::fs::read_to_string(&path).unwrap();
    let text = text.replace("user_defined_index_factory=trie_index", option);
    std::fs::write(&path, text).unwrap();
    let error = it.load(FileRules::default()).err().unwrap().to_string();
    assert!(error.contains("Not implemented") && error.contains(option), "{error}");
    for words in [&["put", "a", "b"][..], &["compact"], &["create_column_family", "x"]] {
        let (ok, _, err) = it.ldb(words);
        assert!(!ok && err.contains(option), "{words:?}: {err}");
    }
}

/// Tables with a trie are read through it, and a compaction writes such tables.
#[pumice_test_macros::test]
fn tries_are_read_and_written() {
    let it = Unpacked::new("trie-index", "tries");
    let through = |primary: bool| {
        let mut loaded = it.load(FileRules::default()).unwrap();
        assert_eq!(loaded.rocksdb_version, if primary { "11.8.0" } else { "11.9.0" });
        let tables = &mut loaded.column_families[0].options.table_factory;
        assert_eq!(tables.user_defined_index_factory, Some(UserDefinedIndex::Trie));
        tables.fail_if_no_udi_on_open = true;
        tables.use_udi_as_primary_index = primary;
        Db::open_read_only(&loaded.db, it.db(), &descriptors(&loaded), false).unwrap()
    };
    let asked =
        ReadOptions { table_index_factory: Some(UserDefinedIndex::Trie), ..ReadOptions::default() };
    assert_eq!(scan_with(through(false), &asked), it.scan());
    for words in [&["put", "zzz", "new"][..], &["compact"]] {
        let (ok, _, err) = it.ldb(words);
        assert!(ok, "{words:?}: {err}");
    }
    assert_eq!(scan(through(true)), format!("{}0x7A7A7A : 0x6E6577\n", it.scan()));
    let (db, families) = through(true);
    for line in it.scan().lines() {
        let (key, value) = line.split_once(" : ").unwrap();
        let [key, value] = [key, value].map(|hex| unhex(&hex[2..]));
        assert_eq!(db.get_cf_opt(&asked, &families[0], &key).unwrap().as_deref(), Some(&*value));
    }
}

fn unhex(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// Compaction goes on with the form of blocks that the database has.
#[pumice_test_macros::test]
fn values_stay_apart_from_their_keys() {
    // Without what a property's name may share with the one before it.
    const PROPERTY: &str = "parate.key.value.in.data.block";
    let it = Unpacked::new("separated", "written");
    let before = it.load(FileRules::default()).unwrap();
    assert!(before.column_families[0].options.table_factory.separate_key_value_in_data_block);
    for words in [&["put", "zzz", "new"][..], &["compact"], &["checkconsistency"]] {
        let (ok, _, err) = it.ldb(words);
        assert!(ok, "{words:?}: {err}");
    }
    let (ok, out, err) = it.ldb(&["scan", "--hex"]);
    assert!(ok && out == format!("{}0x7A7A7A : 0x6E6577\n", it.scan()), "{err}");
    let after = it.load(FileRules::default()).unwrap();
    assert_eq!(after.rocksdb_version, "11.8.0", "our OPTIONS file has the option");
    assert!(after.column_families[0].options.table_factory.separate_key_value_in_data_block);
    let names = std::fs::read_dir(it.db()).unwrap().map(|entry| entry.unwrap().path());
    let tables: Vec<_> =
        names.filter(|path| path.extension().is_some_and(|e| e == "sst")).collect();
    assert!(!tables.is_empty());
    for table in tables {
        let bytes = std::fs::read(table).unwrap();
        assert!(bytes.windows(PROPERTY.len()).any(|at| at == PROPERTY.as_bytes()));
    }
}

/// Nothing is special about `default`: it is written and reopened, and its info log says what was
/// skipped.
#[pumice_test_macros::test]
fn a_database_of_a_newer_rocksdb_can_be_written() {
    let it = Unpacked::new("default", "written");
    let loaded = it.load(FileRules::default()).unwrap();
    let (db, _) = Db::open_cf(&loaded.db, it.db(), &descriptors(&loaded)).unwrap();
    db.put_opt(&WriteOptions::default(), b"zzz", b"new").unwrap();
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    db.close().unwrap();
    let log = std::fs::read_to_string(it.db().join("LOG")).unwrap();
    let skipped = log.lines().find(|line| line.contains("Options skipped in the OPTIONS file"));
    let skipped = skipped.expect("a line in the info log");
    for unknown in UNKNOWN {
        assert!(skipped.contains(&format!("{unknown}=")), "{unknown}: {skipped}");
    }
    let (ok, out, err) = it.ldb(&["scan", "--hex"]);
    assert!(ok && out == format!("{}0x7A7A7A : 0x6E6577\n", it.scan()), "{err}");
    assert_eq!(err, "", "our own OPTIONS file has nothing to skip");
}

/// The runs of such a database are compacted as universal compaction does, by the library and by
/// ldb.
#[pumice_test_macros::test]
fn a_universal_database_of_a_newer_rocksdb_can_be_compacted() {
    let it = Unpacked::new("universal", "compacted");
    let loaded = it.load(FileRules::default()).unwrap();
    let style = loaded.column_families[0].options.compaction_style;
    assert_eq!(style, pumice::options::CompactionStyle::Universal);
    let (db, _) = Db::open_cf(&loaded.db, it.db(), &descriptors(&loaded)).unwrap();
    db.put_opt(&WriteOptions::default(), b"zzz", b"new").unwrap();
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    let last = loaded.column_families[0].options.num_levels - 1;
    assert!(db.live_files_metadata().iter().all(|file| file.level as i32 == last));
    db.close().unwrap();
    let (ok, out, err) = it.ldb(&["scan", "--hex"]);
    assert!(ok && out == format!("{}0x7A7A7A : 0x6E6577\n", it.scan()), "{err}");
    for words in [&["delete", "zzz"][..], &["compact"], &["checkconsistency"]] {
        let (ok, _, err) = it.ldb(words);
        assert!(ok, "{words:?}: {err}");
    }
    assert_eq!(it.ldb(&["scan", "--hex"]).1, it.scan());
}

#[pumice_test_macros::test]
fn ldb_reads_them_with_their_options() {
    for name in ["default", "separated", "trie-index", "wal-zstd", "universal", "blob-lz4"] {
        let it = Unpacked::new(name, "ldb");
        let (ok, out, err) = it.ldb(&["scan", "--hex"]);
        assert!(ok, "{name}: {err}");
        assert_eq!(out, it.scan(), "{name}");
        assert!(err.starts_with("WARNING: options of RocksDB 11.9.0 are skipped: "), "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
        for unknown in UNKNOWN {
            assert!(err.contains(unknown), "{name}: {unknown} in {err}");
        }
        for command in
            [&["checkconsistency"][..], &["dump", "--count_only"], &["idump", "--count_only"]]
        {
            let (ok, _, err) = it.ldb(command);
            assert!(ok, "{name} {command:?}: {err}");
        }
    }
}

/// Values in blob files are read, kept by compactions, and written.
#[pumice_test_macros::test]
fn values_in_blob_files_are_read_and_written() {
    let it = Unpacked::new("blob-lz4", "written");
    let first = it.scan().split(' ').next().unwrap().to_string();
    let (ok, value, err) = it.ldb(&["get", &first, "--hex"]);
    assert!(ok && it.scan().starts_with(&format!("{first} : {value}")), "{value} {err}");
    let (ok, out, err) = it.ldb(&["get_property", "rocksdb.num-blob-files"]);
    assert!(ok && out == "rocksdb.num-blob-files: 5\n", "{out} {err}");
    for words in [&["compact"][..], &["checkconsistency"], &["dump", "--count_only"]] {
        let (ok, _, err) = it.ldb(words);
        assert!(ok, "{words:?}: {err}");
        assert_eq!(it.ldb(&["scan", "--hex"]).1, it.scan(), "{words:?}");
    }
}

/// Keys with timestamps are read by the library and by the tools.
#[pumice_test_macros::test]
fn timestamps_are_read_at_the_largest_and_by_the_tools_at_a_time() {
    let it = Unpacked::new("timestamps", "read");
    let newest = format!("--read_timestamp={}", u64::MAX);
    let (ok, out, err) = it.ldb(&["scan", "--hex", &newest]);
    assert!(ok && out == it.scan(), "{out} {err}");
    let first = out.lines().next().unwrap();
    let (key, value) = first.split_once(" : ").unwrap();
    let (key, time) = key.split_once("|timestamp:").unwrap();
    let at = format!("--read_timestamp={time}");
    let (ok, out, err) = it.ldb(&["get", key, "--hex", &at]);
    assert!(ok && out.trim_end() == value, "{out} {err}");
    let (ok, out, err) = it.ldb(&["dump", "--hex"]);
    assert!(ok && out.starts_with(&first.replace(" : ", " ==> ")), "{out} {err}");
    let missing = "enables user-defined timestamp while --read_timestamp is";
    for (words, text) in [
        (&["scan", "--hex"][..], missing),
        (&["get", "x", "--read_timestamp="], missing),
        (&["get", "x", "--read_timestamp=old"], "not a valid uint64 value"),
        (&["put", "a", "b"], "timestamp"),
    ] {
        let (ok, out, err) = it.ldb(words);
        assert!(!ok && out.is_empty() && err.contains(text), "{words:?}: {out} {err}");
    }
    let loaded = it.load(reading()).unwrap();
    let read = |time: u64| {
        let (db, handles) =
            Db::open_read_only(&loaded.db, it.db(), &descriptors(&loaded), false).unwrap();
        let hex = |bytes: &[u8]| -> String { bytes.iter().map(|b| format!("{b:02X}")).collect() };
        let mut cursor = db.at(time).in_cf(&handles[0]).cursor().unwrap();
        let mut lines = String::new();
        cursor.seek_to_first();
        while let Some((key, value)) = cursor.item() {
            let time = u64::from_le_bytes(cursor.timestamp().unwrap().try_into().unwrap());
            lines += &format!("0x{}|timestamp:{time} : 0x{}\n", hex(key), hex(value));
            let found = db.at(time).in_cf(&handles[0]).get(key).unwrap();
            assert_eq!(found.as_deref(), Some(value));
            cursor.next();
        }
        cursor.status().unwrap();
        lines
    };
    assert_eq!(read(u64::MAX), it.scan());
    // As with 11.8.1's library.
    assert_eq!(read(0).lines().count(), 1);
    // A program that brings its own comparator must give the database's.
    let mut plain = loaded.clone();
    plain.column_families[0].options.comparator = pumice::Comparator::default();
    let opened = Db::open_read_only(&plain.db, it.db(), &descriptors(&plain), false);
    let error = opened.err().unwrap().to_string();
    assert!(error.contains("disable user-defined timestamps feature"), "{error}");
}
