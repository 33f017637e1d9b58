//! Output buffers that codecs fill without anyone zeroing them first.
//!
//! Invariant 1: `fill` returns how many bytes, from the start, it initialised; it is at most the
//! length of the slice it was given. Every function passed to [`append`] lives in this crate and
//! gets the number from its codec.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use zstd_safe::WriteBuf;

/// Appends what `fill` writes into up to `room` bytes behind `out`; returns its size. `None`
/// appends nothing.
///
/// # Safety
/// `fill` keeps invariant 1.
pub(crate) unsafe fn append(
    out: &mut Vec<u8>,
    room: usize,
    fill: impl FnOnce(&mut [MaybeUninit<u8>]) -> Option<usize>,
) -> Option<usize> {
    out.reserve(room);
    let written = fill(&mut out.spare_capacity_mut()[..room])?;
    assert!(written <= room, "a codec reported writing past its buffer");
    // SAFETY: by invariant 1 `written` bytes behind the length are initialised, and they lie
    // within the capacity because `written <= room`.
    unsafe { out.set_len(out.len() + written) };
    Some(written)
}

/// Lets zstd write into such a buffer.
pub(crate) struct ZstdOut<'a> {
    buffer: &'a mut [MaybeUninit<u8>],
    filled: usize,
}

impl<'a> ZstdOut<'a> {
    pub(crate) fn new(buffer: &'a mut [MaybeUninit<u8>]) -> Self {
        ZstdOut { buffer, filled: 0 }
    }
}

// SAFETY: pointer and capacity describe the same exclusively borrowed slice, and `as_slice` covers
// only what `filled_until` was told is initialised.
unsafe impl WriteBuf for ZstdOut<'_> {
    fn as_slice(&self) -> &[u8] {
        let filled = &self.buffer[..self.filled];
        // SAFETY: the caller of `filled_until` promised that these bytes are initialised.
        unsafe { std::slice::from_raw_parts(filled.as_ptr().cast(), filled.len()) }
    }
    fn capacity(&self) -> usize {
        self.buffer.len()
    }
    fn as_mut_ptr(&mut self) -> *mut u8 {
        self.buffer.as_mut_ptr().cast()
    }
    unsafe fn filled_until(&mut self, n: usize) {
        self.filled = n;
    }
}
