//! MEMORY: the memory of keys and of the server.
//!
//! The data is on disk: what is in memory are memtables, caches and clients. "Dataset" is what
//! is neither there from the start nor the clients'. The allocator is not asked; as Redis does with
//! one that it cannot ask, memory in use is what the system says the process has.
//!
//! Thread safety: see the module above.

use super::args::{integer, is};
use super::keys::help;
use super::{Access, Call, LOADING, READONLY, Row, STALE};
use crate::keyspace::encoding::Kind;
use crate::keyspace::{Failure, Outcome};
use crate::protocol::Reply;
use crate::session::Shared;
use crate::session::stats::Stats;

const fn row(
    name: &'static str,
    arity: i32,
    flags: u32,
    summary: &'static str,
    run: super::Handler,
) -> Row {
    Row::new("server", name, arity, flags, "4.0.0", summary, run).access(Access::Glance)
}

/// See the module's head.
pub const ROWS: &[Row] =
    &[row("memory", -2, 0, "Shows memory use.", |_| Err(Failure::SYNTAX)).subcommands(MEMORY)];

const MEMORY: &[Row] = &[
    row("doctor", 2, 0, "Says what is unusual about memory.", doctor),
    row("help", 2, LOADING | STALE, "Lists the subcommands.", |call| help(call, "MEMORY", MEMORY)),
    row("malloc-stats", 2, 0, "The allocator tells nothing.", malloc_stats),
    row("purge", 2, 0, "Accepted without an effect.", |call| {
        call.out.ok();
        Ok(())
    }),
    row("stats", 2, 0, "Shows what memory is used for.", stats),
    row("usage", -3, READONLY, "Estimates the memory of a key.", usage)
        .keys(2, 2, 1)
        .access(Access::View),
];

/// Memory of the process, in bytes.
pub struct Memory {
    /// What the process has.
    pub used: u64,
    /// The most that it had.
    pub peak: u64,
    /// What it had when it began to listen.
    pub startup: u64,
    /// What clients are charged for.
    pub clients: u64,
}

impl Memory {
    /// The memory of a server now.
    pub fn of(shared: &Shared) -> Memory {
        let usage = pumice_port::time::resource_usage();
        let used = resident_bytes();
        Memory {
            used,
            peak: usage.max_resident_bytes.max(used),
            startup: Stats::get(&shared.stats.startup_bytes).min(used),
            clients: shared.clients.memory.used(),
        }
    }
    /// What is not for data.
    pub fn overhead(&self) -> u64 {
        (self.startup + self.clients).min(self.used)
    }
    /// Memtables, caches, and what commands use.
    pub fn dataset(&self) -> u64 {
        self.used - self.overhead()
    }
    /// The dataset's part of what came after the start, in percent.
    pub fn dataset_percent(&self) -> f64 {
        percent(self.dataset(), self.used - self.startup)
    }
    /// What is used now of the peak, in percent.
    pub fn peak_percent(&self) -> f64 {
        percent(self.used, self.peak)
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

/// Memory of the process, in bytes; 0 where the system does not say.
pub fn resident_bytes() -> u64 {
    let status = pumice_port::os::read_file(std::path::Path::new("/proc/self/status"));
    let status = status.unwrap_or_default();
    let text = String::from_utf8_lossy(&status);
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) << 10
}

/// Numbers of MEMORY STATS, and doubles among them.
enum Value {
    Count(u64),
    Double(f64),
}

fn stats(call: &mut Call<'_, '_>) -> Outcome<()> {
    use Value::{Count, Double};
    let memory = Memory::of(call.shared);
    let of_databases: Vec<(String, u64)> = databases(call.shared);
    let keys: u64 = of_databases.iter().map(|(_, keys)| keys).sum();
    let since_start = memory.used - memory.startup;
    let before = [
        ("peak.allocated", Count(memory.peak)),
        ("total.allocated", Count(memory.used)),
        ("startup.allocated", Count(memory.startup)),
        ("replication.backlog", Count(0)),
        ("clients.slaves", Count(0)),
        ("clients.normal", Count(memory.clients)),
        ("cluster.links", Count(0)),
        ("aof.buffer", Count(0)),
        ("lua.caches", Count(0)),
        ("functions.caches", Count(0)),
    ];
    let after = [
        ("overhead.total", Count(memory.overhead())),
        ("keys.count", Count(keys)),
        ("keys.bytes-per-key", Count(since_start.checked_div(keys).unwrap_or(0))),
        ("dataset.bytes", Count(memory.dataset())),
        ("dataset.percentage", Double(memory.dataset_percent())),
        ("peak.percentage", Double(memory.peak_percent())),
        ("allocator.allocated", Count(memory.used)),
        ("allocator.active", Count(memory.used)),
        ("allocator.resident", Count(memory.used)),
        ("allocator-fragmentation.ratio", Double(1.0)),
        ("allocator-fragmentation.bytes", Count(0)),
        ("allocator-rss.ratio", Double(1.0)),
        ("allocator-rss.bytes", Count(0)),
        ("rss-overhead.ratio", Double(1.0)),
        ("rss-overhead.bytes", Count(0)),
        ("fragmentation", Double(1.0)),
        ("fragmentation.bytes", Count(0)),
    ];
    call.out.map(before.len() + of_databases.len() + after.len());
    before.iter().for_each(|row| write_value(call.out, row));
    for (name, _) in &of_databases {
        // There are no hash tables of keys.
        call.out.bulk(name.as_bytes());
        call.out.map(3);
        for table in ["main", "expires", "slot-to-keys"] {
            call.out.bulk(format!("overhead.hashtable.{table}").as_bytes());
            call.out.integer(0);
        }
    }
    after.iter().for_each(|row| write_value(call.out, row));
    Ok(())
}

fn write_value(out: &mut Reply, (name, value): &(&str, Value)) {
    out.bulk(name.as_bytes());
    match value {
        Value::Count(count) => out.integer(*count as i64),
        Value::Double(value) => out.double(*value),
    }
}

/// `db.N` of each database that has keys, and how many.
fn databases(shared: &Shared) -> Vec<(String, u64)> {
    let all = 0..shared.config.number("databases");
    let each = all.map(|db| (format!("db.{db}"), shared.keyspace.keys_in(db as u8).keys));
    each.map(|(name, keys)| (name, keys.max(0) as u64)).filter(|(_, keys)| *keys > 0).collect()
}

fn doctor(call: &mut Call<'_, '_>) -> Outcome<()> {
    const LITTLE_BYTES: u64 = 5 << 20;
    const CLIENT_BYTES: u64 = 200 << 10;
    let memory = Memory::of(call.shared);
    let clients = call.shared.clients.len().max(1) as u64;
    let mut found = Vec::new();
    if memory.peak > memory.used / 2 * 3 {
        found.push("The peak was more than 1.5 times what is used now.");
    }
    if memory.clients / clients > CLIENT_BYTES {
        found.push("Clients use more than 200 KiB each: see CLIENT LIST.");
    }
    let text = match found.is_empty() {
        _ if memory.used < LITTLE_BYTES => "Too little memory is used to say anything.".to_string(),
        true => "Nothing is unusual.".to_string(),
        false => found.join("\n"),
    };
    call.out.verbatim(&(text + "\n"));
    Ok(())
}

fn malloc_stats(call: &mut Call<'_, '_>) -> Outcome<()> {
    call.out.bulk(b"Stats not supported for the current allocator");
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
