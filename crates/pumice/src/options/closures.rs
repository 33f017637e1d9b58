//! Merge operators, compaction filters, comparators and factories of file checksums made of
//! closures.
//!
//! The names of the calls are those of the Rust binding of RocksDB. A closure must follow the rules
//! of the trait that it implements.
//!
//! Thread safety: closures are called from any thread at once.

use std::cmp::Ordering;
use std::sync::Arc;

use pumice_base::Comparator;
use pumice_base::extension::{CompactionFilter, FilterDecision, MergeOperator};
use pumice_base::file_checksum::{
    CustomFileChecksumGenFactory, FileChecksumGenContext, FileChecksumGenerator,
};
use pumice_base::key::CustomComparator;

use super::{
    ColumnFamilyOptions, CompactionFilterContext, CompactionFilterFactory, DbOptions,
    FileChecksumGenFactory,
};

struct Named<F> {
    name: String,
    call: F,
}

/// A merge operator made of a closure over the key, the existing value and the operands, oldest
/// first.
struct Merge<F> {
    of: Named<F>,
    associative: bool,
}

impl<F> MergeOperator for Merge<F>
where
    F: Fn(&[u8], Option<&[u8]>, &[&[u8]]) -> Option<Vec<u8>> + Send + Sync,
{
    fn name(&self) -> &str {
        &self.of.name
    }
    fn full_merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>> {
        (self.of.call)(key, existing, operands)
    }
    fn partial_merge(&self, key: &[u8], left: &[u8], right: &[u8]) -> Option<Vec<u8>> {
        if self.associative { (self.of.call)(key, None, &[left, right]) } else { None }
    }
}

impl<F: Fn(i32, &[u8], &[u8]) -> FilterDecision + Send + Sync> CompactionFilter for Named<F> {
    fn name(&self) -> &str {
        &self.name
    }
    fn filter(&self, level: i32, key: &[u8], value: &[u8]) -> FilterDecision {
        (self.call)(level, key, value)
    }
}

impl<F> CompactionFilterFactory for Named<F>
where
    F: Fn(&CompactionFilterContext) -> Option<Arc<dyn CompactionFilter>> + Send + Sync,
{
    fn name(&self) -> &str {
        &self.name
    }
    fn create_compaction_filter(
        &self,
        context: &CompactionFilterContext,
    ) -> Option<Arc<dyn CompactionFilter>> {
        (self.call)(context)
    }
}

impl<F> CustomFileChecksumGenFactory for Named<F>
where
    F: Fn(&FileChecksumGenContext<'_>) -> Option<Box<dyn FileChecksumGenerator>> + Send + Sync,
{
    fn name(&self) -> &str {
        &self.name
    }
    fn create(
        &self,
        context: &FileChecksumGenContext<'_>,
    ) -> Option<Box<dyn FileChecksumGenerator>> {
        (self.call)(context)
    }
}

impl<F: Fn(&[u8], &[u8]) -> Ordering + Send + Sync> CustomComparator for Named<F> {
    fn name(&self) -> &str {
        &self.name
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        (self.call)(a, b)
    }
}

/// A compaction filter of this closure, which gets level, key and value.
///
/// Example: that of [`CompactionFilterFactory`](crate::CompactionFilterFactory).
pub fn filter_of<F>(name: impl Into<String>, filter: F) -> Arc<dyn CompactionFilter>
where
    F: Fn(i32, &[u8], &[u8]) -> FilterDecision + Send + Sync + 'static,
{
    Arc::new(Named { name: name.into(), call: filter })
}

impl ColumnFamilyOptions {
    /// A merge operator of this closure: it gets the key, the existing value and the operands,
    /// oldest first, and returns the new value; None fails the read or compaction with Corruption.
    ///
    /// ```
    /// let mut options = pumice::Options::default();
    /// options.cf.set_merge_operator("last", |_key, existing, operands| {
    ///     operands.last().copied().or(existing).map(<[u8]>::to_vec)
    /// });
    /// ```
    pub fn set_merge_operator<F>(&mut self, name: impl Into<String>, full_merge: F)
    where
        F: Fn(&[u8], Option<&[u8]>, &[&[u8]]) -> Option<Vec<u8>> + Send + Sync + 'static,
    {
        let of = Named { name: name.into(), call: full_merge };
        self.merge_operator = Some(Arc::new(Merge { of, associative: false }));
    }

    /// As [`Self::set_merge_operator`], for a closure that combines operands with each other as it
    /// does with a value: called with no value and two operands, it returns the operand that
    /// replaces both (None: both stay).
    pub fn set_merge_operator_associative<F>(&mut self, name: impl Into<String>, merge: F)
    where
        F: Fn(&[u8], Option<&[u8]>, &[&[u8]]) -> Option<Vec<u8>> + Send + Sync + 'static,
    {
        let of = Named { name: name.into(), call: merge };
        self.merge_operator = Some(Arc::new(Merge { of, associative: true }));
    }

    /// A compaction filter of this closure, which gets level, key and value.
    pub fn set_compaction_filter<F>(&mut self, name: impl Into<String>, filter: F)
    where
        F: Fn(i32, &[u8], &[u8]) -> FilterDecision + Send + Sync + 'static,
    {
        self.compaction_filter = Some(filter_of(name, filter));
    }

    /// A factory of compaction filters of this closure; see [`filter_of`] for what it may return.
    pub fn set_compaction_filter_factory<F>(&mut self, name: impl Into<String>, create: F)
    where
        F: Fn(&CompactionFilterContext) -> Option<Arc<dyn CompactionFilter>>
            + Send
            + Sync
            + 'static,
    {
        self.compaction_filter_factory = Some(Arc::new(Named { name: name.into(), call: create }));
    }

    /// Orders keys by this closure: a total order that must never change under this name, since the
    /// name is persisted. Tables are a little larger than with a [`CustomComparator`] that knows
    /// how to shorten keys; filters and hash indexes need one that says that equal keys have equal
    /// bytes.
    pub fn set_comparator<F>(&mut self, name: impl Into<String>, compare: F)
    where
        F: Fn(&[u8], &[u8]) -> Ordering + Send + Sync + 'static,
    {
        self.comparator = Comparator::Custom(Arc::new(Named { name: name.into(), call: compare }));
    }
}

impl DbOptions {
    /// A factory of checksums of whole files made of this closure, which returns a generator for
    /// the function that the context names, or for new files if it names none. The name goes to
    /// OPTIONS files.
    pub fn set_file_checksum_gen_factory<F>(&mut self, name: impl Into<String>, create: F)
    where
        F: Fn(&FileChecksumGenContext<'_>) -> Option<Box<dyn FileChecksumGenerator>>
            + Send
            + Sync
            + 'static,
    {
        let factory = Arc::new(Named { name: name.into(), call: create });
        self.file_checksum_gen_factory = FileChecksumGenFactory::Custom(factory);
    }
}
