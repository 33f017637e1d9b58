//! `cargo xtask clients balboa`: Debian's store for passive DNS, as Debian built it for RocksDB
//! 7.8, on our library under the name that it was linked with.
//!
//! It gets 10,000 observations of 5,000 names over its port, which its merge operator in C adds up,
//! then is asked for a dump and for a backup. The dump must have every name with its count; what
//! RocksDB's `ldb` restores from the backup must have as many keys. Messages are msgpack, an inner
//! one as bytes in an outer one `{T: type, M: bytes}` (page PROTOCOL of its sources).

use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::library::{self, Library};
use crate::{peers, suite};

const PACKAGES: [&str; 2] = ["balboa-backend-rocksdb", "balboa-backend-common"];
/// The library's name for programs of Debian 12.
const SONAME: &str = "librocksdb.so.7.8";
const NAMES: u32 = 5000;
const ROUNDS: u32 = 2;
/// How long a step may take; only a program that hangs takes so long.
const LIMIT: Duration = Duration::from_secs(120);

const INPUT: u8 = 1;
const BACKUP: u8 = 3;

/// Runs it.
pub fn run(root: &Path, library: &Library) -> Result<(), String> {
    let folder = suite::target(root).join("clients/balboa");
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let programs = unpack(&folder)?;
    library::link(&library.lib, SONAME)?;
    let data = folder.join("data");
    library::scratch(&data)?;
    let mut store = Store::start(&programs, &library.lib, &data)?;
    let mut connection = store.connect()?;
    for round in 0..ROUNDS {
        for number in 0..NAMES {
            send(&mut connection, INPUT, &observation(number, round))?;
        }
    }
    let counted = wait_until("all names are in the dump", || {
        let names = store.dump(&programs)?;
        Ok((names.len() == NAMES as usize && names.iter().all(|count| *count == ROUNDS))
            .then_some(names.len()))
    })?;
    let backup = data.join("backup");
    let path = backup.display().to_string();
    send(&mut connection, BACKUP, &map(&[("P", text(&path))]))?;
    let restored = wait_until("the backup can be restored", || restore(&backup, &data))?;
    if restored != NAMES as usize && restored != 2 * NAMES as usize {
        return Err(format!("{restored} keys in the backup of {NAMES} names"));
    }
    println!("balboa: {counted} names, each with {ROUNDS} observations; {restored} keys restored");
    Ok(())
}

/// Unpacks the packages, without installing them.
fn unpack(folder: &Path) -> Result<PathBuf, String> {
    let root = folder.join("root");
    if root.join("usr/bin/balboa-rocksdb").is_file() {
        return Ok(root.join("usr/bin"));
    }
    library::check(Command::new("apt-get").arg("download").args(PACKAGES).current_dir(folder))?;
    for entry in fs::read_dir(folder).map_err(|e| e.to_string())?.flatten() {
        if entry.path().extension().is_some_and(|end| end == "deb") {
            library::check(Command::new("dpkg").arg("-x").arg(entry.path()).arg(&root))?;
        }
    }
    Ok(root.join("usr/bin"))
}

/// The running store, ended on drop.
struct Store {
    child: Child,
    port: u16,
}

impl Store {
    fn start(programs: &Path, lib: &Path, data: &Path) -> Result<Store, String> {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
        let port = free.map_err(|e| format!("a free port: {e}"))?.port();
        let mut command = Command::new(programs.join("balboa-rocksdb"));
        command.arg("-d").arg(data.join("db")).args(["-l", "127.0.0.1", "-p", &port.to_string()]);
        command.args(["-R", "-v"]).env("LD_LIBRARY_PATH", lib).stdin(Stdio::null());
        let child = command.spawn().map_err(|e| format!("balboa-rocksdb: {e}"))?;
        Ok(Store { child, port })
    }

    fn connect(&mut self) -> Result<TcpStream, String> {
        let port = self.port;
        wait_until("it listens", || {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("balboa-rocksdb: {status}"));
            }
            Ok(TcpStream::connect(("127.0.0.1", port)).ok())
        })
    }

    /// The counts of all names.
    fn dump(&self, programs: &Path) -> Result<Vec<u32>, String> {
        let console = || Command::new(programs.join("balboa-backend-console"));
        let mut dump = console();
        dump.args(["dump", "-p", &self.port.to_string()]).stdin(Stdio::null());
        let dumped = dump.output().map_err(|e| format!("balboa-backend-console: {e}"))?;
        let mut read = console();
        read.args(["jsonize", "-d", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut reader = read.spawn().map_err(|e| format!("balboa-backend-console: {e}"))?;
        let mut input = reader.stdin.take().ok_or("it has no input")?;
        let writer = std::thread::spawn(move || input.write_all(&dumped.stdout));
        let text = reader.wait_with_output().map_err(|e| e.to_string())?;
        writer.join().map_err(|_| "the writer panicked")?.map_err(|e| e.to_string())?;
        Ok(counts(&String::from_utf8_lossy(&text.stdout)))
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // It may have ended already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The numbers after `"count":` in lines of JSON.
fn counts(text: &str) -> Vec<u32> {
    let count = |line: &str| {
        let (_, rest) = line.split_once("\"count\":")?;
        let digits: String = rest.trim_start().chars().take_while(|c| c.is_ascii_digit()).collect();
        digits.parse().ok()
    };
    text.lines().filter_map(count).collect()
}

/// The number of keys in the newest backup; None while there is none that is whole.
fn restore(backup: &Path, data: &Path) -> Result<Option<usize>, String> {
    let ldb = peers::find_program("ldb").ok_or("there is no ldb: cargo xtask peers")?;
    let target = data.join("restored");
    library::scratch(&target)?;
    let mut restore = Command::new(&ldb);
    restore.arg(format!("--db={}", target.display()));
    restore.arg(format!("--backup_dir={}", backup.display())).arg("restore");
    let done = restore.output().map_err(|e| format!("ldb restore: {e}"))?;
    if !done.status.success() {
        return Ok(None);
    }
    let mut scan = Command::new(&ldb);
    scan.arg(format!("--db={}", target.display())).args(["--hex", "scan"]);
    let scanned = scan.output().map_err(|e| format!("ldb scan: {e}"))?;
    let keys =
        String::from_utf8_lossy(&scanned.stdout).lines().filter(|l| l.contains(" : ")).count();
    Ok((keys > 0).then_some(keys))
}

/// Asks every tenth of a second.
fn wait_until<T>(
    what: &str,
    mut ask: impl FnMut() -> Result<Option<T>, String>,
) -> Result<T, String> {
    let started = Instant::now();
    while started.elapsed() < LIMIT {
        if let Some(found) = ask()? {
            return Ok(found);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Err(format!("not after {} s: {what}", LIMIT.as_secs()))
}

fn send(connection: &mut TcpStream, kind: u8, inner: &[u8]) -> Result<(), String> {
    let outer = map(&[("T", vec![0xcc, kind]), ("M", bytes(inner))]);
    connection.write_all(&outer).map_err(|e| format!("a message to balboa-rocksdb: {e}"))
}

fn observation(number: u32, round: u32) -> Vec<u8> {
    let seen = 1_700_000_000 + round;
    map(&[
        ("N", text(&format!("name{number}.example"))),
        ("D", text("192.0.2.1")),
        ("T", text("A")),
        ("I", text("sensor")),
        ("C", integer(1)),
        ("F", timestamp(seen)),
        ("L", timestamp(seen)),
    ])
}

/// msgpack's map of fewer than 16 entries, whose keys have fewer than 32 bytes.
fn map(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut out = vec![0x80 | entries.len() as u8];
    for (key, value) in entries {
        out.push(0xa0 | key.len() as u8);
        out.extend_from_slice(key.as_bytes());
        out.extend_from_slice(value);
    }
    out
}

fn text(value: &str) -> Vec<u8> {
    let mut out = vec![0xdb];
    out.extend_from_slice(&(value.len() as u32).to_be_bytes());
    out.extend_from_slice(value.as_bytes());
    out
}

fn bytes(value: &[u8]) -> Vec<u8> {
    let mut out = vec![0xc6];
    out.extend_from_slice(&(value.len() as u32).to_be_bytes());
    out.extend_from_slice(value);
    out
}

/// Seconds: msgpack's extension -1.
fn timestamp(seconds: u32) -> Vec<u8> {
    let mut out = vec![0xd6, 0xff];
    out.extend_from_slice(&seconds.to_be_bytes());
    out
}

fn integer(value: u32) -> Vec<u8> {
    let mut out = vec![0xce];
    out.extend_from_slice(&value.to_be_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_msgpack() {
        assert_eq!(map(&[("a", integer(1))]), [0x81, 0xa1, b'a', 0xce, 0, 0, 0, 1]);
        assert_eq!(bytes(b"x"), [0xc6, 0, 0, 0, 1, b'x']);
    }

    #[test]
    fn counts_are_read() {
        assert_eq!(
            counts("{\"count\":2,\"x\":1}\n{\"rrname\":\"a\",\"count\": 17}\nno\n"),
            [2, 17]
        );
    }
}
