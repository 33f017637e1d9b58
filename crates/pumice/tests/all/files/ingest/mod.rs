//! Ingestion of external files: what readers see, which level files go to, what is refused, and the
//! state after a crash or a disk failure.

mod behind;
mod caching;
mod checksums;
mod faults;
mod foreign;
#[path = "../../../../../table/tests/hostile/forge.rs"]
mod forge;
mod from_database;
mod hostile;
mod moments;
mod placing;
mod refusals;
mod replacing;
mod staged;
mod support;
mod views;
mod writer;
