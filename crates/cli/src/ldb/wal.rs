//! `dump_wal`: the batches of one log file, or of all in a directory, without opening the database.
//!
//! Keys and values are hexadecimal, as RocksDB's ldb prints them whatever the flags say.

use std::path::{Path, PathBuf};

use super::open::text as failure;
use super::{Failure, Invocation};
use crate::output::Output;
use crate::text::{show, show_columns};
use pumice::{BatchRecord, WriteBatch};
use pumice_base::coding::get_fixed64;
use pumice_base::{Error, Result, ValueType, wide_columns};
use pumice_env::filename::{self, FileType};
use pumice_env::{FileSystem, PosixFs};
use pumice_wal::{LogReader, LogReaderOptions, WalRecoveryMode};

/// A sequence number and a number of entries.
const BATCH_HEADER_LEN: usize = 12;

/// `dump_wal --walfile=PATH`
pub fn dump_wal(it: &Invocation, out: &mut Output) -> std::result::Result<(), Failure> {
    let Some(path) = it.arguments.path("walfile") else {
        return Err("Argument walfile must be specified.".into());
    };
    let what = WalDump {
        header: it.arguments.flag("header"),
        values: it.arguments.flag("print_value"),
        only_gaps: it.arguments.flag("only_print_seqno_gaps"),
    };
    let fs = PosixFs::shared();
    let mut before = None;
    if !pumice_port::os::stat(path).is_ok_and(|stat| stat.is_dir) {
        return dump_log(&*fs, path, &what, &mut before, out);
    }
    let logs = logs_in(&*fs, path).map_err(opening)?;
    if logs.is_empty() {
        return Err(format!("{}: No valid wal logs found", path.display()));
    }
    for log in logs {
        out.text(&format!("Checking wal file: {}\n", log.display()));
        dump_log(&*fs, &log, &what, &mut before, out)?;
    }
    Ok(())
}

fn opening(error: Error) -> Failure {
    format!("Failed to open WAL file {error}")
}

/// The logs in a directory, the oldest first.
fn logs_in(fs: &dyn FileSystem, dir: &Path) -> Result<Vec<PathBuf>> {
    let mut logs = Vec::new();
    for name in fs.list(dir)? {
        if let Some((number, FileType::Wal)) = filename::parse(&name) {
            logs.push((number, dir.join(&name)));
        }
    }
    logs.sort();
    Ok(logs.into_iter().map(|(_, path)| path).collect())
}

/// What is printed of a log.
pub struct WalDump {
    /// Whether to print a line with the column names.
    pub header: bool,
    /// Values, too.
    pub values: bool,
    /// Only batches that do not begin where the one before ended.
    pub only_gaps: bool,
}

/// Sequence number and number of entries of the batch before.
pub type Before = Option<(u64, u32)>;

/// Prints the batches of the log at `path`.
///
/// # Errors
/// The file cannot be opened; a record is not a batch. Other damage is printed where it is, and
/// ends the log.
pub fn dump_log(
    fs: &dyn FileSystem,
    path: &Path,
    what: &WalDump,
    before: &mut Before,
    out: &mut Output,
) -> std::result::Result<(), Failure> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let number = filename::parse(&name).map_or(0, |(number, _)| number);
    let file = fs.open_sequential(path).map_err(opening)?;
    let options = LogReaderOptions::wal(number, WalRecoveryMode::TolerateCorruptedTail);
    let mut reader = LogReader::new(file, options, None);
    if what.header {
        let value = if what.values { " : value " } else { "" };
        out.text(&format!("Sequence,Count,ByteSize,Physical Offset,Key(s){value}\n"));
    }
    let mut record = Vec::new();
    loop {
        match reader.read_record(&mut record) {
            Ok(Some(_)) if record.len() < BATCH_HEADER_LEN => eprintln!(
                "Corruption detected in log file {name}: Corruption: log record too small"
            ),
            Ok(Some(info)) => print_batch(&record, info.offset, what, before, out)
                .map_err(|error| format!("Print write batch error: {}", failure(error)))?,
            Ok(None) => return Ok(()),
            Err(error) => {
                eprintln!("Corruption detected in log file {name}: {}", failure(error));
                return Ok(());
            }
        }
    }
}

fn print_batch(
    record: &[u8],
    offset: u64,
    what: &WalDump,
    before: &mut Before,
    out: &mut Output,
) -> Result<()> {
    let batch = WriteBatch::from_data(record)?;
    let sequence = get_fixed64(record).unwrap_or(0);
    let last = before.replace((sequence, batch.count()));
    let gap = last.filter(|(first, count)| first.checked_add(u64::from(*count)) != Some(sequence));
    let mut line = Vec::new();
    match gap {
        _ if !what.only_gaps => {}
        Some((first, count)) => line.extend(
            format!("Prev batch sequence number: {first}, prev batch count: {count}, ").bytes(),
        ),
        None => return Ok(()),
    }
    line.extend(format!("{sequence},{},{},{offset},", batch.count(), record.len()).bytes());
    for entry in batch.iter() {
        match entry? {
            BatchRecord::Entry { column_family, value_type, key, value } => {
                let name = name_of(value_type);
                line.extend(format!("{name}({column_family}) : ").into_bytes());
                line.extend(show(key, true));
                match value_type {
                    ValueType::Deletion | ValueType::SingleDeletion => {}
                    ValueType::RangeDeletion => {
                        line.push(b' ');
                        line.extend(show(value, true));
                    }
                    ValueType::WideColumnEntity if what.values => {
                        line.extend(b" : ");
                        line.extend(show_columns(wide_columns::decode(value)?, true));
                    }
                    _ if what.values => {
                        line.extend(b" : ");
                        line.extend(show(value, true));
                    }
                    _ => {}
                }
                line.push(b' ');
            }
            BatchRecord::Marker(tag, xid) => line.extend(marker(tag, xid)),
            BatchRecord::LogData(_) => {}
        }
    }
    out.line(&[&line]);
    Ok(())
}

fn name_of(value_type: ValueType) -> &'static str {
    match value_type {
        ValueType::Value => "PUT",
        ValueType::Merge => "MERGE",
        ValueType::Deletion => "DELETE",
        ValueType::SingleDeletion => "SINGLE_DELETE",
        ValueType::RangeDeletion => "DELETE_RANGE",
        ValueType::BlobIndex => "PUT_BLOB_INDEX",
        ValueType::WideColumnEntity => "PUT_ENTITY",
        _ => "UNKNOWN",
    }
}

/// A transaction's marker, with its name where it has one.
fn marker(tag: ValueType, xid: &[u8]) -> Vec<u8> {
    let named = |name: &str| [name.as_bytes(), b"(", &show(xid, true), b") "].concat();
    match tag {
        ValueType::Noop => b"NOOP ".to_vec(),
        ValueType::EndPrepareXid => named("END_PREPARE"),
        ValueType::CommitXid => named("COMMIT"),
        ValueType::CommitXidAndTimestamp => named("COMMIT_WITH_TIMESTAMP"),
        ValueType::RollbackXid => named("ROLLBACK"),
        _ => b"BEGIN_PREPARE ".to_vec(),
    }
}
