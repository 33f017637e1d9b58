//! Decides whether the end of a MANIFEST is an append that a power loss tore, or damage.
//!
//! A MANIFEST is synced after every change, so a crash may tear only the last change. Each sector
//! of a torn append is written or not; one that is not reads as zeros, or the file ends before it.
//! So the bytes after the last complete change are a torn append if
//!
//! 1. the file ends inside a record, or a *lost piece* explains each record that is not sound: a
//!    sector (its part in these bytes) that is all zeros, or a run of zeros up to the end;
//! 2. a lost piece of a few bytes was not legitimately zero: no single damaged byte outside of it
//!    explains the record;
//! 3. no sound record of another change follows. Several records form one change only as members of
//!    one atomic group, whose countdown they carry.
//!
//! Whether the state before it is complete is the caller's question. What the rules cannot detect:
//! a medium that turns a whole synced sector of the last change into zeros; and, if a group follows
//! a change none of whose records is sound, whether the two are one group.
//!
//! Takes time proportional to the bytes, whatever they are: a record that may begin anywhere in a
//! block is searched for with `range_crc`, and at most a few records miss so few bytes that all
//! their lengths are tried.
//!
//! Thread safety: pure functions. Nothing in the bytes is trusted; all indexing is checked.

use crate::range_crc::{RangeCrc, shift_table};
use crate::record::{BLOCK_BYTES, FIRST, FULL, HEADER_BYTES, LAST, MIDDLE};
use pumice_base::checksum::{crc32c, crc32c_extend, mask_crc, unmask_crc};
use pumice_base::narrow::{len_u32, to_usize};
use std::cell::Cell;
use std::ops::Range;

/// Devices write this much at once; pages and larger sectors are multiples of it.
const SECTOR_BYTES: usize = 512;
/// This many zeros cannot be part of the written data.
const LOST_BYTES_SURE: usize = 8;

/// A logical record's place in its change: the members of the atomic group that follow it; `None`
/// if it is a change by itself.
pub type GroupCountdown<'a> = &'a dyn Fn(&[u8]) -> Option<u32>;

/// Whether `tail`, which starts at file offset `offset` right after the last complete change and
/// reaches to the end of the file, is what a power loss left of one append.
///
/// # Errors
/// The reason why it is not.
pub fn is_torn_append(
    tail: &[u8],
    offset: u64,
    countdown: GroupCountdown<'_>,
) -> Result<(), &'static str> {
    judge(tail, offset, countdown).0
}

/// As [`is_torn_append`]; also returns how many bytes were examined, including those of sums and
/// pieces.
pub(crate) fn judge(
    tail: &[u8],
    offset: u64,
    countdown: GroupCountdown<'_>,
) -> (Result<(), &'static str>, u64) {
    let zeros = tail.iter().rev().take_while(|byte| **byte == 0).count();
    let mut scan = Scan {
        tail,
        zeros_from: tail.len() - zeros,
        phase: to_usize(offset % BLOCK_BYTES as u64),
        at: 0,
        countdown,
        assembling: None,
        members_left: None,
        block: 0..0,
        sums: RangeCrc::new(),
        looked_at: Cell::new(zeros as u64),
    };
    let mut answer = Ok(());
    while answer.is_ok() && scan.at < tail.len() {
        answer = scan.step();
    }
    (answer, scan.looked_at.get())
}

struct Scan<'a> {
    tail: &'a [u8],
    /// From here on there are only zeros.
    zeros_from: usize,
    /// Offset of `tail` in its block; blocks hold whole sectors.
    phase: usize,
    /// Everything before it was examined.
    at: usize,
    countdown: GroupCountdown<'a>,
    /// The logical record whose beginning was sound.
    assembling: Option<Vec<u8>>,
    /// The last sound member of the group announced this many more.
    members_left: Option<u32>,
    /// The part of the tail that `sums` covers: from where records were last searched for, to the
    /// end of that block.
    block: Range<usize>,
    sums: RangeCrc,
    /// Bytes.
    looked_at: Cell<u64>,
}

/// A header and where its record lies in the tail.
struct Header {
    stored_crc: u32,
    kind: u8,
    at: usize,
    payload: usize,
    /// After the last byte, which may lie beyond the tail.
    end: usize,
}

impl Scan<'_> {
    /// Examines one physical record, or the bytes in its place.
    fn step(&mut self) -> Result<(), &'static str> {
        let block_end = self.at + BLOCK_BYTES - (self.phase + self.at) % BLOCK_BYTES;
        if self.at >= self.zeros_from {
            self.at = self.tail.len();
            return Ok(());
        }
        if block_end - self.at < HEADER_BYTES {
            self.at = block_end;
            return Ok(());
        }
        let Some(header) = self.header_at(self.at) else {
            self.at = self.tail.len(); // The file ends inside a header.
            return Ok(());
        };
        if self.is_sound(&header) {
            return self.take(&header);
        }
        self.assembling = None;
        if self.members_left == Some(0) {
            return Err("it follows the end of the change");
        }
        self.at = self.behind_unsound(&header, block_end)?;
        Ok(())
    }

    /// Where to continue after the record at `at`, which is not sound.
    fn behind_unsound(&mut self, header: &Header, block_end: usize) -> Result<usize, &'static str> {
        if let Some(piece) = self.lost_piece(self.at..self.at + HEADER_BYTES) {
            self.check_piece(&piece, header)?;
            // The length is unknown: the next sound record comes somewhere after the piece.
            return Ok(self.next_sound(piece.end, block_end));
        }
        if !(FULL..=LAST).contains(&header.kind) || header.end > block_end {
            return Err("a complete header is invalid");
        }
        if header.end > self.tail.len() {
            return match self.ends_earlier(header) {
                true => Err("its length is damaged"),
                false => Ok(self.tail.len()),
            };
        }
        let piece = self.lost_piece(self.at..header.end).ok_or("none of its sectors is lost")?;
        self.check_piece(&piece, header)?;
        Ok(header.end)
    }

    /// A few zeros may have been written as such: then something else is wrong with the record.
    fn check_piece(&self, piece: &Range<usize>, header: &Header) -> Result<(), &'static str> {
        if piece.len() >= LOST_BYTES_SURE {
            return Ok(());
        }
        let mut places = self.single_bytes(header);
        places.sort_unstable_by_key(|place| !piece.contains(place));
        match places.first() {
            Some(place) if !piece.contains(place) => Err("a single damaged byte explains it"),
            _ => Ok(()),
        }
    }

    fn bytes(&self, range: Range<usize>) -> &[u8] {
        self.tail.get(range).unwrap_or(&[])
    }

    fn header_at(&self, at: usize) -> Option<Header> {
        let [c0, c1, c2, c3, l0, l1, kind] = *self.tail.get(at..)?.first_chunk::<HEADER_BYTES>()?;
        let payload = at + HEADER_BYTES;
        let end = payload + usize::from(u16::from_le_bytes([l0, l1]));
        Some(Header { stored_crc: u32::from_le_bytes([c0, c1, c2, c3]), kind, at, payload, end })
    }

    /// Checksum of the record if it ended at `end`.
    fn crc_up_to(&self, header: &Header, end: usize) -> u32 {
        self.note(end.saturating_sub(header.payload - 1));
        crc32c(self.bytes(header.payload - 1..end))
    }

    fn note(&self, bytes: usize) {
        self.looked_at.set(self.looked_at.get() + bytes as u64);
    }

    /// The record lies where one may lie.
    fn fits(&self, header: &Header) -> bool {
        (FULL..=LAST).contains(&header.kind)
            && header.end <= self.tail.len()
            && (self.phase + header.at) / BLOCK_BYTES == (self.phase + header.end - 1) / BLOCK_BYTES
    }

    fn is_sound(&self, header: &Header) -> bool {
        self.fits(header) && self.crc_up_to(header, header.end) == unmask_crc(header.stored_crc)
    }

    /// Takes a sound record: it may only belong to the change that is torn.
    fn take(&mut self, header: &Header) -> Result<(), &'static str> {
        let payload = self.bytes(header.payload..header.end).to_vec();
        self.at = header.end;
        let whole = match (header.kind, self.assembling.take()) {
            (FULL, _) => payload,
            (FIRST, _) => {
                self.assembling = Some(payload);
                return Ok(());
            }
            (MIDDLE, Some(mut begun)) => {
                begun.extend_from_slice(&payload);
                self.assembling = Some(begun);
                return Ok(());
            }
            (LAST, Some(mut begun)) => {
                begun.extend_from_slice(&payload);
                begun
            }
            // The beginning of this record is lost.
            _ => return Ok(()),
        };
        let Some(left) = (self.countdown)(&whole) else {
            return Err("a sound change follows");
        };
        if self.members_left.is_some_and(|before| left >= before) {
            return Err("a sound change of several parts follows");
        }
        self.members_left = Some(left);
        Ok(())
    }

    /// A lost piece that meets `range`.
    fn lost_piece(&self, range: Range<usize>) -> Option<Range<usize>> {
        let zeros = self.zeros_from..self.tail.len();
        if zeros.len() >= LOST_BYTES_SURE && zeros.start < range.end {
            return Some(zeros);
        }
        let first = (self.phase + range.start) / SECTOR_BYTES;
        let last = (self.phase + range.end.min(self.tail.len())).div_ceil(SECTOR_BYTES);
        let pieces = (first..last).map(|sector| {
            let from = (sector * SECTOR_BYTES).saturating_sub(self.phase);
            from..((sector + 1) * SECTOR_BYTES - self.phase).min(self.tail.len())
        });
        let lost = |piece: &Range<usize>| {
            self.note(piece.len());
            self.bytes(piece.clone()).iter().all(|byte| *byte == 0)
        };
        pieces.filter(lost).max_by_key(Range::len)
    }

    /// Where the next sound record starts, from `from` on in this block; else the block's end.
    fn next_sound(&mut self, from: usize, block_end: usize) -> usize {
        let end = block_end.min(self.tail.len());
        if self.block.end != end || from < self.block.start {
            self.block = from.min(end)..end;
            self.sums.set(&self.tail[self.block.clone()]);
            self.note(self.block.len());
        }
        let start = self.block.start;
        let sound = |at: &usize| {
            self.note(1);
            let Some(header) = self.header_at(*at).filter(|header| self.fits(header)) else {
                return false;
            };
            let sum = self.sums.of(header.payload - 1 - start..header.end - start);
            sum == Some(unmask_crc(header.stored_crc))
        };
        (from..end).find(sound).unwrap_or(end)
    }

    /// Whether the record is complete if assumed shorter than its stated length: then the length
    /// was damaged.
    fn ends_earlier(&self, header: &Header) -> bool {
        let stored = unmask_crc(header.stored_crc);
        let mut sum = self.crc_up_to(header, header.payload);
        self.note(self.tail.len().saturating_sub(header.payload));
        sum == stored
            || self.bytes(header.payload..self.tail.len()).iter().any(|byte| {
                sum = crc32c_extend(sum, &[*byte]);
                sum == stored
            })
    }

    /// Where a change of a single byte makes the record sound.
    fn single_bytes(&self, header: &Header) -> Vec<usize> {
        let mut places = Vec::new();
        let stored = unmask_crc(header.stored_crc);
        let length = header.end - header.payload;
        for byte in 0..256 {
            for (place, other) in [(4, length & 0xff00 | byte), (5, length & 0xff | byte << 8)] {
                let end = header.payload + other;
                if end <= self.tail.len() && self.crc_up_to(header, end) == stored {
                    places.push(header.at + place);
                }
            }
        }
        if header.end > self.tail.len() {
            return places;
        }
        let actual = self.crc_up_to(header, header.end);
        let wrong = (header.stored_crc ^ mask_crc(actual)).to_le_bytes();
        if wrong.iter().filter(|byte| **byte != 0).count() == 1 {
            places.extend(wrong.iter().position(|byte| *byte != 0).map(|at| header.at + at));
        }
        let following = bytes_behind_single_error(actual ^ stored, length + 1);
        places.extend(following.map(|following| header.end - 1 - following));
        places
    }
}

/// How many bytes follow the one in which two runs of `bytes` bytes differ, if they may differ in
/// one byte, given that their checksums differ by `difference`. The checksum is linear: a
/// difference in one byte is that byte, shifted by those that follow it. So this shifts back until
/// it fits into a byte.
fn bytes_behind_single_error(difference: u32, bytes: usize) -> Option<usize> {
    let table = shift_table();
    let mut rest = difference;
    (0..bytes).find(|_| {
        // The top bytes of the table's entries are all different.
        let at = table.iter().position(|entry| entry >> 24 == rest >> 24).unwrap_or(0);
        rest = (rest ^ table[at]) << 8 | len_u32(at);
        rest < 256
    })
}
