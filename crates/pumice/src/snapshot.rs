//! Snapshots: sequence numbers that compaction must keep readable.
//!
//! A job lists the snapshots when it begins, and its filters spare what those see. One that is
//! taken later must not lose what the job has filtered already: it keeps what readers had then.
//!
//! Thread safety: all of it is `Send + Sync`; the list is under a lock that is never held over
//! I/O. Invariants: (1) a sequence is in the list while at least one `Snapshot` of it lives; (2) a
//! snapshot that a job with filters did not list has found the job running, or its result was in
//! place before anything was read at it.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use pumice_base::SequenceNumber;
use pumice_base::key::MAX_SEQUENCE;
use pumice_port::os::is_forked;
use pumice_port::sync::{Condvar, Mutex, MutexGuard};

use crate::lock_order;

/// What snapshots and handles belong to: a database.
pub(crate) trait SnapshotOwner: Send + Sync {
    /// The last clone of a snapshot was dropped.
    fn snapshot_released(&self);
}

/// The live snapshots of a database, with how often each sequence is held and since when.
pub(crate) struct SnapshotList {
    live: Mutex<Live>,
    opened: Condvar,
    /// A snapshot was released since `catch_up_limit` looked.
    released: AtomicBool,
    catch_up_limit: AtomicU64,
    /// Jobs with filters, from before they list the snapshots until readers have the result.
    filtering: AtomicUsize,
}

/// What a snapshot keeps of the database besides the sequence number.
pub(crate) type Kept = Box<dyn Any + Send + Sync>;

#[derive(Default)]
struct Live {
    held: BTreeMap<SequenceNumber, Held>,
    /// No snapshot is taken now, see [`SnapshotList::close`].
    closed: bool,
}

/// The live snapshots of one moment, as jobs need them.
#[derive(Clone, Debug)]
pub(crate) struct LiveSnapshots {
    /// Ascending.
    pub sequences: Vec<SequenceNumber>,
    /// The oldest one by which a transaction checks whether keys have changed: a job must leave
    /// something of each key that has changed since. MAX_SEQUENCE without one.
    pub earliest_write_conflict: SequenceNumber,
}

#[derive(Clone, Copy)]
struct Held {
    count: usize,
    /// How many of them are transactions', see `LiveSnapshots::earliest_write_conflict`.
    boundaries: usize,
    since_seconds: u64,
}

impl Default for SnapshotList {
    fn default() -> Self {
        SnapshotList {
            live: Mutex::ranked(&lock_order::SNAPSHOTS, Live::default()),
            opened: Condvar::new(),
            released: AtomicBool::new(false),
            catch_up_limit: AtomicU64::new(0),
            filtering: AtomicUsize::new(0),
        }
    }
}

impl SnapshotList {
    /// Registers the sequence that `latest` returns. `latest` runs under the lock, so that a
    /// compaction that lists snapshots afterwards cannot miss it. `keep` is asked if a filter may
    /// be running.
    pub fn acquire(
        self: &Arc<Self>,
        purpose: Purpose,
        now_seconds: u64,
        db: Weak<impl SnapshotOwner + 'static>,
        latest: impl FnOnce() -> SequenceNumber,
        keep: impl FnOnce() -> Kept,
    ) -> Snapshot {
        let mut live = self.open();
        let sequence = latest();
        let first = Held { count: 0, boundaries: 0, since_seconds: now_seconds };
        let held = live.held.entry(sequence).or_insert(first);
        held.count += 1;
        held.boundaries += usize::from(purpose == Purpose::WriteConflicts);
        drop(live);
        let kept = (self.filtering.load(Ordering::Acquire) > 0).then(keep);
        let list = Arc::clone(self);
        Snapshot { inner: Arc::new(SnapshotInner { sequence, purpose, list, db, kept }) }
    }

    /// A job with filters begins: it lists the snapshots after this call, and drops the guard when
    /// readers have its result or never will.
    pub fn filter_begins(&self) -> Filtering<'_> {
        self.filtering.fetch_add(1, Ordering::AcqRel);
        Filtering(self)
    }

    /// Makes requests for a snapshot wait until the returned guard is dropped: the content of a
    /// snapshot taken between the time an ingestion checks for snapshots and the time its files
    /// become visible would change. Callers take turns. Suspends.
    pub fn close(&self) -> ClosedSnapshots<'_> {
        let mut live = self.open();
        live.closed = true;
        ClosedSnapshots { list: self, any: !live.held.is_empty() }
    }

    /// The list, once it is not closed.
    fn open(&self) -> MutexGuard<'_, Live> {
        let mut live = self.live.lock();
        while live.closed {
            live = self.opened.wait(live);
        }
        live
    }

    /// All live sequences, ascending.
    pub fn sequences(&self) -> Vec<SequenceNumber> {
        self.live.lock().held.keys().copied().collect()
    }

    /// The oldest live sequence.
    pub fn oldest(&self) -> Option<SequenceNumber> {
        self.live.lock().held.keys().next().copied()
    }

    /// The live snapshots, for a job.
    pub fn live(&self) -> LiveSnapshots {
        let live = self.live.lock();
        let boundary = live.held.iter().find(|(_, held)| held.boundaries > 0);
        LiveSnapshots {
            sequences: live.held.keys().copied().collect(),
            earliest_write_conflict: boundary.map_or(MAX_SEQUENCE, |(sequence, _)| *sequence),
        }
    }

    /// Number of live snapshots.
    pub fn len(&self) -> usize {
        self.live.lock().held.values().map(|h| h.count).sum()
    }

    /// Wall-clock seconds when the oldest live snapshot was taken; 0 without one.
    pub fn oldest_seconds(&self) -> u64 {
        self.live.lock().held.values().map(|h| h.since_seconds).min().unwrap_or(0)
    }

    /// Files of the bottommost level that are wholly older than this may hold data kept only for
    /// snapshots that are now released: compaction should process them again. It grows only when a
    /// snapshot is released: without snapshots, compactions have already dropped everything they
    /// could. Without snapshots that is all files: the last write may be the deletion of a range
    /// whose files a snapshot kept.
    pub fn catch_up_limit(&self, latest: impl FnOnce() -> SequenceNumber) -> SequenceNumber {
        if self.released.swap(false, Ordering::AcqRel) {
            let oldest = self.live.lock().held.keys().next().copied();
            let limit = oldest.unwrap_or_else(|| latest() + 1);
            self.catch_up_limit.fetch_max(limit, Ordering::AcqRel);
        }
        self.catch_up_limit.load(Ordering::Acquire)
    }

    fn release(&self, sequence: SequenceNumber, purpose: Purpose) {
        let mut live = self.live.lock();
        if let Some(entry) = live.held.get_mut(&sequence) {
            entry.count -= 1;
            entry.boundaries -= usize::from(purpose == Purpose::WriteConflicts);
            if entry.count == 0 {
                live.held.remove(&sequence);
                self.released.store(true, Ordering::Release);
            }
        }
    }
}

/// See [`SnapshotList::filter_begins`].
pub(crate) struct Filtering<'a>(&'a SnapshotList);

impl Drop for Filtering<'_> {
    fn drop(&mut self) {
        self.0.filtering.fetch_sub(1, Ordering::AcqRel);
    }
}

/// See [`SnapshotList::close`].
pub(crate) struct ClosedSnapshots<'a> {
    list: &'a SnapshotList,
    /// There were snapshots when it was closed.
    pub any: bool,
}

impl Drop for ClosedSnapshots<'_> {
    fn drop(&mut self) {
        self.list.live.lock().closed = false;
        self.list.opened.notify_all();
    }
}

/// What a snapshot is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Reads,
    /// A transaction also checks by it whether keys have changed.
    WriteConflicts,
}

struct SnapshotInner {
    sequence: SequenceNumber,
    purpose: Purpose,
    list: Arc<SnapshotList>,
    db: Weak<dyn SnapshotOwner>,
    kept: Option<Kept>,
}

impl Drop for SnapshotInner {
    fn drop(&mut self) {
        // The parent's snapshot lives on, and the list's lock may be held forever.
        if is_forked() {
            return;
        }
        drop(self.kept.take());
        self.list.release(self.sequence, self.purpose);
        if let Some(db) = self.db.upgrade() {
            db.snapshot_released();
        }
    }
}

/// A consistent view of the database at one moment. Cheap to clone; released with its last clone.
///
/// One that is taken while a compaction filter runs (values that expire are dropped by one) keeps
/// the memtables and tables of the families with filters until it is released, as an iterator does.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-snapshot-{}", std::process::id()));
/// # let db = pumice::Db::builder(&dir).create(true).open()?;
/// use pumice::ReadOptions;
/// db.put("a", "1")?;
/// let snapshot = db.snapshot();
/// db.put("a", "2")?;
/// let then = db.get_opt(&ReadOptions::at(&snapshot), "a")?;
/// assert_eq!(then.as_deref(), Some(&b"1"[..]));
/// # db.close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Snapshot {
    inner: Arc<SnapshotInner>,
}

impl Snapshot {
    /// The sequence number it shows.
    pub fn sequence_number(&self) -> SequenceNumber {
        self.inner.sequence
    }
    /// What it keeps; None if no filter ran when it was taken.
    #[inline]
    pub(crate) fn kept(&self) -> Option<&Kept> {
        self.inner.kept.as_ref()
    }
    /// Whether it was taken of `db`. The sequence number of another database's snapshot has no
    /// meaning here.
    pub(crate) fn belongs_to(&self, db: &dyn SnapshotOwner) -> bool {
        std::ptr::addr_eq(self.inner.db.as_ptr(), db)
    }
}

/// A snapshot equals its clones; two snapshots of the same moment are different.
impl PartialEq for Snapshot {
    fn eq(&self, other: &Snapshot) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Eq for Snapshot {}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Snapshot({})", self.inner.sequence)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    struct Nobody;

    impl SnapshotOwner for Nobody {
        fn snapshot_released(&self) {}
    }

    /// A second close waits for the first one to end; after both, snapshots are taken again.
    #[pumice_test_macros::test]
    fn closing_callers_take_turns() {
        let list = Arc::new(SnapshotList::default());
        let (first, other) = (list.close(), Arc::clone(&list));
        let ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ended);
        let second = pumice_port::thread::spawn("second", move || {
            let closed = other.close();
            (seen.load(Ordering::Relaxed), closed.any)
        });
        (0..1000).for_each(|_| pumice_port::thread::yield_now());
        ended.store(true, Ordering::Relaxed);
        drop(first);
        assert_eq!(second.join().unwrap(), (true, false));
        drop(list.acquire(Purpose::Reads, 0, Weak::<Nobody>::new(), || 1, || Box::new(())));
    }

    #[pumice_test_macros::test]
    fn the_limit_grows_only_when_snapshots_go() {
        let list = Arc::new(SnapshotList::default());
        assert_eq!(list.catch_up_limit(|| 100), 0);
        let take = |sequence| {
            list.acquire(Purpose::Reads, 0, Weak::<Nobody>::new(), || sequence, || Box::new(()))
        };
        let (old, new) = (take(10), take(20));
        let clone = old.clone();
        drop(old);
        assert_eq!(list.catch_up_limit(|| 100), 0, "a clone still holds it");
        drop(clone);
        assert_eq!(list.catch_up_limit(|| 100), 20, "the next snapshot limits it");
        drop(new);
        assert_eq!(list.catch_up_limit(|| 100), 101);
        assert_eq!(list.catch_up_limit(|| 200), 101, "nothing was released since");
        assert_eq!(list.len(), 0);
    }
}
