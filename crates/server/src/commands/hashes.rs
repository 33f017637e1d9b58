//! Commands on hashes.
//!
//! Thread safety: see the module above.

use super::args::{BEYOND_LONG, fail, integer, is};
use super::counters::float_sum;
use super::scan::scan_collection;
use super::{Call, DENYOOM, FAST, READONLY, Row, WRITE};
use crate::keyspace::encoding::{BY_NAME, Collection, Kind, name_of};
use crate::keyspace::{Failure, Outcome};
use crate::protocol::Reply;
use crate::protocol::extended::Extended;
use crate::protocol::number::{self, push_integer};

const fn read(
    name: &'static str,
    arity: i32,
    flags: u32,
    since: &'static str,
    summary: &'static str,
    run: super::Handler,
) -> Row {
    let row = Row::new("hash", name, arity, flags | READONLY, since, summary, run).key();
    row.access(super::Access::View)
}

const fn write(
    name: &'static str,
    arity: i32,
    since: &'static str,
    summary: &'static str,
    run: super::Handler,
) -> Row {
    Row::new("hash", name, arity, WRITE | DENYOOM | FAST, since, summary, run).key()
}

/// See the module's head.
pub const ROWS: &[Row] = &[
    Row::new("hash", "hdel", -3, WRITE | FAST, "2.0.0", "Deletes fields.", hdel).key(),
    read("hexists", 3, FAST, "2.0.0", "Checks whether a field exists.", hexists),
    read("hget", 3, FAST, "2.0.0", "Returns the value of a field.", hget),
    read("hgetall", 2, 0, "2.0.0", "Returns all fields with their values.", hgetall),
    write("hincrby", 4, "2.0.0", "Adds an integer to a field.", hincrby),
    write("hincrbyfloat", 4, "2.6.0", "Adds a number to a field.", hincrbyfloat),
    read("hkeys", 2, 0, "2.0.0", "Returns all fields.", hkeys),
    read("hlen", 2, FAST, "2.0.0", "Counts the fields.", hlen),
    read("hmget", -3, FAST, "2.0.0", "Returns the values of several fields.", hmget),
    write("hmset", -4, "2.0.0", "Sets several fields.", hmset),
    read("hrandfield", -2, 0, "6.2.0", "Returns random fields.", hrandfield),
    read("hscan", -3, 0, "2.8.0", "Lists the fields in steps.", hscan),
    write("hset", -4, "2.0.0", "Sets fields.", hset),
    write("hsetnx", 4, "2.0.0", "Sets a field that does not exist.", hsetnx),
    read("hstrlen", 3, FAST, "3.2.0", "Returns the length of a field's value.", hstrlen),
    read("hvals", 2, 0, "2.0.0", "Returns the values of all fields.", hvals),
];

/// The hash at argument 1, for commands that only read.
fn hash(call: &mut Call<'_, '_>) -> Outcome<Option<Collection>> {
    let found = call.txn.collection(call.args[1], Kind::Hash)?;
    call.shared.stats.looked_up(found.is_some());
    Ok(found)
}

fn field(
    call: &Call<'_, '_>,
    hash: &Option<Collection>,
    field: &[u8],
) -> Outcome<Option<crate::keyspace::database::Stored>> {
    match hash {
        Some(hash) => call.txn.get(&hash.element(BY_NAME, field)),
        None => Ok(None),
    }
}

fn hget(call: &mut Call<'_, '_>) -> Outcome<()> {
    let hash = hash(call)?;
    let value = field(call, &hash, call.args[2])?;
    call.out.bulk_or_null(value.as_deref());
    Ok(())
}

fn hexists(call: &mut Call<'_, '_>) -> Outcome<()> {
    let hash = hash(call)?;
    let value = field(call, &hash, call.args[2])?;
    call.out.integer(i64::from(value.is_some()));
    Ok(())
}

fn hstrlen(call: &mut Call<'_, '_>) -> Outcome<()> {
    let hash = hash(call)?;
    let value = field(call, &hash, call.args[2])?;
    call.out.count(value.map_or(0, |value| value.len()));
    Ok(())
}

fn hlen(call: &mut Call<'_, '_>) -> Outcome<()> {
    let count = hash(call)?.map_or(0, |hash| hash.count);
    call.out.integer(count as i64);
    Ok(())
}

fn hmget(call: &mut Call<'_, '_>) -> Outcome<()> {
    let hash = hash(call)?;
    call.out.array(call.args.len() - 2);
    for name in &call.args[2..] {
        let value = field(call, &hash, name)?;
        call.out.bulk_or_null(value.as_deref());
    }
    Ok(())
}

/// Writes all fields with their values to `out`; `keys` and `values` select the parts.
fn all(call: &mut Call<'_, '_>, keys: bool, values: bool) -> Outcome<()> {
    let hash = hash(call)?;
    let count = hash.as_ref().map_or(0, |hash| hash.count as usize);
    if keys && values {
        call.out.map(count)
    } else {
        call.out.array(count)
    }
    let Some(hash) = hash else { return Ok(()) };
    let out = &mut *call.out;
    call.txn.pass(&hash.part(BY_NAME), false, &mut |key, value| {
        if keys {
            out.bulk(name_of(key));
        }
        if values {
            out.bulk(value);
        }
        !out.is_full()
    })
}

fn hgetall(call: &mut Call<'_, '_>) -> Outcome<()> {
    all(call, true, true)
}

fn hkeys(call: &mut Call<'_, '_>) -> Outcome<()> {
    all(call, true, false)
}

fn hvals(call: &mut Call<'_, '_>) -> Outcome<()> {
    all(call, false, true)
}

/// Sets the pairs from argument 2 on; returns how many fields are new.
fn set(call: &mut Call<'_, '_>, command: &str) -> Outcome<i64> {
    let pairs = &call.args[2..];
    if !pairs.len().is_multiple_of(2) {
        return Err(fail(format!("ERR wrong number of arguments for '{command}' command")));
    }
    let key = call.args[1];
    let mut hash = call.txn.collection_or_new(key, Kind::Hash)?;
    let mut new = 0;
    for pair in pairs.chunks_exact(2) {
        let element = hash.element(BY_NAME, pair[0]);
        new += u64::from(call.txn.get(&element)?.is_none());
        call.txn.put_element(&mut hash, element, pair[1].to_vec());
    }
    if new > 0 {
        hash.count += new;
        call.txn.save(key, &mut hash);
    }
    call.txn.event(key, b'h', "hset");
    Ok(new as i64)
}

fn hset(call: &mut Call<'_, '_>) -> Outcome<()> {
    let new = set(call, "hset")?;
    call.out.integer(new);
    Ok(())
}

fn hmset(call: &mut Call<'_, '_>) -> Outcome<()> {
    set(call, "hmset")?;
    call.out.ok();
    Ok(())
}

fn hsetnx(call: &mut Call<'_, '_>) -> Outcome<()> {
    let hash = call.txn.collection(call.args[1], Kind::Hash)?;
    let is_there = field(call, &hash, call.args[2])?.is_some();
    if !is_there {
        set(call, "hsetnx")?;
    }
    call.out.integer(i64::from(!is_there));
    Ok(())
}

fn hdel(call: &mut Call<'_, '_>) -> Outcome<()> {
    let key = call.args[1];
    let Some(mut hash) = call.txn.collection(key, Kind::Hash)? else {
        call.out.integer(0);
        return Ok(());
    };
    let mut deleted = 0;
    for name in &call.args[2..] {
        let element = hash.element(BY_NAME, name);
        if call.txn.get(&element)?.is_some() {
            call.txn.delete(element);
            deleted += 1;
        }
    }
    if deleted > 0 {
        hash.remove(deleted);
        call.txn.save(key, &mut hash);
        call.txn.event(key, b'h', "hdel");
        if hash.count == 0 {
            call.txn.event(key, b'g', "del");
        }
    }
    call.out.integer(deleted as i64);
    Ok(())
}

fn put_field(call: &mut Call<'_, '_>, value: &[u8], event: &'static str) -> Outcome<()> {
    let (key, name) = (call.args[1], call.args[2]);
    let mut hash = call.txn.collection_or_new(key, Kind::Hash)?;
    let element = hash.element(BY_NAME, name);
    let is_new = call.txn.get(&element)?.is_none();
    call.txn.put_element(&mut hash, element, value.to_vec());
    if is_new {
        hash.count += 1;
        call.txn.save(key, &mut hash);
    }
    call.txn.event(key, b'h', event);
    Ok(())
}

fn hincrby(call: &mut Call<'_, '_>) -> Outcome<()> {
    let by = integer(call.args[3])?;
    let hash = call.txn.collection(call.args[1], Kind::Hash)?;
    let old = field(call, &hash, call.args[2])?;
    let no_integer = Failure::text("ERR hash value is not an integer");
    let old = old.map_or(Some(0), |old| number::integer(&old)).ok_or(no_integer)?;
    let sum = old.checked_add(by);
    let sum = sum.ok_or(Failure::text("ERR increment or decrement would overflow"))?;
    let mut text = Vec::with_capacity(20);
    push_integer(&mut text, sum);
    put_field(call, &text, "hincrby")?;
    call.out.integer(sum);
    Ok(())
}

fn hincrbyfloat(call: &mut Call<'_, '_>) -> Outcome<()> {
    if number::double(call.args[3]).is_some_and(f64::is_infinite) {
        return Err(Failure::text("ERR value is NaN or Infinity"));
    }
    if Extended::parse(call.args[3]).is_none() {
        return Err(Failure::NOT_A_FLOAT);
    }
    let hash = call.txn.collection(call.args[1], Kind::Hash)?;
    let old = field(call, &hash, call.args[2])?;
    let no_float = Failure::text("ERR hash value is not a float");
    let text = float_sum(old.as_deref(), call.args[3], no_float)?;
    put_field(call, text.as_bytes(), "hincrbyfloat")?;
    call.out.bulk(text.as_bytes());
    Ok(())
}

fn hscan(call: &mut Call<'_, '_>) -> Outcome<()> {
    let emit: fn(&mut Reply, &[u8], &[u8]) = |out, name, value| {
        out.bulk(name);
        out.bulk(value);
    };
    scan_collection(call, Kind::Hash, emit, 2)
}

/// Names and values of randomly picked elements: distinct if `count` is not negative, and then no
/// more than there are.
///
/// # Errors
/// The engine's.
pub fn by_chance(
    call: &mut Call<'_, '_>,
    collection: &Collection,
    count: i64,
) -> Outcome<Vec<(Vec<u8>, Vec<u8>)>> {
    let len = collection.count;
    let mut room = call.txn.room();
    let most = if count < 0 { count.unsigned_abs() } else { len.min(count as u64) };
    if most > (room / PICK_BYTES) as u64 {
        return Err(Failure::TOO_LARGE);
    }
    let mut places = Vec::new();
    if count < 0 {
        places.extend((0..count.unsigned_abs()).map(|_| call.session.next_random() % len));
    } else if count as u64 >= len {
        places.extend(0..len);
    } else {
        // Floyd's sampling: a random index below each of the last `count`, or that index itself if
        // the random one is taken.
        let mut taken = std::collections::BTreeSet::new();
        for last in len - count as u64..len {
            let place = call.session.next_random() % (last + 1);
            let place = if taken.insert(place) { place } else { last };
            taken.insert(place);
            places.push(place);
        }
    }
    let mut wanted: Vec<(u64, usize)> = places.iter().copied().zip(0..).collect();
    wanted.sort_unstable();
    let mut picked = vec![(Vec::new(), Vec::new()); places.len()];
    let (mut at, mut rest, mut is_full) = (0, wanted.iter().peekable(), false);
    call.txn.pass(&collection.part(BY_NAME), false, &mut |key, value| {
        while let Some((_, index)) = rest.next_if(|(place, _)| *place == at) {
            is_full |= key.len() + value.len() > room;
            if is_full {
                return false;
            }
            room -= key.len() + value.len();
            picked[*index] = (name_of(key).to_vec(), value.to_vec());
        }
        at += 1;
        rest.peek().is_some()
    })?;
    if is_full { Err(Failure::TOO_LARGE) } else { Ok(picked) }
}

const OUT_OF_RANGE: Failure = Failure::text("ERR value is out of range");

/// A count for which a reply can be made.
///
/// # Errors
/// The value is not an integer, or out of range.
pub fn chance_count(arg: &[u8]) -> Outcome<i64> {
    match integer(arg)? {
        i64::MIN => Err(BEYOND_LONG),
        count if count < -MANY => Err(OUT_OF_RANGE),
        count => Ok(count),
    }
}

/// The count, and whether `word`, which requests the values too, follows it.
///
/// # Errors
/// The count is not an integer, or out of range; other words.
pub fn chance_request(args: &[&[u8]], word: &str) -> Outcome<(Option<i64>, bool)> {
    let Some((count, rest)) = args.split_first() else { return Ok((None, false)) };
    let count = chance_count(count)?;
    match rest {
        [] => Ok((Some(count), false)),
        [given] if !is(given, word) => Err(Failure::SYNTAX),
        [_] if count > i64::MAX / 2 => Err(OUT_OF_RANGE),
        [_] => Ok((Some(count), true)),
        _ => Err(Failure::SYNTAX),
    }
}

/// The cost of a pick besides its bytes.
const PICK_BYTES: usize = 72;

/// The most elements a command returns with repetition.
const MANY: i64 = 10_000_000;

fn hrandfield(call: &mut Call<'_, '_>) -> Outcome<()> {
    let (count, with_values) = chance_request(&call.args[2..], "withvalues")?;
    let hash = hash(call)?;
    let Some(count) = count else {
        let picked = match hash {
            Some(hash) => by_chance(call, &hash, 1)?,
            None => Vec::new(),
        };
        call.out.bulk_or_null(picked.first().map(|(name, _)| name.as_slice()));
        return Ok(());
    };
    let picked = match hash {
        Some(hash) => by_chance(call, &hash, count)?,
        None => Vec::new(),
    };
    let resp3 = call.out.resp3;
    call.out.array(picked.len() * if with_values && !resp3 { 2 } else { 1 });
    for (name, value) in picked {
        if with_values && resp3 {
            call.out.array(2);
        }
        call.out.bulk(&name);
        if with_values {
            call.out.bulk(&value);
        }
    }
    Ok(())
}
