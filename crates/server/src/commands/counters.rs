//! Commands that count in strings.
//!
//! Thread safety: see the module above.

use super::args::integer;
use super::{Call, DENYOOM, FAST, Row, WRITE};
use crate::keyspace::encoding::Kind;
use crate::keyspace::txn::Found;
use crate::keyspace::{Failure, Outcome};
use crate::protocol::extended::Extended;
use crate::protocol::number::{double, push_integer};

const FLAGS: u32 = WRITE | DENYOOM | FAST;

const fn row(
    name: &'static str,
    arity: i32,
    since: &'static str,
    summary: &'static str,
    run: super::Handler,
) -> Row {
    Row::new("string", name, arity, FLAGS, since, summary, run).key()
}

/// See the module's head.
pub const ROWS: &[Row] = &[
    row("decr", 2, "1.0.0", "Subtracts one from a number.", |call| add(call, -1)),
    row("decrby", 3, "1.0.0", "Subtracts an integer from a number.", decrby),
    row("incr", 2, "1.0.0", "Adds one to a number.", |call| add(call, 1)),
    row("incrby", 3, "1.0.0", "Adds an integer to a number.", incrby),
    row("incrbyfloat", 3, "2.6.0", "Adds a floating-point number to a number.", incrbyfloat),
];

fn incrby(call: &mut Call<'_, '_>) -> Outcome<()> {
    let by = integer(call.args[2])?;
    add(call, by)
}

fn decrby(call: &mut Call<'_, '_>) -> Outcome<()> {
    let by = integer(call.args[2])?;
    let by = by.checked_neg().ok_or(Failure::text("ERR decrement would overflow"))?;
    add(call, by)
}

fn add(call: &mut Call<'_, '_>, by: i64) -> Outcome<()> {
    let key = call.args[1];
    let old = call.txn.find_kind(key, Kind::String)?;
    let number = old.as_ref().map_or(Ok(0), |old| integer(old.string()))?;
    let sum = number.checked_add(by);
    let sum = sum.ok_or(Failure::text("ERR increment or decrement would overflow"))?;
    let mut text = Vec::with_capacity(20);
    push_integer(&mut text, sum);
    put(call, old.as_ref(), &text, "incrby")?;
    call.out.integer(sum);
    Ok(())
}

fn put(
    call: &mut Call<'_, '_>,
    old: Option<&Found>,
    text: &[u8],
    event: &'static str,
) -> Outcome<()> {
    let expires = old.map_or(0, |old| old.head.expires);
    call.txn.put_string(call.args[1], old, text, expires)?;
    call.txn.event(call.args[1], b'$', event);
    Ok(())
}

/// The sum of two numbers as text.
///
/// # Errors
/// One of them is not a number; the sum is too large.
pub fn float_sum(number: Option<&[u8]>, by: &[u8], no_number: Failure) -> Outcome<String> {
    const TOO_LARGE: Failure = Failure::text("ERR increment would produce NaN or Infinity");
    let number = number.unwrap_or(b"0");
    let infinite = |text| double(text).is_some_and(f64::is_infinite);
    let known = |text| infinite(text) || Extended::parse(text).is_some();
    if !known(number) {
        return Err(no_number);
    }
    if !known(by) {
        return Err(Failure::NOT_A_FLOAT);
    }
    let (Some(number), Some(by)) = (Extended::parse(number), Extended::parse(by)) else {
        return Err(TOO_LARGE);
    };
    Ok(number.plus(by).ok_or(TOO_LARGE)?.text())
}

fn incrbyfloat(call: &mut Call<'_, '_>) -> Outcome<()> {
    let old = call.txn.find_kind(call.args[1], Kind::String)?;
    let text = float_sum(old.as_ref().map(Found::string), call.args[2], Failure::NOT_A_FLOAT)?;
    put(call, old.as_ref(), text.as_bytes(), "incrbyfloat")?;
    call.out.bulk(text.as_bytes());
    Ok(())
}
