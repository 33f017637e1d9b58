//! A database whose values expire, in the format of RocksDB's `DBWithTTL`.
//!
//! ```text
//! stored value or operand = user's bytes ‖ fixed32 seconds since 1970 of the write
//! ```
//!
//! The files are those of any database: opened without a time to live, values are four bytes
//! longer. Compactions drop values that are too old; **until then reads return them**. The time to
//! live is not stored: each open says which.
//!
//! Reads and writes are in `ttl_calls`, cursors in `cursor`.
//!
//! Thread safety: as [`Db`]. Invariants: (1) values written through this handle end with a valid
//! time, whatever the clock says: the result of a merge with the time of the merge, an entity that
//! a filter makes has the time in its default column; (2) a value with an invalid time is
//! Corruption in gets and merges, and is kept by compactions; (3) a snapshot, a handle of a column
//! family or an option is the plain database's. Not here: calls that read and write no values,
//! which go through [`DbWithTtl::db`].

mod cursor;
mod ttl_calls;

pub use cursor::{TtlEntries, TtlIterator};

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use pumice_base::extension::{CompactionFilter, FilterDecision, MergeOperator, OpFailureScope};
use pumice_base::wide_columns::{DEFAULT_COLUMN, WideColumn};
use pumice_base::{Error, Result};
use pumice_env::FileSystem;
use pumice_port::sync::Mutex;
use pumice_port::time::wall_seconds;

use crate::db::api::Db;
use crate::engine::open::{ColumnFamilyDescriptor, DEFAULT_COLUMN_FAMILY_NAME};
use crate::options::{
    ColumnFamilyOptions, CompactionFilterContext, CompactionFilterFactory, DbOptions, FileRules,
    LoadedOptions, Options, load_latest, parse_options_file,
};
use crate::read::pinned::PinnedSlice;
use crate::stats::listener::TableFileCreationReason;
use crate::version::family::ColumnFamily;

/// Bytes of the time after a value.
const TIME_BYTES: usize = 4;
/// When RocksDB introduced the feature, 9 May 2013: no value is older.
const TIME_MIN: i32 = 1_368_146_402;

/// A column family to open: its descriptor, and for how many seconds its values live; 0 or less
/// forever.
///
/// Example: that of [`TtlIterator`](crate::TtlIterator).
pub type TtlDescriptor = (ColumnFamilyDescriptor, i32);

/// Id of a column family, and for how long its values live.
type FamilyTtl = (u32, Arc<AtomicI32>);

/// An open database whose values expire, in the format of RocksDB's `DBWithTTL`: each value ends
/// with the second of its write. Compactions drop what is older than the time to live; until then
/// it is read.
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

/// The present time, or the nearest that can be stored: a clock may have been reset to 1970, and
/// what is written then must be readable.
fn present() -> i32 {
    i32::try_from(wall_seconds()).unwrap_or(i32::MAX).max(TIME_MIN)
}

/// The present time in the form stored with values.
fn now() -> [u8; TIME_BYTES] {
    present().to_le_bytes()
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
    ttl > 0 && i64::from(time) + i64::from(ttl) < i64::from(present())
}

fn stripped(found: Option<PinnedSlice>) -> Result<Option<PinnedSlice>> {
    found.map(stripped_value).transpose()
}

fn stripped_value(stored: PinnedSlice) -> Result<PinnedSlice> {
    split(&stored)?;
    Ok(stored.shortened(TIME_BYTES))
}

/// What the user's filter decided about an entry of `time`, with the time where reads look for it:
/// at the end of the value, or of an entity's default column.
fn timed(decision: FilterDecision, time: i32) -> FilterDecision {
    let time = time.to_le_bytes();
    match decision {
        FilterDecision::ChangeValue(value) => FilterDecision::ChangeValue(with_time(&value, time)),
        FilterDecision::ChangeWideColumnEntity(mut columns) => {
            match columns.iter_mut().find(|(name, _)| name == DEFAULT_COLUMN) {
                Some((_, value)) => value.extend_from_slice(&time),
                None => columns.push((DEFAULT_COLUMN.to_vec(), time.to_vec())),
            }
            FilterDecision::ChangeWideColumnEntity(columns)
        }
        FilterDecision::Keep | FilterDecision::Remove => decision,
    }
}

/// Drops values that are too old, and passes the rest to the user's filter.
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
        match &self.user {
            Some(user) => timed(user.filter(level, key, value), time),
            None => FilterDecision::Keep,
        }
    }
    fn filter_entity(&self, level: i32, key: &[u8], columns: &[WideColumn<'_>]) -> FilterDecision {
        // By name ascending: the default one is the first.
        let Some((default, others)) = columns.split_first().filter(|(one, _)| one.is_default())
        else {
            return FilterDecision::Keep;
        };
        let Ok((value, time)) = split(default.value) else { return FilterDecision::Keep };
        if is_stale(time, self.ttl.load(Ordering::Relaxed)) {
            return FilterDecision::Remove;
        }
        let Some(user) = &self.user else { return FilterDecision::Keep };
        let plain: Vec<_> =
            std::iter::once(WideColumn::of_plain(value)).chain(others.iter().copied()).collect();
        timed(user.filter_entity(level, key, &plain), time)
    }
    fn filter_blob_by_key(&self, level: i32, key: &[u8]) -> Option<FilterDecision> {
        // All but a removal needs the time, which is in the value.
        let decision = self.user.as_ref()?.filter_blob_by_key(level, key)?;
        matches!(decision, FilterDecision::Remove).then_some(decision)
    }
    fn filter_merge_operand(&self, level: i32, key: &[u8], stored: &[u8]) -> bool {
        match (&self.user, split(stored)) {
            (Some(user), Ok((operand, _))) => user.filter_merge_operand(level, key, operand),
            _ => false,
        }
    }
}

/// Wraps the filters of the user's factory in `TtlFilter`.
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

/// Applies the user's operator to the user's bytes.
struct TtlMerge(Arc<dyn MergeOperator>);

impl MergeOperator for TtlMerge {
    fn name(&self) -> &str {
        "TtlMergeOperator"
    }
    /// As RocksDB's, so that its `DBWithTTL` finds the user's operator in OPTIONS.
    fn option_text(&self) -> String {
        format!("{{id={};user_operator={};}}", self.name(), self.0.option_text())
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
    fn partial_merge_multi(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        let bytes = |stored| split(stored).ok().map(|(bytes, _)| bytes);
        let operands = operands.iter().map(|stored| bytes(stored)).collect::<Option<Vec<_>>>()?;
        Some(with_time(&self.0.partial_merge_multi(key, &operands)?, now()))
    }
    fn op_failure_scope(&self, key: &[u8]) -> OpFailureScope {
        self.0.op_failure_scope(key)
    }
}

/// The member `name` of an object that RocksDB wrote as text; None if it has no such member.
fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = object.split_once(&format!(";{name}="))?;
    let mut depth = 0usize;
    let end = rest.find(|c| {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ';' | '}' => return depth == 0,
            _ => {}
        }
        false
    });
    Some(&rest[..end.unwrap_or(rest.len())])
}

/// The text of an OPTIONS file that RocksDB's `DBWithTTL` wrote, with the user's objects in place
/// of the wrappers around them.
fn with_users_objects(text: &[u8]) -> Vec<u8> {
    const AROUND: [(&str, &str, &str); 3] = [
        ("merge_operator={", "id=TtlMergeOperator;", "user_operator"),
        ("compaction_filter={", "id=TtlCompactionFilter;", "user_filter"),
        ("compaction_filter_factory={", "id=TtlCompactionFilterFactory;", "user_filter_factory"),
    ];
    let line = |bytes: &[u8]| {
        let line = String::from_utf8_lossy(bytes);
        let plain = line.trim_start();
        let around = AROUND.iter().find(|(option, id, _)| {
            plain.strip_prefix(option).is_some_and(|object| object.starts_with(id))
        });
        match around {
            Some((option, _, name)) => {
                let user = member(plain, name).unwrap_or("nullptr");
                format!("  {}={user}\n", option.trim_end_matches("={")).into_bytes()
            }
            None => [bytes, b"\n"].concat(),
        }
    };
    text.split(|byte| *byte == b'\n').flat_map(line).collect()
}

/// The seconds that values live; None for forever.
fn lifetime(ttl: i32) -> Option<u64> {
    u64::try_from(ttl).ok().filter(|seconds| *seconds > 0)
}

/// Refuses keys with timestamps: values would expire by a time that is not theirs.
fn check_order(options: &ColumnFamilyOptions) -> Result<()> {
    match options.comparator.timestamp_size() {
        0 => Ok(()),
        _ => Err(Error::not_supported("a time to live of keys with timestamps")),
    }
}

/// `options` of a column family whose values live for `ttl`.
fn expiring(options: &ColumnFamilyOptions, ttl: &Arc<AtomicI32>) -> ColumnFamilyOptions {
    let mut options = options.clone();
    if let Some(seconds) = lifetime(ttl.load(Ordering::Relaxed)) {
        // All that is in a file of that age is too old: nothing of it is written again.
        options.rewrite_after(seconds);
    }
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
    /// As [`load_latest_options`](crate::options::load_latest_options), of a database whose values
    /// expire: if RocksDB's `DBWithTTL` wrote the file, the operator and the filters returned are
    /// the user's, as this handle needs them to open.
    ///
    /// # Errors
    /// As there.
    pub fn load_latest_options(
        fs: &dyn FileSystem,
        path: &Path,
        rules: FileRules,
    ) -> Result<Option<LoadedOptions>> {
        load_latest(fs, path, &|text| parse_options_file(&with_users_objects(text), rules))
    }

    /// Opens or creates a database with only the default column family, whose values live for `ttl`
    /// seconds; 0 or less forever.
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
        families.iter().try_for_each(|(family, _)| check_order(&family.options))?;
        let families: Vec<_> = families.iter().zip(&ttls).map(descriptor).collect();
        let (db, handles) = open(&families)?;
        let ttls = handles.iter().map(ColumnFamily::id).zip(ttls).collect();
        Ok((DbWithTtl { db, ttls: Arc::new(Mutex::foreground(ttls)) }, handles))
    }

    /// The plain database, for calls that read and write no values. Values there are four bytes
    /// longer.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Creates a column family whose values live for this many seconds; 0 or less forever.
    ///
    /// # Errors
    /// As [`Db::create_column_family`].
    pub fn create_column_family(
        &self,
        options: &ColumnFamilyOptions,
        name: &str,
        ttl: i32,
    ) -> Result<ColumnFamily> {
        check_order(options)?;
        let ttl = Arc::new(AtomicI32::new(ttl));
        let family = self.db.create_column_family(&expiring(options, &ttl), name)?;
        self.ttls.lock().push((family.id(), ttl));
        Ok(family)
    }

    /// From now on compactions of `cf` keep values for this many seconds; 0 or less forever.
    ///
    /// # Errors
    /// I/O of the OPTIONS file, which has when files are compacted because of their age;
    /// InvalidArgument for a handle of another database, or of a column family that was created
    /// through the plain one.
    pub fn set_ttl(&self, cf: &ColumnFamily, ttl: i32) -> Result<()> {
        let options = self.db.column_family_options(cf)?;
        let ttls = self.ttls.lock();
        let known = ttls.iter().find(|(id, _)| *id == cf.id());
        let none = || Error::invalid_argument("the column family has no time to live");
        let (_, known) = known.ok_or_else(none)?;
        let old = known.swap(ttl, Ordering::Relaxed);
        drop(ttls);
        // What `expiring` has set follows.
        match (lifetime(old), lifetime(ttl)) {
            (Some(old), Some(new)) if old == options.periodic_compaction_seconds && old != new => {
                let seconds = new.to_string();
                self.db.set_options_cf(cf, &[("periodic_compaction_seconds", seconds.as_str())])
            }
            _ => Ok(()),
        }
    }
}
