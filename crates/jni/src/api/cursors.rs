//! Iterators and snapshots.

use pumice::Snapshot;
use pumice_binding::cursor::Iterator;
use pumice_binding::database::Database;

use crate::api::family;
use crate::ffi::call::Result;
use crate::ffi::env::Env;
use crate::ffi::from::{Bytes, Direct, DirectMut, List, Place, Taken};
use crate::ffi::into::{New, NewList};
use crate::objects::{Family, ReadOptions};

/// The engine's options of a scan.
pub fn scan(options: Option<&ReadOptions>) -> pumice::Result<pumice::ReadOptions> {
    options.map_or_else(|| Ok(pumice::ReadOptions::default()), ReadOptions::scan)
}

/// Java: RocksDB.iterator 0 1 2
pub fn iterator(
    _env: Env<'_>,
    db: &Database,
    cf: Option<&Family>,
    options: Option<&ReadOptions>,
) -> Result<New<Iterator>> {
    Ok(New(match scan(options) {
        Ok(options) => Iterator::new(db, options, family(db, cf)),
        Err(error) => Iterator::refused(error),
    }))
}

/// Java: RocksDB.iterators
pub fn iterators(
    _env: Env<'_>,
    db: &Database,
    families: List<'_, Family>,
    options: Option<&ReadOptions>,
) -> Result<NewList<Iterator>> {
    let mut options = scan(options)?;
    // All see the same state.
    if options.snapshot.is_none() && !options.tailing {
        options.snapshot = Some(db.db().snapshot());
    }
    let mut made = Vec::new();
    for cf in families.0 {
        let iterator = Iterator::new(db, options.clone(), &cf.0);
        iterator.status()?;
        made.push(iterator);
    }
    Ok(NewList(made))
}

/// Java: RocksIterator|SstFileReaderIterator.isValid0
pub fn valid(_env: Env<'_>, iterator: &Iterator) -> Result<bool> {
    Ok(iterator.valid())
}

/// Java: RocksIterator|SstFileReaderIterator.seekToFirst0
pub fn seek_to_first(_env: Env<'_>, iterator: &mut Iterator) -> Result<()> {
    iterator.seek_to_first();
    Ok(())
}

/// Java: RocksIterator|SstFileReaderIterator.seekToLast0
pub fn seek_to_last(_env: Env<'_>, iterator: &mut Iterator) -> Result<()> {
    iterator.seek_to_last();
    Ok(())
}

/// Java: RocksIterator|SstFileReaderIterator.next0
pub fn next(_env: Env<'_>, iterator: &mut Iterator) -> Result<()> {
    iterator.next();
    Ok(())
}

/// Java: RocksIterator|SstFileReaderIterator.prev0
pub fn prev(_env: Env<'_>, iterator: &mut Iterator) -> Result<()> {
    iterator.prev();
    Ok(())
}

/// Java: RocksIterator|SstFileReaderIterator.seek0|seekByteArray0
pub fn seek(_env: Env<'_>, iterator: &mut Iterator, key: Bytes) -> Result<()> {
    iterator.seek(&key);
    Ok(())
}

/// Java: RocksIterator|SstFileReaderIterator.seekDirect0
pub fn seek_direct(_env: Env<'_>, iterator: &mut Iterator, key: Direct<'_>) -> Result<()> {
    iterator.seek(key.0);
    Ok(())
}

/// Java: RocksIterator|SstFileReaderIterator.seekForPrev0|seekForPrevByteArray0
pub fn seek_for_prev(_env: Env<'_>, iterator: &mut Iterator, key: Bytes) -> Result<()> {
    iterator.seek_for_prev(&key);
    Ok(())
}

/// Java: RocksIterator|SstFileReaderIterator.seekForPrevDirect0
pub fn seek_for_prev_direct(_env: Env<'_>, iterator: &mut Iterator, key: Direct<'_>) -> Result<()> {
    iterator.seek_for_prev(key.0);
    Ok(())
}

/// Java: RocksIterator|SstFileReaderIterator.key0
pub fn key<'a>(_env: Env<'_>, iterator: &'a Iterator) -> Result<&'a [u8]> {
    Ok(iterator.key())
}

/// Java: RocksIterator|SstFileReaderIterator.value0
pub fn value<'a>(_env: Env<'_>, iterator: &'a Iterator) -> Result<&'a [u8]> {
    Ok(iterator.value())
}

/// Java: RocksIterator|SstFileReaderIterator.keyByteArray0
pub fn key_into(env: Env<'_>, iterator: &Iterator, place: Place<'_>) -> Result<i32> {
    place.fill(env, iterator.key())
}

/// Java: RocksIterator|SstFileReaderIterator.valueByteArray0
pub fn value_into(env: Env<'_>, iterator: &Iterator, place: Place<'_>) -> Result<i32> {
    place.fill(env, iterator.value())
}

/// Java: RocksIterator|SstFileReaderIterator.keyDirect0
pub fn key_direct(_env: Env<'_>, iterator: &Iterator, mut place: DirectMut<'_>) -> Result<i32> {
    place.fill(iterator.key())
}

/// Java: RocksIterator|SstFileReaderIterator.valueDirect0
pub fn value_direct(_env: Env<'_>, iterator: &Iterator, mut place: DirectMut<'_>) -> Result<i32> {
    place.fill(iterator.value())
}

/// Java: RocksIterator|SstFileReaderIterator.status0
pub fn status(_env: Env<'_>, iterator: &Iterator) -> Result<()> {
    Ok(iterator.status()?)
}

/// Java: RocksIterator.refresh0 0 -
/// Java: RocksIterator.refresh1
pub fn refresh(_env: Env<'_>, iterator: &mut Iterator, snapshot: Option<&Snapshot>) -> Result<()> {
    Ok(iterator.refresh(snapshot)?)
}

/// Java: RocksDB.getSnapshot
pub fn snapshot(_env: Env<'_>, db: &Database) -> Result<Option<New<Snapshot>>> {
    Ok(db.snapshot().map(New))
}

/// Java: RocksDB.releaseSnapshot
pub fn release_snapshot(_env: Env<'_>, _db: &Database, _snapshot: Taken<Snapshot>) -> Result<()> {
    Ok(())
}

/// Java: Snapshot.getSequenceNumber
pub fn snapshot_number(_env: Env<'_>, snapshot: &Snapshot) -> Result<u64> {
    Ok(snapshot.sequence_number())
}
