//! What flushes and compactions do with indexes: expired ones go, blobs of the oldest files move,
//! and files that nothing refers to any more become obsolete.
//!
//! Thread safety: called from jobs. Errors of reads fail the compaction, which leaves its input.

use std::sync::Arc;

use pumice_base::extension::{CompactionFilter, FilterDecision};
use pumice_base::wide_columns::WideColumn;
use pumice_base::{FileNumber, Result};
use pumice_port::lane::at_normal_priority;
use pumice_table::blob::index::StackedIndex;

use super::file::{BlobFile, Writer};
use super::files::{Files, Shown, note_tables};
use crate::options::index_owner::{INDEX_COLUMN, IndexMover, IndexOwner};
use crate::options::{CompactionFilterContext, CompactionFilterFactory};
use crate::stats::listener::{CompactionJobInfo, EventListener, FlushJobInfo};
use crate::stats::{Record, Ticker};

/// Tells the files of what jobs have done.
pub(super) struct Watch(pub Arc<Files>);

impl EventListener for Watch {
    fn on_flush_completed(&self, info: &FlushJobInfo) {
        if info.cf_id == 0 {
            note_tables(&self.0, info.largest_seqno);
        }
    }
    fn on_compaction_completed(&self, _info: &CompactionJobInfo) {
        note_tables(&self.0, 0);
    }
}

/// The filters of the user, around which those of indexes are made.
pub(super) struct IndexFilters {
    pub files: Arc<Files>,
    pub filter: Option<Arc<dyn CompactionFilter>>,
    pub factory: Option<Arc<dyn CompactionFilterFactory>>,
}

impl CompactionFilterFactory for IndexFilters {
    /// RocksDB's, which is in OPTIONS.
    fn name(&self) -> &str {
        match self.files.options.enable_garbage_collection {
            true => "BlobIndexCompactionFilterFactoryGC",
            false => "BlobIndexCompactionFilterFactory",
        }
    }
    fn create_compaction_filter(
        &self,
        context: &CompactionFilterContext,
    ) -> Option<Arc<dyn CompactionFilter>> {
        let made = || self.factory.as_ref()?.create_compaction_filter(context);
        let user = self.filter.clone().or_else(made);
        let files = Arc::clone(&self.files);
        let next_number = files.next_number();
        let shown = at_normal_priority(|| files.shown());
        Some(Arc::new(IndexFilter { now: files.now(), shown, next_number, files, user }))
    }
    fn index_owner(&self) -> Option<Arc<dyn IndexOwner>> {
        Some(Arc::clone(&self.files) as _)
    }
}

/// Drops indexes of expired values, and shows other values to the user's filter.
struct IndexFilter {
    files: Arc<Files>,
    shown: Shown,
    /// Above the numbers of `shown`.
    next_number: FileNumber,
    now: u64,
    user: Option<Arc<dyn CompactionFilter>>,
}

impl IndexFilter {
    fn decide(&self, level: i32, key: &[u8], index: &[u8]) -> FilterDecision {
        match StackedIndex::decode(index) {
            // The user's filter sees no value that expires, as in RocksDB.
            Ok(StackedIndex::Inlined(expires, _)) if expires <= self.now => FilterDecision::Remove,
            Ok(StackedIndex::Blob(place, Some(expires))) => {
                let evicted =
                    place.file < self.next_number && !self.shown.contains_key(&place.file);
                match evicted || expires <= self.now {
                    true => FilterDecision::Remove,
                    false => FilterDecision::Keep,
                }
            }
            Ok(StackedIndex::Blob(_, None)) => match &self.user {
                None => FilterDecision::Keep,
                Some(user) => match self.files.value(&self.shown, key, index) {
                    Ok(Some((value, _))) => user.filter(level, key, &value),
                    // The index stays, and reads of the key tell.
                    Ok(None) | Err(_) => FilterDecision::Keep,
                },
            },
            Ok(StackedIndex::Inlined(..)) | Err(_) => FilterDecision::Keep,
        }
    }
}

impl CompactionFilter for IndexFilter {
    fn name(&self) -> &str {
        "BlobIndexCompactionFilter"
    }
    fn filter(&self, level: i32, key: &[u8], value: &[u8]) -> FilterDecision {
        self.user.as_ref().map_or(FilterDecision::Keep, |user| user.filter(level, key, value))
    }
    fn filter_entity(&self, level: i32, key: &[u8], columns: &[WideColumn<'_>]) -> FilterDecision {
        match (columns, &self.user) {
            ([only], _) if only.name == INDEX_COLUMN => self.decide(level, key, only.value),
            (_, Some(user)) => user.filter_entity(level, key, columns),
            (_, None) => FilterDecision::Keep,
        }
    }
    fn filter_merge_operand(&self, level: i32, key: &[u8], operand: &[u8]) -> bool {
        self.user.as_ref().is_some_and(|user| user.filter_merge_operand(level, key, operand))
    }
}

impl IndexOwner for Files {
    fn recover(&self) -> Result<()> {
        Files::recover(self)
    }
    fn sync(&self) -> Result<()> {
        Files::sync(self)
    }
    fn mover(self: Arc<Self>) -> Option<Box<dyn IndexMover>> {
        if !self.options.enable_garbage_collection {
            return None;
        }
        let (below, shown) = at_normal_priority(|| (self.garbage_below(), self.shown()));
        Some(Box::new(Mover { files: self, below, shown, open: None, sealed: Vec::new() }))
    }
}

/// Writes blobs of the oldest files without expiration to new files.
struct Mover {
    files: Arc<Files>,
    /// Files below this number.
    below: FileNumber,
    shown: Shown,
    open: Option<Writer>,
    /// Written whole, and not shown yet.
    sealed: Vec<Arc<BlobFile>>,
}

impl Mover {
    fn seal(&mut self) -> Result<()> {
        if let Some(open) = self.open.take() {
            let path = Arc::clone(&open.file);
            match at_normal_priority(|| self.files.seal(open)) {
                Ok(sealed) => self.sealed.push(sealed),
                Err(error) => {
                    self.sealed.push(path); // So that it is deleted.
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

impl IndexMover for Mover {
    fn place(&mut self, key: &[u8], index: &[u8]) -> Result<Option<Vec<u8>>> {
        let StackedIndex::Blob(place, None) = StackedIndex::decode(index)? else {
            return Ok(None);
        };
        if place.file >= self.below {
            return Ok(None);
        }
        let Some((value, _)) = self.files.value(&self.shown, key, index)? else {
            return Ok(None);
        };
        let open = match &mut self.open {
            Some(open) => open,
            none => none.insert(at_normal_priority(|| self.files.create(None))?),
        };
        let moved = open.append(key, &value, None)?;
        open.flush()?;
        self.files.statistics.tick(Ticker::BlobDbGcNumKeysRelocated);
        self.files.statistics.tick_by(Ticker::BlobDbGcBytesRelocated, value.len() as u64);
        if open.file.bytes() >= self.files.options.blob_file_size {
            self.seal()?;
        }
        let mut bytes = Vec::new();
        StackedIndex::Blob(moved, None).encode(&mut bytes);
        Ok(Some(bytes))
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.seal()?;
        at_normal_priority(|| {
            self.sealed.drain(..).for_each(|file| self.files.show(file));
        });
        Ok(())
    }
}

impl Drop for Mover {
    fn drop(&mut self) {
        let open = self.open.take().map(|open| open.file);
        for file in self.sealed.drain(..).chain(open) {
            // What stays is found by the next open, and goes with the garbage.
            drop(self.files.fs.remove(&file.path));
        }
    }
}
