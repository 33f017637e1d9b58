//! A file system that notes the reads of table files: which, how many at the same time, and which
//! files are open; it fails those that touch bad ranges, and holds back those made aside.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};

use pumice::{Error, FileSystem, Result};
use pumice_env::{
    FileSystemWrapper, RandomAccessFile, RandomAccessFileWrapper, ReadFileOptions, ReadRequest,
    read_one_by_one,
};
use pumice_port::fiber::is_fiber;
use pumice_port::sync::{Event, Mutex};
use pumice_port::thread;

/// A part of a file.
pub type Range = (PathBuf, std::ops::Range<u64>);

/// What was noted.
#[derive(Default)]
pub struct Notes {
    pub reads: Mutex<Vec<Range>>,
    pub bad: Mutex<Vec<Range>>,
    /// Reads that have begun, those that have not ended, and most of these at one time.
    pub begun: AtomicUsize,
    pub now: AtomicUsize,
    pub most: AtomicUsize,
    /// Open files.
    pub open: AtomicUsize,
    /// Reads begin to wait for the event.
    pub holds: AtomicBool,
    pub gate: Event,
}

impl Notes {
    /// Forgets the reads.
    pub fn clear(&self) {
        self.reads.lock().clear();
        self.most.store(0, Relaxed);
    }

    /// The reads since the last call, in the order of files and places, and most at one time.
    pub fn take(&self) -> (Vec<Range>, usize) {
        let mut reads = std::mem::take(&mut *self.reads.lock());
        reads.sort_by(|a, b| (&a.0, a.1.start, a.1.end).cmp(&(&b.0, b.1.start, b.1.end)));
        (reads, self.most.swap(0, Relaxed))
    }
}

/// What ranges in order cover together, and how many of their bytes are in several of them.
pub fn covered(reads: &[Range]) -> (Vec<Range>, u64) {
    let (mut all, mut twice): (Vec<Range>, u64) = (Vec::new(), 0);
    for (path, range) in reads {
        match all.last_mut() {
            Some((last, whole)) if last == path && range.start <= whole.end => {
                twice += whole.end.min(range.end) - range.start;
                whole.end = whole.end.max(range.end);
            }
            _ => all.push((path.clone(), range.clone())),
        }
    }
    (all, twice)
}

/// See the head of this file.
pub struct Noted {
    inner: Arc<dyn FileSystem>,
    notes: Arc<Notes>,
}

impl Noted {
    /// `inner` with notes.
    pub fn over(inner: Arc<dyn FileSystem>) -> (Arc<dyn FileSystem>, Arc<Notes>) {
        let notes = Arc::new(Notes::default());
        (Arc::new(Noted { inner, notes: Arc::clone(&notes) }), notes)
    }
}

impl FileSystemWrapper for Noted {
    fn wrapped(&self) -> &dyn FileSystem {
        &*self.inner
    }
    fn is_own(&self) -> bool {
        true
    }
    fn open_random_with(
        &self,
        path: &Path,
        options: &ReadFileOptions,
    ) -> Result<Arc<dyn RandomAccessFile>> {
        let file = self.inner.open_random_with(path, options)?;
        if path.extension().is_none_or(|kind| kind != "sst") {
            return Ok(file);
        }
        self.notes.open.fetch_add(1, Relaxed);
        Ok(Arc::new(NotedFile { file, notes: Arc::clone(&self.notes) }))
    }
}

struct NotedFile {
    file: Arc<dyn RandomAccessFile>,
    notes: Arc<Notes>,
}

impl Drop for NotedFile {
    fn drop(&mut self) {
        self.notes.open.fetch_sub(1, Relaxed);
    }
}

impl RandomAccessFileWrapper for NotedFile {
    fn wrapped(&self) -> &dyn RandomAccessFile {
        &*self.file
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let notes = &self.notes;
        let range = offset..offset + buf.len() as u64;
        let path = self.file.path().to_path_buf();
        let overlaps =
            |(bad, at): &Range| *bad == path && at.start < range.end && range.start < at.end;
        let fails = notes.bad.lock().iter().any(overlaps);
        notes.reads.lock().push((path, range));
        notes.most.fetch_max(notes.now.fetch_add(1, Relaxed) + 1, Relaxed);
        // After `now`: who sees that it has begun sees that it goes on.
        notes.begun.fetch_add(1, SeqCst);
        if notes.holds.load(Relaxed) {
            notes.gate.wait();
        }
        // Whoever could read at the same time begins now: fibers of this loop. For a thread to
        // yield means to wait for other processes.
        if is_fiber() {
            (0..16).for_each(|_| thread::yield_now());
        }
        notes.now.fetch_sub(1, Relaxed);
        match fails {
            true => Err(Error::corruption("a bad range")),
            false => self.file.read_at(offset, buf),
        }
    }
    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) {
        read_one_by_one(self, requests);
    }
    fn needs_little_stack(&self) -> bool {
        true
    }
}
