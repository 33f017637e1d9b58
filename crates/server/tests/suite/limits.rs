//! What clients may cost: time, memory, single commands.

use pumice_port::{thread, time};
use std::time::Duration;

use super::connections::{Caller, PATIENCE, start, wait_until};
use super::{Quiet, Scratch, text};

/// Sends bytes one by one until the server has hung up.
fn drip(caller: &Caller, bytes: &[u8]) -> bool {
    let end = time::now_micros() + PATIENCE.as_micros() as u64;
    for byte in bytes.iter().cycle() {
        if caller.stream.send_all(&[*byte]).is_err() {
            return true;
        }
        if time::now_micros() > end {
            return false;
        }
        thread::sleep(Duration::from_millis(20));
    }
    false
}

#[pumice_test_macros::test]
fn a_request_has_to_come_whole_in_time() {
    let scratch = Scratch::new("drip");
    let running = start(scratch.path(), &[("request-timeout", "1")]);
    let caller = Caller::to(&running);
    caller.send(b"*2\r\n$3\r\nGET\r\n$100000\r\n");
    assert!(drip(&caller, b"x"), "the server keeps waiting for the end of a request");
    // A client that is idle between requests stays.
    let mut silent = Caller::to(&running);
    assert_eq!(silent.line("PING"), "+PONG");
    thread::sleep(Duration::from_millis(1200));
    assert_eq!(silent.line("PING"), "+PONG");
    running.stop().unwrap();
}

#[pumice_test_macros::test]
fn who_does_not_say_who_it_is_goes() {
    let scratch = Scratch::new("auth");
    let settings = [("requirepass", "secret"), ("auth-timeout", "1"), ("request-timeout", "0")];
    let running = start(scratch.path(), &settings);
    let caller = Caller::to(&running);
    assert!(drip(&caller, b"PING\r\n"), "a client that does not authenticate may stay");
    running.stop().unwrap();
}

#[pumice_test_macros::test]
fn the_memory_of_all_clients_is_bounded() {
    let scratch = Scratch::new("memory");
    let running = start(scratch.path(), &[("maxmemory-clients", "4mb")]);
    let clients = &running.shared().clients;
    let mut small = Caller::to(&running);
    assert_eq!(small.line("PING"), "+PONG");
    // Half a request each, larger and larger, until the largest is ended.
    let mut large = Vec::new();
    for i in 1..=8_usize {
        let caller = Caller::to(&running);
        let bytes = 200_000 * i;
        caller.send(format!("*2\r\n$4\r\nECHO\r\n${}\r\n", 2_000_000).as_bytes());
        // The server may have ended it meanwhile.
        caller.stream.send_all(&vec![b'x'; bytes]).ok();
        large.push(caller);
    }
    wait_until("the largest is disconnected", || {
        clients.evicted.load(std::sync::atomic::Ordering::Relaxed) > 0
    });
    assert_eq!(small.line("PING"), "+PONG");
    drop(large);
    wait_until("the others end", || clients.len() == 1);
    assert!(clients.memory.used() < 20_000, "{}", clients.memory.used());
    running.stop().unwrap();
}

#[pumice_test_macros::test]
fn listeners_that_do_not_read_are_let_go_before_memory_is_short() {
    let scratch = Scratch::new("listeners");
    let running = start(scratch.path(), &[("maxmemory-clients", "8mb")]);
    let mut lazy: Vec<_> = (0..3).map(|_| Caller::to(&running)).collect();
    for caller in &mut lazy {
        caller.send(b"SUBSCRIBE c\r\n");
        caller.until(":1\r\n");
    }
    let mut speaker = Caller::to(&running);
    let message = "m".repeat(60_000);
    let clients = &running.shared().clients;
    for _ in 0..2000 {
        speaker.line(&format!("PUBLISH c {message}"));
        assert!(clients.memory.used() < 12 << 20, "{}", clients.memory.used());
        if clients.evicted.load(std::sync::atomic::Ordering::Relaxed) > 0 {
            // The shutdown waits for clients that do not read.
            drop(lazy);
            running.stop().unwrap();
            return;
        }
    }
    panic!("no client was disconnected");
}

#[pumice_test_macros::test]
fn no_command_takes_more_memory_than_clients_may() {
    let scratch = Scratch::new("command");
    let server = Quiet::open(scratch.path());
    let client = &mut server.client();
    let value = "v".repeat(10_000);
    for i in 0..200 {
        server.ask(client, &["HSET", "h", &format!("f{i}"), &value]);
        server.ask(client, &["RPUSH", "l", &value]);
        server.ask(client, &["SADD", "s", &format!("{value}{i}")]);
        server.ask(client, &["ZADD", "z", "1", &format!("{value}{i}")]);
    }
    server.talk(client, &[("CONFIG SET maxmemory-clients 1mb", "+OK")]);
    client.out.limit(1 << 20);
    let refused = "-ERR the command needs more memory than 'maxmemory-clients' allows";
    for line in [
        "HGETALL h",
        "HVALS h",
        "LRANGE l 0 -1",
        "SMEMBERS s",
        "SUNIONSTORE t s",
        "ZRANGE z 0 -1",
        "ZUNIONSTORE t 1 z",
        "COPY h t",
        "SRANDMEMBER s -1000000",
        "HRANDFIELD h 1000000",
        "SPOP s 1000",
        "LPOP l 1000",
    ] {
        assert_eq!(server.say(client, line), refused, "{line}");
    }
    server.talk(client, &[("LLEN l", ":200"), ("SCARD s", ":200"), ("EXISTS t", ":0")]);
    // Commands that read much and keep little work.
    server.talk(client, &[("LPOS l x", "$-1"), ("ZCOUNT z 0 2", ":200"), ("DEL h l s z", ":4")]);
    assert!(text(&server.ask(client, &["SCAN", "0", "COUNT", "9223372036854775807"])).len() < 20);
    server.shared.keyspace.close().unwrap();
}

/// EXEC goes on after a command that was refused, and writes what the others did.
#[pumice_test_macros::test]
fn a_command_that_is_refused_in_a_transaction_has_written_nothing() {
    let scratch = Scratch::new("refused");
    let server = Quiet::open(scratch.path());
    let client = &mut server.client();
    let value = "v".repeat(10_000);
    for i in 0..200 {
        server.ask(client, &["HSET", "h", &format!("f{i}"), &value]);
    }
    server.talk(
        client,
        &[
            ("RPUSH l a b", ":2"),
            ("SET s precious", "+OK"),
            ("CONFIG SET maxmemory-clients 1mb", "+OK"),
            ("MULTI", "+OK"),
            ("COPY h l REPLACE", "+QUEUED"),
            ("RENAME h s", "+QUEUED"),
            ("SET other x", "+QUEUED"),
        ],
    );
    let refused = "-ERR the command needs more memory than 'maxmemory-clients' allows";
    assert_eq!(server.say(client, "EXEC"), format!("*3|{refused}|{refused}|+OK"));
    server.talk(
        client,
        &[
            ("LRANGE l 0 -1", "*2|$1|a|$1|b"),
            ("GET s", "$8|precious"),
            ("HLEN h", ":200"),
            ("DBSIZE", ":4"),
        ],
    );
    server.shared.keyspace.close().unwrap();
}

#[pumice_test_macros::test]
fn settings_hold_when_config_set_replies() {
    let scratch = Scratch::new("hot");
    let server = Quiet::open(scratch.path());
    let client = &mut server.client();
    let is_always = || server.shared.hot.syncs_always.load(std::sync::atomic::Ordering::Acquire);
    assert!(!is_always());
    server.talk(client, &[("CONFIG SET appendfsync always", "+OK")]);
    assert!(is_always());
    let range = "-ERR CONFIG SET failed (possibly related to argument 'proto-max-bulk-len') - \
                 argument must be between 1048576 and 536870912 inclusive";
    server.talk(
        client,
        &[
            ("CONFIG SET proto-max-bulk-len 9223372036854775807", range),
            ("CONFIG SET proto-max-bulk-len 1mb", "+OK"),
            (
                "SETRANGE k 9223372036854775807 x",
                "-ERR string exceeds maximum allowed size (proto-max-bulk-len)",
            ),
            (
                "CONFIG SET maxmemory-clients 101%",
                "-ERR CONFIG SET failed (possibly related to \
              argument 'maxmemory-clients') - argument must be a memory or percent value",
            ),
            ("CONFIG SET maxmemory-clients 5%", "+OK"),
            ("CONFIG GET maxmemory-clients", "*2|$17|maxmemory-clients|$2|5%"),
        ],
    );
    server.shared.keyspace.close().unwrap();
}

#[pumice_test_macros::test]
fn many_watched_keys_cost_what_they_are() {
    let scratch = Scratch::new("watched");
    let server = Quiet::open(scratch.path());
    let client = &mut server.client();
    let mut args = vec!["WATCH".to_string()];
    args.extend((0..200_000).map(|i| format!("k{i}")));
    assert_eq!(text(&server.ask(client, &args)), "+OK");
    assert!(client.session.bytes() > 200_000 * 10);
    server.talk(client, &[("UNWATCH", "+OK")]);
    assert_eq!(client.session.bytes(), 0);
    server.shared.keyspace.close().unwrap();
}

#[pumice_test_macros::test]
fn many_values_are_read_as_long_as_they_can_be_told() {
    use pumice::{Options, Statistics, Ticker};
    let scratch = Scratch::new("mget");
    let statistics = std::sync::Arc::new(Statistics::new());
    let mut options = Options::default();
    options.db.statistics = Some(statistics.clone());
    let server = Quiet::with(scratch.path(), options);
    let client = &mut server.client();
    server.ask(client, &["SET", "k", &"v".repeat(20_000)]);
    server.talk(client, &[("CONFIG SET maxmemory-clients 1mb", "+OK")]);
    client.out.limit(1 << 20);
    let mget = |times: usize| [vec!["MGET"], vec!["k"; times]].concat();
    let read = || statistics.ticker(Ticker::NumberMultigetKeysRead);
    assert!(text(&server.ask(client, &mget(50))).starts_with("*50|$20000|vv"));
    assert_eq!(read(), 50);
    let refused = "-ERR the command needs more memory than 'maxmemory-clients' allows";
    assert_eq!(text(&server.ask(client, &mget(5000))), refused);
    assert!(read() < 50 + 200, "{}", read());
    server.shared.keyspace.close().unwrap();
}

#[pumice_test_macros::test]
fn many_sets_have_the_room_of_one_command() {
    let scratch = Scratch::new("sets");
    let server = Quiet::open(scratch.path());
    let client = &mut server.client();
    for i in 0..100 {
        server.ask(client, &["ZADD", "z", "1", &format!("{i}{}", "m".repeat(1000))]);
    }
    server.talk(client, &[("CONFIG SET maxmemory-clients 1mb", "+OK")]);
    let refused = "-ERR the command needs more memory than 'maxmemory-clients' allows";
    let times = |times: usize, line: &str| format!("{line} {times}{}", " z".repeat(times));
    for (count, reply) in [(5, ":100"), (50, refused), (5, ":100")] {
        assert_eq!(server.say(client, &times(count, "ZINTERCARD")), reply);
    }
    // Each command of a transaction has it.
    server.talk(client, &[("MULTI", "+OK")]);
    (0..10).for_each(|_| drop(server.say(client, &times(5, "ZINTERCARD"))));
    assert_eq!(server.say(client, "EXEC"), "*10".to_string() + &"|:100".repeat(10));
    server.shared.keyspace.close().unwrap();
}

#[pumice_test_macros::test]
fn a_transaction_that_says_too_much_is_not_carried_out() {
    let scratch = Scratch::new("says");
    let server = Quiet::open(scratch.path());
    let client = &mut server.client();
    let value = "v".repeat(10_000);
    for _ in 0..200 {
        server.ask(client, &["RPUSH", "big", &value]);
    }
    server.talk(client, &[("SET text x", "+OK"), ("CONFIG SET maxmemory-clients 1mb", "+OK")]);
    client.out.limit(1 << 20);
    server.talk(client, &[("MULTI", "+OK"), ("SET done 1", "+QUEUED")]);
    server.talk(client, &[("LRANGE big 0 -1", "+QUEUED"), ("INCR text", "+QUEUED")]);
    let refused = "-ERR the command needs more memory than 'maxmemory-clients' allows";
    server.talk(client, &[("EXEC", refused), ("EXISTS done", ":0")]);
    // An error is whole wherever the replies before it end.
    for room in 0..80 {
        client.out.limit(1000 + room);
        client.out.raw(&[b'x'; 1000]);
        let mut reply = server.ask(client, &["LRANGE", "big", "0", "-1"]);
        assert_eq!(text(&reply.split_off(1000)), refused);
        assert!(!client.out.is_full());
    }
    server.shared.keyspace.close().unwrap();
}

#[pumice_test_macros::test]
fn writing_over_ones_own_writes_takes_room_once() {
    let scratch = Scratch::new("over");
    let server = Quiet::open(scratch.path());
    let client = &mut server.client();
    server.ask(client, &["SET", "k", &"v".repeat(100_000)]);
    server.talk(client, &[("CONFIG SET maxmemory-clients 1mb", "+OK"), ("MULTI", "+OK")]);
    (0..50).for_each(|_| drop(server.say(client, "APPEND k x")));
    assert!(server.say(client, "EXEC").ends_with("|:100050"));
    // Deleted keys use none.
    let value = "v".repeat(1000);
    server.talk(client, &[("MULTI", "+OK")]);
    for _ in 0..20 {
        for i in 0..100 {
            server.ask(client, &["RPUSH", "l", &format!("{i}{value}")]);
        }
        server.say(client, "DEL l");
    }
    assert!(server.say(client, "EXEC").ends_with("|:100|:1"));
    server.talk(client, &[("MULTI", "+OK")]);
    (0..20).for_each(|i| drop(server.ask(client, &["SET", &format!("k{i}"), &"v".repeat(90_000)])));
    let refused = "-ERR the command needs more memory than 'maxmemory-clients' allows";
    server.talk(client, &[("EXEC", refused), ("EXISTS k1", ":0")]);
    server.shared.keyspace.close().unwrap();
}

#[pumice_test_macros::test]
fn a_name_takes_little() {
    let scratch = Scratch::new("name");
    let server = Quiet::open(scratch.path());
    let client = &mut server.client();
    let long = "n".repeat(5000);
    let refused = "-ERR Client names cannot be longer than 4096 bytes.";
    for line in [format!("CLIENT SETNAME {long}"), format!("HELLO 2 SETNAME {long}")] {
        assert_eq!(server.say(client, &line), refused);
    }
    server.talk(client, &[("CLIENT GETNAME", "$-1")]);
    assert_eq!(server.say(client, &format!("CLIENT SETNAME {}", &long[..4096])), "+OK");
    server.shared.keyspace.close().unwrap();
}

#[pumice_test_macros::test]
fn steps_of_scan_are_bounded() {
    let scratch = Scratch::new("scan");
    let mut server = Quiet::open(scratch.path());
    let client = &mut server.client();
    // Large names: a step ends where its reply would be too large.
    let name = "n".repeat(50_000);
    (0..60).for_each(|i| drop(server.ask(client, &["SET", &format!("{i}{name}"), "v"])));
    server.talk(client, &[("CONFIG SET maxmemory-clients 1mb", "+OK")]);
    client.out.limit(1 << 20);
    let walk = |client: &mut super::Client, now: u64, server: &Quiet| {
        let (mut cursor, mut seen, mut steps) = ("0".to_string(), Vec::new(), 0);
        loop {
            let args = ["SCAN", &cursor, "COUNT", "10000"].map(|arg| arg.as_bytes().to_vec());
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            let (session, out) = (&mut client.session, &mut client.out);
            pumice_server::serve::executor::execute(&server.shared, session, out, &args, now);
            let reply = text(out.bytes());
            out.clear();
            assert!(reply.starts_with("*2|"), "{}", &reply[..reply.len().min(100)]);
            cursor = reply.split('|').nth(2).unwrap().to_string();
            seen.extend(reply.split('|').filter(|w| w.ends_with('n')).map(str::to_string));
            steps += 1;
            if cursor == "0" {
                return (seen, steps);
            }
        }
    };
    let (mut seen, steps) = walk(client, server.now, &server);
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 60);
    assert!(steps >= 3, "{steps} steps");
    // Expired keys are examined too.
    client.out.limit(usize::MAX);
    server.talk(client, &[("FLUSHALL", "+OK"), ("CONFIG SET maxmemory-clients 0", "+OK")]);
    for i in 0..25_000 {
        server.ask(client, &["SET", &format!("k{i}"), "v", "PX", "100"]);
    }
    server.now += 1000;
    let (seen, steps) = walk(client, server.now, &server);
    assert!(seen.is_empty() && steps >= 3, "{steps} steps");
    server.shared.keyspace.close().unwrap();
}

/// The kernel's timer for the server's end of a connection: 02 is keepalive. Empty when the
/// kernel's list changed too much to show it.
fn timer_of(caller: &mut Caller, running: &pumice_server::Running) -> String {
    caller.send(b"CLIENT INFO\r\n");
    let info = caller.until("\n\r\n");
    let port = |text: &str| text.rsplit(':').next().unwrap().parse::<u16>().unwrap();
    let word = info.split(' ').find_map(|word| word.strip_prefix("addr=")).unwrap();
    let (own, other) = (running.addresses()[0].port(), port(word));
    let (own, other) = (format!("0100007F:{own:04X}"), format!("0100007F:{other:04X}"));
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let row = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let row = row.into_iter().find(|row| row[1] == own && row[2] == other);
    row.map_or(String::new(), |row| row[5][..2].to_string())
}

#[pumice_test_macros::test]
fn connections_are_kept_alive_as_the_setting_says() {
    let scratch = Scratch::new("alive");
    let running = start(scratch.path(), &[]);
    for (seconds, timer) in [("300", "02"), ("0", "00")] {
        let mut admin = Caller::to(&running);
        assert_eq!(admin.line(&format!("CONFIG SET tcp-keepalive {seconds}")), "+OK");
        let mut caller = Caller::to(&running);
        let end = time::now_micros() + 20_000_000;
        // Data just sent has its own timers for a moment.
        while timer_of(&mut caller, &running) != timer {
            assert!(time::now_micros() < end, "no timer {timer}");
            thread::sleep(Duration::from_millis(1));
        }
    }
    running.stop().unwrap();
}

#[pumice_test_macros::test]
fn attacks_are_reported_once_a_minute() {
    let scratch = Scratch::new("attacks");
    let quiet = Quiet::open(scratch.path());
    let reported = [1000, 1001, 1059, 1060, 1061, 1060, 1121].map(|at| quiet.shared.attacked(at));
    assert_eq!(reported, [true, false, false, true, false, false, true]);
}
