//! Decompresses blocks with reusable contexts; safe on any input.
//!
//! Thread safety: a [`Decompressor`] belongs to one thread at a time, a [`Dictionary`] to a table
//! and all its readers. Invariant 1: nothing is allocated before the stored size passed
//! [`check_size`], and a block is delivered only if it has exactly that size.

use std::mem::MaybeUninit;

use flate2::{Decompress, FlushDecompress, Status};
use pumice_base::coding::get_varint64;
use pumice_base::{Error, ErrorKind, Result, SubCode};

use crate::lz4;
use crate::options::CompressionType;
use crate::uninit::append;
use crate::zstd::{Unzstd, UnzstdDict};

/// The dictionary of a table, prepared once for its codec.
pub struct Dictionary {
    bytes: Vec<u8>,
    zstd: Option<UnzstdDict>,
}

impl Dictionary {
    /// Prepares `bytes` for blocks of type `kind`. Codecs without dictionaries ignore it.
    ///
    /// # Errors
    /// `Corruption` if zstd refuses it; `NotSupported` for a codec that this build lacks.
    pub fn new(kind: CompressionType, bytes: &[u8]) -> Result<Self> {
        kind.check_built()?;
        let zstd = match kind {
            CompressionType::Zstd => Some(
                UnzstdDict::new(bytes)
                    .ok_or_else(|| Error::corruption("malformed ZSTD dictionary"))?,
            ),
            _ => None,
        };
        Ok(Dictionary { bytes: bytes.to_vec(), zstd })
    }

    /// Heap bytes held, for accounting.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.zstd.as_ref().map_or(0, UnzstdDict::memory_bytes)
    }
}

/// Decompresses blocks of any type; contexts are made when first needed.
#[derive(Default)]
pub struct Decompressor {
    zstd: Unzstd,
    inflate: Option<Box<Decompress>>,
}

impl Decompressor {
    /// A decompressor without contexts; costs nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces `out` by the block whose payload of type `kind` is `framed`.
    ///
    /// # Errors
    /// `Corruption` for malformed payloads and for blocks above `limit` bytes; `Aborted` with
    /// subcode `MemoryLimit` if there is no memory for one; `NotSupported` for Xpress and codecs
    /// that this build lacks. `out` is then empty.
    pub fn decompress(
        &mut self,
        kind: CompressionType,
        framed: &[u8],
        out: &mut Vec<u8>,
        limit: usize,
    ) -> Result<()> {
        self.decompress_with(kind, framed, None, out, limit)
    }

    /// [`Decompressor::decompress`] for a data block of a table with a dictionary.
    ///
    /// # Errors
    /// As [`Decompressor::decompress`].
    pub fn decompress_with(
        &mut self,
        kind: CompressionType,
        framed: &[u8],
        dictionary: Option<&Dictionary>,
        out: &mut Vec<u8>,
        limit: usize,
    ) -> Result<()> {
        out.clear();
        match kind {
            CompressionType::None => {
                check_size(kind, framed.len() as u64, framed.len(), limit)?;
                out.extend_from_slice(framed);
                return Ok(());
            }
            CompressionType::Snappy => return unsnappy(framed, out, limit),
            CompressionType::Xpress => return Err(Error::not_supported("Xpress compression")),
            CompressionType::Disable => return Err(malformed(kind, "not a codec")),
            _ => {}
        }
        let (size, skip) = get_varint64(framed).ok_or_else(|| malformed(kind, "truncated size"))?;
        let stream = &framed[skip..];
        let size = check_size(kind, size, stream.len(), limit)?;
        let fill = |dst: &mut [MaybeUninit<u8>]| {
            let dict = dictionary.map_or(&[][..], |d| &d.bytes);
            match kind {
                CompressionType::Lz4 | CompressionType::Lz4hc => lz4::decompress(stream, dict, dst),
                CompressionType::Zstd => {
                    self.zstd.decompress(stream, dictionary.and_then(|d| d.zstd.as_ref()), dst)
                }
                CompressionType::Zlib => self.inflate(stream, dict, dst),
                CompressionType::Bzip2 => unbzip2(stream, dst),
                _ => None,
            }
        };
        make_room(out, size)?;
        #[allow(unsafe_code)]
        // SAFETY: every arm of `fill` returns what its codec reports having written from the start
        // of `dst` (invariant 1 of `uninit`).
        let written = unsafe { append(out, size, fill) };
        if written == Some(size) {
            return Ok(());
        }
        out.clear();
        kind.check_built()?;
        Err(malformed(kind, "corrupted compressed block contents"))
    }

    fn inflate(
        &mut self,
        stream: &[u8],
        dict: &[u8],
        dst: &mut [MaybeUninit<u8>],
    ) -> Option<usize> {
        // The largest window also reads streams with smaller ones.
        let inflate = self.inflate.get_or_insert_with(|| Box::new(Decompress::new(false)));
        inflate.reset(false);
        if !dict.is_empty() {
            inflate.set_dictionary(dict).ok()?;
        }
        match inflate.decompress_uninit(stream, dst, FlushDecompress::Finish) {
            Ok(Status::StreamEnd) => Some(inflate.total_out() as usize),
            _ => None,
        }
    }
}

pub(crate) fn malformed(kind: CompressionType, what: &str) -> Error {
    Error::corruption(format!("{}: {what}", kind.property_name()))
}

/// The most bytes that one byte of a stream can expand to.
fn max_expansion(kind: CompressionType) -> u64 {
    match kind {
        CompressionType::Snappy => 22,
        CompressionType::Lz4 | CompressionType::Lz4hc => 255,
        CompressionType::Zlib => 1032,
        CompressionType::Zstd => 32 << 10,
        _ => u64::MAX,
    }
}

/// Room for exactly `size` bytes in all: blocks are kept for long. The system may lack the memory
/// that a block claims.
pub(crate) fn make_room(out: &mut Vec<u8>, size: usize) -> Result<()> {
    out.try_reserve_exact(size.saturating_sub(out.len())).map_err(|_| {
        Error::new(ErrorKind::Aborted, format!("no memory for a block of {size} bytes"))
            .with_subcode(SubCode::MemoryLimit)
    })
}

/// Rejects sizes that the limit or the codec rules out.
pub(crate) fn check_size(
    kind: CompressionType,
    size: u64,
    stream: usize,
    limit: usize,
) -> Result<usize> {
    let reachable = (stream as u64 + 1).saturating_mul(max_expansion(kind));
    if size > limit as u64 {
        return Err(malformed(kind, &format!("block of {size} bytes exceeds limit of {limit}")));
    }
    if size > reachable {
        return Err(malformed(kind, &format!("{stream} bytes cannot expand to {size}")));
    }
    Ok(size as usize)
}

fn unsnappy(stream: &[u8], out: &mut Vec<u8>, limit: usize) -> Result<()> {
    let kind = CompressionType::Snappy;
    let size = snap::raw::decompress_len(stream).map_err(|_| malformed(kind, "truncated size"))?;
    let size = check_size(kind, size as u64, stream.len(), limit)?;
    make_room(out, size)?;
    out.resize(size, 0);
    match snap::raw::Decoder::new().decompress(stream, out) {
        Ok(written) if written == size => Ok(()),
        _ => {
            out.clear();
            Err(malformed(kind, "corrupted compressed block contents"))
        }
    }
}

fn unbzip2(stream: &[u8], dst: &mut [MaybeUninit<u8>]) -> Option<usize> {
    let mut state = bzip2::Decompress::new(false);
    match state.decompress_uninit(stream, dst) {
        Ok(bzip2::Status::StreamEnd) => Some(state.total_out() as usize),
        _ => None,
    }
}
