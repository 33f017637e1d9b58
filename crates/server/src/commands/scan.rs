//! Commands over all keys of a database.
//!
//! Thread safety: see the module above.

use super::args::{integer, upper};
use super::{Access, Call, DANGEROUS, FAST, READONLY, Row, WRITE};
use crate::keyspace::encoding::Kind;
use crate::keyspace::{DATABASES_MAX, Failure, Outcome, data_end, encoding, glob};
use crate::protocol::Reply;

/// See the module's head.
pub const ROWS: &[Row] = &[
    Row::new("server", "dbsize", 1, READONLY | FAST, "1.0.0", "Counts the keys.", dbsize)
        .categories(&["keyspace"]),
    Row::new("server", "flushall", -1, WRITE, "1.0.0", "Deletes all keys of all databases.", |c| {
        flush(c, true)
    })
    .access(Access::WriteAll)
    .categories(&["keyspace", DANGEROUS]),
    Row::new("server", "flushdb", -1, WRITE, "1.0.0", "Deletes all keys of a database.", |c| {
        flush(c, false)
    })
    .access(Access::WriteAll)
    .categories(&["keyspace", DANGEROUS]),
    Row::new("server", "swapdb", 3, WRITE | FAST, "4.0.0", "Swaps two databases.", swap)
        .access(Access::WriteAll)
        .categories(&["keyspace", DANGEROUS]),
    Row::new("generic", "keys", 2, READONLY, "1.0.0", "Lists the keys that match a pattern.", keys)
        .access(Access::Glance)
        .categories(&[DANGEROUS]),
    Row::new("generic", "randomkey", 1, READONLY, "1.0.0", "Returns a random key.", randomkey)
        .access(Access::Glance),
    Row::new("generic", "scan", -2, READONLY, "2.8.0", "Lists the keys in steps.", scan)
        .access(Access::Glance),
];

fn dbsize(call: &mut Call<'_, '_>) -> Outcome<()> {
    let keys = call.txn.keys().keys;
    call.out.integer(keys);
    Ok(())
}

fn keys(call: &mut Call<'_, '_>) -> Outcome<()> {
    let pattern = call.args[1];
    let (at, mut found) = (call.out.len(), 0);
    let out = &mut *call.out;
    call.txn.each_key(&mut |key, _| {
        if glob::matches(pattern, key) {
            out.bulk(key);
            found += 1;
        }
        !out.is_full()
    })?;
    call.out.array_before(at, found);
    Ok(())
}

fn randomkey(call: &mut Call<'_, '_>) -> Outcome<()> {
    let seed = call.session.next_random();
    let key = call.txn.any_key(seed)?;
    call.out.bulk_or_null(key.as_deref());
    Ok(())
}

/// An upper bound for the header of a reply, or of one of its elements.
const HEAD_BYTES: usize = 64;
/// Most elements that a step examines, whatever COUNT says.
const COUNT_MAX: usize = 10_000;

/// MATCH, COUNT and TYPE of SCAN and its relatives.
struct Steps<'a> {
    pattern: Option<&'a [u8]>,
    /// Elements to examine.
    count: usize,
    kind: Option<Vec<u8>>,
}

impl<'a> Steps<'a> {
    /// Reads the options after the cursor.
    ///
    /// # Errors
    /// Redis's.
    fn read(args: &[&'a [u8]], has_type: bool) -> Outcome<Steps<'a>> {
        let mut steps = Steps { pattern: None, count: 10, kind: None };
        if !args.len().is_multiple_of(2) {
            return Err(Failure::SYNTAX);
        }
        for pair in args.chunks_exact(2) {
            match upper(pair[0]).as_slice() {
                b"MATCH" => steps.pattern = Some(pair[1]),
                b"COUNT" => {
                    let count = integer(pair[1])?;
                    if count < 1 {
                        return Err(Failure::SYNTAX);
                    }
                    steps.count = usize::try_from(count).unwrap_or(usize::MAX).min(COUNT_MAX);
                }
                b"TYPE" if has_type => steps.kind = Some(pair[1].to_ascii_lowercase()),
                _ => return Err(Failure::SYNTAX),
            }
        }
        Ok(steps)
    }

    /// The name fits MATCH.
    fn wants(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, name))
    }
}

/// The cursor in an argument.
///
/// # Errors
/// The text is not a cursor.
fn cursor(arg: &[u8]) -> Outcome<u64> {
    let number = std::str::from_utf8(arg).ok().and_then(|text| text.parse().ok());
    number.ok_or(Failure::text("ERR invalid cursor"))
}

/// HSCAN and its relatives: `emit` writes the reply for a name and its value.
///
/// # Errors
/// Redis's; the engine's.
pub fn scan_collection(
    call: &mut Call<'_, '_>,
    kind: Kind,
    emit: fn(&mut Reply, &[u8], &[u8]),
    parts: usize,
) -> Outcome<()> {
    let number = cursor(call.args[2])?;
    let Some(collection) = call.txn.collection(call.args[1], kind)? else {
        reply_step(call.out, 0, 0, &[]);
        return Ok(());
    };
    let steps = Steps::read(&call.args[3..], false)?;
    let (mut found, mut elements) = (0, Reply::new());
    let next = call.txn.scan_elements(&collection, number, steps.count, &mut |name, value| {
        if steps.wants(name) {
            found += parts;
            emit(&mut elements, name, value);
        }
    })?;
    reply_step(call.out, next, found, elements.bytes());
    Ok(())
}

/// The cursor to continue with, and `len` elements.
fn reply_step(out: &mut Reply, next: u64, len: usize, elements: &[u8]) {
    out.array(2);
    out.bulk(next.to_string().as_bytes());
    out.array(len);
    out.raw(elements);
}

fn scan(call: &mut Call<'_, '_>) -> Outcome<()> {
    let number = cursor(call.args[1])?;
    let steps = Steps::read(&call.args[2..], true)?;
    let (mut found, mut keys) = (0, Reply::new());
    // What a step keeps; the reply is a copy of it.
    let room = call.out.room().min(call.txn.room()).saturating_sub(HEAD_BYTES);
    let next = call.txn.scan_keys(number, steps.count, &mut |key, head| {
        let right = steps.kind.as_ref().is_none_or(|kind| kind == head.kind.name().as_bytes());
        if right && steps.wants(key) {
            if keys.len() + key.len() + HEAD_BYTES > room {
                return false;
            }
            found += 1;
            keys.bulk(key);
        }
        true
    })?;
    reply_step(call.out, next, found, keys.bytes());
    Ok(())
}

fn flush(call: &mut Call<'_, '_>, all: bool) -> Outcome<()> {
    match &call.args[1..] {
        [] => {}
        [word] if matches!(upper(word).as_slice(), b"SYNC" | b"ASYNC") => {}
        _ => return Err(Failure::SYNTAX),
    }
    let own = call.txn.db();
    let mut others = 0;
    // All possible ones, not only those that may be selected now.
    for db in (0..DATABASES_MAX).map(|db| db as u8) {
        call.txn.select(db);
        if all || db == own {
            call.txn.count(-call.txn.keys());
        }
        others += call.txn.keys().keys;
    }
    call.txn.select(own);
    if others == 0 {
        call.txn.clear(Vec::new(), data_end());
    } else {
        flush_one(call)?;
    }
    call.txn.keyspace().flushing();
    call.txn.flushed(if all { None } else { Some(own) });
    call.out.ok();
    Ok(())
}

fn swap(call: &mut Call<'_, '_>) -> Outcome<()> {
    let number = |arg: &[u8], text| {
        let number = integer(arg).ok().and_then(|number| i32::try_from(number).ok());
        number.ok_or(Failure::text(text))
    };
    let one = number(call.args[1], "ERR invalid first DB index")?;
    let other = number(call.args[2], "ERR invalid second DB index")?;
    let databases = call.shared.config.number("databases");
    let db = |number: i32| {
        let number = u64::try_from(number).ok().filter(|number| *number < databases);
        number.map(|number| number as u8).ok_or(Failure::text("ERR DB index is out of range"))
    };
    let (one, other) = (db(one)?, db(other)?);
    if one != other {
        call.txn.swap_databases(one, other);
        let own = call.txn.db();
        for db in [one, other] {
            call.txn.flushed(Some(db));
            call.txn.select(db);
            // Waiting clients may find something now.
            for key in call.shared.waiters.keys_in(db) {
                call.txn.event(&key, 0, "swapdb");
            }
        }
        call.txn.select(own);
    }
    call.out.ok();
    Ok(())
}

/// Deletes one of several databases: a range in each slot in which it has keys.
fn flush_one(call: &mut Call<'_, '_>) -> Outcome<()> {
    let mut slots = Vec::new();
    call.txn.each_slot(&mut |slot| slots.push(slot))?;
    for slot in slots {
        let (first, end) = encoding::slot_range(slot, call.txn.stored());
        call.txn.clear(first, end);
    }
    Ok(())
}
