//! Reading one table file that need not belong to a database.
//!
//! Thread safety: opening needs the only user; everything else may be called from any thread.
//! Suspends on I/O. Invariants: (1) nothing is written; (2) blocks do not enter a shared block
//! cache, which might hold those of an ingested copy of the file.
//!
//! It does not apply range deletions of the file and finds no value that is in a blob file, as
//! RocksDB's reader. It finds those that are in other records of the table.

use std::path::Path;
use std::sync::Arc;

use pumice_base::key::{MAX_SEQUENCE, internal_key};
use pumice_base::{Error, InternalKeyComparator, Result, ValueType};
use pumice_manifest::{FileMetaData, Version, VersionBuilder, VersionEdit};
use pumice_table::{Table, TableOptions, TableProperties, TableReadContext};

use crate::callbacks::Mark;
use crate::engine::read_api::table_options;
use crate::options::requests::ReadOptions;
use crate::options::{ColumnFamilyOptions, Options};
use crate::read::elsewhere::BlobReads;
use crate::read::iterator::DbIterator;
use crate::read::iterator::view::View;
use crate::read::merging_iterator::MergingIterator;
use crate::read::range_del::RangeDels;
use crate::read::source::Source;
use crate::trace::Traces;
use crate::version::family::{CfData, new_memtable};
use crate::version::super_version::SuperVersion;
use crate::version::table_cache::{OpenTables, TableCache};

/// Reads a table file: of a [`SstFileWriter`](crate::SstFileWriter), or of a database.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// use pumice::{Options, ReadOptions, SstFileReader, SstFileWriter, TableProperties};
///
/// # let dir = std::env::temp_dir().join(format!("pumice-reader-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir).unwrap();
/// let path = dir.join("fruit.sst");
/// let mut writer = SstFileWriter::new(&Options::default())?;
/// writer.open(&path)?;
/// writer.put(b"apple", b"green")?;
/// writer.put(b"banana", b"yellow")?;
/// writer.finish()?;
///
/// let mut reader = SstFileReader::new(&Options::default())?;
/// reader.open(&path)?;
/// reader.verify_checksum()?;
/// let properties: &TableProperties = reader.table_properties()?;
/// assert_eq!(properties.num_entries, 2);
/// let mut cursor = reader.cursor(&ReadOptions::default())?;
/// cursor.seek_to_last();
/// assert_eq!(cursor.key(), Some(&b"banana"[..]));
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # Ok(())
/// # }
/// ```
pub struct SstFileReader {
    options: Options,
    table_options: Arc<TableOptions>,
    cf: Arc<CfData>,
    table: Option<(Arc<Table>, Arc<SuperVersion>)>,
}

impl std::fmt::Debug for SstFileReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SstFileReader").field("is_open", &self.table.is_some()).finish()
    }
}

impl SstFileReader {
    /// A reader of files whose keys have the order of `options`, and whose merge operands its
    /// operator merges.
    ///
    /// # Errors
    /// InvalidArgument or NotSupported for options that no table can have.
    pub fn new(options: &Options) -> Result<Self> {
        let mut table_options = options.cf.table_options()?;
        table_options.block_cache = None;
        table_options.no_block_cache = true;
        let table_options = Arc::new(table_options);
        let cf = Arc::new(family(options, &table_options));
        Ok(SstFileReader { options: options.clone(), table_options, cf, table: None })
    }

    /// Opens a file in place of the one before; cursors of that keep it.
    ///
    /// # Errors
    /// I/O; Corruption; InvalidArgument for keys in another order.
    pub fn open(&mut self, path: impl AsRef<Path>) -> Result<()> {
        self.table = None;
        let (fs, path) = (&self.options.db.file_system, path.as_ref());
        // A file that is not there is this call's error, as in RocksDB.
        let bytes = fs.file_size(path)?;
        let file = fs.open_random(path)?;
        let context = TableReadContext {
            options: Arc::clone(&self.table_options),
            comparator: self.cf.table_keys.icmp.clone(),
            prefix_extractor: self.options.cf.prefix_extractor.clone(),
            stats: self.cf.tables().receiver(0),
            skip_filters: true,
            ..TableReadContext::default()
        };
        let table = Table::open(context, file, bytes)?;
        let view = self.view_of(&table)?;
        self.table = Some((table, view));
        Ok(())
    }

    /// A state of the column family that has `table`, where values are found that are in it and
    /// apart from their entries.
    fn view_of(&self, table: &Arc<Table>) -> Result<Arc<SuperVersion>> {
        let empty = self.cf.super_version.load_full();
        let bound = internal_key(b"", MAX_SEQUENCE, ValueType::Value);
        let file = FileMetaData {
            number: table.file_number(),
            file_size: table.file_size(),
            smallest: bound.clone(),
            largest: bound,
            ..FileMetaData::default()
        };
        let mut builder = VersionBuilder::new(Arc::clone(&empty.version));
        let new_files = vec![(0, Arc::new(file))];
        builder.apply(&VersionEdit { new_files, ..VersionEdit::default() })?;
        let version = builder.build()?;
        for (_, file) in version.all_files() {
            file.table.get_or_init(|| Arc::clone(table));
        }
        Ok(Arc::new(SuperVersion {
            mem: Arc::clone(&empty.mem),
            imm: Vec::new(),
            history: Vec::new(),
            version,
            times: None,
            ingestions: empty.ingestions,
            removals: empty.removals,
        }))
    }

    fn table(&self) -> Result<&Arc<Table>> {
        Ok(&self.opened()?.0)
    }

    fn opened(&self) -> Result<&(Arc<Table>, Arc<SuperVersion>)> {
        self.table.as_ref().ok_or_else(|| Error::invalid_argument("File is not open"))
    }

    /// What the file says of itself.
    ///
    /// # Errors
    /// InvalidArgument if none is open.
    pub fn table_properties(&self) -> Result<&TableProperties> {
        Ok(self.table()?.properties())
    }

    /// Reads every block and compares its checksum.
    ///
    /// # Errors
    /// Corruption, I/O; InvalidArgument if none is open.
    pub fn verify_checksum(&self) -> Result<()> {
        self.table()?.verify_checksums()
    }

    /// A cursor over the newest version of each key, or that of the snapshot in `options`: deleted
    /// keys are left out, operands are merged.
    ///
    /// # Errors
    /// InvalidArgument if none is open; NotSupported for keys with timestamps.
    pub fn cursor(&self, options: &ReadOptions) -> Result<DbIterator> {
        if self.cf.timestamp_size > 0 {
            return Err(Error::not_supported(
                "cursors of single tables whose keys have timestamps",
            ));
        }
        let (opened, state) = self.opened()?;
        let table = table_options(options);
        let source = Source::Table(opened.iter(&table));
        let sequence = options.snapshot.as_ref().map_or(MAX_SEQUENCE, |s| s.sequence_number());
        let by_prefix = options.prefix_same_as_start && !options.total_order_seek;
        let view = View {
            inner: MergingIterator::new(self.cf.icmp.clone(), vec![source]),
            sequence,
            prefix: self.cf.tables().extractor().filter(|_| by_prefix).cloned(),
            range_dels: RangeDels::new(sequence),
            super_version: Arc::clone(state),
            blob_reads: BlobReads::of(&table),
        };
        let bounds = (options.iterate_lower_bound.as_ref(), options.iterate_upper_bound.as_ref());
        let statistics = self.options.db.statistics.as_ref();
        let snapshot = options.snapshot.clone();
        let mut cursor =
            DbIterator::new(view, Arc::clone(&self.cf), bounds, None, snapshot, statistics);
        cursor.limit(options);
        Ok(cursor)
    }
}

/// A column family of no database, without a memtable's entry or a file: what cursors ask for
/// options and merges.
fn family(options: &Options, table_options: &Arc<TableOptions>) -> CfData {
    let own: &ColumnFamilyOptions = &options.cf;
    let icmp = InternalKeyComparator::new(own.comparator.clone());
    let order = InternalKeyComparator::new(own.table_order());
    let place = (&options.db.file_system, Path::new(""));
    let traces = Arc::new(Traces::new(Mark::new()));
    let open = OpenTables::new(&options.db, place, Default::default(), &traces);
    let tables = TableCache::new(open, Arc::clone(table_options), order, (0, "", own));
    let first = Arc::new(SuperVersion {
        mem: new_memtable(own, &icmp, 1, 0, None),
        imm: Vec::new(),
        history: Vec::new(),
        version: Version::of_family(&own.comparator, own.strips_timestamps(), 1),
        times: None,
        ingestions: 0,
        removals: 0,
    });
    let (table_options, tables) = (Arc::clone(table_options), Arc::new(tables));
    // Per-level counts are kept for one level; `num_levels` is a database's and says nothing here.
    let own = ColumnFamilyOptions { num_levels: 1, ..own.clone() };
    CfData::new(0, "", own, table_options, tables, first).0
}
