//! Random rules of users here and on redis-server 7.0: the same rules are refused in the same
//! words, and users may do the same.
//!
//! Rules about commands are compared by what they allow: Redis 7.0 rewrites them to equivalent
//! ones. `PUMICE_SEED=N` replays a seed.

use super::connections::{Caller, start};
use super::peer::{Redis, ask, canonical, commands, number};
use super::{Random, Scratch};

/// Rules; `U` is a command, `C` a category, `P` a pattern.
const RULES: &[&str] = &[
    "on",
    "off",
    "nopass",
    "resetpass",
    "ON",
    ">P",
    "<P",
    "#P",
    "!P",
    "#2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
    "!2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
    ">foo",
    "<foo",
    "~P",
    "~P",
    "~P",
    "%R~P",
    "%W~P",
    "%RW~P",
    "%r~P",
    "%RR~P",
    "%X~P",
    "%~P",
    "%",
    "~",
    "allkeys",
    "~*",
    "%R~*",
    "%RW~*",
    "resetkeys",
    "&P",
    "&P",
    "&",
    "&*",
    "allchannels",
    "resetchannels",
    "+U",
    "+U",
    "+U",
    "+U",
    "-U",
    "-U",
    "-U",
    "+@C",
    "+@C",
    "-@C",
    "+U|P",
    "-U|P",
    "+@all",
    "-@all",
    "allcommands",
    "nocommands",
    "+@",
    "+",
    "-",
    "",
    "reset",
    "clearselectors",
    "(+U ~P)",
    "(+@C %R~P &P)",
    "(+@all ~*)",
    "(on)",
    "()",
    "sanitize-payload",
    "skip-sanitize-payload",
    "nosuch",
    "+@C|get",
    "+config|get|x",
    "+U|",
    "~a b",
    "&a b",
    "-U|set",
];

const COMMANDS: &[&str] = &[
    "get",
    "set",
    "GET",
    "del",
    "mget",
    "config",
    "config|get",
    "config|set",
    "Config|Get",
    "select",
    "publish",
    "subscribe",
    "psubscribe",
    "client",
    "client|id",
    "acl",
    "sort",
    "lmove",
    "copy",
    "nosuch",
    "ping",
    "multi",
    "auth",
    "zunionstore",
    "object",
    "object|encoding",
    "acl|whoami",
];

const CATEGORIES: &[&str] = &[
    "read",
    "write",
    "string",
    "hash",
    "list",
    "set",
    "sortedset",
    "keyspace",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "dangerous",
    "connection",
    "transaction",
    "blocking",
    "stream",
    "scripting",
    "nosuch",
    "READ",
];

const PATTERNS: &[&str] = &["a", "a*", "b?", "*", "[ab]1", "foo", "get", "0", "ch*", "c"];

/// What is tried.
const TRIED: &[&str] = &[
    "GET a",
    "GET a1",
    "GET b1",
    "GET c",
    "SET a 1",
    "SET a1 1",
    "SET b1 1 GET",
    "SET b1 1 EX 9",
    "DEL a b1",
    "EXISTS a zz",
    "MGET a a1",
    "STRLEN b1",
    "INCR a",
    "APPEND a1 x",
    "LMOVE a b1 LEFT LEFT",
    "COPY a b1",
    "COPY b1 a",
    "RENAME a1 b1",
    "SUNIONSTORE a a1 b1",
    "ZUNIONSTORE a 2 a1 b1",
    "ZADD a 1 x",
    "ZRANGESTORE a b1 0 1",
    "SORT a",
    "SORT a STORE b1",
    "SORT_RO b1",
    "HGET a x",
    "HSET a1 f v",
    "BLPOP a b1 0",
    "GETEX a",
    "GETDEL b1",
    "SMOVE a a1 x",
    "EXPIRE a 1",
    "TTL a1",
    "CONFIG GET x",
    "CONFIG SET a b",
    "CONFIG RESETSTAT",
    "CONFIG NOSUCH",
    "CONFIG",
    "CLIENT ID",
    "CLIENT LIST",
    "OBJECT ENCODING a",
    "ACL WHOAMI",
    "ACL LIST",
    "SELECT 0",
    "SELECT 1",
    "PING",
    "MULTI",
    "EXEC",
    "WATCH a zz",
    "KEYS *",
    "FLUSHALL",
    "PUBLISH c x",
    "PUBLISH foo x",
    "SUBSCRIBE c ch1",
    "PSUBSCRIBE ch*",
    "PSUBSCRIBE a* c",
    "UNSUBSCRIBE zz",
    "AUTH x",
    "NOSUCH",
    "GET",
    "PUBSUB CHANNELS",
    "SHUTDOWN",
    "DBSIZE",
    "MSET a 1 b1 2",
    "LPOS a x",
    "ZRANGE b1 0 1",
];

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_string).collect()
}

fn pick(random: &mut Random, from: &[&'static str]) -> &'static str {
    from[random.below(from.len() as u64) as usize]
}

fn rule(random: &mut Random) -> String {
    let mut made = String::new();
    for letter in pick(random, RULES).chars() {
        match letter {
            'U' => made += pick(random, COMMANDS),
            'C' => made += pick(random, CATEGORIES),
            'P' => made += pick(random, PATTERNS),
            letter => made.push(letter),
        }
    }
    made
}

/// GETUSER without the rules about commands.
fn without_commands(reply: &str) -> String {
    let mut parts: Vec<_> = reply.split("$8 commands, ").collect();
    for part in parts.iter_mut().skip(1) {
        *part = part.split_once(", ").map_or("", |(_, rest)| rest);
    }
    parts.concat()
}

fn compare(seed: u64, users: u64) -> Vec<String> {
    let scratch = Scratch::new("peer-acl");
    let running = start(scratch.path(), &[("auth-failures", "0")]);
    let mut redis = Redis::start(&scratch);
    let mut both = [Caller::to(&running), redis.connect()];
    let mut random = Random::new(seed);
    let mut differences = Vec::new();
    let mut same = |both: &mut [Caller; 2], args: &[String], is_user: bool| {
        let [one, two] = both.each_mut().map(|caller| {
            let reply = canonical(&ask(caller, args), &mut 0, false);
            if is_user { without_commands(&reply) } else { reply }
        });
        if one != two {
            differences.push(format!("seed {seed}: {args:?}\n  ours  {one}\n  redis {two}"));
        }
    };
    for _ in 0..users {
        same(&mut both, &words("ACL SETUSER u reset"), false);
        let rounds = 1 + random.below(3);
        for _ in 0..rounds {
            let mut set = words("ACL SETUSER u");
            set.extend((0..=random.below(3)).map(|_| rule(&mut random)));
            same(&mut both, &set, false);
        }
        same(&mut both, &words("ACL GETUSER u"), true);
        for _ in 0..12 {
            let tried = pick(&mut random, TRIED);
            same(&mut both, &words(&format!("ACL DRYRUN u {tried}")), false);
        }
    }
    running.stop().unwrap();
    differences
}

#[pumice_test_macros::test]
fn users_may_what_they_may_on_redis() {
    let users = commands(3000) / 16;
    let differences = compare(number("PUMICE_SEED", 1), users.max(1));
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}

/// Where the reply that begins at `at` ends, if it is complete.
pub fn end_of(bytes: &[u8], at: usize) -> Option<usize> {
    let line = bytes[at..].windows(2).position(|pair| pair == b"\r\n")? + at;
    let len = String::from_utf8_lossy(&bytes[at + 1..line]).parse::<i64>().unwrap_or(0).max(0);
    match bytes[at] {
        b'$' if !bytes[at..].starts_with(b"$-1") => {
            Some(line + 2 + len as usize + 2).filter(|end| *end <= bytes.len())
        }
        b'*' => {
            (0..len).try_fold(line + 2, |at, _| (at < bytes.len()).then(|| end_of(bytes, at))?)
        }
        _ => Some(line + 2),
    }
}

/// The reply to a command, without a mark: a user may be allowed nothing else.
fn one_reply(caller: &mut Caller, args: &[String]) -> Vec<u8> {
    caller.send(&super::peer::encoded(args));
    let (mut bytes, mut buf) = (Vec::new(), vec![0; 1 << 16]);
    while bytes.is_empty() || end_of(&bytes, 0).is_none() {
        let n = caller.stream.receive(&mut buf).unwrap();
        assert!(n > 0, "hung up after {args:?}");
        bytes.extend_from_slice(&buf[..n]);
    }
    assert_eq!(end_of(&bytes, 0), Some(bytes.len()), "{args:?}");
    bytes
}

/// Whole conversations, with the rules about commands in them; commands are separated by `;`.
const CONVERSATIONS: &[&str] = &[
    "ACL LIST",
    "ACL SETUSER a on >pw ~k* +@read -get +config|get +select|0;ACL LIST;ACL GETUSER a;ACL USERS",
    "ACL SETUSER c +@all -@write +set -get -config|get;ACL GETUSER c;ACL SETUSER c +config",
    "ACL GETUSER c",
    "ACL SETUSER c nocommands +@string -@string;ACL GETUSER c;ACL SETUSER c +@string +@hash",
    "ACL GETUSER c",
    "ACL SETUSER c allcommands -@hash;ACL SETUSER c +GET -SET;ACL GETUSER c",
    "ACL SETUSER e +config -config|get;ACL GETUSER e",
    "ACL SETUSER e -@all +config|get +config|set;ACL GETUSER e;ACL SETUSER e -config",
    "ACL GETUSER e",
    "ACL SETUSER d on nopass ~k* %R~r* %W~w* &ch* +@all -flushall -config|set;ACL GETUSER d",
    "ACL LIST",
    "ACL SETUSER g (+get ~x) (+set %R~y &z);ACL GETUSER g;ACL LIST;ACL SETUSER g clearselectors",
    "ACL LIST",
    "ACL SETUSER f >a >b >a;ACL LIST;ACL SETUSER f nopass;ACL LIST;ACL SETUSER f <a",
    "ACL DELUSER f a c;ACL LIST",
    "ACL SETUSER o (+get;ACL SETUSER o (+get ~x;ACL SETUSER o +get);ACL GETUSER o",
    "ACL GETUSER nosuch;ACL DELUSER nosuch;ACL DELUSER default;ACL DELUSER x default",
    "ACL CAT;ACL CAT nosuch;ACL CAT transaction x;ACL GENPASS 0;ACL GENPASS 4097;ACL GENPASS x",
    "ACL GENPASS 1 2",
    "ACL LOAD;ACL SAVE;ACL LOG 0;ACL LOG -1;ACL LOG x;ACL LOG 1 2;ACL LOG RESET;ACL FOO;ACL",
    "ACL WHOAMI x",
    "ACL SETUSER q on nopass +get +auth +acl|whoami ~q*;AUTH q x;GET q;GET z;SET q 1;ACL WHOAMI",
    "ACL LIST;CONFIG GET x;RESET;ACL WHOAMI",
    "AUTH x;AUTH nosuch x;AUTH x y z;HELLO 2 AUTH nosuch x;HELLO 2 AUTH x;HELLO 4 AUTH default x",
    "ACL SETUSER m on nopass +@all ~m*;AUTH m x;MULTI;SET m 1;SET x 1;EXEC;MULTI;SET m 1;EXEC",
    "SORT m BY x*;SORT mm GET x*;SORT mm GET #;RESET",
    "CONFIG SET requirepass pw;ACL GETUSER default;AUTH bad;AUTH pw;RESET;PING;AUTH default pw",
    "CONFIG SET requirepass \"\";ACL GETUSER default",
    "CONFIG SET acl-pubsub-default allchannels;ACL SETUSER n;ACL GETUSER n",
    "ACL SETUSER n reset (+get);ACL GETUSER n;CONFIG SET acl-pubsub-default x",
    "ACL SETUSER default off;ACL LIST;ACL SETUSER default on;CLIENT KILL USER nosuch",
    "CONFIG SET acllog-max-len x",
];

#[pumice_test_macros::test]
fn conversations_about_users_are_those_of_redis() {
    let scratch = Scratch::new("peer-talk");
    let running = start(scratch.path(), &[("auth-failures", "0")]);
    let mut redis = Redis::start(&scratch);
    let mut both = [Caller::to(&running), redis.connect()];
    let mut differences = Vec::new();
    let mut asked = 0;
    for line in CONVERSATIONS {
        for command in line.split(';') {
            let args = words(&command.replace("\"\"", ""));
            asked += 1;
            let [one, two] = both.each_mut().map(|caller| {
                let reply = super::text(&one_reply(caller, &args));
                // Command rules come in the order they were given, not in Redis's.
                let mut words: Vec<_> = reply.split([' ', '|']).map(str::to_string).collect();
                words.sort();
                words
            });
            if one != two {
                differences.push(format!("{command}\n  ours  {one:?}\n  redis {two:?}"));
            }
        }
    }
    running.stop().unwrap();
    assert!(asked > 90 && differences.is_empty(), "{asked} asked\n{}", differences.join("\n"));
}
