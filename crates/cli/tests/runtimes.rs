//! `pumice serve` on fibers and on threads: the same replies to the same commands, and each other's
//! directories are served.
//!
//! `PUMICE_SERVE_COMMANDS=N` commands (3,000), `PUMICE_SEED=N`.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
const RUNTIMES: [&str; 2] = ["fibers", "threads"];
/// Commands that are sent together.
const CHUNK: usize = 50;

/// A server as a process; killed with the value.
struct Server {
    child: Child,
    stream: TcpStream,
    received: Vec<u8>,
}

impl Server {
    fn start(dir: &Path, runtime: &str) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pumice"));
        let dir = dir.to_str().unwrap();
        command.args(["serve", "--port", "0", "--dir", dir, "--runtime", runtime]);
        command.args(["--workers", "4", "--loops", "2", "--write-buffer-bytes", "1mb"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("listening on 127.0.0.1:") {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0, "it ended");
        }
        let port: u16 = line.trim_end().rsplit(' ').next().unwrap().parse().unwrap();
        // The rest of its output fits into the pipe.
        child.stdout = Some(lines.into_inner());
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Server { child, stream, received: Vec::new() }
    }

    /// The replies to pipelined inline commands, as bytes.
    fn ask(&mut self, commands: &str) -> String {
        const END: &str = "$5\r\n=end=\r\n";
        self.stream.write_all(format!("{commands}ECHO =end=\r\n").as_bytes()).unwrap();
        let mut buf = vec![0; 1 << 16];
        while !self.received.ends_with(END.as_bytes()) {
            let n = self.stream.read(&mut buf).unwrap();
            assert!(n > 0, "it hung up");
            self.received.extend_from_slice(&buf[..n]);
        }
        let text = String::from_utf8(std::mem::take(&mut self.received)).unwrap();
        text.strip_suffix(END).unwrap().to_string()
    }

    fn end(mut self) {
        self.stream.write_all(b"SHUTDOWN\r\n").unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as usize % n
    }
}

/// Commands with `K` for a key, `N` for a small number, `V` for a value.
const TEMPLATES: &[&str] = &[
    "set sK V",
    "set sK N",
    "get sK",
    "mget sK sK hK sK",
    "mset sK V sK V",
    "msetnx sK V sK V",
    "append sK V",
    "incr sK",
    "getdel sK",
    "del sK hK lK zK eK",
    "exists sK hK sK",
    "type lK",
    "expire sK 1000N",
    "persist sK",
    "pexpireat sK 1",
    "rename hK hK",
    "copy zK zK replace",
    "hset hK fN V fN V",
    "hget hK fN",
    "hgetall hK",
    "hdel hK fN",
    "rpush lK V V V",
    "lpush lK V",
    "lpop lK",
    "rpoplpush lK lK",
    "lrange lK 0 -1",
    "lindex lK N",
    "ltrim lK 0 N",
    "sadd eK N N N",
    "smembers eK",
    "srem eK N",
    "sunion eK eK",
    "sinterstore eK eK eK",
    "zadd zK N mN N mN",
    "zrange zK 0 -1 withscores",
    "zrangebyscore zK N 9",
    "zrem zK mN",
    "zpopmin zK",
    "sort eK limit 0 N",
    "scan 0 count 1000 match sN*",
    "keys hN*",
    "dbsize",
    "multi\r\nincr sK\r\nlpush lK V\r\nhset hK f1 V\r\nexec",
    "select 1",
    "select 0",
    "swapdb 0 1",
    "rpush lK V V V V V V V V V V V V V V V V V V V V V V V V V V V V V V V V V V V V V V",
    "unlink lK",
    "move hK 1",
];

fn command(random: &mut Random) -> String {
    let mut text = String::new();
    for letter in TEMPLATES[random.below(TEMPLATES.len())].chars() {
        match letter {
            'K' => text += &random.below(8).to_string(),
            'N' => text += &random.below(10).to_string(),
            'V' => text += &"v".repeat(1 + random.below(200)),
            letter => text.push(letter),
        }
    }
    text + "\r\n"
}

/// All that there is.
fn everything(server: &mut Server) -> String {
    let mut all = String::new();
    for db in 0..2 {
        all += &server.ask(&format!("SELECT {db}\r\nDBSIZE\r\nKEYS *\r\n"));
        for i in 0..8 {
            all += &server.ask(&format!(
                "GET s{i}\r\nHGETALL h{i}\r\nLRANGE l{i} 0 -1\r\nSMEMBERS e{i}\r\n\
                 ZRANGE z{i} 0 -1 WITHSCORES\r\n"
            ));
        }
    }
    all
}

// Plain #[test]: it only waits for other processes.
#[test]
fn every_mode_gives_the_same_replies_and_serves_the_others_data() {
    let number = |name, default| std::env::var(name).map_or(default, |n| n.parse().unwrap());
    let seed: u64 = number("PUMICE_SEED", 1);
    let commands = number("PUMICE_SERVE_COMMANDS", 3000) as usize;
    println!("PUMICE_SEED={seed}");
    let scratch = tempfile::tempdir().unwrap();
    let dirs = RUNTIMES.map(|runtime| scratch.path().join(runtime));
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    for life in 0..RUNTIMES.len() {
        // In each life a directory has another runtime.
        let mode = |at: usize| RUNTIMES[(at + life) % RUNTIMES.len()];
        let start = |at: usize| Server::start(&dirs[at], mode(at));
        let mut servers: Vec<_> = (0..RUNTIMES.len()).map(start).collect();
        let found: Vec<_> = servers.iter_mut().map(everything).collect();
        for (at, all) in found.iter().enumerate() {
            assert_eq!(all, &found[0], "seed {seed} life {life} {:?}", mode(at));
        }
        for chunk in 0..commands / RUNTIMES.len() / CHUNK {
            let text: String = (0..CHUNK).map(|_| command(&mut random)).collect();
            let replies: Vec<_> = servers.iter_mut().map(|server| server.ask(&text)).collect();
            for (at, reply) in replies.iter().enumerate() {
                let what = format!("seed {seed} life {life} chunk {chunk} {:?}: {text}", mode(at));
                assert_eq!(reply, &replies[0], "{what}");
            }
        }
        for server in &mut servers {
            // No client sees an expired key, and it is deleted later.
            let before = server.ask("del gone\r\ndbsize\r\n");
            let before = before.split_once("\r\n").unwrap().1;
            assert_eq!(server.ask("set gone v px 1\r\n"), "+OK\r\n");
            while server.ask("exists gone\r\n") != ":0\r\n" {}
            while server.ask("dbsize\r\n") != before {}
        }
        servers.into_iter().for_each(Server::end);
    }
}
