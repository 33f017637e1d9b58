//! Event listeners: callbacks for events of a database.
//!
//! Thread safety: listeners are called from background and foreground threads, several at once,
//! under no lock. A listener should be fast: the job that caused an event waits for it.
//!
//! A listener may call the database: reads, properties, and changes of all kinds. A write that
//! would stall is Incomplete, as with `no_slowdown`. Calls that wait for jobs (flushes that wait,
//! compactions, ingestions, checkpoints, `resume`, `close`) are Aborted if a job waits for the
//! listener. If a listener drops the last handle, another task closes the database.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pumice_base::Error;
use pumice_table::TableProperties;

/// Why a memtable is flushed. The text is RocksDB's.
///
/// Example: that of [`EventListener`](crate::EventListener).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // `name` says it.
pub enum FlushReason {
    Others,
    GetLiveFiles,
    ShutDown,
    ManualCompaction,
    WriteBufferManager,
    WriteBufferFull,
    AutoCompaction,
    ManualFlush,
    ErrorRecovery,
    WalFull,
    ExternalFileIngestion,
}

impl FlushReason {
    /// RocksDB's text.
    pub fn name(self) -> &'static str {
        match self {
            FlushReason::Others => "Other Reasons",
            FlushReason::GetLiveFiles => "Get Live Files",
            FlushReason::ShutDown => "Shut down",
            FlushReason::ManualCompaction => "Manual Compaction",
            FlushReason::WriteBufferManager => "Write Buffer Manager",
            FlushReason::WriteBufferFull => "Write Buffer Full",
            FlushReason::AutoCompaction => "Auto Compaction",
            FlushReason::ManualFlush => "Manual Flush",
            FlushReason::ErrorRecovery => "Error Recovery",
            FlushReason::WalFull => "WAL Full",
            FlushReason::ExternalFileIngestion => "External File Ingestion",
        }
    }
}

/// Why a compaction runs. The text is RocksDB's.
///
/// Example: that of [`EventListener`](crate::EventListener).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionReason {
    /// L0 has too many files or bytes.
    LevelL0FilesNum,
    /// A level is larger than its target.
    LevelMaxLevelSize,
    /// The user asked for a range.
    ManualCompaction,
    /// A table property collector asked for the file.
    FilesMarkedForCompaction,
    /// Sequence numbers and tombstones of the last level can be dropped.
    BottommostFiles,
    /// The data is older than `ttl`.
    Ttl,
    /// The file is older than `periodic_compaction_seconds`.
    PeriodicCompaction,
    /// Universal: newer data takes too much space compared with the oldest.
    UniversalSizeAmplification,
    /// Universal: sorted runs have similar sizes.
    UniversalSizeRatio,
    /// Universal: there are too many sorted runs.
    UniversalSortedRunNum,
    /// FIFO: there are too many bytes.
    FifoMaxSize,
    /// FIFO: there are many small files.
    FifoReduceNumFiles,
    /// FIFO: the files are older than `ttl`.
    FifoTtl,
    /// FIFO compaction: the file's age asks for another temperature.
    ChangeTemperature,
    /// The oldest blob files are mostly garbage.
    ForcedBlobGc,
    /// Many reads found no value in the file.
    ReadTriggered,
}

impl CompactionReason {
    /// RocksDB's text.
    pub fn name(self) -> &'static str {
        match self {
            CompactionReason::LevelL0FilesNum => "LevelL0FilesNum",
            CompactionReason::LevelMaxLevelSize => "LevelMaxLevelSize",
            CompactionReason::ManualCompaction => "ManualCompaction",
            CompactionReason::FilesMarkedForCompaction => "FilesMarkedForCompaction",
            CompactionReason::BottommostFiles => "BottommostFiles",
            CompactionReason::Ttl => "Ttl",
            CompactionReason::PeriodicCompaction => "PeriodicCompaction",
            CompactionReason::UniversalSizeAmplification => "UniversalSizeAmplification",
            CompactionReason::UniversalSizeRatio => "UniversalSizeRatio",
            CompactionReason::UniversalSortedRunNum => "UniversalSortedRunNum",
            CompactionReason::FifoMaxSize => "FIFOMaxSize",
            CompactionReason::FifoReduceNumFiles => "FIFOReduceNumFiles",
            CompactionReason::FifoTtl => "FIFOTtl",
            CompactionReason::ChangeTemperature => "ChangeTemperature",
            CompactionReason::ForcedBlobGc => "ForcedBlobGC",
            CompactionReason::ReadTriggered => "ReadTriggered",
        }
    }
}

/// Why a table file was made.
///
/// Example: that of [`EventListener`](crate::EventListener).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFileCreationReason {
    /// A memtable was flushed.
    Flush,
    /// Files were merged.
    Compaction,
    /// The WAL was replayed at open.
    Recovery,
}

/// The operation that a background error interrupted.
///
/// Example: that of [`EventListener`](crate::EventListener).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackgroundErrorReason {
    /// A flush.
    Flush,
    /// A compaction.
    Compaction,
    /// A write to the WAL.
    WriteCallback,
    /// An insert into a memtable.
    MemTable,
    /// A write to the MANIFEST.
    ManifestWrite,
}

/// The stall state of a column family's writes.
///
/// Example: that of [`EventListener`](crate::EventListener).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum WriteStallCondition {
    /// Not at all.
    #[default]
    Normal,
    /// Slowed down.
    Delayed,
    /// Stopped.
    Stopped,
}

/// A memtable that no longer takes writes.
///
/// Example: that of [`EventListener`](crate::EventListener).
#[derive(Clone, Debug)]
pub struct MemTableInfo {
    /// Column family.
    pub cf_name: String,
    /// Smallest sequence number.
    pub first_seqno: u64,
    /// Sequence number at which the memtable was created.
    pub earliest_seqno: u64,
    /// Entries.
    pub num_entries: u64,
    /// Deletions among them.
    pub num_deletes: u64,
}

/// A flush. Fields about the result are 0 or empty while it begins, those about its memtables when
/// it is completed.
///
/// Example: that of [`EventListener`](crate::EventListener).
#[derive(Clone, Debug)]
pub struct FlushJobInfo {
    /// Number of the column family.
    pub cf_id: u32,
    /// Column family.
    pub cf_name: String,
    /// Number of the job.
    pub job_id: u64,
    /// Why it runs.
    pub flush_reason: FlushReason,
    /// Memtables that are flushed.
    pub num_memtables: usize,
    /// Entries in them.
    pub total_num_input_entries: u64,
    /// Deletions in them.
    pub num_deletes: u64,
    /// Range deletions in them.
    pub num_range_deletes: u64,
    /// Bytes of keys and values in them.
    pub total_data_size: u64,
    /// Memory they use.
    pub memory_usage: u64,
    /// The new table file; empty if nothing was left to write.
    pub file_path: PathBuf,
    /// The number of the new file, 0 for none.
    pub file_number: u64,
    /// Smallest sequence number in it.
    pub smallest_seqno: u64,
    /// Largest sequence number in it.
    pub largest_seqno: u64,
    /// L0 now has `level0_slowdown_writes_trigger` files or more, whether or not that slows writes.
    pub triggered_writes_slowdown: bool,
    /// L0 now has `level0_stop_writes_trigger` files or more.
    pub triggered_writes_stop: bool,
    /// The properties of the new file; those of none while the flush begins.
    pub table_properties: TableProperties,
}

/// A file of a compaction.
///
/// Example: that of [`EventListener`](crate::EventListener).
#[derive(Clone, Debug)]
pub struct CompactionTable {
    /// Where it is, or was.
    pub path: PathBuf,
    /// Its properties.
    pub properties: TableProperties,
}

/// A compaction. Fields about the result are 0 or empty while it begins.
///
/// Example: that of [`EventListener`](crate::EventListener).
#[derive(Clone, Debug)]
pub struct CompactionJobInfo {
    /// Number of the column family.
    pub cf_id: u32,
    /// Column family.
    pub cf_name: String,
    /// Number of the job.
    pub job_id: u64,
    /// Why it runs.
    pub compaction_reason: CompactionReason,
    /// First input level.
    pub base_input_level: i32,
    /// Level of the results.
    pub output_level: i32,
    /// Numbers of the input files by level.
    pub input_files: Vec<(i32, Vec<u64>)>,
    /// Numbers of the new files.
    pub output_files: Vec<u64>,
    /// Score of the input level.
    pub score: f64,
    /// Bytes of the input files.
    pub total_input_bytes: u64,
    /// Bytes of the new files.
    pub total_output_bytes: u64,
    /// Entries read.
    pub num_input_records: u64,
    /// Entries written.
    pub num_output_records: u64,
    /// Parts the compaction was split into, 0 while it begins.
    pub num_subcompactions: usize,
    /// Duration.
    pub elapsed_micros: u64,
    /// CPU time of all parts.
    pub cpu_micros: u64,
    /// Codec of the new files, for instance `Snappy`.
    pub output_compression: &'static str,
    /// The inputs and outputs by number, once it has succeeded.
    pub tables: BTreeMap<u64, CompactionTable>,
    /// What went wrong.
    pub error: Option<Error>,
}

/// A part of a compaction. Fields about the result are 0 while it begins.
///
/// Example: that of [`EventListener`](crate::EventListener).
#[derive(Clone, Debug)]
pub struct SubcompactionJobInfo {
    /// Number of the column family.
    pub cf_id: u32,
    /// Column family.
    pub cf_name: String,
    /// Number of the compaction.
    pub job_id: u64,
    /// Number of the part in it, from 0 on.
    pub subcompaction_job_id: usize,
    /// Why the compaction runs.
    pub compaction_reason: CompactionReason,
    /// First input level.
    pub base_input_level: i32,
    /// Level of the results.
    pub output_level: i32,
    /// Codec of the new files, for instance `Snappy`.
    pub output_compression: &'static str,
    /// Entries read.
    pub num_input_records: u64,
    /// Entries written.
    pub num_output_records: u64,
    /// Bytes of the new files.
    pub total_output_bytes: u64,
    /// The number of new files.
    pub num_output_files: usize,
    /// Duration.
    pub elapsed_micros: u64,
    /// CPU time.
    pub cpu_micros: u64,
    /// What went wrong.
    pub error: Option<Error>,
}

/// A new table file.
///
/// Example: that of [`EventListener`](crate::EventListener).
#[derive(Clone, Debug)]
pub struct TableFileCreationInfo {
    /// Column family.
    pub cf_name: String,
    /// Number of the job.
    pub job_id: u64,
    /// Why it was made.
    pub reason: TableFileCreationReason,
    /// The file.
    pub file_path: PathBuf,
    /// The file's number.
    pub file_number: u64,
    /// The file's length in bytes.
    pub file_size: u64,
    /// Smallest sequence number in it.
    pub smallest_seqno: u64,
    /// Largest sequence number in it.
    pub largest_seqno: u64,
    /// Entries in it.
    pub num_entries: u64,
    /// Deletions in it.
    pub num_deletions: u64,
    /// What went wrong.
    pub error: Option<Error>,
}

/// A deleted table file.
///
/// Example: that of [`EventListener`](crate::EventListener).
#[derive(Clone, Debug)]
pub struct TableFileDeletionInfo {
    /// Number of the job.
    pub job_id: u64,
    /// The file.
    pub file_path: PathBuf,
    /// The file's number.
    pub file_number: u64,
    /// What went wrong.
    pub error: Option<Error>,
}

/// A change of the write stall of a column family.
///
/// Example: that of [`EventListener`](crate::EventListener).
#[derive(Clone, Debug)]
pub struct WriteStallInfo {
    /// Column family.
    pub cf_name: String,
    /// The present stall state.
    pub current: WriteStallCondition,
    /// The previous one.
    pub previous: WriteStallCondition,
}

/// A table file that was made outside and has become part of the database.
///
/// Example: that of [`EventListener`](crate::EventListener).
#[derive(Clone, Debug)]
pub struct ExternalFileIngestionInfo {
    /// Column family.
    pub cf_name: String,
    /// The file as it was given.
    pub external_file_path: PathBuf,
    /// The file in the database.
    pub internal_file_path: PathBuf,
    /// Sequence number of all its entries.
    pub global_seqno: u64,
    /// The table's properties.
    pub table_properties: TableProperties,
}

/// Receiver of events; every method does nothing by default.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-listener-{}", std::process::id()));
/// use std::sync::{Arc, Mutex};
///
/// use pumice::{
///     BackgroundErrorReason, CompactionJobInfo, CompactionReason, CompactionTable, Error,
///     EventListener, ExternalFileIngestionInfo, FlushJobInfo, FlushReason, MemTableInfo,
///     SubcompactionJobInfo, TableFileCreationInfo, TableFileCreationReason, TableFileDeletionInfo,
///     WriteStallCondition, WriteStallInfo,
/// };
///
/// #[derive(Default)]
/// struct Journal(Mutex<Vec<String>>);
///
/// impl Journal {
///     fn add(&self, line: String) {
///         self.0.lock().expect("no panics").push(line);
///     }
/// }
///
/// // A listener has those that it needs; here all that take a record.
/// impl EventListener for Journal {
///     fn on_memtable_sealed(&self, info: &MemTableInfo) {
///         self.add(format!("sealed with {} entries", info.num_entries));
///     }
///     fn on_flush_begin(&self, info: &FlushJobInfo) {
///         assert_eq!(info.flush_reason, FlushReason::ManualFlush);
///         self.add(format!("flushes {} entries", info.total_num_input_entries));
///     }
///     fn on_compaction_completed(&self, info: &CompactionJobInfo) {
///         assert_eq!(info.compaction_reason, CompactionReason::ManualCompaction);
///         self.add(format!("compacted into level {}", info.output_level));
///         let tables: Vec<&CompactionTable> = info.tables.values().collect();
///         assert!(tables.iter().all(|table| table.properties.num_entries > 0));
///     }
///     fn on_subcompaction_completed(&self, info: &SubcompactionJobInfo) {
///         println!("part {} took {} us", info.subcompaction_job_id, info.elapsed_micros);
///     }
///     fn on_table_file_created(&self, info: &TableFileCreationInfo) {
///         if info.reason == TableFileCreationReason::Flush {
///             self.add("a table by a flush".into());
///         }
///     }
///     fn on_table_file_deleted(&self, info: &TableFileDeletionInfo) {
///         println!("deleted {}", info.file_path.display());
///     }
///     fn on_stall_conditions_changed(&self, info: &WriteStallInfo) {
///         if info.current == WriteStallCondition::Stopped {
///             println!("writes of {} wait", info.cf_name);
///         }
///     }
///     fn on_external_file_ingested(&self, info: &ExternalFileIngestionInfo) {
///         println!("ingested {}", info.external_file_path.display());
///     }
///     fn on_background_error(&self, reason: BackgroundErrorReason, error: &Error) {
///         println!("{reason:?}: {error}");
///     }
/// }
///
/// let journal = Arc::new(Journal::default());
/// let listener = journal.clone();
/// let db = pumice::Db::builder(&dir)
///     .create(true)
///     .configure(|options| options.db.listeners.push(listener))
///     .open()?;
/// db.put("a", "1")?;
/// db.flush()?;
/// db.close()?;
/// let lines = journal.0.lock().expect("no panics");
/// assert!(lines.contains(&"flushes 1 entries".to_string()), "{lines:?}");
/// assert!(lines.contains(&"a table by a flush".to_string()), "{lines:?}");
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
pub trait EventListener: Send + Sync {
    /// A flush begins.
    fn on_flush_begin(&self, _info: &FlushJobInfo) {}
    /// A flush succeeded.
    fn on_flush_completed(&self, _info: &FlushJobInfo) {}
    /// A compaction begins.
    fn on_compaction_begin(&self, _info: &CompactionJobInfo) {}
    /// A compaction ended, possibly with an error.
    fn on_compaction_completed(&self, _info: &CompactionJobInfo) {}
    /// A part of a compaction begins. Parts run at the same time.
    fn on_subcompaction_begin(&self, _info: &SubcompactionJobInfo) {}
    /// A part of a compaction ended, possibly with an error.
    fn on_subcompaction_completed(&self, _info: &SubcompactionJobInfo) {}
    /// A table file was written, possibly with an error.
    fn on_table_file_created(&self, _info: &TableFileCreationInfo) {}
    /// A table file was deleted.
    fn on_table_file_deleted(&self, _info: &TableFileDeletionInfo) {}
    /// A memtable was sealed.
    fn on_memtable_sealed(&self, _info: &MemTableInfo) {}
    /// The stall of a column family changed.
    fn on_stall_conditions_changed(&self, _info: &WriteStallInfo) {}
    /// Table files were ingested; called once for each of them.
    fn on_external_file_ingested(&self, _info: &ExternalFileIngestionInfo) {}
    /// A background job or a write failed; writes may stop, depending on the error's severity.
    fn on_background_error(&self, _reason: BackgroundErrorReason, _error: &Error) {}
    /// A flush or a compaction failed, and the error has not stopped anything yet. With true it
    /// never does: writes go on, and the job is tried again after `bgerror_resume_retry_interval`.
    /// Errors that leave a log or the MANIFEST in doubt come to
    /// [`on_background_error`](Self::on_background_error) alone, which this calls by default.
    fn on_job_error(&self, reason: BackgroundErrorReason, error: &Error) -> bool {
        self.on_background_error(reason, error);
        false
    }
    /// The database recovered, by itself or by [`Db::resume`](crate::Db::resume), from the
    /// background error that had stopped writes.
    fn on_error_recovery_completed(&self, _old_error: &Error) {}
    /// The last handle of a column family is gone.
    fn on_column_family_handle_deletion_started(&self, _cf_name: &str) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[pumice_test_macros::test]
    fn a_listener_hears_what_it_asks_for() {
        #[derive(Default)]
        struct Counter(AtomicU32);
        impl EventListener for Counter {
            fn on_stall_conditions_changed(&self, info: &WriteStallInfo) {
                assert!(info.current > info.previous);
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let counter = Counter::default();
        let listeners: [&dyn EventListener; 1] = [&counter];
        let info = WriteStallInfo {
            cf_name: "default".to_string(),
            current: WriteStallCondition::Stopped,
            previous: WriteStallCondition::Delayed,
        };
        for listener in listeners {
            listener.on_stall_conditions_changed(&info);
            listener.on_column_family_handle_deletion_started("default");
        }
        assert_eq!(counter.0.load(Ordering::Relaxed), 1);
    }
}
