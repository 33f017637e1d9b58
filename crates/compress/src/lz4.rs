//! Safe wrappers over the liblz4 functions that lz4-sys links but does not declare.
//!
//! Invariants: (1) a state is as large as liblz4 says, 8-byte aligned, and was initialised by
//! liblz4 before its first use, so the `fastReset` variants may be used ever after; (2) liblz4
//! reads only the source it is given and writes at most `dst_capacity` bytes from the start of the
//! destination, all initialised; (3) lengths passed to it fit `c_int`.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;

use lz4_sys as _;

/// The longest input liblz4 accepts.
pub(crate) const MAX_INPUT: usize = 0x7e00_0000;

// SAFETY: the signatures are those of lz4.h and lz4hc.h 1.10.0, which lz4-sys compiles and links.
unsafe extern "C" {
    fn LZ4_sizeofState() -> c_int;
    fn LZ4_sizeofStateHC() -> c_int;
    fn LZ4_initStream(state: *mut c_void, size: usize) -> *mut c_void;
    fn LZ4_initStreamHC(state: *mut c_void, size: usize) -> *mut c_void;
    fn LZ4_compress_fast_extState_fastReset(
        state: *mut c_void,
        src: *const c_char,
        dst: *mut c_char,
        src_len: c_int,
        dst_capacity: c_int,
        acceleration: c_int,
    ) -> c_int;
    fn LZ4_compress_HC_extStateHC_fastReset(
        state: *mut c_void,
        src: *const c_char,
        dst: *mut c_char,
        src_len: c_int,
        dst_capacity: c_int,
        level: c_int,
    ) -> c_int;
    fn LZ4_decompress_safe_usingDict(
        src: *const c_char,
        dst: *mut c_char,
        src_len: c_int,
        dst_capacity: c_int,
        dict: *const c_char,
        dict_len: c_int,
    ) -> c_int;
}

/// Which of the two compressors a state belongs to, with its parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The fast compressor with an acceleration.
    Fast(c_int),
    /// The high-compression one with a level.
    High(c_int),
}

/// A reusable compressor.
pub(crate) struct Lz4 {
    mode: Mode,
    state: Box<[u64]>,
}

impl Lz4 {
    pub(crate) fn new(mode: Mode) -> Self {
        // SAFETY: both take no argument and return a constant.
        let bytes = unsafe {
            match mode {
                Mode::Fast(_) => LZ4_sizeofState(),
                Mode::High(_) => LZ4_sizeofStateHC(),
            }
        } as usize;
        let mut state = vec![0u64; bytes.div_ceil(8)].into_boxed_slice();
        let at: *mut c_void = state.as_mut_ptr().cast();
        // SAFETY: `at` points to at least `bytes` writable, 8-byte aligned bytes.
        let initialised = unsafe {
            match mode {
                Mode::Fast(_) => LZ4_initStream(at, bytes),
                Mode::High(_) => LZ4_initStreamHC(at, bytes),
            }
        };
        assert!(!initialised.is_null(), "liblz4 refused a state of its own size");
        Lz4 { mode, state }
    }

    /// Compresses `src` into the start of `dst`; `None` if it does not fit.
    pub(crate) fn compress(&mut self, src: &[u8], dst: &mut [MaybeUninit<u8>]) -> Option<usize> {
        if src.len() > MAX_INPUT {
            return None;
        }
        let capacity = dst.len().min(c_int::MAX as usize) as c_int;
        let (from, to) = (src.as_ptr().cast(), dst.as_mut_ptr().cast());
        let (state, len) = (self.state.as_mut_ptr().cast(), src.len() as c_int);
        // SAFETY: by invariants 1 to 3.
        let written = unsafe {
            match self.mode {
                Mode::Fast(acceleration) => LZ4_compress_fast_extState_fastReset(
                    state,
                    from,
                    to,
                    len,
                    capacity,
                    acceleration,
                ),
                Mode::High(level) => {
                    LZ4_compress_HC_extStateHC_fastReset(state, from, to, len, capacity, level)
                }
            }
        };
        usize::try_from(written).ok().filter(|n| *n > 0)
    }
}

/// Decompresses one block into the start of `dst`; `None` if it is malformed or does not fit.
pub(crate) fn decompress(src: &[u8], dict: &[u8], dst: &mut [MaybeUninit<u8>]) -> Option<usize> {
    let src_len = c_int::try_from(src.len()).ok()?;
    let capacity = c_int::try_from(dst.len()).ok()?;
    // Only the last 64 KiB of a dictionary can be referred to.
    let dict = &dict[dict.len().saturating_sub(64 << 10)..];
    // SAFETY: by invariants 2 and 3; the dictionary is read only.
    let written = unsafe {
        LZ4_decompress_safe_usingDict(
            src.as_ptr().cast(),
            dst.as_mut_ptr().cast(),
            src_len,
            capacity,
            dict.as_ptr().cast(),
            dict.len() as c_int,
        )
    };
    usize::try_from(written).ok()
}
