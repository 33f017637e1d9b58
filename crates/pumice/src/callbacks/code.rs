//! Wraps a user's comparators, prefix extractors and checksums of files in marks: they run under
//! locks.
//!
//! Thread safety: as the user's code. What it does not do: catch their panics, which end the call
//! or the job. The library's own are not wrapped.

use std::cmp::Ordering;
use std::sync::Arc;

use pumice_base::Comparator;
use pumice_base::extension::SliceTransform;
use pumice_base::extractor::Extractor;
use pumice_base::file_checksum::{
    CustomFileChecksumGenFactory, FileChecksumGenContext, FileChecksumGenerator,
};
use pumice_base::key::CustomComparator;

use super::Mark;
use crate::options::{ColumnFamilyOptions, DbOptions, FileChecksumGenFactory};

struct Marked<T: ?Sized> {
    mark: Mark,
    code: Arc<T>,
}

impl CustomComparator for Marked<dyn CustomComparator> {
    fn name(&self) -> &str {
        self.code.name()
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let _marked = self.mark.enter_locked();
        self.code.compare(a, b)
    }
    fn can_keys_with_different_byte_contents_be_equal(&self) -> bool {
        let _marked = self.mark.enter_locked();
        self.code.can_keys_with_different_byte_contents_be_equal()
    }
    fn timestamp_size(&self) -> usize {
        let _marked = self.mark.enter_locked();
        self.code.timestamp_size()
    }
    fn compare_without_timestamp(&self, a: &[u8], b: &[u8]) -> Ordering {
        let _marked = self.mark.enter_locked();
        self.code.compare_without_timestamp(a, b)
    }
    fn compare_timestamp(&self, a: &[u8], b: &[u8]) -> Ordering {
        let _marked = self.mark.enter_locked();
        self.code.compare_timestamp(a, b)
    }
    fn timestamp_to_string(&self, timestamp: &[u8]) -> String {
        let _marked = self.mark.enter_locked();
        self.code.timestamp_to_string(timestamp)
    }
    fn find_shortest_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        let _marked = self.mark.enter_locked();
        self.code.find_shortest_separator(start, limit);
    }
    fn find_short_successor(&self, key: &mut Vec<u8>) {
        let _marked = self.mark.enter_locked();
        self.code.find_short_successor(key);
    }
}

impl SliceTransform for Marked<dyn SliceTransform> {
    fn name(&self) -> String {
        self.code.name()
    }
    fn in_domain(&self, key: &[u8]) -> bool {
        let _marked = self.mark.enter_locked();
        self.code.in_domain(key)
    }
    fn transform<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        let _marked = self.mark.enter_locked();
        self.code.transform(key)
    }
}

impl CustomFileChecksumGenFactory for Marked<dyn CustomFileChecksumGenFactory> {
    fn name(&self) -> &str {
        self.code.name()
    }
    fn create(
        &self,
        context: &FileChecksumGenContext<'_>,
    ) -> Option<Box<dyn FileChecksumGenerator>> {
        let _marked = self.mark.enter_locked();
        let code = self.code.create(context)?;
        Some(Box::new(MarkedGenerator { mark: self.mark, code }))
    }
}

struct MarkedGenerator {
    mark: Mark,
    code: Box<dyn FileChecksumGenerator>,
}

impl FileChecksumGenerator for MarkedGenerator {
    fn name(&self) -> &str {
        self.code.name()
    }
    fn update(&mut self, data: &[u8]) {
        let _marked = self.mark.enter_locked();
        self.code.update(data);
    }
    fn finalize(&mut self) -> Vec<u8> {
        let _marked = self.mark.enter_locked();
        self.code.finalize()
    }
}

/// Puts marks around the user code in `options`.
pub(crate) fn mark_code(mark: Mark, options: &mut ColumnFamilyOptions) {
    if let Comparator::Custom(code) = &options.comparator
        && !code.is_built_in()
    {
        let marked = Arc::new(Marked { mark, code: Arc::clone(code) });
        options.comparator = Comparator::Custom(marked);
    }
    if let Some(code) = &options.prefix_extractor
        && Extractor::by_name(&code.name()).is_none()
    {
        options.prefix_extractor = Some(Arc::new(Marked { mark, code: Arc::clone(code) }));
    }
}

/// Whether `options` contain code that runs under locks.
pub(crate) fn has_code(options: &ColumnFamilyOptions) -> bool {
    let custom = |code: &Arc<dyn SliceTransform>| Extractor::by_name(&code.name()).is_none();
    matches!(&options.comparator, Comparator::Custom(code) if !code.is_built_in())
        || options.prefix_extractor.as_ref().is_some_and(custom)
}

/// The same for the options of a database.
pub(crate) fn mark_db_code(mark: Mark, options: &mut DbOptions) {
    if let FileChecksumGenFactory::Custom(code) = &options.file_checksum_gen_factory {
        let marked = Arc::new(Marked { mark, code: Arc::clone(code) });
        options.file_checksum_gen_factory = FileChecksumGenFactory::Custom(marked);
    }
}

/// The same for the options of a database.
pub(crate) fn has_db_code(options: &DbOptions) -> bool {
    matches!(options.file_checksum_gen_factory, FileChecksumGenFactory::Custom(_))
}
