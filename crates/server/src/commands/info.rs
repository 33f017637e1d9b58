//! INFO: what the server reports about itself, in sections.
//!
//! Sections and fields are those of Redis 7.0, and the section Engine. Fields about what is not
//! here (replication, forks, scripts, modules) say what they say on a redis-server that does not
//! use it. Left out are fields whose value there is a fact about another program: the processor
//! time of a main thread.
//!
//! Thread safety: see the module above.

use std::fmt::{Display, Write};
use std::sync::atomic::Ordering;

use super::args::upper;
use super::info_counters::{persistence, stats};
use super::memory::Memory;
use super::{Access, Call, DANGEROUS, LOADING, Row, STALE, all};
use crate::keyspace::Outcome;
use crate::keyspace::counts::Tally;
use crate::session::Shared;
use crate::session::calls::Report;
use crate::session::clients::Client;
use crate::session::stats::Stats;

/// The version of Redis whose commands these are.
pub const REDIS_VERSION: &str = "7.0.15";
/// Expired keys are looked for so often a second.
const HZ: u32 = 10;

/// See the module's head.
pub const ROWS: &[Row] =
    &[Row::new("server", "info", -1, LOADING | STALE, "1.0.0", "Describes the server.", info)
        .access(Access::Glance)
        .categories(&[DANGEROUS])];

/// What a section is written to.
pub type Text = String;
type Section = fn(&Shared, u64, &mut Text);

/// When a section is shown without being named.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    ByDefault,
    /// With `all` and `everything`.
    WithAll,
}

const SECTIONS: &[(&str, Shown, Section)] = &[
    ("Server", Shown::ByDefault, server),
    ("Clients", Shown::ByDefault, clients),
    ("Memory", Shown::ByDefault, memory),
    ("Persistence", Shown::ByDefault, persistence),
    ("Stats", Shown::ByDefault, stats),
    ("Replication", Shown::ByDefault, replication),
    ("CPU", Shown::ByDefault, cpu),
    ("Modules", Shown::ByDefault, |_, _, _| {}),
    ("Commandstats", Shown::WithAll, commandstats),
    ("Errorstats", Shown::ByDefault, errorstats),
    ("Latencystats", Shown::WithAll, latencystats),
    ("Engine", Shown::ByDefault, engine),
    ("Cluster", Shown::ByDefault, |_, _, text| field(text, "cluster_enabled", 0)),
    ("Keyspace", Shown::ByDefault, keyspace),
];

/// `name:value` and a line's end.
pub fn field(text: &mut Text, name: &str, value: impl Display) {
    write!(text, "{name}:{value}\r\n").expect("a String takes everything");
}

fn info(call: &mut Call<'_, '_>) -> Outcome<()> {
    let wanted: Vec<_> = call.args[1..].iter().map(|arg| upper(arg)).collect();
    let has = |word: &[u8]| wanted.iter().any(|wanted| wanted == word);
    let default = wanted.is_empty() || has(b"DEFAULT");
    let all = has(b"ALL") || has(b"EVERYTHING");
    let mut text = String::new();
    for (name, shown, section) in SECTIONS {
        let is_shown = all || default && *shown == Shown::ByDefault;
        if is_shown || has(&upper(name.as_bytes())) {
            let separator = if text.is_empty() { "" } else { "\r\n" };
            text += &format!("{separator}# {name}\r\n");
            section(call.shared, call.txn.now, &mut text);
        }
    }
    call.out.verbatim(&text);
    Ok(())
}

fn server(shared: &Shared, now: u64, text: &mut Text) {
    let up = now.saturating_sub(Stats::get(&shared.stats.started_millis)) / 1000;
    let uses_uring = shared.stats.is_uring.load(Ordering::Relaxed);
    let is_supervised = std::env::var_os("NOTIFY_SOCKET").is_some();
    let port = ["port", "tls-port"].map(|name| shared.config.number(name));
    let program = std::env::current_exe().unwrap_or_default();
    let file = shared.config.file().map(|file| file.display().to_string());
    // A program of no commit and no C compiler says zeros.
    field(text, "redis_version", REDIS_VERSION);
    field(text, "pumice_version", env!("CARGO_PKG_VERSION"));
    field(text, "redis_git_sha1", "00000000");
    field(text, "redis_git_dirty", 0);
    field(text, "redis_build_id", "0000000000000000");
    field(text, "redis_mode", "standalone");
    field(text, "os", system());
    field(text, "arch_bits", usize::BITS);
    field(text, "monotonic_clock", "POSIX clock_gettime");
    field(text, "multiplexing_api", if uses_uring { "io_uring" } else { "epoll" });
    field(text, "gcc_version", "0.0.0");
    field(text, "process_id", pumice_port::os::pid());
    field(text, "process_supervised", if is_supervised { "systemd" } else { "no" });
    field(text, "run_id", &shared.run_id);
    field(text, "tcp_port", if port[0] == 0 { port[1] } else { port[0] });
    field(text, "server_time_usec", pumice_port::time::wall_micros());
    field(text, "uptime_in_seconds", up);
    field(text, "uptime_in_days", up / 86_400);
    field(text, "hz", HZ);
    field(text, "configured_hz", HZ);
    field(text, "lru_clock", (now / 1000) & 0x00ff_ffff);
    field(text, "executable", program.display());
    field(text, "config_file", file.unwrap_or_default());
    field(text, "io_threads_active", 0);
}

/// The operating system, its release, and the processor.
fn system() -> String {
    let release = pumice_port::os::read_file("/proc/sys/kernel/osrelease".as_ref());
    let release = release.unwrap_or_default();
    let release = String::from_utf8_lossy(&release);
    format!("Linux {} {}", release.trim(), std::env::consts::ARCH)
}

fn clients(shared: &Shared, _: u64, text: &mut Text) {
    let all = shared.clients.list();
    let most = |bytes: fn(&Client) -> u64| all.iter().map(|c| bytes(c)).max().unwrap_or(0);
    let input = |client: &Client| {
        Stats::get(&client.buffers.input) + Stats::get(&client.buffers.input_free)
    };
    let output = |client: &Client| {
        Stats::get(&client.buffers.replies_most) + Stats::get(&client.buffers.messages)
    };
    let has_limit = |client: &&std::sync::Arc<Client>| {
        client.waiter.lock().as_ref().is_some_and(|waiter| waiter.limit_nanos.is_some())
    };
    field(text, "connected_clients", all.len());
    field(text, "cluster_connections", 0);
    field(text, "maxclients", shared.config.get("maxclients"));
    field(text, "client_recent_max_input_buffer", most(input));
    field(text, "client_recent_max_output_buffer", most(output));
    field(text, "blocked_clients", shared.waiters.len());
    field(text, "tracking_clients", 0);
    field(text, "clients_in_timeout_table", all.iter().filter(has_limit).count());
}

/// As Redis writes them where the allocator cannot be asked: all of it is resident.
fn memory(shared: &Shared, _: u64, text: &mut Text) {
    let memory = Memory::of(shared);
    let mut bytes_of = |name: &str, bytes: u64| {
        field(text, name, bytes);
        field(text, &format!("{name}_human"), human(bytes));
    };
    bytes_of("used_memory", memory.used);
    bytes_of("used_memory_rss", memory.used);
    bytes_of("used_memory_peak", memory.peak);
    field(text, "used_memory_peak_perc", format_args!("{:.2}%", memory.peak_percent()));
    field(text, "used_memory_overhead", memory.overhead());
    field(text, "used_memory_startup", memory.startup);
    field(text, "used_memory_dataset", memory.dataset());
    field(text, "used_memory_dataset_perc", format_args!("{:.2}%", memory.dataset_percent()));
    for name in ["allocated", "active", "resident"] {
        field(text, &format!("allocator_{name}"), memory.used);
    }
    let total = pumice_port::os::total_memory_bytes();
    field(text, "total_system_memory", total);
    field(text, "total_system_memory_human", human(total));
    field(text, "used_memory_lua", 0);
    field(text, "used_memory_vm_eval", 0);
    field(text, "used_memory_lua_human", human(0));
    field(text, "used_memory_scripts_eval", 0);
    field(text, "number_of_cached_scripts", 0);
    field(text, "number_of_functions", 0);
    field(text, "number_of_libraries", 0);
    field(text, "used_memory_vm_functions", 0);
    field(text, "used_memory_vm_total", 0);
    field(text, "used_memory_vm_total_human", human(0));
    field(text, "used_memory_functions", 0);
    field(text, "used_memory_scripts", 0);
    field(text, "used_memory_scripts_human", human(0));
    field(text, "maxmemory", 0);
    field(text, "maxmemory_human", human(0));
    field(text, "maxmemory_policy", "noeviction");
    for name in ["allocator_frag", "allocator_rss", "rss_overhead", "mem_fragmentation"] {
        field(text, &format!("{name}_ratio"), "1.00");
        field(text, &format!("{name}_bytes"), 0);
    }
    field(text, "mem_not_counted_for_evict", 0);
    field(text, "mem_replication_backlog", 0);
    field(text, "mem_total_replication_buffers", 0);
    field(text, "mem_clients_slaves", 0);
    field(text, "mem_clients_normal", memory.clients);
    field(text, "mem_cluster_links", 0);
    field(text, "mem_aof_buffer", 0);
    field(text, "mem_allocator", shared.allocator.get().unwrap_or(&"libc"));
    field(text, "active_defrag_running", 0);
    field(text, "lazyfree_pending_objects", 0);
    field(text, "lazyfreed_objects", 0);
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

fn replication(shared: &Shared, _: u64, text: &mut Text) {
    field(text, "role", "master");
    field(text, "connected_slaves", 0);
    field(text, "master_failover_state", "no-failover");
    field(text, "master_replid", &shared.run_id);
    field(text, "master_replid2", "0".repeat(40));
    field(text, "master_repl_offset", 0);
    field(text, "second_repl_offset", -1);
    field(text, "repl_backlog_active", 0);
    field(text, "repl_backlog_size", 0);
    field(text, "repl_backlog_first_byte_offset", 0);
    field(text, "repl_backlog_histlen", 0);
}

fn cpu(_: &Shared, _: u64, text: &mut Text) {
    let usage = pumice_port::time::resource_usage();
    for (name, micros) in [
        ("used_cpu_sys", usage.system_micros),
        ("used_cpu_user", usage.user_micros),
        ("used_cpu_sys_children", 0),
        ("used_cpu_user_children", 0),
    ] {
        field(text, name, format_args!("{:.6}", micros as f64 / 1e6));
    }
}

/// What each command did, by its name.
fn reports(shared: &Shared) -> Vec<(&'static str, Report)> {
    let each = all().iter().flat_map(|row| std::iter::once(row).chain(row.subcommands));
    each.filter_map(|row| Some((row.full_name, shared.calls.report(row.id)?))).collect()
}

fn commandstats(shared: &Shared, _: u64, text: &mut Text) {
    for (name, report) in reports(shared) {
        let calls = report.latencies.calls();
        let each = report.micros as f64 / calls.max(1) as f64;
        let value = format!(
            "calls={calls},usec={},usec_per_call={each:.2},rejected_calls={},failed_calls={}",
            report.micros, report.refused, report.failed
        );
        field(text, &format!("cmdstat_{name}"), value);
    }
}

fn errorstats(shared: &Shared, _: u64, text: &mut Text) {
    for (code, count) in shared.calls.errors() {
        let name = format!("errorstat_{}", String::from_utf8_lossy(&code));
        field(text, &name, format_args!("count={count}"));
    }
}

fn latencystats(shared: &Shared, _: u64, text: &mut Text) {
    for (name, report) in reports(shared) {
        if report.latencies.calls() > 0 {
            let shown = ["50", "99", "99.9"].map(|percent| {
                let micros = report.latencies.percentile(percent.parse().unwrap_or(0.0));
                format!("p{percent}={micros:.3}")
            });
            field(text, &format!("latency_percentiles_usec_{name}"), shown.join(","));
        }
    }
}

/// Engine properties that show how it keeps up with its load.
fn engine(shared: &Shared, _: u64, text: &mut Text) {
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
            field(text, &name.replace('-', "_"), value);
        }
    }
}

fn keyspace(shared: &Shared, _: u64, text: &mut Text) {
    for db in 0..shared.config.number("databases") {
        let Tally { keys, expiring } = shared.keyspace.keys_in(db as u8);
        if keys > 0 {
            // The remaining lifetimes are not averaged.
            let value = format_args!("keys={keys},expires={expiring},avg_ttl=0");
            field(text, &format!("db{db}"), value);
        }
    }
}
