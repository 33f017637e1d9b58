//! Compaction filters made for one job each.
//!
//! Thread safety: a factory is called from any job at once. A filter is made for one key range of
//! one job, and used by its task alone.

use std::sync::Arc;

use pumice_base::extension::CompactionFilter;

use crate::options::index_owner::IndexOwner;
use crate::stats::listener::TableFileCreationReason;

/// The job for which a filter is made.
///
/// Example: that of [`CompactionFilterFactory`](crate::CompactionFilterFactory).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionFilterContext {
    /// All table files of the column family are read.
    pub is_full_compaction: bool,
    /// The user asked for the compaction.
    pub is_manual_compaction: bool,
    /// Id of the column family.
    pub column_family_id: u32,
    /// Level of the first inputs; -1 in a flush.
    pub input_start_level: i32,
    /// Level of the outputs.
    pub output_level: i32,
    /// Why table files are made.
    pub reason: TableFileCreationReason,
}

/// Makes compaction filters.
///
/// ```
/// use std::sync::Arc;
///
/// use pumice::{
///     ColumnFamilyOptions, CompactionFilter, CompactionFilterContext, CompactionFilterFactory,
///     FilterDecision, filter_of,
/// };
///
/// /// Drops empty values, but only where all files are read.
/// struct WhenFull;
///
/// impl CompactionFilterFactory for WhenFull {
///     fn name(&self) -> &str {
///         "when full"
///     }
///     fn create_compaction_filter(
///         &self,
///         context: &CompactionFilterContext,
///     ) -> Option<Arc<dyn CompactionFilter>> {
///         context.is_full_compaction.then(|| {
///             filter_of("no empty values", |_level, _key, value| match value.is_empty() {
///                 true => FilterDecision::Remove,
///                 false => FilterDecision::Keep,
///             })
///         })
///     }
/// }
///
/// let mut options = ColumnFamilyOptions::default();
/// options.compaction_filter_factory = Some(Arc::new(WhenFull));
/// ```
pub trait CompactionFilterFactory: Send + Sync {
    /// Name, for the info log.
    fn name(&self) -> &str;
    /// Whether tables made for `reason` are filtered. By default only in compactions. Entries that
    /// a flush or a recovery filters were never in a table.
    fn should_filter(&self, reason: TableFileCreationReason) -> bool {
        reason == TableFileCreationReason::Compaction
    }
    /// A filter for one key range of a job; None filters nothing.
    fn create_compaction_filter(
        &self,
        context: &CompactionFilterContext,
    ) -> Option<Arc<dyn CompactionFilter>>;
    /// For the crate's own factories: who keeps the blobs that the family's indexes refer to.
    #[doc(hidden)]
    fn index_owner(&self) -> Option<Arc<dyn IndexOwner>> {
        None
    }
}
