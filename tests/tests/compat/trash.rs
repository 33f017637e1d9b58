//! What the paced deletion of one engine leaves as trash, the other one deletes, and reads the
//! rest.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use pumice_peer::{CompactRangeSettings, ReadOptions, ReadSettings, WriteOptions, WriteSettings};

use crate::child;
use crate::stores::{rocksdb, temp_folder};

const KEYS: usize = 200;

fn key(n: usize) -> Vec<u8> {
    format!("key{n:04}").into_bytes()
}

/// The value of the key after `round` rounds.
fn value(round: usize) -> Vec<u8> {
    format!("{round:0500}").into_bytes()
}

fn trash(path: &Path) -> Vec<String> {
    let names = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).filter(|name| name.ends_with(".trash")).collect()
}

fn rocksdb_writes(peer: &pumice_peer::Peer, path: &Path) -> pumice_peer::Result<()> {
    let mut options = pumice_peer::Options::new(peer);
    options.set("create_if_missing", "true")?;
    options.set_sst_file_manager(1, 1000.0);
    let db = pumice_peer::Db::open(&options, path)?;
    let cf = db.default_column_family();
    let write = WriteOptions::new(peer, &WriteSettings::default());
    for round in 0..3 {
        for n in 0..KEYS {
            db.put(&write, cf, &key(n), &value(round))?;
        }
        db.flush(cf)?;
    }
    db.compact_range(cf, None, None, &CompactRangeSettings::default());
    Ok(())
}

fn rocksdb_reads(peer: &pumice_peer::Peer, path: &Path) -> pumice_peer::Result<()> {
    let db = pumice_peer::Db::open(&pumice_peer::Options::new(peer), path)?;
    let read = ReadOptions::new(peer, &ReadSettings::default());
    let mut found = Vec::new();
    for n in 0..KEYS {
        assert!(db.get(&read, db.default_column_family(), &key(n), &mut found)?, "key {n}");
        assert_eq!(found, value(2), "key {n}");
    }
    Ok(())
}

/// Child job: RocksDB reads `ours` and writes `theirs`.
pub fn run(folder: &Path, _argument: &str) -> Result<(), String> {
    let peer = rocksdb::load()?;
    rocksdb_reads(&peer, &folder.join("ours")).map_err(|e| e.to_string())?;
    rocksdb_writes(&peer, &folder.join("theirs")).map_err(|e| e.to_string())
}

fn pumice_writes(path: &Path) {
    let settings = pumice::SstFileManagerOptions {
        rate_bytes_per_sec: 1,
        max_trash_db_ratio: 1000.0,
        ..Default::default()
    };
    let mut options = pumice::Options::default();
    options.db.create_if_missing = true;
    options.db.sst_file_manager = Some(Arc::new(pumice::SstFileManager::new(&settings).unwrap()));
    options.cf.table_factory.set("format_version", "5").unwrap(); // The newest that 7.8.3 reads.
    let db = pumice::Db::open(&options, path).unwrap();
    for round in 0..3 {
        for n in 0..KEYS {
            db.put_opt(&pumice::WriteOptions::default(), &key(n), &value(round)).unwrap();
        }
        db.flush_opt(&pumice::FlushOptions::default()).unwrap();
    }
    db.compact_range(&pumice::CompactRangeOptions::default(), None, None).unwrap();
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn trash_of_the_other_engine() {
    let folder = temp_folder();
    let (ours, theirs) = (folder.path().join("ours"), folder.path().join("theirs"));
    pumice_writes(&ours);
    let kinds = trash(&ours);
    for kind in [".sst.trash", ".log.trash"] {
        assert!(kinds.iter().any(|name| name.ends_with(kind)), "{kinds:?}");
    }
    // Debian's RocksDB 7.8.3 deletes trash even if it only reads.
    let copy = folder.path().join("copy");
    std::fs::create_dir(&copy).unwrap();
    for entry in std::fs::read_dir(&ours).unwrap().map(Result::unwrap) {
        std::fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    let database = format!("--db={}", copy.display());
    let scan = Command::new("ldb").args([database.as_str(), "scan"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&scan.stdout).lines().count(), KEYS);
    child::run("rocksdb-trash", folder.path(), "").unwrap();
    assert_eq!(trash(&ours), Vec::<String>::new(), "RocksDB deletes it when it opens");
    assert!(trash(&theirs).iter().any(|name| name.ends_with(".sst.trash")), "RocksDB left some");
    let db = pumice::Db::open(&pumice::Options::default(), &theirs).unwrap();
    assert_eq!(trash(&theirs), Vec::<String>::new());
    for n in 0..KEYS {
        let found = db.get_opt(&pumice::ReadOptions::default(), &key(n)).unwrap();
        assert_eq!(found.as_deref(), Some(&value(2)[..]), "key {n}");
    }
    db.close().unwrap();
}
