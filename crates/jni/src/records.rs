//! An iterator over the updates of a batch with index, which Java holds while the batch may change.
//!
//! It remembers the key it is at and which of the updates of that key, and looks for it again at
//! every step: it borrows nothing.
//!
//! Thread safety: one thread at a time; the batch is for all.

use pumice::{BatchView, Result, SharedBatch, WriteBatchEntry, WriteBatchIndexIterator, WriteType};

/// The update an iterator is at.
#[derive(Debug)]
pub struct Update {
    /// What it does.
    pub write_type: WriteType,
    /// The key.
    pub key: Vec<u8>,
    /// Value or operand.
    pub value: Vec<u8>,
    /// How many newer updates the key has.
    newer: usize,
}

/// An iterator over the updates of one column family.
#[derive(Debug)]
pub struct Records {
    batch: SharedBatch,
    family: u32,
    at: Option<Update>,
}

/// The update's address is its name: no two lie at one place.
fn address(entry: &WriteBatchEntry<'_>) -> usize {
    entry.key.as_ptr().addr()
}

/// The entry, and how many newer ones its key has.
fn update(here: &WriteBatchIndexIterator<'_>) -> Result<Option<Update>> {
    let Some(entry) = here.entry().transpose()? else { return Ok(None) };
    let mut first = here.clone();
    first.seek(entry.key);
    let mut newer = 0;
    while first.entry().transpose()?.is_some_and(|other| address(&other) != address(&entry)) {
        first.next();
        newer += 1;
    }
    let (key, value) = (entry.key.to_vec(), entry.value.to_vec());
    Ok(Some(Update { write_type: entry.write_type, key, value, newer }))
}

impl Records {
    /// The iterator, at no update.
    pub fn new(batch: SharedBatch, family: u32) -> Records {
        Records { batch, family, at: None }
    }

    /// The update it is at.
    pub fn at(&self) -> Option<&Update> {
        self.at.as_ref()
    }

    /// Moves as `seek` does.
    ///
    /// # Errors
    /// Corruption if the batch was changed without its index.
    pub fn seek(&mut self, seek: impl FnOnce(&mut WriteBatchIndexIterator<'_>)) -> Result<()> {
        let family = self.family;
        self.at = self.batch.with(|batch| {
            let mut records = batch.records(family);
            seek(&mut records);
            update(&records)
        })?;
        Ok(())
    }

    /// Moves by one from where it is; nothing without a position.
    ///
    /// # Errors
    /// As [`Self::seek`].
    pub fn step(&mut self, step: impl FnOnce(&mut WriteBatchIndexIterator<'_>)) -> Result<()> {
        let Some(at) = self.at.take() else { return Ok(()) };
        self.seek(|records| {
            records.seek(&at.key);
            (0..at.newer).for_each(|_| records.next());
            step(records);
        })
    }
}
