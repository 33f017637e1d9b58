//! Ingestion of external files: what readers see, where files go, what is refused, what a crash
//! or a failing disk leaves.
#![allow(clippy::unwrap_used)]

mod behind;
#[path = "../common/mod.rs"]
mod common;
mod faults;
#[path = "../../../table/tests/hostile/forge.rs"]
mod forge;
mod hostile;
mod moments;
mod placing;
mod refusals;
mod support;
mod views;
mod writer;
