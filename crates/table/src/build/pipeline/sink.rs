//! The end of the pipeline: file and index, which get the blocks in order.
//!
//! One owner at a time: the thread with the write role. Invariant: the index has an entry for each
//! data block in the file, in the order of the file.

use pumice_base::Result;
use pumice_base::narrow::to_usize;

use crate::build::block_buffer::BlockBuffer;
use crate::build::index_builder::{IndexBuilder, IndexEntry};
use crate::build::pipeline::block_writer::BlockWriter;
use crate::build::pipeline::prepopulate::Prepopulate;
use crate::build::pipeline::worker::{Outcome, Packed, release_large};
use crate::build::stats::BuildStats;
use crate::handle::BlockHandle;
use crate::options::TableOptions;

/// Units of the device that a data block should not lie in two of.
pub(crate) struct SuperBlocks {
    bytes: u64,
    /// A gap is smaller than this.
    gap_max: u64,
}

impl SuperBlocks {
    /// The units of `options`, if there are any.
    pub fn new(options: &TableOptions) -> Option<Self> {
        let bytes = options.super_block_alignment_size;
        let gap_max = bytes.checked_div(options.super_block_alignment_space_overhead_ratio)?;
        (gap_max > 0).then_some(SuperBlocks { bytes, gap_max })
    }

    /// Bytes to leave empty before a block of `len` bytes that would begin at `offset`. As in
    /// RocksDB the block's trailer does not count.
    fn gap(&self, offset: u64, len: usize) -> usize {
        let left = self.bytes - offset % self.bytes;
        if len as u64 >= left && left < self.gap_max { to_usize(left) } else { 0 }
    }
}

/// File, index, and what is counted in block order.
pub(crate) struct Sink {
    pub out: BlockWriter,
    pub index: IndexBuilder,
    pub stats: BuildStats,
    /// Data blocks begin at multiples of this; 0 for no alignment.
    pub align: usize,
    pub super_blocks: Option<SuperBlocks>,
    /// Bit n: a block was stored with compression type n.
    pub types_used: u16,
    /// Puts blocks into the block cache.
    pub prepopulate: Option<Box<Prepopulate>>,
}

impl Sink {
    /// Appends a data block of a table with a codec: `out` if it was compressed, else `raw`.
    /// Returns what it takes in the file. May suspend.
    ///
    /// # Errors
    /// I/O errors.
    #[inline]
    pub fn put(
        &mut self,
        raw: &mut Vec<u8>,
        out: &mut Vec<u8>,
        packed: Packed,
        entry: &IndexEntry,
    ) -> Result<u64> {
        let start = self.out.offset;
        if self.super_blocks.is_some() {
            let is_packed = packed.outcome == Outcome::Compressed;
            self.out.append_zeros(self.gap_before(if is_packed {
                out.len()
            } else {
                raw.len()
            }))?;
        }
        if let Some(prepopulate) = &self.prepopulate {
            prepopulate.data(self.out.offset, raw);
        }
        let handle = self.write_packed(raw, out, packed)?;
        self.index.push(entry, handle);
        if self.align > 0 {
            self.out.pad(self.align)?;
        }
        release_large(raw);
        release_large(out);
        Ok(self.out.offset - start)
    }

    /// Bytes to leave empty before a block of `len` bytes.
    pub fn gap_before(&self, len: usize) -> usize {
        self.super_blocks.as_ref().map_or(0, |units| units.gap(self.out.offset, len))
    }

    /// Seals the data block at the end of `buffer`, which counts as part of the file from now on,
    /// although it is written later. Returns what it takes in the file.
    pub fn keep(&mut self, buffer: &mut BlockBuffer, entry: &IndexEntry) -> u64 {
        let start = self.out.offset;
        if let Some(prepopulate) = &self.prepopulate {
            prepopulate.data(start, buffer.block());
        }
        Packed::default().count(&mut self.stats, buffer.block_len(), 0);
        let handle = self.out.seal(buffer, self.align);
        self.index.push(entry, handle);
        self.out.offset - start
    }

    /// Appends and counts a block of any kind: `out` if it was compressed, else `raw`.
    ///
    /// # Errors
    /// I/O errors.
    pub fn write_packed(
        &mut self,
        raw: &mut Vec<u8>,
        out: &mut Vec<u8>,
        packed: Packed,
    ) -> Result<BlockHandle> {
        packed.count(&mut self.stats, raw.len(), out.len());
        if packed.outcome != Outcome::Compressed {
            return self.out.write(raw, packed.kind);
        }
        self.types_used |= 1 << (packed.kind as u8 & 15);
        self.out.write(out, packed.kind)
    }
}
