//! Which keys of a batch end with timestamps.
//!
//! The wire form does not say it: a key without its timestamp would be taken for a shorter key at a
//! time made of its last bytes. So a batch counts the keys that were added with timestamps, by
//! column family, and a write refuses a batch in which any other is of such a family. Keys from a
//! wire form are believed to be whole, and counted as well.
//!
//! Thread safety: a plain value, part of the batch.

use std::collections::BTreeMap;

use pumice_base::{Error, Result, ValueType};

use super::{BatchRecord, WriteBatch, records};
use crate::commit::update_family::UpdateFamily;
use crate::read::timed::{check_length, wrong_method};
use crate::version::family::CfData;

/// Keys with timestamps of one column family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamped {
    family: u32,
    timestamp_len: usize,
    keys: u32,
}

/// See the module head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamps {
    families: Vec<Stamped>,
    /// Some keys end with zeros in place of timestamps.
    unset: bool,
    /// How many keys came from a wire form, which are whole, by column family.
    whole: BTreeMap<u32, u32>,
}

impl Stamps {
    /// A record of a wire form.
    #[inline]
    pub fn add_record(&mut self, record: &BatchRecord<'_>) {
        if let BatchRecord::Entry { column_family, .. } = *record {
            self.add_whole(column_family, 1);
        }
    }

    /// Keys of `family` are from a wire form.
    fn add_whole(&mut self, family: u32, keys: u32) {
        *self.whole.entry(family).or_default() += keys;
    }

    /// Of an empty batch.
    #[inline]
    pub fn clear(&mut self) {
        self.families.clear();
        if !self.whole.is_empty() {
            self.whole.clear();
        }
        self.unset = false;
    }

    /// A key of `family` has a timestamp of that many bytes.
    fn add(&mut self, family: u32, timestamp_len: usize, keys: u32) {
        let known = |s: &&mut Stamped| s.family == family && s.timestamp_len == timestamp_len;
        match self.families.iter_mut().find(known) {
            Some(stamped) => stamped.keys += keys,
            None => self.families.push(Stamped { family, timestamp_len, keys }),
        }
    }

    /// Those of another batch follow.
    pub fn append(&mut self, other: &Stamps) {
        for stamped in &other.families {
            self.add(stamped.family, stamped.timestamp_len, stamped.keys);
        }
        self.unset |= other.unset;
        for (family, keys) in &other.whole {
            self.add_whole(*family, *keys);
        }
    }

    /// Refuses a batch that is not ready to be written.
    ///
    /// # Errors
    /// InvalidArgument.
    pub fn check_set(&self) -> Result<()> {
        match self.unset {
            false => Ok(()),
            true => Err(Error::invalid_argument("write batch must have timestamp(s) set")),
        }
    }

    /// No key was added with a timestamp, and all that are there were added one by one.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.families.is_empty()
    }

    /// Refuses timestamps that are not those of `cf`, of which the batch has `keys` keys.
    ///
    /// # Errors
    /// InvalidArgument.
    pub fn check(&self, cf: &CfData, keys: u32) -> Result<()> {
        let mut stamped = self.whole.get(&cf.id).copied().unwrap_or(0);
        for own in self.families.iter().filter(|own| own.family == cf.id) {
            check_length(cf, own.timestamp_len)?;
            stamped += own.keys;
        }
        match cf.timestamp_size > 0 && stamped != keys {
            true => Err(wrong_method(cf)),
            false => Ok(()),
        }
    }
}

/// Updates at timestamps.
impl WriteBatch {
    /// Sets `key` to `value` as of `timestamp` in column family `cf`.
    pub fn put_cf_with_ts(
        &mut self,
        cf: impl UpdateFamily,
        key: impl AsRef<[u8]>,
        timestamp: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) {
        let types = (ValueType::Value, ValueType::ColumnFamilyValue);
        self.add_with_ts(&cf, key.as_ref(), timestamp.as_ref(), Some(value.as_ref()), types);
    }

    /// Deletes `key` as of `timestamp` in column family `cf`.
    pub fn delete_cf_with_ts(
        &mut self,
        cf: impl UpdateFamily,
        key: impl AsRef<[u8]>,
        timestamp: impl AsRef<[u8]>,
    ) {
        let types = (ValueType::Deletion, ValueType::ColumnFamilyDeletion);
        self.add_with_ts(&cf, key.as_ref(), timestamp.as_ref(), None, types);
    }

    /// Deletes `key`, which was put exactly once since its last deletion, as of `timestamp`.
    pub fn single_delete_cf_with_ts(
        &mut self,
        cf: impl UpdateFamily,
        key: impl AsRef<[u8]>,
        timestamp: impl AsRef<[u8]>,
    ) {
        let types = (ValueType::SingleDeletion, ValueType::ColumnFamilySingleDeletion);
        self.add_with_ts(&cf, key.as_ref(), timestamp.as_ref(), None, types);
    }

    /// Adds a merge operand to `key` as of `timestamp`.
    pub fn merge_cf_with_ts(
        &mut self,
        cf: impl UpdateFamily,
        key: impl AsRef<[u8]>,
        timestamp: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) {
        let types = (ValueType::Merge, ValueType::ColumnFamilyMerge);
        self.add_with_ts(&cf, key.as_ref(), timestamp.as_ref(), Some(operand.as_ref()), types);
    }

    /// Deletes every key in `[begin, end)` as of `timestamp` in column family `cf`.
    pub fn delete_range_cf_with_ts(
        &mut self,
        cf: impl UpdateFamily,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
        timestamp: impl AsRef<[u8]>,
    ) {
        let timestamp = timestamp.as_ref();
        if let Err(error) = self.check_timestamp(&cf, timestamp) {
            return self.refuse(error);
        }
        let (id, before) = (cf.family_id(), self.count());
        let whole = |key: &[u8]| [key, timestamp].concat();
        self.add_range(id, &whole(begin.as_ref()), &whole(end.as_ref()));
        if self.count() > before {
            self.stamps.add(id, timestamp.len(), 1);
        }
    }

    /// Notes whose family `cf` is, and refuses timestamps of another length than its own.
    fn check_timestamp(&mut self, cf: &impl UpdateFamily, timestamp: &[u8]) -> Result<()> {
        cf.handle().map_or(Ok(()), |cf| {
            self.note_owner(cf);
            check_length(&cf.data, timestamp.len())
        })
    }

    fn add_with_ts(
        &mut self,
        cf: &impl UpdateFamily,
        key: &[u8],
        timestamp: &[u8],
        value: Option<&[u8]>,
        (short, long): (ValueType, ValueType),
    ) {
        if let Err(error) = self.check_timestamp(cf, timestamp) {
            return self.refuse(error);
        }
        let (id, before) = (cf.family_id(), self.count());
        self.add(id, &[key, timestamp].concat(), value, short, long);
        if self.count() > before {
            self.stamps.add(id, timestamp.len(), 1);
        }
    }

    /// As `add` in the family of that id, whose timestamps have that size; this key gets one later,
    /// see [`WriteBatch::update_timestamps`].
    #[cold]
    pub(super) fn add_unset(
        &mut self,
        (id, size): (u32, usize),
        key: &[u8],
        value: Option<&[u8]>,
        (short, long): (ValueType, ValueType),
    ) {
        let before = self.count();
        let mut whole = key.to_vec();
        whole.resize(key.len() + size, 0);
        self.add(id, &whole, value, short, long);
        if self.count() > before {
            self.stamps.add(id, size, 1);
            self.stamps.unset = true;
        }
    }

    /// As `add_unset` for `[begin, end)`.
    #[cold]
    pub(super) fn add_unset_range(&mut self, (id, size): (u32, usize), begin: &[u8], end: &[u8]) {
        let before = self.count();
        let whole = |key: &[u8]| [key, &vec![0; size]].concat();
        self.add_range(id, &whole(begin), &whole(end));
        if self.count() > before {
            self.stamps.add(id, size, 1);
            self.stamps.unset = true;
        }
    }

    /// Some update was added at a timestamp, or to get one.
    pub(crate) fn has_timestamps(&self) -> bool {
        !self.stamps.is_empty()
    }

    /// Some update was added to a column family with timestamps through its handle, and without a
    /// timestamp.
    pub fn needs_timestamps(&self) -> bool {
        self.stamps.unset
    }

    /// Gives all updates of column families with timestamps this one. `timestamp_size` says how
    /// many bytes those of a family, by its id, have: 0 for none, None if the family is unknown.
    ///
    /// # Errors
    /// InvalidArgument for a family whose timestamps have another length, NotFound for an unknown
    /// one, Corruption if an update has changed since it got its checksum; and the batch is as it
    /// was.
    pub fn update_timestamps(
        &mut self,
        timestamp: &[u8],
        timestamp_size: impl Fn(u32) -> Option<usize>,
    ) -> Result<()> {
        self.verify_checksum()?;
        let start = self.rep.as_ptr().addr();
        let mut ends = Vec::new();
        for record in records(&self.rep) {
            let BatchRecord::Entry { column_family, value_type, key, value } = record? else {
                continue;
            };
            let unknown = || Error::not_found("column family of an update");
            let size = timestamp_size(column_family).ok_or_else(unknown)?;
            if size == 0 {
                continue;
            }
            let end = (value_type == ValueType::RangeDeletion).then_some(value);
            for bytes in std::iter::once(key).chain(end) {
                if size != timestamp.len() || bytes.len() < size {
                    return Err(Error::invalid_argument("timestamp size mismatch"));
                }
                ends.push(bytes.as_ptr().addr() + bytes.len() - start);
            }
        }
        for end in ends {
            self.rep[end - timestamp.len()..end].copy_from_slice(timestamp);
        }
        self.stamps.unset = false;
        if self.sums.take().is_some() {
            self.protect();
        }
        Ok(())
    }
}
