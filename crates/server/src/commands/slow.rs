//! SLOWLOG, LATENCY and MEMORY: slow commands, latencies and memory use.
//!
//! Thread safety: see the module above.

use super::args::{integer, is, too_many_words};
use super::keys::help;
use super::{ADMIN, Access, Call, LOADING, NOSCRIPT, READONLY, Row, STALE};
use crate::keyspace::encoding::Kind;
use crate::keyspace::{Failure, Outcome};

const fn row(
    name: &'static str,
    arity: i32,
    flags: u32,
    since: &'static str,
    summary: &'static str,
    run: super::Handler,
) -> Row {
    Row::new("server", name, arity, flags, since, summary, run).access(Access::Glance)
}

const ABOUT: u32 = ADMIN | LOADING | STALE;
const TELLS: u32 = ABOUT | NOSCRIPT;

/// See the module's head.
pub const ROWS: &[Row] = &[
    row("latency", -2, 0, "2.8.13", "Shows latencies of slow events.", |_| Err(Failure::SYNTAX))
        .subcommands(LATENCY),
    row("memory", -2, 0, "4.0.0", "Shows the memory of keys.", |_| Err(Failure::SYNTAX))
        .subcommands(MEMORY),
    row("slowlog", -2, 0, "2.2.12", "Shows the slow log.", |_| Err(Failure::SYNTAX))
        .subcommands(SLOWLOG),
];

const LATENCY: &[Row] = &[
    row("help", 2, LOADING | STALE, "2.8.13", "Lists the subcommands.", |call| {
        help(call, "LATENCY", LATENCY)
    }),
    row("history", 3, TELLS, "2.8.13", "Returns the latencies of an event.", history),
    row("latest", 2, TELLS, "2.8.13", "Returns the last latency of each event.", latest),
    row("reset", -2, TELLS, "2.8.13", "Resets latencies.", |call| {
        let forgotten = call.shared.slow.reset_latencies(&call.args[2..]);
        call.out.count(forgotten);
        Ok(())
    }),
];

const MEMORY: &[Row] = &[
    row("help", 2, LOADING | STALE, "4.0.0", "Lists the subcommands.", |call| {
        help(call, "MEMORY", MEMORY)
    }),
    row("usage", -3, READONLY, "4.0.0", "Estimates the memory of a key.", usage)
        .keys(2, 2, 1)
        .access(Access::View),
];

const SLOWLOG: &[Row] = &[
    row("get", -2, ABOUT, "2.2.12", "Returns the entries of the slow log.", get),
    row("help", 2, LOADING | STALE, "6.2.0", "Lists the subcommands.", |call| {
        help(call, "SLOWLOG", SLOWLOG)
    }),
    row("len", 2, ABOUT, "2.2.12", "Counts the entries of the slow log.", |call| {
        call.out.count(call.shared.slow.len());
        Ok(())
    }),
    row("reset", 2, ABOUT, "2.2.12", "Clears the slow log.", |call| {
        call.shared.slow.reset();
        call.out.ok();
        Ok(())
    }),
];

fn get(call: &mut Call<'_, '_>) -> Outcome<()> {
    const RANGE: Failure = Failure::text("ERR count should be greater than or equal to -1");
    const ENTRIES: i64 = 10;
    let count = match &call.args[2..] {
        [] => ENTRIES,
        [count] => integer(count).ok().filter(|count| *count >= -1).ok_or(RANGE)?,
        _ => return Err(too_many_words(call.args)),
    };
    let entries = call.shared.slow.entries(usize::try_from(count).unwrap_or(usize::MAX));
    call.out.array(entries.len());
    for entry in entries {
        call.out.array(6);
        [entry.id, entry.seconds, entry.micros].iter().for_each(|&n| call.out.integer(n as i64));
        call.out.array(entry.args.len());
        entry.args.iter().for_each(|arg| call.out.bulk(arg));
        call.out.bulk(entry.address.as_bytes());
        call.out.bulk(&entry.name);
    }
    Ok(())
}

fn history(call: &mut Call<'_, '_>) -> Outcome<()> {
    let events = call.shared.slow.latencies();
    let wanted = events.iter().find(|(name, _)| is(call.args[2], name));
    let samples = wanted.map(|(_, history)| history.samples.clone()).unwrap_or_default();
    call.out.array(samples.len());
    for (seconds, millis) in samples {
        call.out.array(2);
        call.out.integer(seconds as i64);
        call.out.integer(millis as i64);
    }
    Ok(())
}

fn latest(call: &mut Call<'_, '_>) -> Outcome<()> {
    let events = call.shared.slow.latencies();
    call.out.array(events.len());
    for (name, history) in events {
        let (seconds, millis) = history.samples.back().copied().unwrap_or_default();
        call.out.array(4);
        call.out.bulk(name.as_bytes());
        [seconds, millis, history.max_millis].iter().for_each(|&n| call.out.integer(n as i64));
    }
    Ok(())
}

/// Bytes of the record and of the elements, extrapolated from the first `samples` elements.
fn usage(call: &mut Call<'_, '_>) -> Outcome<()> {
    const SAMPLES: i64 = 5;
    let samples = match &call.args[3..] {
        [] => SAMPLES,
        [word, number] if is(word, "samples") => {
            let number = integer(number)?;
            if number < 0 {
                return Err(Failure::SYNTAX);
            }
            number
        }
        _ => return Err(Failure::SYNTAX),
    };
    let key = call.args[2];
    let Some(found) = call.txn.find(key)? else {
        call.out.null();
        return Ok(());
    };
    let record = (call.txn.record_key(key).len() + found.bytes()) as u64;
    if found.kind() == Kind::String {
        call.out.integer(record as i64);
        return Ok(());
    }
    let collection = call.txn.collection_of(key, &found);
    let parts = if found.kind() == Kind::SortedSet { 2 } else { 1 };
    let wanted = if samples == 0 { u64::MAX } else { samples as u64 };
    let (mut seen, mut bytes) = (0, 0);
    let by_name = crate::keyspace::encoding::BY_NAME;
    call.txn.pass(&collection.part(by_name), false, &mut |key, value| {
        bytes += (key.len() + value.len()) as u64;
        seen += 1;
        seen < wanted
    })?;
    let all = u128::from(bytes) * u128::from(collection.count) / u128::from(seen.max(1));
    call.out.integer(record.saturating_add(all as u64 * parts) as i64);
    Ok(())
}
