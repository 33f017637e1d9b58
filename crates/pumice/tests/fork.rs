//! `fork` in a process that has a database open: the parent continues and keeps its lock; in the
//! child every call returns an error that says why, and touches no file.
//!
//! A child has the calling thread alone, no loop that would run its fibers. A separate program,
//! because locks that tasks of other suites hold at the fork are never released in the child.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pumice::{
    CompactRangeOptions, Db, DbIterator, Options, ReadOptions, SstFileWriter,
    WaitForCompactOptions, WriteBatch,
};
use pumice_port::testing::fork;
use pumice_port::thread::sleep;

/// A separate directory, removed on drop.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("pumice-fork-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Place(dir)
    }
    fn db(&self) -> PathBuf {
        self.0.join("db")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options
}

fn filled(dir: &Path) -> Db {
    let db = Db::open(&options(), dir).unwrap();
    for n in 0..100 {
        db.put(format!("key{n:03}"), "value").unwrap();
    }
    db.flush().unwrap();
    db.put("logged", "value").unwrap();
    // The log of the flushed data is deleted a little after the flush.
    while names(dir).iter().filter(|name| name.ends_with(".log")).count() > 1 {
        sleep(Duration::from_millis(1));
    }
    db
}

fn count(db: &Db) -> usize {
    db.iter().unwrap().collect::<pumice::Result<Vec<_>>>().unwrap().len()
}

/// This process holds the lock, as the kernel has it.
fn is_locked(dir: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let inode = std::fs::metadata(dir.join("LOCK")).unwrap().ino();
    let pid = std::process::id().to_string();
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    locks.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.contains(&"POSIX")
            && words.contains(&pid.as_str())
            && words.iter().any(|word| word.ends_with(&format!(":{inode}")))
    })
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

/// What is in the directory, but for the text log, and for LOCK: a process that closes a file
/// releases its locks on it.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let names = names(dir).into_iter().filter(|name| !name.starts_with("LO"));
    names.map(|name| (name.clone(), std::fs::read(dir.join(name)).unwrap())).collect()
}

// Plain #[test]: loops do not survive a fork.
#[test]
fn a_parent_goes_on_beside_its_children() {
    let place = Place::new("parent");
    let db = filled(&place.db());
    assert!(is_locked(&place.db()));
    assert_eq!(fork(|| 0).wait(), Some(0));
    assert!(is_locked(&place.db()), "the child that ended took the lock along");
    db.put("after", "value").unwrap();
    db.flush().unwrap();
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    // One that lives on while the parent closes and opens.
    let end = place.0.join("end");
    let child = fork(|| {
        while !end.exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        0
    });
    db.close().unwrap();
    drop(db);
    assert!(!is_locked(&place.db()));
    let db = Db::open(&options(), place.db()).unwrap();
    assert!(is_locked(&place.db()));
    db.put("again", "value").unwrap();
    std::fs::write(&end, "").unwrap();
    assert_eq!(child.wait(), Some(0));
    assert!(is_locked(&place.db()));
    assert_eq!(count(&db), 103);
    db.close().unwrap();
}

/// It failed because this is a child.
fn refused<T>(result: pumice::Result<T>) -> bool {
    match result {
        Ok(_) => false,
        Err(error) => error.to_string().starts_with("Not implemented: this process was made"),
    }
}

/// Calls in a child; writes down the numbers of those that were not refused as they should be.
fn calls(db: &Db, place: &Place) -> u8 {
    let other = place.0.join("other");
    let cf = db.default_column_family();
    let mut batch = WriteBatch::new();
    batch.put("k", "v");
    let checks = [
        refused(db.put("k", "v")),
        refused(db.write(&mut batch)),
        refused(db.delete("k")),
        refused(db.get("key001")),
        db.multi_get(&["key001"]).into_iter().all(refused),
        refused(db.cursor()),
        refused(db.flush()),
        refused(db.flush_all()),
        refused(db.flush_wal(true)),
        refused(db.sync_wal()),
        refused(db.compact_range(&CompactRangeOptions::default(), None, None)),
        refused(db.wait_for_compact(&WaitForCompactOptions::default())),
        refused(db.set_options_cf(cf, &[("write_buffer_size", "1M")])),
        refused(db.set_db_options(&[("max_open_files", "20")])),
        refused(db.create_column_family(&options().cf, "more")),
        refused(db.checkpoint(place.0.join("copy"))),
        refused(db.ingest_external_file(&Default::default(), &[&other])),
        refused(db.verify_checksum()),
        refused(db.approximate_sizes(&[(&b"a"[..], &b"z"[..])])),
        refused(db.resume()),
        refused(db.continue_background_work()),
        refused(db.key_may_exist("key001")),
        refused(db.delete_files_in_range(None, None)),
        refused(db.suggest_compact_range_cf(cf, None, None)),
        refused(db.iter().map(|_| ())),
        refused(Db::open(&options(), place.db())),
        refused(Db::open(&options(), &other)),
        refused(Db::destroy(&options(), place.db())),
        db.property("rocksdb.stats").is_none(),
        refused(db.close()),
    ];
    let wrong: Vec<usize> = (0..checks.len()).filter(|at| !checks[*at]).collect();
    std::fs::write(place.0.join("wrong"), format!("{wrong:?}")).unwrap();
    0
}

// Plain #[test]: loops do not survive a fork.
#[test]
fn calls_in_a_child_are_refused_and_change_nothing() {
    let place = Place::new("child");
    let db = filled(&place.db());
    db.put("unsynced", "value").unwrap();
    let before = files(&place.db());
    assert_eq!(fork(|| calls(&db, &place)).wait(), Some(0));
    assert_eq!(std::fs::read_to_string(place.0.join("wrong")).unwrap(), "[]");
    assert_eq!(files(&place.db()), before);
    assert!(!place.0.join("other").exists() && !place.0.join("copy").exists());
    // What belongs to the parent stays the parent's when the child drops it.
    let mut iter = db.cursor().unwrap();
    iter.seek_to_first();
    let mut all = Some((iter, db.snapshot(), db.clone(), db));
    let child = fork(|| {
        drop(all.take());
        0
    });
    assert_eq!(child.wait(), Some(0));
    let (mut iter, snapshot, _, db) = all.take().unwrap();
    assert_eq!(files(&place.db()), before);
    assert!(is_locked(&place.db()));
    iter.next();
    assert_eq!(iter.key().unwrap(), b"key001");
    drop((iter, snapshot));
    db.put("after", "value").unwrap();
    db.flush().unwrap();
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    sleep(Duration::from_millis(1));
    assert_eq!(count(&db), 103);
    db.close().unwrap();
    drop(db);
    let db = Db::open(&options(), place.db()).unwrap();
    assert_eq!(count(&db), 103);
    db.close().unwrap();
}

/// Checks that `iter` cannot be moved here.
fn stands_still(iter: &mut DbIterator) -> bool {
    let moves: [fn(&mut DbIterator); 6] = [
        |iter| iter.next(),
        |iter| iter.prev(),
        |iter| iter.seek(b"key001"),
        |iter| iter.seek_for_prev(b"key001"),
        |iter| iter.seek_to_first(),
        |iter| iter.seek_to_last(),
    ];
    // The iterator's current entry may be read until then.
    let stood = !iter.valid() || iter.key().is_some() && iter.value().is_some();
    let was_valid = iter.valid();
    let mut still = moves.into_iter().enumerate().map(|(at, step)| {
        step(iter);
        // An iterator without a position had no step to take.
        !iter.valid() && (at < 2 && !was_valid || refused(iter.status()))
    });
    stood && still.all(|still| still)
}

// Plain #[test]: loops do not survive a fork.
#[test]
fn what_was_begun_before_a_fork_is_the_parents() {
    let place = Place::new("begun");
    let db = filled(&place.db());
    let mut iter = db.cursor().unwrap();
    iter.seek(b"key050");
    let mut tailing =
        db.cursor_opt(&ReadOptions { tailing: true, ..ReadOptions::default() }).unwrap();
    tailing.seek(b"key060");
    let snapshot = db.snapshot();
    let (value, entries) = (db.get("key007").unwrap().unwrap(), db.iter().unwrap());
    let external = place.0.join("external.sst");
    let mut writer = SstFileWriter::new(&options()).unwrap();
    writer.open(&external).unwrap();
    writer.put(b"external", b"value").unwrap();
    let before = files(&place.db());
    let mut all = Some((iter, tailing, db.cursor().unwrap(), snapshot, value, entries, writer));
    let child = fork(|| {
        let Some((mut iter, mut tailing, mut fresh, snapshot, value, mut entries, mut writer)) =
            all.take()
        else {
            return 1;
        };
        let at = ReadOptions { snapshot: Some(snapshot.clone()), ..ReadOptions::default() };
        let checks = [
            iter.key() == Some(b"key050") && iter.value() == Some(b"value"),
            stands_still(&mut iter),
            stands_still(&mut tailing),
            stands_still(&mut fresh),
            &*value == b"value",
            entries.next().is_some_and(refused),
            entries.next().is_none(),
            refused(db.get_opt(&at, "key001")),
            refused(writer.put(b"more", b"value")),
            refused(writer.delete_range(b"a", b"b")),
            refused(writer.finish()),
            refused(writer.open(place.0.join("other.sst"))),
        ];
        drop((iter, tailing, fresh, snapshot, at, value, entries, writer));
        checks.iter().position(|right| !right).map_or(0, |at| 10 + at as u8)
    });
    assert_eq!(child.wait(), Some(0));
    assert_eq!(files(&place.db()), before);
    assert!(external.exists() && !place.0.join("other.sst").exists());
    let (mut iter, mut tailing, _, snapshot, value, entries, mut writer) = all.take().unwrap();
    iter.next();
    assert_eq!(iter.key().unwrap(), b"key051");
    db.put("key0600", "new").unwrap();
    tailing.seek(b"key0600");
    assert_eq!(tailing.value().unwrap(), b"new");
    let at = ReadOptions { snapshot: Some(snapshot), ..ReadOptions::default() };
    assert!(db.get_opt(&at, "key0600").unwrap().is_none());
    assert_eq!((&*value, entries.count()), (&b"value"[..], 101));
    writer.put(b"more", b"value").unwrap();
    writer.finish().unwrap();
    db.ingest_external_file(&Default::default(), &[&external]).unwrap();
    drop((iter, tailing, at));
    assert_eq!(count(&db), 104);
    db.close().unwrap();
}

/// Forks at moments when other threads hold whatever locks there are. A child that waits for one is
/// killed.
// Plain #[test]: loops do not survive a fork.
#[test]
fn no_child_of_a_busy_process_waits() {
    let place = Place::new("busy");
    let mut options = options();
    options.db.max_open_files = 20;
    options.cf.write_buffer_size = 64 << 10;
    options.cf.target_file_size_base = 16 << 10;
    options.cf.level0_file_num_compaction_trigger = 2;
    let db = Db::open(&options, place.db()).unwrap();
    let end = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (db, end) = (&db, &end);
            scope.spawn(move || {
                for n in 0.. {
                    if end.load(std::sync::atomic::Ordering::Relaxed) {
                        return;
                    }
                    db.put(format!("key{:03}", n * 7 % 900 + writer), [b'v'; 300]).unwrap();
                    let snapshot = db.snapshot();
                    if n % 50 == 0 {
                        db.iter().unwrap().take(30).for_each(|entry| drop(entry.unwrap()));
                        drop(db.live_files_metadata());
                    }
                    drop(snapshot);
                }
            });
        }
        let mut wrong = None;
        for n in 0..60 {
            sleep(Duration::from_millis(2));
            let mut iter = db.cursor().unwrap();
            iter.seek(format!("key{:03}", n * 15).as_bytes());
            let mut all = Some((iter, db.cursor().unwrap(), db.snapshot(), db.get("key007")));
            let code = fork(|| {
                let Some((mut iter, mut fresh, snapshot, value)) = all.take() else { return 1 };
                let still = stands_still(&mut iter) & stands_still(&mut fresh);
                drop((iter, fresh, snapshot, value));
                u8::from(!still) * 2 + u8::from(!refused(db.put("k", "v"))) * 4
            });
            let code = code.wait();
            if code != Some(0) {
                wrong = Some((n, code));
                break;
            }
        }
        end.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(wrong, None, "a child, and what became of it; None: it was killed");
    });
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    db.close().unwrap();
}
