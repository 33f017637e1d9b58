//! The dictionary of a table being written: made from samples of its blocks, prepared once for
//! its codec, shared by the compressors of all threads.
//!
//! What a dictionary is made of follows RocksDB's options. zstd with `zstd_max_train_bytes` trains
//! one (`use_zstd_dict_trainer`) or puts the statistics of the samples before them; everything else
//! takes the samples as they are. If no useful dictionary can be made there is none, and the table
//! is written without: a table with an empty dictionary block could not be read.
//!
//! Thread safety: immutable; shared by `Arc`. Invariant 1: `bytes` is never empty and is the form
//! that readers need ([`crate::Dictionary`]).
//!
//! Not here: which blocks are sampled, and when buffering ends (the table builder).

use std::sync::Arc;

use pumice_base::{Error, Result};

use crate::lz4::{Lz4Dict, Mode};
use crate::options::{CompressionOptions, CompressionType};
use crate::zstd::{self, ZstdDict};

/// Shorter contents help no codec: neither LZ4 nor zstd looks at fewer bytes.
const MIN_CONTENT: usize = 8;

/// A dictionary for writing; its [`bytes`](Self::bytes) go into the table.
pub struct CompressionDict {
    kind: CompressionType,
    /// The level it was prepared for; its compressors must have the same.
    level: i32,
    bytes: Arc<[u8]>,
    pub(crate) digest: Digest,
}

/// A codec's prepared form of the bytes.
pub(crate) enum Digest {
    /// Zlib has no prepared form: each block hashes the dictionary again.
    Zlib,
    Lz4(Arc<Lz4Dict>),
    Zstd(Arc<ZstdDict>),
}

impl CompressionDict {
    /// Whether tables of type `kind` can have a dictionary with these options, so that blocks are
    /// worth sampling.
    pub fn wanted(kind: CompressionType, options: &CompressionOptions) -> bool {
        use CompressionType::{Lz4, Lz4hc, Zlib, Zstd};
        options.max_dict_bytes > 0 && matches!(kind, Zlib | Lz4 | Lz4hc | Zstd) && kind.is_built()
    }

    /// How many bytes of samples [`CompressionDict::build`] takes; 0 if a dictionary is not
    /// [`wanted`](Self::wanted).
    pub fn sample_bytes(kind: CompressionType, options: &CompressionOptions) -> usize {
        if !Self::wanted(kind, options) {
            return 0;
        }
        match (kind, options.zstd_max_train_bytes) {
            (CompressionType::Zstd, train @ 1..) => train as usize,
            _ => options.max_dict_bytes as usize,
        }
    }

    /// Makes the dictionary of a table from `samples`, which are concatenated and have the lengths
    /// `sizes`. Takes milliseconds if it trains. The same samples and options give the same bytes.
    ///
    /// `None`: this codec, these options or these samples give no dictionary; write without.
    ///
    /// # Errors
    /// `InvalidArgument` if `sizes` do not add up to the length of `samples`.
    pub fn build(
        kind: CompressionType,
        options: &CompressionOptions,
        samples: &[u8],
        sizes: &[usize],
    ) -> Result<Option<Self>> {
        let total = sizes.iter().try_fold(0usize, |sum, size| sum.checked_add(*size));
        if total != Some(samples.len()) {
            return Err(Error::invalid_argument("sizes of dictionary samples do not add up"));
        }
        if !Self::wanted(kind, options) || samples.len() < MIN_CONTENT {
            return Ok(None);
        }
        let max = options.max_dict_bytes as usize;
        let train = kind == CompressionType::Zstd && options.zstd_max_train_bytes > 0;
        let bytes: Arc<[u8]> = match (train, options.use_zstd_dict_trainer) {
            (false, _) => samples[..samples.len().min(max)].into(),
            (true, true) => zstd::train(samples, sizes, max).into(),
            (true, false) => zstd::finalize(samples, sizes, max, options).into(),
        };
        Ok(Self::prepare(kind, options, bytes))
    }

    /// Prepares `bytes`, the dictionary itself. `None` if it is of no use to `kind`.
    pub fn from_bytes(
        kind: CompressionType,
        options: &CompressionOptions,
        bytes: &[u8],
    ) -> Option<Self> {
        Self::prepare(kind, options, bytes.into())
    }

    fn prepare(
        kind: CompressionType,
        options: &CompressionOptions,
        bytes: Arc<[u8]>,
    ) -> Option<Self> {
        if bytes.len() < MIN_CONTENT {
            return None;
        }
        let digest = match kind {
            CompressionType::Zlib => Digest::Zlib,
            CompressionType::Lz4 | CompressionType::Lz4hc => {
                let mode = Mode::of(kind, options.level);
                Digest::Lz4(Arc::new(Lz4Dict::new(mode, bytes.clone())))
            }
            CompressionType::Zstd => Digest::Zstd(Arc::new(ZstdDict::new(&bytes, options)?)),
            _ => return None,
        };
        Some(CompressionDict { kind, level: options.level, bytes, digest })
    }

    /// The content of the table's dictionary block; never empty.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The codec it is for.
    pub fn kind(&self) -> CompressionType {
        self.kind
    }

    /// Heap bytes held, for accounting.
    pub fn memory_bytes(&self) -> usize {
        let digest = match &self.digest {
            Digest::Zlib => 0,
            Digest::Lz4(dict) => dict.memory_bytes(),
            Digest::Zstd(dict) => dict.memory_bytes(),
        };
        self.bytes.len() + digest
    }

    /// The bytes, shared.
    pub(crate) fn shared_bytes(&self) -> Arc<[u8]> {
        self.bytes.clone()
    }

    /// Rejects a compressor of another codec or level.
    pub(crate) fn check(&self, kind: CompressionType, options: &CompressionOptions) -> Result<()> {
        if (kind, options.level) == (self.kind, self.level) {
            return Ok(());
        }
        Err(Error::invalid_argument(format!(
            "a dictionary for {} at level {} does not fit {} at level {}",
            self.kind.property_name(),
            self.level,
            kind.property_name(),
            options.level
        )))
    }
}
