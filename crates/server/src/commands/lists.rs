//! Commands on lists.
//!
//! Both ends grow and shrink by writing one element and the record; LINDEX and LSET go straight to
//! the element. LINSERT, LREM and LPOS scan the list; LINSERT and LREM also move the elements
//! between the change and the nearer end. Thread safety: see the module above.

use super::args::{BEYOND_LONG, clamp, fail, integer, upper};
use super::blocking::pop_request;
use super::{Access, Call, DENYOOM, FAST, READONLY, Row, WRITE};
use crate::keyspace::encoding::{Collection, Kind};
use crate::keyspace::{Failure, Outcome};
use crate::session::action::End;

const fn row(
    name: &'static str,
    arity: i32,
    flags: u32,
    since: &'static str,
    summary: &'static str,
    run: super::Handler,
) -> Row {
    let row = Row::new("list", name, arity, flags, since, summary, run).key();
    if flags & WRITE == 0 { row.access(Access::View) } else { row }
}

const ADDS: u32 = WRITE | DENYOOM;

/// See the module's head.
pub const ROWS: &[Row] = &[
    row("lindex", 3, READONLY, "1.0.0", "Returns the element at an index.", lindex),
    row("linsert", 5, ADDS, "2.2.0", "Inserts an element before or after another.", linsert),
    row("llen", 2, READONLY | FAST, "1.0.0", "Counts the elements.", llen),
    row(
        "lmove",
        5,
        ADDS,
        "6.2.0",
        "Moves an element from one end of a list to an end of another.",
        lmove,
    )
    .keys(1, 2, 1),
    row(
        "lmpop",
        -4,
        WRITE,
        "7.0.0",
        "Removes and returns elements of the first non-empty list.",
        lmpop,
    )
    .counted(1, false),
    row(
        "lpop",
        -2,
        WRITE | FAST,
        "1.0.0",
        "Removes and returns elements from the front.",
        |call| pop(call, End::Left),
    ),
    row("lpos", -3, READONLY, "6.0.6", "Returns the index of an element.", lpos),
    row("lpush", -3, ADDS | FAST, "1.0.0", "Adds elements to the front.", |call| {
        push(call, End::Left, false)
    }),
    row(
        "lpushx",
        -3,
        ADDS | FAST,
        "2.2.0",
        "Adds elements to the front of an existing list.",
        |call| push(call, End::Left, true),
    ),
    row("lrange", 4, READONLY, "1.0.0", "Returns the elements between two indexes.", lrange),
    row("lrem", 4, WRITE, "1.0.0", "Removes elements equal to a value.", lrem),
    row("lset", 4, ADDS, "1.0.0", "Sets the element at an index.", lset),
    row("ltrim", 4, WRITE, "1.0.0", "Removes the elements outside a range of indexes.", ltrim),
    row("rpop", -2, WRITE | FAST, "1.0.0", "Removes and returns elements from the end.", |call| {
        pop(call, End::Right)
    }),
    row(
        "rpoplpush",
        3,
        ADDS,
        "1.2.0",
        "Moves the last element to the front of another list.",
        |call| move_or_null(call, End::Right, End::Left),
    )
    .keys(1, 2, 1),
    row("rpush", -3, ADDS | FAST, "1.0.0", "Adds elements to the end.", |call| {
        push(call, End::Right, false)
    }),
    row(
        "rpushx",
        -3,
        ADDS | FAST,
        "2.2.0",
        "Adds elements to the end of an existing list.",
        |call| push(call, End::Right, true),
    ),
];

impl End {
    /// LEFT or RIGHT.
    ///
    /// # Errors
    /// Another word.
    pub fn read(word: &[u8]) -> Outcome<End> {
        match upper(word).as_slice() {
            b"LEFT" => Ok(End::Left),
            b"RIGHT" => Ok(End::Right),
            _ => Err(Failure::SYNTAX),
        }
    }
    fn push_event(self) -> &'static str {
        if self == End::Left { "lpush" } else { "rpush" }
    }
    fn pop_event(self) -> &'static str {
        if self == End::Left { "lpop" } else { "rpop" }
    }
}

/// Adds an element at an end; the record is saved by the caller.
fn put(call: &mut Call<'_, '_>, list: &mut Collection, end: End, value: &[u8]) {
    if end == End::Left {
        list.head = list.head.wrapping_sub(1);
    }
    list.count += 1;
    let index = if end == End::Left { 0 } else { list.count - 1 };
    call.txn.put(list.at(index), value.to_vec());
}

/// The index of the element at a distance from an end.
fn from_end(list: &Collection, end: End, place: u64) -> u64 {
    if end == End::Left { place } else { list.count - 1 - place }
}

/// Replies with `count` existing elements from an end of a list and removes them: all of them, or
/// none if the reply cannot hold them.
fn take(call: &mut Call<'_, '_>, list: &mut Collection, end: End, count: u64) -> Outcome<()> {
    for place in 0..count {
        let value = call.txn.get(&list.at(from_end(list, end, place)))?;
        reply_with(call, value.as_deref().unwrap_or_default())?;
    }
    take_out(call, list, end, count);
    Ok(())
}

/// Replies with an element that is about to be removed.
fn reply_with(call: &mut Call<'_, '_>, value: &[u8]) -> Outcome<()> {
    call.out.bulk(value);
    if call.out.is_full() { Err(Failure::TOO_LARGE) } else { Ok(()) }
}

fn take_out(call: &mut Call<'_, '_>, list: &mut Collection, end: End, count: u64) {
    for place in 0..count {
        call.txn.delete(list.at(from_end(list, end, place)));
    }
    list.count -= count;
    if end == End::Left {
        list.head = list.head.wrapping_add(count as i64);
    }
}

/// Saves a list from which elements were taken.
fn save_taken(call: &mut Call<'_, '_>, key: &[u8], list: &mut Collection, event: &'static str) {
    call.txn.save(key, list);
    call.txn.event(key, b'l', event);
    if list.count == 0 {
        call.txn.event(key, b'g', "del");
    }
}

fn push(call: &mut Call<'_, '_>, end: End, only_if_there: bool) -> Outcome<()> {
    let key = call.args[1];
    let mut list = match call.txn.collection(key, Kind::List)? {
        Some(list) => list,
        None if only_if_there => {
            call.out.integer(0);
            return Ok(());
        }
        None => call.txn.new_collection(key, Kind::List)?,
    };
    for value in &call.args[2..] {
        put(call, &mut list, end, value);
    }
    call.txn.save(key, &mut list);
    call.txn.event(key, b'l', end.push_event());
    call.out.integer(list.count as i64);
    Ok(())
}

fn pop(call: &mut Call<'_, '_>, end: End) -> Outcome<()> {
    let key = call.args[1];
    if call.args.len() > 3 {
        let name = String::from_utf8_lossy(call.args[0]).to_ascii_lowercase();
        let text = format!("ERR wrong number of arguments for '{name}' command");
        return Err(fail(text));
    }
    const NEGATIVE: Failure = Failure::text("ERR value is out of range, must be positive");
    let count = call.args.get(2).map(|arg| integer(arg).map_err(|_| NEGATIVE)).transpose()?;
    if count.is_some_and(|count| count < 0) {
        return Err(NEGATIVE);
    }
    let Some(mut list) = call.txn.collection(key, Kind::List)? else {
        if count.is_some() {
            call.out.null_array()
        } else {
            call.out.null()
        }
        return Ok(());
    };
    let taken = list.count.min(count.unwrap_or(1) as u64);
    if count.is_some() {
        call.out.array(taken as usize);
    }
    take(call, &mut list, end, taken)?;
    if taken > 0 {
        save_taken(call, key, &mut list, end.pop_event());
    }
    Ok(())
}

fn llen(call: &mut Call<'_, '_>) -> Outcome<()> {
    let count = call.txn.collection(call.args[1], Kind::List)?.map_or(0, |list| list.count);
    call.out.integer(count as i64);
    Ok(())
}

/// The index that an argument gives, counted from the end if negative.
fn index(list: &Collection, place: i64) -> Option<u64> {
    let len = list.count as i64;
    let index = if place < 0 { place.checked_add(len)? } else { place };
    (0..len).contains(&index).then_some(index as u64)
}

fn lindex(call: &mut Call<'_, '_>) -> Outcome<()> {
    let list = call.txn.collection(call.args[1], Kind::List)?;
    let place = match &list {
        Some(_) => integer(call.args[2])?,
        None => 0,
    };
    let at = list.as_ref().and_then(|list| index(list, place).map(|index| list.at(index)));
    let value = at.map(|key| call.txn.get(&key)).transpose()?.flatten();
    call.out.bulk_or_null(value.as_deref());
    Ok(())
}

fn lset(call: &mut Call<'_, '_>) -> Outcome<()> {
    let key = call.args[1];
    let list = call.txn.collection(key, Kind::List)?;
    let list = list.ok_or(Failure::text("ERR no such key"))?;
    let place = integer(call.args[2])?;
    let index = index(&list, place).ok_or(Failure::text("ERR index out of range"))?;
    call.txn.put(list.at(index), call.args[3].to_vec());
    call.txn.event(key, b'l', "lset");
    call.out.ok();
    Ok(())
}

/// Calls `f` with the elements from `from` up to `end` (not included).
fn each(
    call: &Call<'_, '_>,
    list: &Collection,
    from: u64,
    end: u64,
    backwards: bool,
    f: &mut dyn FnMut(&[u8]) -> bool,
) -> Outcome<()> {
    call.txn.pass(&(list.at(from), list.at(end)), backwards, &mut |_, value| f(value))
}

fn lrange(call: &mut Call<'_, '_>) -> Outcome<()> {
    let (start, stop) = (integer(call.args[2])?, integer(call.args[3])?);
    let list = call.txn.collection(call.args[1], Kind::List)?;
    let range = list.as_ref().and_then(|list| clamp(start, stop, list.count));
    let (Some(list), Some((first, last))) = (list, range) else {
        call.out.array(0);
        return Ok(());
    };
    call.out.array((last - first + 1) as usize);
    let out = &mut *call.out;
    call.txn.pass(&(list.at(first), list.at(last + 1)), false, &mut |_, value| {
        out.bulk(value);
        !out.is_full()
    })
}

fn ltrim(call: &mut Call<'_, '_>) -> Outcome<()> {
    let (key, start, stop) = (call.args[1], integer(call.args[2])?, integer(call.args[3])?);
    call.out.ok();
    let Some(mut list) = call.txn.collection(key, Kind::List)? else { return Ok(()) };
    let (first, end) = match clamp(start, stop, list.count) {
        Some((first, last)) => (first, last + 1),
        None => (list.count, list.count),
    };
    for (from, upto) in [(0, first), (end, list.count)] {
        delete_places(call, &list, from, upto);
    }
    list.head = list.head.wrapping_add(first as i64);
    list.count = end - first;
    save_taken(call, key, &mut list, "ltrim");
    Ok(())
}

/// Elements from `from` up to `end` (not included), which are about to be written elsewhere.
fn values(call: &Call<'_, '_>, list: &Collection, from: u64, end: u64) -> Outcome<Vec<Vec<u8>>> {
    let mut values = Vec::new();
    call.txn.walk(&(list.at(from), list.at(end)), false, &mut |_, value| {
        values.push(value.to_vec());
        true
    })?;
    Ok(values)
}

/// Writes elements from position `index` on.
fn put_at(call: &mut Call<'_, '_>, list: &Collection, index: u64, values: Vec<Vec<u8>>) {
    for (place, value) in (index..).zip(values) {
        call.txn.put(list.at(place), value);
    }
}

/// Deletes the elements from position `from` up to `upto` (not included).
fn delete_places(call: &mut Call<'_, '_>, list: &Collection, from: u64, upto: u64) {
    if upto - from > 32 {
        call.txn.clear(list.at(from), list.at(upto));
    } else {
        (from..upto).for_each(|index| call.txn.delete(list.at(index)));
    }
}

/// The positions, in order, of up to `most` elements equal to `wanted`.
fn places_of(
    call: &Call<'_, '_>,
    list: &Collection,
    wanted: &[u8],
    most: u64,
    backwards: bool,
) -> Outcome<Vec<u64>> {
    let (mut found, mut seen) = (Vec::new(), 0);
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let room = call.txn.room() / size_of::<u64>();
    each(call, list, 0, list.count, backwards, &mut |value| {
        if value == wanted {
            found.push(if backwards { list.count - 1 - seen } else { seen });
        }
        seen += 1;
        found.len() < most && found.len() <= room
    })?;
    if found.len() > room {
        return Err(Failure::TOO_LARGE);
    }
    found.sort_unstable();
    Ok(found)
}

/// Removes the elements at `gone`, which is not empty: the side with fewer elements moves.
fn close_gaps(call: &mut Call<'_, '_>, list: &mut Collection, gone: &[u64]) -> Outcome<()> {
    let (first, last, count) = (gone[0], gone[gone.len() - 1], gone.len() as u64);
    let moves_front = last + 1 < list.count - first;
    let (from, end) = if moves_front { (0, last + 1) } else { (first, list.count) };
    let mut rest = gone.iter().peekable();
    let kept = (from..).zip(values(call, list, from, end)?);
    let kept = kept.filter(|(index, _)| rest.next_if(|gone| *gone == index).is_none());
    let kept: Vec<_> = kept.map(|(_, value)| value).collect();
    if moves_front {
        put_at(call, list, count, kept);
        delete_places(call, list, 0, count);
        list.head = list.head.wrapping_add(count as i64);
    } else {
        put_at(call, list, first, kept);
        delete_places(call, list, list.count - count, list.count);
    }
    list.count -= count;
    Ok(())
}

fn lrem(call: &mut Call<'_, '_>) -> Outcome<()> {
    let (key, count, wanted) = (call.args[1], integer(call.args[2])?, call.args[3]);
    let Some(mut list) = call.txn.collection(key, Kind::List)? else {
        call.out.integer(0);
        return Ok(());
    };
    let most = if count == 0 { u64::MAX } else { count.unsigned_abs() };
    let gone = places_of(call, &list, wanted, most, count < 0)?;
    if !gone.is_empty() {
        close_gaps(call, &mut list, &gone)?;
        save_taken(call, key, &mut list, "lrem");
    }
    call.out.count(gone.len());
    Ok(())
}

fn linsert(call: &mut Call<'_, '_>) -> Outcome<()> {
    let (key, pivot, value) = (call.args[1], call.args[3], call.args[4]);
    let after = match upper(call.args[2]).as_slice() {
        b"AFTER" => 1,
        b"BEFORE" => 0,
        _ => return Err(Failure::SYNTAX),
    };
    let Some(mut list) = call.txn.collection(key, Kind::List)? else {
        call.out.integer(0);
        return Ok(());
    };
    let Some(&at) = places_of(call, &list, pivot, 1, false)?.first() else {
        call.out.integer(-1);
        return Ok(());
    };
    let at = at + after;
    if at < list.count - at {
        let front = values(call, &list, 0, at)?;
        list.head = list.head.wrapping_sub(1);
        put_at(call, &list, 0, front);
    } else {
        let back = values(call, &list, at, list.count)?;
        put_at(call, &list, at + 1, back);
    }
    list.count += 1;
    call.txn.put(list.at(at), value.to_vec());
    call.txn.save(key, &mut list);
    call.txn.event(key, b'l', "linsert");
    call.out.integer(list.count as i64);
    Ok(())
}

fn lmove(call: &mut Call<'_, '_>) -> Outcome<()> {
    let (from, to) = (End::read(call.args[3])?, End::read(call.args[4])?);
    move_or_null(call, from, to)
}

fn move_or_null(call: &mut Call<'_, '_>, from: End, to: End) -> Outcome<()> {
    if !move_element(call, (call.args[1], from), (call.args[2], to))? {
        call.out.null();
    }
    Ok(())
}

/// Moves an element from an end of a list to an end of another, and replies with it; false when
/// there is none.
///
/// # Errors
/// A key holds another type; the engine's.
pub fn move_element(
    call: &mut Call<'_, '_>,
    (source, from): (&[u8], End),
    (target, to): (&[u8], End),
) -> Outcome<bool> {
    let Some(mut list) = call.txn.collection(source, Kind::List)? else { return Ok(false) };
    call.txn.collection(target, Kind::List)?;
    let value = call.txn.get(&list.at(from_end(&list, from, 0)))?;
    let value = value.map_or_else(Vec::new, |value| value.to_vec());
    reply_with(call, &value)?;
    take_out(call, &mut list, from, 1);
    // The event of the push precedes that of the pop, as in Redis.
    if source == target {
        put(call, &mut list, to, &value);
        call.txn.event(target, b'l', to.push_event());
    } else {
        let mut list = call.txn.collection_or_new(target, Kind::List)?;
        put(call, &mut list, to, &value);
        call.txn.save(target, &mut list);
        call.txn.event(target, b'l', to.push_event());
    }
    save_taken(call, source, &mut list, from.pop_event());
    Ok(true)
}

/// Takes elements from an end of a list and replies with the key and an array of them, or, if
/// `count` is None, with the key and one element. False when there are none. After an error nothing
/// is taken.
///
/// # Errors
/// The key holds another type; the reply cannot hold them; the engine's.
pub fn pop_list(
    call: &mut Call<'_, '_>,
    key: &[u8],
    end: End,
    count: Option<u64>,
) -> Outcome<bool> {
    let Some(mut list) = call.txn.collection(key, Kind::List)? else { return Ok(false) };
    let taken = list.count.min(count.unwrap_or(1));
    call.out.array(2);
    call.out.bulk(key);
    if count.is_some() {
        call.out.array(taken as usize);
    }
    take(call, &mut list, end, taken)?;
    save_taken(call, key, &mut list, end.pop_event());
    Ok(true)
}

fn lmpop(call: &mut Call<'_, '_>) -> Outcome<()> {
    let (keys, end, count) = pop_request(call.args, 1, End::read)?;
    for key in keys {
        if pop_list(call, key, end, Some(count))? {
            return Ok(());
        }
    }
    call.out.null_array();
    Ok(())
}

/// RANK, COUNT and MAXLEN.
fn position_options(args: &[&[u8]]) -> Outcome<(i64, Option<u64>, u64)> {
    let (mut rank, mut count, mut most) = (1, None, 0);
    if !args.len().is_multiple_of(2) {
        return Err(Failure::SYNTAX);
    }
    for pair in args.chunks_exact(2) {
        match upper(pair[0]).as_slice() {
            b"RANK" => {
                rank = integer(pair[1])?;
                if rank == 0 {
                    const ZERO: &str = "ERR RANK can't be zero: use 1 to start from the first \
                                        match, 2 from the second ... or use negative to start from \
                                        the end of the list";
                    return Err(Failure::text(ZERO));
                }
                if rank == i64::MIN {
                    return Err(BEYOND_LONG);
                }
            }
            b"COUNT" => {
                const NEGATIVE: Failure = Failure::text("ERR COUNT can't be negative");
                let number = integer(pair[1]).map_err(|_| NEGATIVE)?;
                count = Some(u64::try_from(number).map_err(|_| NEGATIVE)?);
            }
            b"MAXLEN" => {
                const NEGATIVE: Failure = Failure::text("ERR MAXLEN can't be negative");
                let number = integer(pair[1]).map_err(|_| NEGATIVE)?;
                most = u64::try_from(number).map_err(|_| NEGATIVE)?;
            }
            _ => return Err(Failure::SYNTAX),
        }
    }
    Ok((rank, count, most))
}

fn lpos(call: &mut Call<'_, '_>) -> Outcome<()> {
    let wanted = call.args[2];
    let (rank, count, most) = position_options(&call.args[3..])?;
    let mut found = Vec::new();
    if let Some(list) = call.txn.collection(call.args[1], Kind::List)? {
        let backwards = rank < 0;
        let (mut skip, mut seen) = (rank.unsigned_abs() - 1, 0);
        let needed = count.unwrap_or(1);
        each(call, &list, 0, list.count, backwards, &mut |value| {
            let index = if backwards { list.count - 1 - seen } else { seen };
            seen += 1;
            if value == wanted {
                match skip {
                    0 => found.push(index),
                    _ => skip -= 1,
                }
            }
            (needed == 0 || (found.len() as u64) < needed) && (most == 0 || seen < most)
        })?;
    }
    match (count, found.first()) {
        (Some(_), _) => {
            call.out.array(found.len());
            found.iter().for_each(|index| call.out.integer(*index as i64));
        }
        (None, Some(index)) => call.out.integer(*index as i64),
        (None, None) => call.out.null(),
    }
    Ok(())
}
