//! What handles of Java stand for.
//!
//! Thread safety: see each type; handles hold what they need, so that Java may close them in any
//! order.

use std::sync::Arc;

pub use pumice::SharedBatch;
use pumice::backup::BackupEngine;
use pumice::{
    BlockCache, ColumnFamily, CompactionFilter, CompactionFilterFactory, CompressionOptions, Db,
    EventListener, FilterPolicy, MergeOperator, RateLimiter, Snapshot, SstFileManager,
    SstFileReader, SstFileWriter, Statistics, Transaction, WriteBufferManager,
};
pub use pumice_binding::batch::Batch;
pub use pumice_binding::cursor::Iterator;
use pumice_binding::database::Database;
pub use pumice_binding::env::Env;
pub use pumice_binding::log_cursor::LogCursor;
use pumice_binding::options::TableOptions;
pub use pumice_binding::reports::{CompactionInfo, JobStats};
pub use pumice_binding::requests::BackupOptions;
use pumice_binding::store::{Fields, Store};
use pumice_binding::{options, requests as values};

use crate::callbacks::gates::JavaWalFilter;
use crate::callbacks::trace_writer::JavaTraceWriter;
use crate::callbacks::{JavaListener, JavaLogger, JavaOrder};
use crate::ffi::handle::{self, Held};
use crate::ffi::vm;

macro_rules! held {
    ($($number:literal $kind:ty: $name:literal;)+) => {$(
        impl Held for $kind {
            const NAME: &'static str = $name;
            const KIND: u16 = $number;
        }
    )+};
}
held! {
    1 Database: "database";
    2 Family: "column family";
    3 Options: "Options";
    4 ReadOptions: "ReadOptions";
    5 WriteOptions: "WriteOptions";
    6 Iterator: "iterator";
    7 Snapshot: "snapshot";
    8 Batch: "write batch";
    9 SharedBatch: "write batch with index";
    10 Values: "options object";
    11 Cache: "cache";
    12 Policy: "filter policy";
    13 Table: "table factory";
    14 MemTable: "memtable factory";
    15 Merge: "merge operator";
    16 Order: "comparator";
    17 Filter: "compaction filter";
    18 FilterFactory: "compaction filter factory";
    19 Counts: "statistics";
    20 Log: "logger";
    21 Listener: "event listener";
    22 Limiter: "rate limiter";
    23 BufferManager: "write buffer manager";
    24 FileManager: "SstFileManager";
    25 Env: "Env";
    26 Checkpoint: "checkpoint";
    27 Writer: "SstFileWriter";
    28 Slice: "slice";
    29 LogCursor: "transaction log iterator";
    30 BackupOptions: "BackupEngineOptions";
    31 Backups: "BackupEngine";
    32 OpenTransaction: "transaction";
    33 Compression: "CompressionOptions";
    34 CompactionInfo: "CompactionJobInfo";
    35 JobStats: "CompactionJobStats";
    37 Handler: "write batch handler";
    38 FlinkConfig: "FlinkCompactionFilter configuration";
    39 Perf: "PerfContext";
    40 LogFilter: "WAL filter";
    41 TableGate: "table filter";
    42 Partitioner: "SstPartitionerFactory";
    43 Exported: "ExportImportFilesMetaData";
    44 Records: "WBWIRocksIterator";
    45 Reader: "SstFileReader";
    46 TraceFile: "trace writer";
}

pub use crate::callbacks::flink::FlinkConfig;
pub use crate::records::Records;

/// A column family and its database, which Java closes by itself.
#[derive(Clone, Debug)]
pub struct Family(pub ColumnFamily, pub Db);

/// Options, DBOptions and ColumnFamilyOptions are one.
#[derive(Clone, Debug)]
pub struct Options {
    /// All but what is below.
    pub values: options::Options,
    /// Each database gets a copy that knows it.
    pub listeners: Vec<Arc<JavaListener>>,
}

impl Default for Options {
    fn default() -> Self {
        let mut options = Options { values: options::Options::default(), listeners: Vec::new() };
        if let Some(version) = vm::format_version() {
            // The default is the newest that is written.
            let newest = options.values.table.store().int("format_version");
            let version = newest.min(version.into());
            options.values.table.store_mut().put_int("format_version", version);
        }
        options
    }
}

impl Fields for Options {
    fn store(&self) -> &Store {
        self.values.store()
    }
    fn store_mut(&mut self) -> &mut Store {
        self.values.store_mut()
    }
}

/// Options of reads, whose bounds are copied when they are set.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// All but the bounds.
    pub values: values::ReadOptions,
    /// The lower bound of iterators.
    pub lower: Option<Vec<u8>>,
    /// The upper bound of iterators.
    pub upper: Option<Vec<u8>>,
    /// Iterators show versions from this timestamp on.
    pub start_timestamp: Option<Vec<u8>>,
    /// Which tables iterators read.
    pub table_filter: Option<pumice::TableFilter>,
    /// The handles as they were set, to be read back.
    pub handles: [i64; 5],
    /// Why reads with these options are refused.
    pub refused: Option<pumice::Error>,
}

impl Fields for ReadOptions {
    fn store(&self) -> &Store {
        self.values.store()
    }
    fn store_mut(&mut self) -> &mut Store {
        self.values.store_mut()
    }
    fn changed(&mut self) {
        self.values.changed();
        self.refused = self.values.check().err();
    }
}

impl ReadOptions {
    /// The engine's options of a point read.
    ///
    /// # Errors
    /// NotSupported for a setting that this build has not.
    #[inline]
    pub fn point(&self) -> pumice::Result<&pumice::ReadOptions> {
        match &self.refused {
            None => Ok(self.values.engine()),
            Some(error) => Err(error.clone()),
        }
    }

    /// The engine's options of a scan.
    ///
    /// # Errors
    /// As [`Self::point`].
    pub fn scan(&self) -> pumice::Result<pumice::ReadOptions> {
        let mut options = self.point()?.clone();
        options.iterate_lower_bound.clone_from(&self.lower);
        options.iterate_upper_bound.clone_from(&self.upper);
        options.iter_start_ts.clone_from(&self.start_timestamp);
        options.table_filter.clone_from(&self.table_filter);
        Ok(options)
    }
}

/// Options of writes.
pub type WriteOptions = values::WriteOptions;

/// An object that is nothing but values, of any class of the table of properties.
#[derive(Clone, Debug)]
pub struct Values(pub Store);

impl Fields for Values {
    fn store(&self) -> &Store {
        &self.0
    }
    fn store_mut(&mut self) -> &mut Store {
        &mut self.0
    }
}

/// A block cache, which also serves as row cache by its capacity.
#[derive(Clone, Debug)]
pub struct Cache {
    /// The blocks.
    pub blocks: Arc<BlockCache>,
    /// The rows, if it was given as row cache.
    pub rows: Arc<std::sync::OnceLock<Arc<pumice::RowCache>>>,
}

/// A filter policy.
#[derive(Clone, Debug)]
pub struct Policy(pub FilterPolicy);

/// Options of block-based tables, or the name of a format that is replaced by it.
#[derive(Clone, Debug)]
pub enum Table {
    /// Block-based.
    Blocks(Box<TableOptions>),
    /// Another.
    Other(&'static str),
}

/// A kind of memtable.
#[derive(Clone, Debug)]
pub enum MemTable {
    /// The skip list, with its lookahead.
    SkipList(usize),
    /// The vector.
    Vector(usize),
    /// Another, replaced by the skip list.
    Other(&'static str),
}

/// A merge operator.
#[derive(Clone)]
pub struct Merge(pub Arc<dyn MergeOperator>);

/// An order of keys written in Java.
#[derive(Clone)]
pub struct Order(pub Arc<JavaOrder>);

/// A compaction filter.
#[derive(Clone)]
pub struct Filter(pub Arc<dyn CompactionFilter>);

/// A filter of logs written in Java.
#[derive(Clone, Debug)]
pub struct LogFilter(pub Arc<JavaWalFilter>);

/// A filter of tables written in Java.
#[derive(Clone, Debug)]
pub struct TableGate(pub pumice::TableFilter);

/// A writer of traces written in Java.
#[derive(Clone, Debug)]
pub struct TraceFile(pub Arc<JavaTraceWriter>);

/// Ends tables where prefixes of so many bytes change.
#[derive(Clone, Copy, Debug)]
pub struct Partitioner(pub usize);

/// The files of an exported column family.
#[derive(Clone, Debug)]
pub struct Exported(pub pumice::ExportImportFilesMetadata);

/// A factory of compaction filters written in Java.
#[derive(Clone)]
pub struct FilterFactory(pub Arc<dyn CompactionFilterFactory>);

/// Statistics.
#[derive(Clone, Debug)]
pub struct Counts(pub Arc<Statistics>);

/// A logger: of Java, or to standard error.
#[derive(Clone)]
pub enum Log {
    /// Of Java.
    Java(Arc<JavaLogger>),
    /// To standard error.
    StdErr(Arc<crate::callbacks::StdErrLogger>),
}

/// A listener of Java.
#[derive(Clone, Debug)]
pub struct Listener(pub Arc<JavaListener>);

/// A rate limiter; a rate that is none is refused where it is used.
#[derive(Clone, Debug)]
pub struct Limiter(pub std::result::Result<Arc<RateLimiter>, pumice::Error>);

/// A write buffer manager.
#[derive(Clone, Debug)]
pub struct BufferManager {
    /// The manager.
    pub manager: Arc<WriteBufferManager>,
}

/// A manager of table files.
#[derive(Clone, Debug)]
pub struct FileManager(pub Arc<SstFileManager>);

/// Makes checkpoints.
#[derive(Clone, Debug)]
pub struct Checkpoint(pub Database);

/// A writer of table files. What its options lack is said at `open`.
pub struct Writer {
    /// The writer.
    pub writer: std::result::Result<SstFileWriter, pumice::Error>,
    /// The size of the finished file.
    pub file_size: u64,
}

/// A reader of table files. What its options lack is said at `open`.
#[derive(Debug)]
pub struct Reader(pub std::result::Result<SstFileReader, pumice::Error>);

/// Bytes: a part of a copy, which stays where it is.
#[derive(Debug)]
pub struct Slice {
    memory: Vec<u8>,
    from: usize,
    length: usize,
}

impl Slice {
    /// All of `memory`.
    pub fn new(memory: Vec<u8>) -> Slice {
        let length = memory.len();
        Slice { memory, from: 0, length }
    }
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.from..self.from + self.length]
    }
    /// Has at most so many bytes from now on.
    pub fn shorten(&mut self, length: usize) {
        self.length = self.length.min(length);
    }
    /// Begins so many bytes later.
    pub fn remove_prefix(&mut self, length: usize) {
        let length = length.min(self.length);
        (self.from, self.length) = (self.from + length, self.length - length);
    }
}

/// A backup engine.
#[derive(Debug)]
pub struct Backups(pub BackupEngine);

/// A transaction and the database it is of. What Java got out of it and never ends goes with it.
#[derive(Debug)]
pub struct OpenTransaction {
    /// The transaction.
    pub transaction: Transaction,
    /// Its id as it began: a call that waits for a lock would keep it from being asked.
    pub id: u64,
    /// It looks for deadlocks before it waits.
    pub deadlock_detect: bool,
    /// The database.
    pub database: Database,
    /// How it is committed, as Java said.
    pub write_options: WriteOptions,
    /// The handle of these options once Java has asked for it; 0 before.
    write_handle: i64,
    /// Snapshots with their handles.
    snapshots: Vec<(Snapshot, i64)>,
    /// Batches with their handles.
    batches: Vec<(SharedBatch, i64)>,
}

impl OpenTransaction {
    /// The handle's content.
    pub fn new(transaction: Transaction, database: Database) -> OpenTransaction {
        let id = transaction.id();
        OpenTransaction {
            transaction,
            id,
            deadlock_detect: false,
            database,
            write_options: WriteOptions::default(),
            write_handle: 0,
            snapshots: Vec::new(),
            batches: Vec::new(),
        }
    }

    /// The handle of its write options, which Java may change.
    pub fn write_options(&mut self) -> i64 {
        if self.write_handle == 0 {
            self.write_handle = handle::give(self.write_options.clone());
        }
        self.write_handle
    }

    /// Replaces its write options.
    ///
    /// # Errors
    /// Java ended the handle that it got.
    pub fn set_write_options(&mut self, options: &WriteOptions) -> crate::ffi::call::Result<()> {
        self.write_options = options.clone();
        // Java may give back what it got: that is changed already, and is borrowed here.
        let given = self.write_handle != 0
            && !std::ptr::eq(handle::read::<WriteOptions>(self.write_handle)?, options);
        if given {
            *handle::write::<WriteOptions>(self.write_handle)? = options.clone();
        }
        self.transaction.set_write_options(options.engine());
        Ok(())
    }

    /// The transaction gets what Java has made of its write options.
    ///
    /// # Errors
    /// As [`Self::set_write_options`].
    pub fn take_write_options(&self) -> crate::ffi::call::Result<()> {
        if self.write_handle != 0 {
            let options = handle::read::<WriteOptions>(self.write_handle)?;
            self.transaction.set_write_options(options.engine());
        }
        Ok(())
    }

    /// The handle of its snapshot, 0 for none.
    pub fn snapshot(&mut self) -> i64 {
        let Some(snapshot) = self.transaction.snapshot() else { return 0 };
        if let Some((last, number)) = self.snapshots.last()
            && *last == snapshot
        {
            return *number;
        }
        let number = handle::give(snapshot.clone());
        self.snapshots.push((snapshot, number));
        number
    }

    /// The handle of its writes.
    pub fn batch(&mut self) -> i64 {
        let batch = self.transaction.shared_batch();
        if let Some((last, number)) = self.batches.last()
            && *last == batch
        {
            return *number;
        }
        let number = handle::give(batch.clone());
        self.batches.push((batch, number));
        number
    }
}

impl Drop for OpenTransaction {
    fn drop(&mut self) {
        // One that is gone already needs no end.
        handle::take::<WriteOptions>(self.write_handle).ok();
        for (_, number) in &self.snapshots {
            handle::take::<Snapshot>(*number).ok();
        }
        for (_, number) in &self.batches {
            handle::take::<SharedBatch>(*number).ok();
        }
    }
}

/// Options of compression.
#[derive(Clone, Debug)]
pub struct Compression {
    /// The engine's.
    pub engine: CompressionOptions,
    /// For the bottommost level: these are used.
    pub enabled: bool,
}

/// A handler of records of batches, in Java.
#[derive(Debug)]
pub struct Handler(pub crate::ffi::vm::Global);

/// Perf contexts are the thread's own; this is only a handle.
#[derive(Clone, Debug)]
pub struct Perf;

/// Nothing is said of what is inside.
macro_rules! nameless {
    ($($name:ident),+) => {$(
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(stringify!($name))
            }
        }
    )+};
}
nameless!(Merge, Order, Filter, FilterFactory, Log, Writer);

/// The listeners of a database, as the engine takes them.
pub fn listeners(
    list: &[Arc<JavaListener>],
    slot: &Arc<pumice_binding::database::Slot>,
) -> Vec<Arc<dyn EventListener>> {
    list.iter().map(|listener| listener.of_database(slot)).collect()
}
