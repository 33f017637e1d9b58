//! Connections accepted by one multishot request, and by calls where there is none.

use super::*;
use crate::fiber;
use crate::sync::Event;

const BOUND: u64 = 60_000_000_000;

#[test]
fn all_that_come_are_taken_in_turn() {
    on_each_runtime(|| {
        const CLIENTS: usize = 100;
        let listener = Arc::new(Listener::bind_tcp(([127, 0, 0, 1], 0).into()).unwrap());
        let address = listener.address().unwrap();
        let own = Arc::clone(&listener);
        let server = thread::spawn("accepts", move || {
            let mut incoming = own.incoming();
            let has_ring = fiber::with_reactor(|reactor| reactor.has_ring()) == Some(true);
            let mut taken = 0;
            while let Ok(stream) = incoming.accept() {
                // This kernel supports it, if it allows a ring at all.
                assert_eq!(incoming.is_series(), has_ring);
                assert_eq!(stream.local(), Some(address));
                stream.send_all(&[taken as u8]).unwrap();
                taken += 1;
            }
            taken
        });
        for number in 0..CLIENTS {
            let mut together = Vec::new();
            for _ in 0..=number % 4 {
                together.push(Stream::connect_tcp(address, BOUND).unwrap());
            }
            for stream in together {
                stream.set_receive_timeout(Some(BOUND));
                assert_eq!(receive_all(&stream).len(), 1);
            }
        }
        listener.shutdown();
        let all: usize = (0..CLIENTS).map(|number| 1 + number % 4).sum();
        assert_eq!(server.join().unwrap(), all);
    });
}

/// A connection that was accepted but not taken is closed: the other side sees the end, and the
/// name is free.
#[test]
fn what_nobody_asks_for_is_closed() {
    for mode in [IoMode::Uring, IoMode::Threads] {
        let runtime = Runtime::builder().loops(1).io(mode).build().unwrap();
        for panics in [false, true] {
            let listener = Arc::new(Listener::bind_tcp(([127, 0, 0, 1], 0).into()).unwrap());
            let address = listener.address().unwrap();
            let (own, begun) = (Arc::clone(&listener), Arc::new(Event::new()));
            let go_on = Arc::new(Event::new());
            let (told, waits) = (Arc::clone(&begun), Arc::clone(&go_on));
            let server = runtime.spawn("accepts", move || {
                let mut incoming = own.incoming();
                drop(incoming.accept().unwrap());
                told.set();
                waits.wait();
                assert!(!panics, "as it should");
            });
            let first = Stream::connect_tcp(address, BOUND).unwrap();
            begun.wait();
            let more: Vec<_> =
                (0..20).map(|_| Stream::connect_tcp(address, BOUND).unwrap()).collect();
            go_on.set();
            assert_eq!(server.join().is_err(), panics);
            drop(listener);
            for stream in more.iter().chain([&first]) {
                stream.set_receive_timeout(Some(BOUND));
                // The end of the stream, or a reset because the connection was never taken.
                let end = stream.receive(&mut [0]).map_err(|e| e.kind());
                assert!(matches!(end, Ok(0) | Err(ErrorKind::ConnectionReset)), "{end:?}");
            }
            // A fiber that unwinds releases the listener a moment later.
            let until = crate::time::monotonic_nanos() + BOUND;
            while panics && Listener::bind_tcp(address).is_err() {
                assert!(crate::time::monotonic_nanos() < until, "the name is free again");
                runtime.run("turns", || thread::sleep(Duration::from_micros(100)));
            }
            drop(Listener::bind_tcp(address).unwrap());
        }
    }
}

#[test]
fn a_shut_listener_brings_nothing_more() {
    on_each_runtime(|| {
        let name = format!("pumice-net-incoming-{}.sock", std::process::id());
        let path = std::env::temp_dir().join(name);
        let tcp = Listener::bind_tcp(([127, 0, 0, 1], 0).into()).unwrap();
        for listener in [tcp, Listener::bind_unix(&path, 0o700).unwrap()] {
            let listener = Arc::new(listener);
            let own = Arc::clone(&listener);
            let waiter = thread::spawn("waits", move || {
                let mut incoming = own.incoming();
                let first = incoming.accept().map(drop).map_err(|e| e.kind());
                (first, incoming.accept().map(drop).map_err(|e| e.kind()))
            });
            thread::yield_now();
            listener.shutdown();
            let shut = Err(ErrorKind::NotConnected);
            assert_eq!(waiter.join().unwrap(), (shut, shut));
        }
        std::fs::remove_file(&path).unwrap();
    });
}
