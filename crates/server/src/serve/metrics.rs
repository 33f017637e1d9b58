//! What the server does, for Prometheus: text over HTTP on a port of its own, off by default.
//!
//! It answers GET /metrics with one page and closes; anything else with 404. It listens on the
//! addresses of `bind`, asks for no password and shows no data: let only who may see the load reach
//! the port. A request may have 8 KiB and take five seconds.
//!
//! Thread safety: one fiber accepts and answers, a request after the other. Suspends.

use std::fmt::Write;
use std::io::ErrorKind;
use std::sync::Arc;

use pumice_port::net::{Listener, Stream};
use pumice_port::{os, thread, time};

use super::Server;
use crate::session::Shared;
use crate::session::slowlog::BUCKETS;
use crate::session::stats::Stats;

const REQUEST_BYTES: usize = 8 << 10;
const REQUEST_NANOS: u64 = 5_000_000_000;
/// How often it looks whether the server ends while a request comes.
const LOOK_NANOS: u64 = 100_000_000;

/// Answers until the server ends.
pub fn serve(server: &Arc<Server>, listener: &Listener) {
    while !server.is_ending.is_set() {
        match listener.accept() {
            Ok(stream) => answer(server, &stream),
            Err(_) if !server.is_ending.is_set() => {
                thread::sleep(std::time::Duration::from_millis(10));
            }
            Err(_) => {}
        }
    }
}

/// The first line of a request, if it comes whole.
fn request_line(server: &Server, stream: &Stream) -> Option<String> {
    let end = time::now_nanos() + REQUEST_NANOS;
    let (mut bytes, mut filled) = (vec![0; REQUEST_BYTES], 0);
    while !bytes[..filled].windows(4).any(|four| four == b"\r\n\r\n") {
        let left = end.saturating_sub(time::now_nanos());
        if left == 0 || server.is_ending.is_set() {
            return None;
        }
        stream.set_receive_timeout(Some(left.min(LOOK_NANOS)));
        match stream.receive(&mut bytes[filled..]) {
            Ok(n) if n > 0 => filled += n,
            Err(error) if error.kind() == ErrorKind::TimedOut => {}
            _ => return None,
        }
    }
    let text = String::from_utf8_lossy(&bytes[..filled]);
    text.lines().next().map(str::to_string)
}

fn answer(server: &Server, stream: &Stream) {
    let Some(line) = request_line(server, stream) else { return };
    let path = line.strip_prefix("GET ").and_then(|rest| rest.split(' ').next());
    let (status, body) = match path {
        Some("/metrics") => ("200 OK", page(&server.shared)),
        _ => ("404 Not Found", "the page is /metrics\n".to_string()),
    };
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    let len = body.len();
    let reply = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len}\r\n\
         Connection: close\r\n\r\n{body}"
    );
    stream.set_send_timeout(Some(REQUEST_NANOS));
    // Who asked may have gone.
    stream.send_all(reply.as_bytes()).ok();
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
        // The last one has all that took longer.
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
