//! Fibers against threads: direct reads by how many wait at once, and the four workloads of the
//! original.
//!
//! Pure. On a disk; pages are dropped from the page cache before each run of the workloads.

use super::{
    Arm, Bench, CPU, Column, Engine, Plot, RATE, Row, Scale, Section, Table, Work, column,
};

const PER_OP: Column = column("cpu_us_per_op", "CPU us/op", 1.0, 2);
/// Of `benchmark.sh`, as the original ran it; sizes follow.
const SCRIPT: &str = "--num_levels=6 --key_size=20 --value_size=400 --block_size=8192 \
    --cache_numshardbits=6 --compression_max_dict_bytes=0 --compression_ratio=0.5 \
    --compression_type=lz4 --level_compaction_dynamic_level_bytes=true --bytes_per_sync=8388608 \
    --cache_index_and_filter_blocks=0 --pin_l0_filter_and_index_blocks_in_cache=1 \
    --verify_checksum=1 --max_bytes_for_level_multiplier=8 --bloom_bits=10 --open_files=-1 \
    --max_background_compactions=16 --max_write_buffer_number=8 --max_background_flushes=7 \
    --histogram=1 --delete_obsolete_files_period_micros=62914560";
const TRIGGERS: &str =
    "--level0_file_num_compaction_trigger=4 --level0_stop_writes_trigger=20 --use_existing_db=1";
const BULK: &str = "--level0_file_num_compaction_trigger=10485760 \
    --level0_slowdown_writes_trigger=10485760 --level0_stop_writes_trigger=10485760 \
    --disable_auto_compactions=1 --allow_concurrent_memtable_write=false --memtablerep=vector \
    --disable_wal=1";
const WORKERS: u64 = 64;

pub(super) fn tables(scale: &Scale) -> Vec<Table> {
    vec![direct(scale), workloads(scale)]
}

/// RocksDB's threads, our threads, our fibers; `flags` are given how many.
fn three(bench: &dyn Fn(Engine) -> Bench, workers: u64, loops: usize) -> Vec<Arm> {
    let threads = format!("--threads={workers}");
    let loops = loops.min(workers as usize).max(1);
    let fibers = format!("--threads={loops} --fibers={workers}");
    let work = |engine, more: &str| Work::Bench(bench(engine).with(more));
    vec![
        Arm::named("RocksDB, threads", None, work(Engine::RocksDb, &threads)),
        Arm::named("Pumice, threads", Some("RocksDB, threads"), work(Engine::Pumice, &threads)),
        Arm::named("Pumice, fibers", Some("RocksDB, threads"), work(Engine::Pumice, &fibers)),
    ]
}

fn direct(scale: &Scale) -> Table {
    let mut table = Table::new(Section::Coroutines, "direct", "Random reads with direct I/O");
    table.note = "The database is eight times the cache. Fibers run on as many loops as there are \
                  processors."
        .to_string();
    let keys = scale.count(300_000);
    let shape = format!("--num={keys} --value_size=1024 --compression_type=none --bloom_bits=10");
    table.prepare = Engine::BOTH
        .map(|engine| {
            let load = Bench::new(engine, "fillseq,compact", &shape).with("--disable_wal=1");
            load.on("direct").on_disk()
        })
        .into();
    for workers in [2, 8, 64, 256] {
        let reads = (scale.count(50_000) / workers).max(4);
        let bench = |engine| {
            Bench::new(engine, "readrandom", &shape)
                .with(&format!(
                    "--use_existing_db=1 --use_direct_reads=1 --cache_size={} --reads={reads} \
                     --histogram=1",
                    keys * 130
                ))
                .on("direct")
                .on_disk()
                .of_bytes(1040)
        };
        let arms = three(&bench, workers, scale.cpus);
        table.rows.push(Row { name: format!("{workers} at once"), x: workers as f64, arms });
    }
    table.columns = vec![RATE, PER_OP, CPU, column("p99_us", "p99 us", 1.0, 0)];
    table.ratios = vec![RATE, PER_OP];
    table.plots = vec![Plot {
        title: "Random direct reads".to_string(),
        rows: String::new(),
        panels: vec![RATE, PER_OP],
        x_title: "readers at once",
        log_x: true,
        log_y: false,
    }];
    table.seconds = 18.0;
    table
}

fn workloads(scale: &Scale) -> Table {
    let mut table = Table::new(
        Section::Coroutines,
        "workloads",
        "The original's four workloads, 64 threads or fibers",
    );
    table.note = "benchmark.sh's flags with sizes and limits x keys / 100 M. Each arm has a \
                  database of its own that the four make and change in turn; its pages are dropped \
                  from the page cache before each."
        .to_string();
    table.chained = true;
    let keys = scale.count(800_000);
    let share = |bytes: u64| (bytes as f64 * keys as f64 / 1e8) as u64;
    let shape = format!(
        "--num={keys} {SCRIPT} --cache_size={} --write_buffer_size={} --target_file_size_base={} \
         --max_bytes_for_level_base={}",
        share(17_179_869_184),
        share(134_217_728).max(1 << 20),
        share(134_217_728).max(1 << 20),
        share(1_073_741_824).max(4 << 20),
    );
    let each = |total: u64| (scale.count(total) / WORKERS).max(1);
    let rows = [
        ("bulkload", "fillrandom,compact", BULK.to_string(), 1),
        ("readrandom", "readrandom", format!("{TRIGGERS} --reads={}", each(200_000)), WORKERS),
        (
            "overwrite, sync 0",
            "overwrite",
            format!(
                "{TRIGGERS} --sync=0 --writes={} --subcompactions=4 --merge_operator=put \
                 --soft_pending_compaction_bytes_limit=0 --hard_pending_compaction_bytes_limit=0",
                each(400_000)
            ),
            WORKERS,
        ),
        (
            "updaterandom, sync 1",
            "updaterandom",
            format!("{TRIGGERS} --sync=1 --reads={} --merge_operator=put", each(20_000)),
            WORKERS,
        ),
    ];
    for (place, (name, benchmark, flags, workers)) in rows.into_iter().enumerate() {
        let bench = |engine| {
            let bench = Bench::new(engine, benchmark, &shape).with(&flags).on_disk().of_bytes(420);
            if workers == 1 { bench.measuring("fillrandom") } else { bench }
        };
        let mut arms = three(&bench, workers, scale.cpus);
        for (number, arm) in arms.iter_mut().enumerate() {
            // A database for each arm, which the next row continues to use.
            if let Work::Bench(bench) = &mut arm.work {
                *bench = bench.clone().on(&format!("workloads-{number}")).cold();
            }
        }
        table.rows.push(Row { name: name.to_string(), x: place as f64, arms });
    }
    table.columns =
        vec![RATE, CPU, column("p99_us", "p99 us", 1.0, 0), column("peak_mb", "peak MB", 1.0, 0)];
    table.seconds = 24.0;
    table
}
