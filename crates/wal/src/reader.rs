//! Reads logical records and decides, by the recovery mode, how to treat damage.
//!
//! | found                              | Tolerate | Absolute | PointInTime | SkipAny |
//! |------------------------------------|----------|----------|-------------|---------|
//! | file ends inside a record          | end      | error    | error       | end     |
//! | bad checksum, length, order, type  | error    | error    | error       | skip    |
//! | record of the file's older use     | end      | end      | end         | skip    |
//! | the same inside a logical record   | end      | error    | error       | skip    |
//! | bad checksum in a recyclable log   | end      | error    | error       | skip    |
//!
//! "Error" ends the log for good: `read_record` returns the same error again. How to react (fail,
//! or stop replaying) is up to the engine. Every skip and error is reported to the reporter.
//!
//! A log that is still being written (`is_growing`) does not end: where it stops, torn or not,
//! `read_record` returns `None` with `LogEnd::NotYet`, and continues there at its next call.
//!
//! Thread safety: one owner. Memory: a record takes its stored size, when compressed up to 64 MiB
//! more.

use crate::compression::RecordDecompressor;
use crate::physical::{Event, PhysicalReader};
use crate::reader_options::LogReaderOptions;
use crate::record::{
    COMPRESSION_ZSTD, FIRST, FULL, IGNORABLE_BIT, LAST, MIDDLE, PREDECESSOR, RECYCLABLE_OFFSET,
    RECYCLABLE_PREDECESSOR, RECYCLABLE_TIMESTAMP_SIZES, SET_COMPRESSION, TIMESTAMP_SIZES,
    WalRecoveryMode, is_recyclable,
};
use pumice_base::planted::{self, Bug};
use pumice_base::{Error, Result};
use pumice_env::SequentialFile;
use std::ops::Range;

/// Called for dropped bytes: how many, and why.
pub type Reporter = Box<dyn FnMut(u64, &Error) + Send>;

/// Where a record was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordInfo {
    /// File offset of its first header.
    pub offset: u64,
    /// File offset after its last byte.
    pub end: u64,
}

/// Why there are no more records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogEnd {
    /// There may be more.
    NotYet,
    /// The file ended after a complete record (or in zeros).
    EndOfFile,
    /// The file ended inside a record, which the mode allows; this many bytes were dropped.
    TornTail(u64),
    /// A record of the file's older use, or what may be one, followed.
    OldRecord,
    /// Damage that the mode does not allow; `read_record` returned the error.
    Corruption,
    /// The file could not be read, or a record in it; `read_record` returned the error.
    ReadError,
}

/// What a log records about the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PredecessorLog {
    /// The log's file number.
    pub log_number: u64,
    /// The log's length in bytes.
    pub bytes: u64,
    /// The last sequence number in it.
    pub last_sequence: u64,
}

/// See the head of this file.
pub struct LogReader {
    physical: PhysicalReader,
    options: LogReaderOptions,
    reporter: Option<Reporter>,
    decompressor: Option<RecordDecompressor>,
    /// Offset of the logical record being assembled.
    assembling: Option<u64>,
    /// Where that record began and its bytes so far, while a growing log lacks the rest.
    unfinished: Option<(u64, Vec<u8>)>,
    /// Whether a logical record was returned.
    started: bool,
    end: LogEnd,
    failed: Option<Error>,
    dropped_bytes: u64,
    last_record_offset: u64,
    timestamp_sizes: Vec<(u32, u16)>,
    predecessor: Option<PredecessorLog>,
}

impl LogReader {
    /// A reader from the start of `file`.
    pub fn new(
        file: Box<dyn SequentialFile>,
        options: LogReaderOptions,
        reporter: Option<Reporter>,
    ) -> Self {
        LogReader {
            physical: PhysicalReader::new(file, &options),
            options,
            reporter,
            decompressor: None,
            assembling: None,
            unfinished: None,
            started: false,
            end: LogEnd::NotYet,
            failed: None,
            dropped_bytes: 0,
            last_record_offset: 0,
            timestamp_sizes: Vec::new(),
            predecessor: None,
        }
    }

    /// Reads the next logical record into `out`; `None` at the end, see [`LogReader::end`], and
    /// where a growing log has no whole record yet.
    ///
    /// # Errors
    /// `Corruption` for damage that the mode does not allow, `IoError` when reading fails,
    /// `NotSupported` in every mode for a compressed record that is too large. The reader stays at
    /// the error.
    pub fn read_record(&mut self, out: &mut Vec<u8>) -> Result<Option<RecordInfo>> {
        out.clear();
        self.assembling = None;
        if let Some(e) = &self.failed {
            return Err(e.clone());
        }
        if let Some((offset, bytes)) = self.unfinished.take() {
            self.assembling = Some(offset);
            out.extend_from_slice(&bytes);
        }
        while self.end == LogEnd::NotYet {
            let event = match self.physical.next_event() {
                Ok(event) => event,
                Err(e) => return Err(self.fail(LogEnd::ReadError, e)),
            };
            match event {
                Event::Record { kind, offset, payload } => {
                    if let Some(info) = self.take(kind, offset, &payload, out)? {
                        return Ok(Some(info));
                    }
                }
                Event::NotYet => {
                    self.unfinished = self.assembling.map(|offset| (offset, std::mem::take(out)));
                    return Ok(None);
                }
                other => self.take_defect(&other, out)?,
            }
        }
        Ok(None)
    }

    /// Records with the log's number were read: the file may be used again once nothing needs it.
    pub fn is_recycled(&self) -> bool {
        self.physical.is_recycled()
    }
    /// Why `read_record` returned `None`.
    pub fn end(&self) -> LogEnd {
        self.end
    }
    /// Bytes that were read and are in no record yet may still be overwritten: they are, or may be,
    /// old content of a recycled file. Only a new reader sees the change.
    pub fn may_change(&self) -> bool {
        self.physical.is_recycled() || self.physical.has_rest()
    }
    /// File offset of the record returned last.
    pub fn last_record_offset(&self) -> u64 {
        self.last_record_offset
    }
    /// Bytes dropped so far, including torn tails.
    pub fn dropped_bytes(&self) -> u64 {
        self.dropped_bytes
    }
    /// Sizes of user timestamps by column family, as far as the log has recorded them.
    pub fn timestamp_sizes(&self) -> &[(u32, u16)] {
        &self.timestamp_sizes
    }
    /// What the log records about the one before it.
    pub fn predecessor(&self) -> Option<PredecessorLog> {
        self.predecessor
    }

    /// Takes a sound physical record; a logical one when that completes it.
    fn take(
        &mut self,
        kind: u8,
        offset: u64,
        payload: &Range<usize>,
        out: &mut Vec<u8>,
    ) -> Result<Option<RecordInfo>> {
        let data_kind = match is_recyclable(kind) && kind <= LAST + RECYCLABLE_OFFSET {
            true => kind - RECYCLABLE_OFFSET,
            false => kind,
        };
        if self.options.is_manifest && kind > LAST {
            return self.take_unknown(kind, payload.len(), out).map(|()| None);
        }
        match data_kind {
            FULL | FIRST => {
                if self.assembling.is_some() && !out.is_empty() {
                    self.dropped(out.len(), "partial record without end")?;
                }
                out.clear();
                self.assembling = Some(offset);
                self.restart_decompressor(payload.len())?;
            }
            MIDDLE | LAST if self.assembling.is_none() => {
                self.dropped(payload.len(), "missing start of fragmented record")?;
                return Ok(None);
            }
            MIDDLE | LAST => {}
            _ => return self.take_control(kind, payload, out).map(|()| None),
        }
        if !self.append(payload, out)? || !matches!(data_kind, FULL | LAST) {
            return Ok(None);
        }
        self.complete(payload.len(), out)
    }

    /// Completes the logical record that is being assembled.
    fn complete(&mut self, last_bytes: usize, out: &mut Vec<u8>) -> Result<Option<RecordInfo>> {
        let Some(offset) = self.assembling.take() else { return Ok(None) };
        if self.decompressor.as_ref().is_some_and(|d| !d.is_complete()) {
            out.clear();
            self.dropped(last_bytes, "compressed record without end")?;
            return Ok(None);
        }
        if planted::is(Bug::LastRecordSkipped)
            && self.physical.is_exhausted()
            && !self.options.is_manifest
        {
            out.clear();
            return Ok(None);
        }
        self.started = true;
        self.physical.note_started();
        self.last_record_offset = offset;
        Ok(Some(RecordInfo { offset, end: self.physical.offset() }))
    }

    fn restart_decompressor(&mut self, bytes: usize) -> Result<()> {
        match self.decompressor.as_mut().map(RecordDecompressor::start) {
            Some(Err(e)) => self.dropped(bytes, e.message()),
            _ => Ok(()),
        }
    }

    /// Adds a fragment's bytes to `out`; false when they were invalid and the record was dropped.
    fn append(&mut self, payload: &Range<usize>, out: &mut Vec<u8>) -> Result<bool> {
        let bytes = self.physical.payload(payload);
        let result = match self.decompressor.as_mut() {
            None => {
                out.extend_from_slice(bytes);
                return Ok(true);
            }
            Some(decompressor) => decompressor.feed(bytes, out),
        };
        let Err(e) = result else { return Ok(true) };
        self.assembling = None;
        out.clear();
        if !e.is_corruption() {
            let e = e.with_context(self.physical.file_name());
            return Err(self.fail(LogEnd::ReadError, e));
        }
        self.dropped(payload.len(), e.message())?;
        Ok(false)
    }

    /// Takes a record that is about the log itself.
    fn take_control(&mut self, kind: u8, payload: &Range<usize>, out: &mut Vec<u8>) -> Result<()> {
        let bytes = self.physical.payload(payload);
        let defect = match kind {
            SET_COMPRESSION if self.decompressor.is_some() => Some("second compression type"),
            SET_COMPRESSION if self.started => Some("compression type is not the first record"),
            SET_COMPRESSION => match bytes.try_into().map(u32::from_le_bytes) {
                Ok(COMPRESSION_ZSTD) => {
                    self.decompressor = Some(RecordDecompressor::new()?);
                    None
                }
                Ok(0) => None,
                _ => Some("unknown compression type"),
            },
            TIMESTAMP_SIZES | RECYCLABLE_TIMESTAMP_SIZES => {
                let sizes = parse_timestamp_sizes(bytes);
                let good = sizes.is_some();
                self.timestamp_sizes.extend(sizes.unwrap_or_default());
                if good { None } else { Some("malformed timestamp sizes") }
            }
            PREDECESSOR | RECYCLABLE_PREDECESSOR => {
                self.predecessor = parse_predecessor(bytes);
                if self.predecessor.is_none() { Some("malformed predecessor log") } else { None }
            }
            _ => return self.take_unknown(kind, payload.len(), out),
        };
        match defect {
            Some(reason) => self.dropped(payload.len(), reason),
            None => Ok(()),
        }
    }

    fn take_unknown(&mut self, kind: u8, bytes: usize, out: &mut Vec<u8>) -> Result<()> {
        let lost = bytes + self.abandon(out);
        if kind & IGNORABLE_BIT != 0 && !self.options.is_manifest {
            return Ok(());
        }
        self.dropped(lost, &format!("unknown record type {kind}"))
    }

    /// Abandons the logical record that is being assembled; returns how many bytes of it there
    /// were.
    fn abandon(&mut self, out: &mut Vec<u8>) -> usize {
        let bytes = if self.assembling.take().is_some() { out.len() } else { 0 };
        out.clear();
        bytes
    }

    /// Handles anything that is not a sound record.
    fn take_defect(&mut self, defect: &Event, out: &mut Vec<u8>) -> Result<()> {
        let mode = self.options.recovery_mode;
        let skips = mode == WalRecoveryMode::SkipAnyCorrupted;
        match *defect {
            Event::Record { .. } | Event::NotYet => Ok(()),
            Event::EndOfFile => self.end_inside(0, "", LogEnd::EndOfFile, out),
            Event::TornHeader(bytes) => {
                self.end_inside(bytes, "truncated header", LogEnd::EndOfFile, out)
            }
            Event::BadLength { dropped, at_end: true } => {
                self.end_inside(dropped, "truncated record body", LogEnd::EndOfFile, out)
            }
            Event::OldRecord if !skips => self.end_inside(0, "", LogEnd::OldRecord, out),
            Event::BadChecksum(bytes) | Event::BadLength { dropped: bytes, .. }
                if self.physical.is_recycled()
                    && mode == WalRecoveryMode::TolerateCorruptedTail =>
            {
                // Old and new bytes meet here: it is indistinguishable from a torn tail.
                self.dropped_bytes += (bytes + self.abandon(out)) as u64;
                self.end = LogEnd::OldRecord;
                Ok(())
            }
            Event::ZeroFill
                if self.physical.is_recycled()
                    && mode == WalRecoveryMode::TolerateCorruptedTail
                    && self.assembling.is_some() =>
            {
                // The writer died between two blocks, of which the second is as it was cleared.
                self.dropped_bytes += self.abandon(out) as u64;
                self.end = LogEnd::OldRecord;
                Ok(())
            }
            Event::BadChecksum(bytes) => self.dropped_inside(bytes, "checksum mismatch", out),
            Event::BadLength { dropped, .. } => {
                self.dropped_inside(dropped, "bad record length", out)
            }
            Event::Misplaced(bytes) => {
                self.dropped_inside(bytes, "recyclable record in a plain log", out)
            }
            Event::OldRecord | Event::ZeroFill => self.dropped_inside(0, "", out),
        }
    }

    /// The log ends with `bytes` torn bytes, in the middle of a logical record, or cleanly.
    fn end_inside(
        &mut self,
        bytes: usize,
        reason: &str,
        well: LogEnd,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let inside = self.assembling.is_some();
        let torn = bytes + self.abandon(out);
        if bytes == 0 && !inside {
            self.end = well;
            return Ok(());
        }
        if self.options.recovery_mode.reports_torn_tail() {
            let reason = if bytes > 0 { reason } else { "error reading trailing data" };
            return self.dropped(torn, reason);
        }
        self.dropped_bytes += torn as u64;
        self.end = if well == LogEnd::OldRecord { well } else { LogEnd::TornTail(torn as u64) };
        Ok(())
    }

    /// Drops `bytes` for `reason` and the logical record they interrupt.
    fn dropped_inside(&mut self, bytes: usize, reason: &str, out: &mut Vec<u8>) -> Result<()> {
        let inside = self.assembling.is_some();
        let lost = self.abandon(out);
        if bytes > 0 {
            self.dropped(bytes, reason)?;
        }
        if inside { self.dropped(lost, "error in middle of record") } else { Ok(()) }
    }

    /// Reports dropped bytes; an error unless the mode skips.
    fn dropped(&mut self, bytes: usize, reason: &str) -> Result<()> {
        self.dropped_bytes += bytes as u64;
        let (file, offset) = (self.physical.file_name(), self.physical.offset());
        let e = Error::corruption(format!("{reason}: {file}, before offset {offset}"));
        if let Some(report) = self.reporter.as_mut() {
            report(bytes as u64, &e);
        }
        if self.options.recovery_mode == WalRecoveryMode::SkipAnyCorrupted {
            return Ok(());
        }
        Err(self.fail(LogEnd::Corruption, e))
    }

    fn fail(&mut self, end: LogEnd, e: Error) -> Error {
        self.end = end;
        self.failed = Some(e.clone());
        e
    }
}

/// `fixed32 column_family ‖ fixed16 size`, repeated; sizes are not 0.
fn parse_timestamp_sizes(bytes: &[u8]) -> Option<Vec<(u32, u16)>> {
    if !bytes.len().is_multiple_of(6) {
        return None;
    }
    let entries = bytes.chunks_exact(6).map(|e| match *e {
        [c0, c1, c2, c3, s0, s1] => {
            let size = u16::from_le_bytes([s0, s1]);
            (size > 0).then_some((u32::from_le_bytes([c0, c1, c2, c3]), size))
        }
        _ => None,
    });
    entries.collect()
}

/// `fixed64 log_number ‖ fixed64 bytes ‖ fixed64 last_sequence`.
fn parse_predecessor(bytes: &[u8]) -> Option<PredecessorLog> {
    let field = |i: usize| Some(u64::from_le_bytes(bytes.get(i * 8..i * 8 + 8)?.try_into().ok()?));
    let (log_number, size, last_sequence) = (field(0)?, field(1)?, field(2)?);
    (bytes.len() == 24).then_some(PredecessorLog { log_number, bytes: size, last_sequence })
}
