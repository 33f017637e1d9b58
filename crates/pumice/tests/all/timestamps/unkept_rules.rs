//! `persist_user_defined_timestamps=false`: what is refused, and what must not get lost when a
//! family gets its timestamps or loses them.
#![allow(clippy::unwrap_used)]

use std::cmp::Ordering;
use std::sync::Arc;

use pumice::{Comparator, CustomComparator, Db, Options, SstFileWriter, TransactionDb};

use super::{message, text, timed, unkept};
use crate::common::{DIR, flush, memory};

fn transactional(options: &Options) -> TransactionDb {
    TransactionDb::open(options, &Default::default(), DIR).unwrap()
}

fn prepare(db: &TransactionDb, keys: &[&str]) {
    let transaction = db.transaction();
    transaction.set_name("t").unwrap();
    keys.iter().for_each(|key| transaction.put(key, "v").unwrap());
    transaction.prepare().unwrap();
}

/// A section has the keys of the order that it was prepared in.
#[pumice_test_macros::test]
fn prepared_transactions_keep_the_order_of_their_keys() {
    for stamped in [false, true] {
        let files = memory().1;
        let mut orders = [crate::common::options(&files), unkept(&files)];
        orders[0].db.allow_concurrent_memtable_write = false;
        let [own, other] =
            if stamped { [&orders[1], &orders[0]] } else { [&orders[0], &orders[1]] };
        let db = transactional(own);
        prepare(&db, &["customer-1", "k"]);
        db.db().close().unwrap();
        let refused = message(TransactionDb::open(other, &Default::default(), DIR));
        assert!(refused.contains("prepared transaction"), "{refused}");
        assert!(refused.contains("timestamps"), "{refused}");
        let db = transactional(own);
        {
            let [found] = &db.prepared_transactions()[..] else { panic!() };
            if stamped {
                found.set_commit_timestamp(5).unwrap();
            }
            found.commit().unwrap();
        }
        db.db().close().unwrap();
        let db = transactional(other);
        for key in ["customer-1", "k"] {
            let found = match stamped {
                true => {
                    db.get(key).unwrap().map(|value| String::from_utf8(value.to_vec()).unwrap())
                }
                false => text(db.db(), 1, key),
            };
            assert_eq!(found.as_deref(), Some("v"), "{key}");
        }
        db.db().close().unwrap();
    }
}

/// An update that a flush has taken the time off is not overwritten unseen.
#[pumice_test_macros::test]
fn validation_by_time_finds_what_was_flushed_since() {
    let db = transactional(&unkept(&memory().1));
    let commit = |time: u64, value: &str| {
        let transaction = db.transaction();
        transaction.put("k", value).unwrap();
        transaction.set_commit_timestamp(time).unwrap();
        transaction.commit().unwrap();
    };
    commit(3, "three");
    let late = db.transaction();
    late.set_read_timestamp_for_validation(4).unwrap();
    commit(5, "five");
    flush(db.db());
    let error = late.put("k", "late").unwrap_err();
    assert!(error.is_busy() || error.kind() == pumice::ErrorKind::TryAgain, "{error}");
    assert!(late.delete("unknown").is_err(), "what is in tables has no times");
    let now = db.transaction();
    now.set_read_timestamp_for_validation(6).unwrap();
    now.put("k", "six").unwrap();
    now.set_commit_timestamp(7).unwrap();
    now.commit().unwrap();
    assert_eq!(text(db.db(), 7, "k").as_deref(), Some("six"));
}

/// Keys end with `size` bytes of time, whatever the name promises.
struct Named {
    size: usize,
    big_endian: bool,
}

impl Named {
    fn parts<'k>(&self, key: &'k [u8]) -> (&'k [u8], Vec<u8>) {
        let (key, time) = key.split_at(key.len() - self.size);
        let mut time = time.to_vec();
        if !self.big_endian {
            time.reverse();
        }
        (key, time)
    }
}

impl CustomComparator for Named {
    fn name(&self) -> &str {
        "mine.u64ts"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let ((a, at), (b, bt)) = (self.parts(a), self.parts(b));
        a.cmp(b).then(bt.cmp(&at))
    }
    fn can_keys_with_different_byte_contents_be_equal(&self) -> bool {
        false
    }
    fn timestamp_size(&self) -> usize {
        self.size
    }
    fn compare_timestamp(&self, a: &[u8], b: &[u8]) -> Ordering {
        let (mut a, mut b) = (a.to_vec(), b.to_vec());
        if !self.big_endian {
            a.reverse();
            b.reverse();
        }
        a.cmp(&b)
    }
}

#[pumice_test_macros::test]
fn only_numbers_of_8_bytes_are_taken_off() {
    for (size, big_endian) in [(4, false), (16, false), (8, true), (8, false)] {
        let mut options = unkept(&memory().1);
        options.cf.comparator = Comparator::Custom(Arc::new(Named { size, big_endian }));
        if (size, big_endian) == (8, false) {
            let db = Db::open(&options, DIR).unwrap();
            db.at(300).put("k", "v").unwrap();
            flush(&db);
            assert_eq!(text(&db, 301, "k").as_deref(), Some("v"));
            continue;
        }
        let refused = message(Db::open(&options, DIR));
        assert!(refused.ends_with("formatted as uint64_t."), "{size}: {refused}");
    }
}

#[pumice_test_macros::test]
fn resolved_merges_are_refused() {
    let files = memory().1;
    let mut options = unkept(&files);
    options.cf.max_successive_merges = 1;
    let refused = message(Db::open(&options, DIR));
    assert!(refused.contains("max_successive_merges"), "{refused}");
    options.cf.max_successive_merges = 0;
    let db = Db::open(&options, DIR).unwrap();
    let refused = message(db.set_options(&[("max_successive_merges", "2")]));
    assert!(refused.contains("max_successive_merges"), "{refused}");
    db.close().unwrap();
}

/// What was written last counts when two changes of the order left it in logs of both kinds.
#[pumice_test_macros::test]
fn two_changes_of_the_order_show_the_newest_values() {
    let files = memory().1;
    let (mut plain, mut stamped) = (crate::common::options(&files), unkept(&files));
    plain.db.avoid_flush_during_recovery = true;
    stamped.db.avoid_flush_during_recovery = true;
    let db = Db::open(&stamped, DIR).unwrap();
    db.at(5).put("k", "old").unwrap();
    db.close().unwrap();
    let db = Db::open(&plain, DIR).unwrap();
    assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"old"[..]));
    db.put("k", "new").unwrap();
    db.close().unwrap();
    let db = Db::open(&stamped, DIR).unwrap();
    assert_eq!(text(&db, 9, "k").as_deref(), Some("new"));
    flush(&db);
    assert_eq!(text(&db, 9, "k").as_deref(), Some("new"));
    db.close().unwrap();
}

fn external(options: &Options, path: &str, time: Option<u64>) {
    let mut writer = SstFileWriter::new(options).unwrap();
    writer.open(path).unwrap();
    match time {
        Some(time) => {
            writer.put_with_ts("a", time.to_le_bytes(), path).unwrap();
            writer.delete_with_ts("k", time.to_le_bytes()).unwrap();
        }
        None => writer.put("a", path).unwrap(),
    }
    writer.finish().unwrap();
}

/// A family without timestamps takes a file of one whose tables have none either.
#[pumice_test_macros::test]
fn plain_families_ingest_tables_without_timestamps_alone() {
    let files = memory().1;
    let plain = crate::common::options(&files);
    external(&unkept(&files), "/unkept.sst", Some(0));
    external(&timed(&files), "/timed.sst", Some(3));
    let mut named = plain.clone();
    named.cf.comparator = Comparator::builtin("rocksdb.ReverseBytewiseComparator").unwrap();
    external(&named, "/reverse.sst", None);
    let db = Db::open(&plain, DIR).unwrap();
    db.put("k", "here").unwrap();
    flush(&db);
    let ingest = |path: &str| db.ingest_external_file(&Default::default(), &[path]);
    for path in ["/timed.sst", "/reverse.sst"] {
        let refused = message(ingest(path));
        assert!(refused.starts_with("Invalid argument"), "{refused}");
    }
    ingest("/unkept.sst").unwrap();
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"/unkept.sst"[..]));
    assert_eq!(db.get("k").unwrap(), None);
    db.compact_range(&Default::default(), None, None).unwrap();
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"/unkept.sst"[..]));
    assert_eq!(db.get("k").unwrap(), None);
    let all: Vec<_> = db.range(..).unwrap().map(|row| row.unwrap().0).collect();
    assert_eq!(all, [b"a"]);
}

type Version = (String, u64, u8, String);

/// All versions up to a time: key, time, type, value.
fn versions(db: &Db, time: u64) -> Vec<Version> {
    let mut all = db.at(time).versions_since(0).unwrap();
    let mut found = Vec::new();
    all.seek_to_first();
    while let (Some(key), Some(value)) = (all.key(), all.value()) {
        let (rest, trailer) = key.split_last_chunk::<8>().unwrap();
        let (bare, time) = rest.split_last_chunk::<8>().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        found.push((text(bare), u64::from_le_bytes(*time), trailer[0], text(value)));
        all.next();
    }
    all.status().unwrap();
    found
}

/// Versions of tables have the oldest time, and of those that a snapshot keeps the last one shows.
/// A secondary shows the same, also what its memtable still has with times.
#[pumice_test_macros::test]
fn all_versions_are_those_of_memtables_and_one_of_tables() {
    let options = unkept(&memory().1);
    let db = Db::open(&options, DIR).unwrap();
    let families = [pumice::ColumnFamilyDescriptor::new("default", options.cf.clone())];
    let (follower, _) = Db::open_as_secondary(&options.db, DIR, "/follower", &families).unwrap();
    db.at(1).put("a", "a1").unwrap();
    let snapshot = db.snapshot();
    db.at(2).put("a", "a2").unwrap();
    db.at(2).put("b", "b2").unwrap();
    follower.try_catch_up_with_primary().unwrap();
    flush(&db);
    db.at(6).put("a", "a6").unwrap();
    db.at(6).delete("c").unwrap();
    db.at(8).put("c", "c8").unwrap();
    follower.try_catch_up_with_primary().unwrap();
    let version = |key: &str, time, kind, value: &str| -> Version {
        (key.to_string(), time, kind, value.to_string())
    };
    let expected = [
        version("a", 6, 1, "a6"),
        version("a", 0, 1, "a2"),
        version("b", 0, 1, "b2"),
        version("c", 6, 0x14, ""),
    ];
    assert_eq!(versions(&db, 7), expected);
    assert_eq!(versions(&follower, 7), expected);
    drop(snapshot);
}
