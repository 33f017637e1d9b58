//! Costs of tables in memory: building, point reads from a warm cache, scans.
//!
//! `cargo run --release -p pumice-table --example table_bench [entries] [value bytes] [codec]
//! [layout]`; the layout is `full` (default), `partitioned` or `coupled`. For instructions, under
//! `valgrind --tool=callgrind --toggle-collect='*get_many*'`.
//! Prints nanoseconds per operation (best of three rounds) and a checksum of what was read.

use std::path::Path;
use std::sync::Arc;

use pumice_base::key::{MAX_SEQUENCE, append_internal_key, internal_key, seek_key};
use pumice_base::random::Rng;
use pumice_base::{InternalKey, Result, ValueType};
use pumice_cache::{Cache, CacheOptions};
use pumice_compress::CompressionType;
use pumice_env::{BufferedWriter, FileOptions, PosixFs, WriterOptions};
use pumice_filter::FilterPolicy;
use pumice_table::{
    IndexType, Table, TableBuildContext, TableBuilder, TableOptions, TableReadContext,
    TableReadOptions,
};

const ROUNDS: usize = 3;

/// The 16-byte user key of entry `i`, as db_bench makes it.
fn user_key(i: u64) -> [u8; 16] {
    let mut key = [b'0'; 16];
    key[..8].copy_from_slice(&i.to_be_bytes());
    key
}

fn best(mut work: impl FnMut() -> u64, count: u64) -> (f64, u64) {
    let mut nanos = f64::MAX;
    let mut sum = 0;
    for _ in 0..ROUNDS {
        let start = pumice_port::time::now_nanos();
        sum = work();
        nanos = nanos.min((pumice_port::time::now_nanos() - start) as f64 / count as f64);
    }
    (nanos, sum)
}

fn build(path: &Path, context: &TableBuildContext, n: u64, value: &[u8]) -> Result<u64> {
    let fs = PosixFs::shared();
    let file = fs.create(path, &FileOptions::default())?;
    let writer = BufferedWriter::new(file, WriterOptions::new(1 << 20));
    let mut builder = TableBuilder::new(context.clone(), writer)?;
    let mut ikey = Vec::new();
    let last = value.len() / 2;
    for i in 0..n {
        ikey.clear();
        append_internal_key(&mut ikey, &user_key(i * 3), i + 1, ValueType::Value as u8);
        builder.add(&ikey, &value[(i as usize * 7) % last..][..last])?;
    }
    builder.finish_file(false, false)?;
    Ok(builder.file_size())
}

/// Random point reads; every third key exists, `step` is added to it.
#[inline(never)]
fn get_many(table: &Arc<Table>, ro: &TableReadOptions, n: u64, count: u64, step: u64) -> u64 {
    let mut rng = Rng::new(7);
    let mut sum = 0;
    let mut target = seek_key(&user_key(0), MAX_SEQUENCE);
    for _ in 0..count {
        target[..8].copy_from_slice(&(rng.uniform(n) * 3 + step).to_be_bytes());
        let mut found = |_: pumice_base::key::ParsedInternalKey<'_>,
                         value: &[u8],
                         _: &pumice_table::PinnedBlock| {
            sum += value.len() as u64;
            false
        };
        table.get(ro, InternalKey::new(&target), &mut found).expect("a good table");
    }
    sum
}

fn read(table: &Arc<Table>, n: u64) {
    let ro = TableReadOptions::default();
    let count = 2_000_000.min(n * 4);
    for (name, step) in [("get hit", 0), ("get absent", 1)] {
        let (nanos, sum) = best(|| get_many(table, &ro, n, count, step), count);
        println!("{name:<14} {nanos:8.1} ns  ({sum})");
    }
    let (nanos, sum) = best(
        || {
            let mut iter = table.iter(&ro);
            let mut rng = Rng::new(9);
            let mut sum = 0;
            for _ in 0..count / 4 {
                iter.seek(InternalKey::new(&internal_key(
                    &user_key(rng.uniform(n * 3)),
                    9,
                    ValueType::Value,
                )));
                sum += u64::from(iter.valid());
            }
            sum
        },
        count / 4,
    );
    println!("{:<14} {nanos:8.1} ns  ({sum})", "seek");
}

fn scan(name: &str, table: &Arc<Table>, ro: &TableReadOptions, n: u64) {
    let (nanos, sum) = best(
        || {
            let mut iter = table.iter(ro);
            let mut sum = 0;
            iter.seek_to_first();
            while iter.valid() {
                sum += iter.key().len() as u64 + iter.value().len() as u64;
                iter.next();
            }
            sum
        },
        n,
    );
    println!("{name:<14} {nanos:8.1} ns  ({sum})");
}

fn scan_back(table: &Arc<Table>, ro: &TableReadOptions, n: u64) {
    let (nanos, sum) = best(
        || {
            let mut iter = table.iter(ro);
            let mut sum = 0;
            iter.seek_to_last();
            while iter.valid() {
                sum += iter.key().len() as u64 + iter.value().len() as u64;
                iter.prev();
            }
            sum
        },
        n,
    );
    println!("{:<14} {nanos:8.1} ns  ({sum})", "prev cached");
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let n: u64 = args.next().and_then(|a| a.parse().ok()).unwrap_or(500_000);
    let value_bytes: usize = args.next().and_then(|a| a.parse().ok()).unwrap_or(100);
    let codec = args.next().unwrap_or_else(|| "none".into());
    let layout = args.next().unwrap_or_else(|| "full".into());
    let compression = CompressionType::from_flag(&codec).unwrap_or(CompressionType::None);
    let dir = Path::new("/dev/shm/table-bench");
    let fs = PosixFs::shared();
    fs.create_dir_all(dir)?;
    let path = dir.join("000001.sst");
    let cache = Cache::new(CacheOptions::new(1 << 30));
    let value = Rng::new(1).bytes(value_bytes * 2);
    for bits in [0.0, 10.0] {
        let options = TableOptions {
            block_cache: Some(Arc::clone(&cache)),
            filter_policy: (bits > 0.0).then(|| FilterPolicy::bloom(bits)),
            index_type: match layout.as_str() {
                "full" => IndexType::BinarySearch,
                _ => IndexType::TwoLevel,
            },
            partition_filters: layout != "full",
            decouple_partitioned_filters: layout != "coupled",
            ..Default::default()
        };
        let context =
            TableBuildContext { table: Arc::new(options), compression, ..Default::default() };
        let mut size = 0;
        let (nanos, _) = best(
            || {
                size = build(&path, &context, n, &value).expect("room in memory");
                size
            },
            n,
        );
        println!("--- bloom {bits}, {n} entries, {size} bytes, {codec}, {layout}");
        println!("{:<14} {nanos:8.1} ns", "build");
        let file = fs.open_random(&path)?;
        let read_context =
            TableReadContext { options: Arc::clone(&context.table), ..Default::default() };
        let table = Table::open(read_context, file, size)?;
        scan("scan cold", &table, &TableReadOptions { fill_cache: false, ..Default::default() }, n);
        let compaction =
            TableReadOptions { fill_cache: false, readahead_size: 2 << 20, ..Default::default() };
        scan("scan 2 MiB", &table, &compaction, n);
        scan("scan cached", &table, &TableReadOptions::default(), n);
        scan_back(&table, &TableReadOptions::default(), n);
        read(&table, n);
    }
    fs.remove(&path)
}
