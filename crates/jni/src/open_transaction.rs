//! The handle of a transaction, and what Java got out of it.
//!
//! Thread safety: a transaction is used by one thread at a time; the fields that calls change have
//! locks for those that share the handle.

use pumice::{Snapshot, Transaction};
use pumice_binding::database::Database;
use pumice_port::sync::Mutex;

use crate::callbacks::notifier::{JavaNotifier, News};
use crate::ffi::call::Result;
use crate::ffi::handle;
use crate::objects::{Batch, SharedBatch, WriteOptions};

/// A transaction and the database it is of. What Java got out of it and never ends goes with it.
#[derive(Debug)]
pub struct OpenTransaction {
    /// The transaction.
    pub transaction: Transaction,
    /// Its id as it began: a call that waits for a lock would keep it from being asked.
    pub id: u64,
    /// It looks for deadlocks before it waits.
    pub deadlock_detect: bool,
    /// The database.
    pub database: Database,
    /// How it is committed, as Java said.
    pub write_options: WriteOptions,
    /// The handle of these options once Java has asked for it; 0 before.
    write_handle: i64,
    /// Snapshots with their handles.
    snapshots: Mutex<Vec<(Snapshot, i64)>>,
    /// The handle of the updates that are committed beside it; 0 if Java has not asked for it.
    beside: i64,
    /// What Java says is its log.
    pub log_number: Option<u64>,
    /// Batches with their handles.
    batches: Vec<(SharedBatch, i64)>,
}

impl OpenTransaction {
    /// The handle's content.
    pub fn new(transaction: Transaction, database: Database) -> OpenTransaction {
        let id = transaction.id();
        OpenTransaction {
            transaction,
            id,
            deadlock_detect: false,
            database,
            write_options: WriteOptions::default(),
            write_handle: 0,
            snapshots: Mutex::new(Vec::new()),
            beside: 0,
            log_number: None,
            batches: Vec::new(),
        }
    }

    /// The handle of its write options, which Java may change.
    pub fn write_options(&mut self) -> i64 {
        if self.write_handle == 0 {
            self.write_handle = handle::give(self.write_options.clone());
        }
        self.write_handle
    }

    /// Replaces its write options.
    ///
    /// # Errors
    /// Java ended the handle that it got.
    pub fn set_write_options(&mut self, options: &WriteOptions) -> Result<()> {
        self.write_options = options.clone();
        // Java may give back what it got: that is changed already, and is borrowed here.
        let given = self.write_handle != 0
            && !std::ptr::eq(handle::read::<WriteOptions>(self.write_handle)?, options);
        if given {
            *handle::write::<WriteOptions>(self.write_handle)? = options.clone();
        }
        self.transaction.set_write_options(options.engine());
        Ok(())
    }

    /// The transaction gets what Java has made of its write options.
    ///
    /// # Errors
    /// As [`Self::set_write_options`].
    pub fn take_write_options(&self) -> Result<()> {
        if self.write_handle != 0 {
            let options = handle::read::<WriteOptions>(self.write_handle)?;
            self.transaction.set_write_options(options.engine());
        }
        Ok(())
    }

    /// The handle of its snapshot, 0 for none.
    pub fn snapshot(&self) -> i64 {
        let Some(snapshot) = self.transaction.snapshot() else { return 0 };
        let mut snapshots = self.snapshots.lock();
        if let Some((last, number)) = snapshots.last()
            && *last == snapshot
        {
            return *number;
        }
        let number = handle::give(snapshot.clone());
        snapshots.push((snapshot, number));
        number
    }

    /// Who hears of the snapshot that the last operation took, if it took one.
    pub fn news(&self) -> News {
        let notice = self.transaction.take_snapshot_notice()?;
        let notifier = notice.downcast::<JavaNotifier>().ok()?;
        Some(self.snapshot()).filter(|snapshot| *snapshot != 0).map(|snapshot| (notifier, snapshot))
    }

    /// The handle of the updates that are committed beside it.
    pub fn beside(&mut self) -> i64 {
        if self.beside == 0 {
            self.beside = handle::give(Batch::default());
        }
        self.beside
    }

    /// The transaction gets what Java has made of these updates.
    ///
    /// # Errors
    /// Java ended their handle; that of an update.
    pub fn take_beside(&self) -> Result<()> {
        if self.beside != 0 {
            let batch = handle::read::<Batch>(self.beside)?;
            self.transaction.set_commit_time_batch(&batch.updates)?;
        }
        Ok(())
    }

    /// The transaction has ended, and with it these updates.
    pub fn clear_beside(&self) {
        if let Ok(batch) = handle::write::<Batch>(self.beside) {
            batch.updates.clear();
        }
    }

    /// The handle of its writes.
    pub fn batch(&mut self) -> i64 {
        let batch = self.transaction.shared_batch();
        if let Some((last, number)) = self.batches.last()
            && *last == batch
        {
            return *number;
        }
        let number = handle::give(batch.clone());
        self.batches.push((batch, number));
        number
    }
}

impl Drop for OpenTransaction {
    fn drop(&mut self) {
        // One that is gone already needs no end.
        handle::take::<WriteOptions>(self.write_handle).ok();
        handle::take::<Batch>(self.beside).ok();
        for (_, number) in self.snapshots.lock().iter() {
            handle::take::<Snapshot>(*number).ok();
        }
        for (_, number) in &self.batches {
            handle::take::<SharedBatch>(*number).ok();
        }
    }
}
