//! The ring's state word and what each thread may do next, as pure functions of one number.
//!
//! | bits | field | meaning |
//! |---|---|---|
//! | 0 to 31 | ready | per slot: compressed, and its write is not taken yet |
//! | 32 to 39 | next to write | blocks below are written |
//! | 40 to 47 | next to compress | blocks below are compressed, or being compressed |
//! | 48 to 55 | next to emit | blocks below were emitted |
//! | 56 to 60 | attached | helpers that hold a step |
//! | 61 | waiting | the emitter waits and must be woken by the thread that clears this |
//! | 62 | closed | the last block was emitted |
//! | 63 | aborted | no new steps |
//!
//! Block numbers wrap at 256, which is more than twice the slots, so a full ring differs from an
//! empty one. A block lies in slot number % slots. Where it is, by its number:
//!
//! | next to write | next to compress | ready | the block |
//! |---|---|---|---|
//! | beyond | | | is written |
//! | not beyond | not beyond | no | was emitted, or is still to be |
//! | not beyond | beyond | no | is in a thread's hands: being compressed, or, if first, written |
//! | not beyond | beyond | yes | waits for its turn to be written |
//!
//! Invariants:
//! 1. write <= compress <= emit <= write + slots, in numbers that wrap.
//! 2. A ready bit is set only for blocks from next to write up to next to compress.
//! 3. A block is held by at most one thread: a step is given out by exactly one change of the word,
//!    and given back by that thread's next one.
//! 4. An attached helper holds exactly one step; so when next to compress equals next to write no
//!    helper is attached, and when everything is written no thread holds anything.
//!
//! It knows no atomics and no waiting: that is the parent module. Thread safety: a plain value.

use super::Task;

const READY_BITS: u64 = 0xffff_ffff;
const WRITE_SHIFT: u32 = 32;
const COMPRESS_SHIFT: u32 = 40;
const EMIT_SHIFT: u32 = 48;
const ATTACHED_SHIFT: u32 = 56;
const ATTACHED_BITS: u64 = 31 << ATTACHED_SHIFT;
const WAITING: u64 = 1 << 61;
const CLOSED: u64 = 1 << 62;
const ABORTED: u64 = 1 << 63;

/// A value of the word. See the head of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct State(pub(super) u64);

/// What the emitter does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pick {
    /// This step.
    Do(Task),
    /// Wait: every remaining step is held by an attached helper.
    Wait,
    /// Everything is written.
    Finished,
}

impl State {
    pub(super) const EMPTY: State = State(0);

    #[inline]
    fn number(self, shift: u32) -> u8 {
        (self.0 >> shift) as u8
    }
    #[inline]
    fn advance(self, shift: u32) -> State {
        let next = u64::from(self.number(shift).wrapping_add(1));
        State(self.0 & !(0xff << shift) | next << shift)
    }
    #[inline]
    fn slot(self, shift: u32, slots: usize) -> usize {
        usize::from(self.number(shift)) & (slots - 1)
    }

    /// Blocks emitted and not yet written.
    #[inline]
    pub(super) fn in_flight(self) -> usize {
        usize::from(self.number(EMIT_SHIFT).wrapping_sub(self.number(WRITE_SHIFT)))
    }
    /// Blocks emitted and not taken.
    #[inline]
    pub(super) fn backlog(self) -> usize {
        usize::from(self.number(EMIT_SHIFT).wrapping_sub(self.number(COMPRESS_SHIFT)))
    }
    #[inline]
    pub(super) fn attached(self) -> usize {
        ((self.0 & ATTACHED_BITS) >> ATTACHED_SHIFT) as usize
    }
    #[inline]
    pub(super) fn is_waiting(self) -> bool {
        self.0 & WAITING != 0
    }
    #[inline]
    pub(super) fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }
    #[inline]
    pub(super) fn is_aborted(self) -> bool {
        self.0 & ABORTED != 0
    }
    #[inline]
    pub(super) fn waiting(self) -> State {
        State(self.0 | WAITING)
    }
    #[inline]
    pub(super) fn awake(self) -> State {
        State(self.0 & !WAITING)
    }
    #[inline]
    pub(super) fn closed(self) -> State {
        State(self.0 | CLOSED)
    }
    #[inline]
    pub(super) fn aborted(self) -> State {
        State(self.0 | ABORTED)
    }
    #[inline]
    pub(super) fn attach(self) -> State {
        debug_assert!(self.attached() < super::MAX_HELPERS);
        State(self.0 + (1 << ATTACHED_SHIFT))
    }
    #[inline]
    pub(super) fn detach(self) -> State {
        debug_assert!(self.attached() > 0);
        State(self.0 - (1 << ATTACHED_SHIFT))
    }

    /// Whether the first block that is not written waits for a writer.
    #[inline]
    fn first_is_ready(self, slots: usize) -> bool {
        self.0 & 1 << self.slot(WRITE_SHIFT, slots) != 0
    }
    /// Whether nothing emitted is left unwritten.
    #[inline]
    fn all_written(self) -> bool {
        self.number(WRITE_SHIFT) == self.number(EMIT_SHIFT)
    }

    /// `done` has been done.
    #[inline]
    pub(super) fn retire(self, done: Task) -> State {
        match done {
            Task::Emit(_) => self.advance(EMIT_SHIFT),
            Task::Compress(slot) => {
                debug_assert!(self.0 & 1 << slot == 0, "compressed twice");
                State(self.0 | 1 << slot)
            }
            Task::Write(_) | Task::CompressAndWrite(_) => self.advance(WRITE_SHIFT),
        }
    }

    /// Takes the write of the first block, which is ready.
    #[inline]
    fn take_write(self, slots: usize) -> (State, Task) {
        let slot = self.slot(WRITE_SHIFT, slots);
        (State(self.0 & !(1 << slot)), Task::Write(slot))
    }
    /// Takes the next block to compress, and its write as well when that block is the first.
    #[inline]
    fn take_compress(self, slots: usize) -> (State, Task) {
        let slot = self.slot(COMPRESS_SHIFT, slots);
        let first = self.number(COMPRESS_SHIFT) == self.number(WRITE_SHIFT);
        let task = if first { Task::CompressAndWrite(slot) } else { Task::Compress(slot) };
        (self.advance(COMPRESS_SHIFT), task)
    }

    /// A helper's choice: the write if there is one, since only that frees slots, otherwise the
    /// next block. `None`: there is nothing for it now.
    #[inline]
    pub(super) fn pick_for_helper(self, slots: usize) -> Option<(State, Task)> {
        if self.first_is_ready(slots) {
            return Some(self.take_write(slots));
        }
        (self.backlog() > 0).then(|| self.take_compress(slots))
    }

    /// The emitter's choice. It emits if it can; otherwise it does what only it can do now;
    /// otherwise it compresses, and writes last of all. `backlog` is this state's.
    #[inline]
    pub(super) fn pick_for_emitter(self, slots: usize, backlog: usize) -> (State, Pick) {
        if !self.is_closed() && self.in_flight() < slots {
            return (self, Pick::Do(Task::Emit(self.slot(EMIT_SHIFT, slots))));
        }
        if self.all_written() {
            return (self, Pick::Finished);
        }
        let ready = self.first_is_ready(slots);
        if backlog > 0 && !(ready && self.attached() == 0) {
            let (next, task) = self.take_compress(slots);
            return (next, Pick::Do(task));
        }
        if ready {
            let (next, task) = self.take_write(slots);
            return (next, Pick::Do(task));
        }
        (self, Pick::Wait)
    }

    /// Whether the emitter, if it waits, must be woken in this state. Free slots alone do not
    /// wake it until there are `slots / 4`, so that it does not sleep and wake for every block;
    /// the last helper that leaves wakes it in any case.
    #[inline]
    pub(super) fn should_wake(self, slots: usize) -> bool {
        if self.is_aborted() {
            return self.attached() == 0;
        }
        match self.pick_for_emitter(slots, self.backlog()).1 {
            Pick::Wait => false,
            Pick::Do(Task::Emit(_)) => {
                slots - self.in_flight() >= slots.div_ceil(4) || self.attached() == 0
            }
            Pick::Do(_) | Pick::Finished => true,
        }
    }

    /// Whether the emitter may wait in this state: the first block and all others are held by
    /// helpers, or done.
    pub(super) fn may_wait(self, slots: usize) -> bool {
        let alone = self.attached() == 0;
        let idle = self.backlog() == 0 && !self.first_is_ready(slots);
        !alone && (self.is_aborted() || idle && !self.all_written())
    }
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "write {} compress {} emit {} ready {:#x} attached {} waiting {} closed {} aborted {}",
            self.number(WRITE_SHIFT),
            self.number(COMPRESS_SHIFT),
            self.number(EMIT_SHIFT),
            self.0 & READY_BITS,
            self.attached(),
            self.is_waiting(),
            self.is_closed(),
            self.is_aborted()
        )
    }
}
