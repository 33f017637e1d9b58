//! Obsolete files are deleted at the rate of `sst_file_manager`, in virtual time: which of them,
//! how long it takes, and how a close, an open, a checkpoint and a crash treat the remaining ones.
//!
//! Plain #[test]: a simulation is a runtime of its own.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{self, DIR, contents, fill, flush, get, key, names};
use pumice::{
    ColumnFamilyOptions, CompactRangeOptions, CompressionType, Db, FileSystem, MemFs, Options,
    SstFileManager, SstFileManagerOptions, Statistics, Ticker, WriteOptions,
};
use pumice_env::mem::{CrashMode, Fault, FaultOp, FaultRule};
use pumice_env::write_file;
use pumice_port::time::now_micros;
use pumice_port::{sim, thread};

const KB: u64 = 1000;

fn run(seed: u64, body: impl Fn()) {
    let limits =
        sim::Options { max_virtual_nanos: 3600 * 1_000_000_000, ..sim::Options::new(seed) };
    let (report, outcome) = sim::run(&limits, body);
    let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
    assert!(outcome.is_ok() && stuck.is_empty(), "seed {seed}: {outcome:?}\n{stuck}");
}

/// Runs `test` under a few schedules.
fn simulate(test: fn()) {
    (0..4).for_each(|seed| run(seed, test));
}

/// A manager with nothing but a rate.
fn manager(rate_bytes_per_sec: u64, bytes_max_delete_chunk: u64) -> Arc<SstFileManager> {
    let settings = SstFileManagerOptions {
        rate_bytes_per_sec,
        max_trash_db_ratio: 1000.0,
        bytes_max_delete_chunk,
    };
    Arc::new(SstFileManager::new(&settings).unwrap())
}

/// Options of a database on `fs` whose deletions `manager` paces.
fn paced(fs: &Arc<dyn FileSystem>, manager: Option<&Arc<SstFileManager>>) -> Options {
    let mut options = common::options(fs);
    options.db.sst_file_manager = manager.cloned();
    options.db.statistics = Some(Arc::new(Statistics::new()));
    options.cf.compression = CompressionType::None;
    options.cf.disable_auto_compactions = true;
    options
}

fn ticker(options: &Options, ticker: Ticker) -> u64 {
    options.db.statistics.as_ref().unwrap().ticker(ticker)
}

fn compact(db: &Db) {
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
}

/// A hundred keys, flushed twice and compacted: two tables and two logs are of no use any more.
fn make_trash(db: &Db) {
    for value in ["a", "b"] {
        fill(db, 0..100, &value.repeat(1000));
        flush(db);
    }
    compact(db);
    thread::sleep(Duration::from_millis(100));
}

/// The files in `dir` whose names contain `part`, and their bytes.
fn bytes_of(fs: &Arc<dyn FileSystem>, dir: &str, part: &str) -> u64 {
    let of = |name: &String| fs.file_size(&Path::new(dir).join(name)).unwrap();
    names(fs, dir).iter().filter(|name| name.contains(part)).map(of).sum()
}

fn trash(fs: &Arc<dyn FileSystem>, dir: &str) -> Vec<String> {
    names(fs, dir).into_iter().filter(|name| name.ends_with(".trash")).collect()
}

/// The manager tracks exactly the existing files.
fn assert_tracked(fs: &Arc<dyn FileSystem>, manager: &SstFileManager, dirs: &[&str]) {
    let there: u64 = dirs.iter().map(|dir| bytes_of(fs, dir, ".sst")).sum();
    assert_eq!(manager.total_size(), there, "{:?}", manager.tracked_files());
    assert_eq!(manager.tracked_files().values().sum::<u64>(), there);
    let trash: u64 = dirs.iter().map(|dir| bytes_of(fs, dir, ".trash")).sum();
    assert_eq!(manager.total_trash_size(), trash);
}

fn seconds(since_micros: u64) -> f64 {
    (now_micros() - since_micros) as f64 / 1e6
}

#[test]
fn tables_and_logs_go_at_the_rate() {
    simulate(|| {
        let fs = MemFs::new(1).shared();
        let manager = manager(100 * KB, 0);
        let options = paced(&fs, Some(&manager));
        let db = Db::open(&options, DIR).unwrap();
        let began = now_micros();
        make_trash(&db);
        assert!(seconds(began) < 1.0, "no call waits for a deletion");
        let left = trash(&fs, DIR);
        assert_eq!(left.len(), 3, "the first log is gone already: {left:?}");
        assert_eq!(left.iter().filter(|name| name.contains(".log")).count(), 1);
        assert_tracked(&fs, &manager, &[DIR]);
        let files = db.live_files_metadata();
        assert_eq!(manager.total_size(), files[0].size + bytes_of(&fs, DIR, ".sst.trash"));
        assert_eq!(contents(&db).len(), 100);
        manager.wait_for_empty_trash();
        // Two tables and two logs of about 105 KB.
        assert!((4.0..4.6).contains(&seconds(began)), "took {}", seconds(began));
        assert!(trash(&fs, DIR).is_empty());
        assert_tracked(&fs, &manager, &[DIR]);
        let counts = [
            Ticker::FilesMarkedTrash,
            Ticker::FilesDeletedFromTrashQueue,
            Ticker::FilesDeletedImmediately,
        ];
        assert_eq!(counts.map(|count| ticker(&options, count)), [4, 4, 0]);
        db.close().unwrap();
        assert_eq!((manager.total_size(), manager.total_trash_size()), (0, 0));
    });
}

/// Logs in a directory of their own are deleted at once, and so is everything without a manager,
/// or with one that has no rate, or when there is too much trash.
#[test]
fn what_goes_at_once() {
    simulate(|| {
        let elsewhere = |options: &mut Options| options.db.wal_dir = "/wal".to_string();
        let no_ratio = |options: &mut Options| {
            let manager = options.db.sst_file_manager.as_ref().unwrap();
            manager.set_max_trash_db_ratio(0.0).unwrap();
        };
        let same = |_: &mut Options| {};
        // Manager, change of the options, tables and logs left as trash, files deleted at once.
        type Case = (Option<u64>, fn(&mut Options), [usize; 2], u64);
        let cases: [Case; 4] = [
            (None, same, [0, 0], 4),
            (Some(0), same, [0, 0], 4),
            // RocksDB does not count those logs either.
            (Some(1), elsewhere, [1, 0], 0),
            // The first is trash and gone, the second comes when there is none.
            (Some(1), no_ratio, [0, 1], 1),
        ];
        for (rate, change, left, at_once) in cases {
            let fs = MemFs::new(1).shared();
            let manager = rate.map(|rate| manager(rate, 0));
            let mut options = paced(&fs, manager.as_ref());
            change(&mut options);
            let db = Db::open(&options, DIR).unwrap();
            make_trash(&db);
            let count = |part: &str| trash(&fs, DIR).iter().filter(|n| n.contains(part)).count();
            let found = [count(".sst"), count(".log")];
            let deleted = ticker(&options, Ticker::FilesDeletedImmediately);
            if left == [0, 1] {
                // Whether a log or a table comes first is unspecified; not all of them may wait.
                assert!(deleted >= at_once && found[0] + found[1] <= 1, "{found:?}, {deleted}");
            } else {
                assert_eq!((found, deleted), (left, at_once), "{rate:?}");
            }
            if !options.db.wal_dir.is_empty() {
                assert!(trash(&fs, "/wal").is_empty());
                assert_eq!(names(&fs, "/wal").len(), 1, "the present log");
            }
            db.close().unwrap();
        }
    });
}

#[test]
fn a_close_leaves_trash_that_an_open_finds() {
    simulate(|| {
        let fs = MemFs::new(1).shared();
        let slow = manager(1, 0);
        let options = paced(&fs, Some(&slow));
        let db = Db::open(&options, DIR).unwrap();
        make_trash(&db);
        let began = now_micros();
        db.close().unwrap();
        drop(db);
        assert!(seconds(began) < 1.0, "a close does not wait for trash");
        let left = trash(&fs, DIR);
        assert_eq!(left.len(), 3);
        assert_eq!(slow.total_size(), bytes_of(&fs, DIR, ".sst.trash"), "trash stays tracked");
        for stranger in ["notes.trash", "000001.txt.trash"] {
            write_file(&*fs, &Path::new(DIR).join(stranger), b"mine", true).unwrap();
        }
        // The same manager has them in its queue already.
        let db = Db::open(&options, DIR).unwrap();
        let bytes = bytes_of(&fs, DIR, ".sst.trash") + bytes_of(&fs, DIR, ".log.trash");
        assert_eq!(slow.total_trash_size(), bytes);
        assert_eq!(contents(&db).len(), 100);
        db.close().unwrap();
        drop((db, options, slow));
        // Another one deletes them at its rate, ratio or no ratio.
        let next = manager(100 * KB, 0);
        next.set_max_trash_db_ratio(0.0).unwrap();
        let began = now_micros();
        let options = paced(&fs, Some(&next));
        let db = Db::open(&options, DIR).unwrap();
        assert!(trash(&fs, DIR).len() >= 4, "{:?}", trash(&fs, DIR));
        next.wait_for_empty_trash();
        assert!((3.0..3.6).contains(&seconds(began)), "took {}", seconds(began));
        assert_eq!(trash(&fs, DIR), ["000001.txt.trash", "notes.trash"], "of others");
        assert_eq!(contents(&db).len(), 100);
        next.set_delete_rate_bytes_per_second(1);
        next.set_max_trash_db_ratio(1000.0).unwrap();
        make_trash(&db);
        db.close().unwrap();
        drop((db, options, next));
        assert!(trash(&fs, DIR).len() > 3);
        // Without a manager they are deleted at once.
        let options = paced(&fs, None);
        let db = Db::open(&options, DIR).unwrap();
        assert_eq!(trash(&fs, DIR), ["000001.txt.trash", "notes.trash"]);
        assert_eq!(contents(&db).len(), 100);
        db.close().unwrap();
    });
}

/// Nothing begins before an open has succeeded.
#[test]
fn an_open_that_fails_leaves_trash_alone() {
    simulate(|| {
        let disk = MemFs::new(1);
        let fs = disk.shared();
        let options = paced(&fs, Some(&manager(1, 0)));
        let db = Db::open(&options, DIR).unwrap();
        make_trash(&db);
        db.close().unwrap();
        drop((db, options));
        let left = trash(&fs, DIR);
        disk.add_fault(FaultRule::always(FaultOp::Create, "*OPTIONS*", Fault::Eio));
        let next = manager(100_000 * KB, 0);
        Db::open(&paced(&fs, Some(&next)), DIR).map(drop).unwrap_err();
        thread::sleep(Duration::from_secs(10));
        assert_eq!((next.total_size(), next.total_trash_size()), (0, 0));
        assert_eq!(trash(&fs, DIR), left);
        disk.clear_faults();
        let db = Db::open(&paced(&fs, Some(&next)), DIR).unwrap();
        next.wait_for_empty_trash();
        assert_eq!(trash(&fs, DIR).len(), 0);
        assert_eq!(contents(&db).len(), 100);
        db.close().unwrap();
    });
}

/// Tables of a recovery that is given up are deleted at once, whatever the rate; of one that fails
/// later they stay. Neither is the manager's.
#[test]
fn tables_of_an_open_that_fails_are_not_the_managers() {
    simulate(|| {
        let disk = MemFs::new(1);
        let fs = disk.shared();
        let db = Db::open(&paced(&fs, None), DIR).unwrap();
        fill(&db, 0..100, &"v".repeat(1000));
        db.close().unwrap();
        let files = || {
            let mut files = names(&fs, DIR);
            files.retain(|name| !name.starts_with("LOG"));
            files
        };
        let (before, next) = (files(), manager(1, 0));
        let options = paced(&fs, Some(&next));
        for (op, glob, tables) in [
            (FaultOp::Create, "*MANIFEST-*", 0),
            (FaultOp::Sync, "*MANIFEST-*", 0),
            (FaultOp::Create, "*OPTIONS*", 1),
        ] {
            disk.add_fault(FaultRule::always(op, glob, Fault::Eio));
            Db::open(&options, DIR).map(drop).unwrap_err();
            disk.clear_faults();
            thread::sleep(Duration::from_secs(10));
            let left = files();
            assert_eq!(left.iter().filter(|name| name.ends_with(".sst")).count(), tables);
            assert!(tables > 0 || left == before, "{before:?}, {left:?}");
            assert!(trash(&fs, DIR).is_empty());
            assert_eq!((next.total_size(), next.total_trash_size()), (0, 0));
        }
        let db = Db::open(&options, DIR).unwrap();
        assert_eq!(contents(&db).len(), 100);
        assert_tracked(&fs, &next, &[DIR]);
        db.close().unwrap();
    });
}

/// A checkpoint has no trash, and keeps its tables whole when the database's become trash.
#[test]
fn checkpoints_and_trash() {
    simulate(|| {
        let fs = MemFs::new(1).shared();
        let manager = manager(1000 * KB, 10 * KB);
        let options = paced(&fs, Some(&manager));
        let db = Db::open(&options, DIR).unwrap();
        make_trash(&db);
        db.checkpoint("/copy").unwrap();
        assert!(trash(&fs, "/copy").is_empty());
        fill(&db, 50..100, &"c".repeat(1000));
        flush(&db);
        compact(&db);
        manager.wait_for_empty_trash();
        assert!(trash(&fs, DIR).is_empty());
        let copy = Db::open(&paced(&fs, None), "/copy").unwrap();
        copy.verify_checksum().unwrap();
        assert_eq!(get(&copy, &key(70)).unwrap(), "b".repeat(1000).as_bytes());
        assert_eq!(get(&db, &key(70)).unwrap(), "c".repeat(1000).as_bytes());
        copy.close().unwrap();
        db.close().unwrap();
    });
}

#[test]
fn destroying_takes_the_rate_and_the_trash() {
    simulate(|| {
        for rate in [None, Some(100 * KB)] {
            let fs = MemFs::new(1).shared();
            let slow = manager(1, 0);
            let db = Db::open(&paced(&fs, Some(&slow)), DIR).unwrap();
            make_trash(&db);
            db.close().unwrap();
            drop((db, slow));
            assert_eq!(trash(&fs, DIR).len(), 3);
            let manager = rate.map(|rate| manager(rate, 0));
            let began = now_micros();
            Db::destroy(&paced(&fs, manager.as_ref()), DIR).unwrap();
            assert!(!fs.exists(Path::new(DIR)).unwrap());
            // One table of 105 KB is left, and a log.
            let range = if rate.is_some() { 0.9..1.5 } else { 0.0..0.1 };
            assert!(range.contains(&seconds(began)), "{rate:?} took {}", seconds(began));
        }
    });
}

/// Two databases share a manager, which knows of every table that is created or ingested.
#[test]
fn everything_is_tracked() {
    simulate(|| {
        let fs = MemFs::new(1).shared();
        let manager = manager(100_000 * KB, 0);
        let mut options = paced(&fs, Some(&manager));
        options.cf.disable_auto_compactions = false;
        options.cf.level0_file_num_compaction_trigger = 2;
        options.cf.target_file_size_base = 20 << 10;
        options.cf.write_buffer_size = 64 << 10;
        let open = |dir| Db::open(&options, dir).unwrap();
        let (one, two) = (open(DIR), open("/two"));
        let family = one.create_column_family(&ColumnFamilyOptions::default(), "cf").unwrap();
        for round in 0..4 {
            fill(&one, 0..100, &"v".repeat(1000 + round));
            fill(&two, 0..50, &"v".repeat(500 + round));
            one.put_cf_opt(&WriteOptions::default(), &family, b"k", &[b'v'; 5000]).unwrap();
            one.flush_all_opt(&Default::default()).unwrap();
        }
        let settle = || {
            for db in [&one, &two] {
                db.wait_for_compact(&Default::default()).unwrap();
            }
            thread::sleep(Duration::from_millis(200));
            manager.wait_for_empty_trash();
            assert_tracked(&fs, &manager, &[DIR, "/two"]);
        };
        settle();
        let mut writer = pumice::SstFileWriter::new(&options).unwrap();
        writer.open("/x.sst").unwrap();
        writer.put(b"z", &[b'z'; 30_000]).unwrap();
        writer.finish().unwrap();
        let before = manager.total_size();
        one.ingest_external_file(&Default::default(), &["/x.sst"]).unwrap();
        assert!(manager.total_size() > before + 30_000);
        settle();
        let cf = one.default_column_family();
        one.delete_files_in_ranges_cf(cf, &[(None, None)], true).unwrap();
        one.drop_column_family(&family).unwrap();
        drop(family);
        settle();
        assert!(manager.total_size() < before);
        one.close().unwrap();
        assert_tracked(&fs, &manager, &["/two"]);
        two.close().unwrap();
        assert_eq!(manager.total_size(), 0);
    });
}

/// One life: returns the number of the last acknowledged value.
fn life(fs: &Arc<dyn FileSystem>) -> usize {
    let manager = manager(300 * KB, 16 * KB);
    let Ok(db) = Db::open(&paced(fs, Some(&manager)), DIR) else { return 0 };
    let mut acknowledged = 0;
    for round in 1..=3 {
        let put =
            |n: usize| db.put_opt(&common::SYNC, &key(n), format!("{round:05000}").as_bytes());
        if (0..10).any(|n| put(n).is_err()) {
            break;
        }
        acknowledged = round;
        drop(db.flush_opt(&Default::default()));
        if round == 2 {
            drop(db.compact_range(&CompactRangeOptions::default(), None, None));
        }
    }
    thread::sleep(Duration::from_millis(400));
    drop(db.close());
    acknowledged
}

/// The power is cut at each change that has to do with trash: nothing acknowledged is lost, and
/// nothing is left over after the next open.
#[test]
fn crashes_between_renaming_and_deleting() {
    let (disk, share) = (MemFs::new(3), 4);
    disk.note_changes();
    run(3, || assert_eq!(life(&disk.shared()), 3));
    let changes = disk.noted_changes();
    let about_trash = |(op, path): &(FaultOp, std::path::PathBuf)| {
        *op == FaultOp::Rename || path.to_string_lossy().ends_with(".trash")
    };
    let near = |at: &usize| changes[at.saturating_sub(1)..*at].iter().any(about_trash);
    let points: Vec<usize> = (1..=changes.len()).filter(near).collect();
    assert!(points.len() > 20, "{} of {}", points.len(), changes.len());
    for at in points {
        for seed in 0..share {
            run(3, || crash_at(at as u64, seed));
        }
    }
}

fn crash_at(at: u64, seed: u64) {
    let disk = MemFs::new(3);
    disk.halt_after(at);
    let fs = disk.shared();
    let acknowledged = life(&fs);
    disk.crash(seed, if seed.is_multiple_of(2) { CrashMode::UNSYNCED } else { CrashMode::MIXED });
    let manager = (seed < 2).then(|| manager(1000 * KB, 16 * KB));
    let db = Db::open(&paced(&fs, manager.as_ref()), DIR).unwrap();
    for n in 0..10 {
        let value = get(&db, &key(n)).map_or(0, |v| String::from_utf8(v).unwrap().parse().unwrap());
        assert!((acknowledged..=3).contains(&value), "{at}/{seed}: {value} after {acknowledged}");
    }
    if let Some(manager) = &manager {
        manager.wait_for_empty_trash();
        assert_tracked(&fs, manager, &[DIR]);
    }
    let names = names(&fs, DIR);
    let count = |end: &str| names.iter().filter(|name| name.ends_with(end)).count();
    assert_eq!(count(".trash"), 0, "{at}/{seed}: {names:?}");
    assert_eq!(count(".sst"), db.live_files_metadata().len(), "{at}/{seed}: {names:?}");
    assert_eq!(count(".log"), 1, "{at}/{seed}: {names:?}");
    db.close().unwrap();
}
