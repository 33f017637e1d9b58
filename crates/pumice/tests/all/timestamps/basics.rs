//! Reads and writes at a time, alone and in batches, and what is refused.
#![allow(clippy::unwrap_used)]

use std::cmp::Ordering;

use pumice::{
    CompactRangeOptions, Comparator, CustomComparator, Db, ReadOptions, WriteBatch, WriteOptions,
};

use super::{database, message, text, timed};
use crate::common::{DIR, flush};

fn at(time: u64) -> ReadOptions {
    ReadOptions { timestamp: Some(time.to_le_bytes().to_vec()), ..ReadOptions::default() }
}

/// The state that most tests here look at.
fn history(db: &Db) {
    db.at(1).put("a", "a1").unwrap();
    db.at(2).put("b", "b2").unwrap();
    db.at(3).put("a", "a3").unwrap();
    db.at(4).delete("a").unwrap();
    db.at(5).put("c", "c5").unwrap();
    db.at(6).put("a", "a6").unwrap();
}

fn check_history(db: &Db, what: &str) {
    for (time, a) in [(1, "a1"), (2, "a1"), (3, "a3"), (4, ""), (5, ""), (6, "a6"), (9, "a6")] {
        let found = text(db, time, "a").unwrap_or_default();
        assert_eq!(found, a, "{what}: a at {time}");
    }
    assert_eq!(text(db, 0, "a"), None, "{what}");
    assert_eq!(text(db, 1, "b"), None, "{what}");
    let rows = |time| {
        let all = db.at(time).range("a"..).unwrap().map(|row| row.unwrap().1);
        all.map(|value| String::from_utf8(value).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(rows(3), ["a3", "b2"], "{what}");
    assert_eq!(rows(5), ["b2", "c5"], "{what}");
    assert_eq!(rows(6), ["a6", "b2", "c5"], "{what}");
    let back: Vec<_> = db.at(6).range(..).unwrap().rev().map(|row| row.unwrap().0).collect();
    assert_eq!(back, [b"c", b"b", b"a"], "{what}");
}

#[pumice_test_macros::test]
fn every_time_is_read_from_memory_and_from_every_level() {
    let (db, options) = database();
    history(&db);
    check_history(&db, "memtable");
    flush(&db);
    check_history(&db, "level 0");
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    check_history(&db, "bottom");
    db.close().unwrap();
    let db = Db::open(&options, DIR).unwrap();
    check_history(&db, "open again");
    db.at(7).put("a", "a7").unwrap();
    db.close().unwrap();
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!(text(&db, 7, "a").as_deref(), Some("a7"), "from the log");
    check_history_without_last(&db);
}

fn check_history_without_last(db: &Db) {
    assert_eq!(text(db, 6, "a").as_deref(), Some("a6"));
}

#[pumice_test_macros::test]
fn a_cursor_gives_keys_without_and_versions_with_their_timestamps() {
    let (db, _) = database();
    history(&db);
    flush(&db);
    db.at(7).put("b", "b7").unwrap();
    let mut cursor = db.at(6).cursor().unwrap();
    cursor.seek("a");
    assert_eq!(cursor.timestamp(), Some(&6u64.to_le_bytes()[..]));
    cursor.next();
    assert_eq!(
        (cursor.key(), cursor.timestamp()),
        (Some(&b"b"[..]), Some(&2u64.to_le_bytes()[..]))
    );
    cursor.prev();
    assert_eq!(
        (cursor.key(), cursor.timestamp()),
        (Some(&b"a"[..]), Some(&6u64.to_le_bytes()[..]))
    );
    cursor.prev();
    assert_eq!((cursor.valid(), cursor.timestamp()), (false, None));
    cursor.seek_for_prev("bb");
    assert_eq!((cursor.key(), cursor.value()), (Some(&b"b"[..]), Some(&b"b2"[..])));

    let mut versions = db.at(6).versions_since(3).unwrap();
    let mut found = Vec::new();
    versions.seek_to_first();
    while let Some((key, value)) = versions.item() {
        let (user, rest) = key.split_at(key.len() - 16);
        let (time, trailer) = rest.split_at(8);
        assert_eq!(versions.timestamp(), Some(time));
        let time = u64::from_le_bytes(time.try_into().unwrap());
        found.push((user.to_vec(), time, trailer[0], value.to_vec()));
        versions.next();
    }
    let row = |key: &str, time, tag, value: &str| (key.into(), time, tag, value.into());
    let expected =
        [row("a", 6, 1, "a6"), row("a", 4, 0x14, ""), row("a", 3, 1, "a3"), row("c", 5, 1, "c5")];
    assert_eq!(found, expected);
    versions.seek("b");
    assert_eq!(versions.key().map(|key| key[0]), Some(b'c'));
    versions.seek_for_prev("b");
    assert_eq!(versions.timestamp(), Some(&3u64.to_le_bytes()[..]));
    versions.seek_to_last();
    versions.prev();
    assert_eq!(versions.timestamp(), Some(&3u64.to_le_bytes()[..]));
}

#[pumice_test_macros::test]
fn batches_get_their_timestamps_at_once_or_one_by_one() {
    let (db, options) = database();
    let plain = pumice::ColumnFamilyOptions::default();
    let plain = db.create_cf("plain", &plain).unwrap();
    let own = db.default_column_family().clone();
    let mut batch = WriteBatch::new();
    batch.put_cf(&own, "a", "1");
    batch.put_cf(&plain, "a", "plain");
    batch.delete_cf(&own, "b");
    assert!(batch.needs_timestamps());
    let error = message(db.write(&mut batch));
    assert_eq!(error, "Invalid argument: write batch must have timestamp(s) set");
    db.at(4).write(&mut batch).unwrap();
    assert_eq!((text(&db, 4, "a").as_deref(), text(&db, 3, "a")), (Some("1"), None));
    assert_eq!(db.get_cf(&plain, "a").unwrap().as_deref(), Some(&b"plain"[..]));

    let mut batch = WriteBatch::new();
    batch.put_cf_with_ts(&own, "a", 5u64.to_le_bytes(), "5");
    batch.merge_cf_with_ts(own.id(), "a", 6u64.to_le_bytes(), "6");
    db.write(&mut batch).unwrap();
    assert_eq!(text(&db, 6, "a").as_deref(), Some("5,6"));
    assert_eq!(text(&db, 5, "a").as_deref(), Some("5"));
    // The wire form of a batch has whole keys.
    let mut copy = WriteBatch::from_data(batch.data()).unwrap();
    db.write(&mut copy).unwrap();

    for refused in [
        |batch: &mut WriteBatch| batch.put("without handle", "v"),
        |batch: &mut WriteBatch| batch.put_cf_with_ts(0, "k", [1, 2], "short"),
        |batch: &mut WriteBatch| batch.put_cf_with_ts(1, "k", 1u64.to_le_bytes(), "plain"),
        |batch: &mut WriteBatch| batch.delete_range("a", "b"),
    ] {
        let mut batch = WriteBatch::new();
        batch.put_cf_with_ts(&own, "z", 9u64.to_le_bytes(), "must not be written");
        refused(&mut batch);
        db.write(&mut batch).unwrap_err();
        // What is taken back is as if it had not been there.
        let mut batch = WriteBatch::new();
        batch.set_save_point();
        refused(&mut batch);
        batch.rollback_to_save_point().unwrap();
        batch.put_cf_with_ts(&own, "y", 9u64.to_le_bytes(), "y");
        db.write(&mut batch).unwrap();
    }
    assert_eq!((text(&db, 9, "z"), text(&db, 9, "y").as_deref()), (None, Some("y")));
    db.close().unwrap();
    let families = [("default", options.cf.clone()), ("plain", Default::default())];
    let families = families.map(|(name, cf)| pumice::ColumnFamilyDescriptor::new(name, cf));
    let (db, handles) = Db::open_cf(&options.db, DIR, &families).unwrap();
    assert_eq!(text(&db, 6, "a").as_deref(), Some("5,6,6"), "the copy was written again");
    assert_eq!(db.get_cf(&handles[1], "a").unwrap().as_deref(), Some(&b"plain"[..]));
}

#[pumice_test_macros::test]
fn calls_without_a_timestamp_or_with_a_wrong_one_are_refused_in_rocksdbs_words() {
    let (db, options) = database();
    let plain = db.create_cf("plain", &Default::default()).unwrap();
    let enables = "Invalid argument: cannot call this method on column family default that \
                   enables timestamp";
    assert_eq!(message(db.put("k", "v")), enables);
    assert_eq!(message(db.delete("k")), enables);
    assert_eq!(message(db.single_delete("k")), enables);
    assert_eq!(message(db.merge("k", "v")), enables);
    assert_eq!(message(db.delete_range("a", "b")), enables);
    assert_eq!(message(db.get("k")), enables);
    assert_eq!(message(db.cursor()), enables);
    assert_eq!(message(db.multi_get(&["k"]).remove(0)), enables);
    let not = "Invalid argument: cannot call this method on column family plain that does not \
               enable timestamp";
    assert_eq!(message(db.at(1).in_cf(&plain).put("k", "v")), not);
    assert_eq!(message(db.at(1).in_cf(&plain).get("k")), not);
    assert_eq!(message(db.at(1).in_cf(&plain).cursor()), not);
    let size = "Invalid argument: Timestamp sizes mismatch: expect 8, 3 given";
    assert_eq!(message(db.at(vec![1, 2, 3]).put("k", "v")), size);
    assert_eq!(message(db.at(vec![1, 2, 3]).get("k")), size);
    assert_eq!(message(db.at(1).versions_since(vec![1, 2, 3])), size);
    let none = "Invalid argument: Timestamp is not enabled in this column family";
    assert_eq!(message(db.full_history_ts_low(&plain)), none);
    let default = WriteOptions::default();
    db.put_cf_opt(&default, &plain, "k", "v").unwrap();
    assert_eq!(db.get_cf(&plain, "k").unwrap().as_deref(), Some(&b"v"[..]));
    let both = [(db.default_column_family(), "k"), (&plain, "k")];
    let refused = db.multi_get_cf_opt(&at(1), &both);
    assert!(refused.iter().all(|answer| answer.is_err()));
    db.close().unwrap();

    type Change = fn(&mut pumice::ColumnFamilyOptions);
    let changes: [(&str, Change); 2] = [
        ("data_block_index_type", |cf| {
            let hashed = pumice::options::DataBlockIndexType::BinaryAndHash;
            cf.table_factory.data_block_index_type = hashed;
        }),
        ("partition_filters", |cf| {
            cf.comparator = Comparator::Custom(std::sync::Arc::new(Stamped));
            super::partition(&mut cf.table_factory);
        }),
    ];
    for (name, change) in changes {
        let mut refused = timed(&options.db.file_system);
        change(&mut refused.cf);
        let error = message(Db::open(&refused, "/other"));
        assert!(error.contains(name), "{error}");
        assert!(error.contains(refused.cf.comparator.name()), "{error}");
    }
}

/// Keys end with a timestamp of one byte, newest first.
struct Stamped;

impl CustomComparator for Stamped {
    fn name(&self) -> &str {
        "test.Stamped"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let (a, b) = (a.split_last(), b.split_last());
        a.map(|(_, key)| key).cmp(&b.map(|(_, key)| key)).then(b.cmp(&a))
    }
    fn can_keys_with_different_byte_contents_be_equal(&self) -> bool {
        false
    }
    fn timestamp_size(&self) -> usize {
        1
    }
}

/// A user's own order, in another family than the default one, with filters.
#[pumice_test_macros::test]
fn an_order_of_ones_own_has_timestamps_of_its_own_length() {
    let mut options = crate::common::options(&crate::common::memory().1);
    let mut stamped = options.cf.clone();
    stamped.comparator = Comparator::Custom(std::sync::Arc::new(Stamped));
    stamped.table_factory.filter_policy = Some(pumice::FilterPolicy::bloom(10.0));
    options.db.create_missing_column_families = true;
    let families = [("default", options.cf.clone()), ("stamped", stamped)];
    let families = families.map(|(name, cf)| pumice::ColumnFamilyDescriptor::new(name, cf));
    for round in 0..3u8 {
        let (db, handles) = Db::open_cf(&options.db, DIR, &families).unwrap();
        let at = |time: u8| db.at(vec![time]).in_cf(&handles[1]);
        db.put("k", [round]).unwrap();
        for key in ["", "k", "kk", "other"] {
            at(10 * round + 1).put(key, [round]).unwrap();
        }
        at(10 * round + 5).delete("kk").unwrap();
        for flushed in [false, true] {
            for (time, value) in [(10 * round, round.checked_sub(1)), (10 * round + 9, Some(round))]
            {
                let value = value.map(|round| vec![round]);
                assert_eq!(at(time).get("k").unwrap().as_deref(), value.as_deref());
                assert_eq!(at(time).get("").unwrap().as_deref(), value.as_deref());
                assert_eq!(at(time).get("kk").unwrap(), None);
                assert_eq!(at(time).get("absent").unwrap(), None);
                let rows = at(time).range("k"..).unwrap().map(|row| row.unwrap());
                let rows: Vec<_> = rows.collect();
                let expected = value.map(|v| [(b"k".to_vec(), v.clone()), (b"other".to_vec(), v)]);
                assert_eq!(rows, expected.map(Vec::from).unwrap_or_default());
            }
            if !flushed {
                db.flush_cf(&handles[1]).unwrap();
            }
        }
        assert_eq!(at(10 * round + 3).get("kk").unwrap().as_deref(), Some(&[round][..]));
        if round == 1 {
            db.compact_range_cf(&CompactRangeOptions::default(), &handles[1], Some(b"k"), None)
                .unwrap();
        }
        db.close().unwrap();
    }
}
