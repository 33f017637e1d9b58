//! What commands do with their keys: read them, change them, or only check that they exist. Key
//! rules of users and Redis's key specifications are expressed in these terms.
//!
//! Thread safety: constant data.

use super::args::is;
use super::{Keys, Row};
use crate::session::acl::selector::{BOTH, READ, WRITE};

/// Only looks at the keys' existence, type or size.
const NOTHING: &[&str] = &[
    "exists",
    "object|encoding",
    "object|freq",
    "object|refcount",
    "touch",
    "type",
    "hexists",
    "hlen",
    "hstrlen",
    "llen",
    "memory|usage",
    "scard",
    "sismember",
    "zcard",
    "strlen",
    "watch",
];

/// Replies with, or works on, the existing value.
const BOTH_FIRST: &[&str] = &[
    "move",
    "hincrby",
    "hincrbyfloat",
    "blmpop",
    "blpop",
    "brpop",
    "lmpop",
    "lpop",
    "rpop",
    "spop",
    "bzmpop",
    "bzpopmax",
    "bzpopmin",
    "zincrby",
    "zmpop",
    "zpopmax",
    "zpopmin",
    "decr",
    "decrby",
    "getdel",
    "getex",
    "getset",
    "incr",
    "incrby",
    "incrbyfloat",
    "set",
];

/// Takes from the first key and gives to the second.
const TAKES: &[&str] =
    &["rename", "renamenx", "blmove", "brpoplpush", "lmove", "rpoplpush", "smove"];

/// Writes the first key, reads the others.
const STORES: &[&str] = &[
    "sdiffstore",
    "sinterstore",
    "sunionstore",
    "zdiffstore",
    "zinterstore",
    "zrangestore",
    "zunionstore",
];

/// What the command does with its first key and with the others.
pub fn of(row: &Row) -> [u8; 2] {
    let among = |names: &[&str]| names.contains(&row.full_name);
    match () {
        () if row.keys == Keys::None || among(NOTHING) => [0, 0],
        () if among(BOTH_FIRST) => [BOTH, BOTH],
        () if among(TAKES) => [BOTH, WRITE],
        () if among(STORES) => [WRITE, READ],
        () if matches!(row.full_name, "copy" | "sort") => [READ, WRITE],
        () if row.is(super::WRITE) => [WRITE, WRITE],
        () => [READ, READ],
    }
}

/// The keys among `args`, and what the command does with each.
pub fn keys_with_rights<'a>(row: &Row, args: &[&'a [u8]]) -> Vec<(&'a [u8], u8)> {
    let [mut first, others] = row.rights;
    if row.full_name == "set" && !args.iter().skip(3).any(|arg| is(arg, "get")) {
        // The old value is not revealed.
        first = WRITE;
    }
    let rights = std::iter::once(first).chain(std::iter::repeat(others));
    row.keys_of(args).into_iter().zip(rights).collect()
}
