//! Connections of a listener, one after the other, by one multishot request of the ring.
//!
//! Thread safety: none; belongs to the fiber that made it, which stays on its loop.

use super::in_flight::Group;
use super::op::{Op, Socket};
use super::{FOR_IO, Operations, Reactor};
use crate::task;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::rc::Rc;

/// See the head of this file.
pub(crate) struct Series {
    reactor: Rc<Reactor>,
    socket: Socket,
    /// The request that the ring has.
    group: Option<Group>,
}

impl Series {
    /// For a listener that stays open as long as this lives. Submits nothing yet.
    pub(crate) fn new(reactor: Rc<Reactor>, socket: Socket) -> Self {
        Series { reactor, socket, group: None }
    }

    /// The next connection. Suspends.
    ///
    /// # Errors
    /// InvalidInput when the ring cannot do it, or the listener does not listen; what the operating
    /// system says. The next call begins again.
    pub(crate) fn next(&mut self) -> io::Result<OwnedFd> {
        let task = task::current();
        loop {
            let group = match self.group {
                Some(group) => group,
                None => {
                    let call = std::iter::once(Op::accept(self.socket).call);
                    let new = on!(self.reactor, operations => operations.begin(call, Some(task)));
                    *self.group.insert(new)
                }
            };
            if let Some(number) =
                on!(self.reactor, operations => operations.next(group, Some(task)))
            {
                // SAFETY: a new descriptor without another owner.
                return Ok(unsafe { OwnedFd::from_raw_fd(number) });
            }
            if self.reactor.is_done(group) {
                self.group = None;
                let mut last = 0;
                on!(self.reactor, operations => {
                    operations.finish(group, |_, result| last = result)
                });
                if last < 0 && last != -libc::EINTR {
                    return Err(io::Error::from_raw_os_error(-last));
                }
                continue;
            }
            task::park_until(&FOR_IO, None);
        }
    }
}

impl Drop for Series {
    /// Afterwards the ring does not hold the listener, unless the fiber unwinds: then it releases
    /// it soon.
    fn drop(&mut self) {
        let Some(group) = self.group.take() else { return };
        if std::thread::panicking() {
            on!(self.reactor, operations => operations.abandon(group));
            return;
        }
        on!(self.reactor, operations => operations.cancel(group));
        while !self.reactor.is_done(group) {
            task::park_until(&FOR_IO, None);
        }
        on!(self.reactor, operations => operations.abandon(group));
    }
}
