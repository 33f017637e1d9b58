//! The engine under the keyspace: Pumice, or another one for comparison.
//!
//! Every call of the keyspace to an engine goes through [`Engine`]. Pumice's are direct calls after
//! one comparison; another engine's go through [`Foreign`], which the program that starts the
//! server provides. What only Pumice can do (reporting keys that compactions meet) does not happen
//! on another engine.
//!
//! Thread safety: an engine is shared by all tasks; a cursor belongs to its task. Calls suspend;
//! those of a foreign engine block their thread.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pumice::{
    Db, DbIterator, Error, ErrorKind, PinnedSlice, ReadOptions, Result, WriteBatch, WriteOptions,
};
use pumice_port::thread;

/// How often a recovery that waits for one of the engine looks whether that is over.
const OWN_ATTEMPT: Duration = Duration::from_millis(10);

/// A snapshot of a foreign engine, or always its current state.
pub trait Reader: Send + Sync {
    /// The value of a key.
    ///
    /// # Errors
    /// The engine's.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;
    /// The values of keys, all from one consistent state.
    ///
    /// # Errors
    /// The engine's.
    fn multi_get(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>>;
    /// A cursor from `first` up to `end`, where there are such bounds. It is not positioned at
    /// first.
    ///
    /// # Errors
    /// The engine's.
    fn cursor(&self, first: Option<&[u8]>, end: Option<&[u8]>) -> Result<Box<dyn ForeignCursor>>;
}

/// A cursor of a foreign engine, as Pumice's.
pub trait ForeignCursor {
    /// It is on an entry.
    fn valid(&self) -> bool;
    /// Moves to the first entry.
    fn seek_to_first(&mut self);
    /// Moves to the last entry.
    fn seek_to_last(&mut self);
    /// Moves to the first entry at or after `key`.
    fn seek(&mut self, key: &[u8]);
    /// Moves forwards; it is on an entry.
    fn next(&mut self);
    /// Moves backwards; it is on an entry.
    fn prev(&mut self);
    /// The key of its entry.
    fn key(&self) -> &[u8];
    /// The value of its entry.
    fn value(&self) -> &[u8];
    /// The error since it was last positioned.
    ///
    /// # Errors
    /// That error.
    fn status(&self) -> Result<()>;
}

/// An open engine that is not Pumice; its calls may need as much stack as a thread has.
pub trait Foreign: Reader {
    /// What it is called.
    fn name(&self) -> String;
    /// A snapshot of the current state.
    fn snapshot(&self) -> Box<dyn Reader>;
    /// Applies a batch in RocksDB's wire format, durably if `sync`.
    ///
    /// # Errors
    /// The engine's; then nothing was applied.
    fn write(&self, batch: &[u8], sync: bool) -> Result<()>;
    /// Grows as writes become readable.
    fn latest_sequence_number(&self) -> u64;
    /// Makes everything durable that was written.
    ///
    /// # Errors
    /// Those of the log's device.
    fn sync_wal(&self) -> Result<()>;
    /// A property, by RocksDB's name.
    fn property(&self, name: &str) -> Option<String>;
    /// The directory of the data.
    fn path(&self) -> PathBuf;
    /// Makes a checkpoint in a directory that does not exist yet.
    ///
    /// # Errors
    /// The engine's.
    fn checkpoint(&self, path: &Path) -> Result<()>;
    /// Ends background work. The data is closed when the value is dropped.
    fn close(&self);
}

/// See the module's head.
pub enum Engine {
    /// Ours.
    Pumice(Db),
    /// Another, for comparison.
    Foreign(Box<dyn Foreign>),
}

/// Which state is read.
#[derive(Default)]
pub struct Reads {
    pub(super) own: ReadOptions,
    /// A snapshot of a foreign engine.
    foreign: Option<Box<dyn Reader>>,
}

/// Bytes that were read.
pub enum Stored {
    /// In the engine's memory.
    Pinned(PinnedSlice),
    /// In ours.
    Own(Vec<u8>),
}

impl Deref for Stored {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Stored::Pinned(bytes) => bytes,
            Stored::Own(bytes) => bytes,
        }
    }
}

impl Reads {
    /// Reads of Pumice with these options.
    pub(super) fn with(own: ReadOptions) -> Reads {
        Reads { own, foreign: None }
    }

    /// Reads from a snapshot.
    pub fn are_of_a_moment(&self) -> bool {
        self.own.snapshot.is_some() || self.foreign.is_some()
    }

    fn reader<'r>(&'r self, engine: &'r dyn Foreign) -> &'r dyn Reader {
        match &self.foreign {
            Some(kept) => &**kept,
            None => engine,
        }
    }
}

impl Engine {
    /// The Pumice database, if that is the engine.
    pub fn pumice(&self) -> Option<&Db> {
        match self {
            Engine::Pumice(db) => Some(db),
            Engine::Foreign(_) => None,
        }
    }

    /// A reader of a snapshot of the current state.
    pub fn snapshot(&self) -> Reads {
        let mut reads = Reads::default();
        match self {
            Engine::Pumice(db) => reads.own.snapshot = Some(db.snapshot()),
            Engine::Foreign(engine) => reads.foreign = Some(engine.snapshot()),
        }
        reads
    }

    /// The value of a key.
    ///
    /// # Errors
    /// The engine's.
    #[inline]
    pub fn get(&self, reads: &Reads, key: &[u8]) -> Result<Option<Stored>> {
        match self {
            Engine::Pumice(db) => Ok(db.get_opt(&reads.own, key)?.map(Stored::Pinned)),
            Engine::Foreign(engine) => Ok(reads.reader(&**engine).get(key)?.map(Stored::Own)),
        }
    }

    /// Makes reads of these keys that follow at once, one by one, miss the CPU's caches less.
    pub fn warm<K: AsRef<[u8]>>(&self, keys: &[K]) {
        if let Engine::Pumice(db) = self {
            db.warm(keys);
        }
    }

    /// The values of keys, all from one consistent state.
    ///
    /// # Errors
    /// The first that there is.
    pub fn multi_get(&self, reads: &Reads, keys: &[Vec<u8>]) -> Result<Vec<Option<Stored>>> {
        match self {
            Engine::Pumice(db) => {
                let values = db.multi_get_opt(&reads.own, keys).into_iter();
                values.map(|value| Ok(value?.map(Stored::Pinned))).collect()
            }
            Engine::Foreign(engine) => {
                let values = reads.reader(&**engine).multi_get(keys)?.into_iter();
                Ok(values.map(|value| value.map(Stored::Own)).collect())
            }
        }
    }

    /// A cursor from `first` up to `end`.
    ///
    /// # Errors
    /// The engine's.
    pub fn cursor_between(&self, reads: &Reads, first: &[u8], end: &[u8]) -> Result<Cursor> {
        match self {
            Engine::Pumice(db) => {
                let reads = ReadOptions {
                    iterate_lower_bound: Some(first.to_vec()),
                    iterate_upper_bound: Some(end.to_vec()),
                    ..reads.own.clone()
                };
                Ok(Cursor::Pumice(db.cursor_opt(&reads)?))
            }
            Engine::Foreign(engine) => {
                let reader = reads.reader(&**engine);
                Ok(Cursor::Foreign(reader.cursor(Some(first), Some(end))?))
            }
        }
    }

    /// A cursor over everything.
    ///
    /// # Errors
    /// The engine's.
    pub fn cursor(&self) -> Result<Cursor> {
        match self {
            Engine::Pumice(db) => Ok(Cursor::Pumice(db.cursor_opt(&ReadOptions::default())?)),
            Engine::Foreign(engine) => Ok(Cursor::Foreign(engine.cursor(None, None)?)),
        }
    }

    /// Applies a batch.
    ///
    /// # Errors
    /// The engine's.
    #[inline]
    pub fn write(&self, options: &WriteOptions, batch: &mut WriteBatch) -> Result<()> {
        match self {
            Engine::Pumice(db) => db.write_opt(options, batch),
            Engine::Foreign(engine) => {
                batch.status()?;
                engine.write(batch.data(), options.sync)
            }
        }
    }

    /// Sets one key.
    ///
    /// # Errors
    /// The engine's.
    pub fn put(&self, options: &WriteOptions, key: &[u8], value: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put(key, value);
        self.write(options, &mut batch)
    }

    /// Deletes one key.
    ///
    /// # Errors
    /// The engine's.
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete(key);
        self.write(&WriteOptions::default(), &mut batch)
    }

    /// Grows as writes become readable.
    #[inline]
    pub fn latest_sequence_number(&self) -> u64 {
        match self {
            Engine::Pumice(db) => db.latest_sequence_number(),
            Engine::Foreign(engine) => engine.latest_sequence_number(),
        }
    }

    /// Makes everything durable that was written.
    ///
    /// # Errors
    /// Those of the log's device.
    pub fn sync_wal(&self) -> Result<()> {
        match self {
            Engine::Pumice(db) => db.sync_wal(),
            Engine::Foreign(engine) => engine.sync_wal(),
        }
    }

    /// A property, by RocksDB's name.
    pub fn property(&self, name: &str) -> Option<String> {
        match self {
            Engine::Pumice(db) => db.property(name),
            Engine::Foreign(engine) => engine.property(name),
        }
    }

    /// The error because of which all writes are refused, as far as the engine says.
    pub fn background_error(&self) -> Option<Error> {
        match self {
            Engine::Pumice(db) => db.background_error(),
            Engine::Foreign(_) => None,
        }
    }

    /// Tries to recover from a background error, and then whether a durable write works: a new log
    /// shows only then whether its device does. Suspends.
    ///
    /// # Errors
    /// The failure because of which writes are still refused.
    pub fn recover(&self) -> Result<()> {
        let Engine::Pumice(db) = self else { return Ok(()) };
        while let Err(error) = db.resume() {
            if error.kind() != ErrorKind::Busy {
                return Err(error);
            }
            // The engine itself is at it, as after a failed flush.
            thread::sleep(OWN_ATTEMPT);
        }
        let mut probe = WriteBatch::new();
        // It is in the log alone, and no reader or sequence number knows it.
        probe.put_log_data(b"recovered");
        db.write_opt(&WriteOptions { sync: true, ..WriteOptions::default() }, &mut probe)
    }

    /// The directory of the data.
    pub fn path(&self) -> PathBuf {
        match self {
            Engine::Pumice(db) => db.path().to_path_buf(),
            Engine::Foreign(engine) => engine.path(),
        }
    }

    /// Makes a checkpoint in a directory that does not exist yet.
    ///
    /// # Errors
    /// The engine's.
    pub fn checkpoint(&self, path: &Path) -> Result<()> {
        match self {
            Engine::Pumice(db) => db.checkpoint(path),
            Engine::Foreign(engine) => engine.checkpoint(path),
        }
    }

    /// Closes it; a foreign engine releases its data only when the value is dropped.
    ///
    /// # Errors
    /// The engine's.
    pub fn close(&self) -> Result<()> {
        match self {
            Engine::Pumice(db) => db.close(),
            Engine::Foreign(engine) => {
                engine.close();
                Ok(())
            }
        }
    }
}

/// A walk through an engine's keys, as described at [`ForeignCursor`].
#[expect(clippy::large_enum_variant, reason = "the usual one is the large one, and is not moved")]
pub enum Cursor {
    /// Pumice's.
    Pumice(DbIterator),
    /// Another's.
    Foreign(Box<dyn ForeignCursor>),
}

/// Calls the engine in use.
macro_rules! either {
    ($self:ident, $cursor:ident => $call:expr) => {
        match $self {
            Cursor::Pumice($cursor) => $call,
            Cursor::Foreign($cursor) => $call,
        }
    };
}

impl Cursor {
    /// See [`ForeignCursor`].
    pub fn valid(&self) -> bool {
        either!(self, cursor => cursor.valid())
    }
    /// See [`ForeignCursor`].
    pub fn seek_to_first(&mut self) {
        either!(self, cursor => cursor.seek_to_first())
    }
    /// See [`ForeignCursor`].
    pub fn seek_to_last(&mut self) {
        either!(self, cursor => cursor.seek_to_last())
    }
    /// See [`ForeignCursor`].
    pub fn seek(&mut self, key: &[u8]) {
        either!(self, cursor => cursor.seek(key))
    }
    /// See [`ForeignCursor`].
    pub fn next(&mut self) {
        either!(self, cursor => cursor.next())
    }
    /// See [`ForeignCursor`].
    pub fn prev(&mut self) {
        either!(self, cursor => cursor.prev())
    }
    /// See [`ForeignCursor`].
    pub fn key(&self) -> &[u8] {
        match self {
            Cursor::Pumice(cursor) => cursor.key().unwrap_or_default(),
            Cursor::Foreign(cursor) => cursor.key(),
        }
    }
    /// See [`ForeignCursor`].
    pub fn value(&self) -> &[u8] {
        match self {
            Cursor::Pumice(cursor) => cursor.value().unwrap_or_default(),
            Cursor::Foreign(cursor) => cursor.value(),
        }
    }
    /// See [`ForeignCursor`].
    ///
    /// # Errors
    /// What went wrong.
    pub fn status(&self) -> Result<()> {
        either!(self, cursor => cursor.status())
    }
}
