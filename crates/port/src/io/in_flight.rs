//! The table of operations in flight: which task waits for which operation, over any ring.
//!
//! An operation has a slot from its request until its owner has taken the result. The operations of
//! one call form a group; the owner is woken once, when the last of them has completed. This file
//! does not depend on the kernel: the rings are io_uring, a pool of threads, and the simulated ring
//! of the model, so the same code is what the model tests.
//!
//! Invariants:
//! 1. A slot is given out again only after the completion of its operation has been seen: until
//!    then the kernel may use the operation's buffer and will report its number.
//! 2. `user_data` of an operation is its slot with the slot's generation, which grows whenever the
//!    slot is given back: a completion that names an older generation is counted and ignored.
//! 3. Every operation whose slot is busy is in exactly one place: the backlog, or the ring.
//! 4. `left` of a group's first slot is the number of its operations that have not completed.
//! 5. `order` of a busy slot is the number of requests that went to the ring before its own, or
//!    `NOT_SENT`. A ring takes requests in order, so it has taken those whose order is below the
//!    number of requests minus those still queued.
//!
//! If a group's first operation reports short completions ([`Call::whole`]), its owner is woken by
//! one too: [`InFlight::is_short`] tells.
//!
//! An operation of a series ([`Call::Accept`]) completes many times: its results wait in its slot
//! until its owner, woken by each, takes them with [`InFlight::next`]; the last completion ends it
//! like any operation. Results that are not taken are released (`op::discard`).
//!
//! A ring may fail for good, as io_uring does when a sandbox begins to refuse it. Then
//! [`InFlight::give_up`] ends every operation: those the ring had not taken yet as interrupted, so
//! that their callers repeat them; those it had taken with the error, because it is unknown whether
//! they were done. [`InFlight::over`] continues with the same slots over another ring.
//!
//! Thread safety: none, it belongs to one thread. Waking is [`TaskRef::unpark`], from that thread.

use super::op::{self, Call};
use crate::task::TaskRef;
use pumice_base::planted::{self, Bug};
use std::collections::VecDeque;
use std::io;

/// The number under which a ring reports that it was kicked.
pub(crate) const KICK: u64 = u64::MAX;
/// The number under which a ring reports completions that are ignored.
const IGNORED: u64 = u64::MAX - 1;

/// A request to a ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) user_data: u64,
    pub(crate) what: What,
}

/// What a request is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    /// An operation with an owner.
    Call(Call),
    /// Cancel the operation with this number, if it can still be cancelled.
    Cancel(u64),
    /// Report each kick of this eventfd, under [`KICK`], again and again.
    Kicks(i32),
}

/// What a ring reports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    pub(crate) user_data: u64,
    /// As a system call, errors negative.
    pub(crate) result: i32,
    /// The same request will report more.
    pub(crate) more: bool,
}

/// This many queued requests, at least one of them for a file, are submitted before the turn of the
/// loop ends, so that the device has work while the other fibers of the turn run. Those for sockets
/// alone are submitted all at once. Measured once, on a busy machine: 64 fibers on 2 loops read 4
/// to 10 % more per second than with submission at the end only, for up to 5 % more processor time.
pub(crate) const SUBMIT_AT: usize = 4;

/// How long `Uring::submit` may wait for a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    No,
    /// Until this time of the monotonic clock, in nanoseconds.
    Until(u64),
    /// As long as it takes.
    Forever,
    /// As long as it takes, and no kick need end it.
    Completion,
}

/// A queue of requests to something that performs them in its own time and order.
pub(crate) trait Uring {
    /// Queues a request; false when the queue is full.
    fn push(&mut self, request: &Request) -> bool;
    /// Requests queued and not yet taken.
    fn queued(&self) -> usize;
    /// Whether entering the kernel, or reaping, would make progress now.
    fn is_ready(&self) -> bool;
    /// Whether only entering the kernel tells if there are completions; called once per turn of the
    /// loop.
    fn must_look(&self) -> bool {
        false
    }
    /// Hands over queued requests, perhaps not all, and waits for a completion that can be reaped.
    /// May return spuriously. An error concerns the ring, never a request: it has failed for good.
    fn submit(&mut self, wait: Wait) -> io::Result<()>;
    /// The next completion.
    fn reap(&mut self) -> Option<Completion>;
    /// The request for kicks has ended with an error: from now on the ring must see them by itself.
    fn kicks_refused(&mut self) {}
    /// Ends a ring that has failed. With `is_used` it has taken requests that did not complete:
    /// then it returns when their buffers are no longer in use.
    fn close(&mut self, is_used: bool);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Free,
    Busy,
    Done,
}

const NONE: u32 = u32::MAX;
/// The order of an operation that waits in the backlog.
const NOT_SENT: u64 = u64::MAX;

struct Slot {
    generation: u32,
    phase: Phase,
    result: i32,
    /// The group's first slot.
    head: u32,
    /// The next slot of the group, or of the free list.
    next: u32,
    /// Invariant 4.
    left: u32,
    /// Invariant 5.
    order: u64,
    /// [`Call::whole`].
    whole: Option<i32>,
    /// In a group's first slot: the task to wake.
    owner: Option<TaskRef>,
    /// For an operation that completes many times.
    series: Option<Box<Series>>,
}

impl Slot {
    /// Whether the operation, which has completed, did less than the whole.
    #[inline]
    fn is_short(&self) -> bool {
        self.whole.is_some_and(|whole| self.result != whole)
    }
}

/// The results of an operation that completes many times.
struct Series {
    call: Call,
    results: VecDeque<i32>,
    /// The series's results are no longer taken.
    is_abandoned: bool,
}

/// A group of operations that was begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    head: u32,
    generation: u32,
}

/// Counters since the ring was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoStats {
    /// Operations requested.
    pub operations: u64,
    /// Requests handed to the ring, cancellations included.
    pub requests: u64,
    /// Calls into the ring to submit or wait.
    pub enters: u64,
    /// Completions of operations.
    pub completions: u64,
    /// Kicks seen.
    pub kicks: u64,
    /// Times an operation had to wait for space in the ring's queue.
    pub queue_full: u64,
    /// Completions that named no operation in flight. Always 0 with a correct ring.
    pub stale: u64,
}

/// See the head of this file.
pub(crate) struct InFlight<R: Uring> {
    ring: R,
    slots: Vec<Slot>,
    free: u32,
    /// Requests that found the ring's queue full, oldest first.
    backlog: VecDeque<Request>,
    inflight: usize,
    /// The eventfd whose kicks the ring reports; when the ring stops, it is requested again.
    kicks: Option<i32>,
    /// The errno with which the ring has failed.
    failed: Option<i32>,
    stats: IoStats,
}

impl<R: Uring> InFlight<R> {
    /// A table over `ring`, which also reports kicks of the eventfd.
    pub(crate) fn new(ring: R, kicks: Option<i32>) -> Self {
        let stats = IoStats::default();
        let (slots, backlog) = (Vec::new(), VecDeque::new());
        let (free, inflight, failed) = (NONE, 0, None);
        let mut new = InFlight { ring, slots, free, backlog, inflight, kicks, failed, stats };
        new.listen_for_kicks();
        new
    }

    /// The table of a ring that was abandoned, over another ring.
    pub(crate) fn over<S: Uring>(ring: R, old: &mut InFlight<S>) -> Self {
        debug_assert_eq!(old.inflight, 0, "the old ring was given up");
        let mut new = InFlight::new(ring, None);
        new.slots = std::mem::take(&mut old.slots);
        new.free = std::mem::replace(&mut old.free, NONE);
        new.stats = old.stats;
        new
    }

    fn listen_for_kicks(&mut self) {
        if let Some(fd) = self.kicks {
            self.push(Request { user_data: KICK, what: What::Kicks(fd) });
        }
    }

    /// Requests the operations, at least one; `owner` is woken when all have completed.
    pub(crate) fn begin(
        &mut self,
        calls: impl Iterator<Item = Call>,
        owner: Option<TaskRef>,
    ) -> Group {
        let mut head = NONE;
        let mut last = NONE;
        let mut is_for_file = false;
        for call in calls {
            is_for_file |= !call.is_for_socket();
            let index = self.take_slot();
            if head == NONE {
                head = index;
                self.slots[index as usize].owner = owner;
            } else {
                self.slots[last as usize].next = index;
            }
            last = index;
            self.slots[index as usize].head = head;
            self.slots[head as usize].left += 1;
            self.inflight += 1;
            self.stats.operations += 1;
            let user_data = self.user_data(index);
            self.slots[index as usize].order = self.stats.requests;
            self.slots[index as usize].whole = call.whole();
            if let Call::Accept { .. } = call {
                let (results, is_abandoned) = (VecDeque::new(), false);
                let series = Series { call, results, is_abandoned };
                self.slots[index as usize].series = Some(Box::new(series));
            }
            self.push(Request { user_data, what: What::Call(call) });
        }
        debug_assert!(head != NONE, "a group has operations");
        // Without an owner it is a plain thread, which waits in the next call.
        if owner.is_some() && is_for_file && self.ring.queued() >= SUBMIT_AT {
            self.enter(Wait::No);
        }
        Group { head, generation: self.slots[head as usize].generation }
    }

    /// Whether all operations of the group have completed.
    #[inline]
    pub(crate) fn is_done(&self, group: Group) -> bool {
        let head = &self.slots[group.head as usize];
        debug_assert_eq!(head.generation, group.generation, "a group is finished once");
        head.left == 0
    }

    /// Whether the group's first operation has completed short.
    #[inline]
    pub(crate) fn is_short(&self, group: Group) -> bool {
        let head = &self.slots[group.head as usize];
        head.phase == Phase::Done && head.is_short()
    }

    /// Ends a group that is done: `take` gets each operation's place in the group and its result.
    pub(crate) fn finish(&mut self, group: Group, mut take: impl FnMut(usize, i32)) {
        debug_assert!(self.is_done(group));
        let mut index = group.head;
        let mut place = 0;
        while index != NONE {
            let next = self.slots[index as usize].next;
            take(place, self.slots[index as usize].result);
            self.give_back(index);
            (index, place) = (next, place + 1);
        }
    }

    /// The oldest result of a series that was not taken; `owner` is woken by the next one.
    pub(crate) fn next(&mut self, group: Group, owner: Option<TaskRef>) -> Option<i32> {
        let slot = &mut self.slots[group.head as usize];
        slot.owner = owner;
        slot.series.as_mut()?.results.pop_front()
    }

    /// Cancels a series. Its results, present and future, are released.
    pub(crate) fn abandon(&mut self, group: Group) {
        self.cancel(group);
        while let Some(result) = self.next(group, None) {
            if let Some(series) = &self.slots[group.head as usize].series {
                op::discard(&series.call, result);
            }
        }
        match &mut self.slots[group.head as usize] {
            Slot { phase: Phase::Busy, series: Some(series), .. } => series.is_abandoned = true,
            _ => self.give_back(group.head),
        }
    }

    /// Cancels what has not completed of the group. Each operation still ends by its own
    /// completion.
    pub(crate) fn cancel(&mut self, group: Group) {
        let mut index = group.head;
        while index != NONE {
            if self.slots[index as usize].phase == Phase::Busy {
                let target = self.user_data(index);
                self.push(Request { user_data: IGNORED, what: What::Cancel(target) });
                if planted::is(Bug::BufferFreedEarly) {
                    let result = -libc::ECANCELED;
                    self.complete(Completion { user_data: target, result, more: false });
                }
            }
            index = self.slots[index as usize].next;
        }
    }

    /// Submits, waits for a completion as long as `wait` allows, and takes the completions that are
    /// there.
    pub(crate) fn poll(&mut self, wait: Wait) {
        if self.failed.is_some() {
            return;
        }
        let reaped = self.reap();
        self.refill();
        let wait = if reaped > 0 || !self.backlog.is_empty() { Wait::No } else { wait };
        let look = self.ring.is_ready() || self.ring.must_look();
        if wait != Wait::No || look || self.ring.queued() > 0 {
            self.enter(wait);
            self.reap();
            self.refill();
        }
    }

    fn enter(&mut self, wait: Wait) {
        self.stats.enters += 1;
        if let Err(e) = self.ring.submit(wait) {
            self.failed.get_or_insert(e.raw_os_error().unwrap_or(libc::EIO));
        }
    }

    /// Whether the ring has failed and must be abandoned.
    #[inline]
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Ends the ring, which has failed, and every operation; see the head of this file.
    #[cold]
    pub(crate) fn give_up(&mut self) {
        // Completed operations keep their result.
        self.reap();
        let taken = self.stats.requests - self.ring.queued() as u64;
        let busy = |slot: &Slot| slot.phase == Phase::Busy;
        let is_taken = |slot: &Slot| slot.order < taken;
        self.ring.close(self.slots.iter().any(|slot| busy(slot) && is_taken(slot)));
        self.backlog.clear();
        let errno = self.failed.unwrap_or(libc::EIO);
        for index in 0..self.slots.len() as u32 {
            let slot = &self.slots[index as usize];
            if busy(slot) {
                let result = if is_taken(slot) { -errno } else { -libc::EINTR };
                let user_data = self.user_data(index);
                self.complete(Completion { user_data, result, more: false });
            }
        }
    }

    /// Cancels everything in flight and waits for it: afterwards no buffer is in use.
    pub(crate) fn drain(&mut self) {
        for index in 0..self.slots.len() as u32 {
            if self.slots[index as usize].phase == Phase::Busy {
                let target = self.user_data(index);
                self.push(Request { user_data: IGNORED, what: What::Cancel(target) });
            }
        }
        while self.inflight > 0 && self.failed.is_none() {
            self.poll(Wait::Forever);
        }
        if self.inflight > 0 {
            self.give_up();
        }
    }

    /// Operations that have not completed.
    pub(crate) fn inflight(&self) -> usize {
        self.inflight
    }
    /// Requests the ring has not taken yet.
    pub(crate) fn pending(&self) -> usize {
        self.ring.queued() + self.backlog.len()
    }
    /// Whether a loop that has other things to do should poll at the end of its turn: otherwise
    /// operations would wait as long as fibers are runnable.
    #[inline]
    pub(crate) fn should_poll(&self) -> bool {
        self.pending() > 0 || self.ring.is_ready() || self.ring.must_look()
    }
    pub(crate) fn stats(&self) -> IoStats {
        self.stats
    }
    /// The ring, for the model that plays its kernel.
    pub(crate) fn ring_mut(&mut self) -> &mut R {
        &mut self.ring
    }

    fn user_data(&self, index: u32) -> u64 {
        u64::from(self.slots[index as usize].generation) << 32 | u64::from(index)
    }

    fn take_slot(&mut self) -> u32 {
        if self.free == NONE {
            let (generation, phase, result) = (0, Phase::Free, 0);
            let (head, next, left, order) = (NONE, NONE, 0, NOT_SENT);
            let (whole, owner, series) = (None, None, None);
            self.slots.push(Slot {
                generation,
                phase,
                result,
                head,
                next,
                left,
                order,
                whole,
                owner,
                series,
            });
            self.free = self.slots.len() as u32 - 1;
        }
        let index = self.free;
        let slot = &mut self.slots[index as usize];
        self.free = slot.next;
        (slot.phase, slot.next, slot.left) = (Phase::Busy, NONE, 0);
        index
    }

    /// Invariants 1 and 2.
    fn give_back(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        assert_eq!(slot.phase, Phase::Done, "the kernel may still use the buffer");
        // The top values are kept free for `KICK` and `IGNORED`.
        slot.generation = (slot.generation + 1) & (u32::MAX >> 1);
        (slot.phase, slot.owner, slot.next) = (Phase::Free, None, self.free);
        slot.series = None;
        self.free = index;
    }

    fn push(&mut self, request: Request) {
        if self.backlog.is_empty() && self.ring.push(&request) {
            self.stats.requests += 1;
            return;
        }
        self.push_slow(request);
    }

    /// The queue is full: the kernel takes its entries, then there is room.
    #[cold]
    fn push_slow(&mut self, request: Request) {
        self.stats.queue_full += 1;
        self.note_order(&request, NOT_SENT);
        self.backlog.push_back(request);
        self.enter(Wait::No);
        self.refill();
    }

    /// Invariant 5.
    fn note_order(&mut self, request: &Request, order: u64) {
        if let What::Call(_) = request.what {
            self.slots[request.user_data as u32 as usize].order = order;
        }
    }

    fn refill(&mut self) {
        while let Some(request) = self.backlog.front().copied() {
            if !self.ring.push(&request) && !planted::is(Bug::FullRingDropsRequest) {
                return;
            }
            self.note_order(&request, self.stats.requests);
            self.stats.requests += 1;
            self.backlog.pop_front();
        }
    }

    /// Takes the completions that are there; returns how many.
    fn reap(&mut self) -> usize {
        let mut count = 0;
        while let Some(completion) = self.ring.reap() {
            count += 1;
            match completion.user_data {
                KICK if completion.result < 0 => {
                    self.kicks = None;
                    self.ring.kicks_refused();
                }
                KICK => {
                    self.stats.kicks += 1;
                    if !completion.more {
                        self.listen_for_kicks();
                    }
                }
                IGNORED => {}
                _ => self.complete(completion),
            }
        }
        count
    }

    fn complete(&mut self, completion: Completion) {
        let index = completion.user_data as u32 as usize;
        let generation = (completion.user_data >> 32) as u32;
        let known = self.slots.get_mut(index);
        let fresh = |s: &Slot| s.generation == generation || planted::is(Bug::StaleCompletion);
        let Some(slot) = known.filter(|s| fresh(s) && s.phase == Phase::Busy) else {
            self.stats.stale += 1;
            return;
        };
        if let Some(series) = &mut slot.series {
            match completion.result {
                result if series.is_abandoned => op::discard(&series.call, result),
                result @ 0.. => series.results.push_back(result),
                _ => {}
            }
            if completion.more {
                if let Some(owner) = slot.owner {
                    owner.unpark();
                }
                return;
            }
            if series.is_abandoned {
                (slot.phase, slot.left) = (Phase::Done, 0);
                self.inflight -= 1;
                self.stats.completions += 1;
                self.give_back(index as u32);
                return;
            }
        }
        slot.phase = Phase::Done;
        slot.result = completion.result;
        let is_short = slot.is_short();
        let head = slot.head as usize;
        self.inflight -= 1;
        self.stats.completions += 1;
        let head = &mut self.slots[head];
        head.left -= 1;
        if (head.left == 0 || is_short)
            && let Some(owner) = head.owner
        {
            owner.unpark();
        }
    }
}

impl<R: Uring> Drop for InFlight<R> {
    /// Buffers are on the stacks of the waiters: none may be in use when the ring is dropped.
    fn drop(&mut self) {
        self.drain();
    }
}
