//! The low of the history: what it lets go, what it refuses, that it lasts.
#![allow(clippy::unwrap_used)]

use pumice::{BottommostLevelCompaction, CompactRangeOptions, Db, WaitForCompactOptions};

use super::{database, message, text};
use crate::common::{DIR, flush};

/// All versions up to `time` that are there, at or after `from`.
fn versions(db: &Db, from: u64, time: u64) -> Vec<(String, u64)> {
    let mut cursor = db.at(time).versions_since(from).unwrap();
    let mut found = Vec::new();
    cursor.seek_to_first();
    while let Some(key) = cursor.key() {
        let user = String::from_utf8(key[..key.len() - 16].to_vec()).unwrap();
        let time = cursor.timestamp().unwrap().try_into().unwrap();
        found.push((user, u64::from_le_bytes(time)));
        cursor.next();
    }
    cursor.status().unwrap();
    found
}

fn rewrite(db: &Db, low: Option<u64>) {
    let options = CompactRangeOptions {
        full_history_ts_low: low.map(|low| low.to_le_bytes().to_vec()),
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    db.compact_range(&options, None, None).unwrap();
}

#[pumice_test_macros::test]
fn without_a_low_nothing_goes() {
    let (db, _) = database();
    for time in 1..=5 {
        db.at(time).put("k", time.to_string()).unwrap();
        flush(&db);
    }
    db.at(6).delete("k").unwrap();
    rewrite(&db, None);
    assert_eq!(versions(&db, 0, 9).len(), 6);
    assert_eq!(db.full_history_ts_low(db.default_column_family()).unwrap(), None);
}

/// What keeps its sequence number, since readers may ask for its time, is no reason to write its
/// file again when a snapshot goes.
#[pumice_test_macros::test]
fn files_with_history_are_left_alone() {
    let (db, _) = database();
    for time in 1..=3 {
        db.at(time).put("k", time.to_string()).unwrap();
    }
    flush(&db);
    rewrite(&db, None);
    let number = |db: &Db| db.live_files_metadata()[0].file_number;
    let before = number(&db);
    drop(db.snapshot());
    db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
    assert_eq!((number(&db), versions(&db, 0, 9).len()), (before, 3));
    db.increase_full_history_ts_low(db.default_column_family(), 9u64).unwrap();
    drop(db.snapshot());
    db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
    assert_eq!(db.at(9).get("k").unwrap().as_deref(), Some(&b"3"[..]));
}

#[pumice_test_macros::test]
fn below_the_low_the_newest_version_stays_and_loses_its_time() {
    let (db, options) = database();
    let family = db.default_column_family().clone();
    for time in 1..=6 {
        db.at(time).put("k", time.to_string()).unwrap();
        db.at(time).put(format!("only{time}"), "v").unwrap();
    }
    db.at(2).put("gone", "v").unwrap();
    db.at(3).delete("gone").unwrap();
    db.at(5).delete("kept").unwrap();
    rewrite(&db, Some(4));
    let low = 4u64.to_le_bytes().to_vec();
    assert_eq!(db.full_history_ts_low(&family).unwrap(), Some(low.clone()));
    for time in 4..=6 {
        assert_eq!(text(&db, time, "k"), Some(time.to_string()));
    }
    let left = versions(&db, 0, 9);
    let of = |key: &str| left.iter().filter(|v| v.0 == key).map(|v| v.1).collect::<Vec<_>>();
    assert_eq!(of("k"), [6, 5, 4, 0]);
    assert_eq!((of("only2"), of("only5")), (vec![0], vec![5]));
    assert_eq!((of("gone"), of("kept")), (vec![], vec![5]));
    let early = message(db.at(3).get("k"));
    assert_eq!(
        early,
        "Invalid argument: Read timestamp: 3 is smaller than full_history_ts_low: 4\n"
    );
    assert_eq!(message(db.at(3).cursor()), early);
    let lower = message(db.increase_full_history_ts_low(&family, 2));
    assert_eq!(
        lower,
        "Invalid argument: Current full_history_ts_low: 4 is higher than provided ts: 2\n"
    );
    db.increase_full_history_ts_low(&family, 4).unwrap();
    let size = message(db.increase_full_history_ts_low(&family, vec![1]));
    assert_eq!(size, "Invalid argument: ts_low size mismatch");
    db.close().unwrap();
    // It lasts, also in a MANIFEST that is written again.
    for _ in 0..2 {
        let db = Db::open(&options, DIR).unwrap();
        assert_eq!(db.full_history_ts_low(db.default_column_family()).unwrap(), Some(low.clone()));
        assert_eq!(message(db.at(3).get("k")), early);
        assert_eq!(text(&db, 4, "only2").as_deref(), Some("v"));
        db.close().unwrap();
    }
}

#[pumice_test_macros::test]
fn a_snapshot_keeps_what_it_sees_below_the_low() {
    let (db, _) = database();
    db.at(1).put("k", "1").unwrap();
    let snapshot = db.snapshot();
    db.at(2).put("k", "2").unwrap();
    db.at(3).delete("k").unwrap();
    rewrite(&db, Some(9));
    let old = pumice::ReadOptions::at(&snapshot);
    let old = db.at(9).reading(old).get("k").unwrap();
    assert_eq!(old.as_deref(), Some(&b"1"[..]));
    assert_eq!(text(&db, 9, "k"), None);
    drop(snapshot);
    rewrite(&db, None);
    assert_eq!(versions(&db, 0, 9), []);
}

#[pumice_test_macros::test]
fn single_deletions_and_operands_keep_what_times_above_the_low_need() {
    let (db, _) = database();
    db.at(1).put("s", "1").unwrap();
    db.at(4).single_delete("s").unwrap();
    db.at(1).put("m", "1").unwrap();
    for time in 2..=6 {
        db.at(time).merge("m", time.to_string()).unwrap();
        flush(&db);
    }
    rewrite(&db, Some(3));
    assert_eq!((text(&db, 3, "s").as_deref(), text(&db, 4, "s")), (Some("1"), None));
    for (time, value) in [(3, "1,2,3"), (4, "1,2,3,4"), (6, "1,2,3,4,5,6")] {
        assert_eq!(text(&db, time, "m").as_deref(), Some(value), "{time}");
        let rows: Vec<_> = db.at(time).range("m"..="m").unwrap().map(|r| r.unwrap().1).collect();
        assert_eq!(rows, [value.as_bytes()]);
    }
    rewrite(&db, Some(9));
    assert_eq!(text(&db, 9, "s"), None);
    assert_eq!(text(&db, 9, "m").as_deref(), Some("1,2,3,4,5,6"));
}

/// All versions of a key are in one file of a level, however small files are.
#[pumice_test_macros::test]
fn files_are_not_cut_between_versions() {
    let mut options = super::timed(&crate::common::memory().1);
    options.cf.target_file_size_base = 2000;
    options.db.max_subcompactions = 4;
    let db = Db::open(&options, DIR).unwrap();
    for time in 1..=50u64 {
        for key in 0..20 {
            db.at(time).put(format!("k{key:02}"), format!("{time:040}")).unwrap();
        }
        if time % 10 == 0 {
            flush(&db);
        }
    }
    rewrite(&db, None);
    let files = db.live_files_metadata();
    assert!(files.len() > 5, "{}", files.len());
    let mut ends: Vec<_> =
        files.iter().map(|f| (&f.smallest_key[..3], &f.largest_key[..3])).collect();
    ends.sort();
    assert!(ends.windows(2).all(|pair| pair[0].1 < pair[1].0), "{ends:?}");
    for key in 0..20 {
        for time in [1, 25, 50] {
            assert_eq!(text(&db, time, &format!("k{key:02}")), Some(format!("{time:040}")));
        }
    }
}
