//! How a table is opened, and how one read of it behaves.
//!
//! Field names are those of RocksDB's `ReadOptions`. Plain data, except [`MissedBlock`], which one
//! read at a time uses.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use pumice_base::InternalKeyComparator;
use pumice_base::extension::SliceTransform;
use pumice_env::IoPriority;
use pumice_port::sync::Mutex;

use crate::footer::OtherFormat;
use crate::handle::{BlockHandle, BlockKind};
use crate::options::{TableOptions, UserDefinedIndex};
use crate::read::cached_block::PinnedBlock;
use crate::read::file::BlockRead;
use crate::read::table::Table;
use crate::stats::TableStats;
use crate::trace::BlockTracer;

/// How a table is opened.
#[derive(Clone)]
pub struct TableReadContext {
    /// Settings of the column family.
    pub options: Arc<TableOptions>,
    /// Key order of the column family.
    pub comparator: InternalKeyComparator,
    /// Number of the file, for messages.
    pub file_number: u64,
    /// Level of the table, -1 unknown.
    pub level: i32,
    /// Unique id in the MANIFEST; another one in the file is Corruption.
    pub expected_unique_id: Option<[u64; 2]>,
    /// Largest sequence number in the MANIFEST, `u64::MAX` unknown; the sequence number of the
    /// entries of an ingested file.
    pub largest_seqno: u64,
    /// Bytes of everything after the data blocks, 0 unknown; read in one go at open.
    pub tail_size: u64,
    /// Prefix extractor of the column family.
    pub prefix_extractor: Option<Arc<dyn SliceTransform>>,
    /// Receives cache and filter counts.
    pub stats: Option<Arc<dyn TableStats>>,
    /// Told of uses of blocks while it wants to be.
    pub tracer: Option<Arc<dyn BlockTracer>>,
    /// Do not load or use the filter.
    pub skip_filters: bool,
    /// Indexes of values in records of the table stay as they are stored: they do not say that the
    /// table is meant.
    pub raw_indexes: bool,
    /// Level-0 tables up to this many bytes count as flushed for pinning.
    pub max_file_size_for_l0_meta_pin: u64,
}

impl Default for TableReadContext {
    fn default() -> Self {
        TableReadContext {
            options: Arc::new(TableOptions::default()),
            comparator: InternalKeyComparator::default(),
            file_number: 0,
            level: -1,
            expected_unique_id: None,
            largest_seqno: u64::MAX,
            tail_size: 0,
            prefix_extractor: None,
            stats: None,
            tracer: None,
            skip_filters: false,
            raw_indexes: false,
            max_file_size_for_l0_meta_pin: u64::MAX,
        }
    }
}

/// The file that the image of a table was made from.
pub(crate) struct Origin {
    pub format: OtherFormat,
    pub file_bytes: u64,
    /// Where in that file its properties are.
    pub properties_at: u64,
    /// Bytes that the image holds.
    pub memory: usize,
    /// Bytes after the data blocks of the image.
    pub tail_bytes: u64,
    /// A hash of where the blocks of the image are.
    pub layout: u64,
}

impl Origin {
    /// The base of the image's keys in a cache where that of the file is `[id, place]`: options
    /// say how an image is cut, so the file alone does not tell its blocks.
    pub fn cache_base(&self, [id, place]: [u64; 2]) -> [u64; 2] {
        [id ^ self.layout, place]
    }
}

/// How a read of a table behaves.
#[derive(Clone, Debug)]
pub struct TableReadOptions {
    /// Verify the checksum of every block read from the file.
    pub verify_checksums: bool,
    /// Put blocks read from the file into the cache.
    pub fill_cache: bool,
    /// Fixed readahead of iterators, bytes; 0 adapts it automatically.
    pub readahead_size: usize,
    /// Nothing is read ahead beyond the block in which `iterate_upper_bound` lies.
    pub auto_readahead_size: bool,
    /// Order matters across prefixes: do not use prefix filters, unless one of the next two is set.
    pub total_order_seek: bool,
    /// The caller shows only keys that have the prefix of the key sought: prefix filters may be
    /// used, in both directions.
    pub prefix_same_as_start: bool,
    /// Use prefix filters only where order across prefixes cannot show the difference, with
    /// `total_order_seek` too.
    pub auto_prefix_mode: bool,
    /// User key at which iteration ends; readahead and prefix filters take it into account, the
    /// caller enforces it.
    pub iterate_upper_bound: Option<Arc<[u8]>>,
    /// What an iterator will read may be in flight while what it has is used, and its moves may
    /// wait for blocks together with those of others ([`TableIter::start`](crate::TableIter)); not
    /// with `limits`.
    pub async_io: bool,
    /// Do no I/O: a block missing from the cache is an `Incomplete` error.
    pub cache_only: bool,
    /// Where a point read with `cache_only` notes the block that it missed, and any point read
    /// finds those that were loaded for it; one without `cache_only` takes them from there.
    pub missed: Option<Arc<MissedBlock>>,
    /// Hits and misses of point reads are not reported: the same read will be made again.
    pub uncounted: bool,
    /// How many data blocks point reads with these options took from files.
    pub reads: ReadCount,
    /// Priority of block reads at the file's rate limiter; None bypasses it.
    pub io_priority: Option<IoPriority>,
    /// Time limits for reads of the file; none by default.
    pub limits: ReadLimits,
    /// Range deletions hide nothing; the caller does it.
    pub ignore_range_deletions: bool,
    /// Use that index of tables that have it; the column family has to have it too.
    pub table_index_factory: Option<UserDefinedIndex>,
}

impl TableReadOptions {
    /// Whether reads may wait together. A read of several takes longer than alone, which says
    /// nothing about the device: not where it may time out.
    #[inline]
    pub fn waits_once(&self) -> bool {
        self.async_io && !self.limits.is_set()
    }

    pub(crate) fn block_read(&self) -> BlockRead {
        BlockRead { verify: self.verify_checksums, keep: self.fill_cache }
    }
}

/// Counts up; for one read at a time.
#[derive(Debug, Default)]
pub struct ReadCount(AtomicU32);

impl ReadCount {
    /// One more.
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Relaxed);
    }
    /// How many there were, modulo 2^32.
    pub fn get(&self) -> u32 {
        self.0.load(Relaxed)
    }
}

impl Clone for ReadCount {
    /// Counts for itself.
    fn clone(&self) -> Self {
        ReadCount(self.get().into())
    }
}

/// When reads of files time out. Checked before and after each read: none is interrupted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadLimits {
    /// Microseconds since 1970 after which no file is read any more; 0 for none.
    pub deadline_micros: u64,
    /// Microseconds that one read may take; 0 for no limit.
    pub io_timeout_micros: u64,
}

impl ReadLimits {
    /// Whether there is a limit to check.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.deadline_micros != 0 || self.io_timeout_micros != 0
    }
}

/// The block that a point read with [`TableReadOptions::cache_only`] lacked; [`Table::load`] loads
/// it. Also the loaded blocks: such reads find them here, whether a cache has them or not. One read
/// at a time uses it.
#[derive(Default)]
pub struct MissedBlock {
    missed: Mutex<Option<Missed>>,
    /// By file and offset.
    loaded: Mutex<BTreeMap<(u64, u64), PinnedBlock>>,
}

struct Missed {
    block: (BlockHandle, BlockKind),
    table: Option<Arc<Table>>,
}

impl MissedBlock {
    pub(crate) fn note(&self, handle: BlockHandle, kind: BlockKind) {
        *self.missed.lock() = Some(Missed { block: (handle, kind), table: None });
    }
    /// Records which table the caller read.
    #[cold]
    pub fn set_table(&self, table: Arc<Table>) {
        if let Some(missed) = &mut *self.missed.lock() {
            missed.table = Some(table);
        }
    }
    /// Takes the table and the block.
    pub fn take(&self) -> Option<(Arc<Table>, (BlockHandle, BlockKind))> {
        let missed = self.missed.lock().take()?;
        Some((missed.table?, missed.block))
    }
    /// Keeps the block at `offset` of a table for future reads.
    pub fn keep(&self, table: &Table, offset: u64, block: PinnedBlock) {
        self.loaded.lock().insert((table.file_number(), offset), block);
    }
    /// Whether the block at `offset` of the file is kept here.
    pub fn has(&self, (file_number, offset): (u64, u64)) -> bool {
        self.loaded.lock().contains_key(&(file_number, offset))
    }
    /// The block, if it is kept here and of that kind.
    pub(crate) fn loaded(
        &self,
        file_number: u64,
        handle: BlockHandle,
        kind: BlockKind,
    ) -> Option<PinnedBlock> {
        let loaded = self.loaded.lock();
        let block = loaded.get(&(file_number, handle.offset))?;
        (block.get().kind() == kind).then(|| block.clone())
    }
    /// As `loaded`; it is not kept any longer.
    pub(crate) fn take_loaded(
        &self,
        file_number: u64,
        handle: BlockHandle,
        kind: BlockKind,
    ) -> Option<PinnedBlock> {
        let block = self.loaded.lock().remove(&(file_number, handle.offset))?;
        (block.get().kind() == kind).then_some(block)
    }
}

impl fmt::Debug for MissedBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let block = self.missed.lock().as_ref().map(|missed| missed.block);
        f.debug_tuple("MissedBlock").field(&block).finish()
    }
}

impl Default for TableReadOptions {
    fn default() -> Self {
        TableReadOptions {
            verify_checksums: true,
            fill_cache: true,
            readahead_size: 0,
            auto_readahead_size: true,
            total_order_seek: false,
            prefix_same_as_start: false,
            auto_prefix_mode: false,
            iterate_upper_bound: None,
            async_io: true,
            cache_only: false,
            missed: None,
            uncounted: false,
            reads: ReadCount::default(),
            io_priority: None,
            limits: ReadLimits::default(),
            ignore_range_deletions: false,
            table_index_factory: None,
        }
    }
}
