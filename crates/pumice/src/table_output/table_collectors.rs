//! The collectors of one table that is being written.
//!
//! Thread safety: one owner, the table's writer. They are user code: a panic ends the job.

use pumice_base::{Comparator, Error, InternalKey, Result, UserKey, ValueType};
use pumice_table::TableBuilder;

use crate::callbacks::key_forms::KeyForms;
use crate::options::{CollectorContext, ColumnFamilyOptions, EntryType, TablePropertiesCollector};

/// Prefix of property names that are reserved.
const TAKEN: &str = "rocksdb.";

/// The properties that have the oldest and the newest timestamp of the keys.
pub(crate) const TIMESTAMP_MIN: &str = "rocksdb.timestamp_min";
pub(crate) const TIMESTAMP_MAX: &str = "rocksdb.timestamp_max";

/// See the module head.
#[derive(Default)]
pub(crate) struct Collectors {
    /// The user's.
    own: Vec<Box<dyn TablePropertiesCollector>>,
    keys: KeyForms,
    times: Option<Times>,
}

/// The timestamps of a table's keys.
struct Times {
    order: Comparator,
    /// The oldest and the newest; None before the first key.
    range: Option<(Vec<u8>, Vec<u8>)>,
}

impl Times {
    fn add(&mut self, key: UserKey<'_>) {
        let time = self.order.timestamp_of(key);
        let Some((oldest, newest)) = &mut self.range else {
            self.range = Some((time.to_vec(), time.to_vec()));
            return;
        };
        if self.order.compare_timestamp(time, oldest).is_lt() {
            *oldest = time.to_vec();
        }
        if self.order.compare_timestamp(time, newest).is_gt() {
            *newest = time.to_vec();
        }
    }
}

impl Collectors {
    /// The collectors that `options` ask for.
    pub fn new(options: &ColumnFamilyOptions, column_family_id: u32, level: i32) -> Self {
        let factories = &options.table_properties_collector_factories;
        let context = CollectorContext {
            column_family_id,
            level_at_creation: level,
            num_levels: options.num_levels,
        };
        let order = options.table_order();
        let keys = KeyForms::of(&options.comparator, options.strips_timestamps());
        Collectors {
            keys,
            own: factories.iter().filter_map(|f| f.create_collector(&context)).collect(),
            times: (order.timestamp_size() > 0).then_some(Times { order, range: None }),
        }
    }

    /// The oldest and the newest timestamp of the keys so far, if they have some.
    pub fn times(&self) -> Option<&(Vec<u8>, Vec<u8>)> {
        self.times.as_ref()?.range.as_ref()
    }

    /// The names of the collectors, for the properties of the table.
    pub fn names(options: &ColumnFamilyOptions) -> Vec<String> {
        let factories = options.table_properties_collector_factories.iter();
        factories.map(|factory| factory.name().to_string()).collect()
    }

    /// There is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.own.is_empty() && self.times.is_none()
    }

    /// The table gets this entry.
    #[inline(never)]
    pub fn add(&mut self, ikey: InternalKey<'_>, value: &[u8], file_bytes: u64) {
        let (sequence, tag) = ikey.sequence_and_type();
        let entry_type = EntryType::of(tag);
        if let Some(times) = &mut self.times {
            times.add(ikey.user_key());
        }
        if self.own.is_empty() {
            return;
        }
        let key = self.keys.whole(ikey.user_key().as_bytes());
        // The end of a range is a key.
        let end = (tag == ValueType::RangeDeletion as u8).then(|| self.keys.whole(value));
        let value = end.as_deref().unwrap_or(value);
        for collector in &mut self.own {
            collector.add(&key, value, entry_type, sequence, file_bytes);
        }
    }

    /// All entries are in `builder`; adds the properties to it and returns whether the table should
    /// be compacted.
    ///
    /// # Errors
    /// InvalidArgument for a reserved name.
    pub fn finish(&mut self, builder: &mut TableBuilder) -> Result<bool> {
        if let Some((oldest, newest)) = self.times() {
            builder.collect_property(TIMESTAMP_MIN, oldest);
            builder.collect_property(TIMESTAMP_MAX, newest);
        }
        for collector in &mut self.own {
            for (name, value) in collector.finish() {
                if name.starts_with(TAKEN) {
                    return Err(Error::invalid_argument(format!(
                        "a collector names its table property {name}: such names are reserved"
                    )));
                }
                builder.collect_property(&name, &value);
            }
        }
        Ok(self.own.iter().any(|collector| collector.needs_compaction()))
    }
}
