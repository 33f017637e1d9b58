//! Blob files under construction: large values of a table's entries go there, and the entries get
//! indexes in their place.
//!
//! One for each flush and each part of a compaction. What is separated and how is decided by the
//! options at its beginning. Old blobs that a compaction meets are written anew, as values that
//! come by (docs/blob_files.md#garbage).
//!
//! Thread safety: one owner. Invariants: (1) an index is given out only for a blob that was
//! written; (2) the numbers of all files, finished or not, are in `numbers`, so that the job can
//! discard them. Making directory entries durable is left to the caller. Suspends on I/O.

use std::collections::BTreeMap;
use std::sync::Arc;

use pumice_base::key::append_internal_key;
use pumice_base::planted::{self, Bug};
use pumice_base::wide_columns::{self, StoredColumn};
use pumice_base::{Error, FileNumber, InternalKey, Result, UserKey, ValueType};
use pumice_cache::CacheKey;
use pumice_compress::{CompressionType, Compressor};
use pumice_env::{BufferedWriter, FileOptions, JobIo, Temperature, WriterOptions};
use pumice_manifest::edit::BlobFileAddition;
use pumice_port::lane::at_normal_priority;
use pumice_port::sync::Mutex;
use pumice_table::blob::format::{
    FileHeader, HEADER_LEN, RECORD_HEADER_LEN, encode_footer, encode_record_header,
};
use pumice_table::blob::index::BlobIndex;
use pumice_table::{CachedBlock, TableReason, cache_base_of};

use crate::blob::record_key::RecordKey;
use crate::blob::references::may_refer;
use crate::callbacks::key_forms::KeyForms;
use crate::options::index_owner::IndexMover;
use crate::options::{ColumnFamilyOptions, PrepopulateBlobCache};
use crate::read::pinned::PinnedSlice;
use crate::stats::{HistogramKind, Record, Ticker};
use crate::table_output::env::OutputEnv;
use crate::table_output::value::InputValues;
use crate::version::blob_files::blob_cache_key;
use crate::version::charges::BlobCache;
use crate::version::family::CfData;

/// Old blobs, which are written anew.
pub(crate) struct Relocation {
    /// Those in files numbered below this.
    pub below: FileNumber,
    pub values: InputValues,
    /// Bytes to read ahead; 0 for none.
    pub readahead_bytes: u64,
    /// Up to where each file was read ahead.
    pub ahead: BTreeMap<FileNumber, u64>,
}

impl Relocation {
    /// Has the system read what follows the blob, which a compaction will want next: blobs are in
    /// the order of their keys.
    fn read_ahead(&mut self, index: &BlobIndex) {
        let ahead = self.ahead.entry(index.file).or_default();
        if self.readahead_bytes > 0 && index.offset >= *ahead {
            *ahead = index.offset.saturating_add(self.readahead_bytes);
            self.values.read_ahead(index, self.readahead_bytes);
        }
    }
}

/// What a job says of itself.
pub(crate) struct BlobSpec<'a> {
    pub level: usize,
    pub reason: TableReason,
    pub relocation: Option<Relocation>,
    /// Of an owner of the family's indexes.
    pub mover: Option<Box<dyn IndexMover>>,
    /// The account of the job's writes.
    pub io: Option<&'a Arc<JobIo>>,
    /// Gets the numbers of the files.
    pub numbers: &'a Mutex<Vec<FileNumber>>,
}

struct OpenFile {
    number: FileNumber,
    writer: BufferedWriter,
    count: u64,
    /// The values that enter the blob cache have keys of this.
    cache_base: Option<[u64; 2]>,
}

/// What was relocated.
#[derive(Clone, Copy, Debug, Default)]
struct Relocated {
    count: u64,
    bytes: u64,
}

/// See the module head.
pub(crate) struct BlobOutput<'a> {
    env: &'a dyn OutputEnv,
    cf: &'a CfData,
    keys: KeyForms,
    spec: BlobSpec<'a>,
    /// Values from this size on are separated; None: none are.
    min_bytes: Option<usize>,
    file_bytes_max: u64,
    compression: CompressionType,
    /// None without compression.
    compressor: Option<Compressor>,
    /// Where values go as they are written.
    cache: Option<BlobCache>,
    file: Option<OpenFile>,
    written: Vec<BlobFileAddition>,
    relocated: Relocated,
    // The entry given out, and a compressed value.
    key: Vec<u8>,
    value: Vec<u8>,
    packed: Vec<u8>,
}

/// Whether values of tables at `level` are separated.
fn separates(options: &ColumnFamilyOptions, level: usize) -> bool {
    options.enable_blob_files
        && i64::from(options.blob_file_starting_level) <= i64::try_from(level).unwrap_or(i64::MAX)
}

impl<'a> BlobOutput<'a> {
    /// What the options of `cf` ask for; None if values stay as they are.
    ///
    /// # Errors
    /// Of the compressor.
    pub fn new(env: &'a dyn OutputEnv, cf: &'a CfData, spec: BlobSpec<'a>) -> Result<Option<Self>> {
        let options = cf.options();
        let separates = separates(&options, spec.level);
        if !separates && spec.relocation.is_none() && spec.mover.is_none() {
            return Ok(None);
        }
        let compression = options.blob_compression_type;
        let compressor = match compression {
            CompressionType::None => None,
            kind => Some(Compressor::new(kind, &Default::default())?),
        };
        let fills = options.prepopulate_blob_cache == PrepopulateBlobCache::FlushOnly
            && spec.reason == TableReason::Flush;
        Ok(Some(BlobOutput {
            env,
            cf,
            keys: cf.key_forms(),
            spec,
            min_bytes: separates
                .then(|| usize::try_from(options.min_blob_size).unwrap_or(usize::MAX).max(1)),
            file_bytes_max: options.blob_file_size,
            compression,
            compressor,
            cache: cf.tables().blob_cache.clone().filter(|_| fills),
            file: None,
            written: Vec::new(),
            relocated: Relocated::default(),
            key: Vec::new(),
            value: Vec::new(),
            packed: Vec::new(),
        }))
    }

    /// The entry as it is to be stored in the table.
    ///
    /// # Errors
    /// I/O; Corruption of an old blob. The files are then useless.
    #[inline]
    pub fn place<'v>(
        &'v mut self,
        ikey: InternalKey<'v>,
        value: &'v [u8],
    ) -> Result<(InternalKey<'v>, &'v [u8])> {
        let (sequence, tag) = ikey.sequence_and_type();
        let placed = if tag == ValueType::Value as u8 {
            match self.is_large(value) {
                false => return Ok((ikey, value)),
                true => {
                    let index = self.add(ikey.user_key(), value)?;
                    self.value.clear();
                    index.encode(&mut self.value);
                    ValueType::BlobIndex
                }
            }
        } else if tag == ValueType::WideColumnEntity as u8 {
            match self.place_columns(ikey.user_key(), value)? {
                None => return Ok((ikey, value)),
                Some(entity) => {
                    self.value = entity;
                    ValueType::WideColumnEntity
                }
            }
        } else if may_refer(tag, value)
            && let Some(mover) = &mut self.spec.mover
        {
            match mover.place(ikey.user_key().as_bytes(), value)? {
                None => return Ok((ikey, value)),
                Some(index) => {
                    self.value = index;
                    ValueType::BlobIndex
                }
            }
        } else if may_refer(tag, value) {
            match self.relocate(ikey.user_key(), value)? {
                None => return Ok((ikey, value)),
                Some(Moved::To(index)) => {
                    self.value.clear();
                    index.encode(&mut self.value);
                    ValueType::BlobIndex
                }
                Some(Moved::Inline(found)) => {
                    self.value = found.into_vec();
                    ValueType::Value
                }
            }
        } else {
            return Ok((ikey, value));
        };
        self.key.clear();
        append_internal_key(&mut self.key, ikey.user_key(), sequence, placed as u8);
        Ok((InternalKey::new(&self.key), &self.value))
    }

    fn is_large(&self, value: &[u8]) -> bool {
        self.min_bytes.is_some_and(|min| value.len() >= min)
    }

    /// The entity with its large columns in blob files; None if it stays as it is.
    fn place_columns(&mut self, key: UserKey<'_>, entity: &[u8]) -> Result<Option<Vec<u8>>> {
        // A column is not larger than its entity.
        if !self.is_large(entity) && !may_refer(ValueType::WideColumnEntity as u8, entity) {
            return Ok(None);
        }
        let columns = wide_columns::decode_stored(entity)?;
        let mut moved = Vec::with_capacity(columns.len());
        for StoredColumn { column, in_blob_file } in &columns {
            moved.push(match in_blob_file {
                true => self.relocate(key, column.value)?,
                false if self.is_large(column.value) => {
                    Some(Moved::To(self.add(key, column.value)?))
                }
                false => None,
            });
        }
        if moved.iter().all(Option::is_none) {
            return Ok(None);
        }
        let stored = moved.iter().map(|moved| match moved {
            Some(Moved::To(index)) => {
                let mut bytes = Vec::new();
                index.encode(&mut bytes);
                bytes
            }
            _ => Vec::new(),
        });
        let indexes: Vec<Vec<u8>> = stored.collect();
        let parts = columns.iter().zip(&moved).zip(&indexes);
        let parts = parts.map(|((stored, moved), index)| {
            let (value, in_blob_file) = match moved {
                None => return *stored,
                Some(Moved::To(_)) => (&index[..], true),
                Some(Moved::Inline(value)) => (&value[..], false),
            };
            let column = wide_columns::WideColumn::new(stored.column.name, value);
            StoredColumn { column, in_blob_file }
        });
        wide_columns::encode_stored(&parts.collect::<Vec<_>>()).map(Some)
    }

    /// Where the blob of a stored index goes; None if it stays.
    fn relocate(&mut self, key: UserKey<'_>, index: &[u8]) -> Result<Option<Moved>> {
        let Some(relocation) = &mut self.spec.relocation else { return Ok(None) };
        let (tag, decoded) = (ValueType::BlobIndex as u8, BlobIndex::decode(index)?);
        if decoded.file >= relocation.below {
            return Ok(None);
        }
        relocation.read_ahead(&decoded);
        let found = relocation.values.fetch(key, tag, index)?;
        let found = found.ok_or_else(|| Error::corruption("a blob index without a blob"))?.value;
        self.relocated.count += 1;
        self.relocated.bytes += found.len() as u64;
        Ok(Some(match self.is_large(&found) {
            true => Moved::To(self.add(key, &found)?),
            false => Moved::Inline(found),
        }))
    }

    /// Writes a blob.
    fn add(&mut self, key: UserKey<'_>, value: &[u8]) -> Result<BlobIndex> {
        let timer = self.env.statistics().timer();
        let key = RecordKey::of(self.keys, key);
        self.pack(value)?;
        let stored = if self.compressor.is_some() { &self.packed[..] } else { value };
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(open(self.env, self.cf, &self.spec, self.compression)?),
        };
        let offset = file.writer.len() + (RECORD_HEADER_LEN + key.len()) as u64;
        let room = file.writer.buffer_for(RECORD_HEADER_LEN)?;
        encode_record_header(key.as_bytes(), stored, room);
        file.writer.append(key.as_bytes())?;
        file.writer.append_run(stored)?;
        file.count += 1;
        let (file_number, size) = (file.number, stored.len() as u64);
        let (in_table, compression) = (false, self.compression);
        let index = BlobIndex { file: file_number, in_table, offset, size, compression };
        if let (Some(cache), Some(base)) = (&self.cache, &file.cache_base) {
            fill(cache, blob_cache_key(*base, offset), value, self.env);
        }
        let is_full = file.writer.len() >= self.file_bytes_max;
        timer.stop(self.env.statistics(), HistogramKind::BlobDbBlobFileWriteMicros);
        if is_full {
            self.close()?;
        }
        Ok(index)
    }

    /// Compresses `value`, with compression.
    fn pack(&mut self, value: &[u8]) -> Result<()> {
        let Some(compressor) = &mut self.compressor else { return Ok(()) };
        let timer = self.env.statistics().timer();
        self.packed.clear();
        if !compressor.compress_always(value, &mut self.packed)? {
            let text = format!("a value of {} bytes cannot be compressed", value.len());
            return Err(Error::not_supported(text));
        }
        timer.stop(self.env.statistics(), HistogramKind::BlobDbCompressionMicros);
        Ok(())
    }

    /// Ends the present file, durably.
    fn close(&mut self) -> Result<()> {
        let Some(mut file) = self.file.take() else { return Ok(()) };
        let records = file.writer.len() - HEADER_LEN as u64;
        let mut footer = Vec::new();
        encode_footer(file.count, &mut footer);
        file.writer.append(&footer)?;
        file.writer.flush()?;
        let checksum = file.writer.end_checksum().unwrap_or_default();
        let timer = self.env.statistics().timer();
        match planted::is(Bug::BlobFileNotSynced) {
            true => file.writer.close()?,
            false => file.writer.sync_and_close(self.env.db_options().use_fsync)?,
        }
        let statistics = self.env.statistics();
        timer.stop(statistics, HistogramKind::BlobDbBlobFileSyncMicros);
        statistics.tick(Ticker::BlobDbBlobFileSynced);
        statistics.tick_by(Ticker::BlobDbBlobFileBytesWritten, file.writer.len());
        self.written.push(BlobFileAddition {
            number: file.number,
            blob_count: file.count,
            blob_bytes: records,
            checksum_method: checksum.function,
            checksum_value: checksum.value,
        });
        let (env, path, bytes) = (self.env, self.cf.blob(file.number), file.writer.len());
        at_normal_priority(|| env.end_blob_file(&path, bytes))
    }

    /// Ends the last file; returns all.
    ///
    /// # Errors
    /// I/O; the files are then useless.
    pub fn finish(mut self) -> Result<Vec<BlobFileAddition>> {
        self.close()?;
        if let Some(mover) = self.spec.mover.take() {
            mover.finish()?;
        }
        let statistics = self.env.statistics();
        statistics.tick_by(Ticker::BlobDbGcNumKeysRelocated, self.relocated.count);
        statistics.tick_by(Ticker::BlobDbGcBytesRelocated, self.relocated.bytes);
        Ok(self.written)
    }
}

/// Where an old blob goes.
enum Moved {
    To(BlobIndex),
    Inline(PinnedSlice),
}

/// Puts a value that was just written into the cache, if that has room.
fn fill(cache: &BlobCache, key: CacheKey, value: &[u8], env: &dyn OutputEnv) {
    let entry = CachedBlock::blob(value.to_vec());
    let charge = entry.charge();
    match cache.keep(key, entry, charge) {
        Ok(_) => {
            env.statistics().tick(Ticker::BlobDbCacheAdd);
            env.statistics().tick_by(Ticker::BlobDbCacheBytesWrite, value.len() as u64);
        }
        Err(_) => env.statistics().tick(Ticker::BlobDbCacheAddFailures),
    }
}

/// Creates the next blob file of `cf`.
fn open(
    env: &dyn OutputEnv,
    cf: &CfData,
    spec: &BlobSpec<'_>,
    compression: CompressionType,
) -> Result<OpenFile> {
    let number = env.begin_output();
    spec.numbers.lock().push(number);
    let path = cf.blob(number);
    let options = env.db_options();
    let direct = options.use_direct_io_for_flush_and_compaction;
    // As in RocksDB the values that a compaction moves have none.
    let temperature = match spec.reason {
        TableReason::Flush => cf.options().default_write_temperature,
        _ => Temperature::Unknown,
    };
    let file_options = FileOptions { direct, temperature, ..FileOptions::default() };
    let file = at_normal_priority(|| env.file_system().create(&path, &file_options))?;
    let (priority, events) = env.pace(spec.reason);
    let writer = options.paced_table_writer(0, priority, events);
    let checksum = options.file_checksum_gen_factory.generator(&path, "");
    let writer = WriterOptions { job: spec.io.cloned(), ..writer };
    let mut writer = BufferedWriter::new(file, writer).with_checksum(checksum);
    let room = writer.buffer_for(HEADER_LEN)?;
    FileHeader { family: cf.id, compression }.encode(room);
    let (db_id, session) = env.ids();
    Ok(OpenFile { number, writer, count: 0, cache_base: cache_base_of(db_id, session, number) })
}
