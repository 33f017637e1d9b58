//! The kernel's io_uring as a [`Uring`].
//!
//! A loop's ring belongs to the thread that made it (SINGLE_ISSUER), and its completions are
//! processed when that thread enters the kernel (DEFER_TASKRUN), so that nothing interrupts a
//! fiber. A ring that is borrowed (`fiber::borrowed`) goes from thread to thread and has neither.
//! What older kernels lack has a fallback (`kernel`); a ring that cannot serve is refused when it
//! is made.
//!
//! | `Waits` | sleeps in | a kick is | for |
//! |---|---|---|---|
//! | `InRing` | io_uring_enter | a completion of a poll that repeats | rings of loops |
//! | `InPoll` | ppoll(2) of ring and eventfd | seen by that | borrowed rings; kernels before 5.13 |
//!
//! Invariants cited by unsafe blocks:
//! 1. Buffers of requests live until their completion was reaped (`op.rs`, invariant 1), or until
//!    `close` has returned.
//! 2. The ring is used through `&mut self` only, so there is one submission and one completion
//!    queue at a time.
//! 3. The arena lives as long as the ring.
//!
//! Thread safety: none; to be used on one thread at a time, and on one thread only unless it is
//! borrowed. A borrowed ring has nothing in flight between two threads. Completions are never lost:
//! when the queue is full, the kernel keeps them until there is room (FEAT_NODROP, required).

use super::arena::{Arena, PinnedBuffer};
use super::in_flight::{Completion, KICK, Request, Uring, Wait, What};
use super::kernel::{self, Part};
use super::kicker::Kicker;
use super::op::{self, Call};
use crate::machine::{self, Resource};
use crate::time;
use io_uring::{IoUring, Probe, cqueue, opcode, squeue, types};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

/// Requests that can be queued before the kernel must take them.
const QUEUE_ENTRIES: u32 = 512;
/// The same for a ring that is borrowed.
const BORROWED_ENTRIES: u32 = 64;
/// How many times more completions than requests fit before the kernel must keep them aside.
const COMPLETIONS_PER_ENTRY: u32 = 4;
/// Threads of the kernel for operations that cannot be done without blocking (fsync): the bounded
/// kind is limited, the other (sockets) is left as it is. The limit holds for all rings of the
/// thread, so a borrowed ring does not set it.
const WORKERS_MAX: [u32; 2] = [4, 0];

/// IORING_RECVSEND_POLL_FIRST: a receive that would find nothing is not tried before it waits.
const POLL_FIRST: u16 = 1;

/// The size of a ring's registered buffers: enough for a data block of the usual size at any
/// alignment.
pub(crate) const PINNED_BYTES: usize = 16 << 10;
/// How many of them a ring registers: 2 MiB, and 512 KiB for a ring that is borrowed.
const PINNED: usize = 128;
const BORROWED_PINNED: usize = 32;

/// The buffers a ring knows.
enum Pinned {
    /// None was requested yet; there will be this many.
    Untried(usize),
    /// The limit of locked memory, or the kernel, does not allow it.
    Refused,
    Registered(Arc<Arena>),
}

/// How a ring sleeps; see the head of this file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waits {
    InRing,
    InPoll,
}

/// See the head of this file.
pub(crate) struct KernelRing {
    /// None once it was closed.
    ring: Option<IoUring>,
    pinned: Pinned,
    waits: Waits,
    /// The kernel knows [`POLL_FIRST`].
    polls_first: bool,
    kicker: Kicker,
    /// A kick was seen by poll(2) and not yet reported.
    kicked: bool,
    release: Release,
}

impl KernelRing {
    /// A ring of the calling thread, kicked by `kicker`.
    ///
    /// # Errors
    /// Whatever refuses it; ENOSYS when the kernel lacks a part that cannot be done without.
    pub(crate) fn new(kicker: &Kicker) -> io::Result<Self> {
        KernelRing::with_entries(kicker, QUEUE_ENTRIES)
    }

    /// As [`KernelRing::new`] with room for `entries` requests, for tests of full queues.
    pub(super) fn with_entries(kicker: &Kicker, entries: u32) -> io::Result<Self> {
        let ring = build(entries, &kernel::OWN_FLAGS)?;
        if register(Part::WorkersMax).is_ok() {
            let mut limits = WORKERS_MAX;
            // A kernel without the call has its own limit.
            drop(ring.submitter().register_iowq_max_workers(&mut limits));
        }
        KernelRing::accept(ring, kicker, Waits::InRing, PINNED)
    }

    /// A small ring for one thread after another.
    ///
    /// # Errors
    /// As [`KernelRing::new`].
    pub(crate) fn borrowed(kicker: &Kicker) -> io::Result<Self> {
        let ring = build(BORROWED_ENTRIES, &kernel::BORROWED_FLAGS)?;
        KernelRing::accept(ring, kicker, Waits::InPoll, BORROWED_PINNED)
    }

    fn accept(ring: IoUring, kicker: &Kicker, waits: Waits, pinned: usize) -> io::Result<Self> {
        let params = ring.params();
        if !params.is_feature_nodrop() || kernel::is_missing(Part::NoDrop) {
            return Err(missing());
        }
        let waits = match params.is_feature_ext_arg() && !kernel::is_missing(Part::ExtArg) {
            true => waits,
            false => Waits::InPoll,
        };
        demand_operations(&ring)?;
        let release = Release::of(&ring)?;
        // There is no way to ask; a kernel with the flag that came next has it.
        let polls_first =
            ring.params().is_setup_single_issuer() && !kernel::is_missing(Part::PollFirst);
        let mut new = KernelRing {
            ring: Some(ring),
            pinned: Pinned::Untried(pinned),
            waits,
            polls_first,
            kicker: kicker.clone(),
            kicked: false,
            release,
        };
        new.greet()?;
        Ok(new)
    }

    /// Runs a no-op to completion, because a sandbox may allow setting up a ring and refuse
    /// entering it.
    fn greet(&mut self) -> io::Result<()> {
        const GREETING: u64 = 1;
        let ring = self.ring.as_mut().ok_or_else(missing)?;
        // SAFETY: a no-op has no buffer; invariant 2.
        let pushed =
            unsafe { ring.submission().push(&opcode::Nop::new().build().user_data(GREETING)) };
        pushed.map_err(|_| missing())?;
        loop {
            machine::ask(Resource::RingEnter)?;
            match ring.submitter().submit_and_wait(1) {
                Err(e) if e.raw_os_error() == Some(libc::EINTR) => {}
                Err(e) => return Err(e),
                Ok(_) => break,
            }
        }
        let answer = ring.completion().next();
        let good = answer.is_some_and(|a| (a.user_data(), a.result()) == (GREETING, 0));
        if good { Ok(()) } else { Err(missing()) }
    }

    /// The eventfd whose kicks the ring is to report; None when it sees them by itself.
    pub(super) fn reports_kicks(&self) -> Option<i32> {
        (self.waits == Waits::InRing).then(|| self.kicker.fd())
    }

    /// A registered buffer.
    #[inline]
    pub(super) fn take_buffer(&mut self) -> Option<PinnedBuffer> {
        if let Pinned::Untried(count) = self.pinned {
            self.register_buffers(count);
        }
        match &self.pinned {
            Pinned::Registered(arena) => arena.take(),
            _ => None,
        }
    }

    /// Tells the kernel about an arena, which pins its pages once.
    #[cold]
    fn register_buffers(&mut self, count: usize) {
        self.pinned = Pinned::Refused;
        let Some(ring) = &self.ring else { return };
        if register(Part::RegisterBuffers).is_err() || kernel::is_missing(Part::ReadFixed) {
            return;
        }
        let arena = Arena::new(count, PINNED_BYTES);
        let vector = libc::iovec { iov_base: arena.start().cast(), iov_len: arena.len() };
        // SAFETY: invariant 3.
        if unsafe { ring.submitter().register_buffers(&[vector]) }.is_ok() {
            self.pinned = Pinned::Registered(arena);
        }
    }

    /// Submits, then sleeps in poll(2) until a completion, a kick or the deadline.
    fn submit_and_poll(&mut self, deadline: Option<u64>) -> io::Result<()> {
        let Some(ring) = &self.ring else { return Ok(()) };
        taken(ring.submitter().submit())?;
        if self.is_ready() || self.queued() > 0 {
            return Ok(());
        }
        let slot = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut slots = [slot(ring.as_raw_fd()), slot(self.kicker.fd())];
        let nanos = deadline.map(|deadline| deadline.saturating_sub(time::monotonic_nanos()));
        if op::poll_all(&mut slots, nanos) > 0 && slots[1].revents != 0 {
            self.kicker.clear();
            self.kicked = true;
        }
        Ok(())
    }
}

/// The error when an indispensable part is missing.
fn missing() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOSYS)
}

/// The result of entering the kernel. Not errors: the time is up; a signal came; completions must
/// be reaped first; temporarily out of memory. Requests that were not taken stay queued.
fn taken(entered: io::Result<usize>) -> io::Result<()> {
    match entered {
        Ok(_) => Ok(()),
        Err(e) => match e.raw_os_error() {
            Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
            _ => Err(e),
        },
    }
}

/// Called before a registration.
fn register(part: Part) -> io::Result<()> {
    machine::ask(Resource::RingRegister)?;
    if kernel::is_missing(part) { Err(io::Error::from_raw_os_error(libc::EINVAL)) } else { Ok(()) }
}

/// A ring with as many of the flags as the kernel supports.
fn build(entries: u32, flags: &[&[Part]]) -> io::Result<IoUring> {
    let mut refused = missing();
    for flags in flags {
        match build_with(entries, flags) {
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => refused = e,
            result => return result,
        }
    }
    Err(refused)
}

fn build_with(entries: u32, flags: &[Part]) -> io::Result<IoUring> {
    for resource in [Resource::RingSetup, Resource::Descriptor, Resource::AddressSpace] {
        machine::ask(resource)?;
    }
    if flags.iter().any(|flag| kernel::is_missing(*flag)) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let mut builder = IoUring::builder();
    for flag in flags {
        match flag {
            Part::CompletionSize => builder.setup_cqsize(COMPLETIONS_PER_ENTRY * entries),
            Part::SubmitAll => builder.setup_submit_all(),
            Part::CoopTaskrun => builder.setup_coop_taskrun(),
            Part::TaskrunFlag => builder.setup_taskrun_flag(),
            Part::SingleIssuer => builder.setup_single_issuer(),
            Part::DeferTaskrun => builder.setup_defer_taskrun(),
            Part::NoSubmissionArray => builder.setup_no_sqarray(),
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        };
    }
    builder.dontfork().build(entries)
}

/// The kernel must support the operations that have no substitute.
fn demand_operations(ring: &IoUring) -> io::Result<()> {
    let operations = [
        (Part::Nop, opcode::Nop::CODE),
        (Part::Read, opcode::Read::CODE),
        (Part::Write, opcode::Write::CODE),
        (Part::Fsync, opcode::Fsync::CODE),
        (Part::Receive, opcode::Recv::CODE),
        (Part::Send, opcode::Send::CODE),
        (Part::PollAdd, opcode::PollAdd::CODE),
        (Part::AsyncCancel, opcode::AsyncCancel::CODE),
    ];
    register(Part::Probe)?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    let known = |(part, code): &(Part, u8)| probe.is_supported(*code) && !kernel::is_missing(*part);
    if operations.iter().all(known) { Ok(()) } else { Err(missing()) }
}

/// Tells when the kernel is done with a closed ring, which it does in its own time: the ring holds
/// the only writing end of a pipe.
struct Release(OwnedFd);

impl Release {
    fn of(ring: &IoUring) -> io::Result<Self> {
        machine::ask(Resource::Descriptor)?;
        let mut ends = [-1; 2];
        // SAFETY: the kernel writes two numbers to a live array.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: two new descriptors without another owner.
        let [reads, writes] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        register(Part::RegisterFiles)?;
        ring.submitter().register_files(&[writes.as_raw_fd()])?;
        Ok(Release(reads))
    }

    /// Waits until the ring is gone, and with it every request.
    fn wait(&self) {
        while !matches!(op::wait_for(self.0.as_raw_fd(), 0, None), Ok(events) if events != 0) {}
    }
}

fn entry(request: &Request) -> squeue::Entry {
    let entry = match request.what {
        What::Call(call) => entry_of(call),
        What::Cancel(target) => opcode::AsyncCancel::new(target).build(),
        What::Kicks(_) if kernel::is_missing(Part::MultishotPoll) => refused(),
        What::Kicks(fd) => {
            opcode::PollAdd::new(types::Fd(fd), libc::POLLIN as u32).multi(true).build()
        }
    };
    entry.user_data(request.user_data)
}

#[inline]
fn entry_of(call: Call) -> squeue::Entry {
    match call {
        Call::Read { fd, buf, bytes, offset } => {
            opcode::Read::new(types::Fd(fd), buf, bytes).offset(offset).build()
        }
        Call::Write { fd, buf, bytes, offset } => {
            opcode::Write::new(types::Fd(fd), buf, bytes).offset(offset).build()
        }
        Call::Sync { fd, all } => {
            let flags = if all { types::FsyncFlags::empty() } else { types::FsyncFlags::DATASYNC };
            opcode::Fsync::new(types::Fd(fd)).flags(flags).build()
        }
        Call::Receive { socket, buf, bytes, .. } => {
            opcode::Recv::new(types::Fd(socket.fd), buf, bytes).build()
        }
        Call::Send { socket, buf, bytes, waits } => {
            let send = opcode::Send::new(types::Fd(socket.fd), buf, bytes);
            send.flags(op::send_flags(waits)).build()
        }
        Call::Poll { socket, events } => {
            opcode::PollAdd::new(types::Fd(socket.fd), u32::from(events as u16)).build()
        }
        Call::Accept { .. } if kernel::is_missing(Part::MultishotAccept) => refused(),
        Call::Accept { socket } => {
            let accept = opcode::AcceptMulti::new(types::Fd(socket.fd));
            accept.flags(libc::SOCK_CLOEXEC).build()
        }
    }
}

/// A request that fails, as on kernels that do not support repeating it.
fn refused() -> squeue::Entry {
    let unknown = types::FsyncFlags::from_bits_retain(1 << 31);
    opcode::Fsync::new(types::Fd(-1)).flags(unknown).build()
}

impl Uring for KernelRing {
    fn push(&mut self, request: &Request) -> bool {
        let entry = match (request.what, &self.pinned) {
            (What::Call(Call::Read { fd, buf, bytes, offset }), Pinned::Registered(arena))
                if arena.contains(buf, bytes) =>
            {
                opcode::ReadFixed::new(types::Fd(fd), buf, bytes, 0)
                    .offset(offset)
                    .build()
                    .user_data(request.user_data)
            }
            (What::Call(Call::Receive { socket, buf, bytes, later: true }), _)
                if self.polls_first =>
            {
                opcode::Recv::new(types::Fd(socket.fd), buf, bytes)
                    .ioprio(POLL_FIRST)
                    .build()
                    .user_data(request.user_data)
            }
            _ => entry(request),
        };
        let Some(ring) = &mut self.ring else { return false };
        // SAFETY: invariants 1 and 2.
        unsafe { ring.submission().push(&entry) }.is_ok()
    }

    fn queued(&self) -> usize {
        // SAFETY: invariant 2: no other queue is borrowed while `self` is.
        self.ring.as_ref().map_or(0, |ring| unsafe { ring.submission_shared() }.len())
    }

    fn is_ready(&self) -> bool {
        let Some(ring) = &self.ring else { return false };
        // SAFETY: invariant 2, as above, for both queues.
        let (queue, completions) = unsafe { (ring.submission_shared(), ring.completion_shared()) };
        queue.taskrun() || queue.cq_overflow() || !completions.is_empty()
    }

    fn submit(&mut self, wait: Wait) -> io::Result<()> {
        machine::ask(Resource::RingEnter)?;
        let Some(ring) = &self.ring else { return Ok(()) };
        let submitter = ring.submitter();
        let result = match wait {
            Wait::No => submitter.submit(),
            Wait::Completion => submitter.submit_and_wait(1),
            Wait::Forever if self.waits == Waits::InRing => submitter.submit_and_wait(1),
            Wait::Until(deadline) if self.waits == Waits::InRing => {
                let nanos = deadline.saturating_sub(time::monotonic_nanos());
                let limit = types::Timespec::new()
                    .sec(nanos / 1_000_000_000)
                    .nsec((nanos % 1_000_000_000) as u32);
                submitter.submit_with_args(1, &types::SubmitArgs::new().timespec(&limit))
            }
            Wait::Forever => return self.submit_and_poll(None),
            Wait::Until(deadline) => return self.submit_and_poll(Some(deadline)),
        };
        taken(result)
    }

    fn reap(&mut self) -> Option<Completion> {
        if self.kicked {
            self.kicked = false;
            return Some(Completion { user_data: KICK, result: 0, more: true });
        }
        let entry = self.ring.as_mut()?.completion().next()?;
        let user_data = entry.user_data();
        let more = cqueue::more(entry.flags());
        Some(Completion { user_data, result: entry.result(), more })
    }

    fn kicks_refused(&mut self) {
        self.waits = Waits::InPoll;
    }

    fn close(&mut self, is_used: bool) {
        // The queues are unmapped and the descriptor closed: the kernel ends what it can.
        let closed = self.ring.take().is_some();
        if closed && is_used {
            self.release.wait();
        }
    }
}
