//! Options that RocksDB does not know are not in the files that it reads, so it opens such
//! databases by their OPTIONS.

use std::path::Path;
use std::process::Command;

use pumice_peer::{ReadOptions, ReadSettings};

use crate::child;
use crate::stores::{rocksdb, temp_folder};

const KEYS: usize = 100;
/// Those of the database, and of its column families.
const OWN: [(&str, &str); 7] = [
    ("background_policy", "adaptive"),
    ("background_cpu_priority", "low"),
    ("background_io_priority", "idle"),
    ("read_latency_target_micros", "5000"),
    ("auto_tuned_compaction", "true"),
    ("merge_operator_failure_scope", "kMustMerge"),
    ("min_tombstones_for_range_conversion", "3"),
];

fn key(n: usize) -> Vec<u8> {
    format!("key{n:04}").into_bytes()
}

fn pumice_writes(path: &Path) {
    let mut options = pumice::Options::default();
    options.db.create_if_missing = true;
    for (name, value) in OWN {
        options.set(name, value).unwrap();
    }
    options.cf.table_factory.set("format_version", "5").unwrap(); // The newest that 7.8.3 reads.
    options.set("rate_limiter_bytes_per_sec", "100000000").unwrap();
    options.cf.write_buffer_size = 3 << 20;
    let db = pumice::Db::open(&options, path).unwrap();
    let other = db.create_column_family(&options.cf, "other").unwrap();
    let write = pumice::WriteOptions::default();
    for n in 0..KEYS {
        db.put_opt(&write, &key(n), b"default").unwrap();
        db.put_cf_opt(&write, &other, &key(n), b"other").unwrap();
    }
    db.flush_opt(&pumice::FlushOptions::default()).unwrap();
    // The options are changed, too, and the file is rewritten.
    db.set_db_options(&[("background_policy", "static"), ("background_cpu_priority", "idle")])
        .unwrap();
    db.set_options(&[("auto_tuned_compaction", "false"), ("write_buffer_size", "2097152")])
        .unwrap();
    db.close().unwrap();
}

/// Child job: RocksDB 10.10.1 opens the database by its OPTIONS and reads it.
pub fn run(folder: &Path, _argument: &str) -> Result<(), String> {
    let peer = rocksdb::load()?;
    let text = |error: pumice_peer::Error| error.to_string();
    let path = folder.join("db");
    let (options, families) = pumice_peer::Options::latest(&peer, &path).map_err(text)?;
    let families: Vec<_> = families.iter().map(|(name, of)| (name.as_str(), of)).collect();
    let names: Vec<_> = families.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["default", "other"]);
    let opened = pumice_peer::Db::open_cf(&options, &path, &families, false);
    let (db, handles) = opened.map_err(text)?;
    let read = ReadOptions::new(&peer, &ReadSettings::default());
    let mut found = Vec::new();
    for n in 0..KEYS {
        for (cf, name) in handles.iter().zip(&names) {
            assert!(db.get(&read, cf, &key(n), &mut found).map_err(text)?, "{name}: key {n}");
            assert_eq!(found, name.as_bytes());
        }
    }
    Ok(())
}

#[pumice_test_macros::test]
fn rocksdb_loads_the_options_of_a_database_with_options_of_ours() {
    let folder = temp_folder();
    let path = folder.path().join("db");
    pumice_writes(&path);
    let names = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> = names.filter(|p| p.to_string_lossy().contains("OPTIONS-")).collect();
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        assert!(OWN.iter().all(|(name, _)| !text.contains(name)), "{text}");
    }
    // Debian's RocksDB 7.8.3.
    let database = format!("--db={}", path.display());
    let arguments = [database.as_str(), "--try_load_options", "scan", "--column_family=other"];
    let scan = Command::new("ldb").args(arguments).output().unwrap();
    let (printed, complaints) =
        (String::from_utf8_lossy(&scan.stdout), String::from_utf8_lossy(&scan.stderr));
    assert_eq!(printed.lines().count(), KEYS, "{printed}{complaints}");
    child::run("rocksdb-own-options", folder.path(), "").unwrap();
    let rules = pumice::options::FileRules::default();
    let fs = pumice::PosixFs::shared();
    let loaded = pumice::options::load_latest_options(&*fs, &path, rules).unwrap().unwrap();
    assert_eq!(loaded.column_families.len(), 2, "what RocksDB wrote is read");
}
