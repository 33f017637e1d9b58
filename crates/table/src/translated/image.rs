//! The image of a table of another format: a file that looks like a block-based table.
//!
//! Thread safety: immutable. Invariant: `starts` has the places of the data blocks in ascending
//! order and the end of the last one, where `tail` begins. Suspends where rows are read.

use std::path::Path;
use std::sync::Arc;

use pumice_base::narrow::to_usize;
use pumice_base::{Error, Result};
use pumice_env::file_system::read_one_by_one;
use pumice_env::{RandomAccessFile, ReadRequest};

use crate::handle::BLOCK_TRAILER_LEN;
use crate::translated::layout::{block_len, data_block};

/// The rows of a table, cut into blocks.
pub(crate) trait Rows: Send + Sync {
    /// Calls `add` with key and value of each row of that block, in key order. Suspends.
    ///
    /// # Errors
    /// Corruption, I/O errors.
    fn visit(&self, block: usize, add: &mut dyn FnMut(&[u8], &[u8])) -> Result<()>;
    /// Bytes that are held.
    fn memory(&self) -> usize;
}

/// See the head of this file.
pub(crate) struct Image {
    pub rows: Box<dyn Rows>,
    pub starts: Vec<u64>,
    pub tail: Vec<u8>,
    pub file: Arc<dyn RandomAccessFile>,
}

impl Image {
    fn data_end(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// A data block with its trailer.
    fn block(&self, number: usize) -> Result<Vec<u8>> {
        let mut block = data_block();
        self.rows.visit(number, &mut |key, value| block.add(key, value))?;
        let mut bytes = block.finish("data block")?;
        bytes.extend_from_slice(&[0; BLOCK_TRAILER_LEN]);
        if bytes.len() == block_len(&self.starts, number) {
            return Ok(bytes);
        }
        let name = self.file.path().display();
        Err(Error::corruption(format!("the rows have changed since the open of {name}")))
    }

    /// Copies what is at `offset` into `buf`, up to the end of a block or the tail.
    fn copy_some(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let end = self.data_end();
        let copy = |from: &[u8], buf: &mut [u8]| {
            let bytes = from.len().min(buf.len());
            buf[..bytes].copy_from_slice(&from[..bytes]);
            bytes
        };
        if offset >= end {
            let at = to_usize(offset - end).min(self.tail.len());
            return Ok(copy(&self.tail[at..], buf));
        }
        let number = self.starts.partition_point(|start| *start <= offset) - 1;
        let block = self.block(number)?;
        Ok(copy(&block[to_usize(offset - self.starts[number])..], buf))
    }
}

impl RandomAccessFile for Image {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match self.copy_some(offset + done as u64, &mut buf[done..])? {
                0 => break,
                some => done += some,
            }
        }
        Ok(done)
    }

    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) {
        read_one_by_one(self, requests);
    }

    fn needs_little_stack(&self) -> bool {
        false
    }

    /// Blocks are made from rows, whose places differ: the file's own readahead has to do.
    fn prefetch(&self, _offset: u64, _bytes: u64) {}

    /// Reading ahead would make blocks that may not be wanted.
    fn prefetches(&self) -> bool {
        true
    }

    fn read_unit(&self) -> usize {
        1
    }

    fn len(&self) -> u64 {
        self.data_end() + self.tail.len() as u64
    }

    fn path(&self) -> &Path {
        self.file.path()
    }
}
