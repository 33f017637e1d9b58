//! Commands on keys of any type: deleting, inspecting and describing them.
//!
//! Thread safety: see the module above.

use super::args::{is, upper};
use super::{Access, Call, FAST, LOADING, READONLY, Row, STALE, WRITE};
use crate::keyspace::encoding::Kind;
use crate::keyspace::txn::Found;
use crate::keyspace::{Failure, Outcome};
use crate::protocol::number;

const fn row(
    name: &'static str,
    arity: i32,
    flags: u32,
    since: &'static str,
    summary: &'static str,
    run: super::Handler,
) -> Row {
    Row::new("generic", name, arity, flags, since, summary, run)
}

/// See the module's head.
pub const ROWS: &[Row] = &[
    row("del", -2, WRITE, "1.0.0", "Deletes keys.", del).keys(1, -1, 1),
    row("unlink", -2, WRITE | FAST, "4.0.0", "Deletes keys.", del).keys(1, -1, 1),
    row("exists", -2, READONLY | FAST, "1.0.0", "Counts the keys that exist.", exists)
        .keys(1, -1, 1)
        .access(Access::View),
    row("touch", -2, READONLY | FAST, "3.2.1", "Counts the keys that exist.", exists)
        .keys(1, -1, 1)
        .access(Access::View),
    row("type", 2, READONLY | FAST, "1.0.0", "Returns the type of a key's value.", type_of).key(),
    row("object", -2, 0, "2.2.3", "Describes the internals of a value.", object)
        .access(Access::View)
        .subcommands(OBJECT),
];

const OBJECT: &[Row] = &[
    row(
        "encoding",
        3,
        READONLY,
        "2.2.3",
        "Returns the encoding that Redis would use for a value.",
        encoding,
    )
    .keys(2, 2, 1),
    row("freq", 3, READONLY, "4.0.0", "Refused: how often keys are used is not counted.", freq)
        .keys(2, 2, 1),
    row("help", 2, LOADING | STALE, "6.2.0", "Lists the subcommands.", object_help),
    row("idletime", 3, READONLY, "2.2.3", "Refused: when keys were used is not kept.", idletime)
        .keys(2, 2, 1),
    row(
        "refcount",
        3,
        READONLY,
        "2.2.3",
        "Returns how often a value is referred to: once.",
        refcount,
    )
    .keys(2, 2, 1),
];

fn del(call: &mut Call<'_, '_>) -> Outcome<()> {
    let mut deleted = 0;
    for key in &call.args[1..] {
        if let Some(found) = call.txn.find(key)? {
            call.txn.remove(key, &found)?;
            call.txn.event(key, b'g', "del");
            deleted += 1;
        }
    }
    call.out.integer(deleted);
    Ok(())
}

fn exists(call: &mut Call<'_, '_>) -> Outcome<()> {
    let mut found = 0;
    for key in &call.args[1..] {
        let there = call.txn.find(key)?.is_some();
        call.shared.stats.looked_up(there);
        found += i64::from(there);
    }
    call.out.integer(found);
    Ok(())
}

fn type_of(call: &mut Call<'_, '_>) -> Outcome<()> {
    let found = call.txn.find(call.args[1])?;
    call.out.simple(found.map_or("none", |found| found.kind().name()));
    Ok(())
}

/// Only reached without a known subcommand.
fn object(_: &mut Call<'_, '_>) -> Outcome<()> {
    Err(Failure::SYNTAX)
}

fn encoding(call: &mut Call<'_, '_>) -> Outcome<()> {
    let key = call.args[2];
    let Some(found) = call.txn.find(key)? else {
        call.out.null();
        return Ok(());
    };
    let name = match found.kind() {
        Kind::String => string_encoding(found.string()),
        kind => collection_encoding(kind, call.txn.collection_of(key, &found).count),
    };
    call.out.bulk(name.as_bytes());
    Ok(())
}

fn string_encoding(text: &[u8]) -> &'static str {
    match text.len() {
        0..=20 if number::integer(text).is_some() => "int",
        0..=44 => "embstr",
        _ => "raw",
    }
}

/// By the number of elements alone, with Redis's default limits.
fn collection_encoding(kind: Kind, count: u64) -> &'static str {
    match kind {
        Kind::Hash if count <= 512 => "listpack",
        Kind::SortedSet if count <= 128 => "listpack",
        Kind::SortedSet => "skiplist",
        Kind::List => "quicklist",
        _ => "hashtable",
    }
}

fn found_or_null(call: &mut Call<'_, '_>) -> Outcome<Option<Found>> {
    let found = call.txn.find(call.args[2])?;
    if found.is_none() {
        call.out.null();
    }
    Ok(found)
}

fn refcount(call: &mut Call<'_, '_>) -> Outcome<()> {
    if found_or_null(call)?.is_some() {
        call.out.integer(1);
    }
    Ok(())
}

fn freq(call: &mut Call<'_, '_>) -> Outcome<()> {
    if found_or_null(call)?.is_some() {
        const REFUSED: &str = "ERR An LFU maxmemory policy is not selected, access frequency not \
                               tracked. Please note that when switching between policies at \
                               runtime LRU and LFU data will take some time to adjust.";
        return Err(Failure::text(REFUSED));
    }
    Ok(())
}

fn idletime(call: &mut Call<'_, '_>) -> Outcome<()> {
    if found_or_null(call)?.is_some() {
        // No number is made up: Redis refuses as well where it has none.
        const REFUSED: &str = "ERR idle time not tracked: no key is ever evicted, so its last \
                               access is not kept.";
        return Err(Failure::text(REFUSED));
    }
    Ok(())
}

fn object_help(call: &mut Call<'_, '_>) -> Outcome<()> {
    help(call, "OBJECT", OBJECT)
}

/// What a HELP subcommand says, from the rows.
pub fn help(call: &mut Call<'_, '_>, name: &str, rows: &[Row]) -> Outcome<()> {
    debug_assert!(is(call.args[0], name), "the command's own rows");
    call.out.array(1 + 2 * rows.len());
    let first = format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
    call.out.simple(&first);
    for row in rows {
        let word = upper(row.name.as_bytes());
        call.out.simple(&String::from_utf8_lossy(&word));
        call.out.simple(&format!("    {}", row.summary));
    }
    Ok(())
}
