//! An edit as `ldb manifest_dump --verbose` prints it.

use std::fmt::{self, Write};

use super::VersionEdit;
use crate::file_meta::{FileMetaData, UNKNOWN_CHECKSUM_FUNC, debug_bytes, debug_key};

impl VersionEdit {
    /// The edit as text, keys as hexadecimal digits if `hex`.
    pub fn debug_string(&self, hex: bool) -> String {
        let mut out = String::from("VersionEdit {");
        self.write_fields(&mut out, hex).expect("writing to a String cannot fail");
        out.push_str("\n}\n");
        out
    }

    fn write_fields(&self, out: &mut String, hex: bool) -> fmt::Result {
        write_some(out, "DB ID", self.db_id.as_ref())?;
        write_some(out, "Comparator", self.comparator.as_ref())?;
        write_some(out, "PersistUserDefinedTimestamps", self.persist_user_defined_timestamps)?;
        write_some(out, "LogNumber", self.log_number)?;
        write_some(out, "PrevLogNumber", self.prev_log_number)?;
        write_some(out, "NextFileNumber", self.next_file_number)?;
        write_some(out, "MaxColumnFamily", self.max_column_family)?;
        write_some(out, "MinLogNumberToKeep", self.min_log_number_to_keep)?;
        write_some(out, "LastSeq", self.last_sequence)?;
        for (level, key) in &self.compact_cursors {
            write!(out, "\n  CompactCursor: {level} {}", debug_key(key, hex))?;
        }
        for (level, number) in &self.deleted_files {
            write!(out, "\n  DeleteFile: {level} {number}")?;
        }
        for (level, file) in &self.new_files {
            write_file(out, *level, file, hex)?;
        }
        for blob in &self.blob_additions {
            write!(
                out,
                "\n  BlobFileAddition: blob_file_number: {} total_blob_count: {} \
                 total_blob_bytes: {} checksum_method: {} checksum_value: {}",
                blob.number,
                blob.blob_count,
                blob.blob_bytes,
                blob.checksum_method,
                debug_bytes(&blob.checksum_value, true)
            )?;
        }
        for garbage in &self.blob_garbage {
            write!(
                out,
                "\n  BlobFileGarbage: blob_file_number: {} garbage_blob_count: {} \
                 garbage_blob_bytes: {}",
                garbage.number, garbage.garbage_count, garbage.garbage_bytes
            )?;
        }
        for wal in &self.wal_additions {
            write!(out, "\n  WalAddition: log_number: {} synced_size_in_bytes: ", wal.number)?;
            // RocksDB prints its "unknown" value, the largest 64-bit integer.
            write!(out, "{}", wal.synced_size.unwrap_or(u64::MAX))?;
        }
        if let Some(number) = self.wal_deletion {
            write!(out, "\n  WalDeletion: log_number: {number}")?;
        }
        write!(out, "\n  ColumnFamily: {}", self.column_family)?;
        write_some(out, "ColumnFamilyAdd", self.add_column_family.as_ref())?;
        if self.drop_column_family {
            out.push_str("\n  ColumnFamilyDrop");
        }
        if let Some(remaining) = self.atomic_group_remaining {
            write!(out, "\n  AtomicGroup: {remaining} entries remains")?;
        }
        if let Some(timestamp) = &self.full_history_ts_low {
            write!(out, "\n FullHistoryTsLow: {}", debug_bytes(timestamp, hex))?;
        }
        write_some(out, "LastCompactedManifestFileSize", self.last_compacted_manifest_size)
    }
}

fn write_some<T: fmt::Display>(out: &mut String, name: &str, value: Option<T>) -> fmt::Result {
    match value {
        Some(value) => write!(out, "\n  {name}: {value}"),
        None => Ok(()),
    }
}

fn write_file(out: &mut String, level: usize, file: &FileMetaData, hex: bool) -> fmt::Result {
    write!(out, "\n  AddFile: {level} {} {}", file.number, file.file_size)?;
    write!(out, " {} .. {}", debug_key(&file.smallest, hex), debug_key(&file.largest, hex))?;
    if file.oldest_blob_file_number != 0 {
        write!(out, " blob_file:{}", file.oldest_blob_file_number)?;
    }
    write!(
        out,
        " oldest_ancester_time:{} file_creation_time:{} epoch_number:{} file_checksum:{} \
         file_checksum_func_name: {}",
        file.oldest_ancester_time,
        file.file_creation_time,
        file.epoch_number,
        debug_bytes(&file.file_checksum, true),
        match file.file_checksum_func_name.as_str() {
            "" => UNKNOWN_CHECKSUM_FUNC,
            name => name,
        }
    )?;
    if file.temperature != 0 {
        write!(out, " temperature: {}", file.temperature)?;
    }
    if file.unique_id != [0; 2] {
        let [low, high] = file.unique_id;
        write!(out, " unique_id(internal): {{{low},{high}}}")?;
    }
    write!(out, " tail size:{}", file.tail_size)?;
    let persisted = if file.timestamps_stripped { "false" } else { "true" };
    write!(out, " User-defined timestamps persisted:{persisted}")
}
