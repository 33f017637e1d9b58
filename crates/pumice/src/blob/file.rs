//! `BlobFile`: one blob file, open for reads.
//!
//! Thread safety: shared; each read is independent. Suspends in `read_at`.
//! Invariants: (1) header and footer were checked when it was opened; (2) no read reaches beyond
//! the records, whatever an index says, so that memory is taken only for bytes that the file has.
//! Errors name file, offset and what was wrong.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use pumice_base::narrow::to_usize;
use pumice_base::{Error, Result, SubCode};
use pumice_compress::{CompressionType, Decompressor};
use pumice_env::RandomAccessFile;
use pumice_env::perf::{self, PerfMetric};
use pumice_table::blob::format::{
    FOOTER_LEN, FileHeader, HEADER_LEN, RECORD_HEADER_LEN, RecordHeader, decode_footer,
};
use pumice_table::blob::index::BlobIndex;

use crate::blob::record_key::RecordKey;
use crate::stats::{HistogramKind, Record, Statistics};

/// Buffers above this are not kept.
const KEPT_BUFFER_BYTES: usize = 1 << 20;
/// The largest value that a record may hold.
const MAX_VALUE_BYTES: usize = u32::MAX as usize;

pumice_port::worker_local! {
    static DECOMPRESSOR: RefCell<Decompressor> = RefCell::new(Decompressor::new());
}
pumice_port::worker_local! {
    static READ_BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// See the module head.
pub(crate) struct BlobFile {
    file: Arc<dyn RandomAccessFile>,
    /// None if the header cannot be read: each index says its own.
    compression: Option<CompressionType>,
    /// No record reaches beyond this.
    records_end: u64,
    statistics: Option<Arc<Statistics>>,
}

/// What the ends of a whole file say.
pub(crate) struct Ends {
    pub family: u32,
    compression: CompressionType,
    pub blobs: u64,
}

/// An error about a place of `file`.
#[cold]
pub(crate) fn damaged(file: &dyn RandomAccessFile, offset: u64, error: &Error) -> Error {
    error.with_context(format_args!("{}, offset {offset}", file.path().display()))
}

/// The bytes of a part of `file`.
fn read_part(file: &dyn RandomAccessFile, offset: u64, part: &mut [u8]) -> Result<()> {
    let read = file.read_at(offset, part)?;
    if read == part.len() {
        return Ok(());
    }
    let text = format!("Failed to read data from blob file: {read} of {} bytes", part.len());
    Err(damaged(file, offset, &Error::corruption(text)))
}

/// Reads header and footer.
fn read_ends(file: &dyn RandomAccessFile) -> Result<Ends> {
    if file.len() < (HEADER_LEN + FOOTER_LEN) as u64 {
        return Err(damaged(file, 0, &Error::corruption("Malformed blob file")));
    }
    let mut header = [0; HEADER_LEN];
    read_part(file, 0, &mut header)?;
    let header = FileHeader::decode(&header).map_err(|error| damaged(file, 0, &error))?;
    let (mut footer, at) = ([0; FOOTER_LEN], end_of_records(file));
    read_part(file, at, &mut footer)?;
    let blobs = decode_footer(&footer).map_err(|error| damaged(file, at, &error))?;
    Ok(Ends { family: header.family, compression: header.compression, blobs })
}

/// Where the records of a whole file end.
fn end_of_records(file: &dyn RandomAccessFile) -> u64 {
    file.len().saturating_sub(FOOTER_LEN as u64)
}

impl BlobFile {
    /// Takes over `file` of column family `family`.
    ///
    /// # Errors
    /// Corruption if it is not a whole blob file of that family; I/O.
    pub fn open(
        file: Arc<dyn RandomAccessFile>,
        family: u32,
        statistics: Option<Arc<Statistics>>,
    ) -> Result<Self> {
        let ends = read_ends(&*file)?;
        if ends.family != family {
            let text = format!("Column family ID mismatch: {} in place of {family}", ends.family);
            return Err(damaged(&*file, 0, &Error::corruption(text)));
        }
        let (compression, records_end) = (Some(ends.compression), end_of_records(&*file));
        Ok(BlobFile { file, compression, records_end, statistics })
    }

    /// Takes over `file`, whatever its state; and says whether it is whole. Of one that is not,
    /// values can be read whose records are.
    pub fn salvage(file: Arc<dyn RandomAccessFile>) -> (Self, Result<Ends>) {
        let ends = read_ends(&*file);
        let (compression, records_end) = match &ends {
            Ok(ends) => (Some(ends.compression), end_of_records(&*file)),
            Err(_) => (None, file.len()),
        };
        (BlobFile { file, compression, records_end, statistics: None }, ends)
    }

    /// Bytes of all records.
    pub fn record_bytes(&self) -> u64 {
        self.records_end.saturating_sub(HEADER_LEN as u64)
    }

    /// Replaces `out` by the value that `index` of `key` refers to. With `verify` the record is
    /// checked: its CRCs, its lengths and its key.
    ///
    /// # Errors
    /// Corruption; I/O.
    pub fn read(
        &self,
        key: &RecordKey<'_>,
        index: &BlobIndex,
        verify: bool,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        out.clear();
        self.check(key, index).map_err(|error| damaged(&*self.file, index.offset, &error))?;
        if index.compression == CompressionType::None && !verify {
            return self.read_value(index, out);
        }
        let mut buffer = READ_BUFFER.take();
        let read = match verify {
            true => self.read_record(key, index, &mut buffer),
            false => self.read_value(index, &mut buffer).map(|()| 0),
        };
        let done = read.and_then(|start| self.decompress(index, &buffer[start..], out));
        if buffer.capacity() <= KEPT_BUFFER_BYTES {
            READ_BUFFER.set(buffer);
        }
        done
    }

    /// Hints that a part of the file will be read soon.
    pub fn prefetch(&self, offset: u64, bytes: u64) {
        let left = self.file.len().saturating_sub(offset);
        self.file.prefetch(offset, bytes.min(left));
    }

    /// The place of the record lies between header and footer, and the value is stored as the file
    /// says.
    fn check(&self, key: &RecordKey<'_>, index: &BlobIndex) -> Result<()> {
        let first = (HEADER_LEN + RECORD_HEADER_LEN + key.len()) as u64;
        let end = index.offset.checked_add(index.size);
        if index.offset < first || end.is_none_or(|end| end > self.records_end) {
            return Err(Error::corruption("Invalid blob offset"));
        }
        if self.compression.is_some_and(|of_file| of_file != index.compression) {
            return Err(Error::corruption("Compression type mismatch when reading blob"));
        }
        Ok(())
    }

    fn read_value(&self, index: &BlobIndex, out: &mut Vec<u8>) -> Result<()> {
        self.read_counted(index.offset, to_usize(index.size), out)
    }

    fn read_counted(&self, offset: u64, len: usize, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        if out.try_reserve_exact(len).is_err() {
            let error = Error::aborted(format!("no memory for a blob of {len} bytes"));
            return Err(error.with_subcode(SubCode::MemoryLimit));
        }
        out.resize(len, 0);
        let _time = perf::time(PerfMetric::BlobReadTime);
        read_part(&*self.file, offset, out)?;
        perf::count(PerfMetric::BlobReadCount, 1);
        perf::count(PerfMetric::BlobReadByte, len as u64);
        Ok(())
    }

    /// Reads the record into `buffer` and checks it; returns where in it the value begins.
    fn read_record(
        &self,
        key: &RecordKey<'_>,
        index: &BlobIndex,
        buffer: &mut Vec<u8>,
    ) -> Result<usize> {
        let before = RECORD_HEADER_LEN + key.len();
        let offset = index.offset - before as u64;
        self.read_counted(offset, before + to_usize(index.size), buffer)?;
        let _time = perf::time(PerfMetric::BlobChecksumTime);
        let checked = RecordHeader::decode(buffer).and_then(|header| {
            let wrong = |what| Err(Error::corruption(format!("{what} when reading blob")));
            if header.key_len != key.len() as u64 {
                return wrong("Key size mismatch");
            }
            if header.value_len != index.size {
                return wrong("Value size mismatch");
            }
            let (found, value) = (&buffer[RECORD_HEADER_LEN..before], &buffer[before..]);
            if !key.fits(found) {
                return wrong("Key mismatch");
            }
            header.check_blob(found, value)
        });
        checked.map_err(|error| damaged(&*self.file, offset, &error))?;
        Ok(before)
    }

    fn decompress(&self, index: &BlobIndex, stored: &[u8], out: &mut Vec<u8>) -> Result<()> {
        if index.compression == CompressionType::None {
            out.extend_from_slice(stored);
            return Ok(());
        }
        let _time = perf::time(PerfMetric::BlobDecompressTime);
        let timer = self.statistics.timer();
        let decompress = |codec: &RefCell<Decompressor>| {
            codec.borrow_mut().decompress(index.compression, stored, out, MAX_VALUE_BYTES)
        };
        let done = DECOMPRESSOR.with(decompress);
        timer.stop(&self.statistics, HistogramKind::BlobDbDecompressionMicros);
        done.map_err(|error| damaged(&*self.file, index.offset, &error))
    }
}
