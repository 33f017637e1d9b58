//! Opening and closing databases; column families.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use pumice::{
    ColumnFamilyDescriptor, Db, DbWithTtl, Error, OptimisticTransactionDb, TransactionDb,
    TtlDescriptor,
};
use pumice_binding::database::{Database, Slot};
use pumice_binding::status::of_open;
use pumice_binding::store::Fields;
use pumice_binding::transactions;
use pumice_port::sync::Mutex;

use super::load::{descriptor, of_family};
use crate::ffi::call::Result;
use crate::ffi::env::{Env, Object};
use crate::ffi::from::{Bytes, List, Taken};
use crate::ffi::handle;
use crate::ffi::into::{IntoJava, New, NewList};
use crate::objects::{Family, Options, Values, listeners};

/// The version of RocksDB whose classes and options this is.
const VERSION: i32 = 11 << 16 | 8 << 8 | 1;

/// Java: RocksDB.version
pub fn version(_env: Env<'_>) -> Result<i32> {
    Ok(VERSION)
}

/// An open database, whose listeners find it by its handle.
pub struct Opened(Database);

impl IntoJava<i64> for Opened {
    fn into_java(self, _env: Env<'_>) -> Result<i64> {
        let slot = self.0.slot_handle();
        let number = handle::give(self.0);
        slot.set_address(usize::try_from(number).unwrap_or(0));
        Ok(number)
    }
}

/// An open database and its column families.
pub struct OpenedWith(Database, Vec<pumice::ColumnFamily>);

impl IntoJava<jni_sys::jobject> for OpenedWith {
    fn into_java(self, env: Env<'_>) -> Result<jni_sys::jobject> {
        let db = self.0.db().clone();
        let mut numbers = vec![Opened(self.0).into_java(env)?];
        numbers.extend(self.1.into_iter().map(|cf| handle::give(Family(cf, db.clone()))));
        env.new_longs(&numbers).map(Object::raw)
    }
}

struct Opening {
    options: pumice::Options,
    slot: Arc<Slot>,
    path: PathBuf,
}

impl Opening {
    fn new(options: &Options, path: &str) -> Result<Opening> {
        let mut engine = options.values.to_engine()?;
        let slot = Arc::new(Slot::default());
        engine.db.listeners.extend(listeners(&options.listeners, &slot));
        Ok(Opening { options: engine, slot, path: PathBuf::from(path) })
    }

    fn only(&self) -> Vec<ColumnFamilyDescriptor> {
        let name = pumice::DEFAULT_COLUMN_FAMILY_NAME;
        vec![ColumnFamilyDescriptor::new(name, self.options.cf.clone())]
    }
}

fn name_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn descriptors(
    names: &[Vec<u8>],
    options: &List<'_, Options>,
) -> Result<Vec<ColumnFamilyDescriptor>> {
    let mut list = Vec::new();
    for (name, options) in names.iter().zip(&options.0) {
        let options = options.values.to_engine()?.cf;
        list.push(ColumnFamilyDescriptor::new(name_of(name).as_str(), options));
    }
    Ok(list)
}

/// Java: RocksDB.open (JT)
pub fn open(_env: Env<'_>, options: &Options, path: String) -> Result<Opened> {
    let it = Opening::new(options, &path)?;
    let (db, _) = Db::open_cf(&it.options.db, &it.path, &it.only()).map_err(of_open)?;
    Ok(Opened(Database::plain(db, it.slot)))
}

/// Java: RocksDB.open (JT[[B[J)
pub fn open_families(
    _env: Env<'_>,
    options: &Options,
    path: String,
    names: Vec<Vec<u8>>,
    families: List<'_, Options>,
) -> Result<OpenedWith> {
    let it = Opening::new(options, &path)?;
    let list = descriptors(&names, &families)?;
    let (db, opened) = Db::open_cf(&it.options.db, &it.path, &list).map_err(of_open)?;
    Ok(OpenedWith(Database::plain(db, it.slot), opened))
}

/// Java: RocksDB.openROnly (JTZ)
pub fn open_read_only(
    _env: Env<'_>,
    options: &Options,
    path: String,
    error_if_wal: bool,
) -> Result<Opened> {
    let it = Opening::new(options, &path)?;
    let (db, _) = Db::open_read_only(&it.options.db, &it.path, &it.only(), error_if_wal)?;
    Ok(Opened(Database::plain(db, it.slot)))
}

/// Java: RocksDB.openROnly (JT[[B[JZ)
pub fn open_read_only_families(
    _env: Env<'_>,
    options: &Options,
    path: String,
    names: Vec<Vec<u8>>,
    families: List<'_, Options>,
    error_if_wal: bool,
) -> Result<OpenedWith> {
    let it = Opening::new(options, &path)?;
    let list = descriptors(&names, &families)?;
    let (db, opened) = Db::open_read_only(&it.options.db, &it.path, &list, error_if_wal)?;
    Ok(OpenedWith(Database::plain(db, it.slot), opened))
}

/// Java: RocksDB.openAsSecondary (JTT)
pub fn open_secondary(
    _env: Env<'_>,
    options: &Options,
    path: String,
    own: String,
) -> Result<Opened> {
    let it = Opening::new(options, &path)?;
    let own = PathBuf::from(own);
    let (db, _) = Db::open_as_secondary(&it.options.db, &it.path, own, &it.only())?;
    Ok(Opened(Database::plain(db, it.slot)))
}

/// Java: RocksDB.openAsSecondary (JTT[[B[J)
pub fn open_secondary_families(
    _env: Env<'_>,
    options: &Options,
    path: String,
    own: String,
    names: Vec<Vec<u8>>,
    families: List<'_, Options>,
) -> Result<OpenedWith> {
    let it = Opening::new(options, &path)?;
    let (list, own) = (descriptors(&names, &families)?, PathBuf::from(own));
    let (db, opened) = Db::open_as_secondary(&it.options.db, &it.path, own, &list)?;
    Ok(OpenedWith(Database::plain(db, it.slot), opened))
}

/// Java: RocksDB.tryCatchUpWithPrimary
pub fn catch_up(_env: Env<'_>, db: &Database) -> Result<()> {
    Ok(db.db().try_catch_up_with_primary()?)
}

/// Java: TtlDB.open
pub fn open_ttl(
    _env: Env<'_>,
    options: &Options,
    path: String,
    ttl: i32,
    read_only: bool,
) -> Result<Opened> {
    let it = Opening::new(options, &path)?;
    writable(read_only)?;
    let db = DbWithTtl::open(&it.options, &it.path, ttl).map_err(of_open)?;
    Ok(Opened(Database::with_ttl(db, it.slot)))
}

fn writable(read_only: bool) -> Result<()> {
    if read_only {
        return Err(Error::not_supported("TtlDB that is opened read only").into());
    }
    Ok(())
}

/// Java: TtlDB.openCF
pub fn open_ttl_families(
    _env: Env<'_>,
    options: &Options,
    path: String,
    names: Vec<Vec<u8>>,
    families: List<'_, Options>,
    ttls: Vec<i32>,
    read_only: bool,
) -> Result<OpenedWith> {
    let it = Opening::new(options, &path)?;
    writable(read_only)?;
    let list: Vec<TtlDescriptor> = descriptors(&names, &families)?.into_iter().zip(ttls).collect();
    let (db, opened) = DbWithTtl::open_cf(&it.options.db, &it.path, &list).map_err(of_open)?;
    Ok(OpenedWith(Database::with_ttl(db, it.slot), opened))
}

/// Java: TtlDB.createColumnFamilyWithTtl
pub fn create_with_ttl(
    _env: Env<'_>,
    db: &Database,
    name: Vec<u8>,
    options: &Options,
    ttl: i32,
) -> Result<New<Family>> {
    let options = options.values.to_engine()?.cf;
    let made = db.create_family_with_ttl(&options, &name_of(&name), ttl)?;
    Ok(New(Family(made, db.db().clone())))
}

/// Java: OptimisticTransactionDB.open (JT)
pub fn open_optimistic(_env: Env<'_>, options: &Options, path: String) -> Result<Opened> {
    let it = Opening::new(options, &path)?;
    let (only, default) = (it.only(), Default::default());
    let opened = OptimisticTransactionDb::open_cf(&it.options.db, &default, &it.path, &only);
    Ok(Opened(Database::optimistic(opened.map_err(of_open)?.0, it.slot)))
}

/// Java: OptimisticTransactionDB.open (JT[[B[J)
pub fn open_optimistic_families(
    _env: Env<'_>,
    options: &Options,
    path: String,
    names: Vec<Vec<u8>>,
    families: List<'_, Options>,
) -> Result<OpenedWith> {
    let it = Opening::new(options, &path)?;
    let (list, default) = (descriptors(&names, &families)?, Default::default());
    let opened = OptimisticTransactionDb::open_cf(&it.options.db, &default, &it.path, &list);
    let (db, opened) = opened.map_err(of_open)?;
    Ok(OpenedWith(Database::optimistic(db, it.slot), opened))
}

/// Java: TransactionDB.open (JJT)
pub fn open_locking(
    _env: Env<'_>,
    options: &Options,
    transactional: &Values,
    path: String,
) -> Result<Opened> {
    let it = Opening::new(options, &path)?;
    let transactional = transactions::locking_database(transactional.store())?;
    let opened = TransactionDb::open_cf(&it.options.db, &transactional, &it.path, &it.only());
    Ok(Opened(Database::locking(opened.map_err(of_open)?.0, it.slot)))
}

/// Java: TransactionDB.open (JJT[[B[J)
pub fn open_locking_families(
    _env: Env<'_>,
    options: &Options,
    transactional: &Values,
    path: String,
    names: Vec<Vec<u8>>,
    families: List<'_, Options>,
) -> Result<OpenedWith> {
    let it = Opening::new(options, &path)?;
    let list = descriptors(&names, &families)?;
    let transactional = transactions::locking_database(transactional.store())?;
    let opened = TransactionDb::open_cf(&it.options.db, &transactional, &it.path, &list);
    let (db, opened) = opened.map_err(of_open)?;
    Ok(OpenedWith(Database::locking(db, it.slot), opened))
}

/// Handles that Java gets of a database and never ends: they end with the database. By its number.
static LENT: Mutex<BTreeMap<i64, Lent>> = Mutex::new(BTreeMap::new());

#[derive(Clone, Copy, Default)]
struct Lent {
    family: Option<i64>,
    base: Option<i64>,
}

/// Java: OptimisticTransactionDB.getBaseDB 0 0
pub fn base(_env: Env<'_>, db: &Database, number: i64) -> Result<i64> {
    let mut lent = LENT.lock();
    let lent = lent.entry(number).or_default();
    Ok(*lent.base.get_or_insert_with(|| handle::give(db.base())))
}

/// Java: RocksDB.getDefaultColumnFamily 0 0
pub fn default_family(_env: Env<'_>, db: &Database, number: i64) -> Result<i64> {
    let mut lent = LENT.lock();
    let lent = lent.entry(number).or_default();
    let give = || handle::give(Family(db.default_family().clone(), db.db().clone()));
    Ok(*lent.family.get_or_insert_with(give))
}

/// Java: RocksDB|TtlDB|OptimisticTransactionDB|TransactionDB.closeDatabase
pub fn close(_env: Env<'_>, db: &Database) -> Result<()> {
    let closed = db.db().close();
    db.slot().set_address(0);
    Ok(closed?)
}

/// Java: RocksDB|TtlDB|OptimisticTransactionDB|TransactionDB.disposeInternal 0 0
pub fn end(_env: Env<'_>, db: Taken<Database>, number: i64) -> Result<()> {
    // Closing twice does nothing.
    if db.0.slot().address() != 0 {
        db.0.db().close().ok();
        db.0.slot().set_address(0);
    }
    let lent = LENT.lock().remove(&number).unwrap_or_default();
    if let Some(family) = lent.family {
        drop(handle::take::<Family>(family)?);
    }
    if let Some(base) = lent.base {
        drop(handle::take::<Database>(base)?);
    }
    Ok(())
}

/// Java: RocksDB.destroyDB
pub fn destroy(_env: Env<'_>, path: String, options: &Options) -> Result<()> {
    Ok(Db::destroy(&options.values.to_engine()?, PathBuf::from(path))?)
}

/// Java: RocksDB.listColumnFamilies
pub fn list_families(
    _env: Env<'_>,
    options: &Options,
    path: String,
) -> Result<Vec<Option<Vec<u8>>>> {
    // As RocksDB's: where there is no database the list is empty, which Kafka Streams relies on.
    let names = Db::list_column_families(&options.values.to_engine()?.db, PathBuf::from(path));
    let names = names.unwrap_or_default();
    Ok(names.into_iter().map(|name| Some(name.into_bytes())).collect())
}

fn create(db: &Database, options: &Options, name: &[u8]) -> Result<Family> {
    let options = options.values.to_engine()?.cf;
    Ok(Family(db.create_family(&options, &name_of(name))?, db.db().clone()))
}

/// Java: RocksDB.createColumnFamily
pub fn create_family(
    _env: Env<'_>,
    db: &Database,
    name: Bytes,
    options: &Options,
) -> Result<New<Family>> {
    create(db, options, &name).map(New)
}

/// Java: RocksDB.createColumnFamilies (JJ[[B)
pub fn create_families(
    _env: Env<'_>,
    db: &Database,
    options: &Options,
    names: Vec<Vec<u8>>,
) -> Result<NewList<Family>> {
    names.iter().map(|name| create(db, options, name)).collect::<Result<_>>().map(NewList)
}

/// Java: RocksDB.createColumnFamilies (J[J[[B)
pub fn create_families_each(
    _env: Env<'_>,
    db: &Database,
    options: List<'_, Options>,
    names: Vec<Vec<u8>>,
) -> Result<NewList<Family>> {
    let each = options.0.iter().zip(&names);
    each.map(|(options, name)| create(db, options, name)).collect::<Result<_>>().map(NewList)
}

/// Java: RocksDB.dropColumnFamily
pub fn drop_family(_env: Env<'_>, db: &Database, cf: &Family) -> Result<()> {
    Ok(db.db().drop_column_family(&cf.0)?)
}

/// Java: RocksDB.dropColumnFamilies
pub fn drop_families(_env: Env<'_>, db: &Database, families: List<'_, Family>) -> Result<()> {
    for cf in families.0 {
        db.db().drop_column_family(&cf.0)?;
    }
    Ok(())
}

/// Java: ColumnFamilyHandle.getName
pub fn family_name(_env: Env<'_>, cf: &Family) -> Result<Vec<u8>> {
    Ok(cf.0.name().as_bytes().to_vec())
}

/// Java: ColumnFamilyHandle.getID
pub fn family_id(_env: Env<'_>, cf: &Family) -> Result<i32> {
    Ok(cf.0.id().cast_signed())
}

/// Java: ColumnFamilyHandle.getDescriptor
pub fn family_descriptor<'a>(env: Env<'a>, cf: &Family) -> Result<Object<'a>> {
    let options = cf.1.column_family_options(&cf.0)?;
    descriptor(env, cf.0.name().as_bytes(), of_family((*options).clone()))
}
