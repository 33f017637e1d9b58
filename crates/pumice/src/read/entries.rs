//! `Entries`: keys and values as a Rust iterator, from both ends, over the cursor of any handle.
//!
//! Thread safety: as the cursor it holds: `Send`, one owner at a time. Invariants: (1) with `side`
//! being `Front` or `Back`, the cursor is on the entry that this side returned last; (2) nothing at
//! or before `limits.after`, and nothing that `limits.until` excludes, is returned. An error is the
//! last item. Any step may read files and so may suspend. Items are copies, since the cursor only
//! lends.

use std::cmp::Ordering;
use std::ops::Bound;

use pumice_base::{Comparator, Error, Result, WideColumn};

use crate::options::requests::ReadOptions;
use crate::read::iterator::DbIterator;
use crate::read::key_bounds::KeyBounds;

/// What moves over the entries of a handle, both ways. The methods of the handle's own cursor, such
/// as [`DbIterator`], say what each does; all of them may suspend.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-cursor-{}", std::process::id()));
/// # let db = pumice::Db::builder(&dir).create(true).open()?;
/// use pumice::Cursor;
/// /// The keys of any cursor: a database's, one with a time to live, a batch over a database.
/// fn keys(cursor: &mut impl Cursor) -> Vec<Vec<u8>> {
///     let mut keys = Vec::new();
///     cursor.seek_to_first();
///     while let Some(key) = cursor.key() {
///         keys.push(key.to_vec());
///         cursor.next();
///     }
///     keys
/// }
/// db.put("a", "1")?;
/// assert_eq!(keys(&mut db.cursor()?), [b"a"]);
/// # db.close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
pub trait Cursor: Send {
    /// Moves to the first entry.
    fn seek_to_first(&mut self);
    /// Moves to the last entry.
    fn seek_to_last(&mut self);
    /// Moves to the first entry at or after `target`.
    fn seek(&mut self, target: &[u8]);
    /// Moves to the last entry at or before `target`.
    fn seek_for_prev(&mut self, target: &[u8]);
    /// Moves to the entry after this one.
    fn next(&mut self);
    /// Moves to the entry before this one.
    fn prev(&mut self);
    /// The key of this entry; None without a position.
    fn key(&self) -> Option<&[u8]>;
    /// The value of this entry; None without a position.
    ///
    /// # Errors
    /// Corruption if the stored value is not one of this handle's.
    fn value(&self) -> Option<Result<&[u8]>>;
    /// The columns of this entry by name ascending, see [`DbIterator::columns`]; None without a
    /// position. A handle whose cursors do not say gives the value as the only column.
    ///
    /// # Errors
    /// As [`Cursor::value`].
    fn columns(&self) -> Option<Result<Vec<WideColumn<'_>>>> {
        Some(self.value()?.map(|value| vec![WideColumn::of_plain(value)]))
    }
    /// Why there is no position, if that is not the end.
    ///
    /// # Errors
    /// That of the move.
    fn status(&self) -> Result<()>;
    /// How two keys are ordered.
    fn order(&self, left: &[u8], right: &[u8]) -> Ordering;
    /// The place before all that is shown of the user's `key`, as a key like those that are shown.
    #[doc(hidden)]
    fn place_before(&self, key: Vec<u8>) -> Vec<u8> {
        key
    }
    /// The last place of what is shown of the user's `key`.
    #[doc(hidden)]
    fn last_place(&self, key: Vec<u8>) -> Vec<u8> {
        key
    }
    /// Moves to the first entry at or after such a place.
    #[doc(hidden)]
    fn seek_place(&mut self, place: &[u8]) {
        self.seek(place);
    }
    /// Moves to the last entry at or before such a place.
    #[doc(hidden)]
    fn seek_place_for_prev(&mut self, place: &[u8]) {
        self.seek_for_prev(place);
    }
}

impl Cursor for DbIterator {
    fn seek_to_first(&mut self) {
        DbIterator::seek_to_first(self);
    }
    fn seek_to_last(&mut self) {
        DbIterator::seek_to_last(self);
    }
    fn seek(&mut self, target: &[u8]) {
        DbIterator::seek(self, target);
    }
    fn seek_for_prev(&mut self, target: &[u8]) {
        DbIterator::seek_for_prev(self, target);
    }
    fn next(&mut self) {
        DbIterator::next(self);
    }
    fn prev(&mut self) {
        DbIterator::prev(self);
    }
    fn key(&self) -> Option<&[u8]> {
        DbIterator::key(self)
    }
    fn value(&self) -> Option<Result<&[u8]>> {
        DbIterator::value(self).map(Ok)
    }
    fn columns(&self) -> Option<Result<Vec<WideColumn<'_>>>> {
        DbIterator::columns(self).map(Ok)
    }
    fn status(&self) -> Result<()> {
        DbIterator::status(self)
    }
    fn order(&self, left: &[u8], right: &[u8]) -> Ordering {
        DbIterator::order(self, left, right)
    }
    fn place_before(&self, key: Vec<u8>) -> Vec<u8> {
        DbIterator::place_before(self, key)
    }
    fn last_place(&self, key: Vec<u8>) -> Vec<u8> {
        DbIterator::last_place(self, key)
    }
    fn seek_place(&mut self, place: &[u8]) {
        DbIterator::seek_place(self, place);
    }
    fn seek_place_for_prev(&mut self, place: &[u8]) {
        DbIterator::seek_place_for_prev(self, place);
    }
}

/// A key and its value.
type Entry = (Vec<u8>, Vec<u8>);

/// What remains to be returned.
#[derive(Default)]
pub(crate) struct Limits {
    /// The first key, if known.
    from: Option<Vec<u8>>,
    /// Only keys after this one; a place of the cursor, once there is one.
    after: Option<Vec<u8>>,
    until: Until,
}

/// The upper limit.
#[derive(Default)]
enum Until {
    #[default]
    End,
    Before(Vec<u8>),
    At(Vec<u8>),
}

impl Limits {
    pub fn of<K>(range: &impl KeyBounds<K>) -> Self {
        let mut limits = Limits::default();
        match range.start() {
            Bound::Included(key) => limits.from = Some(key.to_vec()),
            Bound::Excluded(key) => limits.after = Some(key.to_vec()),
            Bound::Unbounded => {}
        }
        limits.until = match range.end() {
            Bound::Included(key) => Until::At(key.to_vec()),
            Bound::Excluded(key) => Until::Before(key.to_vec()),
            Bound::Unbounded => Until::End,
        };
        limits
    }

    /// The keys that begin with `prefix`.
    pub fn of_prefix(comparator: &Comparator, prefix: &[u8]) -> Result<Self> {
        // The shortest key beyond all of them; there is none if all bytes are 0xff.
        let mut beyond = prefix.to_vec();
        while beyond.pop_if(|last| *last == 0xff).is_some() {}
        let beyond = beyond.pop().map(|last| {
            let mut key = prefix[..beyond.len()].to_vec();
            key.push(last + 1);
            key
        });
        let prefix = prefix.to_vec();
        match comparator {
            Comparator::Bytewise => Ok(Limits {
                from: Some(prefix),
                until: beyond.map_or(Until::End, Until::Before),
                ..Limits::default()
            }),
            Comparator::ReverseBytewise => {
                Ok(Limits { after: beyond, until: Until::At(prefix), ..Limits::default() })
            }
            Comparator::Custom(own) => Err(Error::not_supported(format!(
                "Keys with a prefix in the order of {}",
                own.name()
            ))),
        }
    }

    /// `options` with those limits that a cursor can enforce itself.
    pub fn bound(&self, options: &ReadOptions) -> Result<ReadOptions> {
        if options.iterate_lower_bound.is_some() || options.iterate_upper_bound.is_some() {
            let text = "a range and ReadOptions bounds cannot be combined";
            return Err(Error::invalid_argument(text));
        }
        let mut bounded = options.clone();
        bounded.iterate_lower_bound = self.from.clone().or_else(|| self.after.clone());
        if let Until::Before(key) = &self.until {
            bounded.iterate_upper_bound = Some(key.clone());
        }
        Ok(bounded)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Fresh,
    Front,
    Back,
    Done,
}

/// Keys and values in key order; `rev()` returns them from the end. An error is the last item.
///
/// Calls that ignore the items, above all `count()`, count an error as one more entry. Where that
/// matters `db.iter()?.try_fold(0, |n, entry| entry.map(|_| n + 1))?` counts correctly.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-entries-{}", std::process::id()));
/// # let mut options = pumice::Options::default();
/// # options.db.create_if_missing = true;
/// # let db = pumice::Db::open(&options, &dir)?;
/// for n in 1..=5 {
///     db.put(format!("k{n}"), "v")?;
/// }
/// for entry in db.range("k2".."k4")?.rev() {
///     let (key, value) = entry?;
///     println!("{key:?} = {value:?}");
/// }
/// # assert_eq!(db.range("k2".."k4")?.count(), 2);
/// # db.close()?;
/// # pumice::Db::destroy(&options, &dir)?;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is read before it is iterated over"]
pub struct Entries<C = DbIterator> {
    cursor: C,
    limits: Limits,
    side: Side,
}

impl<C: Cursor> Entries<C> {
    pub(crate) fn new(cursor: C, limits: Limits) -> Self {
        // The keys that the cursor shows may be versions of those of the range.
        let limits = Limits {
            after: limits.after.map(|key| cursor.last_place(key)),
            until: match limits.until {
                Until::End => Until::End,
                Until::Before(key) => Until::Before(cursor.place_before(key)),
                Until::At(key) => Until::At(cursor.last_place(key)),
            },
            ..limits
        };
        Entries { cursor, limits, side: Side::Fresh }
    }

    /// Moves the cursor to the next entry from the front.
    fn forward(&mut self) {
        if self.side == Side::Front {
            return self.cursor.next();
        }
        if self.side == Side::Back
            && let Some(key) = self.cursor.key()
        {
            self.limits.until = Until::Before(key.to_vec());
        }
        self.side = Side::Front;
        match &self.limits.after {
            None => self.cursor.seek_to_first(),
            Some(after) => {
                self.cursor.seek_place(after);
                if self.cursor.key().is_some_and(|key| self.cursor.order(key, after).is_eq()) {
                    self.cursor.next();
                }
            }
        }
    }

    /// Moves the cursor to the next entry from the back.
    fn backward(&mut self) {
        if self.side == Side::Back {
            return self.cursor.prev();
        }
        if self.side == Side::Front
            && let Some(key) = self.cursor.key()
        {
            self.limits.after = Some(key.to_vec());
        }
        self.side = Side::Back;
        match &self.limits.until {
            Until::End => self.cursor.seek_to_last(),
            Until::At(last) => self.cursor.seek_place_for_prev(last),
            Until::Before(end) => {
                self.cursor.seek_place_for_prev(end);
                if self.cursor.key().is_some_and(|key| self.cursor.order(key, end).is_eq()) {
                    self.cursor.prev();
                }
            }
        }
    }

    /// The entry under the cursor, if it has not been returned yet.
    fn take(&mut self) -> Option<Result<Entry>> {
        let (Some(key), Some(value)) = (self.cursor.key(), self.cursor.value()) else {
            self.side = Side::Done;
            return self.cursor.status().err().map(Err);
        };
        let order = |limit: &Vec<u8>| self.cursor.order(key, limit);
        let inside = self.limits.after.as_ref().is_none_or(|after| order(after).is_gt())
            && match &self.limits.until {
                Until::End => true,
                Until::Before(end) => order(end) == Ordering::Less,
                Until::At(last) => order(last) != Ordering::Greater,
            };
        if !inside {
            self.side = Side::Done;
            return None;
        }
        Some(value.map(|value| (key.to_vec(), value.to_vec())))
    }
}

impl<C: std::fmt::Debug> std::fmt::Debug for Entries<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entries").field("cursor", &self.cursor).finish_non_exhaustive()
    }
}

impl<C: Cursor> Iterator for Entries<C> {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.side == Side::Done {
            return None;
        }
        self.forward();
        self.take()
    }
}

impl<C: Cursor> DoubleEndedIterator for Entries<C> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.side == Side::Done {
            return None;
        }
        self.backward();
        self.take()
    }
}

impl<C: Cursor> std::iter::FusedIterator for Entries<C> {}
