//! Compresses blocks with reusable contexts.
//!
//! Thread safety: one thread at a time. Every codec gets no more room than the size at which the
//! block would be stored raw anyway, so hopeless blocks end early.

use std::mem::MaybeUninit;

use flate2::{Compress, Compression, FlushCompress, Status};
use pumice_base::coding::put_varint32;
use pumice_base::{Error, Result};
use zstd_safe::{CCtx, CParameter};

use crate::lz4::{Lz4, Mode};
use crate::options::{CompressionOptions, CompressionType, DEFAULT_LEVEL};
use crate::uninit::{ZstdOut, append};

/// RocksDB never compresses blocks of this size or more.
const MAX_RAW: usize = (1 << 31) - 1;
/// RocksDB's block size (100 kB) and effort for bzip2.
const BZIP2_LEVEL: u32 = 1;
const BZIP2_EFFORT: u32 = 30;
const ZSTD_DEFAULT_LEVEL: i32 = 3;

/// A compressor of one type with its contexts.
pub struct Compressor {
    kind: CompressionType,
    options: CompressionOptions,
    codec: Codec,
}

enum Codec {
    None,
    /// The encoder and a buffer of the worst case's size, which the encoder insists on.
    Snappy(Box<snap::raw::Encoder>, Vec<u8>),
    Zlib(Box<Compress>),
    Bzip2,
    Lz4(Lz4),
    Zstd(CCtx<'static>),
}

impl Compressor {
    /// A compressor of type `kind`.
    ///
    /// # Errors
    /// `NotSupported` for Xpress and for zlib parameters this build cannot honour;
    /// `InvalidArgument` for parameters the codec refuses and for [`CompressionType::Disable`].
    pub fn new(kind: CompressionType, options: &CompressionOptions) -> Result<Self> {
        let level = (options.level != DEFAULT_LEVEL).then_some(options.level);
        let codec = match kind {
            CompressionType::None => Codec::None,
            CompressionType::Snappy => {
                Codec::Snappy(Box::new(snap::raw::Encoder::new()), Vec::new())
            }
            CompressionType::Zlib => Codec::Zlib(Box::new(new_deflate(level, options)?)),
            CompressionType::Bzip2 => Codec::Bzip2,
            CompressionType::Lz4 => Codec::Lz4(Lz4::new(Mode::Fast(match level {
                Some(level) if level < 0 => level.saturating_neg(),
                _ => 1,
            }))),
            // liblz4 takes 0 for its default level.
            CompressionType::Lz4hc => Codec::Lz4(Lz4::new(Mode::High(level.unwrap_or(0)))),
            CompressionType::Zstd => Codec::Zstd(new_zstd(level, options)?),
            CompressionType::Xpress => return Err(Error::not_supported("Xpress compression")),
            CompressionType::Disable => {
                return Err(Error::invalid_argument("kDisableCompressionOption is not a codec"));
            }
        };
        Ok(Compressor { kind, options: options.clone(), codec })
    }

    /// The type of the payloads.
    pub fn kind(&self) -> CompressionType {
        self.kind
    }

    /// Appends the payload of block `raw` to `out`. False, with `out` as it was, means that the
    /// block must be stored uncompressed: it would not get small enough, or is too large.
    ///
    /// # Errors
    /// `Corruption` if the codec fails for any reason but lack of room.
    pub fn compress(&mut self, raw: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        let limit = self.options.size_limit(raw.len());
        if raw.len() >= MAX_RAW || matches!(self.codec, Codec::None) {
            return Ok(false);
        }
        let start = out.len();
        if !matches!(self.codec, Codec::Snappy(..)) {
            put_varint32(out, raw.len() as u32);
        }
        let Some(room) = limit.checked_sub(out.len() - start) else {
            out.truncate(start);
            return Ok(false);
        };
        let result = self.stream(raw, room, out);
        if !matches!(result, Ok(true)) {
            out.truncate(start);
        }
        result
    }

    /// Appends the codec's stream of at most `room` bytes; false if it takes more.
    fn stream(&mut self, raw: &[u8], room: usize, out: &mut Vec<u8>) -> Result<bool> {
        let mut failure = None;
        let codec = &mut self.codec;
        if let Codec::Snappy(encoder, buffer) = codec {
            return snappy(encoder, buffer, raw, room, out);
        }
        let fill = |dst: &mut [MaybeUninit<u8>]| match codec {
            Codec::Lz4(lz4) => lz4.compress(raw, dst),
            Codec::Zstd(context) => zstd(context, raw, dst, &mut failure),
            Codec::Zlib(stream) => deflate(stream, raw, dst, &mut failure),
            Codec::Bzip2 => bzip2(raw, dst, &mut failure),
            Codec::None | Codec::Snappy(..) => None,
        };
        #[allow(unsafe_code)]
        // SAFETY: every arm of `fill` returns what its codec reports to have written from the
        // start of `dst` (invariant 1 of `uninit`).
        let written = unsafe { append(out, room, fill) };
        match failure {
            Some(error) => Err(error),
            None => Ok(written.is_some()),
        }
    }
}

fn failed(codec: &str, reason: impl std::fmt::Display) -> Error {
    Error::corruption(format!("{codec} compression failed: {reason}"))
}

fn new_deflate(level: Option<i32>, options: &CompressionOptions) -> Result<Compress> {
    if options.strategy != 0 {
        return Err(Error::not_supported(format!("zlib strategy {}", options.strategy)));
    }
    if !(-15..=-9).contains(&options.window_bits) {
        return Err(Error::not_supported(format!("zlib window_bits {}", options.window_bits)));
    }
    let level = match level {
        None | Some(-1) => Compression::default(),
        Some(level @ 0..=9) => Compression::new(level as u32),
        Some(level) => return Err(Error::invalid_argument(format!("zlib level {level}"))),
    };
    Ok(Compress::new_with_window_bits(level, false, options.window_bits.unsigned_abs() as u8))
}

fn new_zstd(level: Option<i32>, options: &CompressionOptions) -> Result<CCtx<'static>> {
    let mut context = CCtx::create();
    let level = CParameter::CompressionLevel(level.unwrap_or(ZSTD_DEFAULT_LEVEL));
    for parameter in [level, CParameter::ChecksumFlag(options.checksum)] {
        context.set_parameter(parameter).map_err(|code| {
            Error::invalid_argument(format!("zstd: {}", zstd_safe::get_error_name(code)))
        })?;
    }
    Ok(context)
}

fn snappy(
    encoder: &mut snap::raw::Encoder,
    buffer: &mut Vec<u8>,
    raw: &[u8],
    room: usize,
    out: &mut Vec<u8>,
) -> Result<bool> {
    let worst = snap::raw::max_compress_len(raw.len());
    if buffer.len() < worst {
        buffer.resize(worst, 0);
    }
    let written = encoder.compress(raw, buffer).map_err(|e| failed("Snappy", e))?;
    if written <= room {
        out.extend_from_slice(&buffer[..written]);
    }
    Ok(written <= room)
}

fn zstd(
    context: &mut CCtx<'static>,
    raw: &[u8],
    dst: &mut [MaybeUninit<u8>],
    failure: &mut Option<Error>,
) -> Option<usize> {
    const NO_ROOM: usize =
        (zstd_sys::ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall as usize).wrapping_neg();
    match context.compress2(&mut ZstdOut::new(dst), raw) {
        Ok(written) => Some(written),
        Err(NO_ROOM) => None,
        Err(code) => {
            *failure = Some(failed("ZSTD", zstd_safe::get_error_name(code)));
            None
        }
    }
}

fn deflate(
    stream: &mut Compress,
    raw: &[u8],
    dst: &mut [MaybeUninit<u8>],
    failure: &mut Option<Error>,
) -> Option<usize> {
    stream.reset();
    match stream.compress_uninit(raw, dst, FlushCompress::Finish) {
        Ok(Status::StreamEnd) => Some(stream.total_out() as usize),
        Ok(Status::Ok | Status::BufError) => {
            drain(stream, failure);
            None
        }
        Err(error) => {
            *failure = Some(failed("Zlib", error));
            None
        }
    }
}

/// Ends a stream whose output did not fit. zlib-rs 0.6.8 keeps unwritten output over a reset and
/// panics when a later block adds to it.
fn drain(stream: &mut Compress, failure: &mut Option<Error>) {
    let mut scratch = [0u8; 4096];
    loop {
        match stream.compress(&[], &mut scratch, FlushCompress::Finish) {
            Ok(Status::StreamEnd) => return,
            Ok(Status::Ok) => {}
            Ok(Status::BufError) => {
                *failure = Some(failed("Zlib", "a stream that did not fit could not be ended"));
                return;
            }
            Err(error) => {
                *failure = Some(failed("Zlib", error));
                return;
            }
        }
    }
}

fn bzip2(raw: &[u8], dst: &mut [MaybeUninit<u8>], failure: &mut Option<Error>) -> Option<usize> {
    let mut stream = bzip2::Compress::new(bzip2::Compression::new(BZIP2_LEVEL), BZIP2_EFFORT);
    match stream.compress_uninit(raw, dst, bzip2::Action::Finish) {
        Ok(bzip2::Status::StreamEnd) => Some(stream.total_out() as usize),
        Ok(_) => None,
        Err(error) => {
            *failure = Some(failed("BZip2", error));
            None
        }
    }
}
