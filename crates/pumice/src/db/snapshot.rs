//! Snapshots: sequence numbers that compaction must keep readable.
//!
//! Thread safety: all of it is `Send + Sync`; the list is behind a lock that is never held over
//! I/O. Invariant: a sequence is in the list while at least one `Snapshot` of it lives.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pumice_base::SequenceNumber;
use pumice_port::sync::Mutex;

/// The live snapshots of a database, with how often each sequence is held and since when.
#[derive(Default)]
pub(crate) struct SnapshotList {
    held: Mutex<BTreeMap<SequenceNumber, Held>>,
    /// See the method.
    freed_below: AtomicU64,
}

#[derive(Clone, Copy)]
struct Held {
    count: usize,
    since_seconds: u64,
}

impl SnapshotList {
    /// Registers the sequence that `latest` returns. `latest` runs under the lock, so that a
    /// compaction that lists snapshots afterwards cannot miss it.
    pub fn acquire(
        self: &Arc<Self>,
        now_seconds: u64,
        latest: impl FnOnce() -> SequenceNumber,
    ) -> Snapshot {
        let mut held = self.held.lock();
        let sequence = latest();
        let entry = held.entry(sequence).or_insert(Held { count: 0, since_seconds: now_seconds });
        entry.count += 1;
        drop(held);
        Snapshot { inner: Arc::new(SnapshotInner { sequence, list: Arc::clone(self) }) }
    }

    /// All live sequences, ascending.
    pub fn sequences(&self) -> Vec<SequenceNumber> {
        self.held.lock().keys().copied().collect()
    }

    /// Released snapshots may have left versions below this sequence behind, which compactions had
    /// to keep while they lived; 0 before the first release.
    pub fn freed_below(&self) -> SequenceNumber {
        self.freed_below.load(Ordering::Relaxed)
    }

    /// Number of live snapshots.
    pub fn len(&self) -> usize {
        self.held.lock().values().map(|h| h.count).sum()
    }

    /// Wall-clock seconds when the oldest live snapshot was taken; 0 without one.
    pub fn oldest_seconds(&self) -> u64 {
        self.held.lock().values().map(|h| h.since_seconds).min().unwrap_or(0)
    }

    fn release(&self, sequence: SequenceNumber) {
        let mut held = self.held.lock();
        if let Some(entry) = held.get_mut(&sequence) {
            entry.count -= 1;
            if entry.count == 0 {
                held.remove(&sequence);
                let oldest = held.keys().next().copied().unwrap_or(sequence);
                self.freed_below.fetch_max(oldest, Ordering::Relaxed);
            }
        }
    }
}

struct SnapshotInner {
    sequence: SequenceNumber,
    list: Arc<SnapshotList>,
}

impl Drop for SnapshotInner {
    fn drop(&mut self) {
        self.list.release(self.sequence);
    }
}

/// A consistent view of the database at one moment. Cheap to clone; released with its last clone.
#[derive(Clone)]
pub struct Snapshot {
    inner: Arc<SnapshotInner>,
}

impl Snapshot {
    /// The sequence number it shows.
    pub fn sequence_number(&self) -> SequenceNumber {
        self.inner.sequence
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Snapshot({})", self.inner.sequence)
    }
}
