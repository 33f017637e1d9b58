//! The same generated commands to this server and to Debian's redis-server 7.0, over sockets:
//! replies and error texts must be equal.
//!
//! `PUMICE_SEED=N` replays a seed, `PUMICE_PEER=N` runs so many commands (3,000). Replies whose
//! order Redis does not promise are compared as sets.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};

use pumice_port::net::Stream;

use super::connections::{Caller, start};
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
        loop {
            if let Ok(stream) = Stream::connect_unix(&self.socket) {
                return Caller::new(stream);
            }
            assert!(self.child.try_wait().unwrap().is_none(), "redis-server has ended");
            pumice_port::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Kinds of arguments in the templates below.
fn argument(random: &mut Random, kind: &str) -> String {
    let numbers = ["0", "1", "-1", "2", "5", "-3", "10", "100", "-100", "x", "1.5", ""];
    let floats =
        ["0", "1", "-1", "1.5", "3.1", "1e3", "7", "inf", "-inf", "nan", "abc", "10.50", "5e-1"];
    let values =
        ["a", "b", "c", "d", "e", "1", "10", "3.5", "hello", "world", "", "-7", "007", "long"];
    match kind {
        "S" => format!("str{}", random.below(4)),
        "H" => format!("hash{}", random.below(3)),
        "E" => format!("set{}", random.below(4)),
        "L" => format!("list{}", random.below(3)),
        "Z" => format!("zset{}", random.below(3)),
        // All members have one score.
        "Q" => format!("lex{}", random.below(2)),
        "K" => {
            let kinds = ["S", "H", "E", "L", "Z", "K2"];
            let kind = *random.pick(&kinds);
            if kind == "K2" { "missing".to_string() } else { argument(random, kind) }
        }
        "N" => random.pick(&numbers).to_string(),
        "C" => random.pick(&["1", "2", "3", "0", "10"]).to_string(),
        "F" => random.pick(&floats).to_string(),
        "V" => random.pick(&values).to_string(),
        // Over at once, or long after the test.
        "T" => random.pick(&["700000", "1000000", "-1", "0", "99999999", "x"]).to_string(),
        literal => literal.to_string(),
    }
}

/// Templates: words, of which capital letters alone are replaced; `?X` is there or not, `*X` up to
/// three times. Behind `~`: the order of the reply's elements does not matter. Behind `^`: a time.
const TEMPLATES: &[&str] = &[
    "GET S",
    "GET K",
    "SET S V",
    "SET S V",
    "SET S V NX",
    "SET S V XX",
    "SET S V GET",
    "SET S V EX T",
    "SET K V GET",
    "SET S V KEEPTTL",
    "SET S V XX GET",
    "SETNX S V",
    "SETEX S T V",
    "PSETEX S T V",
    "GETSET S V",
    "GETDEL S",
    "GETEX S",
    "GETEX S PERSIST",
    "GETEX S EX T",
    "MGET K K K",
    "MSET S V S V",
    "MSET S V S",
    "MSETNX S V S V",
    "APPEND S V",
    "STRLEN K",
    "GETRANGE S N N",
    "SUBSTR S N N",
    "SETRANGE S C V",
    "SETRANGE S N V",
    "INCR S",
    "DECR S",
    "INCRBY S N",
    "DECRBY S N",
    "INCRBYFLOAT S F",
    "SET S F",
    "SET S N",
    "LCS S S",
    "LCS S S LEN",
    "LCS S S IDX",
    "LCS S S IDX MINMATCHLEN 2 WITHMATCHLEN",
    "LCS S S FOO",
    "DEL K",
    "DEL K K",
    "UNLINK K",
    "EXISTS K K K",
    "TOUCH K K",
    "TYPE K",
    "PERSIST K",
    "EXPIRE K T",
    "EXPIRE K T NX",
    "EXPIRE K T XX",
    "EXPIRE K T GT",
    "EXPIRE K T LT",
    "EXPIRE K T NX XX",
    "EXPIRE K T FOO",
    "PEXPIRE K -1",
    "TTL nothing",
    "EXPIREAT K 99999999999",
    "^EXPIRETIME K",
    "PEXPIREAT K 99999999999999",
    "^PEXPIRETIME K",
    "RENAME K K",
    "RENAMENX K K",
    "COPY K K",
    "COPY K K REPLACE",
    "COPY K K DB 1",
    "COPY K K DB 99",
    "MOVE K 1",
    "MOVE K x",
    "DBSIZE",
    "~KEYS *",
    "~KEYS s*[01]",
    "SCAN x",
    "SCAN 0 COUNT 0",
    "~SCAN 0 COUNT 1000",
    "~SCAN 0 COUNT 1000 TYPE hash",
    "~SCAN 0 MATCH l* COUNT 1000",
    "OBJECT REFCOUNT nothing",
    "OBJECT ENCODING H",
    "OBJECT FOO",
    "SELECT x",
    "SELECT 99",
    "ECHO V",
    "PING",
    "PING V",
    "PING V V",
    "NOSUCH V V",
    "GET",
    "EXEC",
    "DISCARD",
    "WATCH K",
    "UNWATCH",
    "CONFIG GET nosuch",
    "CONFIG FOO",
    "CONFIG SET nosuch 1",
    "CLIENT SETNAME V",
    "CLIENT GETNAME",
    "CLIENT FOO",
    "AUTH V",
    "AUTH V V",
    "AUTH",
    "HELLO 4",
    "HELLO x",
    "HELLO 2 FOO",
    "COMMAND GETKEYS MSET a 1 b 2",
    "COMMAND GETKEYS NOSUCH",
    "COMMAND GETKEYS PING",
    "COMMAND GETKEYS GET",
    "COMMAND FOO",
    "FLUSHDB FOO",
    "OBJECT FREQ nothing",
    "HSET H V V",
    "HSET H V V V V",
    "HSET H V V V",
    "HMSET H V V V V",
    "HSETNX H V V",
    "HGET H V",
    "HGET K V",
    "~HGETALL H",
    "HDEL H V",
    "HDEL H V V V",
    "HEXISTS H V",
    "HLEN K",
    "HSTRLEN H V",
    "~HKEYS H",
    "~HVALS H",
    "HMGET H V V V",
    "HINCRBY H V N",
    "HINCRBYFLOAT H V F",
    "~HSCAN H 0 COUNT 1000",
    "~HSCAN H 0 MATCH [a-c]",
    "HSCAN H x",
    "HRANDFIELD nothing",
    "HRANDFIELD nothing 3",
    "~HRANDFIELD H 1000",
    "~HRANDFIELD H 1000 WITHVALUES",
    "HRANDFIELD H x",
    "HRANDFIELD H 1 FOO",
    "SADD E V",
    "SADD E V V V",
    "SADD K V",
    "SREM E V",
    "SREM E V V",
    "SCARD K",
    "SISMEMBER E V",
    "SMISMEMBER E V V V",
    "~SMEMBERS E",
    "SMOVE E E V",
    "SMOVE E K V",
    "~SUNION E E",
    "~SINTER E E",
    "~SDIFF E E",
    "~SINTER E K",
    "SUNIONSTORE E E E",
    "SINTERSTORE E E E",
    "SDIFFSTORE E E E",
    "SUNIONSTORE K E K",
    "SINTERCARD 2 E E",
    "SINTERCARD 2 E E LIMIT C",
    "SINTERCARD 0 E",
    "SINTERCARD 3 E E",
    "SINTERCARD x E",
    "SINTERCARD 1 E LIMIT -1",
    "SINTERCARD 1 E FOO",
    "SPOP nothing",
    "SPOP nothing 2",
    "SPOP E -1",
    "SPOP E 0",
    "~SPOP E 1000",
    "SPOP E x",
    "SRANDMEMBER nothing",
    "SRANDMEMBER nothing 2",
    "~SRANDMEMBER E 1000",
    "SRANDMEMBER E x",
    "SRANDMEMBER E 1 2",
    "~SSCAN E 0 COUNT 1000",
    "SSCAN E x",
    "SSCAN E 0 COUNT -1",
    "LPUSH L V",
    "LPUSH L V V V",
    "RPUSH L V V",
    "RPUSH K V",
    "LPUSHX L V",
    "RPUSHX L V V",
    "LPOP L",
    "RPOP L",
    "LPOP L C",
    "RPOP L C",
    "LPOP L -1",
    "LPOP L x",
    "LPOP K",
    "LPOP L 1 2",
    "LLEN K",
    "LRANGE L N N",
    "LRANGE K 0 -1",
    "LRANGE L 0 -1",
    "LINDEX L N",
    "LSET L N V",
    "LREM L N V",
    "LREM L C V",
    "LTRIM L N N",
    "LINSERT L BEFORE V V",
    "LINSERT L AFTER V V",
    "LINSERT L FOO V V",
    "LPOS L V",
    "LPOS L V RANK N",
    "LPOS L V COUNT N",
    "LPOS L V RANK -1 COUNT 2",
    "LPOS L V MAXLEN C",
    "LPOS L V FOO 1",
    "LPOS L V RANK",
    "LMOVE L L LEFT RIGHT",
    "LMOVE L L RIGHT LEFT",
    "LMOVE L K LEFT LEFT",
    "LMOVE L L FOO LEFT",
    "RPOPLPUSH L L",
    "RPOPLPUSH L K",
    "LMPOP 2 L L LEFT",
    "LMPOP 1 L RIGHT COUNT 2",
    "LMPOP 0 L LEFT",
    "LMPOP x L LEFT",
    "LMPOP 3 L LEFT",
    "LMPOP 1 L LEFT COUNT 0",
    "LMPOP 1 K LEFT",
    "LMPOP 1 L FOO",
    "ZADD Q 0 V 0 V",
    "ZADD Q 0 V 0 V 0 V",
    "ZREM Q V",
    "ZADD Z F V",
    "ZADD Z F V F V",
    "ZADD Z 1 a 2 b 3 c",
    "ZADD Z NX F V",
    "ZADD Z XX F V",
    "ZADD Z GT CH F V",
    "ZADD Z LT CH F V F V",
    "ZADD Z INCR F V",
    "ZADD Z XX INCR F V",
    "ZADD Z NX XX F V",
    "ZADD Z GT LT F V",
    "ZADD Z INCR F V F V",
    "ZADD Z F",
    "ZADD K F V",
    "ZCARD K",
    "ZINCRBY Z F V",
    "ZSCORE Z V",
    "ZMSCORE Z V V V",
    "ZPOPMIN Z",
    "ZPOPMAX Z",
    "ZPOPMIN Z C",
    "ZPOPMAX Z C",
    "ZPOPMIN Z -1",
    "ZPOPMIN Z x",
    "ZRANK Z V",
    "ZREVRANK Z V",
    "ZREM Z V",
    "ZREM Z V V V",
    "~ZSCAN Z 0 COUNT 1000",
    "ZSCAN Z x",
    "ZCOUNT Z F F",
    "ZCOUNT Z (1 +inf",
    "ZCOUNT Z -inf (3.1",
    "ZCOUNT Z x y",
    "ZLEXCOUNT Q - +",
    "ZLEXCOUNT Q [a (c",
    "ZLEXCOUNT Q a c",
    "ZRANGE Z N N",
    "ZRANGE Z 0 -1 WITHSCORES",
    "ZRANGE Z N N REV WITHSCORES",
    "ZRANGE Z F F BYSCORE",
    "ZRANGE Z +inf -inf BYSCORE REV LIMIT N N",
    "ZRANGE Q - + BYLEX LIMIT C C",
    "ZRANGE Q + - BYLEX REV",
    "ZRANGE Z 0 -1 LIMIT 0 1",
    "ZRANGE Q - + BYLEX WITHSCORES",
    "ZRANGE Z 0 -1 FOO",
    "ZRANGE K 0 -1",
    "ZRANGEBYSCORE Z F F",
    "ZRANGEBYSCORE Z -inf +inf WITHSCORES LIMIT N N",
    "ZRANGEBYSCORE Z (1 (10",
    "ZRANGEBYSCORE Z 1 2 REV",
    "ZRANGEBYLEX Q [a [d",
    "ZRANGEBYLEX Q (b +",
    "ZRANGEBYLEX Q b d",
    "ZREVRANGE Z N N",
    "ZREVRANGE Z 0 -1 WITHSCORES",
    "ZREVRANGE Z 0 -1 FOO",
    "ZREVRANGEBYSCORE Z F F",
    "ZREVRANGEBYSCORE Z +inf -inf WITHSCORES",
    "ZREVRANGEBYLEX Q + -",
    "ZREVRANGEBYLEX Q [d [a LIMIT 1 2",
    "ZRANGESTORE Z Z N N",
    "ZRANGESTORE Z Z -inf (3 BYSCORE",
    "ZRANGESTORE K Z 0 -1",
    "ZRANGESTORE Z K 0 1",
    "ZRANGESTORE Z Z 0 1 WITHSCORES",
    "ZREMRANGEBYRANK Z N N",
    "ZREMRANGEBYSCORE Z F F",
    "ZREMRANGEBYSCORE Z (5 +inf",
    "ZREMRANGEBYLEX Q [d [e",
    "ZREMRANGEBYLEX Q x y",
    "ZUNION 2 Z Z",
    "ZUNION 2 Z E WITHSCORES",
    "ZUNION 2 Z Z WEIGHTS F F WITHSCORES",
    "ZUNION 2 Z Z AGGREGATE MAX WITHSCORES",
    "ZINTER 2 Z Z WITHSCORES",
    "ZINTER 2 Z E AGGREGATE MIN WITHSCORES",
    "ZINTER 2 Z K",
    "ZDIFF 2 Z Z",
    "ZDIFF 2 Z E WITHSCORES",
    "ZDIFF 1 Z WEIGHTS 1",
    "ZUNION 0 Z",
    "ZUNION 3 Z Z",
    "ZUNION x Z",
    "ZUNION 1 Z FOO",
    "ZUNION 1 Z WEIGHTS x",
    "ZUNIONSTORE Z 2 Z Z",
    "ZUNIONSTORE Z 2 Z E WEIGHTS 2 -1",
    "ZINTERSTORE Z 2 Z Z AGGREGATE SUM",
    "ZDIFFSTORE Z 2 Z Z",
    "ZUNIONSTORE K 1 Z",
    "ZUNIONSTORE Z 0 Z",
    "ZUNIONSTORE Z 1 Z WITHSCORES",
    "ZINTERCARD 2 Z Z",
    "ZINTERCARD 2 Z E LIMIT C",
    "ZINTERCARD 0 Z",
    "ZMPOP 2 Z Z MIN",
    "ZMPOP 1 Z MAX COUNT 2",
    "ZMPOP 0 Z MIN",
    "ZMPOP 1 Z FOO",
    "ZMPOP 1 Z MIN COUNT 0",
    "ZMPOP 3 Z MIN",
    "ZRANDMEMBER nothing",
    "ZRANDMEMBER nothing 2",
    "~ZRANDMEMBER Z 1000",
    "~ZRANDMEMBER Z 1000 WITHSCORES",
    "ZRANDMEMBER Z x",
    "ZRANDMEMBER Z 1 FOO",
    "BLPOP L L 0.001",
    "BRPOP L x",
    "BLPOP L -1",
    "BLPOP L inf",
    "BLPOP K 0.001",
    "BRPOPLPUSH L L 0.001",
    "BLMOVE L L LEFT RIGHT 0.001",
    "BLMOVE L L FOO RIGHT x",
    "BLMOVE L K LEFT RIGHT 0.001",
    "BLMPOP 0.001 2 L L LEFT COUNT 2",
    "BLMPOP 0.001 1 L LEFT COUNT 0",
    "BLMPOP x 1 L LEFT",
    "BLMPOP 0.001 0 L LEFT",
    "BLMPOP 0.001 1 L FOO",
    "BLMPOP 0.001 3 L LEFT",
    "BZPOPMIN Z Z 0.001",
    "BZPOPMAX Z x",
    "BZPOPMAX K 0.001",
    "BZMPOP 0.001 1 Z MIN COUNT 2",
    "BZMPOP 0.001 1 Z FOO",
    "BZMPOP -1 1 Z MIN",
    "CLIENT UNBLOCK 99999",
    "CLIENT UNBLOCK x",
    "CLIENT UNBLOCK 99999 FOO",
    "CLIENT UNBLOCK 99999 ERROR x",
    "SORT L",
    "SORT L ALPHA",
    "SORT E ALPHA DESC",
    "SORT Z ALPHA",
    "SORT Z DESC",
    "SORT E",
    "SORT K ALPHA",
    "SORT L LIMIT N N ALPHA",
    "~SORT L BY str* ALPHA GET # GET str*",
    "SORT numbers",
    "SORT numbers DESC LIMIT C C",
    "SORT numbers BY weight* GET # GET weight*",
    "SORT numbers BY weight*",
    "SORT numbers BY hash*->V GET hash*->V GET #",
    "~SORT numbers BY nosort GET #",
    "~SORT numbers BY nosort DESC",
    "SORT Z BY nosort DESC LIMIT 0 3",
    "SORT Z BY nosort",
    "~SORT E BY nosort",
    "SORT E BY nosort STORE L",
    "SORT L ALPHA STORE L",
    "SORT numbers GET weight* STORE L",
    "SORT K BY FOO",
    "SORT K LIMIT 1",
    "SORT K LIMIT x 1",
    "SORT K FOO",
    "SORT K GET",
    "SORT numbers GET * GET nostar",
    "SORT_RO numbers",
    "SORT_RO L ALPHA",
    "SORT_RO numbers STORE L",
    "RPUSH numbers C C N",
    "SADD numbers V",
    "SET weight1 F",
    "SET weight2 N",
    "SET weight10 V",
    "DEL numbers",
    "HSET hash1 V N",
    "HSET hash2 V C",
    "SWAPDB 0 1",
    "SWAPDB 0 0",
    "SWAPDB x 1",
    "SWAPDB 0 x",
    "SWAPDB 0 99",
    "SWAPDB 1 2",
    "SLOWLOG GET 0",
    "SLOWLOG GET -2",
    "SLOWLOG GET x",
    "SLOWLOG GET 1 2",
    "SLOWLOG RESET",
    "SLOWLOG FOO",
    "LATENCY LATEST",
    "LATENCY HISTORY command",
    "LATENCY RESET V",
    "LATENCY FOO",
    "MEMORY USAGE nothing",
    "MEMORY USAGE K SAMPLES -1",
    "MEMORY USAGE K SAMPLES x",
    "MEMORY USAGE K FOO",
    "MEMORY FOO",
    "PUBLISH V V",
    "PUBSUB NUMPAT",
    "PUBSUB NUMSUB V",
    "PUBSUB CHANNELS",
    "PUBSUB FOO",
];

/// A reply as nested lines; with `any_order` the elements of every array are sorted.
pub fn canonical(bytes: &[u8], at: &mut usize, any_order: bool) -> String {
    let end = bytes[*at..].windows(2).position(|pair| pair == b"\r\n").unwrap() + *at;
    let line = String::from_utf8_lossy(&bytes[*at..end]).into_owned();
    *at = end + 2;
    let len = line[1..].parse::<i64>().unwrap_or(0);
    match line.as_bytes()[0] {
        b'$' if len >= 0 => {
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

/// Sends a command with a mark behind it; the reply before the mark.
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

fn compare(seed: u64, commands: u64) -> Vec<String> {
    let scratch = Scratch::new("peer");
    let running = start(scratch.path(), &[]);
    let mut redis = Redis::start(&scratch);
    let (mut ours, mut theirs) = (Caller::to(&running), redis.connect());
    let mut random = Random::new(seed);
    let mut differences = Vec::new();
    for step in 0..commands {
        let template = *random.pick(TEMPLATES);
        let any_order = template.starts_with('~');
        let words = template.trim_start_matches(['~', '^']).split(' ');
        let args: Vec<_> = words.map(|word| argument(&mut random, word)).collect();
        let (one, two) = (ask(&mut ours, &args), ask(&mut theirs, &args));
        let (one, two) = (canonical(&one, &mut 0, any_order), canonical(&two, &mut 0, any_order));
        if one != two && !(template.starts_with('^') && are_near(&one, &two)) {
            differences
                .push(format!("seed {seed} step {step}: {args:?}\n  ours  {one}\n  redis {two}"));
        }
    }
    running.stop().unwrap();
    differences
}

/// A number of the environment.
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
    let differences = compare(number("PUMICE_SEED", 1), commands(3000));
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}

/// Name, arity, flags, keys and categories that COMMAND INFO tells; None if the command is unknown.
fn told(caller: &mut Caller, name: &str) -> Option<Vec<String>> {
    let args = ["COMMAND", "INFO", name].map(str::to_string);
    let reply = ask(caller, &args);
    let mut at = "*1\r\n*10\r\n".len();
    if !reply.starts_with(b"*1\r\n*10\r\n") {
        return None;
    }
    Some((0..7).map(|_| canonical(&reply, &mut at, true)).collect())
}

/// Where the table says something else on purpose.
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

/// Bytes that are no requests, or strange ones, as a connection sends them.
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
];

#[pumice_test_macros::test]
fn bytes_that_make_no_sense_get_the_words_of_redis() {
    let scratch = Scratch::new("strange");
    let running = start(scratch.path(), &[]);
    let mut redis = Redis::start(&scratch);
    let long = format!("{}\r\n", "x".repeat(70_000));
    let (count, bulk) = (format!("*{long}"), format!("*1\r\n${long}"));
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
