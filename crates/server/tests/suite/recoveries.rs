//! A disk that fails for a while: the server recovers from it without a restart, over sockets.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use pumice::MemFs;
use pumice_env::mem::{CrashMode, Fault, FaultOp, FaultRule, FsyncFailure};
use pumice_port::thread;
use pumice_server::Running;

use super::Quiet;
use super::connections::{Caller, wait_until};
use super::sync_failures::{after_power_loss, is_refusal, options, start};

const RUNTIMES: [&str; 2] = ["fibers", "threads"];
const CLIENTS: usize = 6;

/// No write works, whether of the log or of the tables with which the server would recover.
fn no_more_writes(fs: &MemFs) {
    fs.add_fault(FaultRule::always(FaultOp::Write, "*", Fault::Eio));
}

/// Waits until an attempt to recover has failed.
fn until_an_attempt_fails(fs: &MemFs) {
    wait_until("an attempt to recover fails", || {
        fs.fault_log().iter().any(|line| line.contains(".sst"))
    });
}

fn status(caller: &mut Caller) -> String {
    caller.send(b"INFO persistence\r\nPING\r\n");
    let info = caller.until("+PONG\r\n");
    let line = info.lines().find_map(|line| line.strip_prefix("aof_last_write_status:"));
    line.unwrap().to_string()
}

/// Sets keys `prefix` with a number until one is acknowledged; returns its number.
fn set_until_acknowledged(caller: &mut Caller, prefix: &str) -> usize {
    let mut number = 0;
    wait_until("it writes again by itself", || {
        number += 1;
        let reply = caller.line(&format!("SET {prefix}{number} v"));
        assert!(reply == "+OK" || is_refusal(&reply), "{reply}");
        reply == "+OK"
    });
    number
}

/// Commands of many kinds, and their replies while writes work for the first time.
const WRITES: &[(&str, &str)] = &[
    ("RPUSH list a b c", ":3"),
    ("HSET hash f 1 g 2", ":2"),
    ("SADD set x y", ":2"),
    ("SET lives v EX 100000", "+OK"),
    ("INCR n", ":1"),
    ("RENAME early later", "+OK"),
];

#[pumice_test_macros::test]
fn a_refused_connection_writes_again_when_the_disk_does() {
    for runtime in RUNTIMES {
        for fsync in ["always", "everysec"] {
            let fs = Arc::new(MemFs::new(1));
            let running = start(&fs, &[("appendfsync", fsync), ("runtime", runtime)]);
            let (mut caller, mut waits) = (Caller::to(&running), Caller::to(&running));
            assert_eq!(caller.line("SET early 1"), "+OK");
            assert_eq!(caller.line("SET over v PX 1"), "+OK");
            waits.send(b"BLPOP queue 0\r\n");
            wait_until("it waits", || running.shared().waiters.len() == 1);
            assert_eq!(status(&mut caller), "ok");
            no_more_writes(&fs);
            let lines = WRITES.iter().map(|(line, _)| *line).chain(["SET k v", "RPUSH queue 1"]);
            for line in lines.clone() {
                assert!(is_refusal(&caller.line(line)), "{line}");
            }
            until_an_attempt_fails(&fs);
            assert_eq!(status(&mut caller), "err");
            for line in lines {
                assert!(is_refusal(&caller.line(line)), "{line}");
            }
            assert_eq!(caller.line("STRLEN early"), ":1");
            fs.clear_faults();
            let number = set_until_acknowledged(&mut caller, "back");
            assert_eq!(status(&mut caller), "ok");
            for (line, reply) in WRITES {
                assert_eq!(caller.line(line), *reply, "{line}");
            }
            assert_eq!(caller.line("RPUSH queue 1 2"), ":2");
            waits.until("1\r\n");
            // What was refused was not written, and what has expired is gone.
            assert_eq!(caller.line("STRLEN over"), ":0");
            for line in ["DEL over", "EXISTS k", &format!("EXISTS back{}", number - 1)] {
                assert_eq!(caller.line(line), ":0", "{line}");
            }
            let expected = [
                ("LRANGE list 0 -1", "*3|$1|a|$1|b|$1|c"),
                ("HGET hash g", "$1|2"),
                ("SCARD set", ":2"),
                ("GET later", "$1|1"),
                ("LRANGE queue 0 -1", "*1|$1|2"),
                (&format!("EXISTS early n lives back{number}"), ":3"),
            ];
            if fsync == "everysec" {
                running.stop().unwrap();
                after_power_loss(&fs, &expected);
            } else {
                after_power_loss(&fs, &expected);
                running.stop().unwrap();
            }
        }
    }
}

/// Ends the writers, also when the test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Sets its own keys one after the other until `ends`; returns those that were acknowledged.
fn write_on(running: &Running, client: usize, oks: &AtomicUsize, ends: &AtomicBool) -> Vec<usize> {
    let mut caller = Caller::to(running);
    let mut acknowledged = Vec::new();
    let mut number = 0;
    while !ends.load(Ordering::Acquire) {
        number += 1;
        let bytes = format!("SET k{client}:{number} {number}\r\n");
        // After a sync that failed the server hangs up.
        let mut told = String::new();
        if caller.stream.send_all(bytes.as_bytes()).is_ok() {
            told = caller.line_or_end();
        }
        match told.as_str() {
            "+OK" => {
                acknowledged.push(number);
                oks.fetch_add(1, Ordering::Release);
            }
            told => {
                assert!(told.is_empty() || is_refusal(told), "{told}");
                thread::sleep(Duration::from_millis(1));
                caller = Caller::to(running);
            }
        }
    }
    acknowledged
}

/// The log's syncs fail, and the bytes are gone after a power loss although they can be read: what
/// the server recovers with must not trust that log.
#[pumice_test_macros::test]
fn what_was_acknowledged_around_failed_syncs_is_durable() {
    for runtime in RUNTIMES {
        let fs = Arc::new(MemFs::new(1));
        let running = start(&fs, &[("appendfsync", "always"), ("runtime", runtime)]);
        let (oks, ends) = (AtomicUsize::new(0), AtomicBool::new(false));
        let oks_grow = |what: &str| {
            let before = oks.load(Ordering::Acquire);
            wait_until(what, || oks.load(Ordering::Acquire) > before + 3 * CLIENTS);
        };
        let acknowledged: Vec<Vec<usize>> = thread::scope(|scope| {
            let write = |client| {
                let (running, oks, ends) = (&running, &oks, &ends);
                scope.spawn(move || write_on(running, client, oks, ends))
            };
            let clients: Vec<_> = (0..CLIENTS).map(write).collect();
            let writing = Ends(&ends);
            for _ in 0..2 {
                oks_grow("it writes");
                let before = fs.fault_log().len();
                let fault = Fault::Fsync(FsyncFailure::ReadableThenLost);
                fs.add_fault(FaultRule::always(FaultOp::Sync, "*.log", fault));
                // The second is that of an attempt to recover.
                wait_until("syncs fail", || fs.fault_log().len() > before + 1);
                fs.clear_faults();
            }
            oks_grow("it writes again by itself");
            drop(writing);
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        let after = Arc::new(fs.crashed_copy(1, CrashMode::UNSYNCED));
        let server = Quiet::with(Path::new("/data"), options(&after));
        let mut client = server.client();
        for (own, numbers) in acknowledged.iter().enumerate() {
            for number in numbers {
                let value = server.say(&mut client, &format!("GET k{own}:{number}"));
                assert!(value.ends_with(&format!("|{number}")), "k{own}:{number}: {value}");
            }
        }
        server.shared.keyspace.close().unwrap();
        running.stop().unwrap();
    }
}

/// The end comes before the next attempt.
#[pumice_test_macros::test]
fn the_end_recovers_first_so_that_everything_is_saved() {
    for runtime in RUNTIMES {
        let fs = Arc::new(MemFs::new(1));
        let running = start(&fs, &[("appendfsync", "everysec"), ("runtime", runtime)]);
        let mut caller = Caller::to(&running);
        assert_eq!(caller.line("SET early 1"), "+OK");
        no_more_writes(&fs);
        assert!(is_refusal(&caller.line("SET k v")));
        until_an_attempt_fails(&fs);
        fs.clear_faults();
        running.stop().unwrap();
        after_power_loss(&fs, &[("DBSIZE", ":1"), ("GET early", "$1|1")]);
    }
}
