//! One file: its bytes now, its durable bytes, and the changes in between.
//!
//! Invariant: `stable` with `pending` applied in order gives `data`, except after an injected sync
//! failure that lost changes: then they are in `data` until the crash and nowhere else.
//!
//! A file takes space while it has a name or an open handle (`pins`), not while only a crash could
//! bring it back.
//!
//! A write is pending from its effect on, and completed when its caller is told so: later only in a
//! simulation. A sync covers what was completed when the sync was submitted.

use pumice_base::random::Rng;
use pumice_port::sync::Mutex;
use pumice_port::time::{now_nanos, wall_seconds};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::crash::FileLoss;
use super::fault::FsyncFailure;

/// Size of the blocks that a device writes atomically.
pub(super) const SECTOR_BYTES: usize = 512;

/// Bytes in use by all files, and how many there may be.
pub(super) struct SpaceMeter {
    used: AtomicU64,
    quota: AtomicU64,
    /// When the quota ends, on the monotonic clock.
    lifted_at: AtomicU64,
    inodes: AtomicU64,
}

impl Default for SpaceMeter {
    fn default() -> Self {
        Self::with_quota(u64::MAX, u64::MAX)
    }
}

impl SpaceMeter {
    fn with_quota(quota: u64, lifted_at: u64) -> Self {
        let (quota, lifted_at) = (AtomicU64::new(quota), AtomicU64::new(lifted_at));
        SpaceMeter { used: AtomicU64::new(0), quota, lifted_at, inodes: AtomicU64::new(0) }
    }
    /// A number for a new file.
    fn next_inode(&self) -> u64 {
        self.inodes.fetch_add(1, Ordering::Relaxed) + 1
    }
    /// Limits what may be used, until the monotonic clock says `lifted_at`.
    pub(super) fn set_quota(&self, bytes: Option<u64>, lifted_at: u64) {
        self.quota.store(bytes.unwrap_or(u64::MAX), Ordering::Relaxed);
        self.lifted_at.store(lifted_at, Ordering::Relaxed);
    }
    /// A meter of nothing with the same quota.
    pub(super) fn emptied(&self) -> Self {
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        Self::with_quota(load(&self.quota), load(&self.lifted_at))
    }
    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
    pub(super) fn free(&self) -> u64 {
        let lifted_at = self.lifted_at.load(Ordering::Relaxed);
        if lifted_at != u64::MAX && now_nanos() >= lifted_at {
            self.set_quota(None, u64::MAX);
        }
        self.quota.load(Ordering::Relaxed).saturating_sub(self.used())
    }
    fn resized(&self, old: usize, new: usize) {
        if new >= old {
            self.used.fetch_add((new - old) as u64, Ordering::Relaxed);
        } else {
            self.used.fetch_sub((old - new) as u64, Ordering::Relaxed);
        }
    }
}

/// A change of a file that is not durable yet.
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate(usize),
}

impl Change {
    /// How many bytes it carries.
    fn len(&self) -> usize {
        match self {
            Change::Write { bytes, .. } => bytes.len(),
            Change::Truncate(_) => 0,
        }
    }
    fn apply(&self, data: &mut Vec<u8>) {
        match self {
            Change::Write { offset, bytes } => write_at(data, *offset, bytes),
            Change::Truncate(bytes) => data.resize(*bytes, 0),
        }
    }
}

fn write_at(data: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if offset == data.len() {
        data.extend_from_slice(bytes);
    } else {
        if data.len() < end {
            data.resize(end, 0);
        }
        data[offset..end].copy_from_slice(bytes);
    }
}

/// A change, and when it was completed, counted in completions of the file; `IN_FLIGHT` before.
struct Pending {
    change: Change,
    number: u64,
    completed: u64,
}

const IN_FLIGHT: u64 = u64::MAX;

/// The sync that covers a change: one submitted after this many completions, or later.
#[derive(Clone, Copy)]
pub(super) struct Mark(u64);

/// A write that has taken effect and was not completed.
#[must_use = "the write has not completed"]
pub(super) struct ChangeNumber(u64);

struct Content {
    /// Shared with `stable`, and with copies of the file system, while they are equal.
    data: Arc<Vec<u8>>,
    stable: Arc<Vec<u8>>,
    pending: Vec<Pending>,
    completions: u64,
    changes: u64,
    /// `data` is not `stable` with `pending`: a failed sync has lost changes.
    lossy: bool,
    /// Unreadable ranges, unsorted.
    bad: Vec<Range<u64>>,
    modified_seconds: u64,
    pins: usize,
}

impl Content {
    fn add(&mut self, change: Change) -> ChangeNumber {
        self.changes += 1;
        self.modified_seconds = wall_seconds();
        self.pending.push(Pending { change, number: self.changes, completed: IN_FLIGHT });
        ChangeNumber(self.changes)
    }

    /// Takes out the changes that a sync of `mark` covers, in order.
    fn take_covered(&mut self, mark: Mark) -> Vec<Pending> {
        if self.pending.iter().all(|p| p.completed <= mark.0) {
            return std::mem::take(&mut self.pending);
        }
        self.pending.extract_if(.., |p| p.completed <= mark.0).collect()
    }

    fn complete(&mut self, number: ChangeNumber) {
        self.completions += 1;
        let completions = self.completions;
        let own = self.pending.iter_mut().rev().find(|p| p.number == number.0);
        if let Some(pending) = own {
            pending.completed = completions;
        }
    }

    fn spoils(&self, range: &Range<u64>) -> bool {
        self.bad.iter().any(|bad| bad.start < range.end && range.start < bad.end)
    }

    /// Sectors that are written whole can be read again.
    fn heal(&mut self, range: Range<u64>) {
        if self.bad.is_empty() {
            return;
        }
        let mut left = Vec::new();
        for bad in self.bad.drain(..) {
            for part in [bad.start..bad.end.min(range.start), bad.start.max(range.end)..bad.end] {
                if part.start < part.end {
                    left.push(part);
                }
            }
        }
        self.bad = left;
    }
}

/// See the head of this file.
pub(super) struct Inode {
    id: u64,
    content: Mutex<Content>,
    space: Arc<SpaceMeter>,
}

impl Inode {
    pub(super) fn new(space: &Arc<SpaceMeter>) -> Self {
        Self::with_stable(Arc::default(), space)
    }

    /// A file whose bytes are all durable.
    fn with_stable(stable: Arc<Vec<u8>>, space: &Arc<SpaceMeter>) -> Self {
        let content = Content {
            data: Arc::clone(&stable),
            stable,
            pending: Vec::new(),
            completions: 0,
            changes: 0,
            lossy: false,
            bad: Vec::new(),
            modified_seconds: wall_seconds(),
            pins: 0,
        };
        Inode { id: space.next_inode(), content: Mutex::new(content), space: Arc::clone(space) }
    }

    /// The file's number.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Adds a name or handle.
    pub(super) fn pin(&self) {
        let mut content = self.content.lock();
        if content.pins == 0 {
            self.space.resized(0, content.data.len());
        }
        content.pins += 1;
    }
    /// Removes a name or handle.
    pub(super) fn unpin(&self) {
        let mut content = self.content.lock();
        content.pins -= 1;
        if content.pins == 0 {
            self.space.resized(content.data.len(), 0);
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.content.lock().data.len() as u64
    }
    pub(super) fn modified_seconds(&self) -> u64 {
        self.content.lock().modified_seconds
    }

    /// Reads into `buf`; returns how much there was. `None` when the range cannot be read.
    pub(super) fn read_at(&self, offset: u64, buf: &mut [u8]) -> Option<usize> {
        let content = self.content.lock();
        if content.spoils(&(offset..offset.saturating_add(buf.len() as u64))) {
            return None;
        }
        let rest = usize::try_from(offset).ok().and_then(|at| content.data.get(at..));
        let rest = rest.unwrap_or(&[]);
        let bytes = rest.len().min(buf.len());
        buf[..bytes].copy_from_slice(&rest[..bytes]);
        Some(bytes)
    }

    /// Writes as much of `bytes` at `offset` as the quota allows; returns how much that was. The
    /// bytes land `astray` bytes before their place.
    pub(super) fn write(&self, offset: u64, bytes: &[u8], astray: u64) -> (usize, ChangeNumber) {
        let content = &mut *self.content.lock();
        let (old, offset) = (content.data.len(), offset as usize);
        let room = usize::try_from(self.space.free()).unwrap_or(usize::MAX);
        let end_max = old.saturating_add(room);
        let bytes = &bytes[..bytes.len().min(end_max.saturating_sub(offset))];
        if bytes.is_empty() {
            return (0, ChangeNumber(0));
        }
        let data = Arc::make_mut(&mut content.data);
        if astray > 0 {
            // The length is the file system's, not the device's: it is right.
            let end = offset + bytes.len();
            if old < end {
                data.resize(end, 0);
                let extent = content.add(Change::Truncate(end));
                content.complete(extent);
            }
        }
        let offset = offset - astray as usize;
        write_at(Arc::make_mut(&mut content.data), offset, bytes);
        self.space.resized(old, content.data.len());
        content.heal(offset as u64..(offset + bytes.len()) as u64);
        (bytes.len(), content.add(Change::Write { offset, bytes: bytes.to_vec() }))
    }

    /// The caller of the write is being told that it is done.
    pub(super) fn complete(&self, number: ChangeNumber) {
        self.content.lock().complete(number);
    }

    /// Makes the sectors of a range unreadable, until they are written again.
    pub(super) fn spoil(&self, range: Range<u64>) {
        let sector = SECTOR_BYTES as u64;
        let end = range.end.next_multiple_of(sector);
        self.content.lock().bad.push(range.start / sector * sector..end);
    }

    pub(super) fn truncate(&self, bytes: u64) {
        let content = &mut *self.content.lock();
        let (old, new) = (content.data.len(), bytes as usize);
        if old != new {
            Arc::make_mut(&mut content.data).resize(new, 0);
            self.space.resized(old, new);
            let number = content.add(Change::Truncate(new));
            content.complete(number);
        }
    }

    /// Submits a sync; returns what it will cover.
    pub(super) fn mark(&self) -> Mark {
        Mark(self.content.lock().completions)
    }

    /// Makes what `mark` covers durable.
    pub(super) fn sync(&self, mark: Mark) {
        let content = &mut *self.content.lock();
        let covered = content.take_covered(mark);
        let bytes: usize = covered.iter().map(|p| p.change.len()).sum();
        if !content.lossy && content.pending.is_empty() && bytes > content.data.len() / 4 {
            content.stable = Arc::clone(&content.data);
        } else if !covered.is_empty() {
            let stable = Arc::make_mut(&mut content.stable);
            covered.iter().for_each(|p| p.change.apply(stable));
        }
    }

    /// Does what a failing sync does to the file.
    pub(super) fn fail_sync(&self, failure: FsyncFailure, mark: Mark) {
        if failure == FsyncFailure::Durable {
            return self.sync(mark);
        }
        let content = &mut *self.content.lock();
        drop(content.take_covered(mark));
        content.lossy = true;
        if failure == FsyncFailure::OldData {
            let old = content.data.len();
            content.data = Arc::clone(&content.stable);
            let data = Arc::make_mut(&mut content.data);
            content.pending.iter().for_each(|p| p.change.apply(data));
            content.lossy = false;
            self.space.resized(old, content.data.len());
        }
    }

    /// Changes bytes now and on the medium.
    pub(super) fn damage(&self, change: impl FnOnce(&mut Vec<u8>)) {
        let content = &mut *self.content.lock();
        let old = content.data.len();
        change(Arc::make_mut(&mut content.data));
        content.stable = Arc::clone(&content.data);
        content.pending.clear();
        content.lossy = false;
        self.space.resized(old, content.data.len());
    }

    /// The file after a crash.
    pub(super) fn survivor(&self, rng: &mut Rng, loss: FileLoss, space: &Arc<SpaceMeter>) -> Inode {
        let content = self.content.lock();
        let mut stable = Arc::clone(&content.stable);
        if !content.pending.is_empty() {
            let loss = loss.choose(rng);
            apply_some(Arc::make_mut(&mut stable), &content.pending, rng, loss);
        }
        let inode = Inode::with_stable(stable, space);
        inode.content.lock().bad.clone_from(&content.bad);
        inode
    }
}

/// Applies the part of `pending` that survives under `loss`.
fn apply_some(data: &mut Vec<u8>, pending: &[Pending], rng: &mut Rng, loss: FileLoss) {
    let prefix = |rng: &mut Rng| pending.split_at(rng.uniform(pending.len() as u64 + 1) as usize);
    match loss {
        FileLoss::Unsynced => {}
        FileLoss::Nothing => pending.iter().for_each(|p| p.change.apply(data)),
        FileLoss::Prefix => prefix(rng).0.iter().for_each(|p| p.change.apply(data)),
        FileLoss::Torn => {
            let (whole, rest) = prefix(rng);
            whole.iter().for_each(|p| p.change.apply(data));
            if let Some(Pending { change: Change::Write { offset, bytes }, .. }) = rest.first() {
                let kept = rng.uniform(bytes.len() as u64 + 1) as usize;
                write_at(data, *offset, &bytes[..kept]);
            }
        }
        FileLoss::Sectors => {
            let odds = 1 + rng.uniform(7);
            pending.iter().for_each(|p| apply_sectors(data, &p.change, rng, odds));
        }
        FileLoss::SizeFirst => {
            prefix(rng).0.iter().for_each(|p| p.change.apply(data));
            let mut len = data.len();
            for Pending { change, .. } in pending {
                len = match change {
                    Change::Write { offset, bytes } => len.max(offset + bytes.len()),
                    Change::Truncate(bytes) => *bytes,
                };
            }
            data.resize(len, 0);
        }
        FileLoss::Mixed => unreachable!("choose() has replaced it"),
    }
}

/// Applies each sector of `change` with the chance `odds` in 8.
fn apply_sectors(data: &mut Vec<u8>, change: &Change, rng: &mut Rng, odds: u64) {
    match change {
        Change::Write { offset, bytes } => {
            let mut done = 0;
            while done < bytes.len() {
                let at = offset + done;
                let n = (SECTOR_BYTES - at % SECTOR_BYTES).min(bytes.len() - done);
                if rng.uniform(8) < odds {
                    write_at(data, at, &bytes[done..done + n]);
                }
                done += n;
            }
        }
        Change::Truncate(_) => {
            if rng.uniform(8) < odds {
                change.apply(data);
            }
        }
    }
}
