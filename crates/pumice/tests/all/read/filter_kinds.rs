//! Which filter a table gets from a Ribbon policy, by the level of the table.
//!
//! With `bloom_before_level` the short-lived tables of leveled compaction get Bloom filters, which
//! are quicker to build. Tables of FIFO compaction, and those whose level is unknown, count as
//! tables of the last level.

use std::path::Path;
use std::sync::Arc;

use crate::common::{DIR, fill, flush, key, memory, names, options};
use pumice::options::CompactionStyle;
use pumice::{CompactRangeOptions, Db, FileSystem, FilterPolicy, Options, SstFileWriter};
use pumice_table::{Table, TableReadContext};

const KEYS: usize = 3000;

/// Settings of a Ribbon filter as precise as a Bloom filter of 10 bits a key.
fn ribbon(fs: &Arc<dyn FileSystem>, style: CompactionStyle, bloom_before_level: i32) -> Options {
    let mut options = options(fs);
    options.cf.compaction_style = style;
    let table = &mut options.cf.table_factory;
    table.filter_policy = Some(FilterPolicy::ribbon(10.0, bloom_before_level));
    table.optimize_filters_for_memory = false;
    options
}

/// A Ribbon filter has about 7 bits a key, its Bloom filter 10.
fn kind_of(fs: &Arc<dyn FileSystem>, path: &Path) -> &'static str {
    let file = fs.open_random(path).unwrap();
    let len = file.len();
    let table = Table::open(TableReadContext::default(), file, len).unwrap();
    let properties = table.properties();
    assert_eq!(properties.num_entries, KEYS as u64);
    match properties.filter_size as f64 * 8.0 / KEYS as f64 {
        6.5..8.0 => "ribbon",
        10.0..11.0 => "bloom",
        bits => panic!("{bits} bits a key"),
    }
}

/// The filter of the only table of the database.
fn kind(fs: &Arc<dyn FileSystem>) -> &'static str {
    let tables = names(fs, DIR).into_iter().filter(|name| name.ends_with(".sst"));
    let tables: Vec<String> = tables.collect();
    assert_eq!(tables.len(), 1, "{tables:?}");
    kind_of(fs, &Path::new(DIR).join(&tables[0]))
}

fn flushed(style: CompactionStyle, bloom_before_level: i32) -> &'static str {
    let (_, fs) = memory();
    let db = Db::open(&ribbon(&fs, style, bloom_before_level), DIR).unwrap();
    fill(&db, 0..KEYS, "value");
    flush(&db);
    db.close().unwrap();
    kind(&fs)
}

/// What a recovery writes from a log.
fn recovered(style: CompactionStyle, bloom_before_level: i32) -> &'static str {
    let (_, fs) = memory();
    let options = ribbon(&fs, style, bloom_before_level);
    let db = Db::open(&options, DIR).unwrap();
    fill(&db, 0..KEYS, "value");
    db.close().unwrap();
    drop(db);
    Db::open(&options, DIR).unwrap().close().unwrap();
    kind(&fs)
}

fn compacted(style: CompactionStyle, bloom_before_level: i32) -> &'static str {
    let (_, fs) = memory();
    let mut options = ribbon(&fs, style, bloom_before_level);
    options.cf.num_levels = 3;
    let db = Db::open(&options, DIR).unwrap();
    for value in ["old", "new"] {
        fill(&db, 0..KEYS, value);
        flush(&db);
    }
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    db.close().unwrap();
    kind(&fs)
}

fn written(style: CompactionStyle, bloom_before_level: i32) -> &'static str {
    let (_, fs) = memory();
    let path = Path::new("/external.sst");
    let mut writer = SstFileWriter::new(&ribbon(&fs, style, bloom_before_level)).unwrap();
    writer.open(path).unwrap();
    (0..KEYS).for_each(|n| writer.put(&key(n), b"value").unwrap());
    writer.finish().unwrap();
    kind_of(&fs, path)
}

#[pumice_test_macros::test]
fn a_flush_of_leveled_compaction_is_before_every_level() {
    assert_eq!(flushed(CompactionStyle::Level, -1), "ribbon");
    assert_eq!(flushed(CompactionStyle::Level, 0), "bloom");
    assert_eq!(flushed(CompactionStyle::Level, i32::MAX), "bloom");
}

/// RocksDB treats a recovered table as one of level 0.
#[pumice_test_macros::test]
fn a_recovery_is_level_0() {
    assert_eq!(recovered(CompactionStyle::Level, 0), "ribbon");
    assert_eq!(recovered(CompactionStyle::Level, 1), "bloom");
    assert_eq!(recovered(CompactionStyle::Fifo, 1), "ribbon");
}

#[pumice_test_macros::test]
fn compactions_go_by_the_level_they_write_to() {
    assert_eq!(compacted(CompactionStyle::Level, 2), "ribbon");
    assert_eq!(compacted(CompactionStyle::Level, 3), "bloom");
}

#[pumice_test_macros::test]
fn fifo_compaction_has_no_levels() {
    assert_eq!(flushed(CompactionStyle::Fifo, 0), "ribbon");
    assert_eq!(flushed(CompactionStyle::Fifo, i32::MAX - 1), "ribbon");
    assert_eq!(flushed(CompactionStyle::Fifo, i32::MAX), "bloom");
}

#[pumice_test_macros::test]
fn tables_for_others_may_come_to_the_last_level() {
    for style in [CompactionStyle::Level, CompactionStyle::Fifo] {
        assert_eq!(written(style, 6), "ribbon");
        assert_eq!(written(style, i32::MAX), "bloom");
    }
}
