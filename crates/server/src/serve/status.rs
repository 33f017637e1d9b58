//! The status page: polls every second and plots the values.
//!
//! | path | what |
//! |---|---|
//! | `/` | the page; its style and script are `/status.css` and `/status.js` |
//! | `/status.json` | the figures of this moment |
//!
//! It fetches nothing from elsewhere, and the browser is told to let it fetch nothing else. It
//! requires no password and shows no data: it listens on `status-bind`, by default the loopback
//! interface.
//!
//! Thread safety: reads shared counters. Suspends.

use std::fmt::Write;

use pumice_port::{os, time};

use super::Server;
use super::http::Page;
use crate::session::Shared;
use crate::session::latencies::BUCKETS_SHOWN;
use crate::session::stats::Stats;

const HTML: &str = include_str!("status/page.html");
const STYLE: &str = include_str!("status/page.css");
const SCRIPT: &str = include_str!("status/page.js");

/// The page may load its own parts and nothing else, and no other page may embed it.
const HEAD: &str = "Content-Security-Policy: default-src 'none'; script-src 'self'; \
                    style-src 'self'; connect-src 'self'; img-src data:; frame-ancestors 'none'\r\n\
                    X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
                    Cache-Control: no-store\r\n";

/// Answers a request.
pub fn answer(server: &Server, path: Option<&str>) -> Page {
    let page = match path {
        Some("/") => Page::ok("text/html; charset=utf-8", HTML),
        Some("/status.css") => Page::ok("text/css; charset=utf-8", STYLE),
        Some("/status.js") => Page::ok("text/javascript; charset=utf-8", SCRIPT),
        Some("/status.json") => Page::ok("application/json", figures(&server.shared)),
        _ => Page::missing("the page is /\n"),
    };
    Page { head: HEAD, ..page }
}

/// Text between quotes.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if u32::from(c) < 0x20 => quoted += &format!("\\u{:04x}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// The current figures. Counters only grow: the reader computes the rates.
fn figures(shared: &Shared) -> String {
    let (stats, clients) = (&shared.stats, &shared.clients);
    let usage = time::resource_usage();
    let now = time::wall_micros() / 1000;
    let refused: u64 = shared.acl.log.counts.iter().map(Stats::get).sum();
    let keys =
        (0..shared.config.number("databases")).map(|db| shared.keyspace.keys_in(db as u8).keys);
    let keys = u64::try_from(keys.sum::<i64>()).unwrap_or(0);
    let mut text = format!("{{\"version\":{}", quoted(env!("CARGO_PKG_VERSION")));
    for (name, value) in [
        ("now_millis", now),
        ("uptime_millis", now.saturating_sub(Stats::get(&stats.started_millis))),
        ("process", u64::from(os::pid())),
        ("commands", Stats::get(&stats.commands)),
        ("errors", Stats::get(&stats.errors)),
        ("refused", refused),
        ("received_bytes", Stats::get(&stats.received)),
        ("sent_bytes", Stats::get(&stats.sent)),
        ("clients", clients.len() as u64),
        ("clients_waiting", shared.waiters.len() as u64),
        ("clients_bytes", clients.memory.used()),
        ("cpu_micros", usage.user_micros + usage.system_micros),
        ("resident_peak_bytes", usage.max_resident_bytes),
        ("keys", keys),
    ] {
        push(&mut text, format_args!(",\"{name}\":{value}"));
    }
    let counts = shared.calls.all().0.by_bits::<BUCKETS_SHOWN>();
    let counts: Vec<_> = counts.iter().map(u64::to_string).collect();
    push(&mut text, format_args!(",\"latency_counts\":[{}]", counts.join(",")));
    write_engine(shared, &mut text);
    text.push('}');
    text
}

fn push(text: &mut String, more: std::fmt::Arguments<'_>) {
    text.write_fmt(more).expect("a String takes everything");
}

fn write_engine(shared: &Shared, text: &mut String) {
    let db = shared.keyspace.db();
    for (name, property) in [
        ("memtable_bytes", "cur-size-all-mem-tables"),
        ("sealed_memtables", "num-immutable-mem-table"),
        ("pending_bytes", "estimate-pending-compaction-bytes"),
        ("flushes", "num-running-flushes"),
        ("compactions", "num-running-compactions"),
        ("delayed_rate", "actual-delayed-write-rate"),
        ("is_stopped", "is-write-stopped"),
        ("cache_bytes", "block-cache-usage"),
    ] {
        let value = db.property(&format!("rocksdb.{property}"));
        let value: u64 = value.and_then(|value| value.trim().parse().ok()).unwrap_or(0);
        push(text, format_args!(",\"{name}\":{value}"));
    }
    let mut levels: Vec<(u64, u64)> = Vec::new();
    for file in db.live_files_metadata() {
        if levels.len() <= file.level {
            levels.resize(file.level + 1, (0, 0));
        }
        levels[file.level].0 += 1;
        levels[file.level].1 += file.size;
    }
    let each = levels.iter().map(|(files, bytes)| format!("[{files},{bytes}]"));
    push(text, format_args!(",\"levels\":[{}]", each.collect::<Vec<_>>().join(",")));
    for (name, property) in [("controller", "bg-controller"), ("stalls", "cf-write-stall-stats")] {
        let value = db.property(&format!("rocksdb.{property}")).unwrap_or_default();
        push(text, format_args!(",\"{name}\":{}", quoted(&value)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[pumice_test_macros::test]
    fn text_between_quotes_is_what_it_was() {
        assert_eq!(quoted("a\"b\\c\n\u{1}ä"), "\"a\\\"b\\\\c\\u000a\\u0001ä\"");
    }
}
