//! Commands over all keys of a database.
//!
//! Thread safety: see the module above.

use super::args::{integer, upper};
use super::{Access, Call, DANGEROUS, FAST, READONLY, Row, WRITE};
use crate::keyspace::{DATABASES_MAX, Failure, Outcome, data_end, encoding, glob};

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
    Row::new("generic", "keys", 2, READONLY, "1.0.0", "Lists the keys that fit a pattern.", keys)
        .access(Access::Glance)
        .categories(&[DANGEROUS]),
    Row::new("generic", "randomkey", 1, READONLY, "1.0.0", "Gives one of the keys.", randomkey)
        .access(Access::Glance),
    Row::new("generic", "scan", -2, READONLY, "2.8.0", "Lists the keys in steps.", scan)
        .access(Access::Glance),
];

fn dbsize(call: &mut Call<'_, '_>) -> Outcome<()> {
    let keys = call.txn.keys();
    call.out.integer(keys);
    Ok(())
}

fn keys(call: &mut Call<'_, '_>) -> Outcome<()> {
    let pattern = call.args[1];
    let mut found = Vec::new();
    call.txn.each_key(&mut |key, _| {
        if glob::matches(pattern, key) {
            found.push(key.to_vec());
        }
        true
    })?;
    call.out.array(found.len());
    found.iter().for_each(|key| call.out.bulk(key));
    Ok(())
}

fn randomkey(call: &mut Call<'_, '_>) -> Outcome<()> {
    let seed = call.session.next_random();
    let key = call.txn.any_key(seed)?;
    call.out.bulk_or_null(key.as_deref());
    Ok(())
}

/// MATCH, COUNT and TYPE of SCAN and its kin.
pub struct Steps<'a> {
    /// Number of the step.
    pub number: u64,
    pattern: Option<&'a [u8]>,
    /// Elements to look at.
    pub count: usize,
    kind: Option<Vec<u8>>,
}

impl<'a> Steps<'a> {
    /// Reads the options behind the cursor.
    ///
    /// # Errors
    /// Redis's.
    pub fn read(number: u64, args: &[&'a [u8]], has_type: bool) -> Outcome<Steps<'a>> {
        let mut steps = Steps { number, pattern: None, count: 10, kind: None };
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
                    steps.count = usize::try_from(count).unwrap_or(usize::MAX);
                }
                b"TYPE" if has_type => steps.kind = Some(pair[1].to_ascii_lowercase()),
                _ => return Err(Failure::SYNTAX),
            }
        }
        Ok(steps)
    }

    /// The name fits MATCH.
    pub fn wants(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, name))
    }
}

/// The cursor in an argument.
///
/// # Errors
/// It is none.
pub fn cursor(arg: &[u8]) -> Outcome<u64> {
    let number = std::str::from_utf8(arg).ok().and_then(|text| text.parse().ok());
    number.ok_or(Failure::text("ERR invalid cursor"))
}

/// What HSCAN and its kin reply where there is nothing.
pub fn nothing(call: &mut Call<'_, '_>) {
    call.out.array(2);
    call.out.bulk(b"0");
    call.out.array(0);
}

fn scan(call: &mut Call<'_, '_>) -> Outcome<()> {
    let steps = Steps::read(cursor(call.args[1])?, &call.args[2..], true)?;
    let mut found = Vec::new();
    let next = call.txn.scan_keys(steps.number, steps.count, &mut |key, head| {
        let right = steps.kind.as_ref().is_none_or(|kind| kind == head.kind.name().as_bytes());
        if right && steps.wants(key) {
            found.push(key.to_vec());
        }
    })?;
    call.out.array(2);
    call.out.bulk(next.to_string().as_bytes());
    call.out.array(found.len());
    found.iter().for_each(|key| call.out.bulk(key));
    Ok(())
}

fn flush(call: &mut Call<'_, '_>, all: bool) -> Outcome<()> {
    match &call.args[1..] {
        [] => {}
        [word] if matches!(upper(word).as_slice(), b"SYNC" | b"ASYNC") => {}
        _ => return Err(Failure::SYNTAX),
    }
    let own = call.txn.db;
    let mut others = 0;
    // All there can be, not only those that may be selected now.
    for db in (0..DATABASES_MAX).map(|db| db as u8) {
        call.txn.db = db;
        if all || db == own {
            call.txn.count(-call.txn.keys());
        }
        others += call.txn.keys();
    }
    call.txn.db = own;
    if others == 0 {
        call.txn.clear(Vec::new(), data_end());
    } else {
        flush_one(call, own)?;
    }
    call.shared.watches.all_touched(if all { None } else { Some(own) });
    call.out.ok();
    Ok(())
}

/// Deletes a database beside others: a range in each slot that it has keys in.
fn flush_one(call: &mut Call<'_, '_>, db: u8) -> Outcome<()> {
    let mut slots = Vec::new();
    call.txn.each_slot(&mut |slot| slots.push(slot))?;
    for slot in slots {
        let (first, end) = encoding::slot_range(slot, db);
        call.txn.clear(first, end);
    }
    Ok(())
}
