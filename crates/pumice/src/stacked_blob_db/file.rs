//! One file of `blob_dir`: what readers need of it, and its writer.
//!
//! Thread safety: a `BlobFile` is shared; a `Writer` has one owner. Invariants: (1) a file has its
//! header, durably, and its name is durable, before an index refers to it; (2) nothing is appended
//! to a file that another open wrote; (3) no read reaches beyond the bytes of the file, and each
//! checks the whole record. Suspends on I/O.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwapOption;
use pumice_base::narrow::to_usize;
use pumice_base::{Error, FileNumber, Result};
use pumice_compress::{CompressionType, Decompressor};
use pumice_env::filename::blob_file;
use pumice_env::{BufferedWriter, FileOptions, FileSystem, RandomAccessFile, WriterOptions};
use pumice_table::blob::format::{
    Expirations, FOOTER_LEN, FileHeader, HEADER_LEN, RECORD_HEADER_LEN, RecordHeader,
    decode_expiring_footer, encode_expiring_footer, encode_expiring_record_header,
};
use pumice_table::blob::index::BlobIndex;

use crate::blob::file::damaged;

/// The expiration in records of values that have none.
const NEVER: u64 = u64::MAX;
/// Bytes that are appended before the kernel is told to write them.
const BYTES_PER_SYNC: u64 = 512 << 10;
/// Records are collected up to this before they are handed to the system.
const BUFFER_BYTES: usize = 64 << 10;
/// The largest value that a record may hold.
const MAX_VALUE_BYTES: usize = u32::MAX as usize;

/// See the module head.
pub(super) struct BlobFile {
    pub number: FileNumber,
    pub path: PathBuf,
    /// Its values expire in this time; None: never.
    pub expire: Option<Expirations>,
    /// It has a footer, or was made durable whole.
    pub whole: bool,
    fs: Arc<dyn FileSystem>,
    bytes: AtomicU64,
    /// Jobs of low priority use it, too: no lock.
    reader: ArcSwapOption<Arc<dyn RandomAccessFile>>,
    /// Writes whose indexes are not in the database yet.
    pub pending: AtomicUsize,
    /// No entry with a larger sequence number refers to it.
    pub last_sequence: AtomicU64,
    /// The last sequence number when nothing but snapshots referred to it; 0: something does.
    pub unreferenced_since: AtomicU64,
}

/// What is found in a file by [`BlobFile::open`].
pub(super) enum Found {
    File(BlobFile),
    /// Its creation was interrupted: it never had a record.
    Leftover(PathBuf),
}

impl BlobFile {
    fn new(
        fs: &Arc<dyn FileSystem>,
        dir: &Path,
        number: FileNumber,
        expire: Option<Expirations>,
    ) -> Self {
        BlobFile {
            number,
            path: blob_file(dir, number),
            expire,
            whole: true,
            fs: Arc::clone(fs),
            bytes: AtomicU64::new(HEADER_LEN as u64),
            reader: ArcSwapOption::empty(),
            pending: AtomicUsize::new(0),
            last_sequence: AtomicU64::new(0),
            unreferenced_since: AtomicU64::new(0),
        }
    }

    /// A file of an earlier open, with or without a footer.
    ///
    /// # Errors
    /// Corruption of the header; I/O.
    pub fn open(fs: &Arc<dyn FileSystem>, dir: &Path, number: FileNumber) -> Result<Found> {
        let mut file = Self::new(fs, dir, number, None);
        let reader = fs.open_random(&file.path)?;
        let bytes = reader.len();
        let mut header = [0; HEADER_LEN];
        let read = reader.read_at(0, &mut header)?;
        let decoded = FileHeader::decode_expiring(&header[..read]);
        if bytes <= HEADER_LEN as u64 && decoded.is_err() {
            return Ok(Found::Leftover(file.path));
        }
        let (_, expire) = decoded.map_err(|error| damaged(&*reader, 0, &error))?;
        file.expire = expire;
        file.whole = false;
        if let Some(at) = bytes.checked_sub(FOOTER_LEN as u64).filter(|at| *at >= HEADER_LEN as u64)
        {
            let mut footer = [0; FOOTER_LEN];
            let read = reader.read_at(at, &mut footer)?;
            file.whole = decode_expiring_footer(&footer[..read]).is_ok();
        }
        file.bytes = AtomicU64::new(bytes);
        file.reader.store(Some(Arc::new(reader)));
        Ok(Found::File(file))
    }

    /// Makes what a crash has left of it durable.
    ///
    /// # Errors
    /// I/O.
    pub fn sync(&self) -> Result<()> {
        self.fs.reopen_append(&self.path)?.sync()
    }

    /// Its length.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// No value of it is alive at `now`, in seconds since 1970.
    pub fn is_expired(&self, now: u64) -> bool {
        self.expire.is_some_and(|(_, before)| before <= now)
    }

    /// The value of `key` at `place`.
    ///
    /// # Errors
    /// Corruption, which names the file and the offset; I/O.
    pub fn read(&self, key: &[u8], place: &BlobIndex) -> Result<Vec<u8>> {
        let reader = self.reader(place)?;
        let (mut record, before) = self.read_record(&*reader, key, place)?;
        if place.compression == CompressionType::None {
            record.drain(..before);
            return Ok(record);
        }
        let mut value = Vec::new();
        Decompressor::new()
            .decompress(place.compression, &record[before..], &mut value, MAX_VALUE_BYTES)
            .map_err(|error| damaged(&*reader, place.offset, &error))?;
        Ok(value)
    }

    /// The record of `key` at `place` cannot have been written whole.
    pub fn lacks(&self, key: &[u8], place: &BlobIndex) -> bool {
        let read = self.reader(place).and_then(|reader| self.read_record(&*reader, key, place));
        read.is_err_and(|error| error.is_corruption())
    }

    fn read_record(
        &self,
        reader: &dyn RandomAccessFile,
        key: &[u8],
        place: &BlobIndex,
    ) -> Result<(Vec<u8>, usize)> {
        let before = RECORD_HEADER_LEN + key.len();
        let wrong = |text: &str| damaged(reader, place.offset, &Error::corruption(text));
        let first = (HEADER_LEN + before) as u64;
        let end = place.offset.checked_add(place.size).filter(|end| *end <= self.bytes());
        if place.offset < first || end.is_none() {
            return Err(wrong("Invalid blob offset"));
        }
        let mut record = vec![0; before + to_usize(place.size)];
        let read = reader.read_at(place.offset - before as u64, &mut record)?;
        if read != record.len() {
            return Err(wrong("Failed to retrieve blob from blob index."));
        }
        let header = RecordHeader::decode(&record).map_err(|error| wrong(error.message()))?;
        if header.key_len != key.len() as u64
            || header.value_len != place.size
            || record[RECORD_HEADER_LEN..before] != *key
        {
            return Err(wrong("Blob record of another key"));
        }
        let checked = header.check_blob(key, &record[before..]);
        checked.map_err(|_| wrong("Corruption. Blob CRC mismatch"))?;
        Ok((record, before))
    }

    /// The file, open, with the record at `place`: it may have grown since it was opened.
    fn reader(&self, place: &BlobIndex) -> Result<Arc<dyn RandomAccessFile>> {
        let end = place.offset.saturating_add(place.size);
        match &*self.reader.load() {
            Some(open) if end <= open.len() => Ok(Arc::clone(open)),
            _ => {
                let open = self.fs.open_random(&self.path)?;
                self.reader.store(Some(Arc::new(Arc::clone(&open))));
                Ok(open)
            }
        }
    }
}

/// A file that takes records.
pub(super) struct Writer {
    pub file: Arc<BlobFile>,
    writer: BufferedWriter,
    blobs: u64,
    /// It has bytes that are not durable.
    pub dirty: bool,
}

impl Writer {
    /// Creates the file of that number. Its header and its name are durable.
    ///
    /// # Errors
    /// I/O.
    pub fn create(
        fs: &Arc<dyn FileSystem>,
        dir: &Path,
        number: FileNumber,
        expire: Option<Expirations>,
    ) -> Result<Self> {
        let file = BlobFile::new(fs, dir, number, expire);
        let created = fs.create(&file.path, &FileOptions::default())?;
        let options =
            WriterOptions { bytes_per_sync: BYTES_PER_SYNC, ..WriterOptions::new(BUFFER_BYTES) };
        let mut writer = BufferedWriter::new(created, options);
        let header = FileHeader { family: 0, compression: CompressionType::None };
        header.encode_expiring(expire, writer.buffer_for(HEADER_LEN)?);
        writer.flush()?;
        writer.sync(false)?;
        fs.sync_dir(dir)?;
        Ok(Writer { file: Arc::new(file), writer, blobs: 0, dirty: false })
    }

    /// Appends a record, which readers see after `flush`.
    ///
    /// # Errors
    /// I/O; the writer is then useless.
    pub fn append(&mut self, key: &[u8], value: &[u8], expires: Option<u64>) -> Result<BlobIndex> {
        self.dirty = true;
        let offset = self.writer.len() + (RECORD_HEADER_LEN + key.len()) as u64;
        let room = self.writer.buffer_for(RECORD_HEADER_LEN)?;
        encode_expiring_record_header(key, value, expires.unwrap_or(NEVER), room);
        self.writer.append(key)?;
        self.writer.append_run(value)?;
        self.blobs += 1;
        Ok(BlobIndex {
            file: self.file.number,
            in_table: false,
            offset,
            size: value.len() as u64,
            compression: CompressionType::None,
        })
    }

    /// Hands all records to the system.
    ///
    /// # Errors
    /// As `append`.
    pub fn flush(&mut self) -> Result<()> {
        self.writer.flush()?;
        self.file.bytes.store(self.writer.len(), Ordering::Release);
        Ok(())
    }

    /// Makes all records durable.
    ///
    /// # Errors
    /// As `append`.
    pub fn sync(&mut self, use_fsync: bool) -> Result<()> {
        self.flush()?;
        self.writer.sync(use_fsync)?;
        self.dirty = false;
        Ok(())
    }

    /// Ends the file, durably. Without a footer, if that cannot be written, it is read as well.
    ///
    /// # Errors
    /// I/O; its records may then not be durable.
    pub fn seal(mut self, use_fsync: bool) -> Result<Arc<BlobFile>> {
        self.sync(use_fsync)?;
        let mut footer = Vec::with_capacity(FOOTER_LEN);
        encode_expiring_footer(self.blobs, self.file.expire.unwrap_or_default(), &mut footer);
        let footed = self.writer.append(&footer).and_then(|()| self.flush());
        if footed.is_ok() {
            // The records are durable: an error of the footer's loses none.
            drop(self.writer.sync_and_close(use_fsync));
        }
        Ok(self.file)
    }
}
