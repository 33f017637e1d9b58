//! Batches with an index against sorted maps: drawn work, every read form, both directions.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use pumice_base::random::Rng;
use pumice_base::{Comparator, ErrorKind, SubCode};
use pumice_env::MemFs;

use super::*;
use crate::db::api::Db;
use crate::options::Options;
use crate::options::requests::ReadOptions;
use crate::read::entries::Cursor;
use crate::version::family::ColumnFamily;

/// The value of a key as a list of operands over a base.
type Values = BTreeMap<Vec<u8>, Vec<u8>>;

fn opened(comparator: Comparator) -> (Db, ColumnFamily) {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.file_system = Arc::new(MemFs::new(7));
    options.cf.set_merge_operator("joined", |_: &[u8], old: Option<&[u8]>, operands: &[&[u8]]| {
        Some(old.into_iter().chain(operands.iter().copied()).flatten().copied().collect())
    });
    let db = Db::open(&options, "/db").unwrap();
    let mut cf_options = options.cf.clone();
    cf_options.comparator = comparator;
    let cf = db.create_column_family(&cf_options, "cf").unwrap();
    (db, cf)
}

/// One update, as the map has it.
#[derive(Clone, Debug)]
enum Update {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    SingleDelete(Vec<u8>),
    Merge(Vec<u8>, Vec<u8>),
}

fn draw(random: &mut Rng) -> Update {
    let key = format!("k{:02}", random.uniform(30)).into_bytes();
    let value = format!("v{}", random.uniform(1000)).into_bytes();
    match random.uniform(7) {
        0..=2 => Update::Put(key, value),
        3 => Update::Delete(key),
        4 => Update::SingleDelete(key),
        _ => Update::Merge(key, value),
    }
}

fn apply(map: &mut Values, update: &Update) {
    match update.clone() {
        Update::Put(key, value) => {
            map.insert(key, value);
        }
        Update::Delete(key) | Update::SingleDelete(key) => {
            map.remove(&key);
        }
        Update::Merge(key, operand) => map.entry(key).or_default().extend_from_slice(&operand),
    }
}

fn add(batch: &mut WriteBatchWithIndex, cf: &ColumnFamily, update: &Update) {
    match update {
        Update::Put(key, value) => batch.put_cf(cf, key, value),
        Update::Delete(key) => batch.delete_cf(cf, key),
        Update::SingleDelete(key) => batch.single_delete_cf(cf, key),
        Update::Merge(key, operand) => batch.merge_cf(cf, key, operand),
    }
    .unwrap();
}

/// Every key and value, from the front and from the back.
fn shown(cursor: &mut impl Cursor, forward: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    if forward {
        cursor.seek_to_first()
    } else {
        cursor.seek_to_last()
    }
    while let (Some(key), Some(value)) = (cursor.key(), cursor.value()) {
        found.push((key.to_vec(), value.unwrap().to_vec()));
        if forward { cursor.next() } else { cursor.prev() }
    }
    cursor.status().unwrap();
    found
}

/// The cursor follows a map through drawn moves, with turns at every place.
fn walk(random: &mut Rng, cursor: &mut impl Cursor, map: &Values, reversed: bool) {
    let mut keys: Vec<&Vec<u8>> = map.keys().collect();
    if reversed {
        keys.reverse();
    }
    let before = |a: &[u8], b: &[u8]| if reversed { a > b } else { a < b };
    let mut at: Option<usize> = None;
    for _ in 0..60 {
        let target = format!("k{:02}", random.uniform(32)).into_bytes();
        match (random.uniform(8), at) {
            (0, _) => {
                cursor.seek(&target);
                at = keys.iter().position(|key| !before(key, &target));
            }
            (1, _) => {
                cursor.seek_for_prev(&target);
                at = keys.iter().rposition(|key| !before(&target, key));
            }
            (2, None) => {
                cursor.seek_to_first();
                at = (!keys.is_empty()).then_some(0);
            }
            (3, None) => {
                cursor.seek_to_last();
                at = keys.len().checked_sub(1);
            }
            (_, None) => continue,
            (2..=4, Some(place)) => {
                cursor.next();
                at = (place + 1 < keys.len()).then_some(place + 1);
            }
            (_, Some(place)) => {
                cursor.prev();
                at = place.checked_sub(1);
            }
        }
        let key = at.map(|place| keys[place].as_slice());
        assert_eq!(cursor.key(), key);
        assert_eq!(
            cursor.value().map(|value| value.unwrap().to_vec()),
            key.map(|k| map[k].clone())
        );
    }
}

fn check(random: &mut Rng, db: &Db, cf: &ColumnFamily, batch: &WriteBatchWithIndex, map: &Values) {
    let reversed = matches!(cf.data.comparator(), Comparator::ReverseBytewise);
    let read = ReadOptions::default();
    let mut expected: Vec<_> = map.clone().into_iter().collect();
    if reversed {
        expected.reverse();
    }
    let base = || db.cursor_cf(cf).unwrap();
    assert_eq!(shown(&mut batch.iterator_with_base(cf, base(), None), true), expected);
    let mut backward = shown(&mut batch.iterator_with_base(cf, base(), None), false);
    backward.reverse();
    assert_eq!(backward, expected);
    walk(random, &mut batch.iterator_with_base(cf, base(), None), map, reversed);
    let (low, high) = if reversed { ("k20", "k10") } else { ("k10", "k20") };
    let bounded = ReadOptions {
        iterate_lower_bound: Some(low.into()),
        iterate_upper_bound: Some(high.into()),
        ..read.clone()
    };
    let inside: Values = map
        .iter()
        .filter(|(key, _)| match reversed {
            false => &key[..] >= b"k10" && &key[..] < b"k20",
            true => &key[..] <= b"k20" && &key[..] > b"k10",
        })
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let base = || db.cursor_cf_opt(&bounded, cf).unwrap();
    let mut both = batch.iterator_with_base(cf, base(), Some(&bounded));
    assert_eq!(shown(&mut both, true).len(), inside.len());
    walk(random, &mut both, &inside, reversed);
    let keys: Vec<Vec<u8>> = (0..32).map(|n| format!("k{n:02}").into_bytes()).collect();
    let wanted: Vec<(&ColumnFamily, &[u8])> = keys.iter().map(|key| (cf, &key[..])).collect();
    let many = batch.multi_get_from_batch_and_db(db, &read, &wanted);
    for (key, of_many) in keys.iter().zip(many) {
        let found = batch.get_from_batch_and_db(db, &read, cf, key).unwrap();
        assert_eq!(found.as_deref(), map.get(key).map(|value| &value[..]), "{key:?}");
        assert_eq!(of_many.unwrap(), found);
    }
}

/// What a read of the batch shows is what the database has after the batch is written.
#[pumice_test_macros::test]
fn a_batch_over_a_database_is_the_database_after_it() {
    for seed in pumice_testkit::seed::range(200) {
        let mut random = Rng::new(seed);
        let comparator =
            if random.one_in(3) { Comparator::ReverseBytewise } else { Comparator::Bytewise };
        let (db, cf) = opened(comparator);
        let mut map = Values::new();
        for _ in 0..random.uniform(40) {
            let update = draw(&mut random);
            let mut plain = WriteBatchWithIndex::new();
            add(&mut plain, &cf, &update);
            db.write(plain.write_batch_mut()).unwrap();
            apply(&mut map, &update);
        }
        let overwrite_key = random.one_in(2);
        let options = WriteBatchWithIndexOptions { overwrite_key, ..Default::default() };
        let mut batch = WriteBatchWithIndex::with_options(&options);
        let mut points: Vec<Values> = Vec::new();
        for _ in 0..random.uniform(60) {
            match random.uniform(12) {
                0 => {
                    batch.set_save_point();
                    points.push(map.clone());
                }
                1 => match points.pop() {
                    Some(then) => {
                        batch.rollback_to_save_point().unwrap();
                        map = then;
                    }
                    None => assert!(batch.rollback_to_save_point().unwrap_err().is_not_found()),
                },
                2 => assert_eq!(batch.pop_save_point().is_ok(), points.pop().is_some()),
                _ => {
                    let update = draw(&mut random);
                    add(&mut batch, &cf, &update);
                    apply(&mut map, &update);
                }
            }
        }
        check(&mut random, &db, &cf, &batch, &map);
        db.write(batch.write_batch_mut()).unwrap();
        let mut after = db.cursor_cf(&cf).unwrap();
        let mut found = shown(&mut after, true);
        found.sort();
        assert_eq!(found, map.into_iter().collect::<Vec<_>>(), "seed {seed}");
    }
}

/// Blocks of the index split, and every order of insertion keeps the entries in order.
#[pumice_test_macros::test]
fn many_entries_stay_in_order() {
    for seed in 0..4 {
        let mut random = Rng::new(seed);
        let mut batch = WriteBatchWithIndex::new();
        let mut keys: Vec<u32> = (0..5000).collect();
        match seed {
            0 => {}
            1 => keys.reverse(),
            2 => keys.sort_by_key(|key| (key % 2, if key % 2 == 0 { *key } else { 5000 - key })),
            _ => random.shuffle(&mut keys),
        }
        for key in &keys {
            batch.put(key.to_be_bytes(), b"").unwrap();
        }
        let mut records = batch.records(0);
        records.seek_to_first();
        for key in 0..5000u32 {
            assert_eq!(records.entry().unwrap().unwrap().key, key.to_be_bytes());
            records.next();
        }
        assert!(records.entry().is_none());
        records.seek_to_last();
        for key in (0..5000u32).rev() {
            assert_eq!(records.entry().unwrap().unwrap().key, key.to_be_bytes());
            records.prev();
        }
    }
}

fn listed(batch: &WriteBatchWithIndex) -> String {
    let mut records = batch.records(0);
    records.seek_to_first();
    let mut texts = Vec::new();
    while let Some(entry) = records.entry() {
        let WriteBatchEntry { write_type, key, value } = entry.unwrap();
        let (key, value) = (String::from_utf8_lossy(key), String::from_utf8_lossy(value));
        texts.push(format!("{write_type:?} {key}={value}"));
        records.next();
    }
    texts.join(", ")
}

/// Entries that are overwritten disappear, but merges do not; the newest of a key comes first.
#[pumice_test_macros::test]
fn overwriting_keeps_merges() {
    for (overwrite_key, expected) in [
        (false, "Merge a=4, Merge a=3, Put a=2, Put a=1, Delete b=, Merge b=5"),
        (true, "Merge a=4, Merge a=3, Put a=2, Delete b="),
    ] {
        let options = WriteBatchWithIndexOptions { overwrite_key, ..Default::default() };
        let mut batch = WriteBatchWithIndex::with_options(&options);
        batch.put("a", "1").unwrap();
        batch.put("a", "2").unwrap();
        batch.merge("b", "5").unwrap();
        batch.merge("a", "3").unwrap();
        batch.merge("a", "4").unwrap();
        batch.delete("b").unwrap();
        assert_eq!((listed(&batch).as_str(), batch.count()), (expected, 6));
        batch.set_save_point();
        batch.put("a", "6").unwrap();
        batch.clear();
        assert_eq!(listed(&batch), "");
        assert!(batch.is_empty() && batch.rollback_to_save_point().is_err());
    }
}

/// RocksDB's texts for what is refused, and nothing of it is in the batch.
#[pumice_test_macros::test]
fn refused_updates_leave_the_batch() {
    let options = WriteBatchWithIndexOptions { max_bytes: 40, ..Default::default() };
    let mut batch = WriteBatchWithIndex::with_options(&options);
    batch.put("k", "v").unwrap();
    let error = batch.put("key", vec![0; 40]).unwrap_err();
    assert_eq!((error.kind(), error.subcode()), (ErrorKind::Aborted, SubCode::MemoryLimit));
    assert_eq!(error.to_string(), "Operation aborted: Memory limit reached");
    let text = "Not implemented: DeleteRange unsupported in WriteBatchWithIndex";
    assert_eq!(batch.delete_range("a", "b").unwrap_err().to_string(), text);
    assert!(batch.put_entity("e", [("n", "1"), ("n", "2")]).unwrap_err().is_corruption());
    assert_eq!((listed(&batch).as_str(), batch.count()), ("Put k=v", 1));
    batch.write_batch().status().unwrap();
    batch.merge("m", "1").unwrap();
    assert_eq!(batch.get_from_batch("m").unwrap_err().to_string(), "Merge in progress: ");
    batch.delete("m").unwrap();
    assert_eq!(batch.get_from_batch("m").unwrap(), None);
    batch.merge("m", "2").unwrap();
    let text = "Invalid argument: Must provide a column family";
    assert_eq!(batch.get_from_batch("m").unwrap_err().to_string(), text);
    assert_eq!(batch.get_from_batch("k").unwrap().unwrap(), b"v");
    let without = without_operator();
    let read = ReadOptions::default();
    let family = without.default_column_family();
    let error = batch.get_from_batch_and_db(&without, &read, family, "m").unwrap_err();
    let text = "Invalid argument: Merge operator must be set for column family";
    assert_eq!(error.to_string(), text);
}

fn without_operator() -> Db {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.file_system = Arc::new(MemFs::new(8));
    Db::open(&options, "/db").unwrap()
}

/// A merge without a handle of the family ends the cursor with RocksDB's text; a seek starts it
/// again.
#[pumice_test_macros::test]
fn merges_need_a_family() {
    let db = without_operator();
    db.put("b", "1").unwrap();
    let mut batch = WriteBatchWithIndex::new();
    batch.put("a", "2").unwrap();
    batch.merge("c", "3").unwrap();
    let mut both = batch.iterator_with_base_of_default(db.cursor().unwrap());
    both.seek_to_first();
    assert_eq!(both.key(), Some(&b"a"[..]));
    both.next();
    assert_eq!(both.key(), Some(&b"b"[..]));
    both.next();
    assert!(!both.valid());
    let text = "Invalid argument: Must provide a column family";
    assert_eq!(both.status().unwrap_err().to_string(), text);
    both.next();
    let text = "Not implemented: Next() on invalid iterator";
    assert_eq!(both.status().unwrap_err().to_string(), text);
    both.seek(b"b");
    assert!(both.valid() && both.status().is_ok());
}

/// Entities keep their columns under merges.
#[pumice_test_macros::test]
fn entities_are_read_through_the_batch() {
    let (db, cf) = opened(Comparator::Bytewise);
    db.put_entity_cf(&cf, "d", [("", "0"), ("n", "1")]).unwrap();
    let mut batch = WriteBatchWithIndex::new();
    batch.put_entity_cf(&cf, "e", [("", "2"), ("n", "3")]).unwrap();
    batch.merge_cf(&cf, "d", "x").unwrap();
    batch.merge_cf(&cf, "e", "y").unwrap();
    let read = ReadOptions::default();
    for (key, default, other) in [("d", "0x", "1"), ("e", "2y", "3")] {
        let value = batch.get_from_batch_and_db(&db, &read, &cf, key).unwrap().unwrap();
        assert_eq!(&value[..], default.as_bytes());
        let columns = batch.get_entity_from_batch_and_db(&db, &read, &cf, key).unwrap().unwrap();
        assert_eq!(columns.get(""), Some(default.as_bytes()));
        assert_eq!(columns.get("n"), Some(other.as_bytes()));
    }
    let mut both = batch.iterator_with_base(&cf, db.cursor_cf(&cf).unwrap(), None);
    let pair = |k: &str, v: &str| (k.as_bytes().to_vec(), v.as_bytes().to_vec());
    assert_eq!(shown(&mut both, true), [pair("d", "0x"), pair("e", "2y")]);
    db.put_cf(&cf, "f", "4").unwrap();
    let mut both = batch.iterator_with_base(&cf, db.cursor_cf(&cf).unwrap(), None);
    let mut found = Vec::new();
    both.seek_to_first();
    while let Some(columns) = both.columns() {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let columns = columns.unwrap();
        found.push(columns.iter().map(|c| (text(c.name), text(c.value))).collect::<Vec<_>>());
        both.next();
    }
    let owned = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    };
    let expected = [&[("", "0x"), ("n", "1")][..], &[("", "2y"), ("n", "3")], &[("", "4")]];
    assert_eq!(found, expected.map(owned));
}

/// A family whose first updates name it by its id gets its own order with the first handle.
#[pumice_test_macros::test]
fn the_order_of_a_family_is_learned() {
    let (db, cf) = opened(Comparator::ReverseBytewise);
    let mut batch = WriteBatchWithIndex::new();
    for key in ["b", "a", "c"] {
        batch.put_cf(cf.id(), key, key).unwrap();
    }
    batch.put_cf(&cf, "d", "d").unwrap();
    let mut both = batch.iterator_with_base(&cf, db.cursor_cf(&cf).unwrap(), None);
    let keys: Vec<_> = shown(&mut both, true).into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, [b"d", b"c", b"b", b"a"]);
}
