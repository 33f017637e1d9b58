//! Cost of an operation against the number of keys, on a disk, with a cache that stays small.
//!
//! Pure.

use super::{Arm, Bench, Column, Engine, Plot, RATE, Row, Scale, Section, Table, column};

const PER_OP: Column = column("cpu_us_per_op", "CPU us/op", 1.0, 2);
const SHAPE: &str = "--compression_type=lz4 --bloom_bits=10 --cache_size=67108864 \
    --use_direct_reads=1 --use_direct_io_for_flush_and_compaction=1";

pub(super) fn tables(scale: &Scale) -> Vec<Table> {
    let mut table = Table::new(Section::Growth, "keys", "Cost against size, on a disk");
    table.note = "Direct I/O, a cache of 64 MB, lz4. Each size is filled at random and then read."
        .to_string();
    table.chained = true;
    let share = scale.size.min(1.0);
    for millions in &scale.growth {
        let keys = ((*millions as f64 * 1e6 * share) as u64).max(1000);
        let reads = scale.count(20_000).min(keys);
        for (benchmark, flags) in [
            ("fillrandom", String::new()),
            ("readrandom", format!("--use_existing_db=1 --reads={reads}")),
            ("seekrandom", format!("--use_existing_db=1 --reads={reads} --seek_nexts=10")),
        ] {
            let arm = |engine| {
                let bench = Bench::new(engine, benchmark, SHAPE).with(&format!("--num={keys}"));
                Arm::plain(bench.with(&flags).on("growth").on_disk())
            };
            let keys = keys as f64 / 1e6;
            let name = format!("{benchmark}, {keys} M keys");
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
    ];
    table.ratios = vec![RATE, PER_OP];
    table.plots = ["fillrandom", "readrandom", "seekrandom"]
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
