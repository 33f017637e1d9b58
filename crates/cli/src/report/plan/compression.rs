//! Parallel compression: fills by codec, level and threads, one compaction, many processes at once.
//!
//! Pure. The commands are those of the original with fewer keys.

use super::{Arm, Bench, CPU, Engine, Plot, RATE, Row, Scale, Section, Table, Work, column};

const FILL: &str = "--compaction_style=2 --fifo_compaction_max_table_files_size_mb=1000 \
    --fifo_compaction_allow_compaction=0 --disable_wal=1 --write_buffer_size=12000000 \
    --format_version=7";
const PEAK: super::Column = column("peak_mb", "peak MB", 1.0, 0);

pub(super) fn tables(scale: &Scale) -> Vec<Table> {
    vec![fills(scale), compaction(scale), jobs(scale)]
}

/// The codecs with their flags and keys at size 1.
fn codecs(scale: &Scale) -> Vec<(&'static str, &'static str, u64)> {
    let mut all = vec![
        ("none", "--compression_type=none", 1_500_000),
        ("lz4", "--compression_type=lz4", 1_200_000),
        ("zstd 3", "--compression_type=zstd", 1_000_000),
        ("zstd 6", "--compression_type=zstd --compression_level=6", 600_000),
        ("zstd 8", "--compression_type=zstd --compression_level=8", 400_000),
    ];
    if scale.long {
        all.push(("zstd 12", "--compression_type=zstd --compression_level=12", 200_000));
    }
    all
}

fn thread_counts(codec: &str, scale: &Scale) -> Vec<usize> {
    let most = (scale.cpus * 2).clamp(4, 16);
    match codec {
        "none" => vec![1],
        "lz4" => vec![1, 2],
        _ => [1, 2, 4, 8, 16].into_iter().filter(|count| *count <= most).collect(),
    }
}

fn fills(scale: &Scale) -> Table {
    let mut table = Table::new(Section::Compression, "fill", "fillseq by codec, level and threads");
    table.note =
        "Threads are compression_parallel_threads. \"explicit helpers\" lets a build of Pumice \
                  have as many helpers, whatever the processors; otherwise its pool gives a build \
                  one helper less than there are processors. lz4 has Pumice's \
                  --compression_parallel_fast_codecs."
            .to_string();
    for (codec, flags, keys) in codecs(scale) {
        for threads in thread_counts(codec, scale) {
            let flags = format!(
                "--num={} {FILL} {flags} --compression_parallel_threads={threads}",
                scale.count(keys)
            );
            let bench = |engine| Bench::new(engine, "fillseq", &flags);
            let fast = if codec == "lz4" { "--compression_parallel_fast_codecs=1" } else { "" };
            let ours = bench(Engine::Pumice).with(fast);
            let mut arms = vec![Arm::plain(bench(Engine::RocksDb)), Arm::plain(ours.clone())];
            if threads > 1 {
                let explicit = ours.with(&format!("--compression_helpers={threads}"));
                arms.push(Arm::named(
                    "Pumice, explicit helpers",
                    Some("RocksDB"),
                    Work::Bench(explicit),
                ));
            }
            let name = format!("{codec}, {threads} thread{}", if threads == 1 { "" } else { "s" });
            table.rows.push(Row { name, x: threads as f64, arms });
        }
    }
    table.columns.push(PEAK);
    let levels = codecs(scale).into_iter().filter(|(codec, ..)| codec.starts_with("zstd"));
    table.plots = levels
        .map(|(codec, ..)| Plot {
            title: format!("fillseq, {codec}"),
            rows: format!("{codec},"),
            panels: vec![RATE, CPU],
            x_title: "compression_parallel_threads",
            log_x: true,
            log_y: false,
        })
        .collect();
    table.seconds = 24.0;
    table
}

fn compaction(scale: &Scale) -> Table {
    let mut table = Table::new(
        Section::Compression,
        "compaction",
        "One compaction of four sorted runs, zstd 6",
    );
    let keys = scale.count(800_000);
    let shape = format!(
        "--num={keys} --compression_type=zstd --compression_level=6 --disable_auto_compactions=1 \
         --level0_stop_writes_trigger=1000 --level0_slowdown_writes_trigger=1000 --disable_wal=1 \
         --write_buffer_size={} --subcompactions=1",
        keys * 34
    );
    let load = |engine| Bench::new(engine, "fillrandom,flush", &shape).with("--seed=7").on("runs");
    table.prepare = Engine::BOTH.map(load).into();
    for threads in [1, 2, 4] {
        let bench = |engine| {
            Bench::new(engine, "compact", &shape)
                .with(&format!("--use_existing_db=1 --compression_parallel_threads={threads}"))
                .on_copy("runs")
        };
        let explicit = bench(Engine::Pumice).with(&format!("--compression_helpers={threads}"));
        let mut arms = Engine::BOTH.map(|engine| Arm::plain(bench(engine))).to_vec();
        if threads > 1 {
            arms.push(Arm::named(
                "Pumice, explicit helpers",
                Some("RocksDB"),
                Work::Bench(explicit),
            ));
        }
        let name = format!("{threads} thread{}", if threads == 1 { "" } else { "s" });
        table.rows.push(Row { name, x: f64::from(threads), arms });
    }
    let seconds = column("seconds", "wall s", 1.0, 2);
    table.columns = vec![seconds, CPU, PEAK];
    table.ratios = vec![seconds, CPU];
    table.plots = vec![Plot {
        title: "compact, zstd 6".to_string(),
        rows: String::new(),
        panels: vec![seconds, CPU],
        x_title: "compression_parallel_threads",
        log_x: true,
        log_y: false,
    }];
    table.seconds = 9.0;
    table
}

fn jobs(scale: &Scale) -> Table {
    let mut table =
        Table::new(Section::Compression, "jobs", "Processes at once, fillseq at zstd 8");
    table.note = "Wall time of all processes together; CPU of all.".to_string();
    let keys = scale.count(120_000);
    for processes in [1, 2, 4, 8] {
        let arm = |engine: Engine, threads: u32| {
            let flags = format!(
                "--num={keys} {FILL} --compression_type=zstd --compression_level=8 \
                 --compression_parallel_threads={threads}"
            );
            let name = |engine: Engine| format!("{}, {threads}", engine.name());
            let peer = (engine == Engine::Pumice).then(|| name(Engine::RocksDb));
            let work = Work::Jobs(Bench::new(engine, "fillseq", &flags), processes);
            Arm::named(&name(engine), peer.as_deref(), work)
        };
        let arms = vec![
            arm(Engine::RocksDb, 1),
            arm(Engine::Pumice, 1),
            arm(Engine::RocksDb, 8),
            arm(Engine::Pumice, 8),
        ];
        let name = format!("{processes} process{}", if processes == 1 { "" } else { "es" });
        table.rows.push(Row { name, x: processes as f64, arms });
    }
    let rate = column("jobs_per_sec", "jobs/s", 1.0, 2);
    table.columns = vec![rate, column("seconds", "wall s", 1.0, 2), CPU];
    table.ratios = vec![rate, CPU];
    table.plots = vec![Plot {
        title: "Processes at once, 1 and 8 threads".to_string(),
        rows: String::new(),
        panels: vec![rate, CPU],
        x_title: "processes",
        log_x: true,
        log_y: false,
    }];
    table.seconds = 12.0;
    table
}
