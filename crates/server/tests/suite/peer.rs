//! The same generated commands to this server and to Debian's redis-server 7.0, over sockets:
//! replies and error texts must be equal.
//!
//! `PUMICE_SEED=N` replays a seed, `PUMICE_PEER=N` sets the number of commands (3,000). Replies
//! whose order Redis does not promise are compared as sets.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};

use pumice_port::net::Stream;

use super::connections::{Caller, start, wait_until};
use super::templates::{TEMPLATES, argument};
use super::{Random, Scratch};

/// A redis-server of our own on a Unix socket, which ends with the value.
pub struct Redis {
    child: Child,
    socket: std::path::PathBuf,
}

impl Redis {
    pub fn start(scratch: &Scratch) -> Redis {
        let socket = scratch.path().join("redis.sock");
        let mut child = Command::new("redis-server")
            .arg("-")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server 7.0 is installed (cargo xtask peers)");
        let settings = format!("port 0\nunixsocket {}\nsave \"\"\n", socket.display());
        let settings = format!("{settings}dir {}\n", scratch.path().display());
        child.stdin.take().unwrap().write_all(settings.as_bytes()).unwrap();
        Redis { child, socket }
    }
    /// Waits until it listens, or has ended.
    pub fn connect(&mut self) -> Caller {
        let mut stream = None;
        wait_until("redis-server listens", || {
            assert!(self.child.try_wait().unwrap().is_none(), "redis-server has ended");
            stream = Stream::connect_unix(&self.socket).ok();
            stream.is_some()
        });
        Caller::new(stream.unwrap())
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A reply as nested lines; with `any_order` the elements of every array are sorted.
pub fn canonical(bytes: &[u8], at: &mut usize, any_order: bool) -> String {
    let end = bytes[*at..].windows(2).position(|pair| pair == b"\r\n").unwrap() + *at;
    let line = String::from_utf8_lossy(&bytes[*at..end]).into_owned();
    *at = end + 2;
    let len = line[1..].parse::<i64>().unwrap_or(0);
    match line.as_bytes()[0] {
        b'$' | b'=' if len >= 0 => {
            let from = *at;
            *at += len as usize + 2;
            format!("{line} {}", String::from_utf8_lossy(&bytes[from..from + len as usize]))
        }
        b'*' if len >= 0 => {
            let mut parts: Vec<_> = (0..len).map(|_| canonical(bytes, at, any_order)).collect();
            if any_order {
                parts.sort();
            }
            format!("*{len}[{}]", parts.join(", "))
        }
        kind @ (b'~' | b'>' | b'%') => {
            let mut pair = || canonical(bytes, at, any_order);
            let part = |_| if kind == b'%' { format!("{}: {}", pair(), pair()) } else { pair() };
            let mut parts: Vec<_> = (0..len).map(part).collect();
            if kind != b'>' {
                parts.sort();
            }
            format!("{line}[{}]", parts.join(", "))
        }
        _ => line,
    }
}

pub fn encoded(args: &[String]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend(format!("${}\r\n{arg}\r\n", arg.len()).bytes());
    }
    bytes
}

/// Sends a command followed by a marker; returns the reply before the marker.
pub fn ask(caller: &mut Caller, args: &[String]) -> Vec<u8> {
    const MARK: &str = "$8\r\nthe mark\r\n";
    let mut bytes = encoded(args);
    bytes.extend(b"*2\r\n$4\r\nECHO\r\n$8\r\nthe mark\r\n");
    caller.send(&bytes);
    let reply = caller.until(MARK);
    reply.as_bytes()[..reply.len() - MARK.len()].to_vec()
}

/// Times that two servers read one after the other.
fn are_near(one: &str, two: &str) -> bool {
    let time = |reply: &str| reply.strip_prefix(':').and_then(|text| text.parse::<i64>().ok());
    time(one).zip(time(two)).is_some_and(|(one, two)| one.abs_diff(two) < 20_000)
}

/// After this many commands both report how many keys there are.
const COUNTED_EVERY: u64 = 50;

fn is_set(caller: &mut Caller, key: &str) -> bool {
    ask(caller, &["TYPE".to_string(), key.to_string()]) == b"+set\r\n"
}

fn compare(seed: u64, commands: u64, protocol: &str) -> Vec<String> {
    let scratch = Scratch::new("peer");
    let running = start(scratch.path(), &[]);
    let mut redis = Redis::start(&scratch);
    let (mut ours, mut theirs) = (Caller::to(&running), redis.connect());
    let hello = ["HELLO", protocol].map(str::to_string);
    for caller in [&mut ours, &mut theirs] {
        ask(caller, &hello);
    }
    let mut random = Random::new(seed);
    let mut differences = Vec::new();
    for step in 0..commands {
        let template = *random.pick(TEMPLATES);
        let any_order = template.starts_with('~');
        let words = template.trim_start_matches(['~', '^', '=']).split(' ');
        let args: Vec<_> = words.map(|word| argument(&mut random, word)).collect();
        let only_counts = template.starts_with('=') && is_set(&mut theirs, &args[1]);
        let (one, two) = (ask(&mut ours, &args), ask(&mut theirs, &args));
        let told = |reply| match only_counts {
            true => {
                canonical(reply, &mut 0, true).split('[').next().unwrap_or_default().to_string()
            }
            false => canonical(reply, &mut 0, any_order),
        };
        let (one, two) = (told(&one), told(&two));
        if one != two && !(template.starts_with('^') && are_near(&one, &two)) {
            differences
                .push(format!("seed {seed} step {step}: {args:?}\n  ours  {one}\n  redis {two}"));
        }
        if step % COUNTED_EVERY == 0 {
            let (one, two) = (counts(&mut ours), counts(&mut theirs));
            if one != two {
                differences.push(format!("seed {seed} step {step}: ours {one}, redis {two}"));
            }
        }
    }
    running.stop().unwrap();
    differences
}

/// How many keys each database has, and how many of them expire.
fn counts(caller: &mut Caller) -> String {
    let info = ask(caller, &["INFO", "keyspace"].map(str::to_string));
    let info = String::from_utf8(info).unwrap();
    let lines = info.lines().filter(|line| line.starts_with("db"));
    let counts: Vec<_> = lines.filter_map(|line| Some(line.split_once(",avg_ttl=")?.0)).collect();
    counts.join(" ")
}

/// A number from the environment.
pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

/// How many commands to compare.
pub fn commands(default: u64) -> u64 {
    let share = std::env::var("PUMICE_TEST_SHARE").ok();
    let share = share.and_then(|text| text.strip_prefix("1/").and_then(|n| n.parse().ok()));
    number("PUMICE_PEER", default) / share.unwrap_or(1)
}

#[pumice_test_macros::test]
fn replies_are_those_of_redis() {
    let differences = compare(number("PUMICE_SEED", 1), commands(3000), "2");
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}

#[pumice_test_macros::test]
fn replies_of_resp3_are_those_of_redis() {
    let differences = compare(number("PUMICE_SEED", 2), commands(3000), "3");
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}

/// Name, arity, flags, keys, categories, tips and key specifications (without the notes, which are
/// sentences) from COMMAND INFO; None if the command is unknown.
fn told(caller: &mut Caller, name: &str) -> Option<Vec<String>> {
    let args = ["COMMAND", "INFO", name].map(str::to_string);
    let reply = ask(caller, &args);
    let mut at = "*1\r\n*10\r\n".len();
    if !reply.starts_with(b"*1\r\n*10\r\n") {
        return None;
    }
    let reply = without_notes(&reply);
    Some((0..9).map(|_| canonical(&reply, &mut at, true)).collect())
}

/// The key specifications of a reply without their notes, the first of four pairs.
fn without_notes(reply: &[u8]) -> Vec<u8> {
    const NOTES: &[u8] = b"*8\r\n$5\r\nnotes\r\n$";
    let (mut kept, mut rest) = (Vec::new(), reply);
    while let Some(at) = rest.windows(NOTES.len()).position(|part| part == NOTES) {
        kept.extend_from_slice(&[&rest[..at], b"*6\r\n"].concat());
        rest = &rest[at + NOTES.len()..];
        let line = rest.iter().position(|b| *b == b'\r').unwrap();
        let bytes: usize = std::str::from_utf8(&rest[..line]).unwrap().parse().unwrap();
        rest = &rest[line + 2 + bytes + 2..];
    }
    kept.extend_from_slice(rest);
    kept
}

/// Where the table differs on purpose.
const TABLE_DIFFERS: &[&str] = &["psubscribe", "punsubscribe", "subscribe", "unsubscribe"];

#[pumice_test_macros::test]
fn the_table_says_what_redis_says() {
    let scratch = Scratch::new("table");
    let running = start(scratch.path(), &[]);
    let mut redis = Redis::start(&scratch);
    let (mut ours, mut theirs) = (Caller::to(&running), redis.connect());
    let mut differences = Vec::new();
    let rows = pumice_server::commands::all();
    assert!(rows.len() > 100);
    for row in rows {
        let subs = row.subcommands.iter().map(|sub| format!("{}|{}", row.name, sub.name));
        for name in std::iter::once(row.name.to_string()).chain(subs) {
            let (one, two) = (told(&mut ours, &name), told(&mut theirs, &name));
            if (one != two || one.is_none()) && !TABLE_DIFFERS.contains(&row.name) {
                differences.push(format!("{name}\n  ours  {one:?}\n  redis {two:?}"));
            }
        }
    }
    running.stop().unwrap();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Malformed or unusual requests, as sent by a connection.
const STRANGE: &[&str] = &[
    "*x\r\n",
    "*-5\r\nPING\r\n",
    "*0\r\nPING\r\n",
    "*1\r\n:1\r\n",
    "*1\r\n$x\r\n",
    "*1\r\n$-1\r\n",
    "*2\r\n$4\r\nECHO\r\n$-2\r\n",
    "*1\r\n$4000000000\r\n",
    "*1\r\n$04\r\nPING\r\n",
    "*01\r\n",
    "*99999999999999999999\r\n",
    "*9223372036854775807\r\n",
    "*1\r\nPING\r\n",
    "*1\r\n\r\n",
    "*1\r\n$4\r\nPINGxx*1\r\n$4\r\nPING\r\n",
    "\r\n\r\nPING\r\n",
    "PING \"a\\x41\\n\" \r\n",
    "PING 'a\\'b'\r\n",
    "PING \"a\r\n",
    "PING \"a\"b\r\n",
    "  PING\t x \r\n",
    "ECHO \"\"\r\n",
    "\"\" a\r\n",
    "SET a\r\n",
    "+PONG\r\n",
    // What a browser may be made to send.
    "POST / HTTP/1.1\r\nHost: x\r\n\r\nSET a 1\r\n",
    "PING\r\npost / HTTP/1.1\r\n",
    "*1\r\n$4\r\nPost\r\n*1\r\n$4\r\nPING\r\n",
    "GET / HTTP/1.1\r\nHost: x\r\n\r\nPING\r\n",
    "host:\r\nPING\r\n",
    "Host:x\r\nPING\r\n",
    "MULTI\r\nPOST\r\nPING\r\n",
];

#[pumice_test_macros::test]
fn bytes_that_make_no_sense_get_the_words_of_redis() {
    let scratch = Scratch::new("strange");
    let running = start(scratch.path(), &[]);
    let mut redis = Redis::start(&scratch);
    // One byte more than a line may have: with fewer there is no refusal, and nothing is left
    // unread.
    let long = "x".repeat(65_537);
    let (count, bulk) = (format!("*{}", &long[1..]), format!("*1\r\n${}", &long[1..]));
    for bytes in STRANGE.iter().copied().chain([long.as_str(), &count, &bulk]) {
        let replies = [Caller::to(&running), redis.connect()].map(|mut caller| {
            // Either may have hung up before all has been sent.
            caller.stream.send_all(bytes.as_bytes()).ok();
            caller.stream.shutdown(pumice_port::net::Direction::Send).ok();
            caller.until_closed()
        });
        assert_eq!(replies[0], replies[1], "{:?}", &bytes[..bytes.len().min(80)]);
    }
    running.stop().unwrap();
}

/// Commands that write what others read: their events, in order.
const EVENTFUL: &[&str] = &[
    "RPUSH l a b c",
    "LMOVE l m LEFT RIGHT",
    "RPOPLPUSH l m",
    "BLMOVE l m LEFT LEFT 0",
    "RPUSH l a b",
    "LMOVE l l LEFT RIGHT",
    "BRPOPLPUSH l m 0",
    "RPOPLPUSH m m",
    "LMPOP 1 m LEFT COUNT 9",
    "LPOP l 9",
];

#[pumice_test_macros::test]
fn events_of_keys_come_in_the_order_of_redis() {
    let scratch = Scratch::new("events");
    let running = start(scratch.path(), &[]);
    let mut redis = Redis::start(&scratch);
    let told = |mut driver: Caller, mut listener: Caller| {
        driver.line("CONFIG SET notify-keyspace-events EA");
        listener.send(b"PSUBSCRIBE *\r\n");
        listener.until(":1\r\n");
        for line in EVENTFUL {
            ask(&mut driver, &line.split(' ').map(str::to_string).collect::<Vec<_>>());
        }
        driver.line("PUBLISH end ended");
        listener.until("ended\r\n")
    };
    let ours = told(Caller::to(&running), Caller::to(&running));
    assert_eq!(ours, told(redis.connect(), redis.connect()));
    assert!(ours.contains("__keyevent@0__:rpush"), "{ours}");
    running.stop().unwrap();
}

/// What programs that watch a server read of INFO.
const WATCHED: &[&str] = &[
    "redis_version",
    "run_id",
    "uptime_in_seconds",
    "connected_clients",
    "blocked_clients",
    "used_memory",
    "used_memory_human",
    "used_memory_rss",
    "used_memory_rss_human",
    "used_memory_peak",
    "used_memory_peak_human",
    "maxmemory",
    "maxmemory_policy",
    "aof_last_write_status",
    "rdb_bgsave_in_progress",
    "rdb_last_bgsave_status",
    "rdb_last_save_time",
    "total_connections_received",
    "total_commands_processed",
    "instantaneous_ops_per_sec",
    "total_net_input_bytes",
    "total_net_output_bytes",
    "rejected_connections",
    "expired_keys",
    "evicted_keys",
    "keyspace_hits",
    "keyspace_misses",
    "pubsub_channels",
    "pubsub_patterns",
    "role",
    "used_cpu_user",
    "db0",
];

#[pumice_test_macros::test]
fn info_has_what_others_watch() {
    let scratch = Scratch::new("info");
    let running = start(scratch.path(), &[]);
    let mut redis = Redis::start(&scratch);
    let told = |mut caller: Caller, mut listener: Caller| {
        caller.line("SET a 1");
        listener.send(b"SUBSCRIBE c d\r\nPSUBSCRIBE p*\r\n");
        listener.until("p*\r\n:3\r\n");
        let info = ask(&mut caller, &["INFO".to_string()]);
        let info = String::from_utf8(info).unwrap();
        let value = |name: &&str| {
            let line = info.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
            line.unwrap_or_else(|| panic!("no {name} in {info}")).trim_end().to_string()
        };
        WATCHED.iter().map(value).collect::<Vec<_>>()
    };
    let ours = told(Caller::to(&running), Caller::to(&running));
    let theirs = told(redis.connect(), redis.connect());
    for ((name, ours), theirs) in WATCHED.iter().zip(&ours).zip(&theirs) {
        // The others only have to be there: they are numbers, which differ.
        let is_same = matches!(
            *name,
            "redis_version"
                | "maxmemory"
                | "maxmemory_policy"
                | "aof_last_write_status"
                | "rdb_bgsave_in_progress"
                | "rdb_last_bgsave_status"
                | "evicted_keys"
                | "pubsub_channels"
                | "pubsub_patterns"
                | "role"
                | "db0"
        );
        assert!(!is_same || ours == theirs, "{name}: {ours}, redis {theirs}");
        assert!(*name != "run_id" || ours.len() == theirs.len(), "{ours} {theirs}");
        assert!(!name.starts_with("used_memory") || !ours.starts_with('0'), "{name}: {ours}");
    }
    running.stop().unwrap();
}
