//! A log that cannot be synced: what clients are told, over sockets.

use std::path::Path;
use std::sync::Arc;

use pumice::{MemFs, Options};
use pumice_env::mem::{CrashMode, Fault, FaultOp, FaultRule};
use pumice_port::thread;
use pumice_server::keyspace::Keyspace;
use pumice_server::{Config, Running};

use super::Quiet;
use super::connections::{Caller, io_mode, wait_until};

const CLIENTS: usize = 20;

pub fn options(fs: &Arc<MemFs>) -> Options {
    let mut options = Options::default();
    options.db.file_system = fs.clone();
    options
}

/// A server over a simulated disk.
pub fn start(fs: &Arc<MemFs>, settings: &[(&str, &str)]) -> Running {
    let config = Config::new();
    for (name, value) in [("port", "0"), ("loops", "2")].iter().chain(settings) {
        config.set(name, value).unwrap();
    }
    let options = options(fs);
    let open = || Keyspace::open(options, Path::new("/data/db")).map_err(|e| e.to_string());
    Running::start_over(config, io_mode(), |_, runtime| runtime.run("open", open)).unwrap()
}

/// Of the log, and of the tables and the MANIFEST with which the server would recover.
fn no_more_syncs(fs: &MemFs) {
    fs.add_fault(FaultRule::always(FaultOp::Sync, "*", Fault::Eio));
}

/// Everything a client receives for what it sends, until it is cut off.
fn told(running: &Running, lines: &str) -> String {
    let mut caller = Caller::to(running);
    // It may be cut off before everything is sent.
    caller.stream.send_all(lines.as_bytes()).ok();
    caller.until_closed()
}

pub fn is_refusal(reply: &str) -> bool {
    reply.starts_with("-MISCONF Errors writing to the AOF file: IO error: ") && !reply.contains('|')
}

/// What is there after a power loss.
pub fn after_power_loss(fs: &MemFs, lines: &[(&str, &str)]) {
    let fs = Arc::new(fs.crashed_copy(1, CrashMode::UNSYNCED));
    let server = Quiet::with(Path::new("/data"), options(&fs));
    server.talk(&mut server.client(), lines);
    server.shared.keyspace.close().unwrap();
}

#[pumice_test_macros::test]
fn under_always_each_client_is_told_and_none_gets_what_may_be_lost() {
    for runtime in ["fibers", "threads"] {
        let fs = Arc::new(MemFs::new(1));
        let running = start(&fs, &[("appendfsync", "always"), ("runtime", runtime)]);
        let mut early = Caller::to(&running);
        assert_eq!(early.line("SET early 1"), "+OK");
        no_more_syncs(&fs);
        // All write at once, most of them before the first sync fails.
        thread::scope(|scope| {
            for client in 0..CLIENTS {
                let running = &running;
                scope.spawn(move || {
                    let lines = match client % 4 {
                        0 => format!("SET k{client} v\r\n"),
                        1 => format!("SET k{client} v\r\nSET l{client} v\r\nGET early\r\n"),
                        2 => format!("MULTI\r\nINCR n\r\nRPUSH list{client} v\r\nEXEC\r\n"),
                        _ => format!("HSET h{client} f v\r\nPING\r\n"),
                    };
                    let reply = told(running, &lines);
                    assert!(is_refusal(&reply), "{runtime}: {lines}: {reply}");
                });
            }
        });
        for line in ["GET k0", "GET early", "SET x 1", "INFO keyspace", "BLPOP list2 0.01"] {
            let reply = told(&running, &format!("{line}\r\n"));
            assert!(is_refusal(&reply), "{runtime}: {line}: {reply}");
        }
        assert!(is_refusal(&early.line("GET early")));
        after_power_loss(&fs, &[("GET early", "$1|1"), ("DBSIZE", ":1")]);
        assert!(running.stop().unwrap_err().contains("IO error"));
    }
}

#[pumice_test_macros::test]
fn a_waiting_client_does_not_get_an_element_that_may_be_lost() {
    let fs = Arc::new(MemFs::new(1));
    let running = start(&fs, &[("appendfsync", "always")]);
    let mut pushes = Caller::to(&running);
    assert_eq!(pushes.line("SET early 1"), "+OK");
    let mut waits = Caller::to(&running);
    waits.send(b"BLPOP list 0\r\n");
    wait_until("it waits", || running.shared().waiters.len() == 1);
    no_more_syncs(&fs);
    pushes.send(b"RPUSH list x\r\n");
    for caller in [&mut pushes, &mut waits] {
        let reply = caller.until_closed();
        assert!(is_refusal(&reply), "{reply}");
    }
    assert!(running.stop().is_err());
}

/// Replies that leave together: those to what was durable before are true.
#[pumice_test_macros::test]
fn replies_before_the_failed_sync_are_sent() {
    let fs = Arc::new(MemFs::new(1));
    let running = start(&fs, &[("appendfsync", "always")]);
    let mut caller = Caller::to(&running);
    caller.send(b"HELLO 3\r\nSET early 1\r\n");
    caller.until("+OK\r\n");
    no_more_syncs(&fs);
    caller.send(b"SUBSCRIBE c\r\nSET k v\r\nGET k\r\n");
    let reply = caller.until_closed();
    let rest = reply.strip_prefix(">3|$9|subscribe|$1|c|:1|");
    assert!(rest.is_some_and(is_refusal), "{reply}");
    assert!(running.stop().is_err());
}

/// Under `everysec` what was acknowledged before may be lost, as documented; from the failure on
/// nothing is acknowledged, and clients that read are served.
#[pumice_test_macros::test]
fn under_everysec_writes_are_refused_and_reads_served() {
    let fs = Arc::new(MemFs::new(1));
    let running = start(&fs, &[("appendfsync", "everysec")]);
    let mut caller = Caller::to(&running);
    assert_eq!(caller.line("SET early 1"), "+OK");
    no_more_syncs(&fs);
    let mut written = 0;
    let mut last = String::new();
    wait_until("a sync fails", || {
        last = caller.line(&format!("SET k{written} v"));
        written += 1;
        last != "+OK"
    });
    assert!(is_refusal(&last), "{last}");
    for line in ["INCR n", "RPUSH l 1", "DEL early", "FLUSHALL"] {
        assert!(is_refusal(&caller.line(line)), "{line}");
    }
    assert_eq!(caller.line("STRLEN early"), ":1");
    assert_eq!(caller.line("PING"), "+PONG");
    assert_eq!(caller.line("DBSIZE"), format!(":{written}"));
    assert!(running.stop().is_err());
}
