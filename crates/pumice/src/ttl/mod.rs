//! A database whose values expire, in the format of RocksDB's `DBWithTTL`.
//!
//! ```text
//! stored value or operand = user's bytes ‖ fixed32 seconds since 1970 of the write
//! ```
//!
//! The files are those of any database: who opens them without a time to live sees four bytes more.
//! Compactions drop values that are too old; **until then reads return them**. The time to live is
//! not stored: each open says which.
//!
//! Thread safety: as [`Db`].
//! Invariants: (1) what goes through this handle has a time at its end, the result of a merge that
//! of the merge; (2) a value whose time cannot be is Corruption in gets and merges, and is kept by
//! compactions; (3) a snapshot, a handle of a column family or an option is the plain database's.
//! Not here: what reads and writes no values, which goes through [`DbWithTtl::db`].

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use pumice_base::extension::{CompactionFilter, FilterDecision, MergeOperator};
use pumice_base::narrow::low_u32;
use pumice_base::{Error, Result, ValueType};
use pumice_port::sync::Mutex;
use pumice_port::time::wall_seconds;

use crate::commit::batch::{BatchRecord, WriteBatch};
use crate::db::api::Db;
use crate::engine::open::{ColumnFamilyDescriptor, DEFAULT_COLUMN_FAMILY_NAME};
use crate::options::requests::{ReadOptions, WriteOptions};
use crate::options::{
    ColumnFamilyOptions, CompactionFilterContext, CompactionFilterFactory, DbOptions, Options,
};
use crate::read::entries::Entries;
use crate::read::iterator::DbIterator;
use crate::read::pinned::PinnedSlice;
use crate::stats::listener::TableFileCreationReason;
use crate::version::family::ColumnFamily;

/// Bytes of the time after a value.
const TIME_BYTES: usize = 4;
/// When RocksDB got the feature, 9 May 2013: no value is older.
const TIME_MIN: i32 = 1_368_146_402;

/// A column family to open: its descriptor, and for how many seconds its values live; 0 or less for
/// ever.
pub type TtlDescriptor = (ColumnFamilyDescriptor, i32);

/// Id of a column family, and for how long its values live.
type FamilyTtl = (u32, Arc<AtomicI32>);

/// An open database whose values expire. See the module head.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// use pumice::{DbWithTtl, Options};
/// # let dir = std::env::temp_dir().join(format!("pumice-ttl-{}", std::process::id()));
/// let mut options = Options::default();
/// options.db.create_if_missing = true;
/// let sessions = DbWithTtl::open(&options, &dir, 3600)?; // Gone after an hour, or a little more.
/// sessions.put("session", "Ada")?;
/// assert_eq!(sessions.get("session")?.as_deref(), Some(&b"Ada"[..]));
/// # sessions.db().close()?;
/// # pumice::Db::destroy(&options, &dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct DbWithTtl {
    db: Db,
    /// By the id of the column family.
    ttls: Arc<Mutex<Vec<FamilyTtl>>>,
}

impl std::fmt::Debug for DbWithTtl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DbWithTtl").field("db", &self.db).finish_non_exhaustive()
    }
}

/// The present, as values have it.
fn now() -> [u8; TIME_BYTES] {
    low_u32(wall_seconds()).to_le_bytes()
}

/// The user's bytes of `stored`, and when they were written.
fn split(stored: &[u8]) -> Result<(&[u8], i32)> {
    let Some((value, time)) = stored.split_last_chunk::<TIME_BYTES>() else {
        return Err(Error::corruption("Error: value's length less than timestamp's\n"));
    };
    let time = i32::from_le_bytes(*time);
    if time < TIME_MIN {
        return Err(Error::corruption("Error: Timestamp < ttl feature release time!\n"));
    }
    Ok((value, time))
}

fn with_time(value: &[u8], time: [u8; TIME_BYTES]) -> Vec<u8> {
    [value, &time].concat()
}

fn is_stale(time: i32, ttl: i32) -> bool {
    ttl > 0 && i64::from(time) + i64::from(ttl) < wall_seconds() as i64
}

fn stripped(found: Option<PinnedSlice>) -> Result<Option<PinnedSlice>> {
    let Some(stored) = found else { return Ok(None) };
    split(&stored)?;
    Ok(Some(stored.shortened(TIME_BYTES)))
}

/// Drops what is too old, and asks the user's filter about the rest.
struct TtlFilter {
    ttl: Arc<AtomicI32>,
    user: Option<Arc<dyn CompactionFilter>>,
}

impl CompactionFilter for TtlFilter {
    fn name(&self) -> &str {
        "TtlCompactionFilter"
    }
    fn filter(&self, level: i32, key: &[u8], stored: &[u8]) -> FilterDecision {
        let Ok((value, time)) = split(stored) else { return FilterDecision::Keep };
        if is_stale(time, self.ttl.load(Ordering::Relaxed)) {
            return FilterDecision::Remove;
        }
        let decision = self.user.as_ref().map(|user| user.filter(level, key, value));
        match decision.unwrap_or(FilterDecision::Keep) {
            FilterDecision::ChangeValue(value) => {
                FilterDecision::ChangeValue(with_time(&value, time.to_le_bytes()))
            }
            other => other,
        }
    }
    fn filter_merge_operand(&self, level: i32, key: &[u8], stored: &[u8]) -> bool {
        match (&self.user, split(stored)) {
            (Some(user), Ok((operand, _))) => user.filter_merge_operand(level, key, operand),
            _ => false,
        }
    }
}

/// Puts `TtlFilter` around what the user's factory makes.
struct TtlFactory {
    ttl: Arc<AtomicI32>,
    user: Arc<dyn CompactionFilterFactory>,
}

impl CompactionFilterFactory for TtlFactory {
    fn name(&self) -> &str {
        "TtlCompactionFilterFactory"
    }
    fn should_filter(&self, reason: TableFileCreationReason) -> bool {
        reason == TableFileCreationReason::Compaction || self.user.should_filter(reason)
    }
    fn create_compaction_filter(
        &self,
        context: &CompactionFilterContext,
    ) -> Option<Arc<dyn CompactionFilter>> {
        let wanted = self.user.should_filter(context.reason);
        let user = wanted.then(|| self.user.create_compaction_filter(context)).flatten();
        Some(Arc::new(TtlFilter { ttl: Arc::clone(&self.ttl), user }))
    }
}

/// The user's operator on the user's bytes.
struct TtlMerge(Arc<dyn MergeOperator>);

impl MergeOperator for TtlMerge {
    fn name(&self) -> &str {
        "TtlMergeOperator"
    }
    fn full_merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>> {
        let bytes = |stored| split(stored).ok().map(|(bytes, _)| bytes);
        let existing = match existing {
            Some(stored) => Some(bytes(stored)?),
            None => None,
        };
        let operands = operands.iter().map(|stored| bytes(stored)).collect::<Option<Vec<_>>>()?;
        let merged = self.0.full_merge(key, existing, &operands)?;
        Some(with_time(&merged, now()))
    }
    fn partial_merge(&self, key: &[u8], left: &[u8], right: &[u8]) -> Option<Vec<u8>> {
        let (left, right) = (split(left).ok()?.0, split(right).ok()?.0);
        Some(with_time(&self.0.partial_merge(key, left, right)?, now()))
    }
}

/// `options` of a column family whose values live for `ttl`.
fn expiring(options: &ColumnFamilyOptions, ttl: &Arc<AtomicI32>) -> ColumnFamilyOptions {
    let mut options = options.clone();
    match options.compaction_filter_factory.take() {
        Some(user) if options.compaction_filter.is_none() => {
            let ttl = Arc::clone(ttl);
            options.compaction_filter_factory = Some(Arc::new(TtlFactory { ttl, user }));
        }
        _ => {
            let (ttl, user) = (Arc::clone(ttl), options.compaction_filter.take());
            options.compaction_filter = Some(Arc::new(TtlFilter { ttl, user }));
        }
    }
    if let Some(user) = options.merge_operator.take() {
        options.merge_operator = Some(Arc::new(TtlMerge(user)));
    }
    options
}

impl DbWithTtl {
    /// Opens or creates a database with only the default column family, whose values live for so
    /// many seconds; 0 or less for ever.
    ///
    /// # Errors
    /// As [`Db::open`].
    pub fn open(options: &Options, path: impl AsRef<Path>, ttl: i32) -> Result<DbWithTtl> {
        let only = ColumnFamilyDescriptor::new(DEFAULT_COLUMN_FAMILY_NAME, options.cf.clone());
        Ok(Self::open_cf(&options.db, path, &[(only, ttl)])?.0)
    }

    /// As [`Db::open_cf`].
    ///
    /// # Errors
    /// As [`Db::open_cf`].
    pub fn open_cf(
        options: &DbOptions,
        path: impl AsRef<Path>,
        families: &[TtlDescriptor],
    ) -> Result<(DbWithTtl, Vec<ColumnFamily>)> {
        Self::wrap(families, |families| Db::open_cf(options, path, families))
    }

    /// As [`Db::open_read_only`].
    ///
    /// # Errors
    /// As [`Db::open_read_only`].
    pub fn open_read_only(
        options: &DbOptions,
        path: impl AsRef<Path>,
        families: &[ColumnFamilyDescriptor],
        error_if_wal_exists: bool,
    ) -> Result<(DbWithTtl, Vec<ColumnFamily>)> {
        let families: Vec<_> = families.iter().map(|family| (family.clone(), 0)).collect();
        Self::wrap(&families, |families| {
            Db::open_read_only(options, path, families, error_if_wal_exists)
        })
    }

    fn wrap(
        families: &[TtlDescriptor],
        open: impl FnOnce(&[ColumnFamilyDescriptor]) -> Result<(Db, Vec<ColumnFamily>)>,
    ) -> Result<(DbWithTtl, Vec<ColumnFamily>)> {
        let ttls: Vec<_> = families.iter().map(|(_, ttl)| Arc::new(AtomicI32::new(*ttl))).collect();
        let descriptor = |((family, _), ttl): (&TtlDescriptor, &Arc<AtomicI32>)| {
            ColumnFamilyDescriptor::new(family.name.as_str(), expiring(&family.options, ttl))
        };
        let families: Vec<_> = families.iter().zip(&ttls).map(descriptor).collect();
        let (db, handles) = open(&families)?;
        let ttls = handles.iter().map(ColumnFamily::id).zip(ttls).collect();
        Ok((DbWithTtl { db, ttls: Arc::new(Mutex::foreground(ttls)) }, handles))
    }

    /// The plain database: what reads and writes no values. Values there have four bytes more.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Creates a column family whose values live for so many seconds; 0 or less for ever.
    ///
    /// # Errors
    /// As [`Db::create_column_family`].
    pub fn create_column_family(
        &self,
        options: &ColumnFamilyOptions,
        name: &str,
        ttl: i32,
    ) -> Result<ColumnFamily> {
        let ttl = Arc::new(AtomicI32::new(ttl));
        let family = self.db.create_column_family(&expiring(options, &ttl), name)?;
        self.ttls.lock().push((family.id(), ttl));
        Ok(family)
    }

    /// From now on compactions of `cf` keep values for so many seconds; 0 or less for ever.
    ///
    /// # Errors
    /// InvalidArgument for a handle of another database, or of a column family that was created
    /// through the plain one.
    pub fn set_ttl(&self, cf: &ColumnFamily, ttl: i32) -> Result<()> {
        self.db.column_family_options(cf)?;
        let ttls = self.ttls.lock();
        let known = ttls.iter().find(|(id, _)| *id == cf.id());
        let (_, known) = known.ok_or_else(|| Error::invalid_argument("it has no time to live"))?;
        known.store(ttl, Ordering::Relaxed);
        Ok(())
    }

    /// As [`Db::get`]. A value that is too old is returned as long as no compaction has dropped it.
    ///
    /// # Errors
    /// As [`Db::get`]; Corruption for a value without a time that can be.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<PinnedSlice>> {
        stripped(self.db.get(key)?)
    }
    /// [`Self::get`] in `cf` with options.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn get_cf_opt(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<PinnedSlice>> {
        stripped(self.db.get_cf_opt(options, cf, key)?)
    }
    /// As [`Db::multi_get_cf_opt`].
    pub fn multi_get_cf_opt<K: AsRef<[u8]>>(
        &self,
        options: &ReadOptions,
        keys: &[(&ColumnFamily, K)],
    ) -> Vec<Result<Option<PinnedSlice>>> {
        let found = self.db.multi_get_cf_opt(options, keys);
        found.into_iter().map(|answer| answer.and_then(stripped)).collect()
    }

    /// As [`Db::put`].
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.db.put(key, with_time(value.as_ref(), now()))
    }
    /// [`Self::put`] in `cf` with options.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn put_cf_opt(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.db.put_cf_opt(options, cf, key, with_time(value.as_ref(), now()))
    }
    /// As [`Db::merge`].
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.db.merge(key, with_time(operand.as_ref(), now()))
    }
    /// [`Self::merge`] in `cf` with options.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn merge_cf_opt(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.db.merge_cf_opt(options, cf, key, with_time(operand.as_ref(), now()))
    }

    /// As [`Db::write_opt`]: all values of the batch have one time.
    ///
    /// # Errors
    /// As [`Db::write_opt`]; NotSupported for wide columns and blobs.
    pub fn write(&self, options: &WriteOptions, updates: &WriteBatch) -> Result<()> {
        updates.status()?;
        updates.check_owner(&**self.db.inner())?;
        let (mut batch, time) = (WriteBatch::new(), now());
        for record in updates.iter() {
            let (id, value_type, key, value) = match record? {
                BatchRecord::Entry { column_family, value_type, key, value } => {
                    (column_family, value_type, key, value)
                }
                BatchRecord::LogData(blob) => {
                    batch.put_log_data(blob);
                    continue;
                }
                BatchRecord::Marker(..) => {
                    return Err(Error::not_supported("transactions in a database with TTL"));
                }
            };
            match value_type {
                ValueType::Value => batch.put_cf(id, key, with_time(value, time)),
                ValueType::Merge => batch.merge_cf(id, key, with_time(value, time)),
                ValueType::Deletion => batch.delete_cf(id, key),
                ValueType::SingleDeletion => batch.single_delete_cf(id, key),
                ValueType::RangeDeletion => batch.delete_range_cf(id, key, value),
                other => {
                    let text = format!("{other:?} in a database with TTL");
                    return Err(Error::not_supported(text));
                }
            }
        }
        self.db.write_opt(options, &mut batch)
    }

    /// As [`Db::cursor_cf_opt`].
    ///
    /// # Errors
    /// As [`Db::cursor_cf_opt`].
    pub fn cursor_cf_opt(&self, options: &ReadOptions, cf: &ColumnFamily) -> Result<TtlIterator> {
        Ok(TtlIterator(self.db.cursor_cf_opt(options, cf)?))
    }
    /// As [`Db::iter_cf_opt`].
    ///
    /// # Errors
    /// As [`Db::iter_cf_opt`].
    pub fn iter_cf_opt(&self, options: &ReadOptions, cf: &ColumnFamily) -> Result<TtlEntries> {
        Ok(TtlEntries(self.db.iter_cf_opt(options, cf)?))
    }
}

/// A cursor: moved as [`DbIterator`], which it gives; `value` is without its time.
#[derive(Debug)]
pub struct TtlIterator(DbIterator);

impl TtlIterator {
    /// The value under the cursor; None if it is not valid, or for a value too short to have a
    /// time.
    pub fn value(&self) -> Option<&[u8]> {
        Some(self.0.value()?.split_last_chunk::<TIME_BYTES>()?.0)
    }
    /// Key and value under the cursor; None where one of them is.
    pub fn item(&self) -> Option<(&[u8], &[u8])> {
        Some((self.key()?, self.value()?))
    }
    /// When it was written, in seconds since 1970.
    pub fn written_at(&self) -> Option<i32> {
        Some(i32::from_le_bytes(*self.0.value()?.last_chunk()?))
    }
}

impl Deref for TtlIterator {
    type Target = DbIterator;
    fn deref(&self) -> &DbIterator {
        &self.0
    }
}

impl DerefMut for TtlIterator {
    fn deref_mut(&mut self) -> &mut DbIterator {
        &mut self.0
    }
}

/// Keys and values as [`Entries`], without their times.
#[derive(Debug)]
#[must_use = "nothing is read before it is iterated over"]
pub struct TtlEntries(Entries);

fn entry(item: Result<(Vec<u8>, Vec<u8>)>) -> Result<(Vec<u8>, Vec<u8>)> {
    let (key, mut value) = item?;
    let bytes = split(&value)?.0.len();
    value.truncate(bytes);
    Ok((key, value))
}

impl Iterator for TtlEntries {
    type Item = Result<(Vec<u8>, Vec<u8>)>;
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(entry)
    }
}

impl DoubleEndedIterator for TtlEntries {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(entry)
    }
}
