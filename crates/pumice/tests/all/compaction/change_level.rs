//! `CompactRangeOptions::change_level` during everything that changes the tree: other moves,
//! ingestions, compactions of the same family and of others.
//!
//! Plain #[test]: a simulation is a runtime of its own.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{self, DIR, contents, fill, flush, get};
use pumice::{
    BottommostLevelCompaction, ColumnFamily, ColumnFamilyOptions, CompactRangeOptions, Db,
    FileSystem, IngestExternalFileArg, IngestExternalFileOptions, MemFs, Options, RangeOpt,
    SstFileWriter, WriteOptions,
};
use pumice_env::mem::{Fault, FaultOp, FaultRule};
use pumice_port::{sim, thread};

const SEEDS: u64 = 40;
const SECOND: u64 = 1_000_000_000;

fn options(fs: &MemFs) -> Options {
    let mut options = common::options(&fs.shared());
    options.cf.disable_auto_compactions = true;
    options.cf.level_compaction_dynamic_level_bytes = false;
    options
}

fn to(level: i32) -> CompactRangeOptions {
    CompactRangeOptions { change_level: true, target_level: level, ..Default::default() }
}

fn rewritten_to(level: i32) -> CompactRangeOptions {
    CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..to(level)
    }
}

/// Runs `body` under many schedules.
fn simulate(body: impl Fn(&MemFs)) {
    for seed in 0..SEEDS {
        let options = sim::Options {
            preempt_per_mille: 50,
            max_virtual_nanos: 600 * SECOND,
            ..sim::Options::new(seed)
        };
        let (report, outcome) = sim::run(&options, || body(&MemFs::new(seed)));
        let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
        assert!(outcome.is_ok() && stuck.is_empty(), "seed {seed}: {outcome:?}\n{stuck}");
    }
}

/// A database whose keys 0..40 are in one file of level 3.
fn settled(fs: &MemFs) -> (Options, Arc<Db>) {
    let options = options(fs);
    let db = Arc::new(Db::open(&options, DIR).unwrap());
    fill(&db, 0..40, "old");
    flush(&db);
    db.compact_range(&to(3), None, None).unwrap();
    assert_eq!(levels(&db), [3]);
    (options, db)
}

fn levels(db: &Db) -> Vec<i32> {
    db.live_files_metadata().iter().map(|file| file.level as i32).collect()
}

/// A table of keys 0..40.
fn table(options: &Options, fs: &MemFs, name: &str, value: &str) -> std::path::PathBuf {
    fs.create_dir_all(Path::new("/in")).unwrap();
    let path = Path::new("/in").join(name);
    let mut writer = SstFileWriter::new(options).unwrap();
    writer.open(&path).unwrap();
    for n in 0..40 {
        writer.put(&common::key(n), value.as_bytes()).unwrap();
    }
    writer.finish().unwrap();
    path
}

/// The error that a move may return while others run: the levels it has to pass are in use.
fn moved_or_refused(moved: pumice::Result<()>) {
    if let Err(error) = moved {
        let text = error.to_string();
        assert!(text.contains("Levels between source and target"), "{text}");
    }
}

/// All there is reads `value`, now and after reopening.
fn all_read(options: &Options, db: Arc<Db>, value: &str) {
    let check = |db: &Db| {
        let found = contents(db);
        assert_eq!(found.len(), 40);
        for (key, found) in found {
            assert_eq!(String::from_utf8_lossy(&found), value, "{}", String::from_utf8_lossy(&key));
            assert_eq!(get(db, &key).unwrap(), found);
        }
        db.put_opt(&WriteOptions::default(), b"probe", b"").unwrap();
        db.delete_opt(&WriteOptions::default(), b"probe").unwrap();
    };
    check(&db);
    db.close().unwrap();
    drop(db);
    let db = Db::open(options, DIR).unwrap();
    check(&db);
    db.close().unwrap();
}

#[test]
fn moves_of_two_tasks_follow_each_other() {
    simulate(|fs| {
        let (options, db) = settled(fs);
        let movers: Vec<_> = [1, 4, 2]
            .into_iter()
            .map(|level| {
                let db = Arc::clone(&db);
                thread::spawn("mover", move || {
                    for turn in 0..4 {
                        moved_or_refused(db.compact_range(&to((level + turn) % 6 + 1), None, None));
                    }
                })
            })
            .collect();
        movers.into_iter().for_each(|mover| mover.join().unwrap());
        assert_eq!(levels(&db).len(), 1);
        all_read(&options, db, "old");
    });
}

/// A file is ingested with a slow MANIFEST write, while another task moves files of that level.
fn ingested_beside_a_move(level: i32, replacing: bool) {
    simulate(|fs| {
        let (options, db) = settled(fs);
        let path = table(&options, fs, "new.sst", "new");
        let stall = Fault::Stall(SECOND / 10);
        fs.add_fault(FaultRule::always(FaultOp::Sync, "*MANIFEST-*", stall));
        let ingester = {
            let db = Arc::clone(&db);
            thread::spawn("ingester", move || {
                let how = IngestExternalFileOptions {
                    snapshot_consistency: !replacing,
                    ..Default::default()
                };
                let cf = db.default_column_family();
                let mut arg = IngestExternalFileArg::new(cf, vec![path], &how);
                arg.atomic_replace_range = replacing.then(RangeOpt::default);
                db.ingest_external_files(&[arg])
            })
        };
        thread::sleep(Duration::from_micros(sim::random_below(1000)));
        // The ingestion waits while the compaction's edit is written to the MANIFEST, and writes
        // next.
        moved_or_refused(db.compact_range(&rewritten_to(level), None, None));
        let ingested = ingester.join().unwrap();
        if let Err(error) = &ingested {
            // The move had begun.
            assert!(replacing && error.to_string().contains("pending compaction"), "{error}");
        }
        all_read(&options, db, if ingested.is_ok() { "new" } else { "old" });
    });
}

#[test]
fn a_move_never_passes_what_is_ingested() {
    ingested_beside_a_move(1, false);
}

#[test]
fn a_move_never_meets_what_is_ingested_in_its_target() {
    ingested_beside_a_move(2, false);
}

#[test]
fn a_move_and_a_replacement_of_the_range_do_not_mix() {
    ingested_beside_a_move(1, true);
}

#[test]
fn a_move_waits_for_a_compaction_of_its_files() {
    simulate(|fs| {
        let (options, db) = settled(fs);
        fs.add_fault(FaultRule::once(FaultOp::Sync, "*.sst", 0, Fault::Stall(SECOND)));
        let compactor = {
            let db = Arc::clone(&db);
            thread::spawn("compactor", move || {
                let force = CompactRangeOptions { change_level: false, ..rewritten_to(0) };
                db.compact_range(&force, None, None)
            })
        };
        thread::sleep(Duration::from_micros(sim::random_below(3000)));
        moved_or_refused(db.compact_range(&to(1), None, None));
        compactor.join().unwrap().unwrap();
        assert_eq!(levels(&db).len(), 1);
        all_read(&options, db, "old");
    });
}

#[test]
fn a_move_leaves_the_compactions_of_other_families_alone() {
    simulate(|fs| {
        let (_, db) = settled(fs);
        let other = db.create_column_family(&ColumnFamilyOptions::default(), "other").unwrap();
        let compactor = {
            let (db, other): (_, ColumnFamily) = (Arc::clone(&db), other.clone());
            thread::spawn("compactor", move || {
                for n in 0..6 {
                    db.put_cf_opt(&WriteOptions::default(), &other, b"k", &[n]).unwrap();
                    db.flush_cfs_opt(&Default::default(), &[&other]).unwrap();
                    db.compact_range_cf(&Default::default(), &other, None, None).unwrap();
                }
            })
        };
        for turn in 0..20 {
            db.compact_range(&to(1 + turn % 5), None, None).unwrap();
        }
        compactor.join().unwrap();
        db.close().unwrap();
    });
}

#[test]
fn nothing_is_moved_to_the_level_of_what_is_ingested_behind() {
    simulate(|fs| {
        let mut options = options(fs);
        options.cf.cf_allow_ingest_behind = true;
        let db = Db::open(&options, DIR).unwrap();
        fill(&db, 0..40, "old");
        flush(&db);
        let last = options.cf.num_levels - 1;
        let error = db.compact_range(&to(last), None, None).unwrap_err();
        assert!(error.to_string().contains("Target level is reserved"), "{error}");
        db.compact_range(&to(last - 1), None, None).unwrap();
        db.close().unwrap();
    });
}

/// Without a target the files go up as far as they fit.
#[test]
fn without_a_target_files_go_to_a_level_that_they_fit_into() {
    for (base, level) in [(1 << 10, 3), (8 << 10, 2), (1 << 20, 1)] {
        simulate(|fs| {
            let mut options = options(fs);
            options.cf.compression = pumice::CompressionType::None;
            options.cf.max_bytes_for_level_base = base;
            options.cf.max_bytes_for_level_multiplier = 10.0;
            let db = Db::open(&options, DIR).unwrap();
            // 40 KB and a little.
            fill(&db, 0..40, &"v".repeat(1000));
            flush(&db);
            db.compact_range(&to(3), None, None).unwrap();
            assert_eq!(levels(&db), [3]);
            db.compact_range(&to(-1), None, None).unwrap();
            assert_eq!(levels(&db), [level], "base {base}");
            db.close().unwrap();
        });
    }
}
