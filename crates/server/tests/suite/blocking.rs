//! Commands that wait.

use std::sync::Arc;

use pumice_port::net::Direction;
use pumice_port::thread;
use pumice_server::session::waiters::Served;

use super::connections::{Caller, start, wait_until};
use super::{Quiet, Scratch, text};

/// The reply of a client that has waited.
fn reply(client: &mut super::Client) -> Option<String> {
    let reply = client.session.waiter.as_ref()?.reply()?;
    client.session.waiter = None;
    Some(text(&reply))
}

#[pumice_test_macros::test]
fn those_who_wait_are_served_within_the_write_that_serves_them() {
    let scratch = Scratch::new("served");
    let server = Quiet::open(scratch.path());
    let (one, two) = (&mut server.client(), &mut server.client());
    let (three, says) = (&mut server.client(), &mut server.client());
    server.talk(one, &[("BLPOP a b 0", "")]);
    server.talk(two, &[("BRPOP b 0", "")]);
    server.talk(three, &[("BLMOVE b c RIGHT LEFT 0", "")]);
    // Elements of a transaction are handed out at its end, to the longest waiting client first.
    let all = [("MULTI", "+OK"), ("RPUSH b 1 2 3 4", "+QUEUED"), ("LLEN b", "+QUEUED")];
    server.talk(says, &all);
    server.talk(says, &[("EXEC", "*2|:4|:4"), ("LRANGE b 0 -1", "*1|$1|2")]);
    assert_eq!(reply(one).unwrap(), "*2|$1|b|$1|1");
    assert_eq!(reply(two).unwrap(), "*2|$1|b|$1|4");
    assert_eq!(reply(three).unwrap(), "$1|3");
    server.talk(says, &[("LRANGE c 0 -1", "*1|$1|3"), ("DEL b c", ":2")]);
    // A move serves another client that waits for the element.
    server.talk(one, &[("BLMOVE b c LEFT LEFT 0", "")]);
    server.talk(two, &[("BLPOP c 0", "")]);
    server.talk(says, &[("LPUSH b x", ":1"), ("EXISTS b c", ":0"), ("DBSIZE", ":0")]);
    assert_eq!((reply(one).unwrap(), reply(two).unwrap()), ("$1|x".into(), "*2|$1|c|$1|x".into()));
    // In a transaction nothing blocks; in another database it is a different key.
    server.talk(
        one,
        &[("MULTI", "+OK"), ("BLPOP b 0", "+QUEUED"), ("BLMOVE b c LEFT LEFT 0", "+QUEUED")],
    );
    server.talk(one, &[("EXEC", "*2|*-1|$-1"), ("BZPOPMIN z 0", "")]);
    server.talk(says, &[("SELECT 1", "+OK"), ("ZADD z 1 m", ":1"), ("MOVE z 0", ":1")]);
    assert_eq!(reply(one).unwrap(), "*3|$1|z|$1|m|$1|1");
    server.shared.keyspace.close().unwrap();
}

#[pumice_test_macros::test]
fn who_has_gone_takes_nothing() {
    let scratch = Scratch::new("gone");
    let running = start(scratch.path(), &[]);
    let shared = running.shared();
    let mut says = Caller::to(&running);
    let until_waiting = |n: usize| wait_until("so many wait", || shared.waiters.len() == n);
    let gone = Caller::to(&running);
    gone.send(b"BLPOP k 0\r\n");
    let mut limited = Caller::to(&running);
    limited.send(b"PING\r\nBLPOP k 0.05\r\nPING\r\n");
    assert_eq!(text(limited.until("*-1\r\n+PONG\r\n").as_bytes()), "+PONG|*-1|+PONG");
    until_waiting(1);
    drop(gone);
    until_waiting(0);
    assert_eq!(says.line("RPUSH k 1"), ":1");
    // A client that half-closes has gone too, and so has one that is killed.
    let half = Caller::to(&running);
    half.send(b"BLPOP other 0\r\n");
    let mut killed = Caller::to(&running);
    let id = killed.line("CLIENT ID");
    killed.send(b"BLPOP other 0\r\n");
    until_waiting(2);
    half.stream.shutdown(Direction::Send).unwrap();
    until_waiting(1);
    assert_eq!(says.line(&format!("CLIENT KILL ID {}", &id[1..])), ":1");
    until_waiting(0);
    assert_eq!(killed.until_closed(), "");
    assert_eq!(says.line("LLEN k"), ":1");
    // The shutdown does not wait for blocked clients.
    let mut last = Caller::to(&running);
    last.send(b"BLPOP other 0\r\n");
    until_waiting(1);
    running.stop().unwrap();
    assert_eq!(last.until_closed(), "");
}

#[pumice_test_macros::test]
fn every_element_reaches_one_of_many() {
    const EACH: usize = 200;
    let scratch = Scratch::new("many");
    let running = start(scratch.path(), &[]);
    let mut taken = Vec::new();
    thread::scope(|scope| {
        let takers: Vec<_> = (0..4)
            .map(|taker| {
                let running = &running;
                scope.spawn(move || {
                    let mut caller = Caller::to(running);
                    let command = ["BLPOP a b 0", "BRPOP b a 0", "BLMOVE a b LEFT LEFT 0"];
                    let mut got = Vec::new();
                    while got.len() < EACH {
                        caller.send(format!("{}\r\nPING\r\n", command[taker % 3]).as_bytes());
                        let reply = text(caller.until("+PONG\r\n").as_bytes());
                        let value = reply.split('|').rev().nth(1).unwrap().to_string();
                        // Moved elements stay in the database.
                        if taker % 3 != 2 {
                            got.push(value);
                        } else if value == "end" {
                            break;
                        }
                    }
                    got
                })
            })
            .collect();
        let running = &running;
        for giver in 0..2 {
            scope.spawn(move || {
                let mut caller = Caller::to(running);
                for i in 0..EACH * 3 / 2 {
                    let key = ["a", "b"][(giver + i) % 2];
                    caller.line(&format!("RPUSH {key} {giver}-{i}"));
                }
            });
        }
        let mut takers = takers.into_iter().enumerate();
        let mut movers = Vec::new();
        for (number, taker) in takers.by_ref() {
            match number % 3 {
                2 => movers.push(taker),
                _ => taken.extend(taker.join().unwrap()),
            }
        }
        let mut caller = Caller::to(running);
        for mover in movers {
            caller.line("RPUSH a end");
            mover.join().unwrap();
        }
    });
    taken.sort();
    taken.dedup();
    assert_eq!(taken.len(), 3 * EACH, "an element was lost or given twice");
    running.stop().unwrap();
}

#[pumice_test_macros::test]
fn who_was_passed_over_tries_again() {
    let scratch = Scratch::new("passed");
    let running = start(scratch.path(), &[]);
    let waiters = &running.shared().waiters;
    let (mut says, mut waits) = (Caller::to(&running), Caller::to(&running));
    for command in ["BLPOP a b 0\r\n", "BLPOP a b 1000\r\n"] {
        waits.send(command.as_bytes());
        wait_until("it waits", || waiters.len() == 1);
        // A writer of `a` claims it; meanwhile another writes `b`; and then there is nothing for it
        // after all.
        let waiter = waiters.of(b"a").remove(0);
        assert!(waiter.claim());
        assert_eq!(says.line("RPUSH b x"), ":1");
        waiter.release();
        assert_eq!(text(waits.until("x\r\n").as_bytes()), "*2|$1|b|$1|x");
        wait_until("it waits no more", || waiters.is_empty());
    }
    // A retry that finds nothing waits on.
    waits.send(b"BLPOP a b 1000\r\n");
    wait_until("it waits", || waiters.len() == 1);
    let waiter = waiters.of(b"a").remove(0);
    assert!(waiter.claim() && !waiter.claim());
    waiter.release();
    let next = || waiters.of(b"a").into_iter().find(|next| !Arc::ptr_eq(next, &waiter));
    wait_until("it waits again", || next().is_some());
    assert_eq!(says.line("RPUSH a x"), ":1");
    assert_eq!(text(waits.until("x\r\n").as_bytes()), "*2|$1|a|$1|x");
    running.stop().unwrap();
}

/// A list of 200 elements of 10,000 bytes in the slot of `k`, and 1 MiB for a command.
fn beside_much(server: &Quiet, says: &mut super::Client) {
    let value = "v".repeat(10_000);
    for _ in 0..200 {
        server.ask(says, &["RPUSH", "{k}big", &value]);
    }
    server.talk(says, &[("CONFIG SET maxmemory-clients 1mb", "+OK")]);
}

#[pumice_test_macros::test]
fn who_waits_gets_no_more_than_a_command_may_take() {
    let scratch = Scratch::new("much");
    let server = Quiet::open(scratch.path());
    let (one, two) = (&mut server.client(), &mut server.client());
    let says = &mut server.client();
    beside_much(&server, says);
    let refused = "-ERR the command needs more memory than 'maxmemory-clients' allows";
    server.talk(one, &[("BLMPOP 0 1 k LEFT COUNT 1000", "")]);
    server.talk(says, &[("RENAME {k}big k", "+OK"), ("LLEN k", ":200")]);
    assert_eq!(reply(one).unwrap(), refused);
    // The total handed out by one write is bounded too.
    server.talk(says, &[("RENAME k {k}big", "+OK")]);
    server.talk(one, &[("BLMPOP 0 1 k LEFT COUNT 60", "")]);
    server.talk(two, &[("BLMPOP 0 1 k LEFT COUNT 60", "")]);
    server.talk(says, &[("RENAME {k}big k", "+OK"), ("LLEN k", ":140")]);
    assert!(reply(one).unwrap().starts_with("*2|$1|k|*60|$10000|vvv"));
    server.shared.keyspace.close().unwrap();
}

#[pumice_test_macros::test]
fn who_finds_no_room_in_a_write_serves_itself() {
    let scratch = Scratch::new("turns");
    let running = start(scratch.path(), &[("maxmemory-clients", "2mb")]);
    // No client is ended for data sent to both at once.
    running.shared().clients.memory.set_max(u64::MAX);
    let (mut says, value) = (Caller::to(&running), "v".repeat(10_000));
    for _ in 0..300 {
        says.line(&format!("RPUSH {{k}}big {value}"));
    }
    let mut waiting: Vec<_> = (0..2).map(|_| Caller::to(&running)).collect();
    for (at, caller) in waiting.iter().enumerate() {
        caller.send(b"BLMPOP 0 1 k LEFT COUNT 120\r\nPING\r\n");
        wait_until("it waits", || running.shared().waiters.len() == at + 1);
    }
    assert_eq!(says.line("RENAME {k}big k"), "+OK");
    for caller in &mut waiting {
        let got = caller.until("+PONG\r\n");
        assert_eq!(got.matches("$10000\r\n").count(), 120);
    }
    assert_eq!(says.line("LLEN k"), ":60");
    running.stop().unwrap();
}

#[pumice_test_macros::test]
fn who_waits_pays_for_its_keys() {
    let scratch = Scratch::new("pays");
    let server = Quiet::open(scratch.path());
    let client = &mut server.client();
    let mut args = vec!["BLPOP".to_string()];
    args.extend((0..10_000).map(|i| format!("k{i}")));
    args.push("0".to_string());
    assert!(server.ask(client, &args).is_empty());
    assert!(client.session.bytes() > 10_000 * 100, "{}", client.session.bytes());
    let waiter = client.session.waiter.take().unwrap();
    server.shared.waiters.remove(&waiter);
    server.shared.keyspace.close().unwrap();
}

#[pumice_test_macros::test]
fn who_serves_and_panics_lets_go() {
    let scratch = Scratch::new("panics");
    let server = Quiet::open(scratch.path());
    let (one, says) = (&mut server.client(), &mut server.client());
    server.talk(one, &[("BLPOP k 0", "")]);
    let serve = || {
        let mut served = Served::default();
        assert!(served.claim(&server.shared.waiters.of(b"k").remove(0)));
        std::panic::panic_any("planted");
    };
    assert!(std::panic::catch_unwind(serve).is_err());
    server.talk(says, &[("RPUSH k x", ":1")]);
    assert_eq!(reply(one).unwrap(), "*2|$1|k|$1|x");
    server.shared.keyspace.close().unwrap();
}

#[pumice_test_macros::test]
fn who_was_served_before_it_went_is_told() {
    let scratch = Scratch::new("told");
    let running = start(scratch.path(), &[]);
    let waiters = &running.shared().waiters;
    let mut caller = Caller::to(&running);
    caller.send(b"BLPOP k 0\r\n");
    wait_until("it waits", || waiters.len() == 1);
    let mut served = Served::default();
    assert!(served.claim(&waiters.of(b"k").remove(0)));
    // It half-closes, and may still read.
    caller.stream.shutdown(Direction::Send).unwrap();
    // The server may find out now, or later: it must not matter.
    thread::sleep(std::time::Duration::from_millis(30));
    served.reply(b"*2\r\n$1\r\nk\r\n$1\r\nx\r\n".to_vec());
    served.notify(waiters);
    assert_eq!(caller.until_closed(), "*2|$1|k|$1|x");
    running.stop().unwrap();
}
