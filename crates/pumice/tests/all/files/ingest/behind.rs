//! Files ingested behind all others: existing data wins, also after compactions.

use pumice::{
    BottommostLevelCompaction, CompactRangeOptions, Db, ErrorKind, IngestExternalFileOptions,
    Options, WriteOptions,
};

use super::support::{DIR, contents, file_of, files, flush, fresh, ingest, table_of};

fn behind() -> IngestExternalFileOptions {
    IngestExternalFileOptions { ingest_behind: true, ..Default::default() }
}

fn reserving(change: impl FnOnce(&mut Options)) -> (Options, Db) {
    let (_fs, mut options, db) = fresh();
    drop(db);
    change(&mut options);
    let db = Db::open(&options, DIR).unwrap();
    (options, db)
}

fn compact(db: &Db) {
    let force = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    db.compact_range(&force, None, None).unwrap();
}

fn text(db: &Db) -> String {
    let pair = |(k, v): &(Vec<u8>, Vec<u8>)| {
        format!("{}={}", String::from_utf8_lossy(k), String::from_utf8_lossy(v))
    };
    contents(db).iter().map(pair).collect::<Vec<_>>().join(" ")
}

fn existing_data_wins(change: impl FnOnce(&mut Options)) {
    let (options, db) = reserving(change);
    let write = WriteOptions::default();
    for key in ["b", "c", "d"] {
        db.put_opt(&write, key.as_bytes(), b"first").unwrap();
    }
    flush(&db);
    db.delete_opt(&write, b"c").unwrap();
    db.delete_range_opt(&write, b"e", b"g").unwrap();
    compact(&db);
    compact(&db);
    assert_eq!(files(&db).iter().map(|f| f.level).max(), Some(5), "the last level is reserved");
    db.put_opt(&write, b"h", b"memory").unwrap();
    let path = table_of(&options, "/in/1.sst", &["a", "b", "c", "f", "g", "h"], "behind");
    db.ingest_external_file(&behind(), &[&path]).unwrap();
    let file = file_of(&db, "a", "h");
    assert_eq!((file.level, file.largest_seq, file.epoch_number), (6, 0, 1));
    let expected = "a=behind b=first d=first g=behind h=memory";
    assert_eq!(text(&db), expected);
    compact(&db);
    assert_eq!(text(&db), expected);
    assert_eq!(file_of(&db, "a", "h").file_number, file.file_number, "never compacted");
    drop(db);
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!(text(&db), expected);
    // There is no room for a second one in the same place.
    let error = db.ingest_external_file(&behind(), &[&path]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let reason = "Can't ingest_behind file as it doesn't fit at the last level!";
    assert_eq!(error.message(), reason);
    let other = table_of(&options, "/in/2.sst", &["x"], "behind");
    let error = db.ingest_external_file(&behind(), &[&other, &other]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
    db.ingest_external_file(&behind(), &[&other]).unwrap();
    // A plain ingestion overwrites.
    ingest(&db, &[&path]).unwrap();
    assert_eq!(text(&db), "a=behind b=behind c=behind d=first f=behind g=behind h=behind x=behind");
}

#[pumice_test_macros::test]
fn existing_data_wins_by_the_option_of_the_column_family() {
    existing_data_wins(|options| options.set("cf_allow_ingest_behind", "true").unwrap());
}

#[pumice_test_macros::test]
fn existing_data_wins_by_the_option_of_the_database() {
    existing_data_wins(|options| {
        options.set("allow_ingest_behind", "true").unwrap();
        options.cf.level_compaction_dynamic_level_bytes = true;
    });
}

#[pumice_test_macros::test]
fn automatic_compactions_leave_the_last_level_alone() {
    for dynamic in [false, true] {
        let (options, db) = reserving(|options| {
            options.cf.cf_allow_ingest_behind = true;
            options.cf.disable_auto_compactions = false;
            options.cf.num_levels = 4;
            options.cf.level_compaction_dynamic_level_bytes = dynamic;
            options.cf.write_buffer_size = 64 << 10;
            options.cf.target_file_size_base = 8 << 10;
            options.cf.max_bytes_for_level_base = 16 << 10;
            options.cf.max_bytes_for_level_multiplier = 2.0;
        });
        let path = table_of(&options, "/in/1.sst", &["key000000", "key999999"], "behind");
        db.ingest_external_file(&behind(), &[&path]).unwrap();
        for round in 0..6 {
            crate::common::fill(&db, 0..1500, &format!("round {round} {}", "x".repeat(40)));
            flush(&db);
        }
        db.delete_opt(&WriteOptions::default(), b"key999999").unwrap();
        flush(&db);
        db.wait_for_compact(&Default::default()).unwrap();
        let on = |level| files(&db).iter().filter(|f| f.level == level).count();
        assert_eq!((on(3), on(2) > 1), (1, true), "dynamic {dynamic}");
        assert_eq!(contents(&db).len(), 1500, "dynamic {dynamic}");
        compact(&db);
        assert_eq!((on(3), contents(&db).len()), (1, 1500), "dynamic {dynamic}");
    }
}

#[pumice_test_macros::test]
fn not_behind_files_that_were_bottommost_once() {
    let (mut options, db) =
        reserving(|options| options.cf.level_compaction_dynamic_level_bytes = false);
    db.put_opt(&WriteOptions::default(), b"k", b"v").unwrap();
    compact(&db);
    compact(&db);
    assert_eq!((files(&db)[0].level, files(&db)[0].largest_seq), (1, 0));
    drop(db);
    options.cf.cf_allow_ingest_behind = true;
    let db = Db::open(&options, DIR).unwrap();
    let path = table_of(&options, "/in/1.sst", &["x"], "behind");
    let error = db.ingest_external_file(&behind(), &[&path]).unwrap_err();
    let reason = "Can't ingest_behind file as despite cf_allow_ingest_behind=true there are files \
                  with 0 seqno in database at upper levels!";
    assert_eq!(error.message(), reason);
    assert_eq!(files(&db).len(), 1);
}
