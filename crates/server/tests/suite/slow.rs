//! SLOWLOG, LATENCY and MEMORY.

use super::connections::wait_until;
use super::{Quiet, Scratch, text};

#[pumice_test_macros::test]
fn commands_that_take_long_are_told_without_secrets() {
    let scratch = Scratch::new("slow");
    let server = Quiet::open(scratch.path());
    let client = &mut server.client();
    server.talk(client, &[("CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 4", "+OK")]);
    server.talk(client, &[("CLIENT SETNAME me", "+OK"), ("SLOWLOG RESET", "+OK")]);
    server.say(client, "AUTH secret");
    server.say(client, "CONFIG SET requirepass secret requirepass other");
    let mut long = vec!["DEL".to_string(), "x".repeat(200)];
    long.extend((0..40).map(|i| i.to_string()));
    server.ask(client, &long);
    let told = server.say(client, "SLOWLOG GET -1");
    assert!(told.starts_with("*4|*6|") && !told.contains("secret"), "{told}");
    assert!(told.contains("$10|(redacted)"), "{told}");
    assert!(told.contains("... (72 more bytes)") && told.contains("... (11 more arguments)"));
    assert!(told.contains("|$11|127.0.0.1:1|$2|me"), "{told}");
    server.talk(client, &[("CONFIG SET slowlog-max-len 1", "+OK"), ("SLOWLOG LEN", ":1")]);
    server.talk(client, &[("CONFIG SET slowlog-log-slower-than -1", "+OK")]);
    server.talk(client, &[("SLOWLOG RESET", "+OK"), ("PING", "+PONG"), ("SLOWLOG LEN", ":0")]);
    // Inside a transaction each command is measured, EXEC is not.
    server.talk(client, &[("CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 9", "+OK")]);
    server.talk(client, &[("SLOWLOG RESET", "+OK"), ("MULTI", "+OK"), ("PING", "+QUEUED")]);
    server.talk(client, &[("EXEC", "*1|+PONG"), ("SLOWLOG LEN", ":3")]);
    let counted = server.shared.calls.all().0.calls();
    assert!(counted > 10);
    server.shared.keyspace.close().unwrap();
}

#[pumice_test_macros::test]
fn latencies_are_kept_by_the_second() {
    use pumice_server::session::slowlog::Measured;
    let scratch = Scratch::new("latency");
    let server = Quiet::open(scratch.path());
    let client = &mut server.client();
    let took = |millis: u64, seconds: u64, is_fast: bool| {
        let (args, micros) = (&[&b"X"[..]][..], millis * 1000);
        let command = Measured { args, is_fast, is_logged: false, micros, seconds };
        server.shared.slow.measured(&command, |_, _| {});
    };
    took(500_000_000, 1, false);
    server.talk(client, &[("LATENCY LATEST", "*0")]);
    // Longer than any command of the test takes.
    server.talk(client, &[("CONFIG SET latency-monitor-threshold 100000000", "+OK")]);
    for (millis, seconds, is_fast) in
        [(99, 1, false), (200, 2, false), (300, 2, false), (150, 3, true), (120, 4, false)]
    {
        took(millis * 1_000_000, seconds, is_fast);
    }
    let latest = "*2|*4|$7|command|:4|:120000000|:300000000|\
                  *4|$12|fast-command|:3|:150000000|:150000000";
    let history = "*2|*2|:2|:300000000|*2|:4|:120000000";
    server.talk(
        client,
        &[
            ("LATENCY LATEST", latest),
            ("LATENCY HISTORY command", history),
            ("LATENCY RESET fast-command nothing", ":1"),
            ("LATENCY RESET", ":1"),
            ("LATENCY LATEST", "*0"),
            ("LATENCY DOCTOR", "$27|No latency spike was seen.\n"),
            ("LATENCY GRAPH command", "-ERR No samples available for event 'command'"),
        ],
    );
    server.shared.keyspace.close().unwrap();
}

#[pumice_test_macros::test]
fn memory_usage_is_what_lies_in_the_engine() {
    let scratch = Scratch::new("usage");
    let server = Quiet::open(scratch.path());
    let client = &mut server.client();
    server.talk(client, &[("SET s 0123456789", "+OK"), ("MEMORY USAGE s", ":16")]);
    for i in 0..100 {
        server.say(client, &format!("HSET h f{i:03} value"));
        server.say(client, &format!("ZADD z {i} m{i:03}"));
    }
    // A record of 5 + 17 bytes, elements of 13 + 4 + 5; both parts of a sorted set's count.
    server.talk(client, &[("MEMORY USAGE h", ":2222"), ("MEMORY USAGE h SAMPLES 0", ":2222")]);
    let usage = text(&server.ask(client, &["MEMORY", "USAGE", "z"]));
    assert_eq!(usage, format!(":{}", 22 + 100 * 2 * (13 + 4 + 8)));
    server.shared.keyspace.close().unwrap();
}

#[pumice_test_macros::test]
fn waiting_for_others_takes_time_too() {
    let scratch = Scratch::new("locked");
    let server = Quiet::open(scratch.path());
    let client = &mut server.client();
    server.talk(client, &[("CONFIG SET slowlog-log-slower-than 50000", "+OK")]);
    let held = server.shared.keyspace.locks.one(b"k");
    pumice_port::thread::scope(|scope| {
        let name = std::sync::Arc::clone(&client.session.client);
        let server = &server;
        scope.spawn(move || server.talk(client, &[("SET k v", "+OK")]));
        wait_until("it has begun", || *name.command.lock() == "set");
        // The command's time is running already, whichever step it has reached.
        pumice_port::thread::sleep(std::time::Duration::from_millis(100));
        drop(held);
    });
    let client = &mut server.client();
    let told = server.say(client, "SLOWLOG GET -1");
    assert!(told.contains("|$3|SET|$1|k|$1|v|"), "{told}");
    server.shared.keyspace.close().unwrap();
}
