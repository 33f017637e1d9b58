//! Moving and copying whole values: RENAME, RENAMENX, COPY, MOVE.
//!
//! Within a slot and database a rename writes two records; otherwise the elements are rewritten
//! under the new slot. Thread safety: see the module above.

use super::args::{integer, upper};
use super::{Call, FAST, Row, WRITE};
use crate::keyspace::encoding::Kind;
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
    row("rename", 3, 0, "1.0.0", "Renames a key.", |call| rename(call, false)),
    row("renamenx", 3, FAST, "1.0.0", "Renames a key if the new name is free.", |call| {
        rename(call, true)
    }),
];

/// Where a value goes.
#[derive(Clone, Copy)]
struct Target<'a> {
    db: u8,
    key: &'a [u8],
}

/// Does something in another database.
fn within<R>(call: &mut Call<'_, '_>, db: u8, f: impl FnOnce(&mut Call<'_, '_>) -> R) -> R {
    let own = call.txn.db();
    call.txn.select(db);
    let result = f(call);
    call.txn.select(own);
    result
}

fn rename(call: &mut Call<'_, '_>, only_if_free: bool) -> Outcome<()> {
    let (from, to) = (call.args[1], call.args[2]);
    let target = Target { db: call.txn.db(), key: to };
    let found = call.txn.find(from)?.ok_or(Failure::text("ERR no such key"))?;
    let same = from == to;
    let old = if same { None } else { found_at(call, target)? };
    if only_if_free && (same || old.is_some()) {
        call.out.integer(0);
        return Ok(());
    }
    if !same {
        relocate(call, from, &found, (target, old.as_ref()))?;
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

/// Moves a value to a key, over the old one there. After a refusal nothing has been written, see
/// [`duplicate`].
fn relocate(
    call: &mut Call<'_, '_>,
    from: &[u8],
    found: &Found,
    (to, old): (Target<'_>, Option<&Found>),
) -> Outcome<()> {
    let same_place = call.txn.db() == to.db && slot_of(from) == slot_of(to.key);
    if found.kind() != Kind::String && same_place {
        // The elements do not contain the key's name: they stay.
        let value = call.txn.collection_of(from, found).value();
        if let Some(old) = old {
            call.txn.remove(to.key, old)?;
        }
        call.txn.delete(call.txn.record_key(from));
        call.txn.put(call.txn.record_key(to.key), value);
        return Ok(());
    }
    duplicate(call, from, found, (to, old))?;
    call.txn.remove(from, found)
}

/// Copies a value to a key, over the old one there. Everything that may not fit is read before
/// anything is written: EXEC continues after a refusal, and would write what was done until then.
fn duplicate(
    call: &mut Call<'_, '_>,
    from: &[u8],
    found: &Found,
    (to, old): (Target<'_>, Option<&Found>),
) -> Outcome<()> {
    if found.kind() == Kind::String {
        return within(call, to.db, |call| {
            call.txn.put_string(to.key, old, found.string(), found.head.expires)
        });
    }
    let source = call.txn.collection_of(from, found);
    within(call, to.db, |call| {
        let mut target = call.txn.new_collection(to.key, source.kind)?;
        (target.expires, target.head, target.count) = (source.expires, source.head, source.count);
        let mut copies = Vec::new();
        let skip = source.element(0, b"").len() - 1;
        call.txn.walk(&source.all(), false, &mut |key, value| {
            copies.push((target.element(key[skip], &key[skip + 1..]), value.to_vec()));
            true
        })?;
        if let Some(old) = old {
            call.txn.remove(to.key, old)?;
        }
        copies.into_iter().for_each(|(key, value)| call.txn.put(key, value));
        call.txn.save(to.key, &mut target);
        Ok(())
    })
}

/// The value at the key to which a value is moved or copied.
fn found_at(call: &mut Call<'_, '_>, to: Target<'_>) -> Outcome<Option<Found>> {
    within(call, to.db, |call| call.txn.find(to.key))
}

/// A database number that SELECT accepts.
///
/// # Errors
/// It is not one.
pub fn database(call: &Call<'_, '_>, arg: &[u8]) -> Outcome<u8> {
    let number = integer(arg)?;
    if i32::try_from(number).is_err() {
        const BEYOND: &str =
            "ERR value is out of range, value must between -2147483648 and 2147483647";
        return Err(Failure::text(BEYOND));
    }
    let databases = call.shared.config.number("databases") as i64;
    if !(0..databases).contains(&number) {
        return Err(Failure::text("ERR DB index is out of range"));
    }
    Ok(number as u8)
}

fn copy(call: &mut Call<'_, '_>) -> Outcome<()> {
    let mut to = Target { db: call.txn.db(), key: call.args[2] };
    let mut replace = false;
    let mut rest = call.args[3..].iter();
    while let Some(arg) = rest.next() {
        match upper(arg).as_slice() {
            b"REPLACE" => replace = true,
            b"DB" => to.db = database(call, rest.next().ok_or(Failure::SYNTAX)?)?,
            _ => return Err(Failure::SYNTAX),
        }
    }
    transfer(call, to, replace, |call, found, old| {
        duplicate(call, call.args[1], found, (to, old))?;
        within(call, to.db, |call| call.txn.event(to.key, b'g', "copy_to"));
        Ok(())
    })
}

fn move_key(call: &mut Call<'_, '_>) -> Outcome<()> {
    let key = call.args[1];
    let to = Target { db: database(call, call.args[2])?, key };
    transfer(call, to, false, |call, found, _| {
        relocate(call, key, found, (to, None))?;
        call.txn.event(key, b'g', "move_from");
        within(call, to.db, |call| call.txn.event(key, b'g', "move_to"));
        Ok(())
    })
}

/// The common part of COPY and MOVE: if there is a value and its target is free or may be replaced,
/// calls `work` with both and replies 1; otherwise replies 0.
fn transfer(
    call: &mut Call<'_, '_>,
    to: Target<'_>,
    replace: bool,
    work: impl FnOnce(&mut Call<'_, '_>, &Found, Option<&Found>) -> Outcome<()>,
) -> Outcome<()> {
    let from = call.args[1];
    if to.db == call.txn.db() && from == to.key {
        return Err(Failure::text("ERR source and destination objects are the same"));
    }
    let mut done = false;
    if let Some(found) = call.txn.find(from)? {
        let old = found_at(call, to)?;
        if replace || old.is_none() {
            work(call, &found, old.as_ref())?;
            done = true;
        }
    }
    call.out.integer(i64::from(done));
    Ok(())
}
