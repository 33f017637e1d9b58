//! How large keys, values, batches and blocks may be.
//!
//! A block counts its bytes in 32 bits, and so do a memtable's entry and a record of a batch. All
//! limits here follow from that one number:
//!
//! | what | limit | why |
//! |---|---|---|
//! | block | 2^32 - 1 | restart points are 32-bit offsets |
//! | key with its value | block - 64 | an entry is whole in one block, and in one batch |
//! | key | block / 4 | an index block holds it twice (separator, first key), among others |
//! | ranges of a batch | block / 4 | one block of a table holds them, cut where they overlap |
//! | batch | block | one entry with its headers fits; no more updates than 32 bits count |
//!
//! The limit of ranges is one batch's. The block of a table holds the ranges of all batches that
//! are flushed or compacted together, each fragment once per snapshot that distinguishes it:
//! exceeding the block is an error of the flush or compaction ([`crate::Error`] NotSupported).
//!
//! Entry points check against these; the code below relies on it, and block builders check their
//! bytes once more, since a table of RocksDB's may come close to the format's own limit.
//!
//! Thread safety: plain values. A test lowers the limits of one object; there is no global switch.

use crate::error::{Error, Result};

/// Maximum overhead of an entry in a block or a batch, besides key and value: trailer, header of
/// three lengths, tag and column family, restart points, the header of a batch.
const ENTRY_OVERHEAD_BYTES: usize = 64;
/// How many keys of the largest size fit an index block.
const KEYS_PER_BLOCK: usize = 4;

/// See the head of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeLimits {
    block_bytes: usize,
}

impl Default for SizeLimits {
    fn default() -> Self {
        Self::FORMAT
    }
}

impl SizeLimits {
    /// The limits of the formats.
    pub const FORMAT: SizeLimits = SizeLimits { block_bytes: u32::MAX as usize };

    /// Smaller limits, for tests: those for blocks of at most `block_bytes` bytes.
    ///
    /// # Panics
    /// If that is less than 1 KiB or more than the formats can hold.
    pub const fn lowered(block_bytes: usize) -> Self {
        assert!(block_bytes >= 1 << 10 && block_bytes <= Self::FORMAT.block_bytes);
        SizeLimits { block_bytes }
    }

    /// Maximum bytes of a block before compression.
    #[inline]
    pub const fn block_bytes(self) -> usize {
        self.block_bytes
    }
    /// Maximum bytes of a user key.
    #[inline]
    pub const fn key_bytes(self) -> usize {
        self.block_bytes / KEYS_PER_BLOCK
    }
    /// Maximum bytes of a user key and its value together.
    #[inline]
    pub const fn entry_bytes(self) -> usize {
        self.block_bytes - ENTRY_OVERHEAD_BYTES
    }
    /// Maximum bytes of the keys of all range deletions of a batch.
    #[inline]
    pub const fn range_bytes(self) -> usize {
        self.key_bytes()
    }
    /// Maximum bytes of a batch in its wire form.
    #[inline]
    pub const fn batch_bytes(self) -> usize {
        self.block_bytes
    }

    /// Checks that an update with that key and that value (or operand) can be stored.
    ///
    /// # Errors
    /// InvalidArgument that says which of them is too large.
    #[inline]
    pub fn check_entry(self, key: &[u8], value: &[u8]) -> Result<()> {
        // One comparison accepts the usual update.
        match key.len().saturating_add(value.len()) <= self.key_bytes() {
            true => Ok(()),
            false => self.check_large(key, value),
        }
    }

    /// Checks that a deletion of the range from `begin` to `end` can be stored.
    ///
    /// # Errors
    /// InvalidArgument that says which of them is too large.
    pub fn check_range(self, begin: &[u8], end: &[u8]) -> Result<()> {
        if begin.len() > self.key_bytes() {
            return Err(Error::invalid_argument("key is too large"));
        }
        if begin.len().saturating_add(end.len()) > self.range_bytes() {
            return Err(Error::invalid_argument("end key is too large"));
        }
        Ok(())
    }

    #[cold]
    fn check_large(self, key: &[u8], value: &[u8]) -> Result<()> {
        if key.len() > self.key_bytes() {
            return Err(Error::invalid_argument("key is too large"));
        }
        if key.len().saturating_add(value.len()) > self.entry_bytes() {
            return Err(Error::invalid_argument("value is too large"));
        }
        Ok(())
    }

    /// Checks that a batch may have `bytes` bytes, and `range_bytes` in the keys of range
    /// deletions.
    ///
    /// # Errors
    /// InvalidArgument that states the limit.
    #[inline]
    pub fn check_batch(self, bytes: usize, range_bytes: usize) -> Result<()> {
        if bytes <= self.batch_bytes() && range_bytes <= self.range_bytes() {
            return Ok(());
        }
        let (what, found, most) = match bytes <= self.batch_bytes() {
            false => ("batch is too large", bytes, self.batch_bytes()),
            true => ("range deletions of the batch are too large", range_bytes, self.range_bytes()),
        };
        Err(Error::invalid_argument(format!("{what}: {found} bytes, at most {most}")))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn error_text(result: Result<()>) -> String {
        result.map_or_else(|e| e.to_string(), |()| "Ok".to_string())
    }

    #[test]
    fn each_limit_is_named() {
        let limits = SizeLimits::lowered(4096);
        let bytes = vec![0; 5000];
        let of = |n: usize| &bytes[..n];
        let check = |key, value| error_text(limits.check_entry(of(key), of(value)));
        assert_eq!(check(1024, 0), "Ok");
        assert_eq!(check(1025, 0), "Invalid argument: key is too large");
        assert_eq!(check(1024, 3008), "Ok");
        assert_eq!(check(1024, 3009), "Invalid argument: value is too large");
        assert_eq!(check(0, 4032), "Ok");
        assert_eq!(check(0, 4033), "Invalid argument: value is too large");
        let range = |begin, end| error_text(limits.check_range(of(begin), of(end)));
        assert_eq!(range(512, 512), "Ok");
        assert_eq!(range(1025, 0), "Invalid argument: key is too large");
        assert_eq!(range(1024, 1), "Invalid argument: end key is too large");
        assert_eq!(error_text(limits.check_batch(4096, 1024)), "Ok");
        assert!(error_text(limits.check_batch(4097, 0)).contains("batch is too large"));
        assert!(error_text(limits.check_batch(0, 1025)).contains("range deletions of the batch"));
    }

    /// The formats can hold whatever the entry points admit: lengths in 32 bits, and an entry in a
    /// batch.
    #[test]
    fn the_limits_fit_the_formats() {
        for limits in [SizeLimits::FORMAT, SizeLimits::lowered(1 << 10)] {
            assert!(u32::try_from(limits.entry_bytes() + 8).is_ok());
            assert!(u32::try_from(limits.batch_bytes()).is_ok());
            // Header of the batch, tag, family, two lengths.
            assert!(limits.entry_bytes() + 12 + 1 + 5 + 5 + 5 <= limits.batch_bytes());
            // Trailer, three lengths, a restart point, their number, the footer's words.
            assert!(limits.entry_bytes() + 8 + 15 + 4 + 4 + 8 <= limits.block_bytes());
            assert!(2 * (limits.key_bytes() + 8) + 64 <= limits.block_bytes());
        }
    }
}
