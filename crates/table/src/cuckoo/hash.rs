//! The hash functions of cuckoo tables: MurmurHash64A with seeds that are multiples of one number.
//!
//! Pure functions. Persisted by what RocksDB computes from keys.

/// The seed of function 1; that of function n is n times it.
const SEED: u32 = 816_922_183;
const M: u64 = 0xc6a4_a793_5bd1_e995;

fn murmur64a(bytes: &[u8], seed: u32) -> u64 {
    let mut h = u64::from(seed) ^ (bytes.len() as u64).wrapping_mul(M);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mut k = u64::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 47;
        h = (h ^ k.wrapping_mul(M)).wrapping_mul(M);
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        h = (h ^ u64::from_le_bytes(word)).wrapping_mul(M);
    }
    h = (h ^ (h >> 47)).wrapping_mul(M);
    h ^ (h >> 47)
}

/// The bytes of a key that may be its first hash.
pub(super) const IDENTITY_LEN: usize = 8;

/// The hash functions of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct CuckooHash {
    /// Function 0 takes the first eight bytes of the key, which has them.
    pub identity_first: bool,
    /// Hashes are taken modulo `table_size`; else that is a power of two.
    pub use_module: bool,
    pub table_size: u64,
}

impl CuckooHash {
    /// The first bucket that function `number` gives to a user key.
    pub fn bucket(&self, user_key: &[u8], number: u32) -> u64 {
        let hash = match user_key.first_chunk::<IDENTITY_LEN>() {
            Some(word) if number == 0 && self.identity_first => u64::from_le_bytes(*word),
            _ => murmur64a(user_key, SEED.wrapping_mul(number)),
        };
        match self.use_module {
            true => hash % self.table_size,
            false => hash & (self.table_size - 1),
        }
    }
}
