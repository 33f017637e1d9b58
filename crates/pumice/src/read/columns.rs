//! `PinnedColumns`: the columns of an entity, read without a copy where it lies in a cached block.
//!
//! Thread safety: `Send + Sync`, immutable.
//! Invariant: every range of `places` lies in `stored`.

use std::fmt;
use std::ops::Range;

use pumice_base::wide_columns::{self, DEFAULT_COLUMN, WideColumn};
use pumice_base::{Result, ValueType};

use crate::read::pinned::PinnedSlice;

/// The columns of one key, by name ascending: those of an entity, or one default column, with the
/// empty name, of a plain value.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-columns-{}", std::process::id()));
/// # let db = pumice::Db::builder(&dir).create(true).open()?;
/// use pumice::PinnedColumns;
/// db.put_entity("ada", [("born", "1815"), ("name", "Ada")])?;
/// let columns: PinnedColumns = db.get_entity("ada")?.expect("it was put");
/// assert_eq!(columns.get("born"), Some(&b"1815"[..]));
/// assert_eq!(columns.len(), 2);
/// # drop(columns);
/// # db.close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
pub struct PinnedColumns {
    stored: PinnedSlice,
    /// Names and values in `stored`; empty for a plain value.
    places: Vec<(Range<usize>, Range<usize>)>,
    is_entity: bool,
}

impl PinnedColumns {
    /// The columns of an entity as it is stored.
    ///
    /// # Errors
    /// The errors of decoding it.
    pub(crate) fn of_entity(stored: PinnedSlice) -> Result<Self> {
        // Columns borrow from the stored bytes: each is a part of them.
        let place = |part: &[u8]| {
            let start = part.as_ptr().addr() - stored.as_ptr().addr();
            start..start + part.len()
        };
        let columns = wide_columns::decode(&stored)?;
        let places = columns.iter().map(|column| (place(column.name), place(column.value)));
        let places = places.collect();
        Ok(PinnedColumns { stored, places, is_entity: true })
    }

    /// A plain value as its one column.
    pub(crate) fn of_plain(value: PinnedSlice) -> Self {
        PinnedColumns { stored: value, places: Vec::new(), is_entity: false }
    }

    /// Type and bytes as they are stored.
    pub(crate) fn stored(&self) -> (ValueType, &[u8]) {
        let value_type =
            if self.is_entity { ValueType::WideColumnEntity } else { ValueType::Value };
        (value_type, &self.stored)
    }

    /// Number of stored bytes.
    pub(crate) fn stored_bytes(&self) -> usize {
        self.stored.len()
    }

    /// The columns in order.
    pub fn iter(&self) -> impl Iterator<Item = WideColumn<'_>> {
        let plain = (!self.is_entity).then(|| WideColumn::of_plain(&self.stored));
        let places = self.places.iter().map(|(name, value)| {
            WideColumn::new(&self.stored[name.clone()], &self.stored[value.clone()])
        });
        plain.into_iter().chain(places)
    }

    /// The value of the column `name`, if there is one.
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<&[u8]> {
        let name = name.as_ref();
        if !self.is_entity {
            return (name == DEFAULT_COLUMN).then_some(&self.stored[..]);
        }
        let found = self.places.binary_search_by(|(at, _)| self.stored[at.clone()].cmp(name));
        found.ok().map(|index| &self.stored[self.places[index].1.clone()])
    }

    /// How many columns there are.
    pub fn len(&self) -> usize {
        if self.is_entity { self.places.len() } else { 1 }
    }

    /// There is no column: an entity may have none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for PinnedColumns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|column| (column.name, column.value))).finish()
    }
}

impl PartialEq for PinnedColumns {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for PinnedColumns {}
