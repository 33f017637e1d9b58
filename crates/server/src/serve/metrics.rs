//! What the server does, for Prometheus: text over HTTP on a port of its own, off by default.
//!
//! It answers GET /metrics with one page; anything else with 404. It listens on the addresses of
//! `bind`, asks for no password and shows no data: make the port reachable only to those who may
//! see the load.
//!
//! Thread safety: reads shared counters. Suspends.

use std::fmt::Write;

use pumice_port::{os, time};

use super::Server;
use super::http::Page;
use crate::session::slowlog::BUCKETS;
use crate::session::stats::Stats;
use crate::session::{Shared, acl};

/// Answers a request.
pub fn answer(server: &Server, path: Option<&str>) -> Page {
    match path {
        Some("/metrics") => {
            Page::ok("text/plain; version=0.0.4; charset=utf-8", page(&server.shared))
        }
        _ => Page::missing("the page is /metrics\n"),
    }
}

/// The page.
fn page(shared: &Shared) -> String {
    let mut text = String::new();
    let written = write_server(shared, &mut text)
        .and_then(|()| write_latencies(shared, &mut text))
        .and_then(|()| write_engine(shared, &mut text));
    written.expect("a String takes everything");
    text
}

fn row(text: &mut String, name: &str, kind: &str, help: &str, value: u64) -> std::fmt::Result {
    writeln!(text, "# HELP pumice_{name} {help}\n# TYPE pumice_{name} {kind}")?;
    writeln!(text, "pumice_{name} {value}")
}

fn write_server(shared: &Shared, text: &mut String) -> std::fmt::Result {
    let (stats, clients) = (&shared.stats, &shared.clients);
    let evicted = &clients.evicted;
    for (name, help, value) in [
        ("connections_total", "Connections accepted.", &stats.connections),
        ("connections_refused_total", "Connections refused.", &stats.refused),
        ("clients_evicted_total", "Connections ended because memory was short.", evicted),
        ("commands_total", "Commands received.", &stats.commands),
        ("error_replies_total", "Replies that were errors.", &stats.errors),
        ("commands_panicked_total", "Commands that panicked.", &stats.panics),
        ("keyspace_hits_total", "Reads of keys that were there.", &stats.hits),
        ("keyspace_misses_total", "Reads of keys that were not.", &stats.misses),
        ("expired_keys_total", "Keys deleted because their time was over.", &stats.expired),
        ("received_bytes_total", "Bytes received.", &stats.received),
        ("sent_bytes_total", "Bytes sent.", &stats.sent),
    ] {
        row(text, name, "counter", help, Stats::get(value))?;
    }
    let usage = time::resource_usage();
    let cpu = usage.user_micros + usage.system_micros;
    row(text, "cpu_microseconds_total", "counter", "Processor time of the process.", cpu)?;
    for (name, help, value) in [
        ("clients", "Connections.", clients.len() as u64),
        ("clients_waiting", "Connections that wait for a key.", shared.waiters.len() as u64),
        ("clients_memory_bytes", "Memory of all clients' buffers.", clients.memory.used()),
        ("resident_peak_bytes", "Most memory that was resident.", usage.max_resident_bytes),
        ("machine_memory_bytes", "Memory of the machine.", os::total_memory_bytes()),
        ("slow_commands", "Commands in the slow log.", shared.slow.len() as u64),
    ] {
        row(text, name, "gauge", help, value)?;
    }
    writeln!(text, "# HELP pumice_refused_total Refusals, by reason.")?;
    writeln!(text, "# TYPE pumice_refused_total counter")?;
    for (reason, count) in acl::log::REASONS.iter().zip(&shared.acl.log.counts) {
        writeln!(text, "pumice_refused_total{{reason=\"{reason}\"}} {}", Stats::get(count))?;
    }
    writeln!(text, "# HELP pumice_keys Keys of a database.\n# TYPE pumice_keys gauge")?;
    for db in 0..shared.config.number("databases") {
        writeln!(text, "pumice_keys{{db=\"{db}\"}} {}", shared.keyspace.keys_in(db as u8))?;
    }
    Ok(())
}

/// How long commands took, as a histogram.
fn write_latencies(shared: &Shared, text: &mut String) -> std::fmt::Result {
    const NAME: &str = "pumice_command_duration_microseconds";
    writeln!(text, "# HELP {NAME} How long commands took.\n# TYPE {NAME} histogram")?;
    let mut sum = 0;
    for (bits, count) in shared.slow.counts().into_iter().enumerate() {
        sum += count;
        // The last bucket has everything that took longer.
        if bits + 1 < BUCKETS {
            writeln!(text, "{NAME}_bucket{{le=\"{}\"}} {sum}", (1_u64 << bits) - 1)?;
        }
    }
    let micros = Stats::get(&shared.slow.total_micros);
    writeln!(text, "{NAME}_bucket{{le=\"+Inf\"}} {sum}\n{NAME}_sum {micros}\n{NAME}_count {sum}")
}

fn write_engine(shared: &Shared, text: &mut String) -> std::fmt::Result {
    let db = shared.keyspace.engine();
    for (property, help) in [
        ("cur-size-all-mem-tables", "Bytes of memtables."),
        ("num-immutable-mem-table", "Memtables that wait to be flushed."),
        ("num-files-at-level0", "Files of level 0."),
        ("total-sst-files-size", "Bytes of table files."),
        ("estimate-pending-compaction-bytes", "Bytes that compactions still have to rewrite."),
        ("num-running-flushes", "Flushes under way."),
        ("num-running-compactions", "Compactions under way."),
        ("actual-delayed-write-rate", "Bytes a second that writes are held to; 0 for no limit."),
        ("is-write-stopped", "1 while writes wait for compactions."),
        ("block-cache-usage", "Bytes of the block cache."),
        ("estimate-num-keys", "Keys of the engine, estimated."),
    ] {
        let value = db.property(&format!("rocksdb.{property}"));
        if let Some(value) = value.and_then(|value| value.parse().ok()) {
            row(text, &format!("engine_{}", property.replace('-', "_")), "gauge", help, value)?;
        }
    }
    Ok(())
}
