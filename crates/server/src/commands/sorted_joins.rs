//! Commands on several sorted sets (or sets, whose members have score 1), and random members.
//!
//! Thread safety: see the module above.

use std::collections::BTreeMap;

use super::args::{Args, fail, integer, upper};
use super::blocking::{highest, pop_request};
use super::hashes::{by_chance, chance_request};
use super::sets::limit;
use super::sorted_ranges::{replace, reply, weight};
use super::sorted_sets::{ends, remove, save_removed, score_from};
use super::{Access, Call, DENYOOM, READONLY, Row, WRITE};
use crate::keyspace::encoding::{BY_NAME, Collection, Kind, name_of};
use crate::keyspace::{Failure, Outcome};

const fn read(
    name: &'static str,
    arity: i32,
    since: &'static str,
    summary: &'static str,
    run: super::Handler,
) -> Row {
    let row = Row::new("sorted-set", name, arity, READONLY, since, summary, run);
    row.counted(1, false).access(Access::View)
}

const fn write(
    name: &'static str,
    since: &'static str,
    summary: &'static str,
    run: super::Handler,
) -> Row {
    Row::new("sorted-set", name, -4, WRITE | DENYOOM, since, summary, run).counted(2, true)
}

/// See the module's head.
pub const ROWS: &[Row] = &[
    read("zdiff", -3, "6.2.0", "Returns the difference of the first set and the others.", |call| {
        combine(call, Join::Difference)
    }),
    write(
        "zdiffstore",
        "6.2.0",
        "Stores the difference of the first set and the others.",
        |call| store(call, Join::Difference),
    ),
    read("zinter", -3, "6.2.0", "Returns the intersection of sets.", |call| {
        combine(call, Join::Intersection)
    }),
    read("zintercard", -3, "7.0.0", "Counts the members of an intersection of sets.", intercard),
    write("zinterstore", "2.0.0", "Stores the intersection of sets.", |call| {
        store(call, Join::Intersection)
    }),
    Row::new(
        "sorted-set",
        "zmpop",
        -4,
        WRITE,
        "7.0.0",
        "Takes members from the first sorted set that has any.",
        zmpop,
    )
    .counted(1, false),
    Row::new(
        "sorted-set",
        "zrandmember",
        -2,
        READONLY,
        "6.2.0",
        "Returns random members.",
        zrandmember,
    )
    .key(),
    read("zunion", -3, "6.2.0", "Returns the union of sets.", |call| combine(call, Join::Union)),
    write("zunionstore", "2.0.0", "Stores the union of sets.", |call| store(call, Join::Union)),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Join {
    Union,
    Intersection,
    Difference,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

/// Members with their scores, of a sorted set or a set.
fn members(call: &mut Call<'_, '_>, key: &[u8]) -> Outcome<BTreeMap<Vec<u8>, f64>> {
    let mut all = BTreeMap::new();
    let Some(found) = call.txn.find(key)? else { return Ok(all) };
    let is_set = found.kind() == Kind::Set;
    if !is_set && found.kind() != Kind::SortedSet {
        return Err(Failure::WRONG_TYPE);
    }
    let collection = call.txn.collection_of(key, &found);
    call.txn.walk(&collection.part(BY_NAME), false, &mut |key, value| {
        let score = if is_set { 1.0 } else { score_from(value) };
        all.insert(name_of(key).to_vec(), score);
        true
    })?;
    Ok(all)
}

struct Request<'a> {
    keys: Vec<&'a [u8]>,
    weights: Vec<f64>,
    aggregate: Aggregate,
    scores: bool,
}

/// The keys whose number is argument `at`, checked for their types, and the arguments after them.
fn input_keys<'a>(call: &mut Call<'a, '_>, at: usize) -> Outcome<(Args<'a>, Args<'a>)> {
    let args: &'a [&'a [u8]] = call.args;
    let number = integer(args[at])?;
    if number < 1 {
        let name = String::from_utf8_lossy(args[0]).to_ascii_lowercase();
        let text = format!("ERR at least 1 input key is needed for '{name}' command");
        return Err(fail(text));
    }
    let given = &args[at + 1..];
    let number = usize::try_from(number).ok().filter(|n| *n <= given.len());
    let (keys, rest) = given.split_at(number.ok_or(Failure::SYNTAX)?);
    for key in keys {
        let found = call.txn.find(key)?;
        if found.is_some_and(|found| !matches!(found.kind(), Kind::Set | Kind::SortedSet)) {
            return Err(Failure::WRONG_TYPE);
        }
    }
    Ok((keys.to_vec(), rest.to_vec()))
}

/// The request: keys, and the words after them.
fn request<'a>(
    call: &mut Call<'a, '_>,
    at: usize,
    join: Join,
    stores: bool,
) -> Outcome<Request<'a>> {
    let (keys, rest) = input_keys(call, at)?;
    let mut rest = rest.as_slice();
    let number = keys.len();
    let weights = vec![1.0; number];
    let mut request = Request { keys, weights, aggregate: Aggregate::Sum, scores: false };
    while let Some((word, more)) = rest.split_first() {
        rest = match upper(word).as_slice() {
            b"WEIGHTS" if join != Join::Difference && more.len() >= number => {
                for (own, arg) in request.weights.iter_mut().zip(more) {
                    *own = weight(arg)?;
                }
                &more[number..]
            }
            b"AGGREGATE" if join != Join::Difference && !more.is_empty() => {
                request.aggregate = match upper(more[0]).as_slice() {
                    b"SUM" => Aggregate::Sum,
                    b"MIN" => Aggregate::Min,
                    b"MAX" => Aggregate::Max,
                    _ => return Err(Failure::SYNTAX),
                };
                &more[1..]
            }
            b"WITHSCORES" if !stores => {
                request.scores = true;
                more
            }
            _ => return Err(Failure::SYNTAX),
        };
    }
    Ok(request)
}

/// A score times a weight; NaN becomes zero.
fn weighted(score: f64, weight: f64) -> f64 {
    let product = score * weight;
    if product.is_nan() { 0.0 } else { product }
}

fn joined(
    call: &mut Call<'_, '_>,
    request: &Request<'_>,
    join: Join,
) -> Outcome<Vec<(Vec<u8>, f64)>> {
    let mut sets = Vec::new();
    for key in &request.keys {
        sets.push(members(call, key)?);
    }
    let mut weights = request.weights.clone();
    if join != Join::Difference {
        // Sums of floating-point numbers depend on their order: Redis adds the smallest set first.
        let mut order: Vec<usize> = (0..sets.len()).collect();
        order.sort_by_key(|&at| sets[at].len());
        weights = order.iter().map(|&at| request.weights[at]).collect();
        sets = order.iter().map(|&at| std::mem::take(&mut sets[at])).collect();
    }
    let mut sum: BTreeMap<Vec<u8>, f64> = BTreeMap::new();
    match join {
        Join::Difference => {
            let others = sets.split_off(1);
            let first = sets.pop().unwrap_or_default();
            let only = first.into_iter().filter(|(m, _)| !others.iter().any(|o| o.contains_key(m)));
            sum.extend(only);
        }
        Join::Union => {
            for (set, weight) in sets.into_iter().zip(weights) {
                for (member, score) in set {
                    let score = weighted(score, weight);
                    sum.entry(member)
                        .and_modify(|own| *own = merged(*own, score, request.aggregate))
                        .or_insert(score);
                }
            }
        }
        Join::Intersection => {
            let (first, others) = (&sets[0], &sets[1..]);
            for (member, score) in first {
                let mut score = Some(weighted(*score, weights[0]));
                for (other, weight) in others.iter().zip(&weights[1..]) {
                    // Not `weighted`: in Redis only the first product cannot be NaN.
                    let product = other.get(member).map(|score| score * weight);
                    let both = score.zip(product);
                    score = both.map(|(one, two)| merged(one, two, request.aggregate));
                }
                sum.extend(score.map(|score| (member.clone(), score)));
            }
        }
    }
    let mut all: Vec<_> = sum.into_iter().collect();
    // Both zeros are equal.
    all.sort_by(|one, two| (one.1 + 0.0).total_cmp(&(two.1 + 0.0)).then_with(|| one.0.cmp(&two.0)));
    Ok(all)
}

fn merged(one: f64, two: f64, aggregate: Aggregate) -> f64 {
    match aggregate {
        Aggregate::Sum if (one + two).is_nan() => 0.0,
        Aggregate::Sum => one + two,
        Aggregate::Min => {
            if two < one {
                two
            } else {
                one
            }
        }
        Aggregate::Max => {
            if two > one {
                two
            } else {
                one
            }
        }
    }
}

fn combine(call: &mut Call<'_, '_>, join: Join) -> Outcome<()> {
    let request = request(call, 1, join, false)?;
    let found = joined(call, &request, join)?;
    reply(call, &found, request.scores);
    Ok(())
}

fn store(call: &mut Call<'_, '_>, join: Join) -> Outcome<()> {
    let request = request(call, 2, join, true)?;
    let found = joined(call, &request, join)?;
    let event = match join {
        Join::Union => "zunionstore",
        Join::Intersection => "zinterstore",
        Join::Difference => "zdiffstore",
    };
    replace(call, call.args[1], &found, event)
}

fn intercard(call: &mut Call<'_, '_>) -> Outcome<()> {
    let (keys, rest) = input_keys(call, 1)?;
    let limit = limit(&rest)?;
    let weights = vec![1.0; keys.len()];
    let request = Request { keys, weights, aggregate: Aggregate::Sum, scores: false };
    let len = joined(call, &request, Join::Intersection)?.len();
    call.out.count(if limit > 0 { len.min(limit) } else { len });
    Ok(())
}

/// Takes members with the lowest or highest scores and replies with the key and an array of them,
/// or, if `count` is None, with the key, one member and its score. False when there are none. After
/// an error nothing is taken.
///
/// # Errors
/// The key holds another type; the reply cannot hold them; the engine's.
pub fn pop_sorted(
    call: &mut Call<'_, '_>,
    key: &[u8],
    highest: bool,
    count: Option<u64>,
) -> Outcome<bool> {
    let Some(mut set) = call.txn.collection(key, Kind::SortedSet)? else { return Ok(false) };
    let popped = ends(call.txn, &set, highest, count.unwrap_or(1))?;
    call.out.array(if count.is_some() { 2 } else { 3 });
    call.out.bulk(key);
    if count.is_some() {
        call.out.array(popped.len());
    }
    for (member, score) in &popped {
        if count.is_some() {
            call.out.array(2);
        }
        call.out.bulk(member);
        call.out.double(*score);
    }
    if call.out.is_full() {
        return Err(Failure::TOO_LARGE);
    }
    for (member, score) in &popped {
        remove(call.txn, &mut set, member, *score);
    }
    let event = if highest { "zpopmax" } else { "zpopmin" };
    save_removed(call.txn, key, &mut set, event);
    Ok(true)
}

fn zmpop(call: &mut Call<'_, '_>) -> Outcome<()> {
    let (keys, highest, count) = pop_request(call.args, 1, highest)?;
    for key in keys {
        if pop_sorted(call, key, highest, Some(count))? {
            return Ok(());
        }
    }
    call.out.null_array();
    Ok(())
}

fn zrandmember(call: &mut Call<'_, '_>) -> Outcome<()> {
    let (count, scores) = chance_request(&call.args[2..], "withscores")?;
    let set: Option<Collection> = call.txn.collection(call.args[1], Kind::SortedSet)?;
    let picked = match set {
        Some(set) => by_chance(call, &set, count.unwrap_or(1))?,
        None => Vec::new(),
    };
    if count.is_none() {
        call.out.bulk_or_null(picked.first().map(|(name, _)| name.as_slice()));
        return Ok(());
    }
    let picked: Vec<_> = picked.into_iter().map(|(name, v)| (name, score_from(&v))).collect();
    reply(call, &picked, scores);
    Ok(())
}
