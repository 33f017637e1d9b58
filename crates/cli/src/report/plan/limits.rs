//! What no engine can avoid in a row of the core tables, as costs that the machine was measured
//! for.
//!
//! Pure. A limit is a lower bound that leaves out small or debatable costs: checksums, comparisons
//! of keys, system calls of background work. So the share of it that an engine reaches is the least
//! that it could be, and rows are comparable with each other, not with a promise.

use super::{Column, Scale, column};
use std::collections::BTreeMap;

/// One cost, by how much of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cost {
    /// Loads from memory the size of a filter, each of which waits for the one before.
    Near(f64),
    /// Cache misses, each of which waits for the one before.
    Misses(f64),
    /// Cache misses of which several are under way at once.
    Overlapped(f64),
    /// Bytes copied in memory.
    Copy(f64),
    /// Write calls of a small record.
    Appends(f64),
    /// Bytes handed to the kernel in large pieces.
    Written(f64),
    /// Reads of a packed block out of the page cache.
    BlockReads(f64),
    /// Bytes through a codec.
    Compressed(Codec, f64),
    /// Bytes out of a codec.
    Uncompressed(Codec, f64),
    /// Random reads of 4 KiB from the device.
    DeviceReads(f64),
    /// Appends that the device has when they return.
    DeviceSyncs(f64),
}

/// A codec that limits are computed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// lz4.
    Lz4,
    /// zstd at its default level.
    Zstd,
}

/// What is measured of the machine, by the names that `baselines` prints; all in microseconds, of
/// bytes for a MiB of them.
pub const BASELINES: [Column; 13] = [
    column("near_us", "load out of 256 KiB, ns", 1e-3, 1),
    column("miss_us", "out of 32 MiB, ns", 1e-3, 0),
    column("overlapped_us", "several at once, ns each", 1e-3, 1),
    column("copy_us", "copy, us/MiB", 1.0, 0),
    column("append_us", "write call of 136 B, ns", 1e-3, 0),
    column("write_us", "written, us/MiB", 1.0, 0),
    column("block_read_us", "2 KiB from the page cache, us", 1.0, 2),
    column("lz4_us", "lz4, us/MiB", 1.0, 0),
    column("lz4_back_us", "back, us/MiB", 1.0, 0),
    column("zstd_us", "zstd, us/MiB", 1.0, 0),
    column("zstd_back_us", "back, us/MiB", 1.0, 0),
    column("device_read_us", "4 KiB from the device, us", 1.0, 0),
    column("device_sync_us", "synced append, us", 1.0, 0),
];

impl Cost {
    /// Microseconds on a machine with these baselines; `None` if the one it needs is missing.
    pub fn micros(self, baselines: &BTreeMap<String, f64>) -> Option<f64> {
        let (name, amount, unit) = self.parts();
        Some(baselines.get(name)? * amount / unit)
    }

    /// How much of what, in words.
    pub fn words(self) -> String {
        let bytes = |bytes: f64| match bytes {
            b if b < 1e4 => format!("{b:.0} B"),
            b if b < 1e6 => format!("{:.0} kB", b / 1e3),
            b => format!("{:.1} MB", b / 1e6),
        };
        let count = |n: f64| {
            let text = format!("{n:.2}");
            text.trim_end_matches('0').trim_end_matches('.').to_string()
        };
        match self {
            Cost::Near(1.0) => "a load from the filter".to_string(),
            Cost::Near(n) => format!("{} loads from the filter", count(n)),
            Cost::Misses(1.0) => "a cache miss".to_string(),
            Cost::Misses(n) => format!("{} cache misses", count(n)),
            Cost::Overlapped(1.0) => "a cache miss overlapped with others".to_string(),
            Cost::Overlapped(n) => format!("{} cache misses overlapped with others", count(n)),
            Cost::Copy(n) => format!("{} copied", bytes(n)),
            Cost::Appends(1.0) => "a write call".to_string(),
            Cost::Appends(n) => format!("{} write calls", count(n)),
            Cost::Written(n) => format!("{} written", bytes(n)),
            Cost::BlockReads(n) => format!("{} reads of 2 KiB", count(n)),
            Cost::Compressed(codec, n) => format!("{} through {}", bytes(n), codec.name()),
            Cost::Uncompressed(codec, n) => format!("{} out of {}", bytes(n), codec.name()),
            Cost::DeviceReads(n) => format!("{} reads of the device", count(n)),
            Cost::DeviceSyncs(1.0) => "a sync".to_string(),
            Cost::DeviceSyncs(n) => format!("{} syncs", count(n)),
        }
    }

    /// The baseline, how much of it, and how much it was measured for.
    fn parts(self) -> (&'static str, f64, f64) {
        const MIB: f64 = (1 << 20) as f64;
        match self {
            Cost::Near(n) => ("near_us", n, 1.0),
            Cost::Misses(n) => ("miss_us", n, 1.0),
            Cost::Overlapped(n) => ("overlapped_us", n, 1.0),
            Cost::Copy(n) => ("copy_us", n, MIB),
            Cost::Appends(n) => ("append_us", n, 1.0),
            Cost::Written(n) => ("write_us", n, MIB),
            Cost::BlockReads(n) => ("block_read_us", n, 1.0),
            Cost::Compressed(Codec::Lz4, n) => ("lz4_us", n, MIB),
            Cost::Compressed(Codec::Zstd, n) => ("zstd_us", n, MIB),
            Cost::Uncompressed(Codec::Lz4, n) => ("lz4_back_us", n, MIB),
            Cost::Uncompressed(Codec::Zstd, n) => ("zstd_back_us", n, MIB),
            Cost::DeviceReads(n) => ("device_read_us", n, 1.0),
            Cost::DeviceSyncs(n) => ("device_sync_us", n, 1.0),
        }
    }
}

impl Codec {
    fn name(self) -> &'static str {
        match self {
            Codec::Lz4 => "lz4",
            Codec::Zstd => "zstd",
        }
    }
}

/// Which time of an operation a limit bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// CPU of the process while the benchmark ran.
    Cpu,
    /// Elapsed time.
    Wall,
}

/// The limit of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// The core table.
    pub table: &'static str,
    /// The row.
    pub row: String,
    /// The time that it bounds.
    pub clock: Clock,
    /// Of an operation.
    pub costs: Vec<Cost>,
}

/// Bytes of a key and a value, as most rows have them.
const ENTRY: f64 = 116.0;
const VALUE: f64 = 100.0;
/// Bytes that both memtables of a database hold, which need not be in a table.
const MEMTABLES: f64 = 2.0 * 67_108_864.0;
/// Values of 4 and 64 KiB that are written.
pub const LARGE_WRITTEN: [u64; 2] = [120_000, 8000];
/// Bytes of a block.
const BLOCK: f64 = 4096.0;
/// What compression leaves of the values.
const PACKED: f64 = 0.5;
/// Distinct keys among as many random draws as there are keys.
const DISTINCT: f64 = 0.632;

/// The limits of the core tables' rows.
pub fn of(scale: &Scale) -> Vec<Limit> {
    let mut all = writes(scale);
    all.extend(reads(scale));
    for (codec, name) in [(Codec::Lz4, "lz4"), (Codec::Zstd, "zstd")] {
        let bytes = scale.count(600_000) as f64 * ENTRY;
        let costs = vec![
            Cost::Uncompressed(codec, bytes),
            Cost::Compressed(codec, bytes * DISTINCT),
            Cost::Written(bytes * DISTINCT * PACKED),
        ];
        let row = format!("compact, {name}");
        all.push(Limit { table: "compact", row, clock: Clock::Cpu, costs });
    }
    all
}

fn writes(scale: &Scale) -> Vec<Limit> {
    use Cost::{Appends, Compressed, Copy, DeviceSyncs, Misses, Written};
    let put = |calls: f64| vec![Appends(calls), Copy(ENTRY), Misses(1.0)];
    let large = |bytes: f64, keys: u64| {
        // A write call of the record, a copy into the memtable, a table of what it cannot hold.
        let all = keys as f64 * bytes;
        let flushed = bytes * ((all - MEMTABLES) / all).max(0.0);
        vec![
            Appends(1.0),
            Written(bytes),
            Copy(bytes),
            Misses(1.0),
            Compressed(Codec::Lz4, flushed),
            Written(flushed * PACKED),
        ]
    };
    let rows = vec![
        ("fillseq", vec![Appends(1.0), Copy(ENTRY)]),
        ("fillseq, WAL off", vec![Copy(ENTRY)]),
        ("fillrandom, 1 thread", put(1.0)),
        ("fillrandom, 4 threads", put(1.0 / 4.0)),
        ("fillrandom, 16 threads", put(1.0 / 16.0)),
        ("fillrandom, batches of 100", put(1.0 / 100.0)),
        ("fillrandom, values of 4 KiB", large(4112.0, scale.count(LARGE_WRITTEN[0]))),
        ("fillrandom, values of 64 KiB", large(65_552.0, scale.count(LARGE_WRITTEN[1]))),
        ("overwrite", put(1.0)),
        ("updaterandom", vec![Appends(1.0), Copy(ENTRY), Misses(2.0)]),
        ("deleterandom", vec![Appends(1.0), Copy(ENTRY - VALUE), Misses(1.0)]),
        ("fillsync, disk", vec![DeviceSyncs(1.0)]),
    ];
    let limit = |(row, costs): (&str, Vec<Cost>)| {
        let clock = if row == "fillsync, disk" { Clock::Wall } else { Clock::Cpu };
        let costs = costs.into_iter().filter(|cost| cost.parts().1 > 0.0).collect();
        Limit { table: "writes", row: row.to_string(), clock, costs }
    };
    rows.into_iter().map(limit).collect()
}

fn reads(scale: &Scale) -> Vec<Limit> {
    use Cost::{BlockReads, Copy, DeviceReads, Misses, Near, Overlapped, Uncompressed};
    let bytes = scale.count(400_000) as f64 * ENTRY * DISTINCT;
    // The database has one level; what the cache cannot hold is read.
    let read = |cache: f64| {
        let share = (1.0 - cache / bytes).max(0.0);
        vec![BlockReads(share), Uncompressed(Codec::Lz4, share * BLOCK), Copy(VALUE)]
    };
    let device = |cache: f64| vec![DeviceReads((1.0 - cache / bytes).max(0.0))];
    let get = vec![Misses(1.0), Copy(VALUE)];
    let scan = vec![Misses(1.0), Copy(50.0 * ENTRY)];
    let first = vec![Uncompressed(Codec::Lz4, ENTRY), Copy(ENTRY)];
    let rows = vec![
        ("readrandom, cached", get.clone()),
        ("readrandom, cache of 1 MB", read(1e6)),
        ("readmissing", vec![Near(1.0)]),
        ("multireadrandom, 32", vec![Overlapped(1.0), Copy(VALUE)]),
        ("seekrandom", vec![Misses(1.0)]),
        ("seekrandom, 50 nexts", scan.clone()),
        ("seekrandom, 50 prevs", scan),
        ("readseq", first.clone()),
        ("readreverse", first),
        ("readseq, the second time", vec![Copy(ENTRY)]),
        ("readrandom, values of 4 KiB", vec![Misses(1.0), Copy(4096.0)]),
        ("readrandom, values of 64 KiB", vec![Misses(1.0), Copy(65_536.0)]),
        ("readrandom, disk, page cache", read(4e6)),
        ("readrandom, disk, direct", device(4e6)),
        ("seekrandom, disk, page cache", read(4e6)),
        ("seekrandom, disk, direct", device(4e6)),
        ("readwhilewriting", get.clone()),
        ("readwhilemerging", get),
    ];
    let limit = |(row, costs): (&str, Vec<Cost>)| {
        let clock = if row.ends_with("direct") { Clock::Wall } else { Clock::Cpu };
        let costs = costs.into_iter().filter(|cost| cost.parts().1 > 0.0).collect();
        Limit { table: "reads", row: row.to_string(), clock, costs }
    };
    rows.into_iter().map(limit).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    // Plain #[test]: nothing in these tests can wait.
    #[test]
    fn a_cost_is_an_amount_of_a_baseline() {
        let baselines: BTreeMap<String, f64> =
            [("miss_us", 0.1), ("copy_us", 100.0)].map(|(n, v)| (n.to_string(), v)).into();
        assert_eq!(Cost::Misses(2.0).micros(&baselines), Some(0.2));
        assert_eq!(Cost::Copy(524_288.0).micros(&baselines), Some(50.0));
        assert_eq!(Cost::DeviceSyncs(1.0).micros(&baselines), None);
        assert_eq!(Cost::Misses(1.0).words(), "a cache miss");
        assert_eq!(Cost::Appends(0.25).words(), "0.25 write calls");
        assert_eq!(Cost::Compressed(Codec::Zstd, 2.5e6).words(), "2.5 MB through zstd");
    }

    // Plain #[test]: see above.
    #[test]
    fn every_cost_has_its_baseline() {
        let all = [
            Cost::Near(1.0),
            Cost::Misses(1.0),
            Cost::Overlapped(1.0),
            Cost::Copy(1.0),
            Cost::Appends(1.0),
            Cost::Written(1.0),
            Cost::BlockReads(1.0),
            Cost::Compressed(Codec::Lz4, 1.0),
            Cost::Uncompressed(Codec::Lz4, 1.0),
            Cost::Compressed(Codec::Zstd, 1.0),
            Cost::Uncompressed(Codec::Zstd, 1.0),
            Cost::DeviceReads(1.0),
            Cost::DeviceSyncs(1.0),
        ];
        let names: Vec<&str> = all.iter().map(|cost| cost.parts().0).collect();
        assert_eq!(names, BASELINES.map(|column| column.value));
    }
}
