//! Commands on ranges of sorted sets: by rank, by score, by member.
//!
//! Ranges by member mean sets whose members all have one score, as Redis's documentation says; with
//! several scores the result is undefined, as in Redis. Thread safety: see the module above.

use super::args::{clamp, double, integer, upper};
use super::sorted_sets::{put_score, remove, save_removed};
use super::{Access, Call, DENYOOM, FAST, READONLY, Row, WRITE};
use crate::keyspace::encoding::{BY_SCORE, Collection, Kind, score_bytes, scored_of};
use crate::keyspace::txn::Txn;
use crate::keyspace::{Failure, Outcome};
use crate::protocol::number;

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

const READS: u32 = READONLY;

/// See the module's head.
pub const ROWS: &[Row] = &[
    row("zcount", 4, READS | FAST, "2.0.0", "Counts the members between two scores.", |call| {
        count(call, By::Score)
    }),
    row("zlexcount", 4, READS | FAST, "2.8.9", "Counts the members between two members.", |call| {
        count(call, By::Lex)
    }),
    row("zrange", -4, READS, "1.2.0", "Returns the members of a range.", |call| {
        range(call, None, None)
    }),
    row("zrangebylex", -4, READS, "2.8.9", "Returns the members between two members.", |call| {
        range(call, Some(By::Lex), Some(false))
    }),
    row("zrangebyscore", -4, READS, "1.0.5", "Returns the members between two scores.", |call| {
        range(call, Some(By::Score), Some(false))
    }),
    row("zrangestore", -5, WRITE | DENYOOM, "6.2.0", "Stores the members of a range.", store)
        .keys(1, 2, 1),
    row("zremrangebylex", 4, WRITE, "2.8.9", "Removes the members between two members.", |call| {
        remove_range(call, By::Lex, "zremrangebylex")
    }),
    row("zremrangebyrank", 4, WRITE, "2.0.0", "Removes the members between two ranks.", |call| {
        remove_range(call, By::Rank, "zremrangebyrank")
    }),
    row("zremrangebyscore", 4, WRITE, "1.2.0", "Removes the members between two scores.", |call| {
        remove_range(call, By::Score, "zremrangebyscore")
    }),
    row("zrevrange", -4, READS, "1.2.0", "Returns the members between two ranks.", |call| {
        range(call, Some(By::Rank), Some(true))
    }),
    row("zrevrangebylex", -4, READS, "2.8.9", "Returns the members between two members.", |call| {
        range(call, Some(By::Lex), Some(true))
    }),
    row(
        "zrevrangebyscore",
        -4,
        READS,
        "2.2.0",
        "Returns the members between two scores.",
        |call| range(call, Some(By::Score), Some(true)),
    ),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Lex,
}

/// A range, from the lower to the upper bound.
#[derive(Clone, Debug, PartialEq)]
enum Range {
    Rank(i64, i64),
    /// Scores, and whether the bound itself is excluded.
    Score((f64, bool), (f64, bool)),
    Lex(Bound, Bound),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Bound {
    Lowest,
    Highest,
    At(Vec<u8>),
    Beyond(Vec<u8>),
}

fn score_bound(arg: &[u8]) -> Option<(f64, bool)> {
    match arg.split_first() {
        Some((b'(', rest)) => Some((number::lenient_double(rest)?, true)),
        _ => Some((number::lenient_double(arg)?, false)),
    }
}

fn lex_bound(arg: &[u8]) -> Option<Bound> {
    match arg.split_first()? {
        (b'-', []) => Some(Bound::Lowest),
        (b'+', []) => Some(Bound::Highest),
        (b'[', rest) => Some(Bound::At(rest.to_vec())),
        (b'(', rest) => Some(Bound::Beyond(rest.to_vec())),
        _ => None,
    }
}

impl Range {
    /// Parses lower and upper bound.
    fn read(by: By, low: &[u8], high: &[u8]) -> Outcome<Range> {
        match by {
            By::Rank => Ok(Range::Rank(integer(low)?, integer(high)?)),
            By::Score => match (score_bound(low), score_bound(high)) {
                (Some(low), Some(high)) => Ok(Range::Score(low, high)),
                _ => Err(Failure::text("ERR min or max is not a float")),
            },
            By::Lex => match (lex_bound(low), lex_bound(high)) {
                (Some(low), Some(high)) => Ok(Range::Lex(low, high)),
                _ => Err(Failure::text("ERR min or max not valid string range item")),
            },
        }
    }

    /// The member is in the range, ranks aside.
    fn has(&self, member: &[u8], score: f64) -> bool {
        match self {
            Range::Rank(..) => true,
            Range::Score((low, beyond_low), (high, beyond_high)) => {
                (score > *low || !beyond_low && score == *low)
                    && (score < *high || !beyond_high && score == *high)
            }
            Range::Lex(low, high) => {
                let above = match low {
                    Bound::Lowest => true,
                    Bound::Highest => false,
                    Bound::At(at) => member >= at.as_slice(),
                    Bound::Beyond(at) => member > at.as_slice(),
                };
                let below = match high {
                    Bound::Lowest => false,
                    Bound::Highest => true,
                    Bound::At(at) => member <= at.as_slice(),
                    Bound::Beyond(at) => member < at.as_slice(),
                };
                above && below
            }
        }
    }
}

/// Calls `f` with the members of a range in order, or in reverse, until it returns false; skips
/// `skip` of them and visits at most `most`. Ranks count from the end at which it begins.
fn visit(
    txn: &Txn<'_>,
    set: &Collection,
    range: &Range,
    backwards: bool,
    (mut skip, mut most): (u64, u64),
    f: &mut dyn FnMut(&[u8], f64) -> bool,
) -> Outcome<()> {
    let (mut first, mut end) = set.part(BY_SCORE);
    match range {
        Range::Rank(start, stop) => match clamp(*start, *stop, set.count) {
            None => return Ok(()),
            Some((from, to)) => (skip, most) = (from, to - from + 1),
        },
        Range::Score((low, _), (high, _)) => {
            if low > high {
                return Ok(());
            }
            first = set.element(BY_SCORE, &score_bytes(*low)).max(first);
            // After every member with the highest score.
            let above = u64::from_be_bytes(score_bytes(*high)).saturating_add(1);
            end = set.element(BY_SCORE, &above.to_be_bytes()).min(end);
        }
        Range::Lex(..) => {}
    }
    if most == 0 {
        return Ok(());
    }
    let mut begun = false;
    txn.pass(&(first, end), backwards, &mut |key, _| {
        let (score, member) = scored_of(key);
        if !range.has(member, score) {
            // Members of one score are in order: nothing follows after the range.
            return !begun || matches!(range, Range::Score(..));
        }
        begun = true;
        if skip > 0 {
            skip -= 1;
            return true;
        }
        most -= 1;
        f(member, score) && most > 0
    })
}

/// The members that [`visit`] yields. A range of ranks is read from the nearer end.
fn select(
    txn: &Txn<'_>,
    set: &Collection,
    range: &Range,
    backwards: bool,
    limits: (u64, u64),
) -> Outcome<Vec<(Vec<u8>, f64)>> {
    const MEMBER_BYTES: usize = 32;
    let (mut turned, mut range) = (false, range.clone());
    if let Range::Rank(start, stop) = range
        && let Some((from, to)) = clamp(start, stop, set.count)
        && from > set.count - 1 - to
    {
        let last = set.count as i64 - 1;
        (turned, range) = (true, Range::Rank(last - to as i64, last - from as i64));
    }
    let (mut found, mut room, mut is_full) = (Vec::new(), txn.room(), false);
    visit(txn, set, &range, backwards != turned, limits, &mut |member, score| {
        is_full = member.len() + MEMBER_BYTES > room;
        if !is_full {
            room -= member.len() + MEMBER_BYTES;
            found.push((member.to_vec(), score));
        }
        !is_full
    })?;
    if is_full {
        return Err(Failure::TOO_LARGE);
    }
    if turned {
        found.reverse();
    }
    Ok(found)
}

fn count(call: &mut Call<'_, '_>, by: By) -> Outcome<()> {
    let range = Range::read(by, call.args[2], call.args[3])?;
    let set = call.txn.collection(call.args[1], Kind::SortedSet)?;
    let mut found = 0;
    if let Some(set) = set {
        visit(call.txn, &set, &range, false, (0, u64::MAX), &mut |_, _| {
            found += 1;
            true
        })?;
    }
    call.out.count(found);
    Ok(())
}

/// A range with all its options.
struct Wanted {
    range: Range,
    backwards: bool,
    skip: u64,
    most: u64,
    scores: bool,
}

/// Reads `bounds` (as they stand) and the options. `by` and `backwards` are given by the name of
/// the command, or by options.
fn wanted(
    bounds: [&[u8]; 2],
    rest: &[&[u8]],
    by: Option<By>,
    backwards: Option<bool>,
    stores: bool,
) -> Outcome<Wanted> {
    // An option that the name or an earlier option has decided is refused.
    let (mut by, mut backwards) = (by, backwards);
    let (mut skip, mut most, mut scores, mut limited) = (0, -1, false, false);
    let mut rest = rest.iter();
    while let Some(arg) = rest.next() {
        match upper(arg).as_slice() {
            b"WITHSCORES" if !stores => scores = true,
            b"LIMIT" => {
                let (first, second) = (rest.next(), rest.next());
                let (Some(first), Some(second)) = (first, second) else {
                    return Err(Failure::SYNTAX);
                };
                (skip, most, limited) = (integer(first)?, integer(second)?, true);
            }
            b"REV" if backwards.is_none() => backwards = Some(true),
            b"BYLEX" if by.is_none() => by = Some(By::Lex),
            b"BYSCORE" if by.is_none() => by = Some(By::Score),
            _ => return Err(Failure::SYNTAX),
        }
    }
    let (by, backwards) = (by.unwrap_or(By::Rank), backwards.unwrap_or(false));
    if limited && most != -1 && by == By::Rank {
        let text = "ERR syntax error, LIMIT is only supported in combination with either BYSCORE \
                    or BYLEX";
        return Err(Failure::text(text));
    }
    if scores && by == By::Lex {
        let text = "ERR syntax error, WITHSCORES not supported in combination with BYLEX";
        return Err(Failure::text(text));
    }
    let [one, two] = bounds;
    let swapped = backwards && by != By::Rank;
    let (low, high) = if swapped { (two, one) } else { (one, two) };
    Ok(Wanted {
        range: Range::read(by, low, high)?,
        backwards,
        skip: u64::try_from(skip).unwrap_or(u64::MAX),
        most: u64::try_from(most).unwrap_or(u64::MAX),
        scores,
    })
}

fn range(call: &mut Call<'_, '_>, by: Option<By>, backwards: Option<bool>) -> Outcome<()> {
    let (bounds, rest) = ([call.args[2], call.args[3]], &call.args[4..]);
    let wanted = wanted(bounds, rest, by, backwards, false)?;
    let set = call.txn.collection(call.args[1], Kind::SortedSet)?;
    let found = match set {
        Some(set) => {
            let Wanted { range, backwards, skip, most, .. } = &wanted;
            select(call.txn, &set, range, *backwards, (*skip, *most))?
        }
        None => Vec::new(),
    };
    reply(call, &found, wanted.scores);
    Ok(())
}

/// Members, with their scores if requested.
pub fn reply(call: &mut Call<'_, '_>, found: &[(Vec<u8>, f64)], scores: bool) {
    let pairs = scores && call.out.resp3;
    call.out.array(found.len() * if scores && !pairs { 2 } else { 1 });
    for (member, score) in found {
        if pairs {
            call.out.array(2);
        }
        call.out.bulk(member);
        if scores {
            call.out.double(*score);
        }
    }
}

/// Writes members into `target`, replacing any value.
///
/// # Errors
/// The engine's.
pub fn replace(
    call: &mut Call<'_, '_>,
    target: &[u8],
    members: &[(Vec<u8>, f64)],
    event: &'static str,
) -> Outcome<()> {
    let old = call.txn.find(target)?;
    if let Some(old) = &old {
        call.txn.remove(target, old)?;
    }
    if members.is_empty() {
        if old.is_some() {
            call.txn.event(target, b'g', "del");
        }
    } else {
        let mut set = call.txn.new_collection(target, Kind::SortedSet)?;
        for (member, score) in members {
            put_score(call.txn, &mut set, member, None, *score);
        }
        call.txn.save(target, &mut set);
        call.txn.event(target, b'z', event);
    }
    call.out.count(members.len());
    Ok(())
}

fn store(call: &mut Call<'_, '_>) -> Outcome<()> {
    let (target, source) = (call.args[1], call.args[2]);
    let wanted = wanted([call.args[3], call.args[4]], &call.args[5..], None, None, true)?;
    let set = call.txn.collection(source, Kind::SortedSet)?;
    let found = match set {
        Some(set) => {
            let Wanted { range, backwards, skip, most, .. } = &wanted;
            select(call.txn, &set, range, *backwards, (*skip, *most))?
        }
        None => Vec::new(),
    };
    replace(call, target, &found, "zrangestore")
}

fn remove_range(call: &mut Call<'_, '_>, by: By, event: &'static str) -> Outcome<()> {
    let key = call.args[1];
    let range = Range::read(by, call.args[2], call.args[3])?;
    let mut removed = 0;
    if let Some(mut set) = call.txn.collection(key, Kind::SortedSet)? {
        let found = select(call.txn, &set, &range, false, (0, u64::MAX))?;
        removed = found.len();
        for (member, score) in found {
            remove(call.txn, &mut set, &member, score);
        }
        if removed > 0 {
            save_removed(call.txn, key, &mut set, event);
        }
    }
    call.out.count(removed);
    Ok(())
}

/// A weight or a score in an argument.
///
/// # Errors
/// The bound is not a number.
pub fn weight(arg: &[u8]) -> Outcome<f64> {
    double(arg).map_err(|_| Failure::text("ERR weight value is not a float"))
}
