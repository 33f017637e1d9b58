//! Column families.

use pumice::Result;
use pumice_binding::database::Database;

use crate::ffi::from::{Out, Text};
use crate::ffi::into::{Copied, New, NewList};
use crate::ffi::lists::HandleList;
use crate::ffi::macros::c_api;
use crate::ffi::types::{Family, Options};

fn create(db: &Database, options: &Options, name: &str, ttl: i32) -> Result<Family> {
    let engine = options.values.to_engine()?;
    db.create_family_with_ttl(&engine.cf, name, ttl).map(Family)
}

c_api! {
    fn rocksdb_create_column_family(
        db: &Database, options: &Options, name: Text<'_>, errptr: Fail
    ) -> New<Family> {
        create(db, options, &name.text(), 0).map(New)
    }

    fn rocksdb_create_column_family_with_ttl(
        db: &Database, options: &Options, name: Text<'_>, ttl: i32, errptr: Fail
    ) -> New<Family> {
        create(db, options, &name.text(), ttl).map(New)
    }

    fn rocksdb_create_column_families(
        db: &Database, options: &Options, names: NamesOut, errptr: Fail
    ) -> NewList<Family> {
        let (names, mut count) = names;
        count.set(0);
        let made = names.iter().map(|name| create(db, options, name, 0));
        let made = made.collect::<Result<Vec<_>>>()?;
        count.set(made.len());
        Ok(NewList(made))
    }

    fn rocksdb_create_column_families_destroy(list: HandleList<Family>) {
        list.free();
    }

    fn rocksdb_drop_column_family(db: &Database, cf: &Family, errptr: Fail) {
        db.db().drop_column_family(&cf.0)
    }

    fn rocksdb_column_family_handle_get_id(cf: &Family) -> u32 {
        cf.0.id()
    }

    fn rocksdb_column_family_handle_get_name(cf: &Family, length: Out<'_, usize>) -> Copied {
        let mut length = length;
        length.set(cf.0.name().len());
        Copied::of(cf.0.name().as_bytes())
    }

    fn rocksdb_get_default_column_family_handle(db: &Database) -> New<Family> {
        New(Family(db.default_family().clone()))
    }
}
