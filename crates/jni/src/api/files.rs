//! Checkpoints, table files that are made and ingested, logs.

use std::path::PathBuf;

use jni_sys::jvalue;
use pumice::{CheckpointOptions, Error, SstFileWriter};
use pumice_binding::database::Database;
use pumice_binding::log_cursor::LogCursor;
use pumice_binding::requests;
use pumice_binding::store::Fields;

use crate::api::callbacks::order_of;
use crate::api::family;
use crate::ffi::call::Result;
use crate::ffi::env::{Env, Object};
use crate::ffi::from::{Direct, Handle};
use crate::ffi::handle;
use crate::ffi::into::New;
use crate::objects::{Checkpoint, Family, Options, Slice, Values, Writer};

/// Java: Checkpoint.newCheckpoint
pub fn new_checkpoint(_env: Env<'_>, db: &Database) -> Result<New<Checkpoint>> {
    Ok(New(Checkpoint(db.clone())))
}

/// Java: Checkpoint.createCheckpoint
pub fn checkpoint(_env: Env<'_>, it: &Checkpoint, path: String) -> Result<()> {
    let options = CheckpointOptions { log_size_for_flush: 0 };
    Ok(it.0.db().checkpoint_opt(&options, PathBuf::from(path))?)
}

/// Java: RocksDB.ingestExternalFile 0 1 2 4
pub fn ingest(
    _env: Env<'_>,
    db: &Database,
    cf: Option<&Family>,
    files: Vec<String>,
    options: &Values,
) -> Result<()> {
    let options = requests::ingest(options.store());
    Ok(db.db().ingest_external_file_cf(&options, family(db, cf), &files)?)
}

/// Java: SstFileWriter.newSstFileWriter (JJ)
pub fn new_writer(_env: Env<'_>, _files: &Values, options: &Options) -> Result<New<Writer>> {
    let writer = options.values.to_engine().and_then(|engine| SstFileWriter::new(&engine));
    Ok(New(Writer { writer, file_size: 0 }))
}

/// Java: SstFileWriter.newSstFileWriter (JJJB)
pub fn new_writer_ordered(
    env: Env<'_>,
    _files: &Values,
    options: &Options,
    order: Handle,
    kind: i8,
) -> Result<New<Writer>> {
    let order = order_of(env, order, kind)?;
    let writer = options.values.to_engine().and_then(|mut engine| {
        engine.cf.comparator = order;
        SstFileWriter::new(&engine)
    });
    Ok(New(Writer { writer, file_size: 0 }))
}

impl Writer {
    fn get(&mut self) -> pumice::Result<&mut SstFileWriter> {
        self.writer.as_mut().map_err(|error| Error::clone(error))
    }
}

/// Java: SstFileWriter.open
pub fn writer_open(_env: Env<'_>, writer: &mut Writer, path: String) -> Result<()> {
    writer.file_size = 0;
    Ok(writer.get()?.open(PathBuf::from(path))?)
}

/// Java: SstFileWriter.put (J[B[B)
pub fn writer_put(_env: Env<'_>, writer: &mut Writer, key: Vec<u8>, value: Vec<u8>) -> Result<()> {
    Ok(writer.get()?.put(&key, &value)?)
}

/// Java: SstFileWriter.put (JJJ)
pub fn writer_put_slices(
    _env: Env<'_>,
    writer: &mut Writer,
    key: &Slice,
    value: &Slice,
) -> Result<()> {
    Ok(writer.get()?.put(key.bytes(), value.bytes())?)
}

/// Java: SstFileWriter.putDirect
pub fn writer_put_direct(
    _env: Env<'_>,
    writer: &mut Writer,
    key: Direct<'_>,
    value: Direct<'_>,
) -> Result<()> {
    Ok(writer.get()?.put(key.0, value.0)?)
}

/// Java: SstFileWriter.merge (J[B[B)
pub fn writer_merge(
    _env: Env<'_>,
    writer: &mut Writer,
    key: Vec<u8>,
    value: Vec<u8>,
) -> Result<()> {
    Ok(writer.get()?.merge(&key, &value)?)
}

/// Java: SstFileWriter.merge (JJJ)
pub fn writer_merge_slices(
    _env: Env<'_>,
    writer: &mut Writer,
    key: &Slice,
    value: &Slice,
) -> Result<()> {
    Ok(writer.get()?.merge(key.bytes(), value.bytes())?)
}

/// Java: SstFileWriter.delete (J[B)
pub fn writer_delete(_env: Env<'_>, writer: &mut Writer, key: Vec<u8>) -> Result<()> {
    Ok(writer.get()?.delete(&key)?)
}

/// Java: SstFileWriter.delete (JJ)
pub fn writer_delete_slice(_env: Env<'_>, writer: &mut Writer, key: &Slice) -> Result<()> {
    Ok(writer.get()?.delete(key.bytes())?)
}

/// Java: SstFileWriter.finish
pub fn writer_finish(_env: Env<'_>, writer: &mut Writer) -> Result<()> {
    writer.file_size = writer.get()?.finish()?.file_size;
    Ok(())
}

/// Java: SstFileWriter.fileSize
pub fn writer_size(_env: Env<'_>, writer: &Writer) -> Result<u64> {
    let present = writer.writer.as_ref().map_or(0, SstFileWriter::file_size);
    Ok(present.max(writer.file_size))
}

/// Java: RocksDB.getUpdatesSince
pub fn updates_since(_env: Env<'_>, db: &Database, number: u64) -> Result<New<LogCursor>> {
    Ok(New(db.updates_since(number)?))
}

/// Java: TransactionLogIterator.isValid
pub fn log_valid(_env: Env<'_>, cursor: &LogCursor) -> Result<bool> {
    Ok(cursor.valid())
}

/// Java: TransactionLogIterator.next
pub fn log_next(_env: Env<'_>, cursor: &mut LogCursor) -> Result<()> {
    cursor.next();
    Ok(())
}

/// Java: TransactionLogIterator.status
pub fn log_status(_env: Env<'_>, cursor: &LogCursor) -> Result<()> {
    Ok(cursor.status()?)
}

/// Java: TransactionLogIterator.getBatch
pub fn log_batch<'a>(env: Env<'a>, cursor: &LogCursor) -> Result<Object<'a>> {
    let at_none = || Error::invalid_argument("the iterator is at no batch");
    let (number, updates) = cursor.batch().ok_or_else(at_none)?;
    let mut batch = pumice_binding::batch::Batch::default();
    batch.updates = updates.clone();
    let arguments = [jvalue { j: number.cast_signed() }, jvalue { j: handle::give(batch) }];
    env.construct("org/rocksdb/TransactionLogIterator$BatchResult", "(JJ)V", &arguments)
}

/// Java: RocksDB.getSortedWalFiles
pub fn wal_files<'a>(env: Env<'a>, db: &Database) -> Result<Object<'a>> {
    let files = db.db().wal_files()?;
    let array = env.new_objects("org/rocksdb/LogFile", files.len())?;
    for (at, file) in files.iter().enumerate() {
        env.frame(|| {
            let name = env.new_text(&file.path_name)?;
            let arguments = [
                jvalue { l: name.raw() },
                jvalue { j: file.log_number.cast_signed() },
                jvalue { b: file.file_type as i8 },
                jvalue { j: file.start_sequence.cast_signed() },
                jvalue { j: file.size_file_bytes.cast_signed() },
            ];
            let made =
                env.construct("org/rocksdb/LogFile", "(Ljava/lang/String;JBJJ)V", &arguments)?;
            env.set_element(array, at, made)
        })?;
    }
    Ok(array)
}
