//! Operands that are not merged: against a model of each key's history, and the edges of the call.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::common::{DIR, flush, memory, options};
use pumice::{
    ColumnFamily, CompactRangeOptions, Db, ErrorKind, GetMergeOperandsOptions, ReadOptions,
    RowCache, Snapshot, SubCode,
};
use pumice_base::random::Rng;

/// The base value, if there is one, and the operands since, of each key.
type Model = BTreeMap<Vec<u8>, Vec<Vec<u8>>>;

const KEYS: u64 = 12;

fn key(n: u64) -> Vec<u8> {
    format!("key{n:02}").into_bytes()
}

/// One write in the database and in the model.
fn write(db: &Db, cf: &ColumnFamily, model: &mut Model, rng: &mut Rng) {
    let at = rng.uniform(KEYS);
    let (key, value) = (key(at), format!("{:04x}", rng.uniform(1 << 16)).into_bytes());
    match rng.uniform(20) {
        0..3 => {
            db.put_cf(cf, &key, &value).unwrap();
            model.insert(key, vec![value]);
        }
        3 => {
            let columns = [(&b""[..], &value[..]), (b"other", b"of no interest")];
            db.put_entity_cf(cf, &key, columns).unwrap();
            model.insert(key, vec![value]);
        }
        4..6 => {
            db.delete_cf(cf, &key).unwrap();
            model.remove(&key);
        }
        6 => {
            let end = at + 1 + rng.uniform(3);
            db.delete_range_cf(cf, &key, self::key(end)).unwrap();
            (at..end).for_each(|n| drop(model.remove(&self::key(n))));
        }
        _ => {
            db.merge_cf(cf, &key, &value).unwrap();
            model.entry(key).or_default().push(value);
        }
    }
}

fn check(db: &Db, cf: &ColumnFamily, options: &ReadOptions, model: &Model) {
    for key in (0..KEYS).map(key) {
        let expected = model.get(&key).cloned().unwrap_or_default();
        let mut number = 77;
        let how = GetMergeOperandsOptions::at_most(expected.len());
        let found = db.get_merge_operands_cf_opt(options, cf, &key, &how, &mut number).unwrap();
        let found: Vec<_> = found.iter().map(|operand| operand.to_vec()).collect();
        assert_eq!(found, expected, "{}", key.escape_ascii());
        assert_eq!(number, expected.len());
        let merged = db.get_cf_opt(options, cf, &key).unwrap().map(|value| value.to_vec());
        assert_eq!(merged, (!expected.is_empty()).then(|| expected.join(&b','))); // As appended.
        if let Some(fewer) = expected.len().checked_sub(1) {
            let how = GetMergeOperandsOptions::at_most(fewer);
            let error = db.get_merge_operands_cf_opt(options, cf, &key, &how, &mut number);
            assert_eq!(error.unwrap_err().kind(), ErrorKind::Incomplete);
            assert_eq!(number, expected.len());
        }
    }
}

/// A snapshot after each write: so flushes and compactions merge nothing, and the history that the
/// model has stays in the memtables and tables.
#[pumice_test_macros::test]
fn as_the_model_has_it() {
    for seed in 0..8 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let mut options = options(&memory().1);
        options.set("merge_operator", "stringappend").unwrap();
        options.cf.table_factory.block_size = 128;
        options.db.row_cache = (seed % 2 == 1).then(|| RowCache::new(1 << 20));
        let db = Db::open(&options, DIR).unwrap();
        let other = db.create_column_family(&options.cf, "other").unwrap();
        let families = [db.default_column_family(), &other];
        let mut models = [Model::new(), Model::new()];
        let mut held: Vec<(Snapshot, [Model; 2])> = Vec::new();
        for _ in 0..25 {
            for _ in 0..rng.uniform(15) {
                let of = rng.uniform(2) as usize;
                write(&db, families[of], &mut models[of], &mut rng);
                held.push((db.snapshot(), models.clone()));
            }
            match rng.uniform(4) {
                0 => flush(&db),
                1 => db.flush_cf(&other).unwrap(),
                2 => {
                    let all = CompactRangeOptions::default();
                    let cf = families[rng.uniform(2) as usize];
                    db.compact_range_cf(&all, cf, None, None).unwrap();
                }
                _ => {}
            }
            let now = ReadOptions::default();
            (0..2).for_each(|of| check(&db, families[of], &now, &models[of]));
            if !held.is_empty() {
                let (snapshot, then) = &held[rng.uniform(held.len() as u64) as usize];
                let past = ReadOptions::at(snapshot);
                (0..2).for_each(|of| check(&db, families[of], &past, &then[of]));
            }
        }
        drop(held);
        db.close().unwrap();
    }
}

#[pumice_test_macros::test]
fn the_error_tells_how_many_there_are() {
    let mut options = options(&memory().1);
    options.set("merge_operator", "stringappend").unwrap();
    let db = Db::open(&options, DIR).unwrap();
    for operand in ["a", "b", "c"] {
        db.merge("k", operand).unwrap();
    }
    let mut number = 0;
    let error = db.get_merge_operands("k", &GetMergeOperandsOptions::at_most(2), &mut number);
    let error = error.unwrap_err();
    assert_eq!(error.subcode(), SubCode::MergeOperandsInsufficientCapacity);
    // As RocksDB prints it.
    assert_eq!(error.to_string(), "Result incomplete: Insufficient capacity for merge operands");
    assert_eq!(number, 3);
    let how = GetMergeOperandsOptions::at_most(number);
    let found = db.get_merge_operands("k", &how, &mut number).unwrap();
    assert_eq!(found.iter().map(|operand| &operand[..]).collect::<Vec<_>>(), [b"a", b"b", b"c"]);
    assert!(db.get_merge_operands("none", &how, &mut number).unwrap().is_empty());
    assert_eq!(number, 0);
    db.close().unwrap();
}

/// And the search that stops early leaves no part of a history in the row cache.
#[pumice_test_macros::test]
fn older_operands_are_read_as_long_as_they_are_wanted() {
    let mut options = options(&memory().1);
    options.set("merge_operator", "stringappend").unwrap();
    options.db.row_cache = Some(RowCache::new(1 << 20));
    let db = Db::open(&options, DIR).unwrap();
    db.put("k", "base").unwrap();
    let mut held = Vec::new();
    for operand in ["a", "b", "c", "d"] {
        held.push(db.snapshot());
        db.merge("k", operand).unwrap();
        if operand != "c" {
            flush(&db);
        }
    }
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    let seen = RefCell::new(Vec::new());
    let stop = |operand: &[u8]| {
        seen.borrow_mut().push(operand.to_vec());
        operand != b"c"
    };
    let how = GetMergeOperandsOptions::at_most(2).while_true(&stop);
    let mut number = 0;
    let found = db.get_merge_operands("k", &how, &mut number).unwrap();
    assert_eq!(found.iter().map(|operand| &operand[..]).collect::<Vec<_>>(), [b"c", b"d"]);
    assert_eq!(*seen.borrow(), [b"d", b"c"]);
    assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"base,a,b,c,d"[..]));
    // The base value is not shown to it.
    seen.borrow_mut().clear();
    let all = GetMergeOperandsOptions::at_most(5);
    assert_eq!(db.get_merge_operands("k", &all, &mut number).unwrap().len(), 5);
    db.put("k", "new base").unwrap();
    assert_eq!(&db.get_merge_operands("k", &how, &mut number).unwrap()[0][..], b"new base");
    assert!(seen.borrow().is_empty());
    drop(held);
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn operands_need_an_operator_and_values_do_not() {
    let mut options = options(&memory().1);
    options.set("merge_operator", "stringappend").unwrap();
    let db = Db::open(&options, DIR).unwrap();
    db.merge("merged", "a").unwrap();
    db.put("put", "b").unwrap();
    db.close().unwrap();
    options.cf.merge_operator = None;
    let db = Db::open(&options, DIR).unwrap();
    let (how, mut number) = (GetMergeOperandsOptions::at_most(9), 0);
    assert_eq!(&db.get_merge_operands("put", &how, &mut number).unwrap()[0][..], b"b");
    let error = db.get_merge_operands("merged", &how, &mut number).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    db.close().unwrap();
}
