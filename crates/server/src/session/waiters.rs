//! Connections that wait for a key: BLPOP and its relatives.
//!
//! A writer of a key serves the waiters for it, in the order in which they began, within its own
//! write batch, so no other command can come in between. It therefore also holds the locks of the
//! keys to which the waiters move elements.
//!
//! | state | becomes | by |
//! |---|---|---|
//! | waiting | claimed | a writer of the key, under its lock |
//! | claimed | done, with the reply | the same, once the batch is written |
//! | claimed | waiting | the same, if it is not |
//! | claimed | again | the same, if it is not, and others passed it over meanwhile; or no room |
//! | waiting, again | done | its timeout, its connection's end, CLIENT UNBLOCK |
//!
//! A writer that finds a waiter claimed skips it, although the waiter may have wanted its element:
//! if it is not served after all, its connection executes its command again.
//!
//! Thread safety: everything may be shared. Waiting for the outcome suspends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use pumice_port::io::CancelToken;
use pumice_port::sync::{Condvar, Mutex};

use crate::session::action::Op;

#[derive(Debug)]
enum State {
    Waiting,
    Claimed {
        /// Another has passed it over.
        missed: bool,
    },
    Again,
    /// Ended with the reply; none if the client is gone.
    Done(Vec<u8>),
}

/// A connection that waits.
pub struct Waiter {
    number: u64,
    /// The database of the waiting command.
    pub db: u8,
    /// The keys it waits for.
    pub keys: Vec<Vec<u8>>,
    /// The action on the first of them that has an element.
    pub op: Op,
    /// It understands RESP3.
    pub resp3: bool,
    /// How long it waits; None waits forever.
    pub limit_nanos: Option<u64>,
    state: Mutex<State>,
    changed: Condvar,
    /// Ends its wait.
    pub token: CancelToken,
}

/// The cost of a key besides its bytes, here and in the map of waiters.
const KEY_BYTES: usize = 256;

impl Waiter {
    /// What it costs.
    pub fn bytes(&self) -> usize {
        self.keys.iter().map(|key| 2 * key.len() + KEY_BYTES).sum()
    }
    /// Claims it for serving; false when it is served already, or claimed by another.
    pub fn claim(&self) -> bool {
        let mut state = self.state.lock();
        let is_free = matches!(*state, State::Waiting);
        match &mut *state {
            State::Waiting => *state = State::Claimed { missed: false },
            State::Claimed { missed } => *missed = true,
            State::Again | State::Done(_) => {}
        }
        is_free
    }
    /// The wait has not ended.
    pub fn is_waiting(&self) -> bool {
        !matches!(*self.state.lock(), State::Done(_))
    }
    /// The waiter was not served after all.
    pub fn release(&self) {
        self.free(false);
    }
    /// There is an element for it, which it has to pop itself.
    pub fn try_again(&self) {
        self.free(true);
    }
    fn free(&self, again: bool) {
        let mut state = self.state.lock();
        if !matches!(*state, State::Claimed { .. }) {
            return;
        }
        let again = again || matches!(*state, State::Claimed { missed: true });
        *state = if again { State::Again } else { State::Waiting };
        drop(state);
        self.changed.notify_all();
        if again {
            self.token.cancel();
        }
    }
    fn end(&self, reply: Vec<u8>) {
        *self.state.lock() = State::Done(reply);
        self.changed.notify_all();
        self.token.cancel();
    }
    /// Ends the wait with `reply`, unless it has ended. Returns whether it did. Suspends.
    pub fn give_up(&self, reply: &[u8]) -> bool {
        let mut state = self.state.lock();
        while matches!(*state, State::Claimed { .. }) {
            state = self.changed.wait(state);
        }
        let waits = matches!(*state, State::Waiting | State::Again);
        if waits {
            *state = State::Done(reply.to_vec());
            drop(state);
            self.token.cancel();
        }
        waits
    }
    /// The reply, once the wait has ended.
    pub fn reply(&self) -> Option<Vec<u8>> {
        match &mut *self.state.lock() {
            State::Done(reply) => Some(std::mem::take(reply)),
            _ => None,
        }
    }
    /// The waiter's command has to be executed again.
    pub fn is_again(&self) -> bool {
        matches!(*self.state.lock(), State::Again)
    }
}

/// What a connection waits for.
pub struct Wish {
    /// See [`Waiter::keys`].
    pub keys: Vec<Vec<u8>>,
    /// See [`Waiter::op`].
    pub op: Op,
    /// See [`Waiter::limit_nanos`].
    pub limit_nanos: Option<u64>,
}

type Queue = BTreeMap<u64, Arc<Waiter>>;

/// All connections that wait.
#[derive(Default)]
pub struct Waiters {
    next: AtomicU64,
    /// Lets writers skip the map when there are no waiters.
    waiting: AtomicUsize,
    by_key: Mutex<BTreeMap<Vec<u8>, Queue>>,
}

impl Waiters {
    /// Whether there are no waiters.
    pub fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) == 0
    }
    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }
    /// Registers a waiter. The keys are locked, and hold nothing for it.
    pub fn add(&self, wish: Wish, db: u8, resp3: bool) -> Arc<Waiter> {
        let Wish { keys, op, limit_nanos } = wish;
        let waiter = Arc::new(Waiter {
            number: self.next.fetch_add(1, Ordering::Relaxed),
            db,
            keys,
            op,
            resp3,
            limit_nanos,
            state: Mutex::new(State::Waiting),
            changed: Condvar::new(),
            token: CancelToken::new(),
        });
        let mut by_key = self.by_key.lock();
        for key in &waiter.keys {
            let queue = by_key.entry(key.clone()).or_default();
            queue.insert(waiter.number, Arc::clone(&waiter));
        }
        self.waiting.fetch_add(1, Ordering::SeqCst);
        waiter
    }
    /// The waiter's wait has ended.
    pub fn remove(&self, waiter: &Waiter) {
        let mut by_key = self.by_key.lock();
        let mut was_there = false;
        for key in &waiter.keys {
            if let Some(queue) = by_key.get_mut(key) {
                was_there |= queue.remove(&waiter.number).is_some();
                if queue.is_empty() {
                    by_key.remove(key);
                }
            }
        }
        self.waiting.fetch_sub(usize::from(was_there), Ordering::SeqCst);
    }
    /// Whether a waiter exists for a key of this name, in any database.
    pub fn any_for(&self, key: &[u8]) -> bool {
        !self.is_empty() && self.by_key.lock().contains_key(key)
    }
    /// The waiters for a key of this name, in any database; the longest waiting first.
    pub fn of(&self, key: &[u8]) -> Vec<Arc<Waiter>> {
        let by_key = self.by_key.lock();
        by_key.get(key).map_or_else(Vec::new, |queue| queue.values().cloned().collect())
    }
    /// The keys of a database that have waiters.
    pub fn keys_in(&self, db: u8) -> Vec<Vec<u8>> {
        let by_key = self.by_key.lock();
        let waited = by_key.iter().filter(|(_, queue)| queue.values().any(|w| w.db == db));
        waited.map(|(key, _)| key.clone()).collect()
    }
    /// Adds to `keys` those to which elements may be moved when they are written, transitively.
    pub fn add_targets(&self, keys: &mut Vec<Vec<u8>>) {
        let by_key = self.by_key.lock();
        if by_key.is_empty() {
            return;
        }
        let mut known: std::collections::BTreeSet<Vec<u8>> = keys.iter().cloned().collect();
        let mut at = 0;
        while at < keys.len() {
            for waiter in by_key.get(&keys[at]).into_iter().flat_map(Queue::values) {
                if let Some(target) = waiter.op.target()
                    && known.insert(target.to_vec())
                {
                    keys.push(target.to_vec());
                }
            }
            at += 1;
        }
    }
}

/// The waiters served by a batch that is about to be written. Those that get no reply are released,
/// also when serving panics.
#[derive(Default)]
pub struct Served {
    all: Vec<(Arc<Waiter>, Vec<u8>)>,
    /// Bytes of all replies.
    pub bytes: usize,
}

impl Served {
    /// One more, if it can be claimed; its reply follows, or it is released.
    pub fn claim(&mut self, waiter: &Arc<Waiter>) -> bool {
        let is_free = waiter.claim();
        if is_free {
            self.all.push((Arc::clone(waiter), Vec::new()));
        }
        is_free
    }
    /// What the last one gets.
    pub fn reply(&mut self, reply: Vec<u8>) {
        self.bytes += reply.len();
        if let Some((_, own)) = self.all.last_mut() {
            *own = reply;
        }
    }
    /// The last one gets nothing.
    pub fn release(&mut self) {
        if let Some((waiter, _)) = self.all.pop() {
            waiter.release();
        }
    }
    /// The batch is written.
    pub fn notify(mut self, waiters: &Waiters) {
        for (waiter, reply) in self.all.drain(..) {
            waiters.remove(&waiter);
            waiter.end(reply);
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.all.iter().for_each(|(waiter, _)| waiter.release());
    }
}
