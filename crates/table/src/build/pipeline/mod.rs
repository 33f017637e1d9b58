//! The path of finished data blocks into the file: compression, then writing in order.
//!
//! | part | is |
//! |---|---|
//! | `chooser` | the codec of each block, where it is not always the same |
//! | `worker` | a codec with its contexts: makes the stored form of a block |
//! | `sink` | file and index: take the stored blocks in order |
//! | `serial` | one thread does both |
//! | `parallel` | helpers do it |
//! | `prepopulate` | blocks that go into the block cache at once |
//! | `dictionary` | the first blocks of a table with a dictionary wait here |
//!
//! Whatever the pipeline, the bytes in the file are those of the serial one.
//!
//! Thread safety: a [`Pipeline`] belongs to the emitter. Invariants: (1) after an error nothing
//! more is written, no helper is at work, and every call returns the first error; (2) `stage` is
//! `Gone` only inside a method, or after a panic.

pub(crate) mod block_writer;
pub(crate) mod chooser;
pub(crate) mod dictionary;
pub(crate) mod parallel;
pub(crate) mod prepopulate;
pub(crate) mod serial;
pub(crate) mod sink;
pub(crate) mod worker;

use pumice_base::{Error, Result, Severity};

use crate::build::block_buffer::BlockBuffer;
use crate::build::index_builder::IndexEntry;
use crate::build::pipeline::block_writer::BlockWriter;
use crate::build::pipeline::dictionary::Waiting;
use crate::build::pipeline::parallel::{Parallel, Plan};
use crate::build::pipeline::serial::Serial;
use crate::build::sizes::SizeEstimate;

/// Takes blocks in order.
pub(crate) struct Pipeline {
    stage: Stage,
    /// Blocks that wait for a dictionary.
    waiting: Option<Waiting>,
    /// Helpers join once the first block, unless it is also the last, is submitted.
    plan: Option<Plan>,
    failed: Option<Error>,
}

enum Stage {
    Serial(Box<Serial>),
    Parallel(Box<Parallel>),
    Gone,
}

impl Pipeline {
    /// A pipeline that starts with one thread.
    pub fn new(serial: Serial, waiting: Option<Waiting>, plan: Option<Plan>) -> Self {
        Pipeline { stage: Stage::Serial(Box::new(serial)), waiting, plan, failed: None }
    }

    /// Takes the block at the end of `buffer` with its index entry and notes its size; both come
    /// back for the next block. `tail` is the approximate size of what follows the data blocks. May
    /// suspend.
    ///
    /// # Errors
    /// The first error of any thread.
    #[inline]
    pub fn submit(
        &mut self,
        buffer: &mut BlockBuffer,
        entry: &mut IndexEntry,
        sizes: &mut SizeEstimate,
        tail: u64,
        last: bool,
    ) -> Result<()> {
        self.check()?;
        let result = match (&mut self.stage, &mut self.waiting) {
            (Stage::Serial(serial), _) if serial.stores_raw() => {
                serial.keep(buffer, entry, sizes, tail, last)
            }
            (_, None) => self.pass_on(buffer.take_block(), entry, sizes, tail, last),
            (_, Some(waiting)) => {
                waiting.push(buffer.take_block(), entry);
                sizes.waiting(waiting.bytes(), tail);
                if last || waiting.is_full() { self.release(sizes, tail, last) } else { Ok(()) }
            }
        };
        result.map_err(|error| self.fail(error))
    }

    fn pass_on(
        &mut self,
        raw: &mut Vec<u8>,
        entry: &mut IndexEntry,
        sizes: &mut SizeEstimate,
        tail: u64,
        last: bool,
    ) -> Result<()> {
        if !last && self.plan.is_some() {
            self.start_helpers();
        }
        match &mut self.stage {
            Stage::Serial(serial) => serial.submit(raw, entry, sizes, tail),
            Stage::Parallel(parallel) => parallel.submit(raw, entry, sizes, tail, last),
            Stage::Gone => Err(gone()),
        }
    }

    #[cold]
    fn start_helpers(&mut self) {
        let Some(plan) = self.plan.take() else { return };
        self.stage = match std::mem::replace(&mut self.stage, Stage::Gone) {
            Stage::Serial(serial) => Stage::Parallel(Box::new(Parallel::new(*serial, &plan))),
            other => other,
        };
    }

    /// Makes the dictionary and sends off the blocks that waited for it.
    #[cold]
    fn release(&mut self, sizes: &mut SizeEstimate, tail: u64, last: bool) -> Result<()> {
        let (Some(waiting), Stage::Serial(serial)) = (self.waiting.take(), &mut self.stage) else {
            return Err(gone());
        };
        if let Some(dict) = waiting.dictionary(serial.codec.kind, &serial.codec.options)? {
            let dictionary = serial.codec.dictionary(dict)?;
            serial.use_dictionary(dictionary)?;
        }
        let (blocks, _charge) = waiting.into_blocks();
        let end = blocks.len();
        for (number, (mut raw, mut entry)) in (1..).zip(blocks) {
            self.pass_on(&mut raw, &mut entry, sizes, tail, last && number == end)?;
        }
        Ok(())
    }

    /// The first error, if there was one.
    ///
    /// # Errors
    /// That error.
    #[inline]
    pub fn check(&self) -> Result<()> {
        match &self.failed {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    /// Records an error and ends the work; returns the first one recorded. May suspend.
    #[cold]
    pub fn fail(&mut self, error: Error) -> Error {
        self.end(true).err();
        self.failed.get_or_insert(error).clone()
    }

    /// Waits until all blocks are written. May suspend.
    ///
    /// # Errors
    /// As [`Pipeline::submit`].
    pub fn drain(&mut self) -> Result<()> {
        self.check()?;
        self.end(false).map_err(|error| self.fail(error))
    }

    /// Back to one thread.
    fn end(&mut self, abort: bool) -> Result<()> {
        let (stage, result) = match std::mem::replace(&mut self.stage, Stage::Gone) {
            Stage::Parallel(parallel) => {
                let (serial, result) = parallel.end(abort);
                (serial.map_or(Stage::Gone, |serial| Stage::Serial(Box::new(serial))), result)
            }
            other => (other, Ok(())),
        };
        self.stage = stage;
        result
    }

    /// The state that one thread needs to write the rest of the file. After [`Pipeline::drain`].
    ///
    /// # Errors
    /// Only if the pipeline is not drained.
    pub fn serial(&mut self) -> Result<&mut Serial> {
        match &mut self.stage {
            Stage::Serial(serial) => Ok(serial),
            Stage::Parallel(_) | Stage::Gone => Err(gone()),
        }
    }

    /// The file. After [`Pipeline::drain`].
    ///
    /// # Errors
    /// As [`Pipeline::serial`].
    pub fn out(&mut self) -> Result<&mut BlockWriter> {
        Ok(&mut self.serial()?.sink.out)
    }

    /// Ends the work and closes the file as it is. Suspends.
    ///
    /// # Errors
    /// I/O errors of closing.
    pub fn close(&mut self) -> Result<()> {
        // Errors have been returned by other calls, or no longer matter.
        self.end(true).err();
        self.out()?.writer.close()
    }
}

#[cold]
fn gone() -> Error {
    Error::aborted("the table builder panicked before").with_severity(Severity::Unrecoverable)
}
