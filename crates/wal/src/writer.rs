//! Appends logical records to a log.
//!
//! The caller's parts are copied once, into the file's buffer after a header, and the checksum runs
//! over them there: one pass over bytes that are in the cache, however many parts there are.
//! Flushing is one system call, however many records were added.
//!
//! Invariants:
//! 1. `block_offset` is the file's length modulo the block size, and never the block size itself.
//! 2. After an error the file's tail is unknown, and every later call returns that error: the
//!    buffered writer below refuses, and the compressor does not fail between fragments.
//!
//! Thread safety: one owner.

use crate::compression::RecordCompressor;
use crate::record::{
    BLOCK_BYTES, COMPRESSION_ZSTD, FIRST, FULL, HEADER_BYTES, LAST, MIDDLE,
    RECYCLABLE_HEADER_BYTES, RECYCLABLE_OFFSET, RECYCLABLE_TIMESTAMP_SIZES, SET_COMPRESSION,
    TIMESTAMP_SIZES,
};
use crate::reuse;
use pumice_base::checksum::{crc32c, crc32c_extend, mask_crc};
use pumice_base::copying;
use pumice_base::narrow::{len_u16, low_u32, to_usize};
use pumice_base::planted::{self, Bug};
use pumice_base::{Error, Result};
use pumice_env::{BufferedWriter, FileSyncer};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Column families in one record of timestamp sizes, 6 bytes each: it fits in a block.
const TIMESTAMP_SIZES_MAX: usize = 4096;

/// See the head of this file.
pub struct LogWriter {
    file: BufferedWriter,
    log_number: u64,
    manual_flush: bool,
    header_bytes: usize,
    block_offset: usize,
    /// Checksum of the header's tail (type, and log number when recyclable) by type.
    header_crcs: [u32; 5],
    compressor: Option<RecordCompressor>,
    /// How much of the log is with the operating system, in whole records.
    written: Arc<AtomicU64>,
}

impl LogWriter {
    /// A writer that appends to what `file` already holds. With `recycle` the records carry
    /// `log_number`, for a file whose old content is being overwritten. Unless `manual_flush`, each
    /// record goes to the operating system at once.
    pub fn new(file: BufferedWriter, log_number: u64, recycle: bool, manual_flush: bool) -> Self {
        let recycle = recycle && !planted::is(Bug::LogReusedWithoutNumber);
        let mut header_crcs = [0; 5];
        for kind in FULL..=LAST {
            header_crcs[usize::from(kind)] = if recycle {
                let crc = crc32c(&[kind + RECYCLABLE_OFFSET]);
                crc32c_extend(crc, &low_u32(log_number).to_le_bytes())
            } else {
                crc32c(&[kind])
            };
        }
        let written = file.len();
        let block_offset = to_usize(written % BLOCK_BYTES as u64);
        let header_bytes = if recycle { RECYCLABLE_HEADER_BYTES } else { HEADER_BYTES };
        LogWriter {
            file,
            log_number,
            manual_flush,
            header_bytes,
            block_offset,
            header_crcs,
            compressor: None,
            written: Arc::new(AtomicU64::new(written)),
        }
    }

    /// A writer over `old_bytes` bytes that `file` holds of an older use, see [`crate::reuse`].
    pub fn over(file: BufferedWriter, old_bytes: u64, log_number: u64, manual_flush: bool) -> Self {
        Self::new(file.over(reuse::old_content(old_bytes)), log_number, true, manual_flush)
    }

    /// Compresses all records from here on, which must be the start of the log.
    pub fn enable_compression(&mut self) -> Result<()> {
        debug_assert!(self.file.is_empty(), "compression is announced by the first record");
        let compressor = RecordCompressor::new()?;
        let payload = COMPRESSION_ZSTD.to_le_bytes();
        let crc = crc32c_extend(crc32c(&[SET_COMPRESSION]), &payload);
        // This type has the short header even in a recyclable log.
        self.file.append(&header(crc, payload.len(), SET_COMPRESSION))?;
        self.file.append(&payload)?;
        self.block_offset = HEADER_BYTES + payload.len();
        self.compressor = Some(compressor);
        self.flush_unless_manual()
    }

    /// Adds one record.
    pub fn add_record(&mut self, record: &[u8]) -> Result<()> {
        self.add_record_parts(&[record])
    }

    /// Adds one record whose bytes are those of all `parts` in order.
    pub fn add_record_parts(&mut self, parts: &[&[u8]]) -> Result<()> {
        match self.compressor.take() {
            None => self.add_stored(parts)?,
            Some(mut compressor) => {
                let result = compressor.compress(parts).and_then(|frame| self.add_stored(&[frame]));
                self.compressor = Some(compressor);
                result?;
            }
        }
        self.flush_unless_manual()
    }

    /// Records how many bytes the timestamps of column families, by id, have. The record is not
    /// compressed and not split: it begins a block if it does not fit.
    pub fn add_timestamp_sizes(&mut self, sizes: &[(u32, u16)]) -> Result<()> {
        // Far more families than a block has room for would need a second record.
        for sizes in sizes.chunks(TIMESTAMP_SIZES_MAX) {
            let pairs = sizes.iter().flat_map(|(family, size)| {
                family.to_le_bytes().into_iter().chain(size.to_le_bytes())
            });
            let payload: Vec<u8> = pairs.collect();
            let room = BLOCK_BYTES - self.block_offset;
            if room < self.header_bytes + payload.len() {
                self.file.pad(room)?;
                self.block_offset = 0;
            }
            let recyclable = self.header_bytes != HEADER_BYTES;
            let kind = if recyclable { RECYCLABLE_TIMESTAMP_SIZES } else { TIMESTAMP_SIZES };
            let number = low_u32(self.log_number).to_le_bytes();
            let number = if recyclable { &number[..] } else { &[] };
            let crc = crc32c_extend(crc32c_extend(crc32c(&[kind]), number), &payload);
            self.file.append(&header(crc, payload.len(), kind))?;
            self.file.append(number)?;
            self.file.append(&payload)?;
            self.block_offset =
                (self.block_offset + self.header_bytes + payload.len()) % BLOCK_BYTES;
        }
        Ok(())
    }

    /// Hands all records to the operating system.
    pub fn flush(&mut self) -> Result<()> {
        let flushed = self.file.flush();
        self.note_written(flushed)
    }
    /// Flushes and makes all records durable (fdatasync).
    pub fn sync(&mut self) -> Result<()> {
        let synced = self.file.sync(false);
        self.note_written(synced)
    }
    /// Flushes and makes all records and the file's metadata durable (fsync).
    pub fn fsync(&mut self) -> Result<()> {
        let synced = self.file.sync(true);
        self.note_written(synced)
    }
    /// A handle with which another task makes the flushed records durable while this one continues.
    pub fn syncer(&self) -> Result<Arc<dyn FileSyncer>> {
        self.file.syncer()
    }
    /// Ends the log with the error of a syncer.
    pub fn poison(&mut self, error: &Error) {
        self.file.poison(error);
    }
    /// Flushes and cuts off what the file holds of an older use; whether there was anything. Not
    /// durable by itself.
    pub fn cut(&mut self) -> Result<bool> {
        let cut = self.file.cut();
        self.note_written(cut)
    }
    /// Flushes and ends the log. Not durable by itself.
    pub fn close(&mut self) -> Result<()> {
        self.file.cut()?;
        self.file.close()
    }
    /// Changes when records go to the device, see [`BufferedWriter::set_bytes_per_sync`].
    pub fn set_bytes_per_sync(&mut self, bytes_per_sync: u64, strict: bool) {
        self.file.set_bytes_per_sync(bytes_per_sync, strict);
    }
    /// Bytes added so far, headers included.
    pub fn file_size(&self) -> u64 {
        self.file.len()
    }
    /// Bytes added but not yet handed to the operating system.
    pub fn buffered_bytes(&self) -> usize {
        self.file.buffered_len()
    }
    /// How much of the log is with the operating system, also later on: readers end there, while
    /// the file may hold older records.
    pub fn written(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.written)
    }
    /// The log's file number.
    pub fn log_number(&self) -> u64 {
        self.log_number
    }
    /// The file below.
    pub fn file(&self) -> &BufferedWriter {
        &self.file
    }

    fn flush_unless_manual(&mut self) -> Result<()> {
        if self.manual_flush { Ok(()) } else { self.flush() }
    }

    #[inline]
    fn note_written<T>(&self, result: Result<T>) -> Result<T> {
        if result.is_ok() {
            self.written.store(self.file.len(), Ordering::Release);
        }
        result
    }

    #[inline]
    fn add_stored(&mut self, parts: &[&[u8]]) -> Result<()> {
        let total: usize = parts.iter().map(|p| p.len()).sum();
        if self.header_bytes + total <= BLOCK_BYTES - self.block_offset {
            return self.emit(FULL, total, parts.iter().copied());
        }
        self.add_fragments(parts, total)
    }

    fn add_fragments(&mut self, parts: &[&[u8]], total: usize) -> Result<()> {
        let mut cursor = PartsCursor { parts, offset: 0 };
        let mut left = total;
        let mut begin = true;
        loop {
            let room = BLOCK_BYTES - self.block_offset;
            if room < self.header_bytes {
                self.file.pad(room)?;
                self.block_offset = 0;
                continue;
            }
            let bytes = left.min(room - self.header_bytes);
            let kind = match (begin, bytes == left) {
                (true, true) => FULL,
                (true, false) => FIRST,
                (false, true) => LAST,
                (false, false) => MIDDLE,
            };
            self.emit(kind, bytes, cursor.peek(bytes))?;
            cursor.advance(bytes);
            left -= bytes;
            begin = false;
            if left == 0 {
                return Ok(());
            }
        }
    }

    /// Writes one physical record whose payload is `bytes` long and given in `pieces`.
    #[inline]
    fn emit<'a>(
        &mut self,
        kind: u8,
        bytes: usize,
        pieces: impl Iterator<Item = &'a [u8]>,
    ) -> Result<()> {
        let buffer = self.file.buffer_for(self.header_bytes + bytes)?;
        let start = buffer.len();
        if self.header_bytes == HEADER_BYTES {
            buffer.extend_from_slice(&header(0, bytes, kind));
        } else {
            buffer.extend_from_slice(&header(0, bytes, kind + RECYCLABLE_OFFSET));
            buffer.extend_from_slice(&low_u32(self.log_number).to_le_bytes());
        }
        let payload = buffer.len();
        pieces.for_each(|piece| copying::extend(buffer, piece));
        debug_assert_eq!(buffer.len() - payload, bytes, "the pieces are the payload");
        let crc = crc32c_extend(self.header_crcs[usize::from(kind)], &buffer[payload..]);
        buffer[start..start + 4].copy_from_slice(&mask_crc(crc).to_le_bytes());
        self.block_offset = (self.block_offset + self.header_bytes + bytes) % BLOCK_BYTES;
        Ok(())
    }
}

/// The short header; `bytes` fits because a payload fits in a block.
#[inline]
fn header(crc: u32, bytes: usize, kind: u8) -> [u8; HEADER_BYTES] {
    let [c0, c1, c2, c3] = mask_crc(crc).to_le_bytes();
    let [l0, l1] = len_u16(bytes).to_le_bytes();
    [c0, c1, c2, c3, l0, l1, kind]
}

/// A position in a list of parts.
struct PartsCursor<'a> {
    parts: &'a [&'a [u8]],
    /// Inside the first part.
    offset: usize,
}

impl<'a> PartsCursor<'a> {
    /// The next `bytes` bytes, as pieces.
    fn peek(&self, bytes: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut skip = self.offset;
        let mut left = bytes;
        self.parts.iter().map_while(move |part| {
            let rest = &part[skip..];
            let piece = &rest[..rest.len().min(left)];
            skip = 0;
            let wanted = left > 0;
            left -= piece.len();
            wanted.then_some(piece)
        })
    }

    fn advance(&mut self, bytes: usize) {
        self.offset += bytes;
        while let Some(first) = self.parts.first()
            && self.offset >= first.len()
        {
            self.offset -= first.len();
            self.parts = &self.parts[1..];
        }
    }
}
