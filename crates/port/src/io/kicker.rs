//! Wakes a loop that sleeps in its ring: an eventfd.
//!
//! Invariants cited by unsafe blocks: 1. the descriptor is open as long as a `Kicker` exists; the
//! calls pass live locals of eight bytes.
//!
//! Thread safety: any thread may kick at any time, also after the loop has gone.

use crate::machine::{self, Resource};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// See the head of this file.
#[derive(Clone, Debug)]
pub(crate) struct Kicker(Arc<OwnedFd>);

impl Kicker {
    pub(super) fn new() -> io::Result<Self> {
        machine::ask(Resource::Descriptor)?;
        // SAFETY: numbers only; the result is checked before it is owned.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor without another owner.
        Ok(Kicker(Arc::new(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    /// Ends the loop's current or next wait in its ring. One system call.
    pub(crate) fn kick(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: invariant 1. It fails only when 2^64 kicks have not been seen: then the
        // descriptor is readable already.
        let _bytes = unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Forgets the kicks so far.
    pub(super) fn clear(&self) {
        let mut count = [0u8; 8];
        // SAFETY: invariant 1. It fails when there was none.
        let _bytes =
            unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }

    pub(super) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
