//! A task that waits for a socket is woken by its events, and by none of an earlier socket with the
//! same descriptor; over io_uring, over epoll and on threads.

use super::*;
use crate::os;
use crate::sync::Event;
use std::sync::atomic::AtomicUsize;

/// A hang fails after this time; nothing waits for it to pass.
pub(super) const BOUND: u64 = 60_000_000_000;
pub(super) const SOON: u64 = 1_000_000;

fn tcp_pair() -> (Stream, Stream) {
    let listener = Listener::bind_tcp(([127, 0, 0, 1], 0).into()).unwrap();
    let near = Stream::connect_tcp(listener.address().unwrap(), BOUND).unwrap();
    (near, listener.accept_within(BOUND).unwrap())
}

/// Both kinds of stream; a receive on one of these does not wait forever.
pub(super) fn pairs() -> [(Stream, Stream); 2] {
    let pairs = [tcp_pair(), Stream::pair().unwrap()];
    for (near, far) in &pairs {
        near.set_receive_timeout(Some(BOUND));
        far.set_receive_timeout(Some(BOUND));
    }
    pairs
}

#[test]
fn a_descriptor_that_comes_back_is_another_socket() {
    on_each_runtime(|| {
        for round in 0..100u8 {
            for (near, far) in pairs() {
                // Known to the loop, then closed.
                near.set_receive_timeout(Some(1));
                let e = near.receive(&mut [0]).unwrap_err();
                assert_eq!(e.kind(), ErrorKind::TimedOut);
                drop((near, far));
            }
            for (near, far) in pairs() {
                let waiter = thread::spawn("waits", move || {
                    let mut buf = [0; 2];
                    assert_eq!((near.receive(&mut buf).unwrap(), buf), (1, [round, 0]));
                    near
                });
                thread::yield_now();
                far.send_all(&[round]).unwrap();
                drop(waiter.join().unwrap());
            }
        }
    });
}

#[test]
fn an_end_that_comes_with_bytes_is_seen() {
    on_each_runtime(|| {
        for round in 0..100 {
            for (near, far) in pairs() {
                let reader = thread::spawn("reads", move || receive_all(&far));
                if round % 2 == 0 {
                    thread::yield_now();
                }
                near.send_all(b"last").unwrap();
                match round % 3 {
                    0 => drop(near),
                    1 => near.shutdown(Direction::Send).unwrap(),
                    _ => near.shutdown(Direction::Both).unwrap(),
                }
                assert_eq!(reader.join().unwrap(), b"last");
            }
        }
    });
}

#[test]
fn what_is_left_can_be_received_at_once() {
    on_each_runtime(|| {
        for (near, far) in pairs() {
            near.send_all(&[7; 100]).unwrap();
            let mut all = 0;
            for bytes in [10, 20, 30, 39] {
                let mut buf = vec![0; bytes];
                all += far.receive(&mut buf).unwrap();
                assert!(buf.iter().all(|byte| *byte == 7));
            }
            // One byte is left, and room for more.
            assert_eq!((all, far.receive(&mut [0; 50]).unwrap()), (99, 1));
            far.set_receive_timeout(Some(SOON));
            assert_eq!(far.receive(&mut [0; 50]).unwrap_err().kind(), ErrorKind::TimedOut);
            near.send_all(&[8]).unwrap();
            far.set_receive_timeout(Some(BOUND));
            assert_eq!(far.receive(&mut [0; 50]).unwrap(), 1);
        }
    });
}

/// Receiving stops there, though more has come, which the kernel does not report again.
#[test]
fn urgent_bytes_keep_nothing_back() {
    on_each_runtime(|| {
        for first_waits in [true, false] {
            let (near, far) = tcp_pair();
            far.set_receive_timeout(Some(BOUND));
            let reader = |far: Stream| {
                thread::spawn("reads", move || {
                    let (mut all, mut buf) = (Vec::<u8>::new(), [0; 100]);
                    while all.len() < 4 {
                        let n = far.receive(&mut buf).unwrap();
                        all.extend(&buf[..n]);
                    }
                    all
                })
            };
            let send = || {
                near.send_all(b"ab").unwrap();
                // SAFETY: invariant 1.
                let sent = unsafe {
                    libc::send(near.fd.as_raw_fd(), b"c".as_ptr().cast(), 1, libc::MSG_OOB)
                };
                assert_eq!(sent, 1);
                near.send_all(b"de").unwrap();
            };
            let read = if first_waits {
                let reader = reader(far);
                thread::yield_now();
                send();
                reader
            } else {
                send();
                reader(far)
            };
            assert_eq!(read.join().unwrap(), b"abde");
        }
    });
}

#[test]
fn both_directions_wait_at_the_same_time() {
    const BYTES: usize = 3 << 20;
    on_each_runtime(|| {
        for (near, far) in pairs() {
            let near = Arc::new(near);
            let same = Arc::clone(&near);
            let echo = thread::spawn("echo", move || echo(&far));
            let sender = thread::spawn("sends", move || {
                same.send_all(&vec![5; BYTES]).unwrap();
                same.shutdown(Direction::Send).unwrap();
            });
            let back = receive_all(&near);
            assert!(back.len() == BYTES && back.iter().all(|byte| *byte == 5));
            sender.join().unwrap();
            echo.join().unwrap();
        }
    });
}

#[test]
fn each_connection_is_accepted_once_whoever_waits() {
    const CLIENTS: usize = 60;
    on_each_runtime(|| {
        let listener = Arc::new(Listener::bind_tcp(([127, 0, 0, 1], 0).into()).unwrap());
        let address = listener.address().unwrap();
        let taken = Arc::new(AtomicUsize::new(0));
        let takers: Vec<_> = (0..6)
            .map(|_| {
                let (listener, taken) = (Arc::clone(&listener), Arc::clone(&taken));
                thread::spawn("accepts", move || {
                    while let Ok(stream) = listener.accept() {
                        taken.fetch_add(1, Ordering::Relaxed);
                        stream.send_all(b"!").unwrap();
                    }
                })
            })
            .collect();
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                thread::spawn("connects", move || {
                    let stream = Stream::connect_tcp(address, BOUND).unwrap();
                    stream.set_receive_timeout(Some(BOUND));
                    assert_eq!(receive_all(&stream), b"!");
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
        listener.shutdown();
        takers.into_iter().for_each(|taker| taker.join().unwrap());
        assert_eq!(taken.load(Ordering::Relaxed), CLIENTS);
    });
}

#[test]
fn connecting_ends_by_time_and_by_refusal() {
    on_each_runtime(|| {
        let any = Address::from(SocketAddr::from(([127, 0, 0, 1], 0)));
        // A listener of one place.
        let fd = any.socket(0).unwrap();
        any.bind(&fd).unwrap();
        // SAFETY: no memory is involved.
        assert_eq!(unsafe { libc::listen(fd.as_raw_fd(), 0) }, 0);
        let listener = TcpListener::from(fd);
        let address = listener.local_addr().unwrap();
        let first = Stream::connect_tcp(address, BOUND).unwrap();
        let mut full = Vec::new();
        let e = loop {
            match Stream::connect_tcp(address, 20 * SOON) {
                Ok(more) => full.push(more),
                Err(e) => break e,
            }
            assert!(full.len() < 10);
        };
        assert_eq!(e.kind(), ErrorKind::TimedOut);
        let (accepted, _) = listener.accept().unwrap();
        std::io::Write::write_all(&mut &accepted, b"x").unwrap();
        first.set_receive_timeout(Some(BOUND));
        assert_eq!(first.receive(&mut [0; 5]).unwrap(), 1);
        drop((listener, accepted, first, full));
        // A name that is unused as long as this socket exists.
        let fd = any.socket(0).unwrap();
        any.bind(&fd).unwrap();
        let nobody = TcpListener::from(fd);
        let e = Stream::connect_tcp(nobody.local_addr().unwrap(), BOUND).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::ConnectionRefused);
        let e = Stream::connect_unix(Path::new("/nobody/is/here")).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::NotFound);
    });
}

/// A task that waits for a connection to time out does not block the others.
#[test]
fn thousands_of_waits_end_by_time_and_the_sockets_serve_on() {
    for mode in [IoMode::Uring, IoMode::Threads] {
        let runtime = Runtime::builder().loops(2).io(mode).build().unwrap();
        let most = (os::descriptor_limit() / 16).min(1000);
        let streams: Vec<_> = (0..most).map(|_| Stream::pair().unwrap()).collect();
        let streams = Arc::new(streams);
        let waits: Vec<_> = (0..streams.len())
            .map(|number| {
                let streams = Arc::clone(&streams);
                runtime.spawn("waits", move || {
                    let near = &streams[number].0;
                    for _ in 0..3 {
                        near.set_receive_timeout(Some(SOON));
                        let e = near.receive(&mut [0]).unwrap_err();
                        assert_eq!(e.kind(), ErrorKind::TimedOut);
                    }
                    near.set_receive_timeout(Some(BOUND));
                    streams[number].1.send_all(&[number as u8]).unwrap();
                    let mut buf = [0; 3];
                    assert_eq!((near.receive(&mut buf).unwrap(), buf[0]), (1, number as u8));
                })
            })
            .collect();
        waits.into_iter().for_each(|wait| wait.join().unwrap());
    }
}

/// Half as many as the limit of descriptors allows, up to ten thousand: each has its own fiber, all
/// wait together, and each gets its own bytes.
#[test]
fn ten_thousand_sockets_wait_together() {
    // Other tests use descriptors at the same time.
    let pairs = (os::descriptor_limit() / 4).min(5000) as usize;
    for mode in [IoMode::Uring, IoMode::Threads] {
        let runtime = Runtime::builder().loops(2).io(mode).stack_bytes(32 << 10);
        let runtime = runtime.build().unwrap();
        let (ready, all) = (Arc::new(AtomicUsize::new(0)), Arc::new(Event::new()));
        let mut ends = Vec::new();
        let mut fars = Vec::new();
        for number in 0..pairs {
            let (near, far) = Stream::pair().unwrap();
            let (ready, all) = (Arc::clone(&ready), Arc::clone(&all));
            let tag = (number as u32).to_le_bytes();
            ends.push(runtime.spawn("near", move || {
                if ready.fetch_add(1, Ordering::Relaxed) + 1 == pairs {
                    all.set();
                }
                near.set_receive_timeout(Some(BOUND));
                let mut buf = [0; 8];
                assert_eq!((near.receive(&mut buf).unwrap(), &buf[..4]), (4, &tag[..]));
                near.send_all(&buf[..4]).unwrap();
                assert_eq!(near.receive(&mut buf).unwrap(), 0);
            }));
            fars.push(far);
        }
        all.wait();
        for (number, far) in fars.iter().enumerate() {
            far.send_all(&(number as u32).to_le_bytes()).unwrap();
        }
        runtime.run("takes", || {
            for (number, far) in fars.iter().enumerate() {
                far.set_receive_timeout(Some(BOUND));
                let mut buf = [0; 8];
                assert_eq!(far.receive(&mut buf).unwrap(), 4);
                assert_eq!(buf[..4], (number as u32).to_le_bytes());
            }
        });
        drop(fars);
        ends.into_iter().for_each(|end| end.join().unwrap());
    }
}
