//! The task that writes the files of a persistent cache, and removes them.
//!
//! | a write | its blocks |
//! |---|---|
//! | succeeds | are found in the file |
//! | fails, or its file cannot be opened | are dropped; the file gets no more, another one goes |
//! | has no room: files cannot be removed | are dropped |
//!
//! After an error a file goes because the device may be full.
//! A file is open for reading while it is written: it is opened again after each write, so that its
//! new length is known.
//!
//! Thread safety: one task per cache; the lock of the state is taken for moments.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use pumice_base::Result;
use pumice_cache::CacheKey;
use pumice_env::{FileOptions, RandomAccessFile, ReadFileOptions, WritableFile};

use super::{CacheFile, Place, Shared, WRITE_BYTES, put_record};

/// Keys of a removed file that are forgotten at a time.
const KEYS_AT_ONCE: usize = 256;

/// See the head of this file.
pub(super) struct Writer<'a> {
    shared: &'a Shared,
    /// The file that is being written.
    open: Option<OpenFile>,
    /// Bytes of all files that can be removed, by number; of one whose write failed at most.
    on_disk: BTreeMap<u64, u64>,
    /// Number of the next file.
    next: u64,
    buffer: Vec<u8>,
}

struct OpenFile {
    number: u64,
    file: Box<dyn WritableFile>,
}

/// Blocks that are written together, and where their records are in the buffer.
type Batch = Vec<(CacheKey, u64)>;

impl<'a> Writer<'a> {
    pub fn new(shared: &'a Shared) -> Self {
        Writer { shared, open: None, on_disk: BTreeMap::new(), next: 0, buffer: Vec::new() }
    }

    /// Writes until the cache is closed.
    pub fn work(mut self) {
        while let Some(batch) = self.next_batch() {
            let bytes = self.buffer.len() as u64;
            // Blocks may have been erased while they waited.
            if batch.is_empty() || !self.make_room(bytes) {
                self.forget_waiting(&batch, false);
                continue;
            }
            match self.write() {
                Ok((number, start, reader)) => self.publish(&batch, (number, start), reader),
                Err(_) => {
                    self.shared.errors.fetch_add(1, Relaxed);
                    self.forget_waiting(&batch, false);
                    self.give_up();
                }
            }
        }
    }

    /// Waits for a batch and puts its records into the buffer; `None` at the close.
    fn next_batch(&mut self) -> Option<Batch> {
        let mut state = self.shared.state.lock();
        while !state.closing
            && state.waiting_bytes < WRITE_BYTES
            && (state.flushes == 0 || state.queue.is_empty())
        {
            state = self.shared.work.wait(state);
        }
        if state.closing {
            return None;
        }
        let mut blocks = Vec::new();
        let mut bytes = 0;
        while bytes < WRITE_BYTES
            && let Some(key) = state.queue.pop_front()
        {
            let Some(block) = state.waiting.get(&key) else { continue };
            bytes += block.len();
            blocks.push((key, Arc::clone(block)));
        }
        drop(state);
        self.buffer.clear();
        let mut batch = Batch::new();
        for (key, block) in blocks {
            batch.push((key, self.buffer.len() as u64));
            put_record(&mut self.buffer, &key, &block);
        }
        Some(batch)
    }

    /// Appends the buffer to a file: its number, where the buffer begins in it, and a reader.
    fn write(&mut self) -> Result<(u64, u64, Arc<dyn RandomAccessFile>)> {
        let options = &self.shared.options;
        let bytes = self.buffer.len() as u64;
        let full = |open: &mut OpenFile| open.file.len() + bytes > options.cache_file_size;
        if let Some(mut open) = self.open.take_if(full) {
            open.file.close()?;
        }
        let open = match &mut self.open {
            Some(open) => open,
            none => {
                let number = self.next;
                self.next += 1;
                let path = self.shared.path(number);
                let file = self.shared.fs.create(&path, &FileOptions::default())?;
                self.on_disk.insert(number, 0);
                none.insert(OpenFile { number, file })
            }
        };
        let start = open.file.len();
        *self.on_disk.entry(open.number).or_default() += bytes;
        self.shared.bytes.fetch_add(bytes, Relaxed);
        open.file.append(&self.buffer)?;
        open.file.flush()?;
        Ok((open.number, start, self.shared.open_reader(open.number)?))
    }

    fn publish(
        &self,
        batch: &Batch,
        (number, start): (u64, u64),
        reader: Arc<dyn RandomAccessFile>,
    ) {
        let mut guard = self.shared.state.lock();
        let state = &mut *guard;
        state.clock += 1;
        let used = state.clock;
        let known = state.files.entry(number);
        let known = known.or_insert_with(|| CacheFile {
            reader: Arc::clone(&reader),
            keys: Vec::new(),
            used,
        });
        known.reader = reader;
        known.used = used;
        known.keys.extend(batch.iter().map(|(key, _)| *key));
        for (key, offset) in batch {
            state.places.insert(*key, Place { file: number, offset: start + offset });
        }
        drop(guard);
        self.forget_waiting(batch, true);
    }

    /// The blocks wait no longer: they are `written`, or dropped.
    fn forget_waiting(&self, batch: &Batch, written: bool) {
        let mut state = self.shared.state.lock();
        for (key, _) in batch {
            if let Some(block) = state.waiting.remove(key) {
                state.waiting_bytes -= block.len();
            }
        }
        if !written {
            self.shared.dropped.fetch_add(batch.len() as u64, Relaxed);
        }
        drop(state);
        self.shared.done.notify_all();
    }

    /// Makes room for that many bytes; false if there is none.
    fn make_room(&mut self, bytes: u64) -> bool {
        let capacity = self.shared.options.cache_size;
        let fits = |limit: u64| self.shared.bytes.load(Relaxed) + bytes <= limit;
        if fits(capacity) {
            return true;
        }
        let limit = capacity - capacity / 10;
        while !fits(limit) && self.evict() {}
        fits(capacity)
    }

    /// A write has failed: its file gets no more, and another one is removed.
    fn give_up(&mut self) {
        if let Some(open) = self.open.take() {
            let has_records = self.shared.state.lock().files.contains_key(&open.number);
            if !has_records {
                self.remove(open.number);
            }
        }
        self.evict();
    }

    /// Removes the file that was used least recently; if there is no other, the one that is being
    /// written. False if there is none.
    fn evict(&mut self) -> bool {
        let open = self.open.as_ref().map(|open| open.number);
        let oldest = {
            let state = self.shared.state.lock();
            let others = state.files.iter().filter(|(number, _)| Some(**number) != open);
            others.min_by_key(|(_, file)| file.used).map(|(number, _)| *number)
        };
        let Some(number) = oldest.or(open) else { return false };
        self.open.take_if(|open| open.number == number);
        self.remove(number);
        true
    }

    /// Removes a file, and forgets its records. One that cannot be removed takes its room for ever.
    fn remove(&mut self, number: u64) {
        let file = self.shared.state.lock().files.remove(&number);
        let keys = file.map_or(Vec::new(), |file| file.keys);
        let bytes = self.on_disk.remove(&number).unwrap_or(0);
        let removed = self.shared.fs.remove(&self.shared.path(number));
        if removed.is_err() {
            self.shared.errors.fetch_add(1, Relaxed);
        }
        // One that is not there any more takes no room, whoever has removed it.
        if removed.as_ref().err().is_none_or(|error| error.is_not_found()) {
            self.shared.bytes.fetch_sub(bytes, Relaxed);
        }
        for keys in keys.chunks(KEYS_AT_ONCE) {
            let mut state = self.shared.state.lock();
            for key in keys {
                if state.places.get(key).is_some_and(|place| place.file == number) {
                    state.places.remove(key);
                }
            }
        }
    }
}

impl Shared {
    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{number}.rc"))
    }

    fn open_reader(&self, number: u64) -> Result<Arc<dyn RandomAccessFile>> {
        let path = self.path(number);
        let direct = ReadFileOptions { direct: true, ..ReadFileOptions::default() };
        if self.options.enable_direct_reads
            && let Ok(file) = self.fs.open_random_with(&path, &direct)
        {
            return Ok(file);
        }
        self.fs.open_random(&path)
    }
}
