//! What handles of Java stand for.
//!
//! Thread safety: see each type; handles hold what they need, so that Java may close them in any
//! order.

use std::sync::Arc;

pub use pumice::SharedBatch;
use pumice::backup::BackupEngine;
use pumice::options::PlainTableOptions;
use pumice::{
    BlockCache, ColumnFamily, CompactionFilter, CompactionFilterFactory, CompressionOptions,
    ConcurrentTaskLimiter, Db, EventListener, FilterPolicy, Logger, MergeOperator, PersistentCache,
    RateLimiter, Snapshot, SstFileManager, SstFileReader, SstFileWriter, Statistics,
    WriteBufferManager,
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
use crate::callbacks::notifier::JavaNotifier;
use crate::callbacks::trace_writer::JavaTraceWriter;
use crate::callbacks::{JavaListener, JavaLogger, JavaOrder};
use crate::ffi::handle::Held;
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
    47 CompactionLimit: "ConcurrentTaskLimiter";
    48 Notifier: "transaction notifier";
    49 Persistent: "persistent cache";
}

pub use crate::callbacks::flink::FlinkConfig;
pub use crate::open_transaction::OpenTransaction;
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

/// Options of tables of one format.
#[derive(Clone, Debug)]
pub enum Table {
    /// Block-based.
    Blocks(Box<TableOptions>),
    /// Plain.
    Plain(PlainTableOptions),
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

/// A limit on compactions at once.
#[derive(Clone, Debug)]
pub struct CompactionLimit(pub Arc<ConcurrentTaskLimiter>);

/// A cache of blocks in files.
#[derive(Clone)]
pub struct Persistent(pub Arc<PersistentCache>);

/// A notifier of snapshots written in Java.
#[derive(Clone, Debug)]
pub struct Notifier(pub Arc<JavaNotifier>);

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

/// A backup engine, and the log of what it does.
pub struct Backups {
    /// The engine.
    pub engine: BackupEngine,
    /// Where its calls are noted.
    pub log: Option<Arc<dyn Logger>>,
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
nameless!(Merge, Order, Filter, FilterFactory, Log, Writer, Backups);

/// The listeners of a database, as the engine takes them.
pub fn listeners(
    list: &[Arc<JavaListener>],
    slot: &Arc<pumice_binding::database::Slot>,
) -> Vec<Arc<dyn EventListener>> {
    list.iter().map(|listener| listener.of_database(slot)).collect()
}
