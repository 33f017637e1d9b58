//! LATENCY: events that took long, and how long the calls of each command took.
//!
//! Thread safety: see the module above.

use std::fmt::Write;

use super::about::by_full_name;
use super::args::{fail, is, quoting};
use super::keys::help;
use super::{ADMIN, Access, Call, LOADING, NOSCRIPT, Row, STALE, all};
use crate::keyspace::{Failure, Outcome};
use crate::session::slowlog::History;

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

const TELLS: u32 = ADMIN | LOADING | STALE | NOSCRIPT;

/// See the module's head.
pub const ROWS: &[Row] =
    &[row("latency", -2, 0, "2.8.13", "Shows latencies.", |_| Err(Failure::SYNTAX))
        .subcommands(LATENCY)];

const LATENCY: &[Row] = &[
    row("doctor", 2, TELLS, "2.8.13", "Describes the latencies of all events.", doctor),
    row("graph", 3, TELLS, "2.8.13", "Draws the latencies of an event.", graph),
    row("help", 2, LOADING | STALE, "2.8.13", "Lists the subcommands.", |call| {
        help(call, "LATENCY", LATENCY)
    }),
    row("histogram", -2, TELLS, "7.0.0", "Returns how long calls of commands took.", histogram),
    row("history", 3, TELLS, "2.8.13", "Returns the latencies of an event.", history),
    row("latest", 2, TELLS, "2.8.13", "Returns the last latency of each event.", latest),
    row("reset", -2, TELLS, "2.8.13", "Resets latencies.", |call| {
        let forgotten = call.shared.slow.reset_latencies(&call.args[2..]);
        call.out.count(forgotten);
        Ok(())
    }),
];

/// Commands that were called, and the distributions of how long that took. A command with
/// subcommands stands for these.
fn histogram(call: &mut Call<'_, '_>) -> Outcome<()> {
    let family = |row: &'static Row| std::iter::once(row).chain(row.subcommands);
    let rows: Vec<&Row> = match &call.args[2..] {
        [] => all().iter().flat_map(family).collect(),
        names => names.iter().filter_map(|name| by_full_name(name)).flat_map(family).collect(),
    };
    let report = |row: &&'static Row| Some((row.full_name, call.shared.calls.report(row.id)?));
    let mut called: Vec<_> = rows.iter().filter_map(report).collect();
    called.retain(|(_, report)| report.latencies.calls() > 0);
    call.out.map(called.len());
    for (name, report) in called {
        call.out.bulk(name.as_bytes());
        call.out.map(2);
        call.out.bulk(b"calls");
        call.out.integer(report.latencies.calls() as i64);
        call.out.bulk(b"histogram_usec");
        let pairs = report.latencies.distribution();
        call.out.map(pairs.len());
        for number in pairs.into_iter().flat_map(|(micros, calls)| [micros, calls]) {
            call.out.integer(number as i64);
        }
    }
    Ok(())
}

fn event(call: &Call<'_, '_>, name: &[u8]) -> Option<(&'static str, History)> {
    call.shared.slow.latencies().into_iter().find(|(known, _)| is(name, known))
}

fn doctor(call: &mut Call<'_, '_>) -> Outcome<()> {
    let events = call.shared.slow.latencies();
    let mut text = String::new();
    for (name, history) in &events {
        let count = history.samples.len() as u64;
        let sum: u64 = history.samples.iter().map(|(_, millis)| millis).sum();
        let written = writeln!(
            text,
            "{name}: {count} seconds with latency spikes, on average {} ms, {} ms at most.",
            sum / count.max(1),
            history.max_millis
        );
        written.expect("a String takes everything");
    }
    if events.is_empty() {
        text += match call.shared.slow.latency_millis() {
            0 => {
                "Latencies are not watched: CONFIG SET latency-monitor-threshold MILLISECONDS \
                 watches those that are longer.\n"
            }
            _ => "No latency spike was seen.\n",
        };
    }
    call.out.verbatim(&text);
    Ok(())
}

/// The samples as columns, the latest at the right: a row for each quarter of the highest.
fn graph(call: &mut Call<'_, '_>) -> Outcome<()> {
    const ROWS: u64 = 4;
    let name = call.args[2];
    let none = || fail(quoting("ERR No samples available for event '", name, "'"));
    let (name, history) = event(call, name).ok_or_else(none)?;
    let heights = || history.samples.iter().map(|(_, millis)| *millis);
    let (low, high) = (heights().min().unwrap_or(0), heights().max().unwrap_or(0));
    let mut text = format!(
        "{name} - high {high} ms, low {low} ms (all time high {} ms)\n{}\n",
        history.max_millis,
        "-".repeat(80)
    );
    for row in (1..=ROWS).rev() {
        let reaches = |millis: u64| millis * ROWS > high * (row - 1);
        let line: String =
            heights().map(|millis| if reaches(millis) { '#' } else { ' ' }).collect();
        text += line.trim_end();
        text.push('\n');
    }
    call.out.verbatim(&text);
    Ok(())
}

fn history(call: &mut Call<'_, '_>) -> Outcome<()> {
    let samples = event(call, call.args[2]).map(|(_, history)| history.samples).unwrap_or_default();
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
