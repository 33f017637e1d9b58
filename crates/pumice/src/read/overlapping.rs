//! Table files that overlap where they must not, as one stream of internal keys.
//!
//! Their order does not tell which is newer, so each is a sorted run of its own and sequence
//! numbers decide, whatever levels they are on. An entry that several files share comes out once;
//! two entries that differ under one key and sequence number are Corruption, as nothing tells which
//! of them was written.
//!
//! Thread safety: one owner at a time (`Send`).
//! Invariant: while it is valid, `inner` stands past all entries of `key` and its sequence number,
//! in the direction of the last move.
//! Only databases that are opened read-only without `force_consistency_checks` have such files:
//! entries are copied, and all tables are opened at once. May read files and so suspend.

use std::sync::Arc;

use pumice_base::key::InternalKey;
use pumice_base::{Error, InternalIterator, InternalKeyComparator, Result};
use pumice_manifest::{FileMetaData, Version};
use pumice_table::{Extractor, Table, TableIter, TableReadOptions};

use crate::read::merging_iterator::MergingIterator;
use crate::version::table_cache::TableCache;

/// See the module head.
pub struct OverlappingIterator {
    comparator: InternalKeyComparator,
    inner: MergingIterator<TableIter>,
    forward: bool,
    valid: bool,
    key: Vec<u8>,
    value: Vec<u8>,
    status: Result<()>,
}

impl OverlappingIterator {
    /// An iterator over the files of `version` that are `wanted`. `opened` is called with their
    /// tables; false leaves out the entries of one.
    ///
    /// # Errors
    /// Of opening a table.
    pub fn open(
        tables: &TableCache,
        options: &TableReadOptions,
        version: &Version,
        mut wanted: impl FnMut(&FileMetaData) -> bool,
        mut opened: impl FnMut(&Arc<FileMetaData>, &Table) -> bool,
    ) -> Result<Self> {
        let mut sources = Vec::new();
        for (level, file) in version.all_files().filter(|(_, file)| wanted(file)) {
            let table = tables.table_for(options, file, level)?;
            if opened(file, &table) {
                sources.push(table.share()?.iter(options));
            }
        }
        let comparator = version.comparator().clone();
        Ok(OverlappingIterator {
            inner: MergingIterator::new(comparator.clone(), sources),
            comparator,
            forward: true,
            valid: false,
            key: Vec::new(),
            value: Vec::new(),
            status: Ok(()),
        })
    }

    /// From now on, a seek may leave out keys without the prefix of its target; with None it finds
    /// everything.
    pub fn scope_to_prefix(&mut self, scope: Option<&Extractor>) {
        self.inner.sources_mut().for_each(|table| table.scope_to_prefix(scope));
    }

    fn go(&mut self, forward: bool, seek: impl FnOnce(&mut MergingIterator<TableIter>)) {
        self.forward = forward;
        self.status = Ok(());
        seek(&mut self.inner);
        self.take();
    }

    /// Takes the entry that `inner` is on, and passes over identical ones.
    fn take(&mut self) {
        self.valid = false;
        if self.inner.valid() {
            self.key.clear();
            self.key.extend_from_slice(self.inner.key().as_bytes());
            self.value.clear();
            self.value.extend_from_slice(self.inner.value());
            self.valid = true;
            self.step();
        }
        while self.inner.valid() && self.valid && self.is_same_write(self.inner.key()) {
            if self.inner.key().as_bytes() != self.key || self.inner.value() != self.value {
                self.valid = false;
                self.status = Err(self.contradiction());
                return;
            }
            self.step();
        }
        if let Err(error) = self.inner.status() {
            self.valid = false;
            self.status = Err(error);
        }
    }

    fn step(&mut self) {
        match self.forward {
            true => self.inner.next(),
            false => self.inner.prev(),
        }
    }

    fn is_same_write(&self, other: InternalKey<'_>) -> bool {
        let own = self.key();
        self.comparator.same_entry_key(own, other) && own.sequence() == other.sequence()
    }

    fn contradiction(&self) -> Error {
        let sequence = self.key().sequence();
        let key = self.key().user_key().as_bytes().escape_ascii();
        Error::corruption(format!(
            "overlapping files have different entries of key '{key}' with sequence number \
             {sequence}"
        ))
    }
}

impl InternalIterator for OverlappingIterator {
    fn valid(&self) -> bool {
        self.valid
    }
    fn seek_to_first(&mut self) {
        self.go(true, |inner| inner.seek_to_first());
    }
    fn seek_to_last(&mut self) {
        self.go(false, |inner| inner.seek_to_last());
    }
    fn seek(&mut self, target: InternalKey<'_>) {
        self.go(true, |inner| inner.seek(target));
    }
    fn seek_for_prev(&mut self, target: InternalKey<'_>) {
        self.go(false, |inner| inner.seek_for_prev(target));
    }
    fn next(&mut self) {
        if !self.forward {
            let here = self.key.clone();
            self.seek(InternalKey::new(&here));
        }
        if self.valid {
            self.take();
        }
    }
    fn prev(&mut self) {
        if self.forward {
            let here = self.key.clone();
            self.seek_for_prev(InternalKey::new(&here));
        }
        if self.valid {
            self.take();
        }
    }
    fn key(&self) -> InternalKey<'_> {
        InternalKey::new(&self.key)
    }
    fn value(&self) -> &[u8] {
        &self.value
    }
    fn status(&self) -> Result<()> {
        self.status.clone()
    }
}
