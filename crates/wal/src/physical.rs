//! Reads a log block by block and returns its physical records, or what is wrong instead.
//!
//! It knows headers, checksums and log numbers, not logical records and not recovery modes.
//! A damaged record costs the rest of its block: its length cannot be trusted either.
//!
//! A file that is still being written has no end: where it stops, there is nothing yet, and reading
//! continues from the same byte once more has been appended. Existing bytes are not read again: see
//! [`crate::LogReader::may_change`].
//!
//! Thread safety: one owner. Nothing read from the file is trusted; all indexing is checked.

use crate::reader_options::LogReaderOptions;
use crate::record::{
    BLOCK_BYTES, FULL, HEADER_BYTES, LAST, RECYCLABLE_HEADER_BYTES, ZERO, is_recyclable,
};
use pumice_base::Result;
use pumice_base::checksum::{crc32c, crc32c_extend, unmask_crc};
use pumice_base::narrow::low_u32;
use pumice_base::planted::{self, Bug};
use pumice_env::SequentialFile;
use std::ops::Range;

/// Where in a header the checksummed bytes begin: at the type.
const CHECKED_FROM: usize = 6;

/// What comes next in a log.
pub(crate) enum Event {
    /// A record with a valid checksum; the payload is at `payload` in the block.
    Record { kind: u8, offset: u64, payload: Range<usize> },
    /// The file ended with a whole record.
    EndOfFile,
    /// A growing file has no further complete record at the moment.
    NotYet,
    /// The file ended with this many bytes, too few for a header.
    TornHeader(usize),
    /// The record belongs to an older use of the file.
    OldRecord,
    /// The rest of the block was zero-filled ahead of writing.
    ZeroFill,
    /// A recyclable record of this many bytes in a log that is not recyclable.
    Misplaced(usize),
    /// The length exceeds the block; this many bytes are dropped.
    BadLength { dropped: usize, at_end: bool },
    /// The checksum does not match; this many bytes are dropped.
    BadChecksum(usize),
}

/// See the head of this file.
pub(crate) struct PhysicalReader {
    file: Box<dyn SequentialFile>,
    verify_checksum: bool,
    /// The file is still being written.
    growing: bool,
    log_number: u64,
    block: Vec<u8>,
    /// Bytes of `block` that the file had when they were read.
    filled: usize,
    /// The unread part of `block`.
    unread: Range<usize>,
    /// The rest of the block was discarded, including what is yet to be written to it in a growing
    /// file.
    dropped: bool,
    /// File offset of the end of `block`.
    block_end: u64,
    at_end: bool,
    /// A recyclable record was seen.
    recycled: bool,
    /// A data record was seen.
    started: bool,
}

impl PhysicalReader {
    pub(crate) fn new(file: Box<dyn SequentialFile>, options: &LogReaderOptions) -> Self {
        PhysicalReader {
            file,
            verify_checksum: options.checksum,
            growing: options.is_growing,
            log_number: options.log_number,
            block: vec![0; BLOCK_BYTES],
            filled: 0,
            unread: 0..0,
            dropped: false,
            block_end: 0,
            at_end: false,
            recycled: false,
            started: false,
        }
    }

    /// Whether the log carries its number in its records.
    pub(crate) fn is_recycled(&self) -> bool {
        self.recycled
    }
    /// Bytes were read that are not a whole record.
    pub(crate) fn has_rest(&self) -> bool {
        !self.unread.is_empty()
    }
    /// Reports that a logical record was returned: the log's kind is settled.
    pub(crate) fn note_started(&mut self) {
        self.started = true;
    }
    /// The file's name, for messages.
    pub(crate) fn file_name(&self) -> String {
        self.file.path().display().to_string()
    }
    /// File offset of the next byte.
    pub(crate) fn offset(&self) -> u64 {
        self.block_end - self.unread.len() as u64
    }
    /// Every byte of the file was returned.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.at_end && self.unread.is_empty()
    }
    /// The bytes of the record returned last.
    pub(crate) fn payload(&self, range: &Range<usize>) -> &[u8] {
        self.block.get(range.clone()).unwrap_or(&[])
    }

    /// The next record or what is wrong instead.
    ///
    /// # Errors
    /// Only when the file cannot be read.
    pub(crate) fn next_event(&mut self) -> Result<Event> {
        loop {
            let Some((stored_crc, length, kind)) = self.header() else {
                match self.load_block()? {
                    Some(end) => return Ok(end),
                    None => continue,
                }
            };
            let recyclable = is_recyclable(kind);
            if recyclable {
                if self.started && !self.recycled {
                    return Ok(Event::Misplaced(self.drop_block()));
                }
                self.recycled = true;
                if !self.has_room() {
                    match self.load_block()? {
                        Some(end) => return Ok(end),
                        None => continue,
                    }
                }
            }
            let header_bytes = if recyclable { RECYCLABLE_HEADER_BYTES } else { HEADER_BYTES };
            if self.may_grow_to(header_bytes + length) {
                match self.load_block()? {
                    Some(end) => return Ok(end),
                    None => continue,
                }
            }
            return Ok(self.judge(stored_crc, length, kind, header_bytes));
        }
    }

    /// Whether a record could begin at the front.
    fn has_room(&self) -> bool {
        self.unread.len() >= RECYCLABLE_HEADER_BYTES
    }

    /// Whether the record at the front, of `bytes` bytes, is incomplete and its rest may still be
    /// written in this block.
    fn may_grow_to(&self, bytes: usize) -> bool {
        let (there, room) = (self.unread.len(), BLOCK_BYTES - self.unread.start.min(BLOCK_BYTES));
        self.growing && self.at_end && bytes > there && bytes <= room
    }

    /// Classifies the record at the front, whose header is complete.
    fn judge(&mut self, stored_crc: u32, length: usize, kind: u8, header_bytes: usize) -> Event {
        let start = self.unread.start;
        let payload = start + header_bytes..start + header_bytes + length;
        if payload.end > self.unread.end {
            if planted::is(Bug::TornBatchAccepted) && self.at_end && self.log_number > 0 {
                let (offset, payload) = (self.offset(), payload.start..self.unread.end);
                self.drop_block();
                return Event::Record { kind, offset, payload };
            }
            let last = self.at_end && !self.growing;
            let torn = last && !self.ends_earlier(stored_crc, payload.start);
            return Event::BadLength { dropped: self.drop_block(), at_end: torn };
        }
        let recyclable = header_bytes == RECYCLABLE_HEADER_BYTES;
        if !recyclable && self.recycled && (FULL..=LAST).contains(&kind) {
            // Bytes inside an older record that look like one: all of this file have a number.
            self.drop_block();
            return Event::OldRecord;
        }
        if recyclable && self.log_number_at(start + HEADER_BYTES) != Some(low_u32(self.log_number))
        {
            self.unread.start = payload.end;
            return Event::OldRecord;
        }
        if kind == ZERO && length == 0 {
            // Except at the end of a block, where no record fits, zeros are an older use's.
            let is_old = self.growing && self.recycled && self.has_room();
            self.drop_block();
            return if is_old { Event::OldRecord } else { Event::ZeroFill };
        }
        let covered = self.block.get(start + CHECKED_FROM..payload.end).unwrap_or(&[]);
        if self.verify_checksum && crc32c(covered) != unmask_crc(stored_crc) {
            return Event::BadChecksum(self.drop_block());
        }
        let offset = self.offset();
        self.unread.start = payload.end;
        Event::Record { kind, offset, payload }
    }

    /// Whether the record at the front is complete if assumed shorter than its stated length: then
    /// the length was damaged. A torn write has its true length in front of bytes that are missing,
    /// and no shorter payload has its checksum. Without this, damage to the last length of a
    /// MANIFEST would pass for a crash while it was written, and the last change of the database be
    /// lost.
    fn ends_earlier(&self, stored_crc: u32, payload_start: usize) -> bool {
        if !self.verify_checksum {
            return false;
        }
        let stored = unmask_crc(stored_crc);
        let fixed = self.unread.start + CHECKED_FROM..payload_start;
        let mut sum = crc32c(self.block.get(fixed).unwrap_or(&[]));
        let rest = self.block.get(payload_start..self.unread.end).unwrap_or(&[]);
        sum == stored
            || rest.iter().any(|byte| {
                sum = crc32c_extend(sum, &[*byte]);
                sum == stored
            })
    }

    /// Stored checksum, payload length and type of the record at the front; `None` when the block's
    /// rest is too short for a header.
    fn header(&self) -> Option<(u32, usize, u8)> {
        let unread = self.block.get(self.unread.clone())?;
        let [c0, c1, c2, c3, l0, l1, kind] = *unread.first_chunk::<HEADER_BYTES>()?;
        let length = usize::from(u16::from_le_bytes([l0, l1]));
        Some((u32::from_le_bytes([c0, c1, c2, c3]), length, kind))
    }

    fn log_number_at(&self, at: usize) -> Option<u32> {
        Some(u32::from_le_bytes(self.block.get(at..at + 4)?.try_into().ok()?))
    }

    /// Discards the rest of the block; returns how much that was.
    fn drop_block(&mut self) -> usize {
        let dropped = self.unread.len();
        self.unread = self.filled..self.filled;
        self.dropped = true;
        dropped
    }

    /// Reads the next block, or what was appended to this one; an event when there is nothing.
    fn load_block(&mut self) -> Result<Option<Event>> {
        if self.at_end && self.growing {
            return Ok(if self.grow()? { None } else { Some(Event::NotYet) });
        }
        if self.at_end {
            let torn = self.drop_block();
            return Ok(Some(if torn > 0 { Event::TornHeader(torn) } else { Event::EndOfFile }));
        }
        (self.filled, self.unread, self.dropped) = (0, 0..0, false);
        self.grow()?;
        Ok(None)
    }

    /// Reads more into the block, up to its end or the file's; returns whether there was anything.
    fn grow(&mut self) -> Result<bool> {
        let bytes = self.file.read(self.block.get_mut(self.filled..).unwrap_or(&mut []))?;
        self.filled += bytes;
        let from = if self.dropped { self.filled } else { self.unread.start };
        self.unread = from..self.filled;
        self.block_end += bytes as u64;
        self.at_end = self.filled < BLOCK_BYTES;
        Ok(bytes > 0)
    }
}
