//! Waiting for sockets by epoll, where io_uring is refused.
//!
//! A socket is registered, edge-triggered, when it is first waited for, and at most once more, when
//! it is first waited for to become writable. From then on the kernel reports each change once;
//! what it has reported is remembered, so that a call is tried only when it may succeed. A wait
//! costs no system call of its own, and the loop's wait costs what has happened, however many
//! sockets there are.
//!
//! | `ready` has | means | until |
//! |---|---|---|
//! | IN, OUT | receiving, sending may succeed | it would wait, or less came than asked for |
//! | RDHUP, HUP, ERR, PRI | the other side has ended, or something is out of order | forever |
//!
//! On TCP, less than was asked for means that nothing is left (epoll(7)), unless the other side has
//! ended, which is reported once with the bytes before it, or has sent urgent bytes. A Unix socket
//! may also stop at passed descriptors: there one more call tells.
//!
//! Invariants:
//! 1. A wait that is in line has been tried after the last event of its socket, or none has come
//!    that concerns it. So the event that ends it is still to come.
//! 2. Closing a socket ends its registration. Its descriptor's number may come back with another
//!    socket, which is registered again because its [`Socket`] is another one.
//! 3. A waiter has its socket open: descriptors with a waiter in line are not closed.
//!
//! Invariant cited by unsafe blocks: 4. calls pass live locals or arrays with their true lengths.
//!
//! Thread safety: none; belongs to its loop.

use super::kicker::Kicker;
use super::op::{self, Call, Socket};
use crate::machine::{self, Resource};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

const IN: u32 = libc::EPOLLIN as u32;
const OUT: u32 = libc::EPOLLOUT as u32;
/// Readiness that is never forgotten.
const STICKY: u32 = (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR | libc::EPOLLPRI) as u32;
/// What every socket is registered for.
const USUAL: u32 = (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLPRI | libc::EPOLLET) as u32;
/// Events that the kernel always reports.
const ALWAYS_REPORTED: u32 = (libc::EPOLLHUP | libc::EPOLLERR) as u32;
/// The data under which the kernel reports kicks.
const KICKED: u64 = u64::MAX;
/// Events taken by one call.
const EVENTS: usize = 256;
const NONE: u32 = u32::MAX;

/// What is known of the socket that has a descriptor.
#[derive(Clone, Copy)]
struct Known {
    /// [`Socket::number`]; 0 for none.
    number: u64,
    interest: u32,
    ready: u32,
    /// The first in line.
    first: u32,
    /// Less than was asked for means that nothing is left.
    drains: bool,
}

const UNKNOWN: Known = Known { number: 0, interest: 0, ready: 0, first: NONE, drains: false };

/// A call in line for its socket.
#[derive(Clone, Copy)]
struct Waiter {
    user_data: u64,
    call: Call,
    before: u32,
    next: u32,
}

/// See the head of this file.
pub(super) struct Sockets {
    epoll: OwnedFd,
    /// By descriptor.
    known: Vec<Known>,
    /// Indexed by the lower half of `user_data`, which the table of operations in flight assigns
    /// densely.
    waiters: Vec<Option<Waiter>>,
    waiting: usize,
    events: Vec<libc::epoll_event>,
    /// The kernel waits with nanoseconds.
    is_exact: bool,
    /// System calls made.
    calls: u64,
}

/// The socket of a call and the events that it waits for; None: epoll cannot serve it.
fn wants(call: &Call) -> Option<(Socket, u32)> {
    match *call {
        Call::Receive { socket, .. } => Some((socket, IN)),
        Call::Send { socket, .. } => Some((socket, OUT)),
        Call::Poll { socket, events } => Some((socket, u32::from(events as u16))),
        Call::Accept { .. } | Call::Read { .. } | Call::Write { .. } | Call::Sync { .. } => None,
    }
}

impl Sockets {
    /// Waits for sockets, and for kicks.
    ///
    /// # Errors
    /// No descriptor or memory.
    pub(super) fn new(kicker: &Kicker) -> io::Result<Self> {
        machine::ask(Resource::Descriptor)?;
        // SAFETY: numbers only; the result is checked before it is owned.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor without another owner.
        let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
        let mut new = Sockets {
            epoll,
            known: Vec::new(),
            waiters: Vec::new(),
            waiting: 0,
            events: Vec::with_capacity(EVENTS),
            is_exact: true,
            calls: 0,
        };
        // Each kick is another edge: it needs no clearing.
        let interest = (libc::EPOLLIN | libc::EPOLLET) as u32;
        match new.control(libc::EPOLL_CTL_ADD, kicker.fd(), interest, KICKED) {
            0 => Ok(new),
            error => Err(io::Error::from_raw_os_error(-error)),
        }
    }

    fn control(&mut self, what: libc::c_int, fd: RawFd, events: u32, data: u64) -> i32 {
        self.calls += 1;
        let mut event = libc::epoll_event { events, u64: data };
        // SAFETY: invariant 4.
        op::code(unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), what, fd, &mut event) } as isize)
    }

    /// System calls made so far.
    pub(super) fn calls(&self) -> u64 {
        self.calls
    }

    /// Calls in line.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Begins a call for a socket: its result if it is done already, None when it is in line.
    pub(super) fn begin(&mut self, user_data: u64, call: Call) -> Option<i32> {
        let Some((socket, wanted)) = wants(&call) else { return Some(-libc::EINVAL) };
        let Ok(place) = usize::try_from(socket.fd) else { return Some(-libc::EBADF) };
        if let Err(error) = self.register(socket, place, wanted) {
            return Some(error);
        }
        if self.known[place].ready & (wanted | STICKY) != 0 {
            let result = self.attempt(place, wanted, &call);
            if result != -libc::EAGAIN {
                return Some(result);
            }
        }
        self.line_up(place, user_data, call);
        None
    }

    /// Makes sure that the kernel reports the wanted events.
    #[inline]
    fn register(&mut self, socket: Socket, place: usize, wanted: u32) -> Result<(), i32> {
        match self.known.get(place) {
            Some(k) if k.number == socket.number && k.interest & wanted == wanted => Ok(()),
            _ => self.register_anew(socket, place, wanted),
        }
    }

    #[cold]
    fn register_anew(&mut self, socket: Socket, place: usize, wanted: u32) -> Result<(), i32> {
        let before = self.known.get(place).copied().unwrap_or(UNKNOWN);
        let is_known = before.number == socket.number;
        // By invariant 3 the others in line wait for the same socket, under another name.
        let kept = if is_known || before.first != NONE { before.interest } else { 0 };
        let interest = kept | wanted | USUAL;
        let data = u64::from(socket.number as u32) << 32 | place as u64;
        let (add, change) = (libc::EPOLL_CTL_ADD, libc::EPOLL_CTL_MOD);
        // Both also report readiness that already exists.
        let mut done = self.control(if is_known { change } else { add }, socket.fd, interest, data);
        if done == -libc::EEXIST {
            done = self.control(change, socket.fd, interest, data);
        }
        if done < 0 {
            return Err(done);
        }
        let drains = if is_known { before.drains } else { self.is_tcp(socket.fd) };
        let ready = if is_known { before.ready } else { 0 };
        let (number, first) = (socket.number, before.first);
        if place >= self.known.len() {
            // The descriptor is open, so there are about as many.
            self.known.resize(place + 1, UNKNOWN);
        }
        self.known[place] = Known { number, interest, ready, first, drains };
        Ok(())
    }

    fn is_tcp(&mut self, fd: RawFd) -> bool {
        self.calls += 1;
        let mut protocol: libc::c_int = 0;
        let mut len = size_of_val(&protocol) as libc::socklen_t;
        let (level, name) = (libc::SOL_SOCKET, libc::SO_PROTOCOL);
        // SAFETY: invariant 4.
        let done =
            unsafe { libc::getsockopt(fd, level, name, (&raw mut protocol).cast(), &mut len) };
        done == 0 && protocol == libc::IPPROTO_TCP
    }

    /// Tries a call, and learns from it what remains.
    fn attempt(&mut self, place: usize, wanted: u32, call: &Call) -> i32 {
        self.calls += 1;
        let result = op::attempt(call);
        let known = &mut self.known[place];
        match *call {
            _ if result == -libc::EAGAIN => known.ready &= !wanted | STICKY,
            Call::Receive { bytes, .. }
                if known.drains
                    && known.ready & STICKY == 0
                    && u32::try_from(result).is_ok_and(|n| 0 < n && n < bytes) =>
            {
                known.ready &= !IN;
            }
            _ => {}
        }
        result
    }

    fn line_up(&mut self, place: usize, user_data: u64, call: Call) {
        let index = user_data as u32;
        if index as usize >= self.waiters.len() {
            self.waiters.resize(index as usize + 1, None);
        }
        let next = std::mem::replace(&mut self.known[place].first, index);
        if let Some(next) = self.waiter_mut(next) {
            next.before = index;
        }
        self.waiters[index as usize] = Some(Waiter { user_data, call, before: NONE, next });
        self.waiting += 1;
    }

    fn waiter_mut(&mut self, index: u32) -> Option<&mut Waiter> {
        self.waiters.get_mut(index as usize)?.as_mut()
    }

    /// Takes a call out of its line.
    fn leave(&mut self, index: u32) {
        let Some(gone) = self.waiters.get_mut(index as usize).and_then(Option::take) else {
            return;
        };
        self.waiting -= 1;
        if let Some(next) = self.waiter_mut(gone.next) {
            next.before = gone.before;
        }
        match self.waiter_mut(gone.before) {
            Some(before) => before.next = gone.next,
            None => {
                if let Some((socket, _)) = wants(&gone.call) {
                    self.known[socket.fd as usize].first = gone.next;
                }
            }
        }
    }

    /// Takes the call with that number out of its line; false when it is in none.
    pub(super) fn cancel(&mut self, user_data: u64) -> bool {
        let index = user_data as u32;
        let own = self.waiter_mut(index).is_some_and(|waiter| waiter.user_data == user_data);
        if own {
            self.leave(index);
        }
        own
    }

    /// Waits for an event, at most `nanos`, and calls `end` with each call that has ended and its
    /// result. Returns whether there was a kick.
    pub(super) fn wait(&mut self, nanos: Option<u64>, mut end: impl FnMut(u64, i32)) -> bool {
        let count = self.wait_for_events(nanos);
        // SAFETY: the kernel has written that many, at most the capacity.
        unsafe { self.events.set_len(count) };
        let mut is_kicked = false;
        for number in 0..count {
            let libc::epoll_event { events, u64: data } = self.events[number];
            if data == KICKED {
                is_kicked = true;
            } else {
                self.handle_event(events, data, &mut end);
            }
        }
        is_kicked
    }

    /// What has happened to one socket.
    fn handle_event(&mut self, events: u32, data: u64, end: &mut impl FnMut(u64, i32)) {
        let place = data as u32 as usize;
        let Some(known) = self.known.get_mut(place) else { return };
        if known.number as u32 != (data >> 32) as u32 {
            // The event is of a socket that was closed here and lives on elsewhere, as after a
            // fork.
            return;
        }
        known.ready |= events;
        let mut index = known.first;
        while let Some(&mut waiter) = self.waiter_mut(index) {
            let Some((_, wanted)) = wants(&waiter.call) else { return };
            let seen = events & (wanted | ALWAYS_REPORTED);
            let result = match waiter.call {
                _ if events & (wanted | STICKY) == 0 => -libc::EAGAIN,
                Call::Poll { .. } if seen == 0 => -libc::EAGAIN,
                Call::Poll { .. } => seen as i32,
                _ => self.attempt(place, wanted, &waiter.call),
            };
            if result != -libc::EAGAIN {
                self.leave(index);
                end(waiter.user_data, result);
            }
            index = waiter.next;
        }
    }

    /// Returns how many events are then in `events`.
    fn wait_for_events(&mut self, nanos: Option<u64>) -> usize {
        let until = nanos.filter(|n| *n > 0);
        if let Some(nanos) = until.filter(|_| self.is_exact) {
            match self.wait_exactly(nanos) {
                result if result >= 0 => return result as usize,
                error if error == -libc::EINTR => return 0,
                // Linux has had it since 5.11, and a sandbox may not know it.
                _ => self.is_exact = false,
            }
        }
        if let Some(nanos) = until {
            self.calls += 1;
            op::wait_for(self.epoll.as_raw_fd(), libc::POLLIN, Some(nanos)).ok();
        }
        self.calls += 1;
        let (fd, events) = (self.epoll.as_raw_fd(), self.events.as_mut_ptr());
        let millis = if nanos.is_none() { -1 } else { 0 };
        // SAFETY: invariant 4: there is room for that many.
        let count = unsafe { libc::epoll_wait(fd, events, EVENTS as libc::c_int, millis) };
        usize::try_from(count).unwrap_or(0)
    }

    fn wait_exactly(&mut self, nanos: u64) -> i32 {
        self.calls += 1;
        let limit = op::timespec(nanos);
        let (fd, events) = (self.epoll.as_raw_fd(), self.events.as_mut_ptr());
        let mask = std::ptr::null::<libc::sigset_t>();
        let (number, limit) = (libc::SYS_epoll_pwait2, &raw const limit);
        // SAFETY: invariant 4: there is room for that many; no mask, whose size is then not looked
        // at.
        op::code(unsafe { libc::syscall(number, fd, events, EVENTS, limit, mask, 8usize) } as isize)
    }
}
