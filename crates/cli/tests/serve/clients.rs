//! Redis's clients: its own tools, redis-py and, with `cargo xtask clients`, those of other
//! languages; and what a browser is made to send.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::{Scratch, Server, command};

/// What a tool of Redis says; it has to succeed without a word of complaint.
fn output_of(tool: &str, server: &Server, args: &[&str]) -> String {
    let mut command = Command::new("timeout");
    command.args(["120", tool, "-p", &server.port.to_string()]).args(args).stdin(Stdio::null());
    let Output { status, stdout, stderr } = command.output().unwrap();
    let printed = String::from_utf8_lossy(&stdout).into_owned();
    let complaint = String::from_utf8_lossy(&stderr);
    // 127: timeout has not found it.
    assert!(status.code() != Some(127), "{tool} is installed (cargo xtask peers): {complaint}");
    assert!(status.success() && complaint.is_empty(), "{tool} {args:?}: {printed}{complaint}");
    printed
}

// Plain #[test]: it only waits for other processes.
#[test]
fn redis_cli_works_on_it() {
    let scratch = Scratch::new("cli");
    let server = Server::start(&scratch.0, &[]);
    let cli = |args: &[&str]| output_of("redis-cli", &server, args);
    assert_eq!(cli(&["MSET", "a", "1", "b", "22"]), "OK\n");
    assert_eq!(cli(&["--no-raw", "MGET", "a", "b", "c"]), "1) \"1\"\n2) \"22\"\n3) (nil)\n");
    assert_eq!(cli(&["--no-raw", "LPUSH", "l", "x", "y", "z"]), "(integer) 3\n");
    assert_eq!(cli(&["HSET", "h", "f", "v"]), "1\n");
    assert_eq!(cli(&["--json", "HGETALL", "h"]), "{\"f\":\"v\"}\n");
    assert_eq!(cli(&["-3", "--no-raw", "HGETALL", "h"]), "1# \"f\" => \"v\"\n");
    assert_eq!(cli(&["-r", "3", "INCR", "n"]), "1\n2\n3\n");
    let mut keys: Vec<_> = cli(&["--scan"]).lines().map(str::to_string).collect();
    keys.sort();
    assert_eq!(keys, ["a", "b", "h", "l", "n"]);
    let biggest = cli(&["--bigkeys"]);
    for line in [
        "Sampled 5 keys in the keyspace!",
        "Biggest   list found '\"l\"' has 3 items",
        "Biggest   hash found '\"h\"' has 1 fields",
        "Biggest string found '\"b\"' has 2 bytes",
    ] {
        assert!(biggest.contains(line), "no {line:?} in {biggest}");
    }
    server.end_well();
}

// Plain #[test]: it only waits for other processes.
#[test]
fn redis_benchmark_works_on_it() {
    let scratch = Scratch::new("benchmark");
    let server = Server::start(&scratch.0, &[]);
    let tests = "ping,set,get,incr,lpush,rpush,lpop,rpop,sadd,hset,spop,zadd,zpopmin,mset";
    let printed =
        output_of("redis-benchmark", &server, &["-n", "2000", "-c", "20", "-q", "-t", tests]);
    for name in [
        "PING_INLINE",
        "PING_MBULK",
        "SET",
        "GET",
        "INCR",
        "LPUSH",
        "RPUSH",
        "LPOP",
        "RPOP",
        "SADD",
        "HSET",
        "SPOP",
        "ZADD",
        "ZPOPMIN",
        "MSET (10 keys)",
    ] {
        let is_of = |line: &&str| {
            let rest = line.trim().strip_prefix(name).and_then(|rest| rest.strip_prefix(": "));
            rest.is_some_and(|rest| rest.contains(" requests per second"))
        };
        assert!(printed.split(['\r', '\n']).any(|line| is_of(&line)), "no {name} in {printed}");
    }
    // What 2,000 of each leave: a counter at 2,000, and lists that were emptied again.
    let mut client = server.connect();
    assert_eq!(client.say("GET counter:__rand_int__"), "2000");
    assert_eq!(client.say("LLEN mylist"), "0");
    server.end_well();
}

// Plain #[test]: it only waits for other processes.
#[test]
fn a_browser_cannot_send_commands() {
    let scratch = Scratch::new("browser");
    let mut command = command(&scratch.0, &[]);
    let mut server = Server::run(command.stderr(Stdio::piped()));
    let mut client = server.connect();
    assert_eq!(client.say("SET kept 1"), "OK");
    for request in ["POST / HTTP/1.1\r\nHost: x\r\n\r\nFLUSHALL\r\n", "hOsT: x\r\nFLUSHALL\r\n"] {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut reply = Vec::new();
        // The rest of the request was not read, so that the end may be a reset.
        stream.read_to_end(&mut reply).ok();
        assert!(reply.is_empty(), "{}", String::from_utf8_lossy(&reply));
    }
    assert_eq!(client.say("GET kept"), "1");
    let mut stderr = server.child.stderr.take().unwrap();
    server.end_well();
    let mut complaint = String::new();
    stderr.read_to_string(&mut complaint).unwrap();
    assert!(complaint.contains("SECURITY ATTACK: 127.0.0.1:"), "{complaint}");
}

/// `PUMICE_REDIS_PY` names the folder of redis-py, which `cargo xtask peers` brings.
// Plain #[test]: it only waits for other processes.
#[test]
fn redis_py_finds_what_it_finds_with_redis() {
    let Some(modules) = std::env::var_os("PUMICE_REDIS_PY") else {
        println!("SKIPPED: PUMICE_REDIS_PY does not say where redis-py is (cargo xtask peers)");
        return;
    };
    let scratch = Scratch::new("python");
    let server = Server::start(&scratch.0, &[]);
    let program =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients/python/client.py");
    let mut command = Command::new("timeout");
    command.arg("120").arg("python3").arg(program).arg(server.port.to_string());
    let output = command.env("PYTHONPATH", modules).output().unwrap();
    let (printed, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{printed}{errors}");
    assert!(printed.contains("checks, no difference"), "{printed}");
    server.end_well();
}
