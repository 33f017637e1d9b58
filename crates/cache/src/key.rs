//! The key of an entry, and its priority in the cache.

/// Name of a cached entry, for a block: its file's unique identity and its offset.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CacheKey(pub u64, pub u64);

impl CacheKey {
    /// 64 well-mixed bits. Keys of one file differ in a few bits only, and the table uses both
    /// ends of the hash.
    #[inline]
    pub(crate) fn hash(self) -> u64 {
        let a = self.0 ^ 0x9E37_79B9_7F4A_7C15;
        let b = self.1 ^ 0xD6E8_FEB8_6659_FD93;
        let wide = u128::from(a ^ b.rotate_left(32)) * 0xA076_1D64_78BD_642F_u128;
        let folded = (wide as u64) ^ ((wide >> 64) as u64) ^ b;
        let wide = u128::from(folded) * 0xE703_7ED1_A0B4_28DB_u128;
        (wide as u64) ^ ((wide >> 64) as u64)
    }
}

/// How many clock sweeps an entry survives without a hit.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Default)]
pub enum Priority {
    /// Index and filter blocks: three sweeps.
    High,
    /// Data blocks: one sweep, so that a scan passes through without displacing hit entries.
    #[default]
    Low,
    /// Entries unlikely to be requested again: none.
    Bottom,
}

impl Priority {
    /// Number of priorities.
    pub(crate) const COUNT: usize = 3;

    /// The countdown a new entry starts with.
    #[inline]
    pub(crate) fn initial_countdown(self) -> u8 {
        match self {
            Priority::High => 3,
            Priority::Low => 1,
            Priority::Bottom => 0,
        }
    }
}
