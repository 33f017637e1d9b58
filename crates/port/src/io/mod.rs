//! Input and output of fibers: each loop has a reactor, and an operation suspends only its fiber.
//!
//! | file | what |
//! |---|---|
//! | `op` | the operations, and doing them by plain system calls |
//! | `series` | one operation that brings one result after the other |
//! | `exchange` | sending and then receiving by one wait |
//! | `in_flight` | which task waits for which operation, over any ring |
//! | `uring` | the kernel's io_uring as a ring |
//! | `pool` | threads as a ring, where io_uring is refused |
//! | `sockets` | waiting for sockets by epoll, there |
//! | `arena` | buffers registered with a ring |
//! | `model` | a simulated ring that misbehaves as the kernel may, to test `in_flight` |
//! | `kernel` | which kernel has which part of io_uring |
//! | `kicker`, `cancel` | waking a sleeping loop; calling an operation off |
//!
//! Invariants:
//! 1. No call here returns before its own operations have completed, whatever wakes the task, so
//!    buffers may be on its stack.
//! 2. A reactor is used only on the thread that made it; a borrowed one is used on one thread at a
//!    time, with nothing in flight in between.
//!
//! Whatever refuses a ring when it is made (an old kernel, a sandbox, a limit), the pool of threads
//! serves. A ring that is refused later, because the process has entered a sandbox, is abandoned:
//! requests that the kernel had taken fail with the error, those it had not go to the threads, and
//! so do all later ones.
//!
//! Thread safety: `Kicker` and [`CancelToken`] are for any thread; a `Reactor` is not.

mod arena;
mod cancel;
mod in_flight;
mod kernel;
mod kicker;
#[doc(hidden)]
pub mod model;
mod op;
mod pool;
mod sockets;
mod uring;

pub(crate) use arena::PinnedBuffer;
pub use cancel::CancelToken;
pub use in_flight::{IoStats, Wait};
pub(crate) use kicker::Kicker;
pub(crate) use op::{Op, Socket, perform, wait_for};
pub(crate) use series::Series;

use crate::task::{self, WaitReason};
use in_flight::{Group, InFlight};
use pool::PoolRing;
use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use uring::KernelRing;
pub(crate) use uring::PINNED_BYTES;

static FOR_IO: WaitReason = WaitReason("input or output");
static FOR_RETRY: WaitReason = WaitReason("input or output, to try again");
/// The pause before retrying an operation for which the kernel lacked resources.
const RETRY_NANOS: u64 = 100_000;

/// What serves the operations of fibers.
///
/// ```
/// # use pumice_port::fiber::{IoMode, Runtime};
/// // Where nothing may use io_uring.
/// let runtime = Runtime::builder().loops(1).io(IoMode::Threads).build()?;
/// # runtime.run("empty", || {});
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoMode {
    /// io_uring, and threads where anything refuses it. The environment variable
    /// `PUMICE_IO=threads` makes it threads.
    #[default]
    Auto,
    /// io_uring, or an error.
    Uring,
    /// A bounded pool of threads.
    Threads,
}

enum Operations {
    Uring(InFlight<KernelRing>),
    Threads(InFlight<PoolRing>),
}

/// Does `$do` with the table of operations in flight, whichever ring it has.
macro_rules! on {
    ($reactor:expr, $operations:ident => $do:expr) => {
        match &mut *$reactor.operations.borrow_mut() {
            Operations::Uring($operations) => $do,
            Operations::Threads($operations) => $do,
        }
    };
}

mod exchange;
mod series;

/// The operations of one loop. Must be made on the loop's own thread.
pub(crate) struct Reactor {
    operations: RefCell<Operations>,
    kicker: Kicker,
}

impl Reactor {
    /// A reactor for the calling thread.
    ///
    /// # Errors
    /// No descriptors or memory; with [`IoMode::Uring`] also the error with which io_uring was
    /// refused.
    pub(crate) fn new(mode: IoMode) -> io::Result<Self> {
        Reactor::with(mode, KernelRing::new)
    }

    /// A reactor that is borrowed from thread to thread: smaller, and not bound to one thread by
    /// the kernel.
    ///
    /// # Errors
    /// No descriptors or memory.
    pub(crate) fn borrowed() -> io::Result<Self> {
        Reactor::with(IoMode::Auto, KernelRing::borrowed)
    }

    fn with(
        mode: IoMode,
        make: impl FnOnce(&Kicker) -> io::Result<KernelRing>,
    ) -> io::Result<Self> {
        let kicker = Kicker::new()?;
        let ring = match mode {
            IoMode::Uring => Some(make(&kicker)?),
            IoMode::Auto if !is_forced() => make(&kicker).ok(),
            _ => None,
        };
        let operations = match ring {
            Some(ring) => {
                let kicks = ring.reports_kicks();
                Operations::Uring(InFlight::new(ring, kicks))
            }
            None => Operations::Threads(InFlight::new(PoolRing::new(kicker.clone()), None)),
        };
        Ok(Reactor { operations: RefCell::new(operations), kicker })
    }

    /// What wakes this reactor from other threads.
    pub(crate) fn kicker(&self) -> Kicker {
        self.kicker.clone()
    }

    /// Submits what is pending, waits for a completion or a kick as long as `wait` allows, and
    /// wakes the tasks whose operations have completed. May return spuriously.
    pub(crate) fn poll(&self, wait: Wait) {
        let failed = on!(self, operations => {
            operations.poll(wait);
            operations.has_failed()
        });
        if failed {
            self.go_on_with_threads();
        }
    }

    /// The ring has failed: operations in flight end, and threads serve from now on.
    #[cold]
    fn go_on_with_threads(&self) {
        let operations = &mut *self.operations.borrow_mut();
        if let Operations::Uring(old) = operations {
            old.give_up();
            *operations =
                Operations::Threads(InFlight::over(PoolRing::new(self.kicker.clone()), old));
        }
    }

    /// Whether io_uring serves, not threads.
    pub(crate) fn has_ring(&self) -> bool {
        matches!(&*self.operations.borrow(), Operations::Uring(_))
    }

    /// Requests that have not been submitted.
    #[cfg(test)]
    pub(crate) fn pending(&self) -> usize {
        on!(self, operations => operations.pending())
    }

    /// Operations that have not completed.
    pub(crate) fn inflight(&self) -> usize {
        on!(self, operations => operations.inflight())
    }

    /// Whether a loop that has other things to do should poll at the end of its turn. Costs a few
    /// loads.
    pub(crate) fn should_poll(&self) -> bool {
        on!(self, operations => operations.should_poll())
    }

    /// A buffer of [`PINNED_BYTES`] that the ring knows; `None` when all are in use or the ring has
    /// none.
    #[inline]
    pub(crate) fn take_buffer(&self) -> Option<PinnedBuffer> {
        match &mut *self.operations.borrow_mut() {
            Operations::Uring(operations) => operations.ring_mut().take_buffer(),
            Operations::Threads(_) => None,
        }
    }

    /// Counters since it was made.
    pub(crate) fn stats(&self) -> IoStats {
        on!(self, operations => operations.stats())
    }

    /// System calls made for sockets where io_uring does not serve, waiting included.
    pub(crate) fn socket_calls(&self) -> u64 {
        match &mut *self.operations.borrow_mut() {
            Operations::Uring(_) => 0,
            Operations::Threads(operations) => operations.ring_mut().socket_calls(),
        }
    }

    /// Cancels the operations in flight and waits for them.
    #[cfg(test)]
    pub(crate) fn drain(&self) {
        on!(self, operations => operations.drain());
    }

    /// Performs the operations on the calling fiber, which this reactor's loop runs; suspends once
    /// for all. Interrupted operations are repeated.
    pub(crate) fn run_all(&self, ops: &mut [Op<'_>]) {
        if ops.is_empty() {
            return;
        }
        self.attempt(ops, Limits::default());
        while ops.iter().any(is_transient) {
            if ops.iter().any(|op| op.result == -libc::EAGAIN) {
                pause();
            }
            for op in ops.iter_mut().filter(|op| is_transient(op)) {
                self.attempt(std::slice::from_mut(op), Limits::default());
            }
        }
    }

    /// Performs one operation as [`Reactor::run_all`] does.
    pub(crate) fn run(&self, op: Op<'_>) -> io::Result<u32> {
        let mut ops = [op];
        self.run_all(&mut ops);
        ops[0].outcome()
    }

    /// As [`Reactor::run`] within limits. When a limit is reached first, the operation is cancelled
    /// and the error is TimedOut, or Interrupted for a cancelled token, unless it completed anyway.
    pub(crate) fn run_within(&self, op: Op<'_>, limits: Limits<'_>) -> io::Result<u32> {
        let mut ops = [op];
        loop {
            self.attempt(&mut ops, limits);
            match -ops[0].result {
                libc::EINTR if !limits.reached() => {}
                libc::EAGAIN if !limits.reached() => pause(),
                libc::ECANCELED | libc::EINTR | libc::EAGAIN if limits.reached() => {
                    return Err(limits.error());
                }
                _ => return ops[0].outcome(),
            }
        }
    }

    /// Asks for the operations and waits until all have completed (invariant 1).
    fn attempt(&self, ops: &mut [Op<'_>], limits: Limits<'_>) {
        if std::thread::panicking() {
            // A fiber that unwinds must not switch, and its loop, being this thread, could not
            // reap: the thread performs it by itself.
            for op in ops {
                op.result = perform(&op.call);
            }
            return;
        }
        let task = task::current();
        let group =
            on!(self, operations => operations.begin(ops.iter().map(|op| op.call), Some(task)));
        let armed = limits.token.is_none_or(|token| token.arm(task));
        let mut called_off = false;
        while !self.is_done(group) {
            if !called_off && (!armed || limits.reached()) {
                called_off = true;
                on!(self, operations => operations.cancel(group));
            }
            let deadline = if called_off { None } else { limits.deadline };
            task::park_until(&FOR_IO, deadline);
        }
        if let Some(token) = limits.token {
            token.disarm(task);
        }
        self.finish(group, ops);
    }

    /// Performs the operations on the calling thread, which is not a fiber, all at once.
    pub(crate) fn run_all_here(&self, ops: &mut [Op<'_>]) {
        let mut rest: &mut [Op<'_>] = ops;
        while !rest.is_empty() {
            let group =
                on!(self, operations => operations.begin(rest.iter().map(|op| op.call), None));
            while !self.is_done(group) {
                self.poll(Wait::Completion);
            }
            self.finish(group, rest);
            // Repeating the interrupted operation and those after it is rare and harmless.
            let again = rest.iter().position(is_transient).unwrap_or(rest.len());
            rest = &mut rest[again..];
        }
    }

    fn is_done(&self, group: Group) -> bool {
        on!(self, operations => operations.is_done(group))
    }

    fn finish(&self, group: Group, ops: &mut [Op<'_>]) {
        on!(self, operations => {
            operations.finish(group, |place, result| ops[place].result = result)
        });
    }
}

/// What ends the wait for an operation early.
#[derive(Clone, Copy, Default)]
pub(crate) struct Limits<'a> {
    /// A time of the monotonic clock, in nanoseconds.
    pub(crate) deadline: Option<u64>,
    pub(crate) token: Option<&'a CancelToken>,
}

impl Limits<'_> {
    fn reached(&self) -> bool {
        self.is_cancelled() || self.deadline.is_some_and(|d| crate::time::monotonic_nanos() >= d)
    }
    fn is_cancelled(&self) -> bool {
        self.token.is_some_and(CancelToken::is_cancelled)
    }
    fn error(&self) -> io::Error {
        let cancelled = self.is_cancelled();
        if cancelled { io::ErrorKind::Interrupted } else { io::ErrorKind::TimedOut }.into()
    }
}

fn is_transient(op: &Op<'_>) -> bool {
    matches!(-op.result, libc::EINTR | libc::EAGAIN)
}

fn pause() {
    task::park_until(&FOR_RETRY, Some(crate::time::monotonic_nanos() + RETRY_NANOS));
}

/// The program wants no io_uring.
static WITHOUT_URING: AtomicBool = AtomicBool::new(false);

/// From now on nothing of the process that is made with [`IoMode::Auto`] uses io_uring, as with the
/// environment variable `PUMICE_IO=threads`. For the beginning of a program.
///
/// ```
/// pumice_port::fiber::leave_out_io_uring();
/// ```
pub fn leave_out_io_uring() {
    WITHOUT_URING.store(true, Ordering::Relaxed);
}

/// Whether the program or the environment asks for threads in place of io_uring.
fn is_forced() -> bool {
    WITHOUT_URING.load(Ordering::Relaxed)
        || std::env::var_os("PUMICE_IO").is_some_and(|value| value == "threads")
}

/// Performs an operation on the calling fiber, suspending it; `None` when the caller is not a fiber
/// of a loop; then nothing was done.
pub(crate) fn run(op: Op<'_>) -> Option<io::Result<u32>> {
    crate::fiber::with_reactor(|reactor| reactor.run(op))
}

/// As [`run`] for many operations with one wait; false when the caller is not a fiber of a loop.
pub(crate) fn run_all(ops: &mut [Op<'_>]) -> bool {
    crate::fiber::with_reactor(|reactor| reactor.run_all(ops)).is_some()
}

#[cfg(test)]
mod tests;
