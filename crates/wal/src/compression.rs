//! Compressed logs: each logical record is one zstd frame, cut into fragments like any payload.
//! Requires the feature `zstd`; without it `compression_absent.rs` is used.
//!
//! Thread safety: one owner; the contexts are reused from record to record.

use crate::record::BLOCK_BYTES;
use pumice_base::{Error, Result};
use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, DCtx, InBuffer, OutBuffer, ResetDirective, get_error_name};

/// A record may grow by this much beyond its stored size. A larger one has the right checksum all
/// the same, and may be a writer's: it is refused as not supported, since what is corrupt may be
/// taken for the end of a log.
pub(crate) const GROWTH_BYTES_MAX: usize = 64 << 20;

/// Makes frames.
pub(crate) struct RecordCompressor {
    context: CCtx<'static>,
    chunk: Vec<u8>,
    frame: Vec<u8>,
}

impl RecordCompressor {
    pub(crate) fn new() -> Result<Self> {
        let (chunk, frame) = (vec![0; BLOCK_BYTES], Vec::new());
        Ok(RecordCompressor { context: CCtx::create(), chunk, frame })
    }

    /// One frame of all `parts`.
    pub(crate) fn compress(&mut self, parts: &[&[u8]]) -> Result<&[u8]> {
        self.frame.clear();
        let reset = self.context.reset(ResetDirective::SessionOnly);
        reset.map_err(|code| zstd_error("compress", code))?;
        for part in parts {
            self.stream(part, ZSTD_EndDirective::ZSTD_e_continue)?;
        }
        self.stream(&[], ZSTD_EndDirective::ZSTD_e_end)?;
        Ok(&self.frame)
    }

    fn stream(&mut self, input: &[u8], directive: ZSTD_EndDirective) -> Result<()> {
        let ends = directive as u32 == ZSTD_EndDirective::ZSTD_e_end as u32;
        let mut input = InBuffer::around(input);
        loop {
            let mut output = OutBuffer::around(self.chunk.as_mut_slice());
            let left = self
                .context
                .compress_stream2(&mut output, &mut input, directive)
                .map_err(|code| zstd_error("compress", code))?;
            self.frame.extend_from_slice(output.as_slice());
            let consumed = input.pos() == input.src.len();
            if if ends { left == 0 } else { consumed } {
                return Ok(());
            }
        }
    }
}

/// Undoes frames, fragment by fragment.
pub(crate) struct RecordDecompressor {
    context: DCtx<'static>,
    chunk: Vec<u8>,
    stored_bytes: usize,
    /// The frame's end was reached.
    complete: bool,
}

impl RecordDecompressor {
    pub(crate) fn new() -> Result<Self> {
        let chunk = vec![0; BLOCK_BYTES];
        let context = DCtx::create();
        Ok(RecordDecompressor { context, chunk, stored_bytes: 0, complete: false })
    }

    /// Starts a new record, whatever happened to the last.
    pub(crate) fn start(&mut self) -> Result<()> {
        (self.stored_bytes, self.complete) = (0, false);
        let reset = self.context.reset(ResetDirective::SessionOnly);
        reset.map(drop).map_err(|code| zstd_error("decompress", code))
    }

    /// Whether the record's frame has ended.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Decompresses `fragment` and appends the result to `out`.
    pub(crate) fn feed(&mut self, fragment: &[u8], out: &mut Vec<u8>) -> Result<()> {
        self.stored_bytes += fragment.len();
        let limit = self.stored_bytes + GROWTH_BYTES_MAX;
        let mut input = InBuffer::around(fragment);
        loop {
            let mut output = OutBuffer::around(self.chunk.as_mut_slice());
            let left = self
                .context
                .decompress_stream(&mut output, &mut input)
                .map_err(|code| zstd_error("decompress", code))?;
            let produced = output.as_slice();
            if out.len() + produced.len() > limit {
                return Err(Error::not_supported(format!(
                    "a compressed log record grows beyond {limit} bytes"
                )));
            }
            out.extend_from_slice(produced);
            let filled = produced.len() == BLOCK_BYTES;
            self.complete = left == 0;
            if self.complete || (input.pos() == fragment.len() && !filled) {
                break;
            }
        }
        if input.pos() < fragment.len() {
            return Err(Error::corruption("bytes after the compressed record"));
        }
        Ok(())
    }
}

fn zstd_error(what: &str, code: usize) -> Error {
    Error::corruption(format!("cannot {what} a log record: {}", get_error_name(code)))
}
