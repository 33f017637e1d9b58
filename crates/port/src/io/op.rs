//! The operations of a ring.
//!
//! A [`Call`] is the request as plain numbers and addresses, the same for every kind of ring; an
//! [`Op`] is a call that still borrows its buffer. [`perform`] does a call in the calling thread,
//! for rings without a kernel and for callers that must not suspend.
//!
//! Invariants cited by unsafe blocks:
//! 1. The buffer of a call is valid, and used by no one else, until its completion was taken: calls
//!    come from `Op`s only, whose borrow outlives [`super::run_all`], and that returns after the
//!    last completion.
//!
//! Thread safety: plain data. A `Call` may be performed by another thread because of invariant 1.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// The largest transfer of one call; the kernel itself stops a little below 2 GiB.
pub(crate) const TRANSFER_BYTES_MAX: usize = 1 << 30;

/// A socket: its descriptor, and a number that no other socket of the process has or had. So state
/// remembered about a socket is not mistaken for that of a later one with the same descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Socket {
    pub(crate) fd: RawFd,
    pub(super) number: u64,
}

impl Socket {
    /// A name for the socket of an open descriptor. It may have several, but should have one.
    pub(crate) fn new(fd: RawFd) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Socket { fd, number: NEXT.fetch_add(1, Ordering::Relaxed) }
    }
}

impl From<RawFd> for Socket {
    fn from(fd: RawFd) -> Self {
        Socket::new(fd)
    }
}

/// See the head of this file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    /// pread.
    Read { fd: RawFd, buf: *mut u8, bytes: u32, offset: u64 },
    /// pwrite.
    Write { fd: RawFd, buf: *const u8, bytes: u32, offset: u64 },
    /// fdatasync, or fsync with `all`.
    Sync { fd: RawFd, all: bool },
    /// recv on a socket in blocking mode. With `later` nothing is expected to be there yet, and a
    /// ring waits before it tries.
    Receive { socket: Socket, buf: *mut u8, bytes: u32, later: bool },
    /// send on a socket in blocking mode; never raises SIGPIPE. Bytes for which there is no room
    /// are not sent, or the call fails with EAGAIN, unless it `waits`.
    Send { socket: Socket, buf: *const u8, bytes: u32, waits: bool },
    /// Waits until one of the `events` of poll(2) is there; the result says which.
    Poll { socket: Socket, events: i16 },
    /// accept on a listener, again and again: each result is a new descriptor, until an error. Only
    /// rings of kernels that support it accept this; the others return EINVAL.
    Accept { socket: Socket },
}

// SAFETY: invariant 1: the holder of the call has the buffer exclusively until it completes.
unsafe impl Send for Call {}

/// One operation and its result. The result is meaningless before it was run.
#[derive(Debug)]
pub(crate) struct Op<'a> {
    pub(super) call: Call,
    /// Bytes moved or events seen, or an errno with its sign changed.
    pub(super) result: i32,
    buffer: PhantomData<&'a mut [u8]>,
}

fn length(bytes: usize) -> u32 {
    bytes.min(TRANSFER_BYTES_MAX) as u32
}

impl Call {
    /// Concerns a socket, not a file.
    #[inline]
    pub(super) fn is_for_socket(&self) -> bool {
        !matches!(self, Call::Read { .. } | Call::Write { .. } | Call::Sync { .. })
    }

    /// The result of a call that did everything, for calls whose smaller results are reported at
    /// once.
    #[inline]
    pub(super) fn whole(&self) -> Option<i32> {
        match *self {
            Call::Send { bytes, waits: false, .. } => Some(bytes as i32),
            _ => None,
        }
    }
}

impl<'a> Op<'a> {
    fn new(call: Call) -> Self {
        Op { call, result: 0, buffer: PhantomData }
    }
    /// Reads at `offset`; may be short.
    pub(crate) fn read(fd: RawFd, buf: &'a mut [u8], offset: u64) -> Self {
        let bytes = length(buf.len());
        Op::new(Call::Read { fd, buf: buf.as_mut_ptr(), bytes, offset })
    }
    /// Writes at `offset`; may be short.
    pub(crate) fn write(fd: RawFd, data: &'a [u8], offset: u64) -> Self {
        Op::new(Call::Write { fd, buf: data.as_ptr(), bytes: length(data.len()), offset })
    }
    /// Makes the file's content and length durable; with `all` also its other metadata.
    pub(crate) fn sync(fd: RawFd, all: bool) -> Self {
        Op::new(Call::Sync { fd, all })
    }
    /// Receives what has come, at least one byte unless the other side has ended.
    pub(crate) fn receive(socket: impl Into<Socket>, buf: &'a mut [u8]) -> Self {
        let (socket, bytes) = (socket.into(), length(buf.len()));
        Op::new(Call::Receive { socket, buf: buf.as_mut_ptr(), bytes, later: false })
    }
    /// As `receive`, when the other side is about to get what it will answer.
    pub(crate) fn receive_later(socket: impl Into<Socket>, buf: &'a mut [u8]) -> Self {
        let (socket, bytes) = (socket.into(), length(buf.len()));
        Op::new(Call::Receive { socket, buf: buf.as_mut_ptr(), bytes, later: true })
    }
    /// Sends some of `data`.
    pub(crate) fn send(socket: impl Into<Socket>, data: &'a [u8]) -> Self {
        let (socket, bytes) = (socket.into(), length(data.len()));
        Op::new(Call::Send { socket, buf: data.as_ptr(), bytes, waits: true })
    }
    /// Sends what there is room for now.
    pub(crate) fn send_now(socket: impl Into<Socket>, data: &'a [u8]) -> Self {
        let (socket, bytes) = (socket.into(), length(data.len()));
        Op::new(Call::Send { socket, buf: data.as_ptr(), bytes, waits: false })
    }
    /// Waits for one of `events` of poll(2).
    pub(crate) fn poll(socket: impl Into<Socket>, events: i16) -> Self {
        Op::new(Call::Poll { socket: socket.into(), events })
    }
    /// Takes connections until it is cancelled.
    pub(crate) fn accept(socket: Socket) -> Self {
        Op::new(Call::Accept { socket })
    }
    /// The operation's result: bytes or events.
    pub(crate) fn outcome(&self) -> io::Result<u32> {
        u32::try_from(self.result).map_err(|_| io::Error::from_raw_os_error(-self.result))
    }
}

/// The result of a system call as a ring reports it.
pub(super) fn code(result: isize) -> i32 {
    if result < 0 {
        -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
    } else {
        result as i32
    }
}

/// The flags of send(2).
pub(super) fn send_flags(waits: bool) -> i32 {
    if waits { libc::MSG_NOSIGNAL } else { libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT }
}

/// Does `call` in the calling thread, which may block; the result as a ring reports it.
pub(crate) fn perform(call: &Call) -> i32 {
    // SAFETY: invariant 1 for the buffers; everything else is numbers.
    let result = unsafe {
        match *call {
            Call::Read { fd, buf, bytes, offset } => {
                libc::pread(fd, buf.cast(), bytes as usize, offset as i64)
            }
            Call::Write { fd, buf, bytes, offset } => {
                libc::pwrite(fd, buf.cast(), bytes as usize, offset as i64)
            }
            Call::Sync { fd, all: false } => libc::fdatasync(fd) as isize,
            Call::Sync { fd, all: true } => libc::fsync(fd) as isize,
            Call::Receive { socket, buf, bytes, .. } => {
                libc::recv(socket.fd, buf.cast(), bytes as usize, 0)
            }
            Call::Send { socket, buf, bytes, waits } => {
                libc::send(socket.fd, buf.cast(), bytes as usize, send_flags(waits))
            }
            Call::Poll { socket, events } => {
                return wait_for(socket.fd, events, None).unwrap_or_else(|e| e);
            }
            Call::Accept { .. } => return -libc::EINVAL,
        }
    };
    code(result)
}

/// Releases a call's result that has no taker.
pub(super) fn discard(call: &Call, result: i32) {
    if let (Call::Accept { .. }, 0..) = (call, result) {
        // SAFETY: a new descriptor without another owner.
        drop(unsafe { OwnedFd::from_raw_fd(result) });
    }
}

/// As [`perform`] for calls on sockets, without waiting: -EAGAIN when nothing can be done yet.
pub(super) fn attempt(call: &Call) -> i32 {
    // SAFETY: invariant 1 for the buffers; everything else is numbers.
    let result = unsafe {
        match *call {
            Call::Receive { socket, buf, bytes, .. } => {
                libc::recv(socket.fd, buf.cast(), bytes as usize, libc::MSG_DONTWAIT)
            }
            Call::Send { socket, buf, bytes, .. } => {
                libc::send(socket.fd, buf.cast(), bytes as usize, send_flags(false))
            }
            Call::Poll { socket, events } => {
                return match wait_for(socket.fd, events, Some(0)).unwrap_or_else(|e| e) {
                    0 => -libc::EAGAIN,
                    seen => seen,
                };
            }
            _ => return perform(call),
        }
    };
    code(result)
}

/// Waits at most `nanos` for one of `events`; returns those seen, 0 when the time is up.
pub(crate) fn wait_for(fd: RawFd, events: i16, nanos: Option<u64>) -> Result<i32, i32> {
    let mut slot = [libc::pollfd { fd, events, revents: 0 }];
    match poll_all(&mut slot, nanos) {
        error if error < 0 => Err(error),
        _ => Ok(i32::from(slot[0].revents)),
    }
}

pub(super) fn timespec(nanos: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (nanos / 1_000_000_000) as libc::time_t,
        tv_nsec: (nanos % 1_000_000_000) as libc::c_long,
    }
}

/// poll(2) with nanoseconds; the number of descriptors with events, or a negative errno.
pub(super) fn poll_all(slots: &mut [libc::pollfd], nanos: Option<u64>) -> i32 {
    let limit = nanos.map(timespec);
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let count = slots.len() as libc::nfds_t;
    // SAFETY: the slots are a live slice of `count`, the limit is null or a live local.
    code(unsafe { libc::ppoll(slots.as_mut_ptr(), count, limit, std::ptr::null()) } as isize)
}
