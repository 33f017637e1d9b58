//! INFO: what the server reports about itself, in sections.
//!
//! Thread safety: see the module above.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use super::args::upper;
use super::{Access, Call, DANGEROUS, LOADING, Row, STALE};
use crate::keyspace::Outcome;
use crate::keyspace::counts::Tally;
use crate::session::Shared;
use crate::session::stats::Stats;

/// The version of Redis whose commands these are.
pub const REDIS_VERSION: &str = "7.0.15";

/// See the module's head.
pub const ROWS: &[Row] =
    &[Row::new("server", "info", -1, LOADING | STALE, "1.0.0", "Describes the server.", info)
        .access(Access::Glance)
        .categories(&[DANGEROUS])];

type Section = fn(&Shared, u64, &mut String) -> std::fmt::Result;

const SECTIONS: &[(&str, Section)] = &[
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Persistence", persistence),
    ("Stats", stats),
    ("Replication", |_, _, text| writeln!(text, "role:master\r\nconnected_slaves:0\r")),
    ("CPU", cpu),
    ("Engine", engine),
    ("Cluster", |_, _, text| writeln!(text, "cluster_enabled:0\r")),
    ("Keyspace", keyspace),
];

fn info(call: &mut Call<'_, '_>) -> Outcome<()> {
    let wanted: Vec<_> = call.args[1..].iter().map(|arg| upper(arg)).collect();
    let every = |w: &Vec<u8>| matches!(w.as_slice(), b"ALL" | b"DEFAULT" | b"EVERYTHING");
    let all = wanted.is_empty() || wanted.iter().any(every);
    let mut text = String::new();
    for (name, section) in SECTIONS {
        if all || wanted.contains(&upper(name.as_bytes())) {
            let separator = if text.is_empty() { "" } else { "\r\n" };
            let written = write!(text, "{separator}# {name}\r\n")
                .and_then(|()| section(call.shared, call.txn.now, &mut text));
            written.expect("a String takes everything");
        }
    }
    call.out.verbatim(&text);
    Ok(())
}

fn server(shared: &Shared, now: u64, text: &mut String) -> std::fmt::Result {
    let up = now.saturating_sub(Stats::get(&shared.stats.started_millis)) / 1000;
    writeln!(text, "redis_version:{REDIS_VERSION}\r")?;
    writeln!(text, "pumice_version:{}\r", env!("CARGO_PKG_VERSION"))?;
    writeln!(text, "redis_mode:standalone\r\nos:Linux\r\narch_bits:64\r")?;
    writeln!(text, "process_id:{}\r\nrun_id:{}\r", pumice_port::os::pid(), shared.run_id)?;
    let port = ["port", "tls-port"].map(|name| shared.config.number(name));
    writeln!(text, "tcp_port:{}\r", if port[0] == 0 { port[1] } else { port[0] })?;
    writeln!(text, "uptime_in_seconds:{up}\r\nuptime_in_days:{}\r", up / 86_400)
}

fn clients(shared: &Shared, _: u64, text: &mut String) -> std::fmt::Result {
    writeln!(text, "connected_clients:{}\r", shared.clients.len())?;
    writeln!(text, "blocked_clients:{}\r", shared.waiters.len())?;
    writeln!(text, "maxclients:{}\r", shared.config.get("maxclients"))
}

fn memory(shared: &Shared, _: u64, text: &mut String) -> std::fmt::Result {
    let usage = pumice_port::time::resource_usage();
    let resident = resident_bytes();
    for (name, bytes) in [
        ("used_memory", resident),
        ("used_memory_rss", resident),
        ("used_memory_peak", usage.max_resident_bytes.max(resident)),
    ] {
        writeln!(text, "{name}:{bytes}\r\n{name}_human:{}\r", human(bytes))?;
    }
    writeln!(text, "mem_clients_normal:{}\r", shared.clients.memory.used())?;
    writeln!(text, "total_system_memory:{}\r", pumice_port::os::total_memory_bytes())?;
    writeln!(text, "maxmemory:0\r\nmaxmemory_policy:noeviction\r")
}

/// Memory of the process, in bytes; 0 where the system does not say.
fn resident_bytes() -> u64 {
    let status = pumice_port::os::read_file(std::path::Path::new("/proc/self/status"));
    let status = status.unwrap_or_default();
    let text = String::from_utf8_lossy(&status);
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) << 10
}

/// Bytes with a unit, as Redis writes them.
fn human(bytes: u64) -> String {
    let units = [(40, 'T'), (30, 'G'), (20, 'M'), (10, 'K')];
    let unit = units.into_iter().find(|(bits, _)| bytes >> bits > 0);
    unit.map_or_else(
        || format!("{bytes}B"),
        |(bits, letter)| format!("{:.2}{letter}", bytes as f64 / (1_u64 << bits) as f64),
    )
}

fn persistence(shared: &Shared, _: u64, text: &mut String) -> std::fmt::Result {
    writeln!(text, "loading:0\r\naof_enabled:1\r")?;
    writeln!(text, "appendfsync:{}\r", shared.config.get("appendfsync"))?;
    let refuses = shared.keyspace.db().background_error().is_some();
    writeln!(text, "aof_last_write_status:{}\r", if refuses { "err" } else { "ok" })?;
    let failed = shared.stats.save_failed.load(Ordering::Relaxed);
    // BGSAVE has ended when it replies.
    writeln!(text, "rdb_bgsave_in_progress:0\r")?;
    writeln!(text, "rdb_last_bgsave_status:{}\r", if failed { "err" } else { "ok" })?;
    writeln!(text, "rdb_last_save_time:{}\r", Stats::get(&shared.stats.saved_seconds))
}

fn stats(shared: &Shared, _: u64, text: &mut String) -> std::fmt::Result {
    let stats = &shared.stats;
    let rows = [
        ("total_connections_received", &stats.connections),
        ("total_commands_processed", &stats.commands),
        ("instantaneous_ops_per_sec", &stats.commands_per_second),
        ("total_net_input_bytes", &stats.received),
        ("total_net_output_bytes", &stats.sent),
        ("rejected_connections", &stats.refused),
        ("expired_keys", &stats.expired),
        ("keyspace_hits", &stats.hits),
        ("keyspace_misses", &stats.misses),
        ("total_error_replies", &stats.errors),
        ("evicted_clients", &shared.clients.evicted),
        ("panicked_commands", &stats.panics),
    ];
    rows.iter().try_for_each(|(name, value)| writeln!(text, "{name}:{}\r", Stats::get(value)))?;
    let (channels, patterns) = (shared.channels.count(), shared.channels.patterns());
    // Nothing is evicted from a disk.
    writeln!(text, "evicted_keys:0\r")?;
    writeln!(text, "pubsub_channels:{channels}\r\npubsub_patterns:{patterns}\r")
}

fn cpu(_: &Shared, _: u64, text: &mut String) -> std::fmt::Result {
    let usage = pumice_port::time::resource_usage();
    let seconds = |micros: u64| micros as f64 / 1e6;
    writeln!(text, "used_cpu_sys:{:.6}\r", seconds(usage.system_micros))?;
    writeln!(text, "used_cpu_user:{:.6}\r", seconds(usage.user_micros))
}

/// Engine properties that show how it keeps up with its load.
fn engine(shared: &Shared, _: u64, text: &mut String) -> std::fmt::Result {
    let db = shared.keyspace.db();
    for name in [
        "estimate-num-keys",
        "cur-size-all-mem-tables",
        "num-files-at-level0",
        "total-sst-files-size",
        "estimate-pending-compaction-bytes",
        "num-running-flushes",
        "num-running-compactions",
        "actual-delayed-write-rate",
        "is-write-stopped",
        "block-cache-usage",
    ] {
        if let Some(value) = db.property(&format!("rocksdb.{name}")) {
            writeln!(text, "{}:{value}\r", name.replace('-', "_"))?;
        }
    }
    Ok(())
}

fn keyspace(shared: &Shared, _: u64, text: &mut String) -> std::fmt::Result {
    for db in 0..shared.config.number("databases") {
        let Tally { keys, expiring } = shared.keyspace.keys_in(db as u8);
        if keys > 0 {
            // The remaining lifetimes are not averaged.
            writeln!(text, "db{db}:keys={keys},expires={expiring},avg_ttl=0\r")?;
        }
    }
    Ok(())
}
