//! When the entry that a key shows was written, as far as memtables and tables know.
//!
//! The records of the key are looked up again, newest first, down to the one that its value begins
//! with: the value itself, or below operands the base that they are merged with, or else the oldest
//! operand. Deletions of ranges end the search, but not where keys have timestamps: there one may
//! be younger than what the cursor sees. The super version knows the times of what is in memtables,
//! each table those of its own entries (`SeqnoToTimeMapping`).
//!
//! Thread safety: as point reads. Reads of tables may suspend. What it does not do: read
//! blobs.

use std::sync::Arc;

use pumice_base::hash::hash64;
use pumice_base::key::{self, InternalKey, ParsedInternalKey, UserKey};
use pumice_base::{Result, SequenceNumber};
use pumice_manifest::FileMetaData;
use pumice_table::{PinnedBlock, SeqnoToTimeMapping, TableReadOptions};

use crate::read::range_del::inside_file;
use crate::read::value::{EntryKind, timed_number};
use crate::version::family::CfData;
use crate::version::super_version::SuperVersion;

/// The record that a value begins with, as far as records were met.
#[derive(Default)]
struct Search {
    /// Its time, if that is known; None also before the first record.
    time: Option<u64>,
    /// Older records are covered by a deletion of a range.
    floor: SequenceNumber,
    /// No older record belongs to the value.
    ended: bool,
}

impl Search {
    /// Older records than `covered` do not count.
    fn cover(&mut self, covered: SequenceNumber) {
        self.floor = self.floor.max(covered);
    }

    /// Meets the next older record; true if a still older one may belong to the value.
    fn meet(&mut self, sequence: SequenceNumber, kind: EntryKind, time: Option<u64>) -> bool {
        if sequence < self.floor || matches!(kind, EntryKind::Tombstone) {
            self.ended = true;
            return false;
        }
        self.time = time;
        self.ended = !matches!(kind, EntryKind::Operand);
        !self.ended
    }
}

/// When the entry `sequence` was written, by what `times` know of the entry `said`.
fn known_time(
    times: Option<&SeqnoToTimeMapping>,
    sequence: SequenceNumber,
    said: SequenceNumber,
) -> Option<u64> {
    match times {
        // What the record had to say was given up: it was old.
        _ if sequence == 0 => Some(0),
        Some(times) if !times.is_empty() => Some(times.time_before(said)),
        _ => None,
    }
}

/// The latest time that is known to be no later than when the entry was written that `key`, in the
/// form of memtables, shows at `sequence`: seconds since 1970, 0 if it was before all that is known
/// or its sequence number was given up, None if nothing is known or there is no entry.
///
/// # Errors
/// I/O errors and Corruption of tables.
pub(crate) fn write_time(
    cf: &CfData,
    view: &SuperVersion,
    key: UserKey<'_>,
    sequence: SequenceNumber,
) -> Result<Option<u64>> {
    let mut search = Search::default();
    for mem in std::iter::once(&view.mem).chain(&view.imm) {
        if let Some(list) = mem.range_tombstones()
            && cf.timestamp_size == 0
        {
            search.cover(list.max_covering_seq(cf.comparator(), key, sequence));
        }
        mem.get_with(key, sequence, |sequence, kind, value| {
            let times = view.times.as_deref();
            let time = timed_number(kind, value).or_else(|| known_time(times, sequence, sequence));
            search.meet(sequence, EntryKind::of(kind), time)
        });
        if search.ended {
            return Ok(search.time);
        }
    }
    let (order, key) = (cf.table_order(), cf.in_tables(key));
    let target = key::seek_key(key, sequence);
    let target = InternalKey::new(&target);
    for level in view.version.levels() {
        let sorted = level.number() > 0 && !view.version.is_overlapping();
        let first = if sorted { level.find_file(&cf.table_keys.icmp, target) } else { 0 };
        for file in level.files().iter().skip(first) {
            if order.compare_without_timestamp(key, file.smallest_user_key()).is_lt() {
                if sorted {
                    break;
                }
                continue;
            }
            if order.compare_without_timestamp(key, file.largest_user_key()).is_le() {
                look_in(cf, level.number(), file, (key, target), &mut search)?;
            }
            if search.ended {
                return Ok(search.time);
            }
        }
    }
    Ok(search.time)
}

fn look_in(
    cf: &CfData,
    level: usize,
    file: &Arc<FileMetaData>,
    (key, target): (UserKey<'_>, InternalKey<'_>),
    search: &mut Search,
) -> Result<()> {
    let (tables, options) = (cf.tables(), TableReadOptions::default());
    let table = tables.table_for(&options, file, level)?;
    if let Some(list) = table.range_tombstones_ref()
        && cf.timestamp_size == 0
        && inside_file(cf.table_order(), key, file)
    {
        search.cover(list.max_covering_seq(cf.table_order(), key, target.sequence()));
    }
    // Damaged times are no times, as in RocksDB.
    let times = SeqnoToTimeMapping::decode(&table.properties().seqno_time_map).ok();
    let meet = &mut |entry: ParsedInternalKey<'_>, value: &[u8], _: &PinnedBlock| {
        let (sequence, kind) = (entry.sequence, entry.value_type);
        let said = timed_number(kind, value).unwrap_or(sequence);
        search.meet(sequence, EntryKind::of(kind), known_time(times.as_ref(), sequence, said))
    };
    table.get_hashed::<false, _>(&options, target, hash64(key.as_bytes()), meet)
}
