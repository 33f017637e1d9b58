//! Followers: what they show, when, what they keep of the leader's files, and what is refused.

mod drawn;
mod files;

use std::sync::Arc;
use std::time::Duration;

use crate::common::{DIR, contents, fill, flush, get, key, let_files_go, memory, names, options};
use pumice::{
    ColumnFamily, ColumnFamilyDescriptor, CompactRangeOptions, Db, ErrorKind, FileSystem,
    FlushOptions, MemFs, Options, ReadOptions,
};
use pumice_env::mem::{Fault, FaultOp, FaultRule};
use pumice_port::{sim, thread, time};

/// The follower's directory.
const OWN: &str = "/own";

/// Keys and values of the default column family.
type Contents = Vec<(Vec<u8>, Vec<u8>)>;

fn follow_with(options: &Options, more: &[&str]) -> pumice::Result<(Db, Vec<ColumnFamily>)> {
    let names = [&["default"], more].concat();
    let families = names.iter().map(|it| ColumnFamilyDescriptor::new(*it, options.cf.clone()));
    Db::open_as_follower(&options.db, OWN, DIR, &families.collect::<Vec<_>>())
}

fn follow(fs: &Arc<dyn FileSystem>) -> Db {
    follow_with(&options(fs), &[]).unwrap().0
}

/// A leader with tables and a log, and what of it is flushed.
fn leader(fs: &Arc<dyn FileSystem>) -> (Db, Contents) {
    let mut with = options(fs);
    with.cf.disable_auto_compactions = true;
    let leader = Db::open(&with, DIR).unwrap();
    fill(&leader, 0..50, "a");
    flush(&leader);
    fill(&leader, 20..80, "b");
    flush(&leader);
    let flushed = contents(&leader);
    fill(&leader, 60..90, "logged");
    (leader, flushed)
}

fn compact(db: &Db) {
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
}

fn log_of(fs: &Arc<dyn FileSystem>) -> String {
    String::from_utf8_lossy(&fs.read_file("/own/LOG".as_ref()).unwrap()).into_owned()
}

fn tables(fs: &Arc<dyn FileSystem>, dir: &str) -> Vec<String> {
    names(fs, dir).into_iter().filter(|name| name.ends_with(".sst")).collect()
}

#[pumice_test_macros::test]
fn it_shows_what_the_leader_has_flushed() {
    let (_, fs) = memory();
    let (leader, flushed) = leader(&fs);
    let before = names(&fs, DIR);
    let follower = follow(&fs);
    assert_eq!(contents(&follower), flushed, "not what is in its log");
    assert_eq!(follower.path(), std::path::Path::new(OWN));
    flush(&leader);
    assert_eq!(contents(&follower), flushed, "not before it catches up");
    follower.try_catch_up_with_primary().unwrap();
    assert_eq!(contents(&follower), contents(&leader));
    assert_eq!(follower.latest_sequence_number(), leader.latest_sequence_number());
    compact(&leader);
    follower.try_catch_up_with_primary().unwrap();
    assert_eq!(contents(&follower), contents(&leader));
    // No news is no error.
    follower.try_catch_up_with_primary().unwrap();
    follower.close().unwrap();
    let error = follower.try_catch_up_with_primary().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ShutdownInProgress);
    // Its directory has the tables and nothing else of the leader's; that has nothing of it.
    let own = names(&fs, OWN);
    let others: Vec<_> = own.iter().filter(|name| !name.ends_with(".sst")).collect();
    assert_eq!(others, ["IDENTITY", "LOCK", "LOG"]);
    assert!(log_of(&fs).contains("Opening the db in follower mode"));
    leader.close().unwrap();
    let strangers = names(&fs, DIR).into_iter().filter(|name| !before.contains(name));
    assert!(strangers.clone().all(|name| name.ends_with(".sst") || name.ends_with(".log")));
}

/// Waits until `micros` after `start`.
fn wait_until(start: u64, micros: u64) {
    let left = (start + micros).saturating_sub(time::now_micros());
    thread::sleep(Duration::from_micros(left));
}

/// The period is the option's, on the clock of the simulation. Plain #[test]: a simulation is a
/// runtime of its own, as below.
#[test]
fn it_catches_up_periodically() {
    let (report, outcome) = sim::run(&sim::Options::new(1), || {
        let fs = MemFs::new(1).shared();
        let (leader, _) = leader(&fs);
        let mut with = options(&fs);
        assert_eq!(with.db.follower_refresh_catchup_period_ms, 10_000);
        for millis in [10_000, 1000] {
            with.db.follower_refresh_catchup_period_ms = millis;
            let (follower, _) = follow_with(&with, &[]).unwrap();
            let start = time::now_micros();
            let before = contents(&follower);
            fill(&leader, 100..110, &millis.to_string());
            flush(&leader);
            wait_until(start, millis * 900);
            assert_eq!(contents(&follower), before, "{millis}");
            wait_until(start, millis * 1100);
            assert_eq!(contents(&follower), contents(&leader), "{millis}");
            assert_ne!(contents(&follower), before);
            follower.close().unwrap();
            wait_until(start, millis * 5000);
            assert_eq!(log_of(&fs).matches("Successful catch up on attempt 0").count(), 1);
        }
        leader.close().unwrap();
    });
    assert!(outcome.is_ok() && report.stuck.is_none(), "{outcome:?}");
}

#[test]
fn a_catch_up_is_tried_again() {
    let (report, outcome) = sim::run(&sim::Options::new(1), || {
        let memory = MemFs::new(1);
        let fs = memory.shared();
        let (leader, flushed) = leader(&fs);
        let mut with = options(&fs);
        with.db.follower_refresh_catchup_period_ms = 1000;
        with.db.follower_catchup_retry_count = 3;
        with.db.follower_catchup_retry_wait_ms = 500;
        let (follower, _) = follow_with(&with, &[]).unwrap();
        let start = time::now_micros();
        // The leader's new table cannot be taken at first: at 1 s.
        let no_links = || FaultRule::always(FaultOp::Link, "*", Fault::Eio);
        memory.add_fault(no_links());
        flush(&leader);
        wait_until(start, 1_250_000);
        memory.clear_faults();
        assert_eq!(contents(&follower), flushed);
        wait_until(start, 1_750_000);
        assert_eq!(contents(&follower), contents(&leader));
        assert!(log_of(&fs).contains("Successful catch up on attempt 1"), "{}", log_of(&fs));
        // The third failure is the last; the next period is another catch-up.
        let before = contents(&follower);
        fill(&leader, 0..3, "later");
        flush(&leader);
        memory.add_fault(no_links());
        while !log_of(&fs).contains("Catch up unsuccessful: IO error") {
            thread::sleep(Duration::from_millis(10));
        }
        memory.clear_faults();
        let start = time::now_micros();
        wait_until(start, 800_000);
        assert_eq!(contents(&follower), before);
        wait_until(start, 1_200_000);
        assert_eq!(contents(&follower), contents(&leader));
        assert_eq!(log_of(&fs).matches("Catch up unsuccessful").count(), 1);
        follower.close().unwrap();
        // Without a try it looks at the leader only when it is asked.
        with.db.follower_catchup_retry_count = 0;
        let (follower, _) = follow_with(&with, &[]).unwrap();
        let before = contents(&follower);
        fill(&leader, 0..3, "last");
        flush(&leader);
        thread::sleep(Duration::from_secs(60));
        assert_eq!(contents(&follower), before);
        follower.try_catch_up_with_primary().unwrap();
        assert_eq!(contents(&follower), contents(&leader));
        follower.close().unwrap();
        leader.close().unwrap();
    });
    assert!(outcome.is_ok() && report.stuck.is_none(), "{outcome:?}");
}

#[pumice_test_macros::test]
fn damage_and_missing_files_are_errors_that_change_nothing() {
    let (memory, fs) = memory();
    let (leader, flushed) = leader(&fs);
    let follower = follow(&fs);
    let known = tables(&fs, DIR);
    flush(&leader);
    let new = tables(&fs, DIR).into_iter().find(|name| !known.contains(name)).unwrap();
    let new = std::path::Path::new(DIR).join(new);
    let fails = || {
        let error = follower.try_catch_up_with_primary().unwrap_err();
        assert_eq!(contents(&follower), flushed, "{error}");
        error
    };
    fs.rename(&new, "/away".as_ref()).unwrap();
    let error = fails();
    assert!(error.is_not_found() && error.to_string().contains(".sst"), "{error}");
    fs.rename("/away".as_ref(), &new).unwrap();
    let bytes = fs.read_file(&new).unwrap();
    memory.damage(&new, |bytes| bytes.truncate(bytes.len() / 2)).unwrap();
    let error = fails();
    assert!(error.is_corruption() && error.to_string().contains("size mismatch"), "{error}");
    memory.damage(&new, |found| *found = bytes).unwrap();
    let current = std::path::Path::new(DIR).join("CURRENT");
    let saved = fs.read_file(&current).unwrap();
    memory.damage(&current, |bytes| bytes[0] ^= 1).unwrap();
    assert!(fails().is_corruption());
    memory.damage(&current, |bytes| *bytes = saved).unwrap();
    follower.try_catch_up_with_primary().unwrap();
    assert_eq!(contents(&follower), contents(&leader));
    // The leader is made anew.
    leader.close().unwrap();
    drop(leader);
    let before = contents(&follower);
    Db::destroy(&options(&fs), DIR).unwrap();
    assert!(follower.try_catch_up_with_primary().unwrap_err().is_not_found());
    let other = Db::open(&options(&fs), DIR).unwrap();
    fill(&other, 0..3, "other");
    flush(&other);
    let error = follower.try_catch_up_with_primary().unwrap_err();
    assert!(error.is_corruption() && error.to_string().contains("another database"), "{error}");
    assert_eq!(contents(&follower), before, "read from its own tables");
    // What it took of the other leader is of no use to one that follows this one.
    follower.close().unwrap();
    let follower = follow(&fs);
    assert_eq!(contents(&follower), contents(&other));
    assert_eq!(tables(&fs, OWN), tables(&fs, DIR));
    other.close().unwrap();
}

#[pumice_test_macros::test]
fn what_it_cannot_do_is_refused_in_the_words_of_rocksdb() {
    let (_, fs) = memory();
    let with = options(&fs);
    let (leader, flushed) = leader(&fs);
    let follower = follow(&fs);
    let text = "Not implemented: Not supported operation in secondary mode.";
    let refused = |result: Result<(), pumice::Error>| {
        assert_eq!(result.unwrap_err().to_string(), text);
    };
    refused(follower.put("k", "v"));
    refused(follower.delete("k"));
    refused(follower.flush_opt(&FlushOptions::default()));
    refused(follower.compact_range(&CompactRangeOptions::default(), None, None));
    refused(follower.sync_wal());
    refused(follower.set_options(&[("write_buffer_size", "1000000")]));
    refused(follower.create_column_family(&with.cf, "x").map(drop));
    refused(follower.checkpoint("/copy"));
    let snapshot = ReadOptions { snapshot: Some(follower.snapshot()), ..ReadOptions::default() };
    let error = follower.get_opt(&snapshot, key(1)).unwrap_err();
    assert_eq!(error.to_string(), "Not implemented: snapshot not supported in secondary mode");
    let tailing = ReadOptions { tailing: true, ..ReadOptions::default() };
    let error = follower.cursor_opt(&tailing).map(drop).unwrap_err();
    let text = "Not implemented: tailing iterator not supported in secondary mode";
    assert_eq!(error.to_string(), text);
    assert_eq!(contents(&follower), flushed);
    // Another one in the same directory would delete its tables.
    let error = follow_with(&with, &[]).unwrap_err();
    assert!(error.to_string().contains("lock"), "{error}");
    follower.close().unwrap();
    let error = follow_with(&with, &["missing"]).unwrap_err();
    assert_eq!(error.to_string(), "Invalid argument: Column family not found: missing");
    drop(follow(&fs));
    leader.close().unwrap();
}

#[pumice_test_macros::test]
fn only_a_directory_of_its_own_will_do() {
    let (_, fs) = memory();
    let (leader, flushed) = leader(&fs);
    flush(&leader);
    let_files_go(&leader);
    let with = options(&fs);
    let families = [ColumnFamilyDescriptor::new("default", with.cf.clone())];
    let open = |own: &str| Db::open_as_follower(&with.db, own, DIR, &families).map(|it| it.0);
    let before = names(&fs, DIR);
    let fails = |own: &str, why: &str| {
        let error = open(own).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().ends_with(why), "{error}");
    };
    fails(DIR, "a follower needs a directory of its own: the leader's files are there");
    fails("/db/.", "the leader's files are there");
    let other = Db::open(&with, "/other").unwrap();
    fails("/other", "there is a database");
    other.put("a", "1").unwrap();
    other.flush().unwrap();
    other.close().unwrap();
    // What is left of a database is not a follower's either: a repair may save it.
    for name in names(&fs, "/other") {
        if ["CURRENT", "MANIFEST", ".log"].iter().any(|part| name.contains(part)) {
            fs.remove(format!("/other/{name}").as_ref()).unwrap();
        }
    }
    fails("/other", "there is a database");
    assert_eq!(tables(&fs, "/other").len(), 1);
    fs.create_dir_all("/tables".as_ref()).unwrap();
    let table = format!("/tables/{}", tables(&fs, DIR)[0]);
    fs.link(format!("{DIR}/{}", tables(&fs, DIR)[0]).as_ref(), table.as_ref()).unwrap();
    fails("/tables", "there are tables that no follower took");
    let mut missing = with.clone();
    missing.db.create_if_missing = false;
    let error = follow_with(&missing, &[]).unwrap_err();
    assert!(error.is_not_found(), "{error}");
    let nobody = Db::open_as_follower(&with.db, OWN, "/nobody", &families).unwrap_err();
    assert!(nobody.is_not_found() && nobody.to_string().contains("/nobody/CURRENT"), "{nobody}");
    // With the paths of the leader its tables are found, and none of them may be the own directory.
    let mut paths = with.clone();
    paths.db.db_paths = vec![pumice::options::DbPath::new("/fast", u64::MAX)];
    let error = Db::open_as_follower(&paths.db, "/fast", DIR, &families).unwrap_err();
    assert!(error.to_string().ends_with("the leader's files are there"), "{error}");
    assert_eq!(names(&fs, DIR), before);
    assert!(fs.exists(table.as_ref()).unwrap());
    let follower = open(OWN).unwrap();
    assert_eq!(get(&follower, &key(1)).as_deref(), Some(&b"a"[..]));
    assert_ne!(contents(&follower), flushed);
    leader.close().unwrap();
}
