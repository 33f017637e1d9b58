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

use pumice_base::{InternalIterator, Result, ValueType};
use pumice_memtable::MemTable;

use crate::version::family::{CfData, unread_memtable};

/// The entries of `mems` without their timestamps.
///
/// # Errors
/// Corruption of a memtable.
pub(super) fn without_timestamps(
    cf: &CfData,
    mems: &[Arc<MemTable>],
) -> Result<Vec<Arc<MemTable>>> {
    mems.iter().map(|mem| without_timestamp(cf, mem)).collect()
}

fn without_timestamp(cf: &CfData, mem: &Arc<MemTable>) -> Result<Arc<MemTable>> {
    let order = cf.comparator();
    let copy = unread_memtable(&cf.options(), &cf.table_keys.icmp, mem.id(), None);
    let mut writer = copy.writer();
    let mut entries = mem.iter();
    entries.seek_to_first();
    while entries.valid() {
        let key = pumice_base::key::parse_internal_key(entries.key().as_bytes())?;
        let bare = order.without_timestamp(key.user_key).as_bytes();
        writer.add(key.sequence, key.value_type, bare, entries.value())?;
        entries.next();
    }
    for tombstone in mem.range_tombstones().iter().flat_map(|list| list.tombstones()) {
        let [start, end] =
            [tombstone.start(), tombstone.end()].map(|key| order.without_timestamp(key));
        let (start, end) = (start.as_bytes(), end.as_bytes());
        writer.add(tombstone.seq, ValueType::RangeDeletion, start, end)?;
    }
    drop(writer);
    copy.mark_immutable();
    Ok(copy)
}

/// The low of the history once `mems` have lost their timestamps, if that raises `low`: just above
/// the newest of these.
pub(crate) fn low_after<'m>(
    cf: &CfData,
    mems: impl Iterator<Item = &'m Arc<MemTable>>,
    low: Option<&[u8]>,
) -> Option<Vec<u8>> {
    if !cf.table_keys.stripped {
        return None;
    }
    let newest = mems.filter(|mem| !mem.is_empty()).map(|mem| mem.newest_time()).max()?;
    // Nothing is above the last of all times.
    let next = newest.saturating_add(1).to_le_bytes();
    let raises = low.is_none_or(|low| cf.comparator().compare_timestamp(&next, low).is_gt());
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
