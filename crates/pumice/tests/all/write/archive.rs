//! Logs that recovery skips are kept in the archive, wherever the recovery is interrupted.

use std::path::Path;
use std::sync::Arc;

use crate::common::{DIR, memory, names, options};
use pumice::{Db, FileSystem, MemFs, Options, WriteOptions};
use pumice_env::mem::CrashMode;
use pumice_env::write_file;

/// Two logs, the first with a damaged record at its end, so that point-in-time recovery stops there
/// and skips the second. Returns the second's contents.
fn with_damage() -> (MemFs, Arc<dyn FileSystem>, Options, Vec<u8>) {
    let (fs, shared) = memory();
    let mut options = options(&shared);
    // Without table files, for these must not be newer than the damage; so with two lives.
    options.db.avoid_flush_during_recovery = true;
    let wo = WriteOptions { sync: true, ..WriteOptions::default() };
    for (key, value) in [("damaged", "d".repeat(200)), ("later", "after the damage".into())] {
        let db = Db::open(&options, DIR).unwrap();
        db.put_opt(&wo, b"first", b"intact").unwrap();
        db.put_opt(&wo, key.as_bytes(), value.as_bytes()).unwrap();
        db.close().unwrap();
    }
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
        let opened = Db::open(&options, DIR);
        let came_through = opened.is_ok();
        drop(opened);
        fs.crash(changes, CrashMode::UNSYNCED);
        let db = Db::open(&options, DIR).unwrap();
        assert!(archived(&shared).contains(&second), "lost after {changes} changes");
        db.close().unwrap();
        if came_through {
            assert!(changes > 5, "nothing was interrupted");
            return;
        }
    }
}
