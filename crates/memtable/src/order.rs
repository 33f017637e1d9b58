//! Comparators as type parameters, and the integer that decides most comparisons.
//!
//! `prefix(key)` maps a user key to a `u64` such that `prefix(a) < prefix(b)` implies `a < b`.
//! For the built-in orders it is the first eight bytes, zero-padded, big-endian (complemented for
//! the reverse order); for a custom order it is always 0, which decides nothing.

use std::cmp::Ordering;

use pumice_base::key::{CustomComparator, UserKey, same_user_key};

/// An order of user keys, resolved at compile time.
pub(crate) trait KeyOrder: Copy + Send + Sync {
    /// Whether prefixes order keys.
    const HAS_PREFIX: bool;
    /// See the head.
    fn prefix(self, user_key: UserKey<'_>) -> u64;
    /// The prefix of a key that is followed in memory by at least eight readable bytes.
    ///
    /// # Safety
    /// `len + 8` bytes are readable at `key`.
    unsafe fn prefix_of_stored(self, key: *const u8, len: usize) -> u64;
    /// Three-way comparison.
    fn compare(self, a: UserKey<'_>, b: UserKey<'_>) -> Ordering;
    /// The two are one key of the user.
    fn same_user_key(self, a: UserKey<'_>, b: UserKey<'_>) -> bool;
}

/// The first eight bytes as a big-endian integer, zero-padded.
#[inline]
fn leading(user_key: UserKey<'_>) -> u64 {
    let user_key = user_key.as_bytes();
    if let Some(head) = user_key.first_chunk::<8>() {
        return u64::from_be_bytes(*head);
    }
    let mut padded = [0u8; 8];
    padded[..user_key.len()].copy_from_slice(user_key);
    u64::from_be_bytes(padded)
}

/// As `leading`, by one unaligned load.
///
/// # Safety
/// `len + 8` bytes are readable at `key`.
#[inline]
unsafe fn leading_of_stored(key: *const u8, len: usize) -> u64 {
    // SAFETY: eight bytes are readable by the contract.
    let word = u64::from_be(unsafe { key.cast::<u64>().read_unaligned() });
    if len >= 8 {
        return word;
    }
    // What follows a short key is not part of it.
    word & !(u64::MAX >> (8 * len))
}

/// `memcmp` order.
#[derive(Clone, Copy)]
pub(crate) struct Forward;

impl KeyOrder for Forward {
    const HAS_PREFIX: bool = true;
    #[inline]
    fn prefix(self, user_key: UserKey<'_>) -> u64 {
        leading(user_key)
    }
    #[inline]
    unsafe fn prefix_of_stored(self, key: *const u8, len: usize) -> u64 {
        // SAFETY: same contract.
        unsafe { leading_of_stored(key, len) }
    }
    #[inline]
    fn compare(self, a: UserKey<'_>, b: UserKey<'_>) -> Ordering {
        a.as_bytes().cmp(b.as_bytes())
    }
    #[inline]
    fn same_user_key(self, a: UserKey<'_>, b: UserKey<'_>) -> bool {
        a.as_bytes() == b.as_bytes()
    }
}

/// Reverse `memcmp` order.
#[derive(Clone, Copy)]
pub(crate) struct Reverse;

impl KeyOrder for Reverse {
    const HAS_PREFIX: bool = true;
    #[inline]
    fn prefix(self, user_key: UserKey<'_>) -> u64 {
        !leading(user_key)
    }
    #[inline]
    unsafe fn prefix_of_stored(self, key: *const u8, len: usize) -> u64 {
        // SAFETY: same contract.
        !unsafe { leading_of_stored(key, len) }
    }
    #[inline]
    fn compare(self, a: UserKey<'_>, b: UserKey<'_>) -> Ordering {
        b.as_bytes().cmp(a.as_bytes())
    }
    #[inline]
    fn same_user_key(self, a: UserKey<'_>, b: UserKey<'_>) -> bool {
        a.as_bytes() == b.as_bytes()
    }
}

/// A user-supplied order: every comparison is a virtual call.
#[derive(Clone, Copy)]
pub(crate) struct Custom<'a>(pub(crate) &'a dyn CustomComparator);

impl KeyOrder for Custom<'_> {
    const HAS_PREFIX: bool = false;
    #[inline]
    fn prefix(self, _user_key: UserKey<'_>) -> u64 {
        0
    }
    #[inline]
    unsafe fn prefix_of_stored(self, _key: *const u8, _len: usize) -> u64 {
        0
    }
    #[inline]
    fn compare(self, a: UserKey<'_>, b: UserKey<'_>) -> Ordering {
        self.0.compare(a.as_bytes(), b.as_bytes())
    }
    #[inline]
    fn same_user_key(self, a: UserKey<'_>, b: UserKey<'_>) -> bool {
        same_user_key(self.0, a, b)
    }
}

/// Evaluates `$body` with `$order` bound to the [`KeyOrder`] of a `Comparator`: one branch per
/// call, none per comparison.
macro_rules! with_order {
    ($comparator:expr, $order:ident => $body:expr) => {
        match $comparator {
            ::pumice_base::Comparator::Bytewise => {
                let $order = $crate::order::Forward;
                $body
            }
            ::pumice_base::Comparator::ReverseBytewise => {
                let $order = $crate::order::Reverse;
                $body
            }
            ::pumice_base::Comparator::Custom(custom) => {
                let $order = $crate::order::Custom(&**custom);
                $body
            }
        }
    };
}
pub(crate) use with_order;
