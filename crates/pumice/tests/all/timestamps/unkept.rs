//! `persist_user_defined_timestamps=false`: timestamps in memtables and logs, none in tables.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use pumice::{ColumnFamilyDescriptor, CompactRangeOptions, Db, Options, PosixFs, SstFileWriter};
use pumice_peer::{CompactRangeSettings, Peer};

use super::sides::{Ours, Row, Side, Theirs, Walk};
use super::{message, text, timed, unkept};
use crate::common::{DIR, Scratch, flush};

fn low(db: &Db) -> Option<u64> {
    let low = db.full_history_ts_low(db.default_column_family()).unwrap();
    low.map(|low| u64::from_le_bytes(low.try_into().unwrap()))
}

fn rows(db: &Db, time: u64) -> Vec<(String, String)> {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let rows = db.at(time).range(..).unwrap().map(|row| row.unwrap());
    let forward: Vec<_> = rows.map(|(key, value)| (text(key), text(value))).collect();
    let back = db.at(time).range(..).unwrap().rev().map(|row| row.unwrap());
    let mut back: Vec<_> = back.map(|(key, value)| (text(key), text(value))).collect();
    back.reverse();
    assert_eq!(forward, back);
    forward
}

fn row(key: &str, value: &str) -> (String, String) {
    (key.to_string(), value.to_string())
}

#[pumice_test_macros::test]
fn tables_lose_timestamps_and_flushes_raise_the_low() {
    let options = unkept(&crate::common::memory().1);
    let db = Db::open(&options, DIR).unwrap();
    db.at(1).put("a", "a1").unwrap();
    db.at(2).put("a", "a2").unwrap();
    db.at(2).put("b", "b2").unwrap();
    db.at(3).delete("b").unwrap();
    db.at(3).put("c", "c3").unwrap();
    db.at(4).delete_range("c", "d").unwrap();
    db.at(4).merge("m", "1").unwrap();
    assert_eq!((text(&db, 1, "a").as_deref(), low(&db)), (Some("a1"), None));
    flush(&db);
    assert_eq!(low(&db), Some(5));
    let early = message(db.at(4).get("a"));
    let expected = "Invalid argument: Read timestamp: 4 is smaller than full_history_ts_low: 5\n";
    assert_eq!(early, expected);
    assert_eq!(message(db.at(4).cursor()), early);
    assert_eq!(rows(&db, 5), [row("a", "a2"), row("m", "1")]);
    let (value, time) = db.at(9).get_with_timestamp("a").unwrap().unwrap();
    assert_eq!((&*value, &time[..]), (&b"a2"[..], &[0; 8][..]));

    db.at(6).put("a", "a6").unwrap();
    db.at(7).merge("m", "7").unwrap();
    db.at(8).delete("m").unwrap();
    db.at(8).put("c", "c8").unwrap();
    let (_, time) = db.at(9).get_with_timestamp("a").unwrap().unwrap();
    assert_eq!(time, 6u64.to_le_bytes());
    for round in 0..2 {
        assert_eq!(rows(&db, 5), [row("a", "a2"), row("m", "1")], "{round}");
        assert_eq!(rows(&db, 7), [row("a", "a6"), row("m", "1,7")], "{round}");
        assert_eq!(rows(&db, 8), [row("a", "a6"), row("c", "c8")], "{round}");
        assert_eq!(text(&db, 7, "m").as_deref(), Some("1,7"));
        assert_eq!((text(&db, 8, "m"), text(&db, 5, "b"), text(&db, 5, "c")), (None, None, None));
        let all = db.at(7).versions_since(0).unwrap();
        assert!(all.status().is_ok());
        // A compaction keeps them as well, for it has no times.
        let end = if round == 0 { Some(&b"0"[..]) } else { None };
        db.compact_range(&CompactRangeOptions::default(), Some(b"0"), end).unwrap();
        assert_eq!(low(&db), Some(if round == 0 { 5 } else { 9 }));
    }
    assert_eq!(rows(&db, 9), [row("a", "a6"), row("c", "c8")]);
    db.at(10).put("a", "a10").unwrap();
    db.close().unwrap();
    // What the log had is in a table now.
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!(low(&db), Some(11));
    assert_eq!(rows(&db, 11), [row("a", "a10"), row("c", "c8")]);
    db.close().unwrap();
    let mut kept = options.clone();
    kept.db.avoid_flush_during_recovery = true;
    let db = Db::open(&kept, DIR).unwrap();
    db.at(12).put("a", "a12").unwrap();
    db.close().unwrap();
    let db = Db::open(&kept, DIR).unwrap();
    assert_eq!((low(&db), text(&db, 11, "a").as_deref()), (Some(11), Some("a10")));
    assert_eq!(text(&db, 12, "a").as_deref(), Some("a12"));
}

/// A snapshot keeps versions apart in a table, by sequence numbers alone.
#[pumice_test_macros::test]
fn snapshots_see_what_they_saw_before_the_flush() {
    let options = unkept(&crate::common::memory().1);
    let db = Db::open(&options, DIR).unwrap();
    let mut snapshots = Vec::new();
    // Times that go down too: what was written last counts, once times are gone.
    for (time, value) in [(3, "a"), (5, "b"), (4, "c"), (9, "d")] {
        db.at(time).put("k", value).unwrap();
        db.at(time).merge("m", value).unwrap();
        snapshots.push((db.snapshot(), value));
    }
    flush(&db);
    for pass in 0..2 {
        let mut merged = String::new();
        for (snapshot, value) in &snapshots {
            let at = || db.at(10).reading(pumice::ReadOptions::at(snapshot));
            assert_eq!(at().get("k").unwrap().as_deref(), Some(value.as_bytes()), "{pass}");
            merged = format!("{merged}{}{value}", if merged.is_empty() { "" } else { "," });
            assert_eq!(at().get("m").unwrap().as_deref(), Some(merged.as_bytes()), "{pass}");
            let found: Vec<_> = at().range(..).unwrap().map(|row| row.unwrap().1).collect();
            assert_eq!(found, [value.as_bytes(), merged.as_bytes()], "{pass}");
        }
        db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    }
}

/// A full memtable waits while readers may ask for its times, and writes go on.
#[pumice_test_macros::test]
fn flushes_wait_for_the_low() {
    let mut options = unkept(&crate::common::memory().1);
    (options.cf.write_buffer_size, options.cf.max_write_buffer_number) = (64 << 10, 8);
    let db = Db::open(&options, DIR).unwrap();
    let value = "v".repeat(2000);
    let fill = |from: u64| {
        for time in from..from + 100 {
            db.at(time).put(format!("k{time}"), &value).unwrap();
        }
        db.wait_for_compact(&Default::default()).unwrap();
    };
    let waiting = || {
        let text = db.property("rocksdb.num-immutable-mem-table").unwrap();
        text.parse::<u64>().unwrap()
    };
    // Without a low nobody asked for times to be kept.
    fill(1);
    let (first, before) = (low(&db).unwrap(), waiting());
    fill(101);
    assert!(waiting() > before);
    assert_eq!(low(&db), Some(first));
    assert_eq!(text(&db, first, "k150"), None);
    assert_eq!(text(&db, 150, "k150").as_deref(), Some(&value[..]));
    db.increase_full_history_ts_low(db.default_column_family(), 1000).unwrap();
    db.wait_for_compact(&Default::default()).unwrap();
    assert_eq!((waiting(), low(&db)), (0, Some(1000)));
    fill(1000);
    let before = waiting();
    assert!(before > 0);
    // Asked for, it does not wait.
    flush(&db);
    assert_eq!((waiting(), low(&db)), (0, Some(1100)));
    // Nor does it stop writes.
    for time in 2000..2600 {
        db.at(time).put(format!("k{time}"), &value).unwrap();
    }
    assert!(low(&db).unwrap() > 2000);
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn what_does_not_go_with_it_is_refused_in_rocksdbs_words() {
    let files = crate::common::memory().1;
    let refused = |change: &dyn Fn(&mut Options)| {
        let mut options = unkept(&files);
        change(&mut options);
        message(Db::open(&options, DIR))
    };
    let concurrent = refused(&|options| options.db.allow_concurrent_memtable_write = true);
    assert!(concurrent.ends_with("combination with concurrent memtable write."), "{concurrent}");
    let atomic = refused(&|options| options.db.atomic_flush = true);
    assert!(atomic.ends_with("combination with atomic flush."), "{atomic}");

    // Orders that come and go.
    let plain = crate::common::options(&files);
    let db = Db::open(&plain, DIR).unwrap();
    db.put("old", "table").unwrap();
    flush(&db);
    db.put("log", "log").unwrap();
    db.close().unwrap();
    let toggled = message(Db::open(&timed(&files), DIR));
    assert!(toggled.contains("enable user-defined timestamps feature without"), "{toggled}");
    let options = unkept(&files);
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!(rows(&db, 1).len(), 2, "what was there has the oldest time");
    db.at(5).put("new", "5").unwrap();
    db.at(6).delete("old").unwrap();
    assert_eq!(rows(&db, 5).len(), 3);
    db.close().unwrap();
    let kept = message(Db::open(&timed(&files), DIR));
    assert!(kept.contains("Cannot toggle the persist_user_defined_timestamps"), "{kept}");
    let families = [ColumnFamilyDescriptor::new("default", options.cf.clone())];
    let trimmed = message(Db::open_and_trim_history(&options.db, DIR, &families, 1));
    assert!(trimmed.starts_with("Not implemented: OpenAndTrimHistory"), "{trimmed}");
    // And without timestamps again: the log has them.
    let db = Db::open(&plain, DIR).unwrap();
    assert_eq!(db.get("new").unwrap().as_deref(), Some(&b"5"[..]));
    assert_eq!((db.get("old").unwrap(), db.get("log").unwrap().is_some()), (None, true));
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn secondaries_and_readers_have_what_the_primary_has() {
    let options = unkept(&crate::common::memory().1);
    let primary = Db::open(&options, DIR).unwrap();
    let families = [ColumnFamilyDescriptor::new("default", options.cf.clone())];
    let (follower, _) = Db::open_as_secondary(&options.db, DIR, "/follower", &families).unwrap();
    for time in 1..12 {
        primary.at(time).put("k", time.to_string()).unwrap();
        primary.at(time).put(format!("k{time}"), "v").unwrap();
        if time % 3 == 0 {
            flush(&primary);
        }
        follower.try_catch_up_with_primary().unwrap();
        assert_eq!(low(&follower), low(&primary), "{time}");
        for seen in low(&primary).unwrap_or(0)..time + 2 {
            assert_eq!(rows(&follower, seen), rows(&primary, seen), "{time}");
        }
    }
    let (db, _) = Db::open_read_only(&options.db, DIR, &families, false).unwrap();
    assert_eq!((low(&db), rows(&db, 11)), (low(&primary), rows(&primary, 11)));
}

fn peer() -> Option<Peer> {
    pumice_peer::installed_11_8().map(|library| Peer::load(library).unwrap())
}

const TEXT: &str = "persist_user_defined_timestamps=false;allow_concurrent_memtable_write=false";

fn all(side: &dyn Side, time: u64) -> Vec<Row> {
    let mut rows = side.walk(time, &Walk::default()).unwrap();
    let mut back = side.walk(time, &Walk { backward: true, ..Walk::default() }).unwrap();
    back.reverse();
    assert_eq!(rows, back, "{}", side.name());
    rows.iter().for_each(|(key, at, value)| {
        let (found, found_at) = side.get(time, key).unwrap().unwrap();
        assert_eq!(found, *value, "{} at {time}: {key:?} of {at}", side.name());
        // RocksDB gives merged values the time of their base.
        assert!(found_at == *at || side.name() == "RocksDB", "{key:?}: {found_at} and {at}");
    });
    rows.sort();
    rows
}

/// Writes of one turn: keys that stay, change, are deleted alone and in ranges, operands.
fn turn(side: &mut dyn Side, number: u64) {
    let mut batch = pumice::WriteBatch::new();
    for n in 0..40u64 {
        let time = (number * 100 + n).to_le_bytes();
        let key = format!("key{:03}", (n * 7 + number) % 50);
        match n % 8 {
            0 => batch.delete_cf_with_ts(0, &key, time),
            1 => batch.merge_cf_with_ts(0, &key, time, n.to_string()),
            2 => batch.delete_range_cf_with_ts(0, &key, format!("{key}~"), time),
            _ => batch.put_cf_with_ts(0, &key, time, format!("{number}-{n}")),
        };
    }
    side.write(&batch);
}

// Plain #[test]: the engines work on real files, and RocksDB has its own threads.
#[test]
fn databases_go_from_one_engine_to_the_other() {
    let Some(peer) = peer() else { return };
    let dir = Scratch::new("unkept");
    std::fs::create_dir_all(&dir.0).unwrap();
    let path = dir.0.join("db");
    for number in 1..9u64 {
        let mut ours = Ours::open(unkept(&(Arc::new(PosixFs) as _)), &path);
        turn(&mut ours, number * 2);
        let low = low(ours.db()).unwrap_or(0);
        let expected: Vec<_> = (low..low + 300).step_by(7).map(|time| all(&ours, time)).collect();
        assert!(number < 2 || !expected[0].is_empty());
        if number % 2 == 0 {
            ours.flush();
        }
        if number % 4 == 0 {
            ours.compact(None);
        }
        let last = all(&ours, u64::MAX);
        drop(ours);
        let mut theirs = Theirs::open(&peer, &path, TEXT);
        let zeroed = |rows: &[Row]| rows.iter().map(|r| (r.0.clone(), 0, r.2.clone())).collect();
        let last: Vec<Row> = zeroed(&last);
        assert_eq!(zeroed(&all(&theirs, u64::MAX)) as Vec<Row>, last, "{number}");
        turn(&mut theirs, number * 2 + 1);
        if number % 3 == 0 {
            theirs.flush();
        }
        if number % 4 == 1 {
            let forced = CompactRangeSettings { bottommost_level: 2, ..Default::default() };
            let family = theirs.db().default_column_family();
            theirs.db().compact_range(family, None, None, &forced);
        }
        let last: Vec<Row> = zeroed(&all(&theirs, u64::MAX));
        drop(theirs);
        let ours = Ours::open(unkept(&(Arc::new(PosixFs) as _)), &path);
        assert_eq!(zeroed(&all(&ours, u64::MAX)) as Vec<Row>, last, "{number}");
        drop(ours);
    }
    std::fs::remove_dir_all(&dir.0).unwrap();
}

/// Families get timestamps and lose them again, in either engine.
// Plain #[test]: the engines work on real files, and RocksDB has its own threads.
#[test]
fn timestamps_come_and_go_in_both_engines() {
    let Some(peer) = peer() else { return };
    let dir = Scratch::new("unkept-toggle");
    std::fs::create_dir_all(&dir.0).unwrap();
    let files: Arc<dyn pumice::FileSystem> = Arc::new(PosixFs);
    let mut options = timed(&files);
    options.cf.comparator = pumice::Comparator::Bytewise;
    let plain = || Db::open(&options, dir.0.join("db")).unwrap();
    let db = plain();
    db.put("plain", "1").unwrap();
    flush(&db);
    db.put("log", "2").unwrap();
    db.close().unwrap();
    let mut known = 2;
    for round in 0..4 {
        let theirs = round % 2 == 0;
        let mut side: Box<dyn Side + '_> = match theirs {
            true => Box::new(Theirs::open(&peer, &dir.0.join("db"), TEXT)),
            false => Box::new(Ours::open(unkept(&files), &dir.0.join("db"))),
        };
        assert_eq!(all(&*side, u64::MAX).len(), known, "{round}");
        turn(&mut *side, 3 + round);
        let expected: Vec<_> = all(&*side, u64::MAX).into_iter().map(|row| row.0).collect();
        if round > 1 {
            side.flush();
        }
        drop(side);
        let db = plain();
        let found: Vec<_> = db.range(..).unwrap().map(|row| row.unwrap().0).collect();
        assert_eq!(found, expected, "{round}");
        known = found.len();
        db.put(format!("round{round}"), "v").unwrap();
        known += 1;
        db.close().unwrap();
    }
    std::fs::remove_dir_all(&dir.0).unwrap();
}

fn external(options: &Options, path: &str, stamp: Option<u64>, keys: &[&str]) {
    let mut writer = SstFileWriter::new(options).unwrap();
    writer.open(path).unwrap();
    for key in keys {
        match stamp {
            Some(time) => writer.put_with_ts(key, time.to_le_bytes(), path).unwrap(),
            None => writer.put(key, path).unwrap(),
        }
    }
    writer.finish().unwrap();
}

/// Files from outside have the oldest time, or come from a family that never had times.
#[pumice_test_macros::test]
fn files_without_timestamps_are_ingested_and_exported() {
    let files = crate::common::memory().1;
    let (options, plain) = (unkept(&files), crate::common::options(&files));
    let db = Db::open(&options, DIR).unwrap();
    db.at(5).put("b", "5").unwrap();
    let ingest = |path| db.ingest_external_file(&Default::default(), &[path]);
    external(&options, "/own.sst", Some(0), &["c", "d"]);
    external(&plain, "/plain.sst", None, &["e"]);
    external(&timed(&files), "/stamped.sst", Some(3), &["x"]);
    external(&options, "/shared.sst", Some(0), &["a", "z"]);
    let mut writer = SstFileWriter::new(&options).unwrap();
    writer.open("/refused.sst").unwrap();
    let late = message(writer.put_with_ts("k", 1u64.to_le_bytes(), "v"));
    assert!(late.ends_with("only minimum timestamp is accepted."), "{late}");
    drop(writer);
    ingest("/own.sst").unwrap();
    ingest("/plain.sst").unwrap();
    let stamped = message(ingest("/stamped.sst"));
    assert!(stamped.contains("Cannot toggle the persist_user_defined_timestamps"), "{stamped}");
    let shared = message(ingest("/shared.sst"));
    assert!(shared.ends_with("overlap with key range in the memtables."), "{shared}");
    let expected =
        [row("b", "5"), row("c", "/own.sst"), row("d", "/own.sst"), row("e", "/plain.sst")];
    assert_eq!(rows(&db, 9), expected);
    assert_eq!(rows(&db, 4), expected[1..]);
    flush(&db);
    let shared = message(ingest("/shared.sst"));
    assert!(shared.ends_with("(without timestamp) in the db"), "{shared}");
    db.at(10).delete("d").unwrap();
    db.close().unwrap();
    let db = Db::open(&options, DIR).unwrap();
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    assert_eq!(rows(&db, 11), [&expected[..2], &expected[3..]].concat());
    db.close().unwrap();
    let mut reader = pumice::SstFileReader::new(&options).unwrap();
    reader.open("/own.sst").unwrap();
    assert_eq!(reader.table_properties().unwrap().user_timestamps_persisted, 0);
    reader.verify_checksum().unwrap();
}

#[pumice_test_macros::test]
fn transactions_find_conflicts_in_memory_and_in_tables() {
    let options = unkept(&crate::common::memory().1);
    let db = pumice::TransactionDb::open(&options, &Default::default(), DIR).unwrap();
    let commit = |time: u64, value: &str| {
        let transaction = db.transaction();
        transaction.put("k", value).unwrap();
        transaction.set_commit_timestamp(time).unwrap();
        transaction.commit().unwrap();
    };
    commit(5, "five");
    let late = db.transaction();
    late.set_read_timestamp_for_validation(4).unwrap();
    assert!(late.get_for_update("k").unwrap_err().is_busy());
    drop(late);
    flush(db.db());
    commit(9, "nine");
    let snapshot = db.transaction();
    snapshot.set_snapshot();
    commit(10, "ten");
    flush(db.db());
    assert!(snapshot.put("k", "late").unwrap_err().is_busy());
    let at = |time: u64| text(db.db(), time, "k");
    assert_eq!(at(11).as_deref(), Some("ten"));
}
