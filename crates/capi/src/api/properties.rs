//! Properties, sizes, identity, memory.

use pumice::{Error, Result};
use pumice_binding::database::Database;
use pumice_binding::store::{Fields, Plain, Store};

use crate::ffi::from::{Out, Text};
use crate::ffi::generated::{rocksdb_memory_usage_t, rocksdb_size_approximation_options_t};
use crate::ffi::into::{Copied, New};
use crate::ffi::lists::SizesOut;
use crate::ffi::macros::c_api;
use crate::ffi::types::{Cache, Family, MemoryConsumers};

pub(super) fn text(value: Option<String>) -> Option<Copied> {
    value.map(|value| Copied::of(value.as_bytes()))
}

/// These are texts in RocksDB, although a number is in them.
pub(super) fn is_number(name: &str) -> bool {
    !name.starts_with("rocksdb.num-files-at-level")
        && !name.starts_with("rocksdb.compression-ratio-at-level")
}

/// 0 if there is such a number, else -1.
pub(super) fn number(value: Option<u64>, mut out: Out<'_, u64>) -> i32 {
    match value {
        Some(value) => {
            out.set(value);
            0
        }
        None => -1,
    }
}

/// What of a column family is measured.
#[derive(Clone, Copy)]
struct Measured {
    memtables: bool,
    files: bool,
}

impl Measured {
    const FILES: Measured = Measured { memtables: false, files: true };

    fn of(options: &Store) -> Measured {
        Measured {
            memtables: options.flag("include_memtables"),
            files: options.flag("include_files"),
        }
    }

    fn sizes(self, db: &Database, cf: &pumice::ColumnFamily, sizes: SizesOut<'_>) -> Result<()> {
        if !self.memtables && !self.files {
            return Err(Error::invalid_argument("Invalid options"));
        }
        let mut sums = vec![0; sizes.ranges.len()];
        if self.files {
            sums = db.db().approximate_sizes_cf(cf, &sizes.ranges)?;
        }
        if self.memtables {
            for (sum, (start, end)) in sums.iter_mut().zip(&sizes.ranges) {
                *sum += db.db().approximate_memtable_stats_cf(cf, start, end)?.1;
            }
        }
        sizes.fill(&sums);
        Ok(())
    }
}

c_api! {
    fn rocksdb_property_value(db: &Database, name: Text<'_>) -> Option<Copied> {
        text(db.db().property(&name.text()))
    }

    fn rocksdb_property_value_cf(db: &Database, cf: &Family, name: Text<'_>) -> Option<Copied> {
        text(db.db().property_cf(&cf.0, &name.text()))
    }

    fn rocksdb_property_int(db: &Database, name: Text<'_>, value: Out<'_, u64>) -> i32 {
        let name = name.text();
        number(db.db().property_int(&name).filter(|_| is_number(&name)), value)
    }

    fn rocksdb_property_int_cf(
        db: &Database, cf: &Family, name: Text<'_>, value: Out<'_, u64>
    ) -> i32 {
        let name = name.text();
        number(db.db().property_int_cf(&cf.0, &name).filter(|_| is_number(&name)), value)
    }

    fn rocksdb_approximate_sizes(db: &Database, sizes: SizesOut, errptr: Fail) {
        Measured::FILES.sizes(db, db.default_family(), sizes)
    }

    fn rocksdb_approximate_sizes_cf(db: &Database, cf: &Family, sizes: SizesOut, errptr: Fail) {
        Measured::FILES.sizes(db, &cf.0, sizes)
    }

    fn rocksdb_approximate_sizes_cf_with_flags(
        db: &Database, cf: &Family, sizes: SizesFlagsOut, errptr: Fail
    ) {
        let (sizes, flags) = sizes;
        Measured { memtables: flags & 1 != 0, files: flags & 2 != 0 }.sizes(db, &cf.0, sizes)
    }

    fn rocksdb_approximate_sizes_with_options(
        db: &Database, options: &rocksdb_size_approximation_options_t, sizes: SizesOut,
        errptr: Fail
    ) {
        Measured::of(options.store()).sizes(db, db.default_family(), sizes)
    }

    fn rocksdb_approximate_sizes_cf_with_options(
        db: &Database, cf: &Family, options: &rocksdb_size_approximation_options_t,
        sizes: SizesOut, errptr: Fail
    ) {
        Measured::of(options.store()).sizes(db, &cf.0, sizes)
    }

    fn rocksdb_get_latest_sequence_number(db: &Database) -> u64 {
        db.db().latest_sequence_number()
    }

    fn rocksdb_get_db_identity(db: &Database, length: Out<'_, usize>) -> Copied {
        let identity = db.db().db_identity();
        let mut length = length;
        length.set(identity.len());
        Copied::of(identity.as_bytes())
    }

    fn rocksdb_memory_consumers_add_db(consumers: &mut MemoryConsumers, db: &Database) {
        consumers.databases.push(db.clone());
    }

    fn rocksdb_memory_consumers_add_cache(consumers: &mut MemoryConsumers, cache: &Cache) {
        consumers.caches.push(cache.clone());
    }

    fn rocksdb_approximate_memory_usage_create(
        consumers: &MemoryConsumers, errptr: Fail
    ) -> New<rocksdb_memory_usage_t> {
        let sum = |name: &str| -> u64 {
            let numbers = consumers.databases.iter().filter_map(|db| db.db().property_int(name));
            numbers.sum()
        };
        let caches: u64 = consumers.caches.iter().map(|cache| cache.blocks.usage() as u64).sum();
        let usage = Store::named("memory_usage")
            .with("mem_table_total", sum("rocksdb.size-all-mem-tables"))
            .with("mem_table_unflushed", sum("rocksdb.cur-size-all-mem-tables"))
            .with("mem_table_readers_total", sum("rocksdb.estimate-table-readers-mem"))
            .with("cache_total", caches);
        Ok(New(Plain(usage)))
    }
}
