//! Numbers of a column family, and the text of properties `rocksdb.cfstats` and
//! `rocksdb.levelstats`.
//!
//! The layout is RocksDB 10.10's, column for column: scripts cut these lines by position. Reading a
//! report does not end its interval; only [`CfStats::end_interval`] does, which the periodic dump
//! into the info log calls. (For the database's numbers it is the reverse, see `db_stats`. RocksDB
//! does the same and tools rely on it.)
//!
//! Thread safety: plain data; the engine keeps it under the database mutex.
//!
//! Invariant 1: counters only grow, so that differences of snapshots are never negative.

mod blobs;

use std::fmt::{self, Write};

use pumice_base::histogram::Histogram;
use pumice_port::pool::Priority;

pub use blobs::BlobView;

use super::human::{GB, MB, MICROS_PER_SECOND, bytes, count, general};

/// One in this many dumps without changes has a report.
const QUIET_DUMPS: u32 = 8;

/// Totals of the compactions into a level, or of a single one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactionStats {
    /// Duration.
    pub micros: u64,
    /// CPU time.
    pub cpu_micros: u64,
    /// Bytes read from levels above the output level.
    pub bytes_read_non_output_levels: u64,
    /// Bytes read from the output level.
    pub bytes_read_output_level: u64,
    /// Bytes of the new files.
    pub bytes_written: u64,
    /// Bytes of the new files before compression.
    pub bytes_written_pre_comp: u64,
    /// Bytes of files moved down without rewriting.
    pub bytes_moved: u64,
    /// Entries read.
    pub num_input_records: u64,
    /// Entries dropped.
    pub num_dropped_records: u64,
    /// Jobs.
    pub count: u64,
}

impl CompactionStats {
    /// Adds the numbers of another job.
    pub fn add(&mut self, other: &CompactionStats) {
        self.combine(other, |a, b| a + b);
    }

    fn since(mut self, start: &CompactionStats) -> CompactionStats {
        self.combine(start, |a, b| a - b);
        self
    }

    fn combine(&mut self, other: &CompactionStats, op: impl Fn(u64, u64) -> u64) {
        for (mine, theirs) in [
            (&mut self.micros, other.micros),
            (&mut self.cpu_micros, other.cpu_micros),
            (&mut self.bytes_read_non_output_levels, other.bytes_read_non_output_levels),
            (&mut self.bytes_read_output_level, other.bytes_read_output_level),
            (&mut self.bytes_written, other.bytes_written),
            (&mut self.bytes_written_pre_comp, other.bytes_written_pre_comp),
            (&mut self.bytes_moved, other.bytes_moved),
            (&mut self.num_input_records, other.num_input_records),
            (&mut self.num_dropped_records, other.num_dropped_records),
            (&mut self.count, other.count),
        ] {
            *mine = op(*mine, theirs);
        }
    }

    fn bytes_read(&self) -> u64 {
        self.bytes_read_non_output_levels + self.bytes_read_output_level
    }
}

/// The rows of the priority table, by the [`Priority`] of the pool that ran the jobs.
const PRIORITY_NAMES: [&str; 4] = ["Bottom", "Low", "High", "User"];

/// Why a column family slows or stops writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StallCause {
    /// Too many memtables.
    MemtableLimit,
    /// Too many L0 files.
    L0FileCountLimit,
    /// Too much compaction debt.
    PendingCompactionBytes,
}

/// How often writes were slowed or stopped, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StallCounts {
    /// Slowdowns by [`StallCause`].
    pub delays: [u64; 3],
    /// Stops by [`StallCause`].
    pub stops: [u64; 3],
    /// L0 slowdowns while L0 was being compacted.
    pub l0_delays_with_ongoing_compaction: u64,
    /// L0 stops while L0 was being compacted.
    pub l0_stops_with_ongoing_compaction: u64,
}

impl StallCounts {
    /// Counts a slowdown (`stop` false) or stop.
    pub fn count(&mut self, cause: StallCause, stop: bool, l0_being_compacted: bool) {
        let counts = if stop { &mut self.stops } else { &mut self.delays };
        counts[cause as usize] += 1;
        if cause == StallCause::L0FileCountLimit && l0_being_compacted {
            match stop {
                true => self.l0_stops_with_ongoing_compaction += 1,
                false => self.l0_delays_with_ongoing_compaction += 1,
            }
        }
    }

    /// Slowdowns of all causes.
    pub fn total_delays(&self) -> u64 {
        self.delays.iter().sum()
    }

    /// Stops of all causes.
    pub fn total_stops(&self) -> u64 {
        self.stops.iter().sum()
    }

    /// The text of property `rocksdb.cf-write-stall-stats`.
    pub fn report(&self) -> String {
        let counts: Vec<String> =
            self.named().iter().map(|(name, n)| format!("{name}: {n}")).collect();
        format!("Write Stall (count): {}\n", counts.join(", "))
    }

    /// The counts by name, in print order.
    fn named(&self) -> [(&'static str, u64); 10] {
        let [memtable_delays, l0_delays, pending_delays] = self.delays;
        let [memtable_stops, l0_stops, pending_stops] = self.stops;
        let (with_delays, with_stops) =
            (self.l0_delays_with_ongoing_compaction, self.l0_stops_with_ongoing_compaction);
        [
            ("cf-l0-file-count-limit-delays-with-ongoing-compaction", with_delays),
            ("cf-l0-file-count-limit-stops-with-ongoing-compaction", with_stops),
            ("l0-file-count-limit-delays", l0_delays),
            ("l0-file-count-limit-stops", l0_stops),
            ("memtable-limit-delays", memtable_delays),
            ("memtable-limit-stops", memtable_stops),
            ("pending-compaction-bytes-delays", pending_delays),
            ("pending-compaction-bytes-stops", pending_stops),
            ("total-delays", self.total_delays()),
            ("total-stops", self.total_stops()),
        ]
    }
}

/// The totals at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Snapshot {
    compactions: CompactionStats,
    flushed_bytes: u64,
    added_bytes: u64,
    added_files: u64,
    added_l0_files: u64,
    added_keys: u64,
    stalls: u64,
    seconds: f64,
}

/// Counters of a column family since it was opened.
#[derive(Clone, Debug)]
pub struct CfStats {
    /// By output level.
    levels: Vec<CompactionStats>,
    /// By [`Priority`].
    priorities: [CompactionStats; 4],
    /// How often writes were slowed or stopped.
    pub stalls: StallCounts,
    /// Bytes written by flushes.
    pub flushed_bytes: u64,
    /// Bytes of ingested files.
    pub added_bytes: u64,
    /// Ingested files.
    pub added_files: u64,
    /// Ingested files that went to L0.
    pub added_l0_files: u64,
    /// Entries of ingested files.
    pub added_keys: u64,
    opened_micros: u64,
    interval_start: Snapshot,
    /// Dumps since the last one with a report.
    quiet_dumps: u32,
}

/// A level as the report sees it.
#[derive(Clone, Copy, Debug, Default)]
pub struct LevelView {
    /// Files.
    pub files: usize,
    /// Files that are being compacted.
    pub being_compacted: usize,
    /// Bytes of the files.
    pub bytes: u64,
    /// Compaction score.
    pub score: f64,
}

/// A row of the table by level.
struct Row {
    name: String,
    level: LevelView,
    amplification: f64,
    stats: CompactionStats,
}

/// The block cache as the report sees it.
#[derive(Clone, Debug, Default)]
pub struct BlockCacheView {
    /// Name, address and process: `AutoHyperClockCache@0x559b8100d0e0#6490`.
    pub identity: String,
    /// Bytes it may use.
    pub capacity: u64,
    /// Bytes it uses.
    pub usage: u64,
    /// Slots.
    pub table_size: u64,
    /// Entries.
    pub occupancy: u64,
    /// Scans for this report so far.
    pub collections: u64,
    /// Reports since the last scan that reused its results.
    pub last_copies: u64,
    /// Seconds that the last scan took.
    pub last_secs: f64,
    /// Seconds since the last scan.
    pub secs_since: u64,
    /// Role, entries and bytes of each kind of entry that is there, in RocksDB's order.
    pub roles: Vec<(&'static str, u64, u64)>,
}

/// Data that the report needs besides the counters.
#[derive(Clone, Debug, Default)]
pub struct CfView<'a> {
    /// Name of the column family.
    pub cf_name: &'a str,
    /// Monotonic time.
    pub now_micros: u64,
    /// Every level.
    pub levels: &'a [LevelView],
    /// Compaction debt.
    pub estimated_pending_compaction_bytes: u64,
    /// The block cache, if there is one.
    pub block_cache: Option<&'a BlockCacheView>,
    /// The blob files.
    pub blobs: BlobView,
    /// Read latencies in microseconds by level; empty ones are not printed.
    pub read_latencies: &'a [Histogram],
}

impl CfStats {
    /// Levels that are counted.
    pub fn num_levels(&self) -> usize {
        self.levels.len()
    }

    /// Counters of a column family with `num_levels` levels, opened at `now_micros` (monotonic).
    pub fn new(num_levels: usize, now_micros: u64) -> Self {
        CfStats {
            levels: vec![CompactionStats::default(); num_levels],
            priorities: [CompactionStats::default(); 4],
            stalls: StallCounts::default(),
            flushed_bytes: 0,
            added_bytes: 0,
            added_files: 0,
            added_l0_files: 0,
            added_keys: 0,
            opened_micros: now_micros,
            interval_start: Snapshot::default(),
            quiet_dumps: 0,
        }
    }

    /// Counts a job: a compaction into `level`, or a flush (into level 0).
    pub fn add_job(&mut self, level: usize, priority: Priority, job: &CompactionStats) {
        self.levels[level].add(job);
        self.priorities[priority as usize].add(job);
    }

    /// Counts bytes that a trivial move brought to `level`.
    pub fn add_moved_bytes(&mut self, level: usize, bytes: u64) {
        self.levels[level].bytes_moved += bytes;
    }

    fn sum(&self) -> CompactionStats {
        let mut sum = CompactionStats::default();
        self.levels.iter().for_each(|level| sum.add(level));
        sum
    }

    fn snapshot(&self, now_micros: u64) -> Snapshot {
        Snapshot {
            compactions: self.sum(),
            flushed_bytes: self.flushed_bytes,
            added_bytes: self.added_bytes,
            added_files: self.added_files,
            added_l0_files: self.added_l0_files,
            added_keys: self.added_keys,
            stalls: self.stalls.total_delays() + self.stalls.total_stops(),
            seconds: now_micros.saturating_sub(self.opened_micros) as f64 / MICROS_PER_SECOND,
        }
    }

    /// Whether the present dump has a report of this column family. While it is idle one dump in
    /// eight has one, as in RocksDB.
    pub fn wants_report(&mut self) -> bool {
        let changed = Snapshot { seconds: 0.0, ..self.snapshot(0) }
            != Snapshot { seconds: 0.0, ..self.interval_start };
        self.quiet_dumps = if changed { 0 } else { (self.quiet_dumps + 1) % QUIET_DUMPS };
        changed || self.quiet_dumps == 1
    }

    /// Starts the next interval.
    pub fn end_interval(&mut self, now_micros: u64) {
        self.interval_start = self.snapshot(now_micros);
    }

    /// The text of property `rocksdb.cfstats`.
    pub fn report(&self, view: &CfView<'_>) -> String {
        let mut out = self.report_without_latencies(view);
        out.push_str(&read_latency_report(view));
        out
    }

    /// The text of property `rocksdb.cfstats-no-file-histogram`.
    pub fn report_without_latencies(&self, view: &CfView<'_>) -> String {
        let mut out = String::with_capacity(4 << 10);
        let now = self.snapshot(view.now_micros);
        self.print_levels(&mut out, view, &now)
            .and_then(|()| self.print_priorities(&mut out, view))
            .and_then(|()| self.print_totals(&mut out, view, &now))
            .expect("writing to a String cannot fail");
        out
    }

    fn print_levels(&self, out: &mut String, view: &CfView<'_>, now: &Snapshot) -> fmt::Result {
        print_header(out, view.cf_name, "Level")?;
        for row in self.rows(view.levels) {
            print_row(out, &row.name, &row.level, row.amplification, &row.stats)?;
        }
        let start = &self.interval_start;
        let interval = now.compactions.since(&start.compactions);
        let ingested =
            now.flushed_bytes + now.added_bytes - start.flushed_bytes - start.added_bytes;
        let amplification = amplification(&interval, ingested);
        print_row(out, "Int", &LevelView::default(), amplification, &interval)
    }

    /// The levels in use, and their sum.
    fn rows(&self, levels: &[LevelView]) -> Vec<Row> {
        let ingested = self.flushed_bytes + self.added_bytes;
        let mut rows = Vec::new();
        let mut total = LevelView::default();
        for (number, (&level, &stats)) in levels.iter().zip(&self.levels).enumerate() {
            total.files += level.files;
            total.being_compacted += level.being_compacted;
            total.bytes += level.bytes;
            if level.files == 0 && stats.micros == 0 {
                continue;
            }
            let input = if number == 0 { ingested } else { stats.bytes_read_non_output_levels };
            let amplification = amplification(&stats, input);
            rows.push(Row { name: format!("L{number}"), level, amplification, stats });
        }
        let stats = self.sum();
        let amplification = amplification(&stats, ingested);
        rows.push(Row { name: "Sum".into(), level: total, amplification, stats });
        rows
    }

    fn print_priorities(&self, out: &mut String, view: &CfView<'_>) -> fmt::Result {
        print_header(out, view.cf_name, "Priority")?;
        for (name, stats) in PRIORITY_NAMES.iter().zip(&self.priorities) {
            if stats.micros > 0 {
                print_row(out, name, &LevelView::default(), 0.0, stats)?;
            }
        }
        let BlobView { files, bytes, garbage_bytes } = view.blobs;
        let (total, garbage) = (bytes as f64 / GB, garbage_bytes as f64 / GB);
        writeln!(
            out,
            "\nBlob file count: {files}, total size: {total:.1} GB, garbage size: {garbage:.1} GB, \
             space amp: {:.1}\n",
            view.blobs.space_amplification()
        )
    }

    fn print_totals(&self, out: &mut String, view: &CfView<'_>, now: &Snapshot) -> fmt::Result {
        let start = &self.interval_start;
        let seconds = now.seconds - start.seconds;
        writeln!(out, "Uptime(secs): {:.1} total, {seconds:.1} interval", now.seconds)?;
        let gigabytes = |bytes: u64| bytes as f64 / GB;
        for (what, total, before) in [
            ("Flush(GB)", now.flushed_bytes, start.flushed_bytes),
            ("AddFile(GB)", now.added_bytes, start.added_bytes),
        ] {
            let (total, interval) = (gigabytes(total), gigabytes(total - before));
            writeln!(out, "{what}: cumulative {total:.3}, interval {interval:.3}")?;
        }
        for (what, total, before) in [
            ("Total Files", now.added_files, start.added_files),
            ("L0 Files", now.added_l0_files, start.added_l0_files),
            ("Keys", now.added_keys, start.added_keys),
        ] {
            writeln!(out, "AddFile({what}): cumulative {total}, interval {}", total - before)?;
        }
        print_compaction(out, "Cumulative", &now.compactions, now.seconds)?;
        let interval = now.compactions.since(&start.compactions);
        print_compaction(out, "Interval", &interval, seconds)?;
        let pending = view.estimated_pending_compaction_bytes;
        writeln!(out, "Estimated pending compaction bytes: {pending}")?;
        self.print_stalls(out, now)?;
        view.block_cache.map_or(Ok(()), |cache| print_block_cache(out, cache))
    }

    fn print_stalls(&self, out: &mut String, now: &Snapshot) -> fmt::Result {
        out.push_str(&self.stalls.report());
        if now.stalls > 0 {
            writeln!(out, "interval: {} total count", now.stalls - self.interval_start.stalls)?;
        }
        Ok(())
    }
}

/// Bytes written per byte that came in.
fn amplification(stats: &CompactionStats, input_bytes: u64) -> f64 {
    if input_bytes == 0 { 0.0 } else { stats.bytes_written as f64 / input_bytes as f64 }
}

fn print_header(out: &mut String, cf_name: &str, first: &str) -> fmt::Result {
    let columns = format!(
        "{first}    Files   Size     Score Read(GB)  Rn(GB) Rnp1(GB) Write(GB) WPreComp(GB) \
         Wnew(GB) Moved(GB) W-Amp Rd(MB/s) Wr(MB/s) Comp(sec) CompMergeCPU(sec) Comp(cnt) \
         Avg(sec) KeyIn KeyDrop Rblob(GB) Wblob(GB)"
    );
    let line = "-".repeat(columns.len() + 1);
    writeln!(out, "\n** Compaction Stats [{cf_name}] **\n{columns}\n{line}")
}

fn print_row(
    out: &mut String,
    name: &str,
    level: &LevelView,
    amplification: f64,
    stats: &CompactionStats,
) -> fmt::Result {
    let gigabytes = |bytes: u64| bytes as f64 / GB;
    let seconds = stats.micros as f64 / MICROS_PER_SECOND;
    // One microsecond more, so that no rate divides by zero.
    let rate = |bytes: u64| bytes as f64 / MB / (seconds + 1.0 / MICROS_PER_SECOND);
    let new_bytes = stats.bytes_written as f64 - stats.bytes_read_output_level as f64;
    write!(
        out,
        "{name:>4} {:>6}/{:<3} {:>10} {:>5.1} ",
        level.files,
        level.being_compacted,
        bytes(level.bytes),
        level.score
    )?;
    write!(
        out,
        "{:>8.1} {:>7.1} {:>8.1} {:>9.1} {:>9.1} {:>8.1} {:>9.1} {amplification:>5.1} ",
        gigabytes(stats.bytes_read()),
        gigabytes(stats.bytes_read_non_output_levels),
        gigabytes(stats.bytes_read_output_level),
        gigabytes(stats.bytes_written),
        gigabytes(stats.bytes_written_pre_comp),
        new_bytes / GB,
        gigabytes(stats.bytes_moved),
    )?;
    writeln!(
        out,
        "{:>8.1} {:>8.1} {seconds:>9.2} {:>17.2} {:>9} {:>8.3} {:>7} {:>6} {:>9.1} {:>9.1}",
        rate(stats.bytes_read()),
        rate(stats.bytes_written),
        stats.cpu_micros as f64 / MICROS_PER_SECOND,
        stats.count,
        seconds / stats.count.max(1) as f64,
        count(stats.num_input_records),
        count(stats.num_dropped_records),
        0.0,
        0.0
    )
}

fn print_compaction(
    out: &mut String,
    span: &str,
    stats: &CompactionStats,
    seconds: f64,
) -> fmt::Result {
    let per_second = |bytes: u64| bytes as f64 / MB / seconds.max(0.001);
    writeln!(
        out,
        "{span} compaction: {:.2} GB write, {:.2} MB/s write, {:.2} GB read, {:.2} MB/s read, \
         {:.1} seconds",
        stats.bytes_written as f64 / GB,
        per_second(stats.bytes_written),
        stats.bytes_read() as f64 / GB,
        per_second(stats.bytes_read()),
        stats.micros as f64 / MICROS_PER_SECOND
    )
}

/// The text of property `rocksdb.block-cache-entry-stats`.
pub fn block_cache_report(cache: &BlockCacheView) -> String {
    let mut out = String::new();
    print_block_cache(&mut out, cache).expect("writing to a String cannot fail");
    out
}

fn print_block_cache(out: &mut String, cache: &BlockCacheView) -> fmt::Result {
    writeln!(
        out,
        "Block cache {} capacity: {} usage: {} table_size: {} occupancy: {} \
         collections: {} last_copies: {} last_secs: {} secs_since: {}",
        cache.identity,
        bytes(cache.capacity),
        bytes(cache.usage),
        cache.table_size,
        cache.occupancy,
        cache.collections,
        cache.last_copies,
        general(cache.last_secs),
        cache.secs_since
    )?;
    write!(out, "Block cache entry stats(count,size,portion):")?;
    for (role, entries, size) in cache.roles.iter().filter(|(_, entries, _)| *entries > 0) {
        let portion = *size as f64 * 100.0 / cache.capacity.max(1) as f64;
        write!(out, " {role}({entries},{},{}%)", bytes(*size), general(portion))?;
    }
    writeln!(out)
}

/// The text of property `rocksdb.cf-file-histogram`.
pub fn read_latency_report(view: &CfView<'_>) -> String {
    let mut out = format!("\n** File Read Latency Histogram By Level [{}] **\n", view.cf_name);
    for (level, histogram) in view.read_latencies.iter().enumerate() {
        if histogram.count() > 0 {
            out.push_str(&format!(
                "** Level {level} read latency histogram (micros):\n{histogram}\n"
            ));
        }
    }
    out
}

/// The text of property `rocksdb.levelstats`.
pub fn level_report(levels: &[LevelView]) -> String {
    let mut out = String::from("Level Files Size(MB)\n--------------------\n");
    for (number, level) in levels.iter().enumerate() {
        let megabytes = level.bytes as f64 / MB;
        out.push_str(&format!("{number:>3} {:>8} {megabytes:>8.0}\n", level.files));
    }
    out
}

mod map;
#[cfg(test)]
mod tests;
