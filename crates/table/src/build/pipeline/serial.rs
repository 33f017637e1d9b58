//! The pipeline of one thread: a block is compressed and written before the next one begins.
//! Without a codec a block is only sealed, and stays where it was built until the buffer is long
//! enough; then the buffer is written, without a copy.
//!
//! One owner.

use pumice_base::Result;
use pumice_base::planted::{self, Bug};
use pumice_compress::CompressionType;

use crate::build::block_buffer::{BUFFER_BYTES_MAX, BlockBuffer};
use crate::build::index_builder::IndexEntry;
use crate::build::pipeline::chooser::Chooser;
use crate::build::pipeline::sink::Sink;
use crate::build::pipeline::worker::{Codec, Dictionary, Worker};
use crate::build::sizes::SizeEstimate;
use crate::handle::{BLOCK_TRAILER_LEN, BlockHandle};

/// File, contexts and the buffer for compressed blocks.
pub(crate) struct Serial {
    pub sink: Sink,
    pub worker: Worker,
    pub packed_block: Vec<u8>,
    pub codec: Codec,
    /// Contexts without the dictionary, once they are needed.
    pub plain: Option<Worker>,
    /// Chooses the codec of each block, if it is not always that of `codec`.
    pub chooser: Option<Box<Chooser>>,
}

impl Serial {
    /// A pipeline to `sink`.
    ///
    /// # Errors
    /// As [`Codec::worker`].
    pub fn new(sink: Sink, codec: Codec, chooser: Option<Box<Chooser>>) -> Result<Self> {
        let worker = codec.worker()?;
        Ok(Serial { sink, worker, packed_block: Vec::new(), codec, plain: None, chooser })
    }

    /// From now on blocks are compressed with `dictionary`.
    ///
    /// # Errors
    /// As [`Codec::worker`].
    pub fn use_dictionary(&mut self, dictionary: Dictionary) -> Result<()> {
        self.codec.dictionary = Some(dictionary);
        if let Some(chooser) = &mut self.chooser {
            chooser.use_dictionary();
        }
        self.worker = self.codec.worker()?;
        Ok(())
    }

    /// Blocks are stored as they are.
    #[inline]
    pub fn stores_raw(&self) -> bool {
        self.codec.kind == CompressionType::None
    }

    /// Seals the block at the end of `buffer`, and writes the buffer when it is long enough or the
    /// block the `last` one. May suspend. Requires `stores_raw`.
    ///
    /// # Errors
    /// I/O errors.
    pub fn keep(
        &mut self,
        buffer: &mut BlockBuffer,
        entry: &IndexEntry,
        sizes: &mut SizeEstimate,
        tail: u64,
        last: bool,
    ) -> Result<()> {
        let gap = self.sink.gap_before(buffer.block_len());
        if gap > 0 {
            self.sink.out.writer.append_run(buffer.finished())?;
            buffer.drop_finished();
            self.sink.out.append_zeros(gap)?;
        }
        let stored = gap as u64 + self.sink.keep(buffer, entry);
        sizes.emitted(stored, stored, tail);
        let max = self.sink.out.writer.buffer_bytes_max().min(BUFFER_BYTES_MAX);
        if last || buffer.finished().len() > max {
            self.sink.out.writer.append_run(buffer.finished())?;
            buffer.clear();
        }
        Ok(())
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
        let packed = match &mut self.chooser {
            None => self.worker.pack(raw, &mut self.packed_block)?,
            Some(chooser) => {
                let kind = Some(chooser.data_block(raw.len()));
                let packed = self.worker.pack_with(kind, raw, &mut self.packed_block)?;
                chooser.note(1, packed);
                packed
            }
        };
        let stored = self.sink.put(raw, &mut self.packed_block, packed, entry)?;
        sizes.emitted(raw_bytes, stored, tail);
        Ok(())
    }

    /// Compresses a block that is not data, without the dictionary and if that pays, and writes it.
    ///
    /// # Errors
    /// As [`Serial::submit`].
    pub fn write_compressed(&mut self, block: &mut Vec<u8>) -> Result<BlockHandle> {
        let worker = match (&self.codec.dictionary, &mut self.plain) {
            (None, _) => &mut self.worker,
            _ if planted::is(Bug::DictionaryForIndex) => &mut self.worker,
            (_, Some(plain)) => plain,
            (_, plain) => plain.insert(self.codec.without_dictionary().worker()?),
        };
        let kind = self.chooser.as_mut().map(|chooser| chooser.other_block());
        let packed = worker.pack_with(kind, block, &mut self.packed_block)?;
        self.sink.write_packed(block, &mut self.packed_block, packed)
    }
}
