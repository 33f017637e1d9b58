//! Writes an edit in RocksDB's field order, with NewFile4 as the only form of a new file.

use pumice_base::coding::{
    put_fixed64, put_length_prefixed, put_varint32, put_varint64, varint_len,
};
use pumice_base::names;
use pumice_base::narrow::{len_u32, low_u8};

use super::{VersionEdit, WalAddition, file_tag, tag};
use crate::file_meta::{FileMetaData, UNKNOWN_CHECKSUM_FUNC};

impl VersionEdit {
    /// The record's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + 160 * self.new_files.len());
        self.encode_to(&mut out);
        out
    }

    /// Appends the record's bytes to `out`.
    pub fn encode_to(&self, out: &mut Vec<u8>) {
        if let Some(id) = &self.db_id {
            put_string(out, tag::DB_ID, &names::bytes_of(id));
        }
        if let Some(name) = &self.comparator {
            put_string(out, tag::COMPARATOR, name.as_bytes());
        }
        put_number(out, tag::LOG_NUMBER, self.log_number);
        put_number(out, tag::PREV_LOG_NUMBER, self.prev_log_number);
        put_number(out, tag::NEXT_FILE_NUMBER, self.next_file_number);
        put_number(out, tag::MAX_COLUMN_FAMILY, self.max_column_family.map(u64::from));
        put_number(out, tag::MIN_LOG_NUMBER_TO_KEEP, self.min_log_number_to_keep);
        put_number(out, tag::LAST_SEQUENCE, self.last_sequence);
        self.encode_files(out);
        self.encode_blob_files(out);
        self.encode_wals(out);
        if self.column_family != 0 {
            put_number(out, tag::COLUMN_FAMILY, Some(u64::from(self.column_family)));
        }
        if let Some(name) = &self.add_column_family {
            put_string(out, tag::COLUMN_FAMILY_ADD, &names::bytes_of(name));
        }
        if self.drop_column_family {
            put_varint32(out, tag::COLUMN_FAMILY_DROP);
        }
        put_number(out, tag::IN_ATOMIC_GROUP, self.atomic_group_remaining.map(u64::from));
        if let Some(timestamp) = &self.full_history_ts_low {
            put_string(out, tag::FULL_HISTORY_TS_LOW, timestamp);
        }
        if let Some(persist) = self.persist_user_defined_timestamps {
            put_string(out, tag::PERSIST_UDT, &[u8::from(persist)]);
        }
        if let Some(size) = self.last_compacted_manifest_size {
            put_number_string(out, tag::LAST_MANIFEST_SIZE, size);
        }
    }

    fn encode_files(&self, out: &mut Vec<u8>) {
        for (level, key) in &self.compact_cursors {
            put_varint32(out, tag::COMPACT_CURSOR);
            put_varint64(out, *level as u64);
            put_length_prefixed(out, key);
        }
        for (level, number) in &self.deleted_files {
            put_varint32(out, tag::DELETED_FILE);
            put_varint64(out, *level as u64);
            put_varint64(out, *number);
        }
        // The first file repeats the minimum log number for readers that do not know tag 10.
        let mut min_log = self.min_log_number_to_keep;
        for (level, file) in &self.new_files {
            encode_file(out, *level, file, min_log.take());
        }
    }

    fn encode_blob_files(&self, out: &mut Vec<u8>) {
        for blob in &self.blob_additions {
            put_varint32(out, tag::BLOB_ADDITION);
            put_varint64(out, blob.number);
            put_varint64(out, blob.blob_count);
            put_varint64(out, blob.blob_bytes);
            put_length_prefixed(out, &names::bytes_of(&blob.checksum_method));
            put_length_prefixed(out, &blob.checksum_value);
            put_varint32(out, file_tag::BLOB_END);
        }
        for garbage in &self.blob_garbage {
            put_varint32(out, tag::BLOB_GARBAGE);
            put_varint64(out, garbage.number);
            put_varint64(out, garbage.garbage_count);
            put_varint64(out, garbage.garbage_bytes);
            put_varint32(out, file_tag::BLOB_END);
        }
    }

    fn encode_wals(&self, out: &mut Vec<u8>) {
        for WalAddition { number, synced_size } in &self.wal_additions {
            let mut body = Vec::with_capacity(24);
            put_varint64(&mut body, *number);
            if let Some(size) = synced_size {
                put_varint32(&mut body, file_tag::WAL_SYNCED_SIZE);
                put_varint64(&mut body, *size);
            }
            put_varint32(&mut body, file_tag::WAL_TERMINATE);
            put_string(out, tag::WAL_ADDITION, &body);
        }
        if let Some(number) = self.wal_deletion {
            put_number_string(out, tag::WAL_DELETION, number);
        }
    }
}

fn encode_file(out: &mut Vec<u8>, level: usize, file: &FileMetaData, min_log: Option<u64>) {
    put_varint32(out, tag::NEW_FILE4);
    put_varint64(out, level as u64);
    put_varint64(out, file.number);
    put_varint64(out, file.file_size);
    put_length_prefixed(out, &file.smallest);
    put_length_prefixed(out, &file.largest);
    put_varint64(out, file.smallest_seq);
    put_varint64(out, file.largest_seq);

    put_number_string(out, file_tag::OLDEST_ANCESTER_TIME, file.oldest_ancester_time);
    put_number_string(out, file_tag::FILE_CREATION_TIME, file.file_creation_time);
    put_number_string(out, file_tag::EPOCH_NUMBER, file.epoch_number);
    let func = file.file_checksum_func_name.as_str();
    if !func.is_empty() && func != UNKNOWN_CHECKSUM_FUNC {
        put_string(out, file_tag::FILE_CHECKSUM, &file.file_checksum);
        put_string(out, file_tag::FILE_CHECKSUM_FUNC, &names::bytes_of(func));
    }
    if file.path_id != 0 {
        put_string(out, file_tag::PATH_ID, &[low_u8(u64::from(file.path_id))]);
    }
    if file.temperature != 0 {
        put_string(out, file_tag::TEMPERATURE, &[file.temperature]);
    }
    if file.marked_for_compaction {
        put_string(out, file_tag::NEED_COMPACTION, &[1]);
    }
    if file.oldest_blob_file_number != 0 {
        put_number_string(out, file_tag::OLDEST_BLOB_FILE, file.oldest_blob_file_number);
    }
    if let Some(min_log) = min_log {
        put_string(out, file_tag::MIN_LOG_NUMBER_TO_KEEP, &min_log.to_le_bytes());
    }
    if file.unique_id != [0; 2] {
        put_varint32(out, file_tag::UNIQUE_ID);
        put_varint32(out, 16);
        put_fixed64(out, file.unique_id[0]);
        put_fixed64(out, file.unique_id[1]);
    }
    if file.compensated_range_deletion_size != 0 {
        let size = file.compensated_range_deletion_size;
        put_number_string(out, file_tag::COMPENSATED_RANGE_DELETION, size);
    }
    if file.tail_size != 0 {
        put_number_string(out, file_tag::TAIL_SIZE, file.tail_size);
    }
    if !file.min_timestamp.is_empty() {
        put_string(out, file_tag::MIN_TIMESTAMP, &file.min_timestamp);
    }
    if !file.max_timestamp.is_empty() {
        put_string(out, file_tag::MAX_TIMESTAMP, &file.max_timestamp);
    }
    if file.timestamps_stripped {
        put_string(out, file_tag::UDT_PERSISTED, &[0]);
    }
    put_varint32(out, file_tag::TERMINATE);
}

/// `tag ‖ varint64`, if there is a value.
fn put_number(out: &mut Vec<u8>, tag: u32, value: Option<u64>) {
    if let Some(value) = value {
        put_varint32(out, tag);
        put_varint64(out, value);
    }
}

/// `tag ‖ length ‖ bytes`.
fn put_string(out: &mut Vec<u8>, tag: u32, bytes: &[u8]) {
    put_varint32(out, tag);
    put_length_prefixed(out, bytes);
}

/// `tag ‖ length ‖ varint64`.
fn put_number_string(out: &mut Vec<u8>, tag: u32, value: u64) {
    put_varint32(out, tag);
    put_varint32(out, len_u32(varint_len(value)));
    put_varint64(out, value);
}
