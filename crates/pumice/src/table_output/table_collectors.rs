//! The collectors of one table that is being written.
//!
//! Thread safety: one owner, the table's writer. They are user code: a panic ends the job.

use pumice_base::{Error, InternalKey, Result};
use pumice_table::TableBuilder;

use crate::options::{CollectorContext, ColumnFamilyOptions, EntryType, TablePropertiesCollector};

/// Prefix of property names that are reserved.
const TAKEN: &str = "rocksdb.";

/// See the module head.
#[derive(Default)]
pub(crate) struct Collectors(Vec<Box<dyn TablePropertiesCollector>>);

impl Collectors {
    /// The collectors that `options` ask for.
    pub fn new(options: &ColumnFamilyOptions, column_family_id: u32, level: i32) -> Self {
        let factories = &options.table_properties_collector_factories;
        let context = CollectorContext {
            column_family_id,
            level_at_creation: level,
            num_levels: options.num_levels,
        };
        Collectors(factories.iter().filter_map(|f| f.create_collector(&context)).collect())
    }

    /// The names of the collectors, for the properties of the table.
    pub fn names(options: &ColumnFamilyOptions) -> Vec<String> {
        let factories = options.table_properties_collector_factories.iter();
        factories.map(|factory| factory.name().to_string()).collect()
    }

    /// There is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The table gets this entry.
    #[inline(never)]
    pub fn add(&mut self, ikey: InternalKey<'_>, value: &[u8], file_bytes: u64) {
        let (sequence, tag) = ikey.sequence_and_type();
        let (key, entry_type) = (ikey.user_key().as_bytes(), EntryType::of(tag));
        for collector in &mut self.0 {
            collector.add(key, value, entry_type, sequence, file_bytes);
        }
    }

    /// All entries are in `builder`; adds the properties to it and returns whether the table should
    /// be compacted.
    ///
    /// # Errors
    /// InvalidArgument for a reserved name.
    pub fn finish(&mut self, builder: &mut TableBuilder) -> Result<bool> {
        for collector in &mut self.0 {
            for (name, value) in collector.finish() {
                if name.starts_with(TAKEN) {
                    return Err(Error::invalid_argument(format!(
                        "a collector names its table property {name}: such names are reserved"
                    )));
                }
                builder.collect_property(&name, &value);
            }
        }
        Ok(self.0.iter().any(|collector| collector.needs_compaction()))
    }
}
