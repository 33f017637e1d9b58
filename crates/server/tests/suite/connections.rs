//! Over sockets: pipelines, many clients, limits, the end.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pumice_port::net::{Direction, Stream};
use pumice_port::{thread, time};
use pumice_server::{Config, IoMode, Running};

use super::{Scratch, text};

/// How long a test waits for what must happen; costs nothing unless it fails.
pub const PATIENCE: Duration = Duration::from_secs(120);
const PATIENCE_NANOS: u64 = PATIENCE.as_nanos() as u64;

/// Waits until `is` returns true, and fails with `what` when it never does.
pub fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let end = time::now_nanos() + PATIENCE_NANOS;
    while !is() {
        assert!(time::now_nanos() < end, "in vain: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// A server on a free port of the loopback interface, on the runtime of the tests.
pub fn start(dir: &Path, settings: &[(&str, &str)]) -> Running {
    try_start(dir, settings).unwrap()
}

/// As [`start`], where it may fail.
pub fn try_start(dir: &Path, settings: &[(&str, &str)]) -> Result<Running, String> {
    let config = Config::new();
    config.set("dir", dir.join("db").to_str().unwrap()).unwrap();
    config.set("port", "0").unwrap();
    for (name, value) in settings {
        config.set(name, value).unwrap();
    }
    Running::start(config, io_mode())
}

/// How the loops of a server do input and output.
pub fn io_mode() -> IoMode {
    let threads = std::env::var("PUMICE_RUNTIME").is_ok_and(|name| name == "fibers-threads");
    if threads { IoMode::Threads } else { IoMode::Auto }
}

/// A client that waits a bounded time.
pub struct Caller {
    pub stream: Stream,
    rest: Vec<u8>,
}

impl Caller {
    pub fn new(stream: Stream) -> Caller {
        stream.set_receive_timeout(Some(PATIENCE_NANOS));
        Caller { stream, rest: Vec::new() }
    }
    pub fn to(running: &Running) -> Caller {
        Caller::new(Stream::connect_tcp(running.addresses()[0], PATIENCE_NANOS).unwrap())
    }
    pub fn send(&self, bytes: &[u8]) {
        self.stream.send_all(bytes).unwrap();
    }
    /// Receives until the data ends with `end`.
    pub fn until(&mut self, end: &str) -> String {
        let mut buf = vec![0; 1 << 16];
        while !self.rest.ends_with(end.as_bytes()) {
            let n = self.stream.receive(&mut buf).unwrap();
            assert!(n > 0, "the server hung up after {:?}", text(&self.rest));
            self.rest.extend_from_slice(&buf[..n]);
        }
        String::from_utf8(std::mem::take(&mut self.rest)).unwrap()
    }
    /// As [`Caller::until`], if it arrives at once.
    pub fn until_soon(&mut self, end: &str) -> Option<String> {
        let mut buf = vec![0; 1 << 16];
        self.stream.set_receive_timeout(Some(1_000_000));
        let received = self.stream.receive(&mut buf);
        self.stream.set_receive_timeout(Some(PATIENCE_NANOS));
        self.rest.extend_from_slice(&buf[..received.unwrap_or(0)]);
        self.rest.ends_with(end.as_bytes()).then(|| self.until(end))
    }
    /// Receives until the server hangs up.
    pub fn until_closed(&mut self) -> String {
        let mut buf = vec![0; 1 << 16];
        loop {
            match self.stream.receive(&mut buf) {
                Ok(0) | Err(_) => return text(&std::mem::take(&mut self.rest)),
                Ok(n) => self.rest.extend_from_slice(&buf[..n]),
            }
        }
    }
    /// The next line, or what arrives until the server hangs up.
    pub fn line_or_end(&mut self) -> String {
        let mut buf = vec![0; 1 << 16];
        while !self.rest.ends_with(b"\r\n") {
            match self.stream.receive(&mut buf) {
                Ok(0) | Err(_) => break,
                Ok(n) => self.rest.extend_from_slice(&buf[..n]),
            }
        }
        text(&std::mem::take(&mut self.rest))
    }
    /// The one-line reply to an inline command.
    pub fn line(&mut self, command: &str) -> String {
        self.send(format!("{command}\r\n").as_bytes());
        self.until("\r\n").trim_end().to_string()
    }
}

#[pumice_test_macros::test]
fn clients_are_served_side_by_side() {
    let scratch = Scratch::new("clients");
    let running = start(scratch.path(), &[("appendfsync", "always")]);
    thread::scope(|scope| {
        for client in 0..20 {
            let running = &running;
            scope.spawn(move || {
                let mut caller = Caller::to(running);
                // A pipeline that comes in pieces.
                let mut bytes = String::new();
                for i in 0..100 {
                    bytes += &format!("SET k{client}:{i} {i}\r\nINCR shared\r\n");
                }
                bytes += "PING end\r\n";
                let (one, two) = bytes.as_bytes().split_at(777);
                caller.send(one);
                caller.send(two);
                let replies = caller.until("$3\r\nend\r\n");
                assert_eq!(replies.matches("+OK\r\n").count(), 100);
            });
        }
    });
    let mut caller = Caller::to(&running);
    assert_eq!(caller.line("DBSIZE"), ":2001");
    caller.send(b"GET shared\r\n");
    assert_eq!(text(caller.until("2000\r\n").as_bytes()), "$4|2000");
    running.stop().unwrap();
}

#[pumice_test_macros::test]
fn hostile_and_unknown_clients_are_let_go() {
    let scratch = Scratch::new("hostile");
    // No client here is ended for being idle.
    let settings = [("requirepass", "secret"), ("maxclients", "3"), ("auth-timeout", "3600")];
    let running = start(scratch.path(), &settings);
    let mut caller = Caller::to(&running);
    assert_eq!(caller.line("GET a"), "-NOAUTH Authentication required.");
    assert!(caller.line("AUTH wrong").starts_with("-WRONGPASS"));
    assert_eq!(caller.line("AUTH secret"), "+OK");
    assert_eq!(caller.line("SET a 1"), "+OK");
    let mut other = Caller::to(&running);
    other.send(b"*2\r\n$4\r\nAUTH\r\n$20000\r\n");
    assert_eq!(other.until_closed(), "-ERR Protocol error: unauthenticated bulk length");
    let mut third = Caller::to(&running);
    third.send(b"*1\r\n:1\r\n");
    assert_eq!(third.until_closed(), "-ERR Protocol error: expected '$', got ':'");
    // Earlier connections are still served when there are too many.
    let _more: Vec<_> = (0..2).map(|_| Caller::to(&running)).collect();
    let mut refused = Caller::to(&running);
    assert_eq!(refused.until_closed(), "-ERR max number of clients reached");
    assert_eq!(caller.line("PING"), "+PONG");
    running.stop().unwrap();
}

#[pumice_test_macros::test]
fn who_has_gone_leaves_a_place() {
    let scratch = Scratch::new("places");
    let running = start(scratch.path(), &[("maxclients", "1")]);
    for round in 0..300 {
        let mut caller = Caller::to(&running);
        assert_eq!(caller.line("PING"), "+PONG", "round {round}");
        caller.send(b"QUIT\r\n");
        assert_eq!(caller.until_closed(), "+OK");
    }
    running.stop().unwrap();
}

#[pumice_test_macros::test]
fn the_end_answers_what_has_come_and_keeps_it() {
    let scratch = Scratch::new("end");
    let settings = [("unixsocket", scratch.path().join("s").to_str().unwrap().to_string())];
    let settings: Vec<_> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
    for life in 0..3 {
        let running = start(scratch.path(), &settings);
        let mut caller = Caller::new(Stream::connect_unix(running.socket().unwrap()).unwrap());
        assert_eq!(caller.line("DBSIZE"), format!(":{}", life * 50));
        let commands: String = (0..50).map(|i| format!("SET {life}-{i} v\r\n")).collect();
        caller.send(commands.as_bytes());
        // The last command of a client that has stopped sending is answered.
        caller.stream.shutdown(Direction::Send).unwrap();
        assert_eq!(caller.until_closed().matches("+OK").count(), 50);
        let mut caller = Caller::new(Stream::connect_unix(running.socket().unwrap()).unwrap());
        assert_eq!(caller.line("PING"), "+PONG");
        if life == 1 {
            caller.send(b"SHUTDOWN\r\n");
            assert!(running.wait(PATIENCE));
            assert_eq!(caller.until_closed(), "");
        }
        running.stop().unwrap();
        assert_eq!(caller.until_closed(), "");
    }
}

#[pumice_test_macros::test]
fn a_client_that_never_reads_costs_little() {
    let scratch = Scratch::new("reader");
    let running = Arc::new(start(scratch.path(), &[]));
    let mut caller = Caller::to(&running);
    let value = "v".repeat(100_000);
    assert_eq!(caller.line(&format!("SET big {}", &value[..60_000])), "+OK");
    let lazy = Caller::to(&running);
    lazy.stream.set_send_timeout(Some(2_000_000_000));
    let gets = "GET big\r\n".repeat(1000);
    let mut sent = 0;
    // It is no longer read from once its replies pile up.
    while sent < 1000 && lazy.stream.send_all(gets.as_bytes()).is_ok() {
        sent += 1;
    }
    assert!(sent < 1000, "the server went on reading");
    // Unread replies count against its limit.
    let memory = &running.shared().clients.memory;
    wait_until("replies are charged", || memory.used() > 1 << 20);
    // Only slightly more replies were made than the sockets hold.
    let made = running.shared().stats.commands.load(Ordering::Relaxed);
    assert!(made < 10_000, "{made} commands");
    assert_eq!(caller.line("PING"), "+PONG");
    drop(lazy);
    drop(caller);
    Arc::into_inner(running).unwrap().stop().unwrap();
}
