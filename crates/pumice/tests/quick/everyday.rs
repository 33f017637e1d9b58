//! The everyday calls: keys and values of any type that is bytes, and the Rust iterator.

use crate::common::{DIR, memory, options};
use pumice::{Comparator, Db, Entries, ErrorKind, ReadOptions, WriteBatch, WriteOptions};
use pumice_base::UserKey;

type Entry = (Vec<u8>, Vec<u8>);

fn open(change: impl FnOnce(&mut pumice::Options)) -> Db {
    let (_, fs) = memory();
    let mut options = options(&fs);
    options.cf.merge_operator = pumice::options::merge_operator_by_name("stringappend");
    change(&mut options);
    Db::open(&options, DIR).unwrap()
}

fn keys(entries: Entries) -> String {
    let key = |entry: pumice::Result<Entry>| String::from_utf8(entry.unwrap().0).unwrap();
    entries.map(key).collect::<Vec<_>>().join(" ")
}

#[pumice_test_macros::test]
fn keys_are_whatever_is_bytes() {
    let db = open(|_| {});
    db.put("str", String::from("string")).unwrap();
    db.put(b"array", vec![1, 2]).unwrap();
    db.merge("sum", "1").unwrap();
    db.merge("sum", "2").unwrap();
    assert_eq!(db.get("str").unwrap().as_deref(), Some(&b"string"[..]));
    assert_eq!(db.get("sum").unwrap().as_deref(), Some(&b"1,2"[..]));
    let family = db.create_column_family(&Default::default(), "family").unwrap();
    db.put_cf(&family, "a", "1").unwrap();
    db.put_cf_opt(&WriteOptions { sync: true, ..Default::default() }, &family, "b", "2").unwrap();
    let mut batch = WriteBatch::new();
    batch.put_cf(&family, "c", "3");
    batch.put_cf(family.id(), "d", "4");
    batch.delete_cf(&family, "a");
    batch.single_delete("str");
    db.write(&mut batch).unwrap();
    assert_eq!(keys(db.iter_cf(&family).unwrap()), "b c d");
    db.delete_range_cf(&family, "b", "d").unwrap();
    db.delete("array").unwrap();
    assert_eq!(keys(db.iter_cf(&family).unwrap()), "d");
    assert_eq!(keys(db.iter().unwrap()), "sum");
    let found = db.multi_get_cf(&[(&family, "d"), (db.default_column_family(), "sum")]);
    let found: Vec<_> = found.into_iter().map(|value| value.unwrap().unwrap().into_vec()).collect();
    assert_eq!(found, [b"4".to_vec(), b"1,2".to_vec()]);
    assert_eq!(db.multi_get(&["d", "sum"]).len(), 2);
    let read = ReadOptions::default();
    assert_eq!(keys(db.range_opt(&read, "s".."t").unwrap()), "sum");
    // No type has to be named, and borrowed keys will do.
    let (from, to) = (b"s".to_vec(), b"t".to_vec());
    assert_eq!(keys(db.range(&from..&to).unwrap()), "sum");
    assert_eq!(keys(db.range(..).unwrap()), "sum");
    assert_eq!(keys(db.range_cf(&family, ..).unwrap()), "d");
    assert_eq!(keys(db.prefix_opt(&read, "su").unwrap()), "sum");
    assert!(db.key_may_exist_opt(&read, "sum").unwrap());
    assert!(!db.key_may_exist_cf_opt(&read, &family, "sum").unwrap());
    let mut cursor = db.cursor().unwrap();
    assert_eq!(cursor.item(), None);
    cursor.seek("a");
    assert_eq!(cursor.item(), Some((&b"sum"[..], &b"1,2"[..])));
    cursor.seek_for_prev(String::from("t"));
    assert_eq!(cursor.key(), Some(&b"sum"[..]));
    cursor.seek(b"t");
    assert_eq!(cursor.item(), None);
    drop(cursor);
    // A flush of one family alone.
    let level0 = |cf| db.property_int_cf(cf, "rocksdb.num-files-at-level0");
    db.flush_cf(&family).unwrap();
    assert_eq!((level0(&family), level0(db.default_column_family())), (Some(1), Some(0)));
    db.flush().unwrap();
    assert_eq!(level0(db.default_column_family()), Some(1));
    // Options of one family alone.
    db.set_options(&[("write_buffer_size", "1MB")]).unwrap();
    db.set_options_cf(&family, &[("write_buffer_size", "2MB")]).unwrap();
    let buffer = |cf| db.column_family_options(cf).unwrap().write_buffer_size;
    assert_eq!((buffer(db.default_column_family()), buffer(&family)), (1 << 20, 2 << 20));
    drop(family);
    db.close().unwrap();
}

/// Each range from both ends, and from both at once, over tables and memtables, with gaps.
#[pumice_test_macros::test]
fn ranges_are_as_those_of_a_btree() {
    for comparator in [Comparator::Bytewise, Comparator::ReverseBytewise] {
        let db = open(|options| options.cf.comparator = comparator.clone());
        let mut all: Vec<Vec<u8>> = (0..9u8).map(|n| vec![b'a' + n / 3, b'0' + n % 3]).collect();
        for (n, key) in all.iter().enumerate() {
            db.put(key, key).unwrap();
            if n == 4 {
                db.flush().unwrap();
            }
        }
        db.delete("b1").unwrap();
        all.retain(|key| key != b"b1");
        all.sort_by(|a, b| comparator.compare(UserKey::new(a), UserKey::new(b)));
        let (from, to) = match comparator {
            Comparator::Bytewise => ("a2", "c1"),
            _ => ("c1", "a2"),
        };
        let before = |a: &[u8], b: &str| {
            comparator.compare(UserKey::new(a), UserKey::new(b.as_bytes())).is_lt()
        };
        use std::ops::Bound::{Excluded as E, Included as I, Unbounded as U};
        for start in [U, I(from), E(from), I("b1"), E("b1")] {
            for end in [U, I(to), E(to), I("b1"), E("b1")] {
                let inside = |key: &&Vec<u8>| {
                    let after = match start {
                        U => true,
                        I(start) => !before(key, start),
                        E(start) => comparator
                            .compare(UserKey::new(key), UserKey::new(start.as_bytes()))
                            .is_gt(),
                    };
                    let until = match end {
                        U => true,
                        I(end) => comparator
                            .compare(UserKey::new(key), UserKey::new(end.as_bytes()))
                            .is_le(),
                        E(end) => before(key, end),
                    };
                    after && until
                };
                let want: Vec<Vec<u8>> = all.iter().filter(inside).cloned().collect();
                let range = || db.range::<&str>((start, end)).unwrap();
                let key = |entry: pumice::Result<Entry>| entry.unwrap().0;
                assert_eq!(range().map(key).collect::<Vec<_>>(), want, "{start:?} {end:?}");
                let mut back: Vec<_> = range().rev().map(key).collect();
                back.reverse();
                assert_eq!(back, want, "from the back: {start:?} {end:?}");
                let (mut entries, mut front, mut back) = (range(), Vec::new(), Vec::new());
                for turn in 0.. {
                    let step = if turn % 3 == 0 { entries.next_back() } else { entries.next() };
                    match step {
                        Some(entry) if turn % 3 == 0 => back.push(key(entry)),
                        Some(entry) => front.push(key(entry)),
                        None => break,
                    }
                }
                assert!(entries.next().is_none() && entries.next_back().is_none());
                front.extend(back.into_iter().rev());
                assert_eq!(front, want, "from both: {start:?} {end:?}");
            }
        }
        let mut prefixed: Vec<_> = db.prefix("b").unwrap().map(|e| e.unwrap().0).collect();
        prefixed.sort();
        assert_eq!(prefixed, [b"b0".to_vec(), b"b2".to_vec()]);
        assert_eq!(db.prefix("").unwrap().count(), all.len());
        assert_eq!(db.prefix([0xff]).unwrap().count(), 0);
        db.close().unwrap();
    }
}

#[pumice_test_macros::test]
fn an_iterator_keeps_its_snapshot() {
    let db = open(|_| {});
    db.put("a", "1").unwrap();
    let then = ReadOptions::at(&db.snapshot());
    db.put("b", "2").unwrap();
    assert_eq!(keys(db.iter_opt(&then).unwrap()), "a");
    assert_eq!(keys(db.range_cf_opt(&then, db.default_column_family(), "a"..).unwrap()), "a");
    let bounded = ReadOptions { iterate_lower_bound: Some(b"b".to_vec()), ..Default::default() };
    assert_eq!(keys(db.iter_opt(&bounded).unwrap()), "b");
    let twice = db.range_cf_opt(&bounded, db.default_column_family(), "a"..).map(drop);
    assert_eq!(twice.unwrap_err().kind(), ErrorKind::InvalidArgument);
    db.close().unwrap();
}

/// Where the data cannot be read on, the error is the last item: a loop does not end in silence.
#[pumice_test_macros::test]
fn an_error_is_an_item() {
    let db = open(|_| {});
    for n in 0..2000u32 {
        db.put(n.to_be_bytes(), [7; 100]).unwrap();
    }
    db.flush().unwrap();
    let cold = ReadOptions { cache_only: true, ..Default::default() };
    let mut entries = db.iter_opt(&cold).unwrap();
    let last = entries.by_ref().last().unwrap();
    assert_eq!(last.unwrap_err().kind(), ErrorKind::Incomplete);
    assert!(entries.next().is_none() && entries.next_back().is_none());
    let cursor = db.cursor().unwrap();
    assert!(cursor.key().is_none() && cursor.value().is_none());
    drop((entries, cursor));
    db.close().unwrap();
}
