//! Index entries in flat arrays, and their encoding as an index block.
//!
//! ```text
//! delta:  varint shared ‖ varint non_shared ‖ key suffix ‖ (handle | svarint size difference)
//! plain:  varint shared ‖ varint non_shared ‖ varint value_len ‖ key suffix ‖ handle
//! each with the length-prefixed first key after the handle if the index stores first keys
//! ```
//!
//! With delta handles an entry that shares no key byte carries a full handle. A block that does
//! not begin where its predecessor ended (padding lies between) therefore is made to share none, as
//! in RocksDB also without delta handles, unless all blocks are aligned to pages.
//!
//! One owner. Invariants: (1) `key_ends` and `handles` have one element per entry; (2) separators
//! are internal keys; (3) `first_ends` is empty or has one element per entry.

use std::ops::Range;

use pumice_base::Result;
use pumice_base::coding::varint_len;
use pumice_base::key::TRAILER_LEN;
use pumice_base::narrow::{len_u32, low_u8};
use pumice_base::planted::{self, Bug};

use crate::block_footer::EVEN_KEYS;
use crate::build::block_builder::block_too_large;
use crate::build::index_builder::evenness::are_even;
use crate::handle::BlockHandle;
use crate::prefix::common_prefix;

/// How entries are encoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// Entries per restart point, at least 1.
    pub restart_interval: usize,
    pub delta_handles: bool,
    /// Padding lies between any two blocks.
    pub aligned: bool,
    pub user_keys: bool,
    pub first_keys: bool,
    /// Blocks whose keys vary less in their distances are marked.
    pub even_below: f64,
    /// Bytes of a block, at most.
    pub bytes_max: usize,
}

/// Separators, handles and first keys of consecutive blocks.
#[derive(Debug, Default)]
pub(super) struct Entries {
    keys: Vec<u8>,
    key_ends: Vec<usize>,
    handles: Vec<BlockHandle>,
    first_keys: Vec<u8>,
    first_ends: Vec<usize>,
}

/// What an entry looks like at its place in a block.
struct Shape<'a> {
    key: &'a [u8],
    shared: usize,
    /// The size of the block before, if the handle is stored as a difference to it.
    previous_size: Option<u64>,
}

impl Entries {
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.handles.len()
    }

    /// Adds an entry.
    pub fn push(&mut self, separator: &[u8], handle: BlockHandle) {
        self.keys.extend_from_slice(separator);
        self.key_ends.push(self.keys.len());
        self.handles.push(handle);
    }

    /// Adds an entry with the first internal key of its block.
    pub fn push_with_first_key(&mut self, separator: &[u8], handle: BlockHandle, first: &[u8]) {
        self.push(separator, handle);
        self.first_keys.extend_from_slice(first);
        self.first_ends.push(self.first_keys.len());
    }

    /// Approximate size of a block of all entries.
    pub fn estimated_bytes(&self) -> usize {
        self.keys.len() + 8 * self.handles.len() + self.first_keys.len() + 8
    }

    /// The separator of entry `i`, an internal key.
    pub fn separator(&self, i: usize) -> &[u8] {
        slice(&self.keys, &self.key_ends, i)
    }

    fn key(&self, i: usize, form: Form) -> &[u8] {
        let key = self.separator(i);
        if form.user_keys { &key[..key.len() - TRAILER_LEN] } else { key }
    }

    fn first_key(&self, i: usize) -> &[u8] {
        slice(&self.first_keys, &self.first_ends, i)
    }

    /// Entry `i` as number `place` of its block.
    fn shape(&self, i: usize, place: usize, form: Form) -> Shape<'_> {
        let key = self.key(i, form);
        if place.is_multiple_of(form.restart_interval) {
            return Shape { key, shared: 0, previous_size: None };
        }
        let previous = self.handles[i - 1];
        let adjacent = previous.end() == Some(self.handles[i].offset);
        if !form.aligned && !adjacent {
            return Shape { key, shared: 0, previous_size: None };
        }
        let shared = common_prefix(self.key(i - 1, form), key);
        let base = match planted::is(Bug::HandleDeltaFromRestart) {
            true => self.handles[i - place % form.restart_interval],
            false => previous,
        };
        let previous_size = (form.delta_handles && shared > 0).then_some(base.size);
        Shape { key, shared, previous_size }
    }

    /// Bytes of entry `i` as number `place` of its block, its restart point included.
    pub fn encoded_len(&self, i: usize, place: usize, form: Form) -> usize {
        let shape = self.shape(i, place, form);
        let handle = self.handles[i];
        let mut value = match shape.previous_size {
            Some(size) => varint_len(zigzag(handle.size, size)),
            None => varint_len(handle.offset) + varint_len(handle.size),
        };
        if form.first_keys {
            let first = self.first_key(i).len();
            value += varint_len(first as u64) + first;
        }
        let suffix = shape.key.len() - shape.shared;
        let value_len = if form.delta_handles { 0 } else { varint_len(value as u64) };
        let restart = if place.is_multiple_of(form.restart_interval) { 4 } else { 0 };
        let lens = varint_len(shape.shared as u64) + varint_len(suffix as u64) + value_len;
        lens + suffix + value + restart
    }

    /// Replaces `block` by an index block of entries `range`; true if it is marked as even.
    ///
    /// # Errors
    /// NotSupported if they exceed a block.
    pub fn encode(&self, range: Range<usize>, form: Form, block: &mut Vec<u8>) -> Result<bool> {
        let too_large = || block_too_large("an index", form.bytes_max);
        // A reader reassembles the shared bytes, and counts them all in 32 bits.
        if self.raw_bytes(&range) > form.bytes_max {
            return Err(too_large());
        }
        block.clear();
        if range.len() == self.len() {
            block.reserve(self.estimated_bytes() + 8 * self.len());
        }
        let mut restarts = Vec::with_capacity(range.len() / form.restart_interval + 1);
        for (place, i) in range.clone().enumerate() {
            if place.is_multiple_of(form.restart_interval) {
                restarts.push(u32::try_from(block.len()).map_err(|_| too_large())?);
            }
            self.encode_entry(i, &self.shape(i, place, form), form, block);
        }
        if restarts.is_empty() {
            restarts.push(0);
        }
        for restart in &restarts {
            block.extend_from_slice(&restart.to_le_bytes());
        }
        let even = form.even_below >= 0.0 && self.is_even(range, form);
        let packed = len_u32(restarts.len()) | if even { EVEN_KEYS } else { 0 };
        block.extend_from_slice(&packed.to_le_bytes());
        if block.len() > form.bytes_max { Err(too_large()) } else { Ok(even) }
    }

    fn is_even(&self, range: Range<usize>, form: Form) -> bool {
        let keys = range.step_by(form.restart_interval).map(|i| self.key(i, form));
        are_even(keys, if form.user_keys { 0 } else { TRAILER_LEN }, form.even_below)
    }

    /// Bytes of the separators and first keys of `range`, nothing of them shared.
    fn raw_bytes(&self, range: &Range<usize>) -> usize {
        let of = |ends: &[usize]| {
            let upto = |i: usize| i.checked_sub(1).and_then(|i| ends.get(i)).copied().unwrap_or(0);
            upto(range.end) - upto(range.start)
        };
        of(&self.key_ends).max(of(&self.first_ends))
    }

    fn encode_entry(&self, i: usize, shape: &Shape<'_>, form: Form, block: &mut Vec<u8>) {
        let (handle, mut value) = (self.handles[i], Varints::default());
        match shape.previous_size {
            Some(size) => value.push(zigzag(handle.size, size)),
            None => {
                value.push(handle.offset);
                value.push(handle.size);
            }
        }
        let mut first: &[u8] = &[];
        if form.first_keys {
            let next = planted::is(Bug::FirstKeyOfNextBlock) && i + 1 < self.len();
            first = self.first_key(i + usize::from(next));
            value.push(first.len() as u64);
        }
        let mut header = Varints::default();
        header.push(shape.shared as u64);
        header.push((shape.key.len() - shape.shared) as u64);
        if !form.delta_handles {
            header.push((value.len + first.len()) as u64);
        }
        header.append_to(block);
        block.extend_from_slice(&shape.key[shape.shared..]);
        value.append_to(block);
        block.extend_from_slice(first);
    }
}

/// Up to three varints.
#[derive(Default)]
struct Varints {
    bytes: [u8; 32],
    len: usize,
}

impl Varints {
    #[inline(always)]
    fn push(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes[self.len] = low_u8(number) | 0x80;
            (self.len, number) = (self.len + 1, number >> 7);
        }
        self.bytes[self.len] = low_u8(number);
        self.len += 1;
    }

    /// With a copy of fixed length, which needs no call.
    #[inline(always)]
    fn append_to(&self, block: &mut Vec<u8>) {
        let end = block.len() + self.len;
        block.extend_from_slice(&self.bytes);
        block.truncate(end);
    }
}

fn slice<'a>(bytes: &'a [u8], ends: &[usize], i: usize) -> &'a [u8] {
    let start = if i == 0 { 0 } else { ends[i - 1] };
    &bytes[start..ends[i]]
}

/// The number that the signed varint of `size - previous` stores.
fn zigzag(size: u64, previous: u64) -> u64 {
    let difference = size.wrapping_sub(previous) as i64;
    ((difference << 1) ^ (difference >> 63)) as u64
}
