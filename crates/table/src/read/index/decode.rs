//! Decodes an index block: entries are parsed, then packed into columns.
//!
//! Thread safety: pure functions, except for scratch memory that belongs to the thread. Invariants:
//! keys are checked against each other and every length against the block before anything is taken
//! from them, so that damage yields an error or an index that is wrong, never a panic. The blocks
//! of an index follow each other in the file, so together they are not larger than it. Keys that
//! share bytes take memory in proportion to the block (`expanded_bytes_max`).

use pumice_base::narrow::len_u32;
use std::cell::Cell;

use pumice_base::InternalKeyComparator;
use pumice_base::coding::{Decoder, get_fixed32};
use pumice_base::key::{InternalKey, TRAILER_LEN, UserKey};

use super::columns::{Numbers, Strings, position};
use super::{FirstKeys, Handles, IndexBlock, IndexEncoding, Words};
use crate::handle::{BLOCK_TRAILER_LEN, BlockHandle};
use crate::prefix::{common_prefix, prefix_word, word_at};
use crate::read::block::expanded_bytes_max;

/// Scratch memory above this, in bytes of the decoded block, is not kept.
const KEPT_SCRATCH_BYTES: usize = 64 << 10;

pumice_port::worker_local! {
    static SCRATCH: Cell<Scratch> = Cell::new(Scratch::default());
}

/// Memory that decoding reuses.
#[derive(Default)]
struct Scratch {
    entries: Vec<Parsed>,
    /// The keys, if any of them is not contiguous in the block.
    keys: Vec<u8>,
    words: Vec<u64>,
    out: Vec<u8>,
}

/// An entry, its key in the block or in `keys`, its first key in the block.
#[derive(Clone, Copy, Default)]
pub(super) struct Parsed {
    pub key_at: u32,
    pub key_len: u32,
    pub first_at: u32,
    pub first_len: u32,
    pub handle: BlockHandle,
}

pub(super) type Decoded<T> = Result<T, &'static str>;

impl IndexBlock {
    /// Decodes an uncompressed index block; the error says what is wrong.
    pub(crate) fn decode(
        data: &[u8],
        encoding: IndexEncoding,
        cmp: &InternalKeyComparator,
    ) -> Decoded<IndexBlock> {
        let mut scratch = SCRATCH.with(Cell::take);
        let index = scratch.decode(data, encoding, cmp);
        if scratch.out.len() + scratch.keys.len() <= KEPT_SCRATCH_BYTES {
            SCRATCH.with(|kept| kept.set(scratch));
        }
        index
    }
}

impl Scratch {
    fn decode(
        &mut self,
        data: &[u8],
        encoding: IndexEncoding,
        cmp: &InternalKeyComparator,
    ) -> Decoded<IndexBlock> {
        if u32::try_from(data.len()).is_err() {
            return Err("index block too large");
        }
        let copied = self.parse(data, encoding)?;
        let keys = std::mem::take(&mut self.keys);
        let index = self.pack(data, if copied { &keys } else { data }, encoding, cmp);
        self.keys = keys;
        index
    }

    /// Parses the entries. True: their keys are in `keys`; otherwise they are contiguous in the
    /// block.
    fn parse(&mut self, data: &[u8], encoding: IndexEncoding) -> Decoded<bool> {
        let end = entries_end(data).ok_or("restart array too large")?;
        let mut src = Decoder::new(&data[..end]);
        let keys_max = expanded_bytes_max(data.len());
        self.entries.clear();
        self.keys.clear();
        let (mut copied, mut last) = (false, Parsed::default());
        let mut plain = encoding.delta_handles && encoding.user_keys && !encoding.first_keys;
        if plain && self.parse_at_restarts(data, end) {
            return Ok(false);
        }
        while !src.is_empty() {
            if plain && let Some((entry, next)) = parse_plain(data, end - src.rest().len(), end) {
                self.entries.push(entry);
                last = entry;
                src = Decoder::new(&data[next..end]);
                continue;
            }
            let (shared, suffix, entry) = take_entry(&mut src, end, encoding, &last)?;
            last = entry;
            if shared > 0 && !copied {
                self.copy_keys(data)?;
                (copied, plain) = (true, false);
            }
            if copied {
                if self.keys.len() + last.key_len as usize > keys_max {
                    return Err("index keys take too much memory");
                }
                last.key_at = position(&self.keys)?;
                let from = self.entries.last().map_or(0, |entry| entry.key_at as usize);
                self.keys.extend_from_within(from..from + shared);
                self.keys.extend_from_slice(suffix);
            }
            self.entries.push(last);
        }
        Ok(copied)
    }

    /// Parses the entries if each of them is a plain one at a restart point of its own: then the
    /// start of one does not depend on the one before. False: they are not, and nothing is parsed.
    fn parse_at_restarts(&mut self, data: &[u8], end: usize) -> bool {
        let restarts = data[end..].as_chunks::<4>().0;
        let Some((_, restarts)) = restarts.split_last() else { return false };
        self.entries.reserve(restarts.len());
        // Gaps are recorded, not branched on: a branch would make one entry wait for another.
        let (mut behind_last, mut gaps) = (0, 0);
        for restart in restarts {
            let at = u32::from_le_bytes(*restart) as usize;
            let Some((entry, next)) = parse_plain(data, at, end) else {
                self.entries.clear();
                return false;
            };
            self.entries.push(entry);
            gaps |= at ^ behind_last;
            behind_last = next;
        }
        let complete = gaps == 0 && behind_last == end;
        if !complete {
            self.entries.clear();
        }
        complete
    }

    /// Copies the keys so far out of the block: the next one is not contiguous there.
    fn copy_keys(&mut self, data: &[u8]) -> Decoded<()> {
        for entry in &mut self.entries {
            let key = entry.key(data);
            entry.key_at = position(&self.keys)?;
            self.keys.extend_from_slice(key);
        }
        Ok(())
    }

    /// Packs the entries, whose keys lie in `keys` and first keys in `data`.
    fn pack(
        &mut self,
        data: &[u8],
        keys: &[u8],
        encoding: IndexEncoding,
        cmp: &InternalKeyComparator,
    ) -> Decoded<IndexBlock> {
        let trailer_len = if encoding.user_keys { 0 } else { TRAILER_LEN };
        let mut index = IndexBlock {
            len: u32::try_from(self.entries.len()).map_err(|_| "index block too large")?,
            user_keys: encoding.user_keys,
            ..Default::default()
        };
        let bytewise = cmp.user.is_bytewise();
        let mut common: &[u8] = &[];
        let mut columned = self.entries.len();
        self.out.clear();
        if bytewise {
            columned -= usize::from(self.last_is_apart(keys, trailer_len));
            common = common_of(&self.entries[..columned], keys, trailer_len);
            index.words = self.find_words(columned, keys, trailer_len, common, cmp)?;
            self.write_words(index.words);
        } else {
            self.check_order(keys, trailer_len, cmp)?;
        }
        index.columned = len_u32(columned);
        index.common_at = position(&self.out)?;
        index.common_len = len_u32(common.len());
        index.common_word = prefix_word(common);
        index.common_mask = !u64::MAX.checked_shr(8 * index.common_len).unwrap_or(0);
        self.out.extend_from_slice(common);
        index.handles = self.write_handles()?;
        let tail_at = common.len() + index.words.width();
        if bytewise {
            let lens = (trailer_len, common.len(), tail_at);
            index.word_lens = self.write_word_lens(columned, lens)?;
        }
        let tails = self.entries[..columned].iter().map(|entry| {
            let key = entry.key(keys);
            &key[tail_at.min(key.len() - trailer_len)..]
        });
        index.tails = Strings::write(&mut self.out, tails)?;
        if let Some(last) = self.entries.get(columned) {
            index.apart = (position(&self.out)?, last.key_len);
            self.out.extend_from_slice(last.key(keys));
        }
        if encoding.first_keys {
            index.firsts = Some(self.write_firsts(data, bytewise)?);
        }
        index.bytes = Box::from(self.out.as_slice());
        Ok(index)
    }

    /// The last separator alone shortens what is common.
    fn last_is_apart(&self, keys: &[u8], trailer_len: usize) -> bool {
        let [first, .., before, last] = self.entries.as_slice() else { return false };
        let first = first.user_key(keys, trailer_len);
        let shared = |entry: &Parsed| common_prefix(first, entry.user_key(keys, trailer_len));
        shared(last) < shared(before)
    }

    /// Puts the words of the first `columned` keys into `words` and checks that all keys ascend,
    /// those with the prefix `common`.
    fn find_words(
        &mut self,
        columned: usize,
        keys: &[u8],
        trailer_len: usize,
        common: &[u8],
        cmp: &InternalKeyComparator,
    ) -> Decoded<Words> {
        const UNORDERED: &str = "index keys out of order";
        self.words.clear();
        self.words.reserve(self.entries.len());
        let common_len = common.len();
        let common_word = prefix_word(common);
        let (mut last_word, mut narrow) = (0, true);
        for (i, entry) in self.entries[..columned].iter().enumerate() {
            let (at, len) = (entry.key_at as usize, entry.key_len as usize - trailer_len);
            let has_common = if len < common_len {
                false
            } else if common_len <= 8 {
                word_at(keys, at, common_len) == common_word
            } else {
                &keys[at..at + common_len] == common
            };
            if !has_common {
                return Err(UNORDERED);
            }
            let word = word_at(keys, at + common_len, len - common_len);
            if i > 0 {
                narrow &= last_word >> 32 < word >> 32;
                let ascends = last_word < word
                    || last_word == word
                        && in_order(&self.entries[i - 1], entry, keys, trailer_len, cmp);
                if !ascends {
                    return Err(UNORDERED);
                }
            }
            last_word = word;
            self.words.push(word);
        }
        if let Some(last) = self.entries.get(columned)
            && !in_order(&self.entries[columned - 1], last, keys, trailer_len, cmp)
        {
            return Err(UNORDERED);
        }
        Ok(if narrow { Words::Narrow } else { Words::Wide })
    }

    /// Checks that the keys ascend.
    fn check_order(
        &self,
        keys: &[u8],
        trailer_len: usize,
        cmp: &InternalKeyComparator,
    ) -> Decoded<()> {
        let ascends = |pair: &[Parsed]| in_order(&pair[0], &pair[1], keys, trailer_len, cmp);
        if self.entries.windows(2).all(ascends) { Ok(()) } else { Err("index keys out of order") }
    }

    fn write_words(&mut self, form: Words) {
        self.out.resize(form.width() * self.words.len(), 0);
        if form == Words::Narrow {
            for (to, word) in self.out.as_chunks_mut().0.iter_mut().zip(&self.words) {
                *to = ((word >> 32) as u32).to_ne_bytes();
            }
        } else {
            for (to, word) in self.out.as_chunks_mut().0.iter_mut().zip(&self.words) {
                *to = word.to_ne_bytes();
            }
        }
    }

    /// How much of each word is key.
    fn write_word_lens(
        &mut self,
        columned: usize,
        (trailer_len, common_len, tail_at): (usize, usize, usize),
    ) -> Decoded<Numbers> {
        let entries = &self.entries[..columned];
        let len = |entry: &Parsed| (entry.key_len as usize - trailer_len).min(tail_at) - common_len;
        if entries.iter().all(|entry| len(entry) == tail_at - common_len) {
            return Ok(Numbers::default());
        }
        let lens = entries.iter().map(|entry| len(entry) as u64);
        Numbers::write(&mut self.out, (columned, WORD_LEN_MAX), lens)
    }

    fn write_handles(&mut self) -> Decoded<Handles> {
        let (Some(first), Some(last)) = (self.entries.first(), self.entries.last()) else {
            return Ok(Handles::default());
        };
        let follows = |pair: &[Parsed]| pair[0].handle.end() == Some(pair[1].handle.offset);
        let end = last.handle.end().filter(|_| self.entries.windows(2).all(follows));
        self.words.reserve(self.entries.len() + 1);
        let offsets = self.entries.iter().map(|entry| entry.handle.offset);
        let Some(end) = end else {
            let in_order = |pair: &[Parsed]| {
                pair[0].handle.end().is_some_and(|end| end <= pair[1].handle.offset)
            };
            if !self.entries.windows(2).all(in_order) {
                return Err("index handles out of order");
            }
            let base = offsets.clone().min().unwrap_or(0);
            let distances = offsets.map(|offset| offset - base);
            let sizes = self.entries.iter().map(|entry| entry.handle.size);
            let far = (self.entries.len(), distances.clone().max().unwrap_or(0));
            let large = (self.entries.len(), sizes.clone().max().unwrap_or(0));
            return Ok(Handles {
                base,
                slope: 0,
                distances: Numbers::write(&mut self.out, far, distances)?,
                sizes: Numbers::write(&mut self.out, large, sizes)?,
                tight: false,
            });
        };
        let first = first.handle.offset;
        let slope = (end - first) / self.entries.len() as u64;
        // Distances to a line through the first block may be negative; one through the lowest is
        // parallel to it.
        self.words.clear();
        let (mut lowest, mut highest, mut line) = (0, 0, first);
        for offset in offsets.chain([end]) {
            let distance = offset.wrapping_sub(line) as i64;
            (lowest, highest) = (distance.min(lowest), distance.max(highest));
            self.words.push(distance as u64);
            line = line.wrapping_add(slope);
        }
        // At least two bytes each, the case for which `handle` is fast.
        let far = (self.words.len(), (highest.wrapping_sub(lowest) as u64).max(0x100));
        let distances = self.words.iter().map(|distance| distance.wrapping_sub(lowest as u64));
        let distances = Numbers::write(&mut self.out, far, distances)?;
        let base = first.wrapping_add_signed(lowest);
        let tight = distances.is_short();
        Ok(Handles { base, slope, distances, sizes: Numbers::default(), tight })
    }

    fn write_firsts(&mut self, data: &[u8], bytewise: bool) -> Decoded<FirstKeys> {
        for entry in &self.entries {
            entry.first_user_key(data)?;
        }
        let firsts = self.entries.iter().map(|entry| entry.first_user_key(data).unwrap_or(&[]));
        let mut common = firsts.clone().next().filter(|_| bytewise).unwrap_or(&[]);
        for first in firsts.clone() {
            common = &common[..common_prefix(common, first)];
        }
        let common_at = position(&self.out)?;
        self.out.extend_from_slice(common);
        let rest = Strings::write(&mut self.out, firsts.map(|first| &first[common.len()..]))?;
        Ok(FirstKeys { common_at, common_len: len_u32(common.len()), rest })
    }
}

/// The common prefix of the first and the last user key.
fn common_of<'k>(entries: &[Parsed], keys: &'k [u8], trailer_len: usize) -> &'k [u8] {
    let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
        return &[];
    };
    let first = first.user_key(keys, trailer_len);
    &first[..common_prefix(first, last.user_key(keys, trailer_len))]
}

/// Largest number of a key's bytes in its word.
const WORD_LEN_MAX: u64 = 8;

impl Parsed {
    /// The key, where keys lie in `keys`.
    #[inline]
    pub(super) fn key<'k>(&self, keys: &'k [u8]) -> &'k [u8] {
        &keys[self.key_at as usize..][..self.key_len as usize]
    }

    #[inline]
    fn user_key<'k>(&self, keys: &'k [u8], trailer_len: usize) -> &'k [u8] {
        &keys[self.key_at as usize..][..self.key_len as usize - trailer_len]
    }

    /// The user key of the first key, which lies in `data`.
    #[inline]
    pub(super) fn first_user_key<'k>(&self, data: &'k [u8]) -> Decoded<&'k [u8]> {
        let len =
            (self.first_len as usize).checked_sub(TRAILER_LEN).ok_or("first key too short")?;
        Ok(&data[self.first_at as usize..][..len])
    }
}

/// `a` is not above `b`.
#[cold]
fn in_order(
    a: &Parsed,
    b: &Parsed,
    keys: &[u8],
    trailer_len: usize,
    cmp: &InternalKeyComparator,
) -> bool {
    let (a, b) = (a.key(keys), b.key(keys));
    let order = if trailer_len == 0 {
        cmp.user.compare(UserKey::new(a), UserKey::new(b))
    } else {
        cmp.compare(InternalKey::new(a), InternalKey::new(b))
    };
    order.is_le()
}

/// Where the entries of an index block end. The hint about evenly spread keys (bit 29) is ignored;
/// an index block has no hash index and no separated values.
pub(super) fn entries_end(data: &[u8]) -> Option<usize> {
    let end = data.len().checked_sub(4)?;
    let packed = get_fixed32(&data[end..])?;
    const UNIFORM: u32 = 1 << 29;
    let restarts = packed & !UNIFORM;
    end.checked_sub(4usize.checked_mul(restarts as usize)?)
}

/// Takes an entry off `src`, which ends at `end` of the block: how many bytes its key shares with
/// the key of `last`, the remaining bytes, and the entry, with its key as if it were contiguous in
/// the block.
#[inline]
fn parse_entry<'a>(
    src: &mut Decoder<'a>,
    end: usize,
    encoding: IndexEncoding,
    last: &Parsed,
) -> Option<(usize, &'a [u8], Parsed)> {
    let shared = src.varint32()? as usize;
    let suffix_len = src.varint32()? as usize;
    let value_len = if encoding.delta_handles { None } else { Some(src.varint32()? as usize) };
    if shared > last.key_len as usize {
        return None;
    }
    let key_at = end - src.rest().len();
    let suffix = src.bytes(suffix_len)?;
    let key_len = u32::try_from(shared + suffix_len).ok()?;
    let mut entry = Parsed { key_at: len_u32(key_at), key_len, ..Default::default() };
    let Some(value_len) = value_len else {
        let previous = (shared > 0).then_some(last.handle);
        entry.take_value(src, end, previous, encoding)?;
        return Some((shared, suffix, entry));
    };
    let mut value = Decoder::new(src.bytes(value_len)?);
    entry.take_value(&mut value, end - src.rest().len(), None, encoding)?;
    Some((shared, suffix, entry))
}

/// As [`parse_entry`], and checks what can be checked of the entry alone.
#[inline]
pub(super) fn take_entry<'a>(
    src: &mut Decoder<'a>,
    end: usize,
    encoding: IndexEncoding,
    last: &Parsed,
) -> Decoded<(usize, &'a [u8], Parsed)> {
    let parts = parse_entry(src, end, encoding, last).ok_or("malformed index entry")?;
    if !encoding.user_keys && (parts.2.key_len as usize) < TRAILER_LEN {
        return Err("index key too short");
    }
    Ok(parts)
}

/// Takes the usual entry at `at`, and where the next one begins: a whole user key below 128 bytes
/// and a whole handle. `None`: it has another form or is too near the end of the block.
#[inline]
pub(super) fn parse_plain(data: &[u8], at: usize, end: usize) -> Option<(Parsed, usize)> {
    let &[shared, key_len] = data.get(at..)?.first_chunk()?;
    if shared != 0 || key_len >= 0x80 {
        return None;
    }
    let value_at = at + 2 + usize::from(key_len);
    let (offset, offset_len) = short_varint(data.get(value_at..)?)?;
    let (size, size_len) = short_varint(data.get(value_at + offset_len..)?)?;
    let next = value_at + offset_len + size_len;
    let (key_at, key_len) = (len_u32(at) + 2, u32::from(key_len));
    let entry =
        Parsed { key_at, key_len, handle: BlockHandle { offset, size }, ..Parsed::default() };
    (next <= end).then_some((entry, next))
}

/// A varint of at most eight bytes, where eight can be read, and its length: without a loop, whose
/// end a processor would have to guess.
#[inline]
fn short_varint(src: &[u8]) -> Option<(u64, usize)> {
    const TOPS: u64 = 0x8080_8080_8080_8080;
    let word = u64::from_le_bytes(*src.first_chunk()?);
    let stops = !word & TOPS;
    if stops == 0 {
        return None;
    }
    // The bits up to the first byte whose top bit is clear; then groups of 7, 14, 28 bits close up.
    let word = word & (stops ^ (stops - 1)) & !TOPS;
    let word = (word & 0x007f_007f_007f_007f) | (word & 0x7f00_7f00_7f00_7f00) >> 1;
    let word = (word & 0x0000_3fff_0000_3fff) | (word & 0x3fff_0000_3fff_0000) >> 2;
    let word = (word & 0x0fff_ffff) | (word & 0x0fff_ffff_0000_0000) >> 4;
    Some((word, stops.trailing_zeros() as usize / 8 + 1))
}

impl Parsed {
    /// Takes the handle, encoded as a difference from `previous` if there is one, and the first key
    /// off `src`, which ends at `end` of the block.
    #[inline]
    fn take_value(
        &mut self,
        src: &mut Decoder<'_>,
        end: usize,
        previous: Option<BlockHandle>,
        encoding: IndexEncoding,
    ) -> Option<()> {
        self.handle = match previous {
            None => BlockHandle::decode(src)?,
            Some(previous) => {
                let size = previous.size.checked_add_signed(src.varsigned64()?)?;
                let offset = previous.offset.checked_add(previous.size)?;
                BlockHandle { offset: offset.checked_add(BLOCK_TRAILER_LEN as u64)?, size }
            }
        };
        if encoding.first_keys {
            self.first_len = src.varint32()?;
            self.first_at = len_u32(end - src.rest().len());
            src.bytes(self.first_len as usize)?;
        }
        Some(())
    }
}
