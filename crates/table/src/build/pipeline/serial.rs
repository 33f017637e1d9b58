//! The pipeline of one thread: a block is compressed and written before the next one begins.
//!
//! One owner.

use pumice_base::Result;

use crate::build::index_adapter::IndexEntry;
use crate::build::pipeline::sink::Sink;
use crate::build::pipeline::worker::Worker;
use crate::build::sizes::SizeEstimate;
use crate::handle::BLOCK_TRAILER_LEN;

/// File, contexts and the buffer for compressed blocks.
pub(crate) struct Serial {
    pub sink: Sink,
    pub worker: Worker,
    pub packed_block: Vec<u8>,
}

impl Serial {
    /// A pipeline to `sink`.
    pub fn new(sink: Sink, worker: Worker) -> Self {
        Serial { sink, worker, packed_block: Vec::new() }
    }

    /// Compresses and writes block `raw`. May suspend.
    ///
    /// # Errors
    /// Of the codec, and I/O errors.
    pub fn submit(
        &mut self,
        raw: &mut Vec<u8>,
        entry: &IndexEntry,
        sizes: &mut SizeEstimate,
        tail: u64,
    ) -> Result<()> {
        let raw_bytes = (raw.len() + BLOCK_TRAILER_LEN) as u64;
        let packed = self.worker.pack(raw, &mut self.packed_block)?;
        let stored = self.sink.put(raw, &mut self.packed_block, packed, entry)?;
        sizes.emitted(if sizes.is_exact() { stored } else { raw_bytes }, stored, tail);
        Ok(())
    }

    /// The form in which a block that is not data is stored, compressed if that pays, and written.
    ///
    /// # Errors
    /// As [`Serial::submit`].
    pub fn write_compressed(&mut self, block: &mut Vec<u8>) -> Result<crate::BlockHandle> {
        let packed = self.worker.pack(block, &mut self.packed_block)?;
        self.sink.write_packed(block, &mut self.packed_block, packed)
    }
}
