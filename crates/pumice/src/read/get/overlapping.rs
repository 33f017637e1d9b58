//! Lookups in a version whose files overlap.
//!
//! Thread safety: as `get`. Reads files and so suspends.

use std::sync::Arc;

use pumice_base::InternalIterator;
use pumice_base::Result;
use pumice_base::key::{InternalKey, parse_internal_key};
use pumice_manifest::{FileMetaData, Version};
use pumice_table::{Table, TableReadOptions};

use super::Lookup;
use crate::read::overlapping::OverlappingIterator;
use crate::read::range_del::inside_file;
use crate::version::table_cache::TableCache;

impl Lookup<'_> {
    /// Looks in all table files, some of which overlap where they must not.
    #[cold]
    pub(super) fn overlapping(
        &mut self,
        cache: &TableCache,
        options: &TableReadOptions,
        version: &Version,
        seek_key: InternalKey<'_>,
    ) -> Result<()> {
        let (comparator, key, upper) = (&version.comparator().user, self.key, self.ranges_to);
        let mut covered_below = self.covered_below;
        let holds = |file: &FileMetaData| {
            comparator.compare_without_timestamp(file.smallest_user_key(), key).is_le()
                && comparator.compare_without_timestamp(key, file.largest_user_key()).is_le()
        };
        let opened = |file: &Arc<FileMetaData>, table: &Table| {
            if let Some(list) = table.range_tombstones_ref()
                && inside_file(comparator, key, file)
            {
                covered_below = covered_below.max(list.max_covering_seq(comparator, key, upper));
            }
            true
        };
        let mut files = OverlappingIterator::open(cache, options, version, holds, opened)?;
        self.covered_below = covered_below;
        files.seek(seek_key);
        while let Some(entry) = files.valid().then(|| parse_internal_key(files.key().as_bytes())) {
            let entry = entry?;
            if !comparator.same_user_key(entry.user_key, key) {
                break;
            }
            if self.sees(entry.user_key, entry.sequence, (entry.value_type, files.value()))
                && !self.take(entry.sequence, entry.value_type, files.value(), None)
            {
                break;
            }
            files.next();
        }
        files.status()
    }
}
