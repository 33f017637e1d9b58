//! Flushes of families whose tables have keys without their timestamps
//! (`persist_user_defined_timestamps=false`).
//!
//! The memtables are copied into ones without timestamps first, in the order of tables: from then
//! on the flush is that of any family, and of the versions of a key its snapshots need, those that
//! were written last stay. Entries are in the order of their timestamps before and of their
//! sequence numbers after, so a copy is sorted again. It costs the memtables' memory once more.
//!
//! Thread safety: pure functions; memtables are read as they are everywhere.

use std::sync::Arc;

use pumice_base::{InternalIterator, InternalKeyComparator, Result, ValueType};
use pumice_memtable::MemTable;
use pumice_port::lane::at_normal_priority;

use crate::options::ColumnFamilyOptions;
use crate::read::guarded::memtable_source;
use crate::version::family::{CfData, unread_memtable};

/// The entries of `mems` without their timestamps.
///
/// # Errors
/// Corruption of a memtable.
pub(super) fn without_timestamps(
    cf: &CfData,
    mems: &[Arc<MemTable>],
) -> Result<Vec<Arc<MemTable>>> {
    mems.iter().map(|mem| without_timestamp(&cf.options(), mem)).collect()
}

/// Entries that are copied before other tasks have a turn.
const ENTRIES_PER_TURN: usize = 128;

/// The entries of `mem`, of a family with these options, without their timestamps.
///
/// # Errors
/// Corruption of the memtable.
pub(crate) fn without_timestamp(
    options: &ColumnFamilyOptions,
    mem: &Arc<MemTable>,
) -> Result<Arc<MemTable>> {
    let order = &options.comparator;
    let keys = InternalKeyComparator::new(options.table_order());
    let copy = unread_memtable(options, &keys, mem.id(), None);
    let mut entries = memtable_source(mem);
    entries.seek_to_first();
    while entries.valid() {
        pumice_port::fiber::maybe_yield();
        for _ in 0..ENTRIES_PER_TURN {
            if !entries.valid() {
                break;
            }
            let key = pumice_base::key::parse_internal_key(entries.key().as_bytes())?;
            let bare = order.without_timestamp(key.user_key).as_bytes();
            copy.add(key.sequence, key.value_type, bare, entries.value())?;
            entries.next();
        }
    }
    entries.status()?;
    // It takes a lock of readers.
    let deleted = at_normal_priority(|| mem.range_tombstones());
    for tombstone in deleted.iter().flat_map(|list| list.tombstones()) {
        let [start, end] =
            [tombstone.start(), tombstone.end()].map(|key| order.without_timestamp(key));
        let (start, end) = (start.as_bytes(), end.as_bytes());
        copy.add(tombstone.seq, ValueType::RangeDeletion, start, end)?;
    }
    copy.mark_immutable();
    Ok(copy)
}

/// The low of the history once `mems` have lost their timestamps, if that raises `low`: just above
/// the newest of these.
pub(crate) fn low_after<'m>(
    options: &ColumnFamilyOptions,
    mems: impl Iterator<Item = &'m Arc<MemTable>>,
    low: Option<&[u8]>,
) -> Option<Vec<u8>> {
    if !options.strips_timestamps() {
        return None;
    }
    let newest = mems.filter(|mem| !mem.is_empty()).map(|mem| mem.newest_time()).max()?;
    // Nothing is above the last of all times.
    let next = newest.saturating_add(1).to_le_bytes();
    let raises = low.is_none_or(|low| options.comparator.compare_timestamp(&next, low).is_gt());
    raises.then(|| next.to_vec())
}

/// A flush of `mems` waits, since readers may still ask for their timestamps.
pub(crate) fn keeps_times<'m>(
    cf: &CfData,
    mut mems: impl Iterator<Item = &'m Arc<MemTable>>,
    low: Option<&[u8]>,
) -> bool {
    let Some(low) = low.filter(|_| cf.table_keys.stripped) else { return false };
    let order = cf.comparator();
    mems.any(|mem| {
        let newest = mem.newest_time().to_le_bytes();
        !mem.is_empty() && order.compare_timestamp(&newest, low).is_ge()
    })
}
