//! Tables built with helpers: the bytes, errors, panics, giving up at any moment, on threads and in
//! a simulation.

use crate::support;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crate::builds::{self, Entries, build_to, compressions, entries, small_blocks, with_threads};
use crate::recorded_file::{Record, RecordedFile, Sickness};
use pumice_base::extension::FixedPrefix;
use pumice_base::random::Rng;
use pumice_base::{Comparator, Error, Severity};
use pumice_compress::CompressionType;
use pumice_port::helpers::HelperPool;
use pumice_port::sync::Mutex;
use pumice_port::{sim, thread};
use pumice_table::{DataBlockIndexType, IndexType, TableBuildContext, TableBuilder};

fn list(seed: u64, count: usize) -> Entries {
    entries(&mut Rng::new(seed), &Comparator::Bytewise, count)
}

/// Index and filter of configuration number `which`.
fn with_kind(mut context: TableBuildContext, which: u64) -> TableBuildContext {
    let table = Arc::make_mut(&mut context.table);
    table.metadata_block_size = 300;
    table.index_type = match which % 5 {
        0 | 1 => IndexType::TwoLevel,
        2 => IndexType::HashSearch,
        3 => IndexType::BinarySearchWithFirstKey,
        _ => IndexType::BinarySearch,
    };
    table.partition_filters = which % 5 < 2;
    table.decouple_partitioned_filters = which.is_multiple_of(5);
    if which.is_multiple_of(3) {
        table.data_block_index_type = DataBlockIndexType::BinaryAndHash;
    }
    table.enable_index_compression = which.is_multiple_of(2);
    table.separate_key_value_in_data_block = which % 4 < 2;
    table.super_block_alignment_size = if which.is_multiple_of(2) { 4096 } else { 0 };
    table.super_block_alignment_space_overhead_ratio = 4;
    context.prefix_extractor = Some(Arc::new(FixedPrefix(4)));
    context
}

/// The table has a dictionary.
fn has_dictionary(context: &TableBuildContext, bytes: &[u8]) -> bool {
    let table = support::open(support::read_context(context), bytes).unwrap();
    let text = pumice_table::dump::raw_text(&table, false).unwrap();
    String::from_utf8_lossy(&text).contains("Compression dictionary block handle")
}

/// The serial table, and its builder's estimates.
fn reference(context: &TableBuildContext, list: &Entries) -> (Vec<u8>, builds::Told) {
    let (writer, record) = RecordedFile::writer(None);
    let told = build_to(with_threads(context, 1, None), writer, list).unwrap();
    let bytes = record.lock().bytes.clone();
    builds::check_contents(context, &bytes, list);
    (bytes, told)
}

/// Every number of threads with every number of helpers builds the same file, with the same
/// estimates during the build.
#[pumice_test_macros::test]
fn bytes_do_not_depend_on_threads_or_helpers() {
    let pools: Vec<HelperPool> = (0..4).map(HelperPool::new).collect();
    let mut helped = 0;
    for (seed, (kind, options)) in (1..).zip(compressions()) {
        let list = list(seed, 700);
        let context = with_kind(small_blocks(kind, options), seed);
        let (want, serial) = reference(&context, &list);
        let dictionary = has_dictionary(&context, &want);
        let wanted = context.compression_opts.max_dict_bytes > 100;
        assert_eq!(dictionary, wanted, "{kind:?} seed {seed}");
        assert!(serial.properties.num_data_blocks > 64, "{}", serial.properties.num_data_blocks);
        for threads in 1..=9 {
            for pool in &pools {
                let (writer, record) = RecordedFile::writer(None);
                let context = with_threads(&context, threads, Some(pool));
                let told = build_to(context, writer, &list).unwrap();
                let what = format!("{kind:?} seed {seed} threads {threads} {pool:?}");
                assert!(record.lock().bytes == want, "{what}: other bytes");
                assert_eq!(told.estimates, serial.estimates, "{what}");
                assert_eq!(told.properties, serial.properties, "{what}");
                assert_eq!(told.stats.bytes_compressed_to, serial.stats.bytes_compressed_to);
                if threads > 1 {
                    assert_eq!(told.stats.ring.emitted, told.properties.num_data_blocks, "{what}");
                }
                helped += told.stats.ring.helper_compressed;
            }
        }
    }
    assert!(helped > 0, "no helper ever came");
}

fn injected() -> String {
    Error::io_message("injected error").to_string()
}

/// An error of any write, on any thread, is returned by `add` or `finish`; nothing is written after
/// it, and the file is closed.
#[pumice_test_macros::test]
fn write_errors_reach_the_emitter() {
    let list = list(20, 900);
    let pools = [HelperPool::new(0), HelperPool::new(2)];
    for (kind, options) in [compressions()[4].clone(), compressions()[5].clone()] {
        let context = small_blocks(kind, options);
        let (writer, record) = RecordedFile::writer(None);
        build_to(with_threads(&context, 1, None), writer, &list).unwrap();
        let appends = record.lock().appends;
        assert!(appends > 8, "{appends}");
        for at in 0..appends {
            for (pool, threads) in [(None, 1), (Some(&pools[0]), 3), (Some(&pools[1]), 3)] {
                let (writer, record) = RecordedFile::writer(Some((at, Sickness::Error)));
                let built = build_to(with_threads(&context, threads, pool), writer, &list);
                assert_eq!(built.unwrap_err().to_string(), injected(), "append {at}");
                let record = record.lock();
                assert_eq!(record.appends, at + 1);
                assert!(record.dropped);
            }
        }
    }
}

/// Waits until the last holder of the file has dropped it.
fn wait_until_dropped(record: &Mutex<Record>) {
    wait_until("the file is still open", || record.lock().dropped);
}

fn wait_until(otherwise: &str, done: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if done() {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("{otherwise}");
}

/// However many entries there are, giving up closes the file; so does dropping the builder.
#[pumice_test_macros::test]
fn giving_up_at_any_moment_closes_the_file() {
    let list = list(21, 500);
    let pools = [HelperPool::new(0), HelperPool::new(2)];
    for (kind, options) in [compressions()[4].clone(), compressions()[8].clone()] {
        let context = small_blocks(kind, options);
        for count in (0..list.len()).step_by(7) {
            for pool in &pools {
                for politely in [false, true] {
                    let (writer, record) = RecordedFile::writer(None);
                    let context = with_threads(&context, 1 + (count % 6) as u32, Some(pool));
                    let mut builder = TableBuilder::new(context, writer).unwrap();
                    for (key, value) in &list[..count] {
                        builder.add(key, value).unwrap();
                    }
                    if politely {
                        builder.abandon().unwrap();
                        assert!(record.lock().closed && record.lock().dropped);
                    } else {
                        drop(builder);
                        wait_until_dropped(&record);
                    }
                }
            }
        }
    }
}

/// A panic at any write ends the build, not the process, and no thread waits forever.
#[pumice_test_macros::test]
fn panics_end_the_build() {
    let list = list(22, 600);
    let (kind, options) = compressions()[4].clone();
    let context = small_blocks(kind, options);
    let pool = HelperPool::new(2);
    let (mut told, mut seen) = (0, 0);
    for at in 0..24 {
        let (writer, record) = RecordedFile::writer(Some((at % 8, Sickness::Panic)));
        let context = with_threads(&context, 4, Some(&pool));
        let mut builder = TableBuilder::new(context, writer).unwrap();
        let result = catch_unwind(AssertUnwindSafe(|| {
            list.iter().try_for_each(|(key, value)| builder.add(key, value))?;
            builder.finish()
        }));
        match result {
            Ok(Ok(())) => panic!("a write panicked, and the table was finished"),
            Ok(Err(error)) => {
                assert!(error.to_string().contains("a helper panicked"), "{error}");
                assert_eq!(error.severity(), Severity::Unrecoverable);
                assert_eq!(builder.finish().unwrap_err().to_string(), error.to_string());
                told += 1;
            }
            Err(_) => seen += 1,
        }
        drop(builder);
        wait_until_dropped(&record);
    }
    println!("{told} panics of helpers, {seen} of the emitter");
    assert!(told + seen == 24);
    // A helper counts its panic after it has reported it to the builder.
    wait_until("a panic was not counted", || pool.stats().panics >= told);
    assert_eq!(pool.stats().panics, told);
}

/// One build in a simulation, with or without a fault, by seed.
fn simulated(seed: u64) -> bool {
    let rng = &mut Rng::new(seed);
    let choices = compressions();
    let (kind, options) = choices[rng.uniform(choices.len() as u64) as usize].clone();
    let list = list(seed, 40 + rng.uniform(300) as usize);
    let context = with_kind(small_blocks(kind, options), seed);
    let (want, serial) = reference(&context, &list);
    let pool = HelperPool::new(rng.uniform(4) as usize);
    let context = with_threads(&context, 2 + rng.uniform(4) as u32, Some(&pool));
    let sick = rng.one_in(3).then(|| (rng.uniform(6) as usize, Sickness::Error));
    let (writer, record) = RecordedFile::writer(sick);
    let built = build_to(context, writer, &list);
    let record = record.lock();
    match built {
        Err(error) => {
            assert_eq!((error.to_string(), sick.is_some()), (injected(), true));
            assert!(record.dropped);
            false
        }
        Ok(told) => {
            assert!(record.bytes == want, "other bytes");
            assert_eq!(told.estimates, serial.estimates);
            told.stats.ring.helper_compressed > 0
        }
    }
}

/// Interleavings that threads would hardly produce.
// Plain #[test]: it is a simulation.
#[test]
fn simulated_orders_change_nothing() {
    let mut helped = 0;
    for seed in 0..60 {
        let options = sim::Options { preempt_per_mille: 200, ..sim::Options::new(seed) };
        let (report, result) = sim::run(&options, move || simulated(seed));
        match result {
            Ok(with_helpers) => helped += u32::from(with_helpers),
            Err(failure) => panic!("seed {seed}: {failure:?} {report:?}"),
        }
    }
    assert!(helped > 10, "helpers came in {helped} of 60 runs");
}

/// Tables of one block, or none, do not call helpers.
#[pumice_test_macros::test]
fn tiny_tables_are_built_alone() {
    let pool = HelperPool::new(2);
    for count in [0, 1, 2] {
        let mut context = small_blocks(CompressionType::Zstd, compressions()[4].1.clone());
        Arc::make_mut(&mut context.table).block_size = 1 << 20;
        let list = list(23, 2)[..count].to_vec();
        let (want, _) = reference(&context, &list);
        let (writer, record) = RecordedFile::writer(None);
        let told = build_to(with_threads(&context, 4, Some(&pool)), writer, &list).unwrap();
        assert_eq!(record.lock().bytes, want);
        assert_eq!(told.stats.ring.emitted, 0);
    }
    assert_eq!(pool.stats().visits, 0);
}
