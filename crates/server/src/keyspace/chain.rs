//! The groups of writes of each loop, one after the other.
//!
//! A loop has one open group at most. The groups of its chain are written in the order in which
//! they were opened, each once the one before it is readable. So a group may take over the lock of
//! a key from the one before it, without a moment in which the lock is free: its strings come
//! later anyway. Each loop has a chain of its own, so no command waits for another loop's turn.
//!
//! Invariants:
//! 1. An open group is taken by its leader or by the task that fills it, and by no other.
//! 2. However a group ends, its locks are passed on or released, its end is recorded and its
//!    members are woken.
//! 3. A member waits for its leader while the locks of its keys are held, and a leader waits for
//!    the group before its own; a leader takes no lock of a key.
//! 4. A lock that living groups have marked belongs to the last of them, or will once the group
//!    before that one is over.
//!
//! Thread safety: may be shared. Suspends.

use std::sync::{Arc, OnceLock};

use pumice_port::fiber;
use pumice_port::sync::{Mutex, Semaphore};
use pumice_port::task::{self, WaitReason};

use super::Keyspace;
use super::group::{Group, Run, Written};
use super::locks::{CHAINS, Held, KeyLocks, Living, group_number};

static GROUP: WaitReason = WaitReason("group of writes");

/// How a group ended.
pub(super) struct Ended {
    pub(super) written: pumice::Result<Written>,
    /// Which of its strings were not written, in order.
    pub(super) left: Vec<usize>,
}

impl Ended {
    /// What became of `count` strings from number `run` on.
    pub(super) fn of_run(&self, run: usize, count: usize) -> Run {
        let left = self.left.get(self.left.partition_point(|&number| number < run));
        let count = left.map_or(count, |&number| count.min(number - run));
        Run { count, written: self.written.clone() }
    }

    /// A string was written.
    pub(super) fn has_written(&self, number: usize) -> bool {
        self.left.binary_search(&number).is_err()
    }
}

/// The end of a group.
pub(super) struct End {
    ended: OnceLock<Ended>,
    /// A permit for the next group of the chain.
    next: Semaphore,
}

impl Default for End {
    /// The group has not ended.
    fn default() -> End {
        End { ended: OnceLock::new(), next: Semaphore::new(0) }
    }
}

impl End {
    /// Records it, unless that has been done.
    pub(super) fn set(&self, ended: Ended) -> &Ended {
        self.ended.get_or_init(|| ended)
    }

    /// Waits for it. The calling task is a member, or has carried out the group.
    pub(super) fn wait(&self) -> &Ended {
        loop {
            match self.ended.get() {
                Some(ended) => return ended,
                None => task::park(&GROUP),
            }
        }
    }
}

/// A task's part in a group.
pub(super) struct Member {
    pub(super) end: Arc<End>,
    pub(super) part: Part,
}

/// What a task that has joined a group does next.
pub(super) enum Part {
    Waits,
    Leads,
    /// The member has filled this group and leads it now.
    Closes(Box<Group>),
}

/// The groups of a loop.
struct Chain {
    number: u64,
    open: Option<Box<Group>>,
    /// Groups that were opened.
    opened: u64,
    /// The number of the last group that is over.
    over: u64,
    /// The end of the last group that was opened.
    last: Option<Arc<End>>,
}

impl Chain {
    fn new(number: u64) -> Chain {
        Chain { number, open: None, opened: 0, over: group_number(number, 0), last: None }
    }

    fn living(&self) -> Living {
        Living { chain: self.number, over: self.over }
    }

    fn create(&mut self) -> Box<Group> {
        self.opened += 1;
        let number = group_number(self.number, self.opened);
        let group = Group::new(number, self.last.take());
        self.last = Some(Arc::clone(&group.end));
        Box::new(group)
    }
}

/// The chains of all loops; with more loops than chains, loops share them.
pub(super) struct Chains(Vec<Mutex<Chain>>);

impl Default for Chains {
    /// No group is open.
    fn default() -> Chains {
        Chains((0..CHAINS as u64).map(|number| Mutex::new(Chain::new(number))).collect())
    }
}

impl Chains {
    /// That of the calling fiber's loop.
    fn own(&self) -> &Mutex<Chain> {
        &self.0[fiber::loop_index() % CHAINS]
    }

    pub(super) fn living(&self) -> Living {
        self.own().lock().living()
    }

    /// Adds a write by `add` to the open group, or to a new one. None, with `held` unchanged, if
    /// nothing is locked or if a shared lock belongs to a group that is over by now.
    pub(super) fn join<T>(
        &self,
        locks: &KeyLocks,
        held: &mut Option<Held<'_>>,
        add: impl FnOnce(&mut Group) -> T,
    ) -> Option<(Member, T)> {
        let mut chain = self.own().lock();
        let living = chain.living();
        if !held.as_ref()?.common().iter().all(|&number| locks.is_of(number, living)) {
            return None;
        }
        let is_first = chain.open.is_none();
        if is_first {
            let group = chain.create();
            chain.open = Some(group);
        }
        let group = chain.open.as_mut()?;
        let (numbers, common) = held.take()?.into_numbers();
        group.locks.extend(numbers);
        let own = group.number;
        group.locks.extend(common.into_iter().filter(|number| locks.marked_by(*number) != own));
        let added = add(group);
        let end = Arc::clone(&group.end);
        let part = if group.is_full() {
            let leader = group.leader.take();
            group.members.extend(leader);
            chain.open.take().map_or(Part::Waits, Part::Closes)
        } else if is_first {
            group.leader = Some(task::current());
            Part::Leads
        } else {
            group.members.push(task::current());
            Part::Waits
        };
        Some((Member { end, part }, added))
    }

    /// Takes the open group if it is the one with that end.
    pub(super) fn take(&self, end: &Arc<End>) -> Option<Box<Group>> {
        self.own().lock().open.take_if(|group| Arc::ptr_eq(&group.end, end))
    }

    /// The group is over: passes its locks on to later groups that have marked them, and releases
    /// the others.
    fn end(&self, group: &mut Group, locks: &KeyLocks) {
        let mut chain = self.0[group.number as usize % CHAINS].lock();
        chain.over = group.number;
        let later = chain.living();
        let free = group.locks.drain(..).filter(|&number| !locks.is_of(number, later));
        free.for_each(|number| locks.release(number));
        drop(chain);
        group.end.next.release(1);
    }
}

/// A group that is carried out; invariant 2.
pub(super) struct Closed<'k> {
    keyspace: &'k Keyspace,
    group: Box<Group>,
    is_over: bool,
}

impl Closed<'_> {
    pub(super) fn new(keyspace: &Keyspace, group: Box<Group>) -> Closed<'_> {
        Closed { keyspace, group, is_over: false }
    }

    pub(super) fn group(&mut self) -> &mut Group {
        &mut self.group
    }

    /// Waits until the group before it is over.
    pub(super) fn wait_for_turn(&mut self) {
        if let Some(before) = self.group.before.take() {
            before.next.acquire(1);
        }
    }

    /// Gives up its locks, once.
    pub(super) fn unlock(&mut self) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        let locks = &self.keyspace.locks;
        match self.group.number {
            0 => self.group.locks.drain(..).for_each(|number| locks.release(number)),
            _ => self.keyspace.chains.end(&mut self.group, locks),
        }
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.wait_for_turn();
        self.unlock();
        let written = Err(pumice::Error::aborted("A write panicked"));
        self.group.end.ended.get_or_init(|| Ended { written, left: Vec::new() });
        task::unpark_all(std::mem::take(&mut self.group.members));
    }
}
