//! Calls of transactions whose keys and values come in parts, or in direct buffers.

use pumice::PinnedSlice;

use super::reads::NOT_FOUND;
use super::transactions::{It, family, for_update, operated, updated};
use crate::callbacks::notifier::Told;
use crate::ffi::call::Result;
use crate::ffi::env::Env;
use crate::ffi::from::{Direct, DirectMut};
use crate::objects::{Family, ReadOptions};

/// Java: Transaction.put (J[[BI[[BI) 0 1 3 -
/// Java: Transaction.put (J[[BI[[BIJZ) 0 1 3 5
pub fn put(
    _env: Env<'_>,
    it: It<'_>,
    key: Vec<Vec<u8>>,
    value: Vec<Vec<u8>>,
    cf: Option<&Family>,
) -> Result<Told<()>> {
    updated(it, it.transaction.put_cf(family(it, cf), key.concat(), value.concat()))
}

/// Java: Transaction.putUntracked (J[[BI[[BI) 0 1 3 -
/// Java: Transaction.putUntracked (J[[BI[[BIJ) 0 1 3 5
pub fn put_untracked(
    _env: Env<'_>,
    it: It<'_>,
    key: Vec<Vec<u8>>,
    value: Vec<Vec<u8>>,
    cf: Option<&Family>,
) -> Result<Told<()>> {
    let (cf, key, value) = (family(it, cf), key.concat(), value.concat());
    updated(it, it.transaction.put_untracked(cf, key, value))
}

/// Java: Transaction.delete (J[[BI) 0 1 -
/// Java: Transaction.delete (J[[BIJZ) 0 1 3
pub fn delete(
    _env: Env<'_>,
    it: It<'_>,
    key: Vec<Vec<u8>>,
    cf: Option<&Family>,
) -> Result<Told<()>> {
    updated(it, it.transaction.delete_cf(family(it, cf), key.concat()))
}

/// Java: Transaction.deleteUntracked (J[[BI) 0 1 -
/// Java: Transaction.deleteUntracked (J[[BIJ) 0 1 3
pub fn delete_untracked(
    _env: Env<'_>,
    it: It<'_>,
    key: Vec<Vec<u8>>,
    cf: Option<&Family>,
) -> Result<Told<()>> {
    updated(it, it.transaction.delete_untracked(family(it, cf), key.concat()))
}

/// Java: Transaction.singleDelete (J[[BI) 0 1 -
/// Java: Transaction.singleDelete (J[[BIJZ) 0 1 3
pub fn single_delete(
    _env: Env<'_>,
    it: It<'_>,
    key: Vec<Vec<u8>>,
    cf: Option<&Family>,
) -> Result<Told<()>> {
    updated(it, it.transaction.single_delete_cf(family(it, cf), key.concat()))
}

/// Java: Transaction.mergeUntrackedDirect
pub fn merge_untracked_direct(
    _env: Env<'_>,
    it: It<'_>,
    key: Direct<'_>,
    value: Direct<'_>,
    cf: Option<&Family>,
) -> Result<Told<()>> {
    updated(it, it.transaction.merge_untracked(family(it, cf), key.0, value.0))
}

/// Java: Transaction.getDirectForUpdate
#[allow(clippy::too_many_arguments)] // Java's.
pub fn get_direct_for_update(
    _env: Env<'_>,
    it: It<'_>,
    options: &ReadOptions,
    key: Direct<'_>,
    mut place: DirectMut<'_>,
    cf: Option<&Family>,
    exclusive: bool,
    validate: bool,
) -> Result<Told<i32>> {
    let found = for_update(it, options, cf, key.0, (exclusive, validate));
    let mut filled =
        |found: Option<PinnedSlice>| found.map_or(Ok(NOT_FOUND), |value| place.fill(&value));
    operated(it, found.and_then(&mut filled))
}
