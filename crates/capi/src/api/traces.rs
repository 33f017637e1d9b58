//! Traces of queries, files and the block cache, their records, and the replayer.

use pumice::trace::{
    BlockCacheTraceOptions, FileTraceReader, FileTraceWriter, TraceFilter, TraceOptions,
    TraceReader, TraceWriter,
};
use pumice::{Error, ErrorKind, ReplayOptions, Result};
use pumice_binding::database::Database;
use pumice_binding::env::Env;
use pumice_binding::store::{Fields, Store};

use crate::ffi::from::{Out, Text, Unused};
use crate::ffi::generated::{
    rocksdb_block_cache_trace_options_t, rocksdb_block_cache_trace_writer_options_t,
    rocksdb_envoptions_t, rocksdb_replay_options_t, rocksdb_trace_options_t,
};
use crate::ffi::into::{Copied, New};
use crate::ffi::macros::c_api;
use crate::ffi::types::{CallReplayer, Family, TraceFile};

/// A file for a trace.
fn writer(env: Option<&Env>, path: Text<'_>) -> Result<Box<dyn TraceWriter>> {
    let env = env.cloned().unwrap_or_default();
    Ok(Box::new(FileTraceWriter::create(&**env.file_system(), path.path())?))
}

/// A trace's file.
fn reader(env: Option<&Env>, path: Text<'_>) -> Result<Box<dyn TraceReader>> {
    let env = env.cloned().unwrap_or_default();
    Ok(Box::new(FileTraceReader::open(env.file_system().clone(), path.path())?))
}

fn trace_options(store: &Store) -> TraceOptions {
    TraceOptions {
        max_trace_file_size: store.bits("max_trace_file_size"),
        sampling_frequency: store.bits("sampling_frequency"),
        filter: TraceFilter(store.bits("filter")),
        preserve_write_order: store.flag("preserve_write_order"),
    }
}

fn open(file: &mut TraceFile) -> Result<&mut Box<dyn TraceReader>> {
    file.0.as_mut().ok_or_else(|| Error::invalid_argument("the trace reader is closed"))
}

c_api! {
    fn rocksdb_trace_reader_create(
        env: Option<&Env>, _env_options: Unused<rocksdb_envoptions_t>, path: Text<'_>, errptr: Fail
    ) -> New<TraceFile> {
        Ok(New(TraceFile(Some(reader(env, path)?))))
    }

    fn rocksdb_trace_reader_read(
        file: &mut TraceFile, length: Out<'_, usize>, errptr: Fail
    ) -> Option<Copied> {
        let mut length = length;
        length.set(0);
        match open(file)?.read() {
            // The end is no error.
            Err(error) if error.kind() == ErrorKind::Incomplete => Ok(None),
            record => {
                let record = record?;
                length.set(record.len());
                Ok(Some(Copied::of(&record)))
            }
        }
    }

    fn rocksdb_trace_reader_reset(file: &mut TraceFile, errptr: Fail) {
        open(file)?.reset()
    }

    fn rocksdb_trace_reader_close(file: &mut TraceFile, errptr: Fail) {
        file.0 = None;
        Ok(())
    }

    fn rocksdb_new_default_replayer(
        db: &Database, families: List<Family>, env: Option<&Env>,
        _env_options: Unused<rocksdb_envoptions_t>, path: Text<'_>, errptr: Fail
    ) -> New<CallReplayer> {
        let mut families: Vec<_> = families.iter().map(|cf| cf.0.clone()).collect();
        if families.is_empty() {
            families.push(db.default_family().clone());
        }
        let replayer = db.db().new_default_replayer(&families, reader(env, path)?)?;
        Ok(New(CallReplayer(replayer)))
    }

    fn rocksdb_replayer_prepare(replayer: &mut CallReplayer, errptr: Fail) {
        replayer.0.prepare()
    }

    fn rocksdb_replayer_get_header_timestamp(replayer: &CallReplayer) -> u64 {
        replayer.0.header_timestamp()
    }

    fn rocksdb_replayer_replay(
        replayer: &mut CallReplayer, options: Option<&rocksdb_replay_options_t>, errptr: Fail
    ) {
        let options = options.map(|options| options.store());
        replayer.0.replay(&options.map_or_else(ReplayOptions::default, |options| ReplayOptions {
            num_threads: u32::try_from(options.bits("num_threads")).unwrap_or(u32::MAX),
            fast_forward: options.double("fast_forward"),
        }))
    }

    fn rocksdb_start_trace(
        db: &Database, env: Option<&Env>, _env_options: Unused<rocksdb_envoptions_t>,
        options: &rocksdb_trace_options_t, path: Text<'_>, errptr: Fail
    ) {
        db.db().start_trace(&trace_options(options.store()), writer(env, path)?)
    }

    fn rocksdb_end_trace(db: &Database, errptr: Fail) {
        db.db().end_trace()
    }

    fn rocksdb_start_io_trace(
        db: &Database, env: Option<&Env>, _env_options: Unused<rocksdb_envoptions_t>,
        options: &rocksdb_trace_options_t, path: Text<'_>, errptr: Fail
    ) {
        db.db().start_io_trace(&trace_options(options.store()), writer(env, path)?)
    }

    fn rocksdb_end_io_trace(db: &Database, errptr: Fail) {
        db.db().end_io_trace()
    }

    fn rocksdb_start_block_cache_trace(
        db: &Database, env: Option<&Env>, _env_options: Unused<rocksdb_envoptions_t>,
        options: &rocksdb_trace_options_t, path: Text<'_>, errptr: Fail
    ) {
        let options = trace_options(options.store());
        let options = BlockCacheTraceOptions {
            sampling_frequency: options.sampling_frequency,
            max_trace_file_size: options.max_trace_file_size,
        };
        db.db().start_block_cache_trace(&options, writer(env, path)?)
    }

    fn rocksdb_start_block_cache_trace_with_options(
        db: &Database, env: Option<&Env>, _env_options: Unused<rocksdb_envoptions_t>,
        options: &rocksdb_block_cache_trace_options_t,
        file: &rocksdb_block_cache_trace_writer_options_t, path: Text<'_>, errptr: Fail
    ) {
        let options = BlockCacheTraceOptions {
            sampling_frequency: options.store().bits("sampling_frequency"),
            max_trace_file_size: file.store().bits("max_trace_file_size"),
        };
        db.db().start_block_cache_trace(&options, writer(env, path)?)
    }

    fn rocksdb_end_block_cache_trace(db: &Database, errptr: Fail) {
        db.db().end_block_cache_trace()
    }
}
