//! Bytes that are nearly right, and commands that make no sense, over sockets.
//!
//! A case is a connection with a stream of its own, made from a seed: commands of the server's own
//! table with arguments of every kind, in RESP or inline, after HELLO 3 or not, in transactions,
//! whole or damaged, sent in pieces. The connection is then shut, and its replies have to be
//! well-formed and to end; a stream without damage has one for each command. Nothing may panic,
//! no client may be kept waiting, memory stays bounded, and the server answers others all the time.
//!
//! Left out: commands that are meant to end the server, to lock others out or to fill the disk.

use std::io::{ErrorKind, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::client::{Client, Value, encode, read_value};
use super::{Random, Scratch, Server, info, setting};

/// Cases of the short run.
const CASES: u64 = 300;
/// Connections at a time.
const FUZZERS: u64 = 4;
/// Limit of the server's memory: caches and memtables of the settings below, what clients may use,
/// and what one command may, each a few times.
const MEMORY: usize = 600 << 20;
const NEVER: [&str; 7] = ["shutdown", "save", "bgsave", "config", "acl", "client", "debug"];

/// A command of the table: its name, and how many words it has at least.
struct Known {
    name: String,
    least: usize,
}

fn table(client: &mut Client) -> Vec<Known> {
    let known = client.ask("COMMAND").list().into_iter().map(|row| {
        let row = row.list();
        let Value::Number(arity) = row[1] else { panic!("no arity: {}", row[1]) };
        Known { name: row[0].to_string(), least: arity.unsigned_abs() as usize }
    });
    let known: Vec<_> = known.filter(|known| !NEVER.contains(&known.name.as_str())).collect();
    assert!(known.len() > 150, "{}", known.len());
    known
}

fn argument(random: &mut Random) -> Vec<u8> {
    const WORDS: [&str; 44] = [
        "0",
        "1",
        "-1",
        "2",
        "3",
        "10",
        "-9223372036854775808",
        "9223372036854775807",
        "1.5",
        "-inf",
        "nan",
        "1e308",
        "",
        "NX",
        "XX",
        "GT",
        "EX",
        "PX",
        "GET",
        "COUNT",
        "MATCH",
        "LIMIT",
        "WITHSCORES",
        "BYSCORE",
        "REV",
        "LEFT",
        "RIGHT",
        "BEFORE",
        "WEIGHTS",
        "AGGREGATE",
        "STORE",
        "ALPHA",
        "BY",
        "*",
        "[a-",
        "(1",
        "[a",
        "+",
        "-",
        "{tag}a",
        "{",
        "\\",
        "h*",
        "\0\r\n",
    ];
    match random.below(10) {
        // Keys are few, so that commands meet.
        0..=4 => format!("{}{}", random.pick(&["s", "h", "l", "e", "z"]), random.below(4)).into(),
        5..=7 => random.pick(&WORDS).as_bytes().to_vec(),
        8 => (0..random.below(40)).map(|_| random.next() as u8).collect(),
        _ => vec![b'v'; random.below(5000)],
    }
}

/// The words of a command.
fn words(random: &mut Random, table: &[Known]) -> Vec<Vec<u8>> {
    let known = random.pick(table);
    let more = match random.below(8) {
        0 => random.below(20),
        n => n / 3,
    };
    let mut words = vec![known.name.clone().into_bytes()];
    words.extend((1..known.least + more).map(|_| argument(random)));
    words
}

/// Whether it has exactly one reply, whatever its arguments, and does not keep its client waiting.
fn is_plain(name: &[u8]) -> bool {
    let name = String::from_utf8_lossy(name);
    !name.ends_with("subscribe") && !name.starts_with('b') && name != "quit" && name != "reset"
}

/// A stream and, unless it is damaged, how many replies it has.
fn stream(random: &mut Random, table: &[Known]) -> (Vec<u8>, Option<usize>) {
    let (mut bytes, mut replies, mut is_exact) = (Vec::new(), 0, true);
    if random.below(3) == 0 {
        bytes.extend(encode(&["HELLO", "3"]));
        replies += 1;
    }
    for _ in 0..random.below(60) {
        let words = words(random, table);
        is_exact &= is_plain(&words[0]);
        if random.below(6) == 0 && !words.iter().any(|word| word.is_empty()) {
            let is_safe = |byte: &u8| byte.is_ascii_alphanumeric() || b"-+.*[({}".contains(byte);
            let line: Vec<_> = words
                .iter()
                .map(|word| word.iter().copied().filter(is_safe).collect::<Vec<u8>>())
                .collect();
            // A word of which nothing is left would make another command.
            is_exact &= line.iter().all(|word| !word.is_empty());
            bytes.extend(line.join(&b' '));
            bytes.extend(b"\r\n");
        } else {
            bytes.extend(encode(&words));
        }
        replies += 1;
    }
    let damages = [0, 0, 1, 2, 10][random.below(5)];
    for _ in 0..damages {
        damage(&mut bytes, random);
    }
    (bytes, (is_exact && damages == 0).then_some(replies))
}

fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    const PIECES: [&[u8]; 12] = [
        b"\r\n",
        b"*",
        b"$",
        b"*-1\r\n",
        b"$-1\r\n",
        b"*1048577\r\n",
        b"$536870913\r\n",
        b"\n",
        b"*3\r\n$3\r\n",
        b"$99999999999999999999\r\n",
        b"*0\r\n",
        b"\"\\x",
    ];
    if bytes.is_empty() {
        bytes.extend(*random.pick(&PIECES));
        return;
    }
    let at = random.below(bytes.len());
    match random.below(5) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes.truncate(at),
        2 => drop(bytes.splice(at..at, random.pick(&PIECES).iter().copied())),
        3 => drop(bytes.drain(at..(at + 1 + random.below(30)).min(bytes.len()))),
        _ => {
            let piece = bytes[at..(at + random.below(200)).min(bytes.len())].to_vec();
            drop(bytes.splice(at..at, piece));
        }
    }
}

/// Sends a stream in pieces, reads its replies; how many commands it had.
fn case(port: u16, table: &[Known], seed: u64) -> u64 {
    let mut random = Random::new(seed);
    let (bytes, replies) = stream(&mut random, table);
    let mut client = Client::to(port).unwrap();
    let mut sender = client.reader.get_ref().try_clone().unwrap();
    let sending = std::thread::spawn(move || {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let most = *random.pick(&[3, 100, 100_000]);
            let piece = (1 + random.below(most)).min(rest.len());
            // The server closes the connection after input that is not a command.
            if sender.write_all(&rest[..piece]).is_err() {
                return;
            }
            rest = &rest[piece..];
        }
        // The other side may have gone already.
        sender.shutdown(Shutdown::Write).ok();
    });
    let mut received = 0;
    let error = loop {
        match read_value(&mut client.reader, 0) {
            Ok(_) => received += 1,
            Err(error) => break error,
        }
    };
    let ends = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset];
    assert!(ends.contains(&error.kind()), "PUMICE_SEED={seed}: {error}");
    sending.join().unwrap();
    if let Some(replies) = replies {
        assert_eq!(received, replies, "PUMICE_SEED={seed}: replies");
    }
    received as u64
}

/// `PUMICE_SERVE_FUZZ=N` runs N seconds instead of a number of cases; `PUMICE_SEED=N` one case.
// Plain #[test]: it only waits for other processes.
#[test]
fn bytes_that_make_no_sense_harm_nobody() {
    let limit = Duration::from_secs(setting("PUMICE_SERVE_FUZZ", 0) as u64);
    let only = std::env::var("PUMICE_SEED").ok().map(|seed| seed.parse::<u64>().unwrap());
    let scratch = Scratch::new("fuzz");
    let settings = [
        ("maxmemory-clients", "32mb"),
        ("write-buffer-bytes", "4mb"),
        ("cache-bytes", "16mb"),
        ("proto-max-bulk-len", "1mb"),
    ];
    let server = Server::start(&scratch.0, &settings);
    let mut control = server.connect();
    let table = table(&mut control);
    if let Some(seed) = only {
        case(server.port, &table, seed);
    }
    let (next, replies, began) = (AtomicU64::new(1), AtomicU64::new(0), Instant::now());
    let is_over = |seed: u64| match limit.is_zero() {
        true => seed > CASES,
        false => began.elapsed() > limit,
    };
    let mut peak = 0;
    std::thread::scope(|scope| {
        for _ in 0..if only.is_some() { 0 } else { FUZZERS } {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if is_over(seed) {
                        return;
                    }
                    replies.fetch_add(case(server.port, &table, seed), Ordering::Relaxed);
                }
            });
        }
        while only.is_none() && !is_over(next.load(Ordering::Relaxed)) {
            assert_eq!(control.say("PING"), "PONG");
            peak = peak.max(server.memory_bytes());
            assert!(peak < MEMORY, "{peak} bytes near seed {}", next.load(Ordering::Relaxed));
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    assert_eq!(info(&mut control, "panicked_commands"), 0);
    super::wait_until("all are gone", || info(&mut control, "connected_clients") == 1);
    println!(
        "FUZZ cases={} replies={} panics=0 malformed=0 memory={peak}",
        next.load(Ordering::Relaxed) - 1,
        replies.load(Ordering::Relaxed)
    );
    server.end_well();
}
