//! SORT and SORT_RO: the elements of a list, a set or a sorted set, ordered by themselves or by
//! other keys, and looked up in other keys.
//!
//! Keys that BY and GET name are looked up in one consistent state; the command locks only its key
//! and the one of STORE. Elements that compare equal are ordered by their bytes. Thread safety: see
//! the module above.

use std::cmp::Ordering;

use super::args::{integer, upper};
use super::{Access, Call, DENYOOM, Keys, READONLY, Row, WRITE};
use crate::keyspace::encoding::{BY_NAME, BY_SCORE, Kind, name_of, scored_of};
use crate::keyspace::{Failure, Outcome};
use crate::protocol::number;

const fn row(
    name: &'static str,
    flags: u32,
    since: &'static str,
    summary: &'static str,
    run: super::Handler,
) -> Row {
    let row = Row::new("generic", name, -2, flags | super::MOVABLEKEYS, since, summary, run).key();
    row.categories(&["set", "sortedset", "list", super::DANGEROUS])
}

/// See the module's head.
pub const ROWS: &[Row] = &[
    Row {
        keys: Keys::Sort,
        access: Access::WriteOneMoment,
        ..row("sort", WRITE | DENYOOM, "1.0.0", "Sorts elements, and may store them.", |call| {
            sort(call, true)
        })
    },
    row("sort_ro", READONLY, "7.0.0", "Sorts elements.", |call| sort(call, false))
        .access(Access::View),
];

#[derive(Default)]
struct Request<'a> {
    by: Option<&'a [u8]>,
    /// The pattern of BY names no key: the order is kept.
    keeps_order: bool,
    gets: Vec<&'a [u8]>,
    limit: Option<(i64, i64)>,
    descending: bool,
    alpha: bool,
    store: Option<&'a [u8]>,
}

/// The key that STORE names; the last one counts.
pub fn stored_key<'a>(args: &[&'a [u8]]) -> Option<&'a [u8]> {
    request(args, true).ok().and_then(|request| request.store)
}

fn request<'a>(args: &[&'a [u8]], stores: bool) -> Outcome<Request<'a>> {
    let mut request = Request::default();
    let mut rest = args.get(2..).unwrap_or_default();
    while let Some((word, more)) = rest.split_first() {
        rest = match (upper(word).as_slice(), more) {
            (b"ASC", _) => {
                request.descending = false;
                more
            }
            (b"DESC", _) => {
                request.descending = true;
                more
            }
            (b"ALPHA", _) => {
                request.alpha = true;
                more
            }
            (b"LIMIT", [skip, count, more @ ..]) => {
                request.limit = Some((integer(skip)?, integer(count)?));
                more
            }
            (b"STORE", [key, more @ ..]) if stores => {
                request.store = Some(*key);
                more
            }
            (b"BY", [pattern, more @ ..]) => {
                request.by = Some(*pattern);
                request.keeps_order |= !pattern.contains(&b'*');
                more
            }
            (b"GET", [pattern, more @ ..]) => {
                request.gets.push(*pattern);
                more
            }
            _ => return Err(Failure::SYNTAX),
        };
    }
    Ok(request)
}

/// Keys that patterns name are not arguments: only users that may read every key may look them up.
fn may_look_up(call: &Call<'_, '_>, request: &Request<'_>, stores: bool) -> Outcome<()> {
    // As in Redis: GET alone is enough, even of the element itself.
    let (by, get) = (request.by.is_some() && !request.keeps_order, !request.gets.is_empty());
    let row = super::find(if stores { b"sort" } else { b"sort_ro" });
    if !(by || get) || row.is_some_and(|row| super::permits::reads_all_keys(call, row)) {
        return Ok(());
    }
    let option = if by { "BY" } else { "GET" };
    let why = "option of SORT denied due to insufficient ACL permissions.";
    Err(super::args::fail(format!("ERR {option} {why}")))
}

/// The elements in their own order, and the type they are from.
fn elements(call: &mut Call<'_, '_>, request: &Request<'_>) -> Outcome<(Vec<Vec<u8>>, Kind)> {
    let key = call.args[1];
    let Some(found) = call.txn.find(key)? else { return Ok((Vec::new(), Kind::List)) };
    let kind = found.kind();
    let mut all = Vec::new();
    let part = match kind {
        Kind::List | Kind::Set => BY_NAME,
        Kind::SortedSet => BY_SCORE,
        Kind::String | Kind::Hash => return Err(Failure::WRONG_TYPE),
    };
    let collection = call.txn.collection_of(key, &found);
    let backwards = kind != Kind::Set && request.descending && request.keeps_order;
    call.txn.walk(&collection.part(part), backwards, &mut |key, value| {
        let element = match kind {
            Kind::List => value,
            Kind::SortedSet => scored_of(key).1,
            _ => name_of(key),
        };
        all.push(element.to_vec());
        true
    })?;
    Ok((all, kind))
}

/// What a pattern yields for an element: `#` the element itself, `text*text` the string of that
/// key, with `->` after the star the field of a hash.
fn look_up(call: &mut Call<'_, '_>, pattern: &[u8], element: &[u8]) -> Outcome<Option<Vec<u8>>> {
    if pattern == b"#" {
        return Ok(Some(element.to_vec()));
    }
    let Some(star) = pattern.iter().position(|&b| b == b'*') else { return Ok(None) };
    let rest = &pattern[star + 1..];
    let arrow = rest.windows(2).position(|pair| pair == b"->");
    let arrow = arrow.filter(|at| at + 2 < rest.len());
    let (tail, field) = match arrow {
        Some(at) => (&rest[..at], Some(&rest[at + 2..])),
        None => (rest, None),
    };
    let key = [&pattern[..star], element, tail].concat();
    // The key's lock is not held: an expired key is left for others to delete.
    let Some(found) = call.txn.peek(&key)? else { return Ok(None) };
    match (field, found.kind()) {
        (None, Kind::String) => Ok(Some(found.string().to_vec())),
        (Some(field), Kind::Hash) => {
            let hash = call.txn.collection_of(&key, &found);
            Ok(call.txn.get(&hash.element(BY_NAME, field))?.map(|value| value.to_vec()))
        }
        _ => Ok(None),
    }
}

/// The sort key of an element.
enum Weight {
    Number(f64),
    Text(Option<Vec<u8>>),
}

fn compare(one: &Weight, other: &Weight) -> Ordering {
    match (one, other) {
        (Weight::Number(one), Weight::Number(other)) => {
            one.partial_cmp(other).unwrap_or(Ordering::Equal)
        }
        (Weight::Text(one), Weight::Text(other)) => one.cmp(other),
        _ => Ordering::Equal,
    }
}

fn weighed(
    call: &mut Call<'_, '_>,
    request: &Request<'_>,
    elements: Vec<Vec<u8>>,
) -> Outcome<Vec<(Weight, Vec<u8>)>> {
    const NO_DOUBLE: Failure =
        Failure::text("ERR One or more scores can't be converted into double");
    let mut room = call.txn.room();
    let mut all = Vec::with_capacity(elements.len());
    for element in elements {
        let text = match request.by {
            Some(pattern) => look_up(call, pattern, &element)?,
            None => Some(element.clone()),
        };
        room = take_room(room, text.as_ref().map_or(0, Vec::len))?;
        let weight = match (request.alpha, text) {
            (true, text) => Weight::Text(text),
            (false, None) => Weight::Number(0.0),
            (false, Some(text)) => {
                let blank = matches!(text.as_slice(), [] | [0, ..]);
                let number = number::double(number::as_c_reads(&text));
                let number = if blank { Some(0.0) } else { number };
                Weight::Number(number.ok_or(NO_DOUBLE)?)
            }
        };
        all.push((weight, element));
    }
    Ok(all)
}

fn take_room(room: usize, bytes: usize) -> Outcome<usize> {
    room.checked_sub(bytes + size_of::<Vec<u8>>()).ok_or(Failure::TOO_LARGE)
}

fn sort(call: &mut Call<'_, '_>, stores: bool) -> Outcome<()> {
    let mut request = request(call.args, stores)?;
    may_look_up(call, &request, stores)?;
    let (mut elements, kind) = elements(call, &request)?;
    if request.keeps_order && kind == Kind::Set && request.store.is_some() {
        // A stored result has an order that depends on nothing else.
        (request.by, request.alpha, request.keeps_order) = (None, true, false);
    }
    if !request.keeps_order {
        let mut all = weighed(call, &request, elements)?;
        all.sort_by(|one, other| {
            let order = compare(&one.0, &other.0);
            let order = order.then_with(|| one.1.cmp(&other.1));
            if request.descending { order.reverse() } else { order }
        });
        elements = all.into_iter().map(|(_, element)| element).collect();
    }
    let (skip, count) = request.limit.unwrap_or((0, -1));
    let skip = usize::try_from(skip).unwrap_or(0);
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let chosen: Vec<_> = elements.into_iter().skip(skip).take(count).collect();
    let (mut found, mut room) = (Vec::new(), call.txn.room());
    for element in chosen {
        if request.gets.is_empty() {
            found.push(Some(element));
            continue;
        }
        for pattern in &request.gets {
            let value = look_up(call, pattern, &element)?;
            room = take_room(room, value.as_ref().map_or(0, Vec::len))?;
            found.push(value);
        }
    }
    let Some(target) = request.store else {
        call.out.array(found.len());
        found.iter().for_each(|value| call.out.bulk_or_null(value.as_deref()));
        return Ok(());
    };
    store(call, target, found)
}

/// Stores the result as a list, replacing any value.
fn store(call: &mut Call<'_, '_>, target: &[u8], found: Vec<Option<Vec<u8>>>) -> Outcome<()> {
    let old = call.txn.find(target)?;
    if let Some(old) = &old {
        call.txn.remove(target, old)?;
    }
    let count = found.len();
    if count > 0 {
        let mut list = call.txn.new_collection(target, Kind::List)?;
        list.count = count as u64;
        for (index, value) in (0..).zip(found) {
            call.txn.put(list.at(index), value.unwrap_or_default());
        }
        call.txn.save(target, &mut list);
        call.txn.event(target, b'l', "sortstore");
    } else if old.is_some() {
        call.txn.event(target, b'g', "del");
    }
    call.out.count(count);
    Ok(())
}
