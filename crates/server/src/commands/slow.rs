//! SLOWLOG: the log of slow commands.
//!
//! Thread safety: see the module above.

use super::args::{integer, too_many_words};
use super::keys::help;
use super::{ADMIN, Access, Call, LOADING, Row, STALE};
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

/// See the module's head.
pub const ROWS: &[Row] =
    &[row("slowlog", -2, 0, "2.2.12", "Shows the slow log.", |_| Err(Failure::SYNTAX))
        .subcommands(SLOWLOG)];

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
