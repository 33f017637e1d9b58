//! A decoded index block: separators and block handles in flat arrays (format spec section 2.4).
//!
//! The whole block is decoded once, when it is read: handle deltas are resolved, keys lie back to
//! back in one arena, and for bytewise orders an array holds eight bytes of each user key behind
//! the prefix common to all of them, so that a search is a binary search over integers that looks
//! at key bytes only on ties.
//!
//! The first keys of the blocks, where the index has them, are kept as user keys: a point lookup
//! below the first key of its block need not read the block.
//!
//! Separators ascend; a block that breaks this is refused, so that a search may trust the order.
//! Also used for the top level of partitioned indexes and filters. Immutable after construction.

use std::cmp::Ordering;

use pumice_base::InternalKeyComparator;
use pumice_base::coding::{Decoder, get_fixed32};
use pumice_base::dbformat::{TRAILER_LEN, trailer, user_key};
use pumice_base::planted::{self, Bug};

use crate::handle::{BLOCK_TRAILER_LEN, BlockHandle};
use crate::prefix::{common_prefix, prefix_word};
use crate::read::block::count_below;

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

/// Separators and handles of an index block.
#[derive(Debug, Default)]
pub struct IndexBlock {
    user_keys: bool,
    bytewise: bool,
    common_len: usize,
    words: Vec<u64>,
    keys: Vec<u8>,
    key_ends: Vec<u32>,
    handles: Vec<BlockHandle>,
    /// First user keys of the blocks; empty if the index has none.
    first_keys: Vec<u8>,
    first_ends: Vec<u32>,
}

impl IndexBlock {
    /// Decodes an uncompressed index block; the error says what is wrong.
    pub(crate) fn decode(
        data: &[u8],
        encoding: IndexEncoding,
        cmp: &InternalKeyComparator,
    ) -> Result<IndexBlock, &'static str> {
        let mut index = IndexBlock {
            user_keys: encoding.user_keys,
            bytewise: cmp.user.is_bytewise(),
            ..Default::default()
        };
        let entries_end = entries_end(data).ok_or("restart array too large")?;
        let mut src = Decoder::new(&data[..entries_end]);
        let mut key: Vec<u8> = Vec::new();
        let mut previous = BlockHandle::default();
        while !src.is_empty() {
            let (handle, first_key) = decode_entry(&mut src, encoding, &mut key, previous)
                .ok_or("malformed index entry")?;
            index.push(&key, handle, cmp)?;
            if encoding.first_keys {
                index.push_first_key(first_key)?;
            }
            previous = handle;
        }
        index.build_words();
        index.shrink();
        Ok(index)
    }

    fn push(
        &mut self,
        key: &[u8],
        handle: BlockHandle,
        cmp: &InternalKeyComparator,
    ) -> Result<(), &'static str> {
        if !self.user_keys && key.len() < TRAILER_LEN {
            return Err("index key too short");
        }
        if !self.is_empty() {
            let last = self.key(self.len() - 1);
            let order =
                if self.user_keys { cmp.user.compare(last, key) } else { cmp.compare(last, key) };
            if order == Ordering::Greater {
                return Err("index keys out of order");
            }
        }
        self.keys.extend_from_slice(key);
        self.key_ends.push(u32::try_from(self.keys.len()).map_err(|_| "index keys too long")?);
        self.handles.push(handle);
        Ok(())
    }

    fn push_first_key(&mut self, ikey: &[u8]) -> Result<(), &'static str> {
        let len = ikey.len().checked_sub(TRAILER_LEN).ok_or("first key too short")?;
        self.first_keys.extend_from_slice(&ikey[..len]);
        let end = u32::try_from(self.first_keys.len()).map_err(|_| "first keys too long")?;
        self.first_ends.push(end);
        Ok(())
    }

    fn build_words(&mut self) {
        if !self.bytewise || self.is_empty() {
            return;
        }
        let last = self.user_key(self.len() - 1);
        self.common_len = common_prefix(self.user_key(0), last);
        self.words =
            (0..self.len()).map(|i| prefix_word(&self.user_key(i)[self.common_len..])).collect();
    }

    fn shrink(&mut self) {
        self.keys.shrink_to_fit();
        self.key_ends.shrink_to_fit();
        self.handles.shrink_to_fit();
        self.first_keys.shrink_to_fit();
        self.first_ends.shrink_to_fit();
    }

    /// Number of blocks.
    #[inline]
    pub fn len(&self) -> usize {
        self.handles.len()
    }

    /// There are no blocks.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.handles.is_empty()
    }

    /// The handle of block `i`.
    #[inline]
    pub fn handle(&self, i: usize) -> BlockHandle {
        self.handles[i]
    }

    /// All handles.
    pub(crate) fn handles(&self) -> &[BlockHandle] {
        &self.handles
    }

    /// The separator of block `i`, as stored: a user key or an internal key.
    #[inline]
    pub fn key(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.key_ends[i - 1] as usize };
        &self.keys[start..self.key_ends[i] as usize]
    }

    /// The user key of the separator of block `i`.
    #[inline]
    pub fn user_key(&self, i: usize) -> &[u8] {
        let key = self.key(i);
        if self.user_keys { key } else { user_key(key) }
    }

    /// The index tells that every user key of block `i` is above `user_key`, so that the block need
    /// not be read to look it up.
    #[inline]
    pub(crate) fn begins_above(
        &self,
        i: usize,
        cmp: &InternalKeyComparator,
        user_key: &[u8],
    ) -> bool {
        let Some(&end) = self.first_ends.get(i) else { return false };
        let start = if i == 0 { 0 } else { self.first_ends[i - 1] };
        let first = &self.first_keys[start as usize..end as usize];
        cmp.user.compare(first, user_key).is_gt()
    }

    /// Separators are user keys: the versions of a user key never span two blocks.
    #[inline]
    pub fn stores_user_keys(&self) -> bool {
        self.user_keys
    }

    /// Memory held.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + 8 * self.words.capacity()
            + self.keys.capacity()
            + 4 * self.key_ends.capacity()
            + self.first_keys.capacity()
            + 4 * self.first_ends.capacity()
            + size_of::<BlockHandle>() * self.handles.capacity()
    }

    /// The first block whose separator is at or after internal key `target`; `len` if none.
    #[inline]
    pub fn seek(&self, cmp: &InternalKeyComparator, target: &[u8]) -> usize {
        let (mut lo, mut hi) = (0, self.len());
        if self.bytewise {
            match self.seek_words(user_key(target)) {
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

    fn compare(&self, i: usize, cmp: &InternalKeyComparator, target: &[u8]) -> Ordering {
        let key = self.key(i);
        if self.user_keys {
            return cmp.user.compare(key, user_key(target));
        }
        match cmp.user.compare(user_key(key), user_key(target)) {
            Ordering::Equal => trailer(target).cmp(&trailer(key)),
            other => other,
        }
    }

    /// The answer if the words decide, else the range of ties to search.
    #[inline]
    fn seek_words(&self, target: &[u8]) -> Result<usize, (usize, usize)> {
        if self.is_empty() {
            return Ok(0);
        }
        if self.common_len > 0 {
            let common = &self.keys[..self.common_len];
            let head = &target[..target.len().min(self.common_len)];
            match head.cmp(common) {
                Ordering::Less => return Ok(0),
                Ordering::Greater => return Ok(self.len()),
                Ordering::Equal => {}
            }
        }
        let word = prefix_word(&target[self.common_len..]);
        let lo = count_below(&self.words, word);
        let ties = self.words[lo..].iter().take_while(|&&w| w == word).count();
        if ties == 0 { Ok(lo) } else { Err((lo, lo + ties)) }
    }
}

/// Where the entries of an index block end. The hint about evenly spread keys (bit 29) is ignored;
/// an index block has no hash index and no separated values.
fn entries_end(data: &[u8]) -> Option<usize> {
    let end = data.len().checked_sub(4)?;
    let packed = get_fixed32(&data[end..])?;
    const UNIFORM: u32 = 1 << 29;
    let restarts = packed & !UNIFORM;
    end.checked_sub(4usize.checked_mul(restarts as usize)?)
}

/// Takes an entry off `src`: its separator into `key`, its handle, and the first internal key of
/// the block, empty if the index has none.
fn decode_entry<'a>(
    src: &mut Decoder<'a>,
    encoding: IndexEncoding,
    key: &mut Vec<u8>,
    previous: BlockHandle,
) -> Option<(BlockHandle, &'a [u8])> {
    let shared = src.varint32()? as usize;
    let suffix_len = src.varint32()? as usize;
    let value_len = if encoding.delta_handles { None } else { Some(src.varint32()? as usize) };
    if shared > key.len() {
        return None;
    }
    key.truncate(shared);
    key.extend_from_slice(src.bytes(suffix_len)?);
    if let Some(len) = value_len {
        let mut value = Decoder::new(src.bytes(len)?);
        let handle = BlockHandle::decode(&mut value)?;
        return Some((handle, first_key(&mut value, encoding)?));
    }
    let handle = if shared == 0 {
        BlockHandle::decode(src)?
    } else {
        let size = previous.size.checked_add_signed(src.varsigned64()?)?;
        let offset = previous.offset.checked_add(previous.size)?;
        BlockHandle { offset: offset.checked_add(BLOCK_TRAILER_LEN as u64)?, size }
    };
    Some((handle, first_key(src, encoding)?))
}

fn first_key<'a>(src: &mut Decoder<'a>, encoding: IndexEncoding) -> Option<&'a [u8]> {
    if encoding.first_keys { src.length_prefixed() } else { Some(&[]) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::build::index_builder::{IndexBuilder, IndexEntry, Separators};
    use crate::options::{IndexType, TableBuildContext, TableOptions};
    use pumice_base::dbformat::{internal_key, seek_key};
    use pumice_base::{Comparator, ValueType};
    use std::sync::Arc;

    fn options(delta_handles: bool) -> TableOptions {
        TableOptions {
            format_version: if delta_handles { 5 } else { 3 },
            index_block_restart_interval: 3,
            ..Default::default()
        }
    }

    fn build(cmp: &Comparator, options: TableOptions, versions: bool) -> (Vec<u8>, IndexEncoding) {
        let context = TableBuildContext {
            comparator: InternalKeyComparator::new(cmp.clone()),
            table: Arc::new(options),
            ..Default::default()
        };
        let separators = Separators::new(&context);
        let mut builder = IndexBuilder::new(&context).unwrap();
        let mut entry = IndexEntry::default();
        let mut ends: Vec<Vec<u8>> =
            (0..50u32).map(|i| format!("key{:05}", i * 10).into_bytes()).collect();
        ends.sort_by(|a, b| cmp.compare(a, b));
        let mut offset = 0;
        for (i, end) in ends.iter().enumerate() {
            let last = internal_key(end, 50, ValueType::Value);
            let first = internal_key(end, 60, ValueType::Value);
            let next = ends.get(i + 1).map(|k| internal_key(k, 50, ValueType::Value));
            let next = if versions && i == 7 {
                Some(internal_key(end, 20, ValueType::Value))
            } else {
                next
            };
            let size = 100 + (i as u64 * 37) % 50;
            separators.prepare(&last, next.as_deref(), &first, &mut entry);
            builder.push(&entry, BlockHandle::new(offset, size));
            offset += size + 5;
        }
        let encoding = IndexEncoding {
            user_keys: builder.stores_user_keys(),
            delta_handles: builder.delta_handles(),
            first_keys: context.table.index_type == IndexType::BinarySearchWithFirstKey,
        };
        let mut block = Vec::new();
        let mut write = |bytes: &mut Vec<u8>| {
            block = bytes.clone();
            Ok(BlockHandle::default())
        };
        builder.finish(&mut write).unwrap();
        (block, encoding)
    }

    #[pumice_test_macros::test]
    fn decodes_and_searches_what_the_builder_wrote() {
        for cmp in [Comparator::Bytewise, Comparator::ReverseBytewise] {
            for (delta, versions) in [(false, false), (true, false), (true, true)] {
                let (block, encoding) = build(&cmp, options(delta), versions);
                assert_eq!(encoding.user_keys, !versions);
                let icmp = InternalKeyComparator::new(cmp.clone());
                let index = IndexBlock::decode(&block, encoding, &icmp).unwrap();
                assert_eq!(index.len(), 50);
                let mut offset = 0;
                for i in 0..50 {
                    assert_eq!(index.handle(i).offset, offset);
                    offset = index.handle(i).end().unwrap();
                }
                for n in 0..520u32 {
                    let target = seek_key(format!("key{n:05}").as_bytes(), 30);
                    let want =
                        (0..50).find(|&i| index.compare(i, &icmp, &target).is_ge()).unwrap_or(50);
                    assert_eq!(index.seek(&icmp, &target), want, "{n} {cmp:?}");
                }
            }
        }
    }

    /// First keys, delta-encoded handles or not, and what they say about lookups.
    #[pumice_test_macros::test]
    fn decodes_first_keys() {
        for cmp in [Comparator::Bytewise, Comparator::ReverseBytewise] {
            for delta in [false, true] {
                let icmp = InternalKeyComparator::new(cmp.clone());
                let kind = IndexType::BinarySearchWithFirstKey;
                let options = TableOptions { index_type: kind, ..options(delta) };
                let (block, encoding) = build(&cmp, options, false);
                let index = IndexBlock::decode(&block, encoding, &icmp).unwrap();
                assert_eq!(index.len(), 50);
                for i in 0..50 {
                    // The first key of a block of one key is its last.
                    let number = if cmp.is_bytewise() { i * 10 } else { 490 - i * 10 };
                    let first = format!("key{number:05}");
                    assert!(!index.begins_above(i, &icmp, first.as_bytes()));
                    let (shorter, longer) = (first[..7].to_string(), format!("{first}0"));
                    let (before, behind) =
                        if cmp.is_bytewise() { (shorter, longer) } else { (longer, shorter) };
                    assert!(index.begins_above(i, &icmp, before.as_bytes()));
                    assert!(!index.begins_above(i, &icmp, behind.as_bytes()));
                }
            }
        }
    }

    #[pumice_test_macros::test]
    fn refuses_damage_without_panic() {
        for first_keys in [false, true] {
            refuse_damage(first_keys);
        }
    }

    fn refuse_damage(first_keys: bool) {
        let cmp = InternalKeyComparator::default();
        let mut settings = options(true);
        if first_keys {
            settings.index_type = IndexType::BinarySearchWithFirstKey;
        }
        let (block, encoding) = build(&Comparator::Bytewise, settings, false);
        for at in 0..block.len() {
            for bit in 0..8 {
                let mut bad = block.clone();
                bad[at] ^= 1 << bit;
                if let Ok(index) = IndexBlock::decode(&bad, encoding, &cmp) {
                    let at = index.seek(&cmp, &seek_key(b"key00123", 9));
                    index.begins_above(at, &cmp, b"key00123");
                }
            }
            if let Ok(index) = IndexBlock::decode(&block[..at], encoding, &cmp) {
                index.seek(&cmp, &seek_key(b"key00123", 9));
            }
        }
    }
}
