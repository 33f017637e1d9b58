//! Random entries and settings for tests that build one table in several ways.
#![allow(dead_code, missing_docs)]

use std::sync::Arc;

use pumice_base::key::internal_key;
use pumice_base::random::Rng;
use pumice_base::{Comparator, InternalKey, InternalKeyComparator, Result, ValueType};
use pumice_compress::{CompressionOptions, CompressionType};
use pumice_env::BufferedWriter;
use pumice_port::helpers::HelperPool;
use pumice_table::{
    BuildStats, TableBuildContext, TableBuilder, TableProperties, TableReadOptions,
};

use crate::support;

pub type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// Entries with shared prefixes, versions, deletions, and values that compress more or less.
pub fn entries(rng: &mut Rng, order: &Comparator, count: usize) -> Entries {
    let order = InternalKeyComparator::new(order.clone());
    let mut list = Entries::new();
    while list.len() < count {
        let mut user = format!("{:02}/{:08}", rng.uniform(30), rng.uniform(100_000)).into_bytes();
        user.truncate(3 + rng.uniform(9) as usize);
        for _ in 0..=rng.uniform(2) {
            let kind = match rng.uniform(9) {
                0 => ValueType::Deletion,
                1 => ValueType::SingleDeletion,
                2 => ValueType::Merge,
                _ => ValueType::Value,
            };
            let key = internal_key(&user, 1 + rng.uniform(1 << 24), kind);
            let len = if rng.one_in(60) { rng.uniform(9000) } else { rng.uniform(150) } as usize;
            let mut value = rng.bytes(len);
            if rng.one_in(2) {
                value.iter_mut().for_each(|byte| *byte = b'a' + *byte % 4);
            }
            list.push((key, value));
        }
    }
    list.sort_by(|a, b| order.compare(InternalKey::new(&a.0), InternalKey::new(&b.0)));
    list.dedup_by(|a, b| a.0 == b.0);
    list
}

/// Codecs and dictionaries with which several threads work.
pub fn compressions() -> Vec<(CompressionType, CompressionOptions)> {
    let plain = CompressionOptions { parallel_fast_codecs: true, ..CompressionOptions::default() };
    let raw = CompressionOptions { max_dict_bytes: 2000, ..plain.clone() };
    let trained = CompressionOptions { zstd_max_train_bytes: 30_000, ..raw.clone() };
    let finalized = CompressionOptions { use_zstd_dict_trainer: false, ..trained.clone() };
    let limited = CompressionOptions { max_dict_buffer_bytes: 20_000, ..raw.clone() };
    let tiny = CompressionOptions { max_dict_bytes: 3, ..plain.clone() };
    vec![
        (CompressionType::Snappy, plain.clone()),
        (CompressionType::Zlib, plain.clone()),
        (CompressionType::Lz4, plain.clone()),
        (CompressionType::Lz4hc, plain.clone()),
        (CompressionType::Zstd, plain),
        (CompressionType::Zstd, raw.clone()),
        (CompressionType::Zstd, trained),
        (CompressionType::Zstd, finalized),
        (CompressionType::Zstd, limited),
        (CompressionType::Lz4, raw.clone()),
        (CompressionType::Lz4hc, raw.clone()),
        (CompressionType::Zlib, raw),
        (CompressionType::Zstd, tiny),
    ]
}

/// `context` with this many threads and helpers.
pub fn with_threads(
    context: &TableBuildContext,
    threads: u32,
    helpers: Option<&HelperPool>,
) -> TableBuildContext {
    let mut context = context.clone();
    context.compression_opts.parallel_threads = threads;
    context.helpers = helpers.cloned();
    context
}

/// Reports of a build, during it and at its end.
#[derive(Debug)]
pub struct Told {
    /// The estimate of the file's size after each entry.
    pub estimates: Vec<u64>,
    pub properties: TableProperties,
    pub stats: BuildStats,
}

/// Builds a table.
pub fn build_to(
    context: TableBuildContext,
    writer: BufferedWriter,
    list: &Entries,
) -> Result<Told> {
    let mut builder = TableBuilder::new(context, writer)?;
    let mut estimates = Vec::new();
    let result = list.iter().try_for_each(|(key, value)| {
        builder.add(key, value)?;
        estimates.push(builder.estimated_file_size());
        Ok(())
    });
    let added = result.is_ok();
    match result.and_then(|()| builder.finish_file(false, false)) {
        Ok(()) => {
            let (properties, stats) = (builder.properties().clone(), builder.stats().clone());
            Ok(Told { estimates, properties, stats })
        }
        Err(error) => {
            // A second call gives the same answer.
            let text = |error: Option<pumice_base::Error>| error.map(|error| error.to_string());
            let (told, last) = (Some(error.to_string()), &list[list.len() - 1]);
            if !added {
                assert_eq!(text(builder.add(&last.0, &last.1).err()), told);
            }
            assert_eq!(text(builder.finish().err()), told);
            assert!(builder.abandon().is_err(), "a writer that failed does not say it closed well");
            Err(error)
        }
    }
}

/// Settings with small blocks.
pub fn small_blocks(kind: CompressionType, options: CompressionOptions) -> TableBuildContext {
    let table = pumice_table::TableOptions {
        block_size: 512,
        filter_policy: Some(pumice_filter::FilterPolicy::bloom(10.0)),
        verify_compression: true,
        format_version: 7,
        ..Default::default()
    };
    TableBuildContext {
        table: Arc::new(table),
        compression: kind,
        compression_opts: options,
        db_id: "db".into(),
        db_session_id: "session".into(),
        original_file_number: 9,
        ..TableBuildContext::default()
    }
}

/// A table reads as the entries it was built from.
pub fn check_contents(context: &TableBuildContext, bytes: &[u8], list: &Entries) {
    let table = support::open(support::read_context(context), bytes).unwrap();
    table.verify_checksums().unwrap();
    let mut iter = table.iter(&TableReadOptions::default());
    iter.seek_to_first();
    for (key, value) in list {
        assert!(iter.valid() && (iter.key().as_bytes(), iter.value()) == (&key[..], &value[..]));
        iter.next();
    }
    iter.status().unwrap();
    assert!(!iter.valid());
}
