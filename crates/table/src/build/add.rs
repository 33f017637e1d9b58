//! Adding entries: the per-key path, and the work done once per data block.
//!
//! Monomorphised over the order of user keys, with one dispatch per entry. Per entry: one
//! comparison with the last key of the block, whose length of common prefix serves the order check
//! and the encoding, and copies into reused buffers. Filters and the index wait until the block
//! ends.
//!
//! The usual entry (a value of a user key that differs from the last one in a byte of both, in
//! order, not at the end of a block) has a path of its own, which checks everything before it
//! changes anything. Everything else takes the general path. Both produce the same bytes.

use pumice_base::narrow::low_u8;
use std::cmp::Ordering;

use pumice_base::key::{InternalKey, TRAILER_LEN, UserKey, unpack};
use pumice_base::{Comparator, Error, Result, SizeLimits, ValueType};

use crate::build::BlockBasedTableBuilder;
use crate::build::block_builder::{BLOCK_FOOTER_LEN, MAX_ENTRY_OVERHEAD};
use crate::handle::BLOCK_TRAILER_LEN;
use crate::options::{IndexType, TableOptions};
use crate::prefix::{common_prefix, differing_word, equal_bytes};

/// An order of internal keys.
trait KeyOrder {
    /// `last` sorts before `next`, two user keys that differ first in one of the bytes of `x` and
    /// `y`, little-endian words at the same place of both.
    fn ascending_at(user: &Comparator, last: &[u8], next: &[u8], x: u64, y: u64) -> bool;

    /// `last` sorts before `next`; their first `common` bytes are equal, and no more.
    fn ascending(user: &Comparator, last: &[u8], next: &[u8], common: usize) -> bool;
}

struct Bytewise;
struct ReverseBytewise;
struct Custom;

/// Where the user key of the next entry first differs from the last one.
enum Difference {
    /// In a byte: the last key's and the next one's.
    Byte(u8, u8),
    /// The last key ends there and the next one is longer.
    Longer,
    /// The next key ends there and the last one is longer.
    Shorter,
    /// Nowhere; true if the next entry is an older version.
    None(bool),
}

#[inline(always)]
fn first_difference(last: &[u8], next: &[u8], common: usize) -> Difference {
    let user_common = common + TRAILER_LEN;
    if user_common < last.len() && user_common < next.len() {
        return Difference::Byte(last[common], next[common]);
    }
    match last.len().cmp(&next.len()) {
        Ordering::Less => Difference::Longer,
        Ordering::Greater => Difference::Shorter,
        Ordering::Equal => {
            let (last, next) = (InternalKey::new(last), InternalKey::new(next));
            Difference::None(last.trailer() > next.trailer())
        }
    }
}

impl KeyOrder for Bytewise {
    #[inline(always)]
    fn ascending_at(_: &Comparator, _: &[u8], _: &[u8], x: u64, y: u64) -> bool {
        x.swap_bytes() < y.swap_bytes()
    }

    #[inline(always)]
    fn ascending(_: &Comparator, last: &[u8], next: &[u8], common: usize) -> bool {
        match first_difference(last, next, common) {
            Difference::Byte(a, b) => a < b,
            Difference::Longer => true,
            Difference::Shorter => false,
            Difference::None(older) => older,
        }
    }
}

impl KeyOrder for ReverseBytewise {
    #[inline(always)]
    fn ascending_at(_: &Comparator, _: &[u8], _: &[u8], x: u64, y: u64) -> bool {
        x.swap_bytes() > y.swap_bytes()
    }

    #[inline(always)]
    fn ascending(_: &Comparator, last: &[u8], next: &[u8], common: usize) -> bool {
        match first_difference(last, next, common) {
            Difference::Byte(a, b) => a > b,
            Difference::Longer => false,
            Difference::Shorter => true,
            Difference::None(older) => older,
        }
    }
}

impl KeyOrder for Custom {
    fn ascending_at(user: &Comparator, last: &[u8], next: &[u8], _: u64, _: u64) -> bool {
        user.compare(UserKey::new(last), UserKey::new(next)) == Ordering::Less
    }

    fn ascending(user: &Comparator, last: &[u8], next: &[u8], _: usize) -> bool {
        let (last, next) = (InternalKey::new(last), InternalKey::new(next));
        match user.compare(last.user_key(), next.user_key()) {
            Ordering::Less => true,
            Ordering::Equal => last.trailer() > next.trailer(),
            Ordering::Greater => false,
        }
    }
}

/// The common prefix of an internal key with the last one, if it ends within both user keys and
/// they are in order.
#[inline(always)]
fn usual_prefix<O: KeyOrder>(user: &Comparator, last: &[u8], ikey: &[u8]) -> Option<usize> {
    let (at, x, y) = differing_word(last, ikey)?;
    let common = at + equal_bytes(x, y);
    let usual = common + TRAILER_LEN < last.len().min(ikey.len())
        && O::ascending_at(
            user,
            InternalKey::new(last).user_key().as_bytes(),
            InternalKey::new(ikey).user_key().as_bytes(),
            x,
            y,
        );
    usual.then_some(common)
}

/// When a block ends.
#[derive(Debug)]
pub(super) struct BlockEnd {
    /// While the block with the next entry stays below this, it continues whatever the exact rule
    /// says: the rule's estimate is never larger.
    surely_open: usize,
    /// Bytes that no block may exceed: the limit of the format.
    bytes_max: usize,
    /// Fill above which a block may end early.
    almost_full: usize,
    block_size: usize,
    deviation: bool,
    align: bool,
}

impl BlockEnd {
    pub fn new(options: &TableOptions, limits: SizeLimits) -> Self {
        let bytes_max = limits.block_bytes();
        let share = 100 - options.block_size_deviation.min(100) as usize;
        let reserve = MAX_ENTRY_OVERHEAD + 4 + BLOCK_TRAILER_LEN;
        let almost_full = (options.block_size * share).div_ceil(100);
        BlockEnd {
            surely_open: options.block_size.min(bytes_max).saturating_sub(reserve),
            bytes_max,
            almost_full,
            block_size: options.block_size,
            // As in RocksDB: a block that may end at any fill ends when it is full, and one without
            // tolerance early only where it would not fit its page.
            deviation: almost_full > 0,
            align: options.block_align,
        }
    }

    /// Every further entry ends the block, so that none is accepted without reporting the error.
    fn poison(&mut self) {
        (self.surely_open, self.block_size) = (0, 0);
    }

    /// An entry fits a block of its own.
    fn check_entry(&self, ikey: &[u8], value: &[u8]) -> Result<()> {
        let room = self.bytes_max - (MAX_ENTRY_OVERHEAD + BLOCK_FOOTER_LEN);
        if ikey.len().saturating_add(value.len()) <= room {
            return Ok(());
        }
        let what = if ikey.len() > room { "key" } else { "value" };
        Err(Error::invalid_argument(format!("{what} is too large")))
    }

    /// Size below which a block is not full, whatever the next entry.
    pub fn surely_open(&self) -> usize {
        self.surely_open
    }
}

/// What is counted entry by entry; the rest is counted per block.
#[derive(Debug)]
pub(super) struct EntryTotals {
    /// Largest and smallest trailer of a key: they order as their sequence numbers do.
    largest_trailer: u64,
    smallest_trailer: u64,
    value_bytes: u64,
}

impl EntryTotals {
    pub const NONE: EntryTotals =
        EntryTotals { largest_trailer: 0, smallest_trailer: u64::MAX, value_bytes: 0 };

    /// An entry whose key has the trailer `packed`.
    #[inline(always)]
    fn note(&mut self, packed: u64, value_bytes: usize) {
        // New extremes are either rare or the rule, so branches predict well and cost less than two
        // stores.
        if packed > self.largest_trailer {
            self.largest_trailer = packed;
        }
        if packed < self.smallest_trailer {
            self.smallest_trailer = packed;
        }
        self.value_bytes += value_bytes as u64;
    }

    /// Smallest and largest sequence number; meaningless without an entry.
    pub fn seqno_bounds(&self) -> (u64, u64) {
        (unpack(self.smallest_trailer).0, unpack(self.largest_trailer).0)
    }

    /// Bytes of all values.
    pub fn value_bytes(&self) -> u64 {
        self.value_bytes
    }
}

impl BlockBasedTableBuilder {
    /// Adds an entry. Point entries come in internal-key order; range tombstones (value = end
    /// key) may come at any time. May suspend, once per block.
    ///
    /// # Errors
    /// `Corruption` for keys out of order or malformed; I/O errors, also of earlier blocks, and
    /// then on every later call.
    #[inline]
    pub fn add(&mut self, ikey: &[u8], value: &[u8]) -> Result<()> {
        match self.context.comparator.user {
            Comparator::Bytewise => self.add_in::<Bytewise>(ikey, value),
            _ => self.add_unusual(ikey, value),
        }
    }

    /// As `add`, out of line, for the comparators that are not worth inlining.
    #[inline(never)]
    fn add_unusual(&mut self, ikey: &[u8], value: &[u8]) -> Result<()> {
        match self.context.comparator.user {
            Comparator::Bytewise => self.add_in::<Bytewise>(ikey, value),
            Comparator::ReverseBytewise => self.add_in::<ReverseBytewise>(ikey, value),
            Comparator::Custom(_) => self.add_in::<Custom>(ikey, value),
        }
    }

    #[inline(always)]
    fn add_in<O: KeyOrder>(&mut self, ikey: &[u8], value: &[u8]) -> Result<()> {
        if let Some(packed) = ikey.last_chunk::<TRAILER_LEN>().map(|b| u64::from_le_bytes(*b))
            && low_u8(packed) == ValueType::Value as u8
            && let Some(next) = self.keys.next_usual(ikey.len())
            && let Some(common) = usual_prefix::<O>(&self.context.comparator.user, next.last, ikey)
            && self.data.is_usual(ikey.len(), value.len())
        {
            self.totals.note(packed, value.len());
            next.push(ikey);
            self.data.append_usual(ikey, value, common);
            return Ok(());
        }
        std::hint::cold_path();
        self.add_any::<O>(ikey, value)
    }

    /// Adds an entry of any kind at any place.
    #[inline(never)]
    fn add_any<O: KeyOrder>(&mut self, ikey: &[u8], value: &[u8]) -> Result<()> {
        debug_assert!(!self.finished, "add after finish");
        let Some(packed) = ikey.last_chunk::<TRAILER_LEN>() else {
            return Err(Error::corruption("internal key shorter than its trailer"));
        };
        let packed = u64::from_le_bytes(*packed);
        if low_u8(packed) == ValueType::RangeDeletion as u8 {
            return self.add_tombstone(ikey, value);
        }
        self.end.check_entry(ikey, value)?;
        let last = self.keys.last();
        let common = common_prefix(last, ikey);
        if !last.is_empty() {
            if !O::ascending(&self.context.comparator.user, last, ikey, common) {
                return Err(self.out_of_order(ikey));
            }
            let hash = self.hash.as_mut().map_or(0, |hash| hash.bytes_for(self.keys.len()));
            let now = self.data.estimated_bytes() + hash;
            let exceeds = now + ikey.len() + value.len() >= self.end.surely_open;
            if exceeds && self.block_is_full(now, ikey.len(), value.len())
                || self.keys.is_full(ikey.len())
            {
                self.end_block(Some(ikey))?;
            }
        }
        self.data.append(ikey, value, common);
        self.keys.push(ikey);
        self.totals.note(packed, value.len());
        self.properties.num_deletions += u64::from(is_deletion(low_u8(packed)));
        self.properties.num_merge_operands += u64::from(low_u8(packed) == ValueType::Merge as u8);
        Ok(())
    }

    #[cold]
    fn out_of_order(&self, ikey: &[u8]) -> Error {
        Error::corruption(format!(
            "Keys must be added in strict ascending order: {:02x?} after {:02x?} in {}",
            ikey,
            self.keys.last(),
            self.path.display()
        ))
    }

    /// The block of `now` bytes has reached its target size, or would exceed it with this entry and
    /// is nearly full.
    fn block_is_full(&self, now: usize, key_len: usize, value_len: usize) -> bool {
        let end = &self.end;
        if now + key_len + value_len + MAX_ENTRY_OVERHEAD > end.bytes_max {
            return true;
        }
        // An index of one block must not exceed it either: fewer and larger blocks have fewer
        // separators. That takes gibibytes of keys, so the usual block size does not matter then.
        if self.index_bytes > (end.bytes_max / 2) as u64 && self.index_is_one_block() {
            return false;
        }
        if now >= end.block_size {
            return true;
        }
        if !end.deviation {
            return false;
        }
        let after =
            now - self.data.estimated_bytes() + self.data.estimated_bytes_after(key_len, value_len);
        if end.align {
            return after + BLOCK_TRAILER_LEN > end.block_size;
        }
        after > end.block_size && now > end.almost_full
    }

    fn index_is_one_block(&self) -> bool {
        self.context.table.index_type != IndexType::TwoLevel
    }

    fn add_tombstone(&mut self, ikey: &[u8], end: &[u8]) -> Result<()> {
        self.end.check_entry(ikey, end)?;
        let user = &self.context.comparator.user;
        let (start, last) = (InternalKey::new(ikey).user_key(), UserKey::new(end));
        if user.compare_without_timestamp(start, last) == Ordering::Greater {
            return Err(Error::corruption("range tombstone ends before it starts"));
        }
        self.totals.note(InternalKey::new(ikey).trailer(), end.len());
        let properties = &mut self.properties;
        properties.raw_key_size += ikey.len() as u64;
        properties.num_entries += 1;
        properties.num_deletions += 1;
        properties.num_range_deletions += 1;
        self.tombstones.push((ikey.to_vec(), end.to_vec()));
        Ok(())
    }

    /// Ends the data block and sends it off; `next_key` begins the next one.
    #[inline(never)]
    pub(super) fn end_block(&mut self, next_key: Option<&[u8]>) -> Result<()> {
        let ended = self.send_block(next_key);
        if ended.is_err() {
            self.end.poison();
            self.data.set_surely_open(0);
        }
        ended
    }

    fn send_block(&mut self, next_key: Option<&[u8]>) -> Result<()> {
        self.pipeline.check()?;
        self.properties.num_entries += self.keys.len() as u64;
        self.properties.raw_key_size += self.keys.bytes() as u64;
        self.properties.num_data_blocks += 1;
        let entry = &mut self.entry;
        self.separators.prepare(self.keys.last(), next_key, self.keys.first(), entry);
        if self.separators.wants_prefixes() {
            self.separators.note_prefixes(self.keys.user_keys(), entry);
        }
        if let Some(filter) = &mut self.filter {
            filter.add_block(&mut self.keys);
        }
        if let Some(rule) = &mut self.cuts {
            rule.decide(entry, self.filter.as_ref().is_some_and(|filter| filter.wants_cut()));
        }
        if let Some(filter) = &mut self.filter {
            filter.block_ends(entry.cut_after, next_key);
        }
        self.index_bytes += entry.estimated_bytes() as u64;
        let tail = self.tail_estimate();
        let buffer = self.data.finish();
        if let Some(hash) = &mut self.hash {
            buffer.change_block(|bytes, start| hash.add_to(bytes, start, &self.keys));
        }
        if let Some(sampling) = &mut self.sampling
            && let Err(error) = sampling.block(buffer.block())
        {
            return Err(self.pipeline.fail(error));
        }
        let last = next_key.is_none();
        self.pipeline.submit(buffer, &mut self.entry, &mut self.sizes, tail, last)?;
        self.data.reset();
        self.keys.clear();
        Ok(())
    }

    /// Approximate size of what follows the data blocks.
    fn tail_estimate(&self) -> u64 {
        self.index_bytes + self.filter.as_ref().map_or(0, |f| f.estimated_bytes() as u64)
    }
}

/// The tag is one of the deletions of single keys.
#[inline]
fn is_deletion(tag: u8) -> bool {
    const DELETION: u8 = ValueType::Deletion as u8;
    const SINGLE: u8 = ValueType::SingleDeletion as u8;
    const TIMED: u8 = ValueType::DeletionWithTimestamp as u8;
    matches!(tag, DELETION | SINGLE | TIMED)
}
