//! The persistent cache: a cache of blocks in the files of a directory, on faster storage than that
//! of the tables, between the block cache and them.
//!
//! Contract of RocksDB's `NewPersistentCache`. A block that was read from its table is put here as
//! it is there, compressed and with its trailer, and later reads find it. Blocks wait in memory,
//! where they are found too, until there are enough for one write of a task of its own; they go to
//! the end of the newest of the files `DIR/cache/N.rc`. When the files would exceed the capacity,
//! those that were used least recently are removed, whole, until a tenth of it is free. What a
//! database no longer has stays until then. Nothing outlives the process: the files that an earlier
//! one left are removed at the start.
//!
//! ```text
//! record: u32 crc32c of the rest ‖ u64 length of the block ‖ key, 16 bytes ‖ block
//! ```
//!
//! Errors of the device cost hits, never a read: a record that cannot be read, or is another one,
//! is forgotten, and the blocks of a write that fails are dropped.
//!
//! Invariants: (1) the files have together no more than `cache_size` bytes; (2) `waiting` holds at
//! most [`BACKLOG_BYTES`] bytes of blocks, more are dropped; (3) a place names bytes that were
//! written before it was published, or a file that is no longer known.
//!
//! Thread safety: all methods from any thread. The lock is held for moments, never while a file is
//! used. Reading a file suspends, in [`PersistentCache::lookup`] only.
//! Not here: which reads come here (`read::persistent`), writing and removing files (`writer`).

mod writer;

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use pumice_base::checksum::crc32c;
use pumice_base::{Error, Result};
use pumice_cache::CacheKey;
use pumice_env::{FileSystem, RandomAccessFile};
use pumice_port::os::is_forked;
use pumice_port::sync::{Condvar, Mutex};
use pumice_port::thread::{self, JoinHandle};

/// Bytes of a record before the block.
const HEAD_BYTES: usize = 28;
/// Blocks are written when there are this many bytes of them.
const WRITE_BYTES: usize = 1 << 20;
/// Bytes of blocks that may wait.
const BACKLOG_BYTES: usize = 32 << 20;
/// Size of a file in RocksDB's cache.
const FILE_BYTES: u64 = 100 << 20;

/// How a persistent cache is made.
///
/// ```
/// # use pumice_table::PersistentCacheOptions;
/// let options = PersistentCacheOptions::new("/fast/cache", 4 << 30);
/// assert_eq!(options.cache_file_size, 100 << 20);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersistentCacheOptions {
    /// The directory, which is made if it is missing; the files are in its directory `cache`. No
    /// other cache may use it.
    pub path: PathBuf,
    /// Limit of the bytes of all files.
    pub cache_size: u64,
    /// Limit of the bytes of one file.
    pub cache_file_size: u64,
    /// Reads bypass the cache of the operating system, where the file system can do that.
    pub enable_direct_reads: bool,
}

impl PersistentCacheOptions {
    /// A cache of `cache_size` bytes in `path`, with RocksDB's defaults.
    pub fn new(path: impl Into<PathBuf>, cache_size: u64) -> Self {
        let path = path.into();
        let (cache_file_size, enable_direct_reads) = (FILE_BYTES, true);
        PersistentCacheOptions { path, cache_size, cache_file_size, enable_direct_reads }
    }
}

/// What a persistent cache did so far.
///
/// Example: that of [`PersistentCache`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PersistentCacheStats {
    /// Lookups that found their block.
    pub hits: u64,
    /// Lookups that did not.
    pub misses: u64,
    /// Files that could not be read, written, opened or removed, and records that were damaged.
    pub errors: u64,
    /// Blocks that were not kept: too many waited, or their write failed.
    pub dropped: u64,
    /// Bytes of the files.
    pub bytes: u64,
}

/// Where a record is.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    file: u64,
    offset: u64,
}

/// A file of which records are known.
struct CacheFile {
    /// Opened when its last record had been written.
    reader: Arc<dyn RandomAccessFile>,
    keys: Vec<CacheKey>,
    /// Time of the last use.
    used: u64,
}

#[derive(Default)]
struct State {
    places: BTreeMap<CacheKey, Place>,
    /// By number.
    files: BTreeMap<u64, CacheFile>,
    waiting: BTreeMap<CacheKey, Arc<[u8]>>,
    /// The keys of `waiting` that no write has taken, in the order they came, among others.
    queue: VecDeque<CacheKey>,
    waiting_bytes: usize,
    /// Calls that wait until nothing waits.
    flushes: usize,
    /// Counts uses.
    clock: u64,
    closing: bool,
}

struct Shared {
    options: PersistentCacheOptions,
    fs: Arc<dyn FileSystem>,
    /// The directory of the files.
    dir: PathBuf,
    state: Mutex<State>,
    /// There is enough to write, or something during a flush, or `closing` is set.
    work: Condvar,
    /// A write has ended.
    done: Condvar,
    hits: AtomicU64,
    misses: AtomicU64,
    errors: AtomicU64,
    dropped: AtomicU64,
    bytes: AtomicU64,
}

/// See the head of this file.
///
/// ```
/// # use pumice_cache::CacheKey;
/// # use pumice_env::MemFs;
/// # use pumice_table::{PersistentCache, PersistentCacheOptions, PersistentCacheStats};
/// let options = PersistentCacheOptions::new("/fast", 1 << 30);
/// let cache = PersistentCache::open(MemFs::default().shared(), options)?;
/// cache.insert(CacheKey(1, 2), b"block");
/// let mut block = [0; 5];
/// assert!(cache.lookup(&CacheKey(1, 2), &mut block) && &block == b"block");
/// let expected = PersistentCacheStats { hits: 1, ..Default::default() };
/// assert_eq!(cache.stats(), expected);
/// # Ok::<(), pumice_base::Error>(())
/// ```
pub struct PersistentCache {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
}

impl PersistentCache {
    /// An empty cache; removes the files of an earlier one.
    ///
    /// # Errors
    /// InvalidArgument if the capacity is smaller than a file, or a file too small for a write; the
    /// directory cannot be made, listed or written to; there is no thread for the writing.
    pub fn open(
        fs: Arc<dyn FileSystem>,
        options: PersistentCacheOptions,
    ) -> Result<Arc<PersistentCache>> {
        if options.path.as_os_str().is_empty() {
            return Err(Error::invalid_argument("empty or null args"));
        }
        let too_small = options.cache_file_size <= WRITE_BYTES as u64;
        if too_small || options.cache_size < options.cache_file_size {
            return Err(Error::invalid_argument("invalid cache size"));
        }
        let dir = options.path.join("cache");
        clear(&*fs, &dir)?;
        let shared = Arc::new(Shared::new(fs, options, dir));
        let writer = shared.start_writer()?;
        Ok(Arc::new(PersistentCache { shared, writer: Some(writer) }))
    }

    /// Puts `block` in the cache, unless it is there, takes more than half a file, or too much
    /// waits already.
    pub fn insert(&self, key: CacheKey, block: &[u8]) {
        let shared = &*self.shared;
        let mut state = shared.state.lock();
        if state.waiting.contains_key(&key) || state.places.contains_key(&key) {
            return;
        }
        let too_large = block.len() as u64 > shared.options.cache_file_size / 2;
        if too_large || state.waiting_bytes + block.len() > BACKLOG_BYTES {
            shared.dropped.fetch_add(1, Relaxed);
            return;
        }
        state.waiting.insert(key, block.into());
        state.queue.push_back(key);
        state.waiting_bytes += block.len();
        // A flush waits for this block too.
        let wanted = state.waiting_bytes >= WRITE_BYTES || state.flushes > 0;
        drop(state);
        if wanted {
            shared.work.notify_one();
        }
    }

    /// Fills `block` with the block under `key`; false if the cache has none of that length, and
    /// then `block` may have been overwritten. Suspends.
    pub fn lookup(&self, key: &CacheKey, block: &mut [u8]) -> bool {
        let found = self.shared.find(key, block);
        let count = if found { &self.shared.hits } else { &self.shared.misses };
        count.fetch_add(1, Relaxed);
        found
    }

    /// Forgets the block under `key`, unless it is being written.
    pub fn erase(&self, key: &CacheKey) {
        let mut state = self.shared.state.lock();
        state.places.remove(key);
        if let Some(block) = state.waiting.remove(key) {
            state.waiting_bytes -= block.len();
        }
    }

    /// Waits until all that waits now has been written or dropped, and what comes meanwhile.
    pub fn flush(&self) {
        let mut state = self.shared.state.lock();
        state.flushes += 1;
        self.shared.work.notify_one();
        while !state.waiting.is_empty() {
            state = self.shared.done.wait(state);
        }
        state.flushes -= 1;
    }

    /// What it did so far.
    pub fn stats(&self) -> PersistentCacheStats {
        let Shared { hits, misses, errors, dropped, bytes, .. } = &*self.shared;
        PersistentCacheStats {
            hits: hits.load(Relaxed),
            misses: misses.load(Relaxed),
            errors: errors.load(Relaxed),
            dropped: dropped.load(Relaxed),
            bytes: bytes.load(Relaxed),
        }
    }

    /// Whether a lookup needs little stack: it calls no user code.
    pub fn needs_little_stack(&self) -> bool {
        self.shared.fs.is_own()
    }
}

impl Drop for PersistentCache {
    fn drop(&mut self) {
        // A forked child does not have the thread.
        if is_forked() {
            return;
        }
        self.shared.state.lock().closing = true;
        self.shared.work.notify_one();
        if let Some(writer) = self.writer.take() {
            // Its panic concerns nobody: what it would have written is dropped.
            writer.join().ok();
        }
    }
}

/// Makes `dir`, or removes the files of a cache in it.
fn clear(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    fs.create_dir_all(dir)?;
    for name in fs.list(dir)? {
        if name.split_once('.').is_some_and(|(_, rest)| rest == "rc") {
            fs.remove(&dir.join(name))?;
        }
    }
    Ok(())
}

/// Appends the record of a block.
fn put_record(buffer: &mut Vec<u8>, key: &CacheKey, block: &[u8]) {
    let start = buffer.len();
    buffer.extend_from_slice(&[0; 4]);
    buffer.extend_from_slice(&head_of(key, block.len()));
    buffer.extend_from_slice(block);
    let crc = crc32c(&buffer[start + 4..]);
    buffer[start..start + 4].copy_from_slice(&crc.to_le_bytes());
}

/// Length and key as they are in a record.
fn head_of(key: &CacheKey, len: usize) -> [u8; HEAD_BYTES - 4] {
    let mut head = [0; HEAD_BYTES - 4];
    head[..8].copy_from_slice(&(len as u64).to_le_bytes());
    head[8..16].copy_from_slice(&key.0.to_le_bytes());
    head[16..].copy_from_slice(&key.1.to_le_bytes());
    head
}

/// The record is whole, and is that of a block of this key and length.
fn is_record(record: &[u8], key: &CacheKey, len: usize) -> bool {
    let Some((crc, rest)) = record.split_first_chunk() else { return false };
    rest.starts_with(&head_of(key, len)) && u32::from_le_bytes(*crc) == crc32c(rest)
}

impl Shared {
    fn new(fs: Arc<dyn FileSystem>, options: PersistentCacheOptions, dir: PathBuf) -> Self {
        Shared {
            options,
            fs,
            dir,
            state: Mutex::default(),
            work: Condvar::default(),
            done: Condvar::default(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    fn find(&self, key: &CacheKey, block: &mut [u8]) -> bool {
        let (place, reader) = {
            let mut guard = self.state.lock();
            let state = &mut *guard;
            if let Some(waits) = state.waiting.get(key) {
                let waits = Arc::clone(waits);
                drop(guard);
                let fits = waits.len() == block.len();
                if fits {
                    block.copy_from_slice(&waits);
                }
                return fits;
            }
            let Some(&place) = state.places.get(key) else { return false };
            let Some(file) = state.files.get_mut(&place.file) else { return false };
            state.clock += 1;
            file.used = state.clock;
            (place, Arc::clone(&file.reader))
        };
        let mut record = vec![0; HEAD_BYTES + block.len()];
        let read = reader.read_at(place.offset, &mut record);
        if read.is_ok_and(|read| read == record.len()) && is_record(&record, key, block.len()) {
            block.copy_from_slice(&record[HEAD_BYTES..]);
            return true;
        }
        self.errors.fetch_add(1, Relaxed);
        let mut state = self.state.lock();
        // The file may have been removed meanwhile, and the block be elsewhere.
        if state.places.get(key) == Some(&place) {
            state.places.remove(key);
        }
        false
    }

    fn start_writer(self: &Arc<Self>) -> Result<JoinHandle<()>> {
        let shared = Arc::clone(self);
        thread::spawn_os("pumice:cache", move || writer::Writer::new(&shared).work())
    }
}

#[cfg(test)]
mod tests;
