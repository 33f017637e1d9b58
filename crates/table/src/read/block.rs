//! A decoded entry block (docs/format/table.md#entry-blocks) and the search for a restart point in
//! it.
//!
//! ```text
//! keys section ‖ [values section] ‖ restarts ‖ [hash index] ‖ [values offset] ‖ packed word
//! ```
//!
//! Decoding checks the layout once: the restart array lies inside the block, restart offsets are
//! strictly ascending, the first is 0 and all are inside the keys section. Entries are checked when
//! they are iterated; every access to block bytes is bounds-checked, so a damaged block yields an
//! error or wrong entries, never a panic.
//!
//! A block that goes into the cache also gets an entry table if its keys order as bytes: one word
//! per entry, four bytes of the user key after the prefix common to all keys, then the entry's
//! offset. A search reads the table, which is contiguous, and then usually one entry; walking a
//! restart interval instead would wait for one cache miss after another.
//!
//! Immutable after construction, so shared freely between threads.

use pumice_base::narrow::{len_u32, low_u8, low_u32};
use std::cmp::Ordering;
use std::mem;

use pumice_base::InternalKeyComparator;
use pumice_base::coding::{get_fixed32, get_varint32};
use pumice_base::hash::hash64;
use pumice_base::key::{InternalKey, TRAILER_LEN};
use pumice_base::planted::{self, Bug};
use pumice_cache::BlockBytes;

use crate::block_footer::{HASH_INDEX, RESERVED, RESTARTS_MASK, SEPARATED_VALUES};
use crate::data_block_hash::{Bucket, Buckets};
use crate::prefix::{common_prefix, prefix_word};

/// Assembled keys that are kept may take this many bytes, or ..
const EXPANDED_BYTES_MAX: usize = 32 << 20;
/// .. this many times those of their block. In a crafted block each of `n` entries can have a key
/// of `n` bytes; no real table comes near that.
const EXPANSION_MAX: usize = 16;

/// The most that the assembled keys of a block of `block_bytes` bytes may take together.
#[inline]
pub(crate) fn expanded_bytes_max(block_bytes: usize) -> usize {
    block_bytes.saturating_mul(EXPANSION_MAX).max(EXPANDED_BYTES_MAX)
}

/// Counts keys that are assembled and kept one by one.
pub(crate) struct Expanded {
    left: usize,
}

impl Expanded {
    /// For blocks whose keys become text, which takes several times as much.
    pub fn as_text() -> Self {
        Expanded { left: EXPANDED_BYTES_MAX / 8 }
    }

    /// For the keys of one block.
    pub fn new(block: &Block) -> Self {
        Expanded { left: expanded_bytes_max(block.data().len()) }
    }

    /// Adds the keys of another block.
    pub fn allow(&mut self, block: &Block) {
        self.left = self.left.saturating_add(EXPANSION_MAX.saturating_mul(block.data().len()));
    }

    /// Counts one more key that is kept.
    ///
    /// # Errors
    /// Together they take too much memory.
    pub fn add(&mut self, key: &[u8]) -> Result<(), &'static str> {
        self.left = self.left.checked_sub(key.len()).ok_or("keys take too much memory")?;
        Ok(())
    }
}

/// The kind of a block's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyForm {
    /// Strings of meta blocks.
    Raw,
    /// Internal keys.
    Internal,
}

/// Header of an entry and the positions of its parts.
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

/// Bytes of the common prefix that are kept with the entry table.
const COMMON_INLINE: usize = 16;
/// Bytes of a key in a word of the entry table.
const WORD_LEN: usize = 4;
/// Words of an entry table that are allocated before they are counted.
const MAX_WORDS_RESERVED: usize = 1 << 10;

/// What is known of the entry table besides its words, `key bytes << 32 | offset`, strictly
/// ascending, which are those of the block's bytes; see the head.
#[derive(Debug, Default)]
struct EntryTable {
    common_len: u32,
    common: [u8; COMMON_INLINE],
}

/// Where a search through the entry table leads.
pub(crate) enum TableHit {
    /// Walk from the entry at this offset. All before it are below the target; its word equals
    /// the target's.
    Walk(usize),
    /// This entry is the first above the target, none equals it.
    Above(usize),
    /// All entries are below the target.
    End,
}

/// A block of entries.
#[derive(Debug, Default)]
pub struct Block {
    data: BlockBytes,
    entry_table: EntryTable,
    hash: Buckets,
    /// End of the keys section; without separated values, of the entries.
    keys_end: u32,
    restarts_at: u32,
    num_restarts: u32,
    /// Start of the values section, 0 if values follow their keys.
    values_at: u32,
    min_key_len: u8,
    separated: bool,
}

impl Block {
    /// Decodes `data`; the error says what is wrong with the layout.
    pub(crate) fn decode(data: Vec<u8>, form: KeyForm) -> Result<Block, &'static str> {
        let mut block = Block { data: data.into(), ..Default::default() };
        block.decode_layout()?;
        block.check_restarts()?;
        if form != KeyForm::Raw {
            block.min_key_len = low_u8(TRAILER_LEN as u64);
        }
        Ok(block)
    }

    /// Unstructured bytes, such as a filter; has no entries.
    pub(crate) fn opaque(data: Vec<u8>) -> Block {
        Block { data: data.into(), ..Default::default() }
    }

    fn decode_layout(&mut self) -> Result<(), &'static str> {
        let data = &*self.data;
        if u32::try_from(data.len()).is_err() {
            return Err("block of 4 GiB");
        }
        let fixed32_before =
            |end: usize| -> Option<u32> { get_fixed32(data.get(end.checked_sub(4)?..end)?) };
        let mut end = data.len();
        let packed = fixed32_before(end).ok_or("block too short")?;
        end -= 4;
        if packed & RESERVED != 0 {
            return Err("reserved bit of the block footer is set");
        }
        self.separated = packed & SEPARATED_VALUES != 0;
        let mut values_at = 0;
        if self.separated {
            values_at = fixed32_before(end).ok_or("no values offset")?;
            end -= 4;
        }
        if packed & HASH_INDEX != 0 {
            (self.hash, end) = Buckets::decode(data, end).ok_or("hash index too large")?;
        }
        self.num_restarts = packed & RESTARTS_MASK;
        let restarts_len = 4 * self.num_restarts as usize;
        self.restarts_at = len_u32(end.checked_sub(restarts_len).ok_or("restart array too large")?);
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
        for i in 1..self.num_restarts() {
            let at = self.restart(i);
            if at <= previous || at >= self.keys_end() {
                return Err("restart points out of order");
            }
            previous = at;
        }
        Ok(())
    }

    /// Packs the block for a long stay in a cache (`large` or not), with an entry table if
    /// `bytewise`, its keys being internal ones whose user keys order as bytes, and if its shape
    /// allows one. Returns the buffer that it was in, for reuse.
    pub(crate) fn pack(&mut self, bytewise: bool, large: bool) -> Option<Vec<u8>> {
        let tabled = bytewise && !self.separated && self.keys_end > 0;
        let (table, words) = if tabled { self.entry_table() } else { None }.unwrap_or_default();
        if !self.data.is_worth_packing(words.len()) {
            return None;
        }
        self.entry_table = table;
        let packed = BlockBytes::packed(&words, &self.data, large);
        mem::replace(&mut self.data, packed).into_vec()
    }

    fn entry_table(&self) -> Option<(EntryTable, Vec<u64>)> {
        let first = self.restart_user_key(0)?;
        let common_len = common_prefix(first, &self.last_user_key()?);
        let mut table = EntryTable { common_len: len_u32(common_len), ..Default::default() };
        let inline = common_len.min(COMMON_INLINE);
        table.common[..inline].copy_from_slice(&first[..inline]);
        let mut words = Vec::with_capacity((16 * self.num_restarts()).min(MAX_WORDS_RESERVED));
        let (mut at, mut key_bytes, mut previous_len) = (0, [0u8; WORD_LEN], 0);
        let mut last_word = 0;
        while at < self.keys_end() {
            let entry = self.entry(at, 0, false)?;
            let user_len = entry.shared + entry.suffix_len - TRAILER_LEN;
            if entry.shared > previous_len || entry.shared > user_len {
                // Shared bytes reach into a trailer: rare enough to go without a table.
                return None;
            }
            let suffix_len = user_len - entry.shared;
            let suffix = self.data.get(entry.suffix_at..entry.suffix_at + suffix_len)?;
            update_word(&mut key_bytes, common_len, entry.shared, suffix);
            let word = u64::from(u32::from_be_bytes(key_bytes)) << 32 | at as u64;
            if word < last_word || user_len < common_len {
                return None;
            }
            words.push(word);
            (last_word, previous_len, at) = (word, user_len, entry.next);
        }
        Some((table, words))
    }

    /// The user key of the last entry.
    fn last_user_key(&self) -> Option<Vec<u8>> {
        let mut key = Vec::new();
        let mut at = self.restart(self.num_restarts() - 1);
        while at < self.keys_end() {
            let entry = self.entry(at, 0, false)?;
            if entry.shared > key.len() {
                return None;
            }
            key.truncate(entry.shared);
            let suffix_end = entry.suffix_at + entry.suffix_len;
            key.extend_from_slice(self.data.get(entry.suffix_at..suffix_end)?);
            at = entry.next;
        }
        key.truncate(key.len().checked_sub(TRAILER_LEN)?);
        Some(key)
    }

    /// Searches the entry table for a user key; `None` if there is no table.
    #[inline]
    pub(crate) fn search_table(&self, target: &[u8]) -> Option<TableHit> {
        let words = self.data.words();
        let common_len = self.entry_table.common_len as usize;
        if words.is_empty() {
            return None;
        }
        let head = &target[..target.len().min(common_len)];
        match head.cmp(self.common()?) {
            Ordering::Less => return Some(TableHit::Above(0)),
            Ordering::Greater => return Some(TableHit::End),
            Ordering::Equal => {}
        }
        let word = (prefix_word(&target[common_len..]) >> 32) << 32;
        let at = count_below(words, word);
        Some(match words.get(at) {
            None => TableHit::End,
            Some(found) if found >> 32 == word >> 32 => TableHit::Walk(low_u32(*found) as usize),
            Some(_) => TableHit::Above(at),
        })
    }

    /// A checksum of all that is kept in memory of the bytes and the entry table.
    pub(crate) fn memory_sum(&self) -> u64 {
        let add =
            |sum: u64, word: &u64| (sum.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.data.words().iter().fold(hash64(&self.data), add)
    }

    /// The block has an entry table.
    #[inline]
    pub(crate) fn has_entry_table(&self) -> bool {
        !self.data.words().is_empty()
    }

    /// The bytes that all keys begin with.
    #[inline]
    fn common(&self) -> Option<&[u8]> {
        let table = &self.entry_table;
        let len = table.common_len as usize;
        match table.common.get(..len) {
            Some(common) => Some(common),
            None => self.restart_user_key(0)?.get(..len),
        }
    }

    /// Bytes at the start of a key that the entry table covers.
    #[inline]
    pub(crate) fn table_depth(&self) -> usize {
        self.entry_table.common_len as usize + WORD_LEN
    }

    /// Offset of an entry of the entry table.
    pub(crate) fn table_entry(&self, number: usize) -> Option<usize> {
        self.data.words().get(number).map(|word| low_u32(*word) as usize)
    }

    /// Puts the first `shared` bytes of entry `number` into `out`; `None` if the entry table has
    /// fewer.
    pub(crate) fn table_key_head(
        &self,
        number: usize,
        shared: usize,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let common_len = self.entry_table.common_len as usize;
        let word = ((self.data.words().get(number)? >> 32) as u32).to_be_bytes();
        out.extend_from_slice(&self.common()?[..shared.min(common_len)]);
        out.extend_from_slice(word.get(..shared.saturating_sub(common_len))?);
        Some(())
    }

    /// The byte buffer, for reuse, unless the block is packed.
    pub(crate) fn into_data(self) -> Option<Vec<u8>> {
        self.data.into_vec()
    }

    /// The block's bytes.
    #[inline]
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// Memory held, for the cache's charge.
    pub fn memory_bytes(&self) -> usize {
        self.data.memory_bytes() + size_of::<Self>()
    }

    /// Offset after the last entry.
    #[inline]
    pub(crate) fn keys_end(&self) -> usize {
        self.keys_end as usize
    }

    /// Offset after the last value.
    pub(crate) fn entries_end(&self) -> usize {
        self.restarts_at as usize
    }

    /// Values are stored apart from keys, so that walking needs to know restart points.
    #[inline]
    pub(crate) fn separated(&self) -> bool {
        self.separated
    }

    #[inline]
    pub(crate) fn num_restarts(&self) -> usize {
        self.num_restarts as usize
    }

    /// Offset of restart point `i`; `keys_end` after the last.
    #[inline]
    pub(crate) fn restart(&self, i: usize) -> usize {
        if i >= self.num_restarts() {
            return self.keys_end();
        }
        let at = self.restarts_at as usize + 4 * i;
        self.data.get(at..).and_then(get_fixed32).map_or(self.keys_end(), |v| v as usize)
    }

    /// Index of the last restart point at or before `offset`.
    pub(crate) fn restart_at_or_before(&self, offset: usize) -> usize {
        let (mut lo, mut hi) = (0, self.num_restarts());
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
        let data = &*self.data;
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
            if next > self.keys_end() || shared + suffix_len < usize::from(self.min_key_len) {
                return None;
            }
            let (suffix_at, value_end) = (at, next);
            return Some(Entry { shared, suffix_at, suffix_len, value_at, value_end, next });
        }
        let mut value_at = value_from;
        if restart {
            let (offset_in_values, n) = get_varint32(data.get(at..)?)?;
            value_at = self.values_at as usize + offset_in_values as usize;
            at += n;
        }
        let (next, value_end) = (at + suffix_len, value_at + value_len);
        let inside = next <= self.keys_end() && value_end <= self.restarts_at as usize;
        if !inside || shared + suffix_len < usize::from(self.min_key_len) {
            return None;
        }
        Some(Entry { shared, suffix_at: at, suffix_len, value_at, value_end, next })
    }

    /// Where the hash index sends a lookup of a user key.
    #[inline]
    pub(crate) fn hash_bucket(&self, user_key: &[u8]) -> Bucket {
        match self.hash.find(&self.data, user_key) {
            Bucket::Restart(restart) if restart >= self.num_restarts() => Bucket::Unknown,
            bucket => bucket,
        }
    }

    /// The key at restart point `i`.
    #[inline]
    pub(crate) fn restart_key(&self, i: usize) -> Option<&[u8]> {
        let entry = self.entry(self.restart(i), self.values_at as usize, true)?;
        if entry.shared != 0 {
            return None;
        }
        self.data.get(entry.suffix_at..entry.suffix_at + entry.suffix_len)
    }

    fn restart_user_key(&self, i: usize) -> Option<&[u8]> {
        let key = self.restart_key(i)?;
        key.get(..key.len().checked_sub(TRAILER_LEN)?)
    }

    /// The restart point at which to begin a forward walk to a target: the last whose key is less,
    /// or 0. `is_less` compares a restart key with the target. `None` if the block is damaged.
    pub(crate) fn seek_restart(&self, mut is_less: impl FnMut(&[u8]) -> bool) -> Option<usize> {
        let (mut lo, mut hi) = (0, self.num_restarts());
        while lo < hi {
            let mid = lo + (hi - lo) / 2;
            if is_less(self.restart_key(mid)?) { lo = mid + 1 } else { hi = mid }
        }
        if planted::is(Bug::BlockSeekOffByOne) { Some(lo) } else { Some(lo.saturating_sub(1)) }
    }
}

/// Replaces the bytes of a table word that the entry does not share. The word covers the key from
/// `common_len` on; bytes after the key are zero.
#[inline]
fn update_word(word: &mut [u8; WORD_LEN], common_len: usize, shared: usize, suffix: &[u8]) {
    if shared >= common_len + WORD_LEN {
        return;
    }
    let kept = shared.saturating_sub(common_len);
    let skip = common_len.saturating_sub(shared);
    let fresh = suffix.get(skip..).unwrap_or(&[]);
    for (i, byte) in word[kept..].iter_mut().enumerate() {
        *byte = fresh.get(i).copied().unwrap_or(0);
    }
}

/// Arrays up to this length are searched from front to back: all cache lines load at once.
const LINEAR_WORDS_MAX: usize = 96;

/// Words of an ascending array that are below `word`.
#[inline]
pub(crate) fn count_below(words: &[u64], word: u64) -> usize {
    if words.len() <= LINEAR_WORDS_MAX {
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

    /// The real trailer for a stored one.
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
    pub fn compare(
        self,
        cmp: &InternalKeyComparator,
        stored: InternalKey<'_>,
        target: InternalKey<'_>,
    ) -> Ordering {
        match cmp.user.compare(stored.user_key(), target.user_key()) {
            Ordering::Equal => target.trailer().cmp(&self.apply(stored.trailer())),
            other => other,
        }
    }
}
