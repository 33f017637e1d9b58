//! How tables are read, and their numbers summed up.

#![allow(clippy::unwrap_used)]
use super::*;
use crate::db_bench::counted_files::{CountedFiles, FileCounts};
use pumice::{MemFs, Options, SstFileWriter};

#[pumice_test_macros::test]
fn more_is_read_at_a_time_if_more_is_read_ahead() {
    let fs = MemFs::new(1).shared();
    let mut options = Options::default();
    options.db.file_system = Arc::clone(&fs);
    let mut writer = SstFileWriter::new(&options).unwrap();
    writer.open("/t.sst").unwrap();
    for n in 0..20_000u64 {
        writer.put(n.to_be_bytes(), [n as u8; 100]).unwrap();
    }
    writer.finish().unwrap();
    let reads = |readahead_bytes| {
        let counts = Arc::new(FileCounts::default());
        let files = CountedFiles { inner: Arc::clone(&fs), counts: Arc::clone(&counts) };
        let table = open_table(&files, Path::new("/t.sst")).unwrap();
        let range = Range { readahead_bytes, ..Range::default() };
        assert_eq!(walk(&table, &range, Format::default(), None).unwrap(), Some(20_000));
        let report = counts.report();
        let (_, reads) = report.split_once("Num Read(): ").unwrap();
        reads.lines().next().unwrap().parse::<u32>().unwrap()
    };
    let (little, much) = (reads(16 << 10), reads(READAHEAD_BYTES));
    assert!(much < 10 && little > 4 * much, "{little} {much}");
}

#[pumice_test_macros::test]
fn numbers_without_bound_are_summed_up() {
    let table = TableProperties {
        num_data_blocks: u64::MAX,
        data_size: u64::MAX,
        index_size: 1 << 63,
        filter_size: u64::MAX - 1,
        ..TableProperties::default()
    };
    let mut summary = Summary::default();
    (0..2).for_each(|_| summary.add(&table));
    assert_eq!(summary.text().matches(&u64::MAX.to_string()).count(), 4, "{}", summary.text());
}
