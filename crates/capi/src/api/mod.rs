//! The functions, by area.
//!
//! Thread safety: see the crate.

mod backups;
mod batches;
mod caches;
mod checkpoints;
mod environment;
mod families;
mod indexed_batches;
mod iterators;
mod listeners;
mod maintenance;
mod metadata;
mod open;
mod operators;
mod options;
mod options_objects;
mod properties;
mod reads;
mod requests;
mod statistics;
mod storage_info;
mod table_filters;
mod tables;
mod timestamps;
mod transaction_databases;
mod transactions;
mod wal;
mod writes;

pub use backups::*;
pub use batches::*;
pub use caches::*;
pub use checkpoints::*;
pub use environment::*;
pub use families::*;
pub use indexed_batches::*;
pub use iterators::*;
pub use listeners::*;
pub use maintenance::*;
pub use metadata::*;
pub use open::*;
pub use operators::*;
pub use options::*;
pub use options_objects::*;
pub use properties::*;
pub use reads::*;
pub use requests::*;
pub use statistics::*;
pub use storage_info::*;
pub use table_filters::*;
pub use tables::*;
pub use timestamps::*;
pub use transaction_databases::*;
pub use transactions::*;
pub use wal::*;
pub use writes::*;
