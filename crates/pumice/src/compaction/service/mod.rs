//! What a database and the process that does a compaction for it tell each other, in RocksDB's
//! form (CompactionServiceInput and CompactionServiceResult).
//!
//! Thread safety: plain data. What it does not do: schedule, wait, install (`engine::remote`).

mod text;

use pumice_base::{Error, FileNumber, Result, SequenceNumber};
use pumice_env::Temperature;
use pumice_env::filename::{FileType, parse, table_file_name};
use pumice_manifest::{FileMetaData, FileStats};
use std::path::Path;

use crate::compaction::service::text::{Fields, Text};

/// What is to be compacted: what a [`CompactionService`](crate::options::CompactionService) is
/// given, and [`open_and_compact`](crate::open_and_compact) takes, in RocksDB's form.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// use pumice::CompactionServiceInput;
/// let mut input = CompactionServiceInput::default();
/// input.cf_name = "default".into();
/// assert_eq!(CompactionServiceInput::read(&input.write())?, input);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServiceInput {
    /// Name of the column family.
    pub cf_name: String,
    /// The sequence numbers that must stay readable, ascending.
    pub snapshots: Vec<SequenceNumber>,
    /// The tables, by number.
    pub input_files: Vec<FileNumber>,
    /// The level that is written.
    pub output_level: i32,
    /// Identity of the database; empty is not checked.
    pub db_id: String,
    /// The first user key; None is an open end.
    pub begin: Option<Vec<u8>>,
    /// The user key that the compaction ends before; None is an open end.
    pub end: Option<Vec<u8>>,
    /// The OPTIONS file that the database works with.
    pub options_file_number: FileNumber,
}

impl ServiceInput {
    /// The text that a worker is given: the form's version (4 bytes), then
    /// `name=value;` for each field, bytes in hexadecimal.
    pub fn write(&self) -> Vec<u8> {
        let files: Vec<String> = self.input_files.iter().map(|n| table_file_name(*n)).collect();
        let mut text = Text::default();
        text.put_bytes("cf_name", &self.cf_name)
            .put_numbers("snapshots", &self.snapshots)
            .put_texts("input_files", &files)
            .put("output_level", self.output_level)
            .put_bytes("db_id", &self.db_id)
            .put("has_begin", self.begin.is_some())
            .put_bytes("begin", self.begin.as_deref().unwrap_or_default())
            .put("has_end", self.end.is_some())
            .put_bytes("end", self.end.as_deref().unwrap_or_default())
            .put("options_file_number", self.options_file_number);
        text.message()
    }

    /// The input that a text of [`CompactionServiceInput::write`](Self::write) says.
    ///
    /// # Errors
    /// InvalidArgument; NotSupported for another version of the form.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let fields = Fields::of_message(bytes, "CompactionServiceInput")?;
        let number = |name: String| match parse(name.trim_start_matches('/')) {
            Some((number, FileType::Table)) => Ok(number),
            _ => Err(Error::invalid_argument(format!("no table file: {name}"))),
        };
        let end = |has: &str, name: &str| -> Result<Option<Vec<u8>>> {
            Ok(if fields.flag(has)? { Some(fields.bytes(name)?) } else { None })
        };
        Ok(ServiceInput {
            cf_name: fields.text("cf_name")?,
            snapshots: fields.numbers("snapshots")?,
            input_files: fields
                .texts("input_files")?
                .into_iter()
                .map(number)
                .collect::<Result<_>>()?,
            output_level: fields.number("output_level")?,
            db_id: fields.text("db_id")?,
            begin: end("has_begin", "begin")?,
            end: end("has_end", "end")?,
            options_file_number: fields.number("options_file_number")?,
        })
    }
}

/// A table that was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServiceFile {
    /// In the output directory, without a separator.
    pub file_name: String,
    pub smallest_seq: SequenceNumber,
    pub largest_seq: SequenceNumber,
    /// Internal keys.
    pub smallest: Vec<u8>,
    pub largest: Vec<u8>,
    pub oldest_ancester_time: u64,
    pub file_creation_time: u64,
    pub epoch_number: u64,
    pub file_checksum: Vec<u8>,
    pub file_checksum_func_name: String,
    pub marked_for_compaction: bool,
    pub unique_id: [u64; 2],
    /// RocksDB's number; 0 is unknown.
    pub temperature: u8,
    /// Bytes of the file; 0 is unknown. RocksDB neither writes nor reads it.
    pub file_size: u64,
    /// Of its properties.
    pub stats: FileStats,
}

impl ServiceFile {
    pub fn of(file: &FileMetaData) -> Self {
        ServiceFile {
            file_name: table_file_name(file.number),
            smallest_seq: file.smallest_seq,
            largest_seq: file.largest_seq,
            smallest: file.smallest.clone(),
            largest: file.largest.clone(),
            oldest_ancester_time: file.oldest_ancester_time,
            file_creation_time: file.file_creation_time,
            epoch_number: file.epoch_number,
            file_checksum: file.file_checksum.clone(),
            file_checksum_func_name: file.file_checksum_func_name.clone(),
            marked_for_compaction: file.marked_for_compaction,
            unique_id: file.unique_id,
            temperature: file.temperature,
            file_size: file.file_size,
            stats: file.stats(),
        }
    }

    fn write(&self) -> Text {
        let mut properties = Text::default();
        properties
            .put("num_entries", self.stats.num_entries)
            .put("num_deletions", self.stats.num_deletions)
            .put("num_range_deletions", self.stats.num_range_deletions)
            .put("raw_key_size", self.stats.raw_key_size)
            .put("raw_value_size", self.stats.raw_value_size);
        let mut text = Text::default();
        text.put_bytes("file_name", &self.file_name)
            .put("smallest_seqno", self.smallest_seq)
            .put("largest_seqno", self.largest_seq)
            .put_bytes("smallest_internal_key", &self.smallest)
            .put_bytes("largest_internal_key", &self.largest)
            .put("oldest_ancester_time", self.oldest_ancester_time)
            .put("file_creation_time", self.file_creation_time)
            .put("epoch_number", self.epoch_number)
            .put_bytes("file_checksum", &self.file_checksum)
            .put_bytes("file_checksum_func_name", &self.file_checksum_func_name)
            .put("paranoid_hash", 0)
            .put("marked_for_compaction", self.marked_for_compaction)
            .put_numbers("unique_id", &self.unique_id)
            .put("file_size", self.file_size)
            .put_part("table_properties", &properties)
            .put("is_proximal_level_output", false)
            .put("file_temperature", Temperature::of_byte(self.temperature).name());
        text
    }

    fn read(fields: &Fields) -> Result<Self> {
        let file_name = fields.text("file_name")?;
        let table = matches!(parse(&file_name), Some((_, FileType::Table)));
        // It is joined to a directory, and must not leave that.
        if !table || Path::new(&file_name).components().count() != 1 {
            return Err(Error::invalid_argument(format!("no table file: {file_name:?}")));
        }
        let properties = fields.part("table_properties")?;
        let unique_id = fields.numbers("unique_id")?;
        Ok(ServiceFile {
            file_name,
            smallest_seq: fields.number("smallest_seqno")?,
            largest_seq: fields.number("largest_seqno")?,
            smallest: fields.bytes("smallest_internal_key")?,
            largest: fields.bytes("largest_internal_key")?,
            oldest_ancester_time: fields.number("oldest_ancester_time")?,
            file_creation_time: fields.number("file_creation_time")?,
            epoch_number: fields.number("epoch_number")?,
            file_checksum: fields.bytes("file_checksum")?,
            file_checksum_func_name: fields.text("file_checksum_func_name")?,
            marked_for_compaction: fields.flag("marked_for_compaction")?,
            unique_id: unique_id.try_into().unwrap_or_default(),
            temperature: {
                let name = fields.value("file_temperature").unwrap_or_default();
                Temperature::of_name(name).unwrap_or_default() as u8
            },
            file_size: fields.number("file_size")?,
            stats: FileStats {
                num_entries: properties.number("num_entries")?,
                num_deletions: properties.number("num_deletions")?,
                num_range_deletions: properties.number("num_range_deletions")?,
                raw_key_size: properties.number("raw_key_size")?,
                raw_value_size: properties.number("raw_value_size")?,
                newest_key_time: 0,
            },
        })
    }
}

/// How a compaction ended.
#[derive(Debug)]
pub(crate) struct ServiceResult {
    pub status: Result<()>,
    pub output_files: Vec<ServiceFile>,
    pub output_level: i32,
    pub output_path: String,
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// Point entries that were read; None if it is not known.
    pub entries_in: Option<u64>,
    pub elapsed_micros: u64,
    pub cpu_micros: u64,
}

impl ServiceResult {
    /// One that failed.
    #[cfg(test)]
    pub fn failed(error: Error) -> Self {
        ServiceResult {
            status: Err(error),
            output_files: Vec::new(),
            output_level: 0,
            output_path: String::new(),
            bytes_read: 0,
            bytes_written: 0,
            entries_in: None,
            elapsed_micros: 0,
            cpu_micros: 0,
        }
    }

    /// Point entries of the output.
    fn num_output_records(&self) -> u64 {
        num_points(&self.output_files)
    }

    pub fn write(&self) -> Vec<u8> {
        let (mut status, mut stats, mut level) = <(Text, Text, Text)>::default();
        let (code, subcode, severity, message) = match &self.status {
            Ok(()) => (0, 0, 0, ""),
            Err(e) => (e.kind() as u8, e.subcode() as u8, e.severity() as u8, e.message()),
        };
        status.put("code", code).put("subcode", subcode).put("severity", severity);
        status.put_bytes("message", message);
        let files = self.output_files.len();
        stats
            .put("elapsed_micros", self.elapsed_micros)
            .put("cpu_micros", self.cpu_micros)
            .put("has_accurate_num_input_records", self.entries_in.is_some())
            .put("num_input_records", self.entries_in.unwrap_or(0))
            .put("num_output_records", self.num_output_records())
            .put("num_output_files", files)
            .put("is_remote_compaction", true)
            .put("total_input_bytes", self.bytes_read)
            .put("total_output_bytes", self.bytes_written);
        level
            .put("micros", self.elapsed_micros)
            .put("cpu_micros", self.cpu_micros)
            .put("bytes_written", self.bytes_written)
            .put("num_output_files", files)
            .put("num_output_records", self.num_output_records())
            .put("count", 1);
        let mut internal = Text::default();
        internal.put_part("output_level_stats", &level).put("has_proximal_level_output", false);
        let parts: Vec<Text> = self.output_files.iter().map(ServiceFile::write).collect();
        let mut text = Text::default();
        text.put_part("status", &status)
            .put_parts("output_files", &parts)
            .put("output_level", self.output_level)
            .put_bytes("output_path", &self.output_path)
            .put("bytes_read", self.bytes_read)
            .put("bytes_written", self.bytes_written)
            .put_part("stats", &stats)
            .put_part("internal_stats", &internal);
        text.message()
    }

    /// # Errors
    /// InvalidArgument; NotSupported for another version of the form.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let fields = Fields::of_message(bytes, "CompactionServiceResult")?;
        let status = fields.part("status")?;
        if !status.has("code") {
            return Err(incomplete("status"));
        }
        let (code, subcode) = (status.number("code")?, status.number("subcode")?);
        let message = String::from_utf8_lossy(&status.bytes("message")?).into_owned();
        let status = match code {
            0 => Ok(()),
            _ => Err(Error::of_numbers(code, subcode, status.number("severity")?, message)),
        };
        let files = fields.parts("output_files")?;
        let output_files = files.iter().map(ServiceFile::read).collect::<Result<Vec<_>>>()?;
        let stats = fields.part("stats")?;
        if status.is_ok() {
            check_complete(&fields, &stats, &output_files)?;
        }
        Ok(ServiceResult {
            status,
            output_files,
            output_level: fields.number("output_level")?,
            output_path: fields.text("output_path")?,
            bytes_read: fields.number("bytes_read")?,
            bytes_written: fields.number("bytes_written")?,
            entries_in: match stats.flag("has_accurate_num_input_records")? {
                true if !stats.has("num_input_records") => {
                    return Err(incomplete("num_input_records"));
                }
                true => Some(stats.number("num_input_records")?),
                false => None,
            },
            elapsed_micros: stats.number("elapsed_micros")?,
            cpu_micros: stats.number("cpu_micros")?,
        })
    }
}

fn incomplete(what: &str) -> Error {
    Error::invalid_argument(format!("the result of a compaction is not complete: {what}"))
}

fn num_points(files: &[ServiceFile]) -> u64 {
    files.iter().fold(0, |sum, file| {
        let FileStats { num_entries, num_range_deletions, .. } = file.stats;
        sum.saturating_add(num_entries.saturating_sub(num_range_deletions))
    })
}

/// A result that was cut, or that is none, must not read as one without tables.
fn check_complete(fields: &Fields, stats: &Fields, files: &[ServiceFile]) -> Result<()> {
    let needed = ["output_files", "output_level", "output_path", "stats"];
    if let Some(missing) = needed.iter().find(|name| !fields.has(name)) {
        return Err(incomplete(missing));
    }
    for (name, count) in
        [("num_output_files", files.len() as u64), ("num_output_records", num_points(files))]
    {
        if !stats.has(name) || stats.number::<u64>(name)? != count {
            return Err(incomplete(name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use pumice_base::ErrorKind;

    #[pumice_test_macros::test]
    fn inputs_come_back() {
        let whole = ServiceInput {
            cf_name: "a=b;".to_string(),
            snapshots: vec![3, 1 << 50],
            input_files: vec![7, 1234567],
            output_level: 6,
            db_id: "id".to_string(),
            begin: Some(Vec::new()),
            end: Some(b"\xff{".to_vec()),
            options_file_number: 12,
        };
        for input in [whole, ServiceInput::default()] {
            assert_eq!(ServiceInput::read(&input.write()).unwrap(), input);
        }
    }

    fn file(name: &str) -> ServiceFile {
        ServiceFile {
            file_name: name.to_string(),
            smallest_seq: 1,
            largest_seq: 9,
            smallest: b"a1234567\x01".to_vec(),
            largest: b"z:;={}67\x01".to_vec(),
            epoch_number: 4,
            unique_id: [5, 6],
            file_size: 1000,
            stats: FileStats { num_entries: 10, num_range_deletions: 1, ..FileStats::default() },
            ..ServiceFile::default()
        }
    }

    #[pumice_test_macros::test]
    fn results_come_back() {
        for names in [&[][..], &["000012.sst"], &["000012.sst", "000013.sst"]] {
            let files: Vec<ServiceFile> = names.iter().map(|name| file(name)).collect();
            let result = ServiceResult {
                status: Ok(()),
                output_files: files.clone(),
                output_level: 2,
                output_path: "/out:put".to_string(),
                bytes_written: 7,
                ..ServiceResult::failed(Error::aborted(""))
            };
            let read = ServiceResult::read(&result.write()).unwrap();
            assert!(read.status.is_ok() && read.output_files == files);
            assert_eq!((read.output_path, read.bytes_written), (result.output_path, 7));
        }
        let failed = ServiceResult::failed(Error::corruption("a={b}"));
        let error = ServiceResult::read(&failed.write()).unwrap().status.unwrap_err();
        assert_eq!((error.kind(), error.message()), (ErrorKind::Corruption, "a={b}"));
    }

    /// A part of a result is none, unless it lacks nothing that matters.
    #[pumice_test_macros::test]
    fn results_that_were_cut_are_none() {
        for files in [vec![], vec![file("000012.sst"), file("000013.sst")]] {
            let result = ServiceResult {
                status: Ok(()),
                output_files: files.clone(),
                output_level: 6,
                output_path: "/out".to_string(),
                entries_in: Some(1234),
                ..ServiceResult::failed(Error::aborted(""))
            };
            let whole = result.write();
            for len in 0..whole.len() {
                let Ok(read) = ServiceResult::read(&whole[..len]) else { continue };
                assert!(read.status.is_ok() && read.output_files == files, "{len}");
                assert_eq!((read.entries_in, read.output_level), (Some(1234), 6), "{len}");
                assert_eq!(read.output_path, "/out", "{len}");
            }
        }
        assert!(ServiceResult::read(b"\x01\0\0\0a=1;").is_err());
    }

    /// A result names files of its directory only.
    #[pumice_test_macros::test]
    fn names_stay_in_their_directory() {
        for name in ["../000012.sst", "/000012.sst", "a/000012.sst", "CURRENT", ""] {
            let mut result = ServiceResult::failed(Error::aborted(""));
            result.output_files.push(file(name));
            assert!(ServiceResult::read(&result.write()).is_err(), "{name}");
        }
    }
}
