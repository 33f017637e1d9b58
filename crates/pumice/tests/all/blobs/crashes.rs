//! Power cuts and failing operations at any point of flushes and compactions that write, relocate
//! and delete blob files: what was acknowledged is there, every index finds its blob, and no file
//! is left that nothing names.

use std::collections::BTreeMap;

use crate::blobs::written::{compact, options};
use crate::common::{SYNC, contents, let_files_go, names};
use pumice::options::DbPath;
use pumice::{BottommostLevelCompaction, CompactRangeOptions, Db, FlushOptions, MemFs, Options};
use pumice_env::mem::{CrashMode, Fault, FaultRule};
use pumice_testkit::seed;

/// What happens at an operation of the file system.
#[derive(Clone, Copy, Debug)]
enum Mishap {
    Fails(Fault),
    Crash(CrashMode),
}

/// Where blob files and the tables of L0 are, and the other tables, with `apart`.
const DIRS: [&str; 2] = ["/near", "/far"];

fn options_on(fs: &MemFs, apart: bool) -> Options {
    let mut options = options();
    if apart {
        options.db.db_paths = vec![DbPath::new(DIRS[0], 1), DbPath::new(DIRS[1], 1 << 40)];
    }
    options.db.file_system = fs.shared();
    options.cf.blob_file_size = 300;
    options.cf.enable_blob_garbage_collection = true;
    options.cf.blob_garbage_collection_age_cutoff = 0.5;
    options
}

/// Compacts everything into the last directory: a compaction that is asked for chooses none itself.
fn compact_into(db: &Db, apart: bool) -> pumice::Result<()> {
    let options = CompactRangeOptions {
        target_path_id: u32::from(apart),
        bottommost_level_compaction: BottommostLevelCompaction::ForceOptimized,
        ..CompactRangeOptions::default()
    };
    db.compact_range(&options, None, None)
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Puts, overwrites and deletes, with flushes and compactions, until something fails. `done` has
/// what was acknowledged, `tried` also the write that failed.
fn work(db: &Db, apart: bool, done: &mut Model, tried: &mut Model) -> pumice::Result<()> {
    for round in 0..3u8 {
        for key in 0..6u8 {
            let (key, value) = (vec![b'k', key], vec![round; 20 + 15 * usize::from(key)]);
            tried.insert(key.clone(), value.clone());
            db.put_opt(&SYNC, &key, &value)?;
            done.insert(key, value);
        }
        db.flush_opt(&FlushOptions::default())?;
        let gone = vec![b'k', round];
        tried.remove(&gone);
        db.delete_opt(&SYNC, &gone)?;
        done.remove(&gone);
        if round > 0 {
            compact_into(db, apart)?;
        }
    }
    Ok(())
}

/// Everything acknowledged is there, perhaps with the one write that failed; returns what is.
fn check(db: &Db, fs: &MemFs, (what, dir): (&str, &str), done: &Model, tried: &Model) {
    let found: Model = contents(db).into_iter().collect();
    assert!(found == *done || found == *tried, "{what}");
    db.verify_checksum().unwrap_or_else(|error| panic!("{what}: {error}"));
    compact(db);
    let after: Model = contents(db).into_iter().collect();
    assert_eq!(found, after, "{what}");
    let_files_go(db);
    let files = names(&fs.shared(), dir);
    let on_disk = files.iter().filter(|name| name.ends_with(".blob")).count() as u64;
    assert_eq!(db.property_int("rocksdb.num-blob-files").unwrap(), on_disk, "{what}: {files:?}");
}

/// Lets `mishap` happen at operation `i`.
fn happen(i: u64, mishap: Mishap, apart: bool) {
    let what = format!("operation {i}, {mishap:?}, apart {apart}");
    let dir = if apart { DIRS[0] } else { "/db" };
    let fs = MemFs::new(i);
    let db = Db::open(&options_on(&fs, apart), "/db").unwrap();
    let (mut done, mut tried) = (Model::new(), Model::new());
    match mishap {
        Mishap::Fails(fault) => {
            let rule = FaultRule { op: None, path_glob: "*".into(), skip: i, count: 1, fault };
            fs.add_fault(rule);
        }
        Mishap::Crash(_) => fs.halt_after(i),
    }
    drop(work(&db, apart, &mut done, &mut tried)); // Whether it fails depends on `i`.
    match mishap {
        Mishap::Fails(_) => {
            fs.clear_faults();
            drop(db.resume());
            drop(db.close());
        }
        Mishap::Crash(mode) => {
            fs.crash(i, mode);
            drop(db.close());
        }
    }
    drop(db);
    for _ in 0..2 {
        let db = Db::open(&options_on(&fs, apart), "/db").unwrap_or_else(|e| panic!("{what}: {e}"));
        check(&db, &fs, (&what, dir), &done, &tried);
        db.close().unwrap();
    }
}

/// Points at which each mishap happens, spread over the work.
const POINTS: u64 = 20;

fn happen_everywhere(mishap: Mishap, apart: bool) {
    let fs = MemFs::new(0);
    let db = Db::open(&options_on(&fs, apart), "/db").unwrap();
    let before = fs.change_count();
    work(&db, apart, &mut Model::new(), &mut Model::new()).unwrap();
    let changes = fs.change_count() - before;
    db.close().unwrap();
    for point in seed::range(POINTS) {
        println!("point {point}");
        happen(changes * point / POINTS, mishap, apart);
    }
}

#[pumice_test_macros::test]
fn power_cuts_leave_no_dangling_index() {
    happen_everywhere(Mishap::Crash(CrashMode::UNSYNCED), false);
    happen_everywhere(Mishap::Crash(CrashMode::MIXED), false);
}

#[pumice_test_macros::test]
fn power_cuts_leave_none_with_tables_in_another_directory() {
    happen_everywhere(Mishap::Crash(CrashMode::UNSYNCED), true);
}

#[pumice_test_macros::test]
fn failing_operations_leave_no_dangling_index() {
    happen_everywhere(Mishap::Fails(Fault::Eio), false);
}

/// The power goes as a compaction returns that wrote blob files into one directory and tables into
/// another: both names are there.
#[pumice_test_macros::test]
fn what_a_compaction_wrote_into_two_directories_is_durable() {
    let fs = MemFs::new(1);
    let mut options = options_on(&fs, true);
    options.cf.blob_garbage_collection_age_cutoff = 1.0;
    let db = Db::open(&options, "/db").unwrap();
    let value = |n: u8| vec![n; 100];
    (0..6u8).for_each(|n| db.put([n], value(n)).unwrap());
    db.flush().unwrap();
    compact_into(&db, true).unwrap();
    assert_eq!(names(&fs.shared(), DIRS[1]).len(), 1, "the table is in the other directory");
    fs.crash(1, CrashMode::UNSYNCED);
    drop(db.close());
    drop(db);
    let db = Db::open(&options, "/db").unwrap();
    let wanted: Vec<_> = (0..6u8).map(|n| (vec![n], value(n))).collect();
    assert_eq!(contents(&db), wanted);
    db.verify_checksum().unwrap();
}
