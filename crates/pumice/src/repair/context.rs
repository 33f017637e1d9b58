//! The directory to repair, and the options for it.
//!
//! Thread safety: shared, read only.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pumice_base::key::U64_TS_SUFFIX;
use pumice_base::{Comparator, Error, FileNumber, InternalKeyComparator, Result};
use pumice_env::FileSystem;
use pumice_env::filename::TableDirs;

use crate::callbacks::key_forms::KeyForms;
use crate::engine::open::ColumnFamilyDescriptor;
use crate::options::{ColumnFamilyOptions, CompactionStyle, DbOptions, has_u64_timestamps};
use crate::recovery::version_recovery::RecordedOrder;
use crate::repair::blobs::Owner;

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
    /// The order of the keys in its tables.
    pub icmp: InternalKeyComparator,
    /// With the order of its keys, and whether tables have their timestamps.
    pub options: Arc<ColumnFamilyOptions>,
    /// A file names the order of its keys.
    pub is_recorded: bool,
    /// It has got timestamps or lost them: files have both forms of its keys.
    pub has_changed: bool,
    /// The low of its history, if that is known.
    pub low: Option<Vec<u8>>,
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

    /// The order of a column family's keys, and whether tables lack their timestamps: what was
    /// found in its files. The order must be built in or in the options, perhaps those of another
    /// family: a table that was made outside may not say of which family it is.
    ///
    /// # Errors
    /// InvalidArgument if it is neither; NotSupported for tables without timestamps that are no
    /// numbers.
    pub fn order_of(
        &self,
        family: &str,
        found: Option<RecordedOrder<'_>>,
    ) -> Result<(Comparator, bool)> {
        let options = self.options_of(family)?;
        let Some((found, stripped)) = found.filter(|(name, _)| !name.is_empty()) else {
            return Ok((options.comparator.clone(), options.strips_timestamps()));
        };
        let order = self.order_named(family, found).or_else(|error| {
            // It may be given as it is since it has lost its timestamps.
            let bare = found.strip_suffix(U64_TS_SUFFIX).filter(|_| stripped);
            let bare = bare.map(|bare| self.order_named(family, bare));
            bare.and_then(Result::ok).ok_or(error)
        })?;
        let stripped = stripped && order.timestamp_size() > 0;
        if stripped && !has_u64_timestamps(&order) {
            let text = format!("repair of tables without the timestamps of the order {found}");
            return Err(Error::not_supported(text));
        }
        Ok((order, stripped))
    }

    fn order_named(&self, family: &str, found: &str) -> Result<Comparator> {
        let options = self.options_of(family)?;
        let given = &options.comparator;
        if found == given.name() {
            return Ok(given.clone());
        }
        // Of tables from before the family got timestamps.
        let in_tables = options.table_order();
        if found == in_tables.name() {
            return Ok(in_tables);
        }
        let mut named = self.named.iter().map(|descriptor| &descriptor.options.comparator);
        let other = || named.find(|order| order.name() == found).cloned();
        Comparator::builtin(found).or_else(other).ok_or_else(|| {
            Error::invalid_argument(format!(
                "{}: does not match existing comparator {found} of column family {family}",
                given.name()
            ))
        })
    }

    /// A column family may have the order of that name.
    pub fn has_order(&self, family: &str, name: &str) -> bool {
        self.order_named(family, name).is_ok()
    }

    /// A column family with the order that was found in its files.
    ///
    /// # Errors
    /// As [`RepairContext::order_of`].
    pub fn family(&self, id: u32, name: &str, found: Option<RecordedOrder<'_>>) -> Result<Family> {
        let (comparator, stripped) = self.order_of(name, found)?;
        let options = ColumnFamilyOptions {
            comparator,
            persist_user_defined_timestamps: !stripped,
            ..self.options_of(name)?.clone()
        };
        Ok(Family {
            id,
            name: name.to_string(),
            icmp: InternalKeyComparator::new(options.table_order()),
            options: Arc::new(options),
            is_recorded: found.is_some_and(|(name, _)| !name.is_empty()),
            has_changed: false,
            low: None,
            log_number: 0,
        })
    }
}

impl Family {
    /// The forms of its keys.
    pub fn key_forms(&self) -> KeyForms {
        KeyForms::of(&self.options.comparator, self.options.strips_timestamps())
    }

    /// Whose blobs its tables refer to.
    pub fn owner(&self) -> Owner {
        Owner { family: self.id, keys: self.key_forms() }
    }

    /// The history may be gone below `low`, too.
    pub fn raise_low(&mut self, low: Option<&[u8]>) {
        let order = &self.options.comparator;
        // A damaged MANIFEST may have others.
        let low = low.filter(|low| !low.is_empty() && low.len() == order.timestamp_size());
        let higher = low.filter(|low| {
            let known = self.low.as_ref();
            known.is_none_or(|known| order.compare_timestamp(low, known).is_gt())
        });
        if let Some(low) = higher {
            self.low = Some(low.to_vec());
        }
    }

    /// The level for tables whose level is unknown: below everything, as one sorted run; level 0 if
    /// there is no other.
    pub fn run_level(&self) -> usize {
        let flat = self.options.compaction_style == CompactionStyle::Fifo;
        let reserved = i32::from(self.options.cf_allow_ingest_behind);
        let deepest = self.options.num_levels - 1 - reserved;
        if flat { 0 } else { usize::try_from(deepest).unwrap_or(0) }
    }
}
