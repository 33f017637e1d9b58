//! Conflicts are found wherever the newer write lies: memtable, sealed memtable, history, table.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::options::requests::{CompactRangeOptions, ReadOptions};
use crate::{Db, WriteBatch};

/// How a key gets a newer version.
const CHANGES: [&str; 6] = ["put", "delete", "single_delete", "merge", "delete_range", "entity"];

fn change(db: &Db, how: &str) {
    match how {
        "put" => db.put("k", "new"),
        "delete" => db.delete("k"),
        "single_delete" => db.single_delete("k"),
        "merge" => db.merge("k", "new"),
        "delete_range" => db.delete_range("j", "l"),
        _ => db.put_entity("k", [("n", "new")]),
    }
    .unwrap();
}

/// Puts what is in memory where it is to be found: moves of 0 to 3 steps away from the memtable.
fn bury(db: &Db, depth: usize) {
    if depth > 0 {
        db.flush().unwrap();
    }
    for n in 1..depth {
        db.put(format!("other{n}"), "x").unwrap();
        db.flush().unwrap();
    }
    if depth > 2 {
        db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    }
}

#[pumice_test_macros::test]
fn a_snapshot_finds_every_newer_write() {
    for how in CHANGES {
        for depth in 0..4 {
            for history in [0, -1] {
                let mut options = options();
                options.cf.max_write_buffer_size_to_maintain = history;
                let transactions = TransactionDbOptions::default();
                let db = TransactionDb::open(&options, &transactions, "/db").unwrap();
                db.put("k", "old").unwrap();
                let family = db.default_column_family();
                let with = TransactionOptions { set_snapshot: true, ..at_once() };
                let (one, two) = (begin(&db, &with), begin(&db, &with));
                change(db.db(), how);
                bury(db.db(), depth);
                let place = format!("{how}, {depth} deep, history {history}");
                assert_eq!(text(one.put("k", "1")), BUSY, "{place}");
                assert_eq!(text(one.get_for_update("k")), BUSY, "{place}");
                assert_eq!(db.held_locks(), [], "{place}");
                one.put("unchanged", "1").unwrap();
                one.put_untracked(family, "k", "1").unwrap();
                assert!(two.put("j", "1").is_ok() != (how == "delete_range"), "{place}");
                // A new snapshot sees the change.
                one.rollback().unwrap();
                one.set_snapshot();
                one.put("k", "2").unwrap();
                one.commit().unwrap();
                assert_eq!(db.get("k").unwrap().unwrap(), b"2");
            }
        }
    }
}

/// A put and its single deletion, both newer than a transaction's snapshot, may cancel each other
/// only as far as readers go: the transaction must learn that the key has changed.
#[pumice_test_macros::test]
fn cancelled_puts_are_still_conflicts() {
    for flush_between in [false, true] {
        let mut options = options();
        options.cf.disable_auto_compactions = true;
        // Without history only tables can tell.
        let db = Db::open(&options, "/db").unwrap();
        db.put("a", "1").unwrap();
        db.flush().unwrap();
        let boundary = db.inner().snapshot(crate::snapshot::Purpose::WriteConflicts);
        db.put("k", "1").unwrap();
        if flush_between {
            db.flush().unwrap();
        }
        db.single_delete("k").unwrap();
        db.flush().unwrap();
        db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
        assert!(db.get("k").unwrap().is_none());
        let family = &db.default_column_family().data;
        let since = boundary.sequence_number();
        let check = || super::super::validate::check_unchanged(family, b"k", since, None, true);
        assert_eq!(text(check()), BUSY, "{flush_between}");
        // Once no transaction can ask any more, the pair goes.
        drop(boundary);
        db.put("b", "1").unwrap();
        db.flush().unwrap();
        let all = CompactRangeOptions {
            bottommost_level_compaction: crate::BottommostLevelCompaction::Force,
            ..CompactRangeOptions::default()
        };
        db.compact_range(&all, None, None).unwrap();
        check().unwrap();
        assert!(db.get("k").unwrap().is_none());
    }
}

/// The snapshot of the next operation is taken when that has its lock.
#[pumice_test_macros::test]
fn the_snapshot_of_the_next_operation() {
    let db = locking();
    let one = begin(&db, &at_once());
    one.set_snapshot_on_next_operation();
    assert!(one.snapshot().is_none());
    db.put("k", "1").unwrap();
    one.get_for_update("k").unwrap();
    assert!(one.snapshot().is_some());
    db.put("l", "1").unwrap();
    assert_eq!(text(one.put("l", "2")), BUSY);
    one.clear_snapshot();
    one.put("l", "2").unwrap();
    one.commit().unwrap();
}

#[pumice_test_macros::test]
fn optimistic_commits_are_checked() {
    for policy in [OccValidationPolicy::ValidateParallel, OccValidationPolicy::ValidateSerial] {
        let transactions = OptimisticTransactionDbOptions {
            validate_policy: policy,
            ..OptimisticTransactionDbOptions::default()
        };
        let db = OptimisticTransactionDb::open(&options(), &transactions, "/db").unwrap();
        db.put("k", "0").unwrap();
        let family = db.default_column_family();
        let (one, two, three) = (db.transaction(), db.transaction(), db.transaction());
        one.put("k", "1").unwrap();
        two.get_for_update("k").unwrap();
        two.put("l", "2").unwrap();
        three.put_untracked(family, "k", "3").unwrap();
        one.commit().unwrap();
        assert_eq!(text(two.commit()), BUSY);
        assert_eq!(two.get("l").unwrap().unwrap(), b"2", "it keeps its writes");
        assert!(db.get("l").unwrap().is_none());
        three.commit().unwrap();
        assert_eq!(db.get("k").unwrap().unwrap(), b"3");
        // It can be used again after a rollback, and after a commit.
        two.rollback().unwrap();
        for n in 0..2 {
            two.put("k", [n]).unwrap();
            two.commit().unwrap();
        }
        // Plain writes are conflicts too, and a snapshot reaches further back than the first use.
        let four = db.transaction_opt(
            &WriteOptions::default(),
            &OptimisticTransactionOptions { set_snapshot: true },
        );
        db.put("m", "1").unwrap();
        four.put("m", "2").unwrap();
        assert_eq!(text(four.commit()), BUSY);
        let mut batch = WriteBatch::new();
        batch.delete_range("a", "b");
        assert_eq!(text(db.write(&mut batch)), "Not implemented: ");
        assert_eq!(text(db.delete_range("a", "b")), "Not implemented: ");
    }
}

/// Reads of a transaction go back to the snapshot of their options only.
#[pumice_test_macros::test]
fn reads_use_the_snapshot_of_their_options() {
    let db = locking();
    db.put("k", "1").unwrap();
    let with = TransactionOptions { set_snapshot: true, ..at_once() };
    let one = begin(&db, &with);
    db.put("k", "2").unwrap();
    assert_eq!(one.get("k").unwrap().unwrap(), b"2");
    let then = ReadOptions { snapshot: one.snapshot(), ..ReadOptions::default() };
    assert_eq!(one.get_opt(&then, "k").unwrap().unwrap(), b"1");
}
