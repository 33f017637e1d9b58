//! A position in a block, separate from the block so that iterators can own both.
//!
//! Every method takes the block that the cursor was last positioned in; `reset` starts on another
//! block and keeps the buffers. The key is assembled in a reused buffer, the value is a range of
//! the block.
//!
//! Walking back decodes one restart interval forward once and records which bytes of the previous
//! key each key replaced, so that the following steps only restore those: a full backward scan is
//! linear, and it takes memory in proportion to the interval even if keys share nearly all they
//! have.
//!
//! Invariants: (1) while `valid`, `key` and `value` describe the entry at `current`; (2) `damaged`
//! implies not `valid`; (3) `back` is empty or holds consecutive entries, the cursor being on
//! `back[back_at]`; (4) `replaced` up to `back[i].replaced_end` is what the keys up to `back[i]`
//! replaced; its length is not above the interval's.

use pumice_base::narrow::len_u32;
use std::ops::Range;

use pumice_base::InternalKeyComparator;
use pumice_base::key::{InternalKey, TRAILER_LEN};

use crate::read::block::{Block, Entry, GlobalSeqno};
use crate::read::scan::{Landing, find, table_position};

/// Bytes copied in one go when a key suffix is short.
const CHUNK: usize = 32;

/// A reusable key: `bytes[..len]`.
#[derive(Debug, Default)]
struct KeyBuf {
    bytes: Vec<u8>,
    len: usize,
}

impl KeyBuf {
    #[inline]
    fn get(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Keeps `shared` bytes and appends `data[at..at + n]`; `None` if either is out of range.
    #[inline(always)]
    fn extend_shared(&mut self, shared: usize, data: &[u8], at: usize, n: usize) -> Option<()> {
        if shared > self.len {
            return None;
        }
        if n <= CHUNK
            && let Some(from) = data.get(at..).and_then(<[u8]>::first_chunk::<CHUNK>)
            && let Some(to) = self.bytes.get_mut(shared..)
            && let Some(to) = to.first_chunk_mut::<CHUNK>()
        {
            *to = *from;
            self.len = shared + n;
            return Some(());
        }
        self.extend_slowly(shared, data.get(at..at + n)?);
        Some(())
    }

    #[cold]
    #[inline(never)]
    fn extend_slowly(&mut self, shared: usize, suffix: &[u8]) {
        let len = shared + suffix.len();
        if self.bytes.len() < len + CHUNK {
            self.bytes.resize((len + CHUNK).next_power_of_two(), 0);
        }
        self.bytes[shared..len].copy_from_slice(suffix);
        self.len = len;
    }

    /// Adopts an assembled key.
    fn assign(&mut self, key: &[u8]) {
        self.len = 0;
        self.extend_slowly(0, key);
    }

    fn set_trailer(&mut self, value: u64) {
        let at = self.len.saturating_sub(TRAILER_LEN);
        self.bytes[at..self.len].copy_from_slice(&value.to_le_bytes()[..self.len - at]);
    }
}

/// An entry decoded while walking back. A block is smaller than 4 GiB.
#[derive(Clone, Copy, Debug)]
struct BackEntry {
    offset: u32,
    value_at: u32,
    value_end: u32,
    /// Bytes of the key that are those of the key before.
    shared: u32,
    /// Where in `replaced` the other bytes of the key before end.
    replaced_end: u32,
}

/// A position in a block.
#[derive(Debug, Default)]
pub(crate) struct BlockCursor {
    key: KeyBuf,
    valid: bool,
    damaged: bool,
    current: usize,
    next: usize,
    value_at: usize,
    value_end: usize,
    /// Index of the next restart point; kept with separated values only.
    next_restart: usize,
    global: GlobalSeqno,
    /// The bytes that `global` replaced in `key`; the next key may share some of them.
    stored_trailer: u64,
    back: Vec<BackEntry>,
    replaced: Vec<u8>,
    back_at: usize,
    scratch: Vec<u8>,
}

impl BlockCursor {
    /// A cursor for blocks whose trailers `global` rewrites.
    pub fn new(global: GlobalSeqno) -> Self {
        BlockCursor { global, ..Default::default() }
    }

    /// Leaves the block.
    pub fn reset(&mut self) {
        self.valid = false;
        self.damaged = false;
        self.back.clear();
    }

    /// The cursor is on an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.valid
    }

    /// A malformed entry was found since the last `reset`.
    pub fn damaged(&self) -> bool {
        self.damaged
    }

    /// The key. Requires `valid`.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.key.get()
    }

    /// The value. Requires `valid`.
    #[inline]
    pub fn value<'a>(&self, block: &'a Block) -> &'a [u8] {
        &block.data()[self.value_at..self.value_end]
    }

    /// Where in the block the value begins. Requires `valid`.
    pub fn value_offset(&self) -> usize {
        self.value_at
    }

    /// Where in the block the entry lies, and its value. Requires `valid`.
    pub fn place(&self) -> (Range<usize>, Range<usize>) {
        (self.current..self.next, self.value_at..self.value_end)
    }

    /// Moves to the first entry.
    pub fn seek_to_first(&mut self, block: &Block) {
        self.reset();
        self.enter_restart(block, 0);
        self.step(block);
    }

    /// Moves to the last entry.
    pub fn seek_to_last(&mut self, block: &Block) {
        self.reset();
        if block.num_restarts() == 0 || block.keys_end() == 0 {
            return;
        }
        self.load_back(block, block.num_restarts() - 1, block.keys_end());
    }

    /// Moves forward. Requires `valid`.
    #[inline]
    pub fn next(&mut self, block: &Block) {
        if !self.back.is_empty() {
            self.back.clear();
        }
        self.step(block);
    }

    /// Moves backward. Requires `valid`.
    pub fn prev(&mut self, block: &Block) {
        if self.back_at > 0 && !self.back.is_empty() {
            self.step_back();
            return;
        }
        let before = self.current;
        if before == 0 {
            self.reset();
            return;
        }
        let restart = block.restart_at_or_before(before - 1);
        self.load_back(block, restart, before);
    }

    /// Moves to the first entry at or after internal key `target`.
    pub fn seek(&mut self, block: &Block, cmp: &InternalKeyComparator, target: InternalKey<'_>) {
        self.reset();
        if block.keys_end() == 0 {
            return;
        }
        if cmp.user.is_bytewise() && self.seek_without_keys(block, target) {
            return;
        }
        let global = self.global;
        let restart =
            block.seek_restart(|key| global.compare(cmp, InternalKey::new(key), target).is_lt());
        let Some(restart) = restart else { return self.fail() };
        self.enter_restart(block, restart);
        self.step(block);
        while self.valid && cmp.compare(InternalKey::new(self.key.get()), target).is_lt() {
            self.step(block);
        }
    }

    /// The fast walk; `false` if it could not decide.
    #[inline]
    fn seek_without_keys(&mut self, block: &Block, target: InternalKey<'_>) -> bool {
        let position = match find(block, target, self.global) {
            Landing::At(position) => Some(position),
            Landing::Above(number) => table_position(block, number),
            Landing::End => return true,
            Landing::Undecided | Landing::Absent => return false,
            Landing::Damaged => None,
        };
        let Some(position) = position else {
            self.fail();
            return true;
        };
        let mut key = std::mem::take(&mut self.scratch);
        let assembled = position.assemble(block, target, &mut key).is_some();
        if assembled {
            self.key.assign(&key);
            self.settle(position.offset, &position.entry);
        }
        self.scratch = key;
        assembled
    }

    fn fail(&mut self) {
        self.valid = false;
        self.damaged = true;
    }

    /// Prepares `step` to decode the entry at a restart point.
    fn enter_restart(&mut self, block: &Block, restart: usize) {
        self.key.len = 0;
        self.next = block.restart(restart);
        self.value_end = 0;
        self.next_restart = restart;
    }

    /// Decodes the entry at `next`.
    #[inline]
    fn step(&mut self, block: &Block) {
        self.step_noting::<false>(block);
    }

    /// `step`; with `NOTE` the entry also goes to the end of `back`.
    #[inline(always)]
    fn step_noting<const NOTE: bool>(&mut self, block: &Block) {
        let at = self.next;
        if at >= block.keys_end() {
            self.valid = false;
            return;
        }
        let mut at_restart = false;
        if block.separated() {
            at_restart = at == block.restart(self.next_restart);
            self.next_restart += usize::from(at_restart);
        }
        let Some(entry) = block.entry(at, self.value_end, at_restart) else { return self.fail() };
        if !self.global.is_none() && self.key.len >= TRAILER_LEN {
            self.key.set_trailer(self.stored_trailer);
        }
        let (shared, from, n) = (entry.shared, entry.suffix_at, entry.suffix_len);
        if NOTE {
            self.replaced.extend_from_slice(self.key.get().get(shared..).unwrap_or(&[]));
            self.back.push(BackEntry {
                offset: len_u32(at),
                value_at: len_u32(entry.value_at),
                value_end: len_u32(entry.value_end),
                shared: len_u32(shared),
                replaced_end: len_u32(self.replaced.len()),
            });
        }
        if self.key.extend_shared(shared, block.data(), from, n).is_none() {
            return self.fail();
        }
        self.settle(at, &entry);
    }

    /// Makes the entry at `offset`, whose stored key is in `key`, the current one.
    #[inline(always)]
    fn settle(&mut self, offset: usize, entry: &Entry) {
        self.current = offset;
        self.next = entry.next;
        self.value_at = entry.value_at;
        self.value_end = entry.value_end;
        self.valid = true;
        self.show_trailer();
    }

    /// Decodes the entries from restart point `restart` up to offset `end` and moves to the last
    /// of them.
    fn load_back(&mut self, block: &Block, restart: usize, end: usize) {
        self.back.clear();
        self.replaced.clear();
        self.enter_restart(block, restart);
        while self.next < end {
            self.step_noting::<true>(block);
            if !self.valid {
                self.back.clear();
                return self.fail();
            }
        }
        if self.back.is_empty() || self.next != end {
            // A restart point does not coincide with the start of an entry.
            self.back.clear();
            return self.fail();
        }
        self.back_at = self.back.len() - 1;
    }

    /// Moves to the entry before in `back`. Requires that there is one.
    fn step_back(&mut self) {
        let left = self.back[self.back_at];
        self.back_at -= 1;
        let entry = self.back[self.back_at];
        if !self.global.is_none() {
            self.key.set_trailer(self.stored_trailer);
        }
        let replaced = entry.replaced_end as usize..left.replaced_end as usize;
        self.key.extend_slowly(left.shared as usize, &self.replaced[replaced]);
        self.current = entry.offset as usize;
        self.next = left.offset as usize;
        self.value_at = entry.value_at as usize;
        self.value_end = entry.value_end as usize;
        self.show_trailer();
    }

    /// Replaces the stored trailer by the true one.
    #[inline(always)]
    fn show_trailer(&mut self) {
        if !self.global.is_none() {
            self.stored_trailer = InternalKey::new(self.key.get()).trailer();
            self.key.set_trailer(self.global.apply(self.stored_trailer));
        }
    }
}

#[cfg(test)]
mod tests;
