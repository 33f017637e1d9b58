//! Moving and copying whole values: RENAME, RENAMENX, COPY, MOVE.
//!
//! Within a slot and database a rename writes two records; otherwise the elements are written anew
//! under the new slot. Thread safety: see the module above.

use super::args::{integer, is, upper};
use super::{Call, FAST, Row, WRITE};
use crate::keyspace::encoding::{Collection, Kind, record_key};
use crate::keyspace::slot::slot_of;
use crate::keyspace::txn::Found;
use crate::keyspace::{Failure, Outcome};

const fn row(
    name: &'static str,
    arity: i32,
    flags: u32,
    since: &'static str,
    summary: &'static str,
    run: super::Handler,
) -> Row {
    Row::new("generic", name, arity, flags | WRITE, since, summary, run).keys(1, 2, 1)
}

/// See the module's head.
pub const ROWS: &[Row] = &[
    row("copy", -3, super::DENYOOM, "6.2.0", "Copies a value to another key.", copy),
    row("move", 3, FAST, "1.0.0", "Moves a key to another database.", move_key).key(),
    row("rename", 3, 0, "1.0.0", "Gives a key another name.", |call| rename(call, false)),
    row("renamenx", 3, FAST, "1.0.0", "Gives a key another name that is free.", |call| {
        rename(call, true)
    }),
];

fn rename(call: &mut Call<'_, '_>, only_if_free: bool) -> Outcome<()> {
    let (from, to, db) = (call.args[1], call.args[2], call.txn.db);
    let found = call.txn.find(from)?.ok_or(Failure::text("ERR no such key"))?;
    let same = from == to;
    let target = if same { None } else { call.txn.find(to)? };
    if only_if_free && (same || target.is_some()) {
        call.out.integer(0);
        return Ok(());
    }
    if !same {
        if let Some(target) = target {
            call.txn.remove(to, &target)?;
        }
        relocate(call, from, &found, db, to)?;
        call.txn.event(from, b'g', "rename_from");
        call.txn.event(to, b'g', "rename_to");
    }
    if only_if_free {
        call.out.integer(1);
    } else {
        call.out.ok();
    }
    Ok(())
}

/// Moves a value to a key that is free.
fn relocate(
    call: &mut Call<'_, '_>,
    from: &[u8],
    found: &Found,
    to_db: u8,
    to: &[u8],
) -> Outcome<()> {
    let own = call.txn.db;
    if found.kind() != Kind::String && own == to_db && slot_of(from) == slot_of(to) {
        // The elements bear no name: they stay.
        let collection = found.collection(own, from);
        call.txn.delete(record_key(own, from));
        call.txn.put(record_key(own, to), collection.value());
        return Ok(());
    }
    duplicate(call, from, found, to_db, to)?;
    call.txn.remove(from, found)
}

/// Writes a value once more, under a key that is free.
fn duplicate(
    call: &mut Call<'_, '_>,
    from: &[u8],
    found: &Found,
    to_db: u8,
    to: &[u8],
) -> Outcome<()> {
    let own = call.txn.db;
    if found.kind() == Kind::String {
        call.txn.db = to_db;
        let done = call.txn.put_string(to, None, found.string(), found.head.expires);
        call.txn.db = own;
        return done;
    }
    let source = found.collection(own, from);
    call.txn.db = to_db;
    let target = call.txn.new_collection(to, source.kind);
    call.txn.db = own;
    let mut target: Collection = target?;
    (target.expires, target.head, target.count) = (source.expires, source.head, source.count);
    let mut copies = Vec::new();
    let skip = source.element(0, b"").len() - 1;
    call.txn.walk(&source.all(), false, &mut |key, value| {
        copies.push((target.element(key[skip], &key[skip + 1..]), value.to_vec()));
        true
    })?;
    copies.into_iter().for_each(|(key, value)| call.txn.put(key, value));
    call.txn.db = to_db;
    call.txn.save(to, &mut target);
    call.txn.db = own;
    Ok(())
}

fn database(call: &Call<'_, '_>, arg: &[u8]) -> Outcome<u8> {
    let number = integer(arg)?;
    let databases = call.shared.config.number("databases") as i64;
    if !(0..databases).contains(&number) {
        return Err(Failure::text("ERR DB index is out of range"));
    }
    Ok(number as u8)
}

const SAME: Failure = Failure::text("ERR source and destination objects are the same");

fn copy(call: &mut Call<'_, '_>) -> Outcome<()> {
    let (from, to, own) = (call.args[1], call.args[2], call.txn.db);
    let (mut to_db, mut replace) = (own, false);
    let mut rest = call.args[3..].iter();
    while let Some(arg) = rest.next() {
        match upper(arg).as_slice() {
            b"REPLACE" => replace = true,
            b"DB" => to_db = database(call, rest.next().ok_or(Failure::SYNTAX)?)?,
            _ => return Err(Failure::SYNTAX),
        }
    }
    if to_db == own && from == to {
        return Err(SAME);
    }
    let Some(found) = call.txn.find(from)? else {
        call.out.integer(0);
        return Ok(());
    };
    call.txn.db = to_db;
    let removed = clear_target(call, to, replace);
    call.txn.db = own;
    if !removed? {
        call.out.integer(0);
        return Ok(());
    }
    duplicate(call, from, &found, to_db, to)?;
    call.txn.db = to_db;
    call.txn.event(to, b'g', "copy_to");
    call.txn.db = own;
    call.out.integer(1);
    Ok(())
}

/// Makes the key free; false when it is not to be.
fn clear_target(call: &mut Call<'_, '_>, to: &[u8], replace: bool) -> Outcome<bool> {
    match call.txn.find(to)? {
        None => Ok(true),
        Some(target) if replace => call.txn.remove(to, &target).map(|()| true),
        Some(_) => Ok(false),
    }
}

fn move_key(call: &mut Call<'_, '_>) -> Outcome<()> {
    let (key, own) = (call.args[1], call.txn.db);
    debug_assert!(is(call.args[0], "move"), "its own row");
    let to_db = database(call, call.args[2])?;
    if to_db == own {
        return Err(SAME);
    }
    let Some(found) = call.txn.find(key)? else {
        call.out.integer(0);
        return Ok(());
    };
    call.txn.db = to_db;
    let free = clear_target(call, key, false);
    call.txn.db = own;
    if !free? {
        call.out.integer(0);
        return Ok(());
    }
    relocate(call, key, &found, to_db, key)?;
    call.txn.event(key, b'g', "move_from");
    call.txn.db = to_db;
    call.txn.event(key, b'g', "move_to");
    call.txn.db = own;
    call.out.integer(1);
    Ok(())
}
