//! Features of the handle compared with RocksDB: databases whose values expire and atomic flushes
//! of several families, with the C library of 10.10.1 and Debian's `ldb` 7.8.3; what collectors
//! store in tables, with Debian's `sst_dump`.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use crate::common::Scratch;
use pumice::options::merge_operator_by_name;
use pumice::{
    CollectorContext, ColumnFamilyDescriptor, CompactRangeOptions, Db, DbWithTtl, EntryType,
    Options, TablePropertiesCollector, TablePropertiesCollectorFactory,
};
use pumice_peer::{
    CompactRangeSettings, Peer, ReadOptions, ReadSettings, WriteOptions, WriteSettings,
};
use pumice_port::time::wall_seconds;

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.cf.merge_operator = merge_operator_by_name("stringappend");
    options
}

/// `value` as stored if it was written `seconds_ago`.
fn stored(value: &str, seconds_ago: u64) -> Vec<u8> {
    let time = (wall_seconds() - seconds_ago) as u32;
    [value.as_bytes(), &time.to_le_bytes()].concat()
}

fn compact(db: &Db) {
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
}

/// What RocksDB reads with a time to live of `ttl`, before and after a compaction; then it writes.
fn rocksdb_goes_on(peer: &Peer, path: &Path, ttl: i32) -> [Vec<Option<Vec<u8>>>; 2] {
    let mut options = pumice_peer::Options::new(peer);
    options.set_many("merge_operator=stringappend").unwrap();
    let db = pumice_peer::Db::open_with_ttl(&options, path, ttl).unwrap();
    let cf = db.default_column_family().clone();
    let read = ReadOptions::new(peer, &ReadSettings::default());
    let write = WriteOptions::new(peer, &WriteSettings::default());
    let all = || {
        let keys = ["old", "new", "merged"];
        let get = |key: &str| {
            let mut value = Vec::new();
            db.get(&read, &cf, key.as_bytes(), &mut value).unwrap().then_some(value)
        };
        keys.map(get).to_vec()
    };
    let before = all();
    let forced = CompactRangeSettings { bottommost_level: 2, ..Default::default() };
    db.compact_range(&cf, None, None, &forced);
    let after = all();
    db.put(&write, &cf, b"theirs", b"put").unwrap();
    db.merge(&write, &cf, b"merged", b"theirs").unwrap();
    [before, after]
}

#[pumice_test_macros::test]
fn values_expire_in_both_engines() {
    let Some(library) = pumice_peer::installed_library() else { return };
    let peer = Peer::load(library).unwrap();
    let dir = Scratch::new("interop");
    let ours = DbWithTtl::open(&options(), &dir.0, 1000).unwrap();
    ours.db().put("old", stored("v", 500)).unwrap();
    ours.put("new", "v").unwrap();
    ours.merge("merged", "a").unwrap();
    ours.merge("merged", "b").unwrap();
    compact(ours.db());
    ours.db().close().unwrap();
    drop(ours);

    let some = |text: &str| Some(text.as_bytes().to_vec());
    let [before, after] = rocksdb_goes_on(&peer, &dir.0, 100);
    assert_eq!(before, [some("v"), some("v"), some("a,b")]);
    assert_eq!(after, [None, some("v"), some("a,b")], "RocksDB reads our times as its own");

    let ours = DbWithTtl::open(&options(), &dir.0, 1000).unwrap();
    let get = |key: &str| ours.get(key).unwrap().map(|value| value.into_vec());
    for _ in 0..2 {
        assert_eq!(get("old"), None);
        assert_eq!(get("theirs"), some("put"));
        assert_eq!(get("merged"), some("a,b,theirs"));
        compact(ours.db());
    }
    // Theirs expires here: an hour ago is too long.
    let plain = ours.db();
    let aged = plain.get("theirs").unwrap().unwrap().into_vec();
    let value = [&aged[..3], &((wall_seconds() - 3600) as u32).to_le_bytes()].concat();
    plain.put("theirs", value).unwrap();
    compact(plain);
    assert_eq!(get("theirs"), None);
    plain.close().unwrap();
}

#[derive(Debug)]
struct Lengths;

/// The longest value of a table.
struct Longest(u64);

impl TablePropertiesCollectorFactory for Lengths {
    fn name(&self) -> &str {
        "LengthsCollector"
    }
    fn create_collector(&self, _: &CollectorContext) -> Option<Box<dyn TablePropertiesCollector>> {
        Some(Box::new(Longest(0)))
    }
}

impl TablePropertiesCollector for Longest {
    fn add(&mut self, _: &[u8], value: &[u8], _: EntryType, _: u64, _: u64) {
        self.0 = self.0.max(value.len() as u64);
    }
    fn finish(&mut self) -> Vec<(String, Vec<u8>)> {
        vec![("app.longest".to_string(), self.0.to_be_bytes().to_vec())]
    }
}

/// `cargo xtask peers` installs the tool.
#[pumice_test_macros::test]
fn sst_dump_shows_what_collectors_left() {
    let dir = Scratch::new("interop");
    let mut options = options();
    options.cf.table_factory.format_version = 5;
    options.cf.table_properties_collector_factories = vec![Arc::new(Lengths)];
    let db = Db::open(&options, &dir.0).unwrap();
    db.put("a", "short").unwrap();
    db.put("b", "x".repeat(0x1234)).unwrap();
    db.flush().unwrap();
    let file = db.live_files_metadata()[0].name.clone();
    let file = format!("--file={}{file}", dir.0.display());
    let mut tool = Command::new("sst_dump");
    let output = tool.args([&file, "--show_properties", "--command=none"]).output();
    let output = output.unwrap_or_else(|e| panic!("sst_dump: {e}; run `cargo xtask peers`"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    assert!(lines.contains(&"# app.longest: 0x0000000000001234"), "{text}");
    assert!(text.contains("property collectors names: [LengthsCollector]"), "{text}");
    db.close().unwrap();
}

/// The value of `key` in each family, as RocksDB finds it with the options that the OPTIONS file
/// has. Then it writes `2` to all in no log, which its close flushes.
fn rocksdb_flushes_as_one(peer: &Peer, path: &Path) -> Vec<Option<Vec<u8>>> {
    let (options, families) = pumice_peer::Options::latest(peer, path).unwrap();
    let families: Vec<_> = families.iter().map(|(name, o)| (name.as_str(), o)).collect();
    let (db, cfs) = pumice_peer::Db::open_cf(&options, path, &families, false).unwrap();
    let read = ReadOptions::new(peer, &ReadSettings::default());
    let unlogged = WriteSettings { disable_wal: true, ..Default::default() };
    let write = WriteOptions::new(peer, &unlogged);
    let found = cfs.iter().map(|cf| {
        let mut value = Vec::new();
        db.get(&read, cf, b"key", &mut value).unwrap().then_some(value)
    });
    let found = found.collect();
    for cf in &cfs {
        db.put(&write, cf, b"key", b"2").unwrap();
    }
    found
}

fn ldb(path: &Path, args: &[&str]) -> String {
    let output = Command::new("ldb").arg(format!("--db={}", path.display())).args(args).output();
    let output = output.unwrap_or_else(|e| panic!("ldb: {e}; run `cargo xtask peers` first"));
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[pumice_test_macros::test]
fn atomic_flushes_of_either_engine_are_read_by_the_other() {
    let Some(library) = pumice_peer::installed_library() else { return };
    let peer = Peer::load(library).unwrap();
    let dir = Scratch::new("interop");
    let mut options = options();
    options.db.create_missing_column_families = true;
    options.db.atomic_flush = true;
    options.cf.set("block_based_table_factory", "{format_version=5;}").unwrap(); // For 7.8.
    let open = || {
        let family = |name| ColumnFamilyDescriptor::new(name, options.cf.clone());
        Db::open_cf(&options.db, &dir.0, &["default", "meta"].map(family)).unwrap()
    };
    let (db, cfs) = open();
    let unlogged = pumice::WriteOptions { disable_wal: true, ..Default::default() };
    for cf in &cfs {
        db.put_cf_opt(&unlogged, cf, b"key", b"1").unwrap();
    }
    db.flush().unwrap();
    let edits = ldb(&dir.0, &["manifest_dump", "--verbose"]);
    for countdown in ["AtomicGroup: 1 entries remains", "AtomicGroup: 0 entries remains"] {
        assert!(edits.contains(countdown), "{edits}");
    }
    db.close().unwrap();
    drop((db, cfs));
    let families = ldb(&dir.0, &["list_column_families"]);
    assert!(families.contains("default") && families.contains("meta"), "{families}");
    assert!(ldb(&dir.0, &["checkconsistency"]).contains("OK"));

    let one = Some(b"1".to_vec());
    assert_eq!(rocksdb_flushes_as_one(&peer, &dir.0), [one.clone(), one]);
    let edits = ldb(&dir.0, &["manifest_dump", "--verbose"]);
    assert!(edits.contains("AtomicGroup: 1 entries remains"), "{edits}");
    let (db, cfs) = open();
    for cf in &cfs {
        let found = db.get_cf_opt(&Default::default(), cf, b"key").unwrap();
        assert_eq!(found.as_deref(), Some(&b"2"[..]));
    }
    db.close().unwrap();
}
