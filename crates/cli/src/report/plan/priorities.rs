//! Priorities of background threads: latencies of reads during writes, with and without.
//!
//! Pure. Every arm writes at the same rate onto a copy of the same database.

use super::{Arm, Bench, CPU, Engine, RATE, Row, Scale, Section, Table, Work, column};

const LOWERED: &str = "--enable_io_prio=1 --enable_cpu_prio=1";
const LANES: &str = "--background_cpu_priority=low --background_io_priority=low";

pub(super) fn tables(scale: &Scale) -> Vec<Table> {
    let mut table =
        Table::new(Section::Priorities, "reads", "Reads during writes of 20 MB/s, zstd");
    table.note =
        "As many readers as processors. \"lowered\" is the original's change: nice 19 and \
                  idle I/O for all background threads. \"lanes\" is Pumice's: flushes and urgent \
                  compactions are exempt."
            .to_string();
    let keys = scale.count(800_000);
    let shape =
        format!("--num={keys} --compression_type=zstd --key_size=24 --max_background_jobs=4");
    let load =
        |engine| Bench::new(engine, "fillrandom,compact", &shape).with("--seed=7").on("prio");
    table.prepare = Engine::BOTH.map(load).into();
    let bench = |engine, more: &str| {
        let flags = format!(
            "--use_existing_db=1 --threads={} --reads={} --histogram=1 \
             --benchmark_write_rate_limit=20000000 --report_stalls=1",
            scale.cpus,
            scale.count(150_000)
        );
        let bench = Bench::new(engine, "readwhilewriting", &shape).with(&flags).with(more);
        Work::Bench(bench.on_copy("prio").of_bytes(124))
    };
    let (ours, theirs) = (Engine::Pumice, Engine::RocksDb);
    let arms = vec![
        Arm::named("RocksDB", None, bench(theirs, "")),
        Arm::named("Pumice", Some("RocksDB"), bench(ours, "")),
        Arm::named("RocksDB, lowered", None, bench(theirs, LOWERED)),
        Arm::named("Pumice, lowered", Some("RocksDB, lowered"), bench(ours, LOWERED)),
        Arm::named("Pumice, lanes", Some("RocksDB, lowered"), bench(ours, LANES)),
    ];
    table.rows = vec![Row { name: "readwhilewriting".to_string(), x: 0.0, arms }];
    table.columns = vec![
        column("mean_us", "mean us", 1.0, 1),
        column("p50_us", "p50", 1.0, 1),
        column("p75_us", "p75", 1.0, 1),
        column("p99_us", "p99", 1.0, 0),
        column("p99.9_us", "p99.9", 1.0, 0),
        column("p99.99_us", "p99.99", 1.0, 0),
        column("ops_per_sec", "reads/s", 1.0, 0),
        column("stopped_s", "stopped s", 1.0, 1),
        column("l0_most", "L0 files", 1.0, 0),
        CPU,
    ];
    table.ratios = vec![column("p99_us", "p99", 1.0, 2), RATE, CPU];
    table.seconds = 16.0;
    vec![table]
}
