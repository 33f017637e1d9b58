//! `WriteBatch`: updates that are applied together, in RocksDB's wire layout.
//!
//! ```text
//! fixed64 sequence ‖ fixed32 count ‖ record*        (docs/format/log.md#batches)
//! ```
//!
//! A batch is one WAL record, so it is recovered whole or not at all. Thread safety: a plain value,
//! `Send + Sync`; mutate through `&mut`. Invariants: (1) `rep` is at least 12 bytes; (2) bytes
//! 8..12 count the updates; (3) records of column family 0 use the
//! short tags; (4) every record and the whole batch are within `limits`: a record that is not is
//! left out and remembered in `refused`. It does not check that column families exist: the write
//! does.

use std::sync::{Arc, Weak};

use pumice_base::coding::{put_length_prefixed, put_varint32};
use pumice_base::narrow::len_u32;
use pumice_base::{
    Comparator, Error, Result, SequenceNumber, SizeLimits, SubCode, ValueType, wide_columns,
};

use crate::commit::batch::points::{LogEnd, SavePoint};
use crate::commit::batch::protection::Sums;
pub use crate::commit::batch::records::{BatchIter, BatchRecord};
pub(crate) use crate::commit::batch::records::{record_at, records};
use crate::commit::batch::stamps::Stamps;
use crate::commit::update_family::UpdateFamily;
use crate::snapshot::SnapshotOwner;
use crate::version::family::ColumnFamily;

/// Bytes of sequence and count before the first record.
pub const HEADER_LEN: usize = 12;

/// Largest overhead of a record besides key and value: tag, column family, two lengths.
const RECORD_OVERHEAD_BYTES: usize = 16;

/// Updates applied atomically by `Db::write`.
///
/// An update that cannot be stored, because of its size or the batch's, is left out; from then on
/// [`WriteBatch::status`] and every attempt to write the batch return the error that gives the
/// reason.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-writebatch-{}", std::process::id()));
/// # let db = pumice::Db::builder(&dir).create(true).open()?;
/// use pumice::WriteBatch;
/// let mut batch = WriteBatch::new();
/// batch.put("a", "1");
/// batch.delete("b");
/// assert_eq!(batch.count(), 2);
/// db.write(&mut batch)?;
/// assert_eq!(db.get("a")?.as_deref(), Some(&b"1"[..]));
/// # db.close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct WriteBatch {
    rep: Vec<u8>,
    save_points: Vec<SavePoint>,
    limits: SizeLimits,
    /// Bytes of the keys of range deletions.
    range_bytes: usize,
    /// Why the first refused update was left out.
    refused: Option<Error>,
    /// The database whose handles were used, if any were.
    owner: Option<Weak<dyn SnapshotOwner>>,
    stamps: Stamps,
    /// Where the part for the log ends, if that is not the end.
    log_end: Option<LogEnd>,
    /// Checksums of the updates, if the batch is protected.
    sums: Option<Arc<Sums>>,
}

impl std::fmt::Debug for WriteBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteBatch")
            .field("rep", &self.rep)
            .field("refused", &self.refused)
            .finish()
    }
}

impl Default for WriteBatch {
    fn default() -> Self {
        Self::new()
    }
}

impl WriteBatch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::with_limits(SizeLimits::FORMAT)
    }

    /// An empty batch with smaller limits, for tests.
    #[doc(hidden)]
    pub fn with_limits(limits: SizeLimits) -> Self {
        Self::sized(HEADER_LEN, limits)
    }

    /// An empty batch with room for `bytes` of records.
    pub(crate) fn sized(bytes: usize, limits: SizeLimits) -> Self {
        let mut rep = Vec::with_capacity(bytes.max(HEADER_LEN));
        rep.resize(HEADER_LEN, 0);
        Self::from_parts(rep, limits)
    }

    fn from_parts(rep: Vec<u8>, limits: SizeLimits) -> Self {
        WriteBatch {
            rep,
            save_points: Vec::new(),
            limits,
            range_bytes: 0,
            refused: None,
            owner: None,
            stamps: Stamps::default(),
            log_end: None,
            sums: None,
        }
    }

    /// An empty batch with room for `bytes` of records.
    pub fn with_capacity(bytes: usize) -> Self {
        Self::sized(bytes, SizeLimits::FORMAT)
    }

    /// A batch from its wire form.
    ///
    /// # Errors
    /// Corruption if it is too short, a record is malformed or the count is wrong; InvalidArgument
    /// if the whole or an update is too large; NotSupported for records of transactions.
    pub fn from_data(data: &[u8]) -> Result<Self> {
        let (limits, mut range_bytes) = (SizeLimits::FORMAT, 0);
        limits.check_batch(data.len(), 0)?;
        check(data)?;
        let mut stamps = Stamps::default();
        for record in records(data) {
            let record = record?;
            range_bytes += check_record(&record, limits)?;
            stamps.add_record(&record);
        }
        limits.check_batch(data.len(), range_bytes)?;
        Ok(WriteBatch { range_bytes, stamps, ..Self::from_parts(data.to_vec(), limits) })
    }

    /// Ok if every update so far is in the batch.
    ///
    /// # Errors
    /// InvalidArgument that names the part of the first missing update that was too large.
    #[inline]
    pub fn status(&self) -> Result<()> {
        match &self.refused {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    /// The wire form.
    pub fn data(&self) -> &[u8] {
        &self.rep
    }

    /// Updates in the batch. Each takes a sequence number when the batch is written.
    pub fn count(&self) -> u32 {
        count(&self.rep)
    }

    /// No update is in the batch.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// Bytes of the wire form.
    pub fn data_bytes(&self) -> usize {
        self.rep.len()
    }

    /// Removes all records and points, keeping the allocation.
    pub fn clear(&mut self) {
        self.rep.clear();
        self.rep.resize(HEADER_LEN, 0);
        while self.save_points.pop().is_some() {} // Where there are none, no call drops them.
        self.range_bytes = 0;
        self.refused = None;
        self.owner = None;
        self.stamps.clear();
        self.log_end = None;
        if self.sums.is_some() {
            self.truncate_sums(0);
        }
    }

    /// Sets `key` to `value` in column family `cf`.
    #[inline]
    pub fn put_cf(
        &mut self,
        cf: impl UpdateFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) {
        let (key, value) = (key.as_ref(), Some(value.as_ref()));
        self.update(&cf, key, value, ValueType::Value, ValueType::ColumnFamilyValue);
    }
    /// As [`WriteBatch::put_cf`], without the bytes of `value`, which the caller has to append to
    /// the wire form.
    pub(crate) fn put_cf_header(&mut self, cf: u32, key: &[u8], value: &[u8]) {
        if self.admits(key, value) {
            self.begin(cf, ValueType::Value, ValueType::ColumnFamilyValue);
            self.push(key);
            put_varint32(&mut self.rep, len_u32(value.len()));
        }
    }
    /// Sets `key` in the default column family to the value that a blob index refers to.
    pub(crate) fn put_blob_index(&mut self, key: &[u8], index: &[u8]) {
        let (short, long) = (ValueType::BlobIndex, ValueType::ColumnFamilyBlobIndex);
        self.add(0, key, Some(index), short, long);
    }
    /// Deletes `key` in column family `cf`.
    #[inline]
    pub fn delete_cf(&mut self, cf: impl UpdateFamily, key: impl AsRef<[u8]>) {
        let (short, long) = (ValueType::Deletion, ValueType::ColumnFamilyDeletion);
        self.update(&cf, key.as_ref(), None, short, long);
    }
    /// Deletes `key`, which was put exactly once since its last deletion.
    #[inline]
    pub fn single_delete_cf(&mut self, cf: impl UpdateFamily, key: impl AsRef<[u8]>) {
        let (short, long) = (ValueType::SingleDeletion, ValueType::ColumnFamilySingleDeletion);
        self.update(&cf, key.as_ref(), None, short, long);
    }
    /// Adds a merge operand to `key`.
    #[inline]
    pub fn merge_cf(
        &mut self,
        cf: impl UpdateFamily,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) {
        let (key, operand) = (key.as_ref(), Some(operand.as_ref()));
        self.update(&cf, key, operand, ValueType::Merge, ValueType::ColumnFamilyMerge);
    }
    /// Deletes every key in `[begin, end)`.
    pub fn delete_range_cf(
        &mut self,
        cf: impl UpdateFamily,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) {
        let id = self.family(&cf);
        match timestamp_size(&cf) {
            0 => self.add_range(id, begin.as_ref(), end.as_ref()),
            size => self.add_unset_range((id, size), begin.as_ref(), end.as_ref()),
        }
    }

    /// Sets `key` to `value` in the default column family.
    #[inline]
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.put_cf(0, key, value);
    }
    /// Deletes `key` in the default column family.
    #[inline]
    pub fn delete(&mut self, key: impl AsRef<[u8]>) {
        self.delete_cf(0, key);
    }
    /// Single-deletes `key` in the default column family.
    pub fn single_delete(&mut self, key: impl AsRef<[u8]>) {
        self.single_delete_cf(0, key);
    }
    /// Adds a merge operand to `key` in the default column family.
    #[inline]
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) {
        self.merge_cf(0, key, operand);
    }
    /// Deletes `[begin, end)` in the default column family.
    pub fn delete_range(&mut self, begin: impl AsRef<[u8]>, end: impl AsRef<[u8]>) {
        self.delete_range_cf(0, begin, end);
    }

    /// The id of `cf`. A batch with handles of two databases is refused.
    #[inline]
    fn family(&mut self, cf: &impl UpdateFamily) -> u32 {
        if let Some(handle) = cf.handle() {
            self.note_owner(handle);
        }
        cf.family_id()
    }

    fn note_owner(&mut self, handle: &ColumnFamily) {
        match &self.owner {
            None => self.owner = Some(handle.owner().clone()),
            Some(owner) if !std::ptr::addr_eq(owner.as_ptr(), handle.owner().as_ptr()) => {
                self.refuse(another_database());
            }
            Some(_) => {}
        }
    }

    /// Refuses the handles of any database other than `db`.
    #[inline]
    pub(crate) fn check_owner(&self, db: &dyn SnapshotOwner) -> Result<()> {
        match &self.owner {
            Some(owner) if !std::ptr::addr_eq(owner.as_ptr(), db) => Err(another_database()),
            _ => Ok(()),
        }
    }

    /// Adds an update of a key without a timestamp.
    #[inline]
    fn update(
        &mut self,
        cf: &impl UpdateFamily,
        key: &[u8],
        value: Option<&[u8]>,
        short: ValueType,
        long: ValueType,
    ) {
        let id = self.family(cf);
        match timestamp_size(cf) {
            0 => self.add(id, key, value, short, long),
            size => self.add_unset((id, size), key, value, (short, long)),
        }
    }
    #[inline]
    fn add(
        &mut self,
        cf: u32,
        key: &[u8],
        value: Option<&[u8]>,
        short: ValueType,
        long: ValueType,
    ) {
        if self.admits(key, value.unwrap_or_default()) {
            self.begin(cf, short, long);
            self.push(key);
            if let Some(value) = value {
                self.push(value);
            }
            if self.sums.is_some() {
                self.add_sum((cf, short), key, value.unwrap_or_default());
            }
        }
    }

    fn add_range(&mut self, cf: u32, begin: &[u8], end: &[u8]) {
        let ranges = self.range_bytes + begin.len() + end.len();
        if self.admits_within(begin, end, ranges, SizeLimits::check_range) {
            self.range_bytes = ranges;
            self.begin(cf, ValueType::RangeDeletion, ValueType::ColumnFamilyRangeDeletion);
            self.push(begin);
            self.push(end);
            if self.sums.is_some() {
                self.add_sum((cf, ValueType::RangeDeletion), begin, end);
            }
        }
    }

    /// Ends the prepared section of the transaction `name`: its updates, if it is committed, follow
    /// in this batch.
    pub(crate) fn put_section_end(&mut self, name: &[u8]) {
        self.rep.push(ValueType::RollbackXid as u8);
        self.push(name);
    }

    /// Adds an annotation to the log only.
    pub fn put_log_data(&mut self, blob: &[u8]) {
        if self.admits_within(blob, b"", 0, |_, _, _| Ok(())) {
            self.rep.push(ValueType::LogData as u8);
            self.push(blob);
        }
    }

    /// Appends all records of `other`, or none if the two batches together are too large or `other`
    /// lacks an update that was refused.
    pub fn append(&mut self, other: &WriteBatch) {
        let records = &other.rep[HEADER_LEN..];
        let range_bytes = self.range_bytes + other.range_bytes;
        let fits = self.limits.check_batch(self.rep.len() + records.len(), range_bytes);
        if let Err(error) = other.status().and(fits) {
            return self.refuse(error);
        }
        match (&self.owner, &other.owner) {
            (None, Some(owner)) => self.owner = Some(owner.clone()),
            (Some(own), Some(owner)) if !std::ptr::addr_eq(own.as_ptr(), owner.as_ptr()) => {
                return self.refuse(another_database());
            }
            _ => {}
        }
        if (self.sums.is_some() || other.sums.is_some())
            && let Err(error) = self.append_sums(other)
        {
            return self.refuse(error);
        }
        // Every record has at least two bytes, so the count of records cannot overflow 32 bits.
        let total = self.count() + other.count();
        self.rep.extend_from_slice(records);
        self.stamps.append(&other.stamps);
        self.range_bytes = range_bytes;
        self.set_count(total);
    }

    /// Adds what `add` adds, or nothing if an update of it is refused or the batch would have more
    /// than `bytes_max` bytes (0: no such limit).
    ///
    /// # Errors
    /// That of the refused update; Aborted with subcode MemoryLimit.
    pub(crate) fn try_add(
        &mut self,
        bytes_max: usize,
        add: impl FnOnce(&mut WriteBatch),
    ) -> Result<()> {
        self.set_save_point();
        add(self);
        let full = bytes_max > 0 && self.rep.len() > bytes_max;
        let error = match self.status() {
            Err(refused) => refused,
            Ok(()) if full => Error::aborted("").with_subcode(SubCode::MemoryLimit),
            Ok(()) => return self.pop_save_point(),
        };
        self.rollback_to_save_point()?;
        Err(error)
    }

    /// Which keys have timestamps.
    pub(crate) fn stamps(&self) -> &Stamps {
        &self.stamps
    }

    /// The records in order.
    pub fn iter(&self) -> BatchIter<'_> {
        records(&self.rep)
    }

    /// Whether an update of `key` may be added; if not, the reason is remembered.
    #[inline]
    fn admits(&mut self, key: &[u8], value: &[u8]) -> bool {
        // A batch that stays small with the update needs no further check.
        let small = self.rep.len() + key.len() + value.len() < self.limits.key_bytes() / 2;
        small || self.admits_within(key, value, 0, SizeLimits::check_entry)
    }

    #[cold]
    fn admits_within(
        &mut self,
        key: &[u8],
        value: &[u8],
        range_bytes: usize,
        check: fn(SizeLimits, &[u8], &[u8]) -> Result<()>,
    ) -> bool {
        let bytes = self.rep.len() + key.len() + value.len() + RECORD_OVERHEAD_BYTES;
        let limits = self.limits;
        match check(limits, key, value).and_then(|()| limits.check_batch(bytes, range_bytes)) {
            Ok(()) => true,
            Err(error) => {
                self.refuse(error);
                false
            }
        }
    }

    fn refuse(&mut self, error: Error) {
        self.refused.get_or_insert(error);
    }

    /// Appends a part of a record, which is within the limits.
    #[inline]
    fn push(&mut self, bytes: &[u8]) {
        put_length_prefixed(&mut self.rep, bytes);
    }

    fn begin(&mut self, cf: u32, short: ValueType, long: ValueType) {
        self.set_count(self.count() + 1);
        if cf == 0 {
            self.rep.push(short as u8);
        } else {
            self.rep.push(long as u8);
            put_varint32(&mut self.rep, cf);
        }
    }

    fn set_count(&mut self, count: u32) {
        set_count(&mut self.rep, count);
    }

    /// Moves the wire form out, which leaves the batch unusable; see [`WriteBatch::restore`].
    pub(crate) fn take_rep(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.rep)
    }

    /// Whether the wire form was taken and not restored.
    #[inline]
    pub(crate) fn is_taken(&self) -> bool {
        self.rep.is_empty()
    }

    /// Puts back what [`WriteBatch::take_rep`] took.
    pub(crate) fn restore(&mut self, rep: Vec<u8>) {
        self.rep = rep;
    }
}

#[cold]
fn another_database() -> Error {
    Error::invalid_argument("column family handle of another database")
}

/// The header of a WAL record that joins several batches.
pub(crate) fn header(sequence: SequenceNumber, count: u32) -> [u8; HEADER_LEN] {
    let mut out = [0; HEADER_LEN];
    out[..8].copy_from_slice(&sequence.to_le_bytes());
    out[8..].copy_from_slice(&count.to_le_bytes());
    out
}

/// Updates in wire form `rep`, as its header says. What it takes from the sequence space is
/// [`super::two_phase::Taken`].
pub(crate) fn count(rep: &[u8]) -> u32 {
    rep.get(8..HEADER_LEN).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
}

/// See [`count`]. Panics if `rep` is shorter than a header.
pub(crate) fn set_count(rep: &mut [u8], count: u32) {
    rep[8..HEADER_LEN].copy_from_slice(&count.to_le_bytes());
}

/// First sequence number of wire form `rep`.
pub(crate) fn sequence(rep: &[u8]) -> SequenceNumber {
    pumice_base::coding::get_fixed64(rep).unwrap_or(0)
}

/// Checks the layout of a batch that came from outside. Returns whether it has markers of
/// transactions.
pub(crate) fn check(rep: &[u8]) -> Result<bool> {
    if rep.len() < HEADER_LEN {
        return Err(Error::corruption("malformed WriteBatch (too small)"));
    }
    let (mut found, mut markers) = (0u64, false);
    for record in records(rep) {
        match record? {
            BatchRecord::Entry { .. } => found += 1,
            BatchRecord::Marker(tag, _) => markers |= tag != ValueType::Noop,
            BatchRecord::LogData(_) => {}
        }
    }
    if found != u64::from(count(rep)) {
        return Err(Error::corruption("WriteBatch has wrong count"));
    }
    Ok(markers)
}

/// Refuses what a database cannot store, or could not recover from its log. Returns the bytes of a
/// range deletion's keys.
fn check_record(record: &BatchRecord<'_>, limits: SizeLimits) -> Result<usize> {
    match *record {
        BatchRecord::Entry { value_type: ValueType::RangeDeletion, key, value, .. } => {
            limits.check_range(key, value).map(|()| key.len() + value.len())
        }
        BatchRecord::Entry { value_type, key, value, .. } => {
            if value_type == ValueType::WideColumnEntity {
                wide_columns::decode(value)?;
            }
            limits.check_entry(key, value).map(|()| 0)
        }
        // A no-op separates the parts of a transaction, and means nothing without one.
        BatchRecord::LogData(_) | BatchRecord::Marker(ValueType::Noop, _) => Ok(0),
        BatchRecord::Marker(tag, _) => Err(Error::not_supported(format!(
            "{tag:?} in a WriteBatch: transactions are not supported"
        ))),
    }
}

mod entities;
pub(crate) mod logged;
pub(crate) mod points;
pub(crate) mod protection;
mod records;
mod stamps;
/// How many zeros a key without its timestamp gets.
#[inline]
fn timestamp_size(cf: &impl UpdateFamily) -> usize {
    cf.order().map_or(0, Comparator::timestamp_size)
}

#[cfg(test)]
mod tests;
