//! Deletes files at a rate: RocksDB's `DeleteScheduler`.
//!
//! A file to be deleted gets a name that ends with `.trash`, in its directory, and a place in a
//! queue. A thread takes one after another and pauses after each until the bytes deleted so far are
//! no more than the rate allows. It cuts chunks off the end of large files, so that discarding
//! freed blocks does not stall the device. The thread exists while something is queued.
//!
//! | a file | is deleted |
//! |---|---|
//! | while the rate is 0, or trash is more than `max_trash_db_ratio` of all | at once |
//! | that cannot be renamed, or for whose queue there is no thread | at once |
//! | found as trash (`delete_existing`) | at the rate, whatever the ratio; at once if that is 0 |
//! | with other names (hard links) | at the rate, never in chunks |
//!
//! When the scheduler is dropped, its thread ends with the step it is at, and what is queued stays
//! as trash until a later open finds it. What cannot be deleted stays too, counted and with its
//! error.
//!
//! Thread safety: all methods may be called from anywhere; those that name files suspend. Lock
//! order: `naming`, then `state`; both are leaves for all other locks. No lock is held while events
//! are reported or the thread deletes.
//!
//! It does not know what a file is for: the caller guarantees that the file is no longer needed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use pumice_base::narrow::saturating_u64;
use pumice_base::{Error, Result};
use pumice_port::os::is_forked;
use pumice_port::sync::{Condvar, Mutex};
use pumice_port::thread::{self, JoinHandle};
use pumice_port::time::now_micros;

use crate::file_system::{FileSystem, parent_of};
use crate::filename::{TRASH_EXTENSION, trash_file};
use crate::tracked_files::TrackedFiles;

/// Files of one name that may be trash at once; further ones are deleted at once.
const NAMESAKES_MAX: u64 = 1000;
const MICROS: u128 = 1_000_000;

/// Receiver of the outcome of deletions; the engine counts and logs it.
pub trait DeletionEvents: Send + Sync {
    /// `path` was deleted without becoming trash.
    fn deleted_immediately(&self, path: &Path);
    /// A file waits for its deletion under the name `trash`.
    fn marked_trash(&self, trash: &Path);
    /// The deletion has ended. After an error the file is still there.
    fn trash_deleted(&self, trash: &Path, result: &Result<()>);
    /// `path` is deleted in a fallback way: it was not renamed, or not cut.
    fn hindered(&self, path: &Path, error: &Error);
}

/// A file to delete.
#[derive(Clone, Copy)]
pub struct Deletion<'a> {
    /// Where it is.
    pub fs: &'a Arc<dyn FileSystem>,
    /// The file's name.
    pub path: &'a Path,
    /// Receiver of the events.
    pub events: Option<&'a Arc<dyn DeletionEvents>>,
}

impl Deletion<'_> {
    fn notify(&self, event: impl FnOnce(&dyn DeletionEvents)) {
        if let Some(events) = self.events {
            event(&**events);
        }
    }
    fn into_trash(self, path: PathBuf, counted: Option<u64>) -> Trash {
        let (fs, events) = (Arc::clone(self.fs), self.events.cloned());
        Trash { path, fs, events, counted, bucket: None }
    }
}

/// Files whose deletion can be waited for, [`DeleteScheduler::wait_for_bucket`].
#[derive(Default)]
pub struct TrashBucket {
    pending: AtomicUsize,
}

/// A file in the queue.
struct Trash {
    path: PathBuf,
    fs: Arc<dyn FileSystem>,
    events: Option<Arc<dyn DeletionEvents>>,
    /// The rest of its share of `trash_bytes`; None if it has none and is not tracked either.
    counted: Option<u64>,
    bucket: Option<Arc<TrashBucket>>,
}

/// What one step did to a file: bytes that became free, and whether the file is gone.
struct Step {
    freed: u64,
    gone: bool,
}

/// The rate, since when it holds, and how many bytes were deleted since.
struct Pace {
    rate: u64,
    began_micros: u64,
    deleted: u64,
}

impl Pace {
    fn at(rate: u64) -> Self {
        Pace { rate, began_micros: now_micros(), deleted: 0 }
    }
    /// When the next file may be deleted.
    fn due_micros(&self) -> u64 {
        let spent = (u128::from(self.deleted) * MICROS).checked_div(u128::from(self.rate));
        self.began_micros.saturating_add(saturating_u64(spent.unwrap_or(0)))
    }
}

#[derive(Default)]
struct State {
    queue: VecDeque<Trash>,
    /// What is in the queue or being deleted.
    waiting: BTreeSet<PathBuf>,
    /// Files that could not be deleted: the error, and the share of `trash_bytes`.
    failed: BTreeMap<PathBuf, (Error, u64)>,
    /// Files that were queued and whose deletion, with the pause after it, is not over.
    pending: usize,
    running: bool,
    thread: Option<JoinHandle<()>>,
    closing: bool,
}

struct Shared {
    tracked: Arc<TrackedFiles>,
    rate: AtomicU64,
    /// The bits of an f64.
    max_trash_db_ratio: AtomicU64,
    bytes_max_delete_chunk: u64,
    trash_bytes: AtomicU64,
    /// Held from the search for a free name to its use.
    naming: Mutex<()>,
    state: Mutex<State>,
    changed: Condvar,
}

/// See the head of this file.
pub struct DeleteScheduler {
    shared: Arc<Shared>,
}

impl Drop for DeleteScheduler {
    fn drop(&mut self) {
        // A forked child has neither the thread nor its queue.
        if is_forked() {
            return;
        }
        let thread = {
            let mut state = self.shared.state.lock();
            state.closing = true;
            self.shared.changed.notify_all();
            state.thread.take()
        };
        // The directories may belong to others now.
        if let Some(thread) = thread.filter(|thread| !thread.is_current()) {
            drop(thread.join());
        }
    }
}

impl DeleteScheduler {
    pub(crate) fn new(
        tracked: Arc<TrackedFiles>,
        rate: u64,
        max_trash_db_ratio: f64,
        bytes_max_delete_chunk: u64,
    ) -> Self {
        let shared = Shared {
            tracked,
            rate: AtomicU64::new(rate),
            max_trash_db_ratio: AtomicU64::new(max_trash_db_ratio.to_bits()),
            bytes_max_delete_chunk,
            trash_bytes: AtomicU64::new(0),
            naming: Mutex::new(()),
            state: Mutex::new(State::default()),
            changed: Condvar::new(),
        };
        DeleteScheduler { shared: Arc::new(shared) }
    }

    /// Bytes per second; 0 deletes at once.
    pub fn rate_bytes_per_sec(&self) -> u64 {
        self.shared.rate()
    }
    /// Changes the rate at once, also for queued files and for the current pause.
    pub fn set_rate_bytes_per_sec(&self, rate: u64) {
        self.shared.rate.store(rate, Ordering::Relaxed);
        let _state = self.shared.state.lock();
        self.shared.changed.notify_all();
    }
    /// The share of trash in all tracked bytes above which files are deleted at once.
    pub fn max_trash_db_ratio(&self) -> f64 {
        self.shared.max_trash_db_ratio()
    }
    /// Changes it for files that come later.
    pub fn set_max_trash_db_ratio(&self, ratio: f64) {
        self.shared.max_trash_db_ratio.store(ratio.to_bits(), Ordering::Relaxed);
    }
    /// Larger files are cut by this many bytes at a time; 0 never cuts.
    pub fn bytes_max_delete_chunk(&self) -> u64 {
        self.shared.bytes_max_delete_chunk
    }
    /// Bytes of files that wait for their deletion, logs among them.
    pub fn total_trash_size(&self) -> u64 {
        self.shared.trash_bytes.load(Ordering::Relaxed)
    }
    /// Files that could not be deleted, and the errors.
    pub fn background_errors(&self) -> BTreeMap<PathBuf, Error> {
        let state = self.shared.state.lock();
        state.failed.iter().map(|(path, (error, _))| (path.clone(), error.clone())).collect()
    }

    /// Deletes a file, or makes it trash; see the head. Suspends.
    ///
    /// # Errors
    /// The errors of the deletion, if it is done at once.
    pub fn delete_file(&self, file: Deletion<'_>) -> Result<()> {
        let shared = &self.shared;
        let limit = shared.tracked.total_bytes() as f64 * shared.max_trash_db_ratio();
        if shared.rate() == 0 || self.total_trash_size() as f64 > limit {
            return shared.delete_now(file, true);
        }
        let Some(trash) = shared.mark(file) else { return shared.delete_now(file, true) };
        shared.tracked.rename(file.path, &trash);
        let bytes = file.fs.file_size(&trash).unwrap_or(0);
        shared.trash_bytes.fetch_add(bytes, Ordering::Relaxed);
        shared.enqueue(file.into_trash(trash, Some(bytes)));
        Ok(())
    }

    /// Deletes a file that was found as trash. One that is queued already is left alone. Suspends.
    ///
    /// # Errors
    /// The errors of checking the file, and of the deletion if it is done at once.
    pub fn delete_existing(&self, file: Deletion<'_>) -> Result<()> {
        let shared = &self.shared;
        if shared.rate() == 0 {
            return shared.delete_now(file, true);
        }
        let bytes = file.fs.file_size(file.path)?;
        {
            let mut state = shared.state.lock();
            if state.waiting.contains(file.path) {
                return Ok(());
            }
            if let Some((_, counted)) = state.failed.remove(file.path) {
                shared.trash_bytes.fetch_sub(counted, Ordering::Relaxed);
            }
        }
        shared.tracked.insert(file.path, bytes);
        shared.trash_bytes.fetch_add(bytes, Ordering::Relaxed);
        shared.enqueue(file.into_trash(file.path.to_path_buf(), Some(bytes)));
        Ok(())
    }

    /// Deletes a file that nothing here counts, whatever the ratio: for a database that is
    /// destroyed as a whole. Files with other names are deleted at once. Suspends.
    ///
    /// # Errors
    /// As `delete_file`.
    pub fn delete_uncounted(&self, file: Deletion<'_>, bucket: &Arc<TrashBucket>) -> Result<()> {
        let shared = &self.shared;
        let linked = || file.fs.num_file_links(file.path).is_ok_and(|links| links > 1);
        if shared.rate() == 0 || linked() {
            return shared.delete_now(file, false);
        }
        let Some(trash) = shared.mark(file) else { return shared.delete_now(file, false) };
        let bucket = Some(Arc::clone(bucket));
        shared.enqueue(Trash { bucket, ..file.into_trash(trash, None) });
        Ok(())
    }

    /// Waits until nothing is queued and the pause after the last file is over. Suspends.
    pub fn wait_for_empty_trash(&self) {
        self.shared.wait_until(|state| state.pending == 0);
    }

    /// Waits until the files of `bucket` have been processed. Suspends.
    pub fn wait_for_bucket(&self, bucket: &TrashBucket) {
        self.shared.wait_until(|_| bucket.pending.load(Ordering::Relaxed) == 0);
    }
}

impl Shared {
    fn rate(&self) -> u64 {
        self.rate.load(Ordering::Relaxed)
    }
    fn max_trash_db_ratio(&self) -> f64 {
        f64::from_bits(self.max_trash_db_ratio.load(Ordering::Relaxed))
    }

    fn wait_until(&self, over: impl Fn(&State) -> bool) {
        let mut state = self.state.lock();
        while !state.closing && !over(&state) {
            state = self.changed.wait(state);
        }
    }

    fn delete_now(&self, file: Deletion<'_>, counted: bool) -> Result<()> {
        let removed = file.fs.remove(file.path);
        let gone = removed.as_ref().err().is_none_or(Error::is_not_found);
        if gone && counted {
            self.tracked.remove(file.path);
        }
        if removed.is_ok() {
            file.notify(|events| events.deleted_immediately(file.path));
        }
        removed
    }

    /// Gives a file the name that trash has; None if that cannot be done.
    fn mark(&self, file: Deletion<'_>) -> Option<PathBuf> {
        if file.path.as_os_str().as_encoded_bytes().ends_with(TRASH_EXTENSION.as_bytes()) {
            return Some(file.path.to_path_buf());
        }
        let _naming = self.naming.lock();
        let find = || -> Result<PathBuf> {
            for before in 0..NAMESAKES_MAX {
                let trash = trash_file(file.path, before);
                if !file.fs.exists(&trash)? {
                    file.fs.rename(file.path, &trash)?;
                    return Ok(trash);
                }
            }
            let text = format!("{}: too many trash files of this name", file.path.display());
            Err(Error::busy(text))
        };
        let found = find();
        if let Err(error) = &found
            && !error.is_not_found()
        {
            file.notify(|events| events.hindered(file.path, error));
        }
        found.ok()
    }

    fn enqueue(self: &Arc<Self>, trash: Trash) {
        if let Some(events) = &trash.events {
            events.marked_trash(&trash.path);
        }
        let mut state = self.state.lock();
        state.pending += 1;
        if let Some(bucket) = &trash.bucket {
            bucket.pending.fetch_add(1, Ordering::Relaxed);
        }
        state.waiting.insert(trash.path.clone());
        state.queue.push_back(trash);
        if state.running {
            return;
        }
        let me = Arc::clone(self);
        match thread::spawn_os("pumice:trash", move || me.work()) {
            Ok(thread) => {
                state.running = true;
                state.thread = Some(thread);
            }
            Err(_) => {
                // Nothing else is queued, or a thread would be working on it.
                state.running = true;
                drop(state);
                self.delete_all(|_, _| None);
            }
        }
    }

    /// Body of the thread.
    fn work(&self) {
        let mut pace = Pace::at(self.rate());
        self.delete_all(|state, freed| {
            if pace.rate != self.rate() {
                pace = Pace::at(self.rate());
            }
            pace.deleted = pace.deleted.saturating_add(freed);
            let over = state.closing || pace.rate == 0 || now_micros() >= pace.due_micros();
            (!over).then(|| Duration::from_micros(pace.due_micros().saturating_sub(now_micros())))
        });
    }

    /// Deletes what is queued until nothing is; after each step pauses as `rest` says, which gets
    /// the bytes of the step once and is called until no pause is left.
    fn delete_all(&self, mut rest: impl FnMut(&State, u64) -> Option<Duration>) {
        let mut state = self.state.lock();
        while !state.closing
            && let Some(mut trash) = state.queue.pop_front()
        {
            drop(state);
            let step = self.step(&mut trash);
            state = self.state.lock();
            let mut freed = step.as_ref().map_or(0, |step| step.freed);
            let over = step.as_ref().map_or(true, |step| step.gone);
            if let Err(error) = step {
                let left = trash.counted.unwrap_or(0);
                state.failed.insert(trash.path.clone(), (error, left));
            }
            let bucket = trash.bucket.clone();
            if over {
                state.waiting.remove(&trash.path);
            } else {
                state.queue.push_front(trash);
            }
            while let Some(pause) = rest(&state, std::mem::take(&mut freed)) {
                state = self.changed.wait_timeout(state, pause).0;
            }
            if over {
                state.pending -= 1;
                if let Some(bucket) = bucket {
                    bucket.pending.fetch_sub(1, Ordering::Relaxed);
                }
                self.changed.notify_all();
            }
        }
        state.running = false;
        self.changed.notify_all();
    }

    /// Deletes a file or a chunk of it, and counts and reports that.
    fn step(&self, trash: &mut Trash) -> Result<Step> {
        // The file system and the events may be the user's code.
        let step = thread::contain("File deletion", || self.shrink_or_remove(trash));
        let step = step.and_then(|step| step);
        if let (Ok(step), Some(counted)) = (&step, &mut trash.counted) {
            let share = if step.gone { *counted } else { step.freed.min(*counted) };
            *counted -= share;
            self.trash_bytes.fetch_sub(share, Ordering::Relaxed);
            if step.gone {
                self.tracked.remove(&trash.path);
            }
        }
        if let Some(events) = &trash.events
            && step.as_ref().map_or(true, |step| step.gone)
        {
            let result = step.as_ref().map(|_| ()).map_err(Error::clone);
            let contained = thread::contain("Deletion event", || {
                events.trash_deleted(&trash.path, &result);
            });
            drop(contained);
        }
        step
    }

    fn shrink_or_remove(&self, trash: &Trash) -> Result<Step> {
        let bytes = match trash.fs.file_size(&trash.path) {
            Err(error) if error.is_not_found() => return Ok(Step { freed: 0, gone: true }),
            size => size?,
        };
        let chunk = self.bytes_max_delete_chunk;
        if chunk > 0 && bytes > chunk && trash.fs.num_file_links(&trash.path).is_ok_and(|n| n == 1)
        {
            match cut(&*trash.fs, &trash.path, bytes - chunk) {
                Ok(()) => return Ok(Step { freed: chunk, gone: false }),
                Err(error) => {
                    if let Some(events) = &trash.events {
                        events.hindered(&trash.path, &error);
                    }
                }
            }
        }
        match trash.fs.remove(&trash.path) {
            Err(error) if error.is_not_found() => return Ok(Step { freed: 0, gone: true }),
            removed => removed?,
        }
        // Syncs before the next step, so that the device does not have to do everything at once
        // later. A failure leaves a name that the next open finds.
        drop(trash.fs.sync_dir(parent_of(&trash.path)));
        Ok(Step { freed: bytes, gone: true })
    }
}

/// Cuts a file to `bytes`, durably.
fn cut(fs: &dyn FileSystem, path: &Path, bytes: u64) -> Result<()> {
    let mut file = fs.reopen_append(path)?;
    file.truncate(bytes)?;
    file.fsync()?;
    file.close()
}

#[cfg(test)]
mod tests;
