//! The layout of a key and value in the arena, and the target of a search.
//!
//! ```text
//! Entry (8-aligned):  lens u32 | user key | trailer u64 | value
//! long ones:          WIDE u32 | key_len u32 | value_len u32 | user key | trailer u64 | value
//! ```
//!
//! `lens` has the length of the internal key in its low [`KEY_BITS`] and that of the value above
//! them. An internal key is one slice; the trailer after the user key makes eight bytes readable
//! from any user key's start.
//!
//! Invariants: (1) an `Entry` pointer comes from [`write_entry`], is never changed afterwards and
//! is valid while its arena lives; (2) it is handed to other threads by a release store.

use std::cmp::Ordering;
use std::slice;

use pumice_base::key::{InternalKey, TRAILER_LEN, unpack};
use pumice_base::narrow::len_u32;
use pumice_base::{Error, Result, UserKey, ValueType, copying};

use crate::order::KeyOrder;

/// Header of an entry; key and value follow.
#[repr(C)]
pub(crate) struct Entry {
    lens: u32,
}

/// Bits of `lens` for the internal key: 2 KiB, and 2 MiB for the value.
const KEY_BITS: u32 = 11;
const KEY_MASK: u32 = (1 << KEY_BITS) - 1;
/// Lengths from here on are in fields of their own.
const WIDE_KEY_LEN: usize = KEY_MASK as usize;
const WIDE_VALUE_LEN: usize = (1 << (u32::BITS - KEY_BITS)) - 1;
/// What such an entry has for `lens`.
const WIDE: u32 = u32::MAX;
/// Bytes before the key.
const HEADER: usize = size_of::<Entry>();
/// Bytes before the key in the wide form.
const WIDE_HEADER: usize = HEADER + 2 * size_of::<u32>();
/// Largest key or value: covers what a database admits, and what RocksDB's logs may hold besides.
pub(crate) const LEN_MAX: usize = u32::MAX as usize - TRAILER_LEN;

/// These lengths do not fit `lens`.
#[inline]
fn is_wide(user_key: &[u8], value: &[u8]) -> bool {
    user_key.len() + TRAILER_LEN >= WIDE_KEY_LEN || value.len() >= WIDE_VALUE_LEN
}

/// Bytes of an entry.
#[inline]
pub(crate) fn entry_bytes(user_key: &[u8], value: &[u8]) -> usize {
    let header = if is_wide(user_key, value) { WIDE_HEADER } else { HEADER };
    header + user_key.len() + TRAILER_LEN + value.len()
}

/// Writes an entry.
///
/// # Safety
/// `at` is 8-aligned and `entry_bytes` of it are writable and not yet shared; the lengths are at
/// most `LEN_MAX`.
#[inline]
pub(crate) unsafe fn write_entry(at: *mut u8, user_key: &[u8], trailer: u64, value: &[u8]) {
    let (key_len, value_len) = (len_u32(user_key.len() + TRAILER_LEN), len_u32(value.len()));
    // SAFETY: all within `entry_bytes` from `at`, by the contract.
    unsafe {
        let key = if is_wide(user_key, value) {
            at.cast::<[u32; 3]>().write([WIDE, key_len, value_len]);
            at.add(WIDE_HEADER)
        } else {
            at.cast::<Entry>().write(Entry { lens: key_len | value_len << KEY_BITS });
            at.add(HEADER)
        };
        key.copy_from_nonoverlapping(user_key.as_ptr(), user_key.len());
        let after = key.add(user_key.len());
        after.cast::<u64>().write_unaligned(trailer.to_le());
        copy_value(after.add(TRAILER_LEN), value);
    }
}

/// Copies a value, in pieces for the reason that [`copying`] gives.
///
/// # Safety
/// As many bytes as `value` has are writable at `to`.
#[inline]
unsafe fn copy_value(to: *mut u8, value: &[u8]) {
    if value.len() <= copying::PIECE_BYTES {
        // SAFETY: the value fits by the contract.
        unsafe { to.copy_from_nonoverlapping(value.as_ptr(), value.len()) };
        return;
    }
    let mut to = to;
    for piece in value.chunks(copying::PIECE_BYTES) {
        // SAFETY: the pieces are the value, which fits by the contract.
        unsafe {
            to.copy_from_nonoverlapping(piece.as_ptr(), piece.len());
            to = to.add(piece.len());
        }
    }
}

/// Starts loading the two cache lines from `at`: the header, the key and the start of the value.
/// Any address will do, null included.
#[inline]
pub(crate) fn prefetch(at: *const u8) {
    prefetch_line(at);
    prefetch_line(at.wrapping_add(64));
}

/// Starts loading the cache line at `at`, which may be any address.
#[inline]
pub(crate) fn prefetch_line(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

/// A published entry: a pointer that carries how long it is valid.
#[derive(Clone, Copy)]
pub(crate) struct EntryRef<'a> {
    at: *const Entry,
    _arena: std::marker::PhantomData<&'a ()>,
}

impl<'a> EntryRef<'a> {
    /// # Safety
    /// `at` is an entry (invariant 1) whose arena outlives `'a`.
    #[inline]
    pub(crate) unsafe fn new(at: *const Entry) -> Self {
        EntryRef { at, _arena: std::marker::PhantomData }
    }
    /// Where the key starts, its length and that of the value.
    #[inline]
    fn place(self) -> (*const u8, usize, usize) {
        // SAFETY: a valid entry; its key follows the header (invariant 1).
        unsafe {
            let lens = (*self.at).lens;
            if lens == WIDE {
                return self.wide_place();
            }
            let (key_len, value_len) = (lens & KEY_MASK, lens >> KEY_BITS);
            (self.at.cast::<u8>().add(HEADER), key_len as usize, value_len as usize)
        }
    }
    /// # Safety
    /// The entry has the wide form.
    #[cold]
    unsafe fn wide_place(self) -> (*const u8, usize, usize) {
        // SAFETY: the lengths follow the first field, and the key follows them.
        unsafe {
            let [_, key_len, value_len] = self.at.cast::<[u32; 3]>().read();
            (self.at.cast::<u8>().add(WIDE_HEADER), key_len as usize, value_len as usize)
        }
    }
    /// The internal key.
    #[inline]
    pub(crate) fn key(self) -> InternalKey<'a> {
        let (key, len, _) = self.place();
        // SAFETY: this many bytes were written there.
        InternalKey::new(unsafe { slice::from_raw_parts(key, len) })
    }
    /// The user key.
    #[inline]
    pub(crate) fn user_key(self) -> UserKey<'a> {
        let (key, len, _) = self.place();
        // SAFETY: as `key`; the trailer is its last eight bytes.
        UserKey::new(unsafe { slice::from_raw_parts(key, len - TRAILER_LEN) })
    }
    /// Sequence and type.
    #[inline]
    pub(crate) fn trailer(self) -> u64 {
        let (key, len, _) = self.place();
        // SAFETY: the last eight bytes of the key.
        unsafe { u64::from_le(key.add(len - TRAILER_LEN).cast::<u64>().read_unaligned()) }
    }
    /// A merge operand.
    #[inline]
    pub(crate) fn is_operand(self) -> bool {
        unpack(self.trailer()).1 == ValueType::Merge as u8
    }
    /// The value.
    #[inline]
    pub(crate) fn value(self) -> &'a [u8] {
        let (key, key_len, value_len) = self.place();
        // SAFETY: this many bytes were written after the key.
        unsafe { slice::from_raw_parts(key.add(key_len), value_len) }
    }
    /// The prefix of the user key.
    #[inline]
    pub(crate) fn prefix<O: KeyOrder>(self, order: O) -> u64 {
        let (key, len, _) = self.place();
        // SAFETY: the trailer follows the user key.
        unsafe { order.prefix_of_stored(key, len - TRAILER_LEN) }
    }
}

/// An internal key to search for or to insert, split into its parts once.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) prefix: u64,
    pub(crate) user_key: UserKey<'a>,
    pub(crate) trailer: u64,
}

impl<'a> Target<'a> {
    #[inline]
    pub(crate) fn new<O: KeyOrder>(order: O, user_key: UserKey<'a>, trailer: u64) -> Self {
        Target { prefix: order.prefix(user_key), user_key, trailer }
    }
    /// The target for an internal key of at least 8 bytes.
    pub(crate) fn from_ikey<O: KeyOrder>(order: O, ikey: InternalKey<'a>) -> Self {
        let user_key = ikey.user_key();
        Self::new(order, user_key, ikey.trailer())
    }
    /// `entry` against the target, in internal-key order.
    #[inline]
    pub(crate) fn compare_entry<O: KeyOrder>(&self, order: O, entry: EntryRef<'_>) -> Ordering {
        entry.prefix(order).cmp(&self.prefix).then_with(|| {
            order
                .compare(entry.user_key(), self.user_key)
                .then_with(|| self.trailer.cmp(&entry.trailer()))
        })
    }
}

/// Refuses what an entry cannot hold.
#[inline]
pub(crate) fn check_lengths(key: &[u8], value: &[u8]) -> Result<()> {
    if key.len() > LEN_MAX || value.len() > LEN_MAX {
        return Err(too_large(key));
    }
    Ok(())
}

#[cold]
fn too_large(key: &[u8]) -> Error {
    let what = if key.len() > LEN_MAX { "key" } else { "value" };
    Error::invalid_argument(format!("{what} is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lengths around those where the header takes its wide form, and empty ones.
    #[pumice_test_macros::test]
    fn entries_of_every_length_read_back() {
        let keys = [0, 1, 16, WIDE_KEY_LEN - TRAILER_LEN - 1, WIDE_KEY_LEN - TRAILER_LEN, 70_000];
        let values = [0, 1, 100, WIDE_VALUE_LEN - 1, WIDE_VALUE_LEN, WIDE_VALUE_LEN + 70_000];
        for (key_len, value_len) in keys.into_iter().flat_map(|k| values.map(|v| (k, v))) {
            let (key, value) = (vec![b'k'; key_len], vec![b'v'; value_len]);
            let bytes = entry_bytes(&key, &value);
            let mut memory = vec![u64::MAX; bytes.div_ceil(8) + 1];
            // SAFETY: `memory` is aligned, holds `bytes` and outlives the entry.
            let entry = unsafe {
                write_entry(memory.as_mut_ptr().cast(), &key, 0x1234, &value);
                EntryRef::new(memory.as_ptr().cast())
            };
            assert!(
                entry.user_key().as_bytes() == key && entry.value() == value,
                "{key_len}, {value_len}"
            );
            assert_eq!((entry.trailer(), entry.key().len()), (0x1234, key_len + TRAILER_LEN));
            let wide = key_len + TRAILER_LEN >= WIDE_KEY_LEN || value_len >= WIDE_VALUE_LEN;
            let header = if wide { WIDE_HEADER } else { HEADER };
            assert_eq!(bytes, header + key_len + TRAILER_LEN + value_len);
            // Nothing was written after it.
            let after = &memory[bytes.div_ceil(8)..];
            assert!(after.iter().all(|word| *word == u64::MAX), "{key_len}, {value_len}");
        }
    }
}
