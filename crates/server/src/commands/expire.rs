//! Commands about when keys expire.
//!
//! Thread safety: see the module above.

use super::args::{fail, integer, lossy, quoting, upper};
use super::{Call, FAST, READONLY, Row, WRITE};
use crate::keyspace::{Failure, Outcome};

const fn set(
    name: &'static str,
    since: &'static str,
    summary: &'static str,
    run: super::Handler,
) -> Row {
    Row::new("generic", name, -3, WRITE | FAST, since, summary, run).key()
}

const fn query(
    name: &'static str,
    since: &'static str,
    summary: &'static str,
    run: super::Handler,
) -> Row {
    Row::new("generic", name, 2, READONLY | FAST, since, summary, run).key()
}

/// See the module's head.
pub const ROWS: &[Row] = &[
    set("expire", "1.0.0", "Sets a key's expiry in seconds from now.", |call| {
        expire(call, 1000, true)
    }),
    set("expireat", "1.2.0", "Sets a key's expiry to a Unix time in seconds.", |call| {
        expire(call, 1000, false)
    }),
    set("pexpire", "2.6.0", "Sets a key's expiry in milliseconds from now.", |call| {
        expire(call, 1, true)
    }),
    set("pexpireat", "2.6.0", "Sets a key's expiry to a Unix time in milliseconds.", |call| {
        expire(call, 1, false)
    }),
    query("expiretime", "7.0.0", "Returns a key's expiry as a Unix time in seconds.", |call| {
        time(call, 1000, false)
    }),
    query(
        "pexpiretime",
        "7.0.0",
        "Returns a key's expiry as a Unix time in milliseconds.",
        |call| time(call, 1, false),
    ),
    query("pttl", "2.6.0", "Returns a key's time to live in milliseconds.", |call| {
        time(call, 1, true)
    }),
    query("ttl", "1.0.0", "Returns a key's time to live in seconds.", |call| {
        time(call, 1000, true)
    }),
    Row::new(
        "generic",
        "persist",
        2,
        WRITE | FAST,
        "2.2.0",
        "Removes the expiry of a key.",
        persist,
    )
    .key(),
];

#[derive(Default)]
struct Conditions {
    if_none: bool,
    if_any: bool,
    if_later: bool,
    if_earlier: bool,
}

fn conditions(args: &[&[u8]]) -> Outcome<Conditions> {
    let mut found = Conditions::default();
    for arg in args {
        match upper(arg).as_slice() {
            b"NX" => found.if_none = true,
            b"XX" => found.if_any = true,
            b"GT" => found.if_later = true,
            b"LT" => found.if_earlier = true,
            _ => return Err(fail(quoting("ERR Unsupported option ", arg, ""))),
        }
    }
    if found.if_none && (found.if_any || found.if_later || found.if_earlier) {
        const TEXT: &str = "ERR NX and XX, GT or LT options at the same time are not compatible";
        return Err(Failure::text(TEXT));
    }
    if found.if_later && found.if_earlier {
        const TEXT: &str = "ERR GT and LT options at the same time are not compatible";
        return Err(Failure::text(TEXT));
    }
    Ok(found)
}

fn expire(call: &mut Call<'_, '_>, unit: i64, is_relative: bool) -> Outcome<()> {
    let (key, now) = (call.args[1], call.txn.now);
    let conditions = conditions(&call.args[3..])?;
    let millis = integer(call.args[2])?.checked_mul(unit);
    let base = if is_relative { now as i64 } else { 0 };
    let Some(at) = millis.and_then(|millis| millis.checked_add(base)) else {
        let name = lossy(call.args[0]).to_ascii_lowercase();
        return Err(fail(format!("ERR invalid expire time in '{name}' command")));
    };
    let Some(found) = call.txn.find(key)? else {
        call.out.integer(0);
        return Ok(());
    };
    let present = found.head.expires;
    let forbidden = conditions.if_none && present != 0
        || conditions.if_any && present == 0
        || conditions.if_later && (present == 0 || at <= present as i64)
        || conditions.if_earlier && present != 0 && at >= present as i64;
    if forbidden {
        call.out.integer(0);
        return Ok(());
    }
    if at <= now as i64 {
        call.txn.remove(key, &found)?;
        call.txn.event(key, b'g', "del");
    } else {
        call.txn.set_expiry(key, &found, at as u64);
        call.txn.event(key, b'g', "expire");
    }
    call.out.integer(1);
    Ok(())
}

fn time(call: &mut Call<'_, '_>, unit: u64, is_relative: bool) -> Outcome<()> {
    let found = call.txn.find(call.args[1])?;
    call.shared.stats.looked_up(found.is_some());
    let reply = match found.map(|found| found.head.expires) {
        None => -2,
        Some(0) => -1,
        Some(at) => {
            let millis = if is_relative { at.saturating_sub(call.txn.now) } else { at };
            ((millis + unit / 2) / unit) as i64
        }
    };
    call.out.integer(reply);
    Ok(())
}

fn persist(call: &mut Call<'_, '_>) -> Outcome<()> {
    let key = call.args[1];
    let found = call.txn.find(key)?.filter(|found| found.head.expires != 0);
    call.out.integer(i64::from(found.is_some()));
    if let Some(found) = found {
        call.txn.set_expiry(key, &found, 0);
        call.txn.event(key, b'g', "persist");
    }
    Ok(())
}
