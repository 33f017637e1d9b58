//! Writes of commands that run in the same turn of a loop, or follow each other in a pipeline, as
//! one batch.
//!
//! | who | does |
//! |---|---|
//! | the first that writes | opens the group, lets the others of its loop run, leads it |
//! | one that arrives while it is open | adds its writes with their locks, and waits for the end |
//! | one that fills it | leads it at once, in place of the first, who then waits |
//! | a pipeline that has more to do than to write | has a group of its own, and does not wait |
//!
//! A string that replaces any value at its key ([`Keyspace::set_run`]) is added without looking up
//! the old value: the leader looks up all of them together, so that their CPU cache misses overlap.
//! More complex cases (a collection, an expired key, or a file that must be read) are left to their
//! own task, and so are their client's later commands: no client sees the effect of a later command
//! without that of an earlier one.
//!
//! Strings of one key, or of keys that share a lock, may be in a group together, in the order in
//! which they came: the group holds the lock for all of them.
//!
//! So a command's fiber waits once, for write and sync, and the engine gets one batch instead of
//! one per command. A lock is released when the batch can be read, not when it is durable: a waiter
//! for the same key joins a later group. Which groups there are, and in which order they are
//! written, is in `chain`.
//!
//! Thread safety: may be shared. Suspends. Threads share no group: the engine's write queue does
//! the same for them.

use std::sync::Arc;

use pumice::{ReadOptions, WriteBatch};
use pumice_port::task::TaskRef;
use pumice_port::{fiber, thread, time};

use super::chain::{Closed, End, Ended, Member, Part};
use super::counts::{Changes, Tally};
use super::encoding::{Head, Kind, RECORD_PREFIX_BYTES, push_record_key, push_record_value};
use super::locks::{Held, KeyLocks, Living, STRINGS_MAX};
use super::txn::{Event, Txn};
use super::{Keyspace, Outcome};

/// A write of more bytes is committed alone, and a group of more is full.
const WRITE_BYTES: usize = 16 << 10;
const GROUP_BYTES: usize = 512 << 10;
/// Strings that a client may add at once; a group without room for that many is full.
pub const RUN_MAX: usize = 64;
const STRINGS_FULL: usize = STRINGS_MAX - RUN_MAX;
/// Keys that the leader looks up together.
const KEYS_WARMED: usize = 16;
/// A write that can be read.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// When, on the monotonic clock.
    pub micros: u64,
    /// What [`Keyspace::writes`] was then: the group is durable once that many writes are.
    pub upto: u64,
}

/// What became of strings that one client set, one after the other.
#[derive(Debug)]
pub struct Run {
    /// How many of them, from the first on, `written` is about; the others were left as they were.
    pub count: usize,
    /// How it went.
    pub written: pumice::Result<Written>,
}

/// The events of strings that were set.
pub type Sets<'a> = &'a mut dyn Iterator<Item = Event>;

/// A string to be set at a key, whatever is there.
struct NewString {
    /// The number of the first string of its run.
    run: usize,
    /// The previous string under the same lock.
    before: Option<usize>,
    db: u8,
    stored: u8,
    /// Where its record begins in the group's bytes, and the lengths of its key and value.
    start: usize,
    record: usize,
    value: usize,
    /// When an older one counts as expired.
    now: u64,
}

/// Writes that become one batch.
#[derive(Default)]
pub(super) struct Group {
    /// The group's number in `locks`; 0 if it is in no chain.
    pub(super) number: u64,
    batch: WriteBatch,
    strings: Vec<NewString>,
    /// The records of `strings`: key and value, one after the other.
    bytes: Vec<u8>,
    pub(super) locks: Vec<usize>,
    counted: Changes,
    events: Vec<Event>,
    /// The task that opened it.
    pub(super) leader: Option<TaskRef>,
    /// The tasks that wait for its end.
    pub(super) members: Vec<TaskRef>,
    pub(super) end: Arc<End>,
    /// The end of the group before it in its chain.
    pub(super) before: Option<Arc<End>>,
}

impl Group {
    /// An empty one in a chain, after the group with that end.
    pub(super) fn new(number: u64, before: Option<Arc<End>>) -> Group {
        Group { number, before, ..Group::default() }
    }

    /// The group takes no further write.
    pub(super) fn is_full(&self) -> bool {
        self.batch.data_bytes() + self.bytes.len() > GROUP_BYTES
            || self.strings.len() > STRINGS_FULL
    }

    /// Adds strings that one client set and whose locks the group holds; returns the number of the
    /// first.
    fn add_run(
        &mut self,
        (db, stored): (u8, u8),
        now: u64,
        pairs: &[(&[u8], &[u8])],
        locks: &KeyLocks,
    ) -> usize {
        let run = self.strings.len();
        for (number, (key, value)) in (run..).zip(pairs) {
            let before = match self.number {
                0 => None,
                group => locks.mark(key, group, number),
            };
            let start = self.bytes.len();
            push_record_key(&mut self.bytes, stored, key);
            let record = self.bytes.len() - start;
            push_record_value(&mut self.bytes, Kind::String, 0, &[value]);
            let value = self.bytes.len() - start - record;
            self.strings.push(NewString { run, before, db, stored, start, record, value, now });
        }
        run
    }

    /// The key of the record.
    fn record(&self, new: &NewString) -> &[u8] {
        &self.bytes[new.start..][..new.record]
    }

    /// Adds a string to the batch.
    fn put(&mut self, number: usize) {
        let new = &self.strings[number];
        let (record, value) = self.bytes[new.start..].split_at(new.record);
        self.batch.put(record, &value[..new.value]);
    }

    /// An earlier string at the same key.
    fn earlier(&self, new: &NewString) -> Option<usize> {
        let before = |number: &usize| self.strings[*number].before;
        let mut under_its_lock = std::iter::successors(new.before, before);
        let record = self.record(new);
        under_its_lock.find(|&number| self.record(&self.strings[number]) == record)
    }

    fn event(&self, new: &NewString) -> Event {
        let key = self.record(new)[RECORD_PREFIX_BYTES..].to_vec();
        Event { db: new.db, class: b'$', name: "set", key }
    }
}

fn bytes_of((key, value): &(&[u8], &[u8])) -> usize {
    key.len() + value.len()
}

impl Keyspace {
    /// Commits the writes of `txn` together with others, calls `notify` with the events of its keys
    /// (those of [runs](Keyspace::set_run) are made on demand) and then releases the lock of its
    /// key. If `durable`, it is usually durable on return; a caller that must be sure calls
    /// [`Keyspace::sync_upto`]. None when it must be committed by itself: then nothing has been
    /// done. Suspends.
    ///
    /// # Errors
    /// The engine's; then nothing was written.
    pub fn write_together(
        &self,
        txn: &mut Txn<'_>,
        held: &mut Option<Held<'_>>,
        durable: bool,
        notify: impl Fn(&[Event], Sets<'_>),
    ) -> Outcome<Option<Written>> {
        let is_one = held.as_ref().is_some_and(Held::is_one);
        if !is_one || !self.groups_writes() || !txn.is_small(WRITE_BYTES) {
            return Ok(None);
        }
        let add = |group: &mut Group| {
            txn.give(&mut group.batch, &mut group.counted, &mut group.events);
        };
        let Some((mut member, ())) = self.chains.join(&self.locks, held, add) else {
            return Ok(None);
        };
        self.act(&mut member, durable, notify);
        Ok(Some(member.end.wait().written.clone()?))
    }

    /// Whether a group accepts this string.
    pub fn is_short(&self, pair: &(&[u8], &[u8])) -> bool {
        bytes_of(pair) <= WRITE_BYTES.min(self.room())
    }

    /// The groups with which the calling task's strings may share locks, for
    /// [`free_ones`](KeyLocks::free_ones).
    pub fn living_groups(&self) -> Option<Living> {
        self.groups_writes().then(|| self.chains.living())
    }

    /// Sets strings without an expiry that replace any values at their keys in `db`: consecutive
    /// ones of one client, at most [`RUN_MAX`], all of which are [short](Keyspace::is_short).
    /// `held` are the locks of their keys. If `together` is Some, and if possible, they join those
    /// of others, and if it is `Some(true)` they are durable as described at
    /// [`Keyspace::write_together`]; otherwise they are written at once, and files are read too, to
    /// find the old values. Writes none if it [needs a group](Held::needs_group) and cannot join
    /// one. Suspends.
    ///
    /// # Panics
    /// If there are more than [`RUN_MAX`].
    pub fn set_run(
        &self,
        (db, now): (u8, u64),
        pairs: &[(&[u8], &[u8])],
        held: Held<'_>,
        together: Option<bool>,
        notify: impl Fn(&[Event], Sets<'_>),
    ) -> Run {
        assert!(pairs.len() <= RUN_MAX, "a run of {} strings", pairs.len());
        let mut held = Some(held);
        let add = |group: &mut Group| {
            // It stays valid: the group has the locks, and a swap of databases takes all.
            let stored = self.databases.stored(db);
            group.add_run((db, stored), now, pairs, &self.locks)
        };
        if let Some(durable) = together.filter(|_| self.groups_writes())
            && let Some((mut member, first)) = self.chains.join(&self.locks, &mut held, add)
        {
            self.act(&mut member, durable, notify);
            return member.end.wait().of_run(first, pairs.len());
        }
        if held.as_ref().is_some_and(Held::needs_group) {
            let written = Written { micros: time::now_micros(), upto: 0 };
            return Run { count: 0, written: Ok(written) };
        }
        let mut closed = Closed::new(self, Box::default());
        let group = closed.group();
        group.locks.extend(held.into_iter().flat_map(|held| held.into_numbers().0));
        let first = add(group);
        let end = Arc::clone(&group.end);
        self.finish(&mut closed, &ReadOptions::DEFAULT, notify);
        end.wait().of_run(first, pairs.len())
    }

    /// The calling task's writes may be grouped.
    fn groups_writes(&self) -> bool {
        fiber::is_fiber()
    }

    /// Adds the strings of a group to its batch, if the old values can be read with `reads` and
    /// need no further work. Returns the numbers of the others.
    fn add_strings(&self, group: &mut Group, reads: &ReadOptions) -> Vec<usize> {
        let mut left = Vec::new();
        let mut broken = None;
        for first in (0..group.strings.len()).step_by(KEYS_WARMED) {
            let some = &group.strings[first..];
            let some = &some[..some.len().min(KEYS_WARMED)];
            let records: [&[u8]; KEYS_WARMED] =
                std::array::from_fn(|at| some.get(at).map_or(&[][..], |new| group.record(new)));
            self.db.warm(&records[..some.len()]);
            for number in first..first + some.len() {
                let new = &group.strings[number];
                let (run, stored) = (new.run, new.stored);
                let looks = broken != Some(run);
                match looks.then(|| self.change_by(group, new, &left, reads)).flatten() {
                    Some(change) => {
                        group.put(number);
                        group.counted.add(stored, change);
                    }
                    None => {
                        broken = Some(run);
                        left.push(number);
                    }
                }
            }
        }
        left
    }

    /// The change in the numbers of keys by a string, if the old value needs no further work and is
    /// not one that was itself `left`.
    fn change_by(
        &self,
        group: &Group,
        new: &NewString,
        left: &[usize],
        reads: &ReadOptions,
    ) -> Option<Tally> {
        if let Some(number) = group.earlier(new) {
            return left.binary_search(&number).is_err().then(Tally::default);
        }
        let change = Tally::key(0);
        let Some(old) = self.db.get_opt(reads, group.record(new)).ok()? else {
            return Some(change);
        };
        let head = Head::read(&old).ok()?;
        let is_plain = head.kind == Kind::String && !head.is_expired(new.now);
        is_plain.then(|| change - Tally::key(head.expires))
    }

    /// Leads the group, if that is the member's part.
    fn act(&self, member: &mut Member, durable: bool, notify: impl Fn(&[Event], Sets<'_>)) {
        let group = match std::mem::replace(&mut member.part, Part::Waits) {
            Part::Waits => None,
            Part::Closes(group) => Some(group),
            Part::Leads => {
                thread::yield_now();
                self.chains.take(&member.end)
            }
        };
        let Some(group) = group else { return };
        // Others wait for it, and each can read files for itself.
        let in_memory = ReadOptions { cache_only: true, ..ReadOptions::default() };
        let mut closed = Closed::new(self, group);
        closed.wait_for_turn();
        let upto = self.finish(&mut closed, &in_memory, notify);
        if let Some(upto) = upto.filter(|_| durable) {
            // Each of them checks again, and learns of a failure.
            self.sync_upto(upto).ok();
        }
    }

    /// Writes a group, records its end and releases its locks. Returns what [`Keyspace::writes`] is
    /// then; None if it failed.
    fn finish(
        &self,
        closed: &mut Closed<'_>,
        reads: &ReadOptions,
        notify: impl Fn(&[Event], Sets<'_>),
    ) -> Option<u64> {
        let group = closed.group();
        let left = self.add_strings(group, reads);
        let written = match group.batch.is_empty() {
            true => Ok(()),
            false => self.db.write(&mut group.batch),
        };
        let written = written.map(|()| Written { micros: time::now_micros(), upto: self.writes() });
        let upto = written.as_ref().ok().map(|written| written.upto);
        // Recorded before `notify`: it is written, even if `notify` fails.
        let ended = group.end.set(Ended { written, left });
        let upto = upto?;
        self.written(&mut group.counted);
        let written = |(number, _): &(usize, _)| ended.has_written(*number);
        let strings = group.strings.iter().enumerate().filter(written);
        notify(&group.events, &mut strings.map(|(_, new)| group.event(new)));
        closed.unlock();
        Some(upto)
    }
}
