//! What an iterator makes of prefixes: which seeks may ask prefix filters, and what follows when
//! the prefix is left.
//!
//! A source whose filter lacks the prefix of a seek's target may be left out of that seek. As long
//! as the sources that remain find keys with that prefix, nothing is missed: keys with one prefix
//! lie together, so all keys between the target and what was found have it, and the source that
//! was left out has none of them. Behind the prefix two things may follow: the end
//! (`prefix_same_as_start`), or everything else, for which the sources that were left out have to
//! be sought first. RocksDB leaves them out there too, and may miss keys of other prefixes.
//!
//! Range tombstones are no part of this: an iterator has those of all tables from the start.
//!
//! Policy only: nothing here moves a source. Thread safety: one owner at a time (`Send`).
//! Invariant: while `is_set`, `prefix` is that of the last target that was entered.

use pumice_base::Comparator;
use pumice_table::Extractor;

use crate::db::requests::ReadOptions;
use crate::table_cache::TableCache;

/// How an iterator treats prefixes.
enum Mode {
    /// They do not matter.
    Ignore,
    /// Only keys with the prefix of the target are shown.
    Confine(Extractor),
    /// Keys with the prefix of the target are looked for first; behind them come all others.
    First(Extractor),
}

/// See the module head.
pub(crate) struct Prefix {
    mode: Mode,
    prefix: Vec<u8>,
    is_set: bool,
}

impl Prefix {
    /// The treatment that these options ask for.
    ///
    /// Whoever says `prefix_same_as_start` vouches that the extractor groups keys. Otherwise
    /// filters are asked only where that is sure, and where there are any.
    pub fn new(options: &ReadOptions, tables: &TableCache, order: &Comparator) -> Self {
        let mode = match tables.extractor() {
            Some(_) if options.total_order_seek => Mode::Ignore,
            Some(extractor) if options.prefix_same_as_start => Mode::Confine(extractor.clone()),
            Some(extractor) if tables.uses_filters() && extractor.groups_keys(order) => {
                Mode::First(extractor.clone())
            }
            _ => Mode::Ignore,
        };
        Prefix { mode, prefix: Vec::new(), is_set: false }
    }

    fn extractor(&self) -> Option<&Extractor> {
        match &self.mode {
            Mode::Ignore => None,
            Mode::Confine(extractor) | Mode::First(extractor) => Some(extractor),
        }
    }

    /// What sources need to know to leave out other prefixes; None if they must not.
    pub fn scope(&self) -> Option<&Extractor> {
        self.extractor().filter(|_| self.is_set)
    }

    /// No prefix holds.
    pub fn clear(&mut self) {
        self.is_set = false;
    }

    /// The iterator shows only keys with one prefix.
    pub fn confines(&self) -> bool {
        matches!(self.mode, Mode::Confine(_))
    }

    /// A seek to `target` that fixes what is shown.
    pub fn confine(&mut self, target: &[u8]) {
        if self.confines() {
            self.set(target);
        }
    }

    /// Sources are about to be sought for `target` and what follows it.
    pub fn enter(&mut self, target: &[u8]) {
        if let Mode::First(_) = self.mode {
            self.set(target);
        }
    }

    /// Sources are about to be sought where other prefixes are as likely.
    pub fn forgo(&mut self) {
        if let Mode::First(_) = self.mode {
            self.clear();
        }
    }

    fn set(&mut self, target: &[u8]) {
        let extractor = match &self.mode {
            Mode::Ignore => return,
            Mode::Confine(extractor) | Mode::First(extractor) => extractor,
        };
        let prefix = extractor.prefix(target);
        self.is_set = prefix.is_some();
        self.prefix.clear();
        self.prefix.extend_from_slice(prefix.unwrap_or_default());
    }

    /// A prefix holds and `key` has another one.
    #[inline]
    pub fn is_left_by(&self, key: &[u8]) -> bool {
        self.is_set
            && self.extractor().is_some_and(|e| e.prefix(key) != Some(self.prefix.as_slice()))
    }

    /// Nothing follows behind the prefix that holds: no key with another one is to be shown, for
    /// the iterator is confined or its bound lies within the prefix or at its end.
    pub fn ends_before(&self, upper: Option<&[u8]>, order: &Comparator) -> bool {
        let inside = |upper| {
            self.extractor().is_some_and(|e| e.range_shares_prefix(&self.prefix, upper, order))
        };
        self.confines() || upper.is_some_and(inside)
    }

    /// As `ends_before`, backward, where the bound is a key that may be shown.
    pub fn begins_after(&self, lower: Option<&[u8]>) -> bool {
        self.confines() || lower.is_some_and(|lower| !self.is_left_by(lower))
    }
}
