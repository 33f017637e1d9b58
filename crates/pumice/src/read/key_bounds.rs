//! `KeyBounds`: ranges of keys as Rust writes them, for `range(..)` and its forms.
//!
//! `RangeBounds<K>` would not do: `..` is a range of every type, so that callers would have to name
//! one, and a range of `&Vec<u8>` is one of two. Here each range has one type of keys. Thread
//! safety: plain values.

use std::ops::{
    Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive,
};

/// A range of keys: `a..b`, `a..=b`, `a..`, `..b`, `..=b`, `..`, or a pair of [`Bound`]s. Keys are
/// whatever gives bytes.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-bounds-{}", std::process::id()));
/// # let db = pumice::Db::builder(&dir).create(true).open()?;
/// use std::ops::Bound::{Excluded, Unbounded};
/// for key in ["a", "b", "c"] {
///     db.put(key, "")?;
/// }
/// assert_eq!(db.range(..)?.count(), 3);
/// assert_eq!(db.range("a".."c")?.count(), 2);
/// let (from, to) = (b"b".to_vec(), b"c".to_vec());
/// assert_eq!(db.range(&from..=&to)?.count(), 2);
/// assert_eq!(db.range((Excluded("a"), Unbounded))?.count(), 2);
/// # db.close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
pub trait KeyBounds<K> {
    /// Where it begins.
    fn start(&self) -> Bound<&[u8]>;
    /// Where it ends.
    fn end(&self) -> Bound<&[u8]>;
}

/// The same bound of a key's bytes.
fn bytes<K: AsRef<[u8]>>(bound: Bound<&K>) -> Bound<&[u8]> {
    bound.map(|key| key.as_ref())
}

macro_rules! key_bounds {
    ($($range:ty),*) => {$(
        impl<K: AsRef<[u8]>> KeyBounds<K> for $range {
            fn start(&self) -> Bound<&[u8]> {
                bytes(RangeBounds::<K>::start_bound(self))
            }
            fn end(&self) -> Bound<&[u8]> {
                bytes(RangeBounds::<K>::end_bound(self))
            }
        }
    )*};
}
key_bounds!(
    Range<K>,
    RangeInclusive<K>,
    RangeFrom<K>,
    RangeTo<K>,
    RangeToInclusive<K>,
    (Bound<K>, Bound<K>)
);

impl KeyBounds<&'static [u8]> for RangeFull {
    fn start(&self) -> Bound<&[u8]> {
        Bound::Unbounded
    }
    fn end(&self) -> Bound<&[u8]> {
        Bound::Unbounded
    }
}
