//! One sorted level as one iterator: opens its tables one after the other.
//!
//! Thread safety: one owner at a time (`Send`). Invariants: (1) the files are sorted and do not
//! overlap (the version builder checks it); (2) `table` is the iterator of `files[index]`, or None
//! when out of range or after an error; (3) with a scope, keys left out after a seek have a prefix
//! other than its target's; (4) the iterator of a table that the filter does not want is never
//! positioned, and so counts as ended. Opening a table may read the file and so may suspend.

use std::sync::Arc;

use pumice_base::key::InternalKey;
use pumice_base::{InternalIterator, InternalKeyComparator, Result, UserKey};
use pumice_env::perf;
use pumice_manifest::Level;
use pumice_table::{Extractor, Goal, TableIter, TableReadOptions};

use crate::options::requests::TableFilter;
use crate::read::range_del::Reached;
use crate::version::table_cache::{TableCache, TableRef};

/// See the module head.
pub struct LevelIterator {
    cache: Arc<TableCache>,
    comparator: InternalKeyComparator,
    level: Arc<Level>,
    options: TableReadOptions,
    index: usize,
    table: Option<TableIter>,
    status: Result<()>,
    /// Seeks stay within the prefix of their target.
    scope: Option<Extractor>,
    /// The prefix of the last target, if it has one.
    prefix: Vec<u8>,
    has_prefix: bool,
    /// Told of the tables that are opened, unless the level has no range tombstones.
    reached: Option<Reached>,
    filter: Option<TableFilter>,
    /// The filter does not want the table.
    passes_over: bool,
    /// Tables are opened for this iterator alone, past the page cache.
    direct: bool,
}

impl LevelIterator {
    /// An unpositioned iterator over `level`.
    pub fn new(
        cache: Arc<TableCache>,
        comparator: InternalKeyComparator,
        level: Arc<Level>,
        options: TableReadOptions,
    ) -> Self {
        LevelIterator {
            cache,
            comparator,
            level,
            options,
            index: 0,
            table: None,
            status: Ok(()),
            scope: None,
            prefix: Vec::new(),
            has_prefix: false,
            reached: None,
            filter: None,
            passes_over: false,
            direct: false,
        }
    }

    /// The same, opening tables for itself, past the page cache.
    pub fn direct(self, direct: bool) -> Self {
        LevelIterator { direct, ..self }
    }

    /// The same, noting in `reached` which tables it opens.
    pub fn noting(self, reached: Option<Reached>) -> Self {
        LevelIterator { reached, ..self }
    }

    /// The same, passing over the tables that `filter` does not want.
    pub fn filtered(self, filter: Option<&TableFilter>) -> Self {
        LevelIterator { filter: filter.cloned(), ..self }
    }

    /// From now on, a seek may leave out keys without the prefix of its target; with None it finds
    /// everything.
    pub fn scope_to_prefix(&mut self, scope: Option<&Extractor>) {
        self.scope = scope.cloned();
        self.has_prefix = false;
        if let Some(table) = &mut self.table {
            table.scope_to_prefix(scope);
        }
    }

    /// The value is returned to a user. Requires `valid`.
    pub fn note_use(&self) {
        if let Some(table) = &self.table {
            table.note_use();
        }
    }

    fn note_prefix(&mut self, target: InternalKey<'_>) {
        if let Some(scope) = &self.scope {
            let prefix = scope.prefix(target.user_key().as_bytes());
            self.has_prefix = prefix.is_some();
            self.prefix.clear();
            self.prefix.extend_from_slice(prefix.unwrap_or_default());
        }
    }

    /// The neighbouring file, whose nearer end is `end`, has nothing to show: its keys are beyond
    /// all keys with the prefix.
    fn is_out_of_scope(&self, end: Option<UserKey<'_>>) -> bool {
        match (&self.scope, end) {
            (Some(scope), Some(key)) if self.has_prefix => {
                scope.prefix(key.as_bytes()) != Some(self.prefix.as_slice())
            }
            _ => false,
        }
    }

    fn open(&mut self, index: usize) {
        if index == self.index && self.table.is_some() {
            return;
        }
        self.table = None;
        self.index = index;
        let Some(file) = self.level.files().get(index) else { return };
        let table = match self.direct {
            true => self.cache.open_direct(file, self.level.number()).map(TableRef::Held),
            false => self.cache.table_for(&self.options, file, self.level.number()),
        };
        let opened = table.and_then(|table| {
            if let Some(reached) = &self.reached {
                reached.note(&table);
            }
            if perf::is_any() {
                table.seen_at(self.level.number());
            }
            let wants = |filter: &TableFilter| filter.wants(table.properties());
            let passes_over = !self.filter.as_ref().is_none_or(wants);
            Ok((table.share()?.iter(&self.options), passes_over))
        });
        match opened {
            Ok((mut table, passes_over)) => {
                self.passes_over = passes_over;
                if self.scope.is_some() {
                    table.scope_to_prefix(self.scope.as_ref());
                }
                self.table = Some(table);
            }
            Err(error) => self.status = Err(error),
        }
    }

    /// Moves to the goal; see [`TableIter::start`].
    pub fn start(&mut self, goal: Goal<'_>, defers: bool) -> bool {
        self.status = Ok(());
        let Some(last) = self.level.files().len().checked_sub(1) else { return false };
        let index = match goal {
            Goal::First => 0,
            Goal::Last => last,
            Goal::Seek(target) => {
                self.note_prefix(target);
                self.level.find_file(&self.comparator, target)
            }
            Goal::SeekForPrev(target) => {
                self.note_prefix(target);
                self.level.find_file(&self.comparator, target).min(last)
            }
        };
        self.open(index);
        if let Some(table) = &mut self.table
            && !self.passes_over
            && table.start(goal, defers)
        {
            return true;
        }
        self.skip(goal);
        false
    }

    /// Continues a move that waited for a block; true if it waits for another.
    pub fn go_on(&mut self, goal: Goal<'_>) -> bool {
        if self.table.as_mut().is_some_and(|table| table.go_on(goal)) {
            return true;
        }
        self.skip(goal);
        false
    }

    /// The table whose block a move waits for.
    pub fn waiting(&mut self) -> Option<&mut TableIter> {
        self.table.as_mut()
    }

    /// Passes over tables that have nothing to show in the direction of a move.
    fn skip(&mut self, goal: Goal<'_>) {
        match goal {
            Goal::First | Goal::Seek(_) => self.skip_forward(),
            Goal::Last | Goal::SeekForPrev(_) => self.skip_backward(),
        }
    }

    /// Seeks in the current table, unless the filter does not want it.
    fn position(&mut self, seek: impl FnOnce(&mut TableIter)) {
        if let Some(table) = &mut self.table
            && !self.passes_over
        {
            seek(table);
        }
    }

    /// True when the current table ended without an error, so that a neighbour may follow.
    fn exhausted(&mut self) -> bool {
        let Some(table) = &self.table else { return false };
        if table.valid() {
            return false;
        }
        if let Err(error) = table.status() {
            self.status = Err(error);
            self.table = None;
            return false;
        }
        true
    }

    fn skip_forward(&mut self) {
        while self.exhausted() {
            let next = self.level.files().get(self.index + 1);
            if self.is_out_of_scope(next.map(|file| file.smallest_user_key())) {
                return;
            }
            self.open(self.index + 1);
            self.position(|table| table.seek_to_first());
        }
    }

    fn skip_backward(&mut self) {
        while self.exhausted() {
            if self.index == 0 {
                self.table = None;
                return;
            }
            let previous = &self.level.files()[self.index - 1];
            if self.is_out_of_scope(Some(previous.largest_user_key())) {
                return;
            }
            self.open(self.index - 1);
            self.position(|table| table.seek_to_last());
        }
    }
}

impl InternalIterator for LevelIterator {
    #[inline]
    fn valid(&self) -> bool {
        self.table.as_ref().is_some_and(|t| t.valid())
    }
    fn seek_to_first(&mut self) {
        self.start(Goal::First, false);
    }
    fn seek_to_last(&mut self) {
        self.start(Goal::Last, false);
    }
    fn seek(&mut self, target: InternalKey<'_>) {
        self.start(Goal::Seek(target), false);
    }
    fn seek_for_prev(&mut self, target: InternalKey<'_>) {
        self.start(Goal::SeekForPrev(target), false);
    }
    #[inline]
    fn next(&mut self) {
        if let Some(table) = &mut self.table {
            table.next();
            if !table.valid() {
                self.skip_forward();
            }
        }
    }
    #[inline]
    fn prev(&mut self) {
        if let Some(table) = &mut self.table {
            table.prev();
            if !table.valid() {
                self.skip_backward();
            }
        }
    }
    #[inline]
    fn key(&self) -> InternalKey<'_> {
        self.table.as_ref().expect("key() requires valid()").key()
    }
    #[inline]
    fn value(&self) -> &[u8] {
        self.table.as_ref().expect("value() requires valid()").value()
    }
    fn status(&self) -> Result<()> {
        self.status.clone()
    }
}
