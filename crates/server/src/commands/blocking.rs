//! Commands that wait until a list or a sorted set has something.
//!
//! Each tries first; if there is nothing it leaves a request with its session, and the executor
//! lets it wait ([`crate::session::waiters`]). In a transaction nothing blocks.
//!
//! Thread safety: see the module above.

use super::args::{Args, integer, is, upper};
use super::lists::{move_element, pop_list};
use super::sets::{TOO_MANY_KEYS, counted};
use super::sorted_joins::pop_sorted;
use super::{BLOCKING, Call, DENYOOM, FAST, NOSCRIPT, Row, WRITE};
use crate::keyspace::{Failure, Outcome};
use crate::protocol::extended::Extended;
use crate::protocol::number;
use crate::session::action::{End, Op, Take};
use crate::session::waiters::Wish;

const fn row(
    group: &'static str,
    name: &'static str,
    arity: i32,
    flags: u32,
    since: &'static str,
    summary: &'static str,
    run: super::Handler,
) -> Row {
    Row::new(group, name, arity, flags | WRITE | BLOCKING, since, summary, run)
}

/// See the module's head.
pub const ROWS: &[Row] = &[
    row(
        "list",
        "blmove",
        6,
        NOSCRIPT | DENYOOM,
        "6.2.0",
        "LMOVE that waits for an element.",
        |c| {
            let (from, to) = (End::read(c.args[3])?, End::read(c.args[4])?);
            wait_and_move(c, from, to)
        },
    )
    .keys(1, 2, 1),
    row("list", "blmpop", -5, 0, "7.0.0", "LMPOP that waits for elements.", |c| {
        wait_for_many(c, |word| Ok(Take::End(End::read(word)?)))
    })
    .counted(2, false),
    row("list", "blpop", -3, NOSCRIPT, "2.0.0", "LPOP of several keys that waits.", |c| {
        wait_for_one(c, Take::End(End::Left))
    })
    .keys(1, -2, 1),
    row("list", "brpop", -3, NOSCRIPT, "2.0.0", "RPOP of several keys that waits.", |c| {
        wait_for_one(c, Take::End(End::Right))
    })
    .keys(1, -2, 1),
    row("list", "brpoplpush", 4, NOSCRIPT | DENYOOM, "2.2.0", "RPOPLPUSH that waits.", |c| {
        wait_and_move(c, End::Right, End::Left)
    })
    .keys(1, 2, 1),
    row("sorted-set", "bzmpop", -5, 0, "7.0.0", "ZMPOP that waits for members.", |c| {
        wait_for_many(c, |word| Ok(Take::Score { highest: highest(word)? }))
    })
    .counted(2, false),
    row("sorted-set", "bzpopmax", -3, NOSCRIPT | FAST, "5.0.0", "ZPOPMAX that waits.", |c| {
        wait_for_one(c, Take::Score { highest: true })
    })
    .keys(1, -2, 1),
    row("sorted-set", "bzpopmin", -3, NOSCRIPT | FAST, "5.0.0", "ZPOPMIN that waits.", |c| {
        wait_for_one(c, Take::Score { highest: false })
    })
    .keys(1, -2, 1),
];

impl Op {
    /// Performs the action on `key`; false when there is nothing.
    ///
    /// # Errors
    /// A key holds another type; the engine's.
    pub fn run(&self, call: &mut Call<'_, '_>, key: &[u8]) -> Outcome<bool> {
        match self {
            Op::Pop(Take::End(end), count) => pop_list(call, key, *end, *count),
            Op::Pop(Take::Score { highest }, count) => pop_sorted(call, key, *highest, *count),
            Op::Move { from, to, target } => move_element(call, (key, *from), (target, *to)),
        }
    }
}

/// A timeout in seconds; None waits forever.
fn timeout(arg: &[u8]) -> Outcome<Option<u64>> {
    const NO_FLOAT: Failure = Failure::text("ERR timeout is not a float or out of range");
    const NEGATIVE: Failure = Failure::text("ERR timeout is negative");
    if number::double(arg).is_some_and(f64::is_infinite) {
        // Redis computes with infinity here and arrives at a negative number.
        return Err(NEGATIVE);
    }
    let seconds = Extended::parse(arg).ok_or(NO_FLOAT)?;
    // Whole milliseconds, rounded up; what a 64-bit integer does not hold Redis makes negative.
    let millis = (seconds.to_double() * 1000.0).ceil();
    if millis < 0.0 || millis >= i64::MAX as f64 {
        return Err(NEGATIVE);
    }
    let millis = (millis as u64).max(u64::from(seconds.is_positive()));
    Ok(Some(millis).filter(|millis| *millis > 0).map(|millis| millis.saturating_mul(1_000_000)))
}

/// Takes from the first of the keys that has something, or waits.
fn try_or_wait(
    call: &mut Call<'_, '_>,
    keys: Args<'_>,
    op: Op,
    limit_nanos: Option<u64>,
) -> Outcome<()> {
    for key in &keys {
        if op.run(call, key)? {
            return Ok(());
        }
    }
    if call.in_exec {
        match op {
            Op::Move { .. } => call.out.null(),
            Op::Pop(..) => call.out.null_array(),
        }
        return Ok(());
    }
    let keys = keys.iter().map(|key| key.to_vec()).collect();
    call.session.wish = Some(Wish { keys, op, limit_nanos });
    Ok(())
}

fn wait_for_one(call: &mut Call<'_, '_>, take: Take) -> Outcome<()> {
    let last = call.args.len() - 1;
    let limit = timeout(call.args[last])?;
    try_or_wait(call, call.args[1..last].to_vec(), Op::Pop(take, None), limit)
}

fn wait_for_many(call: &mut Call<'_, '_>, take: fn(&[u8]) -> Outcome<Take>) -> Outcome<()> {
    let (keys, take, count) = pop_request(call.args, 2, take)?;
    let limit = timeout(call.args[1])?;
    try_or_wait(call, keys, Op::Pop(take, Some(count)), limit)
}

fn wait_and_move(call: &mut Call<'_, '_>, from: End, to: End) -> Outcome<()> {
    let limit = timeout(call.args[call.args.len() - 1])?;
    let (source, target) = (call.args[1], call.args[2].to_vec());
    try_or_wait(call, vec![source], Op::Move { from, to, target }, limit)
}

/// MIN or MAX.
///
/// # Errors
/// Another word.
pub fn highest(word: &[u8]) -> Outcome<bool> {
    match upper(word).as_slice() {
        b"MIN" => Ok(false),
        b"MAX" => Ok(true),
        _ => Err(Failure::SYNTAX),
    }
}

/// The arguments of LMPOP, ZMPOP and their relatives: the number of keys at `at`, the keys, the end
/// to take from, and COUNT.
///
/// # Errors
/// Redis's.
pub fn pop_request<'a, T>(
    args: &[&'a [u8]],
    at: usize,
    take: fn(&[u8]) -> Outcome<T>,
) -> Outcome<(Args<'a>, T, u64)> {
    let (keys, rest) = counted(args, at).map_err(|failure| match failure {
        Failure::Error(text) if *text == *TOO_MANY_KEYS.as_bytes() => Failure::SYNTAX,
        other => other,
    })?;
    let (word, rest) = rest.split_first().ok_or(Failure::SYNTAX)?;
    let take = take(word)?;
    const COUNT: Failure = Failure::text("ERR count should be greater than 0");
    let (count, more) = match rest {
        [] => (1, rest),
        [word, number, more @ ..] if is(word, "count") => {
            let number = integer(number).map_err(|_| COUNT)?;
            (u64::try_from(number).ok().filter(|n| *n > 0).ok_or(COUNT)?, more)
        }
        _ => return Err(Failure::SYNTAX),
    };
    if more.is_empty() { Ok((keys, take, count)) } else { Err(Failure::SYNTAX) }
}
