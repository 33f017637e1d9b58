//! Making table files outside a database.
//!
//! Every entry is stored with sequence number 0; the property `global_seqno` tells readers that the
//! true one is assigned at ingestion (docs/format/table.md#ingested-files).
//!
//! Thread safety: one user at a time (`Send`). Writing suspends. Invariants: (1) point keys are
//! strictly ascending; (2) an unfinished file is not a table.

use pumice_base::narrow::low_u32;
use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pumice_base::key::internal_key;
use pumice_base::wide_columns::encode_pairs;
use pumice_base::{
    Comparator, Error, InternalKey, InternalKeyComparator, Result, SequenceNumber, UserKey,
    ValueType,
};
use pumice_compress::{CompressionOptions, CompressionType};
use pumice_env::{BufferedWriter, FileOptions, FileSystem};
use pumice_port::fiber;
use pumice_port::helpers::HelperPool;
use pumice_port::os::{is_forked, watch_forks};
use pumice_table::properties::{EXTERNAL_VERSION, GLOBAL_SEQNO, UNKNOWN_COLUMN_FAMILY};
use pumice_table::{TableBuildContext, TableBuilder, TableOptions};

use crate::callbacks::check_not_forked;
use crate::cost;
use crate::options::{ColumnFamilyOptions, Options};
use crate::stats::record_build;
use crate::table_output::table_collectors::Collectors;
use crate::version::family::ColumnFamily;
use crate::version::identity;

/// Version of the files, as RocksDB writes it. Persisted.
pub(super) const VERSION: u32 = 2;
/// Used in place of a database id. Persisted.
const DB_ID: &str = "SST Writer";

/// What was written, given by [`SstFileWriter::finish`].
///
/// Example: that of [`IngestExternalFileArg`](crate::IngestExternalFileArg).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExternalSstFileInfo {
    /// The file.
    pub file_path: PathBuf,
    /// Smallest point key.
    pub smallest_key: Vec<u8>,
    /// Largest point key.
    pub largest_key: Vec<u8>,
    /// Smallest start of a range deletion.
    pub smallest_range_del_key: Vec<u8>,
    /// Largest end of a range deletion.
    pub largest_range_del_key: Vec<u8>,
    /// Sequence number of all entries in the file.
    pub sequence_number: SequenceNumber,
    /// Bytes of the file.
    pub file_size: u64,
    /// Point entries.
    pub num_entries: u64,
    /// Range deletions.
    pub num_range_del_entries: u64,
    /// Version of the file.
    pub version: u32,
}

/// Writes one table file after another for [`crate::Db::ingest_external_file`].
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// use pumice::{IngestExternalFileOptions, Options, SstFileWriter};
///
/// # let dir = std::env::temp_dir().join(format!("pumice-ingest-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir).unwrap();
/// let mut options = Options::default();
/// options.db.create_if_missing = true;
/// let path = dir.join("fruit.sst");
/// let mut writer = SstFileWriter::new(&options)?;
/// writer.open(&path)?;
/// writer.put(b"apple", b"green")?; // Keys in ascending order.
/// writer.put(b"banana", b"yellow")?;
/// let info = writer.finish()?;
/// assert_eq!(info.num_entries, 2);
///
/// let db = pumice::Db::open(&options, dir.join("db"))?;
/// db.ingest_external_file(&IngestExternalFileOptions::default(), &[&path])?;
/// assert_eq!(db.get_opt(&Default::default(), b"apple")?.as_deref(), Some(&b"green"[..]));
/// # db.close()?;
/// # drop(db);
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # Ok(())
/// # }
/// ```
pub struct SstFileWriter {
    fs: Arc<dyn FileSystem>,
    use_fsync: bool,
    db_options: Arc<crate::options::DbOptions>,
    /// What the next table is built with; its number counts up.
    context: TableBuildContext,
    builder: Option<TableBuilder>,
    cf_options: Arc<ColumnFamilyOptions>,
    collectors: Collectors,
    info: ExternalSstFileInfo,
}

impl std::fmt::Debug for SstFileWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SstFileWriter").field("info", &self.info).finish_non_exhaustive()
    }
}

impl SstFileWriter {
    /// A writer for files that any column family with such options may ingest.
    ///
    /// # Errors
    /// InvalidArgument or NotSupported for options that tables cannot be built with.
    pub fn new(options: &Options) -> Result<Self> {
        Self::with_identity(options, low_u32(UNKNOWN_COLUMN_FAMILY), "")
    }

    /// A writer for files that `cf` alone may ingest.
    ///
    /// # Errors
    /// As [`SstFileWriter::new`].
    pub fn for_column_family(options: &Options, cf: &ColumnFamily) -> Result<Self> {
        Self::with_identity(options, cf.id(), cf.name())
    }

    fn with_identity(options: &Options, id: u32, name: &str) -> Result<Self> {
        let table: TableOptions = options.cf.table_factory.to_table_options()?;
        let (compression, compression_opts) = compression_of(&options.cf);
        let context = TableBuildContext {
            table: Arc::new(table),
            comparator: InternalKeyComparator::new(options.cf.table_order()),
            stripped_of: options.cf.stripped_of(),
            compression,
            compression_opts,
            compression_manager: options.cf.compression_manager,
            column_family_id: id,
            column_family_name: name.to_string(),
            original_file_number: 0,
            db_id: DB_ID.to_string(),
            db_session_id: identity::new_session_id(),
            db_host_id: identity::host_id(&options.db),
            merge_operator_name: options.cf.merge_operator.as_ref().map(|m| m.name().to_string()),
            prefix_extractor: options.cf.prefix_extractor.clone(),
            sample_for_compression: options.cf.sample_for_compression,
            helpers: Some(HelperPool::shared()),
            time_codec: options.db.statistics.as_ref().is_some_and(|s| s.wants_detailed_timers()),
            user_collected: vec![
                (EXTERNAL_VERSION.to_string(), VERSION.to_le_bytes().to_vec()),
                (GLOBAL_SEQNO.to_string(), 0u64.to_le_bytes().to_vec()),
            ],
            property_collectors: Collectors::names(&options.cf),
            limits: options.db.limits,
            ..TableBuildContext::default()
        };
        watch_forks();
        Ok(SstFileWriter {
            fs: Arc::clone(&options.db.file_system),
            use_fsync: options.db.use_fsync,
            db_options: Arc::new(options.db.clone()),
            context,
            builder: None,
            cf_options: Arc::new(options.cf.clone()),
            collectors: Collectors::default(),
            info: ExternalSstFileInfo::default(),
        })
    }

    /// Begins the file `path`, replacing what has that name. An unfinished earlier file is
    /// abandoned.
    ///
    /// # Errors
    /// I/O; InvalidArgument or NotSupported for options that tables cannot be built with;
    /// NotSupported, as from all that is called afterwards, in a child that `fork` made.
    pub fn open(&mut self, path: impl AsRef<Path>) -> Result<()> {
        check_not_forked()?;
        self.give_up()?;
        let path = path.as_ref();
        let file = self.fs.create(path, &FileOptions::default())?;
        self.context.original_file_number += 1;
        let writer = BufferedWriter::new(file, self.db_options.table_writer(0));
        self.builder = Some(TableBuilder::new(self.context.clone(), writer)?);
        self.collectors = Collectors::new(&self.cf_options, self.context.column_family_id, -1);
        self.info = ExternalSstFileInfo {
            file_path: path.to_path_buf(),
            version: VERSION,
            ..ExternalSstFileInfo::default()
        };
        Ok(())
    }

    fn comparator(&self) -> &Comparator {
        &self.context.comparator.user
    }

    /// Sets `key` to `value`.
    ///
    /// # Errors
    /// InvalidArgument if no file is open or `key` is not after the one before; I/O.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.add(key.as_ref(), b"", value.as_ref(), ValueType::Value)
    }

    /// Sets `key` to `value` as of `timestamp`. Keys ascend; of one key the newest timestamp comes
    /// first.
    ///
    /// # Errors
    /// As [`SstFileWriter::put`]; InvalidArgument if timestamps have another length.
    pub fn put_with_ts(
        &mut self,
        key: impl AsRef<[u8]>,
        timestamp: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.add(key.as_ref(), timestamp.as_ref(), value.as_ref(), ValueType::Value)
    }

    /// Deletes `key` as of `timestamp`, see [`SstFileWriter::put_with_ts`].
    ///
    /// # Errors
    /// As there.
    pub fn delete_with_ts(
        &mut self,
        key: impl AsRef<[u8]>,
        timestamp: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.add(key.as_ref(), timestamp.as_ref(), b"", ValueType::DeletionWithTimestamp)
    }

    /// Sets `key` to the entity with these `columns`, names and values in any order.
    ///
    /// # Errors
    /// As [`SstFileWriter::put`]; Corruption, as in RocksDB, if two columns have one name.
    pub fn put_entity<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        key: impl AsRef<[u8]>,
        columns: impl IntoIterator<Item = (N, V)>,
    ) -> Result<()> {
        self.add(key.as_ref(), b"", &encode_pairs(columns)?, ValueType::WideColumnEntity)
    }

    /// Adds a merge operand to `key`.
    ///
    /// # Errors
    /// As [`SstFileWriter::put`].
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.add(key.as_ref(), b"", operand.as_ref(), ValueType::Merge)
    }

    /// Deletes `key`.
    ///
    /// # Errors
    /// As [`SstFileWriter::put`].
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.add(key.as_ref(), b"", b"", ValueType::Deletion)
    }

    /// The timestamp that the file gets for this one: none if tables lose them, and then it has to
    /// be the oldest.
    fn stored<'t>(&self, timestamp: &'t [u8], of: &str) -> Result<&'t [u8]> {
        if timestamp.len() != self.cf_options.comparator.timestamp_size() {
            return Err(wrong_size());
        }
        match self.context.stripped_of.is_some() {
            false => Ok(timestamp),
            true if timestamp.iter().all(|byte| *byte == 0) => Ok(b""),
            true => Err(Error::invalid_argument(format!(
                "persist_user_defined_timestamps flag is set to false, only minimum timestamp is \
                 accepted{of}"
            ))),
        }
    }

    fn order(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.comparator().compare(UserKey::new(a), UserKey::new(b))
    }

    fn add(
        &mut self,
        key: &[u8],
        timestamp: &[u8],
        value: &[u8],
        value_type: ValueType,
    ) -> Result<()> {
        fiber::spend(cost::UPDATE);
        let deletes_at = value_type == ValueType::DeletionWithTimestamp;
        if deletes_at && timestamp.is_empty() {
            return Err(wrong_size());
        }
        let timestamp = self.stored(timestamp, ".")?;
        let whole = (!timestamp.is_empty()).then(|| [key, timestamp].concat());
        let key = whole.as_deref().unwrap_or(key);
        let ascending =
            self.info.num_entries == 0 || self.order(key, &self.info.largest_key).is_gt();
        let limits = self.context.limits;
        check_not_forked()?;
        let builder = self.builder.as_mut().ok_or_else(not_open)?;
        limits.check_entry(key, value)?;
        if !ascending {
            return Err(Error::invalid_argument("Keys must be added in strict ascending order."));
        }
        let ikey = internal_key(key, 0, value_type);
        builder.add(&ikey, value)?;
        if !self.collectors.is_empty() {
            self.collectors.add(InternalKey::new(&ikey), value, builder.file_size());
        }
        self.info.file_size = builder.file_size();
        if self.info.num_entries == 0 {
            self.info.smallest_key = key.to_vec();
        }
        self.info.num_entries += 1;
        self.info.largest_key.clear();
        self.info.largest_key.extend_from_slice(key);
        Ok(())
    }

    /// Deletes every key in `[begin, end)` that was in the column family before this file, not
    /// those in the file. May be called at any time, in any order.
    ///
    /// # Errors
    /// InvalidArgument if no file is open or `end` sorts before `begin`; I/O.
    pub fn delete_range(&mut self, begin: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        self.add_range(begin.as_ref(), end.as_ref(), b"")
    }

    /// Deletes every key in `[begin, end)` as of `timestamp`, see [`SstFileWriter::delete_range`].
    ///
    /// # Errors
    /// As there; InvalidArgument if timestamps have another length.
    pub fn delete_range_with_ts(
        &mut self,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
        timestamp: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.add_range(begin.as_ref(), end.as_ref(), timestamp.as_ref())
    }

    fn add_range(&mut self, begin: &[u8], end: &[u8], timestamp: &[u8]) -> Result<()> {
        let timestamp = self.stored(timestamp, " for start key.")?;
        let (begin, end) = (&[begin, timestamp].concat()[..], &[end, timestamp].concat()[..]);
        let order = self.order(begin, end);
        let limits = self.context.limits;
        check_not_forked()?;
        let builder = self.builder.as_mut().ok_or_else(not_open)?;
        limits.check_range(begin, end)?;
        if order.is_ge() {
            return match order.is_eq() {
                true => Ok(()),
                false => Err(Error::invalid_argument("end key comes before start key")),
            };
        }
        let ikey = internal_key(begin, 0, ValueType::RangeDeletion);
        builder.add(&ikey, end)?;
        self.collectors.add(InternalKey::new(&ikey), end, builder.file_size());
        self.info.file_size = builder.file_size();
        let first = self.info.num_range_del_entries == 0;
        if first || self.order(begin, &self.info.smallest_range_del_key).is_lt() {
            self.info.smallest_range_del_key = begin.to_vec();
        }
        if first || self.order(end, &self.info.largest_range_del_key).is_gt() {
            self.info.largest_range_del_key = end.to_vec();
        }
        self.info.num_range_del_entries += 1;
        Ok(())
    }

    /// Bytes of the file so far. Does not suspend.
    pub fn file_size(&self) -> u64 {
        self.info.file_size
    }

    /// Completes the file and makes its bytes durable; making its name durable is left to the
    /// caller.
    ///
    /// # Errors
    /// InvalidArgument if no file is open or nothing was added, and the file stays open; I/O, and
    /// the file is removed.
    pub fn finish(&mut self) -> Result<ExternalSstFileInfo> {
        check_not_forked()?;
        if self.builder.is_some() && self.info.num_entries + self.info.num_range_del_entries == 0 {
            return Err(Error::invalid_argument("Cannot create sst file with no entries"));
        }
        let mut builder = self.builder.take().ok_or_else(not_open)?;
        let collected = self.collectors.finish(&mut builder);
        let finished = collected.and_then(|_| builder.finish_file(true, self.use_fsync));
        if let Err(error) = finished {
            // The first failure is the one to report.
            drop(self.fs.remove(&self.info.file_path));
            return Err(error);
        }
        if let Some(statistics) = &self.db_options.statistics {
            record_build(statistics, builder.stats());
        }
        self.info.file_size = builder.file_size();
        Ok(self.info.clone())
    }

    fn give_up(&mut self) -> Result<()> {
        self.builder.take().map_or(Ok(()), TableBuilder::abandon)
    }
}

impl Drop for SstFileWriter {
    fn drop(&mut self) {
        if is_forked() {
            // The file is the parent's.
            return std::mem::forget(self.builder.take());
        }
        // An unfinished file is worthless, so the result of closing it does not matter.
        drop(self.give_up());
    }
}

/// The compression of the last level: where ingested files belong.
fn compression_of(options: &ColumnFamilyOptions) -> (CompressionType, CompressionOptions) {
    if options.bottommost_compression != CompressionType::Disable {
        let own = &options.bottommost_compression_opts;
        let parameters = if own.enabled { own } else { &options.compression_opts };
        return (options.bottommost_compression, parameters.clone());
    }
    let last = options.compression_per_level.last().copied();
    (last.unwrap_or(options.compression), options.compression_opts.clone())
}

#[cold]
fn wrong_size() -> Error {
    Error::invalid_argument("Timestamp size mismatch")
}

#[cold]
fn not_open() -> Error {
    Error::invalid_argument("File is not opened")
}
