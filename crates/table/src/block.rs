//! A decoded entry block (format spec section 2.3) and the search for a restart point in it.
//!
//! ```text
//! keys section ‖ [values section] ‖ restarts ‖ [hash index] ‖ [values offset] ‖ packed word
//! ```
//!
//! Decoding checks the layout once: the restart array lies inside the block, restart offsets are
//! strictly ascending, the first is 0 and all are inside the keys section. Entries are checked
//! when they are walked over; every access to block bytes is bounds-checked, so a damaged block
//! yields an error or wrong entries, never a panic.
//!
//! For keys that order as bytes a side array holds, for every restart point, eight bytes of its
//! user key behind the prefix common to all restart keys; the search touches the block's bytes
//! only where those words tie.
//!
//! Immutable after construction, so shared freely between threads. The hash index is skipped.

use std::cmp::Ordering;

use pumice_base::InternalKeyComparator;
use pumice_base::coding::{get_fixed16, get_fixed32, get_varint32};
use pumice_base::dbformat::TRAILER_LEN;

use crate::prefix::{common_prefix, prefix_word};

const RESTARTS_MASK: u32 = (1 << 28) - 1;
const SEPARATED_VALUES: u32 = 1 << 28;
/// Bit 29 only tells that keys are evenly spread.
const RESERVED: u32 = 1 << 30;
const HASH_INDEX: u32 = 1 << 31;

/// What the keys of a block are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyForm {
    /// Strings of meta blocks.
    Raw,
    /// Internal keys in an order of the user's.
    Internal,
    /// Internal keys whose user keys order as bytes: the side array is built.
    InternalBytewise,
}

/// Header of an entry and where its parts lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Key bytes taken from the previous key.
    pub shared: usize,
    /// Where the other key bytes begin.
    pub suffix_at: usize,
    /// How many they are.
    pub suffix_len: usize,
    /// Where the value begins.
    pub value_at: usize,
    /// Where it ends.
    pub value_end: usize,
    /// Offset of the next entry.
    pub next: usize,
}

/// A block of entries.
#[derive(Debug, Default)]
pub struct Block {
    data: Vec<u8>,
    /// End of the keys section; without separated values, of the entries.
    keys_end: usize,
    restarts_at: usize,
    num_restarts: usize,
    /// Start of the values section, 0 if values follow their keys.
    values_at: usize,
    separated: bool,
    min_key_len: usize,
    /// Bytes that the user keys of all restart points begin with.
    common_len: usize,
    /// `prefix_word` of the rest of each restart key; empty if not built.
    words: Vec<u64>,
}

impl Block {
    /// Decodes `data`; the error says what is wrong with the layout.
    pub(crate) fn decode(data: Vec<u8>, form: KeyForm) -> Result<Block, &'static str> {
        let mut block = Block { data, ..Default::default() };
        block.decode_layout()?;
        block.check_restarts()?;
        if form != KeyForm::Raw {
            block.min_key_len = TRAILER_LEN;
        }
        if form == KeyForm::InternalBytewise && block.num_restarts > 1 {
            block.build_words()?;
        }
        Ok(block)
    }

    /// Bytes without structure, such as a filter; has no entries.
    pub(crate) fn opaque(data: Vec<u8>) -> Block {
        Block { data, ..Default::default() }
    }

    fn decode_layout(&mut self) -> Result<(), &'static str> {
        let data = self.data.as_slice();
        let fixed32_before = |end: usize| -> Option<u32> {
            get_fixed32(data.get(end.checked_sub(4)?..end)?)
        };
        let mut end = data.len();
        let packed = fixed32_before(end).ok_or("block too short")?;
        end -= 4;
        if packed & RESERVED != 0 {
            return Err("reserved bit of the block footer is set");
        }
        self.separated = packed & SEPARATED_VALUES != 0;
        let mut values_at = 0;
        if self.separated {
            values_at = fixed32_before(end).ok_or("no values offset")? as usize;
            end -= 4;
        }
        if packed & HASH_INDEX != 0 {
            let at = end.checked_sub(2).ok_or("no hash index")?;
            let buckets = get_fixed16(&data[at..]).ok_or("no hash index")? as usize;
            end = at.checked_sub(buckets).ok_or("hash index too large")?;
        }
        self.num_restarts = (packed & RESTARTS_MASK) as usize;
        self.restarts_at =
            end.checked_sub(4 * self.num_restarts).ok_or("restart array too large")?;
        self.keys_end = if self.separated { values_at } else { self.restarts_at };
        self.values_at = values_at;
        if self.keys_end > self.restarts_at {
            return Err("values section outside the block");
        }
        Ok(())
    }

    fn check_restarts(&self) -> Result<(), &'static str> {
        if self.num_restarts == 0 || self.restart(0) != 0 {
            return Err("no restart point at the start");
        }
        let mut previous = 0;
        for i in 1..self.num_restarts {
            let at = self.restart(i);
            if at <= previous || at >= self.keys_end {
                return Err("restart points out of order");
            }
            previous = at;
        }
        Ok(())
    }

    fn build_words(&mut self) -> Result<(), &'static str> {
        const BAD: &str = "bad key at a restart point";
        let last = self.restart_user_key(self.num_restarts - 1).ok_or(BAD)?;
        let common = common_prefix(self.restart_user_key(0).ok_or(BAD)?, last);
        let mut words = Vec::with_capacity(self.num_restarts);
        for i in 0..self.num_restarts {
            let key = self.restart_user_key(i).ok_or(BAD)?;
            words.push(prefix_word(key.get(common..).ok_or(BAD)?));
        }
        self.common_len = common;
        self.words = words;
        Ok(())
    }

    /// The block's bytes.
    #[inline]
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// Memory held, for the cache's charge.
    pub fn memory_bytes(&self) -> usize {
        self.data.capacity() + 8 * self.words.capacity() + size_of::<Self>()
    }

    /// Offset behind the last entry.
    #[inline]
    pub(crate) fn keys_end(&self) -> usize {
        self.keys_end
    }

    /// Values are stored apart from keys, so that walking needs to know restart points.
    #[inline]
    pub(crate) fn separated(&self) -> bool {
        self.separated
    }

    /// The side array exists or is not needed, and values follow keys.
    #[inline]
    pub(crate) fn fast_scan(&self) -> bool {
        !self.separated
    }

    #[inline]
    pub(crate) fn num_restarts(&self) -> usize {
        self.num_restarts
    }

    /// Offset of restart point `i`, `keys_end` behind the last.
    #[inline]
    pub(crate) fn restart(&self, i: usize) -> usize {
        if i >= self.num_restarts {
            return self.keys_end;
        }
        let at = self.restarts_at + 4 * i;
        self.data.get(at..).and_then(get_fixed32).map_or(self.keys_end, |v| v as usize)
    }

    /// Index of the last restart point at or before `offset`.
    pub(crate) fn restart_at_or_before(&self, offset: usize) -> usize {
        let (mut lo, mut hi) = (0, self.num_restarts);
        while hi - lo > 1 {
            let mid = lo + (hi - lo) / 2;
            if self.restart(mid) <= offset { lo = mid } else { hi = mid }
        }
        lo
    }

    /// The entry at `offset`. `value_from` is where the previous entry's value ended; `restart`
    /// says that the entry is at a restart point. Both matter with separated values only.
    #[inline(always)]
    pub(crate) fn entry(&self, offset: usize, value_from: usize, restart: bool) -> Option<Entry> {
        let data = self.data.as_slice();
        let head: &[u8; 3] = data.get(offset..)?.first_chunk()?;
        let (shared, suffix_len, value_len, mut at);
        if (head[0] | head[1] | head[2]) < 0x80 {
            (shared, suffix_len) = (head[0] as usize, head[1] as usize);
            (value_len, at) = (head[2] as usize, offset + 3);
        } else {
            (shared, suffix_len, value_len, at) = long_header(data, offset)?;
        }
        if !self.separated {
            let value_at = at + suffix_len;
            let next = value_at + value_len;
            if next > self.keys_end || shared + suffix_len < self.min_key_len {
                return None;
            }
            let (suffix_at, value_end) = (at, next);
            return Some(Entry { shared, suffix_at, suffix_len, value_at, value_end, next });
        }
        let mut value_at = value_from;
        if restart {
            let (offset_in_values, n) = get_varint32(data.get(at..)?)?;
            value_at = self.values_at + offset_in_values as usize;
            at += n;
        }
        let (next, value_end) = (at + suffix_len, value_at + value_len);
        let inside = next <= self.keys_end && value_end <= self.restarts_at;
        if !inside || shared + suffix_len < self.min_key_len {
            return None;
        }
        Some(Entry { shared, suffix_at: at, suffix_len, value_at, value_end, next })
    }

    /// The key at restart point `i`.
    #[inline]
    pub(crate) fn restart_key(&self, i: usize) -> Option<&[u8]> {
        let entry = self.entry(self.restart(i), self.values_at, true)?;
        if entry.shared != 0 {
            return None;
        }
        self.data.get(entry.suffix_at..entry.suffix_at + entry.suffix_len)
    }

    fn restart_user_key(&self, i: usize) -> Option<&[u8]> {
        let key = self.restart_key(i)?;
        key.get(..key.len().checked_sub(TRAILER_LEN)?)
    }

    /// The restart point to begin a forward walk to `target` at: the last whose key is less, or 0.
    /// `is_less` compares a restart key with the target. `None` if the block is damaged.
    pub(crate) fn seek_restart(&self, mut is_less: impl FnMut(&[u8]) -> bool) -> Option<usize> {
        self.seek_restart_within(0, self.num_restarts, &mut is_less)
    }

    fn seek_restart_within(
        &self,
        mut lo: usize,
        mut hi: usize,
        is_less: &mut impl FnMut(&[u8]) -> bool,
    ) -> Option<usize> {
        while lo < hi {
            let mid = lo + (hi - lo) / 2;
            if is_less(self.restart_key(mid)?) { lo = mid + 1 } else { hi = mid }
        }
        Some(lo.saturating_sub(1))
    }

    /// `seek_restart` for bytewise order, through the side array.
    #[inline]
    pub(crate) fn seek_restart_bytewise(
        &self,
        user_target: &[u8],
        mut is_less: impl FnMut(&[u8]) -> bool,
    ) -> Option<usize> {
        if self.words.is_empty() {
            return if self.num_restarts > 1 { self.seek_restart(is_less) } else { Some(0) };
        }
        if self.common_len > 0 {
            let common = self.restart_user_key(0)?.get(..self.common_len)?;
            let head = &user_target[..user_target.len().min(self.common_len)];
            match head.cmp(common) {
                Ordering::Less => return Some(0),
                Ordering::Greater => return Some(self.num_restarts - 1),
                Ordering::Equal => {}
            }
        }
        let word = prefix_word(&user_target[self.common_len..]);
        let lo = count_below(&self.words, word);
        let ties = self.words[lo..].iter().take_while(|&&w| w == word).count();
        if ties == 0 {
            return Some(lo.saturating_sub(1));
        }
        self.seek_restart_within(lo, lo + ties, &mut is_less)
    }
}

/// Words of an ascending array that are below `word`.
#[inline]
pub(crate) fn count_below(words: &[u64], word: u64) -> usize {
    if words.len() <= 16 {
        return words.iter().map(|&w| usize::from(w < word)).sum();
    }
    words.partition_point(|&w| w < word)
}

#[cold]
#[inline(never)]
fn long_header(data: &[u8], offset: usize) -> Option<(usize, usize, usize, usize)> {
    let mut src = pumice_base::coding::Decoder::new(data.get(offset..)?);
    let (shared, suffix_len, value_len) = (src.varint32()?, src.varint32()?, src.varint32()?);
    let at = data.len() - src.rest().len();
    Some((shared as usize, suffix_len as usize, value_len as usize, at))
}

/// Sequence numbers of an ingested file: all entries take one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct GlobalSeqno(Option<u64>);

impl GlobalSeqno {
    pub fn new(seqno: Option<u64>) -> Self {
        GlobalSeqno(seqno)
    }

    /// The trailer that a stored one stands for.
    #[inline]
    pub fn apply(self, stored: u64) -> u64 {
        match self.0 {
            None => stored,
            Some(seqno) => (seqno << 8) | (stored & 0xff),
        }
    }

    /// All trailers stay as stored.
    #[inline]
    pub fn is_none(self) -> bool {
        self.0.is_none()
    }

    /// Compares a stored internal key, at least 8 bytes, with a true one.
    #[inline]
    pub fn compare(self, cmp: &InternalKeyComparator, stored: &[u8], target: &[u8]) -> Ordering {
        use pumice_base::dbformat::{trailer, user_key};
        match cmp.user.compare(user_key(stored), user_key(target)) {
            Ordering::Equal => trailer(target).cmp(&self.apply(trailer(stored))),
            other => other,
        }
    }
}
