//! Young entries above the last level (`preclude_last_level_data_seconds`): where they are, when
//! they go down, and that reads find the same.
//!
//! Plain #[test]: a simulation is a runtime of its own, with a virtual clock.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::virtual_time::{DAY, pass, simulate};
use crate::common::{DIR, contents, flush, get, memory, options};
use pumice::options::CompactionStyle;
use pumice::stats::listener::CompactionJobInfo;
use pumice::{
    BottommostLevelCompaction, CompactFilesOptions, CompactRangeOptions, Db, EventListener,
    FileSystem, LiveFile, Options, Snapshot,
};
use pumice_port::sync::Mutex;
use pumice_port::time::wall_seconds;

mod drawn;
mod foreign;

/// Entries are young for as many seconds; samples are taken every ten.
const YOUNG: u64 = 1000;
const STYLES: [CompactionStyle; 2] = [CompactionStyle::Level, CompactionStyle::Universal];
/// The last of four levels.
const LAST: usize = 3;

fn apart(fs: &Arc<dyn FileSystem>, style: CompactionStyle) -> Options {
    let mut options = options(fs);
    options.cf.preclude_last_level_data_seconds = YOUNG;
    options.cf.compaction_style = style;
    options.cf.num_levels = 4;
    options.cf.set_from_text("last_level_temperature=kCold").unwrap();
    options.cf.set_merge_operator_associative("joined", |_, old, operands| {
        let all: Vec<&[u8]> = old.into_iter().chain(operands.iter().copied()).collect();
        Some(all.join(&b","[..]))
    });
    options
}

fn rewrite(db: &Db) {
    let force = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    db.compact_range(&force, None, None).unwrap();
}

/// Compacts everything into the last level.
fn down(db: &Db) {
    rewrite(db);
    let files: Vec<String> = db.live_files_metadata().into_iter().map(|file| file.name).collect();
    let names: Vec<&str> = files.iter().map(|name| name.trim_start_matches('/')).collect();
    let last = i32::try_from(LAST).unwrap();
    db.compact_files(&CompactFilesOptions::default(), &names, last).unwrap();
}

/// The tables of `level`, in the order of their keys.
fn level(db: &Db, level: usize) -> Vec<LiveFile> {
    let mut files = db.live_files_metadata();
    files.retain(|file| file.level == level);
    files.sort_by(|a, b| a.smallest_key.cmp(&b.smallest_key));
    files
}

/// Entries of each level from the one above the last on.
fn entries(db: &Db) -> [u64; 2] {
    [LAST - 1, LAST].map(|at| level(db, at).iter().map(|file| file.num_entries).sum())
}

#[derive(Default)]
struct Count(Mutex<u64>);

impl EventListener for Count {
    fn on_compaction_completed(&self, _: &CompactionJobInfo) {
        *self.0.lock() += 1;
    }
}

#[test]
fn young_entries_stay_above_the_last_level() {
    for style in STYLES {
        simulate(0..2, move |_| {
            let (_, fs) = memory();
            let options = apart(&fs, style);
            let db = Db::open(&options, DIR).unwrap();
            for n in 0..20 {
                db.put(format!("a{n:02}"), "old").unwrap();
            }
            pass(2 * YOUNG);
            for n in 0..30 {
                db.put(format!("a{n:02}"), "young").unwrap();
            }
            db.put("b", "young").unwrap();
            let kept = contents(&db);
            flush(&db);
            rewrite(&db);
            assert_eq!(entries(&db), [31, 0], "what is old is overwritten");
            assert!(level(&db, LAST - 1).iter().all(|file| file.smallest_seq > 120));
            assert_eq!(contents(&db), kept);
            // Nothing changes with time alone, but by the next compaction.
            pass(YOUNG + 20);
            db.put("c", "young").unwrap();
            flush(&db);
            for _ in 0..2 {
                down(&db);
                assert_eq!(entries(&db), [1, 31]);
            }
            let cold = |at| level(&db, at).iter().map(|file| file.temperature).collect::<Vec<_>>();
            assert_eq!((cold(LAST - 1), cold(LAST)), (vec![0], vec![12]));
            assert!(level(&db, LAST).iter().all(|file| file.largest_seq == 0), "they are zeroed");
            db.close().unwrap();
            // The tables know it after an open, too.
            let db = Db::open(&options, DIR).unwrap();
            down(&db);
            assert_eq!(entries(&db), [1, 31]);
            pass(YOUNG + 20);
            down(&db);
            assert_eq!(entries(&db), [0, 32]);
            assert_eq!(get(&db, b"a07").unwrap(), b"young");
            db.close().unwrap();
        });
    }
}

/// The option changes while the database is open. What is in the last level already goes up only
/// where nothing can be in its way.
#[test]
fn entries_of_the_last_level_go_up_in_universal_compaction() {
    for style in STYLES {
        simulate(0..2, move |_| {
            let (_, fs) = memory();
            let mut options = apart(&fs, style);
            options.cf.preclude_last_level_data_seconds = 0;
            options.cf.preserve_internal_time_seconds = YOUNG;
            let db = Db::open(&options, DIR).unwrap();
            db.put("a", "1").unwrap();
            db.put("c", "1").unwrap();
            db.delete_range("d", "e").unwrap();
            let snapshot = db.snapshot();
            db.delete_range("c", "d").unwrap();
            flush(&db);
            rewrite(&db);
            assert_eq!(entries(&db)[0], 0);
            db.set_options(&[("preclude_last_level_data_seconds", "1000")]).unwrap();
            drop(snapshot);
            rewrite(&db);
            match style {
                CompactionStyle::Universal => assert_eq!(entries(&db), [1, 0]),
                _ => assert_eq!(entries(&db), [0, 1]),
            }
            db.put("b", "1").unwrap();
            db.put("a", "2").unwrap();
            flush(&db);
            rewrite(&db);
            assert_eq!(entries(&db), [2, 0], "in leveled compaction a newer version goes up");
            db.set_options(&[("preclude_last_level_data_seconds", "0")]).unwrap();
            down(&db);
            assert_eq!(entries(&db), [0, 2]);
            db.close().unwrap();
        });
    }
}

/// What the oldest snapshot does not see stays above the last level, as in RocksDB.
#[test]
fn what_is_newer_than_a_snapshot_counts_as_young() {
    for style in STYLES {
        simulate(0..2, move |_| {
            let (_, fs) = memory();
            let db = Db::open(&apart(&fs, style), DIR).unwrap();
            db.put("a", "1").unwrap();
            let snapshot = db.snapshot();
            db.put("a", "2").unwrap();
            db.put("b", "1").unwrap();
            pass(2 * YOUNG);
            flush(&db);
            rewrite(&db);
            assert_eq!(entries(&db), [2, 1]);
            drop(snapshot);
            down(&db);
            assert_eq!(entries(&db), [0, 2]);
            db.close().unwrap();
        });
    }
}

/// Range tombstones are split as well, and none covers what it did not.
#[test]
fn range_tombstones_go_with_their_age() {
    for style in STYLES {
        simulate(0..2, move |_| {
            let (_, fs) = memory();
            let db = Db::open(&apart(&fs, style), DIR).unwrap();
            for n in 0..50 {
                db.put(format!("{n:02}"), "old").unwrap();
            }
            let first = db.snapshot();
            db.delete_range("10", "20").unwrap();
            pass(2 * YOUNG);
            let second = db.snapshot();
            db.delete_range("15", "40").unwrap();
            db.put("17", "young").unwrap();
            flush(&db);
            for _ in 0..3 {
                down(&db);
                assert_eq!(contents(&db).len(), 50 - 30 + 1);
                assert_eq!(get(&db, b"17").unwrap(), b"young");
                let at = |snapshot: &Snapshot, key: &str| {
                    let read = pumice::ReadOptions {
                        snapshot: Some(snapshot.clone()),
                        ..Default::default()
                    };
                    db.get_opt(&read, key.as_bytes()).unwrap().is_some()
                };
                assert!(at(&first, "17") && at(&second, "25") && !at(&second, "17"));
            }
            drop((first, second));
            down(&db);
            pass(2 * YOUNG);
            down(&db);
            assert_eq!(entries(&db), [0, 21]);
            assert_eq!(contents(&db).len(), 21);
            db.close().unwrap();
        });
    }
}

/// A level that is too large for young entries is left alone until they are old, and then they go
/// down without any other change.
#[test]
fn young_files_are_not_rewritten_for_ever() {
    for style in STYLES {
        for snapshot in [false, true] {
            simulate(0..3, move |seed| {
                let (_, fs) = memory();
                let count = Arc::new(Count::default());
                let mut options = apart(&fs, style);
                options.cf.preclude_last_level_data_seconds = 10 * DAY;
                options.cf.max_bytes_for_level_base = 1000;
                options.cf.target_file_size_base = 4000;
                options.cf.level0_file_num_compaction_trigger = 2;
                options.cf.ttl = 3 * DAY;
                options.cf.periodic_compaction_seconds = 0;
                options.db.listeners = vec![Arc::clone(&count) as Arc<dyn EventListener>];
                let mut db = Db::open(&options, DIR).unwrap();
                for round in 0..6 {
                    for n in 0..100 {
                        db.put(format!("{n:03}-{}", round % 3), "v".repeat(100)).unwrap();
                    }
                    flush(&db);
                    pass(DAY / 4);
                }
                let held = snapshot.then(|| db.snapshot());
                if !snapshot && seed == 1 {
                    db.close().unwrap();
                    db = Db::open(&options, DIR).unwrap();
                }
                pass(60);
                let before = *count.0.lock();
                pass(5 * DAY);
                let more = *count.0.lock() - before;
                assert!(more <= 12, "{more} compactions of {before} in five days");
                assert_eq!(entries(&db)[1], 0);
                assert_eq!(contents(&db).len(), 300);
                drop(held);
                if style == CompactionStyle::Level {
                    pass(8 * DAY);
                    assert!(entries(&db)[1] > 200, "{:?}", entries(&db));
                }
                db.close().unwrap();
            });
        }
    }
}
