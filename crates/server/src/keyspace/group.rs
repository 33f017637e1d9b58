//! Writes of commands that run in the same turn of a loop, as one batch.
//!
//! | who | does |
//! |---|---|
//! | the first that writes | opens the group, lets the others of its loop run, writes the batch |
//! | who comes while it is open | adds its write with the lock of its key, and waits for the end |
//!
//! So a command's fiber waits once, for write and sync, and the engine gets one batch instead of
//! one per command. A lock is released when the batch can be read, not when it is durable: a waiter
//! for the same key joins the next group. Each loop has its own group, so no command waits for
//! another loop's turn.
//!
//! Invariants:
//! 1. An open group has one leader, which will take it; no other task does.
//! 2. However a group ends, its locks are released, its end is recorded and its members are woken.
//! 3. A member holds the lock of one key and waits for its leader; a leader takes no lock of a key.
//!
//! Thread safety: may be shared. Suspends. Not used by threads: the engine's write queue does the
//! same for them.

use std::sync::{Arc, OnceLock};

use pumice::{WriteBatch, WriteOptions};
use pumice_port::sync::Mutex;
use pumice_port::task::{self, TaskRef, WaitReason};
use pumice_port::{fiber, thread, time};

use super::locks::{Held, KeyLocks};
use super::txn::{Event, Txn};
use super::{Keyspace, Outcome};

/// A write of more bytes is committed alone, and a group of more takes no further write.
const WRITE_BYTES: usize = 16 << 10;
const GROUP_BYTES: usize = 1 << 20;
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

type End = OnceLock<pumice::Result<Written>>;

#[derive(Default)]
struct Group {
    batch: WriteBatch,
    locks: Vec<usize>,
    counted: Vec<(u8, i64)>,
    events: Vec<Event>,
    members: Vec<TaskRef>,
    end: Arc<End>,
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
        self.group.end.get_or_init(|| Err(pumice::Error::aborted("A write panicked")));
        task::unpark_all(std::mem::take(&mut self.group.members));
    }
}

impl Groups {
    /// The slot for groups of the calling fiber's loop.
    fn place(&self) -> &Mutex<Option<Group>> {
        &self.0[fiber::loop_index() % PLACES]
    }

    /// Adds the write to the open group, or opens one, which the caller then leads. None if there
    /// is no room, or it cannot be added; then `held` is unchanged.
    fn join(&self, txn: &mut Txn<'_>, held: &mut Option<Held<'_>>) -> Option<(Arc<End>, bool)> {
        let mut open = self.place().lock();
        if open.as_ref().is_some_and(|group| group.batch.data_bytes() > GROUP_BYTES) {
            return None;
        }
        let number = held.take_if(|held| held.is_one())?.into_one()?;
        let leads = open.is_none();
        let group = open.get_or_insert_default();
        group.locks.push(number);
        txn.give(&mut group.batch, &mut group.counted, &mut group.events);
        if !leads {
            group.members.push(task::current());
        }
        Some((Arc::clone(&group.end), leads))
    }
}

impl Keyspace {
    /// Writes what `txn` has to write together with others, calls `tell` with what happened to
    /// which keys and then releases the lock of its key. If `durable`, it is usually durable on
    /// return; a caller that must be sure calls [`Keyspace::sync_upto`]. None when it must be
    /// committed by itself: then nothing has been done. Suspends.
    ///
    /// # Errors
    /// Of the engine; then nothing was written.
    pub fn write_together(
        &self,
        txn: &mut Txn<'_>,
        held: &mut Option<Held<'_>>,
        durable: bool,
        tell: impl Fn(&[Event]),
    ) -> Outcome<Option<Written>> {
        if !fiber::is_fiber() || self.engine.pumice().is_none() || !txn.is_small(WRITE_BYTES) {
            return Ok(None);
        }
        let Some((end, leads)) = self.groups.join(txn, held) else { return Ok(None) };
        if leads {
            self.lead(durable, tell);
        }
        loop {
            match end.get() {
                Some(end) => return Ok(Some(end.clone()?)),
                None => task::park(&GROUP),
            }
        }
    }

    fn lead(&self, durable: bool, tell: impl Fn(&[Event])) {
        thread::yield_now();
        let Some(group) = self.groups.place().lock().take() else { return };
        let mut closed = Closed { locks: &self.locks, group };
        let group = &mut closed.group;
        let written = self.engine.write(&WriteOptions::default(), &mut group.batch);
        let written = written.map(|()| Written { micros: time::now_micros(), upto: self.writes() });
        let upto = written.as_ref().ok().map(|written| written.upto);
        // Recorded before `tell`: it is written, even if `tell` fails.
        group.end.get_or_init(|| written);
        let Some(upto) = upto else { return };
        group.counted.iter().for_each(|&(db, sum)| self.add_count(db, sum));
        tell(&group.events);
        closed.unlock();
        if durable {
            // Each of them checks again, and learns of a failure.
            self.sync_upto(upto).ok();
        }
    }
}
