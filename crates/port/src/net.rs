//! Sockets, TCP and Unix: a fiber that waits for one suspends, a thread blocks.
//!
//! On a fiber receiving goes through the loop's ring, so thousands of idle connections cost no
//! thread; sending is tried at once and waits in the ring only when the other side is slow. Waiting
//! ends early by a timeout, by the other side, or by [`Stream::shutdown`] from any task.
//!
//! Invariants cited by unsafe blocks: 1. descriptors are open as long as their owner lives; buffers
//! are live slices with their true lengths.
//!
//! Thread safety: everything may be shared; bytes of concurrent sends are not kept apart. In a
//! simulation there is no network: these are the machine's sockets and block the simulation.

use crate::fiber::{offload, with_reactor};
use crate::io::{self as ring, CancelToken, Limits, Op};
use crate::time;
use std::io::{self, ErrorKind};
pub use std::net::SocketAddr;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// No limit.
const FOREVER: u64 = u64::MAX;

/// The deadline of a wait that begins now.
fn deadline(timeout_nanos: u64) -> Option<u64> {
    let limited = timeout_nanos != FOREVER;
    limited.then(|| time::monotonic_nanos().saturating_add(timeout_nanos))
}

/// Waits until one of `events` is there. Suspends a fiber.
fn wait_for(fd: RawFd, events: i16, deadline: Option<u64>) -> io::Result<()> {
    let limits = Limits { deadline, token: None };
    if let Some(result) = with_reactor(|r| r.run_within(Op::poll(fd, events), limits)) {
        return result.map(drop);
    }
    loop {
        let left = deadline.map(|d| d.saturating_sub(time::monotonic_nanos()));
        match ring::wait_for(fd, events, left) {
            Ok(0) if left == Some(0) => return Err(ErrorKind::TimedOut.into()),
            Ok(0) | Err(libc::EINTR) => {}
            Ok(_) => return Ok(()),
            Err(e) => return Err(io::Error::from_raw_os_error(-e)),
        }
    }
}

/// Repeats a call that does not wait whenever `events` are there, until it can be done.
fn when_ready(
    fd: RawFd,
    events: i16,
    timeout_nanos: u64,
    mut call: impl FnMut() -> io::Result<usize>,
) -> io::Result<usize> {
    let mut until = None;
    loop {
        match call() {
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                // The clock is read only by who must wait.
                let until = *until.get_or_insert_with(|| deadline(timeout_nanos));
                wait_for(fd, events, until)?;
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

fn counted(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Takes connections.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    address: Option<SocketAddr>,
    /// A Unix listener that was shut is ready for ever, but has nothing to say.
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
        Ok(Listener { address, fd: listener.into(), is_shut: AtomicBool::new(false) })
    }

    /// Listens on a name in the file system, which must be free.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn bind_unix(path: &Path) -> io::Result<Listener> {
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        Ok(Listener { address: None, fd: listener.into(), is_shut: AtomicBool::new(false) })
    }

    /// As [`Listener::bind_unix`], with that mode; a socket that a program left behind there goes
    /// first.
    ///
    /// # Errors
    /// AddrInUse when somebody listens there, or what the operating system says.
    pub fn bind_unix_anew(path: &Path, mode: u32) -> io::Result<Listener> {
        match UnixStream::connect(path) {
            Ok(_) => return Err(ErrorKind::AddrInUse.into()),
            Err(e) if e.kind() == ErrorKind::ConnectionRefused => std::fs::remove_file(path)?,
            Err(_) => {}
        }
        let listener = Self::bind_unix(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
        Ok(listener)
    }

    /// Takes no connection any more: who waits for one gets an error. Never suspends.
    pub fn shutdown(&self) {
        self.is_shut.store(true, Ordering::Release);
        // SAFETY: invariant 1. A listener can be shut at any time.
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

    /// As [`Listener::accept`]; TimedOut when none came within so many nanoseconds.
    ///
    /// # Errors
    /// Also what the operating system says.
    pub fn accept_within(&self, timeout_nanos: u64) -> io::Result<Stream> {
        let fd = self.fd.as_raw_fd();
        let number = when_ready(fd, libc::POLLIN, timeout_nanos, || {
            if self.is_shut.load(Ordering::Acquire) {
                return Err(ErrorKind::NotConnected.into());
            }
            // SAFETY: invariant 1; no address is asked for.
            let new = unsafe {
                let none = std::ptr::null_mut();
                libc::accept4(fd, none, std::ptr::null_mut(), libc::SOCK_CLOEXEC)
            };
            counted(new as isize)
        })?;
        // SAFETY: a new descriptor that nobody else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(number as RawFd) };
        if self.address.is_none() {
            return Ok(Stream::new(fd));
        }
        let stream = TcpStream::from(fd);
        // Replies are sent whole: waiting for more would only delay them.
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
    /// Nothing more will be received: who waits for it gets the end of the stream.
    Receive,
    /// Both.
    Both,
}

/// A connection.
#[derive(Debug)]
pub struct Stream {
    /// In blocking mode, so that the ring waits for it.
    fd: OwnedFd,
    receive_nanos: AtomicU64,
    send_nanos: AtomicU64,
    /// Our address and the other's, of TCP.
    ends: Option<(SocketAddr, SocketAddr)>,
}

impl Stream {
    fn new(fd: impl Into<OwnedFd>) -> Stream {
        let forever = || AtomicU64::new(FOREVER);
        Stream { fd: fd.into(), receive_nanos: forever(), send_nanos: forever(), ends: None }
    }

    /// Our TCP address, of a connection that was accepted.
    pub fn local(&self) -> Option<SocketAddr> {
        self.ends.map(|ends| ends.0)
    }

    /// The other side's TCP address, of a connection that was accepted.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.ends.map(|ends| ends.1)
    }

    /// Connects to a TCP address within so many nanoseconds. Suspends.
    ///
    /// # Errors
    /// TimedOut, or what the operating system says.
    pub fn connect_tcp(address: SocketAddr, timeout_nanos: u64) -> io::Result<Stream> {
        let limit = Duration::from_nanos(timeout_nanos.max(1));
        let stream = offload(|| TcpStream::connect_timeout(&address, limit))?;
        stream.set_nodelay(true)?;
        Ok(Stream::new(stream))
    }

    /// Connects to a name in the file system. Suspends.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn connect_unix(path: &Path) -> io::Result<Stream> {
        Ok(Stream::new(offload(|| UnixStream::connect(path))?))
    }

    /// Two connected streams.
    ///
    /// # Errors
    /// No descriptors or memory.
    pub fn pair() -> io::Result<(Stream, Stream)> {
        let (one, other) = UnixStream::pair()?;
        Ok((Stream::new(one), Stream::new(other)))
    }

    /// From now on each wait to receive lasts at most so many nanoseconds.
    pub fn set_receive_timeout(&self, nanos: Option<u64>) {
        self.receive_nanos.store(nanos.unwrap_or(FOREVER), Ordering::Relaxed);
    }

    /// From now on each wait to send lasts at most so many nanoseconds.
    pub fn set_send_timeout(&self, nanos: Option<u64>) {
        self.send_nanos.store(nanos.unwrap_or(FOREVER), Ordering::Relaxed);
    }

    /// Receives what is there, at least one byte; 0 when the other side has ended. Suspends.
    ///
    /// # Errors
    /// TimedOut, or what the operating system says.
    pub fn receive(&self, buf: &mut [u8]) -> io::Result<usize> {
        let (fd, timeout) = (self.fd.as_raw_fd(), self.receive_nanos.load(Ordering::Relaxed));
        let in_ring = with_reactor(|reactor| {
            let limits = Limits { deadline: deadline(timeout), token: None };
            reactor.run_within(Op::receive(fd, buf), limits)
        });
        if let Some(result) = in_ring {
            return result.map(|n| n as usize);
        }
        when_ready(fd, libc::POLLIN, timeout, || {
            // SAFETY: invariant 1.
            counted(unsafe {
                libc::recv(fd, buf.as_mut_ptr().cast(), buf.len(), libc::MSG_DONTWAIT)
            })
        })
    }

    /// Sends all of `data`. Suspends when the other side does not keep up.
    ///
    /// # Errors
    /// TimedOut, BrokenPipe, or what the operating system says; part of `data` may have been sent.
    pub fn send_all(&self, data: &[u8]) -> io::Result<()> {
        let (fd, timeout) = (self.fd.as_raw_fd(), self.send_nanos.load(Ordering::Relaxed));
        let mut rest = data;
        while !rest.is_empty() {
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            // SAFETY: invariant 1.
            let sent = counted(unsafe { libc::send(fd, rest.as_ptr().cast(), rest.len(), flags) });
            match sent {
                Ok(n) => rest = &rest[n..],
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    let limits = Limits { deadline: deadline(timeout), token: None };
                    match with_reactor(|r| r.run_within(Op::send(fd, rest), limits)) {
                        Some(sent) => rest = &rest[sent? as usize..],
                        None => wait_for(fd, libc::POLLOUT, limits.deadline)?,
                    }
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Waits until the other side has ended, or this one was shut, and receives nothing; at most so
    /// many nanoseconds. Suspends.
    ///
    /// # Errors
    /// TimedOut; Interrupted once `token` is cancelled; or what the operating system says.
    pub fn wait_for_end(&self, nanos: Option<u64>, token: &CancelToken) -> io::Result<()> {
        /// How often a thread, which no token can wake here, looks at it.
        const LOOK_NANOS: u64 = 50_000_000;
        let (fd, events) = (self.fd.as_raw_fd(), libc::POLLRDHUP);
        let limits = Limits { deadline: deadline(nanos.unwrap_or(FOREVER)), token: Some(token) };
        if let Some(result) = with_reactor(|r| r.run_within(Op::poll(fd, events), limits)) {
            return result.map(drop);
        }
        loop {
            let now = time::monotonic_nanos();
            let until = limits.deadline.unwrap_or(FOREVER).min(now + LOOK_NANOS);
            match wait_for(fd, events, Some(until)) {
                _ if token.is_cancelled() => return Err(ErrorKind::Interrupted.into()),
                Err(e) if e.kind() == ErrorKind::TimedOut && limits.deadline != Some(until) => {}
                ended => return ended,
            }
        }
    }

    /// Ends directions of the stream, also for tasks that wait in them now. Never suspends.
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
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::fiber::{IoMode, Runtime};
    use crate::thread;
    use std::sync::Arc;

    /// Runs `test` on threads, and on fibers over either kind of ring.
    fn on_each_runtime(test: impl Fn() + Sync) {
        test();
        for mode in [IoMode::Uring, IoMode::Threads] {
            let runtime = Runtime::builder().loops(2).io(mode).spawn_as_fibers(true);
            runtime.build().unwrap().run("main", &test);
        }
    }

    fn receive_all(stream: &Stream) -> Vec<u8> {
        let mut all = Vec::new();
        let mut buf = [0; 1000];
        loop {
            match stream.receive(&mut buf).unwrap() {
                0 => return all,
                n => all.extend(&buf[..n]),
            }
        }
    }

    /// Sends back what it gets until the stream ends, then ends its own direction.
    fn echo(stream: &Stream) {
        let mut buf = [0; 4096];
        loop {
            match stream.receive(&mut buf).unwrap() {
                0 => break,
                n => stream.send_all(&buf[..n]).unwrap(),
            }
        }
        stream.shutdown(Direction::Send).unwrap();
    }

    fn many_clients(listener: Listener, connect: impl Fn() -> Stream + Sync) {
        const CLIENTS: usize = 20;
        let server = thread::spawn("server", move || {
            let streams: Vec<_> = (0..CLIENTS).map(|_| listener.accept().unwrap()).collect();
            let serve = |stream| thread::spawn("echo", move || echo(&stream));
            let echoes: Vec<_> = streams.into_iter().map(serve).collect();
            echoes.into_iter().for_each(|echo| echo.join().unwrap());
        });
        thread::scope(|scope| {
            for client in 0..CLIENTS {
                let connect = &connect;
                scope.spawn(move || {
                    let stream = connect();
                    let sent: Vec<u8> = (0..200_000).map(|i| (i * 7 + client) as u8).collect();
                    for chunk in sent.chunks(1234).take(20) {
                        let mut back = vec![0; chunk.len()];
                        stream.send_all(chunk).unwrap();
                        let mut have = 0;
                        while have < chunk.len() {
                            have += stream.receive(&mut back[have..]).unwrap();
                        }
                        assert_eq!(back, chunk);
                    }
                    // Half closed: what is on its way still arrives.
                    stream.send_all(&sent[..10_000]).unwrap();
                    stream.shutdown(Direction::Send).unwrap();
                    assert!(receive_all(&stream) == sent[..10_000]);
                });
            }
        });
        server.join().unwrap();
    }

    #[test]
    fn a_tcp_server_answers_many_clients() {
        on_each_runtime(|| {
            let listener = Listener::bind_tcp(([127, 0, 0, 1], 0).into()).unwrap();
            let address = listener.address().unwrap();
            many_clients(listener, || Stream::connect_tcp(address, 10_000_000_000).unwrap());
        });
    }

    #[test]
    fn a_unix_server_answers_many_clients() {
        let name = format!("pumice-net-{}.sock", std::process::id());
        let path = std::env::temp_dir().join(name);
        on_each_runtime(|| {
            let listener = Listener::bind_unix(&path).unwrap();
            many_clients(listener, || Stream::connect_unix(&path).unwrap());
            std::fs::remove_file(&path).unwrap();
        });
    }

    #[test]
    fn a_listener_that_is_shut_lets_its_waiters_go() {
        on_each_runtime(|| {
            let listener = Listener::bind_tcp(([127, 0, 0, 1], 0).into()).unwrap();
            let near = Stream::connect_tcp(listener.address().unwrap(), 10_000_000_000).unwrap();
            let far = listener.accept().unwrap();
            assert_eq!(far.local(), listener.address());
            assert!(far.peer().unwrap().ip().is_loopback() && near.peer().is_none());
            let name = format!("pumice-net-shut-{}.sock", std::process::id());
            let path = std::env::temp_dir().join(name);
            for listener in [listener, Listener::bind_unix_anew(&path, 0o700).unwrap()] {
                let listener = Arc::new(listener);
                let waiting = Arc::clone(&listener);
                let waiter = thread::spawn("w", move || waiting.accept().is_err());
                thread::sleep(Duration::from_millis(1));
                listener.shutdown();
                assert!(waiter.join().unwrap());
            }
            std::fs::remove_file(&path).unwrap();
        });
    }

    #[test]
    fn a_socket_that_was_left_behind_is_replaced() {
        let name = format!("pumice-net-anew-{}.sock", std::process::id());
        let path = std::env::temp_dir().join(name);
        let first = Listener::bind_unix_anew(&path, 0o700).unwrap();
        let e = Listener::bind_unix_anew(&path, 0o700).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::AddrInUse);
        drop(first);
        drop(Listener::bind_unix_anew(&path, 0o770).unwrap());
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o770);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn waiting_ends_by_timeouts_and_by_shutdown() {
        on_each_runtime(|| {
            let listener = Listener::bind_tcp(([127, 0, 0, 1], 0).into()).unwrap();
            let e = listener.accept_within(1_000_000).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::TimedOut);
            let (near, far) = Stream::pair().unwrap();
            near.set_receive_timeout(Some(1_000_000));
            let mut buf = [0; 10];
            assert_eq!(near.receive(&mut buf).unwrap_err().kind(), ErrorKind::TimedOut);
            far.send_all(b"late").unwrap();
            assert_eq!(near.receive(&mut buf).unwrap(), 4);
            // A side that does not read: the queue between them fills up.
            near.set_send_timeout(Some(1_000_000));
            let e = near.send_all(&vec![1; 8 << 20]).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::TimedOut);
            near.set_receive_timeout(None);
            let near = Arc::new(near);
            let waiting = Arc::clone(&near);
            let waiter = thread::spawn("w", move || waiting.receive(&mut [0; 1]).unwrap());
            thread::sleep(Duration::from_millis(1));
            near.shutdown(Direction::Both).unwrap();
            assert_eq!(waiter.join().unwrap(), 0);
            assert_eq!(near.send_all(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
        });
    }

    #[test]
    fn a_slow_reader_stops_the_sender_and_loses_nothing() {
        on_each_runtime(|| {
            let (near, far) = Stream::pair().unwrap();
            let data: Vec<u8> = (0..4 << 20).map(|i: u32| (i >> 8) as u8).collect();
            let same = data.clone();
            let sender = thread::spawn("sender", move || {
                near.send_all(&data).unwrap();
                near.shutdown(Direction::Send).unwrap();
            });
            assert!(receive_all(&far) == same);
            sender.join().unwrap();
        });
    }

    #[test]
    fn waiting_for_the_end_ends_by_the_other_side_by_time_and_by_a_token() {
        on_each_runtime(|| {
            let (one, other) = Stream::pair().unwrap();
            let token = Arc::new(CancelToken::new());
            let kind =
                |limit, token: &CancelToken| one.wait_for_end(limit, token).map_err(|e| e.kind());
            // What can be received is no end.
            other.send_all(b"x").unwrap();
            assert_eq!(kind(Some(1_000_000), &token), Err(ErrorKind::TimedOut));
            let same = Arc::clone(&token);
            let canceller = thread::spawn("cancels", move || same.cancel());
            assert_eq!(kind(None, &token), Err(ErrorKind::Interrupted));
            canceller.join().unwrap();
            let closer = thread::spawn("closes", move || drop(other));
            assert_eq!(kind(None, &CancelToken::new()), Ok(()));
            closer.join().unwrap();
        });
    }
}
