//! The write queue: which writer leads now, and whose batches it writes with its own.
//!
//! One writer at a time is the leader. It takes the batches that have queued up since, logs and
//! applies them together, and hands leadership to the first writer it did not take. A lone writer
//! becomes leader and leaves with two short lock sections, no allocation and no wake-up. A group
//! costs its leader two lock sections and one batch of wake-ups, however large it is.
//!
//! | state of an entry | entered by | left by |
//! |---|---|---|
//! | Free | the writer that collected its answer | a writer that queues |
//! | Waiting | a writer that queues | the leader |
//! | Taken | the leader, which has the batch; a writer, on reading its request | the leader |
//! | Asked | the leader, which wants help with the group | the writer, or the leader |
//! | Leader | the leaving leader, which hands over | the writer |
//! | Done | the leader, with the outcome | the writer |
//!
//! Thread safety: all methods from anywhere; entries live in a pool under the queue's lock.
//! Invariants: (1) `busy` is true exactly while there is a leader; (2) an entry in `order` is
//! Waiting and only a leader takes it out, and a leader leaves only through `finish`, so no waiter
//! is forgotten; (3) the task of an entry is woken after the entry has become Leader or Done and
//! the lock is free; a writer that wakes for another reason checks its entry and waits again.

use std::collections::VecDeque;
use std::sync::Arc;

use pumice_base::planted::{self, Bug};
use pumice_base::{Error, Result};
use pumice_port::sync::{Mutex, RankHeld};
use pumice_port::task::{self, TaskRef, WaitReason};

use super::batch::protection::Sums;
use super::shared_insert::SharedInsert;
use super::two_phase::Taken;
use crate::lock_order;
use crate::options::requests::WriteOptions;

/// A leader with a small batch takes at most this fraction of a group's bytes, so that its own
/// latency stays small.
const SMALL_LEADER_SHARE: usize = 8;

static WRITE_QUEUE: WaitReason = WaitReason("write queue");

/// A batch handed to the leader.
pub(crate) struct QueuedBatch {
    /// Wire form, moved here while the leader has it.
    pub rep: Vec<u8>,
    pub taken: Taken,
    /// The checksums of its updates. Those who have some write together, and alone.
    pub sums: Option<Arc<Sums>>,
    pub options: WriteOptions,
    /// Not a write: the caller wants to be alone (memtable switch, column family change).
    pub exclusive: bool,
}

impl QueuedBatch {
    /// A write of `rep`, which has no markers of transactions.
    pub fn plain(rep: Vec<u8>, options: WriteOptions) -> Self {
        QueuedBatch { taken: Taken::plain(&rep), rep, sums: None, options, exclusive: false }
    }

    /// No write: its caller leads alone.
    pub fn exclusive() -> Self {
        let (taken, options) = (Taken::default(), WriteOptions::default());
        QueuedBatch { rep: Vec::new(), taken, sums: None, options, exclusive: true }
    }
}

enum Entry {
    Free,
    Waiting(QueuedBatch, TaskRef),
    Taken(TaskRef),
    Asked(TaskRef, Arc<SharedInsert>),
    Leader(QueuedBatch),
    Done(Vec<u8>, Result<()>),
}

/// What a waiting writer finds in its entry.
enum News {
    Leads(QueuedBatch),
    Done(Vec<u8>, Result<()>),
    Asked(Arc<SharedInsert>),
}

/// How a writer leaves [`WriteQueue::join`].
pub(crate) enum Joined {
    /// The caller leads, with its batch.
    Leader(QueuedBatch, Leadership),
    /// A leader wrote the batch, or a stall refused it.
    Done(Vec<u8>, Result<()>),
}

/// Proof that the task which holds it leads. A queue has one at a time, and only the queue makes
/// it. In release builds it has zero size. Giving up leadership takes it by `&mut` and not by
/// value, because guards do that in `drop` and cannot move it out.
#[derive(Debug)]
#[must_use = "leadership that is not given away stops all writers"]
pub(crate) struct Leadership {
    _place: RankHeld,
}

impl Leadership {
    /// The queue's lock is free.
    fn taken() -> Self {
        Leadership { _place: lock_order::LEADERSHIP.enter_untested() }
    }
}

/// A batch that a leader carries for another writer.
pub(crate) struct Follower {
    entry: usize,
    pub batch: QueuedBatch,
}

#[derive(Default)]
struct State {
    busy: bool,
    /// The leader waits in a stall: writers that do not want to wait are refused.
    stalled: bool,
    entries: Vec<Entry>,
    free: Vec<usize>,
    /// Waiting entries in the order of their arrival.
    order: VecDeque<usize>,
}

impl State {
    fn add(&mut self, batch: QueuedBatch, task: TaskRef) -> usize {
        let entry = Entry::Waiting(batch, task);
        let at = match self.free.pop() {
            Some(at) => {
                self.entries[at] = entry;
                at
            }
            None => {
                self.entries.push(entry);
                self.entries.len() - 1
            }
        };
        self.order.push_back(at);
        at
    }

    /// The answer in entry `at`, which is then free, or the request to its writer; None while there
    /// is neither.
    fn collect(&mut self, at: usize) -> Option<News> {
        let news = match std::mem::replace(&mut self.entries[at], Entry::Free) {
            Entry::Leader(batch) => News::Leads(batch),
            Entry::Done(rep, result) => News::Done(rep, result),
            Entry::Asked(task, shared) => {
                self.entries[at] = Entry::Taken(task);
                return Some(News::Asked(shared));
            }
            waits => {
                self.entries[at] = waits;
                return None;
            }
        };
        self.free.push(at);
        Some(news)
    }

    /// Hands leadership to the first waiter, if there is one, and returns the task to wake.
    fn hand_over(&mut self) -> Option<TaskRef> {
        let next = self.order.pop_front();
        self.busy = next.is_some();
        let next = next?;
        match std::mem::replace(&mut self.entries[next], Entry::Free) {
            Entry::Waiting(batch, task) => {
                self.entries[next] = Entry::Leader(batch);
                Some(task)
            }
            _ => unreachable!("invariant 2"),
        }
    }
}

/// See the module head.
pub(crate) struct WriteQueue {
    state: Mutex<State>,
    group_bytes_max: usize,
}

impl WriteQueue {
    /// An empty queue whose leaders write at most `group_bytes_max` bytes together.
    pub fn new(group_bytes_max: usize) -> Self {
        let state = Mutex::ranked(&lock_order::WRITE_QUEUE, State::default());
        WriteQueue { state, group_bytes_max }
    }

    /// Becomes leader unless there is one: then `None`. Never waits.
    #[inline]
    pub fn try_lead(&self) -> Option<Leadership> {
        let mut state = self.state.lock();
        if state.busy {
            return None;
        }
        state.busy = true;
        drop(state);
        Some(Leadership::taken())
    }

    /// Becomes leader with `batch`, or waits until a leader wrote it. Suspends, unless the batch
    /// has `no_slowdown` and the leader is stalled: then the answer is Incomplete at once. A caller
    /// that would have to wait and is not `patient` is treated as one with `no_slowdown`; one that
    /// must not wait at all gets an error. If its leader asks this task for help with the group,
    /// `help` is called, without the queue's lock; it may suspend.
    pub fn join(
        &self,
        mut batch: QueuedBatch,
        patient: impl FnOnce() -> Result<bool>,
        help: impl Fn(&SharedInsert),
    ) -> Joined {
        let at = {
            let mut state = self.state.lock();
            if !state.busy {
                state.busy = true;
                drop(state);
                return Joined::Leader(batch, Leadership::taken());
            }
            match patient() {
                Ok(patient) => batch.options.no_slowdown |= !patient,
                Err(error) => return Joined::Done(batch.rep, Err(error)),
            }
            if state.stalled && batch.options.no_slowdown {
                return Joined::Done(batch.rep, Err(stalled()));
            }
            lock_order::LEADERSHIP.check_none_held(lock_order::UNDER_LEADERSHIP);
            state.add(batch, task::current())
        };
        task::park(&WRITE_QUEUE);
        loop {
            let news = self.state.lock().collect(at);
            match news {
                Some(News::Leads(batch)) => return Joined::Leader(batch, Leadership::taken()),
                Some(News::Done(rep, result)) => return Joined::Done(rep, result),
                // The answer may already be there, and its wake-up consumed by waiting for a lock.
                Some(News::Asked(shared)) => help(&shared),
                None => task::park(&WRITE_QUEUE),
            }
        }
    }

    /// Takes followers that may be written with a leader of `leader_bytes` and `options`, in
    /// arrival order, until one does not fit; `finish` gives them back.
    pub fn take_followers(
        &self,
        _: &Leadership,
        leader_bytes: usize,
        options: &WriteOptions,
        out: &mut Vec<Follower>,
    ) {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let extra = self.group_bytes_max / SMALL_LEADER_SHARE;
        let limit = if leader_bytes <= extra { leader_bytes + extra } else { self.group_bytes_max };
        let mut bytes = leader_bytes;
        while let Some(&at) = state.order.front() {
            let Entry::Waiting(batch, task) = &mut state.entries[at] else { break };
            // A sync write may not join a leader that will not sync, nor a logged write an unlogged
            // one; a writer that refuses to wait decides about delays itself.
            if batch.exclusive
                || (batch.options.sync && !options.sync && !planted::is(Bug::SyncFollowerNotSynced))
                || batch.options.disable_wal != options.disable_wal
                || batch.options.no_slowdown != options.no_slowdown
                || batch.options.low_pri != options.low_pri
                || batch.options.rate_limiter_priority != options.rate_limiter_priority
                || batch.options.protection_bytes_per_key != options.protection_bytes_per_key
                || bytes + batch.rep.len() > limit
            {
                break;
            }
            bytes += batch.rep.len();
            let (rep, taken) = (std::mem::take(&mut batch.rep), batch.taken.clone());
            let (sums, options) = (batch.sums.take(), batch.options);
            let batch = QueuedBatch { rep, taken, sums, options, exclusive: false };
            state.entries[at] = Entry::Taken(*task);
            state.order.pop_front();
            out.push(Follower { entry: at, batch });
        }
    }

    /// Wakes the first `count` of `followers`, to help with `shared`.
    pub fn ask(
        &self,
        _: &Leadership,
        followers: &[Follower],
        count: usize,
        shared: &Arc<SharedInsert>,
    ) {
        let mut asked = Vec::with_capacity(count);
        let mut state = self.state.lock();
        for follower in followers.iter().take(count) {
            let entry = &mut state.entries[follower.entry];
            if let Entry::Taken(task) = *entry {
                *entry = Entry::Asked(task, Arc::clone(shared));
                asked.push(task);
            }
        }
        drop(state);
        task::unpark_all(asked);
    }

    /// The leader leaves: `followers` get their batches back with `result`, and the first waiter
    /// leads next.
    pub fn finish(&self, _: &mut Leadership, followers: Vec<Follower>, result: &Result<()>) {
        let mut answered = Vec::with_capacity(followers.len());
        let mut state = self.state.lock();
        for Follower { entry, batch } in followers {
            let done = Entry::Done(batch.rep, result.clone());
            let before = std::mem::replace(&mut state.entries[entry], done);
            if let Entry::Taken(task) | Entry::Asked(task, _) = before {
                answered.push(task);
            }
        }
        let next = if planted::is(Bug::HandoffForgotten) {
            state.busy = false;
            None
        } else {
            state.hand_over()
        };
        drop(state);
        // The new leader last: those before it may queue again and be in its group.
        task::unpark_all(answered.into_iter().chain(next));
    }

    /// The leader leaves without followers.
    #[inline]
    pub fn leave(&self, _: &mut Leadership) {
        let next = self.state.lock().hand_over();
        if let Some(task) = next {
            task.unpark();
        }
    }

    /// The leader is going to wait: refuses the writers that do not want to, those in the queue
    /// and those to come, until [`Self::end_stall`].
    pub fn begin_stall(&self, _: &Leadership) {
        let mut refused = Vec::new();
        let mut guard = self.state.lock();
        let state = &mut *guard;
        state.stalled = true;
        let entries = &mut state.entries;
        state.order.retain(|&at| {
            let Entry::Waiting(batch, task) = &mut entries[at] else { return true };
            if !batch.options.no_slowdown {
                return true;
            }
            refused.push(*task);
            entries[at] = Entry::Done(std::mem::take(&mut batch.rep), Err(stalled()));
            false
        });
        drop(guard);
        task::unpark_all(refused);
    }

    /// The leader waits.
    pub fn is_stalled(&self) -> bool {
        self.state.lock().stalled
    }

    /// Ends [`Self::begin_stall`].
    pub fn end_stall(&self) {
        self.state.lock().stalled = false;
    }
}

/// The error of a write that may not wait (RocksDB's text).
#[cold]
pub(crate) fn stalled() -> Error {
    Error::incomplete("Write stall")
}

#[cfg(test)]
mod tests;
