//! Reads a file in large steps for a caller that reads it in small ones from front to back.
//!
//! Compaction and long scans read block after block; one system call then serves many blocks. The
//! first reads are as small as requested; after two reads in sequence the step doubles up to its
//! maximum. Where the system reads ahead into its own cache, it is told a step in advance, while a
//! copy of a part of it is in memory here: a compaction reads many files at a time.
//!
//! A file that bypasses the system's cache is read in its own units to where a block of memory
//! begins, so nothing is copied on the way ([`RandomAccessFile::read_unit`]). Nobody reads ahead
//! for it, so a step is read in two halves where the owner allows it
//! ([`ReadaheadBuffer::overlap`]): the second one is in flight (`flight`) while the first is used,
//! and becomes the first. What is read ahead is never more than the step.
//! Where a read cannot be put in flight, steps are whole from then on.
//!
//! If a read that goes beyond what is needed fails, what is needed is read again alone: an error
//! comes with the bytes that it concerns, or not at all.
//!
//! Invariants: (1) `held` lies in `memory`; (2) unless the file ends there, what is held ends at a
//! multiple of the file's unit; (3) a read in flight begins where what is held ends.
//!
//! Thread safety: one owner. Not here: reading ahead towards the front of the file; who goes there
//! has nothing read ahead.

mod flight;

use crate::file_system::RandomAccessFile;
use flight::Flight;
use pumice_base::Result;
use pumice_port::os::DIRECT_ALIGNMENT;
use std::ops::Range;
use std::sync::Arc;

/// Bytes that are read at once where the system reads ahead.
const COPIED_AT_ONCE: usize = 256 << 10;
/// Steps are read in halves from this size on: handing over the read of a smaller one costs as much
/// as it saves.
const HALVED_FROM: usize = 32 << 10;

/// See the head of this file.
pub struct ReadaheadBuffer {
    file: Arc<dyn RandomAccessFile>,
    memory: Vec<u8>,
    /// The part of `memory` that holds bytes of the file.
    held: Range<usize>,
    /// Position in the file of the first of them.
    start: u64,
    step: usize,
    step_max: usize,
    /// Where a read in sequence would begin.
    expected: u64,
    /// End of the range hinted to the system.
    hinted: u64,
    sequential_reads: u32,
    /// Nothing is read ahead beyond this position.
    limit: u64,
    /// Steps are read in halves.
    overlaps: bool,
    /// The next half may be in flight while what is held is used.
    flies: bool,
    /// What is to be in flight, in bytes.
    beyond: usize,
    in_flight: Option<Flight>,
    /// Memory of an earlier read, for the next one in flight.
    spare: Vec<u8>,
    /// The longest read: so much of what is held may have to be put before the bytes in flight.
    longest: usize,
}

impl ReadaheadBuffer {
    /// Starts with reads in steps of `step` bytes, which double up to `step_max`. With
    /// `step == step_max` it reads ahead from the first read on.
    pub fn new(file: Arc<dyn RandomAccessFile>, step: usize, step_max: usize) -> Self {
        let eager = step >= step_max;
        ReadaheadBuffer {
            limit: file.len(),
            overlaps: false,
            flies: true,
            beyond: 0,
            in_flight: None,
            spare: Vec::new(),
            longest: 0,
            file,
            memory: Vec::new(),
            held: 0..0,
            start: 0,
            step: step.min(step_max),
            step_max,
            expected: u64::MAX,
            hinted: 0,
            sequential_reads: if eager { u32::MAX } else { 0 },
        }
    }

    /// From now on nothing is read ahead at or after position `end`.
    pub fn limit(&mut self, end: u64) {
        self.limit = end.min(self.file.len());
    }

    /// From now on steps are read in halves, if the file gains from that.
    pub fn overlap(&mut self) {
        self.overlaps = !self.file.prefetches() && self.file.needs_little_stack();
    }

    /// Whether a second half may be put in flight by the reads that follow; true at first.
    pub fn fly(&mut self, flies: bool) {
        self.flies = flies;
    }

    /// Whether a read there would go to the file, for nothing more than itself.
    pub fn reads_alone(&self, offset: u64, bytes: usize) -> bool {
        let in_sequence = match self.sequential_reads {
            u32::MAX => true,
            reads => reads >= 1 && offset == self.expected,
        };
        let reads_ahead = in_sequence && self.step > 0;
        !reads_ahead && !self.holds(offset, bytes)
    }

    /// The `bytes` bytes from `offset`, fewer only at the end of the file.
    ///
    /// # Errors
    /// Of reading the file; then nothing is held.
    pub fn read_at(&mut self, offset: u64, bytes: usize) -> Result<&[u8]> {
        self.longest = self.longest.max(bytes);
        if !self.holds(offset, bytes) {
            self.fill(offset, bytes)?;
        }
        self.expected = offset.saturating_add(bytes as u64);
        if self.beyond > 0 && self.flies && self.in_flight.is_none() {
            self.begin_flight();
        }
        let held = &self.memory[self.held.clone()];
        let from = usize::try_from(offset - self.start).unwrap_or(usize::MAX).min(held.len());
        let to = from.saturating_add(bytes).min(held.len());
        Ok(&held[from..to])
    }

    fn end(&self) -> u64 {
        self.start + self.held.len() as u64
    }

    fn holds(&self, offset: u64, bytes: usize) -> bool {
        offset >= self.start && offset.saturating_add(bytes as u64) <= self.end()
    }

    fn fill(&mut self, offset: u64, bytes: usize) -> Result<()> {
        let mut ahead = self.step_for(offset);
        if offset.saturating_add(bytes as u64) == self.start && !self.held.is_empty() {
            // It goes backwards.
            ahead = 0;
        }
        if ahead > COPIED_AT_ONCE && self.file.prefetches() {
            let end = offset.saturating_add(bytes as u64).saturating_add(ahead as u64);
            self.hint(offset, end.min(self.limit));
            ahead = COPIED_AT_ONCE;
        }
        self.beyond = 0;
        // A half has to be more than what is read anyway.
        if self.overlaps && ahead >= HALVED_FROM.max(bytes.saturating_mul(2)) {
            self.beyond = ahead / 2;
            ahead -= self.beyond;
        }
        if let Some(flight) = self.in_flight.take() {
            match self.take_over(flight, offset, bytes) {
                true if self.holds(offset, bytes) => return Ok(()),
                true => {}
                false => (ahead, self.beyond) = (0, 0),
            }
        }
        let most = bytes.max(self.step_max);
        let end = offset.saturating_add(bytes.saturating_add(ahead).min(most) as u64);
        let needed = offset.saturating_add(bytes as u64);
        let end = end.min(self.limit.max(needed)).min(self.file.len());
        match self.load(offset, end) {
            Err(_) if end > needed => {
                self.beyond = 0;
                self.load(offset, needed)
            }
            done => done,
        }
    }

    /// How much is read ahead of a read at `offset` that is not held.
    fn step_for(&mut self, offset: u64) -> usize {
        let sequential = offset == self.expected;
        if self.sequential_reads != u32::MAX {
            self.sequential_reads = if sequential { self.sequential_reads + 1 } else { 0 };
        }
        let ahead = if self.sequential_reads >= 2 { self.step } else { 0 };
        if ahead > 0 {
            self.step = (self.step * 2).min(self.step_max);
        }
        ahead
    }

    /// Begins to read what follows what is held.
    #[cold]
    fn begin_flight(&mut self) {
        let unit = self.file.read_unit();
        let start = self.end();
        let left = self.limit.saturating_sub(start);
        let bytes = (self.beyond as u64).min(left).next_multiple_of(unit as u64) as usize;
        // What is held may be short only where the file ends.
        if bytes == 0 || !start.is_multiple_of(unit as u64) {
            return;
        }
        let align = if unit > 1 { DIRECT_ALIGNMENT } else { 1 };
        let before = self.longest.next_multiple_of(align);
        let mut memory = std::mem::take(&mut self.spare);
        let place = |memory: &[u8]| (memory.as_ptr().addr().wrapping_neg() & (align - 1)) + before;
        if place(&memory) + bytes > memory.len() {
            memory = vec![0; before + bytes + (align - 1)];
        }
        let at = place(&memory);
        self.in_flight = Flight::begin(&self.file, (start, bytes), memory, at);
        if self.in_flight.is_none() {
            (self.overlaps, self.beyond) = (false, 0);
        }
    }

    /// Makes the bytes of a read in flight what is held, with what is held of those from `offset`
    /// on. False if the read has failed; true also if it is of no use for `bytes` bytes there.
    fn take_over(&mut self, flight: Flight, offset: u64, bytes: usize) -> bool {
        let needed = offset.saturating_add(bytes as u64);
        let is_held = (self.start..=self.end()).contains(&offset);
        let inside = offset >= flight.start && needed <= flight.end();
        if !is_held && !inside {
            return true;
        }
        let (start, at) = (flight.start, flight.at);
        debug_assert_eq!(start, self.end(), "invariant 3");
        let Some((mut memory, Ok(read))) = flight.land(&*self.file) else { return false };
        let kept = if is_held { (self.end() - offset) as usize } else { 0 };
        let tail = &self.memory[self.held.end - kept..self.held.end];
        match at.checked_sub(kept) {
            Some(from) => {
                memory[from..at].copy_from_slice(tail);
                self.held = from..at + read;
            }
            // A block that is longer than all before it.
            None => {
                memory = [tail, &memory[at..at + read]].concat();
                self.held = 0..memory.len();
            }
        }
        self.spare = std::mem::replace(&mut self.memory, memory);
        self.start = start - kept as u64;
        true
    }

    /// Holds the range from `offset` to `end`, and reads only what it did not hold.
    fn load(&mut self, offset: u64, end: u64) -> Result<()> {
        let unit = self.file.read_unit() as u64;
        let is_held = (self.start..self.end()).contains(&offset);
        let kept = if is_held { (self.end() - offset) as usize } else { 0 };
        let tail = self.held.end - kept..self.held.end;
        let from = if is_held { self.end() } else { offset - offset % unit };
        let bytes = end.saturating_sub(from).next_multiple_of(unit) as usize;
        let align = if unit > 1 { DIRECT_ALIGNMENT } else { 1 };
        let at = self.make_room(tail, bytes, align);
        self.start = offset;
        self.held = at - kept..at;
        if bytes > 0 {
            match self.file.read_at(from, &mut self.memory[at..at + bytes]) {
                Ok(read) => self.held.end = at + read,
                Err(error) => {
                    self.held = 0..0;
                    return Err(error);
                }
            }
            if !is_held {
                // The file may end before the offset.
                self.held.start = (at + (offset - from) as usize).min(self.held.end);
            }
        }
        Ok(())
    }

    /// Moves a part of the memory to just before a multiple of `align` after which `bytes` bytes
    /// have room, and says where that is.
    fn make_room(&mut self, tail: Range<usize>, bytes: usize, align: usize) -> usize {
        let (kept, before) = (tail.len(), tail.len().next_multiple_of(align));
        let place = |memory: &[u8]| (memory.as_ptr().addr().wrapping_neg() & (align - 1)) + before;
        let at = place(&self.memory);
        if at + bytes <= self.memory.len() {
            self.memory.copy_within(tail, at - kept);
            return at;
        }
        // A reader that continues may have a tail that needs one more block.
        let spare = if self.memory.is_empty() { 0 } else { align - 1 };
        let mut memory = vec![0; before + bytes + spare + (align - 1)];
        let at = place(&memory);
        memory[at - kept..at].copy_from_slice(&self.memory[tail]);
        self.memory = memory;
        at
    }

    /// Hints the next step to the system before the last one is used up.
    fn hint(&mut self, offset: u64, end: u64) {
        let begin = if (offset..=end).contains(&self.hinted) { self.hinted } else { offset };
        // Half a step at a time, so that it is already being read when it is needed.
        let is_whole = end == self.limit && begin < end;
        if is_whole || end.saturating_sub(begin) >= self.step_max as u64 / 2 {
            self.file.prefetch(begin, end - begin);
            self.hinted = end;
        }
    }
}

#[cfg(test)]
mod tests;
