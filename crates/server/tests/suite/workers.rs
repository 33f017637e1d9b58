//! `runtime threads`: the same server with a pool of threads that call the engine.

use pumice_port::net::Direction;
use pumice_port::thread;

use super::Scratch;
use super::connections::{Caller, start};

const THREADS: (&str, &str) = ("runtime", "threads");

#[pumice_test_macros::test]
fn a_pool_of_workers_serves_clients_side_by_side() {
    let scratch = Scratch::new("workers");
    let settings = [THREADS, ("workers", "3"), ("appendfsync", "always")];
    for life in 0..2 {
        let running = start(scratch.path(), &settings);
        let mut caller = Caller::to(&running);
        assert_eq!(caller.line("DBSIZE"), format!(":{}", life * 1001));
        thread::scope(|scope| {
            for client in 0..10 {
                let running = &running;
                scope.spawn(move || {
                    let mut caller = Caller::to(running);
                    let mut bytes = String::new();
                    for i in 0..100 {
                        bytes += &format!("SET k{client}:{i} {i}\r\nINCR shared\r\n");
                    }
                    bytes += "PING end\r\n";
                    // A pipeline that comes in pieces.
                    let (one, two) = bytes.as_bytes().split_at(777);
                    caller.send(one);
                    caller.send(two);
                    let replies = caller.until("$3\r\nend\r\n");
                    assert_eq!(replies.matches("+OK\r\n").count(), 100);
                });
            }
        });
        assert_eq!(caller.line("DBSIZE"), ":1001");
        caller.send(b"GET shared\r\n");
        let sum = (1000 * (life + 1)).to_string();
        assert_eq!(caller.until(&format!("{sum}\r\n")), format!("$4\r\n{sum}\r\n"));
        // What has arrived is answered before the end.
        caller.send(b"PING\r\nECHO last\r\n");
        caller.stream.shutdown(Direction::Send).unwrap();
        assert_eq!(caller.until_closed(), "+PONG|$4|last");
        running.stop().unwrap();
    }
}

#[pumice_test_macros::test]
fn who_waits_or_listens_keeps_no_worker() {
    let scratch = Scratch::new("waiters");
    let running = start(scratch.path(), &[THREADS, ("workers", "1"), ("loops", "1")]);
    let mut waiters: Vec<_> = (0..5).map(|_| Caller::to(&running)).collect();
    for waiter in &mut waiters {
        // The replies before and after the wait come in order.
        waiter.send(b"PING\r\nBLPOP list 0\r\nECHO done\r\n");
        assert_eq!(waiter.until("\r\n"), "+PONG\r\n");
    }
    let mut listener = Caller::to(&running);
    listener.send(b"PING\r\nSUBSCRIBE c\r\n");
    assert!(listener.until(":1\r\n").starts_with("+PONG\r\n*3\r\n"));
    let mut caller = Caller::to(&running);
    while running.shared().waiters.len() < 5 {
        thread::yield_now();
    }
    caller.send(b"MULTI\r\nRPUSH list 1 2 3 4 5\r\nPUBLISH c m\r\nEXEC\r\n");
    assert_eq!(caller.until(":1\r\n"), "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:5\r\n:1\r\n");
    for (waiter, n) in waiters.iter_mut().zip(1..) {
        let expected = format!("*2\r\n$4\r\nlist\r\n$1\r\n{n}\r\n$4\r\ndone\r\n");
        assert_eq!(waiter.until("done\r\n"), expected);
    }
    assert_eq!(listener.until("m\r\n"), "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n");
    caller.send(b"*1\r\n:1\r\n");
    assert_eq!(caller.until_closed(), "-ERR Protocol error: expected '$', got ':'");
    running.stop().unwrap();
}
