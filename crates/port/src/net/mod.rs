//! Sockets, TCP and Unix: a fiber that waits for one suspends, a thread blocks.
//!
//! On a fiber receiving goes through the loop's ring, or its epoll where io_uring is refused, so
//! thousands of idle connections cost no thread; sending is tried at once and waits only when the
//! other side is slow. A wait ends early on a timeout, when the other side closes, or on
//! [`Stream::shutdown`] from any task.
//!
//! Invariants cited by unsafe blocks: 1. descriptors are open as long as their owner lives; buffers
//! are live slices with their true lengths.
//!
//! Thread safety: everything may be shared; bytes of concurrent sends may interleave. In a
//! simulation there is no network: these are the machine's sockets and block the simulation.

use crate::fiber::{maybe_yield, offload, with_reactor};
use crate::io::{self as ring, CancelToken, Limits, Op, Socket};
use crate::time;
use raw::{Address, counted};
use std::io::{self, ErrorKind};
pub use std::net::SocketAddr;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

mod datagram;
mod incoming;
mod raw;

pub use datagram::send_unix_datagram;
pub use incoming::Incoming;

/// No limit.
const FOREVER: u64 = u64::MAX;

/// The deadline of a wait that begins now.
fn deadline(timeout_nanos: u64) -> Option<u64> {
    let limited = timeout_nanos != FOREVER;
    limited.then(|| time::monotonic_nanos().saturating_add(timeout_nanos))
}

/// Waits until one of `events` occurs. Suspends a fiber.
fn wait_for(socket: Socket, events: i16, deadline: Option<u64>) -> io::Result<()> {
    let limits = Limits { deadline, token: None };
    if let Some(result) = with_reactor(|r| r.run_within(Op::poll(socket, events), limits)) {
        return result.map(drop);
    }
    loop {
        let left = deadline.map(|d| d.saturating_sub(time::monotonic_nanos()));
        match ring::wait_for(socket.fd, events, left) {
            Ok(0) if left == Some(0) => return Err(ErrorKind::TimedOut.into()),
            Ok(0) | Err(libc::EINTR) => {}
            Ok(_) => return Ok(()),
            Err(e) => return Err(io::Error::from_raw_os_error(-e)),
        }
    }
}

/// Repeats a non-blocking call whenever one of `events` occurs, until it succeeds.
fn when_ready<T>(
    socket: Socket,
    events: i16,
    timeout_nanos: u64,
    mut call: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    let mut until = None;
    loop {
        match call() {
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                // The clock is read only when the call must wait.
                let until = *until.get_or_insert_with(|| deadline(timeout_nanos));
                wait_for(socket, events, until)?;
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// A reason to repeat in [`when_ready`]: a connection ended before it was accepted.
fn gone() -> io::Error {
    // Clients that connect and reset endlessly must not monopolize the loop.
    maybe_yield();
    ErrorKind::Interrupted.into()
}

/// The result of an accept: Linux also reports errors of the connection it would have accepted.
fn gone_or(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(
            libc::ECONNABORTED
            | libc::EPROTO
            | libc::ENOPROTOOPT
            | libc::EOPNOTSUPP
            | libc::ENETDOWN
            | libc::ENETUNREACH
            | libc::EHOSTDOWN
            | libc::EHOSTUNREACH
            | libc::ENONET,
        ) => gone(),
        _ => error,
    }
}

/// A socket with that name and mode. No client can connect before it listens, and by then it has
/// its mode.
fn bind_unix_deaf(path: &Path, mode: u32) -> io::Result<OwnedFd> {
    let name = Address::unix(path)?;
    let fd = name.socket(0)?;
    name.bind(&fd)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    Ok(fd)
}

/// Takes connections.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    socket: Socket,
    address: Option<SocketAddr>,
    /// A Unix listener that was shut down is always ready, but reports nothing.
    is_shut: AtomicBool,
}

impl Listener {
    /// Listens on a TCP address; port 0 lets the system choose.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn bind_tcp(address: SocketAddr) -> io::Result<Listener> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = Some(listener.local_addr()?);
        Ok(Listener::new(listener, address))
    }

    /// Wraps a non-blocking socket that listens.
    fn new(fd: impl Into<OwnedFd>, address: Option<SocketAddr>) -> Listener {
        let fd = fd.into();
        let socket = Socket::new(fd.as_raw_fd());
        Listener { fd, socket, address, is_shut: AtomicBool::new(false) }
    }

    /// Listens on a name in the file system, with that mode; a stale socket that a program left
    /// there is removed first.
    ///
    /// # Errors
    /// AddrInUse when a program listens there, or the name is not a socket; or what the operating
    /// system says.
    pub fn bind_unix(path: &Path, mode: u32) -> io::Result<Listener> {
        match std::fs::symlink_metadata(path) {
            // Connecting to it would be refused too.
            Ok(found) if !found.file_type().is_socket() => return Err(ErrorKind::AddrInUse.into()),
            Ok(_) => match UnixStream::connect(path) {
                Ok(_) => return Err(ErrorKind::AddrInUse.into()),
                Err(e) if e.kind() == ErrorKind::ConnectionRefused => std::fs::remove_file(path)?,
                Err(_) => {}
            },
            Err(_) => {}
        }
        let fd = bind_unix_deaf(path, mode)?;
        raw::listen(&fd)?;
        let listener = UnixListener::from(fd);
        listener.set_nonblocking(true)?;
        Ok(Listener::new(listener, None))
    }

    /// Stops accepting connections: a task that waits for one gets an error. Never suspends.
    pub fn shutdown(&self) {
        self.is_shut.store(true, Ordering::Release);
        // SAFETY: invariant 1. A listener can be shut down at any time.
        unsafe { libc::shutdown(self.fd.as_raw_fd(), libc::SHUT_RDWR) };
    }

    /// The TCP address it listens on.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The next connection. Suspends.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn accept(&self) -> io::Result<Stream> {
        self.accept_within(FOREVER)
    }

    /// As [`Listener::accept`]; TimedOut when none came within this many nanoseconds.
    ///
    /// # Errors
    /// Also what the operating system says.
    pub fn accept_within(&self, timeout_nanos: u64) -> io::Result<Stream> {
        let fd = self.fd.as_raw_fd();
        when_ready(self.socket, libc::POLLIN, timeout_nanos, || {
            if self.is_shut.load(Ordering::Acquire) {
                return Err(ErrorKind::NotConnected.into());
            }
            // SAFETY: invariant 1; no address is asked for.
            let new = unsafe {
                let none = std::ptr::null_mut();
                libc::accept4(fd, none, std::ptr::null_mut(), libc::SOCK_CLOEXEC)
            };
            let number = counted(new as isize).map_err(gone_or)?;
            // SAFETY: a new descriptor without another owner.
            let fd = unsafe { OwnedFd::from_raw_fd(number as RawFd) };
            // A connection that its client has reset cannot be set up; the listener is unaffected.
            self.welcome(fd).map_err(|_| gone())
        })
    }

    /// Sets up a connection.
    fn welcome(&self, fd: OwnedFd) -> io::Result<Stream> {
        if self.address.is_none() {
            return Ok(Stream::new(fd));
        }
        let stream = TcpStream::from(fd);
        // Replies are sent whole, so waiting for more data (Nagle) would only delay them.
        stream.set_nodelay(true)?;
        let ends = Some((stream.local_addr()?, stream.peer_addr()?));
        Ok(Stream { ends, ..Stream::new(stream) })
    }
}

/// Which directions of a stream end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Nothing more will be sent: the other side sees the end of the stream.
    Send,
    /// Nothing more will be received: a task that waits for data gets the end of the stream.
    Receive,
    /// Both.
    Both,
}

/// A connection.
#[derive(Debug)]
pub struct Stream {
    /// In blocking mode, so that the ring waits for it.
    fd: OwnedFd,
    socket: Socket,
    receive_nanos: AtomicU64,
    send_nanos: AtomicU64,
    /// Our TCP address and the peer's.
    ends: Option<(SocketAddr, SocketAddr)>,
}

impl Stream {
    fn new(fd: impl Into<OwnedFd>) -> Stream {
        let (fd, forever) = (fd.into(), || AtomicU64::new(FOREVER));
        let socket = Socket::new(fd.as_raw_fd());
        Stream { fd, socket, receive_nanos: forever(), send_nanos: forever(), ends: None }
    }

    /// Our TCP address, for an accepted connection.
    pub fn local(&self) -> Option<SocketAddr> {
        self.ends.map(|ends| ends.0)
    }

    /// The peer's TCP address, for an accepted connection.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.ends.map(|ends| ends.1)
    }

    /// Connects to a TCP address within this many nanoseconds. Suspends.
    ///
    /// # Errors
    /// TimedOut, or what the operating system says.
    pub fn connect_tcp(address: SocketAddr, timeout_nanos: u64) -> io::Result<Stream> {
        let (fd, is_begun) = Address::from(address).connect()?;
        let mut new = Stream::new(fd);
        if is_begun {
            wait_for(new.socket, libc::POLLOUT, deadline(timeout_nanos))?;
            raw::outcome(new.socket.fd)?;
        }
        let stream = TcpStream::from(new.fd);
        stream.set_nodelay(true)?;
        stream.set_nonblocking(false)?;
        new.fd = stream.into();
        Ok(new)
    }

    /// Connects to a name in the file system. Suspends.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn connect_unix(path: &Path) -> io::Result<Stream> {
        let connected = match Address::unix(path)?.connect() {
            // There is no event for when the listener has room again: a thread waits.
            Err(e) if e.kind() == ErrorKind::WouldBlock => offload(|| UnixStream::connect(path))?,
            begun => UnixStream::from(begun?.0),
        };
        connected.set_nonblocking(false)?;
        Ok(Stream::new(connected))
    }

    /// Two connected streams.
    ///
    /// # Errors
    /// No descriptors or memory.
    pub fn pair() -> io::Result<(Stream, Stream)> {
        let (one, other) = UnixStream::pair()?;
        Ok((Stream::new(one), Stream::new(other)))
    }

    /// From now on each wait to receive lasts at most this many nanoseconds.
    pub fn set_receive_timeout(&self, nanos: Option<u64>) {
        self.receive_nanos.store(nanos.unwrap_or(FOREVER), Ordering::Relaxed);
    }

    /// From now on each wait to send lasts at most this many nanoseconds.
    pub fn set_send_timeout(&self, nanos: Option<u64>) {
        self.send_nanos.store(nanos.unwrap_or(FOREVER), Ordering::Relaxed);
    }

    /// After this many idle seconds TCP probes the other side, three times within the same period
    /// again; when it does not answer, the stream ends with an error. 0 for never.
    ///
    /// # Errors
    /// It is not a TCP stream, or what the operating system says.
    pub fn set_keepalive(&self, seconds: u32) -> io::Result<()> {
        const PROBES: libc::c_int = 3;
        let idle = libc::c_int::try_from(seconds).unwrap_or(libc::c_int::MAX);
        let (tcp, is_on) = (libc::IPPROTO_TCP, libc::c_int::from(idle > 0));
        let set = |level, name, value| raw::set_option(self.socket.fd, level, name, value);
        set(libc::SOL_SOCKET, libc::SO_KEEPALIVE, is_on)?;
        if idle > 0 {
            set(tcp, libc::TCP_KEEPIDLE, idle)?;
            set(tcp, libc::TCP_KEEPINTVL, (idle / PROBES).max(1))?;
            set(tcp, libc::TCP_KEEPCNT, PROBES)?;
        }
        Ok(())
    }

    /// Receives available data, at least one byte; 0 when the other side has closed. Suspends.
    ///
    /// # Errors
    /// TimedOut, or what the operating system says.
    pub fn receive(&self, buf: &mut [u8]) -> io::Result<usize> {
        let (socket, timeout) = (self.socket, self.receive_nanos.load(Ordering::Relaxed));
        let in_ring = with_reactor(|reactor| {
            let limits = Limits { deadline: deadline(timeout), token: None };
            reactor.run_within(Op::receive(socket, buf), limits)
        });
        if let Some(result) = in_ring {
            return result.map(|n| n as usize);
        }
        when_ready(socket, libc::POLLIN, timeout, || {
            // SAFETY: invariant 1.
            counted(unsafe {
                libc::recv(socket.fd, buf.as_mut_ptr().cast(), buf.len(), libc::MSG_DONTWAIT)
            })
        })
    }

    /// Sends all of `data`. Suspends when the other side does not keep up.
    ///
    /// # Errors
    /// TimedOut, BrokenPipe, or what the operating system says; part of `data` may have been sent.
    pub fn send_all(&self, data: &[u8]) -> io::Result<()> {
        let (socket, timeout) = (self.socket, self.send_nanos.load(Ordering::Relaxed));
        let mut rest = data;
        while !rest.is_empty() {
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            // SAFETY: invariant 1.
            let sent =
                counted(unsafe { libc::send(socket.fd, rest.as_ptr().cast(), rest.len(), flags) });
            match sent {
                Ok(n) => rest = &rest[n..],
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    let limits = Limits { deadline: deadline(timeout), token: None };
                    match with_reactor(|r| r.run_within(Op::send(socket, rest), limits)) {
                        Some(sent) => rest = &rest[sent? as usize..],
                        None => wait_for(socket, libc::POLLOUT, limits.deadline)?,
                    }
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// As [`Stream::send_all`] and then [`Stream::receive`], whose timeout begins now. On a fiber
    /// over io_uring both are submitted at once, together with what other fibers send in the same
    /// turn of the loop. Suspends.
    ///
    /// # Errors
    /// As both.
    pub fn exchange(&self, data: &[u8], buf: &mut [u8]) -> io::Result<usize> {
        let mut rest = data;
        let mut received = None;
        if !data.is_empty() {
            let timeout = self.receive_nanos.load(Ordering::Relaxed);
            let both = with_reactor(|reactor| {
                let limits = Limits { deadline: deadline(timeout), token: None };
                reactor.exchange(self.socket, data, buf, limits)
            });
            if let Some(both) = both.flatten() {
                rest = &data[both.sent?..];
                received = both.received;
            }
        }
        self.send_all(rest)?;
        match received {
            // The client may have used up the time reading the rest.
            Some(Err(e)) if e.kind() == ErrorKind::TimedOut && !rest.is_empty() => {
                self.receive(buf)
            }
            Some(done) => done,
            None => self.receive(buf),
        }
    }

    /// Waits until the other side has ended, or this one was shut down, and receives nothing; at
    /// most this many nanoseconds. Suspends.
    ///
    /// # Errors
    /// TimedOut; Interrupted once `token` is cancelled; or what the operating system says.
    pub fn wait_for_end(&self, nanos: Option<u64>, token: &CancelToken) -> io::Result<()> {
        /// How often a thread, which a token cannot wake here, checks it.
        const LOOK_NANOS: u64 = 50_000_000;
        let (socket, events) = (self.socket, libc::POLLRDHUP);
        let limits = Limits { deadline: deadline(nanos.unwrap_or(FOREVER)), token: Some(token) };
        if let Some(result) = with_reactor(|r| r.run_within(Op::poll(socket, events), limits)) {
            return result.map(drop);
        }
        loop {
            let now = time::monotonic_nanos();
            let until = limits.deadline.unwrap_or(FOREVER).min(now + LOOK_NANOS);
            match wait_for(socket, events, Some(until)) {
                _ if token.is_cancelled() => return Err(ErrorKind::Interrupted.into()),
                Err(e) if e.kind() == ErrorKind::TimedOut && limits.deadline != Some(until) => {}
                ended => return ended,
            }
        }
    }

    /// Ends directions of the stream, including for tasks that wait on them now. Never suspends.
    ///
    /// # Errors
    /// NotConnected when the other side has gone.
    pub fn shutdown(&self, direction: Direction) -> io::Result<()> {
        let how = match direction {
            Direction::Send => libc::SHUT_WR,
            Direction::Receive => libc::SHUT_RD,
            Direction::Both => libc::SHUT_RDWR,
        };
        // SAFETY: invariant 1.
        counted(unsafe { libc::shutdown(self.fd.as_raw_fd(), how) } as isize).map(drop)
    }

    /// The number of its descriptor, for people.
    pub fn descriptor(&self) -> i32 {
        self.fd.as_raw_fd()
    }
}

#[cfg(test)]
mod tests;
