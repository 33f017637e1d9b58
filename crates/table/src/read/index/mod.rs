//! A decoded index block: separators and block handles in one buffer (docs/format/table.md#index).
//!
//! The whole block is decoded once, when it is read, into columns that lie in one allocation:
//!
//! ```text
//! words | common prefix | offsets | sizes | word lengths | tails | apart | first keys
//! ```
//!
//! For bytewise orders the bytes that all user keys begin with are stored once, and the next four
//! or eight bytes of each are its *word*, so that a search counts the integers below the target's
//! and compares keys only on ties. Four bytes suffice where they distinguish all keys. The rest
//! after the word, including the trailer of an internal key, is the key's *tail*; for other orders
//! that is the whole key. Offsets of blocks are kept as distances from a straight line through
//! them, mostly two bytes; a block ends where the next one begins, so sizes are kept only where
//! there are gaps.
//!
//! The last separator may be a short successor of the last key, which shares less with the others
//! than they do among themselves. Where it alone shortens what is common, it stays *apart*, whole.
//!
//! The first keys of the blocks, where the index has them, are kept as user keys: a point lookup
//! below the first key of its block need not read the block.
//!
//! Separators ascend; a block that violates this is rejected, so that a search may trust the order.
//! Also used for the top level of partitioned indexes and filters. Immutable after construction.
//! Decoding is in `decode`; `raw` searches a block that is not worth decoding, `partial` one that
//! is not even worth decompressing completely.

mod columns;
mod decode;
#[cfg(test)]
mod model;
pub(crate) mod partial;
mod raw;
#[cfg(test)]
mod tests;

use pumice_base::narrow::to_usize;
use std::cmp::Ordering;

use pumice_base::InternalKeyComparator;
use pumice_base::key::{InternalKey, TRAILER_LEN, UserKey};
use pumice_base::planted::{self, Bug};

use crate::handle::{BLOCK_TRAILER_LEN, BlockHandle};
use crate::prefix::word_at;
use columns::{Numbers, Strings, count_below_narrow, count_below_wide};
pub(crate) use raw::RawIndex;

/// Average overhead of an allocation: header and rounding.
pub(crate) const ALLOCATION_OVERHEAD: usize = 16;

/// How the entries of an index block are encoded; from the table's properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexEncoding {
    /// Keys are user keys, without trailer.
    pub user_keys: bool,
    /// Handles are differences where keys are.
    pub delta_handles: bool,
    /// The first key of the block follows the handle (index type 3).
    pub first_keys: bool,
}

impl IndexEncoding {
    /// The form since format version 4, unless a user key can be in two blocks.
    pub(crate) const USUAL: Self =
        IndexEncoding { user_keys: true, delta_handles: true, first_keys: false };
}

/// Bytes of a key that a search reads from its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum Words {
    /// The comparator is not bytewise.
    #[default]
    None,
    /// Four, and no two are equal.
    Narrow,
    /// Eight.
    Wide,
}

impl Words {
    #[inline]
    fn width(self) -> usize {
        match self {
            Words::None => 0,
            Words::Narrow => 4,
            Words::Wide => 8,
        }
    }
}

/// Where blocks lie: `base + i * slope` plus a distance from that line.
#[derive(Clone, Copy, Debug, Default)]
struct Handles {
    base: u64,
    slope: u64,
    /// Distances of the blocks, and of the end of the last one if there are no sizes.
    distances: Numbers,
    /// Sizes of the blocks, if they do not follow each other.
    sizes: Numbers,
    /// There are no sizes, and distances are two bytes wide.
    tight: bool,
}

/// Separators and handles of an index block.
#[derive(Debug, Default)]
pub struct IndexBlock {
    bytes: Box<[u8]>,
    len: u32,
    /// How many separators the columns have: all, or all but the last.
    columned: u32,
    user_keys: bool,
    words: Words,
    common_len: u32,
    common_at: u32,
    /// The first eight bytes of the common prefix, padded with zeros, and a mask of those that
    /// belong to it.
    common_word: u64,
    common_mask: u64,
    handles: Handles,
    /// How many bytes of its word belong to each key; none: all.
    word_lens: Numbers,
    tails: Strings,
    /// Where the last separator lies if it stays apart.
    apart: (u32, u32),
    /// First user keys of the blocks, without their common prefix, if the index has any.
    firsts: Option<FirstKeys>,
}

#[derive(Clone, Copy, Debug)]
struct FirstKeys {
    common_at: u32,
    common_len: u32,
    rest: Strings,
}

impl IndexBlock {
    /// Number of blocks.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// There are no blocks.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The handle of block `i`, which is below `len`.
    #[inline(never)]
    pub fn handle(&self, i: usize) -> BlockHandle {
        debug_assert!(i < self.len());
        let handles = &self.handles;
        if !handles.tight {
            return self.loose_handle(i);
        }
        let (from, to) = handles.distances.short_pair(&self.bytes, i);
        let line = handles.base.wrapping_add(handles.slope.wrapping_mul(i as u64));
        let more = u64::from(to).wrapping_sub(u64::from(from) + BLOCK_TRAILER_LEN as u64);
        let size = handles.slope.wrapping_add(more);
        BlockHandle { offset: line.wrapping_add(u64::from(from)), size }
    }

    #[cold]
    #[inline(never)]
    fn loose_handle(&self, i: usize) -> BlockHandle {
        let offset = self.offset(i);
        let size = if self.handles.sizes.is_none() {
            self.offset(i + 1).wrapping_sub(offset).wrapping_sub(BLOCK_TRAILER_LEN as u64)
        } else {
            self.handles.sizes.get(&self.bytes, i)
        };
        BlockHandle { offset, size }
    }

    #[inline]
    fn offset(&self, i: usize) -> u64 {
        let line = self.handles.base.wrapping_add(self.handles.slope.wrapping_mul(i as u64));
        line.wrapping_add(self.handles.distances.get(&self.bytes, i))
    }

    /// All handles.
    pub(crate) fn handles(&self) -> impl ExactSizeIterator<Item = BlockHandle> + '_ {
        (0..self.len()).map(|i| self.handle(i))
    }

    /// Puts the separator of block `i` as stored, a user key or an internal key, into `key`.
    pub fn key_into(&self, i: usize, key: &mut Vec<u8>) {
        key.clear();
        if i >= self.columned as usize {
            key.extend_from_slice(self.apart());
            return;
        }
        key.extend_from_slice(self.common());
        let word = self.word(i).to_be_bytes();
        key.extend_from_slice(&word[..self.word_len(i)]);
        key.extend_from_slice(self.tails.get(&self.bytes, i));
    }

    /// As [`IndexBlock::key_into`], only the user key.
    pub fn user_key_into(&self, i: usize, key: &mut Vec<u8>) {
        self.key_into(i, key);
        if !self.user_keys {
            key.truncate(key.len() - TRAILER_LEN);
        }
    }

    /// The first user key of block `i` in two parts, if the index has first keys.
    pub(crate) fn first_user_key(&self, i: usize) -> Option<[&[u8]; 2]> {
        let firsts = self.firsts.as_ref()?;
        let common = &self.bytes[firsts.common_at as usize..][..firsts.common_len as usize];
        Some([common, firsts.rest.get(&self.bytes, i)])
    }

    #[inline]
    fn common(&self) -> &[u8] {
        &self.bytes[self.common_at as usize..][..self.common_len as usize]
    }

    /// The last separator, which is not in the columns.
    #[cold]
    fn apart(&self) -> &[u8] {
        let (at, len) = self.apart;
        &self.bytes[at as usize..][..len as usize]
    }

    #[inline]
    fn narrow_words(&self) -> &[[u8; 4]] {
        self.bytes[..4 * self.columned as usize].as_chunks().0
    }

    #[inline]
    fn wide_words(&self) -> &[[u8; 8]] {
        self.bytes[..8 * self.columned as usize].as_chunks().0
    }

    /// The word of key `i`, in the high bytes.
    #[inline]
    fn word(&self, i: usize) -> u64 {
        match self.words {
            Words::None => 0,
            Words::Narrow => u64::from(u32::from_ne_bytes(self.narrow_words()[i])) << 32,
            Words::Wide => u64::from_ne_bytes(self.wide_words()[i]),
        }
    }

    #[inline]
    fn word_len(&self, i: usize) -> usize {
        if self.word_lens.is_none() {
            self.words.width()
        } else {
            to_usize(self.word_lens.get(&self.bytes, i))
        }
    }

    /// Whether the index shows that every user key of block `i` is above `user_key`, whatever their
    /// timestamps, so that the block need not be read to look it up.
    #[inline]
    pub(crate) fn begins_above(
        &self,
        i: usize,
        cmp: &InternalKeyComparator,
        user_key: UserKey<'_>,
    ) -> bool {
        self.firsts.as_ref().is_some_and(|firsts| self.first_is_above(firsts, i, cmp, user_key))
    }

    #[inline(never)]
    fn first_is_above(
        &self,
        firsts: &FirstKeys,
        i: usize,
        cmp: &InternalKeyComparator,
        user_key: UserKey<'_>,
    ) -> bool {
        let common = &self.bytes[firsts.common_at as usize..][..firsts.common_len as usize];
        let rest = firsts.rest.get(&self.bytes, i);
        if self.words == Words::None {
            return cmp.user.compare_without_timestamp(UserKey::new(rest), user_key).is_gt();
        }
        compare_parts([common, rest], user_key.as_bytes()).is_gt()
    }

    /// Separators are user keys: the versions of a user key, its timestamp included, never span two
    /// blocks.
    #[inline]
    pub fn stores_user_keys(&self) -> bool {
        self.user_keys
    }

    /// Memory held.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes.len() + 2 * ALLOCATION_OVERHEAD
    }

    /// The first block whose separator is at or after internal key `target`; `len` if none.
    #[inline]
    pub fn seek(&self, cmp: &InternalKeyComparator, target: InternalKey<'_>) -> usize {
        let (mut lo, mut hi) = (0, self.len());
        if self.words != Words::None {
            match self.seek_words(target) {
                Ok(at) => return at,
                Err((from, to)) => (lo, hi) = (from, to),
            }
        }
        while lo < hi {
            let mid = lo + (hi - lo) / 2;
            let order = self.compare(mid, cmp, target);
            let before = order.is_lt() || (order.is_eq() && planted::is(Bug::IndexSeekOffByOne));
            if before { lo = mid + 1 } else { hi = mid }
        }
        lo
    }

    /// The separator of block `i` is at or after internal key `target`.
    #[inline]
    pub(crate) fn reaches(
        &self,
        i: usize,
        cmp: &InternalKeyComparator,
        target: InternalKey<'_>,
    ) -> bool {
        self.compare(i, cmp, target).is_ge()
    }

    /// Compares separator `i` with an internal key.
    fn compare(&self, i: usize, cmp: &InternalKeyComparator, target: InternalKey<'_>) -> Ordering {
        let is_apart = i >= self.columned as usize;
        let tail = if is_apart { self.apart() } else { self.tails.get(&self.bytes, i) };
        let (user_tail, own_trailer) = if self.user_keys {
            (UserKey::new(tail), None)
        } else {
            let tail = InternalKey::new(tail);
            (tail.user_key(), Some(tail.trailer()))
        };
        let order = if self.words == Words::None || is_apart {
            cmp.user.compare(user_tail, target.user_key())
        } else {
            let word = self.word(i).to_be_bytes();
            let parts = [self.common(), &word[..self.word_len(i)], user_tail.as_bytes()];
            compare_parts(parts, target.user_key().as_bytes())
        };
        match (order, own_trailer) {
            (Ordering::Equal, Some(own)) => target.trailer().cmp(&own),
            (order, _) => order,
        }
    }

    /// The answer if the words decide, otherwise the range of ties to search.
    #[inline]
    fn seek_words(&self, target: InternalKey<'_>) -> Result<usize, (usize, usize)> {
        let (user_len, common_len) = (target.user_key().len(), self.common_len as usize);
        match self.compare_common(target, user_len) {
            Ordering::Less => return Ok(0),
            // All in the columns are below.
            Ordering::Greater => return Err((self.columned as usize, self.len())),
            Ordering::Equal => {}
        }
        let word = word_at(target.as_bytes(), common_len, user_len - common_len);
        let (at, ties) = if self.words == Words::Narrow {
            let (words, word) = (self.narrow_words(), (word >> 32) as u32);
            let at = count_below_narrow(words, word);
            (at, usize::from(words.get(at) == Some(&word.to_ne_bytes())))
        } else {
            let (words, word) = (self.wide_words(), word);
            let at = count_below_wide(words, word);
            let (rest, bytes) = (&words[at..], word.to_ne_bytes());
            // Where keys begin alike many may tie.
            let ties = match rest.first() == Some(&bytes) {
                true => rest.partition_point(|other| *other == bytes),
                false => 0,
            };
            (at, ties)
        };
        if ties == 0 { Ok(at) } else { Err((at, at + ties)) }
    }

    /// Compares the start of a target with the common prefix of all separators. Equal means that
    /// the target has it too.
    #[inline]
    fn compare_common(&self, target: InternalKey<'_>, user_len: usize) -> Ordering {
        let common_len = self.common_len as usize;
        match target.as_bytes().first_chunk() {
            // The mask leaves `common_len` bytes, which are of the user key.
            Some(head) if common_len <= user_len.min(8) => {
                (u64::from_be_bytes(*head) & self.common_mask).cmp(&self.common_word)
            }
            _ => self.compare_long_common(target.user_key().as_bytes()),
        }
    }

    #[inline(never)]
    fn compare_long_common(&self, user_key: &[u8]) -> Ordering {
        let common = self.common();
        user_key[..user_key.len().min(common.len())].cmp(common)
    }
}

/// Compares the concatenation of `parts` with `other` as bytes.
#[inline]
fn compare_parts<const N: usize>(parts: [&[u8]; N], other: &[u8]) -> Ordering {
    let mut rest = other;
    for part in parts {
        let (head, tail) = rest.split_at(part.len().min(rest.len()));
        let order = part.cmp(head);
        if order.is_ne() {
            // If `rest` ends inside `part`, `part` is longer, and so above.
            return order;
        }
        rest = tail;
    }
    if rest.is_empty() { Ordering::Equal } else { Ordering::Less }
}
