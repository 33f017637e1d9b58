//! Compaction filters that decide by keys about values in blob files, which are then not read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::blobs::written::{compact, number, options};
use crate::common::Scratch;
use pumice::{CompactionFilter, Db, FilterDecision, Statistics, Ticker};

/// Decides by the first byte of a key; asks for the values of those that begin with `v`.
#[derive(Default)]
struct ByKey {
    asked: AtomicUsize,
    read: AtomicUsize,
}

impl CompactionFilter for ByKey {
    fn name(&self) -> &str {
        "by key"
    }
    fn filter(&self, _: i32, key: &[u8], value: &[u8]) -> FilterDecision {
        self.read.fetch_add(1, Ordering::Relaxed);
        match (key, value) {
            // It is not in a blob file.
            (b"small", _) => FilterDecision::Keep,
            (_, value) if value.ends_with(b"drop") => FilterDecision::Remove,
            _ => FilterDecision::Keep,
        }
    }
    fn filter_blob_by_key(&self, _: i32, key: &[u8]) -> Option<FilterDecision> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        match key.first() {
            Some(b'k') => Some(FilterDecision::Keep),
            Some(b'r') => Some(FilterDecision::Remove),
            Some(b'c') => Some(FilterDecision::ChangeValue(b"changed".to_vec())),
            _ => None,
        }
    }
}

#[pumice_test_macros::test]
fn filters_decide_by_keys_about_values_in_blob_files() {
    let dir = Scratch::new("blob-filter");
    let filter = Arc::new(ByKey::default());
    let mut options = options();
    let statistics = Arc::new(Statistics::new());
    options.db.statistics = Some(Arc::clone(&statistics));
    options.cf.compaction_filter = Some(Arc::clone(&filter) as _);
    let db = Db::open(&options, &dir.0).unwrap();
    for key in ["keep", "remove", "change", "values stay", "values go"] {
        let end = if key == "values go" { "drop" } else { "stay" };
        db.put(key, format!("{}{end}", "v".repeat(100))).unwrap();
    }
    db.put("small", "v").unwrap();
    db.flush().unwrap();
    assert_eq!(number(&db, "num-blob-files"), 1);
    let before = statistics.ticker(Ticker::BlobDbBlobFileBytesRead);
    compact(&db);
    assert_eq!(filter.asked.load(Ordering::Relaxed), 5, "not about the small one");
    assert_eq!(filter.read.load(Ordering::Relaxed), 3, "the two that are read, and the small one");
    let read = statistics.ticker(Ticker::BlobDbBlobFileBytesRead) - before;
    assert!((208..400).contains(&read), "two values: {read}");
    let get = |key: &str| db.get(key).unwrap().map(|value| value.len());
    let shown = ["keep", "remove", "change", "values stay", "values go", "small"].map(get);
    assert_eq!(shown, [Some(104), None, Some(7), Some(104), None, Some(1)]);
    assert!(number(&db, "live-blob-file-garbage-size") > 300, "of the three that went");
    db.verify_checksum().unwrap();
    db.close().unwrap();
}
