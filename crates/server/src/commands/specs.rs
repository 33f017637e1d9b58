//! What commands do with their keys, and where these are: Redis's key specifications, the rights
//! that a user needs, and what COMMAND tells cluster-aware clients besides (the tips).
//!
//! A command uses its first key in one way and the others in one way, so two words say it; where
//! the keys are is said by [`Keys`]. Specifications are made from both.
//!
//! Thread safety: constant data.

use super::args::is;
use super::{Keys, READONLY, Row};
use crate::protocol::Reply;
use crate::session::acl::selector;

/// Flags of a use of a key, in COMMAND's order.
const FLAGS: &[(u16, &str)] = &[
    (RO, "RO"),
    (RW, "RW"),
    (OW, "OW"),
    (RM, "RM"),
    (ACCESS, "access"),
    (UPDATE, "update"),
    (INSERT, "insert"),
    (DELETE, "delete"),
    (VARIABLE, "variable_flags"),
];

/// The value stays as it is.
const RO: u16 = 1;
/// It is changed.
const RW: u16 = 1 << 1;
/// It is overwritten, whatever it was.
const OW: u16 = 1 << 2;
/// The key is deleted.
const RM: u16 = 1 << 3;
/// The value is returned, copied or compared.
const ACCESS: u16 = 1 << 4;
/// Data changes, depending on what was there or not.
const UPDATE: u16 = 1 << 5;
/// Data is added.
const INSERT: u16 = 1 << 6;
/// Data is removed.
const DELETE: u16 = 1 << 7;
/// The use depends on the arguments.
const VARIABLE: u16 = 1 << 8;

const READS: u16 = RO | ACCESS;
const TAKES: u16 = RW | ACCESS | DELETE;

/// Uses of the first key and of the others. Commands that are not listed and do not write read
/// their keys.
const USES: &[(u16, u16, &[&str])] = &[
    (
        RO,
        RO,
        &[
            "exists",
            "hexists",
            "hlen",
            "hstrlen",
            "llen",
            "memory|usage",
            "object|encoding",
            "object|freq",
            "object|idletime",
            "object|refcount",
            "scard",
            "sismember",
            "strlen",
            "touch",
            "type",
            "watch",
            "zcard",
        ],
    ),
    (
        RW | UPDATE,
        RW | UPDATE,
        &[
            "expire",
            "expireat",
            "hmset",
            "hset",
            "lset",
            "persist",
            "pexpire",
            "pexpireat",
            "setrange",
            "zadd",
        ],
    ),
    (
        RW | ACCESS | UPDATE,
        RW | ACCESS | UPDATE,
        &[
            "decr",
            "decrby",
            "getex",
            "getset",
            "hincrby",
            "hincrbyfloat",
            "incr",
            "incrby",
            "incrbyfloat",
            "move",
            "zincrby",
        ],
    ),
    (RW | ACCESS | UPDATE | VARIABLE, RW | ACCESS | UPDATE, &["set"]),
    (
        RW | INSERT,
        RW | INSERT,
        &["append", "hsetnx", "linsert", "lpush", "lpushx", "rpush", "rpushx", "sadd"],
    ),
    (
        RW | DELETE,
        RW | DELETE,
        &[
            "hdel",
            "lrem",
            "ltrim",
            "srem",
            "zrem",
            "zremrangebylex",
            "zremrangebyrank",
            "zremrangebyscore",
        ],
    ),
    (
        TAKES,
        TAKES,
        &[
            "blmpop", "blpop", "brpop", "bzmpop", "bzpopmax", "bzpopmin", "getdel", "lmpop",
            "lpop", "rpop", "spop", "zmpop", "zpopmax", "zpopmin",
        ],
    ),
    (TAKES, RW | INSERT, &["blmove", "brpoplpush", "lmove", "rpoplpush", "smove"]),
    (TAKES, OW | UPDATE, &["rename"]),
    (TAKES, OW | INSERT, &["renamenx"]),
    (READS, OW | UPDATE, &["copy", "sort"]),
    (
        OW | UPDATE,
        READS,
        &["sdiffstore", "sunionstore", "zdiffstore", "zinterstore", "zrangestore", "zunionstore"],
    ),
    (RW | UPDATE, READS, &["sinterstore"]),
    (OW | UPDATE, OW | UPDATE, &["mset", "psetex", "setex"]),
    (OW | INSERT, OW | INSERT, &["msetnx", "setnx"]),
    (RM | DELETE, RM | DELETE, &["del", "unlink"]),
];

/// What the command does with its first key and with the others; 0 if it has none.
pub fn uses_of(row: &Row) -> [u16; 2] {
    if row.keys == Keys::None {
        return [0, 0];
    }
    let listed = USES.iter().find(|(_, _, names)| names.contains(&row.full_name));
    debug_assert!(listed.is_some() || row.is(READONLY), "{} is to be listed", row.full_name);
    listed.map_or([READS; 2], |(first, others, _)| [*first, *others])
}

/// Names of the flags of a use.
fn flags(uses: u16) -> Vec<&'static str> {
    FLAGS.iter().filter(|(flag, _)| uses & flag != 0).map(|(_, name)| *name).collect()
}

/// The rights that a use needs.
fn rights(uses: u16) -> u8 {
    let read = if uses & ACCESS != 0 { selector::READ } else { 0 };
    let write = if uses & (UPDATE | INSERT | DELETE) != 0 { selector::WRITE } else { 0 };
    read | write
}

/// The keys among `args`, and what the command does with each.
fn keys_with_uses<'a>(row: &Row, args: &[&'a [u8]]) -> Vec<(&'a [u8], u16)> {
    let [mut first, others] = row.uses;
    if row.full_name == "set" {
        // Without GET the old value is not revealed.
        let gets = args.iter().skip(3).any(|arg| is(arg, "get"));
        first = if gets { RW | ACCESS | UPDATE } else { OW | UPDATE };
    }
    let uses = std::iter::once(first).chain(std::iter::repeat(others));
    row.keys_of(args).into_iter().zip(uses).collect()
}

/// The keys among `args`, and the rights that each needs.
pub fn keys_with_rights<'a>(row: &Row, args: &[&'a [u8]]) -> Vec<(&'a [u8], u8)> {
    let keys = keys_with_uses(row, args);
    keys.into_iter().map(|(key, uses)| (key, rights(uses))).collect()
}

/// COMMAND GETKEYSANDFLAGS.
pub fn write_keys_and_flags(out: &mut Reply, row: &Row, args: &[&[u8]]) {
    let keys = keys_with_uses(row, args);
    out.array(keys.len());
    for (key, uses) in keys {
        out.array(2);
        out.bulk(key);
        write_flags(out, uses);
    }
}

fn write_flags(out: &mut Reply, uses: u16) {
    let names = flags(uses);
    out.set(names.len());
    names.iter().for_each(|name| out.simple(name));
}

/// A key specification.
struct Spec {
    uses: u16,
    /// Index of the first key or of the number of keys; None: it is not known.
    first: Option<i32>,
    find: Find,
    notes: &'static str,
}

enum Find {
    /// Up to the key that is `last` after the first one (negative: from the end), in steps.
    Range { last: i32, step: i32 },
    /// A number of keys, and then the keys.
    Counted,
    /// It is not known.
    Unknown,
}

/// What the flags leave open.
fn notes_of(row: &Row) -> &'static str {
    match row.full_name {
        "getex" => "it may change when the key expires",
        "set" => "with GET it returns the old value",
        _ => "",
    }
}

fn specs(row: &Row) -> Vec<Spec> {
    const ONE: Find = Find::Range { last: 0, step: 1 };
    let [uses, others] = row.uses;
    let spec = |uses, first, find| Spec { uses, first: Some(first), find, notes: notes_of(row) };
    let unknown = |uses, notes| Spec { uses, first: None, find: Find::Unknown, notes };
    let looked_up = || unknown(READS, "BY and GET: the names come from the elements");
    let range = |first: i32, last: i32, step| {
        let last = if last < 0 { last } else { last - first };
        Find::Range { last, step }
    };
    match row.keys {
        Keys::None => Vec::new(),
        Keys::Range(first, last, step) if uses == others || first == last => {
            let mut all = vec![spec(uses, first, range(first, last, step))];
            all.extend((row.full_name == "sort_ro").then(looked_up));
            all
        }
        Keys::Range(first, last, step) => {
            let rest = spec(others, first + 1, range(first + 1, last, step));
            vec![spec(uses, first, ONE), rest]
        }
        Keys::Counted { at, dest: false } => vec![spec(uses, at as i32, Find::Counted)],
        Keys::Counted { at, dest: true } => {
            vec![spec(uses, 1, ONE), spec(others, at as i32, Find::Counted)]
        }
        Keys::Sort => {
            let stored = unknown(others, "STORE: the word may be anywhere after the key");
            vec![spec(uses, 1, ONE), looked_up(), stored]
        }
    }
}

/// A way to find something in the arguments: its name, and numbers with theirs.
fn write_way(out: &mut Reply, what: &str, name: &str, numbers: &[(&str, i32)]) {
    out.bulk(what.as_bytes());
    out.map(2);
    out.bulk(b"type");
    out.bulk(name.as_bytes());
    out.bulk(b"spec");
    out.map(numbers.len());
    for (name, number) in numbers {
        out.bulk(name.as_bytes());
        out.integer(i64::from(*number));
    }
}

/// The key specifications in COMMAND's form.
pub fn write_specs(out: &mut Reply, row: &Row) {
    let specs = specs(row);
    out.array(specs.len());
    for spec in specs {
        let has_notes = !spec.notes.is_empty();
        out.map(3 + usize::from(has_notes));
        if has_notes {
            out.bulk(b"notes");
            out.bulk(spec.notes.as_bytes());
        }
        out.bulk(b"flags");
        write_flags(out, spec.uses);
        match spec.first {
            Some(first) => write_way(out, "begin_search", "index", &[("index", first)]),
            None => write_way(out, "begin_search", "unknown", &[]),
        }
        match spec.find {
            Find::Range { last, step } => {
                let numbers = [("lastkey", last), ("keystep", step), ("limit", 0)];
                write_way(out, "find_keys", "range", &numbers);
            }
            Find::Counted => {
                let numbers = [("keynumidx", 0), ("firstkey", 1), ("keystep", 1)];
                write_way(out, "find_keys", "keynum", &numbers);
            }
            Find::Unknown => write_way(out, "find_keys", "unknown", &[]),
        }
    }
}

const NO_ORDER: &str = "nondeterministic_output_order";
const VARIES: &str = "nondeterministic_output";
const ALL_NODES: &str = "request_policy:all_nodes";
const ALL_SHARDS: &str = "request_policy:all_shards";
const MULTI_SHARD: &str = "request_policy:multi_shard";
const ALL_SUCCEEDED: &str = "response_policy:all_succeeded";
const SUM: &str = "response_policy:agg_sum";
const SPECIAL: &str = "response_policy:special";

/// Tips about the reply, and about asking the nodes of a cluster.
const TIPS: &[(&[&str], &[&str])] = &[
    (
        &[VARIES],
        &[
            "client|info",
            "client|list",
            "hrandfield",
            "hscan",
            "lastsave",
            "object|encoding",
            "object|freq",
            "object|idletime",
            "object|refcount",
            "pttl",
            "spop",
            "srandmember",
            "sscan",
            "time",
            "ttl",
            "zrandmember",
            "zscan",
        ],
    ),
    (
        &[NO_ORDER],
        &[
            "command",
            "command|docs",
            "command|info",
            "command|list",
            "hgetall",
            "hkeys",
            "hvals",
            "sdiff",
            "sinter",
            "smembers",
            "sunion",
        ],
    ),
    (&[ALL_SHARDS, ALL_SUCCEEDED], &["flushall", "flushdb", "memory|purge", "ping"]),
    (&[MULTI_SHARD, SUM], &["del", "exists", "touch", "unlink"]),
    (&[ALL_SHARDS, NO_ORDER], &["keys"]),
    (&[ALL_SHARDS, VARIES], &["randomkey"]),
    (&[VARIES, "request_policy:special"], &["scan"]),
    (&[ALL_NODES, ALL_SUCCEEDED], &["config|set", "latency|reset", "slowlog|reset"]),
    (&[ALL_SHARDS, SUM], &["dbsize"]),
    (
        &[VARIES, ALL_SHARDS, SPECIAL],
        &["info", "memory|doctor", "memory|malloc-stats", "memory|stats"],
    ),
    (
        &[VARIES, ALL_NODES, SPECIAL],
        &[
            "latency|doctor",
            "latency|graph",
            "latency|histogram",
            "latency|history",
            "latency|latest",
        ],
    ),
    (&[ALL_NODES, VARIES], &["slowlog|get"]),
    (&[ALL_NODES, SUM, VARIES], &["slowlog|len"]),
    (&[MULTI_SHARD], &["mget"]),
    (&[MULTI_SHARD, ALL_SUCCEEDED], &["mset"]),
    (&[MULTI_SHARD, "response_policy:agg_min"], &["msetnx"]),
];

/// The tips of a command.
pub fn tips(row: &Row) -> &'static [&'static str] {
    let listed = TIPS.iter().find(|(_, names)| names.contains(&row.full_name));
    listed.map_or(&[], |(tips, _)| tips)
}
