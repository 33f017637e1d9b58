//! The trace of file operations.

use pumice::trace::{IoTraceReader, IoTraceRecord, TraceOptions};
use pumice::{CompactRangeOptions, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use super::{TRACE, database, reader, writer};
use crate::common::let_files_go;

/// Of a trace's file.
pub fn operations(fs: &Arc<dyn pumice::FileSystem>, path: impl AsRef<Path>) -> Vec<IoTraceRecord> {
    let mut reader = IoTraceReader::new(reader(fs, path)).unwrap();
    assert!(reader.began_micros() > 0);
    std::iter::from_fn(|| reader.next().unwrap()).collect()
}

#[pumice_test_macros::test]
fn operations_are_noted() {
    let (db, fs) = database();
    let fill = || {
        (0..300u32).for_each(|n| db.put(n.to_be_bytes(), [n as u8; 1000]).unwrap());
        db.flush().unwrap();
    };
    fill();
    db.start_io_trace(&TraceOptions::default(), writer(&fs)).unwrap();
    let error = db.start_io_trace(&TraceOptions::default(), writer(&fs)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    // Of a table that was open before.
    db.get(17u32.to_be_bytes()).unwrap();
    fill();
    // Into the log that is newer than the trace.
    fill();
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    let_files_go(&db);
    db.end_io_trace().unwrap();
    let before = fs.file_size(TRACE.as_ref()).unwrap();
    fill();
    assert_eq!(fs.file_size(TRACE.as_ref()).unwrap(), before);
    db.end_io_trace().unwrap();

    let found = operations(&fs, TRACE);
    let some = |operation: &str, end: &str| {
        let all = found.iter();
        let all = all.filter(|io| io.file_operation == operation && io.file_name.ends_with(end));
        all.collect::<Vec<_>>()
    };
    for (operation, end) in [
        ("NewWritableFile", ".sst"),
        ("Append", ".sst"),
        ("Close", ".sst"),
        ("NewWritableFile", ".log"),
        ("Append", ".log"),
        ("NewRandomAccessFile", ".sst"),
        ("DeleteFile", ".sst"),
    ] {
        assert!(!some(operation, end).is_empty(), "{operation} of {end}");
    }
    let reads: Vec<_> = found.iter().filter(|io| io.file_operation == "Read").collect();
    assert!(reads.iter().any(|io| io.file_name.ends_with(".sst") && io.offset.is_some()));
    assert!(found.iter().all(|io| io.io_status == "OK" || io.io_status.contains(':')));
    assert!(found.windows(2).all(|pair| pair[0].nanos <= pair[1].nanos));
    let written: u64 = some("Append", ".sst").iter().filter_map(|io| io.len).sum();
    assert!(written > 30_000, "{written}");
    db.close().unwrap();
}
