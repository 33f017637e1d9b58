//! Pipelines of plain SETs, which are executed together: only the time shows it.

use std::path::Path;
use std::sync::Arc;

use pumice::{MemFs, Options, Statistics, Ticker};
use pumice_env::mem::{Fault, FaultOp, FaultRule};
use pumice_server::keyspace::Sets;

use super::connections::{Caller, start};
use super::{Quiet, Random, Scratch};

/// A command as clients send it.
fn encoded(words: &[String]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    bytes
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_string).collect()
}

/// Mostly plain SETs, of few keys, between commands that leave something else at these.
fn drawn(random: &mut Random) -> Vec<String> {
    let key = format!("k{}", random.below(12));
    let value = "v".repeat(random.below(3) as usize * random.below(9000) as usize) + "x";
    words(&match random.below(22) {
        0 => format!("SADD {key} a b"),
        1 => format!("RPUSH {key} a"),
        2 => format!("DEL {key}"),
        3 => format!("GET {key}"),
        4 => "DBSIZE".to_string(),
        5 => format!("SET {key} {value} NX"),
        6 => format!("SET {key}"),
        7 => format!("SELECT {}", random.below(2)),
        8 => format!("STRLEN {key}"),
        9 => format!("EXPIRE {key} 1000"),
        10 => format!("sEt {key} {value}"),
        _ => format!("SET {key} {value}"),
    })
}

/// Replies and events of commands that are sent `at_once` at a time.
fn told(settings: &[(&str, &str)], all: &[Vec<String>], at_once: &[usize]) -> (String, String) {
    let scratch = Scratch::new("pipelines");
    let mut settings = settings.to_vec();
    settings.push(("notify-keyspace-events", "KEA"));
    let running = start(scratch.path(), &settings);
    let (mut caller, mut listener) = (Caller::to(&running), Caller::to(&running));
    listener.send(b"PSUBSCRIBE *\r\n");
    listener.until(":1\r\n");
    let (mut rest, mut replies, mut turn) = (all, String::new(), 0);
    while !rest.is_empty() {
        let (now, later) = rest.split_at(at_once[turn % at_once.len()].min(rest.len()));
        let end = encoded(&words(&format!("ECHO end{turn:03}")));
        let bytes: Vec<u8> = now.iter().flat_map(|words| encoded(words)).chain(end).collect();
        caller.send(&bytes);
        replies += &caller.until(&format!("end{turn:03}\r\n"));
        (rest, turn) = (later, turn + 1);
    }
    caller.line("PUBLISH over over");
    let events = listener.until("$4\r\nover\r\n$4\r\nover\r\n");
    running.stop().unwrap();
    // The ends of the pieces are not alike.
    let is_end = |line: &&str| line.starts_with("end") || *line == "$6";
    let replies = replies.split("\r\n").filter(|line| !is_end(line)).collect::<Vec<_>>();
    (replies.join("|"), events)
}

#[pumice_test_macros::test]
fn a_pipeline_is_as_its_commands_one_by_one() {
    for seed in 1..=3 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let all: Vec<_> = (0..400).map(|_| drawn(&mut random)).collect();
        let single = told(&[], &all, &[1]);
        let sizes = [2, 17, 200, 5, 64];
        let threads = [("runtime", "threads"), ("workers", "2")];
        for settings in [&[][..], &[("appendfsync", "always")], &threads] {
            let together = told(settings, &all, &sizes);
            assert_eq!(single.0, together.0, "{settings:?}");
            assert_eq!(single.1, together.1, "{settings:?}");
        }
    }
}

#[pumice_test_macros::test]
fn a_user_with_limits_and_a_transaction_get_what_they_would_get() {
    let scratch = Scratch::new("pipelines");
    let running = start(scratch.path(), &[]);
    let mut caller = Caller::to(&running);
    let lines = [
        "ACL SETUSER u on nopass ~a* +set +auth +acl|log",
        "AUTH u x",
        "SET a1 v",
        "SET b1 v",
        "SET a2 v",
        "AUTH default x",
        "MULTI",
        "SET b1 v",
        "SET b2 v",
        "EXEC",
        "SET a3 v",
        "SET a4",
        "SET a5 v",
        "DBSIZE",
        "ECHO end",
    ];
    let bytes: Vec<u8> = lines.iter().flat_map(|line| encoded(&words(line))).collect();
    caller.send(&bytes);
    let replies = caller.until("$3\r\nend\r\n");
    let refused =
        "-NOPERM this user has no permissions to access one of the keys used as arguments";
    let all: Vec<&str> = replies.split("\r\n").collect();
    assert_eq!(all[2..5], ["+OK", refused, "+OK"], "{replies}");
    let number = "-ERR wrong number of arguments for 'set' command";
    let end = ["+OK", number, "+OK", ":6", "$3", "end", ""];
    assert_eq!(all[all.len() - end.len()..], end, "{replies}");
    caller.send(&encoded(&words("ACL LOG")));
    let log = caller.until("\r\n");
    assert!(log.starts_with("*1\r\n"), "one refusal is one entry: {log}");
    running.stop().unwrap();
}

fn options(fs: &Arc<MemFs>, statistics: &Arc<Statistics>) -> Options {
    let mut options = Options::default();
    options.db.file_system = fs.clone();
    options.db.statistics = Some(Arc::clone(statistics));
    options
}

/// Pairs of a run.
fn pairs(keys: &[String]) -> Vec<(&[u8], &[u8])> {
    keys.iter().map(|key| (key.as_bytes(), &b"new"[..])).collect()
}

#[pumice_test_macros::test]
fn a_run_is_one_batch_up_to_what_is_not_simple() {
    for is_cold in [false, true] {
        let (fs, statistics) = (Arc::new(MemFs::new(1)), Arc::new(Statistics::new()));
        let mut options = options(&fs, &statistics);
        options.cf.table_factory.no_block_cache = true;
        let mut server = Quiet::with(Path::new("/data"), options);
        let client = &mut server.client();
        server.talk(client, &[("SET k1 v", "+OK"), ("SET k2 v PX 1000", "+OK")]);
        server.talk(client, &[("SADD k5 a b", ":2"), ("SET k8 v PX 10", "+OK")]);
        if is_cold {
            server.shared.keyspace.db().flush().unwrap();
        }
        server.now += 100;
        let keys: Vec<String> = (0..12).map(|number| format!("k{number}")).collect();
        let pairs = pairs(&keys);
        let keyspace = &server.shared.keyspace;
        let (mut rest, mut counts) = (&pairs[..], Vec::new());
        let written = || statistics.ticker(Ticker::WriteDoneBySelf);
        let before = written();
        while let [first, others @ ..] = rest {
            let (held, free) = keyspace.locks.free_ones(rest.iter().map(|(key, _)| *key), None);
            assert_eq!(free, rest.len());
            let run = keyspace.set_run((0, server.now), rest, held, None, |_, _| ());
            run.written.unwrap();
            counts.push(run.count);
            rest = &rest[run.count..];
            if run.count == 0 {
                let key = std::str::from_utf8(first.0).unwrap();
                server.talk(client, &[(&format!("SET {key} new"), "+OK")]);
                rest = others;
            }
        }
        // Five up to the set, and two between it and the expired key.
        assert_eq!(counts, [5, 0, 2, 0, 3], "cold: {is_cold}");
        assert_eq!(written() - before, 5);
        for key in &keys {
            server.talk(client, &[(&format!("GET {key}"), "$3|new")]);
            server.talk(client, &[(&format!("TTL {key}"), ":-1")]);
        }
        server.talk(client, &[("DBSIZE", ":12")]);
        drop(keyspace.locks.all());
        keyspace.close().unwrap();
    }
}

#[pumice_test_macros::test]
fn a_run_that_cannot_be_written_has_no_effect() {
    let (fs, statistics) = (Arc::new(MemFs::new(1)), Arc::new(Statistics::new()));
    let server = Quiet::with(Path::new("/data"), options(&fs, &statistics));
    let keyspace = &server.shared.keyspace;
    fs.add_fault(FaultRule::always(FaultOp::Write, "*.log", Fault::Enospc));
    let keys: Vec<String> = (0..12).map(|number| format!("k{number}")).collect();
    let pairs = pairs(&keys);
    let (held, free) = keyspace.locks.free_ones(pairs.iter().map(|(key, _)| *key), None);
    let told = |events: &[_], _: Sets<'_>| assert!(events.is_empty(), "nothing happened");
    let run = keyspace.set_run((0, server.now), &pairs[..free], held, None, told);
    assert!(run.written.is_err());
    assert_eq!(run.count, free, "the failure is that of each");
    drop(keyspace.locks.all());
    server.talk(&mut server.client(), &[("DBSIZE", ":0"), ("GET k3", "$-1")]);
    keyspace.db().close().ok();
}

/// Bytes of the log after 16 SETs, few enough for one receive, that arrive `at_once` at a time.
fn logged(at_once: usize) -> u64 {
    let scratch = Scratch::new("pipelines");
    let running = start(scratch.path(), &[("appendfsync", "always")]);
    let mut caller = Caller::to(&running);
    let all: Vec<_> = (0..16).map(|number| words(&format!("SET key{number:02} v"))).collect();
    for some in all.chunks(at_once) {
        caller.send(&some.iter().flat_map(|words| encoded(words)).collect::<Vec<_>>());
        caller.until(&"+OK\r\n".repeat(some.len()));
    }
    let folder = std::fs::read_dir(scratch.path().join("db")).unwrap();
    let logs = folder
        .map(Result::unwrap)
        .filter(|file| file.path().extension().is_some_and(|extension| extension == "log"));
    let bytes = logs.map(|file| file.metadata().unwrap().len()).sum();
    running.stop().unwrap();
    bytes
}

#[pumice_test_macros::test]
fn a_pipeline_is_one_record_of_the_log() {
    // The heads of a record and of a batch (docs/format/log.md).
    const HEADS: u64 = 7 + 12;
    let (single, together) = (logged(1), logged(16));
    assert_eq!(single - together, 15 * HEADS);
}

#[pumice_test_macros::test]
fn what_comes_before_malformed_input_is_carried_out() {
    let scratch = Scratch::new("pipelines");
    let running = start(scratch.path(), &[]);
    let mut caller = Caller::to(&running);
    let sets = (0..3).flat_map(|number| encoded(&words(&format!("SET k{number} v"))));
    caller.send(&sets.chain(*b"*3\r\n$3\r\nSET\r\n:oops\r\n").collect::<Vec<_>>());
    let text = "+OK|+OK|+OK|-ERR Protocol error: expected '$', got ':'";
    assert_eq!(caller.until_closed(), text);
    assert_eq!(Caller::to(&running).line("DBSIZE"), ":3");
    running.stop().unwrap();
}
