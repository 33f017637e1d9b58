//! Reads blocks from a table file: bounds, checksum, decompression.
//!
//! Every block handle is checked against the length of the file before anything is allocated; a
//! compressed block may not claim to be larger than `max_block_bytes`. Errors name file, offset and
//! what was wrong.
//!
//! Thread safety: shared; each call is independent. Suspends in `read_at`.

use pumice_base::narrow::to_usize;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use pumice_base::checksum::{ChecksumType, block_checksum, context_checksum};
use pumice_base::coding::{get_fixed32, varint_len};
use pumice_base::planted::{self, Bug};
use pumice_base::{Error, Result};
use pumice_compress::{CompressionType, Decompressor, Dictionary, SnappyPrefix};
use pumice_env::RandomAccessFile;
use pumice_env::perf::{self, PerfMetric};

use crate::handle::{BLOCK_TRAILER_LEN, BlockHandle, BlockKind};
use crate::read::persistent::PersistentBlocks;
use crate::stats::TableStats;
use crate::trace::BlockTracer;

/// Read buffers above this are not kept.
const KEPT_BUFFER_BYTES: usize = 1 << 20;

pumice_port::worker_local! {
    static DECOMPRESSOR: RefCell<Decompressor> = RefCell::new(Decompressor::new());
}
pumice_port::worker_local! {
    static READ_BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}
pumice_port::worker_local! {
    /// Buffers of contents that were not kept.
    static CONTENTS: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The part of a block's offset on which its checksum depends: all of it.
#[inline]
fn place(offset: u64) -> u64 {
    if planted::is(Bug::ChecksumWithoutPlace) { 0 } else { offset }
}

/// Bytes at the end of the file that were read when it was opened.
#[derive(Default)]
pub(crate) struct Tail {
    start: u64,
    bytes: Vec<u8>,
}

impl Tail {
    /// `bytes` begin at `start` of the file.
    pub fn new(start: u64, bytes: Vec<u8>) -> Self {
        Tail { start, bytes }
    }

    /// The bytes, whose memory is reused.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The given range if it is inside.
    pub fn get(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let at = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        self.bytes.get(at..at.checked_add(len)?)
    }
}

/// A table file and what is needed to read its blocks.
pub(crate) struct TableFile {
    pub file: Arc<dyn RandomAccessFile>,
    pub len: u64,
    pub checksum: ChecksumType,
    pub base_context: u32,
    pub max_block_bytes: usize,
    pub dictionary: Option<Dictionary>,
    pub stats: Option<Arc<dyn TableStats>>,
    pub tracer: Option<Arc<dyn BlockTracer>>,
    /// The level where it was last seen by a read with statistics (see `Table::seen_at`).
    pub level: AtomicUsize,
    /// Its blocks in a persistent cache, if there is one.
    pub persistent: Option<Box<PersistentBlocks>>,
}

/// How a block is read.
#[derive(Clone, Copy)]
pub(crate) struct BlockRead {
    /// Its checksum is compared.
    pub verify: bool,
    /// It may be put into a persistent cache.
    pub keep: bool,
}

impl BlockRead {
    /// For what a table holds: compared, and kept.
    pub const CHECKED: BlockRead = BlockRead { verify: true, keep: true };
    /// For what is looked at once: compared.
    pub const ONCE: BlockRead = BlockRead { verify: true, keep: false };
}

/// The outcome of searching a block in passing.
pub(crate) enum Searched<R> {
    Found(R),
    /// The block has to be searched as a whole: its contents.
    Contents(Vec<u8>),
}

impl TableFile {
    /// The file's name, for messages.
    pub fn name(&self) -> String {
        self.file.path().display().to_string()
    }

    /// An error about a block of this file.
    #[cold]
    pub fn bad_block(&self, handle: BlockHandle, kind: BlockKind, what: &str) -> Error {
        Error::corruption(format!(
            "{what}: {} block at offset {} of {} bytes in {}",
            kind.name(),
            handle.offset,
            handle.size,
            self.name()
        ))
    }

    /// The on-disk length of a block, trailer included, if it lies inside the file.
    pub fn stored_len(&self, handle: BlockHandle, kind: BlockKind) -> Result<usize> {
        let inside = handle.end().is_some_and(|end| end <= self.len);
        if !inside || handle.size > u64::from(u32::MAX) {
            let what = format!("block beyond the end of the file of {} bytes", self.len);
            return Err(self.bad_block(handle, kind, &what));
        }
        Ok(to_usize(handle.size) + BLOCK_TRAILER_LEN)
    }

    /// Reads a block with its own read and returns its contents.
    pub fn read(&self, handle: BlockHandle, kind: BlockKind, how: BlockRead) -> Result<Vec<u8>> {
        self.read_into(handle, kind, how, None)
    }

    /// As `read`, for contents that are not kept: the caller gives them back with `recycle`.
    pub fn read_in_passing(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        how: BlockRead,
    ) -> Result<Vec<u8>> {
        self.read_into(handle, kind, how, Some(CONTENTS.with(Cell::take)))
    }

    /// Memory that a read gave back, empty.
    pub fn spare_buffer() -> Vec<u8> {
        let mut buffer = CONTENTS.with(Cell::take);
        buffer.clear();
        buffer
    }

    /// Takes memory that `read_in_passing` or `spare_buffer` returned, for the next such read.
    pub fn recycle(contents: Vec<u8>) {
        if contents.capacity() <= KEPT_BUFFER_BYTES {
            CONTENTS.with(|kept| kept.set(contents));
        }
    }

    /// Reads a block. Its contents are in `passing` if there is one, else in memory that is not
    /// larger than they need.
    fn read_into(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        how: BlockRead,
        passing: Option<Vec<u8>>,
    ) -> Result<Vec<u8>> {
        if handle.size > KEPT_BUFFER_BYTES as u64 {
            return self.read_large(handle, kind, how, passing);
        }
        self.with_stored(handle, kind, how, |stored| {
            self.unpack(handle, kind, stored, passing.unwrap_or_default())
        })
    }

    /// `read_into` for blocks whose buffer would not be kept, so that the block can take it over.
    #[cold]
    fn read_large(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        how: BlockRead,
        passing: Option<Vec<u8>>,
    ) -> Result<Vec<u8>> {
        let mut stored = vec![0; self.stored_len(handle, kind)?];
        self.fill(handle, kind, how, &mut stored)?;
        let size = to_usize(handle.size);
        if stored.get(size) == Some(&(CompressionType::None as u8)) {
            stored.truncate(size);
            return Ok(stored);
        }
        self.unpack(handle, kind, &stored, passing.unwrap_or_default())
    }

    /// Reads an index block for a search that mostly ends before the block does: `search`
    /// decompresses it step by step, if its codec supports that. If it finds nothing, or cannot be
    /// used, the contents are returned, for the caller to give back with `recycle`.
    pub fn search_in_passing<R>(
        &self,
        handle: BlockHandle,
        how: BlockRead,
        search: impl FnOnce(&mut SnappyPrefix<'_>) -> Result<Option<R>>,
    ) -> Result<Searched<R>> {
        let kind = BlockKind::Index;
        self.with_stored(handle, kind, how, |stored| {
            let mut buffer = CONTENTS.with(Cell::take);
            let (payload, trailer) = stored.split_at(to_usize(handle.size));
            if trailer.first() == Some(&(CompressionType::Snappy as u8)) {
                let start = self.start_of_codec();
                let found = SnappyPrefix::new(payload, buffer, self.max_block_bytes)
                    .and_then(|mut block| Ok((search(&mut block)?, block)));
                let (found, block) = found.map_err(|error| self.in_block(&error, handle, kind))?;
                if let Some(found) = found {
                    self.count_unpacked(payload.len(), block.made().len(), start);
                    Self::recycle(block.into_buffer());
                    return Ok(Searched::Found(found));
                }
                buffer = block.into_buffer();
            }
            let contents = self.unpack(handle, kind, stored, buffer)?;
            Ok(Searched::Contents(contents))
        })
    }

    /// Reads a block, verifies it, and calls `f` with its stored form, trailer included, in memory
    /// that the next read overwrites: the buffer is not zeroed for a read.
    fn with_stored<R>(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        how: BlockRead,
        f: impl FnOnce(&[u8]) -> Result<R>,
    ) -> Result<R> {
        let len = self.stored_len(handle, kind)?;
        let mut buffer = READ_BUFFER.with(Cell::take);
        if buffer.len() < len {
            buffer.resize(len, 0);
        }
        let stored = &mut buffer[..len];
        let done = self.fill(handle, kind, how, stored).and_then(|()| f(stored));
        if buffer.capacity() <= KEPT_BUFFER_BYTES {
            READ_BUFFER.with(|kept| kept.set(buffer));
        }
        done
    }

    /// Reads all of `stored` and verifies it.
    fn fill(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        how: BlockRead,
        stored: &mut [u8],
    ) -> Result<()> {
        if self.persistent.is_some() && self.find_persistent(handle, kind, how.verify, stored) {
            return Ok(());
        }
        let got = {
            let _time = perf::time(PerfMetric::BlockReadTime);
            let _cpu = perf::time(PerfMetric::BlockReadCpuTime);
            self.file.read_at(handle.offset, stored)?
        };
        if got != stored.len() {
            let what = format!("truncated block read: {got} of {} bytes", stored.len());
            return Err(self.bad_block(handle, kind, &what));
        }
        self.count_read(kind, got);
        self.check(handle, kind, how.verify, stored)?;
        if how.keep {
            self.keep_persistent(handle, stored);
        }
        Ok(())
    }

    /// Verifies a stored block, trailer included, and returns its contents.
    pub fn open_stored(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        verify: bool,
        stored: &[u8],
    ) -> Result<Vec<u8>> {
        self.open_stored_into(handle, kind, verify, stored, Vec::new())
    }

    /// `open_stored` into a buffer that is reused.
    pub fn open_stored_into(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        verify: bool,
        stored: &[u8],
        buffer: Vec<u8>,
    ) -> Result<Vec<u8>> {
        self.check(handle, kind, verify, stored)?;
        self.unpack(handle, kind, stored, buffer)
    }

    pub(super) fn check(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        verify: bool,
        stored: &[u8],
    ) -> Result<()> {
        if !verify || self.checksum == ChecksumType::None || planted::is(Bug::ChecksumIgnored) {
            return Ok(());
        }
        let (payload, trailer) = stored
            .split_at_checked(to_usize(handle.size))
            .ok_or_else(|| self.bad_block(handle, kind, "short block"))?;
        let found = match trailer {
            [last, sum @ ..] => get_fixed32(sum).map(|sum| (*last, sum)),
            [] => None,
        };
        let (last, found) = found.ok_or_else(|| self.bad_block(handle, kind, "short block"))?;
        let time = perf::time(PerfMetric::BlockChecksumTime);
        let expected = block_checksum(self.checksum, payload, last)
            .wrapping_add(context_checksum(self.base_context, place(handle.offset)));
        drop(time);
        if let Some(stats) = &self.stats {
            stats.checksum_verified(expected == found);
        }
        if expected == found {
            return Ok(());
        }
        let what = format!(
            "block checksum mismatch: stored = {found:#x}, computed = {expected:#x}, type = {}",
            self.checksum as u8
        );
        Err(self.bad_block(handle, kind, &what))
    }

    /// Puts the contents of a stored block into `contents`.
    pub(super) fn unpack(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        stored: &[u8],
        mut contents: Vec<u8>,
    ) -> Result<Vec<u8>> {
        contents.clear();
        let (payload, rest) = stored
            .split_at_checked(to_usize(handle.size))
            .ok_or_else(|| self.bad_block(handle, kind, "short block"))?;
        let number = rest.first().copied().unwrap_or(u8::MAX);
        let method = match CompressionType::from_u8(number) {
            Some(CompressionType::None) => {
                contents.reserve_exact(payload.len());
                contents.extend_from_slice(payload);
                return Ok(contents);
            }
            Some(method) if matches!(kind, BlockKind::Data | BlockKind::Index) => method,
            _ => {
                let what = format!("compression type {number} not allowed");
                return Err(self.bad_block(handle, kind, &what));
            }
        };
        let applies = kind == BlockKind::Data || planted::is(Bug::DictionaryForIndex);
        let dictionary = if applies { self.dictionary.as_ref() } else { None };
        let start = self.start_of_codec();
        let _time = perf::time(PerfMetric::BlockDecompressTime);
        perf::count(PerfMetric::BlockDecompressCount, 1);
        DECOMPRESSOR
            .with(|cell| {
                cell.borrow_mut().decompress_with(
                    method,
                    payload,
                    dictionary,
                    &mut contents,
                    self.max_block_bytes,
                )
            })
            .map_err(|error| self.in_block(&error, handle, kind))?;
        // As in RocksDB the size in front of the data is not part of it; snappy has it inside.
        let size = match method {
            CompressionType::Snappy => 0,
            _ => varint_len(contents.len() as u64),
        };
        self.count_unpacked(payload.len().saturating_sub(size), contents.len(), start);
        Ok(contents)
    }

    /// The time, if the statistics record codec times.
    fn start_of_codec(&self) -> Option<u64> {
        let timed = self.stats.as_ref().is_some_and(|stats| stats.wants_codec_times());
        timed.then(pumice_port::time::now_nanos)
    }

    /// Reports decompressed bytes to the statistics, with the time since `start` if that is known.
    fn count_unpacked(&self, from: usize, to: usize, start: Option<u64>) {
        if let Some(stats) = &self.stats {
            let nanos = start.map(|start| pumice_port::time::now_nanos() - start);
            stats.decompressed(from, to, nanos);
        }
    }

    fn in_block(&self, error: &Error, handle: BlockHandle, kind: BlockKind) -> Error {
        error.with_context(format!(
            "{} block at offset {} of {}",
            kind.name(),
            handle.offset,
            self.name()
        ))
    }
}
