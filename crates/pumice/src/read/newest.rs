//! Whether a key was written since a sequence number: the conflict check of transactions.
//!
//! Memtables are asked first, newest first, flushed ones that are kept for this too. If these do
//! not reach back far enough, tables that have newer entries are asked, where the caller allows it.
//! No value is read. Merges, deletions and range deletions over the key count as writes of it.
//!
//! Thread safety: as point reads. Reads of tables may suspend. Writes that are not published yet
//! count: a caller that must not see its own has none under way.

use std::cell::RefCell;
use std::sync::Arc;

use pumice_base::hash::hash64;
use pumice_base::key::{self, InternalKey, MAX_SEQUENCE, ParsedInternalKey, UserKey};
use pumice_base::planted::{self, Bug};
use pumice_base::range_tombstone::{Fragment, FragmentedTombstones};
use pumice_base::{Result, SequenceNumber};
use pumice_manifest::FileMetaData;
use pumice_memtable::MemTable;
use pumice_table::{PinnedBlock, TableReadOptions};

use crate::read::get::Hits;
use crate::read::get::timed::get_at;
use crate::read::pinned::PinnedSlice;
use crate::read::range_del::inside_file;
use crate::version::family::CfData;
use crate::version::super_version::SuperVersion;

/// The answer of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Newer {
    No,
    Yes,
    /// Memory does not say: it has all writes after this sequence number, but none before.
    Unknown(SequenceNumber),
}

/// Whether `key` was written after `since`. Without options of tables these are not read.
///
/// # Errors
/// I/O errors and Corruption of tables.
pub(crate) fn newer_than(
    cf: &CfData,
    view: &SuperVersion,
    key: &[u8],
    since: SequenceNumber,
    tables: Option<&TableReadOptions>,
) -> Result<Newer> {
    let (key, mut reaches_to) = (UserKey::new(key), SequenceNumber::MAX);
    let kept = if planted::is(Bug::HistoryNotChecked) { &[][..] } else { &view.history[..] };
    let memtables = std::iter::once(&view.mem).chain(&view.imm).chain(kept);
    for mem in memtables {
        let newest = newest_in_memtable(cf, mem, key)?;
        if newest > since {
            return Ok(Newer::Yes);
        }
        // Older memtables have older versions only.
        reaches_to = if newest > 0 { 0 } else { mem.earliest_seq().saturating_sub(1) };
        if reaches_to <= since {
            break;
        }
    }
    let ingested = cf.ingested_seq();
    match tables {
        _ if planted::is(Bug::HistoryNotChecked) => Ok(Newer::No),
        _ if reaches_to <= since && ingested <= since => Ok(Newer::No),
        None => Ok(Newer::Unknown(reaches_to.max(ingested))),
        // The view may be of before the files came.
        Some(_) if ingested > since && view.ingestions != cf.ingestions() => Ok(Newer::Yes),
        Some(options) => Ok(match in_tables(cf, view, key, since, options)? {
            true => Newer::Yes,
            false => Newer::No,
        }),
    }
}

/// The newest timestamp of `key`, of whatever type its version is, or of a deletion of a range over
/// it; None if there is none. `key` has the newest timestamp that there can be.
///
/// # Errors
/// I/O errors and Corruption of tables.
pub(crate) fn newest_time(
    cf: &CfData,
    view: &SuperVersion,
    key: &[u8],
    options: &TableReadOptions,
) -> Result<Option<Vec<u8>>> {
    let (order, key) = (cf.comparator(), UserKey::new(key));
    let (found_at, mut hits) = (RefCell::default(), Hits::default());
    get_at::<PinnedSlice>(cf, view, options, (MAX_SEQUENCE, key.as_bytes()), &found_at, &mut hits)?;
    let mut newest = Some(found_at.into_inner().into_newest()).filter(|time| !time.is_empty());
    let mut note = |list: &FragmentedTombstones| {
        for (_, time) in list.covering(order, key).into_iter().flat_map(Fragment::tombstones) {
            let newer = |newest: &Vec<u8>| order.compare_timestamp(time, newest).is_gt();
            if newest.as_ref().is_none_or(newer) {
                newest = Some(time.to_vec());
            }
        }
    };
    for mem in std::iter::once(&view.mem).chain(&view.imm) {
        mem.range_tombstones().iter().for_each(|list| note(list));
    }
    if cf.table_keys.stripped {
        // What is in a table has the oldest time that there can be.
        return Ok(newest);
    }
    let tables = cf.tables();
    for level in view.version.levels() {
        for file in level.files() {
            if !file.has_no_range_deletions() && inside_file(order, key, file) {
                let table = tables.table_for(options, file, level.number())?;
                table.range_tombstones_ref().into_iter().for_each(&mut note);
            }
        }
    }
    Ok(newest)
}

/// The newest sequence number of the key, or of a range over it; 0 for none.
fn newest_in_memtable(cf: &CfData, mem: &MemTable, key: UserKey<'_>) -> Result<SequenceNumber> {
    let mut newest = match mem.range_tombstones() {
        Some(list) => list.max_covering_seq(cf.comparator(), key, MAX_SEQUENCE),
        None => 0,
    };
    mem.visit_checked(key, MAX_SEQUENCE, &mut |_, sequence, _, _| {
        newest = newest.max(sequence);
        false
    })?;
    Ok(newest)
}

fn in_tables(
    cf: &CfData,
    view: &SuperVersion,
    key: UserKey<'_>,
    since: SequenceNumber,
    options: &TableReadOptions,
) -> Result<bool> {
    let (order, key) = (cf.table_order(), cf.in_tables(key));
    let seek_key = key::seek_key(key, MAX_SEQUENCE);
    let seek_key = InternalKey::new(&seek_key);
    for level in view.version.levels() {
        // Files of a level are in order, but for those of L0 and of versions that overlap.
        let sorted = level.number() > 0 && !view.version.is_overlapping();
        let first = if sorted { level.find_file(&cf.table_keys.icmp, seek_key) } else { 0 };
        for file in level.files().iter().skip(first) {
            if order.compare_without_timestamp(key, file.smallest_user_key()).is_lt() {
                if sorted {
                    break;
                }
                continue;
            }
            if file.largest_seq > since
                && order.compare_without_timestamp(key, file.largest_user_key()).is_le()
                && in_table(cf, level.number(), file, (key, seek_key), since, options)?
            {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn in_table(
    cf: &CfData,
    level: usize,
    file: &Arc<FileMetaData>,
    (key, seek_key): (UserKey<'_>, InternalKey<'_>),
    since: SequenceNumber,
    options: &TableReadOptions,
) -> Result<bool> {
    let tables = cf.tables();
    let table = tables.table_for(options, file, level)?;
    if let Some(list) = table.range_tombstones_ref()
        && inside_file(cf.table_order(), key, file)
        && list.max_covering_seq(cf.table_order(), key, MAX_SEQUENCE) > since
    {
        return Ok(true);
    }
    let mut newest = 0;
    let take = &mut |entry: ParsedInternalKey<'_>, _: &[u8], _: &PinnedBlock| {
        newest = newest.max(entry.sequence);
        false
    };
    table.get_hashed::<false, _>(options, seek_key, hash64(key.as_bytes()), take)?;
    Ok(newest > since)
}
