//! Background work that steers itself: writes that follow a sine, with debt and L0 under them.
//!
//! Pure. Rates are scaled by S, time by T, stocks (memtable, level, file, limits) by S times T, so
//! that counts of files and the shape of stalls stay those of the original.

use super::{Arm, Bench, CPU, Engine, Row, Scale, Section, Table, Work, column};
use std::f64::consts::PI;

/// Rates, as a share of the original's.
const RATES: f64 = 0.4;
/// Of the original: bytes a second and radians a second.
const SINE_A: f64 = 75e6;
const SINE_B: f64 = 0.017_942_857;
const SINE_C: f64 = 4.71;
const SINE_D: f64 = 125e6;
const STAIR_SECONDS: f64 = 10.0;
const LIMITER: f64 = 380e6;
/// What flushes and compactions get of the device that the limiter stands for, at full size.
const DEVICE: f64 = 1000e6;
const VALUE_BYTES: u64 = 65_536;
/// The one row of the table.
pub const SINE_ROW: &str = "sine";

/// What the load asks for `seconds` after its start, in bytes a second: a staircase.
pub fn commanded(seconds: f64, sine_time: f64) -> f64 {
    let stair = STAIR_SECONDS * sine_time;
    let at = (seconds / stair).floor() * stair;
    RATES * (SINE_A * (SINE_B / sine_time * at + SINE_C).sin() + SINE_D)
}

fn flags(scale: &Scale) -> String {
    let time = scale.sine_time;
    let period = (2.0 * PI / SINE_B * time * scale.size.min(1.0)).round().max(2.0);
    let stock = |bytes: f64| (bytes * RATES * time) as u64;
    let gib = f64::from(1 << 30);
    format!(
        "--duration={period} --num=20000 --value_size={VALUE_BYTES} --compression_type=none \
         --histogram=1 --report_stalls=1 --monitor_file=monitor.csv --sine_write_rate=1 \
         --sine_write_rate_interval_milliseconds={} --sine_a={} --sine_b={:.9} --sine_c={SINE_C} \
         --sine_d={} --max_write_buffer_number=6 --max_background_flushes=4 \
         --max_background_compactions=2 --subcompactions=2 --enable_pipelined_write=1 \
         --write_buffer_size={} --max_bytes_for_level_base={} --target_file_size_base={} \
         --soft_pending_compaction_bytes_limit={} --hard_pending_compaction_bytes_limit={} \
         --delayed_write_rate={} --cache_size=8388608 --rate_limiter_refill_period_us=20000",
        (STAIR_SECONDS * 1000.0 * time) as u64,
        (SINE_A * RATES) as u64,
        SINE_B / time,
        (SINE_D * RATES) as u64,
        stock(64.0 * 1_048_576.0),
        stock(256.0 * 1_048_576.0),
        stock(64.0 * 1_048_576.0),
        stock(64.0 * gib),
        stock(256.0 * gib),
        (8_388_608.0 * RATES) as u64,
    )
}

pub(super) fn tables(scale: &Scale) -> Vec<Table> {
    let mut table = Table::new(Section::Control, "sine", "Writes that follow a sine");
    table.note = format!(
        "Values of 64 KiB at 50 to 200 MB/s, rates x {RATES}, time x {}, stocks x {:.3}. The short \
         form: databases in memory, and the rate limiter, at {:.0} MB/s for flushes and \
         compactions, stands for the device. RMSE is that of single half seconds to what was asked \
         for then; \"worst\" is the worst of them over what was asked for in it.",
        scale.sine_time,
        RATES * scale.sine_time,
        DEVICE * RATES / 1e6,
    );
    let flags = flags(scale);
    let device = format!("--rate_limiter_bytes_per_sec={}", (DEVICE * RATES) as u64);
    let tuned = format!(
        "--rate_limiter_bytes_per_sec={} --rate_limiter_auto_tuned=1",
        (LIMITER * RATES) as u64
    );
    let none = "--disable_auto_compactions=1 --level0_file_num_compaction_trigger=10000 \
                --level0_slowdown_writes_trigger=10000 --level0_stop_writes_trigger=10000";
    let arm = |name: &str, peer: Option<&str>, engine: Engine, more: &str| {
        let bench = Bench::new(engine, "fillrandom", &flags).with(more).of_bytes(VALUE_BYTES + 16);
        Arm::named(name, peer, Work::Bench(bench))
    };
    let (ours, theirs) = (Engine::Pumice, Engine::RocksDb);
    let with = |flags: &str, more: &str| format!("{flags} {more}");
    let mut arms = vec![
        arm("RocksDB", None, theirs, &device),
        arm("Pumice", Some("RocksDB"), ours, &device),
        arm("RocksDB, limiter tunes itself", None, theirs, &tuned),
        arm(
            "Pumice, auto-tuned compaction",
            Some("RocksDB, limiter tunes itself"),
            ours,
            &with(&tuned, "--background_policy=static --auto_tuned_compaction=1"),
        ),
    ];
    if scale.long {
        let fixed = with(&device, "--background_policy=static");
        let seed = with(&tuned, "--background_policy=seed_rule");
        arms.push(arm("Pumice, static", Some("RocksDB"), ours, &fixed));
        let tuned_peer = Some("RocksDB, limiter tunes itself");
        arms.push(arm("Pumice, seed_rule", tuned_peer, ours, &seed));
        arms.push(arm("RocksDB, no compaction", None, theirs, none));
        arms.push(arm("Pumice, no compaction", Some("RocksDB, no compaction"), ours, none));
    }
    table.rows = vec![Row { name: SINE_ROW.to_string(), x: 0.0, arms }];
    table.columns = vec![
        column("mb_per_sec", "MB/s", 1.0, 1),
        column("rmse_mb", "RMSE MB/s", 1.0, 1),
        column("worst", "worst", 1.0, 2),
        column("stopped_s", "stopped s", 1.0, 1),
        column("slowed_s", "slowed s", 1.0, 1),
        column("l0_most", "L0 files", 1.0, 0),
        column("pending_most_mb", "pending MB", 1.0, 0),
        column("p99_us", "p99 of writes ms", 1000.0, 2),
        column("p99.9_us", "p99.9 ms", 1000.0, 2),
        CPU,
        column("wrote_mb", "written MB", 1.0, 0),
    ];
    table.ratios = vec![column("rmse_mb", "RMSE", 1.0, 2), CPU];
    table.seconds = scale.sine_time * 351.0 * table.rows[0].arms.len() as f64;
    vec![table]
}
