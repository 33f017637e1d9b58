//! Sockets serve many at once, end waits, and survive what peers leave behind or reset.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::fiber::{IoMode, Runtime};
use crate::thread;
use std::sync::Arc;
use std::time::Duration;

mod exchanges;
mod incoming;
mod waiting;

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
        let listener = Listener::bind_unix(&path, 0o700).unwrap();
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
        for listener in [listener, Listener::bind_unix(&path, 0o700).unwrap()] {
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
    let name = format!("pumice-net-again-{}.sock", std::process::id());
    let path = std::env::temp_dir().join(name);
    let first = Listener::bind_unix(&path, 0o700).unwrap();
    let e = Listener::bind_unix(&path, 0o700).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::AddrInUse);
    drop(first);
    drop(Listener::bind_unix(&path, 0o770).unwrap());
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o770);
    std::fs::remove_file(&path).unwrap();
    // It has its mode from the moment it has its name, before any client can connect.
    let deaf = bind_unix_deaf(&path, 0o700).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    let e = UnixStream::connect(&path).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::ConnectionRefused);
    drop(deaf);
    std::fs::remove_file(&path).unwrap();
}

/// Connecting to a regular file is refused just as by a stale socket.
#[test]
fn what_is_no_socket_stays() {
    let dir = std::env::temp_dir().join(format!("pumice-net-stays-{}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    let (file, socket, link) = (dir.join("CURRENT"), dir.join("socket"), dir.join("link"));
    std::fs::write(&file, "MANIFEST-000001").unwrap();
    drop(Listener::bind_unix(&socket, 0o700).unwrap());
    std::os::unix::fs::symlink(&socket, &link).unwrap();
    for path in [&file, &link, &dir] {
        let e = Listener::bind_unix(path, 0o700).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::AddrInUse, "{}", path.display());
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"MANIFEST-000001");
    assert!(link.is_symlink() && socket.exists());
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Connections to `address` that are open at the side of its listener, accepted or not.
fn open_at(address: SocketAddr) -> usize {
    let own = format!("0100007F:{:04X}", address.port());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let is_open = |line: &&str| {
        let words: Vec<_> = line.split_whitespace().collect();
        words.get(1) == Some(&own.as_str()) && words.get(3) == Some(&"01")
    };
    table.lines().filter(is_open).count()
}

#[test]
fn a_connection_that_was_reset_is_passed_over() {
    /// A hang fails after this time; nothing waits for it to pass.
    const BOUND: u64 = 60_000_000_000;
    on_each_runtime(|| {
        let listener = Listener::bind_tcp(([127, 0, 0, 1], 0).into()).unwrap();
        let address = listener.address().unwrap();
        let connect = || Stream::connect_tcp(address, 10_000_000_000).unwrap();
        for _ in 0..3 {
            let hasty = connect();
            let at_once = libc::linger { l_onoff: 1, l_linger: 0 };
            // SAFETY: invariant 1: a live local with its true size.
            let code = unsafe {
                let (fd, value) = (hasty.fd.as_raw_fd(), (&raw const at_once).cast());
                let len = size_of_val(&at_once) as libc::socklen_t;
                libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, value, len)
            };
            assert_eq!(code, 0);
        }
        // The kernel may process the resets later.
        let until = crate::time::monotonic_nanos() + BOUND;
        while open_at(address) > 0 {
            assert!(crate::time::monotonic_nanos() < until, "the resets have been seen");
            thread::yield_now();
        }
        let patient = connect();
        patient.send_all(b"patient").unwrap();
        let mut buf = [0; 7];
        assert_eq!(listener.accept().unwrap().receive(&mut buf).unwrap(), 7);
        assert_eq!(&buf, b"patient");
        drop(patient);
        drop(connect());
        let e = listener.accept_within(BOUND);
        assert!(e.is_ok(), "one that has ended in order is a connection");
    });
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
        // Data that can be received is not an end.
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

// Plain #[test]: it only reads socket options.
#[test]
fn keepalive_is_what_was_asked_for() {
    let listener = Listener::bind_tcp(([127, 0, 0, 1], 0).into()).unwrap();
    let client = Stream::connect_tcp(listener.address().unwrap(), 10_000_000_000).unwrap();
    let stream = listener.accept().unwrap();
    let option = |level, name| {
        let mut value: libc::c_int = -1;
        let mut len = size_of_val(&value) as libc::socklen_t;
        let to = (&raw mut value).cast();
        // SAFETY: invariant 1: a live local with its true size.
        let done = unsafe { libc::getsockopt(stream.fd.as_raw_fd(), level, name, to, &mut len) };
        assert_eq!(done, 0);
        value
    };
    let all = || {
        let tcp = [libc::TCP_KEEPIDLE, libc::TCP_KEEPINTVL, libc::TCP_KEEPCNT];
        (
            option(libc::SOL_SOCKET, libc::SO_KEEPALIVE),
            tcp.map(|name| option(libc::IPPROTO_TCP, name)),
        )
    };
    assert_eq!(all().0, 0);
    stream.set_keepalive(300).unwrap();
    assert_eq!(all(), (1, [300, 100, 3]));
    stream.set_keepalive(1).unwrap();
    assert_eq!(all(), (1, [1, 1, 3]));
    stream.set_keepalive(0).unwrap();
    assert_eq!(all().0, 0);
    assert!(Stream::pair().unwrap().0.set_keepalive(300).is_err());
    drop(client);
}
