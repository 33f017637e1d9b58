//! What clients and monitors read of a server besides data, beside Debian's redis-server 7.0: INFO,
//! CLIENT LIST, MEMORY STATS, LATENCY HISTOGRAM, COMMAND GETKEYSANDFLAGS, and what EXEC and errors
//! say.

use std::collections::BTreeMap;

use pumice_server::serve::Running;

use super::Scratch;
use super::connections::{Caller, start};
use super::peer::{Redis, ask, canonical};
use super::peer_acl::end_of;

/// The reply to an inline command, also within MULTI.
fn told(caller: &mut Caller, line: &[u8]) -> Vec<u8> {
    caller.send(&[line, b"\r\n"].concat());
    let (mut bytes, mut buf) = (Vec::new(), vec![0; 1 << 16]);
    while bytes.is_empty() || end_of(&bytes, 0).is_none() {
        let n = caller.stream.receive(&mut buf).unwrap();
        assert!(n > 0, "hung up after {}", line.escape_ascii());
        bytes.extend_from_slice(&buf[..n]);
    }
    bytes
}

fn text(caller: &mut Caller, line: &str) -> String {
    String::from_utf8_lossy(&told(caller, line.as_bytes())).into_owned()
}

/// Runs with both servers; what `run` returns must be equal.
fn on_both<T: PartialEq + std::fmt::Debug>(name: &str, run: impl Fn(&mut Caller) -> T) -> T {
    let scratch = Scratch::new(name);
    let running: Running = start(scratch.path(), &[]);
    let mut redis = Redis::start(&scratch);
    let ours = run(&mut Caller::to(&running));
    assert_eq!(ours, run(&mut redis.connect()), "ours, then redis's");
    running.stop().unwrap();
    ours
}

/// Values of INFO that are facts about one run; the others are equal.
const VARY: &[&str] = &[
    "redis_build_id",
    "gcc_version",
    "atomicvar_api",
    "multiplexing_api",
    "process_id",
    "run_id",
    "tcp_port",
    "server_time_usec",
    "uptime_in_seconds",
    "lru_clock",
    "executable",
    "total_reads_processed",
    "client_recent_max_input_buffer",
    "client_recent_max_output_buffer",
    "mem_allocator",
    "rdb_last_save_time",
    "rdb_changes_since_last_save",
    "aof_enabled",
    "total_net_input_bytes",
    "total_net_output_bytes",
    "instantaneous_ops_per_sec",
    "instantaneous_input_kbps",
    "instantaneous_output_kbps",
    "expire_cycle_cpu_milliseconds",
    "master_replid",
    "repl_backlog_size",
    "used_cpu_sys",
    "used_cpu_user",
    "total_commands_processed",
    "total_writes_processed",
    "reply_buffer_shrinks",
    "mem_clients_normal",
    "total_system_memory_human",
    "used_cpu_sys_children",
    "used_cpu_user_children",
];
/// Their values are those of memory, which scripts have where there are scripts.
const OF_MEMORY: &[&str] =
    &["used_memory", "allocator_", "rss_overhead", "mem_fragmentation", "cmdstat", "latency_"];
/// Fields that are not here: see the head of `commands/info.rs`.
const NOT_HERE: &[&str] =
    &["used_cpu_sys_main_thread", "used_cpu_user_main_thread", "atomicvar_api"];

/// INFO's sections, and their fields with values.
fn info(caller: &mut Caller, which: &str) -> Vec<(String, Vec<(String, String)>)> {
    let told = text(caller, &format!("INFO {which}"));
    let mut sections: Vec<(String, Vec<_>)> = Vec::new();
    for line in told.lines().skip(1) {
        if let Some(name) = line.strip_prefix("# ") {
            sections.push((name.to_string(), Vec::new()));
        } else if let Some((name, value)) = line.split_once(':') {
            // How long keys still live is not averaged here.
            let value = value.split(",avg_ttl").next().unwrap_or(value);
            sections.last_mut().unwrap().1.push((name.to_string(), value.to_string()));
        }
    }
    sections
}

#[pumice_test_macros::test]
fn info_has_the_fields_of_redis() {
    let scratch = Scratch::new("info-fields");
    let running = start(scratch.path(), &[]);
    let mut redis = Redis::start(&scratch);
    let (mut ours, mut theirs) = (Caller::to(&running), redis.connect());
    for caller in [&mut ours, &mut theirs] {
        for line in ["SET a 1", "GET b", "EXPIRE a 1000", "INCR a x", "LPUSH a 1", "nosuch"] {
            told(caller, line.as_bytes());
        }
    }
    let mut wrong = Vec::new();
    for which in ["", "default", "all", "everything", "clients errorstats", "modules", "nosuch"] {
        let (one, two) = (info(&mut ours, which), info(&mut theirs, which));
        let names = |sections: &[(String, Vec<_>)]| -> Vec<String> {
            sections.iter().map(|(name, _)| name.clone()).filter(|name| name != "Engine").collect()
        };
        assert_eq!(names(&one), names(&two), "INFO {which}");
        let here: BTreeMap<_, _> = one.into_iter().flat_map(|(_, fields)| fields).collect();
        for (name, value) in two.into_iter().flat_map(|(_, fields)| fields) {
            let varies = VARY.contains(&name.as_str())
                || OF_MEMORY.iter().any(|start| name.starts_with(start));
            match here.get(&name) {
                Some(own) if varies || *own == value => {}
                None if NOT_HERE.contains(&name.as_str()) => {}
                own => wrong.push(format!("INFO {which}: {name}:{value}, here {own:?}")),
            }
        }
    }
    running.stop().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[pumice_test_macros::test]
fn calls_refusals_and_failures_are_counted_as_by_redis() {
    let all = on_both("commandstats", |caller| {
        told(caller, b"CONFIG RESETSTAT");
        for line in [
            "SET a 1",
            "GET a",
            "GET",
            "GET a b",
            "nosuch",
            "INCR a",
            "LPUSH a x",
            "LPUSH l x",
            "MULTI",
            "SET b 1",
            "LPUSH a x",
            "INCR b",
            "EXEC",
            "MULTI",
            "GET",
            "EXEC",
            "EXEC",
            "CLIENT GETNAME",
            "CLIENT FOO",
            "OBJECT ENCODING a",
            "CONFIG SET nosuch 1",
            "SUBSCRIBE",
            "EXEC x",
            "MULTI",
            "DISCARD",
            "WATCH a",
            "BLPOP l 1",
            "DEBUG",
            "HELLO 9",
            "AUTH x",
        ] {
            told(caller, line.as_bytes());
        }
        let fields = info(caller, "commandstats errorstats");
        let fields = fields.into_iter().flat_map(|(_, fields)| fields);
        // Times differ, and Redis has commands that are not here.
        let counts = |(name, value): (String, String)| {
            let parts: Vec<_> = value.split(',').filter(|part| !part.starts_with("usec")).collect();
            format!("{name} {}", parts.join(" "))
        };
        let mut counts: Vec<_> =
            fields.map(counts).filter(|line| !line.contains("debug")).collect();
        counts.sort();
        counts
    });
    assert!(all.iter().any(|line| line == "cmdstat_lpush calls=3 rejected_calls=0 failed_calls=2"));
    assert!(all.iter().any(|line| line.starts_with("errorstat_EXECABORT")), "{all:?}");
}

#[pumice_test_macros::test]
fn histograms_have_the_commands_and_calls_of_redis() {
    on_both("histogram", |caller| {
        told(caller, b"CONFIG RESETSTAT");
        for line in ["SET a 1", "SET b 1", "GET a", "CLIENT GETNAME", "CLIENT ID", "INCR b"] {
            told(caller, line.as_bytes());
        }
        // The numbers are times, but for the last count of each distribution: all calls.
        let mut said = Vec::new();
        for line in [
            "LATENCY HISTOGRAM",
            "LATENCY HISTOGRAM set get nosuch",
            "LATENCY HISTOGRAM client",
            "LATENCY HISTOGRAM client|id",
            "LATENCY HISTOGRAM config|get",
            "LATENCY GRAPH x",
            "LATENCY DOCTOR x",
            "LATENCY GRAPH",
            "LATENCY RESET",
        ] {
            let told = text(caller, line);
            let lines: Vec<_> = told.split("\r\n").collect();
            let mut commands = Vec::new();
            for at in lines.iter().enumerate().filter(|(_, l)| **l == "calls").map(|(at, _)| at) {
                let pairs: usize = lines[at + 4][1..].parse().unwrap();
                assert!(pairs >= 2, "{told}");
                let calls = lines[at + 1];
                assert_eq!(lines[at + 4 + pairs], calls, "{told}");
                commands.push(format!("{} {calls}", lines[at - 3]));
            }
            commands.sort();
            if commands.is_empty() {
                commands.push(told);
            }
            said.push((line, commands));
        }
        said
    });
}

#[pumice_test_macros::test]
fn clients_are_listed_with_the_fields_of_redis() {
    let shown = on_both("client-list", |caller| {
        let mut lines = Vec::new();
        for line in ["CLIENT SETNAME me", "CLIENT INFO", "CLIENT LIST", "HELLO 3", "SELECT 2"] {
            lines.push(text(caller, line));
        }
        for line in ["MULTI", "SET a 1", "CLIENT INFO", "EXEC"] {
            lines.push(text(caller, line));
        }
        // Addresses, times and sizes vary.
        let keeps = |word: &str| {
            let Some((name, value)) = word.split_once('=') else { return word.to_string() };
            match name {
                // U: redis-server is asked over a Unix socket; N: nothing else.
                "flags" => format!("flags={}", value.replace(['N', 'U'], "")),
                "name" | "db" | "sub" | "psub" | "ssub" | "multi" | "oll" | "omem" | "events"
                | "cmd" | "user" | "redir" | "resp" => word.to_string(),
                "fd" => format!("fd={}", value.parse::<i32>().unwrap() > 2),
                "qbuf" | "rbs" => format!("{name}={}", value.parse::<u64>().unwrap() > 0),
                "multi-mem" => format!("{name}={}", value.parse::<u64>().unwrap() > 0),
                _ => name.to_string(),
            }
        };
        let told = lines.iter().filter(|told| told.contains("laddr"));
        let line = |told: &String| {
            let line = told.lines().find(|line| line.contains("laddr")).unwrap().to_string();
            line.trim_start_matches("txt:").split(' ').map(keeps).collect::<Vec<_>>().join(" ")
        };
        told.map(line).collect::<Vec<_>>()
    });
    assert_eq!(shown.len(), 3, "{shown:?}");
}

#[pumice_test_macros::test]
fn memory_stats_have_the_names_of_redis() {
    on_both("memory-stats", |caller| {
        told(caller, b"SET a 1");
        let bytes = told(caller, b"MEMORY STATS");
        let told = canonical(&bytes, &mut 0, false);
        let words = told.split([' ', ',', '[', ']']);
        // Redis divides by what its allocator does not know under valgrind and without jemalloc.
        let is_number = |word: &str| word.parse::<f64>().is_ok();
        let names = words.filter(|word| word.contains(|c: char| c.is_ascii_lowercase()));
        let names = names.filter(|word| !is_number(word));
        let keys = told.split("keys.count, ").nth(1).unwrap().split(',').next().unwrap();
        let mut said: Vec<String> = names.map(str::to_string).collect();
        said.push(keys.to_string());
        for line in ["MEMORY PURGE", "MEMORY DOCTOR x", "MEMORY USAGE nosuch", "MEMORY STATS x"] {
            said.push(text(caller, line));
        }
        said
    });
}

/// Commands, and COMMAND LIST of those that both have.
const ASKED: &[&str] = &[
    "GETKEYSANDFLAGS GET a",
    "GETKEYSANDFLAGS SET a 1",
    "GETKEYSANDFLAGS SET a 1 GET",
    "GETKEYSANDFLAGS SET a 1 PX 5 get",
    "GETKEYSANDFLAGS MSET a 1 b 2",
    "GETKEYSANDFLAGS DEL a b",
    "GETKEYSANDFLAGS ZUNIONSTORE d 2 a b",
    "GETKEYSANDFLAGS ZUNION 2 a b",
    "GETKEYSANDFLAGS LMOVE a b LEFT LEFT",
    "GETKEYSANDFLAGS BLMPOP 0 2 a b LEFT",
    "GETKEYSANDFLAGS SORT a STORE d",
    "GETKEYSANDFLAGS SORT a BY x GET y",
    "GETKEYSANDFLAGS SORT_RO a GET y",
    "GETKEYSANDFLAGS COPY a b",
    "GETKEYSANDFLAGS RENAME a b",
    "GETKEYSANDFLAGS RENAMENX a b",
    "GETKEYSANDFLAGS SDIFFSTORE d a b",
    "GETKEYSANDFLAGS SINTERSTORE d a b",
    "GETKEYSANDFLAGS BLPOP a b 0",
    "GETKEYSANDFLAGS OBJECT ENCODING a",
    "GETKEYSANDFLAGS MEMORY USAGE a",
    "GETKEYSANDFLAGS ZRANGESTORE d a 0 1",
    "GETKEYSANDFLAGS LCS a b",
    "GETKEYSANDFLAGS GETEX a",
    "GETKEYSANDFLAGS SETNX a 1",
    "GETKEYSANDFLAGS LMPOP 9 a LEFT",
    "GETKEYSANDFLAGS PING x",
    "GETKEYSANDFLAGS NOSUCH a",
    "GETKEYSANDFLAGS GET a b",
    "GETKEYSANDFLAGS SET a",
    "GETKEYS OBJECT IDLETIME a",
    "INFO get nosuch object|idletime|x",
    "DOCS nosuch",
    "LIST FOO",
    "LIST FILTERBY MODULE x",
    "LIST FILTERBY ACLCAT nosuch",
    "LIST FILTERBY PATTERN nosuch*",
    "LIST FILTERBY PATTERN object*",
    "LIST FILTERBY PATTERN memory*",
    "LIST FILTERBY PATTERN laten*",
    "LIST FILTERBY PATTERN sets*",
    "LIST FILTERBY ACLCAT transaction",
];

#[pumice_test_macros::test]
fn commands_are_described_as_by_redis() {
    on_both("described", |caller| {
        let told = |line: &&str| {
            let words = format!("COMMAND {line}");
            let args: Vec<_> = words.split(' ').map(str::to_string).collect();
            let reply = canonical(&ask(caller, &args), &mut 0, true);
            // No command of Redis Cluster's, functions' or scripts'.
            (
                words,
                if line.starts_with("INFO") {
                    reply.split("*6[").next().unwrap().to_string()
                } else {
                    reply
                },
            )
        };
        ASKED.iter().map(told).collect::<Vec<_>>()
    });
}

/// Conversations of one connection each, with bytes as they are.
const SAID: &[&[&[u8]]] = &[
    &[b"MULTI", b"EXEC x", b"EXEC", b"EXEC x"],
    &[b"MULTI", b"NOSUCH", b"SET a", b"EXEC", b"EXEC"],
    &[b"MULTI", b"WATCH a", b"MULTI", b"SET a 1", b"EXEC"],
    &[b"MULTI", b"SAVE", b"EXEC"],
    &[b"MULTI", b"CLIENT FOO", b"EXEC"],
    &[b"MULTI", b"DISCARD x", b"EXEC"],
    &[b"MULTI", b"RESET", b"EXEC"],
    &[b"WATCH a", b"MULTI", b"EXEC x", b"SET a 2", b"MULTI", b"GET a", b"EXEC"],
    &[
        b"nosuch\xff\xfe a\xff b",
        b"CLIENT \xff\xfe",
        b"config set \xff 1",
        b"hello 3 \xff\xfe",
        b"client kill type \xff",
        b"client list type \xff\xfe",
        b"client kill user \xff\xfe",
        b"expire a 1 \xff",
        b"acl setuser x \xff\xff",
        b"acl setuser x +\xff",
        b"acl setuser x (\xff",
        b"acl dryrun \xff get",
        b"acl dryrun default \xff",
        b"acl cat \xff",
        b"client unblock 1 \xff",
        b"slowlog get 1 2 \xff",
        b"latency graph \xff",
        b"pubsub channels \xff \xff",
        b"object \xff a",
        b"acl setuser x on nopass +@all ~a",
        b"acl dryrun x get \xff",
    ],
    &[
        b"acl setuser y on nopass -@all +ping +multi +auth +set ~a",
        b"auth y x",
        b"MULTI",
        b"GET a",
        b"SET b 1",
        b"EXEC",
        b"DISCARD",
        b"PING",
        b"EXEC x",
    ],
];

#[pumice_test_macros::test]
fn aborted_transactions_and_odd_bytes_get_the_words_of_redis() {
    let scratch = Scratch::new("words");
    let running = start(scratch.path(), &[]);
    let mut redis = Redis::start(&scratch);
    for lines in SAID {
        let (mut ours, mut theirs) = (Caller::to(&running), redis.connect());
        for line in *lines {
            let (one, two) = (told(&mut ours, line), told(&mut theirs, line));
            assert_eq!(one.escape_ascii().to_string(), two.escape_ascii().to_string(), "{}", {
                line.escape_ascii()
            });
        }
    }
    running.stop().unwrap();
}
