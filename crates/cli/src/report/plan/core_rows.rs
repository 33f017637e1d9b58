//! The core table: the everyday operations, both engines.
//!
//! Pure. In memory unless a row says disk, so that the engines are measured and not the device.

use super::limits::{BASELINES, LARGE_WRITTEN};
use super::{
    Arm, Bench, CPU, Column, Engine, Plot, RATE, Row, Scale, Section, Table, Work, column,
};

/// The table of the machine's limits without an engine.
pub const BASELINE_TABLE: &str = "baselines";

/// What the slowest operations take.
const P99: Column = column("p99_us", "p99 us", 1.0, 1);
const COLUMNS: [Column; 7] = [
    RATE,
    CPU,
    P99,
    column("peak_mb", "peak MB", 1.0, 0),
    column("write_amp", "bytes written per byte", 1.0, 2),
    column("read_amp", "bytes read per byte", 1.0, 2),
    column("space_mb", "space MB", 1.0, 0),
];
const SHAPE: &str = "--compression_type=lz4 --bloom_bits=10";
const CACHED: &str = "--cache_size=1000000000";
/// Keys that are read, and keys that are written: more than two memtables of 64 MB full. One holds
/// 390,000 entries of Pumice and 470,000 of RocksDB, so a fill of a number between these would
/// flush in one engine and not in the other.
const READ: u64 = 400_000;
const WRITTEN: u64 = 1_000_000;

pub(super) fn tables(scale: &Scale) -> Vec<Table> {
    vec![baselines(), writes(scale), reads(scale), compactions(scale)]
}

fn baselines() -> Table {
    let mut table = Table::new(Section::Core, BASELINE_TABLE, "What the machine can do");
    table.note =
        "Without an engine, on one thread: over 32 MiB of memory or file, with the values \
                  of db_bench, blocks of 4 KiB for the codecs. The limits of rows are made of \
                  these."
            .to_string();
    let arm = Arm::named("without an engine", None, Work::Baselines);
    table.rows = vec![Row { name: "this machine".to_string(), x: 0.0, arms: vec![arm] }];
    table.columns = BASELINES.into();
    table.ratios = Vec::new();
    table.seconds = 3.0;
    table
}

/// A row of many operations: as [`row`], with the time of each.
fn timed(name: &str, bench: impl Fn(Engine) -> Bench) -> Row {
    row(name, |engine| bench(engine).with("--histogram=1"))
}

/// A row with an arm for each engine.
fn row(name: &str, bench: impl Fn(Engine) -> Bench) -> Row {
    Row { name: name.to_string(), x: 0.0, arms: Engine::BOTH.map(|e| Arm::plain(bench(e))).into() }
}

fn base(scale: &Scale) -> String {
    format!("--num={} {SHAPE}", scale.count(READ))
}

fn plot(title: &str) -> Vec<Plot> {
    // No x axis: its ratios are drawn as bars.
    vec![Plot {
        title: title.to_string(),
        rows: String::new(),
        panels: vec![RATE, CPU],
        x_title: "",
        log_x: false,
        log_y: false,
    }]
}

fn load(engine: Engine, shape: &str, db: &str) -> Bench {
    Bench::new(engine, "fillrandom,compact", shape).with("--disable_wal=1 --seed=7").on(db)
}

fn writes(scale: &Scale) -> Table {
    let mut table = Table::new(Section::Core, "writes", "Writes");
    let keys = scale.count(WRITTEN);
    let shape = format!("--num={keys} {SHAPE}");
    table.prepare = Engine::BOTH.map(|engine| load(engine, &shape, "core-written")).into();
    let fill = |benchmark: &'static str, flags: String| {
        let shape = shape.clone();
        move |engine| Bench::new(engine, benchmark, &shape).with(&flags)
    };
    let mut rows = vec![
        timed("fillseq", fill("fillseq", String::new())),
        timed("fillseq, WAL off", fill("fillseq", "--disable_wal=1".into())),
    ];
    for threads in [1, 4, 16] {
        let flags = format!("--threads={threads} --writes={}", keys / threads);
        let name = format!("fillrandom, {threads} thread{}", if threads == 1 { "" } else { "s" });
        rows.push(timed(&name, fill("fillrandom", flags)));
    }
    rows.push(timed("fillrandom, batches of 100", fill("fillrandom", "--batch_size=100".into())));
    for (name, bytes, each) in
        [("4 KiB", 4096, LARGE_WRITTEN[0]), ("64 KiB", 65_536, LARGE_WRITTEN[1])]
    {
        let flags = format!("--value_size={bytes} --num={}", scale.count(each));
        rows.push(timed(&format!("fillrandom, values of {name}"), |engine| {
            fill("fillrandom", flags.clone())(engine).of_bytes(bytes + 16)
        }));
    }
    let existing = |benchmark: &'static str| {
        let shape = shape.clone();
        move |engine| {
            Bench::new(engine, benchmark, &shape)
                .with("--use_existing_db=1")
                .on_copy("core-written")
        }
    };
    for benchmark in ["overwrite", "updaterandom", "deleterandom"] {
        rows.push(timed(benchmark, existing(benchmark)));
    }
    let synced = format!("--writes={}", scale.count(4000));
    rows.push(timed("fillsync, disk", |engine| fill("fillsync", synced.clone())(engine).on_disk()));
    table.rows = rows;
    table.columns = COLUMNS.into();
    table.ratios.extend([P99, COLUMNS[3], COLUMNS[4], COLUMNS[6]]);
    table.plots = plot("Writes");
    table.seconds = 60.0;
    table
}

/// Name, benchmark, flags and operations at size 1 of a read.
type Read = (&'static str, &'static str, &'static str, u64);

const READS: [Read; 10] = [
    ("readrandom, cached", "readrandom[W1]", CACHED, 200_000),
    ("readrandom, cache of 1 MB", "readrandom", "--cache_size=1000000", 100_000),
    ("readmissing", "readmissing[W1]", CACHED, READ),
    (
        "multireadrandom, 32",
        "multireadrandom[W1]",
        "--cache_size=1000000000 --batch_size=32",
        200_000,
    ),
    ("seekrandom", "seekrandom[W1]", CACHED, 100_000),
    ("seekrandom, 50 nexts", "seekrandom[W1]", "--cache_size=1000000000 --seek_nexts=50", 30_000),
    (
        "seekrandom, 50 prevs",
        "seekrandom[W1]",
        "--cache_size=1000000000 --seek_nexts=50 --reverse_iterator=1",
        20_000,
    ),
    ("readseq", "readseq", CACHED, READ),
    ("readreverse", "readreverse", CACHED, READ),
    ("readseq, the second time", "readseq[W1]", CACHED, READ),
];

fn reads(scale: &Scale) -> Table {
    let mut table = Table::new(Section::Core, "reads", "Reads");
    let shape = base(scale);
    table.prepare = Engine::BOTH.map(|engine| load(engine, &shape, "core")).into();
    table.prepare.extend(Engine::BOTH.map(|engine| load(engine, &shape, "core-disk").on_disk()));
    for (name, benchmark, flags, count) in READS {
        // A step of a scan takes less time than the clock.
        let scans = benchmark.starts_with("readseq") || benchmark.starts_with("readreverse");
        let timing = if scans { "" } else { " --histogram=1" };
        let flags = format!("{flags}{timing} --use_existing_db=1 --reads={}", scale.count(count));
        table.rows.push(row(name, |e| Bench::new(e, benchmark, &shape).with(&flags).on("core")));
    }
    let values = [("4 KiB", 4096, 40_000), ("64 KiB", 65_536, 4000)];
    for (name, bytes, keys) in values {
        let keys = scale.count(keys);
        let shape = format!("--num={keys} {SHAPE} --value_size={bytes}");
        let db = format!("core-{bytes}");
        table.prepare.extend(Engine::BOTH.map(|engine| load(engine, &shape, &db)));
        let flags = format!("--cache_size=1000000000 --use_existing_db=1 --reads={keys}");
        table.rows.push(timed(&format!("readrandom, values of {name}"), |engine| {
            let bench = Bench::new(engine, "readrandom[W1]", &shape).with(&flags);
            bench.on(&db).of_bytes(bytes + 16)
        }));
    }
    for (benchmark, count) in [("readrandom", 30_000), ("seekrandom", 10_000)] {
        for (name, flags) in [("page cache", ""), ("direct", "--use_direct_reads=1")] {
            let flags = format!(
                "{flags} --cache_size=4000000 --use_existing_db=1 --reads={}",
                scale.count(count)
            );
            table.rows.push(timed(&format!("{benchmark}, disk, {name}"), |engine| {
                Bench::new(engine, benchmark, &shape).with(&flags).on("core-disk").on_disk()
            }));
        }
    }
    let threads = scale.cpus;
    for (benchmark, more) in
        [("readwhilewriting", ""), ("readwhilemerging", "--merge_operator=put")]
    {
        let flags = format!(
            "{CACHED} --use_existing_db=1 --threads={threads} --reads={} {more} \
             --benchmark_write_rate_limit=5000000",
            scale.count(150_000)
        );
        table.rows.push(timed(benchmark, |engine| {
            Bench::new(engine, benchmark, &shape).with(&flags).on_copy("core")
        }));
    }
    table.columns = COLUMNS.into_iter().filter(|c| c.value != "write_amp").collect();
    table.ratios.extend([P99, COLUMNS[3], COLUMNS[5]]);
    table.plots = plot("Reads");
    table.note =
        "A seek without nexts is the same in both directions. Bytes read are those of the \
                  whole process, its opening and warming up included."
            .to_string();
    table.seconds = 24.0;
    table
}

fn compactions(scale: &Scale) -> Table {
    let mut table = Table::new(Section::Core, "compact", "One compaction of all");
    for codec in ["lz4", "zstd"] {
        let keys = scale.count(600_000);
        let shape = format!(
            "--num={keys} --compression_type={codec} --bloom_bits=10 --disable_auto_compactions=1 \
             --level0_stop_writes_trigger=1000 --level0_slowdown_writes_trigger=1000 \
             --write_buffer_size={}",
            keys * 34
        );
        let db = format!("compact-{codec}");
        table.prepare.extend(Engine::BOTH.map(|engine| {
            let load = Bench::new(engine, "fillrandom,flush", &shape);
            load.with("--disable_wal=1 --seed=7").on(&db)
        }));
        table.rows.push(row(&format!("compact, {codec}"), |engine| {
            Bench::new(engine, "compact", &shape).with("--use_existing_db=1").on_copy(&db)
        }));
    }
    let seconds = column("seconds", "wall s", 1.0, 2);
    table.columns =
        vec![seconds, CPU, COLUMNS[3], column("wrote_mb", "written MB", 1.0, 0), COLUMNS[6]];
    table.ratios = vec![seconds, CPU, COLUMNS[3], COLUMNS[6]];
    table.seconds = 6.0;
    table
}
