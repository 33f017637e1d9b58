//! Numbers of a database as a whole, and the text of property `rocksdb.dbstats`.
//!
//! Thread safety: counters are relaxed atomics that write leaders add to, once per group; reports
//! may be taken at any time. Reading a report ends the interval of the next one, as in RocksDB:
//! `Interval writes` counts from the previous report.
//!
//! Invariant 1: counters only grow, so that differences of snapshots are never negative.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crossbeam_utils::CachePadded;
use pumice_base::histogram::{BUCKETS, Histogram, bucket_index};
use pumice_port::sync::Mutex;

use super::human::{GB, MB, MICROS_PER_SECOND, count, duration};

/// Shortest time over which rates are computed.
const MIN_SECONDS: f64 = 0.001;

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Snapshot {
    batches: u64,
    groups: u64,
    keys: u64,
    bytes: u64,
    wal_batches: u64,
    wal_bytes: u64,
    wal_syncs: u64,
    stall_micros: u64,
    buffer_manager_stops: u64,
    seconds: f64,
}

impl Snapshot {
    fn since(&self, start: &Snapshot) -> Snapshot {
        Snapshot {
            batches: self.batches - start.batches,
            groups: self.groups - start.groups,
            keys: self.keys - start.keys,
            bytes: self.bytes - start.bytes,
            wal_batches: self.wal_batches - start.wal_batches,
            wal_bytes: self.wal_bytes - start.wal_bytes,
            wal_syncs: self.wal_syncs - start.wal_syncs,
            stall_micros: self.stall_micros - start.stall_micros,
            buffer_manager_stops: self.buffer_manager_stops - start.buffer_manager_stops,
            seconds: self.seconds - start.seconds,
        }
    }
}

#[derive(Default)]
struct Counters {
    batches: AtomicU64,
    groups: AtomicU64,
    keys: AtomicU64,
    bytes: AtomicU64,
    wal_batches: AtomicU64,
    wal_bytes: AtomicU64,
    wal_syncs: AtomicU64,
    stall_micros: AtomicU64,
    buffer_manager_stops: AtomicU64,
}

/// Counters of a database since it was opened.
pub struct DbStats {
    counters: CachePadded<Counters>,
    /// Sizes of groups of more than one batch; the others are the rest of `groups`.
    shared_groups: Mutex<Histogram>,
    /// Members that came to insert, in groups whose leader asked for help.
    helpers: Mutex<Histogram>,
    opened_micros: AtomicU64,
    interval_start: Mutex<Snapshot>,
}

impl std::fmt::Debug for DbStats {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DbStats").finish_non_exhaustive()
    }
}

impl Default for DbStats {
    fn default() -> Self {
        Self::new()
    }
}

impl DbStats {
    /// Counters of a database opened now.
    pub fn new() -> Self {
        Self::opened_at(pumice_port::time::now_micros())
    }

    fn opened_at(now_micros: u64) -> Self {
        DbStats {
            counters: CachePadded::new(Counters::default()),
            shared_groups: Mutex::foreground(Histogram::new()),
            helpers: Mutex::foreground(Histogram::new()),
            opened_micros: AtomicU64::new(now_micros),
            interval_start: Mutex::foreground(Snapshot::default()),
        }
    }

    /// Counts a group of `batches` with `keys` entries in `bytes` bytes, `logged` in the WAL.
    #[inline]
    pub fn written(&self, batches: u64, keys: u64, bytes: u64, logged: bool) {
        let c = &*self.counters;
        c.groups.fetch_add(1, Relaxed);
        if batches > 1 {
            self.shared_groups.lock().add(batches);
        }
        c.batches.fetch_add(batches, Relaxed);
        c.keys.fetch_add(keys, Relaxed);
        c.bytes.fetch_add(bytes, Relaxed);
        if logged {
            c.wal_batches.fetch_add(batches, Relaxed);
        }
    }

    /// Batches per group written so far.
    pub fn group_sizes(&self) -> Histogram {
        let shared = self.shared_groups.lock().clone();
        let alone = self.counters.groups.load(Relaxed).saturating_sub(shared.count());
        let mut buckets = [0; BUCKETS];
        buckets[bucket_index(1)] = alone;
        let mut sizes = Histogram::from_parts(buckets, alone, u128::from(alone), 1, alone.min(1));
        sizes.merge(&shared);
        sizes
    }

    /// Counts a group whose leader asked members for help: this many came.
    pub fn helped(&self, came: u64) {
        self.helpers.lock().add(came);
    }

    /// How many members inserted concurrently with their leader, in groups in which some were asked
    /// to.
    pub fn helpers(&self) -> Histogram {
        self.helpers.lock().clone()
    }

    /// Syncs of the WAL by write groups.
    pub fn wal_syncs(&self) -> u64 {
        self.counters.wal_syncs.load(Relaxed)
    }

    /// Bytes of all records of the WAL.
    pub fn wal_bytes(&self) -> u64 {
        self.counters.wal_bytes.load(Relaxed)
    }

    /// Counts bytes that went to the WAL, and its sync.
    #[inline]
    pub fn wal_written(&self, bytes: u64, synced: bool) {
        self.counters.wal_bytes.fetch_add(bytes, Relaxed);
        if synced {
            self.counters.wal_syncs.fetch_add(1, Relaxed);
        }
    }

    /// Counts the time that a writer was delayed.
    pub fn stalled(&self, micros: u64) {
        self.counters.stall_micros.fetch_add(micros, Relaxed);
    }

    /// Counts a stop of writes by the write-buffer manager.
    pub fn add_buffer_manager_stop(&self) {
        self.counters.buffer_manager_stops.fetch_add(1, Relaxed);
    }

    /// Bytes of all batches written.
    pub fn bytes_written(&self) -> u64 {
        self.counters.bytes.load(Relaxed)
    }

    /// Monotonic time at which the database was opened, or the counters were reset.
    pub fn opened_micros(&self) -> u64 {
        self.opened_micros.load(Relaxed)
    }

    /// Resets all to zero, counting from `now_micros`; concurrent counts may be lost.
    pub fn reset(&self, now_micros: u64) {
        let mut start = self.interval_start.lock();
        let c = &*self.counters;
        let all = [
            &c.batches,
            &c.groups,
            &c.keys,
            &c.bytes,
            &c.wal_batches,
            &c.wal_bytes,
            &c.wal_syncs,
            &c.stall_micros,
            &c.buffer_manager_stops,
        ];
        all.iter().for_each(|counter| counter.store(0, Relaxed));
        self.opened_micros.store(now_micros, Relaxed);
        self.shared_groups.lock().clear();
        self.helpers.lock().clear();
        *start = Snapshot::default();
    }

    fn snapshot(&self, now_micros: u64) -> Snapshot {
        let c = &*self.counters;
        Snapshot {
            batches: c.batches.load(Relaxed),
            groups: c.groups.load(Relaxed),
            keys: c.keys.load(Relaxed),
            bytes: c.bytes.load(Relaxed),
            wal_batches: c.wal_batches.load(Relaxed),
            wal_bytes: c.wal_bytes.load(Relaxed),
            wal_syncs: c.wal_syncs.load(Relaxed),
            stall_micros: c.stall_micros.load(Relaxed),
            buffer_manager_stops: c.buffer_manager_stops.load(Relaxed),
            seconds: now_micros.saturating_sub(self.opened_micros()) as f64 / MICROS_PER_SECOND,
        }
    }

    /// Property `rocksdb.dbstats` as names and values: all since the database was opened.
    pub fn map(&self, now_micros: u64) -> BTreeMap<String, String> {
        let now = self.snapshot(now_micros);
        let counts = [
            ("db.wal_bytes_written", now.wal_bytes),
            ("db.wal_syncs", now.wal_syncs),
            ("db.user_bytes_written", now.bytes),
            ("db.user_writes_by_other", now.batches.saturating_sub(now.groups)),
            ("db.user_writes_by_self", now.groups),
            ("db.user_keys_written", now.keys),
            ("db.user_writes_with_wal", now.wal_batches),
            ("db.user_write_stall_micros", now.stall_micros),
        ];
        let mut map = BTreeMap::from(counts.map(|(name, n)| (name.to_string(), n.to_string())));
        map.insert("db.uptime".to_string(), format!("{:.6}", now.seconds));
        map
    }

    /// The text of property `rocksdb.dbstats`; ends the interval.
    pub fn report(&self, now_micros: u64) -> String {
        let mut start = self.interval_start.lock();
        // Taken under the lock: an interval never ends before it starts.
        let now = self.snapshot(now_micros);
        let interval = now.since(&start);
        *start = now;
        drop(start);
        let mut out = String::from("\n** DB Stats **\n");
        print(&mut out, &now, &interval).expect("writing to a String cannot fail");
        out
    }
}

/// `a / b`, 0 for an empty denominator.
fn ratio(a: u64, b: u64) -> f64 {
    a as f64 / b.max(1) as f64
}

fn print(out: &mut String, total: &Snapshot, interval: &Snapshot) -> std::fmt::Result {
    writeln!(out, "Uptime(secs): {:.1} total, {:.1} interval", total.seconds, interval.seconds)?;
    let ingested = total.bytes as f64 / GB;
    print_writes(out, "Cumulative", total, format_args!("{ingested:.2} GB"))?;
    let ingested = interval.bytes as f64 / MB;
    print_writes(out, "Interval", interval, format_args!("{ingested:.2} MB"))?;
    let stops = total.buffer_manager_stops;
    writeln!(out, "Write Stall (count): write-buffer-manager-limit-stops: {stops}")?;
    if interval.buffer_manager_stops > 0 {
        writeln!(out, "interval: {} total count", interval.buffer_manager_stops)?;
    }
    Ok(())
}

fn print_writes(
    out: &mut String,
    span: &str,
    s: &Snapshot,
    ingested: std::fmt::Arguments<'_>,
) -> std::fmt::Result {
    let seconds = s.seconds.max(MIN_SECONDS);
    writeln!(
        out,
        "{span} writes: {} writes, {} keys, {} commit groups, {:.1} writes per commit group, \
         ingest: {ingested}, {:.2} MB/s",
        count(s.batches),
        count(s.keys),
        count(s.groups),
        ratio(s.batches, s.groups),
        s.bytes as f64 / MB / seconds
    )?;
    writeln!(
        out,
        "{span} WAL: {} writes, {} syncs, {:.2} writes per sync, written: {:.2} GB, {:.2} MB/s",
        count(s.wal_batches),
        count(s.wal_syncs),
        ratio(s.wal_batches, s.wal_syncs),
        s.wal_bytes as f64 / GB,
        s.wal_bytes as f64 / MB / seconds
    )?;
    let percent = s.stall_micros as f64 / 10_000.0 / seconds;
    writeln!(out, "{span} stall: {} H:M:S, {percent:.1} percent", duration(s.stall_micros))
}

#[cfg(test)]
mod tests;
