//! A disk that is full, and has room again: a real one, of a few megabytes, which only root can
//! make; otherwise the test is skipped with a message. Each refused operation in turn, which needs
//! a simulated disk, is in the engine's suites (`crates/pumice/tests/all/files/full_disk.rs`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::client::{Client, Value};
use super::{Random, Scratch, Server, info, wait_until};

/// A separate file system, unmounted on drop.
struct Disk {
    at: PathBuf,
    ballast: PathBuf,
    _scratch: Scratch,
}

fn run(program: &str, args: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(args).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

impl Disk {
    /// One of `megabytes` MB; an error where it cannot be made.
    fn make(kind: &str, megabytes: u64) -> Result<Disk, String> {
        let scratch = Scratch::new(&format!("disk-{kind}"));
        let at = scratch.0.join("mnt");
        fs::create_dir_all(&at).unwrap();
        let path = at.to_str().unwrap();
        if kind == "tmpfs" {
            let size = format!("size={megabytes}m");
            run("mount", &["-t", "tmpfs", "-o", &size, "tmpfs", path])?;
        } else {
            let image = scratch.0.join("image");
            fs::File::create(&image).unwrap().set_len(megabytes << 20).unwrap();
            let image = image.to_str().unwrap();
            run("mkfs.ext4", &["-q", "-m", "0", image])?;
            run("mount", &["-o", "loop", image, path])?;
        }
        Ok(Disk { ballast: at.join("ballast"), at, _scratch: scratch })
    }

    /// Fills all but `left` megabytes.
    fn fill(&self, left: u64) {
        let output = Command::new("df").args(["-Pk", self.at.to_str().unwrap()]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let kib = text.lines().nth(1).unwrap().split_whitespace().nth(3).unwrap();
        let bytes = kib.parse::<u64>().unwrap().saturating_sub(left << 10) << 10;
        let mut old = fs::read(&self.ballast).unwrap_or_default();
        old.resize(old.len() + bytes as usize, b'x');
        fs::write(&self.ballast, old).unwrap();
    }

    /// Frees them again.
    fn free(&self) {
        fs::remove_file(&self.ballast).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // An earlier failure must stay visible; its server may still be running.
        run("umount", &["-l", self.at.to_str().unwrap()]).ok();
    }
}

/// What a key of that number holds; no codec makes it smaller by much.
fn value(number: usize) -> String {
    let mut random = Random::new(number as u64);
    (0..120).map(|_| format!("{:013x}", random.next())).collect()
}

/// Writes until there is an error, and returns it.
fn write_until_refused(client: &mut Client, next: &mut usize) -> String {
    loop {
        let number = *next;
        match client.ask(&format!("SET k{number} {}", value(number))) {
            Value::Error(text) => return text,
            reply => assert_eq!(reply.to_string(), "OK"),
        }
        *next += 1;
        assert!(number < 200_000, "the disk is never full");
    }
}

/// All that was acknowledged is there.
fn look(client: &mut Client, written: usize) {
    for number in 0..written {
        assert_eq!(client.say(&format!("GET k{number}")), value(number), "k{number}");
    }
}

fn connected(server: &Server, client: &mut Client) {
    // Under `always` a failed sync ends a connection: its replies are withheld.
    if client.send(b"PING\r\n").and_then(|()| client.receive()).is_err() {
        *client = server.connect();
    }
}

/// Three times full and back, then a check by another server.
fn full_and_back(kind: &str, megabytes: u64, fsync: &str) {
    let disk = match Disk::make(kind, megabytes) {
        Ok(disk) => disk,
        Err(why) => {
            println!("SKIPPED: no {kind} of its own: {why}");
            return;
        }
    };
    let dir = disk.at.join("served");
    fs::create_dir_all(&dir).unwrap();
    let settings = [("appendfsync", fsync), ("write-buffer-bytes", "512kb")];
    let server = Server::start(&dir, &settings);
    let mut client = server.connect();
    let (mut next, mut refused) = (0, 0);
    for time in 0..3 {
        disk.fill(1);
        let error = write_until_refused(&mut client, &mut next);
        assert!(error.contains("No space left on device"), "{error}");
        assert!(error.starts_with("MISCONF "), "{error}");
        // Other clients get an answer: reads are served, writes refused with the reason.
        let mut other = server.connect();
        assert_eq!(other.say("PING"), "PONG");
        look(&mut other, next);
        for line in ["SET other 1", "HSET h f v", "RPUSH l 1", "INCR n"] {
            connected(&server, &mut other);
            match other.ask(line) {
                Value::Error(text) => {
                    assert!(text.starts_with("MISCONF "), "{line}: {text}");
                    refused += 1;
                }
                // What is small may still fit.
                reply => assert!(!reply.to_string().is_empty()),
            }
        }
        disk.free();
        wait_until("it writes again by itself", || {
            connected(&server, &mut client);
            client.say(&format!("SET back{time} {time}")) == "OK"
        });
        look(&mut client, next);
    }
    assert!(refused > 0, "no write was refused while it was full");
    assert_eq!(info(&mut client, "panicked_commands"), 0);
    println!("DISK {kind} {fsync}: acknowledged={next} refused={refused} lost=0");
    server.end_well();
    let server = Server::start(Path::new(&dir), &settings);
    let mut client = server.connect();
    look(&mut client, next);
    assert_eq!(client.say("MGET back0 back1 back2"), "[0 1 2]");
    drop(server);
}

// Plain #[test]: it only waits for other processes.
#[test]
fn a_full_disk_refuses_writes_until_it_has_room() {
    full_and_back("tmpfs", 12, "everysec");
}

// Plain #[test]: it only waits for other processes.
#[test]
fn a_full_disk_refuses_durable_writes_until_it_has_room() {
    full_and_back("ext4", 24, "always");
}
