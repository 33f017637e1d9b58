//! zstd contexts, digested dictionaries and the two ways of making one. Behind the feature `zstd`;
//! `zstd_absent.rs` stands in for it.
//!
//! Thread safety: a [`Zstd`] or [`Unzstd`] belongs to one thread at a time. A [`ZstdDict`] is read
//! only and shared by the compressors of all threads, as an [`UnzstdDict`] is by readers.
//!
//! Invariants: (1) a context that refers to a digested dictionary owns a count of it, is dropped
//! before that count, and never gives it away; (2) zstd reads only the source, content and samples
//! it is given, and writes at most the capacity from the start of the destination, all
//! initialised.
//!
//! Not here: which samples a dictionary is made of.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::sync::Arc;

use pumice_base::{Error, Result};
use zstd_safe::{CCtx, CDict, CParameter, DCtx, DDict, WriteBuf};

use crate::options::{CompressionOptions, DEFAULT_LEVEL};
use crate::uninit::append;

const ZSTD_DEFAULT_LEVEL: i32 = 3;

/// The level that `options` mean.
fn level(options: &CompressionOptions) -> i32 {
    match options.level {
        DEFAULT_LEVEL => ZSTD_DEFAULT_LEVEL,
        level => level,
    }
}

/// A dictionary digested for one level.
pub(crate) struct ZstdDict(CDict<'static>);

impl ZstdDict {
    /// Digests `bytes`, which zstd copies. `None` if they claim to be a trained dictionary but are
    /// not.
    pub(crate) fn new(bytes: &[u8], options: &CompressionOptions) -> Option<Self> {
        CDict::try_create(bytes, level(options)).map(ZstdDict)
    }

    /// Heap bytes held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.0.sizeof()
    }
}

/// A reusable compressor.
pub(crate) struct Zstd {
    /// Before `dict`, to which it may refer: fields are dropped in this order (invariant 1).
    context: CCtx<'static>,
    dict: Option<Arc<ZstdDict>>,
}

impl Zstd {
    /// A compressor of that level, for every block with `dict` if there is one.
    ///
    /// # Errors
    /// `InvalidArgument` if zstd refuses a parameter.
    pub(crate) fn new(options: &CompressionOptions, dict: Option<Arc<ZstdDict>>) -> Result<Self> {
        let mut zstd = Zstd { context: CCtx::create(), dict };
        for parameter in [
            CParameter::CompressionLevel(level(options)),
            CParameter::ChecksumFlag(options.checksum),
        ] {
            zstd.context.set_parameter(parameter).map_err(refused)?;
        }
        if let Some(dict) = &zstd.dict {
            // SAFETY: by invariant 1 the dictionary outlives the context, whose type cannot say
            // so; an `Arc` never moves what it holds.
            let digest: &'static CDict<'static> = unsafe { &*std::ptr::from_ref(&dict.0) };
            zstd.context.ref_cdict(digest).map_err(refused)?;
        }
        Ok(zstd)
    }

    /// Compresses `raw` into the start of `dst`; `None` if it does not fit, or with the reason in
    /// `failure`.
    pub(crate) fn compress(
        &mut self,
        raw: &[u8],
        dst: &mut [MaybeUninit<u8>],
        failure: &mut Option<Error>,
    ) -> Option<usize> {
        const NO_ROOM: usize =
            (zstd_sys::ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall as usize).wrapping_neg();
        match self.context.compress2(&mut ZstdOut::new(dst), raw) {
            Ok(written) => Some(written),
            Err(NO_ROOM) => None,
            Err(code) => {
                let name = zstd_safe::get_error_name(code);
                *failure = Some(Error::corruption(format!("ZSTD compression failed: {name}")));
                None
            }
        }
    }
}

/// A dictionary digested for reading.
pub(crate) struct UnzstdDict(DDict<'static>);

impl UnzstdDict {
    /// Digests `bytes`, which zstd copies. `None` if it refuses them.
    pub(crate) fn new(bytes: &[u8]) -> Option<Self> {
        DDict::try_create(bytes).map(UnzstdDict)
    }

    /// Heap bytes held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.0.sizeof()
    }
}

/// A reusable decompressor; its context is made when it is first needed.
#[derive(Default)]
pub(crate) struct Unzstd(Option<DCtx<'static>>);

impl Unzstd {
    /// Decompresses `stream` into the start of `dst`; `None` if it is malformed or does not fit.
    pub(crate) fn decompress(
        &mut self,
        stream: &[u8],
        dict: Option<&UnzstdDict>,
        dst: &mut [MaybeUninit<u8>],
    ) -> Option<usize> {
        let context = self.0.get_or_insert_with(DCtx::create);
        let mut dst = ZstdOut::new(dst);
        match dict {
            Some(dict) => context.decompress_using_ddict(&mut dst, stream, &dict.0).ok(),
            None => context.decompress(&mut dst, stream).ok(),
        }
    }
}

fn refused(code: usize) -> Error {
    Error::invalid_argument(format!("zstd: {}", zstd_safe::get_error_name(code)))
}

/// A dictionary of at most `max` bytes trained on `samples`, whose lengths are `sizes`. Empty if
/// zstd cannot make one: too few samples, too little room, nothing in common.
pub(crate) fn train(samples: &[u8], sizes: &[usize], max: usize) -> Vec<u8> {
    made(max, |dst| zstd_safe::train_from_buffer(&mut ZstdOut::new(dst), samples, sizes).ok())
}

/// A dictionary of at most `max` bytes with the start of `samples` as its content and statistics
/// of all of them. Empty if zstd cannot make one.
pub(crate) fn finalize(
    samples: &[u8],
    sizes: &[usize],
    max: usize,
    options: &CompressionOptions,
) -> Vec<u8> {
    let content = &samples[..samples.len().min(max)];
    let parameters = zstd_sys::ZDICT_params_t {
        compressionLevel: level(options),
        notificationLevel: 0,
        dictID: 0,
    };
    let total = sizes.iter().try_fold(0usize, |sum, size| sum.checked_add(*size));
    assert_eq!(total, Some(samples.len()), "sizes of samples do not add up");
    let Ok(count) = u32::try_from(sizes.len()) else { return Vec::new() };
    made(max, |dst| {
        // SAFETY: by invariant 2; pointers and lengths are those of live slices, and the sizes add
        // up to the length of the samples.
        let written = unsafe {
            zstd_sys::ZDICT_finalizeDictionary(
                dst.as_mut_ptr().cast(),
                dst.len(),
                content.as_ptr().cast(),
                content.len(),
                samples.as_ptr().cast(),
                sizes.as_ptr(),
                count,
                parameters,
            )
        };
        // SAFETY: a pure function of a number.
        let failed = unsafe { zstd_sys::ZDICT_isError(written) } != 0;
        (!failed).then_some(written)
    })
}

/// The output of `fill`, at most `max` bytes.
fn made(max: usize, fill: impl FnOnce(&mut [MaybeUninit<u8>]) -> Option<usize>) -> Vec<u8> {
    let mut bytes = Vec::new();
    // SAFETY: both callers return what zstd reports having written from the start (invariant 1 of
    // `uninit`).
    let written = unsafe { append(&mut bytes, max, fill) };
    bytes.truncate(written.unwrap_or(0));
    bytes.shrink_to_fit();
    bytes
}

/// Lets zstd write into a buffer that was not zeroed.
struct ZstdOut<'a> {
    buffer: &'a mut [MaybeUninit<u8>],
    filled: usize,
}

impl<'a> ZstdOut<'a> {
    fn new(buffer: &'a mut [MaybeUninit<u8>]) -> Self {
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
