//! A database at a time, for column families whose keys have timestamps.
//!
//! Thread safety: as the handle. Calls may suspend where those of [`Db`] do.

use std::path::Path;

use pumice_base::{Error, Result};

use crate::commit::batch::WriteBatch;
use crate::db::api::Db;
use crate::db::store::Store;
use crate::engine::open::ColumnFamilyDescriptor;
use crate::options::requests::{
    BottommostLevelCompaction, CompactRangeOptions, ReadOptions, WriteOptions,
};
use crate::options::{CompactionStyle, DbOptions};
use crate::read::entries::{Entries, Limits};
use crate::read::iterator::DbIterator;
use crate::read::key_bounds::KeyBounds;
use crate::read::pinned::PinnedSlice;
use crate::read::timed::TimedValue;
use crate::version::family::ColumnFamily;

/// What can be a timestamp: a number for the built-in orders, bytes for others.
///
/// Example: that of [`At`].
pub trait Timestamp {
    /// Its bytes, as keys end with them.
    fn to_bytes(&self) -> Vec<u8>;
}

/// The bytes of the built-in orders: little-endian.
impl Timestamp for u64 {
    fn to_bytes(&self) -> Vec<u8> {
        self.to_le_bytes().to_vec()
    }
}

impl Timestamp for [u8] {
    fn to_bytes(&self) -> Vec<u8> {
        self.to_vec()
    }
}

impl Timestamp for Vec<u8> {
    fn to_bytes(&self) -> Vec<u8> {
        self.clone()
    }
}

impl<T: Timestamp + ?Sized> Timestamp for &T {
    fn to_bytes(&self) -> Vec<u8> {
        (**self).to_bytes()
    }
}

/// A column family at a time: reads see what was written at it or before, writes happen at it.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-at-{}", std::process::id()));
/// use pumice::{BYTEWISE_U64_TS, Comparator, Db, TimedValue, Timestamp};
/// let db = Db::builder(&dir)
///     .create(true)
///     .configure(|options| {
///         options.cf.comparator = Comparator::builtin(BYTEWISE_U64_TS).unwrap_or_default();
///     })
///     .open()?;
/// db.at(1).put("key", "old")?;
/// db.at(3).put("key", "new")?;
/// db.at(5).delete("key")?;
/// assert_eq!(db.at(2).get("key")?.as_deref(), Some(&b"old"[..]));
/// assert_eq!(db.at(4).get("key")?.as_deref(), Some(&b"new"[..]));
/// assert_eq!(db.at(5).get("key")?, None);
/// assert_eq!(5u64.to_bytes(), [5, 0, 0, 0, 0, 0, 0, 0]);
/// let found: Option<TimedValue> = db.at(2).get_with_timestamp("key")?;
/// assert_eq!(found.map(|(_, timestamp)| timestamp), Some(1u64.to_bytes()));
/// # db.close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct At<'d> {
    db: &'d Db,
    cf: ColumnFamily,
    read: ReadOptions,
    write: WriteOptions,
    timestamp: Vec<u8>,
}

impl Db {
    /// Opens a database with these column families, and drops what was written at times after
    /// `trim_ts` in those whose keys have timestamps: it is as it was at that time. The low of the
    /// history stays.
    ///
    /// # Errors
    /// As [`Db::open_cf`]; InvalidArgument for a timestamp of another length and with
    /// `avoid_flush_during_recovery`; NotSupported with FIFO compaction, which rewrites nothing,
    /// and with `persist_user_defined_timestamps=false`, where the times of what is in logs are
    /// lost before it could be dropped.
    pub fn open_and_trim_history(
        options: &DbOptions,
        path: impl AsRef<Path>,
        families: &[ColumnFamilyDescriptor],
        trim_ts: impl Timestamp,
    ) -> Result<(Db, Vec<ColumnFamily>)> {
        if options.avoid_flush_during_recovery {
            return Err(Error::invalid_argument(
                "avoid_flush_during_recovery incompatible with OpenAndTrimHistory",
            ));
        }
        let time = trim_ts.to_bytes();
        let mut families = families.to_vec();
        let mut held = Vec::new();
        for family in families.iter_mut().filter(|f| f.options.comparator.timestamp_size() > 0) {
            if family.options.comparator.timestamp_size() != time.len() {
                return Err(Error::invalid_argument("Timestamp size mismatch"));
            }
            if family.options.strips_timestamps() {
                let text = "OpenAndTrimHistory with persist_user_defined_timestamps=false";
                return Err(Error::not_supported(text));
            }
            if family.options.compaction_style == CompactionStyle::Fifo {
                return Err(Error::not_supported("OpenAndTrimHistory with FIFO compaction"));
            }
            // An automatic compaction beside the trim could write what is to be dropped to a level
            // that the trim has passed.
            if !std::mem::replace(&mut family.options.disable_auto_compactions, true) {
                held.push(family.name.clone());
            }
        }
        let (db, handles) = Db::open_cf(options, path, &families)?;
        let how = CompactRangeOptions {
            bottommost_level_compaction: BottommostLevelCompaction::Force,
            trim_above: Some(time),
            ..CompactRangeOptions::default()
        };
        let trim = |cf: &ColumnFamily| {
            db.compact_range_cf(&how, cf, None, None)?;
            match held.iter().any(|name| *name == cf.data.name) {
                true => db.set_options_cf(cf, &[("disable_auto_compactions", "false")]),
                false => Ok(()),
            }
        };
        let mut timed = handles.iter().filter(|cf| cf.data.timestamp_size > 0);
        match timed.try_for_each(trim) {
            Ok(()) => Ok((db, handles)),
            Err(error) => {
                drop(handles);
                // The first failure is the one to report.
                drop(db.close());
                Err(error)
            }
        }
    }

    /// The default column family, whose keys have timestamps, at that time.
    pub fn at(&self, timestamp: impl Timestamp) -> At<'_> {
        let cf = Store::default_column_family(self).clone();
        let (read, write) = (ReadOptions::DEFAULT, WriteOptions::default());
        At { db: self, cf, read, write, timestamp: timestamp.to_bytes() }
    }

    /// The timestamp below which versions may be gone of `cf`; None if all are kept.
    ///
    /// # Errors
    /// InvalidArgument if its keys have no timestamps.
    pub fn full_history_ts_low(&self, cf: &ColumnFamily) -> Result<Option<Vec<u8>>> {
        self.inner().full_history_ts_low(self.live(cf)?)
    }

    /// From now on versions of `cf` that are older than the newest one below `timestamp` are
    /// dropped by flushes and compactions, and reads at earlier times are refused. RocksDB refuses
    /// them only after the next flush or compaction.
    ///
    /// # Errors
    /// InvalidArgument if its keys have no timestamps or those of another length, or it was raised
    /// to a newer one before; I/O of the MANIFEST.
    pub fn increase_full_history_ts_low(
        &self,
        cf: &ColumnFamily,
        timestamp: impl Timestamp,
    ) -> Result<()> {
        self.inner().increase_full_history_ts_low(self.live(cf)?, &timestamp.to_bytes())
    }
}

impl At<'_> {
    /// The same in `cf`.
    #[must_use]
    pub fn in_cf(self, cf: &ColumnFamily) -> Self {
        At { cf: cf.clone(), ..self }
    }

    /// The same for reads with these options, but for their timestamp.
    #[must_use]
    pub fn reading(self, read: ReadOptions) -> Self {
        At { read, ..self }
    }

    /// The same for writes with these options.
    #[must_use]
    pub fn writing(self, write: WriteOptions) -> Self {
        At { write, ..self }
    }

    /// The options with which it reads.
    pub fn read_options(&self) -> ReadOptions {
        ReadOptions { timestamp: Some(self.timestamp.clone()), ..self.read.clone() }
    }

    /// The value of `key`, or None.
    ///
    /// # Errors
    /// As [`Db::get`]; InvalidArgument if keys have no timestamps, or those of another length, or
    /// the history of that time may be gone. The last is true of all reads here.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<PinnedSlice>> {
        Store::get(self.db, &self.read_options(), &self.cf, key.as_ref())
    }

    /// The value of `key` with the time it was written at, or None.
    ///
    /// # Errors
    /// As [`At::get`].
    pub fn get_with_timestamp(&self, key: impl AsRef<[u8]>) -> Result<Option<TimedValue>> {
        self.db.get_with_timestamp(&self.read_options(), &self.cf, key.as_ref())
    }

    /// The values of several keys, all as of one moment.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<Option<PinnedSlice>>> {
        let keys: Vec<_> = keys.iter().map(|key| (&self.cf, key.as_ref())).collect();
        Store::multi_get(self.db, &self.read_options(), &keys)
    }

    /// A cursor over the keys, without their timestamps.
    ///
    /// # Errors
    /// As [`Db::cursor`] and [`At::get`].
    pub fn cursor(&self) -> Result<DbIterator> {
        Store::cursor(self.db, &self.read_options(), &self.cf)
    }

    /// A cursor over all versions from `from` on, see [`ReadOptions::iter_start_ts`].
    ///
    /// # Errors
    /// As [`At::cursor`].
    pub fn versions_since(&self, from: impl Timestamp) -> Result<DbIterator> {
        let options = ReadOptions { iter_start_ts: Some(from.to_bytes()), ..self.read_options() };
        Store::cursor(self.db, &options, &self.cf)
    }

    /// The keys, without their timestamps, and values of a range.
    ///
    /// # Errors
    /// As [`At::cursor`].
    pub fn range<K>(&self, range: impl KeyBounds<K>) -> Result<Entries> {
        let limits = Limits::of(&range);
        let options = limits.bound(&self.read_options())?;
        Ok(Entries::new(Store::cursor(self.db, &options, &self.cf)?, limits))
    }

    /// Sets `key` to `value`.
    ///
    /// # Errors
    /// As [`Db::put`]; InvalidArgument if keys have no timestamps or those of another length. The
    /// last is true of all writes here.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.update(|batch| batch.put_cf_with_ts(&self.cf, key, &self.timestamp, value))
    }

    /// Deletes `key`.
    ///
    /// # Errors
    /// As [`At::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.update(|batch| batch.delete_cf_with_ts(&self.cf, key, &self.timestamp))
    }

    /// Deletes `key`, which was put once and not merged since it was last deleted.
    ///
    /// # Errors
    /// As [`At::put`].
    pub fn single_delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.update(|batch| batch.single_delete_cf_with_ts(&self.cf, key, &self.timestamp))
    }

    /// Adds a merge operand to `key`.
    ///
    /// # Errors
    /// As [`At::put`] and [`Db::merge`].
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.update(|batch| batch.merge_cf_with_ts(&self.cf, key, &self.timestamp, operand))
    }

    /// Deletes every key in `[begin, end)`.
    ///
    /// # Errors
    /// As [`At::put`] and [`Db::delete_range`].
    pub fn delete_range(&self, begin: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        self.update(|batch| batch.delete_range_cf_with_ts(&self.cf, begin, end, &self.timestamp))
    }

    /// Applies a batch whose updates were added without timestamps, through handles of their
    /// column families: those whose keys have timestamps happen at this time.
    ///
    /// # Errors
    /// As [`At::put`] and [`Db::write`].
    pub fn write(&self, updates: &mut WriteBatch) -> Result<()> {
        self.db.set_timestamps(updates, &self.timestamp)?;
        Store::write(self.db, &self.write, updates)
    }

    fn update(&self, fill: impl FnOnce(&mut WriteBatch)) -> Result<()> {
        self.db.live(&self.cf)?;
        let mut batch = WriteBatch::new();
        fill(&mut batch);
        Store::write(self.db, &self.write, &mut batch)
    }
}

impl Db {
    /// The value of `key` as of the time of `options`, with its timestamp.
    ///
    /// # Errors
    /// As [`At::get`].
    pub fn get_with_timestamp(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: &[u8],
    ) -> Result<Option<TimedValue>> {
        self.inner().get_at(options, self.data(cf)?, key)
    }

    /// [`Db::get_with_timestamp`] of several keys, all as of one moment.
    pub fn multi_get_with_timestamp(
        &self,
        options: &ReadOptions,
        keys: &[(&ColumnFamily, &[u8])],
    ) -> Vec<Result<Option<TimedValue>>> {
        match keys.iter().try_for_each(|(cf, _)| self.data(cf).map(drop)) {
            Ok(()) => self.inner().multi_get_at(options, keys),
            Err(error) => keys.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    /// Gives the updates of families with timestamps this one, as
    /// [`WriteBatch::update_timestamps`] does with the sizes of this database.
    ///
    /// # Errors
    /// As there.
    pub fn set_timestamps(&self, updates: &mut WriteBatch, timestamp: &[u8]) -> Result<()> {
        let families = self.inner().cfs.load_full();
        updates.update_timestamps(timestamp, |id| Some(families.by_id(id)?.timestamp_size))
    }
}
