//! `SharedBatch`: a batch with index that several owners read and change, one at a time.
//!
//! A transaction and its cursors share one; programs in other languages share theirs with the
//! cursors that they make over them.
//!
//! Thread safety: from any task. A call waits while another one uses the batch, and so may suspend;
//! none is made from inside another.

use std::sync::Arc;

use pumice_port::sync::Mutex;

use crate::batch_index::WriteBatchWithIndex;
use crate::batch_index::overlay::BatchView;
use crate::lock_order;

/// A batch with index that several owners read and change, one at a time.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// use pumice::{BatchView, SharedBatch, WriteBatchWithIndex};
/// let batch = SharedBatch::from(WriteBatchWithIndex::new());
/// let same = batch.clone();
/// batch.with_mut(|batch| batch.put("a", "1"))?;
/// assert_eq!(same.with(|batch| batch.count()), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SharedBatch(Arc<Mutex<WriteBatchWithIndex>>);

impl std::fmt::Debug for SharedBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedBatch").finish_non_exhaustive()
    }
}

/// Equal if they are the same batch.
impl PartialEq for SharedBatch {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SharedBatch {}

impl From<WriteBatchWithIndex> for SharedBatch {
    fn from(batch: WriteBatchWithIndex) -> Self {
        SharedBatch(Arc::new(Mutex::ranked(&lock_order::SHARED_BATCH, batch)))
    }
}

impl SharedBatch {
    /// Calls `change` with the batch.
    pub fn with_mut<R>(&self, change: impl FnOnce(&mut WriteBatchWithIndex) -> R) -> R {
        change(&mut self.0.lock())
    }
}

impl BatchView for SharedBatch {
    fn with<R>(&self, read: impl FnOnce(&WriteBatchWithIndex) -> R) -> R {
        read(&self.0.lock())
    }
}
