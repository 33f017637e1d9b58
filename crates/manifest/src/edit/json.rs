//! An edit as `ldb manifest_dump --json` prints it: one object on one line, with RocksDB 11.9's
//! names and order. Text is escaped where RocksDB's is not, so that it is JSON whatever the keys
//! are.

use super::VersionEdit;
use crate::file_meta::{FileMetaData, UNKNOWN_CHECKSUM_FUNC, debug_bytes, debug_key};

/// An object that grows field by field.
#[derive(Default)]
struct Object {
    fields: Vec<String>,
}

impl Object {
    fn number(&mut self, name: &str, value: impl Into<u64>) {
        self.fields.push(format!("\"{name}\": {}", value.into()));
    }

    fn text(&mut self, name: &str, value: &str) {
        self.fields.push(format!("\"{name}\": {}", quoted(value)));
    }

    fn optional(&mut self, name: &str, value: Option<impl Into<u64>>) {
        if let Some(value) = value {
            self.number(name, value);
        }
    }

    fn array(&mut self, name: &str, objects: impl Iterator<Item = Object>) {
        let objects: Vec<String> = objects.map(Object::finish).collect();
        if !objects.is_empty() {
            self.fields.push(format!("\"{name}\": [{}]", objects.join(", ")));
        }
    }

    fn finish(self) -> String {
        format!("{{{}}}", self.fields.join(", "))
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if u32::from(c) < 0x20 => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

impl VersionEdit {
    /// The edit, which is the `number`th of its MANIFEST from 0 on, as one JSON object; keys as
    /// hexadecimal digits if `hex`.
    pub fn debug_json(&self, number: u64, hex: bool) -> String {
        let mut out = Object::default();
        out.number("EditNumber", number);
        if let Some(id) = &self.db_id {
            out.text("DB ID", id);
        }
        if let Some(name) = &self.comparator {
            out.text("Comparator", name);
        }
        out.optional("LogNumber", self.log_number);
        out.optional("PrevLogNumber", self.prev_log_number);
        out.optional("NextFileNumber", self.next_file_number);
        out.optional("MaxColumnFamily", self.max_column_family);
        out.optional("MinLogNumberToKeep", self.min_log_number_to_keep);
        out.optional("LastSeq", self.last_sequence);
        out.array("DeletedFiles", self.deleted_files.iter().map(deleted));
        out.array("AddedFiles", self.new_files.iter().map(|(level, f)| added(*level, f, hex)));
        self.json_blobs(&mut out);
        out.array(
            "WalAdditions",
            self.wal_additions.iter().map(|wal| {
                let mut one = Object::default();
                one.number("LogNumber", wal.number);
                // RocksDB prints its "unknown" value, the largest 64-bit integer.
                one.number("SyncedSizeInBytes", wal.synced_size.unwrap_or(u64::MAX));
                one
            }),
        );
        if let Some(number) = self.wal_deletion {
            out.fields.push(format!("\"WalDeletion\": {{\"LogNumber\": {number}}}"));
        }
        out.number("ColumnFamily", self.column_family);
        if let Some(name) = &self.add_column_family {
            out.text("ColumnFamilyAdd", name);
        }
        if self.drop_column_family {
            // RocksDB's value is a name that a drop does not have.
            out.text("ColumnFamilyDrop", "");
        }
        out.optional("AtomicGroup", self.atomic_group_remaining);
        if let Some(timestamp) = &self.full_history_ts_low {
            out.text("FullHistoryTsLow", &debug_bytes(timestamp, hex));
        }
        out.finish()
    }

    fn json_blobs(&self, out: &mut Object) {
        out.array(
            "BlobFileAdditions",
            self.blob_additions.iter().map(|blob| {
                let mut one = Object::default();
                one.number("BlobFileNumber", blob.number);
                one.number("TotalBlobCount", blob.blob_count);
                one.number("TotalBlobBytes", blob.blob_bytes);
                one.text("ChecksumMethod", &blob.checksum_method);
                one.text("ChecksumValue", &debug_bytes(&blob.checksum_value, true));
                one
            }),
        );
        out.array(
            "BlobFileGarbages",
            self.blob_garbage.iter().map(|garbage| {
                let mut one = Object::default();
                one.number("BlobFileNumber", garbage.number);
                one.number("GarbageBlobCount", garbage.garbage_count);
                one.number("GarbageBlobBytes", garbage.garbage_bytes);
                one
            }),
        );
    }
}

fn deleted((level, number): &(usize, u64)) -> Object {
    let mut one = Object::default();
    one.number("Level", *level as u64);
    one.number("FileNumber", *number);
    one
}

fn added(level: usize, file: &FileMetaData, hex: bool) -> Object {
    let mut one = Object::default();
    one.number("Level", level as u64);
    one.number("FileNumber", file.number);
    one.number("FileSize", file.file_size);
    one.text("SmallestIKey", &debug_key(&file.smallest, hex));
    one.text("LargestIKey", &debug_key(&file.largest, hex));
    one.number("OldestAncesterTime", file.oldest_ancester_time);
    one.number("FileCreationTime", file.file_creation_time);
    one.number("EpochNumber", file.epoch_number);
    one.text("FileChecksum", &debug_bytes(&file.file_checksum, true));
    one.text(
        "FileChecksumFuncName",
        match file.file_checksum_func_name.as_str() {
            "" => UNKNOWN_CHECKSUM_FUNC,
            name => name,
        },
    );
    if file.temperature != 0 {
        one.text("temperature", &file.temperature.to_string());
    }
    if file.oldest_blob_file_number != 0 {
        one.number("OldestBlobFile", file.oldest_blob_file_number);
    }
    if file.temperature != 0 {
        one.number("Temperature", file.temperature);
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_in_order_and_text_is_escaped() {
        let edit = VersionEdit {
            comparator: Some("a\"b\\c\u{1}".into()),
            log_number: Some(7),
            deleted_files: vec![(1, 20), (2, 21)],
            wal_deletion: Some(9),
            column_family: 3,
            ..VersionEdit::default()
        };
        assert_eq!(
            edit.debug_json(4, false),
            concat!(
                r#"{"EditNumber": 4, "Comparator": "a\"b\\c\u0001", "LogNumber": 7, "#,
                r#""DeletedFiles": [{"Level": 1, "FileNumber": 20}, "#,
                r#"{"Level": 2, "FileNumber": 21}], "#,
                r#""WalDeletion": {"LogNumber": 9}, "ColumnFamily": 3}"#
            )
        );
    }
}
