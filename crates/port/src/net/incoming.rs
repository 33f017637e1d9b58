//! Connections that come to a listener, for one task that takes all of them.
//!
//! On a fiber over io_uring one multishot request accepts those of TCP (since Linux 5.19): a
//! connection needs neither a call to check for another one, nor one to wait. Elsewhere, and where
//! the kernel does not support it, this is [`Listener::accept`].
//!
//! The request accepts connections ahead of demand. Those that were not taken when this is dropped
//! are closed.
//!
//! Thread safety: belongs to the fiber or thread that made it.

use super::{Listener, Stream, gone, gone_or};
use crate::fiber;
use crate::io::Series;
use std::io::{self, ErrorKind};
use std::sync::atomic::Ordering;

/// See the head of this file.
pub struct Incoming<'l> {
    listener: &'l Listener,
    series: Option<Series>,
}

impl Listener {
    /// All connections that come, one after the other. Never suspends.
    pub fn incoming(&self) -> Incoming<'_> {
        // Shutting down a Unix listener does not end that request.
        let is_tcp = self.address.is_some();
        let reactor = fiber::reactor().filter(|reactor| is_tcp && reactor.has_ring());
        let series = reactor.map(|reactor| Series::new(reactor, self.socket));
        Incoming { listener: self, series }
    }
}

impl Incoming<'_> {
    /// The next connection. Suspends.
    ///
    /// # Errors
    /// NotConnected when the listener was shut down; what the operating system says. It may be
    /// called again.
    pub fn accept(&mut self) -> io::Result<Stream> {
        while let Some(series) = &mut self.series {
            let taken = series.next();
            if self.listener.is_shut.load(Ordering::Acquire) {
                return Err(ErrorKind::NotConnected.into());
            }
            let result = match taken {
                // The kernel lacks it, or threads have taken the ring's place.
                Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {
                    self.series = None;
                    break;
                }
                Err(e) => Err(gone_or(e)),
                Ok(fd) => self.listener.welcome(fd).map_err(|_| gone()),
            };
            match result {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                done => return done,
            }
        }
        self.listener.accept()
    }

    /// Whether one request takes the connections.
    #[cfg(test)]
    pub(super) fn is_series(&self) -> bool {
        self.series.is_some()
    }
}
