//! Files of level 0 that move down as they are, and single files that are deleted by name.

use std::sync::{Arc, OnceLock};

use crate::common::{self, DIR, contents, fill, flush, get, key};
use pumice::{CompactRangeOptions, Db, EventListener, Options, WriteOptions};
use pumice_port::sync::Mutex;

fn options() -> Options {
    let mut options = common::options(&pumice::MemFs::new(1).shared());
    options.cf.disable_auto_compactions = true;
    options.cf.level_compaction_dynamic_level_bytes = false;
    options
}

fn levels(db: &Db) -> Vec<usize> {
    db.live_files_metadata().iter().map(|file| file.level).collect()
}

fn promote(db: &Db, level: i32) -> String {
    let promoted = db.promote_l0(db.default_column_family(), level);
    promoted.map_or_else(|error| error.to_string(), |()| String::new())
}

/// RocksDB's rules and texts.
#[pumice_test_macros::test]
fn level_0_is_promoted_if_nothing_overlaps() {
    let options = options();
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!(promote(&db, 1), "", "nothing is there");
    for range in [20..30, 0..10, 10..20] {
        fill(&db, range, "v");
        flush(&db);
    }
    assert_eq!(promote(&db, 0), "Invalid argument: Invalid target level");
    assert_eq!(promote(&db, 7), "Invalid argument: Target level does not exist");
    assert_eq!(promote(&db, 3), "");
    assert_eq!(levels(&db), [3, 3, 3]);
    fill(&db, 0..10, "w");
    flush(&db);
    let below = "Invalid argument: All levels up to target_level must be empty";
    assert_eq!(promote(&db, 3), below);
    fill(&db, 5..12, "x");
    flush(&db);
    assert_eq!(promote(&db, 2), "Invalid argument: L0 has overlapping files");
    let before = contents(&db);
    drop(db);
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!(contents(&db), before);
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    assert_eq!(contents(&db), before);
}

fn delete(db: &Db, name: &str) -> String {
    db.delete_file(name).map_or_else(|error| error.to_string(), |()| String::new())
}

/// As above: only what hides nothing may go.
#[pumice_test_macros::test]
fn the_oldest_file_at_the_bottom_is_deleted_by_name() {
    let mut options = options();
    options.db.WAL_ttl_seconds = 1000;
    let db = Db::open(&options, DIR).unwrap();
    fill(&db, 0..10, "v");
    flush(&db);
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    for range in [10..20, 20..30] {
        fill(&db, range, "w");
        flush(&db);
    }
    let name = |db: &Db, n: usize| {
        let files = db.live_files_metadata();
        files.iter().find(|file| file.smallest_key == key(n)).unwrap().name.clone()
    };
    assert_eq!(delete(&db, &name(&db, 10)), "Invalid argument: File not in last level");
    assert_eq!(delete(&db, &name(&db, 0)), "");
    assert_eq!(get(&db, &key(0)), None);
    let young = "Invalid argument: File in level 0, but not oldest";
    assert_eq!(delete(&db, &name(&db, 20)), young);
    assert_eq!(delete(&db, &name(&db, 10)), "");
    assert_eq!(contents(&db).len(), 10);
    assert_eq!(delete(&db, "/999999.sst"), "Invalid argument: File not found");
    assert_eq!(delete(&db, "MANIFEST-000005"), "Invalid argument: Invalid file name");
    assert_eq!(delete(&db, "nothing"), "Invalid argument: Invalid file name");
    let logs = db.wal_files().unwrap();
    let log = db.current_wal_file().unwrap();
    let live = "Not implemented: Delete only supported for archived logs";
    assert_eq!(delete(&db, &log.path_name), live);
    let archived = logs.iter().find(|log| log.path_name.starts_with("/archive"));
    let archived = archived.expect("a log in the archive").path_name.clone();
    // A table is not in the archive.
    let table = format!("archive{}", name(&db, 20));
    assert_eq!(delete(&db, &table), "Invalid argument: Invalid file name");
    db.disable_file_deletions();
    let kept = db.delete_file(&archived).unwrap_err();
    assert_eq!(kept.kind(), pumice::ErrorKind::Busy);
    db.enable_file_deletions();
    assert_eq!(delete(&db, &archived), "");
    assert!(db.wal_files().unwrap().iter().all(|log| log.path_name != archived));
    drop(db);
    assert_eq!(contents(&Db::open(&options, DIR).unwrap()).len(), 10);
}

/// The part of a batch behind its point is written and not logged; what is written later keeps its
/// sequence numbers.
#[pumice_test_macros::test]
fn a_batch_is_logged_up_to_its_point() {
    let options = options();
    let db = Db::open(&options, DIR).unwrap();
    let mut batch = pumice::WriteBatch::new();
    assert_eq!(batch.wal_termination_point(), None);
    batch.put("a", "1");
    batch.put("b", "1");
    batch.mark_wal_termination_point();
    batch.put("a", "2");
    batch.put("c", "2");
    assert_eq!(batch.wal_termination_point().map(|(_, count)| count), Some(2));
    db.write(&mut batch).unwrap();
    let value = |db: &Db, key: &str| db.get(key).unwrap().map(|value| value.to_vec());
    assert_eq!((value(&db, "a"), value(&db, "c")), (Some(b"2".to_vec()), Some(b"2".to_vec())));
    let last = db.latest_sequence_number();
    db.put("b", "3").unwrap();
    assert_eq!(db.latest_sequence_number(), last + 1);
    drop(db);
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!((value(&db, "a"), value(&db, "c")), (Some(b"1".to_vec()), None));
    assert_eq!(value(&db, "b"), Some(b"3".to_vec()));
    assert_eq!(db.latest_sequence_number(), last + 1);
    // A point that was rolled back is none.
    batch.clear();
    batch.set_save_point();
    batch.put("d", "4");
    batch.mark_wal_termination_point();
    batch.rollback_to_save_point().unwrap();
    assert_eq!(batch.wal_termination_point(), None);
    let unlogged = WriteOptions { disable_wal: true, ..WriteOptions::default() };
    batch.put("d", "4");
    batch.mark_wal_termination_point();
    batch.put("e", "4");
    db.write_opt(&unlogged, &mut batch).unwrap();
    assert_eq!((value(&db, "d"), value(&db, "e")), (Some(b"4".to_vec()), Some(b"4".to_vec())));
}

/// Promotes when a compaction is over.
#[derive(Default)]
struct Promoter {
    db: OnceLock<std::sync::Weak<Db>>,
    heard: Mutex<Option<pumice::Result<()>>>,
}

impl EventListener for Promoter {
    fn on_compaction_completed(&self, _info: &pumice::CompactionJobInfo) {
        let db = self.db.get().and_then(std::sync::Weak::upgrade).unwrap();
        *self.heard.lock() = Some(db.promote_l0(db.default_column_family(), 1));
    }
}

/// A mover that holds compactions back may wait for the job that the call comes from.
#[pumice_test_macros::test]
fn a_listener_promotes_nothing() {
    let promoter = Arc::new(Promoter::default());
    let mut options = options();
    options.db.listeners = vec![Arc::clone(&promoter) as _];
    let db = Arc::new(Db::open(&options, DIR).unwrap());
    promoter.db.set(Arc::downgrade(&db)).unwrap();
    for _ in 0..2 {
        fill(&db, 0..10, "v");
        flush(&db);
    }
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    let heard = promoter.heard.lock().take().unwrap().unwrap_err();
    assert_eq!(heard.kind(), pumice::ErrorKind::Aborted);
}

/// What follows the log ends where a batch was not logged to its end, whatever was.
#[pumice_test_macros::test]
fn who_follows_the_log_ends_at_the_gap() {
    for logged in [0, 2] {
        let db = Db::open(&options(), DIR).unwrap();
        db.put("first", "1").unwrap();
        let mut batch = pumice::WriteBatch::new();
        (0..logged).for_each(|at| batch.put(key(at), "1"));
        batch.mark_wal_termination_point();
        batch.put("unlogged", "1");
        db.write(&mut batch).unwrap();
        db.put("last", "1").unwrap();
        let mut updates = db.get_updates_since(1).unwrap();
        assert_eq!(updates.next().unwrap().unwrap().0, 1);
        assert!(updates.next().unwrap().is_ok());
        let gap = updates.next().unwrap().unwrap_err();
        assert_eq!(gap.to_string(), "NotFound: Gap in sequence numbers");
        let last = db.latest_sequence_number();
        let mut updates = db.get_updates_since(last).unwrap();
        assert_eq!(updates.next().unwrap().unwrap().0, last);
        db.close().unwrap();
    }
}
