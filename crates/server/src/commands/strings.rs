//! Commands on strings, except counting and comparing.
//!
//! Thread safety: see the module above.

use super::args::{fail, integer, upper};
use super::{Access, Call, DENYOOM, FAST, READONLY, Row, WRITE};
use crate::keyspace::encoding::{Head, Kind};
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
    Row::new("string", name, arity, flags, since, summary, run).key()
}

/// See the module's head.
pub const ROWS: &[Row] = &[
    row("append", 3, WRITE | DENYOOM | FAST, "2.0.0", "Adds bytes to the end of a string.", append),
    row("get", 2, READONLY | FAST, "1.0.0", "Returns a string.", get),
    row("getdel", 2, WRITE | FAST, "6.2.0", "Returns a string and deletes the key.", getdel),
    row("getex", -2, WRITE | FAST, "6.2.0", "Returns a string and sets its expiry.", getex),
    row("getrange", 4, READONLY, "2.4.0", "Returns a part of a string.", getrange)
        .access(Access::Glance),
    row(
        "getset",
        3,
        WRITE | DENYOOM | FAST,
        "1.0.0",
        "Sets a string and returns the old one.",
        getset,
    ),
    row("mget", -2, READONLY | FAST, "1.0.0", "Returns several strings atomically.", mget)
        .keys(1, -1, 1),
    row("mset", -3, WRITE | DENYOOM, "1.0.1", "Sets several strings at once.", mset).keys(1, -1, 2),
    row("msetnx", -3, WRITE | DENYOOM, "1.0.1", "Sets several strings if no key exists.", msetnx)
        .keys(1, -1, 2),
    row(
        "psetex",
        4,
        WRITE | DENYOOM,
        "2.6.0",
        "Sets a string that expires after milliseconds.",
        psetex,
    ),
    row("set", -3, WRITE | DENYOOM, "1.0.0", "Sets a string, with conditions and expiry.", set)
        .plain(3),
    row("setex", 4, WRITE | DENYOOM, "2.0.0", "Sets a string that expires after seconds.", setex),
    row("setnx", 3, WRITE | DENYOOM | FAST, "1.0.0", "Sets a string if the key is free.", setnx),
    row("setrange", 4, WRITE | DENYOOM, "2.2.0", "Overwrites a part of a string.", setrange),
    row("strlen", 2, READONLY | FAST, "2.2.0", "Returns the length of a string.", strlen),
    row(
        "substr",
        4,
        READONLY,
        "1.0.0",
        "Returns a part of a string (old name of GETRANGE).",
        getrange,
    )
    .access(Access::Glance),
];

/// The string at a key for a command that only reads, counted for INFO.
fn string(call: &mut Call<'_, '_>, key: &[u8]) -> Outcome<Option<Found>> {
    let found = call.txn.find_kind(key, Kind::String)?;
    call.shared.stats.looked_up(found.is_some());
    Ok(found)
}

fn get(call: &mut Call<'_, '_>) -> Outcome<()> {
    let found = string(call, call.args[1])?;
    call.out.bulk_or_null(found.as_ref().map(Found::string));
    Ok(())
}

fn strlen(call: &mut Call<'_, '_>) -> Outcome<()> {
    let found = string(call, call.args[1])?;
    call.out.count(found.map_or(0, |found| found.string().len()));
    Ok(())
}

fn getrange(call: &mut Call<'_, '_>) -> Outcome<()> {
    let (start, end) = (integer(call.args[2])?, integer(call.args[3])?);
    let found = string(call, call.args[1])?;
    let text = found.as_ref().map_or(&b""[..], Found::string);
    // Unlike elsewhere, both indexes are clamped to the first byte.
    let len = text.len() as i64;
    if start < 0 && end < 0 && start > end {
        call.out.bulk(b"");
        return Ok(());
    }
    let place = |n: i64| if n < 0 { n.saturating_add(len).max(0) } else { n };
    let (start, end) = (place(start), place(end).min(len - 1));
    if start > end || len == 0 {
        call.out.bulk(b"");
    } else {
        call.out.bulk(&text[start as usize..=end as usize]);
    }
    Ok(())
}

fn mget(call: &mut Call<'_, '_>) -> Outcome<()> {
    // With many keys the values are not all held at once; one snapshot still makes them consistent.
    const AT_ONCE: usize = 64;
    let args = call.args;
    let keys = &args[1..];
    if keys.len() > AT_ONCE {
        call.txn.hold_moment();
    }
    call.out.array(keys.len());
    for keys in keys.chunks(AT_ONCE) {
        let keys: Vec<_> = keys.iter().map(|key| call.txn.record_key(key)).collect();
        for value in call.txn.get_many(&keys)? {
            let head = value.as_deref().map(Head::read).transpose()?;
            let alive = head.filter(|h| h.kind == Kind::String && !h.is_expired(call.txn.now));
            call.shared.stats.looked_up(alive.is_some());
            let text = alive.and_then(|head| value.as_ref().map(|value| &value[head.body..]));
            call.out.bulk_or_null(text);
        }
        if call.out.is_full() {
            return Err(Failure::TOO_LARGE);
        }
    }
    Ok(())
}

/// The expiry options of SET and GETEX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expiry {
    None,
    Keep,
    Persist,
    At(u64),
}

/// The time given by `unit` (EX, PX, EXAT, PXAT) and a number; `command` is for the error.
fn expiry(unit: &[u8], number: &[u8], now: u64, command: &str) -> Outcome<Expiry> {
    let invalid = || fail(format!("ERR invalid expire time in '{command}' command"));
    let number = integer(number)?;
    if number <= 0 {
        return Err(invalid());
    }
    let millis = if unit.starts_with(b"EX") { number.checked_mul(1000) } else { Some(number) };
    let relative = !unit.ends_with(b"AT");
    let at = millis.and_then(|m| m.checked_add(if relative { now as i64 } else { 0 }));
    at.map(|at| Expiry::At(at as u64)).ok_or_else(invalid)
}

#[derive(Default)]
struct SetOptions {
    if_absent: bool,
    if_present: bool,
    get: bool,
    expiry: Option<Expiry>,
}

fn set_options(args: &[&[u8]], now: u64) -> Outcome<SetOptions> {
    let mut options = SetOptions::default();
    let mut time: Option<(Vec<u8>, &[u8])> = None;
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let word = upper(arg);
        let timed = time.is_some() || options.expiry.is_some();
        match word.as_slice() {
            b"NX" if !options.if_present => options.if_absent = true,
            b"XX" if !options.if_absent => options.if_present = true,
            b"GET" => options.get = true,
            b"KEEPTTL" if time.is_none() => options.expiry = Some(Expiry::Keep),
            b"EX" | b"PX" | b"EXAT" | b"PXAT" if !timed => {
                time = Some((word, rest.next().ok_or(Failure::SYNTAX)?));
            }
            _ => return Err(Failure::SYNTAX),
        }
    }
    if let Some((unit, number)) = time {
        options.expiry = Some(expiry(&unit, number, now, "set")?);
    }
    Ok(options)
}

fn set(call: &mut Call<'_, '_>) -> Outcome<()> {
    let (key, value) = (call.args[1], call.args[2]);
    let options = set_options(&call.args[3..], call.txn.now)?;
    let old =
        if options.get { call.txn.find_kind(key, Kind::String)? } else { call.txn.find(key)? };
    let forbidden = old.is_some() && options.if_absent || old.is_none() && options.if_present;
    if options.get {
        call.out.bulk_or_null(old.as_ref().map(Found::string));
    } else if forbidden {
        call.out.null();
    } else {
        call.out.ok();
    }
    if forbidden {
        return Ok(());
    }
    let expires = match options.expiry {
        Some(Expiry::Keep) => old.as_ref().map_or(0, |old| old.head.expires),
        Some(Expiry::At(at)) => at,
        _ => 0,
    };
    store(call, key, old.as_ref(), value, expires)?;
    if matches!(options.expiry, Some(Expiry::At(_))) {
        call.txn.event(key, b'g', "expire");
    }
    Ok(())
}

fn store(
    call: &mut Call<'_, '_>,
    key: &[u8],
    old: Option<&Found>,
    value: &[u8],
    expires: u64,
) -> Outcome<()> {
    call.txn.put_string(key, old, value, expires)?;
    call.txn.event(key, b'$', "set");
    Ok(())
}

fn setnx(call: &mut Call<'_, '_>) -> Outcome<()> {
    let (key, value) = (call.args[1], call.args[2]);
    let is_free = call.txn.find(key)?.is_none();
    if is_free {
        store(call, key, None, value, 0)?;
    }
    call.out.integer(i64::from(is_free));
    Ok(())
}

fn setex(call: &mut Call<'_, '_>) -> Outcome<()> {
    set_expiring(call, b"EX", "setex")
}

fn psetex(call: &mut Call<'_, '_>) -> Outcome<()> {
    set_expiring(call, b"PX", "psetex")
}

fn set_expiring(call: &mut Call<'_, '_>, unit: &[u8], command: &str) -> Outcome<()> {
    let (key, value) = (call.args[1], call.args[3]);
    let Expiry::At(at) = expiry(unit, call.args[2], call.txn.now, command)? else {
        return Err(Failure::SYNTAX);
    };
    let old = call.txn.find(key)?;
    store(call, key, old.as_ref(), value, at)?;
    call.txn.event(key, b'g', "expire");
    call.out.ok();
    Ok(())
}

fn getset(call: &mut Call<'_, '_>) -> Outcome<()> {
    let (key, value) = (call.args[1], call.args[2]);
    let old = call.txn.find_kind(key, Kind::String)?;
    call.out.bulk_or_null(old.as_ref().map(Found::string));
    store(call, key, old.as_ref(), value, 0)
}

fn getdel(call: &mut Call<'_, '_>) -> Outcome<()> {
    let key = call.args[1];
    let old = call.txn.find_kind(key, Kind::String)?;
    call.out.bulk_or_null(old.as_ref().map(Found::string));
    if let Some(old) = old {
        call.txn.remove(key, &old)?;
        call.txn.event(key, b'g', "del");
    }
    Ok(())
}

fn getex(call: &mut Call<'_, '_>) -> Outcome<()> {
    let (key, now) = (call.args[1], call.txn.now);
    let mut time = None;
    let mut wanted = match &call.args[2..] {
        [] => Expiry::None,
        [word] if upper(word) == b"PERSIST" => Expiry::Persist,
        [unit, number] => match upper(unit).as_slice() {
            unit @ (b"EX" | b"PX" | b"EXAT" | b"PXAT") => {
                time = Some((unit.to_vec(), *number));
                Expiry::None
            }
            _ => return Err(Failure::SYNTAX),
        },
        _ => return Err(Failure::SYNTAX),
    };
    let Some(found) = call.txn.find_kind(key, Kind::String)? else {
        call.out.null();
        return Ok(());
    };
    if let Some((unit, number)) = time {
        wanted = expiry(&unit, number, now, "getex")?;
    }
    call.out.bulk(found.string());
    match wanted {
        Expiry::At(at) if at <= now => {
            call.txn.remove(key, &found)?;
            call.txn.event(key, b'g', "del");
        }
        Expiry::At(at) => {
            call.txn.set_expiry(key, &found, at);
            call.txn.event(key, b'g', "expire");
        }
        Expiry::Persist if found.head.expires != 0 => {
            call.txn.set_expiry(key, &found, 0);
            call.txn.event(key, b'g', "persist");
        }
        _ => {}
    }
    Ok(())
}

fn pairs<'a>(call: &Call<'a, '_>, command: &str) -> Outcome<Vec<(&'a [u8], &'a [u8])>> {
    let args = &call.args[1..];
    if !args.len().is_multiple_of(2) {
        return Err(fail(format!("ERR wrong number of arguments for '{command}' command")));
    }
    Ok(args.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
}

fn mset(call: &mut Call<'_, '_>) -> Outcome<()> {
    for (key, value) in pairs(call, "mset")? {
        let old = call.txn.find(key)?;
        store(call, key, old.as_ref(), value, 0)?;
    }
    call.out.ok();
    Ok(())
}

fn msetnx(call: &mut Call<'_, '_>) -> Outcome<()> {
    let pairs = pairs(call, "msetnx")?;
    for (key, _) in &pairs {
        if call.txn.find(key)?.is_some() {
            call.out.integer(0);
            return Ok(());
        }
    }
    for (key, value) in pairs {
        // A key may be given twice.
        let old = call.txn.find(key)?;
        store(call, key, old.as_ref(), value, 0)?;
    }
    call.out.integer(1);
    Ok(())
}

/// Strings may not become longer.
fn check_len(call: &Call<'_, '_>, len: u64) -> Outcome<()> {
    if len > call.shared.config.number("proto-max-bulk-len") {
        const TEXT: &str = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
        return Err(Failure::text(TEXT));
    }
    Ok(())
}

fn append(call: &mut Call<'_, '_>) -> Outcome<()> {
    let (key, more) = (call.args[1], call.args[2]);
    let old = call.txn.find_kind(key, Kind::String)?;
    let text = old.as_ref().map_or(&b""[..], Found::string);
    if old.is_some() {
        check_len(call, (text.len() + more.len()) as u64)?;
    }
    let value = [text, more].concat();
    let expires = old.as_ref().map_or(0, |old| old.head.expires);
    call.txn.put_string(key, old.as_ref(), &value, expires)?;
    call.txn.event(key, b'$', "append");
    call.out.count(value.len());
    Ok(())
}

fn setrange(call: &mut Call<'_, '_>) -> Outcome<()> {
    let (key, part) = (call.args[1], call.args[3]);
    let offset = integer(call.args[2])?;
    if offset < 0 {
        return Err(Failure::text("ERR offset is out of range"));
    }
    let old = call.txn.find_kind(key, Kind::String)?;
    let text = old.as_ref().map_or(&b""[..], Found::string);
    if part.is_empty() {
        call.out.count(text.len());
        return Ok(());
    }
    check_len(call, (offset as u64).saturating_add(part.len() as u64))?;
    let mut value = text.to_vec();
    let end = offset as usize + part.len();
    if value.len() < end {
        value.resize(end, 0);
    }
    value[offset as usize..end].copy_from_slice(part);
    let expires = old.as_ref().map_or(0, |old| old.head.expires);
    call.txn.put_string(key, old.as_ref(), &value, expires)?;
    call.txn.event(key, b'$', "setrange");
    call.out.count(value.len());
    Ok(())
}
