//! The kernel's io_uring as a [`Uring`].
//!
//! The ring belongs to the thread that made it (SINGLE_ISSUER), and its completions are worked off
//! when that thread enters the kernel (DEFER_TASKRUN), so that nothing interrupts a fiber. Kernels
//! that lack a flag get a ring without it.
//!
//! Invariants cited by unsafe blocks:
//! 1. Buffers of requests live until their completion was reaped (`op.rs`, invariant 1).
//! 2. The ring is used through `&mut self` only, so there is one submission and one completion
//!    queue at a time.
//!
//! 3. The arena lives as long as the ring.
//!
//! Thread safety: none; to be made and used on one thread. Completions never get lost: the kernel
//! keeps those that find the queue full (FEAT_NODROP, required) until there is room.

use super::arena::{Arena, PinnedBuffer};
use super::op::Call;
use super::tickets::{Completion, KICK, Request, Uring, Wait, What};
use crate::time;
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use std::io;
use std::sync::Arc;

/// Requests that can be queued before the kernel must take them.
const QUEUE_ENTRIES: u32 = 512;
/// Completions the kernel can report before it must keep them aside.
const COMPLETION_ENTRIES: u32 = 4 * QUEUE_ENTRIES;
/// Threads of the kernel for operations that cannot be done without blocking (fsync): the bounded
/// kind is limited, the other (sockets) is left as it is.
const WORKERS_MAX: [u32; 2] = [4, 0];

/// The size of the buffers that a ring knows beforehand: a data block of the usual size wherever
/// it begins.
pub(crate) const PINNED_BYTES: usize = 16 << 10;

/// The buffers a ring knows.
enum Pinned {
    /// Nobody has asked for one.
    Untried,
    /// The limit of locked memory, or the kernel, does not allow it.
    Refused,
    Registered(Arc<Arena>),
}

/// See the head of this file.
pub(crate) struct KernelRing {
    ring: IoUring,
    pinned: Pinned,
}

/// Which optional properties a ring gets.
#[derive(Clone, Copy)]
struct Features {
    no_array: bool,
    deferred: bool,
    cooperative: bool,
}

impl KernelRing {
    /// A ring with room for the standard number of requests.
    ///
    /// # Errors
    /// EPERM, ENOSYS, EACCES, ENOMEM where io_uring is not to be had.
    pub(crate) fn new() -> io::Result<Self> {
        KernelRing::with_entries(QUEUE_ENTRIES, COMPLETION_ENTRIES)
    }

    /// As [`KernelRing::new`] with given sizes, for tests of full queues.
    pub(super) fn with_entries(queue: u32, completions: u32) -> io::Result<Self> {
        let tries = [(true, true, true), (false, true, true), (false, false, true)];
        let mut refused = None;
        for (no_array, deferred, cooperative) in tries.into_iter().chain([(false, false, false)]) {
            match build(queue, completions, Features { no_array, deferred, cooperative }) {
                Ok(ring) => return KernelRing::accept(ring),
                Err(e) if e.raw_os_error() == Some(libc::EINVAL) => refused = Some(e),
                Err(e) => return Err(e),
            }
        }
        Err(refused.unwrap_or_else(|| io::ErrorKind::Unsupported.into()))
    }

    fn accept(ring: IoUring) -> io::Result<Self> {
        let params = ring.params();
        if !params.is_feature_nodrop() || !params.is_feature_ext_arg() {
            // Older than 5.11: completions could be lost, or waits have no limit.
            return Err(io::Error::from_raw_os_error(libc::ENOSYS));
        }
        let mut limits = WORKERS_MAX;
        // A kernel without the call has its own limit.
        drop(ring.submitter().register_iowq_max_workers(&mut limits));
        Ok(KernelRing { ring, pinned: Pinned::Untried })
    }

    /// A buffer that the ring knows.
    #[inline]
    pub(super) fn take_buffer(&mut self) -> Option<PinnedBuffer> {
        if let Pinned::Untried = self.pinned {
            self.register_buffers();
        }
        match &self.pinned {
            Pinned::Registered(arena) => arena.take(),
            _ => None,
        }
    }

    /// Tells the kernel about an arena, which pins its pages once.
    #[cold]
    fn register_buffers(&mut self) {
        let arena = Arena::new(PINNED_BYTES);
        let vector = libc::iovec { iov_base: arena.start().cast(), iov_len: arena.len() };
        // SAFETY: invariant 3.
        let registered = unsafe { self.ring.submitter().register_buffers(&[vector]) };
        self.pinned = match registered {
            Ok(()) => Pinned::Registered(arena),
            Err(_) => Pinned::Refused,
        };
    }
}

fn build(queue: u32, completions: u32, features: Features) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.setup_cqsize(completions).setup_submit_all().dontfork();
    if features.no_array {
        builder.setup_no_sqarray();
    }
    if features.deferred {
        builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
    } else if features.cooperative {
        builder.setup_coop_taskrun().setup_taskrun_flag();
    }
    builder.build(queue)
}

fn entry(request: &Request) -> squeue::Entry {
    let entry = match request.what {
        What::Call(call) => entry_of(call),
        What::Cancel(target) => opcode::AsyncCancel::new(target).build(),
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
        Call::Receive { fd, buf, bytes } => opcode::Recv::new(types::Fd(fd), buf, bytes).build(),
        Call::Send { fd, buf, bytes } => {
            opcode::Send::new(types::Fd(fd), buf, bytes).flags(libc::MSG_NOSIGNAL).build()
        }
        Call::Poll { fd, events } => {
            opcode::PollAdd::new(types::Fd(fd), u32::from(events as u16)).build()
        }
    }
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
            _ => entry(request),
        };
        // SAFETY: invariants 1 and 2.
        unsafe { self.ring.submission().push(&entry) }.is_ok()
    }

    fn queued(&self) -> usize {
        // SAFETY: invariant 2: no other queue is borrowed while `self` is.
        unsafe { self.ring.submission_shared() }.len()
    }

    fn is_ready(&self) -> bool {
        // SAFETY: invariant 2, as above, for both queues.
        let (queue, completions) =
            unsafe { (self.ring.submission_shared(), self.ring.completion_shared()) };
        queue.taskrun() || queue.cq_overflow() || !completions.is_empty()
    }

    fn submit(&mut self, wait: Wait) -> io::Result<()> {
        let submitter = self.ring.submitter();
        let result = match wait {
            Wait::No => submitter.submit(),
            Wait::Forever => submitter.submit_and_wait(1),
            Wait::Until(deadline) => {
                let nanos = deadline.saturating_sub(time::monotonic_nanos());
                let limit = types::Timespec::new()
                    .sec(nanos / 1_000_000_000)
                    .nsec((nanos % 1_000_000_000) as u32);
                submitter.submit_with_args(1, &types::SubmitArgs::new().timespec(&limit))
            }
        };
        match result {
            Ok(_) => Ok(()),
            // The time is up; a signal came; completions must be reaped first; out of memory for
            // the moment. What was not taken stays queued.
            Err(e) => match e.raw_os_error() {
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(e),
            },
        }
    }

    fn reap(&mut self) -> Option<Completion> {
        let entry = self.ring.completion().next()?;
        let user_data = entry.user_data();
        let more = user_data == KICK && cqueue::more(entry.flags());
        Some(Completion { user_data, result: entry.result(), more })
    }
}
