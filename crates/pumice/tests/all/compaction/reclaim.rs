//! Space that deletions and expiry free is given back, in a database that does nothing else.
//!
//! Plain #[test] where time counts: a simulation is a runtime of its own. Its clock is virtual.

use std::time::Duration;

use crate::common::{DIR, contents, fill, flush, key, memory, options};
use pumice::{
    CompactRangeOptions, Db, DbWithTtl, Options, ReadOptions, WaitForCompactOptions, WriteOptions,
};
use pumice_port::sim;
use pumice_port::thread::sleep;

const MINUTE: Duration = Duration::from_secs(60);

fn simulate(test: fn()) {
    for seed in 0..3 {
        let options = sim::Options {
            max_virtual_nanos: 100 * 3600 * 1_000_000_000,
            ..sim::Options::new(seed)
        };
        let (report, outcome) = sim::run(&options, test);
        let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
        assert!(outcome.is_ok(), "seed {seed}: {outcome:?}\n{stuck}");
    }
}

fn small_files() -> Options {
    let (_, fs) = memory();
    let mut options = options(&fs);
    options.cf.compression = pumice::CompressionType::None;
    options.cf.target_file_size_base = 16 << 10;
    options
}

fn bytes(db: &Db) -> u64 {
    db.property("rocksdb.total-sst-files-size").unwrap().parse().unwrap()
}

/// Some 200 KB, in the last level.
fn filled(options: &Options) -> Db {
    let db = Db::open(options, DIR).unwrap();
    fill(&db, 0..2000, &"v".repeat(80));
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    assert!(bytes(&db) > 180_000);
    db
}

fn delete_range(db: &Db, from: usize, end: usize) {
    db.delete_range_opt(&WriteOptions::default(), &key(from), &key(end)).unwrap();
}

#[test]
fn the_space_of_a_deleted_range_is_given_back_within_a_minute() {
    simulate(|| {
        let options = small_files();
        let db = filled(&options);
        delete_range(&db, 0, 1000);
        sleep(MINUTE);
        let half = bytes(&db);
        assert!((80_000..120_000).contains(&half), "{half}");
        delete_range(&db, 0, 5000);
        sleep(MINUTE);
        assert_eq!(bytes(&db), 0);
        assert!(contents(&db).is_empty());
        assert_eq!(db.live_files_metadata().len(), 0);
        db.close().unwrap();
    });
}

#[test]
fn the_space_of_a_deleted_range_is_given_back_after_a_restart() {
    simulate(|| {
        let mut options = small_files();
        for (keeps_memory, flushed) in [(false, false), (true, false), (false, true)] {
            options.db.avoid_flush_during_recovery = keeps_memory;
            let db = filled(&options);
            delete_range(&db, 0, 5000);
            if flushed {
                flush(&db);
            }
            db.close().unwrap();
            let db = Db::open(&options, DIR).unwrap();
            sleep(MINUTE);
            assert_eq!((bytes(&db), contents(&db).len()), (0, 0));
            db.close().unwrap();
            Db::destroy(&options, DIR).unwrap();
        }
    });
}

/// A snapshot keeps what it reads; the space is given back when it is gone.
#[test]
fn a_snapshot_keeps_what_a_range_deletion_would_free() {
    simulate(|| {
        let options = small_files();
        let db = filled(&options);
        let before = ReadOptions { snapshot: Some(db.snapshot()), ..ReadOptions::default() };
        delete_range(&db, 0, 5000);
        sleep(2 * MINUTE);
        assert_eq!(db.iter_opt(&before).unwrap().count(), 2000);
        assert_eq!(contents(&db).len(), 0);
        assert!(bytes(&db) > 180_000);
        drop(before);
        sleep(MINUTE);
        assert_eq!(bytes(&db), 0);
        db.close().unwrap();
    });
}

/// Writes that go on are not disturbed: the memtable is flushed when they pause.
#[test]
fn range_deletions_wait_for_a_pause_of_writes() {
    simulate(|| {
        let options = small_files();
        let db = filled(&options);
        for second in 0..120 {
            delete_range(&db, 10 * second, 10 * second + 10);
            sleep(Duration::from_secs(1));
        }
        assert_eq!(db.property("rocksdb.num-files-at-level0").unwrap(), "0");
        let before = bytes(&db);
        assert!(before > 180_000);
        sleep(MINUTE);
        assert!(bytes(&db) < before / 2 + 10_000, "{} of {before}", bytes(&db));
        db.close().unwrap();
    });
}

#[test]
fn the_space_of_expired_values_is_given_back() {
    simulate(|| {
        let options = small_files();
        for restarts in [false, true] {
            let mut db = DbWithTtl::open(&options, DIR, 3600).unwrap();
            for n in 0..2000 {
                db.put(key(n), "v".repeat(80)).unwrap();
            }
            flush(db.db());
            db.db().compact_range(&CompactRangeOptions::default(), None, None).unwrap();
            assert!(bytes(db.db()) > 180_000);
            sleep(30 * MINUTE);
            db.put(key(1), "later").unwrap();
            flush(db.db());
            if restarts {
                db.db().close().unwrap();
                sleep(30 * MINUTE);
                db = DbWithTtl::open(&options, DIR, 3600).unwrap();
            } else {
                sleep(29 * MINUTE);
                assert!(bytes(db.db()) > 180_000, "not before their time");
                sleep(MINUTE);
            }
            sleep(MINUTE);
            assert!(bytes(db.db()) < 4_000, "{}", bytes(db.db()));
            sleep(30 * MINUTE);
            assert_eq!(bytes(db.db()), 0);
            db.set_ttl(db.db().default_column_family(), 60).unwrap();
            db.put(key(1), "short").unwrap();
            flush(db.db());
            sleep(2 * MINUTE);
            assert_eq!(bytes(db.db()), 0);
            db.db().close().unwrap();
            Db::destroy(&options, DIR).unwrap();
        }
    });
}

/// Most of a table are deletions: it is compacted at once, whatever the sizes of levels.
#[pumice_test_macros::test]
fn dense_deletions_are_compacted_without_a_collector() {
    for min in [16, 0] {
        let mut options = small_files();
        options.cf.min_tombstones_for_range_conversion = min;
        let db = filled(&options);
        for n in (0..2000).filter(|n| n % 10 != 0) {
            db.delete_opt(&WriteOptions::default(), &key(n)).unwrap();
        }
        flush(&db);
        db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
        let left = bytes(&db);
        assert_eq!(left < 40_000, min > 0, "{left}");
        assert_eq!(contents(&db).len(), 200);
        db.close().unwrap();
    }
}
