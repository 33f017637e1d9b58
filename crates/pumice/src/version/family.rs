//! Column families: what reads and jobs share (`CfData`), their memtables, and the user's handle
//! (`ColumnFamily`).
//!
//! Thread safety: `CfData` is read from anywhere without a lock; `ColumnFamily` is an owned handle
//! that may outlive the drop of its column family, whose data then stays readable until the last
//! handle is dropped. The part under the state lock is `state::family`.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use pumice_base::FileNumber;
use pumice_base::extension::MergeOperator;
use pumice_base::key::MAX_SEQUENCE;
use pumice_base::names;
use pumice_base::narrow::{round_down_u64, to_usize};
use pumice_base::{Comparator, InternalKeyComparator, SequenceNumber, UserKey};
use pumice_env::filename::TableDirs;
use pumice_filter::RateBalance;
use pumice_manifest::FileMetaData;
use pumice_manifest::Version;
use pumice_memtable::{
    BloomOptions, Checks, MemTable, MemTableOptions, MemTableRep, WriteBufferManager,
};
use pumice_port::sync::Mutex;
use pumice_table::{Extractor, TableOptions};

use crate::callbacks::key_forms::KeyForms;
use crate::lock_order;
use crate::options::ColumnFamilyOptions;
use crate::snapshot::SnapshotOwner;
use crate::version::counters::CfCounters;
use crate::version::l0_reads::L0Reads;
use crate::version::super_version::SuperVersion;
use crate::version::table_cache::TableCache;

/// Settings that a change of options replaces in one step: a table build needs both to match.
pub(crate) struct CfSettings {
    pub options: Arc<ColumnFamilyOptions>,
    pub table: Arc<TableOptions>,
}

/// The right to change what readers find in a [`CfData`]: one is made with each of them, and it is
/// kept under the state lock. It is not `Copy` and made nowhere else.
pub(crate) struct Publisher(());

/// The keys in tables.
pub(crate) struct TableKeys {
    /// Their order: another one than in memtables if they have lost their timestamps.
    pub icmp: InternalKeyComparator,
    /// They have no timestamps, and those in memtables have.
    pub stripped: bool,
}

/// What was ingested so far.
#[derive(Default)]
struct Ingested {
    /// Ingestions. Grows before a sequence number that sees the files is published, and before the
    /// super version that holds them.
    count: AtomicU64,
    /// Newest sequence number of a file, of which memtables know nothing.
    newest_seq: AtomicU64,
}

/// The part of a column family that reads and jobs use without a lock.
pub struct CfData {
    pub(crate) id: u32,
    pub(crate) name: String,
    /// The order of the keys as they are written, and in memtables.
    pub(crate) icmp: InternalKeyComparator,
    pub(crate) table_keys: TableKeys,
    /// Bytes of the timestamp that each key ends with; 0 for none.
    pub(crate) timestamp_size: usize,
    pub(crate) super_version: ArcSwap<SuperVersion>,
    ingested: Ingested,
    dropped: AtomicBool,
    settings: ArcSwap<CfSettings>,
    tables: ArcSwap<TableCache>,
    /// Where its tables are.
    pub(crate) dirs: TableDirs,
    pub(crate) stats: CfCounters,
    /// What point reads read of level 0.
    pub(crate) l0_reads: L0Reads,
    /// With `optimize_filters_for_memory`, balances the filters of all tables.
    pub(crate) filter_balance: Arc<RateBalance>,
    history: Mutex<History>,
}

/// How often the readers' state was replaced, and the versions still in use.
struct History {
    super_versions: u64,
    versions: Vec<Weak<Version>>,
}

impl CfData {
    /// Has the memtable prefetch the data that reads and writes of these keys will need.
    pub(crate) fn warm<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) {
        self.super_version.load().mem.warm(keys, MAX_SEQUENCE);
    }

    /// Assembles the shared part around its first super version.
    pub(crate) fn new(
        id: u32,
        name: &str,
        options: ColumnFamilyOptions,
        table_options: Arc<TableOptions>,
        tables: Arc<TableCache>,
        first: Arc<SuperVersion>,
    ) -> (Self, Publisher) {
        let versions = vec![Arc::downgrade(&first.version)];
        let history = History { super_versions: 1, versions };
        let data = CfData {
            history: Mutex::ranked(&lock_order::VERSIONS, history),
            id,
            name: name.to_string(),
            icmp: InternalKeyComparator::new(options.comparator.clone()),
            table_keys: TableKeys {
                icmp: InternalKeyComparator::new(options.table_order()),
                stripped: options.strips_timestamps(),
            },
            timestamp_size: options.comparator.timestamp_size(),
            super_version: ArcSwap::new(first),
            ingested: Ingested::default(),
            dropped: AtomicBool::new(false),
            stats: CfCounters::new(options.num_levels as usize),
            filter_balance: Arc::default(),
            l0_reads: L0Reads::default(),
            settings: ArcSwap::from_pointee(CfSettings {
                options: Arc::new(options),
                table: table_options,
            }),
            dirs: tables.dirs().clone(),
            tables: ArcSwap::new(tables),
        };
        (data, Publisher(()))
    }

    /// The path of a table of a version.
    pub(crate) fn table_of(&self, file: &FileMetaData) -> PathBuf {
        self.dirs.table(file.path_id, file.number)
    }

    /// The path of a new table of a memtable, or from outside.
    pub(crate) fn new_table(&self, number: FileNumber) -> PathBuf {
        self.dirs.table(TableDirs::OWN, number)
    }

    /// The path of a blob file: all are in the first directory, as in RocksDB.
    pub(crate) fn blob(&self, number: FileNumber) -> PathBuf {
        self.dirs.blob(number)
    }

    /// The user comparator.
    pub(crate) fn comparator(&self) -> &Comparator {
        &self.icmp.user
    }

    /// The order of the user keys in tables.
    pub(crate) fn table_order(&self) -> &Comparator {
        &self.table_keys.icmp.user
    }

    /// The forms of its keys.
    pub(crate) fn key_forms(&self) -> KeyForms {
        KeyForms::of(self.comparator(), self.table_keys.stripped)
    }

    /// `key` of a memtable as tables have it.
    pub(crate) fn in_tables<'k>(&self, key: UserKey<'k>) -> UserKey<'k> {
        if self.table_keys.stripped { self.icmp.user.without_timestamp(key) } else { key }
    }

    /// The merge operator, if one is configured.
    pub(crate) fn merge_operator(&self) -> Option<Arc<dyn MergeOperator>> {
        self.settings.load().options.merge_operator.clone()
    }

    /// The options as they are now.
    pub(crate) fn options(&self) -> Arc<ColumnFamilyOptions> {
        Arc::clone(&self.settings.load().options)
    }

    /// The open tables.
    pub(crate) fn tables(&self) -> arc_swap::Guard<Arc<TableCache>> {
        self.tables.load()
    }

    /// The table options as they are now.
    pub(crate) fn table_options(&self) -> Arc<TableOptions> {
        Arc::clone(&self.settings.load().table)
    }

    /// Both, of one moment.
    pub(crate) fn settings(&self) -> Arc<CfSettings> {
        self.settings.load_full()
    }

    /// Replaces the options.
    pub(crate) fn set_options(
        &self,
        _: &mut Publisher,
        options: ColumnFamilyOptions,
        table: Arc<TableOptions>,
        tables: Arc<TableCache>,
    ) {
        self.settings.store(Arc::new(CfSettings { options: Arc::new(options), table }));
        self.tables.store(tables);
    }

    /// Readers have `version` from now on.
    pub(crate) fn installed(&self, _: &mut Publisher, version: &Arc<Version>) {
        let mut history = self.history.lock();
        history.super_versions += 1;
        let newest = history.versions.last().map(Weak::as_ptr);
        if newest != Some(Arc::as_ptr(version)) {
            history.versions.retain(|v| v.strong_count() > 0);
            history.versions.push(Arc::downgrade(version));
        }
    }

    /// Number of the present super version, from 1.
    pub(crate) fn super_version_number(&self) -> u64 {
        self.history.lock().super_versions
    }

    /// The versions still in use, oldest first, the present one last.
    pub(crate) fn live_versions(&self) -> Vec<Arc<Version>> {
        self.history.lock().versions.iter().filter_map(Weak::upgrade).collect()
    }

    /// Files were ingested; readers find them in the next super version.
    pub(crate) fn count_ingestion(&self, _: &mut Publisher) {
        self.ingested.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Files were ingested with sequence numbers up to `last`.
    pub(crate) fn ingested_up_to(&self, _: &mut Publisher, last: SequenceNumber) {
        self.ingested.newest_seq.fetch_max(last, Ordering::Release);
    }

    /// See [`Ingested::newest_seq`].
    pub(crate) fn ingested_seq(&self) -> SequenceNumber {
        self.ingested.newest_seq.load(Ordering::Acquire)
    }

    /// See [`Ingested::count`].
    #[inline]
    pub(crate) fn ingestions(&self) -> u64 {
        self.ingested.count.load(Ordering::Relaxed)
    }

    /// The column family is dropped from now on.
    pub(crate) fn mark_dropped(&self, _: &mut Publisher) {
        self.dropped.store(true, Ordering::Release);
    }

    /// The column family was dropped.
    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }
}

/// The filter of a new memtable.
fn memtable_bloom(options: &ColumnFamilyOptions) -> BloomOptions {
    // Of keys with timestamps it would have to leave these out; it only saves time.
    let ratio = match options.comparator.timestamp_size() {
        0 => options.memtable_prefix_bloom_size_ratio,
        _ => 0.0,
    };
    BloomOptions {
        bytes: to_usize(round_down_u64(options.write_buffer_size as f64 * ratio))
            .min(MAX_BLOOM_BYTES),
        prefix: options.prefix_extractor.as_ref().map(Extractor::new),
        whole_keys: options.memtable_whole_key_filtering,
    }
}

/// The largest filter of a memtable: RocksDB counts its bits in 32 bits.
const MAX_BLOOM_BYTES: usize = 1 << 29;

/// A new memtable for a column family.
pub(crate) fn new_memtable(
    options: &ColumnFamilyOptions,
    comparator: &InternalKeyComparator,
    id: u64,
    earliest: SequenceNumber,
    manager: Option<Arc<WriteBufferManager>>,
) -> Arc<MemTable> {
    MemTable::new(memtable_options(options, comparator, manager), id, earliest)
}

/// A memtable of a recovery: it is filled by one task, then sorted and written. A user's order may
/// not be total, which a sort does not take.
pub(crate) fn unread_memtable(
    options: &ColumnFamilyOptions,
    comparator: &InternalKeyComparator,
    id: u64,
    manager: Option<Arc<WriteBufferManager>>,
) -> Arc<MemTable> {
    let mut unread = memtable_options(options, comparator, manager);
    if !matches!(comparator.user, Comparator::Custom(_)) {
        unread.rep = MemTableRep::Vector { reserve: 0 };
    }
    (unread.bloom, unread.dead_run_min) = (BloomOptions::default(), 0);
    MemTable::new(unread, id, 0)
}

fn memtable_options(
    options: &ColumnFamilyOptions,
    comparator: &InternalKeyComparator,
    manager: Option<Arc<WriteBufferManager>>,
) -> MemTableOptions {
    let arena_block_bytes = match options.arena_block_size {
        0 => (options.write_buffer_size / 8).clamp(4096, 1 << 20),
        given => given,
    };
    MemTableOptions {
        rep: options.memtable_factory,
        arena_block_bytes,
        write_buffer_bytes: options.write_buffer_size,
        comparator: comparator.clone(),
        max_range_deletions: options.memtable_max_range_deletions as usize,
        bloom: memtable_bloom(options),
        // Resolving a merge needs the one who adds to be the only one (`engine::write_merge`).
        concurrent_adds: options.max_successive_merges == 0,
        // Which keys are deleted depends on the timestamp that one reads at.
        dead_run_min: match comparator.user.timestamp_size() {
            0 => options.min_tombstones_for_range_conversion,
            _ => 0,
        },
        guard_bytes: options.memtable_protection_bytes_per_key as usize,
        checks: Checks {
            order: options.paranoid_memory_checks,
            checksums: options.memtable_veirfy_per_key_checksum_on_seek,
        },
        write_buffer_manager: manager,
    }
}

/// A handle to a column family; cheap to clone.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-columnfamily-{}", std::process::id()));
/// # let db = pumice::Db::builder(&dir).create(true).open()?;
/// let users = db.create_cf("users", &Default::default())?;
/// db.put_cf(&users, "1", "Ada")?;
/// assert_eq!((users.name(), db.get("1")?.is_none()), ("users", true));
/// # db.close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ColumnFamily {
    pub(crate) data: Arc<CfData>,
    db: Weak<dyn SnapshotOwner>,
}

impl ColumnFamily {
    /// The handle of `data`, which belongs to `db`.
    pub(crate) fn new(data: Arc<CfData>, db: Weak<impl SnapshotOwner + 'static>) -> Self {
        ColumnFamily { data, db }
    }
    /// The id in WAL and MANIFEST records.
    pub fn id(&self) -> u32 {
        self.data.id
    }
    /// The name it was created with; see [`column_family_name`](crate::column_family_name).
    pub fn name(&self) -> &str {
        &self.data.name
    }
    /// The bytes of the name, as files have them and RocksDB's other interfaces know it.
    pub fn name_bytes(&self) -> Cow<'_, [u8]> {
        names::bytes_of(&self.data.name)
    }
    /// The database it belongs to.
    pub(crate) fn owner(&self) -> &Weak<dyn SnapshotOwner> {
        &self.db
    }
    /// It belongs to `db`.
    pub(crate) fn belongs_to(&self, db: &dyn SnapshotOwner) -> bool {
        std::ptr::addr_eq(self.db.as_ptr(), db)
    }
}

/// Handles are equal if they are of the same column family of the same open database.
impl PartialEq for ColumnFamily {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.data, &other.data)
    }
}

impl Eq for ColumnFamily {}

impl std::fmt::Debug for ColumnFamily {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ColumnFamily({}, {:?})", self.data.id, self.data.name)
    }
}
