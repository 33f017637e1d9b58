//! Safe wrappers over the liblz4 functions that lz4-sys links but does not declare. Behind the
//! feature `lz4`; `lz4_absent.rs` stands in for it.
//!
//! Invariants: (1) a state is as large as liblz4 says, 8-byte aligned, and was initialised by
//! liblz4 before its first use, so the fast resets may be used as long as no call failed, and after
//! a failure it is initialised again; (2) liblz4 reads only the source and dictionary it is given
//! and writes at most `dst_capacity` bytes from the start of the destination, all initialised; (3)
//! lengths passed to it fit `c_int`; (4) a dictionary's state refers to bytes that the same value
//! owns, is never written after it was loaded, and a working state to which it is attached holds a
//! count of it; (5) a working state is reset before each block, which forgets the block before
//! without reading it.
//!
//! A dictionary is attached per block. Measured (`crates/table/benches/dictionary.rs`) with 16 KiB
//! of dictionary: attaching costs nothing at 1 KiB (copying the loaded state 140 ns) and as much as
//! copying from 4 KiB on, where liblz4 itself copies; loading it per block, as RocksDB does, 5 us
//! more. As it is loaded once per table, it is loaded the thorough way: 14 us more, blocks 1 to 2 %
//! smaller.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::Arc;

use lz4_sys as _;

use crate::options::{CompressionType, DEFAULT_LEVEL};

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
    fn LZ4_loadDictSlow(stream: *mut c_void, dict: *const c_char, dict_len: c_int) -> c_int;
    fn LZ4_resetStream_fast(stream: *mut c_void);
    fn LZ4_attach_dictionary(stream: *mut c_void, dict: *const c_void);
    fn LZ4_compress_fast_continue(
        stream: *mut c_void,
        src: *const c_char,
        dst: *mut c_char,
        src_len: c_int,
        dst_capacity: c_int,
        acceleration: c_int,
    ) -> c_int;
    fn LZ4_loadDictHC(stream: *mut c_void, dict: *const c_char, dict_len: c_int) -> c_int;
    fn LZ4_resetStreamHC_fast(stream: *mut c_void, level: c_int);
    fn LZ4_attach_HC_dictionary(stream: *mut c_void, dict: *const c_void);
    fn LZ4_compress_HC_continue(
        stream: *mut c_void,
        src: *const c_char,
        dst: *mut c_char,
        src_len: c_int,
        dst_capacity: c_int,
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

impl Mode {
    /// The meaning of level `level` of `kind`: a negative one of LZ4 is its acceleration, and
    /// liblz4 takes 0 for the default level of LZ4HC.
    pub(crate) fn of(kind: CompressionType, level: i32) -> Self {
        match (kind, level) {
            (CompressionType::Lz4hc, DEFAULT_LEVEL) => Mode::High(0),
            (CompressionType::Lz4hc, level) => Mode::High(level),
            (_, level) if level < 0 => Mode::Fast(level.saturating_neg()),
            _ => Mode::Fast(1),
        }
    }

    /// Bytes of a state.
    fn state_bytes(self) -> usize {
        // SAFETY: both take no argument and return a constant.
        let bytes = unsafe {
            match self {
                Mode::Fast(_) => LZ4_sizeofState(),
                Mode::High(_) => LZ4_sizeofStateHC(),
            }
        };
        bytes as usize
    }

    /// Resets `state` to its unused form.
    fn initialise(self, state: &mut [u64]) {
        let bytes = self.state_bytes();
        assert!(size_of_val(state) >= bytes);
        let at: *mut c_void = state.as_mut_ptr().cast();
        // SAFETY: `at` points to at least `bytes` writable, 8-byte aligned bytes.
        let initialised = unsafe {
            match self {
                Mode::Fast(_) => LZ4_initStream(at, bytes),
                Mode::High(_) => LZ4_initStreamHC(at, bytes),
            }
        };
        assert!(!initialised.is_null(), "liblz4 refused a state of its own size");
    }

    fn new_state(self) -> Box<[u64]> {
        let mut state = vec![0u64; self.state_bytes().div_ceil(8)].into_boxed_slice();
        self.initialise(&mut state);
        state
    }
}

/// The last bytes of a dictionary, beyond which no match can refer.
fn reachable(dict: &[u8]) -> &[u8] {
    &dict[dict.len().saturating_sub(64 << 10)..]
}

/// A dictionary with its tables filled.
pub(crate) struct Lz4Dict {
    mode: Mode,
    state: Box<[u64]>,
    /// What `state` refers to (invariant 4).
    bytes: Arc<[u8]>,
}

impl Lz4Dict {
    pub(crate) fn new(mode: Mode, bytes: Arc<[u8]>) -> Self {
        let mut state = mode.new_state();
        let at: *mut c_void = state.as_mut_ptr().cast();
        let content = reachable(&bytes);
        let (from, len) = (content.as_ptr().cast(), content.len() as c_int);
        // SAFETY: by invariants 1, 3 and 4; `bytes` stays where it is and unchanged as long as
        // this value lives.
        unsafe {
            match mode {
                Mode::Fast(_) => LZ4_loadDictSlow(at, from, len),
                Mode::High(level) => {
                    // The level decides the form of the tables.
                    LZ4_resetStreamHC_fast(at, level);
                    LZ4_loadDictHC(at, from, len)
                }
            }
        };
        Lz4Dict { mode, state, bytes }
    }

    /// Heap bytes held besides the dictionary's bytes, which others own too.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.state)
    }
}

/// A reusable compressor.
pub(crate) struct Lz4 {
    mode: Mode,
    state: Box<[u64]>,
    /// Attached to `state` for each block (invariant 4).
    dict: Option<Arc<Lz4Dict>>,
}

impl Lz4 {
    pub(crate) fn new(mode: Mode, dict: Option<Arc<Lz4Dict>>) -> Self {
        assert!(dict.as_ref().is_none_or(|dict| dict.mode == mode && !dict.bytes.is_empty()));
        Lz4 { mode, state: mode.new_state(), dict }
    }

    /// Compresses `src` into the start of `dst`; `None` if it does not fit.
    pub(crate) fn compress(&mut self, src: &[u8], dst: &mut [MaybeUninit<u8>]) -> Option<usize> {
        if src.len() > MAX_INPUT {
            return None;
        }
        let capacity = dst.len().min(c_int::MAX as usize) as c_int;
        let (from, to) = (src.as_ptr().cast(), dst.as_mut_ptr().cast());
        let (at, len) = (self.state.as_mut_ptr().cast(), src.len() as c_int);
        let attached = self.dict.as_ref().map(|dict| dict.state.as_ptr().cast());
        // SAFETY: by invariants 1 to 5.
        let written = unsafe {
            match (self.mode, attached) {
                (Mode::Fast(acceleration), None) => {
                    LZ4_compress_fast_extState_fastReset(at, from, to, len, capacity, acceleration)
                }
                (Mode::High(level), None) => {
                    LZ4_compress_HC_extStateHC_fastReset(at, from, to, len, capacity, level)
                }
                (Mode::Fast(acceleration), Some(dict)) => {
                    LZ4_resetStream_fast(at);
                    LZ4_attach_dictionary(at, dict);
                    LZ4_compress_fast_continue(at, from, to, len, capacity, acceleration)
                }
                (Mode::High(level), Some(dict)) => {
                    LZ4_resetStreamHC_fast(at, level);
                    LZ4_attach_HC_dictionary(at, dict);
                    LZ4_compress_HC_continue(at, from, to, len, capacity)
                }
            }
        };
        let written = usize::try_from(written).ok().filter(|n| *n > 0);
        if written.is_none() && self.dict.is_some() {
            // liblz4 leaves the stream undefined when the output does not fit.
            self.mode.initialise(&mut self.state);
        }
        written
    }
}

/// Decompresses one block into the start of `dst`; `None` if it is malformed or does not fit.
pub(crate) fn decompress(src: &[u8], dict: &[u8], dst: &mut [MaybeUninit<u8>]) -> Option<usize> {
    let src_len = c_int::try_from(src.len()).ok()?;
    let capacity = c_int::try_from(dst.len()).ok()?;
    let dict = reachable(dict);
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
