//! Event lines against lines of RocksDB 10.10.1.
#![allow(clippy::unwrap_used)]

use std::fmt;
use std::path::PathBuf;

use pumice_port::sync::Mutex;

use super::*;
use crate::stats::listener::{CompactionReason, FlushReason};

/// Keeps lines in memory.
struct Lines(Mutex<Vec<String>>);

impl Logger for Lines {
    fn log(&self, _level: InfoLogLevel, message: fmt::Arguments<'_>) {
        self.0.lock().push(message.to_string());
    }
    fn level(&self) -> InfoLogLevel {
        InfoLogLevel::Debug
    }
}

/// The line that `act` logs, from the member after the time on.
fn logged(act: impl FnOnce(&dyn Logger)) -> String {
    let lines = Lines(Mutex::new(Vec::new()));
    act(&lines);
    let line = lines.0.lock().pop().unwrap();
    let rest = line.strip_prefix("EVENT_LOG_v1 {\"time_micros\": ").unwrap();
    rest[rest.find(", ").unwrap() + 2..].to_string()
}

fn flush_info() -> FlushJobInfo {
    FlushJobInfo {
        cf_id: 0,
        cf_name: "default".to_string(),
        job_id: 2,
        flush_reason: FlushReason::WriteBufferFull,
        num_memtables: 1,
        total_num_input_entries: 14017,
        num_deletes: 0,
        num_range_deletes: 0,
        total_data_size: 1_724_091,
        memory_usage: 2_033_960,
        file_path: PathBuf::new(),
        file_number: 9,
        smallest_seqno: 1,
        largest_seqno: 14017,
        triggered_writes_slowdown: false,
        triggered_writes_stop: false,
        table_properties: pumice_table::TableProperties::default(),
    }
}

#[pumice_test_macros::test]
fn flushes_read_as_in_rocksdb() {
    assert_eq!(
        logged(|l| flush_started(l, &flush_info())),
        r#""job": 2, "event": "flush_started", "num_memtables": 1, "#.to_string()
            + r#""total_num_input_entries": 14017, "num_deletes": 0, "total_data_size": 1724091, "#
            + r#""memory_usage": 2033960, "#
            + r#""num_range_deletes": 0, "flush_reason": "Write Buffer Full"}"#
    );
    assert_eq!(
        logged(|l| flush_finished(l, &flush_info(), "Snappy", &[1, 0, 0, 0, 0, 0, 0], 0)),
        r#""job": 2, "event": "flush_finished", "output_compression": "Snappy", "#.to_string()
            + r#""lsm_state": [1, 0, 0, 0, 0, 0, 0], "immutable_memtables": 0}"#
    );
}

#[pumice_test_macros::test]
fn compactions_read_as_in_rocksdb() {
    let mut info = CompactionJobInfo {
        cf_id: 0,
        cf_name: "default".to_string(),
        job_id: 6,
        compaction_reason: CompactionReason::LevelL0FilesNum,
        base_input_level: 0,
        output_level: 6,
        input_files: vec![(0, vec![15, 13, 11, 9])],
        output_files: vec![16, 17, 18, 19],
        score: 1.0,
        total_input_bytes: 3_935_738,
        total_output_bytes: 3_704_193,
        num_input_records: 56_052,
        num_output_records: 56_052,
        num_subcompactions: 1,
        elapsed_micros: 92_101,
        cpu_micros: 74_614,
        output_compression: "Snappy",
        tables: std::collections::BTreeMap::new(),
        error: None,
    };
    assert_eq!(
        logged(|l| compaction_started(l, &info, None)),
        r#""job": 6, "event": "compaction_started", "cf_name": "default", "#.to_string()
            + r#""compaction_reason": "LevelL0FilesNum", "files_L0": [15, 13, 11, 9], "#
            + r#""score": 1, "input_data_size": 3935738, "oldest_snapshot_seqno": -1}"#
    );
    assert!(logged(|l| compaction_started(l, &info, Some(7))).contains("snapshot_seqno\": 7}"));
    assert_eq!(
        logged(|l| compaction_finished(l, &info, &[1, 0, 0, 0, 0, 0, 4])),
        r#""job": 6, "event": "compaction_finished", "compaction_time_micros": 92101, "#
            .to_string()
            + r#""compaction_time_cpu_micros": 74614, "output_level": 6, "num_output_files": 4, "#
            + r#""total_output_size": 3704193, "num_input_records": 56052, "#
            + r#""num_output_records": 56052, "num_subcompactions": 1, "#
            + r#""output_compression": "Snappy", "lsm_state": [1, 0, 0, 0, 0, 0, 4]}"#
    );
    info.error = Some(Error::corruption("bad \"block\"\n"));
    assert!(
        logged(|l| compaction_finished(l, &info, &[]))
            .ends_with(r#""status": "Corruption: bad \"block\"\u000a"}"#)
    );
    info.score = f64::INFINITY;
    assert!(logged(|l| compaction_started(l, &info, None)).contains("\"score\": null,"));
}

#[pumice_test_macros::test]
fn table_files_read_as_in_rocksdb() {
    let info =
        TableFileDeletionInfo { job_id: 6, file_path: PathBuf::new(), file_number: 9, error: None };
    assert_eq!(
        logged(|l| table_file_deleted(l, &info)),
        r#""job": 6, "event": "table_file_deletion", "file_number": 9, "status": "OK"}"#
    );
}
