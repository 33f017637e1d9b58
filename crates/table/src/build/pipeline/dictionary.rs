//! Blocks that wait for the table's dictionary, and the samples it is made of.
//!
//! The first blocks of a table with a dictionary are kept until there are enough to train on, or no
//! more will come. Which bytes are sampled depends on the blocks alone, unless these are charged to
//! a strict block cache that has no room for more.
//!
//! One owner.

use pumice_base::Result;
use pumice_base::narrow::to_usize;
use pumice_cache::Reservation;
use pumice_compress::{CompressionDict, CompressionOptions, CompressionType};

use crate::build::index_builder::IndexEntry;
use crate::read::cached_block::CachedBlock;

/// What the blocks are charged as, if they are.
type Charge = Option<Reservation<CachedBlock>>;

/// Raw blocks in order, with their index entries.
pub(crate) struct Waiting {
    blocks: Vec<(Vec<u8>, IndexEntry)>,
    bytes: u64,
    /// Above this many bytes the dictionary is made; `u64::MAX` waits for the end of the table.
    limit: u64,
    /// The bytes, if they are charged to the block cache.
    charge: Charge,
}

impl Waiting {
    /// No block yet. `None` if such tables have no dictionary.
    ///
    /// Blocks are kept up to the size of the file or `max_dict_buffer_bytes`, whichever is smaller
    /// and known, or up to what the block cache has room for if `charge` is in it.
    pub fn new(
        kind: CompressionType,
        options: &CompressionOptions,
        target_file_size: u64,
        charge: Charge,
    ) -> Option<Self> {
        if !CompressionDict::wanted(kind, options) {
            return None;
        }
        let limits = [target_file_size, options.max_dict_buffer_bytes];
        let known = limits.into_iter().filter(|&limit| limit > 0).min();
        Some(Waiting { blocks: Vec::new(), bytes: 0, limit: known.unwrap_or(u64::MAX), charge })
    }

    /// Keeps a block and leaves an empty vector with room for one like it.
    pub fn push(&mut self, raw: &mut Vec<u8>, entry: &mut IndexEntry) {
        self.bytes += raw.len() as u64;
        let empty = Vec::with_capacity(raw.len());
        self.blocks.push((std::mem::replace(raw, empty), std::mem::take(entry)));
    }

    /// There are enough, or no more may be kept. The last ones are charged here if more may come.
    pub fn is_full(&mut self) -> bool {
        let bytes = to_usize(self.bytes);
        self.bytes > self.limit
            || self.charge.as_mut().is_some_and(|charge| charge.try_set(bytes).is_err())
    }

    /// Bytes kept.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The blocks, in order, and what is charged for them.
    pub fn into_blocks(self) -> (Vec<(Vec<u8>, IndexEntry)>, Charge) {
        (self.blocks, self.charge)
    }

    /// The dictionary of these blocks; `None` if they are too few.
    ///
    /// # Errors
    /// As [`CompressionDict::build`].
    pub fn dictionary(
        &self,
        kind: CompressionType,
        options: &CompressionOptions,
    ) -> Result<Option<CompressionDict>> {
        let wanted = CompressionDict::sample_bytes(kind, options);
        let mut samples = Vec::with_capacity(wanted.min(to_usize(self.bytes)));
        let mut sizes = Vec::new();
        for at in spread(self.blocks.len()) {
            let block = &self.blocks[at].0;
            let taken = block.len().min(wanted - samples.len());
            if taken == 0 {
                break;
            }
            samples.extend_from_slice(&block[..taken]);
            sizes.push(taken);
        }
        CompressionDict::build(kind, options, &samples, &sizes)
    }
}

/// The numbers below `count`, each once, so that the first few are already spread over the range:
/// steps of about its golden section, of a length coprime to it.
fn spread(count: usize) -> impl Iterator<Item = usize> {
    let mut step = (count as u64 * 618 / 1000).max(1);
    while gcd(step, count as u64) > 1 {
        step += 1;
    }
    let start = count as u64 / 2;
    (0..count as u64).map(move |i| to_usize((start + i * step) % count as u64))
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[pumice_test_macros::test]
    fn every_block_is_visited_once() {
        for count in (0..200).chain([1000, 4096, 46_368]) {
            let mut seen: Vec<usize> = spread(count).collect();
            if count >= 50 {
                let quarter = |i: &usize| *i * 4 / count;
                let mut first: Vec<usize> = seen[..8].iter().map(quarter).collect();
                first.sort_unstable();
                first.dedup();
                assert_eq!(first, [0, 1, 2, 3], "{count}: the first samples come from all over");
            }
            seen.sort_unstable();
            assert!(seen.iter().copied().eq(0..count), "{count}");
        }
    }

    #[pumice_test_macros::test]
    fn the_smaller_known_limit_ends_buffering() {
        let options = |buffer| CompressionOptions {
            max_dict_bytes: 100,
            max_dict_buffer_bytes: buffer,
            ..CompressionOptions::default()
        };
        let limit = |target, buffer| {
            Waiting::new(CompressionType::Zstd, &options(buffer), target, None).map(|w| w.limit)
        };
        assert_eq!(limit(0, 0), Some(u64::MAX));
        assert_eq!(limit(10, 0), Some(10));
        assert_eq!(limit(0, 20), Some(20));
        assert_eq!(limit(10, 20), Some(10));
        assert!(Waiting::new(CompressionType::Snappy, &options(0), 0, None).is_none());
    }
}
