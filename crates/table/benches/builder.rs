//! What building a table costs per key, and what share of the limit it reaches: the same blocks
//! through the codec and the checksum alone, appended to the same writer, on as many threads. With
//! a filter a second share says what the builder adds to the filter's own cost: its limit also
//! builds the filter of the same keys in one go.
//!
//! `cargo bench -p pumice-table --bench builder -- MODE [KEYS]`; MODE is `serial`, `uncompressed`,
//! `parallel` or `callgrind CASE`, without it `serial` and `parallel` are run. Each line is the
//! median over interleaved rounds; keys have 16 bytes, values 100, of which half compress. The file
//! discards its bytes. `callgrind CASE` builds one table of KEYS keys:
//! `valgrind --tool=callgrind --toggle-collect='*build_once*' BINARY callgrind none-off 100000`.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../tests/support/recorded_file.rs"]
mod recorded_file;

use std::hint::black_box;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pumice_base::ValueType;
use pumice_base::checksum::{ChecksumType, block_checksum};
use pumice_base::key::{InternalKey, MAX_SEQUENCE, append_internal_key, seek_key};
use pumice_base::random::Rng;
use pumice_compress::{CompressionOptions, CompressionType, Compressor};
use pumice_env::{BufferedWriter, MemFs, WriterOptions};
use pumice_filter::{FilterBuildSettings, FilterPolicy};
use pumice_port::helpers::HelperPool;
use pumice_port::{thread, time};
use pumice_table::{
    BuildStats, IndexType, Table, TableBuildContext, TableBuilder, TableOptions, TableReadContext,
};
use recorded_file::RecordedFile;

const ROUNDS: usize = 11;
const VALUE_BYTES: usize = 100;

fn nowhere() -> BufferedWriter {
    RecordedFile::forgetting()
}

/// The entries: internal keys back to back, and values out of one random text.
struct Load {
    keys: Vec<u8>,
    values: Vec<u8>,
    count: usize,
}

const KEY_BYTES: usize = 24;

impl Load {
    fn new(count: usize) -> Self {
        let mut keys = Vec::with_capacity(count * KEY_BYTES);
        for i in 0..count as u64 {
            let mut user = [b'0'; 16];
            user[..8].copy_from_slice(&(i * 3).to_be_bytes());
            append_internal_key(&mut keys, &user, i + 1, ValueType::Value as u8);
        }
        // As db_bench: half of every 100 bytes is the other half again.
        let mut rng = Rng::new(1);
        let mut values = Vec::new();
        while values.len() < 1 << 20 {
            let piece: Vec<u8> = rng.bytes(50).iter().map(|b| b' ' + b % 95).collect();
            values.extend_from_slice(&piece);
            values.extend_from_slice(&piece);
        }
        Load { keys, values, count }
    }

    /// Calls `take` for each entry. Made to cost next to nothing, since the consumer is what is
    /// measured. The compiler is not told that all have one length, so that it does not specialise
    /// the builder for it.
    #[inline(always)]
    fn for_each(&self, mut take: impl FnMut(&[u8], &[u8])) {
        let round = self.values.len() / VALUE_BYTES * KEY_BYTES;
        for mut keys in self.keys.chunks(round) {
            let mut values = &self.values[..];
            while let Some((key, next_keys)) = keys.split_at_checked(black_box(KEY_BYTES))
                && let Some((value, next_values)) = values.split_at_checked(black_box(VALUE_BYTES))
            {
                take(key, value);
                (keys, values) = (next_keys, next_values);
            }
        }
    }
}

struct Case {
    name: String,
    context: TableBuildContext,
}

fn case(codec: &str, filter: &str, level: Option<i32>, threads: u32) -> Case {
    let table = TableOptions {
        filter_policy: (filter != "off").then(|| FilterPolicy::bloom(10.0)),
        partition_filters: filter == "partitioned",
        index_type: match filter {
            "partitioned" => IndexType::TwoLevel,
            _ => IndexType::BinarySearch,
        },
        ..TableOptions::default()
    };
    let mut options = CompressionOptions { parallel_threads: threads, ..Default::default() };
    options.level = level.unwrap_or(options.level);
    let context = TableBuildContext {
        table: Arc::new(table),
        compression: CompressionType::from_flag(codec).unwrap(),
        compression_opts: options,
        helpers: (threads > 1).then(HelperPool::shared),
        ..TableBuildContext::default()
    };
    let level = level.map(|level| level.to_string()).unwrap_or_default();
    Case { name: format!("{codec}{level}-{filter}"), context }
}

#[inline(never)]
fn build_once(context: &TableBuildContext, load: &Load, writer: BufferedWriter) -> BuildStats {
    let mut builder = TableBuilder::new(context.clone(), writer).unwrap();
    load.for_each(|key, value| builder.add(key, value).unwrap());
    builder.finish().unwrap();
    builder.stats().clone()
}

/// Raw data blocks, one after another as in a file: with an allocation each their placement would
/// be up to the allocator, and the limit is fast enough to depend on it.
struct Blocks {
    bytes: Vec<u8>,
    at: Vec<Range<usize>>,
}

/// The raw data blocks of the load.
fn blocks(load: &Load) -> Blocks {
    let fs = MemFs::new(1).shared();
    let path = Path::new("/limit.sst");
    let file = fs.create(path, &Default::default()).unwrap();
    let context = case("none", "off", None, 1).context;
    build_once(&context, load, BufferedWriter::new(file, WriterOptions::new(1 << 20)));
    let bytes = fs.read_file(path).unwrap();
    let read = TableReadContext::default();
    let table = Table::open(read, fs.open_random(path).unwrap(), bytes.len() as u64).unwrap();
    let mut starts = Vec::new();
    load.for_each(|key, _| {
        let target = seek_key(InternalKey::new(key).user_key(), MAX_SEQUENCE);
        starts.push(table.approximate_offset_of(InternalKey::new(&target)).unwrap() as usize);
    });
    starts.dedup();
    starts.push(table.properties().data_size as usize);
    Blocks { at: starts.windows(2).map(|pair| pair[0]..pair[1] - 5).collect(), bytes }
}

/// Codec, checksum and append, for blocks taken from `next`.
fn limit_thread(context: &TableBuildContext, blocks: &Blocks, next: &AtomicUsize) {
    let kind = context.compression;
    let mut codec = match kind {
        CompressionType::None => None,
        kind => Some(Compressor::new(kind, &context.compression_opts).unwrap()),
    };
    let (mut out, mut writer) = (Vec::new(), nowhere());
    while let Some(at) = blocks.at.get(next.fetch_add(1, Ordering::Relaxed)) {
        let raw = &blocks.bytes[at.clone()];
        out.clear();
        let smaller = codec.as_mut().is_some_and(|c| c.compress(raw, &mut out).unwrap());
        let stored = if smaller { &out } else { raw };
        black_box(block_checksum(ChecksumType::Xxh3, stored, kind as u8));
        writer.append(stored).unwrap();
    }
}

#[inline(never)]
fn limit_once(context: &TableBuildContext, blocks: &Blocks, threads: usize) {
    let next = AtomicUsize::new(0);
    if threads == 1 {
        return limit_thread(context, blocks, &next);
    }
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| limit_thread(context, blocks, &next));
        }
    });
}

/// The filter of all keys, built in one go. Nothing without a filter.
#[inline(never)]
fn filter_once(context: &TableBuildContext, load: &Load) {
    let settings = FilterBuildSettings {
        format_version: context.table.format_version,
        level: FilterBuildSettings::UNKNOWN_LEVEL,
        optimize_for_memory: context.table.optimize_filters_for_memory,
        detect_corruption: context.table.detect_filter_construct_corruption,
    };
    let policy = context.table.filter_policy.as_ref();
    let Some(mut builder) = policy.and_then(|policy| policy.builder(&settings)) else { return };
    builder.add_keys(
        load.keys
            .chunks_exact(black_box(KEY_BYTES))
            .map(|key| InternalKey::new(key).user_key().as_bytes()),
    );
    black_box(builder.finish().unwrap());
}

/// Wall and CPU nanoseconds per key.
fn measure(count: usize, work: impl FnOnce()) -> (f64, f64) {
    let (start, cpu) = (time::now_nanos(), time::process_cpu_micros());
    work();
    let (wall, cpu) = (time::now_nanos() - start, (time::process_cpu_micros() - cpu) * 1000);
    (wall as f64 / count as f64, cpu as f64 / count as f64)
}

fn median(mut list: Vec<f64>) -> f64 {
    list.sort_by(f64::total_cmp);
    list[list.len() / 2]
}

/// One line: the builder, the limit, the share, the median over the rounds, because a slow machine
/// slows both parts of a round. `threads` is what the limit may use.
fn compare(case: &Case, load: &Load, blocks: &Blocks, threads: usize) {
    let mut runs: [Vec<f64>; 5] = Default::default();
    let mut stats = BuildStats::default();
    for _ in 0..ROUNDS {
        let (wall, cpu) =
            measure(load.count, || stats = build_once(&case.context, load, nowhere()));
        runs[0].push(wall);
        runs[1].push(cpu);
        let (wall, cpu) = measure(load.count, || limit_once(&case.context, blocks, threads));
        runs[2].push(wall);
        runs[3].push(cpu);
        runs[4].push(measure(load.count, || filter_once(&case.context, load)).1);
    }
    let share = |limit: &[&Vec<f64>], of: &[f64]| {
        let limits = (0..ROUNDS).map(|round| limit.iter().map(|runs| runs[round]).sum::<f64>());
        100.0 * median(limits.zip(of).map(|(limit, of)| limit / of).collect())
    };
    // One thread is measured by its CPU time, which other load on the machine disturbs less.
    let (limits, of) = if threads == 1 { (&runs[3], &runs[1]) } else { (&runs[2], &runs[0]) };
    let (alone, with_filter) = (share(&[limits], of), share(&[limits, &runs[4]], of));
    let [wall, cpu, limit, limit_cpu, filter] = runs.map(median);
    let wanted = case.context.compression_opts.parallel_threads;
    print!("{:<22} pt {wanted}  {wall:7.1} ns/key (cpu {cpu:7.1})", case.name);
    print!("  limit {limit:7.1} (cpu {limit_cpu:7.1})  share {alone:3.0} %");
    if threads == 1 && case.context.table.filter_policy.is_some() {
        print!("  with its filter {:7.1}  share {with_filter:3.0} %", limit_cpu + filter);
    }
    let ring = &stats.ring;
    if ring.emitted > 0 {
        let (helped, calls) = (ring.helper_compressed, ring.calls);
        print!("  helpers {helped}/{} calls {calls} waits {}", ring.emitted, ring.waits);
    }
    println!();
}

fn serial(load: &Load, codecs: &[&str]) {
    let blocks = blocks(load);
    for codec in codecs {
        for filter in ["off", "bloom", "partitioned"] {
            compare(&case(codec, filter, None, 1), load, &blocks, 1);
        }
    }
}

fn parallel(load: &Load) {
    let blocks = blocks(load);
    let threads = thread::available_parallelism();
    for level in [3, 6, 8, 12] {
        for pt in [1, 2, 3] {
            let threads = if pt == 1 { 1 } else { threads };
            compare(&case("zstd", "bloom", Some(level), pt), load, &blocks, threads);
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let count = args.iter().find_map(|arg| arg.parse().ok());
    let load = |default| Load::new(count.unwrap_or(default));
    match args.first().map(String::as_str) {
        Some("callgrind") => {
            let (codec, filter) = args[1].split_once('-').unwrap();
            let load = load(100_000);
            black_box(build_once(&case(codec, filter, None, 1).context, &load, nowhere()));
        }
        Some("serial") => serial(&load(500_000), &["none", "lz4", "zstd"]),
        Some("uncompressed") => serial(&load(500_000), &["none"]),
        Some("parallel") => parallel(&load(100_000)),
        _ => {
            serial(&load(500_000), &["none", "lz4", "zstd"]);
            parallel(&load(100_000));
        }
    }
}
