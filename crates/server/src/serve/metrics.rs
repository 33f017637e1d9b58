//! Metrics for Prometheus: text over HTTP on a separate port, off by default.
//!
//! It answers GET /metrics with one page; anything else with 404. It listens on the addresses of
//! `bind`, requires no password and shows no data: make the port reachable only for clients that
//! may see the load.
//!
//! Thread safety: reads shared counters. Suspends.

use pumice::stats::{MetricKind, MetricsPage};
use pumice_port::{os, time};

use super::Server;
use super::http::Page;
use crate::session::latencies::BUCKETS_SHOWN;
use crate::session::stats::Stats;
use crate::session::{Shared, acl};

/// Microseconds of a second, Prometheus's unit.
const MICROS: f64 = 1e6;

/// Answers a request.
pub fn answer(server: &Server, path: Option<&str>) -> Page {
    match path {
        Some("/metrics") => Page::ok(MetricsPage::CONTENT_TYPE, page(&server.shared).to_string()),
        _ => Page::missing("the page is /metrics\n"),
    }
}

/// The page.
fn page(shared: &Shared) -> MetricsPage {
    let mut page = MetricsPage::new();
    add_counters(shared, &mut page);
    add_gauges(shared, &mut page);
    add_latencies(shared, &mut page);
    add_engine(shared, &mut page);
    page
}

fn add_counters(shared: &Shared, page: &mut MetricsPage) {
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
        page.number(&format!("pumice_{name}"), MetricKind::Counter, help, Stats::get(value));
    }
    let usage = time::resource_usage();
    let cpu = usage.user_micros + usage.system_micros;
    let help = "Processor time of the process.";
    page.number("pumice_cpu_seconds_total", MetricKind::Counter, help, cpu as f64 / MICROS);
    let mut refused =
        page.family("pumice_refused_total", MetricKind::Counter, "Refusals, by reason.");
    for (reason, count) in acl::log::REASONS.iter().zip(&shared.acl.log.counts) {
        refused.sample("", &[("reason", reason)], Stats::get(count));
    }
}

fn add_gauges(shared: &Shared, page: &mut MetricsPage) {
    let (clients, usage) = (&shared.clients, time::resource_usage());
    for (name, help, value) in [
        ("clients", "Connections.", clients.len() as u64),
        ("clients_waiting", "Connections that wait for a key.", shared.waiters.len() as u64),
        ("clients_memory_bytes", "Memory of all clients' buffers.", clients.memory.used()),
        ("resident_peak_bytes", "Most memory that was resident.", usage.max_resident_bytes),
        ("machine_memory_bytes", "Memory of the machine.", os::total_memory_bytes()),
        ("slow_commands", "Commands in the slow log.", shared.slow.len() as u64),
    ] {
        page.number(&format!("pumice_{name}"), MetricKind::Gauge, help, value);
    }
    let count = |db| shared.keyspace.keys_in(db as u8);
    add_by_database(shared, page, ("keys", "Keys of a database."), |db| count(db).keys);
    let help = "Keys of a database that expire.";
    add_by_database(shared, page, ("keys_expiring", help), |db| count(db).expiring);
}

fn add_by_database(
    shared: &Shared,
    page: &mut MetricsPage,
    (name, help): (&str, &str),
    value: impl Fn(u64) -> i64,
) {
    let mut family = page.family(&format!("pumice_{name}"), MetricKind::Gauge, help);
    for db in 0..shared.config.number("databases") {
        family.sample("", &[("db", &db.to_string())], value(db));
    }
}

/// How long commands took, as a histogram.
fn add_latencies(shared: &Shared, page: &mut MetricsPage) {
    const NAME: &str = "pumice_command_duration_seconds";
    let mut family = page.family(NAME, MetricKind::Histogram, "How long commands took.");
    let mut sum = 0;
    let (counts, micros) = shared.calls.all();
    for (bits, count) in counts.by_bits::<BUCKETS_SHOWN>().into_iter().enumerate() {
        sum += count;
        // The last bucket has everything that took longer.
        if bits + 1 < BUCKETS_SHOWN {
            family.sample(
                "_bucket",
                &[("le", &(((1_u64 << bits) - 1) as f64 / MICROS).to_string())],
                sum,
            );
        }
    }
    family.sample("_bucket", &[("le", "+Inf")], sum);
    family.sample("_sum", &[], micros as f64 / MICROS);
    family.sample("_count", &[], sum);
}

fn add_engine(shared: &Shared, page: &mut MetricsPage) {
    let db = shared.keyspace.db();
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
        if let Some(value) = value.and_then(|value| value.parse::<u64>().ok()) {
            page.number(&format!("pumice_engine_{property}"), MetricKind::Gauge, help, value);
        }
    }
}
