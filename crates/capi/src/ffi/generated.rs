//! The functions and types that the build script writes from the tables.
#![allow(missing_docs, clippy::missing_safety_doc, clippy::too_many_arguments)]
#![allow(non_camel_case_types, clippy::type_complexity, missing_debug_implementations)]
#![allow(clippy::undocumented_unsafe_blocks)] // Each has its comment in the generated text.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

use pumice_binding::store::Plain;

pub use super::into::Slice;
use super::{accessor, handle};
pub use crate::ffi::types::*;

include!(concat!(env!("OUT_DIR"), "/types.rs"));
include!(concat!(env!("OUT_DIR"), "/accessors.rs"));
include!(concat!(env!("OUT_DIR"), "/stubs.rs"));

/// What is generated, written by hand and missing.
pub const STATE: &str = include_str!(concat!(env!("OUT_DIR"), "/capi_state.txt"));
/// The exported names, one a line.
pub const EXPORTS: &str = include_str!(concat!(env!("OUT_DIR"), "/exports.txt"));
