//! Options that are objects: how they are compared and shown, and kept when settings come from a
//! file.
//!
//! Two objects are equal only if they are the same object. Comparators, merge operators and prefix
//! extractors have a text form, their name, and are compared by it (`OptionValue::same`).
//!
//! Thread safety: pure functions.

use std::sync::Arc;

use pumice_base::{Comparator, SizeLimits};

use super::other_tables::TableFactory;
use super::paths::DbPath;
use super::{ColumnFamilyOptions, DbOptions, FileChecksumGenFactory};

/// A component of an option struct.
pub trait OptionObject {
    /// The object is the same as `other`.
    fn same(&self, other: &Self) -> bool;
    /// Its text for `Debug`.
    fn describe(&self) -> String;
}

impl<T: ?Sized> OptionObject for Arc<T> {
    fn same(&self, other: &Self) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(self), Arc::as_ptr(other))
    }
    fn describe(&self) -> String {
        format!("{:p}", Arc::as_ptr(self).cast::<()>())
    }
}

impl<T: OptionObject> OptionObject for Option<T> {
    fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Some(one), Some(other)) => one.same(other),
            (None, None) => true,
            _ => false,
        }
    }
    fn describe(&self) -> String {
        self.as_ref().map_or_else(|| "None".to_string(), OptionObject::describe)
    }
}

impl<T: OptionObject> OptionObject for Vec<T> {
    fn same(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().zip(other).all(|(one, other)| one.same(other))
    }
    fn describe(&self) -> String {
        let all: Vec<_> = self.iter().map(OptionObject::describe).collect();
        format!("[{}]", all.join(", "))
    }
}

/// Components that are plain values.
macro_rules! plain_component {
    ($($ty:ty),+) => {$(
        impl OptionObject for $ty {
            fn same(&self, other: &Self) -> bool {
                self == other
            }
            fn describe(&self) -> String {
                format!("{self:?}")
            }
        }
    )+};
}

plain_component!(String, SizeLimits, DbPath);

impl DbOptions {
    /// Default settings with these objects.
    pub(super) fn only_objects(&self) -> Self {
        let mut objects = self.only_components();
        objects.file_checksum_gen_factory = self.file_checksum_gen_factory.clone();
        objects.rate_limiter.clone_from(&self.rate_limiter);
        objects.sst_file_manager.clone_from(&self.sst_file_manager);
        objects
    }

    /// Takes the objects that `given` has.
    pub(super) fn keep_objects(&mut self, given: &Self) {
        if given.rate_limiter.is_some() {
            self.rate_limiter.clone_from(&given.rate_limiter);
        }
        if matches!(given.file_checksum_gen_factory, FileChecksumGenFactory::Custom(_)) {
            self.file_checksum_gen_factory = given.file_checksum_gen_factory.clone();
        }
    }
}

impl ColumnFamilyOptions {
    /// Default settings with these objects.
    pub(super) fn only_objects(&self) -> Self {
        let mut objects = self.only_components();
        objects.table_factory = self.table_factory.only_components();
        objects.table_factory.format = TableFactory::default();
        objects.comparator = self.comparator.clone();
        objects.merge_operator.clone_from(&self.merge_operator);
        objects.prefix_extractor.clone_from(&self.prefix_extractor);
        objects
    }

    /// Takes the objects that `given` has.
    pub(super) fn keep_objects(&mut self, given: &Self) {
        if matches!(given.comparator, Comparator::Custom(_)) {
            self.comparator = given.comparator.clone();
        }
        if given.merge_operator.is_some() {
            self.merge_operator.clone_from(&given.merge_operator);
        }
        if given.prefix_extractor.is_some() {
            self.prefix_extractor.clone_from(&given.prefix_extractor);
        }
    }
}
