//! A connection's bytes: as they are on its socket or, with the feature `tls`, within TLS.
//!
//! Plain connections pay one comparison, and without the feature nothing: no allocation, no lock.
//!
//! Thread safety: everything may be shared. Calls suspend where those of the socket do.

use std::io;

use pumice_port::net::{Direction, Stream};

#[cfg(feature = "tls")]
use super::tls::Tls;

/// A connection.
pub enum Link {
    /// Bytes are those of the socket.
    Plain(Stream),
    /// Bytes are enciphered.
    #[cfg(feature = "tls")]
    Tls(Box<Tls>),
}

/// What the connections of a listener speak.
#[derive(Clone)]
pub enum Cover {
    /// Plain bytes.
    Plain,
    /// TLS.
    #[cfg(feature = "tls")]
    Tls(super::tls::Settings),
}

impl Cover {
    /// A connection over a socket that was accepted.
    ///
    /// # Errors
    /// An error of TLS about its settings.
    pub fn over(&self, socket: Stream) -> io::Result<Link> {
        match self {
            Cover::Plain => Ok(Link::Plain(socket)),
            #[cfg(feature = "tls")]
            Cover::Tls(settings) => Ok(Link::Tls(Box::new(Tls::new(&settings.now(), socket)?))),
        }
    }

    /// Bytes are those of the socket.
    pub fn is_plain(&self) -> bool {
        matches!(self, Cover::Plain)
    }
}

impl Link {
    /// The socket: shutting it down ends the connection, also for tasks that wait on it; its
    /// timeouts are those of the connection.
    #[inline]
    pub fn socket(&self) -> &Stream {
        match self {
            Link::Plain(socket) => socket,
            #[cfg(feature = "tls")]
            Link::Tls(tls) => tls.socket(),
        }
    }

    /// The connection needs no handshake.
    #[inline]
    pub fn is_plain(&self) -> bool {
        match self {
            Link::Plain(_) => true,
            #[cfg(feature = "tls")]
            Link::Tls(_) => false,
        }
    }

    /// Performs the handshake, by `end_nanos` of the clock at the latest. Suspends.
    ///
    /// # Errors
    /// TimedOut; InvalidData when the bytes are not TLS, or the client may not connect; or what the
    /// operating system says.
    #[cfg_attr(not(feature = "tls"), expect(unused_variables))]
    pub fn begin(&self, end_nanos: u64) -> io::Result<()> {
        match self {
            Link::Plain(_) => Ok(()),
            #[cfg(feature = "tls")]
            Link::Tls(tls) => tls.begin(end_nanos),
        }
    }

    /// Receives available data; 0 when the other side has closed the stream. Suspends.
    ///
    /// # Errors
    /// WouldBlock when only protocol bytes arrived; TimedOut; UnexpectedEof when TLS was cut off
    /// before its end, InvalidData when it was tampered with; or what the operating system says.
    #[inline]
    pub fn receive(&self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Link::Plain(socket) => socket.receive(buf),
            #[cfg(feature = "tls")]
            Link::Tls(tls) => tls.receive(buf),
        }
    }

    /// Sends all of `data` and receives what comes next, as [`Link::send_all`] and
    /// [`Link::receive`]; with a single wait on a plain socket. Suspends.
    ///
    /// # Errors
    /// As both.
    #[inline]
    pub fn exchange(&self, data: &[u8], buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Link::Plain(socket) => socket.exchange(data, buf),
            #[cfg(feature = "tls")]
            Link::Tls(tls) => {
                tls.send_all(data)?;
                tls.receive(buf)
            }
        }
    }

    /// The received bytes end within a record.
    #[inline]
    pub fn has_part(&self) -> bool {
        match self {
            Link::Plain(_) => false,
            #[cfg(feature = "tls")]
            Link::Tls(tls) => tls.has_part(),
        }
    }

    /// Sends all of `data`. Suspends when the other side does not keep up.
    ///
    /// # Errors
    /// TimedOut, BrokenPipe, or what the operating system says; part of `data` may have been sent,
    /// and nothing can be sent after it.
    #[inline]
    pub fn send_all(&self, data: &[u8]) -> io::Result<()> {
        match self {
            Link::Plain(socket) => socket.send_all(data),
            #[cfg(feature = "tls")]
            Link::Tls(tls) => tls.send_all(data),
        }
    }

    /// Upper bound of its memory besides the bytes given to it.
    #[inline]
    pub fn bytes(&self) -> usize {
        match self {
            Link::Plain(_) => 0,
            #[cfg(feature = "tls")]
            Link::Tls(tls) => tls.bytes(),
        }
    }

    /// Sends the close notification, if the protocol has one, and ends both directions. Suspends
    /// for a moment when a client does not read what TLS sends.
    pub fn end(&self) {
        #[cfg(feature = "tls")]
        if let Link::Tls(tls) = self {
            tls.end();
        }
        // The other side may be gone already.
        self.socket().shutdown(Direction::Both).ok();
    }
}
