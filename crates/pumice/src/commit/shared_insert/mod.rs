//! The batches of a group that members insert concurrently with their leader, and how many members
//! are asked.
//!
//! The leader has logged the group and given every batch its sequence numbers, so the batches may
//! enter the memtables in any order, from any task. Each member that comes takes one batch after
//! another; the leader does the same and publishes when all are in. A member that comes late finds
//! nothing to do: the leader never waits for one that has not begun.
//!
//! The system is not asked whether a core is idle, which would cost a system call and be out of
//! date when read: a member that was woken and came in time had a core ([`Helpers`]).
//!
//! Thread safety: `SharedInsert` is shared by a leader and its members; `Helpers` is the leader's.
//! Invariants: (1) a batch is inserted once; (2) when `finish` returns no insertion is under way.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use pumice_base::{Error, Result, SequenceNumber};
use pumice_port::sync::SharedWork;
use pumice_port::thread;

/// Updates that are worth the wake-up of a member that inserts them: some 40 us of one core.
const UPDATES_PER_MEMBER: u64 = 64;
/// When no member came, no member is asked for the next this many updates, so that asking costs
/// less than 2 % of their time.
const PAUSE_UPDATES: u64 = 64 * UPDATES_PER_MEMBER;

/// How many members the leader of the next group asks.
pub(crate) struct Helpers {
    /// Cores besides the leader's; 0: no member is ever asked.
    most: usize,
    now: usize,
    /// Updates still to be inserted without help.
    pause: u64,
}

impl Helpers {
    /// Asks for at most `most` at a time.
    pub fn new(most: usize) -> Self {
        Helpers { most, now: most.min(1), pause: 0 }
    }

    /// How many to ask for a group of `updates` in the leader's batch and those of `followers`.
    pub fn decide(&mut self, followers: usize, updates: u64) -> usize {
        let useful = (updates / UPDATES_PER_MEMBER).saturating_sub(1);
        let useful = usize::try_from(useful).unwrap_or(usize::MAX).min(followers).min(self.most);
        if useful == 0 || self.now > 0 {
            return useful.min(self.now);
        }
        self.pause = self.pause.saturating_sub(updates);
        usize::from(self.pause == 0)
    }

    /// `came` of the `asked` members came in time.
    pub fn came(&mut self, asked: usize, came: usize) {
        if came >= asked {
            self.now = self.now.max(asked + 1).min(self.most);
            return;
        }
        self.now = came;
        if came == 0 {
            self.pause = PAUSE_UPDATES;
        }
    }
}

struct Portion {
    first: SequenceNumber,
    rep: Vec<u8>,
}

/// See the module head.
pub(crate) struct SharedInsert {
    work: SharedWork<Portion>,
    failure: OnceLock<Error>,
    came: AtomicUsize,
}

impl SharedInsert {
    /// Batches in wire form and how many sequence numbers each takes, from `next` on.
    pub fn new(batches: impl Iterator<Item = (Vec<u8>, u64)>, mut next: SequenceNumber) -> Self {
        let portions = batches.map(|(rep, sequences)| {
            let first = next;
            next += sequences;
            Portion { first, rep }
        });
        let work = SharedWork::new(portions);
        SharedInsert { work, failure: OnceLock::new(), came: AtomicUsize::new(0) }
    }

    /// A member inserts batches as long as there are any. `insert` gets a batch and the sequence of
    /// its first update.
    pub fn help(&self, insert: impl Fn(SequenceNumber, &[u8]) -> Result<()>) {
        let mut came = 0;
        self.work.help(|portion| {
            // Under the portion's lock, so that the leader sees it when all is done.
            self.came.fetch_add(1 - came, Ordering::Relaxed);
            came = 1;
            self.insert(portion, &insert);
        });
    }

    /// The leader inserts the batches that no member has begun and waits for the others. Returns
    /// the batches in their order, and how many members came; or, with all other batches inserted,
    /// an error of one that could not be. Suspends.
    pub fn finish(
        &self,
        insert: impl Fn(SequenceNumber, &[u8]) -> Result<()>,
    ) -> (Vec<Vec<u8>>, Result<usize>) {
        let portions = self.work.finish(|portion| self.insert(portion, &insert));
        let came = match self.failure.get() {
            Some(error) => Err(error.clone()),
            None => Ok(self.came.load(Ordering::Relaxed)),
        };
        (portions.into_iter().map(|portion| portion.rep).collect(), came)
    }

    /// After a panic no other member may insert the half-inserted batch again.
    fn insert(&self, portion: &Portion, insert: &impl Fn(SequenceNumber, &[u8]) -> Result<()>) {
        let inserted = thread::contain("A write", || insert(portion.first, &portion.rep));
        if let Err(error) = inserted.and_then(|inserted| inserted) {
            self.failure.get_or_init(|| error);
        }
    }
}

#[cfg(test)]
mod tests;
