//! The native methods, by area. A line `Java: CLASS.METHOD` in a function's documentation makes it
//! that method (`build/by_hand.rs`).
//!
//! | module | area |
//! |---|---|
//! | `opening` | open, close, column families |
//! | `reads`, `writes`, `cursors` | single keys, iterators, snapshots |
//! | `batches`, `indexed`, `updates` | write batches without and with an index, what is in one |
//! | `options`, `tables`, `requests`, `slices` | options of databases, of tables, of calls |
//! | `load` | options of files |
//! | `caches` | caches, limiters, managers, environments |
//! | `statistics`, `perf`, `properties`, `threads`, `traces` | what is measured and reported |
//! | `exchange` | exported column families; filters of logs and tables |
//! | `maintenance`, `files`, `readers` | flushes, compactions, checkpoints, table files |
//! | `backups` | backup engines |
//! | `transactions`, `parts`, `snapshots`, `locks` | databases with transactions |
//! | `callbacks` | objects of Java that the engine calls |

pub mod backups;
pub mod batches;
pub mod caches;
pub mod callbacks;
pub mod cursors;
pub mod exchange;
pub mod files;
pub mod indexed;
pub mod load;
pub mod locks;
pub mod maintenance;
pub mod opening;
pub mod options;
pub mod parts;
pub mod perf;
pub mod properties;
pub mod readers;
pub mod reads;
pub mod requests;
pub mod slices;
pub mod snapshots;
pub mod statistics;
pub mod tables;
pub mod threads;
pub mod traces;
pub mod transactions;
pub mod updates;
pub mod writes;

use pumice_binding::database::Database;

use crate::objects::Family;

/// The column family, or the default one.
fn family<'a>(db: &'a Database, cf: Option<&'a Family>) -> &'a pumice::ColumnFamily {
    cf.map_or_else(|| db.default_family(), |cf| &cf.0)
}
