//! One file: its bytes now, its durable bytes, and the changes in between.
//!
//! Invariant: `stable` with `pending` applied in order gives `data`, except after an injected sync
//! failure that lost changes: then they are in `data` until the crash and nowhere else.
//!
//! A file takes space while it has a name or an open handle (`pins`), not while only a crash could
//! bring it back.

use pumice_base::random::Rng;
use pumice_port::sync::Mutex;
use pumice_port::time::wall_seconds;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::crash::FileLoss;
use super::fault::FsyncFailure;

/// Blocks that a device writes whole.
const SECTOR_BYTES: usize = 512;

/// Bytes in use by all files, and how many there may be.
pub(super) struct SpaceMeter {
    used: AtomicU64,
    quota: AtomicU64,
}

impl Default for SpaceMeter {
    fn default() -> Self {
        SpaceMeter { used: AtomicU64::new(0), quota: AtomicU64::new(u64::MAX) }
    }
}

impl SpaceMeter {
    pub(super) fn set_quota(&self, bytes: Option<u64>) {
        self.quota.store(bytes.unwrap_or(u64::MAX), Ordering::Relaxed);
    }
    /// A meter of nothing with the same quota.
    pub(super) fn emptied(&self) -> Self {
        let quota = AtomicU64::new(self.quota.load(Ordering::Relaxed));
        SpaceMeter { used: AtomicU64::new(0), quota }
    }
    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
    pub(super) fn free(&self) -> u64 {
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

struct Content {
    data: Vec<u8>,
    stable: Vec<u8>,
    pending: Vec<Change>,
    modified_seconds: u64,
    pins: usize,
}

/// See the head of this file.
pub(super) struct Inode {
    content: Mutex<Content>,
    space: Arc<SpaceMeter>,
}

impl Inode {
    pub(super) fn new(space: &Arc<SpaceMeter>) -> Self {
        Self::with_stable(Vec::new(), space)
    }

    /// A file whose bytes are all durable.
    fn with_stable(stable: Vec<u8>, space: &Arc<SpaceMeter>) -> Self {
        let (data, modified_seconds) = (stable.clone(), wall_seconds());
        let content = Content { data, stable, pending: Vec::new(), modified_seconds, pins: 0 };
        Inode { content: Mutex::new(content), space: Arc::clone(space) }
    }

    /// Notes one more name or handle.
    pub(super) fn pin(&self) {
        let mut content = self.content.lock();
        if content.pins == 0 {
            self.space.resized(0, content.data.len());
        }
        content.pins += 1;
    }
    /// Notes one name or handle less.
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

    pub(super) fn read_at(&self, offset: u64, buf: &mut [u8]) -> usize {
        let content = self.content.lock();
        let rest = usize::try_from(offset).ok().and_then(|at| content.data.get(at..));
        let rest = rest.unwrap_or(&[]);
        let bytes = rest.len().min(buf.len());
        buf[..bytes].copy_from_slice(&rest[..bytes]);
        bytes
    }

    /// Writes as much of `bytes` at `offset` as the quota allows; how much that was.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> usize {
        let mut content = self.content.lock();
        let (old, offset) = (content.data.len(), offset as usize);
        let room = usize::try_from(self.space.free()).unwrap_or(usize::MAX);
        let end_max = old.saturating_add(room);
        let bytes = &bytes[..bytes.len().min(end_max.saturating_sub(offset))];
        if !bytes.is_empty() {
            write_at(&mut content.data, offset, bytes);
            self.space.resized(old, content.data.len());
            content.pending.push(Change::Write { offset, bytes: bytes.to_vec() });
            content.modified_seconds = wall_seconds();
        }
        bytes.len()
    }

    pub(super) fn truncate(&self, bytes: u64) {
        let mut content = self.content.lock();
        let (old, new) = (content.data.len(), bytes as usize);
        if old != new {
            content.data.resize(new, 0);
            self.space.resized(old, new);
            content.pending.push(Change::Truncate(new));
            content.modified_seconds = wall_seconds();
        }
    }

    /// Makes everything durable.
    pub(super) fn sync(&self) {
        let content = &mut *self.content.lock();
        for change in content.pending.drain(..) {
            change.apply(&mut content.stable);
        }
    }

    /// Does what a failing sync does to the file.
    pub(super) fn fail_sync(&self, failure: FsyncFailure) {
        match failure {
            FsyncFailure::Durable => self.sync(),
            FsyncFailure::ReadableThenLost => self.content.lock().pending.clear(),
            FsyncFailure::OldData => {
                let content = &mut *self.content.lock();
                content.pending.clear();
                self.space.resized(content.data.len(), content.stable.len());
                content.data.clone_from(&content.stable);
            }
        }
    }

    /// Changes bytes now and on the medium.
    pub(super) fn damage(&self, change: impl FnOnce(&mut Vec<u8>)) {
        let content = &mut *self.content.lock();
        let old = content.data.len();
        change(&mut content.data);
        content.stable.clone_from(&content.data);
        content.pending.clear();
        self.space.resized(old, content.data.len());
    }

    /// The file after a crash.
    pub(super) fn survivor(&self, rng: &mut Rng, loss: FileLoss, space: &Arc<SpaceMeter>) -> Inode {
        let content = self.content.lock();
        let mut stable = content.stable.clone();
        if !content.pending.is_empty() {
            let loss = loss.choose(rng);
            apply_some(&mut stable, &content.pending, rng, loss);
        }
        Inode::with_stable(stable, space)
    }
}

/// Applies the part of `pending` that survives under `loss`.
fn apply_some(data: &mut Vec<u8>, pending: &[Change], rng: &mut Rng, loss: FileLoss) {
    let prefix = |rng: &mut Rng| pending.split_at(rng.uniform(pending.len() as u64 + 1) as usize);
    match loss {
        FileLoss::Unsynced => {}
        FileLoss::Nothing => pending.iter().for_each(|c| c.apply(data)),
        FileLoss::Prefix => prefix(rng).0.iter().for_each(|c| c.apply(data)),
        FileLoss::Torn => {
            let (whole, rest) = prefix(rng);
            whole.iter().for_each(|c| c.apply(data));
            if let Some(Change::Write { offset, bytes }) = rest.first() {
                let kept = rng.uniform(bytes.len() as u64 + 1) as usize;
                write_at(data, *offset, &bytes[..kept]);
            }
        }
        FileLoss::Sectors => {
            let odds = 1 + rng.uniform(7);
            pending.iter().for_each(|c| apply_sectors(data, c, rng, odds));
        }
        FileLoss::SizeFirst => {
            prefix(rng).0.iter().for_each(|c| c.apply(data));
            let mut len = data.len();
            for change in pending {
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
