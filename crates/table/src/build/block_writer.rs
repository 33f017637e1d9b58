//! Puts finished blocks into the file: compression, type byte, checksum, handle.
//!
//! Buffers are reused, each block is hashed once and appended with one call. Invariant: `offset`
//! is the length of the file so far.

use pumice_base::checksum::{ChecksumType, block_checksum, context_checksum};
use pumice_base::{Error, Result};
use pumice_compress::{CompressionOptions, CompressionType, Compressor, Decompressor};
use pumice_env::BufferedWriter;

use crate::handle::BlockHandle;

/// Appends blocks to a file.
pub(crate) struct BlockWriter {
    pub writer: BufferedWriter,
    pub offset: u64,
    pub checksum: ChecksumType,
    /// Base of the context checksums, 0 for none.
    pub base_context: u32,
}

impl BlockWriter {
    /// Appends `block`, to which the trailer is added in place.
    pub fn write(&mut self, block: &mut Vec<u8>, kind: CompressionType) -> Result<BlockHandle> {
        let handle = BlockHandle::new(self.offset, block.len() as u64);
        let last = kind as u8;
        let sum = block_checksum(self.checksum, block, last)
            .wrapping_add(context_checksum(self.base_context, self.offset));
        block.push(last);
        block.extend_from_slice(&sum.to_le_bytes());
        self.writer.append(block)?;
        self.offset += block.len() as u64;
        Ok(handle)
    }

    /// Appends a block that is never compressed.
    pub fn write_raw(&mut self, mut block: Vec<u8>) -> Result<BlockHandle> {
        self.write(&mut block, CompressionType::None)
    }

    /// Appends bytes outside of blocks.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.writer.append(bytes)?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    /// Appends zeros up to a multiple of `align` bytes.
    pub fn align(&mut self, align: usize) -> Result<()> {
        let pad = (align - (self.offset % align as u64) as usize) % align;
        self.writer.pad(pad)?;
        self.offset += pad as u64;
        Ok(())
    }
}

/// Compresses blocks where it pays.
pub(crate) struct BlockCompressor {
    compressor: Option<Compressor>,
    out: Vec<u8>,
    /// Blocks above this stay uncompressed, so that readers with the same limit can read them.
    max_block_bytes: usize,
    verify: Option<(Decompressor, Vec<u8>)>,
    /// Bit n: a block was stored with compression type n.
    used: u16,
}

impl BlockCompressor {
    /// A compressor for blocks of type `kind`; `verify` decompresses and compares each one.
    ///
    /// # Errors
    /// As [`Compressor::new`].
    pub fn new(
        kind: CompressionType,
        options: &CompressionOptions,
        max_block_bytes: usize,
        verify: bool,
    ) -> Result<Self> {
        let compressor = match kind {
            CompressionType::None => None,
            kind => Some(Compressor::new(kind, options)?),
        };
        let verify = verify.then(|| (Decompressor::new(), Vec::new()));
        Ok(BlockCompressor { compressor, out: Vec::new(), max_block_bytes, verify, used: 0 })
    }

    /// The form in which `raw` is to be stored.
    pub fn compress<'a>(
        &'a mut self,
        raw: &'a mut Vec<u8>,
    ) -> Result<(&'a mut Vec<u8>, CompressionType)> {
        let Some(compressor) = &mut self.compressor else {
            return Ok((raw, CompressionType::None));
        };
        self.out.clear();
        if raw.len() > self.max_block_bytes || !compressor.compress(raw, &mut self.out)? {
            return Ok((raw, CompressionType::None));
        }
        let kind = compressor.kind();
        if let Some((decompressor, back)) = &mut self.verify {
            decompressor.decompress(kind, &self.out, back, self.max_block_bytes)?;
            if back != raw {
                return Err(Error::corruption("Decompressed block did not match raw block"));
            }
        }
        self.used |= 1 << (kind as u8 & 15);
        Ok((&mut self.out, kind))
    }

    /// Numbers of the compression types stored so far, ascending.
    pub fn types_used(&self) -> impl Iterator<Item = u8> + '_ {
        (0..16u8).filter(|n| self.used & (1 << n) != 0)
    }
}
