//! What the leader of a write writes: its own batch, and those of its group.
//!
//! Thread safety: plain data, the leader's.

use std::sync::Arc;

use pumice_base::Result;

use crate::commit::batch::protection::Sums;
use crate::commit::queue::{Follower, QueuedBatch};
use crate::commit::two_phase::Taken;

/// A batch in wire form, with the checksums of its updates if it is protected.
pub(crate) type Content = (Vec<u8>, Option<Arc<Sums>>);

/// The leader's own batch.
pub(crate) struct Own<'a> {
    pub rep: &'a mut [u8],
    pub taken: Taken,
    /// The checksums of its updates, if it is protected: then all of its group are.
    pub sums: Option<&'a Sums>,
    /// The only update, if it is a put whose value is not in `rep`, which ends before it.
    pub put: Option<Put<'a>>,
}

/// A put whose value goes directly from the caller's memory to the log and the memtable.
#[derive(Clone, Copy)]
pub(crate) struct Put<'a> {
    pub column_family: u32,
    pub key: &'a [u8],
    pub value: &'a [u8],
}

impl<'a> Own<'a> {
    /// Of the batch that its writer queued with.
    pub fn queued(batch: &'a mut QueuedBatch) -> Self {
        let (taken, sums) = (batch.taken.clone(), batch.sums.as_deref());
        Own { rep: &mut batch.rep, taken, sums, put: None }
    }
    /// The value that is not in `rep`.
    #[inline]
    pub fn value(&self) -> &'a [u8] {
        self.put.map_or(&[], |put| put.value)
    }
    /// Bytes of the log record, if the batch is written alone.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.taken.logged.end + self.value().len()
    }
}

/// Compares the updates of a protected group with their checksums.
#[cold]
pub(crate) fn verify_group(
    own: &Own<'_>,
    followers: &[Follower],
    verify: fn(&Sums, &[u8]) -> Result<()>,
) -> Result<()> {
    own.sums.map_or(Ok(()), |sums| verify(sums, own.rep))?;
    followers.iter().try_for_each(|Follower { batch, .. }| {
        batch.sums.as_ref().map_or(Ok(()), |sums| verify(sums, &batch.rep))
    })
}
