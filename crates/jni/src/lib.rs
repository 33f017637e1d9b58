//! The native half of RocksDB's Java classes over the engine: `librocksdbjni.so`, which the classes
//! of `rocksdbjni` and `frocksdbjni` load unchanged.
//!
//! | module | role |
//! |---|---|
//! | `api` | the native methods, by area, in safe Rust |
//! | `callbacks` | objects of Java that the engine calls |
//! | `cassandra` | the operators of Cassandra's rows |
//! | `objects`, `open_transaction`, `records` | what handles of Java stand for |
//! | `maps` | maps of Java's |
//! | `ffi` | all that touches the virtual machine: arguments, results, handles, exceptions |
//!
//! What a method does without Java is in the crate `pumice-binding`. The build script (`build/`)
//! writes an exported function for every row of `tables/natives.tsv`: it calls the function of
//! `api` that names the method in its documentation (`Java: CLASS.METHOD`), or is an accessor of a
//! property of `pumice-binding`'s table, or throws NotSupported with the method's name.
//!
//! Thread safety: that of RocksDB's Java classes: databases, caches and options that nobody changes
//! are shared between threads; an iterator or a batch belongs to one at a time.
#![deny(unsafe_code)]
#![warn(missing_docs)]

mod api;
mod callbacks;
mod cassandra;
mod ffi;
mod maps;
mod objects;
mod open_transaction;
mod records;
