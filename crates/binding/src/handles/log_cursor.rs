//! `rocksdb_wal_iterator_t`: the writes of a database in their order, one batch at a time.
//!
//! Thread safety: one task at a time.

use pumice::{Error, Result, WalIterator, WriteBatch};

/// A cursor over batches.
#[derive(Debug)]
pub struct LogCursor {
    batches: WalIterator,
    present: Option<(u64, WriteBatch)>,
    failed: Option<Error>,
}

impl LogCursor {
    /// At the first batch of `batches`.
    pub fn new(batches: WalIterator) -> LogCursor {
        let mut cursor = LogCursor { batches, present: None, failed: None };
        cursor.next();
        cursor
    }

    /// Moves to the next batch.
    pub fn next(&mut self) {
        self.present = None;
        match self.batches.next() {
            Some(Ok(batch)) => self.present = Some(batch),
            Some(Err(error)) => self.failed = Some(error),
            None => {}
        }
    }

    /// The cursor is at a batch.
    pub fn valid(&self) -> bool {
        self.present.is_some()
    }

    /// The first sequence number of the present batch, and the batch.
    pub fn batch(&self) -> Option<(u64, &WriteBatch)> {
        self.present.as_ref().map(|(sequence, batch)| (*sequence, batch))
    }

    /// What stopped it.
    ///
    /// # Errors
    /// The cursor's own error.
    pub fn status(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }
}
