//! Databases whose values expire. What RocksDB makes of the files: `interop.rs`.

use std::sync::Arc;

use crate::common::{DIR, memory, options};
use pumice::options::merge_operator_by_name;
use pumice::{
    ColumnFamilyDescriptor, CompactRangeOptions, CompactionFilter, Db, DbWithTtl, ErrorKind,
    FilterDecision, GetMergeOperandsOptions, Options, ReadOptions, WriteBatch, WriteOptions,
    filter_of,
};
use pumice_port::sim;
use pumice_port::sync::Mutex;
use pumice_port::time::wall_seconds;

/// `value` as stored if it was written `seconds_ago`.
fn stored(value: &str, seconds_ago: u64) -> Vec<u8> {
    let time = (wall_seconds() - seconds_ago) as u32;
    [value.as_bytes(), &time.to_le_bytes()].concat()
}

fn ttl_options(fs: &Arc<dyn pumice::FileSystem>) -> Options {
    let mut options = options(fs);
    options.db.create_missing_column_families = true;
    options.cf.merge_operator = merge_operator_by_name("stringappend");
    options
}

fn compact(db: &Db) {
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
}

fn keys(db: &Db) -> Vec<String> {
    db.iter().unwrap().map(|e| String::from_utf8(e.unwrap().0).unwrap()).collect()
}

#[pumice_test_macros::test]
fn values_come_back_as_they_were_written() {
    let (_, fs) = memory();
    let options = ttl_options(&fs);
    let named = |name: &str| (ColumnFamilyDescriptor::new(name, options.cf.clone()), 1000);
    let (db, families) =
        DbWithTtl::open_cf(&options.db, DIR, &[named("default"), named("other")]).unwrap();
    let (default, other) = (&families[0], &families[1]);
    db.put("a", "1").unwrap();
    db.put_cf_opt(&WriteOptions::default(), other, "a", "other").unwrap();
    db.merge("m", "x").unwrap();
    db.merge("m", "y").unwrap();
    let mut batch = WriteBatch::new();
    batch.put("b", "2");
    batch.put("c", "3");
    batch.single_delete("c");
    batch.merge_cf(other, "m", "z");
    batch.delete_range_cf(default, "x", "z");
    batch.put_log_data(b"said");
    db.write_opt(&WriteOptions::default(), &mut batch).unwrap();
    for flushed in [false, true] {
        if flushed {
            db.db().flush_all().unwrap();
            compact(db.db());
        }
        assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"1"[..]));
        assert_eq!(db.get("m").unwrap().as_deref(), Some(&b"x,y"[..]));
        assert!(db.get("c").unwrap().is_none());
        let found = db.multi_get_cf_opt(&ReadOptions::default(), &[(other, "a"), (other, "m")]);
        let found: Vec<_> = found.into_iter().map(|v| v.unwrap().unwrap().into_vec()).collect();
        assert_eq!(found, [b"other".to_vec(), b"z".to_vec()]);
        let all = db.iter_cf_opt(&ReadOptions::default(), default).unwrap();
        let values: Vec<_> = all.rev().map(|entry| entry.unwrap().1).collect();
        assert_eq!(values, [b"x,y".to_vec(), b"2".to_vec(), b"1".to_vec()]);
        let mut cursor = db.cursor_cf_opt(&ReadOptions::default(), default).unwrap();
        cursor.seek(b"b");
        assert_eq!((cursor.key(), cursor.value()), (Some(&b"b"[..]), Some(&b"2"[..])));
        let age = wall_seconds() as i32 - cursor.written_at().unwrap();
        assert!((0..1000).contains(&age), "{age}");
    }
    // The plain database shows the times.
    assert_eq!(db.db().get("a").unwrap().unwrap().len(), 5);
    drop(families);
    db.db().close().unwrap();
}

#[pumice_test_macros::test]
fn compactions_drop_what_is_too_old() {
    let (_, fs) = memory();
    let db = DbWithTtl::open(&ttl_options(&fs), DIR, 1000).unwrap();
    let plain = db.db();
    let default = plain.default_column_family();
    plain.put("old", stored("v", 2000)).unwrap();
    plain.put("new", stored("v", 100)).unwrap();
    plain.merge("merged", stored("v", 2000)).unwrap();
    plain.put("short", "abc").unwrap();
    plain.put("before", [b"v".as_slice(), &1_368_146_401u32.to_le_bytes()].concat()).unwrap();
    // Until then they are read.
    assert_eq!(db.get("old").unwrap().as_deref(), Some(&b"v"[..]));
    for (key, text) in [
        ("short", "Error: value's length less than timestamp's\n"),
        ("before", "Error: Timestamp < ttl feature release time!\n"),
    ] {
        let error = db.get(key).unwrap_err();
        assert_eq!((error.kind(), error.message()), (ErrorKind::Corruption, text));
    }
    plain.flush().unwrap();
    compact(plain);
    // Operands are not filtered; a value that a compaction merges gets the time of the compaction.
    assert_eq!(keys(plain), ["before", "merged", "new", "short"]);
    // The time to live is not stored, and may change.
    db.set_ttl(default, 50).unwrap();
    plain.put("x", stored("v", 0)).unwrap();
    compact(plain);
    assert_eq!(keys(plain), ["before", "merged", "short", "x"]);
    db.set_ttl(default, 0).unwrap();
    plain.put("ancient", stored("v", 300_000_000)).unwrap();
    compact(plain);
    assert!(keys(plain).contains(&"ancient".to_string()), "for ever");
    let other = db.create_column_family(&Default::default(), "other", 10).unwrap();
    plain.put_cf(&other, "old", stored("v", 20)).unwrap();
    plain.compact_range_cf(&CompactRangeOptions::default(), &other, None, None).unwrap();
    assert_eq!(plain.iter_cf(&other).unwrap().count(), 0);
    drop(other);
    plain.close().unwrap();
}

/// The user's filters see the user's bytes, after expired values were dropped.
#[pumice_test_macros::test]
fn filters_of_the_user_go_on() {
    for by_factory in [false, true] {
        let (_, fs) = memory();
        let mut options = ttl_options(&fs);
        let filter = filter_of("own", |_, key, value| match (key, value) {
            (b"old", _) => panic!("it was dropped"),
            (_, b"drop") => FilterDecision::Remove,
            (_, b"change") => FilterDecision::ChangeValue(b"changed".to_vec()),
            _ => FilterDecision::Keep,
        });
        match by_factory {
            false => options.cf.compaction_filter = Some(filter),
            true => options
                .cf
                .set_compaction_filter_factory("factory", move |_| Some(Arc::clone(&filter))),
        }
        let db = DbWithTtl::open(&options, DIR, 1000).unwrap();
        let plain = db.db();
        plain.put("old", stored("drop", 2000)).unwrap();
        for (key, value) in [("a", "drop"), ("b", "change"), ("c", "keep")] {
            plain.put(key, stored(value, 100)).unwrap();
        }
        compact(plain);
        assert_eq!(keys(plain), ["b", "c"], "by factory: {by_factory}");
        let changed = plain.get("b").unwrap().unwrap().into_vec();
        let seconds = u32::from_le_bytes(*changed.last_chunk().unwrap());
        assert!(wall_seconds() as u32 - seconds >= 100, "the time stays");
        assert_eq!(db.get("b").unwrap().as_deref(), Some(&b"changed"[..]));
        plain.close().unwrap();
    }
}

/// A clock that was reset to 1970, or that is past what the format can store, costs no value. Plain
/// #[test]: a simulation is a runtime of its own. Its clock is virtual.
#[test]
fn what_is_written_by_an_impossible_clock_can_be_read() {
    for clock in [1000i64, i64::from(i32::MAX) + 1000] {
        let (report, outcome) = sim::run(&sim::Options::new(1), move || {
            sim::jump_wall_clock((clock - wall_seconds() as i64) * 1_000_000_000);
            let (_, fs) = memory();
            let db = DbWithTtl::open(&ttl_options(&fs), DIR, 1000).unwrap();
            db.put("a", "1").unwrap();
            db.merge("a", "2").unwrap();
            db.merge("m", "3").unwrap();
            let check = |when: &str| {
                for (key, value) in [("a", "1,2"), ("m", "3")] {
                    let found = db.get(key).unwrap();
                    assert_eq!(found.as_deref(), Some(value.as_bytes()), "{clock} {when}");
                }
                assert_eq!(db.iter().unwrap().filter_map(Result::ok).count(), 2, "{clock} {when}");
            };
            check("at once");
            compact(db.db());
            check("compacted");
            db.merge("m", "4").unwrap();
            db.db().flush().unwrap();
            compact(db.db());
            assert_eq!(db.get("m").unwrap().as_deref(), Some(&b"3,4"[..]), "{clock}");
            db.db().close().unwrap();
        });
        assert!(report.stuck.is_none() && outcome.is_ok(), "{outcome:?}");
    }
}

/// A filter that makes an entity of a value: its default column has the time that the value had.
#[pumice_test_macros::test]
fn an_entity_that_a_filter_makes_expires_too() {
    let (_, fs) = memory();
    let mut options = ttl_options(&fs);
    options.cf.compaction_filter = Some(filter_of("columns", |_, key: &[u8], value: &[u8]| {
        let mut columns = vec![(b"more".to_vec(), b"columns".to_vec())];
        if key == b"with" {
            columns.push((Vec::new(), value.to_vec()));
        }
        FilterDecision::ChangeWideColumnEntity(columns)
    }));
    let db = DbWithTtl::open(&options, DIR, 1000).unwrap();
    db.put("with", "value").unwrap();
    db.put("without", "value").unwrap();
    compact(db.db());
    assert_eq!(db.get("with").unwrap().as_deref(), Some(&b"value"[..]));
    assert_eq!(db.get("without").unwrap().as_deref(), Some(&b""[..]));
    compact(db.db());
    assert_eq!(keys(db.db()), ["with", "without"]);
    db.db().put_entity("old", [("", stored("value", 1001))]).unwrap();
    db.db().put_entity("timeless", [("", "x")]).unwrap();
    compact(db.db());
    assert_eq!(keys(db.db()), ["timeless", "with", "without"]);
    db.db().close().unwrap();
}

/// Neither what is returned nor what the callback is shown has the times.
#[pumice_test_macros::test]
fn operands_come_without_their_times() {
    let (_, fs) = memory();
    let db = DbWithTtl::open(&ttl_options(&fs), DIR, 1000).unwrap();
    let cf = db.create_column_family(&ttl_options(&fs).cf, "other", 1000).unwrap();
    db.put("k", "base").unwrap();
    db.db().flush_all().unwrap();
    for operand in ["a", "b"] {
        db.merge("k", operand).unwrap();
        db.merge_cf(&cf, "k", operand.to_uppercase()).unwrap();
        if operand == "a" {
            // The others stay in memory.
            db.db().flush_all().unwrap();
        }
    }
    let before = ReadOptions::at(&db.db().snapshot());
    db.merge("k", "c").unwrap();
    let texts = |found: pumice::Result<Vec<pumice::PinnedSlice>>| {
        let found = found.unwrap();
        found.iter().map(|one| String::from_utf8_lossy(one).into_owned()).collect::<Vec<_>>()
    };
    let shown = std::cell::RefCell::new(Vec::new());
    let until_b = |operand: &[u8]| {
        shown.borrow_mut().push(operand.to_vec());
        operand != b"b"
    };
    let all = GetMergeOperandsOptions::at_most(4);
    let mut number = 0;
    assert_eq!(texts(db.get_merge_operands("k", &all, &mut number)), ["base", "a", "b", "c"]);
    assert_eq!(number, 4);
    let old = db.get_merge_operands_opt(&before, "k", &all, &mut number);
    assert_eq!(texts(old), ["base", "a", "b"]);
    assert_eq!(texts(db.get_merge_operands_cf(&cf, "k", &all, &mut number)), ["A", "B"]);
    let old = db.get_merge_operands_cf_opt(&before, &cf, "k", &all, &mut number);
    assert_eq!(texts(old), ["A", "B"]);
    shown.borrow_mut().clear();
    let newest = all.while_true(&until_b);
    assert_eq!(texts(db.get_merge_operands("k", &newest, &mut number)), ["b", "c"]);
    assert_eq!(*shown.borrow(), [b"c", b"b"]);
    let few = GetMergeOperandsOptions::at_most(3);
    let error = db.get_merge_operands("k", &few, &mut number).unwrap_err();
    assert_eq!((error.kind(), number), (ErrorKind::Incomplete, 4));
    // The callback is not shown what has no time; the answer is the error.
    db.db().merge("k", "bad").unwrap();
    shown.borrow_mut().clear();
    let error = db.get_merge_operands("k", &all.while_true(&until_b), &mut number).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(shown.borrow().is_empty());
    let error = db.get_merge_operands("k", &all, &mut number).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    drop((before, cf));
    db.db().close().unwrap();
}

/// Leveled families are rewritten at the end of their time to live if nothing else is set, and that
/// time follows `set_ttl`.
#[pumice_test_macros::test]
fn the_period_of_compactions_is_the_time_to_live() {
    let (_, fs) = memory();
    let options = ttl_options(&fs);
    let mut own = options.cf.clone();
    own.periodic_compaction_seconds = 500;
    let families = [("default", options.cf.clone()), ("own", own)]
        .map(|(name, options)| (ColumnFamilyDescriptor::new(name, options), 1000));
    let (db, families) = DbWithTtl::open_cf(&options.db, DIR, &families).unwrap();
    let periods = || {
        let options = families.iter().map(|cf| db.db().column_family_options(cf).unwrap());
        options.map(|options| options.periodic_compaction_seconds).collect::<Vec<_>>()
    };
    assert_eq!(periods(), [1000, 500]);
    families.iter().for_each(|cf| db.set_ttl(cf, 2000).unwrap());
    assert_eq!(periods(), [2000, 500]);
    db.db().close().unwrap();
}

/// Removes operands `bad`, and notes what it is asked about.
#[derive(Default)]
struct NoBad(Mutex<Vec<Vec<u8>>>);

impl CompactionFilter for NoBad {
    fn name(&self) -> &str {
        "NoBad"
    }
    fn filter(&self, _level: i32, _key: &[u8], _value: &[u8]) -> FilterDecision {
        FilterDecision::Keep
    }
    fn filter_merge_operand(&self, _level: i32, _key: &[u8], operand: &[u8]) -> bool {
        self.0.lock().push(operand.to_vec());
        operand == b"bad"
    }
}

#[pumice_test_macros::test]
fn filters_of_the_user_see_operands_without_their_times() {
    let (_, fs) = memory();
    let mut options = ttl_options(&fs);
    let filter = Arc::new(NoBad::default());
    options.cf.compaction_filter = Some(Arc::clone(&filter) as Arc<dyn CompactionFilter>);
    let db = DbWithTtl::open(&options, DIR, 1000).unwrap();
    for operand in ["bad", "good"] {
        db.merge("k", operand).unwrap();
        db.db().flush_all().unwrap();
    }
    compact(db.db());
    let mut asked = std::mem::take(&mut *filter.0.lock());
    asked.sort();
    assert_eq!(asked, [&b"bad"[..], b"good"]);
    assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"good"[..]));
    db.db().close().unwrap();
}
