//! `PinnedSlice`: a value read from the database, without a copy where it lies in a cached block.
//!
//! A copy lies in a buffer that the thread's last copy left, if that was a small one: reads of
//! values in memtables allocate nothing where one value goes before the next is read.
//!
//! Thread safety: `Send + Sync`, immutable. A pinned block stays in memory (and counts against
//! the cache) while the slice lives.

use std::cell::Cell;
use std::fmt;
use std::mem;
use std::ops::{Deref, Range};

use pumice_table::PinnedBlock;

/// Larger buffers are not kept.
const SPARE_BYTES_MAX: usize = 4 << 10;
/// A copy lies in a buffer of at most four times its bytes, or of this many.
const ROOM_MIN: usize = 256;

pumice_port::worker_local! {
    /// The buffer of a copy that is gone.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

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

    /// A copy of `bytes`.
    pub(crate) fn copied(bytes: &[u8]) -> Self {
        let mut buffer = SPARE.try_with(Cell::take).unwrap_or_default();
        if buffer.capacity() > ROOM_MIN.max(4 * bytes.len()) {
            buffer = Vec::new(); // Who keeps a small value must not keep a large buffer.
        }
        buffer.clear();
        buffer.extend_from_slice(bytes);
        PinnedSlice(Repr::Owned(buffer))
    }

    fn take(&mut self) -> Repr {
        mem::replace(&mut self.0, Repr::Owned(Vec::new()))
    }

    /// The bytes `range` of `block`.
    pub(crate) fn pinned(block: PinnedBlock, range: Range<usize>) -> Self {
        PinnedSlice(Repr::Pinned(block, range))
    }

    /// The value without its last `bytes` bytes, which it has.
    pub(crate) fn shortened(mut self, bytes: usize) -> Self {
        PinnedSlice(match self.take() {
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
    pub fn into_vec(mut self) -> Vec<u8> {
        match self.take() {
            Repr::Owned(bytes) => bytes,
            Repr::Pinned(block, range) => block.bytes()[range].to_vec(),
        }
    }
}

impl Drop for PinnedSlice {
    #[inline]
    fn drop(&mut self) {
        if let Repr::Owned(buffer) = &mut self.0
            && (1..=SPARE_BYTES_MAX).contains(&buffer.capacity())
        {
            let buffer = mem::take(buffer);
            // A thread that ends keeps none.
            SPARE.try_with(|spare| spare.set(buffer)).unwrap_or_default();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[pumice_test_macros::test]
    fn a_small_copy_keeps_no_large_buffer() {
        drop(PinnedSlice::copied(&[b'v'; 4000]));
        assert!(PinnedSlice::copied(&[b'v'; 3000]).into_vec().capacity() < 12_000);
        drop(PinnedSlice::copied(&[b'v'; 4000]));
        let small = PinnedSlice::copied(b"small").into_vec();
        assert_eq!((&small[..], small.capacity() <= ROOM_MIN), (&b"small"[..], true));
    }
}
