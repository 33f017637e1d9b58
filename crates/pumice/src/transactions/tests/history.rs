//! Memtables that stay after their flush, for conflict checks.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::Db;

fn kept(db: &Db) -> u64 {
    db.property_int("rocksdb.num-immutable-mem-table-flushed").unwrap()
}

fn memory(db: &Db, name: &str) -> u64 {
    db.property_int(&format!("rocksdb.{name}")).unwrap()
}

#[pumice_test_macros::test]
fn flushed_memtables_stay_for_conflict_checks() {
    let db = optimistic();
    let one = db.transaction();
    one.put("k", "1").unwrap();
    let two = db.transaction();
    two.put("other", "1").unwrap();
    db.put("k", "2").unwrap();
    for n in 0..3 {
        db.put(format!("f{n}"), "x").unwrap();
        db.db().flush().unwrap();
    }
    assert_eq!(kept(db.db()), 3);
    let (all, unflushed) =
        (memory(db.db(), "size-all-mem-tables"), memory(db.db(), "cur-size-all-mem-tables"));
    assert!(all > unflushed, "{all} {unflushed}");
    assert_eq!(text(one.commit()), BUSY);
    two.commit().unwrap();
}

/// Without history, or with too little, a check that memory cannot answer asks to be repeated.
#[pumice_test_macros::test]
fn what_memory_does_not_reach_is_told() {
    let mut options = options();
    options.cf.max_write_buffer_size_to_maintain = 1;
    let transactions = OptimisticTransactionDbOptions::default();
    let db = OptimisticTransactionDb::open(&options, &transactions, "/db").unwrap();
    db.put("a", "1").unwrap();
    let one = db.transaction();
    one.put("k", "1").unwrap();
    db.put("b", "1").unwrap();
    db.db().flush().unwrap();
    assert_eq!(kept(db.db()), 0);
    let error = one.commit().unwrap_err();
    assert!(error.is_try_again());
    assert_eq!(
        error.to_string(),
        "Operation failed. Try again.: Transaction could not check for conflicts for operation at \
         SequenceNumber 1 as the MemTable only contains changes newer than SequenceNumber 2.  \
         Increasing the value of the max_write_buffer_size_to_maintain option could reduce the \
         frequency of this error."
    );
    // After a rollback it starts from now.
    one.rollback().unwrap();
    one.put("k", "2").unwrap();
    one.commit().unwrap();
}

/// The oldest memtable goes when the others have enough bytes.
#[pumice_test_macros::test]
fn history_has_a_limit() {
    let mut options = options();
    options.cf.max_write_buffer_size_to_maintain = 3 << 20;
    let transactions = TransactionDbOptions::default();
    let db = TransactionDb::open(&options, &transactions, "/db").unwrap();
    let mut most = 0;
    for n in 0..12u8 {
        db.put([n], vec![n; 1 << 20]).unwrap();
        db.db().flush().unwrap();
        most = most.max(kept(db.db()));
    }
    assert!((2..=4).contains(&most), "{most}");
    // A plain database keeps nothing.
    let plain = Db::open(&super::options(), "/plain").unwrap();
    plain.put("k", "1").unwrap();
    plain.flush().unwrap();
    assert_eq!(kept(&plain), 0);
}

/// Files that are ingested are not in memtables: a check by memory alone must not overlook them.
#[pumice_test_macros::test]
fn ingested_files_are_not_overlooked() {
    let options = options();
    let transactions = OptimisticTransactionDbOptions::default();
    let db = OptimisticTransactionDb::open(&options, &transactions, "/db").unwrap();
    db.put("k", "0").unwrap();
    let one = db.transaction();
    one.put("k", "1").unwrap();
    let mut writer = crate::SstFileWriter::new(&options).unwrap();
    writer.open("/db/new.sst").unwrap();
    writer.put("k", "2").unwrap();
    writer.finish().unwrap();
    db.db().ingest_external_file(&Default::default(), &["/db/new.sst"]).unwrap();
    assert!(one.commit().unwrap_err().is_try_again());
}
