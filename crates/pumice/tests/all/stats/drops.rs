//! What compactions drop, by reason. Range deletions and overwritten entries: `table_interop`'s
//! `counters`, compared with RocksDB.

use std::sync::Arc;

use crate::common::{DIR, fill, flush, key, memory, options};
use pumice::{CompactFilesOptions, CompactRangeOptions, Db, Statistics, Ticker};

/// A compaction into level 1, of a key that is in level 2, too, and of the deletion of one that is
/// not.
#[pumice_test_macros::test]
fn deletions_that_go_before_the_last_level_are_counted() {
    let (_, fs) = memory();
    let statistics = Arc::new(Statistics::new());
    let mut options = options(&fs);
    options.db.statistics = Some(Arc::clone(&statistics));
    options.cf.num_levels = 3;
    options.cf.disable_auto_compactions = true;
    let db = Db::open(&options, DIR).unwrap();
    let to_last_level = || db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    fill(&db, 0..1000, "value");
    to_last_level();
    fill(&db, 500..501, "newer");
    db.delete(key(501)).unwrap();
    db.delete(key(5000)).unwrap();
    flush(&db);
    let files = db.live_files_metadata();
    let level0 = files.iter().filter(|file| file.level == 0).map(|file| &file.name[..]);
    db.compact_files(&CompactFilesOptions::default(), &level0.collect::<Vec<_>>(), 1).unwrap();
    let obsolete = || {
        [Ticker::CompactionOptimizedDelDropObsolete, Ticker::CompactionKeyDropObsolete]
            .map(|ticker| statistics.take_ticker(ticker))
    };
    assert_eq!(obsolete(), [1, 1]);
    to_last_level();
    assert_eq!(obsolete(), [0, 1], "the other one, where it ends");
    db.close().unwrap();
}
