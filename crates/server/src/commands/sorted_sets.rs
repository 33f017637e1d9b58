//! Commands on sorted sets: members, scores, ranks. Ranges are in `sorted_ranges`.
//!
//! A member's element holds its score; another element, by score, holds the order. ZRANK and
//! ZREVRANK count the members before the one in question. Thread safety: see the module above.

use super::args::{double, integer, upper};
use super::scan::scan_collection;
use super::{Access, Call, DENYOOM, FAST, READONLY, Row, WRITE};
use crate::keyspace::encoding::{BY_NAME, BY_SCORE, Collection, Kind, scored_of};
use crate::keyspace::txn::Txn;
use crate::keyspace::{Failure, Outcome};
use crate::protocol::Reply;
use crate::protocol::number::double_text;

const fn row(
    name: &'static str,
    arity: i32,
    flags: u32,
    since: &'static str,
    summary: &'static str,
    run: super::Handler,
) -> Row {
    let row = Row::new("sorted-set", name, arity, flags, since, summary, run).key();
    if flags & WRITE == 0 { row.access(Access::View) } else { row }
}

const ADDS: u32 = WRITE | DENYOOM | FAST;

/// See the module's head.
pub const ROWS: &[Row] = &[
    row("zadd", -4, ADDS, "1.2.0", "Adds members, or changes their scores.", zadd),
    row("zcard", 2, READONLY | FAST, "1.2.0", "Counts the members.", zcard),
    row("zincrby", 4, ADDS, "1.2.0", "Adds to a member's score.", zincrby),
    row("zmscore", -3, READONLY | FAST, "6.2.0", "Returns the scores of members.", zmscore),
    row(
        "zpopmax",
        -2,
        WRITE | FAST,
        "5.0.0",
        "Removes and returns the members with the highest scores.",
        |c| pop(c, true),
    ),
    row(
        "zpopmin",
        -2,
        WRITE | FAST,
        "5.0.0",
        "Removes and returns the members with the lowest scores.",
        |c| pop(c, false),
    ),
    row(
        "zrank",
        3,
        READONLY | FAST,
        "2.0.0",
        "Returns a member's rank from the lowest score.",
        |c| rank(c, false),
    ),
    row("zrem", -3, WRITE | FAST, "1.2.0", "Removes members.", zrem),
    row(
        "zrevrank",
        3,
        READONLY | FAST,
        "2.0.0",
        "Returns a member's rank from the highest score.",
        |c| rank(c, true),
    ),
    row("zscan", -3, READONLY, "2.8.0", "Lists the members in steps.", zscan),
    row("zscore", 3, READONLY | FAST, "1.2.0", "Returns the score of a member.", zscore),
];

/// The score of a member.
///
/// # Errors
/// The engine's.
pub fn score_of(txn: &Txn<'_>, set: &Collection, member: &[u8]) -> Outcome<Option<f64>> {
    let value = txn.get(&set.element(BY_NAME, member))?;
    Ok(value.map(|value| score_from(&value)))
}

/// The score in a member's element.
pub fn score_from(value: &[u8]) -> f64 {
    f64::from_bits(u64::from_be_bytes(value.try_into().unwrap_or_default()))
}

/// Sets a member's score; the record is saved by the caller. `old` is what it was.
pub fn put_score(
    txn: &mut Txn<'_>,
    set: &mut Collection,
    member: &[u8],
    old: Option<f64>,
    score: f64,
) {
    match old {
        Some(old) => {
            txn.delete(set.scored(old, member));
            set.note_removed(1);
        }
        None => set.count += 1,
    }
    // Negative zero becomes zero.
    let score = score + 0.0;
    txn.put(set.element(BY_NAME, member), score.to_bits().to_be_bytes().to_vec());
    txn.put_element(set, set.scored(score, member), Vec::new());
}

/// Removes a member with that score; the record is saved by the caller.
pub fn remove(txn: &mut Txn<'_>, set: &mut Collection, member: &[u8], score: f64) {
    txn.delete(set.element(BY_NAME, member));
    txn.delete(set.scored(score, member));
    set.remove(1);
}

/// Saves a set from which members were removed.
pub fn save_removed(txn: &mut Txn<'_>, key: &[u8], set: &mut Collection, event: &'static str) {
    txn.save(key, set);
    txn.event(key, b'z', event);
    if set.count == 0 {
        txn.event(key, b'g', "del");
    }
}

#[derive(Default)]
struct AddOptions {
    if_absent: bool,
    if_present: bool,
    if_greater: bool,
    if_less: bool,
    changed: bool,
    increment: bool,
}

fn add_options(args: &[&[u8]]) -> Outcome<(AddOptions, usize)> {
    let mut options = AddOptions::default();
    let mut at = 2;
    while let Some(arg) = args.get(at) {
        match upper(arg).as_slice() {
            b"NX" => options.if_absent = true,
            b"XX" => options.if_present = true,
            b"GT" => options.if_greater = true,
            b"LT" => options.if_less = true,
            b"CH" => options.changed = true,
            b"INCR" => options.increment = true,
            _ => break,
        }
        at += 1;
    }
    let pairs = args.len() - at;
    if pairs == 0 || !pairs.is_multiple_of(2) {
        return Err(Failure::SYNTAX);
    }
    if options.if_absent && options.if_present {
        let text = "ERR XX and NX options at the same time are not compatible";
        return Err(Failure::text(text));
    }
    let compares = options.if_greater || options.if_less;
    if options.if_greater && options.if_less || options.if_absent && compares {
        let text = "ERR GT, LT, and/or NX options at the same time are not compatible";
        return Err(Failure::text(text));
    }
    if options.increment && pairs > 2 {
        return Err(Failure::text("ERR INCR option supports a single increment-element pair"));
    }
    Ok((options, at))
}

fn zadd(call: &mut Call<'_, '_>) -> Outcome<()> {
    let (options, at) = add_options(call.args)?;
    add(call, &options, at)
}

fn zincrby(call: &mut Call<'_, '_>) -> Outcome<()> {
    add(call, &AddOptions { increment: true, ..AddOptions::default() }, 2)
}

fn add(call: &mut Call<'_, '_>, options: &AddOptions, at: usize) -> Outcome<()> {
    let key = call.args[1];
    let mut pairs = Vec::new();
    for pair in call.args[at..].chunks_exact(2) {
        pairs.push((double(pair[0])?, pair[1]));
    }
    let mut set = match call.txn.collection(key, Kind::SortedSet)? {
        Some(set) => set,
        None if options.if_present => {
            if options.increment {
                call.out.null()
            } else {
                call.out.integer(0)
            }
            return Ok(());
        }
        None => call.txn.new_collection(key, Kind::SortedSet)?,
    };
    let (mut added, mut changed, mut last) = (0, 0, None);
    for (score, member) in pairs {
        let old = score_of(call.txn, &set, member)?;
        if old.is_some() && options.if_absent || old.is_none() && options.if_present {
            continue;
        }
        let new = match old {
            Some(old) if options.increment => old + score,
            _ => score,
        };
        if new.is_nan() {
            return Err(Failure::text("ERR resulting score is not a number (NaN)"));
        }
        let refused = old
            .is_some_and(|old| options.if_greater && new <= old || options.if_less && new >= old);
        if refused {
            continue;
        }
        last = Some(new);
        if old == Some(new) {
            continue;
        }
        put_score(call.txn, &mut set, member, old, new);
        added += i64::from(old.is_none());
        changed += i64::from(old.is_some());
    }
    if added + changed > 0 {
        call.txn.save(key, &mut set);
        call.txn.event(key, b'z', if options.increment { "zincr" } else { "zadd" });
    }
    match (options.increment, last) {
        (true, Some(score)) => call.out.double(score),
        (true, None) => call.out.null(),
        (false, _) => call.out.integer(added + if options.changed { changed } else { 0 }),
    }
    Ok(())
}

fn zrem(call: &mut Call<'_, '_>) -> Outcome<()> {
    let key = call.args[1];
    let mut removed = 0;
    if let Some(mut set) = call.txn.collection(key, Kind::SortedSet)? {
        for member in &call.args[2..] {
            if let Some(score) = score_of(call.txn, &set, member)? {
                remove(call.txn, &mut set, member, score);
                removed += 1;
            }
        }
        if removed > 0 {
            save_removed(call.txn, key, &mut set, "zrem");
        }
    }
    call.out.integer(removed);
    Ok(())
}

fn zcard(call: &mut Call<'_, '_>) -> Outcome<()> {
    let count = call.txn.collection(call.args[1], Kind::SortedSet)?.map_or(0, |set| set.count);
    call.out.integer(count as i64);
    Ok(())
}

fn zscore(call: &mut Call<'_, '_>) -> Outcome<()> {
    let set = call.txn.collection(call.args[1], Kind::SortedSet)?;
    let score = set.map(|set| score_of(call.txn, &set, call.args[2])).transpose()?.flatten();
    match score {
        Some(score) => call.out.double(score),
        None => call.out.null(),
    }
    Ok(())
}

fn zmscore(call: &mut Call<'_, '_>) -> Outcome<()> {
    let set = call.txn.collection(call.args[1], Kind::SortedSet)?;
    call.out.array(call.args.len() - 2);
    for member in &call.args[2..] {
        let score = set.as_ref().map(|set| score_of(call.txn, set, member)).transpose()?;
        match score.flatten() {
            Some(score) => call.out.double(score),
            None => call.out.null(),
        }
    }
    Ok(())
}

fn rank(call: &mut Call<'_, '_>, from_highest: bool) -> Outcome<()> {
    let set = call.txn.collection(call.args[1], Kind::SortedSet)?;
    let Some(set) = set else {
        call.out.null();
        return Ok(());
    };
    let Some(score) = score_of(call.txn, &set, call.args[2])? else {
        call.out.null();
        return Ok(());
    };
    let (first, end) = set.part(BY_SCORE);
    let own = set.scored(score, call.args[2]);
    let mut before = 0;
    let range = if from_highest { (own, end) } else { (first, own) };
    call.txn.pass(&range, from_highest, &mut |_, _| {
        before += 1;
        true
    })?;
    // The highest comes first: the member itself was counted.
    call.out.integer(before - i64::from(from_highest));
    Ok(())
}

/// Up to `count` members with the lowest or highest scores.
///
/// # Errors
/// The engine's.
pub fn ends(
    txn: &Txn<'_>,
    set: &Collection,
    highest: bool,
    count: u64,
) -> Outcome<Vec<(Vec<u8>, f64)>> {
    let mut found = Vec::new();
    if count > 0 {
        txn.walk(&set.part(BY_SCORE), highest, &mut |key, _| {
            let (score, member) = scored_of(key);
            found.push((member.to_vec(), score));
            (found.len() as u64) < count
        })?;
    }
    Ok(found)
}

fn pop(call: &mut Call<'_, '_>, highest: bool) -> Outcome<()> {
    let key = call.args[1];
    if call.args.len() > 3 {
        return Err(Failure::SYNTAX);
    }
    const NEGATIVE: Failure = Failure::text("ERR value is out of range, must be positive");
    let count = call.args.get(2).map(|arg| integer(arg).map_err(|_| NEGATIVE)).transpose()?;
    if count.is_some_and(|count| count < 0) {
        return Err(NEGATIVE);
    }
    let mut popped = Vec::new();
    if let Some(mut set) = call.txn.collection(key, Kind::SortedSet)? {
        popped = ends(call.txn, &set, highest, count.unwrap_or(1) as u64)?;
        for (member, score) in &popped {
            remove(call.txn, &mut set, member, *score);
        }
        if !popped.is_empty() {
            let event = if highest { "zpopmax" } else { "zpopmin" };
            save_removed(call.txn, key, &mut set, event);
        }
    }
    // With a count RESP3 has pairs.
    let pairs = call.out.resp3 && count.is_some();
    call.out.array(popped.len() * if pairs { 1 } else { 2 });
    for (member, score) in popped {
        if pairs {
            call.out.array(2);
        }
        call.out.bulk(&member);
        call.out.double(score);
    }
    Ok(())
}

fn zscan(call: &mut Call<'_, '_>) -> Outcome<()> {
    let emit: fn(&mut Reply, &[u8], &[u8]) = |out, name, value| {
        out.bulk(name);
        out.bulk(double_text(score_from(value)).as_bytes());
    };
    scan_collection(call, Kind::SortedSet, emit, 2)
}
