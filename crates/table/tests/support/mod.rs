//! Builds and opens tables in memory for the tests of this crate.
#![allow(clippy::unwrap_used, dead_code, missing_docs)]

use std::path::Path;
use std::sync::Arc;

use pumice_base::Result;
use pumice_cache::{Cache, CacheOptions};
use pumice_env::{BufferedWriter, FileOptions, MemFs, RandomAccessFile, WriterOptions};
use pumice_table::{
    BlockCache, Table, TableBuildContext, TableBuilder, TableProperties, TableReadContext,
    properties,
};

/// A built table: its bytes and what the builder reports about it.
pub struct Built {
    pub bytes: Vec<u8>,
    pub properties: TableProperties,
    pub tail_size: u64,
}

/// Builds a table from entries in order.
pub fn build<'a>(
    context: TableBuildContext,
    entries: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
) -> Built {
    let fs = MemFs::new(1).shared();
    let path = Path::new("/t.sst");
    let file = fs.create(path, &FileOptions::default()).unwrap();
    let writer = BufferedWriter::new(file, WriterOptions::new(1 << 20));
    let mut builder = TableBuilder::new(context, writer).unwrap();
    for (key, value) in entries {
        builder.add(key, value).unwrap();
    }
    builder.finish_file(true, false).unwrap();
    let bytes = fs.read_file(path).unwrap();
    assert_eq!(bytes.len() as u64, builder.file_size());
    Built { bytes, properties: builder.properties().clone(), tail_size: builder.tail_size() }
}

/// Turns `context` into that of a table which RocksDB ingests.
pub fn external(context: TableBuildContext) -> TableBuildContext {
    TableBuildContext {
        user_collected: vec![
            (properties::EXTERNAL_VERSION.into(), 2u32.to_le_bytes().to_vec()),
            (properties::GLOBAL_SEQNO.into(), 0u64.to_le_bytes().to_vec()),
        ],
        db_id: "SST Writer".into(),
        db_session_id: pumice_table::session_id([7, 9]),
        original_file_number: 1,
        ..context
    }
}

/// A file whose contents are given.
pub fn file_of(bytes: &[u8]) -> Arc<dyn RandomAccessFile> {
    let fs = MemFs::new(1).shared();
    let path = Path::new("/t.sst");
    let mut file = fs.create(path, &FileOptions::default()).unwrap();
    file.append(bytes).unwrap();
    file.close().unwrap();
    fs.open_random(path).unwrap()
}

/// Opens a table with the given contents.
pub fn open(context: TableReadContext, bytes: &[u8]) -> Result<Arc<Table>> {
    Table::open(context, file_of(bytes), bytes.len() as u64)
}

/// A block cache of `capacity` bytes.
pub fn cache(capacity: usize) -> Arc<BlockCache> {
    Cache::new(CacheOptions::new(capacity))
}

/// A read context that matches a build context.
pub fn read_context(context: &TableBuildContext) -> TableReadContext {
    TableReadContext {
        options: Arc::clone(&context.table),
        comparator: context.comparator.clone(),
        prefix_extractor: context.prefix_extractor.clone(),
        ..Default::default()
    }
}
