//! Write batches, and the handlers of Java that walk over them.

use jni_sys::jvalue;
use pumice::{BatchRecord, Error, SubCode, WriteBatch};
use pumice_base::key::ValueType;
use pumice_binding::batch::Batch;

use crate::ffi::call::{Result, missing};
use crate::ffi::env::{Env, Object};
use crate::ffi::from::{Bytes, Direct};
use crate::ffi::into::New;
use crate::ffi::vm::Global;
use crate::objects::{Family, Handler};

type In<'a> = Option<&'a Family>;

/// Java: WriteBatch.newWriteBatch (I)
pub fn new_sized(_env: Env<'_>, reserved: i32) -> Result<New<Batch>> {
    Ok(New(Batch::with_limit(usize::try_from(reserved).unwrap_or(0), 0)))
}

/// Java: WriteBatch.newWriteBatch ([BI)
pub fn new_of(_env: Env<'_>, data: Bytes) -> Result<New<Batch>> {
    Ok(New(Batch::from_data(&data)))
}

/// What did not fit is an error, as in RocksDB.
fn fits(it_did: bool) -> Result<()> {
    if it_did { Ok(()) } else { Err(Error::aborted("").with_subcode(SubCode::MemoryLimit).into()) }
}

/// Java: WriteBatch.setMaxBytes
pub fn set_max_bytes(_env: Env<'_>, batch: &mut Batch, bytes: usize) -> Result<()> {
    batch.set_max_bytes(bytes);
    Ok(())
}

/// Adds an update to the family.
macro_rules! add {
    ($batch:expr, $cf:expr, $updates:ident, $in:ident => $add:expr) => {
        $batch.add_to($cf.map(|cf: &Family| &cf.0), |$updates, $in| $add)
    };
}

/// Java: WriteBatch.put (J[BI[BI) 0 1 2 -
/// Java: WriteBatch.put (J[BI[BIJ)
pub fn put(_env: Env<'_>, batch: &mut Batch, key: Bytes, value: Bytes, cf: In<'_>) -> Result<()> {
    fits(add!(batch, cf, updates, cf => updates.put_cf(cf, &*key, &*value)))
}

/// Java: WriteBatch.putDirect
pub fn put_direct(
    _env: Env<'_>,
    batch: &mut Batch,
    key: Direct<'_>,
    value: Direct<'_>,
    cf: In<'_>,
) -> Result<()> {
    fits(add!(batch, cf, updates, cf => updates.put_cf(cf, key.0, value.0)))
}

/// Java: WriteBatch.merge (J[BI[BI) 0 1 2 -
/// Java: WriteBatch.merge (J[BI[BIJ)
pub fn merge(_env: Env<'_>, batch: &mut Batch, key: Bytes, value: Bytes, cf: In<'_>) -> Result<()> {
    fits(add!(batch, cf, updates, cf => updates.merge_cf(cf, &*key, &*value)))
}

/// Java: WriteBatch.delete (J[BI) 0 1 -
/// Java: WriteBatch.delete (J[BIJ)
pub fn delete(_env: Env<'_>, batch: &mut Batch, key: Bytes, cf: In<'_>) -> Result<()> {
    fits(add!(batch, cf, updates, cf => updates.delete_cf(cf, &*key)))
}

/// Java: WriteBatch.deleteDirect
pub fn delete_direct(_env: Env<'_>, batch: &mut Batch, key: Direct<'_>, cf: In<'_>) -> Result<()> {
    fits(add!(batch, cf, updates, cf => updates.delete_cf(cf, key.0)))
}

/// Java: WriteBatch.singleDelete (J[BI) 0 1 -
/// Java: WriteBatch.singleDelete (J[BIJ)
pub fn single_delete(_env: Env<'_>, batch: &mut Batch, key: Bytes, cf: In<'_>) -> Result<()> {
    fits(add!(batch, cf, updates, cf => updates.single_delete_cf(cf, &*key)))
}

/// Java: WriteBatch.deleteRange (J[BI[BI) 0 1 2 -
/// Java: WriteBatch.deleteRange (J[BI[BIJ)
pub fn delete_range(
    _env: Env<'_>,
    batch: &mut Batch,
    start: Bytes,
    end: Bytes,
    cf: In<'_>,
) -> Result<()> {
    fits(add!(batch, cf, updates, cf => updates.delete_range_cf(cf, &*start, &*end)))
}

/// Java: WriteBatch.putLogData
pub fn put_log_data(_env: Env<'_>, batch: &mut Batch, blob: Bytes) -> Result<()> {
    fits(batch.add(|updates| updates.put_log_data(&blob)))
}

/// Java: WriteBatch.clear0
pub fn clear(_env: Env<'_>, batch: &mut Batch) -> Result<()> {
    batch.updates.clear();
    Ok(())
}

/// Java: WriteBatch.count0
pub fn count(_env: Env<'_>, batch: &Batch) -> Result<i32> {
    Ok(i32::try_from(batch.updates.count()).unwrap_or(i32::MAX))
}

/// Java: WriteBatch.setSavePoint0
pub fn set_save_point(_env: Env<'_>, batch: &mut Batch) -> Result<()> {
    batch.updates.set_save_point();
    Ok(())
}

/// Java: WriteBatch.rollbackToSavePoint0
pub fn rollback_to_save_point(_env: Env<'_>, batch: &mut Batch) -> Result<()> {
    Ok(batch.updates.rollback_to_save_point().map_err(|_| Error::not_found(""))?)
}

/// Java: WriteBatch.popSavePoint
pub fn pop_save_point(_env: Env<'_>, batch: &mut Batch) -> Result<()> {
    Ok(batch.updates.pop_save_point().map_err(|_| Error::not_found(""))?)
}

/// Java: WriteBatch.markWalTerminationPoint
pub fn mark_log_end(_env: Env<'_>, batch: &mut Batch) -> Result<()> {
    batch.updates.mark_wal_termination_point();
    Ok(())
}

/// Java: WriteBatch.getWalTerminationPoint
pub fn log_end<'a>(env: Env<'a>, batch: &Batch) -> Result<Object<'a>> {
    // No point is all zeros.
    let (bytes, count) = batch.updates.wal_termination_point().unwrap_or((0, 0));
    let arguments = [
        jvalue { j: i64::try_from(bytes).unwrap_or(i64::MAX) },
        jvalue { j: i64::from(count) },
        jvalue { j: content_flags(&batch.updates, count)? },
    ];
    env.construct("org/rocksdb/WriteBatch$SavePoint", "(JJJ)V", &arguments)
}

/// RocksDB's flags of the kinds of a batch's first `count` updates.
fn content_flags(updates: &WriteBatch, count: u32) -> Result<i64> {
    let (mut left, mut flags) = (count, 0);
    for record in updates.iter() {
        let BatchRecord::Entry { value_type, .. } = record? else { continue };
        if left == 0 {
            break;
        }
        left -= 1;
        flags |= match value_type {
            ValueType::Value => 1 << 1,
            ValueType::Deletion => 1 << 2,
            ValueType::SingleDeletion => 1 << 3,
            ValueType::Merge => 1 << 4,
            ValueType::RangeDeletion => 1 << 9,
            ValueType::BlobIndex => 1 << 10,
            ValueType::WideColumnEntity => 1 << 12,
            _ => 0,
        };
    }
    Ok(flags)
}

/// Java: WriteBatch.data
pub fn data(_env: Env<'_>, batch: &Batch) -> Result<Vec<u8>> {
    Ok(batch.updates.data().to_vec())
}

/// Java: WriteBatch.getDataSize
pub fn data_size(_env: Env<'_>, batch: &Batch) -> Result<usize> {
    Ok(batch.updates.data_bytes())
}

fn has(batch: &Batch, wanted: &[ValueType]) -> bool {
    batch.updates.iter().flatten().any(|record| match record {
        BatchRecord::Entry { value_type, .. } | BatchRecord::Marker(value_type, _) => {
            wanted.contains(&value_type)
        }
        BatchRecord::LogData(_) => false,
    })
}

/// Java: WriteBatch.hasPut
pub fn has_put(_env: Env<'_>, batch: &Batch) -> Result<bool> {
    Ok(has(batch, &[ValueType::Value]))
}

/// Java: WriteBatch.hasDelete
pub fn has_delete(_env: Env<'_>, batch: &Batch) -> Result<bool> {
    Ok(has(batch, &[ValueType::Deletion]))
}

/// Java: WriteBatch.hasSingleDelete
pub fn has_single_delete(_env: Env<'_>, batch: &Batch) -> Result<bool> {
    Ok(has(batch, &[ValueType::SingleDeletion]))
}

/// Java: WriteBatch.hasDeleteRange
pub fn has_delete_range(_env: Env<'_>, batch: &Batch) -> Result<bool> {
    Ok(has(batch, &[ValueType::RangeDeletion]))
}

/// Java: WriteBatch.hasMerge
pub fn has_merge(_env: Env<'_>, batch: &Batch) -> Result<bool> {
    Ok(has(batch, &[ValueType::Merge]))
}

/// Java: WriteBatch.hasBeginPrepare
pub fn has_begin_prepare(_env: Env<'_>, batch: &Batch) -> Result<bool> {
    Ok(has(batch, &[ValueType::BeginPrepareXid, ValueType::BeginPersistedPrepareXid]))
}

/// Java: WriteBatch.hasEndPrepare
pub fn has_end_prepare(_env: Env<'_>, batch: &Batch) -> Result<bool> {
    Ok(has(batch, &[ValueType::EndPrepareXid]))
}

/// Java: WriteBatch.hasCommit
pub fn has_commit(_env: Env<'_>, batch: &Batch) -> Result<bool> {
    Ok(has(batch, &[ValueType::CommitXid]))
}

/// Java: WriteBatch.hasRollback
pub fn has_rollback(_env: Env<'_>, batch: &Batch) -> Result<bool> {
    Ok(has(batch, &[ValueType::RollbackXid]))
}

/// Java: WriteBatch$Handler.createNewHandler0 this
pub fn new_handler(env: Env<'_>, handler: Object<'_>) -> Result<New<Handler>> {
    Ok(New(Handler(Global::new(env, handler))))
}

/// Java: WriteBatch.iterate
pub fn iterate(env: Env<'_>, batch: &Batch, handler: &Handler) -> Result<()> {
    walk(env, &batch.updates, handler.0.object())
}

/// Calls the handler for each record, until it wants no more.
fn walk(env: Env<'_>, updates: &WriteBatch, handler: Object<'_>) -> Result<()> {
    let class = env.class_of(handler);
    let goes_on = env.method(class, "shouldContinue", "()Z")?;
    for record in updates.iter() {
        let record = record?;
        if !env.call_flag(handler, goes_on, &[])? {
            break;
        }
        env.frame(|| tell(env, class, handler, record))?;
    }
    Ok(())
}

/// Calls the method of the handler for one record.
fn tell(
    env: Env<'_>,
    class: Object<'_>,
    handler: Object<'_>,
    record: BatchRecord<'_>,
) -> Result<()> {
    let bytes = |bytes: &[u8]| {
        Ok::<_, crate::ffi::call::Failure>(jvalue { l: env.new_bytes(bytes)?.raw() })
    };
    let call = |name: &str, signature: &str, arguments: &[jvalue]| {
        env.call_void(handler, env.method(class, name, signature)?, arguments)
    };
    let (cf, value_type, key, value) = match record {
        BatchRecord::LogData(blob) => return call("logData", "([B)V", &[bytes(blob)?]),
        BatchRecord::Marker(kind, name) => return tell_marker(kind, name, bytes, call),
        BatchRecord::Entry { column_family, value_type, key, value } => {
            (jvalue { i: column_family.cast_signed() }, value_type, key, value)
        }
    };
    let (one, two) = ("(I[B)V", "(I[B[B)V");
    match value_type {
        ValueType::Value => call("put", two, &[cf, bytes(key)?, bytes(value)?]),
        ValueType::Merge => call("merge", two, &[cf, bytes(key)?, bytes(value)?]),
        ValueType::RangeDeletion => call("deleteRange", two, &[cf, bytes(key)?, bytes(value)?]),
        ValueType::BlobIndex => call("putBlobIndex", two, &[cf, bytes(key)?, bytes(value)?]),
        ValueType::Deletion => call("delete", one, &[cf, bytes(key)?]),
        ValueType::SingleDeletion => call("singleDelete", one, &[cf, bytes(key)?]),
        other => Err(missing(&format!("a handler of records of kind {other:?}"))),
    }
}

fn tell_marker(
    kind: ValueType,
    name: &[u8],
    bytes: impl Fn(&[u8]) -> Result<jvalue>,
    call: impl Fn(&str, &str, &[jvalue]) -> Result<()>,
) -> Result<()> {
    match kind {
        ValueType::BeginPrepareXid | ValueType::BeginPersistedPrepareXid => {
            call("markBeginPrepare", "()V", &[])
        }
        ValueType::EndPrepareXid => call("markEndPrepare", "([B)V", &[bytes(name)?]),
        ValueType::CommitXid => call("markCommit", "([B)V", &[bytes(name)?]),
        ValueType::RollbackXid => call("markRollback", "([B)V", &[bytes(name)?]),
        ValueType::Noop => call("markNoop", "(Z)V", &[jvalue { z: true }]),
        other => Err(missing(&format!("a handler of markers of kind {other:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of RocksDB's `ContentFlags`.
    #[test]
    fn flags_are_those_of_the_updates_before_the_point() {
        let mut updates = WriteBatch::new();
        let mut seen = vec![content_flags(&updates, 0).expect("well-formed")];
        let steps: [fn(&mut WriteBatch); 6] = [
            |updates| updates.put("a", "1"),
            |updates| updates.delete("b"),
            |updates| updates.single_delete("c"),
            |updates| updates.merge("d", "1"),
            |updates| updates.delete_range("e", "f"),
            |updates| updates.put_entity("g", [("column", "1")]),
        ];
        for step in steps {
            step(&mut updates);
            // What only tells readers of the log something is no update.
            updates.put_log_data(b"blob");
            seen.push(content_flags(&updates, updates.count()).expect("well-formed"));
        }
        let new: Vec<i64> = seen.windows(2).map(|pair| pair[1] ^ pair[0]).collect();
        assert_eq!(new, [1 << 1, 1 << 2, 1 << 3, 1 << 4, 1 << 9, 1 << 12]);
        assert_eq!(content_flags(&updates, 2).expect("well-formed"), seen[2]);
    }
}
