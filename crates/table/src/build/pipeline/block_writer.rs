//! Puts finished blocks into the file: type byte, checksum, handle.
//!
//! Each block is hashed once and appended with one call, or sealed where it lies in a buffer. One
//! owner at a time. Invariant: `offset` is the length of the file, including the blocks sealed in a
//! buffer that is not appended yet; the buffer is appended before anything else.

use pumice_base::Result;
use pumice_base::checksum::{ChecksumType, block_checksum, context_checksum};
use pumice_base::narrow::to_usize;
use pumice_base::planted::{self, Bug};
use pumice_compress::CompressionType;
use pumice_env::BufferedWriter;

use crate::build::block_buffer::BlockBuffer;
use crate::handle::{BLOCK_TRAILER_LEN, BlockHandle};

/// Maximum alignment of data blocks with `block_align`.
pub(crate) const PAGE_BYTES: usize = 4096;

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
        let trailer = self.trailer(block, kind);
        block.extend_from_slice(&trailer);
        self.writer.append(block)?;
        self.offset += block.len() as u64;
        Ok(handle)
    }

    /// Adds trailer and padding, up to a multiple of `align` bytes, to the block at the end of
    /// `buffer`, which stays there.
    pub fn seal(&mut self, buffer: &mut BlockBuffer, align: usize) -> BlockHandle {
        let handle = BlockHandle::new(self.offset, buffer.block_len() as u64);
        let trailer = self.trailer(buffer.block(), CompressionType::None);
        self.offset += (buffer.block_len() + BLOCK_TRAILER_LEN) as u64;
        let pad = self.padding(align);
        buffer.keep_block(&trailer, pad);
        self.offset += pad as u64;
        handle
    }

    /// Type byte and checksum of a block at `offset`.
    fn trailer(&self, block: &[u8], kind: CompressionType) -> [u8; BLOCK_TRAILER_LEN] {
        let place = if planted::is(Bug::ChecksumWithoutPlace) { 0 } else { self.offset };
        let sum = block_checksum(self.checksum, block, kind as u8)
            .wrapping_add(context_checksum(self.base_context, place));
        let [a, b, c, d] = sum.to_le_bytes();
        [kind as u8, a, b, c, d]
    }

    /// Bytes up to a multiple of `align`; 0 for no alignment.
    fn padding(&self, align: usize) -> usize {
        if align == 0 { 0 } else { (align - to_usize(self.offset % align as u64)) % align }
    }

    /// Appends zeros up to a multiple of `align` bytes.
    pub fn pad(&mut self, align: usize) -> Result<()> {
        self.append_zeros(self.padding(align))
    }

    /// Appends that many zeros.
    #[cold]
    pub fn append_zeros(&mut self, mut count: usize) -> Result<()> {
        while count > 0 {
            let some = count.min(PAGE_BYTES);
            self.append(&[0; PAGE_BYTES][..some])?;
            count -= some;
        }
        Ok(())
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
}
