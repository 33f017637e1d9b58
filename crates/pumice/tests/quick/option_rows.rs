//! What options do that no other suite shows: files, memory, levels, by the option alone.
//!
//! Each test proves the rows of the option tables that name it. Plain #[test] where there is a
//! simulation: it is a runtime of its own. Its clock is virtual.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::common::watched::{Counts, Watched};
use crate::common::{DIR, contents, fill, flush, get, key, memory, names, options};
use pumice::options::{FileRules, load_latest_options};
use pumice::{
    ColumnFamilyDescriptor, CompactRangeOptions, CompressionType, Db, FileSystem, Options,
    ReadOptions, WaitForCompactOptions, WriteOptions,
};
use pumice_env::mem::{Fault, FaultOp, FaultRule};
use pumice_port::sim;
use pumice_port::thread::sleep;

fn simulated(test: impl Fn() + Send + Sync + Copy + 'static) {
    for seed in 0..3 {
        let (report, outcome) = sim::run(&sim::Options::new(seed), test);
        let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
        assert!(outcome.is_ok(), "seed {seed}: {outcome:?}\n{stuck}");
    }
}

/// Options on a file system that counts, with `text` applied.
fn watched(text: &str) -> (Options, Arc<Counts>) {
    let (fs, counts) = Watched::over(memory().1);
    let mut options = options(&fs);
    options.cf.compression = CompressionType::None;
    options.set_from_text(text).unwrap();
    (options, counts)
}

fn compact(db: &Db) {
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
}

/// The database's options as its OPTIONS file gives them, on `fs`.
fn saved(fs: &Arc<dyn FileSystem>) -> Options {
    let loaded = load_latest_options(&**fs, Path::new(DIR), FileRules::default()).unwrap().unwrap();
    let cf = loaded.column_families[0].options.clone();
    let mut options = Options { db: loaded.db, cf };
    options.db.file_system = Arc::clone(fs);
    options
}

#[pumice_test_macros::test]
fn missing_families_are_created_on_request() {
    let (_, fs) = memory();
    let mut options = options(&fs);
    let families =
        ["default", "more"].map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
    let refused = Db::open_cf(&options.db, DIR, &families).err().unwrap();
    assert!(refused.message().contains("olumn famil"), "{refused}");
    options.db.create_missing_column_families = true;
    let (db, handles) = Db::open_cf(&options.db, DIR, &families).unwrap();
    db.put_cf_opt(&WriteOptions::default(), &handles[1], b"k", b"v").unwrap();
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn open_tables_stay_within_their_limit() {
    const TABLES: usize = 60;
    let (mut options, counts) = watched("max_open_files=40;disable_auto_compactions=true");
    options.cf.level0_slowdown_writes_trigger = 1000;
    options.cf.level0_stop_writes_trigger = 1000;
    let db = Db::open(&options, DIR).unwrap();
    for n in 0..TABLES {
        fill(&db, n..n + 1, "value");
        flush(&db);
    }
    let read_all = || (0..TABLES).for_each(|n| assert!(get(&db, &key(n)).is_some()));
    read_all();
    // Ten descriptors are for other files.
    assert_eq!(counts.open.load(Relaxed), 30);
    // What is beyond a lower limit is closed at once.
    db.set_db_options(&[("max_open_files", "25")]).unwrap();
    assert_eq!(counts.open.load(Relaxed), 15);
    read_all();
    assert_eq!(counts.open.load(Relaxed), 15);
    db.close().unwrap();
    drop(db);
    let mut again = saved(&options.db.file_system);
    assert_eq!(again.db.max_open_files, 25);
    again.db.max_open_files = -1;
    let db = Db::open(&again, DIR).unwrap();
    (0..TABLES).for_each(|n| assert!(get(&db, &key(n)).is_some()));
    assert_eq!(counts.open.load(Relaxed), TABLES);
    db.close().unwrap();
}

/// Tables that were opened without a limit keep their memory, but not their descriptors.
#[pumice_test_macros::test]
fn a_limit_closes_tables_that_were_opened_without_one() {
    const TABLES: usize = 60;
    let (mut options, counts) = watched("max_open_files=-1;disable_auto_compactions=true");
    options.cf.level0_slowdown_writes_trigger = 1000;
    options.cf.level0_stop_writes_trigger = 1000;
    options.cf.table_factory.no_block_cache = true;
    let db = Db::open(&options, DIR).unwrap();
    for n in 0..TABLES {
        fill(&db, n..n + 1, "value");
        flush(&db);
    }
    let read_all = || (0..TABLES).for_each(|n| assert!(get(&db, &key(n)).is_some()));
    let limit = |files: &str| db.set_db_options(&[("max_open_files", files)]).unwrap();
    read_all();
    assert_eq!(counts.open.load(Relaxed), TABLES);
    let mut iter = db.cursor_opt(&ReadOptions::default()).unwrap();
    iter.seek_to_first();
    for round in 0..2 {
        limit("30");
        assert_eq!(counts.open.load(Relaxed), 20, "round {round}");
        read_all();
        assert_eq!(contents(&db).len(), TABLES);
        assert_eq!(counts.open.load(Relaxed), 20, "round {round}");
        // A new one replaces an old one.
        fill(&db, TABLES - 1..TABLES, "again");
        flush(&db);
        read_all();
        assert_eq!(counts.open.load(Relaxed), 20, "round {round}");
        limit("-1");
        read_all();
        assert_eq!(counts.open.load(Relaxed), TABLES, "round {round}: one has nothing to read");
    }
    // An earlier iterator continues with new descriptors.
    limit("20");
    for n in 0..TABLES {
        assert_eq!(iter.key().unwrap(), key(n));
        iter.next();
    }
    iter.status().unwrap();
    drop(iter);
    assert_eq!(counts.open.load(Relaxed), 10);
    compact(&db);
    assert_eq!(contents(&db).len(), TABLES);
    // Files that are gone have no place.
    assert!(counts.open.load(Relaxed) <= 10);
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn fsync_takes_the_place_of_fdatasync() {
    for use_fsync in [false, true] {
        let (options, counts) = watched(&format!("use_fsync={use_fsync}"));
        let db = Db::open(&options, DIR).unwrap();
        counts.clear();
        fill(&db, 0..10, "value");
        flush(&db);
        let (syncs, fsyncs) = (counts.syncs.load(Relaxed), counts.fsyncs.load(Relaxed));
        assert_eq!(fsyncs > 0, use_fsync, "{syncs} and {fsyncs}");
        assert!(use_fsync || syncs > 0);
        db.close().unwrap();
    }
}

#[test]
fn the_info_log_rolls_by_its_age() {
    simulated(|| {
        for (seconds, rolls) in [(0, false), (50, true)] {
            let (_, fs) = memory();
            let mut options = options(&fs);
            options.db.log_file_time_to_roll = seconds;
            let db = Db::open(&options, DIR).unwrap();
            sleep(Duration::from_secs(60));
            fill(&db, 0..1, "value");
            flush(&db);
            let old = names(&fs, DIR).iter().filter(|name| name.starts_with("LOG.old")).count();
            assert_eq!(old > 0, rolls);
            db.close().unwrap();
        }
    });
}

#[pumice_test_macros::test]
fn a_long_manifest_is_replaced() {
    // The one that counts: the one before it is deleted some time later.
    let manifest =
        |fs: &Arc<dyn FileSystem>| fs.read_file(&Path::new(DIR).join("CURRENT")).unwrap();
    let (options, _) = watched("disable_auto_compactions=true");
    let fs = Arc::clone(&options.db.file_system);
    let db = Db::open(&options, DIR).unwrap();
    let first = manifest(&fs);
    let flushed = |db: &Db| {
        for n in 0..10 {
            fill(db, n..n + 1, "value");
            flush(db);
        }
    };
    flushed(&db);
    assert_eq!(manifest(&fs), first);
    db.set_db_options(&[("max_manifest_file_size", "500")]).unwrap();
    flushed(&db);
    assert_ne!(manifest(&fs), first);
    db.close().unwrap();
    assert_eq!(saved(&fs).db.max_manifest_file_size, 500);
}

#[pumice_test_macros::test]
fn space_is_reserved_where_that_is_allowed() {
    let reserved = |text: &str| {
        let (options, counts) = watched(text);
        let db = Db::open(&options, DIR).unwrap();
        let opened = counts.reserved.load(Relaxed);
        fill(&db, 0..10, "value");
        flush(&db);
        db.close().unwrap();
        (opened, counts.reserved.load(Relaxed))
    };
    assert_eq!(reserved("allow_fallocate=false"), (0, 0));
    let (_, both) = reserved("");
    let (_, logs) = reserved("manifest_preallocation_size=0");
    assert!(0 < logs && logs < both, "{logs} and {both}");
}

#[pumice_test_macros::test]
fn memtables_of_all_families_have_a_limit() {
    let tables = |text: &str| {
        let (options, _) = watched(text);
        let db = Db::open(&options, DIR).unwrap();
        let other = db.create_column_family(&options.cf, "other").unwrap();
        for n in 0..3000 {
            let cf = if n % 2 == 0 { &other } else { db.default_column_family() };
            db.put_cf_opt(&WriteOptions::default(), cf, &key(n), &[b'v'; 1000]).unwrap();
        }
        db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
        let count = db.live_files_metadata().len();
        db.close().unwrap();
        count
    };
    assert_eq!(tables("write_buffer_size=64M"), 0);
    assert!(tables("write_buffer_size=64M;db_write_buffer_size=1M") > 0);
    assert!(tables("write_buffer_size=1M") > 0);
}

#[pumice_test_macros::test]
fn unlogged_writes_are_flushed_by_a_close() {
    for avoid in [false, true] {
        let (_, fs) = memory();
        let options = options(&fs);
        let db = Db::open(&options, DIR).unwrap();
        let value = avoid.to_string();
        db.set_db_options(&[("avoid_flush_during_shutdown", value.as_str())]).unwrap();
        let unlogged = WriteOptions { disable_wal: true, ..WriteOptions::default() };
        db.put_opt(&unlogged, b"k", b"v").unwrap();
        db.close().unwrap();
        let again = saved(&fs);
        assert_eq!(again.db.avoid_flush_during_shutdown, avoid);
        let db = Db::open(&again, DIR).unwrap();
        assert_eq!(get(&db, b"k").is_none(), avoid);
        db.close().unwrap();
    }
}

#[pumice_test_macros::test]
fn recovered_data_stays_in_memory_on_request() {
    for avoid in [false, true] {
        let (_, fs) = memory();
        let mut options = options(&fs);
        options.db.avoid_flush_during_recovery = avoid;
        let db = Db::open(&options, DIR).unwrap();
        fill(&db, 0..10, "value");
        db.close().unwrap();
        let db = Db::open(&saved(&fs), DIR).unwrap();
        assert_eq!(db.live_files_metadata().is_empty(), avoid);
        assert_eq!(contents(&db).len(), 10);
        db.close().unwrap();
    }
}

#[pumice_test_macros::test]
fn compactions_read_ahead() {
    let largest = |text: &str| {
        let (options, counts) = watched(text);
        let db = Db::open(&options, DIR).unwrap();
        for round in 0..2 {
            fill(&db, 0..20_000, &format!("{round}").repeat(100));
            flush(&db);
        }
        counts.clear();
        compact(&db);
        let (reads, largest) = (counts.reads.load(Relaxed), counts.read_max.load(Relaxed));
        db.close().unwrap();
        (reads, largest)
    };
    let (many, small) = largest("compaction_readahead_size=0;disable_auto_compactions=true");
    let (few, large) = largest("compaction_readahead_size=1M;disable_auto_compactions=true");
    assert!(many > 2 * few, "{many} reads of {small} bytes and {few} of {large}");
    assert!(small < large, "{many} reads of {small} bytes and {few} of {large}");
}

#[pumice_test_macros::test]
fn scans_read_ahead() {
    let scan = |table: &str| {
        let (mut options, counts) = watched("");
        options.cf.table_factory.set_from_text(table).unwrap();
        options.cf.table_factory.no_block_cache = true;
        let db = Db::open(&options, DIR).unwrap();
        fill(&db, 0..5000, &"v".repeat(100));
        compact(&db);
        db.close().unwrap();
        let mut again = saved(&options.db.file_system);
        again.cf.table_factory.no_block_cache = true;
        let db = Db::open(&again, DIR).unwrap();
        assert!(get(&db, &key(1)).is_some());
        counts.clear();
        assert_eq!(contents(&db).len(), 5000);
        db.close().unwrap();
        (counts.reads.load(Relaxed), counts.read_max.load(Relaxed))
    };
    let (usual, _) = scan("");
    let (none, block) = scan("max_auto_readahead_size=0");
    assert!(none > 3 * usual && block < 8 << 10, "{none}, {usual}, {block}");
    let (large, _) = scan("initial_auto_readahead_size=262144");
    assert!(large < usual, "{large}, {usual}");
    let (_, most) = scan("max_auto_readahead_size=16384");
    assert!(most < 32 << 10, "{most}");
}

#[pumice_test_macros::test]
fn blocks_are_kept_where_a_cache_is_wanted() {
    for none in [false, true] {
        let (mut options, counts) = watched("");
        options.cf.table_factory.no_block_cache = none;
        let db = Db::open(&options, DIR).unwrap();
        fill(&db, 0..100, "value");
        flush(&db);
        assert!(get(&db, &key(7)).is_some());
        counts.clear();
        assert!(get(&db, &key(7)).is_some());
        assert_eq!(counts.reads.load(Relaxed) > 0, none);
        db.close().unwrap();
    }
}

/// A table replaced by one of another database, of the same size.
#[pumice_test_macros::test]
fn a_foreign_table_of_the_same_size_is_found() {
    for verify in [true, false] {
        let (_, fs) = memory();
        let mut options = options(&fs);
        options.db.verify_sst_unique_id_in_manifest = verify;
        let tables = ["/a", "/b"].map(|dir| {
            let db = Db::open(&options, dir).unwrap();
            fill(&db, 0..10, &dir[1..]);
            flush(&db);
            let name = db.live_files_metadata()[0].name.clone();
            db.close().unwrap();
            format!("{dir}{name}")
        });
        let foreign = fs.read_file(tables[1].as_ref()).unwrap();
        assert_eq!(foreign.len(), fs.read_file(tables[0].as_ref()).unwrap().len());
        fs.remove(tables[0].as_ref()).unwrap();
        pumice_env::write_file(&*fs, tables[0].as_ref(), &foreign, true).unwrap();
        let found = Db::open(&options, "/a").and_then(|db| {
            let found = db.get_opt(&ReadOptions::default(), &key(3)).map(|v| v.map(|v| v.to_vec()));
            db.close().unwrap();
            found
        });
        match verify {
            true => assert!(found.unwrap_err().is_corruption()),
            false => assert_eq!(found.unwrap().unwrap(), b"b"),
        }
    }
}

#[test]
fn recovery_from_an_error_is_tried_again_after_its_interval() {
    simulated(|| {
        let fs = pumice::MemFs::new(1);
        let mut options = options(&fs.shared());
        options.db.bgerror_resume_retry_interval = 30_000_000;
        let db = Db::open(&options, DIR).unwrap();
        fill(&db, 0..10, "value");
        fs.add_fault(FaultRule::always(FaultOp::Sync, "*.sst", Fault::Eio));
        db.flush_opt(&pumice::FlushOptions::default()).unwrap_err();
        sleep(Duration::from_secs(1));
        fs.clear_faults();
        sleep(Duration::from_secs(10));
        db.put_opt(&WriteOptions::default(), b"k", b"v").unwrap_err();
        sleep(Duration::from_secs(60));
        db.put_opt(&WriteOptions::default(), b"k", b"v").unwrap();
        db.close().unwrap();
    });
}

#[pumice_test_macros::test]
fn each_kind_of_memtable_holds_the_same() {
    let held = |text: &str| {
        let (_, fs) = memory();
        let mut options = options(&fs);
        options.set_from_text(text).unwrap();
        let db = Db::open(&options, DIR).unwrap();
        for n in (0..200).rev() {
            fill(&db, n..n + 1, "value");
        }
        let all = contents(&db);
        db.close().unwrap();
        (all, saved(&fs).cf.get("memtable_factory").unwrap())
    };
    let (lists, list) = held("memtable_factory=skip_list");
    let (vectors, vector) = held("memtable_factory=vector:1024");
    assert_eq!(lists, vectors);
    assert!(list.contains("SkipList") && vector.contains("Vector"), "{list}, {vector}");
}

/// Bytes and files of L1, L2 and L3 after two loads of the same keys, 1.5 MB each: tables of even
/// and of odd keys, which are compacted by themselves, one compaction at a time, so that each run
/// does the same.
fn levels_with(text: &str) -> [(u64, Vec<u64>); 3] {
    let (mut options, _) = watched(
        "level_compaction_dynamic_level_bytes=false;num_levels=4;write_buffer_size=64M;\
         disable_auto_compactions=true;level0_file_num_compaction_trigger=2;\
         max_background_compactions=1;target_file_size_base=32K;\
         max_bytes_for_level_base=64K;max_bytes_for_level_multiplier=4",
    );
    options.set_from_text(text).unwrap();
    let db = Db::open(&options, DIR).unwrap();
    let cf = db.default_column_family();
    for _ in 0..2 {
        for first in 0..2 {
            for n in (first..1500).step_by(2) {
                db.put_opt(&WriteOptions::default(), &key(n), &[b'v'; 1000]).unwrap();
            }
            flush(&db);
        }
        db.set_options_cf(cf, &[("disable_auto_compactions", "false")]).unwrap();
        db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
        db.set_options_cf(cf, &[("disable_auto_compactions", "true")]).unwrap();
    }
    let files = db.live_files_metadata();
    db.close().unwrap();
    assert!(files.iter().all(|file| file.level > 0));
    [1, 2, 3].map(|level| {
        let sizes: Vec<u64> = files.iter().filter(|f| f.level == level).map(|f| f.size).collect();
        (sizes.iter().sum(), sizes)
    })
}

#[pumice_test_macros::test]
fn levels_have_their_sizes() {
    const KIB: u64 = 1 << 10;
    let largest = |level: &(u64, Vec<u64>)| level.1.iter().copied().max().unwrap_or(0);
    // At rest no level is above its target: 64 KiB, 256 KiB, and the last one has the rest.
    let usual = levels_with("");
    let [first, second, third] = &usual;
    assert!(first.0 <= 64 * KIB && second.0 <= 256 * KIB, "{usual:?}");
    assert!(third.0 > 1000 * KIB, "{usual:?}");
    for (text, base, next) in [
        ("max_bytes_for_level_base=512K", 512, 2048),
        ("max_bytes_for_level_multiplier=30", 64, 1920),
        ("max_bytes_for_level_multiplier_additional={1:8:1:1}", 64, 2048),
    ] {
        let levels = levels_with(text);
        let [first, second, third] = &levels;
        assert!(first.0 <= base * KIB && second.0 <= next * KIB, "{text}: {levels:?}");
        // All that the first one does not hold has room in the second one.
        assert!(second.0 > 900 * KIB && third.0 == 0, "{text}: {levels:?}");
        assert!(base == 64 || first.0 > 64 * KIB, "{text}: {levels:?}");
    }
    // Files have their size, and grow from level to level if they are to.
    for text in ["target_file_size_multiplier=3", "target_file_size_base=100K"] {
        let levels = levels_with(text);
        assert!(largest(&levels[2]) > largest(third) + 10 * KIB, "{text}: {levels:?}, {usual:?}");
    }
}

#[pumice_test_macros::test]
fn automatic_compactions_can_be_switched_off() {
    let (options, _) =
        watched("disable_auto_compactions=true;level0_file_num_compaction_trigger=3");
    let db = Db::open(&options, DIR).unwrap();
    let in_level0 = |db: &Db| {
        db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
        db.live_files_metadata().iter().filter(|file| file.level == 0).count()
    };
    let another = |db: &Db| {
        fill(db, 0..10, "value");
        flush(db);
    };
    (0..5).for_each(|_| another(&db));
    assert_eq!(in_level0(&db), 5);
    let cf = db.default_column_family();
    db.set_options_cf(cf, &[("disable_auto_compactions", "false")]).unwrap();
    assert_eq!(in_level0(&db), 0);
    (0..2).for_each(|_| another(&db));
    assert_eq!(in_level0(&db), 2);
    db.set_options_cf(cf, &[("level0_file_num_compaction_trigger", "2")]).unwrap();
    assert_eq!(in_level0(&db), 0);
    db.close().unwrap();
    let again = saved(&options.db.file_system);
    assert!(!again.cf.disable_auto_compactions);
    assert_eq!(again.cf.level0_file_num_compaction_trigger, 2);
}
