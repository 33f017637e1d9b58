//! Transactions that lock.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::db::store::Store;
use crate::locks::TransactionState;
use crate::options::requests::ReadOptions;
use crate::read::entries::Cursor;
use crate::{ErrorKind, WriteBatch};

#[pumice_test_macros::test]
fn writes_take_effect_together_or_not_at_all() {
    let db = locking();
    db.put("a", "0").unwrap();
    let one = db.transaction();
    one.put("a", "1").unwrap();
    one.merge("b", "2").unwrap();
    one.delete("c").unwrap();
    one.put_entity("e", [("n", "3")]).unwrap();
    assert_eq!(one.counts(), (2, 1, 1));
    assert_eq!(one.get("a").unwrap().unwrap(), b"1");
    assert_eq!(db.get("a").unwrap().unwrap(), b"0");
    assert_eq!(one.iter().unwrap().count(), 3);
    assert_eq!(db.held_locks().len(), 4);
    one.commit().unwrap();
    assert_eq!(one.state(), TransactionState::Committed);
    assert_eq!((db.held_locks(), one.num_keys()), (Vec::new(), 0));
    assert_eq!(db.get("a").unwrap().unwrap(), b"1");
    assert_eq!(db.get("b").unwrap().unwrap(), b"2");
    assert_eq!(db.get_entity("e").unwrap().unwrap().get("n"), Some(&b"3"[..]));
    let two = db.transaction();
    two.put("a", "9").unwrap();
    drop(two);
    assert_eq!(db.held_locks(), []);
    assert_eq!(db.get("a").unwrap().unwrap(), b"1");
    let three = db.transaction();
    three.put("a", "9").unwrap();
    three.rollback().unwrap();
    assert_eq!(db.held_locks(), []);
    three.put("a", "4").unwrap();
    three.commit().unwrap();
    assert_eq!(db.get("a").unwrap().unwrap(), b"4");
}

/// RocksDB's texts for calls out of their time.
#[pumice_test_macros::test]
fn calls_out_of_time_are_refused() {
    let db = locking();
    let one = db.transaction();
    assert_eq!(text(one.rollback_to_save_point()), "NotFound: ");
    assert_eq!(text(one.pop_save_point()), "NotFound: ");
    one.put("k", "1").unwrap();
    one.commit().unwrap();
    assert_eq!(text(one.commit()), "Invalid argument: Transaction has already been committed.");
    assert_eq!(
        text(one.rollback()),
        "Invalid argument: This transaction has already been committed."
    );
    assert_eq!(
        text(one.rollback_to_save_point()),
        "Invalid argument: Transaction is beyond state for rollback."
    );
    let strict = TransactionOptions { skip_prepare: false, ..TransactionOptions::default() };
    let two = begin(&db, &strict);
    assert_eq!(text(two.commit()), "Invalid argument: Txn not prepared");
    two.rollback().unwrap();
    let range = "Not implemented: DeleteRange unsupported in WriteBatchWithIndex";
    assert_eq!(text(two.delete_range("a", "b")), range);
    assert_eq!(text(db.delete_range("a", "b")), "Not implemented: ");
    let mut batch = WriteBatch::new();
    batch.delete_range("a", "b");
    assert_eq!(text(db.write(&mut batch)), "Invalid argument: DeleteRangeCF not implemented");
    assert_eq!(text(two.write(&mut batch)), range);
    let read = ReadOptions { snapshot: Some(db.db().snapshot()), ..ReadOptions::default() };
    let family = db.default_column_family();
    assert_eq!(
        text(two.get_for_update_unvalidated(&read, family, "k", true)),
        "Invalid argument: If do_validate is false then GetForUpdate with snapshot is not defined."
    );
    two.set_snapshot_on_next_operation();
    assert_eq!(text(two.commit()), "Invalid argument: Txn not prepared");
    let three = db.transaction();
    three.set_snapshot_on_next_operation();
    let timestamp = "Invalid argument: Must set transaction commit timestamp";
    assert_eq!(text(three.commit()), timestamp);
}

/// Plain writes respect locks, single deletions in batches too.
#[pumice_test_macros::test]
fn plain_writes_wait_for_transactions() {
    let transactions =
        TransactionDbOptions { default_lock_timeout: 0, ..TransactionDbOptions::default() };
    let db = TransactionDb::open(&options(), &transactions, "/db").unwrap();
    let one = db.transaction();
    one.put("k", "1").unwrap();
    assert_eq!(text(db.put("k", "2")), TIMEOUT);
    assert_eq!(text(db.delete("k")), TIMEOUT);
    assert_eq!(text(db.single_delete("k")), TIMEOUT);
    assert_eq!(text(db.merge("k", "2")), TIMEOUT);
    for single in [false, true] {
        let mut batch = WriteBatch::new();
        batch.put("a", "2");
        if single {
            batch.single_delete("k")
        } else {
            batch.put("k", "2")
        };
        assert_eq!(text(db.write(&mut batch)), TIMEOUT);
        assert_eq!(db.held_locks().len(), 1, "what was locked before is released");
    }
    assert!(db.get("a").unwrap().is_none());
    db.put("b", "2").unwrap();
    one.commit().unwrap();
    db.put("k", "3").unwrap();
    assert_eq!(db.get("k").unwrap().unwrap(), b"3");
}

/// Shared locks, upgrades, and locks of a batch of keys.
#[pumice_test_macros::test]
fn reads_for_update_lock() {
    let db = locking();
    db.put("k", "1").unwrap();
    let family = db.default_column_family();
    let (one, two) = (begin(&db, &at_once()), begin(&db, &at_once()));
    let read = ReadOptions::default();
    for transaction in [&one, &two] {
        let value = transaction.get_for_update_cf_opt(&read, family, "k", false).unwrap();
        assert_eq!(value.unwrap(), b"1");
    }
    assert_eq!(text(one.put("k", "2")), TIMEOUT, "two share it");
    two.undo_get_for_update(family, "k");
    one.put("k", "2").unwrap();
    assert_eq!(text(two.get_for_update("k")), TIMEOUT);
    let keys = [(family, &b"j"[..]), (family, b"k")];
    let many = two.multi_get_for_update(&read, &keys);
    assert!(many.into_iter().all(|answer| text(answer) == TIMEOUT));
    one.undo_get_for_update(family, "k");
    assert_eq!(text(two.get_for_update("k")), TIMEOUT, "it is written");
    one.rollback().unwrap();
    assert_eq!(two.get_for_update("k").unwrap().unwrap(), b"1");
    let skip = TransactionOptions { skip_concurrency_control: true, ..at_once() };
    let three = begin(&db, &skip);
    three.put("k", "3").unwrap();
    assert_eq!(three.num_keys(), 0);
}

/// A rollback to a save point releases what was locked since, and nothing else.
#[pumice_test_macros::test]
fn save_points_keep_earlier_locks() {
    let db = locking();
    let family = db.default_column_family();
    let one = db.transaction();
    one.put("a", "1").unwrap();
    one.get_for_update_cf_opt(&ReadOptions::default(), family, "b", false).unwrap();
    one.set_save_point();
    one.put("a", "2").unwrap();
    one.put("b", "2").unwrap();
    one.put("c", "2").unwrap();
    one.set_save_point();
    one.put("d", "3").unwrap();
    one.pop_save_point().unwrap();
    assert_eq!(db.held_locks().len(), 4);
    one.rollback_to_save_point().unwrap();
    let held: Vec<_> = db.held_locks().into_iter().map(|lock| lock.key).collect();
    assert_eq!(held, [b"a", b"b"]);
    assert_eq!(one.counts(), (1, 0, 0));
    one.commit().unwrap();
    assert_eq!(db.get("a").unwrap().unwrap(), b"1");
    assert!(db.get("b").unwrap().is_none());
}

/// An expired transaction cannot commit; others may take its locks.
#[pumice_test_macros::test]
fn expired_transactions_end() {
    let db = locking();
    let short = TransactionOptions { expiration: 0, ..at_once() };
    let one = begin(&db, &short);
    one.put("k", "1").unwrap();
    assert_eq!(text(one.commit()), "Operation expired: ");
    let two = begin(&db, &at_once());
    two.put("k", "2").unwrap();
    assert_eq!(one.state(), TransactionState::LocksStolen);
    assert_eq!(one.commit().unwrap_err().kind(), ErrorKind::Expired);
    assert_eq!(
        text(one.rollback()),
        "Invalid argument: Two phase transaction is not in state for rollback."
    );
    drop(one);
    assert_eq!(db.held_locks().len(), 1, "the lock is the second one's");
    two.commit().unwrap();
    assert_eq!(db.get("k").unwrap().unwrap(), b"2");
}

/// A family that was dropped, one of another database, a batch above its limit: errors, and the
/// transaction goes on.
#[pumice_test_macros::test]
fn bad_requests_leave_the_transaction() {
    let db = locking();
    let other = locking();
    let family = db.create_column_family(&options().cf, "f").unwrap();
    let small = TransactionOptions { max_write_batch_size: 60, ..at_once() };
    let one = begin(&db, &small);
    one.put_cf(&family, "k", "1").unwrap();
    assert_eq!(text(one.put("k", vec![0; 60])), "Operation aborted: Memory limit reached");
    let foreign = other.default_column_family();
    assert_eq!(one.put_cf(foreign, "k", "1").unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(one.counts(), (1, 0, 0));
    db.drop_column_family(&family).unwrap();
    assert_eq!(one.put_cf(&family, "l", "1").unwrap_err().kind(), ErrorKind::ColumnFamilyDropped);
    assert_eq!(one.commit().unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(one.state(), TransactionState::Started, "it can be rolled back");
    one.rollback().unwrap();
    one.put("k", "2").unwrap();
    one.commit().unwrap();
    db.db().close().unwrap();
    let late = db.transaction();
    late.put("k", "3").unwrap();
    assert_eq!(late.commit().unwrap_err().kind(), ErrorKind::ShutdownInProgress);
}

/// A cursor of a transaction sees what is written while it is open, and bounds hold for both.
#[pumice_test_macros::test]
fn cursors_see_the_writes() {
    let db = locking();
    for key in ["a", "c", "e"] {
        db.put(key, "old").unwrap();
    }
    let one = db.transaction();
    one.put("b", "new").unwrap();
    one.delete("c").unwrap();
    let mut cursor = one.cursor().unwrap();
    cursor.seek_to_first();
    cursor.next();
    assert_eq!(cursor.key(), Some(&b"b"[..]));
    one.put("d", "new").unwrap();
    one.delete("e").unwrap();
    cursor.next();
    assert_eq!(cursor.key(), Some(&b"d"[..]));
    cursor.seek_to_first();
    let mut keys = Vec::new();
    while let Some(key) = cursor.key() {
        keys.push(key.to_vec());
        cursor.next();
    }
    assert_eq!(keys, [b"a", b"b", b"d"]);
    assert_eq!(one.range("b".."d").unwrap().count(), 1);
    one.disable_indexing();
    one.put("x", "unseen").unwrap();
    one.enable_indexing();
    assert!(one.get("x").unwrap().is_none());
    one.commit().unwrap();
    assert_eq!(db.get("x").unwrap().unwrap(), b"unseen");
}

/// Merges of what the transaction itself has written, in each state of the key, and columns of what
/// it has not committed yet.
#[pumice_test_macros::test]
fn merges_and_columns_of_own_writes() {
    let db = locking();
    db.put("base", "0").unwrap();
    db.put_entity("wide", [("", "0"), ("n", "1")]).unwrap();
    let one = db.transaction();
    let value =
        |key: &str| one.get(key).unwrap().map(|value| String::from_utf8_lossy(&value).into_owned());
    for key in ["base", "new", "wide"] {
        one.merge(key, "a").unwrap();
        one.merge(key, "b").unwrap();
    }
    assert_eq!(value("base").unwrap(), "0ab");
    assert_eq!(value("new").unwrap(), "ab");
    assert_eq!(value("wide").unwrap(), "0ab");
    assert_eq!(one.get_entity("wide").unwrap().unwrap().get("n"), Some(&b"1"[..]));
    one.put("base", "1").unwrap();
    one.merge("base", "c").unwrap();
    assert_eq!(value("base").unwrap(), "1c");
    one.delete("base").unwrap();
    assert_eq!(value("base"), None);
    one.merge("base", "d").unwrap();
    assert_eq!(value("base").unwrap(), "d");
    one.set_save_point();
    one.merge("base", "e").unwrap();
    assert_eq!(value("base").unwrap(), "de");
    one.rollback_to_save_point().unwrap();
    assert_eq!(value("base").unwrap(), "d");
    let mut cursor = one.cursor().unwrap();
    let mut shown = Vec::new();
    cursor.seek_to_first();
    while let Some(value) = cursor.value() {
        let columns = cursor.columns().unwrap().unwrap().len();
        shown.push((String::from_utf8_lossy(value.unwrap()).into_owned(), columns));
        cursor.next();
    }
    let expected = [("d", 1), ("ab", 1), ("0ab", 2)];
    assert_eq!(shown, expected.map(|(value, columns)| (value.to_string(), columns)));
    one.commit().unwrap();
    assert_eq!(db.get("base").unwrap().unwrap(), b"d");
    assert_eq!(db.get_entity("wide").unwrap().unwrap().get("n"), Some(&b"1"[..]));
}

/// One that has ended takes updates, which nothing commits, and keeps no lock once it is dropped;
/// one that two tasks use has the updates of both.
#[pumice_test_macros::test]
fn ended_and_shared_transactions() {
    let db = locking();
    let one = db.transaction();
    one.commit().unwrap();
    one.put("k", "1").unwrap();
    assert_eq!(text(one.commit()), "Invalid argument: Transaction has already been committed.");
    assert!(db.get("k").unwrap().is_none());
    drop(one);
    assert_eq!(db.held_locks(), []);
    let both = db.transaction();
    pumice_port::thread::scope(|scope| {
        for task in 0..2 {
            let both = both.clone();
            scope.spawn(move || {
                for n in 0..100 {
                    both.put(format!("{task}.{n}"), "1").unwrap();
                    assert!(both.get(format!("{task}.{n}")).unwrap().is_some());
                }
            });
        }
    });
    both.commit().unwrap();
    assert_eq!(db.iter().unwrap().count(), 200);
}

/// Code over any store runs inside a transaction.
#[pumice_test_macros::test]
fn a_transaction_is_a_store() {
    fn rename(store: &impl Store, from: &[u8], to: &[u8]) -> crate::Result<()> {
        let family = store.default_column_family();
        let value = store.get(&ReadOptions::DEFAULT, family, from)?.unwrap();
        store.put(&WriteOptions::default(), family, to, &value)?;
        store.delete(&WriteOptions::default(), family, from)
    }
    let db = locking();
    db.put("old", "1").unwrap();
    let one = db.transaction();
    rename(&one, b"old", b"new").unwrap();
    assert!(db.get("new").unwrap().is_none());
    one.commit().unwrap();
    assert_eq!(db.get("new").unwrap().unwrap(), b"1");
    assert!(db.get("old").unwrap().is_none());
}
