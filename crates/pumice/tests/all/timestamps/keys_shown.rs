//! The keys that filters, merge operators and collectors of properties are given.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::sync::Arc;

use pumice::{
    CollectorContext, CompactionFilter, Db, EntryType, FilterDecision, Options,
    TablePropertiesCollector, TablePropertiesCollectorFactory,
};
use pumice_port::sync::Mutex;

use super::sides::{Ours, Side};
use super::{text, timed, unkept};
use crate::common::{DIR, flush};

type Keys = Arc<Mutex<BTreeSet<Vec<u8>>>>;

/// Notes the keys that it is asked about.
#[derive(Clone, Default)]
struct Notes(Keys);

impl std::fmt::Debug for Notes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Notes")
    }
}

impl Notes {
    fn note(&self, key: &[u8]) {
        self.0.lock().insert(key.to_vec());
    }
    fn take(&self) -> BTreeSet<Vec<u8>> {
        std::mem::take(&mut *self.0.lock())
    }
}

impl CompactionFilter for Notes {
    fn name(&self) -> &str {
        "notes"
    }
    fn filter(&self, _: i32, key: &[u8], _: &[u8]) -> FilterDecision {
        self.note(key);
        FilterDecision::Keep
    }
    fn filter_blob_by_key(&self, _: i32, key: &[u8]) -> Option<FilterDecision> {
        self.note(key);
        None
    }
    fn filter_merge_operand(&self, _: i32, key: &[u8], _: &[u8]) -> bool {
        self.note(key);
        false
    }
}

impl TablePropertiesCollectorFactory for Notes {
    fn name(&self) -> &str {
        "notes"
    }
    fn create_collector(&self, _: &CollectorContext) -> Option<Box<dyn TablePropertiesCollector>> {
        Some(Box::new(self.clone()))
    }
}

impl TablePropertiesCollector for Notes {
    fn add(&mut self, key: &[u8], value: &[u8], kind: EntryType, _: u64, _: u64) {
        self.note(key);
        if kind == EntryType::RangeDeletion {
            self.note(value);
        }
    }
}

/// What was noted, of filters, operators and collectors.
struct Seen {
    filter: Notes,
    operator: Notes,
    collector: Notes,
}

fn watched(mut options: Options) -> (Options, Seen) {
    let seen =
        Seen { filter: Notes::default(), operator: Notes::default(), collector: Notes::default() };
    options.cf.compaction_filter = Some(Arc::new(seen.filter.clone()));
    options.cf.table_properties_collector_factories.push(Arc::new(seen.collector.clone()));
    let operator = seen.operator.clone();
    options.cf.set_merge_operator_associative("join", move |key, old, operands| {
        operator.note(key);
        let all: Vec<&[u8]> = old.into_iter().chain(operands.iter().copied()).collect();
        Some(all.join(&b","[..]))
    });
    (options, seen)
}

fn at(key: &str, time: u64) -> Vec<u8> {
    [key.as_bytes(), &time.to_le_bytes()].concat()
}

fn set<const N: usize>(keys: [Vec<u8>; N]) -> BTreeSet<Vec<u8>> {
    BTreeSet::from(keys)
}

/// Reads the operands of `m` in every way.
fn read(db: &Db, expected: &str) {
    assert_eq!(text(db, 30, "m").as_deref(), Some(expected));
    let found = db.at(30).multi_get(&["m", "x", "m"]);
    assert_eq!(found[2].as_ref().unwrap().as_deref(), Some(expected.as_bytes()));
    let mut cursor = db.at(30).cursor().unwrap();
    cursor.seek("m");
    assert_eq!(cursor.value(), Some(expected.as_bytes()));
    cursor.seek_to_last();
    while cursor.key() > Some(&b"m"[..]) {
        cursor.prev();
    }
    assert_eq!(cursor.value(), Some(expected.as_bytes()));
}

/// An operator that uses its key gives the same value wherever the operands are.
#[pumice_test_macros::test]
fn operators_get_the_oldest_timestamp_wherever_the_operands_are() {
    for keeps in [true, false] {
        let files = crate::common::memory().1;
        let (options, seen) = watched(if keeps { timed(&files) } else { unkept(&files) });
        let db = Db::open(&options, DIR).unwrap();
        let expected = set([at("m", 0)]);
        db.at(1).merge("m", "1").unwrap();
        db.at(2).merge("m", "2").unwrap();
        read(&db, "1,2");
        assert_eq!(seen.operator.take(), expected, "{keeps}, in memory");
        flush(&db);
        db.at(9).merge("m", "9").unwrap();
        read(&db, "1,2,9");
        assert_eq!(seen.operator.take(), expected, "{keeps}, in both");
        flush(&db);
        db.at(10).merge("m", "10").unwrap();
        db.at(10).merge("m", "10").unwrap();
        flush(&db);
        read(&db, "1,2,9,10,10");
        assert_eq!(seen.operator.take(), expected, "{keeps}, in tables");
        db.compact_range(&Default::default(), None, None).unwrap();
        assert_eq!(seen.operator.take(), expected, "{keeps}, compacted");
        read(&db, "1,2,9,10,10");
        db.close().unwrap();
    }
}

#[pumice_test_macros::test]
fn filters_and_collectors_get_zeros_where_tables_have_no_timestamps() {
    for (keeps, blobs) in [(true, false), (false, false), (false, true)] {
        let files = crate::common::memory().1;
        let mut options = if keeps { timed(&files) } else { unkept(&files) };
        if blobs {
            super::blobs::separate(&mut options.cf, 1, true);
        }
        let (options, seen) = watched(options);
        let side = Ours::open(options, DIR.as_ref());
        let db = side.db();
        db.at(3).put("k", "v").unwrap();
        db.at(4).merge("m", "1").unwrap();
        db.at(5).delete_range("x", "y").unwrap();
        flush(db);
        let time = |time| if keeps { time } else { 0 };
        let expected =
            set([at("k", time(3)), at("m", time(4)), at("x", time(5)), at("y", time(5))]);
        assert_eq!(seen.collector.take(), expected, "{keeps} {blobs}");
        let file = &db.live_files_metadata()[0];
        assert_eq!(file.smallest_key, at("k", time(3)));
        assert_eq!(file.largest_key, at("y", u64::MAX));
        side.compact(None);
        assert_eq!(seen.filter.take(), set([at("k", time(3)), at("m", time(4))]));
    }
}
