//! Secondary instances: what they see, when, and which calls are refused.

mod busy;
pub mod drawn;
mod lives;
mod torn;

use std::sync::Arc;

use crate::common::{DIR, options};
use pumice::{ColumnFamily, ColumnFamilyDescriptor, ColumnFamilyOptions, Db, FileSystem, Options};

/// Directory of a secondary's info log.
const BESIDE: &str = "/beside";

fn descriptors(options: &ColumnFamilyOptions, names: &[&str]) -> Vec<ColumnFamilyDescriptor> {
    names.iter().map(|name| ColumnFamilyDescriptor::new(*name, options.clone())).collect()
}

/// Opens with the default column family and `more`.
fn follow(fs: &Arc<dyn FileSystem>, more: &[&str]) -> (Db, Vec<ColumnFamily>) {
    let options: Options = options(fs);
    let names = [&["default"], more].concat();
    let families = descriptors(&options.cf, &names);
    Db::open_as_secondary(&options.db, DIR, BESIDE, &families).unwrap()
}

/// Everything in a column family.
fn contents_of(db: &Db, cf: &ColumnFamily) -> Vec<(Vec<u8>, Vec<u8>)> {
    db.iter_cf(cf).unwrap().map(|entry| entry.unwrap()).collect()
}
