//! Writes of commands that run in the same turn of a loop, or follow each other in a pipeline, as
//! one batch.
//!
//! | who | does |
//! |---|---|
//! | the first that writes | opens the group, lets the others of its loop run, writes the batch |
//! | one that comes while it is open | adds its writes with their locks, and waits for the end |
//! | a pipeline that has more to do than to write | has a group of its own, and does not wait |
//!
//! A string that replaces any value at its key ([`Keyspace::set_run`]) is added without looking up
//! the old value: the leader looks up all of them together, so that their CPU cache misses overlap.
//! More complex cases (a collection, an expired key, or a file that must be read) are left to their
//! own task, and so are their client's later commands: no client sees the effect of a later command
//! without that of an earlier one.
//!
//! So a command's fiber waits once, for write and sync, and the engine gets one batch instead of
//! one per command. A lock is released when the batch can be read, not when it is durable: a waiter
//! for the same key joins the next group. Each loop has its own group, so no command waits for
//! another loop's turn.
//!
//! Invariants:
//! 1. An open group has one leader, which will take it; no other task does.
//! 2. However a group ends, its locks are released, its end is recorded and its members are woken.
//! 3. A member waits for its leader with the locks of its keys; a leader takes no lock of a key.
//!
//! Thread safety: may be shared. Suspends. Threads share no group: the engine's write queue does
//! the same for them.

use std::sync::{Arc, OnceLock};

use pumice::{ReadOptions, WriteBatch, WriteOptions};
use pumice_port::sync::Mutex;
use pumice_port::task::{self, TaskRef, WaitReason};
use pumice_port::{fiber, thread, time};

use super::counts::{Changes, Tally};
use super::encoding::{Head, Kind, record_key, record_value};
use super::engine::Reads;
use super::locks::{Held, KeyLocks};
use super::txn::{Event, Txn};
use super::{Keyspace, Outcome};

/// A write of more bytes is committed alone, and a group of more takes no further write.
const WRITE_BYTES: usize = 16 << 10;
const GROUP_BYTES: usize = 1 << 20;
/// Keys that the leader looks up together.
const KEYS_WARMED: usize = 16;
/// Slots for open groups; with more loops than slots, loops share them.
const PLACES: usize = 64;

static GROUP: WaitReason = WaitReason("group of writes");

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

/// How a group ended.
struct Ended {
    written: pumice::Result<Written>,
    /// Which of its strings were not written, in order.
    left: Vec<usize>,
}

type End = OnceLock<Ended>;

/// A string to be set at a key, whatever is there.
struct NewString {
    /// The number of the first one that the same client set.
    run: usize,
    stored: u8,
    record: Vec<u8>,
    value: Vec<u8>,
    /// When an older one counts as expired.
    now: u64,
    event: Event,
}

#[derive(Default)]
struct Group {
    batch: WriteBatch,
    strings: Vec<NewString>,
    /// Bytes of `strings`.
    string_bytes: usize,
    locks: Vec<usize>,
    counted: Changes,
    events: Vec<Event>,
    members: Vec<TaskRef>,
    end: Arc<End>,
}

impl Group {
    /// Adds strings that one client set; returns the number of the first.
    fn add_run(&mut self, (db, stored): (u8, u8), now: u64, pairs: &[(&[u8], &[u8])]) -> usize {
        let run = self.strings.len();
        self.strings.extend(pairs.iter().map(|(key, value)| NewString {
            run,
            stored,
            record: record_key(stored, key),
            value: record_value(Kind::String, 0, &[value]),
            now,
            event: Event { db, class: b'$', name: "set", key: key.to_vec() },
        }));
        self.string_bytes += pairs.iter().map(bytes_of).sum::<usize>();
        run
    }
}

fn bytes_of((key, value): &(&[u8], &[u8])) -> usize {
    key.len() + value.len()
}

impl Ended {
    /// What became of `count` strings from number `run` on.
    fn of_run(&self, run: usize, count: usize) -> Run {
        let left = self.left.get(self.left.partition_point(|&number| number < run));
        let count = left.map_or(count, |&number| count.min(number - run));
        Run { count, written: self.written.clone() }
    }
}

/// The open groups, by loop; see the module's head.
pub struct Groups(Vec<Mutex<Option<Group>>>);

impl Default for Groups {
    /// None is open.
    fn default() -> Groups {
        Groups((0..PLACES).map(|_| Mutex::default()).collect())
    }
}

/// A group that its leader has taken; invariant 2.
struct Closed<'k> {
    locks: &'k KeyLocks,
    group: Group,
}

impl Closed<'_> {
    fn unlock(&mut self) {
        self.group.locks.drain(..).for_each(|number| self.locks.release(number));
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.unlock();
        self.group.end.get_or_init(|| Ended {
            written: Err(pumice::Error::aborted("A write panicked")),
            left: Vec::new(),
        });
        task::unpark_all(std::mem::take(&mut self.group.members));
    }
}

impl Groups {
    /// The slot for groups of the calling fiber's loop.
    fn place(&self) -> &Mutex<Option<Group>> {
        &self.0[fiber::loop_index() % PLACES]
    }

    /// Adds a write to the open group by `add`, or opens one, which the caller then leads. None if
    /// there is no room, or nothing locked; then `held` is unchanged.
    fn join<T>(
        &self,
        held: &mut Option<Held<'_>>,
        add: impl FnOnce(&mut Group) -> T,
    ) -> Option<(Member, T)> {
        let mut open = self.place().lock();
        let bytes = |group: &Group| group.batch.data_bytes() + group.string_bytes;
        if open.as_ref().is_some_and(|group| bytes(group) > GROUP_BYTES) {
            return None;
        }
        let numbers = held.take()?.into_numbers();
        let leads = open.is_none();
        let group = open.get_or_insert_default();
        group.locks.extend(numbers);
        let added = add(group);
        if !leads {
            group.members.push(task::current());
        }
        Some((Member { end: Arc::clone(&group.end), leads }, added))
    }
}

/// A task's part in a group.
struct Member {
    end: Arc<End>,
    leads: bool,
}

impl Member {
    /// Waits for the end.
    fn wait(&self) -> &Ended {
        loop {
            match self.end.get() {
                Some(ended) => return ended,
                None => task::park(&GROUP),
            }
        }
    }
}

impl Keyspace {
    /// Commits the writes of `txn` together with others, calls `notify` with the events of its keys
    /// and then releases the lock of its key. If `durable`, it is usually durable on return; a
    /// caller that must be sure calls [`Keyspace::sync_upto`]. None when it must be committed by
    /// itself: then nothing has been done. Suspends.
    ///
    /// # Errors
    /// Of the engine; then nothing was written.
    pub fn write_together(
        &self,
        txn: &mut Txn<'_>,
        held: &mut Option<Held<'_>>,
        durable: bool,
        notify: impl Fn(&[Event]),
    ) -> Outcome<Option<Written>> {
        let is_one = held.as_ref().is_some_and(Held::is_one);
        if !is_one || !self.groups_writes() || !txn.is_small(WRITE_BYTES) {
            return Ok(None);
        }
        let add = |group: &mut Group| {
            txn.give(&mut group.batch, &mut group.counted, &mut group.events);
        };
        let Some((member, ())) = self.groups.join(held, add) else { return Ok(None) };
        if member.leads {
            self.lead(durable, notify);
        }
        Ok(Some(member.wait().written.clone()?))
    }

    /// Whether a group accepts this string.
    pub fn is_short(&self, pair: &(&[u8], &[u8])) -> bool {
        bytes_of(pair) <= WRITE_BYTES.min(self.room())
    }

    /// Sets strings without an expiry that replace any values at their keys in `db`: consecutive
    /// ones of one client, all of which are [short](Keyspace::is_short). `held` are the locks of
    /// their keys. With `together`, and if possible, they join those of others, and are durable as
    /// described at [`Keyspace::write_together`] if it holds true; otherwise they are written at
    /// once, and files are read too, to find the old values. Suspends.
    pub fn set_run(
        &self,
        (db, now): (u8, u64),
        pairs: &[(&[u8], &[u8])],
        held: Held<'_>,
        together: Option<bool>,
        notify: impl Fn(&[Event]),
    ) -> Run {
        let mut held = Some(held);
        // It stays valid: a swap of databases takes all locks of keys.
        let stored = self.databases.stored(db);
        if let Some(durable) = together.filter(|_| self.groups_writes()) {
            let add = |group: &mut Group| group.add_run((db, stored), now, pairs);
            if let Some((member, first)) = self.groups.join(&mut held, add) {
                if member.leads {
                    self.lead(durable, notify);
                }
                return member.wait().of_run(first, pairs.len());
            }
        }
        let mut closed = Closed { locks: &self.locks, group: Group::default() };
        let group = &mut closed.group;
        group.locks.extend(held.into_iter().flat_map(Held::into_numbers));
        let first = group.add_run((db, stored), now, pairs);
        let member = Member { end: Arc::clone(&group.end), leads: true };
        self.finish(&mut closed, &Reads::default(), notify);
        member.wait().of_run(first, pairs.len())
    }

    /// The calling task's writes may be grouped.
    fn groups_writes(&self) -> bool {
        fiber::is_fiber() && self.engine.pumice().is_some()
    }

    /// Adds the strings of a group to its batch, if the old values can be read with `reads` and
    /// need no further work. Returns the numbers of the others.
    fn add_strings(&self, group: &mut Group, reads: &Reads) -> Vec<usize> {
        let mut left = Vec::new();
        let mut broken = None;
        let mut strings = std::mem::take(&mut group.strings).into_iter().enumerate().peekable();
        let mut warm = Vec::with_capacity(KEYS_WARMED);
        while strings.peek().is_some() {
            warm.clear();
            warm.extend(strings.by_ref().take(KEYS_WARMED));
            let records: [&[u8]; KEYS_WARMED] =
                std::array::from_fn(|at| warm.get(at).map_or(&[][..], |(_, new)| &new.record));
            self.engine.warm(&records[..warm.len()]);
            for (number, new) in warm.drain(..) {
                let looks = broken != Some(new.run);
                let change = looks.then(|| self.change_by(&new, reads)).flatten();
                let Some(change) = change else {
                    broken = Some(new.run);
                    left.push(number);
                    continue;
                };
                group.batch.put(&new.record, &new.value);
                group.counted.add(new.stored, change);
                group.events.push(new.event);
            }
        }
        left
    }

    /// The change in the numbers of keys by a string, if the old value needs no further work.
    fn change_by(&self, new: &NewString, reads: &Reads) -> Option<Tally> {
        let change = Tally::key(0);
        let Some(old) = self.engine.get(reads, &new.record).ok()? else { return Some(change) };
        let head = Head::read(&old).ok()?;
        let is_plain = head.kind == Kind::String && !head.is_expired(new.now);
        is_plain.then(|| change - Tally::key(head.expires))
    }

    fn lead(&self, durable: bool, notify: impl Fn(&[Event])) {
        thread::yield_now();
        let Some(group) = self.groups.place().lock().take() else { return };
        // Others wait for it, and each can read files for itself.
        let in_memory = ReadOptions { cache_only: true, ..ReadOptions::default() };
        let mut closed = Closed { locks: &self.locks, group };
        let upto = self.finish(&mut closed, &Reads::with(in_memory), notify);
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
        reads: &Reads,
        notify: impl Fn(&[Event]),
    ) -> Option<u64> {
        let group = &mut closed.group;
        let left = self.add_strings(group, reads);
        let written = match group.batch.is_empty() {
            true => Ok(()),
            false => self.engine.write(&WriteOptions::default(), &mut group.batch),
        };
        let written = written.map(|()| Written { micros: time::now_micros(), upto: self.writes() });
        let upto = written.as_ref().ok().map(|written| written.upto);
        // Recorded before `notify`: it is written, even if `notify` fails.
        group.end.get_or_init(|| Ended { written, left });
        let upto = upto?;
        self.counts.apply(&group.counted);
        notify(&group.events);
        closed.unlock();
        Some(upto)
    }
}
