//! `pumice serve` from outside: its output, how it ends, and what it survives without loss: kill
//! -9, a full disk, crowds, clients that do not read, malformed input.
//!
//! Each part runs a share by default and more by its environment variable; docs/testing.md lists
//! them. `PUMICE_SERVE_BINARY` names another server than the one built with the tests.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod client;
mod clients;
mod crowd;
mod disk;
mod ends;
mod fuzz;
mod kills;
mod service;
mod slow;
mod tls;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use client::Client;

/// How long a test waits for what must happen; costs nothing unless it fails.
const PATIENCE: Duration = Duration::from_secs(120);

/// A directory that is deleted on drop.
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
        // An earlier failure must stay visible.
        assert!(removed.is_ok() || std::thread::panicking(), "{removed:?}");
    }
}

/// Numbers by seed.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// A number that the environment may set.
fn setting(variable: &str, default: usize) -> usize {
    std::env::var(variable).map_or(default, |n| n.parse().unwrap())
}

/// Waits until `is` returns true; fails with `what` if it never does.
fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < PATIENCE, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The program, which will serve `dir` on a free port.
fn command(dir: &Path, settings: &[(&str, &str)]) -> Command {
    let own = PathBuf::from(env!("CARGO_BIN_EXE_pumice"));
    let mut command =
        Command::new(std::env::var_os("PUMICE_SERVE_BINARY").map_or(own, PathBuf::from));
    command.arg("serve").current_dir(dir).stdout(Stdio::piped());
    for (name, _) in std::env::vars_os() {
        // Ours would be settings of its.
        if name.to_string_lossy().starts_with("PUMICE_SERVE_") {
            command.env_remove(name);
        }
    }
    if std::env::var("PUMICE_RUNTIME").is_ok_and(|runtime| runtime == "fibers-threads") {
        command.env("PUMICE_IO", "threads");
    }
    for (name, value) in [("port", "0")].iter().chain(settings) {
        command.args([&format!("--{name}"), *value]);
    }
    command
}

/// A server as a process; killed with the value.
struct Server {
    child: Child,
    lines: BufReader<ChildStdout>,
    port: u16,
}

impl Server {
    /// Starts one in `dir` and reads where it listens.
    fn start(dir: &Path, settings: &[(&str, &str)]) -> Server {
        Server::run(&mut command(dir, settings))
    }

    fn run(command: &mut Command) -> Server {
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("listening on 127.0.0.1:") {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0, "it ended");
        }
        let port = line.trim_end().rsplit(' ').next().unwrap().parse().unwrap();
        Server { child, lines, port }
    }

    fn connect(&self) -> Client {
        Client::to(self.port).unwrap()
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    fn end(mut self) -> (ExitStatus, String) {
        let mut printed = String::new();
        self.lines.read_to_string(&mut printed).unwrap();
        (self.child.wait().unwrap(), printed)
    }

    /// Asks it to end; it does so in good order.
    fn end_well(self) {
        self.signal("-TERM");
        let (status, printed) = self.end();
        assert!(status.success(), "{status}: {printed}");
    }

    /// Bytes that it has in memory.
    fn memory_bytes(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The value of a line `name:value` of INFO.
fn info(client: &mut Client, name: &str) -> usize {
    let text = client.say("INFO everything");
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).trim_end().parse().unwrap()
}
