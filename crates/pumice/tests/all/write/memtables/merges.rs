//! `max_successive_merges`: observed with an operator that returns how many operands it got.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use pumice::{
    Db, FlushOptions, MergeOperator, Options, ReadOptions, Statistics, Ticker, WriteBatch,
    WriteOptions,
};
use pumice_env::mem::{Fault, FaultOp, FaultRule};

use super::on_memory;

/// Appends operands with commas. An operand `fail` fails, `panic` panics.
#[derive(Default)]
struct Appending {
    calls: AtomicU64,
    /// Of the last call.
    operands: AtomicU64,
}

impl MergeOperator for Appending {
    fn name(&self) -> &str {
        "Appending"
    }
    fn full_merge(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.calls.fetch_add(1, Relaxed);
        self.operands.store(operands.len() as u64, Relaxed);
        if operands.contains(&&b"fail"[..]) {
            return None;
        }
        assert!(!operands.contains(&&b"panic"[..]), "an operand that panics");
        let parts: Vec<&[u8]> = base.into_iter().chain(operands.iter().copied()).collect();
        Some(parts.join(&b','))
    }
}

fn with_limit(limit: usize) -> (pumice::MemFs, Options, Arc<Appending>) {
    let (fs, mut options) = on_memory();
    let operator = Arc::new(Appending::default());
    options.cf.merge_operator = Some(Arc::clone(&operator) as Arc<_>);
    options.cf.max_successive_merges = limit;
    options.db.avoid_flush_during_recovery = true;
    (fs, options, operator)
}

fn merge(db: &Db, operand: &str) {
    db.merge_opt(&WriteOptions::default(), b"key", operand.as_bytes()).unwrap();
}

/// The value of the key, and how many operands a read has to merge for it (0: none).
fn read(db: &Db, operator: &Appending) -> (String, u64) {
    operator.operands.store(0, Relaxed);
    let value = db.get_opt(&ReadOptions::default(), b"key").unwrap();
    let text = value.map_or("-".to_string(), |value| String::from_utf8_lossy(&value).into_owned());
    (text, operator.operands.load(Relaxed))
}

#[pumice_test_macros::test]
fn every_so_many_merges_are_resolved_and_the_log_has_them_all() {
    let (_, options, operator) = with_limit(3);
    let db = Db::open(&options, "/db").unwrap();
    db.put_opt(&WriteOptions::default(), b"key", b"0").unwrap();
    let mut text = "0".to_string();
    let mut pending = Vec::new();
    let mut snapshots = vec![(db.snapshot(), text.clone())];
    for n in 1..=10 {
        merge(&db, &n.to_string());
        text.push_str(&format!(",{n}"));
        let (value, operands) = read(&db, &operator);
        assert_eq!(value, text);
        pending.push(operands);
        snapshots.push((db.snapshot(), text.clone()));
    }
    assert_eq!(pending, [1, 2, 3, 0, 1, 2, 3, 0, 1, 2]);
    for (snapshot, text) in snapshots {
        let then = ReadOptions { snapshot: Some(snapshot), ..ReadOptions::default() };
        assert_eq!(db.get_opt(&then, b"key").unwrap().as_deref(), Some(text.as_bytes()));
    }
    db.close().unwrap();
    drop(db);
    // Replay finds operands, and resolves nothing.
    let db = Db::open(&options, "/db").unwrap();
    assert_eq!(read(&db, &operator), (text, 10));
    db.flush_opt(&FlushOptions::default()).unwrap();
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn without_a_limit_nothing_is_resolved() {
    let (_, options, operator) = with_limit(0);
    let db = Db::open(&options, "/db").unwrap();
    (0..20).for_each(|n| merge(&db, &n.to_string()));
    assert_eq!(operator.calls.load(Relaxed), 0);
    assert_eq!(read(&db, &operator).1, 20);
    // The limit is that of the memtable.
    db.set_options(&[("max_successive_merges", "1")]).unwrap();
    merge(&db, "20");
    assert_eq!(read(&db, &operator).1, 21);
    db.flush_opt(&FlushOptions::default()).unwrap();
    merge(&db, "21");
    assert_eq!(read(&db, &operator).1, 22, "and what the next merge needs is in the cache now");
    merge(&db, "22");
    assert_eq!(read(&db, &operator).1, 0);
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn a_batch_counts_what_it_wrote_before() {
    let (_, options, operator) = with_limit(2);
    let db = Db::open(&options, "/db").unwrap();
    let other = db.create_column_family(&options.cf, "other").unwrap();
    let mut batch = WriteBatch::new();
    for n in 0..5 {
        batch.merge(b"key", n.to_string().as_bytes());
        batch.merge(b"key2", b"x");
        batch.merge_cf(other.id(), b"key", b"y");
    }
    db.write_opt(&WriteOptions::default(), &mut batch).unwrap();
    // 0 and 1 are operands, then comes the value 0,1,2, then again two operands.
    assert_eq!(read(&db, &operator), ("0,1,2,3,4".to_string(), 2));
    let found = db.get_cf_opt(&ReadOptions::default(), &other, b"key").unwrap();
    assert_eq!(found.as_deref(), Some(&b"y,y,y,y,y"[..]));
    // A deletion, a value or a range deletion in between starts again.
    let mut batch = WriteBatch::new();
    batch.delete(b"key");
    batch.merge(b"key", b"a");
    batch.merge(b"key", b"b");
    db.write_opt(&WriteOptions::default(), &mut batch).unwrap();
    assert_eq!(read(&db, &operator), ("a,b".to_string(), 2));
    db.delete_range_opt(&WriteOptions::default(), b"k", b"l").unwrap();
    merge(&db, "c");
    assert_eq!(read(&db, &operator), ("c".to_string(), 1), "nothing to read under the range");
    merge(&db, "d");
    assert_eq!(read(&db, &operator), ("c,d".to_string(), 0), "that has a value to merge into");
    db.put_opt(&WriteOptions::default(), b"key", b"e").unwrap();
    merge(&db, "f");
    assert_eq!(read(&db, &operator), ("e,f".to_string(), 1));
    db.close().unwrap();
}

/// A database whose key has a value in a table that is not in the block cache, opened or not.
fn with_cold_base(limit: usize, open_tables: bool) -> (pumice::MemFs, Options, Arc<Appending>, Db) {
    let (fs, mut options, operator) = with_limit(limit);
    let db = Db::open(&options, "/db").unwrap();
    db.put_opt(&WriteOptions::default(), b"key", b"base").unwrap();
    db.put_opt(&WriteOptions::default(), b"other", b"value").unwrap();
    db.flush_opt(&FlushOptions::default()).unwrap();
    db.close().unwrap();
    drop(db);
    options.cf.table_factory.block_cache = None;
    options.db.statistics = Some(Arc::new(Statistics::new()));
    let db = Db::open(&options, "/db").unwrap();
    if open_tables {
        let quick = ReadOptions { fill_cache: false, ..ReadOptions::default() };
        assert!(db.get_opt(&quick, b"other").unwrap().is_some());
    }
    (fs, options, operator, db)
}

#[pumice_test_macros::test]
fn a_write_reads_files_only_if_it_must() {
    for open_tables in [false, true] {
        let (fs, options, operator, db) = with_cold_base(2, open_tables);
        let statistics = options.db.statistics.clone().unwrap();
        let ticks = || {
            let tickers = [Ticker::NumberKeysRead, Ticker::BytesRead, Ticker::NumberKeysWritten];
            tickers.map(|ticker| statistics.ticker(ticker))
        };
        let before = ticks();
        fs.add_fault(FaultRule::always(FaultOp::Read, "*.sst", Fault::Eio));
        fs.add_fault(FaultRule::always(FaultOp::Open, "*.sst", Fault::Eio));
        (0..4).for_each(|n| merge(&db, &n.to_string()));
        assert_eq!(fs.fault_log(), Vec::<String>::new(), "no file was touched");
        let after = ticks();
        assert_eq!([after[0] - before[0], after[1] - before[1], after[2] - before[2]], [2, 0, 4]);
        fs.clear_faults();
        assert_eq!(read(&db, &operator), ("base,0,1,2,3".to_string(), 4), "open {open_tables}");
        // Now the block is in the cache.
        merge(&db, "4");
        assert_eq!(read(&db, &operator), ("base,0,1,2,3,4".to_string(), 0));
        let bytes = statistics.ticker(Ticker::BytesRead) - after[1];
        assert_eq!(bytes, 12 + 12 + 14, "two reads of ours, and one of the write");
        db.close().unwrap();
    }
}

#[pumice_test_macros::test]
fn strictly_a_write_reads_what_it_needs() {
    let (fs, _, operator, db) = with_cold_base(2, false);
    let family = db.default_column_family();
    db.set_options_cf(family, &[("strict_max_successive_merges", "true")]).unwrap();
    // Holds for memtables to come; this one has no entry of the key.
    db.put_opt(&WriteOptions::default(), b"a", b"").unwrap();
    db.flush_opt(&FlushOptions::default()).unwrap();
    fs.add_fault(FaultRule::always(FaultOp::Read, "*.sst", Fault::Eio));
    (0..3).for_each(|n| merge(&db, &n.to_string()));
    assert!(!fs.fault_log().is_empty(), "it tried");
    fs.clear_faults();
    merge(&db, "3");
    assert_eq!(read(&db, &operator), ("base,0,1,2,3".to_string(), 0));
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn an_operator_that_fails_leaves_operands() {
    let (_, options, operator) = with_limit(2);
    let db = Db::open(&options, "/db").unwrap();
    for operand in ["a", "b", "fail", "c"] {
        merge(&db, operand);
    }
    assert!(db.get_opt(&ReadOptions::default(), b"key").is_err());
    assert_eq!(operator.operands.load(Relaxed), 4);
    db.put_opt(&WriteOptions::default(), b"key", b"new").unwrap();
    for operand in ["a", "b", "panic"] {
        merge(&db, operand);
    }
    db.put_opt(&WriteOptions::default(), b"key", b"newer").unwrap();
    assert_eq!(read(&db, &operator), ("newer".to_string(), 0));
    db.close().unwrap();
}
