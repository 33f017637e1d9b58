//! The cost of building tables: codecs, and helpers that compressed concurrently with the emitters.
//!
//! Thread safety: one short lock, once per table.

use std::fmt;

use pumice_port::helpers::HelperPool;
use pumice_port::sync::Mutex;
use pumice_table::BuildStats;

use super::names::{HistogramKind, Ticker};
use super::statistics::Statistics;

/// Sums over the tables of a database; property `pumice.table-builds` is its text.
#[derive(Default)]
pub struct TableBuilds(Mutex<Totals>);

#[derive(Default)]
struct Totals {
    tables: u64,
    parallel: u64,
    sum: BuildStats,
}

impl TableBuilds {
    /// A table was built.
    pub fn add(&self, table: &BuildStats) {
        let mut totals = self.0.lock();
        totals.tables += 1;
        totals.parallel += u64::from(table.ring.emitted > 0);
        let sum = &mut totals.sum;
        sum.blocks_compressed += table.blocks_compressed;
        sum.blocks_rejected += table.blocks_rejected;
        sum.blocks_bypassed += table.blocks_bypassed;
        sum.compress_nanos += table.compress_nanos;
        sum.helper_cpu_nanos += table.helper_cpu_nanos;
        let (ring, of) = (&mut sum.ring, &table.ring);
        ring.emitted += of.emitted;
        ring.calls += of.calls;
        ring.visits += of.visits;
        ring.steals_compressed += of.steals_compressed;
        ring.steals_written += of.steals_written;
        ring.helper_compressed += of.helper_compressed;
        ring.helper_written += of.helper_written;
        ring.waits += of.waits;
        ring.idle_nanos += of.idle_nanos;
        ring.ring_full += of.ring_full;
        ring.ring_full_nanos += of.ring_full_nanos;
    }
}

impl fmt::Display for TableBuilds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let totals = self.0.lock();
        let (sum, ring) = (&totals.sum, &totals.sum.ring);
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        writeln!(f, "tables: {}, with a ring: {}", totals.tables, totals.parallel)?;
        writeln!(
            f,
            "blocks: {} compressed, {} rejected, {} bypassed; codec: {:.3} s; helpers: {:.3} s CPU",
            sum.blocks_compressed,
            sum.blocks_rejected,
            sum.blocks_bypassed,
            seconds(sum.compress_nanos),
            seconds(sum.helper_cpu_nanos)
        )?;
        writeln!(
            f,
            "ring: {} blocks, {} calls, {} visits; emitter compressed {} and wrote {}; helpers \
             compressed {} and wrote {}; {} waits of {:.3} s; full {} times, {:.3} s",
            ring.emitted,
            ring.calls,
            ring.visits,
            ring.steals_compressed,
            ring.steals_written,
            ring.helper_compressed,
            ring.helper_written,
            ring.waits,
            seconds(ring.idle_nanos),
            ring.ring_full,
            seconds(ring.ring_full_nanos)
        )?;
        let pool = HelperPool::shared().stats();
        writeln!(
            f,
            "helpers of the process: {} threads, {} started, {} woken, {} visits, {} left, \
             {} panics",
            pool.threads, pool.started, pool.woken, pool.visits, pool.left, pool.panics
        )
    }
}

/// The tickers and the histogram of a finished table.
pub fn record_build(statistics: &Statistics, table: &BuildStats) {
    for (ticker, count) in [
        (Ticker::NumberBlockCompressed, table.blocks_compressed),
        (Ticker::NumberBlockCompressionRejected, table.blocks_rejected),
        (Ticker::NumberBlockCompressionBypassed, table.blocks_bypassed),
        (Ticker::BytesCompressedFrom, table.bytes_compressed_from),
        (Ticker::BytesCompressedTo, table.bytes_compressed_to),
        (Ticker::BytesCompressionRejected, table.bytes_rejected),
        (Ticker::BytesCompressionBypassed, table.bytes_bypassed),
    ] {
        statistics.record_tick(ticker, count);
    }
    if let Some(times) = &table.codec_times {
        statistics.measure_all(HistogramKind::CompressionTimesNanos, times);
    }
}
