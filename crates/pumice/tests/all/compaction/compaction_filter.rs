//! A compaction filter of the user's over a whole database: which operands it removes, and when.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pumice::{
    BottommostLevelCompaction, CompactRangeOptions, CompactionFilter, Db, FilterDecision,
    FlushOptions, IngestExternalFileOptions, Options, ReadOptions, SstFileWriter, WriteOptions,
};
use pumice_env::MemFs;

/// Removes operands `bad`.
#[derive(Default)]
struct NoBadOperands {
    asked: AtomicU64,
}

impl CompactionFilter for NoBadOperands {
    fn name(&self) -> &str {
        "NoBadOperands"
    }
    fn filter(&self, _level: i32, _key: &[u8], _value: &[u8]) -> FilterDecision {
        FilterDecision::Keep
    }
    fn filter_merge_operand(&self, _level: i32, _key: &[u8], operand: &[u8]) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed);
        operand == b"bad"
    }
}

/// Options of a new database in memory, with the filter.
fn filtered() -> (Arc<NoBadOperands>, Options) {
    let filter = Arc::new(NoBadOperands::default());
    let mut options = Options::new();
    options.db.create_if_missing = true;
    options.db.file_system = Arc::new(MemFs::new(1));
    options.set("merge_operator", "stringappend").unwrap();
    options.cf.compaction_filter = Some(filter.clone());
    (filter, options)
}

#[pumice_test_macros::test]
fn operands_are_filtered_by_compactions_and_not_by_flushes_or_under_snapshots() {
    let (filter, options) = filtered();
    let db = Db::open(&options, "/db").unwrap();
    let write = WriteOptions::default();
    let get = |key: &[u8]| db.get_opt(&ReadOptions::default(), key).unwrap().map(|v| v.to_vec());
    db.put_opt(&write, b"based", b"base").unwrap();
    for (key, operand) in
        [("alone", "bad"), ("based", "good"), ("based", "bad"), ("mixed", "bad"), ("mixed", "x")]
    {
        db.merge_opt(&write, key.as_bytes(), operand.as_bytes()).unwrap();
    }
    let snapshot = db.snapshot();
    let compact = || db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    compact();
    assert_eq!(filter.asked.load(Ordering::Relaxed), 0, "a snapshot needs every operand");
    assert_eq!(get(b"based").unwrap(), b"base,good,bad");
    drop(snapshot);
    // Operands that were merged into a value are no longer operands; what is written now is one. A
    // flush in between keeps them apart, since operands of one memtable are combined.
    for operand in ["bad", "good"] {
        db.merge_opt(&write, b"late", operand.as_bytes()).unwrap();
        db.flush_opt(&FlushOptions::default()).unwrap();
    }
    assert_eq!(filter.asked.load(Ordering::Relaxed), 0, "a flush does not filter");
    assert_eq!(get(b"late").unwrap(), b"bad,good");
    compact();
    assert_eq!(filter.asked.load(Ordering::Relaxed), 2);
    assert_eq!(get(b"late").unwrap(), b"good");
    db.merge_opt(&write, b"gone", b"bad").unwrap();
    db.merge_opt(&write, b"based", b"bad").unwrap();
    compact();
    assert_eq!(get(b"gone"), None);
    assert_eq!(get(b"based").unwrap(), b"base,good,bad");
    db.close().unwrap();
}

/// The sequence number of what is ingested into an empty database is 0.
#[pumice_test_macros::test]
fn operands_are_filtered_when_ingested_and_not_below_a_range_deletion() {
    let (filter, options) = filtered();
    let db = Db::open(&options, "/db").unwrap();
    let mut writer = SstFileWriter::new(&options).unwrap();
    writer.open("/in.sst").unwrap();
    writer.merge("in", "bad").unwrap();
    writer.finish().unwrap();
    db.ingest_external_file(&IngestExternalFileOptions::default(), &["/in.sst"]).unwrap();
    assert_eq!(db.latest_sequence_number(), 0);
    let compact = || {
        let bottommost_level_compaction = BottommostLevelCompaction::Force;
        let all = CompactRangeOptions { bottommost_level_compaction, ..Default::default() };
        db.compact_range(&all, None, None).unwrap();
    };
    assert!(db.get("in").unwrap().is_some());
    compact();
    assert!(db.get("in").unwrap().is_none());
    assert_eq!(filter.asked.swap(0, Ordering::Relaxed), 1);

    db.merge("covered", "bad").unwrap();
    db.flush().unwrap();
    db.delete_range("a", "z").unwrap();
    db.merge("covered", "good").unwrap();
    db.flush().unwrap();
    compact();
    assert_eq!(db.get("covered").unwrap().as_deref(), Some(&b"good"[..]));
    assert_eq!(filter.asked.load(Ordering::Relaxed), 1, "only the newer one");
    db.close().unwrap();
}
