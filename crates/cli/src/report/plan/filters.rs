//! Filters: their cost when tables are built, and point reads over many files by cache size.
//!
//! Pure. Reads have fixed content: each database is filled once, and every engine reads its own.

use super::{Arm, Bench, CPU, Engine, Plot, RATE, Row, Scale, Section, Table, Work, column};

const FIFO: &str = "--compaction_style=2 --fifo_compaction_max_table_files_size_mb=10000 \
    --fifo_compaction_allow_compaction=0 --disable_wal=1 --bloom_bits=10";
/// Bytes of block cache at size 1, in hundreds of kilobytes; that of the original has 3 to 1200 MB.
const CACHES: [u64; 8] = [3, 6, 10, 20, 30, 60, 100, 600];
/// Layouts: name and flags.
const LAYOUTS: [(&str, &str); 3] = [
    ("decoupled 4 KiB", "--decouple_partitioned_filters=1 --metadata_block_size=4096"),
    ("coupled 4 KiB", "--decouple_partitioned_filters=0 --metadata_block_size=4096"),
    ("coupled 8 KiB", "--decouple_partitioned_filters=0 --metadata_block_size=8192"),
];

pub(super) fn tables(scale: &Scale) -> Vec<Table> {
    vec![build(scale), read(scale)]
}

fn build(scale: &Scale) -> Table {
    let mut table = Table::new(Section::Filters, "build", "fillrandom into vectors, with filters");
    for partitioned in [0, 1] {
        for (prefix, whole) in [(0, 1), (8, 0), (8, 1)] {
            let flags = format!(
                "--num={} {FIFO} --write_buffer_size=30000000 --memtablerep=vector \
                 --allow_concurrent_memtable_write=0 --partition_index_and_filters={partitioned} \
                 --prefix_size={prefix} --whole_key_filtering={whole}",
                scale.count(1_000_000)
            );
            let arm = |engine| Arm::plain(Bench::new(engine, "fillrandom", &flags));
            let kind = if partitioned == 1 { "partitioned" } else { "full" };
            let keys = match (prefix, whole) {
                (0, _) => "whole keys",
                (_, 0) => "prefixes",
                _ => "prefixes and whole keys",
            };
            let name = format!("{kind}, {keys}");
            table.rows.push(Row { name, x: 0.0, arms: Engine::BOTH.map(arm).into() });
        }
    }
    table.columns.push(column("peak_mb", "peak MB", 1.0, 0));
    table.seconds = 22.0;
    table
}

fn read(scale: &Scale) -> Table {
    let mut table = Table::new(Section::Filters, "read", "readrandom over many files, by cache");
    let keys = scale.count(1_000_000);
    let shape = format!(
        "--num={keys} {FIFO} --write_buffer_size={} --partition_index_and_filters=1",
        (keys * 3).max(65_536)
    );
    let database = |layout: &str| format!("filters-{}", layout.replace(' ', "-"));
    for (layout, flags) in LAYOUTS {
        table.prepare.extend(Engine::BOTH.map(|engine| {
            let load = Bench::new(engine, "fillrandom,flush", &shape);
            load.with(flags).with("--seed=7").on(&database(layout))
        }));
    }
    for hundred_kb in CACHES {
        let cache = (hundred_kb as f64 * 1e5 * scale.size) as u64;
        let mut arms = Vec::new();
        for (layout, flags) in LAYOUTS {
            for engine in Engine::BOTH {
                let bench =
                    Bench::new(engine, "readrandom[W1]", &shape).with(flags).with(&format!(
                        "--use_existing_db=1 --reads={} --cache_size={cache}",
                        scale.count(12_000)
                    ));
                let name = |engine: Engine| format!("{}, {layout}", engine.name());
                let peer = (engine == Engine::Pumice).then(|| name(Engine::RocksDb));
                let work = Work::Bench(bench.on(&database(layout)));
                arms.push(Arm::named(&name(engine), peer.as_deref(), work));
            }
        }
        let megabytes = cache as f64 / 1e6;
        let name =
            format!("{megabytes:.3}").trim_end_matches('0').trim_end_matches('.').to_string();
        table.rows.push(Row { name: format!("{name} MB"), x: megabytes, arms });
    }
    table.plots = vec![Plot {
        title: "Point reads by cache size".to_string(),
        rows: String::new(),
        panels: vec![RATE],
        x_title: "block cache, MB",
        log_x: true,
        log_y: true,
    }];
    table.columns = vec![RATE, CPU, column("peak_mb", "peak MB", 1.0, 0)];
    table.seconds = 50.0;
    table
}
