//! Reads of single keys and of many.

use pumice::{Error, PinnedSlice};
use pumice_binding::database::Database;

use crate::api::family;
use crate::ffi::call::{Result, status_object};
use crate::ffi::env::{Env, Object};
use crate::ffi::from::{Bytes, Direct, DirectMut, List, Place, directs};
use crate::objects::{Family, ReadOptions};

static DEFAULT: pumice::ReadOptions = pumice::ReadOptions::DEFAULT;

type Options<'a> = Option<&'a ReadOptions>;
type In<'a> = Option<&'a Family>;

/// Java's number for a key that is missing.
pub const NOT_FOUND: i32 = -1;

fn point<'a>(options: Options<'a>) -> pumice::Result<&'a pumice::ReadOptions> {
    options.map_or(Ok(&DEFAULT), ReadOptions::point)
}

fn found(
    db: &Database,
    options: Options<'_>,
    cf: In<'_>,
    key: &[u8],
) -> Result<Option<PinnedSlice>> {
    Ok(db.get(point(options)?, family(db, cf), key)?)
}

/// Java: RocksDB.get (J[BII) 0 - 1 -
/// Java: RocksDB.get (J[BIIJ) 0 - 1 2
/// Java: RocksDB.get (JJ[BII) 0 1 2 -
/// Java: RocksDB.get (JJ[BIIJ)
pub fn get(
    _env: Env<'_>,
    db: &Database,
    options: Options<'_>,
    key: Bytes,
    cf: In<'_>,
) -> Result<Option<PinnedSlice>> {
    found(db, options, cf, &key)
}

/// Java: RocksDB.get (J[BII[BII) 0 - 1 2 -
/// Java: RocksDB.get (J[BII[BIIJ) 0 - 1 2 3
/// Java: RocksDB.get (JJ[BII[BII) 0 1 2 3 -
/// Java: RocksDB.get (JJ[BII[BIIJ)
pub fn get_into(
    env: Env<'_>,
    db: &Database,
    options: Options<'_>,
    key: Bytes,
    place: Place<'_>,
    cf: In<'_>,
) -> Result<i32> {
    match found(db, options, cf, &key)? {
        Some(value) => place.fill(env, &value),
        None => Ok(NOT_FOUND),
    }
}

/// Java: RocksDB.getDirect
pub fn get_direct(
    _env: Env<'_>,
    db: &Database,
    options: Options<'_>,
    key: Direct<'_>,
    mut place: DirectMut<'_>,
    cf: In<'_>,
) -> Result<i32> {
    match found(db, options, cf, key.0)? {
        Some(value) => place.fill(&value),
        None => Ok(NOT_FOUND),
    }
}

/// The parts of the keys that Java names.
fn parts<'k>(keys: &'k [Vec<u8>], offsets: &[i32], lengths: &[i32]) -> Result<Vec<&'k [u8]>> {
    let places = offsets.iter().zip(lengths);
    let mut parts = Vec::with_capacity(keys.len());
    for (key, (at, length)) in keys.iter().zip(places) {
        let range = usize::try_from(*at).ok().zip(usize::try_from(*length).ok());
        let part = range.and_then(|(at, length)| key.get(at..at.checked_add(length)?));
        parts.push(part.ok_or_else(|| Error::invalid_argument("a key's part is outside of it"))?);
    }
    if parts.len() != keys.len() {
        return Err(Error::invalid_argument("there is not a part for each key").into());
    }
    Ok(parts)
}

fn values(results: Vec<pumice::Result<Option<PinnedSlice>>>) -> Vec<Option<Vec<u8>>> {
    // As in RocksDB: a key that cannot be read is null, as one that is missing.
    results.into_iter().map(|result| result.ok().flatten().map(PinnedSlice::into_vec)).collect()
}

/// Java: RocksDB.multiGet (J[[B[I[I) 0 - 1 2 3
/// Java: RocksDB.multiGet (JJ[[B[I[I)
pub fn multi_get(
    _env: Env<'_>,
    db: &Database,
    options: Options<'_>,
    keys: Vec<Vec<u8>>,
    offsets: Vec<i32>,
    lengths: Vec<i32>,
) -> Result<Vec<Option<Vec<u8>>>> {
    let keys = parts(&keys, &offsets, &lengths)?;
    Ok(values(db.multi_get(point(options)?, db.default_family(), &keys)))
}

/// Java: RocksDB.multiGet (J[[B[I[I[J) 0 - 1 2 3 4
/// Java: RocksDB.multiGet (JJ[[B[I[I[J)
pub fn multi_get_families(
    _env: Env<'_>,
    db: &Database,
    options: Options<'_>,
    keys: Vec<Vec<u8>>,
    offsets: Vec<i32>,
    lengths: Vec<i32>,
    families: List<'_, Family>,
) -> Result<Vec<Option<Vec<u8>>>> {
    let keys = parts(&keys, &offsets, &lengths)?;
    let pairs: Vec<_> = families.0.iter().zip(keys).map(|(cf, key)| (&cf.0, key)).collect();
    Ok(values(db.multi_get_cf(point(options)?, &pairs)))
}

/// The buffers of a read of many keys.
struct Buffers<'a> {
    keys: Vec<DirectMut<'a>>,
    values: Vec<DirectMut<'a>>,
}

impl<'a> Buffers<'a> {
    fn new(
        env: Env<'a>,
        (keys, offsets, lengths): (&[Object<'a>], &[i32], &[i32]),
        values: &[Object<'a>],
        places: &[(i32, i32)],
    ) -> Result<Buffers<'a>> {
        let of_keys: Vec<_> = offsets.iter().copied().zip(lengths.iter().copied()).collect();
        Ok(Buffers { keys: directs(env, keys, &of_keys)?, values: directs(env, values, places)? })
    }
}

/// Position and room of each buffer.
fn rooms(env: Env<'_>, buffers: &[Object<'_>]) -> Result<Vec<(i32, i32)>> {
    let mut rooms = Vec::new();
    for buffer in buffers {
        let class = env.class_of(env.present(*buffer)?);
        let position = env.call_int(*buffer, env.method(class, "position", "()I")?, &[])?;
        let room = env.call_int(*buffer, env.method(class, "remaining", "()I")?, &[])?;
        rooms.push((position, room));
    }
    Ok(rooms)
}

/// Java: RocksDB.multiGet (JJ[J[U[I[I[U[I[Lorg/rocksdb/Status;)
#[allow(clippy::too_many_arguments)] // Java's.
pub fn multi_get_direct(
    env: Env<'_>,
    db: &Database,
    options: Options<'_>,
    families: List<'_, Family>,
    keys: Vec<Object<'_>>,
    offsets: Vec<i32>,
    lengths: Vec<i32>,
    values: Vec<Object<'_>>,
    sizes: Object<'_>,
    statuses: Object<'_>,
) -> Result<()> {
    let rooms = rooms(env, &values)?;
    let mut buffers = Buffers::new(env, (&keys, &offsets, &lengths), &values, &rooms)?;
    let default = db.default_family();
    let family = |at: usize| match families.0.len() {
        1 => families.0.first().map_or(default, |cf| &cf.0),
        _ => families.0.get(at).map_or(default, |cf| &cf.0),
    };
    let keys = buffers.keys.iter().enumerate();
    let pairs: Vec<_> = keys.map(|(at, key)| (family(at), &*key.0)).collect();
    let results = db.multi_get_cf(point(options)?, &pairs);
    let mut lengths = vec![0; results.len()];
    for (at, result) in results.into_iter().enumerate() {
        let status = match result {
            Ok(Some(value)) => {
                if let Some(place) = buffers.values.get_mut(at) {
                    lengths[at] = place.fill(&value)?;
                }
                status_object(env, None)?
            }
            Ok(None) => status_object(env, Some(&Error::not_found("")))?,
            Err(error) => status_object(env, Some(&error))?,
        };
        env.set_element(statuses, at, status)?;
        env.forget(status);
    }
    env.write_ints(sizes, &lengths)
}

fn may_exist(
    db: &Database,
    options: Options<'_>,
    cf: In<'_>,
    key: &[u8],
) -> Result<(bool, Option<Vec<u8>>)> {
    // A failed look means that it may.
    Ok(db.key_may_exist(point(options)?, family(db, cf), key).unwrap_or((true, None)))
}

/// Java: RocksDB.keyMayExist 0 2 1 3
pub fn key_may_exist(
    _env: Env<'_>,
    db: &Database,
    options: Options<'_>,
    cf: In<'_>,
    key: Bytes,
) -> Result<bool> {
    Ok(may_exist(db, options, cf, &key)?.0)
}

/// Java: RocksDB.keyMayExistDirect 0 2 1 3
pub fn key_may_exist_direct(
    _env: Env<'_>,
    db: &Database,
    options: Options<'_>,
    cf: In<'_>,
    key: Direct<'_>,
) -> Result<bool> {
    Ok(may_exist(db, options, cf, key.0)?.0)
}

/// Java: RocksDB.keyMayExistFoundValue 0 2 1 3
pub fn key_may_exist_value(
    _env: Env<'_>,
    db: &Database,
    options: Options<'_>,
    cf: In<'_>,
    key: Bytes,
) -> Result<Vec<Option<Vec<u8>>>> {
    Ok(match may_exist(db, options, cf, &key)? {
        (false, _) => vec![Some(vec![0])],
        (true, None) => vec![Some(vec![1])],
        (true, Some(value)) => vec![Some(vec![2]), Some(value)],
    })
}

/// Java: RocksDB.keyMayExistDirectFoundValue 0 2 1 3 4
pub fn key_may_exist_direct_value(
    _env: Env<'_>,
    db: &Database,
    options: Options<'_>,
    cf: In<'_>,
    key: Direct<'_>,
    mut place: DirectMut<'_>,
) -> Result<Vec<i32>> {
    Ok(match may_exist(db, options, cf, key.0)? {
        (false, _) => vec![0, 0],
        (true, None) => vec![1, 0],
        (true, Some(value)) => vec![2, place.fill(&value)?],
    })
}

/// Java: RocksDB.keyExists 0 2 1 3
pub fn key_exists(
    _env: Env<'_>,
    db: &Database,
    options: Options<'_>,
    cf: In<'_>,
    key: Bytes,
) -> Result<bool> {
    Ok(found(db, options, cf, &key)?.is_some())
}

/// Java: RocksDB.keyExistsDirect 0 2 1 3
pub fn key_exists_direct(
    _env: Env<'_>,
    db: &Database,
    options: Options<'_>,
    cf: In<'_>,
    key: Direct<'_>,
) -> Result<bool> {
    Ok(found(db, options, cf, key.0)?.is_some())
}
