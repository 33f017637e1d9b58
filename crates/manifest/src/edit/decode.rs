//! Reads every form of every field of docs/format/manifest.md#edits.
//!
//! Error texts are RocksDB's: `VersionEdit: new-file4 entry`.

use std::sync::Arc;

use pumice_base::coding::Decoder;
use pumice_base::key::{COLUMN_FAMILY_ID_MAX, FILE_NUMBER_MAX, LAST_SEQUENCE_MAX, MAX_SEQUENCE};
use pumice_base::{Error, InternalKey, Result, names};

use super::{BlobFileAddition, BlobFileGarbage, VersionEdit, WalAddition, file_tag, tag};
use crate::file_meta::{FileMetaData, MAX_EPOCH};

/// Levels beyond this are nonsense; no known database has more than 64.
const MAX_LEVEL: u32 = 255;
/// `db_paths` has at most four entries.
const MAX_PATH_ID: u8 = 3;
/// Bytes that range tombstones of a file can cover: levels and compactions sum them up.
const MAX_COVERED: u64 = 1 << 56;

/// A failed field; the text names it.
type Field<T> = std::result::Result<T, &'static str>;

impl VersionEdit {
    /// Parses one record. An empty record is an empty edit.
    ///
    /// # Errors
    /// `Corruption` if a field is malformed or unknown and not safe to ignore.
    pub fn decode(record: &[u8]) -> Result<VersionEdit> {
        let mut edit = VersionEdit::default();
        let mut input = Decoder::new(record);
        while !input.is_empty() {
            let field = input
                .varint32()
                .ok_or("invalid tag")
                .and_then(|tag| edit.decode_field(tag, &mut input));
            field.map_err(|what| Error::corruption(format!("VersionEdit: {what}")))?;
        }
        Ok(edit)
    }

    fn decode_field(&mut self, tag: u32, input: &mut Decoder<'_>) -> Field<()> {
        match tag {
            tag::DB_ID => self.db_id = Some(text(input, "db id")?),
            tag::COMPARATOR => self.comparator = Some(shown(input, "comparator name")?),
            tag::LOG_NUMBER => self.log_number = Some(file_number(input, "log number")?),
            tag::PREV_LOG_NUMBER => {
                self.prev_log_number = Some(file_number(input, "previous log number")?);
            }
            tag::NEXT_FILE_NUMBER => {
                self.next_file_number = Some(file_number(input, "next file number")?);
            }
            tag::LAST_SEQUENCE => {
                self.last_sequence =
                    Some(number_to(LAST_SEQUENCE_MAX, input, "last sequence number")?);
            }
            tag::MIN_LOG_NUMBER_TO_KEEP => {
                self.raise_min_log(file_number(input, "min log number to keep")?);
            }
            tag::MAX_COLUMN_FAMILY => {
                self.max_column_family = Some(family_id(input, "max column family")?);
            }
            tag::COLUMN_FAMILY => {
                self.column_family = family_id(input, "set column family id")?;
            }
            tag::COLUMN_FAMILY_ADD => {
                self.add_column_family = Some(text(input, "column family add")?);
            }
            tag::COLUMN_FAMILY_DROP => self.drop_column_family = true,
            tag::IN_ATOMIC_GROUP => {
                let remaining = input.varint32().ok_or("remaining entries")?;
                self.atomic_group_remaining = Some(remaining);
            }
            tag::FULL_HISTORY_TS_LOW => {
                let timestamp = input.length_prefixed().ok_or("full_history_ts_low")?;
                self.full_history_ts_low = Some(timestamp.to_vec());
            }
            tag::PERSIST_UDT => {
                let what = "persist_user_defined_timestamps";
                match input.length_prefixed().ok_or(what)? {
                    [flag] => self.persist_user_defined_timestamps = Some(*flag == 1),
                    _ => return Err(what),
                }
            }
            tag::LAST_MANIFEST_SIZE => {
                let what = "last compacted manifest file size";
                self.last_compacted_manifest_size = Some(number_string(input, what)?);
            }
            _ => return self.decode_file_field(tag, input),
        }
        Ok(())
    }

    /// The fields about table, blob and log files.
    fn decode_file_field(&mut self, tag: u32, input: &mut Decoder<'_>) -> Field<()> {
        match tag {
            tag::COMPACT_CURSOR => {
                let level = level(input, "compaction cursor")?;
                let key = internal_key(input, "compaction cursor")?;
                self.compact_cursors.push((level, key));
            }
            tag::DELETED_FILE => {
                let level = level(input, "deleted file")?;
                let number = file_number(input, "deleted file")?;
                self.deleted_files.push((level, number));
            }
            tag::NEW_FILE => self.decode_old_file(input, false, false, "new-file entry")?,
            tag::NEW_FILE2 => self.decode_old_file(input, false, true, "new-file2 entry")?,
            tag::NEW_FILE3 => self.decode_old_file(input, true, true, "new-file3 entry")?,
            tag::NEW_FILE4 => self.decode_file4(input)?,
            tag::BLOB_ADDITION | tag::BLOB_ADDITION_OLD => {
                self.blob_additions.push(blob_addition(input)?);
            }
            tag::BLOB_GARBAGE | tag::BLOB_GARBAGE_OLD => {
                self.blob_garbage.push(blob_garbage(input)?);
            }
            tag::WAL_ADDITION_OLD => self.wal_additions.push(wal_addition(input)?),
            tag::WAL_ADDITION => {
                let body = input.length_prefixed().ok_or("wal addition")?;
                self.wal_additions.push(wal_addition(&mut Decoder::new(body))?);
            }
            tag::WAL_DELETION_OLD => self.wal_deletion = Some(file_number(input, "wal deletion")?),
            tag::WAL_DELETION => self.wal_deletion = Some(number_string(input, "wal deletion")?),
            unknown if unknown & tag::SAFE_IGNORE != 0 => {
                input.length_prefixed().ok_or("safely ignoreable tag length error")?;
                self.unknown_skipped += 1;
            }
            _ => return Err("unknown tag"),
        }
        Ok(())
    }

    /// The forms before NewFile4: `level number [path] size smallest largest [seq seq]`.
    fn decode_old_file(
        &mut self,
        input: &mut Decoder<'_>,
        has_path: bool,
        has_seqnos: bool,
        what: &'static str,
    ) -> Field<()> {
        let level = level(input, what)?;
        let mut file = FileMetaData { number: file_number(input, what)?, ..Default::default() };
        if has_path {
            file.path_id = input.varint32().ok_or(what)?;
            if file.path_id > u32::from(MAX_PATH_ID) {
                return Err("path_id wrong vaue");
            }
        }
        file_range(&mut file, input, has_seqnos, what)?;
        self.new_files.push((level, Arc::new(file)));
        Ok(())
    }

    fn decode_file4(&mut self, input: &mut Decoder<'_>) -> Field<()> {
        const WHAT: &str = "new-file4 entry";
        let level = level(input, WHAT)?;
        let mut file = FileMetaData { number: file_number(input, WHAT)?, ..Default::default() };
        file_range(&mut file, input, true, WHAT)?;
        loop {
            let tag = input.varint32().ok_or("new-file4 custom field")?;
            if tag == file_tag::TERMINATE {
                break;
            }
            let value = input.length_prefixed().ok_or("new-file4 custom field")?;
            if tag == file_tag::MIN_LOG_NUMBER_TO_KEEP {
                let min_log = pumice_base::coding::get_fixed64(value);
                let min_log = min_log.filter(|number| *number <= FILE_NUMBER_MAX);
                self.raise_min_log(min_log.ok_or("invalid min log number")?);
            } else {
                file_custom_field(&mut file, tag, value)?;
            }
        }
        self.new_files.push((level, Arc::new(file)));
        Ok(())
    }

    fn raise_min_log(&mut self, number: u64) {
        self.min_log_number_to_keep = self.min_log_number_to_keep.max(Some(number));
    }
}

/// `size smallest largest [smallest_seq largest_seq]`.
fn file_range(
    file: &mut FileMetaData,
    input: &mut Decoder<'_>,
    has_seqnos: bool,
    what: &'static str,
) -> Field<()> {
    file.file_size = number(input, what)?;
    file.smallest = internal_key(input, what)?;
    file.largest = internal_key(input, what)?;
    if has_seqnos {
        file.smallest_seq = number_to(MAX_SEQUENCE, input, what)?;
        file.largest_seq = number_to(MAX_SEQUENCE, input, what)?;
    }
    Ok(())
}

fn file_custom_field(file: &mut FileMetaData, tag: u32, value: &[u8]) -> Field<()> {
    let number = |what| Decoder::new(value).varint64().ok_or(what);
    match tag {
        file_tag::NEED_COMPACTION => match value {
            [flag] => file.marked_for_compaction = *flag == 1,
            _ => return Err("need_compaction field wrong size"),
        },
        file_tag::OLDEST_BLOB_FILE => {
            file.oldest_blob_file_number = number("invalid oldest blob file number")?;
        }
        file_tag::OLDEST_ANCESTER_TIME => {
            file.oldest_ancester_time = number("invalid oldest ancester time")?;
        }
        file_tag::FILE_CREATION_TIME => {
            file.file_creation_time = number("invalid file creation time")?;
        }
        file_tag::FILE_CHECKSUM => file.file_checksum = value.to_vec(),
        file_tag::FILE_CHECKSUM_FUNC => {
            file.file_checksum_func_name = names::text_of(value);
        }
        file_tag::TEMPERATURE => match value {
            [byte] => file.temperature = *byte,
            _ => return Err("temperature field wrong size"),
        },
        file_tag::MIN_TIMESTAMP => file.min_timestamp = value.to_vec(),
        file_tag::MAX_TIMESTAMP => file.max_timestamp = value.to_vec(),
        file_tag::UNIQUE_ID => {
            let mut id = Decoder::new(value);
            let halves = (id.fixed64(), id.fixed64());
            let (Some(low), Some(high), true) = (halves.0, halves.1, id.is_empty()) else {
                return Err("invalid unique id");
            };
            file.unique_id = [low, high];
        }
        file_tag::EPOCH_NUMBER => {
            let what = "invalid epoch number";
            file.epoch_number = number_to(MAX_EPOCH, &mut Decoder::new(value), what)?;
        }
        file_tag::COMPENSATED_RANGE_DELETION => {
            let what = "Invalid compensated range deletion size";
            file.compensated_range_deletion_size =
                number_to(MAX_COVERED, &mut Decoder::new(value), what)?;
        }
        file_tag::TAIL_SIZE => file.tail_size = number("invalid tail start offset")?,
        file_tag::UDT_PERSISTED => match value {
            [flag] => file.timestamps_stripped = *flag == 0,
            _ => return Err("user-defined timestamps persisted field wrong size"),
        },
        file_tag::PATH_ID => match value {
            [id] if *id <= MAX_PATH_ID => file.path_id = u32::from(*id),
            [_] => return Err("path_id wrong vaue"),
            _ => return Err("path_id field wrong size"),
        },
        unknown if unknown & file_tag::CRITICAL != 0 => {
            return Err("new-file4 custom field not supported");
        }
        _ => {}
    }
    Ok(())
}

fn blob_addition(input: &mut Decoder<'_>) -> Field<BlobFileAddition> {
    const WHAT: &str = "Error decoding blob file addition";
    let addition = BlobFileAddition {
        number: file_number(input, WHAT)?,
        blob_count: number(input, WHAT)?,
        blob_bytes: number(input, WHAT)?,
        checksum_method: text(input, WHAT)?,
        checksum_value: input.length_prefixed().ok_or(WHAT)?.to_vec(),
    };
    skip_blob_fields(input, WHAT)?;
    Ok(addition)
}

fn blob_garbage(input: &mut Decoder<'_>) -> Field<BlobFileGarbage> {
    const WHAT: &str = "Error decoding blob file garbage";
    let garbage = BlobFileGarbage {
        number: file_number(input, WHAT)?,
        garbage_count: number(input, WHAT)?,
        garbage_bytes: number(input, WHAT)?,
    };
    skip_blob_fields(input, WHAT)?;
    Ok(garbage)
}

fn skip_blob_fields(input: &mut Decoder<'_>, what: &'static str) -> Field<()> {
    loop {
        let tag = input.varint32().ok_or(what)?;
        if tag == file_tag::BLOB_END {
            return Ok(());
        }
        if tag & file_tag::CRITICAL != 0 {
            return Err("Forward incompatible custom field encountered in blob file record");
        }
        input.length_prefixed().ok_or(what)?;
    }
}

fn wal_addition(input: &mut Decoder<'_>) -> Field<WalAddition> {
    const WHAT: &str = "Error decoding WAL addition";
    let mut wal = WalAddition { number: file_number(input, WHAT)?, synced_size: None };
    loop {
        match input.varint32().ok_or(WHAT)? {
            file_tag::WAL_TERMINATE => return Ok(wal),
            file_tag::WAL_SYNCED_SIZE => wal.synced_size = Some(number(input, WHAT)?),
            _ => return Err("Error decoding WAL addition: unknown tag"),
        }
    }
}

fn number(input: &mut Decoder<'_>, what: &'static str) -> Field<u64> {
    input.varint64().ok_or(what)
}

/// A number of at most `most`: a larger one would leave no room for later ones.
fn number_to(most: u64, input: &mut Decoder<'_>, what: &'static str) -> Field<u64> {
    input.varint64().filter(|number| *number <= most).ok_or(what)
}

fn file_number(input: &mut Decoder<'_>, what: &'static str) -> Field<u64> {
    number_to(FILE_NUMBER_MAX, input, what)
}

fn family_id(input: &mut Decoder<'_>, what: &'static str) -> Field<u32> {
    input.varint32().filter(|id| *id <= COLUMN_FAMILY_ID_MAX).ok_or(what)
}

/// A varint64 inside a length-prefixed body.
fn number_string(input: &mut Decoder<'_>, what: &'static str) -> Field<u64> {
    Decoder::new(input.length_prefixed().ok_or(what)?).varint64().ok_or(what)
}

/// A name that is compared with those of the program's objects, which are UTF-8.
fn shown(input: &mut Decoder<'_>, what: &'static str) -> Field<String> {
    let bytes = input.length_prefixed().ok_or(what)?;
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

/// A name that is written again.
fn text(input: &mut Decoder<'_>, what: &'static str) -> Field<String> {
    input.length_prefixed().map(names::text_of).ok_or(what)
}

fn level(input: &mut Decoder<'_>, what: &'static str) -> Field<usize> {
    match input.varint32() {
        Some(level) if level <= MAX_LEVEL => Ok(level as usize),
        _ => Err(what),
    }
}

/// A boundary key. Its type byte may be anything: old releases leaked their limit into it.
fn internal_key(input: &mut Decoder<'_>, what: &'static str) -> Field<Vec<u8>> {
    match input.length_prefixed() {
        Some(key) if InternalKey::checked(key).is_some() => Ok(key.to_vec()),
        _ => Err(what),
    }
}
