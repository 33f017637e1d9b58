//! The state left after a connection ends.
#![allow(clippy::unwrap_used)]
#![expect(clippy::disallowed_methods, reason = "the directory goes with the test")]

use std::time::Duration;

use super::super::executor::execute;
use super::*;
use crate::keyspace::Keyspace;
use crate::session::Shared;
use crate::session::config::Config;
use pumice_port::fiber::Runtime;
use pumice_port::net::Stream;

struct Planted;

#[pumice_test_macros::test]
fn a_panic_in_a_command_leaves_nothing_behind() {
    let name = format!("pumice-server-panic-{}", pumice_port::os::pid());
    let dir = std::env::temp_dir().join(name);
    // Left behind by a process with the same id.
    std::fs::remove_dir_all(&dir).ok();
    let keyspace = Keyspace::open(pumice::Options::default(), &dir).unwrap();
    let server = Server::new(Shared::new(keyspace, Config::new()));
    let (ours, theirs) = Stream::pair().unwrap();
    let ours = Arc::new(Link::Plain(ours));
    let peer = Peer {
        descriptor: -1,
        address: "a".to_string(),
        local_address: "b".to_string(),
        hangup: Box::new(|| ()),
        gently: Box::new(|| ()),
    };
    let runtime = Runtime::builder().loops(1).build().unwrap();
    let work = |connection: &mut Connection<'_>| {
        let shared = &connection.server.shared;
        for args in [&[&b"WATCH"[..], b"k"][..], &[b"MULTI"], &[b"SET", b"a", b"1"]] {
            execute(shared, &mut connection.session, &mut connection.out, args, 1);
        }
        connection.out.clear();
        connection.session.multi = None;
        execute(shared, &mut connection.session, &mut connection.out, &[b"BLPOP", b"l", b"0"], 1);
        assert_eq!(shared.waiters.len(), 1);
        execute(shared, &mut connection.session, &mut connection.out, &[b"SUBSCRIBE", b"c"], 1);
        connection.start_pusher();
        connection.input_bytes = 1000;
        connection.charge();
        assert_eq!(shared.clients.len(), 1);
        let _held = shared.keyspace.locks.one(b"k");
        std::panic::panic_any(Planted);
    };
    assert!(server.enter());
    runtime.run("panics", || serve_by(&server, &ours, peer, work));
    let shared = &server.shared;
    assert!(shared.clients.is_empty());
    assert!(server.wait_until_alone(Duration::ZERO));
    assert_eq!(shared.clients.memory.used(), 0);
    assert_eq!(shared.channels.listeners(b"c"), 0);
    assert!(shared.waiters.is_empty() && shared.waiters.of(b"l").is_empty());
    assert_eq!(Stats::get(&shared.stats.panics), 1);
    // Once the shutdown has begun no connection is accepted.
    assert!(server.enter());
    server.leave();
    server.is_ending.set();
    assert!(!server.enter());
    // The lock is free, and the other side sees the end after the output.
    drop(shared.keyspace.locks.one(b"k"));
    theirs.set_receive_timeout(Some(120 * SECOND_NANOS));
    let mut buf = [0; 256];
    while theirs.receive(&mut buf).unwrap() > 0 {}
    shared.keyspace.close().unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Pipelines that are longer than the first receive buffer come in one piece soon.
#[pumice_test_macros::test]
fn a_receive_buffer_grows_to_the_pipelines_of_its_client() {
    let (ours, theirs) = Stream::pair().unwrap();
    let (ours, received) = (Link::Plain(ours), AtomicU64::new(0));
    let mut input = Input::new();
    // Of commands of 100 bytes, which are executed when they are whole.
    let mut receives_of = |bytes: usize| {
        theirs.send_all(&vec![b'x'; bytes]).unwrap();
        let (mut receives, mut done) = (0, 0);
        while done < bytes {
            input.receive(&ours, b"", &received).unwrap();
            receives += 1;
            let whole = input.filled / 100 * 100;
            input.remove(whole);
            done += whole;
        }
        (receives, input.bytes.len())
    };
    assert_eq!(receives_of(100), (1, BUFFER_BYTES));
    assert_eq!(receives_of(1000), (1, BUFFER_BYTES));
    assert!(receives_of(4000).0 > 1);
    assert_eq!(receives_of(4000), (1, 4 * BUFFER_BYTES));
    // An idle connection keeps no more than that.
    for _ in 0..3 {
        assert!(receives_of(30_000).1 <= BUFFER_BYTES_IDLE);
    }
}

#[pumice_test_macros::test]
fn the_time_of_a_request_begins_with_its_first_byte() {
    let name = format!("pumice-server-time-{}", pumice_port::os::pid());
    let dir = std::env::temp_dir().join(name);
    std::fs::remove_dir_all(&dir).ok();
    let keyspace = Keyspace::open(pumice::Options::default(), &dir).unwrap();
    let server = Server::new(Shared::new(keyspace, Config::new()));
    let (ours, _theirs) = Stream::pair().unwrap();
    let ours = Arc::new(Link::Plain(ours));
    let peer = Peer {
        descriptor: -1,
        address: "a".to_string(),
        local_address: "b".to_string(),
        hangup: Box::new(|| ()),
        gently: Box::new(|| ()),
    };
    let runtime = Runtime::builder().loops(1).build().unwrap();
    let work = |connection: &mut Connection<'_>| {
        let bytes = b"PING\r\n*1\r\n$4\r\nPI".to_vec();
        let mut input = Input { filled: bytes.len(), bytes, was_full: false };
        // The first one began long ago; it is completed, and another begins.
        connection.request_nanos = Some(1);
        assert!(connection.carry_out(&mut input, &mut Parser::new()));
        assert_eq!(connection.out.bytes(), b"+PONG\r\n");
        assert!(connection.limit_waits(&input), "its time is over already");
        connection.out.clear();
    };
    assert!(server.enter());
    runtime.run("times", || serve_by(&server, &ours, peer, work));
    assert_eq!(Stats::get(&server.shared.stats.panics), 0);
    server.shared.keyspace.close().unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
}
