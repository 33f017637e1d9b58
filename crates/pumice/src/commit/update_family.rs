//! The ways to name the column family of an update in a batch.
//!
//! Thread safety: plain values. It checks nothing: the batch and the write do.

use pumice_base::Comparator;

use crate::version::family::ColumnFamily;

/// The column family of an update: a handle, or an id of the database that is written to, as
/// records of other batches have it.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-family-{}", std::process::id()));
/// # let db = pumice::Db::builder(&dir).create(true).open()?;
/// use pumice::{ColumnFamilyOptions, WriteBatch};
/// let logs = db.create_cf("logs", &ColumnFamilyOptions::default())?;
/// let mut batch = WriteBatch::new();
/// batch.put_cf(&logs, "a", "1"); // A handle,
/// batch.put_cf(logs.id(), "b", "2"); // or its id.
/// db.write(&mut batch)?;
/// assert_eq!(db.iter_cf(&logs)?.count(), 2);
/// # db.close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
pub trait UpdateFamily {
    /// Its id.
    fn family_id(&self) -> u32;
    /// The database it belongs to; None for a bare id.
    fn handle(&self) -> Option<&ColumnFamily> {
        None
    }
    /// The order of its keys, if that is known. If they have timestamps, an update that has none
    /// gets zeros, see [`WriteBatch::update_timestamps`](crate::WriteBatch::update_timestamps).
    fn order(&self) -> Option<&Comparator> {
        self.handle().map(|cf| cf.data.comparator())
    }
}

impl UpdateFamily for u32 {
    #[inline]
    fn family_id(&self) -> u32 {
        *self
    }
}

impl UpdateFamily for &ColumnFamily {
    #[inline]
    fn family_id(&self) -> u32 {
        self.id()
    }
    fn handle(&self) -> Option<&ColumnFamily> {
        Some(self)
    }
}

impl UpdateFamily for ColumnFamily {
    #[inline]
    fn family_id(&self) -> u32 {
        self.id()
    }
    fn handle(&self) -> Option<&ColumnFamily> {
        Some(self)
    }
}
