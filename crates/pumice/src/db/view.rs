//! `DbView`: reads as of one moment, without options at each call.
//!
//! Thread safety: as [`Db`]. Calls suspend. The view keeps its snapshot, and so what it shows,
//! until it is dropped.

use pumice_base::Result;

use crate::db::api::Db;
use crate::options::requests::ReadOptions;
use crate::read::entries::Entries;
use crate::read::key_bounds::KeyBounds;
use crate::read::pinned::PinnedSlice;
use crate::snapshot::Snapshot;
use crate::version::family::ColumnFamily;

/// A database as it was at one moment, made by [`Db::view`]: a snapshot that is read by itself.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// use pumice::Db;
/// # let dir = std::env::temp_dir().join(format!("pumice-view-{}", std::process::id()));
/// let db = Db::builder(&dir).create(true).open()?;
/// db.put("a", "1")?;
/// let before = db.view();
/// db.put("a", "2")?;
/// db.put("b", "3")?;
/// assert_eq!(before.get("a")?.as_deref(), Some(&b"1"[..]));
/// assert_eq!(before.iter()?.count(), 1);
/// assert_eq!(db.get("a")?.as_deref(), Some(&b"2"[..]));
/// # db.close()?;
/// # Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct DbView {
    db: Db,
    options: ReadOptions,
    snapshot: Snapshot,
}

impl Db {
    /// The database as it is now, to be read whatever is written later.
    pub fn view(&self) -> DbView {
        let snapshot = self.snapshot();
        DbView { db: self.clone(), options: ReadOptions::at(&snapshot), snapshot }
    }
}

impl DbView {
    /// The snapshot, for calls that take options.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The value of `key`, or None.
    ///
    /// # Errors
    /// Those of [`Db::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<PinnedSlice>> {
        self.db.get_opt(&self.options, key)
    }

    /// [`Self::get`] in `cf`.
    ///
    /// # Errors
    /// As there.
    pub fn get_cf(&self, cf: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<Option<PinnedSlice>> {
        self.db.get_cf_opt(&self.options, cf, key)
    }

    /// The keys and values in key order, from both ends.
    ///
    /// # Errors
    /// Those of [`Db::iter`].
    pub fn iter(&self) -> Result<Entries> {
        self.db.iter_opt(&self.options)
    }

    /// [`Self::iter`] of `cf`.
    ///
    /// # Errors
    /// As there.
    pub fn iter_cf(&self, cf: &ColumnFamily) -> Result<Entries> {
        self.db.iter_cf_opt(&self.options, cf)
    }

    /// [`Self::iter`] of the keys in `range`.
    ///
    /// # Errors
    /// Those of [`Db::range`].
    pub fn range<K: AsRef<[u8]>>(&self, range: impl KeyBounds<K>) -> Result<Entries> {
        self.db.range_opt(&self.options, range)
    }

    /// [`Self::iter`] of the keys that begin with `prefix`.
    ///
    /// # Errors
    /// Those of [`Db::prefix`].
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Entries> {
        self.db.prefix_opt(&self.options, prefix)
    }
}
