//! Tables with dense deletions are compacted automatically: leveled and universal.

use std::sync::Arc;

use crate::common::{DIR, contents, fill, flush, key, memory, options};
use pumice::options::{CompactOnDeletionCollectorFactory, CompactionStyle};
use pumice::stats::listener::{CompactionJobInfo, CompactionReason};
use pumice::{
    CompactRangeOptions, Db, EventListener, FileSystem, Options, Statistics, Ticker,
    WaitForCompactOptions, WriteOptions,
};
use pumice_port::sync::Mutex;

#[derive(Default)]
struct Jobs(Mutex<Vec<(CompactionReason, i32)>>);

impl EventListener for Jobs {
    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        self.0.lock().push((info.compaction_reason, info.output_level));
    }
}

fn collecting(fs: &Arc<dyn FileSystem>, style: CompactionStyle) -> (Options, Arc<Jobs>) {
    let jobs = Arc::new(Jobs::default());
    let mut options = options(fs);
    options.cf.compaction_style = style;
    options.cf.num_levels = 4;
    options.cf.table_properties_collector_factories =
        vec![Arc::new(CompactOnDeletionCollectorFactory {
            sliding_window_size: 128,
            deletion_trigger: 64,
            deletion_ratio: 0.0,
        })];
    options.db.listeners = vec![Arc::clone(&jobs) as Arc<dyn EventListener>];
    (options, jobs)
}

fn settle(db: &Db) {
    db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
}

fn delete(db: &Db, keys: std::ops::Range<usize>) {
    for n in keys {
        db.delete_opt(&WriteOptions::default(), &key(n)).unwrap();
    }
}

#[pumice_test_macros::test]
fn dense_deletions_are_compacted_away() {
    for style in [CompactionStyle::Level, CompactionStyle::Universal] {
        let (_, fs) = memory();
        let (mut options, jobs) = collecting(&fs, style);
        let statistics = Arc::new(Statistics::new());
        options.db.statistics = Some(Arc::clone(&statistics));
        let db = Db::open(&options, DIR).unwrap();
        fill(&db, 0..2000, &"v".repeat(100));
        db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
        jobs.0.lock().clear();
        // Too few in a row.
        delete(&db, 0..63);
        fill(&db, 500..1000, "w");
        flush(&db);
        settle(&db);
        assert!(jobs.0.lock().is_empty(), "{style:?}");
        delete(&db, 100..164);
        fill(&db, 500..1000, "x");
        flush(&db);
        settle(&db);
        let (reason, level) = jobs.0.lock()[0];
        assert_eq!(reason, CompactionReason::FilesMarkedForCompaction, "{style:?}");
        assert!(level > 0 && statistics.ticker(Ticker::CompactWriteBytesMarked) > 0);
        assert_eq!(contents(&db).len(), 2000 - 63 - 64);
        let properties = db.property("rocksdb.aggregated-table-properties").unwrap();
        assert!(properties.contains("# deletions=0;"), "{properties}");
        db.close().unwrap();
    }
}

/// The mark is in the MANIFEST, so the next open with compactions on finds it.
#[pumice_test_macros::test]
fn a_mark_outlives_the_database() {
    for (style, num_levels) in [
        (CompactionStyle::Level, 4),
        (CompactionStyle::Universal, 4),
        (CompactionStyle::Universal, 1),
    ] {
        let (_, fs) = memory();
        let (mut options, jobs) = collecting(&fs, style);
        options.cf.num_levels = num_levels;
        options.cf.disable_auto_compactions = true;
        let db = Db::open(&options, DIR).unwrap();
        fill(&db, 0..500, &"v".repeat(100));
        flush(&db);
        delete(&db, 0..400);
        flush(&db);
        settle(&db);
        assert!(jobs.0.lock().is_empty());
        db.close().unwrap();
        options.cf.disable_auto_compactions = false;
        options.cf.table_properties_collector_factories.clear();
        let db = Db::open(&options, DIR).unwrap();
        settle(&db);
        let expected = CompactionReason::FilesMarkedForCompaction;
        assert!(jobs.0.lock().iter().any(|(reason, _)| *reason == expected), "{style:?}");
        assert_eq!(contents(&db).len(), 100);
        let bytes: u64 = db.live_files_metadata().iter().map(|f| f.num_deletions).sum();
        assert_eq!(bytes, 0);
        db.close().unwrap();
    }
}
