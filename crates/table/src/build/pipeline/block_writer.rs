//! Puts finished blocks into the file: type byte, checksum, handle.
//!
//! Each block is hashed once and appended with one call. One owner at a time. Invariant: `offset`
//! is the length of the file so far.

use pumice_base::Result;
use pumice_base::checksum::{ChecksumType, block_checksum, context_checksum};
use pumice_base::planted::{self, Bug};
use pumice_compress::CompressionType;
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
        let place = if planted::is(Bug::ChecksumWithoutPlace) { 0 } else { self.offset };
        let sum = block_checksum(self.checksum, block, last)
            .wrapping_add(context_checksum(self.base_context, place));
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
