//! The archive of logs: what is moved there, what is deleted, and that no crash loses a log by it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{DIR, SYNC, fill, flush, get, key, let_files_go, memory, names, options};
use pumice::{Db, FileSystem, MemFs, Options, SstFileManager, SstFileManagerOptions};
use pumice_env::mem::CrashMode;
use pumice_port::sim;
use pumice_port::thread::sleep;

const ARCHIVE: &str = "/db/archive";

fn with(fs: &Arc<dyn FileSystem>, ttl_seconds: u64, size_limit_mb: u64) -> Options {
    let mut options = options(fs);
    options.db.WAL_ttl_seconds = ttl_seconds;
    options.db.WAL_size_limit_MB = size_limit_mb;
    options
}

fn simulate(test: fn()) {
    for seed in 0..5 {
        let (report, outcome) = sim::run(&sim::Options::new(seed), test);
        let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
        assert!(outcome.is_ok(), "seed {seed}: {outcome:?}\n{stuck}");
    }
}

/// Writes a log of at least `bytes`, flushes its data, and lets the log become obsolete.
fn one_log(db: &Db, bytes: usize) {
    let value = "v".repeat(1000);
    fill(db, 0..bytes / 1000 + 1, &value);
    flush(db);
    let_files_go(db);
}

#[pumice_test_macros::test]
fn only_the_options_make_an_archive() {
    for (ttl, limit) in [(0, 0), (1000, 0), (0, 1000), (1000, 1000)] {
        let (_, fs) = memory();
        let options = with(&fs, ttl, limit);
        let db = Db::open(&options, DIR).unwrap();
        let wanted = ttl + limit > 0;
        assert_eq!(fs.exists(ARCHIVE.as_ref()).unwrap(), wanted, "made by the open");
        let before = db.current_wal_file().unwrap();
        fill(&db, 0..10, "value");
        let bytes = fs.read_file(Path::new(&format!("{DIR}{}", before.path_name))).unwrap();
        flush(&db);
        let_files_go(&db);
        let kept = Path::new(ARCHIVE).join(before.path_name.trim_start_matches('/'));
        assert_eq!(fs.exists(&kept).unwrap(), wanted);
        if wanted {
            assert!(fs.read_file(&kept).unwrap() == bytes);
        }
        // A checkpoint has no part of it, and a destroyed database leaves none.
        db.checkpoint("/copy").unwrap();
        assert!(!names(&fs, "/copy").contains(&"archive".to_string()));
        db.close().unwrap();
        Db::destroy(&options, DIR).unwrap();
        assert!(!fs.exists(DIR.as_ref()).unwrap());
    }
}

#[pumice_test_macros::test]
fn the_archive_is_where_the_logs_are() {
    let (_, fs) = memory();
    let mut options = with(&fs, 1000, 0);
    options.db.wal_dir = "/logs".to_string();
    let db = Db::open(&options, DIR).unwrap();
    one_log(&db, 1);
    assert_eq!(names(&fs, "/logs/archive").len(), 1);
    let found = db.wal_files().unwrap();
    assert!(found[0].path_name.starts_with("/archive/"), "{found:?}");
    db.close().unwrap();
    Db::destroy(&options, DIR).unwrap();
    assert!(!fs.exists("/logs/archive".as_ref()).unwrap());
}

/// A log without a record is not kept, and what is too old in the archive is no trash, at whatever
/// rate files are deleted.
#[test]
fn empty_and_archived_logs_go_at_once() {
    simulate(|| {
        let (_, fs) = memory();
        let mut options = with(&fs, 1000, 0);
        let slow = SstFileManagerOptions {
            rate_bytes_per_sec: 1,
            max_trash_db_ratio: 1000.0,
            ..SstFileManagerOptions::default()
        };
        options.db.sst_file_manager = Some(Arc::new(SstFileManager::new(&slow).unwrap()));
        for _ in 0..3 {
            Db::open(&options, DIR).unwrap().close().unwrap();
        }
        let db = Db::open(&options, DIR).unwrap();
        assert_eq!(names(&fs, ARCHIVE), Vec::<String>::new());
        one_log(&db, 1);
        let first = names(&fs, ARCHIVE);
        assert_eq!(first.len(), 1);
        sleep(Duration::from_secs(2000));
        one_log(&db, 1);
        let left = names(&fs, ARCHIVE);
        assert!(left.len() == 1 && left != first, "{left:?}");
        assert!(!names(&fs, DIR).iter().any(|name| name.ends_with(".trash")));
        db.close().unwrap();
    });
}

/// Plain #[test]: a simulation is a runtime of its own, whose clock is virtual.
#[test]
fn archived_logs_go_when_their_time_is_over() {
    simulate(|| {
        let (_, fs) = memory();
        let db = Db::open(&with(&fs, 1000, 0), DIR).unwrap();
        let count = || names(&fs, ARCHIVE).len();
        for written in 1..=3 {
            one_log(&db, 1);
            assert_eq!(count(), written);
            sleep(Duration::from_secs(300));
        }
        // 900 s after the first; the archive is checked every 500 s.
        one_log(&db, 1);
        assert_eq!(count(), 4, "none is too old");
        sleep(Duration::from_secs(550));
        one_log(&db, 1); // 1450 s
        assert_eq!(count(), 3, "those of the beginning and of 300 s are");
        sleep(Duration::from_secs(300));
        one_log(&db, 1); // 1750 s: a short while after the last look
        assert_eq!(count(), 4);
        db.close().unwrap();
        // The open checks, whenever the last check was: that of 600 s is too old.
        let db = Db::open(&with(&fs, 1000, 0), DIR).unwrap();
        assert_eq!(count(), 3);
        sleep(Duration::from_secs(5000));
        assert_eq!(count(), 3, "a database at rest deletes nothing");
        one_log(&db, 1);
        assert_eq!(count(), 1, "and the log of this moment stays");
        db.close().unwrap();
    });
}

/// Plain #[test]: as above.
#[test]
fn archived_logs_go_when_they_are_too_many() {
    simulate(|| {
        let (_, fs) = memory();
        let mut options = with(&fs, 0, 2);
        options.cf.write_buffer_size = 4 << 20;
        let db = Db::open(&options, DIR).unwrap();
        for _ in 0..6 {
            one_log(&db, 600_000); // Three of them fit into 2 MiB.
        }
        assert_eq!(names(&fs, ARCHIVE).len(), 6, "looked through at most every 600 s");
        let newest = names(&fs, ARCHIVE).split_off(4);
        sleep(Duration::from_secs(600));
        one_log(&db, 600_000);
        let kept = names(&fs, ARCHIVE);
        assert!(kept.len() == 3 && kept[..2] == newest[..], "{kept:?}");
        db.close().unwrap();
    });
}

/// What the power cut leaves at each change of the disk opens with all that was acknowledged, and
/// no log that was written is lost from both places.
#[pumice_test_macros::test]
fn no_crash_loses_a_log_on_its_way_to_the_archive() {
    let life = |fs: &MemFs| -> usize {
        let Ok(db) = Db::open(&with(&fs.shared(), 1000, 0), DIR) else { return 0 };
        for n in 0..4 {
            let written = db.put_opt(&SYNC, key(n), b"value");
            if written.is_err() || db.flush().is_err() {
                return n + usize::from(written.is_ok());
            }
        }
        drop(db);
        4
    };
    let (fs, _) = memory();
    life(&fs);
    let changes = fs.change_count();
    assert!(changes > 40, "{changes}");
    for at in 0..changes {
        let (fs, shared) = memory();
        fs.halt_after(at);
        let acknowledged = life(&fs);
        let mode = if at % 2 == 0 { CrashMode::UNSYNCED } else { CrashMode::PROCESS };
        fs.crash(at, mode);
        let db = Db::open(&with(&shared, 1000, 0), DIR).unwrap();
        let mut updates = db.get_updates_since(0).unwrap();
        let batches = (&mut updates).count();
        updates.status().unwrap();
        assert!(batches >= acknowledged, "{batches} of {acknowledged} batches, change {at}");
        for n in 0..acknowledged {
            assert!(get(&db, &key(n)).is_some(), "key {n} is lost, change {at}");
        }
        db.close().unwrap();
    }
}
