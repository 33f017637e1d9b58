//! The driver's interface to an engine: one trait, two implementations.
//!
//! The driver is generic over [`Engine`], so that every call is a direct one and both engines run
//! the very same driver code. A worker (a thread or a fiber) makes its own [`Writer`] and
//! [`Reader`]; they hold options, buffers and a handle of the database.
//!
//! Thread safety: engines and databases are shared between workers; writers, readers and cursors
//! belong to one worker.

use super::flags::Flags;
use super::stats_history::Sample;
use pumice::stats::ThreadStatus;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Result with the engine's text for the user.
pub type Result<T> = std::result::Result<T, String>;

/// How a worker writes.
#[derive(Clone, Copy)]
pub struct WriteSettings {
    /// Sync the WAL with each write.
    pub sync: bool,
    /// Write no WAL.
    pub disable_wal: bool,
    /// Charge the log to the rate limiter.
    pub limited: bool,
    /// Updates of batches have checksums.
    pub protected: bool,
}

/// How a worker reads.
#[derive(Clone)]
pub struct ReadSettings {
    /// Check block checksums.
    pub verify_checksums: bool,
    /// Total order seek.
    pub total_order_seek: bool,
    /// Whether seeks decide by the upper bound if prefix filters serve; None: the default.
    pub auto_prefix_mode: Option<bool>,
    /// Iterators stay within the prefix of their seek key.
    pub prefix_same_as_start: bool,
    /// Iterators see writes made after their creation, once they seek.
    pub tailing: bool,
    /// Bytes to read ahead in iterators.
    pub readahead_size: usize,
    /// Whether reading ahead ends at the upper bound; None: the default.
    pub auto_readahead_size: Option<bool>,
    /// Whether reads wait for the device together; None: the default.
    pub async_io: Option<bool>,
    /// Find data blocks in the trie index.
    pub by_trie: bool,
    /// Charge reads of files to the rate limiter.
    pub limited: bool,
    /// Iterators read as of a snapshot of their own.
    pub snapshot: bool,
}

/// A table file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableFile {
    /// The file's level.
    pub level: usize,
    /// The file's name, in the engine's form.
    pub name: String,
    /// The file's length in bytes.
    pub bytes: u64,
}

/// A compaction that another process could do.
#[derive(Clone, Debug)]
pub struct CompactionInput {
    /// Table files.
    pub files: usize,
    /// Entries in them.
    pub keys: u64,
    /// What the worker is given.
    pub text: Vec<u8>,
}

/// How such a compaction ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenAndCompact {
    /// With that many files of that many bytes together.
    Done(u64, u64),
    /// It was cancelled, in the engine's words.
    Canceled(String),
}

/// Found keys of a multi-get and their bytes (keys and values).
#[derive(Clone, Copy, Default)]
pub struct Hits {
    /// Number of keys that exist.
    pub found: u64,
    /// Sum of their key and value lengths.
    pub bytes: u64,
}

/// A pool of background threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// Compactions of the last level.
    Bottom,
    /// Compactions.
    Low,
    /// Flushes.
    High,
}

/// How a database is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access<'a> {
    /// The database is created if it is not there.
    Write,
    /// For reading.
    Read,
    /// To follow another process; the path is that of the info log.
    Secondary(&'a Path),
    /// To follow the database at the path, which another process writes, with files of its own.
    Follower(&'a Path),
}

/// A database engine with its options.
pub trait Engine: Send + Sync + 'static {
    /// An open database.
    type Db: BenchDb;
    /// `Pumice:     version 0.1.0`, the first line of the header.
    fn version_line(&self) -> String;
    /// Opens. `wal_dir` is the directory of its WAL if the flag's is not.
    fn open(&self, path: &Path, wal_dir: Option<&Path>, access: Access<'_>) -> Result<Self::Db>;
    /// Removes the database at `path`, if there is one.
    fn destroy(&self, path: &Path) -> Result<()>;
    /// Sets the number of threads of a pool.
    fn set_threads(&self, pool: Pool, threads: u32) -> Result<()>;
    /// Lowers the CPU or the I/O priority of the pools for compactions and flushes.
    fn lower_priority(&self, cpu: bool, io: bool) -> Result<()>;
    /// The statistics of all databases opened so far, if they were asked for.
    fn statistics(&self) -> Option<String>;

    /// The hits of the simulated block cache, if there is one.
    fn simulated_cache(&self) -> Option<String> {
        None
    }
    /// The block cache's report on problems, in lines.
    fn cache_problems(&self) -> Result<String> {
        Err("Not implemented: this engine has no ReportProblems of its cache".into())
    }
    /// What was done to files since the last call, if it is counted.
    fn file_operations(&self) -> Option<String> {
        None
    }
}

/// What keeps the transactions of a database apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionKind {
    /// Locks of keys.
    Locks,
    /// Checks at the commit.
    Checks,
}

/// What the transactions of a worker are like.
#[derive(Clone, Copy, Debug)]
pub struct TransactionSettings {
    /// Each takes a snapshot at its begin, and reads with it.
    pub snapshot: bool,
    /// Milliseconds that one waits for a lock.
    pub lock_timeout: i64,
}

/// Why a call of a transaction failed.
#[derive(Debug)]
pub enum Refusal {
    /// Others were in its way.
    Conflict,
    /// Something else.
    Failed(String),
}

/// Transactions of one worker, one after the other.
pub trait Transactions {
    /// Begins the next one.
    fn begin(&mut self);
    /// Reads the value of `key` into `value`, for update if wanted. False: there is none.
    fn read(
        &mut self,
        key: &[u8],
        for_update: bool,
        value: &mut Vec<u8>,
    ) -> std::result::Result<bool, Refusal>;
    /// Writes one pair.
    fn put(&mut self, key: &[u8], value: &[u8]) -> std::result::Result<(), Refusal>;
    /// Makes it part of the database.
    fn commit(&mut self) -> std::result::Result<(), Refusal>;
    /// Takes it back.
    fn rollback(&mut self) -> std::result::Result<(), Refusal>;
}

/// An open database.
pub trait BenchDb: Send + Sync + 'static {
    /// A worker's way to write.
    type Writer: Writer;
    /// A worker's way to read.
    type Reader: Reader;
    /// An iterator.
    type Cursor: Cursor;
    /// The time that timeseries advances; a compaction filter of the engine may read it.
    fn time(&self) -> Arc<AtomicU64> {
        Arc::default()
    }
    /// Begins the traces that the flags ask for, unless they are under way.
    fn begin_traces(&self, _flags: &Flags) -> Result<()> {
        Err("this engine writes no traces".into())
    }
    /// Ends them, if they are under way.
    fn end_traces(&self, _flags: &Flags) -> Result<()> {
        Ok(())
    }
    /// A secondary reads what its primary has written.
    fn catch_up(&self) -> Result<()> {
        Err("this engine has no secondary instances".into())
    }
    /// A writer.
    fn writer(&self, settings: WriteSettings) -> Self::Writer;
    /// A reader.
    fn reader(&self, settings: &ReadSettings) -> Self::Reader;
    /// A worker's transactions, of a database that was opened for them.
    fn transactions(
        &self,
        _write: WriteSettings,
        _settings: TransactionSettings,
    ) -> Result<Box<dyn Transactions>> {
        Err("this engine has no transactions".into())
    }
    /// An iterator; bounds are optional (lower inclusive, upper exclusive).
    fn cursor(&self, settings: &ReadSettings, bounds: [Option<&[u8]>; 2]) -> Result<Self::Cursor>;
    /// Scans these ranges of keys, each from its first key to before its second, one after the
    /// other; `see` gets the entries.
    fn multi_scan(
        &self,
        settings: &ReadSettings,
        ranges: &[(Vec<u8>, Vec<u8>)],
        see: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        for (begin, end) in ranges {
            let mut cursor = self.cursor(settings, [None, Some(end)])?;
            cursor.seek(begin);
            while cursor.valid() {
                see(cursor.key(), cursor.value());
                cursor.next();
            }
            cursor.status()?;
        }
        Ok(())
    }
    /// How many column families there are; grows in fills with hot ones only.
    fn families(&self) -> usize;
    /// Creates column families until there are `total`.
    fn create_families(&self, total: usize) -> Result<()>;
    /// Flushes the memtables and waits.
    fn flush(&self) -> Result<()>;
    /// Compacts everything, bottommost level included.
    fn compact(&self, subcompactions: i32) -> Result<()>;
    /// Compacts everything but a bottommost level that needs no compaction.
    fn compact_all(&self, subcompactions: i32) -> Result<()>;
    /// Compacts these files into `level`, in files of the size that the options say.
    fn compact_files(&self, names: &[String], level: usize) -> Result<()>;
    /// The table files of the default column family.
    fn table_files(&self) -> Result<Vec<TableFile>>;
    /// Roughly the bytes of these ranges, summed up.
    fn approximate_sizes(&self, ranges: &[(Vec<u8>, Vec<u8>)]) -> Result<u64>;
    /// Roughly how many entries from `begin` to before `end` memtables hold.
    fn approximate_memtable_entries(&self, begin: &[u8], end: &[u8]) -> Result<u64>;
    /// Starts the counters of `stats` again.
    fn reset_stats(&self) -> Result<()>;
    /// Waits until no background work is due.
    fn wait_for_compaction(&self) -> Result<()>;
    /// Reads all table files and checks their checksums.
    fn verify_checksum(&self) -> Result<()>;
    /// Reads all table files that have a checksum in the MANIFEST and compares it.
    fn verify_file_checksums(&self, _settings: &ReadSettings) -> Result<()> {
        Err("Not implemented: this engine has no VerifyFileChecksums".into())
    }
    /// How the statistics grew, period by period.
    fn stats_history(&self) -> Result<Vec<Sample>> {
        Err("Not implemented: this engine has no GetStatsHistory".into())
    }
    /// What a compaction service would be told of a compaction of all tables of the default column
    /// family into `level`.
    fn compaction_input(&self, _level: usize) -> Result<CompactionInput> {
        Err("Not implemented: our binding of this engine lacks OpenAndCompact".into())
    }
    /// Does that compaction as a worker does it, into the directory `output`; ends it when `cancel`
    /// is over. Returns how many microseconds it took, too.
    fn open_and_compact(
        &self,
        _output: &Path,
        _input: &CompactionInput,
        _cancel: Option<Duration>,
    ) -> Result<(OpenAndCompact, u64)> {
        Err("Not implemented: our binding of this engine lacks OpenAndCompact".into())
    }
    /// Backs up into `to`, where older backups are removed first; `rate` limits what is read and
    /// written, bytes per second, 0 for no limit.
    fn backup(&self, to: &Path, rate: u64) -> Result<()>;
    /// Restores the newest backup of the directory `from` into `to`; `rate` as in `backup`.
    fn restore(&self, from: &Path, to: &Path, rate: u64) -> Result<()>;
    /// The threads of the pools that its jobs run on.
    fn thread_list(&self) -> Vec<ThreadStatus> {
        Vec::new()
    }
    /// The text of a property.
    fn property(&self, name: &str) -> Option<String>;
}

/// Writes of one worker.
pub trait Writer {
    /// Later calls use this column family. Requires: it exists.
    fn select(&mut self, family: usize);
    /// Writes one pair.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;
    /// Merges one operand.
    fn merge(&mut self, key: &[u8], operand: &[u8]) -> Result<()>;
    /// Deletes one key.
    fn delete(&mut self, key: &[u8]) -> Result<()>;
    /// Deletes one key that was written once.
    fn single_delete(&mut self, key: &[u8]) -> Result<()>;
    /// Adds a pair to the batch.
    fn batch_put(&mut self, key: &[u8], value: &[u8]);
    /// Adds a deletion to the batch.
    fn batch_delete(&mut self, key: &[u8]);
    /// Adds a deletion of the keys from `begin` to before `end` to the batch.
    fn batch_delete_range(&mut self, begin: &[u8], end: &[u8]);
    /// Writes the batch and empties it.
    fn commit(&mut self) -> Result<()>;
    /// Writes a batch that is in its wire format.
    fn write_encoded(&mut self, _batch: &[u8]) -> Result<()> {
        Err("this engine cannot write batches from traces".into())
    }
}

/// Point reads of one worker.
pub trait Reader {
    /// What follows reads this column family. Requires: it exists.
    fn select(&mut self, family: usize);
    /// From now on reads see the present state (true), or always the latest (false).
    fn pin(&mut self, pinned: bool);
    /// Reads the value of `key` into `value`. False, with `value` empty: there is none.
    fn read(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool>;
    /// The length of the value of `key`, or `None` when there is none.
    fn get(&mut self, key: &[u8]) -> Result<Option<usize>>;
    /// Calls `each` with the base value and the operands of `key`, oldest first. False: there is no
    /// such key.
    fn operands(&mut self, _key: &[u8], _each: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Err("Not implemented: this engine has no GetMergeOperands".into())
    }
    /// Reads the keys that lie one after the other in `keys`, each `key_len` long.
    fn multi_get(&mut self, keys: &[u8], key_len: usize) -> Result<Hits>;
}

/// An iterator of one worker.
pub trait Cursor {
    /// The cursor is on an entry.
    fn valid(&self) -> bool;
    /// Moves to the first entry.
    fn seek_to_first(&mut self);
    /// Moves to the last entry.
    fn seek_to_last(&mut self);
    /// Moves to the first entry at or after `key`.
    fn seek(&mut self, key: &[u8]);
    /// Moves to the last entry at or before `key`.
    fn seek_for_prev(&mut self, _key: &[u8]) -> Result<()> {
        Err("this engine does not seek backwards".into())
    }
    /// Moves forward.
    fn next(&mut self);
    /// Moves backward.
    fn prev(&mut self);
    /// The key. Requires `valid`.
    fn key(&self) -> &[u8];
    /// The value. Requires `valid`.
    fn value(&self) -> &[u8];
    /// The first error met.
    fn status(&self) -> Result<()>;
}
