//! Outputs of compactions that end where a prefix of keys changes.

use crate::common::{DIR, flush, memory, options};
use pumice::options::SstPartitionerFactory;
use pumice::{CompactRangeOptions, Db, Options};

fn bounds(db: &Db) -> Vec<(Vec<u8>, Vec<u8>)> {
    db.live_files_metadata().into_iter().map(|f| (f.smallest_key, f.largest_key)).collect()
}

fn filled(options: &Options) -> Db {
    let db = Db::open(options, DIR).unwrap();
    for key in ["aa1", "aa2", "ab1", "b", "ba", "ba1"] {
        db.put(key, "v").unwrap();
    }
    flush(&db);
    db
}

#[pumice_test_macros::test]
fn outputs_end_where_prefixes_change() {
    let (_, fs) = memory();
    let mut options = options(&fs);
    options.cf.disable_auto_compactions = true;
    options.cf.sst_partitioner_factory = SstPartitionerFactory::FixedPrefix(2);
    let db = filled(&options);
    // A flush cuts nothing, and a file that would be cut is not moved.
    assert_eq!(bounds(&db).len(), 1);
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    let pairs = [("aa1", "aa2"), ("ab1", "ab1"), ("b", "b"), ("ba", "ba1")];
    let wanted: Vec<_> = pairs.map(|(first, last)| (first.into(), last.into())).into();
    assert_eq!(bounds(&db), wanted);
    db.close().unwrap();
    // Without it they are joined again.
    options.cf.sst_partitioner_factory = SstPartitionerFactory::None;
    let db = filled(&options);
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    assert_eq!(bounds(&db), [(b"aa1".to_vec(), b"ba1".to_vec())]);
}

/// Of a file inside one prefix only the level changes.
#[pumice_test_macros::test]
fn a_file_that_is_not_cut_is_moved() {
    let (_, fs) = memory();
    let mut options = options(&fs);
    options.cf.disable_auto_compactions = true;
    options.cf.sst_partitioner_factory = SstPartitionerFactory::FixedPrefix(1);
    let db = Db::open(&options, DIR).unwrap();
    db.put("a1", "v").unwrap();
    db.put("a2", "v").unwrap();
    flush(&db);
    let number = |db: &Db| db.live_files_metadata()[0].file_number;
    let before = number(&db);
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    assert_eq!(number(&db), before);
    assert!(db.live_files_metadata()[0].level > 0);
}
