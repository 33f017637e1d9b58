//! The way of finished data blocks into the file: compression, then writing in order.
//!
//! | part | is |
//! |---|---|
//! | `worker` | a codec with its contexts: makes the stored form of a block |
//! | `sink` | file and index: take the stored blocks in order |
//! | `serial` | one thread does both |
//!
//! Whatever the pipeline, the bytes in the file are those of the serial one.
//!
//! Thread safety: a [`Pipeline`] belongs to the emitter. Invariant: after an error nothing is
//! written any more, and every call returns the first error.

pub(crate) mod block_writer;
pub(crate) mod serial;
pub(crate) mod sink;
pub(crate) mod worker;

use pumice_base::{Error, Result};

use crate::build::index_adapter::IndexEntry;
use crate::build::pipeline::serial::Serial;
use crate::build::pipeline::block_writer::BlockWriter;
use crate::build::sizes::SizeEstimate;

/// Takes blocks in order.
pub(crate) struct Pipeline {
    serial: Serial,
    failed: Option<Error>,
}

impl Pipeline {
    /// A pipeline that does everything in the caller's thread.
    pub fn new(serial: Serial) -> Self {
        Pipeline { serial, failed: None }
    }

    /// Takes block `raw` with its index entry and notes its size; both come back to be filled
    /// again. `tail` is about what follows the data blocks. May suspend.
    ///
    /// # Errors
    /// The first error of any thread.
    pub fn submit(
        &mut self,
        raw: &mut Vec<u8>,
        entry: &mut IndexEntry,
        sizes: &mut SizeEstimate,
        tail: u64,
        _last: bool,
    ) -> Result<()> {
        self.check()?;
        let result = self.serial.submit(raw, entry, sizes, tail);
        result.map_err(|error| self.fail(error))
    }

    /// The first error, if there was one.
    ///
    /// # Errors
    /// That.
    #[inline]
    pub fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn fail(&mut self, error: Error) -> Error {
        self.failed.get_or_insert(error).clone()
    }

    /// Waits until all blocks are written. May suspend.
    ///
    /// # Errors
    /// As [`Pipeline::submit`].
    pub fn drain(&mut self) -> Result<()> {
        self.check()
    }

    /// What one thread needs to write the rest of the file.
    pub fn serial(&mut self) -> &mut Serial {
        &mut self.serial
    }

    /// The file.
    pub fn out(&mut self) -> &mut BlockWriter {
        &mut self.serial().sink.out
    }

    /// Ends the work; the file may be closed.
    pub fn abort(&mut self) -> &mut BlockWriter {
        self.out()
    }
}
