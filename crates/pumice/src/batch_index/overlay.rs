//! A cursor over a batch and a database together: RocksDB's `BaseDeltaIterator`.
//!
//! *Base* is the database's cursor, *delta* the batch. At each move the nearer of the two is shown;
//! of one key the batch's state hides the database's, and a deletion hides the key.
//!
//! | field | says |
//! |---|---|
//! | `current` | which side is shown; the other one is beyond it in the direction of travel |
//! | `equal_keys` | both sides are at the key shown, which is then the delta's |
//!
//! The batch is read anew at each move: records that are added while the cursor is open are seen if
//! they are beyond the delta's position, which is its key. What is shown is a copy, so it stays as
//! it was at the move.
//!
//! Thread safety: as base and batch; one owner at a time. Moves of the base may read files and so
//! suspend. Without a handle of the column family merges of the batch cannot be shown: that is an
//! error, which ends the cursor until the next seek.

use std::cmp::Ordering;

use pumice_base::{Error, Result, UserKey, ValueType, WideColumn, wide_columns};
use pumice_port::fiber;

use crate::batch_index::WriteBatchWithIndex;
use crate::batch_index::index::{Family, Spot};
use crate::batch_index::lookup::{Base, merged_value};
use crate::cost;
use crate::options::requests::ReadOptions;
use crate::read::entries::Cursor;
use crate::read::value::plain;
use crate::version::family::ColumnFamily;

/// How a cursor finds the batch that it reads.
///
/// Example: that of [`SharedBatch`](crate::SharedBatch).
pub trait BatchView: Send {
    /// Calls `read` with the batch.
    fn with<R>(&self, read: impl FnOnce(&WriteBatchWithIndex) -> R) -> R;
}

impl BatchView for &WriteBatchWithIndex {
    fn with<R>(&self, read: impl FnOnce(&WriteBatchWithIndex) -> R) -> R {
        read(self)
    }
}

/// The batch's side: a position at the newest entry of a key.
#[derive(Default)]
struct Delta {
    /// The key of the position, if `valid`.
    key: Vec<u8>,
    /// Where it was found, and `Index::changes` then.
    found: Option<(Spot, u64)>,
    valid: bool,
}

/// What the batch's side may show.
struct Scope {
    id: u32,
    lower: Option<Vec<u8>>,
    upper: Option<Vec<u8>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Current {
    Nothing,
    Base,
    Delta,
}

/// A cursor over a batch and a database together: of one key the batch's state hides the
/// database's, and a deletion hides the key.
///
/// Records that are added to the batch meanwhile are seen if they are beyond the cursor. Without a
/// handle of the column family merges of the batch are an error.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-basedelta-{}", std::process::id()));
/// # let db = pumice::Db::builder(&dir).create(true).open()?;
/// use pumice::{BaseDeltaIterator, Cursor, WriteBatchWithIndex};
/// db.put("a", "old")?;
/// db.put("b", "old")?;
/// let mut batch = WriteBatchWithIndex::new();
/// batch.put("b", "new")?;
/// let mut both: BaseDeltaIterator<_, _> = batch.iterator_with_base_of_default(db.cursor()?);
/// both.seek(b"b");
/// assert_eq!(both.value().transpose()?, Some(&b"new"[..]));
/// both.prev();
/// assert_eq!(both.value().transpose()?, Some(&b"old"[..]));
/// # drop(both);
/// # db.close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
pub struct BaseDeltaIterator<C, B> {
    base: C,
    batch: B,
    delta: Delta,
    scope: Scope,
    family: Option<ColumnFamily>,
    forward: bool,
    current: Current,
    equal_keys: bool,
    /// The value of the delta, if that is shown.
    value: Vec<u8>,
    /// The delta as it is stored if it is an entity, else empty.
    entity: Vec<u8>,
    status: Result<()>,
}

impl<C, B> std::fmt::Debug for BaseDeltaIterator<C, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BaseDeltaIterator").field("current", &self.current).finish_non_exhaustive()
    }
}

impl WriteBatchWithIndex {
    /// A cursor over the batch and `base`, a cursor over `cf`. The batch's side keeps to the bounds
    /// of `options` if these are given: they should be the ones with which `base` was made, as
    /// entries of the batch outside of the base's bounds are shown otherwise.
    pub fn iterator_with_base<C: Cursor>(
        &self,
        cf: &ColumnFamily,
        base: C,
        options: Option<&ReadOptions>,
    ) -> BaseDeltaIterator<C, &Self> {
        BaseDeltaIterator::new(self, Some(cf.clone()), base, options)
    }

    /// As [`WriteBatchWithIndex::iterator_with_base`], over the default family and without its
    /// handle: merges of the batch are an error.
    pub fn iterator_with_base_of_default<C: Cursor>(&self, base: C) -> BaseDeltaIterator<C, &Self> {
        BaseDeltaIterator::new(self, None, base, None)
    }
}

impl<C: Cursor, B: BatchView> BaseDeltaIterator<C, B> {
    /// A cursor over `base` and that family of the batch, or, without its handle, the default one.
    /// See [`WriteBatchWithIndex::iterator_with_base`].
    pub fn new(
        batch: B,
        family: Option<ColumnFamily>,
        base: C,
        options: Option<&ReadOptions>,
    ) -> Self {
        let scope = Scope {
            id: family.as_ref().map_or(0, ColumnFamily::id),
            lower: options.and_then(|options| options.iterate_lower_bound.clone()),
            upper: options.and_then(|options| options.iterate_upper_bound.clone()),
        };
        BaseDeltaIterator {
            base,
            batch,
            delta: Delta::default(),
            scope,
            family,
            forward: true,
            current: Current::Nothing,
            equal_keys: false,
            value: Vec::new(),
            entity: Vec::new(),
            status: Ok(()),
        }
    }

    /// It is on an entry.
    pub fn valid(&self) -> bool {
        self.current != Current::Nothing
    }

    /// Puts the delta where `find` says: a spot, of whose key the newest entry is meant.
    fn place(&mut self, find: impl FnOnce(&Family, &[u8], &Delta, &Scope) -> Option<Spot>) {
        let Self { batch, delta, scope, .. } = self;
        batch.with(|batch| delta.place(batch, scope, find));
    }

    fn delta_to_start(&mut self) {
        self.place(|family, rep, _, scope| {
            Some(match &scope.lower {
                Some(lower) => family.at_or_after(rep, lower),
                None => family.first(),
            })
        });
    }

    fn delta_to_end(&mut self) {
        self.place(|family, rep, _, scope| {
            let end = match &scope.upper {
                Some(upper) => family.at_or_after(rep, upper),
                None => family.end(),
            };
            family.before(end)
        });
    }

    fn delta_seek(&mut self, target: &[u8]) {
        self.place(|family, rep, _, scope| {
            let order = family.comparator();
            let lower = scope
                .lower
                .as_deref()
                .filter(|lower| order.compare(UserKey::new(target), UserKey::new(lower)).is_lt());
            Some(family.at_or_after(rep, lower.unwrap_or(target)))
        });
    }

    fn delta_seek_for_prev(&mut self, target: &[u8]) {
        self.place(|family, rep, _, scope| {
            let order = family.comparator();
            let beyond = scope
                .upper
                .as_deref()
                .filter(|upper| order.compare(UserKey::new(target), UserKey::new(upper)).is_ge());
            family.before(match beyond {
                Some(upper) => family.at_or_after(rep, upper),
                None => family.after(rep, target),
            })
        });
    }

    fn advance_delta(&mut self) {
        match self.forward {
            true => self.place(|family, rep, delta, _| Some(delta.beyond(family, rep))),
            false => self.place(|family, rep, delta, _| {
                family.before(
                    delta.spot(family).unwrap_or_else(|| family.at_or_after(rep, &delta.key)),
                )
            }),
        }
    }

    fn advance_base(&mut self) {
        match self.forward {
            true => self.base.next(),
            false => self.base.prev(),
        }
    }

    /// Moves on from the entry shown.
    fn advance(&mut self, forward: bool) {
        match self.current {
            Current::Nothing => {
                let name = if forward { "Next" } else { "Prev" };
                self.status = Err(Error::not_supported(format!("{name}() on invalid iterator")));
                return;
            }
            Current::Base if self.forward != forward => {
                self.forward = forward;
                let key = self.base.key().unwrap_or_default().to_vec();
                self.place(|family, rep, _, _| match forward {
                    true => Some(family.after(rep, &key)),
                    false => family.before(family.at_or_after(rep, &key)),
                });
            }
            Current::Delta if self.forward != forward => {
                self.forward = forward;
                self.turn_base();
            }
            Current::Base | Current::Delta => {}
        }
        if self.current == Current::Base || self.equal_keys {
            self.advance_base();
        }
        if self.current == Current::Delta {
            self.advance_delta();
        }
        self.update();
    }

    /// The direction has changed while the delta was shown: puts the base on the first key at or
    /// beyond the delta's.
    fn turn_base(&mut self) {
        match (self.base.key().is_some(), self.forward) {
            (true, _) if self.equal_keys => return,
            (true, true) => self.base.next(),
            (true, false) => self.base.prev(),
            (false, true) => self.base.seek_to_first(),
            (false, false) => self.base.seek_to_last(),
        }
        let key = &self.delta.key;
        self.equal_keys = self.base.key().is_some_and(|base| self.base.order(base, key).is_eq());
    }

    /// Shows the nearer side, after both were moved.
    fn update(&mut self) {
        self.status = Ok(());
        self.current = Current::Nothing;
        loop {
            fiber::spend(cost::STEP);
            self.equal_keys = false;
            let order = match (self.delta.valid, self.base.key()) {
                (_, None) if self.base.status().is_err() => return,
                (false, None) => return,
                (false, Some(_)) => return self.current = Current::Base,
                (true, None) => Ordering::Less,
                (true, Some(base)) => {
                    let order = self.base.order(&self.delta.key, base);
                    if self.forward { order } else { order.reverse() }
                }
            };
            if order.is_gt() {
                return self.current = Current::Base;
            }
            self.equal_keys = order.is_eq();
            match self.take_delta() {
                Ok(true) => return self.current = Current::Delta,
                Ok(false) => {}
                Err(error) => return self.status = Err(error),
            }
            if self.equal_keys {
                self.advance_base();
            }
            self.advance_delta();
        }
    }

    /// Copies the value of the delta's key; false if the key is deleted.
    fn take_delta(&mut self) -> Result<bool> {
        let Self { base, batch, delta, scope, family, equal_keys, value, entity, .. } = self;
        batch.with(|batch| {
            let latest = batch.latest(scope.id, &delta.key)?;
            // A rollback may have removed the key since the delta was put there.
            if latest.is_deleted() || latest.is_absent() {
                return Ok(false);
            }
            let of_base;
            let below = match latest.base {
                Base::Put(value_type, stored) => Some((value_type as u8, stored)),
                Base::Open if *equal_keys => {
                    of_base = stored_in(base)?;
                    of_base.as_ref().map(|(tag, stored)| (*tag, stored.as_slice()))
                }
                Base::Open | Base::Deleted => None,
            };
            value.clear();
            entity.clear();
            let mut show = |tag: u8, stored: &[u8]| -> Result<()> {
                value.extend_from_slice(plain(tag, stored)?);
                if tag == ValueType::WideColumnEntity as u8 {
                    entity.extend_from_slice(stored);
                }
                Ok(())
            };
            match below {
                Some((tag, stored)) if latest.operands.is_empty() => show(tag, stored)?,
                _ => {
                    let merged =
                        merged_value(family.as_ref(), &delta.key, &latest.operands, below)?;
                    show(merged.0 as u8, &merged.1)?;
                }
            }
            Ok(true)
        })
    }
}

/// What the base shows, with its kind, as a database stores it.
fn stored_in(base: &impl Cursor) -> Result<Option<(u8, Vec<u8>)>> {
    let Some(mut columns) = base.columns().transpose()? else { return Ok(None) };
    Ok(Some(match columns.as_slice() {
        [only] if only.is_default() => (ValueType::Value as u8, only.value.to_vec()),
        _ => (ValueType::WideColumnEntity as u8, wide_columns::encode(&mut columns)?),
    }))
}

impl Delta {
    /// See [`BaseDeltaIterator::place`].
    fn place(
        &mut self,
        batch: &WriteBatchWithIndex,
        scope: &Scope,
        find: impl FnOnce(&Family, &[u8], &Delta, &Scope) -> Option<Spot>,
    ) {
        let changes = batch.index.changes();
        if self.found.is_some_and(|(_, then)| then != changes) {
            self.found = None;
        }
        let rep = batch.data();
        let family = batch.index.family(scope.id);
        let spot =
            family.and_then(|family| Some(family.newest(rep, find(family, rep, self, scope)?)));
        self.found = spot.map(|spot| (spot, changes));
        let entry = family.zip(spot).and_then(|(family, spot)| Some((family, family.get(spot)?)));
        self.valid = entry.is_some_and(|(family, entry)| {
            let (order, key) = (family.comparator(), UserKey::new(entry.key(rep)));
            scope.lower.as_ref().is_none_or(|lower| order.compare(key, UserKey::new(lower)).is_ge())
                && scope
                    .upper
                    .as_ref()
                    .is_none_or(|upper| order.compare(key, UserKey::new(upper)).is_lt())
        });
        if let Some((_, entry)) = entry.filter(|_| self.valid) {
            self.key.clear();
            self.key.extend_from_slice(entry.key(rep));
        }
    }

    /// Where its key was found, unless the index has changed since.
    fn spot(&self, family: &Family) -> Option<Spot> {
        self.found.map(|(spot, _)| spot).filter(|spot| family.get(*spot).is_some())
    }

    /// The first entry beyond its key.
    fn beyond(&self, family: &Family, rep: &[u8]) -> Spot {
        let Some(mut spot) = self.spot(family) else { return family.after(rep, &self.key) };
        loop {
            spot = family.next(spot);
            let same = family.get(spot).is_some_and(|entry| {
                family
                    .comparator()
                    .same_entry_key(UserKey::new(entry.key(rep)), UserKey::new(&self.key))
            });
            if !same {
                return spot;
            }
        }
    }
}

impl<C: Cursor, B: BatchView> Cursor for BaseDeltaIterator<C, B> {
    fn seek_to_first(&mut self) {
        self.forward = true;
        self.base.seek_to_first();
        self.delta_to_start();
        self.update();
    }
    fn seek_to_last(&mut self) {
        self.forward = false;
        self.base.seek_to_last();
        self.delta_to_end();
        self.update();
    }
    fn seek(&mut self, target: &[u8]) {
        self.forward = true;
        self.base.seek(target);
        self.delta_seek(target);
        self.update();
    }
    fn seek_for_prev(&mut self, target: &[u8]) {
        self.forward = false;
        self.base.seek_for_prev(target);
        self.delta_seek_for_prev(target);
        self.update();
    }
    fn next(&mut self) {
        self.advance(true);
    }
    fn prev(&mut self) {
        self.advance(false);
    }
    fn key(&self) -> Option<&[u8]> {
        match self.current {
            Current::Nothing => None,
            Current::Base => self.base.key(),
            Current::Delta => Some(&self.delta.key),
        }
    }
    fn value(&self) -> Option<Result<&[u8]>> {
        match self.current {
            Current::Nothing => None,
            Current::Base => self.base.value(),
            Current::Delta => Some(Ok(&self.value)),
        }
    }
    fn columns(&self) -> Option<Result<Vec<WideColumn<'_>>>> {
        match self.current {
            Current::Nothing => None,
            Current::Base => self.base.columns(),
            Current::Delta if self.entity.is_empty() => {
                Some(Ok(vec![WideColumn::of_plain(&self.value)]))
            }
            Current::Delta => Some(wide_columns::decode(&self.entity)),
        }
    }
    fn status(&self) -> Result<()> {
        self.status.clone().and_then(|()| self.base.status())
    }
    fn order(&self, left: &[u8], right: &[u8]) -> Ordering {
        self.base.order(left, right)
    }
}
