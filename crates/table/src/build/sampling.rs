//! `sample_for_compression`: estimates how large the data blocks of a table would be with a fast
//! and with a slow codec, whatever codec it uses.
//!
//! One block in N is compressed with LZ4 and with ZSTD at their default levels, and the ratios are
//! applied to all blocks: two properties of the table. RocksDB draws a random number per block;
//! here one block of each group of N is drawn, from the origin of the file and the number of the
//! group, so that the bytes of the table do not depend on when and by which thread it was built. It
//! is done where the blocks end, on the emitter, as in RocksDB. A block that a codec cannot make
//! smaller counts with its raw size: it would be stored uncompressed.
//!
//! One owner. It does not decide how blocks are stored.

use pumice_base::Result;
use pumice_base::narrow::round_down_u64;
use pumice_base::random::Rng;
use pumice_compress::{CompressionOptions, CompressionType, Compressor};

use crate::build::context::TableBuildContext;
use crate::build::setup;
use crate::handle::BLOCK_TRAILER_LEN;
use crate::properties::TableProperties;

/// Samples and their sums.
pub(crate) struct Sampling {
    /// Blocks of a group.
    every: u64,
    rng: Rng,
    /// The block of the current group to be sampled.
    chosen: u64,
    fast: Compressor,
    slow: Compressor,
    packed: Vec<u8>,
    /// All blocks, and their raw bytes.
    blocks: u64,
    bytes: u64,
    /// Raw bytes of the samples, and with each codec.
    sampled: u64,
    sampled_fast: u64,
    sampled_slow: u64,
}

impl Sampling {
    /// `None` if no block will be sampled.
    ///
    /// # Errors
    /// As [`Compressor::new`].
    pub fn new(context: &TableBuildContext) -> Result<Option<Box<Self>>> {
        if context.sample_for_compression == 0 {
            return Ok(None);
        }
        // Up to the size of the block: a larger result would not be stored.
        let options =
            CompressionOptions { max_compressed_bytes_per_kb: 1024, ..Default::default() };
        let mut rng = Rng::new(u64::from(setup::base_context(context)));
        Ok(Some(Box::new(Sampling {
            every: context.sample_for_compression,
            chosen: rng.uniform(context.sample_for_compression),
            rng,
            fast: Compressor::new(CompressionType::Lz4, &options)?,
            slow: Compressor::new(CompressionType::Zstd, &options)?,
            packed: Vec::new(),
            blocks: 0,
            bytes: 0,
            sampled: 0,
            sampled_fast: 0,
            sampled_slow: 0,
        })))
    }

    /// The next data block, before it is compressed.
    ///
    /// # Errors
    /// As [`Compressor::compress`].
    #[cold]
    pub fn block(&mut self, raw: &[u8]) -> Result<()> {
        if self.blocks == self.chosen {
            self.sampled += raw.len() as u64;
            self.sampled_fast += size_with(&mut self.fast, raw, &mut self.packed)?;
            self.sampled_slow += size_with(&mut self.slow, raw, &mut self.packed)?;
        }
        self.blocks += 1;
        self.bytes += raw.len() as u64;
        if self.blocks.is_multiple_of(self.every) {
            self.chosen = self.blocks.saturating_add(self.rng.uniform(self.every));
        }
        Ok(())
    }

    /// Writes the two properties. Without a sample they report no gain.
    pub fn note(&self, properties: &mut TableProperties) {
        properties.fast_compression_size = self.estimate(self.sampled_fast);
        properties.slow_compression_size = self.estimate(self.sampled_slow);
    }

    /// Bytes of all blocks in the file if the samples, compressed to `packed`, are typical.
    fn estimate(&self, packed: u64) -> u64 {
        let trailers = self.blocks * BLOCK_TRAILER_LEN as u64;
        if self.sampled == 0 {
            return self.bytes + trailers;
        }
        let ratio = packed as f64 / self.sampled as f64;
        round_down_u64((ratio * self.bytes as f64 + trailers as f64).round())
    }
}

/// Bytes of block `raw` as `codec` would store it.
fn size_with(codec: &mut Compressor, raw: &[u8], packed: &mut Vec<u8>) -> Result<u64> {
    packed.clear();
    let smaller = codec.compress(raw, packed)?;
    Ok(if smaller { packed.len() } else { raw.len() } as u64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn sampling(every: u64, file: u64) -> Option<Box<Sampling>> {
        let context = TableBuildContext {
            sample_for_compression: every,
            original_file_number: file,
            ..TableBuildContext::default()
        };
        Sampling::new(&context).unwrap()
    }

    /// The numbers of the blocks that are sampled.
    fn chosen(every: u64, file: u64, blocks: u64) -> Vec<u64> {
        let mut sampling = sampling(every, file).unwrap();
        let mut numbers = Vec::new();
        for number in 0..blocks {
            let before = sampling.sampled;
            sampling.block(&[7; 100]).unwrap();
            numbers.extend((sampling.sampled > before).then_some(number));
        }
        numbers
    }

    #[pumice_test_macros::test]
    fn one_block_of_each_group_is_sampled() {
        assert!(sampling(0, 1).is_none());
        assert_eq!(chosen(1, 1, 5), [0, 1, 2, 3, 4]);
        for every in [2, 7, 100] {
            let numbers = chosen(every, 1, every * 50);
            let groups: Vec<u64> = numbers.iter().map(|number| number / every).collect();
            assert_eq!(groups, Vec::from_iter(0..50), "{every}");
            let places: std::collections::BTreeSet<u64> =
                numbers.iter().map(|number| number % every).collect();
            assert!(places.len() as u64 > every.min(50) / 2, "{every}: {places:?}");
            assert_eq!(numbers, chosen(every, 1, every * 50), "a function of the origin");
            assert_ne!(numbers, chosen(every, 2, every * 50), "not the same in every file");
        }
        assert!(chosen(u64::MAX, 1, 10).is_empty());
    }

    #[pumice_test_macros::test]
    fn estimates_are_ratios_for_all_blocks() {
        let mut properties = TableProperties::default();
        let mut noted = |sampling: &Sampling| {
            sampling.note(&mut properties);
            (properties.fast_compression_size, properties.slow_compression_size)
        };
        let mut all = sampling(1, 1).unwrap();
        all.block(&[7; 4000]).unwrap();
        let (fast, slow) = noted(&all);
        assert!(fast > 5 && fast < 60 && slow > 5 && slow < 60, "{fast} {slow}");
        // Data that no codec makes smaller.
        let noise = Rng::new(3).bytes(4000);
        all.block(&noise).unwrap();
        assert_eq!(noted(&all), (fast + 4005, slow + 4005));

        let mut none = sampling(u64::MAX, 1).unwrap();
        none.block(&[7; 4000]).unwrap();
        assert_eq!(noted(&none), (4005, 4005), "nothing was sampled");
    }
}
