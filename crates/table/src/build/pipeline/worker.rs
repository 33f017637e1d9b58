//! Compresses blocks where it pays, with the contexts of one thread.
//!
//! A [`Codec`] says how the blocks of a table are compressed and makes [`Worker`]s; a worker has
//! the codec's contexts and belongs to one thread at a time. A worker's output depends on the block
//! and the codec that was chosen for it, so it does not matter which worker gets it.

use std::sync::Arc;

use pumice_base::planted::{self, Bug};
use pumice_base::{Error, Result};
use pumice_compress::{
    CompressionDict, CompressionOptions, CompressionType, Compressor, Decompressor,
};

use crate::build::stats::BuildStats;

/// How blocks are compressed.
#[derive(Clone)]
pub(crate) struct Codec {
    pub kind: CompressionType,
    pub options: Arc<CompressionOptions>,
    /// Every block is decompressed and compared.
    pub verify: bool,
    /// One in this many blocks is timed.
    pub timed: u32,
    /// The dictionary of the data blocks, once it is made.
    pub dictionary: Option<Dictionary>,
}

/// A dictionary, prepared for both directions.
#[derive(Clone)]
pub(crate) struct Dictionary {
    pub write: Arc<CompressionDict>,
    /// For verification.
    pub read: Option<Arc<pumice_compress::Dictionary>>,
}

impl Codec {
    /// One in this many blocks is timed, unless more is requested.
    pub const TIMED: u32 = 64;

    /// The same without the dictionary.
    pub fn without_dictionary(&self) -> Codec {
        Codec { dictionary: None, ..self.clone() }
    }

    /// Prepares `dict`.
    ///
    /// # Errors
    /// As [`pumice_compress::Dictionary::new`].
    pub fn dictionary(&self, dict: CompressionDict) -> Result<Dictionary> {
        let read = match self.verify {
            true => Some(Arc::new(pumice_compress::Dictionary::new(self.kind, dict.bytes())?)),
            false => None,
        };
        Ok(Dictionary { write: Arc::new(dict), read })
    }

    /// Contexts for one more thread.
    ///
    /// # Errors
    /// As [`Compressor::new`].
    pub fn worker(&self) -> Result<Worker> {
        let compressor = match (self.kind, &self.dictionary) {
            (CompressionType::None, _) => None,
            (kind, None) => Some(Compressor::new(kind, &self.options)?),
            (kind, Some(dictionary)) => {
                let shared = Arc::clone(&dictionary.write);
                Some(Compressor::with_dictionary(kind, &self.options, shared)?)
            }
        };
        let verify = self.verify.then(|| Verify {
            decompressor: Decompressor::new(),
            back: Vec::new(),
            dictionary: self.dictionary.as_ref().and_then(|dictionary| dictionary.read.clone()),
        });
        let options = Arc::clone(&self.options);
        Ok(Worker { compressor, others: Vec::new(), options, verify, timed: self.timed, blocks: 0 })
    }
}

/// Buffers above this are given back when their block is in the file.
const KEPT_BYTES: usize = 8 << 20;

/// Frees the buffer of a large block, which the next one is unlikely to need.
#[inline]
pub(crate) fn release_large(buffer: &mut Vec<u8>) {
    if buffer.capacity() > KEPT_BYTES {
        *buffer = Vec::new();
    }
}

/// Decompresses what was compressed, and compares.
struct Verify {
    decompressor: Decompressor,
    back: Vec<u8>,
    dictionary: Option<Arc<pumice_compress::Dictionary>>,
}

impl Verify {
    fn check(&mut self, kind: CompressionType, stored: &[u8], raw: &[u8]) -> Result<()> {
        let dictionary = self.dictionary.as_deref();
        self.decompressor
            .decompress_with(kind, stored, dictionary, &mut self.back, raw.len())
            .map_err(|error| Error::corruption(format!("Could not decompress: {error}")))?;
        let same = self.back == raw;
        release_large(&mut self.back);
        if same {
            return Ok(());
        }
        Err(Error::corruption("Decompressed block did not match pre-compression block"))
    }
}

/// What became of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Stored raw without trying.
    #[default]
    Bypassed,
    /// Stored raw, as compression did not make it small enough.
    Rejected,
    /// Stored compressed.
    Compressed,
}

/// The form in which a block is stored, and what it cost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Packed {
    pub kind: CompressionType,
    pub outcome: Outcome,
    /// Size of the compressed form; 0 if there is none.
    pub bytes: usize,
    /// Estimated for this block and those not timed.
    pub nanos: u64,
}

impl Packed {
    /// Counts a block of `raw` bytes, `stored` in the file.
    pub fn count(&self, stats: &mut BuildStats, raw: usize, stored: usize) {
        stats.compress_nanos += self.nanos;
        let (blocks, bytes) = match self.outcome {
            Outcome::Bypassed => (&mut stats.blocks_bypassed, &mut stats.bytes_bypassed),
            Outcome::Rejected => (&mut stats.blocks_rejected, &mut stats.bytes_rejected),
            Outcome::Compressed => {
                stats.bytes_compressed_to += stored as u64;
                if let Some(times) = &mut stats.codec_times {
                    times.add(self.nanos);
                }
                (&mut stats.blocks_compressed, &mut stats.bytes_compressed_from)
            }
        };
        *blocks += 1;
        *bytes += raw as u64;
    }
}

/// One thread's contexts.
pub(crate) struct Worker {
    compressor: Option<Compressor>,
    /// Contexts of the codecs that were chosen before.
    others: Vec<Compressor>,
    options: Arc<CompressionOptions>,
    verify: Option<Verify>,
    timed: u32,
    blocks: u32,
}

impl Worker {
    /// As [`Worker::pack`] with codec `kind`, if one was chosen; `None` does not compress.
    ///
    /// # Errors
    /// As there, and as [`Compressor::new`].
    pub fn pack_with(
        &mut self,
        kind: Option<CompressionType>,
        raw: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Packed> {
        match kind {
            None => {}
            Some(CompressionType::None) => return Ok(Packed::default()),
            Some(kind) => self.choose(kind)?,
        }
        self.pack(raw, out)
    }

    /// Further blocks are compressed with codec `kind`.
    fn choose(&mut self, kind: CompressionType) -> Result<()> {
        if self.compressor.as_ref().is_some_and(|present| present.kind() == kind) {
            return Ok(());
        }
        let compressor = match self.others.iter().position(|other| other.kind() == kind) {
            Some(at) => self.others.swap_remove(at),
            None => Compressor::new(kind, &self.options)?,
        };
        self.others.extend(self.compressor.replace(compressor));
        Ok(())
    }

    /// Turns block `raw` into its stored form: `out` if the outcome is `Compressed`, otherwise
    /// `raw` unchanged.
    ///
    /// # Errors
    /// `Corruption` if the codec fails, or verification finds a mismatch.
    #[inline]
    pub fn pack(&mut self, raw: &[u8], out: &mut Vec<u8>) -> Result<Packed> {
        if self.compressor.is_none() {
            return Ok(Packed::default());
        }
        let timed = self.blocks.is_multiple_of(self.timed);
        self.blocks = self.blocks.wrapping_add(1);
        if !timed {
            return self.pack_now(raw, out);
        }
        let start = pumice_port::time::now_nanos();
        let mut packed = self.pack_now(raw, out)?;
        packed.nanos = (pumice_port::time::now_nanos() - start) * u64::from(self.timed);
        Ok(packed)
    }

    fn pack_now(&mut self, raw: &[u8], out: &mut Vec<u8>) -> Result<Packed> {
        out.clear();
        let mut packed = Packed { outcome: Outcome::Rejected, ..Packed::default() };
        let Some(compressor) = &mut self.compressor else { return Ok(Packed::default()) };
        if !compressor.compress(raw, out)? {
            return Ok(packed);
        }
        if planted::is(Bug::CodecDamagesBlock) {
            let middle = out.len() / 2;
            out[middle] ^= 1;
        }
        packed.kind = compressor.kind();
        packed.bytes = out.len();
        packed.outcome = Outcome::Compressed;
        if let Some(verify) = &mut self.verify {
            verify.check(packed.kind, out, raw)?;
        }
        Ok(packed)
    }
}
