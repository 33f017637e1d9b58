//! `PinnedSlice`: a value read from the database, without a copy where it lies in a cached block.
//!
//! Thread safety: `Send + Sync`, immutable. A pinned block stays in memory (and counts against
//! the cache) while the slice lives.

use std::fmt;
use std::ops::{Deref, Range};

use pumice_table::PinnedBlock;

enum Repr {
    Owned(Vec<u8>),
    Pinned(PinnedBlock, Range<usize>),
}

/// A value; dereferences to its bytes.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-pinnedslice-{}", std::process::id()));
/// # let db = pumice::Db::builder(&dir).create(true).open()?;
/// db.put("a", "1")?;
/// let value = db.get("a")?.expect("it was put");
/// // Lent from where it lies; a copy is made on demand.
/// assert_eq!(&value[..], b"1");
/// assert_eq!(value.into_vec(), b"1");
/// # db.close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
pub struct PinnedSlice(Repr);

impl PinnedSlice {
    /// A value in its own buffer.
    pub(crate) fn owned(bytes: Vec<u8>) -> Self {
        PinnedSlice(Repr::Owned(bytes))
    }

    /// The bytes `range` of `block`.
    pub(crate) fn pinned(block: PinnedBlock, range: Range<usize>) -> Self {
        PinnedSlice(Repr::Pinned(block, range))
    }

    /// The value without its last `bytes` bytes, which it has.
    pub(crate) fn shortened(self, bytes: usize) -> Self {
        PinnedSlice(match self.0 {
            Repr::Owned(mut value) => {
                value.truncate(value.len().saturating_sub(bytes));
                Repr::Owned(value)
            }
            Repr::Pinned(block, range) => {
                Repr::Pinned(block, range.start..range.end.saturating_sub(bytes).max(range.start))
            }
        })
    }

    /// The value in its own buffer, copied if it was pinned.
    pub fn into_vec(self) -> Vec<u8> {
        match self.0 {
            Repr::Owned(bytes) => bytes,
            Repr::Pinned(block, range) => block.bytes()[range].to_vec(),
        }
    }
}

impl Deref for PinnedSlice {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Repr::Owned(bytes) => bytes,
            Repr::Pinned(block, range) => &block.bytes()[range.clone()],
        }
    }
}

impl AsRef<[u8]> for PinnedSlice {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for PinnedSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl PartialEq for PinnedSlice {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for PinnedSlice {}

impl PartialEq<[u8]> for PinnedSlice {
    fn eq(&self, other: &[u8]) -> bool {
        **self == *other
    }
}

impl PartialEq<&[u8]> for PinnedSlice {
    fn eq(&self, other: &&[u8]) -> bool {
        **self == **other
    }
}

impl<const N: usize> PartialEq<[u8; N]> for PinnedSlice {
    fn eq(&self, other: &[u8; N]) -> bool {
        **self == *other
    }
}

impl<const N: usize> PartialEq<&[u8; N]> for PinnedSlice {
    fn eq(&self, other: &&[u8; N]) -> bool {
        **self == **other
    }
}

impl PartialEq<Vec<u8>> for PinnedSlice {
    fn eq(&self, other: &Vec<u8>) -> bool {
        **self == **other
    }
}

impl From<PinnedSlice> for Vec<u8> {
    fn from(value: PinnedSlice) -> Self {
        value.into_vec()
    }
}
