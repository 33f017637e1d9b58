//! Whether point reads of a column family have to read several files of level 0.
//!
//! Only a read that is over knows how many files it needed. So the next ones are expected to be
//! like it: after one that had to read blocks of several files one after the other, further ones
//! read such blocks together, until [`TRUST`] of them in a row have read in vain or had fewer than
//! two blocks to read. So of reads that are not needed there are at most those of [`TRUST`] lookups
//! for each lookup that needed several.
//!
//! Thread safety: from anywhere; updates of different readers may overwrite each other.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// How many lookups in a row may read in vain.
const TRUST: u32 = 2;

/// See the head of this file.
#[derive(Default)]
pub(crate) struct L0Reads(AtomicU32);

impl L0Reads {
    /// The next lookup will have to read several files, as far as is known.
    #[inline]
    pub fn expects_several(&self) -> bool {
        self.0.load(Relaxed) > 0
    }

    /// A lookup had to read several files.
    #[cold]
    pub fn note_several(&self) {
        self.0.store(TRUST, Relaxed);
    }

    /// A lookup that was expected to read several files has needed fewer.
    #[cold]
    pub fn note_fewer(&self) {
        self.0.store(self.0.load(Relaxed).saturating_sub(1), Relaxed);
    }
}
