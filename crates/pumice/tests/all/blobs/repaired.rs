//! Repair of databases with blob files: what can be read is kept, garbage stays exact, and RocksDB
//! opens the result.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::blobs::theirs::{Theirs, blob_files, peer};
use crate::blobs::written::{compact, number, options};
use crate::common::{Scratch, contents};
use pumice::{Db, FileFate, Options, RepairOutcome, RepairReport};
use pumice_env::mem::{Fault, FaultOp, FaultRule};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn with_collection() -> Options {
    let mut options = options();
    options.cf.blob_file_size = 600;
    options
}

/// Blob files of about seven values each, of which some are garbage, and small values in tables.
fn fill(dir: &Path) -> Model {
    let db = Db::open(&with_collection(), dir).unwrap();
    let mut model = Model::new();
    for round in 0..3u8 {
        for n in 0..15u8 {
            if n % 3 == round {
                let (key, value) = (vec![b'k', n], vec![b'a' + n; 50 + usize::from(round)]);
                db.put(&key, &value).unwrap();
                model.insert(key, value);
            }
        }
        for key in [b'k', b's'] {
            let value = if key == b'k' { vec![round; 60] } else { vec![round; 5] };
            db.put([key, 200], &value).unwrap();
            model.insert(vec![key, 200], value);
        }
        db.flush().unwrap();
    }
    compact(&db);
    assert!(number(&db, "live-blob-file-garbage-size") > 0);
    assert_eq!(contents(&db), model.clone().into_iter().collect::<Vec<_>>());
    db.close().unwrap();
    model
}

fn paths(dir: &Path) -> Vec<PathBuf> {
    blob_files(dir).iter().map(|name| dir.join(name)).collect()
}

/// The repaired database has `model`, its blob files are sound and go once all is deleted, and
/// RocksDB reads the same.
fn check(dir: &Path, model: &Model) {
    let wanted: Vec<_> = model.clone().into_iter().collect();
    if let Some(peer) = peer() {
        let db = Theirs::open(&peer, dir, "");
        assert_eq!(db.contents(), wanted);
    }
    let mut options = with_collection();
    options.cf.enable_blob_garbage_collection = true;
    options.cf.blob_garbage_collection_age_cutoff = 1.0;
    let db = Db::open(&options, dir).unwrap();
    assert_eq!(contents(&db), wanted);
    db.verify_checksum().unwrap();
    compact(&db);
    assert_eq!(contents(&db), wanted);
    for key in model.keys() {
        db.delete(key).unwrap();
    }
    compact(&db);
    assert_eq!(number(&db, "num-blob-files"), 0);
    db.close().unwrap();
}

fn repair(dir: &Path) -> RepairReport {
    let report = pumice::repair(&with_collection(), dir).unwrap();
    println!("{report}");
    // What it made needs no repair.
    let again = pumice::repair(&with_collection(), dir).unwrap();
    assert_eq!(again.outcome, RepairOutcome::Healthy, "{again}");
    report
}

fn fate(report: &RepairReport, path: &Path) -> FileFate {
    let name = path.file_name().unwrap().to_str().unwrap();
    report.files.iter().find(|file| file.name == name).unwrap().fate
}

#[pumice_test_macros::test]
fn a_healthy_database_stays_as_it_is() {
    let dir = Scratch::new("blob-repair-healthy");
    let model = fill(&dir.0);
    let before = paths(&dir.0);
    let report = repair(&dir.0);
    assert_eq!((report.outcome, report.is_complete()), (RepairOutcome::Healthy, true));
    assert_eq!(paths(&dir.0), before);
    check(&dir.0, &model);
}

#[pumice_test_macros::test]
fn one_damaged_value_is_lost_alone() {
    let dir = Scratch::new("blob-repair-value");
    let mut model = fill(&dir.0);
    let path = paths(&dir.0).remove(0);
    let mut bytes = std::fs::read(&path).unwrap();
    // In the value of the first record, whose key has two bytes.
    bytes[30 + 32 + 2 + 5] ^= 1;
    let key = bytes[30 + 32..30 + 34].to_vec();
    std::fs::write(&path, bytes).unwrap();
    let report = repair(&dir.0);
    assert_eq!((report.outcome, report.is_complete()), (RepairOutcome::Repaired, false));
    assert_eq!(fate(&report, &path), FileFate::Kept);
    let lost: u64 = report.files.iter().filter_map(|file| file.entries_lost).sum();
    assert_eq!(lost, 1, "{report}");
    assert!(model.remove(&key).is_some());
    check(&dir.0, &model);
}

/// Values of a file that was cut move into the table as far as their records are whole.
#[pumice_test_macros::test]
fn what_a_cut_file_still_has_is_kept() {
    let dir = Scratch::new("blob-repair-cut");
    let mut model = fill(&dir.0);
    // Its last value is the newest of its key.
    let path = paths(&dir.0).pop().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let last = bytes.len() - 32 - 50;
    std::fs::write(&path, &bytes[..last]).unwrap();
    let report = repair(&dir.0);
    assert_eq!((report.outcome, report.is_complete()), (RepairOutcome::Repaired, false));
    assert_eq!(fate(&report, &path), FileFate::Rewritten);
    assert!(!path.exists() && dir.0.join("lost").join(path.file_name().unwrap()).exists());
    let lost: u64 = report.files.iter().filter_map(|file| file.entries_lost).sum();
    assert_eq!(lost, 1, "{report}");
    let db = Db::open(&with_collection(), &dir.0).unwrap();
    let missing = |key: &&Vec<u8>| db.get(key).unwrap().is_none();
    let gone: Vec<_> = model.keys().filter(missing).cloned().collect();
    db.close().unwrap();
    assert_eq!(gone.len(), 1);
    model.remove(&gone[0]);
    check(&dir.0, &model);
}

/// Without header or footer, every value is still there.
#[pumice_test_macros::test]
fn a_file_without_its_ends_loses_nothing() {
    for at in [0, usize::MAX] {
        let dir = Scratch::new(&format!("blob-repair-ends-{at}"));
        let model = fill(&dir.0);
        let path = paths(&dir.0).remove(0);
        let mut bytes = std::fs::read(&path).unwrap();
        let at = at.min(bytes.len() - 1);
        bytes[at] ^= 0x10;
        std::fs::write(&path, bytes).unwrap();
        let report = repair(&dir.0);
        assert_eq!(fate(&report, &path), FileFate::Rewritten);
        assert!(report.is_complete(), "{report}");
        check(&dir.0, &model);
    }
}

#[pumice_test_macros::test]
fn a_missing_file_costs_its_values() {
    let dir = Scratch::new("blob-repair-missing");
    let mut model = fill(&dir.0);
    let path = paths(&dir.0).remove(1);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let report = repair(&dir.0);
    assert_eq!((report.outcome, report.is_complete()), (RepairOutcome::Repaired, false));
    assert_eq!(fate(&report, &path), FileFate::Lost);
    let mut at = 30;
    while at < bytes.len() - 32 {
        let length = u64::from_le_bytes(bytes[at + 8..at + 16].try_into().unwrap()) as usize;
        let (key, value) = (&bytes[at + 32..at + 34], &bytes[at + 34..at + 34 + length]);
        if model.get(key).is_some_and(|now| now == value) {
            model.remove(key);
        }
        at += 34 + length;
    }
    check(&dir.0, &model);
}

/// Without a MANIFEST the files say what they are, and the tables what of them is garbage.
#[pumice_test_macros::test]
fn without_a_manifest_garbage_is_counted_anew() {
    let dir = Scratch::new("blob-repair-rebuilt");
    let model = fill(&dir.0);
    let db = Db::open(&with_collection(), &dir.0).unwrap();
    let statistics = db.property("rocksdb.blob-stats").unwrap();
    db.close().unwrap();
    for file in std::fs::read_dir(&dir.0).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        if name.starts_with("MANIFEST") || name == "CURRENT" {
            std::fs::remove_file(path).unwrap();
        }
    }
    let stray = dir.0.join("000900.blob");
    std::fs::copy(&paths(&dir.0)[0], &stray).unwrap();
    let report = repair(&dir.0);
    assert_eq!(report.outcome, RepairOutcome::Rebuilt);
    assert_eq!(fate(&report, &stray), FileFate::NotUsed);
    let db = Db::open(&with_collection(), &dir.0).unwrap();
    assert_eq!(db.property("rocksdb.blob-stats").unwrap(), statistics);
    db.close().unwrap();
    check(&dir.0, &model);
}

/// A file that cannot be opened is not one that is damaged: the repair fails and changes nothing.
#[pumice_test_macros::test]
fn a_file_that_does_not_open_ends_the_repair() {
    let fs = pumice::MemFs::new(1);
    let mut options = with_collection();
    options.db.file_system = fs.shared();
    let db = Db::open(&options, "/db").unwrap();
    for n in 0..20u8 {
        db.put([b'k', n], [n; 100]).unwrap();
    }
    db.flush().unwrap();
    let wanted = contents(&db);
    db.close().unwrap();
    let rule = FaultRule {
        op: Some(FaultOp::Open),
        path_glob: "*.blob".into(),
        skip: 1,
        count: 1,
        fault: Fault::Eio,
    };
    fs.add_fault(rule);
    let error = pumice::repair(&options, "/db").unwrap_err();
    assert_eq!(error.kind(), pumice::ErrorKind::IoError, "{error}");
    fs.clear_faults();
    let report = pumice::repair(&options, "/db").unwrap();
    assert_eq!(report.outcome, RepairOutcome::Healthy, "{report}");
    let db = Db::open(&options, "/db").unwrap();
    assert_eq!(contents(&db), wanted);
    db.close().unwrap();
}

/// A table all of whose values are gone is lost, also where nothing else is known of it.
#[pumice_test_macros::test]
fn a_table_without_any_value_left_is_lost() {
    let dir = Scratch::new("blob-repair-nothing");
    let db = Db::open(&with_collection(), &dir.0).unwrap();
    db.put("key", [1; 100]).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    std::fs::remove_file(&paths(&dir.0)[0]).unwrap();
    for file in std::fs::read_dir(&dir.0).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        if name.starts_with("MANIFEST") || name == "CURRENT" {
            std::fs::remove_file(path).unwrap();
        }
    }
    let report = pumice::repair(&with_collection(), &dir.0).unwrap();
    assert_eq!((report.outcome, report.is_complete()), (RepairOutcome::Rebuilt, false));
    assert!(report.files.iter().any(|file| file.fate == FileFate::Lost), "{report}");
}

/// Columns in blob files move into their entity, others stay where they are.
#[pumice_test_macros::test]
fn columns_are_kept() {
    let dir = Scratch::new("blob-repair-columns");
    let mut options = with_collection();
    options.cf.blob_file_size = 1;
    let db = Db::open(&options, &dir.0).unwrap();
    let columns = [("a", "x".repeat(40)), ("b", "short".to_string()), ("c", "y".repeat(70))];
    db.put_entity("key", columns.iter().map(|(name, value)| (name, value))).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let path = paths(&dir.0).remove(0);
    let mut bytes = std::fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let report = repair(&dir.0);
    assert!(report.is_complete(), "{report}");
    assert_eq!((fate(&report, &path), paths(&dir.0).len()), (FileFate::Rewritten, 1));
    let db = Db::open(&options, &dir.0).unwrap();
    let entity = db.get_entity("key").unwrap().unwrap();
    let found: Vec<_> = entity.iter().map(|column| (column.name, column.value)).collect();
    let wanted: Vec<_> = columns.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())).collect();
    assert_eq!(found, wanted);
    db.close().unwrap();
}
