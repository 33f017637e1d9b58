//! Collectors watch the entries of a table while it is written, may add properties to it, and may
//! ask for its compaction.
//!
//! Thread safety: factories are called from any job at once; a collector belongs to the table's
//! writer. Collectors may not call the database, whose jobs wait for them.

use std::fmt::Debug;

use pumice_base::ValueType;

/// The type of a table's entry.
///
/// Example: that of [`TablePropertiesCollectorFactory`](crate::TablePropertiesCollectorFactory).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntryType {
    /// A value.
    Put,
    /// A deletion.
    Delete,
    /// A deletion of a key that was written once.
    SingleDelete,
    /// A merge operand.
    Merge,
    /// A deletion of a range: the key is its begin, the value its end.
    RangeDeletion,
    /// A value with columns.
    WideColumnEntity,
    /// Anything else.
    Other,
}

impl EntryType {
    /// The type for an internal key's tag.
    pub(crate) fn of(tag: u8) -> Self {
        match ValueType::from_u8(tag) {
            Some(ValueType::Value) => EntryType::Put,
            Some(ValueType::Deletion | ValueType::DeletionWithTimestamp) => EntryType::Delete,
            Some(ValueType::SingleDeletion) => EntryType::SingleDelete,
            Some(ValueType::Merge) => EntryType::Merge,
            Some(ValueType::RangeDeletion) => EntryType::RangeDeletion,
            Some(ValueType::WideColumnEntity) => EntryType::WideColumnEntity,
            _ => EntryType::Other,
        }
    }
}

/// The table for which a collector is made.
///
/// Example: that of [`TablePropertiesCollectorFactory`](crate::TablePropertiesCollectorFactory).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectorContext {
    /// Id of the column family; 2^31 - 1 if it is not known, as in a file to be ingested.
    pub column_family_id: u32,
    /// Level the table is made in; -1 if it is not known.
    pub level_at_creation: i32,
    /// Levels of the column family.
    pub num_levels: i32,
}

/// Makes a collector for each table.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-collector-{}", std::process::id()));
/// use std::sync::Arc;
///
/// use pumice::{
///     CollectorContext, Db, EntryType, TablePropertiesCollector, TablePropertiesCollectorFactory,
/// };
///
/// /// Counts deletions, and has tables with many of them compacted.
/// #[derive(Debug)]
/// struct Deletions;
///
/// impl TablePropertiesCollectorFactory for Deletions {
///     fn name(&self) -> &str {
///         "deletions"
///     }
///     fn create_collector(
///         &self,
///         context: &CollectorContext,
///     ) -> Option<Box<dyn TablePropertiesCollector>> {
///         println!("a table in level {}", context.level_at_creation);
///         Some(Box::new(Count(0)))
///     }
/// }
///
/// struct Count(u64);
///
/// impl TablePropertiesCollector for Count {
///     fn add(&mut self, _: &[u8], _: &[u8], entry_type: EntryType, _: u64, _: u64) {
///         self.0 += u64::from(entry_type == EntryType::Delete);
///     }
///     fn finish(&mut self) -> Vec<(String, Vec<u8>)> {
///         vec![("deletions".to_string(), self.0.to_string().into_bytes())]
///     }
///     fn needs_compaction(&self) -> bool {
///         self.0 > 1000
///     }
/// }
///
/// let db = Db::builder(&dir)
///     .create(true)
///     .configure(|options| {
///         options.cf.table_properties_collector_factories.push(Arc::new(Deletions));
///     })
///     .open()?;
/// db.delete("a")?;
/// db.flush()?;
/// # db.close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
pub trait TablePropertiesCollectorFactory: Debug + Send + Sync {
    /// Written into the properties of each table.
    fn name(&self) -> &str;
    /// What the info log says of it.
    fn description(&self) -> String {
        self.name().to_string()
    }
    /// A collector for one table; None watches nothing.
    fn create_collector(
        &self,
        context: &CollectorContext,
    ) -> Option<Box<dyn TablePropertiesCollector>>;
}

/// Watches the entries of one table.
///
/// Example: that of [`TablePropertiesCollectorFactory`](crate::TablePropertiesCollectorFactory).
pub trait TablePropertiesCollector: Send {
    /// The table gets an entry, in key order except for range deletions. `file_bytes` have been
    /// written so far.
    fn add(
        &mut self,
        key: &[u8],
        value: &[u8],
        entry_type: EntryType,
        sequence: u64,
        file_bytes: u64,
    );
    /// The table is complete: properties to write into it, by name. Names that begin with
    /// `rocksdb.` are reserved: the table then fails. Tools show values in hexadecimal.
    fn finish(&mut self) -> Vec<(String, Vec<u8>)> {
        Vec::new()
    }
    /// Called after `finish`: whether the table should be compacted.
    fn needs_compaction(&self) -> bool {
        false
    }
}

/// Number of parts of the window: entries leave it a part at a time.
const BUCKETS: usize = 128;

/// RocksDB's `NewCompactOnDeletionCollectorFactory`: asks for the compaction of a table in which
/// deletions are dense. Only deletions of single keys count, but not those by `single_delete`.
///
/// ```
/// use std::sync::Arc;
/// use pumice::options::CompactOnDeletionCollectorFactory;
/// // A table is compacted where half of some thousand entries are deletions.
/// let dense = CompactOnDeletionCollectorFactory {
///     sliding_window_size: 1000,
///     deletion_trigger: 500,
///     deletion_ratio: 0.0,
/// };
/// let mut options = pumice::Options::default();
/// options.cf.table_properties_collector_factories.push(Arc::new(dense));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CompactOnDeletionCollectorFactory {
    /// Size of the window in entries, rounded up to a multiple of 128; 0 turns it off.
    pub sliding_window_size: usize,
    /// The file is marked for compaction when this many of them are deletions.
    pub deletion_trigger: usize,
    /// Fraction of all entries of the table from which on it is marked, above 0 and at most 1;
    /// otherwise off.
    pub deletion_ratio: f64,
}

impl CompactOnDeletionCollectorFactory {
    /// As it is written into the properties of a table.
    pub const NAME: &'static str = "CompactOnDeletionCollector";

    fn create(&self) -> CompactOnDeletionCollector {
        let ratio = Some(self.deletion_ratio).filter(|ratio| *ratio > 0.0 && *ratio <= 1.0);
        CompactOnDeletionCollector {
            bucket_size: self.sliding_window_size.div_ceil(BUCKETS),
            trigger: self.deletion_trigger,
            ratio,
            buckets: [0; BUCKETS],
            current: 0,
            in_current: 0,
            in_window: 0,
            entries: 0,
            deletions: 0,
            wanted: false,
        }
    }
}

impl TablePropertiesCollectorFactory for CompactOnDeletionCollectorFactory {
    fn name(&self) -> &str {
        Self::NAME
    }
    fn description(&self) -> String {
        let (window, trigger, ratio) =
            (self.sliding_window_size, self.deletion_trigger, self.deletion_ratio);
        format!(
            "{} (Sliding window size = {window} Deletion trigger = {trigger} \
             Deletion ratio = {ratio})",
            Self::NAME
        )
    }
    fn create_collector(&self, _: &CollectorContext) -> Option<Box<dyn TablePropertiesCollector>> {
        Some(Box::new(self.create()))
    }
}

/// Watches the deletions of one table.
struct CompactOnDeletionCollector {
    bucket_size: usize,
    trigger: usize,
    ratio: Option<f64>,
    /// Deletions in each part of the window.
    buckets: [usize; BUCKETS],
    current: usize,
    /// Entries in the current part.
    in_current: usize,
    /// Deletions in the window.
    in_window: usize,
    entries: u64,
    deletions: u64,
    wanted: bool,
}

impl TablePropertiesCollector for CompactOnDeletionCollector {
    fn add(&mut self, _: &[u8], _: &[u8], entry_type: EntryType, _: u64, _: u64) {
        if self.wanted {
            return;
        }
        let deletes = usize::from(entry_type == EntryType::Delete);
        self.entries += 1;
        self.deletions += deletes as u64;
        if self.bucket_size == 0 {
            return;
        }
        if self.in_current == self.bucket_size {
            self.current = (self.current + 1) % BUCKETS;
            self.in_window -= std::mem::take(&mut self.buckets[self.current]);
            self.in_current = 0;
        }
        self.in_current += 1;
        self.in_window += deletes;
        self.buckets[self.current] += deletes;
        self.wanted = deletes > 0 && self.in_window >= self.trigger;
    }

    fn needs_compaction(&self) -> bool {
        let part =
            |ratio: f64| self.entries > 0 && self.deletions as f64 / self.entries as f64 >= ratio;
        self.wanted || self.ratio.is_some_and(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUT: u8 = ValueType::Value as u8;
    const DELETE: u8 = ValueType::Deletion as u8;

    fn asks(window: usize, trigger: usize, ratio: f64, tags: &[u8]) -> bool {
        let factory = CompactOnDeletionCollectorFactory {
            sliding_window_size: window,
            deletion_trigger: trigger,
            deletion_ratio: ratio,
        };
        let mut collector = factory.create();
        tags.iter().for_each(|tag| collector.add(b"", b"", EntryType::of(*tag), 0, 0));
        collector.needs_compaction()
    }

    /// One deletion after `gap` other entries, `count` times.
    fn spread(gap: usize, count: usize) -> Vec<u8> {
        [vec![PUT; gap], vec![DELETE]].concat().repeat(count)
    }

    #[pumice_test_macros::test]
    fn dense_deletions_ask_for_a_compaction() {
        // A window of 128 entries: 16 deletions of a row of 8 entries each just fit into it.
        assert!(asks(128, 16, 0.0, &spread(7, 100)));
        assert!(!asks(128, 17, 0.0, &spread(7, 100)));
        assert!(!asks(128, 16, 0.0, &spread(8, 100)));
        // Rounded up to parts of two entries, 256 in all.
        assert!(asks(129, 32, 0.0, &spread(7, 100)));
        assert!(!asks(129, 33, 0.0, &spread(7, 100)));
        // Entries that have left the window do not count.
        let far = [spread(0, 10), vec![PUT; 200], spread(0, 10)].concat();
        assert!(!asks(128, 11, 0.0, &far) && asks(128, 10, 0.0, &far));
        // A window of size 0 alone asks for nothing.
        assert!(!asks(0, 0, 0.0, &spread(0, 1000)));
        assert!(!asks(128, 0, 0.0, &vec![PUT; 1000]));
        let others = [ValueType::SingleDeletion as u8, ValueType::RangeDeletion as u8];
        assert!(!asks(128, 1, 0.5, &others.repeat(50)));
    }

    #[pumice_test_macros::test]
    fn many_deletions_in_all_ask_for_a_compaction() {
        assert!(asks(0, 0, 0.25, &spread(3, 50)));
        assert!(!asks(0, 0, 0.26, &spread(3, 50)));
        assert!(!asks(128, 100, 0.26, &spread(3, 50)));
        for off in [0.0, -1.0, 1.5] {
            assert!(!asks(0, 0, off, &spread(0, 50)));
        }
        assert!(asks(0, 0, 1.0, &spread(0, 50)));
        assert!(!asks(0, 0, 0.1, &[]));
    }
}
