//! Reads a file in large steps for a caller that reads it in small ones from front to back.
//!
//! Compaction and long scans read block after block; one system call then serves many blocks. The
//! first reads are as small as requested; after two reads in sequence the step doubles up to its
//! maximum. Where the system reads ahead into its own cache, it is told a step in advance, while a
//! copy of a part of it is in memory here: a compaction reads many files at a time.
//!
//! A file that bypasses the system's cache is read in its own units to where a block of memory
//! begins, so nothing is copied on the way ([`RandomAccessFile::read_unit`]).
//!
//! Invariants: (1) `held` lies in `memory`; (2) unless the file ends there, what is held ends at a
//! multiple of the file's unit.
//!
//! Thread safety: one owner.

use crate::file_system::RandomAccessFile;
use pumice_base::Result;
use pumice_port::os::DIRECT_ALIGNMENT;
use std::ops::Range;
use std::sync::Arc;

/// Bytes that are read at once where the system reads ahead.
const COPIED_AT_ONCE: usize = 256 << 10;

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
}

impl ReadaheadBuffer {
    /// Starts with reads in steps of `step` bytes, which double up to `step_max`. With
    /// `step == step_max` it reads ahead from the first read on.
    pub fn new(file: Arc<dyn RandomAccessFile>, step: usize, step_max: usize) -> Self {
        let eager = step >= step_max;
        ReadaheadBuffer {
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

    /// The `bytes` bytes from `offset`, fewer only at the end of the file.
    pub fn read_at(&mut self, offset: u64, bytes: usize) -> Result<&[u8]> {
        if !self.holds(offset, bytes) {
            self.fill(offset, bytes)?;
        }
        self.expected = offset.saturating_add(bytes as u64);
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
        let sequential = offset == self.expected;
        if self.sequential_reads != u32::MAX {
            self.sequential_reads = if sequential { self.sequential_reads + 1 } else { 0 };
        }
        let mut ahead = if self.sequential_reads >= 2 { self.step } else { 0 };
        if ahead > 0 {
            self.step = (self.step * 2).min(self.step_max);
        }
        if ahead > COPIED_AT_ONCE && self.file.prefetches() {
            let end = offset.saturating_add(bytes as u64).saturating_add(ahead as u64);
            self.hint(offset, end.min(self.file.len()));
            ahead = COPIED_AT_ONCE;
        }
        let most = bytes.max(self.step_max);
        let end = offset.saturating_add(bytes.saturating_add(ahead).min(most) as u64);
        self.load(offset, end.min(self.file.len()))
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
        let is_whole = end == self.file.len() && begin < end;
        if is_whole || end.saturating_sub(begin) >= self.step_max as u64 / 2 {
            self.file.prefetch(begin, end - begin);
            self.hinted = end;
        }
    }
}

#[cfg(test)]
mod tests;
