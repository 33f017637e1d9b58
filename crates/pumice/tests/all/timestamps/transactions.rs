//! Transactions and batches with an index over keys with timestamps. What RocksDB does with the
//! same calls is compared by `timed_transactions.c` of the C library's tests.
#![allow(clippy::unwrap_used)]

use pumice::{
    Cursor, Db, OptimisticTransactionDb, Options, Store, TransactionDb, TransactionDbOptions,
    WriteBatchWithIndex,
};

use super::{database, message, text};
use crate::common::DIR;

fn open(options: &Options) -> TransactionDb {
    TransactionDb::open(options, &TransactionDbOptions::default(), DIR).unwrap()
}

fn committed(db: &TransactionDb, time: u64, key: &str, value: &str) {
    let transaction = db.transaction();
    transaction.put(key, value).unwrap();
    transaction.set_commit_timestamp(time).unwrap();
    transaction.commit().unwrap();
}

#[pumice_test_macros::test]
fn writes_happen_at_the_time_of_the_commit() {
    let options = super::timed(&crate::common::memory().1);
    let db = open(&options);
    committed(&db, 5, "k", "5");
    let transaction = db.transaction();
    transaction.put("k", "9").unwrap();
    transaction.delete("gone").unwrap();
    assert_eq!(message(transaction.get("k")), "Invalid argument: Must specify timestamp");
    let at = db.db().at(5).read_options();
    assert_eq!(transaction.get_opt(&at, "k").unwrap().as_deref(), Some(&b"9"[..]));
    let unset = "Invalid argument: Must assign a commit timestamp";
    assert_eq!(message(transaction.commit()), unset);
    transaction.set_commit_timestamp(9).unwrap();
    assert_eq!(transaction.commit_timestamp(), Some(9));
    transaction.commit().unwrap();
    assert_eq!(text(db.db(), 8, "k").as_deref(), Some("5"));
    assert_eq!(text(db.db(), 9, "k").as_deref(), Some("9"));
    let batch = &mut pumice::WriteBatch::new();
    batch.put_cf_with_ts(db.default_column_family(), "k", 10u64.to_le_bytes(), "v");
    assert!(message(db.write(batch)).contains("must go through transaction API"));
    let batch = &mut pumice::WriteBatch::from_data(batch.data()).unwrap();
    assert!(message(db.write(batch)).contains("must go through transaction API"));
}

/// A version that is in tables alone is newer too, and so is a deletion of a range.
#[pumice_test_macros::test]
fn keys_that_changed_after_the_time_of_the_reads_are_in_conflict() {
    let options = super::timed(&crate::common::memory().1);
    let db = open(&options);
    committed(&db, 5, "k", "5");
    db.db().at(7).delete_range("m", "n").unwrap();
    for round in 0..3 {
        let late = db.transaction();
        let unset = message(late.get_for_update("k"));
        assert_eq!(unset, "Invalid argument: read_timestamp must be set for validation");
        late.set_read_timestamp_for_validation(4).unwrap();
        assert!(late.get_for_update("k").unwrap_err().is_busy(), "{round}");
        assert!(late.put("k", "v").unwrap_err().is_busy(), "{round}");
        assert!(late.put("m", "v").unwrap_err().is_busy(), "{round}");
        late.put("n", "v").unwrap();
        let lower = message(late.set_read_timestamp_for_validation(3));
        assert_eq!(lower, "Invalid argument: Cannot decrease read timestamp for validation");
        let early = message(late.set_commit_timestamp(4));
        assert!(early.contains("smaller than or equal to read timestamp"), "{early}");
        late.rollback().unwrap();
        let fine = db.transaction();
        fine.set_read_timestamp_for_validation(5).unwrap();
        let found = fine.get_for_update("k").unwrap();
        assert_eq!(found.as_deref(), Some(&b"5"[..]));
        drop((late, fine));
        match round {
            0 => db.db().flush().unwrap(),
            _ => db.db().compact_range(&Default::default(), None, None).unwrap(),
        }
    }
}

#[pumice_test_macros::test]
fn prepared_transactions_get_their_time_after_an_open() {
    let options = super::timed(&crate::common::memory().1);
    let db = open(&options);
    let transaction = db.transaction();
    transaction.set_name("t").unwrap();
    transaction.put("k", "9").unwrap();
    transaction.prepare().unwrap();
    drop(transaction);
    db.db().close().unwrap();
    for _ in 0..2 {
        let db = open(&options);
        let [found] = &db.prepared_transactions()[..] else { panic!() };
        let own = found.get_opt(&db.db().at(1).read_options(), "k").unwrap();
        assert_eq!(own.as_deref(), Some(&b"9"[..]));
        assert!(message(found.commit()).contains("Must assign a commit timestamp"));
        assert_eq!(text(db.db(), u64::MAX, "k"), None);
        db.db().close().unwrap();
    }
    let db = open(&options);
    let [found] = &db.prepared_transactions()[..] else { panic!() };
    found.set_commit_timestamp(9).unwrap();
    found.commit().unwrap();
    db.db().close().unwrap();
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!((text(&db, 8, "k"), text(&db, 9, "k").as_deref()), (None, Some("9")));
}

#[pumice_test_macros::test]
fn optimistic_transactions_have_no_times() {
    let options = super::timed(&crate::common::memory().1);
    let db = OptimisticTransactionDb::open(&options, &Default::default(), DIR).unwrap();
    let transaction = db.transaction();
    transaction.put("k", "v").unwrap();
    let none = "Not implemented: timestamp not supported";
    assert_eq!(message(transaction.set_commit_timestamp(1)), none);
    assert_eq!(message(transaction.set_read_timestamp_for_validation(1)), none);
    let unset = message(transaction.commit());
    assert_eq!(unset, "Invalid argument: write batch must have timestamp(s) set");
}

#[pumice_test_macros::test]
fn a_batch_with_an_index_is_read_without_times_and_written_with_them() {
    let (db, _) = database();
    let cf = db.default_column_family();
    db.at(1).put("a", "1").unwrap();
    db.at(1).put("b", "1").unwrap();
    let mut batch = WriteBatchWithIndex::new();
    batch.put_cf(cf, "b", "first").unwrap();
    batch.set_save_point();
    batch.put_cf(cf, "a", "taken back").unwrap();
    batch.rollback_to_save_point().unwrap();
    batch.put_cf(cf, "b", "2").unwrap();
    batch.delete_cf(cf, "a").unwrap();
    batch.merge_cf(cf, "a", "x").unwrap();
    assert!(batch.delete_range_cf(cf, "a", "b").is_err());
    let at = db.at(1).read_options();
    let mut keys = Vec::new();
    let mut records = batch.records(cf);
    records.seek_to_first();
    while let Some(entry) = records.entry() {
        keys.push(entry.unwrap().key.to_vec());
        records.next();
    }
    assert_eq!(keys, [b"a", b"a", b"b", b"b"]);
    let get = |key: &str| batch.get_from_batch_and_db(&db, &at, cf, key).unwrap();
    assert_eq!((get("a").as_deref(), get("b").as_deref()), (Some(&b"x"[..]), Some(&b"2"[..])));
    let none = batch.get_from_batch_and_db(&db, &Default::default(), cf, "a");
    assert_eq!(message(none), "Invalid argument: Must specify timestamp");
    let base = Store::cursor(&db, &at, cf).unwrap();
    let mut both = batch.iterator_with_base(cf, base, Some(&at));
    both.seek_to_last();
    assert_eq!(both.key(), Some(&b"b"[..]));
    drop(both);
    assert!(message(db.write(batch.write_batch_mut())).contains("must have timestamp(s) set"));
    batch.update_timestamps(&7u64.to_le_bytes(), |_| Some(8)).unwrap();
    db.write(batch.write_batch_mut()).unwrap();
    assert_eq!(
        (text(&db, 6, "b").as_deref(), text(&db, 7, "b").as_deref()),
        (Some("1"), Some("2"))
    );
    assert_eq!(text(&db, 7, "a").as_deref(), Some("x"));
}

#[pumice_test_macros::test]
fn times_of_another_length_are_refused() {
    struct Short;
    impl pumice::CustomComparator for Short {
        fn name(&self) -> &str {
            "short"
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
            a.cmp(b)
        }
        fn timestamp_size(&self) -> usize {
            4
        }
    }
    let mut options = super::timed(&crate::common::memory().1);
    options.cf.comparator = pumice::Comparator::Custom(std::sync::Arc::new(Short));
    let refused = message(TransactionDb::open(&options, &Default::default(), DIR));
    assert_eq!(
        refused,
        "Invalid argument: Timestamp of transaction must have 8 bytes. CF comparator short \
         timestamp size is 4 bytes"
    );
}
