//! `--use_uint64_comparator`: keys are numbers of eight bytes, in the byte order of the machine.
//!
//! Thread safety: stateless. The name is that of RocksDB's comparator, so that both
//! open what the other has written. Other keys, of which db_bench writes none, come after all
//! numbers, by their bytes.

use std::cmp::Ordering;

use pumice::CustomComparator;

/// Orders keys as numbers.
pub struct Uint64Comparator;

impl CustomComparator for Uint64Comparator {
    fn name(&self) -> &str {
        "rocksdb.Uint64Comparator"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let number = |key: &[u8]| key.try_into().map(u64::from_ne_bytes);
        match (number(a), number(b)) {
            (Ok(a), Ok(b)) => a.cmp(&b),
            (Ok(_), Err(_)) => Ordering::Less,
            (Err(_), Ok(_)) => Ordering::Greater,
            (Err(_), Err(_)) => a.cmp(b),
        }
    }
    fn can_keys_with_different_byte_contents_be_equal(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[pumice_test_macros::test]
    fn numbers_come_first_and_in_their_order() {
        let (one, many) = (1u64.to_ne_bytes(), 0x0102_0304_0506_0708u64.to_ne_bytes());
        let order: [&[u8]; 4] = [&one, &many, b"a", b"b"];
        for (i, a) in order.iter().enumerate() {
            for (j, b) in order.iter().enumerate() {
                assert_eq!(Uint64Comparator.compare(a, b), i.cmp(&j));
            }
        }
    }
}
