//! `memtable_protection_bytes_per_key`: entries that change in memory are found.
//!
//! ```text
//! value of a guarded entry: value ‖ checksum of 1, 2, 4 or 8 bytes
//! ```
//!
//! The checksum is over user key, trailer and value. Whoever reads an entry of a guarded memtable
//! takes it off by [`unguarded`], which compares it. Those that a search passes are compared on
//! request (`checked`).
//!
//! Thread safety: pure functions.

use pumice_base::hash::hash64;
use pumice_base::key::pack;
use pumice_base::{Error, Result, SequenceNumber, UserKey, ValueType};

/// What readers of a memtable compare on their way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// Each key with the one before it.
    pub order: bool,
    /// The checksums of entries that a search passes, if they have some.
    pub checksums: bool,
}

/// A checksum over key, value and what else identifies an entry.
pub fn entry_checksum(key: &[u8], kind: u64, value: &[u8]) -> u64 {
    let mix =
        |sum: u64, word: u64| (sum.rotate_left(29) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let sum = mix(mix(hash64(key), kind), hash64(value));
    sum ^ sum >> 32
}

/// The checksum of an entry, of which the first bytes are kept.
fn sum(key: UserKey<'_>, trailer: u64, value: &[u8]) -> [u8; 8] {
    entry_checksum(key.as_bytes(), trailer, value).to_le_bytes()
}

/// The value with a checksum of so many bytes behind it.
#[cold]
pub(crate) fn guarded(key: &[u8], trailer: u64, value: &[u8], bytes: usize) -> Vec<u8> {
    let mut stored = Vec::with_capacity(value.len() + bytes);
    stored.extend_from_slice(value);
    stored.extend_from_slice(&sum(UserKey::new(key), trailer, value)[..bytes]);
    stored
}

/// The value of an entry with a checksum of so many bytes; 0 for none.
///
/// # Errors
/// Corruption if the entry is not what was added.
pub fn unguarded<'v>(
    key: UserKey<'_>,
    trailer: u64,
    stored: &'v [u8],
    bytes: usize,
) -> Result<&'v [u8]> {
    if bytes == 0 {
        return Ok(stored);
    }
    let parts = stored.len().checked_sub(bytes).map(|len| stored.split_at(len));
    match parts {
        Some((value, found)) if sum(key, trailer, value)[..bytes] == *found => Ok(value),
        _ => Err(Error::corruption(
            "Corrupted memtable entry, per key-value checksum verification failed.",
        )),
    }
}

/// As [`unguarded`], of what a get visits.
///
/// # Errors
/// Corruption if the entry is not what was added.
pub fn unguarded_version<'v>(
    key: UserKey<'_>,
    (sequence, value_type): (SequenceNumber, ValueType),
    stored: &'v [u8],
    bytes: usize,
) -> Result<&'v [u8]> {
    unguarded(key, pack(sequence, value_type as u8), stored, bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[pumice_test_macros::test]
    fn a_flipped_bit_is_found_wherever_it_is() {
        for bytes in [1, 2, 4, 8] {
            let (mut missed, mut flips) = (0, 0);
            for len in [0, 1, 20, 300] {
                let (key, trailer, value) = (b"a key".to_vec(), 77 << 8 | 1, vec![b'v'; len]);
                let stored = guarded(&key, trailer, &value, bytes);
                let read = |key: &[u8], trailer, stored: &[u8]| {
                    unguarded(UserKey::new(key), trailer, stored, bytes).map(<[u8]>::to_vec)
                };
                assert_eq!(read(&key, trailer, &stored).unwrap(), value);
                let mut judge = |read: Result<Vec<u8>>| {
                    flips += 1;
                    missed += usize::from(read.is_ok());
                };
                for bit in 0..8 * stored.len() {
                    let mut changed = stored.clone();
                    changed[bit / 8] ^= 1 << (bit % 8);
                    judge(read(&key, trailer, &changed));
                }
                for bit in 0..8 * key.len() {
                    let mut changed = key.clone();
                    changed[bit / 8] ^= 1 << (bit % 8);
                    judge(read(&changed, trailer, &stored));
                }
                for bit in 0..64 {
                    judge(read(&key, trailer ^ 1 << bit, &stored));
                }
                assert!(read(&key, trailer, &stored[..bytes - 1]).is_err());
            }
            // One byte finds 255 of 256.
            assert!(missed * 100 <= flips && (bytes == 1 || missed == 0), "{bytes}: {missed}");
        }
    }
}
