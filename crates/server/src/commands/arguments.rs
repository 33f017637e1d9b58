//! The arguments of the commands, by which COMMAND DOCS and the reference page describe them.
//!
//! Names and types are those of Redis, whose clients complete and check command lines by them. The
//! notation is told in `syntax`; a test compares each row with the arity of its command, another
//! with what redis-server says. Commands that are not listed have no arguments. What a command here
//! refuses is not listed either.
//!
//! Thread safety: constant data.

use super::Row;
use super::syntax::{Argument, Kind, read};
use crate::protocol::Reply;

/// By the full names of commands.
const ARGUMENTS: &[(&str, &str)] = &[
    ("acl|cat", "[categoryname]"),
    ("acl|deluser", "username+"),
    ("acl|dryrun", "username command [arg+]"),
    ("acl|genpass", "[bits:i]"),
    ("acl|getuser", "username"),
    ("acl|log", "[operation(count:i|RESET)]"),
    ("acl|setuser", "username [rule+]"),
    ("append", "key:k value"),
    ("auth", "[username^6.0.0] password"),
    ("bgsave", "[SCHEDULE^3.2.2]"),
    ("blmove", "source:k destination:k1 wherefrom(LEFT|RIGHT) whereto(LEFT|RIGHT) timeout:d"),
    ("blmpop", "timeout:d numkeys:i key:k+ where(LEFT|RIGHT) [COUNT=count:i]"),
    ("blpop", "key:k+ timeout:d"),
    ("brpop", "key:k+ timeout:d"),
    ("brpoplpush", "source:k destination:k1 timeout:d"),
    ("bzmpop", "timeout:d numkeys:i key:k+ where(MIN|MAX) [COUNT=count:i]"),
    ("bzpopmax", "key:k+ timeout:d"),
    ("bzpopmin", "key:k+ timeout:d"),
    (
        "client|kill",
        "filter(ip:port|new-format([ID=client-id:i^2.8.12]|\
         [TYPE=normal_master_slave_pubsub(NORMAL|MASTER^3.2.0|SLAVE|REPLICA^5.0.0|\
         PUBSUB)^2.8.12]|[USER=username]|[ADDR=ip:port]|[LADDR=ip:port^6.2.0]|[SKIPME=yes/no])+)",
    ),
    (
        "client|list",
        "[TYPE=normal_master_replica_pubsub(NORMAL|MASTER|REPLICA|PUBSUB)^5.0.0] \
         [ID=id{client-id:i+}^6.2.0]",
    ),
    ("client|no-evict", "enabled(ON|OFF)"),
    ("client|setname", "connection-name"),
    ("client|unblock", "client-id:i [timeout_error(TIMEOUT|ERROR)]"),
    ("command|docs", "[command-name+]"),
    ("command|getkeys", "command arg+"),
    ("command|getkeysandflags", "command arg+"),
    ("command|info", "[command-name+]"),
    ("command|list", "[FILTERBY=filterby(MODULE=module-name|ACLCAT=category|PATTERN=pattern:p)]"),
    ("config|get", "parameter{parameter}+"),
    ("config|set", "parameter_value{parameter value}+"),
    ("copy", "source:k destination:k1 [DB=destination-db:i] [REPLACE]"),
    ("decr", "key:k"),
    ("decrby", "key:k decrement:i"),
    ("del", "key:k+"),
    ("echo", "message"),
    ("exists", "key:k+"),
    ("expire", "key:k seconds:i [condition(NX|XX|GT|LT)^7.0.0]"),
    ("expireat", "key:k unix-time-seconds:t [condition(NX|XX|GT|LT)^7.0.0]"),
    ("expiretime", "key:k"),
    ("flushall", "[async(ASYNC^4.0.0|SYNC^6.2.0)]"),
    ("flushdb", "[async(ASYNC^4.0.0|SYNC^6.2.0)]"),
    ("get", "key:k"),
    ("getdel", "key:k"),
    (
        "getex",
        "key:k [expiration(EX=seconds:i|PX=milliseconds:i|EXAT=unix-time-seconds:t|\
         PXAT=unix-time-milliseconds:t|PERSIST)]",
    ),
    ("getrange", "key:k start:i end:i"),
    ("getset", "key:k value"),
    ("hdel", "key:k field+"),
    (
        "hello",
        "[arguments{protover:i [AUTH=username_password{username password}] [SETNAME=clientname]}]",
    ),
    ("hexists", "key:k field"),
    ("hget", "key:k field"),
    ("hgetall", "key:k"),
    ("hincrby", "key:k field increment:i"),
    ("hincrbyfloat", "key:k field increment:d"),
    ("hkeys", "key:k"),
    ("hlen", "key:k"),
    ("hmget", "key:k field+"),
    ("hmset", "key:k field_value{field value}+"),
    ("hrandfield", "key:k [options{count:i [WITHVALUES]}]"),
    ("hscan", "key:k cursor:i [MATCH=pattern:p] [COUNT=count:i]"),
    ("hset", "key:k field_value{field value}+"),
    ("hsetnx", "key:k field value"),
    ("hstrlen", "key:k field"),
    ("hvals", "key:k"),
    ("incr", "key:k"),
    ("incrby", "key:k increment:i"),
    ("incrbyfloat", "key:k increment:d"),
    ("info", "[section+]"),
    ("keys", "pattern:p"),
    ("latency|graph", "event"),
    ("latency|histogram", "[command+]"),
    ("latency|history", "event"),
    ("latency|reset", "[event+]"),
    ("lcs", "key1:k key2:k [LEN] [IDX] [MINMATCHLEN=len:i] [WITHMATCHLEN]"),
    ("lindex", "key:k index:i"),
    ("linsert", "key:k where(BEFORE|AFTER) pivot element"),
    ("llen", "key:k"),
    ("lmove", "source:k destination:k1 wherefrom(LEFT|RIGHT) whereto(LEFT|RIGHT)"),
    ("lmpop", "numkeys:i key:k+ where(LEFT|RIGHT) [COUNT=count:i]"),
    ("lpop", "key:k [count:i^6.2.0]"),
    ("lpos", "key:k element [RANK=rank:i] [COUNT=num-matches:i] [MAXLEN=len:i]"),
    ("lpush", "key:k element+"),
    ("lpushx", "key:k element+"),
    ("lrange", "key:k start:i stop:i"),
    ("lrem", "key:k count:i element"),
    ("lset", "key:k index:i element"),
    ("ltrim", "key:k start:i stop:i"),
    ("memory|usage", "key:k [SAMPLES=count:i]"),
    ("mget", "key:k+"),
    ("move", "key:k db:i"),
    ("mset", "key_value{key:k value}+"),
    ("msetnx", "key_value{key:k value}+"),
    ("object|encoding", "key:k"),
    ("object|freq", "key:k"),
    ("object|idletime", "key:k"),
    ("object|refcount", "key:k"),
    ("persist", "key:k"),
    ("pexpire", "key:k milliseconds:i [condition(NX|XX|GT|LT)^7.0.0]"),
    ("pexpireat", "key:k unix-time-milliseconds:t [condition(NX|XX|GT|LT)^7.0.0]"),
    ("pexpiretime", "key:k"),
    ("ping", "[message]"),
    ("psetex", "key:k milliseconds:i value"),
    ("psubscribe", "pattern{pattern:p}+"),
    ("pttl", "key:k"),
    ("publish", "channel message"),
    ("pubsub|channels", "[pattern:p]"),
    ("pubsub|numsub", "[channel+]"),
    ("punsubscribe", "[pattern:p+]"),
    ("rename", "key:k newkey:k1"),
    ("renamenx", "key:k newkey:k1"),
    ("rpop", "key:k [count:i^6.2.0]"),
    ("rpoplpush", "source:k destination:k1"),
    ("rpush", "key:k element+"),
    ("rpushx", "key:k element+"),
    ("sadd", "key:k member+"),
    ("scan", "cursor:i [MATCH=pattern:p] [COUNT=count:i] [TYPE=type^6.0.0]"),
    ("scard", "key:k"),
    ("sdiff", "key:k+"),
    ("sdiffstore", "destination:k key:k1+"),
    ("select", "index:i"),
    (
        "set",
        "key:k value [condition(NX|XX)^2.6.12] [GET^6.2.0] [expiration(EX=seconds:i^2.6.12|\
         PX=milliseconds:i^2.6.12|EXAT=unix-time-seconds:t^6.2.0|\
         PXAT=unix-time-milliseconds:t^6.2.0|KEEPTTL^6.0.0)]",
    ),
    ("setex", "key:k seconds:i value"),
    ("setnx", "key:k value"),
    ("setrange", "key:k offset:i value"),
    ("shutdown", "[nosave_save(NOSAVE|SAVE)] [NOW^7.0.0] [FORCE^7.0.0]"),
    ("sinter", "key:k+"),
    ("sintercard", "numkeys:i key:k+ [LIMIT=limit:i]"),
    ("sinterstore", "destination:k key:k1+"),
    ("sismember", "key:k member"),
    ("slowlog|get", "[count:i]"),
    ("smembers", "key:k"),
    ("smismember", "key:k member+"),
    ("smove", "source:k destination:k1 member"),
    (
        "sort",
        "key:k [BY=pattern:p1] [LIMIT=offset_count{offset:i count:i}] [GET=pattern:p1++] \
         [order(ASC|DESC)] [ALPHA=sorting!] [STORE=destination:k2]",
    ),
    (
        "sort_ro",
        "key:k [BY=pattern:p1] [LIMIT=offset_count{offset:i count:i}] [GET=pattern:p1++] \
         [order(ASC|DESC)] [ALPHA=sorting!]",
    ),
    ("spop", "key:k [count:i^3.2.0]"),
    ("srandmember", "key:k [count:i^2.6.0]"),
    ("srem", "key:k member+"),
    ("sscan", "key:k cursor:i [MATCH=pattern:p] [COUNT=count:i]"),
    ("strlen", "key:k"),
    ("subscribe", "channel+"),
    ("substr", "key:k start:i end:i"),
    ("sunion", "key:k+"),
    ("sunionstore", "destination:k key:k1+"),
    ("swapdb", "index1:i index2:i"),
    ("touch", "key:k+"),
    ("ttl", "key:k"),
    ("type", "key:k"),
    ("unlink", "key:k+"),
    ("unsubscribe", "[channel+]"),
    ("watch", "key:k+"),
    (
        "zadd",
        "key:k [condition(NX|XX)^3.0.2] [comparison(GT|LT)^6.2.0] [CH=change!^3.0.2] \
         [INCR=increment!^3.0.2] score_member{score:d member}+",
    ),
    ("zcard", "key:k"),
    ("zcount", "key:k min:d max:d"),
    ("zdiff", "numkeys:i key:k+ [WITHSCORES]"),
    ("zdiffstore", "destination:k numkeys:i key:k1+"),
    ("zincrby", "key:k increment:i member"),
    (
        "zinter",
        "numkeys:i key:k+ [WEIGHTS=weight:i+] [AGGREGATE=aggregate(SUM|MIN|MAX)] [WITHSCORES]",
    ),
    ("zintercard", "numkeys:i key:k+ [LIMIT=limit:i]"),
    (
        "zinterstore",
        "destination:k numkeys:i key:k1+ [WEIGHTS=weight:i+] [AGGREGATE=aggregate(SUM|MIN|MAX)]",
    ),
    ("zlexcount", "key:k min max"),
    ("zmpop", "numkeys:i key:k+ where(MIN|MAX) [COUNT=count:i]"),
    ("zmscore", "key:k member+"),
    ("zpopmax", "key:k [count:i]"),
    ("zpopmin", "key:k [count:i]"),
    ("zrandmember", "key:k [options{count:i [WITHSCORES]}]"),
    (
        "zrange",
        "key:k start stop [sortby(BYSCORE|BYLEX)^6.2.0] [REV^6.2.0] [LIMIT=offset_count{offset:i \
         count:i}^6.2.0] [WITHSCORES]",
    ),
    ("zrangebylex", "key:k min max [LIMIT=offset_count{offset:i count:i}]"),
    (
        "zrangebyscore",
        "key:k min:d max:d [WITHSCORES^2.0.0] [LIMIT=offset_count{offset:i count:i}]",
    ),
    (
        "zrangestore",
        "dst:k src:k1 min max [sortby(BYSCORE|BYLEX)] [REV] [LIMIT=offset_count{offset:i count:i}]",
    ),
    ("zrank", "key:k member"),
    ("zrem", "key:k member+"),
    ("zremrangebylex", "key:k min max"),
    ("zremrangebyrank", "key:k start:i stop:i"),
    ("zremrangebyscore", "key:k min:d max:d"),
    ("zrevrange", "key:k start:i stop:i [WITHSCORES]"),
    ("zrevrangebylex", "key:k max min [LIMIT=offset_count{offset:i count:i}]"),
    ("zrevrangebyscore", "key:k max:d min:d [WITHSCORES] [LIMIT=offset_count{offset:i count:i}]"),
    ("zrevrank", "key:k member"),
    ("zscan", "key:k cursor:i [MATCH=pattern:p] [COUNT=count:i]"),
    ("zscore", "key:k member"),
    (
        "zunion",
        "numkeys:i key:k+ [WEIGHTS=weight:i+] [AGGREGATE=aggregate(SUM|MIN|MAX)] [WITHSCORES]",
    ),
    (
        "zunionstore",
        "destination:k numkeys:i key:k1+ [WEIGHTS=weight:i+] [AGGREGATE=aggregate(SUM|MIN|MAX)]",
    ),
];

/// The arguments of a command.
pub fn arguments_of(row: &Row) -> Vec<Argument<'static>> {
    let listed = ARGUMENTS.iter().find(|(name, _)| *name == row.full_name);
    listed.map_or(Vec::new(), |(_, text)| read(text).expect("a test reads all of them"))
}

/// As COMMAND DOCS tells them.
pub fn write_arguments(out: &mut Reply, arguments: &[Argument<'_>]) {
    out.array(arguments.len());
    arguments.iter().for_each(|argument| write_argument(out, argument));
}

fn write_argument(out: &mut Reply, argument: &Argument<'_>) {
    let texts = [
        ("name", Some(&*argument.name)),
        ("type", Some(argument.kind.name())),
        ("token", argument.token),
        ("since", argument.since),
    ];
    let key = match argument.kind {
        Kind::Key(index) => Some(index),
        Kind::Pattern(index) => index,
        _ => None,
    };
    let flags = [
        ("optional", argument.optional),
        ("multiple", argument.multiple),
        ("multiple_token", argument.multiple_token),
    ];
    let flags: Vec<_> = flags.iter().filter(|(_, set)| *set).collect();
    let parts = argument.kind.parts();
    let members = texts.iter().filter(|(_, text)| text.is_some()).count()
        + usize::from(key.is_some())
        + usize::from(!flags.is_empty())
        + usize::from(!parts.is_empty());
    out.map(members);
    for (name, text) in texts {
        if let Some(text) = text {
            out.bulk(name.as_bytes());
            out.bulk(text.as_bytes());
        }
        // Redis's order.
        if let ("type", Some(index)) = (name, key) {
            out.bulk(b"key_spec_index");
            out.integer(i64::from(index));
        }
    }
    if !flags.is_empty() {
        out.bulk(b"flags");
        out.set(flags.len());
        flags.iter().for_each(|(flag, _)| out.simple(flag));
    }
    if !parts.is_empty() {
        out.bulk(b"arguments");
        write_arguments(out, parts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::about::by_full_name;
    use crate::commands::all;
    use crate::commands::syntax::words;

    #[pumice_test_macros::test]
    fn rows_are_of_commands_and_in_order() {
        for pair in ARGUMENTS.windows(2) {
            assert!(pair[0].0 < pair[1].0, "{} is before {}", pair[0].0, pair[1].0);
        }
        for (name, text) in ARGUMENTS {
            assert!(by_full_name(name.as_bytes()).is_some(), "{name}");
            assert!(read(text).is_ok_and(|all| !all.is_empty()), "{name}: {:?}", read(text));
        }
    }

    #[pumice_test_macros::test]
    fn they_are_as_many_as_the_arity_says() {
        let with_parent = |row: &'static Row| std::iter::once(row).chain(row.subcommands);
        let differs = |row: &&Row| {
            let (least, fixed) = words(&arguments_of(row));
            let least = (least + row.full_name.split('|').count()) as i32;
            row.subcommands.is_empty() && row.arity != if fixed { least } else { -least }
        };
        let different = all().iter().flat_map(with_parent).filter(differs);
        let names: Vec<_> = different.map(|row| row.full_name).collect();
        // Each filter of KILL may be left out, but not all; QUIT ignores what follows it.
        assert_eq!(names, ["client|kill", "quit"]);
    }
}
