//! Logs that recovery passes over are kept in the archive, wherever the recovery is interrupted.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::sync::Arc;

use common::{DIR, flush, memory, names, options};
use pumice::{ColumnFamilyOptions, Db, FileSystem, MemFs, Options, WriteOptions};
use pumice_env::mem::CrashMode;
use pumice_env::write_file;

/// Two logs, the first with a damaged record at its end, so that recovery to a point in time stops
/// there and the second is passed over. Returns the second's contents.
fn with_damage() -> (MemFs, Arc<dyn FileSystem>, Options, Vec<u8>) {
    let (fs, shared) = memory();
    let mut options = options(&shared);
    options.db.create_missing_column_families = true;
    let db = Db::open(&options, DIR).unwrap();
    let other = db.create_column_family(&ColumnFamilyOptions::default(), "other").unwrap();
    let wo = WriteOptions { sync: true, ..WriteOptions::default() };
    db.put(&wo, b"first", b"of the default family").unwrap();
    db.put_cf(&wo, &other, b"damaged", &[b'd'; 200]).unwrap();
    flush(&db); // A new log; the other family keeps the old one.
    db.put_cf(&wo, &other, b"later", b"intact, behind the damage").unwrap();
    db.close().unwrap();
    drop(db);
    let mut logs: Vec<String> =
        names(&shared, DIR).into_iter().filter(|name| name.ends_with(".log")).collect();
    logs.sort();
    assert_eq!(logs.len(), 2, "{logs:?}");
    let second = shared.read_file(&Path::new(DIR).join(&logs[1])).unwrap();
    let damaged = Path::new(DIR).join(&logs[0]);
    let mut bytes = shared.read_file(&damaged).unwrap();
    let end = bytes.len();
    bytes[end - 20] ^= 1;
    write_file(shared.as_ref(), &damaged, &bytes, true).unwrap();
    (fs, shared, options, second)
}

fn open(options: &Options) -> pumice::Result<Db> {
    let families = ["default", "other"]
        .map(|name| pumice::ColumnFamilyDescriptor::new(name, ColumnFamilyOptions::default()));
    Ok(Db::open_cf(&options.db, DIR, &families)?.0)
}

fn archived(fs: &Arc<dyn FileSystem>) -> Vec<Vec<u8>> {
    let dir = Path::new(DIR).join("archive");
    if !fs.exists(&dir).unwrap() {
        return Vec::new();
    }
    let names = fs.list(&dir).unwrap();
    names.iter().map(|name| fs.read_file(&dir.join(name)).unwrap()).collect()
}

#[pumice_test_macros::test]
fn no_crash_loses_a_log_that_was_passed_over() {
    for changes in 0.. {
        let (fs, shared, options, second) = with_damage();
        fs.halt_after(changes);
        let opened = open(&options);
        let came_through = opened.is_ok();
        drop(opened);
        fs.crash(changes, CrashMode::UNSYNCED);
        let db = open(&options).unwrap();
        assert!(archived(&shared).contains(&second), "lost after {changes} changes");
        db.close().unwrap();
        if came_through {
            assert!(changes > 5, "nothing was interrupted");
            return;
        }
    }
}
