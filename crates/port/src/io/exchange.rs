//! Sending, and receiving what comes next, as two requests submitted together: the fiber waits
//! once, and the sends of all fibers of a turn reach the kernel in one call.
//!
//! | what has been sent at once | then |
//! |---|---|
//! | all | the wait is that of a receive |
//! | less | the receive is cancelled, so that the caller sends the rest before it waits |
//!
//! Thread safety: none, like the reactor.

use super::op::{Op, Socket};
use super::{FOR_IO, Limits, Operations, Reactor};
use crate::task;
use std::io;

/// The outcome of both requests.
pub(crate) struct Exchanged {
    /// Bytes that were sent; the rest has not been tried.
    pub(crate) sent: io::Result<usize>,
    /// Bytes that were received; `None` when nothing was, and the request must be repeated.
    pub(crate) received: Option<io::Result<usize>>,
}

impl Reactor {
    /// Sends what there is room for of `data`, and receives into `buf`, within limits as
    /// [`Reactor::run_within`] has them. `None` when no ring serves, or the fiber unwinds: then
    /// nothing was done. Suspends.
    pub(crate) fn exchange(
        &self,
        socket: Socket,
        data: &[u8],
        buf: &mut [u8],
        limits: Limits<'_>,
    ) -> Option<Exchanged> {
        if !self.has_ring() || std::thread::panicking() {
            return None;
        }
        let task = task::current();
        let mut ops = [Op::send_now(socket, data), Op::receive_later(socket, buf)];
        let group =
            on!(self, operations => operations.begin(ops.iter().map(|op| op.call), Some(task)));
        let mut is_called_off = false;
        while !self.is_done(group) {
            if !is_called_off
                && (limits.reached() || on!(self, operations => operations.is_short(group)))
            {
                is_called_off = true;
                on!(self, operations => operations.cancel(group));
            }
            let deadline = if is_called_off { None } else { limits.deadline };
            task::park_until(&FOR_IO, deadline);
        }
        self.finish(group, &mut ops);
        let sent = match -ops[0].result {
            // Nothing has been taken.
            libc::EAGAIN | libc::EINTR | libc::ECANCELED => Ok(0),
            _ => ops[0].outcome().map(|bytes| bytes as usize),
        };
        let received = match -ops[1].result {
            libc::ECANCELED | libc::EINTR | libc::EAGAIN if limits.reached() => {
                Some(Err(limits.error()))
            }
            libc::ECANCELED | libc::EINTR | libc::EAGAIN => None,
            _ => Some(ops[1].outcome().map(|bytes| bytes as usize)),
        };
        Some(Exchanged { sent, received })
    }
}
