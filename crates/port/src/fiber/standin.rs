//! What a loop waits on until the reactor of module `io` is there: an eventfd.

use super::IoMode;
use crate::time;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

/// How long a poll may wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    No,
    Until(u64),
    Forever,
}

/// Wakes the loop that waits in `poll`.
#[derive(Clone)]
pub(crate) struct Kicker(Arc<OwnedFd>);

impl Kicker {
    pub(crate) fn kick(&self) {
        let one = 1u64;
        // SAFETY: the descriptor is open and `one` is a live local of eight bytes.
        unsafe { libc::write(self.0.as_raw_fd(), std::ptr::from_ref(&one).cast(), 8) };
    }
}

pub(crate) struct Reactor(Kicker);

#[derive(Default)]
pub(crate) struct IoStats {
    pub(crate) enters: u64,
    pub(crate) sqes: u64,
}

impl Reactor {
    pub(crate) fn new(_mode: IoMode) -> io::Result<Reactor> {
        // SAFETY: integers only.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and ours.
        Ok(Reactor(Kicker(Arc::new(unsafe { OwnedFd::from_raw_fd(fd) }))))
    }
    pub(crate) fn kicker(&self) -> Kicker {
        self.0.clone()
    }
    pub(crate) fn poll(&self, wait: Wait) {
        let timeout = match wait {
            Wait::No => return,
            Wait::Forever => None,
            Wait::Until(deadline) => Some(deadline.saturating_sub(time::monotonic_nanos())),
        };
        let timeout = timeout.map(|n| libc::timespec {
            tv_sec: (n / 1_000_000_000) as libc::time_t,
            tv_nsec: (n % 1_000_000_000) as libc::c_long,
        });
        let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let mut fd = libc::pollfd { fd: self.0.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let mut count = 0u64;
        // SAFETY: all pointers are null or to live locals; the descriptor is open.
        unsafe {
            if libc::ppoll(&mut fd, 1, timeout, std::ptr::null()) > 0 {
                libc::read(fd.fd, std::ptr::from_mut(&mut count).cast(), 8);
            }
        }
    }
    pub(crate) fn inflight(&self) -> usize {
        0
    }
    pub(crate) fn should_poll(&self) -> bool {
        false
    }
    pub(crate) fn stats(&self) -> IoStats {
        IoStats::default()
    }
}
