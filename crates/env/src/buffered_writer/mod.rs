//! The writer between the engine and a file: collects small appends, writes them in one call.
//!
//! Invariants:
//! 1. `len()` bytes were appended; the first `flushed` of them are with the operating system, the
//!    rest is in `buffer`, in order.
//! 2. After the first error nothing more is written or synced: every later call returns that error.
//!    A file whose sync failed has unknown content, and a second sync could report success.
//!
//! Thread safety: one owner. It does not make names durable (`sync_dir` does), and dropping it
//! without `close` discards buffered bytes.

use crate::activity;
use crate::device_scheduler::JobIo;
use crate::file_system::{FileSyncer, WritableFile};
use crate::observed_file::{self, FileTimes};
use crate::perf::{self, IoMetric};
use crate::rate_limiter::{IoKind, IoPriority, RateLimiter, RateLimiterEvents};
use pumice_base::copying;
use pumice_base::file_checksum::{FileChecksum, FileChecksumGenerator};
use pumice_base::narrow::to_usize;
use pumice_base::planted::{self, Bug};
use pumice_base::{Error, Result};
use pumice_port::time::now_nanos;
use std::path::Path;
use std::sync::Arc;

const INITIAL_BUFFER_BYTES: usize = 64 << 10;
/// Appended bytes up to here are copied to the buffer: that costs less than one more write.
const RUN_BYTES_COPIED_MAX: usize = 64 << 10;
/// `range_sync` leaves this much of the tail alone: those pages are still being written to.
const RANGE_SYNC_TAIL_BYTES: u64 = 1 << 20;
const PAGE_BYTES: u64 = 4 << 10;

/// Settings of a [`BufferedWriter`].
#[derive(Clone)]
pub struct WriterOptions {
    /// The buffer grows to this many bytes before it is written; at least 4 KiB.
    pub buffer_bytes_max: usize,
    /// After this many bytes the kernel is told to start writing them to the device; 0 never.
    pub bytes_per_sync: u64,
    /// At each of those points, wait until the ranges of earlier points are written: the file's
    /// dirty bytes stay below about two steps.
    pub strict_bytes_per_sync: bool,
    /// Space is reserved in steps of this many bytes; 0 never.
    pub preallocation_block_bytes: u64,
    /// Writes wait for this limiter, if it limits writes.
    pub rate_limiter: Option<Arc<RateLimiter>>,
    /// The priority of the writes at the limiter.
    pub io_priority: IoPriority,
    /// Receives what the limiter grants.
    pub rate_events: Option<Arc<dyn RateLimiterEvents>>,
    /// Granted portions are multiples of this many bytes (direct I/O); 0 for any.
    pub rate_alignment: u64,
    /// Writes are counted for this job, and wait when its class has to.
    pub job: Option<Arc<JobIo>>,
    /// Told how long writes took.
    pub times: Option<Arc<dyn FileTimes>>,
}

impl WriterOptions {
    /// A buffer of at most that many bytes, and nothing else: no pace, no early write-back.
    pub fn new(buffer_bytes_max: usize) -> Self {
        WriterOptions {
            buffer_bytes_max,
            bytes_per_sync: 0,
            strict_bytes_per_sync: false,
            preallocation_block_bytes: 0,
            rate_limiter: None,
            io_priority: IoPriority::Low,
            rate_events: None,
            rate_alignment: 0,
            job: None,
            times: None,
        }
    }
}

/// What a file still holds of an older use, see [`BufferedWriter::over`].
#[derive(Clone, Copy, Debug)]
pub struct OldContent {
    /// Where it ends.
    pub bytes: u64,
    /// So many zeros after what was written are an end to its readers, and fewer are none unless a
    /// block ends with them.
    pub end_mark_bytes: usize,
    /// Bytes of a block.
    pub block_bytes: u64,
}

/// See the head of this file.
pub struct BufferedWriter {
    file: Box<dyn WritableFile>,
    buffer: Vec<u8>,
    options: WriterOptions,
    flushed: u64,
    /// Up to here `range_sync` was requested.
    range_synced: u64,
    /// Up to here space is reserved.
    preallocated: u64,
    unsynced: bool,
    checksum: Option<Box<dyn FileChecksumGenerator>>,
    /// What the file holds beyond `flushed`, if that is anything.
    old: Option<OldContent>,
    failed: Option<Error>,
}

impl BufferedWriter {
    /// A writer that appends to what `file` already has.
    pub fn new(file: Box<dyn WritableFile>, options: WriterOptions) -> Self {
        let max = options.buffer_bytes_max.max(PAGE_BYTES as usize);
        let flushed = file.len();
        BufferedWriter {
            file,
            buffer: Vec::with_capacity(INITIAL_BUFFER_BYTES.min(max)),
            options: WriterOptions { buffer_bytes_max: max, ..options },
            flushed,
            range_synced: flushed,
            preallocated: flushed,
            unsynced: false,
            checksum: None,
            old: None,
            failed: None,
        }
    }

    /// Writes over what the file holds of an older use. What it ends with after each flush is told
    /// from that: the end mark follows, in the same write. [`BufferedWriter::cut`] ends this.
    #[must_use]
    pub fn over(mut self, old: OldContent) -> Self {
        self.old = (old.bytes > self.flushed).then_some(old);
        self
    }

    /// Flushes, and cuts off what is left of the older use; whether there was anything. Not durable
    /// by itself.
    pub fn cut(&mut self) -> Result<bool> {
        self.flush()?;
        if self.old.take().is_none_or(|old| old.bytes <= self.flushed) {
            return Ok(false);
        }
        let result = self.file.truncate(self.flushed);
        self.preallocated = self.flushed;
        self.unsynced = true;
        self.note(result)?;
        Ok(true)
    }

    /// With a checksum of all bytes from the current position on, see
    /// [`BufferedWriter::end_checksum`]. None for no checksum.
    #[must_use]
    pub fn with_checksum(mut self, generator: Option<Box<dyn FileChecksumGenerator>>) -> Self {
        self.checksum = generator;
        self
    }

    /// Changes when written bytes go to the device, from the current position on.
    pub fn set_bytes_per_sync(&mut self, bytes_per_sync: u64, strict: bool) {
        self.options.bytes_per_sync = bytes_per_sync;
        self.options.strict_bytes_per_sync = strict;
    }

    /// Adds `data`; writes when the buffer is full.
    #[inline]
    pub fn append(&mut self, data: &[u8]) -> Result<()> {
        if data.len() <= self.buffer.capacity() - self.buffer.len() && self.failed.is_none() {
            copying::extend(&mut self.buffer, data);
            return Ok(());
        }
        self.append_slow(data)
    }

    /// Data larger than the whole buffer is written without being copied.
    fn append_slow(&mut self, data: &[u8]) -> Result<()> {
        if data.len() <= self.options.buffer_bytes_max {
            copying::extend(self.buffer_for(data.len())?, data);
            return Ok(());
        }
        self.flush_buffer()?;
        let result = self.write_large(data);
        self.note(result)
    }

    /// As [`BufferedWriter::append`], for data that justifies a separate write: more than 64 KiB
    /// are written without being copied.
    pub fn append_run(&mut self, data: &[u8]) -> Result<()> {
        if data.len() <= RUN_BYTES_COPIED_MAX {
            return self.append(data);
        }
        self.flush_buffer()?;
        let result = self.write_large(data);
        self.note(result)
    }

    /// The buffer, with room for `bytes` more bytes: for callers that put their bytes together in
    /// place. They only add to it.
    #[inline]
    pub fn buffer_for(&mut self, bytes: usize) -> Result<&mut Vec<u8>> {
        if bytes > self.buffer.capacity() - self.buffer.len() || self.failed.is_some() {
            self.make_room(bytes)?;
        }
        Ok(&mut self.buffer)
    }

    /// Grows the buffer, or writes it when it has its full size.
    #[cold]
    fn make_room(&mut self, bytes: usize) -> Result<()> {
        self.check()?;
        let max = self.options.buffer_bytes_max;
        if self.buffer.len() + bytes > max {
            self.flush_buffer()?;
        }
        let needed = self.buffer.len() + bytes;
        let wanted = (self.buffer.capacity() * 2).min(max).max(needed);
        self.buffer.reserve_exact(wanted - self.buffer.len());
        Ok(())
    }

    /// How many bytes are buffered before they are written.
    pub fn buffer_bytes_max(&self) -> usize {
        self.options.buffer_bytes_max
    }

    /// Adds `bytes` zeros.
    pub fn pad(&mut self, bytes: usize) -> Result<()> {
        const ZEROS: [u8; 64] = [0; 64];
        let mut left = bytes;
        while left > 0 {
            let n = left.min(ZEROS.len());
            self.append(&ZEROS[..n])?;
            left -= n;
        }
        Ok(())
    }

    /// Hands everything to the operating system: it survives a crash of the process.
    pub fn flush(&mut self) -> Result<()> {
        self.flush_buffer()?;
        let result = self.file.flush();
        self.note(result)
    }

    /// Flushes and makes content and length durable; `use_fsync` includes all metadata.
    pub fn sync(&mut self, use_fsync: bool) -> Result<()> {
        self.flush()?;
        if self.unsynced {
            let result = self.sync_file(use_fsync);
            self.note(result)?;
            self.unsynced = false;
        }
        Ok(())
    }

    fn sync_file(&mut self, use_fsync: bool) -> Result<()> {
        let _time = perf::time_io(IoMetric::FsyncNanos);
        let result = if use_fsync { self.file.fsync() } else { self.file.sync() };
        if planted::is(Bug::FsyncRetried) && result.is_err() { self.file.sync() } else { result }
    }

    /// A handle with which another task makes the flushed bytes durable; this writer continues.
    pub fn syncer(&self) -> Result<Arc<dyn FileSyncer>> {
        self.check()?;
        self.file.syncer()
    }

    /// Ends the writer with an error that came from elsewhere: a failed [`FileSyncer::sync`].
    pub fn poison(&mut self, error: &Error) {
        self.failed.get_or_insert_with(|| error.clone());
    }

    /// The last `sync` and `close` of a file. Reserved space is given back before the sync: ext4
    /// zeroes the rest of the last block for it, and if that block were dirty after the sync, the
    /// first direct read of the file's end would wait until it is written.
    pub fn sync_and_close(&mut self, use_fsync: bool) -> Result<()> {
        self.flush()?;
        if self.preallocated > self.flushed {
            let result = self.file.truncate(self.flushed);
            self.note(result)?;
            self.preallocated = self.flushed;
            self.unsynced = true;
        }
        self.sync(use_fsync)?;
        self.close()
    }

    /// Flushes and ends the file. Not durable by itself: `sync` first where that is needed.
    pub fn close(&mut self) -> Result<()> {
        self.flush_buffer()?;
        let closed = self.file.close();
        let result = if planted::is(Bug::CloseErrorIgnored) { Ok(()) } else { closed };
        self.note(result)?;
        self.failed = Some(Error::io_message(format!("{}: closed", self.path().display())));
        Ok(())
    }

    /// Bytes appended so far, with what the file had before.
    #[inline]
    pub fn len(&self) -> u64 {
        self.flushed + self.buffer.len() as u64
    }
    /// Whether `len` is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Bytes appended but not yet handed to the operating system.
    pub fn buffered_len(&self) -> usize {
        self.buffer.len()
    }
    /// The file's name, for messages.
    pub fn path(&self) -> &Path {
        self.file.path()
    }
    /// The error that ended this writer.
    pub fn error(&self) -> Option<&Error> {
        self.failed.as_ref()
    }
    /// The checksum of all flushed bytes, which those to come do not change; None without one.
    pub fn end_checksum(&mut self) -> Option<FileChecksum> {
        self.checksum.take().map(FileChecksum::of)
    }
    fn check(&self) -> Result<()> {
        match &self.failed {
            Some(e) => Err(e.clone()),
            None => Ok(()),
        }
    }

    /// Remembers the first error (invariant 2).
    fn note(&mut self, result: Result<()>) -> Result<()> {
        if let Err(e) = &result {
            self.failed = Some(e.clone());
        }
        result
    }

    fn flush_buffer(&mut self) -> Result<()> {
        self.check()?;
        if self.buffer.is_empty() {
            return Ok(());
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let result = match self.old {
            None => self.write_parts::<false>(&buffer, 0),
            Some(_) => self.write_marked(&mut buffer),
        };
        self.buffer = buffer;
        self.buffer.clear();
        self.note(result)
    }

    /// Bytes of the end mark after `bytes` more bytes: all of it while any old content is left,
    /// which then ends with it at the earliest. What would begin a new block there is left out.
    fn end_mark_bytes(&self, bytes: usize) -> usize {
        let Some(old) = &self.old else { return 0 };
        let end = self.flushed + bytes as u64;
        let mark = old.end_mark_bytes as u64;
        match old.bytes.saturating_sub(end) {
            0 => 0,
            left if left >= mark => old.end_mark_bytes,
            _ => to_usize((old.block_bytes - end % old.block_bytes).min(mark)),
        }
    }

    /// Writes what is not copied to the buffer.
    fn write_large(&mut self, data: &[u8]) -> Result<()> {
        match self.old {
            None => self.write_parts::<false>(data, 0),
            Some(_) => self.write_parts::<true>(data, 0),
        }
    }

    /// Writes the buffer over old content, with the end mark that follows it.
    #[cold]
    fn write_marked(&mut self, buffer: &mut Vec<u8>) -> Result<()> {
        let mark = self.end_mark_bytes(buffer.len());
        buffer.resize(buffer.len() + mark, 0);
        self.write_parts::<true>(buffer, mark)
    }

    /// Writes `data` to the file, at the pace of the rate limiter. The last `mark` bytes of it are
    /// an end mark, which the next write replaces; none unless it is `OVER` old content.
    #[inline]
    fn write_parts<const OVER: bool>(&mut self, data: &[u8], mark: usize) -> Result<()> {
        let mark = if OVER { mark } else { 0 };
        let new = &data[..data.len() - mark];
        self.reserve_space(new.len() as u64)?;
        if let Some(checksum) = &mut self.checksum {
            checksum.update(new);
        }
        self.unsynced = true;
        if let Some(job) = &self.options.job {
            job.enter(new.len() as u64);
        }
        let Some(limiter) = self.options.rate_limiter.as_ref().map(Arc::clone) else {
            self.append_part::<OVER>(data, mark)?;
            return self.start_range_sync();
        };
        let mut done = 0;
        while done < new.len() {
            let granted = limiter.request_token(
                (new.len() - done) as u64,
                self.options.rate_alignment,
                self.options.io_priority,
                IoKind::Write,
                self.options.rate_events.as_deref(),
            );
            let granted = usize::try_from(granted).unwrap_or(usize::MAX);
            let end = done + granted.min(new.len() - done);
            // Until the next part is written, the file ends here.
            let end_mark = if end == new.len() { mark } else { 0 };
            self.append_part::<OVER>(&data[done..end + end_mark], end_mark)?;
            done = end;
        }
        self.start_range_sync()
    }

    fn append_part<const OVER: bool>(&mut self, data: &[u8], mark: usize) -> Result<()> {
        let bytes = if OVER { data.len() - mark } else { data.len() };
        let started = observed_file::start(self.options.times.as_deref());
        let time = perf::time_io(IoMetric::WriteNanos);
        match OVER {
            false => self.file.append(data)?,
            true => self.overwrite_part(data, bytes)?,
        }
        drop(time);
        if let (Some(started), Some(times)) = (started, &self.options.times) {
            times.written(activity::current(), now_nanos().saturating_sub(started));
        }
        perf::count_io(IoMetric::BytesWritten, bytes as u64);
        self.flushed += bytes as u64;
        if let Some(job) = &self.options.job {
            job.wrote(bytes as u64);
        }
        Ok(())
    }

    /// Writes over old content; `bytes` of `data` are new, its rest an end mark.
    #[cold]
    fn overwrite_part(&mut self, data: &[u8], bytes: usize) -> Result<()> {
        self.file.overwrite(0, data, bytes as u64)?;
        let end = self.flushed + data.len() as u64;
        if let Some(old) = &mut self.old {
            old.bytes = old.bytes.max(end);
        }
        Ok(())
    }

    #[inline(always)] // Most writes need none.
    fn reserve_space(&mut self, bytes: u64) -> Result<()> {
        let block = self.options.preallocation_block_bytes;
        let end = self.flushed + bytes;
        if block > 0 && end > self.preallocated {
            return self.preallocate(end.div_ceil(block) * block);
        }
        Ok(())
    }

    #[cold]
    fn preallocate(&mut self, end: u64) -> Result<()> {
        self.preallocated = end;
        let _time = perf::time_io(IoMetric::AllocateNanos);
        self.file.preallocate(end)
    }

    /// Spreads the device's work over time, so that the final sync has little left to do.
    fn start_range_sync(&mut self) -> Result<()> {
        let step = self.options.bytes_per_sync;
        if step == 0 {
            return Ok(());
        }
        let end = self.flushed.saturating_sub(RANGE_SYNC_TAIL_BYTES) / PAGE_BYTES * PAGE_BYTES;
        if end > self.range_synced && end - self.range_synced >= step {
            // A strict writer waits for everything it started before, which the system identifies
            // by range.
            let strict = self.options.strict_bytes_per_sync;
            let start = if strict { 0 } else { self.range_synced };
            let _time = perf::time_io(IoMetric::RangeSyncNanos);
            self.file.range_sync(start, end - start, strict)?;
            self.range_synced = end;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
