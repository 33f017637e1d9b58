//! The directory to repair, and the options for it.
//!
//! Thread safety: shared, read only.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pumice_base::{Comparator, Error, FileNumber, InternalKeyComparator, Result};
use pumice_env::FileSystem;
use pumice_env::filename::TableDirs;

use crate::engine::open::ColumnFamilyDescriptor;
use crate::options::{ColumnFamilyOptions, CompactionStyle, DbOptions};

/// See the module head.
pub(super) struct RepairContext<'a> {
    pub fs: &'a Arc<dyn FileSystem>,
    pub dir: &'a Path,
    pub wal_dir: PathBuf,
    pub db: &'a DbOptions,
    pub named: &'a [ColumnFamilyDescriptor],
    /// For column families that are not named; without it there must be none.
    pub unknown: Option<&'a ColumnFamilyOptions>,
}

/// A column family and how its tables are written.
#[derive(Clone)]
pub(super) struct Family {
    pub id: u32,
    pub name: String,
    pub icmp: InternalKeyComparator,
    pub options: Arc<ColumnFamilyOptions>,
    /// The data of earlier logs is in tables.
    pub log_number: u64,
}

impl RepairContext<'_> {
    /// The path of a table.
    pub fn table(&self, number: FileNumber) -> PathBuf {
        TableDirs::of(self.dir).table(TableDirs::OWN, number)
    }

    /// The options of a column family.
    ///
    /// # Errors
    /// InvalidArgument if there are none for it.
    pub fn options_of(&self, name: &str) -> Result<&ColumnFamilyOptions> {
        let named = self.named.iter().find(|descriptor| descriptor.name == name);
        named.map(|descriptor| &descriptor.options).or(self.unknown).ok_or_else(|| {
            Error::invalid_argument(format!("no options are given for column family {name}"))
        })
    }

    /// The comparator of a column family: the one found in its files, which must be built in or in
    /// the options, perhaps those of another family: a table that was made outside may not say of
    /// which family it is.
    ///
    /// # Errors
    /// InvalidArgument if it is neither.
    pub fn comparator_of(&self, family: &str, found: Option<&str>) -> Result<Comparator> {
        let given = &self.options_of(family)?.comparator;
        let Some(found) = found.filter(|found| !found.is_empty() && *found != given.name()) else {
            return without_timestamps(given.clone());
        };
        let mut named = self.named.iter().map(|descriptor| &descriptor.options.comparator);
        let other = || named.find(|order| order.name() == found).cloned();
        let order = Comparator::builtin(found).or_else(other).ok_or_else(|| {
            Error::invalid_argument(format!(
                "{}: does not match existing comparator {found} of column family {family}",
                given.name()
            ))
        });
        without_timestamps(order?)
    }

    /// A column family with the order that was found in its files.
    ///
    /// # Errors
    /// As [`RepairContext::comparator_of`].
    pub fn family(&self, id: u32, name: &str, found: Option<&str>) -> Result<Family> {
        let comparator = self.comparator_of(name, found)?;
        Ok(Family {
            id,
            name: name.to_string(),
            icmp: InternalKeyComparator::new(comparator),
            options: Arc::new(self.options_of(name)?.clone()),
            log_number: 0,
        })
    }
}

/// Refuses an order with timestamps: what is left of a key's history would have to be put in order
/// by them.
fn without_timestamps(order: Comparator) -> Result<Comparator> {
    match order.timestamp_size() {
        0 => Ok(order),
        _ => Err(Error::not_supported(format!(
            "repair of keys with user-defined timestamps, in the order {}",
            order.name()
        ))),
    }
}

impl Family {
    /// The level for tables whose level is unknown: below everything, as one sorted run; level 0 if
    /// there is no other.
    pub fn run_level(&self) -> usize {
        let flat = self.options.compaction_style == CompactionStyle::Fifo;
        let reserved = i32::from(self.options.cf_allow_ingest_behind);
        let deepest = self.options.num_levels - 1 - reserved;
        if flat { 0 } else { usize::try_from(deepest).unwrap_or(0) }
    }
}
