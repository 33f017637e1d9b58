//! The trace of the block cache: uses of blocks as records, and back.
//!
//! ```text
//! type    = what the block holds
//! payload = block key (lps) ‖ bytes (fixed64) ‖ column family: id (fixed64), name (lps)
//!           ‖ level (fixed32) ‖ file number (fixed64) ‖ caller, hit, not inserted (1 byte each)
//!           ‖ [point reads: number (fixed64) ‖ reads a snapshot (1 byte) ‖ internal key (lps)]
//!           ‖ [and data blocks: bytes of the entry (fixed64) ‖ entries of the block (fixed64)
//!              ‖ the key is in the block (1 byte)]
//! lps     = length (varint32) ‖ bytes
//! ```
//!
//! Thread safety: [`BlockTrace`] from anywhere, the rest is plain data.
//!
//! What it does not do: note uses of blocks that their table holds itself, which do not go through
//! the cache.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pumice_base::coding::{Decoder, put_fixed32, put_fixed64, put_length_prefixed};
use pumice_base::hash::hash64;
use pumice_base::key::{MAX_SEQUENCE, seek_key};
use pumice_base::{Error, ErrorKind, Result};
use pumice_env::{IoActivity, activity};
use pumice_port::time::wall_micros;
use pumice_table::{BlockAccess, BlockKind, BlockTracer};

use super::file::{TraceReader, TraceWriter, parts, record};
use super::lookup::{self, Lookup};
use super::options::BlockCacheTraceOptions;
use super::{Switch, binary_header, read_binary_header};
use crate::callbacks::Mark;

/// What a block holds. The numbers are those of the files. Persisted. Never renumber.
///
/// Example: that of [`BlockTraceReader`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BlockType {
    /// An index, or a part of one.
    Index = 7,
    /// A filter, or a part of one.
    Filter = 8,
    /// Entries.
    Data = 9,
    /// A dictionary for decompression.
    UncompressionDict = 10,
    /// Deletions of ranges.
    RangeDeletion = 11,
}

/// Who uses a block. The numbers are those of the files. Persisted. Never renumber.
///
/// Example: that of [`BlockTraceReader`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TableReaderCaller {
    /// A point read.
    UserGet = 1,
    /// Several point reads as one.
    UserMultiGet = 2,
    /// An iterator.
    UserIterator = 3,
    /// The estimate of a size.
    UserApproximateSize = 4,
    /// A check of all checksums.
    UserVerifyChecksum = 5,
    /// sst_dump.
    SstDumpTool = 6,
    /// The ingestion of a file.
    ExternalSstIngestion = 7,
    /// A repair.
    Repair = 8,
    /// The opening of a table.
    Prefetch = 9,
    /// A compaction.
    Compaction = 10,
    /// A compaction that refills its buffer.
    CompactionRefill = 11,
    /// A flush.
    Flush = 12,
    /// A reader of a single table.
    SstFileReader = 13,
    /// Anything else.
    Uncategorized = 14,
}

impl TableReaderCaller {
    fn of(activity: IoActivity) -> Self {
        match activity {
            IoActivity::Get => TableReaderCaller::UserGet,
            IoActivity::MultiGet => TableReaderCaller::UserMultiGet,
            IoActivity::DbIterator => TableReaderCaller::UserIterator,
            IoActivity::Compaction => TableReaderCaller::Compaction,
            IoActivity::Flush => TableReaderCaller::Flush,
            IoActivity::DbOpen => TableReaderCaller::Prefetch,
            IoActivity::Unknown => TableReaderCaller::Uncategorized,
        }
    }

    fn from_byte(byte: u8) -> Option<Self> {
        use TableReaderCaller::*;
        let all = [
            UserGet,
            UserMultiGet,
            UserIterator,
            UserApproximateSize,
            UserVerifyChecksum,
            SstDumpTool,
            ExternalSstIngestion,
            Repair,
            Prefetch,
            Compaction,
            CompactionRefill,
            Flush,
            SstFileReader,
            Uncategorized,
        ];
        all.into_iter().find(|caller| *caller as u8 == byte)
    }

    fn is_point_read(self) -> bool {
        matches!(self, TableReaderCaller::UserGet | TableReaderCaller::UserMultiGet)
    }
}

impl BlockType {
    fn of(kind: BlockKind) -> Option<Self> {
        match kind {
            BlockKind::Data => Some(BlockType::Data),
            BlockKind::Index => Some(BlockType::Index),
            BlockKind::Filter | BlockKind::FilterIndex => Some(BlockType::Filter),
            BlockKind::Dictionary => Some(BlockType::UncompressionDict),
            BlockKind::RangeDeletion => Some(BlockType::RangeDeletion),
            BlockKind::Properties | BlockKind::MetaIndex | BlockKind::Blob | BlockKind::Dummy => {
                None
            }
        }
    }

    fn from_byte(byte: u8) -> Option<Self> {
        use BlockType::*;
        let all = [Index, Filter, Data, UncompressionDict, RangeDeletion];
        all.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// A use of a block.
///
/// Example: that of [`BlockTraceReader`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockTraceRecord {
    /// When: microseconds since 1970.
    pub micros: u64,
    /// What the block holds.
    pub block_type: BlockType,
    /// Its key in the cache.
    pub block_key: Vec<u8>,
    /// Bytes that it takes there.
    pub block_size: u64,
    /// Id of the column family.
    pub cf_id: u64,
    /// Name of the column family.
    pub cf_name: String,
    /// Level of the table.
    pub level: u32,
    /// File of the table.
    pub sst_fd_number: u64,
    /// Who used it.
    pub caller: TableReaderCaller,
    /// It was in the cache.
    pub is_cache_hit: bool,
    /// It is not put there.
    pub no_insert: bool,
    /// Of point reads.
    pub lookup: BlockLookup,
}

/// What a point read looks for in a block; zeros and nothing for other uses.
///
/// Example: that of [`BlockTraceReader`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockLookup {
    /// Its number, which its blocks have in common.
    pub get_id: u64,
    /// It reads a snapshot.
    pub get_from_user_specified_snapshot: bool,
    /// The internal key that is sought.
    pub referenced_key: Vec<u8>,
    /// In data blocks: bytes of the entry.
    pub referenced_data_size: u64,
    /// In data blocks: entries of the block.
    pub num_keys_in_block: u64,
    /// In data blocks: the key is there.
    pub referenced_key_exist_in_block: bool,
}

impl BlockTraceRecord {
    fn encode(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        put_length_prefixed(&mut payload, &self.block_key);
        put_fixed64(&mut payload, self.block_size);
        put_fixed64(&mut payload, self.cf_id);
        put_length_prefixed(&mut payload, self.cf_name.as_bytes());
        put_fixed32(&mut payload, self.level);
        put_fixed64(&mut payload, self.sst_fd_number);
        payload.extend([self.caller as u8, self.is_cache_hit.into(), self.no_insert.into()]);
        if self.caller.is_point_read() {
            put_fixed64(&mut payload, self.lookup.get_id);
            payload.push(self.lookup.get_from_user_specified_snapshot.into());
            put_length_prefixed(&mut payload, &self.lookup.referenced_key);
            if self.block_type == BlockType::Data {
                put_fixed64(&mut payload, self.lookup.referenced_data_size);
                put_fixed64(&mut payload, self.lookup.num_keys_in_block);
                payload.push(self.lookup.referenced_key_exist_in_block.into());
            }
        }
        record(self.micros, self.block_type as u8, &payload)
    }

    fn decode(micros: u64, kind: u8, payload: &[u8]) -> Option<Self> {
        let mut input = Decoder::new(payload);
        let mut record = BlockTraceRecord {
            micros,
            block_type: BlockType::from_byte(kind)?,
            block_key: input.length_prefixed()?.to_vec(),
            block_size: input.fixed64()?,
            cf_id: input.fixed64()?,
            cf_name: String::from_utf8_lossy(input.length_prefixed()?).into_owned(),
            level: input.fixed32()?,
            sst_fd_number: input.fixed64()?,
            caller: TableReaderCaller::from_byte(input.u8()?)?,
            is_cache_hit: input.u8()? != 0,
            no_insert: input.u8()? != 0,
            lookup: BlockLookup::default(),
        };
        if record.caller.is_point_read() {
            record.lookup.get_id = input.fixed64()?;
            record.lookup.get_from_user_specified_snapshot = input.u8()? != 0;
            record.lookup.referenced_key = input.length_prefixed()?.to_vec();
            if record.block_type == BlockType::Data {
                record.lookup.referenced_data_size = input.fixed64()?;
                record.lookup.num_keys_in_block = input.fixed64()?;
                record.lookup.referenced_key_exist_in_block = input.u8()? != 0;
            }
        }
        Some(record)
    }
}

/// Reads a trace of the block cache.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// use pumice::trace::{BlockCacheTraceOptions, BlockTraceReader, BlockType};
/// use pumice::trace::{FileTraceReader, FileTraceWriter, TableReaderCaller};
/// # let fs = pumice::MemFs::new(1).shared();
/// # let own = fs.clone();
/// # let db = pumice::Db::builder("/db").create(true);
/// # let db = db.configure(|options| options.db.file_system = own).open()?;
/// db.put("key", "value")?;
/// db.flush()?;
/// let writer = FileTraceWriter::create(&*fs, "/trace")?;
/// db.start_block_cache_trace(&BlockCacheTraceOptions::default(), Box::new(writer))?;
/// db.get("key")?;
/// db.end_block_cache_trace()?;
///
/// let mut reader = BlockTraceReader::new(Box::new(FileTraceReader::open(fs, "/trace")?))?;
/// let used = std::iter::from_fn(|| reader.next().transpose());
/// let used: Vec<_> = used.collect::<Result<_, _>>()?;
/// let data = used.iter().find(|block| block.block_type == BlockType::Data).unwrap();
/// assert_eq!(data.caller, TableReaderCaller::UserGet);
/// assert!(data.lookup.referenced_key_exist_in_block && data.lookup.num_keys_in_block == 1);
/// # db.close()
/// # }
/// ```
pub struct BlockTraceReader {
    reader: Box<dyn TraceReader>,
    began_micros: u64,
}

impl std::fmt::Debug for BlockTraceReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockTraceReader").finish_non_exhaustive()
    }
}

impl BlockTraceReader {
    /// Reads the header.
    ///
    /// # Errors
    /// Corruption if it is none; those of the reader.
    pub fn new(mut reader: Box<dyn TraceReader>) -> Result<Self> {
        let began_micros = read_binary_header(&mut *reader)?;
        Ok(BlockTraceReader { reader, began_micros })
    }

    /// When the trace began: microseconds since 1970.
    pub fn began_micros(&self) -> u64 {
        self.began_micros
    }

    /// The next use; None at the end.
    ///
    /// # Errors
    /// Incomplete for a record that lacks something; those of the reader.
    #[expect(clippy::should_implement_trait, reason = "an error ends no iteration here")]
    pub fn next(&mut self) -> Result<Option<BlockTraceRecord>> {
        let bytes = match self.reader.read() {
            Err(error) if error.kind() == ErrorKind::Incomplete => return Ok(None),
            read => read?,
        };
        let (micros, kind, payload) = parts(&bytes)?;
        let record = BlockTraceRecord::decode(micros, kind, payload);
        record.map(Some).ok_or_else(|| Error::incomplete("Incomplete access record"))
    }
}

/// The trace of the block cache of a database.
pub(crate) struct BlockTrace {
    switch: Switch,
    sampling_frequency: AtomicU64,
    lookups: AtomicU64,
}

impl BlockTrace {
    /// One that is off, of the database `mark`.
    pub fn new(mark: Mark) -> Self {
        let (sampling_frequency, lookups) = (AtomicU64::new(0), AtomicU64::new(0));
        BlockTrace { switch: Switch::new(mark), sampling_frequency, lookups }
    }

    /// Begins a trace.
    ///
    /// # Errors
    /// Busy if there is one; those of the writer.
    pub fn start(
        &self,
        options: &BlockCacheTraceOptions,
        writer: Box<dyn TraceWriter>,
    ) -> Result<()> {
        let header = binary_header();
        self.switch.start(writer, options.max_trace_file_size, (&header, false), || {
            self.sampling_frequency.store(options.sampling_frequency, Ordering::Relaxed);
        })
    }

    /// Ends it, if there is one.
    ///
    /// # Errors
    /// The first error of its writer.
    pub fn end(&self) -> Result<()> {
        self.switch.end(&[]).unwrap_or(Ok(()))
    }

    /// Runs `read`, a point read of `user_key`.
    pub fn during<R>(&self, user_key: &[u8], at_snapshot: bool, read: impl FnOnce() -> R) -> R {
        if !self.switch.is_on() {
            return read();
        }
        let number = self.lookups.fetch_add(1, Ordering::Relaxed) + 1;
        let lookup = Lookup { number, user_key: user_key.to_vec(), at_snapshot };
        lookup::during(lookup, read)
    }

    /// What tables of that column family tell.
    pub fn tracer(self: &Arc<Self>, cf_id: u32, cf_name: &str) -> Arc<dyn BlockTracer> {
        Arc::new(FamilyTracer { trace: Arc::clone(self), cf_id, cf_name: cf_name.to_string() })
    }

    /// Whether the sample has a block: all of its uses or none.
    fn samples(&self, key: &[u8]) -> bool {
        match self.sampling_frequency.load(Ordering::Relaxed) {
            0 | 1 => true,
            frequency => hash64(key).is_multiple_of(frequency),
        }
    }
}

/// The block cache's trace for the tables of a column family.
struct FamilyTracer {
    trace: Arc<BlockTrace>,
    cf_id: u32,
    cf_name: String,
}

impl BlockTracer for FamilyTracer {
    fn is_on(&self) -> bool {
        self.trace.switch.is_on()
    }

    fn accessed(&self, access: &BlockAccess<'_>) {
        let Some(block_type) = BlockType::of(access.kind) else { return };
        let block_key = access.key.map(u64::to_le_bytes).concat();
        if !self.trace.samples(&block_key) {
            return;
        }
        let caller = TableReaderCaller::of(activity::current());
        let mut record = BlockTraceRecord {
            micros: wall_micros(),
            block_type,
            block_key,
            block_size: access.bytes as u64,
            cf_id: self.cf_id.into(),
            cf_name: self.cf_name.clone(),
            level: u32::try_from(access.level).unwrap_or(u32::MAX),
            sst_fd_number: access.file_number,
            caller,
            is_cache_hit: access.hit,
            no_insert: access.no_insert,
            lookup: BlockLookup::default(),
        };
        if caller.is_point_read() {
            // Which one is not known of reads of several keys; RocksDB's tools cut a key's trailer
            // off without a look.
            let lookup = lookup::current().unwrap_or_default();
            let entries = access.entries(&lookup.user_key);
            record.lookup.get_id = lookup.number;
            record.lookup.get_from_user_specified_snapshot = lookup.at_snapshot;
            record.lookup.referenced_data_size = entries.found_bytes.unwrap_or(0);
            record.lookup.num_keys_in_block = entries.count;
            record.lookup.referenced_key_exist_in_block = entries.found_bytes.is_some();
            record.lookup.referenced_key = entries.found;
            if record.lookup.referenced_key.is_empty() {
                // As for the newest version; readers cut that off.
                record.lookup.referenced_key = seek_key(&lookup.user_key[..], MAX_SEQUENCE);
            }
        }
        self.trace.switch.note(|| true, || record.encode());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn sample(caller: TableReaderCaller, block_type: BlockType) -> BlockTraceRecord {
        let (point, data) = (caller.is_point_read(), block_type == BlockType::Data);
        BlockTraceRecord {
            micros: 77,
            block_type,
            block_key: vec![1; 16],
            block_size: 4096,
            cf_id: 3,
            cf_name: "family".to_string(),
            level: 6,
            sst_fd_number: 12,
            caller,
            is_cache_hit: true,
            no_insert: false,
            lookup: BlockLookup {
                get_id: if point { 9 } else { 0 },
                get_from_user_specified_snapshot: point,
                referenced_key: if point { b"key12345678".to_vec() } else { Vec::new() },
                referenced_data_size: if point && data { 50 } else { 0 },
                num_keys_in_block: if point && data { 40 } else { 0 },
                referenced_key_exist_in_block: point && data,
            },
        }
    }

    #[pumice_test_macros::test]
    fn uses_come_back() {
        for caller in (0..=15).filter_map(TableReaderCaller::from_byte) {
            for block_type in (0..=15).filter_map(BlockType::from_byte) {
                let record = sample(caller, block_type);
                let bytes = record.encode();
                let (micros, kind, payload) = parts(&bytes).unwrap();
                assert_eq!(BlockTraceRecord::decode(micros, kind, payload), Some(record));
                for len in 0..payload.len() {
                    assert_eq!(BlockTraceRecord::decode(micros, kind, &payload[..len]), None);
                }
            }
        }
    }
}
