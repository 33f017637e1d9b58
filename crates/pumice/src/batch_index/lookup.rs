//! What a batch with index says about one key, alone and over the database.
//!
//! The entries of a key are read from the newest on: operands are collected until an update that
//! settles the value. What is below the last operand is the database's.
//!
//! Thread safety: as the batch; calls with a database may read its files and so suspend.
//! Values of the batch are copied: the batch may change while an answer lives.

use pumice_base::{Error, ErrorKind, Result, UserKey, ValueType};

use crate::batch_index::WriteBatchWithIndex;
use crate::commit::batch::{BatchRecord, record_at};
use crate::db::store::Store;
use crate::options::requests::ReadOptions;
use crate::read::answer::PointAnswer;
use crate::read::columns::PinnedColumns;
use crate::read::merge::full_merge;
use crate::read::pinned::PinnedSlice;
use crate::read::value::{is_entity, plain, stored_merge};
use crate::version::family::ColumnFamily;

/// What is below the operands of a key in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base<'b> {
    /// The batch does not say: what the database has.
    Open,
    Deleted,
    /// Type and stored bytes.
    Put(ValueType, &'b [u8]),
}

/// The state of a key in a batch.
#[derive(Debug)]
pub(crate) struct Latest<'b> {
    pub base: Base<'b>,
    /// Newest first.
    pub operands: Vec<&'b [u8]>,
}

impl Latest<'_> {
    /// The batch says nothing about the key.
    pub fn is_absent(&self) -> bool {
        self.base == Base::Open && self.operands.is_empty()
    }
    /// The key is deleted, and nothing is merged into it since.
    pub fn is_deleted(&self) -> bool {
        self.base == Base::Deleted && self.operands.is_empty()
    }
}

/// The answers that point reads give, and the call that reads each from a database.
pub(crate) trait Answer: PointAnswer {
    /// Type and bytes of the answer, as merges start from them.
    fn base(&self) -> (u8, &[u8]);
    fn read<S: Store>(
        store: &S,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: &[u8],
    ) -> Result<Option<Self>>;
    fn read_many<S: Store>(
        store: &S,
        options: &ReadOptions,
        keys: &[(&ColumnFamily, &[u8])],
    ) -> Vec<Result<Option<Self>>>;
}

impl Answer for PinnedSlice {
    fn base(&self) -> (u8, &[u8]) {
        (ValueType::Value as u8, self)
    }
    fn read<S: Store>(
        store: &S,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: &[u8],
    ) -> Result<Option<Self>> {
        store.get(options, cf, key)
    }
    fn read_many<S: Store>(
        store: &S,
        options: &ReadOptions,
        keys: &[(&ColumnFamily, &[u8])],
    ) -> Vec<Result<Option<Self>>> {
        store.multi_get(options, keys)
    }
}

impl Answer for PinnedColumns {
    fn base(&self) -> (u8, &[u8]) {
        let (value_type, stored) = self.stored();
        (value_type as u8, stored)
    }
    fn read<S: Store>(
        store: &S,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: &[u8],
    ) -> Result<Option<Self>> {
        store.get_entity(options, cf, key)
    }
    fn read_many<S: Store>(
        store: &S,
        options: &ReadOptions,
        keys: &[(&ColumnFamily, &[u8])],
    ) -> Vec<Result<Option<Self>>> {
        store.multi_get_entity(options, keys)
    }
}

impl WriteBatchWithIndex {
    /// The value of `key` in the default family, from the batch alone; None also for a key that the
    /// batch does not have.
    ///
    /// # Errors
    /// MergeInProgress for operands whose base is not in the batch; InvalidArgument for operands
    /// over a base, which need the family's merge operator: see
    /// [`WriteBatchWithIndex::get_from_batch_cf`].
    pub fn get_from_batch(&self, key: impl AsRef<[u8]>) -> Result<Option<PinnedSlice>> {
        self.answer_from_batch(None, 0, key.as_ref())
    }

    /// The value of `key` in `cf`, from the batch alone.
    ///
    /// # Errors
    /// MergeInProgress for operands whose base is not in the batch; InvalidArgument for operands
    /// without a merge operator; that of the operator.
    pub fn get_from_batch_cf(
        &self,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<PinnedSlice>> {
        self.answer_from_batch(Some(cf), cf.id(), key.as_ref())
    }

    /// The columns of `key` in `cf`, from the batch alone.
    ///
    /// # Errors
    /// As [`WriteBatchWithIndex::get_from_batch_cf`].
    pub fn get_entity_from_batch(
        &self,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<PinnedColumns>> {
        self.answer_from_batch(Some(cf), cf.id(), key.as_ref())
    }

    /// The value of `key` as it would be if the batch were written now. A snapshot in `options` is
    /// of the database: the batch is always as it is.
    ///
    /// # Errors
    /// As [`Store::get`]; InvalidArgument for operands without a merge operator.
    pub fn get_from_batch_and_db<S: Store>(
        &self,
        store: &S,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<PinnedSlice>> {
        self.answer(store, options, cf, key.as_ref())
    }

    /// The columns of `key` as they would be if the batch were written now.
    ///
    /// # Errors
    /// As [`WriteBatchWithIndex::get_from_batch_and_db`].
    pub fn get_entity_from_batch_and_db<S: Store>(
        &self,
        store: &S,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<PinnedColumns>> {
        self.answer(store, options, cf, key.as_ref())
    }

    /// The values of `keys` as they would be if the batch were written now, in their order. Those
    /// that the batch does not settle are read from the database in one call.
    pub fn multi_get_from_batch_and_db<S: Store>(
        &self,
        store: &S,
        options: &ReadOptions,
        keys: &[(&ColumnFamily, &[u8])],
    ) -> Vec<Result<Option<PinnedSlice>>> {
        self.answers(store, options, keys)
    }

    /// The columns of `keys`, as [`WriteBatchWithIndex::multi_get_from_batch_and_db`].
    pub fn multi_get_entity_from_batch_and_db<S: Store>(
        &self,
        store: &S,
        options: &ReadOptions,
        keys: &[(&ColumnFamily, &[u8])],
    ) -> Vec<Result<Option<PinnedColumns>>> {
        self.answers(store, options, keys)
    }

    /// What the batch says about `key` of family `id`.
    pub(crate) fn latest(&self, id: u32, key: &[u8]) -> Result<Latest<'_>> {
        let mut latest = Latest { base: Base::Open, operands: Vec::new() };
        let rep = self.batch.data();
        let Some(family) = self.index.family(id) else { return Ok(latest) };
        let mut spot = family.at_or_after(rep, key);
        while let Some(entry) = family.get(spot) {
            if !family.comparator().same_entry_key(UserKey::new(entry.key(rep)), UserKey::new(key))
            {
                break;
            }
            let BatchRecord::Entry { value_type, value, .. } =
                record_at(rep, entry.record as usize)?
            else {
                return Err(Error::corruption("the index of a WriteBatch has a wrong entry"));
            };
            latest.base = match value_type {
                ValueType::Merge => {
                    latest.operands.push(value);
                    spot = family.next(spot);
                    continue;
                }
                ValueType::Deletion | ValueType::SingleDeletion => Base::Deleted,
                other => Base::Put(other, value),
            };
            break;
        }
        Ok(latest)
    }

    fn answer_from_batch<W: Answer>(
        &self,
        cf: Option<&ColumnFamily>,
        id: u32,
        key: &[u8],
    ) -> Result<Option<W>> {
        let latest = self.latest(id, key)?;
        if latest.base == Base::Open && !latest.operands.is_empty() {
            return Err(Error::new(ErrorKind::MergeInProgress, ""));
        }
        settled(cf, key, &latest)
    }

    pub(crate) fn answer<W: Answer, S: Store>(
        &self,
        store: &S,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: &[u8],
    ) -> Result<Option<W>> {
        check_timestamp(cf, options)?;
        let latest = self.latest(cf.id(), key)?;
        if latest.is_absent() {
            return W::read(store, options, cf, key);
        }
        if latest.base != Base::Open {
            return settled(Some(cf), key, &latest);
        }
        let base = W::read(store, options, cf, key)?;
        merged(Some(cf), key, &latest.operands, base.as_ref().map(W::base))
    }

    pub(crate) fn answers<W: Answer, S: Store>(
        &self,
        store: &S,
        options: &ReadOptions,
        keys: &[(&ColumnFamily, &[u8])],
    ) -> Vec<Result<Option<W>>> {
        let mut answers: Vec<Option<Result<Option<W>>>> = Vec::with_capacity(keys.len());
        let mut open = Vec::new();
        for &(cf, key) in keys {
            let latest = check_timestamp(cf, options).and_then(|()| self.latest(cf.id(), key));
            answers.push(match latest {
                Err(error) => Some(Err(error)),
                Ok(latest) if latest.base == Base::Open => {
                    open.push((answers.len(), latest.operands));
                    None
                }
                Ok(latest) => Some(settled(Some(cf), key, &latest)),
            });
        }
        let wanted: Vec<_> = open.iter().map(|(at, _)| keys[*at]).collect();
        let found = match wanted.is_empty() {
            true => Vec::new(),
            false => W::read_many(store, options, &wanted),
        };
        for ((at, operands), found) in open.iter().zip(found) {
            let (cf, key) = keys[*at];
            answers[*at] = Some(match operands.is_empty() {
                true => found,
                false => found
                    .and_then(|base| merged(Some(cf), key, operands, base.as_ref().map(W::base))),
            });
        }
        let missing = || Err(Error::corruption("a store answered fewer keys than it was asked"));
        answers.into_iter().map(|answer| answer.unwrap_or_else(missing)).collect()
    }
}

/// Refuses a read of a family with timestamps that has none.
fn check_timestamp(cf: &ColumnFamily, options: &ReadOptions) -> Result<()> {
    match cf.data.timestamp_size > 0 && options.timestamp.is_none() {
        true => Err(Error::invalid_argument("Must specify timestamp")),
        false => Ok(()),
    }
}

/// The answer where the batch has what is below the operands.
fn settled<W: PointAnswer>(
    cf: Option<&ColumnFamily>,
    key: &[u8],
    latest: &Latest<'_>,
) -> Result<Option<W>> {
    let base = match latest.base {
        Base::Put(value_type, stored) => Some((value_type as u8, stored)),
        Base::Deleted | Base::Open => None,
    };
    if !latest.operands.is_empty() {
        return merged(cf, key, &latest.operands, base);
    }
    match base {
        Some((tag, stored)) => wanted(tag, stored.to_vec()),
        None => Ok(None),
    }
}

/// The operands, newest first, over a base given by type and stored bytes.
fn merged<W: PointAnswer>(
    cf: Option<&ColumnFamily>,
    key: &[u8],
    operands: &[&[u8]],
    base: Option<(u8, &[u8])>,
) -> Result<Option<W>> {
    let (value_type, stored) = merged_value(cf, key, operands, base)?;
    wanted(value_type as u8, stored)
}

/// Type and stored bytes of the operands, newest first, over a base given likewise.
pub(super) fn merged_value(
    cf: Option<&ColumnFamily>,
    key: &[u8],
    operands: &[&[u8]],
    base: Option<(u8, &[u8])>,
) -> Result<(ValueType, Vec<u8>)> {
    let Some(cf) = cf else {
        return Err(Error::invalid_argument("Must provide a column family"));
    };
    let Some(operator) = cf.data.merge_operator() else {
        let text = "Merge operator must be set for column family";
        return Err(Error::invalid_argument(text));
    };
    let operands: Vec<&[u8]> = operands.iter().rev().copied().collect();
    let plain = base.map(|(tag, stored)| plain(tag, stored)).transpose()?;
    let key = cf.data.key_forms().timeless_of_bare(key);
    let value = full_merge(Some(&*operator), &key, plain, &operands)?;
    stored_merge(base, value)
}

fn wanted<W: PointAnswer>(tag: u8, stored: Vec<u8>) -> Result<Option<W>> {
    if !is_entity(tag) || W::COLUMNS {
        return W::of_found(PinnedSlice::owned(stored), is_entity(tag));
    }
    let default = plain(tag, &stored)?.to_vec();
    W::of_found(PinnedSlice::owned(default), false)
}
