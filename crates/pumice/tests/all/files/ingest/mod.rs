//! Ingestion of external files: what readers see, where files go, what is refused, what a crash
//! or a failing disk leaves.

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
mod support;
mod views;
mod writer;
