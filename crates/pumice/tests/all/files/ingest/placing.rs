//! Which level and which sequence number a file gets.

use std::sync::Arc;

use pumice_port::sync::Mutex;

use pumice::stats::listener::ExternalFileIngestionInfo;
use pumice::{CompactRangeOptions, Db, EventListener, IngestExternalFileOptions, WriteOptions};

use super::support::{
    DIR, Record, contents, file_of, files, fresh, ingest, places, put, table_of, write_table,
};

fn add(db: &Db, key: &str) {
    db.put_opt(&WriteOptions::default(), key.as_bytes(), b"v").unwrap();
}

fn compact(db: &Db) {
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
}

/// Ingests a file of those keys; its level and sequence number, 0 if it got none.
fn place(options: &pumice::Options, db: &Db, keys: &[&str]) -> (i32, u64) {
    let path = table_of(options, "/in/next.sst", keys, "f");
    ingest(db, &[&path]).unwrap();
    let file = file_of(db, keys[0], keys[keys.len() - 1]);
    (file.level as i32, file.largest_seq)
}

#[pumice_test_macros::test]
fn the_deepest_free_level_is_taken() {
    let (_fs, options, db) = fresh();
    assert_eq!(place(&options, &db, &["d", "g"]), (6, 0), "an empty tree");
    assert_eq!(place(&options, &db, &["h", "j"]), (6, 0), "beside");
    // Between two keys of a file of the last level: nothing is overwritten, but it does not fit.
    assert_eq!(place(&options, &db, &["e", "f"]), (0, 0), "inside a file, between its keys");
    assert_eq!(contents(&db).len(), 6);
    let sequence = db.latest_sequence_number();
    assert_eq!(place(&options, &db, &["g", "h"]), (0, sequence + 1), "over files");
    assert_eq!(db.latest_sequence_number(), sequence + 1);
    add(&db, "x");
    assert_eq!(place(&options, &db, &["w", "y"]), (0, sequence + 3), "over a flushed memtable");
    assert_eq!(place(&options, &db, &["k", "l"]), (6, 0), "nothing there");
}

#[pumice_test_macros::test]
fn a_memtable_beside_is_not_flushed() {
    let (_fs, options, db) = fresh();
    add(&db, "a");
    add(&db, "z");
    assert_eq!(place(&options, &db, &["b", "c"]), (6, 0));
    assert_eq!(files(&db).len(), 1, "the memtable holds nothing in the range");
    db.delete_range_opt(&WriteOptions::default(), b"m", b"o").unwrap();
    assert_eq!(place(&options, &db, &["o", "p"]).0, 6, "where a range deletion ends");
    assert_eq!(files(&db).len(), 2);
    assert_eq!(place(&options, &db, &["n"]).0, 0, "inside a range deletion");
    assert_eq!(files(&db).len(), 4);
    assert_eq!(contents(&db).len(), 7);
}

#[pumice_test_macros::test]
fn levels_between_are_used() {
    let (_fs, mut options, db) = fresh();
    drop(db);
    options.cf.level_compaction_dynamic_level_bytes = false;
    let db = Db::open(&options, DIR).unwrap();
    for key in ["a", "m", "z"] {
        add(&db, key);
    }
    compact(&db);
    assert_eq!(files(&db)[0].level, 1);
    assert_eq!(place(&options, &db, &["m"]).0, 0, "over L1");
    compact(&db);
    let level = files(&db)[0].level as i32;
    // Between the keys of that file: deeper levels are free, and nothing there is older.
    assert_eq!(place(&options, &db, &["n", "o"]), (6, 0));
    assert!(place(&options, &db, &["a", "b"]).0 < level);
}

#[pumice_test_macros::test]
fn overlapping_files_of_a_call_are_stacked() {
    let (_fs, options, db) = fresh();
    let base = db.latest_sequence_number();
    let paths: Vec<_> = (0..3)
        .map(|n| table_of(&options, &format!("/in/{n}.sst"), &["a", "b"], &n.to_string()))
        .collect();
    ingest(&db, &paths.iter().collect::<Vec<_>>()).unwrap();
    // Dynamic levels: only L0 and the base level, the last one, are in use.
    assert_eq!(places(&db), [(6, base + 1), (0, base + 2), (0, base + 3)]);
    let mut epochs: Vec<u64> = files(&db).iter().map(|f| f.epoch_number).collect();
    assert!(epochs.is_sorted(), "{epochs:?}");
    epochs.dedup();
    assert_eq!(epochs.len(), 3);
    assert_eq!(contents(&db)[0].1, b"2");
}

#[pumice_test_macros::test]
fn range_deletions_count_for_the_bounds() {
    let (_fs, options, db) = fresh();
    let records = [put("f", "1"), Record::DeleteRange(b"c".to_vec(), b"k".to_vec())];
    let path = write_table(&options, "/in/1.sst", &records).unwrap();
    ingest(&db, &[&path]).unwrap();
    let file = &files(&db)[0];
    assert_eq!((&file.smallest_key[..], &file.largest_key[..]), (&b"c"[..], &b"k"[..]));
    assert_eq!(place(&options, &db, &["k", "l"]), (6, 0), "the end is exclusive");
    assert_eq!(place(&options, &db, &["a", "c"]).0, 0);
}

#[pumice_test_macros::test]
fn only_the_last_level_if_asked() {
    let (_fs, options, db) = fresh();
    let how =
        IngestExternalFileOptions { fail_if_not_bottommost_level: true, ..Default::default() };
    let path = table_of(&options, "/in/1.sst", &["a", "c"], "1");
    db.ingest_external_file(&how, &[&path]).unwrap();
    let error = db.ingest_external_file(&how, &[&path]).unwrap_err();
    assert_eq!(error.kind(), pumice::ErrorKind::TryAgain);
    assert_eq!(files(&db).len(), 1);
    super::support::assert_no_litter(&options.db.file_system, &db);
}

#[derive(Default)]
struct Heard(Mutex<Vec<ExternalFileIngestionInfo>>);

impl EventListener for Heard {
    fn on_external_file_ingested(&self, info: &ExternalFileIngestionInfo) {
        self.0.lock().push(info.clone());
    }
}

#[pumice_test_macros::test]
fn listeners_and_statistics_hear_of_it() {
    let (_fs, mut options, db) = fresh();
    drop(db);
    let heard = Arc::new(Heard::default());
    options.db.listeners.push(heard.clone());
    let db = Db::open(&options, DIR).unwrap();
    add(&db, "b");
    let one = table_of(&options, "/in/1.sst", &["a", "b"], "1");
    let two = table_of(&options, "/in/2.sst", &["x"], "2");
    ingest(&db, &[&one, &two]).unwrap();
    let ingested = heard.0.lock().clone();
    assert_eq!(ingested.len(), 2);
    assert_eq!((&ingested[0].external_file_path, &ingested[1].external_file_path), (&one, &two));
    assert_eq!((ingested[0].global_seqno, ingested[1].global_seqno), (2, 0));
    assert_eq!(ingested[0].table_properties.num_entries, 2);
    assert!(ingested[0].internal_file_path.starts_with(DIR) && ingested[0].cf_name == "default");
    let stats = db.property("rocksdb.cfstats").unwrap();
    let line = stats.lines().find(|line| line.starts_with("AddFile(Keys)")).unwrap();
    assert!(line.starts_with("AddFile(Keys): cumulative 3, interval 3"), "{line}");
    let line = stats.lines().find(|line| line.starts_with("AddFile(Total Files)")).unwrap();
    assert!(line.contains("cumulative 2"), "{line}");
}
