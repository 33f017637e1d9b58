//! What a primary may do while it is followed.

use std::path::Path;

use super::{BESIDE, contents_of, descriptors, follow};
use crate::common::{DIR, contents, fill, flush, get, key, let_files_go, memory, names, options};
use pumice::{
    CompactRangeOptions, Db, ErrorKind, FlushOptions, IngestExternalFileOptions, ReadOptions,
    SstFileWriter, WriteBatch,
};

fn compact(db: &Db) {
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
}

#[pumice_test_macros::test]
fn it_sees_what_was_written_when_it_catches_up() {
    let (_, fs) = memory();
    let primary = Db::open(&options(&fs), DIR).unwrap();
    fill(&primary, 0..10, "a");
    let before = names(&fs, DIR);
    let (secondary, _) = follow(&fs, &[]);
    assert_eq!(contents(&secondary), contents(&primary));
    assert_eq!(secondary.latest_sequence_number(), primary.latest_sequence_number());
    fill(&primary, 5..20, "b");
    assert_eq!(get(&secondary, &key(5)).as_deref(), Some(&b"a"[..]), "not before it is asked");
    assert_eq!(get(&secondary, &key(19)), None);
    secondary.try_catch_up_with_primary().unwrap();
    assert_eq!(contents(&secondary), contents(&primary));
    // Nothing was written there; the info log is in the other directory.
    assert_eq!(names(&fs, DIR), before);
    let log = fs.read_file(&Path::new(BESIDE).join("LOG")).unwrap();
    assert!(String::from_utf8_lossy(&log).contains("Opening the db in secondary mode"));
    // No news is not an error, and neither close deletes anything of the other's.
    secondary.try_catch_up_with_primary().unwrap();
    secondary.close().unwrap();
    let error = secondary.try_catch_up_with_primary().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ShutdownInProgress);
    primary.put("k", "v").unwrap();
    primary.close().unwrap();
}

#[pumice_test_macros::test]
fn flushes_compactions_and_new_manifests_are_followed() {
    let (_, fs) = memory();
    let mut with = options(&fs);
    with.db.max_manifest_file_size = 300;
    let primary = Db::open(&with, DIR).unwrap();
    let (secondary, _) = follow(&fs, &[]);
    for round in 0..30 {
        fill(&primary, round * 3..round * 3 + 20, &format!("round {round}"));
        primary.delete(key(round)).unwrap();
        if round % 2 == 0 {
            flush(&primary);
        }
        if round % 7 == 6 {
            compact(&primary);
        }
        if round % 5 == 4 {
            primary.delete_range(key(round * 2), key(round * 2 + 4)).unwrap();
        }
        if round % 3 == 0 {
            let_files_go(&primary);
            secondary.try_catch_up_with_primary().unwrap();
            assert_eq!(contents(&secondary), contents(&primary), "round {round}");
        }
    }
    // Memtables are dropped once their log's data is in tables.
    flush(&primary);
    secondary.try_catch_up_with_primary().unwrap();
    let sealed = secondary.property_int("rocksdb.num-immutable-mem-table").unwrap();
    let entries = secondary.property_int("rocksdb.num-entries-active-mem-table").unwrap();
    assert_eq!((sealed, entries), (0, 0));
    assert_eq!(contents(&secondary), contents(&primary));
    primary.close().unwrap();
    secondary.close().unwrap();
}

/// The log's part that was read already may be damaged later.
#[pumice_test_macros::test]
fn a_catch_up_reads_only_what_is_new() {
    let (memory, fs) = memory();
    let primary = Db::open(&options(&fs), DIR).unwrap();
    fill(&primary, 0..500, &"v".repeat(100));
    flush(&primary);
    fill(&primary, 300..800, &"w".repeat(100));
    let (secondary, _) = follow(&fs, &[]);
    for name in names(&fs, DIR) {
        if name.starts_with("MANIFEST") || name.ends_with(".log") {
            memory.damage(&Path::new(DIR).join(name), |bytes| bytes[20] ^= 1).unwrap();
        }
    }
    fill(&primary, 700..900, "new");
    flush(&primary);
    primary.put("k", "v").unwrap();
    secondary.try_catch_up_with_primary().unwrap();
    assert_eq!(contents(&secondary), contents(&primary));
    let families = descriptors(&options(&fs).cf, &["default"]);
    assert!(Db::open_as_secondary(&options(&fs).db, DIR, BESIDE, &families).is_err());
    primary.close().unwrap();
}

#[pumice_test_macros::test]
fn what_it_has_open_stays_readable() {
    let (_, fs) = memory();
    let mut with = options(&fs);
    let primary = Db::open(&with, DIR).unwrap();
    fill(&primary, 0..50, "a");
    flush(&primary);
    fill(&primary, 20..80, "b");
    flush(&primary);
    let expected = contents(&primary);
    let (secondary, _) = follow(&fs, &[]);
    with.db.max_open_files = 100;
    let families = descriptors(&with.cf, &["default"]);
    let (few, _) = Db::open_as_secondary(&with.db, DIR, "/few", &families).unwrap();
    compact(&primary);
    let_files_go(&primary);
    assert_eq!(contents(&secondary), expected, "its tables are open");
    let error = few.get(key(1)).unwrap_err();
    assert!(error.is_not_found() && error.to_string().contains(".sst"), "{error}");
    few.try_catch_up_with_primary().unwrap();
    assert_eq!(contents(&few), expected);
    // An iterator keeps its view.
    let mut cursor = secondary.cursor().unwrap();
    cursor.seek_to_first();
    fill(&primary, 0..100, "c");
    compact(&primary);
    let_files_go(&primary);
    secondary.try_catch_up_with_primary().unwrap();
    let mut seen = 0;
    while cursor.valid() {
        assert_eq!(cursor.key().zip(cursor.value()).unwrap().1, &expected[seen].1[..]);
        seen += 1;
        cursor.next();
    }
    assert_eq!(seen, expected.len());
    assert_eq!(contents(&secondary), contents(&primary));
    primary.close().unwrap();
}

#[pumice_test_macros::test]
fn a_primary_that_is_opened_again_is_followed() {
    let (_, fs) = memory();
    let with = options(&fs);
    let primary = Db::open(&with, DIR).unwrap();
    fill(&primary, 0..10, "a");
    let (secondary, _) = follow(&fs, &[]);
    for round in 0..4 {
        fill(&primary, round..round + 5, &format!("{round}"));
    }
    primary.close().unwrap();
    drop(primary);
    for round in 10..14 {
        let primary = Db::open(&with, DIR).unwrap();
        fill(&primary, round..round + 5, &format!("{round}"));
        if round == 12 {
            flush(&primary);
        }
        let expected = contents(&primary);
        primary.close().unwrap();
        if round % 2 == 0 {
            secondary.try_catch_up_with_primary().unwrap();
            assert_eq!(contents(&secondary), expected, "round {round}");
        }
    }
    // Gone, and another one made in its place.
    Db::destroy(&with, DIR).unwrap();
    let before = contents(&secondary);
    assert!(secondary.try_catch_up_with_primary().unwrap_err().is_not_found());
    let primary = Db::open(&with, DIR).unwrap();
    fill(&primary, 0..3, "other");
    let error = secondary.try_catch_up_with_primary().unwrap_err();
    assert!(error.is_corruption() && error.to_string().contains("another database"), "{error}");
    assert_eq!(contents(&secondary), before);
    primary.close().unwrap();
}

#[pumice_test_macros::test]
fn column_families_come_and_go() {
    let (_, fs) = memory();
    let with = options(&fs);
    let primary = Db::open(&with, DIR).unwrap();
    let old = primary.create_column_family(&with.cf, "old").unwrap();
    primary.create_column_family(&with.cf, "unread").unwrap();
    primary.put_cf(&old, "k", "1").unwrap();
    let (secondary, handles) = follow(&fs, &["old"]);
    let new = primary.create_column_family(&with.cf, "new").unwrap();
    let mut batch = WriteBatch::new();
    batch.put_cf(&new, "k", "in new");
    batch.put_cf(&old, "k", "2");
    batch.put("k", "in default");
    primary.write(&mut batch).unwrap();
    secondary.try_catch_up_with_primary().unwrap();
    assert!(secondary.column_family("new").is_none(), "until it is opened again");
    assert_eq!(get(&secondary, b"k").as_deref(), Some(&b"in default"[..]));
    assert_eq!(secondary.get_cf(&handles[1], "k").unwrap().as_deref(), Some(&b"2"[..]));
    let keys = [(&handles[0], "k"), (&handles[1], "k")];
    let both = secondary.multi_get_cf(&keys);
    assert!(both.into_iter().all(|value| value.unwrap().is_some()));

    primary.drop_column_family(&old).unwrap();
    primary.create_column_family(&with.cf, "old").unwrap();
    primary.put("k", "later").unwrap();
    primary.flush_all().unwrap();
    secondary.try_catch_up_with_primary().unwrap();
    assert!(secondary.column_family("old").is_none(), "the other of that name is not it");
    assert_eq!(contents_of(&secondary, &handles[1]).len(), 1, "through the handle it is readable");
    assert_eq!(get(&secondary, b"k").as_deref(), Some(&b"later"[..]));
    let (again, handles) = follow(&fs, &["old", "new"]);
    assert!(contents_of(&again, &handles[1]).is_empty());
    assert_eq!(contents_of(&again, &handles[2]).len(), 1);
    let families = descriptors(&with.cf, &["default", "missing"]);
    let error = Db::open_as_secondary(&with.db, DIR, BESIDE, &families).unwrap_err();
    assert_eq!(error.to_string(), "Invalid argument: Column family not found: missing");
    primary.close().unwrap();
}

#[pumice_test_macros::test]
fn ingested_files_come_with_the_writes_after_them() {
    let (_, fs) = memory();
    let with = options(&fs);
    let primary = Db::open(&with, DIR).unwrap();
    fill(&primary, 0..10, "a");
    let (secondary, _) = follow(&fs, &[]);
    let mut writer = SstFileWriter::new(&with).unwrap();
    writer.open("/external.sst").unwrap();
    for n in 5..15 {
        writer.put(key(n), b"ingested").unwrap();
    }
    writer.finish().unwrap();
    primary
        .ingest_external_file(&IngestExternalFileOptions::default(), &["/external.sst"])
        .unwrap();
    fill(&primary, 12..13, "after");
    secondary.try_catch_up_with_primary().unwrap();
    assert_eq!(get(&secondary, &key(6)).as_deref(), Some(&b"ingested"[..]));
    assert_eq!(contents(&secondary), contents(&primary));
    primary.close().unwrap();
}

#[pumice_test_macros::test]
fn what_it_cannot_do_is_refused_in_the_words_of_rocksdb() {
    let (_, fs) = memory();
    let with = options(&fs);
    let primary = Db::open(&with, DIR).unwrap();
    fill(&primary, 0..3, "a");
    let (secondary, _) = follow(&fs, &[]);
    let text = "Not implemented: Not supported operation in secondary mode.";
    let refused = |result: Result<(), pumice::Error>| {
        assert_eq!(result.unwrap_err().to_string(), text);
    };
    refused(secondary.put("k", "v"));
    refused(secondary.delete("k"));
    refused(secondary.flush_opt(&FlushOptions::default()));
    refused(secondary.compact_range(&CompactRangeOptions::default(), None, None));
    refused(secondary.sync_wal());
    refused(secondary.set_options(&[("write_buffer_size", "1000000")]));
    refused(secondary.create_column_family(&with.cf, "x").map(drop));
    let backups = pumice::backup::BackupEngine::open(fs.clone(), "/backups").unwrap();
    assert_eq!(secondary.checkpoint("/copy").unwrap_err().kind(), ErrorKind::NotSupported);
    let backup = backups.create_backup(&secondary, true, b"");
    assert_eq!(backup.unwrap_err().kind(), ErrorKind::NotSupported);
    let snapshot = ReadOptions { snapshot: Some(secondary.snapshot()), ..ReadOptions::default() };
    let error = secondary.get_opt(&snapshot, key(1)).unwrap_err();
    assert_eq!(error.to_string(), "Not implemented: snapshot not supported in secondary mode");
    assert!(secondary.cursor_opt(&snapshot).is_err());
    let tailing = ReadOptions { tailing: true, ..ReadOptions::default() };
    let error = secondary.cursor_opt(&tailing).map(drop).unwrap_err();
    let text = "Not implemented: tailing iterator not supported in secondary mode";
    assert_eq!(error.to_string(), text);
    let error = primary.try_catch_up_with_primary().unwrap_err();
    assert_eq!(error.to_string(), "Not implemented: Supported only by secondary instance");
    assert_eq!(contents(&secondary).len(), 3);

    // The builder opens all families, on request with the options of the OPTIONS file.
    primary.create_column_family(&with.cf, "second").unwrap();
    let fs = || Db::builder(DIR).configure(|all| all.db.file_system = with.db.file_system.clone());
    let built = fs().secondary("/built").all_column_families().open().unwrap();
    assert!(built.column_family("second").is_some());
    assert_eq!(contents(&built).len(), 3);
    let latest = fs().secondary("/built2").open_latest().unwrap();
    assert!(latest.column_family("second").is_some());
    primary.close().unwrap();
}
