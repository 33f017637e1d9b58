//! The part of a write that inserts into memtables.
//!
//! A leader inserts for its whole group, which lets memtables keep an insert hint and skip atomic
//! read-modify-writes. If the group is large, waiting members insert concurrently with it
//! (`commit::shared_insert`), into memtables that allow concurrent inserts and run no user code: a
//! comparator's panic belongs to the caller of its own write, and a merge that is resolved needs
//! all entries before it.
//!
//! For a batch with many unordered keys, the next few positions are looked up together ahead of the
//! inserts, so that their cache misses overlap.
//!
//! Thread safety: needs leadership of the write queue; `help_insert` is for members whose leader
//! asked them. No memtable is switched and no column family is created or dropped meanwhile, since
//! that takes leadership too. A leader may wait for members, and so suspend.

use std::ops::Range;
use std::sync::Arc;

use arc_swap::Guard;
use pumice_base::{Result, SequenceNumber, ValueType};
use pumice_memtable::MemTable;
use pumice_port::thread;

use crate::commit::batch::{self, BatchRecord};
use crate::commit::queue::{Follower, Leadership};
use crate::commit::shared_insert::SharedInsert;
use crate::engine::DbInner;
use crate::engine::write_content::{Own, Put};
use crate::state::CfMap;
use crate::version::super_version::SuperVersion;

/// Keys whose positions are looked up together: the data they load fits the CPU's L1 cache.
const KEYS_WARMED: usize = 16;

/// Has the memtable load the data that inserts of the next records will read. Keys in order are
/// next to each other, and their positions need no search.
fn warm<'a>(
    mem: &MemTable,
    sequence: SequenceNumber,
    id: u32,
    records: impl Iterator<Item = Result<BatchRecord<'a>>>,
) {
    let mut keys = [&[][..]; KEYS_WARMED];
    let mut count = 0;
    for record in records.take(KEYS_WARMED) {
        if let Ok(BatchRecord::Entry { column_family, key, .. }) = record
            && column_family == id
        {
            keys[count] = key;
            count += 1;
        }
    }
    let keys = &keys[..count];
    if !keys.is_sorted() && mem.takes_concurrent_adds() {
        mem.warm(keys.iter().copied(), sequence);
    }
}

impl DbInner {
    /// Inserts the leader's batch and those of `followers`, which take `sequences`.
    ///
    /// # Errors
    /// Part of the group is then not inserted.
    #[inline(always)] // As `write_group`.
    pub(super) fn insert_group(
        &self,
        leader: &Leadership,
        sequences: Range<SequenceNumber>,
        own: &Own<'_>,
        followers: &mut [Follower],
    ) -> Result<()> {
        let key_space = self.cfs.load();
        if !followers.is_empty() {
            let updates = sequences.end - sequences.start;
            let asked = self.writes.helpers_to_ask(&key_space, followers.len(), updates);
            if asked > 0 {
                let next = sequences.start;
                return self.insert_with_helpers(leader, &key_space, next, own, (followers, asked));
            }
        }
        let mut next = sequences.start;
        self.insert_own::<false>(&key_space, &mut next, own)?;
        let mut batches = followers.iter().map(|f| batch::records(&f.batch.rep));
        batches.try_for_each(|records| self.insert::<false>(&key_space, &mut next, records))
    }

    #[inline(never)]
    fn insert_with_helpers(
        &self,
        leader: &Leadership,
        key_space: &CfMap,
        mut next: SequenceNumber,
        own: &Own<'_>,
        (followers, asked): (&mut [Follower], usize),
    ) -> Result<()> {
        let batches = followers.iter_mut().map(|follower| {
            let batch = &mut follower.batch;
            (std::mem::take(&mut batch.rep), batch.taken.sequences)
        });
        let shared = Arc::new(SharedInsert::new(batches, next + own.taken.sequences));
        self.writes.queue.ask(leader, followers, asked, &shared);
        // Even after a panic the leader has to wait for its members.
        let own_in =
            thread::contain("A write", || self.insert_own::<true>(key_space, &mut next, own));
        let (reps, came) = shared.finish(|first, rep| self.insert_rep(key_space, first, rep));
        for (follower, rep) in followers.iter_mut().zip(reps) {
            follower.batch.rep = rep;
        }
        own_in??;
        let came = came?;
        self.writes.helpers.lock().came(asked, came);
        self.reports.stats.helped(came as u64);
        Ok(())
    }

    /// What a member does when its leader asks for help.
    pub(super) fn help_insert(&self, shared: &SharedInsert) {
        let key_space = self.cfs.load();
        shared.help(|first, rep| self.insert_rep(&key_space, first, rep));
    }

    fn insert_rep(&self, space: &CfMap, mut first: SequenceNumber, rep: &[u8]) -> Result<()> {
        self.insert::<true>(space, &mut first, batch::records(rep))
    }

    /// Inserts the leader's batch; `SHARED`: others insert theirs at the same time.
    #[inline]
    fn insert_own<const SHARED: bool>(
        &self,
        space: &CfMap,
        next: &mut SequenceNumber,
        own: &Own<'_>,
    ) -> Result<()> {
        let Some(Put { column_family, key, value }) = own.put else {
            return self.insert::<SHARED>(space, next, batch::records(own.rep));
        };
        let value_type = ValueType::Value;
        let update = BatchRecord::Entry { column_family, value_type, key, value };
        self.insert::<SHARED>(space, next, std::iter::once(Ok(update)))
    }

    /// Inserts one batch, giving it sequence numbers from `next` on.
    fn insert<'a, const SHARED: bool>(
        &self,
        key_space: &CfMap,
        next: &mut SequenceNumber,
        mut records: impl Iterator<Item = Result<BatchRecord<'a>>> + Clone,
    ) -> Result<()> {
        let mut at: Option<(u32, Guard<Arc<SuperVersion>>)> = None;
        // The first key is searched while those after it load; most batches have no other.
        let mut unwarmed = 1;
        while let Some(record) = records.next() {
            let BatchRecord::Entry { column_family, value_type, key, value } = record? else {
                continue;
            };
            let sequence = *next;
            *next += 1;
            if at.as_ref().is_none_or(|(id, _)| *id != column_family) {
                self.writes.note_full_memtable(&at);
                let Some(cf) = key_space.by_id(column_family) else { continue };
                at = Some((column_family, cf.super_version.load()));
            }
            let Some((_, super_version)) = &at else { continue };
            let mem = &super_version.mem;
            if SHARED {
                mem.add_concurrent(sequence, value_type, key, value)?;
                continue;
            }
            unwarmed -= 1;
            if unwarmed == 0 && records.size_hint().1 != Some(0) {
                warm(mem, sequence, column_family, records.clone());
                unwarmed = KEYS_WARMED;
            }
            if value_type == ValueType::Merge
                && let Some(cf) = key_space.by_id(column_family)
                && let Some((kind, merged)) = self.merged(cf, super_version, sequence, (key, value))
            {
                mem.add(sequence, kind, key, &merged)?;
                continue;
            }
            mem.add(sequence, value_type, key, value)?;
        }
        self.writes.note_full_memtable(&at);
        Ok(())
    }
}
