//! The hash index of a data block (docs/format/table.md#hash-index): which restart interval holds a
//! key.
//!
//! ```text
//! entries ‖ restarts ‖ uint8 bucket[n] ‖ fixed16 n ‖ fixed32 packed (bit 31 set)
//! ```
//!
//! and with separated values the word that says where they are before the packed one.
//!
//! A bucket holds the number of the restart interval of the user keys that hash to it, 254 if
//! these lie in several, or 255 if there are none. Writing hashes all keys of a block in one loop
//! when the block is full. A block with too many restart points or bytes gets no hash index.
//!
//! For point lookups only: a bucket says nothing about order. Only for comparators under which
//! keys with different bytes are different.
//!
//! [`DataBlockHash`] has one owner; [`Buckets`] is a view.

use pumice_base::coding::get_fixed16;
use pumice_base::hash::hash32;
use pumice_base::narrow::{len_u32, low_u16, low_u64, round_down_u64, to_usize};
use pumice_base::planted::{self, Bug};

use crate::block_footer::{HASH_INDEX, SEPARATED_VALUES};
use crate::build::block_keys::BlockKeys;

/// Seed of the hash. Persisted.
const SEED: u32 = 397;
/// Bucket of keys in several restart intervals. Persisted.
const COLLISION: u8 = 254;
/// Bucket without keys. Persisted.
const NO_ENTRY: u8 = 255;
/// Highest restart interval that a bucket can name.
const MAX_RESTART: usize = 253;
/// Larger blocks get no hash index, as in RocksDB.
const MAX_BLOCK_BYTES: usize = 1 << 16;

/// Writes hash indexes.
#[derive(Debug)]
pub(crate) struct DataBlockHash {
    restart_interval: usize,
    buckets_per_key: f64,
    /// Buckets for 1, 2, .. keys, as far as computed so far.
    buckets: Vec<u16>,
    /// The sum after the last of `buckets`. RocksDB adds key by key, and so rounds.
    sum: f64,
}

impl DataBlockHash {
    /// A writer for blocks with that restart interval and about `util_ratio` keys per bucket.
    pub fn new(restart_interval: usize, util_ratio: f64) -> Self {
        let buckets_per_key = 1.0 / util_ratio;
        DataBlockHash { restart_interval, buckets_per_key, buckets: Vec::new(), sum: 0.0 }
    }

    /// Number of buckets for `keys` keys: odd, because the hash spreads badly over powers of two.
    #[inline]
    fn buckets_for(&mut self, keys: usize) -> u16 {
        while self.buckets.len() < keys {
            self.sum += self.buckets_per_key;
            // The conversion keeps the low bits, as RocksDB's does.
            self.buckets.push(low_u16(round_down_u64(self.sum)) | 1);
        }
        match keys {
            0 => 1,
            _ => self.buckets[keys - 1],
        }
    }

    /// Bytes that the hash index adds to a block of `keys` keys, 0 if it would get none for its
    /// number of restart points. Part of the block's size when the end of a block is decided.
    #[inline]
    pub fn bytes_for(&mut self, keys: usize) -> usize {
        if keys > (MAX_RESTART + 1) * self.restart_interval {
            return 0;
        }
        usize::from(self.buckets_for(keys)) + 2
    }

    /// Adds the hash index to a finished block of `keys`, which begins at `start` of `block`. False
    /// if the block gets none.
    pub fn add_to(&mut self, block: &mut Vec<u8>, start: usize, keys: &BlockKeys) -> bool {
        let added = self.bytes_for(keys.len());
        if added == 0 || block.len() - start + added > MAX_BLOCK_BYTES {
            return false;
        }
        let Some((rest, packed)) = block.split_last_chunk::<4>() else { return false };
        let packed = u32::from_le_bytes(*packed);
        let values_at = rest.last_chunk::<4>().filter(|_| packed & SEPARATED_VALUES != 0).copied();
        let hash_at = rest.len() - values_at.map_or(0, |word| word.len());
        let count = self.buckets_for(keys.len());
        block.truncate(hash_at);
        block.resize(hash_at + usize::from(count), NO_ENTRY);
        fill(&mut block[hash_at..], keys, self.restart_interval);
        block.extend_from_slice(&count.to_le_bytes());
        block.extend(values_at.into_iter().flatten());
        block.extend_from_slice(&(packed | HASH_INDEX).to_le_bytes());
        true
    }
}

/// Enters the keys into empty buckets.
fn fill(buckets: &mut [u8], keys: &BlockKeys, restart_interval: usize) {
    let modulus = Modulus::new(len_u32(buckets.len()));
    let (mut restart, mut left) = (0u8, restart_interval);
    for key in keys.user_keys() {
        if left == 0 {
            restart += 1;
            left = restart_interval;
        }
        left -= 1;
        let bucket = &mut buckets[modulus.of(hash32(key, SEED))];
        let held = *bucket;
        let alone = held == NO_ENTRY || held == restart || planted::is(Bug::BucketCollisionLost);
        *bucket = if alone { restart } else { COLLISION };
    }
}

/// Remainders by one number without division: exact for 32 bits (Lemire, Kaser, Kurz 2019).
#[derive(Clone, Copy)]
struct Modulus {
    magic: u64,
    divisor: u64,
}

impl Modulus {
    fn new(divisor: u32) -> Self {
        Modulus { magic: (u64::MAX / u64::from(divisor)).wrapping_add(1), divisor: divisor.into() }
    }

    #[inline]
    fn of(self, n: u32) -> usize {
        let fraction = self.magic.wrapping_mul(u64::from(n));
        to_usize(low_u64((u128::from(fraction) * u128::from(self.divisor)) >> 64))
    }
}

/// Where a hash index sends a point lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bucket {
    /// The key, if the block has it, is in this restart interval; if not, as `Absent`.
    Restart(usize),
    /// The block does not have the key. The next block may have older versions of it, if it sorts
    /// after the last key; only the last restart interval tells.
    Absent,
    /// The hash index cannot tell.
    Unknown,
}

/// The buckets of a block: where they begin in it and how many they are; zero for none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Buckets {
    at: u32,
    count: u16,
}

impl Buckets {
    /// The buckets that end, with their number, at `end` of a block, and where they begin; `None`
    /// if they do not fit.
    pub fn decode(data: &[u8], end: usize) -> Option<(Buckets, usize)> {
        let count_at = end.checked_sub(2)?;
        let count = get_fixed16(data.get(count_at..end)?)?;
        let at = count_at.checked_sub(usize::from(count))?;
        Some((Buckets { at: u32::try_from(at).ok()?, count }, at))
    }

    /// Looks a user key up in the hash index of the block `data`.
    #[inline]
    pub fn find(self, data: &[u8], user_key: &[u8]) -> Bucket {
        if self.count == 0 {
            return Bucket::Unknown;
        }
        let number = hash32(user_key, SEED) % u32::from(self.count);
        match data.get(self.at as usize + number as usize) {
            Some(&NO_ENTRY) => Bucket::Absent,
            Some(&COLLISION) | None => Bucket::Unknown,
            Some(&restart) => Bucket::Restart(usize::from(restart)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::build::block_builder::BlockBuilder;
    use crate::prefix::common_prefix;
    use crate::read::block::{Block, GlobalSeqno, KeyForm};
    use crate::read::scan::{Landing, find, find_version};
    use pumice_base::InternalKey;
    use pumice_base::ValueType;
    use pumice_base::key::{internal_key, seek_key};
    use pumice_base::random::Rng;

    /// A block of sorted keys with its hash index, if it gets one.
    fn build(keys: &[Vec<u8>], interval: usize, ratio: f64) -> (Vec<u8>, bool) {
        let mut hash = DataBlockHash::new(interval, ratio);
        let mut builder = BlockBuilder::new(interval as u32, true);
        let mut held = BlockKeys::default();
        for key in keys {
            builder.append(key, b"value", common_prefix(held.last(), key));
            held.push(key);
        }
        let mut block = builder.finish().block().to_vec();
        let plain = block.len();
        let added = hash.add_to(&mut block, 0, &held);
        assert_eq!(block.len() - plain, if added { hash.bytes_for(keys.len()) } else { 0 });
        (block, added)
    }

    fn key(user: &str, sequence: u64) -> Vec<u8> {
        internal_key(user.as_bytes(), sequence, ValueType::Value)
    }

    /// Three keys make 3 / 0.75 = 4 buckets, made odd; each holds an interval, 254 or 255.
    #[pumice_test_macros::test]
    fn buckets_follow_the_documented_rules() {
        let keys = [key("a", 3), key("b", 2), key("c", 1)];
        let (block, added) = build(&keys, 1, 0.75);
        assert!(added);
        let tail = &block[block.len() - 11..];
        let mut want = [255u8; 5];
        for (i, user) in [b"a", b"b", b"c"].iter().enumerate() {
            let bucket = &mut want[(hash32(&user[..], 397) % 5) as usize];
            *bucket = if *bucket == 255 { i as u8 } else { 254 };
        }
        assert_eq!(&tail[..5], &want);
        assert_eq!(&tail[5..], &[5, 0, 3, 0, 0, 0x80]);
        // Versions in one restart interval share a bucket, in two they collide.
        let versions = [key("a", 3), key("a", 2), key("a", 1)];
        let (one, _) = build(&versions, 3, 100.0);
        assert_eq!(&one[one.len() - 7..], &[0, 1, 0, 1, 0, 0, 0x80]);
        let (two, _) = build(&versions, 2, 100.0);
        assert_eq!(&two[two.len() - 7..], &[254, 1, 0, 2, 0, 0, 0x80]);
    }

    #[pumice_test_macros::test]
    fn large_blocks_get_none() {
        let keys: Vec<Vec<u8>> = (0..255).map(|i| key(&format!("{i:04}"), 1)).collect();
        assert!(build(&keys[..254], 1, 0.75).1);
        assert!(!build(&keys, 1, 0.75).1);
        assert!(build(&keys, 2, 0.75).1);
        let long: Vec<Vec<u8>> =
            (0..100).map(|i| key(&format!("{i:04}{}", "x".repeat(600)), 1)).collect();
        assert!(!build(&long, 1, 0.01).1, "60 KB and 10000 buckets");
        assert!(build(&long, 1, 0.75).1);
    }

    #[pumice_test_macros::test]
    fn remainders_need_no_division() {
        let mut rng = Rng::new(7);
        for divisor in (1..=4097).chain([65_535, 65_533]) {
            let modulus = Modulus::new(divisor);
            let random = rng.next_u32();
            for n in [0, 1, divisor - 1, divisor, random, u32::MAX, u32::MAX - divisor] {
                assert_eq!(modulus.of(n), (n % divisor) as usize, "{n} % {divisor}");
            }
        }
    }

    /// Random keys, several versions of some, sorted.
    fn random_keys(rng: &mut Rng) -> Vec<Vec<u8>> {
        let mut keys: Vec<Vec<u8>> = (0..1 + rng.uniform(150))
            .map(|_| key(&format!("k{:03}", rng.uniform(120) * 2), rng.uniform(50)))
            .collect();
        let cmp = pumice_base::InternalKeyComparator::default();
        keys.sort_by(|a, b| cmp.compare(InternalKey::new(a), InternalKey::new(b)));
        keys.dedup();
        keys
    }

    /// A lookup through the hash index lands where a search does, or says that nothing is there; it
    /// never misses that the key may continue in the next block.
    #[pumice_test_macros::test]
    fn lookups_agree_with_searches() {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let keys = random_keys(&mut rng);
            let interval = 1 + rng.uniform(20) as usize;
            let (block, added) = build(&keys, interval, 0.2 + rng.next_f64() * 3.0);
            assert!(added);
            let block = Block::decode(block, KeyForm::Internal).unwrap();
            for _ in 0..300 {
                let user = format!("k{:03}", rng.uniform(244));
                let target = seek_key(user.as_bytes(), rng.uniform(52));
                let what = format!("seed {seed}: {user}");
                let searched = find(&block, InternalKey::new(&target), GlobalSeqno::default());
                match (
                    find_version(&block, InternalKey::new(&target), GlobalSeqno::default()),
                    searched,
                ) {
                    (Landing::At(found), Landing::At(want)) => {
                        assert_eq!(found.offset, want.offset, "{what}");
                        assert_eq!(found.equal, want.equal, "{what}");
                    }
                    (Landing::Absent, Landing::At(want)) => assert!(!want.equal, "{what}"),
                    (Landing::End, Landing::End) => {}
                    (Landing::Undecided, Landing::Undecided) => {}
                    _ => panic!("{what}: lookup and search disagree"),
                }
            }
        }
    }

    /// An empty bucket does not end a lookup after the last key: 255 in every bucket.
    #[pumice_test_macros::test]
    fn an_empty_bucket_still_looks_in_the_last_interval() {
        let keys: Vec<Vec<u8>> = (0..10).map(|i| key(&format!("k{i}"), 5)).collect();
        let (mut block, _) = build(&keys, 2, 0.75);
        let buckets_at = block.len() - 6 - 13;
        block[buckets_at..buckets_at + 13].fill(NO_ENTRY);
        let block = Block::decode(block, KeyForm::Internal).unwrap();
        let look = |user: &str| {
            find_version(
                &block,
                InternalKey::new(&seek_key(user.as_bytes(), 9)),
                GlobalSeqno::default(),
            )
        };
        assert!(matches!(look("k95"), Landing::End), "the next block may have it");
        assert!(matches!(look("k55"), Landing::Absent));
        assert!(matches!(look("k9"), Landing::At(_)), "the last interval is searched");
    }

    /// Damage ends in an error or in wrong entries.
    #[pumice_test_macros::test]
    fn damaged_blocks_do_not_panic() {
        let keys: Vec<Vec<u8>> = (0..20).map(|i| key(&format!("key{i:03}"), i)).collect();
        let (block, _) = build(&keys, 3, 0.75);
        let target = seek_key(b"key011", 99);
        for at in 0..block.len() {
            for bit in 0..8 {
                let mut bad = block.clone();
                bad[at] ^= 1 << bit;
                for bad in [bad, block[..at].to_vec()] {
                    if let Ok(bad) = Block::decode(bad, KeyForm::Internal)
                        && bad.keys_end() > 0
                    {
                        find_version(&bad, InternalKey::new(&target), GlobalSeqno::default());
                    }
                }
            }
        }
    }
}
