//! Files of the operating system that bypass its page cache (O_DIRECT).
//!
//! The device moves whole blocks between block boundaries, on both sides. A read takes the units
//! around it that the kernel requires, often 512 bytes; writes are in blocks of 4,096 whatever it
//! requires. Reads of any position and buffer go through an aligned buffer of the thread's pool,
//! unless they happen to fit. A writer collects bytes in one aligned buffer and writes whole
//! blocks; where the content must be complete in between (flush, sync, close) it writes the last,
//! partial block padded with zeros and then cuts the file to its true length. That block stays in
//! the buffer and is written again.
//!
//! Invariants:
//! 1. A `DirectWritableFile`'s buffer holds the bytes from position `start`, a block boundary, to
//!    its `len`; everything before `start` has been written to the device.
//!
//! Thread safety: reads may be concurrent; a writer has one user. File systems without O_DIRECT
//! refuse to open such a file (EINVAL), and that is the error.

use crate::file_system::{FileSyncer, RandomAccessFile, ReadRequest, WritableFile};
use crate::operation;
use crate::posix_file::PosixWritableFile;
use pumice_base::{Error, Result};
use pumice_port::os::{self, AlignedBuffer, BatchRead, DIRECT_ALIGNMENT, File, PooledBuffer};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const BLOCK: u64 = DIRECT_ALIGNMENT as u64;
/// What a writer buffers before it writes; large enough for a device's full rate.
const WRITE_BUFFER_BYTES: usize = 256 << 10;

/// A file open for direct reads.
pub(crate) struct DirectRandomAccessFile {
    file: File,
    bytes: u64,
    path: PathBuf,
    /// Positions and lengths of reads are multiples of this; a power of two.
    unit: usize,
}

/// The whole blocks around a range of a file.
#[derive(Clone, Copy)]
struct Blocks {
    start: u64,
    bytes: usize,
    /// Where the range begins in them.
    skip: usize,
}

impl Blocks {
    fn around(offset: u64, bytes: usize, unit: usize) -> Self {
        let start = offset & !(unit as u64 - 1);
        let skip = (offset - start) as usize;
        Blocks { start, bytes: (skip + bytes).next_multiple_of(unit), skip }
    }
    /// Copies the range out of the blocks, of which `have` bytes were read.
    fn copy_to(self, blocks: &[u8], have: usize, buf: &mut [u8]) -> usize {
        let n = have.saturating_sub(self.skip).min(buf.len());
        buf[..n].copy_from_slice(&blocks[self.skip..self.skip + n]);
        n
    }
}

fn is_aligned(offset: u64, buf: &[u8], unit: usize) -> bool {
    offset.is_multiple_of(unit as u64)
        && buf.len().is_multiple_of(unit)
        && buf.as_ptr().addr().is_multiple_of(DIRECT_ALIGNMENT)
}

impl DirectRandomAccessFile {
    /// A reader of `file`, which was opened for direct reads and has `bytes`.
    pub(crate) fn new(file: File, bytes: u64, path: PathBuf) -> Self {
        let unit = file.direct_read_unit();
        DirectRandomAccessFile { file, bytes, path, unit }
    }
    fn error(&self, offset: u64, bytes: usize, e: &std::io::Error) -> Error {
        Error::io(&operation::pread(offset, bytes), &self.path, e)
    }
}

impl RandomAccessFile for DirectRandomAccessFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if is_aligned(offset, buf, self.unit) {
            let result = self.file.read_at(buf, offset);
            return result.map_err(|e| self.error(offset, buf.len(), &e));
        }
        let blocks = Blocks::around(offset, buf.len(), self.unit);
        let mut scratch = PooledBuffer::take(blocks.bytes);
        let have = self
            .file
            .read_at(&mut scratch[..blocks.bytes], blocks.start)
            .map_err(|e| self.error(offset, buf.len(), &e))?;
        Ok(blocks.copy_to(&scratch, have, buf))
    }
    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) {
        let mut scratch: Vec<(Blocks, PooledBuffer)> = requests
            .iter()
            .map(|r| Blocks::around(r.offset, r.buf.len(), self.unit))
            .map(|blocks| (blocks, PooledBuffer::take(blocks.bytes)))
            .collect();
        let mut reads: Vec<BatchRead<'_>> = scratch
            .iter_mut()
            .map(|(blocks, buffer)| BatchRead {
                file: &self.file,
                buf: &mut buffer[..blocks.bytes],
                offset: blocks.start,
                result: Ok(0),
            })
            .collect();
        os::read_batch(&mut reads);
        let results: Vec<_> = reads.into_iter().map(|read| read.result).collect();
        for ((request, (blocks, buffer)), result) in requests.iter_mut().zip(&scratch).zip(results)
        {
            request.result = match result {
                Ok(have) => Ok(blocks.copy_to(buffer, have, request.buf)),
                Err(e) => Err(self.error(request.offset, request.buf.len(), &e)),
            };
        }
    }
    fn needs_little_stack(&self) -> bool {
        true
    }
    fn read_unit(&self) -> usize {
        self.unit
    }
    /// There is no cache to fetch into.
    fn prefetch(&self, _offset: u64, _bytes: u64) {}
    fn prefetches(&self) -> bool {
        false
    }
    fn len(&self) -> u64 {
        self.bytes
    }
    fn path(&self) -> &Path {
        &self.path
    }
}

/// A file open for direct writes, from empty.
pub(crate) struct DirectWritableFile {
    file: PosixWritableFile,
    buffer: AlignedBuffer,
    /// Invariant 1.
    start: u64,
    len: u64,
    /// The last, partial block was written, padded, and nothing was appended since.
    tail_written: bool,
    closed: bool,
}

impl DirectWritableFile {
    /// A writer for the empty `file`, which was opened for reading too.
    pub(crate) fn new(file: PosixWritableFile) -> Self {
        let buffer = AlignedBuffer::new(WRITE_BUFFER_BYTES);
        DirectWritableFile { file, buffer, start: 0, len: 0, tail_written: false, closed: false }
    }

    fn buffered(&self) -> usize {
        (self.len - self.start) as usize
    }

    fn write(&self, bytes: usize) -> Result<()> {
        let data = &self.buffer[..bytes];
        self.file.with(operation::APPEND, |f| f.write_all_at(data, self.start))
    }

    /// Writes the whole blocks of the buffer; the rest moves to its front.
    fn write_blocks(&mut self) -> Result<()> {
        let whole = self.buffered() / DIRECT_ALIGNMENT * DIRECT_ALIGNMENT;
        if whole > 0 {
            self.write(whole)?;
            let end = self.buffered();
            self.buffer.copy_within(whole..end, 0);
            self.start += whole as u64;
        }
        Ok(())
    }

    /// Everything up to `len` is in the file, and nothing after it.
    fn write_all(&mut self) -> Result<()> {
        self.write_blocks()?;
        let rest = self.buffered();
        if rest > 0 && !self.tail_written {
            self.buffer[rest..DIRECT_ALIGNMENT].fill(0);
            self.write(DIRECT_ALIGNMENT)?;
            let len = self.len;
            self.file.truncate(len)?;
            self.tail_written = true;
        }
        self.file.set_position(self.len);
        Ok(())
    }
}

impl WritableFile for DirectWritableFile {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        let mut rest = data;
        while !rest.is_empty() {
            let used = self.buffered();
            let (now, later) = rest.split_at(rest.len().min(self.buffer.len() - used));
            self.buffer[used..used + now.len()].copy_from_slice(now);
            self.len += now.len() as u64;
            self.tail_written = false;
            rest = later;
            if self.buffered() == self.buffer.len() {
                self.write_blocks()?;
            }
        }
        // A closed file reports it even when the bytes would fit into the buffer.
        if self.closed { self.file.with(operation::APPEND, |_| Ok(())) } else { Ok(()) }
    }
    fn overwrite(&mut self, _ahead: u64, _data: &[u8], _step: u64) -> Result<()> {
        Err(Error::not_supported("files that bypass the page cache are not used again"))
    }
    fn flush(&mut self) -> Result<()> {
        self.write_all()
    }
    fn sync(&mut self) -> Result<()> {
        self.write_all()?;
        self.file.sync()
    }
    fn fsync(&mut self) -> Result<()> {
        self.write_all()?;
        self.file.fsync()
    }
    /// Written bytes are on the device already.
    fn range_sync(&mut self, _offset: u64, _bytes: u64, _wait: bool) -> Result<()> {
        Ok(())
    }
    fn preallocate(&mut self, end: u64) -> Result<()> {
        self.file.preallocate(end)
    }
    fn truncate(&mut self, bytes: u64) -> Result<()> {
        self.write_all()?;
        if bytes == self.len && self.buffered() > 0 {
            // Writing the tail has cut the file there.
            return Ok(());
        }
        self.file.truncate(bytes)?;
        self.start = bytes / BLOCK * BLOCK;
        self.len = bytes;
        self.tail_written = true;
        let rest = self.buffered();
        if rest > 0 {
            let (start, block) = (self.start, &mut self.buffer[..DIRECT_ALIGNMENT]);
            let have = self.file.with(operation::APPEND, |f| f.read_at(block, start))?;
            // A file grown by truncating ends with zeros.
            self.buffer[have.min(rest)..rest].fill(0);
        }
        Ok(())
    }
    fn close(&mut self) -> Result<()> {
        if !self.closed {
            self.write_all()?;
            self.closed = true;
        }
        self.file.close()
    }
    fn syncer(&self) -> Result<Arc<dyn FileSyncer>> {
        self.file.syncer()
    }
    fn len(&self) -> u64 {
        self.len
    }
    fn path(&self) -> &Path {
        self.file.path()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Plain #[test]: arithmetic alone.
    #[test]
    fn a_read_takes_the_units_around_it() {
        for (offset, bytes, unit, start, whole, skip) in [
            (5_000, 100, 512, 4608, 512, 392),
            (5_000, 121, 512, 4608, 1024, 392),
            (5_000, 100, 4096, 4096, 4096, 904),
            (1_024, 512, 512, 1024, 512, 0),
        ] {
            let blocks = Blocks::around(offset, bytes, unit);
            assert_eq!((blocks.start, blocks.bytes, blocks.skip), (start, whole, skip));
        }
    }
}
