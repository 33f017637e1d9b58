//! The write queue: who writes now, and who is written along.
//!
//! One writer at a time is the leader. It takes the batches that queued up behind it, logs and
//! applies them together, and hands leadership to the first writer it did not take. A lone writer
//! becomes leader and leaves again with two short lock sections, no allocation and no wake-up.
//!
//! | state of a waiting writer | entered by | left by |
//! |---|---|---|
//! | Waiting | itself, when it queues | the leader |
//! | Leader | the parting leader, which hands over | itself |
//! | Done(result) | the leader that wrote its batch | itself |
//!
//! Thread safety: all methods from anywhere. Invariant: `busy` is true exactly while there is a
//! leader; a waiter in `queue` is never forgotten, because only a leader removes from it and a
//! leader parts only through `leave`.

use std::collections::VecDeque;
use std::sync::Arc;

use pumice_base::Result;
use pumice_base::planted::{self, Bug};
use pumice_port::sync::{Condvar, Mutex};

use crate::db::requests::WriteOptions;

/// A small leader takes at most this part of a group's bytes along, so that its own latency stays
/// small.
const SMALL_LEADER_SHARE: usize = 8;

/// A batch handed to the leader.
pub(crate) struct QueuedBatch {
    /// Wire form, moved here while the leader has it.
    pub rep: Vec<u8>,
    pub options: WriteOptions,
    /// Not a write: the caller wants to be alone (memtable switch, column family change).
    pub exclusive: bool,
}

enum Slot {
    Waiting(QueuedBatch),
    /// The leader took the batch.
    Taken,
    Leader(QueuedBatch),
    Done(Vec<u8>, Result<()>),
    Empty,
}

/// A writer that queued behind a leader.
pub(crate) struct Waiter {
    slot: Mutex<Slot>,
    wake: Condvar,
}

impl Waiter {
    /// Gives a follower its batch back with the outcome.
    pub fn complete(&self, rep: Vec<u8>, result: Result<()>) {
        *self.slot.lock() = Slot::Done(rep, result);
        self.wake.notify_one();
    }
}

/// How a writer leaves [`WriteQueue::join`].
pub(crate) enum Joined {
    /// The caller leads, with its batch.
    Leader(QueuedBatch),
    /// A leader wrote the batch.
    Done(Vec<u8>, Result<()>),
}

#[derive(Default)]
struct State {
    busy: bool,
    queue: VecDeque<Arc<Waiter>>,
}

/// See the module head.
pub(crate) struct WriteQueue {
    state: Mutex<State>,
    group_bytes_max: usize,
}

impl WriteQueue {
    /// An empty queue whose leaders write at most `group_bytes_max` bytes together.
    pub fn new(group_bytes_max: usize) -> Self {
        WriteQueue { state: Mutex::default(), group_bytes_max }
    }

    /// Becomes leader if nobody is. Never waits.
    #[inline]
    pub fn try_lead(&self) -> bool {
        let mut state = self.state.lock();
        if state.busy {
            return false;
        }
        state.busy = true;
        true
    }

    /// Becomes leader with `batch`, or waits until a leader wrote it. Suspends.
    pub fn join(&self, batch: QueuedBatch) -> Joined {
        let waiter = {
            let mut state = self.state.lock();
            if !state.busy {
                state.busy = true;
                return Joined::Leader(batch);
            }
            let waiter =
                Arc::new(Waiter { slot: Mutex::new(Slot::Waiting(batch)), wake: Condvar::new() });
            state.queue.push_back(Arc::clone(&waiter));
            waiter
        };
        let mut slot = waiter.slot.lock();
        loop {
            match std::mem::replace(&mut *slot, Slot::Empty) {
                Slot::Leader(batch) => return Joined::Leader(batch),
                Slot::Done(rep, result) => return Joined::Done(rep, result),
                other => *slot = other,
            }
            slot = waiter.wake.wait(slot);
        }
    }

    /// Takes followers that may be written with a leader of `leader_bytes` and `options`, in
    /// arrival order, until one does not fit.
    pub fn take_followers(
        &self,
        leader_bytes: usize,
        options: &WriteOptions,
        out: &mut Vec<(Arc<Waiter>, QueuedBatch)>,
    ) {
        let mut state = self.state.lock();
        let extra = self.group_bytes_max / SMALL_LEADER_SHARE;
        let limit = if leader_bytes <= extra { leader_bytes + extra } else { self.group_bytes_max };
        let mut bytes = leader_bytes;
        while let Some(waiter) = state.queue.front() {
            let mut slot = waiter.slot.lock();
            let Slot::Waiting(batch) = &*slot else { break };
            // A sync write may not ride with a leader that will not sync, nor a logged write with
            // an unlogged one; a writer that refuses to wait decides about delays for itself.
            if batch.exclusive
                || (batch.options.sync && !options.sync && !planted::is(Bug::SyncFollowerNotSynced))
                || batch.options.disable_wal != options.disable_wal
                || batch.options.no_slowdown != options.no_slowdown
                || batch.options.low_pri != options.low_pri
                || bytes + batch.rep.len() > limit
            {
                break;
            }
            bytes += batch.rep.len();
            let Slot::Waiting(batch) = std::mem::replace(&mut *slot, Slot::Taken) else { break };
            drop(slot);
            if let Some(waiter) = state.queue.pop_front() {
                out.push((waiter, batch));
            }
        }
    }

    /// The leader parts: the first waiter leads next.
    #[inline]
    pub fn leave(&self) {
        let mut state = self.state.lock();
        let Some(next) = state.queue.pop_front() else {
            state.busy = false;
            return;
        };
        drop(state);
        let mut slot = next.slot.lock();
        if let Slot::Waiting(batch) = std::mem::replace(&mut *slot, Slot::Empty) {
            *slot = Slot::Leader(batch);
        }
        drop(slot);
        next.wake.notify_one();
    }
}

#[cfg(test)]
mod tests;
