//! Event lines of the info log, for programs.
//!
//! ```text
//! EVENT_LOG_v1 {"time_micros": 1795292448116871, "job": 2, "event": "flush_started", ...}
//! ```
//!
//! One JSON object a line, members in RocksDB 10.10's order and with its names. The events are
//! made from the same structs that listeners get.
//!
//! Thread safety: an [`Event`] belongs to one thread; logging is as safe as the logger.

use std::fmt::Write;

use pumice_base::Error;

use super::InfoLogLevel;
use super::info_log::Logger;
use super::listener::{
    CompactionJobInfo, FlushJobInfo, TableFileCreationInfo, TableFileDeletionInfo,
};

/// Mark in front of every event.
const MARK: &str = "EVENT_LOG_v1";

/// A JSON object under construction, members in the order of the calls.
#[derive(Clone, Debug)]
pub struct Event(String);

impl Event {
    /// The event `name` of job `job`, at the present time.
    pub fn new(job: u64, name: &str) -> Self {
        Self::start().number("job", job).text("event", name)
    }

    /// The same with the column family in front, as table files have it.
    pub fn of_column_family(cf_name: &str, job: u64, name: &str) -> Self {
        Self::start().text("cf_name", cf_name).number("job", job).text("event", name)
    }

    /// An event of no job.
    pub fn without_job(name: &str) -> Self {
        Self::start().text("event", name)
    }

    fn start() -> Self {
        Event(format!("{{\"time_micros\": {}", pumice_port::time::wall_micros()))
    }

    fn key(mut self, name: &str) -> Self {
        self.0.push_str(", ");
        push_string(&mut self.0, name);
        self.0.push_str(": ");
        self
    }

    fn raw(mut self, name: &str, value: std::fmt::Arguments<'_>) -> Self {
        self = self.key(name);
        self.0.write_fmt(value).expect("writing to a String cannot fail");
        self
    }

    /// Adds a number.
    #[must_use]
    pub fn number(self, name: &str, value: u64) -> Self {
        self.raw(name, format_args!("{value}"))
    }

    /// Adds a number that may be negative.
    #[must_use]
    pub fn signed(self, name: &str, value: i64) -> Self {
        self.raw(name, format_args!("{value}"))
    }

    /// Adds a number with a fraction, two digits of it; `null` for what JSON cannot express.
    #[must_use]
    pub fn real(self, name: &str, value: f64) -> Self {
        let rounded = (value * 100.0).round() / 100.0;
        if rounded.is_finite() {
            return self.raw(name, format_args!("{rounded}"));
        }
        self.raw(name, format_args!("null"))
    }

    /// Adds a text.
    #[must_use]
    pub fn text(mut self, name: &str, value: &str) -> Self {
        self = self.key(name);
        push_string(&mut self.0, value);
        self
    }

    /// Adds a list of numbers.
    #[must_use]
    pub fn list(mut self, name: &str, values: &[u64]) -> Self {
        self = self.key(name);
        let values: Vec<String> = values.iter().map(u64::to_string).collect();
        self.0.push('[');
        self.0.push_str(&values.join(", "));
        self.0.push(']');
        self
    }

    /// Adds a list of files with their levels, flat as RocksDB has it: `["file", path, "level", n]`
    #[must_use]
    pub fn placed_files(mut self, name: &str, files: &[(&str, usize)]) -> Self {
        self = self.key(name);
        self.0.push('[');
        for (at, (path, level)) in files.iter().enumerate() {
            self.0.push_str(if at > 0 { ", \"file\", " } else { "\"file\", " });
            push_string(&mut self.0, path);
            write!(self.0, ", \"level\", {level}").expect("writing to a String cannot fail");
        }
        self.0.push(']');
        self
    }

    /// Adds `OK` or the text of the error.
    #[must_use]
    pub fn status(self, error: Option<&Error>) -> Self {
        match error {
            None => self.text("status", "OK"),
            Some(error) => self.text("status", &error.to_string()),
        }
    }

    /// The line as it is logged.
    pub fn into_line(self) -> String {
        format!("{MARK} {}}}", self.0)
    }

    /// Writes the line.
    pub fn log(self, logger: &dyn Logger) {
        logger.log(InfoLogLevel::Info, format_args!("{}", self.into_line()));
    }
}

fn push_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c if u32::from(c) < 0x20 => {
                write!(out, "\\u{:04x}", u32::from(c)).expect("writing to a String cannot fail");
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Logs `flush_started`.
pub fn flush_started(logger: &dyn Logger, info: &FlushJobInfo) {
    Event::new(info.job_id, "flush_started")
        .number("num_memtables", info.num_memtables as u64)
        .number("total_num_input_entries", info.total_num_input_entries)
        .number("num_deletes", info.num_deletes)
        .number("total_data_size", info.total_data_size)
        .number("memory_usage", info.memory_usage)
        .number("num_range_deletes", info.num_range_deletes)
        .text("flush_reason", info.flush_reason.name())
        .log(logger);
}

/// Logs `flush_finished`; `lsm_state` is the number of files by level afterwards.
pub fn flush_finished(
    logger: &dyn Logger,
    info: &FlushJobInfo,
    output_compression: &str,
    lsm_state: &[u64],
    immutable_memtables: u64,
) {
    Event::new(info.job_id, "flush_finished")
        .text("output_compression", output_compression)
        .list("lsm_state", lsm_state)
        .number("immutable_memtables", immutable_memtables)
        .log(logger);
}

/// Logs `compaction_started`; `oldest_snapshot` is None without snapshots.
pub fn compaction_started(
    logger: &dyn Logger,
    info: &CompactionJobInfo,
    oldest_snapshot: Option<u64>,
) {
    let mut event = Event::new(info.job_id, "compaction_started")
        .text("cf_name", &info.cf_name)
        .text("compaction_reason", info.compaction_reason.name());
    for (level, files) in &info.input_files {
        event = event.list(&format!("files_L{level}"), files);
    }
    event
        .real("score", info.score)
        .number("input_data_size", info.total_input_bytes)
        .signed("oldest_snapshot_seqno", oldest_snapshot.map_or(-1, |seq| seq as i64))
        .log(logger);
}

/// Logs `compaction_finished`; `lsm_state` is the number of files by level afterwards.
pub fn compaction_finished(logger: &dyn Logger, info: &CompactionJobInfo, lsm_state: &[u64]) {
    let event = Event::new(info.job_id, "compaction_finished")
        .number("compaction_time_micros", info.elapsed_micros)
        .number("compaction_time_cpu_micros", info.cpu_micros)
        .signed("output_level", i64::from(info.output_level))
        .number("num_output_files", info.output_files.len() as u64)
        .number("total_output_size", info.total_output_bytes)
        .number("num_input_records", info.num_input_records)
        .number("num_output_records", info.num_output_records)
        .number("num_subcompactions", info.num_subcompactions as u64)
        .text("output_compression", info.output_compression)
        .list("lsm_state", lsm_state);
    match &info.error {
        None => event.log(logger),
        some => event.status(some.as_ref()).log(logger),
    }
}

/// Logs `table_file_creation`.
pub fn table_file_created(logger: &dyn Logger, info: &TableFileCreationInfo) {
    Event::of_column_family(&info.cf_name, info.job_id, "table_file_creation")
        .number("file_number", info.file_number)
        .number("file_size", info.file_size)
        .number("smallest_seqno", info.smallest_seqno)
        .number("largest_seqno", info.largest_seqno)
        .number("num_entries", info.num_entries)
        .number("num_deletions", info.num_deletions)
        .status(info.error.as_ref())
        .log(logger);
}

/// Logs `table_file_deletion`.
pub fn table_file_deleted(logger: &dyn Logger, info: &TableFileDeletionInfo) {
    Event::new(info.job_id, "table_file_deletion")
        .number("file_number", info.file_number)
        .status(info.error.as_ref())
        .log(logger);
}

/// Logs `ingest_finished` for `files`, each with the level it went to; `lsm_state` is the number of
/// files by level afterwards.
pub fn ingest_finished(logger: &dyn Logger, files: &[(&str, usize)], lsm_state: &[u64]) {
    Event::without_job("ingest_finished")
        .placed_files("files_ingested", files)
        .list("lsm_state", lsm_state)
        .log(logger);
}

/// Logs `recovery_started` with the WAL files that are replayed.
pub fn recovery_started(logger: &dyn Logger, wal_files: &[u64]) {
    Event::new(1, "recovery_started").list("wal_files", wal_files).log(logger);
}

/// Logs `recovery_finished`.
pub fn recovery_finished(logger: &dyn Logger, error: Option<&Error>) {
    Event::new(1, "recovery_finished").status(error).log(logger);
}

#[cfg(test)]
mod tests;
