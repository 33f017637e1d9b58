//! Repair without a MANIFEST of families whose files have both forms of their keys, with timestamps
//! and without: which form logs and blob files have, and what is refused since nothing says it.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pumice::{Comparator, Db, FileSystem, MemFs, Options, RepairOutcome};

use super::{message, text, timed, unkept};
use crate::common::{DIR, SYNC, flush, memory};

fn plain(fs: &Arc<dyn FileSystem>) -> Options {
    let mut options = timed(fs);
    options.cf.comparator = Comparator::Bytewise;
    options
}

fn options(fs: &Arc<dyn FileSystem>, is_timed: bool) -> Options {
    if is_timed { unkept(fs) } else { plain(fs) }
}

fn names(fs: &Arc<dyn FileSystem>, part: &str) -> Vec<PathBuf> {
    let names = crate::common::names(fs, DIR);
    let names = names.into_iter().filter(|name| name.contains(part));
    names.map(|name| Path::new(DIR).join(name)).collect()
}

fn lose_manifest(fs: &Arc<dyn FileSystem>) {
    for path in names(fs, "MANIFEST-").into_iter().chain(names(fs, "CURRENT")) {
        fs.remove(&path).unwrap();
    }
}

fn bytes(fs: &Arc<dyn FileSystem>, path: &Path) -> Vec<u8> {
    let mut bytes = vec![0; fs.file_size(path).unwrap() as usize];
    fs.open_random(path).unwrap().read_at(0, &mut bytes).unwrap();
    bytes
}

fn put(db: &Db, is_timed: bool, key: &str, value: &str) {
    match is_timed {
        true => db.at(7).writing(SYNC).put(key, value).unwrap(),
        false => db.put_opt(&SYNC, key, value).unwrap(),
    }
}

fn value(db: &Db, is_timed: bool, key: &str) -> Option<String> {
    match is_timed {
        true => text(db, 9, key),
        false => db.get(key).unwrap().map(|value| String::from_utf8(value.to_vec()).unwrap()),
    }
}

/// A database whose last form is the other one, with a log of this one that was not deleted after
/// it had been recovered. Also returns that log's path.
fn with_old_log(is_timed: bool) -> (MemFs, Arc<dyn FileSystem>, PathBuf) {
    let (mem, fs) = memory();
    let db = Db::open(&options(&fs, is_timed), DIR).unwrap();
    put(&db, is_timed, "customer-0", "0");
    flush(&db);
    put(&db, is_timed, "customer-1", "1");
    // The rest of its block goes with a damaged record.
    put(&db, is_timed, "long", &"v".repeat(40_000));
    put(&db, is_timed, "customer-2", "2");
    put(&db, is_timed, "longer", &"v".repeat(40_000));
    put(&db, is_timed, "customer-5", "5");
    db.close().unwrap();
    drop(db);
    let log = names(&fs, ".log").pop().unwrap();
    let old = bytes(&fs, &log);
    let db = Db::open(&options(&fs, !is_timed), DIR).unwrap();
    put(&db, !is_timed, "customer-3", "3");
    flush(&db);
    put(&db, !is_timed, "customer-4", "4");
    db.close().unwrap();
    drop(db);
    lose_manifest(&fs);
    pumice_env::write_file(&*fs, &log, &old, true).unwrap();
    (mem, fs, log)
}

/// The end of a log is lost: the next one, of the other form, says by itself which it has. Or a
/// part in the middle of a log: what is after it has the form of what is before it.
#[pumice_test_macros::test]
fn logs_with_other_damage_keep_their_keys() {
    for (is_timed, is_torn) in [(true, true), (false, true), (true, false), (false, false)] {
        let (mem, fs, log) = with_old_log(is_timed);
        mem.damage(&log, |bytes| match is_torn {
            true => bytes.truncate(bytes.len() - 3),
            false => bytes[33_000] ^= 1,
        })
        .unwrap();
        let options = options(&fs, !is_timed);
        let report = pumice::repair(&options, DIR).unwrap();
        assert_eq!(report.outcome, RepairOutcome::Rebuilt);
        let db = Db::open(&options, DIR).unwrap();
        for n in 0..6 {
            let found = value(&db, !is_timed, &format!("customer-{n}"));
            assert_eq!(found, Some(n.to_string()), "{is_timed} {is_torn} {n}: {report}");
        }
        let rows = match is_timed {
            true => db.range(..).unwrap().count(),
            false => db.at(9).range(..).unwrap().count(),
        };
        assert_eq!(rows, 8, "{is_timed} {is_torn}: {report}");
        db.close().unwrap();
    }
}

/// What says how long timestamps are in a log is lost, and its family had both forms: its keys are
/// not known, and nothing is changed.
#[pumice_test_macros::test]
fn a_log_that_does_not_say_its_form_is_refused() {
    for is_timed in [true, false] {
        let (mem, fs, log) = with_old_log(is_timed);
        mem.damage(&log, |bytes| bytes[0] ^= 1).unwrap();
        let before: Vec<_> =
            names(&fs, "").iter().map(|path| (path.clone(), bytes(&fs, path))).collect();
        let refused = message(pumice::repair(&options(&fs, !is_timed), DIR));
        assert!(refused.starts_with("Not implemented: "), "{refused}");
        assert!(refused.contains("column family default"), "{refused}");
        assert!(refused.contains(&*log.to_string_lossy()), "{refused}");
        for (path, before) in before {
            assert!(bytes(&fs, &path) == before, "{}", path.display());
        }
        // Without that log it goes on.
        fs.remove(&log).unwrap();
        let options = options(&fs, !is_timed);
        pumice::repair(&options, DIR).unwrap();
        let db = Db::open(&options, DIR).unwrap();
        assert_eq!(value(&db, !is_timed, "customer-3").as_deref(), Some("3"));
        assert_eq!(value(&db, !is_timed, "customer-4").as_deref(), Some("4"));
        db.close().unwrap();
    }
}

/// Records of blob files have the keys of their family: it keeps the form that these have, whatever
/// other tables were written with.
#[pumice_test_macros::test]
fn a_family_keeps_the_form_of_its_blobs() {
    for is_timed in [true, false] {
        let fs = memory().1;
        let db = Db::open(&options(&fs, !is_timed), DIR).unwrap();
        put(&db, !is_timed, "old", "table");
        flush(&db);
        db.close().unwrap();
        drop(db);
        let mut options = options(&fs, is_timed);
        super::blobs::separate(&mut options.cf, 20, false);
        let db = Db::open(&options, DIR).unwrap();
        let long = "long".repeat(20);
        put(&db, is_timed, "new", &long);
        flush(&db);
        put(&db, is_timed, "logged", &long);
        db.close().unwrap();
        drop(db);
        lose_manifest(&fs);
        let report = pumice::repair(&options, DIR).unwrap();
        assert_eq!(report.outcome, RepairOutcome::Rebuilt);
        let db = Db::open(&options, DIR).unwrap();
        for (key, expected) in [("old", "table"), ("new", &long), ("logged", &long)] {
            assert_eq!(
                value(&db, is_timed, key).as_deref(),
                Some(expected),
                "{is_timed}: {report}"
            );
        }
        db.verify_checksum().unwrap();
        db.compact_range(&Default::default(), None, None).unwrap();
        assert_eq!(value(&db, is_timed, "new"), Some(long));
        db.close().unwrap();
    }
}

/// Blob files with keys of both forms cannot all be those of one family.
#[pumice_test_macros::test]
fn blobs_of_both_forms_are_refused() {
    let fs = memory().1;
    let mut kept = Vec::new();
    for is_timed in [false, true] {
        let mut options = options(&fs, is_timed);
        super::blobs::separate(&mut options.cf, 20, false);
        let db = Db::open(&options, DIR).unwrap();
        for n in 0..if is_timed { 9 } else { 1 } {
            put(&db, is_timed, &format!("k{n}"), &"long".repeat(20));
            flush(&db);
        }
        db.close().unwrap();
        drop(db);
        for path in names(&fs, "") {
            let name = path.to_string_lossy().into_owned();
            if !is_timed && (name.ends_with(".sst") || name.ends_with(".blob")) {
                kept.push((path.clone(), bytes(&fs, &path)));
            }
            // The next database takes other numbers for these.
            if !is_timed || kept.iter().any(|(known, _)| *known == path) {
                fs.remove(&path).unwrap();
            }
        }
    }
    lose_manifest(&fs);
    for (path, bytes) in &kept {
        pumice_env::write_file(&*fs, path, bytes, true).unwrap();
    }
    let refused = message(pumice::repair(&unkept(&fs), DIR));
    assert!(refused.contains("column family default: values in blob files"), "{refused}");
}
