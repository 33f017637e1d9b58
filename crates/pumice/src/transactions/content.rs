//! What a transaction has done so far, and what becomes of it.
//!
//! The writes are in a batch with index, which cursors of the transaction read too; everything else
//! is in [`Content`]. Each is under a lock of its own: calls of one transaction take turns, while
//! its cursors only wait for the batch.
//!
//! A cursor may outlive the transaction: it then shows what the batch had.
//!
//! Thread safety: as above. Invariants: (1) a key that is tracked is locked, in a database that
//! locks; (2) the uses that a save point has are a part of those of the whole.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pumice_base::{Error, FileNumber, Result, SequenceNumber};
use pumice_port::sync::Mutex;
use pumice_port::time::now_micros;

use crate::batch_index::{SharedBatch, WriteBatchWithIndex, WriteBatchWithIndexOptions};
use crate::commit::batch::WriteBatch;
use crate::db::api::Db;
use crate::lock_order;
use crate::locks::{Holder, NEVER, TransactionState};
use crate::options::requests::WriteOptions;
use crate::snapshot::{Purpose, Snapshot};
use crate::transactions::optimistic::Optimistic;
use crate::transactions::options::TransactionOptions;
use crate::transactions::pessimistic::Pessimistic;
use crate::transactions::tracker::{Tracked, Tracker};
use crate::version::family::ColumnFamily;

/// How a key is used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    pub read_only: bool,
    pub exclusive: bool,
    /// The key must not have changed since the transaction's snapshot.
    pub validate: bool,
}

impl Use {
    pub const WRITE: Use = Use { read_only: false, exclusive: true, validate: true };
    pub const UNTRACKED: Use = Use { validate: false, ..Self::WRITE };
}

/// What keeps transactions apart.
#[derive(Clone)]
pub(super) enum Control {
    Locks(Arc<Pessimistic>),
    Validation(Arc<Optimistic>),
}

/// How many updates of each kind there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub puts: u64,
    pub deletes: u64,
    pub merges: u64,
}

/// What a transaction keeps for who wants to hear of its snapshot.
///
/// ```
/// use std::sync::Arc;
///
/// use pumice::SnapshotNotice;
///
/// let notice: SnapshotNotice = Arc::new("for the auditor");
/// assert_eq!(*notice.downcast::<&str>().unwrap(), "for the auditor");
/// ```
pub type SnapshotNotice = Arc<dyn Any + Send + Sync>;

/// The next operation takes a snapshot, and who hears of it.
#[derive(Clone, Default)]
pub(super) struct SnapshotWish {
    pub wanted: bool,
    pub notice: Option<SnapshotNotice>,
    /// The notice of the snapshot that was taken last, until it is asked for.
    pub taken: Option<SnapshotNotice>,
}

pub(super) struct SavePoint {
    snapshot: Option<Snapshot>,
    wish: SnapshotWish,
    counts: Counts,
    /// Uses since.
    used: Tracker,
}

/// What two-phase commit keeps of a transaction.
#[derive(Default)]
pub(super) struct Prepared {
    /// The log that has it; 0 before its prepare.
    pub log: FileNumber,
    /// Updates that are no part of it and are committed with it.
    pub beside: Option<WriteBatch>,
}

/// See the head of this file.
pub(super) struct Content {
    pub holder: Arc<Holder>,
    pub write_options: WriteOptions,
    pub options: TransactionOptions,
    /// `now_micros` of the begin.
    pub started: u64,
    pub snapshot: Option<Snapshot>,
    pub wish: SnapshotWish,
    pub used: Tracker,
    pub points: Vec<SavePoint>,
    pub counts: Counts,
    /// Empty without one; still there when it has ended.
    pub name: Vec<u8>,
    /// What two-phase commit keeps.
    pub prepared: Prepared,
    /// Writes can be read back.
    pub indexing: bool,
    /// The time that keys are checked against, in families with timestamps.
    pub read_timestamp: Option<u64>,
    /// The time of the updates, in families with timestamps.
    pub commit_timestamp: Option<u64>,
    /// What `id` says after the commit.
    pub committed_at: Option<SequenceNumber>,
}

/// What the handles of a transaction share.
pub(super) struct Inner {
    pub db: Db,
    pub control: Control,
    pub batch: SharedBatch,
    pub content: Mutex<Content>,
}

/// Ids are of the process, as in RocksDB.
static IDS: AtomicU64 = AtomicU64::new(1);

/// A holder that begins now and expires after so many milliseconds, unless they are less than 0.
pub(super) fn new_holder(expiration_millis: i64) -> Arc<Holder> {
    let expires = u64::try_from(expiration_millis)
        .map_or(NEVER, |millis| now_micros().saturating_add(millis.saturating_mul(1000)));
    Arc::new(Holder::new(IDS.fetch_add(1, Ordering::Relaxed), expires))
}

/// A snapshot by which conflicts are checked.
pub(super) fn conflict_snapshot(db: &Db) -> Snapshot {
    db.inner().snapshot(Purpose::WriteConflicts)
}

impl Content {
    pub fn new(db: &Db, write_options: &WriteOptions, options: &TransactionOptions) -> Self {
        Content {
            holder: new_holder(options.expiration),
            write_options: *write_options,
            options: options.clone(),
            started: now_micros(),
            snapshot: options.set_snapshot.then(|| conflict_snapshot(db)),
            wish: SnapshotWish::default(),
            used: Tracker::default(),
            points: Vec::new(),
            counts: Counts::default(),
            name: Vec::new(),
            prepared: Prepared::default(),
            indexing: true,
            read_timestamp: None,
            commit_timestamp: None,
            committed_at: None,
        }
    }

    /// Takes the snapshot that the next operation was to take.
    pub fn take_wanted_snapshot(&mut self, db: &Db) {
        if std::mem::take(&mut self.wish.wanted) {
            self.snapshot = Some(conflict_snapshot(db));
            self.wish.taken = self.wish.notice.take();
        }
    }

    /// Notes a use of a key.
    pub fn track(&mut self, family: u32, key: &[u8], sequence: SequenceNumber, how: Use) {
        let used = Tracked {
            sequence,
            reads: u32::from(how.read_only),
            writes: u32::from(!how.read_only),
            exclusive: how.exclusive,
        };
        self.used.track(family, key, used);
        if let Some(point) = self.points.last_mut() {
            point.used.track(family, key, used);
        }
    }

    fn forget(&mut self) {
        self.used = Tracker::default();
        self.points.clear();
        self.prepared.beside = None;
        self.counts = Counts::default();
    }
}

impl Inner {
    pub fn new(db: Db, control: Control, content: Content) -> Self {
        let options = WriteBatchWithIndexOptions {
            backup_comparator: db.default_column_family().data.comparator().clone(),
            overwrite_key: true,
            max_bytes: content.options.max_write_batch_size,
            ..WriteBatchWithIndexOptions::default()
        };
        let mut batch = WriteBatchWithIndex::with_options(&options);
        if content.write_options.protection_bytes_per_key != 0 {
            batch.write_batch_mut().protect();
        }
        let batch = batch.into();
        Inner { db, control, batch, content: Mutex::ranked(&lock_order::TRANSACTION, content) }
    }

    /// Makes `key` the transaction's, for this use.
    pub fn acquire(
        &self,
        content: &mut Content,
        cf: &ColumnFamily,
        key: &[u8],
        how: Use,
    ) -> Result<()> {
        self.db.live(cf)?;
        match &self.control {
            Control::Locks(locks) => locks.acquire(&self.db, content, cf, key, how),
            Control::Validation(_) => {
                Optimistic::acquire(&self.db, content, cf, key, how);
                Ok(())
            }
        }
    }

    /// Adds an update of a key that was acquired.
    pub fn add(
        &self,
        content: &Content,
        add: impl FnOnce(&mut WriteBatchWithIndex) -> Result<()>,
    ) -> Result<()> {
        self.batch.with_mut(|batch| {
            batch.set_indexing(content.indexing);
            add(batch)
        })
    }

    /// Gives the updates of families with timestamps that of the commit.
    ///
    /// # Errors
    /// InvalidArgument if it has none.
    pub fn stamp(&self, content: &Content) -> Result<()> {
        self.batch.with_mut(|batch| {
            let updates = batch.write_batch_mut();
            if !updates.has_timestamps() {
                return Ok(());
            }
            let missing = || Error::invalid_argument("Must assign a commit timestamp");
            let time = content.commit_timestamp.ok_or_else(missing)?;
            self.db.set_timestamps(updates, &time.to_le_bytes())
        })
    }

    /// Releases the locks of all its keys and ranges.
    pub fn release_all(&self, content: &Content) {
        if let Control::Locks(locks) = &self.control {
            locks.release(content);
        }
    }

    /// Releases the locks and empties the transaction.
    pub fn clear(&self, content: &mut Content) {
        self.release_all(content);
        content.forget();
        self.batch.with_mut(WriteBatchWithIndex::clear);
    }

    /// Releases a key that is not used any more.
    fn release(&self, content: &Content, family: u32, key: &[u8]) {
        if let Control::Locks(locks) = &self.control {
            locks.tables.unlock(&content.holder, family, [key]);
        }
    }

    pub fn set_save_point(&self, content: &mut Content) {
        content.points.push(SavePoint {
            snapshot: content.snapshot.clone(),
            wish: SnapshotWish { taken: None, ..content.wish.clone() },
            counts: content.counts,
            used: Tracker::default(),
        });
        self.batch.with_mut(WriteBatchWithIndex::set_save_point);
    }

    pub fn rollback_to_save_point(&self, content: &mut Content) -> Result<()> {
        if matches!(self.control, Control::Locks(_))
            && content.holder.state() != TransactionState::Started
        {
            return Err(Error::invalid_argument("Transaction is beyond state for rollback."));
        }
        let Some(point) = content.points.pop() else { return Err(Error::not_found("")) };
        content.snapshot = point.snapshot;
        content.wish = point.wish;
        content.counts = point.counts;
        for (family, key, used) in point.used.iter() {
            if content.used.untrack(family, key, used.reads, used.writes) {
                self.release(content, family, key);
            }
        }
        self.batch.with_mut(WriteBatchWithIndex::rollback_to_save_point)
    }

    pub fn pop_save_point(&self, content: &mut Content) -> Result<()> {
        let Some(point) = content.points.pop() else { return Err(Error::not_found("")) };
        if let Some(below) = content.points.last_mut() {
            below.used.add(&point.used);
        }
        self.batch.with_mut(WriteBatchWithIndex::pop_save_point)
    }

    pub fn undo_get_for_update(&self, content: &mut Content, family: u32, key: &[u8]) {
        if let Some(point) = content.points.last_mut() {
            if point.used.get(family, key).is_none_or(|used| used.reads == 0) {
                return;
            }
            point.used.untrack(family, key, 1, 0);
        }
        let read = content.used.get(family, key).is_some_and(|used| used.reads > 0);
        if read && content.used.untrack(family, key, 1, 0) {
            self.release(content, family, key);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The locks of a parent process are not this one's to release.
        if pumice_port::os::is_forked() {
            return;
        }
        let Inner { control, content, .. } = self;
        let content = content.get_mut();
        if let Control::Locks(locks) = control {
            locks.release(content);
            // The name of one that has ended may be another one's by now.
            let stays = matches!(
                content.holder.state(),
                TransactionState::Prepared
                    | TransactionState::Committed
                    | TransactionState::RolledBack
            );
            if !content.name.is_empty() && !stays {
                locks.names.forget(&content.name);
            }
        }
    }
}
