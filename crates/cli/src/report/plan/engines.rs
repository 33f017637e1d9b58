//! Other engines that people choose between, under the same driver.
//!
//! Pure. Keys, values, order and seeds are the same for all; so are the sizes of caches, and of
//! memtables where an engine has them.

use super::{Arm, Bench, CPU, Engine, RATE, Row, Scale, Section, Table, Work, column};

const LSM: &str = "--compression_type=lz4 --bloom_bits=10 --write_buffer_size=8388608";

/// The engine's own flags; redb compresses nothing and has neither memtables nor filters.
fn shape(engine: Engine) -> &'static str {
    if engine == Engine::Redb { "" } else { LSM }
}

pub(super) fn tables(scale: &Scale) -> Vec<Table> {
    let mut table = Table::new(Section::Engines, "rows", "fjall and redb compared with both");
    table.note =
        "No write waits for the device. RocksDB, Pumice and fjall hand each record of the \
                  log to the kernel before the call returns (sync=0; PersistMode::Buffer); redb \
                  commits a transaction for each put, or each batch, with Durability::None, which \
                  a crash of the process loses, and reads in a transaction for each get. lz4, \
                  filters of 10 bits and memtables of 8 MB, but in redb, which has none of them; \
                  a cache that holds the data. Reads are of a database that was filled at random \
                  and closed."
            .to_string();
    let keys = scale.count(200_000);
    let base = format!("--num={keys} --cache_size=134217728");
    let bench =
        |engine: Engine, benchmark: &str| Bench::new(engine, benchmark, &base).with(shape(engine));
    let engines = || Engine::BOTH.into_iter().chain(Engine::OTHERS);
    table.prepare =
        engines().map(|e| bench(e, "fillrandom").with("--seed=7").on("engines")).collect();
    let arm = |bench: Bench| match Engine::OTHERS.contains(&bench.engine) {
        true => Arm::named(bench.engine.name(), None, Work::Bench(bench)),
        false => Arm::plain(bench),
    };
    let mut row = |name: &str, bench: &dyn Fn(Engine) -> Bench| {
        let arms = engines().map(|engine| arm(bench(engine))).collect();
        table.rows.push(Row { name: name.to_string(), x: 0.0, arms });
    };
    row("fillseq", &|e| bench(e, "fillseq"));
    row("fillrandom", &|e| bench(e, "fillrandom"));
    row("fillrandom, batches of 100", &|e| bench(e, "fillrandom").with("--batch_size=100"));
    let reads = |count: u64| format!("--use_existing_db=1 --reads={}", scale.count(count));
    for (name, benchmark, more) in [
        ("readrandom", "readrandom[W1]", reads(100_000)),
        ("readmissing", "readmissing[W1]", reads(100_000)),
        ("seekrandom, 10 nexts", "seekrandom[W1]", reads(30_000) + " --seek_nexts=10"),
        ("readseq", "readseq[W1]", reads(200_000)),
    ] {
        row(name, &|e| bench(e, benchmark).with(&more).on("engines"));
    }
    table.columns = vec![
        RATE,
        CPU,
        column("peak_mb", "peak MB", 1.0, 0),
        column("write_amp", "bytes written per byte", 1.0, 2),
        column("space_mb", "space MB", 1.0, 0),
    ];
    table.seconds = 20.0;
    vec![table]
}
