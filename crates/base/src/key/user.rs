//! The key as users and comparators know it.

use std::fmt;

/// A user key: the user's bytes with their timestamp, without the trailer of an internal key.
///
/// No `==`: two keys of different bytes may be the same key. Ask the comparator.
///
/// ```
/// # use pumice_base::{Comparator, UserKey};
/// let (a, b) = (UserKey::new(b"a"), UserKey::new(b"b"));
/// assert!(Comparator::ReverseBytewise.compare(a, b).is_gt());
/// assert_eq!(a.as_bytes(), b"a");
/// ```
#[derive(Clone, Copy, Default)]
pub struct UserKey<'a>(&'a [u8]);

impl<'a> UserKey<'a> {
    /// The user key that is `bytes`.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Self {
        UserKey(bytes)
    }

    /// Its bytes, with the timestamp.
    #[inline]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// How many bytes it has, with the timestamp.
    #[inline]
    pub const fn len(self) -> usize {
        self.0.len()
    }

    /// It has no bytes, as the first of all keys in bytewise order.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The two have the same bytes, so that every comparator takes them for the same key. Keys of
    /// other bytes may be the same one too.
    #[inline]
    pub fn has_bytes_of(self, other: UserKey<'_>) -> bool {
        self.0 == other.0
    }

    /// A copy of its bytes.
    #[inline]
    pub fn to_vec(self) -> Vec<u8> {
        self.0.to_vec()
    }
}

impl<'a> From<&'a [u8]> for UserKey<'a> {
    #[inline]
    fn from(bytes: &'a [u8]) -> Self {
        UserKey(bytes)
    }
}

impl<'a> From<&'a Vec<u8>> for UserKey<'a> {
    #[inline]
    fn from(bytes: &'a Vec<u8>) -> Self {
        UserKey(bytes)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for UserKey<'a> {
    #[inline]
    fn from(bytes: &'a [u8; N]) -> Self {
        UserKey(bytes)
    }
}

impl fmt::Debug for UserKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}
