//! Output buffers that codecs fill without zeroing them first.
//!
//! Invariant 1: `fill` returns how many bytes, from the start, it initialised; it is at most the
//! length of the slice it was given. Every function passed to [`append`] lives in this crate and
//! gets the number from its codec.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

/// Appends what `fill` writes into up to `room` bytes after the end of `out`; returns its size.
/// `None` appends nothing.
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
    // SAFETY: by invariant 1 `written` bytes after the length are initialised, and they lie within
    // the capacity because `written <= room`.
    unsafe { out.set_len(out.len() + written) };
    Some(written)
}
