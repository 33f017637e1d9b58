//! `pumice serve` from outside: what it says, how it ends, and that kill -9 loses nothing that was
//! acknowledged.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(120);

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pumice-serve-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let removed = std::fs::remove_dir_all(&self.0);
        // A failure before is what is to be seen.
        assert!(removed.is_ok() || std::thread::panicking(), "{removed:?}");
    }
}

/// A server as a process; killed with the value.
struct Server {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
    port: u16,
}

impl Server {
    /// Starts one in `dir` and reads where it listens.
    fn start(dir: &Path, fsync: &str) -> Server {
        let mut child = Command::new(env!("CARGO_BIN_EXE_pumice"))
            .args(["serve", "--port", "0", "--appendfsync", fsync])
            .current_dir(dir)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("listening on 127.0.0.1:") {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0, "it ended");
        }
        let port = line.trim_end().rsplit(' ').next().unwrap().parse().unwrap();
        Server { child, lines, port }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    fn end(mut self) -> (ExitStatus, String) {
        let mut said = String::new();
        self.lines.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap(), said)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Replies to pipelined commands, each of one line.
fn ask(stream: &mut TcpStream, commands: &str, replies: usize) -> Vec<String> {
    stream.write_all(commands.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines();
    (0..replies).map(|_| lines.next().unwrap().unwrap()).collect()
}

// Plain #[test]: it only waits for other processes.
#[test]
fn it_says_where_it_listens_and_ends_in_good_order() {
    let scratch = Scratch::new("end");
    for signal in ["-TERM", "-INT"] {
        let server = Server::start(&scratch.0, "everysec");
        let mut stream = server.connect();
        ask(&mut stream, "INCR lives\r\n", 1);
        assert_eq!(ask(&mut stream, "PING\r\n", 1), ["+PONG"]);
        server.signal(signal);
        let (status, said) = server.end();
        assert!(status.success(), "{signal}: {status}");
        assert!(said.contains("everything is on disk"), "{said}");
    }
    let server = Server::start(&scratch.0, "no");
    assert_eq!(ask(&mut server.connect(), "INCR lives\r\n", 1), [":3"]);
}

/// Writes counters until the connection breaks; what was acknowledged, by key.
/// The end of its first round is told through `begun`.
fn load(mut stream: TcpStream, client: usize, begun: &Sender<()>) -> BTreeMap<String, u64> {
    let mut acknowledged = BTreeMap::new();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    for round in 1.. {
        let commands: String = (0..8).map(|i| format!("SET c{client}:{i} {round}\r\n")).collect();
        if stream.write_all(commands.as_bytes()).is_err() {
            break;
        }
        for i in 0..8 {
            let mut line = String::new();
            match reader.read_line(&mut line) {
                Ok(_) if line == "+OK\r\n" => acknowledged.insert(format!("c{client}:{i}"), round),
                _ => return acknowledged,
            };
        }
        if round == 1 {
            begun.send(()).unwrap();
        }
    }
    acknowledged
}

/// `PUMICE_SERVE_KILLS=N` kills it N times (3).
// Plain #[test]: it only waits for other processes.
#[test]
fn killed_under_load_it_has_everything_acknowledged() {
    let kills = std::env::var("PUMICE_SERVE_KILLS").map_or(3, |n| n.parse().unwrap());
    for kill in 0..kills {
        let scratch = Scratch::new(&format!("kill{kill}"));
        let server = Server::start(&scratch.0, "always");
        let (begun, begins) = std::sync::mpsc::channel();
        let clients: Vec<_> = (0..4)
            .map(|client| {
                let (stream, begun) = (server.connect(), begun.clone());
                std::thread::spawn(move || load(stream, client, &begun))
            })
            .collect();
        // The kill comes after so many acknowledgements, not after a time.
        (0..4).for_each(|_| begins.recv_timeout(PATIENCE).unwrap());
        let mut stream = server.connect();
        (0..kill * 7).for_each(|_| drop(ask(&mut stream, "INCR n\r\n", 1)));
        server.signal("-KILL");
        let acknowledged: Vec<_> = clients.into_iter().map(|c| c.join().unwrap()).collect();
        drop(server);
        let server = Server::start(&scratch.0, "always");
        let mut stream = server.connect();
        let mut checked = 0;
        for (key, round) in acknowledged.into_iter().flatten() {
            let value = ask(&mut stream, &format!("GET {key}\r\n"), 2);
            assert!(value[1].parse::<u64>().unwrap() >= round, "{key}: {value:?} after {round}");
            checked += 1;
        }
        assert!(checked >= 32, "only {checked} keys");
    }
}
