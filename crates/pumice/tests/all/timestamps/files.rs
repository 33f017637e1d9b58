//! Files from outside with timestamps, and databases that are opened as of an earlier time.
#![allow(clippy::unwrap_used)]

use pumice::{
    ColumnFamilyDescriptor, Db, IngestExternalFileOptions, Options, SstFileWriter, WriteBatch,
};

use super::{database, message, text};
use crate::common::{DIR, flush};

fn time(time: u64) -> [u8; 8] {
    time.to_le_bytes()
}

/// A file with these puts, or deletions, of keys at times.
fn file(options: &Options, path: &str, rows: &[(&str, u64, Option<&str>)]) {
    let mut writer = SstFileWriter::new(options).unwrap();
    writer.open(path).unwrap();
    for (key, at, value) in rows {
        match value {
            Some(value) => writer.put_with_ts(key, time(*at), value).unwrap(),
            None => writer.delete_with_ts(key, time(*at)).unwrap(),
        }
    }
    writer.finish().unwrap();
}

#[pumice_test_macros::test]
fn files_with_timestamps_are_ingested_where_no_key_is_shared() {
    let (db, options) = database();
    let rows = [("b", 5, None), ("b", 3, Some("b3")), ("c", 4, Some("c4"))];
    file(&options, "/one.sst", &rows);
    let ingest =
        |path: &[&str]| db.ingest_external_file(&IngestExternalFileOptions::default(), path);
    db.at(1).put("a", "a1").unwrap();
    ingest(&["/one.sst"]).unwrap();
    assert_eq!((text(&db, 3, "b").as_deref(), text(&db, 2, "b")), (Some("b3"), None));
    assert_eq!((text(&db, 9, "b"), text(&db, 9, "c").as_deref()), (None, Some("c4")));
    db.at(7).delete("c").unwrap();
    assert_eq!((text(&db, 7, "c"), text(&db, 6, "c").as_deref()), (None, Some("c4")));

    // Other times of a key that is there, in a memtable and in a file.
    file(&options, "/newer.sst", &[("c", 9, Some("c9"))]);
    let memtable = message(ingest(&["/newer.sst"]));
    assert!(memtable.ends_with("overlap with key range in the memtables."), "{memtable}");
    flush(&db);
    let level = message(ingest(&["/newer.sst"]));
    assert!(level.ends_with("overlap with key range (without timestamp) in the db"), "{level}");
    file(&options, "/x1.sst", &[("x", 1, Some("x1"))]);
    file(&options, "/x2.sst", &[("x", 2, Some("x2"))]);
    let both = message(ingest(&["/x1.sst", "/x2.sst"]));
    assert!(both.starts_with("Not implemented: Files with overlapping ranges"), "{both}");
    assert_eq!(text(&db, 9, "x"), None);
    db.close().unwrap();
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!((text(&db, 4, "c").as_deref(), text(&db, 9, "c")), (Some("c4"), None));
}

#[pumice_test_macros::test]
fn a_writer_of_files_takes_keys_ascending_and_times_descending() {
    let (_, options) = database();
    let mut writer = SstFileWriter::new(&options).unwrap();
    writer.open("/file.sst").unwrap();
    let size = "Invalid argument: Timestamp size mismatch";
    assert_eq!(message(writer.put("k", "v")), size);
    assert_eq!(message(writer.delete("k")), size);
    assert_eq!(message(writer.put_with_ts("k", [1], "v")), size);
    assert_eq!(message(writer.delete_with_ts("k", [1])), size);
    writer.put_with_ts("k", time(5), "v").unwrap();
    writer.put_with_ts("k", time(6), "v").unwrap_err();
    writer.put_with_ts("k", time(4), "v").unwrap();
    assert_eq!(message(writer.delete_range("a", "b")), size);
    assert_eq!(message(writer.delete_range_with_ts("a", "b", [1])), size);
    let mut plain = SstFileWriter::new(&crate::common::options(&options.db.file_system)).unwrap();
    plain.open("/plain.sst").unwrap();
    assert_eq!(message(plain.put_with_ts("k", time(1), "v")), size);
    assert_eq!(message(plain.delete_with_ts("k", [])), size);
}

#[pumice_test_macros::test]
fn an_open_that_trims_leaves_the_database_of_that_time() {
    let (db, options) = database();
    let plain = db.create_cf("plain", &Default::default()).unwrap();
    for at in 1..=9 {
        db.at(at).put("k", at.to_string()).unwrap();
        db.at(at).put(format!("new{at}"), "v").unwrap();
        if at % 3 == 0 {
            flush(&db);
        }
    }
    db.at(8).delete("new2").unwrap();
    db.put_cf(&plain, "plain", "value").unwrap();
    let mut batch = WriteBatch::new();
    batch.put_cf_with_ts(db.default_column_family(), "last", time(6), "in the log");
    db.write(&mut batch).unwrap();
    db.close().unwrap();

    let families = [("default", options.cf.clone()), ("plain", Default::default())];
    let families = families.map(|(name, cf)| ColumnFamilyDescriptor::new(name, cf));
    let mut avoiding = options.db.clone();
    avoiding.avoid_flush_during_recovery = true;
    let refused = message(Db::open_and_trim_history(&avoiding, DIR, &families, 6));
    assert!(refused.contains("avoid_flush_during_recovery incompatible"), "{refused}");
    let short = Db::open_and_trim_history(&options.db, DIR, &families, vec![6]);
    assert!(message(short).contains("size mismatch"));
    for round in 0..2 {
        let (db, handles) = match round {
            0 => Db::open_and_trim_history(&options.db, DIR, &families, 6).unwrap(),
            _ => Db::open_cf(&options.db, DIR, &families).unwrap(),
        };
        assert_eq!(text(&db, u64::MAX, "k").as_deref(), Some("6"));
        assert_eq!(text(&db, 5, "k").as_deref(), Some("5"));
        assert_eq!((text(&db, 9, "new7"), text(&db, 9, "new2").as_deref()), (None, Some("v")));
        assert_eq!(text(&db, 9, "last").as_deref(), Some("in the log"));
        assert_eq!(db.get_cf(&handles[1], "plain").unwrap().as_deref(), Some(&b"value"[..]));
        db.close().unwrap();
    }
}

/// A follower has all times; what knows nothing of timestamps says so, and changes nothing.
#[pumice_test_macros::test]
fn what_does_not_know_timestamps_refuses_them_by_name() {
    let (db, options) = database();
    db.at(1).put("k", "v").unwrap();
    db.close().unwrap();
    let ttl = message(pumice::DbWithTtl::open(&options, DIR, 5));
    assert!(ttl.contains("time to live of keys with timestamps"), "{ttl}");
    // Without a change of the MANIFEST, and with one.
    let primary = Db::open(&options, DIR).unwrap();
    let families = [ColumnFamilyDescriptor::new("default", options.cf.clone())];
    let (follower, _) = Db::open_as_secondary(&options.db, DIR, "/follower", &families).unwrap();
    for time in 2..12 {
        primary.at(time).put("k", time.to_string()).unwrap();
        primary.at(time).delete_range("a", "b").unwrap();
        primary.at(time).put("a", time.to_string()).unwrap();
        if time % 3 == 0 {
            flush(&primary);
        }
        follower.try_catch_up_with_primary().unwrap();
        for seen in 1..=time {
            assert_eq!(text(&follower, seen, "k"), text(&primary, seen, "k"), "{time}");
            assert_eq!(text(&follower, seen, "a"), text(&primary, seen, "a"), "{time}");
        }
        assert_eq!(text(&follower, time, "k"), Some(time.to_string()));
    }
    primary.increase_full_history_ts_low(primary.default_column_family(), 9u64).unwrap();
    follower.try_catch_up_with_primary().unwrap();
    assert_eq!(message(follower.at(8).get("k")), message(primary.at(8).get("k")));
    follower.close().unwrap();
    primary.close().unwrap();
    let read = [ColumnFamilyDescriptor::new("default", options.cf.clone())];
    let (db, _) = Db::open_read_only(&options.db, DIR, &read, false).unwrap();
    assert_eq!(
        (text(&db, 9, "k").as_deref(), text(&db, 20, "a").as_deref()),
        (Some("9"), Some("11"))
    );
}
