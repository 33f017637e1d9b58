//! What once went wrong: versions of a key in several blocks, ranges of bare keys, logs with
//! transactions beside timestamps, operands above deletions, the history that a trim left.
#![allow(clippy::unwrap_used)]

use pumice::options::IndexType;
use pumice::{
    BottommostLevelCompaction, ColumnFamilyDescriptor, CompactRangeOptions, Db,
    GetMergeOperandsOptions, Options, ReadOptions, TransactionDb, TransactionOptions, WriteBatch,
};
use pumice_env::mem::CrashMode;

use super::{database, message, text, timed};
use crate::common::{DIR, SYNC, flush, memory};

fn at(time: u64) -> ReadOptions {
    ReadOptions { timestamp: Some(time.to_le_bytes().to_vec()), ..ReadOptions::default() }
}

fn rewrite(db: &Db) {
    let bottommost_level_compaction = BottommostLevelCompaction::Force;
    let how = CompactRangeOptions { bottommost_level_compaction, ..Default::default() };
    db.compact_range(&how, None, None).unwrap();
}

/// Options with which each entry of a table has a block of its own.
fn small_blocks(index: IndexType) -> Options {
    let mut options = timed(&memory().1);
    options.cf.table_factory.block_size = 1;
    options.cf.table_factory.metadata_block_size = 1;
    options.cf.table_factory.index_type = index;
    options
}

const INDEXES: [IndexType; 3] =
    [IndexType::BinarySearch, IndexType::TwoLevel, IndexType::BinarySearchWithFirstKey];

#[pumice_test_macros::test]
fn operands_are_merged_with_versions_in_other_blocks() {
    for index in INDEXES {
        let db = Db::open(&small_blocks(index), DIR).unwrap();
        db.at(1).put("j", "other").unwrap();
        db.at(1).put("k", "1").unwrap();
        db.at(2).merge("k", "2").unwrap();
        db.at(3).merge("k", "3").unwrap();
        db.at(1).put("l", "other").unwrap();
        for what in ["memtable", "level 0", "bottom"] {
            for (time, value) in [(1, "1"), (2, "1,2"), (3, "1,2,3"), (9, "1,2,3")] {
                assert_eq!(text(&db, time, "k").as_deref(), Some(value), "{index:?}: {what}");
                let many = db.at(time).multi_get(&["k"]).remove(0).unwrap();
                assert_eq!(many.as_deref(), Some(value.as_bytes()), "{index:?}: {what}");
            }
            let how = GetMergeOperandsOptions::at_most(9);
            let operands = db.get_merge_operands_opt(&at(3), "k", &how, &mut 0).unwrap();
            let operands: Vec<_> = operands.iter().map(|operand| operand.to_vec()).collect();
            assert_eq!(operands, [b"1", b"2", b"3"], "{index:?}: {what}");
            match what {
                "memtable" => flush(&db),
                _ => rewrite(&db),
            }
        }
        db.close().unwrap();
    }
}

#[pumice_test_macros::test]
fn a_snapshot_sees_the_version_in_the_next_block() {
    for index in INDEXES {
        let db = Db::open(&small_blocks(index), DIR).unwrap();
        db.at(1).put("k", "1").unwrap();
        let snapshot = db.snapshot();
        for time in 2..=5u64 {
            db.at(time).put("k", time.to_string()).unwrap();
        }
        db.at(1).put("l", "other").unwrap();
        for what in ["memtable", "level 0", "bottom"] {
            for time in [1, 2, 5, 9] {
                let old = db.at(time).reading(ReadOptions::at(&snapshot));
                let found = old.get("k").unwrap();
                assert_eq!(found.as_deref(), Some(&b"1"[..]), "{index:?}: {what}, {time}");
                assert_eq!(old.get("l").unwrap().as_deref(), None, "{index:?}: {what}");
                assert_eq!(text(&db, time, "k"), Some(time.min(5).to_string()), "{index:?}");
            }
            match what {
                "memtable" => flush(&db),
                _ => rewrite(&db),
            }
        }
        drop(snapshot);
        db.close().unwrap();
    }
}

/// The first key of a block may be newer than what is looked up, and still be of the same key.
#[pumice_test_macros::test]
fn gets_work_in_an_index_with_first_keys() {
    for block_size in [1, 200, 4096] {
        let mut options = small_blocks(IndexType::BinarySearchWithFirstKey);
        options.cf.table_factory.block_size = block_size;
        let db = Db::open(&options, DIR).unwrap();
        for time in 1..=4u64 {
            for key in 0..30 {
                db.at(10 * time).put(format!("k{key:02}"), format!("{key} {time}")).unwrap();
            }
        }
        flush(&db);
        for key in 0..30 {
            for time in 1..=4u64 {
                for later in [0, 5] {
                    let found = text(&db, 10 * time + later, &format!("k{key:02}"));
                    assert_eq!(found, Some(format!("{key} {time}")), "{block_size}");
                }
            }
            assert_eq!(text(&db, 9, &format!("k{key:02}")), None, "{block_size}");
        }
        db.close().unwrap();
    }
}

#[pumice_test_macros::test]
fn only_files_inside_a_range_are_deleted() {
    let (db, _) = database();
    for key in ["k1", "k5", "k9"] {
        db.at(1).put(key, "1").unwrap();
        db.at(2).put(key, "2").unwrap();
    }
    flush(&db);
    rewrite(&db);
    let all = || ["k1", "k5", "k9"].map(|key| text(&db, 1, key).is_some());
    db.delete_files_in_range(Some(b"x"), None).unwrap();
    db.delete_files_in_range(None, Some(b"a")).unwrap();
    db.delete_files_in_range(Some(b"k2"), None).unwrap();
    db.delete_files_in_range(None, Some(b"k8")).unwrap();
    db.delete_files_in_range(Some(b"a long key of many bytes"), Some(b"a long key, later"))
        .unwrap();
    db.delete_files_in_ranges(&[(Some(b"k1"), Some(b"k9"))], false).unwrap();
    assert_eq!(all(), [true; 3]);
    db.suggest_compact_range(Some(b"k2"), Some(b"k3")).unwrap();
    assert_eq!(all(), [true; 3]);
    db.delete_files_in_range(Some(b"k1"), Some(b"k9")).unwrap();
    assert_eq!(all(), [false; 3]);
}

#[pumice_test_macros::test]
fn a_log_with_transactions_of_a_plain_family_is_opened() {
    let (disk, fs) = memory();
    let mut options = timed(&fs);
    options.db.create_missing_column_families = true;
    let families = [("default", Default::default()), ("timed", options.cf.clone())];
    let families = families.map(|(name, cf)| ColumnFamilyDescriptor::new(name, cf));
    let how = Default::default();
    let (db, handles) = TransactionDb::open_cf(&options.db, &how, DIR, &families).unwrap();
    db.db().at(1).in_cf(&handles[1]).put("k", "1").unwrap();
    let prepared = |name: &str| {
        let transaction = db.transaction_opt(&SYNC, &TransactionOptions::default());
        transaction.set_name(name).unwrap();
        transaction.put(name, "v").unwrap();
        transaction.prepare().unwrap();
        transaction
    };
    let (committed, waiting) = (prepared("committed"), prepared("waiting"));
    committed.commit().unwrap();
    let again = pumice::DbOptions {
        file_system: disk.crashed_copy(1, CrashMode::UNSYNCED).shared(),
        ..options.db.clone()
    };
    let (after, handles) = TransactionDb::open_cf(&again, &how, DIR, &families).unwrap();
    assert_eq!(after.get("committed").unwrap().as_deref(), Some(&b"v"[..]));
    let names: Vec<_> = after.prepared_transactions().iter().map(|t| t.name()).collect();
    assert_eq!(names, [b"waiting"]);
    let found = after.db().at(1).in_cf(&handles[1]).get("k").unwrap();
    assert_eq!(found.as_deref(), Some(&b"1"[..]));
    waiting.rollback().unwrap();
}

#[pumice_test_macros::test]
fn an_operand_above_a_deletion_of_its_time_is_flushed() {
    let (db, _) = database();
    db.at(4).put("k", "4").unwrap();
    db.at(5).delete("k").unwrap();
    db.at(5).merge("k", "x").unwrap();
    db.at(5).merge("k", "y").unwrap();
    for what in ["memtable", "level 0", "bottom", "below the low"] {
        assert_eq!(text(&db, 5, "k").as_deref(), Some("x,y"), "{what}");
        match what {
            "memtable" => flush(&db),
            "level 0" => rewrite(&db),
            _ => {
                db.increase_full_history_ts_low(db.default_column_family(), 5).unwrap();
                rewrite(&db);
            }
        }
    }
    assert_eq!(text(&db, 9, "k").as_deref(), Some("x,y"));
}

#[pumice_test_macros::test]
fn a_range_with_ends_has_all_versions_of_its_keys() {
    let (db, _) = database();
    for key in ["a", "b", "c"] {
        db.at(1).put(key, "1").unwrap();
        db.at(2).put(key, "2").unwrap();
    }
    let start = Some(1u64.to_le_bytes().to_vec());
    let versions =
        || db.at(9).reading(ReadOptions { iter_start_ts: start.clone(), ..Default::default() });
    let keys = |rows: &mut dyn Iterator<Item = pumice::Result<(Vec<u8>, Vec<u8>)>>| {
        let key = |row: pumice::Result<(Vec<u8>, Vec<u8>)>| {
            let (key, value) = row.unwrap();
            assert_eq!(
                key[1..9],
                value[0].wrapping_sub(b'0').to_le_bytes().repeat(8)[..1]
                    .iter()
                    .copied()
                    .chain([0; 7])
                    .collect::<Vec<_>>()[..]
            );
            format!("{}{}", char::from(key[0]), char::from(value[0]))
        };
        rows.map(key).collect::<Vec<_>>()
    };
    use std::ops::Bound::{Excluded, Included, Unbounded};
    for (from, to, expected) in [
        (Included("a"), Excluded("c"), &["a2", "a1", "b2", "b1"][..]),
        (Included("a"), Included("b"), &["a2", "a1", "b2", "b1"]),
        (Excluded("a"), Included("b"), &["b2", "b1"]),
        (Excluded("a"), Unbounded, &["b2", "b1", "c2", "c1"]),
        (Unbounded, Excluded("b"), &["a2", "a1"]),
        (Excluded("a"), Excluded("b"), &[]),
        (Included("b"), Unbounded, &["b2", "b1", "c2", "c1"]),
        (Unbounded, Unbounded, &["a2", "a1", "b2", "b1", "c2", "c1"]),
    ] {
        let range = || versions().range((from, to)).unwrap();
        assert_eq!(keys(&mut range()), expected, "{from:?} {to:?}");
        let back: Vec<_> = expected.iter().rev().copied().collect();
        assert_eq!(keys(&mut range().rev()), back, "{from:?} {to:?}");
        // From both ends in turn.
        let (mut both, mut ends) = (range(), (Vec::new(), Vec::new()));
        while let Some(row) = both.next() {
            ends.0.extend(keys(&mut std::iter::once(row)));
            let Some(row) = both.next_back() else { break };
            ends.1.extend(keys(&mut std::iter::once(row)));
        }
        ends.0.extend(ends.1.into_iter().rev());
        assert_eq!(ends.0, expected, "{from:?} {to:?}");
    }
    assert_eq!(db.at(9).range("a".."c").unwrap().filter(|row| row.is_ok()).count(), 2);
}

#[pumice_test_macros::test]
fn operands_below_the_low_are_not_read() {
    let (db, _) = database();
    db.at(1).put("k", "1").unwrap();
    db.at(6).merge("k", "6").unwrap();
    db.increase_full_history_ts_low(db.default_column_family(), 5).unwrap();
    let read = |time| {
        let how = GetMergeOperandsOptions::at_most(9);
        db.get_merge_operands_opt(&at(time), "k", &how, &mut 0)
    };
    let early = message(read(4));
    assert_eq!(early, message(db.at(4).get("k")));
    assert!(early.contains("smaller than full_history_ts_low"), "{early}");
    assert_eq!((read(5).unwrap().len(), read(6).unwrap().len()), (1, 2));
}

/// Automatic compactions wait for the trim, and run again afterwards.
#[pumice_test_macros::test]
fn a_trim_holds_automatic_compactions_off() {
    let mut options = timed(&memory().1);
    options.cf.level0_file_num_compaction_trigger = 2;
    options.cf.disable_auto_compactions = true;
    let db = Db::open(&options, DIR).unwrap();
    for time in 1..=9 {
        db.at(time).put("k", time.to_string()).unwrap();
        flush(&db);
    }
    db.close().unwrap();
    for disabled in [false, true] {
        options.cf.disable_auto_compactions = disabled;
        let families = [ColumnFamilyDescriptor::new("default", options.cf.clone())];
        let (db, handles) = Db::open_and_trim_history(&options.db, DIR, &families, 6).unwrap();
        let now = db.column_family_options(&handles[0]).unwrap();
        assert_eq!(now.disable_auto_compactions, disabled);
        assert_eq!(text(&db, u64::MAX, "k").as_deref(), Some("6"));
        db.close().unwrap();
    }
}

/// Keys of a wire form are whole; those that are added to it by number are not for that.
#[pumice_test_macros::test]
fn a_wire_form_does_not_vouch_for_other_keys() {
    let (db, _) = database();
    let mut stamped = WriteBatch::new();
    stamped.put_cf_with_ts(0, "k", 1u64.to_le_bytes(), "1");
    let wire = || WriteBatch::from_data(stamped.data()).unwrap();
    let mut behind = wire();
    behind.put_cf(0, "user12345678", "v");
    let mut before = WriteBatch::new();
    before.put_cf(0, "user12345678", "v");
    before.append(&wire());
    for mut refused in [behind, before] {
        assert!(message(db.write(&mut refused)).contains("that enables timestamp"));
    }
    let mut whole = wire();
    whole.put_cf_with_ts(0, "k", 2u64.to_le_bytes(), "2");
    whole.append(&wire());
    db.write(&mut whole).unwrap();
    assert_eq!(
        (text(&db, 1, "k").as_deref(), text(&db, 2, "k").as_deref()),
        (Some("1"), Some("2"))
    );
}

/// Operands, which are not shown among versions, are no obstacle beyond the bounds.
#[pumice_test_macros::test]
fn versions_beside_operands_are_shown() {
    let (db, _) = database();
    db.at(1).put("a", "a1").unwrap();
    db.at(2).merge("m", "m2").unwrap();
    db.at(3).put("z", "z3").unwrap();
    let within = |lower: Option<&str>, upper: Option<&str>| {
        let bytes = |key: &str| key.as_bytes().to_vec();
        let options = pumice::ReadOptions {
            iter_start_ts: Some(vec![0; 8]),
            iterate_lower_bound: lower.map(bytes),
            iterate_upper_bound: upper.map(bytes),
            ..db.at(9).read_options()
        };
        db.cursor_opt(&options).unwrap()
    };
    let mut cursor = within(None, Some("b"));
    cursor.seek_to_first();
    assert_eq!(cursor.value(), Some(&b"a1"[..]));
    cursor.next();
    assert!(!cursor.valid() && cursor.status().is_ok());
    let mut cursor = within(Some("n"), None);
    cursor.seek_to_last();
    assert_eq!(cursor.value(), Some(&b"z3"[..]));
    cursor.prev();
    assert!(!cursor.valid() && cursor.status().is_ok());
    for backward in [false, true] {
        let mut cursor = within(None, None);
        match backward {
            true => cursor.seek_to_last(),
            false => cursor.seek_to_first(),
        }
        assert!(cursor.valid());
        if backward {
            cursor.prev()
        } else {
            cursor.next()
        }
        let status = message(cursor.status());
        assert!(!cursor.valid() && status.contains("merge operands"), "{status}");
    }
}
