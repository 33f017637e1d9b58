//! Deletions of ranges of keys at a time: in batches, memtables, tables and files from outside, and
//! what compactions make of them.
#![allow(clippy::unwrap_used)]

use pumice::{
    BottommostLevelCompaction, ColumnFamilyDescriptor, CompactRangeOptions, Db,
    IngestExternalFileOptions, ReadOptions, SstFileWriter, WriteBatch,
};

use super::{database, message, text};
use crate::common::{DIR, flush};

fn bytes(time: u64) -> Vec<u8> {
    time.to_le_bytes().to_vec()
}

fn rewrite(db: &Db, low: Option<u64>) {
    let options = CompactRangeOptions {
        full_history_ts_low: low.map(bytes),
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    db.compact_range(&options, None, None).unwrap();
}

fn keys(db: &Db, time: u64) -> Vec<String> {
    let rows = db.at(time).range(..).unwrap();
    rows.map(|row| String::from_utf8(row.unwrap().0.to_vec()).unwrap()).collect()
}

fn range_deletions(db: &Db) -> u64 {
    let text = db.property("rocksdb.aggregated-table-properties").unwrap();
    let (_, count) = text.split_once("# range deletions=").unwrap();
    count.split(';').next().unwrap().parse().unwrap()
}

#[pumice_test_macros::test]
fn a_range_is_gone_from_its_time_on() {
    let (db, options) = database();
    for key in ["a", "b", "c", "d"] {
        db.at(1).put(key, "1").unwrap();
    }
    db.at(3).delete_range("b", "d").unwrap();
    db.at(4).put("b", "4").unwrap();
    db.at(5).delete_range("x", "x").unwrap();
    let early = message(db.at(5).delete_range("b", "a"));
    assert_eq!(early, "Invalid argument: end key comes before start key");
    for round in 0..4 {
        assert_eq!(keys(&db, 2), ["a", "b", "c", "d"], "{round}");
        assert_eq!(keys(&db, 3), ["a", "d"], "{round}");
        assert_eq!(keys(&db, 4), ["a", "b", "d"], "{round}");
        assert_eq!((text(&db, 2, "c").as_deref(), text(&db, 3, "c")), (Some("1"), None));
        assert_eq!(db.at(3).multi_get(&["b"])[0].as_ref().unwrap().as_deref(), None);
        let blind = ReadOptions { ignore_range_deletions: true, ..ReadOptions::default() };
        assert!(db.at(9).reading(blind.clone()).get("c").unwrap().is_some());
        assert_eq!(db.at(9).reading(blind).range(..).unwrap().count(), 4);
        let mut back = db.at(4).cursor().unwrap();
        back.seek_for_prev("c");
        assert_eq!(back.key(), Some(&b"b"[..]));
        // Where versions are shown, a range hides what was written before it.
        let mut versions = db.at(9).versions_since(1).unwrap();
        versions.seek_to_first();
        let shown = std::iter::from_fn(|| {
            let key = versions.key()?[0];
            versions.next();
            Some(key)
        });
        assert_eq!(shown.collect::<Vec<_>>(), b"abd");
        match round {
            0 => flush(&db),
            1 => rewrite(&db, None),
            _ => {}
        }
    }
    db.close().unwrap();
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!((keys(&db, 2).len(), keys(&db, 3).len()), (4, 2));
}

#[pumice_test_macros::test]
fn a_batch_gets_the_times_of_its_ranges_like_those_of_its_keys() {
    let (db, _) = database();
    let cf = db.default_column_family();
    db.at(1).put("k", "1").unwrap();
    let mut batch = WriteBatch::new();
    batch.delete_range_cf(cf, "a", "z");
    batch.put_cf(cf, "m", "new");
    assert!(batch.needs_timestamps());
    let unset = message(db.write(&mut batch));
    assert_eq!(unset, "Invalid argument: write batch must have timestamp(s) set");
    db.at(5).write(&mut batch).unwrap();
    assert_eq!((keys(&db, 4), keys(&db, 5)), (vec!["k".into()], vec!["m".into()]));

    let mut batch = WriteBatch::new();
    batch.delete_range_cf_with_ts(cf, "a", "z", [1]);
    let size = message(db.write(&mut batch));
    assert_eq!(size, "Invalid argument: Timestamp sizes mismatch: expect 8, 1 given");
    let mut batch = WriteBatch::new();
    batch.delete_range("a key without a time", "b key without a time");
    assert!(message(db.write(&mut batch)).contains("cannot call this method on column family"));
    let plain = db.create_cf("plain", &Default::default()).unwrap();
    let mut batch = WriteBatch::new();
    batch.delete_range_cf_with_ts(&plain, "a", "z", bytes(1));
    assert!(message(db.write(&mut batch)).contains("does not enable timestamp"));
}

/// The newest deletion below the low is all that a compaction leaves of them, and in the last level
/// nothing is.
#[pumice_test_macros::test]
fn history_below_the_low_goes_with_what_it_hides() {
    let (db, _) = database();
    let cf = db.default_column_family().clone();
    db.at(1).put("k", "1").unwrap();
    let snapshot = db.snapshot();
    for time in 2..=5 {
        db.at(time).delete_range("a", "z").unwrap();
        db.at(time).put("k", time.to_string()).unwrap();
        flush(&db);
    }
    rewrite(&db, None);
    assert_eq!(range_deletions(&db), 4);
    db.increase_full_history_ts_low(&cf, 4u64).unwrap();
    rewrite(&db, None);
    assert_eq!(range_deletions(&db), 3, "those at and above the low, and one below it");
    let old = ReadOptions::at(&snapshot);
    assert_eq!(db.at(9).reading(old).get("k").unwrap().as_deref(), Some(&b"1"[..]));
    for time in 4..=5 {
        assert_eq!(text(&db, time, "k"), Some(time.to_string()));
    }
    drop(snapshot);
    rewrite(&db, Some(4));
    assert_eq!(range_deletions(&db), 2);
    rewrite(&db, Some(9));
    assert_eq!(range_deletions(&db), 0);
    assert_eq!(keys(&db, 9), ["k"]);
}

/// A range over many small files is cut between keys, whatever their times.
#[pumice_test_macros::test]
fn ranges_are_cut_between_files() {
    let mut options = super::timed(&crate::common::memory().1);
    options.cf.target_file_size_base = 1000;
    options.db.max_subcompactions = 4;
    let db = Db::open(&options, DIR).unwrap();
    let key = |n: u64| format!("k{n:03}");
    for time in 1..=30u64 {
        for n in 0..20 {
            db.at(time).put(key(n * 5), format!("{time:040}")).unwrap();
        }
        if time % 10 == 0 {
            db.at(time).delete_range(key(time), key(time + 40)).unwrap();
            flush(&db);
        }
    }
    for round in 0..3 {
        for time in 1..=31u64 {
            let deleted = |n: u64| time % 10 == 0 && (time..time + 40).contains(&(n * 5));
            let left = (0..20).filter(|n| !deleted(*n)).map(|n| key(n * 5));
            let left: Vec<_> = match time {
                // Nothing was written after the last deletion.
                31 => {
                    (0..20).filter(|n| !(30..70).contains(&(n * 5))).map(|n| key(n * 5)).collect()
                }
                _ => left.collect(),
            };
            assert_eq!(keys(&db, time), left, "{round} {time}");
            for n in 0..20 {
                assert_eq!(text(&db, time, &key(n * 5)).is_some(), left.contains(&key(n * 5)));
            }
        }
        if round == 0 {
            rewrite(&db, None);
            assert!(db.live_files_metadata().len() > 5);
        } else {
            db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
        }
    }
}

#[pumice_test_macros::test]
fn files_with_ranges_are_ingested_and_trimmed() {
    let (db, options) = database();
    for key in ["a", "m"] {
        db.at(1).put(key, "1").unwrap();
    }
    flush(&db);
    let mut writer = SstFileWriter::new(&options).unwrap();
    writer.open("/ranges.sst").unwrap();
    assert_eq!(message(writer.delete_range("a", "b")), "Invalid argument: Timestamp size mismatch");
    writer.put_with_ts("p", bytes(4), "4").unwrap();
    writer.delete_range_with_ts("n", "q", bytes(5)).unwrap();
    writer.delete_range_with_ts("r", "s", bytes(2)).unwrap();
    let info = writer.finish().unwrap();
    assert_eq!((info.num_entries, info.num_range_del_entries), (1, 2));
    let how = IngestExternalFileOptions::default();
    db.ingest_external_file(&how, &["/ranges.sst"]).unwrap();
    // The deletions hide what was there before the file, not what is in it.
    assert_eq!((text(&db, 9, "p").as_deref(), text(&db, 3, "p")), (Some("4"), None));

    let mut over = SstFileWriter::new(&options).unwrap();
    over.open("/over.sst").unwrap();
    over.delete_range_with_ts("l", "n", bytes(9)).unwrap();
    over.finish().unwrap();
    let shared = message(db.ingest_external_file(&how, &["/over.sst"]));
    assert!(shared.contains("does not overlap with key range"), "{shared}");

    db.at(6).delete_range("a", "z").unwrap();
    assert!(keys(&db, 6).is_empty());
    db.close().unwrap();
    let families = [ColumnFamilyDescriptor::new("default", options.cf.clone())];
    let (db, _) = Db::open_and_trim_history(&options.db, DIR, &families, 5u64).unwrap();
    assert_eq!(keys(&db, 9), ["a", "m", "p"]);
}

/// A key that is written after a range, at an earlier time, is not hidden by it; nor once its own
/// version is so old that it loses its time.
#[pumice_test_macros::test]
fn a_version_above_a_range_of_a_later_time_stays_above_it() {
    let (db, _) = database();
    db.at(20).delete_range("a", "z").unwrap();
    db.at(5).put("k", "v").unwrap();
    flush(&db);
    for low in [None, Some(10), Some(10)] {
        rewrite(&db, low);
        assert_eq!((text(&db, 25, "k").as_deref(), keys(&db, 25)), (Some("v"), vec!["k".into()]));
    }
    rewrite(&db, Some(30));
    assert_eq!((text(&db, 35, "k").as_deref(), keys(&db, 35)), (Some("v"), vec!["k".into()]));
}
