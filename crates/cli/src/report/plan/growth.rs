//! Cost of an operation against the number of keys, on a disk, with a cache that stays small.
//!
//! Pure.

use super::{Arm, Bench, Column, Engine, Plot, RATE, Row, Scale, Section, Table, column};

const PER_OP: Column = column("cpu_us_per_op", "CPU us/op", 1.0, 2);
const SHAPE: &str = "--compression_type=lz4 --bloom_bits=10 --cache_size=67108864 \
    --use_direct_reads=1 --use_direct_io_for_flush_and_compaction=1";

const READ: &str = "waitforcompaction,levelstats,readrandom";
const SEEK: &str = "waitforcompaction,levelstats,seekrandom";
/// Compacted by the row before: the bytes of a row are those of its whole process.
const SEEK_ONE: &str = "levelstats,seekrandom";

/// What a row of these benchmarks is called.
fn title(benchmarks: &'static str) -> &'static str {
    match benchmarks {
        SEEK_ONE => "seekrandom compacted",
        other => other.rsplit(',').next().unwrap_or(other),
    }
}

pub(super) fn tables(scale: &Scale) -> Vec<Table> {
    let mut table = Table::new(Section::Growth, "keys", "Cost against size, on a disk");
    table.note =
        "Direct I/O, a cache of 64 MB, lz4. Each size is filled at random and then read, once \
        compactions have come to rest. How many sorted runs they leave depends on where the fill \
        ended between two compactions of level 0, and a seek costs about as many blocks: the last \
        row of each size is of one sorted run. What compactions still read before the gets is in \
        the bytes of these."
            .to_string();
    table.chained = true;
    let share = scale.size.min(1.0);
    for millions in &scale.growth {
        let keys = ((*millions as f64 * 1e6 * share) as u64).max(1000);
        let reads = scale.count(20_000).min(keys);
        for (benchmark, flags) in [
            ("fillrandom", String::new()),
            (READ, format!("--use_existing_db=1 --reads={reads}")),
            (SEEK, format!("--use_existing_db=1 --reads={reads} --seek_nexts=10")),
            ("compact", "--use_existing_db=1".to_string()),
            (SEEK_ONE, format!("--use_existing_db=1 --reads={reads} --seek_nexts=10")),
        ] {
            let arm = |engine| {
                let bench = Bench::new(engine, benchmark, SHAPE).with(&format!("--num={keys}"));
                Arm::plain(bench.with(&flags).on("growth").on_disk())
            };
            let keys = keys as f64 / 1e6;
            let name = format!("{}, {keys} M keys", title(benchmark));
            table.rows.push(Row { name, x: keys, arms: Engine::BOTH.map(arm).into() });
        }
    }
    table.columns = vec![
        RATE,
        PER_OP,
        column("peak_mb", "peak MB", 1.0, 0),
        column("write_amp", "bytes written per byte", 1.0, 2),
        column("device_per_op", "bytes from the device per op", 1.0, 0),
        column("space_mb", "space MB", 1.0, 0),
        column("sorted_runs", "sorted runs", 1.0, 0),
    ];
    table.ratios = vec![RATE, PER_OP];
    table.plots = ["fillrandom", READ, SEEK, SEEK_ONE]
        .map(title)
        .map(|benchmark| Plot {
            title: format!("{benchmark} against size"),
            rows: format!("{benchmark},"),
            panels: vec![RATE, PER_OP],
            x_title: "million keys",
            log_x: true,
            log_y: false,
        })
        .into();
    table.seconds = 11.5 * scale.growth.iter().sum::<u64>() as f64;
    vec![table]
}
