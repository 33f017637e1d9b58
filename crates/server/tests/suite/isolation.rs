//! Concurrent commands are seen completely or not at all.

use std::sync::atomic::{AtomicBool, Ordering};

use pumice_port::thread;

use super::{Quiet, Scratch};

/// Ends a test's background work, also when the test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Renames a key to and fro until `work` returns.
fn while_a_key_moves(server: &Quiet, work: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    server.talk(&mut server.client(), &[("SET p 1", "+OK")]);
    thread::scope(|scope| {
        scope.spawn(|| {
            let client = &mut server.client();
            while !is_over.load(Ordering::Relaxed) {
                server.talk(client, &[("RENAME p q", "+OK"), ("RENAME q p", "+OK")]);
            }
        });
        let _ends = Ends(&is_over);
        work();
    });
}

#[pumice_test_macros::test]
fn counting_keys_is_of_one_moment() {
    let scratch = Scratch::new("exists");
    let server = Quiet::open(scratch.path());
    while_a_key_moves(&server, || {
        let client = &mut server.client();
        for _ in 0..3000 {
            server.talk(client, &[("EXISTS p q", ":1"), ("TOUCH q p", ":1")]);
        }
    });
    server.shared.keyspace.close().unwrap();
}

#[pumice_test_macros::test]
fn a_transaction_sees_one_moment_beside_its_own_keys() {
    let scratch = Scratch::new("moment");
    let server = Quiet::open(scratch.path());
    while_a_key_moves(&server, || {
        let client = &mut server.client();
        let seen =
            ["|*1|$1|p|*0", "|*0|*1|$1|q"].map(|pair| "*21|+OK".to_string() + &pair.repeat(10));
        for _ in 0..1000 {
            let queued = ["MULTI", "SET z 1"].into_iter().chain(["KEYS p", "KEYS q"].repeat(10));
            queued.for_each(|line| drop(server.say(client, line)));
            let reply = server.say(client, "EXEC");
            assert!(seen.contains(&reply), "{reply}");
        }
    });
    server.shared.keyspace.close().unwrap();
}

#[pumice_test_macros::test]
fn a_watched_key_that_is_reaped_makes_exec_fail() {
    let scratch = Scratch::new("reaped");
    let mut server = Quiet::open(scratch.path());
    let (one, two) = (&mut server.client(), &mut server.client());
    server.talk(one, &[("SET a 1 PX 100", "+OK"), ("WATCH a", "+OK"), ("MULTI", "+OK")]);
    server.talk(one, &[("SET mine 1", "+QUEUED")]);
    server.now += 100;
    // A read reports it; the reaper deletes it.
    server.talk(two, &[("GET a", "$-1")]);
    let shared = &server.shared;
    assert_eq!(shared.keyspace.reap(server.now, 10, |events| shared.notify(events)).unwrap(), 1);
    server.talk(one, &[("EXEC", "*-1")]);
    // A watcher that saw it expired sees no change, unless it is written.
    for (between, reply) in [("PING", "*1|+OK"), ("SET a 2", "*-1")] {
        server.talk(two, &[("SET a 1 PX 100", "+OK")]);
        server.now += 100;
        server.talk(one, &[("WATCH a", "+OK"), ("MULTI", "+OK"), ("SET mine 1", "+QUEUED")]);
        server.talk(two, &[("GET a", "$-1")]);
        let shared = &server.shared;
        assert_eq!(
            shared.keyspace.reap(server.now, 10, |events| shared.notify(events)).unwrap(),
            1
        );
        server.say(two, between);
        server.talk(one, &[("EXEC", reply)]);
    }
    server.shared.keyspace.close().unwrap();
}

#[pumice_test_macros::test]
fn counts_are_right_after_a_close_beside_writers() {
    let scratch = Scratch::new("counts");
    for life in 0..5 {
        let server = Quiet::open(scratch.path());
        let ready = pumice_port::sync::Event::new();
        thread::scope(|scope| {
            let (server, ready) = (&server, &ready);
            for writer in 0..3 {
                scope.spawn(move || {
                    let client = &mut server.client();
                    for i in 0.. {
                        if server.say(client, &format!("SET {life}-{writer}-{i} v")) != "+OK" {
                            return;
                        }
                        if i == 50 {
                            ready.set();
                        }
                    }
                });
            }
            ready.wait();
            server.shared.keyspace.close().unwrap();
        });
        drop(server);
        let server = Quiet::open(scratch.path());
        let client = &mut server.client();
        let keys = server.say(client, "KEYS *");
        let keys = keys.trim_start_matches('*').split('|').next().unwrap().to_string();
        assert_eq!(server.say(client, "DBSIZE"), format!(":{keys}"));
        server.shared.keyspace.close().unwrap();
    }
}

#[pumice_test_macros::test]
fn databases_that_change_places_are_not_mixed() {
    let scratch = Scratch::new("places");
    let server = Quiet::open(scratch.path());
    // Each time the databases are swapped and keep their content.
    let change = |client: &mut super::Client| {
        let lines = ["MULTI", "SWAPDB 0 1", "SET k zero", "HSET h f zero", "SELECT 1"];
        let lines = lines.into_iter().chain(["SET k one", "HSET h f one", "SELECT 0", "EXEC"]);
        lines.for_each(|line| drop(server.say(client, line)));
    };
    change(&mut server.client());
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let client = &mut server.client();
            while !is_over.load(Ordering::Relaxed) {
                change(client);
            }
        });
        let _ends = Ends(&is_over);
        let client = &mut server.client();
        for _ in 0..1000 {
            let many = format!("MGET{}", " k".repeat(70));
            server.talk(client, &[("GET k", "$4|zero"), ("HGETALL h", "*2|$1|f|$4|zero")]);
            assert_eq!(server.say(client, &many), "*70".to_string() + &"|$4|zero".repeat(70));
        }
    });
    server.shared.keyspace.close().unwrap();
}
