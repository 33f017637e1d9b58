//! Opening, closing, destroying and repairing databases.

use std::ffi::c_char;
use std::sync::Arc;

use pumice::options::{FileRules, load_latest_options};
use pumice::{Db, DbOptions, DbWithTtl, Result, TtlDescriptor};
use pumice_binding::database::{Database, Slot};
use pumice_binding::env::Env;
use pumice_binding::status::of_open;

use crate::ffi::from::{Out, Taken, Text};
use crate::ffi::handle;
use crate::ffi::into::{Copied, CopiedList, IntoC, Opened};
use crate::ffi::lists::{CopiedTexts, Families, FamilyTimes, HandleList};
use crate::ffi::macros::c_api;
use crate::ffi::types::{Cache, Family, Options};

type Descriptor = pumice::ColumnFamilyDescriptor;

/// What an open needs: the options of the database, and where listeners will find it.
pub(super) struct Opening {
    pub options: pumice::Options,
    slot: Arc<Slot>,
}

impl Opening {
    pub fn new(options: &Options, path: Text<'_>) -> Result<Opening> {
        let mut engine = options.values.to_engine()?;
        let slot = Arc::new(Slot::default());
        for listener in &options.listeners {
            engine.db.listeners.push(listener.of_database(&slot, path.path()));
        }
        Ok(Opening { options: engine, slot })
    }

    pub fn only(&self) -> Vec<Descriptor> {
        vec![Descriptor::new(pumice::DEFAULT_COLUMN_FAMILY_NAME, self.options.cf.clone())]
    }

    fn plain(self, db: Db) -> Opened {
        Opened(Database::plain(db, self.slot))
    }

    pub fn locking(self, db: pumice::TransactionDb) -> Opened {
        Opened(Database::locking(db, self.slot))
    }

    pub fn optimistic(self, db: pumice::OptimisticTransactionDb) -> Opened {
        Opened(Database::optimistic(db, self.slot))
    }

    fn with_ttl(self, db: DbWithTtl) -> Opened {
        Opened(Database::with_ttl(db, self.slot))
    }
}

pub(super) fn descriptors(families: &Families<'_>) -> Result<Vec<Descriptor>> {
    let named = families.names.iter().zip(&families.options);
    let descriptor = |(name, options): (&String, &&Options)| {
        Ok(Descriptor::new(name.as_str(), options.values.to_engine()?.cf))
    };
    named.map(descriptor).collect()
}

pub(super) fn handles(families: Vec<pumice::ColumnFamily>) -> Vec<Family> {
    families.into_iter().map(Family).collect()
}

/// Ends an open database. The first error of a close has no place to go.
pub(super) fn close(database: &Database) {
    database.db().close().ok();
    database.slot().set_address(0);
}

c_api! {
    fn rocksdb_open(options: &Options, name: Text<'_>, errptr: Fail) -> Opened {
        let opening = Opening::new(options, name)?;
        let only = opening.only();
        let (db, _) = Db::open_cf(&opening.options.db, name.path(), &only).map_err(of_open)?;
        Ok(opening.plain(db))
    }

    fn rocksdb_open_with_ttl(
        options: &Options, name: Text<'_>, ttl: i32, errptr: Fail
    ) -> Opened {
        let opening = Opening::new(options, name)?;
        let db = DbWithTtl::open(&opening.options, name.path(), ttl)?;
        Ok(opening.with_ttl(db))
    }

    fn rocksdb_open_for_read_only(
        options: &Options, name: Text<'_>, error_if_wal_file_exists: bool, errptr: Fail
    ) -> Opened {
        let opening = Opening::new(options, name)?;
        let (only, path) = (opening.only(), name.path());
        let read_only = Db::open_read_only(
            &opening.options.db, path, &only, error_if_wal_file_exists,
        );
        Ok(opening.plain(read_only?.0))
    }

    fn rocksdb_open_as_secondary(
        options: &Options, name: Text<'_>, secondary_path: Text<'_>, errptr: Fail
    ) -> Opened {
        let opening = Opening::new(options, name)?;
        let (only, own) = (opening.only(), secondary_path.path());
        let (db, _) = Db::open_as_secondary(&opening.options.db, name.path(), own, &only)?;
        Ok(opening.plain(db))
    }

    fn rocksdb_open_column_families(
        options: &Options, name: Text<'_>, families: Families, errptr: Fail
    ) -> Opened {
        let opening = Opening::new(options, name)?;
        let list = descriptors(&families)?;
        let opened = Db::open_cf(&opening.options.db, name.path(), &list);
        let (db, opened) = opened.map_err(of_open)?;
        families.fill(handles(opened));
        Ok(opening.plain(db))
    }

    fn rocksdb_open_and_trim_history(
        options: &Options, name: Text<'_>, families: Families, trim: BytesMut, errptr: Fail
    ) -> Opened {
        let opening = Opening::new(options, name)?;
        let list = descriptors(&families)?;
        let trim: &[u8] = trim;
        let opened = Db::open_and_trim_history(&opening.options.db, name.path(), &list, trim);
        let (db, opened) = opened.map_err(of_open)?;
        families.fill(handles(opened));
        Ok(opening.plain(db))
    }

    fn rocksdb_open_column_families_with_ttl(
        options: &Options, name: Text<'_>, families: Families, ttls: FamilyTimes, errptr: Fail
    ) -> Opened {
        let opening = Opening::new(options, name)?;
        let ttls = ttls.read(families.names.len()).ok_or_else(|| {
            crate::ffi::call::missing("rocksdb_open_column_families_with_ttl", "ttls")
        })?;
        let list: Vec<TtlDescriptor> =
            descriptors(&families)?.into_iter().zip(ttls.iter().copied()).collect();
        let (db, opened) = DbWithTtl::open_cf(&opening.options.db, name.path(), &list)?;
        families.fill(handles(opened));
        Ok(opening.with_ttl(db))
    }

    fn rocksdb_open_for_read_only_column_families(
        options: &Options, name: Text<'_>, families: Families, error_if_wal_file_exists: bool,
        errptr: Fail
    ) -> Opened {
        let opening = Opening::new(options, name)?;
        let (list, path) = (descriptors(&families)?, name.path());
        let read_only = Db::open_read_only(
            &opening.options.db, path, &list, error_if_wal_file_exists,
        );
        let (db, opened) = read_only?;
        families.fill(handles(opened));
        Ok(opening.plain(db))
    }

    fn rocksdb_open_as_secondary_column_families(
        options: &Options, name: Text<'_>, secondary_path: Text<'_>, families: Families,
        errptr: Fail
    ) -> Opened {
        let opening = Opening::new(options, name)?;
        let (list, own) = (descriptors(&families)?, secondary_path.path());
        let (db, opened) = Db::open_as_secondary(&opening.options.db, name.path(), own, &list)?;
        families.fill(handles(opened));
        Ok(opening.plain(db))
    }

    fn rocksdb_try_catch_up_with_primary(db: &Database, errptr: Fail) {
        db.db().try_catch_up_with_primary()
    }

    fn rocksdb_close(db: Taken<Database>) {
        if let Some(db) = db {
            close(&db);
        }
    }

    fn rocksdb_destroy_db(options: &Options, name: Text<'_>, errptr: Fail) {
        Db::destroy(&options.values.to_engine()?, name.path())
    }

    fn rocksdb_repair_db(options: &Options, name: Text<'_>, errptr: Fail) {
        pumice::repair(&options.values.to_engine()?, name.path()).map(drop)
    }

    fn rocksdb_list_column_families(
        options: &Options, name: Text<'_>, count: Out<'_, usize>, errptr: Fail
    ) -> CopiedList {
        let db: DbOptions = options.values.to_engine()?.db;
        let names = Db::list_column_families(&db, name.path())?;
        let mut count = count;
        count.set(names.len());
        Ok(Copied::list(&names))
    }

    fn rocksdb_list_column_families_destroy(list: CopiedTexts, count: usize) {
        list.free(count);
    }

    fn rocksdb_load_latest_options(
        db_path: Text<'_>, env: Option<&Env>, ignore_unknown_options: bool,
        cache: Option<&Cache>, db_options: Out<'_, *mut Options>,
        num_column_families: Out<'_, usize>, names: Out<'_, *mut *mut c_char>,
        families: Out<'_, *mut *mut Options>, errptr: Fail
    ) {
        // Objects of the program's, such as a comparator, are left out, as RocksDB does.
        let rules = FileRules {
            ignore_unknown_options,
            ignore_unsupported_options: true,
            ..FileRules::default()
        };
        let env = env.cloned().unwrap_or_default();
        let loaded = load_latest_options(&**env.file_system(), &db_path.path(), rules)?;
        let none = || pumice::Error::not_found("No options files found in the DB directory");
        let loaded = loaded.ok_or_else(none)?;
        let make = |cf: &pumice::ColumnFamilyOptions| {
            let mut options = Options::default();
            let mut engine = pumice::Options { db: loaded.db.clone(), cf: cf.clone() };
            engine.db.file_system = Arc::clone(env.file_system());
            if let Some(cache) = cache {
                engine.cf.table_factory.block_cache = Some(Arc::clone(&cache.blocks));
            }
            options.values.take_engine(engine);
            options
        };
        let (mut db_options, mut names, mut families) = (db_options, names, families);
        let mut num_column_families = num_column_families;
        let list: Vec<*mut Options> =
            loaded.column_families.iter().map(|f| handle::give(make(&f.options))).collect();
        let texts: Vec<&str> = loaded.column_families.iter().map(|f| f.name.as_str()).collect();
        db_options.set(handle::give(make(&pumice::ColumnFamilyOptions::default())));
        num_column_families.set(list.len());
        names.set(Copied::list(&texts).into_c());
        families.set(pumice_port::os::c_memory::pointers(&list));
        Ok(())
    }

    fn rocksdb_load_latest_options_destroy(
        db_options: Taken<Options>, names: CopiedTexts, families: HandleList<Options>, count: usize
    ) {
        drop(db_options);
        names.free(count);
        families.destroy("rocksdb_load_latest_options_destroy", count);
    }
}
