//! Commands on sets.
//!
//! Thread safety: see the module above.

use std::collections::BTreeSet;

use super::args::{Args, integer, is};
use super::hashes::{by_chance, chance_count};
use super::scan::scan_collection;
use super::{Access, Call, DENYOOM, FAST, READONLY, Row, WRITE};
use crate::keyspace::encoding::{BY_NAME, Collection, Kind, name_of};
use crate::keyspace::{Failure, Outcome};
use crate::protocol::Reply;

const fn row(
    name: &'static str,
    arity: i32,
    flags: u32,
    since: &'static str,
    summary: &'static str,
    run: super::Handler,
) -> Row {
    let row = Row::new("set", name, arity, flags, since, summary, run).key();
    if flags & WRITE == 0 { row.access(Access::View) } else { row }
}

const ADDS: u32 = WRITE | DENYOOM;

/// See the module's head.
pub const ROWS: &[Row] = &[
    row("sadd", -3, ADDS | FAST, "1.0.0", "Adds members.", sadd),
    row("scard", 2, READONLY | FAST, "1.0.0", "Counts the members.", scard),
    row(
        "sdiff",
        -2,
        READONLY,
        "1.0.0",
        "Returns the difference of the first set and the others.",
        |c| combine(c, Join::Difference),
    )
    .keys(1, -1, 1),
    row(
        "sdiffstore",
        -3,
        ADDS,
        "1.0.0",
        "Stores the difference of the first set and the others.",
        |c| store(c, Join::Difference),
    )
    .keys(1, -1, 1),
    row("sinter", -2, READONLY, "1.0.0", "Returns the intersection of sets.", |c| {
        combine(c, Join::Intersection)
    })
    .keys(1, -1, 1),
    row(
        "sintercard",
        -3,
        READONLY,
        "7.0.0",
        "Counts the members of an intersection of sets.",
        sintercard,
    )
    .counted(1, false),
    row("sinterstore", -3, ADDS, "1.0.0", "Stores the intersection of sets.", |c| {
        store(c, Join::Intersection)
    })
    .keys(1, -1, 1),
    row("sismember", 3, READONLY | FAST, "1.0.0", "Checks whether a member exists.", sismember),
    row("smembers", 2, READONLY, "1.0.0", "Returns all members.", |c| combine(c, Join::Union)),
    row("smismember", -3, READONLY | FAST, "6.2.0", "Checks which members exist.", smismember),
    row("smove", 4, WRITE | FAST, "1.0.0", "Moves a member to another set.", smove).keys(1, 2, 1),
    row("spop", -2, WRITE | FAST, "1.0.0", "Removes and returns random members.", spop),
    row("srandmember", -2, READONLY, "1.0.0", "Returns random members.", srandmember),
    row("srem", -3, WRITE | FAST, "1.0.0", "Removes members.", srem),
    row("sscan", -3, READONLY, "2.8.0", "Lists the members in steps.", sscan),
    row("sunion", -2, READONLY, "1.0.0", "Returns the union of sets.", |c| combine(c, Join::Union))
        .keys(1, -1, 1),
    row("sunionstore", -3, ADDS, "1.0.0", "Stores the union of sets.", |c| store(c, Join::Union))
        .keys(1, -1, 1),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Join {
    Union,
    Intersection,
    Difference,
}

fn sadd(call: &mut Call<'_, '_>) -> Outcome<()> {
    let added = add(call, call.args[1], &call.args[2..], "sadd")?;
    call.out.integer(added);
    Ok(())
}

/// Adds members to the set at `key`; returns how many are new.
fn add(
    call: &mut Call<'_, '_>,
    key: &[u8],
    members: &[&[u8]],
    event: &'static str,
) -> Outcome<i64> {
    let mut set = call.txn.collection_or_new(key, Kind::Set)?;
    let mut new = 0;
    for member in members {
        let element = set.element(BY_NAME, member);
        if call.txn.get(&element)?.is_none() {
            call.txn.put_element(&mut set, element, Vec::new());
            new += 1;
        }
    }
    if new > 0 {
        set.count += new;
        call.txn.save(key, &mut set);
        call.txn.event(key, b's', event);
    }
    Ok(new as i64)
}

/// Removes members from a set; returns how many were there.
fn remove(
    call: &mut Call<'_, '_>,
    key: &[u8],
    set: &mut Collection,
    members: &[&[u8]],
    event: &'static str,
) -> Outcome<i64> {
    let mut removed = 0;
    for member in members {
        let element = set.element(BY_NAME, member);
        if call.txn.get(&element)?.is_some() {
            call.txn.delete(element);
            removed += 1;
        }
    }
    if removed > 0 {
        set.remove(removed);
        call.txn.save(key, set);
        call.txn.event(key, b's', event);
        if set.count == 0 {
            call.txn.event(key, b'g', "del");
        }
    }
    Ok(removed as i64)
}

fn srem(call: &mut Call<'_, '_>) -> Outcome<()> {
    let key = call.args[1];
    let removed = match call.txn.collection(key, Kind::Set)? {
        Some(mut set) => remove(call, key, &mut set, &call.args[2..], "srem")?,
        None => 0,
    };
    call.out.integer(removed);
    Ok(())
}

fn scard(call: &mut Call<'_, '_>) -> Outcome<()> {
    let count = call.txn.collection(call.args[1], Kind::Set)?.map_or(0, |set| set.count);
    call.out.integer(count as i64);
    Ok(())
}

fn has(call: &Call<'_, '_>, set: &Option<Collection>, member: &[u8]) -> Outcome<bool> {
    match set {
        Some(set) => Ok(call.txn.get(&set.element(BY_NAME, member))?.is_some()),
        None => Ok(false),
    }
}

fn sismember(call: &mut Call<'_, '_>) -> Outcome<()> {
    let set = call.txn.collection(call.args[1], Kind::Set)?;
    let found = has(call, &set, call.args[2])?;
    call.out.integer(i64::from(found));
    Ok(())
}

fn smismember(call: &mut Call<'_, '_>) -> Outcome<()> {
    let set = call.txn.collection(call.args[1], Kind::Set)?;
    call.out.array(call.args.len() - 2);
    for member in &call.args[2..] {
        let found = has(call, &set, member)?;
        call.out.integer(i64::from(found));
    }
    Ok(())
}

fn smove(call: &mut Call<'_, '_>) -> Outcome<()> {
    let (from, to, member) = (call.args[1], call.args[2], call.args[3]);
    let source = call.txn.collection(from, Kind::Set)?;
    let Some(mut source) = source else {
        call.out.integer(0);
        return Ok(());
    };
    call.txn.collection(to, Kind::Set)?;
    if from == to {
        let found = has(call, &Some(source), member)?;
        call.out.integer(i64::from(found));
        return Ok(());
    }
    let moved = remove(call, from, &mut source, &[member], "srem")?;
    if moved > 0 {
        add(call, to, &[member], "sadd")?;
    }
    call.out.integer(moved);
    Ok(())
}

fn spop(call: &mut Call<'_, '_>) -> Outcome<()> {
    let key = call.args[1];
    if call.args.len() > 3 {
        return Err(Failure::SYNTAX);
    }
    const NEGATIVE: Failure = Failure::text("ERR value is out of range, must be positive");
    let count = call.args.get(2).map(|arg| integer(arg).map_err(|_| NEGATIVE)).transpose()?;
    if count.is_some_and(|count| count < 0) {
        return Err(NEGATIVE);
    }
    let set = call.txn.collection(key, Kind::Set)?;
    let picked = match (&set, count) {
        (None, _) | (_, Some(0)) => Vec::new(),
        (Some(set), count) => by_chance(call, set, count.unwrap_or(1))?,
    };
    let members: Vec<&[u8]> = picked.iter().map(|(name, _)| name.as_slice()).collect();
    if let Some(mut set) = set.filter(|_| !members.is_empty()) {
        remove(call, key, &mut set, &members, "spop")?;
    }
    match count {
        None => call.out.bulk_or_null(members.first().copied()),
        Some(_) => {
            call.out.set(members.len());
            members.iter().for_each(|member| call.out.bulk(member));
        }
    }
    Ok(())
}

fn srandmember(call: &mut Call<'_, '_>) -> Outcome<()> {
    if call.args.len() > 3 {
        return Err(Failure::SYNTAX);
    }
    let count = call.args.get(2).map(|arg| chance_count(arg)).transpose()?;
    let set = call.txn.collection(call.args[1], Kind::Set)?;
    let picked = match set {
        Some(set) => by_chance(call, &set, count.unwrap_or(1))?,
        None => Vec::new(),
    };
    if count.is_none() {
        call.out.bulk_or_null(picked.first().map(|(name, _)| name.as_slice()));
        return Ok(());
    }
    call.out.array(picked.len());
    picked.iter().for_each(|(name, _)| call.out.bulk(name));
    Ok(())
}

fn sscan(call: &mut Call<'_, '_>) -> Outcome<()> {
    let emit: fn(&mut Reply, &[u8], &[u8]) = |out, name, _| out.bulk(name);
    scan_collection(call, Kind::Set, emit, 1)
}

fn members(call: &Call<'_, '_>, set: &Collection) -> Outcome<BTreeSet<Vec<u8>>> {
    let mut members = BTreeSet::new();
    call.txn.walk(&set.part(BY_NAME), false, &mut |key, _| {
        members.insert(name_of(key).to_vec());
        true
    })?;
    Ok(members)
}

/// The result of the sets at `keys`.
fn joined(call: &mut Call<'_, '_>, keys: &[&[u8]], join: Join) -> Outcome<BTreeSet<Vec<u8>>> {
    let mut sets = Vec::new();
    for key in keys {
        sets.push(call.txn.collection(key, Kind::Set)?);
    }
    let mut sum = BTreeSet::new();
    match join {
        Join::Union => {
            for set in sets.iter().flatten() {
                sum.append(&mut members(call, set)?);
            }
        }
        Join::Intersection | Join::Difference => {
            if join == Join::Intersection && sets.iter().any(Option::is_none) {
                return Ok(sum);
            }
            // The smallest set is iterated, the others are probed.
            let first = match join {
                Join::Intersection => {
                    let count = |set: &Option<Collection>| set.as_ref().map_or(0, |s| s.count);
                    (0..sets.len()).min_by_key(|&at| count(&sets[at])).unwrap_or(0)
                }
                _ => 0,
            };
            let Some(walked) = &sets[first] else { return Ok(sum) };
            'members: for member in members(call, walked)? {
                for (at, other) in sets.iter().enumerate() {
                    let wanted = join == Join::Intersection;
                    if at != first && has(call, other, &member)? != wanted {
                        continue 'members;
                    }
                }
                sum.insert(member);
            }
        }
    }
    Ok(sum)
}

fn combine(call: &mut Call<'_, '_>, join: Join) -> Outcome<()> {
    let keys = call.args[1..].to_vec();
    let sum = joined(call, &keys, join)?;
    call.out.set(sum.len());
    sum.iter().for_each(|member| call.out.bulk(member));
    Ok(())
}

fn store(call: &mut Call<'_, '_>, join: Join) -> Outcome<()> {
    let (target, keys) = (call.args[1], call.args[2..].to_vec());
    let sum = joined(call, &keys, join)?;
    let old = call.txn.find(target)?;
    if let Some(old) = &old {
        call.txn.remove(target, old)?;
    }
    let event = match join {
        Join::Union => "sunionstore",
        Join::Intersection => "sinterstore",
        Join::Difference => "sdiffstore",
    };
    if sum.is_empty() {
        if old.is_some() {
            call.txn.event(target, b'g', "del");
        }
    } else {
        let mut set = call.txn.new_collection(target, Kind::Set)?;
        set.count = sum.len() as u64;
        sum.iter().for_each(|member| call.txn.put(set.element(BY_NAME, member), Vec::new()));
        call.txn.save(target, &mut set);
        call.txn.event(target, b's', event);
    }
    call.out.count(sum.len());
    Ok(())
}

/// There are fewer arguments than keys.
pub const TOO_MANY_KEYS: &str = "ERR Number of keys can't be greater than number of args";

/// The keys after their number at `at`, and the arguments that follow them.
///
/// # Errors
/// The number is invalid, not positive, or larger than the number of arguments that follow.
pub fn counted<'a>(args: &[&'a [u8]], at: usize) -> Outcome<(Args<'a>, Args<'a>)> {
    const NUMKEYS: Failure = Failure::text("ERR numkeys should be greater than 0");
    let number = integer(args[at]).map_err(|_| NUMKEYS)?;
    let number = usize::try_from(number).ok().filter(|n| *n > 0).ok_or(NUMKEYS)?;
    let rest = &args[at + 1..];
    if number > rest.len() {
        return Err(Failure::text(TOO_MANY_KEYS));
    }
    Ok((rest[..number].to_vec(), rest[number..].to_vec()))
}

/// LIMIT of SINTERCARD and ZINTERCARD; 0 for none.
///
/// # Errors
/// Anything else is there.
pub fn limit(rest: &[&[u8]]) -> Outcome<usize> {
    const NEGATIVE: Failure = Failure::text("ERR LIMIT can't be negative");
    match rest {
        [] => Ok(0),
        [word, number] if is(word, "limit") => {
            let number = integer(number).map_err(|_| NEGATIVE)?;
            usize::try_from(number).map_err(|_| NEGATIVE)
        }
        _ => Err(Failure::SYNTAX),
    }
}

fn sintercard(call: &mut Call<'_, '_>) -> Outcome<()> {
    let (keys, rest) = counted(call.args, 1)?;
    let limit = limit(&rest)?;
    let len = joined(call, &keys, Join::Intersection)?.len();
    call.out.count(if limit > 0 { len.min(limit) } else { len });
    Ok(())
}
