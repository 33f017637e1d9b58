//! Iterators over the updates of a batch with index, without a database.

use pumice::{Error, SharedBatch, WriteType};

use crate::ffi::call::Result;
use crate::ffi::env::Env;
use crate::ffi::from::{Bytes, Direct, Taken};
use crate::ffi::handle;
use crate::ffi::into::New;
use crate::objects::{Family, Records, Slice};

/// Java's number of a kind that its enumeration has not.
const UNKNOWN: i64 = 0x7f;

/// Java: WriteBatchWithIndex.iterator0 0 -
/// Java: WriteBatchWithIndex.iterator1
pub fn new(_env: Env<'_>, batch: &SharedBatch, cf: Option<&Family>) -> Result<New<Records>> {
    Ok(New(Records::new(batch.clone(), cf.map_or(0, |cf| cf.0.id()))))
}

/// Java: WBWIRocksIterator.isValid0
pub fn valid(_env: Env<'_>, records: &Records) -> Result<bool> {
    Ok(records.at().is_some())
}

/// Java: WBWIRocksIterator.seekToFirst0
pub fn seek_to_first(_env: Env<'_>, records: &mut Records) -> Result<()> {
    Ok(records.seek(|records| records.seek_to_first())?)
}

/// Java: WBWIRocksIterator.seekToLast0
pub fn seek_to_last(_env: Env<'_>, records: &mut Records) -> Result<()> {
    Ok(records.seek(|records| records.seek_to_last())?)
}

/// Java: WBWIRocksIterator.next0
pub fn next(_env: Env<'_>, records: &mut Records) -> Result<()> {
    Ok(records.step(|records| records.next())?)
}

/// Java: WBWIRocksIterator.prev0
pub fn prev(_env: Env<'_>, records: &mut Records) -> Result<()> {
    Ok(records.step(|records| records.prev())?)
}

/// Java: WBWIRocksIterator.seek0|seekByteArray0
pub fn seek(_env: Env<'_>, records: &mut Records, key: Bytes) -> Result<()> {
    Ok(records.seek(|records| records.seek(&*key))?)
}

/// Java: WBWIRocksIterator.seekDirect0
pub fn seek_direct(_env: Env<'_>, records: &mut Records, key: Direct<'_>) -> Result<()> {
    Ok(records.seek(|records| records.seek(key.0))?)
}

/// Java: WBWIRocksIterator.seekForPrev0|seekForPrevByteArray0
pub fn seek_for_prev(_env: Env<'_>, records: &mut Records, key: Bytes) -> Result<()> {
    Ok(records.seek(|records| records.seek_for_prev(&*key))?)
}

/// Java: WBWIRocksIterator.seekForPrevDirect0
pub fn seek_for_prev_direct(_env: Env<'_>, records: &mut Records, key: Direct<'_>) -> Result<()> {
    Ok(records.seek(|records| records.seek_for_prev(key.0))?)
}

/// Java: WBWIRocksIterator.status0
pub fn status(_env: Env<'_>, _records: &Records) -> Result<()> {
    Ok(())
}

/// Java: WBWIRocksIterator.refresh0
/// Java: WBWIRocksIterator.refresh1 0
pub fn refresh(_env: Env<'_>, _records: &Records) -> Result<()> {
    Err(Error::not_supported("Refresh() is not supported").into())
}

/// Java: WBWIRocksIterator.entry1
pub fn entry(_env: Env<'_>, records: &Records) -> Result<Vec<i64>> {
    let at = records.at().ok_or_else(|| Error::invalid_argument("the iterator is at no entry"))?;
    let number = match at.write_type {
        WriteType::Put | WriteType::Merge | WriteType::Delete | WriteType::SingleDelete => {
            i64::from(at.write_type as u8)
        }
        _ => UNKNOWN,
    };
    let has_value = !matches!(at.write_type, WriteType::Delete | WriteType::SingleDelete);
    let give = |bytes: &[u8]| handle::give(Slice::new(bytes.to_vec()));
    Ok(vec![number, give(&at.key), if has_value { give(&at.value) } else { 0 }])
}

/// Java: WBWIRocksIterator.disposeInternal
pub fn end(_env: Env<'_>, _records: Taken<Records>) -> Result<()> {
    Ok(())
}
