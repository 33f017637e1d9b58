//! Compresses blocks with reusable contexts.
//!
//! Thread safety: one thread at a time. Every codec gets no more room than the size at which the
//! block would be stored raw anyway, so hopeless blocks end early. A compressor keeps no more
//! memory after a large block than after a small one; unused room is never touched, and a failed
//! allocation is an error.

use std::mem::MaybeUninit;
use std::sync::Arc;

use flate2::{Compress, Compression, FlushCompress, Status};
use pumice_base::coding::put_varint32;
use pumice_base::{Error, ErrorKind, Result, SubCode};

use crate::dictionary::{CompressionDict, Digest};
use crate::lz4::{Lz4, Mode};
use crate::options::{CompressionOptions, CompressionType, DEFAULT_LEVEL};
use crate::uninit::append;
use crate::zstd::Zstd;

/// RocksDB never compresses blocks of this size or more.
const MAX_RAW: usize = (1 << 31) - 1;
/// Snappy blocks above this are compressed in parts, for which a small buffer suffices.
const SNAPPY_WHOLE_MAX: usize = 1 << 20;
/// Snappy's own fragment size: matches never reach beyond it, so parts compress as well as the
/// whole.
const SNAPPY_PART: usize = 1 << 16;
/// RocksDB's block size (100 kB) and effort for bzip2.
const BZIP2_LEVEL: u32 = 1;
const BZIP2_EFFORT: u32 = 30;

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
    /// The stream and the dictionary each block starts from, empty for none.
    Zlib(Box<Compress>, Arc<[u8]>),
    Bzip2,
    Lz4(Lz4),
    Zstd(Zstd),
}

impl Compressor {
    /// A compressor of type `kind`.
    ///
    /// # Errors
    /// `NotSupported` for Xpress, codecs that this build lacks, and as
    /// [`CompressionOptions::check`]; `InvalidArgument` for [`CompressionType::Disable`]. Zlib
    /// parameters that zlib refuses make a compressor that leaves every block uncompressed, as in
    /// RocksDB.
    pub fn new(kind: CompressionType, options: &CompressionOptions) -> Result<Self> {
        Self::make(kind, options, None)
    }

    /// A compressor whose blocks can be read only with `dict`. It keeps a reference to the prepared
    /// form, which all threads share.
    ///
    /// # Errors
    /// As [`Compressor::new`], and `InvalidArgument` if `dict` was made for another codec or
    /// level.
    pub fn with_dictionary(
        kind: CompressionType,
        options: &CompressionOptions,
        dict: Arc<CompressionDict>,
    ) -> Result<Self> {
        dict.check(kind, options)?;
        Self::make(kind, options, Some(&dict))
    }

    fn make(
        kind: CompressionType,
        options: &CompressionOptions,
        dict: Option<&CompressionDict>,
    ) -> Result<Self> {
        kind.check_built()?;
        options.check(kind)?;
        let codec = match kind {
            CompressionType::None => Codec::None,
            CompressionType::Zlib if options.zlib_refuses() => Codec::None,
            CompressionType::Snappy => {
                Codec::Snappy(Box::new(snap::raw::Encoder::new()), Vec::new())
            }
            CompressionType::Zlib => {
                let bytes = dict.map(CompressionDict::shared_bytes).unwrap_or_default();
                Codec::Zlib(Box::new(new_deflate(options)), bytes)
            }
            CompressionType::Bzip2 => Codec::Bzip2,
            CompressionType::Lz4 | CompressionType::Lz4hc => {
                let digest = match dict.map(|d| &d.digest) {
                    Some(Digest::Lz4(digest)) => Some(digest.clone()),
                    _ => None,
                };
                Codec::Lz4(Lz4::new(Mode::of(kind, options.level), digest))
            }
            CompressionType::Zstd => {
                let digest = match dict.map(|d| &d.digest) {
                    Some(Digest::Zstd(digest)) => Some(digest.clone()),
                    _ => None,
                };
                Codec::Zstd(Zstd::new(options, digest)?)
            }
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
    /// `Corruption` if the codec fails for any reason but lack of room; `Aborted` with subcode
    /// `MemoryLimit` if there is no memory for the output.
    pub fn compress(&mut self, raw: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        self.compress_within(self.options.size_limit(raw.len()), raw, out)
    }

    /// As [`Compressor::compress`], for values whose type is the same whatever their size: the
    /// payload is appended even if it is larger than `raw`. False for the type that does not
    /// compress, and for values of 2 GiB or more.
    ///
    /// # Errors
    /// As there.
    pub fn compress_always(&mut self, raw: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        // More than any codec adds.
        self.compress_within(raw.len() + raw.len() / 4 + 1024, raw, out)
    }

    fn compress_within(&mut self, limit: usize, raw: &[u8], out: &mut Vec<u8>) -> Result<bool> {
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
            return match raw.len() <= SNAPPY_WHOLE_MAX {
                true => snappy(encoder, buffer, raw, room, out),
                false => snappy_parts(encoder, buffer, raw, room, out),
            };
        }
        out.try_reserve(room).map_err(|_| no_memory(raw.len()))?;
        let fill = |dst: &mut [MaybeUninit<u8>]| match codec {
            Codec::Lz4(lz4) => lz4.compress(raw, dst),
            Codec::Zstd(zstd) => zstd.compress(raw, dst, &mut failure),
            Codec::Zlib(stream, dict) => deflate(stream, dict, raw, dst, &mut failure),
            Codec::Bzip2 => bzip2(raw, dst, &mut failure),
            Codec::None | Codec::Snappy(..) => None,
        };
        #[allow(unsafe_code)]
        // SAFETY: every arm of `fill` returns what its codec reports having written from the start
        // of `dst` (invariant 1 of `uninit`).
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

/// Requires parameters that zlib accepts.
fn new_deflate(options: &CompressionOptions) -> Compress {
    let level = match options.level {
        DEFAULT_LEVEL | -1 => Compression::default(),
        level => Compression::new(level as u32),
    };
    Compress::new_with_window_bits(level, false, options.window_bits.unsigned_abs() as u8)
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

/// The same stream as that of [`snappy`], with a buffer for one part at a time.
fn snappy_parts(
    encoder: &mut snap::raw::Encoder,
    buffer: &mut Vec<u8>,
    raw: &[u8],
    room: usize,
    out: &mut Vec<u8>,
) -> Result<bool> {
    let start = out.len();
    let worst = snap::raw::max_compress_len(SNAPPY_PART);
    if buffer.len() < worst {
        buffer.resize(worst, 0);
    }
    put_varint32(out, raw.len() as u32);
    for part in raw.chunks(SNAPPY_PART) {
        let written = encoder.compress(part, buffer).map_err(|e| failed("Snappy", e))?;
        // The part's own size comes first; only the block's is wanted.
        let size_len = varint_len(part.len());
        if out.len() - start + written - size_len > room {
            return Ok(false);
        }
        out.try_reserve(written).map_err(|_| no_memory(raw.len()))?;
        out.extend_from_slice(&buffer[size_len..written]);
    }
    Ok(true)
}

/// Bytes of `n` as a varint.
fn varint_len(n: usize) -> usize {
    (usize::BITS - n.leading_zeros()).div_ceil(7).max(1) as usize
}

#[cold]
fn no_memory(raw: usize) -> Error {
    Error::new(ErrorKind::Aborted, format!("no memory to compress a block of {raw} bytes"))
        .with_subcode(SubCode::MemoryLimit)
}

fn deflate(
    stream: &mut Compress,
    dict: &[u8],
    raw: &[u8],
    dst: &mut [MaybeUninit<u8>],
    failure: &mut Option<Error>,
) -> Option<usize> {
    stream.reset();
    // A raw stream takes its dictionary before the first byte.
    if !dict.is_empty()
        && let Err(error) = stream.set_dictionary(dict)
    {
        *failure = Some(failed("Zlib", error));
        return None;
    }
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use pumice_base::random::Rng;

    use super::{SNAPPY_PART, snappy, snappy_parts};

    /// Parts give the same stream as the whole, and run out of room at the same point.
    #[test]
    fn snappy_in_parts_is_snappy() {
        let mut encoder = snap::raw::Encoder::new();
        let mut rng = Rng::new(5);
        let part = SNAPPY_PART;
        for len in [1, 13, 16, part - 1, part, part + 1, part + 15, 3 * part, 5 * part + 77] {
            for noise in [false, true] {
                let raw: Vec<u8> = match noise {
                    true => rng.bytes(len),
                    false => (0..len).map(|i| (i / 7 % 50) as u8).collect(),
                };
                let (mut whole, mut parts) = (b"before".to_vec(), b"before".to_vec());
                let (mut one, mut two) = (Vec::new(), Vec::new());
                assert!(snappy(&mut encoder, &mut one, &raw, usize::MAX, &mut whole).unwrap());
                let all = usize::MAX;
                assert!(snappy_parts(&mut encoder, &mut two, &raw, all, &mut parts).unwrap());
                assert!(whole == parts, "{len} {noise}");
                assert!(two.len() < 80_000, "the buffer is for one part");
                let room = whole.len() - b"before".len();
                for (room, fits) in [(room, true), (room - 1, false)] {
                    let mut out = Vec::new();
                    let done = snappy_parts(&mut encoder, &mut two, &raw, room, &mut out);
                    assert_eq!(done.unwrap(), fits);
                }
            }
        }
    }
}
