//! Reads a file in large steps for a caller that reads it in small ones from front to back.
//!
//! Compaction and long scans read block after block; one system call then serves many blocks. The
//! first reads are as small as requested; after two reads in sequence the step doubles up to its
//! maximum. Where the system reads ahead into a cache of its own, it is told of a step in advance,
//! while a copy of a part of it is in memory here: a compaction reads many files at a time.
//!
//! Thread safety: one owner.

use crate::file_system::RandomAccessFile;
use pumice_base::Result;
use std::sync::Arc;

/// Bytes that are read at once where the system reads ahead.
const COPIED_AT_ONCE: usize = 256 << 10;

/// See the head of this file.
pub struct ReadaheadBuffer {
    file: Arc<dyn RandomAccessFile>,
    buffer: Vec<u8>,
    /// Position in the file of `buffer[0]`.
    start: u64,
    step: usize,
    step_max: usize,
    /// Where a read in sequence would begin.
    expected: u64,
    /// Up to where the system was told.
    told: u64,
    sequential_reads: u32,
}

impl ReadaheadBuffer {
    /// Starts with reads in steps of `step` bytes, which double up to `step_max`. With
    /// `step == step_max` it reads ahead from the first read on.
    pub fn new(file: Arc<dyn RandomAccessFile>, step: usize, step_max: usize) -> Self {
        let eager = step >= step_max;
        ReadaheadBuffer {
            file,
            buffer: Vec::new(),
            start: 0,
            step: step.min(step_max),
            step_max,
            expected: u64::MAX,
            told: 0,
            sequential_reads: if eager { u32::MAX } else { 0 },
        }
    }

    /// The `bytes` bytes from `offset`, fewer only at the end of the file.
    pub fn read_at(&mut self, offset: u64, bytes: usize) -> Result<&[u8]> {
        if !self.holds(offset, bytes) {
            self.fill(offset, bytes)?;
        }
        self.expected = offset.saturating_add(bytes as u64);
        let from = usize::try_from(offset - self.start).unwrap_or(usize::MAX);
        let from = from.min(self.buffer.len());
        let to = from.saturating_add(bytes).min(self.buffer.len());
        Ok(&self.buffer[from..to])
    }

    fn holds(&self, offset: u64, bytes: usize) -> bool {
        let end = self.start + self.buffer.len() as u64;
        offset >= self.start && offset.saturating_add(bytes as u64) <= end
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
            self.tell(offset, end.min(self.file.len()));
            ahead = COPIED_AT_ONCE;
        }
        let rest = usize::try_from(self.file.len().saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = bytes.saturating_add(ahead).min(rest);
        self.keep_tail_from(offset);
        let have = self.buffer.len();
        if wanted > have {
            self.buffer.resize(wanted, 0);
            match self.file.read_at(offset + have as u64, &mut self.buffer[have..]) {
                Ok(n) => self.buffer.truncate(have + n),
                Err(e) => {
                    self.buffer.clear();
                    return Err(e);
                }
            }
        }
        Ok(())
    }

    /// Tells the system of the next step before the last one is used up.
    fn tell(&mut self, offset: u64, end: u64) {
        let begin = if (offset..=end).contains(&self.told) { self.told } else { offset };
        // Half a step at a time, so that it is on its way when it is wanted.
        let is_whole = end == self.file.len() && begin < end;
        if is_whole || end.saturating_sub(begin) >= self.step_max as u64 / 2 {
            self.file.prefetch(begin, end - begin);
            self.told = end;
        }
    }

    /// Keeps what the buffer already has from `offset` on, so that it is not read twice.
    fn keep_tail_from(&mut self, offset: u64) {
        let end = self.start + self.buffer.len() as u64;
        if offset >= self.start && offset < end {
            self.buffer.drain(..(offset - self.start) as usize);
        } else {
            self.buffer.clear();
        }
        self.start = offset;
    }
}
